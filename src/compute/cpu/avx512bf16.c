/* The tier of AVX-512 processors that multiply bfloat16, built with flags of its own: no other file may use what is
 * compiled here but the init function. It has what it adds to the AVX-512 tier. The includes stand in the order in
 * which they need each other. */
#include "compute/cpu/kernels.h"

#include "compute/cpu/vec_avx512.h"

#include "compute/cpu/vec_avx512bf16.h"

#include "compute/cpu/simd_math.h"

#include "compute/cpu/simd_product.h"

#include "compute/cpu/simd_transforms.h"

#include "compute/cpu/simd_narrow.h"

#include "compute/cpu/bf16_decode.h"

enum { PAIR = 2 /* bytes, and elements of a word */ };
_Static_assert((int)COLUMNS == (int)KN_BF16_COLUMNS, "panels of both kinds have the same words");

/* LANES rows by n <= KN_BF16_STEP elements: a square of pairs. */
static KN_ALWAYS_INLINE void transpose_square(const uint8_t *src, size_t stride, size_t rows, size_t n,
                                              uint16_t *panel) {
    vec x[LANES];
    KN_UNROLL
    for (size_t j = 0; j < LANES; j++)
        x[j] = j < rows ? v_take_codes(src + j * stride, n) : v_zero();
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

void kn_kernels_init_avx512bf16(kn_kernels *k) {
    k->name = "avx512bf16";
    fill_narrow(k);
    fill_bf16_decoders(k);
    k->transpose_bf16 = transpose_bf16;
    k->gather_bf16 = gather_bf16;
    k->product_bf16 = product_bf16;
}
