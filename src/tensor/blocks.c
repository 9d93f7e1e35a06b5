#include "tensor/blocks.h"

static float half_at(const uint8_t *p) {
    return kn_float_from_f16((uint16_t)(p[0] | p[1] << 8));
}

/* Blocks of 32: element i is the low half of byte i, element 16 + i its high half. */

static unsigned nibble(const uint8_t *q, size_t i) {
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

/* The fifth bits stand together in four bytes, element i in bit i. */
static unsigned five_bits(const uint8_t *high, const uint8_t *q, size_t i) {
    return nibble(q, i) | (high[i / 8] >> i % 8 & 1u) << 4;
}

static void q4_0(const uint8_t *p, float *dst) {
    float d = half_at(p);
    for (size_t i = 0; i < 32; i++)
        dst[i] = d * ((float)nibble(p + 2, i) - 8);
}

static void q4_1(const uint8_t *p, float *dst) {
    float d = half_at(p), m = half_at(p + 2);
    for (size_t i = 0; i < 32; i++)
        dst[i] = d * (float)nibble(p + 4, i) + m;
}

static void q5_0(const uint8_t *p, float *dst) {
    float d = half_at(p);
    for (size_t i = 0; i < 32; i++)
        dst[i] = d * ((float)five_bits(p + 2, p + 6, i) - 16);
}

static void q5_1(const uint8_t *p, float *dst) {
    float d = half_at(p), m = half_at(p + 2);
    for (size_t i = 0; i < 32; i++)
        dst[i] = d * (float)five_bits(p + 4, p + 8, i) + m;
}

static void q8_0(const uint8_t *p, float *dst) {
    float d = half_at(p);
    for (size_t i = 0; i < 32; i++)
        dst[i] = d * (float)(int8_t)p[2 + i];
}

const int8_t kn_uneven_steps[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };

static void iq4_nl(const uint8_t *p, float *dst) {
    float d = half_at(p);
    for (size_t i = 0; i < 32; i++)
        dst[i] = d * (float)kn_uneven_steps[nibble(p + 2, i)];
}

/* Blocks of 256: sub-blocks of 16 or 32 have small scales of their own, which the block's one or two F16 numbers
 * multiply. */

/* Element 128 h + 32 j + l is two bits of byte 32 h + l, with the scale of its sixteen. */
static void q2_k(const uint8_t *p, float *dst) {
    const uint8_t *scales = p, *q = p + 16;
    float d = half_at(p + 80), dmin = half_at(p + 82);
    for (size_t i = 0; i < 256; i++) {
        size_t h = i / 128, j = i / 32 % 4, l = i % 32;
        uint8_t s = scales[i / 16];
        dst[i] = d * (float)(s & 15) * (float)(q[32 * h + l] >> 2 * j & 3) - dmin * (float)(s >> 4);
    }
}

/* As Q2_K with a third bit; scales of six bits, four of them and the upper two apart. */
static void q3_k(const uint8_t *p, float *dst) {
    const uint8_t *third = p, *q = p + 32, *s = p + 96;
    float d = half_at(p + 108);
    for (size_t i = 0; i < 256; i++) {
        size_t h = i / 128, j = i / 32 % 4, l = i % 32;
        int v = (q[32 * h + l] >> 2 * j & 3) - (third[l] >> (4 * h + j) & 1 ? 0 : 4);
        dst[i] = d * (float)kn_q3_k_scale(s, i / 16) * (float)v;
    }
}

/* Element 64 g + l is the low half of byte 32 g + l, element 64 g + 32 + l its high half. */
static void q4_k(const uint8_t *p, float *dst) {
    const uint8_t *q = p + 16;
    float d = half_at(p), dmin = half_at(p + 2);
    for (size_t i = 0; i < 256; i++) {
        uint8_t scale, min, byte = q[i / 64 * 32 + i % 32];
        kn_scale_and_min(p + 4, i / 32, &scale, &min);
        dst[i] = d * (float)scale * (float)(i / 32 % 2 ? byte >> 4 : byte & 15) - dmin * (float)min;
    }
}

/* As Q4_K; bit j of byte l is the fifth one of element 32 j + l. */
static void q5_k(const uint8_t *p, float *dst) {
    const uint8_t *high = p + 16, *q = p + 48;
    float d = half_at(p), dmin = half_at(p + 2);
    for (size_t i = 0; i < 256; i++) {
        uint8_t scale, min, byte = q[i / 64 * 32 + i % 32];
        kn_scale_and_min(p + 4, i / 32, &scale, &min);
        int n = (i / 32 % 2 ? byte >> 4 : byte & 15) | (high[i % 32] >> i / 32 & 1) << 4;
        dst[i] = d * (float)scale * (float)n - dmin * (float)min;
    }
}

/* Element 128 h + 32 k + l: four bits from byte 64 h + 32 (k % 2) + l, two more from byte 32 h + l of the upper ones.
 */
static void q6_k(const uint8_t *p, float *dst) {
    const uint8_t *low = p, *high = p + 128, *scales = p + 192;
    float d = half_at(p + 208);
    for (size_t i = 0; i < 256; i++) {
        size_t h = i / 128, k = i / 32 % 4, l = i % 32;
        uint8_t byte = low[64 * h + 32 * (k % 2) + l];
        int n = (k < 2 ? byte & 15 : byte >> 4) | (high[32 * h + l] >> 2 * k & 3) << 4;
        dst[i] = d * (float)(int8_t)scales[i / 16] * (float)(n - 32);
    }
}

static void iq4_xs(const uint8_t *p, float *dst) {
    const uint8_t *q = p + 8;
    float d = half_at(p);
    for (size_t i = 0; i < 256; i++) {
        size_t b = i / 32;
        dst[i] = d * (float)kn_iq4_xs_scale(p, b) * (float)kn_uneven_steps[nibble(q + 16 * b, i % 32)];
    }
}

kn_block_fn *kn_block_decoder(kn_dtype t) {
    static kn_block_fn *const table[KN_DTYPE_COUNT] = {
        [KN_Q4_0] = q4_0, [KN_Q4_1] = q4_1, [KN_Q5_0] = q5_0,     [KN_Q5_1] = q5_1,
        [KN_Q8_0] = q8_0, [KN_Q2_K] = q2_k, [KN_Q3_K] = q3_k,     [KN_Q4_K] = q4_k,
        [KN_Q5_K] = q5_k, [KN_Q6_K] = q6_k, [KN_IQ4_NL] = iq4_nl, [KN_IQ4_XS] = iq4_xs,
    };
    return table[t];
}
