/* A child process at the other end of three pipes: another program, or this one again, that gets its arguments, its
 * environment and the pipes, and nothing else that is open or set here. */
#ifndef KN_BASE_CHILD_H
#define KN_BASE_CHILD_H

#include <sys/types.h>

#include "base/error.h"

typedef struct kn_child {
    pid_t pid;
    int pid_fd;       /* readable when the process has ended: for an event loop */
    int in, out, err; /* to its standard input, from its standard output and error; they do not block */
} kn_child;

typedef struct kn_child_plan {
    const char *program;            /* a path */
    const char *const *arguments;   /* with the name of the program in front, NULL-terminated */
    const char *const *environment; /* NAME=VALUE, NULL-terminated */
} kn_child_plan;

/* The child is in a process group of its own, so that Ctrl-C in a terminal is for its parent alone. The descriptors are
 * the caller's to close. */
bool kn_child_start(const kn_child_plan *plan, kn_child *ret, kn_error *err);

/* Does nothing once it has been waited for. */
void kn_child_signal(const kn_child *c, int signal);

/* How it ended: the exit status, or 128 and the signal that ended it, as shells have it. wait: until it ends; without,
 * false means that it runs. Closes pid_fd when it has ended. */
bool kn_child_wait(kn_child *c, bool wait, int *ret_status);

#endif
