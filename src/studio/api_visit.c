#include "studio/api_visit.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_reader.h"
#include "base/text.h"
#include "studio/compat/compat.h"

enum { FIRST_PART = 2, BODY_MAX = KN_INPUT_BYTES_MAX + 1, POINTER_MAX = 500, RETRY_SOON_S = 2 };

static void free_visit(kn_visit *v) {
    if (v->fd >= 0)
        close(v->fd);
    json_decref(v->json);
    kn_compat_forget(v);
    kn_copy_forget(v);
    kn_measuring_forget(v);
    kn_buf_free(&v->body);
    kn_buf_free(&v->pointer);
    free(v);
}

/* ---- answers ---- */

/* Most reasons for 503 pass by themselves; these a person has to change. */
static bool is_worth_a_retry(unsigned status, const char *code) {
    const char *const for_a_person[] = { kn_task_failures[KN_TASK_ISOLATION_MISSING],
                                         kn_queue_waits[KN_WAITS_FOR_RESUME].code,
                                         kn_queue_waits[KN_WAITS_FOR_RECOVERY].code };
    for (size_t i = 0; i < KN_COUNT(for_a_person); i++)
        if (!strcmp(code, for_a_person[i]))
            return false;
    return status == 503 || status == 429;
}

void kn_visit_refuse(kn_visit *v, unsigned status, const char *code, const char *title, const char *detail,
                     const char *pointer) {
    if (!v->x)
        return;
    if (status >= 500)
        kn_studio_note_error(v->studio, code, "request");
    kn_reply_problem(v->x, &(kn_problem){ .status = status,
                                          .code = code,
                                          .title = title,
                                          .detail = detail,
                                          .pointer = pointer,
                                          .retry_after_s = is_worth_a_retry(status, code) ? RETRY_SOON_S : 0 });
}

static const char *obstacle(const kn_visit *v) {
    const kn_studio_runner *r = &v->studio->runner;
    return r->obstacle ? r->obstacle(r->ctx, true) : NULL;
}

bool kn_visit_is_unlocked(const kn_visit *v) {
    return obstacle(v) != NULL;
}

static const char unlocked[] = "The image worker cannot be locked in";

bool kn_visit_refuse_unlocked(kn_visit *v) {
    const char *why = obstacle(v);
    if (why)
        kn_visit_refuse(v, 503, kn_task_failures[KN_TASK_ISOLATION_MISSING], unlocked, why, NULL);
    return why != NULL;
}

static void proved(void *ctx, const char *found, size_t len, const char *message) {
    kn_visit *v = ctx;
    (void)found, (void)len, (void)message; /* it was no picture: that somebody looked is enough */
    if (kn_visit_is_back(v))
        v->go_on(v);
}

void kn_visit_prove(kn_visit *v, void (*go_on)(kn_visit *v)) {
    static const char nothing[] = "-";
    const kn_studio_runner *r = &v->studio->runner;
    v->go_on = go_on;
    v->in_flight = r->is_proven && !r->is_proven(r->ctx) && r->inspect(r->ctx, nothing, 1, proved, v);
    if (!v->in_flight)
        go_on(v);
}

bool kn_visit_deny_unlocked(kn_visit *v) {
    return kn_visit_deny(v, 503, kn_task_failures[KN_TASK_ISOLATION_MISSING], unlocked, NULL);
}

int kn_visit_set_problem(kn_visit *v, unsigned status, const char *code, const char *title, const char *detail) {
    v->problem = (kn_problem){ .status = status, .code = code, .title = title, .detail = detail };
    return 0;
}

void kn_visit_answer(kn_visit *v) {
    if (!v->x)
        return;
    json_t *json = v->json;
    v->json = NULL;
    if (v->status == 204) {
        kn_exchange_reply(v->x, &(kn_reply){ .status = 204, .fields = "Cache-Control: no-store\r\n" });
        json_decref(json);
    } else {
        kn_reply_json_with(v->x, v->status ? v->status : 200, json, v->fields);
    }
}

