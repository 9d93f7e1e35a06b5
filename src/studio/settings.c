#include "studio/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_form.h"

enum {
    HARDWARE,
    MEMORY,
    PRESET,
    PROFILE,
    UPSCALER,
    BLEND,
    PRESCALE,
    TILE,
    CACHE,
    EAGER,
    FAST,
    OUTPUT,
    MODELS,
    KEEP,
    PORT,
    UI
};
static const char *const keys[] = {
    [HARDWARE] = "hardware_preset",  [MEMORY] = "memory_override_mib",
    [PRESET] = "default_preset",     [PROFILE] = "active_profile",
    [UPSCALER] = "upscaler",         [BLEND] = "upscale_blend",
    [PRESCALE] = "upscale_prescale", [TILE] = "upscale_tile_size",
    [CACHE] = "prefix_cache_type",   [EAGER] = "eager_load",
    [FAST] = "fast_attention",       [OUTPUT] = "output_directory",
    [MODELS] = "model_directory",    [KEEP] = "keep_inputs_days",
    [PORT] = "engine_port",          [UI] = "ui",
};
static const char *const hardware_names[KN_HARDWARE_PRESETS] = { "auto", "12gb", "16gb", "24gb", "32gb" };
static const char *const cache_names[] = { "f16", "q8_0", "off" };

void kn_studio_settings_free(kn_studio_settings *s) {
    free(s->output_directory);
    free(s->model_directory);
    free(s->ui);
    *s = (kn_studio_settings){ 0 };
}

json_t *kn_studio_settings_json(const kn_studio_settings *s) {
    return json_pack("{s:s, s:I, s:s, s:s?, s:s, s:f, s:b, s:I, s:s, s:b, s:b, s:s?, s:s, s:I, s:I, s:b, s:o}",
                     keys[HARDWARE], hardware_names[s->hardware], keys[MEMORY], (json_int_t)s->memory_override_mib,
                     keys[PRESET], kn_preset_names[s->preset], keys[PROFILE], s->profile[0] ? s->profile : NULL,
                     keys[UPSCALER], s->upscaler, keys[BLEND], s->upscale_blend, keys[PRESCALE], s->upscale_prescale,
                     keys[TILE], (json_int_t)s->upscale_tile_size, keys[CACHE], cache_names[s->prefix_cache],
                     keys[EAGER], s->eager_load, keys[FAST], s->fast_attention, keys[OUTPUT], s->output_directory,
                     keys[MODELS], s->model_directory, keys[KEEP], (json_int_t)s->keep_inputs_days, keys[PORT],
                     (json_int_t)s->engine_port, "telemetry", 0, keys[UI], json_loads(s->ui, 0, NULL));
}

/* ---- reading a change ---- */

static void take_name(kn_form *f, bool may_be_null, char ret[KN_NAME_BYTES]) {
    kn_json_text text = { "", 0 };
    bool none = may_be_null && kn_form_null(f);
    if (!none && !kn_form_prose(f, 1, KN_NAME_BYTES - 1, &text))
        return;
    if (!none && !kn_name_is_valid(text.data, text.len)) {
        kn_form_fail(f, KN_E_FORMAT, "a name of a-z, 0-9, '.', '_' and '-' is expected");
        return;
    }
    memset(ret, 0, KN_NAME_BYTES);
    memcpy(ret, text.data, text.len);
}

static void replace(kn_form *f, char **at, char *text) {
    if (!text) {
        kn_form_fail(f, KN_E_NOMEM, "out of memory");
        return;
    }
    free(*at);
    *at = text;
}

static void take_folder(kn_form *f, bool may_be_null, const kn_own_folders *own, char **ret) {
    kn_json_text text;
    kn_error why = { 0 };
    if (may_be_null && kn_form_null(f)) {
        free(*ret);
        *ret = NULL;
        return;
    }
    if (!kn_form_prose(f, 1, KN_PATH_BYTES, &text))
        return;
    char *path = strndup(text.data, text.len);
    if (path && !kn_path_check_target(path, own, &why)) {
        free(path);
        kn_form_fail(f, why.code, "%s", why.text);
        return;
    }
    replace(f, ret, path);
}

