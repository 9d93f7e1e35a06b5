/* The one driver of matrix products with weights: out = rows * weight^T + bias. Linear layers and convolutions differ
 * only in where the rows come from. */
#ifndef KN_COMPUTE_CPU_MATRIX_H
#define KN_COMPUTE_CPU_MATRIX_H

#include <string.h>

#include "compute/cpu/device.h"

/* Where left-hand rows are packed: as float32, or narrower, which `put` sees to. */
typedef struct kn_left {
    uint8_t *at;
    size_t row_bytes, element_bytes;
    void (*put)(const float *x, size_t n, void *dst);
} kn_left;

static inline void *kn_left_at(const kn_left *to, int64_t row, size_t element) {
    return to->at + (size_t)row * to->row_bytes + element * to->element_bytes;
}

static inline void kn_left_put(const kn_left *to, int64_t row, size_t element, const float *x, size_t n) {
    to->put(x, n, kn_left_at(to, row, element));
}

static inline void kn_left_put_zeros(const kn_left *to, int64_t row, size_t element, size_t n) {
    memset(kn_left_at(to, row, element), 0, n * to->element_bytes);
}

/* Puts elements k0 … k0 + k - 1 of rows first … first + rows - 1 into rows 0 … rows - 1, elements 0 … k - 1. */
typedef void kn_fill_fn(const void *ctx, int64_t first, int64_t rows, int64_t k0, size_t k, const kn_left *to);

/* w is taken as [columns, inner], whatever its rank; out is [rows, columns]. */
void kn_multiply(kn_run *r, int64_t rows, kn_fill_fn *fill, const void *ctx, const kn_weight *w, kn_tensor out);

/* The same where kn_is_int8: rows of x [..., in] are turned and rounded as w asks for. */
void kn_multiply_int8(kn_run *r, kn_tensor x, const kn_weight *w, kn_tensor out);

/* k elements of w, as they are stored, in bfloat16 [k] at `to`; their scale is left out. */
void kn_decode_bf16(const kn_kernels *kernels, kn_workspace *ws, kn_dtype type, const void *from, size_t k,
                    uint16_t *to);

/* x as w wants it: turned and rounded for INT8 weights (a new tensor, to be dropped), else x itself. */
kn_tensor kn_input_of(kn_run *r, kn_tensor x, const kn_weight *w);

/* Whether w can be multiplied with at all: a storage type that has a decoder, rows of whole blocks. Fails if not. */
bool kn_weight_fits(kn_run *r, const kn_weight *w, int rank, const char *op);

#endif
