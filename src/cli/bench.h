/* kuno bench: what its command line says, and what its parts share. bench_ops.c measures single operations,
 * bench_stage.c the stages of a picture, bench_upscale.c enlarging one by a network, bench_picture.c what happens to a
 * finished one; all tell one result at a time, as soon as it is there. */
#ifndef KN_CLI_BENCH_H
#define KN_CLI_BENCH_H

#include <jansson.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "cli/options.h"
#include "compute/cpu/roofline.h"

/* As given; what was not given is NULL, false, or not set. What is to be measured is there. */
typedef struct kn_bench_options {
    const char *what, *filter;
    const char *model_profile, *config, *upscaler;
    kn_given_size size;
    kn_given_integer tokens, repeat, threads;
    const char *precision;
    bool json, paced;
} kn_bench_options;

/* One run of the command. */
typedef struct kn_bench {
    const kn_bench_options *o;
    size_t repeat;
    atomic_bool stop; /* somebody asked to */
} kn_bench;

/* What is measured of one thing, run by run. */
enum { KN_BENCH_REPEAT_MAX = 1000 };
typedef struct kn_bench_times {
    size_t count;
    double seconds[KN_BENCH_REPEAT_MAX], cpu_seconds[KN_BENCH_REPEAT_MAX]; /* by the clock; of processor time */
} kn_bench_times;

/* Before a measurement and after it, for a program that takes turns with others: says that it would go on and waits for
 * a line, false when none will come; tells that measurement. Nothing without --paced. */
bool kn_bench_wait(const kn_bench *b);
void kn_bench_count(const kn_bench *b, kn_bench_times *t, double seconds, double cpu_seconds);

double kn_bench_median(const double *values, size_t count); /* 0 without any */

/* Members "seconds" (a list), "median_seconds", "cpu_seconds" (a median) of a result. */
bool kn_bench_add_times(json_t *result, const kn_bench_times *t);

/* Tells one result: as a line of JSON if that was asked for, else as the text. Takes the object, which is NULL when
 * memory was out. */
bool kn_bench_tell(const kn_bench *b, json_t *result, const kn_buf *text, kn_error *err);

/* How fast something was, and how fast it could have been. */
typedef struct kn_bench_speed {
    double work;              /* floating-point operations, or bytes */
    double per_second;        /* by the clock */
    double per_second_by_cpu; /* by processor time, had all threads been busy */
    double peak[KN_UNIT_COUNT];
    kn_unit limit; /* the unit that could have done it fastest */
    double share;  /* of that, by processor time; 0: the kernels have no such unit */
} kn_bench_speed;

/* The unit that could do arithmetic fastest; int8: with 8-bit integers, too. */
kn_unit kn_bench_limit(const double peak[KN_UNIT_COUNT], kn_precision precision, bool int8);

kn_bench_speed kn_bench_speed_of(double work, const kn_bench_times *t, unsigned threads, kn_unit limit,
                                 const double peak[KN_UNIT_COUNT]);
/* The same of floating-point operations, with the processor's limits measured on the way. */
bool kn_bench_speed_measure(kn_device *d, kn_precision precision, double work, const kn_bench_times *t,
                            kn_bench_speed *ret, kn_error *err);
/* Members "work", "unit", "per_second", "per_second_by_cpu", "peak", and, if there is one, "limit" and "share". */
bool kn_bench_add_speed(json_t *result, const kn_bench_speed *s);
bool kn_bench_print_speed(kn_buf *text, const kn_bench_speed *s) KN_MUST_USE; /* "57.9 GFLOP/s  81 % of bf16" */

bool kn_bench_ops(kn_bench *b, kn_error *err);
bool kn_bench_encode(kn_bench *b, kn_error *err);
bool kn_bench_step(kn_bench *b, kn_error *err);
bool kn_bench_decode(kn_bench *b, kn_error *err);
bool kn_bench_upscale(kn_bench *b, kn_error *err);
bool kn_bench_picture(kn_bench *b, kn_error *err);

/* That nothing has what --filter wants in its name. */
bool kn_bench_fail_filter(const kn_bench *b, kn_error *err);

bool kn_bench_device_open(const kn_bench *b, kn_device **ret, kn_error *err); /* as the options have it */
kn_precision kn_bench_precision(const kn_bench *b);

#endif
