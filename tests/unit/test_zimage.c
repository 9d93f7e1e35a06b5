/* Z-Image and its parts against the recorded outputs of the reference implementations, in exact precision: each network
 * by itself, then whole pictures; and which files the networks take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "models/qwen3_text.h"
#include "models/vae_flux.h"
#include "models/zimage.h"
#include "safetensors_maker.h"

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
        char front[8], name[32];
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
    char front[8], name[32];
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
        char front[8], name[32];
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_encoder_gives_every_hidden_state_but_the_last),
        cmocka_unit_test(transformer_equals_the_reference_in_both_namings),
        cmocka_unit_test(vae_equals_the_reference),
        cmocka_unit_test(vae_is_the_same_under_the_names_of_diffusers),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
