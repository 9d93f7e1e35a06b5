/* Text to token ids: the byte-level BPE tokenizer of the Qwen family, exactly as published.
 *
 * The published one is part of the program. Others come from files as published (vocab.json, merges.txt and
 * tokenizer_config.json, or tokenizer.json); every tokenizer that splits text in another way is refused by name. It
 * does not know templates: those are the pipelines' business, which look control tokens up by their content. There is
 * no unknown text: what is UTF-8 has ids.
 *
 * Encoding goes like this: the text is cut at added tokens (the longest one that begins first, on the text as it is);
 * each piece in between is brought to NFC, split into words and merged word by word. Nothing is added at either end. So
 * the ids of two strings one after the other are those of the joined string only where an added token begins or ends
 * between them; kn_tokenizer_encode_parts joins text from several sources without that trap.
 *
 * A tokenizer never changes once it is open, and any number of threads may use it at once. */
#ifndef KN_TEXT_TOKENIZER_H
#define KN_TEXT_TOKENIZER_H

#include "text/bpe.h"

/* Most bytes of text for one call; a model reads far less. */
enum { KN_TOKENIZER_MAX_TEXT_BYTES = 1 << 20 };

typedef struct kn_tokenizer kn_tokenizer;

/* A folder with vocab.json, merges.txt and tokenizer_config.json, or with tokenizer.json; or the path of a file in the
 * form of tokenizer.json. In a folder with both forms the smaller three files are read. A folder with neither
 * tokenizer_config.json nor tokenizer.json gets the published added tokens if it has the published vocabulary.
 * Text is always brought to NFC, also where tokenizer.json names no normalizer: the published tokenizer class does so
 * whatever the file says, and both forms then agree. Errors do not contain the path. */
bool kn_tokenizer_open(const char *path, kn_tokenizer **ret, kn_error *err);

/* The same from bytes in memory, which are not needed afterwards. Either json alone, or vocab and merges and possibly
 * config; data is NULL for what there is not. */
typedef struct kn_tokenizer_bytes {
    const char *data;
    size_t len;
} kn_tokenizer_bytes;

typedef struct kn_tokenizer_files {
    kn_tokenizer_bytes vocab, merges, config; /* vocab.json, merges.txt, tokenizer_config.json */
    kn_tokenizer_bytes json;                  /* tokenizer.json */
} kn_tokenizer_files;

bool kn_tokenizer_open_bytes(const kn_tokenizer_files *files, kn_tokenizer **ret, kn_error *err);

/* The published tokenizer of Qwen3. That of Qwen2, 2.5, 3-VL and their like differs in added tokens alone, which plain
 * text is never taken for (see literal below). */
bool kn_tokenizer_open_published(kn_tokenizer **ret, kn_error *err);
bool kn_tokenizer_is_built_in(const kn_tokenizer *t);

void kn_tokenizer_close(kn_tokenizer *t);

/* One string. literal: added tokens in it are ordinary text, so that a prompt never becomes a control token. Without it
 * they are recognised, as in the reference implementations. Text that is not UTF-8 is refused with the place of the
 * first bad byte. Free the result with kn_tokens_free. */
bool kn_tokenizer_encode(const kn_tokenizer *t, const char *text, size_t len, bool literal, kn_tokens *ret,
                         kn_error *err);

/* Several strings that make one text, such as a template around a prompt. Added tokens are searched only in what is not
 * literal, and never across the border of a literal part; everything between two added tokens is encoded as one piece,
 * so that the ids are those of the joined string unless a literal part looks like an added token. */
typedef struct kn_text_part {
    const char *text;
    size_t len;
    bool literal;
} kn_text_part;

bool kn_tokenizer_encode_parts(const kn_tokenizer *t, const kn_text_part *part, size_t parts, kn_tokens *ret,
                               kn_error *err);

/* Added tokens are matched as whole strings before anything else. `special` ones are control tokens of the model. */
typedef struct kn_added_token {
    const char *content;
    size_t len;
    int32_t id;
    bool special;
} kn_added_token;

size_t kn_tokenizer_added_count(const kn_tokenizer *t);
const kn_added_token *kn_tokenizer_added_at(const kn_tokenizer *t, size_t i); /* in the order of their content */

/* The id of an added token by its content, -1 if there is none. */
int32_t kn_tokenizer_token(const kn_tokenizer *t, const char *content);

/* The largest id that can occur plus one; the embedding table needs at least so many rows. */
int32_t kn_tokenizer_size(const kn_tokenizer *t);

/* A token as another file has it: in the byte alphabet of vocabulary files, added tokens as they are. id >= 0. */
typedef struct kn_token_text {
    int32_t id;
    const char *text;
    size_t len;
} kn_token_text;

/* The first of the other file's tokens that is another one here; `count` if there is none. What this tokenizer never
 * makes is no difference. */
bool kn_tokenizer_compare(const kn_tokenizer *t, const kn_token_text *other, size_t count, size_t *ret_first,
                          kn_error *err);

#endif
