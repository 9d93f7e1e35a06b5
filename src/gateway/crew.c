#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/crew_internal.h"
#include "workers/marked.h"
#include "workers/process.h"

enum { ORPHANS_MS = 10 * 1000, LINE_BYTES = 200 };

void kn_crew_log(kn_crew *p, const char *fmt, ...) {
    char line[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    p->log_line(p->log_ctx, line);
}

/* ---- waiting ---- */

void kn_crew_go_on(kn_crew *p, kn_crew_step **waiting) {
    kn_crew_step *then = *waiting;
    *waiting = NULL;
    if (then)
        then(p);
}

/* One that starts again after a failure may take long, and fail again: nobody waits for it who has another. */
static bool is_on_its_way(const kn_member *m) {
    kn_worker_state s = kn_worker_state_of(m->worker);
    return s == KN_WORKER_STOPPING || (s == KN_WORKER_STARTING && !kn_worker_reason(m->worker));
}

static void look_whether_settled(kn_timer *t) {
    kn_crew *p = KN_HOLDER(t, kn_crew, changed);
    for (size_t i = 0; i < p->count; i++)
        if (is_on_its_way(&p->members[i]))
            return;
    kn_crew_go_on(p, &p->when_settled);
}

static void worker_changed(void *ctx, kn_worker *w) {
    kn_member *m = ctx;
    kn_crew *p = m->crew;
    kn_worker_state state = kn_worker_state_of(w);
    if (state != KN_WORKER_READY)
        kn_crew_forget_list(m);
    if (state == KN_WORKER_READY)
        kn_crew_log(p, "worker %s is ready", m->config->id);
    else if (state == KN_WORKER_RESTING || state == KN_WORKER_LOST)
        kn_crew_log(p, "worker %s has failed: %s", m->config->id, kn_worker_reason(w));
    kn_loop_timer_after(p->loop, &p->changed, 0);
}

void kn_crew_settle(kn_crew *p, kn_crew_step *then) {
    p->when_settled = then;
    kn_loop_timer_after(p->loop, &p->changed, 0);
}

static void write_marker(kn_job *job) {
    kn_crew *p = KN_HOLDER(job, kn_crew, marker);
    const char *id = p->marked->config->id;
    p->marker_done = p->marker_is_set ? kn_state_reserve(p->state, id, NULL) : kn_state_release(p->state, id, NULL);
}

static void marker_is_written(kn_task *t) {
    kn_crew *p = KN_HOLDER(t, kn_crew, marker.done);
    p->marked->reserved = p->marker_done ? p->marker_is_set : p->marked->reserved;
    kn_crew_go_on(p, &p->when_written);
}

void kn_crew_write_marker(kn_crew *p, kn_member *m, bool set, kn_crew_step *then) {
    p->when_written = then;
    p->marked = m;
    p->marker_is_set = set;
    kn_disk_do(p->disk, &p->marker);
}

static void time_is_due(kn_timer *t) {
    kn_crew *p = KN_HOLDER(t, kn_crew, timer);
    kn_crew_go_on(p, &p->when_due);
}

void kn_crew_after(kn_crew *p, uint64_t ms, kn_crew_step *then) {
    p->when_due = then;
    kn_loop_timer_after(p->loop, &p->timer, ms);
}

/* ---- start and stop ---- */

static void tell_started(kn_crew *p, const kn_error *err) {
    void (*started)(void *ctx, const kn_error *err) = p->started;
    p->started = NULL;
    started(p->ctx, err);
}

static void all_have_started(kn_crew *p) {
    for (size_t i = 0; i < p->count; i++) {
        const kn_member *m = &p->members[i];
        const char *reason = m->wrong_card ? "wrong_uuid" : kn_worker_reason(m->worker);
        if (m->left_reserved || (kn_worker_state_of(m->worker) == KN_WORKER_READY && !m->wrong_card))
            continue;
        kn_error err = { 0 };
        kn_fail(&err, KN_E_USAGE, "worker %s does not start as configured: %s; see docs/config-json.md", m->config->id,
                reason ? reason : "stopped");
        tell_started(p, &err);
        return;
    }
    tell_started(p, NULL);
}

static void start_all(kn_crew *p) {
    for (size_t i = 0; i < p->count; i++)
        if (!p->members[i].left_reserved)
            kn_worker_start(p->members[i].worker);
    kn_crew_settle(p, all_have_started);
}

/* Before anything is loaded, so that the first reading is one of a device without a load. */
void kn_crew_start(kn_crew *p, void (*started)(void *ctx, const kn_error *err), void *ctx) {
    p->started = started;
    p->ctx = ctx;
    kn_crew_measure(p, start_all);
}

static bool is_concerned(const kn_crew *p, const kn_member *m) {
    return p->all_stop || strcmp(p->stop_device.text, m->config->pci.text) == 0;
}

static void all_have_stopped(kn_crew *p) {
    bool certain = true;
    for (size_t i = 0; i < p->count; i++)
        certain =
            certain && (!is_concerned(p, &p->members[i]) || kn_worker_state_of(p->members[i].worker) != KN_WORKER_LOST);
    void (*stopped)(void *ctx, bool certain) = p->stopped;
    p->stopped = NULL;
    stopped(p->ctx, certain);
}

void kn_crew_stop(kn_crew *p, const kn_pci_address *device, void (*stopped)(void *ctx, bool certain), void *ctx) {
    p->stopped = stopped;
    p->ctx = ctx;
    p->all_stop = !device;
    if (device)
        p->stop_device = *device;
    p->when_measured = p->when_due = NULL; /* of a start that is still under way */
    for (size_t i = 0; i < p->count; i++)
        if (is_concerned(p, &p->members[i]))
            kn_worker_stop(p->members[i].worker);
    kn_crew_settle(p, all_have_stopped);
}

/* ---- the end of a job ---- */

static void tell_over(kn_crew *p, bool certain) {
    kn_crew_job *j = p->job;
    p->job = NULL;
    p->member = NULL;
    j->over(j, certain);
}

/* A reservation that cannot be removed would be taken for work after the next start. */
static void reservation_is_released(kn_crew *p) {
    kn_member_look_again(p->member);
    tell_over(p, p->marker_done);
}

static void worker_is_buried(kn_crew *p) {
    kn_member *m = p->member;
    if (kn_worker_state_of(m->worker) == KN_WORKER_LOST) {
        tell_over(p, false);
        return;
    }
    m->uncertain = false;
    kn_crew_write_marker(p, m, false, reservation_is_released);
}

void kn_crew_finish(kn_crew *p, kn_crew_job *j, bool certain) {
    if (p->job != j || p->ending)
        return;
    kn_member *m = p->member;
    if (certain) {
        kn_crew_write_marker(p, m, false, reservation_is_released);
        return;
    }
    kn_crew_log(p, "worker %s is ended: the end of a request is not certain", m->config->id);
    m->uncertain = true;
    kn_worker_fail(m->worker, "uncertain_end");
    kn_crew_settle(p, worker_is_buried);
}

/* ---- */

static bool find_device(kn_crew *p, kn_member *m, kn_error *err) {
    const kn_pci_address *place = &m->config->pci;
    for (m->device = 0; m->device < p->device_count; m->device++)
        if (strcmp(p->devices[m->device].text, place->text) == 0)
            return true;
    if (p->device_count == KN_PLACE_DEVICES)
        return kn_fail(err, KN_E_RANGE, "more than %d devices", KN_PLACE_DEVICES);
    p->devices[p->device_count++] = *place;
    return true;
}

static bool add_member(kn_crew *p, const kn_crew_setup *s, const kn_worker_config *c, kn_error *err) {
    kn_member *m = &p->members[p->count];
    *m = (kn_member){ .crew = p, .config = c, .left_reserved = kn_state_was_reserved(p->state, c->id) };
    const kn_worker_setup worker = {
        .config = c,
        .http = s->http,
        .limits = s->limits,
        .mark = p->mark,
        .start_ms = KN_CREW_START_MS,
        .rest_ms = KN_CREW_REST_MS,
        .changed = worker_changed,
        .ctx = m,
    };
    if (!find_device(p, m, err) || !kn_worker_new(&worker, &m->worker, err))
        return false;
    p->count++;
    return kn_state_make_folder(c->home, err) || kn_fail_within(err, "worker %s: home", c->id);
}

bool kn_crew_new(const kn_crew_setup *s, kn_crew **ret, kn_error *err) {
    kn_crew *p = calloc(1, sizeof *p);
    if (!p)
        return kn_fail_nomem(err, sizeof *p);
    p->config = s->config;
    p->loop = kn_http_loop(s->http);
    p->state = s->state;
    p->disk = s->disk;
    p->scanner = s->scanner;
    p->log_line = s->log;
    p->log_ctx = s->ctx;
    p->changed.fired = look_whether_settled;
    p->marker = (kn_job){ .work = write_marker, .done.run = marker_is_written };
    p->timer.fired = time_is_due;
    p->members = calloc(s->config->worker_count, sizeof *p->members);
    bool ok = (p->members && asprintf(&p->mark, "KUNO_WORKER=%s#", s->config->state_dir) >= 0) ||
              kn_fail_nomem(err, s->config->worker_count * sizeof *p->members);
    if (ok && kn_marked_signal(p->mark, 0)) {
        kn_crew_log(p, "workers of an earlier process are still there; they are ended");
        ok = kn_marked_end(p->mark, ORPHANS_MS) ||
             kn_fail(err, KN_E_IO, "workers of an earlier process cannot be ended");
    }
    kn_process_adopt_orphans();
    for (size_t i = 0; ok && i < s->config->worker_count; i++)
        ok = add_member(p, s, &s->config->workers[i], err);
    if (!ok) {
        kn_crew_free(p);
        return false;
    }
    *ret = p;
    return true;
}

void kn_crew_end(kn_crew *p) {
    if (!p || p->ending)
        return;
    p->ending = true;
    p->when_settled = p->when_listed = p->when_measured = p->when_written = p->when_due = NULL;
    kn_scanner_forget(&p->scan);
    kn_loop_timer_close(p->loop, &p->timer);
    kn_loop_timer_close(p->loop, &p->changed);
    if (p->load)
        kn_call_cancel(p->load);
    bool certain = true;
    for (size_t i = 0; i < p->count; i++) {
        bool gone = kn_worker_end_now(p->members[i].worker);
        certain = certain && gone;
        kn_crew_forget_list(&p->members[i]);
    }
    if (p->job)
        tell_over(p, certain);
}

void kn_crew_free(kn_crew *p) {
    if (!p)
        return;
    kn_crew_end(p);
    for (size_t i = 0; i < p->count; i++) {
        const kn_member *m = &p->members[i];
        if (kn_worker_state_of(m->worker) != KN_WORKER_LOST && !m->left_reserved)
            kn_state_release(p->state, m->config->id, NULL);
        kn_worker_free(m->worker);
    }
    free(p->members);
    free(p->mark);
    free(p);
}

size_t kn_crew_count(const kn_crew *p) {
    return p->count;
}

const char *kn_crew_id(const kn_crew *p, size_t i) {
    return p->members[i].config->id;
}

kn_upstream *kn_crew_upstream(kn_crew *p, size_t i) {
    kn_worker *w = p->members[i].worker;
    return kn_worker_state_of(w) == KN_WORKER_READY ? kn_worker_upstream(w) : NULL;
}
