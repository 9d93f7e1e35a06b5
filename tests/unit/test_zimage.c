/* Z-Image and its parts against the recorded outputs of the reference implementations, in exact precision: each network
 * by itself, then whole pictures; and which files the networks take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_run.h"
#include "models/qwen3_text.h"
#include "models/vae_flux.h"
#include "models/zimage.h"
#include "pipelines/inspect.h"
#include "pipelines/vaes.h"
#include "pipelines/zimage.h"
#include "safetensors_maker.h"

#define CONFIG     KN_TEST_DATA "/z-image/models.toml"
#define ALL_IN_ONE "z-image/models/z_image_all_in_one_fp8.safetensors"

/* Text encoder. */

static void take_text(void *network, kn_binder *b) {
    kn_qwen3_text_load(network, b, 1e6);
}

static void text_encoder_gives_every_hidden_state_but_the_last(void **state) {
    (void)state;
    static kn_qwen3_text m;
    bound b = bind_file("text-encoder/qwen3/model.safetensors", "model.", take_text, &m);
    golden g = golden_open("text-encoder/qwen3/io.safetensors");
    for (int i = 0; i < 3; i++) {
        char front[16], name[32];
        snprintf(front, sizeof front, "%d.", i);
        snprintf(name, sizeof name, "%d.ids", i);
        size_t n = 0;
        const int32_t *ids = golden_ints(&g, name, &n);
        struct watcher w = { .want = &g, .front = front };
        kn_run r = open_run(&w);
        kn_tensor x = kn_qwen3_text_forward(&r, &m, ids, (int64_t)n, m.layers - 1);
        float *last = malloc(sizeof(float) * n * (size_t)m.width);
        kn_download(&r, x, last);
        snprintf(name, sizeof name, "%d.hidden_states.%d", i, m.layers - 1);
        golden_compare(&g, name, last, n * (size_t)m.width);
        free(last);
        close_run(&r);
    }
    golden_close(&g);
    unbind(&b);
}

/* Diffusion transformer. */

static void take_transformer(void *network, kn_binder *b) {
    kn_zimage_load(network, b);
}

/* Patches of 2 x 2, their channels innermost: what the pipeline does with a latent. */
static void copy_patches(float *planes, float *rows, int channels, int h, int w, bool to_rows) {
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < 2 * h; y++)
            for (int x = 0; x < 2 * w; x++) {
                float *plane = &planes[(c * 2 * h + y) * 2 * w + x];
                float *row = &rows[(((y / 2) * w + x / 2) * 4 + y % 2 * 2 + x % 2) * channels + c];
                *(to_rows ? row : plane) = *(to_rows ? plane : row);
            }
}

static void run_forward(const kn_zimage *m, const golden *g, int i) {
    static const char *const first_parts[] = { "cap_embedder", "x_embedder", "final_layer", NULL };
    char front[16], name[32];
    snprintf(front, sizeof front, "%d.", i);
    struct watcher watch = { .want = g, .front = front, .first_parts = first_parts };
    kn_run r = open_run(&watch);
    snprintf(name, sizeof name, "%d.text", i);
    const kn_entry *text = golden_entry(g, name);
    const int64_t text_dim[] = { (int64_t)text->dim[0], (int64_t)text->dim[1] };
    kn_tensor words = kn_zimage_refine_text(&r, m, kn_upload(&r, 2, text_dim, golden_floats(g, name, NULL)));

    snprintf(name, sizeof name, "%d.latent", i);
    const kn_entry *e = golden_entry(g, name);
    int channels = (int)e->dim[0], h = (int)e->dim[1] / 2, w = (int)e->dim[2] / 2;
    float *planes = malloc(sizeof(float) * e->elements), *rows = malloc(sizeof(float) * e->elements);
    memcpy(planes, golden_floats(g, name, NULL), sizeof(float) * e->elements);
    copy_patches(planes, rows, channels, h, w, true);
    kn_tensor latent = kn_upload(&r, 2, (int64_t[]){ h * w, 4 * channels }, rows);
    snprintf(name, sizeof name, "%d.sigma", i);
    kn_tensor y = kn_zimage_forward(&r, m, words, latent, h, w, *golden_floats(g, name, NULL));
    kn_download(&r, y, rows);
    for (size_t k = 0; k < e->elements; k++)
        rows[k] = -rows[k];
    copy_patches(planes, rows, channels, h, w, false);
    snprintf(name, sizeof name, "%d.velocity", i);
    golden_compare(g, name, planes, e->elements);
    free(planes);
    free(rows);
    close_run(&r);
}

