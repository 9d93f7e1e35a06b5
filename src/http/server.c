#include "http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "http/client.h"
#include "http/owner.h"

enum {
    BACKLOG = 4096,
    ACCEPTED_AT_ONCE = 32, /* others get their turn, too */
    BACK_OFF_MS = 100,     /* without descriptors */
};

typedef struct kn_listener kn_listener;
struct kn_listener {
    kn_watch watch;
    kn_timer again;
    kn_server *server;
    const kn_service *service;
    void *ctx;
    kn_listener *next;
};

struct kn_server {
    kn_http *http;
    kn_server_limits limits;
    kn_listener *listeners;
    kn_exchange *clients;
    unsigned connections;
    size_t collected;
    kn_peers peers;
    int spare_fd; /* given up to accept and close when there is no other descriptor */
    bool draining;
    void (*drained)(void *ctx);
    void *drained_ctx;
};

kn_server_limits kn_server_limits_default(void) {
    return (kn_server_limits){ .connections = 1024,
                               .connections_per_peer = 256,
                               .head_ms = 10 * 1000,
                               .idle_ms = 75 * 1000,
                               .body_ms = 300 * 1000,
                               .send_ms = 300 * 1000,
                               .collected = 256 << 20 };
}

static int open_spare(void) {
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool kn_server_new(kn_http *h, const kn_server_limits *limits, kn_server **ret, kn_error *err) {
    kn_server *s = calloc(1, sizeof *s);
    if (!s)
        return kn_fail_nomem(err, sizeof *s);
    s->http = h;
    s->limits = *limits;
    s->spare_fd = open_spare();
    kn_peers_init(&s->peers);
    *ret = s;
    return true;
}

const kn_server_limits *kn_server_limits_of(const kn_server *s) {
    return &s->limits;
}

kn_http *kn_server_http(const kn_server *s) {
    return s->http;
}

bool kn_server_is_draining(const kn_server *s) {
    return s->draining;
}

unsigned kn_server_connections(const kn_server *s) {
    return s->connections;
}

void kn_server_add(kn_server *s, kn_exchange *x) {
    x->next = s->clients;
    if (s->clients)
        s->clients->prev = x;
    s->clients = x;
    s->connections++;
}

static void tell_drained(kn_server *s) {
    void (*drained)(void *ctx) = s->drained;
    if (s->connections || !drained)
        return;
    s->drained = NULL;
    drained(s->drained_ctx);
}

void kn_server_remove(kn_server *s, kn_exchange *x) {
    if (x->prev)
        x->prev->next = x->next;
    else
        s->clients = x->next;
    if (x->next)
        x->next->prev = x->prev;
    s->connections--;
    kn_peers_leave(&s->peers, x->peer);
    tell_drained(s);
}

bool kn_server_has_room_for(kn_server *s, size_t bytes) {
    if (bytes > s->limits.collected - s->collected)
        return false;
    s->collected += bytes;
    return true;
}

void kn_server_collected_less(kn_server *s, size_t bytes) {
    s->collected -= bytes;
}

/* ---- accepting ---- */

/* The newest clients come first. Whoever is served has shown who it is, or is answered at once. */
static bool make_room(kn_server *s) {
    kn_exchange *oldest = NULL;
    for (kn_exchange *x = s->limits.yields ? s->clients : NULL; x; x = x->next)
        if (!x->active && !x->trusted)
            oldest = x;
    if (oldest)
        kn_client_leave(oldest);
    return oldest;
}

static bool has_room_for(kn_server *s, const kn_address *peer, kn_peer **ret) {
    *ret = NULL;
    if (s->connections >= s->limits.connections && !make_room(s))
        return false;
    unsigned most = kn_address_is_loopback(peer) ? s->limits.connections_per_loopback : s->limits.connections_per_peer;
    if (!most)
        return true;
    *ret = kn_peers_enter(&s->peers, peer, most);
    return *ret;
}

static bool serve(kn_server *s, int fd, const kn_address *peer, const kn_service *service, void *ctx, kn_error *err) {
    kn_peer *counted;
    if (!has_room_for(s, peer, &counted)) {
        close(fd);
        return kn_fail(err, KN_E_RANGE, "there are too many connections already");
    }
    if (kn_client_new(s, fd, counted, service, ctx, err))
        return true;
    kn_peers_leave(&s->peers, counted);
    close(fd);
    return false;
}

bool kn_server_adopt(kn_server *s, int fd, const kn_address *peer, const kn_service *service, void *ctx,
                     kn_error *err) {
    static const kn_address local = { .storage.ss_family = AF_UNIX };
    return serve(s, fd, peer ? peer : &local, service, ctx, err);
}

/* No descriptor is left. The client that waits is turned away with the one kept for this, so that it does not wait for
 * nothing, and nobody is accepted for a while, so that we do not spin. */
static void back_off(kn_listener *n) {
    kn_server *s = n->server;
    if (s->spare_fd >= 0) {
        close(s->spare_fd);
        int fd = accept4(n->watch.fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            close(fd);
    }
    s->spare_fd = open_spare();
    kn_watch_want(s->http->loop, &n->watch, 0);
    kn_loop_timer_after(s->http->loop, &n->again, BACK_OFF_MS);
}

static void accept_again(kn_timer *t) {
    kn_listener *n = KN_HOLDER(t, kn_listener, again);
    kn_watch_want(n->server->http->loop, &n->watch, EPOLLIN);
}

static void accept_clients(kn_watch *w, uint32_t events) {
    (void)events;
    kn_listener *n = KN_HOLDER(w, kn_listener, watch);
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        kn_address peer = { .len = sizeof peer.storage };
        int fd = accept4(w->fd, (struct sockaddr *)&peer.storage, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            serve(n->server, fd, &peer, n->service, n->ctx, NULL);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            back_off(n);
        if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

/* The file of a Unix socket whose server is gone would keep the address for ever. One that somebody listens on, or that
 * is no socket, stays. */
static void remove_stale(const kn_address *a) {
    const struct sockaddr_un *u = (const void *)&a->storage;
    struct stat st;
    if (a->storage.ss_family != AF_UNIX || lstat(u->sun_path, &st) || !S_ISSOCK(st.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&a->storage, a->len) && errno == ECONNREFUSED)
        unlink(u->sun_path);
    close(fd);
}

static bool fail_to_listen(const kn_address *a, int why, kn_error *err) {
    if (why != EADDRINUSE)
        return kn_fail(err, KN_E_IO, "cannot listen on %s: %s", kn_address_print(a).text, strerror(why));
    return kn_fail(err, KN_E_IO, "cannot listen on %s: %s; %s listens there", kn_address_print(a).text, strerror(why),
                   kn_address_owner(a).text);
}

/* A socket with the address, which does not listen yet; -1: errno says why not. */
static int open_bound(const kn_address *a) {
    int on = 1, off = 0, silent_s = 60, family = a->storage.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && family != AF_UNIX) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        /* Accepted sockets inherit these. A machine that is gone without a word is noticed although we only wait for
         * others. */
        kn_socket_tune(fd, a);
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &silent_s, sizeof silent_s);
    }
    if (fd >= 0 && family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (fd < 0 || !bind(fd, (const struct sockaddr *)&a->storage, a->len))
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

bool kn_server_may_listen(const kn_address *a, kn_error *err) {
    if (a->storage.ss_family == AF_UNIX) /* having it for a moment would leave a file */
        return true;
    int fd = open_bound(a);
    if (fd < 0)
        return fail_to_listen(a, errno, err);
    close(fd);
    return true;
}

static int open_listener(const kn_address *a, kn_address *ret_address, kn_error *err) {
    kn_address bound = { .len = sizeof bound.storage };
    remove_stale(a);
    int fd = open_bound(a);
    if (fd >= 0 && !listen(fd, BACKLOG) && !getsockname(fd, (struct sockaddr *)&bound.storage, &bound.len)) {
        if (ret_address)
            *ret_address = bound;
        return fd;
    }
    fail_to_listen(a, errno, err);
    if (fd >= 0)
        close(fd);
    return -1;
}

bool kn_server_listen(kn_server *s, const kn_address *address, const kn_service *service, void *ctx,
                      kn_address *ret_address, kn_error *err) {
    kn_listener *n = calloc(1, sizeof *n);
    if (!n)
        return kn_fail_nomem(err, sizeof *n);
    *n = (kn_listener){ .server = s, .service = service, .ctx = ctx, .again.fired = accept_again };
    int fd = open_listener(address, ret_address, err);
    if (fd < 0 || !kn_watch_open(s->http->loop, &n->watch, fd, EPOLLIN, accept_clients, err)) {
        if (fd >= 0)
            close(fd);
        free(n);
        return false;
    }
    n->next = s->listeners;
    s->listeners = n;
    return true;
}

/* ---- ending ---- */

static void close_listeners(kn_server *s) {
    for (kn_listener *n = s->listeners; n; n = n->next) {
        kn_watch_close(s->http->loop, &n->watch);
        kn_loop_timer_close(s->http->loop, &n->again);
    }
}

void kn_server_drain(kn_server *s, void (*drained)(void *ctx), void *ctx) {
    s->draining = true;
    s->drained = drained;
    s->drained_ctx = ctx;
    close_listeners(s);
    for (kn_exchange *x = s->clients, *next; x; x = next) {
        next = x->next;
        if (!x->active)
            kn_client_leave(x);
    }
    tell_drained(s);
}

void kn_server_cut(kn_server *s) {
    for (kn_exchange *x = s->clients, *next; x; x = next) {
        next = x->next;
        kn_client_abort(x);
    }
}

void kn_server_free(kn_server *s) {
    if (!s)
        return;
    s->drained = NULL;
    close_listeners(s);
    kn_server_cut(s);
    while (s->listeners) {
        kn_listener *n = s->listeners;
        s->listeners = n->next;
        free(n);
    }
    if (s->spare_fd >= 0)
        close(s->spare_fd);
    free(s);
}
