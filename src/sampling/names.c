#include "sampling/names.h"

#include "base/text.h"

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same(const char *a, const char *b) {
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return lower(*a) == lower(*b);
}

static const kn_name *row_at(const void *rows, size_t row_bytes, size_t i) {
    return (const kn_name *)((const char *)rows + i * row_bytes);
}

static bool answers_to(const kn_name *row, const char *text) {
    if (same(row->name, text))
        return true;
    for (size_t i = 0; i < KN_COUNT(row->aliases) && row->aliases[i]; i++)
        if (same(row->aliases[i], text))
            return true;
    return false;
}

bool kn_name_find(const char *what, const void *rows, size_t row_bytes, size_t count, const char *text, size_t *ret,
                  kn_error *err) {
    for (size_t i = 0; i < count; i++) {
        if (answers_to(row_at(rows, row_bytes, i), text)) {
            *ret = i;
            return true;
        }
    }
    KN_AUTO_BUF known;
    kn_buf_init(&known, 300);
    bool whole = true;
    for (size_t i = 0; i < count && whole; i++)
        whole = kn_buf_printf(&known, "%s%s", i ? ", " : "", row_at(rows, row_bytes, i)->name);
    return kn_fail(err, KN_E_NOT_FOUND, "unknown %s '%s'; known: %s%s", what, kn_quote_z(text).text, known.data,
                   whole ? "" : ", …");
}