static void transformer_equals_the_reference_in_both_namings(void **state) {
    (void)state;
    static const char *const files[] = { "z-image/models/z_image_turbo_bf16.safetensors",
                                         "z-image/models/z_image_turbo_diffusers.safetensors" };
    golden g = golden_open("z-image/dit/io.safetensors");
    for (size_t f = 0; f < KN_COUNT(files); f++) {
        static kn_zimage m;
        bound b = bind_file(files[f], "", take_transformer, &m);
        for (int i = 0; i < 3; i++)
            run_forward(&m, &g, i);
        unbind(&b);
    }
    golden_close(&g);
}

/* Autoencoder. */

static void take_vae(void *network, kn_binder *b) {
    kn_vae_flux_load(network, b);
    kn_ignore_outside(b, "model.");
    kn_ignore_outside(b, "text_encoders.");
}

static void check_vae(const kn_vae_flux *m) {
    static const char *const first_parts[] = { "moments", NULL }; /* the means; log variances are not computed */
    golden g = golden_open("z-image/vae/io.safetensors");
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
        kn_tensor z = kn_vae_flux_encode(&r, m, kn_upload(&r, 3, (int64_t[]){ h, w, 3 }, rows));
        kn_download(&r, z, rows);
        rows_to_planes(rows, KN_VAE_FLUX_CHANNELS, cells, planes);
        snprintf(name, sizeof name, "%d.encoded", i);
        golden_compare(&g, name, planes, (size_t)cells * KN_VAE_FLUX_CHANNELS);

        snprintf(name, sizeof name, "%d.latent", i);
        planes_to_rows(golden_floats(&g, name, NULL), KN_VAE_FLUX_CHANNELS, cells, rows);
        z = kn_upload(&r, 3, (int64_t[]){ h / 8, w / 8, KN_VAE_FLUX_CHANNELS }, rows);
        kn_vae_flux_decode(&r, m, z); /* shows "decoded" */
        free(rows);
        free(planes);
        close_run(&r);
    }
    golden_close(&g);
}

static void vae_equals_the_reference(void **state) {
    (void)state;
    static kn_vae_flux m;
    bound b = bind_file(ALL_IN_ONE, "vae.", take_vae, &m);
    check_vae(&m);
    unbind(&b);
}

/* Replaces the first `from` in a name. */
static void replace(char name[128], const char *from, const char *to) {
    char *at = strstr(name, from), rest[128];
    if (!at)
        return;
    snprintf(rest, sizeof rest, "%s", at + strlen(from));
    snprintf(at, 128 - (size_t)(at - name), "%s%s", to, rest);
}