/* It is written again by jansson, which knows fewer numbers than JSON and keeps one of two members. */
static bool check_ui(kn_form *f, kn_json_text text) {
    json_error_t why = { 0 };
    json_t *ui = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &why);
    json_decref(ui);
    if (ui)
        return true;
    switch (json_error_code(&why)) {
    case json_error_out_of_memory: return kn_form_fail(f, KN_E_NOMEM, "out of memory");
    case json_error_duplicate_key: return kn_form_fail(f, KN_E_FORMAT, "a key comes twice in one object");
    case json_error_numeric_overflow: return kn_form_fail(f, KN_E_RANGE, "a number is too large to be kept");
    default: return kn_form_fail(f, KN_E_FORMAT, "it cannot be kept");
    }
}

static void take_ui(kn_form *f, char **ret) {
    kn_json_text text;
    if (kn_json_peek(f->j) != '{')
        kn_form_fail(f, KN_E_FORMAT, "an object is expected");
    else if (!kn_json_skip(f->j, &text))
        return;
    else if (text.len > KN_SETTINGS_UI_BYTES)
        kn_form_fail(f, KN_E_RANGE, "more than %d bytes", KN_SETTINGS_UI_BYTES);
    else if (check_ui(f, text))
        replace(f, ret, strndup(text.data, text.len));
}

static uint64_t bit_of(int key) {
    return (uint64_t)1 << key;
}

static void take_member(kn_form *f, int key, kn_studio_settings *s) {
    size_t word = 0;
    s->unusable &= ~bit_of(key);
    switch (key) {
    case HARDWARE:
        word = s->hardware;
        kn_form_word(f, hardware_names, KN_HARDWARE_PRESETS, &word);
        s->hardware = (kn_hardware_preset)word;
        break;
    case MEMORY: kn_form_u64(f, 0, 1 << 24, &s->memory_override_mib); break;
    case PRESET:
        word = s->preset;
        kn_form_word(f, kn_preset_names, KN_PRESETS, &word);
        s->preset = (kn_preset_id)word;
        break;
    case PROFILE: take_name(f, true, s->profile); break;
    case UPSCALER: take_name(f, false, s->upscaler); break;
    case BLEND: kn_form_real(f, 0, 1, &s->upscale_blend); break;
    case PRESCALE: kn_form_bool(f, &s->upscale_prescale); break;
    case TILE: kn_form_u64(f, 0, 2048, &s->upscale_tile_size); break;
    case CACHE: kn_form_word(f, cache_names, KN_COUNT(cache_names), &s->prefix_cache); break;
    case EAGER: kn_form_bool(f, &s->eager_load); break;
    case FAST: kn_form_bool(f, &s->fast_attention); break;
    case OUTPUT: take_folder(f, true, s->own, &s->output_directory); break;
    case MODELS: take_folder(f, false, s->own, &s->model_directory); break;
    case KEEP: kn_form_u64(f, 0, 36500, &s->keep_inputs_days); break;
    case PORT: kn_form_u64(f, 1, 65535, &s->engine_port); break;
    case UI: take_ui(f, &s->ui); break;
    }
}

bool kn_studio_settings_patch(kn_studio_settings *s, const char *text, size_t len, kn_buf *pointer, kn_error *err) {
    const kn_json_text body = { text, len };
    kn_json_reader j;
    kn_form f;
    kn_json_begin_inside(&j, body, "the body", err);
    j.pointer = pointer;
    kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);)
        take_member(&f, key, s);
    f.key = j.failed ? f.key : -1;
    if (!j.failed && !f.seen)
        kn_form_fail(&f, KN_E_USAGE, "a setting is expected");
    bool ok = kn_form_finish(&f);
    return ok;
}

/* ---- the row ---- */

