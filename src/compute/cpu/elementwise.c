#include <string.h>

#include "compute/cpu/device.h"

/* Elements per task: enough to be worth a hand-over, few enough to share out evenly. */
enum { UNIT = 1 << 14, PIECE = 64 };

struct map {
    void (*kernel)(float *x, size_t n);
    float *x;
};

static void map_range(void *ctx, int64_t from, int64_t count) {
    const struct map *m = ctx;
    m->kernel(m->x + from, (size_t)count);
}

static void apply(kn_run *r, const char *op, kn_tensor x, void (*kernel)(float *x, size_t n)) {
    struct map m = { kernel, kn_data(x) };
    if (kn_op_starts(r, op, x, 1))
        kn_parallel_ranges(r, kn_elements(x), UNIT, 16.0 * (double)kn_elements(x), map_range, &m);
}

void kn_silu(kn_run *r, kn_tensor x) {
    apply(r, "silu", x, r->device->kernels.silu);
}

void kn_gelu(kn_run *r, kn_tensor x) {
    apply(r, "gelu", x, r->device->kernels.gelu);
}

void kn_gelu_tanh(kn_run *r, kn_tensor x) {
    apply(r, "gelu_tanh", x, r->device->kernels.gelu_tanh);
}

void kn_tanh(kn_run *r, kn_tensor x) {
    apply(r, "tanh", x, r->device->kernels.tanh);
}

void kn_mish(kn_run *r, kn_tensor x) {
    apply(r, "mish", x, r->device->kernels.mish);
}

/* Two or three operands of the same shape, or of the same rows of `width`. */
struct rows {
    const kn_kernels *kernels;
    float *out;
    const float *a, *b;
    int64_t width, a_width;
    float by;
};

static int64_t rows_per_task(int64_t width) {
    return KN_MAX(1, UNIT / KN_MAX(1, width));
}

static void add_range(void *ctx, int64_t from, int64_t count) {
    const struct rows *s = ctx;
    s->kernels->add(s->out + from, s->a + from, (size_t)count);
}

void kn_add(kn_run *r, kn_tensor x, kn_tensor y) {
    if (!kn_op_starts(r, "add", x, 1) || !kn_op_starts(r, "add", y, 1))
        return;
    if (!kn_same_shape(x, y)) {
        kn_run_fail(r, KN_E_USAGE, "add of [%s] to [%s]", kn_shape(y.rank, y.dim).text, kn_shape(x.rank, x.dim).text);
        return;
    }
    struct rows s = { .kernels = &r->device->kernels, .out = kn_data(x), .a = kn_data(y) };
    kn_parallel_ranges(r, kn_elements(x), UNIT, 4.0 * (double)kn_elements(x), add_range, &s);
}

static void add_constant_range(void *ctx, int64_t from, int64_t count) {
    const struct rows *s = ctx;
    for (int64_t i = from; i < from + count; i++)
        s->out[i] += s->by;
}

void kn_add_constant(kn_run *r, kn_tensor x, float by) {
    struct rows s = { .out = kn_data(x), .by = by };
    if (kn_op_starts(r, "add_constant", x, 1))
        kn_parallel_ranges(r, kn_elements(x), UNIT, (double)kn_elements(x), add_constant_range, &s);
}

static void prelu_range(void *ctx, int64_t from, int64_t count) {
    const struct rows *s = ctx;
    s->kernels->prelu(s->out + from * s->width, (size_t)s->width, (size_t)count, (size_t)s->width, s->a);
}

void kn_prelu(kn_run *r, kn_tensor x, const kn_weight *slope) {
    if (!kn_op_starts(r, "prelu", x, 1))
        return;
    int64_t width = kn_last_dim(x);
    struct rows s = {
        .kernels = &r->device->kernels, .out = kn_data(x), .a = kn_vector(r, slope, width, "prelu"), .width = width
    };
    if (s.a)
        kn_parallel_ranges(r, kn_row_count(x), rows_per_task(width), 2.0 * (double)kn_elements(x), prelu_range, &s);
}

static void leaky_range(void *ctx, int64_t from, int64_t count) {
    const struct rows *s = ctx;
    s->kernels->prelu(s->out + from, PIECE, (size_t)(count / PIECE), PIECE, s->a);
    s->kernels->prelu(s->out + from + count / PIECE * PIECE, 0, 1, (size_t)(count % PIECE), s->a);
}

void kn_leaky_relu(kn_run *r, kn_tensor x, float slope) {
    float slopes[PIECE];
    for (int i = 0; i < PIECE; i++)
        slopes[i] = slope;
    struct rows s = { .kernels = &r->device->kernels, .out = kn_data(x), .a = slopes };
    if (kn_op_starts(r, "leaky_relu", x, 1))
        kn_parallel_ranges(r, kn_elements(x), UNIT, 2.0 * (double)kn_elements(x), leaky_range, &s);
}

