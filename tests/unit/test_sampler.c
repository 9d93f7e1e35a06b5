#include <math.h>
#include <stdio.h>
#include <string.h>

#include "golden.h"
#include "sampling/noise.h"
#include "sampling/sampler.h"

enum { N = 12, STEPS = 8 };

/* The fixture's stand-in for a network, and everything that a sampling asks for. */
struct stand_in {
    const double *b;     /* [N] */
    const double *noise; /* [steps, N]; row i belongs to step i */
    size_t step, calls, draws;
    double asked[2 * STEPS]; /* sigmas the network was called with */
    size_t fail_at;          /* the call that gives a NaN; 0: none */
    size_t stop_after;       /* the step after which the hook refuses; 0: none */
    float clean[N];
};

static double clean_estimate(double x, double sigma, double b) {
    return 0.7 * tanh((1 + 0.5 * sigma) * x) + b;
}

static bool velocity(void *ctx, const float *x, float sigma, float *v, kn_error *err) {
    (void)err;
    struct stand_in *net = ctx;
    assert_true(net->calls < KN_COUNT(net->asked));
    net->asked[net->calls++] = sigma;
    for (size_t i = 0; i < N; i++) {
        double s = (double)sigma, at = (double)x[i];
        v[i] = (float)((at - clean_estimate(at, s, net->b[i])) / s);
    }
    if (net->calls == net->fail_at)
        v[N - 1] = NAN;
    return true;
}

static void draw(void *ctx, float *dst, size_t n) {
    struct stand_in *net = ctx;
    assert_int_equal(n, N);
    net->draws++;
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)net->noise[net->step * N + i];
}

static bool after_step(void *ctx, const kn_step *step, kn_error *err) {
    struct stand_in *net = ctx;
    assert_int_equal(step->index, net->step);
    assert_int_equal(step->n, N);
    memcpy(net->clean, step->clean, sizeof net->clean);
    net->step++;
    if (net->step == net->stop_after)
        return kn_fail(err, KN_E_CANCELLED, "stopped");
    return true;
}

static size_t read_sigmas(const json_t *row, const char *key, double *ret, size_t room) {
    json_t *list = json_object_get(row, key);
    size_t n = json_array_size(list);
    assert_true(n > 0 && n <= room);
    for (size_t i = 0; i < n; i++)
        ret[i] = json_number_value(json_array_get(list, i));
    return n;
}

static const char *our_name(const char *fixture) {
    static const char *const names[][2] = { { "euler-ancestral-flow", "euler_ancestral" },
                                            { "dpmpp-2m-log-sigma", "dpmpp_2m" },
                                            { "res-multistep", "res_multistep" },
                                            { "unipc-bh2", "unipc" } };
    for (size_t i = 0; i < KN_COUNT(names); i++)
        if (!strcmp(fixture, names[i][0]))
            return names[i][1];
    return fixture;
}

/* One row of the fixture; first_sigma replaces its first sigma if not 0. Returns the relative L2 error. */
static double run_row(const golden *t, const json_t *row, float first_sigma) {
    char name[60];
    const double *part[4]; /* x, b, noise, wanted */
    const char *keys[4] = { "x", "b", "noise", golden_text(row, "sampler") };
    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", golden_text(row, "prefix"), keys[i]);
        part[i] = golden_doubles(t, name, NULL);
    }
    double listed[STEPS + 1], calls[2 * STEPS];
    float sigmas[STEPS + 1], x[N];
    size_t steps = read_sigmas(row, "sigmas", listed, KN_COUNT(listed)) - 1;
    size_t call_count = read_sigmas(row, "network_calls", calls, KN_COUNT(calls));
    for (size_t i = 0; i <= steps; i++)
        sigmas[i] = (float)listed[i];
    if (first_sigma > 0)
        sigmas[0] = first_sigma;
    for (size_t i = 0; i < N; i++)
        x[i] = (float)part[0][i];

    struct stand_in net = { .b = part[1], .noise = part[2] };
    kn_sampling job = { .sigmas = sigmas, .steps = steps, .velocity = velocity, .after_step = after_step, .ctx = &net };
    kn_error err = { 0 };
    assert_true(kn_sampler_find(our_name(keys[3]), &job.sampler, &err));
    job.draw = job.sampler->stochastic ? draw : NULL;
    if (!kn_sample(&job, x, N, &err))
        fail_msg("%s", err.text);

    assert_int_equal(net.step, steps);
    assert_int_equal(net.draws, job.sampler->stochastic ? steps - 1 : 0);
    assert_int_equal(net.calls, call_count);
    assert_int_equal(kn_sampler_calls(job.sampler, steps), call_count);
    for (size_t i = 0; i < call_count; i++)
        assert_true(fabs(net.asked[i] - calls[i]) < 1e-7);
    double off = 0, size = 0;
    for (size_t i = 0; i < N; i++) {
        off += (x[i] - part[3][i]) * (x[i] - part[3][i]);
        size += part[3][i] * part[3][i];
    }
    return sqrt(off / size);
}

