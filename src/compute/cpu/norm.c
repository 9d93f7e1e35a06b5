#include "compute/cpu/norm.h"

#include <math.h>
#include <string.h>

#include "compute/cpu/device.h"

struct norm {
    const kn_kernels *kernels;
    const float *x, *w, *scale, *shift;
    float *out;
    float eps;
    bool silu;
    int64_t width;
};

static void rms_range(void *ctx, int64_t from, int64_t count) {
    const struct norm *s = ctx;
    for (int64_t i = from; i < from + count; i++)
        s->kernels->rms_norm(s->x + i * s->width, s->w, s->eps, s->out + i * s->width, (size_t)s->width);
}

static void modulate_range(void *ctx, int64_t from, int64_t count) {
    const struct norm *s = ctx;
    for (int64_t i = from; i < from + count; i++)
        s->kernels->norm_modulate(s->x + i * s->width, s->scale, s->shift, s->eps, s->out + i * s->width,
                                  (size_t)s->width);
}

static void unit_range(void *ctx, int64_t from, int64_t count) {
    const struct norm *s = ctx;
    for (int64_t i = from; i < from + count; i++)
        s->kernels->unit_norm(s->x + i * s->width, s->w, s->silu, s->out + i * s->width, (size_t)s->width);
}

static kn_tensor norm(kn_run *r, kn_tensor x, struct norm s, kn_range_fn *fn) {
    kn_tensor y = kn_new_like(r, x, kn_last_dim(x));
    if (!kn_go_on(r))
        return kn_none;
    s.kernels = &r->device->kernels;
    s.x = kn_data(x);
    s.out = kn_data(y);
    s.width = kn_last_dim(x);
    int64_t unit = KN_MAX(1, (1 << 14) / KN_MAX(1, s.width));
    return kn_parallel_ranges(r, kn_row_count(x), unit, 8.0 * (double)kn_elements(x), fn, &s) ? y : kn_none;
}

kn_tensor kn_rms_norm(kn_run *r, kn_tensor x, const kn_weight *w, float eps) {
    if (!kn_op_starts(r, "rms_norm", x, 1))
        return kn_none;
    struct norm s = { .w = kn_vector(r, w, kn_last_dim(x), "rms_norm"), .eps = eps };
    return s.w ? norm(r, x, s, rms_range) : kn_none;
}

kn_tensor kn_rms_norm_modulate(kn_run *r, kn_tensor x, const kn_weight *w, kn_tensor scale, float eps) {
    if (!scale.rank)
        return kn_rms_norm(r, x, w, eps);
    if (!kn_op_starts(r, "rms_norm_modulate", x, 1))
        return kn_none;
    int64_t width = kn_last_dim(x);
    if (kn_elements(scale) != width) {
        kn_run_fail(r, KN_E_USAGE, "rms_norm_modulate of [%s] by a scale of [%s]", kn_shape(x.rank, x.dim).text,
                    kn_shape(scale.rank, scale.dim).text);
        return kn_none;
    }
    const float *weight = kn_vector(r, w, width, "rms_norm_modulate");
    kn_tensor both = kn_new(r, 1, &width); /* weight * (1 + scale): one vector for all rows */
    if (!kn_go_on(r))
        return kn_none;
    if (!r->shapes_only) {
        memcpy(kn_data(both), weight, (size_t)width * sizeof *weight);
        r->device->kernels.add_gated(kn_data(both), weight, kn_data(scale), (size_t)width);
    }
    kn_tensor y = norm(r, x, (struct norm){ .w = kn_data(both), .eps = eps }, rms_range);
    kn_drop(r, both);
    return y;
}

kn_tensor kn_unit_norm(kn_run *r, kn_tensor x, const kn_weight *w, bool silu) {
    if (!kn_op_starts(r, "unit_norm", x, 1))
        return kn_none;
    struct norm s = { .w = kn_vector(r, w, kn_last_dim(x), "unit_norm"), .silu = silu };
    return s.w ? norm(r, x, s, unit_range) : kn_none;
}

