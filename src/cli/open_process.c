#include "cli/open_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

static bool set_up(posix_spawnattr_t *a, posix_spawn_file_actions_t *f, int out) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    bool ok = !posix_spawnattr_setflags(a, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) &&
              !posix_spawnattr_setsigmask(a, &none) && !posix_spawnattr_setsigdefault(a, &all) &&
              !posix_spawn_file_actions_addopen(f, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (int fd = STDOUT_FILENO; ok && fd <= STDERR_FILENO; fd++)
        ok = out < 0 ? !posix_spawn_file_actions_addopen(f, fd, "/dev/null", O_WRONLY, 0)
                     : !posix_spawn_file_actions_adddup2(f, out, fd);
    return ok && !posix_spawn_file_actions_addclosefrom_np(f, STDERR_FILENO + 1);
}

bool kn_start(const char *const *arguments, int out, kn_started *ret, kn_error *err) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    kn_started p = { .pid_fd = -1 };
    if (posix_spawnattr_init(&attributes))
        return kn_fail_nomem(err, sizeof attributes);
    if (posix_spawn_file_actions_init(&actions)) {
        posix_spawnattr_destroy(&attributes);
        return kn_fail_nomem(err, sizeof actions);
    }
    int code = ENOMEM;
    if (set_up(&attributes, &actions, out)) /* the system's interface is older than const */
        code = posix_spawnp(&p.pid, arguments[0], &actions, &attributes, (char *const *)(uintptr_t)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (code)
        return kn_fail(err, code == ENOENT ? KN_E_NOT_FOUND : KN_E_IO, "cannot start %s: %s", arguments[0],
                       strerror(code));
    if ((p.pid_fd = pidfd_open(p.pid, 0)) < 0)
        return kn_fail(err, KN_E_IO, "cannot watch %s: %s", arguments[0], strerror(errno));
    *ret = p;
    return true;
}

bool kn_started_has_ended(kn_started *p, int within_ms) {
    struct pollfd end = { .fd = p->pid_fd, .events = POLLIN };
    if (p->pid_fd < 0)
        return true;
    if (poll(&end, 1, within_ms) != 1 || waitpid(p->pid, &p->status, WNOHANG) <= 0)
        return false;
    p->status = WIFSIGNALED(p->status) ? 128 + WTERMSIG(p->status) : WEXITSTATUS(p->status);
    kn_started_leave(p);
    return true;
}

void kn_started_leave(kn_started *p) {
    if (p->pid_fd >= 0)
        close(p->pid_fd);
    p->pid_fd = -1;
}
