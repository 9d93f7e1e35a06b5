/* The pictures that are kept: a file, a JSON file beside it that says everything (record.h), and a row in a table that
 * only makes them quick to find. The files are the truth: what they say counts after every start. */
#ifndef KN_STUDIO_GALLERY_H
#define KN_STUDIO_GALLERY_H

#include "studio/jobs.h"
#include "studio/record.h"

enum { KN_TRASH_DAYS = 30, KN_THUMBNAIL_MAX = 1024 };

/* A picture that a job made, with everything about it but id, file, bytes and digest, which are set here. Its files are
 * on the disk before its rows are; rows of job and gallery come in one. */
bool kn_gallery_save(kn_store *s, kn_record *record, const void *data, size_t len, kn_error *err);

/* The same for a picture that is not to be kept: it stays with its job. */
bool kn_results_save(kn_store *s, kn_record *record, const void *data, size_t len, kn_error *err);

/* As clients see it. */
json_t *kn_gallery_json(const kn_store *s, const kn_record *record);

/* KN_E_NOT_FOUND: there is no such picture. */
bool kn_gallery_find(kn_store *s, const char *id, kn_record *ret, kn_error *err);

/* The picture's file, whole. KN_E_FORMAT: it is not what was saved. */
bool kn_gallery_read(kn_store *s, const kn_record *record, size_t limit, kn_buf *into, kn_error *err);

/* The recipe of the picture that has these bytes; *ret NULL: there is none. */
bool kn_gallery_recipe(kn_store *s, const kn_sha256 *digest, json_t **ret, kn_error *err);

typedef struct kn_gallery_filter {
    const char *words;     /* all of them must occur in prompt, title or tags; NULL: any */
    const char *tag, *job; /* NULL: any */
    bool has_favorite, favorite;
    unsigned limit;
    int64_t before; /* 0: from the newest */
} kn_gallery_filter;
bool kn_gallery_list(kn_store *s, const kn_gallery_filter *filter, json_t *into, int64_t *ret_next, kn_error *err);

/* Of what the JSON file says now, into which people may have written. KN_E_USAGE: it cannot be understood, and is not
 * replaced, as people may still read in it. */
bool kn_gallery_change(kn_store *s, const char *id, kn_record_patch *patch, kn_record *ret, kn_error *err);

/* To the trash, from which it goes after KN_TRASH_DAYS. keep_file: the picture itself stays where it is. */
bool kn_gallery_delete(kn_store *s, const char *id, bool keep_file, kn_error *err);

/* A copy in a folder of the machine's, which must be there. KN_E_USAGE: something has that name already, and is never
 * replaced. *ret_path: malloc. */
bool kn_gallery_export(const char *folder, const char *name, const void *data, size_t len, char **ret_path,
                       kn_error *err);

/* Whether the files are those of the table, as far as can be told without reading them and in a moment: the newest
 * first. */
typedef struct kn_gallery_agreement {
    unsigned seen, differing; /* gone, no regular files, of another size, or without the JSON file that is known */
    bool whole;               /* all were looked at */
} kn_gallery_agreement;
bool kn_gallery_compare(kn_store *s, kn_gallery_agreement *ret, kn_error *err);

/* After a start: the table becomes what the files say, in the order of their dates where it lacked some; half a picture
 * goes, and so do results and thumbnails that no row knows of. *ret_broken: JSON files that cannot be
 * understood; they stay as they are, and so do their pictures: with what the table says of them, or, where it says
 * nothing, with what the picture's file tells. */
bool kn_gallery_reconcile(kn_store *s, unsigned *ret_broken, kn_error *err);

/* Removes from the trash what has been in it for KN_TRASH_DAYS. */
bool kn_gallery_expire_trash(kn_store *s, kn_error *err);

#endif
