#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STREAMS = 3 };

/* Our end and the child's of each of its standard streams. */
struct pipes {
    int ours[STREAMS], theirs[STREAMS];
};

static void close_all(int fds[STREAMS]) {
    for (int i = 0; i < STREAMS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

static bool open_pipes(struct pipes *p, kn_error *err) {
    for (int i = 0; i < STREAMS; i++)
        p->ours[i] = p->theirs[i] = -1;
    for (int i = 0; i < STREAMS; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC))
            return kn_fail(err, KN_E_IO, "cannot make a pipe: %s", strerror(errno));
        bool input = i == STDIN_FILENO;
        p->ours[i] = ends[input ? 1 : 0];
        p->theirs[i] = ends[input ? 0 : 1];
        if (fcntl(p->ours[i], F_SETFL, O_NONBLOCK))
            return kn_fail(err, KN_E_IO, "cannot set up a pipe: %s", strerror(errno));
    }
    return true;
}

/* Signals as a program finds them that was started from a shell. */
static bool set_attributes(posix_spawnattr_t *a) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    return !posix_spawnattr_setflags(a, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) &&
           !posix_spawnattr_setpgroup(a, 0) && !posix_spawnattr_setsigmask(a, &none) &&
           !posix_spawnattr_setsigdefault(a, &all);
}

static int spawn(const kn_child_plan *plan, const struct pipes *p, pid_t *ret) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&actions))
        return ENOMEM;
    int code = posix_spawnattr_init(&attributes) ? ENOMEM : 0;
    if (!code) {
        bool ok = set_attributes(&attributes);
        for (int i = 0; ok && i < STREAMS; i++)
            ok = !posix_spawn_file_actions_adddup2(&actions, p->theirs[i], i);
        ok = ok && !posix_spawn_file_actions_addclosefrom_np(&actions, STREAMS);
        /* The system's interface is older than const. */
        code = ok ? posix_spawn(ret, plan->program, &actions, &attributes, (char *const *)(uintptr_t)plan->arguments,
                                (char *const *)(uintptr_t)plan->environment)
                  : ENOMEM;
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

bool kn_child_start(const kn_child_plan *plan, kn_child *ret, kn_error *err) {
    struct pipes p;
    kn_child c = { .pid_fd = -1 };
    bool ok = open_pipes(&p, err);
    if (ok) {
        int code = spawn(plan, &p, &c.pid);
        ok = code == 0 || kn_fail(err, KN_E_IO, "cannot start a process: %s", strerror(code));
    }
    close_all(p.theirs);
    if (ok && (c.pid_fd = pidfd_open(c.pid, 0)) < 0) {
        kn_fail(err, KN_E_IO, "cannot watch a process: %s", strerror(errno));
        kill(c.pid, SIGKILL);
        waitpid(c.pid, NULL, 0);
        ok = false;
    }
    if (!ok) {
        close_all(p.ours);
        return false;
    }
    c.in = p.ours[STDIN_FILENO];
    c.out = p.ours[STDOUT_FILENO];
    c.err = p.ours[STDERR_FILENO];
    *ret = c;
    return true;
}

void kn_child_signal(const kn_child *c, int signal) {
    if (c->pid_fd >= 0) /* until it has been waited for, nobody else has its number */
        kill(c->pid, signal);
}

bool kn_child_wait(kn_child *c, bool wait, int *ret_status) {
    int status = 0;
    pid_t ended;
    do {
        ended = waitpid(c->pid, &status, wait ? 0 : WNOHANG);
    } while (ended < 0 && errno == EINTR);
    if (ended == 0)
        return false;
    *ret_status = ended < 0 ? 128 + SIGKILL : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    close(c->pid_fd);
    c->pid_fd = -1;
    return true;
}
