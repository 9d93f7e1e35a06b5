/* The service about itself: status, what it can do, settings, diagnostics, beginning and end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "base/text.h"
#include "sampling/sampler.h"
#include "studio/api_visit.h"
#include "studio/paths.h"
#include "studio/prepare.h"

enum { DISK_LOW = 1 << 30, IF_MATCH_MAX = 100 };

/* ---- status ---- */

static bool work_status(kn_visit *v, kn_store *s, kn_error *err) {
    int64_t queued, running;
    kn_prepared p;
    if (!kn_jobs_count(s, &queued, &running, err) || !kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_model_profile *active = kn_prepared_profile(&p, "");
    v->json = json_pack("{s:s, s:s, s:b, s:{s:I, s:I, s:i}, s:s?, s:b}", "version", KN_VERSION, "started_at",
                        kn_date_of(v->studio->started_s).text, "data_dir_writable", kn_store_is_writable(s), "queue",
                        "queued", (json_int_t)queued, "running", (json_int_t)running, "limit", KN_JOBS_QUEUE_LIMIT,
                        "active_profile", active ? active->name : NULL, "setup_needed",
                        !active || !kn_model_is_ready(active));
    kn_prepared_free(&p);
    return v->json || kn_fail_nomem(err, sizeof p);
}

static void after_status(kn_visit *v) {
    kn_events *events = v->studio->events;
    json_object_set_new(v->json, "engine", kn_studio_engine_json(v->studio));
    json_object_set_new(v->json, "event_id", json_string(kn_event_id_of(events, kn_events_last(events)).text));
    kn_visit_answer(v);
}

void kn_api_status(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v)
        kn_visit_send(v, work_status, after_status);
}

/* ---- capabilities ---- */

static json_t *presets_of(const kn_prepared *p, const kn_model_profile *m) {
    json_t *list = json_array();
    for (int i = 0; i < KN_PRESETS; i++) {
        kn_preset preset = kn_preset_of((kn_preset_id)i, m);
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:I, s:I, s:b}", "id", kn_preset_names[i], "title", preset.title,
                                        "target_pixels", (json_int_t)preset.pixels, "steps", (json_int_t)preset.steps,
                                        "default", p->settings.preset == (kn_preset_id)i));
    }
    return list;
}

json_t *kn_api_formats(const kn_studio *s) {
    json_t *list = json_array();
    for (int i = 0; i < KN_PICTURE_FORMATS; i++)
        if (s->runner.formats >> i & 1)
            json_array_append_new(list, json_string(kn_picture_formats[i]));
    return list;
}

static bool work_capabilities(kn_visit *v, kn_store *s, kn_error *err) {
    const char *name = kn_visit_parameter(v, "profile");
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_model_profile *m = name ? kn_prepared_profile(&p, name) : kn_prepared_any(&p);
    kn_model_limits limits = { 0 };
    if (m)
        limits = kn_model_limits_of(m, v->studio->runner.kinds);
    json_t *samplers = json_array(), *kinds = json_array();
    for (int i = 0; i < KN_SAMPLER_COUNT; i++)
        json_array_append_new(samplers, json_string(kn_samplers[i].name.name));
    for (int i = KN_KIND_TEXT_TO_IMAGE; i < KN_KIND_COUNT; i++)
        if (limits.kinds >> i & 1)
            json_array_append_new(kinds, json_string(kn_studio_kinds[i]));
    if (m)
        v->json = json_pack("{s:O, s:o, s:O, s:o, s:o, s:{s:i, s:I, s:I, s:i, s:I, s:i, s:i, s:i, s:i}}", "kinds",
                            kinds, "presets", presets_of(&p, m), "samplers", samplers, "output_formats",
                            kn_api_formats(v->studio), "upscalers", kn_upscalers_json(&p.upscalers), "limits",
                            "min_side", KN_PICTURE_SIDE_MIN, "max_side", (json_int_t)limits.max_side, "grid",
                            (json_int_t)limits.grid, "max_batch", KN_REQUEST_BATCH, "max_reference_images",
                            (json_int_t)limits.references, "max_input_bytes", KN_INPUT_BYTES_MAX, "max_input_pixels",
                            64 << 20, "max_prompt_bytes", KN_REQUEST_PROMPT_BYTES, "queue_limit", KN_JOBS_QUEUE_LIMIT);
    json_decref(samplers);
    json_decref(kinds);
    kn_prepared_free(&p);
    if (!m)
        return kn_fail(err, KN_E_NOT_FOUND, "%s", kn_prepared_lacks(name ? name : ""));
    return v->json || kn_fail_nomem(err, sizeof p);
}

