/* The image worker (workers/image_process.h) as the studio's runner: one process draws and stays warm for a while,
 * another one looks at clients' pictures. A picture takes its turn like everything that needs the machine; while that
 * is not to be had, the picture waits. */
#ifndef KN_STUDIO_IMAGE_RUNNER_H
#define KN_STUDIO_IMAGE_RUNNER_H

#include "gateway/easel.h"
#include "studio/runner.h"
#include "workers/image_process.h"

typedef struct kn_image_runner kn_image_runner;

/* options: as for kn_image_process_new, of the process that draws. easel: NULL: nobody shares the machine. */
bool kn_image_runner_new(kn_loop *l, const kn_image_process_options *options, kn_easel *easel, kn_image_runner **ret,
                         kn_error *err);

/* Whoever waits to be told what a picture is, is told that it cannot be said. Before the studio is freed. */
void kn_image_runner_free(kn_image_runner *r);

/* As the studio wants it; the runner stays the owner. */
kn_studio_runner kn_image_runner_face(kn_image_runner *r);

#endif
