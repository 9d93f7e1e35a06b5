#include "golden_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/png.h"

static kn_device *device;

int open_device(void **state) {
    (void)state;
    kn_error err = { 0 };
    if (!kn_device_open_cpu(2, &device, &err))
        return -1;
    print_message("  kernels: %s\n", kn_device_kernels(device));
    return 0;
}

int close_device(void **state) {
    (void)state;
    kn_device_close(device);
    return 0;
}

static bool is_listed(const char *const *names, const char *name) {
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static void compare_watched(void *ctx, kn_run *r, const char *name, kn_tensor t) {
    struct watcher *w = ctx;
    char full[128];
    snprintf(full, sizeof full, "%s%s", w->front, name);
    if (!golden_has(w->want, full))
        return;
    w->compared++;
    size_t n = (size_t)kn_elements(t);
    int64_t channels = w->picture ? KN_MAX(kn_last_dim(t), 1) : 1;
    float *got = malloc(n * sizeof *got), *planes = malloc(n * sizeof *planes);
    kn_download(r, t, got);
    rows_to_planes(got, channels, (int64_t)n / channels, planes);
    if (is_listed(w->first_parts, name))
        golden_compare_start(w->want, full, planes, n);
    else
        golden_compare(w->want, full, planes, n);
    free(got);
    free(planes);
}

static kn_precision precision = KN_EXACT;

void compute_fast(bool fast) {
    precision = fast ? KN_FAST : KN_EXACT;
    golden_allow(fast ? 3e-2 : 0);
}

kn_run open_run(struct watcher *w) {
    kn_run r;
    kn_error err = { 0 };
    assert_true(kn_run_open(device, precision, NULL, 0, &r, &err));
    if (w) {
        r.watch = compare_watched;
        r.watch_ctx = w;
    }
    return r;
}

void close_run(kn_run *r) {
    if (r->err.code != KN_OK)
        fail_msg("%s", r->err.text);
    kn_run_close(r);
}

kn_model *open_model(const kn_model_wish *wish) {
    kn_model *m = NULL;
    kn_error err = { 0 };
    if (!kn_model_open(wish, &m, &err))
        fail_msg("%s", err.text);
    return m;
}

kn_image read_png(const char *path_below_data) {
    KN_AUTO_BUF file;
    golden_read(path_below_data, &file);
    kn_image picture = { 0 };
    kn_error err = { 0 };
    if (!kn_png_read(file.data, file.len, &KN_IMAGE_LIMITS, &picture, &err))
        fail_msg("%s: %s", path_below_data, err.text);
    return picture;
}

void read_start(const char *folder, const json_t *request, kn_wish *wish, kn_image ret[2]) {
    char path[256];
    if (!json_object_get(request, "strength"))
        return;
    snprintf(path, sizeof path, "%s/input.png", folder);
    ret[0] = read_png(path);
    wish->init_image = &ret[0];
    wish->strength = (kn_optional){ true, golden_number(request, "strength") };
    if (!json_object_get(request, "mask"))
        return;
    snprintf(path, sizeof path, "%s/mask.png", folder);
    ret[1] = read_png(path);
    wish->inpaint.mask = &ret[1];
}

/* A picture without alpha is opaque. */
static int value_at(const kn_image *picture, size_t pixel, unsigned channel) {
    return channel < picture->channels ? picture->pixels[pixel * picture->channels + channel] : 255;
}

void compare_pictures(const kn_image *got, const kn_image *want, int most, double least_psnr) {
    assert_int_equal(got->width, want->width);
    assert_int_equal(got->height, want->height);
    assert_int_equal(want->channels, 4);
    size_t n = (size_t)want->width * want->height * 4;
    int worst = 0;
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        int d = abs(value_at(got, i / 4, (unsigned)(i % 4)) - want->pixels[i]);
        worst = KN_MAX(worst, d);
        squares += d * d;
    }
    double psnr = squares > 0 ? 10 * log10(255.0 * 255.0 * (double)n / squares) : INFINITY;
    print_message("    pixels differ by at most %d, PSNR %.1f dB\n", worst, psnr);
    assert_true(worst <= most);
    assert_true(psnr >= least_psnr);
}

kn_image draw(kn_model *m, const kn_wish *wish, const kn_hooks *hooks, kn_draw_report *report) {
    kn_settings settings;
    kn_image picture = { 0 };
    kn_draw_report unseen;
    kn_error err = { 0 };
    const kn_model_choice *c = &m->choice;
    if (!kn_settings_make(wish, &c->defaults, c->architecture, c->variant, &settings, &err) ||
        !kn_pipeline_draw(m->pipeline, &settings.recipe, hooks, &picture, report ? report : &unseen, &err))
        fail_msg("%s", err.text);
    kn_settings_free(&settings);
    return picture;
}
