#include "studio/sessions.h"

#include <string.h>

#include "http/guard.h"

bool kn_session_mark(const char *token, kn_span secret, kn_sha256 *ret) {
    char text[KN_TOKEN_MAX + 1 + KN_SESSION_SECRET];
    size_t len = strlen(token);
    if (secret.len != KN_SESSION_SECRET || len > KN_TOKEN_MAX)
        return false;
    memcpy(text, token, len);
    text[len] = '\n'; /* which no token has */
    memcpy(text + len + 1, secret.data, secret.len);
    bool ok = kn_sha256_of(text, len + 1 + secret.len, ret, NULL);
    explicit_bzero(text, sizeof text);
    return ok;
}

/* Each is compared in full, so that the time tells nothing. */
kn_session *kn_sessions_find(kn_session_list *l, const kn_sha256 *cookie, uint64_t now_ms) {
    kn_session *found = NULL;
    for (size_t i = 0; i < KN_SESSIONS; i++)
        if (kn_token_is_same(kn_span_of(cookie->text), kn_span_of(l->at[i].cookie.text)) && l->at[i].ends_ms > now_ms)
            found = &l->at[i];
    return found;
}

void kn_sessions_put(kn_session_list *l, const kn_session *one) {
    kn_session *oldest = &l->at[0];
    for (size_t i = 1; i < KN_SESSIONS; i++)
        if (l->at[i].ends_ms < oldest->ends_ms)
            oldest = &l->at[i];
    *oldest = *one;
}

/* ---- in the database ---- */

static bool read_mark(const kn_query *r, int column, kn_sha256 *ret) {
    const char *text = kn_query_text(r, column);
    bool good = text && strlen(text) == sizeof ret->text - 1;
    if (good)
        memcpy(ret->text, text, sizeof ret->text);
    return good;
}

bool kn_sessions_load(kn_store *s, int64_t now_s, uint64_t now_ms, kn_session_list *ret, kn_error *err) {
    kn_session_list list = { 0 };
    kn_query r =
        kn_query_open(s, err, "SELECT cookie, csrf, ends_s FROM sessions WHERE ends_s > ? ORDER BY ends_s DESC LIMIT ?",
                      "ii", now_s, (int64_t)KN_SESSIONS);
    for (size_t i = 0; i < KN_SESSIONS && kn_query_next(&r); i++) {
        kn_session one = { .ends_s = kn_query_int(&r, 2) };
        one.ends_ms = now_ms + (uint64_t)KN_MIN(one.ends_s - now_s, KN_SESSION_S) * 1000;
        if (read_mark(&r, 0, &one.cookie) && read_mark(&r, 1, &one.csrf))
            list.at[i] = one;
    }
    if (!kn_query_close(&r))
        return false;
    *ret = list;
    return true;
}

static bool prune(kn_store *s, int64_t now_s, kn_error *err) {
    return kn_store_do(s, err, NULL,
                       "DELETE FROM sessions WHERE ends_s <= ? OR cookie NOT IN"
                       " (SELECT cookie FROM sessions ORDER BY ends_s DESC LIMIT ?)",
                       "ii", now_s, (int64_t)KN_SESSIONS);
}

bool kn_sessions_keep(kn_store *s, const kn_session *one, int64_t now_s, kn_error *err) {
    return kn_store_begin(s, err) &&
           kn_store_end(s,
                        kn_store_do(s, err, NULL, "INSERT INTO sessions (cookie, csrf, ends_s) VALUES (?, ?, ?)", "tti",
                                    one->cookie.text, one->csrf.text, one->ends_s) &&
                            prune(s, now_s, err),
                        err);
}

bool kn_sessions_forget(kn_store *s, const kn_sha256 *cookie, kn_error *err) {
    return kn_store_do(s, err, NULL, "DELETE FROM sessions WHERE cookie = ?", "t", cookie->text);
}
