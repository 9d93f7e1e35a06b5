#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/internal.h"

enum { ANSWER_BYTES = 32 << 20, ASK_MS = 120 * 1000 };

/* Nobody answered, or nobody that makes sense. */
static void fail(kn_mcp_call *c, kn_call_end end) {
    static const char *const words[] = {
        [KN_CALL_ANSWERED] = "",
        [KN_CALL_UNREACHABLE] = "does not run; start it with 'kuno serve' or 'kuno open'",
        [KN_CALL_BROKEN] = "broke off its answer; it may have been stopped",
        [KN_CALL_LATE] = "did not answer in time",
        [KN_CALL_TOO_LARGE] = "answered with more than this server takes",
        [KN_CALL_NO_MEMORY] = "could not be heard: memory is short",
    };
    char text[300];
    snprintf(text, sizeof text, "the Kuno service at %s %s", kn_address_print(kn_upstream_address(c->mcp->studio)).text,
             words[end]);
    kn_mcp_answer_error(c, KN_MCP_INTERNAL, text, NULL);
}

static void done(void *ctx, const kn_call_result *r) {
    kn_mcp_call *c = ctx;
    c->asked = NULL;
    if (r->end == KN_CALL_ANSWERED || c->watches) /* it makes no difference why a stream of events is over */
        c->then(c, r->status, r->body);
    else
        fail(c, r->end);
}

void kn_mcp_answer_strange(kn_mcp_call *c) {
    char text[300];
    snprintf(text, sizeof text,
             "the Kuno service at %s answered in a way that this program does not know; they may be of different "
             "versions",
             kn_address_print(kn_upstream_address(c->mcp->studio)).text);
    kn_mcp_answer_error(c, KN_MCP_INTERNAL, text, NULL);
}

/* With the token. */
static void send_request(kn_mcp_call *c) {
    kn_mcp *m = c->mcp;
    char token[KN_TOKEN_MAX + 1] = "", fields[KN_TOKEN_MAX + 100];
    kn_error err = { 0 };
    if (!m->setup.token(m->setup.ctx, token, &err)) {
        kn_mcp_answer_error(c, KN_MCP_INTERNAL, err.text, NULL);
        return;
    }
    snprintf(fields, sizeof fields, "Authorization: Bearer %s\r\n", token);
    kn_call_request r = c->request;
    r.fields = fields;
    if (!kn_call_start(m->studio, &r, done, c, &c->asked, NULL))
        fail(c, KN_CALL_UNREACHABLE);
    explicit_bzero(token, sizeof token);
    explicit_bzero(fields, sizeof fields);
}

static void acquainted(void *ctx, const kn_call_result *r) {
    kn_mcp_call *c = ctx;
    kn_error err = { 0 };
    c->asked = NULL;
    if (kn_acquaint_check(kn_upstream_address(c->mcp->studio), &c->mcp->acquaint, r, &err))
        send_request(c);
    else
        kn_mcp_answer_error(c, KN_MCP_INTERNAL, err.text, NULL);
}

void kn_mcp_ask_with(kn_mcp_call *c, const kn_call_request *request, kn_mcp_then *then) {
    const kn_call_request question = kn_acquaint_request();
    snprintf(c->target, sizeof c->target, "%s", request->target);
    c->request = *request;
    c->request.target = c->target;
    c->then = then;
    if (!c->mcp->setup.acquaint)
        send_request(c);
    else if (!kn_call_start(c->mcp->studio, &question, acquainted, c, &c->asked, NULL))
        fail(c, KN_CALL_UNREACHABLE);
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
}

/* "member_invalid: seed: a decimal number below 2^63 is expected", of a problem document. */
static void refuse(kn_mcp_call *c, unsigned status, json_t *problem) {
    const char *code = json_string_value(json_object_get(problem, "code"));
    const char *title = json_string_value(json_object_get(problem, "title"));
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    char text[700];
    if (status == 401)
        kn_mcp_answer_error(c, KN_MCP_INTERNAL,
                            "the token is not that of the Kuno service; give its own by --token-file", NULL);
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
