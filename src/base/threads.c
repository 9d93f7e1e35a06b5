#include "base/threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/cores.h"
#include "base/text.h"

enum {
    MAX_THREADS = 4096,
    SPINS = 2000, /* some tens of microseconds: longer than the gap between two ops, shorter than a sleep costs */
};

/* `state` says everything that threads agree on: the loop's number (upper half), how many workers are inside it, and
 * whether more may enter (lowest bit). A worker enters by adding itself, so the caller, having shut the door, knows who
 * is still in; a worker that wakes up late finds the door shut and touches nothing. */
struct kn_pool {
    unsigned size, spins;
    kn_pool_fn *fn;
    void *ctx;
    size_t n;
    atomic_size_t next;
    _Atomic uint64_t state;
    atomic_uint asleep;
    atomic_bool caller_asleep, quit;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    struct worker {
        pthread_t thread;
        kn_pool *pool;
        unsigned index;
    } workers[]; /* size - 1 */
};

static const uint64_t OPEN = 1, INSIDE = 2, LOOP = (uint64_t)1 << 32;

static uint64_t inside(uint64_t state) {
    return (state & (LOOP - 1)) / INSIDE;
}

static void take_items(kn_pool *p, unsigned thread) {
    for (;;) {
        size_t i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (i >= p->n)
            return;
        p->fn(p->ctx, i, thread);
    }
}

static bool is_new_loop(kn_pool *p, uint64_t seen) {
    return atomic_load(&p->state) / LOOP != seen || atomic_load(&p->quit);
}

static void wait_for_loop(kn_pool *p, uint64_t seen) {
    for (unsigned i = 0; i < p->spins; i++) {
        if (is_new_loop(p, seen))
            return;
        KN_SPIN_PAUSE();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->asleep, 1);
    while (!is_new_loop(p, seen))
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->asleep, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    kn_pool *p = w->pool;
    uint64_t seen = 0;
    for (;;) {
        wait_for_loop(p, seen);
        if (atomic_load(&p->quit))
            return NULL;
        uint64_t state = atomic_load(&p->state);
        seen = state / LOOP;
        while ((state & OPEN) && state / LOOP == seen)
            if (atomic_compare_exchange_weak(&p->state, &state, state + INSIDE)) {
                take_items(p, w->index);
                state = atomic_fetch_sub(&p->state, INSIDE) - INSIDE;
                break;
            }
        if (!(state & OPEN) && inside(state) == 0 && atomic_load(&p->caller_asleep)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static void wait_for_workers(kn_pool *p) {
    for (unsigned i = 0; i < p->spins; i++) {
        if (inside(atomic_load(&p->state)) == 0)
            return;
        KN_SPIN_PAUSE();
    }
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_asleep, true);
    while (inside(atomic_load(&p->state)) > 0)
        pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->caller_asleep, false);
    pthread_mutex_unlock(&p->lock);
}

void kn_pool_for(kn_pool *p, size_t n, kn_pool_fn *fn, void *ctx) {
    if (p->size == 1 || n <= 1) {
        for (size_t i = 0; i < n; i++)
            fn(ctx, i, 0);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    p->n = n;
    atomic_store(&p->next, 0);
    atomic_store(&p->state, (atomic_load(&p->state) / LOOP + 1) * LOOP + OPEN);
    if (atomic_load(&p->asleep) > 0) {
        pthread_mutex_lock(&p->lock);
        size_t sleepers = atomic_load(&p->asleep);
        for (size_t i = 0; i < KN_MIN(n - 1, sleepers); i++)
            pthread_cond_signal(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
    take_items(p, 0);
    atomic_fetch_and(&p->state, ~OPEN);
    wait_for_workers(p);
}

bool kn_pool_new(unsigned threads, kn_pool **ret, kn_error *err) {
    if (threads < 1 || threads > MAX_THREADS)
        return kn_fail(err, KN_E_RANGE, "%u threads asked for; 1 to %d are possible", threads, MAX_THREADS);
    size_t bytes = sizeof(kn_pool) + (threads - 1) * sizeof(struct worker);
    kn_pool *p = calloc(1, bytes);
    if (!p)
        return kn_fail_nomem(err, bytes);
    p->spins = threads <= kn_threads_available() ? SPINS : 0; /* else spinning would keep others from working */
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);

    sigset_t all, before; /* signals are for the threads that know what to do with them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = 0;
    for (p->size = 1; p->size < threads; p->size++) {
        struct worker *w = &p->workers[p->size - 1];
        *w = (struct worker){ .pool = p, .index = p->size };
        failure = pthread_create(&w->thread, NULL, worker_main, w);
        if (failure)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure) {
        kn_fail(err, KN_E_NOMEM, "thread %u of %u cannot be started: %s", p->size + 1, threads, strerror(failure));
        kn_pool_free(p);
        return false;
    }
    *ret = p;
    return true;
}

void kn_pool_free(kn_pool *p) {
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->quit, true);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i + 1 < p->size; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

unsigned kn_pool_size(const kn_pool *p) {
    return p->size;
}

static unsigned processors_of(const cpu_set_t *set, size_t bytes) {
    return (unsigned)CPU_COUNT_S(bytes, set);
}

static unsigned cores_of(const cpu_set_t *set, size_t bytes) {
    return kn_cores_count("/sys/devices/system/cpu", set, bytes);
}

/* What `count` says of the affinity mask. */
static unsigned count_allowed(unsigned (*count)(const cpu_set_t *set, size_t bytes)) {
    for (size_t cpus = 1024; cpus <= KN_PROCESSORS_MAX; cpus *= 2) { /* the kernel refuses sets smaller than its own */
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set)
            return 1;
        size_t bytes = CPU_ALLOC_SIZE(cpus);
        int failed = sched_getaffinity(0, bytes, set), why = errno;
        unsigned counted = failed ? 0 : count(set, bytes);
        CPU_FREE(set);
        if (!failed || why != EINVAL)
            return KN_MAX(counted, 1);
    }
    return 1;
}

/* Lowers *count to a quota of `quota` microseconds per `period`, rounded up. "max" and "-1" are no quota. */
static void apply_quota(const char *quota, const char *period, unsigned *count) {
    uint64_t q = 0, p = 0;
    if (kn_parse_u64(quota, &q) && kn_parse_u64(period, &p) && q > 0 && p > 0)
        *count = (unsigned)KN_MIN(*count, (q - 1) / p + 1);
}

/* The first generation has two files, the second one with both numbers. */
static void apply_group(void *ctx, const kn_cgroup *g) {
    char quota[128] = "", period[64];
    bool there = kn_cgroup_read(g, g->unified ? "cpu.max" : "cpu.cfs_quota_us", quota, sizeof quota);
    char *space = strchr(quota, ' ');
    if (there && g->unified && space) {
        *space = 0;
        space[1 + strcspn(space + 1, "\n")] = 0;
        apply_quota(quota, space + 1, ctx);
    } else if (there && !g->unified && kn_cgroup_read(g, "cpu.cfs_period_us", period, sizeof period)) {
        quota[strcspn(quota, "\n")] = 0;
        period[strcspn(period, "\n")] = 0;
        apply_quota(quota, period, ctx);
    }
}

static unsigned within_quota(unsigned count) {
    kn_cgroup_each("cpu", apply_group, &count);
    return count;
}

unsigned kn_threads_available(void) {
    return within_quota(count_allowed(processors_of));
}

unsigned kn_threads_default(void) {
    return within_quota(count_allowed(cores_of));
}
