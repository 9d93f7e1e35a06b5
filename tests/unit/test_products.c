/* Products of KN_FAST: on every instruction set of this machine, with the portable kernels and with AMX tiles in plain
 * C, so that all ways through them are taken everywhere. */
#include "../checkasm/amx_emulated.h"
#include "compute/cpu/device.h"
#include "ops_test.h"

/* Devices beyond the tiers: kernels that no processor would choose. */
enum { PORTABLE, TILES, EXTRA_DEVICES };

static kn_run begin_fast(int tier, unsigned threads) {
    kn_error err = { 0 };
    kn_device *d = NULL;
    kn_run r = { 0 };
    int tiers = 0;
    while (kn_tier_name(tiers))
        tiers++;
    setenv("KUNO_CPU", kn_tier_name(tier < tiers ? tier : 0), 1);
    if (!kn_device_open_cpu(threads, &d, &err) || !kn_run_open(d, KN_FAST, NULL, 1 << 28, &r, &err))
        fail_msg("%s", err.text);
    if (tier >= tiers)
        d->kernels.narrow = d->kernels.int8 = true;
    if (tier == tiers + TILES)
        emulate_amx(&d->kernels);
    return r;
}

static int count_devices(void) {
    int n = EXTRA_DEVICES;
    for (int t = 0; kn_tier_name(t); t++)
        n++;
    return n;
}

static bool is_here(int tier) {
    return tier >= count_devices() - EXTRA_DEVICES || kn_tier_is_here(tier);
}

/* A weight whose bytes are ordinary numbers in every format. */
typedef struct matrix {
    kn_weight w;
    uint8_t *bytes;
    float *values, *bias, *row_scale; /* values: what the bytes mean, scales included */
} matrix;

static matrix make_matrix(kn_dtype type, int64_t out, int64_t in, bool scaled) {
    matrix m = { .values = malloc((size_t)(out * in) * sizeof(float)) };
    size_t bytes = kn_dtype_bytes(type, (size_t)(out * in));
    m.bytes = malloc(bytes);
    assert_non_null(m.bytes);
    assert_non_null(m.values);
    for (size_t i = 0; i < bytes; i++)
        m.bytes[i] = (uint8_t)(0x30 + (int)(6.5f * (1 + rnd())));
    kn_decode(type, m.bytes, (size_t)(out * in), m.values);
    m.bias = random_values(out);
    m.row_scale = scaled ? random_values(out) : NULL;
    for (int64_t i = 0; scaled && i < out * in; i++)
        m.values[i] *= m.row_scale[i / in];
    m.w = (kn_weight){ .data = m.bytes,
                       .dtype = type,
                       .rank = 2,
                       .dim = { out, in },
                       .scale = 1,
                       .row_scale = m.row_scale,
                       .bias = m.bias };
    return m;
}

static void free_matrix(matrix *m) {
    free(m->bytes);
    free(m->values);
    free(m->bias);
    free(m->row_scale);
}

/* Both factors of each product lose up to 2^-9 of themselves. */
static void check_rounded(kn_run *r, kn_dtype type, int64_t n, int64_t in, int64_t out, bool scaled) {
    float *x = random_values(n * in);
    matrix m = make_matrix(type, out, in, scaled);
    float *y = values_of(r, kn_linear(r, kn_upload(r, DIMS(n, in), x), &m.w));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < out; j++) {
            double sum = m.bias[j], size = fabs(sum);
            for (int64_t p = 0; p < in; p++) {
                double term = (double)x[i * in + p] * m.values[j * in + p];
                sum += term;
                size += fabs(term);
            }
            if (!(fabs(y[i * out + j] - sum) <= 0x1.02p-8 * size))
                fail_msg("%s [%lld, %lld] x %lld: element %lld, %lld is %g, not %g", kn_dtype_of(type)->name,
                         (long long)out, (long long)in, (long long)n, (long long)i, (long long)j,
                         (double)y[i * out + j], sum);
        }
    free(x);
    free(y);
    free_matrix(&m);
}

static void fast_products_lose_no_more_than_their_factors_do(void **state) {
    (void)state;
    static const struct {
        kn_dtype type;
        int64_t n, in, out;
        bool scaled;
    } cases[] = {
        { KN_F32, 1, 1, 1, false },        { KN_F32, 9, 33, 5, true },       { KN_F32, 100, 517, 3, false },
        { KN_BF16, 1, 700, 18, true },     { KN_BF16, 5, 31, 66, false },    { KN_BF16, 17, 545, 130, true },
        { KN_BF16, 130, 65, 70, false },   { KN_F16, 16, 40, 17, true },     { KN_F8_E4M3, 15, 99, 7, true },
        { KN_F8_E4M3, 33, 640, 65, true }, { KN_F8_E5M2, 40, 70, 20, true }, { KN_Q8_0, 2, 1056, 9, false },
        { KN_Q8_0, 35, 544, 40, false },   { KN_Q4_K, 1, 512, 5, false },    { KN_Q4_K, 20, 768, 33, false },
        { KN_Q5_K, 16, 256, 16, false },   { KN_Q6_K, 18, 512, 31, false },  { KN_IQ4_NL, 18, 64, 3, false },
    };
    for (int tier = 0; tier < count_devices(); tier++) {
        if (!is_here(tier))
            continue;
        kn_run r = begin_fast(tier, 2);
        for (size_t i = 0; i < KN_COUNT(cases); i++)
            check_rounded(&r, cases[i].type, cases[i].n, cases[i].in, cases[i].out, cases[i].scaled);
        end(&r);
    }
}

