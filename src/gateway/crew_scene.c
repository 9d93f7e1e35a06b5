#include <string.h>

#include "gateway/crew_internal.h"

bool kn_member_is_usable(const kn_member *m) {
    return m->listed && !m->excluded && !m->wrong_card && !m->left_reserved && !m->uncertain &&
           kn_worker_state_of(m->worker) == KN_WORKER_READY;
}

uint64_t kn_member_context(const kn_crew *p, const kn_member *m) {
    return kn_wish_context(p->job->wish, &p->job->facts, m->config->context_length);
}

bool kn_member_holds_well(const kn_member *m, const kn_resident *r) {
    return r->residency == (m->config->backend == KN_BACKEND_CPU ? KN_RESIDENT_CPU : KN_RESIDENT_GPU);
}

kn_footprint kn_member_footprint(const kn_crew *p, const kn_member *m) {
    return (kn_footprint){ .digest = p->weights,
                           .context_length = kn_member_context(p, m),
                           .settings = kn_worker_settings(m->worker) };
}

static uint64_t used_at(const kn_member *m, const kn_digest *weights) {
    for (size_t i = 0; i < m->used_count; i++)
        if (strcmp(m->used[i].weights.text, weights->text) == 0)
            return m->used[i].at;
    return 0;
}

/* What a load takes of its device: what was seen, or what the runtime says that it has. */
static uint64_t bytes_of(const kn_member *m, const kn_resident *r) {
    const kn_footprint f = { .digest = *kn_crew_weights(m->crew, &r->digest),
                             .context_length = r->context_length,
                             .settings = kn_worker_settings(m->worker) };
    uint64_t seen = kn_learning_footprint(&m->learning, &f);
    return KN_MAX(seen, m->config->backend == KN_BACKEND_CPU ? r->bytes : r->vram_bytes);
}

/* Workers may have different usual contexts, the planner knows only one that is needed: `wanted` stands for the one
 * that is right on its worker, whatever that is. */
static uint64_t context_in_scene(uint64_t loaded, uint64_t right, uint64_t wanted) {
    return loaded == right ? wanted : loaded == wanted ? 0 : loaded;
}

static void add_loads(kn_crew *p, const kn_member *m, uint64_t wanted, kn_place_worker *w) {
    for (size_t i = 0; m->listed && i < m->residents.count && w->load_count < KN_PLACE_LOADS; i++) {
        const kn_resident *r = &m->residents.items[i];
        const kn_digest *weights = kn_crew_weights(p, &r->digest);
        kn_place_load *load = &w->loads[w->load_count++];
        *load = (kn_place_load){ .verified = kn_member_holds_well(m, r), .used_at = used_at(m, weights) };
        memcpy(load->what.digest, weights->text, sizeof load->what.digest);
        load->what.context_length = context_in_scene(r->context_length, kn_member_context(p, m), wanted);
        load->what.settings = w->settings;
        load->share_count = 1;
        load->shares[0].device = m->device;
        load->shares[0].bytes = bytes_of(m, r);
    }
}

/* What was never seen is thought to take an eighth more than its file, for its context. The processor's memory needs no
 * load to be alone on it: there the runtime's own count is all that is ever known. */
static void fill_need(kn_crew *p, kn_place_need *need) {
    *need = (kn_place_need){ .context_length = kn_member_context(p, &p->members[0]), .workspace = KN_CREW_WORKSPACE };
    memcpy(need->digest, p->weights.text, sizeof need->digest);
    need->estimate = p->job->bytes + p->job->bytes / 8;
    for (size_t i = 0; i < p->count; i++) {
        const kn_member *m = &p->members[i];
        const kn_footprint f = kn_member_footprint(p, m);
        need->seen[i] = kn_learning_footprint(&m->learning, &f);
        if (m->config->backend == KN_BACKEND_CPU) {
            need->seen[i] = KN_MAX(need->seen[i], KN_MAX(need->estimate, (uint64_t)1));
        } else if (p->alone) { /* as if it was never seen: nothing may be beside it */
            need->estimate = KN_MAX(need->estimate, need->seen[i]);
            need->seen[i] = 0;
        }
    }
}

void kn_crew_plan(kn_crew *p) {
    kn_place_scene *s = &p->scene;
    kn_place_need need;
    fill_need(p, &need);
    *s = (kn_place_scene){ .device_count = p->device_count,
                           .worker_count = p->count,
                           .reserve = p->config->reserve_bytes };
    for (size_t i = 0; i < p->device_count; i++) {
        bool known = p->measured && p->total[i].known && p->free[i].known;
        s->devices[i] = (kn_place_device){ known, p->total[i].bytes, p->free[i].bytes };
    }
    for (size_t i = 0; i < p->count; i++) {
        const kn_member *m = &p->members[i];
        kn_place_worker *w = &s->workers[i];
        w->available = kn_member_is_usable(m) && (!p->alone || m == p->member);
        w->device = m->device;
        w->settings = kn_worker_settings(m->worker);
        w->max_loads = m->config->max_loaded_models;
        add_loads(p, m, need.context_length, w);
    }
    p->plan = kn_place(s, &need);
}