void kn_api_capabilities(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "profile");
    const char *name = v ? kn_visit_parameter(v, "profile") : NULL;
    if (v && name && !kn_name_is_valid(name, strlen(name)))
        kn_visit_refuse(v, 422, "parameter_invalid", "A parameter's value is not allowed", NULL, "query/profile");
    else if (v)
        kn_visit_send_measured(v, work_capabilities, NULL);
}

/* ---- settings ---- */

static bool show_settings(kn_visit *v, const kn_studio_settings *settings, kn_error *err) {
    snprintf(v->fields, sizeof v->fields, "ETag: \"%" PRId64 "\"\r\n", settings->version);
    v->json = kn_studio_settings_json(settings);
    return v->json || kn_fail_nomem(err, KN_SETTINGS_UI_BYTES);
}

static bool work_settings(kn_visit *v, kn_store *s, kn_error *err) {
    kn_studio_settings settings;
    if (!kn_studio_settings_load(s, &v->studio->own, &settings, err))
        return false;
    bool ok = show_settings(v, &settings, err);
    kn_studio_settings_free(&settings);
    return ok;
}

void kn_api_get_settings(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v)
        kn_visit_send(v, work_settings, NULL);
}

/* Reads an If-Match (RFC 9110, 13.1.1): any, or tags, of which a weak one is like no other. False: it is none. */
static bool read_tags(const char *at, const char *tag, bool *ret_named) {
    *ret_named = !strcmp(at, "*");
    for (bool more = !*ret_named; more;) {
        bool weak = !strncmp(at, "W/", 2);
        at += weak ? 2 : 0;
        size_t len = *at == '"' ? 1 + strcspn(at + 1, "\" \t") : 0;
        if (!len || at[len] != '"')
            return false;
        *ret_named = *ret_named || (!weak && len + 1 == strlen(tag) && !strncmp(at, tag, len + 1));
        at += len + 1;
        at += strspn(at, " \t");
        more = *at == ',';
        at += more ? 1 + strspn(at + 1, " \t") : 0;
    }
    return !*at || !strcmp(at, "*");
}

/* If-Match names the version that the client has seen. */
static bool is_current(kn_visit *v, const kn_studio_settings *settings) {
    char now[32];
    bool named;
    snprintf(now, sizeof now, "\"%" PRId64 "\"", settings->version);
    return !v->key[0] || (read_tags(v->key, now, &named) && named) ||
           kn_visit_deny(v, 412, "settings_changed", "Somebody else changed the settings", "read them again");
}

static bool deny_name(kn_visit *v, const char *where, const char *what, kn_error *err) {
    kn_buf_clear(&v->pointer);
    return kn_buf_add_text(&v->pointer, where)
               ? kn_visit_deny(v, 422, "member_invalid", "A member of the body is not as it should be", what)
               : kn_fail_nomem(err, strlen(where));
}

/* What is chosen now has to be there now. */
static bool check_names(kn_visit *v, kn_store *s, const kn_studio_settings *now, kn_error *err) {
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    kn_upscaler_list upscalers;
    kn_upscalers_find(now->model_directory, &upscalers);
    bool new_profile = strcmp(now->profile, p.settings.profile) != 0,
         new_upscaler = strcmp(now->upscaler, p.settings.upscaler) != 0, ok = kn_upscalers_recall(s, &upscalers, err);
    if (ok && new_profile && now->profile[0] && !kn_profiles_named(&p.models, now->profile))
        ok = deny_name(v, "/active_profile", "there is no such model profile", err);
    else if (ok && new_upscaler && !kn_upscaler_named(&upscalers, now->upscaler))
        ok = deny_name(v, "/upscaler", "there is no such upscaler; the capabilities list those that there are", err);
    kn_upscalers_free(&upscalers);
    kn_prepared_free(&p);
    return ok;
}

static bool work_change_settings(kn_visit *v, kn_store *s, kn_error *err) {
    kn_studio_settings settings;
    if (!kn_studio_settings_load(s, &v->studio->own, &settings, err))
        return false;
    bool ok = kn_studio_settings_patch(&settings, v->body.data, v->body.len, &v->pointer, err) ||
              kn_visit_deny(v, 422, "member_invalid", "A member of the body is not as it should be", NULL);
    ok = ok && is_current(v, &settings) && check_names(v, s, &settings, err) &&
         kn_studio_settings_save(s, &settings, err) && show_settings(v, &settings, err);
    kn_studio_settings_free(&settings);
    return ok;
}

