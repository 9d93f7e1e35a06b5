/* Ops on rows of matrices with weights: linear layers and embeddings. */
#include <string.h>

#include "compute/cpu/matrix.h"
#include "compute/cpu/stored.h"

bool kn_weight_fits(kn_run *r, const kn_weight *w, int rank, const char *op) {
    const kn_dtype_info *type = kn_dtype_of(w->dtype);
    if (w->rank != rank)
        kn_run_fail(r, KN_E_FORMAT, "'%s': %s needs %d dimensions, not [%s]", kn_weight_name(w), op, rank,
                    kn_shape(w->rank, w->dim).text);
    else if (!r->device->kernels.decode[w->dtype] || w->dim[rank - 1] % type->block)
        kn_run_fail(r, KN_E_UNSUPPORTED, "'%s': %s cannot use %s [%s]", kn_weight_name(w), op, type->name,
                    kn_shape(w->rank, w->dim).text);
    else if (w->turned_group && w->dim[rank - 1] % w->turned_group)
        kn_run_fail(r, KN_E_FORMAT, "'%s': rows of [%s] are no whole groups of %lld", kn_weight_name(w),
                    kn_shape(w->rank, w->dim).text, (long long)w->turned_group);
    return r->err.code == KN_OK;
}

struct rows {
    const float *x;
    int64_t width;
};

static void fill_from_rows(const void *ctx, int64_t first, int64_t rows, int64_t k0, size_t k, const kn_left *to) {
    const struct rows *s = ctx;
    for (int64_t i = 0; i < rows; i++)
        kn_left_put(to, i, 0, s->x + (first + i) * s->width + k0, k);
}

struct few {
    kn_run *run;
    kn_stored stored;
    const float *x;
    const uint16_t *narrow; /* x as bfloat16, if that is what is multiplied */
    float *out;
    int64_t rows, unit; /* columns per task */
};

/* A handful of rows cannot repay packing: each row of the weight is decoded piece by piece and multiplied at once. */
static void multiply_few(void *ctx, size_t item, unsigned thread) {
    const struct few *f = ctx;
    const kn_stored *s = &f->stored;
    const kn_kernels *kernels = &f->run->device->kernels;
    float *decoded = f->run->device->workspace[thread].decoded;
    int64_t from = (int64_t)item * f->unit, to = KN_MIN(from + f->unit, s->columns);
    for (int64_t j = from; j < to; j++) {
        float sum[KN_FEW_ROWS] = { 0 };
        for (int64_t k0 = 0; k0 < s->inner; k0 += KN_DOT_PIECE) {
            size_t k = (size_t)KN_MIN(KN_DOT_PIECE, s->inner - k0);
            const void *w = kn_stored_at(s, j, k0);
            if (!kn_is_plain(s->w) || (uintptr_t)w % sizeof(float)) {
                kernels->decode[s->w->dtype](w, k, kn_scale_of(s->w, j), decoded);
                w = decoded;
            }
            kernels->dots(w, f->x + k0, (size_t)s->inner, (size_t)f->rows, k, sum);
        }
        for (int64_t i = 0; i < f->rows; i++)
            f->out[i * s->columns + j] = sum[i] + (s->w->bias ? s->w->bias[j] : 0);
    }
}

/* The same for n columns from j, in bfloat16. */
static void multiply_columns_bf16(const struct few *f, kn_workspace *ws, int64_t j, size_t n,
                                  float (*sum)[KN_FEW_ROWS_BF16]) {
    enum { PIECE = KN_TRANSPOSE_ROWS / KN_DOT_COLUMNS * KN_BF16_BLOCK, STRIDE = PIECE + KN_BF16_STEP };
    const kn_stored *s = &f->stored;
    const kn_kernels *kernels = &f->run->device->kernels;
    bool stored = s->w->dtype == KN_BF16;
    int64_t piece = stored ? s->inner : PIECE;
    for (int64_t k0 = 0; k0 < s->inner; k0 += piece) {
        size_t k = (size_t)KN_MIN(piece, s->inner - k0);
        for (size_t i = 0; i < n && !stored; i++) {
            if (n > 1) /* else all of the weight is read in its order */
                kn_stored_ask(s, j + (int64_t)(i + n), k0, k);
            kn_decode_bf16(kernels, ws, s->w->dtype, kn_stored_at(s, j + (int64_t)i, k0), k,
                           ws->decoded_bf16 + i * STRIDE);
        }
        kernels->dots_bf16(stored ? kn_stored_at(s, j, k0) : (const void *)ws->decoded_bf16,
                           stored ? s->row_bytes : STRIDE * sizeof *ws->decoded_bf16, n, f->narrow + k0,
                           (size_t)s->inner, (size_t)f->rows, k, sum);
    }
}

static void multiply_few_bf16(void *ctx, size_t item, unsigned thread) {
    const struct few *f = ctx;
    const kn_stored *s = &f->stored;
    int64_t from = (int64_t)item * f->unit, to = KN_MIN(from + f->unit, s->columns);
    int64_t columns = f->rows < 3 ? 1 : KN_DOT_COLUMNS; /* one stream of memory is faster than several */
    for (int64_t j = from; j < to; j += columns) {
        int64_t n = KN_MIN(columns, to - j);
        float sum[KN_DOT_COLUMNS][KN_FEW_ROWS_BF16] = { 0 };
        multiply_columns_bf16(f, &f->run->device->workspace[thread], j, (size_t)n, sum);
        for (int64_t i = 0; i < f->rows; i++)
            for (int64_t c = 0; c < n; c++)
                f->out[i * s->columns + j + c] =
                    sum[c][i] * kn_scale_of(s->w, j + c) + (s->w->bias ? s->w->bias[j + c] : 0);
    }
}

