#include "http/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INTERIM_MAX = 32 }; /* 1xx answers to one request */

enum link_state { CONNECTING, HEAD, BODY, IDLE, ENDING, CLOSED };

struct kn_link {
    kn_socket socket;
    kn_input in;
    kn_head_scan scan;
    kn_body body;
    kn_timer timer;
    kn_task task;
    kn_upstream *upstream;
    kn_link *next, *prev; /* among the idle ones */
    const kn_link_owner *owner;
    void *ctx;
    uint64_t drain_until_ms; /* 0: somebody waits for the answer */
    uint64_t idle_since_ms;
    uint64_t asked_ms; /* when the last byte of the request went, or it was to be connected */
    uint32_t most;     /* to be read at once */
    uint8_t state;
    uint8_t interim;
    uint8_t end;   /* what to tell the owner, in state ENDING */
    bool late;     /* because it took too long */
    bool cut;      /* the request ended before it was complete, by our doing, … */
    bool accepted; /* … and has an answer that does not refuse it */
    bool to_head, reused, sent, deaf, paused, keep_alive, request_complete;
};

struct kn_upstream {
    kn_http *http;
    kn_loop *loop;
    kn_address address;
    kn_upstream_limits limits;
    kn_link *idle; /* the one used last first */
    unsigned idle_count;
};

kn_upstream_limits kn_upstream_limits_default(void) {
    return (kn_upstream_limits){ .idle_connections = 32,
                                 .idle_ms = 60 * 1000,
                                 .connect_ms = 5 * 1000,
                                 .head_ms = 600 * 1000,
                                 .stall_ms = 300 * 1000 };
}

bool kn_upstream_new(kn_http *h, const kn_address *address, const kn_upstream_limits *limits, kn_upstream **ret,
                     kn_error *err) {
    kn_upstream *u = calloc(1, sizeof *u);
    if (!u)
        return kn_fail_nomem(err, sizeof *u);
    *u = (kn_upstream){ .http = h, .loop = h->loop, .address = *address, .limits = *limits };
    *ret = u;
    return true;
}

const kn_address *kn_upstream_address(const kn_upstream *u) {
    return &u->address;
}

kn_http *kn_upstream_http(const kn_upstream *u) {
    return u->http;
}

static void leave_pool(kn_link *k) {
    kn_upstream *u = k->upstream;
    if (k->prev)
        k->prev->next = k->next;
    else
        u->idle = k->next;
    if (k->next)
        k->next->prev = k->prev;
    k->next = k->prev = NULL;
    u->idle_count--;
}

static void free_link(kn_task *t) {
    free(KN_HOLDER(t, kn_link, task));
}

/* Ends the connection, from any state and for any reason; its memory goes when this turn's events are through. */
static void close_link(kn_link *k) {
    if (k->state == CLOSED)
        return;
    if (k->state == IDLE)
        leave_pool(k);
    k->state = CLOSED;
    k->owner = NULL;
    kn_watch_close(k->upstream->loop, &k->socket.watch);
    kn_loop_timer_close(k->upstream->loop, &k->timer);
    kn_socket_drop_held(&k->socket);
    kn_input_drop(&k->in);
    k->task.run = free_link;
    kn_loop_later(k->upstream->loop, &k->task);
}

void kn_upstream_forget_idle(kn_upstream *u) {
    while (u->idle)
        close_link(u->idle);
}

void kn_upstream_free(kn_upstream *u) {
    if (u)
        kn_upstream_forget_idle(u);
    free(u);
}

