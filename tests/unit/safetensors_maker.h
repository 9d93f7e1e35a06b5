/* Makes small safetensors files in memory for tests: right ones tensor by tensor, wrong ones from a header's text. */
#ifndef KN_TESTS_SAFETENSORS_MAKER_H
#define KN_TESTS_SAFETENSORS_MAKER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "weights/weights.h"

typedef struct maker {
    kn_buf header, data;
} maker;

/* Header length, header, data. */
static inline void make_raw(kn_buf *file, const char *header, size_t header_len, const void *data, size_t data_len) {
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)header_len >> 8 * i);
    kn_buf_init(file, SIZE_MAX / 2);
    assert_true(kn_buf_add(file, length, 8) && kn_buf_add(file, header, header_len) &&
                kn_buf_add(file, data, data_len));
}

static inline void make_begin(maker *m) {
    kn_buf_init(&m->header, SIZE_MAX / 2);
    kn_buf_init(&m->data, SIZE_MAX / 2);
    assert_true(kn_buf_add_text(&m->header, "{"));
}

/* name is JSON text without its quotes; shape without its brackets. */
static inline void make_tensor(maker *m, const char *name, const char *dtype, const char *shape, const void *data,
                               size_t len) {
    assert_true(kn_buf_printf(&m->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                              m->header.len > 1 ? "," : "", name, dtype, shape, m->data.len, m->data.len + len));
    assert_true(kn_buf_add(&m->data, data, len));
}

static inline void make_zeros(maker *m, const char *name, const char *dtype, const char *shape, size_t len) {
    static const uint8_t zeros[1 << 14];
    assert_true(len <= sizeof zeros);
    make_tensor(m, name, dtype, shape, zeros, len);
}

/* A tensor of another file, under a name of its own. */
static inline void make_copy(maker *m, const char *name, const kn_entry *e) {
    char shape[200] = "";
    for (int i = 0; i < e->rank; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%llu", i ? "," : "",
                 (unsigned long long)e->dim[i]);
    make_tensor(m, name, kn_dtype_of(e->dtype)->name, shape, e->data, e->bytes);
}

static inline void make_metadata(maker *m, const char *object) {
    assert_true(kn_buf_printf(&m->header, "%s\"__metadata__\":%s", m->header.len > 1 ? "," : "", object));
}

/* Ends the file; the maker is free again. */
static inline void make_end(maker *m, kn_buf *file) {
    assert_true(kn_buf_add_text(&m->header, "}"));
    make_raw(file, m->header.data, m->header.len, m->data.data, m->data.len);
    kn_buf_free(&m->header);
    kn_buf_free(&m->data);
}

/* The same on disk, for tests of what mapping a file costs; the caller unlinks path and closes what is returned. */
enum { TEMP_PATH = 32 };
static inline int make_temp(const kn_buf *file, char path[TEMP_PATH]) {
    snprintf(path, TEMP_PATH, "/tmp/kuno-test-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, file->data, file->len), file->len);
    return fd;
}

static inline kn_weights *open_made(const kn_buf *file) {
    kn_weights *w = NULL;
    kn_error err = { 0 };
    if (!kn_weights_open_bytes((const uint8_t *)file->data, file->len, &w, &err))
        fail_msg("%s", err.text);
    return w;
}

#endif
