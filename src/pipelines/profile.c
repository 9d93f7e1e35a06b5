#include "pipelines/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/toml.h"

/* One row per key of a models.toml: the checks below and the lists in messages are made from these. */

static const char *const root_keys[] = { "default_model", "model_profiles", "models", "generation" };

static const struct part {
    const char *key;
    size_t at;
    bool in_legacy;
} parts[] = {
    { "checkpoint", offsetof(kn_profile, checkpoint), true },
    { "diffusion_model", offsetof(kn_profile, diffusion_model), true },
    { "text_encoder", offsetof(kn_profile, text_encoder), true },
    { "vision", offsetof(kn_profile, vision), false },
    { "vae", offsetof(kn_profile, vae), true },
    { "tokenizer", offsetof(kn_profile, tokenizer), true },
};

enum kind { INTEGER, REAL, NAME, CHOICE, OUTPUT };

static const struct setting {
    const char *key;
    enum kind kind;
    int64_t least, most;
    const char *choices[2];
} settings[KN_SETTINGS] = {
    [KN_SETTING_WIDTH] = { "width", INTEGER, 16, 16384, { NULL } },
    [KN_SETTING_HEIGHT] = { "height", INTEGER, 16, 16384, { NULL } },
    [KN_SETTING_STEPS] = { "steps", INTEGER, 1, 1000, { NULL } },
    [KN_SETTING_CFG] = { "cfg", REAL, 0, 100, { NULL } },
    [KN_SETTING_SEED] = { "seed", INTEGER, 0, INT64_MAX, { NULL } },
    [KN_SETTING_COUNT] = { "count", INTEGER, 1, 1000, { NULL } },
    [KN_SETTING_SAMPLER] = { "sampler", NAME, 0, 0, { NULL } },
    [KN_SETTING_SCHEDULER] = { "scheduler", NAME, 0, 0, { NULL } },
    [KN_SETTING_FLOW_SHIFT] = { "flow_shift", REAL, 0, 100, { NULL } },
    [KN_SETTING_MU] = { "mu", REAL, -100, 100, { NULL } },
    [KN_SETTING_SHIFT_Y1] = { "shift_y1", REAL, -100, 100, { NULL } },
    [KN_SETTING_SHIFT_Y2] = { "shift_y2", REAL, -100, 100, { NULL } },
    [KN_SETTING_RNG] = { "rng", CHOICE, 0, 0, { "torch-cpu", "torch-cuda" } },
    [KN_SETTING_OUTPUT] = { "output", OUTPUT, 0, 0, { NULL } },
    [KN_SETTING_DEVICE] = { "device", NAME, 0, 0, { NULL } },
    [KN_SETTING_THREADS] = { "threads", INTEGER, 1, 1024, { NULL } },
    [KN_SETTING_PRECISION] = { "precision", CHOICE, 0, 0, { "fast", "exact" } },
    [KN_SETTING_RESIDENCY] = { "residency", CHOICE, 0, 0, { "staged", "cached" } },
};

/* Accepted for the files of people who come from a program that had it; only "auto" has a meaning here. */
static const char dtype_key[] = "dtype";

/* [models] is the form from before there were profiles; the model was always this one. */
static const char legacy_name[] = "legacy", legacy_architecture[] = "z-image", legacy_variant[] = "turbo";

typedef struct source {
    const char *folder;
    const kn_profile_rules *rules;
    kn_error *err;
} source;

/* Text and paths */

static bool is_key(const kn_toml_entry *e, const char *key) {
    return e->key_len == strlen(key) && !memcmp(e->key, key, e->key_len);
}

static const kn_toml_entry *find(const kn_toml *table, const char *key) {
    return kn_toml_find(table, key, strlen(key));
}

static bool has_control(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F)
            return true;
    }
    return false;
}

static bool join(const char *front, const char *between, const char *rest, char **ret, kn_error *err) {
    size_t room = strlen(front) + strlen(between) + strlen(rest) + 1;
    char *text = malloc(room);
    if (!text)
        return kn_fail_nomem(err, room);
    snprintf(text, room, "%s%s%s", front, between, rest);
    *ret = text;
    return true;
}

static bool copy(const char *text, char **ret, kn_error *err) {
    return join(text, "", "", ret, err);
}

