/* Upscalers against the recorded outputs of their reference implementations, and what is promised around them: tiles
 * without seams, exact sizes, transparency, bounds on memory, and refusals before anything is allocated. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_model.h"
#include "image/resize.h"
#include "models/mosr.h"
#include "models/rrdb.h"
#include "models/srvgg.h"
#include "pipelines/upscale.h"
#include "pipelines/upscale_tiles.h"
#include "safetensors_maker.h"

static kn_device *device;

static int open_own_device(void **state) {
    kn_error err = { 0 };
    return open_device(state) || !kn_device_open_cpu(2, &device, &err);
}

static int close_own_device(void **state) {
    kn_device_close(device);
    return close_device(state);
}

/* ---- recorded outputs ---- */

static kn_rrdb rrdb;
static kn_srvgg srvgg;
static kn_mosr mosr;

static void take_rrdb(void *network, kn_binder *b) {
    kn_rrdb_load(network, b);
}

static void take_srvgg(void *network, kn_binder *b) {
    kn_srvgg_load(network, b);
}

static void take_mosr(void *network, kn_binder *b) {
    kn_mosr_load(network, b);
}

static kn_tensor run_rrdb(kn_run *r, const void *network, kn_tensor picture) {
    return kn_rrdb_run(r, network, picture);
}

static kn_tensor run_srvgg(kn_run *r, const void *network, kn_tensor picture) {
    return kn_srvgg_run(r, network, picture);
}

static kn_tensor run_mosr(kn_run *r, const void *network, kn_tensor picture) {
    return kn_mosr_run(r, network, picture);
}

static const char *const cases[] = {
    "rrdb-x4-old", "rrdb-x4-new", "rrdb-x4-bsrgan",    "rrdb-x4-wide",      "rrdb-x1-old",
    "rrdb-x2-old", "rrdb-x8-old", "rrdb-x2-unshuffle", "rrdb-x1-unshuffle", "compact-x2",
    "compact-x4",  "mosr-x4-ps",  "mosr-x4-dys",       "mosr-x2-gps",       "mosr-x2-dys",
};

struct path {
    char text[128];
};

static struct path path_of(const char *name, const char *file) {
    struct path p;
    snprintf(p.text, sizeof p.text, "upscalers/%s/%s", name, file);
    return p;
}

/* A case's network; bound until unbind. */
static kn_enlarger enlarger_of(const char *name, const json_t *c, bound *ret) {
    const char *family = golden_text(c, "family");
    struct path file = path_of(name, "weights.safetensors");
    kn_enlarger e = { .multiple = 1 };
    if (strcmp(family, "rrdb") == 0) {
        *ret = bind_file(file.text, "", take_rrdb, &rrdb);
        e = (kn_enlarger){ run_rrdb, &rrdb, (uint32_t)rrdb.scale, (uint32_t)rrdb.unshuffle, 0 };
    } else if (strcmp(family, "compact") == 0) {
        *ret = bind_file(file.text, "", take_srvgg, &srvgg);
        e = (kn_enlarger){ run_srvgg, &srvgg, (uint32_t)srvgg.scale, 1, 0 };
    } else {
        assert_string_equal(family, "mosr");
        *ret = bind_file(file.text, "", take_mosr, &mosr);
        e = (kn_enlarger){ run_mosr, &mosr, (uint32_t)mosr.scale, 1, 0 };
    }
    assert_int_equal(e.scale, golden_size(c, "scale"));
    return e;
}

/* Planes on both sides, as the references have them. */
struct planes {
    const float *from;
    float *to;
    uint32_t width, height, scale;
};

static void take_planes(void *ctx, uint32_t y, uint32_t x, uint32_t n, float *to) {
    const struct planes *p = ctx;
    assert_true(y < p->height && x < p->width && n <= p->width - x);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < 3; c++)
            *to++ = p->from[((size_t)c * p->height + y) * p->width + x + i];
}

static void put_planes(void *ctx, uint32_t y, uint32_t x, uint32_t n, const float *from) {
    const struct planes *p = ctx;
    size_t width = (size_t)p->width * p->scale, height = (size_t)p->height * p->scale;
    assert_true(y < height && x < width && n <= width - x);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < 3; c++)
            p->to[(c * height + y) * width + x + i] = *from++;
}

