#include "gateway/residency.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/date.h"
#include "base/json_reader.h"
#include "gateway/observer.h"

enum { UNLOAD_ANSWER_BYTES = 64 << 10 };

const char *const kn_residency_names[KN_RESIDENCY_COUNT] = {
    [KN_RESIDENT_UNKNOWN] = "unknown",
    [KN_RESIDENT_GPU] = "gpu",
    [KN_RESIDENT_PARTIAL] = "partial",
    [KN_RESIDENT_CPU] = "cpu",
};

static kn_residency classify(const kn_resident *m) {
    if (!m->has_bytes || !m->has_vram_bytes || m->vram_bytes > m->bytes || !m->bytes)
        return KN_RESIDENT_UNKNOWN;
    if (!m->vram_bytes)
        return KN_RESIDENT_CPU;
    return m->vram_bytes == m->bytes ? KN_RESIDENT_GPU : KN_RESIDENT_PARTIAL;
}

static bool is_number(kn_json_reader *j) {
    char c = kn_json_peek(j);
    return c >= '0' && c <= '9';
}

/* One entry; false only if memory is out. */
static bool read_resident(kn_json_reader *j, kn_resident *ret, bool *good) {
    kn_json_text key, text;
    kn_resident m = { 0 };
    bool digested = false, memory = true;
    kn_json_object(j);
    while (!j->failed && kn_json_key(j, &key)) {
        bool is_text = kn_json_peek(j) == '"';
        if (kn_json_is(key, "name") && is_text && !m.name) {
            if (kn_json_string(j, &text) && text.len && text.len <= KN_MODEL_NAME_MAX)
                memory = (m.name = strndup(text.data, text.len));
        } else if (kn_json_is(key, "digest") && is_text) {
            digested = kn_json_string(j, &text) && kn_digest_parse(text.data, text.len, &m.digest);
        } else if (kn_json_is(key, "size") && is_number(j)) {
            m.has_bytes = kn_json_u64(j, &m.bytes) && m.bytes <= INT64_MAX;
        } else if (kn_json_is(key, "size_vram") && is_number(j)) {
            m.has_vram_bytes = kn_json_u64(j, &m.vram_bytes) && m.vram_bytes <= INT64_MAX;
        } else if (kn_json_is(key, "context_length") && is_number(j)) {
            kn_json_u64(j, &m.context_length);
        } else if (kn_json_is(key, "expires_at") && is_text) {
            if (kn_json_string(j, &text) && (!kn_date_parse(text.data, text.len, &m.expires_s) || m.expires_s < 0))
                m.expires_s = 0; /* what has none expires in the year 1 */
        } else {
            kn_json_skip(j, NULL);
        }
    }
    m.residency = classify(&m);
    *good = m.name && digested && !j->failed;
    if (*good)
        *ret = m;
    else
        free(m.name);
    return memory || kn_fail_nomem(j->err, KN_MODEL_NAME_MAX);
}

static bool read_residents(kn_json_reader *j, kn_residents *r, size_t *room) {
    kn_json_array(j);
    while (!j->failed && kn_json_item(j)) {
        bool good = false;
        if (r->count == KN_RESIDENTS_MAX)
            return kn_fail(j->err, KN_E_RANGE, "more than %d models in memory", KN_RESIDENTS_MAX);
        kn_resident *items = kn_array_grow(r->items, r->count, room, sizeof *r->items, j->err);
        if (!items)
            return false;
        r->items = items;
        if (!read_resident(j, &r->items[r->count], &good))
            return false;
        r->count += good;
    }
    return true;
}

bool kn_residents_read(const char *json, size_t len, kn_residents *ret, kn_error *err) {
    kn_residents r = { 0 };
    kn_error failure = { 0 };
    kn_json_reader j;
    kn_json_text key;
    size_t room = 0;
    bool seen = false, ok = true;
    kn_json_begin_inside(&j, (kn_json_text){ json, len }, "the list of loaded models", &failure);
    kn_json_object(&j);
    while (ok && !j.failed && kn_json_key(&j, &key)) {
        if (kn_json_is(key, "models") && !seen && kn_json_peek(&j) == '[') {
            ok = read_residents(&j, &r, &room);
            seen = true;
        } else {
            kn_json_skip(&j, NULL);
        }
    }
    ok = ok && kn_json_finish(&j) && (seen || kn_fail(&failure, KN_E_FORMAT, "the list of loaded models is missing"));
    kn_json_close(&j);
    if (!ok) {
        kn_residents_free(&r);
        return kn_fail(err, failure.code, "%s", failure.text);
    }
    *ret = r;
    return true;
}

void kn_residents_free(kn_residents *r) {
    for (size_t i = 0; i < r->count; i++)
        free(r->items[i].name);
    free(r->items);
    *r = (kn_residents){ 0 };
}

bool kn_resident_unload(const kn_resident *r, kn_upstream *u, uint64_t within_ms, kn_call_done *done, void *ctx,
                        kn_call **ret) {
    json_t *body = json_pack("{s:s, s:i}", "model", r->name, "keep_alive", 0);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    const kn_call_request request = { .method = "POST",
                                      .target = "/api/generate",
                                      .json = text,
                                      .answer_limit = UNLOAD_ANSWER_BYTES,
                                      .within_ms = within_ms };
    bool ok = text && kn_call_start(u, &request, done, ctx, ret, NULL);
    free(text);
    return ok;
}
