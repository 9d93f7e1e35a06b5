#include "catalog/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "catalog/download.h"

enum { ATTEMPTS = 2, READ_BYTES = 1 << 20 };

const char *const kn_fetch_problems[KN_FETCH_PROBLEMS] = {
    [KN_FETCH_FINE] = "fine",
    [KN_FETCH_OFFLINE] = "offline",
    [KN_FETCH_DIFFERS] = "file_differs",
    [KN_FETCH_BUSY] = "busy",
    [KN_FETCH_NO_SPACE] = "no_space",
    [KN_FETCH_MOVED] = "moved",
    [KN_FETCH_DENIED] = "denied",
    [KN_FETCH_NETWORK] = "network",
    [KN_FETCH_CORRUPT] = "hash_mismatch",
    [KN_FETCH_READONLY] = "storage_readonly",
    [KN_FETCH_STOPPED] = "stopped",
    [KN_FETCH_INTERNAL] = "internal",
};

kn_fetch_problem kn_fetch_problem_of(kn_code code) {
    switch (code) {
    case KN_E_FULL: return KN_FETCH_NO_SPACE;
    case KN_E_READONLY: return KN_FETCH_READONLY;
    case KN_E_OUTPUT: return KN_FETCH_DIFFERS;
    case KN_E_USAGE: return KN_FETCH_BUSY;
    default: return KN_FETCH_INTERNAL;
    }
}

static bool fail(kn_fetch_result *r, kn_fetch_problem problem) {
    r->problem = problem;
    return false;
}

/* ---- a file that is there already ---- */

typedef struct reading {
    const kn_fetch *order;
    int fd;
    EVP_MD_CTX *md;
    uint8_t *buffer;
    uint64_t done;
} reading;

static bool hash_file(reading *r, char hash[KN_SHA256_HEX], kn_error *err) {
    const kn_fetch *f = r->order;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (!EVP_DigestInit_ex(r->md, EVP_sha256(), NULL))
        return kn_fail(err, KN_E_IO, "a SHA-256 cannot be computed");
    for (ssize_t n = 1; n != 0;) {
        if (f->stops && f->stops(f->ctx))
            return kn_fail(err, KN_E_CANCELLED, "stopped");
        n = read(r->fd, r->buffer, READ_BYTES);
        if (n < 0)
            return kn_fail(err, KN_E_IO, "the file that is there cannot be read: %s", strerror(errno));
        EVP_DigestUpdate(r->md, r->buffer, (size_t)n);
        r->done += (uint64_t)n;
        if (f->progress)
            f->progress(f->ctx, &(kn_fetch_progress){ .state = KN_FETCH_CHECKING,
                                                      .bytes_done = KN_MIN(r->done, f->artifact->bytes),
                                                      .bytes_total = f->artifact->bytes });
    }
    if (!EVP_DigestFinal_ex(r->md, digest, &len) || len != (KN_SHA256_HEX - 1) / 2)
        return kn_fail(err, KN_E_IO, "a SHA-256 cannot be computed");
    kn_hex(digest, len, hash);
    return true;
}

static bool hash_there(const kn_fetch *f, int dir_fd, char hash[KN_SHA256_HEX], kn_error *err) {
    reading r = { .order = f, .fd = openat(dir_fd, f->artifact->name, O_RDONLY | O_CLOEXEC) };
    r.md = EVP_MD_CTX_new();
    r.buffer = malloc(READ_BYTES);
    bool ok = r.fd < 0             ? kn_fail(err, KN_E_IO, "the file that is there cannot be read: %s", strerror(errno))
              : !r.md || !r.buffer ? kn_fail_nomem(err, READ_BYTES)
                                   : hash_file(&r, hash, err);
    if (r.fd >= 0)
        close(r.fd);
    EVP_MD_CTX_free(r.md);
    free(r.buffer);
    return ok;
}

/* Another one is left alone, whatever it is. */
static bool check_there(const kn_fetch *f, int dir_fd, uint64_t bytes, kn_fetch_result *ret, kn_error *err) {
    const kn_artifact *a = f->artifact;
    char hash[KN_SHA256_HEX] = "";
    ret->was_there = true;
    if (bytes != a->bytes) {
        kn_fail(err, KN_E_OUTPUT,
                "a file of that name is there, of %llu bytes instead of %llu; it is left as it is: move it away",
                (unsigned long long)bytes, (unsigned long long)a->bytes);
        return fail(ret, KN_FETCH_DIFFERS);
    }
    if (!hash_there(f, dir_fd, hash, err))
        return fail(ret, err->code == KN_E_CANCELLED ? KN_FETCH_STOPPED : KN_FETCH_INTERNAL);
    if (!strcmp(hash, a->sha256))
        return true;
    kn_fail(err, KN_E_OUTPUT,
            "a file of that name is there with the SHA-256 %s instead of %s; it is left as it is: move it away", hash,
            a->sha256);
    return fail(ret, KN_FETCH_DIFFERS);
}

/* ---- one that is not ---- */

/* What an earlier call has left, if it belongs to this file. */
static bool take_up(kn_download *d, kn_error *err) {
    KN_AUTO_BUF journal;
    kn_buf_init(&journal, KN_JOURNAL_BYTES);
    if (d->part->is_new)
        return true;
    if (!kn_partial_read_journal(d->part, &journal, err))
        return false;
    d->has_journal = kn_journal_read(journal.data, journal.len, d->order->artifact->sha256, d->pieces, d->etag);
    for (size_t i = 0; d->has_journal && i < d->pieces->count; i++)
        d->has_bytes |= d->pieces->state[i] == KN_PIECE_DONE || d->pieces->part[i];
    return true;
}

