/* Whole pictures against the recorded runs of the reference pipelines: every intermediate in exact precision, pixels in
 * exact and fast; and what a pipeline promises besides numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_model.h"
#include "image/read.h"
#include "pipelines/inspect.h"
#include "pipelines/plan.h"

#define CONFIG KN_TEST_DATA "/qwen21-e2e/models.toml"
#define DEMO   KN_SOURCE "/models/demo"

/* Compares what a pipeline dumps with the golden file, under the names that file has. */
struct comparison {
    const golden *want;
    double embeddings, rest; /* relative L2 that is allowed */
    int compared;
};

static void compare_dump(void *ctx, const char *name, int rank, const int64_t *dim, const float *values) {
    struct comparison *c = ctx;
    static const char *const names[][2] = {
        { "text_embeddings", "positive.embeddings" },
        { "negative_text_embeddings", "negative.embeddings" },
        { "sigmas", "sigmas" },
        { "reference0.latents", "reference0.latents" },
        { "reference1.latents", "reference1.latents" },
        { "encoded", "encoded" },
    };
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    int step = 0;
    char full[64] = "";
    if (sscanf(name, "latents_%d", &step) == 1)
        snprintf(full, sizeof full, "step%d.latents", step);
    for (size_t i = 0; i < KN_COUNT(names); i++)
        if (strcmp(name, names[i][0]) == 0)
            snprintf(full, sizeof full, "%s", names[i][1]);
    if (strcmp(name, "tokens") == 0 || strcmp(name, "negative_tokens") == 0) {
        size_t count = 0;
        const int32_t *ids = golden_ints(c->want, *name == 't' ? "positive.input_ids" : "negative.input_ids", &count);
        assert_int_equal(n, count);
        for (size_t i = 0; i < n; i++)
            assert_int_equal((int32_t)values[i], ids[i]);
    } else if (*full) {
        bool embeddings = strstr(name, "text_embeddings") != NULL;
        golden_compare_within(c->want, full, values, n, embeddings ? c->embeddings : c->rest);
    }
    c->compared += *full || strstr(name, "tokens");
}

static kn_wish wish_of_case(json_t *c, const golden *in, bool turbo) {
    kn_wish w = {
        .prompt = json_string_value(json_object_get(c, "prompt")),
        .negative_prompt = json_string_value(json_object_get(c, "negative_prompt")),
        .width = { true, (double)json_integer_value(json_object_get(c, "width")) },
        .height = { true, (double)json_integer_value(json_object_get(c, "height")) },
        .cfg = { true, json_number_value(json_object_get(c, "cfg")) },
        .seed_given = true,
    };
    if (!turbo)
        w.steps = (kn_optional){ true, (double)json_integer_value(json_object_get(c, "steps")) };
    w.init_noise = golden_floats(in, "noise", &w.init_noise_count);
    return w;
}

/* Pictures of a case; the two cases with references have the same. */
enum { REFERENCES_MAX = 2 };

static int read_references(json_t *c, kn_image pictures[REFERENCES_MAX]) {
    int count = (int)golden_size(c, "references");
    assert_true(count <= REFERENCES_MAX);
    for (int i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, "qwen21-e2e/edit/reference%d.png", i);
        pictures[i] = read_png(path);
    }
    return count;
}

/* A case states what it allows where that is more than usual. */
static double tolerance_of(json_t *c, const char *key, double usual) {
    json_t *value = json_object_get(json_object_get(c, "tolerance"), key);
    return value ? json_number_value(value) : usual;
}

