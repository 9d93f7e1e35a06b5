/* Where a model is to run: a plan from what is known, and nothing else. It looks at no device and changes nothing.
 *
 *     1. a load that is exactly what is wanted is used again;
 *     2. else it goes to a worker that has room for it, an empty one before one that would be shared;
 *     3. else loads that are idle and verified make room, those used longest ago first;
 *     4. else there is no plan, and a reason.
 *
 * Memory that is not known is no room. Room is what a device was last measured to have free, so that the memory of
 * strangers counts as taken without being known; of it a reserve is never given away. What a load takes is what it was
 * seen to take before, by the same runtime with the same settings, plus workspace; a model that was never seen is first
 * loaded alone, on a worker that has no other.
 *
 * One worker holds a model once: with another context it would be loaded anew, so the load that is there goes first.
 *
 * A plan that evicts does not load: what an eviction really frees is only known when every device that it touches has
 * been measured again. A load may be split over several devices; then it touches all of them, and all workers on them.
 */
#ifndef KN_GPU_PLACEMENT_H
#define KN_GPU_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { KN_PLACE_DEVICES = 32, KN_PLACE_WORKERS = 16, KN_PLACE_LOADS = 64, KN_PLACE_SHARES = 4, KN_PLACE_VICTIMS = 64 };

/* What is loaded, or is to be: equal only if all three are. */
typedef struct kn_place_what {
    char digest[65];
    uint64_t context_length;
    uint64_t settings; /* identity of runtime, driver and settings of the worker */
} kn_place_what;

typedef struct kn_place_load {
    kn_place_what what;
    bool verified; /* it is what it claims to be, and wholly where its shares say */
    bool busy;
    uint64_t used_at; /* larger is later */
    size_t share_count;
    struct {
        unsigned device;
        uint64_t bytes;
    } shares[KN_PLACE_SHARES];
} kn_place_load;

typedef struct kn_place_worker {
    bool available; /* not stopped, quarantined or unverified */
    unsigned device;
    uint64_t settings;
    size_t max_loads, load_count;
    kn_place_load loads[KN_PLACE_LOADS];
} kn_place_worker;

/* A device as it was measured after the last load or eviction that touched it; else it is not known. */
typedef struct kn_place_device {
    bool known;
    uint64_t total, free;
} kn_place_device;

typedef struct kn_place_scene {
    size_t device_count, worker_count;
    kn_place_device devices[KN_PLACE_DEVICES];
    kn_place_worker workers[KN_PLACE_WORKERS];
    uint64_t reserve; /* bytes of each device */
} kn_place_scene;

typedef struct kn_place_need {
    char digest[65];
    uint64_t context_length;
    uint64_t estimate;  /* bytes, where it was never seen */
    uint64_t workspace; /* bytes beyond what a load takes when it is idle */
    /* What it was seen to take on each worker; 0: never seen there. */
    uint64_t seen[KN_PLACE_WORKERS];
} kn_place_need;

typedef enum kn_place_kind { KN_PLACE_NOWHERE, KN_PLACE_REUSE, KN_PLACE_LOAD, KN_PLACE_EVICT } kn_place_kind;

typedef enum kn_place_reason {
    KN_PLACE_FITS,
    KN_PLACE_NO_WORKER, /* none is available */
    KN_PLACE_UNKNOWN,   /* the memory of no device that could do is known */
    KN_PLACE_TOO_LARGE, /* no device has so much in all */
    KN_PLACE_TAKEN,     /* it would fit, but for what cannot be evicted: busy loads, or the memory of others */
    KN_PLACE_REASON_COUNT,
} kn_place_reason;
extern const char *const kn_place_reason_names[KN_PLACE_REASON_COUNT];

typedef struct kn_place_plan {
    kn_place_kind kind;
    kn_place_reason reason;
    unsigned worker, load; /* load: to reuse */
    bool alone;            /* to load: it was never seen, so nothing may be beside it */
    size_t victim_count;
    struct {
        unsigned worker, load;
    } victims[KN_PLACE_VICTIMS];
    uint32_t devices, workers; /* bits of those that the eviction touches: measure these before the next plan */
} kn_place_plan;

kn_place_plan kn_place(const kn_place_scene *scene, const kn_place_need *need);

#endif
