/* The one driver of matrix products with weights: out = rows * weight^T + bias. Linear layers and convolutions differ
 * only in where the rows come from. */
#ifndef KN_COMPUTE_CPU_MATRIX_H
#define KN_COMPUTE_CPU_MATRIX_H

#include "compute/cpu/device.h"

/* Copies elements k0 … k0 + k - 1 of rows first … first + rows - 1 to dst, KN_STRIDE floats from row to row. */
typedef void kn_fill_fn(const void *ctx, int64_t first, int64_t rows, int64_t k0, size_t k, float *dst);

/* w is taken as [columns, inner], whatever its rank; out is [rows, columns]. */
void kn_multiply(kn_run *r, int64_t rows, kn_fill_fn *fill, const void *ctx, const kn_weight *w, kn_tensor out);

/* x as w wants it: turned and rounded for INT8 weights (a new tensor, to be dropped), else x itself. */
kn_tensor kn_input_of(kn_run *r, kn_tensor x, const kn_weight *w);

/* Whether w can be multiplied with at all: a storage type that has a decoder, rows of whole blocks. Fails if not. */
bool kn_weight_fits(kn_run *r, const kn_weight *w, int rank, const char *op);

#endif
