#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char nothing[1] = "";

void kn_buf_init(kn_buf *b, size_t limit) {
    *b = (kn_buf){ .data = nothing, .limit = limit };
}

void kn_buf_free(kn_buf *b) {
    if (b->room)
        free(b->data);
    kn_buf_init(b, b->limit);
}

void kn_buf_clear(kn_buf *b) {
    b->len = 0;
    if (b->room)
        b->data[0] = 0;
}

bool kn_buf_reserve(kn_buf *b, size_t more) {
    if (more > b->limit - b->len)
        return false;
    size_t want = b->len + more + 1;
    if (want <= b->room)
        return true;
    size_t room = KN_MAX(want, b->room * 2);
    char *data = realloc(b->room ? b->data : NULL, room);
    if (!data)
        return false;
    if (!b->room)
        data[0] = 0;
    b->data = data;
    b->room = room;
    return true;
}

bool kn_buf_add(kn_buf *b, const void *p, size_t n) {
    if (!n)
        return true;
    if (!kn_buf_reserve(b, n))
        return false;
    memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
    return true;
}

bool kn_buf_add_text(kn_buf *b, const char *text) {
    return kn_buf_add(b, text, strlen(text));
}

bool kn_buf_printf(kn_buf *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    bool ok = n >= 0 && kn_buf_reserve(b, (size_t)n);
    if (ok && n > 0) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    return ok;
}
