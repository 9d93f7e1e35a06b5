/* The networks against the recorded outputs of their reference implementations, in exact precision, on every
 * instruction set that this machine has (KUNO_CPU chooses; the build runs this program once for each). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_model.h"
#include "image/png.h"
#include "models/qwen3_text.h"
#include "models/qwen_image21.h"
#include "models/vae_qwen21.h"
#include "pipelines/vaes.h"

/* Text encoder. */

static void take_text(void *network, kn_binder *b) {
    kn_qwen3_text_load(network, b, 5e6);
    kn_ignore_outside(b, "visual.");
}

static void text_encoder_gives_every_hidden_state(void **state) {
    (void)state;
    static kn_qwen3_text m;
    bound b = bind_file("text-encoder/qwen3vl/model.safetensors", "model.language_model.", take_text, &m);
    golden g = golden_open("text-encoder/qwen3vl/io.safetensors");
    for (int i = 0; i < 3; i++) {
        char front[8], name[32];
        snprintf(front, sizeof front, "%d.", i);
        snprintf(name, sizeof name, "%d.ids", i);
        size_t n = 0;
        const int32_t *ids = golden_ints(&g, name, &n);
        struct watcher w = { .want = &g, .front = front };
        kn_run r = open_run(&w);
        kn_tensor x = kn_qwen3_text_forward(&r, &m, ids, (int64_t)n, m.layers);
        assert_int_equal(kn_elements(x), (int64_t)n * m.width);
        close_run(&r);
    }
    golden_close(&g);
    unbind(&b);
}

/* Diffusion transformer. */

static void take_transformer(void *network, kn_binder *b) {
    kn_qwen21_load(network, b);
}

/* The reference ran prefix and target as one sequence; ours shows them one after the other. What was seen in the
 * prefix' pass waits here for its second half. */
struct joint {
    const golden *want;
    int step; /* -1: the prefix pass */
    struct half {
        char name[32];
        float *at;
        size_t count;
    } half[32];
    int halves;
};

static void join(struct joint *j, kn_run *r, const struct half *first, const char *full, kn_tensor t) {
    size_t n = (size_t)kn_elements(t);
    float *all = malloc((n + first->count) * sizeof *all);
    bool zero_last = strcmp(first->name, "temb") == 0 || strcmp(first->name, "modulation") == 0;
    memcpy(all + (zero_last ? n : 0), first->at, first->count * sizeof *all); /* time rows: the level, then zero */
    kn_download(r, t, all + (zero_last ? 0 : first->count));
    golden_compare(j->want, full, all, n + first->count);
    free(all);
}

static void compare_joint(void *ctx, kn_run *r, const char *name, kn_tensor t) {
    struct joint *j = ctx;
    char full[64];
    snprintf(full, sizeof full, strncmp(name, "rope", 4) == 0 ? "%s" : "step0.%s", name);
    if (!golden_has(j->want, full) || j->step > 0)
        return;
    if (j->step < 0) {
        struct half *h = &j->half[j->halves++];
        assert_true(j->halves <= 32);
        *h = (struct half){ .count = (size_t)kn_elements(t) };
        snprintf(h->name, sizeof h->name, "%s", name);
        h->at = malloc(h->count * sizeof(float));
        kn_download(r, t, h->at);
        size_t recorded = golden_entry(j->want, full)->elements;
        if (strcmp(name, "txt_in") == 0 && recorded == h->count) /* with references it was recorded with their slots */
            golden_compare(j->want, full, h->at, h->count);
        return;
    }
    for (int i = 0; i < j->halves; i++)
        if (strcmp(j->half[i].name, name) == 0)
            join(j, r, &j->half[i], full, t);
}

static json_t *read_case(const char *folder) {
    char path[256];
    snprintf(path, sizeof path, "%s/case.json", folder);
    return golden_json(path);
}

static golden open_case_file(const char *folder, const char *file) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return golden_open(path);
}

static int grid(json_t *c, size_t i, size_t axis) {
    return (int)json_integer_value(json_array_get(json_array_get(json_object_get(c, "grids"), i), axis));
}

