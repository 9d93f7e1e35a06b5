#include "http/client.h"

#include "http/write.h"

/* The upstream's part of an exchange: the request goes there and its answer comes back. Bytes pass through the
 * workspace; each side is read only while the other has taken everything. */

enum {
    COLLECTED_PIECE = 128 << 10,                /* of a collected body, sent in one go */
    ADDED_MAX = (1 << 10) + KN_MORE_FIELDS_MAX, /* bytes that we add to a head */
};

static void answer_writable(void *ctx);
static void answer_head(void *ctx, const kn_head *h);
static void answer_data(void *ctx, kn_span data);
static void answer_flush(void *ctx, bool last);
static void answer_ended(void *ctx, kn_upstream_end end, unsigned status);

static const kn_link_owner owner = { answer_writable, answer_head, answer_data, answer_flush, answer_ended };

void kn_relay_tell_end(kn_exchange *x, kn_upstream_end end) {
    if (x->service->upstream_end)
        x->service->upstream_end(x, end);
}

void kn_relay_give_up(kn_exchange *x) {
    if (!x->link)
        return;
    if (x->how.drain_ms) {
        kn_link_drain(x->link, kn_loop_now_ms(x->http->loop) + x->how.drain_ms);
        return;
    }
    kn_upstream_end end = kn_link_abort(x->link);
    x->link = NULL;
    kn_relay_tell_end(x, end);
}

/* ---- the request ---- */

static void add_head(kn_http *http, kn_writer *w) {
    kn_batch_add(&http->batch, w->data, w->len);
    http->written += w->len;
}

static kn_writer head_writer(kn_http *http) {
    return (kn_writer){ http->write + http->written, 0, KN_HTTP_WRITE_MAX - http->written, false };
}

static void reset_batch(kn_http *http) {
    kn_batch_reset(&http->batch);
    http->written = 0;
}

void kn_relay_begin(kn_exchange *x, const kn_head *h) {
    x->link = kn_link_open(x->upstream, &owner, x, x->to_head);
    if (!x->link) {
        kn_relay_tell_end(x, KN_UPSTREAM_UNSENT);
        kn_client_fail(x, 502);
        return;
    }
    kn_rewrite how = {
        .host = x->how.upstream_host || !kn_head_find(h, KN_FIELD_HOST, NULL) ? kn_upstream_address(x->upstream) : NULL,
        .drop_origin = x->how.no_origin,
        .drop_expect = x->has_collected || !x->minor,
        .chunked = h->framing == KN_BODY_CHUNKED,
    };
    kn_writer w = head_writer(x->http);
    kn_write_request(&w, h, &how);
    add_head(x->http, &w);
    x->request_chunked = how.chunked;
    x->head_waits = true;
}

static void send_request(kn_exchange *x, bool last) {
    kn_batch_close(&x->http->batch, x->request_chunked, last);
    if (x->http->batch.len)
        kn_link_send(x->link, &x->http->batch);
    reset_batch(x->http);
}

static void pass_request_data(kn_exchange *x, kn_span data) {
    if (x->how.watch_request && x->service->request_data)
        x->service->request_data(x, data);
    x->facts.request_bytes += data.len;
    kn_batch_add_data(&x->http->batch, data.data, data.len, x->request_chunked);
}

/* What was collected goes before what is still to come. True: it has gone. */
static bool send_collected(kn_exchange *x) {
    while (x->collected_at < x->collected.len && (x->head_waits || kn_link_has_room(x->link))) {
        size_t n = KN_MIN(x->collected.len - x->collected_at, (size_t)COLLECTED_PIECE);
        pass_request_data(x, (kn_span){ x->collected.data + x->collected_at, n });
        x->collected_at += n;
        if (x->collected_at == x->collected.len)
            return true;
        send_request(x, false);
        x->head_waits = false;
    }
    return x->collected_at == x->collected.len;
}

