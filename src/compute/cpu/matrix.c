/* How large products with weights are computed. A block of left-hand rows is packed once, for all threads, so large
 * that what is then packed of the weight is used often. A task packs some columns of the weight, one pass of summed
 * elements after the other, and multiplies all rows with them; its sums stay in a second-level cache meanwhile.
 *
 * The sum of an element is that of its passes in their order, however blocks and tasks are cut. */
#include "compute/cpu/matrix.h"

#include <string.h>

#include "compute/cpu/stored.h"

enum {
    ROW_BYTES = KN_STRIDE * sizeof(float), /* of one pass of a packed row, in every kind */
    PACK_ROWS = 16,                        /* packed by one task */
    STRIP_ROWS = KN_ROW_UNIT,              /* stay in the nearest caches while a task's panels go by */
    MOST_ROWS = 1280,                      /* of a block: their sums and a task's panels fit a second-level cache */
    FEWEST_ROWS = 96,                      /* of a task */
    ROWS_AHEAD = 4,                        /* of the weight, asked for while another one is decoded */
    CUTS = 4,                              /* parts of the last tasks, so that no thread waits long for another */
    MOST_BYTES = 32 << 20,                 /* of a packed block */
};

struct product;

/* Part of the weight, [n columns, k elements], to a panel; the columns are `at` … of the task's. */
typedef void pack_fn(const struct product *p, kn_workspace *ws, int64_t column, size_t n, int64_t k0, size_t k,
                     int64_t at);

/* What the storage of the weight, or of the rows, left out: applied to the sums of rows and columns. */
typedef void finish_fn(const struct product *p, const kn_workspace *ws, int64_t row, int64_t rows, int64_t from,
                       int64_t to);

/* What is multiplied: how long a pass is, and how it comes to its operands. */
struct kind {
    int64_t block, step, columns; /* elements of a pass, what they are filled up to; columns of a panel */
    size_t element_bytes;
    void (*put)(const float *x, size_t n, void *dst); /* of fill functions */
    kn_pool_fn *pack_rows;
    pack_fn *pack;
    kn_product_fn *product;
    finish_fn *finish; /* NULL: nothing is left out */
};

struct product {
    kn_run *run;
    kn_stored stored;
    struct kind kind;
    kn_fill_fn *fill;
    const void *ctx;
    float *out;
    const float *bias; /* what sums begin with */
    uint8_t *packed;   /* [passes][packed_rows] parts of rows */
    float *row_scale;  /* [packed_rows], of int8 */
    int64_t passes, packed_rows;
    int64_t first, rows; /* the block of rows in work */
    int64_t task_rows, row_tasks, task_columns, column_tasks;
    int64_t whole; /* tasks that are not cut */
};

static int64_t parts(int64_t n, int64_t of) {
    return (n + of - 1) / of;
}

/* n cut into equal parts of at most `most`, each a multiple of `unit` but the last. */
static int64_t part_of(int64_t n, int64_t most, int64_t unit) {
    return parts(parts(n, parts(n, most)), unit) * unit;
}

/* ---- float32 ---- */

static void put_floats(const float *x, size_t n, void *dst) {
    memcpy(dst, x, n * sizeof *x);
}

static void pack_floats(const struct product *p, kn_workspace *ws, int64_t column, size_t n, int64_t k0, size_t k,
                        int64_t at) {
    const kn_stored *s = &p->stored;
    const kn_kernels *kernels = &p->run->device->kernels;
    for (size_t j = 0; j < n; j += KN_TRANSPOSE_ROWS) {
        size_t group = KN_MIN(n - j, KN_TRANSPOSE_ROWS), stride = s->row_bytes;
        const void *from = kn_stored_at(s, column + (int64_t)j, k0);
        if (!kn_is_plain(s->w)) {
            for (size_t i = 0; i < group; i++) {
                int64_t row = column + (int64_t)(j + i);
                kn_stored_ask(s, row + ROWS_AHEAD, k0, k);
                kernels->decode[s->w->dtype](kn_stored_at(s, row, k0), k, kn_scale_of(s->w, row),
                                             ws->decoded + i * KN_STRIDE);
            }
            from = ws->decoded;
            stride = ROW_BYTES;
        }
        kernels->transpose(from, stride, group, k, ws->panel + at * KN_BLOCK + j);
    }
}

/* ---- bfloat16 ---- */

void kn_decode_bf16(const kn_kernels *kernels, kn_workspace *ws, kn_dtype type, const void *from, size_t k,
                    uint16_t *to) {
    if (kernels->decode_bf16[type]) {
        kernels->decode_bf16[type](from, k, to);
    } else {
        kernels->decode[type](from, k, 1, ws->decoded);
        kernels->to_bf16(ws->decoded, k, to);
    }
}

