/* For tests that run networks and draw whole pictures: what they need besides the recorded files of golden.h. */
#ifndef KN_TESTS_GOLDEN_MODEL_H
#define KN_TESTS_GOLDEN_MODEL_H

#include "golden.h"
#include "pipelines/model.h"
#include "pipelines/settings.h"

/* Fixtures of a program that runs networks: one device of two threads for all its tests. */
int open_device(void **state);
int close_device(void **state);

/* Compares what models show with a golden file; names that it does not have are passed over. */
struct watcher {
    const golden *want;
    const char *front;              /* in front of the watched name */
    bool picture;                   /* [h, w, c] here, [c, h, w] there */
    const char *const *first_parts; /* names, NULL-terminated, of which only the first part is shown; NULL: none */
    size_t compared;                /* how many were */
};
kn_run open_run(struct watcher *w); /* w may be NULL */
/* Whether what follows is computed in fast precision, and compared within what that may be off: 3 %. */
void compute_fast(bool fast);
void close_run(kn_run *r); /* fails the test if the run has failed */

/* Whole pictures. report may be NULL. */
kn_model *open_model(const kn_model_wish *wish);
kn_image draw(kn_model *m, const kn_wish *wish, const kn_hooks *hooks, kn_draw_report *report);
kn_image read_png(const char *path_below_data);
/* What a recorded request with a strength starts from, and its mask if it has one; the wish points to them. */
void read_start(const char *folder, const json_t *request, kn_wish *wish, kn_image ret[2]);
/* want: from read_png, which gives RGBA. most: in steps of 8 bits; least_psnr: in dB. */
void compare_pictures(const kn_image *got, const kn_image *want, int most, double least_psnr);

#endif
