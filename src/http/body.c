#include "http/body.h"

enum state {
    SIZE,
    EXTENSION,
    SIZE_END,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF
};

enum { SIZE_DIGITS_MAX = 15 }; /* keeps sums of sizes far from overflow */

void kn_body_begin(kn_body *b, kn_framing framing, uint64_t length) {
    *b = (kn_body){ .framing = (uint8_t)framing, .state = SIZE };
    if (framing == KN_BODY_LENGTH)
        b->left = length;
    b->complete = framing == KN_BODY_NONE || (framing == KN_BODY_LENGTH && !length);
}

void kn_body_end(kn_body *b) {
    if (b->framing == KN_BODY_UNTIL_CLOSE)
        b->complete = true;
}

static bool is_text(char c) {
    unsigned char b = (unsigned char)c;
    return (b >= 0x20 && b != 0x7f) || b == '\t';
}

static bool size_char(kn_body *b, char c) {
    int digit = kn_hex_digit(c);
    if (digit >= 0) {
        b->left = b->left * 16 + (uint64_t)digit;
        return ++b->used <= SIZE_DIGITS_MAX;
    }
    if (!b->used || (c != '\r' && c != ';'))
        return false;
    b->state = c == ';' ? EXTENSION : SIZE_END;
    b->used = 0;
    return true;
}

/* One byte of what stands between data. False: it cannot stand there. */
static bool framing_char(kn_body *b, char c) {
    switch ((enum state)b->state) {
    case SIZE: return size_char(b, c);
    case EXTENSION:
        if (c == '\r')
            b->state = SIZE_END;
        return c == '\r' || (is_text(c) && ++b->used <= KN_HTTP_EXTENSION_MAX);
    case SIZE_END:
        b->state = b->left ? DATA : TRAILER;
        b->used = 0;
        return c == '\n';
    case DATA_CR: b->state = DATA_LF; return c == '\r';
    case DATA_LF: b->state = SIZE; return c == '\n';
    case TRAILER: /* at the start of a line */
        b->state = c == '\r' ? LAST_LF : TRAILER_NAME;
        return c == '\r' || (kn_is_token_char(c) && ++b->used <= KN_HTTP_TRAILERS_MAX);
    case TRAILER_NAME:
        if (c == ':')
            b->state = TRAILER_VALUE;
        return (c == ':' || kn_is_token_char(c)) && ++b->used <= KN_HTTP_TRAILERS_MAX;
    case TRAILER_VALUE:
        if (c == '\r')
            b->state = TRAILER_LF;
        return c == '\r' || (is_text(c) && ++b->used <= KN_HTTP_TRAILERS_MAX);
    case TRAILER_LF: b->state = TRAILER; return c == '\n';
    case LAST_LF: b->complete = true; return c == '\n';
    case DATA: break;
    }
    return false;
}

ptrdiff_t kn_body_next(kn_body *b, const char *p, size_t n, kn_span *ret) {
    *ret = (kn_span){ p, 0 };
    if (b->complete)
        return 0;
    if (b->framing == KN_BODY_UNTIL_CLOSE) {
        ret->len = n;
        return (ptrdiff_t)n;
    }
    size_t i = 0;
    if (b->framing == KN_BODY_CHUNKED)
        for (; i < n && !b->complete && b->state != DATA; i++)
            if (!framing_char(b, p[i]))
                return -1;
    if (b->complete || i == n)
        return (ptrdiff_t)i;
    *ret = (kn_span){ p + i, n - i < b->left ? n - i : (size_t)b->left };
    b->left -= ret->len;
    if (!b->left) {
        b->complete = b->framing == KN_BODY_LENGTH;
        b->state = DATA_CR;
        b->used = 0;
    }
    return (ptrdiff_t)(i + ret->len);
}
