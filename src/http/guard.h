/* Who may use a listener of our own routes: a loopback listener is reachable by every page in the user's browser, so
 * the request must say that it means us and no other (DNS rebinding), and must not come from a foreign page. Only then
 * the credential is looked at. */
#ifndef KN_HTTP_GUARD_H
#define KN_HTTP_GUARD_H

#include "http/exchange.h"
#include "http/loop.h"

enum {
    KN_TOKEN_MIN = 32,
    KN_TOKEN_MAX = 256,
    KN_GUARD_FAILURES = 30,   /* wrong credentials at once before they are answered by 429 … */
    KN_GUARD_REFILL_MS = 500, /* … and one more after so long */
};

typedef struct kn_guard {
    kn_loop *loop;
    uint16_t port;                /* of the listener: 127.0.0.1:PORT, localhost:PORT, [::1]:PORT are its names */
    char token[KN_TOKEN_MAX + 1]; /* empty: none is asked for */
    uint64_t failures_since_ms;   /* the bucket of wrong credentials */
} kn_guard;

/* The token: 32 to 256 of A-Z a-z 0-9 - _ . */
bool kn_token_is_valid(const char *token, size_t len);

/* Compares in a time that tells nothing about the secret. */
bool kn_token_is_same(kn_span given, kn_span secret);

/* What Authorization says in that scheme, behind one space or more (RFC 9110). False: nothing. */
bool kn_guard_credential(const kn_head *head, const char *scheme, kn_span *ret);

/* The two parts of the following, for listeners with other credentials, too. */
bool kn_guard_knows_page(kn_guard *g, kn_exchange *x, const kn_head *head);
bool kn_guard_has_token(const kn_guard *g, const kn_head *head);
void kn_guard_refuse(kn_guard *g, kn_exchange *x, bool tried); /* 401, or 429 for one more wrong credential */

/* Answers the request with 421, 403, 401 or 429 itself, as a problem document, and returns false; or true. */
bool kn_guard_admits(kn_guard *g, kn_exchange *x, const kn_head *head);

#endif
