#include "workers/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "workers/marked.h"

enum { PIECE = 16 << 10, LOOK_MS = 20 };

void kn_process_adopt_orphans(void) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* ---- the beginning ---- */

/* In the child, between fork and exec: nothing but system calls. Tells the cause of a failure through the pipe. It
 * keeps a reader of its output: what it writes when we have died must not end it (SIGPIPE) before it has ended what it
 * has started. */
static KN_NORETURN void become(const kn_program *program, pid_t parent, int output, int reader, int failure) {
    static const int changed[] = { SIGPIPE, SIGHUP, SIGXFSZ };
    sigset_t none;
    sigemptyset(&none);
    for (size_t i = 0; i < KN_COUNT(changed); i++)
        signal(changed[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(077);
    int nothing = open("/dev/null", O_RDONLY);
    bool ok = setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && chdir(program->folder) == 0 &&
              nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
              dup2(output, STDERR_FILENO) >= 0;
    close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC); /* libraries open files of which we do not know */
    ok = ok && fcntl(reader, F_SETFD, 0) == 0;
    if (ok && getppid() == parent)
        execve(program->path, program->argv, program->env);
    int cause = errno;
    if (write(failure, &cause, sizeof cause) < 0)
        _exit(126);
    _exit(127);
}

/* A descriptor that shares nothing with the one that the loop watches but the pipe. -1: none. */
static int open_again(int fd) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/* Returns when the program has begun or has failed to. */
static bool begin(kn_process *p, const kn_program *program, const int output[2], const int failure[2], kn_error *err) {
    int reader = open_again(output[0]);
    pid_t parent = getpid();
    pid_t child = reader < 0 ? -1 : fork();
    if (child == 0)
        become(program, parent, output[1], reader, failure[1]);
    int cause = errno;
    ssize_t n;
    if (reader >= 0)
        close(reader);
    close(failure[1]);
    if (child < 0)
        return kn_fail(err, KN_E_IO, "no process can be made: %s", strerror(cause));
    while ((n = read(failure[0], &cause, sizeof cause)) < 0 && errno == EINTR) {
    }
    if (n == sizeof cause) {
        waitpid(child, NULL, 0);
        return kn_fail(err, KN_E_IO, "cannot be started: %s", strerror(cause));
    }
    p->group = child;
    return true;
}

static void output_came(kn_watch *w, uint32_t events) {
    (void)events;
    kn_process_listen(KN_HOLDER(w, kn_process, output));
}

static void first_has_ended(kn_watch *w, uint32_t events) {
    (void)events;
    kn_process *p = KN_HOLDER(w, kn_process, exit);
    kn_watch_close(p->loop, &p->exit);
    kn_process_kill(p); /* those that it leaves behind */
}

static void look_again(kn_timer *t);

static bool watch(kn_process *p, int output, kn_error *err) {
    int exit = (int)syscall(SYS_pidfd_open, p->group, 0);
    if (exit < 0)
        return kn_fail(err, KN_E_IO, "its end cannot be watched: %s", strerror(errno));
    if (!kn_watch_open(p->loop, &p->exit, exit, EPOLLIN, first_has_ended, err)) {
        close(exit);
        return false;
    }
    return kn_watch_open(p->loop, &p->output, output, EPOLLIN, output_came, err);
}

bool kn_process_start(kn_process *p, const kn_program *program, kn_error *err) {
    int output[2] = { -1, -1 }, failure[2] = { -1, -1 };
    p->output.fd = p->exit.fd = -1;
    p->killed = false;
    p->timer = (kn_timer){ .fired = look_again };
    if (snprintf(p->mark, sizeof p->mark, "%s", program->mark) >= (int)sizeof p->mark)
        return kn_fail(err, KN_E_RANGE, "its mark is too long");
    if (pipe2(output, O_CLOEXEC) || pipe2(failure, O_CLOEXEC)) {
        kn_fail(err, KN_E_IO, "no pipe can be made: %s", strerror(errno));
        if (output[0] >= 0) {
            close(output[0]);
            close(output[1]);
        }
        return false;
    }
    fcntl(output[0], F_SETFL, O_NONBLOCK);
    bool ok = begin(p, program, output, failure, err);
    close(output[1]);
    close(failure[0]);
    if (!ok || !watch(p, output[0], err)) {
        if (p->output.fd < 0)
            close(output[0]);
        if (p->group)
            kn_process_end_now(p, KN_PROCESS_KILL_MS);
        return false;
    }
    return true;
}

bool kn_process_is_running(const kn_process *p) {
    return p->group != 0;
}

void kn_process_listen(kn_process *p) {
    char piece[PIECE];
    ssize_t n = 1;
    while (p->output.fd >= 0 && (n = read(p->output.fd, piece, sizeof piece)) > 0)
        p->said(p, (kn_span){ piece, (size_t)n });
    if (p->output.fd >= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR)))
        kn_watch_close(p->loop, &p->output);
}

/* ---- the end ---- */

/* Whether anybody is left; buries the dead. Who has left the group is killed: nobody else knows of them. */
static bool somebody_is_left(const kn_process *p) {
    while (waitpid(-p->group, NULL, WNOHANG) > 0) {
    }
    return kill(-p->group, 0) == 0 || errno != ESRCH || kn_marked_signal(p->mark, SIGKILL);
}

static void close_all(kn_process *p) {
    kn_watch_close(p->loop, &p->output);
    kn_watch_close(p->loop, &p->exit);
    kn_loop_timer_close(p->loop, &p->timer);
    p->group = 0;
}

static void look_again(kn_timer *t) {
    kn_process *p = KN_HOLDER(t, kn_process, timer);
    if (!p->killed) {
        kn_process_kill(p);
        return;
    }
    bool left = somebody_is_left(p);
    if (left && kn_loop_now_ms(p->loop) < p->give_up_ms) {
        kn_loop_timer_after(p->loop, t, LOOK_MS);
        return;
    }
    close_all(p);
    p->ended(p, !left);
}

void kn_process_stop(kn_process *p) {
    if (!p->group || p->killed)
        return;
    kill(-p->group, SIGTERM);
    kn_loop_timer_after(p->loop, &p->timer, KN_PROCESS_ASK_MS);
}

void kn_process_kill(kn_process *p) {
    if (!p->group || p->killed)
        return;
    p->killed = true;
    kill(-p->group, SIGKILL);
    p->give_up_ms = kn_loop_now_ms(p->loop) + KN_PROCESS_KILL_MS;
    kn_loop_timer_after(p->loop, &p->timer, 0);
}

bool kn_process_end_now(kn_process *p, unsigned ms) {
    if (!p->group)
        return true;
    kill(-p->group, SIGKILL);
    bool left = true;
    for (unsigned waited = 0; (left = somebody_is_left(p)) && waited < ms; waited += LOOK_MS)
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000L }, NULL);
    close_all(p);
    return !left;
}
