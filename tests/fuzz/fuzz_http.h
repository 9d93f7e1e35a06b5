/* What the targets of HTTP share: bytes are read whole and byte by byte, and both must come to the same. */
#ifndef KN_FUZZ_HTTP_H
#define KN_FUZZ_HTTP_H

#include <stdlib.h>
#include <string.h>

#include "http/body.h"

static inline void require(bool promise) {
    if (!promise)
        abort();
}

/* The end of a head, found in steps of so many bytes; returns what kn_head_scan_more does. */
static inline unsigned scan_in_steps(const char *data, size_t size, size_t step, size_t *ret_len) {
    kn_head_scan scan = { 0 };
    unsigned scanned = KN_SCAN_MORE;
    for (size_t len = step < size ? step : size; scanned == KN_SCAN_MORE; len = len + step < size ? len + step : size) {
        scanned = kn_head_scan_more(&scan, data, len);
        require(scan.at <= len);
        if (len == size)
            break;
    }
    *ret_len = scan.at;
    return scanned;
}

/* A head as it was passed on is complete for the next reader. With `grows`, a line of ours may have made it one line or
 * some bytes too long for that: false. */
static inline bool scans_again(const kn_head *h, const char *text, size_t len, bool grows) {
    kn_head_scan scan = { 0 };
    unsigned scanned = kn_head_scan_more(&scan, text, len);
    if (scanned == KN_SCAN_COMPLETE)
        require(scan.at == len);
    else
        require(scanned == 431 && ((grows && h->field_count == KN_HTTP_FIELDS_MAX) || len > KN_HTTP_HEAD_MAX));
    return scanned == KN_SCAN_COMPLETE;
}

static inline bool is_within(const char *data, size_t size, kn_span s) {
    return !s.len || (s.data >= data && s.len <= size && (size_t)(s.data - data) <= size - s.len);
}

/* Everything that a head offers, once. */
static inline void look_at_head(const kn_head *h, const char *data, size_t size) {
    require(h->field_count <= KN_HTTP_FIELDS_MAX && h->len <= KN_HTTP_HEAD_MAX);
    require(is_within(data, size, h->method) && is_within(data, size, h->target) && is_within(data, size, h->reason));
    for (unsigned i = 0; i < h->field_count; i++) {
        kn_span name = kn_head_name(h, &h->fields[i]), value = kn_head_value(h, &h->fields[i]);
        require(name.len && is_within(data, size, name) && is_within(data, size, value));
        require(!memchr(value.data, '\n', value.len) && !memchr(value.data, '\0', value.len));
        bool goes_no_further = kn_field_is_hop_by_hop(h, &h->fields[i]);
        bool tells_the_framing = h->fields[i].id == KN_FIELD_HOST || h->fields[i].id == KN_FIELD_CONTENT_LENGTH;
        require(!goes_no_further || !tells_the_framing || h->status);
    }
}

/* Reads a body in steps of so many bytes into `to`; returns the bytes used, -1 if it is broken. */
static inline ptrdiff_t read_body(kn_body b, const char *data, size_t size, size_t step, char *to, size_t *ret_len) {
    size_t used = 0;
    *ret_len = 0;
    while (used < size && !b.complete) {
        kn_span piece;
        ptrdiff_t n = kn_body_next(&b, data + used, step < size - used ? step : size - used, &piece);
        if (n < 0)
            return -1;
        require(n > 0 && is_within(data, size, piece));
        memcpy(to + *ret_len, piece.data, piece.len);
        *ret_len += piece.len;
        used += (size_t)n;
    }
    return (ptrdiff_t)used;
}

static inline void read_body_both_ways(const kn_head *h, const char *data, size_t size) {
    kn_body b;
    kn_body_begin(&b, h->framing, h->content_length);
    char *whole = malloc(size + 1), *parts = malloc(size + 1);
    require(whole && parts);
    size_t whole_len, parts_len;
    ptrdiff_t used = read_body(b, data, size, size, whole, &whole_len);
    require(read_body(b, data, size, 1, parts, &parts_len) == used);
    if (used >= 0)
        require(whole_len == parts_len && !memcmp(whole, parts, whole_len));
    free(whole);
    free(parts);
}

#endif