/* What an error means where the route says nothing else. */
static void answer_error(kn_visit *v) {
    static const struct {
        kn_code code;
        unsigned status;
        const char *word, *title;
    } rows[] = {
        { KN_E_NOT_FOUND, 404, "not_found", "There is no such resource" },
        { KN_E_USAGE, 409, "conflict", "The resource is in a state that does not permit this" },
        { KN_E_RANGE, 422, "member_invalid", "A member of the body is not as it should be" },
        { KN_E_FORMAT, 422, "member_invalid", "A member of the body is not as it should be" },
        { KN_E_UNSUPPORTED, 422, "unsupported", "This is not supported" },
        { KN_E_FULL, 507, "disk_full", "Not enough disk space" },
        { KN_E_READONLY, 507, "storage_readonly", KN_STORE_READONLY },
        { KN_E_OUTPUT, 503, "storage_busy", "The studio's storage cannot be used at the moment" },
        { KN_E_IO, 503, "storage_busy", "The studio's storage cannot be used at the moment" },
        { KN_E_NOMEM, 503, "out_of_memory", "Memory is short" },
    };
    const char *pointer = v->pointer.len ? v->pointer.data : NULL;
    if (v->problem.status) {
        const char *detail = v->problem.detail ? v->problem.detail : v->errand.err.text;
        kn_visit_refuse(v, v->problem.status, v->problem.code, v->problem.title, detail[0] ? detail : NULL, pointer);
        return;
    }
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        if (rows[i].code == v->errand.err.code) {
            kn_visit_refuse(v, rows[i].status, rows[i].word, rows[i].title, v->errand.err.text, pointer);
            return;
        }
    }
    kn_visit_refuse(v, 500, "internal", "Something went wrong here", NULL, NULL);
}

/* ---- its way ---- */

static bool has_parameter(const char *parameters, const char *name) {
    size_t len = strlen(name);
    for (const char *at = parameters; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == len && !memcmp(at, name, len))
            return true;
    return false;
}

static bool comes_again(const kn_parameter_list *q, size_t number) {
    for (size_t i = 0; i < number; i++)
        if (!strcmp(q->at[i].name, q->at[number].name))
            return true;
    return false;
}

static bool has_only(kn_visit *v, const char *parameters) {
    static const char list[] = "state"; /* the one that may come more than once */
    for (size_t i = 0; i < v->query.count; i++) {
        const char *name = v->query.at[i].name;
        char pointer[POINTER_MAX];
        snprintf(pointer, sizeof pointer, "query/%s", name);
        if (!has_parameter(parameters, name))
            kn_visit_refuse(v, 400, "parameter_unknown", "There is no such parameter", NULL,
                            strlen(name) < sizeof pointer - sizeof "query/" ? pointer : "query");
        else if (strcmp(name, list) != 0 && comes_again(&v->query, i))
            kn_visit_refuse(v, 422, "parameter_invalid", "A parameter's value is not allowed", "it comes twice",
                            pointer);
        else
            continue;
        return false;
    }
    return true;
}

kn_visit *kn_visit_begin(kn_exchange *x, kn_span body, const char *parameters) {
    kn_visit *v = calloc(1, sizeof *v);
    kn_api *a = kn_exchange_listener(x);
    if (!v) {
        kn_reply_problem(x, &(kn_problem){ .status = 503, .code = "out_of_memory", .title = "Memory is short" });
        return NULL;
    }
    v->x = x;
    v->api = a;
    v->studio = a->studio;
    v->fd = -1;
    kn_buf_init(&v->body, BODY_MAX);
    kn_buf_init(&v->pointer, POINTER_MAX);
    *kn_exchange_user(x) = v;
    kn_exchange_set_brief(x, true);
    const kn_head *head = kn_exchange_head(x);
    if (!head || !kn_buf_add(&v->body, body.data ? body.data : "", body.len)) {
        kn_visit_refuse(v, 503, "out_of_memory", "Memory is short", NULL, NULL);
        return NULL;
    }
    for (unsigned i = 0; i < KN_API_PARTS; i++)
        if (!kn_route_part(head, FIRST_PART + i, v->part[i], sizeof v->part[i]))
            v->part[i][0] = 0;
    if (!kn_route_query(head, &v->query)) {
        kn_visit_refuse(v, 400, "query_invalid", "The query is not well-formed", NULL, "query");
        return NULL;
    }
    return !parameters || has_only(v, parameters) ? v : NULL;
}

