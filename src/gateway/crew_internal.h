/* What the files of the crew share. Internal to the room. */
#ifndef KN_GATEWAY_CREW_INTERNAL_H
#define KN_GATEWAY_CREW_INTERNAL_H

#include "gateway/crew.h"
#include "gateway/learning.h"
#include "gateway/residency.h"
#include "http/call.h"

enum {
    KN_CREW_START_MS = 120 * 1000, /* some drivers take a minute to tell their devices */
    KN_CREW_REST_MS = 1000,
    KN_CREW_WAIT_MS = 30 * 1000, /* of a job for a worker that comes back from its rest */
    KN_CREW_LIST_MS = 5 * 1000,
    KN_CREW_ROUNDS_MAX = 8, /* plans that evict, for one job */
    KN_CREW_EXPIRES_S = 30, /* a load that would go so soon is loaded again before it is used */
    KN_CREW_KINDS_MAX = 256,
    KN_CREW_WORKSPACE = 256 << 20, /* bytes beyond what a load takes when it is idle */
};

typedef struct kn_member {
    kn_crew *crew;
    kn_worker *worker;
    const kn_worker_config *config;
    unsigned device;    /* of the scene */
    bool left_reserved; /* its reservation is that of an earlier process */
    bool reserved, uncertain;
    bool wrong_card; /* the driver knows another UUID at its place */
    bool excluded;   /* it has failed the present job */
    kn_call *list;
    bool listed; /* residents is what it holds now */
    kn_residents residents;
    size_t used_count;
    struct {
        kn_digest weights;
        uint64_t at; /* later is larger */
    } used[KN_PLACE_LOADS];
    kn_learning learning;
} kn_member;

typedef void kn_crew_step(kn_crew *p);

struct kn_crew {
    const kn_config *config;
    kn_loop *loop;
    kn_state *state;
    kn_disk *disk;
    kn_scanner *scanner;
    void (*log_line)(void *ctx, const char *line);
    void *log_ctx;
    char *mark;

    size_t count, device_count;
    kn_member *members;
    kn_pci_address devices[KN_PLACE_DEVICES]; /* empty: the machine's own memory */
    uint64_t turns;                           /* uses so far */

    /* What is being waited for; NULL: nothing. */
    kn_crew_step *when_settled, *when_listed, *when_measured, *when_written, *when_due;
    kn_timer changed;
    size_t lists_out;
    kn_scan scan;
    kn_gpu_bytes total[KN_PLACE_DEVICES], free[KN_PLACE_DEVICES], used[KN_PLACE_DEVICES];
    bool measured; /* since the job began, or since the last load or eviction */
    kn_job marker;
    kn_member *marked;
    bool marker_is_set, marker_done;
    kn_timer timer;

    void (*started)(void *ctx, const kn_error *err);
    void (*stopped)(void *ctx, bool certain);
    void *ctx;                  /* of the one of the two that is set */
    bool all_stop;              /* else those on … */
    kn_pci_address stop_device; /* … this one */

    size_t kind_count;
    struct {
        kn_digest digest, weights;
        bool verified;          /* it was loaded as it should be */
    } kinds[KN_CREW_KINDS_MAX]; /* models that were placed, the last one first */

    /* The job. */
    kn_crew_job *job;
    kn_digest weights; /* by which its loads are known */
    kn_member *member; /* where it is to run */
    bool alone;        /* nothing is to be beside it */
    unsigned rounds;
    uint64_t wait_until_ms;
    kn_call *load; /* under way */
    uint64_t used_before;
    size_t companion_count;
    kn_companion companions[KN_COMPANIONS_MAX]; /* what else the worker holds when the load begins */
    kn_place_plan plan;
    size_t victim; /* of the plan, that is being evicted */
    kn_readings readings;
    uint64_t readings_until_ms;
    kn_failure_class suspected;
    kn_gpu_bytes baseline; /* before the failure */
    kn_failure *failure;   /* that is being learnt from, or retried */
    bool retried;          /* the job has had its one load alone */
    bool failed;           /* some load of the job has */
    unsigned looks;        /* whether a victim is gone */
    bool ending;
    kn_place_scene scene;
};

void kn_crew_log(kn_crew *p, const char *fmt, ...) KN_PRINTF(2, 3);

/* crew.c: what has been waited for is there. */
void kn_crew_go_on(kn_crew *p, kn_crew_step **waiting);

/* crew.c: goes on when no worker is on its way to another state. */
void kn_crew_settle(kn_crew *p, kn_crew_step *then);

/* crew.c: makes or removes the member's reservation on the disk. Then p->marker_done says whether that went well. */
void kn_crew_write_marker(kn_crew *p, kn_member *m, bool set, kn_crew_step *then);

/* crew.c: later. */
void kn_crew_after(kn_crew *p, uint64_t ms, kn_crew_step *then);

/* crew_look.c: asks all workers that are ready what they hold. */
void kn_crew_list(kn_crew *p, kn_crew_step *then);
/* Asks one of them again after a job, for the owner to see; until it answers, what was known stays. */
void kn_member_look_again(kn_member *m);
void kn_crew_forget_list(kn_member *m);
const kn_resident *kn_member_find(const kn_member *m, const kn_digest *weights);

/* crew_look.c: what a model's loads are known by: the digest of its weights, or its own where those are not known. */
const kn_digest *kn_crew_weights(const kn_crew *p, const kn_digest *digest);
void kn_crew_note_weights(kn_crew *p, const kn_digest *digest, const kn_digest *weights);
void kn_crew_note_verified(kn_crew *p, const kn_digest *digest);

/* crew_look.c: what memory is used and free, now; baselines are learnt on the way. */
void kn_crew_measure(kn_crew *p, kn_crew_step *then);

/* crew_scene.c */
uint64_t kn_member_context(const kn_crew *p, const kn_member *m); /* with which it would load the job's model */
bool kn_member_is_usable(const kn_member *m);
bool kn_member_holds_well(const kn_member *m, const kn_resident *r); /* wholly on its device */
kn_footprint kn_member_footprint(const kn_crew *p, const kn_member *m);
void kn_crew_plan(kn_crew *p); /* into p->plan, by what was listed and measured */

/* crew_place.c */
void kn_crew_try(kn_crew *p);  /* looks for a place, from the beginning */
void kn_crew_load(kn_crew *p); /* on p->member, which is reserved */
void kn_crew_refuse(kn_crew *p, kn_job_refusal why);
void kn_crew_give(kn_crew *p); /* the job goes to p->member */

/* crew_failure.c */
void kn_crew_load_failed(kn_crew *p, kn_failure_class suspected);

#endif