static bool set_defaults(kn_studio_settings *s, const kn_own_folders *own, kn_error *err) {
    *s = (kn_studio_settings){ .upscaler = "lanczos", .keep_inputs_days = 30, .engine_port = 39150, .own = own };
    s->model_directory = strdup(own->models);
    s->ui = strdup("{}");
    if (s->model_directory && s->ui)
        return true;
    kn_studio_settings_free(s);
    return kn_fail_nomem(err, strlen(own->models));
}

/* Stored is what was read as a change before. Folders may have gone since, and come back: a setting that is of no use
 * at the moment is left out, the others stay. */
static void read_stored(kn_studio_settings *s, const char *text) {
    json_t *all = json_loads(text, 0, NULL);
    for (int i = 0; all && i < (int)KN_COUNT(keys); i++) {
        json_t *value = json_object_get(all, keys[i]);
        json_t *one = value ? json_pack("{s:O}", keys[i], value) : NULL;
        char *change = one ? json_dumps(one, JSON_COMPACT) : NULL;
        KN_AUTO_BUF pointer;
        kn_buf_init(&pointer, 100);
        if (change && !kn_studio_settings_patch(s, change, strlen(change), &pointer, NULL))
            s->unusable |= bit_of(i);
        free(change);
        json_decref(one);
    }
    json_decref(all);
}

bool kn_studio_settings_load(kn_store *store, const kn_own_folders *own, kn_studio_settings *ret, kn_error *err) {
    kn_studio_settings s;
    if (!set_defaults(&s, own, err))
        return false;
    kn_query r = kn_query_open(store, err, "SELECT value, version FROM settings WHERE id = 1", "");
    if (kn_query_next(&r)) {
        read_stored(&s, kn_query_text(&r, 0));
        s.version = kn_query_int(&r, 1);
    }
    if (!kn_query_close(&r)) {
        kn_studio_settings_free(&s);
        return false;
    }
    *ret = s;
    return true;
}

bool kn_studio_settings_lack_output(const kn_studio_settings *s) {
    return s->unusable & bit_of(OUTPUT);
}

/* What is stored of settings that are of no use at the moment. */
static void keep_unusable(const kn_studio_settings *s, const char *stored, json_t *into) {
    json_t *all = s->unusable ? json_loads(stored, 0, NULL) : NULL;
    for (int i = 0; all && i < (int)KN_COUNT(keys); i++)
        if (s->unusable & bit_of(i))
            json_object_set(into, keys[i], json_object_get(all, keys[i]));
    json_decref(all);
}

static bool write_row(kn_store *store, const json_t *j, int64_t version, kn_error *err) {
    char *text = json_dumps(j, JSON_COMPACT);
    bool ok =
        text ? kn_store_do(store, err, NULL, "INSERT OR REPLACE INTO settings VALUES (1, ?, ?)", "ti", text, version)
             : kn_fail_nomem(err, KN_SETTINGS_UI_BYTES);
    free(text);
    return ok;
}

static bool save(kn_store *store, const kn_studio_settings *s, json_t *j, kn_error *err) {
    int64_t version = 0;
    kn_query r = kn_query_open(store, err, "SELECT version, value FROM settings WHERE id = 1", "");
    if (kn_query_next(&r)) {
        version = kn_query_int(&r, 0);
        keep_unusable(s, kn_query_text(&r, 1), j);
    }
    return kn_query_close(&r) &&
           (version == s->version || kn_fail(err, KN_E_USAGE, "the settings have been changed meanwhile")) &&
           write_row(store, j, version + 1, err);
}

bool kn_studio_settings_save(kn_store *store, kn_studio_settings *s, kn_error *err) {
    json_t *j = kn_studio_settings_json(s);
    if (!j)
        return kn_fail_nomem(err, KN_SETTINGS_UI_BYTES);
    bool ok = kn_store_begin(store, err);
    ok = ok && kn_store_end(store, save(store, s, j, err), err);
    json_decref(j);
    if (ok)
        s->version++;
    return ok;
}
