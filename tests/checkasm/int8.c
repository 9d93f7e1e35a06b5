/* Products of int8, and sums of bytes: everything is whole numbers, so all bits are alike. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { PANEL = KN_INT8_BLOCK * KN_INT8_COLUMNS };

typedef struct bytes {
    uint8_t want[GUARD + PANEL + GUARD], got[GUARD + PANEL + GUARD];
} bytes;

static bytes panel;
static int32_t sums[2][GUARD + KN_INT8_COLUMNS + GUARD];

static void fill_bytes(void) {
    for (size_t i = 0; i < KN_COUNT(panel.want); i++)
        panel.want[i] = panel.got[i] = (uint8_t)random_bits();
}

static void compare_bytes(size_t n) {
    for (size_t i = 0; i < KN_COUNT(panel.want); i++)
        if (panel.want[i] != panel.got[i])
            report(n, (ptrdiff_t)i - GUARD, panel.want[i], panel.got[i]);
}

static void fill_sums(void) {
    for (size_t i = 0; i < KN_COUNT(sums[0]); i++)
        sums[0][i] = sums[1][i] = (int32_t)random_bits() >> 8;
}

static void compare_sums(size_t n) {
    for (size_t i = 0; i < KN_COUNT(sums[0]); i++)
        if (sums[0][i] != sums[1][i])
            report(n, (ptrdiff_t)i - GUARD, sums[0][i], sums[1][i]);
}

void check_scale_int8(const kn_kernels *ref, const kn_kernels *tier) {
    static const float sizes[] = { 1, 0, 1e-34f, 1e30f }, odd[] = { NAN, INFINITY, -INFINITY };
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        size_t n = random_size(MOST);
        float *x = input_a + random_below(4);
        random_input(input_a, sizes[round % KN_COUNT(sizes)]);
        if (round % 3 == 0)
            x[random_below(n + 2)] = odd[random_below(KN_COUNT(odd))]; /* sometimes just behind the end */
        compare(n, 0, ref->scale_int8(x, n), tier->scale_int8(x, n), 0);
    }
}

/* An element as the tier has it, number i of some that follow each other: q as in the weight, or of rows, which have
 * another zero. */
static void put_element(const kn_kernels *tier, void *to, size_t i, int q) {
    if (tier->int8_bytes == 1)
        ((uint8_t *)to)[i] = (uint8_t)q;
    else
        memcpy((int16_t *)to + i, &(int16_t){ (int16_t)q }, sizeof(int16_t));
}

/* Element p of column j in a panel. */
static size_t place_in_panel(const kn_kernels *k, size_t p, size_t j) {
    size_t word = 4 / k->int8_bytes;
    return (p / word * k->int8_columns + j) * word + p % word;
}

/* Ties of x / s among them. */
void check_to_int8(const kn_kernels *ref, const kn_kernels *tier) {
    static uint8_t codes[MOST];
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        size_t n = random_size(MOST), shift = random_below(4);
        float s = round % 2 ? 0.5f : 0.013f;
        for (size_t i = 0; i < n; i++)
            input_a[shift + i] =
                round % 3 ? 127 * s * random_float() : s * 0.5f * (float)((int)random_below(509) - 254);
        fill_bytes();
        uint8_t *at = panel.want + GUARD + tier->int8_bytes * shift;
        ref->to_int8(input_a + shift, n, s, codes);
        tier->to_int8(input_a + shift, n, s, panel.got + (at - panel.want));
        for (size_t i = 0; i < n; i++)
            put_element(tier, at, i, codes[i] - ref->int8_zero + tier->int8_zero);
        compare_bytes(n);
    }
}

void check_transpose_int8(const kn_kernels *ref, const kn_kernels *tier) {
    static int8_t matrix[KN_TRANSPOSE_ROWS * (KN_INT8_BLOCK + 20) + 5], whole[PANEL];
    int32_t before[KN_COUNT(sums[0])];
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        for (size_t i = 0; i < sizeof matrix; i++)
            matrix[i] = (int8_t)random_bits();
        size_t k = random_size(KN_INT8_BLOCK / tier->int8_bytes), rows = random_below(KN_TRANSPOSE_ROWS + 1);
        size_t stride = k + random_below(20), filled = (k + KN_INT8_STEP - 1) / KN_INT8_STEP * KN_INT8_STEP;
        size_t first = KN_TRANSPOSE_ROWS * random_below(tier->int8_columns / KN_TRANSPOSE_ROWS);
        const int8_t *src = matrix + sizeof matrix - KN_MIN(rows * stride + random_below(5), sizeof matrix);
        fill_bytes();
        fill_sums();
        memcpy(before, sums[0], sizeof before);
        ref->transpose_int8(src, stride, rows, k, whole, sums[0] + GUARD + first);
        tier->transpose_int8(src, stride, rows, k, panel.got + GUARD + 4 * first, sums[1] + GUARD + first);
        for (size_t p = 0; p < filled; p++)
            for (size_t j = 0; j < KN_TRANSPOSE_ROWS; j++)
                put_element(tier, panel.want + GUARD, place_in_panel(tier, p, first + j),
                            whole[place_in_panel(ref, p, j)]);
        zip_panel(tier, panel.want + GUARD + 4 * first, KN_TRANSPOSE_ROWS, filled * tier->int8_bytes / 4);
        if (tier->int8_zero == 0)
            memcpy(sums[0], before, sizeof before);
        compare_bytes(k);
        compare_sums(k);
    }
}

static int32_t int_at(const float *x) {
    int32_t n;
    memcpy(&n, x, sizeof n);
    return n;
}

