#include "studio/inputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "base/json_form.h"
#include "base/text.h"
#include "image/mask.h"

enum { SIDECAR_BYTES = 4096 };
#define TIME_MAX 0x1p50 /* milliseconds; far beyond any clock */

static const char room[] = "inputs";

typedef struct sidecar_name {
    char text[KN_SHA256_TEXT + 8];
} sidecar_name;

static sidecar_name sidecar_of(const char *id) {
    sidecar_name n;
    snprintf(n.text, sizeof n.text, "%s.json", id);
    return n;
}

json_t *kn_input_json(const kn_input *i) {
    const kn_input_facts *f = &i->facts;
    return json_pack("{s:s, s:s, s:I, s:i, s:i, s:b, s:b, s:b, s:s?, s:s, s:s}", "input_id", i->id.text, "media_type",
                     kn_picture_media_types[f->format], "bytes", (json_int_t)i->bytes, "width", (int)f->width, "height",
                     (int)f->height, "orientation_applied", f->orientation_applied, "has_alpha", f->has_alpha,
                     "has_gain_map", f->has_gain_map, "icc_profile",
                     f->icc_profile.text[0] ? f->icc_profile.text : NULL, "created_at",
                     kn_date_of_ms(i->created_ms).text, "last_used_at", kn_date_of_ms(i->last_used_ms).text);
}

/* ---- what is known of one, as text ---- */

enum { FORMAT, BYTES, WIDTH, HEIGHT, TURNED, ALPHA, GAIN_MAP, ICC, CREATED, NEEDED, DAMAGED_MAP = NEEDED, MASK };
static const char *const keys[] = {
    [FORMAT] = "format",           [BYTES] = "bytes",     [WIDTH] = "width",
    [HEIGHT] = "height",           [TURNED] = "turned",   [ALPHA] = "alpha",
    [GAIN_MAP] = "gain_map",       [ICC] = "icc",         [CREATED] = "created_ms",
    [DAMAGED_MAP] = "damaged_map", [MASK] = "mask_lacks",
};

static char *write_facts(const kn_input *i) {
    const kn_input_facts *f = &i->facts;
    json_t *j =
        json_pack("{s:s, s:I, s:i, s:i, s:b, s:b, s:b, s:s, s:I, s:b, s:i}", keys[FORMAT],
                  kn_picture_formats[f->format], keys[BYTES], (json_int_t)i->bytes, keys[WIDTH], (int)f->width,
                  keys[HEIGHT], (int)f->height, keys[TURNED], f->orientation_applied, keys[ALPHA], f->has_alpha,
                  keys[GAIN_MAP], f->has_gain_map, keys[ICC], f->icc_profile.text, keys[CREATED],
                  (json_int_t)i->created_ms, keys[DAMAGED_MAP], f->has_damaged_map, keys[MASK], (int)f->mask_lacks);
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    return text;
}

static void read_icc(kn_form *f, kn_input_facts *facts) {
    kn_json_text text;
    if (kn_form_text(f, 0, sizeof facts->icc_profile.text - 1, &text))
        memcpy(facts->icc_profile.text, text.data, text.len);
}

static bool read_facts(const char *text, size_t len, kn_input *i, kn_error *err) {
    const kn_json_text file = { text, len };
    uint64_t width = 0, height = 0, lacks = 0;
    double created = 0; /* exact, as whole numbers are that are no larger */
    size_t format = 0;
    kn_json_reader j;
    kn_form f;
    kn_json_begin(&j, file, file, err);
    kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);) {
        switch (key) {
        case FORMAT: kn_form_word(&f, kn_picture_formats, KN_PICTURE_FORMATS, &format); break;
        case BYTES: kn_form_u64(&f, 1, KN_INPUT_BYTES_MAX, &i->bytes); break;
        case WIDTH: kn_form_u64(&f, 1, KN_PICTURE_SIDE_MAX, &width); break;
        case HEIGHT: kn_form_u64(&f, 1, KN_PICTURE_SIDE_MAX, &height); break;
        case TURNED: kn_form_bool(&f, &i->facts.orientation_applied); break;
        case ALPHA: kn_form_bool(&f, &i->facts.has_alpha); break;
        case GAIN_MAP: kn_form_bool(&f, &i->facts.has_gain_map); break;
        case DAMAGED_MAP: kn_form_bool(&f, &i->facts.has_damaged_map); break;
        case MASK: kn_form_u64(&f, 0, 2 * KN_MASK_MISSES_CELLS_16 - 1, &lacks); break;
        case ICC: read_icc(&f, &i->facts); break;
        case CREATED: kn_form_real(&f, -TIME_MAX, TIME_MAX, &created); break;
        }
    }
    for (int key = 0; key < NEEDED; key++)
        kn_form_need(&f, key);
    bool ok = kn_json_finish(&j);
    kn_json_close(&j);
    i->facts.format = (kn_picture_format)format;
    i->facts.width = (uint32_t)width;
    i->facts.height = (uint32_t)height;
    i->facts.mask_lacks = (unsigned)lacks;
    i->created_ms = (int64_t)created;
    return ok;
}

