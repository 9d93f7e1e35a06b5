#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "text/split.h"
#include "text/tokenizer_internal.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

enum { MAX_ADDED = 1 << 14 };

/* files NULL: the published one. */
static bool open_tokenizer(const kn_tokenizer_files *files, kn_tokenizer **ret, kn_error *err) {
    kn_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return kn_fail_nomem(err, sizeof *t);
    if (!(files ? kn_tokenizer_read_files(t, files, err) : kn_tokenizer_read_published(t, err))) {
        kn_tokenizer_close(t);
        return false;
    }
    *ret = t;
    return true;
}

bool kn_tokenizer_open_bytes(const kn_tokenizer_files *files, kn_tokenizer **ret, kn_error *err) {
    return open_tokenizer(files, ret, err);
}

bool kn_tokenizer_open_published(kn_tokenizer **ret, kn_error *err) {
    return open_tokenizer(NULL, ret, err);
}

bool kn_tokenizer_is_built_in(const kn_tokenizer *t) {
    return t->built_in;
}

void kn_tokenizer_close(kn_tokenizer *t) {
    if (!t)
        return;
    for (size_t i = 0; i < t->n_added; i++)
        free((void *)(uintptr_t)t->added[i].content);
    free(t->added);
    kn_bpe_free(&t->bpe);
    free(t);
}

size_t kn_tokenizer_added_count(const kn_tokenizer *t) {
    return t->n_added;
}

const kn_added_token *kn_tokenizer_added_at(const kn_tokenizer *t, size_t i) {
    return &t->added[i];
}

int32_t kn_tokenizer_size(const kn_tokenizer *t) {
    return t->size;
}

bool kn_tokenizer_add(kn_tokenizer *t, const char *content, size_t len, uint64_t id, bool special, kn_error *err) {
    if (len == 0 || len > KN_MAX_TOKEN_BYTES)
        return kn_fail(err, KN_E_RANGE, "added token %llu has %zu bytes, 1 to %d are allowed", (unsigned long long)id,
                       len, KN_MAX_TOKEN_BYTES);
    if (id >= KN_MAX_TOKENS)
        return kn_fail(err, KN_E_RANGE, "the id %llu of added token '%s' is too large, ids below %d are allowed",
                       (unsigned long long)id, kn_quote(content, len).text, KN_MAX_TOKENS);
    if (t->n_added == MAX_ADDED)
        return kn_fail(err, KN_E_RANGE, "there are more than %d added tokens", MAX_ADDED);
    kn_added_token *all = kn_array_grow(t->added, t->n_added, &t->added_room, sizeof *all, err);
    if (!all)
        return false;
    t->added = all;
    char *copy = malloc(len + 1);
    if (!copy)
        return kn_fail_nomem(err, len + 1);
    memcpy(copy, content, len);
    copy[len] = 0;
    t->added[t->n_added++] = (kn_added_token){ copy, len, (int32_t)id, special };
    t->size = KN_MAX(t->size, (int32_t)id + 1);
    return true;
}

static int compare_content(const void *a, const void *b) {
    return strcmp(((const kn_added_token *)a)->content, ((const kn_added_token *)b)->content);
}

static int compare_id(const void *a, const void *b) {
    int32_t x = ((const kn_added_token *)a)->id, y = ((const kn_added_token *)b)->id;
    return (x > y) - (x < y);
}

bool kn_tokenizer_finish_added(kn_tokenizer *t, kn_error *err) {
    if (t->n_added == 0)
        return true;
    qsort(t->added, t->n_added, sizeof *t->added, compare_id);
    for (size_t i = 1; i < t->n_added; i++)
        if (t->added[i].id == t->added[i - 1].id)
            return kn_fail(err, KN_E_FORMAT, "two added tokens have the id %d", (int)t->added[i].id);
    qsort(t->added, t->n_added, sizeof *t->added, compare_content);
    for (size_t i = 0; i < t->n_added; i++) {
        const kn_added_token *a = &t->added[i];
        if (i > 0 && strcmp(a->content, a[-1].content) == 0)
            return kn_fail(err, KN_E_FORMAT, "added tokens %d and %d are both '%s'", (int)a[-1].id, (int)a->id,
                           kn_quote(a->content, a->len).text);
        t->begins[(unsigned char)a->content[0]] = true;
    }
    return true;
}

int32_t kn_tokenizer_token(const kn_tokenizer *t, const char *content) {
    kn_added_token key = { .content = content };
    const kn_added_token *found =
        t->n_added ? bsearch(&key, t->added, t->n_added, sizeof *t->added, compare_content) : NULL;
    return found ? found->id : -1;
}

