#include "pipelines/decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A decoded piece: [channels][h][w]. */
struct tile {
    float *at;
    int h, w;
};

/* Decodes the cells y0 … y0 + h of a latent of full height and width H, W. */
static bool decode_part(const kn_decoder *d, kn_run *r, const float *latent, int full_h, int full_w, int y0, int x0,
                        int h, int w, struct tile *ret, kn_error *err) {
    int channels = d->latent_channels;
    size_t cells = (size_t)h * w, pixels = cells * d->factor * d->factor;
    float *rows = malloc(sizeof(float) * KN_MAX(cells * channels, pixels * d->channels));
    float *planes = malloc(sizeof(float) * pixels * d->channels);
    bool ok = rows && planes;
    if (!ok) {
        kn_fail_nomem(err, sizeof(float) * pixels * d->channels * 2);
        goto done;
    }
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < channels; c++)
                rows[((size_t)y * w + x) * channels + c] = latent[((size_t)c * full_h + y0 + y) * full_w + x0 + x];

    kn_scope s = kn_scope_open(r);
    kn_tensor out = d->decode(r, d->ctx, kn_upload(r, 3, (int64_t[]){ h, w, channels }, rows));
    kn_check_finite(r, out, "VAE output");
    kn_download(r, out, rows);
    kn_scope_close(r, s, KN_NONE);
    ok = r->err.code == KN_OK;
    if (!ok) {
        *err = r->err;
        goto done;
    }
    for (size_t i = 0; i < pixels; i++)
        for (int c = 0; c < d->channels; c++)
            planes[c * pixels + i] = rows[i * d->channels + c];
    *ret = (struct tile){ .at = planes, .h = h * d->factor, .w = w * d->factor };
    planes = NULL;
done:
    free(rows);
    free(planes);
    return ok;
}

static void clamp(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = fminf(fmaxf(x[i], -1), 1);
}

/* The first rows of `low` fade in from the last rows of `up`. */
static void blend_down(const struct tile *up, struct tile *low, int channels, int overlap) {
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

static void blend_right(const struct tile *left, struct tile *here, int channels, int overlap) {
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

bool kn_decode_tiled(const kn_decoder *d, kn_run *r, const float *latent, int h, int w, int tile, int stride,
                     float **ret, kn_error *err) {
    int rows = (h + stride - 1) / stride, columns = (w + stride - 1) / stride;
    int overlap = (tile - stride) * d->factor, step = stride * d->factor;
    size_t height = (size_t)h * d->factor, width = (size_t)w * d->factor;
    float *whole = calloc(height * width * d->channels, sizeof *whole);
    /* Two rows of tiles are alive at a time: each is blended with the one above and the one to its left. */
    struct tile *tiles = calloc((size_t)columns * 2, sizeof *tiles);
    bool ok = (whole && tiles) || kn_fail_nomem(err, sizeof(float) * height * width * d->channels);
    for (int i = 0; ok && i < rows; i++) {
        struct tile *above = tiles + (size_t)((i + 1) % 2) * columns, *here = tiles + (size_t)(i % 2) * columns;
        for (int j = 0; ok && j < columns; j++) {
            free(here[j].at);
            here[j].at = NULL;
            ok = decode_part(d, r, latent, h, w, i * stride, j * stride, KN_MIN(tile, h - i * stride),
                             KN_MIN(tile, w - j * stride), &here[j], err);
            if (!ok)
                break;
            if (i > 0)
                blend_down(&above[j], &here[j], d->channels, overlap);
            if (j > 0)
                blend_right(&here[j - 1], &here[j], d->channels, overlap);
            int keep_h = KN_MIN(step, here[j].h), keep_w = KN_MIN(step, here[j].w);
            for (int c = 0; c < d->channels; c++)
                for (int y = 0; y < keep_h; y++)
                    memcpy(whole + ((size_t)c * height + (size_t)i * step + y) * width + (size_t)j * step,
                           here[j].at + ((size_t)c * here[j].h + y) * here[j].w, sizeof(float) * keep_w);
        }
    }
    for (int j = 0; tiles && j < 2 * columns; j++)
        free(tiles[j].at);
    free(tiles);
    if (!ok) {
        free(whole);
        return false;
    }
    clamp(whole, height * width * d->channels); /* after blending, as the reference */
    *ret = whole;
    return true;
}

/* Latent cells on a side of the pieces that a latent is decoded in; 0: it fits as a whole. Else the largest square that
 * fits, a whole number of overlaps wide. */
static int tile_side(const kn_decoder *d, int h, int w, uint64_t memory_limit) {
    uint64_t per_cell = (uint64_t)(d->factor * d->factor) * d->bytes_per_pixel;
    if ((uint64_t)h * w * per_cell <= memory_limit)
        return 0;
    int tile = 64;
    while (tile > 16 && (uint64_t)tile * tile * per_cell > memory_limit)
        tile /= 2;
    return tile;
}

bool kn_decode_latent(const kn_decoder *d, kn_run *r, const float *latent, int h, int w, uint64_t memory_limit,
                      float **ret, kn_error *err) {
    int tile = tile_side(d, h, w, memory_limit);
    if (tile)
        return kn_decode_tiled(d, r, latent, h, w, tile, tile - tile / 8, ret, err); /* an eighth overlaps */
    struct tile whole = { 0 };
    if (!decode_part(d, r, latent, h, w, 0, 0, h, w, &whole, err))
        return false;
    clamp(whole.at, (size_t)whole.h * whole.w * d->channels);
    *ret = whole.at;
    return true;
}

void kn_decode_shapes(const kn_decoder *d, kn_run *r, int h, int w, uint64_t memory_limit) {
    int tile = tile_side(d, h, w, memory_limit);
    kn_scope s = kn_scope_open(r);
    int64_t dim[] = { tile ? KN_MIN(tile, h) : h, tile ? KN_MIN(tile, w) : w, d->latent_channels };
    d->decode(r, d->ctx, kn_new(r, 3, dim));
    kn_scope_close(r, s, KN_NONE);
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