static bool must_be(const source *s, const kn_toml_entry *e, bool is_it, const char *what) {
    return is_it || kn_fail(s->err, KN_E_FORMAT, "line %d: %s must be %s, not %s", e->line,
                            kn_quote(e->key, e->key_len).text, what, kn_toml_kind_name(e->value.kind));
}

/* The string of an entry, neither empty nor with control characters. */
static bool plain_string(const source *s, const kn_toml_entry *e, const char **ret) {
    const kn_toml *v = &e->value;
    if (!must_be(s, e, v->kind == KN_TOML_STRING, "a string"))
        return false;
    if (!v->string.len)
        return kn_fail(s->err, KN_E_FORMAT, "line %d: %s is empty", v->line, e->key);
    if (has_control(v->string.data, v->string.len))
        return kn_fail(s->err, KN_E_FORMAT, "line %d: %s holds a control character: '%s'", v->line, e->key,
                       kn_quote(v->string.data, v->string.len).text);
    *ret = v->string.data;
    return true;
}

/* A leading ~ is the home folder; other relative paths begin in `folder`. */
static bool read_path(const source *s, const kn_toml_entry *e, const char *folder, char **ret) {
    const char *text = NULL;
    if (!plain_string(s, e, &text))
        return false;
    if (text[0] == '~' && (text[1] == '/' || !text[1])) {
        const char *home = getenv("HOME");
        if (!home || !*home)
            return kn_fail(s->err, KN_E_FORMAT, "line %d: %s begins with ~ and HOME is not set", e->value.line, e->key);
        return join(home, "", text + 1, ret, s->err);
    }
    if (text[0] == '/' || !*folder)
        return copy(text, ret, s->err);
    return join(folder, folder[strlen(folder) - 1] == '/' ? "" : "/", text, ret, s->err);
}

/* There are many keys: the list of them is for those who are not close to one. */
static bool unknown_key(const source *s, const kn_toml_entry *e, const char *where, const char *const *known,
                        size_t n) {
    kn_quoted key = kn_quote(e->key, e->key_len);
    const char *meant = kn_suggest(e->key, known, n);
    if (meant)
        return kn_fail(s->err, KN_E_FORMAT, "line %d: unknown key '%s' in %s; did you mean '%s'?", e->line, key.text,
                       where, meant);
    return kn_fail(s->err, KN_E_FORMAT, "line %d: unknown key '%s' in %s%s", e->line, key.text, where,
                   kn_suggest_choice(e->key, known, n).text);
}

/* Settings */

static bool in_range(const source *s, const kn_toml_entry *e, const struct setting *row, double v) {
    if (v >= (double)row->least && v <= (double)row->most)
        return true;
    return kn_fail(s->err, KN_E_RANGE, "line %d: %s must lie between %lld and %lld, not %.10g", e->value.line, row->key,
                   (long long)row->least, (long long)row->most, v);
}

static bool read_setting(const source *s, const kn_toml_entry *e, const struct setting *row, kn_default *ret) {
    const kn_toml *v = &e->value;
    bool is_integer = v->kind == KN_TOML_INTEGER;
    const char *text = NULL;
    ret->given = true;
    ret->line = v->line;
    switch (row->kind) {
    case INTEGER:
        if (!must_be(s, e, is_integer, "an integer") || !in_range(s, e, row, (double)v->integer))
            return false;
        ret->integer = v->integer;
        return true;
    case REAL:
        if (!must_be(s, e, is_integer || v->kind == KN_TOML_FLOAT, "a number"))
            return false;
        ret->real = is_integer ? (double)v->integer : v->real;
        return in_range(s, e, row, ret->real);
    case NAME: return plain_string(s, e, &text) && copy(text, &ret->text, s->err);
    case CHOICE:
        if (!plain_string(s, e, &text))
            return false;
        if (strcmp(text, row->choices[0]) && strcmp(text, row->choices[1]))
            return kn_fail(s->err, KN_E_FORMAT, "line %d: unknown %s '%s'%s", v->line, row->key, kn_quote_z(text).text,
                           kn_suggest_choice(text, row->choices, 2).text);
        return copy(text, &ret->text, s->err);
    case OUTPUT: return read_path(s, e, "", &ret->text); /* as on the command line: relative to the working folder */
    }
    return false;
}

