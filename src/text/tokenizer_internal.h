/* Shared by tokenizer.c, which encodes, tokenizer_read.c, which reads files, and published.c, which needs none. */
#ifndef KN_TEXT_TOKENIZER_INTERNAL_H
#define KN_TEXT_TOKENIZER_INTERNAL_H

#include "text/tokenizer.h"

struct kn_tokenizer {
    kn_bpe bpe;
    kn_added_token *added; /* sorted by content, so that those with a common beginning stand together */
    size_t n_added, added_room;
    bool begins[256]; /* some added token begins with this byte */
    int32_t size;
    bool built_in;
};

/* Ordinary tokens of the published tokenizer. */
enum { KN_PUBLISHED_TOKENS = 151643 };

/* Copies the content. Tokens are sorted and checked by kn_tokenizer_finish_added, once at the end. */
bool kn_tokenizer_add(kn_tokenizer *t, const char *content, size_t len, uint64_t id, bool special, kn_error *err);
bool kn_tokenizer_finish_added(kn_tokenizer *t, kn_error *err);

/* Those that the published tokenizer has. */
bool kn_tokenizer_add_published(kn_tokenizer *t, kn_error *err);

/* Fills an empty tokenizer. What has been made when it fails is freed by kn_tokenizer_close. */
bool kn_tokenizer_read_files(kn_tokenizer *t, const kn_tokenizer_files *files, kn_error *err);
bool kn_tokenizer_read_published(kn_tokenizer *t, kn_error *err);

#endif
