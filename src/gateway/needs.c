#include "gateway/needs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "catalog/origin.h"
#include "gateway/room.h"
#include "gateway/state.h"
#include "gateway/usage.h"
#include "workers/workflows.h"

/* "managed.workers[1].home" */
typedef struct place {
    char text[64];
} place;

static place of_worker(size_t i, const char *key) {
    place p;
    snprintf(p.text, sizeof p.text, "managed.workers[%zu].%s", i, key);
    return p;
}

void kn_needs_add(kn_needs *n, const char *where, const kn_error *why) {
    if (!why->code || n->count == KN_NEEDS_MAX)
        return;
    kn_error *item = &n->items[n->count++];
    *item = *why;
    kn_fail_within(item, "%s", where);
}

void kn_needs_note(kn_needs *n, const char *where, const char *path, const kn_error *why) {
    kn_error whole = *why;
    kn_fail_within(&whole, "'%s'", kn_quote_path(path).text);
    kn_needs_add(n, where, &whole);
}

/* ---- folders and files ---- */

/* What the process may do there as the user that it is now; root may do nearly everything. */
static bool may(const char *path, int what) {
    return faccessat(AT_FDCWD, path, what, AT_EACCESS) == 0;
}

/* Says that the file is missing, or why it cannot be looked at. */
static bool fail_to_find(kn_error *err) {
    return errno == ENOENT || errno == ENOTDIR ? kn_fail(err, KN_E_NOT_FOUND, "does not exist")
                                               : kn_fail(err, KN_E_IO, "cannot be looked at: %s", strerror(errno));
}

static bool find_folder(const char *path, struct stat *ret, kn_error *err) {
    if (stat(path, ret))
        return fail_to_find(err);
    return S_ISDIR(ret->st_mode) || kn_fail(err, KN_E_USAGE, "is not a folder");
}

/* "/a/b" becomes "/a", that "/". */
static void step_up(char *path) {
    char *slash = strrchr(path, '/');
    slash[slash == path] = 0;
}

/* The path itself, or where it is missing the lowest one above it that there is, be it a link to nothing. */
static void find_existing(const char *path, char ret[PATH_MAX]) {
    struct stat st;
    snprintf(ret, PATH_MAX, "%s", path);
    while (lstat(ret, &st) && strcmp(ret, "/") != 0)
        step_up(ret);
}

/* Folders of the kernel's own seem to be writable, to root at least, and take no files. */
static bool takes_files(const char *path, kn_error *err) {
    static const long kernels[] = { PROC_SUPER_MAGIC,   SYSFS_MAGIC,   CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                                    DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC,      SECURITYFS_MAGIC };
    struct statfs fs;
    if (!may(path, W_OK | X_OK))
        return kn_fail(err, KN_E_USAGE, "%s", strerror(errno));
    bool is_known = statfs(path, &fs) == 0;
    for (size_t i = 0; is_known && i < KN_COUNT(kernels); i++)
        if (fs.f_type == kernels[i])
            return kn_fail(err, KN_E_USAGE, "only the kernel makes files there");
    return true;
}