static void after_change_settings(kn_visit *v) {
    kn_studio_tell(v->studio, KN_EVENT_SETTINGS_UPDATED, "", json_incref(v->json));
    kn_studio_tidy(v->studio); /* inputs may have to go sooner now */
    kn_visit_answer(v);
}

void kn_api_change_settings(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (!v || !kn_visit_has_json(v))
        return;
    bool given = kn_visit_has_field(v, "If-Match"), named,
         good = kn_visit_field(v, "If-Match", v->key, IF_MATCH_MAX + 1) && read_tags(v->key, "", &named);
    if (!good)
        v->key[0] = 0;
    if (given && !good) {
        kn_visit_refuse(v, 400, "header_invalid", "A header's value is not allowed", NULL, "header/If-Match");
        return;
    }
    kn_visit_send(v, work_change_settings, after_change_settings);
}

/* ---- engine ---- */

static void answer_engine(kn_visit *v, unsigned status) {
    v->status = status;
    v->json = kn_studio_engine_json(v->studio);
    kn_visit_answer(v);
}

void kn_api_engine(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v)
        answer_engine(v, 200);
}

static bool refuse_busy(kn_visit *v) {
    if (!kn_queue_is_busy(v->studio->queue))
        return false;
    kn_visit_refuse(v, 409, "engine_busy", "A job runs; cancel it, or wait for its end", NULL, NULL);
    return true;
}

static void set_rest(kn_visit *v, bool rests) {
    kn_queue_rest(v->studio->queue, rests);
    kn_studio_tell(v->studio, KN_EVENT_ENGINE_UPDATED, "", kn_studio_engine_json(v->studio));
}

void kn_api_engine_start(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (!v)
        return;
    set_rest(v, false);
    answer_engine(v, 202);
}

void kn_api_engine_restart(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (!v || refuse_busy(v))
        return;
    set_rest(v, true);
    set_rest(v, false);
    answer_engine(v, 202);
}

void kn_api_engine_stop(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (!v || refuse_busy(v))
        return;
    set_rest(v, true);
    answer_engine(v, 202);
}

/* ---- the end ---- */

static void has_stopped(void *ctx) {
    kn_studio *s = ctx;
    s->setup.leave(s->setup.ctx);
}

void kn_api_stop(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "mode");
    const char *mode = v ? kn_visit_parameter(v, "mode") : NULL;
    if (!v)
        return;
    if (mode && strcmp(mode, "drain") != 0 && strcmp(mode, "cancel") != 0) {
        kn_visit_refuse(v, 422, "parameter_invalid", "A parameter's value is not allowed", NULL, "query/mode");
        return;
    }
    if (!v->studio->setup.leave) {
        kn_visit_refuse(v, 409, "not_ours", "This service cannot be ended from here", NULL, NULL);
        return;
    }
    kn_exchange_reply(x, &(kn_reply){ .status = 202, .fields = "Cache-Control: no-store\r\n" });
    kn_studio_stop(v->studio, mode && !strcmp(mode, "cancel"), has_stopped, v->studio);
}

/* ---- diagnostics ---- */

static json_t *check(const char *id, const char *status, const char *message, const char *action) {
    return json_pack("{s:s, s:s, s:s, s:s?}", "id", id, "status", status, "message", message, "action", action);
}

static json_t *check_gallery(const kn_gallery_agreement *a, unsigned broken_records) {
    char message[160];
    if (a->differing) {
        snprintf(message, sizeof message, "Files differ from the index: %s of %s%u%s",
                 kn_counted(a->differing, "picture").text, a->whole ? "" : "the newest ", a->seen,
                 broken_records ? "; some records cannot be understood" : "");
        return check(
            "gallery", "warning", message,
            "Bring the files back, delete these pictures, or begin the service again if you edited JSON files");
    }
    if (broken_records)
        return check("gallery", "warning", "Some records of the gallery cannot be understood",
                     "Repair or remove their JSON files");
    if (a->whole)
        return check("gallery", "ok", "Files and index of the gallery agree", NULL);
    snprintf(message, sizeof message, "Files and index of the gallery's newest %u pictures agree", a->seen);
    return check("gallery", "ok", message, NULL);
}

