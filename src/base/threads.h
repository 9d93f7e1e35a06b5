/* A pool of threads that share one loop. It has exactly the size it was made with, the caller included; a pool of one
 * runs everything in the caller. Which thread takes which item is not fixed, so items must not depend on it. */
#ifndef KN_BASE_THREADS_H
#define KN_BASE_THREADS_H

#include <stddef.h>

#include "base/error.h"

typedef struct kn_pool kn_pool;

/* item: 0 … n-1; thread: 0 … size-1, for scratch memory of that thread's own. */
typedef void kn_pool_fn(void *ctx, size_t item, unsigned thread);

bool kn_pool_new(unsigned threads, kn_pool **ret, kn_error *err);
void kn_pool_free(kn_pool *p);
unsigned kn_pool_size(const kn_pool *p);

/* Calls fn for every item and returns when all are done. One loop at a time per pool; fn must not start another on it.
 */
void kn_pool_for(kn_pool *p, size_t n, kn_pool_fn *fn, void *ctx);

/* Processors this process may use (its affinity mask and its cgroup's quota), at least one; and how many threads a
 * computation has if nobody says: the cores (cores.h) that these processors belong to, no more than the quota. They are
 * pinned to nothing: the system spreads what is at work over the cores, and on a machine that others use, too, a pinned
 * thread would wait for one processor beside idle ones. */
unsigned kn_threads_available(void);
unsigned kn_threads_default(void);

#endif
