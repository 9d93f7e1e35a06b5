/* Every kernel of every tier of this machine against the reference: sizes from nothing to odd and large, addresses
 * aligned to nothing, all storage formats, and guard bands around whatever is written.
 *
 *     checkasm [--seed N]           one line per kernel and tier; fails if any differs
 *     checkasm --best TIER          fails if that is not the last tier that this machine has
 *     checkasm --bench [N [WORD]]   speed of ops with N threads (1), tier by tier; only ops whose name holds WORD */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amx_emulated.h"
#include "base/text.h"
#include "check.h"
#include "checkasm.h"

/* ---- decoding ---- */

static void check_decode(const kn_kernels *ref, const kn_kernels *tier, kn_dtype type) {
    static uint8_t codes[4 * MOST + 8];
    size_t bytes = kn_dtype_bytes(type, 1);
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST);
        uint8_t *src = codes + random_below(5);
        for (size_t i = 0; i < n * bytes; i++)
            src[i] = (uint8_t)random_bits();
        float scale = round % 2 ? 1 : 0.37f;
        fill_pair(&out, 1);
        ref->decode[type](src, n, scale, want_of(&out));
        tier->decode[type](src, n, scale, got_of(&out));
        compare_pair(&out, n, 0, 0);
    }
    for (uint32_t first = 0; first < (bytes == 4 ? 0 : 1u << 8 * bytes); first += 256) { /* every code there is */
        for (uint32_t i = 0; i < 256; i++)
            memcpy(codes + i * bytes, &(uint32_t){ first + i }, bytes);
        fill_pair(&out, 1);
        ref->decode[type](codes, 256, 1, want_of(&out));
        tier->decode[type](codes, 256, 1, got_of(&out));
        compare_pair(&out, 256, 0, 0);
    }
}

static void check_decode_f32(const kn_kernels *ref, const kn_kernels *tier) {
    check_decode(ref, tier, KN_F32);
}

static void check_decode_f16(const kn_kernels *ref, const kn_kernels *tier) {
    check_decode(ref, tier, KN_F16);
}

static void check_decode_stored_bf16(const kn_kernels *ref, const kn_kernels *tier) {
    check_decode(ref, tier, KN_BF16);
}

static void check_decode_e4m3(const kn_kernels *ref, const kn_kernels *tier) {
    check_decode(ref, tier, KN_F8_E4M3);
}

static void check_decode_e5m2(const kn_kernels *ref, const kn_kernels *tier) {
    check_decode(ref, tier, KN_F8_E5M2);
}

static void check_decode_i8(const kn_kernels *ref, const kn_kernels *tier) {
    check_decode(ref, tier, KN_I8);
}

/* Random blocks, whose scales are now and then subnormal, infinite or no number. */
static void check_decode_blocks(const kn_kernels *ref, const kn_kernels *tier) {
    static uint8_t codes[4 * MOST];
    for (int t = 0; t < KN_DTYPE_COUNT; t++) {
        const kn_dtype_info *type = kn_dtype_of((kn_dtype)t);
        for (size_t round = 0; type->block > 1 && round < ROUNDS; round++) {
            size_t n = random_below(MOST / type->block + 1) * type->block;
            uint8_t *src = codes + random_below(5);
            for (size_t i = 0; i < kn_dtype_bytes((kn_dtype)t, n); i++)
                src[i] = (uint8_t)random_bits();
            float scale = round % 2 ? 1 : 0.37f;
            fill_pair(&out, 1);
            ref->decode[t](src, n, scale, want_of(&out));
            tier->decode[t](src, n, scale, got_of(&out));
            compare_pair(&out, n, 0, 0);
        }
    }
}

/* ---- panels and products ---- */

enum { PANEL = KN_BLOCK * KN_MAX_COLUMNS };

static float panel[GUARD + PANEL + GUARD], before[GUARD + PANEL + GUARD];

