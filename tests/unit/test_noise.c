#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "golden.h"
#include "sampling/noise.h"
#include "sampling/noise_fill.h"

enum { MAX = 10000 };

static uint64_t seed_of(const char *text) {
    uint64_t seed = 0;
    assert_true(kn_parse_u64(text, &seed));
    return seed;
}

static void assert_same_bits(const float *now, const float *wanted, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&now[i], &wanted[i], sizeof *now))
            fail_msg("%s: element %zu is %.9g, not %.9g", what, i, (double)now[i], (double)wanted[i]);
}

static void twister_gives_the_published_words(void **state) {
    (void)state;
    static const uint32_t wanted[] = { 1608637542, 3421126067, 4083286876, 787846414, 3143890026, 3348747335 };
    kn_mt19937 g;
    kn_mt19937_seed(&g, 42);
    for (size_t i = 0; i < KN_COUNT(wanted); i++)
        assert_int_equal(kn_mt19937_next(&g), wanted[i]);
}

static void uniforms_are_24_bits_of_one_word(void **state) {
    (void)state;
    json_t *root = golden_json("noise/case.json");
    json_t *values = json_object_get(json_object_get(root, "cpu_rand_float32"), "values");
    assert_int_equal(json_array_size(values), 6);
    kn_mt19937 g;
    kn_mt19937_seed(&g, 42);
    for (size_t i = 0; i < 6; i++) {
        float now = (float)(kn_mt19937_next(&g) & 0xffffff) * 0x1p-24f;
        assert_true(now == (float)json_number_value(json_array_get(values, i)));
    }
    json_decref(root);
}

/* The first and last four values of a row. */
static void check_row(const json_t *row, const float *now, size_t n, double tolerance) {
    json_t *first = json_object_get(row, "first"), *last = json_object_get(row, "last");
    size_t count = json_array_size(first);
    assert_true(count > 0 && count == json_array_size(last));
    for (size_t i = 0; i < count; i++) {
        double a = json_number_value(json_array_get(first, i)), b = json_number_value(json_array_get(last, i));
        double worst = fmax(fabs(now[i] - a), fabs(now[n - count + i] - b));
        if (!(worst <= tolerance))
            fail_msg("seed %s, n %zu: off by %g", golden_text(row, "seed"), n, worst);
    }
}

static void every_cpu_row_is_drawn_bit_for_bit(void **state) {
    (void)state;
    static float now[MAX];
    json_t *root = golden_json("noise/case.json"), *rows = json_object_get(root, "cpu_randn_float32"), *row;
    assert_int_equal(json_array_size(rows), 140);
    size_t i;
    json_array_foreach(rows, i, row) {
        size_t n = golden_size(row, "n");
        kn_noise g;
        kn_noise_init(&g, KN_NOISE_TORCH_CPU, seed_of(golden_text(row, "seed")));
        kn_noise_fill(&g, now, n);
        check_row(row, now, n, 0);
    }
    json_decref(root);
}

/* Every stored tensor "<prefix>SEED.N", drawn by that kind of generator. Returns how many there were. */
static size_t check_tensors(const char *prefix, kn_noise_kind kind, double tolerance) {
    static float now[MAX];
    golden g = golden_open("noise/noise.safetensors");
    size_t rows = 0;
    for (size_t e = 0; e < kn_weights_count(g.file); e++) {
        const char *name = kn_weights_at(g.file, e)->name;
        if (strncmp(name, prefix, strlen(prefix)))
            continue;
        size_t n = 0;
        const float *wanted = golden_floats(&g, name, &n);
        char seed[40] = "";
        assert_true(n <= MAX && sscanf(name + strlen(prefix), "%39[0-9]", seed) == 1);
        kn_noise noise;
        kn_noise_init(&noise, kind, seed_of(seed));
        kn_noise_fill(&noise, now, n);
        if (tolerance == 0)
            assert_same_bits(now, wanted, n, name);
        for (size_t i = 0; i < n; i++)
            if (!(fabsf(now[i] - wanted[i]) <= (float)tolerance))
                fail_msg("%s: element %zu is %.9g, not %.9g", name, i, (double)now[i], (double)wanted[i]);
        rows++;
    }
    golden_close(&g);
    return rows;
}

static void every_cpu_tensor_is_drawn_bit_for_bit(void **state) {
    (void)state;
    assert_int_equal(check_tensors("cpu.", KN_NOISE_TORCH_CPU, 0), 42);
}

