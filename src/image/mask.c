#include "image/mask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t count(const kn_mask *m) {
    return (size_t)m->width * m->height;
}

static bool fail(uint32_t width, uint32_t height, kn_error *err) {
    return kn_fail(err, KN_E_NOMEM, "out of memory for a mask of %ux%u pixels", width, height);
}

bool kn_mask_new(uint32_t width, uint32_t height, kn_mask *ret, kn_error *err) {
    kn_mask m = { .width = width, .height = height };
    m.at = calloc(count(&m), sizeof *m.at);
    if (!m.at)
        return fail(width, height, err);
    *ret = m;
    return true;
}

void kn_mask_free(kn_mask *m) {
    free(m->at);
    *m = (kn_mask){ 0 };
}

bool kn_mask_is_empty(const kn_mask *m) {
    for (size_t i = 0; i < count(m); i++)
        if (m->at[i] > 0)
            return false;
    return true;
}

static bool is_opaque(const kn_image *rgba) {
    for (size_t i = 0; i < (size_t)rgba->width * rgba->height; i++)
        if (rgba->pixels[4 * i + 3] != 255)
            return false;
    return true;
}

static bool is_white(const uint8_t *rgba, bool opaque) {
    enum { HALF = 128 };
    return (opaque ? rgba[0] : 255 - rgba[3]) >= HALF;
}

bool kn_mask_from_picture(const kn_image *rgba, kn_mask *ret, kn_error *err) {
    if (!kn_mask_new(rgba->width, rgba->height, ret, err))
        return false;
    bool opaque = is_opaque(rgba);
    for (size_t i = 0; i < count(ret); i++)
        ret->at[i] = is_white(rgba->pixels + 4 * i, opaque);
    return true;
}

/* Whether a latent sees this column or row of a side: it looks at the two in the middle of each cell, and the last one
 * is also what stands in the padding. */
static bool is_in_a_middle(uint32_t at, uint32_t side, uint32_t padded, uint32_t cell) {
    uint32_t from_middle = at % cell + 1 - cell / 2; /* of the unsigned: 0 or 1 */
    return from_middle <= 1 || (at == side - 1 && padded - cell / 2 > at);
}

unsigned kn_mask_lacks_of(const kn_image *rgba, uint32_t width, uint32_t height) {
    static const struct {
        uint32_t cell;
        unsigned bit;
    } grids[] = { { 8, KN_MASK_MISSES_CELLS_8 }, { 16, KN_MASK_MISSES_CELLS_16 } };
    unsigned lacks = KN_MASK_LACKS_WHITE | KN_MASK_MISSES_CELLS_8 | KN_MASK_MISSES_CELLS_16;
    bool opaque = is_opaque(rgba);
    for (uint32_t y = 0; lacks && y < rgba->height; y++) {
        for (uint32_t x = 0; lacks && x < rgba->width; x++) {
            if (!is_white(rgba->pixels + 4 * ((size_t)y * rgba->width + x), opaque))
                continue;
            lacks &= ~(unsigned)KN_MASK_LACKS_WHITE;
            for (size_t i = 0; i < KN_COUNT(grids); i++)
                if (is_in_a_middle(x, rgba->width, width, grids[i].cell) &&
                    is_in_a_middle(y, rgba->height, height, grids[i].cell))
                    lacks &= ~grids[i].bit;
        }
    }
    return lacks;
}

void kn_mask_invert(kn_mask *m) {
    for (size_t i = 0; i < count(m); i++)
        m->at[i] = 1 - m->at[i];
}

/* to[i] = the largest of from[i - reach … i + reach], of n values `step` apart. The largest of a window is kept by a
 * queue of places, each of which is larger than all behind it. */
static void largest_around(const float *from, float *to, size_t n, size_t step, size_t reach, size_t *queue) {
    size_t head = 0, tail = 0;
    for (size_t next = 0, i = 0; i < n; i++) {
        for (; next < n && next <= i + reach; next++) {
            while (tail > head && from[queue[tail - 1] * step] <= from[next * step])
                tail--;
            queue[tail++] = next;
        }
        if (queue[head] + reach < i)
            head++;
        to[i * step] = from[queue[head] * step];
    }
}

