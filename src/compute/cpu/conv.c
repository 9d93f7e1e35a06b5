#include <string.h>

#include "compute/cpu/conv.h"
#include "compute/cpu/norm.h"
#include "compute/cpu/stored.h"

static const kn_pad around = { 1, 1, 1, 1 }; /* 3x3, same size */

/* ---- pixels as a convolution sees them ---- */

/* Of `pixels` pixels from x on, how many lie left of the picture and how many in it. */
static int64_t part_inside(const kn_conv *c, int64_t x, int64_t pixels, int64_t *before) {
    *before = KN_MIN(KN_MAX(-x, 0), pixels);
    return KN_MAX(KN_MIN(x + pixels, c->width) - (x + *before), 0);
}

void kn_conv_stage(const kn_conv *c, int64_t y, int64_t x, int64_t pixels, int64_t first, int64_t n, const float *by,
                   float *to) {
    int64_t before = pixels, inside = y >= 0 && y < c->height ? part_inside(c, x, pixels, &before) : 0;
    memset(to, 0, (size_t)(before * KN_TILE_CHANNELS) * sizeof *to);
    const kn_kernels *kernels = &c->run->device->kernels;
    if (inside > 0)
        (kn_is_narrow(c->run) ? kernels->stage_bf16 : kernels->stage)(
            c->x + (y * c->width + x + before) * c->pixel + first, (size_t)c->pixel, (size_t)inside, (size_t)n,
            by ? by + before : NULL, c->scale ? c->scale + first : NULL, c->shift ? c->shift + first : NULL, c->silu,
            to + before * KN_TILE_CHANNELS);
    memset(to + (before + inside) * KN_TILE_CHANNELS, 0,
           (size_t)((pixels - before - inside) * KN_TILE_CHANNELS) * sizeof *to);
}

void kn_conv_unit_factors(const kn_conv *c, int64_t y, int64_t x, int64_t pixels, float *by) {
    int64_t before = pixels, inside = y >= 0 && y < c->height ? part_inside(c, x, pixels, &before) : 0;
    if (inside > 0)
        c->run->device->kernels.unit_factors(c->x + (y * c->width + x + before) * c->channels, (size_t)inside,
                                             (size_t)c->channels, by + before);
}

/* ---- sums over channels ---- */

kn_summing kn_summing_of(const kn_conv *c) {
    const kn_kernels *kernels = &c->run->device->kernels;
    bool narrow = kn_is_narrow(c->run);
    kn_summing s = { .kernels = kernels,
                     .narrow = narrow,
                     .product = narrow ? kernels->product_bf16 : kernels->product,
                     .per_word = narrow ? 2 : 1,
                     .at_once = narrow ? KN_BF16_BLOCK : KN_BLOCK,
                     .words = c->channels,
                     .columns = narrow ? KN_BF16_COLUMNS : (int64_t)kernels->columns };
    s.passes = (c->channels + s.at_once - 1) / s.at_once;
    if (narrow)
        s.words = (c->channels + KN_BF16_STEP - 1) / KN_BF16_STEP * KN_BF16_STEP / 2;
    return s;
}

void kn_sum_channels(const kn_summing *s, const float *input, int64_t rows, const float *panel, int64_t n,
                     float *output) {
    int64_t words_at_once = s->at_once / s->per_word;
    for (int64_t at = 0; at < s->words; at += words_at_once) {
        size_t k = (size_t)(KN_MIN(words_at_once, s->words - at) * s->per_word);
        s->product(input, (size_t)rows, k, panel, output, KN_MAX_COLUMNS, (size_t)n, NULL, at > 0);
        input += rows * KN_STRIDE;
        panel += words_at_once * s->columns;
    }
}

void kn_pack_columns(const kn_summing *s, const float *rows, size_t count, int64_t k0, size_t k, int64_t column,
                     float *rounded, float *panel) {
    float *to = panel + k0 / s->per_word * s->columns + column;
    const size_t stride = KN_STRIDE * sizeof(float);
    if (s->narrow) {
        for (size_t i = 0; i < count; i++)
            s->kernels->to_bf16(rows + i * KN_STRIDE, k, rounded + i * KN_STRIDE);
        s->kernels->transpose_bf16(rounded, stride, count, k, (uint16_t *)to);
    } else {
        s->kernels->transpose(rows, stride, count, k, to);
    }
}

void kn_conv_decode(const kn_conv *c, int64_t filter, int64_t tap, int64_t k0, size_t k, float *to) {
    const kn_weight *w = c->w;
    kn_stored stored = kn_stored_of(w);
    c->run->device->kernels.decode[w->dtype](kn_stored_at(&stored, filter, tap * c->channels + k0), k,
                                             kn_scale_of(w, filter), to);
}

/* ---- any kernel, any stride: the rows of an implicit matrix ---- */

/* What one row of the kernel sees: elements e0 … e1 - 1 of kernel width * channels. The taps of a kernel row lie beside
 * each other in the picture too, so this is one copy, with zeros where the kernel hangs over the left or right edge. */
