#include <math.h>
#include <string.h>

#include "golden.h"
#include "sampling/schedule.h"

static const kn_flow *flow_named(const char *name) {
    for (size_t i = 0; i < KN_FLOW_COUNT; i++)
        if (!strcmp(kn_flows[i].name, name))
            return &kn_flows[i];
    fail_msg("no flow %s", name);
    return NULL;
}

static void assert_sigmas(const kn_sigmas *now, const json_t *row, double tolerance) {
    json_t *wanted = json_object_get(row, "sigmas");
    assert_int_equal(now->steps + 1, json_array_size(wanted));
    for (size_t i = 0; i <= now->steps; i++) {
        double off = fabs(now->at[i] - json_number_value(json_array_get(wanted, i)));
        if (!(off <= tolerance)) {
            char *text = json_dumps(row, JSON_COMPACT);
            fail_msg("sigma %zu is %.9g, off by %g: %s", i, (double)now->at[i], off, text);
        }
    }
}

static kn_optional given(double value) {
    return (kn_optional){ true, value };
}

/* The rows of the fixture that name a schedule and a shift; false for those that name a model. */
static bool build_from_parts(const json_t *row, kn_sigmas *ret) {
    static const struct {
        const char *name;
        kn_schedule schedule;
    } names[] = {
        { "flow-match-euler-static", KN_SCHEDULE_OFFICIAL },
        { "flow-match-euler-dynamic", KN_SCHEDULE_OFFICIAL },
        { "flow-match-euler-dynamic-terminal", KN_SCHEDULE_OFFICIAL },
        { "comfyui-simple", KN_SCHEDULE_SIMPLE },
        { "comfyui-sgm-uniform", KN_SCHEDULE_SGM_UNIFORM },
        { "comfyui-normal", KN_SCHEDULE_NORMAL },
        { "sdcpp-discrete", KN_SCHEDULE_DISCRETE },
    };
    bool exponential = json_object_get(row, "mu") || !strcmp(golden_text(row, "sampling"), "flux");
    kn_shift shift = { exponential ? KN_SHIFT_EXPONENTIAL : KN_SHIFT_RATIONAL, 0, 0 };
    shift.amount = golden_number(row, json_object_get(row, "mu") ? "mu" : "shift");
    if (json_object_get(row, "shift_terminal"))
        shift.terminal = golden_number(row, "shift_terminal");
    size_t steps = golden_size(row, "steps");
    for (size_t i = 0; i < KN_COUNT(names); i++)
        if (!strcmp(golden_text(row, "schedule"), names[i].name))
            return kn_schedule_build(names[i].schedule, shift, steps, steps, ret, NULL);
    return false;
}

static void every_schedule_row_is_within_its_tolerance(void **state) {
    (void)state;
    json_t *root = golden_json("sampling/schedules.json"), *rows = json_object_get(root, "rows"), *row;
    double tolerance = golden_number(json_object_get(root, "tolerance"), "absolute");
    assert_in_range(json_array_size(rows), 122, 140); /* 18 less if the chosen number of steps is one of the others */
    size_t i;
    json_array_foreach(rows, i, row) {
        kn_sigmas now;
        kn_error err = { 0 };
        if (!build_from_parts(row, &now)) {
            kn_sigma_request q = { .flow = flow_named(golden_text(row, "schedule")),
                                   .steps = golden_size(row, "steps"),
                                   .image_tokens = golden_size(row, "image_tokens") };
            assert_true(kn_sigmas_make(&q, &now, &err));
        }
        assert_sigmas(&now, row, tolerance);
    }
    json_decref(root);
}

static void mu_follows_the_resolution_without_clamping(void **state) {
    (void)state;
    json_t *root = golden_json("sampling/schedules.json"), *row;
    static const kn_mu_line flux = { 256, 0.5, 4096, 1.15 };
    size_t i, checked = 0;
    json_array_foreach(json_object_get(root, "rows"), i, row) {
        const char *name = golden_text(row, "schedule");
        const kn_mu_line *line = !strcmp(name, "krea2-raw")                  ? &kn_flows[KN_FLOW_KREA2_RAW].own->line
                                 : !strcmp(name, "flow-match-euler-dynamic") ? &flux
                                 : !strcmp(name, "flow-match-euler-dynamic-terminal")
                                     ? &kn_flows[KN_FLOW_QWEN_IMAGE_21].own->line
                                     : NULL;
        if (!line)
            continue;
        assert_true(fabs(kn_mu_at(*line, golden_size(row, "image_tokens")) - golden_number(row, "mu")) < 1e-12);
        checked++;
    }
    assert_in_range(checked, 20, 23);
    json_decref(root);
    assert_true(kn_mu_at(kn_flows[KN_FLOW_KREA2_RAW].own->line, 4096) == 0.90625);
}

