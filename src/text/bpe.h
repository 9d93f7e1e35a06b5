/* Byte pair encoding: a word starts as one token per byte; of all neighbours the pair that comes first in the list of
 * merges becomes one token, until no neighbours are in the list. */
#ifndef KN_TEXT_BPE_H
#define KN_TEXT_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The ids of a text, and a growing list of them. */
typedef struct kn_tokens {
    int32_t *id;
    size_t n, room;
} kn_tokens;

void kn_tokens_free(kn_tokens *t);
bool kn_tokens_add(kn_tokens *t, int32_t id, kn_error *err);

typedef struct kn_merge {
    uint32_t left, right, joined; /* ids */
} kn_merge;

typedef struct kn_bpe {
    uint32_t byte_id[256];
    kn_merge *merge; /* by rank */
    size_t n, room;
    uint32_t *slot; /* 1 + rank, 0: free; mask + 1 of them */
    size_t mask;
} kn_bpe;

void kn_bpe_free(kn_bpe *b);

/* Merges are added in the order of their rank and indexed once at the end, where a pair that occurs twice is refused.
 */
bool kn_bpe_add(kn_bpe *b, kn_merge merge, kn_error *err);
bool kn_bpe_index(kn_bpe *b, kn_error *err);

/* What a byte is written as in vocabulary files: printable characters of Latin-1 stand for themselves, the others are
 * U+0100 and up in their order. */
uint32_t kn_byte_symbol(uint8_t byte);

/* Memory for the longest word so far; starts zeroed, and may be used for word after word by one thread. */
typedef struct kn_bpe_scratch {
    struct kn_bpe_symbol *symbol;
    uint64_t *heap;
    size_t room;
} kn_bpe_scratch;

void kn_bpe_scratch_free(kn_bpe_scratch *s);

/* Adds the ids of one word. Time grows with len log len. */
bool kn_bpe_encode(const kn_bpe *b, kn_bpe_scratch *s, const char *word, size_t len, kn_tokens *into, kn_error *err);

#endif
