/* Kernels around products of bfloat16: from stored types, rows, softmax, pixels. Included after simd_transforms.h and
 * one of vec_*bf16.h. */
#ifndef KN_COMPUTE_CPU_SIMD_NARROW_H
#define KN_COMPUTE_CPU_SIMD_NARROW_H

#include <math.h>

/* A decoder from one that makes a vector of LANES elements out of `bytes` each. */
#define DECODER_BF16(name, bytes, load)                                                                                \
    static void name(const void *src, size_t n, uint16_t *dst) {                                                       \
        const uint8_t *p = src;                                                                                        \
        size_t i = 0;                                                                                                  \
        for (; i + 2 * LANES <= n; i += 2 * LANES)                                                                     \
            v_put_codes(dst + i, v_codes(load(p + i * (bytes)), load(p + (i + LANES) * (bytes))), 2 * LANES);          \
        if (i < n) {                                                                                                   \
            uint8_t rest[2 * LANES * (bytes)] = { 0 };                                                                 \
            memcpy(rest, p + i * (bytes), (n - i) * (bytes));                                                          \
            v_put_codes(dst + i, v_codes(load(rest), load(rest + LANES * (bytes))), n - i);                            \
        }                                                                                                              \
    }
DECODER_BF16(decode_bf16_f32, 4, v_load)
DECODER_BF16(decode_bf16_f16, 2, v_from_f16)
DECODER_BF16(decode_bf16_e5m2, 1, v_from_e5m2)
DECODER_BF16(decode_bf16_i8, 1, v_from_i8)

static void to_bf16(const float *x, size_t n, void *dst) {
    uint16_t *to = dst;
    for (size_t i = 0; i < n; i += 2 * LANES) {
        size_t left = n - i;
        vec low = v_take(x + i, left), high = left > LANES ? v_take(x + i + LANES, left - LANES) : v_zero();
        v_put_codes(to + i, v_codes(low, high), left);
    }
}

/* 2^x for -125 <= x <= 127: the whole part goes into the exponent, the rest through a polynomial, which is wrong by
 * less than 2^-13 of the result. */
static inline vec v_exp2_rough(vec x) {
    const vec magic = v_set(0x1.8p23f); /* its sum with a small number has that rounded in the lowest bits */
    vec t = v_add(x, magic), rest = v_sub(x, v_sub(t, magic)), p = v_set(0.0551716685f);
    p = v_fma(p, rest, v_set(0.2426111251f));
    p = v_fma(p, rest, v_set(0.6932609677f));
    p = v_fma(p, rest, v_set(0.9999280572f));
    return v_raise(p, t);
}

/* The same for any x <= 127, 0 where the result would be subnormal when rounded. */
static inline vec v_exp2_of_score(vec x) {
    vec rest = v_fraction(x), p = v_set(0.0780235f);
    p = v_fma(p, rest, v_set(0.2260671f));
    p = v_fma(p, rest, v_set(0.6958335f));
    p = v_fma(p, rest, v_set(0.9999252f));
    return v_scale_by_floor(p, x);
}

static KN_ALWAYS_INLINE vec weigh(const float *s, size_t n, vec scale, vec less) {
    if (n == 0)
        return v_zero();
    vec weight = v_exp2_of_score(v_fma(v_take(s, n), scale, less));
    return n < LANES ? v_first(weight, n) : weight;
}

static float softmax_bf16(float *s, size_t n, size_t n_all, float scale, float *max) {
    vec most[2] = { v_set(-INFINITY), v_set(-INFINITY) };
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (size_t j = 0; j < 2; j++)
            most[j] = v_max(most[j], v_load(s + i + j * LANES));
    float largest = v_largest(v_max(most[0], most[1]));
    for (; i < n; i++)
        largest = fmaxf(largest, s[i]);
    if (n > 0 && largest * scale > *max + 8)
        *max = largest * scale;
    const vec ones = v_codes(v_set(1), v_set(1));
    vec sum = v_zero(), by = v_set(scale), less = v_set(-*max);
    size_t end = (n_all + KN_BF16_STEP - 1) / KN_BF16_STEP * KN_BF16_STEP;
    for (i = 0; i < end; i += 2 * LANES) {
        size_t left = i < n ? n - i : 0;
        vec low = weigh(s + i, KN_MIN(left, LANES), by, less);
        vec high = weigh(s + i + LANES, left > LANES ? KN_MIN(left - LANES, LANES) : 0, by, less);
        vec codes = v_codes(low, high);
        sum = v_dot_bf16(codes, ones, sum);
        v_put_codes((uint16_t *)s + i, codes, 2 * LANES);
    }
    return v_sum(sum);
}

/* x / (1 + exp(-x)), wrong by less than 2^-12 of it. */
static inline vec v_silu_rough(vec x) {
    vec power = v_exp2_rough(v_max(v_min(v_mul(x, v_set(-0x1.715476p+0f)), v_set(125)), v_set(-125)));
    return v_mul(x, v_inverse_rough(v_add(power, v_set(1))));
}

