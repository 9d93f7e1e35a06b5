#include "pipelines/autoencoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One direction with what goes in. Sizes and places are in cells of the latent, whichever side that is. */
struct coding {
    const kn_coder *coder;
    kn_coder_fn *run;
    const void *from;
    int h, w;
    int in_side, out_side; /* values that a cell is wide, in what goes in and what comes out */
    int in_channels, out_channels;
    void (*take)(const struct coding *c, int y0, int x0, int h, int w, float *rows); /* [h, w, channels] of a piece */
    const char *result;
};

/* From planes. */
static void take_latent(const struct coding *c, int y0, int x0, int h, int w, float *rows) {
    const float *latent = c->from;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int k = 0; k < c->in_channels; k++)
                *rows++ = latent[((size_t)k * c->h + y0 + y) * c->w + x0 + x];
}

static void take_pixels(const struct coding *c, int y0, int x0, int h, int w, float *rows) {
    const kn_image *picture = c->from;
    size_t n = (size_t)w * c->in_side * picture->channels;
    for (int y = 0; y < h * c->in_side; y++) {
        size_t row = (size_t)y0 * c->in_side + y, column = (size_t)x0 * c->in_side;
        const uint8_t *pixels = picture->pixels + (row * picture->width + column) * picture->channels;
        for (size_t i = 0; i < n; i++)
            *rows++ = (float)pixels[i] / 127.5f - 1;
    }
}

static struct coding encoding(const kn_coder *c, const kn_image *picture, int h, int w) {
    const kn_autoencoder *k = c->kind;
    return (struct coding){ .coder = c,
                            .run = k->encode,
                            .from = picture,
                            .h = h,
                            .w = w,
                            .in_side = k->factor,
                            .out_side = 1,
                            .in_channels = k->channels,
                            .out_channels = k->latent_channels,
                            .take = take_pixels,
                            .result = "VAE latent" };
}

static struct coding decoding(const kn_coder *c, const float *latent, int h, int w) {
    const kn_autoencoder *k = c->kind;
    return (struct coding){ .coder = c,
                            .run = k->decode,
                            .from = latent,
                            .h = h,
                            .w = w,
                            .in_side = 1,
                            .out_side = k->factor,
                            .in_channels = k->latent_channels,
                            .out_channels = k->channels,
                            .take = take_latent,
                            .result = "VAE output" };
}

/* A piece of what comes out: [channels][h][w]. */
struct piece {
    float *at;
    int h, w;
};

static bool code_piece(const struct coding *c, int y0, int x0, int h, int w, struct piece *ret, kn_error *err) {
    kn_run *r = c->coder->run;
    size_t cells = (size_t)h * w, in = cells * c->in_side * c->in_side * c->in_channels;
    size_t places = cells * c->out_side * c->out_side, out = places * c->out_channels;
    float *rows = malloc(sizeof(float) * KN_MAX(in, out)), *planes = calloc(out, sizeof *planes);
    bool ok = (rows && planes) || kn_fail_nomem(err, sizeof(float) * (KN_MAX(in, out) + out));
    if (ok) {
        const int64_t dim[] = { (int64_t)h * c->in_side, (int64_t)w * c->in_side, c->in_channels };
        kn_scope s = kn_scope_open(r);
        c->take(c, y0, x0, h, w, rows);
        kn_tensor result = c->run(r, c->coder->network, kn_upload(r, 3, dim, rows));
        kn_check_finite(r, result, c->result);
        kn_download(r, result, rows);
        kn_scope_close(r, s, KN_NONE);
        ok = r->err.code == KN_OK;
        if (!ok)
            *err = r->err;
    }
    for (size_t i = 0; ok && i < places; i++)
        for (int k = 0; k < c->out_channels; k++)
            planes[k * places + i] = rows[i * c->out_channels + k];
    free(rows);
    if (ok)
        *ret = (struct piece){ .at = planes, .h = h * c->out_side, .w = w * c->out_side };
    else
        free(planes);
    return ok;
}