static void fill_kernel_row(const kn_conv *c, int64_t y, int64_t x, int64_t e0, int64_t e1, const kn_left *to,
                            int64_t row, size_t at) {
    int64_t from = e0, end = e0;
    if (y >= 0 && y < c->height) {
        from = KN_MIN(KN_MAX(e0, -x * c->channels), e1);
        end = KN_MAX(KN_MIN(e1, (c->width - x) * c->channels), from);
    }
    kn_left_put_zeros(to, row, at, (size_t)(from - e0));
    if (end > from)
        kn_left_put(to, row, at + (size_t)(from - e0), c->x + (y * c->width + x) * c->channels + from,
                    (size_t)(end - from));
    kn_left_put_zeros(to, row, at + (size_t)(end - e0), (size_t)(e1 - end));
}

/* Rows of the matrix [out_height * out_width, kernel height * kernel width * channels]. */
static void fill_from_picture(const void *ctx, int64_t first, int64_t rows, int64_t k0, size_t k, const kn_left *to) {
    const kn_conv *c = ctx;
    int64_t span = c->w->dim[2] * c->channels, end = k0 + (int64_t)k;
    for (int64_t row = 0; row < rows; row++) {
        int64_t i = first + row;
        int64_t y = i / c->out_width * c->stride - c->pad.top, x = i % c->out_width * c->stride - c->pad.left;
        for (int64_t at = k0; at < end;) {
            int64_t ky = at / span, e0 = at - ky * span, e1 = KN_MIN(span, end - ky * span);
            fill_kernel_row(c, y + ky, x, e0, e1, to, row, (size_t)(at - k0));
            at += e1 - e0;
        }
    }
}

/* ---- the ops ---- */

/* Fills in what follows from shapes; fails if they do not fit each other. */
static bool describe(kn_run *r, kn_conv *c, kn_tensor x, const kn_weight *w) {
    if (!kn_op_starts(r, "conv2d", x, 3) || !kn_weight_fits(r, w, 4, "a convolution"))
        return false;
    int64_t times = c->doubled ? 2 : 1;
    int64_t over_height = times * x.dim[0] + c->pad.top + c->pad.bottom - w->dim[1];
    int64_t over_width = times * x.dim[1] + c->pad.left + c->pad.right - w->dim[2];
    if (x.rank != 3 || x.dim[2] != w->dim[3] || over_height < 0 || over_width < 0 || c->stride < 1 || c->pad.top < 0 ||
        c->pad.left < 0 || c->pad.bottom < 0 || c->pad.right < 0) {
        kn_run_fail(r, KN_E_FORMAT, "'%s': a convolution by [%s], stride %lld, padding %d %d %d %d does not fit [%s]",
                    kn_weight_name(w), kn_shape(w->rank, w->dim).text, (long long)c->stride, c->pad.top, c->pad.left,
                    c->pad.bottom, c->pad.right, kn_shape(x.rank, x.dim).text);
        return false;
    }
    c->run = r;
    c->w = w;
    c->x = kn_data(x);
    c->height = x.dim[0];
    c->width = x.dim[1];
    c->channels = c->pixel = x.dim[2];
    c->out_height = over_height / c->stride + 1;
    c->out_width = over_width / c->stride + 1;
    return true;
}

/* The result, or what the convolution is to be added to. */
static kn_tensor result(kn_run *r, kn_conv *c, kn_tensor onto) {
    int64_t dim[3] = { c->out_height, c->out_width, c->w->dim[0] };
    kn_tensor y = onto.rank ? onto : kn_new(r, 3, dim);
    if (!kn_go_on(r))
        return kn_none;
    if ((onto.rank != 3 && onto.rank != 0) || kn_elements(y) != dim[0] * dim[1] * dim[2] || kn_last_dim(y) != dim[2]) {
        kn_run_fail(r, KN_E_USAGE, "'%s': a convolution to [%s] cannot be added to [%s]", kn_weight_name(c->w),
                    kn_shape(3, dim).text, kn_shape(onto.rank, onto.dim).text);
        return kn_none;
    }
    c->add = onto.rank > 0;
    c->out = kn_data(y);
    c->out_pixel = dim[2];
    return y;
}

/* Whether a way is at hand that makes what it reads on the fly. */
static bool reads_unmade(const kn_conv *c) {
    return kn_conv_fits_tiles(c) || kn_conv_fits_few(c);
}

static void count_products(kn_run *r, const kn_conv *c) {
    double filter = (double)(c->w->dim[1] * c->w->dim[2] * c->w->dim[3]);
    r->products += (double)(c->out_height * c->out_width * c->w->dim[0]) * filter;
}

