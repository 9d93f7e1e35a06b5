#include "catalog/collections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_form.h"
#include "base/text.h"
#include "pipelines/registry.h"

enum { TITLE_BYTES = 200, PLACE_BYTES = 400, REVISION_DIGITS = 40 };

/* collections.S */
extern const char kn_collections_text[], kn_collections_text_end[];

/* ---- texts with rules ---- */

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* false: there is none, and the reader has failed. */
static bool take_text(kn_form *f, size_t max, char **ret) {
    kn_json_text text;
    if (!kn_form_text(f, 1, max, &text))
        return false;
    *ret = strndup(text.data, text.len);
    if (!*ret)
        kn_form_fail(f, KN_E_NOMEM, "not enough memory");
    return *ret;
}

/* Nothing but these characters, and none of `.-_` in front: it may become a part of a path and of an address. */
static bool take_word(kn_form *f, size_t max, const char *characters, char **ret) {
    if (!take_text(f, max, ret))
        return false;
    return (!(*ret)[strspn(*ret, characters)] && !strchr("._-", (*ret)[0])) ||
           kn_form_fail(f, KN_E_FORMAT, "'%s' has characters that it may not have", kn_quote_z(*ret).text);
}

static bool take_id(kn_form *f, char **ret) {
    return take_word(f, KN_ARTIFACT_ID_BYTES - 1, LOWER "._-", ret);
}

/* Names with single slashes between; none begins with a dot. */
static void take_place(kn_form *f, size_t slashes_min, size_t slashes_max, char **ret) {
    size_t slashes = 0;
    if (!take_word(f, PLACE_BYTES, LOWER UPPER "._-/", ret))
        return;
    const char *place = *ret;
    bool plain = place[0] != '/';
    for (size_t i = 0; place[i]; i++) {
        slashes += place[i] == '/';
        plain = plain && !(place[i] == '/' && (place[i + 1] == '/' || place[i + 1] == '.'));
    }
    if (!plain)
        kn_form_fail(f, KN_E_FORMAT, "'%s' is no plain path", kn_quote_z(place).text);
    else if (slashes < slashes_min || slashes > slashes_max || place[strlen(place) - 1] == '/')
        kn_form_fail(f, KN_E_FORMAT, "'%s' has too few or too many parts", kn_quote_z(place).text);
}

static void take_address(kn_form *f, char **ret) {
    if (take_text(f, PLACE_BYTES, ret) &&
        (strncmp(*ret, "https://", 8) != 0 || !(*ret)[8] || (*ret)[strcspn(*ret, " \"<>\\^`{|}?#@")]))
        kn_form_fail(f, KN_E_FORMAT, "'%s' is no plain https address", kn_quote_z(*ret).text);
}

static void take_hex(kn_form *f, size_t digits, char *ret) {
    kn_json_text text;
    if (!kn_form_text(f, digits, digits, &text))
        return;
    if (kn_text_is_hex(text.data, text.len))
        memcpy(ret, text.data, text.len);
    else
        kn_form_fail(f, KN_E_FORMAT, "%zu hexadecimal digits in lower case are expected", digits);
}

/* ---- parts of the document ---- */

static const kn_licence *licence_named(const kn_collections *c, const char *id) {
    for (size_t i = 0; i < c->licence_count; i++)
        if (!strcmp(c->licences[i].id, id))
            return &c->licences[i];
    return NULL;
}

const kn_artifact *kn_artifact_named(const kn_collections *c, const char *id) {
    for (size_t i = 0; i < c->artifact_count; i++)
        if (!strcmp(c->artifacts[i].id, id))
            return &c->artifacts[i];
    return NULL;
}

const kn_collection *kn_collection_named(const kn_collections *c, const char *id) {
    for (size_t i = 0; i < c->collection_count; i++)
        if (!strcmp(c->collections[i].id, id))
            return &c->collections[i];
    return NULL;
}

/* Whether there is room for another entry of a list. */
static bool has_room(kn_form *f, size_t count, size_t max) {
    return count < max || kn_form_fail(f, KN_E_RANGE, "more than %zu entries", max);
}

static void read_domain(kn_form *f, kn_collections *c) {
    if (has_room(f, c->domain_count, KN_DOMAINS_MAX))
        take_word(f, PLACE_BYTES, LOWER ".-", &c->domains[c->domain_count++]);
}

enum { LICENCE_ID, LICENCE_TITLE, LICENCE_PAGE };
static const char *const licence_keys[] = { [LICENCE_ID] = "id", [LICENCE_TITLE] = "title", [LICENCE_PAGE] = "page" };

static void read_licence(kn_form *outer, kn_collections *c) {
    kn_form f;
    if (!has_room(outer, c->licence_count, KN_LICENCES_MAX))
        return;
    kn_licence *l = &c->licences[c->licence_count];
    kn_form_open(&f, outer->j, outer, licence_keys, KN_COUNT(licence_keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case LICENCE_ID: take_id(&f, &l->id); break;
        case LICENCE_TITLE: take_text(&f, TITLE_BYTES, &l->title); break;
        case LICENCE_PAGE: take_address(&f, &l->page); break;
        }
    }
    for (int key = 0; key < (int)KN_COUNT(licence_keys); key++)
        kn_form_need(&f, key);
    if (!outer->j->failed && licence_named(c, l->id))
        kn_form_fail(outer, KN_E_FORMAT, "'%s' is there twice", l->id);
    c->licence_count++; /* also what is not complete is freed */
}

