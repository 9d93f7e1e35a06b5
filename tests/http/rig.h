/* A server of src/http, its clients and its upstream in one thread, over Unix sockets and with a clock that only moves
 * when it is told to: whatever happens can be repeated. For unit tests and fuzz targets.
 *
 * The service does what the path says: /own replies, /hold waits for the test, /collect collects up to COLLECT_MAX and
 * then forwards, /collect-own collects and replies, /kuno… goes through a guard and a router, anything else is
 * forwarded. What it was told is written down in `told`. */
#ifndef KN_TESTS_HTTP_RIG_H
#define KN_TESTS_HTTP_RIG_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "http/guard.h"
#include "http/reply.h"
#include "http/router.h"
#include "http/server.h"

enum { RIG_COLLECT_MAX = 100, RIG_TOLD_MAX = 4096 };

typedef struct rig {
    uint64_t now_ms;
    kn_loop *loop;
    kn_http *http;
    kn_server *server;
    kn_upstream *upstream;
    int listener; /* of the upstream */
    kn_forward how;
    kn_guard guard;           /* of localhost:80, without a token until a test sets one */
    kn_exchange *held;        /* the last one that waits at /hold */
    const kn_reply *on_error; /* the answer in `failed`; NULL: the server's own */
    unsigned begun, ended;    /* exchanges */
    unsigned dispatched, upstream_ends;
    size_t seen; /* bytes of bodies that were shown */
    char told[RIG_TOLD_MAX];
} rig;

static inline uint64_t rig_clock(void *ctx) {
    return ((rig *)ctx)->now_ms;
}

static inline void rig_tell(kn_exchange *x, const char *what, unsigned long long n) {
    rig *r = kn_exchange_listener(x);
    size_t len = strlen(r->told);
    snprintf(r->told + len, sizeof r->told - len, "%s%s %llu", len ? ", " : "", what, n);
}

static inline void rig_forward(rig *r, kn_exchange *x) {
    r->dispatched++;
    kn_exchange_forward(x, r->upstream, &r->how);
}

static inline void rig_route(kn_exchange *x, kn_span body) {
    kn_reply_json(x, 200, json_pack("{s:i}", "bytes", (int)body.len));
}

static const kn_route rig_routes[] = {
    { "GET", "/kuno/v1/status", rig_route, 0 },
    { "POST", "/kuno/v1/post", rig_route, RIG_COLLECT_MAX },
};

static inline void rig_request(kn_exchange *x, const kn_head *head) {
    rig *r = kn_exchange_listener(x);
    kn_span path = kn_head_path(head);
    r->begun++;
    rig_tell(x, "request", r->begun);
    if (path.len >= 5 && !memcmp(path.data, "/kuno", 5)) {
        if (kn_guard_admits(&r->guard, x, head))
            kn_router_request(rig_routes, KN_COUNT(rig_routes), x, head);
    } else if (kn_span_is(path, "/own"))
        kn_exchange_reply(x, &(kn_reply){ .status = 200, .type = "text/plain", .body = "mine", .len = 4 });
    else if (kn_span_is(path, "/hold"))
        r->held = x;
    else if (kn_span_is(path, "/collect") || kn_span_is(path, "/collect-own"))
        kn_exchange_collect(x, RIG_COLLECT_MAX);
    else
        rig_forward(r, x);
}

static inline void rig_collected(kn_exchange *x, kn_span body, bool complete) {
    rig *r = kn_exchange_listener(x);
    rig_tell(x, complete ? "collected" : "collected some", body.len);
    if (*kn_exchange_user(x))
        kn_router_collected(x, body, complete);
    else if (kn_span_is(kn_head_path(kn_exchange_head(x)), "/collect-own"))
        kn_exchange_reply(x, &(kn_reply){ .status = 200, .type = "text/plain", .body = body.data, .len = body.len });
    else
        rig_forward(r, x);
}

static inline void rig_data(kn_exchange *x, kn_span data) {
    ((rig *)kn_exchange_listener(x))->seen += data.len;
}

static inline void rig_response(kn_exchange *x, const kn_head *head) {
    rig_tell(x, "response", head->status);
}

