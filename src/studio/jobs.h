/* Jobs as rows: each state is on the disk before anybody hears of it, and each job ends once.
 *
 *     queued ──► running ──► completed | failed | cancelled
 *        ▲          │
 *        └──────────┘  after a crash of the service or of the worker, and once more with smaller tiles
 *
 * A transition names the state that it leaves, so that the second of two ends finds nothing to change. Pictures of a
 * batch are recorded one by one: whoever takes a job up again goes on with the next. */
#ifndef KN_STUDIO_JOBS_H
#define KN_STUDIO_JOBS_H

#include <jansson.h>

#include "studio/files.h"

enum {
    KN_JOBS_QUEUE_LIMIT = 1000,
    KN_JOBS_HISTORY = 10000, /* finished ones; older ones are forgotten */
    KN_JOBS_STARTS = 4,      /* so often a job is begun; then it is what brings the service down */
    KN_JOBS_KEY_HOURS = 24,
};

typedef enum kn_job_state {
    KN_STATE_QUEUED,
    KN_STATE_RUNNING,
    KN_STATE_COMPLETED,
    KN_STATE_FAILED,
    KN_STATE_CANCELLED,
    KN_STATES,
} kn_job_state;
extern const char *const kn_job_states[KN_STATES];

/* All texts are JSON but for those of the key. */
typedef struct kn_new_job {
    kn_studio_kind kind;
    const char *request, *plan, *seeds, *notes;
    const char *wish; /* beside the request (prepare.h); NULL: none */
    double units;     /* of work, of each picture, as the planner counts it */
    const kn_request_input *inputs;
    size_t input_count;
    const char *route, *key; /* key NULL: none was given */
    kn_sha256 body;
} kn_new_job;

/* What became of a request with a key. */
typedef enum kn_key_state { KN_KEY_NEW, KN_KEY_REPLAYED, KN_KEY_REUSED } kn_key_state;
bool kn_jobs_find_key(kn_store *s, const char *route, const char *key, const kn_sha256 *body, kn_key_state *ret,
                      kn_id *ret_job, kn_error *err);
bool kn_jobs_add_key(kn_store *s, const char *route, const char *key, const kn_sha256 *body, const kn_id *id,
                     kn_error *err);

/* KN_E_RANGE: the queue is full. */
bool kn_jobs_add(kn_store *s, const kn_new_job *job, unsigned queue_limit, kn_id *ret, kn_error *err);

/* As clients see it. `progress` of a running job is the caller's to fill in. KN_E_NOT_FOUND; *ret_gone (may be NULL):
 * it was there once. */
bool kn_jobs_get(kn_store *s, const char *id, json_t **ret, bool *ret_gone, kn_error *err);

typedef struct kn_jobs_filter {
    unsigned states;     /* bits by kn_job_state; 0: all */
    kn_studio_kind kind; /* KN_KIND_AUTO: all */
    unsigned limit;
    int64_t before; /* 0: from the newest */
} kn_jobs_filter;
bool kn_jobs_list(kn_store *s, const kn_jobs_filter *filter, json_t *into, int64_t *ret_next, kn_error *err);
bool kn_jobs_count(kn_store *s, int64_t *ret_queued, int64_t *ret_running, kn_error *err);

/* A job that is to be worked on. */
typedef struct kn_taken_job {
    kn_id id;
    kn_studio_kind kind;
    char *request, *plan, *seeds; /* NULL: there was none to take */
    double units;
    unsigned done;      /* pictures that are there already */
    uint32_t tile_size; /* of a second try; 0: as planned */
    unsigned attempts, retries;
} kn_taken_job;
void kn_taken_job_free(kn_taken_job *job);

/* The first in the queue becomes running. */
bool kn_jobs_take(kn_store *s, kn_taken_job *ret, kn_error *err);

typedef struct kn_job_result {
    unsigned number;
    const char *item; /* in the gallery; NULL: a file in results/ */
    const char *file;
    uint32_t width, height;
    kn_picture_format format;
    uint64_t bytes;
    const char *seed; /* NULL: none */
    kn_sha256 sha256;
} kn_job_result;
bool kn_jobs_add_result(kn_store *s, const char *id, const kn_job_result *result, kn_error *err);

/* Where the file of a result is: in results/ or, with *ret_item not empty, in the gallery. */
bool kn_jobs_find_result(kn_store *s, const char *id, unsigned number, kn_id *ret_item, char **ret_file,
                         kn_picture_format *ret_format, kn_error *err);

/* Each is false with KN_E_USAGE if the job is not in the state that it leaves; one that is to be cancelled is not
 * queued again. error and notes are JSON or NULL. */
bool kn_jobs_finish(kn_store *s, const char *id, kn_job_state state, const char *error, const char *notes,
                    kn_error *err);
bool kn_jobs_requeue(kn_store *s, const char *id, uint32_t tile_size, const char *notes, kn_error *err);

/* *ret: what it is now. A running one is only marked: whoever runs it ends it. One that has ended stays as it is. */
bool kn_jobs_cancel(kn_store *s, const char *id, kn_job_state *ret, kn_error *err);

/* KN_E_USAGE: it is not finished. Its pictures in the gallery stay, and so does its key: a repetition that comes late
 * makes no second job. */
bool kn_jobs_delete(kn_store *s, const char *id, kn_error *err);

/* What an earlier job was made of, to be queued again. Frees with free(). */
typedef struct kn_job_order {
    char *request, *wish; /* wish NULL: none */
    kn_studio_kind kind;
} kn_job_order;
bool kn_jobs_order(kn_store *s, const char *id, kn_job_order *ret, kn_error *err);

/* After a start: what was running is queued again, or ends. *ret_ended: how many ended so. */
bool kn_jobs_recover(kn_store *s, int *ret_ended, kn_error *err);

/* Forgets finished jobs beyond KN_JOBS_HISTORY, and keys that nobody repeats any more. */
bool kn_jobs_trim(kn_store *s, kn_error *err);

/* So often it has been begun. Nothing, if it does not run. */
bool kn_jobs_count_starts(kn_store *s, const char *id, unsigned starts, kn_error *err);

/* At an orderly end: what runs waits for the next start, and this one is not held against it. As with the others above,
 * KN_E_USAGE if it does not run or is to be cancelled. */
bool kn_jobs_release(kn_store *s, const kn_taken_job *job, kn_error *err);

/* Whether there is such a job and its row knows nothing of that picture: it was written in the moment of a crash, and
 * will be made again, or is of a job that has been given up. */
bool kn_jobs_lacks_result(kn_store *s, const char *id, unsigned number, bool *ret, kn_error *err);

#endif
