#include <string.h>

#include "compute/cpu/matrix.h"

struct conv {
    const float *x; /* [height, width, channels] */
    int64_t height, width, channels, kernel_height, kernel_width, out_width, stride;
    kn_pad pad;
};

/* What one row of the kernel sees: elements e0 … e1 - 1 of kernel_width * channels. The taps of a kernel row lie beside
 * each other in the picture too, so this is one copy, with zeros where the kernel hangs over the left or right edge. */
static void fill_kernel_row(const struct conv *s, int64_t y, int64_t x, int64_t e0, int64_t e1, const kn_left *to,
                            int64_t row, size_t at) {
    int64_t from = e0, end = e0;
    if (y >= 0 && y < s->height) {
        from = KN_MIN(KN_MAX(e0, -x * s->channels), e1);
        end = KN_MAX(KN_MIN(e1, (s->width - x) * s->channels), from);
    }
    kn_left_put_zeros(to, row, at, (size_t)(from - e0));
    if (end > from)
        kn_left_put(to, row, at + (size_t)(from - e0), s->x + (y * s->width + x) * s->channels + from,
                    (size_t)(end - from));
    kn_left_put_zeros(to, row, at + (size_t)(end - e0), (size_t)(e1 - end));
}

/* Rows of the implicit matrix [out_height * out_width, kernel_height * kernel_width * channels]. */
static void fill_from_picture(const void *ctx, int64_t first, int64_t rows, int64_t k0, size_t k, const kn_left *to) {
    const struct conv *s = ctx;
    int64_t span = s->kernel_width * s->channels, end = k0 + (int64_t)k;
    for (int64_t row = 0; row < rows; row++) {
        int64_t i = first + row;
        int64_t y = i / s->out_width * s->stride - s->pad.top, x = i % s->out_width * s->stride - s->pad.left;
        for (int64_t at = k0; at < end;) {
            int64_t ky = at / span, e0 = at - ky * span, e1 = KN_MIN(span, end - ky * span);
            fill_kernel_row(s, y + ky, x, e0, e1, to, row, (size_t)(at - k0));
            at += e1 - e0;
        }
    }
}

kn_tensor kn_conv2d(kn_run *r, kn_tensor x, const kn_weight *w, int stride, kn_pad pad) {
    if (!kn_op_starts(r, "conv2d", x, 3) || !kn_weight_fits(r, w, 4, "a convolution"))
        return kn_none;
    int64_t over_height = x.dim[0] + pad.top + pad.bottom - w->dim[1];
    int64_t over_width = x.dim[1] + pad.left + pad.right - w->dim[2];
    bool fits = x.rank == 3 && x.dim[2] == w->dim[3] && over_height >= 0 && over_width >= 0 && stride > 0 &&
                pad.top >= 0 && pad.left >= 0 && pad.bottom >= 0 && pad.right >= 0;
    if (!fits) {
        kn_run_fail(r, KN_E_FORMAT, "'%s': a convolution by [%s], stride %d, padding %d %d %d %d does not fit [%s]",
                    kn_weight_name(w), kn_shape(w->rank, w->dim).text, stride, pad.top, pad.left, pad.bottom, pad.right,
                    kn_shape(x.rank, x.dim).text);
        return kn_none;
    }
    kn_tensor y = kn_new(r, 3, (int64_t[]){ over_height / stride + 1, over_width / stride + 1, w->dim[0] });
    struct conv s = { .x = kn_data(x),
                      .height = x.dim[0],
                      .width = x.dim[1],
                      .channels = x.dim[2],
                      .kernel_height = w->dim[1],
                      .kernel_width = w->dim[2],
                      .out_width = y.dim[1],
                      .stride = stride,
                      .pad = pad };
    if (kn_elements(y) > 0)
        kn_multiply(r, kn_row_count(y), fill_from_picture, &s, w, y);
    return kn_go_on(r) ? y : kn_none;
}

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
