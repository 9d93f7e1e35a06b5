#include "http/client.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "http/reply.h"
#include "http/write.h"

enum { LINGER_MS = 2000 }; /* for the client to read its last answer although it was still sending */

static uint64_t now_ms(const kn_exchange *x) {
    return kn_loop_now_ms(x->http->loop);
}

void kn_client_later(kn_exchange *x) {
    kn_loop_later(x->http->loop, &x->task);
}

static void free_client(kn_task *t) {
    free(KN_HOLDER(t, kn_exchange, task));
}

/* When connection and exchange are both over; the memory goes when this turn's events are through. */
static void retire(kn_exchange *x) {
    if (x->phase != KN_GONE || x->active || !x->server)
        return;
    kn_server_remove(x->server, x);
    x->server = NULL;
    x->task.run = free_client;
    kn_client_later(x);
}

/* Called whenever there is nobody to talk to any more, for whatever reason; again: nothing. */
static void close_client(kn_exchange *x) {
    if (x->phase == KN_GONE)
        return;
    x->phase = KN_GONE;
    kn_watch_close(x->http->loop, &x->socket.watch);
    kn_loop_timer_close(x->http->loop, &x->timer);
    kn_socket_drop_held(&x->socket);
    kn_input_drop(&x->in);
    retire(x);
}

/* The last answer is out. A client that may still be sending would lose it to a reset if we just closed. */
static void close_gently(kn_exchange *x) {
    if (x->body.complete && !x->in.data) {
        close_client(x);
        return;
    }
    shutdown(x->socket.watch.fd, SHUT_WR);
    x->phase = KN_LINGERING;
    x->since_ms = now_ms(x);
    kn_input_drop(&x->in);
}

static bool wants_input(const kn_exchange *x) {
    switch ((kn_phase)x->phase) {
    case KN_READING_HEAD:
    case KN_COLLECTING:
    case KN_LINGERING: return true;
    case KN_FORWARDING: return x->link && !x->body.complete && kn_link_has_room(x->link);
    case KN_DECIDING:
    case KN_REPLYING:
    case KN_STREAMING:
    case KN_GONE: break;
    }
    return false;
}

/* Whether others wait for the client: for more of the body, or until it takes what there is of the answer. */
static bool is_waited_for(const kn_exchange *x, bool reads) {
    if (x->phase == KN_COLLECTING)
        return true;
    return x->phase == KN_FORWARDING && x->link && (x->socket.held || (reads && !x->expects_continue));
}

/* Bytes of both bodies that have come or gone. The kernel takes megabytes of an answer and tells of room only when a
 * good part of them has gone, for a slow network after a minute; so it is asked what it still has. */
static uint64_t moved(const kn_exchange *x) {
    uint64_t came = KN_MAX(x->facts.request_bytes, x->collected.len), went = x->facts.response_bytes;
    return came + (went ? went - KN_MIN(went, kn_socket_untaken(&x->socket)) : 0);
}

static uint64_t end_of_patience_ms(kn_exchange *x, bool reads) {
    kn_patience p = kn_server_limits_of(x->server)->patience;
    if (x->how.unhurried)
        p.most_ms = 0;
    bool on = is_waited_for(x, reads);
    if (on || x->waiting.on || x->socket.held) /* whoever keeps up is not looked at */
        kn_waiting_note(&x->waiting, &p, now_ms(x), on, moved(x));
    return kn_waiting_due_ms(&x->waiting, &p);
}

void kn_client_arrange(kn_exchange *x) {
    if (x->phase == KN_GONE)
        return;
    const kn_server_limits *limits = kn_server_limits_of(x->server);
    uint64_t due = KN_TIMER_NEVER;
    bool reads = wants_input(x);
    if (x->socket.held)
        due = now_ms(x) + limits->send_ms;
    else if (x->phase == KN_LINGERING)
        due = x->since_ms + LINGER_MS;
    else if (x->phase == KN_READING_HEAD)
        due = x->scan.at ? x->head_since_ms + limits->head_ms : x->since_ms + limits->idle_ms;
    else if (reads)
        due = now_ms(x) + limits->body_ms;
    due = KN_MIN(due, end_of_patience_ms(x, reads));
    kn_loop_timer_at(x->http->loop, &x->timer, due);
    kn_watch_want(x->http->loop, &x->socket.watch,
                  (x->half_closed ? 0 : EPOLLRDHUP) | (reads ? EPOLLIN : 0) | (x->socket.held ? EPOLLOUT : 0));
}

/* ---- the end of an answer, an exchange, a connection ---- */

