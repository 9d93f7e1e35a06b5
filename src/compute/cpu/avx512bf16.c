/* The tier of AVX-512 processors that multiply bfloat16, built with flags of its own: no other file may use what is
 * compiled here but the init function. It has what it adds to the AVX-512 tier. The includes stand in the order in
 * which they need each other. */
#include "compute/cpu/kernels.h"

#include <math.h>

#include "compute/cpu/vec_avx512.h"

#include "compute/cpu/simd_math.h"

#include "compute/cpu/simd_product.h"

#include "compute/cpu/simd_transforms.h"

#include "compute/cpu/bf16_decode.h"

enum { PAIR = 2 /* bytes, and elements of a word */, DOT_ROWS = 4 };
_Static_assert((int)COLUMNS == (int)KN_BF16_COLUMNS, "panels of both kinds have the same words");

static inline __m512bh pairs_of(vec x) {
    return (__m512bh)_mm512_castps_si512(x);
}

/* Words of two elements: a[0] b[0] + a[1] b[1] + sum. */
static inline vec v_dot_bf16(vec a, vec b, vec sum) {
    return _mm512_dpbf16_ps(sum, pairs_of(a), pairs_of(b));
}

static inline __mmask32 first(size_t n) {
    return n >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
}

/* Up to KN_BF16_STEP codes; masks are for the ends only, since they are slow on some processors. */
static inline vec take_codes(const void *p, size_t n) {
    return _mm512_castsi512_ps(n >= KN_BF16_STEP ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16(first(n), p));
}

static inline void put_codes(uint16_t *p, __m512i x, size_t n) {
    if (n >= KN_BF16_STEP)
        _mm512_storeu_si512(p, x);
    else
        _mm512_mask_storeu_epi16(p, first(n), x);
}

static void to_bf16(const float *x, size_t n, void *dst) {
    uint16_t *to = dst;
    for (size_t i = 0; i < n; i += 2 * LANES) {
        size_t left = n - i;
        vec low = v_take(x + i, left), high = left > LANES ? v_take(x + i + LANES, left - LANES) : v_zero();
        put_codes(to + i, (__m512i)_mm512_cvtne2ps_pbh(high, low), left);
    }
}

/* LANES rows by n <= KN_BF16_STEP elements: a square of pairs. */
static KN_ALWAYS_INLINE void transpose_square(const uint8_t *src, size_t stride, size_t rows, size_t n,
                                              uint16_t *panel) {
    vec x[LANES];
    KN_UNROLL
    for (size_t j = 0; j < LANES; j++)
        x[j] = j < rows ? take_codes(src + j * stride, n) : v_zero();
    v_transpose(x);
    KN_UNROLL
    for (size_t i = 0; i < LANES; i++)
        _mm512_storeu_ps(panel + i * COLUMNS * PAIR, x[i]);
}

static void transpose_bf16(const void *src, size_t stride, size_t rows, size_t k, uint16_t *panel) {
    for (size_t i = 0; i < k; i += KN_BF16_STEP, panel += KN_BF16_STEP * COLUMNS) {
        const uint8_t *from = (const uint8_t *)src + i * sizeof *panel;
        if (rows >= LANES && i + KN_BF16_STEP <= k)
            transpose_square(from, stride, LANES, KN_BF16_STEP, panel);
        else
            transpose_square(from, stride, rows, k - i, panel);
    }
}

/* Two rows as pairs of their columns. */
static inline __m512i pair_rows(vec even, vec odd) {
    const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(turns, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

static void gather_bf16(const float *src, size_t stride, size_t n, size_t k, uint16_t *panel) {
    size_t end = (k + KN_BF16_STEP - 1) / KN_BF16_STEP * KN_BF16_STEP;
    for (size_t i = 0; i < end; i += PAIR, panel += COLUMNS * PAIR) {
        const float *even = src + i * stride, *odd = even + stride;
        for (size_t j = 0; j < COLUMNS; j += LANES) {
            size_t left = n > j ? n - j : 0;
            vec x = v_take(even + j, i < k ? left : 0), y = v_take(odd + j, i + 1 < k ? left : 0);
            _mm512_storeu_si512(panel + j * PAIR, pair_rows(x, y));
        }
    }
}

static void product_bf16(const void *a, size_t rows, size_t k, const void *panel, float *c, size_t c_stride, size_t n,
                         const float *bias, bool add) {
    multiply_rows(v_dot_bf16, v_add, a, rows, k / PAIR, panel, c, c_stride, n, bias, add);
}

/* 2^x for -125 <= x <= 127: the whole part goes into the exponent, the rest through a polynomial, which is wrong by
 * less than 2^-13 of the result. */
static inline vec v_exp2_rough(vec x) {
    const vec magic = v_set(0x1.8p23f); /* its sum with a small number has that rounded in the lowest bits */
    vec t = v_add(x, magic), rest = v_sub(x, v_sub(t, magic)), p = v_set(0.0551716685f);
    p = v_fma(p, rest, v_set(0.2426111251f));
    p = v_fma(p, rest, v_set(0.6932609677f));
    p = v_fma(p, rest, v_set(0.9999280572f));
    __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), exponent));
}

/* The same for any x <= 127, 0 where the result would be subnormal when rounded. */
static inline vec v_exp2_of_score(vec x) {
    vec rest = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC), p = v_set(0.0780235f);
    p = v_fma(p, rest, v_set(0.2260671f));
    p = v_fma(p, rest, v_set(0.6958335f));
    p = v_fma(p, rest, v_set(0.9999252f));
    return _mm512_scalef_ps(p, x);
}

