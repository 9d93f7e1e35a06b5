#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool kn_utf8_next(const char **at, const char *end, uint32_t *ret) {
    const unsigned char *p = (const unsigned char *)*at;
    size_t left = (size_t)(end - *at);
    if (!left)
        return false;
    if (p[0] < 0x80) {
        *ret = p[0];
        *at += 1;
        return true;
    }
    size_t n = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    if (p[0] < 0xC2 || p[0] > 0xF4 || n > left)
        return false;
    uint32_t c = p[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return false;
        c = c << 6 | (p[i] & 0x3Fu);
    }
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    if (c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return false;
    *ret = c;
    *at += n;
    return true;
}

static uint32_t unit(const uint8_t *at, bool little) {
    return little ? (uint32_t)at[1] << 8 | at[0] : (uint32_t)at[0] << 8 | at[1];
}

bool kn_utf16_next(const uint8_t **at, const uint8_t *end, bool little, uint32_t *ret) {
    const uint8_t *p = *at;
    uint32_t c = end - p >= 2 ? unit(p, little) : 0xDC00, low = 0;
    bool pair = c >= 0xD800 && c < 0xDC00 && end - p >= 4;
    if (pair)
        low = unit(p + 2, little);
    if (pair && low >= 0xDC00 && low < 0xE000)
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    if (c >= 0xD800 && c < 0xE000)
        return false;
    *ret = c;
    *at += pair ? 4 : 2;
    return true;
}

size_t kn_utf8_put(uint32_t c, char out[4]) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    static const unsigned char lead[5] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    out[0] = (char)(lead[n] | c);
    return n;
}

size_t kn_utf8_check(const char *text, size_t len) {
    const char *at = text, *end = text + len;
    uint32_t c = 0;
    while (at < end && kn_utf8_next(&at, end, &c)) {
    }
    return (size_t)(at - text);
}

size_t kn_utf8_cut(const char *text, size_t len, size_t max) {
    if (len <= max)
        return len;
    while (max > 0 && ((unsigned char)text[max] & 0xC0) == 0x80)
        max--;
    return max;
}

void kn_hex(const void *bytes, size_t len, char *into) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *b = bytes;
    for (size_t i = 0; i < len; i++) {
        *into++ = digits[b[i] >> 4];
        *into++ = digits[b[i] & 15];
    }
    *into = 0;
}

bool kn_text_is_hex(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if ((text[i] < '0' || text[i] > '9') && (text[i] < 'a' || text[i] > 'f'))
            return false;
    }
    return true;
}

bool kn_text_is_uuid(const char *text, size_t len) {
    static const size_t groups[] = { 8, 4, 4, 4, 12 };
    size_t at = 0;
    if (len != 36)
        return false;
    for (size_t i = 0; i < KN_COUNT(groups); at += groups[i++] + 1) {
        if (!kn_text_is_hex(text + at, groups[i]) || (i && text[at - 1] != '-'))
            return false;
    }
    return true;
}

/* Whether a character shows as one, in its place, on every terminal. */
static bool is_plain(uint32_t c) {
    return c >= 0x20 && c != 0x7F && !(c >= 0x80 && c < 0xA0) && c != 0x2028 && c != 0x2029 &&
           !(c >= 0x202A && c <= 0x202E) && !(c >= 0x2066 && c <= 0x2069);
}

/* Writes what can be shown of a text, and "…" if that is not all. `most` bounds the bytes of it that are shown, `room`
 * what they become. */
static void quote(const char *text, size_t len, size_t most, char *out, size_t room) {
    enum { MORE_BYTES = sizeof "…", CHARACTER_BYTES = 4 * 4 };
    const char *at = text, *end = text + kn_utf8_cut(text, len, most);
    size_t n = 0;
    while (at < end && n + CHARACTER_BYTES + MORE_BYTES <= room) {
        const char *from = at;
        uint32_t c = 0;
        if (kn_utf8_next(&at, end, &c) && is_plain(c)) {
            memcpy(out + n, from, (size_t)(at - from));
            n += (size_t)(at - from);
            continue;
        }
        if (at == from)
            at++;
        for (const char *b = from; b < at; b++)
            n += (size_t)snprintf(out + n, room - n, "\\x%02x", (unsigned)(unsigned char)*b);
    }
    snprintf(out + n, room - n, "%s", at < text + len ? "…" : "");
}

kn_quoted kn_quote(const char *text, size_t len) {
    kn_quoted q = { "" };
    quote(text, len, 48, q.text, sizeof q.text);
    return q;
}

kn_quoted kn_quote_z(const char *text) {
    return kn_quote(text, strlen(text));
}

kn_quoted_path kn_quote_path(const char *path) {
    kn_quoted_path q = { "" };
    quote(path, strlen(path), sizeof q.text, q.text, sizeof q.text);
    return q;
}

bool kn_parse_u64(const char *text, uint64_t *ret) {
    uint64_t v = 0;
    if (!*text)
        return false;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || KN_MUL_OVERFLOWS(v, 10u, &v) || KN_ADD_OVERFLOWS(v, (uint64_t)(*p - '0'), &v))
            return false;
    }
    *ret = v;
    return true;
}

bool kn_parse_i64(const char *text, int64_t *ret) {
    bool negative = *text == '-';
    uint64_t v = 0;
    if (!kn_parse_u64(text + negative, &v) || v > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool kn_parse_double(const char *text, double *ret) {
    /* Only what a person writes as a decimal number: strtod alone would also take hex, "inf" and leading space. */
    if (!*text || strspn(text, "0123456789+-.eE") != strlen(text))
        return false;
    static locale_t c_locale;
    locale_t l = __atomic_load_n(&c_locale, __ATOMIC_ACQUIRE);
    if (!l) {
        l = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        locale_t none = (locale_t)0;
        if (l && !__atomic_compare_exchange_n(&c_locale, &none, l, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            freelocale(l);
            l = none;
        }
    }
    if (!l)
        return false;
    char *end = NULL;
    errno = 0;
    double v = strtod_l(text, &end, l);
    if (*end || !isfinite(v))
        return false;
    *ret = v;
    return true;
}

kn_bytes_text kn_bytes(uint64_t bytes) {
    kn_bytes_text t;
    double n = (double)bytes;
    if (n < 1e6)
        snprintf(t.text, sizeof t.text, "%.1f kB", n / 1e3);
    else if (n < 1e9)
        snprintf(t.text, sizeof t.text, "%.1f MB", n / 1e6);
    else
        snprintf(t.text, sizeof t.text, "%.2f GB", n / 1e9);
    return t;
}

kn_counted_text kn_counted(uint64_t n, const char *one) {
    kn_counted_text t;
    snprintf(t.text, sizeof t.text, "%" PRIu64 " %s%s", n, one, n == 1 ? "" : "s");
    return t;
}
