#include "pipelines/collection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "pipelines/config_json.h"
#include "text/tokenizer.h"

_Static_assert(KN_PLACES <= 8, "a bit for each place");

enum { MOST_TRIED = 8 }; /* files for one place of one model */

static const kn_slot *slot_of(const kn_architecture *a, kn_place place) {
    const kn_slot *const slots[KN_PLACES] = { a->diffusion_model, a->text_encoder, a->vision, a->vae };
    return slots[place];
}

/* A profile is text; such a name cannot stand in it. */
static bool can_be_written(const char *path) {
    size_t len = strlen(path);
    bool plain = kn_utf8_check(path, len) == len;
    for (size_t i = 0; i < len; i++)
        plain &= (unsigned char)path[i] >= 0x20 && path[i] != 0x7F;
    return plain;
}

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- single files ---- */

static void find_places(kn_collected_file *f, const kn_source *source) {
    kn_error wanted = { 0 };
    bool fits = false;
    for (size_t i = 0; i < kn_architecture_count; i++) {
        for (kn_place place = 0; place < KN_PLACES; place++) {
            const kn_slot *slot = slot_of(&kn_architectures[i], place);
            kn_error err = { 0 };
            if (slot && kn_inspect_fit(slot, source, &err))
                f->fits[i] |= (unsigned char)(1 << place);
            else if (slot && strcmp(slot->id, f->kind->id) == 0 && wanted.code == KN_OK)
                wanted = err;
        }
        fits |= f->fits[i] != 0;
    }
    if (!fits)
        f->problem = wanted;
}

/* People write into the name what no header tells, and authors into the config.json. */
static bool says_vl(const char *path) {
    kn_vl_config config;
    bool told = kn_vl_config_read_beside(path, &config, NULL) && config.sections[0] > 0;
    return told || strcasestr(base_of(path), "vl");
}

static void look_at(kn_collected_file *f, const char *path) {
    const kn_source source = { .path = path };
    kn_inspection found = { 0 };
    f->path = path;
    if (!can_be_written(path)) {
        kn_fail(&f->problem, KN_E_FORMAT,
                "models.toml cannot hold its name: it has control characters or is not UTF-8");
        return;
    }
    if (kn_shard_stem(base_of(path))) {
        kn_fail(&f->problem, KN_E_NOT_FOUND,
                "is one shard of a split model, whose index (….safetensors.index.json) is missing");
        return;
    }
    if (!kn_inspect_file(&source, NULL, &found, &f->problem))
        return;
    f->kind = found.kind;
    f->says_vl = says_vl(path);
    if (f->kind && f->kind->role != KN_ROLE_OTHER)
        find_places(f, &source);
}

static void look_at_tokenizer(kn_collected_tokenizer *t, const char *path) {
    kn_tokenizer *opened = NULL;
    t->path = path;
    if (can_be_written(path) && kn_tokenizer_open(path, &opened, NULL))
        t->tokens = kn_tokenizer_size(opened);
    kn_tokenizer_close(opened);
}

/* One that has too many tokens for a text encoder is refused later; one that has too few would look as if it fitted. */
static int by_tokens(const void *a, const void *b) {
    const kn_collected_tokenizer *x = a, *y = b;
    return x->tokens != y->tokens ? (x->tokens < y->tokens ? 1 : -1) : strcmp(x->path, y->path);
}

/* ---- names ---- */

/* How people call a model: as its file, or as the folder that has it in the layout of diffusers, where files are called
 * alike in all models. "Z-Image-Turbo/transformer/diffusion_pytorch_model.safetensors" -> "Z-Image-Turbo" */
typedef struct label {
    char text[160];
} label;

static bool is_of_layout(const char *name, size_t len) {
    static const char *const names[] = { "model", "transformer", "text_encoder", "snapshots" };
    static const char file[] = "diffusion_pytorch_model";
    enum { REVISION = 40 }; /* hexadecimal digits of a folder in "snapshots" */
    bool is =
        strncmp(name, file, strlen(file)) == 0 || (len == REVISION && strspn(name, "0123456789abcdef") >= REVISION);
    for (size_t i = 0; i < KN_COUNT(names); i++)
        is |= len == strlen(names[i]) && strncmp(name, names[i], len) == 0;
    return is;
}

