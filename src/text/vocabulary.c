#include "text/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

struct kn_vocabulary_entry {
    uint32_t at, len, id; /* text[at … at + len) */
};

void kn_vocabulary_init(kn_vocabulary *v) {
    *v = (kn_vocabulary){ 0 };
    kn_buf_init(&v->text, UINT32_MAX);
}

void kn_vocabulary_free(kn_vocabulary *v) {
    kn_buf_free(&v->text);
    free(v->entry);
    free(v->slot);
    kn_vocabulary_init(v);
}

bool kn_vocabulary_add(kn_vocabulary *v, const char *text, size_t len, uint64_t id, kn_error *err) {
    if (len == 0)
        return kn_fail(err, KN_E_FORMAT, "the token is empty");
    if (len > KN_MAX_TOKEN_BYTES)
        return kn_fail(err, KN_E_RANGE, "the token '%s' has %zu bytes, at most %d are allowed",
                       kn_quote(text, len).text, len, KN_MAX_TOKEN_BYTES);
    if (id >= KN_MAX_TOKENS)
        return kn_fail(err, KN_E_RANGE, "the id %llu of '%s' is too large, ids below %d are allowed",
                       (unsigned long long)id, kn_quote(text, len).text, KN_MAX_TOKENS);
    if (v->n == KN_MAX_TOKENS)
        return kn_fail(err, KN_E_RANGE, "there are more than %d tokens", KN_MAX_TOKENS);
    struct kn_vocabulary_entry *all = kn_array_grow(v->entry, v->n, &v->room, sizeof *all, err);
    if (!all)
        return false;
    v->entry = all;
    size_t at = v->text.len;
    if (!kn_buf_add(&v->text, text, len))
        return kn_fail_nomem(err, at + len);
    v->entry[v->n++] = (struct kn_vocabulary_entry){ (uint32_t)at, (uint32_t)len, (uint32_t)id };
    return true;
}

/* FNV-1a, because it can go on from one piece of text to the next. */
static uint64_t hash(uint64_t h, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001B3u;
    return h;
}

/* The slot of a string: it holds the entry, or is free when there is none. Always ends, half of the slots are free. */
static uint32_t *find_slot(const kn_vocabulary *v, const char *a, size_t a_len, const char *b, size_t b_len) {
    uint64_t h = hash(hash(0xCBF29CE484222325u, a, a_len), b, b_len);
    for (size_t i = (size_t)(h ^ h >> 32) & v->mask;; i = (i + 1) & v->mask) {
        uint32_t *slot = &v->slot[i];
        if (!*slot)
            return slot;
        const struct kn_vocabulary_entry *e = &v->entry[*slot - 1];
        const char *text = v->text.data + e->at;
        if (e->len == a_len + b_len && memcmp(text, a, a_len) == 0 && memcmp(text + a_len, b, b_len) == 0)
            return slot;
    }
}

bool kn_vocabulary_index(kn_vocabulary *v, kn_error *err) {
    size_t slots = 2;
    while (slots < 2 * v->n)
        slots *= 2;
    v->slot = calloc(slots, sizeof *v->slot);
    uint32_t *owner = calloc(v->n + 1, sizeof *owner); /* 1 + index of the entry with an id */
    if (!v->slot || !owner) {
        free(owner);
        return kn_fail_nomem(err, slots * sizeof *v->slot + (v->n + 1) * sizeof *owner);
    }
    v->mask = slots - 1;
    bool ok = true;
    for (size_t i = 0; ok && i < v->n; i++) {
        const struct kn_vocabulary_entry *e = &v->entry[i];
        const char *text = v->text.data + e->at;
        uint32_t *slot = find_slot(v, text, e->len, "", 0);
        if (*slot)
            ok = kn_fail(err, KN_E_FORMAT, "entries %u and %zu are the same token '%s'", *slot, i + 1,
                         kn_quote(text, e->len).text);
        else if (e->id >= v->n)
            ok = kn_fail(err, KN_E_FORMAT, "entry %zu, '%s', has id %u, but the %zu tokens must have the ids 0 to %zu",
                         i + 1, kn_quote(text, e->len).text, e->id, v->n, v->n - 1);
        else if (owner[e->id])
            ok = kn_fail(err, KN_E_FORMAT, "entries %u and %zu have the same id %u", owner[e->id], i + 1, e->id);
        if (ok)
            *slot = owner[e->id] = (uint32_t)i + 1;
    }
    free(owner);
    return ok;
}

int32_t kn_vocabulary_find(const kn_vocabulary *v, const char *a, size_t a_len, const char *b, size_t b_len) {
    uint32_t slot = *find_slot(v, a, a_len, b, b_len);
    return slot ? (int32_t)v->entry[slot - 1].id : -1;
}