static bool check_dtype(const source *s, const kn_toml_entry *e) {
    const char *text = NULL;
    if (!plain_string(s, e, &text))
        return false;
    return !strcmp(text, "auto") ||
           kn_fail(s->err, KN_E_UNSUPPORTED,
                   "line %d: dtype '%s' is not offered: weights keep their stored type, and precision (fast, exact) "
                   "chooses the arithmetic; leave dtype out or use \"auto\"",
                   e->value.line, kn_quote_z(text).text);
}

static bool read_settings(const source *s, const kn_toml *table, kn_generation_defaults *ret) {
    for (size_t i = 0; i < KN_SETTINGS; i++) {
        const kn_toml_entry *e = find(table, settings[i].key);
        if (e && !read_setting(s, e, &settings[i], &ret->of[i]))
            return false;
    }
    const kn_toml_entry *dtype = find(table, dtype_key);
    return !dtype || check_dtype(s, dtype);
}

static size_t setting_keys(const char **keys) {
    for (size_t i = 0; i < KN_SETTINGS; i++)
        keys[i] = settings[i].key;
    keys[KN_SETTINGS] = dtype_key;
    return KN_SETTINGS + 1;
}

/* Profiles */

static bool only_known(const source *s, const kn_toml *table, const char *where, const char *const *known, size_t n) {
    for (size_t i = 0; i < table->table.n; i++) {
        const kn_toml_entry *e = &table->table.entries[i];
        size_t k = 0;
        while (k < n && !is_key(e, known[k]))
            k++;
        if (k == n)
            return unknown_key(s, e, where, known, n);
    }
    return true;
}

static char **part_of(kn_profile *p, const struct part *row) {
    return (char **)(void *)((char *)p + row->at);
}

static bool read_paths(const source *s, const kn_toml *table, kn_profile *ret) {
    for (size_t i = 0; i < KN_COUNT(parts); i++) {
        const kn_toml_entry *e = find(table, parts[i].key);
        if (e && !read_path(s, e, s->folder, part_of(ret, &parts[i])))
            return false;
    }
    return true;
}

static const kn_profile_architecture *find_architecture(const kn_profile_rules *rules, const char *name) {
    for (size_t i = 0; i < rules->n; i++) {
        if (!strcmp(rules->architectures[i].name, name))
            return &rules->architectures[i];
    }
    return NULL;
}

static bool unknown_architecture(const source *s, int line, const char *name) {
    const char *known[32];
    size_t n = KN_MIN(s->rules->n, KN_COUNT(known));
    for (size_t i = 0; i < n; i++)
        known[i] = s->rules->architectures[i].name;
    if (!name)
        return kn_fail(s->err, KN_E_FORMAT, "line %d: the profile has no architecture%s", line,
                       kn_suggest_choice("", known, n).text);
    return kn_fail(s->err, KN_E_UNSUPPORTED, "line %d: unknown architecture '%s'%s", line, kn_quote_z(name).text,
                   kn_suggest_choice(name, known, n).text);
}

/* Which variant an architecture is to run as. Where there is one only, it need not be named. */
static bool choose_variant(const source *s, const kn_profile_architecture *a, int line, const char *name,
                           const char **ret) {
    size_t n = 0;
    for (; a->variants && a->variants[n]; n++) {
        if (name && !strcmp(a->variants[n], name)) {
            *ret = name;
            return true;
        }
    }
    if (name && !n)
        return kn_fail(s->err, KN_E_UNSUPPORTED, "line %d: unsupported %s variant: %s; %s has no variants", line,
                       a->name, kn_quote_z(name).text, a->name);
    if (name)
        return kn_fail(s->err, KN_E_UNSUPPORTED, "line %d: unsupported %s variant: %s%s", line, a->name,
                       kn_quote_z(name).text, kn_suggest_choice(name, a->variants, n).text);
    if (n > 1)
        return kn_fail(s->err, KN_E_FORMAT, "line %d: the profile has no variant%s", line,
                       kn_suggest_choice("", a->variants, n).text);
    *ret = n ? a->variants[0] : NULL;
    return true;
}

