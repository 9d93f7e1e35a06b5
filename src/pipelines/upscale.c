#include "pipelines/upscale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "image/resize.h"
#include "models/mosr.h"
#include "models/rrdb.h"
#include "models/srvgg.h"
#include "pipelines/component.h"
#include "pipelines/upscale_tiles.h"

/* ---- the networks ---- */

static void take_rrdb(void *network, kn_binder *b) {
    kn_rrdb_load(network, b);
}

static kn_tensor run_rrdb(kn_run *r, const void *network, kn_tensor picture) {
    return kn_rrdb_run(r, network, picture);
}

static kn_enlarger rrdb(const void *network) {
    const kn_rrdb *m = network;
    return (kn_enlarger){ .scale = (uint32_t)m->scale, .multiple = (uint32_t)m->unshuffle };
}

static void take_srvgg(void *network, kn_binder *b) {
    kn_srvgg_load(network, b);
}

static kn_tensor run_srvgg(kn_run *r, const void *network, kn_tensor picture) {
    return kn_srvgg_run(r, network, picture);
}

static kn_enlarger srvgg(const void *network) {
    const kn_srvgg *m = network;
    return (kn_enlarger){ .scale = (uint32_t)m->scale, .multiple = 1 };
}

static void take_mosr(void *network, kn_binder *b) {
    kn_mosr_load(network, b);
}

static kn_tensor run_mosr(kn_run *r, const void *network, kn_tensor picture) {
    return kn_mosr_run(r, network, picture);
}

static kn_enlarger mosr(const void *network) {
    const kn_mosr *m = network;
    return (kn_enlarger){ .scale = (uint32_t)m->scale, .multiple = 1 };
}

/* margin: pixels around a tile beyond which hardly anything shows in it. A multiple of what any network wants. */
static const struct family {
    kn_slot slot;
    kn_enlarge_fn *run;
    kn_enlarger (*describe)(const void *network);
    uint32_t margin;
} families[] = {
    { { "upscaler", "rrdb", "an RRDBNet (ESRGAN) upscaler", sizeof(kn_rrdb), take_rrdb, NULL }, run_rrdb, rrdb, 16 },
    { { "upscaler", "srvgg", "a compact (SRVGG) upscaler", sizeof(kn_srvgg), take_srvgg, NULL }, run_srvgg, srvgg, 16 },
    { { "upscaler", "mosr", "a MoSR upscaler", sizeof(kn_mosr), take_mosr, NULL }, run_mosr, mosr, 32 },
};

struct kn_upscaler {
    const struct family *family;
    const kn_kind *kind;
    kn_device *device;
    kn_precision precision;
    void *network;
    kn_component component;
    kn_enlarger enlarger;
};

/* ---- opening ---- */

/* What a file is that is no upscaler: something else that is known, or nothing, shown by its first names. */
static bool refuse(const kn_weights *w, kn_error *err) {
    enum { SHOWN = 3 };
    char prefix[KN_PREFIX_MAX];
    const kn_kind *kind = kn_detect(w, prefix);
    if (kind)
        return kn_fail(err, KN_E_FORMAT, "the file is %s; RRDBNet (ESRGAN), SRVGG and MoSR enlarge pictures",
                       kind->title);
    KN_AUTO_BUF names;
    kn_buf_init(&names, 1024);
    for (size_t i = 0; i < kn_weights_count(w) && i < SHOWN; i++)
        if (!kn_buf_printf(&names, "%s'%s'", i ? ", " : "", kn_quote_z(kn_weights_at(w, i)->name).text))
            break;
    return kn_fail(err, KN_E_FORMAT, "the file is no RRDBNet (ESRGAN), SRVGG or MoSR network; its tensors are %s%s",
                   names.len ? names.data : "none", kn_weights_count(w) > SHOWN ? " and others" : "");
}

static bool find_family(const char *path, kn_upscaler *u, kn_error *err) {
    kn_weights *w = NULL;
    char prefix[KN_PREFIX_MAX];
    if (!kn_weights_open(path, &w, err))
        return false;
    u->kind = kn_detect_role(w, KN_ROLE_UPSCALER, prefix);
    for (size_t i = 0; u->kind && i < KN_COUNT(families); i++)
        if (strcmp(u->kind->id, families[i].slot.id) == 0)
            u->family = &families[i];
    bool ok = u->family || refuse(w, err);
    kn_weights_close(w);
    return ok;
}

