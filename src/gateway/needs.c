#include "gateway/needs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "gateway/state.h"
#include "gateway/usage.h"

/* "managed.workers[1].home" */
typedef struct place {
    char text[64];
} place;

static place of_worker(size_t i, const char *key) {
    place p;
    snprintf(p.text, sizeof p.text, "managed.workers[%zu].%s", i, key);
    return p;
}

static void note(kn_needs *n, const char *where, const kn_error *why) {
    if (!why->code || n->count == KN_NEEDS_MAX)
        return;
    kn_error *item = &n->items[n->count++];
    *item = *why;
    kn_fail_within(item, "%s", where);
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

/* The path itself, or where it is missing the lowest folder above it that there is. */
static void find_existing(const char *path, char ret[PATH_MAX], struct stat *ret_st) {
    snprintf(ret, PATH_MAX, "%s", path);
    while (stat(ret, ret_st) && strcmp(ret, "/") != 0)
        step_up(ret);
}

/* With the folders above it. */
static bool can_be_made(const char *path, kn_error *err) {
    char above[PATH_MAX];
    struct stat st = { 0 };
    find_existing(path, above, &st);
    if (!S_ISDIR(st.st_mode))
        return kn_fail(err, KN_E_USAGE, "cannot be made: '%s' is not a folder", kn_quote_path(above).text);
    return may(above, W_OK | X_OK) ||
           kn_fail(err, KN_E_USAGE, "cannot be made in '%s': %s", kn_quote_path(above).text, strerror(errno));
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
    return kn_state_folder_is_own(&st, err) &&
           (may(path, R_OK | W_OK | X_OK) || kn_fail(err, KN_E_USAGE, "cannot be written in: %s", strerror(errno)));
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

static bool is_program(const char *path, kn_error *err) {
    struct stat st;
    if (stat(path, &st))
        return fail_to_find(err);
    if (!S_ISREG(st.st_mode))
        return kn_fail(err, KN_E_USAGE, "is not a program");
    return may(path, X_OK) || kn_fail(err, KN_E_USAGE, "cannot be executed: %s", strerror(errno));
}

/* Puts the path in front of what is wrong with it. */
static void note_path(kn_needs *n, const char *where, const char *path, kn_error *why) {
    kn_fail_within(why, "'%s'", kn_quote_path(path).text);
    note(n, where, why);
}

/* ---- the state directory ---- */

static void look_at_state(const kn_config *c, kn_needs *n) {
    char path[PATH_MAX];
    kn_error why = { 0 };
    kn_usage history = { 0 };
    if (!is_own_folder(c->state_dir, true, &why)) {
        note_path(n, "state_dir", c->state_dir, &why);
        return;
    }
    snprintf(path, sizeof path, "%s/usage.json", c->state_dir);
    if (!kn_usage_new(&history, &why) || !kn_usage_load(&history, path, &why))
        note(n, "state_dir", &why);
    kn_usage_free(&history);
    snprintf(path, sizeof path, "%s/studio", c->state_dir);
    why = (kn_error){ 0 };
    if (c->studio.len && !is_own_folder(path, true, &why))
        note_path(n, "studio", path, &why);
}

/* ---- workers ---- */

/* Whether the path is that folder or lies in it, whatever they are called. */
static bool leads_into(const char *path, const char *folder) {
    char above[PATH_MAX], name[PATH_MAX];
    struct stat st = { 0 }, wanted;
    find_existing(path, above, &st);
    if (stat(folder, &wanted) || !realpath(above, name))
        return false; /* of what is missing the names were compared */
    for (; strcmp(name, "/") != 0; step_up(name))
        if (stat(name, &st) == 0 && st.st_dev == wanted.st_dev && st.st_ino == wanted.st_ino)
            return true;
    return false;
}

static bool is_nobody_elses(const kn_config *c, size_t i, kn_error *err) {
    const char *home = c->workers[i].home;
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
        note_path(n, of_worker(i, "executable").text, w->executable, &why);
    why = (kn_error){ 0 };
    if (!is_readable_folder(w->models, &why))
        note_path(n, of_worker(i, "models").text, w->models, &why);
    why = (kn_error){ 0 };
    if (!is_own_folder(w->home, kn_path_is_within(w->home, c->state_dir), &why) || !is_nobody_elses(c, i, &why))
        note_path(n, of_worker(i, "home").text, w->home, &why);
}

/* ---- pictures ---- */

/* A models.toml; for the gateway's pictures also a folder with one. */
static void look_at_models(const char *path, const char *where, bool may_be_folder, kn_needs *n) {
    char file[PATH_MAX];
    struct stat st;
    kn_error why = { 0 };
    bool is_folder = may_be_folder && path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (!path)
        return;
    if (snprintf(file, sizeof file, "%s%s", path, is_folder ? "/models.toml" : "") >= (int)sizeof file)
        kn_fail(&why, KN_E_USAGE, "the path is too long");
    else if (!is_readable_file(file, &why))
        kn_fail_within(&why, "'%s'", kn_quote_path(file).text);
    note(n, where, &why);
}

void kn_needs_look(const kn_config *c, kn_needs *ret) {
    ret->count = 0;
    look_at_state(c, ret);
    look_at_models(c->studio_models, "studio.models", false, ret);
    look_at_models(c->image.models, "image.models", true, ret);
    for (size_t i = 0; i < c->worker_count; i++)
        look_at_worker(c, i, ret);
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
    note(failed == EADDRINUSE ? busy : n, where, &why);
}

static void try_lock(const kn_config *c, kn_needs *busy) {
    char path[PATH_MAX];
    kn_error why = { 0 };
    snprintf(path, sizeof path, "%s/" KN_STATE_LOCK, c->state_dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
        kn_fail(&why, KN_E_USAGE, "'%s' is in use by another kuno", kn_quote_path(c->state_dir).text);
    note(busy, "state_dir", &why);
    close(fd);
}

void kn_needs_try(const kn_config *c, kn_needs *ret, kn_needs *ret_busy) {
    ret_busy->count = 0;
    try_address(&c->listen, "listen", ret, ret_busy);
    try_address(&c->control, "control", ret, ret_busy);
    if (c->studio.len)
        try_address(&c->studio, "studio.listen", ret, ret_busy);
    for (size_t i = 0; i < c->worker_count; i++)
        try_address(&c->workers[i].address, of_worker(i, "address").text, ret, ret_busy);
    try_lock(c, ret_busy);
}