kn_tensor kn_norm_modulate(kn_run *r, kn_tensor x, kn_tensor scale, kn_tensor shift, float eps) {
    if (!kn_op_starts(r, "norm_modulate", x, 1))
        return kn_none;
    int64_t width = kn_last_dim(x);
    if ((scale.rank && kn_elements(scale) != width) || (shift.rank && kn_elements(shift) != width)) {
        kn_run_fail(r, KN_E_USAGE, "norm_modulate of [%s] by a scale of [%s] and a shift of [%s]",
                    kn_shape(x.rank, x.dim).text, kn_shape(scale.rank, scale.dim).text,
                    kn_shape(shift.rank, shift.dim).text);
        return kn_none;
    }
    struct norm s = { .scale = scale.rank ? kn_data(scale) : NULL,
                      .shift = shift.rank ? kn_data(shift) : NULL,
                      .eps = eps };
    return norm(r, x, s, modulate_range);
}

/* A picture is cut into pieces of as many pixels whatever the number of threads. First each piece's moments by channel,
 * then per group what they make together, and from that one scale and shift per channel. */
struct group_norm {
    const kn_kernels *kernels;
    const float *x, *w, *bias;
    float *mean, *squares;         /* [pieces, channels] each */
    float *scale, *shift;          /* [channels] */
    int64_t rows, channels, group; /* group: channels in one */
    int64_t piece, pieces;         /* rows in a piece */
    float eps;
};

static int64_t piece_of(int64_t channels) {
    return KN_MAX(1, (1 << 14) / KN_MAX(1, channels));
}

static int64_t piece_rows(const struct group_norm *s, int64_t piece) {
    return KN_MIN(s->piece, s->rows - piece * s->piece);
}

static void moments_of_pieces(void *ctx, int64_t from, int64_t count) {
    const struct group_norm *s = ctx;
    for (int64_t p = from; p < from + count; p++)
        s->kernels->moments(s->x + p * s->piece * s->channels, (size_t)piece_rows(s, p), (size_t)s->channels,
                            s->mean + p * s->channels, s->squares + p * s->channels);
}

static void join_groups(void *ctx, int64_t from, int64_t count) {
    const struct group_norm *s = ctx;
    double n = (double)(s->rows * s->group);
    for (int64_t c0 = from * s->group; c0 < (from + count) * s->group; c0 += s->group) {
        double mean = 0, squares = 0;
        for (int64_t p = 0; p < s->pieces; p++)
            for (int64_t c = c0; c < c0 + s->group; c++)
                mean += (double)s->mean[p * s->channels + c] * (double)piece_rows(s, p);
        mean /= n;
        for (int64_t p = 0; p < s->pieces; p++)
            for (int64_t c = c0; c < c0 + s->group; c++) {
                double off = s->mean[p * s->channels + c] - mean;
                squares += s->squares[p * s->channels + c] + off * off * (double)piece_rows(s, p);
            }
        double by = 1 / sqrt(squares / n + s->eps);
        for (int64_t c = c0; c < c0 + s->group; c++) {
            s->scale[c] = (float)(by * s->w[c]);
            s->shift[c] = (float)(s->bias[c] - mean * by * s->w[c]);
        }
    }
}

bool kn_group_scales(kn_run *r, kn_tensor x, const kn_weight *w, const kn_weight *bias, int groups, float eps,
                     kn_tensor *ret_scale, kn_tensor *ret_shift) {
    if (!kn_op_starts(r, "group_norm", x, 3))
        return false;
    int64_t channels = kn_last_dim(x);
    if (groups < 1 || channels % groups) {
        kn_run_fail(r, KN_E_USAGE, "group_norm of [%s] in %d groups", kn_shape(x.rank, x.dim).text, groups);
        return false;
    }
    struct group_norm s = { .kernels = &r->device->kernels,
                            .x = kn_data(x),
                            .w = kn_vector(r, w, channels, "group_norm"),
                            .bias = kn_vector(r, bias, channels, "group_norm"),
                            .rows = kn_row_count(x),
                            .channels = channels,
                            .group = channels / groups,
                            .piece = piece_of(channels),
                            .eps = eps };
    s.pieces = (s.rows + s.piece - 1) / s.piece;
    kn_tensor scale = kn_new(r, 1, &channels), shift = kn_new(r, 1, &channels);
    kn_tensor mean = kn_new(r, 2, (int64_t[]){ s.pieces, channels });
    kn_tensor squares = kn_new(r, 2, (int64_t[]){ s.pieces, channels });
    if (!kn_go_on(r))
        return false;
    s.mean = kn_data(mean);
    s.squares = kn_data(squares);
    s.scale = kn_data(scale);
    s.shift = kn_data(shift);
    bool done = kn_parallel_ranges(r, s.pieces, 1, 8.0 * (double)kn_elements(x), moments_of_pieces, &s) &&
                kn_parallel_ranges(r, groups, 1, 8.0 * (double)kn_elements(mean), join_groups, &s);
    kn_drop(r, mean);
    kn_drop(r, squares);
    *ret_scale = scale;
    *ret_shift = shift;
    return done;
}

