#include "gateway/admission.h"

#include <assert.h>

const char *const kn_work_names[KN_WORK_COUNT] = {
    [KN_WORK_INFERENCE] = "inference",
    [KN_WORK_CATALOG] = "catalog",
    [KN_WORK_OPAQUE] = "opaque",
    [KN_WORK_IMAGE] = "image",
};

void kn_admission_init(kn_admission *a, size_t queue_limit, uint64_t queue_timeout_ms, const kn_admission_hooks *hooks,
                       void *ctx) {
    *a = (kn_admission){ .queue_limit = queue_limit, .queue_timeout_ms = queue_timeout_ms, .hooks = hooks, .ctx = ctx };
}

static void line_up(kn_admission *a, kn_ticket *t) {
    t->prev = a->last;
    t->next = NULL;
    *(a->last ? &a->last->next : &a->first) = t;
    a->last = t;
    ++*(t->patient ? &a->patient : &a->queued);
}

static void step_out(kn_admission *a, kn_ticket *t) {
    *(t->prev ? &t->prev->next : &a->first) = t->next;
    *(t->next ? &t->next->prev : &a->last) = t->prev;
    --*(t->patient ? &a->patient : &a->queued);
}

/* Hooks come last: they may call back into the machine. */
static void refuse(kn_admission *a, kn_ticket *t, kn_refusal why) {
    t->state = KN_TICKET_NONE;
    a->hooks->refused(a->ctx, t, why);
}

/* Of those who wait for a while only. */
static kn_ticket *first_in_a_hurry(const kn_admission *a) {
    kn_ticket *t = a->first;
    while (t && t->patient)
        t = t->next;
    return t;
}

static void turn_away(kn_admission *a, kn_ticket *t, kn_refusal why) {
    step_out(a, t);
    refuse(a, t, why);
}

static void look_what_is_waited_for(kn_admission *a) {
    kn_wait now = a->recovery_required ? KN_WAITS_FOR_RECOVERY : a->paused ? KN_WAITS_FOR_RESUME : KN_WAITS_FOR_TURN;
    if (now == a->waits_for)
        return;
    a->waits_for = now;
    for (kn_ticket *t = a->first; t; t = t->next)
        if (t->patient)
            a->hooks->waits(a->ctx, t, now);
}

static void begin(kn_admission *a, kn_ticket *t, uint64_t now_ms) {
    t->state = KN_TICKET_NEXT;
    a->lease = KN_LEASE_MARKING;
    a->holder = t;
    a->work = t->work;
    a->since_ms = now_ms;
    a->hooks->mark(a->ctx);
}

/* The first in line, if it can be somebody's turn. */
static void call_next(kn_admission *a, uint64_t now_ms) {
    kn_admission_tick(a, now_ms); /* who is too late is too late, even if it would be their turn now */
    kn_ticket *t = a->first;
    if (!t || a->lease != KN_LEASE_FREE || a->waits_for != KN_WAITS_FOR_TURN)
        return;
    step_out(a, t);
    begin(a, t, now_ms);
}

static void release(kn_admission *a, uint64_t now_ms) {
    a->lease = KN_LEASE_FREE;
    a->holder = NULL;
    call_next(a, now_ms);
}

static void clear(kn_admission *a) {
    a->lease = KN_LEASE_CLEARING;
    a->holder = NULL;
    a->hooks->clear(a->ctx);
}

static bool is_free(const kn_admission *a) {
    return a->lease == KN_LEASE_FREE && !a->first;
}

bool kn_admission_refuses(const kn_admission *a, kn_refusal *why) {
    *why = a->recovery_required ? KN_REFUSED_RECOVERY
           : a->stopping        ? KN_REFUSED_STOPPING
           : a->paused          ? KN_REFUSED_PAUSED
                                : KN_REFUSED_QUEUE_FULL;
    return *why != KN_REFUSED_QUEUE_FULL || (!is_free(a) && a->queued >= a->queue_limit);
}

void kn_admission_enter(kn_admission *a, kn_ticket *t, kn_work work, uint64_t now_ms) {
    kn_refusal why = KN_REFUSED_STOPPING;
    t->work = work;
    if (t->patient ? a->stopping : kn_admission_refuses(a, &why)) {
        refuse(a, t, why);
    } else if (is_free(a) && a->waits_for == KN_WAITS_FOR_TURN) {
        begin(a, t, now_ms);
    } else {
        t->state = KN_TICKET_WAITS;
        t->until_ms = now_ms + a->queue_timeout_ms;
        line_up(a, t);
        if (t->patient)
            a->hooks->waits(a->ctx, t, a->waits_for);
    }
}

void kn_admission_leave(kn_admission *a, kn_ticket *t) {
    if (t->state == KN_TICKET_WAITS)
        step_out(a, t);
    else if (t->state == KN_TICKET_NEXT)
        a->holder = NULL; /* the marker is on its way; nothing will be sent for it */
    else
        return;
    t->state = KN_TICKET_NONE;
}

void kn_admission_marked(kn_admission *a, bool done, uint64_t now_ms) {
    assert(a->lease == KN_LEASE_MARKING);
    kn_ticket *t = a->holder;
    if (t && done) {
        t->state = KN_TICKET_GRANTED;
        a->lease = KN_LEASE_HELD;
        a->hooks->granted(a->ctx, t);
    } else if (done) {
        clear(a);
    } else {
        a->holder = NULL;
        if (t)
            refuse(a, t, KN_REFUSED_STATE);
        release(a, now_ms);
    }
}

void kn_admission_finish(kn_admission *a, kn_ticket *t, bool certain, uint64_t now_ms) {
    assert(a->holder == t && a->lease == KN_LEASE_HELD);
    t->state = KN_TICKET_NONE;
    if (certain) {
        clear(a);
        return;
    }
    kn_admission_require_recovery(a);
    release(a, now_ms);
}

void kn_admission_cleared(kn_admission *a, bool done, uint64_t now_ms) {
    assert(a->lease == KN_LEASE_CLEARING);
    if (!done) /* a marker that cannot be removed would be taken for work after the next start */
        kn_admission_require_recovery(a);
    release(a, now_ms);
}

void kn_admission_pause(kn_admission *a) {
    a->paused = true;
    look_what_is_waited_for(a);
}

bool kn_admission_resume(kn_admission *a, uint64_t now_ms) {
    if (a->recovery_required)
        return false;
    a->paused = false;
    look_what_is_waited_for(a);
    call_next(a, now_ms);
    return true;
}

void kn_admission_stop(kn_admission *a) {
    a->stopping = true;
    while (a->first)
        turn_away(a, a->first, KN_REFUSED_STOPPING);
}

void kn_admission_require_recovery(kn_admission *a) {
    a->recovery_required = true;
    look_what_is_waited_for(a);
    for (kn_ticket *t; (t = first_in_a_hurry(a));)
        turn_away(a, t, KN_REFUSED_RECOVERY);
}

bool kn_admission_is_active(const kn_admission *a) {
    return a->lease != KN_LEASE_FREE;
}

void kn_admission_tick(kn_admission *a, uint64_t now_ms) {
    /* All wait equally long, so the first is the first. */
    for (kn_ticket *t; (t = first_in_a_hurry(a)) && t->until_ms <= now_ms;)
        turn_away(a, t, KN_REFUSED_QUEUE_TIMEOUT);
}

uint64_t kn_admission_next_ms(const kn_admission *a) {
    const kn_ticket *t = first_in_a_hurry(a);
    return t ? t->until_ms : UINT64_MAX;
}
