#include "http/loop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 64 }; /* of one turn; more wait for the next */

struct kn_loop {
    int epoll_fd;
    bool stopped;
    uint64_t now_ms;
    kn_clock_fn *clock;
    void *clock_ctx;
    kn_timers timers;
    kn_task *first_later, **last_later;

    _Atomic(kn_task *) posted; /* the last one first */
    kn_watch wake;

    kn_watch signals;
    void (*signal_came)(void *ctx, int signal);
    void *signal_ctx;
};

static uint64_t system_clock(void *ctx) {
    (void)ctx;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void take_posted(kn_watch *w, uint32_t events) {
    (void)events;
    kn_loop *l = KN_HOLDER(w, kn_loop, wake);
    uint64_t count;
    if (read(w->fd, &count, sizeof count) < 0 && errno != EAGAIN)
        return;
    kn_task *last_first = atomic_exchange(&l->posted, NULL), *first = NULL;
    while (last_first) {
        kn_task *t = last_first;
        last_first = t->next;
        t->next = first;
        first = t;
    }
    while (first) {
        kn_task *t = first;
        first = t->next;
        t->run(t);
    }
}

bool kn_loop_new(kn_clock_fn *clock, void *clock_ctx, kn_loop **ret, kn_error *err) {
    kn_loop *l = calloc(1, sizeof *l);
    if (!l)
        return kn_fail_nomem(err, sizeof *l);
    l->clock = clock ? clock : system_clock;
    l->clock_ctx = clock_ctx;
    l->now_ms = l->clock(l->clock_ctx);
    l->last_later = &l->first_later;
    l->wake.fd = l->signals.fd = -1;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->epoll_fd < 0 || wake_fd < 0) {
        kn_fail(err, KN_E_IO, "cannot make an event loop: %s", strerror(errno));
    } else if (kn_watch_open(l, &l->wake, wake_fd, EPOLLIN, take_posted, err)) {
        *ret = l;
        return true;
    }
    if (wake_fd >= 0)
        close(wake_fd);
    kn_loop_free(l);
    return false;
}

static void run_later(kn_loop *l) {
    kn_task *first = l->first_later; /* those that come meanwhile wait for the next turn */
    l->first_later = NULL;
    l->last_later = &l->first_later;
    while (first) {
        kn_task *t = first;
        first = t->next;
        t->waits = false;
        t->run(t);
    }
}

void kn_loop_free(kn_loop *l) {
    if (!l)
        return;
    while (l->first_later)
        run_later(l);
    kn_watch_close(l, &l->wake);
    kn_watch_close(l, &l->signals);
    if (l->epoll_fd >= 0)
        close(l->epoll_fd);
    free(l);
}

uint64_t kn_loop_now_ms(const kn_loop *l) {
    return l->now_ms;
}

void kn_loop_stop(kn_loop *l) {
    l->stopped = true;
}

/* Tells epoll what is wanted. Adding to epoll can fail when the kernel has no memory; then the watch stays deaf, and
 * the time limit of whoever owns it ends the matter. */
static void arm(kn_loop *l, kn_watch *w) {
    struct epoll_event e = { .events = w->wanted, .data.ptr = w };
    int operation = !w->armed ? EPOLL_CTL_ADD : w->wanted ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    w->armed = epoll_ctl(l->epoll_fd, operation, w->fd, &e) == 0 ? w->wanted : 0;
}

bool kn_watch_open(kn_loop *l, kn_watch *w, int fd, uint32_t wanted, void (*ready)(kn_watch *, uint32_t),
                   kn_error *err) {
    *w = (kn_watch){ .fd = fd, .wanted = wanted, .ready = ready };
    if (wanted)
        arm(l, w);
    if (w->armed == wanted)
        return true;
    w->fd = -1;
    return kn_fail(err, KN_E_IO, "cannot watch a descriptor: %s", strerror(errno));
}

void kn_watch_want(kn_loop *l, kn_watch *w, uint32_t wanted) {
    w->wanted = wanted;
    if (wanted & ~w->armed)
        arm(l, w);
}

