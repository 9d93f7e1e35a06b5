/* How numbers are stored, and what they mean: the one table of storage types, and the reference decoder to float32.
 *
 * Block-quantised types (blocks.h) store `block` elements in `block_bytes` bytes; plain types have block 1. Decoding
 * here is the truth that every kernel is checked against; it is not meant to be fast. */
#ifndef KN_TENSOR_DTYPE_H
#define KN_TENSOR_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef enum kn_dtype {
    KN_F32,
    KN_F16,
    KN_BF16,
    KN_F8_E4M3,
    KN_F8_E5M2,
    KN_F64,
    KN_I8,
    KN_U8,
    KN_I16,
    KN_U16,
    KN_I32,
    KN_U32,
    KN_I64,
    KN_U64,
    KN_BOOL,
    KN_Q4_0,
    KN_Q4_1,
    KN_Q5_0,
    KN_Q5_1,
    KN_Q8_0,
    KN_Q2_K,
    KN_Q3_K,
    KN_Q4_K,
    KN_Q5_K,
    KN_Q6_K,
    KN_IQ4_NL,
    KN_IQ4_XS,
    KN_DTYPE_COUNT
} kn_dtype;

typedef struct kn_dtype_info {
    const char *name;            /* as safetensors spells it, block types as GGUF does */
    uint32_t block, block_bytes; /* no block is larger than 256 elements, and all sizes divide that */
    bool is_weight;              /* kn_decode can read it */
} kn_dtype_info;

const kn_dtype_info *kn_dtype_of(kn_dtype t);

/* By the name that safetensors headers use ("F32", "F8_E4M3", …); block types have none there. */
bool kn_dtype_by_name(const char *name, size_t len, kn_dtype *ret);

/* Bytes of n elements; n must be a whole number of blocks. */
size_t kn_dtype_bytes(kn_dtype t, size_t n);

/* Decodes n elements (whole blocks) at src to float32, exactly. src needs no alignment. Scales stored outside the type
 * (scaled FP8, INT8) are not applied. */
void kn_decode(kn_dtype t, const void *src, size_t n, float *dst);

/* bfloat16 by rounding to nearest, ties to even; NaN stays NaN. */
uint16_t kn_bf16_from_float(float f);
float kn_float_from_bf16(uint16_t b);
float kn_float_from_f16(uint16_t h);
float kn_float_from_e4m3(uint8_t c);
float kn_float_from_e5m2(uint8_t c);

#endif
