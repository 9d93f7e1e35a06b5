/* What a plan says about memory, against what drawing then takes. */
#include <string.h>

#include "golden_model.h"
#include "pipelines/plan.h"

#define E2E     KN_TEST_DATA "/qwen21-e2e/models.toml"
#define Q2512   KN_TEST_DATA "/qwen2512/e2e/models.toml"
#define KREA2   KN_TEST_DATA "/krea2/models.toml"
#define Z_IMAGE KN_TEST_DATA "/z-image/models.toml"

static kn_settings settings_of(const kn_model *m, const kn_wish *wish) {
    kn_settings s;
    kn_error err = { 0 };
    const kn_model_choice *c = &m->choice;
    if (!kn_settings_make(wish, &c->defaults, c->architecture, c->variant, &s, &err))
        fail_msg("%s", err.text);
    return s;
}

static kn_draw_report plan_of(const kn_model *m, const kn_wish *wish) {
    kn_settings s = settings_of(m, wish);
    kn_draw_report plan;
    kn_error err = { 0 };
    if (!kn_plan_make(m, &s.recipe, NULL, &plan, &err))
        fail_msg("%s", err.text);
    return plan;
}

static void check(const char *config, const char *profile, const char *precision, const kn_wish *wish) {
    const kn_model_wish model_wish = { .config = config, .profile = profile, .precision = precision };
    const kn_hooks hooks = { 0 };
    kn_model *m = open_model(&model_wish);
    kn_draw_report plan = plan_of(m, wish), measured;
    kn_image picture = draw(m, wish, &hooks, &measured);
    kn_draw_report again = plan_of(m, wish);
    kn_image_free(&picture);
    for (kn_stage i = KN_STAGE_PICTURES; i < KN_STAGE_COUNT; i++) {
        const kn_stage_report *want = &measured.stage[i], *got = &plan.stage[i];
        if (!want->name) {
            assert_null(got->name);
            continue;
        }
        print_message("  %s: %s: planned %llu, measured %llu bytes\n", profile, want->name,
                      (unsigned long long)got->peak_bytes, (unsigned long long)want->peak_bytes);
        assert_string_equal(got->name, want->name);
        assert_int_equal(got->weight_bytes, want->weight_bytes);
        assert_true(got->peak_bytes >= want->peak_bytes);
        assert_true(got->peak_bytes <= want->peak_bytes + KN_MAX(want->peak_bytes / 10, (uint64_t)4 << 20));
        assert_int_equal(again.stage[i].peak_bytes, got->peak_bytes);
    }
    assert_int_equal(plan.prompt_tokens, measured.prompt_tokens);
    kn_model_close(m);
}

static kn_wish wish_of(int width, int height) {
    return (kn_wish){ .prompt = "a lighthouse in the evening, its light on the water",
                      .negative_prompt = "fog",
                      .width = { true, width },
                      .height = { true, height },
                      .steps = { true, 2 } };
}

static void plans_what_every_architecture_then_takes(void **state) {
    (void)state;
    static const struct {
        const char *config, *profile;
        double cfg;
    } cases[] = {
        { E2E, "tiny", 1 },     { E2E, "tiny", 4 },    { E2E, "tiny-gguf", 1 },       { E2E, "tiny-int8", 1 },
        { KREA2, "turbo", 0 },  { KREA2, "raw", 3.5 }, { KREA2, "turbo-fp8", 0 },     { Z_IMAGE, "turbo", 1 },
        { Z_IMAGE, "base", 4 }, { Q2512, "tiny", 1 },  { Q2512, "tiny-rescaled", 4 }, { Z_IMAGE, "all-in-one", 1 },
    };
    for (size_t i = 0; i < KN_COUNT(cases); i++) {
        kn_wish wish = wish_of(96, 64);
        wish.cfg = (kn_optional){ true, cases[i].cfg };
        check(cases[i].config, cases[i].profile, "exact", &wish);
        check(cases[i].config, cases[i].profile, "fast", &wish);
    }
}

