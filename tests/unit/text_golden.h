/* Reading golden files, for the tests of the text room. */
#ifndef KN_TESTS_TEXT_GOLDEN_H
#define KN_TESTS_TEXT_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "text/tokenizer.h"

static inline kn_tokenizer_bytes golden_bytes(const kn_buf *b) {
    return (kn_tokenizer_bytes){ b->data, b->len };
}

static inline kn_tokenizer *golden_tokenizer(const char *name) {
    kn_tokenizer *t = NULL;
    kn_error err = { 0 };
    if (!kn_tokenizer_open(golden_path(name).path, &t, &err))
        fail_msg("%s: %s", name, err.text);
    return t;
}

#endif
