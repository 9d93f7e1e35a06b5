/* Tokenizer files and text. The input is cut at bytes 0xFF, which occur in no UTF-8: one piece is text for a tokenizer
 * of our own; two are tokenizer.json and text; four are vocab.json, merges.txt, tokenizer_config.json and text. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

static void must(bool holds) {
    if (!holds)
        abort();
}

static bool same(const kn_tokens *a, const kn_tokens *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->id, b->id, a->n * sizeof *a->id) == 0);
}

/* Encoding never fails for UTF-8; ids are in range; two open parts are as good as one. */
static void check_encode(const kn_tokenizer *t, kn_tokenizer_bytes text) {
    kn_tokens whole = { 0 }, literal = { 0 }, parts = { 0 };
    bool ok = kn_tokenizer_encode(t, text.data, text.len, false, &whole, NULL);
    must(ok == (kn_utf8_check(text.data, text.len) == text.len));
    if (!ok)
        return;
    size_t half = kn_utf8_cut(text.data, text.len, text.len / 2);
    kn_text_part two[2] = { { text.data, half, false }, { text.data + half, text.len - half, false } };
    must(kn_tokenizer_encode_parts(t, two, 2, &parts, NULL));
    must(same(&whole, &parts));
    must(kn_tokenizer_encode(t, text.data, text.len, true, &literal, NULL));
    for (size_t i = 0; i < whole.n; i++)
        must(whole.id[i] >= 0 && whole.id[i] < kn_tokenizer_size(t));
    kn_tokens_free(&whole);
    kn_tokens_free(&literal);
    kn_tokens_free(&parts);
}

/* With no merge that can apply the ids are the bytes of the text in NFC, and NFC is stable. */
static void check_bytes(const kn_tokenizer *t, kn_tokenizer_bytes text) {
    if (kn_utf8_check(text.data, text.len) < text.len)
        return;
    KN_AUTO_BUF once;
    KN_AUTO_BUF twice;
    kn_buf_init(&once, 3 * text.len);
    kn_buf_init(&twice, 3 * text.len);
    must(kn_nfc_add(text.data, text.len, &once, NULL) && kn_nfc_add(once.data, once.len, &twice, NULL));
    must(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    must(!kn_nfc_is_certain(text.data, text.len) ||
         (once.len == text.len && (text.len == 0 || memcmp(once.data, text.data, text.len) == 0)));
    kn_tokens got = { 0 };
    must(kn_tokenizer_encode(t, text.data, text.len, true, &got, NULL));
    must(got.n == once.len);
    for (size_t i = 0; i < got.n; i++)
        must(got.id[i] == (unsigned char)once.data[i]);
    kn_tokens_free(&got);
}

/* Ids 0 to 255 are the bytes; the only merge is of a letter and a digit, which never stand in one word. */
static kn_tokenizer *own_tokenizer(void) {
    KN_AUTO_BUF vocab;
    kn_buf_init(&vocab, 1 << 16);
    for (int byte = 0; byte < 256; byte++)
        must(kn_buf_printf(&vocab, "%s\"\\u%04x\":%d", byte ? "," : "{", kn_byte_symbol((uint8_t)byte), byte));
    must(kn_buf_add_text(&vocab, ",\"a1\":256}"));
    static const char config[] =
        "{\"added_tokens_decoder\":{\"300\":{\"content\":\"<|im_start|>\"},\"301\":{\"content\":\"<|\"}}}";
    kn_tokenizer_files files = { { vocab.data, vocab.len }, { "a 1", 3 }, { config, sizeof config - 1 }, { NULL, 0 } };
    kn_tokenizer *t = NULL;
    must(kn_tokenizer_open_bytes(&files, &t, NULL));
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static kn_tokenizer *own;
    if (!own)
        own = own_tokenizer();
    kn_tokenizer_bytes piece[4];
    size_t n = 0;
    for (const uint8_t *at = data, *end = data + size; n < 4; n++) {
        const uint8_t *cut = at < end ? memchr(at, 0xFF, (size_t)(end - at)) : NULL;
        piece[n] = (kn_tokenizer_bytes){ (const char *)at, (size_t)((cut ? cut : end) - at) };
        if (!cut) {
            n++;
            break;
        }
        at = cut + 1;
    }
    kn_tokenizer_files files = { .json = piece[0] };
    if (n == 4)
        files = (kn_tokenizer_files){ .vocab = piece[0], .merges = piece[1], .config = piece[2] };
    kn_tokenizer *t = NULL;
    kn_error err = { 0 };
    if (n > 1 && kn_tokenizer_open_bytes(&files, &t, &err))
        check_encode(t, piece[n - 1]);
    else
        must(n == 1 || err.code != KN_OK);
    kn_tokenizer_close(t);
    check_encode(own, piece[n - 1]);
    check_bytes(own, piece[n - 1]);
    return 0;
}
