/* Krea 2 and its parts against the recorded outputs of the reference implementations, in exact precision: each network
 * by itself, then whole pictures; and which files the networks take. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_maker.h"
#include "golden_run.h"
#include "models/krea2.h"
#include "models/vae_wan.h"
#include "pipelines/inspect.h"
#include "pipelines/krea2.h"
#include "pipelines/vaes.h"
#include "safetensors_maker.h"

#define CONFIG KN_TEST_DATA "/krea2/models.toml"

/* Diffusion transformer. */

static void take_transformer(void *network, kn_binder *b) {
    kn_krea2_load(network, b);
}

/* Patches of 2 x 2, a channel's four cells together: what the pipeline does with a latent. */
static void copy_patches(float *planes, float *rows, int channels, int h, int w, bool to_rows) {
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < 2 * h; y++)
            for (int x = 0; x < 2 * w; x++) {
                float *plane = &planes[(c * 2 * h + y) * 2 * w + x];
                float *row = &rows[(((y / 2) * w + x / 2) * channels + c) * 4 + y % 2 * 2 + x % 2];
                *(to_rows ? row : plane) = *(to_rows ? plane : row);
            }
}

/* The reference shows queries and keys before they are turned, the network after. */
static void compare_turned(const golden *g, const char *front, const char *name, const float *got, size_t n) {
    char full[64];
    snprintf(full, sizeof full, "%sblock0.%cnorm", front, name[strlen("block0.")]);
    const kn_entry *e = golden_entry(g, full); /* [rows, heads, head] */
    size_t heads = e->dim[1], half = e->dim[2] / 2;
    assert_int_equal(e->elements, n);
    float *want = malloc(sizeof(float) * n);
    memcpy(want, golden_floats(g, full, NULL), sizeof(float) * n);
    char angles[2][32];
    snprintf(angles[0], sizeof angles[0], "%srope_cos", front);
    snprintf(angles[1], sizeof angles[1], "%srope_sin", front);
    const float *cos = golden_floats(g, angles[0], NULL), *sin = golden_floats(g, angles[1], NULL);
    for (size_t i = 0; i < n; i += 2) {
        size_t angle = i / (2 * half * heads) * half + i / 2 % half;
        float a = want[i] * cos[angle] - want[i + 1] * sin[angle];
        want[i + 1] = want[i] * sin[angle] + want[i + 1] * cos[angle];
        want[i] = a;
    }
    compare_values(full, got, want, n, golden_allowed());
    free(want);
}

/* What was recorded of a pass between text, latent and time and the velocity. */
static int count_intermediates(const golden *g, const char *front) {
    int count = -4;
    for (size_t i = 0; i < kn_weights_count(g->file); i++)
        count += strncmp(kn_weights_at(g->file, i)->name, front, strlen(front)) == 0;
    return count;
}

struct forward {
    const golden *want;
    char front[16];
    int seen;
};

static void compare_seen(void *ctx, kn_run *r, const char *name, kn_tensor t) {
    struct forward *f = ctx;
    char full[64];
    snprintf(full, sizeof full, "%s%s", f->front, name);
    size_t n = (size_t)kn_elements(t);
    float *got = malloc(sizeof(float) * n);
    kn_download(r, t, got);
    if (golden_has(f->want, full))
        golden_compare(f->want, full, got, n);
    else if (strcmp(name, "block0.q") == 0 || strcmp(name, "block0.k") == 0)
        compare_turned(f->want, f->front, name, got, n);
    else
        f->seen--;
    f->seen++;
    free(got);
}