static KN_ALWAYS_INLINE vec weigh(const float *s, size_t n, vec scale, vec less) {
    if (n == 0)
        return v_zero();
    vec weight = v_exp2_of_score(v_fma(v_take(s, n), scale, less));
    return n < LANES ? _mm512_maskz_mov_ps((__mmask16)first(n), weight) : weight;
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
    const vec ones = _mm512_castsi512_ps(_mm512_set1_epi16(0x3F80));
    vec sum = v_zero(), by = v_set(scale), less = v_set(-*max);
    for (i = 0; i < n_all; i += 2 * LANES) {
        size_t left = i < n ? n - i : 0;
        vec low = weigh(s + i, KN_MIN(left, LANES), by, less);
        vec high = weigh(s + i + LANES, left > LANES ? KN_MIN(left - LANES, LANES) : 0, by, less);
        vec codes = _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(high, low));
        sum = v_dot_bf16(codes, ones, sum);
        _mm512_storeu_ps((uint16_t *)s + i, codes);
    }
    return v_sum(sum);
}

/* x / (1 + exp(-x)), wrong by less than 2^-12 of it. */
static inline vec v_silu_rough(vec x) {
    vec power = v_exp2_rough(v_max(v_min(v_mul(x, v_set(-0x1.715476p+0f)), v_set(125)), v_set(-125)));
    return v_mul(x, _mm512_rcp14_ps(v_add(power, v_set(1))));
}

static void stage(const float *x, size_t stride, size_t pixels, size_t n, const float *by, const float *scale,
                  const float *shift, bool with_silu, float *out) {
    stage_pixels(v_silu_rough, x, stride, pixels, n, by, scale, shift, with_silu, out);
}

static inline void put_bf16(void *to, vec x) {
    _mm256_storeu_si256(to, (__m256i)_mm512_cvtneps_pbh(x));
}

static void tile_input_plain(const float *x, size_t row, size_t tiles, void *v, size_t plane) {
    tile_input(4, x, row, tiles, v, plane, sizeof(uint16_t), put_bf16);
}

static void tile_input_doubled(const float *x, size_t row, size_t tiles, void *v, size_t plane) {
    tile_input(3, x, row, tiles, v, plane, sizeof(uint16_t), put_bf16);
}

/* Up to KN_BF16_STEP elements further. */
static KN_ALWAYS_INLINE void dots_step(size_t columns, size_t rows, const uint8_t *w, size_t w_stride,
                                       const uint16_t *x, size_t stride, size_t n, vec s[KN_DOT_COLUMNS][DOT_ROWS]) {
    vec a[DOT_ROWS];
    KN_UNROLL
    for (size_t i = 0; i < rows; i++)
        a[i] = take_codes(x + i * stride, n);
    KN_UNROLL
    for (size_t j = 0; j < columns; j++) {
        vec b = take_codes(w + j * w_stride, n);
        KN_UNROLL
        for (size_t i = 0; i < rows; i++)
            s[j][i] = v_dot_bf16(a[i], b, s[j][i]);
    }
}

/* `columns`, `rows` and `deep` are constants wherever this is used. So many steps go to sums of their own: few sums
 * would wait for each other. */
static KN_ALWAYS_INLINE void dots_tile(size_t columns, size_t rows, size_t deep, const uint8_t *w, size_t w_stride,
                                       const uint16_t *x, size_t stride, size_t n, float (*sum)[KN_FEW_ROWS_BF16]) {
    enum { STEP = KN_BF16_STEP };
    vec s[DOT_ROWS][KN_DOT_COLUMNS][DOT_ROWS];
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
            dots_step(columns, rows, w + (p + d * STEP) * PAIR, w_stride, x + p + d * STEP, stride, STEP, s[d]);
    }
    for (; p < n; p += STEP)
        dots_step(columns, rows, w + p * PAIR, w_stride, x + p, stride, n - p, s[0]);
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
#define REST(count)                                                                                                    \
    case count:                                                                                                        \
        if (columns == KN_DOT_COLUMNS)                                                                                 \
            dots_tile(KN_DOT_COLUMNS, count, 1, w, w_stride, x + i * stride, stride, n, (void *)&sum[0][i]);           \
        else                                                                                                           \
            for (size_t j = 0; j < columns; j++)                                                                       \
                dots_tile(1, count, DOT_ROWS / count, (const uint8_t *)w + j * w_stride, 0, x + i * stride, stride, n, \
                          (void *)&sum[j][i]);                                                                         \
        break;
            REST(1)
            REST(2)
            REST(3)
            REST(4)
#undef REST
        default: break;
        }
}

void kn_kernels_init_avx512bf16(kn_kernels *k) {
    k->name = "avx512bf16";
    k->narrow = true;
    fill_bf16_decoders(k);
    k->to_bf16 = to_bf16;
    k->transpose_bf16 = transpose_bf16;
    k->gather_bf16 = gather_bf16;
    k->product_bf16 = product_bf16;
    k->softmax_bf16 = softmax_bf16;
    k->stage_bf16 = stage;
    k->tile_input_bf16[KN_TILING_PLAIN] = tile_input_plain;
    k->tile_input_bf16[KN_TILING_DOUBLED] = tile_input_doubled;
    k->dots_bf16 = dots_bf16;
}
