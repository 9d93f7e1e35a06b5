#include "studio/prepare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/json_form.h"
#include "base/memory.h"

bool kn_prepare_machine(const kn_studio *s, kn_store *store, kn_prepared *ret, kn_error *err) {
    kn_error problem = { 0 };
    memset(ret, 0, sizeof *ret);
    if (!kn_studio_settings_load(store, &s->own, &ret->settings, err))
        return false;
    if (!kn_profiles_list(store, s->setup.models_toml, &ret->models, &problem, err)) {
        kn_studio_settings_free(&ret->settings);
        return false;
    }
    kn_upscalers_find(ret->settings.model_directory, &ret->upscalers);
    if (kn_upscalers_recall(store, &ret->upscalers, err))
        return true;
    kn_prepared_free(ret);
    return false;
}

void kn_prepared_free(kn_prepared *p) {
    kn_request_free(&p->request);
    kn_studio_settings_free(&p->settings);
    kn_profiles_list_free(&p->models);
    kn_upscalers_free(&p->upscalers);
}

const kn_model_profile *kn_prepared_profile(const kn_prepared *p, const char *name) {
    if (name[0])
        return kn_profiles_named(&p->models, name);
    const kn_model_profile *activated = kn_profiles_named(&p->models, p->settings.profile);
    return activated ? activated : kn_profiles_named(&p->models, p->models.usual);
}

const char *kn_prepared_lacks(const char *name) {
    return name[0] ? "there is no such model profile"
                   : "no model is chosen; name a profile, activate one, or set default_model in models.toml";
}

const kn_model_profile *kn_prepared_any(const kn_prepared *p) {
    const kn_model_profile *active = kn_prepared_profile(p, "");
    return active || !p->models.count ? active : &p->models.profiles[0];
}

static bool point_at(kn_buf *pointer, kn_error *err, kn_code code, const char *where, const char *what) {
    kn_buf_clear(pointer);
    return kn_buf_add_text(pointer, where) ? kn_fail(err, code, "%s", what) : kn_fail_nomem(err, strlen(where));
}

static bool find_inputs(kn_store *store, const kn_studio_request *r, kn_plan_setting *with, kn_buf *pointer,
                        kn_error *err) {
    for (size_t i = 0; i < r->input_count; i++) {
        kn_plan_input *to = &with->inputs[with->input_count++];
        kn_input input;
        kn_error why = { 0 };
        char where[64];
        snprintf(where, sizeof where, r->kind == KN_KIND_UPSCALE ? "/input_id" : "/inputs/%zu/input_id", i);
        if (!kn_inputs_find(store, r->inputs[i].id, &input, &why))
            return why.code == KN_E_NOT_FOUND ? point_at(pointer, err, why.code, where, why.text)
                                              : kn_fail(err, why.code, "%s", why.text);
        memcpy(to->id, r->inputs[i].id, sizeof to->id);
        to->role = r->inputs[i].role;
        to->width = input.facts.width;
        to->height = input.facts.height;
        to->has_gain_map = input.facts.has_gain_map;
        to->has_damaged_map = input.facts.has_damaged_map;
        to->mask_lacks = input.facts.mask_lacks;
        const char *profile = input.facts.icc_profile.text;
        to->has_other_colours = profile[0] && !kn_icc_is_srgb(profile);
    }
    if (!r->gallery_item[0])
        return true;
    kn_record record;
    kn_error why = { 0 };
    if (!kn_gallery_find(store, r->gallery_item, &record, &why))
        return why.code == KN_E_NOT_FOUND ? point_at(pointer, err, why.code, "/gallery_item", why.text)
                                          : kn_fail(err, why.code, "%s", why.text);
    with->inputs[0] = (kn_plan_input){ .role = KN_INPUT_SOURCE, .width = record.width, .height = record.height };
    with->input_count = 1;
    kn_record_free(&record);
    return true;
}

/* What the engine would only say when the job runs. A tokenizer that cannot be read it will tell by itself. */
static void see_prompts(const kn_model_profile *profile, kn_prepared *p) {
    const char *const prompts[] = { p->request.prompt, p->plan.guided ? p->request.negative_prompt : NULL };
    uint32_t sides[KN_REQUEST_INPUTS];
    kn_studio_plan *plan = &p->plan;
    for (size_t i = 0; i < plan->reference_count; i++)
        sides[i] = KN_MAX(plan->references[i].width, plan->references[i].height);
    for (size_t i = 0; i < KN_COUNT(prompts); i++) {
        kn_error why = { 0 };
        if (!prompts[i] || kn_model_has_room(profile, prompts[i], sides, plan->reference_count, &why))
            continue;
        if (why.code == KN_E_RANGE)
            kn_plan_block(plan, "prompt_too_long", "A prompt has more tokens than the model takes; shorten it");
    }
}