/* Forgets everything about the last request. */
static void reset(kn_exchange *x) {
    free(x->head);
    free(x->reply);
    kn_server_collected_less(x->server, x->collected.len);
    kn_buf_free(&x->collected);
    kn_buf_init(&x->collected, 0);
    kn_buf_free(&x->stream);
    kn_buf_init(&x->stream, 0);
    free(x->more_fields);
    x->head = x->reply = x->more_fields = NULL;
    x->head_is_live = x->has_collected = x->head_waits = false;
    x->stream_has_len = x->stream_ended = false;
    x->answer_chunked = x->answer_until_close = x->answer_begun = x->answer_complete = x->client_done = false;
    x->brief = false;
    x->decision = KN_UNDECIDED;
    x->collected_at = 0;
    x->user = NULL;
    x->dialect = NULL;
    x->service = x->usual;
    x->scan = (kn_head_scan){ 0 };
    x->most = KN_HTTP_READ_MIN;
    x->how = (kn_forward){ 0 };
    x->waiting = (kn_waiting){ 0 };
    x->facts = (kn_exchange_facts){ 0 };
    x->since_ms = now_ms(x);
}

void kn_client_check_end(kn_exchange *x) {
    if (!x->active || !x->client_done || x->link)
        return;
    if (x->decision == KN_FORWARD) /* the client left before it could be done */
        kn_relay_tell_end(x, KN_UPSTREAM_UNSENT);
    x->active = false;
    if (x->service->end)
        x->service->end(x);
    if (x->phase != KN_GONE && x->phase != KN_LINGERING) {
        x->phase = KN_READING_HEAD;
        if (x->in.data)
            kn_client_later(x);
        reset(x);
        return;
    }
    uint64_t since = x->since_ms;
    reset(x);
    x->since_ms = since;
    retire(x);
}

void kn_client_answer_is_complete(kn_exchange *x) {
    x->answer_complete = true;
    if (x->socket.held || x->broken)
        return;
    x->facts.answered = true;
    x->client_done = true;
    if (!x->keep || kn_server_is_draining(x->server))
        close_gently(x);
    kn_client_check_end(x);
}

void kn_client_leave(kn_exchange *x) {
    if (x->phase == KN_GONE)
        return;
    bool was_waited_for = x->active && !x->client_done;
    x->client_done = true;
    close_client(x);
    if (was_waited_for) {
        x->facts.client_left = true;
        kn_relay_give_up(x);
        if (x->link && x->service->client_left)
            x->service->client_left(x);
    }
    kn_client_check_end(x);
}

void kn_client_abort(kn_exchange *x) {
    x->how.drain_ms = 0;
    kn_relay_give_up(x);
    x->client_done = true; /* not by its own doing, so it has not left */
    kn_client_leave(x);
    kn_client_check_end(x); /* where the client was gone already */
}

/* Closes in the middle of an answer, so that it cannot be taken for a complete one. */
static void cut(kn_exchange *x) {
    struct linger reset_at_once = { .l_onoff = 1, .l_linger = 0 };
    if (x->answer_until_close)
        setsockopt(x->socket.watch.fd, SOL_SOCKET, SO_LINGER, &reset_at_once, sizeof reset_at_once);
    x->client_done = true;
    close_client(x);
    kn_client_check_end(x);
}

void kn_client_fail(kn_exchange *x, unsigned status) {
    kn_relay_give_up(x);
    kn_client_later(x);
    x->phase = KN_REPLYING;
    x->cut = x->answer_begun;
    if (x->cut)
        return;
    if (x->service->failed)
        x->service->failed(x, status);
    if (!x->reply)
        kn_reply_status(x, status);
}

/* ---- requests ---- */

static const kn_service nobody;
static const char chunked[] = "Transfer-Encoding: chunked\r\n";

/* A head that cannot be understood, of which w is what came: it is no request, and what follows is not looked at. */
static void refuse(kn_exchange *x, unsigned status, kn_window w) {
    kn_span method, target;
    kn_request_glance(w.data, w.len, &method, &target);
    x->active = true;
    x->keep = false;
    x->to_head = kn_span_is(method, "HEAD");
    x->minor = 1;
    x->phase = KN_REPLYING;
    kn_body_begin(&x->body, KN_BODY_UNTIL_CLOSE, 0);
    if (x->service->refused)
        x->service->refused(x, status, target);
    if (!x->reply)
        kn_reply_status(x, status);
    x->service = &nobody;
}

