/* The server's side of an image worker (image_worker.h): one process, one job at a time, on the event loop.
 *
 *     kn_image_process *p;
 *     kn_image_process_new(loop, &options, &p, err);
 *     kn_image_process_draw(p, recipe, len, true, &listener, err);    starts the worker if there is none
 *     … listener.progress, listener.preview, …, then listener.done, once, whatever happens …
 *     kn_image_process_free(p);
 *
 * What it promises:
 *   - `done` comes exactly once for each job that was taken, never from within a call made here, and afterwards the
 *     worker is idle or gone. Without keep_warm_ms it is gone: who holds the machine for a job may let go.
 *   - A worker that dies, that breaks the protocol or that cannot be started costs the one job, and its end is told to
 *     the log, also if it had none.
 *   - A job that is cancelled, or whose time is over, has grace_ms to end; then the process is killed, and the result
 *     says so, as nobody can tell what became of the device.
 *   - Memory is bounded by the limits of frames.h: no more is read than one frame, and a recipe stays the caller's and
 *     is sent as fast as the worker takes it.
 * The process must ignore SIGPIPE: that a worker has died is learned otherwise. */
#ifndef KN_WORKERS_IMAGE_PROCESS_H
#define KN_WORKERS_IMAGE_PROCESS_H

#include "http/loop.h"
#include "workers/codes.h"
#include "workers/frames.h"
#include "workers/sandbox.h"

enum {
    KN_IMAGE_GRACE_MS = 90 * 1000,
    KN_IMAGE_KEEP_WARM_MS = 300 * 1000, /* where nobody else needs the device's memory */
};

typedef struct kn_image_process kn_image_process;

/* What the log knows of how workers are locked in. Processes that share it tell it once. */
typedef struct kn_cage_told {
    kn_cage_gaps gaps;
    bool obstacle;
} kn_cage_told;

/* Texts must outlive the process; NULL and 0 leave the choice to the worker where nothing else is said. */
typedef struct kn_image_process_options {
    const char *program;         /* NULL: this one */
    const char *config, *device; /* as in options of `kuno image-worker` */
    const char *profile, *precision;
    const char *upscalers; /* a folder of them */
    unsigned threads;
    kn_isolation isolation;
    uint64_t keep_warm_ms;                    /* how long an idle worker stays; 0: it goes after each job */
    uint64_t grace_ms;                        /* 0: KN_IMAGE_GRACE_MS */
    uint64_t deadline_ms;                     /* of each job; 0: none */
    void (*log)(void *ctx, const char *line); /* NULL: nobody wants to know how workers end that should not */
    void *log_ctx;
    kn_cage_told *told; /* NULL: each obstacle is told for itself, and no gap */
} kn_image_process_options;

/* How a job ended. Views are valid during the call. */
typedef struct kn_image_result {
    kn_job_code code;
    const char *sentence; /* what went wrong, for people at this machine: it may name files. "" if nothing did */
    const uint8_t *file;  /* a picture, or the object about one that was inspected; NULL: none was made */
    size_t len;
    const char *report;      /* a JSON object about a drawn picture; else "" */
    uint32_t width, height;  /* of a drawn picture, or of one that was read, as it came; 0: unknown */
    bool is_transparent;     /* a picture that was read */
    bool was_turned;         /* likewise: by an orientation in its file */
    bool has_gain_map;       /* likewise */
    bool has_damaged_map;    /* likewise: instead of one that can be read */
    kn_icc_name icc_profile; /* likewise; empty: none */
    unsigned mask_lacks;     /* likewise: kn_mask_lacks */
    const char *hdr_lost; /* why a drawn picture is without the gain map that it was to keep; "" if nothing is lost */
    uint32_t factor;      /* of an upscaler that was measured */
    bool forced;          /* the process had to be killed */
    bool lost;            /* it ended by itself, or somebody else killed it, without a word about the job */
} kn_image_result;

/* progress and preview may be NULL. */
typedef struct kn_image_listener {
    void (*progress)(void *ctx, kn_frame_phase phase, uint32_t step, uint32_t steps);
    void (*preview)(void *ctx, const kn_frame_preview *preview);
    void (*done)(void *ctx, const kn_image_result *result);
    void *ctx;
} kn_image_listener;

bool kn_image_process_new(kn_loop *l, const kn_image_process_options *o, kn_image_process **ret, kn_error *err);

/* As kn_image_process_abandon; what is left is freed by the loop. NULL is fine. */
void kn_image_process_free(kn_image_process *p);

/* Both hold for what is drawn or read from now on, and are for when there is no job. The first is about the next
 * worker: an idle one goes. The second about jobs; 0: they have all the time. */
void kn_image_process_change(kn_image_process *p, const kn_image_process_options *o);
void kn_image_process_limit(kn_image_process *p, uint64_t deadline_ms);

/* All are false only if there is a job already or what is given is too large; the listener is copied, the bytes must
 * stay until `done`. largest: see picture_job.h. One of our own pictures is converted, so that what it says of itself
 * goes with it. */
bool kn_image_process_draw(kn_image_process *p, const char *recipe, size_t len, bool previews,
                           const kn_image_listener *listener, kn_error *err);
bool kn_image_process_read(kn_image_process *p, const void *file, size_t len, uint32_t largest,
                           const kn_image_listener *listener, kn_error *err);
bool kn_image_process_convert(kn_image_process *p, const void *file, size_t len, kn_frame_format format,
                              uint32_t quality, const kn_image_listener *listener, kn_error *err);
bool kn_image_process_measure(kn_image_process *p, const char *upscaler, const kn_image_listener *listener,
                              kn_error *err);
bool kn_image_process_inspect(kn_image_process *p, const void *file, size_t len, const kn_image_listener *listener,
                              kn_error *err);

/* Asks the job to stop; does nothing without one. */
void kn_image_process_cancel(kn_image_process *p);

/* An idle worker goes at once: somebody else needs the device. */
void kn_image_process_cool(kn_image_process *p);

/* Kills the worker if there is one and forgets its job, whose `done` does not come any more. */
void kn_image_process_abandon(kn_image_process *p);

bool kn_image_process_is_busy(const kn_image_process *p);
bool kn_image_process_is_warm(const kn_image_process *p); /* there is a process */

/* What protection the last worker that could be locked in had to do without. */
kn_cage_gaps kn_image_process_gaps(const kn_image_process *p);

/* Why the last worker could not be locked in as is required; NULL: it could. */
const char *kn_image_process_obstacle(const kn_image_process *p);

#endif
