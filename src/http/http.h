/* The HTTP room: our own strict HTTP/1.1, for every listener and for the way to upstreams, on one thread.
 *
 *     client ──► kn_server ──► kn_exchange ──► service decides ──┬─► kn_upstream     bytes pass both ways
 *                listeners     one request     (server.h)        ├─► kn_reply        the service answers itself
 *                limits        and its answer                    └─► waits           decided later
 *
 * server.h     listeners, connection limits, drain; what a service is and does: read this first
 * exchange.h   what a service may do with a request: forward, reply, collect its body, leave it waiting
 * upstream.h   a peer to forward to, with its pool of connections
 * call.h       requests of our own to an upstream
 * reply.h      answers of our own: JSON, problem documents
 * guard.h      who may use a listener: Host, Origin, bearer token
 * router.h     routes of our own
 * multipart.h  bodies of forms
 * patience.h   how long a client may keep others waiting
 * head.h body.h    the two strict readers; address.h, loop.h, timers.h below them
 *
 * What it does not do: HTTP/2, TLS, compression, upgrades, CONNECT, redirects, caching, sending anything twice.
 *
 * Memory: a connection has a fixed size below one KiB. Bytes are read into one workspace that all of them share, and
 * leave it in the same call; only what the other side does not take at once is copied and held, and then nothing more
 * is read until it is gone. So a connection holds at most one read (KN_HTTP_READ_MAX) in each direction, and while all
 * goes well nothing. Nobody's slowness costs others more than that. */
#ifndef KN_HTTP_HTTP_H
#define KN_HTTP_HTTP_H

#include "http/loop.h"

enum { KN_HTTP_READ_MAX = 256 << 10 };

/* What servers, upstreams and calls on one loop share. */
typedef struct kn_http kn_http;

bool kn_http_new(kn_loop *loop, kn_http **ret, kn_error *err);
void kn_http_free(kn_http *h); /* after all that was made with it */
kn_loop *kn_http_loop(const kn_http *h);

#endif
