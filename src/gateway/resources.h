/* One look at everything that limits what can run: the machine's memory, its graphics cards, and which models are in
 * memory. Nothing is loaded, unloaded or counted by looking, and nothing is kept.
 *
 * All who ask while a look is under way get its report. It takes at most KN_GPU_DEADLINE_MS, whatever hangs. */
#ifndef KN_GATEWAY_RESOURCES_H
#define KN_GATEWAY_RESOURCES_H

#include <jansson.h>

#include "gpu/gpu.h"
#include "http/upstream.h"

enum { KN_WATCHED_MAX = 17 };

typedef struct kn_watcher kn_watcher;

/* root: in front of /sys, /proc and /dev, for tests; else "". */
bool kn_watcher_new(kn_loop *loop, const char *root, kn_watcher **ret, kn_error *err);
void kn_watcher_free(kn_watcher *w); /* the loop must not turn any more */

/* An Ollama whose models are looked at, at most KN_WATCHED_MAX. worker: its id; NULL: the upstream. Both must outlive
 * the watcher. */
void kn_watcher_add(kn_watcher *w, const char *worker, kn_upstream *upstream);

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
