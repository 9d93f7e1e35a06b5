/* The one image worker that draws for this server, whoever asks: the gateway's route and the studio.
 *
 * A worker knows the profiles of one models.toml, as they were when it began, and the upscalers of one folder. As long
 * as pictures are wanted that it can draw, it stays with the model that it has loaded, for keep_warm_ms after the last
 * one; before another worker begins it has ended. So there is never more than one model in memory, and a picture finds
 * warm what another client has left.
 *
 * Who draws has its turn (gateway/easel.h), so that there is one picture at a time. */
#ifndef KN_WORKERS_PAINTER_H
#define KN_WORKERS_PAINTER_H

#include "workers/image_process.h"

/* What a picture needs of its worker. Texts are copied. */
typedef struct kn_painter_needs {
    const char *config;    /* NULL: the user's own models.toml */
    const char *upscalers; /* NULL: none */
    kn_isolation isolation;
    uint64_t deadline_ms; /* 0: none */
} kn_painter_needs;

typedef struct kn_painter kn_painter;

/* log: of workers that end as they should not (image_process.h). */
bool kn_painter_new(kn_loop *l, uint64_t keep_warm_ms, void (*log)(void *ctx, const char *line), void *log_ctx,
                    kn_painter **ret, kn_error *err);
void kn_painter_free(kn_painter *p); /* NULL is fine */

/* As kn_image_process_draw, and so is what follows. */
bool kn_painter_draw(kn_painter *p, const kn_painter_needs *needs, const kn_buf *recipe, bool previews,
                     const kn_image_listener *listener, kn_error *err);
void kn_painter_cancel(kn_painter *p);
void kn_painter_cool(kn_painter *p);
void kn_painter_abandon(kn_painter *p);
bool kn_painter_is_busy(const kn_painter *p);
kn_cage_gaps kn_painter_gaps(const kn_painter *p);
const char *kn_painter_obstacle(const kn_painter *p);
kn_cage_told *kn_painter_told(kn_painter *p); /* for others who start workers of the same server */

#endif
