/* stable-diffusion.cpp's native API, /sdcpp/v1: pictures as jobs that are asked for again until they are there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "studio/compat/compat.h"
#include "studio/prepare.h"
#include "workers/recipe.h"

enum { SIDE_LEAST = 64 };

void kn_sdcpp_refuse(kn_exchange *x, const kn_problem *p) {
    const char *detail = p->detail ? p->detail : p->title;
    bool broken = !strcmp(p->code, "json_invalid");
    json_t *error =
        json_pack("{s:s, s:s*}", "error", broken ? "invalid json" : detail, "message", broken ? detail : NULL);
    kn_compat_refuse(x, p, p->status == 422 ? 400 : p->status, error, "");
}

/* ---- what is ordered ---- */

/* A side in pixels; anything below 1 leaves it to us. */
static void take_side(kn_form *f, uint32_t *ret) {
    double below;
    if (kn_json_peek(f->j) == '-')
        kn_form_real(f, -1e9, 0, &below);
    else
        kn_order_take_side(f, ret);
}

static void take_count(kn_form *f, kn_order *o) {
    double count;
    if (kn_form_real(f, -1e9, 1e9, &count))
        o->count = (uint64_t)fmin(fmax(count, 1), KN_REQUEST_BATCH);
}

static void take_pictures(kn_form *f, kn_order *o) {
    for (bool in = kn_form_items(f); in && kn_form_item(f);)
        kn_order_take_picture(f, o, KN_INPUT_REFERENCE);
}

/* What would change the picture and cannot be done is refused; an empty list of it means nothing. */
static void refuse_list(kn_form *f, const char *what) {
    bool any = false;
    for (bool in = kn_form_items(f); in && kn_form_item(f); any = true)
        kn_json_skip(f->j, NULL);
    if (any)
        kn_form_fail(f, KN_E_UNSUPPORTED, "%s cannot be used here", what);
}

static void take_guidance(const kn_form *outer, kn_order *o) {
    static const char *const keys[] = { "txt_cfg" };
    kn_form f;
    kn_form_open(&f, outer->j, outer, keys, KN_COUNT(keys));
    f.tolerant = true;
    for (int key; kn_form_next(&f, &key);)
        if (!kn_form_null(&f))
            o->wish.cfg.given = kn_form_real(&f, 0, 1e6, &o->wish.cfg.value);
}

static void take_sampling(const kn_form *outer, kn_order *o) {
    enum { METHOD, STEPS, GUIDANCE, SIGMAS };
    static const char *const keys[] = {
        [METHOD] = "sample_method", [STEPS] = "sample_steps", [GUIDANCE] = "guidance", [SIGMAS] = "custom_sigmas"
    };
    kn_form f;
    kn_form_open(&f, outer->j, outer, keys, KN_COUNT(keys));
    f.tolerant = true;
    for (int key; kn_form_next(&f, &key);) {
        if (kn_form_null(&f))
            continue;
        switch (key) {
        case METHOD: kn_order_take_sampler(&f, o); break;
        case STEPS: kn_order_take_number(&f, -1e6, &o->wish.steps); break;
        case GUIDANCE: take_guidance(&f, o); break;
        case SIGMAS: refuse_list(&f, "a schedule of one's own"); break;
        }
    }
}

static void take_high_res(const kn_form *outer) {
    static const char *const keys[] = { "enabled" };
    kn_form f;
    bool enabled = false;
    kn_form_open(&f, outer->j, outer, keys, KN_COUNT(keys));
    f.tolerant = true;
    for (int key; kn_form_next(&f, &key);)
        if (!kn_form_null(&f) && kn_form_bool(&f, &enabled) && enabled)
            kn_form_fail(&f, KN_E_UNSUPPORTED, "a second pass at a higher resolution is not possible here");
}