enum { ID, TITLE, ROLE, LICENCE, REPOSITORY, REVISION, PATH, FOLDER, BYTES, SHA256 };
static const char *const artifact_keys[] = {
    [ID] = "id",           [TITLE] = "title",           [ROLE] = "role",
    [LICENCE] = "licence", [REPOSITORY] = "repository", [REVISION] = "revision",
    [PATH] = "path",       [FOLDER] = "folder",         [BYTES] = "bytes",
    [SHA256] = "sha256",
};

static void take_licence(kn_form *f, const kn_collections *c, const kn_licence **ret) {
    char *id = NULL;
    if (take_id(f, &id) && !(*ret = licence_named(c, id)))
        kn_form_fail(f, KN_E_FORMAT, "there is no licence '%s' above", id);
    free(id);
}

static void take_revision(kn_form *f, char **ret) {
    if (take_text(f, REVISION_DIGITS, ret) &&
        !(strlen(*ret) == REVISION_DIGITS && kn_text_is_hex(*ret, REVISION_DIGITS)))
        kn_form_fail(f, KN_E_FORMAT, "%d hexadecimal digits in lower case are expected", REVISION_DIGITS);
}

static void read_artifact(kn_form *outer, kn_collections *c) {
    kn_form f;
    if (!has_room(outer, c->artifact_count, KN_ARTIFACTS_MAX))
        return;
    kn_artifact *a = &c->artifacts[c->artifact_count];
    kn_form_open(&f, outer->j, outer, artifact_keys, KN_COUNT(artifact_keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case ID: take_id(&f, &a->id); break;
        case TITLE: take_text(&f, TITLE_BYTES, &a->title); break;
        case ROLE: take_word(&f, KN_ARTIFACT_ID_BYTES, LOWER "_", &a->role); break;
        case LICENCE: take_licence(&f, c, &a->licence); break;
        case REPOSITORY: take_place(&f, 1, 1, &a->repository); break;
        case REVISION: take_revision(&f, &a->revision); break;
        case PATH: take_place(&f, 0, 8, &a->path); break;
        case FOLDER: take_word(&f, KN_ARTIFACT_ID_BYTES, LOWER "_", &a->folder); break;
        case BYTES: kn_form_u64(&f, 1, KN_ARTIFACT_BYTES_MAX, &a->bytes); break;
        case SHA256: take_hex(&f, KN_SHA256_HEX - 1, a->sha256); break;
        }
    }
    for (int key = 0; key < (int)KN_COUNT(artifact_keys); key++)
        kn_form_need(&f, key);
    if (!outer->j->failed) {
        const char *slash = strrchr(a->path, '/');
        a->name = slash ? slash + 1 : a->path;
        if (kn_artifact_named(c, a->id))
            kn_form_fail(outer, KN_E_FORMAT, "'%s' is there twice", a->id);
    }
    c->artifact_count++;
}

enum { COLLECTION_ID, COLLECTION_TITLE, COLLECTION_MODEL, COLLECTION_VARIANT, COLLECTION_ARTIFACTS };
static const char *const collection_keys[] = {
    [COLLECTION_ID] = "id",           [COLLECTION_TITLE] = "title",         [COLLECTION_MODEL] = "model",
    [COLLECTION_VARIANT] = "variant", [COLLECTION_ARTIFACTS] = "artifacts",
};

static void take_model(kn_form *f, const kn_architecture **ret) {
    char *name = NULL;
    if (take_id(f, &name) && !(*ret = kn_architecture_find(name)))
        kn_form_fail(f, KN_E_FORMAT, "there is no model '%s'", kn_quote_z(name).text);
    free(name);
}

static void read_part(kn_form *f, const kn_collections *all, kn_collection *c) {
    char *id = NULL;
    if (!has_room(f, c->count, KN_COLLECTION_PARTS_MAX))
        return;
    if (take_id(f, &id)) {
        const kn_artifact *a = kn_artifact_named(all, id);
        if (a)
            c->artifacts[c->count++] = a;
        else
            kn_form_fail(f, KN_E_FORMAT, "there is no artifact '%s' above", id);
    }
    free(id);
}

/* Those are of no model: what enlarges, enlarges pictures of all. */
static bool is_of_upscalers(const kn_collection *c) {
    bool all = c->count;
    for (size_t i = 0; i < c->count; i++)
        all = all && !strcmp(c->artifacts[i]->role, "upscaler") && !strcmp(c->artifacts[i]->folder, "upscalers");
    return all;
}