bool kn_upscaler_open(const char *path, kn_device *device, kn_precision precision, kn_upscaler **ret, kn_error *err) {
    const kn_source source = { .path = path };
    kn_upscaler *u = calloc(1, sizeof *u);
    if (!u)
        return kn_fail_nomem(err, sizeof *u);
    *u = (kn_upscaler){ .device = device, .precision = precision };
    bool ok = find_family(path, u, err);
    if (!ok) {
        kn_fail_within(err, "'%s'", kn_quote_path(path).text);
        kn_fail_within(err, "upscaler");
    } else {
        u->network = calloc(1, u->family->slot.network_bytes);
        ok = u->network || kn_fail_nomem(err, u->family->slot.network_bytes);
    }
    if (!ok || !kn_component_open(&u->component, &u->family->slot, &source, u->network, err)) {
        kn_upscaler_close(u);
        return false;
    }
    u->enlarger = u->family->describe(u->network);
    u->enlarger.run = u->family->run;
    u->enlarger.network = u->network;
    u->enlarger.margin = u->family->margin;
    *ret = u;
    return true;
}

void kn_upscaler_close(kn_upscaler *u) {
    if (!u)
        return;
    kn_component_close(&u->component);
    free(u->network);
    free(u);
}

bool kn_upscaler_is_current(const kn_upscaler *u) {
    return kn_component_is_current(&u->component);
}

kn_upscaler_facts kn_upscaler_about(const kn_upscaler *u) {
    return (kn_upscaler_facts){ .kind = u->kind, .scale = u->enlarger.scale, .weight_bytes = u->component.bytes };
}

/* ---- memory ---- */

static uint64_t bytes_for(const kn_upscaler *u, const kn_tiles *t) {
    kn_run shapes;
    if (!kn_run_open_shapes(u->device, u->precision, NULL, &shapes, NULL))
        return UINT64_MAX;
    kn_enlarge_shapes(&shapes, &u->enlarger, t);
    uint64_t bytes = shapes.err.code == KN_OK ? kn_run_peak_bytes(&shapes) : UINT64_MAX;
    kn_run_close(&shapes);
    return bytes;
}

uint64_t kn_upscaler_tile_bytes(const kn_upscaler *u, uint32_t side) {
    const uint32_t with_margins = side + 2 * u->enlarger.margin;
    return bytes_for(u, &(kn_tiles){ with_margins, with_margins, side, side, NULL, NULL, NULL, NULL, NULL });
}

/* n in as few equal parts of at most `most` as there can be, rounded up to what networks want. */
static uint32_t even_part(uint32_t n, uint32_t most) {
    uint32_t parts = (n + most - 1) / most, part = (n + parts - 1) / parts;
    return (part + KN_UPSCALE_TILE_STEP - 1) / KN_UPSCALE_TILE_STEP * KN_UPSCALE_TILE_STEP;
}

/* The largest tiles that fit: the fewer, the less is computed twice. */
static bool choose_tiles(const kn_upscaler *u, const kn_upscale_wish *wish, kn_tiles *t, kn_error *err) {
    static const uint32_t sides[] = { 768, 512, 384, 256, 192, 128, 96, 64, 32, KN_UPSCALE_TILE_MIN };
    const uint64_t most = 1ull << 30; /* larger tiles would hardly be faster */
    uint64_t available = kn_memory_available(), limit = KN_MIN(available / 2, most), bytes = 0;
    if (wish->tile) {
        t->tile_width = t->tile_height = wish->tile;
        return true;
    }
    for (size_t i = 0; i < KN_COUNT(sides); i++) {
        t->tile_width = even_part(t->width, sides[i]);
        t->tile_height = even_part(t->height, sides[i]);
        bytes = bytes_for(u, t);
        if (bytes <= limit)
            return true;
    }
    return kn_fail(err, KN_E_NOMEM, "upscaler: the smallest tile needs %s, %s are free", kn_bytes(bytes).text,
                   kn_bytes(available).text);
}

/* ---- one pass ---- */

/* 8-bit pictures on both sides. */
struct canvas {
    const kn_image *from;
    kn_image to; /* RGB */
};

static void take_pixels(void *ctx, uint32_t y, uint32_t x, uint32_t n, float *to) {
    const struct canvas *c = ctx;
    const uint8_t *pixel = c->from->pixels + ((size_t)y * c->from->width + x) * c->from->channels;
    for (uint32_t i = 0; i < n; i++, pixel += c->from->channels)
        for (int k = 0; k < 3; k++)
            *to++ = (float)pixel[k] / 255;
}