static void run_case(const char *folder, const char *profile, const char *precision) {
    bool exact = strcmp(precision, "exact") == 0;
    char path[256];
    print_message("  %s, %s\n", folder, precision);
    snprintf(path, sizeof path, "qwen21-e2e/%s/case.json", folder);
    json_t *c = golden_json(path);
    snprintf(path, sizeof path, "qwen21-e2e/%s/inputs.safetensors", folder);
    golden in = golden_open(path);
    snprintf(path, sizeof path, "qwen21-e2e/%s/expected.safetensors", folder);
    golden want = golden_open(path);

    const kn_model_wish model_wish = { .config = CONFIG, .profile = profile, .precision = precision };
    kn_model *m = open_model(&model_wish);
    kn_wish wish = wish_of_case(c, &in, strcmp(profile, "tiny-turbo") == 0);
    kn_image references[REFERENCES_MAX] = { 0 };
    wish.reference_count = read_references(c, references);
    wish.references = references;
    if (wish.reference_count)
        wish.reference_resolution = (kn_optional){ true, golden_number(c, "reference_resolution") };
    kn_image start[2] = { { 0 } };
    snprintf(path, sizeof path, "qwen21-e2e/%s", folder);
    read_start(path, c, &wish, start);
    double rest = tolerance_of(c, "rel_l2", 1e-4), embeddings = tolerance_of(c, "rel_l2_embeddings", rest);
    struct comparison comparison = { .want = &want, .embeddings = embeddings, .rest = rest };
    const kn_hooks hooks = { .dump = exact ? compare_dump : NULL, .dump_ctx = &comparison };
    kn_image got = draw(m, &wish, &hooks, NULL);
    if (exact)
        assert_true(comparison.compared >=
                    3 + wish.reference_count + (int)json_integer_value(json_object_get(c, "steps")));
    snprintf(path, sizeof path, "qwen21-e2e/%s/image.png", folder);
    kn_image png = read_png(path);
    int most = rest > 1e-4 ? (int)tolerance_of(c, "png_max_abs", 1) : 1;
    compare_pictures(&got, &png, exact ? most : 255, 40);
    kn_image_free(&got);
    kn_image_free(&png);
    for (int i = 0; i < wish.reference_count; i++)
        kn_image_free(&references[i]);
    kn_image_free(&start[0]);
    kn_image_free(&start[1]);
    kn_model_close(m);
    golden_close(&in);
    golden_close(&want);
    json_decref(c);
}

static void pictures_equal_the_reference_pipeline(void **state) {
    (void)state;
    static const char *const precisions[] = { "exact", "fast" };
    for (size_t i = 0; i < KN_COUNT(precisions); i++) {
        run_case("t2i", "tiny", precisions[i]);
        run_case("t2i-cfg", "tiny", precisions[i]);
        run_case("turbo", "tiny-turbo", precisions[i]);
        run_case("edit", "tiny", precisions[i]);
        run_case("turbo-edit", "tiny-turbo", precisions[i]);
        run_case("inpaint", "tiny", precisions[i]);
        run_case("t2i-gguf", "tiny-gguf", precisions[i]);
        run_case("t2i-int8", "tiny-int8", precisions[i]);
    }
}

/* The built-in model: recorded with the start noise that PyTorch draws from the seed. */
static void compare_demo_dump(void *ctx, const char *name, int rank, const int64_t *dim, const float *values) {
    struct comparison *c = ctx;
    static const char *const names[][2] = {
        { "text_embeddings", "prompt_embeds" },
        { "noise", "noise" },
        { "sigmas", "sigmas" },
        { "latents_final", "final_latents" },
    };
    size_t n = 1, count = 0;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    int step = 0;
    if (strcmp(name, "tokens") == 0) {
        const int32_t *ids = golden_ints(c->want, "input_ids", &count);
        assert_int_equal(n, count);
        for (size_t i = 0; i < n; i++)
            assert_int_equal((int32_t)values[i], ids[i]);
        c->compared++;
    } else if (sscanf(name, "latents_%d", &step) == 1) {
        const float *all = golden_floats(c->want, "latents", &count);
        assert_true((size_t)(step + 1) * n <= count);
        assert_true(golden_distance(all + (size_t)step * n, values, n) <= 1e-4);
        c->compared++;
    } else if (strcmp(name, "image") == 0) {
        const float *pixels = golden_floats(c->want, "pixels", &count); /* recorded in 0 … 1 */
        float *halved = malloc(n * sizeof *halved);
        assert_int_equal(n, count);
        for (size_t i = 0; i < n; i++)
            halved[i] = values[i] / 2 + 0.5f;
        assert_true(golden_distance(pixels, halved, n) <= 1e-4);
        free(halved);
        c->compared++;
    }
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        if (strcmp(name, names[i][0]) != 0)
            continue;
        golden_compare(c->want, names[i][1], values, n);
        c->compared++;
    }
}

