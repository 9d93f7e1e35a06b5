#include "base/base64.h"

#include <stdint.h>

/* The six bits that a character stands for; 64: none. */
static unsigned bits_of(char c) {
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

/* One group of four characters, of which `count` are not padding, to count - 1 bytes. bits: of each character. */
static bool decode_group(const uint8_t bits[256], const char *at, size_t count, uint8_t *bytes) {
    uint32_t all = 0, seen = 0;
    for (size_t i = 0; i < 4; i++) {
        uint32_t six = i < count ? bits[(unsigned char)at[i]] : 0;
        seen |= six;
        all = all << 6 | six;
    }
    for (size_t i = 0; i + 1 < count; i++)
        bytes[i] = (uint8_t)(all >> (16 - 8 * i));
    /* What padding leaves over is zero; other bits would be a second way to write the same bytes. */
    return seen < 64 && (count == 4 || (all & (count == 3 ? 0xFF : 0xFFFF)) == 0);
}

bool kn_base64_decode(const char *text, size_t len, kn_buf *into, kn_error *err) {
    uint8_t bits[256], unwanted[3];
    size_t padding = 0;
    if (len % 4)
        return kn_fail(err, KN_E_FORMAT, "not base64: its length is %zu, which is no multiple of 4", len);
    while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
        padding++;
    size_t bytes = len / 4 * 3 - padding, at = 0;
    if (into && !kn_buf_reserve(into, bytes))
        return kn_fail_nomem(err, bytes);
    for (unsigned i = 0; i < sizeof bits; i++)
        bits[i] = (uint8_t)bits_of((char)i);
    uint8_t *to = into ? (uint8_t *)into->data + into->len : unwanted;
    size_t step = into ? 3 : 0, whole = len - (padding ? 4 : 0);
    while (at < whole && decode_group(bits, text + at, 4, to)) {
        at += 4;
        to += step;
    }
    if (at == whole && padding && decode_group(bits, text + at, 4 - padding, to))
        at += 4;
    if (at < len)
        return kn_fail(err, KN_E_FORMAT, "not base64: characters %zu to %zu are no group of it", at + 1, at + 4);
    if (into) {
        into->len += bytes;
        into->data[into->len] = 0;
    }
    return true;
}

bool kn_base64_encode(const void *data, size_t len, kn_buf *into) {
    static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *bytes = data;
    if (!kn_buf_reserve(into, (len + 2) / 3 * 4))
        return false;
    char *at = into->data + into->len;
    for (size_t i = 0; i < len; i += 3) {
        size_t count = KN_MIN(len - i, (size_t)3);
        uint32_t all = (uint32_t)bytes[i] << 16 | (count > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                       (count > 2 ? (uint32_t)bytes[i + 2] : 0);
        for (unsigned k = 0; k < 4; k++)
            *at++ = k <= count ? characters[all >> (18 - 6 * k) & 63] : '=';
    }
    *at = 0;
    into->len += (len + 2) / 3 * 4;
    return true;
}