/* What is wanted of the socket, and until when: the one place that decides it. */
static void arrange(kn_link *k) {
    kn_loop *l = k->upstream->loop;
    const kn_upstream_limits *limits = &k->upstream->limits;
    uint64_t now = kn_loop_now_ms(l), due = KN_TIMER_NEVER;
    uint32_t wanted = 0;
    switch ((enum link_state)k->state) {
    case CONNECTING:
        wanted = EPOLLOUT;
        due = now + limits->connect_ms;
        break;
    case HEAD:
        wanted = (k->paused ? 0 : EPOLLIN) | (k->socket.held ? EPOLLOUT : 0);
        due = k->asked_ms + limits->head_ms; /* whatever comes before it */
        break;
    case BODY:
        wanted = (k->paused ? 0 : EPOLLIN) | (k->socket.held ? EPOLLOUT : 0);
        due = k->paused ? KN_TIMER_NEVER : now + limits->stall_ms;
        break;
    case IDLE:
        wanted = EPOLLIN;
        due = now + limits->idle_ms;
        break;
    case ENDING:
    case CLOSED: return;
    }
    if (k->drain_until_ms)
        due = k->drain_until_ms;
    kn_watch_want(l, &k->socket.watch, wanted);
    kn_loop_timer_at(l, &k->timer, due);
}

static void tell_end(kn_task *t) {
    kn_link *k = KN_HOLDER(t, kn_link, task);
    if (k->state == CLOSED) /* the owner has given it up meanwhile */
        return;
    const kn_link_owner *owner = k->owner;
    void *ctx = k->ctx;
    kn_upstream_end end = (kn_upstream_end)k->end;
    unsigned status = k->late ? 504 : 502;
    close_link(k);
    owner->ended(ctx, end, status);
}

/* The link is of no use any more; its owner learns of it when whoever calls now has returned. */
static void fail(kn_link *k, kn_upstream_end end) {
    if (k->state == ENDING || k->state == CLOSED)
        return;
    k->state = ENDING;
    k->end = (uint8_t)(k->sent ? end : KN_UPSTREAM_UNSENT);
    kn_watch_want(k->upstream->loop, &k->socket.watch, 0);
    kn_loop_timer_stop(&k->timer);
    k->task.run = tell_end;
    kn_loop_later(k->upstream->loop, &k->task);
}

static void ready(kn_watch *w, uint32_t events);

/* Begins to connect; the link is then CONNECTING, or HEAD if that was done at once. */
static bool dial(kn_link *k) {
    const kn_address *a = &k->upstream->address;
    int family = a->storage.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    if (family != AF_UNIX)
        kn_socket_tune(fd, a);
    int rc = connect(fd, (const struct sockaddr *)&a->storage, a->len);
    k->state = rc ? CONNECTING : HEAD;
    k->reused = false;
    if ((rc && errno != EINPROGRESS) ||
        !kn_watch_open(k->upstream->loop, &k->socket.watch, fd, rc ? EPOLLOUT : EPOLLIN, ready, NULL)) {
        close(fd);
        return false;
    }
    return true;
}

/* An idle connection may have been closed without our having heard of it yet. One that was busy in this millisecond is
 * not asked: that would be a sixth of all system calls under load. */
