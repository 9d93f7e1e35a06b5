/* The owner's door: status, resources, learning, usage, pause, resume, pictures. Loopback only, behind the guard. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_form.h"
#include "base/text.h"
#include "gateway/images.h"
#include "gateway/managed.h"
#include "gateway/status.h"
#include "http/call.h"
#include "http/reply.h"
#include "http/router.h"

enum {
    BODY_MAX = 64 << 10,
    REASON_MAX = 200, /* characters */
    POINTER_BYTES = 200,
    WAIT_MAX_MS = 60 * 1000,
    PAGE_MAX = 500,
    PAGE_USUAL = 100,
};

/* What an exchange waits for; it is given up when the exchange ends. One struct for all of them, so that the end of an
 * exchange needs not know which it is. */
typedef struct visit {
    void (*give_up)(struct visit *v);
    kn_exchange *x;
    kn_gateway *g;
} visit;

static void *begin_visit(kn_exchange *x, size_t bytes, void (*give_up)(visit *v)) {
    visit *v = calloc(1, bytes);
    if (!v) {
        kn_reply_problem(x, &(kn_problem){ .status = 503, .code = "out_of_memory", .title = "Memory is short" });
        return NULL;
    }
    *v = (visit){ .give_up = give_up, .x = x, .g = kn_exchange_listener(x) };
    *kn_exchange_user(x) = v;
    kn_exchange_set_brief(x, true);
    return v;
}

/* ---- status ---- */

typedef struct status_visit {
    visit visit;
    kn_call *call;
} status_visit;

static void give_up_status(visit *v) {
    status_visit *s = (status_visit *)v;
    if (s->call)
        kn_call_cancel(s->call);
}

static void version_came(void *ctx, const kn_call_result *r) {
    status_visit *s = ctx;
    kn_gateway *g = s->visit.g;
    s->call = NULL;
    kn_presence_take(&g->presence, r);
    kn_reply_json(s->visit.x, 200, kn_status_json(g));
}

static void status_route(kn_exchange *x, kn_span body) {
    (void)body;
    status_visit *s = kn_route_is_bare(x) ? begin_visit(x, sizeof *s, give_up_status) : NULL;
    if (!s)
        return;
    kn_gateway *g = s->visit.g;
    if (kn_call_start(g->upstream, &kn_presence_question, version_came, s, &s->call, NULL))
        return;
    kn_presence_take(&g->presence, NULL);
    kn_reply_json(x, 200, kn_status_json(g));
}

/* ---- resources and learning ---- */

typedef struct resources_visit {
    visit visit;
    kn_look look;
} resources_visit;

static void give_up_resources(visit *v) {
    resources_visit *r = (resources_visit *)v;
    kn_watcher_forget(v->g->watcher, &r->look);
}

static void resources_seen(kn_look *l, json_t *report) {
    resources_visit *r = KN_HOLDER(l, resources_visit, look);
    kn_reply_json(r->visit.x, 200, report);
}

static void resources_route(kn_exchange *x, kn_span body) {
    (void)body;
    resources_visit *r = kn_route_is_bare(x) ? begin_visit(x, sizeof *r, give_up_resources) : NULL;
    if (!r)
        return;
    r->look.seen = resources_seen;
    kn_watcher_look(r->visit.g->watcher, &r->look);
}

static void learning_route(kn_exchange *x, kn_span body) {
    (void)body;
    const kn_gateway *g = kn_exchange_listener(x);
    if (!kn_route_is_bare(x))
        return;
    kn_reply_json(x, 200,
                  g->managed ? kn_crew_learning_json(kn_managed_crew(g->managed)) : json_pack("{s:[]}", "workers"));
}

/* ---- usage ---- */

typedef struct usage_visit {
    visit visit;
    kn_catalog_wait wait;
    uint64_t limit, before; /* before: only uses of earlier turns */
} usage_visit;

static void give_up_usage(visit *v) {
    usage_visit *u = (usage_visit *)v;
    kn_meter_forget(v->g->meter, &u->wait);
}

