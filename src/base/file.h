/* Files: mapped for reading, read whole below a limit, replaced so that nobody ever sees half a file. */
#ifndef KN_BASE_FILE_H
#define KN_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"

/* What tells a file from the next one in its place, and from itself when more was written. All 0: there is no file. */
typedef struct kn_edition {
    dev_t device;
    ino_t file;
    off_t bytes;
    struct timespec changed;
} kn_edition;

/* Of what is there now; path NULL: nothing is. */
kn_edition kn_edition_of(const char *path);
bool kn_edition_is(const kn_edition *a, const kn_edition *b);

/* A file mapped read-only. Pages come from the page cache when they are touched, so a large file costs no memory of its
 * own. A file that is cut short while mapped kills the process with SIGBUS; engines therefore run in a process of their
 * own in the server. */
typedef struct kn_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t len;
    kn_edition edition; /* of the file that was opened */
} kn_map;

/* Errors name neither path nor component, so that the caller decides what may be shown. */
bool kn_map_open(const char *path, kn_map *ret, kn_error *err);
void kn_map_close(kn_map *m);

/* Reads a whole regular file of at most `limit` bytes; adds to `into`. */
bool kn_file_read(const char *path, size_t limit, kn_buf *into, kn_error *err);

/* The same, but not where the path names a symbolic link. */
bool kn_file_read_no_link(const char *path, size_t limit, kn_buf *into, kn_error *err);

/* Whether the path is the folder itself or lies in it, by their words: both absolute, with single slashes. */
bool kn_path_is_within(const char *path, const char *folder);

/* A file under construction beside its final place: written, synced and named by kn_output_commit, or removed without a
 * trace by kn_output_drop. Both may be called on a dropped or committed output again; they then do nothing.
 *
 * Until it is complete the file has no name at all, so that not even a killed process leaves anything behind. Where the
 * file system has no such files, and while it takes the place of another one, it has a name of its own, ".kuno-….part",
 * in the same folder. */
typedef struct kn_output {
    int dir_fd, fd;
    char *name;    /* final name inside the folder */
    char temp[64]; /* name while it is made; empty if it has none */
} kn_output;

/* clobber: whether commit may replace a file of that name; if not, an existing one is an error at open and at commit.
 */
bool kn_output_open(const char *path, bool clobber, kn_output *ret, kn_error *err);
/* Whether kn_output_open would find nothing of that name in its way; nothing is made. */
bool kn_output_look(const char *path, bool clobber, kn_error *err);

bool kn_output_write(kn_output *o, const void *data, size_t len, kn_error *err);
bool kn_output_commit(kn_output *o, bool clobber, kn_error *err);
void kn_output_drop(kn_output *o);

/* What it means that something could not be written, made, named or removed, by errno: KN_E_FULL, KN_E_READONLY, else
 * `other`. */
kn_code kn_code_of_write(int error, kn_code other);

/* Whether a file is called so: if nobody writes it just now, a process was killed that did. */
bool kn_output_is_unfinished(const char *name);

#endif
