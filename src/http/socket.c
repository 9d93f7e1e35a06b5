#include "http/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { FEW_BYTES = 1024 };

bool kn_http_new(kn_loop *loop, kn_http **ret, kn_error *err) {
    size_t bytes = sizeof(kn_http) + KN_HTTP_READ_MAX + KN_HTTP_WRITE_MAX;
    kn_http *h = malloc(sizeof *h);
    char *workspace = malloc(KN_HTTP_READ_MAX + KN_HTTP_WRITE_MAX);
    if (!h || !workspace) {
        free(h);
        free(workspace);
        return kn_fail_nomem(err, bytes);
    }
    *h = (kn_http){ .loop = loop, .read = workspace, .write = workspace + KN_HTTP_READ_MAX };
    *ret = h;
    return true;
}

void kn_http_free(kn_http *h) {
    if (h)
        free(h->read);
    free(h);
}

kn_loop *kn_http_loop(const kn_http *h) {
    return h->loop;
}

void kn_batch_reset(kn_batch *b) {
    b->n = 0;
    b->len = 0;
    b->chunk = 0;
    b->chunk_len = 0;
}

void kn_batch_add(kn_batch *b, const void *p, size_t n) {
    if (!n)
        return;
    struct iovec *before = b->n ? &b->parts[b->n - 1] : NULL;
    if (before && (const char *)before->iov_base + before->iov_len == p)
        before->iov_len += n;
    else
        b->parts[b->n++] = (struct iovec){ (void *)(uintptr_t)p, n };
    b->len += n;
}

void kn_batch_add_data(kn_batch *b, const void *p, size_t n, bool chunked) {
    if (!n)
        return;
    if (chunked && !b->chunk_len) {
        b->chunk = b->n++;
        b->parts[b->chunk] = (struct iovec){ b->size_line, 0 };
    }
    if (chunked)
        b->chunk_len += n;
    kn_batch_add(b, p, n);
}

/* As a size line, of at most 18 bytes; returns its length. */
static size_t write_size(char *line, size_t n) {
    unsigned digits = 1;
    for (size_t rest = n >> 4; rest; rest >>= 4)
        digits++;
    for (unsigned i = digits; i--; n >>= 4)
        line[i] = "0123456789abcdef"[n & 15];
    memcpy(line + digits, "\r\n", 2);
    return digits + 2;
}

void kn_batch_close(kn_batch *b, bool chunked, bool last) {
    static const char end[] = "\r\n", end_of_body[] = "0\r\n\r\n", both[] = "\r\n0\r\n\r\n";
    if (b->chunk_len) {
        size_t len = write_size(b->size_line, b->chunk_len);
        b->parts[b->chunk].iov_len = len;
        b->len += len;
        if (last)
            kn_batch_add(b, both, sizeof both - 1);
        else
            kn_batch_add(b, end, sizeof end - 1);
    } else if (chunked && last) {
        kn_batch_add(b, end_of_body, sizeof end_of_body - 1);
    }
    b->chunk_len = 0;
}

bool kn_batch_is_full(const kn_batch *b) {
    return b->n > KN_BATCH_PARTS - 4; /* a size line, a piece, the end of a chunk */
}

/* Copies all but the first `skip` bytes of the batch behind what is held. */
static bool hold(kn_socket *s, const kn_batch *b, size_t skip) {
    size_t left = s->held_len - s->held_at;
    char *held = malloc(left + b->len - skip);
    if (!held)
        return false;
    if (s->held)
        memcpy(held, s->held + s->held_at, left);
    for (unsigned i = 0; i < b->n; i++) {
        size_t gone = KN_MIN(skip, b->parts[i].iov_len), n = b->parts[i].iov_len - gone;
        memcpy(held + left, (const char *)b->parts[i].iov_base + gone, n);
        skip -= gone;
        left += n;
    }
    free(s->held);
    s->held = held;
    s->held_at = 0;
    s->held_len = left;
    return true;
}

/* How many bytes went, 0 if none goes now, -1 if none will ever go. */
static ssize_t sent(ssize_t n) {
    return n >= 0 ? n : errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM ? 0 : -1;
}

