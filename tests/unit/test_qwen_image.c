/* Qwen-Image up to 2512 and its parts against the recorded outputs of the reference implementations, in exact
 * precision: the network by itself, then whole pictures; and which files it takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_maker.h"
#include "golden_run.h"
#include "models/qwen_image.h"
#include "pipelines/conditions.h"
#include "pipelines/inspect.h"
#include "safetensors_maker.h"
#include "weights/container.h"

#define CONFIG KN_TEST_DATA "/qwen2512/e2e/models.toml"

/* Diffusion transformer. */

static void take_transformer(void *network, kn_binder *b) {
    kn_qwen_image_load(network, b);
}

static golden open_case_file(const char *folder, const char *file) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return golden_open(path);
}

static int grid(json_t *c, size_t picture, size_t axis) {
    return (int)json_integer_value(json_array_get(json_array_get(json_object_get(c, "grids"), picture), axis));
}

/* grids: the picture that is drawn, then what the prompt is about. */
static void run_dit_case(const char *folder, const kn_qwen_image *m) {
    static const char *const first_parts[] = { "norm_out", NULL }; /* only the drawn picture's rows are needed */
    char path[256];
    print_message("  %s\n", folder);
    snprintf(path, sizeof path, "%s/case.json", folder);
    json_t *c = golden_json(path);
    golden in = open_case_file(folder, "inputs.safetensors"), want = open_case_file(folder, "expected.safetensors");
    struct watcher watch = { .want = &want, .front = "", .first_parts = first_parts };
    kn_run r = open_run(&watch);

    kn_qwen_image_picture pictures[2] = { 0 };
    size_t count = json_array_size(json_object_get(c, "grids")), n = 0;
    assert_true(count <= KN_COUNT(pictures));
    for (size_t i = 0; i < count; i++) {
        char name[32];
        int h = grid(c, i, 0), w = grid(c, i, 1);
        snprintf(name, sizeof name, "tokens%zu", i);
        const float *patches = golden_floats(&in, name, &n);
        assert_int_equal(n, h * w * m->patch_width);
        pictures[i] =
            (kn_qwen_image_picture){ kn_upload(&r, 2, (int64_t[]){ h * w, m->patch_width }, patches), .h = h, .w = w };
    }
    const float *text = golden_floats(&in, "encoder_hidden_states", &n);
    kn_tensor words = kn_upload(&r, 2, (int64_t[]){ (int64_t)n / m->text_width, m->text_width }, text);
    words = kn_qwen_image_read_text(&r, m, words);
    kn_tensor v = kn_qwen_image_velocity(&r, m, words, pictures, (int)count, (float)golden_number(c, "timestep"));
    assert_int_equal(kn_elements(v), golden_entry(&want, "output")->elements);
    assert_int_equal(watch.compared, kn_weights_count(want.file)); /* every recorded tensor */
    close_run(&r);
    golden_close(&in);
    golden_close(&want);
    json_decref(c);
}

static void transformer_equals_the_reference(void **state) {
    (void)state;
    static const char *const cases[] = { "qwen2512/dit/t2i", "qwen2512/dit/t2i-odd", "qwen2512/dit/edit" };
    static kn_qwen_image m;
    bound b = bind_file("qwen2512/dit/weights.safetensors", "", take_transformer, &m);
    for (size_t i = 0; i < KN_COUNT(cases); i++)
        run_dit_case(cases[i], &m);
    unbind(&b);
}

/* Noise levels. */