static void run_demo_case(json_t *row, const char *precision) {
    bool exact = strcmp(precision, "exact") == 0, guided = json_number_value(json_object_get(row, "cfg")) > 1;
    const char *name = json_string_value(json_object_get(row, "name"));
    char path[256];
    print_message("  %s, %s\n", name, precision);
    snprintf(path, sizeof path, DEMO "/golden/%s.safetensors", name);
    golden want = golden_open(path);
    const kn_model_wish model_wish = { .config = SHIPPED "/demo.toml",
                                       .profile = guided ? "demo-free" : "demo-turbo",
                                       .precision = precision };
    kn_model *m = open_model(&model_wish);
    kn_wish wish = {
        .prompt = json_string_value(json_object_get(row, "prompt")),
        .negative_prompt = json_string_value(json_object_get(row, "negative")),
        .width = { true, 128 },
        .height = { true, 128 },
        .seed = (uint64_t)json_integer_value(json_object_get(row, "torch_seed")),
        .seed_given = true,
    };
    if (guided) {
        wish.cfg = (kn_optional){ true, json_number_value(json_object_get(row, "cfg")) };
        wish.sigmas = golden_floats(&want, "sigmas", &wish.sigma_count);
    }
    struct comparison comparison = { .want = &want };
    const kn_hooks hooks = { .dump = exact ? compare_demo_dump : NULL, .dump_ctx = &comparison };
    kn_image got = draw(m, &wish, &hooks, NULL);
    if (exact)
        assert_int_equal(comparison.compared, 6 + 8);
    snprintf(path, sizeof path, DEMO "/golden/%s.png", name);
    kn_image png = read_png(path);
    compare_pictures(&got, &png, exact ? 1 : 255, 40);
    kn_image_free(&got);
    kn_image_free(&png);
    kn_model_close(m);
    golden_close(&want);
}

static void the_built_in_model_draws_what_the_references_drew(void **state) {
    (void)state;
    json_error_t e;
    json_t *rows = json_load_file(DEMO "/golden/index.json", 0, &e), *row = NULL;
    size_t i;
    assert_non_null(rows);
    json_array_foreach(rows, i, row) {
        run_demo_case(row, "exact");
        run_demo_case(row, "fast");
    }
    assert_true(i >= 3);
    json_decref(rows);
}

static void exact_pixels_are_the_same_for_any_number_of_threads(void **state) {
    (void)state;
    kn_image first = { 0 };
    for (int threads = 1; threads <= 5; threads++) {
        const kn_model_wish model_wish = { .config = CONFIG, .precision = "exact", .threads = { true, threads } };
        kn_model *m = open_model(&model_wish);
        const kn_wish wish = { .prompt = "a red boat",
                               .seed = 7,
                               .seed_given = true,
                               .steps = { true, 3 },
                               .width = { true, 144 },
                               .height = { true, 80 } };
        const kn_hooks hooks = { 0 };
        kn_image picture = draw(m, &wish, &hooks, NULL);
        if (threads == 1) {
            first = picture;
        } else {
            assert_memory_equal(picture.pixels, first.pixels, (size_t)first.width * first.height * first.channels);
            kn_image_free(&picture);
        }
        kn_model_close(m);
    }
    kn_image_free(&first);
}

/* No state crosses calls: the same wish gives the same bytes after another one. */
static void a_kept_model_draws_the_same_again(void **state) {
    (void)state;
    const kn_model_wish model_wish = { .config = CONFIG, .residency = "cached" };
    kn_model *m = open_model(&model_wish);
    const kn_wish one = { .prompt = "a red boat",
                          .seed = 7,
                          .seed_given = true,
                          .steps = { true, 2 },
                          .width = { true, 64 },
                          .height = { true, 64 } };
    const kn_wish other = { .prompt = "a green hill",
                            .seed = 8,
                            .seed_given = true,
                            .steps = { true, 3 },
                            .width = { true, 96 },
                            .height = { true, 32 },
                            .cfg = { true, 3 } };
    const kn_hooks hooks = { 0 };
    kn_image a = draw(m, &one, &hooks, NULL), b = draw(m, &other, &hooks, NULL), c = draw(m, &one, &hooks, NULL);
    assert_memory_equal(a.pixels, c.pixels, (size_t)a.width * a.height * a.channels);
    kn_image_free(&a);
    kn_image_free(&b);
    kn_image_free(&c);
    kn_model_close(m);
}

