#include "http/guard.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http/reply.h"

bool kn_token_is_valid(const char *token, size_t len) {
    static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    return len >= KN_TOKEN_MIN && len <= KN_TOKEN_MAX && strnlen(token, len) == len && strspn(token, chars) >= len;
}

bool kn_token_is_same(kn_span given, kn_span secret) {
    /* Every byte given is compared, whatever came before; only how long the given one is can be seen in the time. */
    unsigned different = given.len != secret.len || !secret.len;
    for (size_t i = 0; i < given.len && secret.len; i++)
        different |= (unsigned char)given.data[i] ^ (unsigned char)secret.data[i % secret.len];
    return !different;
}

/* 127.0.0.1:PORT, localhost:PORT, [::1]:PORT, with `prefix` before it. */
static bool is_own_name(const kn_guard *g, kn_span name, const char *prefix) {
    static const char *const hosts[] = { "127.0.0.1", "localhost", "[::1]" };
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        char own[64];
        snprintf(own, sizeof own, "%s%s:%u", prefix, hosts[i], g->port);
        if (kn_span_is_like(name, own))
            return true;
    }
    return false;
}

static bool comes_from_a_foreign_page(const kn_guard *g, const kn_head *head) {
    for (const kn_field *f = NULL; (f = kn_head_find(head, KN_FIELD_ORIGIN, f));)
        if (!is_own_name(g, kn_head_value(head, f), "http://"))
            return true;
    for (const kn_field *f = NULL; (f = kn_head_find(head, KN_FIELD_SEC_FETCH_SITE, f));) {
        kn_span site = kn_head_value(head, f);
        if (!kn_span_is_like(site, "same-origin") && !kn_span_is_like(site, "none"))
            return true;
    }
    return false;
}

bool kn_guard_credential(const kn_head *head, const char *scheme, kn_span *ret) {
    kn_span value;
    size_t at = strlen(scheme);
    if (!kn_head_only(head, KN_FIELD_AUTHORIZATION, &value) || value.len <= at || value.data[at] != ' ' ||
        strncasecmp(value.data, scheme, at) != 0)
        return false;
    while (at < value.len && value.data[at] == ' ')
        at++;
    *ret = (kn_span){ value.data + at, value.len - at };
    return true;
}

bool kn_guard_has_token(const kn_guard *g, const kn_head *head) {
    kn_span given;
    return kn_guard_credential(head, "Bearer", &given) && kn_token_is_same(given, kn_span_of(g->token));
}

/* A wrong credential costs a place in the bucket, which fills again with time. False: it is empty. */
static bool may_fail_again(kn_guard *g) {
    uint64_t now = kn_loop_now_ms(g->loop);
    if (g->failures_since_ms < now)
        g->failures_since_ms = now;
    if (g->failures_since_ms - now >= (uint64_t)KN_GUARD_FAILURES * KN_GUARD_REFILL_MS)
        return false;
    g->failures_since_ms += KN_GUARD_REFILL_MS;
    return true;
}

bool kn_guard_knows_page(kn_guard *g, kn_exchange *x, const kn_head *head) {
    kn_span host;
    if (!kn_head_only(head, KN_FIELD_HOST, &host) || !is_own_name(g, host, "")) {
        kn_reply_problem(x, &(kn_problem){ .status = 421,
                                           .code = "host_not_allowed",
                                           .title = "The Host header does not name this listener",
                                           .pointer = "header/Host" });
        return false;
    }
    if (comes_from_a_foreign_page(g, head)) {
        kn_reply_problem(x, &(kn_problem){ .status = 403,
                                           .code = "origin_not_allowed",
                                           .title = "Requests from other pages are not allowed",
                                           .pointer = "header/Origin" });
        return false;
    }
    return true;
}

void kn_guard_refuse(kn_guard *g, kn_exchange *x, bool tried) {
    if (tried && !may_fail_again(g))
        kn_reply_problem(x, &(kn_problem){ .status = 429,
                                           .code = "too_many_failures",
                                           .title = "Too many wrong credentials",
                                           .retry_after_s = 1 });
    else
        kn_reply_problem(x, &(kn_problem){ .status = 401,
                                           .code = "unauthorized",
                                           .title = "A valid bearer token is needed",
                                           .fields = "WWW-Authenticate: Bearer realm=\"kuno\"\r\n" });
}

bool kn_guard_admits(kn_guard *g, kn_exchange *x, const kn_head *head) {
    if (!kn_guard_knows_page(g, x, head))
        return false;
    if (!g->token[0] || kn_guard_has_token(g, head)) {
        kn_exchange_trust(x);
        return true;
    }
    kn_guard_refuse(g, x, kn_head_find(head, KN_FIELD_AUTHORIZATION, NULL));
    return false;
}
