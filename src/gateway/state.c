#include "gateway/state.h"

#include <dirent.h>
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
#include "gateway/trouble.h"

static const char marker_name[] = "upstream-in-flight", lock_name[] = "instance.lock", boot_name[] = "boot-id",
                  reserved_start[] = "reserved-";

enum { NAME_BYTES = 128, RESERVED_MAX = 64 };

struct kn_state {
    char *path;
    int dir_fd, lock_fd;
    bool looks; /* it is only looked at: nothing may change */
    bool uncertain, cleared;
    kn_trouble trouble;
    size_t reserved_count; /* of those found at the start */
    char reserved[RESERVED_MAX][NAME_BYTES];
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

bool kn_state_folder_is_own(const struct stat *st, kn_error *err) {
    struct stat top;
    if (stat("/", &top) == 0 && top.st_dev == st->st_dev && top.st_ino == st->st_ino)
        return kn_fail(err, KN_E_USAGE, "is the root of all folders; a folder of its own is needed");
    if (st->st_uid != geteuid())
        return kn_fail(err, KN_E_USAGE, "belongs to another user; give each user a folder of their own");
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return kn_fail(err, KN_E_USAGE, "its mode %04o lets others write; set it to 0700", st->st_mode & 07777);
    return true;
}

static bool open_folder(kn_state *s, kn_error *err) {
    struct stat st;
    s->dir_fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir_fd < 0 || fstat(s->dir_fd, &st))
        return kn_fail(err, KN_E_OUTPUT, "cannot be opened: %s", strerror(errno));
    return kn_state_folder_is_own(&st, err);
}

