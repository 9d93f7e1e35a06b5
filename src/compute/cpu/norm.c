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
