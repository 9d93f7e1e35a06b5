/* Krea 2 and its parts against the recorded outputs of the reference implementations, in exact precision: each network
 * by itself, then whole pictures; and which files the networks take. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_model.h"
#include "models/krea2.h"
#include "models/vae_wan.h"

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
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i += 2) {
        size_t angle = i / (2 * half * heads) * half + i / 2 % half;
        float a = want[i] * cos[angle] - want[i + 1] * sin[angle];
        want[i + 1] = want[i] * sin[angle] + want[i + 1] * cos[angle];
        want[i] = a;
    }
    for (size_t i = 0; i < n; i++) {
        difference += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    print_message("    %-32s relative L2 %.2e\n", full, sqrt(difference / size));
    assert_true(difference <= 1e-8 * size);
    free(want);
}

struct forward {
    const golden *want;
    char front[8];
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
    assert_int_equal(f.seen, 18); /* every recorded intermediate */
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

static void vae_equals_the_reference_in_both_namings(void **state) {
    (void)state;
    static const char *const files[] = { "krea2/models/qwen_image_vae.safetensors",
                                         "krea2/models/qwen_image_vae_diffusers.safetensors" };
    static const char *const first_parts[] = { "moments", NULL }; /* the means; log variances are not computed */
    golden g = golden_open("krea2/vae/io.safetensors");
    for (size_t f = 0; f < KN_COUNT(files); f++) {
        static kn_vae_wan m;
        print_message("  %s\n", files[f]);
        bound b = bind_file(files[f], "", take_vae, &m);
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
    golden_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transformer_equals_the_reference_in_both_namings),
        cmocka_unit_test(vae_equals_the_reference_in_both_namings),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
