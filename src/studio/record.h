/* Everything that is known of a picture in the gallery, as it is written beside it. Reading is strict: people may edit
 * these files, and a damaged one is told from a good one. */
#ifndef KN_STUDIO_RECORD_H
#define KN_STUDIO_RECORD_H

#include <jansson.h>

#include "studio/files.h"

enum { KN_RECORD_BYTES = 1 << 20 };

typedef struct kn_record {
    kn_id id;
    int64_t created_s;
    kn_id job;            /* empty: none */
    unsigned number;      /* which of the job's pictures */
    char *file;           /* name in gallery/ */
    char *title, *prompt; /* NULL: none */
    kn_studio_kind kind;
    uint32_t width, height;
    kn_picture_format format;
    uint64_t bytes;
    kn_sha256 sha256;
    bool favorite;
    size_t tag_count;
    char *tags[KN_REQUEST_TAGS];
    char profile[KN_NAME_BYTES]; /* empty: none */
    bool has_seed;
    uint64_t seed;
    size_t source_count;
    char sources[KN_REQUEST_INPUTS][KN_SHA256_TEXT];
    char *recipe;    /* a JSON object; NULL: none */
    bool unreadable; /* the file beside it could not be understood: this is what the picture itself tells */
} kn_record;

bool kn_record_read(const char *text, size_t len, kn_record *ret, kn_error *err);
json_t *kn_record_write(const kn_record *r); /* NULL: out of memory */
void kn_record_free(kn_record *r);

/* What a client wants changed. */
typedef struct kn_record_patch {
    bool has_title, has_favorite, has_tags;
    char *title; /* NULL: none any more */
    bool favorite;
    size_t tag_count;
    char *tags[KN_REQUEST_TAGS];
} kn_record_patch;

bool kn_record_patch_read(const char *text, size_t len, kn_record_patch *ret, kn_buf *pointer, kn_error *err);
void kn_record_patch_free(kn_record_patch *p);

/* Takes the texts out of the patch. */
void kn_record_change(kn_record *r, kn_record_patch *p);

#endif