/* The autoencoder's tensors under the names that diffusers gives them. */
static void make_diffusers_vae(const kn_weights *from, kn_buf *file) {
    static const char *const names[][2] = {
        { "mid.block_1", "mid_block.resnets.0" },
        { "mid.block_2", "mid_block.resnets.1" },
        { "mid.attn_1.norm", "mid_block.attentions.0.group_norm" },
        { "mid.attn_1.proj_out", "mid_block.attentions.0.to_out.0" },
        { "mid.attn_1.", "mid_block.attentions.0.to_" },
        { "downsample.conv", "downsamplers.0.conv" },
        { "upsample.conv", "upsamplers.0.conv" },
        { "block.", "resnets." },
        { "down.", "down_blocks." },
        { "up.0", "up_blocks.3" },
        { "up.1", "up_blocks.2" },
        { "up.2", "up_blocks.1" },
        { "up.3", "up_blocks.0" },
        { "nin_shortcut", "conv_shortcut" },
        { "norm_out", "conv_norm_out" },
    };
    maker made;
    make_begin(&made);
    for (size_t i = 0; i < kn_weights_count(from); i++) {
        const kn_entry *e = kn_weights_at(from, i);
        if (strncmp(e->name, "vae.", 4) != 0)
            continue;
        char name[128], shape[64] = "";
        snprintf(name, sizeof name, "%s", e->name + 4);
        bool attention = strstr(name, "attn_1") != NULL;
        for (size_t k = 0; k < KN_COUNT(names); k++)
            if (!strstr(name, "mid_block") || k < 4)
                replace(name, names[k][0], names[k][1]);
        int rank = attention && e->rank == 4 ? 2 : e->rank; /* matrices there, 1x1 convolutions here */
        for (int d = 0; d < rank; d++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%d", d ? "," : "", (int)e->dim[d]);
        make_tensor(&made, name, kn_dtype_of(e->dtype)->name, shape, e->data, e->bytes);
    }
    make_end(&made, file);
}

static void vae_is_the_same_under_the_names_of_diffusers(void **state) {
    (void)state;
    static kn_vae_flux m;
    golden all = golden_open(ALL_IN_ONE);
    KN_AUTO_BUF file;
    make_diffusers_vae(all.file, &file);
    kn_weights *w = open_made(&file);
    kn_binder *b = NULL;
    kn_error err = { 0 };
    assert_non_null(kn_weights_find(w, "decoder.up_blocks.2.upsamplers.0.conv.weight"));
    assert_true(kn_binder_new(w, "", false, &b, &err));
    kn_vae_flux_load(&m, b);
    if (!kn_binder_finish(b, &err))
        fail_msg("%s", err.text);
    check_vae(&m);
    kn_binder_free(b);
    kn_weights_close(w);
    golden_close(&all);
}

/* Whole pictures. */

static void pictures_equal_the_reference_pipeline(void **state) {
    (void)state;
    static const char *const cases[][2] = { { "z-image/e2e-turbo", "turbo" },
                                            { "z-image/e2e-base", "base" },
                                            { "z-image/e2e-all-in-one-fp8", "all-in-one" },
                                            { "z-image/e2e-image-to-image", "turbo" },
                                            { "z-image/e2e-inpaint", "turbo" } };
    static const char *const precisions[] = { "exact", "fast" };
    for (size_t i = 0; i < KN_COUNT(cases); i++)
        for (size_t p = 0; p < KN_COUNT(precisions); p++)
            draw_recorded(cases[i][0],
                          &(kn_model_wish){ .config = CONFIG, .profile = cases[i][1], .precision = precisions[p] });
}

static void the_old_form_of_models_toml_draws_with_turbo(void **state) {
    (void)state;
    const kn_model_wish wish = { .config = KN_TEST_DATA "/z-image/legacy.toml", .precision = "exact" };
    kn_model *m = open_model(&wish);
    assert_string_equal(m->choice.profile->name, "legacy");
    assert_string_equal(m->choice.architecture->name, "z-image");
    assert_string_equal(m->choice.variant->name, "turbo");
    kn_model_close(m);
    draw_recorded("z-image/e2e-all-in-one-fp8",
                  &(kn_model_wish){ .config = wish.config, .profile = "legacy", .precision = "exact" });
}

static const kn_wish small = { .prompt = "a red boat",
                               .seed = 7,
                               .seed_given = true,
                               .steps = { true, 2 },
                               .width = { true, 48 },
                               .height = { true, 64 } };

static void variants_have_the_published_defaults(void **state) {
    (void)state;
    static const struct {
        const char *profile;
        double steps, cfg;
        float last; /* sigma before 0: shift / steps / (1 + (shift - 1) / steps) */
    } rows[] = { { "turbo", 8, 1, 0.3f }, { "base", 50, 5, 6.0f / 55 } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        const kn_model_wish wish = { .config = CONFIG, .profile = rows[i].profile };
        kn_model *m = open_model(&wish);
        kn_settings s;
        kn_error err = { 0 };
        assert_true(kn_settings_make(&(kn_wish){ .prompt = "a" }, &m->choice.defaults, m->choice.architecture,
                                     m->choice.variant, &s, &err));
        assert_float_equal(s.recipe.sigmas.steps, rows[i].steps, 0);
        assert_float_equal(s.recipe.cfg, rows[i].cfg, 0);
        assert_float_equal(s.recipe.sigmas.at[s.recipe.sigmas.steps - 1], rows[i].last, 1e-6);
        kn_model_close(m);
    }
}

static void count_tokens(void *ctx, const char *name, int rank, const int64_t *dim, const float *values) {
    (void)rank;
    (void)values;
    int64_t *counts = ctx;
    if (strcmp(name, "tokens") == 0)
        counts[0] = dim[0];
    if (strcmp(name, "negative_tokens") == 0)
        counts[1] = dim[0];
}

static void a_prompt_is_cut_at_512_tokens_and_the_rest_is_counted(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = CONFIG });
    char text[4096] = "";
    for (int i = 0; i < 700; i++)
        memcpy(text + 3 * i, "b, ", 3); /* at least two tokens each */
    int64_t counts[2] = { 0, 0 };
    const kn_hooks hooks = { .dump = count_tokens, .dump_ctx = counts };
    kn_draw_report report;
    kn_wish wish = small;
    wish.cfg = (kn_optional){ true, 2 };
    kn_image short_one = draw(m, &wish, &hooks, &report);
    assert_int_equal(report.dropped_tokens, 0);
    assert_int_equal(report.prompt_tokens, counts[0]);
    assert_true(counts[0] < 100);
    wish.prompt = text;
    kn_image long_one = draw(m, &wish, &hooks, &report);
    assert_int_equal(counts[0], 512);
    assert_int_equal(report.prompt_tokens, 512);
    int dropped = report.dropped_tokens;
    assert_true(dropped > 1400 - 512);
    assert_int_equal(report.dropped_negative_tokens, 0);
    wish.prompt = "a";
    wish.negative_prompt = text;
    kn_image negative_one = draw(m, &wish, &hooks, &report);
    assert_int_equal(counts[1], 512);
    assert_int_equal(report.dropped_tokens, 0);
    assert_int_equal(report.dropped_negative_tokens, dropped);
    kn_image_free(&short_one);
    kn_image_free(&long_one);
    kn_image_free(&negative_one);
    kn_model_close(m);
}