/* The first of added[low … high) whose byte at `depth` is at least c. All of them agree on the bytes before. */
static size_t lower_bound(const kn_tokenizer *t, size_t low, size_t high, size_t depth, unsigned c) {
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if ((unsigned char)t->added[mid].content[depth] < c)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The longest added token that the text begins with, or NULL. Narrows the sorted list byte by byte; the shortest of
 * those that agree so far stands first, and its terminating NUL is never mistaken for text: added tokens hold none. */
static const kn_added_token *longest_added(const kn_tokenizer *t, const char *text, size_t len) {
    const kn_added_token *best = NULL;
    size_t low = 0, high = t->n_added;
    for (size_t depth = 0; depth < len && text[depth]; depth++) {
        unsigned c = (unsigned char)text[depth];
        low = lower_bound(t, low, high, depth, c);
        high = lower_bound(t, low, high, depth, c + 1);
        if (low == high)
            break;
        if (t->added[low].len == depth + 1)
            best = &t->added[low];
    }
    return best;
}

struct encoder {
    const kn_tokenizer *t;
    kn_bpe_scratch scratch;
    kn_buf normalized;
    kn_tokens tokens;
    kn_error *err;
};

/* Text between two added tokens. */
static bool encode_piece(struct encoder *e, const char *text, size_t len) {
    if (!kn_nfc_is_certain(text, len)) {
        kn_buf_clear(&e->normalized);
        if (!kn_nfc_add(text, len, &e->normalized, e->err))
            return false;
        text = e->normalized.data;
        len = e->normalized.len;
    }
    for (const char *at = text, *end = text + len, *next; at < end; at = next) {
        next = kn_split_next(at, end);
        if (!kn_bpe_encode(&e->t->bpe, &e->scratch, at, (size_t)(next - at), &e->tokens, e->err))
            return false;
    }
    return true;
}

/* Added tokens are searched in text[at … stop), behind which literal text may follow. What stands before each one, from
 * *done on, is a piece; *done moves behind the last one. */
static bool encode_added(struct encoder *e, const char *text, size_t at, size_t stop, size_t *done) {
    while (at < stop) {
        const kn_added_token *a = NULL;
        if (e->t->begins[(unsigned char)text[at]])
            a = longest_added(e->t, text + at, stop - at);
        if (!a) {
            at++;
            continue;
        }
        if (!encode_piece(e, text + *done, at - *done) || !kn_tokens_add(&e->tokens, a->id, e->err))
            return false;
        at += a->len;
        *done = at;
    }
    return true;
}

static bool encode_text(struct encoder *e, const char *text, const kn_text_part *part, size_t parts) {
    size_t at = 0, done = 0;
    for (size_t i = 0; i < parts;) {
        if (part[i].literal) {
            at += part[i++].len;
            continue;
        }
        size_t stop = at;
        while (i < parts && !part[i].literal)
            stop += part[i++].len;
        if (!encode_added(e, text, at, stop, &done))
            return false;
        at = stop;
    }
    return encode_piece(e, text + done, at - done);
}

bool kn_tokenizer_encode_parts(const kn_tokenizer *t, const kn_text_part *part, size_t parts, kn_tokens *ret,
                               kn_error *err) {
    KN_AUTO_BUF joined;
    kn_buf_init(&joined, KN_TOKENIZER_MAX_TEXT_BYTES);
    for (size_t i = 0; i < parts; i++) {
        if (part[i].len == 0)
            continue;
        if (part[i].len > joined.limit - joined.len)
            return kn_fail(err, KN_E_RANGE, "the text has more than %d bytes", KN_TOKENIZER_MAX_TEXT_BYTES);
        size_t good = kn_utf8_check(part[i].text, part[i].len);
        if (good < part[i].len)
            return kn_fail(err, KN_E_FORMAT, "the text is not UTF-8 at byte %zu", good);
        if (!kn_buf_add(&joined, part[i].text, part[i].len))
            return kn_fail_nomem(err, joined.len + part[i].len);
    }
    struct encoder e = { .t = t, .err = err };
    kn_buf_init(&e.normalized, 3 * joined.limit);
    bool ok = encode_text(&e, joined.data, part, parts);
    kn_buf_free(&e.normalized);
    kn_bpe_scratch_free(&e.scratch);
    if (ok)
        *ret = e.tokens;
    else
        kn_tokens_free(&e.tokens);
    return ok;
}

bool kn_tokenizer_encode(const kn_tokenizer *t, const char *text, size_t len, bool literal, kn_tokens *ret,
                         kn_error *err) {
    kn_text_part part = { text, len, literal };
    return kn_tokenizer_encode_parts(t, &part, 1, ret, err);
}
