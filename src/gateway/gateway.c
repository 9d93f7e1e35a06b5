#include "gateway/gateway.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "gateway/easel.h"
#include "gateway/images.h"
#include "gateway/internal.h"
#include "gateway/managed.h"
#include "gateway/room.h"

enum { LINE_BYTES = 400, CUT_MS = 2000 };

void kn_gateway_log(kn_gateway *g, const char *fmt, ...) {
    char line[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    g->log_line(g->log_ctx, line);
}

/* ---- the end ---- */

static void stop_now(kn_gateway *g) {
    void (*stopped)(void *ctx) = g->stopped;
    g->stopped = NULL;
    kn_loop_timer_stop(&g->stop_timer);
    if (stopped)
        stopped(g->stop_ctx);
}

static void workers_have_ended(void *ctx, bool certain) {
    (void)certain; /* those that have not are killed soon */
    stop_now(ctx);
}

static void usage_is_settled(void *ctx) {
    kn_gateway *g = ctx;
    if (g->managed)
        kn_crew_stop(kn_managed_crew(g->managed), NULL, workers_have_ended, g);
    else
        stop_now(g);
}

/* The lease is free, so nothing will be counted any more; what was counted goes to the disk. */
void kn_gateway_settle(kn_gateway *g) {
    bool clients_are_gone = !kn_server_connections(g->public) && !kn_images_are_wanted(g->images);
    if (g->stopping && clients_are_gone && !kn_admission_is_active(kn_lease_admission(g->lease)))
        kn_meter_settle(g->meter, usage_is_settled, g);
}

static void public_is_drained(void *ctx) {
    kn_gateway_settle(ctx);
}

static void tell_recovery(kn_gateway *g) {
    kn_gateway_log(g, "%s", KN_STATE_RECOVERY);
}

static void lease_changed(void *ctx) {
    kn_gateway *g = ctx;
    bool uncertain = kn_lease_admission(g->lease)->recovery_required;
    if (uncertain && !g->uncertain)
        tell_recovery(g);
    g->uncertain = uncertain;
    kn_control_lease_changed(g);
    kn_gateway_settle(g);
}

static void cut_time_is_over(kn_timer *t) {
    stop_now(KN_HOLDER(t, kn_gateway, stop_timer));
}

static void drain_time_is_over(kn_timer *t) {
    kn_gateway *g = KN_HOLDER(t, kn_gateway, stop_timer);
    kn_gateway_log(g, "what is still running is cut off after %d s", KN_DRAIN_MS / 1000);
    if (!kn_images_cut(g->images)) {
        stop_now(g);
        return;
    }
    g->stop_timer.fired = cut_time_is_over;
    kn_loop_timer_after(g->loop, &g->stop_timer, CUT_MS);
}

void kn_gateway_stop(kn_gateway *g, void (*stopped)(void *ctx), void *ctx) {
    g->stopped = stopped;
    g->stop_ctx = ctx;
    if (g->stopping) {
        stop_now(g);
        return;
    }
    g->stopping = true;
    kn_admission_stop(kn_lease_admission(g->lease));
    kn_loop_timer_after(g->loop, &g->stop_timer, KN_DRAIN_MS);
    kn_server_drain(g->public, public_is_drained, g);
}

/* ---- the beginning ---- */

static bool open_state(kn_gateway *g, kn_error *err) {
    g->boot = kn_boot_id_read(KN_BOOT_ID_PATH);
    if (!kn_state_open(g->config->state_dir, g->boot, &g->state, err))
        return false;
    if (kn_state_was_cleared(g->state))
        kn_gateway_log(g, "a request was under way when the machine went down; nothing of it can be running");
    g->uncertain = kn_state_is_uncertain(g->state);
    if (g->uncertain) {
        kn_gateway_log(g, "recovery required: a request was under way when kuno ended");
        tell_recovery(g);
    }
    kn_state_tell_trouble(g->state, g->log_line, g->log_ctx);
    return true;
}

static bool make_parts(kn_gateway *g, kn_error *err) {
    const kn_config *c = g->config;
    kn_upstream_limits limits = kn_upstream_limits_default();
    limits.connect_ms = c->connect_timeout_ms;
    limits.head_ms = c->header_timeout_ms;
    limits.stall_ms = c->stream_idle_timeout_ms;
    if (!kn_http_new(g->loop, &g->http, err) || !kn_disk_new(g->loop, &g->disk, err) ||
        !kn_upstream_new(g->http, &c->upstream, &limits, &g->upstream, err) ||
        !kn_meter_new(g->loop, g->disk, g->upstream, c->state_dir, &g->meter, err) ||
        !kn_lease_new(g->loop, g->state, g->disk, c->queue_limit, c->queue_timeout_ms, lease_changed, g, &g->lease,
                      err) ||
        !kn_watcher_new(g->loop, "", &g->watcher, err) ||
        (c->worker_count && !kn_managed_new(g, &limits, &g->managed, err)) || !kn_easel_new(g, &g->easel, err) ||
        !kn_painter_new(g->loop, (uint64_t)c->image.keep_warm_s * 1000, g->log_line, g->log_ctx, &g->painter, err) ||
        !kn_images_new(g, &g->images, err))
        return false;
    kn_watcher_set(g->watcher, g->upstream, g->managed ? kn_managed_crew(g->managed) : NULL);
    kn_meter_tell_trouble(g->meter, g->log_line, g->log_ctx);
    g->presence = (kn_presence){
        .loop = g->loop, .upstream = g->upstream, .address = &c->upstream, .log = g->log_line, .ctx = g->log_ctx
    };
    return true;
}

static bool make_servers(kn_gateway *g, kn_error *err) {
    kn_server_limits limits = kn_server_limits_default();
    kn_server_limits control = limits;
    kn_room room = kn_room_find(g->config);
    kn_error why = { 0 };
    if (kn_room_is_short(g->config, &room, &why))
        kn_gateway_log(g, "max_connections: %s", why.text);
    limits.connections = room.public;
    control.connections = room.control;
    control.yields = true;
    if (g->config->max_connections_per_address)
        limits.connections_per_peer = limits.connections_per_loopback = g->config->max_connections_per_address;
    limits.body_ms = control.body_ms = g->config->stream_idle_timeout_ms;
    limits.patience = control.patience = g->config->client;
    g->guard.port = kn_address_port(&g->config->control);
    g->public_guard = g->guard;
    g->public_guard.port = kn_address_port(&g->config->listen);
    return kn_server_new(g->http, &limits, &g->public, err) && kn_server_new(g->http, &control, &g->private, err);
}

static bool listen_on_both(kn_gateway *g, kn_error *err) {
    if (!kn_server_listen(g->private, &g->config->control, &kn_control_service, g, NULL, err) ||
        !kn_server_listen(g->public, &g->config->listen, &kn_proxy_service, g, NULL, err))
        return false;
    g->ready(g->log_ctx);
    kn_presence_begin(&g->presence);
    return true;
}

static void workers_have_started(void *ctx, const kn_error *failure) {
    kn_gateway *g = ctx;
    kn_error err = { 0 };
    if (g->stopping)
        stop_now(g);
    else if (failure)
        g->failed(g->log_ctx, failure);
    else if (!listen_on_both(g, &err))
        g->failed(g->log_ctx, &err);
}

/* Looked at before anything begins: workers and the studio begin before somebody listens there. */
static bool may_listen(const kn_gateway *g, kn_error *err) {
    const kn_config *c = g->config;
    return kn_server_may_listen(&c->control, err) && kn_server_may_listen(&c->listen, err) &&
           (!c->studio.len || kn_server_may_listen(&c->studio, err));
}

/* Nobody is let in before every worker is known to be on its own device. */
static bool begin(kn_gateway *g, kn_error *err) {
    if (!g->managed)
        return listen_on_both(g, err);
    kn_crew_start(kn_managed_crew(g->managed), workers_have_started, g);
    return true;
}

bool kn_gateway_new(const kn_gateway_setup *setup, kn_gateway **ret, kn_error *err) {
    kn_gateway *g = calloc(1, sizeof *g);
    if (!g)
        return kn_fail_nomem(err, sizeof *g);
    g->config = setup->config;
    g->loop = setup->loop;
    g->ready = setup->ready;
    g->failed = setup->failed;
    g->log_line = setup->log;
    g->log_ctx = setup->ctx;
    g->guard.loop = setup->loop;
    g->started_s = kn_date_now();
    g->stop_timer.fired = drain_time_is_over;
    snprintf(g->guard.token, sizeof g->guard.token, "%s", setup->token);
    if (!open_state(g, err) || !may_listen(g, err) || !make_parts(g, err) || !make_servers(g, err) || !begin(g, err)) {
        kn_gateway_free(g);
        return false;
    }
    *ret = g;
    return true;
}

kn_easel *kn_gateway_easel(kn_gateway *g) {
    return g->easel;
}

kn_painter *kn_gateway_painter(kn_gateway *g) {
    return g->painter;
}

/* From the doors inwards: whoever is cut tells those behind it, and the disk finishes what it was given. */
void kn_gateway_free(kn_gateway *g) {
    if (!g)
        return;
    kn_server_free(g->public);
    kn_server_free(g->private);
    kn_painter_free(g->painter);
    kn_images_free(g->images);
    kn_managed_end(g->managed);
    kn_easel_free(g->easel);
    kn_disk_free(g->disk);
    kn_watcher_free(g->watcher);
    kn_presence_end(&g->presence);
    kn_lease_free(g->lease);
    kn_meter_free(g->meter);
    kn_managed_free(g->managed);
    kn_upstream_free(g->upstream);
    kn_http_free(g->http);
    kn_loop_timer_close(g->loop, &g->stop_timer);
    kn_state_close(g->state);
    explicit_bzero(g, sizeof *g);
    free(g);
}