static void run_dit_case(const char *folder, const kn_qwen21 *m) {
    char name[64];
    print_message("  %s\n", folder);
    json_t *c = read_case(folder), *runs = json_object_get(c, "text_runs");
    golden in = open_case_file(folder, "inputs.safetensors"), want = open_case_file(folder, "expected.safetensors");
    struct joint j = { .want = &want, .step = -1 };
    kn_run r = open_run(NULL);
    r.watch = compare_joint;
    r.watch_ctx = &j;

    /* run, reference, run, reference, …, run; the last grid is the target. */
    size_t references = json_array_size(json_object_get(c, "grids")) - 1;
    int h = grid(c, references, 0), w = grid(c, references, 1);
    float *rows = malloc(sizeof(float) * 4096 * (size_t)m->channels);
    kn_qwen21_piece pieces[2 * KN_QWEN21_MAX_REFERENCES + 1] = { 0 };
    for (size_t i = 0; i <= references; i++) {
        pieces[2 * i].text_rows = json_integer_value(json_array_get(runs, i));
        if (i == references)
            break;
        kn_qwen21_piece *p = &pieces[2 * i + 1];
        *p = (kn_qwen21_piece){ .h = grid(c, i, 0), .w = grid(c, i, 1) };
        snprintf(name, sizeof name, "reference%zu", i);
        planes_to_rows(golden_floats(&in, name, NULL), m->channels, p->h * p->w, rows);
        p->latent = kn_upload(&r, 2, (int64_t[]){ p->h * p->w, m->channels }, rows);
    }
    size_t n = 0;
    const float *text = golden_floats(&in, "encoder_hidden_states", &n);
    kn_tensor embeddings = kn_upload(&r, 2, (int64_t[]){ (int64_t)n / m->text_width, m->text_width }, text);
    static kn_qwen21_prefix prefix;
    kn_qwen21_prefill(&r, m, embeddings, pieces, (int)(2 * references + 1), h, w, &prefix);

    if (golden_has(&want, "cache.layer0.k")) {
        size_t elements = (size_t)kn_elements(prefix.kv[0].k);
        float *cache = malloc(elements * sizeof *cache);
        kn_download(&r, prefix.kv[0].k, cache);
        golden_compare(&want, "cache.layer0.k", cache, elements);
        kn_download(&r, prefix.kv[0].v, cache);
        golden_compare(&want, "cache.layer0.v", cache, elements);
        free(cache);
    }
    json_t *level;
    size_t step;
    json_array_foreach(json_object_get(c, "timesteps"), step, level) {
        int64_t cells = (int64_t)h * w;
        j.step = (int)step;
        snprintf(name, sizeof name, "step%zu.latents", step);
        planes_to_rows(golden_floats(&in, name, NULL), m->channels, cells, rows);
        kn_tensor x = kn_upload(&r, 2, (int64_t[]){ cells, m->channels }, rows);
        kn_tensor v = kn_qwen21_velocity(&r, m, &prefix, x, h, w, (float)json_real_value(level));
        kn_download(&r, v, rows);
        snprintf(name, sizeof name, "step%zu.output", step);
        golden_compare(&want, name, rows, (size_t)(cells * m->channels));
        snprintf(name, sizeof name, "step%zu.output_cached", step);
        if (golden_has(&want, name))
            golden_compare(&want, name, rows, (size_t)(cells * m->channels));
    }
    close_run(&r);
    for (int i = 0; i < j.halves; i++)
        free(j.half[i].at);
    free(rows);
    golden_close(&in);
    golden_close(&want);
    json_decref(c);
}

static void transformer_equals_the_reference_in_both_namings(void **state) {
    (void)state;
    static const char *const files[] = { "qwen21-dit/weights.safetensors", "qwen21-dit/weights-diffusers.safetensors" };
    static const char *const cases[] = { "t2i", "t2i-odd", "edit1", "edit3", "edit-odd" };
    for (size_t f = 0; f < KN_COUNT(files); f++) {
        static kn_qwen21 m;
        bound b = bind_file(files[f], "", take_transformer, &m);
        for (size_t i = 0; i < KN_COUNT(cases); i++) {
            char folder[64];
            snprintf(folder, sizeof folder, "qwen21-dit/%s", cases[i]);
            run_dit_case(folder, &m);
        }
        unbind(&b);
    }
}

/* Q4_K matrices, Q8_0 for the rest, float32 arithmetic. */
static void transformer_of_a_gguf_file_equals_the_reference(void **state) {
    (void)state;
    static kn_qwen21 m;
    bound b = bind_file("gguf/qwen21-dit-q4_k/model.gguf", "", take_transformer, &m);
    assert_true(m.layer[0].q.dtype == KN_Q4_K && m.text_in.dtype == KN_Q8_0);
    run_dit_case("gguf/qwen21-dit-q4_k", &m);
    unbind(&b);
}