/* Names are KIND_NUMBER_STEPS. */
static void noise_levels_equal_the_recorded_schedules(void **state) {
    (void)state;
    golden g = golden_open("qwen2512/schedules/expected.safetensors");
    for (size_t i = 0; i < kn_weights_count(g.file); i++) {
        const char *name = kn_weights_at(g.file, i)->name;
        kn_sigma_request q = { .flow = &kn_flows[KN_FLOW_QWEN_IMAGE_2512], .schedule = KN_SCHEDULE_SIMPLE };
        kn_sigmas got;
        kn_error err = { 0 };
        size_t count = 0;
        const float *want = golden_floats(&g, name, &count);
        unsigned tokens = 0;
        double shift = 0;
        q.steps = count - 1;
        if (sscanf(name, "dynamic_%u_", &tokens) == 1) {
            q.schedule = KN_SCHEDULE_OFFICIAL;
            q.image_tokens = tokens;
        } else if (sscanf(name, "simple_%lf_", &shift) == 1) {
            q.flow_shift = (kn_optional){ true, shift };
        } else {
            assert_int_equal(strncmp(name, "default2512_", 12), 0);
        }
        if (!kn_sigmas_make(&q, &got, &err))
            fail_msg("%s: %s", name, err.text);
        assert_int_equal(got.steps, count - 1);
        for (size_t k = 0; k < count; k++)
            assert_float_equal(got.at[k], want[k], 1e-6);
    }
    golden_close(&g);
}

/* Whole pictures. */

struct comparison {
    const golden *in, *want;
    int compared;
};

static void compare_ids(const golden *want, const char *name, const float *values, size_t n) {
    size_t count = 0;
    const int32_t *ids = golden_ints(want, name, &count);
    assert_int_equal(n, count);
    for (size_t i = 0; i < n; i++)
        assert_int_equal((int32_t)values[i], ids[i]);
}

static void compare_dump(void *ctx, const char *name, int rank, const int64_t *dim, const float *values) {
    struct comparison *c = ctx;
    size_t n = 1;
    int step = 0;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    c->compared++;
    if (sscanf(name, "latents_%d", &step) == 1) {
        char full[64];
        snprintf(full, sizeof full, "step%d.latents", step);
        golden_compare(c->want, full, values, n);
    } else if (strcmp(name, "tokens") == 0) {
        compare_ids(c->want, "positive.input_ids", values, n);
    } else if (strcmp(name, "negative_tokens") == 0) {
        compare_ids(c->want, "negative.input_ids", values, n);
    } else if (strcmp(name, "text_embeddings") == 0) {
        golden_compare(c->want, "positive.embeddings", values, n);
    } else if (strcmp(name, "negative_text_embeddings") == 0) {
        golden_compare(c->want, "negative.embeddings", values, n);
    } else if (strncmp(name, "reference", 9) == 0 || strcmp(name, "encoded") == 0) {
        golden_compare(c->want, name, values, n);
    } else if (strcmp(name, "sigmas") == 0) {
        golden_compare(c->want, "sigmas", values, n);
    } else if (strcmp(name, "noise") == 0) {
        golden_compare(c->in, "noise", values, n); /* from the seed */
    } else {
        c->compared--;
    }
}

