/* The studio: pictures as jobs that survive, and everything about them.
 *
 *     request.h planner.h      what is asked for, and what it means on this machine
 *     store.h files.h jobs.h   what must be there after a crash
 *     inputs.h gallery.h       pictures that came and pictures that were made
 *     settings.h profiles.h upscalers.h speed.h
 *     events.h                 what has happened, for those who watch
 *     runner.h                 who computes
 *     queue.c running.h        one job after the other
 *     downloads.h fetcher.h    models on their way, one after the other
 *     api.h                    /api/v1
 *
 * The loop's thread decides; everything that touches the disk is an errand (errand.h) that the disk's thread does, one
 * at a time and in order, and that then comes back. What people write is in the database, in the gallery and in answers
 * to clients, never in a log line. */
#ifndef KN_STUDIO_STUDIO_H
#define KN_STUDIO_STUDIO_H

#include "http/loop.h"
#include "studio/runner.h"

typedef struct kn_studio kn_studio;

typedef struct kn_studio_setup {
    kn_loop *loop;
    const char *folder;      /* of its own, absolute */
    const char *state_dir;   /* the service's, where clients may write nothing; NULL: only `folder` is known */
    const char *models_toml; /* NULL: the user's */
    const kn_studio_runner *runner;
    const char *mirror;          /* that models are downloaded from; NULL: where the catalogue says */
    bool offline;                /* nothing is downloaded */
    unsigned download_timeout_s; /* catalog/fetch.h; 0: as usual */
    unsigned wait_ms;            /* for a lock of another program on the database */
    void (*log)(void *ctx, const char *line);
    void (*leave)(void *ctx); /* a client wants the service to end */
    void *ctx;
} kn_studio_setup;

/* Opens everything, takes up what was left, and begins with the first job in the queue. */
bool kn_studio_new(const kn_studio_setup *setup, kn_studio **ret, kn_error *err);

/* Cuts what is left; a job that runs is queued again at the next start. Called from outside of the loop, for what is
 * under way comes back first. */
void kn_studio_free(kn_studio *s);

/* No job begins any more; calls `stopped` when the one that runs has ended. cancel: it is to end now. */
void kn_studio_stop(kn_studio *s, bool cancel, void (*stopped)(void *ctx), void *ctx);

/* Afterwards: the picture that is still being drawn is not waited for any more; its job goes on after the next start.
 */
void kn_studio_cut(kn_studio *s);

#endif