/* VAE. */

static void take_vae(void *network, kn_binder *b) {
    kn_vae21_load(network, b);
}

static const char *const vae_files[] = { "qwen21-vae/weights.safetensors", "qwen21-vae/weights-diffusers.safetensors" };

static void vae_decodes_as_the_reference_in_both_namings(void **state) {
    (void)state;
    golden in = golden_open("qwen21-vae/decode/inputs.safetensors");
    golden want = golden_open("qwen21-vae/decode/expected.safetensors");
    const kn_entry *z = golden_entry(&in, "normalised");
    int64_t h = (int64_t)z->dim[1], w = (int64_t)z->dim[2];
    float *rows = malloc(sizeof(float) * z->elements);
    planes_to_rows(golden_floats(&in, "normalised", NULL), KN_VAE21_CHANNELS, h * w, rows);
    for (size_t f = 0; f < KN_COUNT(vae_files); f++) {
        static kn_vae21 m;
        bound b = bind_file(vae_files[f], "", take_vae, &m);
        struct watcher watch = { .want = &want, .front = "", .picture = true };
        kn_run r = open_run(&watch);
        kn_tensor x = kn_vae21_decode(&r, &m, kn_upload(&r, 3, (int64_t[]){ h, w, KN_VAE21_CHANNELS }, rows));
        assert_int_equal(kn_elements(x), h * w * 256 * 4);
        close_run(&r);
        unbind(&b);
    }
    free(rows);
    golden_close(&in);
    golden_close(&want);
}

static void vae_encodes_as_the_reference_in_both_namings(void **state) {
    (void)state;
    golden want = golden_open("qwen21-vae/encode/expected.safetensors");
    const kn_entry *z = golden_entry(&want, "normalised");
    int64_t h = (int64_t)z->dim[1] * KN_VAE21_FACTOR, w = (int64_t)z->dim[2] * KN_VAE21_FACTOR;
    KN_AUTO_BUF file;
    golden_read("qwen21-vae/encode/image.png", &file);
    kn_image picture = { 0 };
    kn_error err = { 0 };
    assert_true(kn_png_read(file.data, file.len, &KN_IMAGE_LIMITS, &picture, &err));
    assert_int_equal(picture.width, w);
    assert_int_equal(picture.height, h);
    size_t n = (size_t)(h * w * 4);
    float *rows = malloc(sizeof(float) * n), *planes = malloc(sizeof(float) * n);
    for (size_t i = 0; i < n; i++)
        rows[i] = (float)picture.pixels[i] / 127.5f - 1;
    for (size_t f = 0; f < KN_COUNT(vae_files); f++) {
        static kn_vae21 m;
        bound b = bind_file(vae_files[f], "", take_vae, &m);
        struct watcher watch = { .want = &want, .front = "", .picture = true };
        kn_run r = open_run(&watch);
        kn_tensor x = kn_vae21_encode(&r, &m, kn_upload(&r, 3, (int64_t[]){ h, w, 4 }, rows));
        kn_download(&r, x, planes);
        float *latent = malloc(sizeof(float) * z->elements);
        rows_to_planes(planes, KN_VAE21_CHANNELS, (int64_t)z->elements / KN_VAE21_CHANNELS, latent);
        golden_compare(&want, "normalised", latent, z->elements);
        free(latent);
        close_run(&r);
        unbind(&b);
    }
    free(rows);
    free(planes);
    kn_image_free(&picture);
    golden_close(&want);
}

/* A coder of the case's tiles. */
static kn_coder tiled_coder(const char *folder, const kn_vae21 *m, kn_run *r) {
    json_t *c = read_case(folder);
    kn_coder coder = { .kind = &kn_qwen21_autoencoder,
                       .network = m,
                       .run = r,
                       .tile = (int)golden_size(c, "tile_pixels") / KN_VAE21_FACTOR,
                       .stride = (int)golden_size(c, "stride_pixels") / KN_VAE21_FACTOR };
    json_decref(c);
    return coder;
}