static void run_forward(const kn_krea2 *m, const golden *g, int i) {
    struct forward f = { .want = g };
    char name[32];
    snprintf(f.front, sizeof f.front, "%d.", i);
    kn_run r = open_run(NULL);
    r.watch = compare_seen;
    r.watch_ctx = &f;

    snprintf(name, sizeof name, "%d.text", i);
    const kn_entry *e = golden_entry(g, name); /* [n, taps, width] */
    assert_int_equal(e->dim[1], m->taps);
    kn_tensor states = kn_upload(&r, 2, (int64_t[]){ (int64_t)e->dim[0], (int64_t)(e->dim[1] * e->dim[2]) },
                                 golden_floats(g, name, NULL));
    kn_tensor text = kn_krea2_fuse_text(&r, m, states);

    snprintf(name, sizeof name, "%d.latent", i);
    e = golden_entry(g, name);
    int channels = (int)e->dim[0], h = (int)e->dim[1] / 2, w = (int)e->dim[2] / 2;
    float *planes = malloc(sizeof(float) * e->elements), *rows = malloc(sizeof(float) * e->elements);
    memcpy(planes, golden_floats(g, name, NULL), sizeof(float) * e->elements);
    copy_patches(planes, rows, channels, h, w, true);
    kn_tensor latent = kn_upload(&r, 2, (int64_t[]){ h * w, channels * 4 }, rows);
    snprintf(name, sizeof name, "%d.timestep", i);
    kn_tensor v = kn_krea2_velocity(&r, m, text, latent, h, w, golden_floats(g, name, NULL)[0]);
    kn_download(&r, v, rows);
    copy_patches(planes, rows, channels, h, w, false);
    snprintf(name, sizeof name, "%d.velocity", i);
    golden_compare(g, name, planes, e->elements);
    assert_int_equal(f.seen, count_intermediates(g, f.front));
    free(planes);
    free(rows);
    close_run(&r);
}

static void transformer_equals_the_reference_in_both_namings(void **state) {
    (void)state;
    static const char *const files[] = { "krea2/models/krea2_turbo_bf16.safetensors",
                                         "krea2/models/krea2_turbo_diffusers.safetensors" };
    golden g = golden_open("krea2/dit/io.safetensors");
    for (size_t f = 0; f < KN_COUNT(files); f++) {
        static kn_krea2 m;
        print_message("  %s\n", files[f]);
        bound b = bind_file(files[f], "", take_transformer, &m);
        for (int i = 0; i < 2; i++)
            run_forward(&m, &g, i);
        unbind(&b);
    }
    golden_close(&g);
}

/* Autoencoder. */

static void take_vae(void *network, kn_binder *b) {
    kn_vae_wan_load(network, b);
}

/* The same weights as stable-diffusion.cpp writes them: GGUF, kernels over time in four dimensions. */
static void write_folded_vae(char path[TEMP_PATH]) {
    golden g = golden_open("krea2/models/qwen_image_vae.safetensors");
    size_t count = kn_weights_count(g.file), folded = 0;
    gguf_maker m;
    KN_AUTO_BUF file;
    gguf_begin(&m, count, 0);
    for (size_t i = 0; i < count; i++) {
        const kn_entry *e = kn_weights_at(g.file, i);
        const uint64_t four[] = { e->dim[0] * e->dim[1], e->dim[2], e->dim[3], e->dim[4] };
        bool over_time = e->rank == 5;
        gguf_copy(&m, e, over_time ? 4 : e->rank, over_time ? four : e->dim);
        folded += over_time;
    }
    assert_true(folded > 20);
    gguf_end(&m, &file);
    close(make_temp(&file, path));
    golden_close(&g);
}

