/* Sixteen floats at a time: what simd_*.h is written in, for AVX-512 F, BW, DQ and VL. vec_avx2.h has the same names.
 */
#ifndef KN_COMPUTE_CPU_VEC_H
#define KN_COMPUTE_CPU_VEC_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    LANES = 16,
    TILE_ROWS = 6,
    TILE_VECTORS = 4, /* 24 sums, 4 panel vectors and 1 row element: 29 of 32 registers */
    TILE_UNROLLED = false
};
#define TILE_ORDERED(x) (x)

typedef __m512 vec;
typedef __m512i ivec; /* as many whole numbers of 32 bits */

static inline vec v_zero(void) {
    return _mm512_setzero_ps();
}

static inline vec v_set(float x) {
    return _mm512_set1_ps(x);
}

static inline vec v_spread(const void *p) { /* the 32 bits there, in every lane */
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm512_castsi512_ps(_mm512_set1_epi32(word));
}

static inline vec v_load(const void *p) {
    return _mm512_loadu_ps(p);
}

static inline vec v_load_n(const void *p, size_t n) { /* n < LANES; the rest is 0 */
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

static inline void v_store(float *p, vec x) {
    _mm512_storeu_ps(p, x);
}

static inline void v_store_n(float *p, vec x, size_t n) {
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), x);
}

static inline vec v_add(vec a, vec b) {
    return _mm512_add_ps(a, b);
}

static inline vec v_sub(vec a, vec b) {
    return _mm512_sub_ps(a, b);
}

static inline vec v_mul(vec a, vec b) {
    return _mm512_mul_ps(a, b);
}

static inline vec v_div(vec a, vec b) {
    return _mm512_div_ps(a, b);
}

static inline vec v_fma(vec a, vec b, vec c) { /* a * b + c */
    return _mm512_fmadd_ps(a, b, c);
}

static inline vec v_fma_alternating(vec a, vec b, vec c) { /* a * b - c in even lanes, + c in odd ones */
    return _mm512_fmaddsub_ps(a, b, c);
}

static inline vec v_min(vec a, vec b) { /* b if either is NaN */
    return _mm512_min_ps(a, b);
}

static inline vec v_max(vec a, vec b) {
    return _mm512_max_ps(a, b);
}

static inline vec v_round(vec x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vec v_scale_by_power(vec x, vec n) { /* x * 2^n; n whole, -126 to 129 */
    return _mm512_scalef_ps(x, n);
}

static inline vec v_zero_below(float limit, vec x, vec y) { /* y, but 0 where x < limit */
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_NLT_UQ), y);
}

static inline vec v_magnitude(vec x) {
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x);
}

static inline vec v_with_sign_of(vec x, vec sign) { /* x >= 0 */
    return _mm512_or_ps(x, _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}

static inline float v_sum(vec x) {
    return _mm512_reduce_add_ps(x);
}

static inline float v_largest(vec x) {
    return _mm512_reduce_max_ps(x);
}

static inline vec v_double(vec x) { /* 0 1 2 … -> 0 0 1 1 2 2 … */
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), x);
}

static inline vec v_swap_pairs(vec x) { /* 0 1 2 3 … -> 1 0 3 2 … */
    return _mm512_permute_ps(x, 0xB1);
}

static inline vec v_swap_halves(vec x) { /* 0 1 2 3 … -> 2 3 0 1 … */
    return _mm512_permute_ps(x, 0x4E);
}

static inline vec v_reverse_fours(vec x) { /* 0 1 2 3 … -> 3 2 1 0 … */
    return _mm512_permute_ps(x, 0x1B);
}

static inline ivec i_from_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

static inline ivec i_and(ivec x, int mask) {
    return _mm512_and_si512(x, _mm512_set1_epi32(mask));
}

static inline ivec i_or(ivec a, ivec b) {
    return _mm512_or_si512(a, b);
}

static inline ivec i_right(ivec x, size_t bits) { /* x >= 0 */
    return _mm512_srl_epi32(x, _mm_cvtsi32_si128((int)bits));
}

static inline ivec i_left(ivec x, size_t bits) {
    return _mm512_sll_epi32(x, _mm_cvtsi32_si128((int)bits));
}

static inline vec v_from_int(ivec x) {
    return _mm512_cvtepi32_ps(x);
}

/* Sums of whole numbers; their differences, as floats. */
static inline vec v_add_int(vec a, vec b) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}

static inline vec v_difference(vec a, vec b) {
    return v_from_int(_mm512_sub_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}

static inline vec v_from_i8(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

static inline float half_at(const uint8_t *p) {
    return _cvtsh_ss((uint16_t)(p[0] | p[1] << 8));
}

static inline vec v_from_f16(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline vec v_from_bf16(const uint8_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline vec v_from_e5m2(const uint8_t *p) {
    __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
    return _mm512_cvtph_ps(_mm256_slli_epi16(wide, 8));
}

/* By way of an F16 whose exponent is 8 too small; it takes subnormals along. The one NaN needs an exponent of ones. */
static inline vec v_from_e4m3(const uint8_t *p) {
    __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p)), top = _mm256_set1_epi16(0x3F80);
    __m256i size = _mm256_and_si256(_mm256_slli_epi16(wide, 7), top);
    __m256i sign = _mm256_and_si256(_mm256_slli_epi16(wide, 8), _mm256_set1_epi16((short)0x8000));
    __m256i nan = _mm256_and_si256(_mm256_cmpeq_epi16(size, top), _mm256_set1_epi16(0x7E00));
    return v_mul(_mm512_cvtph_ps(_mm256_or_si256(_mm256_or_si256(size, sign), nan)), v_set(256));
}

/* x[i] lane j -> x[j] lane i: pairs of rows, pairs of pairs, then the 128-bit quarters. */
static inline void v_transpose(vec x[LANES]) {
    vec a[LANES], b[LANES];
    for (int i = 0; i < LANES; i += 2) {
        a[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        a[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4)
        for (int j = 0; j < 2; j++) {
            __m512d low = _mm512_castps_pd(a[i + j]), high = _mm512_castps_pd(a[i + j + 2]);
            b[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            b[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    for (int j = 0; j < 4; j++) {
        vec low = _mm512_shuffle_f32x4(b[j], b[4 + j], 0x44), low2 = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0x44);
        vec high = _mm512_shuffle_f32x4(b[j], b[4 + j], 0xEE), high2 = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0xEE);
        x[j] = _mm512_shuffle_f32x4(low, low2, 0x88);
        x[4 + j] = _mm512_shuffle_f32x4(low, low2, 0xDD);
        x[8 + j] = _mm512_shuffle_f32x4(high, high2, 0x88);
        x[12 + j] = _mm512_shuffle_f32x4(high, high2, 0xDD);
    }
}

/* Of 16 floats, seen as 4 by 4, each column to half its sum less each element, in reverse order. */
static inline void v_turn_columns(float x[16]) {
    vec rows = v_load(x), swapped = _mm512_shuffle_f32x4(rows, rows, 0xB1), pairs = v_add(rows, swapped);
    vec half = v_mul(v_add(pairs, _mm512_shuffle_f32x4(pairs, pairs, 0x4E)), v_set(0.5f));
    v_store(x, v_sub(half, _mm512_shuffle_f32x4(swapped, swapped, 0x4E)));
}

#endif
