#include "studio/compat/compat.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"

static const char key_start[] = "/key/";

static bool starts(kn_span text, const char *with) {
    size_t len = strlen(with);
    return text.len >= len && !memcmp(text.data, with, len);
}

/* /key/TOKEN before the path, which stays what the routes see. */
static void take_key(kn_compat_door *door) {
    kn_span path = kn_head_path(&door->head);
    if (!starts(path, key_start))
        return;
    const char *key = path.data + sizeof key_start - 1;
    const char *stop = memchr(key, '/', path.len - (sizeof key_start - 1));
    if (!stop)
        return;
    door->key = (kn_span){ key, (size_t)(stop - key) };
    door->head.target.len -= (size_t)(stop - path.data);
    door->head.target.data = stop;
}

/* Slashes count once: a path that has more of them has no route, which is said in the words of the API that was meant.
 */
static bool is_below(kn_span path, const char *start) {
    size_t at = 0;
    for (; *start; start++) {
        if (at == path.len || path.data[at++] != *start)
            return false;
        while (*start == '/' && at < path.len && path.data[at] == '/')
            at++;
    }
    return true;
}

bool kn_compat_is_meant(kn_exchange *x, const kn_head *head, kn_compat_door *ret) {
    static const struct {
        const char *start;
        kn_problem_writer *refuse;
    } rows[] = {
        { "/v1/", kn_openai_refuse },
        { "/sdapi/v1/", kn_a1111_refuse },
        { "/sdcpp/v1/", kn_sdcpp_refuse },
    };
    ret->head = *head;
    ret->key = (kn_span){ NULL, 0 };
    take_key(ret);
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        if (is_below(kn_head_path(&ret->head), rows[i].start)) {
            kn_exchange_set_dialect(x, rows[i].refuse);
            return true;
        }
    }
    return false;
}

/* Basic TOKEN, :TOKEN, USER:TOKEN or TOKEN: in base64. */
static bool has_password(const kn_guard *g, const kn_head *head) {
    KN_AUTO_BUF text;
    kn_span given;
    kn_buf_init(&text, 2 * KN_TOKEN_MAX);
    if (!kn_guard_credential(head, "Basic", &given) || !kn_base64_decode(given.data, given.len, &text, NULL))
        return false;
    const char *colon = memchr(text.data, ':', text.len);
    given = (kn_span){ text.data, text.len };
    if (colon && colon + 1 < text.data + text.len)
        given = (kn_span){ colon + 1, (size_t)(text.data + text.len - (colon + 1)) };
    else if (colon)
        given.len--;
    bool same = kn_token_is_same(given, kn_span_of(g->token));
    explicit_bzero(text.data, text.len);
    return same;
}

/* Memory for a large body and what it holds is there for few at a time. */
static bool may_be_large(kn_api *a, kn_exchange *x, const kn_head *head) {
    if (head->framing != KN_BODY_CHUNKED && (head->framing != KN_BODY_LENGTH || head->content_length < KN_COMPAT_LARGE))
        return true;
    for (size_t i = 0; i < KN_API_LARGE_BODIES; i++) {
        if (!a->large[i]) {
            a->large[i] = x;
            return true;
        }
    }
    kn_reply_problem(x, &(kn_problem){ .status = 429,
                                       .code = "too_many_bodies",
                                       .title = "Two large requests are on their way already",
                                       .retry_after_s = 2 });
    return false;
}

void kn_compat_let_go(kn_api *a, kn_exchange *x) {
    for (size_t i = 0; i < KN_API_LARGE_BODIES; i++)
        if (a->large[i] == x)
            a->large[i] = NULL;
}

bool kn_compat_admits(kn_api *a, kn_exchange *x, const kn_compat_door *door) {
    const kn_head *head = &door->head;
    bool good = kn_span_is(head->method, "OPTIONS") || kn_guard_has_token(&a->guard, head) ||
                has_password(&a->guard, head) ||
                (door->key.data && kn_token_is_same(door->key, kn_span_of(a->guard.token)));
    if (good)
        return may_be_large(a, x, head);
    kn_guard_refuse(&a->guard, x, door->key.data || kn_head_find(head, KN_FIELD_AUTHORIZATION, NULL));
    return false;
}

bool kn_compat_part(kn_visit *v, unsigned number, char *ret, size_t room) {
    kn_compat_door door = { .head = *kn_exchange_head(v->x) };
    take_key(&door);
    return kn_route_part(&door.head, number, ret, room);
}

void kn_compat_refuse(kn_exchange *x, const kn_problem *p, unsigned status, json_t *error, const char *more) {
    char fields[400], retry[40] = "";
    if (p->retry_after_s)
        snprintf(retry, sizeof retry, "Retry-After: %u\r\n", p->retry_after_s);
    snprintf(fields, sizeof fields, "%s%s%s", p->fields ? p->fields : "", retry, more);
    kn_reply_json_with(x, status, error, fields);
}

/* Asked by clients that want to know whether anybody is there. */
void kn_compat_ping(kn_exchange *x, kn_span body) {
    (void)body;
    kn_exchange_reply(x, &(kn_reply){ .status = 204, .fields = "Cache-Control: no-store\r\n" });
}