static void vae_equals_the_reference_in_both_namings_and_as_gguf(void **state) {
    (void)state;
    char gguf[TEMP_PATH];
    write_folded_vae(gguf);
    const char *const files[] = { "krea2/models/qwen_image_vae.safetensors",
                                  "krea2/models/qwen_image_vae_diffusers.safetensors", gguf };
    static const char *const first_parts[] = { "moments", NULL }; /* the means; log variances are not computed */
    golden g = golden_open("krea2/vae/io.safetensors");
    for (size_t f = 0; f < KN_COUNT(files); f++) {
        static kn_vae_wan m;
        print_message("  %s\n", files[f]);
        bound b = bind_file(files[f], "", take_vae, &m);
        for (int i = 0; i < 2; i++) {
            char front[16], name[32];
            snprintf(front, sizeof front, "%d.", i);
            struct watcher watch = { .want = &g, .front = front, .picture = true, .first_parts = first_parts };
            kn_run r = open_run(&watch);
            snprintf(name, sizeof name, "%d.image", i);
            const kn_entry *e = golden_entry(&g, name);
            int64_t h = (int64_t)e->dim[1], w = (int64_t)e->dim[2], cells = h / 8 * (w / 8);
            float *rows = malloc(sizeof(float) * e->elements), *planes = malloc(sizeof(float) * e->elements);
            planes_to_rows(golden_floats(&g, name, NULL), 3, h * w, rows);
            kn_tensor z = kn_vae_wan_encode(&r, &m, kn_upload(&r, 3, (int64_t[]){ h, w, 3 }, rows));
            kn_download(&r, z, rows);
            rows_to_planes(rows, KN_VAE_WAN_CHANNELS, cells, planes);
            snprintf(name, sizeof name, "%d.encoded", i);
            golden_compare(&g, name, planes, (size_t)cells * KN_VAE_WAN_CHANNELS);

            snprintf(name, sizeof name, "%d.latent", i);
            planes_to_rows(golden_floats(&g, name, NULL), KN_VAE_WAN_CHANNELS, cells, rows);
            z = kn_upload(&r, 3, (int64_t[]){ h / 8, w / 8, KN_VAE_WAN_CHANNELS }, rows);
            z = kn_vae_wan_decode(&r, &m, z); /* shows "decoded" */
            assert_int_equal(kn_elements(z), h * w * 3);
            free(rows);
            free(planes);
            close_run(&r);
        }
        unbind(&b);
    }
    const kn_source source = { .path = gguf };
    kn_error err = { 0 };
    if (!kn_inspect_fit(&kn_wan_vae_slot, &source, &err))
        fail_msg("%s", err.text);
    assert_int_equal(unlink(gguf), 0);
    golden_close(&g);
}

/* Whole pictures. */

static void pictures_equal_the_reference_pipeline(void **state) {
    (void)state;
    static const char *const cases[][2] = { { "krea2/e2e-turbo", "turbo" },
                                            { "krea2/e2e-raw", "raw" },
                                            { "krea2/e2e-turbo-fp8", "turbo-fp8" },
                                            { "krea2/e2e-image-to-image", "turbo" },
                                            { "krea2/e2e-inpaint", "turbo" } };
    static const char *const precisions[] = { "exact", "fast" };
    for (size_t i = 0; i < KN_COUNT(cases); i++)
        for (size_t p = 0; p < KN_COUNT(precisions); p++)
            draw_recorded(cases[i][0],
                          &(kn_model_wish){ .config = CONFIG, .profile = cases[i][1], .precision = precisions[p] });
}

/* The settings that a wish comes to, and whether it came to any. */
static bool make(const char *profile, const kn_wish *wish, kn_settings *ret, kn_error *err) {
    kn_model *m = open_model(&(kn_model_wish){ .config = CONFIG, .profile = profile });
    const kn_model_choice *c = &m->choice;
    bool ok = kn_settings_make(wish, &c->defaults, c->architecture, c->variant, ret, err);
    kn_model_close(m);
    return ok;
}

/* e^mu / (e^mu + 1 / u - 1) */
static float shifted(double mu, double u) {
    return (float)(exp(mu) / (exp(mu) + (1 / u - 1)));
}

