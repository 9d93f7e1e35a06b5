/* Whether the vocabulary of another file is this one: tokens are taken apart into the bytes that they were merged from.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "text/tokenizer_internal.h"

enum { PENDING_MAX = 512 }; /* bytes of a token's text that can be compared; the longest published one has 256 */

/* [size]: 1 + the merge that makes an id, 0: none does. */
static uint32_t *list_makers(const kn_tokenizer *t, kn_error *err) {
    uint32_t *maker = calloc((size_t)t->size + 1, sizeof *maker);
    if (!maker)
        kn_fail_nomem(err, ((size_t)t->size + 1) * sizeof *maker);
    for (size_t i = 0; maker && i < t->bpe.n; i++)
        maker[t->bpe.merge[i].joined] = (uint32_t)i + 1;
    return maker;
}

static bool is_byte(const kn_tokenizer *t, uint32_t id, uint32_t symbol) {
    int byte = 0;
    while (byte < 256 && kn_byte_symbol((uint8_t)byte) != symbol)
        byte++;
    return byte < 256 && t->bpe.byte_id[byte] == id;
}

/* Takes the token and its text apart, both from the left, until they differ. No part has less than one byte of text. */
static bool is_spelled(const kn_tokenizer *t, const uint32_t *maker, const kn_token_text *token) {
    uint32_t pending[PENDING_MAX], symbol = 0;
    size_t n = 0;
    const char *at = token->text, *end = at + token->len;
    pending[n++] = (uint32_t)token->id;
    while (n > 0) {
        uint32_t id = pending[--n];
        if (maker[id]) {
            const kn_merge *m = &t->bpe.merge[maker[id] - 1];
            if (n + 2 > KN_MIN((size_t)(end - at), (size_t)PENDING_MAX))
                return false;
            pending[n++] = m->right;
            pending[n++] = m->left;
        } else if (!kn_utf8_next(&at, end, &symbol) || !is_byte(t, id, symbol)) {
            return false;
        }
    }
    return at == end;
}

static const kn_added_token *added_with(const kn_tokenizer *t, int32_t id) {
    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == id)
            return &t->added[i];
    return NULL;
}

static bool is_some_byte(const kn_tokenizer *t, uint32_t id) {
    bool found = false;
    for (int byte = 0; byte < 256; byte++)
        found |= t->bpe.byte_id[byte] == id;
    return found;
}

static bool is_same(const kn_tokenizer *t, const uint32_t *maker, const kn_token_text *token) {
    const kn_added_token *added = added_with(t, token->id);
    if (added)
        return added->len == token->len && memcmp(added->content, token->text, token->len) == 0;
    bool can_occur = token->id < t->size && (maker[token->id] || is_some_byte(t, (uint32_t)token->id));
    return !can_occur || is_spelled(t, maker, token);
}

bool kn_tokenizer_compare(const kn_tokenizer *t, const kn_token_text *other, size_t count, size_t *ret_first,
                          kn_error *err) {
    uint32_t *maker = list_makers(t, err);
    if (!maker)
        return false;
    size_t i = 0;
    while (i < count && is_same(t, maker, &other[i]))
        i++;
    free(maker);
    *ret_first = i;
    return true;
}
