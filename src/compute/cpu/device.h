/* What the ops of the CPU share: the device, access to tensors, and loops over the pool that end early on request. */
#ifndef KN_COMPUTE_CPU_DEVICE_H
#define KN_COMPUTE_CPU_DEVICE_H

#include "base/threads.h"
#include "compute/cpu/kernels.h"
#include "compute/ops.h"

enum {
    KN_ROW_UNIT = 96,    /* whole tiles of every tier's product kernels */
    KN_QUERY_ROWS = 240, /* attention: rows that a thread keeps packed, with their scores */
};

/* Buffers of one thread, made once per device. */
typedef struct kn_workspace {
    union { /* packed left-hand rows */
        float rows[KN_QUERY_ROWS * KN_STRIDE];
        uint16_t rows_bf16[KN_QUERY_ROWS * KN_BF16_STRIDE];
    };
    float scores[KN_QUERY_ROWS * KN_STRIDE]; /* attention: one block of keys for each query row */
    union {                                  /* packed right-hand columns; of int8, as many bytes */
        float panel[KN_BLOCK * KN_GROUP_COLUMNS];
        uint16_t panel_bf16[KN_BF16_BLOCK * KN_GROUP_COLUMNS];
    };
    int32_t sums[KN_GROUP_COLUMNS];                            /* of packed columns of int8 */
    float decoded[KN_TRANSPOSE_ROWS * KN_STRIDE];              /* weights on their way into the panel */
    uint16_t decoded_bf16[KN_TRANSPOSE_ROWS * KN_BF16_STRIDE]; /* the same, rounded */
    float max[KN_QUERY_ROWS], sum[KN_QUERY_ROWS];              /* attention: softmax so far for each query row */
} kn_workspace;

struct kn_device {
    kn_kernels kernels;
    kn_pool *pool;
    kn_workspace *workspace; /* one per thread */
};

static const kn_tensor kn_none = { 0 };

static inline float *kn_data(kn_tensor t) {
    return (float *)t.at;
}

static inline bool kn_same_shape(kn_tensor a, kn_tensor b) {
    bool same = a.rank == b.rank;
    for (int i = 0; same && i < a.rank; i++)
        same = a.dim[i] == b.dim[i];
    return same;
}

static inline const char *kn_weight_name(const kn_weight *w) {
    return w->name ? w->name : "unnamed";
}

static inline bool kn_is_stopped(const kn_run *r) {
    return r->stop && atomic_load_explicit(r->stop, memory_order_relaxed);
}

/* Whether products are those of bfloat16. */
static inline bool kn_is_narrow(const kn_run *r) {
    return r->precision == KN_FAST && r->device->kernels.narrow;
}

/* Whether products of rows of x with w are those of int8. Rows must fit a workspace, which keeps sums in range, too. */
static inline bool kn_is_int8(const kn_run *r, const kn_weight *w) {
    return r->precision == KN_FAST && r->device->kernels.int8 && w->dtype == KN_I8 && !w->full_precision &&
           w->rank == 2 && w->dim[1] <= KN_QUERY_ROWS * KN_STRIDE;
}

/* Whether an op should go on: nothing failed and nobody asked to stop (which becomes the run's failure here). */
bool kn_go_on(kn_run *r);

/* Whether an op may start on x: as kn_go_on, and x has at least `rank` dimensions. Fails for a "none". */
bool kn_op_starts(kn_run *r, const char *op, kn_tensor x, int rank);

/* Calls fn for every item on the pool, but skips the rest once the run is asked to stop. Returns kn_go_on. work: the
 * multiplications or so in all of it; little work stays on the calling thread. A run that follows shapes only does
 * nothing. */
bool kn_parallel(kn_run *r, size_t items, double work, kn_pool_fn *fn, void *ctx);

/* The same over ranges of up to `unit` of n things each. */
typedef void kn_range_fn(void *ctx, int64_t from, int64_t count);
bool kn_parallel_ranges(kn_run *r, int64_t n, int64_t unit, double work, kn_range_fn *fn, void *ctx);

/* x with its last dimension replaced. */
kn_tensor kn_new_like(kn_run *r, kn_tensor x, int64_t last);

/* The values of a vector that an op takes as float32 [n]; fails and returns NULL if it is anything else. */
const float *kn_vector(kn_run *r, const kn_weight *w, int64_t n, const char *op);

#endif
