/* A program of ours with everything that it starts, in a process group of its own: begun without a shell, with nothing
 * of our environment, and ended as a whole.
 *
 * Its group is asked to end, then killed; it is over when nobody of it is left, not when its first process is. Whoever
 * has left the group is found by the mark that they all have in their environment (marked.h). For that this process
 * must take in the orphans of its descendants: kn_process_adopt_orphans, once.
 *
 * When we die, however that is, the program is asked to end by the kernel, and can write to its output until it has.
 * What it then leaves behind, the next start finds by its mark. */
#ifndef KN_WORKERS_PROCESS_H
#define KN_WORKERS_PROCESS_H

#include <sys/types.h>

#include "http/head.h"
#include "http/loop.h"

enum {
    KN_PROCESS_ASK_MS = 10 * 1000,  /* from asking a group to end to killing it */
    KN_PROCESS_KILL_MS = 10 * 1000, /* from killing it to giving up: the kernel holds it back */
};

typedef struct kn_program {
    const char *path; /* absolute */
    char *const *argv, *const *env;
    const char *folder; /* where it begins */
    const char *mark;   /* "NAME=value", one of env */
} kn_program;

typedef struct kn_process kn_process;
struct kn_process {
    kn_loop *loop;
    /* What it writes to its outputs, cut anywhere. */
    void (*said)(kn_process *p, kn_span text);
    /* Once: it is over. gone: nobody of it is left; else it cannot be ended. Not before kn_process_start returns. */
    void (*ended)(kn_process *p, bool gone);

    pid_t group; /* 0: none */
    bool killed;
    kn_watch output, exit;
    kn_timer timer;
    uint64_t give_up_ms;
    char mark[4096 + 128];
};

/* From now on those whose parents have died below us become our children. */
void kn_process_adopt_orphans(void);

/* loop, said and ended are set; everything else is zero. */
bool kn_process_start(kn_process *p, const kn_program *program, kn_error *err);

bool kn_process_is_running(const kn_process *p);

/* Hands over at once what it has written by now. */
void kn_process_listen(kn_process *p);

/* Asks it to end; kills it later. kn_process_kill: at once. Both do nothing if it is over. */
void kn_process_stop(kn_process *p);
void kn_process_kill(kn_process *p);

/* Kills it and waits for it, at most so long; `ended` does not come. True: nobody is left. */
bool kn_process_end_now(kn_process *p, unsigned ms);

#endif
