/* Attention on the CPU: what is to be done, how it is cut into tasks, and the way in bfloat16. */
#ifndef KN_COMPUTE_CPU_ATTENTION_H
#define KN_COMPUTE_CPU_ATTENTION_H

#include "compute/cpu/device.h"

enum { KN_SEGMENTS = 2 }; /* of keys: those before, and the own ones */

typedef struct kn_attention_job {
    kn_run *run;
    const float *q; /* [rows, heads * head] */
    float *out;     /* the same */
    struct kn_keys {
        const float *k, *v; /* [rows, kv_heads * head] */
        int64_t rows;
    } segments[KN_SEGMENTS];
    int64_t rows, heads, kv_heads, head;
    bool causal;                             /* within the last segment */
    float scale;                             /* of scores */
    int64_t shared, task_heads, head_groups; /* query heads per key head; of these in one task; tasks per key head */
    int64_t task_rows, row_groups;
} kn_attention_job;

/* Some query rows of some heads that share keys and values. */
typedef struct kn_attention_task {
    int64_t row, rows, head, heads, kv_head;
} kn_attention_task;

kn_attention_task kn_attention_task_of(const kn_attention_job *a, size_t item);

/* Keys of a segment that some row of the task sees; those that its i-th row sees of n from `first` on. */
int64_t kn_attention_keys(const kn_attention_job *a, const kn_attention_task *t, int segment);
int64_t kn_attention_visible(const kn_attention_job *a, const kn_attention_task *t, int segment, int64_t i,
                             int64_t first, int64_t n);

/* With products of bfloat16 and sums in float32. */
void kn_attend_bf16(const kn_attention_job *job);
/* Query rows, of all its heads, that a task of it should have at most. */
int64_t kn_attention_rows_bf16(int64_t head);

#endif