static kn_image grey_picture(uint32_t width, uint32_t height) {
    kn_image p = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_new(width, height, 4, &p, &err));
    memset(p.pixels, 128, (size_t)width * height * 4);
    return p;
}

static bool make(const kn_model *m, const kn_wish *wish, kn_settings *ret, kn_error *err) {
    const kn_model_choice *c = &m->choice;
    return kn_settings_make(wish, &c->defaults, c->architecture, c->variant, ret, err);
}

static void the_size_is_that_of_the_given_picture(void **state) {
    (void)state;
    const kn_model_wish model_wish = { .config = CONFIG };
    kn_model *m = open_model(&model_wish);
    kn_image picture = grey_picture(203, 100);
    kn_settings s;
    kn_error err = { 0 };
    kn_wish wish = { .prompt = "x", .references = &picture, .reference_count = 1 };
    assert_true(make(m, &wish, &s, &err)); /* as the model sees it: about 1024 x 1024 */
    assert_int_equal(s.recipe.width, 1472);
    assert_int_equal(s.recipe.height, 704);
    wish.width = wish.height = (kn_optional){ true, 64 };
    assert_true(make(m, &wish, &s, &err));
    assert_int_equal(s.recipe.width, 64);
    wish = (kn_wish){ .prompt = "x", .init_image = &picture };
    assert_true(make(m, &wish, &s, &err)); /* its own */
    assert_int_equal(s.recipe.width, 192);
    assert_int_equal(s.recipe.height, 96);
    kn_image_free(&picture);
    kn_model_close(m);
}

static void strength_runs_the_last_steps_and_all_of_it_ignores_the_picture(void **state) {
    (void)state;
    const kn_model_wish model_wish = { .config = CONFIG };
    kn_model *m = open_model(&model_wish);
    kn_image picture = grey_picture(64, 64);
    kn_wish wish = { .prompt = "x",
                     .seed = 3,
                     .seed_given = true,
                     .steps = { true, 4 },
                     .width = { true, 64 },
                     .height = { true, 64 } };
    kn_settings whole, part;
    kn_error err = { 0 };
    const kn_hooks hooks = { 0 };
    assert_true(make(m, &wish, &whole, &err));
    kn_image plain = draw(m, &wish, &hooks, NULL);
    wish.init_image = &picture;
    wish.strength = (kn_optional){ true, 0.5 };
    assert_true(make(m, &wish, &part, &err));
    assert_int_equal(part.recipe.sigmas.steps, 2);
    assert_memory_equal(part.recipe.sigmas.at, whole.recipe.sigmas.at + 2, 3 * sizeof(float));
    kn_image half = draw(m, &wish, &hooks, NULL);
    assert_memory_not_equal(half.pixels, plain.pixels, (size_t)64 * 64 * 4);
    wish.strength.value = 1;
    kn_image all = draw(m, &wish, &hooks, NULL);
    assert_memory_equal(all.pixels, plain.pixels, (size_t)64 * 64 * 4);
    kn_image_free(&plain);
    kn_image_free(&half);
    kn_image_free(&all);
    kn_image_free(&picture);
    kn_model_close(m);
}

static void a_vision_encoder_may_have_a_file_of_its_own(void **state) {
    (void)state;
    static const char *const files[] = { NULL, KN_TEST_DATA "/qwen21-e2e/text_encoder.safetensors" };
    kn_image picture = grey_picture(64, 32), drawn[2];
    const kn_wish wish = { .prompt = "x",
                           .seed = 3,
                           .seed_given = true,
                           .steps = { true, 2 },
                           .references = &picture,
                           .reference_count = 1,
                           .reference_resolution = { true, 0 } };
    const kn_hooks hooks = { 0 };
    for (size_t i = 0; i < 2; i++) {
        const kn_model_wish model_wish = { .config = CONFIG, .vision = files[i] };
        kn_model *m = open_model(&model_wish);
        drawn[i] = draw(m, &wish, &hooks, NULL);
        kn_model_close(m);
    }
    assert_int_equal(drawn[0].width, 64);
    assert_int_equal(drawn[0].height, 32);
    assert_memory_equal(drawn[0].pixels, drawn[1].pixels, (size_t)64 * 32 * 4);
    kn_image_free(&picture);
    kn_image_free(&drawn[0]);
    kn_image_free(&drawn[1]);
}

