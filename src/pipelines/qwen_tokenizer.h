/* What pipelines with a text encoder of the Qwen family need of its tokenizer. */
#ifndef KN_PIPELINES_QWEN_TOKENIZER_H
#define KN_PIPELINES_QWEN_TOKENIZER_H

#include "pipelines/component.h"
#include "text/tokenizer.h"

/* What source says; nothing: the built-in one. */
bool kn_qwen_tokenizer_read(const kn_source *source, kn_tokenizer **ret, kn_error *err);

/* The same, with its errors named, and checks that it has the control tokens of the family's templates; *turn_start is
 * the id of <|im_start|>.
 */
bool kn_qwen_tokenizer_open(const kn_source *source, kn_tokenizer **ret, int32_t *turn_start, kn_error *err);

/* Whether the text encoder's embedding table, which has so many rows, has one for every token, and its file, if it
 * lists a vocabulary, the same one. */
bool kn_qwen_tokenizer_fits(const kn_tokenizer *t, const kn_component *text, int64_t vocabulary, kn_error *err);

/* The user's text between two parts of a template. It is literal: what looks like a control token in it stays text. */
bool kn_qwen_tokenize(const kn_tokenizer *t, const char *before, const char *text, const char *after, kn_tokens *ret,
                      kn_error *err);

#endif