static kn_tensor finish(kn_run *r, const kn_conv *c, kn_tensor y) {
    if (!y.rank || kn_elements(y) == 0)
        return y;
    count_products(r, c);
    if (kn_conv_fits_tiles(c))
        kn_conv_by_tiles(c);
    else if (kn_conv_fits_few(c))
        kn_conv_to_few(c);
    else
        kn_multiply(r, kn_row_count(y), fill_from_picture, c, c->w, y);
    return kn_go_on(r) ? y : kn_none;
}

kn_tensor kn_conv2d(kn_run *r, kn_tensor x, const kn_weight *w, int stride, kn_pad pad) {
    kn_conv c = { .stride = stride, .pad = pad };
    return describe(r, &c, x, w) ? finish(r, &c, result(r, &c, KN_NONE)) : kn_none;
}

/* Otherwise what is made of the picture goes through memory. Takes over `made`. */
static kn_tensor convolve_made(kn_run *r, kn_tensor made, const kn_weight *w, kn_tensor onto) {
    kn_tensor y = kn_conv2d(r, made, w, 1, around);
    kn_drop(r, made);
    if (!onto.rank)
        return y;
    kn_add(r, onto, y);
    kn_drop(r, y);
    return kn_go_on(r) ? onto : kn_none;
}

kn_tensor kn_upsample2x_conv(kn_run *r, kn_tensor x, const kn_weight *w, kn_tensor onto) {
    kn_conv c = { .stride = 1, .pad = around, .doubled = true };
    if (!describe(r, &c, x, w))
        return kn_none;
    if (!kn_conv_fits_tiles(&c))
        return convolve_made(r, kn_upsample2x(r, x), w, onto);
    return finish(r, &c, result(r, &c, onto));
}

kn_tensor kn_group_norm_conv(kn_run *r, kn_tensor x, const kn_weight *weight, const kn_weight *bias, int groups,
                             float eps, const kn_weight *w, kn_tensor onto) {
    kn_conv c = { .stride = 1, .pad = around, .silu = true };
    if (!describe(r, &c, x, w))
        return kn_none;
    if (!reads_unmade(&c))
        return convolve_made(r, kn_group_norm(r, x, weight, bias, groups, eps, true), w, onto);
    kn_tensor y = result(r, &c, onto), scale = kn_none, shift = kn_none;
    if (!y.rank || !kn_group_scales(r, x, weight, bias, groups, eps, &scale, &shift))
        return kn_none;
    c.scale = kn_data(scale);
    c.shift = kn_data(shift);
    y = finish(r, &c, y);
    kn_drop(r, scale);
    kn_drop(r, shift);
    return y;
}

kn_tensor kn_unit_norm_conv(kn_run *r, kn_tensor x, const kn_weight *weight, const kn_weight *w, kn_tensor onto) {
    kn_conv c = { .stride = 1, .pad = around, .unit = true, .silu = true };
    if (!describe(r, &c, x, w))
        return kn_none;
    if (!reads_unmade(&c))
        return convolve_made(r, kn_unit_norm(r, x, weight, true), w, onto);
    c.scale = kn_vector(r, weight, c.channels, "unit_norm");
    return c.scale ? finish(r, &c, result(r, &c, onto)) : kn_none;
}

/* Where it does not go by tiles: by way of copies. */
static void grow_by_copies(kn_run *r, kn_tensor x, const kn_weight *w, float slope) {
    kn_tensor seen = kn_columns(r, x, 0, w->dim[3]), y = kn_conv2d(r, seen, w, 1, around);
    kn_leaky_relu(r, y, slope);
    kn_copy_columns(r, x, w->dim[3], y);
    kn_drop(r, y);
    kn_drop(r, seen);
}

void kn_dense_conv(kn_run *r, kn_tensor x, const kn_weight *w, float slope) {
    kn_conv c = { .stride = 1, .pad = around };
    kn_tensor seen = x;
    if (!kn_op_starts(r, "dense_conv", x, 3) || !kn_weight_fits(r, w, 4, "a convolution"))
        return;
    if (w->dim[3] > x.dim[2] || w->dim[0] > x.dim[2] - w->dim[3]) {
        kn_run_fail(r, KN_E_USAGE, "'%s': [%s] has no room for a convolution by [%s]", kn_weight_name(w),
                    kn_shape(x.rank, x.dim).text, kn_shape(w->rank, w->dim).text);
        return;
    }
    seen.dim[2] = w->dim[3];
    if (!describe(r, &c, seen, w))
        return;
    if (!kn_conv_fits_tiles(&c)) {
        grow_by_copies(r, x, w, slope);
        return;
    }
    kn_tensor slopes = kn_new(r, 1, &w->dim[0]);
    for (int64_t i = 0; kn_go_on(r) && !r->shapes_only && i < w->dim[0]; i++)
        kn_data(slopes)[i] = slope;
    c.pixel = c.out_pixel = x.dim[2];
    c.out = kn_data(x) + c.channels;
    c.slope = kn_data(slopes);
    count_products(r, &c);
    kn_conv_by_tiles(&c);
    kn_drop(r, slopes);
}
