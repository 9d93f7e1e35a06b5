/* Files of the store: written whole or not at all, hashed, read whole. A symbolic link in the place of one is none: who
 * can make links there must not read by the service what lies elsewhere. */
#ifndef KN_STUDIO_FILES_H
#define KN_STUDIO_FILES_H

#include "studio/request.h"
#include "studio/store.h"

typedef struct kn_sha256 {
    char text[KN_SHA256_TEXT]; /* 64 hexadecimal digits in lower case */
} kn_sha256;

bool kn_sha256_of(const void *data, size_t len, kn_sha256 *ret, kn_error *err);

/* Writes and names it when it is on the disk; an existing one is replaced. */
bool kn_store_write(const kn_store *s, const char *room, const char *name, const void *data, size_t len, kn_error *err);
bool kn_store_read(const kn_store *s, const char *room, const char *name, size_t limit, kn_buf *into, kn_error *err);

/* The trash, which is no link to another folder; it is made when something comes into it. */
bool kn_store_has_trash(const kn_store *s);
bool kn_store_make_trash(const kn_store *s, kn_error *err);

/* Moves it to another room of the same disk, which is there; a file that is not there is none to move. */
bool kn_store_move(const kn_store *s, const char *room, const char *name, const char *to, kn_error *err);
bool kn_store_has(const kn_store *s, const char *room, const char *name);
bool kn_store_size(const kn_store *s, const char *room, const char *name, uint64_t *ret); /* false: it is not there */
void kn_store_remove(const kn_store *s, const char *room, const char *name);

/* Calls for every file in a room whose name does not begin with a dot. False stops, and so does an error. */
typedef bool kn_store_visit(void *ctx, kn_store *s, const char *name, kn_error *err);
bool kn_store_each(kn_store *s, const char *room, kn_store_visit *visit, void *ctx, kn_error *err);

#endif