/* ---- rows ---- */

static bool read_row(const kn_query *r, kn_input *ret, kn_error *err) {
    *ret = (kn_input){ 0 };
    snprintf(ret->id.text, sizeof ret->id.text, "%s", kn_query_text(r, 0));
    ret->last_used_ms = kn_query_int(r, 2);
    const char *facts = kn_query_text(r, 1);
    return read_facts(facts, strlen(facts), ret, err);
}

bool kn_inputs_find(kn_store *s, const char *id, kn_input *ret, kn_error *err) {
    kn_query r = kn_query_open(s, err, "SELECT id, facts, last_used_ms FROM inputs WHERE id = ?", "t", id);
    bool found = kn_query_next(&r), good = found && read_row(&r, ret, err);
    if (!kn_query_close(&r))
        return false;
    return good || kn_fail(err, KN_E_NOT_FOUND, "there is no such input");
}

static bool add_row(kn_store *s, const kn_input *i, const char *facts, kn_error *err) {
    return kn_store_do(s, err, NULL,
                       "INSERT INTO inputs (id, facts, created_ms, last_used_ms) VALUES (?, ?, ?, ?)"
                       " ON CONFLICT (id) DO NOTHING",
                       "ttii", i->id.text, facts, i->created_ms, i->last_used_ms);
}

bool kn_inputs_touch(kn_store *s, const char *id, kn_error *err) {
    return kn_store_do(s, err, NULL, "UPDATE inputs SET last_used_ms = ? WHERE id = ?", "it", kn_store_now_ms(), id);
}

/* A file that was damaged since is none. */
static bool holds(kn_store *s, const char *id, const void *data, size_t len) {
    KN_AUTO_BUF bytes;
    kn_buf_init(&bytes, KN_INPUT_BYTES_MAX + 1);
    return kn_store_read(s, room, id, KN_INPUT_BYTES_MAX, &bytes, NULL) && bytes.len == len &&
           memcmp(bytes.data, data, len) == 0;
}

bool kn_inputs_check(const kn_store *s, const char *id, kn_error *err) {
    KN_AUTO_BUF bytes;
    kn_sha256 now;
    kn_buf_init(&bytes, KN_INPUT_BYTES_MAX + 1);
    if (!kn_store_read(s, room, id, KN_INPUT_BYTES_MAX, &bytes, NULL))
        return kn_fail(err, KN_E_NOT_FOUND, "an input's file is not there");
    return kn_sha256_of(bytes.data, bytes.len, &now, err) &&
           (strcmp(now.text, id) == 0 || kn_fail(err, KN_E_FORMAT, "an input's file is not what was given"));
}

bool kn_inputs_receive(kn_store *s, const void *data, size_t len, kn_input *ret, bool *ret_known, kn_error *err) {
    kn_input i = { .bytes = len };
    if (!kn_sha256_of(data, len, &i.id, err))
        return false;
    kn_error none = { 0 };
    *ret_known = kn_inputs_find(s, i.id.text, ret, &none) && holds(s, i.id.text, data, len);
    if (*ret_known)
        return kn_inputs_touch(s, i.id.text, err);
    *ret = i;
    return (none.code == KN_OK || none.code == KN_E_NOT_FOUND || kn_fail(err, none.code, "%s", none.text)) &&
           kn_store_write(s, room, i.id.text, data, len, err);
}

/* The size is taken from the file, which may have been stored by an earlier request. */
static bool file_bytes(kn_store *s, const char *id, uint64_t *ret, kn_error *err) {
    KN_AUTO_BUF bytes;
    kn_buf_init(&bytes, KN_INPUT_BYTES_MAX + 1);
    if (!kn_store_read(s, room, id, KN_INPUT_BYTES_MAX, &bytes, err))
        return false;
    *ret = bytes.len;
    return true;
}

bool kn_inputs_accept(kn_store *s, const kn_sha256 *id, const kn_input_facts *facts, kn_input *ret, kn_error *err) {
    kn_input i = { .id = *id, .facts = *facts, .created_ms = kn_store_now_ms() };
    i.last_used_ms = i.created_ms;
    if (!file_bytes(s, id->text, &i.bytes, err))
        return false;
    char *text = write_facts(&i);
    if (!text)
        return kn_fail_nomem(err, SIDECAR_BYTES);
    bool ok = kn_store_write(s, room, sidecar_of(id->text).text, text, strlen(text), err) && add_row(s, &i, text, err);
    free(text);
    return ok && kn_inputs_find(s, id->text, ret, err);
}

void kn_inputs_refuse(kn_store *s, const kn_sha256 *id) {
    kn_input known;
    if (!kn_inputs_find(s, id->text, &known, NULL))
        kn_store_remove(s, room, id->text);
}

