/* Who computes for the studio: the image worker, or in tests somebody who only pretends. One picture at a time.
 *
 * Nothing but `waits` is called back from within a call that is made here; all of it happens in the loop's thread.
 * After `done` or `failed` the next picture may be started. */
#ifndef KN_STUDIO_RUNNER_H
#define KN_STUDIO_RUNNER_H

#include <jansson.h>

#include "gateway/admission.h"
#include "studio/inputs.h"
#include "workers/sandbox.h"

enum { KN_RECIPE_MAX = 64 << 20 };

/* A file of the request, in its order. */
typedef struct kn_task_input {
    kn_input_role role;
    char *path;
} kn_task_input;

/* One picture of a job. Everything pointed at stays until the picture has ended. */
typedef struct kn_studio_task {
    const char *job;
    kn_studio_kind kind;
    const kn_studio_request *request;
    const json_t *plan; /* of the API's form */
    unsigned number;    /* of the batch */
    bool has_seed;
    uint64_t seed;
    uint32_t tile_size;    /* of a second try; 0: as planned */
    const char *upscalers; /* the folder of them */
    const char *upscaler;  /* a file in it; NULL: Lanczos */
    double blend;          /* share of Lanczos's in its result */
    bool prescale;
    const char *models_toml; /* where the profile is written, if it is one that a client has put here; else NULL */
    size_t input_count;
    kn_task_input inputs[KN_REQUEST_INPUTS];
    const kn_buf *recipe; /* what `compose` made of all this */
} kn_studio_task;

typedef enum kn_task_phase {
    KN_TASK_WAITING, /* for its turn: told by `waits` */
    KN_TASK_LOADING,
    KN_TASK_ENCODING,
    KN_TASK_CONDITIONING,
    KN_TASK_SAMPLING,
    KN_TASK_DECODING,
    KN_TASK_UPSCALING,
    KN_TASK_SAVING,
    KN_TASK_PHASES,
} kn_task_phase;
extern const char *const kn_task_phases[KN_TASK_PHASES];

/* Why a picture was not made. */
typedef enum kn_task_failure {
    KN_TASK_CANCELLED, /* also by a service that stops before it was begun */
    KN_TASK_OUT_OF_MEMORY,
    KN_TASK_MISSING_MODEL,
    KN_TASK_INPUT_INVALID,
    KN_TASK_ENGINE_LOST, /* the process died */
    KN_TASK_ENGINE_FAILED,
    KN_TASK_ISOLATION_MISSING, /* it cannot be locked in as is required */
    KN_TASK_DISK_FULL,
    KN_TASK_STORAGE_READONLY,
    KN_TASK_INTERNAL,
    KN_TASK_FAILURES,
} kn_task_failure;
extern const char *const kn_task_failures[KN_TASK_FAILURES];

/* Whether the same job may go well another time, without another request. */
bool kn_task_is_retryable(kn_task_failure why);

/* Why a picture was not kept, by the code of the store, with words for people. */
kn_task_failure kn_task_unsaved(kn_code code, const char **ret_message);

typedef struct kn_task_picture {
    kn_picture_format format;
    uint32_t width, height;
    const void *data;
    size_t len;
    const char *hdr_lost; /* why it is without the gain map that it was to keep; NULL: nothing is lost */
} kn_task_picture;

typedef struct kn_task_heard {
    void (*waits)(void *ctx, kn_wait what_for); /* nothing is done for it until progress is told */
    void (*progress)(void *ctx, kn_task_phase phase, unsigned step, unsigned steps);
    void (*preview)(void *ctx, unsigned step, const kn_task_picture *png);
    void (*done)(void *ctx, const kn_task_picture *picture);
    void (*failed)(void *ctx, kn_task_failure why, const char *message); /* message: words of ours for people */
} kn_task_heard;

/* What a picture that a client sent is. facts NULL: it cannot be used, and `message` says why. */
typedef void kn_looked_fn(void *ctx, const kn_input_facts *facts, const void *png, size_t len, const char *message);

/* file NULL: it could not be made, and `message` says why. */
typedef void kn_converted_fn(void *ctx, const void *file, size_t len, const char *message);

/* factor 0: the file is no upscaler. certain: it will not be another one next time. */
typedef void kn_measured_fn(void *ctx, uint32_t factor, bool certain);

/* found: what the file says about how it was made, as workers/inspect_job.h tells it. NULL: the file cannot be used,
 * and `message` says why. */
typedef void kn_inspected_fn(void *ctx, const char *found, size_t len, const char *message);

typedef struct kn_studio_runner {
    void *ctx;
    const char *backend, *device; /* "cpu", the machine's name for people */
    unsigned formats;             /* bits by kn_picture_format: what it can write */
    unsigned kinds;               /* bits by kn_studio_kind: what it can do */
    bool resizes;                 /* it gives results another size than it works at */

    /* In the disk's thread: writes what it needs for a task, the inputs' files among it. May be NULL. */
    bool (*compose)(const kn_studio_task *task, kn_buf *into, kn_error *err);

    /* False: it cannot be begun; failed is not called. */
    bool (*start)(void *ctx, const kn_studio_task *task, const kn_task_heard *heard, void *heard_ctx, kn_error *err);
    void (*cancel)(void *ctx); /* the present picture; `failed` comes soon */

    /* Looks at a picture file; largest_side > 0: and makes a PNG of it that is no larger. `looked` is called once,
     * unless it returns false. The data is copied. */
    bool (*look)(void *ctx, const void *data, size_t len, unsigned largest_side, kn_looked_fn *looked,
                 void *looked_ctx);

    /* Writes one of our own pictures in another format. `converted` is called once, unless it returns false; the data
     * stay the caller's until then. May be NULL if there is one format only. */
    bool (*convert)(void *ctx, const void *data, size_t len, kn_picture_format format, unsigned quality,
                    kn_converted_fn *converted, void *converted_ctx);

    /* By how much an upscaler's file enlarges; likewise. May be NULL: nobody knows. */
    bool (*measure)(void *ctx, const char *path, kn_measured_fn *measured, void *measured_ctx);

    /* How a client's picture was made; likewise. May be NULL: nobody looks. */
    bool (*inspect)(void *ctx, const void *data, size_t len, kn_inspected_fn *inspected, void *inspected_ctx);

    /* What protection whoever computes does without, and why it does not even begin, or NULL. to_look: it looks at
     * pictures; else it does that or draws. Both may be NULL: no protection is needed. */
    kn_cage_gaps (*gaps)(void *ctx);
    const char *(*obstacle)(void *ctx, bool to_look);

    /* Whether it is known that nothing is in the way of whoever computes; if not, the next look finds it out. May be
     * NULL: nothing ever is. */
    bool (*is_proven)(void *ctx);

    /* What a picture would wait for that were ordered now. May be NULL: its turn. */
    kn_wait (*waits_for)(void *ctx);

    void (*rest)(void *ctx); /* gives up what is kept warm; only while nothing runs */
} kn_studio_runner;

#endif