static float *enlarge(kn_run *r, const kn_enlarger *e, const float *from, uint32_t width, uint32_t height,
                      uint32_t tile) {
    struct planes p = { from, calloc((size_t)3 * width * height * e->scale * e->scale, sizeof(float)), width, height,
                        e->scale };
    const kn_tiles t = { width, height, tile, tile, take_planes, put_planes, &p, NULL, NULL };
    kn_error err = { 0 };
    assert_non_null(p.to);
    if (!kn_enlarge_tiles(r, e, &t, &err))
        fail_msg("%s", err.text);
    return p.to;
}

static float *planes_of(const kn_image *picture) {
    size_t n = (size_t)picture->width * picture->height;
    float *planes = malloc(3 * n * sizeof *planes);
    assert_non_null(planes);
    for (size_t i = 0; i < 3 * n; i++)
        planes[i] = (float)picture->pixels[i % n * picture->channels + i / n] / 255;
    return planes;
}

static void every_network_gives_the_recorded_pixels(void **state) {
    (void)state;
    kn_image picture = read_png("upscalers/image.png");
    float *from = planes_of(&picture);
    for (size_t i = 0; i < KN_COUNT(cases); i++) {
        bound b = { 0 };
        json_t *c = golden_json(path_of(cases[i], "case.json").text);
        kn_enlarger e = enlarger_of(cases[i], c, &b);
        golden want = golden_open(path_of(cases[i], "expected.safetensors").text);
        kn_run r = open_run(NULL);
        float *got = enlarge(&r, &e, from, picture.width, picture.height, 1024);
        print_message("  %s\n", cases[i]);
        golden_compare_within(&want, "output", got, (size_t)3 * picture.width * picture.height * e.scale * e.scale,
                              golden_number(json_object_get(c, "tolerance"), "rel_l2"));
        free(got);
        close_run(&r);
        golden_close(&want);
        unbind(&b);
        json_decref(c);
    }
    free(from);
    kn_image_free(&picture);
}

/* Fast precision against float32: docs/performance.md has this as its error. */
static void fast_precision_stays_within_its_error(void **state) {
    (void)state;
    kn_image picture = read_png("upscalers/image.png");
    float *from = planes_of(&picture);
    size_t pixels = (size_t)picture.width * picture.height;
    for (size_t i = 0; i < KN_COUNT(cases); i++) {
        bound b = { 0 };
        json_t *c = golden_json(path_of(cases[i], "case.json").text);
        kn_enlarger e = enlarger_of(cases[i], c, &b);
        golden want = golden_open(path_of(cases[i], "expected.safetensors").text);
        kn_run r = open_run(NULL);
        r.precision = KN_FAST;
        float *got = enlarge(&r, &e, from, picture.width, picture.height, 1024);
        golden_compare_within(&want, "output", got, 3 * pixels * e.scale * e.scale, 2e-2);
        free(got);
        close_run(&r);
        golden_close(&want);
        unbind(&b);
        json_decref(c);
    }
    free(from);
    kn_image_free(&picture);
}

/* A case's further picture, which is in a file of its own, enlarged in tiles. tile 0: in one. */
static void compare_further(const char *name, const char *which, const char *margin, const char *tile) {
    bound b = { 0 };
    json_t *c = golden_json(path_of(name, "case.json").text);
    kn_enlarger e = enlarger_of(name, c, &b);
    golden g = golden_open(path_of(name, golden_text(c, which)).text);
    const kn_entry *input = golden_entry(&g, "input");
    uint32_t height = (uint32_t)input->dim[1], width = (uint32_t)input->dim[2];
    e.margin = margin ? (uint32_t)golden_size(c, margin) : 0;
    kn_run r = open_run(NULL);
    float *got = enlarge(&r, &e, golden_floats(&g, "input", NULL), width, height,
                         tile ? (uint32_t)golden_size(c, tile) : KN_MAX(width, height));
    golden_compare_within(&g, "output", got, (size_t)3 * width * height * e.scale * e.scale,
                          golden_number(json_object_get(c, "tolerance"), "rel_l2"));
    free(got);
    close_run(&r);
    golden_close(&g);
    unbind(&b);
    json_decref(c);
}

static void tiles_are_those_of_the_reference(void **state) {
    (void)state;
    compare_further("rrdb-x4-new", "tiled", "margin", "tile");
    compare_further("mosr-x4-dys", "tiled", "margin", "tile");
}

static void a_picture_of_several_bands_is_that_of_the_reference(void **state) {
    (void)state;
    compare_further("rrdb-x4-wide", "tall", NULL, NULL);
}