static bool do_work(kn_errand *e, kn_store *s, kn_error *err) {
    kn_visit *v = KN_HOLDER(e, kn_visit, errand);
    return v->work(v, s, err);
}

bool kn_visit_is_back(kn_visit *v) {
    v->in_flight = false;
    if (v->x)
        return true;
    free_visit(v);
    return false;
}

static void work_is_done(kn_errand *e) {
    kn_visit *v = KN_HOLDER(e, kn_visit, errand);
    bool ok = e->ok;
    /* What happened is told to others also when the one who caused it is gone. */
    if (ok && v->after)
        v->after(v);
    else if (ok)
        kn_visit_answer(v);
    else
        answer_error(v);
}

static void come_back(kn_errand *e) {
    kn_visit *v = KN_HOLDER(e, kn_visit, errand);
    v->in_flight = false;
    work_is_done(e);
    if (!v->x && !v->in_flight)
        free_visit(v);
}

void kn_visit_send(kn_visit *v, bool (*work)(kn_visit *, kn_store *, kn_error *), void (*after)(kn_visit *)) {
    v->work = work;
    v->after = after;
    v->problem = (kn_problem){ 0 };
    v->in_flight = true;
    v->errand.work = do_work;
    v->errand.back = come_back;
    kn_errand_send(v->studio, &v->errand);
}

void kn_visit_end(kn_visit *v) {
    v->x = NULL;
    kn_studio_unwatch(v->studio, &v->watch);
    if (v->timer.fired)
        kn_loop_timer_close(v->studio->loop, &v->timer);
    if (v->give_up)
        v->give_up(v);
    if (!v->in_flight)
        free_visit(v);
}

/* ---- what a request says ---- */

const char *kn_visit_parameter(const kn_visit *v, const char *name) {
    for (size_t i = 0; i < v->query.count; i++)
        if (!strcmp(v->query.at[i].name, name))
            return v->query.at[i].value;
    return NULL;
}

static bool refuse_parameter(kn_visit *v, const char *name) {
    char pointer[64];
    snprintf(pointer, sizeof pointer, "query/%s", name);
    kn_visit_refuse(v, 422, "parameter_invalid", "A parameter's value is not allowed", NULL, pointer);
    return false;
}

bool kn_visit_number(kn_visit *v, const char *name, uint64_t min, uint64_t max, uint64_t usual, uint64_t *ret) {
    const char *text = kn_visit_parameter(v, name);
    *ret = usual;
    if (!text || (kn_parse_u64(text, ret) && *ret >= min && *ret <= max))
        return true;
    return refuse_parameter(v, name);
}

bool kn_visit_flag(kn_visit *v, const char *name, bool usual, bool *ret) {
    const char *text = kn_visit_parameter(v, name);
    *ret = text ? !strcmp(text, "true") : usual;
    return !text || *ret || !strcmp(text, "false") || refuse_parameter(v, name);
}

/* ---- pages of lists ---- */

typedef struct cursor_text {
    char text[64];
} cursor_text;

/* A place in this list, signed: nobody goes on from where no page has ended. */
static cursor_text cursor_of(const kn_visit *v, uint64_t place) {
    enum { SIGNED_BYTES = 8 };
    const char *token = v->api->guard.token;
    unsigned char digest[EVP_MAX_MD_SIZE] = { 0 };
    char what[KN_API_PART_BYTES + 40];
    cursor_text c;
    int len = snprintf(what, sizeof what, "cursor %s %" PRIu64, v->part[0], place);
    HMAC(EVP_sha256(), token, (int)strlen(token), (unsigned char *)what, (size_t)len, digest, NULL);
    len = snprintf(c.text, sizeof c.text, "%" PRIu64 "-", place);
    kn_hex(digest, SIGNED_BYTES, c.text + len);
    return c;
}

/* 0: it is none that was given out. */
static uint64_t place_of(const kn_visit *v, const char *cursor) {
    char number[24];
    uint64_t place = 0;
    snprintf(number, sizeof number, "%.*s", (int)KN_MIN(strcspn(cursor, "-"), sizeof number - 1), cursor);
    return kn_parse_u64(number, &place) && !strcmp(cursor_of(v, place).text, cursor) ? place : 0;
}