static void add_scaled_range(void *ctx, int64_t from, int64_t count) {
    const struct rows *s = ctx;
    for (int64_t i = from; i < from + count; i++) {
        float *x = s->out + i * s->width;
        const float *y = s->a + i * s->a_width;
        for (int64_t c = 0, n = KN_MIN(s->width, s->a_width); c < n; c += PIECE)
            s->kernels->add_gated(x + c, s->b, y + c, (size_t)KN_MIN(PIECE, n - c));
    }
}

void kn_add_scaled(kn_run *r, kn_tensor x, float by, kn_tensor y) {
    if (!kn_op_starts(r, "add_scaled", x, 1) || !kn_op_starts(r, "add_scaled", y, 1))
        return;
    if (kn_row_count(x) != kn_row_count(y)) {
        kn_run_fail(r, KN_E_USAGE, "add_scaled of [%s] to [%s]", kn_shape(y.rank, y.dim).text,
                    kn_shape(x.rank, x.dim).text);
        return;
    }
    float gate[PIECE];
    for (int i = 0; i < PIECE; i++)
        gate[i] = by;
    struct rows s = { .kernels = &r->device->kernels,
                      .out = kn_data(x),
                      .a = kn_data(y),
                      .b = gate,
                      .width = kn_last_dim(x),
                      .a_width = kn_last_dim(y) };
    int64_t both = KN_MIN(s.width, s.a_width);
    kn_parallel_ranges(r, kn_row_count(x), rows_per_task(both), 4.0 * (double)(kn_row_count(x) * both),
                       add_scaled_range, &s);
}

static void add_gated_range(void *ctx, int64_t from, int64_t count) {
    const struct rows *s = ctx;
    for (int64_t i = from; i < from + count; i++)
        s->kernels->add_gated(s->out + i * s->width, s->a, s->b + i * s->width, (size_t)s->width);
}

void kn_add_gated(kn_run *r, kn_tensor x, kn_tensor gate, kn_tensor y) {
    if (!kn_op_starts(r, "add_gated", x, 1) || !kn_op_starts(r, "add_gated", gate, 1) ||
        !kn_op_starts(r, "add_gated", y, 1))
        return;
    int64_t width = kn_last_dim(x);
    if (!kn_same_shape(x, y) || kn_elements(gate) != width) {
        kn_run_fail(r, KN_E_USAGE, "add_gated of [%s] by a gate of [%s] to [%s]", kn_shape(y.rank, y.dim).text,
                    kn_shape(gate.rank, gate.dim).text, kn_shape(x.rank, x.dim).text);
        return;
    }
    struct rows s = {
        .kernels = &r->device->kernels, .out = kn_data(x), .a = kn_data(gate), .b = kn_data(y), .width = width
    };
    kn_parallel_ranges(r, kn_row_count(x), rows_per_task(width), 4.0 * (double)kn_elements(x), add_gated_range, &s);
}

static void modulate_range(void *ctx, int64_t from, int64_t count) {
    const struct rows *s = ctx;
    for (int64_t i = from; i < from + count; i++) {
        float *x = s->out + i * s->width;
        s->kernels->add_gated(x, s->a, x, (size_t)s->width);
        s->kernels->add(x, s->b, (size_t)s->width);
    }
}

void kn_modulate(kn_run *r, kn_tensor x, kn_tensor scale, kn_tensor shift) {
    if (!kn_op_starts(r, "modulate", x, 1) || !kn_op_starts(r, "modulate", scale, 1) ||
        !kn_op_starts(r, "modulate", shift, 1))
        return;
    int64_t width = kn_last_dim(x);
    if (kn_elements(scale) != width || kn_elements(shift) != width) {
        kn_run_fail(r, KN_E_USAGE, "modulate of [%s] by a scale of [%s] and a shift of [%s]",
                    kn_shape(x.rank, x.dim).text, kn_shape(scale.rank, scale.dim).text,
                    kn_shape(shift.rank, shift.dim).text);
        return;
    }
    struct rows s = {
        .kernels = &r->device->kernels, .out = kn_data(x), .a = kn_data(scale), .b = kn_data(shift), .width = width
    };
    kn_parallel_ranges(r, kn_row_count(x), rows_per_task(width), 4.0 * (double)kn_elements(x), modulate_range, &s);
}

static void sigmoid_range(void *ctx, int64_t from, int64_t count) {
    const struct rows *s = ctx;
    s->kernels->sigmoid_gate(s->out + from, s->a + from, (size_t)count);
}

void kn_sigmoid_gate(kn_run *r, kn_tensor x, kn_tensor gate) {
    if (!kn_op_starts(r, "sigmoid_gate", x, 1) || !kn_op_starts(r, "sigmoid_gate", gate, 1))
        return;
    if (!kn_same_shape(x, gate)) {
        kn_run_fail(r, KN_E_USAGE, "sigmoid_gate of [%s] by [%s]", kn_shape(x.rank, x.dim).text,
                    kn_shape(gate.rank, gate.dim).text);
        return;
    }
    struct rows s = { .kernels = &r->device->kernels, .out = kn_data(x), .a = kn_data(gate) };
    kn_parallel_ranges(r, kn_elements(x), UNIT, 16.0 * (double)kn_elements(x), sigmoid_range, &s);
}

