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

static kn_edition edition_in(const struct stat *st) {
    return (kn_edition){ st->st_dev, st->st_ino, st->st_size, st->st_ctim };
}

kn_edition kn_edition_of(const char *path) {
    struct stat st;
    return path && stat(path, &st) == 0 ? edition_in(&st) : (kn_edition){ 0 };
}

bool kn_edition_is(const kn_edition *a, const kn_edition *b) {
    return a->device == b->device && a->file == b->file && a->bytes == b->bytes &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Opens a regular file for reading and says which it is. Never blocks on a pipe or device. follow: 0, or O_NOFOLLOW. */
static int open_regular(const char *path, int follow, kn_edition *ret, kn_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | follow);
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
        *ret = edition_in(&st);
        return fd;
    }
    close(fd);
    return -1;
}

bool kn_map_open(const char *path, kn_map *ret, kn_error *err) {
    kn_edition edition;
    AUTO_FD fd = open_regular(path, 0, &edition, err);
    if (fd < 0)
        return false;
    size_t len = (size_t)edition.bytes;
    void *data = NULL;
    if (len > 0) {
        data = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED)
            return kn_fail(err, KN_E_IO, "cannot be mapped: %s", strerror(errno));
    }
    *ret = (kn_map){ .data = data, .len = len, .edition = edition };
    return true;
}

void kn_map_close(kn_map *m) {
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->len);
    *m = (kn_map){ 0 };
}