enum {
    PROMPT,
    NEGATIVE,
    WIDTH,
    HEIGHT,
    SEED,
    COUNT,
    STRENGTH,
    INIT,
    MASK,
    REFERENCES,
    CONTROL,
    ADAPTER,
    LORA,
    SAMPLING,
    HIGH_RES,
    FORMAT,
    COMPRESSION,
    EMBED
};
static const char *const keys[] = {
    [PROMPT] = "prompt",
    [NEGATIVE] = "negative_prompt",
    [WIDTH] = "width",
    [HEIGHT] = "height",
    [SEED] = "seed",
    [COUNT] = "batch_count",
    [STRENGTH] = "strength",
    [INIT] = "init_image",
    [MASK] = "mask_image",
    [REFERENCES] = "ref_images",
    [CONTROL] = "control_image",
    [ADAPTER] = "ip_adapter_image",
    [LORA] = "lora",
    [SAMPLING] = "sample_params",
    [HIGH_RES] = "hires",
    [FORMAT] = "output_format",
    [COMPRESSION] = "output_compression",
    [EMBED] = "embed_image_metadata",
};

static void take_member(kn_form *f, int key, kn_order *o) {
    bool embed = true;
    switch (key) {
    case PROMPT: kn_order_take_text(f, &o->prompt); break;
    case NEGATIVE: kn_order_take_text(f, &o->negative_prompt); break;
    case WIDTH: take_side(f, &o->width); break;
    case HEIGHT: take_side(f, &o->height); break;
    case SEED: kn_order_take_seed(f, o); break;
    case COUNT: take_count(f, o); break;
    case STRENGTH: o->wish.strength.given = kn_form_real(f, 0, 1, &o->wish.strength.value); break;
    case INIT: kn_order_take_picture(f, o, KN_INPUT_SOURCE); break;
    case MASK: kn_order_take_picture(f, o, KN_INPUT_MASK); break;
    case REFERENCES: take_pictures(f, o); break;
    case CONTROL:
    case ADAPTER: kn_form_fail(f, KN_E_UNSUPPORTED, "no model here uses such a picture"); break;
    case LORA: refuse_list(f, "a LoRA"); break;
    case SAMPLING: take_sampling(f, o); break;
    case HIGH_RES: take_high_res(f); break;
    case FORMAT: kn_order_take_format(f, o); break;
    case COMPRESSION: kn_form_u64(f, 0, 100, &o->quality); break;
    case EMBED:
        kn_form_bool(f, &embed);
        o->plain = !embed;
        break;
    }
}

bool kn_sdcpp_read(kn_visit *v, kn_order *o, kn_error *err) {
    kn_json_reader j;
    kn_form f;
    kn_order_open(&f, &j, v, (kn_json_text){ v->body.data, v->body.len }, keys, KN_COUNT(keys), err);
    for (int key; kn_form_next(&f, &key);)
        if (!kn_form_null(&f))
            take_member(&f, key, o);
    kn_order_need(&f, PROMPT, o->prompt);
    if (!o->wish.strength.given)
        o->wish.strength = (kn_optional){ true, KN_ORDER_STRENGTH };
    if (!o->width || !o->height)
        o->width = o->height = KN_MAX(o->width, o->height);
    return kn_form_finish(&f);
}

/* ---- a job in their words ---- */

static const char *status_of(const json_t *job) {
    const char *state = json_string_value(json_object_get(job, "state"));
    return state && strcmp(state, "running") != 0 ? state : "generating";
}

static json_t *time_of(const json_t *job, const char *name) {
    const char *text = json_string_value(json_object_get(job, name));
    int64_t seconds = 0;
    return text && kn_date_parse(text, strlen(text), &seconds) ? json_integer(seconds) : json_null();
}

static json_t *error_of(const json_t *job) {
    const char *status = status_of(job);
    const char *message = json_string_value(json_object_get(json_object_get(job, "error"), "message"));
    if (!strcmp(status, "cancelled"))
        return json_pack("{s:s, s:s}", "code", "cancelled", "message", "job cancelled by client");
    if (!strcmp(status, "failed"))
        return json_pack("{s:s, s:s}", "code", "generation_failed", "message", message ? message : "");
    return json_null();
}

/* All but its result. */
static json_t *job_json(const json_t *job) {
    json_t *position = json_object_get(job, "queue_position");
    return json_pack("{s:O, s:s, s:s, s:o, s:o, s:o, s:I, s:o}", "id", json_object_get(job, "id"), "kind", "img_gen",
                     "status", status_of(job), "created", time_of(job, "created_at"), "started",
                     time_of(job, "started_at"), "completed", time_of(job, "finished_at"), "queue_position",
                     json_integer_value(position), "error", error_of(job));
}

static const char *format_of(const json_t *job) {
    const json_t *output = json_object_get(json_object_get(job, "request"), "output");
    const char *format = json_string_value(json_object_get(output, "format"));
    return format ? format : kn_picture_formats[KN_PICTURE_PNG];
}

