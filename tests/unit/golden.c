#include "golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void fail_with(const char *what, const char *why) {
    fail_msg("%s: %s", what, why);
}

golden golden_open(const char *path_below_data) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", KN_TEST_DATA, path_below_data);
    golden g = { NULL };
    kn_error err = { 0 };
    if (!kn_weights_open(path, &g.file, &err))
        fail_with(path, err.text);
    return g;
}

void golden_close(golden *g) {
    kn_weights_close(g->file);
    g->file = NULL;
}

bool golden_has(const golden *g, const char *name) {
    return kn_weights_find(g->file, name) != NULL;
}

const kn_entry *golden_entry(const golden *g, const char *name) {
    const kn_entry *e = kn_weights_find(g->file, name);
    if (!e)
        fail_with(name, "not in the golden file");
    return e;
}

const float *golden_floats(const golden *g, const char *name, size_t *count) {
    const kn_entry *e = golden_entry(g, name);
    assert_int_equal(e->dtype, KN_F32);
    assert_int_equal((uintptr_t)e->data % 4, 0);
    if (count)
        *count = e->elements;
    return (const float *)(const void *)e->data;
}

const int32_t *golden_ints(const golden *g, const char *name, size_t *count) {
    const kn_entry *e = golden_entry(g, name);
    assert_int_equal(e->dtype, KN_I32);
    assert_int_equal((uintptr_t)e->data % 4, 0);
    if (count)
        *count = e->elements;
    return (const int32_t *)(const void *)e->data;
}

void golden_compare(const golden *g, const char *name, const float *got, size_t count) {
    size_t n = 0;
    const float *want = golden_floats(g, name, &n);
    if (n != count)
        fail_msg("%s: %zu values, the reference has %zu", name, count, n);
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    double relative = size > 0 ? sqrt(difference / size) : sqrt(difference);
    print_message("    %-32s relative L2 %.2e\n", name, relative);
    if (!(relative <= 1e-4))
        fail_msg("%s: relative L2 %.3e, 1e-4 is allowed", name, relative);
}

void planes_to_rows(const float *planes, int64_t channels, int64_t cells, float *rows) {
    for (int64_t i = 0; i < cells; i++)
        for (int64_t c = 0; c < channels; c++)
            rows[i * channels + c] = planes[c * cells + i];
}

void rows_to_planes(const float *rows, int64_t channels, int64_t cells, float *planes) {
    for (int64_t i = 0; i < cells; i++)
        for (int64_t c = 0; c < channels; c++)
            planes[c * cells + i] = rows[i * channels + c];
}

bound bind_file(const char *path_below_data, const char *prefix, void (*take)(void *network, kn_binder *b),
                void *network) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", KN_TEST_DATA, path_below_data);
    bound b = { NULL, NULL };
    kn_error err = { 0 };
    if (!kn_weights_open(path, &b.file, &err) || !kn_binder_new(b.file, prefix, false, &b.binder, &err))
        fail_with(path, err.text);
    take(network, b.binder);
    if (!kn_binder_finish(b.binder, &err))
        fail_with(path, err.text);
    return b;
}

void unbind(bound *b) {
    kn_binder_free(b->binder);
    kn_weights_close(b->file);
    *b = (bound){ NULL, NULL };
}