/* One part, or so few bytes that copying them costs less than telling the kernel of parts. */
static ssize_t send_parts(int fd, kn_batch *b) {
    char few[FEW_BYTES];
    const char *p = b->parts[0].iov_base;
    if (b->n > 1 && b->len > sizeof few) {
        struct msghdr m = { .msg_iov = b->parts, .msg_iovlen = b->n };
        return sent(sendmsg(fd, &m, MSG_NOSIGNAL));
    }
    if (b->n > 1) {
        size_t len = 0;
        for (unsigned i = 0; i < b->n; len += b->parts[i++].iov_len)
            memcpy(few + len, b->parts[i].iov_base, b->parts[i].iov_len);
        p = few;
    }
    return sent(send(fd, p, b->len, MSG_NOSIGNAL));
}

bool kn_socket_send(kn_socket *s, kn_batch *b, bool waits, bool *ret) {
    *ret = false;
    if (!b->len)
        return true;
    size_t done = 0;
    if (!s->held && !waits) {
        ssize_t n = send_parts(s->watch.fd, b);
        if (n < 0)
            return false;
        done = (size_t)n;
    }
    *ret = done > 0;
    return done == b->len || hold(s, b, done);
}

bool kn_socket_flush(kn_socket *s, bool *ret) {
    *ret = false;
    if (!s->held)
        return true;
    ssize_t n = sent(send(s->watch.fd, s->held + s->held_at, s->held_len - s->held_at, MSG_NOSIGNAL));
    if (n < 0)
        return false;
    *ret = n > 0;
    s->held_at += (size_t)n;
    if (s->held_at == s->held_len)
        kn_socket_drop_held(s);
    return true;
}

void kn_socket_drop_held(kn_socket *s) {
    free(s->held);
    s->held = NULL;
    s->held_at = s->held_len = 0;
}

uint64_t kn_socket_untaken(const kn_socket *s) {
    int in_kernel = 0;
    if (ioctl(s->watch.fd, TIOCOUTQ, &in_kernel) || in_kernel < 0)
        in_kernel = 0;
    return s->held_len - s->held_at + (uint64_t)in_kernel;
}

/* Nothing waits to be sent. And what stays on this machine meets no congestion, so that the plainest control of it will
 * do: BBR, where it is the system's, takes a tenth more CPU time for a large body. */
void kn_socket_tune(int fd, const kn_address *a) {
    static const char plainest[] = "reno";
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (kn_address_is_loopback(a))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plainest, sizeof plainest - 1);
}

kn_window kn_input_window(const kn_input *in) {
    static char nothing[1];
    return in->data ? (kn_window){ in->data + in->at, in->len - in->at } : (kn_window){ nothing, 0 };
}

/* Makes room behind what is held: twice as much each time, so that a head that trickles in is not copied for every
 * byte. */
static bool make_room(kn_input *in) {
    if (in->at) {
        memmove(in->data, in->data + in->at, in->len - in->at);
        in->len -= in->at;
        in->at = 0;
    }
    if (in->len < in->room)
        return true;
    size_t room = KN_MAX(2 * in->room, (size_t)1024);
    char *data = realloc(in->data, room);
    if (!data)
        return false;
    in->data = data;
    in->room = room;
    return true;
}

kn_read kn_input_read(kn_http *h, kn_input *in, int fd, size_t most, kn_window *ret) {
    if (in->data && !make_room(in))
        return KN_READ_BROKEN;
    char *to = in->data ? in->data + in->len : h->read;
    size_t room = in->data ? in->room - in->len : KN_HTTP_READ_MAX;
    ssize_t n = recv(fd, to, KN_MIN(most, room), 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? KN_READ_NOTHING : KN_READ_BROKEN;
    if (n == 0)
        return KN_READ_END;
    if (in->data) {
        in->len += (size_t)n;
        *ret = kn_input_window(in);
    } else {
        *ret = (kn_window){ h->read, (size_t)n };
    }
    return KN_READ_DATA;
}

bool kn_input_keep(kn_input *in, kn_window w, size_t used) {
    if (in->data) {
        in->at += used;
        if (in->at == in->len)
            kn_input_drop(in);
        return true;
    }
    if (used == w.len)
        return true;
    size_t len = w.len - used;
    in->data = malloc(len);
    if (!in->data)
        return false;
    memcpy(in->data, w.data + used, len);
    in->at = 0;
    in->len = in->room = len;
    return true;
}

void kn_input_drop(kn_input *in) {
    free(in->data);
    *in = (kn_input){ 0 };
}