static void begin_exchange(kn_exchange *x, const kn_head *h) {
    x->active = true;
    x->head_is_live = true;
    x->minor = (uint8_t)h->minor;
    x->to_head = kn_span_is(h->method, "HEAD");
    x->expects_continue = h->expects_continue;
    x->keep = h->keep_alive;
    x->facts.started_ms = now_ms(x);
    x->phase = KN_DECIDING;
    kn_body_begin(&x->body, h->framing, h->content_length);
    x->in_callback = true;
    x->service->request(x, h);
    x->in_callback = false;
}

/* Each of the following does what can be done in one phase. *used: bytes of the window that are done with. True: the
 * next phase has come. */

static bool read_head(kn_exchange *x, kn_window w, size_t *used) {
    if (!w.len)
        return false;
    if (!x->scan.at)
        x->head_since_ms = now_ms(x);
    unsigned scanned = kn_head_scan_more(&x->scan, w.data, w.len);
    if (scanned == KN_SCAN_MORE)
        return false;
    if (scanned != KN_SCAN_COMPLETE) {
        refuse(x, scanned, w);
        return true;
    }
    *used = x->scan.at;
    x->scan = (kn_head_scan){ 0 };
    if (*used == 2) /* an empty line: some clients send one behind a body; it is no request, so the wait goes on */
        return true;
    unsigned status = kn_request_parse(&x->http->head, w.data, *used);
    if (status)
        refuse(x, status, (kn_window){ w.data, *used });
    else
        begin_exchange(x, &x->http->head);
    return true;
}

static void send_batch(kn_exchange *x) {
    bool went;
    if (!kn_socket_send(&x->socket, &x->http->batch, false, &went)) {
        x->broken = true;
        kn_client_later(x);
    }
    kn_batch_reset(&x->http->batch);
}

static bool hold_collected(kn_exchange *x, kn_span piece) {
    if (!kn_server_has_room_for(x->server, piece.len))
        return false;
    if (kn_buf_add(&x->collected, piece.data, piece.len))
        return true;
    kn_server_collected_less(x->server, piece.len);
    return false;
}

static void tell_collected(kn_exchange *x, bool complete) {
    x->has_collected = true;
    x->phase = KN_DECIDING;
    x->in_callback = true;
    if (x->service->collected)
        x->service->collected(x, (kn_span){ x->collected.data, x->collected.len }, complete);
    x->in_callback = false;
}

static bool collect(kn_exchange *x, kn_window w, size_t *used) {
    while (*used < w.len && !x->body.complete && x->collected.len <= x->collect_limit) {
        size_t most = x->collect_limit + 1 - x->collected.len; /* one more tells that there is more */
        kn_span piece;
        ptrdiff_t n = kn_body_next(&x->body, w.data + *used, KN_MIN(w.len - *used, most), &piece);
        if (n < 0 || !hold_collected(x, piece)) {
            x->keep = false;
            kn_client_fail(x, n < 0 ? 400 : 503);
            return true;
        }
        *used += (size_t)n;
    }
    bool too_much = x->collected.len > x->collect_limit;
    if (!x->body.complete && !too_much)
        return false;
    tell_collected(x, !too_much);
    return true;
}

/* Whether the head says already that the body is too large. */
static bool is_beyond_limit(const kn_exchange *x) {
    return x->body.framing == KN_BODY_LENGTH && x->body.left > x->collect_limit;
}

static bool decide(kn_exchange *x) {
    kn_decision decision = (kn_decision)x->decision;
    x->decision = KN_UNDECIDED;
    switch (decision) {
    case KN_UNDECIDED: return false;
    case KN_REPLY: x->phase = KN_REPLYING; break;
    case KN_STREAM: x->phase = KN_STREAMING; break;
    case KN_COLLECT:
        if (is_beyond_limit(x)) {
            tell_collected(x, false);
            break;
        }
        x->phase = KN_COLLECTING;
        if (x->expects_continue && !x->body.complete) {
            static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
            kn_batch_add(&x->http->batch, go_on, sizeof go_on - 1);
            send_batch(x);
        }
        x->expects_continue = false;
        break;
    case KN_FORWARD:
        if (x->half_closed && !x->brief) {
            kn_relay_tell_end(x, KN_UPSTREAM_UNSENT);
            kn_client_leave(x);
            return false;
        }
        x->phase = KN_FORWARDING;
        kn_relay_begin(x, kn_exchange_head(x));
        break;
    }
    return true;
}

