#include "gateway/usage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_form.h"
#include "base/text.h"

enum { FORM_VERSION = 1 };
#define TIME_MAX ((uint64_t)1 << 40) /* seconds; far beyond any clock */

bool kn_usage_new(kn_usage *ret, kn_error *err) {
    *ret = (kn_usage){ .uses = calloc(KN_USAGE_MODELS, sizeof *ret->uses) };
    return ret->uses || kn_fail_nomem(err, KN_USAGE_MODELS * sizeof *ret->uses);
}

void kn_usage_free(kn_usage *u) {
    free(u->uses);
    *u = (kn_usage){ 0 };
}

static size_t find(const kn_usage *u, const kn_digest *digest) {
    size_t i = 0;
    while (i < u->count && strcmp(u->uses[i].digest.text, digest->text) != 0)
        i++;
    return i;
}

void kn_usage_record(kn_usage *u, const kn_digest *digest, int64_t now_s) {
    if (!digest) {
        u->unattributed++;
        return;
    }
    size_t at = find(u, digest);
    kn_use use = { .digest = *digest, .first_s = now_s };
    if (at < u->count)
        use = u->uses[at];
    else if (u->count < KN_USAGE_MODELS)
        u->count++;
    else
        at--; /* the last one makes room */
    use.calls++;
    use.first_s = KN_MIN(use.first_s, now_s); /* the clock may have been set back */
    use.last_s = now_s;
    use.turn = ++u->turns;
    memmove(u->uses + 1, u->uses, at * sizeof *u->uses);
    u->uses[0] = use;
}

bool kn_usage_is_eligible(const kn_use *use, const kn_catalog *catalog, int64_t now_s) {
    return now_s - use->last_s <= KN_USAGE_ELIGIBLE_S && kn_catalog_of_digest(catalog, &use->digest, NULL);
}

enum { USE_DIGEST, USE_CALLS, USE_FIRST, USE_LAST };
static const char *const use_keys[] = {
    [USE_DIGEST] = "digest",
    [USE_CALLS] = "calls",
    [USE_FIRST] = "first_used_at",
    [USE_LAST] = "last_used_at",
};

static void read_digest(kn_form *f, const kn_usage *u, kn_use *use) {
    kn_json_text text;
    if (!kn_form_text(f, 64, 64, &text))
        return;
    if (!kn_digest_parse(text.data, text.len, &use->digest))
        kn_form_fail(f, KN_E_FORMAT, "64 hexadecimal digits are expected");
    else if (find(u, &use->digest) < u->count)
        kn_form_fail(f, KN_E_FORMAT, "the digest comes twice");
}

static void read_use(const kn_form *outer, kn_usage *u) {
    kn_form f;
    kn_use use = { 0 };
    uint64_t first = 0, last = 0;
    kn_form_open(&f, outer->j, outer, use_keys, KN_COUNT(use_keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case USE_DIGEST: read_digest(&f, u, &use); break;
        case USE_CALLS: kn_form_u64(&f, 1, UINT64_MAX, &use.calls); break;
        case USE_FIRST: kn_form_u64(&f, 0, TIME_MAX, &first); break;
        case USE_LAST: kn_form_u64(&f, 0, TIME_MAX, &last); break;
        }
    }
    for (int key = 0; key < (int)KN_COUNT(use_keys); key++)
        kn_form_need(&f, key);
    if (f.j->failed)
        return;
    if (first > last) {
        kn_form_fail(&f, KN_E_FORMAT, "used first after it was used last");
        return;
    }
    use.first_s = (int64_t)first;
    use.last_s = (int64_t)last;
    u->uses[u->count++] = use;
}

enum { VERSION, UNATTRIBUTED, MODELS };
static const char *const usage_keys[] = {
    [VERSION] = "version",
    [UNATTRIBUTED] = "unattributed_calls",
    [MODELS] = "models",
};

bool kn_usage_read(kn_usage *u, const char *json, size_t len, kn_error *err) {
    const kn_json_text file = { json, len };
    kn_json_reader j;
    kn_form f;
    uint64_t version = 0;
    kn_json_begin(&j, file, file, err);
    kn_form_open(&f, &j, NULL, usage_keys, KN_COUNT(usage_keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case VERSION: kn_form_u64(&f, FORM_VERSION, FORM_VERSION, &version); break;
        case UNATTRIBUTED: kn_form_u64(&f, 0, UINT64_MAX, &u->unattributed); break;
        case MODELS:
            for (bool in = kn_form_items(&f); in && kn_form_item(&f);) {
                if (u->count == KN_USAGE_MODELS)
                    kn_form_fail(&f, KN_E_RANGE, "more than %d models", KN_USAGE_MODELS);
                else
                    read_use(&f, u);
            }
        }
    }
    for (int key = 0; key < (int)KN_COUNT(usage_keys); key++)
        kn_form_need(&f, key);
    bool ok = kn_json_finish(&j);
    kn_json_close(&j);
    for (size_t i = u->count; i > 0; i--)
        u->uses[i - 1].turn = ++u->turns;
    return ok;
}

bool kn_usage_write(const kn_usage *u, kn_buf *into) {
    bool ok = kn_buf_printf(into, "{\"version\":%d,\"unattributed_calls\":%" PRIu64 ",\"models\":[", FORM_VERSION,
                            u->unattributed);
    for (size_t i = 0; ok && i < u->count; i++) {
        const kn_use *use = &u->uses[i];
        ok = kn_buf_printf(into,
                           "%s\n{\"digest\":\"%s\",\"calls\":%" PRIu64 ",\"first_used_at\":%" PRId64
                           ",\"last_used_at\":%" PRId64 "}",
                           i ? "," : "", use->digest.text, use->calls, use->first_s, use->last_s);
    }
    return ok && kn_buf_add_text(into, "]}\n");
}

bool kn_usage_load(kn_usage *u, const char *path, kn_error *err) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_USAGE_BYTES);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return true;
    return (kn_file_read(path, KN_USAGE_BYTES, &text, err) && kn_usage_read(u, text.data, text.len, err)) ||
           kn_fail_within(err, "the history of use '%s' cannot be read (move it away to begin a new one)",
                          kn_quote_path(path).text);
}

bool kn_usage_save(const char *path, const kn_buf *json, kn_error *err) {
    kn_output o;
    if (!kn_output_open(path, true, &o, err))
        return false;
    bool ok = kn_output_write(&o, json->data, json->len, err) && kn_output_commit(&o, true, err);
    kn_output_drop(&o);
    return ok;
}
