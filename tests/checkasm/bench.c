/* Speed of ops at sizes that models have, best of several runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checkasm.h"
#include "compute/cpu/device.h"

static kn_run run;
static uint8_t *numbers; /* in every storage format neither NaN nor subnormal */
enum { NUMBERS = 64 << 20 };

/* One thread is measured by the time it computed, so that others on the machine disturb less. */
static clockid_t used_clock = CLOCK_MONOTONIC;

static double now_s(void) {
    struct timespec t;
    clock_gettime(used_clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct job {
    const char *name;
    void (*op)(const struct job *j);
    int64_t n, in, out;  /* of matrices; attention: rows, head, heads; convolution: side, channels in, out */
    int type;            /* of a weight, or pairs of a rope */
    double flops, bytes; /* of one run; what is 0 is not told */
} job;

static const char *wanted; /* part of the names of the jobs to run */
static kn_tensor input;    /* made once per job */

static void op_linear(const job *j) {
    kn_weight w = { .data = numbers, .dtype = (kn_dtype)j->type, .rank = 2, .dim = { j->out, j->in }, .scale = 1 };
    kn_linear(&run, kn_reshape(&run, input, 2, (int64_t[]){ j->n, j->in }), &w);
}

static void op_conv(const job *j) {
    kn_weight w = {
        .data = numbers, .dtype = (kn_dtype)j->type, .rank = 4, .dim = { j->out, 3, 3, j->in }, .scale = 1
    };
    kn_conv2d(&run, kn_reshape(&run, input, 3, (int64_t[]){ j->n, j->n, j->in }), &w, 1, (kn_pad){ 1, 1, 1, 1 });
}

static void op_attention(const job *j) {
    kn_tensor x = kn_reshape(&run, input, 2, (int64_t[]){ j->n, j->in * j->out });
    kn_attention(&run, x, (kn_kv){ 0 }, (kn_kv){ x, x }, (int)j->out, (int)j->out, false);
}

static void op_silu(const job *j) {
    (void)j;
    kn_silu(&run, input);
}

static void op_rms_norm(const job *j) {
    kn_weight w = { .data = numbers, .dtype = KN_F32, .rank = 1, .dim = { j->in }, .scale = 1, .name = "w" };
    kn_rms_norm(&run, kn_reshape(&run, input, 2, (int64_t[]){ j->n, j->in }), &w, 1e-6f);
}

static void op_group_norm(const job *j) {
    kn_weight w = { .data = numbers, .dtype = KN_F32, .rank = 1, .dim = { j->in }, .scale = 1, .name = "w" };
    kn_group_norm(&run, kn_reshape(&run, input, 3, (int64_t[]){ j->n, j->n, j->in }), &w, &w, 32, 1e-6f, true);
}

static void op_unit_norm(const job *j) {
    kn_weight w = { .data = numbers, .dtype = KN_F32, .rank = 1, .dim = { j->in }, .scale = 1, .name = "w" };
    kn_unit_norm(&run, kn_reshape(&run, input, 2, (int64_t[]){ j->n, j->in }), &w, true);
}

static void op_rope(const job *j) {
    kn_weight w = { .data = numbers, .dtype = KN_F32, .rank = 1, .dim = { j->in }, .scale = 1, .name = "w" };
    kn_tensor x = kn_reshape(&run, input, 2, (int64_t[]){ j->n, j->in * j->out });
    kn_tensor angles = kn_reshape(&run, kn_rows(&run, x, 0, j->n / j->out / 2), 2, (int64_t[]){ j->n, j->in / 2 });
    kn_qk_norm_rope(&run, x, &w, 1e-6f, angles, angles, (kn_rope_pairs)j->type);
}

static void op_upsample(const job *j) {
    kn_upsample2x(&run, kn_reshape(&run, input, 3, (int64_t[]){ j->n, j->n, j->in }));
}

static void op_avg(const job *j) {
    kn_avg_shortcut(&run, kn_reshape(&run, input, 3, (int64_t[]){ j->n, j->n, j->in }), j->out, 2);
}

static void op_dup(const job *j) {
    kn_dup_shortcut(&run, kn_reshape(&run, input, 3, (int64_t[]){ j->n, j->n, j->in }), j->out, 2);
}

static void op_finite(const job *j) {
    kn_check_finite(&run, input, j->name);
}

static void best_of(const job *j, int64_t elements) {
    if (!strstr(j->name, wanted))
        return;
    kn_scope all = kn_scope_open(&run);
    input = kn_new(&run, 1, &elements);
    for (int64_t i = 0; i < elements && run.err.code == KN_OK; i++)
        kn_data(input)[i] = (float)(i % 61 - 30) / 64;
    double best = 1e9, start = now_s();
    for (int i = 0; (i < 3 || now_s() - start < 0.25) && run.err.code == KN_OK; i++) {
        kn_scope s = kn_scope_open(&run);
        double from = now_s();
        j->op(j);
        best = KN_MIN(best, now_s() - from);
        kn_scope_close(&run, s, (kn_tensor){ 0 });
    }
    kn_scope_close(&run, all, (kn_tensor){ 0 });
    if (run.err.code) {
        printf("%-32s %s\n", j->name, run.err.text);
        return;
    }
    printf("%-32s %10.1f us", j->name, best * 1e6);
    if (j->flops > 0)
        printf("  %7.1f GFLOP/s", j->flops / best * 1e-9);
    if (j->bytes > 0)
        printf("  %7.1f GB/s", j->bytes / best * 1e-9);
    printf("\n");
}

static void bench_linear(const char *name, int64_t n, int64_t in, int64_t out, kn_dtype type) {
    double flops = 2.0 * (double)n * (double)in * (double)out;
    double bytes = n < KN_FEW_ROWS ? (double)kn_dtype_bytes(type, (size_t)(in * out)) : 0;
    best_of(&(job){ name, op_linear, n, in, out, type, flops, bytes }, n * in);
}

/* The innermost loop alone, everything in the nearest cache: what the rest is to be measured by. */
static void bench_product(const kn_kernels *k) {
    enum { ROWS = 12, INNER = 128, TIMES = 20000 };
    static float a[ROWS * KN_STRIDE], panel[INNER * KN_MAX_COLUMNS], c[ROWS * KN_MAX_COLUMNS];
    double best = 1e9;
    for (int repeat = 0; repeat < 5; repeat++) {
        double from = now_s();
        for (int i = 0; i < TIMES / 100; i++)
            k->product(a, ROWS, INNER, panel, c, KN_MAX_COLUMNS, k->columns, NULL, true);
        best = KN_MIN(best, now_s() - from);
    }
    double flops = 2.0 * ROWS * INNER * (double)k->columns * (TIMES / 100);
    printf("%-32s %27.1f GFLOP/s\n", "product, in cache", flops / best * 1e-9);
}

static void bench_tier(void) {
    printf("\n%s, %u threads\n", kn_device_kernels(run.device), kn_device_threads(run.device));
    bench_product(&run.device->kernels);
    bench_linear("linear 1024x1024x1024 F32", 1024, 1024, 1024, KN_F32);
    bench_linear("linear 1024x1024x1024 BF16", 1024, 1024, 1024, KN_BF16);
    bench_linear("linear 256x2048x2048 F32", 256, 2048, 2048, KN_F32);
    bench_linear("linear 256x2048x2048 BF16", 256, 2048, 2048, KN_BF16);
    bench_linear("linear 256x2048x2048 F16", 256, 2048, 2048, KN_F16);
    bench_linear("linear 256x2048x2048 F8_E4M3", 256, 2048, 2048, KN_F8_E4M3);
    bench_linear("linear 256x2048x2048 Q8_0", 256, 2048, 2048, KN_Q8_0);
    bench_linear("linear 256x2048x2048 Q4_K", 256, 2048, 2048, KN_Q4_K);
    bench_linear("linear 256x2048x2048 I8", 256, 2048, 2048, KN_I8);
    bench_linear("linear 1x4096x4096 F32", 1, 4096, 4096, KN_F32);
    bench_linear("linear 1x4096x4096 BF16", 1, 4096, 4096, KN_BF16);
    bench_linear("linear 1x4096x4096 F8_E4M3", 1, 4096, 4096, KN_F8_E4M3);
    bench_linear("linear 1x4096x4096 Q8_0", 1, 4096, 4096, KN_Q8_0);
    bench_linear("linear 1x4096x4096 Q4_K", 1, 4096, 4096, KN_Q4_K);
    bench_linear("linear 4x4096x4096 BF16", 4, 4096, 4096, KN_BF16);
    bench_linear("linear 64x192x192 F32", 64, 192, 192, KN_F32);
    bench_linear("linear 64x192x768 BF16", 64, 192, 768, KN_BF16);
    best_of(&(job){ "conv 3x3 64 at 256x256 BF16", op_conv, 256, 64, 64, KN_BF16, 2.0 * 65536 * 9 * 64 * 64, 0 },
            65536 * 64);
    best_of(&(job){ "conv 3x3 144 to 4 at 256x256", op_conv, 256, 144, 4, KN_BF16, 2.0 * 65536 * 9 * 144 * 4, 0 },
            65536 * 144);
    best_of(&(job){ "attention 1024, 8 x 128", op_attention, 1024, 128, 8, KN_F32, 4.0 * 1024 * 1024 * 1024, 0 },
            1024 * 1024);
    best_of(&(job){ "attention 1024, 1 x 1152", op_attention, 1024, 1152, 1, KN_F32, 4.0 * 1024 * 1024 * 1152, 0 },
            1024 * 1152);
    best_of(&(job){ "attention 64, 3 x 64", op_attention, 64, 64, 3, KN_F32, 4.0 * 64 * 64 * 192, 0 }, 64 * 192);
    best_of(&(job){ "silu 1024x1024", op_silu, 1024, 1024, 0, KN_F32, 0, 8.0 * 1024 * 1024 }, 1024 * 1024);
    best_of(&(job){ "rms_norm 1024x1024", op_rms_norm, 1024, 1024, 0, KN_F32, 0, 8.0 * 1024 * 1024 }, 1024 * 1024);
    best_of(&(job){ "check_finite 1024x1024", op_finite, 1024, 1024, 0, KN_F32, 0, 4.0 * 1024 * 1024 }, 1024 * 1024);
    best_of(&(job){ "group_norm, silu 256x256x128", op_group_norm, 256, 128, 0, KN_F32, 0, 12.0 * 65536 * 128 },
            65536 * 128);
    best_of(&(job){ "unit_norm, silu 65536x144", op_unit_norm, 65536, 144, 0, KN_F32, 0, 8.0 * 65536 * 144 },
            65536 * 144);
    best_of(&(job){ "rope halves 1024, 8 x 128", op_rope, 1024, 128, 8, KN_ROPE_HALVES, 0, 8.0 * 1024 * 1024 },
            1024 * 1024);
    best_of(
        &(job){ "rope interleaved 1024, 8 x 128", op_rope, 1024, 128, 8, KN_ROPE_INTERLEAVED, 0, 8.0 * 1024 * 1024 },
        1024 * 1024);
    best_of(&(job){ "upsample2x 128x128x144", op_upsample, 128, 144, 0, KN_F32, 0, 20.0 * 16384 * 144 }, 16384 * 144);
    best_of(&(job){ "avg_shortcut 256x256x96", op_avg, 256, 96, 192, KN_F32, 0, 6.0 * 65536 * 96 }, 65536 * 96);
    best_of(&(job){ "dup_shortcut 128x128x288", op_dup, 128, 288, 144, KN_F32, 0, 12.0 * 16384 * 288 }, 16384 * 288);
    best_of(&(job){ "silu 64x192", op_silu, 64, 192, 0, KN_F32, 0, 8.0 * 64 * 192 }, 64 * 192);
}

int bench_all(unsigned threads, const char *word) {
    wanted = word;
    used_clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    numbers = malloc(NUMBERS);
    if (!numbers)
        return 1;
    for (size_t i = 0; i < NUMBERS; i++)
        numbers[i] = (uint8_t)(0x30 + i % 13);
    for (int t = 1; kn_tier_name(t); t++) {
        kn_error err = { 0 };
        kn_device *d = NULL;
        if (!kn_tier_is_here(t))
            continue;
        setenv("KUNO_CPU", kn_tier_name(t), 1);
        if (!kn_device_open_cpu(threads, &d, &err) || !kn_run_open(d, KN_FAST, NULL, 0, &run, &err)) {
            printf("%s: %s\n", kn_tier_name(t), err.text);
            kn_device_close(d);
            continue;
        }
        bench_tier();
        kn_run_close(&run);
        kn_device_close(d);
    }
    free(numbers);
    return 0;
}