/* Passes over what is left of the request's body; begins the answer. */
static void send_head(kn_exchange *x, kn_window w, size_t *used) {
    while (*used < w.len && !x->body.complete) {
        kn_span piece;
        ptrdiff_t n = kn_body_next(&x->body, w.data + *used, w.len - *used, &piece);
        *used = n < 0 ? w.len : *used + (size_t)n;
    }
    if (!x->body.complete || kn_server_is_draining(x->server) || x->answer_until_close)
        x->keep = false;
    kn_batch *b = &x->http->batch;
    kn_batch_add(b, x->reply, x->reply_head_len);
    if (x->answer_chunked)
        kn_batch_add(b, chunked, sizeof chunked - 1);
    const char *connection = !x->keep   ? "Connection: close\r\n\r\n"
                             : x->minor ? "\r\n"
                                        : "Connection: keep-alive\r\n\r\n";
    kn_batch_add(b, connection, strlen(connection));
    x->answer_begun = true;
}

static bool reply(kn_exchange *x, kn_window w, size_t *used) {
    if (!x->reply)
        return false;
    send_head(x, w, used);
    if (!x->to_head)
        kn_batch_add(&x->http->batch, x->reply + x->reply_head_len, x->reply_len);
    send_batch(x);
    free(x->reply);
    x->reply = NULL;
    kn_client_answer_is_complete(x);
    return x->phase == KN_READING_HEAD;
}

static void begin_stream(kn_exchange *x, kn_window w, size_t *used) {
    x->answer_chunked = !x->stream_has_len && x->minor;
    x->answer_until_close = !x->stream_has_len && !x->minor;
    send_head(x, w, used);
    send_batch(x);
    free(x->reply);
    x->reply = NULL;
}

/* What was sent since the last time goes out, as one chunk. When it has been taken the service is asked for more: not
 * here and now, so that others get their turn. */
static bool stream(kn_exchange *x, kn_window w, size_t *used) {
    if (x->reply)
        begin_stream(x, w, used);
    if (x->to_head) {
        kn_client_answer_is_complete(x);
        return x->phase == KN_READING_HEAD;
    }
    if (x->socket.held || x->broken)
        return false;
    kn_batch *b = &x->http->batch;
    x->facts.response_bytes += x->stream.len;
    if (x->stream.len)
        kn_batch_add_data(b, x->stream.data, x->stream.len, x->answer_chunked);
    kn_batch_close(b, x->answer_chunked, x->stream_ended);
    if (b->len)
        send_batch(x);
    kn_buf_clear(&x->stream);
    if (x->stream_ended) {
        kn_client_answer_is_complete(x);
        return x->phase == KN_READING_HEAD;
    }
    if (!x->socket.held && !x->broken && x->service->writable)
        x->service->writable(x);
    return false;
}

static bool advance(kn_exchange *x, kn_window w, size_t *used) {
    switch ((kn_phase)x->phase) {
    case KN_READING_HEAD: return read_head(x, w, used);
    case KN_DECIDING: return decide(x);
    case KN_COLLECTING: return collect(x, w, used);
    case KN_FORWARDING: *used = kn_relay_request(x, w); return x->phase != KN_FORWARDING;
    case KN_REPLYING: return reply(x, w, used);
    case KN_STREAMING: return stream(x, w, used);
    case KN_LINGERING:
    case KN_GONE: break;
    }
    return false;
}

/* A head that will be needed when the bytes that it was read from are gone. */
static bool keep_head(kn_exchange *x) {
    if (!x->head_is_live)
        return true;
    x->head_is_live = false;
    if (x->phase != KN_DECIDING && x->phase != KN_COLLECTING)
        return true;
    const kn_head *h = &x->http->head;
    x->head = malloc(h->len);
    if (!x->head)
        return false;
    memcpy(x->head, h->data, h->len);
    x->head_len = h->len;
    return true;
}

void kn_client_process(kn_exchange *x, kn_window w) {
    size_t used = 0;
    for (bool goes_on = true; goes_on;) {
        size_t n = 0;
        goes_on = advance(x, (kn_window){ w.data + used, w.len - used }, &n);
        used += n;
    }
    bool head_is_kept = keep_head(x);
    if (x->phase == KN_GONE || x->phase == KN_LINGERING)
        return; /* whatever else was read is of no interest any more */
    if (!head_is_kept || !kn_input_keep(&x->in, w, used))
        kn_client_leave(x);
}

/* ---- events ---- */

