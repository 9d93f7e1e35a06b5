/* Attention with products of bfloat16. Keys and values are packed into panels once for all tasks. A task has its query
 * rows packed and goes through the keys a block at a time: scores, weights in their place, and the weighted values
 * added to a result of its own that stays in the cache. The maximum of a row is raised only when scores outgrow it by
 * far, so that what was gathered is hardly ever rescaled. */
#include <math.h>
#include <string.h>

#include "compute/cpu/attention.h"

enum { KEYS = KN_BLOCK, MOST_ROWS = 120, FEWEST_ROWS = 24, ROW_ELEMENTS = 30720 };

struct attention {
    const kn_attention_job *job;
    const kn_kernels *kernels;
    int64_t head_steps, head_panels; /* elements of a head in whole steps of products; in whole panels */
    struct packed {
        int64_t rows;          /* keys in whole panels */
        uint16_t *k;           /* [kv_heads][panels of keys][head_steps / 2][KN_BF16_COLUMNS][2] */
        uint16_t *v;           /* [kv_heads][head_panels][rows / 2][KN_BF16_COLUMNS][2] */
        int64_t blocks, first; /* of KEYS keys; number of the first one among those of all segments */
    } packed[KN_SEGMENTS];
    int64_t blocks;
    float *rooms; /* one per thread */
    int64_t passes, gathered_stride, scores_at, gathered_at, state_at, room_words;
};

/* What a task works in: row after row of its first head, then of the next one. */
struct room {
    uint16_t *q;     /* [passes over the head's elements][rows][KN_BF16_STRIDE] */
    float *scores;   /* [rows][KN_STRIDE], then weights as bfloat16 */
    float *gathered; /* [rows][gathered_stride] */
    float *max, *sum;
};

static int64_t whole(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

int64_t kn_attention_rows_bf16(int64_t head) {
    return KN_MAX(FEWEST_ROWS, KN_MIN(MOST_ROWS, ROW_ELEMENTS / head / 12 * 12));
}

static int64_t k_elements(const struct attention *a, const struct packed *p) {
    return p->rows * a->head_steps; /* of one head */
}

static int64_t v_elements(const struct attention *a, const struct packed *p) {
    return a->head_panels * p->rows * KN_BF16_COLUMNS;
}

/* A panel of keys from row `first` on. */
static void pack_keys(const struct attention *a, const struct kn_keys *s, int64_t kv_head, int64_t first,
                      uint16_t *rounded, uint16_t *panel) {
    const kn_attention_job *job = a->job;
    for (int64_t j = 0; j < KN_BF16_COLUMNS; j += KN_TRANSPOSE_ROWS) {
        int64_t n = KN_MAX(KN_MIN(KN_TRANSPOSE_ROWS, s->rows - first - j), 0);
        for (int64_t i = 0; i < n; i++)
            a->kernels->to_bf16(s->k + ((first + j + i) * job->kv_heads + kv_head) * job->head, (size_t)job->head,
                                rounded + i * a->head_steps);
        a->kernels->transpose_bf16(rounded, (size_t)a->head_steps * sizeof *rounded, (size_t)n, (size_t)job->head,
                                   panel + 2 * j);
    }
}

/* One block of keys and values of one head. */
static void pack_block(void *ctx, size_t item, unsigned thread) {
    const struct attention *a = ctx;
    const kn_attention_job *job = a->job;
    int64_t kv_head = (int64_t)item / a->blocks, block = (int64_t)item % a->blocks;
    int segment = block >= a->packed[1].first;
    const struct kn_keys *s = &job->segments[segment];
    const struct packed *p = &a->packed[segment];
    int64_t first = (block - p->first) * KEYS, n = KN_MIN(KEYS, s->rows - first);
    uint16_t *rounded = (uint16_t *)(a->rooms + thread * a->room_words); /* [KN_TRANSPOSE_ROWS][head_steps] */
    for (int64_t j = 0; j < n; j += KN_BF16_COLUMNS)
        pack_keys(a, s, kv_head, first + j, rounded, p->k + kv_head * k_elements(a, p) + (first + j) * a->head_steps);
    int64_t stride = job->kv_heads * job->head;
    uint16_t *v = p->v + kv_head * v_elements(a, p) + first * KN_BF16_COLUMNS;
    for (int64_t e = 0; e < job->head; e += KN_BF16_COLUMNS)
        a->kernels->gather_bf16(s->v + first * stride + kv_head * job->head + e, (size_t)stride,
                                (size_t)KN_MIN(KN_BF16_COLUMNS, job->head - e), (size_t)n,
                                v + e / KN_BF16_COLUMNS * p->rows * KN_BF16_COLUMNS);
}

static void pack_queries(const struct attention *a, const kn_attention_task *t, const struct room *room) {
    const kn_attention_job *job = a->job;
    int64_t rows = t->heads * t->rows;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t e = 0; e < job->head; e += KN_BF16_BLOCK) {
            int64_t n = KN_MIN(KN_BF16_BLOCK, job->head - e);
            uint16_t *to = room->q + (e / KN_BF16_BLOCK * rows + i) * KN_BF16_STRIDE;
            a->kernels->to_bf16(job->q + ((t->row + i % t->rows) * job->heads + t->head + i / t->rows) * job->head + e,
                                (size_t)n, to);
            memset(to + n, 0, (size_t)(whole(n, KN_BF16_STEP) - n) * sizeof *to);
        }
}