static void start_panel(void) {
    for (size_t i = 0; i < KN_COUNT(panel); i++)
        panel[i] = before[i] = random_float();
}

/* panel[i][j] must be element(i, j) for i < k, from <= j < to, and be what it was elsewhere. */
static void compare_panel(size_t columns, size_t k, size_t from, size_t to, float (*element)(size_t i, size_t j)) {
    for (size_t at = 0; at < KN_COUNT(panel); at++) {
        size_t i = (at - GUARD) / columns, j = (at - GUARD) % columns;
        bool inside = at >= GUARD && i < k && j >= from && j < to;
        compare(k, at, inside ? element(i, j) : before[at], panel[at], 0);
    }
}

static struct {
    const uint8_t *src;
    size_t stride, n, first; /* n: rows or columns that exist */
} source;

static float transposed(size_t i, size_t j) {
    float v = 0;
    if (j - source.first < source.n)
        memcpy(&v, source.src + (j - source.first) * source.stride + i * sizeof v, sizeof v);
    return v;
}

static float gathered(size_t i, size_t j) {
    float v = 0;
    if (j < source.n)
        memcpy(&v, source.src + (i * source.stride + j) * sizeof v, sizeof v);
    return v;
}

static float matrix[(KN_BLOCK + 8) * 80];

static void check_transpose(const kn_kernels *ref, const kn_kernels *tier) {
    (void)ref;
    for (size_t round = 0; round < ROUNDS; round++) {
        random_input(input_a, 1);
        for (size_t i = 0; i < KN_COUNT(matrix); i++)
            matrix[i] = random_float();
        size_t k = random_size(KN_BLOCK), rows = random_below(KN_TRANSPOSE_ROWS + 1);
        source.src = (const uint8_t *)matrix + random_below(5);
        source.stride = k * sizeof(float) + random_below(20);
        source.n = rows;
        source.first = random_below(tier->columns / KN_TRANSPOSE_ROWS) * KN_TRANSPOSE_ROWS;
        start_panel();
        tier->transpose(source.src, source.stride, rows, k, panel + GUARD + source.first);
        compare_panel(tier->columns, k, source.first, source.first + KN_TRANSPOSE_ROWS, transposed);
    }
}

static void check_gather(const kn_kernels *ref, const kn_kernels *tier) {
    (void)ref;
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < KN_COUNT(matrix); i++)
            matrix[i] = random_float();
        size_t k = random_size(KN_BLOCK), n = random_below(tier->columns + 1), shift = random_below(4);
        source.src = (const uint8_t *)(matrix + shift);
        source.stride = n + random_below(8);
        source.n = n;
        start_panel();
        tier->gather(matrix + shift, source.stride, n, k, panel + GUARD);
        compare_panel(tier->columns, k, 0, tier->columns, gathered);
    }
}

/* c by the reference, whose panels are narrower. */
static void reference_product(const kn_kernels *ref, const float *a, size_t rows, size_t k, const float *b, float *c,
                              size_t c_stride, size_t n, const float *bias, bool add) {
    for (size_t j = 0; j < n; j += ref->columns) {
        float narrow[KN_BLOCK * KN_MAX_COLUMNS];
        for (size_t i = 0; i < k; i++)
            for (size_t m = 0; m < ref->columns; m++)
                narrow[i * ref->columns + m] = j + m < n ? b[i * KN_MAX_COLUMNS + j + m] : 0;
        ref->product(a, rows, k, narrow, c + j, c_stride, KN_MIN(ref->columns, n - j), bias ? bias + j : NULL, add);
    }
}

