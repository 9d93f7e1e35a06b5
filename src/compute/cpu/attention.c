#include <math.h>
#include <string.h>

#include "compute/cpu/attention.h"

/* Softmax over blocks of keys with a running maximum and sum per query row ("online"), so that scores exist for one
 * block at a time only. The result gathers in the output itself, rescaled whenever the maximum rises. A task takes some
 * query rows of some heads that share keys and values; how rows are cut into tasks changes no bit of the result. */
enum { MOST_HEADS = 8, FEWEST_ROWS = 32 };

/* What one thread works on: rows × heads, head after head in the workspace. */
struct task {
    const kn_attention_job *a;
    kn_workspace *ws;
    kn_attention_task at;
};

static const kn_kernels *kernels_of(const struct task *t) {
    return &t->a->run->device->kernels;
}

/* k elements from e on of all queries. */
static void pack_queries(const struct task *t, int64_t e, size_t k) {
    const kn_attention_job *a = t->a;
    int64_t stride = a->heads * a->head;
    for (int64_t h = 0; h < t->at.heads; h++)
        for (int64_t i = 0; i < t->at.rows; i++)
            memcpy(t->ws->rows + (h * t->at.rows + i) * KN_STRIDE,
                   a->q + (t->at.row + i) * stride + (t->at.head + h) * a->head + e, k * sizeof(float));
}

/* scores = q . k for keys first … first + n - 1 of a segment, not yet scaled. The elements of a head are taken
 * KN_BLOCK at a time like any summed dimension; if that is all of them, queries stay packed. */
static void score_block(const struct task *t, const struct kn_keys *s, int64_t first, int64_t n, bool is_first) {
    const kn_attention_job *a = t->a;
    const kn_kernels *kernels = kernels_of(t);
    int64_t k_stride = a->kv_heads * a->head;
    for (int64_t e = 0; e < a->head; e += KN_BLOCK) {
        size_t k = (size_t)KN_MIN(KN_BLOCK, a->head - e);
        if (is_first || a->head > KN_BLOCK)
            pack_queries(t, e, k);
        for (int64_t j = 0; j < n; j += (int64_t)kernels->columns) {
            int64_t columns = KN_MIN((int64_t)kernels->columns, n - j);
            const float *keys = s->k + (first + j) * k_stride + t->at.kv_head * a->head + e;
            for (int64_t g = 0; g < columns; g += KN_TRANSPOSE_ROWS)
                kernels->transpose(keys + g * k_stride, (size_t)k_stride * sizeof(float),
                                   (size_t)KN_MIN(KN_TRANSPOSE_ROWS, columns - g), k, t->ws->panel + g);
            kernels->product(t->ws->rows, (size_t)(t->at.heads * t->at.rows), k, t->ws->panel, t->ws->scores + j,
                             KN_STRIDE, (size_t)columns, NULL, e > 0);
        }
    }
}

/* scores -> exp(scores - max), invisible ones 0; what was gathered so far is rescaled to a new maximum. */
static void weigh_block(const struct task *t, int segment, int64_t first, int64_t n, bool is_first) {
    const kn_attention_job *a = t->a;
    const kn_kernels *kernels = kernels_of(t);
    for (int64_t h = 0; h < t->at.heads; h++)
        for (int64_t i = 0; i < t->at.rows; i++) {
            int64_t row = h * t->at.rows + i;
            int64_t visible = kn_attention_visible(a, &t->at, segment, i, first, n);
            float *s = t->ws->scores + row * KN_STRIDE, before = t->ws->max[row];
            memset(s + visible, 0, (size_t)(n - visible) * sizeof *s);
            if (visible == 0)
                continue;
            float sum = kernels->softmax(s, (size_t)visible, a->scale, &t->ws->max[row]);
            if (!is_first && before != t->ws->max[row]) {
                float shrink = expf(before - t->ws->max[row]);
                t->ws->sum[row] *= shrink;
                float *out = a->out + ((t->at.row + i) * a->heads + t->at.head + h) * a->head;
                kernels->multiply(out, shrink, out, (size_t)a->head);
            }
            t->ws->sum[row] += sum;
        }
}

/* out += scores . v */
static void gather_block(const struct task *t, const struct kn_keys *s, int64_t first, int64_t n, bool is_first) {
    const kn_attention_job *a = t->a;
    const kn_kernels *kernels = kernels_of(t);
    int64_t out_stride = a->heads * a->head, v_stride = a->kv_heads * a->head;
    for (int64_t e = 0; e < a->head; e += (int64_t)kernels->columns) {
        size_t columns = (size_t)KN_MIN((int64_t)kernels->columns, a->head - e);
        kernels->gather(s->v + first * v_stride + t->at.kv_head * a->head + e, (size_t)v_stride, columns, (size_t)n,
                        t->ws->panel);
        for (int64_t h = 0; h < t->at.heads; h++)
            kernels->product(t->ws->scores + h * t->at.rows * KN_STRIDE, (size_t)t->at.rows, (size_t)n, t->ws->panel,
                             a->out + t->at.row * out_stride + (t->at.head + h) * a->head + e, (size_t)out_stride,
                             columns, NULL, !is_first);
    }
}

static void finish(const struct task *t, bool any_keys) {
    const kn_attention_job *a = t->a;
    for (int64_t h = 0; h < t->at.heads; h++)
        for (int64_t i = 0; i < t->at.rows; i++) {
            float *out = a->out + ((t->at.row + i) * a->heads + t->at.head + h) * a->head;
            if (any_keys && t->ws->sum[h * t->at.rows + i] != 0)
                kernels_of(t)->multiply(out, 1 / t->ws->sum[h * t->at.rows + i], out, (size_t)a->head);
            else
                memset(out, 0, (size_t)a->head * sizeof *out);
        }
}

