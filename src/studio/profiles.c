#include "studio/profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/json_form.h"
#include "pipelines/demo.h"
#include "pipelines/model.h"
#include "pipelines/registry.h"
#include "studio/files.h"
#include "studio/paths.h"

enum { FILE_BYTES = 16 << 20 };

const char *const kn_model_roles[KN_MODEL_ROLES] = {
    "diffusion", "text_encoder", "vision_encoder", "vae", "upscaler", "tokenizer",
};

void kn_profile_free_model(kn_model_profile *p) {
    free(p->title);
    for (size_t i = 0; i < p->file_count; i++)
        free(p->files[i].path);
    *p = (kn_model_profile){ 0 };
}

void kn_profiles_list_free(kn_model_list *l) {
    for (size_t i = 0; i < l->count; i++)
        kn_profile_free_model(&l->profiles[i]);
    free(l->profiles);
    *l = (kn_model_list){ 0 };
}

const kn_model_profile *kn_profiles_named(const kn_model_list *l, const char *name) {
    for (size_t i = 0; i < l->count; i++)
        if (!strcmp(l->profiles[i].name, name))
            return &l->profiles[i];
    return NULL;
}

const kn_model_profile *kn_profiles_of(const kn_model_list *list, const char *architecture, const char *variant) {
    for (size_t i = 0; i < list->count; i++) {
        const kn_model_profile *p = &list->profiles[i];
        if (!p->official && !strcmp(p->architecture->name, architecture) && !strcmp(p->variant->name, variant))
            return p;
    }
    return NULL;
}

/* ---- files ---- */

/* A component may be a folder in the layout of diffusers: it is there, its size is not told. */
static void look_at_file(kn_model_file *f) {
    struct stat st;
    f->present = stat(f->path, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
    f->bytes = f->present && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

static bool add_file(kn_model_profile *p, kn_model_role role, const char *path) {
    if (!path)
        return true;
    char *copy = strdup(path);
    if (!copy)
        return false;
    p->files[p->file_count] = (kn_model_file){ .role = role, .path = copy };
    look_at_file(&p->files[p->file_count++]);
    return true;
}

static bool has_role(const kn_model_profile *p, kn_model_role role) {
    for (size_t i = 0; i < p->file_count; i++)
        if (p->files[i].role == role)
            return true;
    return false;
}

const char *kn_model_obstacle(const kn_model_profile *p) {
    static const struct {
        kn_model_role role;
        const char *without;
    } parts[] = { { KN_MODEL_DIFFUSION, "The profile names no file for the diffusion model" },
                  { KN_MODEL_TEXT_ENCODER, "The profile names no file for the text encoder" },
                  { KN_MODEL_VAE, "The profile names no file for the VAE" } };
    for (size_t i = 0; !p->official && !p->is_checkpoint && i < KN_COUNT(parts); i++)
        if (!has_role(p, parts[i].role))
            return parts[i].without;
    for (size_t i = 0; i < p->file_count; i++)
        if (!p->files[i].present)
            return "A file of the model is missing";
    return NULL;
}

bool kn_model_is_ready(const kn_model_profile *p) {
    return !kn_model_obstacle(p);
}

uint64_t kn_model_bytes(const kn_model_profile *p, kn_model_role role) {
    uint64_t sum = 0;
    for (size_t i = 0; i < p->file_count; i++)
        if (p->files[i].role == role)
            sum += p->files[i].bytes;
    return sum;
}

static bool ends_in(const char *path, const char *ending) {
    size_t len = strlen(path), n = strlen(ending);
    return len > n && !strcmp(path + len - n, ending);
}

static json_t *file_json(const kn_model_file *f) {
    const char *format = ends_in(f->path, ".gguf")          ? "gguf"
                         : ends_in(f->path, ".safetensors") ? "safetensors"
                                                            : "other";
    return json_pack("{s:s, s:s, s:o, s:b, s:b, s:n, s:s}", "role", kn_model_roles[f->role], "path", f->path, "bytes",
                     f->present && f->bytes ? json_integer((json_int_t)f->bytes) : json_null(), "present", f->present,
                     "verified", 0, "quantization", "format", format);
}

json_t *kn_model_json(const kn_model_profile *p, bool active) {
    const kn_architecture *a = p->architecture;
    const kn_variant *v = p->variant;
    json_t *files = json_array();
    for (size_t i = 0; i < p->file_count; i++)
        json_array_append_new(files, file_json(&p->files[i]));
    json_t *defaults = json_pack("{s:i, s:f, s:I, s:I}", "steps", v->steps, "guidance", v->cfg, "width",
                                 (json_int_t)p->width, "height", (json_int_t)p->height);
    return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:b, s:b, s:o, s:n, s:o}", "name", p->name, "title",
                     p->title ? p->title : a->title, "model", a->name, "variant", a->variant_count > 1 ? v->name : NULL,
                     "source", p->official ? "official" : "user", "active", active, "ready", kn_model_is_ready(p),
                     "files", files, "license", "defaults", defaults);
}

