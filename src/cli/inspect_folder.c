#include "cli/inspect_folder.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "pipelines/collection.h"
#include "pipelines/profile.h"

enum { PROFILE_LIMIT = 1 << 16 };

/* File names are bytes; JSON wants UTF-8. */
static json_t *json_path(const char *path) {
    json_t *text = json_string(path);
    return text ? text : json_string(kn_quote_path(path).text);
}

static json_t *profile_of(const kn_collected_model *m) {
    KN_AUTO_BUF toml;
    kn_buf_init(&toml, PROFILE_LIMIT);
    if (!kn_collected_profile(m, &toml))
        return NULL;
    return json_pack("{s:s, s:s, s:b, s:s, s:s, s:b, s:s*, s:s, s:s*, s:s}", "name", m->name, "variant",
                     m->variant->name, "variant_is_guess", (int)m->variant_is_guess, "diffusion_model",
                     m->part[KN_PLACE_DIFFUSION], "text_encoder", m->part[KN_PLACE_TEXT], "text_encoder_is_guess",
                     (int)m->text_is_guess, "vision", m->part[KN_PLACE_VISION], "vae", m->part[KN_PLACE_VAE],
                     "tokenizer", m->tokenizer, "toml", toml.data);
}

static json_t *incomplete_of(const kn_collected_model *m) {
    json_t *missing = json_array();
    for (size_t i = 0; i < KN_PLACES && m->missing[i]; i++)
        json_array_append_new(missing, json_string(m->missing[i]));
    return json_pack("{s:o, s:o, s:s*}", "diffusion_model", json_path(m->part[KN_PLACE_DIFFUSION]), "missing", missing,
                     "error", m->problem.code == KN_OK ? NULL : m->problem.text);
}

/* NULL: none of its diffusion models is there. */
static json_t *group_of(const kn_collection *c, size_t architecture, bool *has_profile) {
    const kn_architecture *a = &kn_architectures[architecture];
    json_t *profiles = json_array(), *incomplete = json_array();
    for (size_t i = 0; i < c->model_count; i++) {
        const kn_collected_model *m = &c->models[i];
        if (m->architecture == a && kn_collected_is_complete(m))
            json_array_append_new(profiles, profile_of(m));
        else if (m->architecture == a)
            json_array_append_new(incomplete, incomplete_of(m));
    }
    *has_profile |= json_array_size(profiles) > 0;
    json_t *group = NULL;
    if (json_array_size(profiles) + json_array_size(incomplete) > 0)
        group = json_pack("{s:s, s:s, s:O, s:O}", "architecture", a->name, "title", a->title, "profiles", profiles,
                          "incomplete", incomplete);
    json_decref(profiles);
    json_decref(incomplete);
    return group;
}

static bool is_used(const kn_collection *c, const kn_collected_file *f) {
    bool is_used = false;
    for (size_t i = 0; i < c->model_count; i++)
        for (kn_place place = 0; place < KN_PLACES; place++)
            is_used |= c->models[i].part[place] == f->path;
    return is_used;
}

static void count_other(json_t *others, const char *title) {
    json_t *count = json_object_get(others, title);
    json_object_set_new(others, title, json_integer(json_integer_value(count) + 1));
}

json_t *kn_inspect_folder(const char *folder, bool *all_well) {
    kn_collection c;
    kn_error err = { 0 };
    if (!kn_collection_make(folder, &c, &err)) {
        *all_well = false;
        return json_pack("{s:o, s:s}", "folder", json_path(folder), "error", err.text);
    }
    bool has_profile = false;
    json_t *groups = json_array(), *spare = json_array(), *problems = json_array(), *others = json_object();
    for (size_t i = 0; i < kn_architecture_count; i++) {
        json_t *group = group_of(&c, i, &has_profile);
        if (group)
            json_array_append_new(groups, group);
    }
    for (size_t i = 0; i < c.tree.files.count; i++) {
        const kn_collected_file *f = &c.files[i];
        bool fits = memcmp(f->fits, (unsigned char[sizeof f->fits]){ 0 }, sizeof f->fits) != 0;
        if (f->problem.code != KN_OK)
            json_array_append_new(problems,
                                  json_pack("{s:o, s:s}", "path", json_path(f->path), "error", f->problem.text));
        else if (!fits)
            count_other(others, f->kind ? f->kind->title : "unknown");
        else if (!is_used(&c, f))
            json_array_append_new(spare, json_pack("{s:o, s:s}", "path", json_path(f->path), "title", f->kind->title));
    }
    for (size_t i = 0; i < c.tree.unreadable.count; i++)
        json_array_append_new(problems, json_pack("{s:o, s:s}", "path", json_path(c.tree.unreadable.at[i]), "error",
                                                  "the folder cannot be read"));
    char *place = NULL;
    if (has_profile)
        kn_profiles_place(&place, NULL);
    json_t *answer = json_pack("{s:o, s:o*, s:o, s:o, s:o, s:o, s:b}", "folder", json_path(folder), "models_toml",
                               place ? json_path(place) : NULL, "architectures", groups, "spare", spare, "problems",
                               problems, "others", others, "cut", (int)c.tree.cut);
    free(place);
    kn_collection_free(&c);
    *all_well &= has_profile;
    return answer;
}