static void tiled_decode_blends_as_the_reference(void **state) {
    (void)state;
    static kn_vae21 m;
    bound b = bind_file(vae_files[0], "", take_vae, &m);
    golden in = golden_open("qwen21-vae/decode-tiled/inputs.safetensors");
    golden want = golden_open("qwen21-vae/decode-tiled/expected.safetensors");
    const kn_entry *z = golden_entry(&in, "normalised");
    int h = (int)z->dim[1], w = (int)z->dim[2];
    kn_run r = open_run(NULL);
    kn_coder coder = tiled_coder("qwen21-vae/decode-tiled", &m, &r);
    kn_error err = { 0 };
    float *pixels = NULL;
    assert_true(kn_decode_latent(&coder, golden_floats(&in, "normalised", NULL), h, w, &pixels, &err));
    golden_compare(&want, "image", pixels, (size_t)h * w * 256 * 4);
    free(pixels);
    coder.tile = 0;
    coder.memory_limit = UINT64_MAX;
    assert_true(kn_decode_latent(&coder, golden_floats(&in, "normalised", NULL), h, w, &pixels, &err));
    golden_compare(&want, "image_untiled", pixels, (size_t)h * w * 256 * 4);
    free(pixels);
    close_run(&r);
    golden_close(&in);
    golden_close(&want);
    unbind(&b);
}

static void tiled_encode_blends_as_the_reference(void **state) {
    (void)state;
    static kn_vae21 m;
    bound b = bind_file(vae_files[0], "", take_vae, &m);
    golden want = golden_open("qwen21-vae/encode-tiled/expected.safetensors");
    kn_image picture = read_png("qwen21-vae/encode-tiled/image.png");
    kn_run r = open_run(NULL);
    kn_coder coder = tiled_coder("qwen21-vae/encode-tiled", &m, &r);
    kn_error err = { 0 };
    float *latent = NULL;
    assert_true(kn_encode_picture(&coder, &picture, &latent, &err));
    golden_compare(&want, "normalised", latent, (size_t)picture.width * picture.height / 256 * KN_VAE21_CHANNELS);
    free(latent);
    kn_image_free(&picture);
    close_run(&r);
    golden_close(&want);
    unbind(&b);
}

/* What does not fit as a whole is done in tiles, which take no more than they may as long as they can get smaller. */
static void tiles_are_as_small_as_memory_wants_them(void **state) {
    (void)state;
    static kn_vae21 m;
    bound b = bind_file(vae_files[0], "", take_vae, &m);
    kn_run other = open_run(NULL), r;
    kn_error err = { 0 };
    uint64_t before[2] = { UINT64_MAX, UINT64_MAX };
    for (uint64_t limit = UINT64_MAX; limit > 1 << 20; limit = limit == UINT64_MAX ? (uint64_t)1 << 34 : limit / 4) {
        for (int encode = 0; encode < 2; encode++) {
            assert_true(kn_run_open_shapes(other.device, KN_EXACT, NULL, &r, &err));
            const kn_coder coder = { .kind = &kn_qwen21_autoencoder, .network = &m, .run = &r, .memory_limit = limit };
            (encode ? kn_encode_shapes : kn_decode_shapes)(&coder, 256, 192);
            uint64_t bytes = kn_run_peak_bytes(&r);
            close_run(&r);
            assert_true(bytes <= before[encode]);
            if (bytes > limit) /* 16 cells, the least */
                assert_true(limit < 64 << 20);
            before[encode] = bytes;
        }
    }
    close_run(&other);
    unbind(&b);
}

/* Where the processor has products of bfloat16. */
static void fast_precision_stays_within_its_error(void **state) {
    compute_fast(true);
    text_encoder_gives_every_hidden_state(state);
    transformer_equals_the_reference_in_both_namings(state);
    vae_decodes_as_the_reference_in_both_namings(state);
    vae_encodes_as_the_reference_in_both_namings(state);
    compute_fast(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_encoder_gives_every_hidden_state),
        cmocka_unit_test(transformer_equals_the_reference_in_both_namings),
        cmocka_unit_test(transformer_of_a_gguf_file_equals_the_reference),
        cmocka_unit_test(vae_decodes_as_the_reference_in_both_namings),
        cmocka_unit_test(vae_encodes_as_the_reference_in_both_namings),
        cmocka_unit_test(fast_precision_stays_within_its_error),
        cmocka_unit_test(tiled_decode_blends_as_the_reference),
        cmocka_unit_test(tiled_encode_blends_as_the_reference),
        cmocka_unit_test(tiles_are_as_small_as_memory_wants_them),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
