/* One file of the catalogue, from its address to its name.
 *
 * Files of 16 MiB and more come over eight connections, each of which asks for one to eight pieces of 8 MiB at a time;
 * when nothing is left to begin with, an idle connection takes over the second half of what the slowest one has before
 * it, or fetches its last piece, too, and whoever is first wins. A server that does not send parts of files gets one
 * connection and is asked for the whole.
 *
 * A request that fails is made again, after a wait that doubles each time and is at least what the server asks for; a
 * connection that fails too often in a row ends, and the last one of them ends the download. What has come stays then,
 * as it does after kn_fetch_run was stopped, killed or left without power, and the next call goes on with it, unless
 * the file behind the address is another one by then (ETag, If-Range). Bytes are only ever taken for what the server
 * says they are, in Content-Range, and the whole only when its SHA-256 is the catalogue's; if it is another, all of it
 * is fetched once more. */
#ifndef KN_CATALOG_FETCH_H
#define KN_CATALOG_FETCH_H

#include "catalog/origin.h"

typedef enum kn_fetch_state {
    KN_FETCH_CHECKING,   /* a file of that name is there: whether it is the one */
    KN_FETCH_CONNECTING, /* nothing has come yet */
    KN_FETCH_RUNNING,
    KN_FETCH_STALLED, /* nothing comes any more; it will be tried again */
    KN_FETCH_VERIFYING,
} kn_fetch_state;

typedef struct kn_fetch_progress {
    kn_fetch_state state;
    uint64_t bytes_done, bytes_total;
    double bytes_per_second; /* of the last seconds; 0: not known yet */
    unsigned connections;    /* over which something comes */
} kn_fetch_progress;

/* What came in the way, for programs; kn_error has the sentence for people. */
typedef enum kn_fetch_problem {
    KN_FETCH_FINE,
    KN_FETCH_OFFLINE,  /* it is not there, and no network may be used */
    KN_FETCH_DIFFERS,  /* a file of that name has other content; it was left alone */
    KN_FETCH_BUSY,     /* another process is at it */
    KN_FETCH_NO_SPACE, /* the disk is full */
    KN_FETCH_READONLY, /* nothing may be written there */
    KN_FETCH_MOVED,    /* the server has no such file, or one of another size */
    KN_FETCH_DENIED,   /* the server does not give it, or leads to where nothing is fetched from */
    KN_FETCH_NETWORK,  /* it could not be had, in spite of several tries */
    KN_FETCH_CORRUPT,  /* what came has another SHA-256, twice */
    KN_FETCH_STOPPED,
    KN_FETCH_INTERNAL,
    KN_FETCH_PROBLEMS,
} kn_fetch_problem;
extern const char *const kn_fetch_problems[KN_FETCH_PROBLEMS]; /* "no_space" */

enum { KN_FETCH_TIMEOUT_S = 30, KN_FETCH_TRIES = 8 };

typedef struct kn_fetch {
    const kn_origin *origin; /* not looked at offline */
    const kn_artifact *artifact;
    const char *directory; /* of models; what is missing of its folders is made */
    bool offline;          /* only looks whether it is there and whole */
    unsigned timeout_s;    /* without a byte, until a connection is begun anew; 0: as above */
    unsigned tries;        /* of a connection in a row; 0: as above */

    /* Some times a second, from the calling thread; each may be NULL. */
    void (*progress)(void *ctx, const kn_fetch_progress *p);
    bool (*stops)(void *ctx); /* true: end soon; what has come stays */
    void *ctx;
} kn_fetch;

typedef struct kn_fetch_result {
    bool was_there;         /* nothing had to be fetched */
    uint64_t emptied_bytes; /* of an unfinished file that was none of this one */
    kn_fetch_problem problem;
} kn_fetch_result;

/* *ret is filled in any case. KN_E_CANCELLED: it was stopped. */
bool kn_fetch_run(const kn_fetch *f, kn_fetch_result *ret, kn_error *err);

/* Where it goes, or is. The caller frees it. */
bool kn_artifact_path(const kn_artifact *a, const char *directory, char **ret, kn_error *err);

/* Whether there is a file of that name and size, as all that this program has named is. It is not read. */
bool kn_artifact_is_there(const kn_artifact *a, const char *directory);

/* Bytes that are still needed on the disk for it, and how many are free there. Makes the folder. */
bool kn_artifact_space(const kn_artifact *a, const char *directory, uint64_t *ret_needed, uint64_t *ret_free,
                       kn_error *err);

/* Removes what has come of it so far. */
bool kn_fetch_forget(const kn_artifact *a, const char *directory, kn_error *err);

#endif