static void linear_of_few(kn_run *r, int64_t rows, kn_tensor x, const kn_weight *w, kn_tensor y) {
    struct few f = { .run = r, .stored = kn_stored_of(w), .x = kn_data(x), .out = kn_data(y), .rows = rows };
    kn_tensor rounded = kn_none;
    if (kn_is_narrow(r)) {
        rounded = kn_new(r, 1, (int64_t[]){ (kn_elements(x) + 1) / 2 });
        if (!kn_go_on(r))
            return;
        f.narrow = (const uint16_t *)rounded.at;
        if (!r->shapes_only)
            r->device->kernels.to_bf16(f.x, (size_t)kn_elements(x), (void *)rounded.at);
    }
    f.unit = KN_MAX(16, 65536 / KN_MAX(1, rows * f.stored.inner));
    kn_parallel(r, (size_t)((f.stored.columns + f.unit - 1) / f.unit), (double)kn_elements(y) * (double)f.stored.inner,
                f.narrow ? multiply_few_bf16 : multiply_few, &f);
    kn_drop(r, rounded);
}

static void multiply_floats(kn_run *r, kn_tensor x, const kn_weight *w, kn_tensor y) {
    int64_t rows = kn_row_count(x);
    if (rows < (kn_is_narrow(r) ? (int64_t)r->device->kernels.few_rows_bf16 : KN_FEW_ROWS)) {
        linear_of_few(r, rows, x, w, y);
    } else {
        struct rows s = { kn_data(x), kn_last_dim(x) };
        kn_multiply(r, rows, fill_from_rows, &s, w, y);
    }
}

kn_tensor kn_linear(kn_run *r, kn_tensor x, const kn_weight *w) {
    if (!kn_op_starts(r, "linear", x, 1) || !kn_weight_fits(r, w, 2, "a linear layer"))
        return kn_none;
    if (kn_last_dim(x) != w->dim[1]) {
        kn_run_fail(r, KN_E_FORMAT, "'%s': [%s] does not fit an input of [%s]", kn_weight_name(w),
                    kn_shape(w->rank, w->dim).text, kn_shape(x.rank, x.dim).text);
        return kn_none;
    }
    kn_tensor y = kn_new_like(r, x, w->dim[0]);
    if (!kn_go_on(r) || kn_elements(y) == 0)
        return kn_go_on(r) ? y : kn_none;
    r->products += (double)kn_elements(y) * (double)w->dim[1];
    if (kn_is_int8(r, w)) {
        kn_multiply_int8(r, x, w, y);
    } else {
        kn_tensor input = kn_input_of(r, x, w);
        multiply_floats(r, input, w, y);
        if (input.at != x.at)
            kn_drop(r, input);
    }
    return kn_go_on(r) ? y : kn_none;
}

/* Row `id` of the table, times a share, to [width] floats. */
static void decode_row(kn_run *r, const kn_weight *table, int32_t id, float share, float *to) {
    const kn_kernels *kernels = &r->device->kernels;
    size_t width = (size_t)table->dim[1], row_bytes = kn_dtype_bytes(table->dtype, width);
    if (id < 0 || id >= table->dim[0]) {
        kn_run_fail(r, KN_E_RANGE, "'%s': token %d is outside a table of %lld rows", kn_weight_name(table), id,
                    (long long)table->dim[0]);
        return;
    }
    if (r->shapes_only)
        return;
    kernels->decode[table->dtype]((const uint8_t *)table->data + (size_t)id * row_bytes, width,
                                  kn_scale_of(table, id) * share, to);
    if (table->turned_group)
        kernels->turn_groups(to, width, (size_t)table->turned_group);
}

kn_tensor kn_embedding(kn_run *r, const kn_weight *table, const int32_t *ids, int64_t n) {
    if (!kn_go_on(r) || !kn_weight_fits(r, table, 2, "an embedding"))
        return kn_none;
    kn_tensor y = kn_new(r, 2, (int64_t[]){ n, table->dim[1] });
    for (int64_t i = 0; i < n && kn_go_on(r); i++)
        decode_row(r, table, ids[i], 1, kn_data(y) + i * table->dim[1]);
    return kn_go_on(r) ? y : kn_none;
}

kn_tensor kn_embedding_blend(kn_run *r, const kn_weight *table, const int32_t *ids, const float *shares, int64_t n,
                             int taps) {
    if (!kn_go_on(r) || !kn_weight_fits(r, table, 2, "an embedding"))
        return kn_none;
    int64_t width = table->dim[1];
    kn_tensor y = kn_new(r, 2, (int64_t[]){ n, width }), part = kn_new(r, 1, &width);
    for (int64_t i = 0; i < n * taps && kn_go_on(r); i++) {
        float *sum = kn_data(y) + i / taps * width;
        bool first = i % taps == 0;
        decode_row(r, table, ids[i], shares[i], first ? sum : kn_data(part));
        if (!first && !r->shapes_only)
            r->device->kernels.add(sum, kn_data(part), (size_t)width);
    }
    kn_drop(r, part);
    return kn_go_on(r) ? y : kn_none;
}
