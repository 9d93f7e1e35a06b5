/* Ops that make pixels of channels and back, and that read pixels between others. A task takes rows of the result. */
#include <math.h>
#include <string.h>

#include "compute/cpu/device.h"

struct resampling {
    const float *x, *base, *offset, *at;
    float *y;
    int64_t height, width, channels; /* of the smaller picture; channels of the larger one */
    int64_t by;
};

static bool each_row(kn_run *r, kn_tensor y, struct resampling s, kn_range_fn *fn) {
    return kn_go_on(r) && kn_parallel_ranges(r, y.dim[0], 1, 4.0 * (double)kn_elements(y), fn, &s);
}

/* Whether x is [h, w, channels in whole groups of so many]. */
static bool has_groups(kn_run *r, const char *op, kn_tensor x, int64_t group) {
    bool fits = x.rank == 3 && group > 0 && x.dim[2] % group == 0;
    if (!fits)
        kn_run_fail(r, KN_E_USAGE, "%s: the channels of [%s] are not groups of %lld", op, kn_shape(x.rank, x.dim).text,
                    (long long)group);
    return fits;
}

static void shuffle_rows(void *ctx, int64_t from, int64_t count) {
    const struct resampling *s = ctx;
    int64_t square = s->by * s->by;
    for (int64_t i = from * s->width; i < (from + count) * s->width; i++) {
        int64_t y = i / s->width, place = y / s->by * s->width + i % s->width; /* a pixel of the smaller picture */
        const float *in = s->x + place * s->channels * square + y % s->by * s->by;
        const float *base = s->base ? s->base + place * s->channels : NULL;
        float *out = s->y + i * s->by * s->channels;
        for (int64_t j = 0; j < s->by; j++)
            for (int64_t c = 0; c < s->channels; c++)
                *out++ = in[c * square + j] + (base ? base[c] : 0);
    }
}

kn_tensor kn_pixel_shuffle(kn_run *r, kn_tensor x, int by, kn_tensor base) {
    if (!kn_op_starts(r, "pixel_shuffle", x, 3) || !has_groups(r, "pixel_shuffle", x, (int64_t)by * by))
        return kn_none;
    int64_t channels = x.dim[2] / ((int64_t)by * by);
    if (base.rank && (base.rank != 3 || kn_row_count(base) != kn_row_count(x) || base.dim[2] != channels)) {
        kn_run_fail(r, KN_E_USAGE, "pixel_shuffle by %d of [%s] onto [%s]", by, kn_shape(x.rank, x.dim).text,
                    kn_shape(base.rank, base.dim).text);
        return kn_none;
    }
    kn_tensor y = kn_new(r, 3, (int64_t[]){ x.dim[0] * by, x.dim[1] * by, channels });
    struct resampling s = { .x = kn_data(x),
                            .base = base.rank ? kn_data(base) : NULL,
                            .y = kn_data(y),
                            .width = x.dim[1],
                            .channels = channels,
                            .by = by };
    return each_row(r, y, s, shuffle_rows) ? y : kn_none;
}

static void unshuffle_rows(void *ctx, int64_t from, int64_t count) {
    const struct resampling *s = ctx;
    int64_t square = s->by * s->by;
    for (int64_t i = from * s->width; i < (from + count) * s->width; i++) {
        const float *in = s->x + (i / s->width * s->by * s->width + i % s->width) * s->by * s->channels;
        float *out = s->y + i * s->channels * square;
        for (int64_t k = 0; k < square; k++)
            for (int64_t c = 0; c < s->channels; c++)
                out[c * square + k] = in[(k / s->by * s->width * s->by + k % s->by) * s->channels + c];
    }
}

