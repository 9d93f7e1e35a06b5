#include "http/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "http/client.h"
#include "http/reply.h"
#include "http/write.h"

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

/* The answer without what depends on the connection: that is known when it is sent. */
void kn_exchange_reply(kn_exchange *x, const kn_reply *r) {
    bool is_expected = x->phase == KN_REPLYING || (x->phase == KN_DECIDING && x->decision == KN_UNDECIDED);
    if (!is_expected || x->answer_begun || x->reply)
        return;
    const char *fields = r->fields ? r->fields : "", *type = r->type ? r->type : "";
    size_t room = 256 + strlen(fields) + strlen(type);
    x->reply = malloc(room + r->len);
    if (!x->reply) {
        x->broken = true; /* without memory for an answer there is nothing to do but to close */
        kn_client_later(x);
        return;
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
    kn_write_text(&w, "\r\nContent-Length: ");
    kn_write_number(&w, r->len);
    kn_write_text(&w, "\r\n");
    kn_write_text(&w, fields);
    x->reply_head_len = w.len;
    x->reply_len = r->len;
    if (r->len)
        memcpy(x->reply + w.len, r->body, r->len);
    x->facts.status = r->status;
    x->facts.response_bytes = r->len;
    decide(x, KN_REPLY);
}

const kn_head *kn_exchange_head(kn_exchange *x) {
    if (x->head_is_live)
        return &x->http->head;
    if (!x->head || kn_request_parse(&x->http->again, x->head, x->head_len))
        return NULL;
    return &x->http->again;
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
