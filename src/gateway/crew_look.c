#include <string.h>

#include "gateway/crew_internal.h"
#include "gpu/host.h"

/* ---- what is loaded ---- */

void kn_crew_forget_list(kn_member *m) {
    if (m->list) {
        kn_call_cancel(m->list);
        m->list = NULL;
        m->crew->lists_out--;
    }
    m->listed = false;
    kn_residents_free(&m->residents);
}

/* Among the models that were placed; behind them: it is none. */
static size_t find_kind(const kn_crew *p, const kn_digest *digest) {
    size_t i = 0;
    while (i < p->kind_count && strcmp(p->kinds[i].digest.text, digest->text) != 0)
        i++;
    return i;
}

const kn_digest *kn_crew_weights(const kn_crew *p, const kn_digest *digest) {
    size_t i = find_kind(p, digest);
    return i < p->kind_count ? &p->kinds[i].weights : digest;
}

void kn_crew_note_weights(kn_crew *p, const kn_digest *digest, const kn_digest *weights) {
    size_t i = find_kind(p, digest);
    bool verified = i < p->kind_count && p->kinds[i].verified;
    if (i == p->kind_count && p->kind_count < KN_CREW_KINDS_MAX)
        p->kind_count++;
    i = KN_MIN(i, p->kind_count - 1);
    memmove(&p->kinds[1], &p->kinds[0], i * sizeof p->kinds[0]);
    p->kinds[0].digest = *digest;
    p->kinds[0].weights = weights->text[0] ? *weights : *digest;
    p->kinds[0].verified = verified;
}

void kn_crew_note_verified(kn_crew *p, const kn_digest *digest) {
    size_t i = find_kind(p, digest);
    if (i < p->kind_count)
        p->kinds[i].verified = true;
}

bool kn_crew_has_verified(const kn_crew *p, const kn_digest *digest) {
    size_t i = find_kind(p, digest);
    return i < p->kind_count && p->kinds[i].verified;
}

const kn_resident *kn_member_find(const kn_member *m, const kn_digest *weights) {
    for (size_t i = 0; m->listed && i < m->residents.count; i++)
        if (strcmp(kn_crew_weights(m->crew, &m->residents.items[i].digest)->text, weights->text) == 0)
            return &m->residents.items[i];
    return NULL;
}

/* Uses of what is loaded no more are forgotten. */
static void forget_uses(kn_member *m) {
    size_t kept = 0;
    for (size_t i = 0; i < m->used_count; i++)
        if (kn_member_find(m, &m->used[i].weights))
            m->used[kept++] = m->used[i];
    m->used_count = kept;
}

static const kn_call_request list_request = {
    .method = "GET", .target = "/api/ps", .answer_limit = KN_RESIDENTS_BYTES, .within_ms = KN_CREW_LIST_MS
};

static bool read_list(const kn_call_result *r, kn_residents *ret) {
    return r->end == KN_CALL_ANSWERED && r->status == 200 && kn_residents_read(r->body.data, r->body.len, ret, NULL);
}

static void list_came(void *ctx, const kn_call_result *r) {
    kn_member *m = ctx;
    kn_crew *p = m->crew;
    m->list = NULL;
    p->lists_out--;
    m->listed = read_list(r, &m->residents);
    if (!m->listed)
        kn_worker_fail(m->worker, "no_answer");
    forget_uses(m);
    if (!p->lists_out)
        kn_crew_go_on(p, &p->when_listed);
}

/* A worker that does not tell is ended and started again: whatever it does, it is of no use. */
void kn_crew_list(kn_crew *p, kn_crew_step *then) {
    p->when_listed = then;
    for (size_t i = 0; i < p->count; i++) {
        kn_member *m = &p->members[i];
        kn_crew_forget_list(m);
        if (kn_worker_state_of(m->worker) == KN_WORKER_READY &&
            kn_call_start(kn_worker_upstream(m->worker), &list_request, list_came, m, &m->list, NULL))
            p->lists_out++;
    }
    if (!p->lists_out)
        kn_crew_go_on(p, &p->when_listed);
}

