/* One picture from one recipe, by the model that it means. The model stays open for the next recipe: if that means the
 * same one, nothing is loaded again that a residency of "cached" has kept. */
#ifndef KN_WORKERS_DRAW_JOB_H
#define KN_WORKERS_DRAW_JOB_H

#include "pipelines/model.h"
#include "pipelines/upscale.h"
#include "workers/codes.h"
#include "workers/frames.h"

typedef struct kn_drawer {
    kn_model_wish wish; /* the operator's: config, device, …; its profile is for recipes that name no model */
    kn_model *model;    /* NULL: none has been opened */
    char *profile;      /* of the model */

    const char *upscalers; /* the operator's folder of them; NULL: none */
    kn_device *device;     /* NULL, or what the upscaler runs on */
    kn_upscaler *upscaler; /* NULL: none has been opened */
    char *upscaler_name;
} kn_drawer;

void kn_drawer_close(kn_drawer *d);

/* Whom to tell on the way. */
typedef struct kn_draw_listener {
    void (*progress)(void *ctx, kn_frame_phase phase, int step, int steps); /* NULL: nobody */
    void (*preview)(void *ctx, int step, int steps, const kn_image *picture);
    void *ctx;
    const atomic_bool *stop;
} kn_draw_listener;

/* *large: the picture was brought to a size of its own. *file: empty memory with its limit; *report: what there is to
 * say about it, a JSON object, likewise. */
kn_job_code kn_draw_job(kn_drawer *d, const char *recipe, size_t len, const kn_draw_listener *listener, kn_buf *file,
                        kn_buf *report, bool *large, kn_error *err);

/* By how much a file of upscalers enlarges, from its names and shapes. */
kn_job_code kn_measure_job(kn_drawer *d, const char *path, uint32_t *ret, kn_error *err);

#endif
