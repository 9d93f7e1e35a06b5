/* The process in which pictures are drawn and strangers' pictures are read: it computes, so that the server does not,
 * and it can be killed, so that a bad file or a crash costs one job.
 *
 * It locks itself in (sandbox.h) before it reads a byte that others made. Then either
 *   - it draws one picture: the recipe comes from standard input, to its end; the PNG file goes to standard output; or
 *   - it serves a session: job after job comes in frames, and so do answers (frames.h), until the input ends. What is
 *     loaded for one picture is there for the next.
 * What went wrong goes to standard error as one fixed word (codes.h), which tells nothing of what was asked for.
 *
 * A job stops within one step when the other end of the output closes, on SIGTERM, and in a session also on request and
 * at the end of the input. docs/image-worker.md describes all of it for people. */
#ifndef KN_WORKERS_IMAGE_WORKER_H
#define KN_WORKERS_IMAGE_WORKER_H

#include "pipelines/model.h"
#include "workers/sandbox.h"

typedef struct kn_image_worker {
    kn_model_wish model;
    const char *upscalers; /* a folder of them; NULL: none */
    kn_isolation isolation;
    bool session;
    bool frames; /* of one picture: previews and the picture come in frames */
} kn_image_worker;

/* Returns the exit status. */
int kn_image_worker_run(const kn_image_worker *o);

#endif