struct scaling {
    const kn_kernels *kernels;
    const float *x, *scale, *shift;
    float *out;
    int64_t channels;
    bool silu;
};

static void scale_rows(void *ctx, int64_t from, int64_t count) {
    const struct scaling *s = ctx;
    for (int64_t i = from * s->channels; i < (from + count) * s->channels; i += s->channels)
        s->kernels->affine(s->x + i, s->scale, s->shift, s->silu, s->out + i, (size_t)s->channels);
}

kn_tensor kn_group_norm(kn_run *r, kn_tensor x, const kn_weight *w, const kn_weight *bias, int groups, float eps,
                        bool silu) {
    kn_tensor scale = kn_none, shift = kn_none;
    kn_tensor y = kn_new_like(r, x, kn_last_dim(x));
    if (!kn_group_scales(r, x, w, bias, groups, eps, &scale, &shift))
        return kn_none;
    struct scaling s = { .kernels = &r->device->kernels,
                         .x = kn_data(x),
                         .scale = kn_data(scale),
                         .shift = kn_data(shift),
                         .out = kn_data(y),
                         .channels = kn_last_dim(x),
                         .silu = silu };
    bool done =
        kn_parallel_ranges(r, kn_row_count(x), piece_of(s.channels), 8.0 * (double)kn_elements(x), scale_rows, &s);
    kn_drop(r, scale);
    kn_drop(r, shift);
    return done ? y : kn_none;
}

kn_tensor kn_layer_norm(kn_run *r, kn_tensor x, const kn_weight *scale, const kn_weight *shift, float eps) {
    if (!kn_op_starts(r, "layer_norm", x, 1))
        return kn_none;
    int64_t width = kn_last_dim(x);
    struct norm s = { .scale = kn_vector(r, scale, width, "layer_norm"),
                      .shift = kn_vector(r, shift, width, "layer_norm"),
                      .eps = eps };
    return s.scale && s.shift ? norm(r, x, s, modulate_range) : kn_none;
}

struct rope {
    const kn_kernels *kernels;
    float *x;
    const float *w, *cos, *sin;
    float eps;
    kn_rope_pairs pairs;
    int64_t heads, head;
};

static void rope_range(void *ctx, int64_t from, int64_t count) {
    const struct rope *s = ctx;
    size_t head = (size_t)s->head;
    for (int64_t i = from; i < from + count; i++)
        for (int64_t h = 0; h < s->heads; h++) {
            float *x = s->x + (i * s->heads + h) * s->head;
            if (s->w)
                s->kernels->rms_norm(x, s->w, s->eps, x, head);
            s->kernels->rotate(x, s->cos + i * s->head / 2, s->sin + i * s->head / 2, head, s->pairs);
        }
}

void kn_qk_norm_rope(kn_run *r, kn_tensor x, const kn_weight *w, float eps, kn_tensor cos, kn_tensor sin,
                     kn_rope_pairs pairs) {
    if (!kn_op_starts(r, "rope", x, 1) || !kn_op_starts(r, "rope", cos, 1) || !kn_op_starts(r, "rope", sin, 1))
        return;
    int64_t rows = kn_row_count(x), head = 2 * kn_last_dim(cos);
    if (!kn_same_shape(cos, sin) || kn_row_count(cos) != rows || head == 0 || kn_last_dim(x) % head) {
        kn_run_fail(r, KN_E_USAGE, "rope of [%s] by angles of [%s] and [%s]", kn_shape(x.rank, x.dim).text,
                    kn_shape(cos.rank, cos.dim).text, kn_shape(sin.rank, sin.dim).text);
        return;
    }
    struct rope s = { .kernels = &r->device->kernels,
                      .x = kn_data(x),
                      .w = w ? kn_vector(r, w, head, "rope") : NULL,
                      .cos = kn_data(cos),
                      .sin = kn_data(sin),
                      .eps = eps,
                      .pairs = pairs,
                      .heads = kn_last_dim(x) / head,
                      .head = head };
    if (kn_go_on(r))
        kn_parallel_ranges(r, rows, KN_MAX(1, (1 << 13) / KN_MAX(1, kn_last_dim(x))), 8.0 * (double)kn_elements(x),
                           rope_range, &s);
}
