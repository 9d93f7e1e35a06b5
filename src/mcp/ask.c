#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/internal.h"

enum {
    ANSWER_BYTES = 32 << 20,
    ASK_MS = 120 * 1000,
    AGAIN_MS = 200,
    RESTART_MS = 10 * 1000, /* so long may the service be away where a job is at stake */
};

/* With what is known of the job: who does not hear of it orders it again. */
static void answer_failure(kn_mcp_call *c, const char *code, const char *why) {
    char text[700];
    size_t len = (size_t)snprintf(text, sizeof text, "%.400s", why);
    if (c->job_id[0])
        snprintf(
            text + len, sizeof text - len,
            "; its job is %s, which goes on when the service runs again: do not order it anew, go on with wait_for_job "
            "or get_job",
            c->job_id);
    else if (c->uncertain)
        snprintf(
            text + len, sizeof text - len,
            "; it may have taken the job: when the service runs again, look with get_status and list_gallery before it "
            "is ordered anew");
    kn_mcp_answer_failure(c, code, text);
}

static void answer_end(kn_mcp_call *c, kn_call_end end) {
    static const struct {
        const char *code, *words;
    } rows[] = {
        [KN_CALL_ANSWERED] = { "", "" },
        [KN_CALL_UNREACHABLE] = { "unreachable", "does not run; start it with 'kuno serve' or 'kuno open'" },
        [KN_CALL_BROKEN] = { "unreachable", "broke off its answer; it may have been stopped" },
        [KN_CALL_LATE] = { "unreachable", "did not answer in time" },
        [KN_CALL_TOO_LARGE] = { "answer_unknown", "answered with more than this server takes" },
        [KN_CALL_NO_MEMORY] = { "out_of_memory", "could not be heard: memory is short" },
    };
    char text[300];
    snprintf(text, sizeof text, "the Kuno service at %s %s", kn_address_print(kn_upstream_address(c->mcp->studio)).text,
             rows[end].words);
    answer_failure(c, rows[end].code, text);
}

static void start(kn_mcp_call *c);

static void ask_again(kn_timer *t) {
    kn_mcp_call *c = KN_HOLDER(t, kn_mcp_call, again);
    if (c->watches)
        kn_buf_clear(&c->events);
    start(c);
}

bool kn_mcp_ask_again(kn_mcp_call *c) {
    uint64_t now = kn_loop_now_ms(c->mcp->loop);
    if (!c->watches && !c->uncertain)
        return false;
    c->lost_ms = c->lost_ms ? c->lost_ms : now;
    if (now - c->lost_ms > RESTART_MS)
        return false;
    c->again.fired = ask_again;
    kn_loop_timer_after(c->mcp->loop, &c->again, AGAIN_MS);
    return true;
}

/* There is no answer: a job survives a restart, and so does an order, which has its key. */
static void lose(kn_mcp_call *c, kn_call_end end) {
    bool away = end == KN_CALL_UNREACHABLE || end == KN_CALL_BROKEN || end == KN_CALL_LATE;
    c->uncertain |= c->key[0] && (end == KN_CALL_BROKEN || end == KN_CALL_LATE);
    if (away && kn_mcp_ask_again(c))
        return;
    if (c->watches)
        c->then(c, 0, (kn_span){ NULL, 0 });
    else
        answer_end(c, end);
}

static void done(void *ctx, const kn_call_result *r) {
    kn_mcp_call *c = ctx;
    c->asked = NULL;
    if (r->end == KN_CALL_ANSWERED)
        c->then(c, r->status, r->body);
    else
        lose(c, r->end);
}

void kn_mcp_answer_strange(kn_mcp_call *c) {
    char text[300];
    snprintf(text, sizeof text,
             "the Kuno service at %s answered in a way that this program does not know; they may be of different "
             "versions",
             kn_address_print(kn_upstream_address(c->mcp->studio)).text);
    answer_failure(c, "answer_unknown", text);
}

/* With the token. */
static void send_request(kn_mcp_call *c) {
    kn_mcp *m = c->mcp;
    char token[KN_TOKEN_MAX + 1] = "", fields[KN_TOKEN_MAX + 200];
    kn_error err = { 0 };
    if (!m->setup.token(m->setup.ctx, token, &err)) {
        answer_failure(c, "unauthorized", err.text);
        return;
    }
    snprintf(fields, sizeof fields, "Authorization: Bearer %s\r\n%s%s%s", token, c->key[0] ? "Idempotency-Key: " : "",
             c->key, c->key[0] ? "\r\n" : "");
    kn_call_request r = c->request;
    r.fields = fields;
    if (!kn_call_start(m->studio, &r, done, c, &c->asked, NULL))
        lose(c, KN_CALL_UNREACHABLE);
    explicit_bzero(token, sizeof token);
    explicit_bzero(fields, sizeof fields);
}

static void acquainted(void *ctx, const kn_call_result *r) {
    kn_mcp_call *c = ctx;
    kn_error err = { 0 };
    c->asked = NULL;
    if (kn_acquaint_check(kn_upstream_address(c->mcp->studio), &c->mcp->acquaint, r, &err))
        send_request(c);
    else if (r->end != KN_CALL_ANSWERED)
        lose(c, r->end == KN_CALL_BROKEN ? KN_CALL_UNREACHABLE : r->end); /* nothing has been ordered yet */
    else
        answer_failure(c, "service_unknown", err.text);
}

static void start(kn_mcp_call *c) {
    const kn_call_request question = kn_acquaint_request();
    if (!c->mcp->setup.acquaint)
        send_request(c);
    else if (!kn_call_start(c->mcp->studio, &question, acquainted, c, &c->asked, NULL))
        lose(c, KN_CALL_UNREACHABLE);
}

void kn_mcp_ask_with(kn_mcp_call *c, const kn_call_request *request, kn_mcp_then *then) {
    snprintf(c->target, sizeof c->target, "%s", request->target);
    c->request = *request;
    c->request.target = c->target;
    c->then = then;
    start(c);
}

void kn_mcp_ask(kn_mcp_call *c, const char *method, const char *target, const char *json, kn_mcp_then *then) {
    const kn_call_request r = {
        .method = method, .target = target, .json = json, .answer_limit = ANSWER_BYTES, .within_ms = ASK_MS
    };
    kn_mcp_ask_with(c, &r, then);
}

void kn_mcp_ask_no_more(kn_mcp_call *c) {
    if (c->asked)
        kn_call_cancel(c->asked);
    c->asked = NULL;
    kn_loop_timer_stop(&c->again);
}

/* "member_invalid: seed: a decimal number below 2^63 is expected", of a problem document. */
static void refuse(kn_mcp_call *c, unsigned status, json_t *problem) {
    const char *code = json_string_value(json_object_get(problem, "code"));
    const char *title = json_string_value(json_object_get(problem, "title"));
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    char text[700];
    if (status == 401)
        answer_failure(c, "unauthorized", "the token is not that of the Kuno service; give its own by --token-file");
    else if (!code)
        kn_mcp_answer_strange(c);
    else {
        snprintf(text, sizeof text, "%s%s%s", title ? title : "", title && detail ? ": " : "", detail ? detail : "");
        kn_mcp_answer_failure(c, code, text);
    }
}

json_t *kn_mcp_read(kn_mcp_call *c, unsigned status, kn_span body) {
    json_t *json = json_loadb(body.data, body.len, 0, NULL);
    if (json_is_object(json) && status < 300)
        return json;
    if (status < 300)
        kn_mcp_answer_strange(c);
    else
        refuse(c, status, json);
    json_decref(json);
    return NULL;
}
