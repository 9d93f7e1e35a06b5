/* The tier of ARM processors that multiply small matrices of bfloat16 and int8 (BFMMLA, SMMLA), built with flags of its
 * own: no other file may use what is compiled here but the init function. It has what it adds to the tier neondot. The
 * includes stand in the order in which they need each other. */
#include "compute/cpu/kernels.h"

#include "compute/cpu/vec_neon.h"

#include "compute/cpu/vec_neonbf16.h"

#include "compute/cpu/simd_math.h"

#include "compute/cpu/simd_product.h"

#include "compute/cpu/simd_transforms.h"

#include "compute/cpu/simd_narrow.h"

#include "compute/cpu/neon_words.h"

/* One instruction multiplies two rows by two columns, of two words each: a tile has 16 registers of sums, 2 of rows and
 * one after the other of the panel. With three pairs of rows gcc 12 spills. */
enum { PAIRS = 2 /* of rows */, COLUMN_PAIRS = 8, TILE_COLUMNS = 2 * COLUMN_PAIRS };
_Static_assert((int)TILE_COLUMNS == (int)KN_TRANSPOSE_ROWS, "so many columns may be read");
_Static_assert(KN_BF16_ROWS % 2 == 0, "whole pairs of rows may be read");

DECODER_BF16(decode_bf16_e4m3, 1, v_from_e4m3)

#define TURN_PAIRS(turn, a, b) vreinterpretq_f32_f64(turn(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)))

/* Four columns' words, so that two of each of two columns lie together. */
static inline void zip_columns(float32x4_t x[4]) {
    float32x4_t a = x[0], b = x[1], c = x[2], d = x[3];
    x[0] = TURN_PAIRS(vtrn1q_f64, a, b);
    x[1] = TURN_PAIRS(vtrn1q_f64, c, d);
    x[2] = TURN_PAIRS(vtrn2q_f64, a, b);
    x[3] = TURN_PAIRS(vtrn2q_f64, c, d);
}

static void transpose_bf16(const void *src, size_t stride, size_t rows, size_t k, uint16_t *panel) {
    transpose_words(zip_columns, src, stride, rows, k * sizeof *panel, (uint8_t *)panel);
}

static void transpose_int8(const int8_t *src, size_t stride, size_t rows, size_t k, void *panel, int32_t *sums) {
    (void)sums; /* 0 times those of the rows would be added */
    transpose_words(zip_columns, (const uint8_t *)src, stride, rows, k, panel);
}

/* What four rows of floats have in four columns; `first` and `second` are words of the first and last two rows. */
static inline void put_zipped(uint16x8_t first, uint16x8_t second, uint8_t *panel) {
    float32x4_t a = vreinterpretq_f32_u16(first), b = vreinterpretq_f32_u16(second);
    store_four(panel, vzip1q_f32(a, b));
    store_four(panel + PANEL_BYTES, vzip2q_f32(a, b));
}

static void gather_bf16(const float *src, size_t stride, size_t n, size_t k, uint16_t *panel) {
    size_t end = (k + KN_BF16_STEP - 1) / KN_BF16_STEP * KN_BF16_STEP;
    for (size_t i = 0; i < end; i += 4)
        for (size_t j = 0; j < KN_BF16_COLUMNS; j += LANES) {
            uint16x8_t row[4];
            for (size_t r = 0; r < 4; r++)
                row[r] = rounded(i + r < k && j < n ? v_take(src + (i + r) * stride + j, n - j) : v_zero());
            uint8_t *to = (uint8_t *)panel + i / 2 * PANEL_BYTES + j * WORD;
            put_zipped(vzip1q_u16(row[0], row[1]), vzip1q_u16(row[2], row[3]), to);
            put_zipped(vzip2q_u16(row[0], row[1]), vzip2q_u16(row[2], row[3]), to + REGISTER);
        }
}

/* Two words of each of two rows. */
static inline float32x4_t two_rows(const uint8_t *a) {
    return vreinterpretq_f32_u8(vcombine_u8(vld1_u8(a), vld1_u8(a + ROW_BYTES)));
}

/* Two rows by two columns, in the type of the instruction: a register whose type changes within the loop is copied. The
 * other one is not used. */
typedef struct square {
    float32x4_t floats;
    int32x4_t ints;
} square;

/* `int8` is a constant wherever this is used. */
static KN_ALWAYS_INLINE void multiply_pairs(bool int8, float32x4_t a, float32x4_t b, square *sum) {
    if (int8)
        sum->ints = vmmlaq_s32(sum->ints, vreinterpretq_s8_f32(a), vreinterpretq_s8_f32(b));
    else
        sum->floats = vbfmmlaq_f32(sum->floats, vreinterpretq_bf16_f32(a), vreinterpretq_bf16_f32(b));
}