/* Text alone still works: what is missing is told when a picture comes. */
static void a_model_that_cannot_see_says_why(void **state) {
    (void)state;
    static const struct {
        kn_model_wish wish;
        const char *says;
    } rows[] = {
        { { .profile = "demo" }, "its text encoder's file has no vision encoder in it; give one by --vision" },
        { { .config = CONFIG, .text_encoder = KN_TEST_DATA "/qwen3-vl/weights.safetensors" },
          "a config.json beside the file must tell its heads and deepstack layers" },
    };
    kn_image picture = grey_picture(64, 32);
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_model *m = open_model(&rows[i].wish);
        kn_wish wish = { .prompt = "x", .width = { true, 32 }, .height = { true, 32 } };
        const kn_hooks hooks = { 0 };
        kn_image drawn = draw(m, &wish, &hooks, NULL), none = { 0 };
        kn_image_free(&drawn);
        wish.references = &picture;
        wish.reference_count = 1;
        kn_settings s;
        kn_draw_report report;
        kn_error err = { 0 };
        assert_true(make(m, &wish, &s, &err));
        assert_false(kn_pipeline_draw(m->pipeline, &s.recipe, &hooks, &none, &report, &err));
        if (!strstr(err.text, rows[i].says))
            fail_msg("'%s' does not say '%s'", err.text, rows[i].says);
        assert_int_equal(kn_exit_code(err.code), 2);
        kn_model_close(m);
    }
    kn_image_free(&picture);
}

/* One picture, its stages told; compared with what a model that has drawn nothing yet makes of the same wish. */
static kn_draw_report drawn_as_if_alone(kn_model *m, const kn_model_wish *model_wish, const kn_wish *wish) {
    const kn_hooks hooks = { 0 };
    kn_draw_report report;
    kn_model *fresh = open_model(model_wish);
    kn_image here = draw(m, wish, &hooks, &report), alone = draw(fresh, wish, &hooks, NULL);
    assert_int_equal(here.width, alone.width);
    assert_int_equal(here.height, alone.height);
    assert_memory_equal(here.pixels, alone.pixels, (size_t)here.width * here.height * here.channels);
    kn_image_free(&here);
    kn_image_free(&alone);
    kn_model_close(fresh);
    return report;
}

