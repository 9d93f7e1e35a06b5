/* A growing byte string with a ceiling, set where its purpose is known. NUL-terminated at all times, never NULL after
 * kn_buf_init; data may hold NUL bytes of its own, len counts them. */
#ifndef KN_BASE_BUF_H
#define KN_BASE_BUF_H

#include <stddef.h>

#include "base/error.h"

typedef struct kn_buf {
    char *data;
    size_t len, room, limit;
} kn_buf;

void kn_buf_init(kn_buf *b, size_t limit);
void kn_buf_free(kn_buf *b);
void kn_buf_clear(kn_buf *b);

/* false: the limit is reached or memory is out; the content stays as it was. */
bool kn_buf_reserve(kn_buf *b, size_t more) KN_MUST_USE;
bool kn_buf_add(kn_buf *b, const void *p, size_t n) KN_MUST_USE;
bool kn_buf_add_text(kn_buf *b, const char *text) KN_MUST_USE;
bool kn_buf_printf(kn_buf *b, const char *fmt, ...) KN_PRINTF(2, 3) KN_MUST_USE;

#define KN_AUTO_BUF KN_CLEANUP(kn_buf_free) kn_buf

#endif
