#include "mcp/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/base64.h"
#include "base/text.h"
#include "http/reply.h"
#include "http/router.h"
#include "mcp/internal.h"

enum {
    SILENCE_MS = 15 * 1000,
    PIECE_BYTES = 256 << 10,
    NOTES_BYTES = 256 << 10, /* while so much waits to be sent, progress is not told */
    STREAM_BYTES = 160 << 20,
    LARGE_BYTES = 4 << 20, /* messages from here on are large … */
    LARGE_MAX = 2,         /* … and taken so many at a time */
    SESSION_BYTES = 33,
};

/* How often a header comes. */
typedef enum often { NEVER, ONCE, OFTEN } often;

typedef struct header {
    often often;
    char text[KN_MCP_NAME_BYTES]; /* cut if it is longer */
} header;

struct kn_mcp_visit {
    kn_mcp *mcp;
    kn_exchange *x;    /* NULL: the client is gone */
    kn_mcp_call *call; /* NULL: answered, or not begun */
    kn_mcp_visit *next, **at;
    header version, method, name;
    char session[SESSION_BYTES]; /* empty: none */
    kn_mcp_word id;
    bool stateless, initializes, is_large;
    kn_timer silence;
    bool streams, ends;
    kn_buf out; /* of the stream */
    size_t sent;
};

static const char fields[] = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";

/* ---- visits ---- */

static void free_visit(kn_mcp_visit *v) {
    kn_loop_timer_close(v->mcp->loop, &v->silence);
    *v->at = v->next;
    if (v->next)
        v->next->at = v->at;
    kn_buf_free(&v->out);
    free(v);
}

static void free_if_over(kn_mcp_visit *v) {
    if (!v->x && !v->call)
        free_visit(v);
}

void kn_mcp_forget_visits(kn_mcp *m) {
    while (m->visits)
        free_visit(m->visits);
}

/* ---- answers ---- */

static unsigned status_of(const kn_mcp_visit *v, int code) {
    if (!v->stateless)
        return 200;
    switch (code) {
    case 0:
    case KN_MCP_INTERNAL: return 200;
    case KN_MCP_UNKNOWN_METHOD: return 404;
    default: return 400;
    }
}

static void reply_text(kn_mcp_visit *v, unsigned status, const char *text, size_t len, const char *lines) {
    if (v->x)
        kn_exchange_reply(
            v->x,
            &(kn_reply){ .status = status, .type = "application/json", .fields = lines, .body = text, .len = len });
}

static void reply_error(kn_mcp_visit *v, unsigned status, const kn_mcp_word *id, int code, const char *message) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, 4096);
    if (!kn_mcp_write_error(&text, id, code, message, NULL))
        kn_buf_clear(&text);
    reply_text(v, status, text.data, text.len, fields);
}

static void reply_nothing(kn_exchange *x, unsigned status) {
    kn_exchange_reply(x, &(kn_reply){ .status = status, .fields = fields });
}

