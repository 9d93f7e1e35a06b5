/* Handles of tensors and weights. Model code passes them around and reads their shapes; only devices (src/compute) look
 * behind `at`.
 *
 * Conventions: row-major, last dimension contiguous. Sequences are [tokens, width]. Pictures are [height, width,
 * channels], so that a pixel's channels lie together and a picture is also a sequence of height * width rows. */
#ifndef KN_TENSOR_TENSOR_H
#define KN_TENSOR_TENSOR_H

#include <stdint.h>

#include "tensor/dtype.h"

enum { KN_MAX_RANK = 4 };

/* Activations are float32. A tensor with rank 0 is "none"; ops that failed return it. */
typedef struct kn_tensor {
    uintptr_t at; /* address on the CPU, offset in the device's arena elsewhere */
    int rank;
    int64_t dim[KN_MAX_RANK];
} kn_tensor;

#define KN_NONE ((kn_tensor){ 0 })

static inline int64_t kn_last_dim(kn_tensor t) {
    return t.rank > 0 ? t.dim[t.rank - 1] : 0;
}

static inline int64_t kn_elements(kn_tensor t) {
    int64_t n = t.rank > 0;
    for (int i = 0; i < t.rank; i++)
        n *= t.dim[i];
    return n;
}

/* Rows when everything but the last dimension is flattened. */
static inline int64_t kn_row_count(kn_tensor t) {
    int64_t n = t.rank > 0;
    for (int i = 0; i + 1 < t.rank; i++)
        n *= t.dim[i];
    return n;
}

/* Dimensions for a message: "64, 192". The brackets are the sentence's. */
typedef struct kn_shape_text {
    char text[180]; /* eight of the longest */
} kn_shape_text;
kn_shape_text kn_shape(int rank, const int64_t *dim);
void kn_shape_add(kn_shape_text *s, const char *fmt, ...) KN_PRINTF(2, 3); /* one more */

/* A trained array in its stored format: a view of the mapped file, or of memory its loader owns.
 * Matrices are [out, in] as PyTorch's Linear stores them. Vectors have rank 1. Convolutions are [out, kh, kw, in]: the
 * loader turns the stored [out, in, kh, kw] once, so that the taps' channels lie together.
 * scale multiplies every element (scaled FP8, INT8); 1 otherwise. row_scale, if there, is float32 [out] and takes its
 * place. bias is float32 [out] or NULL.
 *
 * Products with I8 weights are those of INT8 checkpoints: each row of activations is rounded to 255 steps first, unless
 * full_precision says otherwise. turned_group, if not 0, says that every so many elements of a row were multiplied by a
 * symmetric orthogonal matrix before they were stored; activations then go through it as well. */
typedef struct kn_weight {
    const void *data;
    kn_dtype dtype;
    int rank;
    int64_t dim[KN_MAX_RANK];
    float scale;
    const float *row_scale;
    int64_t turned_group;
    bool full_precision; /* the file asks for products with dequantised weights and activations as they are */
    const float *bias;
    const char *name; /* for messages; lives as long as the loaded component */
} kn_weight;

#endif
