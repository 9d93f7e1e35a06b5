/* One look at everything that limits what can run: the machine's memory, its graphics cards, and which models are in
 * memory. Nothing is loaded, unloaded or counted by looking, and nothing is kept.
 *
 * All who ask while a look is under way get its report. It takes at most KN_GPU_DEADLINE_MS, whatever hangs. */
#ifndef KN_GATEWAY_RESOURCES_H
#define KN_GATEWAY_RESOURCES_H

#include <jansson.h>

#include "gateway/crew.h"
#include "http/upstream.h"

enum { KN_WATCHED_MAX = KN_WORKERS_MAX + 1 };

typedef struct kn_watcher kn_watcher;

/* root: in front of /sys, /proc and /dev, for tests; else "". */
bool kn_watcher_new(kn_loop *loop, const char *root, kn_watcher **ret, kn_error *err);
void kn_watcher_free(kn_watcher *w); /* the loop must not turn any more */

/* The Ollamas whose models are looked at: the upstream and those of our own (NULL: none). Both must outlive it. */
void kn_watcher_set(kn_watcher *w, kn_upstream *upstream, kn_crew *crew);

/* A worker of another process's crew. If nobody listens at its address, it does not run, and holds nothing. Both must
 * outlive it. */
void kn_watcher_add_worker(kn_watcher *w, const char *id, kn_upstream *upstream);

/* What it looks at the cards with, for others who must know. */
kn_scanner *kn_watcher_scanner(kn_watcher *w);

typedef struct kn_look kn_look;
struct kn_look {
    void (*seen)(kn_look *l, json_t *report); /* report: the caller's; NULL: memory is out */
    kn_look *next, *prev;
    bool waits;
};

/* seen comes once, never before this returns, unless the look is forgotten. */
void kn_watcher_look(kn_watcher *w, kn_look *l);
void kn_watcher_forget(kn_watcher *w, kn_look *l);

#endif
