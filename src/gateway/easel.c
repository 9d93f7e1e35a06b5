#include "gateway/easel.h"

#include <stdlib.h>

#include "gateway/managed.h"
#include "gateway/residency.h"

enum { LIST_MS = 5 * 1000, UNLOAD_MS = 10 * 1000, LOOK_AGAIN_MS = 100 };

struct kn_easel {
    kn_gateway *g;
    kn_turn *turn; /* who has the lease; NULL: nobody */
    kn_call *call; /* to the upstream; NULL: none */
    kn_residents residents;
    size_t next; /* of them, to be unloaded */
    uint64_t until_ms;
    kn_timer again;
};

static void tell_ready(kn_easel *e) {
    kn_turn *t = e->turn;
    t->state = KN_TURN_READY;
    t->ready(t);
}

/* ---- the upstream ---- */

static void look(kn_easel *e);

static void look_again(kn_timer *t) {
    look(KN_HOLDER(t, kn_easel, again));
}

static void unload_next(kn_easel *e);

static void unloaded(void *ctx, const kn_call_result *r) {
    kn_easel *e = ctx;
    (void)r; /* what counts is what is listed afterwards */
    e->call = NULL;
    e->next++;
    unload_next(e);
}

static void unload_next(kn_easel *e) {
    for (; e->next < e->residents.count; e->next++)
        if (kn_resident_unload(&e->residents.items[e->next], e->g->upstream, UNLOAD_MS, unloaded, e, &e->call))
            return;
    kn_loop_timer_after(e->g->loop, &e->again, LOOK_AGAIN_MS);
}

/* Whoever does not answer has nothing loaded that could be told to go. */
static void listed(void *ctx, const kn_call_result *r) {
    kn_easel *e = ctx;
    e->call = NULL;
    kn_residents_free(&e->residents);
    bool any = r->end == KN_CALL_ANSWERED && r->status == 200 &&
               kn_residents_read(r->body.data, r->body.len, &e->residents, NULL) && e->residents.count;
    if (any && kn_loop_now_ms(e->g->loop) < e->until_ms) {
        e->next = 0;
        unload_next(e);
        return;
    }
    if (any)
        kn_gateway_log(e->g, "the upstream keeps models loaded while a picture is drawn");
    tell_ready(e);
}

static void look(kn_easel *e) {
    const kn_call_request request = {
        .method = "GET", .target = "/api/ps", .answer_limit = KN_RESIDENTS_BYTES, .within_ms = LIST_MS
    };
    if (!kn_call_start(e->g->upstream, &request, listed, e, &e->call, NULL))
        tell_ready(e);
}

/* ---- workers of our own ---- */

static void workers_have_stopped(void *ctx, bool certain) {
    kn_easel *e = ctx;
    kn_turn *t = e->turn;
    if (!t) /* the service ends */
        return;
    if (certain) {
        look(e);
        return;
    }
    kn_gateway_log(e->g, "recovery required: a worker cannot be ended");
    kn_easel_finish(t, false);
    if (t->waits)
        kn_easel_enter(e, t);
    else
        t->refused(t, KN_REFUSED_RECOVERY);
}

static void granted(kn_entry *entry) {
    kn_turn *t = KN_HOLDER(entry, kn_turn, entry);
    kn_easel *e = t->easel;
    e->turn = t;
    t->state = KN_TURN_CLEARS;
    e->until_ms = kn_loop_now_ms(e->g->loop) + UNLOAD_MS;
    if (e->g->managed)
        kn_crew_stop(kn_managed_crew(e->g->managed), &e->g->config->image.pci, workers_have_stopped, e);
    else
        look(e);
}

static void refused(kn_entry *entry, kn_refusal why) {
    kn_turn *t = KN_HOLDER(entry, kn_turn, entry);
    t->state = KN_TURN_NONE;
    t->refused(t, why);
}

static void waits(kn_entry *entry, kn_wait what_for) {
    kn_turn *t = KN_HOLDER(entry, kn_turn, entry);
    t->waits(t, what_for);
}

/* ---- */

bool kn_easel_new(kn_gateway *g, kn_easel **ret, kn_error *err) {
    kn_easel *e = malloc(sizeof *e);
    if (!e)
        return kn_fail_nomem(err, sizeof *e);
    *e = (kn_easel){ .g = g, .again = { .fired = look_again, .due_ms = KN_TIMER_NEVER } };
    *ret = e;
    return true;
}

static void stop_clearing(kn_easel *e) {
    if (e->call)
        kn_call_cancel(e->call);
    e->call = NULL;
    kn_loop_timer_stop(&e->again);
    kn_residents_free(&e->residents);
}

void kn_easel_free(kn_easel *e) {
    if (!e)
        return;
    stop_clearing(e);
    kn_loop_timer_close(e->g->loop, &e->again);
    free(e);
}

kn_wait kn_easel_waits_for(const kn_easel *e) {
    return kn_lease_admission(e->g->lease)->waits_for;
}

void kn_easel_enter(kn_easel *e, kn_turn *t) {
    t->easel = e;
    t->entry = (kn_entry){ .granted = granted, .refused = refused, .waits = waits, .ticket.patient = t->waits != NULL };
    t->state = KN_TURN_WAITS;
    kn_lease_enter(e->g->lease, &t->entry, KN_WORK_IMAGE);
}

bool kn_easel_leave(kn_turn *t) {
    if (t->state != KN_TURN_WAITS)
        return false;
    t->state = KN_TURN_NONE;
    kn_lease_leave(t->easel->g->lease, &t->entry);
    return true;
}

void kn_easel_finish(kn_turn *t, bool certain) {
    kn_easel *e = t->easel;
    e->turn = NULL;
    t->state = KN_TURN_NONE;
    kn_lease_finish(e->g->lease, &t->entry, certain);
}

void kn_easel_drop(kn_turn *t) {
    if (t->state == KN_TURN_NONE || kn_easel_leave(t))
        return;
    stop_clearing(t->easel);
    kn_easel_finish(t, true);
}