static void every_sampler_row_is_within_its_tolerance(void **state) {
    (void)state;
    json_t *root = golden_json("sampling/samplers.json"), *rows = json_object_get(root, "rows"), *row;
    double tolerance = golden_number(json_object_get(root, "tolerance"), "float32_rel_l2");
    golden t = golden_open("sampling/io.safetensors");
    assert_int_equal(json_array_size(rows), 21);
    size_t i;
    json_array_foreach(rows, i, row) {
        double off = run_row(&t, row, 0);
        if (!(off <= tolerance))
            fail_msg("%s%s: relative error %g", golden_text(row, "prefix"), golden_text(row, "sampler"), off);
    }
    golden_close(&t);
    json_decref(root);
}

static void unipc_starts_just_below_one(void **state) {
    (void)state;
    json_t *root = golden_json("sampling/samplers.json"), *row;
    golden t = golden_open("sampling/io.safetensors");
    size_t i, checked = 0;
    json_array_foreach(json_object_get(root, "rows"), i, row) {
        if (strcmp(golden_text(row, "sampler"), "unipc-bh2"))
            continue;
        assert_true(run_row(&t, row, 1) <= 1e-4); /* its calls begin at 0.999 all the same */
        checked++;
    }
    assert_int_equal(checked, 3);
    golden_close(&t);
    json_decref(root);
}

static const double zeros[STEPS * N];
static const float four_steps[] = { 1, 0.9f, 0.7f, 0.4f, 0 };

static void every_sampler_survives_any_falling_schedule(void **state) {
    (void)state;
    static const float lists[][4] = { { 1, 0, 0, 0 },
                                      { 1, 0.99999f, 0, 0 },
                                      { 1, 0.5f, 1e-6f, 0 },
                                      { 0.3f, 0.2f, 0.1f, 0 },
                                      { 1, 0.9995f, 0.9991f, 0 } };
    static const size_t steps[] = { 1, 2, 3, 3, 3 };
    for (size_t k = 0; k < KN_SAMPLER_COUNT; k++) {
        for (size_t l = 0; l < KN_COUNT(lists); l++) {
            struct stand_in net = { .b = zeros, .noise = zeros };
            kn_sampling job = { &kn_samplers[k], lists[l], steps[l], NULL, velocity, draw, after_step, &net };
            float x[N] = { 1, -1, 0.5f };
            kn_error err = { 0 };
            assert_true(kn_sample(&job, x, N, &err));
            assert_int_equal(net.step, steps[l]);
        }
    }
}

static void one_euler_step_gives_the_clean_estimate(void **state) {
    (void)state;
    static const float sigmas[] = { 1, 0 };
    struct stand_in net = { .b = zeros };
    kn_sampling job = { &kn_samplers[0], sigmas, 1, NULL, velocity, NULL, after_step, &net };
    float x[N] = { 1, -1, 0.5f };
    assert_true(kn_sample(&job, x, N, NULL));
    assert_memory_equal(x, net.clean, sizeof x);
    assert_true(fabs(x[0] - clean_estimate(1, 1, 0)) < 1e-6);
}

static void no_steps_leave_the_latent_alone(void **state) {
    (void)state;
    kn_sampling job = { .sampler = &kn_samplers[0], .sigmas = four_steps, .steps = 0 };
    float x[N] = { 1, 2, 3 };
    assert_true(kn_sample(&job, x, N, NULL));
    assert_true(x[0] == 1 && x[1] == 2 && x[2] == 3);
}

static void a_nan_is_caught_in_the_step_that_makes_it(void **state) {
    (void)state;
    for (size_t k = 0; k < KN_SAMPLER_COUNT; k++) {
        struct stand_in net = { .b = zeros, .noise = zeros, .fail_at = kn_samplers[k].calls_per_step + 1 };
        kn_sampling job = { &kn_samplers[k], four_steps, 4, NULL, velocity, draw, after_step, &net };
        float x[N] = { 0 };
        kn_error err = { 0 };
        assert_false(kn_sample(&job, x, N, &err));
        assert_int_equal(err.code, KN_E_NUMERIC);
        assert_int_equal(net.step, 1);
        char wanted[200];
        snprintf(wanted, sizeof wanted, "%s, step 2 of 4 at sigma 0.9: the latent is not finite after the step",
                 kn_samplers[k].name.name);
        assert_string_equal(err.text, wanted);
    }
}

static void the_hook_can_stop_after_any_step(void **state) {
    (void)state;
    struct stand_in net = { .b = zeros, .stop_after = 2 };
    kn_sampling job = { &kn_samplers[0], four_steps, 4, NULL, velocity, NULL, after_step, &net };
    float x[N] = { 0 };
    kn_error err = { 0 };
    assert_false(kn_sample(&job, x, N, &err));
    assert_int_equal(err.code, KN_E_CANCELLED);
    assert_int_equal(net.calls, 2);
}