/* ---- those of models.toml ---- */

static void take_defaults(const kn_generation_defaults *d, kn_model_profile *p) {
    const kn_default *steps = &d->of[KN_SETTING_STEPS], *cfg = &d->of[KN_SETTING_CFG];
    const kn_default *sampler = &d->of[KN_SETTING_SAMPLER];
    if (steps->given)
        p->steps = (kn_optional){ true, (double)steps->integer };
    if (cfg->given)
        p->cfg = (kn_optional){ true, cfg->real };
    if (sampler->given)
        snprintf(p->sampler, sizeof p->sampler, "%s", sampler->text);
}

static bool take_profile(kn_model_list *l, size_t *room, const kn_profiles *all, const kn_profile *from, bool official,
                         kn_error *err) {
    kn_model_profile p = { .official = official, .fixed = true, .is_checkpoint = from->checkpoint };
    p.architecture = kn_architecture_find(from->architecture);
    if (!p.architecture || !kn_name_is_valid(from->name, strlen(from->name)) || kn_profiles_named(l, from->name) ||
        l->count == KN_PROFILES_MAX)
        return true;
    p.variant = from->variant ? kn_variant_find(p.architecture, from->variant) : &p.architecture->variants[0];
    if (!p.variant)
        return true;
    memcpy(p.name, from->name, strlen(from->name));
    p.references = official ? 0 : (unsigned)p.variant->max_references; /* the built-in model sees no pictures */
    kn_generation_defaults d = kn_profiles_defaults(all, from);
    const kn_default *width = &d.of[KN_SETTING_WIDTH], *height = &d.of[KN_SETTING_HEIGHT];
    p.width = (uint32_t)(width->given ? width->integer : p.variant->width);
    p.height = (uint32_t)(height->given ? height->integer : p.variant->height);
    take_defaults(&d, &p);
    if (official && !(p.title = strdup("Built-in demo")))
        return kn_fail_nomem(err, KN_TITLE_MAX);
    kn_model_profile *items = kn_array_grow(l->profiles, l->count, room, sizeof *items, err);
    if (!items) {
        free(p.title);
        return false;
    }
    l->profiles = items;
    l->profiles[l->count++] = p;
    kn_model_profile *to = &l->profiles[l->count - 1];
    return (add_file(to, KN_MODEL_DIFFUSION, from->checkpoint) &&
            add_file(to, KN_MODEL_DIFFUSION, from->diffusion_model) &&
            add_file(to, KN_MODEL_TEXT_ENCODER, from->text_encoder) &&
            add_file(to, KN_MODEL_VISION_ENCODER, from->vision) && add_file(to, KN_MODEL_VAE, from->vae) &&
            add_file(to, KN_MODEL_TOKENIZER, from->tokenizer)) ||
           kn_fail_nomem(err, KN_PATH_BYTES);
}

/* As for commands. A name that the studio has not is no choice. */
static void take_usual(kn_model_list *l, const kn_profiles *all) {
    const kn_profile *usual = NULL;
    if (kn_profiles_select(all, NULL, &usual, NULL) && kn_profiles_named(l, usual->name))
        memcpy(l->usual, usual->name, strlen(usual->name));
}

static bool take_written(kn_model_list *l, size_t *room, const char *models_toml, kn_error *problem, kn_error *err) {
    kn_profiles all = { 0 };
    if (!kn_model_profiles(models_toml, &all, problem)) {
        static const kn_profiles none = { .builtin = &kn_demo_profile };
        if (!take_profile(l, room, &none, &kn_demo_profile, true, err))
            return false;
        take_usual(l, &none);
        return true;
    }
    bool ok = true;
    for (size_t i = 0; ok && i < all.n; i++)
        ok = take_profile(l, room, &all, &all.profiles[i], false, err);
    ok = ok && take_profile(l, room, &all, &kn_demo_profile, true, err);
    take_usual(l, &all);
    kn_profiles_free(&all);
    return ok;
}

/* ---- those of clients ---- */

enum { TITLE, MODEL, VARIANT, FILES };
static const char *const keys[] = { [TITLE] = "title", [MODEL] = "model", [VARIANT] = "variant", [FILES] = "files" };