/* Scores of n keys from `first` on. */
static void score_block(const struct attention *a, const struct packed *p, const kn_attention_task *t, int64_t first,
                        int64_t n, const struct room *room) {
    int64_t rows = t->heads * t->rows;
    const uint16_t *panel = p->k + t->kv_head * k_elements(a, p) + first * a->head_steps;
    for (int64_t j = 0; j < n; j += KN_BF16_COLUMNS)
        for (int64_t e = 0; e < a->head_steps; e += KN_BF16_BLOCK) {
            int64_t k = KN_MIN(KN_BF16_BLOCK, a->head_steps - e);
            a->kernels->product_bf16(room->q + e / KN_BF16_BLOCK * rows * KN_BF16_STRIDE, (size_t)rows, (size_t)k,
                                     panel, room->scores + j, KN_STRIDE, (size_t)KN_MIN(KN_BF16_COLUMNS, n - j), NULL,
                                     e > 0);
            panel += k * KN_BF16_COLUMNS;
        }
}

/* Scores to weights; what was gathered so far is rescaled to a new maximum. */
static void weigh_block(const struct attention *a, const kn_attention_task *t, int segment, int64_t first, int64_t n,
                        const struct room *room) {
    const kn_attention_job *job = a->job;
    for (int64_t i = 0; i < t->heads * t->rows; i++) {
        int64_t visible = kn_attention_visible(job, t, segment, i % t->rows, first, n);
        float before = room->max[i];
        float sum = a->kernels->softmax_bf16(room->scores + i * KN_STRIDE, (size_t)visible, (size_t)n,
                                             job->scale * (float)M_LOG2E, &room->max[i]);
        if (before != room->max[i] && before != -INFINITY) {
            float shrink = exp2f(before - room->max[i]);
            room->sum[i] *= shrink;
            float *gathered = room->gathered + i * a->gathered_stride;
            a->kernels->multiply(gathered, shrink, gathered, (size_t)job->head);
        }
        room->sum[i] += sum;
    }
}

/* gathered += weights . values */
static void gather_block(const struct attention *a, const struct packed *p, const kn_attention_task *t, int64_t first,
                         int64_t n, const struct room *room, bool is_first) {
    const uint16_t *panel = p->v + t->kv_head * v_elements(a, p) + first * KN_BF16_COLUMNS;
    for (int64_t e = 0; e < a->job->head; e += KN_BF16_COLUMNS)
        a->kernels->product_bf16((const uint16_t *)room->scores, (size_t)(t->heads * t->rows),
                                 (size_t)whole(n, KN_BF16_STEP), panel + e * p->rows, room->gathered + e,
                                 (size_t)a->gathered_stride, (size_t)KN_MIN(KN_BF16_COLUMNS, a->job->head - e), NULL,
                                 !is_first);
}

static void finish(const struct attention *a, const kn_attention_task *t, const struct room *room) {
    const kn_attention_job *job = a->job;
    for (int64_t i = 0; i < t->heads * t->rows; i++) {
        float *out = job->out + ((t->row + i % t->rows) * job->heads + t->head + i / t->rows) * job->head;
        const float *gathered = room->gathered + i * a->gathered_stride;
        if (room->sum[i] != 0)
            a->kernels->multiply(gathered, 1 / room->sum[i], out, (size_t)job->head);
        else
            memset(out, 0, (size_t)job->head * sizeof *out);
    }
}