static void whole_latents_equal_pytorch_bit_for_bit(void **state) {
    (void)state;
    json_t *root = golden_json("noise/latents.json"), *rows = json_object_get(root, "rows"), *row;
    assert_int_equal(json_array_size(rows), 4);
    size_t i;
    json_array_foreach(rows, i, row) {
        size_t n = golden_size(row, "n");
        float *now = malloc(n * sizeof *now);
        assert_non_null(now);
        kn_noise g;
        kn_noise_init(&g, KN_NOISE_TORCH_CPU, seed_of(golden_text(row, "seed")));
        kn_noise_fill(&g, now, n);
        uint64_t hash = 0xcbf29ce484222325;
        for (size_t k = 0; k < n; k++) {
            uint32_t bits = 0;
            memcpy(&bits, &now[k], sizeof bits);
            for (int byte = 0; byte < 4; byte++)
                hash = (hash ^ (bits >> 8 * byte & 0xff)) * 0x100000001b3;
        }
        char text[20];
        snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
        assert_string_equal(text, golden_text(row, "fnv1a"));
        free(now);
    }
    json_decref(root);
}

static void whole_cuda_latents_are_within_a_millionth(void **state) {
    (void)state;
    json_t *root = golden_json("noise/latents.json"), *rows = json_object_get(root, "philox"), *row;
    size_t i, step = golden_size(root, "philox_step");
    assert_int_equal(json_array_size(rows), 16);
    json_array_foreach(rows, i, row) {
        size_t n = golden_size(row, "n");
        json_t *values = json_object_get(row, "values");
        assert_int_equal(json_array_size(values), (n + step - 1) / step);
        float *now = malloc(n * sizeof *now);
        assert_non_null(now);
        kn_noise g;
        kn_noise_init(&g, KN_NOISE_TORCH_CUDA, seed_of(golden_text(row, "seed")));
        kn_noise_fill(&g, now, n);
        for (size_t k = 0; k < n; k += step)
            assert_true(fabs(now[k] - json_real_value(json_array_get(values, k / step))) <= 1e-6);
        free(now);
    }
    json_decref(root);
}

static void draws_of_mixed_sizes_continue_one_stream(void **state) {
    (void)state;
    float now[64];
    json_t *root = golden_json("noise/case.json"), *sequence = json_object_get(root, "cpu_sequence"), *size;
    golden t = golden_open("noise/noise.safetensors");
    kn_noise g;
    kn_noise_init(&g, KN_NOISE_TORCH_CPU, seed_of(golden_text(sequence, "seed")));
    assert_int_equal(json_array_size(json_object_get(sequence, "sizes")), 10);
    size_t i;
    json_array_foreach(json_object_get(sequence, "sizes"), i, size) {
        char name[40];
        snprintf(name, sizeof name, "cpu_sequence.%zu", i);
        size_t n = 0;
        const float *wanted = golden_floats(&t, name, &n);
        assert_true(n <= KN_COUNT(now) && n == (size_t)json_integer_value(size));
        kn_noise_fill(&g, now, n);
        assert_same_bits(now, wanted, n, name);
    }
    golden_close(&t);
    json_decref(root);
}

static const uint16_t *golden_halves(const golden *g, const char *name, kn_dtype dtype, size_t n) {
    const kn_entry *e = golden_entry(g, name);
    assert_true(e->dtype == dtype && e->elements == n && (uintptr_t)e->data % 2 == 0);
    return (const uint16_t *)(const void *)e->data;
}

static void half_precision_draws_are_these_values_rounded(void **state) {
    (void)state;
    static const size_t sizes[] = { 5, 16, 64 };
    golden t = golden_open("noise/noise.safetensors");
    for (size_t s = 0; s < KN_COUNT(sizes); s++) {
        float now[64];
        size_t n = sizes[s];
        kn_noise g;
        kn_noise_init(&g, KN_NOISE_TORCH_CPU, 42);
        kn_noise_fill(&g, now, n);
        char name[40];
        snprintf(name, sizeof name, "cpu_bf16.42.%zu", n);
        const uint16_t *bf16 = golden_halves(&t, name, KN_BF16, n);
        snprintf(name, sizeof name, "cpu_f16.42.%zu", n);
        const uint16_t *f16 = golden_halves(&t, name, KN_F16, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(kn_bf16_from_float(now[i]), bf16[i]);
            float off = fabsf(kn_float_from_f16(f16[i]) - now[i]);
            assert_true(off <= fabsf(kn_float_from_f16((uint16_t)(f16[i] + 1)) - now[i]));
            assert_true(off <= fabsf(kn_float_from_f16((uint16_t)(f16[i] - 1)) - now[i]));
        }
    }
    golden_close(&t);
}