static void take_file(kn_form *outer, kn_model_profile *p) {
    enum { ROLE, PATH };
    static const char *const file_keys[] = { [ROLE] = "role", [PATH] = "path" };
    kn_form f;
    kn_json_text text;
    kn_error why = { 0 };
    kn_model_file *file = &p->files[p->file_count];
    size_t role = 0;
    kn_form_open(&f, outer->j, outer, file_keys, KN_COUNT(file_keys));
    for (int key; kn_form_next(&f, &key);) {
        if (key == ROLE) {
            kn_form_word(&f, kn_model_roles, KN_MODEL_ROLES, &role);
        } else if (kn_form_prose(&f, 1, KN_PATH_BYTES, &text)) {
            file->path = strndup(text.data, text.len);
            p->file_count++;
            if (!file->path)
                kn_form_fail(&f, KN_E_NOMEM, "out of memory");
            else if (!kn_path_check(file->path, &why))
                kn_form_fail(&f, why.code, "%s", why.text);
        }
    }
    kn_form_need(&f, ROLE);
    kn_form_need(&f, PATH);
    file->role = (kn_model_role)role;
    if (!outer->j->failed)
        look_at_file(file);
}

static void take_files(kn_form *f, kn_model_profile *p) {
    for (bool in = kn_form_items(f); in && kn_form_item(f);) {
        if (p->file_count == KN_PROFILE_FILES)
            kn_form_fail(f, KN_E_RANGE, "more than %d files", KN_PROFILE_FILES);
        else
            take_file(f, p);
    }
}

static void take_model(kn_form *f, kn_model_profile *p) {
    const char *names[16];
    size_t found = 0, n = KN_MIN(kn_architecture_count, KN_COUNT(names));
    for (size_t i = 0; i < n; i++)
        names[i] = kn_architectures[i].name;
    if (kn_form_word(f, names, n, &found))
        p->architecture = &kn_architectures[found];
}

/* Its meaning hangs on the model, which may come behind it. */
static void take_variant(kn_form *f, char *variant, size_t room) {
    kn_json_text text;
    if (!kn_form_null(f) && kn_form_text(f, 0, room - 1, &text))
        memcpy(variant, text.data, text.len);
}

bool kn_profile_read(const char *name, const char *text, size_t len, kn_model_profile *ret, kn_buf *pointer,
                     kn_error *err) {
    const kn_json_text body = { text, len };
    kn_model_profile p = { 0 };
    kn_json_text title;
    char variant[241] = "";
    kn_json_reader j;
    kn_form f;
    kn_json_begin_inside(&j, body, "the body", err);
    j.pointer = pointer;
    kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case TITLE:
            if (kn_form_prose(&f, 0, KN_TITLE_MAX, &title) && !(p.title = strndup(title.data, title.len)))
                kn_form_fail(&f, KN_E_NOMEM, "out of memory");
            break;
        case MODEL: take_model(&f, &p); break;
        case VARIANT: take_variant(&f, variant, sizeof variant); break;
        case FILES: take_files(&f, &p); break;
        }
    }
    kn_form_need(&f, MODEL);
    kn_form_need(&f, FILES);
    if (p.architecture && !j.failed) {
        f.key = VARIANT;
        p.variant = variant[0] ? kn_variant_find(p.architecture, variant) : &p.architecture->variants[0];
        if (!p.variant)
            kn_form_fail(&f, KN_E_FORMAT, "this model has no such variant");
    }
    bool ok = kn_form_finish(&f);
    if (!ok || !p.variant) {
        kn_profile_free_model(&p);
        return false;
    }
    memcpy(p.name, name, strnlen(name, sizeof p.name - 1));
    p.references = (unsigned)p.variant->max_references;
    p.width = (uint32_t)p.variant->width;
    p.height = (uint32_t)p.variant->height;
    *ret = p;
    return true;
}

bool kn_profile_is_ours(kn_store *s, const char *name, bool *ret, kn_error *err) {
    kn_query q = kn_query_open(s, err, "SELECT 1 FROM profiles WHERE name = ?", "t", name);
    *ret = kn_query_next(&q);
    return kn_query_close(&q);
}

/* Texts of JSON are texts of TOML. */
static bool add_pair(kn_buf *into, const char *key, const char *value) {
    json_t *j = json_string(value);
    char *text = j ? json_dumps(j, JSON_ENCODE_ANY) : NULL;
    json_decref(j);
    bool ok = text && kn_buf_printf(into, "%s = %s\n", key, text);
    free(text);
    return ok;
}

static bool add_profile(const kn_model_profile *p, kn_buf *into) {
    static const char *const parts[KN_MODEL_ROLES] = {
        [KN_MODEL_DIFFUSION] = "diffusion_model", [KN_MODEL_TEXT_ENCODER] = "text_encoder",
        [KN_MODEL_VISION_ENCODER] = "vision",     [KN_MODEL_VAE] = "vae",
        [KN_MODEL_TOKENIZER] = "tokenizer",
    };
    bool written[KN_MODEL_ROLES] = { false };
    bool ok = kn_buf_printf(into, "[model_profiles.\"%s\"]\n", p->name) &&
              add_pair(into, "architecture", p->architecture->name) && add_pair(into, "variant", p->variant->name);
    for (size_t i = 0; ok && i < p->file_count; i++) {
        kn_model_role role = p->files[i].role;
        if (parts[role] && !written[role])
            ok = add_pair(into, parts[role], p->files[i].path);
        written[role] = true;
    }
    return ok;
}

