/* The AVX2 tier, built with flags of its own: no other file may use what is compiled here but the init function. The
 * includes stand in the order in which they need each other. */
#include "compute/cpu/kernels.h"

#include "compute/cpu/vec_avx2.h"

#include "compute/cpu/simd_math.h"

#include "compute/cpu/simd_product.h"

#include "compute/cpu/simd_blocks.h"
#include "compute/cpu/simd_matrix.h"
#include "compute/cpu/simd_rows.h"
#include "compute/cpu/simd_transforms.h"

#include "compute/cpu/simd_tiles.h"

#include "compute/cpu/simd_table.h"

#include "compute/cpu/bytes_avx2.h"
#include "compute/cpu/simd_int8.h"

enum { PAIR = 2 /* elements of a word, and bytes of each */, SQUARE = LANES * PAIR /* elements of a vector */ };

/* Pairs of numbers of 16 bits, of which no sum of products of two bytes is too large for 32. */
static inline vec v_dot_pairs(vec a, vec b, vec sum) {
    return v_add_int(_mm256_castsi256_ps(_mm256_madd_epi16(_mm256_castps_si256(a), _mm256_castps_si256(b))), sum);
}

static void to_int8(const float *x, size_t n, float s, void *dst) {
    int16_t *to = dst;
    for (size_t i = 0; i < n; i += LANES) {
        __m256i q = _mm256_cvtps_epi32(v_div(v_take(x + i, n - i), v_set(s)));
        __m128i narrow = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
        if (n - i >= LANES) {
            _mm_storeu_si128((__m128i *)(to + i), narrow);
        } else {
            int16_t all[LANES] = { 0 };
            _mm_storeu_si128((__m128i *)all, narrow);
            memcpy(to + i, all, (n - i) * sizeof *to);
        }
    }
}

static inline vec v_pairs_from_i8(const int8_t *p, size_t n) { /* the rest is 0 */
    int8_t all[SQUARE] = { 0 };
    if (n < SQUARE)
        p = memcpy(all, p, n);
    return _mm256_castsi256_ps(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)));
}

/* LANES rows by n elements. */
static KN_ALWAYS_INLINE void transpose_pairs(const int8_t *src, size_t stride, size_t rows, size_t n, float *panel) {
    vec x[LANES];
    KN_UNROLL
    for (size_t j = 0; j < LANES; j++)
        x[j] = j < rows ? v_pairs_from_i8(src + j * stride, n) : v_zero();
    v_transpose(x);
    KN_UNROLL
    for (size_t i = 0; i < LANES; i++)
        v_store(panel + i * COLUMNS, x[i]);
}

static void transpose_int8(const int8_t *src, size_t stride, size_t rows, size_t k, void *panel, int32_t *sums) {
    (void)sums; /* 0 times those of the rows would be added */
    size_t filled = (k + KN_INT8_STEP - 1) / KN_INT8_STEP * KN_INT8_STEP;
    for (size_t j = 0; j < KN_TRANSPOSE_ROWS; j += LANES) {
        const int8_t *from = src + j * stride;
        float *to = (float *)panel + j;
        size_t have = rows > j ? KN_MIN(rows - j, LANES) : 0, i = 0;
        if (have == LANES)
            for (; i + SQUARE <= k; i += SQUARE)
                transpose_pairs(from + i, stride, LANES, SQUARE, to + i / PAIR * COLUMNS);
        for (; i < filled; i += SQUARE)
            transpose_pairs(from + i, stride, i < k ? have : 0, KN_MIN(k - i, SQUARE), to + i / PAIR * COLUMNS);
    }
}

static void product_int8(const void *a, size_t rows, size_t k, const void *panel, float *c, size_t c_stride, size_t n,
                         const float *bias, bool add) {
    multiply_rows(v_dot_pairs, v_add_int, a, rows, k / PAIR, panel, c, c_stride, n, bias, add);
}

void kn_kernels_init_avx2(kn_kernels *k) {
    fill_table(k, "avx2");
    k->int8 = true;
    k->int8_zero = 0;
    k->int8_bytes = PAIR;
    k->int8_columns = COLUMNS;
    k->scale_int8 = scale_int8;
    k->to_int8 = to_int8;
    k->transpose_int8 = transpose_int8;
    k->product_int8 = product_int8;
    k->finish_int8 = finish_int8;
    k->weigh_rows = weigh_rows;
}