static label label_of(const char *path) {
    const char *name = base_of(path), *end = strstr(name, ".safetensors");
    label l;
    end = end ? end : strrchr(name, '.');
    end = end && end > name ? end : name + strlen(name);
    while (name > path + 1 && is_of_layout(name, (size_t)(end - name))) {
        end = name - 1;
        for (name = end; name > path && name[-1] != '/';)
            name--;
    }
    if (strncmp(name, "models--", 8) == 0) /* of Hugging Face's cache: "models--Qwen--Qwen-Image" */
        for (const char *at = name; (at = strstr(at, "--")) && at < end;)
            name = at += 2;
    snprintf(l.text, sizeof l.text, "%.*s", (int)(end - name), name);
    return l;
}

/* "Krea2 Turbo_fp8" -> "krea2-turbo-fp8" */
static void make_name(const char *path, char *name, size_t room) {
    label l = label_of(path);
    size_t n = 0;
    for (const char *at = l.text; *at && n + 8 < room; at++) { /* leaves room for a number */
        char c = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (plain || (n > 0 && name[n - 1] != '-'))
            name[n++] = plain ? c : '-';
    }
    while (n > 0 && name[n - 1] == '-')
        n--;
    name[n] = 0;
    if (n == 0)
        snprintf(name, room, "model");
}

static bool is_taken(const kn_collection *c, const char *name) {
    bool taken = strcmp(name, "demo") == 0;
    for (size_t i = 0; i < c->model_count; i++)
        taken |= strcmp(c->models[i].name, name) == 0;
    return taken;
}

static void choose_name(const kn_collection *c, kn_collected_model *m, const char *path) {
    make_name(path, m->name, sizeof m->name);
    size_t len = strlen(m->name);
    for (unsigned i = 2; is_taken(c, m->name) && i < 100000; i++)
        snprintf(m->name + len, sizeof m->name - len, "-%u", i);
}

/* What a model was trained for is in no header; people write it into names. */
static void choose_variant(kn_collected_model *m, const char *path) {
    const kn_architecture *a = m->architecture;
    label l = label_of(path);
    m->variant = &a->variants[0];
    m->variant_is_guess = a->variant_count > 1;
    for (size_t i = 0; i < a->variant_count; i++) {
        if (strcasestr(l.text, a->variants[i].name)) {
            m->variant = &a->variants[i];
            m->variant_is_guess = false;
        }
    }
}

/* ---- what belongs together ---- */

/* How much two paths have in common, in whole folders; a file is nearest to itself. b may be a folder. */
static size_t nearness(const char *a, const char *b) {
    size_t same = 0, i = 0;
    for (; a[i] && a[i] == b[i]; i++)
        if (a[i] == '/')
            same = i;
    if (a[i] == '/' && !b[i])
        same = i;
    return a[i] == b[i] ? SIZE_MAX : same;
}

struct choice {
    const char *path[MOST_TRIED];
    size_t count;
};

/* Keeps the nearest ones, those that are equally near in the order in which they come. */
static void offer(struct choice *c, const char *near, const char *path) {
    size_t at = c->count;
    while (at > 0 && nearness(near, c->path[at - 1]) < nearness(near, path))
        at--;
    if (at == MOST_TRIED)
        return;
    c->count = KN_MIN(c->count + 1, MOST_TRIED);
    for (size_t i = c->count - 1; i > at; i--)
        c->path[i] = c->path[i - 1];
    c->path[at] = path;
}

/* Whether a text encoder is more likely another one than what is wanted: no header tells Qwen3 from Qwen3-VL. */
static bool is_doubtful(const kn_collected_file *f, const kn_slot *wanted) {
    return strcmp(f->kind->id, "qwen3") == 0 && f->says_vl != (strstr(wanted->id, "-vl") != NULL);
}

/* Of equally near ones, files of their own go before all-in-one files, and those before doubtful ones. */
static struct choice choices_for(const kn_collection *c, size_t architecture, kn_place place, const char *near) {
    const kn_slot *slot = slot_of(&kn_architectures[architecture], place);
    struct choice found = { .count = 0 };
    for (unsigned rank = 0; rank < 4; rank++) {
        for (size_t i = 0; i < c->tree.files.count; i++) {
            const kn_collected_file *f = &c->files[i];
            unsigned in_one = f->fits[architecture] >> KN_PLACE_DIFFUSION & 1;
            if ((f->fits[architecture] >> place & 1) && 2U * is_doubtful(f, slot) + in_one == rank)
                offer(&found, near, f->path);
        }
    }
    return found;
}

static bool text_is_doubtful(const kn_collection *c, const kn_collected_model *m) {
    bool doubtful = false;
    for (size_t i = 0; i < c->tree.files.count; i++)
        if (c->files[i].path == m->part[KN_PLACE_TEXT])
            doubtful = is_doubtful(&c->files[i], m->architecture->text_encoder);
    return doubtful;
}