/* The first rows of `low` fade in from the last rows of `up`. */
static void blend_down(const struct piece *up, struct piece *low, int channels, int overlap) {
    int n = KN_MIN(overlap, KN_MIN(up->h, low->h));
    for (int c = 0; c < channels; c++) {
        for (int y = 0; y < n; y++) {
            const float *a = up->at + ((size_t)c * up->h + up->h - n + y) * up->w;
            float *b = low->at + ((size_t)c * low->h + y) * low->w;
            float k = (float)y / (float)n;
            for (int x = 0; x < low->w; x++)
                b[x] = a[x] * (1 - k) + b[x] * k;
        }
    }
}

static void blend_right(const struct piece *left, struct piece *here, int channels, int overlap) {
    int n = KN_MIN(overlap, KN_MIN(left->w, here->w));
    for (int c = 0; c < channels; c++) {
        for (int y = 0; y < here->h; y++) {
            const float *a = left->at + ((size_t)c * left->h + y) * left->w + left->w - n;
            float *b = here->at + ((size_t)c * here->h + y) * here->w;
            for (int x = 0; x < n; x++) {
                float k = (float)x / (float)n;
                b[x] = a[x] * (1 - k) + b[x] * k;
            }
        }
    }
}

/* Cells on a side of the tiles, and from one to the next. */
struct tiling {
    int tile, stride;
};

/* What comes out as a whole while its tiles come in. */
struct mosaic {
    struct piece whole;
    int channels, step, overlap;
};

/* above, left: NULL at the edge. */
static void lay(struct mosaic *m, int row, int column, const struct piece *above, const struct piece *left,
                struct piece *here) {
    if (above)
        blend_down(above, here, m->channels, m->overlap);
    if (left)
        blend_right(left, here, m->channels, m->overlap);
    int h = KN_MIN(m->step, here->h), w = KN_MIN(m->step, here->w);
    for (int c = 0; c < m->channels; c++) {
        for (int y = 0; y < h; y++) {
            size_t to = ((size_t)c * m->whole.h + (size_t)row * m->step + y) * m->whole.w + (size_t)column * m->step;
            memcpy(m->whole.at + to, here->at + ((size_t)c * here->h + y) * here->w, sizeof(float) * w);
        }
    }
}

static bool code_tiles(const struct coding *c, struct tiling t, struct piece *ret, kn_error *err) {
    int tile = t.tile, stride = t.stride;
    int rows = (c->h + stride - 1) / stride, columns = (c->w + stride - 1) / stride;
    struct mosaic m = { .whole = { .h = c->h * c->out_side, .w = c->w * c->out_side },
                        .channels = c->out_channels,
                        .step = stride * c->out_side,
                        .overlap = (tile - stride) * c->out_side };
    size_t n = (size_t)m.whole.h * m.whole.w * m.channels;
    m.whole.at = calloc(n, sizeof *m.whole.at);
    /* Two rows of tiles are alive at a time: each is blended with the one above and the one to its left. */
    struct piece *pieces = calloc((size_t)columns * 2, sizeof *pieces);
    bool ok = (m.whole.at && pieces) || kn_fail_nomem(err, sizeof(float) * n);
    for (int i = 0; ok && i < rows; i++) {
        struct piece *above = pieces + (size_t)((i + 1) % 2) * columns, *here = pieces + (size_t)(i % 2) * columns;
        for (int j = 0; ok && j < columns; j++) {
            free(here[j].at);
            here[j].at = NULL;
            ok = code_piece(c, i * stride, j * stride, KN_MIN(tile, c->h - i * stride), KN_MIN(tile, c->w - j * stride),
                            &here[j], err);
            if (ok)
                lay(&m, i, j, i ? &above[j] : NULL, j ? &here[j - 1] : NULL, &here[j]);
        }
    }
    for (int j = 0; pieces && j < 2 * columns; j++)
        free(pieces[j].at);
    free(pieces);
    if (ok)
        *ret = m.whole;
    else
        free(m.whole.at);
    return ok;
}