static void catalog_is_ready(kn_catalog_wait *w) {
    usage_visit *u = KN_HOLDER(w, usage_visit, wait);
    kn_reply_json(u->visit.x, 200, kn_usage_json(u->visit.g->meter, u->limit, u->before));
}

/* One number of the query, all digits. */
static bool read_number(kn_span value, uint64_t max, uint64_t *ret) {
    char digits[24] = "";
    if (!value.len || value.len >= sizeof digits)
        return false;
    memcpy(digits, value.data, value.len);
    return kn_parse_u64(digits, ret) && *ret >= 1 && *ret <= max;
}

/* "limit=100&cursor=17". False: which parameter is wrong. */
static bool read_query(kn_span target, usage_visit *u, const char **wrong) {
    const char *at = memchr(target.data, '?', target.len), *end = target.data + target.len;
    bool has_limit = false, has_cursor = false;
    for (at = at ? at + 1 : end; at < end;) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        stop = stop ? stop : end;
        const char *equals = memchr(at, '=', (size_t)(stop - at));
        kn_span name = { at, (size_t)((equals ? equals : stop) - at) };
        kn_span value = { equals ? equals + 1 : stop, equals ? (size_t)(stop - equals) - 1 : 0 };
        bool is_limit = kn_span_is(name, "limit"), is_cursor = kn_span_is(name, "cursor");
        *wrong = is_limit ? "query/limit" : is_cursor ? "query/cursor" : "query";
        if (is_limit ? has_limit || !read_number(value, PAGE_MAX, &u->limit)
                     : !is_cursor || has_cursor || !read_number(value, UINT64_MAX, &u->before))
            return false;
        has_limit |= is_limit;
        has_cursor |= is_cursor;
        at = stop + (stop < end);
    }
    return true;
}

static void usage_route(kn_exchange *x, kn_span body) {
    (void)body;
    const char *wrong = NULL;
    usage_visit *u = begin_visit(x, sizeof *u, give_up_usage);
    if (!u)
        return;
    u->limit = PAGE_USUAL;
    u->before = UINT64_MAX;
    u->wait.ready = catalog_is_ready;
    if (read_query(kn_exchange_head(x)->target, u, &wrong))
        kn_meter_refresh(u->visit.g->meter, &u->wait);
    else
        kn_reply_problem(x, &(kn_problem){ .status = 400,
                                           .code = "parameter_invalid",
                                           .title = "A parameter is unknown or its value not allowed",
                                           .detail = "limit is 1 to 500, cursor the value of next_cursor",
                                           .pointer = wrong });
}

/* ---- pause and resume ---- */

struct kn_pause_wait {
    visit visit;
    kn_timer timer;
    kn_pause_wait *next, *prev;
    bool waits;
};

static void stop_waiting(kn_pause_wait *p) {
    if (!p->waits)
        return;
    kn_gateway *g = p->visit.g;
    p->waits = false;
    kn_loop_timer_close(g->loop, &p->timer);
    *(p->prev ? &p->prev->next : &g->pauses) = p->next;
    if (p->next)
        p->next->prev = p->prev;
}

static void give_up_pause(visit *v) {
    stop_waiting((kn_pause_wait *)v);
}

static void answer_pause(kn_pause_wait *p) {
    stop_waiting(p);
    kn_reply_json(p->visit.x, 200, kn_admission_json(p->visit.g));
}

static void pause_time_is_over(kn_timer *t) {
    answer_pause(KN_HOLDER(t, kn_pause_wait, timer));
}

void kn_control_lease_changed(kn_gateway *g) {
    while (g->pauses && !kn_admission_is_active(kn_lease_admission(g->lease)))
        answer_pause(g->pauses);
}

/* {"reason": "…", "wait_ms": 5000}, both optional. The reason is for people who look on; it is kept nowhere. */
static bool read_pause(kn_span body, uint64_t *wait_ms, kn_buf *pointer, kn_error *err) {
    enum { REASON, WAIT };
    static const char *const keys[] = { [REASON] = "reason", [WAIT] = "wait_ms" };
    kn_json_reader j;
    kn_json_text reason;
    kn_form f;
    kn_json_begin_inside(&j, (kn_json_text){ body.data, body.len }, "the body", err);
    j.pointer = pointer;
    kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);) {
        if (key == REASON)
            kn_form_prose(&f, 0, REASON_MAX, &reason);
        else
            kn_form_u64(&f, 0, WAIT_MAX_MS, wait_ms);
    }
    return kn_form_finish(&f);
}