static bool identify(const source *s, const kn_toml_entry *architecture, const kn_toml_entry *variant, int line,
                     kn_profile *ret) {
    const char *name = NULL, *variant_name = NULL;
    if ((architecture && !plain_string(s, architecture, &name)) ||
        (variant && !plain_string(s, variant, &variant_name)))
        return false;
    const kn_profile_architecture *a = name ? find_architecture(s->rules, name) : NULL;
    if (!a)
        return unknown_architecture(s, architecture ? architecture->value.line : line, name);
    return choose_variant(s, a, variant ? variant->value.line : line, variant_name, &variant_name) &&
           copy(name, &ret->architecture, s->err) && (!variant_name || copy(variant_name, &ret->variant, s->err));
}

/* There must be something to load, in a form that the architecture can be loaded from. */
static bool check_files(const source *s, const kn_toml *table, const kn_profile *p) {
    const kn_toml_entry *checkpoint = find(table, "checkpoint");
    if (checkpoint && !find_architecture(s->rules, p->architecture)->takes_checkpoint)
        return kn_fail(s->err, KN_E_UNSUPPORTED,
                       "line %d: %s needs separate files (diffusion_model, text_encoder, vae); a checkpoint "
                       "that holds them all is not supported",
                       checkpoint->line, p->architecture);
    if (!p->checkpoint && !p->diffusion_model && !p->text_encoder && !p->vision && !p->vae)
        return kn_fail(s->err, KN_E_FORMAT,
                       "line %d: profile '%s' names no files; give diffusion_model, text_encoder and vae, or a "
                       "checkpoint",
                       p->line, kn_quote_z(p->name).text);
    return true;
}

static bool read_profile(const source *s, const kn_toml_entry *e, kn_profile *ret) {
    if (!e->key_len)
        return kn_fail(s->err, KN_E_FORMAT, "line %d: a profile needs a name, this one's is empty", e->line);
    if (has_control(e->key, e->key_len))
        return kn_fail(s->err, KN_E_FORMAT, "line %d: the profile name '%s' holds a control character", e->line,
                       kn_quote(e->key, e->key_len).text);
    if (e->key_len > KN_PROFILE_NAME_BYTES_MAX)
        return kn_fail(s->err, KN_E_RANGE, "line %d: the profile name '%s' has %zu bytes, at most %d are allowed",
                       e->line, kn_quote(e->key, e->key_len).text, e->key_len, KN_PROFILE_NAME_BYTES_MAX);
    if (!must_be(s, e, e->value.kind == KN_TOML_TABLE, "a table, as in [model_profiles.NAME]"))
        return false;

    const char *known[2 + KN_COUNT(parts) + KN_SETTINGS + 1] = { "architecture", "variant" };
    size_t n = 2;
    for (size_t i = 0; i < KN_COUNT(parts); i++)
        known[n++] = parts[i].key;
    n += setting_keys(known + n);
    char where[300];
    snprintf(where, sizeof where, "[model_profiles.%s]", kn_quote(e->key, e->key_len).text);

    const kn_toml *table = &e->value;
    ret->line = e->line;
    return only_known(s, table, where, known, n) && copy(e->key, &ret->name, s->err) &&
           identify(s, find(table, "architecture"), find(table, "variant"), e->line, ret) &&
           read_paths(s, table, ret) && check_files(s, table, ret) && read_settings(s, table, &ret->defaults);
}

/* [models]: one profile of fixed name and architecture. Without paths it is an empty form and no profile. */
static bool read_legacy(const source *s, const kn_toml_entry *e, kn_profiles *p) {
    if (!must_be(s, e, e->value.kind == KN_TOML_TABLE, "a table"))
        return false;
    const char *known[KN_COUNT(parts)];
    size_t n = 0;
    for (size_t i = 0; i < KN_COUNT(parts); i++) {
        if (parts[i].in_legacy)
            known[n++] = parts[i].key;
    }
    if (!only_known(s, &e->value, "[models]", known, n))
        return false;
    if (!e->value.table.n)
        return true;
    const kn_profile *twin = kn_profiles_find(p, legacy_name);
    if (twin && twin != p->builtin)
        return kn_fail(s->err, KN_E_FORMAT,
                       "line %d: [models] makes a profile '%s', which line %d makes already; rename "
                       "that one",
                       e->line, legacy_name, twin->line);
    const kn_profile_architecture *a = find_architecture(s->rules, legacy_architecture);
    if (!a)
        return kn_fail(s->err, KN_E_UNSUPPORTED, "line %d: [models] stands for a %s model, which is not supported",
                       e->line, legacy_architecture);
    kn_profile *ret = &p->profiles[p->n++];
    ret->line = e->line;
    p->legacy = ret;
    return copy(legacy_name, &ret->name, s->err) && copy(legacy_architecture, &ret->architecture, s->err) &&
           copy(legacy_variant, &ret->variant, s->err) && read_paths(s, &e->value, ret) &&
           check_files(s, &e->value, ret);
}

