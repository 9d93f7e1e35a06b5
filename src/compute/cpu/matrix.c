#include "compute/cpu/matrix.h"

#include <string.h>

struct product {
    kn_run *run;
    const kn_weight *w;
    kn_fill_fn *fill;
    const void *ctx;
    float *out;
    int64_t rows, columns, inner;
    size_t row_bytes;                /* of the weight */
    int64_t tile_rows, tile_columns; /* what one task computes */
    int64_t row_tiles, column_tiles;
};

static const uint8_t *weight_at(const struct product *p, int64_t column, int64_t k0) {
    return (const uint8_t *)p->w->data + (size_t)column * p->row_bytes + kn_dtype_bytes(p->w->dtype, (size_t)k0);
}

static bool scale_is_one(const kn_weight *w) {
    return !w->row_scale && w->scale == 1;
}

static bool is_plain(const kn_weight *w) {
    return w->dtype == KN_F32 && scale_is_one(w);
}

static float scale_of(const kn_weight *w, int64_t row) {
    return w->row_scale ? w->row_scale[row] : w->scale;
}

/* Elements k0 … k0 + k - 1 of one row of the weight. */
static void decode_piece(const struct product *p, int64_t column, int64_t k0, size_t k, float *dst) {
    p->run->device->kernels.decode[p->w->dtype](weight_at(p, column, k0), k, scale_of(p->w, column), dst);
}

static void pack_panel(const struct product *p, kn_workspace *ws, int64_t column, size_t n, int64_t k0, size_t k) {
    for (size_t j = 0; j < n; j += KN_TRANSPOSE_ROWS) {
        size_t group = KN_MIN(n - j, KN_TRANSPOSE_ROWS);
        const void *from = weight_at(p, column + (int64_t)j, k0);
        size_t stride = p->row_bytes;
        if (!is_plain(p->w)) {
            for (size_t i = 0; i < group; i++)
                decode_piece(p, column + (int64_t)(j + i), k0, k, ws->decoded + i * KN_STRIDE);
            from = ws->decoded;
            stride = KN_STRIDE * sizeof(float);
        }
        p->run->device->kernels.transpose(from, stride, group, k, ws->panel + j);
    }
}

/* One row of the weight as it is stored, that is without its scale, rounded. */
static void decode_bf16(const struct product *p, kn_workspace *ws, int64_t column, int64_t k0, size_t k,
                        uint16_t *dst) {
    const kn_kernels *kernels = &p->run->device->kernels;
    kernels->decode[p->w->dtype](weight_at(p, column, k0), k, 1, ws->decoded);
    kernels->to_bf16(ws->decoded, k, dst);
}

static void pack_panel_bf16(const struct product *p, kn_workspace *ws, int64_t column, size_t n, int64_t k0, size_t k) {
    for (size_t j = 0; j < n; j += KN_TRANSPOSE_ROWS) {
        size_t group = KN_MIN(n - j, KN_TRANSPOSE_ROWS);
        const void *from = weight_at(p, column + (int64_t)j, k0);
        size_t stride = p->row_bytes;
        if (p->w->dtype != KN_BF16) {
            for (size_t i = 0; i < group; i++)
                decode_bf16(p, ws, column + (int64_t)(j + i), k0, k, ws->decoded_bf16 + i * KN_BF16_STRIDE);
            from = ws->decoded_bf16;
            stride = KN_BF16_STRIDE * sizeof *ws->decoded_bf16;
        }
        p->run->device->kernels.transpose_bf16(from, stride, group, k, ws->panel_bf16 + 2 * j);
    }
}

struct tile {
    int64_t row, rows, from, to; /* columns from … to - 1 */
};

static struct tile tile_of(const struct product *p, size_t item) {
    int64_t row = (int64_t)item % p->row_tiles * p->tile_rows;
    int64_t from = (int64_t)item / p->row_tiles * p->tile_columns;
    return (struct tile){ row, KN_MIN(p->tile_rows, p->rows - row), from, KN_MIN(from + p->tile_columns, p->columns) };
}

static void put_floats(const float *x, size_t n, void *dst) {
    memcpy(dst, x, n * sizeof *x);
}