static void put_pixels(void *ctx, uint32_t y, uint32_t x, uint32_t n, const float *from) {
    const struct canvas *c = ctx;
    uint8_t *to = c->to.pixels + ((size_t)y * c->to.width + x) * 3;
    for (size_t i = 0; i < (size_t)n * 3; i++)
        to[i] = (uint8_t)lrintf(fminf(fmaxf(from[i], 0), 1) * 255);
}

static bool run_tiles(const kn_upscaler *u, const kn_upscale_wish *wish, const kn_tiles *t, kn_upscale_report *report,
                      kn_error *err) {
    kn_run r;
    if (!kn_run_open(u->device, u->precision, wish->stop, 0, &r, err))
        return false;
    bool ok = kn_enlarge_tiles(&r, &u->enlarger, t, err);
    uint64_t peak = kn_run_peak_bytes(&r);
    report->peak_bytes = KN_MAX(report->peak_bytes, peak);
    report->products += r.products;
    kn_run_close(&r);
    return ok;
}

/* The picture at scale times its size, in its place. */
static bool enlarge(const kn_upscaler *u, const kn_upscale_wish *wish, kn_image *picture, kn_upscale_report *report,
                    kn_error *err) {
    struct canvas c = { .from = picture };
    kn_tiles t = { .width = picture->width,
                   .height = picture->height,
                   .take = take_pixels,
                   .put = put_pixels,
                   .ctx = &c,
                   .progress = wish->progress,
                   .progress_ctx = wish->progress_ctx };
    uint32_t scale = u->enlarger.scale;
    if (!choose_tiles(u, wish, &t, err) ||
        !kn_image_new(picture->width * scale, picture->height * scale, 3, &c.to, err))
        return false;
    if (!run_tiles(u, wish, &t, report, err)) {
        kn_image_free(&c.to);
        return false;
    }
    report->passes++;
    report->tiles += (int)kn_tiles_count(&t);
    report->tile_width = t.tile_width;
    report->tile_height = t.tile_height;
    kn_image_free(picture);
    *picture = c.to;
    return true;
}

/* ---- all of it ---- */

/* Where a network would make more than it may, or more than is wanted of it if so asked, the picture is shrunk first.
 */
static bool shrink(const kn_upscaler *u, const kn_upscale_wish *wish, kn_image *picture, kn_upscale_report *report,
                   kn_error *err) {
    const double larger = M_SQRT2; /* than wanted: what is reduced afterwards looks sharper than what is not */
    double wide = (double)picture->width * u->enlarger.scale, high = (double)picture->height * u->enlarger.scale;
    double most = KN_UPSCALE_NETWORK_SIDE / KN_MAX(wide, high), by = 1;
    if (wish->prescale || most < 1)
        by = KN_MIN(by, larger * KN_MAX(wish->width / wide, wish->height / high));
    by = KN_MIN(by, most);
    if (by >= 1)
        return true;
    kn_image small = { 0 };
    report->shrunk_width = (uint32_t)fmax(rint(picture->width * by), 1);
    report->shrunk_height = (uint32_t)fmax(rint(picture->height * by), 1);
    if (!kn_image_resize(picture, report->shrunk_width, report->shrunk_height, &small, err))
        return false;
    kn_image_free(picture);
    *picture = small;
    return true;
}

/* The colours alone, as a network sees them. */
static bool copy_colours(const kn_image *from, kn_image *ret, kn_error *err) {
    if (!kn_image_new(from->width, from->height, 3, ret, err))
        return false;
    for (size_t i = 0, n = (size_t)from->width * from->height; i < n; i++)
        memcpy(ret->pixels + 3 * i, from->pixels + from->channels * i, 3);
    return true;
}

static bool resize_to(kn_image *picture, uint32_t width, uint32_t height, kn_error *err) {
    kn_image resized = { 0 };
    if (picture->width == width && picture->height == height)
        return true;
    if (!kn_image_resize(picture, width, height, &resized, err))
        return false;
    kn_image_free(picture);
    *picture = resized;
    return true;
}