/* The file */

/* The names that a command may choose from, in a list that the caller frees. */
static bool all_names(const kn_profiles *p, const char ***ret, size_t *ret_n, kn_error *err) {
    const char **names = calloc(p->n + 1, sizeof *names);
    if (!names)
        return kn_fail_nomem(err, (p->n + 1) * sizeof *names);
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        names[n++] = p->profiles[i].name;
    if (p->builtin && kn_profiles_find(p, p->builtin->name) == p->builtin)
        names[n++] = p->builtin->name;
    *ret = names;
    *ret_n = n;
    return true;
}

/* Fails with the message and the names that there are. */
static bool no_such_profile(const kn_profiles *p, const char *name, const char *message, kn_error *err) {
    const char **names = NULL;
    size_t n = 0;
    if (!all_names(p, &names, &n, err))
        return false;
    kn_fail(err, KN_E_NOT_FOUND, "%s%s", message, n ? kn_suggest_choice(name, names, n).text : "; none is configured");
    free(names);
    return false;
}

static bool unknown_profile(const kn_profiles *p, const char *name, kn_error *err) {
    char message[300];
    snprintf(message, sizeof message, "unknown model profile '%s'", kn_quote_z(name).text);
    return no_such_profile(p, name, message, err);
}

static bool read_default_model(const source *s, const kn_toml_entry *e, kn_profiles *p) {
    const char *name = NULL;
    if (!plain_string(s, e, &name))
        return false;
    if (kn_profiles_find(p, name))
        return copy(name, &p->default_model, s->err);
    unknown_profile(p, name, s->err);
    return kn_fail_within(s->err, "line %d: default_model", e->value.line);
}

static bool read_generation(const source *s, const kn_toml_entry *e, kn_generation_defaults *ret) {
    const char *known[KN_SETTINGS + 1];
    size_t n = setting_keys(known);
    return must_be(s, e, e->value.kind == KN_TOML_TABLE, "a table") &&
           only_known(s, &e->value, "[generation]", known, n) && read_settings(s, &e->value, ret);
}

static bool read_document(const source *s, const kn_toml *document, kn_profiles *p) {
    if (!only_known(s, document, "the file", root_keys, KN_COUNT(root_keys)))
        return false;
    const kn_toml_entry *named = find(document, "model_profiles"), *legacy = find(document, "models");
    const kn_toml_entry *generation = find(document, "generation"), *chosen = find(document, "default_model");
    if (named &&
        !must_be(s, named, named->value.kind == KN_TOML_TABLE, "a table of profiles, as in [model_profiles.NAME]"))
        return false;
    size_t most = (named ? named->value.table.n : 0) + 1;
    p->profiles = calloc(most, sizeof *p->profiles);
    if (!p->profiles)
        return kn_fail_nomem(s->err, most * sizeof *p->profiles);
    for (size_t i = 0; named && i < named->value.table.n; i++) {
        if (!read_profile(s, &named->value.table.entries[i], &p->profiles[p->n++]))
            return false;
    }
    if ((legacy && !read_legacy(s, legacy, p)) || (generation && !read_generation(s, generation, &p->generation)))
        return false;
    return !chosen || read_default_model(s, chosen, p);
}

