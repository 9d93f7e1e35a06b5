/* Sessions: a page of ours exchanges the token for a cookie that scripts cannot read, and a second secret that it sends
 * with everything that changes something, so that no other page can do so in its name.
 *
 * In place of the token, which is not to be seen on a command line or in a history, whoever holds it may have the page
 * opened with the code of a link: good for once, and for a short time. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/date.h"
#include "base/json_form.h"
#include "base/text.h"
#include "studio/api_visit.h"

enum { LINK_S = 120, SECRET_BYTES = KN_SESSION_SECRET / 2 };

/* Browsers tell cookies apart by host and path, not by port: services on one machine have each a name of their own. */
typedef struct cookie_name {
    char text[24];
    size_t len;
} cookie_name;

static cookie_name name_of(const kn_api *a) {
    cookie_name n;
    n.len = (size_t)snprintf(n.text, sizeof n.text, "kuno_session_%u", (unsigned)a->guard.port);
    return n;
}

static bool make_secret(char text[KN_SESSION_SECRET + 1]) {
    unsigned char bytes[SECRET_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false;
    kn_hex(bytes, sizeof bytes, text);
    return true;
}

/* The value of our cookie among those of a Cookie field. */
static kn_span cookie_of(const kn_api *a, const kn_head *head) {
    const cookie_name name = name_of(a);
    kn_span all = { NULL, 0 };
    if (!kn_head_named(head, "Cookie", &all))
        return (kn_span){ NULL, 0 };
    for (const char *at = all.data, *end = all.data + all.len; at < end;) {
        const char *stop = memchr(at, ';', (size_t)(end - at));
        stop = stop ? stop : end;
        while (at < stop && *at == ' ')
            at++;
        if ((size_t)(stop - at) > name.len && !memcmp(at, name.text, name.len) && at[name.len] == '=')
            return (kn_span){ at + name.len + 1, (size_t)(stop - at) - name.len - 1 };
        at = stop + 1;
    }
    return (kn_span){ NULL, 0 };
}

static kn_session *session_of(kn_api *a, const kn_head *head) {
    kn_sha256 mark;
    bool good = kn_session_mark(a->guard.token, cookie_of(a, head), &mark);
    return good ? kn_sessions_find(&a->studio->sessions, &mark, kn_loop_now_ms(a->studio->loop)) : NULL;
}

/* Whether the page's own secret is there. */
static bool has_csrf(const kn_api *a, const kn_head *head, const kn_session *s) {
    kn_span csrf;
    kn_sha256 mark;
    return kn_head_named(head, "X-Kuno-Csrf", &csrf) && kn_session_mark(a->guard.token, csrf, &mark) &&
           kn_token_is_same(kn_span_of(mark.text), kn_span_of(s->csrf.text));
}

static bool is_safe(kn_span method) {
    return kn_span_is(method, "GET") || kn_span_is(method, "HEAD");
}

bool kn_api_admits(kn_api *a, kn_exchange *x, const kn_head *head) {
    if (kn_guard_has_token(&a->guard, head)) {
        kn_exchange_trust(x);
        return true;
    }
    bool tried = kn_head_find(head, KN_FIELD_AUTHORIZATION, NULL);
    const kn_session *s = tried ? NULL : session_of(a, head);
    if (!s) {
        kn_guard_refuse(&a->guard, x, tried || cookie_of(a, head).data);
        return false;
    }
    if (is_safe(head->method) || has_csrf(a, head, s)) {
        kn_exchange_trust(x);
        return true;
    }
    kn_reply_problem(x, &(kn_problem){ .status = 403,
                                       .code = "csrf_missing",
                                       .title = "The page's own secret is missing or wrong",
                                       .pointer = "header/X-Kuno-Csrf" });
    return false;
}

/* {"token": "…"} */
static bool read_token(kn_visit *v, char token[KN_TOKEN_MAX + 1]) {
    static const char *const keys[] = { "token" };
    const kn_json_text body = { v->body.data, v->body.len };
    kn_json_reader j;
    kn_json_text text = { NULL, 0 };
    kn_form f;
    kn_error err = { 0 };
    kn_json_begin_inside(&j, body, "the body", &err);
    j.pointer = &v->pointer;
    kn_form_open(&f, &j, NULL, keys, KN_COUNT(keys));
    for (int key; kn_form_next(&f, &key);)
        if (kn_form_text(&f, KN_TOKEN_MIN, KN_TOKEN_MAX, &text))
            memcpy(token, text.data, text.len);
    kn_form_need(&f, 0);
    if (kn_form_finish(&f))
        return true;
    kn_visit_refuse(v, 422, "member_invalid", "A member of the body is not as it should be", err.text,
                    v->pointer.len ? v->pointer.data : NULL);
    return false;
}

/* Whether it is the code of a link. It is none any more afterwards. */
static bool take_link(kn_api *a, const char *code) {
    bool good = false;
    uint64_t now = kn_loop_now_ms(a->studio->loop);
    for (size_t i = 0; i < KN_API_LINKS; i++) {
        kn_session_link *l = &a->links[i];
        if (!kn_token_is_same(kn_span_of(code), kn_span_of(l->code)))
            continue;
        good = l->ends_ms > now;
        explicit_bzero(l, sizeof *l);
    }
    return good;
}

/* Its secrets, and what is known of them. */
static bool make_session(const kn_api *a, char cookie[KN_SESSION_SECRET + 1], char csrf[KN_SESSION_SECRET + 1],
                         kn_session *ret) {
    ret->ends_s = kn_date_now() + KN_SESSION_S;
    ret->ends_ms = kn_loop_now_ms(a->studio->loop) + KN_SESSION_S * 1000;
    return make_secret(cookie) && make_secret(csrf) &&
           kn_session_mark(a->guard.token, kn_span_of(cookie), &ret->cookie) &&
           kn_session_mark(a->guard.token, kn_span_of(csrf), &ret->csrf);
}

/* A disk that is full keeps nobody out: the session then ends with this process. */
static bool work_keep(kn_visit *v, kn_store *s, kn_error *err) {
    (void)err;
    kn_sessions_keep(s, &v->session, kn_date_now(), NULL);
    return true;
}

static bool work_forget(kn_visit *v, kn_store *s, kn_error *err) {
    return kn_sessions_forget(s, &v->session.cookie, err);
}

static void refuse_without_secret(kn_visit *v) {
    kn_visit_refuse(v, 500, "internal", "There is no randomness to be had", NULL, NULL);
}

void kn_api_create_session(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    char token[KN_TOKEN_MAX + 1] = "";
    if (!v || !kn_visit_has_json(v) || !read_token(v, token))
        return;
    bool good = kn_token_is_same(kn_span_of(token), kn_span_of(v->api->guard.token)) || take_link(v->api, token);
    explicit_bzero(token, sizeof token);
    if (!good) {
        kn_guard_refuse(&v->api->guard, x, true);
        return;
    }
    char cookie[KN_SESSION_SECRET + 1], csrf[KN_SESSION_SECRET + 1];
    if (!make_session(v->api, cookie, csrf, &v->session)) {
        refuse_without_secret(v);
        return;
    }
    kn_sessions_put(&v->studio->sessions, &v->session);
    snprintf(v->fields, sizeof v->fields, "Set-Cookie: %s=%s; HttpOnly; SameSite=Strict; Path=/api/v1; Max-Age=%d\r\n",
             name_of(v->api).text, cookie, KN_SESSION_S);
    v->json = json_pack("{s:s, s:s}", "expires_at", kn_date_of(v->session.ends_s).text, "csrf_token", csrf);
    kn_visit_send(v, work_keep, NULL);
}

void kn_api_delete_session(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (!v)
        return;
    kn_session *s = session_of(v->api, kn_exchange_head(x));
    v->status = 204;
    if (!s) {
        kn_visit_answer(v);
        return;
    }
    v->session = *s;
    *s = (kn_session){ 0 };
    kn_visit_send(v, work_forget, NULL);
}

/* The one that ends first makes room. */
void kn_api_create_link(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (!v)
        return;
    kn_session_link *oldest = &v->api->links[0], l = { .ends_ms = kn_loop_now_ms(v->studio->loop) + LINK_S * 1000 };
    for (size_t i = 1; i < KN_API_LINKS; i++)
        if (v->api->links[i].ends_ms < oldest->ends_ms)
            oldest = &v->api->links[i];
    if (!make_secret(l.code)) {
        refuse_without_secret(v);
        return;
    }
    *oldest = l;
    v->status = 201;
    v->json = json_pack("{s:s, s:s}", "code", l.code, "expires_at", kn_date_of(kn_date_now() + LINK_S).text);
    kn_visit_answer(v);
}
