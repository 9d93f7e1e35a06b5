/* The block-quantised types of GGUF files: a few elements share scales, and lie together in one block of bytes.
 *
 * Every value is made of float32 products and one difference, taken from left to right as written here, so that it is
 * the same to the bit wherever it is computed. */
#ifndef KN_TENSOR_BLOCKS_H
#define KN_TENSOR_BLOCKS_H

#include "tensor/dtype.h"

/* One block to its elements. */
typedef void kn_block_fn(const uint8_t *block, float *dst);

/* The reference decoder; NULL for types without blocks. */
kn_block_fn *kn_block_decoder(kn_dtype t);

/* Q4_K and Q5_K: scale and minimum of sub-block j (0 … 7), six bits each, from their twelve bytes. */
static inline void kn_scale_and_min(const uint8_t *s, size_t j, uint8_t *scale, uint8_t *min) {
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (uint8_t)((s[j + 4] & 15) | s[j - 4] >> 6 << 4);
        *min = (uint8_t)(s[j + 4] >> 4 | s[j] >> 6 << 4);
    }
}

/* Q3_K: the scale of sub-block k (0 … 15), six bits less 32, from twelve bytes; IQ4_XS: that of sub-block j (0 … 7),
 * from the block. */
static inline int kn_q3_k_scale(const uint8_t *s, size_t k) {
    int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4, high = s[8 + k % 4] >> 2 * (k / 4) & 3;
    return (low | high << 4) - 32;
}

static inline int kn_iq4_xs_scale(const uint8_t *block, size_t j) {
    unsigned high = block[2] | (unsigned)block[3] << 8;
    return (int)((block[4 + j / 2] >> 4 * (j % 2) & 15) | (high >> 2 * j & 3) << 4) - 32;
}

/* IQ4_NL and IQ4_XS: steps that are closer together around zero, where most weights are. */
extern const int8_t kn_uneven_steps[16];

#endif
