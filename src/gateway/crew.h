/* The crew: the workers of the configuration taken together, and the way of a request to one of them.
 *
 *     crew.c            start, stop, reservations, the end of a job
 *     crew_look.c       what is loaded where, and what memory is free
 *     crew_scene.c      that as a scene for the planner (gpu/placement.h)
 *     crew_place.c      from a request to a worker on which its model is loaded and verified
 *     crew_failure.c    what is done and learnt when a load fails (learning.h)
 *     crew_json.c       what the owner is told
 *
 * One thing at a time: whoever calls holds the lease, so there is one job, or one stop, and what is loaded changes only
 * by its hands. A job's way:
 *
 *     start workers that are stopped ─► list what is loaded ─┬─ it is there ─────────────► reserve ─► placed
 *                                                            └─ measure ─► plan ─┬─ load ─► reserve ─► verify ─► placed
 *                  ▲                                                     ▲       ├─ evict ─► list, measure again ─┘
 *                  │                                                     └───────┘└─ nowhere ─► refused
 *                  └── another worker ◄── stop the worker, read its memory, judge ◄── the load failed
 *
 * A worker is reserved on the disk before it is given anything to do, and until it is certain that it has done it. When
 * that is not certain, the worker is ended and buried, which makes it certain; only if that fails, recovery is
 * required. A worker whose reservation was found at the start is not used at all until a person has removed it. */
#ifndef KN_GATEWAY_CREW_H
#define KN_GATEWAY_CREW_H

#include <jansson.h>

#include "gateway/catalog.h"
#include "gateway/config.h"
#include "gateway/disk.h"
#include "gateway/scanner.h"
#include "gateway/state.h"
#include "gateway/wish.h"
#include "gpu/placement.h"

typedef struct kn_crew kn_crew;

typedef struct kn_crew_setup {
    const kn_config *config; /* must outlive the crew */
    kn_http *http;
    const kn_upstream_limits *limits;
    kn_state *state;
    kn_disk *disk;
    kn_scanner *scanner;
    void (*log)(void *ctx, const char *line);
    void *ctx;
} kn_crew_setup;

/* Ends what workers of an earlier process have left behind. */
bool kn_crew_new(const kn_crew_setup *setup, kn_crew **ret, kn_error *err);

/* Kills what runs; a job comes to its end (`over`). */
void kn_crew_end(kn_crew *p);
void kn_crew_free(kn_crew *p); /* after the disk's thread has ended */

/* Starts all workers. started: err NULL: every one of them is what it should be. */
void kn_crew_start(kn_crew *p, void (*started)(void *ctx, const kn_error *err), void *ctx);

/* Ends the workers on a device (an empty address: the processor), or all (NULL). certain: nothing of them is left. They
 * start again for the next job. */
void kn_crew_stop(kn_crew *p, const kn_pci_address *device, void (*stopped)(void *ctx, bool certain), void *ctx);

/* Why a job gets no worker, apart from what the plan says. */
typedef enum kn_job_refusal {
    KN_JOB_NO_WORKER,
    KN_JOB_UNKNOWN_MEMORY,
    KN_JOB_TOO_LARGE,
    KN_JOB_MEMORY_TAKEN,
    KN_JOB_LOAD_FAILED,
    KN_JOB_STATE, /* the reservation cannot be written */
    KN_JOB_REFUSAL_COUNT,
} kn_job_refusal;

typedef struct kn_crew_job kn_crew_job;
struct kn_crew_job {
    const kn_wish *wish;
    kn_model_facts facts;
    kn_digest digest;
    uint64_t bytes;      /* of the model's artifact */
    const char *preload; /* the route whose empty request loads the model: /api/chat, /api/generate or /api/embed */
    /* Exactly one of them, never before kn_crew_place returns. */
    void (*placed)(kn_crew_job *j, kn_upstream *u);
    void (*refused)(kn_crew_job *j, kn_job_refusal why);
    void (*not_held)(kn_crew_job *j); /* by kn_crew_place_at_holder alone: no worker has the model */
    /* After kn_crew_finish: certain: nothing of it is running any more. */
    void (*over)(kn_crew_job *j, bool certain);
};

void kn_crew_place(kn_crew *p, kn_crew_job *j);

/* The same for a request that only has its model unloaded: it goes where that is loaded, by what the workers say now.
 */
void kn_crew_place_at_holder(kn_crew *p, kn_crew_job *j);

/* Whether a worker has had this model loaded as it should be, since the start. */
bool kn_crew_has_verified(const kn_crew *p, const kn_digest *digest);

/* A job that was placed has ended; certain: by its own end. */
void kn_crew_finish(kn_crew *p, kn_crew_job *j, bool certain);

/* Workers in the order of the configuration; the upstream is NULL unless it is ready. */
size_t kn_crew_count(const kn_crew *p);
const char *kn_crew_id(const kn_crew *p, size_t i);
kn_upstream *kn_crew_upstream(kn_crew *p, size_t i);

/* NULL: memory is out. */
json_t *kn_crew_status_json(const kn_crew *p);
json_t *kn_crew_learning_json(const kn_crew *p);

#endif