static void qwen_image_sigmas_equal_the_recorded_ones(void **state) {
    (void)state;
    json_t *root = golden_json("sampling/qwen-image.json"), *rows = json_object_get(root, "rows"), *row;
    double tolerance = golden_number(json_object_get(root, "tolerance"), "absolute");
    assert_int_equal(json_array_size(rows), 27);
    size_t i;
    json_array_foreach(rows, i, row) {
        kn_sigma_request q = { .flow = flow_named(golden_text(row, "flow")),
                               .steps = golden_size(row, "steps"),
                               .image_tokens = golden_size(row, "image_tokens") };
        kn_error err = { 0 };
        kn_sigmas now;
        if (*golden_text(row, "schedule"))
            assert_true(kn_schedule_find(golden_text(row, "schedule"), &q.schedule, &err));
        if (json_object_get(row, "flow_shift"))
            q.flow_shift = given(golden_number(row, "flow_shift"));
        assert_true(kn_sigmas_make(&q, &now, &err));
        assert_sigmas(&now, row, tolerance);
    }
    json_decref(root);
}

static void beta_takes_the_table_entries_of_the_distribution(void **state) {
    (void)state;
    json_t *root = golden_json("sampling/beta.json"), *rows = json_object_get(root, "rows"), *row;
    assert_int_equal(json_array_size(rows), 14);
    size_t i;
    json_array_foreach(rows, i, row) {
        double entries = golden_number(row, "entries");
        kn_shift shift = { entries > 1000 ? KN_SHIFT_EXPONENTIAL : KN_SHIFT_RATIONAL, entries > 1000 ? 1.15 : 3, 0 };
        size_t steps = golden_size(row, "steps");
        kn_sigmas now;
        assert_true(kn_schedule_build(KN_SCHEDULE_BETA, shift, steps, steps, &now, NULL));
        assert_int_equal(now.steps, steps);
        for (size_t k = 0; k < steps; k++) {
            double index = json_number_value(json_array_get(json_object_get(row, "index"), k));
            assert_true(now.at[k] == (float)kn_shift_apply(shift, (index + 1) / entries));
        }
    }
    json_decref(root);
}

static void beta_drops_steps_on_the_same_entry(void **state) {
    (void)state;
    kn_shift shift = { KN_SHIFT_RATIONAL, 3, 0 };
    kn_sigmas now;
    assert_true(kn_schedule_build(KN_SCHEDULE_BETA, shift, 1000, 1000, &now, NULL));
    assert_true(now.steps < 1000 && now.steps > 500);
    assert_true(now.at[0] == 1 && now.at[now.steps] == 0);
    for (size_t i = 0; i < now.steps; i++)
        assert_true(now.at[i + 1] < now.at[i]);
}

static void every_start_rule_agrees_with_its_program(void **state) {
    (void)state;
    json_t *root = golden_json("sampling/schedules.json"), *rows = json_object_get(root, "image_to_image"), *row;
    assert_int_equal(json_array_size(rows), 40);
    size_t i;
    json_array_foreach(rows, i, row) {
        size_t steps = golden_size(row, "steps");
        double strength = golden_number(row, "strength");
        kn_start s;
        assert_true(kn_start_find(KN_START_DIFFUSERS, steps, strength, &s, NULL));
        assert_int_equal(s.total, steps);
        assert_int_equal(s.total - s.keep, golden_size(row, "diffusers_start_index"));
        assert_int_equal(s.keep, golden_size(row, "diffusers_steps_run"));
        assert_true(kn_start_find(KN_START_COMFYUI, steps, strength, &s, NULL));
        assert_int_equal(s.total, golden_size(row, "comfyui_schedule_steps"));
        assert_int_equal(s.keep, golden_size(row, "comfyui_steps_run"));
        assert_true(kn_start_find(KN_START_SDCPP, steps, strength, &s, NULL));
        assert_int_equal(s.total - s.keep, golden_size(row, "sdcpp_start_index"));
        assert_int_equal(s.keep, golden_size(row, "sdcpp_steps_run"));
    }
    json_decref(root);
    kn_start s;
    assert_true(kn_start_find(KN_START_SDCPP, 100, 0.29, &s, NULL));
    assert_int_equal(s.keep, 30); /* 100 * 0.29 is 29 in float32 and a little less in double */
}

