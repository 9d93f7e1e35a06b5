/* The tokenizer that Qwen publishes, as a part of the program: its merges are packed (models/qwen-tokenizer),
 * everything else follows from them. */
#include <string.h>

#include "text/tokenizer_internal.h"

/* published_data.S: 36 bits for each merge, its left and its right id, from the lowest bit on. */
extern const uint8_t kn_published_merges[];

enum { BYTES = 256, ID_BITS = 18, SPECIAL = 14 };

/* They stand directly behind the ordinary ones. The last four are Qwen3's alone; older models have plain text there. */
static const char *const added[] = {
    "<|endoftext|>",  "<|im_start|>",   "<|im_end|>",      "<|object_ref_start|>", "<|object_ref_end|>",
    "<|box_start|>",  "<|box_end|>",    "<|quad_start|>",  "<|quad_end|>",         "<|vision_start|>",
    "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>",   "<|video_pad|>",        "<tool_call>",
    "</tool_call>",   "<|fim_prefix|>", "<|fim_middle|>",  "<|fim_suffix|>",       "<|fim_pad|>",
    "<|repo_name|>",  "<|file_sep|>",   "<tool_response>", "</tool_response>",     "<think>",
    "</think>",
};

bool kn_tokenizer_add_published(kn_tokenizer *t, kn_error *err) {
    for (size_t i = 0; i < KN_COUNT(added); i++) {
        if (!kn_tokenizer_add(t, added[i], strlen(added[i]), KN_PUBLISHED_TOKENS + i, i < SPECIAL, err))
            return false;
    }
    return true;
}

/* The ids of bytes: first of those that vocabulary files write as themselves. */
static void number_bytes(kn_bpe *b) {
    uint32_t id = 0;
    for (int as_another = 0; as_another < 2; as_another++) {
        for (int byte = 0; byte < BYTES; byte++) {
            if ((kn_byte_symbol((uint8_t)byte) >= BYTES) == as_another)
                b->byte_id[byte] = id++;
        }
    }
}

static kn_merge merge_at(size_t i) {
    const uint8_t *p = kn_published_merges + 9 * (i / 2) + 4 * (i % 2);
    uint64_t bits = 0;
    for (int k = 4; k >= 0; k--)
        bits = bits << 8 | p[k];
    bits >>= 4 * (i % 2);
    uint32_t mask = (1u << ID_BITS) - 1;
    return (kn_merge){ (uint32_t)bits & mask, (uint32_t)(bits >> ID_BITS) & mask, (uint32_t)(BYTES + i) };
}

bool kn_tokenizer_read_published(kn_tokenizer *t, kn_error *err) {
    size_t merges = KN_PUBLISHED_TOKENS - BYTES;
    number_bytes(&t->bpe);
    for (size_t i = 0; i < merges; i++) {
        if (!kn_bpe_add(&t->bpe, merge_at(i), err))
            return false;
    }
    t->built_in = true;
    return kn_bpe_index(&t->bpe, err) && kn_tokenizer_add_published(t, err) && kn_tokenizer_finish_added(t, err);
}
