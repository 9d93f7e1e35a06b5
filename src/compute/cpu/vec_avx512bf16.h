/* What simd_narrow.h needs of the instructions for bfloat16, beyond the names of vec_avx512.h. vec_neonbf16.h has the
 * same names. Codes are 16 bits; a vector holds 2 * LANES of them. */
#ifndef KN_COMPUTE_CPU_VEC_NARROW_H
#define KN_COMPUTE_CPU_VEC_NARROW_H

enum { DOT_ROWS = 4 }; /* times KN_DOT_COLUMNS: 16 sums, 4 vectors of rows and 1 of the weight */

static inline __m512bh pairs_of(vec x) {
    return (__m512bh)_mm512_castps_si512(x);
}

/* Words of two elements: a[0] b[0] + a[1] b[1] + sum. */
static inline vec v_dot_bf16(vec a, vec b, vec sum) {
    return _mm512_dpbf16_ps(sum, pairs_of(a), pairs_of(b));
}

static inline vec v_codes(vec low, vec high) {
    return _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(high, low));
}

static inline __mmask32 first(size_t n) {
    return n >= 2 * LANES ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
}

/* Up to 2 * LANES codes; masks are for the ends only, since they are slow on some processors. */
static inline vec v_take_codes(const void *p, size_t n) {
    return _mm512_castsi512_ps(n >= 2 * LANES ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16(first(n), p));
}

static inline void v_put_codes(uint16_t *p, vec codes, size_t n) {
    if (n >= 2 * LANES)
        _mm512_storeu_ps(p, codes);
    else
        _mm512_mask_storeu_epi16(p, first(n), _mm512_castps_si512(codes));
}

static inline void v_put_rounded(void *p, vec x) { /* LANES codes */
    _mm256_storeu_si256(p, (__m256i)_mm512_cvtneps_pbh(x));
}

static inline vec v_first(vec x, size_t n) { /* n < LANES of it, then zeros */
    return _mm512_maskz_mov_ps((__mmask16)first(n), x);
}

/* x * 2^n, both normal; n is what the lowest bits of `whole` hold. */
static inline vec v_raise(vec x, vec whole) {
    __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(whole), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), exponent));
}

static inline vec v_inverse_rough(vec x) { /* wrong by less than 2^-14 of it */
    return _mm512_rcp14_ps(x);
}

static inline vec v_fraction(vec x) { /* x less the whole number below it */
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

static inline vec v_scale_by_floor(vec x, vec n) { /* x * 2^n, n rounded down; 0 where that is below 2^-126 */
    return _mm512_scalef_ps(x, n);
}

#endif
