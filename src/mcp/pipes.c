#include "mcp/pipes.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 << 10,
    WRITE_BYTES = 4096,       /* a pipe that is said to be writable takes so much at once */
    WAITING_BYTES = 64 << 20, /* nothing more is read while so much waits to be written */
    NOTES_BYTES = 256 << 10,  /* nor are notes of progress written */
    OUT_BYTES = 512 << 20,
    GRACE_MS = 1000, /* for what is under way when the client goes … */
    LAST_MS = 500,   /* … and then for jobs to be cancelled */
};

typedef struct live {
    kn_mcp_pipes *pipes;
    kn_mcp_call *call;
    kn_mcp_word id;
    struct live *next, **at;
} live;

struct kn_mcp_pipes {
    kn_loop *loop;
    kn_mcp *mcp;
    void (*ended)(void *ctx);
    void *ctx;
    kn_watch in, out;
    kn_timer read_again; /* of what cannot be watched, such as a file */
    kn_timer patience;
    live *live;
    enum { ERA_UNKNOWN, ERA_HANDSHAKE, ERA_STATELESS } era;
    enum { OPEN, CLOSED, CANCELLED, OVER } state;
    bool skips;         /* the rest of a line that is too long */
    bool writes_freely; /* to what cannot be watched */
    kn_buf line, pending;
    size_t written; /* of what is pending */
    char chunk[READ_BYTES];
};

static void look_for_the_end(kn_mcp_pipes *s);

/* ---- writing ---- */

static void close_all(kn_mcp_pipes *s) {
    kn_buf_free(&s->pending);
    s->written = 0;
    kn_mcp_pipes_stop(s);
}

static void listen_again(kn_mcp_pipes *s) {
    bool reads = s->state == OPEN && s->pending.len - s->written < WAITING_BYTES;
    if (s->read_again.fired)
        kn_loop_timer_at(s->loop, &s->read_again, reads ? kn_loop_now_ms(s->loop) : KN_TIMER_NEVER);
    else if (s->in.fd >= 0)
        kn_watch_want(s->loop, &s->in, reads ? EPOLLIN : 0);
}

static bool may_write(const kn_mcp_pipes *s) {
    struct pollfd p = { .fd = s->out.fd, .events = POLLOUT };
    return s->writes_freely || (poll(&p, 1, 0) == 1 && p.revents);
}

static void write_more(kn_mcp_pipes *s) {
    while (s->written < s->pending.len && may_write(s)) {
        size_t len = KN_MIN(s->pending.len - s->written, (size_t)WRITE_BYTES);
        ssize_t n = write(s->out.fd, s->pending.data + s->written, len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            break;
        if (n < 0) {
            close_all(s);
            return;
        }
        s->written += (size_t)n;
    }
    bool all = s->written == s->pending.len;
    if (all) {
        kn_buf_free(&s->pending);
        s->written = 0;
    }
    kn_watch_want(s->loop, &s->out, all ? 0 : EPOLLOUT);
    listen_again(s);
    look_for_the_end(s);
}

static void writable(kn_watch *w, uint32_t events) {
    (void)events;
    write_more(KN_HOLDER(w, kn_mcp_pipes, out));
}

static void send_line(kn_mcp_pipes *s, const char *text, size_t len) {
    if (s->state == OVER)
        return;
    if (kn_buf_add(&s->pending, text, len) && kn_buf_add_text(&s->pending, "\n"))
        write_more(s);
    else
        close_all(s);
}

static void send_error(kn_mcp_pipes *s, const kn_mcp_word *id, int code, const char *message, json_t *data) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, 4096);
    if (kn_mcp_write_error(&text, id, code, message, data))
        send_line(s, text.data, text.len);
}

/* ---- requests under way ---- */

static void forget(live *l) {
    *l->at = l->next;
    if (l->next)
        l->next->at = l->at;
    free(l);
}

static void notify(void *ctx, const char *text, size_t len) {
    live *l = ctx;
    if (l->pipes->pending.len - l->pipes->written < NOTES_BYTES)
        send_line(l->pipes, text, len);
}

