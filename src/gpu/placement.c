#include "gpu/placement.h"

#include <string.h>

const char *const kn_place_reason_names[KN_PLACE_REASON_COUNT] = {
    [KN_PLACE_FITS] = "fits",           [KN_PLACE_NO_WORKER] = "no_worker", [KN_PLACE_UNKNOWN] = "unknown_memory",
    [KN_PLACE_TOO_LARGE] = "too_large", [KN_PLACE_TAKEN] = "memory_taken",
};

static bool is_what_is_needed(const kn_place_what *what, const kn_place_need *need, uint64_t settings) {
    return what->settings == settings && what->context_length == need->context_length &&
           strcmp(what->digest, need->digest) == 0;
}

static bool find_warm(const kn_place_scene *s, const kn_place_need *need, kn_place_plan *plan) {
    uint64_t latest = 0;
    for (unsigned w = 0; w < s->worker_count; w++) {
        const kn_place_worker *worker = &s->workers[w];
        for (unsigned i = 0; worker->available && i < worker->load_count; i++) {
            const kn_place_load *load = &worker->loads[i];
            if (!load->verified || !is_what_is_needed(&load->what, need, worker->settings))
                continue;
            if (plan->kind == KN_PLACE_REUSE && load->used_at <= latest)
                continue;
            latest = load->used_at;
            plan->kind = KN_PLACE_REUSE;
            plan->worker = w;
            plan->load = i;
        }
    }
    return plan->kind == KN_PLACE_REUSE;
}

/* What must be free before it is loaded on this worker; UINT64_MAX: more than there can be. */
static uint64_t bytes_needed(const kn_place_scene *s, const kn_place_need *need, unsigned w) {
    uint64_t bytes = need->seen[w] ? need->seen[w] : need->estimate;
    if (KN_ADD_OVERFLOWS(bytes, need->workspace, &bytes) || KN_ADD_OVERFLOWS(bytes, s->reserve, &bytes))
        return UINT64_MAX;
    return bytes;
}

static bool touches(const kn_place_load *load, unsigned device) {
    for (size_t i = 0; i < load->share_count; i++) {
        if (load->shares[i].device == device)
            return true;
    }
    return false;
}

static uint64_t share_on(const kn_place_load *load, unsigned device) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < load->share_count; i++)
        bytes += load->shares[i].device == device ? load->shares[i].bytes : 0;
    return bytes;
}

/* Loads of any worker that take part of this device. */
static size_t count_on_device(const kn_place_scene *s, unsigned device) {
    size_t n = 0;
    for (size_t w = 0; w < s->worker_count; w++)
        for (size_t i = 0; i < s->workers[w].load_count; i++)
            n += touches(&s->workers[w].loads[i], device);
    return n;
}

/* A load of the worker that is the same model, though not what is needed; -1: none. */
static int find_clash(const kn_place_worker *worker, const kn_place_need *need) {
    for (unsigned i = 0; i < worker->load_count; i++) {
        if (strcmp(worker->loads[i].what.digest, need->digest) == 0)
            return (int)i;
    }
    return -1;
}

/* Of two places with room the emptier one: first by loads, then by free bytes. */
static void find_room(const kn_place_scene *s, const kn_place_need *need, kn_place_plan *plan) {
    size_t fewest = 0;
    uint64_t most_free = 0;
    for (unsigned w = 0; w < s->worker_count; w++) {
        const kn_place_worker *worker = &s->workers[w];
        const kn_place_device *device = &s->devices[worker->device];
        size_t others = count_on_device(s, worker->device);
        if (!worker->available || !device->known || worker->load_count >= worker->max_loads ||
            (others && !need->seen[w]) || find_clash(worker, need) >= 0 || device->free < bytes_needed(s, need, w))
            continue;
        if (plan->kind == KN_PLACE_LOAD && (others > fewest || (others == fewest && device->free <= most_free)))
            continue;
        fewest = others;
        most_free = device->free;
        plan->kind = KN_PLACE_LOAD;
        plan->worker = w;
        plan->alone = !need->seen[w];
    }
}

static void add_victim(const kn_place_scene *s, kn_place_plan *plan, unsigned w, unsigned i) {
    const kn_place_load *load = &s->workers[w].loads[i];
    plan->victims[plan->victim_count].worker = w;
    plan->victims[plan->victim_count].load = i;
    plan->victim_count++;
    plan->workers |= 1u << w;
    for (size_t k = 0; k < load->share_count; k++) {
        plan->devices |= 1u << load->shares[k].device;
        for (unsigned other = 0; other < s->worker_count; other++)
            if (s->workers[other].device == load->shares[k].device)
                plan->workers |= 1u << other;
    }
}