size_t kn_relay_request(kn_exchange *x, kn_window w) {
    if (!x->link || x->facts.request_complete || !(x->head_waits || kn_link_has_room(x->link)))
        return 0;
    size_t used = 0;
    bool collected_is_sent = send_collected(x);
    while (collected_is_sent && used < w.len && !x->body.complete) {
        kn_span piece;
        ptrdiff_t n = kn_body_next(&x->body, w.data + used, w.len - used, &piece);
        if (n < 0) {
            reset_batch(x->http);
            x->keep = false;
            kn_client_fail(x, 400);
            return w.len;
        }
        used += (size_t)n;
        pass_request_data(x, piece);
        if (kn_batch_is_full(&x->http->batch))
            send_request(x, false);
    }
    x->head_waits = false;
    x->expects_continue = x->expects_continue && !used;
    x->facts.request_complete = collected_is_sent && x->body.complete;
    if (x->facts.request_complete)
        kn_link_request_is_complete(x->link);
    send_request(x, x->facts.request_complete);
    if (!kn_link_has_room(x->link)) /* whoever sends faster than the upstream reads has less held for him */
        x->most = KN_MAX(x->most / 2, (uint32_t)KN_HTTP_READ_MIN);
    return used;
}

static void answer_writable(void *ctx) {
    kn_exchange *x = ctx;
    if (x->phase != KN_FORWARDING)
        return;
    kn_client_process(x, kn_input_window(&x->in));
    kn_client_arrange(x);
}

/* ---- the answer ---- */

static void send_answer(kn_exchange *x, bool last) {
    bool went;
    kn_batch_close(&x->http->batch, x->answer_chunked, last);
    if (!kn_socket_send(&x->socket, &x->http->batch, false, &went)) {
        x->broken = true;
        kn_client_later(x);
    }
    reset_batch(x->http);
}

/* How the client is told where the body ends: as the upstream did it, unless the client's version has no chunks. */
static kn_rewrite frame_answer(kn_exchange *x, const kn_head *h) {
    bool streams = h->framing == KN_BODY_CHUNKED || h->framing == KN_BODY_UNTIL_CLOSE;
    x->answer_chunked = streams && x->minor;
    x->answer_until_close = streams && !x->minor;
    if (x->answer_until_close || !x->facts.request_complete || kn_server_is_draining(x->server))
        x->keep = false;
    return (kn_rewrite){ .chunked = x->answer_chunked, .close = !x->keep, .keep_alive = x->keep && !x->minor };
}

static void answer_head(void *ctx, const kn_head *h) {
    kn_exchange *x = ctx;
    bool interim = h->status < 200;
    if (!interim && x->service->response)
        x->service->response(x, h);
    if (x->phase != KN_FORWARDING) /* drained: nobody is there to read it */
        return;
    if (interim && (!x->minor || (h->status == 100 && x->has_collected)))
        return;
    x->expects_continue = x->expects_continue && h->status != 100;
    if (kn_batch_is_full(&x->http->batch) || h->len + ADDED_MAX > KN_HTTP_WRITE_MAX - x->http->written)
        send_answer(x, false);
    kn_rewrite how = { 0 };
    if (!interim) {
        how = frame_answer(x, h);
        how.more_fields = x->more_fields;
        x->answer_begun = true;
        x->facts.status = h->status;
    }
    kn_writer w = head_writer(x->http);
    kn_write_response(&w, h, &how);
    add_head(x->http, &w);
}

static void answer_data(void *ctx, kn_span data) {
    kn_exchange *x = ctx;
    x->facts.response_bytes += data.len;
    if (x->how.watch_response && x->service->response_data)
        x->service->response_data(x, data);
    if (x->phase != KN_FORWARDING)
        return;
    kn_batch_add_data(&x->http->batch, data.data, data.len, x->answer_chunked);
    if (kn_batch_is_full(&x->http->batch))
        send_answer(x, false);
}

static void answer_flush(void *ctx, bool last) {
    kn_exchange *x = ctx;
    if (x->phase != KN_FORWARDING)
        return;
    send_answer(x, last);
    if (last)
        kn_client_answer_is_complete(x);
    else if (x->socket.held)
        kn_link_pause(x->link);
    kn_client_arrange(x);
}

static void answer_ended(void *ctx, kn_upstream_end end, unsigned status) {
    kn_exchange *x = ctx;
    x->link = NULL;
    kn_relay_tell_end(x, end);
    if (end != KN_UPSTREAM_COMPLETE && x->phase == KN_FORWARDING)
        kn_client_fail(x, status);
    kn_client_check_end(x);
    kn_client_arrange(x);
}
