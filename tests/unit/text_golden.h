/* Reading golden files, for the tests of the text room. */
#ifndef KN_TESTS_TEXT_GOLDEN_H
#define KN_TESTS_TEXT_GOLDEN_H

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
#include "text/tokenizer.h"

static inline void golden_read(const char *name, kn_buf *into) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", KN_TEST_DATA, name);
    kn_error err = { 0 };
    kn_buf_init(into, 1 << 24);
    if (!kn_file_read(path, into->limit, into, &err))
        fail_msg("%s: %s", name, err.text);
}

static inline json_t *golden_json(const char *name) {
    kn_buf file;
    golden_read(name, &file);
    json_error_t why;
    json_t *j = json_loadb(file.data, file.len, JSON_ALLOW_NUL, &why);
    if (!j)
        fail_msg("%s: %s", name, why.text);
    kn_buf_free(&file);
    return j;
}

static inline kn_tokenizer_bytes golden_bytes(const kn_buf *b) {
    return (kn_tokenizer_bytes){ b->data, b->len };
}

static inline kn_tokenizer *golden_tokenizer(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", KN_TEST_DATA, name);
    kn_tokenizer *t = NULL;
    kn_error err = { 0 };
    if (!kn_tokenizer_open(path, &t, &err))
        fail_msg("%s: %s", name, err.text);
    return t;
}

#endif