/* Scales of the weight wait for the sums, so that they round nothing. */
static void pack_bf16(const struct product *p, kn_workspace *ws, int64_t column, size_t n, int64_t k0, size_t k,
                      int64_t at) {
    const kn_stored *s = &p->stored;
    const kn_kernels *kernels = &p->run->device->kernels;
    for (size_t j = 0; j < n; j += KN_TRANSPOSE_ROWS) {
        size_t group = KN_MIN(n - j, KN_TRANSPOSE_ROWS), stride = s->row_bytes;
        const void *from = kn_stored_at(s, column + (int64_t)j, k0);
        if (s->w->dtype != KN_BF16) {
            for (size_t i = 0; i < group; i++) {
                int64_t row = column + (int64_t)(j + i);
                kn_stored_ask(s, row + ROWS_AHEAD, k0, k);
                kn_decode_bf16(kernels, ws, s->w->dtype, kn_stored_at(s, row, k0), k,
                               ws->decoded_bf16 + i * KN_BF16_STRIDE);
            }
            from = ws->decoded_bf16;
            stride = ROW_BYTES;
        }
        kernels->transpose_bf16(from, stride, group, k, ws->panel_bf16 + at * KN_BF16_BLOCK + 2 * j);
    }
}

/* Scales and biases of columns from … to - 1. */
struct factors {
    float scale[KN_GROUP_COLUMNS], bias[KN_GROUP_COLUMNS];
};

static struct factors factors_of(const kn_weight *w, int64_t from, int64_t to) {
    struct factors f;
    for (int64_t j = from; j < to; j++) {
        f.scale[j - from] = kn_scale_of(w, j);
        f.bias[j - from] = w->bias ? w->bias[j] : 0;
    }
    return f;
}

static void finish_bf16(const struct product *p, const kn_workspace *ws, int64_t row, int64_t rows, int64_t from,
                        int64_t to) {
    (void)ws;
    struct factors f = factors_of(p->stored.w, from, to);
    for (int64_t i = 0; i < rows; i++) {
        float *c = p->out + (p->first + row + i) * p->stored.columns + from;
        p->run->device->kernels.affine(c, f.scale, f.bias, false, c, (size_t)(to - from));
    }
}

/* ---- int8 ---- */

static void pack_int8(const struct product *p, kn_workspace *ws, int64_t column, size_t n, int64_t k0, size_t k,
                      int64_t at) {
    const kn_stored *s = &p->stored;
    const kn_kernels *kernels = &p->run->device->kernels;
    if (k0 == 0)
        memset(ws->sums + at, 0, kernels->int8_columns * sizeof *ws->sums);
    for (size_t j = 0; j < n; j += KN_TRANSPOSE_ROWS)
        kernels->transpose_int8((const int8_t *)kn_stored_at(s, column + (int64_t)j, k0), s->row_bytes,
                                KN_MIN(n - j, KN_TRANSPOSE_ROWS), k, ws->panel + at * KN_BLOCK + j, ws->sums + at + j);
}

static void finish_int8(const struct product *p, const kn_workspace *ws, int64_t row, int64_t rows, int64_t from,
                        int64_t to) {
    struct factors f = factors_of(p->stored.w, from, to);
    for (int64_t i = 0; i < rows; i++)
        p->run->device->kernels.finish_int8(p->out + (p->first + row + i) * p->stored.columns + from, ws->sums, f.scale,
                                            p->row_scale[row + i], f.bias, (size_t)(to - from));
}

/* ---- blocks of rows and tasks ---- */

static int64_t length_of_pass(const struct product *p, int64_t pass) {
    return KN_MIN(p->kind.block, p->stored.inner - pass * p->kind.block);
}

static uint8_t *packed_at(const struct product *p, int64_t pass, int64_t row) {
    return p->packed + (size_t)(pass * p->packed_rows + row) * ROW_BYTES;
}

static void pack_rows(void *ctx, size_t item, unsigned thread) {
    (void)thread;
    const struct product *p = ctx;
    int64_t from = (int64_t)item * PACK_ROWS, count = KN_MIN(PACK_ROWS, p->rows - from);
    for (int64_t pass = 0; pass < p->passes; pass++) {
        kn_left left = { packed_at(p, pass, from), ROW_BYTES, p->kind.element_bytes, p->kind.put };
        int64_t k = length_of_pass(p, pass), filled = parts(k, p->kind.step) * p->kind.step;
        p->fill(p->ctx, p->first + from, count, pass * p->kind.block, (size_t)k, &left);
        for (int64_t i = 0; i < count && k < filled; i++)
            kn_left_put_zeros(&left, i, (size_t)k, (size_t)(filled - k));
    }
}