static void check_product(const kn_kernels *ref, const kn_kernels *tier) {
    enum { ROWS = 30 };
    static float a[ROWS * KN_STRIDE], positive_a[ROWS * KN_STRIDE], b[PANEL], positive_b[PANEL], size[MOST];
    for (size_t round = 0; round < 3 * ROUNDS; round++) {
        size_t rows = random_below(ROWS + 1), k = random_size(KN_BLOCK), n = random_below(tier->columns + 1);
        size_t stride = n + random_below(10);
        for (size_t i = 0; i < KN_COUNT(a); i++)
            positive_a[i] = fabsf(a[i] = random_float());
        for (size_t i = 0; i < PANEL; i++)
            positive_b[i] = fabsf(b[i] = random_float());
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < tier->columns; j++)
                panel[i * tier->columns + j] = j < n ? b[i * KN_MAX_COLUMNS + j] : NAN;
        const float *bias = random_bits() % 2 ? random_input(input_a, 1) : NULL;
        bool add = random_bits() % 2;
        fill_pair(&out, 1);
        for (size_t i = 0; i < MOST; i++)
            size[i] = 1;
        reference_product(ref, positive_a, rows, k, positive_b, size, stride, n, NULL, true);
        reference_product(ref, a, rows, k, b, want_of(&out), stride, n, bias, add);
        tier->product(a, rows, k, panel, got_of(&out), stride, n, bias, add);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < n; j++) {
                float *want = want_of(&out) + i * stride + j, *got = got_of(&out) + i * stride + j;
                compare(k, i * stride + j, *want, *got, 5e-7 * size[i * stride + j]);
                *want = *got; /* what is left to compare must be untouched */
            }
        compare_pair(&out, 0, 0, 0);
    }
}

static void check_dots(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t rows = random_below(KN_FEW_ROWS), n = random_size(rows ? MOST / rows : MOST);
        const float *w = random_input(input_a, 1), *x = random_input(input_b, 1);
        fill_pair(&out, 1);
        ref->dots(w, x, n, rows, n, want_of(&out));
        tier->dots(w, x, n, rows, n, got_of(&out));
        compare_pair(&out, rows, 2e-7, (double)n / 4 + 1);
    }
}

/* ---- rows ---- */

static void check_softmax(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST - 1) + 1;
        float size = round % 3 ? 30 : 300, max[2] = { round % 2 ? -INFINITY : size * random_float(), 0 };
        max[1] = max[0];
        fill_pair(&out, size);
        float want = ref->softmax(want_of(&out), n, 0.3f, &max[0]), got = tier->softmax(got_of(&out), n, 0.3f, &max[1]);
        compare_pair(&out, n, 3e-7, 5e-32); /* a subnormal may be 0 */
        compare(n, n, max[0], max[1], 0);
        compare(n, n, want, got, 1e-6 * want + 1.5e-38 * (double)n);
    }
}

/* exp by itself, through a softmax whose maximum is already 0: within two units in the last place of the
 * truth, or 0 below the smallest normal number. */
static void check_exp(const kn_kernels *ref, const kn_kernels *tier) {
    (void)ref;
    for (int hundredths = 0; hundredths < 11000; hundredths++) {
        float x[64], y[64], max = 0, from = -0.01f * (float)hundredths;
        for (size_t i = 0; i < 64; i++)
            x[i] = y[i] = from - 0.01f * fabsf(random_float());
        tier->softmax(y, 64, 1, &max);
        for (size_t i = 0; i < 64; i++) {
            double want = exp((double)x[i]);
            compare(64, i, want, y[i], fmax(want * 0x1p-22, 1.3e-38));
        }
    }
}

static void check_map(void (*ref)(float *, size_t), void (*tier)(float *, size_t), double relative, double floor) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST);
        static const float sizes[] = { 1e-3f, 1, 8, 100 };
        fill_pair(&out, sizes[round % KN_COUNT(sizes)]);
        if (round % 5 == 0) {
            static const float odd[] = { 0, -0.0f, NAN, INFINITY, 1e-40f, -1e-40f, 3e38f };
            for (size_t i = 0; i < KN_COUNT(odd); i++)
                want_of(&out)[i] = got_of(&out)[i] = odd[i];
        }
        ref(want_of(&out), n);
        tier(got_of(&out), n);
        compare_pair(&out, n, relative, floor);
    }
}

