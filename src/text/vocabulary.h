/* The strings of a vocabulary and their ids. Needed only while a tokenizer is loaded: merges are written as strings,
 * encoding works with ids. The strings are in the byte alphabet of the files (kn_byte_symbol in bpe.h). */
#ifndef KN_TEXT_VOCABULARY_H
#define KN_TEXT_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { KN_MAX_TOKENS = 1 << 22, KN_MAX_TOKEN_BYTES = 4096 };

typedef struct kn_vocabulary {
    kn_buf text;
    struct kn_vocabulary_entry *entry; /* in the order of the file */
    size_t n, room;
    uint32_t *slot; /* 1 + index of the entry, 0: free; mask + 1 of them */
    size_t mask;
} kn_vocabulary;

void kn_vocabulary_init(kn_vocabulary *v);
void kn_vocabulary_free(kn_vocabulary *v);

bool kn_vocabulary_add(kn_vocabulary *v, const char *text, size_t len, uint64_t id, kn_error *err);

/* Call once, when all have been added. Refuses strings or ids that occur twice, and ids that leave a hole. */
bool kn_vocabulary_index(kn_vocabulary *v, kn_error *err);

/* The id of `a` directly followed by `b` (which may be empty), or -1. */
int32_t kn_vocabulary_find(const kn_vocabulary *v, const char *a, size_t a_len, const char *b, size_t b_len);

#endif