static bool plan(const kn_studio *s, kn_store *store, const kn_plan_wish *wish, kn_prepared *p, kn_buf *pointer,
                 kn_error *err) {
    const kn_speed_key key = { s->runner.backend, s->runner.device, "staged" };
    kn_plan_setting with = {
        .settings = &p->settings, .upscalers = &p->upscalers, .kinds = s->runner.kinds, .resizes = s->runner.resizes
    };
    if (wish)
        with.wish = *wish;
    with.memory_bytes = kn_memory_available();
    with.profile = p->request.kind == KN_KIND_UPSCALE ? kn_prepared_any(p) : kn_prepared_profile(p, p->request.profile);
    if (!with.profile)
        return point_at(pointer, err, KN_E_NOT_FOUND, "/profile", kn_prepared_lacks(p->request.profile));
    if (!(s->runner.formats >> p->request.output.format & 1))
        return point_at(pointer, err, KN_E_UNSUPPORTED, "/output/format", "pictures are not written in this format");
    if (!find_inputs(store, &p->request, &with, pointer, err) || !kn_speed_find(store, &key, &with.speed, err) ||
        !kn_plan_request(&p->request, &with, &p->plan, pointer, err))
        return false;
    if (p->plan.kind != KN_KIND_UPSCALE)
        see_prompts(with.profile, p);
    return true;
}

bool kn_prepare(const kn_studio *s, kn_store *store, const char *text, size_t len, bool upscale,
                const kn_plan_wish *wish, kn_prepared *ret, kn_buf *pointer, kn_error *err) {
    if (!kn_prepare_machine(s, store, ret, err))
        return false;
    if (kn_request_read(text, len, upscale, &ret->request, pointer, err) && plan(s, store, wish, ret, pointer, err))
        return true;
    kn_prepared_free(ret);
    return false;
}

enum { WISH_STEPS, WISH_CFG, WISH_STRENGTH };
static const char *const wish_keys[] = { [WISH_STEPS] = "steps", [WISH_CFG] = "cfg", [WISH_STRENGTH] = "strength" };

char *kn_plan_wish_text(const kn_plan_wish *w) {
    const kn_optional *const values[] = {
        [WISH_STEPS] = &w->steps, [WISH_CFG] = &w->cfg, [WISH_STRENGTH] = &w->strength
    };
    json_t *j = json_object();
    for (size_t i = 0; i < KN_COUNT(values); i++)
        if (values[i]->given)
            json_object_set_new(j, wish_keys[i], json_real(values[i]->value));
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    return text;
}

bool kn_plan_wish_read(const char *text, kn_plan_wish *ret, kn_error *err) {
    kn_optional *const values[] = {
        [WISH_STEPS] = &ret->steps, [WISH_CFG] = &ret->cfg, [WISH_STRENGTH] = &ret->strength
    };
    kn_json_reader j;
    kn_form f;
    *ret = (kn_plan_wish){ 0 };
    kn_json_begin_inside(&j, (kn_json_text){ text, strlen(text) }, "the wish", err);
    kn_form_open(&f, &j, NULL, wish_keys, KN_COUNT(wish_keys));
    for (int key; kn_form_next(&f, &key);)
        values[key]->given = kn_form_real(&f, -1e6, 1e6, &values[key]->value);
    return kn_form_finish(&f);
}

char *kn_prepared_seeds(const kn_prepared *p) {
    const kn_studio_request *r = &p->request;
    uint64_t seed = r->seed;
    json_t *list = json_array();
    /* So small that those of a batch, too, are whole numbers below 2^53 to programs that read them as such. */
    bool ok = list && (r->has_seed || getrandom(&seed, sizeof seed, 0) == sizeof seed);
    seed = r->has_seed ? seed : seed >> 12;
    for (uint64_t i = 0; ok && r->kind != KN_KIND_UPSCALE && i < r->batch; i++) {
        char digits[24];
        snprintf(digits, sizeof digits, "%" PRIu64, seed + i);
        ok = json_array_append_new(list, json_string(digits)) == 0;
    }
    char *text = ok ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    return text;
}
