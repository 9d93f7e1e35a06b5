/* The connections that fetch one file into its place on the disk. Internal to the room. */
#ifndef KN_CATALOG_DOWNLOAD_H
#define KN_CATALOG_DOWNLOAD_H

#include "catalog/fetch.h"
#include "catalog/keeper.h"
#include "catalog/library.h"

enum { KN_CONNECTIONS = 8 };

typedef struct kn_download kn_download;

/* How fast it goes, from the last seconds. */
enum { KN_RATE_SAMPLES = 16 };
typedef struct kn_rate {
    unsigned count;
    struct {
        double at;
        uint64_t bytes;
    } samples[KN_RATE_SAMPLES]; /* the newest last */
} kn_rate;

/* One request after the other. */
typedef struct kn_connection {
    kn_download *download;
    CURL *easy;
    struct curl_slist *lines; /* of the request */
    bool busy;                /* a request is on its way … */
    bool is_stale;            /* … of which nothing more is wanted */
    bool retired;             /* it failed too often */
    bool has_work;
    kn_stretch work;                /* what is still to be fetched: `at` moves on */
    uint64_t asked_from, asked_end; /* what was asked for */
    char *address;
    unsigned hops; /* redirects on the way there */
    kn_answer answer;
    bool judged, takes; /* whether it is known what the body is; whether it is part of the file */
    uint64_t got;       /* bytes of the file by this request */
    char *held; /* what has come from `work.at` on and is not written yet; it ends with that piece at the latest */
    size_t held_bytes;
    size_t ignored;    /* of a body that is not */
    unsigned failures; /* in a row */
    double asked, rests_until;
    char trouble[CURL_ERROR_SIZE]; /* why its request was of no use, for messages */
    char library_says[CURL_ERROR_SIZE];
} kn_connection;

struct kn_download {
    const kn_fetch *order;
    const kn_partial *part;
    kn_pieces *pieces;
    kn_keeper *keeper;
    CURLM *multi;
    kn_connection connections[KN_CONNECTIONS];
    unsigned count;            /* of connections */
    char *start;               /* the address of the catalogue … */
    char *found;               /* … and where redirects from there led; NULL: not known */
    char etag[KN_ETAG_BYTES];  /* of the bytes that are there; empty: not known */
    bool has_journal;          /* it has been begun */
    bool has_bytes;            /* something is there that would be lost */
    bool knows_ranges, single; /* the server sends parts; it does not */
    unsigned restarts;
    double heard;                  /* when something came last; 0: never */
    char trouble[CURL_ERROR_SIZE]; /* of the last request that failed, for messages */
    kn_rate rate;
    kn_fetch_problem problem; /* which ends all */
    kn_error *err;
};

/* What the disk has refused: the code of a failure of partial.h. */
kn_fetch_problem kn_fetch_problem_of(kn_code code);

/* Ends the download: always false. */
#define kn_download_fail(d, problem, ...) kn_failed(kn_download_set_failed(d, problem, __VA_ARGS__))
int kn_download_set_failed(kn_download *d, kn_fetch_problem problem, kn_code code, const char *fmt, ...)
    KN_PRINTF(4, 5);

/* The same for what failed on the disk, which is in d->err already. */
#define kn_download_fail_disk(d) kn_failed(kn_download_set_failed_disk(d))
int kn_download_set_failed_disk(kn_download *d);

/* ---- connection.c ---- */
bool kn_connection_open(kn_download *d, kn_connection *c);
void kn_connection_close(kn_connection *c);

/* Asks for what its work is. */
bool kn_connection_ask(kn_connection *c);

/* The request has ended so: what follows from it, for the connection and for all. */
void kn_connection_ended(kn_connection *c, CURLcode result);

/* Nothing more is wanted of its request, … */
void kn_connection_drop(kn_connection *c);
void kn_connection_sweep(kn_connection *c); /* … which ends here, outside of all callbacks */

/* Writes what it holds. False: the disk has failed. */
bool kn_connection_write(kn_connection *c);

/* Gives its work back; a piece that another connection fetches, too, stays with that one. */
void kn_connection_give_back(kn_connection *c);

/* ---- transfer.c ---- */

/* Fetches what is missing of the pieces, and hashes all of them. False: it ended before; d->problem says why. */
bool kn_download_run(kn_download *d, char hash[KN_SHA256_HEX]);

#endif
