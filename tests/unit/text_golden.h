/* Reading golden files, for the tests of the text room. */
#ifndef KN_TESTS_TEXT_GOLDEN_H
#define KN_TESTS_TEXT_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
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

/* The published vocabulary as files write it. It follows from its merges: the 256 symbols of the byte alphabet, first
 * those that stand for themselves, then token 256 + i, which merge i joins. */
enum { PUBLISHED_TOKENS = 151643 };

typedef struct published_vocabulary {
    kn_buf merges, text; /* merges.txt; each token with its NUL */
    kn_token_text token[PUBLISHED_TOKENS];
    size_t left[PUBLISHED_TOKENS]; /* bytes of the left one of those that are joined */
} published_vocabulary;

static inline published_vocabulary *published_vocabulary_new(void) {
    published_vocabulary *v = malloc(sizeof *v);
    int32_t id = 0;
    assert_non_null(v);
    golden_read(KN_SOURCE "/models/qwen-tokenizer/merges.txt", &v->merges);
    kn_buf_init(&v->text, 1 << 24);
    assert_true(kn_buf_reserve(&v->text, v->merges.len + 1024)); /* so that it never moves */
    for (int strange = 0; strange < 2; strange++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t symbol = kn_byte_symbol((uint8_t)byte);
            char utf8[5] = "";
            if ((symbol >= 0x100) != strange)
                continue;
            v->token[id] = (kn_token_text){ id, v->text.data + v->text.len, kn_utf8_put(symbol, utf8) };
            assert_true(kn_buf_add(&v->text, utf8, v->token[id].len + 1));
            v->left[id++] = 0;
        }
    }
    const char *at = strchr(v->merges.data, '\n') + 1;
    for (const char *nl; (nl = strchr(at, '\n')); at = nl + 1) {
        const char *space = memchr(at, ' ', (size_t)(nl - at));
        assert_true(id < PUBLISHED_TOKENS);
        v->left[id] = (size_t)(space - at);
        v->token[id] = (kn_token_text){ id, v->text.data + v->text.len, (size_t)(nl - at - 1) };
        assert_true(kn_buf_add(&v->text, at, v->left[id]) &&
                    kn_buf_add(&v->text, space + 1, (size_t)(nl - space - 1)) && kn_buf_add(&v->text, "", 1));
        id++;
    }
    assert_int_equal(id, PUBLISHED_TOKENS);
    return v;
}

static inline void published_vocabulary_free(published_vocabulary *v) {
    kn_buf_free(&v->merges);
    kn_buf_free(&v->text);
    free(v);
}

#endif
