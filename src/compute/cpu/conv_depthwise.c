/* Convolution that keeps channels apart: one filter for each, padded to the same size. The filters are turned once, so
 * that a tap's channels lie together as those of a pixel do. */
#include "compute/cpu/conv.h"
#include "compute/cpu/stored.h"

struct depthwise {
    const kn_kernels *kernels;
    const kn_weight *w;
    const float *x, *taps; /* [height, width, channels], [kernel height, kernel width, channels] */
    float *out;
    int64_t height, width, channels;
};

/* taps[t][c] = tap t of filter c */
static void turn_filters(const kn_kernels *kernels, const kn_weight *w, float *taps) {
    kn_stored stored = kn_stored_of(w);
    int64_t channels = w->dim[0], count = w->dim[1] * w->dim[2];
    float filter[KN_BLOCK];
    for (int64_t c = 0; c < channels; c++)
        for (int64_t first = 0; first < count; first += KN_BLOCK) {
            int64_t n = KN_MIN(KN_BLOCK, count - first);
            kernels->decode[w->dtype](kn_stored_at(&stored, c, first), (size_t)n, kn_scale_of(w, c), filter);
            for (int64_t t = 0; t < n; t++)
                taps[(first + t) * channels + c] = filter[t];
        }
}

/* Of the taps around place `at`, those that meet one of n places: the first, and how many. */
static int64_t meeting(int64_t at, int64_t taps, int64_t n, int64_t *first) {
    int64_t from = at - taps / 2;
    *first = KN_MAX(-from, 0);
    return KN_MIN(taps, n - from) - *first;
}

static void convolve_rows(void *ctx, int64_t from, int64_t count) {
    const struct depthwise *d = ctx;
    int64_t kernel_width = d->w->dim[2], c = d->channels, ky = 0, kx = 0;
    for (int64_t y = from; y < from + count; y++) {
        int64_t rows = meeting(y, d->w->dim[1], d->height, &ky), top = y - d->w->dim[1] / 2 + ky;
        for (int64_t x = 0; x < d->width; x++) {
            int64_t columns = meeting(x, kernel_width, d->width, &kx), left = x - kernel_width / 2 + kx;
            float *out = d->out + (y * d->width + x) * c;
            for (int64_t i = 0; i < c; i++)
                out[i] = d->w->bias ? d->w->bias[i] : 0;
            d->kernels->depthwise(d->x + (top * d->width + left) * c, (size_t)(d->width * c), (size_t)c,
                                  d->taps + (ky * kernel_width + kx) * c, (size_t)(kernel_width * c), (size_t)rows,
                                  (size_t)columns, (size_t)c, out);
        }
    }
}

kn_tensor kn_depthwise_conv2d(kn_run *r, kn_tensor x, const kn_weight *w) {
    if (!kn_op_starts(r, "depthwise_conv2d", x, 3) || !kn_weight_fits(r, w, 4, "a convolution"))
        return kn_none;
    if (x.rank != 3 || w->dim[0] != x.dim[2] || w->dim[3] != 1 || w->dim[1] % 2 == 0 || w->dim[2] % 2 == 0) {
        kn_run_fail(r, KN_E_FORMAT, "'%s': a convolution by [%s], channel by channel, does not fit [%s]",
                    kn_weight_name(w), kn_shape(w->rank, w->dim).text, kn_shape(x.rank, x.dim).text);
        return kn_none;
    }
    struct depthwise d = { .kernels = &r->device->kernels,
                           .w = w,
                           .x = kn_data(x),
                           .height = x.dim[0],
                           .width = x.dim[1],
                           .channels = x.dim[2] };
    kn_tensor y = kn_new(r, 3, x.dim), taps = kn_new(r, 2, (int64_t[]){ w->dim[1] * w->dim[2], w->dim[0] });
    if (!kn_go_on(r))
        return kn_none;
    d.out = kn_data(y);
    d.taps = kn_data(taps);
    double work = (double)kn_elements(y) * (double)(w->dim[1] * w->dim[2]);
    r->products += work;
    if (!r->shapes_only)
        turn_filters(d.kernels, w, kn_data(taps));
    bool done = kn_parallel_ranges(r, d.height, 1, work, convolve_rows, &d);
    kn_drop(r, taps);
    return done ? y : kn_none;
}