static void run_case(const char *folder, const char *profile, const char *precision) {
    bool exact = strcmp(precision, "exact") == 0;
    char path[256];
    print_message("  %s, %s\n", folder, precision);
    snprintf(path, sizeof path, "%s/case.json", folder);
    json_t *c = golden_json(path);
    golden in = open_case_file(folder, "inputs.safetensors"), want = open_case_file(folder, "expected.safetensors");
    kn_model *m = open_model(&(kn_model_wish){ .config = CONFIG, .profile = profile, .precision = precision });
    assert_true(m->choice.variant->rescaled_guidance == json_is_true(json_object_get(c, "cfg_rescale")));
    kn_wish wish = { .prompt = golden_text(c, "prompt"),
                     .negative_prompt = golden_text(c, "negative_prompt"),
                     .width = { true, golden_number(c, "width") },
                     .height = { true, golden_number(c, "height") },
                     .steps = { true, golden_number(c, "steps") },
                     .cfg = { true, golden_number(c, "cfg") },
                     .seed = golden_size(c, "seed"),
                     .seed_given = true };
    if (json_is_number(json_object_get(c, "flow_shift"))) {
        wish.scheduler = golden_text(c, "schedule");
        wish.shift.flow_shift = (kn_optional){ true, golden_number(c, "flow_shift") };
    }
    kn_image references[KN_MAX_REFERENCES] = { { 0 } };
    wish.references = references;
    wish.reference_count = (int)golden_size(c, "references");
    for (int i = 0; i < wish.reference_count; i++) {
        snprintf(path, sizeof path, "%s/reference%d.png", folder, i);
        references[i] = read_png(path);
        wish.reference_resolution = (kn_optional){ true, golden_number(c, "reference_resolution") };
    }
    kn_image start[2] = { { 0 } };
    read_start(folder, c, &wish, start);
    struct comparison comparison = { .in = &in, .want = &want };
    const kn_hooks hooks = { .dump = exact ? compare_dump : NULL, .dump_ctx = &comparison };
    kn_image got = draw(m, &wish, &hooks, NULL);
    assert_int_equal(comparison.compared, exact ? kn_weights_count(want.file) + kn_weights_count(in.file) : 0);
    snprintf(path, sizeof path, "%s/image.png", folder);
    kn_image png = read_png(path);
    compare_pictures(&got, &png, exact ? 1 : 255, 40);
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

static void pictures_equal_the_reference_pipelines(void **state) {
    (void)state;
    static const char *const precisions[] = { "exact", "fast" };
    for (size_t i = 0; i < KN_COUNT(precisions); i++) {
        run_case("qwen2512/e2e/t2i-simple", "tiny", precisions[i]);
        run_case("qwen2512/e2e/t2i-dynamic", "tiny-rescaled", precisions[i]);
        run_case("qwen2512/e2e/edit", "tiny-edit", precisions[i]);
        run_case("qwen2512/e2e/inpaint", "tiny-rescaled", precisions[i]);
    }
}

static void variants_have_the_published_defaults(void **state) {
    (void)state;
    static const struct {
        const char *profile;
        int side;
        size_t steps;
        bool rescaled;
    } rows[] = { { "tiny", 1328, 50, false }, { "tiny-rescaled", 1328, 50, true }, { "tiny-edit", 1024, 40, true } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_model *m = open_model(&(kn_model_wish){ .config = CONFIG, .profile = rows[i].profile });
        const kn_model_choice *c = &m->choice;
        const kn_wish wish = { .prompt = "x", .seed_given = true };
        kn_settings s;
        kn_error err = { 0 };
        assert_true(kn_settings_make(&wish, &c->defaults, c->architecture, c->variant, &s, &err));
        assert_int_equal(s.recipe.width, rows[i].side);
        assert_int_equal(s.recipe.height, rows[i].side);
        assert_int_equal(s.recipe.sigmas.steps, rows[i].steps);
        assert_float_equal(s.recipe.cfg, 4, 0);
        assert_float_equal(s.recipe.sigmas.at[rows[i].steps - 1], 0.02, 1e-6);
        KN_AUTO_BUF text;
        kn_buf_init(&text, 1 << 16);
        assert_true(kn_settings_describe(&s, "tiny", &text, &err));
        assert_true((strstr(text.data, "Guidance: rescaled") != NULL) == rows[i].rescaled);
        kn_model_close(m);
    }
}

static const kn_wish small = { .prompt = "a red boat",
                               .seed = 7,
                               .seed_given = true,
                               .steps = { true, 2 },
                               .cfg = { true, 1 },
                               .width = { true, 64 },
                               .height = { true, 48 } };

static kn_error refusal_of_references(const kn_model_wish *model_wish, int count) {
    static const kn_image grey = { .width = 64, .height = 64, .channels = 4 };
    kn_image references[KN_MAX_REFERENCES];
    kn_model *m = open_model(model_wish);
    const kn_model_choice *c = &m->choice;
    for (int i = 0; i < count; i++)
        references[i] = grey;
    const kn_wish wish = { .prompt = "x", .references = references, .reference_count = count };
    kn_settings s;
    kn_error err = { 0 };
    assert_false(kn_settings_make(&wish, &c->defaults, c->architecture, c->variant, &s, &err));
    assert_int_equal(kn_exit_code(err.code), 2);
    kn_model_close(m);
    return err;
}

static void pictures_are_edited_by_the_variant_that_was_trained_for_it(void **state) {
    (void)state;
    const kn_model_wish plain = { .config = CONFIG, .profile = "tiny" },
                        edit = { .config = CONFIG, .profile = "tiny-edit" };
    assert_string_equal(refusal_of_references(&plain, 1).text,
                        "Qwen-Image takes reference pictures in its variant 'edit'; this profile's is 'base'");
    assert_string_equal(refusal_of_references(&edit, 4).text, "4 reference pictures; Qwen-Image takes at most 3");
}

static void strength_runs_all_steps_at_the_end_of_a_longer_schedule(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = CONFIG, .residency = "cached" });
    const kn_model_choice *c = &m->choice;
    const kn_hooks hooks = { 0 };
    kn_image start = read_png("qwen2512/e2e/t2i-simple/image.png");
    kn_settings longer, part;
    kn_error err = { 0 };
    kn_wish wish = small;
    wish.steps.value = 10; /* 4 / 0.4 */
    assert_true(kn_settings_make(&wish, &c->defaults, c->architecture, c->variant, &longer, &err));
    wish.steps.value = 4;
    wish.init_image = &start;
    wish.strength = (kn_optional){ true, 0.4 };
    assert_true(kn_settings_make(&wish, &c->defaults, c->architecture, c->variant, &part, &err));
    assert_int_equal(part.recipe.sigmas.steps, 4);
    assert_memory_equal(part.recipe.sigmas.at, longer.recipe.sigmas.at + 6, 5 * sizeof(float));

    wish = small;
    kn_image plain = draw(m, &wish, &hooks, NULL);
    wish.init_image = &start;
    wish.strength = (kn_optional){ true, 1 }; /* nothing of the picture is left */
    kn_image whole = draw(m, &wish, &hooks, NULL);
    assert_memory_equal(whole.pixels, plain.pixels, (size_t)64 * 48 * 3);
    wish.strength.value = 0.5;
    kn_image half = draw(m, &wish, &hooks, NULL);
    assert_memory_not_equal(half.pixels, plain.pixels, (size_t)64 * 48 * 3);
    kn_image_free(&start);
    kn_image_free(&plain);
    kn_image_free(&whole);
    kn_image_free(&half);
    kn_model_close(m);
}