/* Answers the request itself if its body is not good. */
static bool check_pause(kn_exchange *x, kn_span body, uint64_t *wait_ms) {
    KN_AUTO_BUF pointer;
    kn_error err = { 0 };
    kn_buf_init(&pointer, POINTER_BYTES);
    if (!body.data)
        return true;
    if (!kn_json_check((kn_json_text){ body.data, body.len }, NULL))
        kn_reply_problem(x, &(kn_problem){ .status = 400, .code = "json_invalid", .title = "The body is not JSON" });
    else if (read_pause(body, wait_ms, &pointer, &err))
        return true;
    else
        kn_reply_problem(x, &(kn_problem){ .status = 422,
                                           .code = "member_invalid",
                                           .title = "A member of the body is not as it should be",
                                           .detail = err.text,
                                           .pointer = pointer.data });
    return false;
}

static void pause_route(kn_exchange *x, kn_span body) {
    kn_gateway *g = kn_exchange_listener(x);
    uint64_t wait_ms = 0;
    if (!kn_route_is_bare(x) || !check_pause(x, body, &wait_ms))
        return;
    kn_admission_pause(kn_lease_admission(g->lease));
    kn_gateway_log(g, "admission is paused");
    if (!wait_ms || !kn_admission_is_active(kn_lease_admission(g->lease))) {
        kn_reply_json(x, 200, kn_admission_json(g));
        return;
    }
    kn_pause_wait *p = begin_visit(x, sizeof *p, give_up_pause);
    if (!p)
        return;
    kn_exchange_set_brief(x, false);
    p->waits = true;
    p->timer.fired = pause_time_is_over;
    p->next = g->pauses;
    if (p->next)
        p->next->prev = p;
    g->pauses = p;
    kn_loop_timer_after(g->loop, &p->timer, wait_ms);
}

static void resume_route(kn_exchange *x, kn_span body) {
    (void)body;
    kn_gateway *g = kn_exchange_listener(x);
    if (!kn_route_is_bare(x))
        return;
    if (!kn_lease_resume(g->lease)) {
        kn_reply_problem(x, &(kn_problem){ .status = 409,
                                           .code = "recovery_required",
                                           .title = "Recovery is required",
                                           .detail = "Earlier work may still be running; resuming does not end that" });
        return;
    }
    kn_gateway_log(g, "admission is open");
    kn_reply_json(x, 200, kn_admission_json(g));
}

/* ---- the listener ---- */

static const kn_route routes[] = {
    { "GET", "/kuno/v1/status", status_route, 0 },
    { "GET", "/kuno/v1/resources", resources_route, 0 },
    { "GET", "/kuno/v1/learning", learning_route, 0 },
    { "GET", "/kuno/v1/usage", usage_route, 0 },
    { "POST", "/kuno/v1/admission/pause", pause_route, BODY_MAX },
    { "POST", "/kuno/v1/admission/resume", resume_route, 0 },
};

static void on_request(kn_exchange *x, const kn_head *head) {
    kn_gateway *g = kn_exchange_listener(x);
    if (!kn_guard_admits(&g->guard, x, head))
        return;
    if (kn_images_are_meant(head))
        kn_images_serve(g->images, x, head);
    else
        kn_router_request(routes, KN_COUNT(routes), x, head);
}

/* Nothing is waited for, or only the router for the body. */
static bool is_visit(const void *user) {
    const kn_route *route = user;
    return route && (route < routes || route >= routes + KN_COUNT(routes));
}

static void on_end(kn_exchange *x) {
    visit *v = *kn_exchange_user(x);
    if (!is_visit(v))
        return;
    v->give_up(v);
    free(v);
}

const kn_service kn_control_service = {
    .request = on_request,
    .collected = kn_router_collected,
    .end = on_end,
};
