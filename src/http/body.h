/* Bodies of HTTP/1.1 messages: takes the framing away, piece by piece, however the bytes are cut.
 *
 * Chunk extensions and trailers, which must be field lines, are checked, counted and dropped. Anything else that is not
 * exactly as RFC 9112 writes it ends the message as broken. */
#ifndef KN_HTTP_BODY_H
#define KN_HTTP_BODY_H

#include "http/head.h"

enum {
    KN_HTTP_EXTENSION_MAX = 1 << 10, /* bytes of a chunk's extensions */
    KN_HTTP_TRAILERS_MAX = 8 << 10,  /* bytes of all trailers */
};

typedef struct kn_body {
    uint64_t left;   /* of the whole body, or of the present chunk */
    uint16_t used;   /* digits, or bytes of extensions or trailers */
    uint8_t framing; /* kn_framing */
    uint8_t state;
    bool complete;
} kn_body;

void kn_body_begin(kn_body *b, kn_framing framing, uint64_t length);

/* Uses some of the n bytes at p (all of them if it is called until the body is complete or they are gone) and returns
 * how many, or -1 if the framing is broken. *ret is the data among them, often nothing. Bytes behind the body are never
 * used. */
ptrdiff_t kn_body_next(kn_body *b, const char *p, size_t n, kn_span *ret);

/* Where a body without length or chunks ends well: with the connection. */
void kn_body_end(kn_body *b);

#endif
