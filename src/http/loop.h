/* The event loop: one thread waits for descriptors, times, signals and word from other threads, and calls.
 *
 *     kn_loop *loop;
 *     kn_loop_new(NULL, NULL, &loop, err);
 *     … open watches, set timers …
 *     kn_loop_run(loop, err);                  until somebody calls kn_loop_stop
 *     kn_loop_free(loop);
 *
 * Whatever is called must return soon: nothing here may block, for everybody waits meanwhile. Work that does block runs
 * in other threads and comes back with kn_loop_post.
 *
 * Watches, timers and tasks live inside the objects that they serve; the loop allocates nothing for them and setting
 * one cannot fail. An object that goes away while its own callback runs, or while events for it may be on their way,
 * closes its watch and timers at once and frees its memory in a task given to kn_loop_later: those run when the events
 * of this turn are through. */
#ifndef KN_HTTP_LOOP_H
#define KN_HTTP_LOOP_H

#include <signal.h>
#include <stdint.h>

#include "base/error.h"
#include "http/timers.h"

typedef struct kn_loop kn_loop;

/* Milliseconds since some moment in the past, only going forward. Tests bring a clock of their own. */
typedef uint64_t kn_clock_fn(void *ctx);

bool kn_loop_new(kn_clock_fn *clock, void *clock_ctx, kn_loop **ret, kn_error *err); /* NULL: the system's clock */
void kn_loop_free(kn_loop *l); /* runs the tasks of kn_loop_later first */

bool kn_loop_run(kn_loop *l, kn_error *err);
void kn_loop_stop(kn_loop *l);

/* One turn: waits at most so long for something to happen (negative: for ever), calls everything that is due. */
bool kn_loop_turn(kn_loop *l, int wait_ms, kn_error *err);

/* The time at the start of this turn. */
uint64_t kn_loop_now_ms(const kn_loop *l);

/* A descriptor and what is wanted of it: EPOLLIN, EPOLLOUT, EPOLLRDHUP. It is called with those of them that happened,
 * and with EPOLLHUP and EPOLLERR whenever anything is wanted. A watch that wants nothing hears nothing, not even that
 * its peer has gone. What is no longer wanted costs a system call only if it happens nevertheless. */
typedef struct kn_watch kn_watch;
struct kn_watch {
    int fd; /* -1: closed */
    uint32_t wanted, armed;
    void (*ready)(kn_watch *w, uint32_t events);
};

/* Takes over the descriptor, which must not block. If it fails, the descriptor stays the caller's. */
bool kn_watch_open(kn_loop *l, kn_watch *w, int fd, uint32_t wanted, void (*ready)(kn_watch *, uint32_t),
                   kn_error *err);
void kn_watch_want(kn_loop *l, kn_watch *w, uint32_t wanted);
void kn_watch_close(kn_loop *l, kn_watch *w); /* closes the descriptor; again: nothing */

/* Timers (timers.h): `due_ms` is a time of this loop's clock. */
void kn_loop_timer_at(kn_loop *l, kn_timer *t, uint64_t due_ms);
void kn_loop_timer_after(kn_loop *l, kn_timer *t, uint64_t ms);
void kn_loop_timer_stop(kn_timer *t);
void kn_loop_timer_close(kn_loop *l, kn_timer *t); /* before its memory is freed */

/* Something to do later, once. A task that waits already stays where it is in the line. */
typedef struct kn_task kn_task;
struct kn_task {
    void (*run)(kn_task *t);
    kn_task *next;
    bool waits;
};

/* From the loop's own thread: runs in this turn, after the callbacks of this turn's events. */
void kn_loop_later(kn_loop *l, kn_task *t);

/* From any thread: wakes the loop, which runs the task in its own thread. The task must not be posted again before it
 * has run. */
void kn_loop_post(kn_loop *l, kn_task *t);

/* Blocks these signals in the calling thread (so call it before others are started) and calls for each that comes. Once
 * per loop. */
bool kn_loop_signals(kn_loop *l, const sigset_t *signals, void (*came)(void *ctx, int signal), void *ctx,
                     kn_error *err);

/* The object that holds a watch, timer or task as its member. */
#define KN_HOLDER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#endif