/* Sums of whole numbers are exact; what is left is the rounding of scales. */
static void int8_products_are_those_of_the_exact_ones(void **state) {
    (void)state;
    static const int64_t cases[][3] = { { 1, 64, 3 }, { 7, 1092, 70 }, { 40, 2052, 17 }, { 97, 100, 129 } };
    for (int tier = 0; tier < count_devices(); tier++)
        for (size_t c = 0; is_here(tier) && c < KN_COUNT(cases); c++) {
            int64_t n = cases[c][0], in = cases[c][1], out = cases[c][2];
            float *x = random_values(n * in);
            matrix m = make_matrix(KN_I8, out, in, true);
            for (int64_t i = 0; i < out * in; i++)
                m.bytes[i] = (uint8_t)(int8_t)(127 * rnd());
            m.w.turned_group = c % 2 ? 4 : 0;
            kn_run r = begin_fast(tier, 2);
            float *fast = values_of(&r, kn_linear(&r, kn_upload(&r, DIMS(n, in), x), &m.w));
            r.precision = KN_EXACT;
            float *exact = values_of(&r, kn_linear(&r, kn_upload(&r, DIMS(n, in), x), &m.w));
            for (int64_t i = 0; i < n * out; i++)
                if (!(fabsf(fast[i] - exact[i]) <= 1e-5f * (float)in))
                    fail_msg("element %lld is %g, not %g", (long long)i, (double)fast[i], (double)exact[i]);
            end(&r);
            free(x);
            free(fast);
            free(exact);
            free_matrix(&m);
        }
}

static void int8_rows_that_are_not_finite_stay_so(void **state) {
    (void)state;
    for (int tier = 0; tier < count_devices(); tier++) {
        if (!is_here(tier))
            continue;
        kn_run r = begin_fast(tier, 1);
        float *x = random_values(3 * 64);
        x[64 + 5] = NAN;
        x[128 + 7] = INFINITY;
        matrix m = make_matrix(KN_I8, 20, 64, true);
        float *y = values_of(&r, kn_linear(&r, kn_upload(&r, DIMS(3, 64), x), &m.w));
        for (int64_t j = 0; j < 20; j++)
            assert_true(isfinite(y[j]) && !isfinite(y[20 + j]) && !isfinite(y[40 + j]));
        end(&r);
        free(x);
        free(y);
        free_matrix(&m);
    }
}

static float *attend(int device, const float *x) {
    kn_run r = begin_fast(device, 2);
    kn_tensor t = kn_upload(&r, DIMS(150, 3 * 40), x);
    float *y = values_of(&r, kn_attention(&r, t, (kn_kv){ 0 }, (kn_kv){ t, t }, 3, 3, true));
    end(&r);
    return y;
}

static float *convolve(int device, const float *x, const kn_weight *w) {
    kn_run r = begin_fast(device, 2);
    kn_tensor t = kn_upload(&r, DIMS(13, 11, w->dim[3]), x);
    float *y = values_of(&r, kn_conv2d(&r, t, w, 1, (kn_pad){ 1, 1, 1, 1 }));
    end(&r);
    return y;
}

static void assert_alike(const float *want, const float *got, size_t n) {
    double different = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        different += (double)(want[i] - got[i]) * (want[i] - got[i]);
        size += (double)want[i] * want[i];
    }
    if (!(sqrt(different) <= 1e-2 * sqrt(size)))
        fail_msg("%g of %g", sqrt(different), sqrt(size));
}

static void other_ops_may_multiply_by_tiles(void **state) {
    (void)state;
    int portable = count_devices() - EXTRA_DEVICES + PORTABLE, tiles = count_devices() - EXTRA_DEVICES + TILES;
    float *x = random_values(150 * 3 * 40);
    float *want = attend(portable, x), *got = attend(tiles, x);
    assert_alike(want, got, 150 * 3 * 40);
    free(want);
    free(got);
    for (int64_t in = 3; in <= 70; in += 67)
        for (int64_t out = 4; out <= 70; out += 66) {
            matrix m = make_matrix(KN_BF16, out, 9 * in, false);
            m.w.rank = 4;
            memcpy(m.w.dim, (int64_t[]){ out, 3, 3, in }, sizeof m.w.dim);
            want = convolve(portable, x, &m.w);
            got = convolve(tiles, x, &m.w);
            assert_alike(want, got, (size_t)(13 * 11 * out));
            free(want);
            free(got);
            free_matrix(&m);
        }
    free(x);
}

static void fast_results_do_not_depend_on_the_number_of_threads(void **state) {
    (void)state;
    enum { N = 290, IN = 600, OUT = 170 };
    static const kn_dtype types[] = { KN_BF16, KN_F32, KN_I8 };
    for (int tier = 0; tier < count_devices(); tier++)
        for (size_t t = 0; is_here(tier) && t < KN_COUNT(types); t++) {
            float *x = random_values(N * IN), *first = NULL;
            matrix m = make_matrix(types[t], OUT, IN, types[t] == KN_I8);
            for (unsigned threads = 1; threads <= 5; threads += 2) {
                kn_run r = begin_fast(tier, threads);
                float *y = values_of(&r, kn_linear(&r, kn_upload(&r, DIMS(N, IN), x), &m.w));
                if (first)
                    assert_memory_equal(first, y, N * OUT * sizeof *y);
                else
                    first = y;
                if (first != y)
                    free(y);
                end(&r);
            }
            free(x);
            free(first);
            free_matrix(&m);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_products_lose_no_more_than_their_factors_do),
        cmocka_unit_test(int8_products_are_those_of_the_exact_ones),
        cmocka_unit_test(int8_rows_that_are_not_finite_stay_so),
        cmocka_unit_test(other_ops_may_multiply_by_tiles),
        cmocka_unit_test(fast_results_do_not_depend_on_the_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
