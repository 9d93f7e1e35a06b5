/* What a worker has taught: what loads take, what its device uses when nothing is loaded, and the placements that have
 * failed. Kept in memory only, within limits, and never a reason to refuse a model for good.
 *
 * When a load has failed, its worker is stopped and its device's memory read until it has been the same for a while. If
 * that is no more than was ever seen without a load (the baseline, which is only the lowest so far: desktops and
 * strangers may be in it), the load was at fault; if it is more, somebody else takes memory, and nobody is to blame.
 * Only a load that failed for want of memory beside others, and left nothing behind, is tried once more, alone. */
#ifndef KN_GATEWAY_LEARNING_H
#define KN_GATEWAY_LEARNING_H

#include <jansson.h>

#include "gateway/catalog.h"
#include "gpu/gpu.h"

enum {
    KN_FAILURES_MAX = 64,
    KN_FOOTPRINTS_MAX = 64,
    KN_COMPANIONS_MAX = 16,
    KN_STABLE_READINGS = 3,
    KN_MEMORY_NOISE = 64 << 20, /* bytes that come and go on any device */
};

typedef struct kn_footprint {
    kn_digest digest;
    uint64_t context_length, settings, bytes;
} kn_footprint;

typedef enum kn_failure_class {
    KN_FAILED_CAPACITY,     /* the runtime could not have the memory */
    KN_FAILED_ESTIMATE,     /* it loaded, though not wholly where it should: it takes more than was thought */
    KN_FAILED_RUNTIME,      /* it crashed, hung or refused */
    KN_FAILED_VERIFICATION, /* something else was loaded than was asked for */
    KN_FAILED_PRESSURE,     /* memory is taken that nothing of ours explains */
    KN_FAILED_INCONCLUSIVE, /* memory cannot be read, or does not come to rest */
    KN_FAILED_COUNT,
} kn_failure_class;
extern const char *const kn_failure_class_names[KN_FAILED_COUNT];

typedef struct kn_companion {
    kn_digest digest;
    uint64_t context_length;
} kn_companion;

typedef struct kn_failure {
    int64_t at_s;
    kn_digest digest;
    uint64_t context_length;
    kn_failure_class class;
    kn_gpu_bytes before, after; /* used, before and after the worker was stopped */
    size_t companion_count;
    kn_companion companions[KN_COMPANIONS_MAX];
    enum { KN_RETRY_NONE, KN_RETRY_UNDER_WAY, KN_RETRY_FAILED, KN_RETRY_SUCCEEDED } retry;
} kn_failure;

typedef struct kn_learning {
    kn_gpu_bytes baseline; /* used without a load, the lowest so far */
    size_t footprint_count, failure_count;
    kn_footprint footprints[KN_FOOTPRINTS_MAX]; /* used last first */
    kn_failure failures[KN_FAILURES_MAX];       /* the oldest first */
} kn_learning;

void kn_learning_saw_unloaded(kn_learning *l, kn_gpu_bytes used);

/* f->bytes is what it took; more than before counts, less does not: a peak must fit again. */
void kn_learning_saw_load(kn_learning *l, const kn_footprint *f);

/* What such a load took; 0: it was never seen. f->bytes is not looked at. */
uint64_t kn_learning_footprint(const kn_learning *l, const kn_footprint *f);

/* Room for one more, empty; the oldest goes if there is none. Valid until the next one. */
kn_failure *kn_learning_add_failure(kn_learning *l);

/* Readings of memory until it has come to rest. */
typedef struct kn_readings {
    unsigned count;
    uint64_t low, high;
} kn_readings;

/* True: it has been the same for KN_STABLE_READINGS in a row. A reading that is not known begins anew. */
bool kn_readings_add(kn_readings *r, kn_gpu_bytes used);

/* What it was after all. baseline: from before it; suspected: what it looked like; after: at rest, or not known. */
kn_failure_class kn_failure_judge(kn_gpu_bytes baseline, kn_failure_class suspected, kn_gpu_bytes after);

/* Whether the load is tried once more, alone. */
bool kn_failure_deserves_retry(const kn_failure *f);

/* NULL: memory is out. */
json_t *kn_learning_json(const kn_learning *l, const char *worker);

#endif
