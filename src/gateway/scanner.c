#include "gateway/scanner.h"

#include <stdlib.h>

struct kn_scanner {
    kn_loop *loop;
    kn_gpu_probe *probe;
    bool probe_is_out; /* it will post, or has posted, `probed` */
    bool scanning;
    kn_task probed; /* posted by the probe's thread */
    kn_timer deadline;
    kn_scan *now, *later; /* who waits for the present look, and for the next one */
    kn_gpu_report report;
};

static void begin(kn_scanner *s);

static void finish(kn_scanner *s) {
    if (!s->scanning)
        return;
    kn_loop_timer_stop(&s->deadline);
    if (s->probe_is_out && kn_gpu_probe_forget(s->probe))
        s->probe_is_out = false;
    kn_gpu_probe_read(s->probe, &s->report);
    while (s->now) { /* those who come meanwhile wait for the next look */
        kn_scan *scan = s->now;
        kn_scanner_forget(scan);
        scan->seen(scan, &s->report);
    }
    s->scanning = false;
    if (s->later)
        begin(s);
}

static void time_is_over(kn_timer *t) {
    finish(KN_HOLDER(t, kn_scanner, deadline));
}

static void probe_is_through(kn_task *t) {
    kn_scanner *s = KN_HOLDER(t, kn_scanner, probed);
    s->probe_is_out = false;
    finish(s);
}

static void probe_calls(void *ctx) {
    kn_scanner *s = ctx;
    kn_loop_post(s->loop, &s->probed);
}

static void line_up(kn_scan **list, kn_scan *scan) {
    scan->list = list;
    scan->prev = NULL;
    scan->next = *list;
    if (scan->next)
        scan->next->prev = scan;
    *list = scan;
}

/* Drivers that hang since an earlier look are not waited for again. */
static void begin(kn_scanner *s) {
    s->scanning = true;
    while (s->later) {
        kn_scan *scan = s->later;
        kn_scanner_forget(scan);
        line_up(&s->now, scan);
    }
    bool started = !s->probe_is_out && kn_gpu_probe_start(s->probe, probe_calls, s) == KN_GPU_STARTED;
    s->probe_is_out |= started;
    kn_loop_timer_after(s->loop, &s->deadline, started ? KN_GPU_DEADLINE_MS : 0);
}

void kn_scanner_scan(kn_scanner *s, kn_scan *scan) {
    line_up(&s->later, scan);
    if (!s->scanning)
        begin(s);
}

void kn_scanner_forget(kn_scan *scan) {
    if (!scan->list)
        return;
    *(scan->prev ? &scan->prev->next : scan->list) = scan->next;
    if (scan->next)
        scan->next->prev = scan->prev;
    scan->list = NULL;
}

void kn_scanner_read(kn_scanner *s, kn_gpu_report *ret) {
    kn_gpu_probe_read(s->probe, ret);
}

bool kn_scanner_new(kn_loop *loop, const char *root, kn_scanner **ret, kn_error *err) {
    kn_scanner *s = calloc(1, sizeof *s);
    if (!s)
        return kn_fail_nomem(err, sizeof *s);
    s->loop = loop;
    s->probed.run = probe_is_through;
    s->deadline.fired = time_is_over;
    if (!kn_gpu_probe_new(root, &s->probe, err)) {
        free(s);
        return false;
    }
    *ret = s;
    return true;
}

void kn_scanner_free(kn_scanner *s) {
    if (!s)
        return;
    kn_gpu_probe_free(s->probe);
    kn_loop_timer_close(s->loop, &s->deadline);
    free(s);
}