/* Of the same rows from another one on, the bands begin elsewhere. Two blocks see 33 rows far. */
static void bands_leave_no_trace(void **state) {
    (void)state;
    static const char *const names[] = { "rrdb-x1-old", "rrdb-x2-old", "rrdb-x2-unshuffle", "rrdb-x4-wide",
                                         "rrdb-x8-old" };
    enum { WIDTH = 6, HEIGHT = 100, CUT = 20, SEEN = 34, MOST = 2 };
    float from[3 * MOST * HEIGHT * MOST * WIDTH];
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        bound b = { 0 };
        json_t *c = golden_json(path_of(names[i], "case.json").text);
        kn_enlarger e = enlarger_of(names[i], c, &b);
        uint32_t times = e.multiple, width = WIDTH * times, height = HEIGHT * times, rest = height - CUT * times;
        assert_true(times <= MOST);
        for (size_t k = 0; k < (size_t)3 * width * height; k++)
            from[k] = (float)(k * 7919 % 256) / 255;
        float lower[3 * MOST * HEIGHT * MOST * WIDTH];
        for (size_t plane = 0; plane < 3; plane++)
            memcpy(lower + plane * rest * width, from + (plane * height + CUT * times) * width,
                   (size_t)rest * width * sizeof *lower);
        kn_run r = open_run(NULL);
        float *whole = enlarge(&r, &e, from, width, height, height);
        float *part = enlarge(&r, &e, lower, width, rest, height);
        size_t row = (size_t)width * e.scale, first = (size_t)SEEN * times * e.scale;
        for (size_t plane = 0; plane < 3; plane++) {
            size_t rows = (size_t)rest * e.scale;
            assert_memory_equal(part + (plane * rows + first) * row,
                                whole + (plane * height * e.scale + CUT * times * e.scale + first) * row,
                                (rows - first) * row * sizeof *part);
        }
        free(part);
        free(whole);
        close_run(&r);
        unbind(&b);
        json_decref(c);
    }
}

/* A compact network of n convolutions sees n pixels far. */
static void tiles_have_no_seam_where_the_margin_covers_what_is_seen(void **state) {
    (void)state;
    bound b = { 0 };
    json_t *c = golden_json("upscalers/compact-x2/case.json");
    kn_enlarger e = enlarger_of("compact-x2", c, &b);
    enum { WIDTH = 37, HEIGHT = 29, PIXELS = WIDTH * HEIGHT };
    float from[3 * PIXELS];
    for (size_t i = 0; i < 3 * PIXELS; i++)
        from[i] = (float)(i * 7919 % 256) / 255;
    kn_run r = open_run(NULL);
    float *whole = enlarge(&r, &e, from, WIDTH, HEIGHT, 64);
    for (uint32_t tile = 1; tile <= 16; tile += 5) {
        e.margin = (uint32_t)srvgg.convs;
        float *got = enlarge(&r, &e, from, WIDTH, HEIGHT, tile);
        assert_true(golden_distance(whole, got, (size_t)3 * PIXELS * 4) < 1e-6);
        free(got);
        e.margin--; /* one pixel less is not enough: the measure would see a seam */
        got = enlarge(&r, &e, from, WIDTH, HEIGHT, tile);
        assert_true(golden_distance(whole, got, (size_t)3 * PIXELS * 4) > 1e-5);
        free(got);
    }
    free(whole);
    close_run(&r);
    unbind(&b);
    json_decref(c);
}

/* ---- pictures ---- */

static kn_upscaler *open_upscaler_of(const char *name, kn_precision precision) {
    kn_upscaler *u = NULL;
    kn_error err = { 0 };
    if (!kn_upscaler_open(golden_path(path_of(name, "weights.safetensors").text).path, device, precision, &u, &err))
        fail_msg("%s", err.text);
    return u;
}

/* Noise, with alpha that varies if channels are 4 and `opaque` is not said. */
static kn_image noise(uint32_t width, uint32_t height, unsigned channels, bool opaque) {
    kn_image picture = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_new(width, height, channels, &picture, &err));
    uint32_t state = 12345;
    for (size_t i = 0; i < (size_t)width * height * channels; i++) {
        state = state * 1664525 + 1013904223;
        picture.pixels[i] = (uint8_t)(opaque && i % 4 == 3 ? 255 : state >> 24);
    }
    return picture;
}

static kn_image upscale(kn_upscaler *u, const kn_image *from, const kn_upscale_wish *wish, kn_upscale_report *report) {
    kn_image to = { 0 };
    kn_upscale_report unseen;
    kn_error err = { 0 };
    if (!kn_upscale(u, from, wish, &to, report ? report : &unseen, &err))
        fail_msg("%s", err.text);
    assert_int_equal(to.width, wish->width);
    assert_int_equal(to.height, wish->height);
    return to;
}