/* Pictures that somebody has deleted since are left out. */
static bool add_result(kn_visit *v, kn_store *s, const json_t *job, kn_buf *into, kn_error *err) {
    bool ok = kn_buf_printf(into, "{\"output_format\":\"%s\",\"images\":[", format_of(job)), any = false;
    for (size_t i = 0; ok && i < kn_compat_results(job); i++) {
        kn_error why = { 0 };
        size_t before = into->len;
        ok = kn_buf_printf(into, "%s{\"index\":%zu,\"b64_json\":", any ? "," : "", i);
        if (ok && kn_compat_add_picture(s, v->part[1], (unsigned)i, into, &why)) {
            ok = kn_buf_add_text(into, "}");
            any = true;
        } else if (why.code == KN_E_NOT_FOUND) {
            into->len = before;
            into->data[before] = 0;
        } else {
            return kn_fail(err, why.code ? why.code : KN_E_NOMEM, "%s", why.text);
        }
    }
    return (ok && kn_buf_add_text(into, "]}")) || kn_fail_nomem(err, into->len);
}

static bool write_job(kn_visit *v, kn_store *s, kn_error *err) {
    bool completed = !strcmp(status_of(v->json), "completed");
    kn_buf_free(&v->body);
    kn_buf_init(&v->body, KN_COMPAT_ANSWER_MAX);
    if (!kn_compat_add_json(&v->body, job_json(v->json), err))
        return false;
    v->body.data[--v->body.len] = 0; /* without its last brace */
    return (kn_buf_add_text(&v->body, ",\"result\":") || kn_fail_nomem(err, 1)) &&
           (completed ? add_result(v, s, v->json, &v->body, err)
                      : kn_buf_add_text(&v->body, "null") || kn_fail_nomem(err, 1)) &&
           (kn_buf_add_text(&v->body, "}") || kn_fail_nomem(err, 1));
}

static void send_job(kn_visit *v) {
    static const char fields[] = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
    if (v->x)
        kn_exchange_reply(v->x, &(kn_reply){ .status = v->status ? v->status : 200,
                                             .type = "application/json",
                                             .fields = fields,
                                             .body = v->body.data,
                                             .len = v->body.len });
}

/* ---- routes ---- */

static void accepted(kn_visit *v) {
    char url[KN_API_PART_BYTES + 32];
    json_t *job = v->json;
    snprintf(url, sizeof url, "/sdcpp/v1/jobs/%s", v->part[1]);
    v->json = json_pack("{s:s, s:s, s:s, s:o, s:s}", "id", v->part[1], "kind", "img_gen", "status", "queued", "created",
                        time_of(job, "created_at"), "poll_url", url);
    v->fields[0] = 0;
    v->status = 202;
    json_decref(job);
    kn_visit_answer(v);
}

void kn_sdcpp_draw(kn_exchange *x, kn_span body) {
    static const kn_compat_way way = { .read = kn_sdcpp_read, .accepted = accepted };
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_compat_order(v, &way);
}

/* No model here makes films, as capabilities say. */
static bool work_no_film(kn_visit *v, kn_store *s, kn_error *err) {
    (void)s, (void)err;
    return kn_visit_check_json(v) &&
           kn_visit_deny(v, 400, "mode_unsupported", "Videos are not possible here; img_gen makes pictures", NULL);
}

void kn_sdcpp_vid_gen(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_visit_send(v, work_no_film, NULL);
}

static bool work_job(kn_visit *v, kn_store *s, kn_error *err) {
    return kn_visit_show_job(v, s, v->part[1], err) && write_job(v, s, err);
}

/* One of the studio's identifiers, or there is no such job. */
static bool has_job(kn_visit *v) {
    if (!kn_compat_part(v, 3, v->part[1], sizeof v->part[1]))
        v->part[1][0] = 0;
    return kn_visit_has_id(v, 1, "job_");
}

void kn_sdcpp_job(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v && has_job(v))
        kn_visit_send(v, work_job, send_job);
}

static bool work_cancel(kn_visit *v, kn_store *s, kn_error *err) {
    return kn_visit_cancel_job(v, s, err) && write_job(v, s, err);
}

static void after_cancel(kn_visit *v) {
    kn_visit_tell_cancelled(v);
    send_job(v);
}

