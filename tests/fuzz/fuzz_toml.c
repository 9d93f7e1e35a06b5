/* The TOML reader and what models.toml makes of a document. Beyond memory errors it looks for broken promises: an
 * error without a text, a tree that is deeper than allowed, a value that none of its bytes can account for. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/toml.h"
#include "pipelines/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool promise) {
    if (!promise)
        abort();
}

static size_t check_text(const char *text, size_t len) {
    require(text && !text[len] && kn_utf8_check(text, len) == len);
    return len;
}

/* Bytes of text and values in the tree. */
static size_t check(const kn_toml *v, unsigned depth, int line) {
    require(v->depth == depth && depth <= KN_TOML_DEPTH_MAX && v->line >= 1 && v->line <= line);
    size_t used = 1;
    if (v->kind == KN_TOML_STRING)
        used += check_text(v->string.data, v->string.len);
    for (size_t i = 0; v->kind == KN_TOML_ARRAY && i < v->array.n; i++)
        used += check(&v->array.items[i], depth + 1, line);
    for (size_t i = 0; v->kind == KN_TOML_TABLE && i < v->table.n; i++) {
        const kn_toml_entry *e = &v->table.entries[i];
        require(kn_toml_find(v, e->key, e->key_len) == e);
        used += check_text(e->key, e->key_len) + check(&e->value, depth + 1, line);
    }
    return used;
}

static const char *const variants[] = { "raw", "turbo", NULL };
static const kn_profile_architecture architectures[] = { { "krea2", variants, false }, { "z-image", variants, true } };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    int lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';

    kn_toml document = { 0 };
    kn_error err = { 0 };
    bool ok = kn_toml_read(text, size, 1 << 20, &document, &err);
    require(ok == (err.code == KN_OK) && ok == !err.text[0]);
    /* A key or item takes a byte of the file at least; each [[x]] stands for a table and its array. */
    if (ok)
        require(check(&document, 0, lines) <= 2 * size + 1);
    kn_toml_free(&document);

    kn_profile_rules rules = { architectures, KN_COUNT(architectures), NULL };
    kn_profiles profiles = { 0 };
    err = (kn_error){ 0 };
    bool is_read = kn_profiles_read_text(text, size, "/etc", &rules, &profiles, &err);
    require(is_read == (err.code == KN_OK) && (ok || !is_read));
    const kn_profile *chosen = NULL;
    if (is_read && kn_profiles_select(&profiles, NULL, &chosen, &err))
        require(chosen == kn_profiles_find(&profiles, chosen->name));
    kn_profiles_free(&profiles);
    return 0;
}
