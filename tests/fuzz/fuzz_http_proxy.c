/* The whole proxy between a client and an upstream that do anything at any time. The input is a script: a byte that
 * says what happens, and for bytes that are sent, how many; then those.
 *
 * Promises: it always ends; every exchange has its end, every dispatch its upstream_end; and a reader at the upstream
 * that takes bytes as loosely as servers do never sees more requests than were dispatched. */
#include <stdint.h>
#include <strings.h>

#include "../http/rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MAX = 200, CLIENTS = 2, UPSTREAMS = 8, SEEN_MAX = 1 << 20, REPEATS = 256 };

static void require(bool promise) {
    if (!promise)
        abort();
}

/* What came over one connection to the upstream. */
typedef struct sight {
    int fd;
    size_t len;
} sight;

static char seen[UPSTREAMS][SEEN_MAX + 1]; /* the bytes of each sight, which end in NUL */

typedef struct play {
    rig r;
    int clients[CLIENTS];
    sight upstreams[UPSTREAMS];
    unsigned upstream_count;
    bool clients_read, upstreams_read;
} play;

/* The value of the last field of this name, as a loose reader would find it; NULL: there is none. */
static const char *loose_field(const char *head, const char *end, const char *name) {
    const char *value = NULL;
    for (const char *line = head; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t len = strlen(name);
        if (next && (size_t)(next - line) > len && !strncasecmp(line, name, len) && line[len] == ':')
            value = line + len + 1;
        line = next ? next + 1 : end;
    }
    return value;
}

/* The start of what follows a chunked body; NULL: its end is not there. Ends of lines may lack their CR here. */
static const char *skip_chunks(const char *at, const char *end) {
    for (;;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        if (!line)
            return NULL;
        char *after;
        unsigned long long n = strtoull(at, &after, 16);
        at = line + 1;
        if (!n)
            break;
        if (n > (unsigned long long)(end - at))
            return NULL;
        at += n;
        line = memchr(at, '\n', (size_t)(end - at));
        if (!line)
            return NULL;
        at = line + 1;
    }
    for (;;) { /* trailers */
        const char *line = memchr(at, '\n', (size_t)(end - at));
        if (!line)
            return NULL;
        bool empty = line == at || (line == at + 1 && *at == '\r');
        at = line + 1;
        if (empty)
            return at;
    }
}

/* How many requests a loose reader sees begin. */
static unsigned count_requests(const char *at, size_t len) {
    const char *end = at + len;
    unsigned n = 0;
    while (at < end) {
        n++;
        const char *head = at;
        const char *blank = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
        if (!blank)
            return n;
        const char *length = loose_field(head, blank + 2, "content-length");
        const char *encoding = loose_field(head, blank + 2, "transfer-encoding");
        at = blank + 4;
        if (encoding) {
            at = skip_chunks(at, end);
            if (!at)
                return n;
        } else if (length) {
            unsigned long long body = strtoull(length, NULL, 10);
            if (body >= (unsigned long long)(end - at))
                return n;
            at += body;
        }
    }
    return n;
}

static void look(play *p) {
    rig_run(&p->r);
    unsigned most = KN_MIN(p->r.dispatched, (unsigned)UPSTREAMS);
    for (int fd; p->upstream_count < most && (fd = rig_accept(&p->r)) >= 0;)
        p->upstreams[p->upstream_count++] = (sight){ fd, 0 };
    for (unsigned i = 0; p->upstreams_read && i < p->upstream_count; i++) {
        sight *s = &p->upstreams[i];
        if (s->fd < 0)
            continue;
        for (ssize_t n; (n = recv(s->fd, seen[i] + s->len, SEEN_MAX - s->len, 0)) > 0;)
            s->len += (size_t)n;
    }
    for (int i = 0; p->clients_read && i < CLIENTS; i++) {
        static char ignored[1 << 16];
        if (p->clients[i] >= 0)
            rig_take(p->clients[i], ignored, sizeof ignored);
    }
}

/* The bytes again and again: more than sockets hold. */
static void flood(int fd, const uint8_t *data, size_t n) {
    static char many[REPEATS * UINT8_MAX];
    for (size_t i = 0; i < REPEATS; i++)
        memcpy(many + i * n, data, n);
    rig_put(fd, many, REPEATS * n);
}

static void close_once(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* One step of the script; returns the bytes used. */
static size_t step(play *p, const uint8_t *data, size_t size) {
    uint8_t what = data[0] & 15, who = data[0] >> 4;
    size_t n = size > 1 ? KN_MIN((size_t)data[1], size - 2) : 0;
    int *client = &p->clients[who % CLIENTS];
    int *upstream = p->upstream_count ? &p->upstreams[who % p->upstream_count].fd : NULL;
    switch (what) {
    case 0:
    case 1:
    case 2:
        if (*client < 0)
            *client = rig_connect(&p->r);
        rig_put(*client, data + 2, n);
        return 2 + n;
    case 3:
        if (*client >= 0)
            flood(*client, data + 2, n);
        return 2 + n;
    case 4:
    case 5:
    case 6:
        if (upstream && *upstream >= 0)
            rig_put(*upstream, data + 2, n);
        return 2 + n;
    case 7:
        if (upstream && *upstream >= 0)
            flood(*upstream, data + 2, n);
        return 2 + n;
    case 8: close_once(client); break;
    case 9:
        if (*client >= 0)
            shutdown(*client, SHUT_WR);
        break;
    case 10:
        if (upstream)
            close_once(upstream);
        break;
    case 11: p->r.now_ms += (uint64_t)1000 << who; break;
    case 12: p->r.how.drain_ms = who * 10000u; break;
    case 13:
        if (p->r.held)
            rig_forward(&p->r, p->r.held);
        p->r.held = NULL;
        break;
    case 14:
        if (p->r.held)
            kn_exchange_reply(p->r.held, &(kn_reply){ .status = 503 });
        p->r.held = NULL;
        break;
    case 15:
        p->r.how.watch_request = p->r.how.watch_response = who & 1;
        p->clients_read = !(who & 2);
        p->upstreams_read = !(who & 4);
        if (who & 8)
            snprintf(p->r.guard.token, sizeof p->r.guard.token, "0123456789abcdef0123456789abcdef");
        break;
    default: break;
    }
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    play p = { .clients = { -1, -1 }, .clients_read = true, .upstreams_read = true };
    rig_open(&p.r);
    bool is_cut = size && data[size - 1] & 1; /* the server ends before its clients do */
    for (int i = 0; i < STEPS_MAX && size; i++) {
        size_t used = step(&p, data, size);
        used = KN_MIN(used, size);
        data += used;
        size -= used;
        look(&p);
    }
    if (is_cut)
        kn_server_cut(p.r.server);
    for (int i = 0; i < CLIENTS; i++)
        close_once(&p.clients[i]);
    p.upstreams_read = true;
    look(&p);
    p.r.now_ms += 3600 * 1000;
    look(&p);
    look(&p);
    require(p.r.begun == p.r.ended && p.r.dispatched == p.r.upstream_ends);
    require(kn_server_connections(p.r.server) == 0);
    unsigned requests = 0;
    for (unsigned i = 0; i < p.upstream_count; i++) {
        seen[i][p.upstreams[i].len] = 0;
        requests += count_requests(seen[i], p.upstreams[i].len);
        close_once(&p.upstreams[i].fd);
    }
    require(requests <= p.r.dispatched);
    rig_close(&p.r);
    return 0;
}
