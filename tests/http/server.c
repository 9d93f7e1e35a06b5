/* A small server on top of src/http, for the tests that speak to it over the network: a proxy to one upstream, and a
 * listener with two routes of its own behind a guard, as the gateway has them.
 *
 *     http-server UPSTREAM TOKEN [NAME=VALUE…]
 *
 * prints the ports it has chosen as "proxy=PORT control=PORT" and runs until SIGTERM; a second one ends it at once.
 * Each exchange is told in one line on standard output when it is over. NAME=VALUE sets a limit, in milliseconds or
 * connections: head, idle, body, send, connect, first, stall, drain, connections. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/text.h"
#include "http/guard.h"
#include "http/reply.h"
#include "http/router.h"
#include "http/server.h"

static struct {
    kn_loop *loop;
    kn_server *server;
    kn_upstream *upstream;
    kn_guard guard;
    uint64_t drain_ms, tells, connections;
    bool draining;
} own;

/* ---- the proxy ---- */

static void forward(kn_exchange *x, const kn_head *head) {
    (void)head;
    kn_exchange_forward(x, own.upstream, &(kn_forward){ .drain_ms = own.drain_ms });
}

static void tell_upstream_end(kn_exchange *x, kn_upstream_end end) {
    (void)x;
    if (own.tells)
        printf("upstream %s\n", kn_upstream_end_name(end));
}

static void tell_end(kn_exchange *x) {
    const kn_exchange_facts *f = kn_exchange_facts_of(x);
    if (!own.tells)
        return;
    printf("end status=%u sent=%llu received=%llu left=%d answered=%d\n", f->status,
           (unsigned long long)f->request_bytes, (unsigned long long)f->response_bytes, f->client_left, f->answered);
    fflush(stdout);
}

static const kn_service proxy = { .request = forward, .upstream_end = tell_upstream_end, .end = tell_end };

/* ---- routes of its own ---- */

static void status_route(kn_exchange *x, kn_span body) {
    (void)body;
    kn_reply_json(x, 200, json_pack("{s:s, s:b}", "version", "test", "draining", own.draining));
}

static void invalid(kn_exchange *x, unsigned status, const char *code, const char *title) {
    kn_reply_problem(x, &(kn_problem){ .status = status, .code = code, .title = title });
}

static void pause_route(kn_exchange *x, kn_span body) {
    json_error_t why;
    json_t *document = body.data ? json_loadb(body.data, body.len, JSON_REJECT_DUPLICATES, &why) : json_object();
    const char *reason = NULL;
    if (!json_is_object(document))
        invalid(x, 400, "json_invalid", "The body is not one JSON object");
    else if (json_unpack_ex(document, &why, 0, "{s?s!}", "reason", &reason))
        invalid(x, 422, "member_invalid", "A member is unknown or has another type");
    else
        kn_reply_json(x, 200, json_pack("{s:b}", "paused", 1));
    json_decref(document);
}

static const kn_route routes[] = {
    { "GET", "/kuno/v1/status", status_route, 0 },
    { "POST", "/kuno/v1/admission/pause", pause_route, 64 << 10 },
};

static void route(kn_exchange *x, const kn_head *head) {
    if (kn_guard_admits(&own.guard, x, head))
        kn_router_request(routes, KN_COUNT(routes), x, head);
}

static const kn_service control = { .request = route, .collected = kn_router_collected };

/* ---- the program ---- */

static void stop(void *ctx) {
    (void)ctx;
    kn_loop_stop(own.loop);
}

static void signal_came(void *ctx, int signal) {
    (void)signal;
    if (own.draining)
        stop(ctx);
    own.draining = true;
    kn_server_drain(own.server, stop, NULL);
}

static bool set_limit(const char *option, kn_server_limits *server, kn_upstream_limits *upstream) {
    struct {
        const char *name;
        uint64_t *value;
    } limits[] = {
        { "head=", &server->head_ms },     { "idle=", &server->idle_ms },         { "body=", &server->body_ms },
        { "send=", &server->send_ms },     { "connect=", &upstream->connect_ms }, { "first=", &upstream->head_ms },
        { "stall=", &upstream->stall_ms }, { "drain=", &own.drain_ms },           { "connections=", &own.connections },
        { "tell=", &own.tells },
    };
    uint64_t n;
    const char *equals = strchr(option, '=');
    if (!equals || !kn_parse_u64(equals + 1, &n))
        return false;
    for (size_t i = 0; i < KN_COUNT(limits); i++)
        if (!strncmp(option, limits[i].name, strlen(limits[i].name)))
            *limits[i].value = n;
    if (own.connections)
        server->connections = (unsigned)own.connections;
    return true;
}

static bool start(kn_http *http, const kn_address *address, const char *token, const kn_server_limits *server,
                  const kn_upstream_limits *upstream, kn_error *err) {
    kn_address any, at_proxy, at_control;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    if (!kn_loop_signals(own.loop, &signals, signal_came, NULL, err) || !kn_address_parse("127.0.0.1:0", &any, err) ||
        !kn_upstream_new(http, address, upstream, &own.upstream, err) ||
        !kn_server_new(http, server, &own.server, err) ||
        !kn_server_listen(own.server, &any, &proxy, NULL, &at_proxy, err) ||
        !kn_server_listen(own.server, &any, &control, NULL, &at_control, err))
        return false;
    own.guard.loop = own.loop;
    own.guard.port = kn_address_port(&at_control);
    snprintf(own.guard.token, sizeof own.guard.token, "%s", token);
    printf("proxy=%u control=%u\n", kn_address_port(&at_proxy), own.guard.port);
    fflush(stdout);
    return true;
}

int main(int argc, char **argv) {
    kn_server_limits server = kn_server_limits_default();
    kn_upstream_limits upstream = kn_upstream_limits_default();
    kn_error err = { 0 };
    kn_http *http = NULL;
    kn_address address;
    bool good = argc >= 3 && kn_address_parse(argv[1], &address, &err);
    for (int i = 3; good && i < argc; i++)
        good = set_limit(argv[i], &server, &upstream);
    good = good && kn_loop_new(NULL, NULL, &own.loop, &err) && kn_http_new(own.loop, &http, &err) &&
           start(http, &address, argv[2], &server, &upstream, &err) && kn_loop_run(own.loop, &err);
    if (!good)
        fprintf(stderr, "http-server: %s\n", err.text[0] ? err.text : "UPSTREAM TOKEN [NAME=VALUE…]");
    kn_server_free(own.server);
    kn_upstream_free(own.upstream);
    kn_http_free(http);
    kn_loop_free(own.loop);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
