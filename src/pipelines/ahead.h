/* The model file that is needed next, on its way from the disk while others compute. A thread of its own asks for it,
 * if there is memory for both parts, if the file is large enough to be worth one, and if the part that works does not
 * itself wait for the disk: it would only wait longer. */
#ifndef KN_PIPELINES_AHEAD_H
#define KN_PIPELINES_AHEAD_H

#include <pthread.h>

#include "pipelines/component.h"

typedef struct kn_ahead {
    const kn_component *next;
    bool runs;
    atomic_bool stop;
    pthread_t thread;
} kn_ahead;

/* next: NULL for none, and one that is loaded counts as none; must stay open until it is stopped. */
void kn_ahead_start(kn_ahead *a, const kn_component *now, const kn_component *next);
void kn_ahead_stop(kn_ahead *a); /* does nothing where nothing runs */

#endif
