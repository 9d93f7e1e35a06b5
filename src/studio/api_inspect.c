/* POST /api/v1/recipes/inspect: how a picture was made. One of this gallery is known by its bytes, of others the image
 * worker says what is in their files; nothing of a client's picture is taken apart in this process. */
#include <stdlib.h>
#include <string.h>

#include "image/image.h"
#include "studio/api_visit.h"
#include "studio/prepare.h"

/* ---- of this gallery ---- */

/* What of a recipe is a request that can be made again. */
static json_t *request_of(const json_t *recipe) {
    static const char *const planned[] = { "steps", "guidance", "working_width", "working_height" };
    if (!json_object_get(recipe, "prompt"))
        return json_null();
    json_t *request = json_copy((json_t *)(uintptr_t)recipe);
    for (size_t i = 0; i < KN_COUNT(planned); i++)
        json_object_del(request, planned[i]);
    json_object_set_new(request, "batch", json_integer(1)); /* this one picture, by its seed */
    return request;
}

/* flag: it is known. */
static bool work_known(kn_visit *v, kn_store *s, kn_error *err) {
    kn_sha256 digest;
    json_t *recipe = NULL;
    if (!kn_sha256_of(v->body.data, v->body.len, &digest, err) || !kn_gallery_recipe(s, &digest, &recipe, err))
        return false;
    v->flag = recipe != NULL;
    if (!recipe)
        return true;
    v->json = json_pack("{s:s, s:o, s:O, s:I, s:[], s:[]}", "source", "kuno", "recipe", request_of(recipe), "raw",
                        recipe, "references_needed", (json_int_t)json_array_size(json_object_get(recipe, "inputs")),
                        "unsupported", "notes");
    json_decref(recipe);
    return v->json || kn_fail_nomem(err, KN_RECORD_BYTES);
}

/* ---- of others ---- */

static void add_note(json_t *list, const char *word, const char *sentence, const char *severity) {
    char code[64];
    size_t len = strnlen(word, sizeof code - 1);
    for (size_t i = 0; i < len; i++)
        code[i] = word[i] == '-' ? '_' : word[i];
    code[len] = 0;
    json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "code", code, "message", sentence, "severity", severity));
}

static const char *text_at(const json_t *found, const char *key) {
    const char *text = json_string_value(json_object_get(found, key));
    return text ? text : "";
}

/* The profile that a picture of ours names, or the first one that can draw a workflow. NULL: there is none. */
static const char *profile_for(const json_t *found, const kn_model_list *list) {
    const char *model = text_at(found, "model");
    const kn_model_profile *p = *model
                                    ? kn_profiles_named(list, model)
                                    : kn_profiles_of(list, text_at(found, "architecture"), text_at(found, "variant"));
    return p ? p->name : NULL;
}

/* A job takes what it says, as far as jobs can be told; `notes` gets what they cannot. */
static json_t *request_for(const json_t *found, const char *profile, json_t *notes) {
    uint64_t seed = 0;
    const char *digits = text_at(found, "seed"), *negative = text_at(found, "negative_prompt");
    bool sized =
        json_integer_value(json_object_get(found, "width")) && json_integer_value(json_object_get(found, "height"));
    bool edits = json_integer_value(json_object_get(found, "reference_count")) > 0;
    json_t *size = sized ? json_pack("{s:s, s:O, s:O}", "mode", "custom", "width", json_object_get(found, "width"),
                                     "height", json_object_get(found, "height"))
                         : NULL;
    if (json_is_number(json_object_get(found, "steps")) || json_is_number(json_object_get(found, "cfg")))
        add_note(notes, "steps_by_model",
                 "steps, guidance and schedule of a job are its model's; `raw` has the picture's", "info");
    return json_pack("{s:s, s:s, s:s*, s:s*, s:s*, s:o*}", "kind", edits ? "edit" : "auto", "prompt",
                     text_at(found, "prompt"), "negative_prompt", *negative ? negative : NULL, "seed",
                     kn_seed_parse(digits, strlen(digits), &seed) ? digits : NULL, "profile", profile, "size", size);
}

/* One that a client can send as it is, but for the pictures. */
static json_t *checked_request(const json_t *found, const char *profile, json_t *notes, json_t *unsupported) {
    KN_AUTO_BUF pointer;
    kn_studio_request read = { 0 };
    kn_error why = { 0 };
    json_t *request = request_for(found, profile, notes);
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    kn_buf_init(&pointer, 1000);
    bool ok = text && kn_request_read(text, strlen(text), false, &read, &pointer, &why);
    free(text);
    if (ok) {
        kn_request_free(&read);
        return request;
    }
    json_decref(request);
    add_note(unsupported, "request_impossible", why.text, "error");
    return json_null();
}