/* What a prompt became. */
struct seen {
    int64_t tokens, rows, negative_tokens;
};

static void see(void *ctx, const char *name, int rank, const int64_t *dim, const float *values) {
    struct seen *s = ctx;
    (void)rank;
    (void)values;
    if (strcmp(name, "tokens") == 0)
        s->tokens = dim[0];
    if (strcmp(name, "text_embeddings") == 0)
        s->rows = dim[0];
    if (strcmp(name, "negative_tokens") == 0)
        s->negative_tokens = dim[0];
}

static struct seen look(kn_model *m, const kn_wish *wish, kn_draw_report *report) {
    struct seen s = { 0 };
    const kn_hooks hooks = { .dump = see, .dump_ctx = &s };
    kn_image picture = draw(m, wish, &hooks, report);
    kn_image_free(&picture);
    return s;
}

static void a_prompt_is_cut_at_1024_tokens_and_the_rest_is_counted(void **state) {
    (void)state;
    enum { LETTERS = 1100 };
    json_t *c = golden_json("qwen2512/e2e/t2i-simple/case.json");
    int64_t system_turn = (int64_t)golden_size(c, "drop_tokens");
    json_decref(c);
    kn_model *m = open_model(&(kn_model_wish){ .config = CONFIG, .residency = "cached" });
    char text[LETTERS + 1] = "";
    memset(text, 'Q', LETTERS); /* one token each */
    kn_draw_report report;
    kn_wish wish = small;
    wish.steps.value = 1;
    wish.prompt = "Q";
    struct seen short_one = look(m, &wish, &report);
    assert_int_equal(short_one.tokens - short_one.rows, system_turn);
    assert_int_equal(short_one.negative_tokens, 0); /* without guidance nobody reads it */
    assert_int_equal(report.prompt_tokens, short_one.tokens);
    assert_int_equal(report.dropped_tokens, 0);
    int end = (int)short_one.rows - 1; /* of the template */
    wish.prompt = text;
    struct seen long_one = look(m, &wish, &report);
    assert_int_equal(long_one.rows, 1024);
    assert_int_equal(long_one.tokens, system_turn + 1024);
    assert_int_equal(report.dropped_tokens, LETTERS + end - 1024);
    wish.prompt = "x";
    wish.negative_prompt = text;
    wish.cfg.value = 2;
    assert_int_equal(look(m, &wish, &report).negative_tokens, system_turn + 1024);
    assert_int_equal(report.dropped_tokens, 0);
    assert_int_equal(report.dropped_negative_tokens, LETTERS + end - 1024);
    kn_model_close(m);
}