bool kn_visit_page(kn_visit *v) {
    const char *cursor = kn_visit_parameter(v, "cursor");
    if (!kn_visit_number(v, "limit", 1, 200, 50, &v->end))
        return false;
    v->number = cursor ? place_of(v, cursor) : 0;
    if (cursor && !v->number) {
        kn_visit_refuse(v, 400, "cursor_invalid", "The cursor is none that was given out", NULL, "query/cursor");
        return false;
    }
    return true;
}

bool kn_visit_list(kn_visit *v, json_t *items, int64_t next, kn_error *err) {
    cursor_text cursor = cursor_of(v, (uint64_t)next);
    v->json = json_pack("{s:o, s:s?}", "items", items, "next_cursor", next ? cursor.text : NULL);
    return v->json || kn_fail_nomem(err, sizeof cursor);
}

bool kn_visit_hash(const kn_visit *v, const char *json, size_t len, kn_sha256 *ret, kn_error *err) {
    json_t *parsed = v->key[0] ? json_loadb(json, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    char *sorted = parsed ? json_dumps(parsed, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    bool ok = sorted ? kn_sha256_of(sorted, strlen(sorted), ret, err) : kn_sha256_of(json, len, ret, err);
    free(sorted);
    json_decref(parsed);
    return ok;
}

bool kn_visit_find_replayed(kn_visit *v, kn_store *s, const kn_sha256 *body, const char *where, kn_id *ret,
                            kn_error *err) {
    kn_key_state state;
    kn_id id;
    *ret = (kn_id){ 0 };
    if (!v->key[0])
        return true;
    if (!kn_jobs_find_key(s, v->route, v->key, body, &state, &id, err))
        return false;
    if (state == KN_KEY_REUSED)
        return kn_visit_deny(v, 422, "idempotency_key_reused", "The key came with another body before",
                             "a new request needs a new key");
    if (state == KN_KEY_NEW)
        return true;
    *ret = id;
    v->flag = true;
    snprintf(v->fields, sizeof v->fields, "Location: /api/v1/%s/%s\r\nIdempotency-Replayed: true\r\n", where, id.text);
    return true;
}

void kn_visit_waits(kn_visit *v) {
    kn_exchange_set_brief(v->x, false);
}

static bool is_json(const kn_visit *v) {
    return kn_json_check((kn_json_text){ v->body.data, v->body.len }, NULL);
}

static const char no_json[] = "json_invalid", no_json_title[] = "The body is not JSON";

bool kn_visit_has_json(kn_visit *v) {
    bool ok = is_json(v);
    if (!ok)
        kn_visit_refuse(v, 400, no_json, no_json_title, NULL, NULL);
    return ok;
}

bool kn_visit_check_json(kn_visit *v) {
    return is_json(v) || kn_visit_deny(v, 400, no_json, no_json_title, NULL);
}

bool kn_visit_has_field(kn_visit *v, const char *name) {
    const kn_head *head = kn_exchange_head(v->x);
    for (unsigned i = 0; head && i < head->field_count; i++)
        if (kn_span_is_like(kn_head_name(head, &head->fields[i]), name))
            return true;
    return false;
}

bool kn_visit_field(kn_visit *v, const char *name, char *ret, size_t room) {
    const kn_head *head = kn_exchange_head(v->x);
    kn_span value;
    if (!head || !kn_head_named(head, name, &value) || value.len >= room)
        return false;
    memcpy(ret, value.data, value.len);
    ret[value.len] = 0;
    return true;
}

bool kn_visit_has_id(kn_visit *v, unsigned part, const char *prefix) {
    const char *text = v->part[part];
    bool good = prefix ? kn_id_is_valid(text, prefix)
                       : strlen(text) == KN_SHA256_TEXT - 1 && kn_text_is_hex(text, KN_SHA256_TEXT - 1);
    if (!good)
        kn_visit_refuse(v, 404, "not_found", "There is no such resource", NULL, NULL);
    return good;
}