static bool work_diagnostics(kn_visit *v, kn_store *s, kn_error *err) {
    kn_prepared p;
    kn_gallery_agreement gallery;
    if (!kn_gallery_compare(s, &gallery, err) || !kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_model_profile *active = kn_prepared_profile(&p, "");
    bool writable = kn_store_is_writable(s), room = kn_store_free_bytes(s) >= DISK_LOW;
    json_t *checks = json_array(), *speed = json_array();
    json_array_append_new(checks, writable ? check("data_dir", "ok", "The data directory can be written", NULL)
                                           : check("data_dir", "error", "The data directory cannot be written",
                                                   "Check its rights and the disk"));
    json_array_append_new(checks, room ? check("disk_space", "ok", "There is disk space", NULL)
                                       : check("disk_space", "warning", "Less than 1 GiB is free",
                                               "Delete pictures, or empty the gallery's .trash"));
    json_array_append_new(checks, v->studio->damaged
                                      ? check("database", "warning", "The database was damaged and has been begun anew",
                                              "The old one lies beside it; the gallery is complete")
                                      : check("database", "ok", "The database is intact", NULL));
    json_array_append_new(checks, check_gallery(&gallery, v->studio->broken_records));
    json_array_append_new(checks, !active ? check("model", "error", "No model is chosen",
                                                  "Activate a profile, or set default_model in models.toml")
                                  : kn_model_is_ready(active)
                                      ? check("model", "ok", "The active model's files are there", NULL)
                                      : check("model", "error", "A file of the active model is missing",
                                              "Choose another profile, or bring the file back"));
    bool ok = kn_speed_list(s, speed, err);
    v->json = json_pack("{s:s, s:o, s:[{s:s, s:n, s:n, s:n}], s:o}", "generated_at", kn_date_of(kn_date_now()).text,
                        "checks", checks, "devices", "name", v->studio->runner.device, "pci_address",
                        "memory_total_bytes", "planning_memory_bytes", "speed", speed);
    kn_prepared_free(&p);
    return ok && (v->json || kn_fail_nomem(err, sizeof p));
}

/* What is to be done is said of the first part that is missing. */
static json_t *check_isolation(kn_cage_gaps gaps, const char *obstacle) {
    char message[160];
    if (obstacle)
        return check("isolation", "error", obstacle, "Give it what is missing, or set isolation to best-effort");
    if (!gaps.known)
        return check("isolation", "skipped", "No image worker has been locked in yet", NULL);
    if (!gaps.parts)
        return check("isolation", "ok", "The image worker is locked in completely", NULL);
    snprintf(message, sizeof message, "The image worker is not locked in completely. It does without: %s",
             kn_cage_list_of(gaps.parts).text);
    return check("isolation", "warning", message, kn_cage_remedy(gaps.parts));
}

static void add_isolation(kn_visit *v) {
    const kn_studio_runner *r = &v->studio->runner;
    if (r->gaps)
        json_array_append_new(json_object_get(v->json, "checks"),
                              check_isolation(r->gaps(r->ctx), r->obstacle(r->ctx, false)));
}

static void add_recent(kn_visit *v) {
    json_t *recent = json_array();
    for (size_t i = 0; i < v->studio->recent_count; i++) {
        const kn_recent_error *e = &v->studio->recent[i];
        json_array_append_new(recent, json_pack("{s:s, s:s, s:s}", "at", kn_date_of(e->at_s).text, "code", e->code,
                                                "instance", e->instance));
    }
    json_object_set_new(v->json, "recent_errors", recent);
}

static void after_diagnostics(kn_visit *v) {
    add_isolation(v);
    add_recent(v);
    kn_visit_answer(v);
}

void kn_api_diagnostics(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v)
        kn_visit_send(v, work_diagnostics, after_diagnostics);
}

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void after_report(kn_visit *v) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, 64 << 10);
    add_isolation(v);
    add_recent(v);
    const json_t *checks = json_object_get(v->json, "checks"), *recent = json_object_get(v->json, "recent_errors");
    bool ok = kn_buf_printf(&text, "kuno %s, %s, engine %s\n\n", KN_VERSION, text_of(v->json, "generated_at"),
                            v->studio->runner.backend);
    for (size_t i = 0; ok && i < json_array_size(checks); i++) {
        const json_t *one = json_array_get(checks, i);
        ok = kn_buf_printf(&text, "%-8s %-12s %s\n", text_of(one, "status"), text_of(one, "id"),
                           text_of(one, "message"));
    }
    for (size_t i = 0; ok && i < json_array_size(recent); i++) {
        const json_t *one = json_array_get(recent, i);
        ok = kn_buf_printf(&text, "%s error %s\n", text_of(one, "at"), text_of(one, "code"));
    }
    kn_visit_send_bytes(v, "text/plain; charset=utf-8", text.data, text.len);
}

void kn_api_report(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v)
        kn_visit_send(v, work_diagnostics, after_report);
}