static bool open_lock(kn_state *s, int flags, kn_error *err) {
    s->lock_fd = openat(s->dir_fd, lock_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    return s->lock_fd >= 0 || kn_fail(err, KN_E_OUTPUT, "'%s' cannot be written: %s", lock_name, strerror(errno));
}

static bool lock(kn_state *s, kn_error *err) {
    if (!open_lock(s, O_CREAT, err))
        return false;
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    return errno == EWOULDBLOCK
               ? kn_fail(err, KN_E_USAGE, "is in use by another kuno; stop it, or give this one another state_dir")
               : kn_fail(err, KN_E_IO, "'%s' cannot be locked: %s", lock_name, strerror(errno));
}

static bool make_marker(kn_state *s, const char *name, kn_error *err) {
    int fd = openat(s->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return kn_fail(err, KN_E_OUTPUT, "'%s' cannot be written: %s", name, strerror(errno));
    bool durable = fsync(fd) == 0;
    close(fd);
    if (durable && fsync(s->dir_fd) == 0)
        return true;
    kn_fail(err, KN_E_OUTPUT, "'%s' cannot be made durable: %s", name, strerror(errno));
    unlinkat(s->dir_fd, name, 0); /* nothing was sent on the strength of it */
    return false;
}

static bool remove_marker(kn_state *s, const char *name, kn_error *err) {
    return (unlinkat(s->dir_fd, name, 0) == 0 && fsync(s->dir_fd) == 0) ||
           kn_fail(err, KN_E_OUTPUT, "'%s' cannot be removed: %s", name, strerror(errno));
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
    bool ok = s->looks ? kn_output_look(path, true, err) : kn_output_open(path, true, &o, err);
    if (ok && !s->looks) {
        ok = kn_output_write(&o, line, (size_t)len, err) && kn_output_commit(&o, true, err);
        kn_output_drop(&o);
    }
    return ok || kn_fail_within(err, "'%s'", boot_name);
}

/* Only an empty marker, beside the name of another boot, proves that what it stands for is over; anything else is a
 * person's to judge. */
static bool look_at_marker(kn_state *s, const char *name, bool rebooted, kn_error *err) {
    struct stat st;
    if (fstatat(s->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT || kn_fail(err, KN_E_IO, "'%s' cannot be looked at: %s", name, strerror(errno));
    if (!rebooted || !S_ISREG(st.st_mode) || st.st_size) {
        s->uncertain = true;
        if (s->reserved_count < RESERVED_MAX && strlen(name) < NAME_BYTES)
            memcpy(s->reserved[s->reserved_count++], name, strlen(name) + 1);
        return true;
    }
    s->cleared = true;
    return s->looks || remove_marker(s, name, err);
}

static bool look_for_reservations(kn_state *s, bool rebooted, kn_error *err) {
    DIR *folder = opendir(s->path);
    if (!folder)
        return kn_fail(err, KN_E_IO, "cannot be read: %s", strerror(errno));
    bool ok = true;
    for (const struct dirent *e; ok && (e = readdir(folder));)
        if (strncmp(e->d_name, reserved_start, sizeof reserved_start - 1) == 0)
            ok = look_at_marker(s, e->d_name, rebooted, err);
    closedir(folder);
    return ok;
}

static bool compare_boots(kn_state *s, const kn_boot_id *boot, kn_error *err) {
    const kn_boot_id before = read_boot_id(s->dir_fd, boot_name);
    bool rebooted = before.text[0] && boot->text[0] && strcmp(before.text, boot->text) != 0;
    return look_at_marker(s, marker_name, rebooted, err) && look_for_reservations(s, rebooted, err) &&
           (s->uncertain || write_boot_id(s, &before, boot, err));
}

static kn_state *new_state(const char *path, kn_error *err) {
    kn_state *s = malloc(sizeof *s);
    if (s)
        *s = (kn_state){
            .path = strdup(path), .dir_fd = -1, .lock_fd = -1, .trouble.what = "the marker in the state directory"
        };
    if (s && s->path)
        return s;
    free(s);
    kn_fail_nomem(err, sizeof *s + strlen(path));
    return NULL;
}

bool kn_state_open(const char *path, kn_boot_id boot, kn_state **ret, kn_error *err) {
    kn_state *s = new_state(path, err);
    bool ok =
        s && kn_state_make_folder(path, err) && open_folder(s, err) && lock(s, err) && compare_boots(s, &boot, err);
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

/* Without a file there is nobody who has locked it. */
static bool look_at_lock(kn_state *s, bool *ret_in_use, kn_error *err) {
    if (faccessat(s->dir_fd, lock_name, F_OK, AT_SYMLINK_NOFOLLOW))
        return true;
    if (!open_lock(s, 0, err))
        return false;
    *ret_in_use = flock(s->lock_fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    return true;
}

bool kn_state_look(const char *path, kn_boot_id boot, kn_state_sight *ret, kn_error *err) {
    kn_state_sight sight = { 0 };
    kn_state *s = new_state(path, err);
    if (!s)
        return false;
    s->looks = true;
    bool ok = open_folder(s, err) && look_at_lock(s, &sight.in_use, err) && compare_boots(s, &boot, err);
    sight.uncertain = s->uncertain;
    kn_state_close(s);
    if (ok)
        *ret = sight;
    return ok;
}

bool kn_state_has(const char *name, size_t len) {
    static const char *const names[] = { marker_name, lock_name, boot_name, "usage.json", "control-token" };
    for (size_t i = 0; i < KN_COUNT(names); i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return true;
    return len >= sizeof reserved_start - 1 && memcmp(name, reserved_start, sizeof reserved_start - 1) == 0;
}

bool kn_state_is_uncertain(const kn_state *s) {
    return s->uncertain;
}

bool kn_state_was_cleared(const kn_state *s) {
    return s->cleared;
}

bool kn_state_was_reserved(const kn_state *s, const char *worker) {
    for (size_t i = 0; i < s->reserved_count; i++)
        if (strncmp(s->reserved[i], reserved_start, sizeof reserved_start - 1) == 0 &&
            strcmp(s->reserved[i] + sizeof reserved_start - 1, worker) == 0)
            return true;
    return false;
}

void kn_state_tell_trouble(kn_state *s, void (*log)(void *ctx, const char *line), void *ctx) {
    s->trouble.log = log;
    s->trouble.ctx = ctx;
}

static bool make(kn_state *s, const char *name, kn_error *err) {
    kn_error why = { 0 };
    return kn_trouble_note(&s->trouble, make_marker(s, name, &why), &why) || kn_fail(err, why.code, "%s", why.text);
}

static bool take_away(kn_state *s, const char *name, kn_error *err) {
    kn_error why = { 0 };
    return kn_trouble_note(&s->trouble, remove_marker(s, name, &why), &why) || kn_fail(err, why.code, "%s", why.text);
}

bool kn_state_mark(kn_state *s, kn_error *err) {
    return make(s, marker_name, err);
}

bool kn_state_clear(kn_state *s, kn_error *err) {
    return take_away(s, marker_name, err);
}

static bool name_reservation(const char *worker, char name[NAME_BYTES], kn_error *err) {
    return snprintf(name, NAME_BYTES, "%s%s", reserved_start, worker) < NAME_BYTES ||
           kn_fail(err, KN_E_USAGE, "the name of a worker is too long");
}

bool kn_state_reserve(kn_state *s, const char *worker, kn_error *err) {
    char name[NAME_BYTES];
    return name_reservation(worker, name, err) && make(s, name, err);
}

bool kn_state_release(kn_state *s, const char *worker, kn_error *err) {
    char name[NAME_BYTES];
    return name_reservation(worker, name, err) &&
           (faccessat(s->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) || take_away(s, name, err));
}