static bool make_session(char name[SESSION_BYTES]) {
    unsigned char bytes[(SESSION_BYTES - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false;
    kn_hex(bytes, sizeof bytes, name);
    return true;
}

/* ---- streams ---- */

static void pump(kn_mcp_visit *v) {
    if (!v->x || !v->streams || !kn_exchange_is_drained(v->x))
        return;
    size_t len = KN_MIN(v->out.len - v->sent, (size_t)PIECE_BYTES);
    if (len)
        kn_exchange_send(v->x, v->out.data + v->sent, len);
    v->sent += len;
    if (v->sent < v->out.len)
        return;
    kn_buf_clear(&v->out);
    v->sent = 0;
    if (v->ends)
        kn_exchange_send_end(v->x);
}

static void stream(kn_mcp_visit *v, const char *start, const char *text, size_t len) {
    if (!v->x)
        return;
    if (!v->streams) {
        v->streams = true;
        kn_exchange_stream(v->x, &(kn_reply){ .status = 200, .type = "text/event-stream", .fields = fields }, false);
    }
    if (!kn_buf_add_text(&v->out, start) || !kn_buf_add(&v->out, text, len) || !kn_buf_add_text(&v->out, "\n\n"))
        kn_exchange_break(v->x);
    kn_loop_timer_after(v->mcp->loop, &v->silence, SILENCE_MS);
    pump(v);
}

static void silence(kn_timer *t) {
    kn_mcp_visit *v = KN_HOLDER(t, kn_mcp_visit, silence);
    if (v->call)
        stream(v, ":", "", 0);
}

static const char event[] = "event: message\ndata: ";

static void notify(void *ctx, const char *text, size_t len) {
    kn_mcp_visit *v = ctx;
    if (v->out.len - v->sent < NOTES_BYTES)
        stream(v, event, text, len);
}

static void answer(void *ctx, const char *text, size_t len, int code) {
    kn_mcp_visit *v = ctx;
    char lines[300], session[SESSION_BYTES];
    v->call = NULL;
    kn_loop_timer_stop(&v->silence);
    if (v->streams) {
        v->ends = true;
        stream(v, event, text, len);
    } else if (v->initializes && !code && make_session(session)) {
        snprintf(lines, sizeof lines, "%sMcp-Session-Id: %s\r\n", fields, session);
        reply_text(v, 200, text, len, lines);
    } else {
        reply_text(v, status_of(v, code), text, len, fields);
    }
    free_if_over(v);
}

static const kn_mcp_client client = { notify, answer };

/* ---- requests ---- */

static const char *wanted_name(const kn_mcp_message *m) {
    return !strcmp(m->method, "tools/call") || !strcmp(m->method, "prompts/get") ? m->name
           : !strcmp(m->method, "resources/read")                                ? m->uri
                                                                                 : NULL;
}

/* Texts that are no visible ASCII come as =?base64?…?=. */
static bool is_header(const header *h, const char *wanted) {
    static const char start[] = "=?base64?", end[] = "?=";
    size_t len = strlen(h->text);
    KN_AUTO_BUF decoded;
    kn_buf_init(&decoded, sizeof h->text);
    if (h->often != ONCE)
        return false;
    if (len < sizeof start - 1 + sizeof end - 1 || strncmp(h->text, start, sizeof start - 1) != 0 ||
        strcmp(h->text + len - (sizeof end - 1), end) != 0)
        return !strcmp(h->text, wanted);
    return kn_base64_decode(h->text + sizeof start - 1, len - (sizeof start - 1) - (sizeof end - 1), &decoded, NULL) &&
           decoded.len == strlen(wanted) && !memcmp(decoded.data, wanted, decoded.len);
}

/* Whoever routes requests by their headers must not be told of others than we do. */
static bool has_matching_headers(const kn_mcp_visit *v, const kn_mcp_message *m) {
    const char *name = wanted_name(m);
    if (v->version.often == OFTEN || v->method.often == OFTEN || v->name.often == OFTEN)
        return false;
    if (!m->has_version || !m->has_capabilities || !m->version_is_text) /* which is refused for itself */
        return true;
    return is_header(&v->version, m->version) && is_header(&v->method, m->method) &&
           (!name || is_header(&v->name, name));
}

static void take_request(kn_mcp_visit *v, const kn_mcp_message *m) {
    if (v->stateless && !has_matching_headers(v, m)) {
        reply_error(v, 400, &m->id, KN_MCP_HEADER_MISMATCH, "a header does not match the body, or comes twice");
        return;
    }
    v->id = m->id;
    v->initializes = !v->stateless && !strcmp(m->method, "initialize");
    v->call = kn_mcp_begin(v->mcp, m, v->stateless, &client, v);
    if (v->call)
        kn_loop_timer_after(v->mcp->loop, &v->silence, SILENCE_MS);
    else
        reply_error(v, 200, &m->id, KN_MCP_INTERNAL, "memory is short");
}

/* Ids are unique within a session only. */
static void cancel(const kn_mcp_visit *by, const kn_mcp_message *m) {
    for (kn_mcp_visit *v = by->mcp->visits; v; v = v->next) {
        if (!v->call || v->stateless || v->initializes || strcmp(v->session, by->session) != 0 ||
            !kn_mcp_word_is_same(&v->id, &m->cancels))
            continue;
        kn_mcp_cancel(v->call);
        v->call = NULL;
        kn_loop_timer_stop(&v->silence);
        /* Nothing is answered: a stream ends as it is, and what has no answer yet gets an empty one. */
        v->ends = true;
        if (v->streams)
            pump(v);
        else if (v->x)
            reply_nothing(v->x, 202);
        free_if_over(v);
        return;
    }
}

static void collected(kn_exchange *x, kn_span body, bool complete) {
    kn_mcp_visit *v = *kn_exchange_user(x);
    kn_mcp_message m;
    kn_error err = { 0 };
    if (!complete) {
        kn_reply_problem(x, &(kn_problem){ .status = 413, .code = "body_too_large", .title = "The body is too large" });
        return;
    }
    int code = kn_mcp_message_read(body.data ? body.data : "", body.len, &m, &err);
    if (code) {
        reply_error(v, 400, &m.id, code, err.text);
    } else if (m.kind == KN_MCP_REQUEST) {
        take_request(v, &m);
    } else {
        if (m.kind == KN_MCP_NOTIFICATION && !v->stateless && !strcmp(m.method, "notifications/cancelled"))
            cancel(v, &m);
        reply_nothing(x, 202);
    }
    v->is_large = false;
}

static void writable(kn_exchange *x) {
    pump(*kn_exchange_user(x));
}

/* In the older era a closed connection means nothing: what was asked for goes on. */
static void ended(kn_exchange *x) {
    kn_mcp_visit *v = *kn_exchange_user(x);
    v->x = NULL;
    if (v->call && v->stateless) {
        kn_mcp_cancel(v->call);
        v->call = NULL;
    }
    free_if_over(v);
}

static void no_request(kn_exchange *x, const kn_head *head) {
    (void)x, (void)head; /* another service has taken it before it was handed over */
}

static const kn_service service = { .request = no_request, .collected = collected, .writable = writable, .end = ended };

/* ---- heads ---- */

bool kn_mcp_is_meant(const kn_head *head) {
    return kn_span_is(kn_head_path(head), "/mcp");
}

static header header_of(const kn_head *head, const char *name) {
    header h = { .often = NEVER };
    for (unsigned i = 0; i < head->field_count; i++) {
        if (!kn_span_is_like(kn_head_name(head, &head->fields[i]), name))
            continue;
        kn_span value = kn_head_value(head, &head->fields[i]);
        h.often = h.often == NEVER ? ONCE : OFTEN;
        size_t len = KN_MIN(value.len, sizeof h.text - 1);
        memcpy(h.text, value.data, len);
        h.text[len] = 0;
    }
    return h;
}

/* Whether a list of media types has one of those named, without its parameters. */
static bool accepts_one_of(const char *list, const char *const *types, size_t count) {
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " \t");
        size_t len = strcspn(at, ",; \t");
        for (size_t i = 0; i < count; i++)
            if (strlen(types[i]) == len && !strncasecmp(at, types[i], len))
                return true;
    }
    return false;
}