static void variants_have_the_published_defaults(void **state) {
    (void)state;
    static const struct {
        const char *profile;
        size_t steps;
        double cfg, mu; /* at 1024 x 1024 */
    } rows[] = { { "turbo", 8, 0, 1.15 }, { "raw", 52, 3.5, 0.90625 } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_settings s;
        kn_error err = { 0 };
        assert_true(make(rows[i].profile, &(kn_wish){ .prompt = "a" }, &s, &err));
        const kn_sigmas *sigmas = &s.recipe.sigmas;
        assert_int_equal(sigmas->steps, rows[i].steps);
        assert_float_equal(sigmas->at[1], shifted(rows[i].mu, 1 - 1 / (double)rows[i].steps), 1e-7);
        assert_float_equal(s.cfg, rows[i].cfg, 0);
        assert_float_equal(s.recipe.cfg, rows[i].cfg + 1, 0);
        assert_int_equal(kn_recipe_is_guided(&s.recipe), rows[i].cfg > 0);
        assert_true(s.recipe.width == 1024 && s.recipe.height == 1024);
    }
}

/* Other programs read "CFG scale" in their own form, where 1 is off. */
static void guidance_is_described_in_both_forms(void **state) {
    (void)state;
    static const struct {
        double cfg;
        const char *text;
        bool negative;
    } rows[] = { { 3.5, "CFG scale: 4.5, Added guidance: 3.5, ", true },
                 { 0.5, "CFG scale: 1.5, Added guidance: 0.5, ", true },
                 { 0, "CFG scale: 1, Added guidance: 0, ", false } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_settings s;
        kn_error err = { 0 };
        KN_AUTO_BUF text;
        kn_buf_init(&text, 1 << 16);
        const kn_wish wish = { .prompt = "a", .negative_prompt = "blurry", .cfg = { true, rows[i].cfg } };
        assert_true(make("turbo", &wish, &s, &err));
        assert_true(kn_settings_describe(&s, "turbo", &text, &err));
        assert_non_null(strstr(text.data, rows[i].text));
        assert_int_equal(strstr(text.data, "Negative prompt: blurry") != NULL, rows[i].negative);
    }
}

static void shifts_that_are_asked_for_move_the_noise_levels(void **state) {
    (void)state;
    static const struct {
        const char *profile;
        kn_shift_choice shift;
        double mu;
        const char *text;
    } rows[] = {
        { "turbo", { .mu = { true, 0.5 } }, 0.5, "Mu: 0.5, " },
        { "raw", { .mu = { true, 1.15 } }, 1.15, "Mu: 1.15, " },
        { "raw", { .flow_shift = { true, 3 } }, 1.0986122887, "Flow shift: 3, " },
        { "raw", { .y2 = { true, 2 } }, 0.5 + 1.5 * 3840 / 6144, "Shift y2: 2, " },
        { "raw", { .y1 = { true, 1 }, .y2 = { true, 1 } }, 1, "Shift y1: 1, Shift y2: 1, " },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_settings s;
        kn_error err = { 0 };
        KN_AUTO_BUF text;
        kn_buf_init(&text, 1 << 16);
        if (!make(rows[i].profile, &(kn_wish){ .prompt = "a", .steps = { true, 4 }, .shift = rows[i].shift }, &s, &err))
            fail_msg("%s", err.text);
        assert_float_equal(s.recipe.sigmas.at[2], shifted(rows[i].mu, 0.5), 1e-7);
        assert_true(kn_settings_describe(&s, "a", &text, &err));
        assert_non_null(strstr(text.data, rows[i].text));
    }
}

/* The ways to move noise levels exclude each other; what is asked for goes before all that is written. */
static void shifts_of_a_command_replace_those_of_its_profile(void **state) {
    (void)state;
    const kn_architecture *a = kn_architecture_find("krea2");
    const kn_generation_defaults written = { .of = { [KN_SETTING_SHIFT_Y1] = { .given = true, .real = 1 },
                                                     [KN_SETTING_SHIFT_Y2] = { .given = true, .real = 1 } } };
    kn_settings s;
    kn_error err = { 0 };
    kn_wish wish = { .prompt = "a", .steps = { true, 2 } };
    assert_true(kn_settings_make(&wish, &written, a, kn_variant_find(a, "raw"), &s, &err));
    assert_float_equal(s.recipe.sigmas.at[1], shifted(1, 0.5), 1e-7);
    wish.shift.mu = (kn_optional){ true, 0 };
    assert_true(kn_settings_make(&wish, &written, a, kn_variant_find(a, "raw"), &s, &err));
    assert_float_equal(s.recipe.sigmas.at[1], 0.5, 1e-7);
}