/* Below 1e-36 the result may be 0: exp(-x) is infinite then. */
static void check_silu(const kn_kernels *ref, const kn_kernels *tier) {
    check_map(ref->silu, tier->silu, 1e-6, 1e-30);
}

/* The exponent -2 u has gone through four roundings of 2^-24; a relative error there is an absolute one of the
 * exponent, that is a relative one of the result. */
static void check_gelu_tanh(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST);
        const float *x = random_input(input_a, round % 2 ? 1 : 7);
        fill_pair(&out, 1);
        memcpy(want_of(&out), x, n * sizeof *x);
        memcpy(got_of(&out), x, n * sizeof *x);
        ref->gelu_tanh(want_of(&out), n);
        tier->gelu_tanh(got_of(&out), n);
        for (size_t i = 0; i < n; i++) {
            double exponent = 1.6 * fabs(x[i] + 0.044715 * x[i] * x[i] * x[i]), want = want_of(&out)[i];
            compare(n, i, want, got_of(&out)[i], 0x1p-22 * (2 + exponent) * fabs(want) + 1e-36);
            want_of(&out)[i] = got_of(&out)[i];
        }
        compare_pair(&out, 0, 0, 0);
    }
    check_map(ref->gelu_tanh, tier->gelu_tanh, 1e-6, 1e-2);
}

static void check_gelu(const kn_kernels *ref, const kn_kernels *tier) {
    check_map(ref->gelu, tier->gelu, 1e-6, 1e-30);
}

static void check_tanh(const kn_kernels *ref, const kn_kernels *tier) {
    check_map(ref->tanh, tier->tanh, 5e-7, 1e-37);
}

/* e^x of large negative x may be 0 where it would be subnormal. */
static void check_mish(const kn_kernels *ref, const kn_kernels *tier) {
    check_map(ref->mish, tier->mish, 1e-6, 2e-30);
}

static void check_multiply(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST);
        const float *x = random_input(input_a, 1);
        fill_pair(&out, 1);
        ref->multiply(x, 0.3f, want_of(&out), n);
        tier->multiply(x, 0.3f, got_of(&out), n);
        compare_pair(&out, n, 0, 0);
    }
}

static void check_add(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST);
        const float *y = random_input(input_a, 1);
        fill_pair(&out, 1);
        ref->add(want_of(&out), y, n);
        tier->add(got_of(&out), y, n);
        compare_pair(&out, n, 0, 0);
    }
}

static void check_add_gated(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST);
        const float *gate = random_input(input_a, 1), *y = random_input(input_b, 1);
        fill_pair(&out, 1);
        ref->add_gated(want_of(&out), gate, y, n);
        tier->add_gated(got_of(&out), gate, y, n);
        compare_pair(&out, n, 1e-7, 1e-2);
    }
}

static void check_sigmoid_gate(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST);
        const float *gate = random_input(input_a, round % 2 ? 10 : 100);
        fill_pair(&out, 1);
        ref->sigmoid_gate(want_of(&out), gate, n);
        tier->sigmoid_gate(got_of(&out), gate, n);
        compare_pair(&out, n, 1e-6, 1e-30);
    }
}

static void check_swiglu(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST);
        const float *gate = random_input(input_a, 10), *up = random_input(input_b, 10);
        fill_pair(&out, 1);
        ref->swiglu(gate, up, want_of(&out), n);
        tier->swiglu(gate, up, got_of(&out), n);
        compare_pair(&out, n, 1e-6, 1e-30);
    }
}