static void assert_same(const kn_image *a, const kn_image *b) {
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->channels, b->channels);
    assert_memory_equal(a->pixels, b->pixels, (size_t)a->width * a->height * a->channels);
}

static void pixels_are_the_recorded_values_rounded(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("rrdb-x4-new", KN_EXACT);
    kn_image from = read_png("upscalers/image.png");
    golden want = golden_open("upscalers/rrdb-x4-new/expected.safetensors");
    const float *planes = golden_floats(&want, "output", NULL);
    kn_image to = upscale(u, &from, &(kn_upscale_wish){ .width = 4 * from.width, .height = 4 * from.height }, NULL);
    assert_int_equal(to.channels, 3);
    size_t n = (size_t)to.width * to.height;
    for (size_t i = 0; i < 3 * n; i++) {
        double value = 255 * fmin(fmax(planes[i % 3 * n + i / 3], 0), 1);
        assert_true(fabs(to.pixels[i] - value) <= 0.51);
    }
    golden_close(&want);
    kn_image_free(&from);
    kn_image_free(&to);
    kn_upscaler_close(u);
}

static void a_size_between_is_reduced_by_lanczos(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("compact-x4", KN_EXACT);
    kn_image from = noise(20, 14, 3, true), exact = { 0 };
    kn_error err = { 0 };
    kn_upscale_report report;
    kn_image full = upscale(u, &from, &(kn_upscale_wish){ .width = 80, .height = 56 }, NULL);
    kn_image to = upscale(u, &from, &(kn_upscale_wish){ .width = 53, .height = 31 }, &report);
    assert_int_equal(report.passes, 1);
    assert_true(kn_image_resize(&full, 53, 31, &exact, &err));
    assert_same(&to, &exact);
    kn_image_free(&exact);
    kn_image_free(&to);
    kn_image_free(&full);
    kn_image_free(&from);
    kn_upscaler_close(u);
}

static void below_a_factor_of_1_1_and_without_a_network_it_is_lanczos_alone(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("compact-x2", KN_EXACT);
    kn_image from = noise(40, 30, 3, true), want = { 0 };
    kn_error err = { 0 };
    kn_upscale_report report;
    static const uint32_t sizes[][2] = { { 43, 32 }, { 20, 30 }, { 40, 30 } };
    for (size_t i = 0; i < KN_COUNT(sizes); i++)
        for (int with = 0; with < 2; with++) {
            const kn_upscale_wish wish = { .width = sizes[i][0], .height = sizes[i][1] };
            kn_image to = upscale(with ? u : NULL, &from, &wish, &report);
            assert_int_equal(report.passes, 0);
            assert_true(kn_image_resize(&from, sizes[i][0], sizes[i][1], &want, &err));
            assert_same(&to, &want);
            kn_image_free(&want);
            kn_image_free(&to);
        }
    kn_image to = upscale(u, &from, &(kn_upscale_wish){ .width = 44, .height = 30 }, &report);
    assert_int_equal(report.passes, 1);
    kn_image_free(&to);
    kn_image_free(&from);
    kn_upscaler_close(u);
}

static void blend_mixes_with_lanczos(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("compact-x2", KN_EXACT);
    kn_image from = noise(16, 12, 3, true);
    kn_image network = upscale(u, &from, &(kn_upscale_wish){ .width = 32, .height = 24 }, NULL);
    kn_image plain = upscale(NULL, &from, &(kn_upscale_wish){ .width = 32, .height = 24 }, NULL);
    kn_image all = upscale(u, &from, &(kn_upscale_wish){ .width = 32, .height = 24, .blend = 1 }, NULL);
    kn_image some = upscale(u, &from, &(kn_upscale_wish){ .width = 32, .height = 24, .blend = 0.25 }, NULL);
    assert_same(&all, &plain);
    for (size_t i = 0; i < (size_t)32 * 24 * 3; i++)
        assert_int_equal(some.pixels[i], lrint(0.25 * plain.pixels[i] + 0.75 * network.pixels[i]));
    kn_image_free(&some);
    kn_image_free(&all);
    kn_image_free(&plain);
    kn_image_free(&network);
    kn_image_free(&from);
    kn_upscaler_close(u);
}

