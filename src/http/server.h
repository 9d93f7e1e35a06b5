/* Listeners and the connections of clients.
 *
 * Each listener has a service, which decides what becomes of its requests. The server reads them, keeps the rules of
 * HTTP and all limits, and tells the service:
 *
 *     refused        a head was not understood, so it is no request; the service may say with what body it is answered
 *     request        a head has come; the service calls one function of exchange.h, now or later
 *     collected      the body that it asked for is there
 *     request_data   a piece of the request's body goes to the upstream       only if it asked to watch
 *     response       the head of the upstream's answer has come (not 1xx)
 *     response_data  a piece of the answer's body                             only if it asked to watch
 *     writable       all that was sent of a stream has been taken
 *     client_left    the client is gone, but the upstream's answer is still drained
 *     failed         the server has to answer with an error of its own; the service may say with what body
 *     upstream_end   once for every kn_exchange_forward: what is known about the end of the upstream's work
 *     end            last of all, once for every request: the exchange is over and must not be used any more
 *
 * Only `request` is required. Where the server is not told the body of an error it writes a problem document. After
 * `refused`, whose target is what came of it, maybe nothing, no other call is made for that head. Data that the service
 * is shown is the peer's own bytes without their framing, in order, cut anywhere, and gone when the callback returns. A
 * service is called by the loop's thread only.
 *
 * A client has left when its side is closed, or it breaks the framing of its body, or takes its answer too slowly or
 * not at all. It is noticed at once, also while a request waits. Whether its side is closed altogether, or for sending
 * only, nobody can see before it is sent something; so both are the same while a request waits, is forwarded or
 * streamed (as nginx sees it, too), but for exchanges that are brief (exchange.h). */
#ifndef KN_HTTP_SERVER_H
#define KN_HTTP_SERVER_H

#include "http/address.h"
#include "http/exchange.h"
#include "http/http.h"
#include "http/patience.h"

struct kn_service {
    void (*refused)(kn_exchange *x, unsigned status, kn_span target);
    void (*request)(kn_exchange *x, const kn_head *head);
    void (*collected)(kn_exchange *x, kn_span body, bool complete);
    void (*request_data)(kn_exchange *x, kn_span data);
    void (*response)(kn_exchange *x, const kn_head *head);
    void (*response_data)(kn_exchange *x, kn_span data);
    void (*writable)(kn_exchange *x);
    void (*client_left)(kn_exchange *x);
    void (*failed)(kn_exchange *x, unsigned status);
    void (*upstream_end)(kn_exchange *x, kn_upstream_end end);
    void (*end)(kn_exchange *x);
};

/* Limits in milliseconds and connections; kn_server_limits_default is what the gateway's documents promise. */
typedef struct kn_server_limits {
    unsigned connections; /* of clients at a time; more are closed at once, … */
    bool yields; /* … unless one can go that asks nothing and is not trusted (exchange.h): the oldest of them goes */
    unsigned connections_per_peer;     /* from one address other than loopback */
    unsigned connections_per_loopback; /* from one loopback address, which may be that of a proxy; 0: no such limit */
    uint64_t head_ms;                  /* from the first byte of a head to its last, however it trickles */
    uint64_t idle_ms;                  /* between two requests */
    uint64_t body_ms;                  /* between two pieces of a request's body */
    uint64_t send_ms;                  /* between two pieces of an answer that the client takes */
    kn_patience patience;              /* with whoever makes an upstream wait, or whose body is being collected */
    size_t collected; /* bytes of bodies in memory, those of all clients together; more is refused by 503 */
} kn_server_limits;

kn_server_limits kn_server_limits_default(void);

typedef struct kn_server kn_server;

bool kn_server_new(kn_http *h, const kn_server_limits *limits, kn_server **ret, kn_error *err);

/* Cuts what is left, as kn_server_cut does. Like drain and cut it is called from outside of services: by a signal, a
 * timer, a task, or after the loop. */
void kn_server_free(kn_server *s);

/* Starts to listen. [::] takes IPv4, too. ret_address (may be NULL): where, with the port that the system chose for
 * port 0. */
bool kn_server_listen(kn_server *s, const kn_address *address, const kn_service *service, void *ctx,
                      kn_address *ret_address, kn_error *err);

/* Whether that would succeed now; nothing is kept. */
bool kn_server_may_listen(const kn_address *address, kn_error *err);

/* Serves a connection that came in another way; takes over the descriptor also when it fails. `peer` may be NULL. */
bool kn_server_adopt(kn_server *s, int fd, const kn_address *peer, const kn_service *service, void *ctx, kn_error *err);

/* Listens no more, closes idle connections, and lets exchanges come to their end, each the last of its connection.
 * Calls `drained` when no connection is left, maybe at once. */
void kn_server_drain(kn_server *s, void (*drained)(void *ctx), void *ctx);

/* Ends every exchange now; each gets its upstream_end and end. */
void kn_server_cut(kn_server *s);

unsigned kn_server_connections(const kn_server *s);

#endif
