/* A file that is being downloaded: NAME.part, as large as it will be, and its journal NAME.part.journal (pieces.h) in
 * the folder where NAME will be. Only its owner can read it, and only one process at a time works on it. NAME itself
 * comes into being by a rename when all of it has been checked, and never replaces anything.
 *
 * What is on the disk when: the bytes of pieces before the journal names them; all bytes before NAME. */
#ifndef KN_CATALOG_PARTIAL_H
#define KN_CATALOG_PARTIAL_H

#include <stdint.h>

#include "base/buf.h"

typedef struct kn_partial {
    int dir_fd, fd, journal_fd;
    char *name, *part, *journal;
    uint64_t bytes;
    bool is_new;      /* there was none of that size */
    uint64_t emptied; /* bytes of one of another size */
} kn_partial;

/* Opens root/folder and makes both if they are not there. The descriptor is the caller's to close; -1: an error. */
int kn_partial_folder(const char *root, const char *folder, kn_error *err);

/* A regular file's size by its name in a folder; false: there is none. */
bool kn_partial_size(int dir_fd, const char *name, uint64_t *ret);

/* Takes over dir_fd, also when it fails. What is there of another size is emptied. KN_E_USAGE: another process is at
 * it; KN_E_OUTPUT: NAME is there, or what is to be written is no file of its own (a link, of either kind). */
bool kn_partial_open(int dir_fd, const char *name, uint64_t bytes, kn_partial *ret, kn_error *err);
void kn_partial_close(kn_partial *p); /* what there is stays */

/* What a file of so many bytes still needs of the disk, and what is free there. */
bool kn_partial_space(int dir_fd, const char *name, uint64_t bytes, uint64_t *ret_needed, uint64_t *ret_free,
                      kn_error *err);

/* Gets all the space there will be need of. KN_E_FULL: there is too little, and how much. */
bool kn_partial_reserve(kn_partial *p, kn_error *err);

bool kn_partial_write(const kn_partial *p, uint64_t at, const void *data, size_t len, kn_error *err);
bool kn_partial_read(const kn_partial *p, uint64_t at, void *into, size_t len, kn_error *err);
bool kn_partial_sync(const kn_partial *p, kn_error *err);
void kn_partial_begin_sync(const kn_partial *p, uint64_t at, uint64_t len); /* so that the next one has less to do */

bool kn_partial_read_journal(const kn_partial *p, kn_buf *into, kn_error *err);

/* anew: instead of what there is. It is on the disk afterwards. */
bool kn_partial_write_journal(const kn_partial *p, bool anew, const kn_buf *text, kn_error *err);

/* Gives the file its name, if it still is the one that was written and has its size. KN_E_OUTPUT: somebody else has
 * made one of that name; KN_E_FORMAT: somebody else has changed or replaced what would be named. */
bool kn_partial_activate(kn_partial *p, kn_error *err);

/* Removes what is there of it, from an open one or by its name. */
void kn_partial_discard(kn_partial *p);
bool kn_partial_forget(int dir_fd, const char *name, kn_error *err);

#endif