static void a_strength_of_one_leaves_nothing_of_the_picture(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = CONFIG, .precision = "exact", .residency = "cached" });
    const kn_hooks hooks = { 0 };
    kn_image start = read_png("z-image/e2e-image-to-image/input.png");
    kn_wish wish = small;
    kn_image from_text = draw(m, &wish, &hooks, NULL);
    size_t n = (size_t)from_text.width * from_text.height * from_text.channels;
    wish.init_image = &start;
    wish.strength = (kn_optional){ true, 1 };
    kn_image all_new = draw(m, &wish, &hooks, NULL);
    assert_memory_equal(all_new.pixels, from_text.pixels, n);
    wish.strength.value = 0;
    kn_settings settings;
    kn_error err = { 0 };
    const kn_model_choice *c = &m->choice;
    assert_false(kn_settings_make(&wish, &c->defaults, c->architecture, c->variant, &settings, &err));
    assert_non_null(strstr(err.text, "a strength of 0 leaves no step to do"));
    kn_image *all[] = { &start, &from_text, &all_new };
    for (size_t i = 0; i < KN_COUNT(all); i++)
        kn_image_free(all[i]);
    kn_model_close(m);
}

/* Files. */

static void files_of_full_size_are_accounted_for_by_their_header(void **state) {
    (void)state;
    static const struct {
        const char *manifest;
        const kn_slot *slot;
        size_t tensors;
    } rows[] = {
        { "manifests/z_image_bf16.json", &kn_zimage_diffusion_slot, 453 },
        { "manifests/z_image_diffusers.json", &kn_zimage_diffusion_slot, 521 },
        { "manifests/qwen3_4b.json", &kn_zimage_text_slot, 398 },
        { "manifests/flux_ae.json", &kn_flux_vae_slot, 244 },
        { "manifests/flux_ae_diffusers.json", &kn_flux_vae_slot, 244 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        assert_full_size_fits(rows[i].manifest, rows[i].slot, rows[i].tensors);
}

/* A copy of a file below data with one tensor more. */
static void make_with_extra(const char *path_below_data, const char *extra, const char *shape, size_t bytes,
                            kn_buf *file) {
    golden from = golden_open(path_below_data);
    maker made;
    make_begin(&made);
    for (size_t i = 0; i < kn_weights_count(from.file); i++)
        make_copy(&made, kn_weights_at(from.file, i)->name, kn_weights_at(from.file, i));
    make_zeros(&made, extra, "F32", shape, bytes);
    make_end(&made, file);
    golden_close(&from);
}

static void files_of_other_models_and_unknown_keys_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *file, *extra;
        const kn_slot *slot;
        const char *text; /* NULL: it is taken */
    } rows[] = {
        { "z-image/models/z_image_turbo_bf16.safetensors", "siglip_embedder.0.weight", &kn_zimage_diffusion_slot,
          "diffusion model: not used by this model 'siglip_embedder.0.weight'" },
        { "z-image/models/z_image_turbo_bf16.safetensors", "norm_final.weight", &kn_zimage_diffusion_slot, NULL },
        { "z-image/models/qwen_3_4b.safetensors", "lm_head.weight", &kn_zimage_text_slot, NULL },
        { "z-image/models/qwen_3_4b.safetensors", "model.rotary_emb.inv_freq", &kn_zimage_text_slot, NULL },
        { "z-image/models/qwen_3_4b.safetensors", "visual.deepstack_merger_list.0.norm.weight", &kn_zimage_text_slot,
          "text encoder: the file is a Qwen3-VL text encoder; a Qwen3 text encoder is needed here" },
        { "z-image/models/qwen_3_4b.safetensors", "x", &kn_flux_vae_slot,
          "VAE: the file is a Qwen3 or Qwen3-VL text encoder; a FLUX autoencoder is needed here" },
        /* In a file of everything each part answers for its own section. */
        { ALL_IN_ONE, "text_encoders.clip_l.x", &kn_zimage_text_slot,
          "text encoder: not used by this model 'text_encoders.clip_l.x'" },
        { ALL_IN_ONE, "text_encoders.clip_l.x", &kn_zimage_diffusion_slot, NULL },
        { ALL_IN_ONE, "text_encoders.clip_l.x", &kn_flux_vae_slot, NULL },
        { ALL_IN_ONE, "vae.x", &kn_flux_vae_slot, "VAE: not used by this model 'vae.x'" },
        { ALL_IN_ONE, "model_ema.x", &kn_flux_vae_slot, "VAE: not used by this model 'model_ema.x'" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF file;
        make_with_extra(rows[i].file, rows[i].extra, "1", 4, &file);
        const kn_source source = { .data = (const uint8_t *)file.data, .len = file.len };
        kn_error err = { 0 };
        bool fits = kn_inspect_fit(rows[i].slot, &source, &err);
        if (fits != !rows[i].text || (rows[i].text && !strstr(err.text, rows[i].text)))
            fail_msg("%s: '%s' is not '%s'", rows[i].extra, err.text, rows[i].text ? rows[i].text : "");
    }
}

static void a_vision_encoder_has_no_place(void **state) {
    (void)state;
    const kn_model_wish wish = { .config = CONFIG, .vision = "/nonexistent" };
    kn_model *m = NULL;
    kn_error err = { 0 };
    assert_false(kn_model_open(&wish, &m, &err));
    assert_string_equal(err.text, "Z-Image has no vision encoder; leave vision out");
}

/* Lumina 2 has the names of Z-Image and other rules; the width of its text tells. */
static void lumina_is_told_from_its_text_width(void **state) {
    (void)state;
    maker made;
    KN_AUTO_BUF file;
    make_begin(&made);
    make_zeros(&made, "cap_embedder.1.weight", "BF16", "1,2304", 2 * 2304);
    make_zeros(&made, "noise_refiner.0.attention.q_norm.weight", "BF16", "96", 2 * 96);
    make_zeros(&made, "context_refiner.0.attention.q_norm.weight", "BF16", "96", 2 * 96);
    make_end(&made, &file);
    const kn_source source = { .data = (const uint8_t *)file.data, .len = file.len };
    kn_error err = { 0 };
    assert_false(kn_inspect_fit(&kn_zimage_diffusion_slot, &source, &err));
    assert_non_null(strstr(err.text, "the file is a Lumina 2 diffusion model; a Z-Image diffusion model is needed"));
}

static void a_part_of_a_file_of_everything_is_inspected_by_itself(void **state) {
    (void)state;
    static const struct {
        const kn_slot *slot;
        const char *prefix;
        size_t tensors, quantised;
    } rows[] = { { &kn_zimage_diffusion_slot, "model.diffusion_model.", 174, 35 },
                 { &kn_zimage_text_slot, "text_encoders.qwen3_4b.transformer.model.", 35, 0 },
                 { &kn_flux_vae_slot, "vae.", 240, 0 } };
    static const char path[] = SHIPPED "/" ALL_IN_ONE;
    size_t all = 0;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_inspection found;
        kn_error err = { 0 };
        assert_true(kn_inspect_file(&(kn_source){ .path = path }, rows[i].slot, &found, &err));
        assert_string_equal(found.kind->id, rows[i].slot->id);
        assert_string_equal(found.prefix, rows[i].prefix);
        assert_int_equal(found.tensors, rows[i].tensors);
        assert_int_equal(found.quantised_layers, rows[i].quantised);
        assert_int_equal(found.missing_scales, 0);
        all += found.tensors;
    }
    assert_int_equal(all, 449);
    kn_inspection whole;
    kn_error err = { 0 };
    assert_true(kn_inspect_file(&(kn_source){ .path = path }, NULL, &whole, &err));
    assert_int_equal(whole.tensors, 449);
    assert_string_equal(whole.kind->id, "z-image");
    assert_string_equal(whole.others[0]->id, "qwen3");
    assert_string_equal(whole.others[1]->id, "flux-ae");
    assert_null(whole.others[2]);
}