kn_tensor kn_pixel_unshuffle(kn_run *r, kn_tensor x, int by) {
    if (!kn_op_starts(r, "pixel_unshuffle", x, 3))
        return kn_none;
    if (x.rank != 3 || by < 1 || x.dim[0] % by || x.dim[1] % by) {
        kn_run_fail(r, KN_E_USAGE, "pixel_unshuffle by %d of [%s]", by, kn_shape(x.rank, x.dim).text);
        return kn_none;
    }
    kn_tensor y = kn_new(r, 3, (int64_t[]){ x.dim[0] / by, x.dim[1] / by, x.dim[2] * by * by });
    struct resampling s = { .x = kn_data(x), .y = kn_data(y), .width = x.dim[1] / by, .channels = x.dim[2], .by = by };
    return each_row(r, y, s, unshuffle_rows) ? y : kn_none;
}

/* ---- learned places ---- */

/* A place between two of n, brought to the nearest where it lies outside. */
struct between {
    int64_t first, second;
    float share; /* of the second */
};

static struct between find(float place, int64_t n) {
    float inside = fminf(fmaxf(place, 0), (float)(n - 1)); /* NaN becomes 0 */
    int64_t first = (int64_t)inside;
    return (struct between){ first, KN_MIN(first + 1, n - 1), inside - (float)first };
}

/* One group of channels of one pixel. */
static void sample(const struct resampling *s, float x, float y, int64_t group, float *out) {
    struct between h = find(x, s->width), v = find(y, s->height);
    int64_t n = s->channels / KN_DYSAMPLE_GROUPS;
    const float *from = s->x + group * n, *top = from + v.first * s->width * s->channels;
    const float *bottom = from + v.second * s->width * s->channels;
    const float *a = top + h.first * s->channels, *b = top + h.second * s->channels;
    const float *c = bottom + h.first * s->channels, *d = bottom + h.second * s->channels;
    for (int64_t i = 0; i < n; i++) {
        float upper = a[i] + (b[i] - a[i]) * h.share, lower = c[i] + (d[i] - c[i]) * h.share;
        out[i] = upper + (lower - upper) * v.share;
    }
}

static void sample_rows(void *ctx, int64_t from, int64_t count) {
    const struct resampling *s = ctx;
    int64_t square = s->by * s->by, half = KN_DYSAMPLE_GROUPS * square;
    for (int64_t i = from * s->width * s->by; i < (from + count) * s->width * s->by; i++) {
        int64_t row = i / (s->width * s->by), column = i % (s->width * s->by);
        int64_t y = row / s->by, x = column / s->by, place = row % s->by * s->by + column % s->by;
        const float *offset = s->offset + (y * s->width + x) * 2 * half;
        for (int64_t g = 0; g < KN_DYSAMPLE_GROUPS; g++) {
            int64_t dx = g * square + place, dy = half + dx;
            sample(s, (float)x + (offset[dx] / 2 + s->at[dx]), (float)y + (offset[dy] / 2 + s->at[dy]), g,
                   s->y + i * s->channels + g * (s->channels / KN_DYSAMPLE_GROUPS));
        }
    }
}

kn_tensor kn_dysample(kn_run *r, kn_tensor x, kn_tensor offset, const kn_weight *at, int by) {
    if (!kn_op_starts(r, "dysample", x, 3) || !kn_op_starts(r, "dysample", offset, 3) ||
        !has_groups(r, "dysample", x, KN_DYSAMPLE_GROUPS))
        return kn_none;
    int64_t places = 2 * KN_DYSAMPLE_GROUPS * (int64_t)by * by;
    if (by < 1 || offset.rank != 3 || kn_row_count(offset) != kn_row_count(x) || offset.dim[2] != places) {
        kn_run_fail(r, KN_E_USAGE, "dysample by %d of [%s] at [%s]", by, kn_shape(x.rank, x.dim).text,
                    kn_shape(offset.rank, offset.dim).text);
        return kn_none;
    }
    kn_tensor y = kn_new(r, 3, (int64_t[]){ x.dim[0] * by, x.dim[1] * by, x.dim[2] });
    struct resampling s = { .x = kn_data(x),
                            .offset = kn_data(offset),
                            .at = kn_vector(r, at, places, "dysample"),
                            .y = kn_data(y),
                            .height = x.dim[0],
                            .width = x.dim[1],
                            .channels = x.dim[2],
                            .by = by };
    return each_row(r, y, s, sample_rows) ? y : kn_none;
}
