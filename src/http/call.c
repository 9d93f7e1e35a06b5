#include "http/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "http/link.h"
#include "http/write.h"

struct kn_call {
    kn_http *http;
    kn_link *link; /* NULL: it has ended */
    kn_timer timer;
    kn_task task;
    kn_call_done *done; /* NULL: cancelled */
    void (*data)(void *ctx, kn_span data);
    void (*head)(void *ctx, const kn_head *head);
    bool is_heard; /* one of the two is being called */
    void *ctx;
    kn_call_end end;
    unsigned status;
    kn_buf body;
};

static void tell(kn_task *t) {
    kn_call *c = KN_HOLDER(t, kn_call, task);
    if (c->link)
        kn_link_abort(c->link);
    if (c->done)
        c->done(c->ctx, &(kn_call_result){ c->end, c->status, { c->body.data, c->body.len } });
    kn_buf_free(&c->body);
    free(c);
}

/* The first end that comes is the end. */
static void finish(kn_call *c, kn_call_end end) {
    if (c->task.run)
        return;
    c->end = end;
    c->task.run = tell;
    kn_loop_timer_close(c->http->loop, &c->timer);
    kn_loop_later(c->http->loop, &c->task);
}

static void late(kn_timer *t) {
    kn_call *c = KN_HOLDER(t, kn_call, timer);
    kn_upstream_end end = kn_link_abort(c->link);
    c->link = NULL;
    finish(c, end == KN_UPSTREAM_UNSENT ? KN_CALL_UNREACHABLE : KN_CALL_LATE);
}

static void answer_writable(void *ctx) {
    (void)ctx; /* all of the request was given away at the start */
}

static void answer_head(void *ctx, const kn_head *head) {
    kn_call *c = ctx;
    if (head->status < 200)
        return;
    c->status = head->status;
    c->is_heard = true;
    if (c->head && !c->task.run)
        c->head(c->ctx, head);
    c->is_heard = false;
}

static void answer_data(void *ctx, kn_span data) {
    kn_call *c = ctx;
    if (c->task.run)
        return;
    if (c->data && c->status == 200) {
        c->is_heard = true;
        c->data(c->ctx, data);
        c->is_heard = false;
    } else if (data.len > c->body.limit - c->body.len) {
        finish(c, KN_CALL_TOO_LARGE);
    } else if (!kn_buf_add(&c->body, data.data, data.len)) {
        finish(c, KN_CALL_NO_MEMORY);
    }
}

static void answer_flush(void *ctx, bool last) {
    (void)ctx;
    (void)last;
}

static void answer_ended(void *ctx, kn_upstream_end end, unsigned status) {
    (void)status;
    kn_call *c = ctx;
    c->link = NULL;
    finish(c, end == KN_UPSTREAM_COMPLETE ? KN_CALL_ANSWERED
              : end == KN_UPSTREAM_UNSENT ? KN_CALL_UNREACHABLE
                                          : KN_CALL_BROKEN);
}

static const kn_link_owner owner = { answer_writable, answer_head, answer_data, answer_flush, answer_ended };

static void write_field(kn_writer *w, const char *name, const char *value) {
    kn_write_text(w, name);
    kn_write_text(w, value);
    kn_write_text(w, "\r\n");
}

/* One piece: the head, then the body. */
static bool send_request(kn_call *c, const kn_call_request *r, const kn_address *address) {
    const kn_span body = r->type ? r->body : r->json ? kn_span_of(r->json) : (kn_span){ NULL, 0 };
    kn_writer w = { c->http->write, 0, KN_HTTP_WRITE_MAX, false };
    kn_write_text(&w, r->method);
    kn_write_text(&w, " ");
    kn_write_text(&w, r->target);
    kn_write_text(&w, " HTTP/1.1\r\nHost: ");
    if (r->host.data)
        kn_write(&w, r->host.data, r->host.len);
    else
        kn_write_host(&w, address);
    write_field(&w, "\r\nAccept: ", r->accept ? r->accept : "application/json");
    if (r->fields)
        kn_write_text(&w, r->fields);
    if (body.data) {
        write_field(&w, "Content-Type: ", r->type ? r->type : "application/json");
        kn_write_text(&w, "Content-Length: ");
        kn_write_number(&w, body.len);
        kn_write_text(&w, "\r\n");
    }
    kn_write_text(&w, "\r\n");
    if (w.full)
        return false;
    kn_batch_add(&c->http->batch, w.data, w.len);
    kn_batch_add(&c->http->batch, body.data, body.len);
    kn_link_request_is_complete(c->link);
    kn_link_send(c->link, &c->http->batch);
    kn_batch_reset(&c->http->batch);
    return true;
}

bool kn_call_start(kn_upstream *u, const kn_call_request *r, kn_call_done *done, void *ctx, kn_call **ret,
                   kn_error *err) {
    kn_call *c = calloc(1, sizeof *c);
    if (!c)
        return kn_fail_nomem(err, sizeof *c);
    *c = (kn_call){
        .http = kn_upstream_http(u), .done = done, .data = r->data, .head = r->head, .ctx = ctx, .timer.fired = late
    };
    kn_buf_init(&c->body, r->answer_limit);
    const kn_address *address = kn_upstream_address(u);
    c->link = kn_link_open(u, &owner, c, !strcmp(r->method, "HEAD"));
    if (!c->link) {
        free(c);
        return kn_fail(err, KN_E_IO, "cannot connect to %s: %s", kn_address_print(address).text, strerror(errno));
    }
    if (!send_request(c, r, address)) {
        kn_link_abort(c->link);
        free(c);
        return kn_fail(err, KN_E_RANGE, "a request of more than %d bytes", KN_HTTP_WRITE_MAX);
    }
    kn_loop_timer_after(c->http->loop, &c->timer, r->within_ms);
    if (ret)
        *ret = c;
    return true;
}

/* Its connection goes at once, and the upstream may when this returns; unless the answer is being read just now. */
void kn_call_cancel(kn_call *c) {
    if (c->link && !c->is_heard) {
        kn_link_abort(c->link);
        c->link = NULL;
    }
    c->done = NULL;
    finish(c, KN_CALL_BROKEN);
}
