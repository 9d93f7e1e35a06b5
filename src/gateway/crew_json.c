#include "base/date.h"
#include "gateway/crew_internal.h"

static const char *state_of(const kn_member *m) {
    static const char *const names[KN_WORKER_STATE_COUNT] = {
        [KN_WORKER_STOPPED] = "stopped",  [KN_WORKER_STARTING] = "starting", [KN_WORKER_READY] = "ready",
        [KN_WORKER_STOPPING] = "stopped", [KN_WORKER_RESTING] = "failed",    [KN_WORKER_LOST] = "quarantined",
    };
    kn_worker_state state = kn_worker_state_of(m->worker);
    if (m->left_reserved || m->uncertain)
        return "quarantined";
    return state == KN_WORKER_READY && m->reserved ? "busy" : names[state];
}

static const char *reason_of(const kn_member *m) {
    return m->left_reserved ? "reserved_before_restart" : m->uncertain ? "uncertain_end" : kn_worker_reason(m->worker);
}

static json_t *resident_json(const kn_resident *r) {
    kn_date expires = kn_date_of(r->expires_s);
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:s, s:o}", "model", r->name, "digest", r->digest.text,
                     "context_length", (json_int_t)r->context_length, "size_bytes", (json_int_t)r->bytes,
                     "size_vram_bytes", (json_int_t)r->vram_bytes, "residency", kn_residency_names[r->residency],
                     "expires_at", r->expires_s && expires.text[0] ? json_string(expires.text) : json_null());
}

/* It was told when it would go. */
static bool has_expired(const kn_resident *r) {
    return r->expires_s && r->expires_s <= kn_date_now();
}

static json_t *member_json(const kn_member *m) {
    const kn_worker_config *c = m->config;
    json_t *resident = json_array();
    for (size_t i = 0; m->listed && i < m->residents.count; i++)
        if (!has_expired(&m->residents.items[i]))
            json_array_append_new(resident, resident_json(&m->residents.items[i]));
    return json_pack("{s:s, s:s, s:s?, s:s?, s:s, s:s, s:b, s:I, s:I, s:o, s:s?}", "id", c->id, "backend",
                     kn_backend_names[c->backend], "pci_address", c->pci.text[0] ? c->pci.text : NULL, "uuid",
                     c->uuid[0] ? c->uuid : NULL, "state", state_of(m), "address", kn_address_print(&c->address).text,
                     "verified", kn_worker_state_of(m->worker) == KN_WORKER_READY, "max_loaded_models",
                     (json_int_t)c->max_loaded_models, "context_length", (json_int_t)c->context_length, "resident",
                     resident, "reason", reason_of(m));
}

json_t *kn_crew_status_json(const kn_crew *p) {
    json_t *workers = json_array();
    for (size_t i = 0; i < p->count; i++)
        json_array_append_new(workers, member_json(&p->members[i]));
    return workers;
}

json_t *kn_crew_learning_json(const kn_crew *p) {
    json_t *workers = json_array();
    for (size_t i = 0; i < p->count; i++)
        json_array_append_new(workers, kn_learning_json(&p->members[i].learning, p->members[i].config->id));
    return json_pack("{s:o}", "workers", workers);
}