static bool is_alive(const kn_link *k) {
    char c;
    return kn_loop_now_ms(k->upstream->loop) == k->idle_since_ms ||
           (recv(k->socket.watch.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN);
}

static void timed_out(kn_timer *t) {
    kn_link *k = KN_HOLDER(t, kn_link, timer);
    if (k->state == IDLE) {
        close_link(k);
        return;
    }
    k->late = k->state != CONNECTING;
    fail(k, k->drain_until_ms ? KN_UPSTREAM_ABORTED : KN_UPSTREAM_BROKEN);
}

static kn_link *take_idle(kn_upstream *u) {
    while (u->idle) {
        kn_link *k = u->idle;
        if (is_alive(k)) {
            leave_pool(k);
            k->state = HEAD;
            k->reused = true;
            return k;
        }
        close_link(k);
    }
    return NULL;
}

kn_link *kn_link_open(kn_upstream *u, const kn_link_owner *owner, void *ctx, bool to_head) {
    kn_link *k = take_idle(u);
    if (!k) {
        k = calloc(1, sizeof *k);
        if (!k)
            return NULL;
        k->upstream = u;
        k->timer.fired = timed_out;
        if (!dial(k)) {
            free(k);
            return NULL;
        }
    }
    k->owner = owner;
    k->ctx = ctx;
    k->to_head = to_head;
    k->late = k->sent = k->deaf = k->paused = k->request_complete = k->cut = k->accepted = false;
    k->interim = 0;
    k->most = KN_HTTP_READ_MIN;
    k->drain_until_ms = 0;
    k->asked_ms = kn_loop_now_ms(u->loop);
    k->scan = (kn_head_scan){ 0 };
    return k;
}

/* Bytes of the request went. */
static void note_sent(kn_link *k) {
    k->sent = true;
    k->asked_ms = kn_loop_now_ms(k->upstream->loop);
}

/* Nothing more can be sent. What the upstream has answered may still lie in the socket, for example why it closed, so
 * reading goes on. */
static void become_deaf(kn_link *k) {
    k->deaf = true;
    kn_socket_drop_held(&k->socket);
}

void kn_link_send(kn_link *k, kn_batch *b) {
    if (k->deaf || k->state == ENDING)
        return;
    bool went = false, good = kn_socket_send(&k->socket, b, k->state == CONNECTING, &went);
    if (!good && k->reused && !k->sent) {
        /* An idle connection that was closed before it took a byte: the one case in which another may be tried. */
        kn_watch_close(k->upstream->loop, &k->socket.watch);
        kn_socket_drop_held(&k->socket);
        good = dial(k) && kn_socket_send(&k->socket, b, k->state == CONNECTING, &went);
        if (!good)
            fail(k, KN_UPSTREAM_UNSENT);
    } else if (!good) {
        become_deaf(k);
    }
    if (went)
        note_sent(k);
    arrange(k);
}

bool kn_link_has_room(const kn_link *k) {
    return !k->socket.held && k->state != CONNECTING;
}

void kn_link_request_is_complete(kn_link *k) {
    k->request_complete = true;
}

void kn_link_pause(kn_link *k) {
    k->paused = true;
    k->most = KN_MAX(k->most / 2, (uint32_t)KN_HTTP_READ_MIN); /* whoever reads slowly has less held for him */
    arrange(k);
}

void kn_link_resume(kn_link *k) {
    if (!k->paused)
        return;
    k->paused = false;
    arrange(k);
}

void kn_link_drain(kn_link *k, uint64_t until_ms) {
    k->drain_until_ms = until_ms;
    k->paused = false;
    if (!k->sent) {
        fail(k, KN_UPSTREAM_UNSENT);
    } else if (!k->request_complete && !k->deaf && k->state == HEAD) {
        k->cut = true;
        become_deaf(k);
        shutdown(k->socket.watch.fd, SHUT_WR);
    }
    arrange(k);
}

kn_upstream_end kn_link_abort(kn_link *k) {
    kn_upstream_end end = k->state == ENDING ? (kn_upstream_end)k->end
                          : k->sent          ? KN_UPSTREAM_ABORTED
                                             : KN_UPSTREAM_UNSENT;
    close_link(k);
    return end;
}

/* The answer is complete. The connection is good for another request if nothing is left over on either side. */
static void finish(kn_link *k, bool nothing_left) {
    const kn_link_owner *owner = k->owner;
    void *ctx = k->ctx;
    kn_upstream *u = k->upstream;
    kn_upstream_end end = k->cut && k->accepted ? KN_UPSTREAM_CUT : KN_UPSTREAM_COMPLETE;
    if (k->keep_alive && nothing_left && k->request_complete && !k->deaf && !k->socket.held &&
        u->idle_count < u->limits.idle_connections) {
        k->owner = NULL;
        k->state = IDLE;
        k->idle_since_ms = kn_loop_now_ms(u->loop);
        k->drain_until_ms = 0;
        k->prev = NULL;
        k->next = u->idle;
        if (u->idle)
            u->idle->prev = k;
        u->idle = k;
        u->idle_count++;
        arrange(k);
    } else {
        close_link(k);
    }
    owner->ended(ctx, end, 0);
}

/* Reads a head at the start of the window. Returns the bytes used, 0 if it is not complete; -1: it is none. */
static ptrdiff_t read_head(kn_link *k, kn_window w) {
    unsigned scanned = kn_head_scan_more(&k->scan, w.data, w.len);
    if (scanned == KN_SCAN_MORE)
        return 0;
    kn_head *h = &k->upstream->http->head;
    if (scanned != KN_SCAN_COMPLETE || !kn_response_parse(h, w.data, k->scan.at, k->to_head))
        return -1;
    size_t len = k->scan.at;
    k->scan = (kn_head_scan){ 0 };
    if (h->status >= 200) {
        k->state = BODY;
        k->accepted = h->status < 300;
        k->keep_alive = h->keep_alive;
        kn_body_begin(&k->body, h->framing, h->content_length);
    } else if (++k->interim > INTERIM_MAX) {
        return -1;
    }
    k->owner->head(k->ctx, h);
    return (ptrdiff_t)len;
}

static ptrdiff_t read_body(kn_link *k, kn_window w) {
    kn_span piece;
    ptrdiff_t n = kn_body_next(&k->body, w.data, w.len, &piece);
    if (n > 0 && piece.len)
        k->owner->data(k->ctx, piece);
    return n;
}

/* Understands what was read. */
static void process(kn_link *k, kn_window w) {
    size_t used = 0;
    bool good = true;
    while (good && used < w.len && !(k->state == BODY && k->body.complete)) {
        kn_window rest = { w.data + used, w.len - used };
        ptrdiff_t n = k->state == HEAD ? read_head(k, rest) : read_body(k, rest);
        good = n >= 0;
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    bool complete = good && k->state == BODY && k->body.complete;
    k->owner->flush(k->ctx, complete);
    if (complete) {
        bool nothing_left = used == w.len;
        kn_input_drop(&k->in);
        finish(k, nothing_left);
    } else if (!good || !kn_input_keep(&k->in, w, used)) {
        fail(k, KN_UPSTREAM_BROKEN);
    } else {
        arrange(k);
    }
}

/* The upstream has closed. */
static void process_end(kn_link *k, kn_read how) {
    if (k->state == BODY && how == KN_READ_END)
        kn_body_end(&k->body);
    if (k->state != BODY || !k->body.complete) {
        fail(k, KN_UPSTREAM_BROKEN);
        return;
    }
    k->keep_alive = false;
    k->owner->flush(k->ctx, true);
    finish(k, true);
}

static void read_answer(kn_link *k) {
    kn_window w;
    kn_read how = kn_input_read(k->upstream->http, &k->in, k->socket.watch.fd, k->most, &w);
    if (how == KN_READ_END || how == KN_READ_BROKEN) {
        process_end(k, how);
    } else if (how == KN_READ_DATA) {
        /* Whoever fills what it may send gets to send more at once. */
        if (w.len == k->most)
            k->most = KN_MIN(2 * k->most, (uint32_t)KN_HTTP_READ_MAX);
        process(k, w);
    }
}

/* Where nobody listens on a port that the system may give to those who connect, it can give us that very port, and then
 * we have reached ourselves. */
static bool has_reached_itself(const kn_link *k) {
    kn_address own = { .len = sizeof own.storage };
    const kn_address *there = &k->upstream->address;
    return !getsockname(k->socket.watch.fd, (struct sockaddr *)&own.storage, &own.len) && kn_address_port(there) &&
           kn_address_port(&own) == kn_address_port(there) && kn_address_is_same_host(&own, there);
}

static bool has_connected(kn_link *k) {
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(k->socket.watch.fd, SOL_SOCKET, SO_ERROR, &error, &len) || error || has_reached_itself(k))
        return false;
    k->state = HEAD;
    return true;
}

static void ready(kn_watch *w, uint32_t events) {
    kn_link *k = KN_HOLDER(w, kn_link, socket.watch);
    if (k->state == IDLE) {
        close_link(k); /* nothing may come now but the end */
        return;
    }
    bool had_room = kn_link_has_room(k);
    if (k->state == CONNECTING && !has_connected(k)) {
        fail(k, KN_UPSTREAM_UNSENT);
        return;
    }
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR) && !k->deaf) {
        bool went = false;
        if (!kn_socket_flush(&k->socket, &went))
            become_deaf(k);
        if (went)
            note_sent(k);
        arrange(k);
        if (!had_room && kn_link_has_room(k))
            k->owner->writable(k->ctx);
    }
    /* The owner may have ended it: then there is nothing to read for. */
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !k->paused && (k->state == HEAD || k->state == BODY))
        read_answer(k);
}