static bool take_stored(kn_store *s, kn_model_list *l, size_t *room, kn_error *err);

static bool write_file(kn_store *s, kn_error *err) {
    KN_AUTO_BUF text;
    kn_model_list l = { 0 };
    size_t room = 0;
    kn_buf_init(&text, FILE_BYTES);
    bool ok = take_stored(s, &l, &room, err);
    for (size_t i = 0; ok && i < l.count; i++)
        ok = add_profile(&l.profiles[i], &text) || kn_fail_nomem(err, text.len);
    ok = ok && kn_store_write(s, ".", KN_PROFILES_FILE, text.data, text.len, err);
    kn_profiles_list_free(&l);
    return ok;
}

bool kn_profile_put(kn_store *s, const kn_model_profile *p, bool *ret_new, kn_error *err) {
    json_t *files = json_array();
    for (size_t i = 0; i < p->file_count; i++)
        json_array_append_new(
            files, json_pack("{s:s, s:s}", "role", kn_model_roles[p->files[i].role], "path", p->files[i].path));
    json_t *j = json_pack("{s:s*, s:s, s:s, s:o}", keys[TITLE], p->title, keys[MODEL], p->architecture->name,
                          keys[VARIANT], p->variant->name, keys[FILES], files);
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (!text)
        return kn_fail_nomem(err, FILE_BYTES);
    int replaced = 0;
    bool ok = kn_store_begin(s, err);
    ok = ok && kn_store_end(s,
                            kn_store_do(s, err, &replaced, "DELETE FROM profiles WHERE name = ?", "t", p->name) &&
                                kn_store_do(s, err, NULL, "INSERT INTO profiles VALUES (?, ?)", "tt", p->name, text) &&
                                write_file(s, err),
                            err);
    free(text);
    *ret_new = !replaced;
    return ok;
}

bool kn_profile_drop(kn_store *s, const char *name, kn_error *err) {
    int changed = 0;
    bool ok = kn_store_begin(s, err);
    return ok &&
           kn_store_end(s,
                        kn_store_do(s, err, &changed, "DELETE FROM profiles WHERE name = ?", "t", name) &&
                            (changed || kn_fail(err, KN_E_NOT_FOUND, "there is no such profile")) && write_file(s, err),
                        err);
}

static bool take_stored(kn_store *s, kn_model_list *l, size_t *room, kn_error *err) {
    kn_query r = kn_query_open(s, err, "SELECT name, value FROM profiles ORDER BY name", "");
    while (kn_query_next(&r)) {
        KN_AUTO_BUF pointer;
        kn_model_profile p;
        kn_buf_init(&pointer, 200);
        const char *text = kn_query_text(&r, 1);
        if (l->count == KN_PROFILES_MAX || kn_profiles_named(l, kn_query_text(&r, 0)) ||
            !kn_profile_read(kn_query_text(&r, 0), text, strlen(text), &p, &pointer, NULL))
            continue;
        kn_model_profile *items = kn_array_grow(l->profiles, l->count, room, sizeof *items, err);
        if (!items) {
            kn_profile_free_model(&p);
            r.failed = true;
            continue;
        }
        l->profiles = items;
        l->profiles[l->count++] = p;
    }
    return kn_query_close(&r);
}

bool kn_profiles_list(kn_store *s, const char *models_toml, kn_model_list *ret, kn_error *ret_problem, kn_error *err) {
    kn_model_list l = { 0 };
    size_t room = 0;
    if (take_written(&l, &room, models_toml, ret_problem, err) && take_stored(s, &l, &room, err)) {
        *ret = l;
        return true;
    }
    kn_profiles_list_free(&l);
    return false;
}

static kn_source tokenizer_of(const kn_model_profile *p) {
    for (size_t i = 0; i < p->file_count; i++)
        if (p->files[i].role == KN_MODEL_TOKENIZER)
            return (kn_source){ .path = p->files[i].path };
    if (strcmp(p->name, kn_demo_profile.name) == 0)
        return kn_demo_files().tokenizer;
    return (kn_source){ 0 };
}

bool kn_model_has_room(const kn_model_profile *p, const char *prompt, const uint32_t *sides, size_t count,
                       kn_error *err) {
    const kn_source tokenizer = tokenizer_of(p);
    return kn_stages_have_room(p->architecture->stages, &tokenizer, prompt, sides, (int)count, err);
}