bool kn_inputs_list(kn_store *s, unsigned limit, int64_t before, json_t *into, int64_t *ret_next, kn_error *err) {
    kn_query r = kn_query_open(s, err,
                               "SELECT id, facts, last_used_ms, seq FROM inputs WHERE ?1 = 0 OR seq < ?1"
                               " ORDER BY seq DESC LIMIT ?2",
                               "ii", before, (int64_t)limit + 1);
    int64_t last = 0;
    unsigned n = 0;
    bool more = false;
    while (kn_query_next(&r)) {
        kn_input i;
        more = n++ == limit;
        if (more)
            break;
        last = kn_query_int(&r, 3);
        if (read_row(&r, &i, err) && json_array_append_new(into, kn_input_json(&i)) != 0)
            r.failed = !kn_fail_nomem(err, SIDECAR_BYTES);
    }
    *ret_next = more ? last : 0;
    return kn_query_close(&r);
}

static const char unfinished[] = "SELECT 1 FROM job_inputs JOIN jobs ON jobs.id = job_inputs.job_id"
                                 " WHERE input_id = ? AND state IN ('queued', 'running') LIMIT 1";

static bool remove_input(kn_store *s, const char *id, kn_error *err) {
    int changed = 0;
    if (!kn_store_begin(s, err))
        return false;
    kn_query r = kn_query_open(s, err, unfinished, "t", id);
    bool used = kn_query_next(&r);
    bool ok = kn_query_close(&r) &&
              (!used || kn_fail(err, KN_E_USAGE, "a job that is not finished needs this input")) &&
              kn_store_do(s, err, &changed, "DELETE FROM inputs WHERE id = ?", "t", id) &&
              (changed || kn_fail(err, KN_E_NOT_FOUND, "there is no such input"));
    if (!kn_store_end(s, ok, err))
        return false;
    kn_store_remove(s, room, sidecar_of(id).text); /* first: without it the picture itself goes at the next start */
    kn_store_remove(s, room, id);
    return true;
}

bool kn_inputs_delete(kn_store *s, const char *id, kn_error *err) {
    return remove_input(s, id, err) || (kn_store_makes_room(s, err) && remove_input(s, id, err));
}

bool kn_inputs_expire(kn_store *s, unsigned days, bool *ret_more, kn_error *err) {
    enum { AT_ONCE = 100 };
    char ids[AT_ONCE][KN_SHA256_TEXT];
    size_t n = 0;
    int64_t before = kn_store_now_ms() - (int64_t)days * 24 * 3600 * 1000;
    kn_query r = kn_query_open(s, err,
                               "SELECT id FROM inputs WHERE last_used_ms < ?1 AND NOT EXISTS (SELECT 1 FROM job_inputs"
                               " JOIN jobs ON jobs.id = job_inputs.job_id WHERE input_id = inputs.id AND"
                               " state IN ('queued', 'running')) LIMIT ?2",
                               "ii", before, (int64_t)AT_ONCE);
    while (n < AT_ONCE && kn_query_next(&r))
        snprintf(ids[n++], sizeof ids[0], "%s", kn_query_text(&r, 0));
    bool ok = kn_query_close(&r);
    for (size_t i = 0; ok && i < n; i++)
        ok = kn_inputs_delete(s, ids[i], err);
    *ret_more = n == AT_ONCE;
    return ok;
}

/* ---- after a start ---- */

static bool restore(kn_store *s, const char *name, kn_error *err) {
    KN_AUTO_BUF text;
    kn_input i = { 0 }, known;
    kn_buf_init(&text, SIDECAR_BYTES + 1);
    memcpy(i.id.text, name, KN_SHA256_TEXT - 1);
    if (kn_inputs_find(s, i.id.text, &known, NULL))
        return true;
    if (!kn_store_has(s, room, i.id.text) || !kn_store_read(s, room, name, SIDECAR_BYTES, &text, NULL) ||
        !read_facts(text.data, text.len, &i, NULL))
        return true; /* damaged: the picture is not known, which is no error of the others */
    i.last_used_ms = kn_store_now_ms();
    return add_row(s, &i, text.data, err);
}

static bool look_at_file(void *ctx, kn_store *s, const char *name, kn_error *err) {
    (void)ctx;
    size_t len = strlen(name);
    if (len == KN_SHA256_TEXT - 1 + strlen(".json") && kn_text_is_hex(name, KN_SHA256_TEXT - 1) &&
        !strcmp(name + KN_SHA256_TEXT - 1, ".json"))
        return restore(s, name, err);
    if (len == KN_SHA256_TEXT - 1 && kn_text_is_hex(name, len) && !kn_store_has(s, room, sidecar_of(name).text))
        kn_store_remove(s, room, name);
    return true;
}

bool kn_inputs_reconcile(kn_store *s, kn_error *err) {
    return kn_store_each(s, room, look_at_file, NULL, err);
}