/* One tile of the result. Its elements are sums over blocks of KN_BLOCK in a fixed order, however tiles are cut. */
static void multiply_tile(void *ctx, size_t item, unsigned thread) {
    const struct product *p = ctx;
    const kn_kernels *kernels = &p->run->device->kernels;
    kn_workspace *ws = &p->run->device->workspace[thread];
    kn_left left = { (uint8_t *)ws->rows, KN_STRIDE * sizeof(float), sizeof(float), put_floats };
    struct tile t = tile_of(p, item);
    for (int64_t k0 = 0; k0 < p->inner; k0 += KN_BLOCK) {
        size_t k = (size_t)KN_MIN(KN_BLOCK, p->inner - k0);
        p->fill(p->ctx, t.row, t.rows, k0, k, &left);
        for (int64_t j = t.from; j < t.to; j += (int64_t)kernels->columns) {
            if (kn_is_stopped(p->run))
                return;
            size_t n = (size_t)KN_MIN((int64_t)kernels->columns, t.to - j);
            pack_panel(p, ws, j, n, k0, k);
            kernels->product(ws->rows, (size_t)t.rows, k, ws->panel, p->out + t.row * p->columns + j,
                             (size_t)p->columns, n, p->w->bias ? p->w->bias + j : NULL, k0 > 0);
        }
    }
}

/* What the storage of the weight left out: out = out * scale + bias, for some columns of a tile. */
static void finish_columns(const struct product *p, const struct tile *t, int64_t column, size_t n) {
    if (scale_is_one(p->w))
        return;
    float scale[KN_MAX_COLUMNS], bias[KN_MAX_COLUMNS];
    for (size_t j = 0; j < n; j++) {
        scale[j] = scale_of(p->w, column + (int64_t)j);
        bias[j] = p->w->bias ? p->w->bias[column + (int64_t)j] : 0;
    }
    for (int64_t i = t->row; i < t->row + t->rows; i++) {
        float *c = p->out + i * p->columns + column;
        p->run->device->kernels.affine(c, scale, bias, false, c, n);
    }
}

/* The same in bfloat16. Scales of the weight wait for the sums, so that they round nothing. */
static void multiply_tile_bf16(void *ctx, size_t item, unsigned thread) {
    const struct product *p = ctx;
    const kn_kernels *kernels = &p->run->device->kernels;
    kn_workspace *ws = &p->run->device->workspace[thread];
    kn_left left = { (uint8_t *)ws->rows_bf16, KN_BF16_STRIDE * sizeof(uint16_t), sizeof(uint16_t), kernels->to_bf16 };
    const float *bias = scale_is_one(p->w) ? p->w->bias : NULL;
    struct tile t = tile_of(p, item);
    for (int64_t k0 = 0; k0 < p->inner; k0 += KN_BF16_BLOCK) {
        size_t k = (size_t)KN_MIN(KN_BF16_BLOCK, p->inner - k0);
        size_t padded = (k + KN_BF16_STEP - 1) / KN_BF16_STEP * KN_BF16_STEP;
        p->fill(p->ctx, t.row, t.rows, k0, k, &left);
        for (int64_t i = 0; k < padded && i < t.rows; i++)
            kn_left_put_zeros(&left, i, k, padded - k);
        for (int64_t j = t.from; j < t.to; j += KN_BF16_COLUMNS) {
            if (kn_is_stopped(p->run))
                return;
            size_t n = (size_t)KN_MIN(KN_BF16_COLUMNS, t.to - j);
            pack_panel_bf16(p, ws, j, n, k0, k);
            kernels->product_bf16(ws->rows_bf16, (size_t)t.rows, padded, ws->panel_bf16,
                                  p->out + t.row * p->columns + j, (size_t)p->columns, n, bias ? bias + j : NULL,
                                  k0 > 0);
            if (k0 + KN_BF16_BLOCK >= p->inner)
                finish_columns(p, &t, j, n);
        }
    }
}

/* n cut into equal parts of at most `most`, each a multiple of `unit` but the last. */
static int64_t part_of(int64_t n, int64_t most, int64_t unit) {
    int64_t parts = (n + most - 1) / most, part = (n + parts - 1) / parts;
    return (part + unit - 1) / unit * unit;
}

