#include "http/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "http/client.h"
#include "http/reply.h"
#include "http/write.h"

const char *kn_upstream_end_name(kn_upstream_end end) {
    static const char *const names[] = {
        [KN_UPSTREAM_COMPLETE] = "complete", [KN_UPSTREAM_UNSENT] = "unsent",   [KN_UPSTREAM_CUT] = "cut",
        [KN_UPSTREAM_BROKEN] = "broken",     [KN_UPSTREAM_ABORTED] = "aborted",
    };
    return names[end];
}

static void decide(kn_exchange *x, kn_decision decision) {
    if (x->phase != KN_DECIDING || x->decision != KN_UNDECIDED)
        return;
    x->decision = (uint8_t)decision;
    if (!x->in_callback)
        kn_client_later(x);
}

void kn_exchange_forward(kn_exchange *x, kn_upstream *u, const kn_forward *how) {
    if (x->phase == KN_DECIDING && x->decision == KN_UNDECIDED) {
        x->upstream = u;
        x->how = *how;
    }
    decide(x, KN_FORWARD);
}

void kn_exchange_collect(kn_exchange *x, size_t limit) {
    if (x->has_collected)
        return;
    x->collect_limit = limit;
    kn_buf_init(&x->collected, limit + 1);
    decide(x, KN_COLLECT);
}

kn_buf kn_exchange_take_collected(kn_exchange *x) {
    kn_buf taken = x->collected;
    kn_server_collected_less(x->server, taken.len);
    kn_buf_init(&x->collected, 0);
    return taken;
}

void kn_exchange_hand_over(kn_exchange *x, const kn_service *service) {
    x->service = service;
}

bool kn_exchange_set_more_fields(kn_exchange *x, const char *fields) {
    free(x->more_fields);
    x->more_fields = fields ? strdup(fields) : NULL;
    return x->more_fields || !fields;
}

/* The answer without what depends on the connection: that is known when it is sent. */
static bool make_answer(kn_exchange *x, const kn_reply *r, bool has_len, size_t body_len) {
    const char *fields = r->fields ? r->fields : "", *type = r->type ? r->type : "";
    const char *more = x->more_fields ? x->more_fields : "";
    size_t room = 256 + strlen(fields) + strlen(more) + strlen(type);
    x->reply = malloc(room + body_len);
    if (!x->reply) {
        x->broken = true; /* without memory for an answer there is nothing to do but to close */
        kn_client_later(x);
        return false;
    }
    kn_writer w = { x->reply, 0, room, false };
    kn_write_text(&w, "HTTP/1.1 ");
    kn_write_number(&w, r->status);
    kn_write_text(&w, " ");
    kn_write_text(&w, kn_status_reason(r->status));
    kn_write_text(&w, "\r\nDate: ");
    kn_write_text(&w, kn_http_date(x->http));
    if (r->type) {
        kn_write_text(&w, "\r\nContent-Type: ");
        kn_write_text(&w, type);
    }
    if (has_len) {
        kn_write_text(&w, "\r\nContent-Length: ");
        kn_write_number(&w, r->len);
    }
    kn_write_text(&w, "\r\n");
    kn_write_text(&w, fields);
    kn_write_text(&w, more);
    x->reply_head_len = w.len;
    x->facts.status = r->status;
    return true;
}

static bool may_answer(const kn_exchange *x) {
    bool is_expected = x->phase == KN_REPLYING || (x->phase == KN_DECIDING && x->decision == KN_UNDECIDED);
    return is_expected && !x->answer_begun && !x->reply;
}

void kn_exchange_reply(kn_exchange *x, const kn_reply *r) {
    if (!may_answer(x) || !make_answer(x, r, r->status != 204 && r->status != 304, r->len))
        return;
    x->reply_len = r->len;
    if (r->len)
        memcpy(x->reply + x->reply_head_len, r->body, r->len);
    x->facts.response_bytes = r->len;
    decide(x, KN_REPLY);
}

void kn_exchange_stream(kn_exchange *x, const kn_reply *r, bool has_len) {
    if (x->phase != KN_DECIDING || !may_answer(x) || !make_answer(x, r, has_len, 0))
        return;
    x->stream_has_len = has_len;
    kn_buf_init(&x->stream, KN_STREAM_MAX);
    decide(x, KN_STREAM);
}

static bool streams(const kn_exchange *x) {
    return (x->phase == KN_STREAMING || x->decision == KN_STREAM) && !x->stream_ended && !x->cut;
}

void kn_exchange_send(kn_exchange *x, const void *data, size_t len) {
    if (!streams(x))
        return;
    if (kn_buf_add(&x->stream, data, len))
        kn_client_later(x);
    else
        kn_exchange_break(x);
}

void kn_exchange_send_end(kn_exchange *x) {
    if (!streams(x))
        return;
    x->stream_ended = true;
    kn_client_later(x);
}

void kn_exchange_break(kn_exchange *x) {
    if (!streams(x))
        return;
    x->cut = true;
    kn_client_later(x);
}

bool kn_exchange_is_drained(const kn_exchange *x) {
    return x->phase == KN_STREAMING && !x->stream.len && !x->socket.held;
}

const kn_head *kn_exchange_head(kn_exchange *x) {
    if (x->head_is_live)
        return &x->http->head;
    if (!x->head || kn_request_parse(&x->http->again, x->head, x->head_len))
        return NULL;
    return &x->http->again;
}

void kn_exchange_set_dialect(kn_exchange *x, kn_problem_writer *dialect) {
    x->dialect = dialect;
}

kn_problem_writer *kn_exchange_dialect(const kn_exchange *x) {
    return x->dialect;
}

void kn_exchange_set_brief(kn_exchange *x, bool brief) {
    x->brief = brief;
    if (!brief && x->half_closed) { /* which it outlasted until now */
        x->broken = true;
        kn_client_later(x);
    }
}

void kn_exchange_trust(kn_exchange *x) {
    x->trusted = true;
}

void *kn_exchange_listener(const kn_exchange *x) {
    return x->listener;
}

void **kn_exchange_user(kn_exchange *x) {
    return &x->user;
}

const kn_exchange_facts *kn_exchange_facts_of(const kn_exchange *x) {
    return &x->facts;
}