/* A worker that does not tell is no matter here: the next job will ask it. */
static void look_came(void *ctx, const kn_call_result *r) {
    kn_member *m = ctx;
    kn_residents now = { 0 };
    m->list = NULL;
    m->crew->lists_out--;
    if (!read_list(r, &now))
        return;
    kn_residents_free(&m->residents);
    m->residents = now;
    m->listed = true;
    forget_uses(m);
}

void kn_member_look_again(kn_member *m) {
    if (!m->list && kn_worker_state_of(m->worker) == KN_WORKER_READY &&
        kn_call_start(kn_worker_upstream(m->worker), &list_request, look_came, m, &m->list, NULL))
        m->crew->lists_out++;
}

/* ---- what memory there is ---- */

/* Whether anything of ours may be on the device. */
static bool is_unloaded(const kn_crew *p, unsigned device) {
    for (size_t i = 0; i < p->count; i++) {
        const kn_member *m = &p->members[i];
        kn_worker_state state = kn_worker_state_of(m->worker);
        bool empty = state == KN_WORKER_STOPPED || state == KN_WORKER_RESTING || (m->listed && !m->residents.count);
        if (m->device == device && !empty)
            return false;
    }
    return true;
}

static kn_gpu_bytes used_of(const kn_gpu_device *d) {
    if (d->used.known)
        return d->used;
    bool known = d->total.known && d->free.known && d->free.bytes <= d->total.bytes;
    return (kn_gpu_bytes){ known, known ? d->total.bytes - d->free.bytes : 0 };
}

static void read_device(kn_crew *p, unsigned i, const kn_gpu_report *r) {
    p->total[i] = p->free[i] = p->used[i] = (kn_gpu_bytes){ 0 };
    for (size_t k = 0; k < r->count; k++) {
        const kn_gpu_device *d = &r->devices[k];
        if (!kn_pci_equal(&d->pci, &p->devices[i]))
            continue;
        p->total[i] = d->total;
        p->free[i] = d->free;
        p->used[i] = used_of(d);
    }
}

/* The processor's memory is the machine's, as far as this process may have it. */
static void read_host(kn_crew *p, unsigned i) {
    kn_host_memory m = kn_host_memory_read("");
    p->total[i] = (kn_gpu_bytes){ m.total > 0, KN_MIN(m.total, m.limit) };
    p->free[i] = (kn_gpu_bytes){ m.available > 0, KN_MIN(m.available, m.limit) };
    p->used[i] = (kn_gpu_bytes){ m.total && m.available, m.total - m.available };
}

/* A driver that knows its cards by UUID must say the same of the place as the configuration. */
static bool has_another_uuid(const kn_member *m, const kn_gpu_report *r) {
    for (size_t i = 0; i < r->count; i++) {
        const kn_gpu_device *d = &r->devices[i];
        if (kn_pci_equal(&d->pci, &m->config->pci))
            return m->config->uuid[0] && d->uuid[0] && strcmp(d->uuid, m->config->uuid) != 0;
    }
    return false;
}

static void take_report(kn_crew *p, const kn_gpu_report *r) {
    for (unsigned i = 0; i < p->device_count; i++) {
        if (p->devices[i].text[0])
            read_device(p, i, r);
        else
            read_host(p, i);
    }
    for (size_t i = 0; i < p->count; i++) {
        kn_member *m = &p->members[i];
        m->wrong_card = has_another_uuid(m, r);
        if (is_unloaded(p, m->device))
            kn_learning_saw_unloaded(&m->learning, p->used[m->device]);
    }
    p->measured = true;
    kn_crew_go_on(p, &p->when_measured);
}

static void cards_are_seen(kn_scan *scan, const kn_gpu_report *r) {
    take_report(KN_HOLDER(scan, kn_crew, scan), r);
}

static void host_is_seen(kn_crew *p) {
    static const kn_gpu_report none;
    take_report(p, &none);
}

/* Drivers are asked only where there is a card to ask about. */
void kn_crew_measure(kn_crew *p, kn_crew_step *then) {
    bool cards = false;
    for (unsigned i = 0; i < p->device_count; i++)
        cards |= p->devices[i].text[0] != 0;
    p->when_measured = then;
    p->scan.seen = cards_are_seen;
    if (cards)
        kn_scanner_scan(p->scanner, &p->scan);
    else
        kn_crew_after(p, 0, host_is_seen);
}
