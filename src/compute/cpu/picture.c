#include <string.h>

#include "compute/cpu/device.h"

/* Ops that take picture rows one by one. */
struct picture {
    const float *x;
    float *y;
    int64_t width, channels; /* of the smaller picture; channels of x */
    int64_t out_channels, frames, group;
};

static bool each_row(kn_run *r, kn_tensor y, int64_t rows, struct picture s, kn_range_fn *fn) {
    return kn_go_on(r) && kn_parallel_ranges(r, rows, 1, 4.0 * (double)kn_elements(y), fn, &s);
}

static void upsample_rows(void *ctx, int64_t from, int64_t count) {
    const struct picture *s = ctx;
    size_t pixel = (size_t)s->channels;
    for (int64_t y = from; y < from + count; y++) {
        const float *in = s->x + y * s->width * s->channels;
        float *out = s->y + 4 * y * s->width * s->channels;
        for (int64_t x = 0; x < s->width; x++) {
            memcpy(out + 2 * x * s->channels, in + x * s->channels, pixel * sizeof *out);
            memcpy(out + (2 * x + 1) * s->channels, in + x * s->channels, pixel * sizeof *out);
        }
        size_t row = 2 * (size_t)s->width * pixel;
        memcpy(out + row, out, row * sizeof *out);
    }
}

kn_tensor kn_upsample2x(kn_run *r, kn_tensor x) {
    if (!kn_op_starts(r, "upsample2x", x, 3))
        return kn_none;
    kn_tensor y = kn_new(r, 3, (int64_t[]){ 2 * x.dim[0], 2 * x.dim[1], x.dim[2] });
    struct picture s = { .x = kn_data(x), .y = kn_data(y), .width = x.dim[1], .channels = x.dim[2] };
    return each_row(r, y, x.dim[0], s, upsample_rows) ? y : kn_none;
}

/* The shortcuts number a space of virtual channels: channel, frame, dy, dx, from slow to fast. With one frame given,
 * only the last of `frames` holds anything. Of two frames the first one is padding: zeros. */
static bool shortcut_fits(kn_run *r, const char *op, kn_tensor x, int64_t whole, int64_t part, int frames) {
    bool fits = (frames == 1 || frames == 2) && part > 0 && 4 * whole * frames % part == 0;
    if (!fits)
        kn_run_fail(r, KN_E_USAGE, "%s of [%s] does not divide: %lld channels, %lld, %d frames", op,
                    kn_shape(x.rank, x.dim).text, (long long)whole, (long long)part, frames);
    return fits;
}

static void average_rows(void *ctx, int64_t from, int64_t count) {
    const struct picture *s = ctx;
    int64_t row = 2 * s->width * s->channels; /* of x */
    for (int64_t i = from * s->width; i < (from + count) * s->width; i++) {
        const float *in = s->x + i / s->width * 2 * row + i % s->width * 2 * s->channels;
        float *out = s->y + i * s->out_channels;
        for (int64_t o = 0; o < s->out_channels; o++) {
            float sum = 0;
            for (int64_t k = o * s->group; k < (o + 1) * s->group; k++) {
                int64_t frame = k >> 2 & (s->frames - 1), channel = k >> 2 >> (s->frames - 1); /* frames is 1 or 2 */
                if (frame == s->frames - 1)
                    sum += in[(k >> 1 & 1) * row + (k & 1) * s->channels + channel];
            }
            out[o] = sum / (float)s->group;
        }
    }
}

kn_tensor kn_avg_shortcut(kn_run *r, kn_tensor x, int64_t out_channels, int frames) {
    if (!kn_op_starts(r, "avg_shortcut", x, 3) || !shortcut_fits(r, "avg_shortcut", x, x.dim[2], out_channels, frames))
        return kn_none;
    if (x.dim[0] % 2 || x.dim[1] % 2) {
        kn_run_fail(r, KN_E_USAGE, "avg_shortcut of odd sides in [%s]", kn_shape(x.rank, x.dim).text);
        return kn_none;
    }
    kn_tensor y = kn_new(r, 3, (int64_t[]){ x.dim[0] / 2, x.dim[1] / 2, out_channels });
    struct picture s = { .x = kn_data(x),
                         .y = kn_data(y),
                         .width = x.dim[1] / 2,
                         .channels = x.dim[2],
                         .out_channels = out_channels,
                         .frames = frames,
                         .group = 4 * x.dim[2] * frames / out_channels };
    return each_row(r, y, x.dim[0] / 2, s, average_rows) ? y : kn_none;
}

static void duplicate_rows(void *ctx, int64_t from, int64_t count) {
    const struct picture *s = ctx;
    int64_t row = 2 * s->width * s->out_channels; /* of y */
    for (int64_t i = from * s->width; i < (from + count) * s->width; i++) {
        const float *in = s->x + i * s->channels;
        for (int64_t corner = 0; corner < 4; corner++) { /* 2 * dy + dx */
            float *out =
                s->y + (i / s->width * 2 + corner / 2) * row + (i % s->width * 2 + corner % 2) * s->out_channels;
            for (int64_t o = 0; o < s->out_channels; o++)
                out[o] = in[((o * s->frames + s->frames - 1) * 4 + corner) / s->group];
        }
    }
}

kn_tensor kn_dup_shortcut(kn_run *r, kn_tensor x, int64_t out_channels, int frames) {
    if (!kn_op_starts(r, "dup_shortcut", x, 3) || !shortcut_fits(r, "dup_shortcut", x, out_channels, x.dim[2], frames))
        return kn_none;
    kn_tensor y = kn_new(r, 3, (int64_t[]){ 2 * x.dim[0], 2 * x.dim[1], out_channels });
    struct picture s = { .x = kn_data(x),
                         .y = kn_data(y),
                         .width = x.dim[1],
                         .channels = x.dim[2],
                         .out_channels = out_channels,
                         .frames = frames,
                         .group = 4 * out_channels * frames / x.dim[2] };
    return each_row(r, y, x.dim[0], s, duplicate_rows) ? y : kn_none;
}