/* Whether a tokenizer lies with a text encoder: in its folder or, as diffusers has it, in the one next to it. */
static bool is_with(const char *tokenizer, const char *text) {
    static const char folder[] = "/text_encoder", sibling[] = "/tokenizer";
    size_t len = (size_t)(base_of(text) - text) - 1, stem = len - KN_MIN(len, sizeof folder - 1);
    if (strncmp(text, tokenizer, len) == 0 && !tokenizer[len])
        return true;
    return strncmp(text + stem, folder, len - stem) == 0 && strncmp(text, tokenizer, stem) == 0 &&
           strcmp(tokenizer + stem, sibling) == 0;
}

/* What to try: what lies with the text encoder, the built-in one (NULL), and what lies elsewhere, nearest first. */
static struct choice tokenizers_for(const kn_collection *c, const char *text) {
    struct choice with = { .count = 0 }, elsewhere = { .count = 0 };
    for (size_t i = 0; i < c->tree.tokenizers.count; i++)
        if (c->tokenizers[i].tokens > 0)
            offer(is_with(c->tokenizers[i].path, text) ? &with : &elsewhere, text, c->tokenizers[i].path);
    if (with.count == MOST_TRIED)
        return with;
    with.path[with.count++] = NULL;
    for (size_t i = 0; i < elsewhere.count && with.count < MOST_TRIED; i++)
        with.path[with.count++] = elsewhere.path[i];
    return with;
}

static bool opens(const kn_collected_model *m, kn_device *device, kn_error *err) {
    const kn_model_files files = { .diffusion_model = { .path = m->part[KN_PLACE_DIFFUSION] },
                                   .text_encoder = { .path = m->part[KN_PLACE_TEXT] },
                                   .vae = { .path = m->part[KN_PLACE_VAE] },
                                   .vision = { .path = m->part[KN_PLACE_VISION] },
                                   .tokenizer = { .path = m->tokenizer } };
    kn_pipeline *p = NULL;
    if (!kn_pipeline_open(m->architecture, &files, device, KN_FAST, KN_STAGED, &p, err))
        return false;
    kn_pipeline_close(p);
    return true;
}

/* Until a text encoder and a tokenizer are found with which the model opens; they decide. If none does, what is told is
 * why the nearest text encoder cannot be used, with the tokenizer that is least likely to be the reason. */
static void choose_text(const kn_collection *c, kn_collected_model *m, const struct choice *texts, kn_device *device) {
    kn_error why = { 0 };
    for (size_t i = 0; i < texts->count; i++) {
        struct choice tokenizers = tokenizers_for(c, texts->path[i]);
        m->part[KN_PLACE_TEXT] = texts->path[i];
        for (size_t k = 0; k < tokenizers.count; k++) {
            kn_error err = { 0 };
            m->tokenizer = tokenizers.path[k];
            if (opens(m, device, &err))
                return;
            if (i == 0)
                why = err;
        }
    }
    m->problem = why;
}

/* Not having one is no problem: the model then takes no pictures. */
static void choose_vision(const kn_collection *c, kn_collected_model *m, size_t architecture, kn_device *device) {
    const char *text = m->part[KN_PLACE_TEXT];
    struct choice found = choices_for(c, architecture, KN_PLACE_VISION, text);
    for (size_t i = 0; i < found.count && strcmp(found.path[0], text) != 0; i++) { /* else it is in that file */
        m->part[KN_PLACE_VISION] = found.path[i];
        if (opens(m, device, NULL))
            return;
        m->part[KN_PLACE_VISION] = NULL;
    }
}

static void complete(const kn_collection *c, kn_collected_model *m, size_t architecture, kn_device *device) {
    const kn_architecture *a = m->architecture;
    const char *own = m->part[KN_PLACE_DIFFUSION];
    struct choice texts = choices_for(c, architecture, KN_PLACE_TEXT, own);
    struct choice vaes = choices_for(c, architecture, KN_PLACE_VAE, own);
    size_t n = 0;
    if (texts.count == 0)
        m->missing[n++] = a->text_encoder->wants;
    if (vaes.count == 0)
        m->missing[n++] = a->vae->wants;
    if (n > 0)
        return;
    m->part[KN_PLACE_VAE] = vaes.path[0];
    choose_text(c, m, &texts, device);
    if (m->problem.code == KN_OK && a->vision)
        choose_vision(c, m, architecture, device);
    m->text_is_guess = text_is_doubtful(c, m);
    m->in_one = a->checkpoint_in_one && strcmp(own, m->part[KN_PLACE_TEXT]) == 0 && strcmp(own, vaes.path[0]) == 0;
}