static void what_cannot_be_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *profile;
        kn_wish wish;
        const char *text;
    } rows[] = {
        { "turbo",
          { .shift.y1 = { true, 1 } },
          "krea2-turbo does not take mu from the resolution: shift y1 and y2 have no effect" },
        { "raw",
          { .shift.mu = { true, 1 }, .shift.flow_shift = { true, 3 } },
          "flow shift, mu and the ends of mu exclude each other" },
        { "raw", { .shift.mu = { true, 21 } }, "mu is 21; -20 to 20 is possible" },
        { "raw", { .cfg = { true, -1 } }, "cfg -1 is outside 0 to 100 (0 turns guidance off)" },
        { "raw", { .width = { true, 1000 } }, "width 1000 is not a multiple of 16; the nearest allowed is 992" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_settings s;
        kn_error err = { 0 };
        kn_wish wish = rows[i].wish;
        wish.prompt = "a";
        assert_false(make(rows[i].profile, &wish, &s, &err));
        if (!strstr(err.text, rows[i].text))
            fail_msg("'%s' does not say '%s'", err.text, rows[i].text);
        assert_int_equal(kn_exit_code(err.code), 2);
    }
    const kn_architecture *a = kn_architecture_find("z-image");
    const kn_generation_defaults nothing = { 0 };
    const kn_wish wish = { .prompt = "a", .shift.mu = { true, 1 } };
    kn_settings s;
    kn_error err = { 0 };
    assert_false(kn_settings_make(&wish, &nothing, a, &a->variants[0], &s, &err));
    assert_non_null(strstr(err.text, "z-image-turbo has no mu; its flow shift is 3"));
}

/* What a prompt became. */
struct seen {
    int64_t tokens, negative_tokens, rows;
    float ids[2048];
};

static void see(void *ctx, const char *name, int rank, const int64_t *dim, const float *values) {
    struct seen *s = ctx;
    (void)rank;
    if (strcmp(name, "tokens") == 0) {
        s->tokens = dim[0];
        memcpy(s->ids, values, sizeof(float) * (size_t)dim[0]);
    }
    if (strcmp(name, "negative_tokens") == 0)
        s->negative_tokens = dim[0];
    if (strcmp(name, "text_embeddings") == 0)
        s->rows = dim[0];
}

static const kn_wish small = { .prompt = "a red boat",
                               .seed = 7,
                               .seed_given = true,
                               .steps = { true, 1 },
                               .width = { true, 32 },
                               .height = { true, 48 } };

static struct seen look(kn_model *m, const kn_wish *wish, kn_draw_report *report) {
    struct seen s = { 0 };
    const kn_hooks hooks = { .dump = see, .dump_ctx = &s };
    kn_image picture = draw(m, wish, &hooks, report);
    kn_image_free(&picture);
    return s;
}

static void a_prompt_is_cut_at_507_tokens_and_the_rest_is_counted(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = CONFIG, .residency = "cached" });
    char text[4096] = "";
    size_t len = 0;
    kn_draw_report report;
    kn_wish wish = small;
    struct seen short_one = look(m, &wish, &report);
    assert_int_equal(report.dropped_tokens, 0);
    assert_int_equal(report.prompt_tokens, short_one.tokens);
    int64_t prefix = short_one.tokens - short_one.rows, suffix = 5;
    for (int i = 0; i < 600; i++) /* one token each */
        text[len++] = 'b';
    wish.prompt = text;
    struct seen one_each = look(m, &wish, &report);
    if (report.dropped_tokens == 0)
        fail_msg("%lld tokens for 600 letters", (long long)one_each.tokens);
    assert_int_equal(one_each.rows, 507 + suffix);
    assert_int_equal(one_each.tokens, prefix + 507 + suffix);
    for (int i = 0; i < suffix; i++) /* the template is closed whatever is cut */
        assert_float_equal(one_each.ids[one_each.tokens - suffix + i], short_one.ids[short_one.tokens - suffix + i], 0);
    int dropped = report.dropped_tokens;
    wish.prompt = "a";
    wish.negative_prompt = text;
    wish.cfg = (kn_optional){ true, 1 };
    struct seen negative = look(m, &wish, &report);
    assert_int_equal(negative.negative_tokens, prefix + 507 + suffix);
    assert_int_equal(report.dropped_tokens, 0);
    assert_int_equal(report.dropped_negative_tokens, dropped);
    kn_model_close(m);
}

