#include "pipelines/preview.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLOURS = 3, CELLS = 16, PATCHES = 96 }; /* the card has CELLS x CELLS cells */

/* ---- the test card ---- */

/* Any numbers do, as long as they are the same every time (xorshift32, Marsaglia 2003). */
static uint32_t next_number(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static int below(uint32_t *state, int n) {
    return (int)(next_number(state) % (uint32_t)n);
}

static void paint(kn_image *card, int x0, int y0, int x1, int y1, const uint8_t rgb[COLOURS]) {
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++)
            memcpy(card->pixels + ((size_t)y * card->width + (size_t)x) * card->channels, rgb, COLOURS);
}

/* Squares of all sizes and colours, one over the other: as pictures are, mostly even, with edges. */
static void paint_card(kn_image *card) {
    uint32_t state = 2463534242;
    int side = (int)card->width;
    memset(card->pixels, 255, (size_t)side * (size_t)side * card->channels);
    for (int i = 0; i < PATCHES; i++) {
        int length = side / (2 + i / 8) + 1;
        int x = below(&state, side), y = below(&state, side);
        uint8_t rgb[COLOURS];
        for (int k = 0; k < COLOURS; k++)
            rgb[k] = (uint8_t)below(&state, 256);
        paint(card, x, y, KN_MIN(x + length, side), KN_MIN(y + length, side), rgb);
    }
}

/* The mean colour of a cell, -1 … 1. */
static void cell_colour(const kn_image *card, int factor, int row, int column, double ret[COLOURS]) {
    double sum[COLOURS] = { 0 };
    for (int y = row * factor; y < (row + 1) * factor; y++)
        for (int x = column * factor; x < (column + 1) * factor; x++)
            for (int k = 0; k < COLOURS; k++)
                sum[k] += card->pixels[((size_t)y * card->width + (size_t)x) * card->channels + (size_t)k];
    for (int k = 0; k < COLOURS; k++)
        ret[k] = sum[k] / (factor * factor) / 127.5 - 1;
}

/* ---- least squares ---- */

/* Solves a x = b for a symmetric positive a [n, n] and b [n, COLOURS], both of which it uses up; x comes to b.
 * (Cholesky: a = l l^T.) */
static void solve(double *a, double *b, int n) {
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = a[i * n + j];
            for (int k = 0; k < j; k++)
                sum -= a[i * n + k] * a[j * n + k];
            a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
        }
    }
    for (int c = 0; c < COLOURS; c++) {
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < i; k++)
                b[i * COLOURS + c] -= a[i * n + k] * b[k * COLOURS + c];
            b[i * COLOURS + c] /= a[i * n + i];
        }
        for (int i = n - 1; i >= 0; i--) {
            for (int k = i + 1; k < n; k++)
                b[i * COLOURS + c] -= a[k * n + i] * b[k * COLOURS + c];
            b[i * COLOURS + c] /= a[i * n + i];
        }
    }
}

/* Sums of products over all cells: a [n, n] of channels with channels, b [n, COLOURS] of channels with colours. The
 * last channel is always 1. */
struct sums {
    int n;
    double *a, *b, *cell; /* cell: the channels of one */
};

static void add_cell(struct sums *s, const double colour[COLOURS]) {
    for (int i = 0; i < s->n; i++) {
        for (int j = 0; j < s->n; j++)
            s->a[i * s->n + j] += s->cell[i] * s->cell[j];
        for (int c = 0; c < COLOURS; c++)
            s->b[i * COLOURS + c] += s->cell[i] * colour[c];
    }
}

static void add_cells(struct sums *s, const kn_image *card, int factor, const float *latent) {
    double colour[COLOURS];
    s->cell[s->n - 1] = 1;
    for (int y = 0; y < CELLS; y++) {
        for (int x = 0; x < CELLS; x++) {
            for (int k = 0; k < s->n - 1; k++)
                s->cell[k] = (double)latent[((size_t)k * CELLS + (size_t)y) * CELLS + (size_t)x];
            cell_colour(card, factor, y, x, colour);
            add_cell(s, colour);
        }
    }
}

static bool fit(const kn_image *card, int factor, const float *latent, int channels, float **ret, kn_error *err) {
    /* Keeps the map small where the card says little; latents have a variance of about 1. */
    const double stiffness = 0.01 * CELLS * CELLS;
    const size_t n = (size_t)channels + 1, values = n * (n + COLOURS + 1);
    double *memory = calloc(values, sizeof *memory);
    float *map = calloc(n * COLOURS, sizeof *map);
    bool ok = (memory && map) || kn_fail_nomem(err, values * sizeof *memory);
    if (ok) {
        struct sums s = { .n = (int)n, .a = memory, .b = memory + n * n, .cell = memory + n * (n + COLOURS) };
        add_cells(&s, card, factor, latent);
        for (size_t i = 0; i + 1 < n; i++)
            s.a[i * n + i] += stiffness;
        solve(s.a, s.b, s.n);
        for (size_t i = 0; i < n * COLOURS; i++)
            map[i] = (float)s.b[i];
        *ret = map;
    } else {
        free(map);
    }
    free(memory);
    return ok;
}

bool kn_preview_fit(const kn_coder *c, float **ret, kn_error *err) {
    const kn_autoencoder *vae = c->kind;
    uint32_t side = (uint32_t)(CELLS * vae->factor);
    kn_image card = { 0 };
    float *latent = NULL;
    if (!kn_image_new(side, side, (unsigned)vae->channels, &card, err))
        return false;
    paint_card(&card);
    bool ok =
        kn_encode_picture(c, &card, &latent, err) && fit(&card, vae->factor, latent, vae->latent_channels, ret, err);
    free(latent);
    kn_image_free(&card);
    return ok;
}

/* ---- drawing ---- */

static uint8_t to_byte(float v) {
    float scaled = roundf((v + 1) * 127.5f);
    return (uint8_t)(scaled > 0 ? KN_MIN(scaled, 255.0f) : 0);
}

bool kn_preview_draw(const float *map, int channels, const float *latent, int h, int w, kn_image *ret, kn_error *err) {
    const int step = (KN_MAX(h, w) + KN_PREVIEW_MOST - 1) / KN_PREVIEW_MOST;
    const int height = KN_MAX(h / step, 1), width = KN_MAX(w / step, 1);
    if (!kn_image_new((uint32_t)width, (uint32_t)height, 4, ret, err))
        return false;
    uint8_t *pixel = ret->pixels;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++, pixel += 4) {
            const float *cell = latent + (size_t)y * step * w + (size_t)x * step;
            float colour[COLOURS];
            memcpy(colour, map + (size_t)channels * COLOURS, sizeof colour);
            for (int k = 0; k < channels; k++)
                for (int c = 0; c < COLOURS; c++)
                    colour[c] += map[k * COLOURS + c] * cell[(size_t)k * h * w];
            for (int c = 0; c < COLOURS; c++)
                pixel[c] = to_byte(colour[c]);
            pixel[3] = 255;
        }
    }
    return true;
}