static void encoders_run_again_only_for_what_is_new(void **state) {
    (void)state;
    static const char *const residencies[] = { "staged", "cached" };
    kn_image pictures[] = { grey_picture(64, 32), grey_picture(32, 64) };
    for (size_t i = 0; i < KN_COUNT(residencies); i++) {
        const kn_model_wish model_wish = { .config = CONFIG, .residency = residencies[i] };
        kn_model *m = open_model(&model_wish);
        kn_wish wish = { .prompt = "a red boat",
                         .negative_prompt = "fog",
                         .seed = 7,
                         .seed_given = true,
                         .steps = { true, 2 },
                         .width = { true, 64 },
                         .height = { true, 64 },
                         .cfg = { true, 3 },
                         .reference_resolution = { true, 0 } };
        kn_draw_report first = drawn_as_if_alone(m, &model_wish, &wish);
        assert_false(first.stage[KN_STAGE_ENCODE].reused);
        wish.seed = 8;
        kn_draw_report again = drawn_as_if_alone(m, &model_wish, &wish);
        assert_true(again.stage[KN_STAGE_ENCODE].reused);
        assert_string_equal(again.stage[KN_STAGE_ENCODE].name, "encode");
        assert_true(again.stage[KN_STAGE_ENCODE].weight_bytes == 0 && again.stage[KN_STAGE_ENCODE].seconds == 0);
        assert_false(again.stage[KN_STAGE_DIFFUSE].reused || again.stage[KN_STAGE_DECODE].reused);
        assert_int_equal(again.prompt_tokens, first.prompt_tokens);
        assert_null(again.stage[KN_STAGE_PICTURES].name);
        wish.negative_prompt = "a red boat";
        assert_true(drawn_as_if_alone(m, &model_wish, &wish).stage[KN_STAGE_ENCODE].reused);

        wish.references = pictures; /* seen, they are part of the prompt */
        wish.reference_count = 2;
        kn_draw_report seen = drawn_as_if_alone(m, &model_wish, &wish);
        assert_false(seen.stage[KN_STAGE_PICTURES].reused || seen.stage[KN_STAGE_SEE].reused ||
                     seen.stage[KN_STAGE_ENCODE].reused);
        seen = drawn_as_if_alone(m, &model_wish, &wish);
        assert_true(seen.stage[KN_STAGE_PICTURES].reused && seen.stage[KN_STAGE_SEE].reused &&
                    seen.stage[KN_STAGE_ENCODE].reused);
        wish.references = &pictures[1];
        wish.reference_count = 1;
        seen = drawn_as_if_alone(m, &model_wish, &wish);
        assert_true(seen.stage[KN_STAGE_PICTURES].reused);
        assert_false(seen.stage[KN_STAGE_SEE].reused || seen.stage[KN_STAGE_ENCODE].reused);
        wish.reference_count = 0;
        wish.init_image = &pictures[0];
        seen = drawn_as_if_alone(m, &model_wish, &wish);
        assert_false(seen.stage[KN_STAGE_PICTURES].reused);
        assert_true(seen.stage[KN_STAGE_ENCODE].reused);
        assert_true(drawn_as_if_alone(m, &model_wish, &wish).stage[KN_STAGE_PICTURES].reused);
        kn_model_close(m);
    }
    kn_image_free(&pictures[0]);
    kn_image_free(&pictures[1]);
}

static void the_parts_of_one_file_are_counted_apart(void **state) {
    (void)state;
    golden file = golden_open("qwen21-e2e/text_encoder.safetensors");
    kn_image picture = grey_picture(64, 32);
    kn_model *m = open_model(&(kn_model_wish){ .config = CONFIG });
    const kn_wish wish = { .prompt = "x", .steps = { true, 1 }, .references = &picture, .reference_count = 1 };
    kn_settings s;
    kn_error err = { 0 };
    kn_draw_report plan = { 0 };
    assert_true(make(m, &wish, &s, &err) && kn_plan_make(m, &s.recipe, NULL, &plan, &err));
    uint64_t see = plan.stage[KN_STAGE_SEE].weight_bytes, encode = plan.stage[KN_STAGE_ENCODE].weight_bytes;
    assert_true(see > 0 && encode > 0);
    const kn_entry *unused = golden_entry(&file, "model.norm.weight"); /* states come before it */
    assert_int_equal(see + encode, kn_weights_bytes(file.file) - unused->bytes);
    kn_image_free(&picture);
    kn_model_close(m);
    golden_close(&file);
}

static bool stop_after_first_step(void *ctx, const char *phase, int step, int steps) {
    (void)steps;
    int *calls = ctx;
    *calls += strcmp(phase, "step") == 0;
    return step < 1;
}

static void a_refusing_progress_call_stops_within_one_step(void **state) {
    (void)state;
    const kn_model_wish model_wish = { .config = CONFIG };
    kn_model *m = open_model(&model_wish);
    int calls = 0;
    const kn_hooks hooks = { .progress = stop_after_first_step, .progress_ctx = &calls };
    const kn_wish wish = { .prompt = "x", .width = { true, 64 }, .height = { true, 64 } };
    kn_settings settings;
    kn_image picture = { 0 };
    kn_draw_report report;
    kn_error err = { 0 };
    assert_true(
        kn_settings_make(&wish, &m->choice.defaults, m->choice.architecture, m->choice.variant, &settings, &err));
    assert_false(kn_pipeline_draw(m->pipeline, &settings.recipe, &hooks, &picture, &report, &err));
    assert_int_equal(err.code, KN_E_CANCELLED);
    assert_int_equal(calls, 1);
    assert_null(picture.pixels);
    kn_model_close(m);
}