/* Four columns of the first or the second row. */
static KN_ALWAYS_INLINE float32x4_t row_of(bool int8, const square sum[2], bool second) {
    float32x4_t a = int8 ? vreinterpretq_f32_s32(sum[0].ints) : sum[0].floats;
    float32x4_t b = int8 ? vreinterpretq_f32_s32(sum[1].ints) : sum[1].floats;
    return second ? TURN_PAIRS(vtrn2q_f64, a, b) : TURN_PAIRS(vtrn1q_f64, a, b);
}

/* `pairs` of rows, of which `rows` count, by TILE_COLUMNS, of which n count. `pairs` is a constant, too. */
static KN_ALWAYS_INLINE void multiply_tile(bool int8, size_t pairs, const uint8_t *a, size_t rows, size_t words,
                                           const uint8_t *panel, float *c, size_t c_stride, size_t n, const float *bias,
                                           bool add) {
    square sum[PAIRS][COLUMN_PAIRS];
    KN_UNROLL
    for (size_t i = 0; i < pairs; i++) {
        KN_UNROLL
        for (size_t j = 0; j < COLUMN_PAIRS; j++)
            sum[i][j] = (square){ vdupq_n_f32(0), vdupq_n_s32(0) };
    }
    for (size_t p = 0; p < words; p += 2, a += 2 * WORD, panel += 2 * PANEL_BYTES) {
        float32x4_t x[PAIRS];
        KN_UNROLL
        for (size_t i = 0; i < pairs; i++)
            x[i] = two_rows(a + 2 * i * ROW_BYTES);
        KN_UNROLL
        for (size_t j = 0; j < COLUMN_PAIRS; j++) {
            float32x4_t y = load_four(panel + j % 2 * PANEL_BYTES + j / 2 * REGISTER);
            KN_UNROLL
            for (size_t i = 0; i < pairs; i++)
                multiply_pairs(int8, x[i], y, &sum[i][j]);
        }
    }
    KN_UNROLL
    for (size_t i = 0; i < 2 * pairs; i++) {
        KN_UNROLL
        for (size_t j = 0; j < TILE_COLUMNS; j += LANES) {
            const square *from = &sum[i / 2][j / 2];
            vec row = { row_of(int8, from, i % 2), row_of(int8, from + 2, i % 2) };
            if (i < rows && j < n)
                put_sums(int8 ? v_add_int : v_add, row, c + i * c_stride, j, n, bias, add);
        }
    }
}

/* The panel's columns stay in the nearest cache while all rows go by. */
static KN_ALWAYS_INLINE void multiply_by_pairs(bool int8, const uint8_t *left, size_t rows, size_t words,
                                               const uint8_t *panel, float *c, size_t c_stride, size_t n,
                                               const float *bias, bool add) {
    for (size_t j = 0; j < n; j += TILE_COLUMNS)
        for (size_t i = 0; i < rows; i += 2 * PAIRS) {
            const uint8_t *a = left + i * ROW_BYTES, *b = panel + j * WORD;
            const float *plus = bias ? bias + j : NULL;
            float *to = c + i * c_stride + j;
            if (rows - i > 2)
                multiply_tile(int8, PAIRS, a, rows - i, words, b, to, c_stride, n - j, plus, add);
            else
                multiply_tile(int8, 1, a, rows - i, words, b, to, c_stride, n - j, plus, add);
        }
}

static void product_bf16(const void *a, size_t rows, size_t k, const void *panel, float *c, size_t c_stride, size_t n,
                         const float *bias, bool add) {
    multiply_by_pairs(false, a, rows, k / 2, panel, c, c_stride, n, bias, add);
}

static void product_int8(const void *a, size_t rows, size_t k, const void *panel, float *c, size_t c_stride, size_t n,
                         const float *bias, bool add) {
    multiply_by_pairs(true, a, rows, k / 4, panel, c, c_stride, n, bias, add);
}

void kn_kernels_init_neonbf16(kn_kernels *k) {
    k->name = "neonbf16";
    k->zipped = true;
    fill_narrow(k);
    k->decode_bf16[KN_F8_E4M3] = decode_bf16_e4m3;
    k->transpose_bf16 = transpose_bf16;
    k->gather_bf16 = gather_bf16;
    k->product_bf16 = product_bf16;
    k->transpose_int8 = transpose_int8;
    k->product_int8 = product_int8;
}