static void transparency_is_lanczos_and_colours_are_the_network_s(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("compact-x2", KN_EXACT);
    kn_image from = noise(18, 11, 4, false), colours = noise(18, 11, 3, true);
    for (size_t i = 0; i < (size_t)18 * 11; i++)
        memcpy(colours.pixels + 3 * i, from.pixels + 4 * i, 3);
    const kn_upscale_wish wish = { .width = 36, .height = 22 };
    kn_image to = upscale(u, &from, &wish, NULL), opaque = upscale(u, &colours, &wish, NULL);
    kn_image plain = upscale(NULL, &from, &wish, NULL);
    assert_int_equal(to.channels, 4);
    for (size_t i = 0; i < (size_t)36 * 22; i++) {
        assert_memory_equal(to.pixels + 4 * i, opaque.pixels + 3 * i, 3);
        assert_int_equal(to.pixels[4 * i + 3], plain.pixels[4 * i + 3]);
    }
    kn_image_free(&plain);
    kn_image_free(&opaque);
    kn_image_free(&to);
    kn_image_free(&colours);
    kn_image_free(&from);
    kn_upscaler_close(u);
}

static void an_opaque_picture_stays_without_alpha(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("compact-x2", KN_EXACT);
    kn_image from = noise(18, 11, 4, true);
    kn_image to = upscale(u, &from, &(kn_upscale_wish){ .width = 36, .height = 22 }, NULL);
    kn_image plain = upscale(NULL, &from, &(kn_upscale_wish){ .width = 36, .height = 22 }, NULL);
    assert_int_equal(to.channels, 3);
    assert_int_equal(plain.channels, 3);
    kn_image_free(&plain);
    kn_image_free(&to);
    kn_image_free(&from);
    kn_upscaler_close(u);
}

static void what_is_still_too_small_goes_through_again(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("compact-x2", KN_EXACT);
    kn_image from = noise(9, 7, 3, true);
    kn_upscale_report report;
    kn_image twice = upscale(u, &from, &(kn_upscale_wish){ .width = 18, .height = 14 }, NULL);
    kn_image want = upscale(u, &twice, &(kn_upscale_wish){ .width = 36, .height = 28 }, NULL);
    kn_image to = upscale(u, &from, &(kn_upscale_wish){ .width = 36, .height = 28 }, &report);
    assert_int_equal(report.passes, 2);
    assert_same(&to, &want);
    kn_image_free(&to);
    to = upscale(u, &from, &(kn_upscale_wish){ .width = 900, .height = 700 }, &report);
    assert_int_equal(report.passes, 3); /* the rest is Lanczos's */
    kn_image_free(&to);
    kn_image_free(&want);
    kn_image_free(&twice);
    kn_image_free(&from);
    kn_upscaler_close(u);
}

static void prescale_has_the_network_make_1_41_times_what_is_wanted(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("compact-x4", KN_FAST);
    kn_image from = noise(100, 60, 3, true);
    kn_upscale_report report;
    kn_upscale_wish wish = { .width = 200, .height = 120 };
    kn_image to = upscale(u, &from, &wish, &report);
    assert_int_equal(report.shrunk_width, 0);
    kn_image_free(&to);
    wish.prescale = true;
    to = upscale(u, &from, &wish, &report);
    assert_int_equal(report.shrunk_width, 71); /* 200 * 1.414 / 4 */
    assert_int_equal(report.shrunk_height, 42);
    kn_image_free(&to);
    wish.width = 400; /* nothing to gain */
    wish.height = 240;
    to = upscale(u, &from, &wish, &report);
    assert_int_equal(report.shrunk_width, 0);
    kn_image_free(&to);
    kn_image_free(&from);
    kn_upscaler_close(u);
}

/* ---- bounds ---- */

static void memory_of_a_tile_does_not_grow_with_the_picture(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("rrdb-x4-new", KN_FAST);
    kn_image small = noise(96, 96, 3, true), large = noise(320, 200, 3, true);
    kn_upscale_report of_small, of_large;
    kn_upscale_wish wish = { .width = 192, .height = 192, .tile = 32 };
    kn_image to = upscale(u, &small, &wish, &of_small);
    kn_image_free(&to);
    assert_int_equal(of_small.tiles, 9);
    wish.width = 640;
    wish.height = 400;
    to = upscale(u, &large, &wish, &of_large);
    kn_image_free(&to);
    assert_int_equal(of_large.tiles, 70);
    assert_int_equal(of_large.peak_bytes, of_small.peak_bytes);
    assert_int_equal(of_large.peak_bytes, kn_upscaler_tile_bytes(u, 32)); /* as it was planned */
    kn_image_free(&small);
    kn_image_free(&large);
    kn_upscaler_close(u);
}

