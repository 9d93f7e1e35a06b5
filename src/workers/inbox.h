/* What reaches an image worker while it computes: the next job, word to stop, and that nobody listens any more. A
 * thread of its own waits for these, so that a computation in the others learns of them at once: it looks at `stop`.
 *
 * Without an input there are no jobs to come, and only the other end of the output and signals are watched. */
#ifndef KN_WORKERS_INBOX_H
#define KN_WORKERS_INBOX_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "workers/frames.h"

enum { KN_INBOX_GRACE_S = 90 }; /* as long as a server waits, too */

typedef struct kn_inbox {
    atomic_bool stop; /* the present job is not wanted any more */
    /* The rest is for inbox.c. */
    int in, out, signals;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kn_frame_reader reader; /* the thread's */
    unsigned kind;          /* of the job that waits; 0: none does */
    kn_buf payload;
    bool at_work; /* the last one that was taken is being done */
    bool closed;
} kn_inbox;

/* in: -1 or where frames come from. Blocks the signals that end programs and takes them for the end of the input; so it
 * comes before any other thread is made. Its thread ends with the process, and ends it itself, so that nothing is left
 * of a server that was killed: KN_INBOX_GRACE_S after a signal or when nobody reads the output any more; with an input,
 * which ends when its server does, in the middle of a job at once. */
bool kn_inbox_open(kn_inbox *b, int in, int out, kn_error *err);

/* Waits for the next job, whose payload becomes the caller's. False: there will be none. */
bool kn_inbox_take(kn_inbox *b, unsigned *ret_kind, kn_buf *ret_payload);

#endif