/* Where the processor has products of bfloat16. */
static void fast_precision_stays_within_its_error(void **state) {
    compute_fast(true);
    text_encoder_gives_every_hidden_state_but_the_last(state);
    transformer_equals_the_reference_in_both_namings(state);
    vae_equals_the_reference(state);
    compute_fast(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_encoder_gives_every_hidden_state_but_the_last),
        cmocka_unit_test(transformer_equals_the_reference_in_both_namings),
        cmocka_unit_test(vae_equals_the_reference),
        cmocka_unit_test(fast_precision_stays_within_its_error),
        cmocka_unit_test(vae_is_the_same_under_the_names_of_diffusers),
        cmocka_unit_test(pictures_equal_the_reference_pipeline),
        cmocka_unit_test(the_old_form_of_models_toml_draws_with_turbo),
        cmocka_unit_test(variants_have_the_published_defaults),
        cmocka_unit_test(a_prompt_is_cut_at_512_tokens_and_the_rest_is_counted),
        cmocka_unit_test(a_strength_of_one_leaves_nothing_of_the_picture),
        cmocka_unit_test(files_of_full_size_are_accounted_for_by_their_header),
        cmocka_unit_test(files_of_other_models_and_unknown_keys_are_refused),
        cmocka_unit_test(a_vision_encoder_has_no_place),
        cmocka_unit_test(lumina_is_told_from_its_text_width),
        cmocka_unit_test(a_part_of_a_file_of_everything_is_inspected_by_itself),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
