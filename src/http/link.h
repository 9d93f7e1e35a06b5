/* One connection to an upstream, used for one request and its answer at a time: sends what its owner gives it, reads
 * the answer strictly, keeps the time limits, and tells the owner. Afterwards it goes back to the pool of its upstream
 * or is closed; the owner never decides that.
 *
 * The owner is never called from within a call that it makes here.
 *
 * Internal to the room. */
#ifndef KN_HTTP_LINK_H
#define KN_HTTP_LINK_H

#include "http/body.h"
#include "http/exchange.h"
#include "http/socket.h"

typedef struct kn_link kn_link;

typedef struct kn_link_owner {
    /* What was held is gone: more may be sent. */
    void (*writable)(void *ctx);
    /* The head of an answer, 1xx included, and pieces of its body. The workspace is still in use: they go into the
     * batch, and `flush` sends them. */
    void (*head)(void *ctx, const kn_head *head);
    void (*data)(void *ctx, kn_span data);
    void (*flush)(void *ctx, bool last);
    /* Once, at the end: the link is no longer the owner's. status: 502 or 504 if it did not end well. */
    void (*ended)(void *ctx, kn_upstream_end end, unsigned status);
} kn_link_owner;

kn_http *kn_upstream_http(const kn_upstream *u);

/* A connection that is idle, or a new one. NULL: memory or descriptors are out, or the address is unusable. */
kn_link *kn_link_open(kn_upstream *u, const kn_link_owner *owner, void *ctx, bool to_head);

/* Sends, or holds what does not go. Whether more may follow: kn_link_has_room. */
void kn_link_send(kn_link *k, kn_batch *b);
bool kn_link_has_room(const kn_link *k);

/* All of the request has been given to kn_link_send. */
void kn_link_request_is_complete(kn_link *k);

/* While the owner can take no more of the answer. */
void kn_link_pause(kn_link *k);
void kn_link_resume(kn_link *k);

/* Nobody waits for the answer any more, but its end must be seen: at most until then. A request that is not complete
 * ends here, as if its sender had gone, unless its answer has begun: work that has been accepted would be broken off in
 * the middle, and come to its end if it is left alone. */
void kn_link_drain(kn_link *k, uint64_t until_ms);

/* Closes the connection; `ended` does not come. */
kn_upstream_end kn_link_abort(kn_link *k);

#endif
