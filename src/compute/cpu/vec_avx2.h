/* Eight floats at a time: what simd_*.h is written in, for AVX2, FMA and F16C. vec_avx512.h has the same names. */
#ifndef KN_COMPUTE_CPU_VEC_H
#define KN_COMPUTE_CPU_VEC_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    LANES = 8,
    TILE_ROWS = 6,
    TILE_VECTORS = 2, /* 12 sums, 2 panel vectors and 1 row element: 15 of 16 registers */
    TILE_UNROLLED = true
};

typedef __m256 vec;
typedef __m256i ivec; /* as many whole numbers of 32 bits */

/* x as it is, made no later than here: gcc puts sums that it delays on the stack. clang delays none. */
static inline vec v_ordered(vec x) {
#if !defined(__clang__)
    KN_USE_VECTOR(x);
#endif
    return x;
}
#define TILE_ORDERED(x) v_ordered(x)

static inline vec v_zero(void) {
    return _mm256_setzero_ps();
}

static inline vec v_set(float x) {
    return _mm256_set1_ps(x);
}

static inline vec v_spread(const void *p) { /* the 32 bits there, in every lane */
    float word;
    memcpy(&word, p, sizeof word);
    return _mm256_set1_ps(word);
}

static inline vec v_load(const void *p) {
    return _mm256_loadu_ps(p);
}

static inline vec v_load_n(const void *p, size_t n) { /* n < LANES; the rest is 0 */
    static const int32_t masks[2 * LANES] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    return _mm256_maskload_ps(p, _mm256_loadu_si256((const __m256i *)(masks + LANES - n)));
}

static inline void v_store(float *p, vec x) {
    _mm256_storeu_ps(p, x);
}

static inline void v_store_n(float *p, vec x, size_t n) { /* masked stores are slow on many processors */
    float all[LANES];
    _mm256_storeu_ps(all, x);
    memcpy(p, all, n * sizeof *p);
}

static inline vec v_add(vec a, vec b) {
    return _mm256_add_ps(a, b);
}

static inline vec v_sub(vec a, vec b) {
    return _mm256_sub_ps(a, b);
}

