/* Faults for tests, in a build of the program that nobody installs: under the code that reads pictures and model files,
 * so that they happen where a flaw in a parser would.
 *
 * A picture that begins with "probe NAME ARGUMENT" has the worker try what NAME says; the error tells how it went:
 * "NAME: EACCES" or "NAME: done". A model file whose name begins with "crash" or "hang" does that to whoever opens it;
 * "hangs" is then the process's name. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/read.h"
#include "weights/weights.h"

/* The address of all trials; most use it as a path. */
typedef bool trial(const char *path);

static bool opens(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool try_read(const char *path) {
    char byte;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && read(fd, &byte, 1) >= 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

static bool try_write(const char *path) {
    return opens(path, O_WRONLY);
}

static bool try_read_and_write(const char *path) {
    return opens(path, O_RDWR);
}

static bool try_append(const char *path) {
    return opens(path, O_WRONLY | O_APPEND);
}

static bool try_open_and_cut(const char *path) {
    return opens(path, O_RDONLY | O_TRUNC);
}

static bool try_truncate(const char *path) {
    return truncate(path, 0) == 0;
}

static bool try_create(const char *path) {
    return opens(path, O_WRONLY | O_CREAT);
}

static bool try_nameless(const char *path) {
    return opens(path, O_RDWR | O_TMPFILE);
}

static bool try_mkdir(const char *path) {
    return mkdir(path, 0700) == 0;
}

static bool try_rmdir(const char *path) {
    return rmdir(path) == 0;
}

static bool try_fifo(const char *path) {
    return mkfifo(path, 0600) == 0;
}

static bool try_symlink(const char *path) {
    return symlink("x", path) == 0;
}

/* /folder/file -> /folder/file2 */
static const char *other(const char *path) {
    static char name[4096];
    snprintf(name, sizeof name, "%s2", path);
    return name;
}

static bool try_link(const char *path) {
    return link(path, other(path)) == 0;
}

static bool try_rename(const char *path) {
    return rename(path, other(path)) == 0;
}

static bool try_unlink(const char *path) {
    return unlink(path) == 0;
}

static bool try_chmod(const char *path) {
    return chmod(path, 0600) == 0;
}

static bool try_utimes(const char *path) {
    return utimes(path, NULL) == 0;
}

static bool try_setxattr(const char *path) {
    return setxattr(path, "user.x", "x", 1, 0) == 0;
}

static bool at_socket(const char *path, int (*what)(int, const struct sockaddr *, socklen_t)) {
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && what(fd, (const struct sockaddr *)&a, sizeof a) == 0;
}

static bool try_bind(const char *path) {
    return at_socket(path, bind);
}

static bool try_connect(const char *path) {
    return at_socket(path, connect);
}

static bool try_internet(const char *path) {
    (void)path;
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0;
}

static bool try_netlink(const char *path) {
    (void)path;
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0) >= 0;
}

static bool try_exec(const char *path) {
    return execl(path, path, (char *)NULL) == 0;
}

static bool try_exec_memory(const char *path) {
    (void)path;
    char *const none[] = { NULL };
    int fd = memfd_create("x", 0);
    return fd >= 0 && execveat(fd, "", none, none, AT_EMPTY_PATH) == 0;
}

/* What a ring does, no filter of system calls sees. */
static bool try_ring(const char *path) {
    (void)path;
    char parameters[256] = { 0 };
    return syscall(SYS_io_uring_setup, 1, parameters) >= 0;
}

static bool try_pidfd(const char *path) {
    (void)path;
    return syscall(SYS_pidfd_open, getppid(), 0) >= 0;
}

/* Of the server, and of the worker itself, which does not need it. */
static bool try_priority(const char *path) {
    (void)path;
    return setpriority(PRIO_PROCESS, (id_t)getppid(), 19) == 0;
}

static bool try_own_priority(const char *path) {
    (void)path;
    return setpriority(PRIO_PROCESS, 0, 19) == 0;
}

static bool try_scheduler(const char *path) {
    (void)path;
    return sched_setscheduler(getppid(), SCHED_IDLE, &(struct sched_param){ 0 }) == 0;
}

static bool try_affinity(const char *path) {
    (void)path;
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && sched_setaffinity(getppid(), sizeof set, &set) == 0;
}

/* The kernel would send signals to that process when there is something to read. */
static bool try_owner(const char *path) {
    (void)path;
    return fcntl(STDIN_FILENO, F_SETOWN, getppid()) == 0;
}

static bool try_owner_of_socket(const char *path) {
    (void)path;
    int pair[2], owner = getppid();
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 && ioctl(pair[0], FIOSETOWN, &owner) == 0;
}

/* A key for the user at a terminal; the kernel looks at the lower half of what is to be done. */
static bool try_key(const char *path) {
    (void)path;
    return ioctl(STDIN_FILENO, TIOCSTI, "x") == 0;
}

static bool try_key_by_half(const char *path) {
    (void)path;
    return syscall(SYS_ioctl, STDIN_FILENO, (1L << 32) | TIOCSTI, "x") == 0;
}

static bool try_fork(const char *path) {
    (void)path;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child > 0;
}

static bool try_signal(const char *path) {
    (void)path;
    return kill(getppid(), 0) == 0;
}

static bool try_ptrace(const char *path) {
    (void)path;
    return ptrace(PTRACE_ATTACH, getppid(), NULL, NULL) == 0;
}

static bool try_memory_of_parent(const char *path) {
    (void)path;
    char byte;
    const struct iovec here = { &byte, 1 }, there = { &byte, 1 };
    return process_vm_readv(getppid(), &here, 1, &there, 1, 0) == 1;
}

static bool try_folder(const char *path) {
    DIR *dir = opendir(path);
    if (dir)
        closedir(dir);
    return dir != NULL;
}

/* path: what to put behind /proc/PARENT/. */
static bool try_parent(const char *path) {
    char whole[200];
    snprintf(whole, sizeof whole, "/proc/%d/%s", (int)getppid(), path);
    return try_read(whole);
}

static bool try_dumpable(const char *path) {
    (void)path;
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}

static bool try_dumpable_by_half(const char *path) {
    (void)path;
    return syscall(SYS_prctl, (1L << 32) | PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}

static bool try_is_dumpable(const char *path) {
    (void)path;
    return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
}

static bool try_descriptor(const char *path) {
    char alias[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(alias, sizeof alias, "/proc/self/fd/%d", fd);
    return fd >= 0 && opens(alias, O_WRONLY);
}

static bool try_descriptor_of_thread(const char *path) {
    char alias[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(alias, sizeof alias, "/proc/self/task/%d/fd/%d", (int)gettid(), fd);
    return fd >= 0 && opens(alias, O_WRONLY);
}

static bool try_root_of_thread(const char *path) {
    char alias[4200];
    snprintf(alias, sizeof alias, "/proc/self/task/%d/root%s", (int)gettid(), path);
    return opens(alias, O_WRONLY);
}

static bool try_folder_of_thread(const char *path) {
    char alias[4200];
    snprintf(alias, sizeof alias, "/proc/self/task/%d/cwd/%s", (int)gettid(), path);
    return opens(alias, O_WRONLY | O_CREAT);
}

static bool try_name_of_process(const char *path) {
    (void)path;
    return opens("/proc/self/comm", O_WRONLY);
}

static bool try_thread_name(const char *path) {
    (void)path;
    char name[64];
    snprintf(name, sizeof name, "/proc/self/task/%d/comm", (int)gettid());
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, "named", 5) == 5;
    if (fd >= 0)
        close(fd);
    return ok;
}

static bool try_memfd(const char *path) {
    (void)path;
    int fd = memfd_create("x", MFD_CLOEXEC);
    return fd >= 0 && ftruncate(fd, 4096) == 0 && write(fd, "x", 1) == 1;
}

static void *in_thread(void *ctx) {
    return opens(ctx, O_WRONLY) ? ctx : NULL;
}

static bool try_write_in_thread(const char *path) {
    pthread_t thread;
    void *result = NULL;
    errno = 0;
    if (pthread_create(&thread, NULL, in_thread, (void *)(uintptr_t)path) || pthread_join(thread, &result))
        return true; /* nobody expects that */
    errno = EACCES;
    return result != NULL;
}

static bool try_descriptors_open(const char *path) {
    (void)path;
    int count = 0;
    for (int fd = 3; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    errno = 0;
    return count > 2; /* more than the inbox's own */
}

/* As without any watcher that would rather tell about it. */
static bool try_crash(const char *path) {
    (void)path;
    signal(SIGSEGV, SIG_DFL);
    return raise(SIGSEGV) == 0;
}

#define TRIAL(name)                                                                                                    \
    { #name, try_##name }
static const struct {
    const char *name;
    trial *run;
} trials[] = {
    TRIAL(read),
    TRIAL(write),
    TRIAL(read_and_write),
    TRIAL(append),
    TRIAL(open_and_cut),
    TRIAL(truncate),
    TRIAL(create),
    TRIAL(nameless),
    TRIAL(mkdir),
    TRIAL(rmdir),
    TRIAL(fifo),
    TRIAL(symlink),
    TRIAL(link),
    TRIAL(rename),
    TRIAL(unlink),
    TRIAL(chmod),
    TRIAL(utimes),
    TRIAL(setxattr),
    TRIAL(bind),
    TRIAL(connect),
    TRIAL(internet),
    TRIAL(netlink),
    TRIAL(exec),
    TRIAL(exec_memory),
    TRIAL(ring),
    TRIAL(fork),
    TRIAL(signal),
    TRIAL(owner),
    TRIAL(owner_of_socket),
    TRIAL(pidfd),
    TRIAL(priority),
    TRIAL(own_priority),
    TRIAL(scheduler),
    TRIAL(affinity),
    TRIAL(key),
    TRIAL(key_by_half),
    TRIAL(ptrace),
    TRIAL(memory_of_parent),
    TRIAL(folder),
    TRIAL(parent),
    TRIAL(dumpable),
    TRIAL(dumpable_by_half),
    TRIAL(is_dumpable),
    TRIAL(descriptor),
    TRIAL(descriptor_of_thread),
    TRIAL(root_of_thread),
    TRIAL(folder_of_thread),
    TRIAL(name_of_process),
    TRIAL(thread_name),
    TRIAL(write_in_thread),
    TRIAL(memfd),
    TRIAL(crash),
    TRIAL(descriptors_open),
};

static bool run_trial(const char *text, size_t len, kn_error *err) {
    char words[4096], *at = words;
    snprintf(words, sizeof words, "%.*s", (int)len, text);
    strsep(&at, " ");
    const char *name = strsep(&at, " "), *argument = at ? at : "";
    for (size_t i = 0; name && i < KN_COUNT(trials); i++) {
        if (strcmp(name, trials[i].name) != 0)
            continue;
        errno = 0;
        bool done = trials[i].run(argument);
        return kn_fail(err, KN_E_FORMAT, "%s: %s", name, done ? "done" : strerrorname_np(errno));
    }
    return kn_fail(err, KN_E_FORMAT, "there is no such trial");
}

bool __real_kn_image_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, kn_error *err);
bool __wrap_kn_image_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, kn_error *err);
bool __real_kn_weights_open(const char *path, kn_weights **ret, kn_error *err);
bool __wrap_kn_weights_open(const char *path, kn_weights **ret, kn_error *err);

bool __wrap_kn_image_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, kn_error *err) {
    if (len > 6 && memcmp(data, "probe ", 6) == 0)
        return run_trial(data, len, err);
    return __real_kn_image_read(data, len, limits, ret, err);
}

bool __wrap_kn_weights_open(const char *path, kn_weights **ret, kn_error *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strncmp(name, "crash", 5) == 0)
        try_crash(path);
    while (strncmp(name, "hang", 4) == 0) {
        prctl(PR_SET_NAME, "hangs");
        pause();
    }
    return __real_kn_weights_open(path, ret, err);
}