static void read_collection(kn_form *outer, kn_collections *all) {
    kn_form f;
    if (!has_room(outer, all->collection_count, KN_COLLECTIONS_MAX))
        return;
    kn_collection *c = &all->collections[all->collection_count];
    char *variant = NULL; /* its meaning hangs on the model, which may come behind it */
    kn_form_open(&f, outer->j, outer, collection_keys, KN_COUNT(collection_keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case COLLECTION_ID: take_word(&f, KN_COLLECTION_ID_BYTES - 1, LOWER "._-", &c->id); break;
        case COLLECTION_TITLE: take_text(&f, TITLE_BYTES, &c->title); break;
        case COLLECTION_MODEL: take_model(&f, &c->model); break;
        case COLLECTION_VARIANT: take_id(&f, &variant); break;
        case COLLECTION_ARTIFACTS:
            for (bool in = kn_form_items(&f); in && kn_form_item(&f);)
                read_part(&f, all, c);
        }
    }
    bool upscalers = !c->model && !variant && is_of_upscalers(c);
    for (int key = 0; key < (int)KN_COUNT(collection_keys); key++)
        if (!upscalers || (key != COLLECTION_MODEL && key != COLLECTION_VARIANT))
            kn_form_need(&f, key);
    if (!outer->j->failed && !upscalers && !(c->variant = kn_variant_find(c->model, variant)))
        kn_form_fail(outer, KN_E_FORMAT, "%s has no variant '%s'", c->model->name, variant);
    if (!outer->j->failed && (!c->count || kn_collection_named(all, c->id)))
        kn_form_fail(outer, KN_E_FORMAT, "'%s' is empty or there twice", c->id);
    free(variant);
    all->collection_count++;
}

/* ---- the document ---- */

enum { DOMAINS, BASE, LICENCES, ARTIFACTS, COLLECTIONS };
static const char *const keys[] = {
    [DOMAINS] = "domains",         [BASE] = "base", [LICENCES] = "licences", [ARTIFACTS] = "artifacts",
    [COLLECTIONS] = "collections",
};

static void read_list(kn_form *f, int key, kn_collections *c) {
    for (bool in = kn_form_items(f); in && kn_form_item(f);) {
        switch (key) {
        case DOMAINS: read_domain(f, c); break;
        case LICENCES: read_licence(f, c); break;
        case ARTIFACTS: read_artifact(f, c); break;
        default: read_collection(f, c); break;
        }
    }
}

bool kn_collections_read(const char *text, size_t len, kn_collections **ret, kn_error *err) {
    kn_json_reader j;
    kn_form f;
    if (len > KN_COLLECTIONS_BYTES)
        return kn_fail(err, KN_E_RANGE, "the catalogue has %zu bytes, at most %d are read", len, KN_COLLECTIONS_BYTES);
    kn_collections *c = calloc(1, sizeof *c);
    if (!c)
        return kn_fail_nomem(err, sizeof *c);
    kn_json_begin_inside(&j, (kn_json_text){ text, len }, "the catalogue", err);
    kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);) {
        if (key == BASE)
            take_address(&f, &c->base);
        else
            read_list(&f, key, c);
    }
    for (int key = 0; key < (int)KN_COUNT(keys); key++)
        kn_form_need(&f, key);
    if (!kn_form_finish(&f)) {
        kn_collections_free(c);
        return false;
    }
    *ret = c;
    return true;
}

static size_t between(const char *from, const char *to) {
    return (size_t)(to - from);
}

bool kn_collections_load(kn_collections **ret, kn_error *err) {
    size_t len = between(kn_collections_text, kn_collections_text_end);
    return kn_collections_read(kn_collections_text, len, ret, err);
}

void kn_collections_free(kn_collections *c) {
    if (!c)
        return;
    free(c->base);
    for (size_t i = 0; i < c->domain_count; i++)
        free(c->domains[i]);
    for (size_t i = 0; i < c->licence_count; i++) {
        free(c->licences[i].id);
        free(c->licences[i].title);
        free(c->licences[i].page);
    }
    for (size_t i = 0; i < c->artifact_count; i++) {
        kn_artifact *a = &c->artifacts[i];
        free(a->id);
        free(a->title);
        free(a->role);
        free(a->repository);
        free(a->revision);
        free(a->path);
        free(a->folder);
    }
    for (size_t i = 0; i < c->collection_count; i++) {
        free(c->collections[i].id);
        free(c->collections[i].title);
    }
    free(c);
}

/* ---- what follows from it ---- */

uint64_t kn_collection_bytes(const kn_collection *c) {
    uint64_t sum = 0; /* of few files that are limited: it cannot wrap */
    for (size_t i = 0; i < c->count; i++)
        sum += c->artifacts[i]->bytes;
    return sum;
}

bool kn_collection_has(const kn_collection *c, const kn_artifact *a) {
    for (size_t i = 0; i < c->count; i++)
        if (c->artifacts[i] == a)
            return true;
    return false;
}

bool kn_artifact_page(const kn_collections *c, const kn_artifact *a, char **ret, kn_error *err) {
    if (asprintf(ret, "%s/%s/tree/%s", c->base, a->repository, a->revision) >= 0)
        return true;
    *ret = NULL;
    return kn_fail_nomem(err, PLACE_BYTES);
}