static void control_tokens_of_a_prompt_are_text(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = CONFIG, .residency = "cached" });
    kn_wish wish = small;
    wish.steps.value = 1;
    wish.prompt = "Q";
    int64_t one_token = look(m, &wish, NULL).rows;
    wish.prompt = "<|im_start|>";
    assert_true(look(m, &wish, NULL).rows > one_token);
    kn_model_close(m);
}

/* Files. */

/* All tensors of a file below data, each behind a prefix. name, unless NULL: one that is called otherwise, or left out.
 */
static void add_all(maker *made, const char *path_below_data, const char *prefix, const char *name,
                    const char *instead) {
    golden from = golden_open(path_below_data);
    for (size_t i = 0; i < kn_weights_count(from.file); i++) {
        const kn_entry *e = kn_weights_at(from.file, i);
        const char *as = name && strcmp(e->name, name) == 0 ? instead : e->name;
        char full[160];
        snprintf(full, sizeof full, "%s%s", prefix, as ? as : "");
        if (as)
            make_tensor(made, full, kn_dtype_of(e->dtype)->name, kn_shape_of_entry(e).text, e->data, e->bytes);
    }
    golden_close(&from);
}

struct folder {
    char path[32];
};

static golden_file path_in(const struct folder *f, const char *name) {
    golden_file p;
    snprintf(p.path, sizeof p.path, "%s/%s", f->path, name);
    return p;
}

static void write_file(const struct folder *f, const char *name, const kn_buf *content) {
    FILE *to = fopen(path_in(f, name).path, "w");
    assert_non_null(to);
    assert_int_equal(fwrite(content->data, 1, content->len, to), content->len);
    assert_int_equal(fclose(to), 0);
}

static void one_file_of_everything_draws_the_same(void **state) {
    (void)state;
    static const char profile[] = "default_model = \"one\"\n[model_profiles.one]\narchitecture = \"qwen-image\"\n"
                                  "variant = \"base\"\ncheckpoint = \"all.safetensors\"\n"
                                  "tokenizer = \"" KN_TEST_DATA "/qwen21-e2e/tokenizer.json\"\n";
    struct folder f = { "/tmp/kuno-test-XXXXXX" };
    assert_non_null(mkdtemp(f.path));
    maker made;
    KN_AUTO_BUF file;
    KN_AUTO_BUF config;
    KN_AUTO_BUF toml;
    make_begin(&made);
    add_all(&made, "qwen2512/e2e/transformer.safetensors", "", NULL, NULL);
    add_all(&made, "qwen2512/e2e/text_encoder.safetensors", "text_encoders.qwen25_7b.transformer.", NULL, NULL);
    add_all(&made, "qwen2512/e2e/vae.safetensors", "vae.", NULL, NULL);
    make_end(&made, &file);
    golden_read("qwen2512/e2e/config.json", &config);
    kn_buf_init(&toml, sizeof profile);
    assert_true(kn_buf_add_text(&toml, profile));
    write_file(&f, "all.safetensors", &file);
    write_file(&f, "config.json", &config);
    write_file(&f, "models.toml", &toml);

    const kn_hooks hooks = { 0 };
    const golden_file one = path_in(&f, "models.toml");
    kn_model *parts = open_model(&(kn_model_wish){ .config = CONFIG });
    kn_model *all = open_model(&(kn_model_wish){ .config = one.path });
    kn_image want = draw(parts, &small, &hooks, NULL), got = draw(all, &small, &hooks, NULL);
    assert_memory_equal(got.pixels, want.pixels, (size_t)64 * 48 * 3);
    kn_image_free(&want);
    kn_image_free(&got);
    kn_model_close(parts);
    kn_model_close(all);
    assert_int_equal(unlink(path_in(&f, "all.safetensors").path), 0);
    assert_int_equal(unlink(path_in(&f, "config.json").path), 0);
    assert_int_equal(unlink(one.path), 0);
    assert_int_equal(rmdir(f.path), 0);
}