static void attend(void *ctx, size_t item, unsigned thread) {
    const struct attention *a = ctx;
    kn_attention_task t = kn_attention_task_of(a->job, item);
    float *own = a->rooms + thread * a->room_words;
    struct room room = { .q = (uint16_t *)own,
                         .scores = own + a->scores_at,
                         .gathered = own + a->gathered_at,
                         .max = own + a->state_at,
                         .sum = own + a->state_at + t.heads * t.rows };
    for (int64_t i = 0; i < t.heads * t.rows; i++) {
        room.max[i] = -INFINITY;
        room.sum[i] = 0;
    }
    pack_queries(a, &t, &room);
    bool is_first = true;
    for (int segment = 0; segment < KN_SEGMENTS; segment++) {
        int64_t end = kn_attention_keys(a->job, &t, segment);
        for (int64_t first = 0; first < end; first += KEYS) {
            if (kn_is_stopped(a->job->run))
                return;
            int64_t n = KN_MIN(KEYS, end - first);
            score_block(a, &a->packed[segment], &t, first, n, &room);
            weigh_block(a, &t, segment, first, n, &room);
            gather_block(a, &a->packed[segment], &t, first, n, &room, is_first);
            is_first = false;
        }
    }
    finish(a, &t, &room);
}

static void lay_out_room(struct attention *a) {
    const kn_attention_job *job = a->job;
    int64_t rows = whole(job->task_rows * job->task_heads, KN_BF16_ROWS);
    a->passes = (job->head + KN_BF16_BLOCK - 1) / KN_BF16_BLOCK;
    a->gathered_stride = whole(job->head, 16) + 16; /* rows should not fall on the same cache lines */
    a->scores_at = a->passes * rows * KN_STRIDE;
    a->gathered_at = a->scores_at + rows * KN_STRIDE;
    a->state_at = a->gathered_at + rows * a->gathered_stride;
    a->room_words = KN_MAX(a->state_at + whole(2 * rows, 16), KN_TRANSPOSE_ROWS * a->head_steps / 2);
}

void kn_attend_bf16(const kn_attention_job *job) {
    kn_run *r = job->run;
    struct attention a = { .job = job,
                           .kernels = &r->device->kernels,
                           .head_steps = whole(job->head, KN_BF16_STEP),
                           .head_panels = (job->head + KN_BF16_COLUMNS - 1) / KN_BF16_COLUMNS };
    kn_tensor tensors[2 * KN_SEGMENTS + 1];
    for (int s = 0; s < KN_SEGMENTS; s++) {
        struct packed *p = &a.packed[s];
        p->rows = whole(job->segments[s].rows, KN_BF16_COLUMNS);
        p->blocks = (p->rows + KEYS - 1) / KEYS;
        p->first = a.blocks;
        a.blocks += p->blocks;
        tensors[2 * s] = kn_new(r, 2, (int64_t[]){ job->kv_heads, k_elements(&a, p) / 2 });
        tensors[2 * s + 1] = kn_new(r, 2, (int64_t[]){ job->kv_heads, v_elements(&a, p) / 2 });
        p->k = (uint16_t *)tensors[2 * s].at;
        p->v = (uint16_t *)tensors[2 * s + 1].at;
    }
    lay_out_room(&a);
    tensors[2 * KN_SEGMENTS] = kn_new(r, 2, (int64_t[]){ kn_device_threads(r->device), a.room_words });
    if (!kn_go_on(r))
        return;
    a.rooms = kn_data(tensors[2 * KN_SEGMENTS]);
    double keys = (double)(job->segments[0].rows + job->segments[1].rows);
    double width = (double)(job->kv_heads * job->head);
    kn_parallel(r, (size_t)(job->kv_heads * a.blocks), 4 * keys * width, pack_block, &a);
    kn_parallel(r, (size_t)(job->row_groups * job->head_groups * job->kv_heads),
                2.0 * (double)job->rows * (double)(job->heads * job->head) * keys, attend, &a);
    for (size_t i = 0; i < KN_COUNT(tensors); i++)
        kn_drop(r, tensors[i]);
}
