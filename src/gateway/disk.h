/* A thread for what may take long on a disk, so that the event loop never waits for one. Jobs are done one after the
 * other, in order; each then comes back to the loop. */
#ifndef KN_GATEWAY_DISK_H
#define KN_GATEWAY_DISK_H

#include "http/loop.h"

typedef struct kn_disk kn_disk;

/* Lives in whoever gives it; not given again before it has come back. */
typedef struct kn_job kn_job;
struct kn_job {
    void (*work)(kn_job *job); /* in the thread */
    kn_task done;              /* then in the loop */
    kn_job *next;
};

bool kn_disk_new(kn_loop *loop, kn_disk **ret, kn_error *err);

/* Finishes what was given. */
void kn_disk_free(kn_disk *d);

void kn_disk_do(kn_disk *d, kn_job *job);

#endif
