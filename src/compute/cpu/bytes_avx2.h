/* Sums of bytes with weights, for AVX2: 32 bits of a product are all that is kept of it, so that no order matters. */
#ifndef KN_COMPUTE_CPU_BYTES_AVX2_H
#define KN_COMPUTE_CPU_BYTES_AVX2_H

#include <immintrin.h>

/* Eight sums as numbers, before they are bytes. */
static inline __m256i finished_sums(__m256i sum) {
    return _mm256_srai_epi32(sum, KN_BYTE_WEIGHT_BITS);
}

/* Of 32 columns. */
static inline __m256i packed_sums(const __m256i sum[4]) {
    __m256i low = _mm256_packs_epi32(finished_sums(sum[0]), finished_sums(sum[1]));
    __m256i high = _mm256_packs_epi32(finished_sums(sum[2]), finished_sums(sum[3]));
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Columns 8 * count from `row` on, into sum[count]. */
static inline void sum_columns(const uint8_t *row, size_t stride, const int32_t *weight, size_t rows, size_t count,
                               __m256i *sum) {
    for (size_t j = 0; j < count; j++)
        sum[j] = _mm256_set1_epi32(1 << (KN_BYTE_WEIGHT_BITS - 1));
    for (size_t k = 0; k < rows; k++, row += stride) {
        __m256i w = _mm256_set1_epi32(weight[k]);
        for (size_t j = 0; j < count; j++) {
            __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(row + 8 * j)));
            sum[j] = _mm256_add_epi32(sum[j], _mm256_mullo_epi32(x, w));
        }
    }
}

static void weigh_rows(const uint8_t *rows, size_t stride, const int32_t *weight, size_t count, size_t n,
                       uint8_t *out) {
    size_t i = 0;
    __m256i sum[8];
    for (; i + 64 <= n; i += 64) {
        sum_columns(rows + i, stride, weight, count, 8, sum);
        _mm256_storeu_si256((__m256i *)(out + i), packed_sums(sum));
        _mm256_storeu_si256((__m256i *)(out + i + 32), packed_sums(sum + 4));
    }
    for (; i + 32 <= n; i += 32) {
        sum_columns(rows + i, stride, weight, count, 4, sum);
        _mm256_storeu_si256((__m256i *)(out + i), packed_sums(sum));
    }
    for (; i + 8 <= n; i += 8) {
        sum_columns(rows + i, stride, weight, count, 1, sum);
        __m256i words = _mm256_packs_epi32(finished_sums(sum[0]), finished_sums(sum[0]));
        __m256i bytes = _mm256_packus_epi16(words, words);
        uint64_t both = (uint32_t)_mm256_extract_epi32(bytes, 0) | (uint64_t)(uint32_t)_mm256_extract_epi32(bytes, 4)
                                                                       << 32;
        memcpy(out + i, &both, sizeof both);
    }
    for (; i < n; i++) {
        int32_t one = 1 << (KN_BYTE_WEIGHT_BITS - 1);
        for (size_t k = 0; k < count; k++)
            one += rows[k * stride + i] * weight[k];
        one >>= KN_BYTE_WEIGHT_BITS;
        out[i] = (uint8_t)KN_MIN(KN_MAX(one, 0), 255);
    }
}

#endif