bool kn_profiles_read_text(const char *text, size_t len, const char *folder, const kn_profile_rules *rules,
                           kn_profiles *ret, kn_error *err) {
    kn_toml document = { 0 };
    if (!kn_toml_read(text, len, KN_PROFILES_BYTES_MAX, &document, err))
        return false;
    source s = { .folder = folder, .rules = rules, .err = err };
    kn_profiles p = { .builtin = rules->builtin };
    bool ok = read_document(&s, &document, &p);
    kn_toml_free(&document);
    if (!ok) {
        kn_profiles_free(&p);
        return false;
    }
    *ret = p;
    return true;
}

/* The XDG specification wants relative folders ignored. */
bool kn_profiles_place(char **ret, kn_error *err) {
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config && *config == '/')
        return join(config, "/", "kuno/models.toml", ret, err);
    if (home && *home)
        return join(home, "/", ".config/kuno/models.toml", ret, err);
    *ret = NULL;
    return true;
}

kn_edition kn_profiles_edition(const char *path) {
    char *place = NULL;
    if (!path && kn_profiles_place(&place, NULL))
        path = place;
    kn_edition e = kn_edition_of(path);
    free(place);
    return e;
}

bool kn_profiles_read(const char *path, const kn_profile_rules *rules, kn_profiles *ret, kn_error *err) {
    char *place = NULL;
    if (!(path ? copy(path, &place, err) : kn_profiles_place(&place, err)))
        return false;
    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_PROFILES_BYTES_MAX);
    kn_error why = { 0 };
    bool is_read = place && kn_file_read(place, KN_PROFILES_BYTES_MAX, &text, &why);
    if (!is_read && !path && (!place || why.code == KN_E_NOT_FOUND)) {
        free(place);
        return kn_profiles_read_text("", 0, "", rules, ret, err); /* no file says as much as an empty one */
    }
    char *folder = NULL;
    bool ok = is_read && copy(place, &folder, &why);
    if (ok) {
        char *slash = strrchr(folder, '/');
        folder[slash ? slash - folder + 1 : 0] = 0;
        ok = kn_profiles_read_text(text.data, text.len, folder, rules, ret, &why);
    }
    if (!ok) {
        kn_fail(err, why.code, "%s", why.text);
        kn_fail_within(err, "%s", kn_quote_path(place).text);
    }
    free(folder);
    free(place);
    return ok;
}

static void free_defaults(kn_generation_defaults *d) {
    for (size_t i = 0; i < KN_SETTINGS; i++)
        free(d->of[i].text);
}

void kn_profiles_free(kn_profiles *p) {
    for (size_t i = 0; i < p->n; i++) {
        kn_profile *one = &p->profiles[i];
        free(one->name);
        free(one->architecture);
        free(one->variant);
        for (size_t k = 0; k < KN_COUNT(parts); k++)
            free(*part_of(one, &parts[k]));
        free_defaults(&one->defaults);
    }
    free(p->profiles);
    free(p->default_model);
    free_defaults(&p->generation);
    *p = (kn_profiles){ 0 };
}

/* The choice */

const kn_profile *kn_profiles_find(const kn_profiles *p, const char *name) {
    for (size_t i = 0; i < p->n; i++) {
        if (!strcmp(p->profiles[i].name, name))
            return &p->profiles[i];
    }
    return p->builtin && !strcmp(p->builtin->name, name) ? p->builtin : NULL;
}

bool kn_profiles_select(const kn_profiles *p, const char *name, const kn_profile **ret, kn_error *err) {
    const char *wanted = name ? name : p->default_model;
    const kn_profile *found = wanted ? kn_profiles_find(p, wanted) : p->legacy;
    if (!found && wanted)
        return unknown_profile(p, wanted, err);
    if (!found && p->n)
        return no_such_profile(p, "", "no model is chosen; give --model-profile NAME or set default_model", err);
    if (!found)
        found = p->builtin;
    if (!found)
        return kn_fail(err, KN_E_NOT_FOUND,
                       "no model is configured; write a [model_profiles.NAME] table into models.toml");
    *ret = found;
    return true;
}

kn_generation_defaults kn_profiles_defaults(const kn_profiles *p, const kn_profile *profile) {
    kn_generation_defaults d = profile->defaults;
    for (size_t i = 0; i < KN_SETTINGS; i++) {
        if (!d.of[i].given)
            d.of[i] = p->generation.of[i];
    }
    return d;
}
