/* The job that runs, on its way through the store: taken with all that its pictures are drawn from, its pictures kept,
 * its end written. queue.c decides when which of it is due, has the pictures drawn, and tells clients.
 *
 * What takes a store is for the disk's thread, everything else for the loop's, which writes nothing here until that has
 * come back. Internal to the room. */
#ifndef KN_STUDIO_RUNNING_H
#define KN_STUDIO_RUNNING_H

#include "studio/jobs.h"
#include "studio/paths.h"
#include "studio/runner.h"

typedef struct kn_running {
    kn_taken_job job; /* without a request: there is none */
    kn_studio_request request;
    json_t *plan, *seeds;
    kn_studio_task task; /* its present picture */
    kn_buf recipe;
    char *models_toml, *upscalers, *upscaler; /* what the task points at */
    kn_task_phase phase;
    json_t *told; /* the job as clients see it, after it was taken and after its end */

    /* A picture that is to be saved, and what became of it. */
    kn_buf picture;
    kn_task_picture made;
    char hdr_lost[700]; /* of a job's first picture that is without it; empty: none is */
    double seconds;     /* that it took */
    json_t *item;       /* as it is in the gallery */
    bool copy_failed;

    /* How it ends. */
    kn_job_state end;
    bool put_off, again_smaller, again_anew;
    kn_task_failure why;
    char message[sizeof((kn_error){ 0 }.text)];
} kn_running;

void kn_running_init(kn_running *r);
void kn_running_free(kn_running *r);

/* Takes the next job, if there is one. `why` is then KN_TASK_INPUT_INVALID if it cannot be drawn any more. */
bool kn_running_take(kn_running *r, kn_store *store, const kn_own_folders *own, kn_error *err);

/* Keeps the picture: in the gallery, with a copy where people want one, or as a result only; and learns from it how
 * fast `runner` is. */
bool kn_running_save(kn_running *r, kn_store *store, const kn_own_folders *own, const kn_studio_runner *runner,
                     kn_error *err);

/* Writes how it ends, or that it goes on later; somebody may have cancelled it meanwhile, which then is its end. */
bool kn_running_end(kn_running *r, kn_store *store, kn_error *err);
bool kn_running_goes_on(const kn_running *r);

/* There is none any more. The picture keeps its room. */
void kn_running_forget(kn_running *r);

#endif
