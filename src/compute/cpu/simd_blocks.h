/* Decoders of the block types in common use, a vector of elements at a time and with the products of the reference, so
 * that they give its bits. Included after simd_math.h. */
#ifndef KN_COMPUTE_CPU_SIMD_BLOCKS_H
#define KN_COMPUTE_CPU_SIMD_BLOCKS_H

#include "tensor/blocks.h"

static inline ivec i_low_half(const uint8_t *p) {
    return i_and(i_from_u8(p), 15);
}

static inline ivec i_high_half(const uint8_t *p) {
    return i_right(i_from_u8(p), 4);
}

static void decode_q8_0(const void *src, size_t n, float scale, float *dst) {
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i += 32, p += 34, dst += 32) {
        vec d = v_set(half_at(p));
        for (size_t l = 0; l < 32; l += LANES)
            v_store(dst + l, v_mul(v_mul(d, v_from_i8(p + 2 + l)), v_set(scale)));
    }
}

static void decode_q4_0(const void *src, size_t n, float scale, float *dst) {
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i += 32, p += 18, dst += 32) {
        vec d = v_set(half_at(p));
        for (size_t l = 0; l < 16; l += LANES) {
            vec low = v_sub(v_from_int(i_low_half(p + 2 + l)), v_set(8));
            vec high = v_sub(v_from_int(i_high_half(p + 2 + l)), v_set(8));
            v_store(dst + l, v_mul(v_mul(d, low), v_set(scale)));
            v_store(dst + 16 + l, v_mul(v_mul(d, high), v_set(scale)));
        }
    }
}

/* What the elements of one sub-block of 32 share in Q4_K and Q5_K. */
typedef struct sub_block {
    vec d, m;
} sub_block;

static inline sub_block sub_block_of(const uint8_t *block, size_t j) {
    uint8_t scale, min;
    kn_scale_and_min(block + 4, j, &scale, &min);
    return (sub_block){ v_set(half_at(block) * scale), v_set(half_at(block + 2) * min) };
}

static inline vec v_of_sub_block(sub_block s, ivec n, float scale) {
    return v_mul(v_sub(v_mul(s.d, v_from_int(n)), s.m), v_set(scale));
}

static void decode_q4_k(const void *src, size_t n, float scale, float *dst) {
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i += 256, p += 144)
        for (size_t j = 0; j < 8; j += 2, dst += 64) {
            sub_block first = sub_block_of(p, j), second = sub_block_of(p, j + 1);
            const uint8_t *q = p + 16 + 16 * j;
            for (size_t l = 0; l < 32; l += LANES) {
                v_store(dst + l, v_of_sub_block(first, i_low_half(q + l), scale));
                v_store(dst + 32 + l, v_of_sub_block(second, i_high_half(q + l), scale));
            }
        }
}

static inline ivec i_fifth_bit(const uint8_t *high, size_t bit) {
    return i_left(i_and(i_right(i_from_u8(high), bit), 1), 4);
}

static void decode_q5_k(const void *src, size_t n, float scale, float *dst) {
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i += 256, p += 176)
        for (size_t j = 0; j < 8; j += 2, dst += 64) {
            sub_block first = sub_block_of(p, j), second = sub_block_of(p, j + 1);
            const uint8_t *high = p + 16, *q = p + 48 + 16 * j;
            for (size_t l = 0; l < 32; l += LANES) {
                ivec low = i_or(i_low_half(q + l), i_fifth_bit(high + l, j));
                ivec upper = i_or(i_high_half(q + l), i_fifth_bit(high + l, j + 1));
                v_store(dst + l, v_of_sub_block(first, low, scale));
                v_store(dst + 32 + l, v_of_sub_block(second, upper, scale));
            }
        }
}

/* LANES elements of Q6_K, which all belong to one sub-block of 16. */
static inline vec v_of_q6_k(float d, ivec four, ivec two, float scale) {
    vec q = v_sub(v_from_int(i_or(four, i_left(i_and(two, 3), 4))), v_set(32));
    return v_mul(v_mul(v_set(d), q), v_set(scale));
}

static void decode_q6_k(const void *src, size_t n, float scale, float *dst) {
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i += 256, p += 210)
        for (size_t h = 0; h < 2; h++, dst += 128) {
            const uint8_t *low = p + 64 * h, *high = p + 128 + 32 * h, *s = p + 192 + 8 * h;
            float d = half_at(p + 208);
            for (size_t l = 0; l < 32; l += LANES)
                for (size_t k = 0; k < 4; k++) {
                    const uint8_t *byte = low + 32 * (k % 2) + l;
                    ivec four = k < 2 ? i_low_half(byte) : i_high_half(byte);
                    ivec two = i_right(i_from_u8(high + l), 2 * k);
                    v_store(dst + 32 * k + l, v_of_q6_k(d * (int8_t)s[2 * k + l / 16], four, two, scale));
                }
        }
}

#endif