static void swiglu_range(void *ctx, int64_t from, int64_t count) {
    const struct rows *s = ctx;
    s->kernels->swiglu(s->a + from, s->b + from, s->out + from, (size_t)count);
}

kn_tensor kn_swiglu(kn_run *r, kn_tensor gate, kn_tensor up) {
    if (!kn_op_starts(r, "swiglu", gate, 1) || !kn_op_starts(r, "swiglu", up, 1))
        return kn_none;
    if (!kn_same_shape(gate, up)) {
        kn_run_fail(r, KN_E_USAGE, "swiglu of [%s] and [%s]", kn_shape(gate.rank, gate.dim).text,
                    kn_shape(up.rank, up.dim).text);
        return kn_none;
    }
    kn_tensor y = kn_new_like(r, gate, kn_last_dim(gate));
    if (!kn_go_on(r))
        return kn_none;
    struct rows s = { .kernels = &r->device->kernels, .out = kn_data(y), .a = kn_data(gate), .b = kn_data(up) };
    double n = (double)kn_elements(y);
    return kn_parallel_ranges(r, kn_elements(y), UNIT, 16 * n, swiglu_range, &s) ? y : kn_none;
}

static void mish_glu_range(void *ctx, int64_t from, int64_t count) {
    const struct rows *s = ctx;
    for (int64_t i = from; i < from + count; i++) {
        const float *x = s->a + i * 2 * s->width;
        float *y = s->out + i * s->width;
        memcpy(y, x, (size_t)s->width * sizeof *y);
        s->kernels->mish(y, (size_t)s->width);
        for (int64_t c = 0; c < s->width; c++)
            y[c] *= x[s->width + c];
    }
}

kn_tensor kn_mish_glu(kn_run *r, kn_tensor x) {
    if (!kn_op_starts(r, "mish_glu", x, 1))
        return kn_none;
    if (kn_last_dim(x) % 2) {
        kn_run_fail(r, KN_E_USAGE, "mish_glu: [%s] has no two halves", kn_shape(x.rank, x.dim).text);
        return kn_none;
    }
    kn_tensor y = kn_new_like(r, x, kn_last_dim(x) / 2);
    struct rows s = { .kernels = &r->device->kernels, .out = kn_data(y), .a = kn_data(x), .width = kn_last_dim(y) };
    double work = 16.0 * (double)kn_elements(y);
    return kn_go_on(r) && kn_parallel_ranges(r, kn_row_count(y), rows_per_task(s.width), work, mish_glu_range, &s)
               ? y
               : kn_none;
}

struct affine {
    const kn_kernels *kernels;
    float *x;
    const float *scale, *shift;
    int64_t width;
};

static void affine_range(void *ctx, int64_t from, int64_t count) {
    const struct affine *s = ctx;
    for (int64_t i = from; i < from + count; i++)
        s->kernels->affine(s->x + i * s->width, s->scale, s->shift, false, s->x + i * s->width, (size_t)s->width);
}

void kn_affine(kn_run *r, kn_tensor x, const float *scale, const float *shift) {
    if (!kn_op_starts(r, "affine", x, 1))
        return;
    struct affine s = { &r->device->kernels, kn_data(x), scale, shift, kn_last_dim(x) };
    kn_parallel_ranges(r, kn_row_count(x), rows_per_task(s.width), 2.0 * (double)kn_elements(x), affine_range, &s);
}

/* Rows that come from several others. */
struct sums {
    const float *x, *w;
    float *out;
    int64_t count, width; /* rows that make one; of a row */
};

static void sum_range(void *ctx, int64_t from, int64_t count) {
    const struct sums *s = ctx;
    for (int64_t i = from; i < from + count; i++) {
        const float *x = s->x + i * s->count * s->width;
        for (int64_t c = 0; c < s->width; c++) {
            double sum = 0;
            for (int64_t k = 0; k < s->count; k++)
                sum += (double)s->w[k] * x[k * s->width + c];
            s->out[i * s->width + c] = (float)sum;
        }
    }
}

kn_tensor kn_sum_rows(kn_run *r, kn_tensor x, const kn_weight *w) {
    if (!kn_op_starts(r, "sum_rows", x, 1))
        return kn_none;
    int64_t count = w->rank == 1 ? w->dim[0] : 0, width = kn_last_dim(x);
    if (count < 1 || kn_row_count(x) % count) {
        kn_run_fail(r, KN_E_USAGE, "sum_rows: [%s] by weights of [%s]", kn_shape(x.rank, x.dim).text,
                    kn_shape(w->rank, w->dim).text);
        return kn_none;
    }
    struct sums s = { .x = kn_data(x), .w = kn_vector(r, w, count, "sum_rows"), .count = count, .width = width };
    kn_tensor y = kn_new(r, 2, (int64_t[]){ kn_row_count(x) / count, width });
    if (!kn_go_on(r))
        return kn_none;
    s.out = kn_data(y);
    double work = 2.0 * (double)kn_elements(x);
    return kn_parallel_ranges(r, kn_row_count(y), rows_per_task(count * width), work, sum_range, &s) ? y : kn_none;
}