static const char *text_at(json_t *o, const char *key) {
    return json_string_value(json_object_get(o, key));
}

static kn_quoted_path path_at(json_t *o, const char *key) {
    return kn_quote_path(text_at(o, key));
}

static bool tell_group(json_t *group, kn_buf *out) {
    json_t *one = NULL, *part = NULL;
    size_t i, k;
    const char *title = text_at(group, "title"), *error = NULL;
    bool ok = kn_buf_printf(out, "\n# %s\n", title);
    json_array_foreach(json_object_get(group, "incomplete"), i, one) {
        ok = ok && kn_buf_printf(out, "# %s\n#   is a diffusion model", path_at(one, "diffusion_model").text);
        json_array_foreach(json_object_get(one, "missing"), k, part) ok =
            ok && kn_buf_printf(out, "%s%s", k ? "; " : "; missing: ", json_string_value(part));
        if ((error = text_at(one, "error")))
            ok = ok && kn_buf_printf(out, "; what is there does not fit: %s", error);
        ok = ok && kn_buf_add_text(out, "\n");
    }
    json_array_foreach(json_object_get(group, "profiles"), i, one) ok =
        ok && kn_buf_printf(out, "\n%s", text_at(one, "toml"));
    return ok;
}

/* NULL: there is none. */
static const char *first_profile(json_t *groups) {
    json_t *group = NULL;
    size_t i = 0;
    const char *name = NULL;
    json_array_foreach(groups, i, group) if (!name) name =
        text_at(json_array_get(json_object_get(group, "profiles"), 0), "name");
    return name;
}

/* All of it comments: default_model must stand above every table, wherever this is pasted. */
static bool tell_use(json_t *folder, const char *profile, kn_buf *out) {
    const char *place = text_at(folder, "models_toml");
    return kn_buf_printf(out,
                         "# To use the profiles below, put them into %s and say\n"
                         "#   kuno generate --model-profile %s \"a prompt\"\n"
                         "# A line above all profiles chooses the one that is used when none is named:\n"
                         "# default_model = \"%s\"\n",
                         place ? kn_quote_path(place).text : "a file, name it by --config FILE", profile, profile);
}

bool kn_inspect_tell_folder(json_t *folder, kn_buf *out) {
    json_t *one = NULL;
    size_t i = 0;
    const char *title = NULL, *error = text_at(folder, "error");
    bool ok = kn_buf_printf(out, "# models in %s\n", path_at(folder, "folder").text);
    if (error)
        return ok && kn_buf_printf(out, "#   cannot be used: %s\n", error);
    const char *profile = first_profile(json_object_get(folder, "architectures"));
    if (profile)
        ok = ok && tell_use(folder, profile, out);
    if (json_array_size(json_object_get(folder, "architectures")) == 0)
        ok = ok && kn_buf_add_text(out, "#   there is no diffusion model that could be used\n");
    json_array_foreach(json_object_get(folder, "architectures"), i, one) ok = ok && tell_group(one, out);
    if (json_array_size(json_object_get(folder, "spare")) > 0)
        ok = ok && kn_buf_add_text(out, "\n# Parts that no profile uses\n");
    json_array_foreach(json_object_get(folder, "spare"), i, one) ok =
        ok && kn_buf_printf(out, "#   %s: %s\n", text_at(one, "title"), path_at(one, "path").text);
    if (json_array_size(json_object_get(folder, "problems")) > 0)
        ok = ok && kn_buf_add_text(out, "\n# Cannot be used\n");
    json_array_foreach(json_object_get(folder, "problems"), i, one) ok =
        ok && kn_buf_printf(out, "#   %s: %s\n", path_at(one, "path").text, text_at(one, "error"));
    if (json_object_size(json_object_get(folder, "others")) > 0)
        ok = ok && kn_buf_add_text(out, "\n# Other model files, which kuno does not draw with\n");
    json_object_foreach(json_object_get(folder, "others"), title, one) ok =
        ok && kn_buf_printf(out, "#   %lld x %s\n", (long long)json_integer_value(one), title);
    if (json_is_true(json_object_get(folder, "cut")))
        ok = ok && kn_buf_add_text(
                       out, "\n# There is more that was not looked at: too deep or too much, behind a link to a folder "
                            "above,\n# or in /proc, /sys or /dev; name a folder further down\n");
    return ok;
}
