/* Products of bfloat16: rounding, panels, the product. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { CODES = KN_BF16_BLOCK * KN_BF16_COLUMNS };

typedef struct codes {
    uint16_t want[GUARD + CODES + GUARD], got[GUARD + CODES + GUARD];
} codes;

static codes panel;

static void fill_codes(void) {
    for (size_t i = 0; i < KN_COUNT(panel.want); i++)
        panel.want[i] = panel.got[i] = (uint16_t)random_bits();
}

/* All bits alike, but a zero may stand for what is subnormal, or was before it was rounded. */
static void compare_codes(size_t n) {
    for (size_t i = 0; i < KN_COUNT(panel.want); i++) {
        uint16_t want = panel.want[i], got = panel.got[i];
        bool flushed = (want & 0x7FFF) <= 0x80 && got == (want & 0x8000);
        if (want != got && !flushed && !(isnan(kn_float_from_bf16(want)) && isnan(kn_float_from_bf16(got))))
            report(n, (ptrdiff_t)i - GUARD, want, got);
    }
}

/* Any 32 bits, and often those of a tie. */
static float random_word(void) {
    uint32_t bits = random_bits();
    if (bits & 1)
        bits = (bits & ~0xFFFFu) | 0x8000;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void fill_words(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = random_word();
}

void check_to_bf16(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < 5 * ROUNDS; round++) {
        size_t n = random_size(MOST), shift = random_below(4);
        fill_words(input_a, KN_COUNT(input_a));
        fill_codes();
        ref->to_bf16(input_a + shift, n, panel.want + GUARD + shift);
        tier->to_bf16(input_a + shift, n, panel.got + GUARD + shift);
        compare_codes(n);
    }
}

/* Every code of a type that has few, random bits of the others. */
static void fill_stored(uint8_t *src, size_t bytes, bool every_code) {
    for (size_t i = 0; i < bytes; i++)
        src[i] = every_code ? (uint8_t)i : (uint8_t)random_bits();
}

void check_decode_bf16(const kn_kernels *ref, const kn_kernels *tier) {
    static uint8_t stored[4 * MOST + 8];
    for (int t = 0; t < KN_DTYPE_COUNT; t++) {
        const kn_dtype_info *type = kn_dtype_of((kn_dtype)t);
        for (size_t round = 0; tier->decode_bf16[t] && round < ROUNDS; round++) {
            size_t n = random_size(MOST / type->block) * type->block, bytes = kn_dtype_bytes((kn_dtype)t, n);
            uint8_t *src = stored + sizeof stored - bytes - random_below(5);
            fill_stored(src, bytes, round == 0);
            fill_codes();
            ref->decode[t](src, n, 1, input_a);
            ref->to_bf16(input_a, n, panel.want + GUARD);
            tier->decode_bf16[t](src, n, panel.got + GUARD);
            compare_codes(n);
        }
    }
}

/* That whole steps of k elements fill. */
static size_t words_of(size_t k) {
    return (k + KN_BF16_STEP - 1) / KN_BF16_STEP * KN_BF16_STEP / 2;
}

void check_transpose_bf16(const kn_kernels *ref, const kn_kernels *tier) {
    static uint8_t matrix[KN_TRANSPOSE_ROWS * (2 * KN_BF16_BLOCK + 20) + 5];
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        for (size_t i = 0; i < sizeof matrix; i++)
            matrix[i] = (uint8_t)random_bits();
        size_t k = random_size(KN_BF16_BLOCK), rows = random_below(KN_TRANSPOSE_ROWS + 1);
        size_t stride = k * sizeof(uint16_t) + random_below(20);
        size_t first = 2 * KN_TRANSPOSE_ROWS * random_below(KN_BF16_COLUMNS / KN_TRANSPOSE_ROWS);
        const uint8_t *end = matrix + sizeof matrix,
                      *src = end - KN_MIN(rows * stride + random_below(5), sizeof matrix);
        fill_codes();
        ref->transpose_bf16(src, stride, rows, k, panel.want + GUARD + first);
        zip_panel(tier, panel.want + GUARD + first, KN_TRANSPOSE_ROWS, words_of(k));
        tier->transpose_bf16(src, stride, rows, k, panel.got + GUARD + first);
        compare_codes(k);
    }
}

void check_gather_bf16(const kn_kernels *ref, const kn_kernels *tier) {
    static float matrix[KN_BF16_BLOCK * (KN_BF16_COLUMNS + 8)];
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t k = random_size(KN_BF16_BLOCK), n = random_below(KN_BF16_COLUMNS + 1), stride = n + random_below(8);
        fill_words(matrix, KN_COUNT(matrix));
        const float *src = matrix + KN_COUNT(matrix) - k * stride;
        fill_codes();
        ref->gather_bf16(src, stride, n, k, panel.want + GUARD);
        zip_panel(tier, panel.want + GUARD, KN_BF16_COLUMNS, words_of(k));
        tier->gather_bf16(src, stride, n, k, panel.got + GUARD);
        compare_codes(k);
    }
}

static uint16_t random_code(void) {
    return kn_bf16_from_float(random_float());
}

