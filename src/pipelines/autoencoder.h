/* Pictures to latents and back with any VAE, whole where memory allows and else in overlapping tiles.
 *
 * What memory a piece takes is not estimated: its shapes are followed first. Tiles are decoded and encoded as diffusers
 * does it: neighbours are blended linearly over what they share, so that no seam shows. */
#ifndef KN_PIPELINES_AUTOENCODER_H
#define KN_PIPELINES_AUTOENCODER_H

#include "compute/ops.h"
#include "image/image.h"

/* One of two directions. Pictures are [h, w, channels] in -1 … 1, latents [h / factor, w / factor, latent channels]. */
typedef kn_tensor kn_coder_fn(kn_run *r, const void *network, kn_tensor x);

typedef struct kn_autoencoder {
    kn_coder_fn *encode, *decode;
    int channels; /* of pictures: 4 with alpha, else 3 */
    int latent_channels, factor;
} kn_autoencoder;

/* A VAE at work. */
typedef struct kn_coder {
    const kn_autoencoder *kind;
    const void *network;
    kn_run *run;
    uint64_t memory_limit; /* of scratch memory, above which there are tiles; they are not made smaller than 16 cells */
    int tile, stride;      /* 0, or what is larger goes in tiles of so many latent cells, one every so many */
} kn_coder;

/* picture: RGB or RGBA as the VAE has it, sides multiples of its factor. *ret (malloc): [latent channels][h][w]. */
bool kn_encode_picture(const kn_coder *c, const kn_image *picture, float **ret, kn_error *err);
/* latent: [latent channels][h][w]. *ret (malloc): [channels][h * factor][w * factor], clamped to -1 … 1. */
bool kn_decode_latent(const kn_coder *c, const float *latent, int h, int w, float **ret, kn_error *err);

/* What these would do in a run that follows shapes only; h, w: of the latent. */
void kn_encode_shapes(const kn_coder *c, int h, int w);
void kn_decode_shapes(const kn_coder *c, int h, int w);

/* 8-bit pixels from planes in -1 … 1, rounded to nearest. */
bool kn_image_from_planes(const float *planes, int channels, int height, int width, kn_image *ret, kn_error *err);

#endif
