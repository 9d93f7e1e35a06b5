/* What tests of ops share: a run of their own, random numbers, comparison, and every tier of this machine in turn. */
#ifndef KN_TESTS_OPS_TEST_H
#define KN_TESTS_OPS_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/cpu/kernels.h"
#include "compute/ops.h"

static uint64_t seed = 1;

static float rnd(void) { /* in [-1, 1) */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(seed >> 32) * 0x1p-31f;
}

static float *random_values(int64_t n) {
    float *v = malloc((size_t)KN_MAX(n, 1) * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = rnd();
    return v;
}

static inline kn_run begin_with(unsigned threads, const atomic_bool *stop, uint64_t limit) {
    kn_error err = { 0 };
    kn_device *d = NULL;
    kn_run r = { 0 };
    if (!kn_device_open_cpu(threads, &d, &err) || !kn_run_open(d, KN_EXACT, stop, limit, &r, &err))
        fail_msg("%s", err.text);
    return r;
}

static inline kn_run begin(unsigned threads) {
    return begin_with(threads, NULL, 1 << 28);
}

static inline void end(kn_run *r) {
    kn_run_close(r);
    kn_device_close(r->device);
}

#define LIST(...) ((int64_t[]){ __VA_ARGS__ })
#define DIMS(...) (int)KN_COUNT(LIST(__VA_ARGS__)), LIST(__VA_ARGS__)

static float *values_of(kn_run *r, kn_tensor t) {
    float *v = malloc((size_t)KN_MAX(kn_elements(t), 1) * sizeof *v);
    assert_non_null(v);
    kn_download(r, t, v);
    if (r->err.code)
        fail_msg("%s", r->err.text);
    return v;
}

static inline void assert_list(kn_run *r, kn_tensor t, const double *expected, size_t count, double tolerance) {
    assert_int_equal(kn_elements(t), count);
    float *v = values_of(r, t);
    for (size_t i = 0; i < count; i++)
        if (!(fabs(v[i] - expected[i]) <= tolerance))
            fail_msg("element %zu is %.9g, not %.9g", i, v[i], expected[i]);
    free(v);
}

static inline void assert_values(kn_run *r, kn_tensor t, const double *expected, double tolerance) {
    assert_list(r, t, expected, (size_t)kn_elements(t), tolerance);
}

/* |got - expected|_2 / |expected|_2, or the former where all of the latter is zero. */
static inline double relative_l2(kn_run *r, kn_tensor t, const double *expected) {
    float *got = values_of(r, t);
    double off = 0, all = 0;
    for (int64_t i = 0; i < kn_elements(t); i++) {
        off += (got[i] - expected[i]) * (got[i] - expected[i]);
        all += expected[i] * expected[i];
    }
    free(got);
    return sqrt(all > 0 ? off / all : off);
}

#define ASSERT_LIST(run, tensor, tolerance, ...)                                                                       \
    do {                                                                                                               \
        const double list_[] = { __VA_ARGS__ };                                                                        \
        assert_list(run, tensor, list_, KN_COUNT(list_), tolerance);                                                   \
    } while (0)

static inline void assert_failed(kn_run *r, kn_code code, const char *part) {
    assert_int_equal(r->err.code, code);
    if (!strstr(r->err.text, part))
        fail_msg("'%s' does not say '%s'", r->err.text, part);
}

/* _cmocka_run_group_tests is what cmocka_run_group_tests_name calls with the array's size. */
static inline int run_on_every_tier(const struct CMUnitTest *tests, size_t n) {
    int failures = 0;
    for (int t = 0; kn_tier_name(t); t++)
        if (kn_tier_is_here(t)) {
            setenv("KUNO_CPU", kn_tier_name(t), 1);
            failures += _cmocka_run_group_tests(kn_tier_name(t), tests, n, NULL, NULL);
        }
    return failures;
}

#endif