/* With the folders above it. */
static bool can_be_made(const char *path, kn_error *err) {
    char above[PATH_MAX];
    struct stat st;
    kn_error why = { 0 };
    find_existing(path, above);
    if (stat(above, &st))
        return kn_fail(err, KN_E_USAGE, "cannot be made: the link '%s' leads nowhere: %s", kn_quote_path(above).text,
                       strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return kn_fail(err, KN_E_USAGE, "cannot be made: '%s' is not a folder", kn_quote_path(above).text);
    return takes_files(above, &why) ||
           kn_fail(err, why.code, "cannot be made in '%s': %s", kn_quote_path(above).text, why.text);
}

/* For this process alone to write in. makes: it is made if it is missing. */
static bool is_own_folder(const char *path, bool makes, kn_error *err) {
    struct stat st;
    kn_error why = { 0 };
    if (!find_folder(path, &st, &why)) {
        bool is_missing = why.code == KN_E_NOT_FOUND;
        return is_missing && makes ? can_be_made(path, err)
                                   : kn_fail(err, why.code, "%s%s", why.text,
                                             is_missing ? "; make it, or use a folder in state_dir" : "");
    }
    if (!kn_state_folder_is_own(&st, err))
        return false;
    if (!may(path, R_OK))
        return kn_fail(err, KN_E_USAGE, "cannot be read: %s", strerror(errno));
    why = (kn_error){ 0 };
    return takes_files(path, &why) || kn_fail(err, why.code, "cannot be written in: %s", why.text);
}

/* Nobody writes there; what is there can be shown all the same. */
static bool is_on_protected_disk(const char *path) {
    return !may(path, W_OK) && errno == EROFS;
}

static bool is_readable_folder(const char *path, kn_error *err) {
    struct stat st;
    return find_folder(path, &st, err) &&
           (may(path, R_OK | X_OK) || kn_fail(err, KN_E_USAGE, "cannot be read: %s", strerror(errno)));
}

static bool is_readable_file(const char *path, kn_error *err) {
    struct stat st;
    if (stat(path, &st))
        return fail_to_find(err);
    if (!S_ISREG(st.st_mode))
        return kn_fail(err, KN_E_USAGE, "is not a regular file");
    return may(path, R_OK) || kn_fail(err, KN_E_USAGE, "cannot be read: %s", strerror(errno));
}

/* A script names who reads it: "#! /bin/sh -e". */
static bool has_interpreter(char *line, kn_error *err) {
    char *name = line + 2 + strspn(line + 2, " \t");
    name[strcspn(name, " \t\n")] = 0;
    return may(name, X_OK) || kn_fail(err, KN_E_USAGE, "cannot be executed: its interpreter '%s': %s",
                                      kn_quote_path(name).text, strerror(errno));
}

/* Whether the kernel knows how to begin it. What cannot be read may be executed all the same. */
static bool can_begin(const char *path, kn_error *err) {
    char start[256] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    ssize_t len = read(fd, start, sizeof start - 1);
    close(fd);
    if (len < 0 || strncmp(start, "\177ELF", 4) == 0)
        return true;
    return strncmp(start, "#!", 2) == 0
               ? has_interpreter(start, err)
               : kn_fail(err, KN_E_USAGE, "cannot be executed: it is neither a program nor a script with '#!'");
}

static bool is_program(const char *path, kn_error *err) {
    struct stat st;
    if (stat(path, &st))
        return fail_to_find(err);
    if (!S_ISREG(st.st_mode))
        return kn_fail(err, KN_E_USAGE, "is not a program");
    if (!may(path, X_OK))
        return kn_fail(err, KN_E_USAGE, "cannot be executed: %s", strerror(errno));
    return can_begin(path, err);
}

/* ---- the state directory ---- */

static bool sees(const kn_config *c, kn_state_sight *ret, kn_error *err) {
    return kn_state_look(c->state_dir, kn_boot_id_read(KN_BOOT_ID_PATH), ret, err);
}

static void look_at_history(const kn_config *c, kn_needs *n) {
    char path[PATH_MAX];
    kn_error why = { 0 };
    kn_usage history = { 0 };
    snprintf(path, sizeof path, "%s/usage.json", c->state_dir);
    if (!kn_usage_new(&history, &why) || !kn_usage_load(&history, path, &why))
        kn_needs_add(n, "state_dir", &why);
    kn_usage_free(&history);
}

static void look_at_state(const kn_config *c, kn_needs *n) {
    char path[PATH_MAX];
    struct stat st;
    kn_error why = { 0 };
    kn_state_sight sight;
    if (!is_own_folder(c->state_dir, true, &why)) {
        kn_needs_note(n, "state_dir", c->state_dir, &why);
        return;
    }
    if (stat(c->state_dir, &st))
        return; /* it will be made */
    if (!sees(c, &sight, &why))
        kn_needs_note(n, "state_dir", c->state_dir, &why);
    look_at_history(c, n);
    snprintf(path, sizeof path, "%s/studio", c->state_dir);
    why = (kn_error){ 0 };
    if (c->studio.len && !is_on_protected_disk(path) && !is_own_folder(path, true, &why))
        kn_needs_note(n, "studio", path, &why);
}

static void warn_of_state(const kn_config *c, kn_needs *n) {
    kn_error why = { 0 };
    kn_state_sight sight = { 0 };
    if (!sees(c, &sight, NULL) || !sight.uncertain || sight.in_use)
        return;
    kn_fail(&why, KN_E_USAGE, "a request was under way when kuno ended; " KN_STATE_RECOVERY);
    kn_needs_note(n, "state_dir", c->state_dir, &why);
}

static void warn_of_room(const kn_config *c, kn_needs *n) {
    kn_error why = { 0 };
    kn_room room = kn_room_find(c);
    if (kn_room_is_short(c, &room, &why))
        kn_needs_add(n, "max_connections", &why);
}

/* ---- workers ---- */

/* Whether the path is that folder or lies in it, whatever they are called. */
static bool leads_into(const char *path, const char *folder) {
    char above[PATH_MAX], name[PATH_MAX];
    struct stat st, wanted;
    find_existing(path, above);
    if (stat(folder, &wanted) || !realpath(above, name))
        return false; /* of what is missing the names were compared */
    for (; strcmp(name, "/") != 0; step_up(name))
        if (stat(name, &st) == 0 && st.st_dev == wanted.st_dev && st.st_ino == wanted.st_ino)
            return true;
    return false;
}

/* Where a file of the state directory is, or will be. */
static bool is_our_file(const kn_config *c, const char *home) {
    size_t len = strlen(c->state_dir);
    const char *name = home + len + (c->state_dir[len - 1] != '/');
    return kn_path_is_within(home, c->state_dir) && kn_state_has(name, strcspn(name, "/"));
}

static bool is_nobody_elses(const kn_config *c, size_t i, kn_error *err) {
    const char *home = c->workers[i].home;
    if (is_our_file(c, home))
        return kn_fail(err, KN_E_USAGE, "in state_dir that name is kuno's own; take another one");
    if (leads_into(c->state_dir, home))
        return kn_fail(err, KN_E_USAGE, "state_dir is in it; a folder in state_dir would do");
    for (size_t k = 0; k < i; k++) {
        const char *other = c->workers[k].home;
        bool in = leads_into(home, other), around = leads_into(other, home);
        if (in || around)
            return kn_fail(err, KN_E_USAGE, "%s that of workers[%zu]",
                           in && around ? "is also"
                           : in         ? "lies in"
                                        : "holds",
                           k);
    }
    return true;
}

static void look_at_worker(const kn_config *c, size_t i, kn_needs *n) {
    const kn_worker_config *w = &c->workers[i];
    kn_error why = { 0 };
    if (!is_program(w->executable, &why))
        kn_needs_note(n, of_worker(i, "executable").text, w->executable, &why);
    why = (kn_error){ 0 };
    if (!is_readable_folder(w->models, &why))
        kn_needs_note(n, of_worker(i, "models").text, w->models, &why);
    why = (kn_error){ 0 };
    if (!is_own_folder(w->home, kn_path_is_within(w->home, c->state_dir), &why) || !is_nobody_elses(c, i, &why))
        kn_needs_note(n, of_worker(i, "home").text, w->home, &why);
}

/* ---- pictures ---- */

/* Where a models.toml is; for the gateway's pictures it may be in a folder that is named. */
static bool find_models(const char *path, bool may_be_folder, char ret[PATH_MAX], kn_error *err) {
    struct stat st;
    bool is_folder = may_be_folder && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    return snprintf(ret, PATH_MAX, "%s%s", path, is_folder ? "/models.toml" : "") < PATH_MAX ||
           kn_fail(err, KN_E_USAGE, "the path is too long");
}

static void look_at_models(const char *path, const char *where, bool may_be_folder, kn_needs *n) {
    char file[PATH_MAX];
    kn_error why = { 0 };
    if (!path)
        return;
    if (!find_models(path, may_be_folder, file, &why))
        kn_needs_add(n, where, &why);
    else if (!is_readable_file(file, &why))
        kn_needs_note(n, where, file, &why);
}

/* path: NULL: the user's own. Of one that is not there kn_needs_look tells. */
static void warn_of_models(const char *path, const char *where, bool may_be_folder, kn_needs *n) {
    char file[PATH_MAX];
    unsigned served = 0;
    kn_error why = { 0 };
    if (path && (!find_models(path, may_be_folder, file, NULL) || !is_readable_file(file, NULL)))
        return;
    if (!kn_workflows_served(path ? file : NULL, &served, &why))
        kn_needs_add(n, where, &why);
}

static void warn_of_pictures(const kn_config *c, kn_needs *n) {
    kn_error why = { 0 };
    bool has_studio = c->studio.len;
    if (has_studio)
        warn_of_models(c->studio_models, "studio.models", false, n);
    if (c->image.enabled && (!has_studio || c->studio_models || c->image.models))
        warn_of_models(c->image.models, "image.models", true, n);
    if (has_studio && c->mirror && !c->offline && !kn_mirror_is_good(c->mirror, &why))
        kn_needs_add(n, "studio.mirror", &why);
}

void kn_needs_look(const kn_config *c, kn_needs *ret) {
    ret->count = 0;
    look_at_state(c, ret);
    look_at_models(c->studio_models, "studio.models", false, ret);
    look_at_models(c->image.models, "image.models", true, ret);
    for (size_t i = 0; i < c->worker_count; i++)
        look_at_worker(c, i, ret);
}

void kn_needs_warn(const kn_config *c, kn_needs *ret) {
    ret->count = 0;
    warn_of_state(c, ret);
    warn_of_room(c, ret);
    warn_of_pictures(c, ret);
}

/* ---- addresses ---- */

/* Has the address for a moment, without listening. */
static void try_address(const kn_address *a, const char *where, kn_needs *n, kn_needs *busy) {
    int on = 1, off = 0, family = a->storage.ss_family;
    kn_error why = { 0 };
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    int failed = fd < 0 || bind(fd, (const struct sockaddr *)&a->storage, a->len) ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (failed == EADDRINUSE)
        kn_fail(&why, KN_E_USAGE, "%s is in use", kn_address_print(a).text);
    else if (failed)
        kn_fail(&why, KN_E_USAGE, "%s cannot be listened on: %s", kn_address_print(a).text, strerror(failed));
    kn_needs_add(failed == EADDRINUSE ? busy : n, where, &why);
}

static void try_state(const kn_config *c, kn_needs *busy) {
    kn_error why = { 0 };
    kn_state_sight sight = { 0 };
    if (sees(c, &sight, NULL) && sight.in_use)
        kn_fail(&why, KN_E_USAGE, "'%s' is in use by another kuno", kn_quote_path(c->state_dir).text);
    kn_needs_add(busy, "state_dir", &why);
}

void kn_needs_try(const kn_config *c, kn_needs *ret, kn_needs *ret_busy) {
    ret_busy->count = 0;
    try_address(&c->listen, "listen", ret, ret_busy);
    try_address(&c->control, "control", ret, ret_busy);
    if (c->studio.len)
        try_address(&c->studio, "studio.listen", ret, ret_busy);
    for (size_t i = 0; i < c->worker_count; i++)
        try_address(&c->workers[i].address, of_worker(i, "address").text, ret, ret_busy);
    try_state(c, ret_busy);
}
