/* What is done when a load has failed: its memory is read as it is, the worker ended, its memory read until it rests.
 * Then the load is tried once more alone, or another worker is; nothing of what people sent has been used yet. */
#include <string.h>

#include "gateway/crew_internal.h"

enum { READING_MS = 250, READINGS_MS = 3000 };

static void go_on_after_failure(kn_crew *p);

/* ---- then ---- */

static void reservation_is_released(kn_crew *p) {
    if (!p->marker_done)
        kn_crew_refuse(p, KN_JOB_STATE);
    else
        go_on_after_failure(p);
}

/* Once more on the same worker, which is started anew and so has nothing on it; or on another. */
static void go_on_after_failure(kn_crew *p) {
    bool again = !p->retried && kn_failure_deserves_retry(p->failure);
    p->alone = again;
    p->retried |= again;
    p->member->excluded = !again;
    if (again)
        p->failure->retry = KN_RETRY_UNDER_WAY;
    kn_crew_try(p);
}

static void judge(kn_crew *p, kn_gpu_bytes after) {
    kn_member *m = p->member;
    kn_failure *f = p->failure;
    f->after = after;
    f->class = kn_failure_judge(p->baseline, p->suspected, after);
    kn_crew_log(p, "a model could not be loaded on worker %s: %s", m->config->id, kn_failure_class_names[f->class]);
    kn_crew_write_marker(p, m, false, reservation_is_released);
}

/* ---- memory comes to rest ---- */

static void read_again(kn_crew *p);

static void measured_after_end(kn_crew *p) {
    const kn_gpu_bytes used = p->used[p->member->device];
    bool rests = kn_readings_add(&p->readings, used);
    if (rests)
        judge(p, (kn_gpu_bytes){ true, p->readings.low });
    else if (kn_loop_now_ms(p->loop) >= p->readings_until_ms)
        judge(p, (kn_gpu_bytes){ 0 });
    else
        kn_crew_after(p, READING_MS, read_again);
}

static void read_again(kn_crew *p) {
    kn_crew_measure(p, measured_after_end);
}

static void worker_has_ended(kn_crew *p) {
    kn_member *m = p->member;
    if (kn_worker_state_of(m->worker) == KN_WORKER_LOST) {
        m->uncertain = true; /* its reservation stays */
        p->failure->class = KN_FAILED_RUNTIME;
        m->excluded = true;
        p->alone = false;
        kn_crew_try(p);
        return;
    }
    p->readings = (kn_readings){ 0 };
    p->readings_until_ms = kn_loop_now_ms(p->loop) + READINGS_MS;
    read_again(p);
}

/* ---- at once ---- */

static void measured_before_end(kn_crew *p) {
    kn_member *m = p->member;
    p->failure->before = p->used[m->device];
    kn_worker_stop(m->worker);
    kn_crew_settle(p, worker_has_ended);
}

/* Who was there when it failed. */
static void note_companions(const kn_crew *p, kn_failure *f) {
    f->companion_count = p->companion_count;
    memcpy(f->companions, p->companions, sizeof f->companions);
}

void kn_crew_load_failed(kn_crew *p, kn_failure_class suspected) {
    kn_member *m = p->member;
    if (p->failure && p->failure->retry == KN_RETRY_UNDER_WAY)
        p->failure->retry = KN_RETRY_FAILED;
    p->failed = true;
    p->suspected = suspected;
    p->baseline = m->learning.baseline;
    p->failure = kn_learning_add_failure(&m->learning);
    p->failure->digest = p->job->digest;
    p->failure->context_length = kn_member_context(p, m);
    note_companions(p, p->failure);
    kn_crew_measure(p, measured_before_end);
}