static bool is_victim(const kn_place_plan *plan, unsigned w, unsigned i) {
    for (size_t k = 0; k < plan->victim_count; k++) {
        if (plan->victims[k].worker == w && plan->victims[k].load == i)
            return true;
    }
    return false;
}

/* The idle, verified load on the device, or of the worker, that was used longest ago. False: there is none. */
static bool oldest(const kn_place_scene *s, const kn_place_plan *plan, unsigned target, bool of_worker, unsigned *ret_w,
                   unsigned *ret_i) {
    bool found = false;
    uint64_t used_at = 0;
    for (unsigned w = 0; w < s->worker_count; w++) {
        for (unsigned i = 0; i < s->workers[w].load_count; i++) {
            const kn_place_load *load = &s->workers[w].loads[i];
            bool there = of_worker ? w == target : touches(load, s->workers[target].device);
            if (!there || !s->workers[w].available || load->busy || !load->verified || is_victim(plan, w, i) ||
                (found && load->used_at >= used_at))
                continue;
            found = true;
            used_at = load->used_at;
            *ret_w = w;
            *ret_i = i;
        }
    }
    return found;
}

/* What would have to go for this worker to take it. False: not enough can. *ret_latest: when the last of them was used.
 */
static bool plan_eviction(const kn_place_scene *s, const kn_place_need *need, unsigned target, kn_place_plan *plan,
                          uint64_t *ret_latest) {
    const kn_place_worker *worker = &s->workers[target];
    uint64_t free = s->devices[worker->device].free, needed = bytes_needed(s, need, target);
    size_t on_device = count_on_device(s, worker->device), of_worker = worker->load_count;
    *ret_latest = 0;
    int clash = find_clash(worker, need);
    for (;;) {
        bool too_many = of_worker >= worker->max_loads, shared = on_device && !need->seen[target];
        unsigned w = 0, i = 0;
        if (free >= needed && !too_many && !shared && clash < 0)
            return plan->victim_count > 0;
        if (clash >= 0) {
            w = target;
            i = (unsigned)clash;
            clash = -1;
        } else {
            /* If only their number is too large, one of the worker's own must go; else any that takes this memory. */
            bool own = free >= needed && !shared;
            if (plan->victim_count == KN_PLACE_VICTIMS || !oldest(s, plan, target, own, &w, &i))
                return false;
        }
        const kn_place_load *load = &s->workers[w].loads[i];
        if (load->busy || !load->verified)
            return false;
        add_victim(s, plan, w, i);
        uint64_t bytes = share_on(load, worker->device);
        free = bytes > UINT64_MAX - free ? UINT64_MAX : free + bytes;
        on_device -= touches(load, worker->device);
        of_worker -= w == target;
        *ret_latest = KN_MAX(*ret_latest, load->used_at);
    }
}

/* Of several evictions the one whose youngest victim is the oldest, then the one with fewer victims. */
static void find_eviction(const kn_place_scene *s, const kn_place_need *need, kn_place_plan *plan) {
    uint64_t best = 0;
    for (unsigned w = 0; w < s->worker_count; w++) {
        kn_place_plan one = { .kind = KN_PLACE_EVICT, .worker = w };
        uint64_t latest = 0;
        if (!s->workers[w].available || !s->devices[s->workers[w].device].known ||
            bytes_needed(s, need, w) > s->devices[s->workers[w].device].total ||
            !plan_eviction(s, need, w, &one, &latest))
            continue;
        if (plan->kind == KN_PLACE_EVICT &&
            (latest > best || (latest == best && one.victim_count >= plan->victim_count)))
            continue;
        best = latest;
        *plan = one;
    }
}

/* The reason that would have to change first. */
static kn_place_reason why_nowhere(const kn_place_scene *s, const kn_place_need *need) {
    kn_place_reason why = KN_PLACE_NO_WORKER;
    for (unsigned w = 0; w < s->worker_count; w++) {
        const kn_place_worker *worker = &s->workers[w];
        if (!worker->available)
            continue;
        kn_place_reason one = !s->devices[worker->device].known                             ? KN_PLACE_UNKNOWN
                              : bytes_needed(s, need, w) > s->devices[worker->device].total ? KN_PLACE_TOO_LARGE
                                                                                            : KN_PLACE_TAKEN;
        why = KN_MAX(why, one);
    }
    return why;
}

kn_place_plan kn_place(const kn_place_scene *scene, const kn_place_need *need) {
    kn_place_plan plan = { 0 };
    if (find_warm(scene, need, &plan))
        return plan;
    find_room(scene, need, &plan);
    if (plan.kind == KN_PLACE_NOWHERE)
        find_eviction(scene, need, &plan);
    if (plan.kind == KN_PLACE_NOWHERE)
        plan.reason = why_nowhere(scene, need);
    return plan;
}
