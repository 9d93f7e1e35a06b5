#include "pipelines/qwen_tokenizer.h"

#include <string.h>

#include "base/text.h"

bool kn_qwen_tokenizer_open(const kn_source *source, kn_tokenizer **ret, int32_t *turn_start, kn_error *err) {
    const kn_tokenizer_files files = { .json = { (const char *)source->data, source->len } };
    kn_tokenizer *t = NULL;
    bool ok = source->path ? kn_tokenizer_open(source->path, &t, err) : kn_tokenizer_open_bytes(&files, &t, err);
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

bool kn_qwen_tokenizer_fits(const kn_tokenizer *t, int64_t vocabulary, kn_error *err) {
    if (kn_tokenizer_size(t) <= vocabulary)
        return true;
    return kn_fail(err, KN_E_FORMAT,
                   "tokenizer: it has %lld tokens, the text encoder's table only %lld; they do not belong together",
                   (long long)kn_tokenizer_size(t), (long long)vocabulary);
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
