#include "compute/cpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Below this a loop is over before other threads have noticed it. */
static const double LITTLE_WORK = 200e3;

bool kn_device_open_cpu(unsigned threads, kn_device **ret, kn_error *err) {
    kn_device *d = calloc(1, sizeof *d);
    if (!d)
        return kn_fail_nomem(err, sizeof *d);
    if (threads == 0)
        threads = kn_threads_default();
    if (!kn_kernels_choose(&d->kernels, err) || !kn_pool_new(threads, &d->pool, err)) {
        kn_device_close(d);
        return false;
    }
    size_t bytes = threads * sizeof(kn_workspace);
    d->workspace = aligned_alloc(64, bytes);
    if (!d->workspace) {
        kn_device_close(d);
        return kn_fail_nomem(err, bytes);
    }
    *ret = d;
    return true;
}

void kn_device_close(kn_device *d) {
    if (!d)
        return;
    kn_pool_free(d->pool);
    free(d->workspace);
    free(d);
}

const char *kn_device_name(const kn_device *d) {
    (void)d;
    return "cpu";
}

const char *kn_device_kernels(const kn_device *d) {
    return d->kernels.name;
}

unsigned kn_device_threads(const kn_device *d) {
    return kn_pool_size(d->pool);
}

bool kn_go_on(kn_run *r) {
    if (r->err.code == KN_OK && kn_is_stopped(r))
        kn_run_fail(r, KN_E_CANCELLED, "cancelled");
    return r->err.code == KN_OK;
}

bool kn_op_starts(kn_run *r, const char *op, kn_tensor x, int rank) {
    if (!kn_go_on(r))
        return false;
    if (x.rank < rank)
        kn_run_fail(r, KN_E_USAGE, "%s needs %d dimensions and got [%s]", op, rank, kn_shape(x.rank, x.dim).text);
    return x.rank >= rank;
}

struct loop {
    const kn_run *run;
    kn_pool_fn *fn;
    void *ctx;
};

static void run_item(void *ctx, size_t item, unsigned thread) {
    struct loop *l = ctx;
    if (kn_is_stopped(l->run))
        return;
    l->fn(l->ctx, item, thread);
    if (l->run->device->kernels.leave)
        l->run->device->kernels.leave();
}

bool kn_parallel(kn_run *r, size_t items, double work, kn_pool_fn *fn, void *ctx) {
    struct loop l = { r, fn, ctx };
    if (r->shapes_only)
        return kn_go_on(r);
    if (work < LITTLE_WORK)
        for (size_t i = 0; i < items; i++)
            run_item(&l, i, 0);
    else
        kn_pool_for(r->device->pool, items, run_item, &l);
    return kn_go_on(r);
}

struct ranges {
    int64_t n, unit;
    kn_range_fn *fn;
    void *ctx;
};

static void run_range(void *ctx, size_t item, unsigned thread) {
    (void)thread;
    const struct ranges *s = ctx;
    int64_t from = (int64_t)item * s->unit;
    s->fn(s->ctx, from, KN_MIN(s->unit, s->n - from));
}

bool kn_parallel_ranges(kn_run *r, int64_t n, int64_t unit, double work, kn_range_fn *fn, void *ctx) {
    struct ranges s = { n, unit, fn, ctx };
    return kn_parallel(r, (size_t)((n + unit - 1) / unit), work, run_range, &s);
}

kn_tensor kn_new_like(kn_run *r, kn_tensor x, int64_t last) {
    x.dim[x.rank - 1] = last;
    return kn_new(r, x.rank, x.dim);
}

const float *kn_vector(kn_run *r, const kn_weight *w, int64_t n, const char *op) {
    if (w->dtype == KN_F32 && w->rank == 1 && w->dim[0] == n && w->scale == 1 &&
        (uintptr_t)w->data % sizeof(float) == 0)
        return w->data;
    kn_run_fail(r, KN_E_FORMAT, "'%s': %s needs aligned F32 [%s] without scale, not %s [%s]", kn_weight_name(w), op,
                kn_shape(1, &n).text, kn_dtype_of(w->dtype)->name, kn_shape(w->rank, w->dim).text);
    return NULL;
}