static void tell_notes(const json_t *found, json_t *notes) {
    const json_t *words = json_object_get(found, "warnings"), *sentences = json_object_get(found, "notes");
    for (size_t i = 0; i < json_array_size(words) && i < json_array_size(sentences); i++) {
        const char *word = json_string_value(json_array_get(words, i));
        const char *sentence = json_string_value(json_array_get(sentences, i));
        if (word && sentence)
            add_note(notes, word, sentence, "warning");
    }
}

static json_t *tell_found(json_t *found, const kn_model_list *list) {
    json_t *notes = json_array(), *unsupported = json_array(), *recipe = json_null();
    const char *refused = text_at(found, "refused"), *source = text_at(found, "source");
    bool empty = !*source || !strcmp(source, "none");
    if (*refused) {
        add_note(unsupported, "workflow_unsupported", refused, "error");
    } else if (empty) {
        add_note(notes, "no_settings", "Nothing in the file says how it was made", "info");
    } else {
        const char *profile = profile_for(found, list);
        tell_notes(found, notes);
        if (!profile && (*text_at(found, "architecture") || *text_at(found, "model")))
            add_note(notes, "missing_model", "No model profile is for this picture; the active one would draw it",
                     "warning");
        recipe = checked_request(found, profile, notes, unsupported);
    }
    json_int_t references = json_integer_value(json_object_get(found, "reference_count"));
    json_object_del(found, "recipe"); /* these are for other routes */
    json_object_del(found, "settings");
    return json_pack("{s:s, s:o, s:o, s:I, s:o, s:o}", "source", *source ? source : "none", "recipe", recipe, "raw",
                     empty ? json_null() : json_incref(found), "references_needed", references, "unsupported",
                     unsupported, "notes", notes);
}

static bool work_found(kn_visit *v, kn_store *s, kn_error *err) {
    kn_prepared machine;
    json_t *found = json_loadb(v->body.data, v->body.len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(found)) {
        json_decref(found);
        return kn_fail(err, KN_E_FORMAT, "the image worker says nothing that can be understood");
    }
    if (kn_prepare_machine(v->studio, s, &machine, err)) {
        v->json = tell_found(found, &machine.models);
        if (!v->json)
            kn_fail_nomem(err, v->body.len);
        kn_prepared_free(&machine);
    }
    json_decref(found);
    return v->json != NULL;
}

static bool work_refuse(kn_visit *v, kn_store *s, kn_error *err) {
    (void)s;
    kn_fail(err, KN_E_FORMAT, "%s", v->body.data);
    return kn_visit_deny(v, 422, "input_invalid", "The picture cannot be used", NULL);
}

static void inspected(void *ctx, const char *found, size_t len, const char *message) {
    kn_visit *v = ctx;
    if (!kn_visit_is_back(v))
        return;
    kn_buf_clear(&v->body);
    if (!found && kn_visit_refuse_unlocked(v))
        return;
    bool ok = found ? kn_buf_add(&v->body, found, len) : kn_buf_add_text(&v->body, message);
    if (ok)
        kn_visit_send(v, found ? v->work : work_refuse, NULL);
    else
        kn_visit_refuse(v, 503, "out_of_memory", "Memory is short", NULL, NULL);
}

void kn_visit_inspect(kn_visit *v, bool (*work)(kn_visit *, kn_store *, kn_error *)) {
    const kn_studio_runner *r = &v->studio->runner;
    v->work = work;
    v->in_flight = true;
    if (!r->inspect || !r->inspect(r->ctx, v->body.data, v->body.len, inspected, v)) {
        v->in_flight = false;
        kn_visit_refuse(v, 503, "engine_busy", "The image worker cannot look at the picture now", NULL, NULL);
    }
}

static void after_known(kn_visit *v) {
    if (v->flag)
        kn_visit_answer(v);
    else
        kn_visit_inspect(v, work_found);
}

void kn_api_inspect_recipe(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_image_kind_of(v->body.data, v->body.len) == KN_IMAGE_UNKNOWN)
        kn_visit_refuse(v, 422, "input_invalid", "The picture cannot be used", "it is no picture file", NULL);
    else if (v)
        kn_visit_send(v, work_known, after_known);
}