static void strength_runs_the_end_of_the_schedule(void **state) {
    (void)state;
    kn_sigma_request q = { .flow = &kn_flows[KN_FLOW_QWEN_IMAGE_21], .steps = 16, .image_tokens = 1024 };
    kn_sigmas whole, part;
    assert_true(kn_sigmas_make(&q, &whole, NULL));

    q.steps = 8;
    q.strength = given(0.5);
    q.start_rule = KN_START_COMFYUI;
    assert_true(kn_sigmas_make(&q, &part, NULL));
    assert_int_equal(part.steps, 8);
    assert_memory_equal(part.at, whole.at + 8, 9 * sizeof(float));

    q.steps = 16;
    q.strength = given(0.6); /* 16 - 9.6 leaves 6 steps out */
    q.start_rule = KN_START_DIFFUSERS;
    assert_true(kn_sigmas_make(&q, &part, NULL));
    assert_int_equal(part.steps, 10);
    assert_memory_equal(part.at, whole.at + 6, 11 * sizeof(float));

    q.strength = given(0);
    assert_true(kn_sigmas_make(&q, &part, NULL));
    assert_int_equal(part.steps, 0);
    assert_true(part.at[0] == 0);
}

static void turbo_keeps_its_eight_sigmas_at_every_size(void **state) {
    (void)state;
    static const float wanted[] = {
        1.0f, 0.978453f, 0.95418f, 0.926626f, 0.89508f, 0.845148f, 0.704534f, 0.414568f, 0
    };
    kn_sigma_request q = { .flow = &kn_flows[KN_FLOW_QWEN_IMAGE_21_TURBO], .image_tokens = 16384 };
    kn_sigmas now;
    kn_error err = { 0 };
    assert_true(kn_sigmas_make(&q, &now, &err));
    assert_int_equal(now.steps, 8);
    assert_memory_equal(now.at, wanted, sizeof wanted);

    q.strength = given(0.5);
    assert_true(kn_sigmas_make(&q, &now, &err));
    assert_int_equal(now.steps, 4);
    assert_memory_equal(now.at, wanted + 4, 5 * sizeof(float));
}

static void one_step_goes_from_noise_to_image(void **state) {
    (void)state;
    for (size_t f = 0; f < KN_FLOW_COUNT; f++) {
        for (int s = 0; s < KN_SCHEDULE_COUNT && !kn_flows[f].fixed; s++) {
            kn_sigma_request q = { .flow = &kn_flows[f], .schedule = (kn_schedule)s, .steps = 1, .image_tokens = 4096 };
            kn_sigmas now;
            assert_true(kn_sigmas_make(&q, &now, NULL));
            assert_int_equal(now.steps, 1);
            assert_true(now.at[0] == 1 && now.at[1] == 0);
        }
    }
}

static void schedules_fall_strictly_at_every_length_and_size(void **state) {
    (void)state;
    static const uint64_t tokens[] = { 1, 16, 1024, 4096, 65536 };
    for (size_t f = 0; f < KN_FLOW_COUNT; f++) {
        for (int s = 0; s < KN_SCHEDULE_COUNT && !kn_flows[f].fixed; s++) {
            for (size_t steps = 1; steps <= 200; steps += steps < 20 ? 1 : 45) {
                for (size_t t = 0; t < KN_COUNT(tokens); t++) {
                    kn_sigma_request q = {
                        .flow = &kn_flows[f], .schedule = (kn_schedule)s, .steps = steps, .image_tokens = tokens[t]
                    };
                    kn_sigmas now;
                    assert_true(kn_sigmas_make(&q, &now, NULL));
                    assert_true(now.at[0] == 1 && now.at[now.steps] == 0);
                    for (size_t i = 0; i < now.steps; i++)
                        assert_true(now.at[i + 1] < now.at[i]);
                }
            }
        }
    }
}