static void check_is_finite(const kn_kernels *ref, const kn_kernels *tier) {
    static const float odd[] = { NAN, INFINITY, -INFINITY, 3e38f, 1e-45f };
    for (size_t round = 0; round < 10 * ROUNDS; round++) {
        size_t n = random_size(MOST);
        float *x = input_a + random_below(4);
        random_input(input_a, 3e38f);
        if (round % 4)
            x[random_below(n + 2)] = odd[random_below(KN_COUNT(odd))]; /* sometimes just behind the end */
        if (ref->is_finite(x, n) != tier->is_finite(x, n))
            report(n, 0, ref->is_finite(x, n), tier->is_finite(x, n));
    }
}

static void check_prelu(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        size_t n = random_size(200), rows = random_below(10), stride = n + random_below(20);
        const float *slope = random_input(input_a, 1);
        fill_pair(&out, 3);
        for (size_t i = 0; i < 20; i++) {
            size_t at = random_below(MOST);
            want_of(&out)[at] = got_of(&out)[at] = i % 2 ? NAN : -0.0f;
        }
        ref->prelu(want_of(&out), stride, rows, n, slope);
        tier->prelu(got_of(&out), stride, rows, n, slope);
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < n; i++) {
                float *want = want_of(&out) + r * stride + i, *got = got_of(&out) + r * stride + i;
                compare(n, r * stride + i, *want, *got, 0);
                *want = *got; /* what is left to compare must be untouched */
            }
        compare_pair(&out, 0, 0, 0);
    }
}

static void check_depthwise(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        size_t n = random_below(150) + 1, columns = random_below(4), rows = random_below(4);
        size_t pixel = n + random_below(9), row = columns * pixel + random_below(9), w_row = columns * n + 7;
        const float *x = random_input(input_a, 1), *w = random_input(input_b, 1);
        fill_pair(&out, 1);
        ref->depthwise(x, row, pixel, w, w_row, rows, columns, n, want_of(&out));
        tier->depthwise(x, row, pixel, w, w_row, rows, columns, n, got_of(&out));
        compare_pair(&out, n, 1e-6, 3);
    }
}

static void check_rms_norm(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST - 1) + 1;
        const float *x = random_input(input_a, 3), *w = random_input(input_b, 1);
        fill_pair(&out, 1);
        ref->rms_norm(x, w, 1e-6f, want_of(&out), n);
        tier->rms_norm(x, w, 1e-6f, got_of(&out), n);
        compare_pair(&out, n, 1e-6, 1e-30);
        memcpy(want_of(&out), x, n * sizeof *x);
        memcpy(got_of(&out), x, n * sizeof *x);
        ref->rms_norm(want_of(&out), w, 1e-6f, want_of(&out), n);
        tier->rms_norm(got_of(&out), w, 1e-6f, got_of(&out), n);
        compare_pair(&out, n, 1e-6, 1e-30);
    }
}

/* Values that lie close together lose digits in x - mean, and more so the smaller their deviation is. */
static double digits_lost(const float *x, size_t n, double eps) {
    double sum = 0, squares = 0, largest = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    for (size_t i = 0; i < n; i++) {
        squares += (x[i] - sum / (double)n) * (x[i] - sum / (double)n);
        largest = fmax(largest, fabs(x[i]));
    }
    return largest / sqrt(squares / (double)n + eps);
}

static void check_norm_modulate(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST - 1) + 1;
        const float *x = random_input(input_a, 3);
        const float *scale = round % 2 ? random_input(input_b, 1) : NULL;
        const float *shift = round % 3 ? random_input(input_c, 1) : NULL;
        fill_pair(&out, 1);
        ref->norm_modulate(x, scale, shift, 1e-6f, want_of(&out), n);
        tier->norm_modulate(x, scale, shift, 1e-6f, got_of(&out), n);
        compare_pair(&out, n, 5e-7, 1 + digits_lost(x, n, 1e-6));
    }
}

