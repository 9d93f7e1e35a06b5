/* A weight as rows of its storage format: [columns, inner], whatever its rank. A row of it is a column of the product.
 */
#ifndef KN_COMPUTE_CPU_STORED_H
#define KN_COMPUTE_CPU_STORED_H

#include "tensor/tensor.h"

typedef struct kn_stored {
    const kn_weight *w;
    int64_t columns, inner;
    size_t row_bytes;
} kn_stored;

static inline kn_stored kn_stored_of(const kn_weight *w) {
    kn_stored s = { .w = w, .columns = w->dim[0], .inner = 1 };
    for (int i = 1; i < w->rank; i++)
        s.inner *= w->dim[i];
    s.row_bytes = kn_dtype_bytes(w->dtype, (size_t)s.inner);
    return s;
}

/* Element k0, which begins a block, of a row. */
static inline const uint8_t *kn_stored_at(const kn_stored *s, int64_t column, int64_t k0) {
    return (const uint8_t *)s->w->data + (size_t)column * s->row_bytes + kn_dtype_bytes(s->w->dtype, (size_t)k0);
}

/* Asks memory for k elements of a row that will be decoded soon: a row begins far away from the one before, where no
 * processor expects it. */
static inline void kn_stored_ask(const kn_stored *s, int64_t column, int64_t k0, size_t k) {
    enum { LINE = 64 };
    if (column >= s->columns)
        return;
    const uint8_t *from = kn_stored_at(s, column, k0);
    for (size_t i = 0; i < kn_dtype_bytes(s->w->dtype, k); i += LINE)
        __builtin_prefetch(from + i);
}

static inline float kn_scale_of(const kn_weight *w, int64_t row) {
    return w->row_scale ? w->row_scale[row] : w->scale;
}

static inline bool kn_scale_is_one(const kn_weight *w) {
    return !w->row_scale && w->scale == 1;
}

/* Nothing to decode. */
static inline bool kn_is_plain(const kn_weight *w) {
    return w->dtype == KN_F32 && kn_scale_is_one(w);
}

#endif