kn_attention_task kn_attention_task_of(const kn_attention_job *a, size_t item) {
    int64_t part = (int64_t)item / a->row_groups, row = (int64_t)item % a->row_groups * a->task_rows;
    int64_t kv_head = part / a->head_groups, within = part % a->head_groups * a->task_heads;
    return (kn_attention_task){ .row = row,
                                .rows = KN_MIN(a->task_rows, a->rows - row),
                                .head = kv_head * a->shared + within,
                                .heads = KN_MIN(a->task_heads, a->shared - within),
                                .kv_head = kv_head };
}

static bool is_masked(const kn_attention_job *a, int segment) {
    return a->causal && segment == KN_SEGMENTS - 1;
}

int64_t kn_attention_keys(const kn_attention_job *a, const kn_attention_task *t, int segment) {
    int64_t rows = a->segments[segment].rows;
    return is_masked(a, segment) ? KN_MIN(rows, t->row + t->rows) : rows;
}

int64_t kn_attention_visible(const kn_attention_job *a, const kn_attention_task *t, int segment, int64_t i,
                             int64_t first, int64_t n) {
    return is_masked(a, segment) ? KN_MIN(KN_MAX(t->row + i + 1 - first, 0), n) : n;
}

static void attend(void *ctx, size_t item, unsigned thread) {
    const kn_attention_job *a = ctx;
    struct task t = { a, &a->run->device->workspace[thread], kn_attention_task_of(a, item) };
    for (int64_t i = 0; i < t.at.heads * t.at.rows; i++) {
        t.ws->max[i] = -INFINITY;
        t.ws->sum[i] = 0;
    }
    bool is_first = true;
    for (int segment = 0; segment < KN_SEGMENTS; segment++) {
        const struct kn_keys *s = &a->segments[segment];
        int64_t end = kn_attention_keys(a, &t.at, segment);
        for (int64_t first = 0; first < end; first += KN_BLOCK) {
            if (kn_is_stopped(a->run))
                return;
            int64_t n = KN_MIN(KN_BLOCK, end - first);
            score_block(&t, s, first, n, is_first);
            weigh_block(&t, segment, first, n, is_first);
            gather_block(&t, s, first, n, is_first);
            is_first = false;
        }
    }
    finish(&t, !is_first);
}

static void choose_tasks(kn_attention_job *a, int64_t most_rows, unsigned threads) {
    a->shared = a->heads / a->kv_heads;
    a->task_heads = KN_MIN(a->shared, MOST_HEADS);
    a->head_groups = (a->shared + a->task_heads - 1) / a->task_heads;
    a->task_rows = KN_MAX(1, most_rows / a->task_heads);
    for (;;) {
        a->row_groups = (a->rows + a->task_rows - 1) / a->task_rows;
        if (threads == 1 || a->row_groups * a->head_groups * a->kv_heads >= 4 * (int64_t)threads ||
            a->task_rows * a->task_heads < 2 * FEWEST_ROWS)
            return;
        a->task_rows = (a->task_rows + 1) / 2;
    }
}

static bool take_segment(kn_run *r, kn_kv kv, int64_t width, struct kn_keys *ret) {
    if (kv.k.rank == 0 && kv.v.rank == 0)
        return true;
    if (kv.k.rank == 0 || !kn_same_shape(kv.k, kv.v) || kn_last_dim(kv.k) != width) {
        kn_run_fail(r, KN_E_USAGE, "attention: keys of [%s] and values of [%s]; rows of %lld are needed",
                    kn_shape(kv.k.rank, kv.k.dim).text, kn_shape(kv.v.rank, kv.v.dim).text, (long long)width);
        return false;
    }
    *ret = (struct kn_keys){ kn_data(kv.k), kn_data(kv.v), kn_row_count(kv.k) };
    return true;
}

kn_tensor kn_attention(kn_run *r, kn_tensor q, kn_kv before, kn_kv own, int heads, int kv_heads, bool causal) {
    if (!kn_op_starts(r, "attention", q, 1))
        return kn_none;
    int64_t width = kn_last_dim(q);
    if (heads < 1 || kv_heads < 1 || heads % kv_heads || width % heads) {
        kn_run_fail(r, KN_E_USAGE, "attention: [%s] cannot be %d heads that share %d", kn_shape(q.rank, q.dim).text,
                    heads, kv_heads);
        return kn_none;
    }
    kn_attention_job a = { .run = r,
                           .q = kn_data(q),
                           .rows = kn_row_count(q),
                           .heads = heads,
                           .kv_heads = kv_heads,
                           .head = width / heads,
                           .causal = causal,
                           .scale = 1 / sqrtf((float)(width / heads)) };
    if (!take_segment(r, before, kv_heads * a.head, &a.segments[0]) ||
        !take_segment(r, own, kv_heads * a.head, &a.segments[1]))
        return kn_none;
    kn_tensor y = kn_new_like(r, q, width);
    if (kn_elements(y) == 0)
        return y;
    a.out = kn_data(y);
    double keys = (double)(a.segments[0].rows + a.segments[1].rows), products = 2 * (double)kn_elements(y) * keys;
    r->products += products;
    bool narrow = kn_is_narrow(r);
    choose_tasks(&a, narrow ? kn_attention_rows_bf16(a.head) : KN_QUERY_ROWS, kn_device_threads(r->device));
    if (narrow) {
        kn_attend_bf16(&a);
        return kn_go_on(r) ? y : kn_none;
    }
    bool done = kn_parallel(r, (size_t)(a.row_groups * a.head_groups * a.kv_heads), products, attend, &a);
    return done ? y : kn_none;
}