static bool accepts_both(const kn_head *head) {
    static const char *const json[] = { "application/json", "application/*", "*/*" };
    static const char *const events[] = { "text/event-stream", "text/*", "*/*" };
    char all[2 * KN_MCP_NAME_BYTES] = "";
    size_t used = 0;
    for (unsigned i = 0; i < head->field_count; i++) {
        kn_span value = kn_head_value(head, &head->fields[i]);
        if (kn_span_is_like(kn_head_name(head, &head->fields[i]), "Accept") && used + value.len + 2 < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, "%.*s,", (int)value.len, value.data);
    }
    return accepts_one_of(all, json, KN_COUNT(json)) && accepts_one_of(all, events, KN_COUNT(events));
}

static bool is_large(const kn_head *head) {
    return head->framing == KN_BODY_CHUNKED || (head->framing == KN_BODY_LENGTH && head->content_length >= LARGE_BYTES);
}

static unsigned large_ones(const kn_mcp *m) {
    unsigned n = 0;
    for (const kn_mcp_visit *v = m->visits; v; v = v->next)
        n += v->is_large;
    return n;
}

/* False: it is answered. */
static bool is_wanted(const kn_mcp *m, kn_exchange *x, const kn_head *head) {
    kn_problem p = { 0 };
    if (!kn_span_is(head->method, "POST"))
        p = (kn_problem){ 405, .code = "method_not_allowed", .title = "This path has other methods",
                          .fields = "Allow: POST\r\n" };
    else if (!kn_route_has_type(head, "application/json"))
        p = (kn_problem){ 415, .code = "media_type_unsupported", .title = "The body is of another type, or compressed",
                          .detail = "application/json" };
    else if (!accepts_both(head))
        p = (kn_problem){ 406, .code = "not_acceptable", .title = "Answers are application/json or text/event-stream",
                          .pointer = "header/Accept" };
    else if (head->framing == KN_BODY_LENGTH && head->content_length > KN_MCP_MESSAGE_MAX)
        p = (kn_problem){ 413, .code = "body_too_large", .title = "The body is too large" };
    else if (is_large(head) && large_ones(m) >= LARGE_MAX)
        p = (kn_problem){ 429, .code = "too_many_bodies", .title = "Two large requests are on their way already",
                          .retry_after_s = 2 };
    if (p.status)
        kn_reply_problem(x, &p);
    return !p.status;
}

