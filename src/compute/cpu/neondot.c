/* The tier of ARM processors that multiply int8 by words (SDOT), built with flags of its own: no other file may use
 * what is compiled here but the init function. It has what it adds to the NEON tier. The includes stand in the order in
 * which they need each other. */
#include "compute/cpu/kernels.h"

#include "compute/cpu/vec_neon.h"

#include "compute/cpu/simd_math.h"

#include "compute/cpu/simd_product.h"

#include "compute/cpu/simd_int8.h"

#include "compute/cpu/neon_words.h"

enum { MOST_ROWS = 8 }; /* of a tile, by LANES columns: 16 sums, 8 registers of rows, 2 of the panel */

static void to_int8(const float *x, size_t n, float s, void *dst) {
    for (size_t i = 0; i < n; i += LANES) {
        vec v = v_div(v_take(x + i, n - i), v_set(s));
        int16x8_t q = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(v.low)), vqmovn_s32(vcvtnq_s32_f32(v.high)));
        uint8_t all[LANES] = { 0 }, *at = (uint8_t *)dst + i, *to = n - i >= LANES ? at : all;
        vst1_u8(to, vreinterpret_u8_s8(vqmovn_s16(q)));
        if (n - i < LANES)
            memcpy(at, all, n - i);
    }
}

static void transpose_int8(const int8_t *src, size_t stride, size_t rows, size_t k, void *panel, int32_t *sums) {
    (void)sums; /* 0 times those of the rows would be added */
    transpose_words(transpose_four, (const uint8_t *)src, stride, rows, k, panel);
}

static inline int8x16_t bytes_of(float32x4_t x) {
    return vreinterpretq_s8_f32(x);
}

/* The word of every row that is number `lane` of its register, times that row of the panel. */
#define MULTIPLY_BY_WORD(lane)                                                                                         \
    do {                                                                                                               \
        int8x16_t low = bytes_of(load_four(panel + (lane)*PANEL_BYTES));                                               \
        int8x16_t high = bytes_of(load_four(panel + (lane)*PANEL_BYTES + REGISTER));                                   \
        KN_UNROLL                                                                                                      \
        for (size_t i = 0; i < height; i++) {                                                                          \
            sum[i].low = vdotq_laneq_s32(sum[i].low, low, x[i], lane);                                                 \
            sum[i].high = vdotq_laneq_s32(sum[i].high, high, x[i], lane);                                              \
        }                                                                                                              \
    } while (0)

/* `height` is a constant wherever this is used; so many rows may be read, of which `rows` count. */
static KN_ALWAYS_INLINE void multiply_tile(size_t height, const uint8_t *a, size_t rows, size_t words,
                                           const uint8_t *panel, float *c, size_t c_stride, size_t n, bool add) {
    ivec sum[MOST_ROWS];
    KN_UNROLL
    for (size_t i = 0; i < height; i++)
        sum[i] = (ivec){ vdupq_n_s32(0), vdupq_n_s32(0) };
    for (size_t p = 0; p < words; p += 4, a += REGISTER, panel += 4 * PANEL_BYTES) {
        int8x16_t x[MOST_ROWS];
        KN_UNROLL
        for (size_t i = 0; i < height; i++)
            x[i] = bytes_of(load_four(a + i * ROW_BYTES));
        MULTIPLY_BY_WORD(0);
        MULTIPLY_BY_WORD(1);
        MULTIPLY_BY_WORD(2);
        MULTIPLY_BY_WORD(3);
    }
    KN_UNROLL
    for (size_t i = 0; i < height; i++) {
        vec all = { vreinterpretq_f32_s32(sum[i].low), vreinterpretq_f32_s32(sum[i].high) };
        if (i < rows)
            put_sums(v_add_int, all, c + i * c_stride, 0, n, NULL, add);
    }
}

/* The panel's columns stay in the nearest cache while all rows go by. */
static void product_int8(const void *left, size_t rows, size_t k, const void *panel, float *c, size_t c_stride,
                         size_t n, const float *bias, bool add) {
    (void)bias;
    for (size_t j = 0; j < n; j += LANES)
        for (size_t i = 0; i < rows; i += MOST_ROWS) {
            const uint8_t *a = (const uint8_t *)left + i * ROW_BYTES, *b = (const uint8_t *)panel + j * WORD;
            float *to = c + i * c_stride + j;
            if (rows - i > MOST_ROWS / 2)
                multiply_tile(MOST_ROWS, a, rows - i, k / WORD, b, to, c_stride, n - j, add);
            else
                multiply_tile(MOST_ROWS / 2, a, rows - i, k / WORD, b, to, c_stride, n - j, add);
        }
}

void kn_kernels_init_neondot(kn_kernels *k) {
    k->name = "neondot";
    k->int8 = true;
    k->int8_zero = 0;
    k->scale_int8 = scale_int8;
    k->to_int8 = to_int8;
    k->transpose_int8 = transpose_int8;
    k->product_int8 = product_int8;
    k->finish_int8 = finish_int8;
}
