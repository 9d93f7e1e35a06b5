/* The studio's folder and its database: what must be there after a crash is in one of them.
 *
 *     studio.db       jobs, what is known of inputs and pictures, settings          (SQLite, write-ahead log)
 *     inputs/         pictures that clients gave, named by the SHA-256 of their bytes
 *     gallery/        pictures with a JSON file beside each that says everything about it: these are the truth,
 *                     the table of them is an index that is made again from the files when it is lost
 *     results/        pictures of jobs that were not to be kept in the gallery
 *     thumbnails/     small ones of the gallery's, made when they are asked for
 *     gallery/.trash/ what was deleted from the gallery: with it on one disk, whichever that is
 *     reserve         room that is kept for the day when the disk is full
 *
 * All functions block, so they are called by the disk's thread, one at a time; a store knows nothing of the loop.
 *
 * Errors tell by their code what a client can be told: KN_E_FULL: no space is left; KN_E_READONLY: nothing may be
 * written there; KN_E_IO: the database cannot be used at the moment, for example because another program holds it;
 * KN_E_NOT_FOUND; KN_E_USAGE: not in this state.
 * Whatever fails leaves the database as it was. A database that is damaged is moved aside when it is opened and a new
 * one is begun, with the gallery and the inputs that the files tell of. One that is another program's (told by SQLite's
 * application_id, and by its tables) is refused and left alone, and so is one of a later version. */
#ifndef KN_STUDIO_STORE_H
#define KN_STUDIO_STORE_H

#include <sqlite3.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* What to do about KN_E_READONLY. */
#define KN_STORE_READONLY "Nothing may be written there: mount the disk for writing, or let Kuno's user write there"
#define KN_STORE_TRASH    "gallery/.trash" /* a room */
enum { KN_STORE_FILE_MAX = 256 << 20 };    /* bytes of one picture file */

typedef struct kn_store {
    sqlite3 *db;
    char *folder;    /* absolute */
    bool was_broken; /* the database was damaged and has been begun anew */
    bool has_reserve;
    dev_t gallery_dev; /* the gallery's folder as it was at the opening */
    ino_t gallery_ino;
    bool has_remains; /* of what was deleted, maybe: in the log of changes */
    unsigned wait_ms; /* for another program's lock */
    bool is_held;     /* that was longer: nobody waits until a lock is had at once */
    double gives_up;
    uint64_t last_id_ms;
    uint8_t last_id[10]; /* random part of the last identifier */
} kn_store;

/* Makes the folder if there is none, and removes what an earlier service has half written. wait_ms: how long another
 * program's lock on the database is waited for, once: whoever comes behind one that waited in vain is refused at once,
 * until there is no such lock any more. */
bool kn_store_open(const char *folder, unsigned wait_ms, kn_store **ret, kn_error *err);
void kn_store_close(kn_store *s); /* NULL is fine */

/* What comes next waits again, whoever waited before: for what is not tried a second time. */
void kn_store_be_patient(kn_store *s);

/* Whether kn_store_open would find nothing in its way in the folder, as far as that is there and can be opened; nothing
 * is made or changed. Not while this process has the store open. A disk that may only be read is not in the way. */
bool kn_store_look(const char *folder, kn_error *err);

/* KN_E_READONLY: it lies on such a disk, or a room of it does. */
bool kn_store_look_to_write(const char *folder, kn_error *err);

/* For what ends or removes something, and has failed: whether it was for want of room and there is some now, for there
 * was a reserve, so that it can be tried again. err is then empty. The reserve is kept anew when there is room. */
bool kn_store_makes_room(kn_store *s, kn_error *err);

/* Ends what is still to be read of deleted rows in the log of changes, which grows for days otherwise. A pause of the
 * disk, so not for every row. False: the database is in other hands at the moment, or the disk is full. */
bool kn_store_wipe_remains(kn_store *s);

/* Gives back what it keeps in memory of the database's pages, which grows with it up to some MiB: when all is quiet. */
void kn_store_rest(kn_store *s);

/* A path inside the folder; false: memory is out. The caller frees it. */
bool kn_store_path(const kn_store *s, const char *room, const char *name, char **ret, kn_error *err);

/* Whether the gallery's folder is still the one that was there at the opening: where its disk has gone, what is missing
 * has not been deleted. KN_E_IO: it is not. */
bool kn_store_has_its_gallery(const kn_store *s, kn_error *err);

/* Whether something can be written into the studio's folder just now, and how many bytes are free there. */
bool kn_store_is_writable(const kn_store *s);
uint64_t kn_store_free_bytes(const kn_store *s);

/* Whether there, and in this room of it, which may be another disk, something of that size can be written just now.
 * KN_E_FULL, KN_E_READONLY: it cannot. */
bool kn_store_takes(const kn_store *s, const char *room, uint64_t bytes, kn_error *err);

/* ---- statements ----
 *
 * types: one letter for each value that follows: i int64_t, d double, t const char * (may be NULL), b bool. */
typedef struct kn_query {
    kn_store *store;
    sqlite3_stmt *statement;
    kn_error *err;
    bool failed;
} kn_query;

/* Begins to read rows. Whatever fails is noted and comes out at the end, so that only that needs a look. */
kn_query kn_query_open(kn_store *s, kn_error *err, const char *sql, const char *types, ...);
bool kn_query_next(kn_query *r);
int64_t kn_query_int(const kn_query *r, int column);
double kn_query_real(const kn_query *r, int column);
const char *kn_query_text(const kn_query *r, int column); /* NULL: null; valid until the next row */
bool kn_query_close(kn_query *r);                         /* whether all went well */

/* A statement that gives no rows. ret_changed (may be NULL): how many it changed. */
bool kn_store_do(kn_store *s, kn_error *err, int *ret_changed, const char *sql, const char *types, ...);

/* Several as one: kn_store_end commits if `good`, else takes all of it back; it returns whether it was committed. */
bool kn_store_begin(kn_store *s, kn_error *err);
bool kn_store_end(kn_store *s, bool good, kn_error *err);

/* ---- identifiers ----
 *
 * "job_" and 26 letters: 48 bits of time and 80 at random; later ones sort behind earlier ones. */
enum { KN_ID_BYTES = 32 };
typedef struct kn_id {
    char text[KN_ID_BYTES];
} kn_id;

bool kn_store_new_id(kn_store *s, const char *prefix, kn_id *ret, kn_error *err);
bool kn_id_is_valid(const char *text, const char *prefix);
int64_t kn_id_made_ms(const char *text, const char *prefix); /* when a valid one was made, since 1970 */

/* Milliseconds since 1970. */
int64_t kn_store_now_ms(void);

#endif
