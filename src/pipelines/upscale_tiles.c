#include "pipelines/upscale_tiles.h"

#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 3 };

/* On one axis: what a tile gives, and what it sees for that. The latter may end beyond the picture, where that is no
 * multiple of what the network wants. */
struct span {
    uint32_t from, to, seen_from, seen_to;
};

static uint32_t whole(uint32_t n, uint32_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

static struct span span_of(const kn_enlarger *e, uint32_t from, uint32_t tile, uint32_t n) {
    uint32_t end = whole(n, e->multiple);
    struct span s = { .from = from, .to = KN_MIN(tile, n - from) + from };
    s.seen_from = from - KN_MIN(e->margin, from);
    s.seen_to = KN_MIN(end, from + tile + e->margin);
    return s;
}

/* Place i, from n on, of a picture that goes on as its mirror image. */
static uint32_t mirrored(uint32_t i, uint32_t n) {
    return i < n ? i : 2 * (n - 1) - KN_MIN(i, 2 * (n - 1));
}

static void take(const kn_tiles *t, struct span v, struct span h, float *to) {
    size_t width = h.seen_to - h.seen_from, inside = KN_MIN(h.seen_to, t->width) - h.seen_from;
    for (uint32_t y = v.seen_from; y < v.seen_to; y++, to += width * CHANNELS) {
        t->take(t->ctx, mirrored(y, t->height), h.seen_from, (uint32_t)inside, to);
        for (size_t x = inside; x < width; x++) {
            size_t from = mirrored((uint32_t)(h.seen_from + x), t->width) - h.seen_from;
            memcpy(to + x * CHANNELS, to + from * CHANNELS, CHANNELS * sizeof *to);
        }
    }
}

static void put(const kn_tiles *t, uint32_t scale, struct span v, struct span h, const float *from) {
    size_t width = (size_t)(h.seen_to - h.seen_from) * scale;
    for (uint32_t y = v.from * scale; y < v.to * scale; y++)
        t->put(t->ctx, y, h.from * scale, (h.to - h.from) * scale,
               from + ((y - v.seen_from * scale) * width + (h.from - h.seen_from) * scale) * CHANNELS);
}

static uint32_t parts(uint32_t n, uint32_t tile) {
    return (n + tile - 1) / tile;
}

uint32_t kn_tiles_count(const kn_tiles *t) {
    return parts(t->height, t->tile_height) * parts(t->width, t->tile_width);
}

/* values: room for what goes in and for what comes out. */
static bool enlarge_tile(kn_run *r, const kn_enlarger *e, const kn_tiles *t, struct span v, struct span h,
                         float *values) {
    kn_scope s = kn_scope_open(r);
    take(t, v, h, values);
    const int64_t dim[] = { v.seen_to - v.seen_from, h.seen_to - h.seen_from, CHANNELS };
    kn_tensor out = e->run(r, e->network, kn_upload(r, 3, dim, values));
    kn_check_finite(r, out, "the upscaler's result");
    kn_download(r, out, values);
    kn_scope_close(r, s, KN_NONE);
    if (r->err.code != KN_OK)
        return false;
    put(t, e->scale, v, h, values);
    return true;
}

/* Pixels of the largest tile with its margins. */
static uint32_t most(const kn_enlarger *e, uint32_t tile, uint32_t n) {
    return KN_MIN(whole(n, e->multiple), tile + 2 * e->margin);
}

static bool tell(const kn_tiles *t, int done, kn_error *err) {
    return !t->progress || t->progress(t->progress_ctx, "tile", done, (int)kn_tiles_count(t)) ||
           kn_fail(err, KN_E_CANCELLED, "cancelled");
}

bool kn_enlarge_tiles(kn_run *r, const kn_enlarger *e, const kn_tiles *t, kn_error *err) {
    size_t in = (size_t)most(e, t->tile_height, t->height) * most(e, t->tile_width, t->width) * CHANNELS;
    int done = 0;
    float *values = malloc(in * e->scale * e->scale * sizeof *values);
    bool ok = (values || kn_fail_nomem(err, in * e->scale * e->scale * sizeof *values)) && tell(t, 0, err);
    for (uint32_t y = 0; ok && y < t->height; y += t->tile_height)
        for (uint32_t x = 0; ok && x < t->width; x += t->tile_width) {
            struct span v = span_of(e, y, t->tile_height, t->height), h = span_of(e, x, t->tile_width, t->width);
            ok = enlarge_tile(r, e, t, v, h, values);
            if (!ok)
                *err = r->err;
            ok = ok && tell(t, ++done, err);
        }
    free(values);
    return ok;
}

void kn_enlarge_shapes(kn_run *shapes, const kn_enlarger *e, const kn_tiles *t) {
    const int64_t dim[] = { most(e, t->tile_height, t->height), most(e, t->tile_width, t->width), CHANNELS };
    kn_scope s = kn_scope_open(shapes);
    e->run(shapes, e->network, kn_new(shapes, 3, dim));
    kn_scope_close(shapes, s, KN_NONE);
}