static void stage(const float *x, size_t stride, size_t pixels, size_t n, const float *by, const float *scale,
                  const float *shift, bool with_silu, float *out) {
    stage_pixels(v_silu_rough, x, stride, pixels, n, by, scale, shift, with_silu, out);
}

static void tile_input_plain(const float *x, size_t row, size_t tiles, void *v, size_t plane) {
    tile_input(4, x, row, tiles, v, plane, sizeof(uint16_t), v_put_rounded);
}

static void tile_input_doubled(const float *x, size_t row, size_t tiles, void *v, size_t plane) {
    tile_input(3, x, row, tiles, v, plane, sizeof(uint16_t), v_put_rounded);
}

enum { DEEP = 4 }; /* DOT_ROWS, at least */

/* Up to 2 * LANES elements further. */
static KN_ALWAYS_INLINE void dots_step(size_t columns, size_t rows, const uint8_t *w, size_t w_stride,
                                       const uint16_t *x, size_t stride, size_t n, vec s[KN_DOT_COLUMNS][DOT_ROWS]) {
    vec a[DOT_ROWS];
    KN_UNROLL
    for (size_t i = 0; i < rows; i++)
        a[i] = v_take_codes(x + i * stride, n);
    KN_UNROLL
    for (size_t j = 0; j < columns; j++) {
        vec b = v_take_codes(w + j * w_stride, n);
        KN_UNROLL
        for (size_t i = 0; i < rows; i++)
            s[j][i] = v_dot_bf16(a[i], b, s[j][i]);
    }
}

/* `columns`, `rows` and `deep` are constants wherever this is used. So many steps go to sums of their own: few sums
 * would wait for each other. */
static KN_ALWAYS_INLINE void dots_tile(size_t columns, size_t rows, size_t deep, const uint8_t *w, size_t w_stride,
                                       const uint16_t *x, size_t stride, size_t n, float (*sum)[KN_FEW_ROWS_BF16]) {
    enum { STEP = 2 * LANES };
    vec s[DEEP][KN_DOT_COLUMNS][DOT_ROWS];
    KN_UNROLL
    for (size_t d = 0; d < deep; d++) {
        KN_UNROLL
        for (size_t j = 0; j < columns; j++) {
            KN_UNROLL
            for (size_t i = 0; i < rows; i++)
                s[d][j][i] = v_zero();
        }
    }
    size_t p = 0;
    for (; p + deep * STEP <= n; p += deep * STEP) {
        KN_UNROLL
        for (size_t d = 0; d < deep; d++)
            dots_step(columns, rows, w + (p + d * STEP) * sizeof *x, w_stride, x + p + d * STEP, stride, STEP, s[d]);
    }
    for (; p < n; p += STEP)
        dots_step(columns, rows, w + p * sizeof *x, w_stride, x + p, stride, n - p, s[0]);
    KN_UNROLL
    for (size_t j = 0; j < columns; j++) {
        KN_UNROLL
        for (size_t i = 0; i < rows; i++) {
            for (size_t d = 1; d < deep; d++)
                s[0][j][i] = v_add(s[0][j][i], s[d][j][i]);
            sum[j][i] += v_sum(s[0][j][i]);
        }
    }
}

static void dots_bf16(const void *w, size_t w_stride, size_t columns, const uint16_t *x, size_t stride, size_t rows,
                      size_t n, float (*sum)[KN_FEW_ROWS_BF16]) {
    for (size_t i = 0; i < rows; i += DOT_ROWS)
        switch (KN_MIN(rows - i, DOT_ROWS)) {
#define ROWS_OF(count) KN_MIN(count, DOT_ROWS)
#define REST(count)                                                                                                    \
    case count:                                                                                                        \
        if (columns == KN_DOT_COLUMNS)                                                                                 \
            dots_tile(KN_DOT_COLUMNS, ROWS_OF(count), 1, w, w_stride, x + i * stride, stride, n, (void *)&sum[0][i]);  \
        else                                                                                                           \
            for (size_t j = 0; j < columns; j++)                                                                       \
                dots_tile(1, ROWS_OF(count), DEEP / ROWS_OF(count), (const uint8_t *)w + j * w_stride, 0,              \
                          x + i * stride, stride, n, (void *)&sum[j][i]);                                              \
        break;
            REST(1)
            REST(2)
            REST(3)
            REST(4)
#undef REST
#undef ROWS_OF
        default: break;
        }
}

static void fill_narrow(kn_kernels *k) {
    k->narrow = true;
    k->decode_bf16[KN_F32] = decode_bf16_f32;
    k->decode_bf16[KN_F16] = decode_bf16_f16;
    k->decode_bf16[KN_F8_E5M2] = decode_bf16_e5m2;
    k->decode_bf16[KN_I8] = decode_bf16_i8;
    k->to_bf16 = to_bf16;
    k->softmax_bf16 = softmax_bf16;
    k->stage_bf16 = stage;
    k->tile_input_bf16[KN_TILING_PLAIN] = tile_input_plain;
    k->tile_input_bf16[KN_TILING_DOUBLED] = tile_input_doubled;
    k->dots_bf16 = dots_bf16;
}

#endif