static void refusals_say_what_is_wrong(void **state) {
    (void)state;
    static const kn_image speck = { .width = 1, .height = 1 }, strip = { .width = 20, .height = 1001 },
                          fine = { .width = 64, .height = 64 };
    static const struct {
        kn_wish wish;
        const char *text;
    } rows[] = {
        { { .prompt = "a", .references = &speck, .reference_count = 1 },
          "reference 1 is 1x1 pixels large; a side needs at least 2" },
        { { .prompt = "a", .references = &strip, .reference_count = 1 },
          "reference 1 is 20x1001 pixels large; one side may be at most 50 times the other" },
        { { .prompt = "a", .references = &fine, .reference_count = 11 },
          "11 reference pictures; Qwen-Image 2.1 takes at most 10" },
        { { .prompt = "a", .strength = { true, 0.5 } }, "a strength of 0.5 needs a picture to start from" },
        { { .prompt = "a", .init_image = &fine, .strength = { true, 0 } }, "a strength of 0 leaves no step to do" },
        { { .prompt = "a", .init_image = &fine, .strength = { true, 2 } }, "strength 2 is not between 0 and 1" },
        { { .prompt = "" }, "the prompt is empty" },
        { { .prompt = "a\xff" }, "prompt: byte 2 (0xff) is not UTF-8" },
        { { .prompt = "a", .width = { true, 500 } }, "width 500 is not a multiple of 16; the nearest allowed is 496" },
        { { .prompt = "a", .height = { true, 0 } }, "height 0: Qwen-Image 2.1 makes pictures from 16 to 4096 pixels" },
        { { .prompt = "a", .width = { true, 2147483647 } }, "width 2147483647: Qwen-Image 2.1" },
        { { .prompt = "a", .steps = { true, 0 } }, "steps 0 is outside 1 to 1000" },
        { { .prompt = "a", .cfg = { true, -1 } }, "cfg -1 is outside 0 to 100" },
        { { .prompt = "a", .sampler = "eulr" }, "unknown sampler 'eulr'; known: euler" },
        { { .prompt = "a", .scheduler = "fast" }, "unknown schedule" },
    };
    const kn_model_wish model_wish = { .config = CONFIG };
    kn_model *m = open_model(&model_wish);
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_settings settings;
        kn_error err = { 0 };
        assert_false(kn_settings_make(&rows[i].wish, &m->choice.defaults, m->choice.architecture, m->choice.variant,
                                      &settings, &err));
        if (!strstr(err.text, rows[i].text))
            fail_msg("'%s' does not say '%s'", err.text, rows[i].text);
        assert_int_equal(kn_exit_code(err.code), 2);
    }
    kn_model_close(m);
}

static void turbo_says_why_its_steps_are_fixed(void **state) {
    (void)state;
    const kn_model_wish model_wish = { .config = CONFIG, .profile = "tiny-turbo" };
    kn_model *m = open_model(&model_wish);
    const float own[] = { 1, 0.5f };
    const kn_wish wishes[] = { { .prompt = "a", .steps = { true, 20 } },
                               { .prompt = "a", .cfg = { true, 4 } },
                               { .prompt = "a", .scheduler = "simple" },
                               { .prompt = "a", .sigmas = own, .sigma_count = 2 } };
    for (size_t i = 0; i < KN_COUNT(wishes); i++) {
        kn_settings settings;
        kn_error err = { 0 };
        assert_false(kn_settings_make(&wishes[i], &m->choice.defaults, m->choice.architecture, m->choice.variant,
                                      &settings, &err));
        assert_non_null(strstr(err.text, "Turbo was distilled for exactly its own 8 steps"));
    }
    kn_model_close(m);
}

