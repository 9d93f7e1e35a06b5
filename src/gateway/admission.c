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
    a->queued++;
}

static void step_out(kn_admission *a, kn_ticket *t) {
    *(t->prev ? &t->prev->next : &a->first) = t->next;
    *(t->next ? &t->next->prev : &a->last) = t->prev;
    a->queued--;
}

/* Hooks come last: they may call back into the machine. */
static void refuse(kn_admission *a, kn_ticket *t, kn_refusal why) {
    t->state = KN_TICKET_NONE;
    a->hooks->refused(a->ctx, t, why);
}

static void refuse_all(kn_admission *a, kn_refusal why) {
    while (a->first) {
        kn_ticket *t = a->first;
        step_out(a, t);
        refuse(a, t, why);
    }
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
    if (!t || a->lease != KN_LEASE_FREE || a->paused)
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
    kn_refusal why;
    t->work = work;
    if (kn_admission_refuses(a, &why)) {
        refuse(a, t, why);
    } else if (is_free(a)) {
        begin(a, t, now_ms);
    } else {
        t->state = KN_TICKET_WAITS;
        t->until_ms = now_ms + a->queue_timeout_ms;
        line_up(a, t);
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
}

bool kn_admission_resume(kn_admission *a, uint64_t now_ms) {
    if (a->recovery_required)
        return false;
    a->paused = false;
    call_next(a, now_ms);
    return true;
}

void kn_admission_stop(kn_admission *a) {
    a->stopping = true;
    refuse_all(a, KN_REFUSED_STOPPING);
}

void kn_admission_require_recovery(kn_admission *a) {
    a->recovery_required = true;
    refuse_all(a, KN_REFUSED_RECOVERY);
}

bool kn_admission_is_active(const kn_admission *a) {
    return a->lease != KN_LEASE_FREE;
}

void kn_admission_tick(kn_admission *a, uint64_t now_ms) {
    while (a->first && a->first->until_ms <= now_ms) { /* all wait equally long, so the first is the first */
        kn_ticket *t = a->first;
        step_out(a, t);
        refuse(a, t, KN_REFUSED_QUEUE_TIMEOUT);
    }
}

uint64_t kn_admission_next_ms(const kn_admission *a) {
    return a->first ? a->first->until_ms : UINT64_MAX;
}
