#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void kn_tokens_free(kn_tokens *t) {
    free(t->id);
    *t = (kn_tokens){ 0 };
}

bool kn_tokens_add(kn_tokens *t, int32_t id, kn_error *err) {
    int32_t *all = kn_array_grow(t->id, t->n, &t->room, sizeof *all, err);
    if (!all)
        return false;
    t->id = all;
    t->id[t->n++] = id;
    return true;
}

uint32_t kn_byte_symbol(uint8_t byte) {
    if ((byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    return byte == 0xAD ? 0x143u : 0x121u + byte - 0x7Fu;
}

void kn_bpe_free(kn_bpe *b) {
    free(b->merge);
    free(b->slot);
    *b = (kn_bpe){ 0 };
}

bool kn_bpe_add(kn_bpe *b, kn_merge merge, kn_error *err) {
    kn_merge *all = kn_array_grow(b->merge, b->n, &b->room, sizeof *all, err);
    if (!all)
        return false;
    b->merge = all;
    b->merge[b->n++] = merge;
    return true;
}

/* The slot of a pair: it holds its merge, or is free when there is none. Always ends, half of the slots are free. */
static uint32_t *find_slot(const kn_bpe *b, uint32_t left, uint32_t right) {
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    for (size_t i = (size_t)(h >> 32) & b->mask;; i = (i + 1) & b->mask) {
        uint32_t *slot = &b->slot[i];
        if (!*slot || (b->merge[*slot - 1].left == left && b->merge[*slot - 1].right == right))
            return slot;
    }
}

bool kn_bpe_index(kn_bpe *b, kn_error *err) {
    size_t slots = 2;
    while (slots < 2 * b->n)
        slots *= 2;
    b->slot = calloc(slots, sizeof *b->slot);
    if (!b->slot)
        return kn_fail_nomem(err, slots * sizeof *b->slot);
    b->mask = slots - 1;
    for (size_t i = 0; i < b->n; i++) {
        uint32_t *slot = find_slot(b, b->merge[i].left, b->merge[i].right);
        if (*slot)
            return kn_fail(err, KN_E_FORMAT, "merges %u and %zu join the same pair", *slot, i + 1);
        *slot = (uint32_t)i + 1;
    }
    return true;
}

/* A token of the word being encoded, in a doubly linked list by index. Token i begins at byte i of the word, so the
 * first one is always 0 and "before the first" needs no mark of its own. */
struct kn_bpe_symbol {
    uint32_t id, before, behind; /* behind: the length of the word after the last one */
    uint32_t rank;               /* of the merge with the one behind, or NONE */
};

#define NONE UINT32_MAX

void kn_bpe_scratch_free(kn_bpe_scratch *s) {
    free(s->symbol);
    free(s->heap);
    *s = (kn_bpe_scratch){ 0 };
}

/* n tokens have n - 1 pairs at first, and each of at most n - 1 merges takes one candidate and brings two. */
static bool scratch_reserve(kn_bpe_scratch *s, size_t n, kn_error *err) {
    if (n <= s->room)
        return true;
    kn_bpe_scratch_free(s);
    size_t room = KN_MAX(n, (size_t)64);
    s->symbol = malloc(room * sizeof *s->symbol);
    s->heap = malloc(room * 2 * sizeof *s->heap);
    if (!s->symbol || !s->heap)
        return kn_fail_nomem(err, room * (sizeof *s->symbol + 2 * sizeof *s->heap));
    s->room = room;
    return true;
}

/* A heap of candidates, rank above position: the smallest number is the merge to do next. */
struct heap {
    uint64_t *c;
    size_t n;
};

static void push(struct heap *h, uint64_t candidate) {
    size_t i = h->n++;
    for (; i > 0 && h->c[(i - 1) / 2] > candidate; i = (i - 1) / 2)
        h->c[i] = h->c[(i - 1) / 2];
    h->c[i] = candidate;
}

static uint64_t pop(struct heap *h) {
    uint64_t top = h->c[0], last = h->c[--h->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
        child += child + 1 < h->n && h->c[child + 1] < h->c[child];
        if (h->c[child] >= last)
            break;
        h->c[i] = h->c[child];
    }
    h->c[i] = last;
    return top;
}

/* Looks up the pair that begins at a token and makes it a candidate. What the heap holds for it from before is passed
 * over later, because its rank is no longer that of the token. */
static void rank_pair(const kn_bpe *b, struct kn_bpe_symbol *symbol, uint32_t at, uint32_t len, struct heap *h) {
    struct kn_bpe_symbol *s = &symbol[at];
    s->rank = NONE;
    if (s->behind == len)
        return;
    uint32_t slot = *find_slot(b, s->id, symbol[s->behind].id);
    if (slot) {
        s->rank = slot - 1;
        push(h, (uint64_t)s->rank << 32 | at);
    }
}

bool kn_bpe_encode(const kn_bpe *b, kn_bpe_scratch *s, const char *word, size_t len, kn_tokens *into, kn_error *err) {
    if (len >= NONE)
        return kn_fail(err, KN_E_RANGE, "a word of %zu bytes is too long", len);
    if (!scratch_reserve(s, len, err))
        return false;
    struct kn_bpe_symbol *symbol = s->symbol;
    struct heap h = { .c = s->heap };
    uint32_t n = (uint32_t)len;
    for (uint32_t i = 0; i < n; i++)
        symbol[i] = (struct kn_bpe_symbol){ b->byte_id[(uint8_t)word[i]], i ? i - 1 : 0, i + 1, NONE };
    for (uint32_t i = 0; i < n; i++)
        rank_pair(b, symbol, i, n, &h);
    while (h.n > 0) {
        uint64_t candidate = pop(&h);
        uint32_t at = (uint32_t)candidate, rank = (uint32_t)(candidate >> 32);
        struct kn_bpe_symbol *left = &symbol[at];
        if (left->rank != rank)
            continue;
        struct kn_bpe_symbol *right = &symbol[left->behind];
        right->rank = NONE; /* it is no more */
        left->id = b->merge[rank].joined;
        left->behind = right->behind;
        if (left->behind < n)
            symbol[left->behind].before = at;
        rank_pair(b, symbol, at, n, &h);
        if (at > 0)
            rank_pair(b, symbol, left->before, n, &h);
    }
    for (uint32_t i = 0; i < n; i = symbol[i].behind)
        if (!kn_tokens_add(into, (int32_t)symbol[i].id, err))
            return false;
    return true;
}
