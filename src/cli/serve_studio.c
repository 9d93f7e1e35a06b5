#include "cli/serve_studio.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/room.h"
#include "http/server.h"
#include "studio/api.h"
#include "studio/image_runner.h"

enum { LOCK_WAIT_MS = 5000, READER_MS = 60 * 1000, AGAIN_MS = 5000 };

struct kn_serve_studio {
    kn_serve_studio_setup setup;
    kn_http *http;
    kn_image_runner *runner;
    kn_studio *studio; /* NULL: its storage cannot be written, but maybe soon */
    kn_api *api;
    kn_server *server;
    kn_mcp *mcp;
    kn_loop *loop;
    kn_timer drain, again;
    void (*stopped)(void *ctx);
    void *stop_ctx;
};

/* What is answered in the moment of the end is taken by its clients, too. */
static void drain(kn_timer *t) {
    kn_serve_studio *s = KN_HOLDER(t, kn_serve_studio, drain);
    kn_api_end_streams(s->api);
    kn_server_drain(s->server, s->stopped, s->stop_ctx);
}

static bool make_runner(kn_serve_studio *s, kn_error *err) {
    const kn_config *c = s->setup.config;
    const kn_image_runner_setup worker = {
        .easel = kn_gateway_easel(s->setup.gateway),
        .painter = kn_gateway_painter(s->setup.gateway),
        .models_toml = c->studio_models,
        .isolation = c->studio_isolated ? KN_ISOLATION_REQUIRED : KN_ISOLATION_BEST_EFFORT,
        .log = s->setup.log,
        .log_ctx = s->setup.ctx,
    };
    return kn_image_runner_new(s->loop, &worker, &s->runner, err);
}

static bool make_studio(kn_serve_studio *s, kn_error *err) {
    const kn_config *c = s->setup.config;
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s/studio", c->state_dir) >= (int)sizeof folder)
        return kn_fail(err, KN_E_USAGE, "the path of the state directory is too long");
    const kn_studio_runner face = kn_image_runner_face(s->runner);
    const kn_studio_setup studio = { .loop = s->loop,
                                     .folder = folder,
                                     .state_dir = c->state_dir,
                                     .models_toml = c->studio_models,
                                     .runner = &face,
                                     .mirror = c->mirror,
                                     .offline = c->offline,
                                     .wait_ms = LOCK_WAIT_MS,
                                     .log = s->setup.log,
                                     .leave = s->setup.leave,
                                     .ctx = s->setup.ctx };
    if (!kn_studio_new(&studio, &s->studio, err))
        return false;
    kn_api_set_studio(s->api, s->studio);
    return true;
}

/* Storage that cannot be written keeps nobody from the gateway: the studio begins when it can be. Everything else is
 * for a person to see to. */
static bool begin(kn_serve_studio *s, kn_error *err) {
    kn_error why = { 0 };
    char line[sizeof why.text + 64];
    if (make_studio(s, &why))
        return true;
    if (why.code != KN_E_FULL && why.code != KN_E_READONLY)
        return kn_fail(err, why.code, "%s", why.text);
    snprintf(line, sizeof line, "%s; the studio begins when that is mended", why.text);
    s->setup.log(s->setup.ctx, line);
    kn_api_set_away(s->api, why.code);
    kn_loop_timer_after(s->loop, &s->again, AGAIN_MS);
    return true;
}

/* Others wait for this moment, once. */
static void begin_again(kn_timer *t) {
    kn_serve_studio *s = KN_HOLDER(t, kn_serve_studio, again);
    if (make_studio(s, NULL))
        s->setup.log(s->setup.ctx, "the studio has begun");
    else
        kn_loop_timer_after(s->loop, &s->again, AGAIN_MS);
}

/* Agents' tools ask the API as everybody does, at the address where it is now heard. */
static bool make_mcp(kn_serve_studio *s, const kn_address *studio, kn_error *err) {
    const kn_mcp_setup setup = { .http = s->http, .studio = studio, .token = kn_api_give_token, .ctx = s->api };
    if (!kn_mcp_new(&setup, &s->mcp, err))
        return false;
    kn_api_set_mcp(s->api, s->mcp);
    return true;
}

bool kn_serve_studio_new(const kn_serve_studio_setup *setup, kn_serve_studio **ret, kn_error *err) {
    kn_serve_studio *s = calloc(1, sizeof *s);
    kn_server_limits limits = kn_server_limits_default();
    limits.send_ms = READER_MS;
    limits.patience = setup->config->client;
    limits.connections = kn_room_find(setup->config).studio;
    limits.yields = true;
    if (!s)
        return kn_fail_nomem(err, sizeof *s);
    s->setup = *setup;
    s->setup.token = NULL; /* it is gone after this */
    s->loop = setup->loop;
    s->drain.fired = drain;
    s->again.fired = begin_again;
    if (!kn_http_new(s->loop, &s->http, err) || !make_runner(s, err) ||
        !kn_api_new(s->loop, setup->token, kn_address_port(&setup->config->studio), &s->api, err) || !begin(s, err) ||
        !kn_server_new(s->http, &limits, &s->server, err) ||
        !kn_server_listen(s->server, &setup->config->studio, &kn_api_service, s->api, NULL, err) ||
        !make_mcp(s, &setup->config->studio, err)) {
        kn_serve_studio_free(s);
        return false;
    }
    *ret = s;
    return true;
}

/* Maybe in the middle of an answer. */
static void studio_has_stopped(void *ctx) {
    kn_serve_studio *s = ctx;
    kn_loop_timer_after(s->loop, &s->drain, 0);
}

void kn_serve_studio_stop(kn_serve_studio *s, void (*stopped)(void *ctx), void *ctx) {
    s->stopped = stopped;
    s->stop_ctx = ctx;
    kn_loop_timer_close(s->loop, &s->again);
    kn_api_end_streams(s->api);
    if (s->studio)
        kn_studio_stop(s->studio, false, studio_has_stopped, s);
    else
        studio_has_stopped(s);
}

void kn_serve_studio_cut(kn_serve_studio *s) {
    if (s->studio)
        kn_studio_cut(s->studio);
}

void kn_serve_studio_free(kn_serve_studio *s) {
    if (!s)
        return;
    kn_loop_timer_close(s->loop, &s->drain);
    kn_loop_timer_close(s->loop, &s->again);
    kn_server_free(s->server);
    kn_mcp_free(s->mcp);
    kn_image_runner_free(s->runner);
    kn_studio_free(s->studio);
    kn_api_free(s->api);
    if (s->http)
        kn_http_free(s->http);
    free(s);
}
