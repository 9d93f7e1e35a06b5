#include "pipelines/ahead.h"

#include <signal.h>

#include "base/memory.h"

static const uint64_t LEAST = 64 << 20, SPARE = (uint64_t)1 << 30;

static void *fetch(void *ctx) {
    kn_ahead *a = ctx;
    kn_weights_fetch_pages(a->next->file, a->next->prefix, &a->stop);
    return NULL;
}

static bool is_worth_it(const kn_component *now, const kn_component *next) {
    uint64_t available = kn_memory_available(), bytes = next->bytes;
    return bytes >= LEAST && bytes + now->bytes + SPARE <= available && kn_weights_are_near(now->file, now->prefix);
}

void kn_ahead_start(kn_ahead *a, const kn_component *now, const kn_component *next) {
    sigset_t all, before; /* signals are for the threads that know what to do with them */
    if (!next || next->binder || !is_worth_it(now, next))
        return;
    a->next = next;
    atomic_store(&a->stop, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    a->runs = pthread_create(&a->thread, NULL, fetch, a) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void kn_ahead_stop(kn_ahead *a) {
    if (!a->runs)
        return;
    atomic_store(&a->stop, true);
    pthread_join(a->thread, NULL);
    a->runs = false;
}
