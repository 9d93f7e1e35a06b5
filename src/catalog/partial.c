#include "catalog/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

enum { PUBLIC_MODE = 0644, BLOCK_BYTES = 512 /* of st_blocks */ };

static bool fail_errno(kn_error *err, const char *what) {
    int error = errno;
    /* EFBIG: the file system has no room for any file of that size */
    kn_code code = kn_code_of_write(error, error == EFBIG ? KN_E_FULL : KN_E_IO);
    return kn_fail(err, code, "%s: %s", what, strerror(error));
}

int kn_partial_folder(const char *root, const char *folder, kn_error *err) {
    if (mkdir(root, 0777) && errno != EEXIST) {
        fail_errno(err, "the folder of models cannot be made");
        return -1;
    }
    int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = -1;
    if (root_fd < 0)
        fail_errno(err, "the folder of models cannot be opened");
    else if (mkdirat(root_fd, folder, 0777) && errno != EEXIST)
        fail_errno(err, "a folder for models cannot be made");
    else if ((fd = openat(root_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        fail_errno(err, "a folder for models cannot be opened");
    else
        fsync(root_fd); /* a new folder is there after the power has failed; file systems that cannot, cannot */
    if (root_fd >= 0)
        close(root_fd);
    return fd;
}

bool kn_partial_size(int dir_fd, const char *name, uint64_t *ret) {
    struct stat st;
    if (fstatat(dir_fd, name, &st, 0) || !S_ISREG(st.st_mode))
        return false;
    *ret = (uint64_t)st.st_size;
    return true;
}

/* ---- opening ---- */

static bool make_names(kn_partial *p, const char *name, kn_error *err) {
    p->name = strdup(name);
    if (asprintf(&p->part, "%s.part", name) < 0)
        p->part = NULL;
    if (asprintf(&p->journal, "%s.part.journal", name) < 0)
        p->journal = NULL;
    return (p->name && p->part && p->journal) || kn_fail_nomem(err, strlen(name));
}

static int open_private(const kn_partial *p, const char *name) {
    return openat(p->dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* The lock holds the file, not the name: whoever had it before may have given the file its final name. */
static bool is_still_named(const kn_partial *p, const struct stat *st) {
    struct stat now;
    return fstatat(p->dir_fd, p->part, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == st->st_ino &&
           now.st_dev == st->st_dev;
}

/* What is written would be in a file of somebody else, too. */
static bool has_one_name(const struct stat *st, const char *name, kn_error *err) {
    return st->st_nlink <= 1 || kn_fail(err, KN_E_OUTPUT, "'%s' is a file that has another name, too; remove this one",
                                        kn_quote_path(name).text);
}

static bool open_locked(kn_partial *p, kn_error *err) {
    struct stat st;
    p->fd = open_private(p, p->part);
    if (p->fd < 0 || fstat(p->fd, &st))
        return fail_errno(err, "the unfinished file cannot be opened");
    if (!S_ISREG(st.st_mode))
        return kn_fail(err, KN_E_OUTPUT, "'%s' is no regular file", kn_quote_path(p->part).text);
    if (!has_one_name(&st, p->part, err))
        return false;
    if (flock(p->fd, LOCK_EX | LOCK_NB) || !is_still_named(p, &st))
        return kn_fail(err, KN_E_USAGE, "another process is downloading it; wait for that one, or stop it");
    p->is_new = (uint64_t)st.st_size != p->bytes;
    p->emptied = p->is_new ? (uint64_t)st.st_size : 0;
    return true;
}

bool kn_partial_open(int dir_fd, const char *name, uint64_t bytes, kn_partial *ret, kn_error *err) {
    kn_partial p = { .dir_fd = dir_fd, .fd = -1, .journal_fd = -1, .bytes = bytes };
    struct stat st;
    bool ok = make_names(&p, name, err) && open_locked(&p, err);
    if (ok && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (p.is_new)
            unlinkat(dir_fd, p.part, 0);
        ok = kn_fail(err, KN_E_OUTPUT, "there is a file of that name");
    }
    /* A journal without its file tells of nothing, and must be gone before a new file is there. */
    if (ok && p.is_new && ((unlinkat(dir_fd, p.journal, 0) && errno != ENOENT) || fsync(dir_fd)))
        ok = fail_errno(err, "the journal of an earlier download cannot be removed");
    if (ok && p.is_new && ftruncate(p.fd, 0))
        ok = fail_errno(err, "what an earlier download left cannot be removed");
    if (ok && ((p.journal_fd = open_private(&p, p.journal)) < 0 || fstat(p.journal_fd, &st)))
        ok = fail_errno(err, "the journal cannot be opened");
    ok = ok && has_one_name(&st, p.journal, err);
    if (!ok) {
        kn_partial_close(&p);
        return false;
    }
    *ret = p;
    return true;
}

void kn_partial_close(kn_partial *p) {
    if (p->fd >= 0)
        close(p->fd);
    if (p->journal_fd >= 0)
        close(p->journal_fd);
    if (p->dir_fd >= 0)
        close(p->dir_fd);
    free(p->name);
    free(p->part);
    free(p->journal);
    *p = (kn_partial){ .dir_fd = -1, .fd = -1, .journal_fd = -1 };
}

/* ---- space ---- */

bool kn_partial_space(int dir_fd, const char *name, uint64_t bytes, uint64_t *ret_needed, uint64_t *ret_free,
                      kn_error *err) {
    struct stat st;
    struct statvfs fs;
    kn_partial p = { .dir_fd = -1, .fd = -1, .journal_fd = -1 };
    bool ok = make_names(&p, name, err);
    if (ok && fstatvfs(dir_fd, &fs))
        ok = fail_errno(err, "the free space cannot be told");
    if (ok) {
        bool begun = fstatat(dir_fd, p.part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
        uint64_t there = begun ? (uint64_t)st.st_blocks * BLOCK_BYTES : 0;
        *ret_needed = bytes - KN_MIN(there, bytes);
        *ret_free = (uint64_t)fs.f_bavail * fs.f_frsize;
    }
    kn_partial_close(&p);
    return ok;
}

bool kn_partial_reserve(kn_partial *p, kn_error *err) {
    uint64_t needed, free_bytes;
    if (!kn_partial_space(p->dir_fd, p->name, p->bytes, &needed, &free_bytes, err))
        return false;
    if (needed > free_bytes)
        return kn_fail(err, KN_E_FULL, "needs %s more on the disk, %s are free", kn_bytes(needed).text,
                       kn_bytes(free_bytes).text);
    /* Not every file system can promise space; there it shows while writing. The promise alone never shortens a file.
     */
    bool ok = fallocate(p->fd, 0, 0, (off_t)p->bytes) == 0 || errno == EOPNOTSUPP || errno == ENOSYS;
    ok = ok && ftruncate(p->fd, (off_t)p->bytes) == 0;
    return ok || fail_errno(err, "the space for it cannot be had");
}

/* ---- bytes ---- */

bool kn_partial_write(const kn_partial *p, uint64_t at, const void *data, size_t len, kn_error *err) {
    for (const char *from = data; len > 0;) {
        ssize_t n = pwrite(p->fd, from, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(err, "it cannot be written");
        from += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return true;
}

bool kn_partial_read(const kn_partial *p, uint64_t at, void *into, size_t len, kn_error *err) {
    for (char *to = into; len > 0;) {
        ssize_t n = pread(p->fd, to, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? fail_errno(err, "it cannot be read back")
                         : kn_fail(err, KN_E_TRUNCATED, "it became shorter while it was written");
        to += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return true;
}

/* Some file systems, in memory for example, have nothing to sync. */
static bool sync_fd(int fd, kn_error *err) {
    return fsync(fd) == 0 || errno == EINVAL || errno == ENOSYS || fail_errno(err, "it cannot be written to the disk");
}

bool kn_partial_sync(const kn_partial *p, kn_error *err) {
    return sync_fd(p->fd, err);
}

/* What does not work now, kn_partial_sync tells. */
void kn_partial_begin_sync(const kn_partial *p, uint64_t at, uint64_t len) {
    sync_file_range(p->fd, (off_t)at, (off_t)len, SYNC_FILE_RANGE_WRITE);
}

/* ---- the journal ---- */

bool kn_partial_read_journal(const kn_partial *p, kn_buf *into, kn_error *err) {
    struct stat st;
    if (fstat(p->journal_fd, &st))
        return fail_errno(err, "the journal cannot be read");
    if (st.st_size < 0 || (uint64_t)st.st_size > into->limit || !kn_buf_reserve(into, (size_t)st.st_size))
        return kn_fail(err, KN_E_RANGE, "the journal is too long");
    while (into->len < (size_t)st.st_size) {
        ssize_t n = pread(p->journal_fd, into->data + into->len, (size_t)st.st_size - into->len, (off_t)into->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 || fail_errno(err, "the journal cannot be read");
        into->len += (size_t)n;
        into->data[into->len] = 0;
    }
    return true;
}

bool kn_partial_write_journal(const kn_partial *p, bool anew, const kn_buf *text, kn_error *err) {
    off_t at = anew ? 0 : lseek(p->journal_fd, 0, SEEK_END);
    if (at < 0 || (anew && (ftruncate(p->journal_fd, 0) || fsync(p->dir_fd))))
        return fail_errno(err, "the journal cannot be written");
    for (size_t done = 0; done < text->len;) {
        ssize_t n = pwrite(p->journal_fd, text->data + done, text->len - done, at + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(err, "the journal cannot be written");
        done += (size_t)n;
    }
    return sync_fd(p->journal_fd, err);
}

/* ---- the end ---- */

/* A rename that replaces nothing; where the file system has no such, a link and its old name removed. */
static bool give_name(const kn_partial *p) {
    if (renameat2(p->dir_fd, p->part, p->dir_fd, p->name, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    return linkat(p->dir_fd, p->part, p->dir_fd, p->name, 0) == 0 && unlinkat(p->dir_fd, p->part, 0) == 0;
}

/* The bytes from 0 to p->bytes have been hashed; whoever else wrote meanwhile may have changed what is around them. */
static bool is_what_was_hashed(const kn_partial *p, kn_error *err) {
    struct stat st;
    if (fstat(p->fd, &st))
        return fail_errno(err, "it cannot be looked at");
    if (!S_ISREG(st.st_mode) || !is_still_named(p, &st))
        return kn_fail(err, KN_E_FORMAT, "another program has put something else in place of '%s'",
                       kn_quote_path(p->part).text);
    return (uint64_t)st.st_size == p->bytes ||
           kn_fail(err, KN_E_FORMAT, "another program has written to '%s': it has %llu bytes instead of %llu",
                   kn_quote_path(p->part).text, (unsigned long long)st.st_size, (unsigned long long)p->bytes);
}

bool kn_partial_activate(kn_partial *p, kn_error *err) {
    if (!is_what_was_hashed(p, err))
        return false;
    if (fchmod(p->fd, PUBLIC_MODE) || !sync_fd(p->fd, err))
        return fail_errno(err, "it cannot be completed");
    if (!give_name(p))
        return errno == EEXIST ? kn_fail(err, KN_E_OUTPUT, "somebody else made a file of that name meanwhile")
                               : fail_errno(err, "it cannot be named");
    if (!sync_fd(p->dir_fd, err))
        return false;
    unlinkat(p->dir_fd, p->journal, 0);
    return true;
}

void kn_partial_discard(kn_partial *p) {
    unlinkat(p->dir_fd, p->journal, 0);
    unlinkat(p->dir_fd, p->part, 0);
}

bool kn_partial_forget(int dir_fd, const char *name, kn_error *err) {
    kn_partial p = { .dir_fd = dup(dir_fd), .fd = -1, .journal_fd = -1 };
    bool ok = p.dir_fd >= 0 || fail_errno(err, "a folder cannot be opened");
    ok = ok && make_names(&p, name, err);
    if (ok && (p.fd = openat(dir_fd, p.part, O_RDWR | O_CLOEXEC | O_NOFOLLOW)) >= 0)
        ok = flock(p.fd, LOCK_EX | LOCK_NB) == 0 || kn_fail(err, KN_E_USAGE, "another process is downloading it");
    if (ok)
        kn_partial_discard(&p);
    kn_partial_close(&p);
    return ok;
}