static bool add_models(kn_collection *c, const kn_collected_file *f, size_t *room, kn_device *device, kn_error *err) {
    for (size_t i = 0; i < kn_architecture_count; i++) {
        if (!(f->fits[i] >> KN_PLACE_DIFFUSION & 1))
            continue;
        kn_collected_model *all = kn_array_grow(c->models, c->model_count, room, sizeof *all, err);
        if (!all)
            return false;
        c->models = all;
        kn_collected_model m = { .architecture = &kn_architectures[i], .part = { f->path } };
        choose_name(c, &m, f->path);
        choose_variant(&m, f->path);
        complete(c, &m, i, device);
        all[c->model_count++] = m;
    }
    return true;
}

bool kn_collection_make(const char *folder, kn_collection *ret, kn_error *err) {
    kn_collection c = { 0 };
    kn_device *device = NULL;
    size_t room = 0;
    if (!kn_model_tree_read(folder, 0, &c.tree, err))
        return false;
    c.files = calloc(c.tree.files.count + 1, sizeof *c.files);
    c.tokenizers = calloc(c.tree.tokenizers.count + 1, sizeof *c.tokenizers);
    bool ok = ((c.files && c.tokenizers) || kn_fail_nomem(err, c.tree.files.count * sizeof *c.files)) &&
              kn_device_open_cpu(1, &device, err);
    for (size_t i = 0; ok && i < c.tree.files.count; i++)
        look_at(&c.files[i], c.tree.files.at[i]);
    for (size_t i = 0; ok && i < c.tree.tokenizers.count; i++)
        look_at_tokenizer(&c.tokenizers[i], c.tree.tokenizers.at[i]);
    if (ok)
        qsort(c.tokenizers, c.tree.tokenizers.count, sizeof *c.tokenizers, by_tokens);
    for (size_t i = 0; ok && i < c.tree.files.count; i++)
        ok = add_models(&c, &c.files[i], &room, device, err);
    kn_device_close(device);
    if (ok)
        *ret = c;
    else
        kn_collection_free(&c);
    return ok;
}

void kn_collection_free(kn_collection *c) {
    kn_model_tree_free(&c->tree);
    free(c->files);
    free(c->tokenizers);
    free(c->models);
    *c = (kn_collection){ 0 };
}

bool kn_collected_is_complete(const kn_collected_model *m) {
    return !m->missing[0] && m->problem.code == KN_OK;
}

/* ---- the profile ---- */

/* As a TOML string; control characters are not in it. */
static bool add_path(kn_buf *b, const char *key, const char *path) {
    bool ok = kn_buf_printf(b, "\n%s = \"", key);
    for (; ok && *path; path++) {
        bool special = *path == '"' || *path == '\\';
        ok = (!special || kn_buf_add_text(b, "\\")) && kn_buf_add(b, path, 1);
    }
    return ok && kn_buf_add_text(b, "\"");
}

static bool add_variant(kn_buf *b, const kn_collected_model *m) {
    const kn_architecture *a = m->architecture;
    bool ok = kn_buf_printf(b, "\nvariant = \"%s\"", m->variant->name);
    for (size_t i = 0; ok && m->variant_is_guess && i < a->variant_count; i++)
        ok = kn_buf_printf(b, "%s%s", i ? ", " : "  # the file's name does not tell; known: ", a->variants[i].name);
    return ok;
}

bool kn_collected_profile(const kn_collected_model *m, kn_buf *into) {
    static const char *const keys[KN_PLACES] = { "diffusion_model", "text_encoder", "vision", "vae" };
    const kn_architecture *a = m->architecture;
    bool ok = kn_buf_printf(into, "[model_profiles.%s]\narchitecture = \"%s\"", m->name, a->name) &&
              add_variant(into, m) && (!m->in_one || add_path(into, "checkpoint", m->part[KN_PLACE_DIFFUSION]));
    for (kn_place i = 0; ok && !m->in_one && i < KN_PLACES; i++) {
        ok = !m->part[i] || add_path(into, keys[i], m->part[i]);
        if (i == KN_PLACE_TEXT && m->text_is_guess)
            ok = ok &&
                 kn_buf_printf(into, "  # make sure that it is %s: its header does not tell", a->text_encoder->wants);
    }
    return ok && (!m->tokenizer || add_path(into, "tokenizer", m->tokenizer)) && kn_buf_add_text(into, "\n");
}
