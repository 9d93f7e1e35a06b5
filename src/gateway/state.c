#include "gateway/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

static const char marker_name[] = "upstream-in-flight", lock_name[] = "instance.lock", boot_name[] = "boot-id";

struct kn_state {
    char *path;
    int dir_fd, lock_fd;
    bool uncertain, cleared;
};

/* Both the kernel's file and ours; not by kn_file_read, since files in /proc have no size. */
static kn_boot_id read_boot_id(int dir_fd, const char *path) {
    kn_boot_id id = { "" };
    char text[sizeof id.text + 1];
    int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return id;
    ssize_t len = read(fd, text, sizeof text);
    close(fd);
    if (len == sizeof id.text && text[len - 1] == '\n' && kn_text_is_uuid(text, (size_t)len - 1))
        memcpy(id.text, text, (size_t)len - 1);
    return id;
}

kn_boot_id kn_boot_id_read(const char *path) {
    return read_boot_id(AT_FDCWD, path);
}

bool kn_state_make_folder(const char *path, kn_error *err) {
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len >= sizeof part)
        return kn_fail(err, KN_E_USAGE, "the path is longer than %d bytes", PATH_MAX - 1);
    for (size_t i = 1; i <= len; i++) {
        if (i < len && path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0700) && errno != EEXIST)
            return kn_fail(err, KN_E_OUTPUT, "cannot be made: %s", strerror(errno));
    }
    return true;
}

static bool open_folder(kn_state *s, kn_error *err) {
    struct stat st;
    s->dir_fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir_fd < 0 || fstat(s->dir_fd, &st))
        return kn_fail(err, KN_E_OUTPUT, "cannot be opened: %s", strerror(errno));
    if (st.st_uid != geteuid())
        return kn_fail(err, KN_E_USAGE, "belongs to another user; give each user a state_dir of their own");
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return kn_fail(err, KN_E_USAGE, "its mode %04o lets others write; set it to 0700", st.st_mode & 07777);
    return true;
}

static bool lock(kn_state *s, kn_error *err) {
    s->lock_fd = openat(s->dir_fd, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0)
        return kn_fail(err, KN_E_OUTPUT, "'%s' cannot be written: %s", lock_name, strerror(errno));
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    return errno == EWOULDBLOCK
               ? kn_fail(err, KN_E_USAGE, "is in use by another kuno; stop it, or give this one another state_dir")
               : kn_fail(err, KN_E_IO, "'%s' cannot be locked: %s", lock_name, strerror(errno));
}

/* Durable before any marker is: else a crash would leave this boot's marker beside another boot's name. */
static bool write_boot_id(kn_state *s, const kn_boot_id *before, const kn_boot_id *boot, kn_error *err) {
    if (!boot->text[0] || strcmp(before->text, boot->text) == 0)
        return true;
    char path[PATH_MAX], line[sizeof boot->text + 1];
    int len = snprintf(line, sizeof line, "%s\n", boot->text);
    kn_output o;
    if (snprintf(path, sizeof path, "%s/%s", s->path, boot_name) >= (int)sizeof path)
        return kn_fail(err, KN_E_USAGE, "the path is longer than %d bytes", PATH_MAX - 1);
    bool ok = kn_output_open(path, true, &o, err);
    if (ok) {
        ok = kn_output_write(&o, line, (size_t)len, err) && kn_output_commit(&o, true, err);
        kn_output_drop(&o);
    }
    return ok || kn_fail_within(err, "'%s'", boot_name);
}

/* Whether a marker is there, and whether it stays. Only an empty one, beside the name of another boot, proves that what
 * it stands for is over; anything else is a person's to judge. */
static bool look_for_marker(kn_state *s, const kn_boot_id *before, const kn_boot_id *boot, kn_error *err) {
    struct stat st;
    if (fstatat(s->dir_fd, marker_name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT || kn_fail(err, KN_E_IO, "'%s' cannot be looked at: %s", marker_name, strerror(errno));
    bool rebooted = before->text[0] && boot->text[0] && strcmp(before->text, boot->text) != 0;
    if (!rebooted || !S_ISREG(st.st_mode) || st.st_size) {
        s->uncertain = true;
        return true;
    }
    s->cleared = true;
    return kn_state_clear(s, err);
}

static bool compare_boots(kn_state *s, const kn_boot_id *boot, kn_error *err) {
    const kn_boot_id before = read_boot_id(s->dir_fd, boot_name);
    return look_for_marker(s, &before, boot, err) && (s->uncertain || write_boot_id(s, &before, boot, err));
}

bool kn_state_open(const char *path, kn_boot_id boot, kn_state **ret, kn_error *err) {
    kn_state *s = malloc(sizeof *s);
    if (!s)
        return kn_fail_nomem(err, sizeof *s);
    *s = (kn_state){ .path = strdup(path), .dir_fd = -1, .lock_fd = -1 };
    bool ok = s->path || kn_fail_nomem(err, strlen(path));
    ok = ok && kn_state_make_folder(path, err) && open_folder(s, err) && lock(s, err) && compare_boots(s, &boot, err);
    if (!ok) {
        kn_state_close(s);
        return kn_fail_within(err, "state_dir '%s'", kn_quote_path(path).text);
    }
    *ret = s;
    return true;
}

void kn_state_close(kn_state *s) {
    if (!s)
        return;
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    if (s->dir_fd >= 0)
        close(s->dir_fd);
    free(s->path);
    free(s);
}

bool kn_state_is_uncertain(const kn_state *s) {
    return s->uncertain;
}

bool kn_state_was_cleared(const kn_state *s) {
    return s->cleared;
}

bool kn_state_mark(kn_state *s, kn_error *err) {
    int fd = openat(s->dir_fd, marker_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return kn_fail(err, KN_E_OUTPUT, "'%s' cannot be written: %s", marker_name, strerror(errno));
    bool durable = fsync(fd) == 0;
    close(fd);
    if (durable && fsync(s->dir_fd) == 0)
        return true;
    kn_fail(err, KN_E_OUTPUT, "'%s' cannot be made durable: %s", marker_name, strerror(errno));
    unlinkat(s->dir_fd, marker_name, 0); /* nothing was sent on the strength of it */
    return false;
}

bool kn_state_clear(kn_state *s, kn_error *err) {
    return (unlinkat(s->dir_fd, marker_name, 0) == 0 && fsync(s->dir_fd) == 0) ||
           kn_fail(err, KN_E_OUTPUT, "'%s' cannot be removed: %s", marker_name, strerror(errno));
}
