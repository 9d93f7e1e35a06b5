/* Something that the disk's thread is to do. It lives in whoever sends it, and not again before it has come back.
 * Internal to the room. */
#ifndef KN_STUDIO_ERRAND_H
#define KN_STUDIO_ERRAND_H

#include "gateway/disk.h"
#include "studio/store.h"
#include "studio/studio.h"

typedef struct kn_errand kn_errand;
struct kn_errand {
    bool (*work)(kn_errand *e, kn_store *store, kn_error *err); /* in the disk's thread */
    void (*back)(kn_errand *e);                                 /* in the loop's */
    bool ok;
    bool leaves_remains; /* the store has some now (kn_store_wipe_remains) */
    kn_error err;
    kn_job job;
    kn_studio *studio;
    kn_store *store;
};

void kn_errand_send(kn_studio *s, kn_errand *e);

#endif