void kn_watch_close(kn_loop *l, kn_watch *w) {
    (void)l; /* closing takes it out of epoll: nobody else has this descriptor */
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    w->wanted = w->armed = 0;
}

static void dispatch(kn_loop *l, kn_watch *w, uint32_t events) {
    if (w->fd < 0)
        return;
    uint32_t heard = w->wanted ? w->wanted | EPOLLHUP | EPOLLERR : 0;
    if (events & ~heard)
        arm(l, w);
    if (events & heard)
        w->ready(w, events & heard);
}

bool kn_loop_turn(kn_loop *l, int wait_ms, kn_error *err) {
    uint64_t next = kn_timers_next_ms(&l->timers);
    if (l->first_later || next <= l->now_ms)
        wait_ms = 0;
    else if (next != KN_TIMER_NEVER && (wait_ms < 0 || next - l->now_ms < (uint64_t)wait_ms))
        wait_ms = (int)KN_MIN(next - l->now_ms, (uint64_t)3600 * 1000);

    struct epoll_event events[EVENTS];
    int n = epoll_wait(l->epoll_fd, events, EVENTS, wait_ms);
    if (n < 0 && errno != EINTR)
        return kn_fail(err, KN_E_IO, "cannot wait for events: %s", strerror(errno));
    l->now_ms = l->clock(l->clock_ctx);
    for (int i = 0; i < n; i++)
        dispatch(l, events[i].data.ptr, events[i].events);
    for (kn_timer *t; (t = kn_timers_take_due(&l->timers, l->now_ms));)
        t->fired(t);
    run_later(l);
    return true;
}

bool kn_loop_run(kn_loop *l, kn_error *err) {
    l->stopped = false;
    while (!l->stopped)
        if (!kn_loop_turn(l, -1, err))
            return false;
    return true;
}

void kn_loop_timer_at(kn_loop *l, kn_timer *t, uint64_t due_ms) {
    kn_timers_set(&l->timers, t, due_ms);
}

void kn_loop_timer_after(kn_loop *l, kn_timer *t, uint64_t ms) {
    kn_timers_set(&l->timers, t, ms < KN_TIMER_NEVER - l->now_ms ? l->now_ms + ms : KN_TIMER_NEVER);
}

void kn_loop_timer_stop(kn_timer *t) {
    t->due_ms = KN_TIMER_NEVER;
}

void kn_loop_timer_close(kn_loop *l, kn_timer *t) {
    kn_timers_remove(&l->timers, t);
}

void kn_loop_later(kn_loop *l, kn_task *t) {
    if (t->waits)
        return;
    t->waits = true;
    t->next = NULL;
    *l->last_later = t;
    l->last_later = &t->next;
}

void kn_loop_post(kn_loop *l, kn_task *t) {
    kn_task *before = atomic_load(&l->posted);
    do {
        t->next = before;
    } while (!atomic_compare_exchange_weak(&l->posted, &before, t));
    uint64_t one = 1;
    /* Only a full counter refuses, and then the loop is being woken anyway. */
    if (!before && write(l->wake.fd, &one, sizeof one) < 0)
        return;
}

static void take_signals(kn_watch *w, uint32_t events) {
    (void)events;
    kn_loop *l = KN_HOLDER(w, kn_loop, signals);
    struct signalfd_siginfo s;
    while (w->fd >= 0 && read(w->fd, &s, sizeof s) == sizeof s)
        l->signal_came(l->signal_ctx, (int)s.ssi_signo);
}

bool kn_loop_signals(kn_loop *l, const sigset_t *signals, void (*came)(void *ctx, int signal), void *ctx,
                     kn_error *err) {
    l->signal_came = came;
    l->signal_ctx = ctx;
    int fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0 || pthread_sigmask(SIG_BLOCK, signals, NULL)) {
        kn_fail(err, KN_E_IO, "cannot receive signals: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (kn_watch_open(l, &l->signals, fd, EPOLLIN, take_signals, err))
        return true;
    close(fd);
    return false;
}