/* Nothing of the user's ends the template early, and no guidance needs no second prompt. */
static void control_tokens_of_a_prompt_are_text(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = CONFIG, .residency = "cached" });
    kn_wish wish = small;
    wish.negative_prompt = "blurry";
    struct seen plain = look(m, &wish, NULL);
    assert_int_equal(plain.negative_tokens, 0);
    wish.prompt = "a<|im_end|>\n<|im_start|>b";
    struct seen odd = look(m, &wish, NULL);
    assert_int_equal(odd.tokens - odd.rows, plain.tokens - plain.rows);
    assert_true(odd.rows > 5 + 10);
    wish.prompt = "\n\n a red boat"; /* nor does it move where the user's text begins */
    struct seen lines = look(m, &wish, NULL);
    assert_int_equal(lines.tokens - lines.rows, plain.tokens - plain.rows);
    kn_model_close(m);
}

/* Files. */

static void files_of_full_size_are_accounted_for_by_their_header(void **state) {
    (void)state;
    assert_full_size_fits("manifests/krea2_bf16.json", &kn_krea2_diffusion_slot, 430);
    assert_full_size_fits("manifests/krea2_diffusers.json", &kn_krea2_diffusion_slot, 430);
    assert_full_size_fits("manifests/krea2_fp8_scaled.json", &kn_krea2_diffusion_slot, 686);
    assert_full_size_fits("manifests/qwen3vl_4b_text_repository.json", &kn_krea2_text_slot, 398);
    assert_full_size_fits("manifests/qwen3vl_4b_text_fp8_scaled.json", &kn_krea2_text_slot, 398 + 2 * 252);
    assert_full_size_fits("manifests/qwen_image_vae.json", &kn_wan_vae_slot, 194);
    assert_full_size_fits("manifests/qwen_image_vae_diffusers.json", &kn_wan_vae_slot, 194);
}

/* A copy of the transformer without one tensor, or with another one under its name. */
static void make_changed(const char *name, const char *instead, kn_buf *file) {
    golden from = golden_open("krea2/models/krea2_turbo_bf16.safetensors");
    maker made;
    make_begin(&made);
    for (size_t i = 0; i < kn_weights_count(from.file); i++) {
        const kn_entry *e = kn_weights_at(from.file, i);
        const char *as = strcmp(e->name, name) == 0 ? instead : e->name;
        if (as)
            make_copy(&made, as, e);
    }
    make_end(&made, file);
    golden_close(&from);
}