static void answer(void *ctx, const char *text, size_t len, int code) {
    (void)code; /* it is in the text */
    live *l = ctx;
    kn_mcp_pipes *s = l->pipes;
    forget(l);
    send_line(s, text, len);
}

static const kn_mcp_client client = { notify, answer };

static live *find(const kn_mcp_pipes *s, const kn_mcp_word *id) {
    for (live *l = s->live; l; l = l->next)
        if (kn_mcp_word_is_same(&l->id, id))
            return l;
    return NULL;
}

static void cancel(live *l) {
    kn_mcp_cancel(l->call);
    forget(l);
}

static void begin(kn_mcp_pipes *s, const kn_mcp_message *m) {
    live *l = malloc(sizeof *l);
    kn_mcp_call *call = l ? kn_mcp_begin(s->mcp, m, s->era == ERA_STATELESS, &client, l) : NULL;
    if (!call) {
        free(l);
        send_error(s, &m->id, KN_MCP_INTERNAL, "memory is short", NULL);
        return;
    }
    *l = (live){ .pipes = s, .call = call, .id = m->id, .next = s->live, .at = &s->live };
    if (s->live)
        s->live->at = &l->next;
    s->live = l;
}

/* ---- reading ---- */

static void take_request(kn_mcp_pipes *s, const kn_mcp_message *m) {
    bool initializes = !strcmp(m->method, "initialize"), has_envelope = m->has_version && !initializes;
    if (s->era == ERA_UNKNOWN)
        s->era = has_envelope ? ERA_STATELESS : ERA_HANDSHAKE;
    if (s->era == ERA_STATELESS && initializes)
        send_error(s, &m->id, KN_MCP_UNSUPPORTED_VERSION, "this connection was begun without initialize",
                   kn_mcp_versions(m->initialize));
    else if (s->era == ERA_HANDSHAKE && has_envelope)
        send_error(s, &m->id, KN_MCP_INVALID_REQUEST, "this connection was begun with initialize", NULL);
    else if (find(s, &m->id))
        send_error(s, &m->id, KN_MCP_INVALID_REQUEST, "the id is that of a request under way", NULL);
    else
        begin(s, m);
}

static void take_notification(kn_mcp_pipes *s, const kn_mcp_message *m) {
    live *l = strcmp(m->method, "notifications/cancelled") ? NULL : find(s, &m->cancels);
    if (l)
        cancel(l);
}

static void take_line(kn_mcp_pipes *s, const char *text, size_t len) {
    kn_mcp_message m;
    kn_error err = { 0 };
    if (strspn(text, " \t\r") == len)
        return;
    int code = kn_mcp_message_read(text, len, &m, &err);
    if (code)
        send_error(s, &m.id, code, err.text, NULL);
    else if (m.kind == KN_MCP_REQUEST)
        take_request(s, &m);
    else if (m.kind == KN_MCP_NOTIFICATION)
        take_notification(s, &m);
}

static void keep(kn_mcp_pipes *s, const char *data, size_t len) {
    static const kn_mcp_word nobody = { 0 };
    if (s->skips || kn_buf_add(&s->line, data, len))
        return;
    s->skips = true;
    kn_buf_free(&s->line);
    send_error(s, &nobody, KN_MCP_INVALID_REQUEST, "the message is too long", NULL);
}

static void take_bytes(kn_mcp_pipes *s, const char *data, size_t len) {
    for (const char *end = data + len, *stop; data < end; data = stop + 1) {
        stop = memchr(data, '\n', (size_t)(end - data));
        keep(s, data, (size_t)((stop ? stop : end) - data));
        if (!stop)
            return;
        if (!s->skips)
            take_line(s, s->line.data, s->line.len);
        s->skips = false;
        if (s->line.len > READ_BYTES)
            kn_buf_free(&s->line);
        kn_buf_clear(&s->line);
    }
}

