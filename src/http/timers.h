/* Times at which something is to be called: a heap of timers that live in other objects, so that setting one never
 * allocates and never fails.
 *
 * Made for time limits, which are pushed forward with every byte and hardly ever come: moving a time later, or stopping
 * it, is one store. The heap learns of it when the old time comes. */
#ifndef KN_HTTP_TIMERS_H
#define KN_HTTP_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kn_timer kn_timer;
struct kn_timer {
    void (*fired)(kn_timer *t);
    uint64_t due_ms; /* KN_TIMER_NEVER: stopped */
    uint64_t key_ms; /* where it stands in the heap, never later than due_ms */
    kn_timer *child, *next, *prev;
    bool in_heap;
};

#define KN_TIMER_NEVER UINT64_MAX

typedef struct kn_timers {
    kn_timer *root;
} kn_timers;

void kn_timers_set(kn_timers *h, kn_timer *t, uint64_t due_ms);
void kn_timers_remove(kn_timers *h, kn_timer *t);

/* Takes out one timer that is due and stops it; NULL: none is. Its owner is then to be called. */
kn_timer *kn_timers_take_due(kn_timers *h, uint64_t now_ms);

/* When to look again: never later than the earliest time that is set. KN_TIMER_NEVER: nothing is set. */
uint64_t kn_timers_next_ms(const kn_timers *h);

#endif
