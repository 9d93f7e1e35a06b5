/* One way of a picture through a network that enlarges it, tile by tile, so that memory has a bound that the picture
 * does not move.
 *
 * A tile sees `margin` pixels more on each side, as far as there are any, and what comes out for them is cut off.
 * Nothing is blended: where the margin covers what the network sees, the tiles are those of the whole picture; where
 * the network sees further, pixels near a seam differ by what lies beyond. */
#ifndef KN_PIPELINES_UPSCALE_TILES_H
#define KN_PIPELINES_UPSCALE_TILES_H

#include "compute/ops.h"
#include "pipelines/pipeline.h"

/* [h, w, 3] -> [h * scale, w * scale, 3] */
typedef kn_tensor kn_enlarge_fn(kn_run *r, const void *network, kn_tensor picture);

typedef struct kn_enlarger {
    kn_enlarge_fn *run;
    const void *network;
    uint32_t scale;
    uint32_t multiple; /* sides must be multiples of it; what is not is continued by its mirror image */
    uint32_t margin;   /* a multiple of it, too */
} kn_enlarger;

/* Pixels of row y from column x on: [n, 3]. */
typedef void kn_take_pixels_fn(void *ctx, uint32_t y, uint32_t x, uint32_t n, float *to);
typedef void kn_put_pixels_fn(void *ctx, uint32_t y, uint32_t x, uint32_t n, const float *from);

typedef struct kn_tiles {
    uint32_t width, height;           /* of the picture that goes in */
    uint32_t tile_width, tile_height; /* multiples of the enlarger's */
    kn_take_pixels_fn *take;
    kn_put_pixels_fn *put;
    void *ctx;
    kn_progress_fn *progress; /* NULL, or told "tile" before the first and after each */
    void *progress_ctx;
} kn_tiles;

uint32_t kn_tiles_count(const kn_tiles *t);

/* Through a run of the caller's, whose failures, stopping included, become err. */
bool kn_enlarge_tiles(kn_run *r, const kn_enlarger *e, const kn_tiles *t, kn_error *err);

/* What the largest tile takes in a run that follows shapes only. */
void kn_enlarge_shapes(kn_run *shapes, const kn_enlarger *e, const kn_tiles *t);

#endif
