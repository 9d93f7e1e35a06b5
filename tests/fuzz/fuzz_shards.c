/* A split model: an index up to the first byte 0xFF, then at most ten shards, each behind its length in two bytes. The
 * first character of a shard's name is its number. */
#include <stdlib.h>
#include <string.h>

#include "weights/container.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct shards {
    const uint8_t *data[10];
    size_t size[10], count;
} shards;

static void must(bool holds) {
    if (!holds)
        abort();
}

/* A copy of exactly its size for each, so that a sanitizer sees the first byte read beyond the end. */
static shards cut(const uint8_t *at, const uint8_t *end) {
    shards s = { .count = 0 };
    while (end - at >= 2 && s.count < KN_COUNT(s.data)) {
        size_t size = KN_MIN((size_t)(at[0] | at[1] << 8), (size_t)(end - at - 2));
        uint8_t *copy = malloc(size ? size : 1);
        must(copy != NULL);
        memcpy(copy, at + 2, size);
        s.data[s.count] = copy;
        s.size[s.count++] = size;
        at += 2 + size;
    }
    return s;
}

static bool open_shard(void *ctx, const char *name, kn_weights **ret, kn_error *err) {
    const shards *s = ctx;
    must(*name && !strchr(name, '/') && strcmp(name, "..") != 0);
    size_t number = (size_t)(*name - '0');
    *ret = NULL;
    return number >= s->count || kn_weights_open_bytes(s->data[number], s->size[number], ret, err);
}

static bool is_within(const shards *s, const kn_entry *e) {
    bool within = false;
    for (size_t i = 0; i < s->count; i++)
        within |= e->data >= s->data[i] && e->data + e->bytes <= s->data[i] + s->size[i];
    return within;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = data + size, *border = size ? memchr(data, 0xFF, size) : NULL;
    size_t index = border ? (size_t)(border - data) : size;
    shards s = cut(border ? border + 1 : end, end);
    kn_weights *w = NULL;
    kn_error err = { 0 };
    bool ok = kn_shards_read((const char *)data, index, open_shard, &s, &w, &err);
    must(ok == (w != NULL) && ok == (err.code == KN_OK) && ok == !err.text[0]);
    for (size_t i = 0; ok && i < kn_weights_count(w); i++) {
        const kn_entry *e = kn_weights_at(w, i);
        must(kn_weights_find(w, e->name) == e && is_within(&s, e));
        if (kn_dtype_of(e->dtype)->is_weight)
            kn_entry_is_finite(e);
    }
    must(!ok || kn_weights_count(w) > 0);
    kn_weights_close(w);
    for (size_t i = 0; i < s.count; i++)
        free((void *)(uintptr_t)s.data[i]);
    return 0;
}
