/* Sessions of the page: who has shown the token, or the code of a link, holds two secrets for some hours.
 *
 * What is known of them, here and in the database, are marks: each is the SHA-256 of a secret and the token together.
 * So sessions last through restarts of the service, nobody gets in by what stands in the database, and another token
 * ends them all. */
#ifndef KN_STUDIO_SESSIONS_H
#define KN_STUDIO_SESSIONS_H

#include "http/head.h"
#include "studio/files.h"

enum { KN_SESSIONS = 64, KN_SESSION_S = 12 * 3600, KN_SESSION_SECRET = 64 /* characters of either */ };

typedef struct kn_session {
    kn_sha256 cookie, csrf; /* marks; empty: none */
    int64_t ends_s;         /* by the clock on the wall: what is told and kept */
    uint64_t ends_ms;       /* by the loop's, which nobody sets: what counts in this process */
} kn_session;

typedef struct kn_session_list {
    kn_session at[KN_SESSIONS];
} kn_session_list;

/* False: it can be none of ours, or the hash cannot be computed. */
bool kn_session_mark(const char *token, kn_span secret, kn_sha256 *ret);

/* NULL: there is none by this mark of a cookie, or it has ended. */
kn_session *kn_sessions_find(kn_session_list *l, const kn_sha256 *cookie, uint64_t now_ms);

/* The one that ends first makes room. */
void kn_sessions_put(kn_session_list *l, const kn_session *one);

/* ---- in the database ---- */

/* None lasts longer than a new one, whatever the clock was when it began. */
bool kn_sessions_load(kn_store *s, int64_t now_s, uint64_t now_ms, kn_session_list *ret, kn_error *err);

/* What has ended, or has no room, goes. */
bool kn_sessions_keep(kn_store *s, const kn_session *one, int64_t now_s, kn_error *err);
bool kn_sessions_forget(kn_store *s, const kn_sha256 *cookie, kn_error *err);

#endif
