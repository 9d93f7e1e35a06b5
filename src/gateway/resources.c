#include "gateway/resources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "base/text.h"
#include "gateway/residency.h"
#include "gpu/host.h"
#include "http/call.h"

typedef struct watched {
    kn_watcher *w;
    const char *worker;         /* NULL: the upstream */
    kn_call *call;              /* NULL: not under way */
    const char *if_unreachable; /* the problem that this would be; NULL: none */
    const char *problem;
    kn_residents residents;
} watched;

struct kn_watcher {
    kn_loop *loop;
    char *root;
    kn_scanner *scanner;
    kn_scan scan;
    bool scanned; /* report is this look's */
    kn_timer deadline;
    kn_upstream *upstream;
    kn_crew *crew;
    size_t stranger_count; /* workers of another process's crew */
    struct {
        const char *id;
        kn_upstream *upstream;
    } strangers[KN_WORKERS_MAX];
    size_t count; /* of those that are asked in this look */
    watched watched[KN_WATCHED_MAX];
    kn_look *looks;
    bool looking;
    kn_gpu_report report;
};

/* ---- the report ---- */

static json_t *bytes_of(kn_gpu_bytes b) {
    return b.known ? json_integer((json_int_t)b.bytes) : json_null();
}

/* Text of a driver's, which need not be UTF-8. */
static json_t *text_of(const char *text) {
    size_t len = strlen(text);
    return len && kn_utf8_check(text, len) == len ? json_string(text) : json_null();
}

static json_t *device_json(const kn_gpu_device *d) {
    json_t *memory =
        json_pack("{s:o, s:o, s:o, s:o, s:s, s:b}", "total_bytes", bytes_of(d->total), "used_bytes", bytes_of(d->used),
                  "free_bytes", bytes_of(d->free), "reserved_bytes", bytes_of(d->reserved), "source",
                  kn_gpu_source_names[d->source], "used_includes_reserved", d->used_includes_reserved);
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s}", "pci_address", d->pci.text, "vendor",
                     kn_gpu_vendor_names[d->vendor], "driver", d->driver, "name", text_of(d->name), "uuid",
                     text_of(d->uuid), "memory", memory, "observation", kn_gpu_observation_names[d->observation]);
}

static json_t *problem_json(const char *probe, const char *code, const char *pci) {
    return json_pack("{s:s, s:s, s:o}", "probe", probe, "code", code, "pci_address",
                     *pci ? json_string(pci) : json_null());
}

static json_t *resident_json(const char *worker, const kn_resident *m) {
    return json_pack("{s:s?, s:s, s:s, s:o, s:o, s:s}", "worker", worker, "model", m->name, "digest", m->digest.text,
                     "size_bytes", bytes_of((kn_gpu_bytes){ m->has_bytes, m->bytes }), "size_vram_bytes",
                     bytes_of((kn_gpu_bytes){ m->has_vram_bytes, m->vram_bytes }), "class",
                     kn_residency_names[m->residency]);
}

static json_t *host_json(const char *root) {
    kn_host_memory m = kn_host_memory_read(root);
    return json_pack("{s:I, s:I, s:o, s:b}", "memory_total_bytes", (json_int_t)m.total, "memory_available_bytes",
                     (json_int_t)m.available, "cgroup_limit_bytes",
                     m.limit == UINT64_MAX ? json_null() : json_integer((json_int_t)m.limit),
                     "swap_enabled_for_service", m.swap);
}

static json_t *make_report(kn_watcher *w) {
    json_t *devices = json_array(), *residency = json_array(), *errors = json_array();
    if (!w->scanned)
        kn_scanner_read(w->scanner, &w->report);
    for (size_t i = 0; i < w->report.count; i++)
        json_array_append_new(devices, device_json(&w->report.devices[i]));
    for (size_t i = 0; i < w->report.problem_count; i++) {
        const kn_gpu_problem *p = &w->report.problems[i];
        json_array_append_new(errors, problem_json(p->probe, p->code, p->pci.text));
    }
    for (size_t i = 0; i < w->count; i++) {
        const watched *one = &w->watched[i];
        for (size_t k = 0; k < one->residents.count; k++)
            json_array_append_new(residency, resident_json(one->worker, &one->residents.items[k]));
        if (one->problem)
            json_array_append_new(errors, problem_json(one->worker ? "worker-ps" : "upstream-ps", one->problem, ""));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "observed_at", kn_date_of(kn_date_now()).text, "host",
                     host_json(w->root), "devices", devices, "residency", residency, "errors", errors);
}

/* ---- the look ---- */

static void finish(kn_watcher *w) {
    w->looking = false;
    kn_loop_timer_stop(&w->deadline);
    kn_scanner_forget(&w->scan);
    for (size_t i = 0; i < w->count; i++) {
        watched *one = &w->watched[i];
        if (one->call) {
            kn_call_cancel(one->call);
            one->call = NULL;
            one->problem = "timeout";
        }
    }
    json_t *report = make_report(w);
    while (w->looks) {
        kn_look *l = w->looks;
        kn_watcher_forget(w, l);
        l->seen(l, json_incref(report));
    }
    json_decref(report);
    for (size_t i = 0; i < w->count; i++)
        kn_residents_free(&w->watched[i].residents);
}

