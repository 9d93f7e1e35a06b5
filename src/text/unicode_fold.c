#include <stdlib.h>

#include "base/text.h"
#include "text/unicode.h"

/* Of the characters first, first + step, … last each becomes the one that is so far away. */
typedef struct fold_row {
    uint32_t first, last, step;
    int32_t away;
} fold_row;

#include "text/unicode_fold_table.h"

static int compare_with_row(const void *character, const void *row) {
    uint32_t c = *(const uint32_t *)character;
    const fold_row *r = row;
    return c < r->first ? -1 : c > r->last;
}

static uint32_t fold(uint32_t c) {
    const fold_row *r = bsearch(&c, fold_rows, KN_COUNT(fold_rows), sizeof *fold_rows, compare_with_row);
    return r && (c - r->first) % r->step == 0 ? (uint32_t)((int32_t)c + r->away) : c;
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
