/* Panels of words of 32 bits, for tiers that multiply narrower elements than float32. Included after vec_neon.h. */
#ifndef KN_COMPUTE_CPU_NEON_WORDS_H
#define KN_COMPUTE_CPU_NEON_WORDS_H

enum {
    REGISTER = 16,                                /* bytes */
    PANEL_BYTES = KN_BF16_COLUMNS * WORD,         /* from word to word along k */
    STEP_BYTES = KN_BF16_STEP * sizeof(uint16_t), /* of a row, of which panels hold whole ones */
};
_Static_assert((int)KN_BF16_COLUMNS == (int)KN_INT8_COLUMNS, "panels of both kinds have the same words");
_Static_assert((int)STEP_BYTES == (int)KN_INT8_STEP, "and whole steps of as many bytes");

static inline float32x4_t load_four(const uint8_t *p) { /* words */
    return vreinterpretq_f32_u8(vld1q_u8(p));
}

static inline void store_four(uint8_t *p, float32x4_t words) {
    vst1q_u8(p, vreinterpretq_u8_f32(words));
}

/* Up to a register's bytes, then zeros. */
static inline float32x4_t take_four(const uint8_t *p, size_t bytes) {
    if (bytes >= REGISTER)
        return load_four(p);
    uint8_t all[REGISTER] = { 0 };
    memcpy(all, p, bytes);
    return load_four(all);
}

typedef void turn_fn(float32x4_t x[4]);

/* `bytes` of each of up to KN_TRANSPOSE_ROWS rows to a panel, with zeros for what is missing. turn makes of four
 * columns' words the four registers that go below each other. */
static KN_ALWAYS_INLINE void transpose_words(turn_fn *turn, const uint8_t *src, size_t stride, size_t rows,
                                             size_t bytes, uint8_t *panel) {
    size_t end = (bytes + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
    for (size_t j = 0; j < KN_TRANSPOSE_ROWS; j += 4)
        for (size_t i = 0; i < end; i += REGISTER) {
            float32x4_t x[4];
            for (size_t r = 0; r < 4; r++)
                x[r] = j + r < rows && i < bytes ? take_four(src + (j + r) * stride + i, bytes - i) : vdupq_n_f32(0);
            turn(x);
            for (size_t r = 0; r < 4; r++)
                store_four(panel + (i / WORD + r) * PANEL_BYTES + j * WORD, x[r]);
        }
}

#endif