static void inspection_counts_the_quantised_layers_of_every_format(void **state) {
    (void)state;
    static const struct {
        const char *file, *kind;
        kn_dtype dtype;
        size_t layers;
    } rows[] = {
        { "qwen21-e2e/transformer.safetensors", "qwen-image-2.1", KN_BF16, 0 },
        { "qwen21-e2e/transformer.int8_convrot.safetensors", "qwen-image-2.1", KN_I8, 12 },
        { "qwen21-e2e/text_encoder.int8_convrot.safetensors", "qwen3-vl", KN_I8, 29 },
        { "qwen21-e2e/transformer-Q8_0.gguf", "qwen-image-2.1", KN_Q8_0, 16 },
        { "qwen21-e2e/text_encoder-Q8_0.gguf", "qwen3-vl", KN_Q8_0, 29 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", SHIPPED, rows[i].file);
        const kn_source source = { .path = path };
        kn_inspection found;
        kn_error err = { 0 };
        if (!kn_inspect_file(&source, NULL, &found, &err))
            fail_msg("%s: %s", rows[i].file, err.text);
        assert_string_equal(found.kind->id, rows[i].kind);
        assert_int_equal(found.quantised_layers, rows[i].layers);
        assert_int_equal(found.missing_scales, 0);
        assert_true(found.of_dtype[rows[i].dtype] >= rows[i].layers);
    }
}

static void files_in_the_wrong_slot_are_named(void **state) {
    (void)state;
    static const struct {
        kn_model_wish wish;
        const char *text;
    } rows[] = {
        { { .text_encoder = KN_TEST_DATA "/qwen21-e2e/vae.safetensors" },
          "text encoder: '" KN_TEST_DATA "/qwen21-e2e/vae.safetensors"
          "': the file is a Qwen-Image 2.1 VAE; a Qwen3-VL text encoder is needed here" },
        { { .vae = KN_TEST_DATA "/qwen21-e2e/transformer.safetensors" },
          "VAE: '" KN_TEST_DATA "/qwen21-e2e/transformer.safetensors"
          "': the file is a Qwen-Image 2.1 diffusion model; a Qwen-Image 2.1 VAE is needed here" },
        { { .diffusion_model = KN_TEST_DATA "/qwen21-e2e/t2i/inputs.safetensors" },
          "diffusion model: '" KN_TEST_DATA "/qwen21-e2e/t2i/inputs.safetensors"
          "': the file is not a Qwen-Image 2.1 diffusion model" },
        { { .vae = "/nonexistent/vae.safetensors" }, "VAE: '/nonexistent/vae.safetensors': no such file" },
        { { .vae = SHIPPED "/unicode" }, "VAE: '" SHIPPED "/unicode': the folder holds no safetensors or GGUF file" },
        { { .text_encoder = KN_TEST_DATA "/text-encoder/qwen3vl/model.safetensors" }, "do not belong together" },
        { { .device = "tpu" }, "unknown device 'tpu'; known: cpu" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_model_wish wish = rows[i].wish;
        wish.config = CONFIG;
        kn_model *m = NULL;
        kn_error err = { 0 };
        assert_false(kn_model_open(&wish, &m, &err));
        if (!strstr(err.text, rows[i].text))
            fail_msg("'%s' does not say '%s'", err.text, rows[i].text);
        assert_int_equal(kn_exit_code(err.code), 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_equal_the_reference_pipeline),
        cmocka_unit_test(the_built_in_model_draws_what_the_references_drew),
        cmocka_unit_test(exact_pixels_are_the_same_for_any_number_of_threads),
        cmocka_unit_test(a_kept_model_draws_the_same_again),
        cmocka_unit_test(the_size_is_that_of_the_given_picture),
        cmocka_unit_test(strength_runs_the_last_steps_and_all_of_it_ignores_the_picture),
        cmocka_unit_test(a_vision_encoder_may_have_a_file_of_its_own),
        cmocka_unit_test(a_model_that_cannot_see_says_why),
        cmocka_unit_test(encoders_run_again_only_for_what_is_new),
        cmocka_unit_test(the_parts_of_one_file_are_counted_apart),
        cmocka_unit_test(a_refusing_progress_call_stops_within_one_step),
        cmocka_unit_test(refusals_say_what_is_wrong),
        cmocka_unit_test(turbo_says_why_its_steps_are_fixed),
        cmocka_unit_test(inspection_counts_the_quantised_layers_of_every_format),
        cmocka_unit_test(files_in_the_wrong_slot_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
