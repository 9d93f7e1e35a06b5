#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compute/cpu/device.h"
#include "compute/ops.h"
#include "compute/scratch.h"

bool kn_run_open(kn_device *d, kn_precision p, const atomic_bool *stop, uint64_t limit_bytes, kn_run *ret,
                 kn_error *err) {
    kn_scratch *scratch = NULL;
    if (!kn_scratch_new(limit_bytes, &scratch, err))
        return false;
    *ret = (kn_run){ .device = d, .precision = p, .stop = stop, .scratch = scratch };
    return true;
}

bool kn_run_open_shapes(kn_device *d, kn_precision p, const atomic_bool *stop, kn_run *ret, kn_error *err) {
    kn_scratch *scratch = NULL;
    if (!kn_scratch_new_unbacked(&scratch, err))
        return false;
    *ret = (kn_run){ .device = d, .precision = p, .stop = stop, .scratch = scratch, .shapes_only = true };
    return true;
}

void kn_run_close(kn_run *r) {
    kn_scratch_free(r->scratch);
    r->scratch = NULL;
}

/* What the threads pack their operands in belongs to the device but is needed as well, so it counts. */
uint64_t kn_run_peak_bytes(const kn_run *r) {
    return kn_scratch_peak(r->scratch) + kn_device_threads(r->device) * sizeof(kn_workspace);
}

void kn_run_fail(kn_run *r, kn_code code, const char *fmt, ...) {
    kn_error e = { .code = code };
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e.text, sizeof e.text, fmt, ap);
    va_end(ap);
    if (r->err.code == KN_OK)
        r->err = e;
}

kn_scope kn_scope_open(kn_run *r) {
    return (kn_scope){ r->err.code ? 0 : kn_scratch_open_scope(r->scratch) };
}

kn_tensor kn_scope_close(kn_run *r, kn_scope s, kn_tensor keep) {
    if (r->err.code)
        return kn_none;
    kn_scratch_close_scope(r->scratch, s.depth, keep.rank ? kn_data(keep) : NULL);
    return keep;
}

void kn_drop(kn_run *r, kn_tensor t) {
    if (!r->err.code && t.rank)
        kn_scratch_give(r->scratch, kn_data(t));
}

/* Elements of a shape; false if it has no meaning or does not fit memory. */
static bool count_elements(int rank, const int64_t *dim, int64_t *ret) {
    int64_t n = sizeof(float);
    for (int i = 0; i < rank; i++)
        if (dim[i] < 0 || KN_MUL_OVERFLOWS(n, dim[i], &n))
            return false;
    *ret = n / (int64_t)sizeof(float);
    return rank > 0 && rank <= KN_MAX_RANK;
}

static kn_tensor handle(const float *at, int rank, const int64_t *dim) {
    kn_tensor t = { .at = (uintptr_t)at, .rank = rank };
    memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
    return t;
}

kn_tensor kn_new(kn_run *r, int rank, const int64_t *dim) {
    if (!kn_go_on(r))
        return kn_none;
    int64_t n = 0;
    if (!count_elements(rank, dim, &n)) {
        kn_run_fail(r, KN_E_RANGE, "a tensor cannot have shape [%s]", kn_shape(rank, dim).text);
        return kn_none;
    }
    const float *at = kn_scratch_take(r->scratch, (uint64_t)n * sizeof *at, &r->err);
    return at ? handle(at, rank, dim) : kn_none;
}

kn_tensor kn_upload(kn_run *r, int rank, const int64_t *dim, const float *values) {
    kn_tensor t = kn_new(r, rank, dim);
    if (!r->shapes_only && kn_elements(t) > 0)
        memcpy(kn_data(t), values, (size_t)kn_elements(t) * sizeof *values);
    return t;
}

void kn_download(kn_run *r, kn_tensor t, float *values) {
    if (kn_op_starts(r, "download", t, 1) && !r->shapes_only && kn_elements(t) > 0)
        memcpy(values, kn_data(t), (size_t)kn_elements(t) * sizeof *values);
}

struct copy {
    float *to;
    const float *from;
};

static void copy_range(void *ctx, int64_t from, int64_t count) {
    const struct copy *c = ctx;
    memcpy(c->to + from, c->from + from, (size_t)count * sizeof *c->to);
}

void kn_copy(kn_run *r, kn_tensor to, kn_tensor from) {
    if (!kn_op_starts(r, "copy", to, 1) || !kn_op_starts(r, "copy", from, 1))
        return;
    if (kn_elements(to) != kn_elements(from)) {
        kn_run_fail(r, KN_E_USAGE, "copy of [%s] into [%s]", kn_shape(from.rank, from.dim).text,
                    kn_shape(to.rank, to.dim).text);
        return;
    }
    struct copy c = { kn_data(to), kn_data(from) };
    double n = (double)kn_elements(to);
    kn_parallel_ranges(r, kn_elements(to), 1 << 18, n, copy_range, &c);
}