static void finish_if_complete(kn_watcher *w) {
    bool complete = w->looking && w->scanned;
    for (size_t i = 0; i < w->count; i++)
        complete = complete && !w->watched[i].call;
    if (complete)
        finish(w);
}

static void time_is_over(kn_timer *t) {
    finish(KN_HOLDER(t, kn_watcher, deadline));
}

static void cards_are_seen(kn_scan *scan, const kn_gpu_report *report) {
    kn_watcher *w = KN_HOLDER(scan, kn_watcher, scan);
    w->report = *report;
    w->scanned = true;
    finish_if_complete(w);
}

static void answered(void *ctx, const kn_call_result *r) {
    watched *one = ctx;
    one->call = NULL;
    if (r->end != KN_CALL_ANSWERED)
        one->problem = r->end == KN_CALL_UNREACHABLE ? one->if_unreachable
                       : r->end == KN_CALL_LATE      ? "timeout"
                                                     : "broken";
    else if (r->status != 200 || !kn_residents_read(r->body.data, r->body.len, &one->residents, NULL))
        one->problem = "unexpected_answer";
    finish_if_complete(one->w);
}

static void ask(watched *one, kn_upstream *upstream) {
    const kn_call_request request = {
        .method = "GET", .target = "/api/ps", .answer_limit = KN_RESIDENTS_BYTES, .within_ms = KN_GPU_DEADLINE_MS
    };
    one->problem = NULL;
    if (!kn_call_start(upstream, &request, answered, one, &one->call, NULL))
        one->problem = "unreachable";
}

/* A worker that does not run holds nothing. */
static void watch(kn_watcher *w, const char *worker, kn_upstream *upstream, const char *if_unreachable) {
    if (!upstream || w->count == KN_WATCHED_MAX)
        return;
    watched *one = &w->watched[w->count++];
    *one = (watched){ .w = w, .worker = worker, .if_unreachable = if_unreachable };
    ask(one, upstream);
}

static void begin(kn_watcher *w) {
    w->looking = true;
    w->scanned = false;
    w->count = 0;
    if (w->upstream)
        watch(w, NULL, w->upstream, "unreachable");
    for (size_t i = 0; w->crew && i < kn_crew_count(w->crew); i++)
        watch(w, kn_crew_id(w->crew, i), kn_crew_upstream(w->crew, i), "unreachable");
    for (size_t i = 0; i < w->stranger_count; i++)
        watch(w, w->strangers[i].id, w->strangers[i].upstream, NULL);
    kn_loop_timer_after(w->loop, &w->deadline, KN_GPU_DEADLINE_MS);
    kn_scanner_scan(w->scanner, &w->scan);
}

void kn_watcher_look(kn_watcher *w, kn_look *l) {
    l->waits = true;
    l->prev = NULL;
    l->next = w->looks;
    if (l->next)
        l->next->prev = l;
    w->looks = l;
    if (!w->looking)
        begin(w);
}

void kn_watcher_forget(kn_watcher *w, kn_look *l) {
    if (!l->waits)
        return;
    l->waits = false;
    *(l->prev ? &l->prev->next : &w->looks) = l->next;
    if (l->next)
        l->next->prev = l->prev;
}

void kn_watcher_set(kn_watcher *w, kn_upstream *upstream, kn_crew *crew) {
    w->upstream = upstream;
    w->crew = crew;
}

void kn_watcher_add_worker(kn_watcher *w, const char *id, kn_upstream *upstream) {
    if (w->stranger_count == KN_WORKERS_MAX)
        return;
    w->strangers[w->stranger_count].id = id;
    w->strangers[w->stranger_count++].upstream = upstream;
}

kn_scanner *kn_watcher_scanner(kn_watcher *w) {
    return w->scanner;
}

bool kn_watcher_new(kn_loop *loop, const char *root, kn_watcher **ret, kn_error *err) {
    kn_watcher *w = calloc(1, sizeof *w);
    if (!w || !(w->root = strdup(root))) {
        free(w);
        return kn_fail_nomem(err, sizeof *w);
    }
    w->loop = loop;
    w->scan.seen = cards_are_seen;
    w->deadline.fired = time_is_over;
    if (!kn_scanner_new(loop, root, &w->scanner, err)) {
        free(w->root);
        free(w);
        return false;
    }
    *ret = w;
    return true;
}

void kn_watcher_free(kn_watcher *w) {
    if (!w)
        return;
    kn_scanner_free(w->scanner);
    kn_loop_timer_close(w->loop, &w->deadline);
    for (size_t i = 0; i < w->count; i++) {
        if (w->watched[i].call)
            kn_call_cancel(w->watched[i].call);
        kn_residents_free(&w->watched[i].residents);
    }
    free(w->root);
    free(w);
}
