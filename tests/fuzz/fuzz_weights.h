/* A model file from anywhere: opened, looked at, and bound by whatever names it has. The targets differ in their seeds:
 * which of the two formats a file is, its first bytes say. */
#ifndef KN_TESTS_FUZZ_WEIGHTS_H
#define KN_TESTS_FUZZ_WEIGHTS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "weights/weights.h"

/* Data is where it was promised, and every failure says something. */
static void look(const kn_weights *w, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < kn_weights_count(w); i++) {
        const kn_entry *e = kn_weights_at(w, i);
        if (kn_weights_find(w, e->name) != e || e->data < data || e->bytes > size ||
            (size_t)(e->data - data) > size - e->bytes)
            abort();
        if (kn_dtype_of(e->dtype)->is_weight)
            kn_entry_is_finite(e);
    }
}

/* A vocabulary is within the file, too. */
static void read_texts(const kn_weights *w, const uint8_t *data, size_t size) {
    kn_texts texts = kn_weights_texts(w, "tokenizer.ggml.tokens");
    const char *text = NULL;
    size_t len = 0, before = 0;
    while (kn_texts_next(&texts, &text, &len)) {
        size_t at = (size_t)((const uint8_t *)text - data);
        if (at < before || len > size || at > size - len)
            abort();
        before = at + len;
    }
}

static void take(kn_binder *b, const kn_weights *w, size_t skip) {
    for (size_t i = 0; i < kn_weights_count(w) && i < 32; i++) {
        const char *name = kn_weights_at(w, i)->name;
        int len = (int)strnlen(name, 300);
        if ((size_t)len < skip)
            continue;
        name += skip;
        len -= (int)skip;
        int stem = len >= 7 && strcmp(name + len - 7, ".weight") == 0 ? len - 7 : len;
        kn_weight m = kn_take_matrix(b, -1, -1, "%.*s", stem, name);
        if (m.data) {
            kn_weight last = kn_weight_rows(&m, m.dim[0] - 1, 1);
            float first[256] = { 0 };
            kn_decode(last.dtype, last.data, kn_dtype_of(last.dtype)->block, first);
        }
        kn_take_conv(b, -1, -1, -1, -1, "%.*s", stem, name);
        kn_take_vector(b, -1, 1, "%.*s", len, name);
    }
}

static int fuzz_weights(const uint8_t *data, size_t size) {
    kn_weights *w = NULL;
    kn_error err = { 0 };
    if (!kn_weights_open_bytes(data, size, &w, &err)) {
        if (err.code == KN_OK || !err.text[0])
            abort();
        return 0;
    }
    look(w, data, size);
    read_texts(w, data, size);
    char prefix[64] = "";
    for (int pass = 0; pass < 2; pass++) {
        kn_binder *b = NULL;
        err = (kn_error){ 0 };
        if (kn_binder_new(w, prefix, false, &b, &err)) {
            take(b, w, strlen(prefix));
            kn_ignore(b, "a");
            if (!kn_binder_finish(b, &err) && (err.code == KN_OK || !err.text[0]))
                abort();
            kn_binder_free(b);
        } else if (err.code == KN_OK || !err.text[0]) {
            abort();
        }
        if (!kn_weights_prefix_of(w, "net.0.weight", prefix, sizeof prefix))
            break;
    }
    kn_weights_close(w);
    return 0;
}

#endif
