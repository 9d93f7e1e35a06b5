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

#endif
