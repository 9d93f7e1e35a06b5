/* Saves pictures while the next ones are drawn: packing a file and waiting for the disk take a thread of their own,
 * one picture at a time. What it tells comes out in the thread that draws. */
#ifndef KN_CLI_GENERATE_SAVE_H
#define KN_CLI_GENERATE_SAVE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "image/image.h"

typedef struct kn_saving {
    /* What to save, and where; owned from kn_saving_begin on. */
    kn_image picture;
    kn_buf parameters, name;
    bool clobber, metadata;
    char seed[24];

    pthread_t thread;
    bool runs, threaded;
    atomic_bool done; /* kn_saving_end will not wait */
    kn_error err;     /* of the last one */
} kn_saving;

/* Empty texts to fill before the beginning. */
void kn_saving_init(kn_saving *s);
void kn_saving_begin(kn_saving *s);
/* Waits until it is saved; name and seed stay. False with s->err set if it could not be saved. */
bool kn_saving_end(kn_saving *s);
void kn_saving_free(kn_saving *s);

#endif
