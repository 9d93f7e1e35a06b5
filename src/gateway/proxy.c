/* Clients of Ollama: what is only metadata passes at once, everything else when its turn has come. */
#include "gateway/proxy.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/images.h"
#include "gateway/loaded.h"
#include "gateway/managed.h"
#include "gateway/refusal.h"
#include "gateway/visitor.h"

static kn_work work_of(kn_route_class class) {
    return class == KN_ROUTE_INFERENCE ? KN_WORK_INFERENCE
           : class == KN_ROUTE_CATALOG ? KN_WORK_CATALOG
                                       : KN_WORK_OPAQUE;
}

static bool may_change_catalog(const kn_request *r) {
    return r->kind.class != KN_ROUTE_INFERENCE;
}

/* On a listener that only this machine reaches, the upstream judges the client's Host as it always did. From elsewhere
 * clients use names that an upstream on loopback would refuse. */
static kn_forward how_to_forward(const kn_gateway *g) {
    return (kn_forward){ .upstream_host = !kn_address_is_loopback(&g->config->listen) };
}

void kn_request_forward(kn_request *r, kn_upstream *u) {
    kn_forward how = how_to_forward(r->g);
    if (u != r->g->upstream) /* a worker is asked in our name: the upstream has judged the client's */
        how = (kn_forward){ .upstream_host = true, .no_origin = true };
    how.watch_request = r->kind.observed && !r->compressed;
    how.unhurried = r->kind.file;
    how.drain_ms = r->g->config->stream_idle_timeout_ms;
    if (how.watch_request)
        kn_observer_begin(&r->g->observer, r->kind.input);
    if (may_change_catalog(r))
        kn_meter_catalog_changes(r->g->meter);
    kn_exchange_forward(r->x, u, &how);
}

void kn_request_finish(kn_request *r, bool certain) {
    r->held = false;
    kn_lease_finish(r->g->lease, &r->entry, certain);
    if (!r->x)
        free(r);
}

static void granted(kn_entry *e) {
    kn_request *r = KN_HOLDER(e, kn_request, entry);
    r->held = true;
    if (r->g->managed)
        kn_managed_serve(r);
    else
        kn_request_forward(r, r->g->upstream);
}

static void refused(kn_entry *e, kn_refusal why) {
    kn_request *r = KN_HOLDER(e, kn_request, entry);
    kn_refuse_work(r->x, r->kind.dialect, why, kn_lease_admission(r->g->lease)->queued);
}

/* What begins like this is no upstream's. */
static bool is_ours(kn_span target) {
    static const char start[] = "/kuno/";
    return target.len >= sizeof start - 1 && memcmp(target.data, start, sizeof start - 1) == 0;
}

/* From this machine and from others with the same token. By which names those know us nobody can tell; a page that has
 * another name pointed at us does not have the token. */
static bool admits_to_images(kn_gateway *g, kn_exchange *x, const kn_head *head) {
    if (kn_address_is_loopback(&g->config->listen))
        return kn_guard_admits(&g->public_guard, x, head);
    if (kn_guard_has_token(&g->public_guard, head))
        return true;
    kn_guard_refuse(&g->public_guard, x, kn_head_find(head, KN_FIELD_AUTHORIZATION, NULL));
    return false;
}

/* Of the control routes only those for pictures are here. */
static void serve_ours(kn_gateway *g, kn_exchange *x, const kn_head *head, kn_dialect dialect) {
    if (!g->config->image.enabled || !kn_images_are_meant(head))
        kn_refuse_status(x, dialect, 404);
    else if (admits_to_images(g, x, head))
        kn_images_serve(g->images, x, head);
}

/* Its method may be anything; how errors are written depends on the path alone. Of our own routes all are problems. */
static void on_refused(kn_exchange *x, unsigned status, kn_span target) {
    if (!is_ours(target))
        kn_refuse_status(x, kn_route_of(kn_span_of(""), target).dialect, status);
}

/* It has been answered, and its exchange's end is all that is left of it. */
static void leave_it(kn_request *r) {
    (void)r;
}

static void enter(kn_request *r) {
    kn_lease_enter(r->g->lease, &r->entry, work_of(r->kind.class));
}

