#include "catalog/keeper.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

enum { READ_BYTES = 1 << 20, SYNC_PIECES = 16, SYNC_MS = 1000, MS_PER_S = 1000 };

struct kn_keeper {
    const kn_partial *part;
    kn_pieces pieces; /* its own: those that are done */
    const char *sha256;
    size_t *waiting;                     /* pieces of which the journal does not know yet how far they are */
    bool *waits;                         /* whether a piece is among those */
    size_t waiting_count, begun, hashed; /* begun: those in front of this one are on their way to the disk already */
    double synced;
    bool ends, restarts;
    char etag[KN_ETAG_BYTES];
    kn_error err;
    EVP_MD_CTX *md;
    uint8_t *buffer;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, progress;
};

/* ---- in the thread; called with the lock, which is let go for what takes long ---- */

static bool hash_piece(kn_keeper *k, size_t piece, kn_error *err) {
    uint64_t at = kn_piece_start(&k->pieces, piece), end = kn_piece_end(&k->pieces, piece);
    while (at < end) {
        size_t n = (size_t)KN_MIN(end - at, (uint64_t)READ_BYTES);
        if (!kn_partial_read(k->part, at, k->buffer, n, err))
            return false;
        if (!EVP_DigestUpdate(k->md, k->buffer, n))
            return kn_fail(err, KN_E_IO, "a SHA-256 cannot be computed");
        at += n;
    }
    return true;
}

static void hash_next(kn_keeper *k) {
    kn_error err = { 0 };
    pthread_mutex_unlock(&k->lock);
    bool ok = hash_piece(k, k->hashed, &err);
    pthread_mutex_lock(&k->lock);
    if (ok)
        k->hashed++;
    else
        k->err = err;
}

static void begin_sync(kn_keeper *k) {
    size_t piece = k->waiting[k->begun++];
    uint64_t at = kn_piece_start(&k->pieces, piece), end = kn_piece_end(&k->pieces, piece);
    pthread_mutex_unlock(&k->lock);
    kn_partial_begin_sync(k->part, at, end - at);
    pthread_mutex_lock(&k->lock);
}

static void note_waiting(kn_keeper *k) {
    kn_error err = { 0 };
    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_JOURNAL_BYTES);
    bool ok = true;
    for (size_t i = 0; ok && i < k->waiting_count; i++) {
        ok = kn_journal_write_piece(&k->pieces, k->waiting[i], &text);
        k->waits[k->waiting[i]] = false;
    }
    k->waiting_count = k->begun = 0;
    pthread_mutex_unlock(&k->lock);
    ok = (ok || kn_fail_nomem(&err, text.len)) && kn_partial_sync(k->part, &err) &&
         kn_partial_write_journal(k->part, false, &text, &err);
    pthread_mutex_lock(&k->lock);
    k->synced = kn_now();
    if (!ok)
        k->err = err;
}

static void begin_anew(kn_keeper *k) {
    kn_error err = { 0 };
    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_JOURNAL_BYTES);
    kn_pieces_clear(&k->pieces);
    k->waiting_count = k->begun = k->hashed = 0;
    memset(k->waits, 0, k->pieces.count * sizeof *k->waits);
    if (!((kn_journal_write_head(&k->pieces, k->sha256, k->etag, &text) || kn_fail_nomem(&err, text.len)) &&
          kn_partial_write_journal(k->part, true, &text, &err) &&
          (EVP_DigestInit_ex(k->md, EVP_sha256(), NULL) || kn_fail(&err, KN_E_IO, "a SHA-256 cannot be computed"))))
        k->err = err;
    k->restarts = false;
}

static bool can_hash(const kn_keeper *k) {
    return k->hashed < k->pieces.count && k->pieces.state[k->hashed] == KN_PIECE_DONE;
}

static bool must_note(const kn_keeper *k) {
    return k->waiting_count &&
           (k->ends || k->waiting_count >= SYNC_PIECES || (kn_now() - k->synced) * MS_PER_S >= SYNC_MS);
}

static void wait_for_work(kn_keeper *k) {
    struct timespec until = kn_moment_in_ms(SYNC_MS);
    if (k->waiting_count)
        pthread_cond_timedwait(&k->work, &k->lock, &until);
    else
        pthread_cond_wait(&k->work, &k->lock);
}

static void *keep(void *arg) {
    kn_keeper *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->err.code) {
        if (k->restarts)
            begin_anew(k);
        else if (must_note(k))
            note_waiting(k);
        else if (k->ends)
            break;
        else if (k->begun < k->waiting_count)
            begin_sync(k);
        else if (can_hash(k))
            hash_next(k);
        else
            wait_for_work(k);
        pthread_cond_broadcast(&k->progress);
    }
    pthread_cond_broadcast(&k->progress);
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* ---- for the thread of the network ---- */

