/* Downloads as rows: each state is on the disk before anybody hears of it.
 *
 *     queued ──► running ──► completed | failed
 *        ▲          │
 *        └── paused ┴── cancelled      people may do this at any time before the end; failed ones can be queued again
 *
 * A completed one is then looked at once: whether a model is complete with it (arrivals.h).
 * What has come of a file is told by the file and its journal (catalog/partial.h), not by these rows. */
#ifndef KN_STUDIO_DOWNLOADS_H
#define KN_STUDIO_DOWNLOADS_H

#include <jansson.h>

#include "catalog/fetch.h"
#include "studio/files.h"
#include "studio/jobs.h"

enum { KN_DOWNLOADS_UNFINISHED = 100, KN_DOWNLOADS_HISTORY = 1000 };

typedef struct kn_new_download {
    const kn_artifact *artifact;
    const char *directory; /* of models */
    const char *key;       /* of the request; NULL: none */
    kn_sha256 body;
} kn_new_download;

/* KN_E_USAGE: the same is under way; KN_E_RANGE: so many are. */
bool kn_downloads_add(kn_store *s, const kn_new_download *d, kn_id *ret, kn_error *err);

/* The collections that it is a part of, as clients see them. a: NULL: not known any more. */
json_t *kn_downloads_collections(const kn_collections *all, const kn_artifact *a);

/* As clients see it. all: for titles, sizes and paths. */
bool kn_downloads_get(kn_store *s, const kn_collections *all, const char *id, json_t **ret, kn_error *err);
bool kn_downloads_list(kn_store *s, const kn_collections *all, unsigned limit, int64_t before, json_t *into,
                       int64_t *ret_next, kn_error *err);

/* The oldest that waits, which runs then. ret_id is empty if there is none. */
typedef struct kn_download_work {
    char id[KN_ID_BYTES];
    char *artifact, *directory;
} kn_download_work;
bool kn_downloads_take(kn_store *s, kn_download_work *ret, kn_error *err);
bool kn_downloads_work(kn_store *s, const char *id, kn_download_work *ret, kn_error *err); /* KN_E_NOT_FOUND */
void kn_download_work_free(kn_download_work *w);

typedef enum kn_download_step { KN_DOWNLOAD_PAUSE, KN_DOWNLOAD_RESUME, KN_DOWNLOAD_CANCEL } kn_download_step;

/* What people ask for. KN_E_USAGE: not in this state. */
bool kn_downloads_change(kn_store *s, const char *id, kn_download_step step, kn_error *err);

/* How one that ran has ended; of one that was paused or cancelled meanwhile only a completion counts. error: NULL: it
 * was stopped. ret_wanted: false: it is cancelled, or nobody knows of it any more. */
bool kn_downloads_end(kn_store *s, const char *id, bool completed, uint64_t bytes_done, json_t *error, bool *ret_wanted,
                      kn_error *err);

/* The oldest completed one that was not looked at, behind that id. ret->id is empty if there is none. */
bool kn_downloads_arrived(kn_store *s, const char *after, kn_download_work *ret, kn_error *err);

/* It was looked at: the names of the profiles that can be used with it, an array. */
bool kn_downloads_settle(kn_store *s, const char *id, const json_t *profiles, kn_error *err);

/* Forgets one that does not run. */
bool kn_downloads_delete(kn_store *s, const char *id, kn_error *err);

/* After a start: what ran waits again. */
bool kn_downloads_recover(kn_store *s, kn_error *err);

/* Whether somebody has agreed to the licence: the artifacts that were ever ordered. */
bool kn_downloads_was_ordered(kn_store *s, const char *artifact, bool *ret, kn_error *err);

#endif
