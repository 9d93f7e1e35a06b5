/* The tier of AVX-512 processors that multiply bfloat16, built with flags of its own: no other file may use what is
 * compiled here but the init function. It has what it adds to the AVX-512 tier. The includes stand in the order in
 * which they need each other. */
#include "compute/cpu/kernels.h"

#include "compute/cpu/vec_avx512.h"

#include "compute/cpu/simd_math.h"

#include "compute/cpu/simd_product.h"

enum { PAIR = 2 };
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
    multiply_rows(v_dot_bf16, a, rows, k / PAIR, panel, c, c_stride, n, bias, add);
}

void kn_kernels_init_avx512bf16(kn_kernels *k) {
    k->name = "avx512bf16";
    k->narrow = true;
    k->to_bf16 = to_bf16;
    k->transpose_bf16 = transpose_bf16;
    k->gather_bf16 = gather_bf16;
    k->product_bf16 = product_bf16;
}
