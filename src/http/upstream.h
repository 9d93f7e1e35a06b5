/* A peer that requests are sent to, and its connections.
 *
 * A connection is kept for the next request only after a complete exchange: both messages ended, nothing held, no byte
 * too many. Any sign of life on an idle one closes it. A request is sent once: if its connection dies under it,
 * whatever the method, that is the end of it. The only second attempt is before the first byte, when an idle connection
 * turns out to be closed. */
#ifndef KN_HTTP_UPSTREAM_H
#define KN_HTTP_UPSTREAM_H

#include "http/address.h"
#include "http/http.h"

typedef struct kn_upstream_limits {
    unsigned idle_connections; /* kept at most */
    uint64_t idle_ms;          /* and for so long */
    uint64_t connect_ms;
    uint64_t head_ms;  /* from the last byte of the request that was sent to the head of the answer; 1xx is none */
    uint64_t stall_ms; /* between two pieces of the answer, while it is being read */
} kn_upstream_limits;

kn_upstream_limits kn_upstream_limits_default(void);

typedef struct kn_upstream kn_upstream;

bool kn_upstream_new(kn_http *h, const kn_address *address, const kn_upstream_limits *limits, kn_upstream **ret,
                     kn_error *err);

/* No exchange or call may be under way on it. */
void kn_upstream_free(kn_upstream *u);

const kn_address *kn_upstream_address(const kn_upstream *u);

/* Closes idle connections, for example because the process behind them is about to be another. */
void kn_upstream_forget_idle(kn_upstream *u);

#endif