/* What a tier's sums are less by whose zero is another byte than that of the reference. */
static void move_zero(const kn_kernels *ref, const kn_kernels *tier, size_t bytes_a, size_t rows, size_t k,
                      const uint8_t *b, size_t n, size_t stride) {
    static float less[MOST];
    uint8_t *zeros = allocate(bytes_a);
    memset(zeros, ref->int8_zero - tier->int8_zero, bytes_a);
    ref->product_int8(zeros, rows, k, b, less, stride, n, NULL, false);
    for (size_t i = 0; i < rows * stride; i++)
        if (i % stride < n)
            memcpy(want_of(&out) + i, &(int32_t){ int_at(want_of(&out) + i) - int_at(less + i) }, sizeof *less);
    free(zeros);
}

enum { ROW_BYTES = KN_STRIDE * sizeof(float) };

/* Rows and panel as the tier has them, from those of the reference. */
static uint8_t *rows_of(const kn_kernels *ref, const kn_kernels *tier, const uint8_t *a, size_t rows, size_t k) {
    uint8_t *to = allocate(rows * ROW_BYTES);
    for (size_t i = 0; i < rows; i++)
        for (size_t p = 0; p < k; p++)
            put_element(tier, to + i * ROW_BYTES, p, a[i * ROW_BYTES + p] - ref->int8_zero + tier->int8_zero);
    return to;
}

static uint8_t *panel_of(const kn_kernels *ref, const kn_kernels *tier, const uint8_t *b, size_t k) {
    uint8_t *to = allocate(k * tier->int8_columns * tier->int8_bytes);
    for (size_t p = 0; p < k; p++)
        for (size_t j = 0; j < tier->int8_columns; j++)
            put_element(tier, to, place_in_panel(tier, p, j), (int8_t)b[place_in_panel(ref, p, j)]);
    zip_panel(tier, to, tier->int8_columns, k * tier->int8_bytes / 4);
    return to;
}

void check_product_int8(const kn_kernels *ref, const kn_kernels *tier) {
    enum { ROWS = 36 };
    size_t most_steps = KN_INT8_BLOCK / tier->int8_bytes / KN_INT8_STEP;
    for (size_t round = 0; round < 5 * ROUNDS; round++) {
        size_t rows = random_below(ROWS + 1), n = random_below(tier->int8_columns + 1), stride = n + random_below(7);
        size_t k = random_below(most_steps + 1) * KN_INT8_STEP;
        size_t rows_a = (rows + KN_BF16_ROWS - 1) / KN_BF16_ROWS * KN_BF16_ROWS, bytes_a = rows_a * ROW_BYTES;
        uint8_t *a = allocate(bytes_a), *b = allocate(k * KN_INT8_COLUMNS);
        for (size_t i = 0; i < bytes_a; i++)
            a[i] = round % 7 ? (uint8_t)random_bits() : 255;
        for (size_t i = 0; i < k * KN_INT8_COLUMNS; i++)
            b[i] = round % 7 ? (uint8_t)random_bits() : 128;
        bool add = random_bits() % 2;
        fill_pair(&out, 1);
        ref->product_int8(a, rows, k, b, want_of(&out), stride, n, NULL, add);
        move_zero(ref, tier, bytes_a, rows, k, b, n, stride);
        uint8_t *own_a = rows_of(ref, tier, a, rows_a, k), *own_b = panel_of(ref, tier, b, k);
        tier->product_int8(own_a, rows, k, own_b, got_of(&out), stride, n, NULL, add);
        for (size_t i = 0; i < KN_COUNT(out.want); i++) {
            int32_t want = int_at(&out.want[i]), got = int_at(&out.got[i]);
            if (want != got)
                report(k, (ptrdiff_t)i, want, got);
        }
        free(a);
        free(b);
        free(own_a);
        free(own_b);
    }
}

void check_finish_int8(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        size_t n = random_below(KN_INT8_COLUMNS + 1);
        const float *scale = random_input(input_a, 1e-3f), *bias = random_input(input_b, 1);
        fill_pair(&out, 1);
        fill_sums();
        for (size_t i = 0; i < n; i++) {
            int32_t c = (int32_t)random_bits() >> 6;
            memcpy(want_of(&out) + i, &c, sizeof c);
            memcpy(got_of(&out) + i, &c, sizeof c);
        }
        ref->finish_int8(want_of(&out), sums[0] + GUARD, scale, 1e-4f, bias, n);
        tier->finish_int8(got_of(&out), sums[0] + GUARD, scale, 1e-4f, bias, n);
        compare_pair(&out, n, 3e-7, 1);
    }
}

/* Weights as large as they may be, of both signs; sums that fall short of 0 and exceed 255 among them. */
void check_weigh_rows(const kn_kernels *ref, const kn_kernels *tier) {
    enum { TAPS = 40, COLUMNS = 300 };
    static uint8_t rows[TAPS * (COLUMNS + 20)];
    int32_t weight[TAPS];
    for (size_t round = 0; round < 4 * ROUNDS; round++) {
        size_t count = random_below(TAPS + 1), n = random_size(COLUMNS), stride = n + random_below(20);
        int32_t most = (2 << KN_BYTE_WEIGHT_BITS) / (int32_t)(count + 1);
        for (size_t i = 0; i < sizeof rows; i++)
            rows[i] = (uint8_t)(round % 5 ? random_bits() : 255 * random_below(2));
        for (size_t k = 0; k < count; k++)
            weight[k] = (int32_t)((float)most * random_float()) >> random_below(9);
        const uint8_t *from = rows + sizeof rows - KN_MIN(count * stride + random_below(5), sizeof rows);
        size_t shift = random_below(4);
        fill_bytes();
        ref->weigh_rows(from, stride, weight, count, n, panel.want + GUARD + shift);
        tier->weigh_rows(from, stride, weight, count, n, panel.got + GUARD + shift);
        compare_bytes(n);
    }
}