/* Any name that could be one of ours is good: there is nothing behind it that could be missing. */
static bool take_session(kn_mcp_visit *v, kn_exchange *x, const kn_head *head) {
    header session = header_of(head, "Mcp-Session-Id");
    size_t len = strlen(session.text);
    if (session.often == NEVER)
        return true;
    if (session.often == ONCE && len == sizeof v->session - 1 && kn_text_is_hex(session.text, len)) {
        memcpy(v->session, session.text, sizeof v->session);
        return true;
    }
    kn_reply_problem(x, &(kn_problem){ .status = 404,
                                       .code = "session_unknown",
                                       .title = "There is no such session",
                                       .pointer = "header/Mcp-Session-Id" });
    return false;
}

void kn_mcp_serve(kn_mcp *m, kn_exchange *x, const kn_head *head) {
    if (!is_wanted(m, x, head))
        return;
    kn_mcp_visit *v = calloc(1, sizeof *v);
    if (!v) {
        kn_reply_problem(x, &(kn_problem){ .status = 503, .code = "out_of_memory", .title = "Memory is short" });
        return;
    }
    v->mcp = m;
    v->x = x;
    v->version = header_of(head, "MCP-Protocol-Version");
    v->method = header_of(head, "Mcp-Method");
    v->name = header_of(head, "Mcp-Name");
    v->stateless =
        v->version.often == OFTEN || (v->version.often == ONCE && !kn_mcp_is_handshake_version(v->version.text));
    v->is_large = is_large(head);
    v->silence.fired = silence;
    v->silence.due_ms = KN_TIMER_NEVER;
    kn_buf_init(&v->out, STREAM_BYTES);
    v->next = m->visits;
    v->at = &m->visits;
    if (m->visits)
        m->visits->at = &v->next;
    m->visits = v;
    *kn_exchange_user(x) = v;
    kn_exchange_hand_over(x, &service);
    if (take_session(v, x, head))
        kn_exchange_collect(x, KN_MCP_MESSAGE_MAX);
}