/* Whole rows, since they have a scale each. */
static void pack_rows_int8(void *ctx, size_t item, unsigned thread) {
    const struct product *p = ctx;
    const kn_kernels *kernels = &p->run->device->kernels;
    size_t width = (size_t)p->stored.inner, group = (size_t)p->stored.w->turned_group;
    float *turned = p->run->device->workspace[thread].rows;
    int64_t from = (int64_t)item * PACK_ROWS, to = KN_MIN(from + PACK_ROWS, p->rows);
    for (int64_t row = from; row < to; row++) {
        const float *x = (const float *)p->ctx + (size_t)(p->first + row) * width;
        if (group) {
            memcpy(turned, x, width * sizeof *x);
            kernels->turn_groups(turned, width, group);
            x = turned;
        }
        p->row_scale[row] = kernels->scale_int8(x, width);
        for (int64_t pass = 0; pass < p->passes; pass++) {
            size_t k = (size_t)length_of_pass(p, pass), behind = (KN_INT8_STEP - k % KN_INT8_STEP) % KN_INT8_STEP;
            kernels->to_int8(x + pass * p->kind.block, k, p->row_scale[row], packed_at(p, pass, row));
            memset(packed_at(p, pass, row) + k * kernels->int8_bytes, 0, behind * kernels->int8_bytes);
        }
    }
}

/* One pass of rows that stay in cache while the panels of columns from … to - 1 go by. */
static void multiply_strip(const struct product *p, kn_workspace *ws, int64_t pass, int64_t row, int64_t rows,
                           int64_t from, int64_t to) {
    const struct kind *kind = &p->kind;
    int64_t columns = p->stored.columns, k = parts(length_of_pass(p, pass), kind->step) * kind->step;
    for (int64_t j = from; j < to; j += kind->columns)
        kind->product(packed_at(p, pass, row), (size_t)rows, (size_t)k, ws->panel + (j - from) * KN_BLOCK,
                      p->out + (p->first + row) * columns + j, (size_t)columns, (size_t)KN_MIN(kind->columns, to - j),
                      p->bias ? p->bias + j : NULL, pass > 0);
}

struct task {
    int64_t row, rows, from, to; /* rows of the block, columns from … to - 1 */
};

/* Where the n-th group of columns to be begun is, so that those in work at the same time are far from each other:
 * processors fetch more of a row of sums than they were asked for, and would take it from one that still adds to it. */
static int64_t place_of(const struct product *p, int64_t n) {
    int64_t parts = kn_device_threads(p->run->device), part = n % parts, longer = p->column_tasks % parts;
    return part * (p->column_tasks / parts) + KN_MIN(part, longer) + n / parts;
}

/* Tasks go through the rows first, so that threads at work at the same time share columns. */
static struct task task_of(const struct product *p, int64_t item) {
    int64_t part = item < p->whole ? 0 : (item - p->whole) % CUTS;
    int64_t task = item < p->whole ? item : p->whole + (item - p->whole) / CUTS;
    struct task t = { .row = task % p->row_tasks * p->task_rows,
                      .from = place_of(p, task / p->row_tasks) * p->task_columns };
    t.rows = KN_MIN(p->task_rows, p->rows - t.row);
    t.to = KN_MIN(t.from + p->task_columns, p->stored.columns);
    if (item >= p->whole) {
        int64_t rows = part_of(t.rows, parts(t.rows, CUTS), KN_ROW_UNIT);
        t.row += part * rows;
        t.rows = KN_MIN(rows, t.rows - part * rows); /* none may be left */
    }
    return t;
}

/* All passes of some rows and columns. */
static void multiply_columns(void *ctx, size_t item, unsigned thread) {
    const struct product *p = ctx;
    const struct kind *kind = &p->kind;
    kn_workspace *ws = &p->run->device->workspace[thread];
    struct task t = task_of(p, (int64_t)item);
    if (t.rows <= 0)
        return;
    for (int64_t pass = 0; pass < p->passes; pass++) {
        if (kn_is_stopped(p->run))
            return;
        int64_t k = length_of_pass(p, pass);
        for (int64_t j = t.from; j < t.to; j += kind->columns)
            kind->pack(p, ws, j, (size_t)KN_MIN(kind->columns, t.to - j), pass * kind->block, (size_t)k, j - t.from);
        for (int64_t i = 0; i < t.rows; i += STRIP_ROWS)
            multiply_strip(p, ws, pass, t.row + i, KN_MIN(STRIP_ROWS, t.rows - i), t.from, t.to);
    }
    if (kind->finish)
        kind->finish(p, ws, t.row, t.rows, t.from, t.to);
}