/* Rows and panels end where their memory does: nothing behind what may be read is read. */
void check_product_bf16(const kn_kernels *ref, const kn_kernels *tier) {
    enum { ROWS = 36 };
    static float size[MOST];
    for (size_t round = 0; round < 5 * ROUNDS; round++) {
        size_t rows = random_below(ROWS + 1), n = random_below(KN_BF16_COLUMNS + 1), stride = n + random_below(7);
        size_t k = random_below(KN_BF16_BLOCK / KN_BF16_STEP + 1) * KN_BF16_STEP;
        size_t codes_a = (rows + KN_BF16_ROWS - 1) / KN_BF16_ROWS * KN_BF16_ROWS * KN_BF16_STRIDE;
        size_t codes_b = k * KN_BF16_COLUMNS;
        uint16_t *a = allocate(codes_a * sizeof *a), *size_a = allocate(codes_a * sizeof *a);
        uint16_t *b = allocate(codes_b * sizeof *b), *size_b = allocate(codes_b * sizeof *b);
        for (size_t i = 0; i < codes_a; i++)
            size_a[i] = (a[i] = i < rows * KN_BF16_STRIDE ? random_code() : 0x7FC0) & 0x7FFF; /* NaN behind the rows */
        for (size_t i = 0; i < codes_b; i++)
            size_b[i] = (b[i] = i / 2 % KN_BF16_COLUMNS < n ? random_code() : 0x7FC0) & 0x7FFF;
        const float *bias = random_bits() % 2 ? random_input(input_a, 1) : NULL;
        bool add = random_bits() % 2;
        fill_pair(&out, 1);
        for (size_t i = 0; i < MOST; i++)
            size[i] = 1;
        ref->product_bf16(size_a, rows, k, size_b, size, stride, n, NULL, true);
        ref->product_bf16(a, rows, k, b, want_of(&out), stride, n, bias, add);
        zip_panel(tier, b, KN_BF16_COLUMNS, words_of(k));
        tier->product_bf16(a, rows, k, b, got_of(&out), stride, n, bias, add);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < n; j++) {
                float *want = want_of(&out) + i * stride + j, *got = got_of(&out) + i * stride + j;
                compare(k, i * stride + j, *want, *got, 1e-6 * size[i * stride + j]);
                *want = *got; /* what is left to compare must be untouched */
            }
        compare_pair(&out, 0, 0, 0);
        free(a);
        free(size_a);
        free(b);
        free(size_b);
    }
}

/* Rows of scores of which the maximum is there already, is raised, or is not worth raising. */
void check_softmax_bf16(const kn_kernels *ref, const kn_kernels *tier) {
    static float want[KN_STRIDE], got[KN_STRIDE];
    for (size_t round = 0; round < 6 * ROUNDS; round++) {
        size_t n_all = random_below(KN_BLOCK + 1), n = round % 3 ? random_below(n_all + 1) : n_all;
        size_t written = (n_all + KN_BF16_STEP - 1) / KN_BF16_STEP * KN_BF16_STEP;
        for (size_t i = 0; i < KN_STRIDE; i++)
            want[i] = got[i] = (round % 4 ? 20 : 200) * random_float();
        float max[2] = { -INFINITY, -INFINITY };
        if (round % 5)
            max[0] = max[1] = 30 * random_float();
        float scale = round % 2 ? 1 : 0.3f;
        float sum[2] = { ref->softmax_bf16(want, n, n_all, scale, &max[0]),
                         tier->softmax_bf16(got, n, n_all, scale, &max[1]) };
        compare(n, 0, max[0], max[1], 0);
        compare(n, 0, sum[0], sum[1], 0x1p-7 * sum[0] + 1e-30);
        for (size_t i = 0; i < written; i++) {
            uint16_t code[2];
            memcpy(&code[0], (const char *)want + 2 * i, sizeof code[0]);
            memcpy(&code[1], (const char *)got + 2 * i, sizeof code[1]);
            double weight = kn_float_from_bf16(code[0]);
            compare(n, i, weight, kn_float_from_bf16(code[1]), 0x1p-7 * weight + 2e-38);
        }
        for (size_t i = KN_MAX((written + 1) / 2, n_all); i < KN_STRIDE; i++)
            compare(n, i, want[i], got[i], 0);
    }
}

void check_dots_bf16(const kn_kernels *ref, const kn_kernels *tier) {
    static uint16_t x[KN_FEW_ROWS_BF16 * MOST];
    static uint8_t w[KN_DOT_COLUMNS * 2 * (MOST + 9) + 8];
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        size_t rows = random_below(KN_FEW_ROWS_BF16), columns = random_below(KN_DOT_COLUMNS + 1);
        size_t n = random_size(rows ? MOST / rows : MOST), stride = n + random_below(9);
        size_t w_stride = 2 * n + random_below(9), bytes = KN_MIN(columns * w_stride + random_below(5), sizeof w);
        uint8_t *from = w + sizeof w - bytes;
        for (size_t i = 0; i < rows * stride; i++)
            x[i] = random_code();
        for (size_t i = 0; i < columns * n; i++)
            memcpy(from + i / n * w_stride + i % n * sizeof *x, &(uint16_t){ random_code() }, sizeof *x);
        fill_pair(&out, 1);
        ref->dots_bf16(from, w_stride, columns, x, stride, rows, n, (void *)want_of(&out));
        tier->dots_bf16(from, w_stride, columns, x, stride, rows, n, (void *)got_of(&out));
        compare_pair(&out, columns * KN_FEW_ROWS_BF16, 1e-6, (double)n / 8 + 1);
    }
}
