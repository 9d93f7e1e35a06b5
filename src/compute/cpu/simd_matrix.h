/* Kernels of matrix products: decoders, panels, products. Included after simd_product.h. */
#ifndef KN_COMPUTE_CPU_SIMD_MATRIX_H
#define KN_COMPUTE_CPU_SIMD_MATRIX_H

#include <string.h>

/* A decoder from one that makes a vector of LANES elements out of `bytes` each. */
#define DECODER(name, bytes, load)                                                                                     \
    static void name(const void *src, size_t n, float scale, float *dst) {                                             \
        const uint8_t *p = src;                                                                                        \
        size_t i = 0;                                                                                                  \
        for (; i + LANES <= n; i += LANES)                                                                             \
            v_store(dst + i, v_mul(load(p + i * (bytes)), v_set(scale)));                                              \
        if (i < n) {                                                                                                   \
            uint8_t rest[LANES * (bytes)] = { 0 };                                                                     \
            memcpy(rest, p + i * (bytes), (n - i) * (bytes));                                                          \
            v_store_n(dst + i, v_mul(load(rest), v_set(scale)), n - i);                                                \
        }                                                                                                              \
    }
DECODER(decode_f32, 4, v_load)
DECODER(decode_f16, 2, v_from_f16)
DECODER(decode_bf16, 2, v_from_bf16)
DECODER(decode_e4m3, 1, v_from_e4m3)
DECODER(decode_e5m2, 1, v_from_e5m2)
DECODER(decode_i8, 1, v_from_i8)

/* LANES rows by n <= LANES elements. */
static KN_ALWAYS_INLINE void transpose_square(const uint8_t *src, size_t stride, size_t rows, size_t n, float *panel) {
    vec x[LANES];
    KN_UNROLL
    for (size_t j = 0; j < LANES; j++)
        x[j] = j < rows ? v_take(src + j * stride, n) : v_zero();
    v_transpose(x);
    KN_UNROLL
    for (size_t i = 0; i < LANES; i++)
        if (i < n)
            v_store(panel + i * COLUMNS, x[i]);
}

static void transpose(const void *src, size_t stride, size_t rows, size_t k, float *panel) {
    for (size_t j = 0; j < KN_TRANSPOSE_ROWS; j += LANES) {
        const uint8_t *from = (const uint8_t *)src + j * stride;
        size_t have = rows > j ? rows - j : 0, i = 0;
        if (have >= LANES)
            for (; i + LANES <= k; i += LANES)
                transpose_square(from + i * sizeof(float), stride, LANES, LANES, panel + i * COLUMNS + j);
        for (; i < k; i += LANES)
            transpose_square(from + i * sizeof(float), stride, have, KN_MIN(k - i, LANES), panel + i * COLUMNS + j);
    }
}

static void gather(const float *src, size_t stride, size_t n, size_t k, float *panel) {
    for (size_t i = 0; i < k; i++, src += stride, panel += COLUMNS) {
        for (size_t j = 0; j < COLUMNS; j += LANES)
            v_store(panel + j, n > j ? v_take(src + j, n - j) : v_zero());
    }
}

static void product(const void *a, size_t rows, size_t k, const void *panel, float *c, size_t c_stride, size_t n,
                    const float *bias, bool add) {
    multiply_rows(v_fma, v_add, a, rows, k, panel, c, c_stride, n, bias, add);
}

/* Two sums per row whatever the number of rows; four rows share what is loaded of w. */
static KN_ALWAYS_INLINE void dots_of(size_t rows, const float *w, const float *x, size_t stride, size_t n, float *sum) {
    vec a[4], b[4];
    KN_UNROLL
    for (size_t i = 0; i < rows; i++)
        a[i] = b[i] = v_zero();
    size_t p = 0;
    for (; p + 2 * LANES <= n; p += 2 * LANES) {
        vec w0 = v_load(w + p), w1 = v_load(w + p + LANES);
        KN_UNROLL
        for (size_t i = 0; i < rows; i++) {
            a[i] = v_fma(w0, v_load(x + i * stride + p), a[i]);
            b[i] = v_fma(w1, v_load(x + i * stride + p + LANES), b[i]);
        }
    }
    for (; p < n; p += LANES)
        for (size_t i = 0; i < rows; i++)
            a[i] = v_fma(v_take(w + p, n - p), v_take(x + i * stride + p, n - p), a[i]);
    KN_UNROLL
    for (size_t i = 0; i < rows; i++)
        sum[i] += v_sum(v_add(a[i], b[i]));
}

static void dots(const float *w, const float *x, size_t stride, size_t rows, size_t n, float *sum) {
    for (; rows >= 4; rows -= 4, x += 4 * stride, sum += 4)
        dots_of(4, w, x, stride, n, sum);
    for (; rows > 0; rows--, x += stride, sum++)
        dots_of(1, w, x, stride, n, sum);
}

#endif
