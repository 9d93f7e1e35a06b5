/* The upstream of bench/proxy: as little work as an HTTP/1.1 server can do, in one thread, so that what is measured is
 * the proxy in front of it.
 *
 *     proxy-upstream
 *
 * prints the port that it listens on. GET ANY?big=N: N bytes with Content-Length. GET ANY?slow: a line of 64 bytes a
 * second, in chunks, for ever. Anything else: 200 bytes of JSON. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/text.h"

enum { HEAD_MAX = 8192, EVENTS = 256, PIECE = 1 << 18 };

typedef struct client client;
struct client {
    int fd;
    size_t len;
    uint64_t big; /* bytes of a large body still to be sent */
    client *next_slow, *prev_slow;
    bool slow;
    char head[HEAD_MAX];
};

static const char small[] =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 200\r\n\r\n"
    "{\"id\":\"c1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,"
    "\"message\":{\"role\":\"assistant\",\"content\":\"hello\"},\"finish_reason\":\"stop\"}],\"usage\":{\"total\":2}"
    ",\"padding\":\"";
static char answer[sizeof small + 200];
static size_t answer_len;
static const char slow_head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
                                "Transfer-Encoding: chunked\r\n\r\n";
static char zeros[PIECE];
static client *slow_clients;

static void make_answer(void) {
    const char *body = strstr(small, "\r\n\r\n") + 4;
    size_t head = (size_t)(body - small), have = sizeof small - 1 - head;
    memcpy(answer, small, sizeof small - 1);
    memset(answer + sizeof small - 1, 'x', 200 - have - 2);
    memcpy(answer + head + 198, "\"}", 2);
    answer_len = head + 200;
}

static void drop(client *c) {
    if (c->slow) {
        if (c->prev_slow)
            c->prev_slow->next_slow = c->next_slow;
        else
            slow_clients = c->next_slow;
        if (c->next_slow)
            c->next_slow->prev_slow = c->prev_slow;
    }
    close(c->fd);
    free(c);
}

static bool put(client *c, const void *p, size_t n) {
    return send(c->fd, p, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static bool pump(client *c) {
    while (c->big) {
        ssize_t n = send(c->fd, zeros, c->big < PIECE ? c->big : PIECE, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN;
        c->big -= (uint64_t)n;
    }
    return true;
}

/* line: the request's first one, without its version. */
static bool serve(client *c, const char *line) {
    static const char big[] = "?big=", slow[] = "?slow";
    const char *query = strchr(line, '?');
    if (!query)
        return put(c, answer, answer_len);
    if (!strncmp(query, big, sizeof big - 1)) {
        char head[128];
        if (!kn_parse_u64(query + sizeof big - 1, &c->big))
            return false;
        int n =
            snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n", (unsigned long long)c->big);
        return put(c, head, (size_t)n) && pump(c);
    }
    if (strcmp(query, slow) != 0)
        return false;
    c->slow = true;
    c->next_slow = slow_clients;
    if (slow_clients)
        slow_clients->prev_slow = c;
    slow_clients = c;
    return put(c, slow_head, sizeof slow_head - 1);
}

/* Requests have no bodies here. */
static bool hear(client *c) {
    ssize_t n = recv(c->fd, c->head + c->len, sizeof c->head - 1 - c->len, 0);
    if (n <= 0)
        return n < 0 && errno == EAGAIN;
    c->len += (size_t)n;
    c->head[c->len] = 0;
    for (char *end; (end = strstr(c->head, "\r\n\r\n"));) {
        size_t used = (size_t)(end + 4 - c->head);
        char *version = strstr(c->head, " HTTP/");
        if (!version)
            return false;
        *version = 0;
        if (!serve(c, c->head))
            return false;
        memmove(c->head, c->head + used, c->len - used + 1);
        c->len -= used;
    }
    return c->len < sizeof c->head - 1;
}

static void meet(int epoll, int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    client *c = fd < 0 ? NULL : calloc(1, sizeof *c);
    if (!c)
        return;
    c->fd = fd;
    struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data.ptr = c };
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static void tick(int timer) {
    char line[70];
    uint64_t count;
    memset(line, 'x', sizeof line);
    memcpy(line, "40\r\n", 4);
    memcpy(line + 68, "\r\n", 2);
    if (read(timer, &count, sizeof count) > 0)
        for (client *c = slow_clients; c; c = c->next_slow)
            put(c, line, sizeof line);
}

/* A listener on a port that the system chooses, which is told on standard output. */
static int open_listener(void) {
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof a;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 4096) || getsockname(fd, (struct sockaddr *)&a, &len))
        return -1;
    printf("%u\n", ntohs(a.sin_port));
    return fflush(stdout) ? -1 : fd;
}

int main(void) {
    make_answer();
    int listener = open_listener();
    if (listener < 0) {
        perror("proxy-upstream");
        return EXIT_FAILURE;
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct itimerspec every_second = { { 1, 0 }, { 1, 0 } };
    timerfd_settime(timer, 0, &every_second, NULL);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &(struct epoll_event){ .events = EPOLLIN, .data.ptr = &listener });
    epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &(struct epoll_event){ .events = EPOLLIN, .data.ptr = &timer });
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            client *c = events[i].data.ptr;
            if (events[i].data.ptr == &listener)
                meet(epoll, listener);
            else if (events[i].data.ptr == &timer)
                tick(timer);
            else if ((events[i].events & (EPOLLHUP | EPOLLERR)) || (events[i].events & EPOLLIN && !hear(c)) || !pump(c))
                drop(c);
        }
    }
}