void kn_sdcpp_cancel(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v && has_job(v))
        kn_visit_send(v, work_cancel, after_cancel);
}

/* ---- capabilities ---- */

static json_t *features_json(const kn_model_profile *m, unsigned kinds) {
    const kn_model_limits can = kn_model_limits_of(m, kinds);
    bool edits = can.kinds >> KN_KIND_EDIT & 1, masks = can.kinds >> KN_KIND_INPAINT & 1;
    bool starts = edits || can.takes_start;
    return json_pack("{s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b}", "init_image", starts, "mask_image",
                     masks, "control_image", 0, "ip_adapter_image", 0, "ref_images", edits, "lora", 0, "vae_tiling", 0,
                     "hires", 0, "cache", 0, "cancel_queued", 1, "cancel_generating", 1);
}

static json_t *defaults_json(const kn_model_profile *m) {
    int steps = (int)kn_preset_of(KN_PRESET_FAST, m).steps;
    json_t *cfg = m->cfg.given ? json_real(m->cfg.value) : json_null();
    return json_pack("{s:s, s:s, s:I, s:I, s:i, s:i, s:s, s:{s:s, s:s, s:i, s:{s:o}}}", "prompt", "", "negative_prompt",
                     "", "width", (json_int_t)m->width, "height", (json_int_t)m->height, "seed", -1, "batch_count", 1,
                     "output_format", "png", "sample_params", "sample_method", m->sampler[0] ? m->sampler : "default",
                     "scheduler", "default", "sample_steps", steps, "guidance", "txt_cfg", cfg);
}

static json_t *upscalers_json(const kn_upscaler_list *l) {
    json_t *list = json_pack("[{s:s, s:b, s:b}]", "name", "None", "model", 0, "image_upscale", 0);
    for (size_t i = 0; i < l->count; i++) {
        const kn_upscale_choice *u = &l->items[i];
        if (kn_upscaler_is_usable(u))
            json_array_append_new(list, json_pack("{s:s, s:b, s:b}", "name", u->id, "model", u->file != NULL,
                                                  "image_upscale", u->factor > 1));
    }
    return list;
}

static json_t *capabilities_json(const kn_studio *s, const kn_model_profile *m, const kn_upscaler_list *upscalers) {
    json_t *formats = kn_api_formats(s), *features = features_json(m, s->runner.kinds), *defaults = defaults_json(m);
    json_t *names = upscalers_json(upscalers);
    json_t *all = json_pack(
        "{s:{s:s, s:s, s:s}, s:s, s:[s], s:{s:O}, s:{s:O}, s:{s:O}, s:o, s:o, s:o, s:o, s:o, s:[], s:o, s:b}", "model",
        "name", m->name, "stem", m->name, "path", m->name, "current_mode", "img_gen", "supported_modes", "img_gen",
        "defaults_by_mode", "img_gen", defaults, "output_formats_by_mode", "img_gen", formats, "features_by_mode",
        "img_gen", features, "defaults", defaults, "output_formats", formats, "features", features, "samplers",
        kn_compat_samplers(), "schedulers", kn_compat_schedulers(), "loras", "upscalers", names, "upscale", 1);
    if (all)
        json_object_set_new(all, "limits",
                            json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "max_upscale_width",
                                      KN_RECIPE_RESULT_MAX, "max_upscale_height", KN_RECIPE_RESULT_MAX, "min_width",
                                      SIDE_LEAST, "max_width", KN_PICTURE_SIDE_MAX, "min_height", SIDE_LEAST,
                                      "max_height", KN_PICTURE_SIDE_MAX, "max_batch_count", KN_REQUEST_BATCH,
                                      "max_queue_size", KN_JOBS_QUEUE_LIMIT));
    return all;
}

static bool work_capabilities(kn_visit *v, kn_store *s, kn_error *err) {
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_model_profile *m = kn_prepared_any(&p);
    bool found = m;
    v->json = found ? capabilities_json(v->studio, m, &p.upscalers) : NULL;
    kn_prepared_free(&p);
    if (!found)
        return kn_fail(err, KN_E_NOT_FOUND, "%s", kn_prepared_lacks(""));
    return v->json || kn_fail_nomem(err, sizeof p);
}

void kn_sdcpp_capabilities(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_visit_send_measured(v, work_capabilities, NULL);
}
