#include "golden.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

static void fail_with(const char *what, const char *why) {
    fail_msg("%s: %s", what, why);
}

golden_file golden_path(const char *path_below_data) {
    golden_file f;
    bool whole = *path_below_data == '/';
    snprintf(f.path, sizeof f.path, "%s%s", whole ? "" : KN_TEST_DATA "/", path_below_data);
    return f;
}

void golden_read(const char *path_below_data, kn_buf *into) {
    kn_error err = { 0 };
    kn_buf_init(into, 1 << 24);
    if (!kn_file_read(golden_path(path_below_data).path, into->limit, into, &err))
        fail_with(path_below_data, err.text);
}

json_t *golden_json(const char *path_below_data) {
    json_error_t why;
    json_t *root = json_load_file(golden_path(path_below_data).path, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
    if (!root)
        fail_with(path_below_data, why.text);
    return root;
}

const char *golden_text(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

double golden_number(const json_t *row, const char *key) {
    json_t *value = json_object_get(row, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

size_t golden_size(const json_t *row, const char *key) {
    return (size_t)json_integer_value(json_object_get(row, key));
}

static kn_weights *open_file(const char *path_below_data) {
    kn_weights *file = NULL;
    kn_error err = { 0 };
    if (!kn_weights_open(golden_path(path_below_data).path, &file, &err))
        fail_with(path_below_data, err.text);
    return file;
}

golden golden_open(const char *path_below_data) {
    return (golden){ open_file(path_below_data) };
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

/* In the file itself, whose writer aligned it. */
static const void *numbers(const golden *g, const char *name, kn_dtype dtype, size_t *count) {
    const kn_entry *e = golden_entry(g, name);
    assert_int_equal(e->dtype, dtype);
    assert_int_equal((uintptr_t)e->data % kn_dtype_bytes(dtype, 1), 0);
    if (count)
        *count = e->elements;
    return e->data;
}

const float *golden_floats(const golden *g, const char *name, size_t *count) {
    return numbers(g, name, KN_F32, count);
}

const double *golden_doubles(const golden *g, const char *name, size_t *count) {
    return numbers(g, name, KN_F64, count);
}

const int32_t *golden_ints(const golden *g, const char *name, size_t *count) {
    return numbers(g, name, KN_I32, count);
}

#define USUAL 1e-4
static double allowed = USUAL;

double golden_allowed(void) {
    return allowed;
}

void golden_allow(double relative) {
    allowed = relative > 0 ? relative : USUAL;
}

double golden_distance(const float *want, const float *got, size_t n) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    return size > 0 ? sqrt(difference / size) : sqrt(difference);
}

void compare_values(const char *name, const float *got, const float *want, size_t n, double tolerance) {
    double relative = golden_distance(want, got, n);
    print_message("    %-32s relative L2 %.2e\n", name, relative);
    if (!(relative <= tolerance))
        fail_msg("%s: relative L2 %.3e, %g is allowed", name, relative, tolerance);
}

void golden_compare(const golden *g, const char *name, const float *got, size_t count) {
    golden_compare_within(g, name, got, count, allowed);
}

void golden_compare_within(const golden *g, const char *name, const float *got, size_t count, double tolerance) {
    size_t n = 0;
    const float *want = golden_floats(g, name, &n);
    if (n != count)
        fail_msg("%s: %zu values, the reference has %zu", name, count, n);
    compare_values(name, got, want, n, tolerance);
}

void golden_compare_start(const golden *g, const char *name, const float *got, size_t count) {
    size_t n = 0;
    const float *want = golden_floats(g, name, &n);
    if (count == 0 || count > n)
        fail_msg("%s: %zu values, the reference has %zu", name, count, n);
    compare_values(name, got, want, count, allowed);
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
    bound b = { open_file(path_below_data), NULL };
    kn_error err = { 0 };
    if (!kn_binder_new(b.file, prefix, false, &b.binder, &err))
        fail_with(path_below_data, err.text);
    take(network, b.binder);
    if (!kn_binder_finish(b.binder, &err))
        fail_with(path_below_data, err.text);
    return b;
}

void unbind(bound *b) {
    kn_binder_free(b->binder);
    kn_weights_close(b->file);
    *b = (bound){ NULL, NULL };
}
