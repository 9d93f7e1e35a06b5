/* The tier of AVX-512 processors that multiply int8, built with flags of its own: no other file may use what is
 * compiled here but the init function. It has what it adds to the AVX-512 tier. The includes stand in the order in
 * which they need each other. */
#include "compute/cpu/kernels.h"

#include "compute/cpu/vec_avx512.h"

#include "compute/cpu/simd_math.h"

#include "compute/cpu/simd_product.h"

#include "compute/cpu/simd_int8.h"

_Static_assert((int)COLUMNS == (int)KN_INT8_COLUMNS, "panels of both kinds have the same words");

/* Words of four elements. */
static inline vec v_dot_int8(vec a, vec b, vec sum) {
    return _mm512_castsi512_ps(
        _mm512_dpbusd_epi32(_mm512_castps_si512(sum), _mm512_castps_si512(a), _mm512_castps_si512(b)));
}

static void to_int8(const float *x, size_t n, float s, void *dst) {
    uint8_t *to = dst;
    for (size_t i = 0; i < n; i += LANES) {
        __m512i q = _mm512_cvtps_epi32(v_div(v_take(x + i, n - i), v_set(s)));
        __m128i bytes = _mm512_cvtepi32_epi8(_mm512_add_epi32(q, _mm512_set1_epi32(128)));
        if (n - i >= LANES)
            _mm_storeu_si128((__m128i *)(to + i), bytes);
        else
            _mm_mask_storeu_epi8(to + i, (__mmask16)((1u << (n - i)) - 1), bytes);
    }
}

/* LANES rows by n <= KN_INT8_STEP elements. Returns sums with those of its columns. */
static KN_ALWAYS_INLINE __m512i transpose_square(const int8_t *src, size_t stride, size_t rows, size_t n, int8_t *panel,
                                                 __m512i sums) {
    const __m512i all = _mm512_set1_epi8((char)128);
    vec x[LANES];
    KN_UNROLL
    for (size_t j = 0; j < LANES; j++) {
        __m512i row = _mm512_setzero_si512();
        if (j < rows)
            row = n >= KN_INT8_STEP ? _mm512_loadu_si512(src + j * stride)
                                    : _mm512_maskz_loadu_epi8(((__mmask64)1 << n) - 1, src + j * stride);
        x[j] = _mm512_castsi512_ps(row);
    }
    v_transpose(x);
    KN_UNROLL
    for (size_t i = 0; i < LANES; i++) {
        v_store((float *)panel + i * COLUMNS, x[i]);
        sums = _mm512_dpbusd_epi32(sums, all, _mm512_castps_si512(x[i]));
    }
    return sums;
}

static void transpose_int8(const int8_t *src, size_t stride, size_t rows, size_t k, void *panel, int32_t *sums) {
    __m512i sum = _mm512_loadu_si512(sums);
    int8_t *to = panel;
    for (size_t i = 0; i < k; i += KN_INT8_STEP, to += KN_INT8_STEP * COLUMNS)
        if (rows >= LANES && i + KN_INT8_STEP <= k)
            sum = transpose_square(src + i, stride, LANES, KN_INT8_STEP, to, sum);
        else
            sum = transpose_square(src + i, stride, rows, k - i, to, sum);
    _mm512_storeu_si512(sums, sum);
}

static void product_int8(const void *a, size_t rows, size_t k, const void *panel, float *c, size_t c_stride, size_t n,
                         const float *bias, bool add) {
    multiply_rows(v_dot_int8, v_add_int, a, rows, k / 4, panel, c, c_stride, n, bias, add);
}

void kn_kernels_init_avx512vnni(kn_kernels *k) {
    k->name = "avx512vnni";
    k->int8 = true;
    k->int8_zero = 128;
    k->int8_bytes = 1;
    k->int8_columns = KN_INT8_COLUMNS;
    k->scale_int8 = scale_int8;
    k->to_int8 = to_int8;
    k->transpose_int8 = transpose_int8;
    k->product_int8 = product_int8;
    k->finish_int8 = finish_int8;
}
