/* From a latent to pixels with any VAE: whole when memory allows, else in overlapping tiles; then to 8 bits. */
#ifndef KN_PIPELINES_DECODE_H
#define KN_PIPELINES_DECODE_H

#include "compute/ops.h"
#include "pipelines/pipeline.h"

typedef struct kn_decoder {
    kn_tensor (*decode)(kn_run *r, void *ctx, kn_tensor latent); /* [h, w, latent channels] -> [h f, w f, channels] */
    void *ctx;
    int latent_channels, channels, factor;
    uint64_t bytes_per_pixel; /* scratch memory that decode needs, per pixel of its result */
} kn_decoder;

/* latent: [latent channels][h][w]. *ret (malloc): [channels][h * factor][w * factor], clamped to -1 … 1. Decodes in
 * tiles when the whole would need more than memory_limit bytes. */
bool kn_decode_latent(const kn_decoder *d, kn_run *r, const float *latent, int h, int w, uint64_t memory_limit,
                      float **ret, kn_error *err);

/* The same in tiles of `tile` latent cells, one every `stride` cells, blended linearly over what overlaps. */
bool kn_decode_tiled(const kn_decoder *d, kn_run *r, const float *latent, int h, int w, int tile, int stride,
                     float **ret, kn_error *err);

/* What kn_decode_latent would do in a run that follows shapes only. */
void kn_decode_shapes(const kn_decoder *d, kn_run *r, int h, int w, uint64_t memory_limit);

/* 8-bit pixels from planes in -1 … 1, rounded to nearest. */
bool kn_image_from_planes(const float *planes, int channels, int height, int width, kn_image *ret, kn_error *err);

#endif
