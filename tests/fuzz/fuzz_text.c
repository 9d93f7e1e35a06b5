/* base/text.h: what the helpers for foreign text promise to each other, over any bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds)
        abort();
}

/* A quoted text is UTF-8 and has no control characters, whatever went in. */
static void check_quote(const char *text, size_t len) {
    kn_quoted q = kn_quote(text, len);
    size_t n = strlen(q.text);
    require(n < sizeof q.text && kn_utf8_check(q.text, n) == n);
    for (size_t i = 0; i < n; i++)
        require((unsigned char)q.text[i] >= 0x20 && q.text[i] != 0x7F);
}

/* What is valid up to `good` decodes to characters that encode to the same bytes, and the rest starts no character. */
static void check_utf8(const char *text, size_t len) {
    size_t good = kn_utf8_check(text, len);
    require(good <= len);
    const char *at = text, *end = text + len;
    uint32_t c = 0;
    while (at < text + good) {
        const char *from = at;
        char again[4];
        require(kn_utf8_next(&at, end, &c));
        size_t n = kn_utf8_put(c, again);
        require(from + n == at && !memcmp(from, again, n));
    }
    require(!kn_utf8_next(&at, end, &c));
    size_t cut = kn_utf8_cut(text, good, good / 2);
    require(cut <= good / 2 && kn_utf8_check(text, cut) == cut);
}

static void check_numbers(const char *text) {
    uint64_t u = 0;
    int64_t i = 0;
    double d = 0;
    if (kn_parse_u64(text, &u) && u <= INT64_MAX)
        require(kn_parse_i64(text, &i) && (uint64_t)i == u && kn_parse_double(text, &d));
    if (kn_parse_double(text, &d))
        require(d - d == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check_quote(text, size);
    check_utf8(text, size);
    check_numbers(text);
    free(text);
    return 0;
}