static void shift_options_replace_what_the_model_has(void **state) {
    (void)state;
    kn_sigmas now, wanted;
    kn_sigma_request q = { .flow = &kn_flows[KN_FLOW_KREA2_RAW], .steps = 8, .image_tokens = 4096 };

    q.mu = given(1.15);
    assert_true(kn_sigmas_make(&q, &now, NULL));
    q = (kn_sigma_request){ .flow = &kn_flows[KN_FLOW_KREA2_TURBO], .steps = 8 };
    assert_true(kn_sigmas_make(&q, &wanted, NULL));
    assert_memory_equal(now.at, wanted.at, 9 * sizeof(float));

    q = (kn_sigma_request){ .flow = &kn_flows[KN_FLOW_KREA2_RAW], .steps = 8, .image_tokens = 6400 };
    q.shift_y2 = given(0.7); /* the line's end is at 6400 tokens */
    assert_true(kn_sigmas_make(&q, &now, NULL));
    q.shift_y2.given = false;
    q.mu = given(0.7);
    assert_true(kn_sigmas_make(&q, &wanted, NULL));
    assert_memory_equal(now.at, wanted.at, 9 * sizeof(float));

    q = (kn_sigma_request){ .flow = &kn_flows[KN_FLOW_Z_IMAGE_TURBO], .steps = 8, .flow_shift = given(6) };
    assert_true(kn_sigmas_make(&q, &now, NULL));
    q = (kn_sigma_request){ .flow = &kn_flows[KN_FLOW_Z_IMAGE_BASE], .steps = 8 };
    assert_true(kn_sigmas_make(&q, &wanted, NULL));
    assert_memory_equal(now.at, wanted.at, 9 * sizeof(float));

    /* mu changes how far the 2.1 schedule is shifted, not where it ends */
    q = (kn_sigma_request){ .flow = &kn_flows[KN_FLOW_QWEN_IMAGE_21], .steps = 4, .mu = given(2) };
    assert_true(kn_sigmas_make(&q, &now, NULL));
    assert_true(fabsf(now.at[3] - 0.02f) < 1e-6f);
}

static void custom_lists_are_taken_as_they_are(void **state) {
    (void)state;
    static const float with_zero[] = { 0.9f, 0.5f, 0.25f, 0 };
    kn_sigma_request q = { .flow = &kn_flows[KN_FLOW_KREA2_TURBO], .custom = with_zero };
    kn_sigmas now;
    for (q.custom_count = 3; q.custom_count <= 4; q.custom_count++) {
        assert_true(kn_sigmas_make(&q, &now, NULL));
        assert_int_equal(now.steps, 3);
        assert_memory_equal(now.at, with_zero, sizeof with_zero);
    }
}

