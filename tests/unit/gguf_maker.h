/* Makes small GGUF files in memory for tests. */
#ifndef KN_TESTS_GGUF_MAKER_H
#define KN_TESTS_GGUF_MAKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "weights/weights.h"

enum { GGUF_U8 = 0, GGUF_U16 = 2, GGUF_U32 = 4, GGUF_I32 = 5, GGUF_BOOL = 7, GGUF_STRING = 8, GGUF_ARRAY = 9 };

typedef struct gguf_maker {
    kn_buf file, data;
} gguf_maker;

static inline void gguf_int(kn_buf *b, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        assert_true(kn_buf_add(b, &(char){ (char)(value >> 8 * i) }, 1));
}

static inline void gguf_text(kn_buf *b, const char *text) {
    gguf_int(b, strlen(text), 8);
    assert_true(kn_buf_add_text(b, text));
}

/* The counts are what the file says, not what it has. */
static inline void gguf_begin(gguf_maker *m, uint64_t tensors, uint64_t pairs) {
    kn_buf_init(&m->file, 1 << 24);
    kn_buf_init(&m->data, 1 << 24);
    assert_true(kn_buf_add_text(&m->file, "GGUF"));
    gguf_int(&m->file, 3, 4);
    gguf_int(&m->file, tensors, 8);
    gguf_int(&m->file, pairs, 8);
}

static inline void gguf_pair_text(gguf_maker *m, const char *key, const char *value) {
    gguf_text(&m->file, key);
    gguf_int(&m->file, GGUF_STRING, 4);
    gguf_text(&m->file, value);
}

static inline void gguf_pair_int(gguf_maker *m, const char *key, int type, uint64_t value, size_t bytes) {
    gguf_text(&m->file, key);
    gguf_int(&m->file, (uint64_t)type, 4);
    gguf_int(&m->file, value, bytes);
}

static inline void gguf_pair_array(gguf_maker *m, const char *key, const int32_t *items, size_t count) {
    gguf_text(&m->file, key);
    gguf_int(&m->file, GGUF_ARRAY, 4);
    gguf_int(&m->file, GGUF_I32, 4);
    gguf_int(&m->file, count, 8);
    for (size_t i = 0; i < count; i++)
        gguf_int(&m->file, (uint32_t)items[i], 4);
}

static inline void gguf_pair_texts(gguf_maker *m, const char *key, const char *const *items, size_t count) {
    gguf_text(&m->file, key);
    gguf_int(&m->file, GGUF_ARRAY, 4);
    gguf_int(&m->file, GGUF_STRING, 4);
    gguf_int(&m->file, count, 8);
    for (size_t i = 0; i < count; i++)
        gguf_text(&m->file, items[i]);
}

/* dims are fastest first, 0 ends them. The data is zeros but for its first byte, the number of bytes before it / 32. */
static inline void gguf_tensor(gguf_maker *m, const char *name, int type, uint64_t dim0, uint64_t dim1, size_t bytes) {
    gguf_text(&m->file, name);
    gguf_int(&m->file, dim1 ? 2 : dim0 ? 1 : 0, 4);
    if (dim0)
        gguf_int(&m->file, dim0, 8);
    if (dim1)
        gguf_int(&m->file, dim1, 8);
    gguf_int(&m->file, (uint64_t)type, 4);
    gguf_int(&m->file, m->data.len, 8);
    gguf_int(&m->data, m->data.len / 32, 1);
    for (size_t i = 1; i < bytes || m->data.len % 32; i++)
        gguf_int(&m->data, 0, 1);
}

/* A tensor of another file, stored as plain numbers, under dimensions of its own (slowest first, at most four). */
static inline void gguf_copy(gguf_maker *m, const kn_entry *e, int rank, const uint64_t *dim) {
    gguf_text(&m->file, e->name);
    gguf_int(&m->file, (uint64_t)rank, 4);
    for (int i = rank - 1; i >= 0; i--)
        gguf_int(&m->file, dim[i], 8);
    gguf_int(&m->file, e->dtype == KN_F32 ? 0 : e->dtype == KN_F16 ? 1 : 30, 4);
    gguf_int(&m->file, m->data.len, 8);
    assert_true(kn_buf_add(&m->data, e->data, e->bytes));
    while (m->data.len % 32)
        gguf_int(&m->data, 0, 1);
}

/* Ends the file, which the caller frees; the maker is free again. */
static inline void gguf_end(gguf_maker *m, kn_buf *file) {
    while (m->file.len % 32)
        gguf_int(&m->file, 0, 1);
    assert_true(kn_buf_add(&m->file, m->data.data, m->data.len));
    kn_buf_free(&m->data);
    *file = m->file;
}

#endif
