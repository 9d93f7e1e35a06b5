/* How activations meet INT8 weights. The product itself is that of any other storage format: what is rounded to 255
 * steps is a float again before it gets there. */
#include <string.h>

#include "compute/cpu/matrix.h"

struct input {
    const kn_kernels *kernels;
    const kn_weight *w;
    const float *from;
    float *to;
    size_t width;
};

static void prepare_rows(void *ctx, int64_t first, int64_t count) {
    const struct input *p = ctx;
    for (int64_t i = first; i < first + count; i++) {
        float *row = p->to + (size_t)i * p->width;
        memcpy(row, p->from + (size_t)i * p->width, p->width * sizeof *row);
        if (p->w->turned_group)
            p->kernels->turn_groups(row, p->width, (size_t)p->w->turned_group);
        if (!p->w->full_precision)
            p->kernels->round_int8(row, p->width);
    }
}

kn_tensor kn_input_of(kn_run *r, kn_tensor x, const kn_weight *w) {
    if (w->dtype != KN_I8 || !kn_go_on(r))
        return x;
    kn_tensor y = kn_new_like(r, x, kn_last_dim(x));
    if (kn_elements(y) == 0)
        return y;
    struct input p = { &r->device->kernels, w, kn_data(x), kn_data(y), (size_t)kn_last_dim(x) };
    int64_t rows = kn_row_count(x);
    kn_parallel_ranges(r, rows, 4, 10 * (double)kn_elements(x), prepare_rows, &p);
    return y;
}