/* *ret: RGB at the size that is wanted. */
static bool enlarge_by_network(kn_upscaler *u, const kn_image *from, const kn_upscale_wish *wish, kn_image *ret,
                               kn_upscale_report *report, kn_error *err) {
    enum { MOST_PASSES = 3 };
    kn_image picture = { 0 };
    double start = kn_now();
    if (!kn_component_load(&u->component, err))
        return false;
    report->load_seconds = kn_now() - start;
    report->weight_bytes = u->component.bytes;
    if (wish->progress && !wish->progress(wish->progress_ctx, "load", 0, 0))
        return kn_fail(err, KN_E_CANCELLED, "cancelled");
    bool ok = copy_colours(from, &picture, err), small = true;
    for (int i = 0; ok && small && i < MOST_PASSES; i++) {
        ok = shrink(u, wish, &picture, report, err) && enlarge(u, wish, &picture, report, err);
        small = u->enlarger.scale > 1 && (picture.width < wish->width || picture.height < wish->height);
    }
    ok = ok && resize_to(&picture, wish->width, wish->height, err);
    if (ok)
        *ret = picture;
    else
        kn_image_free(&picture);
    return ok;
}

/* Into the colours of `to`, which has their alpha already, or opaque pixels. */
static void mix(kn_image *to, const kn_image *network, double share_of_own) {
    const uint8_t *from = network->pixels;
    uint8_t *pixel = to->pixels;
    for (size_t i = 0, n = (size_t)to->width * to->height; i < n; i++, pixel += to->channels, from += 3)
        for (int k = 0; k < 3; k++)
            pixel[k] = (uint8_t)lrint(pixel[k] * share_of_own + from[k] * (1 - share_of_own));
}

static bool is_opaque(const kn_image *picture) {
    bool opaque = true;
    for (size_t i = 0, n = (size_t)picture->width * picture->height; opaque && picture->channels == 4 && i < n; i++)
        opaque = picture->pixels[4 * i + 3] == 255;
    return opaque;
}

static bool check(const kn_image *from, const kn_upscale_wish *wish, kn_error *err) {
    if (wish->width < 1 || wish->height < 1 || wish->width > KN_UPSCALE_SIDE || wish->height > KN_UPSCALE_SIDE)
        return kn_fail(err, KN_E_RANGE, "%ux%u enlarged is %ux%u; a side has 1 to %d pixels", from->width, from->height,
                       wish->width, wish->height, KN_UPSCALE_SIDE);
    if (!(wish->blend >= 0 && wish->blend <= 1))
        return kn_fail(err, KN_E_RANGE, "blend %g is outside 0 to 1", wish->blend);
    bool fits = wish->tile % KN_UPSCALE_TILE_STEP == 0 && wish->tile <= KN_UPSCALE_TILE_MAX &&
                (!wish->tile || wish->tile >= KN_UPSCALE_TILE_MIN);
    return fits || kn_fail(err, KN_E_RANGE, "a tile of %u pixels; %d to %d are possible, in steps of %d", wish->tile,
                           KN_UPSCALE_TILE_MIN, KN_UPSCALE_TILE_MAX, KN_UPSCALE_TILE_STEP);
}

/* Lanczos's result: it gives the alpha, a share of the colours, or everything. */
static bool enlarge_plainly(const kn_image *from, const kn_upscale_wish *wish, kn_image *ret, kn_error *err) {
    kn_image colours = { 0 };
    if (!is_opaque(from))
        return kn_image_resize(from, wish->width, wish->height, ret, err);
    if (!copy_colours(from, &colours, err))
        return false;
    bool ok = kn_image_resize(&colours, wish->width, wish->height, ret, err);
    kn_image_free(&colours);
    return ok;
}

bool kn_upscale(kn_upscaler *u, const kn_image *from, const kn_upscale_wish *wish, kn_image *ret,
                kn_upscale_report *report, kn_error *err) {
    const double least = 1.1; /* below, a network does no better */
    double start = kn_now();
    *report = (kn_upscale_report){ 0 };
    if (!check(from, wish, err))
        return false;
    double factor = KN_MAX((double)wish->width / from->width, (double)wish->height / from->height);
    bool by_network = u && (factor >= least || u->enlarger.scale == 1);
    kn_image network = { 0 }, plain = { 0 };
    bool ok = !by_network || enlarge_by_network(u, from, wish, &network, report, err);
    if (ok && by_network && wish->blend == 0 && is_opaque(from)) {
        plain = network;
    } else {
        ok = ok && enlarge_plainly(from, wish, &plain, err);
        if (ok && by_network)
            mix(&plain, &network, wish->blend);
        kn_image_free(&network);
    }
    if (ok)
        *ret = plain;
    report->seconds = kn_now() - start;
    return ok;
}