static inline vec v_add_int(vec a, vec b) { /* of lanes that hold whole numbers */
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

static inline vec v_difference(vec a, vec b) { /* of whole numbers, as a float */
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

static inline vec v_mul(vec a, vec b) {
    return _mm256_mul_ps(a, b);
}

static inline vec v_div(vec a, vec b) {
    return _mm256_div_ps(a, b);
}

static inline vec v_fma(vec a, vec b, vec c) { /* a * b + c */
    return _mm256_fmadd_ps(a, b, c);
}

static inline vec v_fma_alternating(vec a, vec b, vec c) { /* a * b - c in even lanes, + c in odd ones */
    return _mm256_fmaddsub_ps(a, b, c);
}

static inline vec v_min(vec a, vec b) { /* b if either is NaN */
    return _mm256_min_ps(a, b);
}

static inline vec v_max(vec a, vec b) {
    return _mm256_max_ps(a, b);
}

static inline vec v_round(vec x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x * 2^n; n whole, -126 to 129: in two steps, as 2^n alone might not be a float. */
static inline vec v_scale_by_power(vec x, vec n) {
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
    __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
    return v_mul(v_mul(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

static inline vec v_zero_below(float limit, vec x, vec y) { /* y, but 0 where x < limit */
    return _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_NLT_UQ), y);
}

static inline vec v_magnitude(vec x) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

static inline vec v_with_sign_of(vec x, vec sign) { /* x >= 0 */
    return _mm256_or_ps(x, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}

static inline float v_sum(vec x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline float v_largest(vec x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

static inline vec v_double(vec x) { /* 0 1 2 … -> 0 0 1 1 2 2 … */
    return _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}

static inline vec v_swap_pairs(vec x) { /* 0 1 2 3 … -> 1 0 3 2 … */
    return _mm256_permute_ps(x, 0xB1);
}

static inline vec v_swap_halves(vec x) { /* 0 1 2 3 … -> 2 3 0 1 … */
    return _mm256_permute_ps(x, 0x4E);
}

static inline vec v_reverse_fours(vec x) { /* 0 1 2 3 … -> 3 2 1 0 … */
    return _mm256_permute_ps(x, 0x1B);
}

static inline ivec i_from_u8(const uint8_t *p) {
    return _mm256_cvtepu8_epi32(_mm_loadu_si64(p));
}

static inline ivec i_and(ivec x, int mask) {
    return _mm256_and_si256(x, _mm256_set1_epi32(mask));
}

static inline ivec i_or(ivec a, ivec b) {
    return _mm256_or_si256(a, b);
}

static inline ivec i_right(ivec x, size_t bits) { /* x >= 0 */
    return _mm256_srl_epi32(x, _mm_cvtsi32_si128((int)bits));
}

static inline ivec i_left(ivec x, size_t bits) {
    return _mm256_sll_epi32(x, _mm_cvtsi32_si128((int)bits));
}

static inline vec v_from_int(ivec x) {
    return _mm256_cvtepi32_ps(x);
}

static inline vec v_from_i8(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(p)));
}

static inline float half_at(const uint8_t *p) {
    return _cvtsh_ss((uint16_t)(p[0] | p[1] << 8));
}

static inline vec v_from_f16(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static inline vec v_from_bf16(const uint8_t *p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline vec v_from_e5m2(const uint8_t *p) {
    __m128i wide = _mm_cvtepu8_epi16(_mm_loadu_si64(p));
    return _mm256_cvtph_ps(_mm_slli_epi16(wide, 8));
}

/* By way of an F16 whose exponent is 8 too small; it takes subnormals along. The one NaN needs an exponent of ones. */
static inline vec v_from_e4m3(const uint8_t *p) {
    __m128i wide = _mm_cvtepu8_epi16(_mm_loadu_si64(p)), top = _mm_set1_epi16(0x3F80);
    __m128i size = _mm_and_si128(_mm_slli_epi16(wide, 7), top);
    __m128i sign = _mm_and_si128(_mm_slli_epi16(wide, 8), _mm_set1_epi16((short)0x8000));
    __m128i nan = _mm_and_si128(_mm_cmpeq_epi16(size, top), _mm_set1_epi16(0x7E00));
    return v_mul(_mm256_cvtph_ps(_mm_or_si128(_mm_or_si128(size, sign), nan)), v_set(256));
}

/* x[i] lane j -> x[j] lane i: pairs of rows, pairs of pairs, then the halves. */
static inline void v_transpose(vec x[LANES]) {
    vec a[LANES], b[LANES];
    for (int i = 0; i < LANES; i += 2) {
        a[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4)
        for (int j = 0; j < 2; j++) {
            __m256d low = _mm256_castps_pd(a[i + j]), high = _mm256_castps_pd(a[i + j + 2]);
            b[i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
            b[i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
        }
    for (int j = 0; j < 4; j++) {
        x[j] = _mm256_permute2f128_ps(b[j], b[4 + j], 0x20);
        x[4 + j] = _mm256_permute2f128_ps(b[j], b[4 + j], 0x31);
    }
}

/* Of 16 floats, seen as 4 by 4, each column to half its sum less each element, in reverse order. */
static inline void v_turn_columns(float x[16]) {
    vec ab = v_load(x), cd = v_load(x + 8);
    vec ba = _mm256_permute2f128_ps(ab, ab, 1), dc = _mm256_permute2f128_ps(cd, cd, 1);
    vec half = v_mul(v_add(v_add(ab, ba), v_add(cd, dc)), v_set(0.5f));
    v_store(x, v_sub(half, dc));
    v_store(x + 8, v_sub(half, ba));
}

#endif
