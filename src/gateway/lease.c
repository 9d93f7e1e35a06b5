#include "gateway/lease.h"

#include <stdlib.h>

struct kn_lease {
    kn_loop *loop;
    kn_state *state;
    kn_disk *disk;
    kn_admission admission;
    kn_timer timer; /* for those who have waited too long */
    kn_job mark, clear;
    bool done;     /* whether the last job was */
    bool unmarked; /* what it is for ends with this process */
    void (*changed)(void *ctx);
    void *ctx;
};

static void set_timer(kn_lease *l) {
    kn_loop_timer_at(l->loop, &l->timer, kn_admission_next_ms(&l->admission));
}

static void time_is_over(kn_timer *t) {
    kn_lease *l = KN_HOLDER(t, kn_lease, timer);
    kn_admission_tick(&l->admission, kn_loop_now_ms(l->loop));
    set_timer(l);
}

static void on_granted(void *ctx, kn_ticket *t) {
    (void)ctx;
    kn_entry *e = KN_HOLDER(t, kn_entry, ticket);
    e->granted(e);
}

static void on_refused(void *ctx, kn_ticket *t, kn_refusal why) {
    (void)ctx;
    kn_entry *e = KN_HOLDER(t, kn_entry, ticket);
    e->refused(e, why);
}

static void on_waits(void *ctx, kn_ticket *t, kn_wait what_for) {
    (void)ctx;
    kn_entry *e = KN_HOLDER(t, kn_entry, ticket);
    e->waits(e, what_for);
}

/* An image worker is our child and stops when we do: nothing of it is left that a next start would have to fear. */
static void on_mark(void *ctx) {
    kn_lease *l = ctx;
    l->unmarked = l->admission.work == KN_WORK_IMAGE;
    kn_disk_do(l->disk, &l->mark);
}

static void on_clear(void *ctx) {
    kn_lease *l = ctx;
    kn_disk_do(l->disk, &l->clear);
}

static const kn_admission_hooks hooks = { on_granted, on_refused, on_waits, on_mark, on_clear };

static void write_marker(kn_job *j) {
    kn_lease *l = KN_HOLDER(j, kn_lease, mark);
    l->done = l->unmarked || kn_state_mark(l->state, NULL);
}

static void marker_is_written(kn_task *t) {
    kn_lease *l = KN_HOLDER(t, kn_lease, mark.done);
    kn_admission_marked(&l->admission, l->done, kn_loop_now_ms(l->loop));
    set_timer(l);
}

static void remove_marker(kn_job *j) {
    kn_lease *l = KN_HOLDER(j, kn_lease, clear);
    l->done = l->unmarked || kn_state_clear(l->state, NULL);
}

static void tell_change(kn_lease *l) {
    set_timer(l);
    if (l->changed)
        l->changed(l->ctx);
}

static void marker_is_removed(kn_task *t) {
    kn_lease *l = KN_HOLDER(t, kn_lease, clear.done);
    kn_admission_cleared(&l->admission, l->done, kn_loop_now_ms(l->loop));
    tell_change(l);
}

bool kn_lease_new(kn_loop *loop, kn_state *state, kn_disk *disk, size_t queue_limit, uint64_t queue_timeout_ms,
                  void (*changed)(void *ctx), void *ctx, kn_lease **ret, kn_error *err) {
    kn_lease *l = malloc(sizeof *l);
    if (!l)
        return kn_fail_nomem(err, sizeof *l);
    *l = (kn_lease){
        .loop = loop,
        .state = state,
        .disk = disk,
        .timer.fired = time_is_over,
        .mark = { .work = write_marker, .done.run = marker_is_written },
        .clear = { .work = remove_marker, .done.run = marker_is_removed },
        .changed = changed,
        .ctx = ctx,
    };
    kn_admission_init(&l->admission, queue_limit, queue_timeout_ms, &hooks, l);
    if (kn_state_is_uncertain(state))
        kn_admission_require_recovery(&l->admission);
    *ret = l;
    return true;
}

void kn_lease_free(kn_lease *l) {
    if (!l)
        return;
    kn_loop_timer_close(l->loop, &l->timer);
    if (l->admission.lease == KN_LEASE_MARKING) /* nothing was sent for this marker */
        kn_state_clear(l->state, NULL);
    free(l);
}

void kn_lease_enter(kn_lease *l, kn_entry *e, kn_work work) {
    kn_admission_enter(&l->admission, &e->ticket, work, kn_loop_now_ms(l->loop));
    set_timer(l);
}

void kn_lease_leave(kn_lease *l, kn_entry *e) {
    kn_admission_leave(&l->admission, &e->ticket);
    set_timer(l);
}

void kn_lease_finish(kn_lease *l, kn_entry *e, bool certain) {
    if (!certain && l->unmarked) /* rare enough to wait for the disk here */
        kn_state_mark(l->state, NULL);
    kn_admission_finish(&l->admission, &e->ticket, certain, kn_loop_now_ms(l->loop));
    if (!certain)
        tell_change(l);
}

bool kn_lease_resume(kn_lease *l) {
    bool resumed = kn_admission_resume(&l->admission, kn_loop_now_ms(l->loop));
    set_timer(l);
    return resumed;
}

kn_admission *kn_lease_admission(kn_lease *l) {
    return &l->admission;
}