static inline void rig_client_left(kn_exchange *x) {
    rig_tell(x, "left", 0);
}

static inline void rig_failed(kn_exchange *x, unsigned status) {
    rig *r = kn_exchange_listener(x);
    rig_tell(x, "failed", status);
    if (r->on_error)
        kn_exchange_reply(x, r->on_error);
}

static inline void rig_upstream_end(kn_exchange *x, kn_upstream_end end) {
    rig *r = kn_exchange_listener(x);
    r->upstream_ends++;
    rig_tell(x, kn_upstream_end_name(end), 0);
}

static inline void rig_end(kn_exchange *x) {
    rig *r = kn_exchange_listener(x);
    r->ended++;
    if (r->held == x)
        r->held = NULL;
    rig_tell(x, "end", kn_exchange_facts_of(x)->status);
}

static const kn_service rig_service = { .request = rig_request,
                                        .collected = rig_collected,
                                        .request_data = rig_data,
                                        .response = rig_response,
                                        .response_data = rig_data,
                                        .client_left = rig_client_left,
                                        .failed = rig_failed,
                                        .upstream_end = rig_upstream_end,
                                        .end = rig_end };

/* A socket in the abstract namespace, whose name the kernel chooses. */
static inline int rig_listen(kn_address *ret) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const struct sockaddr_un unnamed = { .sun_family = AF_UNIX }; /* valgrind looks beyond the length that is told */
    *ret = (kn_address){ .len = sizeof ret->storage };
    if (fd < 0 || bind(fd, (const struct sockaddr *)&unnamed, sizeof unnamed.sun_family) || listen(fd, 64) ||
        getsockname(fd, (struct sockaddr *)&ret->storage, &ret->len))
        abort();
    return fd;
}

static inline void rig_open(rig *r) {
    kn_address address;
    kn_server_limits server = kn_server_limits_default();
    kn_upstream_limits upstream = kn_upstream_limits_default();
    *r = (rig){ .now_ms = 1000000, .listener = rig_listen(&address) };
    if (!kn_loop_new(rig_clock, r, &r->loop, NULL) || !kn_http_new(r->loop, &r->http, NULL) ||
        !kn_server_new(r->http, &server, &r->server, NULL) ||
        !kn_upstream_new(r->http, &address, &upstream, &r->upstream, NULL))
        abort();
    r->guard = (kn_guard){ .loop = r->loop, .port = 80 };
}

static inline void rig_close(rig *r) {
    kn_server_free(r->server);
    kn_upstream_free(r->upstream);
    kn_http_free(r->http);
    kn_loop_free(r->loop);
    close(r->listener);
}

/* Until nothing happens any more that does not need somebody's doing. */
static inline void rig_run(rig *r) {
    for (int i = 0; i < 6; i++)
        if (!kn_loop_turn(r->loop, 0, NULL))
            abort();
}

static inline void rig_pass(rig *r, uint64_t ms) {
    r->now_ms += ms;
    rig_run(r);
}

/* A client's side of a connection to the server. */
static inline int rig_connect(rig *r) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) ||
        !kn_server_adopt(r->server, ends[1], NULL, &rig_service, r, NULL))
        abort();
    return ends[0];
}

/* The upstream's side of the next connection to it; -1: there is none. */
static inline int rig_accept(rig *r) {
    return accept4(r->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/* How many bytes went; the socket's buffer may be full, or the other side gone. */
static inline size_t rig_put(int fd, const void *p, size_t n) {
    ssize_t went = send(fd, p, n, MSG_NOSIGNAL);
    return went < 0 ? 0 : (size_t)went;
}

/* All that is there, as text of at most `room` bytes. True: the other side has closed. */
static inline bool rig_take(int fd, char *text, size_t room) {
    size_t len = 0;
    ssize_t n = -1;
    errno = EAGAIN;
    while (len + 1 < room && (n = recv(fd, text + len, room - 1 - len, 0)) > 0)
        len += (size_t)n;
    text[len] = 0;
    return n == 0 || (n < 0 && errno != EAGAIN);
}

#endif