static bool make_parts(kn_keeper *k, const kn_pieces *pieces, kn_error *err) {
    if (!kn_pieces_new(pieces->bytes, pieces->piece_bytes, &k->pieces, err))
        return false;
    memcpy(k->pieces.state, pieces->state, pieces->count);
    k->pieces.done = pieces->done;
    k->pieces.free = pieces->free;
    k->waiting = calloc(pieces->count, sizeof *k->waiting);
    k->waits = calloc(pieces->count, sizeof *k->waits);
    k->buffer = malloc(READ_BYTES);
    k->md = EVP_MD_CTX_new();
    if (!k->waiting || !k->waits || !k->buffer || !k->md)
        return kn_fail_nomem(err, READ_BYTES);
    return EVP_DigestInit_ex(k->md, EVP_sha256(), NULL) || kn_fail(err, KN_E_IO, "a SHA-256 cannot be computed");
}

static void free_parts(kn_keeper *k) {
    EVP_MD_CTX_free(k->md);
    kn_pieces_free(&k->pieces);
    free(k->waiting);
    free(k->waits);
    free(k->buffer);
    free(k);
}

bool kn_keeper_new(const kn_partial *part, const kn_pieces *pieces, const char *sha256, kn_keeper **ret,
                   kn_error *err) {
    kn_keeper *k = calloc(1, sizeof *k);
    if (!k)
        return kn_fail_nomem(err, sizeof *k);
    *k = (kn_keeper){ .part = part, .sha256 = sha256, .synced = kn_now() };
    if (!make_parts(k, pieces, err)) {
        free_parts(k);
        return false;
    }
    pthread_mutex_init(&k->lock, NULL);
    kn_condition_init(&k->work);
    kn_condition_init(&k->progress);
    int failed = pthread_create(&k->thread, NULL, keep, k);
    if (failed) {
        pthread_cond_destroy(&k->work);
        pthread_cond_destroy(&k->progress);
        pthread_mutex_destroy(&k->lock);
        free_parts(k);
        return kn_fail(err, KN_E_IO, "a thread cannot be started: %s", strerror(failed));
    }
    *ret = k;
    return true;
}

void kn_keeper_free(kn_keeper *k) {
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->ends = true;
    pthread_cond_signal(&k->work);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    pthread_cond_destroy(&k->work);
    pthread_cond_destroy(&k->progress);
    pthread_mutex_destroy(&k->lock);
    free_parts(k);
}

/* Ends a call with what the thread has met. */
static bool leave(kn_keeper *k, kn_error *err) {
    kn_error met = k->err;
    pthread_mutex_unlock(&k->lock);
    return !met.code || kn_fail(err, met.code, "%s", met.text);
}

bool kn_keeper_restart(kn_keeper *k, const char *etag, kn_error *err) {
    pthread_mutex_lock(&k->lock);
    k->restarts = true;
    snprintf(k->etag, sizeof k->etag, "%s", etag);
    pthread_cond_signal(&k->work);
    while (k->restarts && !k->err.code)
        pthread_cond_wait(&k->progress, &k->lock);
    return leave(k, err);
}

static void note(kn_keeper *k, size_t piece) {
    if (!k->waits[piece])
        k->waiting[k->waiting_count++] = piece;
    k->waits[piece] = true;
    pthread_cond_signal(&k->work);
}

bool kn_keeper_piece(kn_keeper *k, size_t piece, kn_error *err) {
    pthread_mutex_lock(&k->lock);
    kn_piece_finish(&k->pieces, piece);
    note(k, piece);
    return leave(k, err);
}

bool kn_keeper_part(kn_keeper *k, size_t piece, uint32_t bytes, kn_error *err) {
    pthread_mutex_lock(&k->lock);
    k->pieces.part[piece] = bytes;
    note(k, piece);
    return leave(k, err);
}

bool kn_keeper_finish(kn_keeper *k, unsigned wait_ms, bool *ret_done, char hash[KN_SHA256_HEX], kn_error *err) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    struct timespec until = kn_moment_in_ms(wait_ms);
    pthread_mutex_lock(&k->lock);
    for (int waited = 0; k->hashed < k->pieces.count && !k->err.code && !waited;)
        waited = pthread_cond_timedwait(&k->progress, &k->lock, &until);
    *ret_done = k->hashed == k->pieces.count && !k->err.code;
    if (*ret_done && (!EVP_DigestFinal_ex(k->md, digest, &n) || n != (KN_SHA256_HEX - 1) / 2))
        kn_fail(&k->err, KN_E_IO, "a SHA-256 cannot be computed");
    kn_hex(digest, n, hash);
    return leave(k, err);
}

uint64_t kn_keeper_hashed_bytes(kn_keeper *k) {
    pthread_mutex_lock(&k->lock);
    uint64_t bytes = k->hashed ? kn_piece_end(&k->pieces, k->hashed - 1) : 0;
    pthread_mutex_unlock(&k->lock);
    return bytes;
}