static void client_left(kn_mcp_pipes *s) {
    s->state = CLOSED;
    kn_watch_close(s->loop, &s->in);
    kn_loop_timer_after(s->loop, &s->patience, GRACE_MS);
    look_for_the_end(s);
}

static void read_more(kn_mcp_pipes *s) {
    ssize_t n = read(s->in.fd, s->chunk, sizeof s->chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        client_left(s);
        return;
    }
    take_bytes(s, s->chunk, (size_t)n);
    listen_again(s);
}

static void readable(kn_watch *w, uint32_t events) {
    (void)events;
    read_more(KN_HOLDER(w, kn_mcp_pipes, in));
}

static void time_to_read(kn_timer *t) {
    read_more(KN_HOLDER(t, kn_mcp_pipes, read_again));
}

/* ---- the end ---- */

static void end(kn_mcp_pipes *s) {
    s->state = OVER;
    kn_loop_timer_stop(&s->patience);
    s->ended(s->ctx);
}

static void look_for_the_end(kn_mcp_pipes *s) {
    if ((s->state == CLOSED || s->state == CANCELLED) && kn_mcp_is_idle(s->mcp) && !s->pending.len)
        end(s);
}

void kn_mcp_pipes_stop(kn_mcp_pipes *s) {
    if (s->state == CANCELLED || s->state == OVER)
        return;
    s->state = CANCELLED;
    kn_watch_close(s->loop, &s->in);
    while (s->live)
        cancel(s->live);
    kn_loop_timer_after(s->loop, &s->patience, LAST_MS);
    look_for_the_end(s);
}

static void patience_is_over(kn_timer *t) {
    kn_mcp_pipes *s = KN_HOLDER(t, kn_mcp_pipes, patience);
    if (s->state == CLOSED)
        kn_mcp_pipes_stop(s);
    else
        end(s);
}

static void idle(void *ctx) {
    look_for_the_end(ctx);
}

/* ---- the whole ---- */

/* Regular files and the like are always ready, and cannot be watched. */
static void open_watches(kn_mcp_pipes *s, int in, int out) {
    if (!kn_watch_open(s->loop, &s->out, out, EPOLLOUT, writable, NULL)) {
        s->out.fd = out;
        s->writes_freely = true;
    }
    if (!kn_watch_open(s->loop, &s->in, in, EPOLLIN, readable, NULL)) {
        s->in.fd = in;
        s->read_again.fired = time_to_read;
    }
    listen_again(s);
}

/* What the core needs of its owner is handed on; that it is idle is for this file to know. */
bool kn_mcp_pipes_new(const kn_mcp_setup *setup, int in, int out, void (*ended)(void *ctx), void *ctx,
                      kn_mcp_pipes **ret, kn_error *err) {
    kn_mcp_pipes *s = calloc(1, sizeof *s);
    if (!s)
        return kn_fail_nomem(err, sizeof *s);
    s->loop = kn_http_loop(setup->http);
    s->ended = ended;
    s->ctx = ctx;
    s->patience.fired = patience_is_over;
    kn_buf_init(&s->line, KN_MCP_MESSAGE_MAX);
    kn_buf_init(&s->pending, OUT_BYTES);
    kn_mcp_setup own = *setup;
    own.idle = idle;
    own.idle_ctx = s;
    if (!kn_mcp_new(&own, &s->mcp, err)) {
        free(s);
        return false;
    }
    open_watches(s, in, out);
    *ret = s;
    return true;
}

void kn_mcp_pipes_free(kn_mcp_pipes *s) {
    if (!s)
        return;
    s->state = OVER;
    kn_watch_close(s->loop, &s->in);
    kn_watch_close(s->loop, &s->out);
    kn_loop_timer_close(s->loop, &s->read_again);
    kn_loop_timer_close(s->loop, &s->patience);
    kn_mcp_free(s->mcp);
    while (s->live)
        forget(s->live);
    kn_buf_free(&s->line);
    kn_buf_free(&s->pending);
    free(s);
}