static void check_unit_norm(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST - 1) + 1;
        const float *x = random_input(input_a, round % 7 ? 3 : 0), *w = random_input(input_b, 1);
        fill_pair(&out, 1);
        ref->unit_norm(x, w, round % 2, want_of(&out), n);
        tier->unit_norm(x, w, round % 2, got_of(&out), n);
        compare_pair(&out, n, 2e-6, 1e-30);
    }
}

static void check_affine(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = random_size(MOST);
        const float *x = random_input(input_a, 3), *scale = random_input(input_b, 2), *shift = random_input(input_c, 1);
        fill_pair(&out, 1);
        ref->affine(x, scale, shift, round % 2, want_of(&out), n);
        tier->affine(x, scale, shift, round % 2, got_of(&out), n);
        compare_pair(&out, n, 1e-6, 1);
    }
}

/* Means and squares one behind the other in one array. */
static void check_moments(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t rows = random_below(40) + 1, n = random_size(MOST / KN_MAX(rows, 2));
        const float *x = random_input(input_a, 3);
        fill_pair(&out, 1);
        ref->moments(x, rows, n, want_of(&out), want_of(&out) + n);
        tier->moments(x, rows, n, got_of(&out), got_of(&out) + n);
        compare_pair(&out, 2 * n, 1e-6, 3);
    }
}

static void check_rotate(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        size_t n = random_size(MOST / 2) * 2;
        const float *cosine = random_input(input_a, 1), *sine = random_input(input_b, 1);
        fill_pair(&out, 1);
        kn_rope_pairs pairs = round % 2 ? KN_ROPE_HALVES : KN_ROPE_INTERLEAVED;
        ref->rotate(want_of(&out), cosine, sine, n, pairs);
        tier->rotate(got_of(&out), cosine, sine, n, pairs);
        compare_pair(&out, n, 2e-7, 1);
    }
}

static void check_turn_groups(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t group = 4; group <= 1024; group *= 4)
        for (size_t round = 0; round < ROUNDS; round++) {
            size_t n = random_size(MOST / group) * group;
            fill_pair(&out, 3);
            ref->turn_groups(want_of(&out), n, group);
            tier->turn_groups(got_of(&out), n, group);
            compare_pair(&out, n, 0, 0);
        }
}

static void check_round_int8(const kn_kernels *ref, const kn_kernels *tier) {
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        static const float sizes[] = { 1, 0, 1e-34f, 1e30f };
        size_t n = random_size(MOST);
        fill_pair(&out, sizes[round % KN_COUNT(sizes)]);
        if (round % 3 == 0 && n > 0) { /* halves of a step: ties */
            for (size_t i = 0; i < n; i++)
                want_of(&out)[i] = got_of(&out)[i] = (float)((int)random_below(255) - 127) * 0.5f;
            want_of(&out)[n - 1] = got_of(&out)[n - 1] = -127;
        }
        ref->round_int8(want_of(&out), n);
        tier->round_int8(got_of(&out), n);
        compare_pair(&out, n, 0, 0);
    }
}

