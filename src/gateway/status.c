#include "gateway/status.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/date.h"
#include "gateway/images.h"
#include "gateway/managed.h"

static json_t *date_json(int64_t seconds) {
    kn_date d = kn_date_of(seconds);
    return d.text[0] && seconds ? json_string(d.text) : json_null();
}

static const char *state_name(const kn_admission *a) {
    return a->recovery_required ? "recovery_required" : a->stopping ? "draining" : a->paused ? "paused" : "open";
}

json_t *kn_admission_json(kn_gateway *g) {
    const kn_admission *a = kn_lease_admission(g->lease);
    bool active = kn_admission_is_active(a);
    int64_t since_s = kn_date_now() - (int64_t)(kn_loop_now_ms(g->loop) - a->since_ms) / 1000;
    return json_pack("{s:s, s:b, s:b, s:b, s:s?, s:o, s:I, s:I, s:I}", "state", state_name(a), "paused", a->paused,
                     "recovery_required", a->recovery_required, "active", active, "active_kind",
                     active ? kn_work_names[a->work] : NULL, "active_since", active ? date_json(since_s) : json_null(),
                     "queued", (json_int_t)(a->queued + a->patient), "queue_limit", (json_int_t)a->queue_limit,
                     "queue_timeout_ms", (json_int_t)a->queue_timeout_ms);
}

json_t *kn_status_json(kn_gateway *g) {
    const kn_presence *p = &g->presence;
    json_t *upstream =
        json_pack("{s:s, s:b, s:s?, s:o}", "address", kn_address_print(&g->config->upstream).text, "reachable",
                  p->reachable, "version", p->version[0] ? p->version : NULL, "checked_at", date_json(p->checked_s));
    bool draws = g->config->image.enabled;
    json_t *capabilities =
        json_pack("{s:b, s:b, s:b, s:b, s:b}", "image_generation", draws, "image_previews", draws, "managed_workers",
                  g->managed != NULL, "gpu_placement_guarantee", false, "usage_tracking", true);
    return json_pack("{s:s, s:s, s:s, s:o, s:s*, s:o, s:o, s:o, s:o, s:o}", "version", KN_VERSION, "api", "kuno/v1",
                     "mode", g->managed ? "managed_experimental" : "gateway", "started_at", date_json(g->started_s),
                     "boot_id", g->boot.text[0] ? g->boot.text : NULL, "upstream", upstream, "admission",
                     kn_admission_json(g), "capabilities", capabilities, "workers",
                     g->managed ? kn_crew_status_json(kn_managed_crew(g->managed)) : json_array(), "image",
                     kn_images_status_json(g->images));
}

static json_t *use_json(const kn_use *use, const kn_catalog *catalog, int64_t now_s) {
    json_t *names = json_array();
    for (const kn_model *m = NULL; (m = kn_catalog_of_digest(catalog, &use->digest, m));)
        json_array_append_new(names, json_string(m->name));
    return json_pack("{s:s, s:o, s:I, s:o, s:o, s:b}", "digest", use->digest.text, "names", names, "calls",
                     (json_int_t)use->calls, "first_used_at", date_json(use->first_s), "last_used_at",
                     date_json(use->last_s), "eligible", kn_usage_is_eligible(use, catalog, now_s));
}

json_t *kn_usage_json(const kn_meter *m, uint64_t limit, uint64_t before) {
    const kn_usage *u = kn_meter_usage(m);
    const kn_catalog *catalog = kn_meter_catalog(m);
    const kn_persistence p = kn_meter_persistence(m);
    json_t *models = json_array(), *cursor = json_null();
    int64_t now_s = kn_date_now();
    for (size_t i = 0; i < u->count; i++) {
        if (u->uses[i].turn >= before)
            continue;
        if (json_array_size(models) == limit) {
            char text[24];
            snprintf(text, sizeof text, "%" PRIu64, u->uses[i - 1].turn);
            cursor = json_string(text);
            break;
        }
        json_array_append_new(models, use_json(&u->uses[i], catalog, now_s));
    }
    json_t *persistence = json_pack("{s:b, s:o, s:s?}", "healthy", !p.last_error, "last_write_at",
                                    date_json(p.last_write_s), "last_error", p.last_error);
    return json_pack("{s:o, s:I, s:i, s:o, s:o}", "models", models, "unattributed_calls", (json_int_t)u->unattributed,
                     "limit", KN_USAGE_MODELS, "next_cursor", cursor, "persistence", persistence);
}