/* Blocks and tasks are as large as caches allow, tasks small enough that every thread gets some. */
static void choose_tasks(struct product *p, int64_t rows, unsigned threads) {
    int64_t most = KN_MIN(MOST_ROWS, KN_MAX(FEWEST_ROWS, MOST_BYTES / (p->passes * ROW_BYTES)));
    p->packed_rows = p->task_rows = part_of(rows, most, KN_ROW_UNIT);
    p->task_columns = (int64_t)p->run->device->kernels.group_columns;
    for (;;) {
        p->column_tasks = parts(p->stored.columns, p->task_columns);
        if (p->column_tasks * parts(p->packed_rows, p->task_rows) >= 3 * (int64_t)threads || threads == 1)
            return;
        if (p->task_columns > KN_MAX_COLUMNS)
            p->task_columns = KN_MAX_COLUMNS;
        else if (p->task_rows >= 2 * FEWEST_ROWS)
            p->task_rows = part_of(p->task_rows, p->task_rows / 2, KN_ROW_UNIT);
        else
            return;
    }
}

static void fill_with_bias(const struct product *p, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < p->stored.columns; j++)
            p->out[i * p->stored.columns + j] = p->stored.w->bias ? p->stored.w->bias[j] : 0;
}

static void multiply(struct product *p, int64_t rows) {
    kn_run *r = p->run;
    if (rows <= 0)
        return;
    if (p->stored.inner == 0) {
        if (!r->shapes_only)
            fill_with_bias(p, rows);
        return;
    }
    if (!p->kind.finish)
        p->bias = p->stored.w->bias;
    p->passes = parts(p->stored.inner, p->kind.block);
    choose_tasks(p, rows, kn_device_threads(r->device));
    int64_t words = p->passes * p->packed_rows * KN_STRIDE;
    kn_tensor packed = kn_new(r, 1, (int64_t[]){ words + p->packed_rows });
    p->packed = (uint8_t *)kn_data(packed);
    p->row_scale = kn_data(packed) + words;
    for (; p->first < rows && kn_go_on(r); p->first += p->packed_rows) {
        p->rows = KN_MIN(p->packed_rows, rows - p->first);
        p->row_tasks = parts(p->rows, p->task_rows);
        int64_t tasks = p->row_tasks * p->column_tasks, threads = kn_device_threads(r->device);
        p->whole = threads == 1 ? tasks : KN_MAX(0, tasks - threads);
        double elements = (double)p->rows * (double)p->stored.inner;
        kn_parallel(r, (size_t)parts(p->rows, PACK_ROWS), elements, p->kind.pack_rows, p);
        kn_parallel(r, (size_t)(p->whole + (tasks - p->whole) * CUTS), elements * (double)p->stored.columns,
                    multiply_columns, p);
    }
    kn_drop(r, packed);
}

void kn_multiply(kn_run *r, int64_t rows, kn_fill_fn *fill, const void *ctx, const kn_weight *w, kn_tensor out) {
    const kn_kernels *k = &r->device->kernels;
    struct product p = { .run = r, .stored = kn_stored_of(w), .fill = fill, .ctx = ctx, .out = kn_data(out) };
    if (kn_is_narrow(r))
        p.kind = (struct kind){ .block = KN_BF16_BLOCK,
                                .step = KN_BF16_STEP,
                                .columns = KN_BF16_COLUMNS,
                                .element_bytes = sizeof(uint16_t),
                                .put = k->to_bf16,
                                .pack_rows = pack_rows,
                                .pack = pack_bf16,
                                .product = k->product_bf16,
                                .finish = kn_scale_is_one(w) ? NULL : finish_bf16 };
    else
        p.kind = (struct kind){ .block = KN_BLOCK,
                                .step = 1,
                                .columns = (int64_t)k->columns,
                                .element_bytes = sizeof(float),
                                .put = put_floats,
                                .pack_rows = pack_rows,
                                .pack = pack_floats,
                                .product = k->product };
    multiply(&p, rows);
}

void kn_multiply_int8(kn_run *r, kn_tensor x, const kn_weight *w, kn_tensor out) {
    const kn_kernels *k = &r->device->kernels;
    struct product p = { .run = r,
                         .stored = kn_stored_of(w),
                         .ctx = kn_data(x),
                         .out = kn_data(out),
                         .kind = { .block = KN_INT8_BLOCK / (int64_t)k->int8_bytes,
                                   .step = KN_INT8_STEP,
                                   .columns = (int64_t)k->int8_columns,
                                   .pack_rows = pack_rows_int8,
                                   .pack = pack_int8,
                                   .product = k->product_int8,
                                   .finish = finish_int8 } };
    multiply(&p, kn_row_count(x));
}