static void plans_for_given_pictures(void **state) {
    (void)state;
    kn_image pictures[] = { read_png("qwen21-e2e/edit/reference0.png"), read_png("qwen21-e2e/edit/reference1.png") };
    kn_wish wish = wish_of(64, 64);
    wish.references = pictures;
    wish.reference_count = 2;
    wish.reference_resolution = (kn_optional){ true, 128 };
    check(E2E, "tiny", "exact", &wish);
    check(Q2512, "tiny-edit", "exact", &wish);
    wish.reference_count = 0;
    wish.init_image = &pictures[0];
    check(E2E, "tiny", "exact", &wish);
    check(KREA2, "turbo", "exact", &wish);
    check(Z_IMAGE, "turbo", "exact", &wish);
    check(Q2512, "tiny", "exact", &wish);
    kn_image_free(&pictures[0]);
    kn_image_free(&pictures[1]);
}

static kn_error refusal_of(const kn_model *m, const kn_wish *wish, uint64_t available) {
    kn_settings s = settings_of(m, wish);
    kn_error err = { 0 };
    assert_true(kn_plan_check(m, &s.recipe, available, NULL, &err) == (err.code == KN_OK));
    return err;
}

static void refuses_what_cannot_fit_with_the_figures(void **state) {
    (void)state;
    const kn_model_wish model_wish = { .config = Z_IMAGE, .profile = "turbo" };
    kn_model *m = open_model(&model_wish);
    kn_wish wish = wish_of(512, 512);
    kn_draw_report plan = plan_of(m, &wish);
    uint64_t most = 0;
    for (kn_stage i = KN_STAGE_PICTURES; i < KN_STAGE_COUNT; i++)
        most = KN_MAX(most, kn_plan_bytes(&plan, i, KN_STAGED));
    assert_int_equal(refusal_of(m, &wish, most).code, KN_OK);

    kn_error err = refusal_of(m, &wish, most - 1);
    print_message("  %s\n", err.text);
    assert_int_equal(err.code, KN_E_NOMEM);
    assert_int_equal(kn_exit_code(err.code), 1);
    assert_non_null(strstr(err.text, "for 512x512"));
    assert_non_null(strstr(err.text, "480x480 would fit"));
    assert_non_null(strstr(err.text, "--allow-swap"));

    err = refusal_of(m, &wish, 1000);
    print_message("  %s\n", err.text);
    assert_non_null(strstr(err.text, "the text encoder needs "));
    assert_non_null(strstr(err.text, "1.0 kB are free; no smaller picture would fit"));
    kn_model_close(m);
}

static void counts_what_stays_in_memory(void **state) {
    (void)state;
    const kn_draw_report plan = { .stage = {
                                      { .name = "pictures", .weight_bytes = 10, .peak_bytes = 5 },
                                      { .name = "see", .weight_bytes = 20, .peak_bytes = 1 },
                                      { .name = "encode", .weight_bytes = 40, .peak_bytes = 2 },
                                      { .name = "diffuse", .weight_bytes = 80, .peak_bytes = 3 },
                                      { .name = "decode", .weight_bytes = 10, .peak_bytes = 9 },
                                  } };
    static const uint64_t staged[] = { 15, 25, 45, 85, 19 }, cached[] = { 15, 35, 75, 155, 159 };
    for (kn_stage i = KN_STAGE_PICTURES; i < KN_STAGE_COUNT; i++) {
        assert_int_equal(kn_plan_bytes(&plan, i, KN_STAGED), staged[i]);
        assert_int_equal(kn_plan_bytes(&plan, i, KN_CACHED), cached[i]);
    }
}

/* A 2K picture of this network needs gigabytes; a plan takes none of them. */
static void plans_more_than_there_is(void **state) {
    (void)state;
    const kn_model_wish model_wish = { .config = Z_IMAGE, .profile = "turbo" };
    kn_model *m = open_model(&model_wish);
    kn_wish wish = wish_of(8192, 8192);
    kn_draw_report plan = plan_of(m, &wish);
    assert_true(plan.stage[KN_STAGE_DIFFUSE].peak_bytes > (uint64_t)100 << 20);
    kn_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_what_every_architecture_then_takes),
        cmocka_unit_test(plans_for_given_pictures),
        cmocka_unit_test(refuses_what_cannot_fit_with_the_figures),
        cmocka_unit_test(counts_what_stays_in_memory),
        cmocka_unit_test(plans_more_than_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