/* Large tiles reuse what they pack; small ones give every thread something to do. */
static void choose_tiles(struct product *p, unsigned threads) {
    enum { MOST_COLUMNS = 1024, FEWEST_COLUMNS = 128, FEWEST_ROWS = 48 };
    int64_t most_rows = KN_TILE_ROWS, most_columns = MOST_COLUMNS;
    for (;;) {
        p->tile_rows = part_of(p->rows, most_rows, KN_ROW_UNIT);
        p->tile_columns = part_of(p->columns, most_columns, KN_MAX_COLUMNS);
        p->row_tiles = (p->rows + p->tile_rows - 1) / p->tile_rows;
        p->column_tiles = (p->columns + p->tile_columns - 1) / p->tile_columns;
        if (threads == 1 || p->row_tiles * p->column_tiles >= 4 * (int64_t)threads)
            return;
        if (most_columns > FEWEST_COLUMNS)
            most_columns /= 2;
        else if (most_rows > FEWEST_ROWS)
            most_rows /= 2;
        else
            return;
    }
}

static void fill_with_bias(const struct product *p) {
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < p->columns; j++)
            p->out[i * p->columns + j] = p->w->bias ? p->w->bias[j] : 0;
}

static struct product product_of(kn_run *r, const kn_weight *w, int64_t rows, kn_tensor out) {
    struct product p = { .run = r, .w = w, .out = kn_data(out), .rows = rows, .columns = w->dim[0], .inner = 1 };
    for (int i = 1; i < w->rank; i++)
        p.inner *= w->dim[i];
    p.row_bytes = kn_dtype_bytes(w->dtype, (size_t)p.inner);
    return p;
}

void kn_multiply(kn_run *r, int64_t rows, kn_fill_fn *fill, const void *ctx, const kn_weight *w, kn_tensor out) {
    struct product p = product_of(r, w, rows, out);
    p.fill = fill;
    p.ctx = ctx;
    if (p.inner == 0) {
        if (!r->shapes_only)
            fill_with_bias(&p);
        return;
    }
    choose_tiles(&p, kn_device_threads(r->device));
    kn_parallel(r, (size_t)(p.row_tiles * p.column_tiles), (double)rows * (double)p.columns * (double)p.inner,
                kn_is_narrow(r) ? multiply_tile_bf16 : multiply_tile, &p);
}

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
    struct product p;
    const float *x;
    int64_t unit; /* columns per task */
};

/* A handful of rows cannot repay packing: each weight row is decoded piece by piece and multiplied at once. */
static void multiply_few(void *ctx, size_t item, unsigned thread) {
    const struct few *f = ctx;
    const struct product *p = &f->p;
    const kn_kernels *kernels = &p->run->device->kernels;
    float *decoded = p->run->device->workspace[thread].decoded;
    int64_t from = (int64_t)item * f->unit, to = KN_MIN(from + f->unit, p->columns);
    for (int64_t j = from; j < to; j++) {
        float sum[KN_FEW_ROWS] = { 0 };
        for (int64_t k0 = 0; k0 < p->inner; k0 += KN_DOT_PIECE) {
            size_t k = (size_t)KN_MIN(KN_DOT_PIECE, p->inner - k0);
            const void *w = weight_at(p, j, k0);
            if (!is_plain(p->w) || (uintptr_t)w % sizeof(float)) {
                decode_piece(p, j, k0, k, decoded);
                w = decoded;
            }
            kernels->dots(w, f->x + k0, (size_t)p->inner, (size_t)p->rows, k, sum);
        }
        for (int64_t i = 0; i < p->rows; i++)
            p->out[i * p->columns + j] = sum[i] + (p->w->bias ? p->w->bias[j] : 0);
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
    kn_tensor y = kn_new_like(r, x, w->dim[0]), input = kn_input_of(r, x, w);
    int64_t rows = kn_row_count(x);
    if (!kn_go_on(r) || kn_elements(y) == 0)
        return kn_go_on(r) ? y : kn_none;
    if (rows < KN_FEW_ROWS) {
        struct few f = { .p = product_of(r, w, rows, y), .x = kn_data(input) };
        f.unit = KN_MAX(16, 65536 / KN_MAX(1, rows * f.p.inner));
        kn_parallel(r, (size_t)((f.p.columns + f.unit - 1) / f.unit), (double)kn_elements(y) * (double)f.p.inner,
                    multiply_few, &f);
    } else {
        struct rows s = { kn_data(input), kn_last_dim(input) };
        kn_multiply(r, rows, fill_from_rows, &s, w, y);
    }
    if (input.at != x.at)
        kn_drop(r, input);
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
                                  scale_of(table, id) * share, to);
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
