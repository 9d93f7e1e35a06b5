#include "tensor/dtype.h"

#include <math.h>
#include <string.h>

#include "tensor/blocks.h"

static const kn_dtype_info table[KN_DTYPE_COUNT] = {
    [KN_F32] = { "F32", 1, 4, true },
    [KN_F16] = { "F16", 1, 2, true },
    [KN_BF16] = { "BF16", 1, 2, true },
    [KN_F8_E4M3] = { "F8_E4M3", 1, 1, true },
    [KN_F8_E5M2] = { "F8_E5M2", 1, 1, true },
    [KN_F64] = { "F64", 1, 8, false },
    [KN_I8] = { "I8", 1, 1, true },
    [KN_U8] = { "U8", 1, 1, false },
    [KN_I16] = { "I16", 1, 2, false },
    [KN_U16] = { "U16", 1, 2, false },
    [KN_I32] = { "I32", 1, 4, false },
    [KN_U32] = { "U32", 1, 4, false },
    [KN_I64] = { "I64", 1, 8, false },
    [KN_U64] = { "U64", 1, 8, false },
    [KN_BOOL] = { "BOOL", 1, 1, false },
    [KN_Q4_0] = { "Q4_0", 32, 18, true },
    [KN_Q4_1] = { "Q4_1", 32, 20, true },
    [KN_Q5_0] = { "Q5_0", 32, 22, true },
    [KN_Q5_1] = { "Q5_1", 32, 24, true },
    [KN_Q8_0] = { "Q8_0", 32, 34, true },
    [KN_Q2_K] = { "Q2_K", 256, 84, true },
    [KN_Q3_K] = { "Q3_K", 256, 110, true },
    [KN_Q4_K] = { "Q4_K", 256, 144, true },
    [KN_Q5_K] = { "Q5_K", 256, 176, true },
    [KN_Q6_K] = { "Q6_K", 256, 210, true },
    [KN_IQ4_NL] = { "IQ4_NL", 32, 18, true },
    [KN_IQ4_XS] = { "IQ4_XS", 256, 136, true },
};

const kn_dtype_info *kn_dtype_of(kn_dtype t) {
    return &table[t];
}

bool kn_dtype_by_name(const char *name, size_t len, kn_dtype *ret) {
    for (int t = 0; t < KN_DTYPE_COUNT; t++) {
        if (table[t].block == 1 && strlen(table[t].name) == len && memcmp(table[t].name, name, len) == 0) {
            *ret = (kn_dtype)t;
            return true;
        }
    }
    return false;
}

size_t kn_dtype_bytes(kn_dtype t, size_t n) {
    return n / table[t].block * table[t].block_bytes;
}

static float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

uint16_t kn_bf16_from_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

float kn_float_from_bf16(uint16_t b) {
    return float_of_bits((uint32_t)b << 16);
}

float kn_float_from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3FF;
    if (exponent == 0) {
        float v = (float)mantissa * 0x1p-24f;
        return sign ? -v : v;
    }
    if (exponent == 31)
        return float_of_bits(sign | 0x7F800000u | mantissa << 13);
    return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

/* FP8 as OCP defines it: E4M3 has no infinities and one NaN per sign; E5M2 is the upper byte of an F16. */
float kn_float_from_e4m3(uint8_t c) {
    uint32_t exponent = c >> 3 & 15, mantissa = c & 7;
    float v = exponent == 15 && mantissa == 7 ? NAN
              : exponent == 0                 ? (float)mantissa * 0x1p-9f
                                              : float_of_bits((exponent + 120) << 23 | mantissa << 20);
    return c & 0x80 ? -v : v;
}

float kn_float_from_e5m2(uint8_t c) {
    return kn_float_from_f16((uint16_t)(c << 8));
}

static void decode_blocks(kn_dtype t, const uint8_t *p, size_t n, float *dst) {
    kn_block_fn *decode = kn_block_decoder(t);
    for (size_t i = 0; i < n; i += table[t].block, p += table[t].block_bytes)
        decode(p, dst + i);
}

void kn_decode(kn_dtype t, const void *src, size_t n, float *dst) {
    const uint8_t *p = src;
    if (table[t].block > 1) {
        decode_blocks(t, p, n, dst);
        return;
    }
    switch (t) {
    case KN_F32: memcpy(dst, p, n * sizeof *dst); return;
    case KN_F16:
        for (size_t i = 0; i < n; i++)
            dst[i] = kn_float_from_f16((uint16_t)(p[2 * i] | p[2 * i + 1] << 8));
        return;
    case KN_BF16:
        for (size_t i = 0; i < n; i++)
            dst[i] = kn_float_from_bf16((uint16_t)(p[2 * i] | p[2 * i + 1] << 8));
        return;
    case KN_F8_E4M3:
        for (size_t i = 0; i < n; i++)
            dst[i] = kn_float_from_e4m3(p[i]);
        return;
    case KN_F8_E5M2:
        for (size_t i = 0; i < n; i++)
            dst[i] = kn_float_from_e5m2(p[i]);
        return;
    case KN_I8:
        for (size_t i = 0; i < n; i++)
            dst[i] = (int8_t)p[i];
        return;
    default: memset(dst, 0, n * sizeof *dst); return; /* is_weight is false: loaders refuse it before */
    }
}