bool kn_mask_grow(kn_mask *m, uint32_t pixels, kn_error *err) {
    size_t w = m->width, h = m->height;
    if (!pixels)
        return true;
    float *rows = malloc(count(m) * sizeof *rows);
    size_t *queue = malloc(KN_MAX(w, h) * sizeof *queue);
    bool ok = rows && queue;
    for (size_t y = 0; ok && y < h; y++)
        largest_around(m->at + y * w, rows + y * w, w, 1, pixels, queue);
    for (size_t x = 0; ok && x < w; x++)
        largest_around(rows + x, m->at + x, h, w, pixels, queue);
    free(queue);
    free(rows);
    return ok || fail(m->width, m->height, err);
}

/* One sweep over distances, which are lowered to one more than those of neighbours that the sweep has passed: downwards
 * with turn 1, upwards with turn -1. */
static void sweep(float *far, int64_t w, int64_t h, int turn) {
    static const int passed[4][2] = { { -1, -1 }, { -1, 0 }, { -1, 1 }, { 0, -1 } };
    for (int64_t i = 0; i < w * h; i++) {
        int64_t at = turn > 0 ? i : w * h - 1 - i, y = at / w, x = at % w;
        for (size_t k = 0; k < KN_COUNT(passed); k++) {
            int64_t ny = y + turn * passed[k][0], nx = x + turn * passed[k][1];
            if (ny >= 0 && ny < h && nx >= 0 && nx < w)
                far[at] = fminf(far[at], far[ny * w + nx] + 1);
        }
    }
}

bool kn_mask_fade(kn_mask *m, uint32_t pixels, kn_error *err) {
    float *far = malloc(count(m) * sizeof *far); /* from the next 0, in steps to any of eight neighbours */
    if (!far)
        return fail(m->width, m->height, err);
    for (size_t i = 0; i < count(m); i++)
        far[i] = m->at[i] > 0 ? INFINITY : 0;
    sweep(far, m->width, m->height, 1);
    sweep(far, m->width, m->height, -1);
    for (size_t i = 0; i < count(m); i++)
        m->at[i] *= fminf(far[i] / ((float)pixels + 1), 1);
    free(far);
    return true;
}

/* Where sample i of an axis comes from: between two neighbours, which at the edges are the same. */
struct between {
    uint32_t low, high;
    float share; /* of the high one */
};

static struct between between(uint32_t i, uint32_t from, uint32_t to) {
    float at = fmaxf(((float)i + 0.5f) * ((float)from / (float)to) - 0.5f, 0);
    uint32_t low = KN_MIN((uint32_t)at, from - 1);
    return (struct between){ low, KN_MIN(low + 1, from - 1), at - (float)low };
}

bool kn_mask_resize(const kn_mask *m, uint32_t width, uint32_t height, kn_mask *ret, kn_error *err) {
    if (!kn_mask_new(width, height, ret, err))
        return false;
    for (uint32_t y = 0; y < height; y++) {
        struct between v = between(y, m->height, height);
        const float *upper = m->at + (size_t)v.low * m->width, *lower = m->at + (size_t)v.high * m->width;
        for (uint32_t x = 0; x < width; x++) {
            struct between u = between(x, m->width, width);
            float above = upper[u.low] * (1 - u.share) + upper[u.high] * u.share;
            float below = lower[u.low] * (1 - u.share) + lower[u.high] * u.share;
            ret->at[(size_t)y * width + x] = above * (1 - v.share) + below * v.share;
        }
    }
    return true;
}

void kn_image_lay_over(kn_image *drawn, const kn_image *original, const kn_mask *m) {
    unsigned channels = drawn->channels;
    for (size_t i = 0; i < count(m) * channels; i++) {
        float share = m->at[i / channels];
        drawn->pixels[i] = (uint8_t)lrintf((float)original->pixels[i] * (1 - share) + (float)drawn->pixels[i] * share);
    }
}

void kn_image_paint_red(kn_image *rgba, const kn_mask *m) {
    static const uint8_t red[4] = { 255, 0, 0, 255 };
    for (size_t i = 0; i < count(m); i++)
        if (m->at[i] >= 0.5f)
            memcpy(rgba->pixels + 4 * i, red, sizeof red);
}