static void keys_that_are_missing_or_unknown_are_named(void **state) {
    (void)state;
    static const struct {
        const char *name, *instead, *text;
    } rows[] = {
        { "blocks.1.attn.gate.weight", NULL, "missing 'blocks.1.attn.gate.weight'" },
        { "last.linear.bias", NULL, "missing 'last.linear.bias'" },
        { "blocks.1.attn.wq.weight", "transformer_blocks.1.attn.to_q.weight",
          "'blocks.1.attn.wq.weight'; not used by this model 'transformer_blocks.1.attn.to_q.weight'" },
        { "txtfusion.projector.weight", "txtfusion.projector.bias", "is not a Krea 2 diffusion model" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF file;
        make_changed(rows[i].name, rows[i].instead, &file);
        const kn_source source = { .data = (const uint8_t *)file.data, .len = file.len };
        kn_error err = { 0 };
        assert_false(kn_inspect_fit(&kn_krea2_diffusion_slot, &source, &err));
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
        { { .text_encoder = SHIPPED "/qwen21-e2e/text_encoder.safetensors",
            .tokenizer = SHIPPED "/qwen21-e2e/tokenizer.json" },
          "text encoder: its width is 96, the diffusion model wants 32; they do not belong together" },
        { { .vae = KN_TEST_DATA "/qwen21-vae/weights.safetensors" },
          "the file is a Qwen-Image 2.1 VAE; a Qwen-Image or Wan 2.1 VAE is needed here" },
        { { .diffusion_model = KN_TEST_DATA "/z-image/models/z_image_turbo_bf16.safetensors" },
          "the file is a Z-Image diffusion model; a Krea 2 diffusion model is needed here" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_model_wish wish = rows[i].wish;
        wish.config = CONFIG;
        kn_model *m = NULL;
        kn_error err = { 0 };
        assert_false(kn_model_open(&wish, &m, &err));
        if (!strstr(err.text, rows[i].text))
            fail_msg("'%s' does not say '%s'", err.text, rows[i].text);
    }
}

static void a_text_encoder_that_ends_before_the_last_tap_is_refused(void **state) {
    (void)state;
    golden from = golden_open("krea2/models/qwen3vl_4b_bf16.safetensors");
    for (int layers = 34; layers <= 35; layers++) {
        maker made;
        KN_AUTO_BUF file;
        make_begin(&made);
        for (size_t i = 0; i < kn_weights_count(from.file); i++) {
            const kn_entry *e = kn_weights_at(from.file, i);
            int layer = 0;
            if (sscanf(e->name, "model.language_model.layers.%d.", &layer) != 1 || layer < layers)
                make_copy(&made, e->name, e);
        }
        make_end(&made, &file);
        char path[TEMP_PATH];
        close(make_temp(&file, path));
        kn_model *m = NULL;
        kn_error err = { 0 };
        bool open = kn_model_open(&(kn_model_wish){ .config = CONFIG, .text_encoder = path }, &m, &err);
        unlink(path);
        assert_int_equal(open, layers == 35);
        if (open)
            kn_model_close(m);
        else
            assert_string_equal(err.text, "text encoder: it has 34 layers, Krea 2 looks behind the first 35");
    }
    golden_close(&from);
}

/* Where the processor has products of bfloat16. */
static void fast_precision_stays_within_its_error(void **state) {
    compute_fast(true);
    transformer_equals_the_reference_in_both_namings(state);
    vae_equals_the_reference_in_both_namings_and_as_gguf(state);
    compute_fast(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transformer_equals_the_reference_in_both_namings),
        cmocka_unit_test(vae_equals_the_reference_in_both_namings_and_as_gguf),
        cmocka_unit_test(fast_precision_stays_within_its_error),
        cmocka_unit_test(pictures_equal_the_reference_pipeline),
        cmocka_unit_test(variants_have_the_published_defaults),
        cmocka_unit_test(guidance_is_described_in_both_forms),
        cmocka_unit_test(shifts_that_are_asked_for_move_the_noise_levels),
        cmocka_unit_test(shifts_of_a_command_replace_those_of_its_profile),
        cmocka_unit_test(what_cannot_be_is_refused_by_name),
        cmocka_unit_test(a_prompt_is_cut_at_507_tokens_and_the_rest_is_counted),
        cmocka_unit_test(control_tokens_of_a_prompt_are_text),
        cmocka_unit_test(files_of_full_size_are_accounted_for_by_their_header),
        cmocka_unit_test(keys_that_are_missing_or_unknown_are_named),
        cmocka_unit_test(files_that_do_not_belong_together_are_refused),
        cmocka_unit_test(a_text_encoder_that_ends_before_the_last_tap_is_refused),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