static const struct {
    const char *name;
    check_fn *check;
} checks[] = {
    { "decode F32", check_decode_f32 },
    { "decode F16", check_decode_f16 },
    { "decode BF16", check_decode_stored_bf16 },
    { "decode F8_E4M3", check_decode_e4m3 },
    { "decode F8_E5M2", check_decode_e5m2 },
    { "decode I8", check_decode_i8 },
    { "decode blocks", check_decode_blocks },
    { "transpose", check_transpose },
    { "gather", check_gather },
    { "product", check_product },
    { "dots", check_dots },
    { "to_bf16", check_to_bf16 },
    { "decode_bf16", check_decode_bf16 },
    { "transpose_bf16", check_transpose_bf16 },
    { "gather_bf16", check_gather_bf16 },
    { "product_bf16", check_product_bf16 },
    { "dots_bf16", check_dots_bf16 },
    { "softmax", check_softmax },
    { "softmax_bf16", check_softmax_bf16 },
    { "exp", check_exp },
    { "silu", check_silu },
    { "gelu", check_gelu },
    { "gelu_tanh", check_gelu_tanh },
    { "tanh", check_tanh },
    { "mish", check_mish },
    { "multiply", check_multiply },
    { "add", check_add },
    { "add_gated", check_add_gated },
    { "sigmoid_gate", check_sigmoid_gate },
    { "swiglu", check_swiglu },
    { "is_finite", check_is_finite },
    { "prelu", check_prelu },
    { "depthwise", check_depthwise },
    { "rms_norm", check_rms_norm },
    { "norm_modulate", check_norm_modulate },
    { "unit_norm", check_unit_norm },
    { "affine", check_affine },
    { "moments", check_moments },
    { "rotate", check_rotate },
    { "stage", check_stage },
    { "unit_factors", check_unit_factors },
    { "tile_weight", check_tile_weight },
    { "tile_input", check_tile_input },
    { "tile_input_bf16", check_tile_input_bf16 },
    { "tile_output", check_tile_output },
    { "turn_groups", check_turn_groups },
    { "round_int8", check_round_int8 },
    { "scale_int8", check_scale_int8 },
    { "to_int8", check_to_int8 },
    { "transpose_int8", check_transpose_int8 },
    { "product_int8", check_product_int8 },
    { "finish_int8", check_finish_int8 },
    { "weigh_rows", check_weigh_rows },
};

static int run_check(const char *tier_name, size_t i, const kn_kernels *ref, const kn_kernels *tier) {
    now.kernel = checks[i].name;
    now.worst = 0;
    now.failed = false;
    checks[i].check(ref, tier);
    printf("%-10s  %-15s  %s", tier_name, checks[i].name, now.failed ? "DIFFERS" : "ok");
    printf(now.worst > 0 ? "  %3.0f %% of the allowed difference\n" : "\n", 100 * now.worst);
    return now.failed;
}

static int check_all(void) {
    int failures = 0;
    kn_kernels ref, tier;
    kn_kernels_init(&ref, 0);
    for (int t = 0; kn_tier_name(t); t++) {
        if (!kn_tier_is_here(t)) {
            printf("%-10s  skipped: this machine does not have it\n", kn_tier_name(t));
            continue;
        }
        kn_kernels_init(&tier, t);
        for (size_t i = 0; i < KN_COUNT(checks); i++)
            failures += run_check(kn_tier_name(t), i, &ref, &tier);
    }
    tier = ref;
    emulate_amx(&tier);
    for (size_t i = 0; i < KN_COUNT(checks); i++)
        if (checks[i].check == check_product_bf16 || checks[i].check == check_product_int8)
            failures += run_check("amx in C", i, &ref, &tier);
    return failures;
}

static int best_is(const char *name) {
    int best = 0;
    for (int t = 0; kn_tier_name(t); t++)
        if (kn_tier_is_here(t))
            best = t;
    printf("the last tier that is here is %s\n", kn_tier_name(best));
    return strcmp(kn_tier_name(best), name) != 0;
}

int main(int argc, char **argv) {
    uint64_t n = 1;
    bool number = argc < 3 || kn_parse_u64(argv[2], &n);
    if (number && argc >= 2 && argc <= 4 && strcmp(argv[1], "--bench") == 0)
        return bench_all((unsigned)n, argc == 4 ? argv[3] : "");
    if (argc == 3 && strcmp(argv[1], "--best") == 0)
        return best_is(argv[2]);
    if (!number || !(argc == 1 || (argc == 3 && strcmp(argv[1], "--seed") == 0))) {
        fprintf(stderr, "usage: checkasm [--seed N | --best TIER | --bench [THREADS [WORD]]]\n");
        return 2;
    }
    random_state = n;
    int failures = check_all();
    if (failures)
        printf("%d kernels differ; seed %llu\n", failures, (unsigned long long)n);
    return failures > 0;
}