static void what_a_network_would_make_too_large_is_shrunk_before(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("compact-x4", KN_FAST);
    kn_image from = noise(3100, 4, 3, true);
    kn_upscale_report report;
    kn_image to = upscale(u, &from, &(kn_upscale_wish){ .width = 4000, .height = 16 }, &report);
    assert_int_equal(report.passes, 1);
    assert_in_range(report.shrunk_width, 1000, KN_UPSCALE_NETWORK_SIDE / 4);
    kn_image_free(&to);
    kn_image_free(&from);
    kn_upscaler_close(u);
}

static void refuses_wishes_that_cannot_be(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("compact-x2", KN_FAST);
    kn_image from = noise(8, 8, 3, true), to = { 0 };
    kn_upscale_report report;
    static const struct {
        kn_upscale_wish wish;
        const char *says;
    } rows[] = {
        { { .width = 8193, .height = 1 }, "8x8 enlarged is 8193x1; a side has 1 to 8192 pixels" },
        { { .width = 16, .height = 0 }, "16x0" },
        { { .width = 16, .height = 16, .blend = 1.5 }, "blend 1.5 is outside 0 to 1" },
        { { .width = 16, .height = 16, .blend = NAN }, "blend nan is outside 0 to 1" },
        { { .width = 16, .height = 16, .tile = 12 }, "a tile of 12 pixels; 16 to 2048 are possible, in steps of 4" },
        { { .width = 16, .height = 16, .tile = 18 }, "a tile of 18 pixels" },
        { { .width = 16, .height = 16, .tile = 4096 }, "a tile of 4096 pixels" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_error err = { 0 };
        assert_false(kn_upscale(u, &from, &rows[i].wish, &to, &report, &err));
        if (!strstr(err.text, rows[i].says))
            fail_msg("'%s' does not say '%s'", err.text, rows[i].says);
    }
    kn_image_free(&from);
    kn_upscaler_close(u);
}

struct told {
    int loads, tiles, last, of, stop_at;
};

static bool count(void *ctx, const char *phase, int step, int steps) {
    struct told *t = ctx;
    if (strcmp(phase, "load") == 0) {
        t->loads++;
        return true;
    }
    assert_string_equal(phase, "tile");
    assert_int_equal(step, t->tiles++); /* 0, 1, 2, … */
    t->last = step;
    t->of = steps;
    return step != t->stop_at;
}

static void tells_each_tile_and_stops_when_asked(void **state) {
    (void)state;
    kn_upscaler *u = open_upscaler_of("compact-x2", KN_FAST);
    kn_image from = noise(64, 40, 3, true), none = { 0 };
    struct told told = { .stop_at = -1 };
    kn_upscale_wish wish = { .width = 128, .height = 80, .tile = 16, .progress = count, .progress_ctx = &told };
    kn_image to = upscale(u, &from, &wish, NULL);
    kn_image_free(&to);
    assert_int_equal(told.loads, 1);
    assert_int_equal(told.last, 12);
    assert_int_equal(told.of, 12);

    told = (struct told){ .stop_at = 3 };
    kn_upscale_report report;
    kn_error err = { 0 };
    assert_false(kn_upscale(u, &from, &wish, &none, &report, &err));
    assert_int_equal(err.code, KN_E_CANCELLED);
    assert_int_equal(told.last, 3);

    atomic_bool stop;
    atomic_init(&stop, true);
    wish.progress = NULL;
    wish.stop = &stop;
    err = (kn_error){ 0 };
    assert_false(kn_upscale(u, &from, &wish, &none, &report, &err));
    assert_int_equal(err.code, KN_E_CANCELLED);
    assert_null(none.pixels);
    kn_image_free(&from);
    kn_upscaler_close(u);
}

/* ---- files ---- */

/* A compact network of two convolutions; `front` stands before each name. */
static void make_compact(maker *m, const char *front, const char *dtype, const void *first) {
    size_t item = strcmp(dtype, "F32") == 0 ? 4 : 2;
    char name[64];
    snprintf(name, sizeof name, "%sbody.0.weight", front);
    make_tensor(m, name, dtype, "2,3,3,3", first, 54 * item);
    snprintf(name, sizeof name, "%sbody.0.bias", front);
    make_zeros(m, name, dtype, "2", 2 * item);
    snprintf(name, sizeof name, "%sbody.1.weight", front);
    make_zeros(m, name, dtype, "2", 2 * item);
    snprintf(name, sizeof name, "%sbody.2.weight", front);
    make_zeros(m, name, dtype, "12,2,3,3", 216 * item);
    snprintf(name, sizeof name, "%sbody.2.bias", front);
    make_zeros(m, name, dtype, "12", 12 * item);
}

/* Opens a file made of these; the error's text if it cannot be opened. */
static kn_error try_open(maker *m, kn_upscaler_facts *facts) {
    kn_buf file;
    char path[TEMP_PATH];
    kn_error err = { 0 };
    kn_upscaler *u = NULL;
    make_end(m, &file);
    int fd = make_temp(&file, path);
    if (kn_upscaler_open(path, device, KN_FAST, &u, &err) && facts)
        *facts = kn_upscaler_about(u);
    kn_upscaler_close(u);
    unlink(path);
    close(fd);
    kn_buf_free(&file);
    return err;
}

static const uint8_t zeros[4096];

static void reads_every_wrapping_and_float_format(void **state) {
    (void)state;
    static const char *const fronts[] = { "", "params.", "params_ema.", "state_dict.", "module." };
    static const char *const dtypes[] = { "F32", "F16", "BF16" };
    for (size_t i = 0; i < KN_COUNT(fronts); i++)
        for (size_t t = 0; t < KN_COUNT(dtypes); t++) {
            maker m;
            kn_upscaler_facts facts = { 0 };
            make_begin(&m);
            make_compact(&m, fronts[i], dtypes[t], zeros);
            kn_error err = try_open(&m, &facts);
            if (err.code)
                fail_msg("%s%s: %s", fronts[i], dtypes[t], err.text);
            assert_int_equal(facts.scale, 2);
            assert_true(facts.kind && strcmp(facts.kind->id, "srvgg") == 0);
        }
}

static void smoothed_weights_are_preferred(void **state) {
    (void)state;
    maker m;
    kn_upscaler_facts facts = { 0 };
    make_begin(&m);
    make_compact(&m, "params.", "F32", zeros);
    make_compact(&m, "params_ema.", "F16", zeros);
    kn_error err = try_open(&m, &facts);
    if (err.code)
        fail_msg("%s", err.text);
    assert_int_equal(facts.weight_bytes, 2 * (54 + 2 + 2 + 216 + 12)); /* the F16 ones */
}

static void assert_refused(maker *m, const char *says) {
    kn_error err = try_open(m, NULL);
    if (!err.code || !strstr(err.text, says))
        fail_msg("'%s' does not say '%s'", err.text, says);
    if (strncmp(err.text, "upscaler", 8) != 0)
        fail_msg("'%s' does not say that it is about the upscaler", err.text);
}

static void refuses_what_is_no_upscaler_and_shows_its_first_names(void **state) {
    (void)state;
    maker m;
    make_begin(&m);
    make_zeros(&m, "layers.0.attn.weight", "F32", "2,2", 16);
    make_zeros(&m, "body.0.weight", "F32", "2,3,3,3", 216); /* a compact network without slopes */
    make_zeros(&m, "body.2.weight", "F32", "12,2,3,3", 864);
    make_zeros(&m, "body.2.bias", "F32", "12", 48);
    assert_refused(&m, "no RRDBNet (ESRGAN), SRVGG or MoSR network; its tensors are 'body.0.weight', 'body.2.bias', "
                       "'body.2.weight' and others");
}

static void names_what_an_esrgan_plus_file_has_too_much(void **state) {
    (void)state;
    golden g = golden_open("upscalers/rrdb-x1-old/weights.safetensors");
    maker m;
    make_begin(&m);
    for (size_t i = 0; i < kn_weights_count(g.file); i++)
        make_copy(&m, kn_weights_at(g.file, i)->name, kn_weights_at(g.file, i));
    make_zeros(&m, "model.1.sub.0.RDB1.conv1x1.weight", "F32", "1,1,1,1", 4);
    assert_refused(&m, "'model.1.sub.0.RDB1.conv1x1.weight'");
    golden_close(&g);
}

/* Each tensor that a file may have in a shape of its own. */
static void refuse_reshaped(const char *name, const char *tensor, const char *shape, size_t len, const char *says) {
    golden g = golden_open(path_of(name, "weights.safetensors").text);
    maker m;
    make_begin(&m);
    for (size_t i = 0; i < kn_weights_count(g.file); i++) {
        const kn_entry *e = kn_weights_at(g.file, i);
        if (strcmp(e->name, tensor) == 0)
            make_zeros(&m, tensor, "BF16", shape, len);
        else
            make_copy(&m, e->name, e);
    }
    assert_refused(&m, says);
    golden_close(&g);
}

static void refuses_hostile_shapes_before_anything_is_allocated(void **state) {
    (void)state;
    refuse_reshaped("rrdb-x1-old", "model.0.weight", "8,5,3,3", 720, "5 channels going in and 0 doublings");
    refuse_reshaped("rrdb-x1-old", "model.0.weight", "8,27,3,3", 3888, "27 channels going in");
    refuse_reshaped("rrdb-x1-old", "model.0.weight", "8,12,3,3", 1728, "12 channels going in and 0 doublings");
    refuse_reshaped("rrdb-x1-old", "model.4.weight", "4,8,3,3", 576, "'model.4.weight'");
    refuse_reshaped("compact-x2", "body.0.weight", "0,3,3,3", 0, "body.0.weight");
    refuse_reshaped("mosr-x2-gps", "upsampler.in_to_k.weight", "0,16,3,3", 0, "upsampler.in_to_k.weight");
    refuse_reshaped("mosr-x2-gps", "gblocks.1.conv.weight", "16,1,4,4", 512, "a window of 4x4 has no middle");
    refuse_reshaped("mosr-x2-gps", "gblocks.1.conv.weight", "16,2,7,7", 3136, "gblocks.1.conv.weight");
    refuse_reshaped("mosr-x2-dys", "upsampler.scope.weight", "16,16,1,1", 512, "upsampler.scope.weight");
    refuse_reshaped("mosr-x2-dys", "upsampler.init_pos", "1,8,1,1", 16, "upsampler.init_pos");
}

static void names_the_picture_model_that_is_given_instead(void **state) {
    (void)state;
    kn_upscaler *u = NULL;
    kn_error err = { 0 };
    assert_false(kn_upscaler_open(golden_path("qwen21-vae/weights.safetensors").path, device, KN_FAST, &u, &err));
    assert_non_null(strstr(err.text, "the file is a Qwen-Image 2.1 VAE; RRDBNet (ESRGAN), SRVGG and MoSR enlarge"));
}

static void refuses_pickles_and_says_what_to_use(void **state) {
    (void)state;
    char path[TEMP_PATH];
    kn_buf zip;
    kn_upscaler *u = NULL;
    kn_error err = { 0 };
    kn_buf_init(&zip, 100);
    assert_true(kn_buf_add(&zip, "PK\x03\x04 and so on, as torch.save writes it", 40));
    int fd = make_temp(&zip, path);
    assert_false(kn_upscaler_open(path, device, KN_FAST, &u, &err));
    assert_int_equal(err.code, KN_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "these pickle formats can run code and are refused; use a safetensors file"));
    unlink(path);
    close(fd);
    kn_buf_free(&zip);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network_gives_the_recorded_pixels),
        cmocka_unit_test(fast_precision_stays_within_its_error),
        cmocka_unit_test(tiles_are_those_of_the_reference),
        cmocka_unit_test(a_picture_of_several_bands_is_that_of_the_reference),
        cmocka_unit_test(bands_leave_no_trace),
        cmocka_unit_test(tiles_have_no_seam_where_the_margin_covers_what_is_seen),
        cmocka_unit_test(pixels_are_the_recorded_values_rounded),
        cmocka_unit_test(a_size_between_is_reduced_by_lanczos),
        cmocka_unit_test(below_a_factor_of_1_1_and_without_a_network_it_is_lanczos_alone),
        cmocka_unit_test(blend_mixes_with_lanczos),
        cmocka_unit_test(transparency_is_lanczos_and_colours_are_the_network_s),
        cmocka_unit_test(an_opaque_picture_stays_without_alpha),
        cmocka_unit_test(what_is_still_too_small_goes_through_again),
        cmocka_unit_test(prescale_has_the_network_make_1_41_times_what_is_wanted),
        cmocka_unit_test(memory_of_a_tile_does_not_grow_with_the_picture),
        cmocka_unit_test(what_a_network_would_make_too_large_is_shrunk_before),
        cmocka_unit_test(refuses_wishes_that_cannot_be),
        cmocka_unit_test(tells_each_tile_and_stops_when_asked),
        cmocka_unit_test(reads_every_wrapping_and_float_format),
        cmocka_unit_test(smoothed_weights_are_preferred),
        cmocka_unit_test(refuses_what_is_no_upscaler_and_shows_its_first_names),
        cmocka_unit_test(names_what_an_esrgan_plus_file_has_too_much),
        cmocka_unit_test(refuses_hostile_shapes_before_anything_is_allocated),
        cmocka_unit_test(names_the_picture_model_that_is_given_instead),
        cmocka_unit_test(refuses_pickles_and_says_what_to_use),
    };
    return cmocka_run_group_tests(tests, open_own_device, close_own_device);
}
