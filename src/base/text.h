/* Text that somebody else made: UTF-8 checks, quoting for messages, whole-string number parsing without locale. */
#ifndef KN_BASE_TEXT_H
#define KN_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Decodes one character at *at (not beyond end) and moves *at behind it. False for bytes that are not UTF-8 (overlong
 * forms, surrogates and values above U+10FFFF included); *at is then unchanged. */
bool kn_utf8_next(const char **at, const char *end, uint32_t *ret);

/* Writes one character (at most four bytes) and returns how many. */
size_t kn_utf8_put(uint32_t c, char out[4]);

/* The same for UTF-16 of either order; false also where less than two bytes are left. */
bool kn_utf16_next(const uint8_t **at, const uint8_t *end, bool little, uint32_t *ret);

/* Offset of the first byte that is not UTF-8, or len when all is well. */
size_t kn_utf8_check(const char *text, size_t len);

/* Length of the longest prefix of at most max bytes that ends between characters. */
size_t kn_utf8_cut(const char *text, size_t len, size_t max);

/* 8-4-4-4-12 hexadecimal digits in lower case, as the kernel and drivers write them. */
bool kn_text_is_uuid(const char *text, size_t len);

/* Nothing but hexadecimal digits in lower case, as digests are written. */
bool kn_text_is_hex(const char *text, size_t len);

/* Each byte as two digits, small letters; 2 * len of them and a NUL. */
void kn_hex(const void *bytes, size_t len, char *into);

/* User text for an error message: at most 48 bytes of it, control characters and invalid bytes as \xNN, "…" where it
 * was cut. Returns out. */
typedef struct kn_quoted {
    char text[220];
} kn_quoted;
kn_quoted kn_quote(const char *text, size_t len);
kn_quoted kn_quote_z(const char *text);

/* The same for a path, of which people need all they can get: at most 240 bytes of quoted text. */
typedef struct kn_quoted_path {
    char text[250];
} kn_quoted_path;
kn_quoted_path kn_quote_path(const char *path);

/* "0.5 kB", "2.6 MB", "12.20 GB": powers of ten, as file managers show them. */
typedef struct kn_bytes_text {
    char text[24];
} kn_bytes_text;
kn_bytes_text kn_bytes(uint64_t bytes);

/* "1 tile", "2 tiles": for words whose plural is made by an s. */
typedef struct kn_counted_text {
    char text[64];
} kn_counted_text;
kn_counted_text kn_counted(uint64_t n, const char *one);

/* Whole string or failure; no leading space, no locale. Integers may be decimal only. */
bool kn_parse_u64(const char *text, uint64_t *ret);
bool kn_parse_i64(const char *text, int64_t *ret);
bool kn_parse_double(const char *text, double *ret);

#endif
