/* Image workers as the studio's runner: the one that draws for everybody (workers/painter.h), and another one that
 * looks at clients' pictures. A picture takes its turn like everything that needs the machine, and is patient: it has a
 * place in that line until it is drawn or cancelled (gateway/admission.h). */
#ifndef KN_STUDIO_IMAGE_RUNNER_H
#define KN_STUDIO_IMAGE_RUNNER_H

#include "gateway/easel.h"
#include "studio/runner.h"
#include "workers/painter.h"

typedef struct kn_image_runner kn_image_runner;

/* All of it must outlive the runner. */
typedef struct kn_image_runner_setup {
    kn_easel *easel;
    kn_painter *painter;
    const char *models_toml; /* NULL: the user's own */
    kn_isolation isolation;
    void (*log)(void *ctx, const char *line); /* of whoever looks at pictures; the painter has its own */
    void *log_ctx;
} kn_image_runner_setup;

bool kn_image_runner_new(kn_loop *l, const kn_image_runner_setup *setup, kn_image_runner **ret, kn_error *err);

/* Whoever waits to be told what a picture is, is told that it cannot be said. Before the studio is freed. */
void kn_image_runner_free(kn_image_runner *r);

/* As the studio wants it; the runner stays the owner. */
kn_studio_runner kn_image_runner_face(kn_image_runner *r);

#endif