static void on_request(kn_exchange *x, const kn_head *head) {
    kn_refusal why;
    kn_gateway *g = kn_exchange_listener(x);
    kn_route_kind kind = kn_route_of(head->method, head->target);
    if (is_ours(head->target)) {
        serve_ours(g, x, head, kind.dialect);
        return;
    }
    kn_request *r = malloc(sizeof *r);
    if (!r) {
        kn_refuse_status(x, kind.dialect, 503);
        return;
    }
    *r = (kn_request){ .entry = { .granted = granted, .refused = refused }, .x = x, .g = g, .kind = kind };
    r->compressed = kn_head_find(head, KN_FIELD_CONTENT_ENCODING, NULL);
    *kn_exchange_user(x) = r;
    if (g->managed && kn_loaded_is_asked(head)) {
        kn_visitor_judge(r, kn_loaded_answer, leave_it);
    } else if (kind.class == KN_ROUTE_EXEMPT) {
        kn_forward how = how_to_forward(g);
        kn_exchange_forward(x, g->upstream, &how);
    } else if (g->managed && kn_admission_refuses(kn_lease_admission(g->lease), &why)) {
        refused(&r->entry, why); /* there is no need to read its body first */
    } else if (!g->managed || kn_managed_begin(r)) {
        enter(r);
    }
}

static void on_request_data(kn_exchange *x, kn_span data) {
    kn_request *r = *kn_exchange_user(x);
    kn_observer_feed(&r->g->observer, data.data, data.len);
}

/* A call counts when the upstream has accepted it, whatever becomes of its answer. */
static void on_response(kn_exchange *x, const kn_head *head) {
    kn_request *r = *kn_exchange_user(x);
    if (r->kind.class != KN_ROUTE_INFERENCE || head->status / 100 != 2)
        return;
    const kn_observer *o = &r->g->observer;
    bool observed = r->kind.observed && !r->compressed;
    kn_observed what = observed ? kn_observer_result(o) : KN_OBSERVED_UNCLEAR;
    if (what == KN_OBSERVED_MODEL && r->stage == KN_STAGE_WORKER)
        kn_meter_count_digest(r->g->meter, &r->job.digest); /* known, also where the upstream does not answer */
    else
        kn_meter_count(r->g->meter, what, o->name);
}

static void on_collected(kn_exchange *x, kn_span body, bool complete) {
    kn_request *r = *kn_exchange_user(x);
    if (kn_managed_collected(r, body, complete))
        enter(r);
}

/* Whether nothing of it goes on. What works on a request that is cut, a whole document whose end was never told, is
 * broken off with it: the upstream then ends its answer, well-formed, while its runner may compute or hang. Of a file
 * there is nothing to be computed. */
static bool is_certain(const kn_request *r, kn_upstream_end end) {
    return end == KN_UPSTREAM_COMPLETE || end == KN_UPSTREAM_UNSENT || (end == KN_UPSTREAM_CUT && r->kind.file);
}

static void on_upstream_end(kn_exchange *x, kn_upstream_end end) {
    kn_request *r = *kn_exchange_user(x);
    if (r->kind.class == KN_ROUTE_EXEMPT)
        return;
    bool certain = is_certain(r, end), is_worker = r->stage == KN_STAGE_WORKER;
    explicit_bzero(&r->g->observer, sizeof r->g->observer);
    if (may_change_catalog(r))
        kn_meter_catalog_changes(r->g->meter);
    if (!certain && !is_worker)
        kn_gateway_log(r->g, "recovery required: the end of a request is not certain (%s)", kn_upstream_end_name(end));
    if (is_worker)
        kn_managed_ended(r, certain);
    else
        kn_request_finish(r, certain);
}

static void on_failed(kn_exchange *x, unsigned status) {
    const kn_request *r = *kn_exchange_user(x);
    kn_refuse_status(x, r ? r->kind.dialect : KN_DIALECT_OLLAMA, status);
}

/* Nothing of it is under way but a question about its client. */
static void drop(kn_request *r) {
    if (r->call)
        kn_call_cancel(r->call);
    free(r);
}

static void on_end(kn_exchange *x) {
    kn_request *r = *kn_exchange_user(x);
    if (!r)
        return;
    r->x = NULL;
    kn_lease_leave(r->g->lease, &r->entry);
    if (r->held)
        kn_managed_left(r);
    else if (r->loaded)
        kn_loaded_give_up(r);
    else
        drop(r);
}

const kn_service kn_proxy_service = {
    .refused = on_refused,
    .request = on_request,
    .collected = on_collected,
    .request_data = on_request_data,
    .response = on_response,
    .failed = on_failed,
    .upstream_end = on_upstream_end,
    .end = on_end,
};
