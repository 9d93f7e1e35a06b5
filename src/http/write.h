/* Heads as they are written: those that are passed on, less what goes no further, and our own.
 *
 * Internal to the room. */
#ifndef KN_HTTP_WRITE_H
#define KN_HTTP_WRITE_H

#include "http/address.h"
#include "http/head.h"
#include "http/socket.h"

/* Text into a piece of memory that is large enough by its limits; what would not fit is a mistake of ours and makes
 * `full`. */
typedef struct kn_writer {
    char *data;
    size_t len, room;
    bool full;
} kn_writer;

void kn_write(kn_writer *w, const void *p, size_t n);
void kn_write_text(kn_writer *w, const char *text);
void kn_write_number(kn_writer *w, uint64_t n);
void kn_write_host(kn_writer *w, const kn_address *a); /* as the value of Host */

/* What differs from the head that came. */
typedef struct kn_rewrite {
    const kn_address *host; /* to be sent as Host; NULL: the client's */
    bool drop_origin;
    bool drop_expect;        /* the client was told to go on already */
    bool chunked;            /* Transfer-Encoding: chunked */
    bool close;              /* Connection: close */
    bool keep_alive;         /* Connection: keep-alive, for clients of HTTP/1.0 */
    const char *more_fields; /* lines; NULL: none */
} kn_rewrite;

void kn_write_request(kn_writer *w, const kn_head *h, const kn_rewrite *how);
void kn_write_response(kn_writer *w, const kn_head *h, const kn_rewrite *how);

/* "Sun, 06 Nov 1994 08:49:37 GMT", of this second. */
const char *kn_http_date(kn_http *h);

#endif
