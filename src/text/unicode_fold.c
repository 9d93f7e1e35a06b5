#include <stdlib.h>

#include "base/text.h"
#include "text/unicode.h"

/* Of the characters first, first + step, … last each becomes the one that is so far away. */
typedef struct fold_row {
    uint32_t first, last, step;
    int32_t away;
} fold_row;

#include "text/unicode_fold_table.h"

static uint32_t fold(uint32_t c) {
    size_t low = 0, high = KN_COUNT(fold_rows);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (c > fold_rows[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    const fold_row *r = &fold_rows[low];
    bool is_there = low < KN_COUNT(fold_rows) && c >= r->first && (c - r->first) % r->step == 0;
    return is_there ? (uint32_t)((int32_t)c + r->away) : c;
}

static bool add_folded(const char *text, size_t len, kn_buf *into, kn_error *err) {
    uint32_t c = 0;
    for (const char *at = text, *end = text + len; kn_utf8_next(&at, end, &c);) {
        char utf8[4];
        if (!kn_buf_add(into, utf8, kn_utf8_put(fold(c), utf8)))
            return kn_fail_nomem(err, into->len);
    }
    return true;
}

bool kn_fold_add(const char *text, size_t len, kn_buf *into, kn_error *err) {
    KN_AUTO_BUF composed;
    kn_buf_init(&composed, 3 * len);
    if (kn_nfc_is_certain(text, len))
        return add_folded(text, len, into, err);
    return kn_nfc_add(text, len, &composed, err) && add_folded(composed.data, composed.len, into, err);
}