static bool read_file(const char *path, int follow, size_t limit, kn_buf *into, kn_error *err) {
    kn_edition edition;
    AUTO_FD fd = open_regular(path, follow, &edition, err);
    if (fd < 0)
        return false;
    size_t len = (size_t)edition.bytes;
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

bool kn_file_read(const char *path, size_t limit, kn_buf *into, kn_error *err) {
    return read_file(path, 0, limit, into, err);
}

bool kn_file_read_no_link(const char *path, size_t limit, kn_buf *into, kn_error *err) {
    return read_file(path, O_NOFOLLOW, limit, into, err);
}

bool kn_path_is_within(const char *path, const char *folder) {
    size_t len = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(path, folder, len) == 0 && (!path[len] || path[len] == '/');
}

kn_code kn_code_of_write(int error, kn_code other) {
    switch (error) {
    case ENOSPC:
    case EDQUOT: return KN_E_FULL;
    case EROFS:
    case EACCES:
    case EPERM: return KN_E_READONLY;
    default: return other;
    }
}

/* By errno. */
static bool fail_writing(kn_error *err, const char *what) {
    int error = errno;
    return kn_fail(err, kn_code_of_write(error, KN_E_OUTPUT), "%s: %s", what, strerror(error));
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
        fail_writing(err, "its folder cannot be opened");
    free(folder);
    return fd;
}

static const char exists[] = "exists already; choose another name or allow it to be replaced";

/* How /proc calls a file that has no name: linkat accepts that. */
typedef struct fd_path {
    char text[32];
} fd_path;

static fd_path path_of_fd(int fd) {
    fd_path p;
    snprintf(p.text, sizeof p.text, "/proc/self/fd/%d", fd);
    return p;
}

/* Opens a file without a name, if this folder can have one and it can be given a name later. */
static bool open_nameless(kn_output *o) {
    o->fd = openat(o->dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (o->fd >= 0 && access(path_of_fd(o->fd).text, F_OK) != 0) {
        close(o->fd);
        o->fd = -1;
    }
    return o->fd >= 0;
}

static bool open_temp(kn_output *o) {
    o->fd = openat(o->dir_fd, o->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    return o->fd >= 0;
}

static bool link_nameless(const kn_output *o, const char *name) {
    return linkat(AT_FDCWD, path_of_fd(o->fd).text, o->dir_fd, name, AT_SYMLINK_FOLLOW) == 0;
}

static bool link_temp(kn_output *o) {
    return link_nameless(o, o->temp);
}

static const char temp_start[] = ".kuno-", temp_end[] = ".part";
enum { TEMP_DIGITS = 16 };

bool kn_output_is_unfinished(const char *name) {
    size_t start = strlen(temp_start), digits = start + TEMP_DIGITS;
    return strlen(name) == digits + strlen(temp_end) && strncmp(name, temp_start, start) == 0 &&
           strcmp(name + digits, temp_end) == 0;
}

/* Makes something under a temporary name that nobody else has; errno tells why not. */
static bool make_temp(kn_output *o, bool (*make)(kn_output *o)) {
    for (int tries = 0; tries < 8; tries++) {
        uint64_t unique = 0;
        if (getrandom(&unique, sizeof unique, 0) != sizeof unique)
            break;
        snprintf(o->temp, sizeof o->temp, "%s%0*llx%s", temp_start, TEMP_DIGITS, (unsigned long long)unique, temp_end);
        if (make(o))
            return true;
        if (errno != EEXIST)
            break;
    }
    o->temp[0] = 0;
    return false;
}

/* Gives the complete file its name. link, not rename: it fails when somebody else made the name meanwhile. */
static bool name_new(const kn_output *o) {
    return o->temp[0] ? linkat(o->dir_fd, o->temp, o->dir_fd, o->name, 0) == 0 : link_nameless(o, o->name);
}

/* The same where the name may be taken. Only a file with a name can replace another one. */
static bool name_over(kn_output *o) {
    if (!o->temp[0]) {
        if (name_new(o))
            return true;
        if (errno != EEXIST || !make_temp(o, link_temp))
            return false;
    }
    if (renameat(o->dir_fd, o->temp, o->dir_fd, o->name))
        return false;
    o->temp[0] = 0;
    return true;
}

static bool is_free(int dir_fd, const char *name, bool clobber, kn_error *err) {
    struct stat st;
    bool there = fstatat(dir_fd, name, &st, 0) == 0;
    if (there && S_ISDIR(st.st_mode))
        return kn_fail(err, KN_E_OUTPUT, "is a folder, a file name is needed");
    if (there && !S_ISREG(st.st_mode))
        return kn_fail(err, KN_E_OUTPUT, "is not a regular file");
    if (there && !clobber)
        return kn_fail(err, KN_E_OUTPUT, "%s", exists);
    return strlen(name) <= NAME_MAX ||
           kn_fail(err, KN_E_OUTPUT, "file name too long: %zu bytes, at most %d are allowed", strlen(name), NAME_MAX);
}

bool kn_output_look(const char *path, bool clobber, kn_error *err) {
    const char *name = NULL;
    int dir_fd = open_folder_of(path, &name, err);
    if (dir_fd < 0)
        return false;
    bool ok = is_free(dir_fd, name, clobber, err);
    close(dir_fd);
    return ok;
}

bool kn_output_open(const char *path, bool clobber, kn_output *ret, kn_error *err) {
    const char *name = NULL;
    kn_output o = { .dir_fd = open_folder_of(path, &name, err), .fd = -1 };
    if (o.dir_fd < 0)
        return false;
    if (is_free(o.dir_fd, name, clobber, err) && !(o.name = strdup(name)))
        kn_fail_nomem(err, strlen(name));
    if (!o.name) {
        close(o.dir_fd);
        return false;
    }
    if (!open_nameless(&o) && !make_temp(&o, open_temp)) {
        fail_writing(err, "cannot be written");
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
            return fail_writing(err, "cannot be written");
        p += n;
        len -= (size_t)n;
    }
    return true;
}

bool kn_output_commit(kn_output *o, bool clobber, kn_error *err) {
    if (!o->name)
        return true;
    bool synced = fsync(o->fd) == 0 || errno == EINVAL || errno == EROFS;
    bool ok = synced && (clobber ? name_over(o) : name_new(o));
    if (!ok && synced && errno == EEXIST)
        kn_fail(err, KN_E_OUTPUT, "%s", exists);
    else if (!ok)
        fail_writing(err, synced ? "cannot be named" : "cannot be written");
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