static void read_input(kn_exchange *x) {
    size_t most = x->phase == KN_READING_HEAD ? KN_HTTP_READ_MIN : x->most;
    if (x->body.framing == KN_BODY_LENGTH && (x->phase == KN_FORWARDING || x->phase == KN_COLLECTING))
        most = (size_t)KN_MIN((uint64_t)most, x->body.left);
    kn_window w;
    switch (kn_input_read(x->http, &x->in, x->socket.watch.fd, most, &w)) {
    case KN_READ_NOTHING: break;
    case KN_READ_END:
    case KN_READ_BROKEN:
        if (x->phase == KN_LINGERING)
            close_client(x);
        else
            kn_client_leave(x);
        break;
    case KN_READ_DATA:
        /* Whoever fills what it may send gets to send more at once. */
        if (w.len == x->most && x->phase != KN_READING_HEAD)
            x->most = KN_MIN(2 * x->most, (uint32_t)KN_HTTP_READ_MAX);
        kn_client_process(x, w);
        break;
    }
}

static void flush(kn_exchange *x) {
    bool went;
    if (!kn_socket_flush(&x->socket, &went))
        kn_client_leave(x);
    if (x->phase == KN_GONE || x->socket.held)
        return;
    if (x->cut)
        cut(x);
    else if (x->answer_complete)
        kn_client_answer_is_complete(x);
    else if (x->link)
        kn_link_resume(x->link);
    else if (x->phase == KN_STREAMING)
        kn_client_later(x);
}

/* Whether a client that has closed its sending side is served all the same. What it sent before may still lie in the
 * socket, up to the end, which is met by reading; and an answer that is all there costs nobody anything. */
static bool outlasts_half_close(const kn_exchange *x) {
    switch ((kn_phase)x->phase) {
    case KN_READING_HEAD:
    case KN_COLLECTING:
    case KN_REPLYING:
    case KN_LINGERING: return true;
    case KN_DECIDING:
    case KN_FORWARDING:
    case KN_STREAMING: return x->brief && x->body.complete;
    case KN_GONE: break;
    }
    return false;
}

static void ready(kn_watch *w, uint32_t events) {
    kn_exchange *x = KN_HOLDER(w, kn_exchange, socket.watch);
    x->half_closed = x->half_closed || events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    if (events & EPOLLOUT)
        flush(x);
    if ((events & EPOLLIN || x->phase == KN_LINGERING) && wants_input(x))
        read_input(x);
    bool is_gone = events & (EPOLLHUP | EPOLLERR) && x->phase != KN_LINGERING;
    if (is_gone || (x->half_closed && !outlasts_half_close(x)))
        kn_client_leave(x);
    kn_client_arrange(x);
}

static void step(kn_task *t) {
    kn_exchange *x = KN_HOLDER(t, kn_exchange, task);
    if (x->phase == KN_GONE)
        return;
    if (x->broken)
        kn_client_leave(x);
    else if (x->cut && !x->socket.held)
        cut(x);
    else
        kn_client_process(x, kn_input_window(&x->in));
    kn_client_arrange(x);
}

/* Nothing has been heard of the client for as long as it has, but it may be taking its answer all the same. */
static bool still_takes(kn_exchange *x) {
    return moved(x) > x->waiting.moved && end_of_patience_ms(x, wants_input(x)) > now_ms(x);
}

static void timed_out(kn_timer *t) {
    kn_exchange *x = KN_HOLDER(t, kn_exchange, timer);
    if (x->phase == KN_LINGERING || kn_client_is_idle(x)) {
        close_client(x);
    } else if (x->socket.held) {
        if (!still_takes(x))
            kn_client_leave(x);
    } else if (x->phase == KN_READING_HEAD) {
        refuse(x, 408, kn_input_window(&x->in));
        kn_client_later(x);
    } else {
        x->keep = false;
        kn_client_fail(x, 408);
    }
    kn_client_arrange(x);
}

bool kn_client_is_idle(const kn_exchange *x) {
    return x->phase == KN_READING_HEAD && !x->scan.at;
}

bool kn_client_new(kn_server *s, int fd, kn_peer *peer, const kn_service *service, void *ctx, kn_error *err) {
    kn_exchange *x = calloc(1, sizeof *x);
    if (!x)
        return kn_fail_nomem(err, sizeof *x);
    x->http = kn_server_http(s);
    if (!kn_watch_open(x->http->loop, &x->socket.watch, fd, EPOLLIN | EPOLLRDHUP, ready, err)) {
        free(x);
        return false;
    }
    x->server = s;
    x->service = x->usual = service;
    x->listener = ctx;
    x->peer = peer;
    x->timer.fired = timed_out;
    x->task.run = step;
    reset(x);
    kn_server_add(s, x);
    kn_client_arrange(x);
    return true;
}