/* resumes: what is there may be used. */
static bool download(const kn_fetch *f, kn_partial *part, bool resumes, char hash[KN_SHA256_HEX], kn_fetch_result *ret,
                     kn_error *err) {
    const kn_artifact *a = f->artifact;
    kn_pieces pieces;
    kn_download d = { .order = f, .part = part, .pieces = &pieces, .err = err };
    if (!kn_pieces_new(a->bytes, KN_PIECE_BYTES, &pieces, err))
        return fail(ret, KN_FETCH_INTERNAL);
    bool begins = kn_origin_address(f->origin, a, &d.start, err) && (!resumes || take_up(&d, err)) &&
                  kn_keeper_new(part, &pieces, a->sha256, &d.keeper, err);
    bool ok = begins && kn_download_run(&d, hash);
    if (!begins)
        d.problem = KN_FETCH_INTERNAL;
    kn_keeper_free(d.keeper);
    kn_pieces_free(&pieces);
    free(d.start);
    free(d.found);
    if (begins && !ok && !d.has_bytes)
        kn_partial_discard(part); /* nothing has come that the next call could use */
    return ok || fail(ret, d.problem);
}

static bool activate(kn_partial *part, kn_fetch_result *ret, kn_error *err) {
    if (kn_partial_activate(part, err))
        return true;
    if (err->code != KN_E_FORMAT)
        return fail(ret, kn_fetch_problem_of(err->code));
    kn_partial_discard(part);
    return fail(ret, KN_FETCH_CORRUPT);
}

static bool fetch_and_check(const kn_fetch *f, kn_partial *part, kn_fetch_result *ret, kn_error *err) {
    const kn_artifact *a = f->artifact;
    char hash[KN_SHA256_HEX] = "";
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (!download(f, part, attempt == 0, hash, ret, err))
            return false;
        if (!strcmp(hash, a->sha256))
            return activate(part, ret, err);
    }
    kn_partial_discard(part);
    kn_fail(err, KN_E_FORMAT, "what came has the SHA-256 %s instead of %s, twice; nothing of it was kept", hash,
            a->sha256);
    return fail(ret, KN_FETCH_CORRUPT);
}

/* Takes over dir_fd. */
static bool fetch(const kn_fetch *f, int dir_fd, kn_fetch_result *ret, kn_error *err) {
    kn_partial part;
    if (!kn_partial_open(dir_fd, f->artifact->name, f->artifact->bytes, &part, err))
        return fail(ret, kn_fetch_problem_of(err->code));
    bool was_new = part.is_new;
    ret->emptied_bytes = part.emptied;
    bool ok = kn_partial_reserve(&part, err) || fail(ret, kn_fetch_problem_of(err->code));
    if (!ok && was_new)
        kn_partial_discard(&part);
    ok = ok && fetch_and_check(f, &part, ret, err);
    kn_partial_close(&part);
    return ok;
}

bool kn_fetch_run(const kn_fetch *f, kn_fetch_result *ret, kn_error *err) {
    uint64_t bytes;
    *ret = (kn_fetch_result){ .problem = KN_FETCH_FINE };
    int dir_fd = kn_partial_folder(f->directory, f->artifact->folder, err);
    if (dir_fd < 0)
        return fail(ret, kn_fetch_problem_of(err->code));
    bool is_there = kn_partial_size(dir_fd, f->artifact->name, &bytes);
    if (!is_there && !f->offline)
        return fetch(f, dir_fd, ret, err);
    bool ok = is_there && check_there(f, dir_fd, bytes, ret, err);
    close(dir_fd);
    if (!is_there) {
        kn_fail(err, KN_E_NOT_FOUND, "it is not there, and nothing is fetched offline");
        return fail(ret, KN_FETCH_OFFLINE);
    }
    return ok;
}

/* ---- without a network ---- */

bool kn_artifact_path(const kn_artifact *a, const char *directory, char **ret, kn_error *err) {
    if (asprintf(ret, "%s/%s/%s", directory, a->folder, a->name) >= 0)
        return true;
    *ret = NULL;
    return kn_fail_nomem(err, strlen(directory));
}

bool kn_artifact_is_there(const kn_artifact *a, const char *directory) {
    struct stat st;
    char *path;
    if (!kn_artifact_path(a, directory, &path, NULL))
        return false;
    bool is_there = stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == a->bytes;
    free(path);
    return is_there;
}

bool kn_artifact_space(const kn_artifact *a, const char *directory, uint64_t *ret_needed, uint64_t *ret_free,
                       kn_error *err) {
    int dir_fd = kn_partial_folder(directory, a->folder, err);
    if (dir_fd < 0)
        return false;
    bool ok = kn_partial_space(dir_fd, a->name, a->bytes, ret_needed, ret_free, err);
    close(dir_fd);
    if (ok && kn_artifact_is_there(a, directory))
        *ret_needed = 0;
    return ok;
}

bool kn_fetch_forget(const kn_artifact *a, const char *directory, kn_error *err) {
    int dir_fd = kn_partial_folder(directory, a->folder, err);
    if (dir_fd < 0)
        return false;
    bool ok = kn_partial_forget(dir_fd, a->name, err);
    close(dir_fd);
    return ok;
}
