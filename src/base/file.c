#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static void close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
}
#define AUTO_FD KN_CLEANUP(close_fd) int

/* Opens a regular file for reading and says its size. Never blocks on a pipe or device. */
static int open_regular(const char *path, size_t *size, kn_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        bool ours = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EIO;
        kn_fail(err, ours ? KN_E_IO : KN_E_NOT_FOUND, errno == ENOENT ? "no such file" : "cannot be opened: %s",
                strerror(errno));
        return -1;
    }
    struct stat st;
    if (fstat(fd, &st)) {
        kn_fail(err, KN_E_IO, "%s", strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        kn_fail(err, KN_E_FORMAT, "is a folder, a file is needed");
    } else if (!S_ISREG(st.st_mode)) {
        kn_fail(err, KN_E_FORMAT, "is not a regular file");
    } else {
        *size = (size_t)st.st_size;
        return fd;
    }
    close(fd);
    return -1;
}

bool kn_map_open(const char *path, kn_map *ret, kn_error *err) {
    size_t len = 0;
    AUTO_FD fd = open_regular(path, &len, err);
    if (fd < 0)
        return false;
    void *data = NULL;
    if (len > 0) {
        data = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED)
            return kn_fail(err, KN_E_IO, "cannot be mapped: %s", strerror(errno));
    }
    *ret = (kn_map){ .data = data, .len = len };
    return true;
}

void kn_map_close(kn_map *m) {
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->len);
    *m = (kn_map){ 0 };
}

bool kn_file_read(const char *path, size_t limit, kn_buf *into, kn_error *err) {
    size_t len = 0;
    AUTO_FD fd = open_regular(path, &len, err);
    if (fd < 0)
        return false;
    if (len > limit)
        return kn_fail(err, KN_E_RANGE, "has %zu bytes, at most %zu are allowed", len, limit);
    if (!kn_buf_reserve(into, len))
        return kn_fail_nomem(err, len);
    while (len > 0) {
        char piece[1 << 16];
        ssize_t n = read(fd, piece, KN_MIN(len, sizeof piece));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kn_fail(err, KN_E_IO, "cannot be read: %s", strerror(errno));
        if (n == 0)
            return kn_fail(err, KN_E_TRUNCATED, "became shorter while it was read");
        if (!kn_buf_add(into, piece, (size_t)n))
            return kn_fail_nomem(err, (size_t)n);
        len -= (size_t)n;
    }
    return true;
}

/* Splits a path into an open folder and a name in it. */
static int open_folder_of(const char *path, const char **name, kn_error *err) {
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (!**name) {
        kn_fail(err, KN_E_OUTPUT, "has no file name at its end");
        return -1;
    }
    char *folder = slash ? strndup(path, (size_t)KN_MAX(slash - path, 1)) : strdup(".");
    if (!folder) {
        kn_fail_nomem(err, strlen(path));
        return -1;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        kn_fail(err, KN_E_OUTPUT, "its folder does not exist; make it first");
    else if (fd < 0)
        kn_fail(err, KN_E_OUTPUT, "its folder cannot be opened: %s", strerror(errno));
    free(folder);
    return fd;
}

static const char exists[] = "exists already; choose another name or allow it to be replaced";

bool kn_output_open(const char *path, bool clobber, kn_output *ret, kn_error *err) {
    const char *name = NULL;
    kn_output o = { .dir_fd = open_folder_of(path, &name, err), .fd = -1 };
    if (o.dir_fd < 0)
        return false;
    struct stat st;
    bool there = fstatat(o.dir_fd, name, &st, 0) == 0;
    if (there && S_ISDIR(st.st_mode))
        kn_fail(err, KN_E_OUTPUT, "is a folder, a file name is needed");
    else if (there && !S_ISREG(st.st_mode))
        kn_fail(err, KN_E_OUTPUT, "is not a regular file");
    else if (there && !clobber)
        kn_fail(err, KN_E_OUTPUT, "%s", exists);
    else if (strlen(name) > NAME_MAX)
        kn_fail(err, KN_E_OUTPUT, "file name too long: %zu bytes, at most %d are allowed", strlen(name), NAME_MAX);
    else if (!(o.name = strdup(name)))
        kn_fail_nomem(err, strlen(name));
    if (!o.name) {
        close(o.dir_fd);
        return false;
    }
    for (int tries = 0; tries < 8 && o.fd < 0; tries++) {
        uint64_t unique = 0;
        if (getrandom(&unique, sizeof unique, 0) != sizeof unique)
            break;
        snprintf(o.temp, sizeof o.temp, ".kuno-%016llx.part", (unsigned long long)unique);
        o.fd = openat(o.dir_fd, o.temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (o.fd < 0 && errno != EEXIST)
            break;
    }
    if (o.fd < 0) {
        kn_fail(err, KN_E_OUTPUT, "cannot be written: %s", strerror(errno));
        kn_output_drop(&o);
        return false;
    }
    *ret = o;
    return true;
}

bool kn_output_write(kn_output *o, const void *data, size_t len, kn_error *err) {
    for (const char *p = data; len > 0;) {
        ssize_t n = write(o->fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kn_fail(err, KN_E_OUTPUT, "cannot be written: %s", strerror(errno));
        p += n;
        len -= (size_t)n;
    }
    return true;
}

bool kn_output_commit(kn_output *o, bool clobber, kn_error *err) {
    if (!o->name)
        return true;
    bool ok = fsync(o->fd) == 0 || errno == EINVAL || errno == EROFS;
    if (!ok)
        kn_fail(err, KN_E_OUTPUT, "cannot be written: %s", strerror(errno));
    if (ok && !clobber) {
        /* link, not rename: it fails when somebody else made the name meanwhile. */
        ok = linkat(o->dir_fd, o->temp, o->dir_fd, o->name, 0) == 0;
        if (!ok)
            kn_fail(err, KN_E_OUTPUT, errno == EEXIST ? "%s" : "cannot be named: %s",
                    errno == EEXIST ? exists : strerror(errno));
    } else if (ok) {
        ok = renameat(o->dir_fd, o->temp, o->dir_fd, o->name) == 0;
        if (!ok)
            kn_fail(err, KN_E_OUTPUT, "cannot be named: %s", strerror(errno));
        else
            o->temp[0] = 0;
    }
    if (ok)
        fsync(o->dir_fd);
    kn_output_drop(o);
    return ok;
}

void kn_output_drop(kn_output *o) {
    if (!o->name)
        return;
    if (o->temp[0] && o->fd >= 0)
        unlinkat(o->dir_fd, o->temp, 0);
    if (o->fd >= 0)
        close(o->fd);
    close(o->dir_fd);
    free(o->name);
    *o = (kn_output){ .dir_fd = -1, .fd = -1 };
}