static void schedules_that_do_not_fall_are_refused(void **state) {
    (void)state;
    static const float lists[][3] = {
        { 1, 1, 0 }, { 0.5f, 0.6f, 0 }, { 1.5f, 1, 0 }, { 1, NAN, 0 }, { 1, 0.5f, -0.1f }
    };
    for (size_t i = 0; i < KN_COUNT(lists); i++) {
        struct stand_in net = { .b = zeros };
        kn_sampling job = { &kn_samplers[0], lists[i], 2, NULL, velocity, NULL, NULL, &net };
        float x[N] = { 0 };
        kn_error err = { 0 };
        assert_false(kn_sample(&job, x, N, &err));
        assert_int_equal(err.code, KN_E_RANGE);
        assert_int_equal(net.calls, 0);
        if (i == 1)
            assert_string_equal(err.text, "sigma 0.6 at place 2 of 3: a schedule falls from at most 1 to 0");
    }
}

static void stochastic_samplers_ask_for_noise(void **state) {
    (void)state;
    struct stand_in net = { .b = zeros };
    kn_sampling job = { .sigmas = four_steps, .steps = 4, .velocity = velocity, .ctx = &net };
    float x[N] = { 0 };
    kn_error err = { 0 };
    assert_true(kn_sampler_find("LCM", &job.sampler, &err));
    assert_false(kn_sample(&job, x, N, &err));
    assert_string_equal(err.text, "sampler 'lcm' needs noise for its steps");
}

static void samplers_are_found_by_every_spelling(void **state) {
    (void)state;
    static const char *const rows[][2] = { { "euler", "euler" },
                                           { "Euler a", "euler_ancestral" },
                                           { "euler_a", "euler_ancestral" },
                                           { "Heun", "heun" },
                                           { "dpm++2m", "dpmpp_2m" },
                                           { "DPM++ 2M", "dpmpp_2m" },
                                           { "UniPC", "unipc" },
                                           { "Res Multistep", "res_multistep" },
                                           { "LCM", "lcm" },
                                           { "k_euler", "euler" },
                                           { "euler_ancestral", "euler_ancestral" } };
    const kn_sampler *s = NULL;
    kn_error err = { 0 };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        assert_true(kn_sampler_find(rows[i][0], &s, &err));
        assert_string_equal(s->name.name, rows[i][1]);
    }
    assert_false(kn_sampler_find("eulr", &s, &err));
    assert_int_equal(err.code, KN_E_NOT_FOUND);
    assert_string_equal(err.text, "unknown sampler 'eulr'; known: euler, heun, euler_ancestral, dpmpp_2m, "
                                  "res_multistep, unipc, lcm");
}

static void guidance_moves_away_from_the_negative_prompt(void **state) {
    (void)state;
    float positive[3] = { 1, 2, -1 }, negative[3] = { 0.5f, 2, 1 };
    kn_guide(positive, negative, 4, 3);
    assert_true(positive[0] == 2.5f && positive[1] == 2 && positive[2] == -7);
    float same[3] = { 1, 2, -1 };
    kn_guide(same, negative, 1, 3);
    assert_true(same[0] == 1 && same[1] == 2 && same[2] == -1);
}

static void known_pixels_stay_at_the_noise_level_of_the_step(void **state) {
    (void)state;
    const float clean[3] = { 1, 1, 1 }, noise[3] = { 3, 3, 3 }, mask[3] = { 0, 1, 0.5f };
    float x[3] = { 9, 9, 9 }, begun[3];
    kn_add_noise(begun, clean, noise, 0.25f, 3);
    assert_true(begun[0] == 1.5f);
    kn_keep_known(x, mask, clean, noise, 0.25f, 3);
    assert_true(x[0] == 1.5f && x[1] == 9 && x[2] == 5.25f);
    kn_keep_known(x, mask, clean, noise, 0, 3);
    assert_true(x[0] == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sampler_row_is_within_its_tolerance),
        cmocka_unit_test(unipc_starts_just_below_one),
        cmocka_unit_test(every_sampler_survives_any_falling_schedule),
        cmocka_unit_test(one_euler_step_gives_the_clean_estimate),
        cmocka_unit_test(no_steps_leave_the_latent_alone),
        cmocka_unit_test(a_nan_is_caught_in_the_step_that_makes_it),
        cmocka_unit_test(the_hook_can_stop_after_any_step),
        cmocka_unit_test(schedules_that_do_not_fall_are_refused),
        cmocka_unit_test(stochastic_samplers_ask_for_noise),
        cmocka_unit_test(samplers_are_found_by_every_spelling),
        cmocka_unit_test(guidance_moves_away_from_the_negative_prompt),
        cmocka_unit_test(known_pixels_stay_at_the_noise_level_of_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