/* Of each row a part. */
struct columns {
    float *to;
    const float *from;
    int64_t to_width, from_width, count;
};

static void copy_columns(void *ctx, int64_t from, int64_t count) {
    const struct columns *c = ctx;
    for (int64_t i = from; i < from + count; i++)
        memcpy(c->to + i * c->to_width, c->from + i * c->from_width, (size_t)c->count * sizeof *c->to);
}

static int64_t rows_per_task(int64_t width) {
    return KN_MAX(1, (1 << 16) / KN_MAX(1, width));
}

void kn_copy_columns(kn_run *r, kn_tensor to, int64_t first, kn_tensor from) {
    if (!kn_op_starts(r, "copy_columns", to, 1) || !kn_op_starts(r, "copy_columns", from, 1))
        return;
    int64_t width = kn_last_dim(from), stride = kn_last_dim(to), rows = kn_row_count(from);
    if (rows != kn_row_count(to) || first < 0 || width > stride || first > stride - width) {
        kn_run_fail(r, KN_E_USAGE, "copy of [%s] into [%s] from column %lld on", kn_shape(from.rank, from.dim).text,
                    kn_shape(to.rank, to.dim).text, (long long)first);
        return;
    }
    struct columns c = { kn_data(to) + first, kn_data(from), stride, width, width };
    kn_parallel_ranges(r, rows, rows_per_task(width), (double)(rows * width), copy_columns, &c);
}

kn_tensor kn_columns(kn_run *r, kn_tensor x, int64_t first, int64_t count) {
    if (!kn_op_starts(r, "columns", x, 1))
        return kn_none;
    int64_t width = kn_last_dim(x), rows = kn_row_count(x);
    if (first < 0 || count < 0 || first > width || count > width - first) {
        kn_run_fail(r, KN_E_USAGE, "columns %lld to %lld of [%s]", (long long)first, (long long)(first + count),
                    kn_shape(x.rank, x.dim).text);
        return kn_none;
    }
    kn_tensor y = kn_new_like(r, x, count);
    struct columns c = { kn_data(y), kn_data(x) + first, count, width, count };
    return kn_go_on(r) && kn_parallel_ranges(r, rows, rows_per_task(count), (double)(rows * count), copy_columns, &c)
               ? y
               : kn_none;
}

kn_tensor kn_rows(kn_run *r, kn_tensor t, int64_t from, int64_t count) {
    if (!kn_op_starts(r, "rows", t, 1))
        return kn_none;
    if (from < 0 || count < 0 || from > t.dim[0] || count > t.dim[0] - from) {
        kn_run_fail(r, KN_E_USAGE, "rows %lld to %lld of [%s]", (long long)from, (long long)(from + count),
                    kn_shape(t.rank, t.dim).text);
        return kn_none;
    }
    int64_t row = t.dim[0] ? kn_elements(t) / t.dim[0] : 0;
    t.at += (uintptr_t)(from * row) * sizeof(float);
    t.dim[0] = count;
    return t;
}

kn_tensor kn_reshape(kn_run *r, kn_tensor t, int rank, const int64_t *dim) {
    if (!kn_op_starts(r, "reshape", t, 1))
        return kn_none;
    int64_t n = 0;
    if (!count_elements(rank, dim, &n) || n != kn_elements(t)) {
        kn_run_fail(r, KN_E_USAGE, "[%s] cannot be seen as [%s]", kn_shape(t.rank, t.dim).text,
                    kn_shape(rank, dim).text);
        return kn_none;
    }
    return handle(kn_data(t), rank, dim);
}

struct finite {
    const kn_kernels *kernels;
    const float *x;
    atomic_bool bad;
};

static void check_range(void *ctx, int64_t from, int64_t count) {
    struct finite *f = ctx;
    if (!f->kernels->is_finite(f->x + from, (size_t)count))
        atomic_store_explicit(&f->bad, true, memory_order_relaxed);
}

void kn_check_finite(kn_run *r, kn_tensor t, const char *what) {
    if (!kn_op_starts(r, what, t, 1))
        return;
    struct finite f = { .kernels = &r->device->kernels, .x = kn_data(t) };
    int64_t n = kn_elements(t);
    if (kn_parallel_ranges(r, n, 1 << 16, (double)n, check_range, &f) && f.bad)
        kn_run_fail(r, KN_E_NUMERIC, "%s: holds NaN or infinity", what);
}

void kn_watch(kn_run *r, kn_tensor t, const char *name, ...) {
    if (!r->watch || r->err.code)
        return;
    char text[128];
    va_list ap;
    va_start(ap, name);
    vsnprintf(text, sizeof text, name, ap);
    va_end(ap);
    r->watch(r->watch_ctx, r, text, t);
}
