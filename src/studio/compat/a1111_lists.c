/* What A1111's clients ask for before they order: names of models, samplers and the rest. */
#include <stdio.h>
#include <string.h>

#include "sampling/sampler.h"
#include "sampling/schedule.h"
#include "studio/compat/compat.h"
#include "studio/prepare.h"

json_t *kn_compat_samplers(void) {
    json_t *list = json_array();
    for (int i = 0; i < KN_SAMPLER_COUNT; i++)
        json_array_append_new(list, json_string(kn_samplers[i].name.name));
    return list;
}

json_t *kn_compat_schedulers(void) {
    json_t *list = json_array();
    for (int i = 0; i < KN_SCHEDULE_COUNT; i++)
        json_array_append_new(list, json_string(kn_schedules[i].name));
    return list;
}

static void answer(kn_exchange *x, kn_span body, json_t *json) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (!v) {
        json_decref(json);
        return;
    }
    v->json = json;
    kn_visit_answer(v);
}

void kn_a1111_samplers(kn_exchange *x, kn_span body) {
    json_t *list = json_array();
    for (int i = 0; i < KN_SAMPLER_COUNT; i++) {
        const kn_name *n = &kn_samplers[i].name;
        json_t *aliases = json_array();
        for (size_t k = 0; k < KN_COUNT(n->aliases) && n->aliases[k]; k++)
            json_array_append_new(aliases, json_string(n->aliases[k]));
        json_array_append_new(list, json_pack("{s:s, s:o, s:{}}", "name", n->name, "aliases", aliases, "options"));
    }
    answer(x, body, list);
}

/* Each model has a way of its own to space the noise levels, and only that is used here. */
void kn_a1111_schedulers(kn_exchange *x, kn_span body) {
    answer(x, body, json_pack("[{s:s, s:s}]", "name", "default", "label", "Default"));
}

static json_t *upscaler_json(const char *name, uint32_t scale) {
    return json_pack("{s:s, s:n, s:n, s:n, s:i}", "name", name, "model_name", "model_path", "model_url", "scale",
                     (int)scale);
}

/* Where there is no network's own scale, that which A1111 says then. */
static bool work_upscalers(kn_visit *v, kn_store *s, kn_error *err) {
    enum { USUAL_SCALE = 4 };
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    v->json = json_array();
    json_array_append_new(v->json, upscaler_json("None", USUAL_SCALE));
    for (size_t i = 0; i < p.upscalers.count; i++) {
        const kn_upscale_choice *u = &p.upscalers.items[i];
        const char *name = u->file ? u->id : "Lanczos";
        if (kn_upscaler_is_usable(u))
            json_array_append_new(v->json, upscaler_json(name, u->factor ? u->factor : USUAL_SCALE));
    }
    kn_prepared_free(&p);
    return v->json || kn_fail_nomem(err, sizeof p);
}

void kn_a1111_upscalers(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_visit_send_measured(v, work_upscalers, NULL);
}

void kn_a1111_upscale_modes(kn_exchange *x, kn_span body) {
    answer(x, body, json_pack("[{s:s}]", "name", "None"));
}

void kn_a1111_nothing(kn_exchange *x, kn_span body) {
    answer(x, body, json_array());
}

void kn_a1111_embeddings(kn_exchange *x, kn_span body) {
    answer(x, body, json_pack("{s:{}, s:{}}", "loaded", "skipped"));
}

/* ---- models ---- */

static bool work_models(kn_visit *v, kn_store *s, kn_error *err) {
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    v->json = json_array();
    for (size_t i = 0; i < p.models.count; i++) {
        const char *name = p.models.profiles[i].name;
        json_array_append_new(v->json, json_pack("{s:s, s:s, s:n, s:n, s:s, s:n}", "title", name, "model_name", name,
                                                 "hash", "sha256", "filename", name, "config"));
    }
    kn_prepared_free(&p);
    return v->json || kn_fail_nomem(err, sizeof p);
}

void kn_a1111_models(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_visit_send(v, work_models, NULL);
}

static bool work_options(kn_visit *v, kn_store *s, kn_error *err) {
    kn_prepared p;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_model_profile *active = kn_prepared_profile(&p, "");
    v->json = json_pack("{s:s, s:s, s:s, s:i}", "samples_format", "png", "sd_model_checkpoint",
                        active ? active->name : "", "sd_vae", "Automatic", "CLIP_stop_at_last_layers", 1);
    kn_prepared_free(&p);
    return v->json || kn_fail_nomem(err, sizeof p);
}

void kn_a1111_options(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v)
        kn_visit_send(v, work_options, NULL);
}

/* ---- another model ---- */

static bool read_options(kn_visit *v, kn_order *o, kn_error *err) {
    enum { CHECKPOINT, FORMAT };
    static const char *const keys[] = { [CHECKPOINT] = "sd_model_checkpoint", [FORMAT] = "samples_format" };
    kn_json_reader j;
    kn_form f;
    kn_order_open(&f, &j, v, (kn_json_text){ v->body.data, v->body.len }, keys, KN_COUNT(keys), err);
    for (int key; kn_form_next(&f, &key);) {
        if (kn_form_null(&f))
            continue;
        if (key == CHECKPOINT)
            kn_order_take_profile(&f, o);
        else
            kn_order_take_format(&f, o);
    }
    return kn_form_finish(&f);
}

/* The studio's settings are its owner's: a client finds its model there already, or is told to choose it there. */
static bool work_set_options(kn_visit *v, kn_store *s, kn_error *err) {
    kn_order o;
    kn_prepared p;
    kn_order_init(&o);
    if (!read_options(v, &o, err))
        return kn_visit_deny(v, 400, err->code == KN_E_NOT_FOUND ? "model_unknown" : "option_invalid",
                             "An option is not as it should be", NULL);
    if (o.format != KN_PICTURE_PNG)
        return kn_visit_deny(v, 400, "option_fixed", "Pictures are PNG files unless an order says something else",
                             "override_settings of an order may have samples_format");
    if (!o.profile[0])
        return true;
    if (!kn_prepare_machine(v->studio, s, &p, err))
        return false;
    const kn_model_profile *wanted = kn_profiles_named(&p.models, o.profile), *active = kn_prepared_profile(&p, "");
    bool there = wanted, same = wanted == active;
    kn_prepared_free(&p);
    if (there && same)
        return true;
    kn_fail(err, KN_E_USAGE, "%s",
            there ? "the studio's settings say which model is used; orders may name another"
                  : "there is no such model");
    return kn_visit_deny(v, 400, there ? "model_fixed" : "model_unknown", "The model stays as it is", NULL);
}

static void after_set_options(kn_visit *v) {
    static const char nothing[] = "null";
    kn_visit_send_bytes(v, "application/json", nothing, sizeof nothing - 1);
}

void kn_a1111_set_options(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (v && kn_visit_has_json(v))
        kn_visit_send(v, work_set_options, after_set_options);
}