static void refusals_name_the_numbers(void **state) {
    (void)state;
    static const float rising[] = { 0.5f, 0.6f }, high[] = { 1.5f }, nothing[] = { 0 }, two[] = { 1, 0.5f };
    const kn_flow *krea = &kn_flows[KN_FLOW_KREA2_TURBO], *turbo = &kn_flows[KN_FLOW_QWEN_IMAGE_21_TURBO];
    const kn_flow *z = &kn_flows[KN_FLOW_Z_IMAGE_BASE], *q21 = &kn_flows[KN_FLOW_QWEN_IMAGE_21];
    const struct {
        kn_sigma_request q;
        kn_code code;
        const char *text;
    } rows[] = {
        { { .flow = krea }, KN_E_RANGE, "steps is 0; 1 to 1000 are possible" },
        { { .flow = krea, .steps = 1001 }, KN_E_RANGE, "steps is 1001; 1 to 1000 are possible" },
        { { .flow = turbo, .steps = 12 }, KN_E_USAGE, "qwen-image-2.1-turbo has 8 steps, not 12" },
        { { .flow = turbo, .schedule = KN_SCHEDULE_BETA }, KN_E_USAGE, "qwen-image-2.1-turbo has no schedule 'beta'" },
        { { .flow = turbo, .mu = { true, 1 } },
          KN_E_USAGE,
          "qwen-image-2.1-turbo is not shifted: flow shift and mu have no effect" },
        { { .flow = turbo, .strength = { true, 0.5 }, .start_rule = KN_START_COMFYUI },
          KN_E_USAGE,
          "qwen-image-2.1-turbo has 8 steps; a strength of 0.5 would need 16" },
        { { .flow = z, .steps = 8, .mu = { true, 1 } }, KN_E_USAGE, "z-image-base has no mu; its flow shift is 6" },
        { { .flow = krea, .steps = 8, .mu = { true, 21 } }, KN_E_RANGE, "mu is 21; -20 to 20 is possible" },
        { { .flow = krea, .steps = 8, .mu = { true, NAN } }, KN_E_RANGE, "mu is nan; -20 to 20 is possible" },
        { { .flow = krea, .steps = 8, .shift_y1 = { true, 1 } },
          KN_E_USAGE,
          "krea2-turbo does not take mu from the resolution: shift y1 and y2 have no effect" },
        { { .flow = q21, .steps = 8, .mu = { true, 1 }, .flow_shift = { true, 3 } },
          KN_E_USAGE,
          "flow shift, mu and the ends of mu exclude each other" },
        { { .flow = z, .steps = 8, .flow_shift = { true, 0 } },
          KN_E_RANGE,
          "flow shift is 0; above 0 and up to 100 is possible" },
        { { .flow = z, .steps = 8, .strength = { true, 1.5 } }, KN_E_RANGE, "strength 1.5 is not between 0 and 1" },
        { { .flow = z, .steps = 8, .strength = { true, NAN } }, KN_E_RANGE, "strength nan is not between 0 and 1" },
        { { .flow = z, .steps = 8, .strength = { true, 1e-9 }, .start_rule = KN_START_COMFYUI },
          KN_E_RANGE,
          "strength 1e-09 is too small for 8 steps" },
        { { .flow = z,
            .schedule = KN_SCHEDULE_SIMPLE,
            .steps = 8,
            .strength = { true, 0.001 },
            .start_rule = KN_START_COMFYUI },
          KN_E_RANGE,
          "schedule 'simple' with shift 3 cannot make 8000 falling steps" },
        { { .custom = rising, .custom_count = 2 },
          KN_E_RANGE,
          "sigma 2 is 0.6 and does not fall below the 0.5 before it" },
        { { .custom = high, .custom_count = 1 }, KN_E_RANGE, "sigma 1 is 1.5; above 0 and up to 1 is possible" },
        { { .custom = nothing, .custom_count = 1 }, KN_E_RANGE, "steps is 0; 1 to 1000 are possible" },
        { { .custom = two, .custom_count = 2, .steps = 3 }, KN_E_USAGE, "the list of sigmas has 2 steps, not 3" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_sigmas now = { .steps = 77 };
        kn_error err = { 0 };
        assert_false(kn_sigmas_make(&rows[i].q, &now, &err));
        assert_string_equal(err.text, rows[i].text);
        assert_int_equal(err.code, rows[i].code);
        assert_int_equal(now.steps, 77);
    }
}

static void schedules_are_found_by_name(void **state) {
    (void)state;
    kn_schedule s = KN_SCHEDULE_COUNT;
    kn_error err = { 0 };
    for (size_t i = 0; i < KN_SCHEDULE_COUNT; i++)
        assert_true(kn_schedule_find(kn_schedules[i].name, &s, &err) && s == (kn_schedule)i);
    assert_true(kn_schedule_find("Default", &s, &err) && s == KN_SCHEDULE_OFFICIAL);
    assert_false(kn_schedule_find("karras\n", &s, &err));
    assert_string_equal(err.text, "unknown schedule 'karras\\x0a'; known: official, simple, sgm_uniform, normal, beta, "
                                  "discrete");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_row_is_within_its_tolerance),
        cmocka_unit_test(mu_follows_the_resolution_without_clamping),
        cmocka_unit_test(qwen_image_sigmas_equal_the_recorded_ones),
        cmocka_unit_test(beta_takes_the_table_entries_of_the_distribution),
        cmocka_unit_test(beta_drops_steps_on_the_same_entry),
        cmocka_unit_test(every_start_rule_agrees_with_its_program),
        cmocka_unit_test(strength_runs_the_end_of_the_schedule),
        cmocka_unit_test(turbo_keeps_its_eight_sigmas_at_every_size),
        cmocka_unit_test(one_step_goes_from_noise_to_image),
        cmocka_unit_test(schedules_fall_strictly_at_every_length_and_size),
        cmocka_unit_test(shift_options_replace_what_the_model_has),
        cmocka_unit_test(custom_lists_are_taken_as_they_are),
        cmocka_unit_test(refusals_name_the_numbers),
        cmocka_unit_test(schedules_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