/* The tiny transformer, changed as add_all says, with one tensor more. */
static void make_changed(const char *prefix, const char *name, const char *instead, const char *extra, kn_buf *file) {
    maker made;
    make_begin(&made);
    add_all(&made, "qwen2512/dit/weights.safetensors", prefix, name, instead);
    if (extra)
        make_zeros(&made, extra, "F32", "1", 4);
    make_end(&made, file);
}

static void files_of_full_size_are_accounted_for_by_their_header(void **state) {
    (void)state;
    const kn_architecture *a = kn_architecture_find("qwen-image");
    assert_full_size_fits("manifests/qwen_image_fp8.json", a->diffusion_model, 1933); /* without scales */
    assert_full_size_fits("manifests/qwen_image_vae.json", a->vae, 194);
    assert_full_size_fits("manifests/qwen_image_vae_diffusers.json", a->vae, 194);
}

static void names_may_stand_behind_either_prefix_or_none(void **state) {
    (void)state;
    static const char *const prefixes[] = { "", "model.diffusion_model.", "diffusion_model." };
    for (size_t i = 0; i < KN_COUNT(prefixes); i++) {
        KN_AUTO_BUF file;
        make_changed(prefixes[i], NULL, NULL, NULL, &file);
        const kn_source source = { .data = (const uint8_t *)file.data, .len = file.len };
        kn_inspection found = { 0 };
        kn_error err = { 0 };
        if (!kn_inspect_fit(kn_architecture_find("qwen-image")->diffusion_model, &source, &err) ||
            !kn_inspect_file(&source, NULL, &found, &err))
            fail_msg("%s", err.text);
        assert_string_equal(found.kind ? found.kind->id : "none", "qwen-image");
        assert_string_equal(found.prefix, prefixes[i]);
    }
}

static void a_gguf_file_has_the_same_names(void **state) {
    (void)state;
    enum { F16 = 1 };
    golden from = golden_open(SHIPPED "/qwen2512/dit/weights.safetensors");
    gguf_maker made;
    KN_AUTO_BUF file;
    gguf_begin(&made, kn_weights_count(from.file), 1);
    gguf_pair_text(&made, "general.architecture", "qwen_image");
    for (size_t i = 0; i < kn_weights_count(from.file); i++) {
        const kn_entry *e = kn_weights_at(from.file, i);
        gguf_tensor(&made, e->name, F16, e->dim[e->rank - 1], e->rank > 1 ? e->dim[0] : 0, e->bytes);
    }
    gguf_end(&made, &file);
    golden_close(&from);
    const kn_source source = { .data = (const uint8_t *)file.data, .len = file.len };
    kn_error err = { 0 };
    if (!kn_inspect_fit(kn_architecture_find("qwen-image")->diffusion_model, &source, &err))
        fail_msg("%s", err.text);
}

