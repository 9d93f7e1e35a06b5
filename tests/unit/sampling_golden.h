/* Reading golden files of the sampling room: JSON, and tensors of safetensors files. A broken file fails the test. */
#ifndef SAMPLING_GOLDEN_H
#define SAMPLING_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"

static inline json_t *golden_json(const char *name) {
    char path[1000];
    snprintf(path, sizeof path, KN_TEST_DATA "/%s", name);
    json_error_t why;
    json_t *root = json_load_file(path, 0, &why);
    if (!root)
        fail_msg("%s: %s", path, why.text);
    return root;
}

static inline const char *golden_text(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static inline double golden_number(const json_t *row, const char *key) {
    json_t *value = json_object_get(row, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static inline size_t golden_size(const json_t *row, const char *key) {
    return (size_t)json_integer_value(json_object_get(row, key));
}

typedef struct golden_tensors {
    kn_map file;
    json_t *header;
    const uint8_t *data;
} golden_tensors;

static inline golden_tensors golden_tensors_open(const char *name) {
    char path[1000];
    snprintf(path, sizeof path, KN_TEST_DATA "/%s", name);
    golden_tensors t = { .header = NULL };
    assert_true(kn_map_open(path, &t.file, NULL));
    uint64_t length = 0;
    memcpy(&length, t.file.data, sizeof length);
    assert_true(length < t.file.len - 8);
    t.header = json_loadb((const char *)t.file.data + 8, length, 0, NULL);
    t.data = t.file.data + 8 + length;
    assert_non_null(t.header);
    return t;
}

static inline void golden_tensors_close(golden_tensors *t) {
    json_decref(t->header);
    kn_map_close(&t->file);
}

/* A copy of the tensor's bytes, to be freed; item: bytes of one element. */
static inline void *golden_tensor(const golden_tensors *t, const char *name, size_t item, size_t *ret_n) {
    json_t *offsets = json_object_get(json_object_get(t->header, name), "data_offsets");
    if (!offsets)
        fail_msg("no tensor %s", name);
    size_t from = (size_t)json_integer_value(json_array_get(offsets, 0));
    size_t bytes = (size_t)json_integer_value(json_array_get(offsets, 1)) - from;
    *ret_n = bytes / item;
    void *copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, t->data + from, bytes);
    return copy;
}

#endif