static void philox_encrypts_zero_as_published(void **state) {
    (void)state;
    json_t *root = golden_json("noise/case.json"), *wanted = json_object_get(root, "philox_4x32_10_zero");
    assert_int_equal(json_array_size(wanted), 4);
    uint32_t word[4] = { 0, 0, 0, 0 };
    kn_philox(0, word);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(word[i], json_integer_value(json_array_get(wanted, i)));
    json_decref(root);
}

static void every_cuda_row_is_within_its_tolerance(void **state) {
    (void)state;
    static float now[MAX];
    json_t *root = golden_json("noise/case.json"), *rows = json_object_get(root, "philox_randn_float32"), *row;
    double tolerance = golden_number(json_object_get(root, "tolerance"), "absolute");
    assert_int_equal(json_array_size(rows), 35);
    size_t i;
    json_array_foreach(rows, i, row) {
        size_t n = golden_size(row, "n");
        kn_noise g;
        kn_noise_init(&g, KN_NOISE_TORCH_CUDA, seed_of(golden_text(row, "seed")));
        kn_noise_set_gpu_threads(&g, golden_size(row, "threads"));
        kn_noise_fill(&g, now, n);
        check_row(row, now, n, tolerance);
    }
    json_decref(root);
    assert_int_equal(check_tensors("philox.", KN_NOISE_TORCH_CUDA, tolerance), 7);
}

static void a_second_cuda_draw_starts_at_the_next_round(void **state) {
    (void)state;
    enum { THREADS = 512 };
    static float once[8 * THREADS], twice[THREADS];
    kn_noise g;
    kn_noise_init(&g, KN_NOISE_TORCH_CUDA, 7);
    kn_noise_set_gpu_threads(&g, THREADS);
    kn_noise_fill(&g, once, KN_COUNT(once)); /* two rounds of four values per thread */
    kn_noise_init(&g, KN_NOISE_TORCH_CUDA, 7);
    kn_noise_fill(&g, twice, THREADS);
    assert_same_bits(twice, once, THREADS, "first draw");
    kn_noise_fill(&g, twice, THREADS);
    assert_same_bits(twice, once + 4 * THREADS, THREADS, "second draw");
}

static void noise_between_steps_has_the_next_seed(void **state) {
    (void)state;
    float a[16], b[16];
    kn_noise g;
    kn_noise_init_steps(&g, UINT64_MAX);
    kn_noise_fill(&g, a, 16);
    kn_noise_init(&g, KN_NOISE_TORCH_CPU, 0);
    kn_noise_fill(&g, b, 16);
    assert_same_bits(a, b, 16, "seed 2^64 - 1");
}

static void generators_are_found_by_name(void **state) {
    (void)state;
    kn_noise_kind kind = KN_NOISE_TORCH_CPU;
    kn_error err = { 0 };
    assert_true(kn_noise_find("torch-cuda", &kind, &err) && kind == KN_NOISE_TORCH_CUDA);
    assert_true(kn_noise_find("cpu", &kind, &err) && kind == KN_NOISE_TORCH_CPU);
    assert_false(kn_noise_find("dice", &kind, &err));
    assert_string_equal(err.text, "unknown noise generator 'dice'; known: torch-cpu, torch-cuda");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twister_gives_the_published_words),
        cmocka_unit_test(uniforms_are_24_bits_of_one_word),
        cmocka_unit_test(every_cpu_row_is_drawn_bit_for_bit),
        cmocka_unit_test(every_cpu_tensor_is_drawn_bit_for_bit),
        cmocka_unit_test(whole_latents_equal_pytorch_bit_for_bit),
        cmocka_unit_test(whole_cuda_latents_are_within_a_millionth),
        cmocka_unit_test(draws_of_mixed_sizes_continue_one_stream),
        cmocka_unit_test(half_precision_draws_are_these_values_rounded),
        cmocka_unit_test(philox_encrypts_zero_as_published),
        cmocka_unit_test(every_cuda_row_is_within_its_tolerance),
        cmocka_unit_test(a_second_cuda_draw_starts_at_the_next_round),
        cmocka_unit_test(noise_between_steps_has_the_next_seed),
        cmocka_unit_test(generators_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
