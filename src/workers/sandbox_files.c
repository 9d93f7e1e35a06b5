/* The part of the cage that is about files: Landlock. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "workers/sandbox.h"

/* The kernel's interface, spelled out: headers of Debian 12 are older than what is needed of it. */
enum {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    CHANGE = 0x3FF0, /* bits 4 to 13: remove, make anything, rename between folders */
    TRUNCATE = 1 << 14,

    ABI_NEEDED = 3, /* the first that knows TRUNCATE */
    ABI_NETWORK = 4,
    ABI_SCOPES = 6,

    BIND_TCP = 1 << 0,
    CONNECT_TCP = 1 << 1,
    ABSTRACT_SOCKETS = 1 << 0,
    SIGNALS = 1 << 1,

    QUERY_VERSION = 1,
    PATH_BENEATH = 1,
};

struct ruleset_attr {
    uint64_t files, network, scopes;
};

struct path_rule {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed));

static bool find_abi(int *ret, kn_error *err) {
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, QUERY_VERSION);
    if (abi >= ABI_NEEDED) {
        *ret = abi;
        return true;
    }
    if (abi >= 0)
        return kn_fail(err, KN_E_UNSUPPORTED, "Landlock has version %d here, %d is needed; use Linux 6.2 or later", abi,
                       ABI_NEEDED);
    switch (errno) {
    case EOPNOTSUPP:
        return kn_fail(err, KN_E_UNSUPPORTED, "Landlock is switched off; add it to lsm= of the kernel's command line");
    case EPERM:
        return kn_fail(err, KN_E_UNSUPPORTED,
                       "a filter of system calls forbids Landlock; allow landlock_create_ruleset, "
                       "landlock_add_rule and landlock_restrict_self");
    default: return kn_fail(err, KN_E_UNSUPPORTED, "this kernel has no Landlock; Linux 6.2 or later is needed");
    }
}

/* What is not there needs no rule. Rights that only folders have are left out for files. */
static bool allow(int rules, const char *path, uint64_t rights, kn_error *err) {
    struct stat st;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return true;
    struct path_rule rule = { .allowed = rights, .fd = fd };
    if (fstat(fd, &st) || !S_ISDIR(st.st_mode))
        rule.allowed &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;
    bool ok = syscall(SYS_landlock_add_rule, rules, PATH_BENEATH, &rule, 0) == 0;
    if (!ok)
        kn_fail(err, KN_E_IO, "Landlock refuses a rule: %s", strerror(errno));
    close(fd);
    return ok;
}

/* Drivers open their devices for both. */
static bool allow_devices(int rules, kn_error *err) {
    static const char *const patterns[] = {
        "/dev/null",           "/dev/nvidiactl",     "/dev/nvidia[0-9]*", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
        "/dev/nvidia-modeset", "/dev/nvidia-caps/*", "/dev/dri/renderD*", "/dev/kfd",
    };
    bool ok = true;
    for (size_t i = 0; ok && i < KN_COUNT(patterns); i++) {
        glob_t found;
        if (glob(patterns[i], GLOB_NOSORT, NULL, &found) != 0)
            continue;
        for (size_t k = 0; ok && k < found.gl_pathc; k++)
            ok = allow(rules, found.gl_pathv[k], WRITE_FILE, err);
        globfree(&found);
    }
    return ok;
}

static bool is_process(const char *name) {
    return *name >= '0' && *name <= '9';
}

static bool is_elsewhere(const char *name) {
    return strcmp(name, "proc") != 0;
}

/* Whoever is root could read the memory of the kernel, and so that of everybody, in kcore. */
static bool is_general(const char *name) {
    return !is_process(name) && strcmp(name, "kcore") != 0 && strcmp(name, "kmsg") != 0;
}

/* Rights can be given, not taken: everything in the folder gets them, but what is left out. */
static bool allow_reading(int rules, const char *folder, bool (*is_meant)(const char *name), kn_error *err) {
    DIR *dir = opendir(folder);
    if (!dir)
        return kn_fail(err, KN_E_IO, "cannot look into %s: %s", folder, strerror(errno));
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(dir));) {
        char path[PATH_MAX];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || !is_meant(e->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ok = allow(rules, path, READ_FILE | READ_DIR, err);
    }
    closedir(dir);
    return ok;
}

/* /proc/self is a link to this process' own folder, so that it counts among what is general. Threads are named by
 * writing to their files below task/. */
static bool allow_all(int rules, kn_error *err) {
    return allow_reading(rules, "/", is_elsewhere, err) && allow_reading(rules, "/proc", is_general, err) &&
           allow(rules, "/proc/self/task", WRITE_FILE | TRUNCATE, err) && allow_devices(rules, err);
}

bool kn_sandbox_files(kn_error *err) {
    int abi = 0;
    if (!find_abi(&abi, err))
        return false;
    const struct ruleset_attr attr = {
        .files = EXECUTE | WRITE_FILE | READ_FILE | READ_DIR | CHANGE | TRUNCATE,
        .network = abi >= ABI_NETWORK ? BIND_TCP | CONNECT_TCP : 0,
        .scopes = abi >= ABI_SCOPES ? ABSTRACT_SOCKETS | SIGNALS : 0,
    };
    int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (rules < 0)
        return kn_fail(err, KN_E_IO, "Landlock refuses its rules: %s", strerror(errno));
    bool ok = allow_all(rules, err);
    if (ok && syscall(SYS_landlock_restrict_self, rules, 0))
        ok = kn_fail(err, KN_E_IO, "Landlock does not begin: %s", strerror(errno));
    close(rules);
    return ok;
}
