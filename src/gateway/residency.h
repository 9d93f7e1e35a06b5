/* Which models are in memory, as Ollama tells it (/api/ps): by its byte counters alone. They say how much of a model is
 * on graphics cards, not on which, nor where each computation runs. */
#ifndef KN_GATEWAY_RESIDENCY_H
#define KN_GATEWAY_RESIDENCY_H

#include "gateway/catalog.h"
#include "http/call.h"

enum { KN_RESIDENTS_BYTES = 1 << 20, KN_RESIDENTS_MAX = 256 };

typedef enum kn_residency {
    KN_RESIDENT_UNKNOWN,
    KN_RESIDENT_GPU,
    KN_RESIDENT_PARTIAL,
    KN_RESIDENT_CPU,
    KN_RESIDENCY_COUNT,
} kn_residency;
extern const char *const kn_residency_names[KN_RESIDENCY_COUNT];

typedef struct kn_resident {
    char *name;
    kn_digest digest;
    bool has_bytes, has_vram_bytes;
    uint64_t bytes, vram_bytes;
    uint64_t context_length; /* 0: not told */
    int64_t expires_s;       /* 0: not told */
    kn_residency residency;
} kn_resident;

typedef struct kn_residents {
    kn_resident *items;
    size_t count;
} kn_residents;

/* Reads an answer of /api/ps. Entries without name or digest are left out. */
bool kn_residents_read(const char *json, size_t len, kn_residents *ret, kn_error *err);
void kn_residents_free(kn_residents *r);

/* An empty request that the model is to be kept for no time. True: it is on its way; whether the model is gone only the
 * next list tells. */
bool kn_resident_unload(const kn_resident *r, kn_upstream *u, uint64_t within_ms, kn_call_done *done, void *ctx,
                        kn_call **ret);

#endif
