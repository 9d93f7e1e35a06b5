#include "pipelines/qwen_tokenizer.h"

#include <string.h>

#include "base/text.h"

enum { SAMPLES = 512 }; /* of a vocabulary */

bool kn_qwen_tokenizer_read(const kn_source *source, kn_tokenizer **ret, kn_error *err) {
    const kn_tokenizer_files files = { .json = { (const char *)source->data, source->len } };
    if (source->path)
        return kn_tokenizer_open(source->path, ret, err);
    return source->data ? kn_tokenizer_open_bytes(&files, ret, err) : kn_tokenizer_open_published(ret, err);
}

bool kn_qwen_tokenizer_open(const kn_source *source, kn_tokenizer **ret, int32_t *turn_start, kn_error *err) {
    kn_tokenizer *t = NULL;
    bool ok = kn_qwen_tokenizer_read(source, &t, err);
    if (!ok && source->path)
        kn_fail_within(err, "'%s'", kn_quote_path(source->path).text);
    if (!ok)
        return kn_fail_within(err, "tokenizer");
    int32_t start = kn_tokenizer_token(t, "<|im_start|>");
    if (start < 0) {
        kn_tokenizer_close(t);
        return kn_fail(err, KN_E_FORMAT, "tokenizer: it has no token <|im_start|>; it is not a Qwen tokenizer");
    }
    *ret = t;
    *turn_start = start;
    return true;
}

/* What people can do about it. */
static const char *advice(const kn_tokenizer *t) {
    return kn_tokenizer_is_built_in(t) ? "name the tokenizer that comes with it, by --tokenizer-path or in the profile"
                                       : "they do not belong together";
}

static const char *name_of(const kn_tokenizer *t) {
    return kn_tokenizer_is_built_in(t) ? "the built-in one" : "it";
}

/* How text becomes tokens, where the file says so: byte-level merges, and Qwen's way to cut words. */
static bool is_kind(const kn_weights *file, const char *key, const char *wanted, kn_error *err) {
    const char *kind = kn_weights_metadata(file, key);
    return !kind || strcmp(kind, wanted) == 0 ||
           kn_fail(err, KN_E_UNSUPPORTED, "text encoder: its file has the %s '%s', '%s' is needed", key,
                   kn_quote_z(kind).text, wanted);
}

/* GGUF files of text encoders have their vocabulary with them. Some of it is compared: every so many ids, and the
 * control tokens. */
static bool agrees_with_file(const kn_tokenizer *t, const kn_weights *file, kn_error *err) {
    kn_texts tokens = kn_weights_texts(file, "tokenizer.ggml.tokens");
    kn_token_text sample[SAMPLES];
    size_t n = 0, first = 0;
    if (!is_kind(file, "tokenizer.ggml.model", "gpt2", err) || !is_kind(file, "tokenizer.ggml.pre", "qwen2", err))
        return false;
    if (tokens.count == 0)
        return true;
    if ((uint64_t)kn_tokenizer_size(t) > tokens.count)
        return kn_fail(err, KN_E_FORMAT, "tokenizer: %s has %lld tokens, the text encoder's file lists %llu; %s",
                       name_of(t), (long long)kn_tokenizer_size(t), (unsigned long long)tokens.count, advice(t));
    int32_t step = kn_tokenizer_size(t) / (SAMPLES / 2) + 1, id = 0;
    for (kn_token_text one = { 0 }; n < SAMPLES && kn_texts_next(&tokens, &one.text, &one.len); id++) {
        one.id = id;
        if (id % step == 0 || (one.len > 2 && one.text[0] == '<' && one.text[1] == '|'))
            sample[n++] = one;
    }
    if (!kn_tokenizer_compare(t, sample, n, &first, err))
        return false;
    return first == n ||
           kn_fail(err, KN_E_FORMAT, "tokenizer: token %d of %s is not '%s', as the text encoder's file has it; %s",
                   (int)sample[first].id, name_of(t), kn_quote(sample[first].text, sample[first].len).text, advice(t));
}

bool kn_qwen_tokenizer_fits(const kn_tokenizer *t, const kn_component *text, int64_t vocabulary, kn_error *err) {
    if (kn_tokenizer_size(t) > vocabulary)
        return kn_fail(err, KN_E_FORMAT, "tokenizer: %s has %lld tokens, the text encoder's table only %lld; %s",
                       name_of(t), (long long)kn_tokenizer_size(t), (long long)vocabulary, advice(t));
    return agrees_with_file(t, text->file, err);
}

bool kn_qwen_tokenize(const kn_tokenizer *t, const char *before, const char *text, const char *after, kn_tokens *ret,
                      kn_error *err) {
    const kn_text_part parts[] = {
        { .text = before, .len = strlen(before) },
        { .text = text, .len = strlen(text), .literal = true },
        { .text = after, .len = strlen(after) },
    };
    return kn_tokenizer_encode_parts(t, parts, KN_COUNT(parts), ret, err) || kn_fail_within(err, "tokenizer");
}
