#include "http/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/text.h"

static const struct sockaddr_in *as_v4(const kn_address *a) {
    return (const void *)&a->storage;
}

static const struct sockaddr_in6 *as_v6(const kn_address *a) {
    return (const void *)&a->storage;
}

static const struct sockaddr_un *as_unix(const kn_address *a) {
    return (const void *)&a->storage;
}

static bool parse_unix(const char *path, kn_address *ret, kn_error *err) {
    struct sockaddr_un *u = (void *)&ret->storage;
    size_t len = strlen(path);
    if (!len || len >= sizeof u->sun_path)
        return kn_fail(err, KN_E_RANGE, "the path of a Unix socket has 1 to %zu bytes, this one has %zu",
                       sizeof u->sun_path - 1, len);
    u->sun_family = AF_UNIX;
    memcpy(u->sun_path, path, len + 1);
    ret->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
    return true;
}

bool kn_address_parse(const char *text, kn_address *ret, kn_error *err) {
    *ret = (kn_address){ 0 };
    if (!strncmp(text, "unix:", 5))
        return parse_unix(text + 5, ret, err);

    char host[INET6_ADDRSTRLEN];
    const char *colon = strrchr(text, ':');
    bool bracketed = text[0] == '[' && colon && colon > text && colon[-1] == ']';
    const char *start = text + bracketed, *end = colon ? colon - bracketed : NULL;
    uint64_t port = 0;
    if (!colon || !kn_parse_u64(colon + 1, &port) || port > UINT16_MAX || (size_t)(end - start) >= sizeof host)
        return kn_fail(err, KN_E_FORMAT, "'%s' is not an address with port, such as 127.0.0.1:11434 or [::1]:11434",
                       kn_quote_z(text).text);
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = 0;

    struct sockaddr_in *v4 = (void *)&ret->storage;
    struct sockaddr_in6 *v6 = (void *)&ret->storage;
    if (!bracketed && inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        ret->len = sizeof *v4;
        return true;
    }
    if (bracketed && inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        ret->len = sizeof *v6;
        return true;
    }
    return kn_fail(err, KN_E_FORMAT, "'%s' is not the number of an address; names are not looked up",
                   kn_quote_z(text).text);
}

kn_address_text kn_address_print(const kn_address *a) {
    kn_address_text t = { "" };
    char host[INET6_ADDRSTRLEN] = "";
    if (a->storage.ss_family == AF_INET) {
        inet_ntop(AF_INET, &as_v4(a)->sin_addr, host, sizeof host);
        snprintf(t.text, sizeof t.text, "%s:%u", host, kn_address_port(a));
    } else if (a->storage.ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &as_v6(a)->sin6_addr, host, sizeof host);
        snprintf(t.text, sizeof t.text, "[%s]:%u", host, kn_address_port(a));
    } else if (a->storage.ss_family == AF_UNIX) {
        snprintf(t.text, sizeof t.text, "unix:%s", as_unix(a)->sun_path);
    }
    return t;
}

static bool is_loopback_v4(uint32_t network_order) {
    return ntohl(network_order) >> 24 == 127;
}

bool kn_address_is_loopback(const kn_address *a) {
    if (a->storage.ss_family == AF_INET)
        return is_loopback_v4(as_v4(a)->sin_addr.s_addr);
    if (a->storage.ss_family != AF_INET6)
        return a->storage.ss_family == AF_UNIX;
    const struct in6_addr *v6 = &as_v6(a)->sin6_addr;
    uint32_t last;
    memcpy(&last, v6->s6_addr + 12, sizeof last);
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && is_loopback_v4(last));
}

uint16_t kn_address_port(const kn_address *a) {
    if (a->storage.ss_family == AF_INET)
        return ntohs(as_v4(a)->sin_port);
    return a->storage.ss_family == AF_INET6 ? ntohs(as_v6(a)->sin6_port) : 0;
}

bool kn_address_is_same_host(const kn_address *a, const kn_address *b) {
    if (a->storage.ss_family != b->storage.ss_family)
        return false;
    if (a->storage.ss_family == AF_INET)
        return as_v4(a)->sin_addr.s_addr == as_v4(b)->sin_addr.s_addr;
    if (a->storage.ss_family == AF_INET6)
        return IN6_ARE_ADDR_EQUAL(&as_v6(a)->sin6_addr, &as_v6(b)->sin6_addr);
    return a->len == b->len && !memcmp(&a->storage, &b->storage, a->len);
}
