#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int kn_error_set(kn_error *err, kn_code code, const char *fmt, ...) {
    if (!err || err->code != KN_OK)
        return 0;
    va_list ap;
    va_start(ap, fmt);
    err->code = code;
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return 0;
}

int kn_error_set_within(kn_error *err, const char *fmt, ...) {
    if (!err || err->code == KN_OK || err->code == KN_E_CANCELLED)
        return 0;
    char front[sizeof err->text - 2];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(front, sizeof front, fmt, ap);
    va_end(ap);
    size_t used = strlen(front), keep = KN_MIN(strlen(err->text), sizeof err->text - 3 - used);
    memmove(err->text + used + 2, err->text, keep);
    memcpy(err->text, front, used);
    memcpy(err->text + used, ": ", 2);
    err->text[used + 2 + keep] = 0;
    return 0;
}

int kn_error_set_nomem(kn_error *err, unsigned long long bytes) {
    return kn_error_set(err, KN_E_NOMEM, "out of memory: %llu bytes could not be had", bytes);
}

int kn_exit_code(kn_code code) {
    switch (code) {
    case KN_OK: return 0;
    case KN_E_NOMEM:
    case KN_E_IO:
    case KN_E_NUMERIC: return 1;
    case KN_E_CANCELLED: return 130;
    default: return 2;
    }
}