/* What a piece takes. */
static uint64_t bytes_for(const struct coding *c, int h, int w) {
    const kn_run *r = c->coder->run;
    const int64_t dim[] = { (int64_t)h * c->in_side, (int64_t)w * c->in_side, c->in_channels };
    kn_run shapes;
    kn_error err = { 0 };
    if (!kn_run_open_shapes(r->device, r->precision, r->stop, &shapes, &err))
        return UINT64_MAX;
    c->run(&shapes, c->coder->network, kn_new(&shapes, 3, dim));
    uint64_t bytes = shapes.err.code == KN_OK ? kn_run_peak_bytes(&shapes) : UINT64_MAX;
    kn_run_close(&shapes);
    return bytes;
}

/* Tiles of 0 cells: it fits as a whole. Else the largest square that fits; an eighth of it overlaps. */
static struct tiling choose_tiling(const struct coding *c) {
    uint64_t limit = c->coder->memory_limit;
    int tile = 64;
    if (c->coder->tile && KN_MAX(c->h, c->w) > c->coder->tile)
        return (struct tiling){ c->coder->tile, c->coder->stride };
    if (limit == UINT64_MAX || bytes_for(c, c->h, c->w) <= limit)
        return (struct tiling){ 0, 0 };
    while (tile > 16 && bytes_for(c, KN_MIN(tile, c->h), KN_MIN(tile, c->w)) > limit)
        tile /= 2;
    return (struct tiling){ tile, tile - tile / 8 };
}

static bool code(const struct coding *c, struct piece *ret, kn_error *err) {
    struct tiling t = choose_tiling(c);
    return t.tile ? code_tiles(c, t, ret, err) : code_piece(c, 0, 0, c->h, c->w, ret, err);
}

static void follow(const struct coding *c) {
    struct tiling t = choose_tiling(c);
    int64_t h = t.tile ? KN_MIN(t.tile, c->h) : c->h, w = t.tile ? KN_MIN(t.tile, c->w) : c->w;
    kn_run *r = c->coder->run;
    kn_scope s = kn_scope_open(r);
    c->run(r, c->coder->network, kn_new(r, 3, (int64_t[]){ h * c->in_side, w * c->in_side, c->in_channels }));
    kn_scope_close(r, s, KN_NONE);
}

bool kn_encode_picture(const kn_coder *c, const kn_image *picture, float **ret, kn_error *err) {
    int factor = c->kind->factor;
    struct coding e = encoding(c, picture, (int)picture->height / factor, (int)picture->width / factor);
    struct piece latent = { 0 };
    if (!code(&e, &latent, err))
        return false;
    *ret = latent.at;
    return true;
}

bool kn_decode_latent(const kn_coder *c, const float *latent, int h, int w, float **ret, kn_error *err) {
    struct coding d = decoding(c, latent, h, w);
    struct piece picture = { 0 };
    if (!code(&d, &picture, err))
        return false;
    size_t n = (size_t)picture.h * picture.w * d.out_channels;
    for (size_t i = 0; i < n; i++) /* after blending, as the references do it */
        picture.at[i] = fminf(fmaxf(picture.at[i], -1), 1);
    *ret = picture.at;
    return true;
}

void kn_encode_shapes(const kn_coder *c, int h, int w) {
    struct coding e = encoding(c, NULL, h, w);
    follow(&e);
}

void kn_decode_shapes(const kn_coder *c, int h, int w) {
    struct coding d = decoding(c, NULL, h, w);
    follow(&d);
}

bool kn_image_from_planes(const float *planes, int channels, int height, int width, kn_image *ret, kn_error *err) {
    size_t n = (size_t)height * width;
    uint8_t *pixels = malloc(n * channels);
    if (!pixels)
        return kn_fail_nomem(err, n * channels);
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < channels; c++)
            pixels[i * channels + c] = (uint8_t)lrintf((planes[c * n + i] / 2 + 0.5f) * 255);
    *ret = (kn_image){
        .width = (uint32_t)width, .height = (uint32_t)height, .channels = (unsigned)channels, .pixels = pixels
    };
    return true;
}
