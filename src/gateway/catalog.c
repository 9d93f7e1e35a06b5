#include "gateway/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "gateway/observer.h"

static const char latest[] = ":latest";

/* A name in the form by which it is found; room for a tag that is added. */
typedef struct key {
    char text[KN_MODEL_NAME_MAX + sizeof latest];
} key;

bool kn_digest_parse(const char *text, size_t len, kn_digest *ret) {
    if (len != sizeof ret->text - 1 || !kn_text_is_hex(text, len))
        return false;
    memcpy(ret->text, text, len);
    ret->text[len] = 0;
    return true;
}

static bool drop_prefix(char *text, const char *prefix) {
    size_t len = strlen(prefix);
    if (strncmp(text, prefix, len) != 0)
        return false;
    memmove(text, text + len, strlen(text + len) + 1);
    return true;
}

/* "Registry.ollama.ai/library/Tiny" is "tiny:latest". */
static bool make_key(const char *name, size_t len, key *ret) {
    if (!len || len > KN_MODEL_NAME_MAX || memchr(name, 0, len))
        return false;
    key k = { "" };
    for (size_t i = 0; i < len; i++)
        k.text[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] | 32) : name[i];
    drop_prefix(k.text, "registry.ollama.ai/");
    drop_prefix(k.text, "library/");
    const char *slash = strrchr(k.text, '/');
    if (!strchr(slash ? slash : k.text, ':'))
        memcpy(k.text + strlen(k.text), latest, sizeof latest);
    *ret = k;
    return true;
}

static void free_model(kn_model *m) {
    free(m->name);
    free(m->key);
}

/* One entry; false only if memory is out or the text is no JSON. */
static bool read_model(kn_json_reader *j, kn_model *ret, bool *good) {
    kn_json_text name, text;
    key k;
    kn_model m = { 0 };
    bool named = false, digested = false, memory = true;
    kn_json_object(j);
    while (!j->failed && kn_json_key(j, &name)) {
        char kind = kn_json_peek(j);
        if (kn_json_is(name, "name") && kind == '"' && !named) {
            if (!kn_json_string(j, &text) || !make_key(text.data, text.len, &k))
                continue;
            m.name = strndup(text.data, text.len);
            m.key = strdup(k.text);
            memory = m.name && m.key;
            named = true;
        } else if (kn_json_is(name, "digest") && kind == '"') {
            digested = kn_json_string(j, &text) && kn_digest_parse(text.data, text.len, &m.digest);
        } else if (kn_json_is(name, "size") && kind >= '0' && kind <= '9') {
            kn_json_u64(j, &m.bytes);
        } else if (kn_json_is(name, "remote_host") && kind == '"') {
            m.remote = kn_json_string(j, &text) && text.len;
        } else {
            kn_json_skip(j, NULL);
        }
    }
    *good = named && digested && memory && !j->failed;
    if (*good)
        *ret = m;
    else
        free_model(&m);
    return memory || kn_fail_nomem(j->err, KN_MODEL_NAME_MAX);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const kn_model *)a)->key, ((const kn_model *)b)->key);
}

static bool read_models(kn_json_reader *j, kn_catalog *c, size_t *room) {
    kn_json_array(j);
    while (!j->failed && kn_json_item(j)) {
        bool good = false;
        if (c->count == KN_CATALOG_MODELS)
            return kn_fail(j->err, KN_E_RANGE, "more than %d models", KN_CATALOG_MODELS);
        kn_model *models = kn_array_grow(c->models, c->count, room, sizeof *c->models, j->err);
        if (!models)
            return false;
        c->models = models;
        if (!read_model(j, &c->models[c->count], &good))
            return false;
        c->count += good;
    }
    return true;
}

bool kn_catalog_read(const char *json, size_t len, uint64_t now_ms, kn_catalog *ret, kn_error *err) {
    const kn_json_text answer = { json, len };
    kn_catalog c = { .read_at_ms = now_ms, .read = true };
    kn_error failure = { 0 };
    kn_json_reader j;
    kn_json_text name;
    size_t room = 0;
    bool seen = false, ok = true;
    kn_json_begin_inside(&j, answer, "the list of models", &failure);
    kn_json_object(&j);
    while (ok && !j.failed && kn_json_key(&j, &name)) {
        if (kn_json_is(name, "models") && !seen && kn_json_peek(&j) == '[') {
            ok = read_models(&j, &c, &room);
            seen = true;
        } else {
            kn_json_skip(&j, NULL);
        }
    }
    ok = ok && kn_json_finish(&j) && (seen || kn_fail(&failure, KN_E_FORMAT, "the list of models is missing"));
    kn_json_close(&j);
    if (!ok) {
        kn_catalog_free(&c);
        return kn_fail(err, failure.code, "%s", failure.text);
    }
    if (c.count)
        qsort(c.models, c.count, sizeof *c.models, by_key);
    *ret = c;
    return true;
}

void kn_catalog_free(kn_catalog *c) {
    for (size_t i = 0; i < c->count; i++)
        free_model(&c->models[i]);
    free(c->models);
    *c = (kn_catalog){ 0 };
}

void kn_catalog_invalidate(kn_catalog *c) {
    c->read = false;
}

bool kn_catalog_is_fresh(const kn_catalog *c, uint64_t now_ms) {
    return c->read && now_ms - c->read_at_ms < KN_CATALOG_FRESH_MS;
}

const kn_model *kn_catalog_find(const kn_catalog *c, const char *name, size_t len) {
    key k;
    if (!c->count || !make_key(name, len, &k))
        return NULL;
    const kn_model wanted = { .key = k.text };
    return bsearch(&wanted, c->models, c->count, sizeof *c->models, by_key);
}

const kn_model *kn_catalog_of_digest(const kn_catalog *c, const kn_digest *digest, const kn_model *after) {
    for (size_t i = after ? (size_t)(after - c->models) + 1 : 0; i < c->count; i++) {
        if (strcmp(c->models[i].digest.text, digest->text) == 0)
            return &c->models[i];
    }
    return NULL;
}