static void keys_that_are_missing_or_unknown_are_named(void **state) {
    (void)state;
    static const struct {
        const char *name, *instead, *extra, *text;
    } rows[] = {
        { "transformer_blocks.1.attn.add_k_proj.weight", NULL, NULL,
          "missing 'transformer_blocks.1.attn.add_k_proj.weight'" },
        { "proj_out.bias", NULL, NULL, "missing 'proj_out.bias'" },
        { "transformer_blocks.1.txt_mlp.net.2.bias", NULL, NULL, "missing 'transformer_blocks.1.txt_mlp.net.2.bias'" },
        { NULL, NULL, "addition_t_embedding.weight", "not used by this model 'addition_t_embedding.weight'" },
        { NULL, NULL, "__index_timestep_zero__", "marks Qwen-Image-Edit 2511, which is not supported" },
        { "txt_norm.weight", "txt_norm.scale", NULL, "is not a Qwen-Image (2512 or earlier) diffusion model" },
    };
    const kn_slot *slot = kn_architecture_find("qwen-image")->diffusion_model;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF file;
        make_changed("", rows[i].name, rows[i].instead, rows[i].extra, &file);
        const kn_source source = { .data = (const uint8_t *)file.data, .len = file.len };
        kn_error err = { 0 };
        assert_false(kn_inspect_fit(slot, &source, &err));
        if (!strstr(err.text, rows[i].text))
            fail_msg("'%s' does not say '%s'", err.text, rows[i].text);
    }
}

static void files_that_do_not_belong_together_are_refused(void **state) {
    (void)state;
    static const struct {
        kn_model_wish wish;
        const char *text;
    } rows[] = {
        { { .diffusion_model = SHIPPED "/qwen2512/dit/weights.safetensors" },
          "text encoder: its width is 96, the diffusion model wants 80; they do not belong together" },
        { { .diffusion_model = SHIPPED "/qwen21-e2e/transformer.safetensors" },
          "the file is a Qwen-Image 2.1 diffusion model; a Qwen-Image (2512 or earlier) diffusion model is needed "
          "here" },
        { { .text_encoder = SHIPPED "/qwen21-e2e/text_encoder.safetensors" },
          "the file is a Qwen3-VL text encoder; a Qwen2.5-VL text encoder is needed here" },
        { { .vae = SHIPPED "/qwen21-e2e/vae.safetensors" },
          "the file is a Qwen-Image 2.1 VAE; a Qwen-Image or Wan 2.1 VAE is needed here" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_model_wish wish = rows[i].wish;
        wish.config = SHIPPED "/qwen2512/e2e/models.toml";
        kn_model *m = NULL;
        kn_error err = { 0 };
        assert_false(kn_model_open(&wish, &m, &err));
        if (!strstr(err.text, rows[i].text))
            fail_msg("'%s' does not say '%s'", err.text, rows[i].text);
    }
}

/* Where the processor has products of bfloat16. */
static void fast_precision_stays_within_its_error(void **state) {
    compute_fast(true);
    transformer_equals_the_reference(state);
    compute_fast(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transformer_equals_the_reference),
        cmocka_unit_test(fast_precision_stays_within_its_error),
        cmocka_unit_test(noise_levels_equal_the_recorded_schedules),
        cmocka_unit_test(pictures_equal_the_reference_pipelines),
        cmocka_unit_test(variants_have_the_published_defaults),
        cmocka_unit_test(pictures_are_edited_by_the_variant_that_was_trained_for_it),
        cmocka_unit_test(strength_runs_all_steps_at_the_end_of_a_longer_schedule),
        cmocka_unit_test(a_prompt_is_cut_at_1024_tokens_and_the_rest_is_counted),
        cmocka_unit_test(control_tokens_of_a_prompt_are_text),
        cmocka_unit_test(one_file_of_everything_draws_the_same),
        cmocka_unit_test(files_of_full_size_are_accounted_for_by_their_header),
        cmocka_unit_test(names_may_stand_behind_either_prefix_or_none),
        cmocka_unit_test(a_gguf_file_has_the_same_names),
        cmocka_unit_test(keys_that_are_missing_or_unknown_are_named),
        cmocka_unit_test(files_that_do_not_belong_together_are_refused),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
