/* What a picture is going to be, seen before it is finished: each cell of the latent as one pixel, its colour a linear
 * map of the cell's channels.
 *
 * The map is found by the VAE that belongs to the latent: a test card of known colours is encoded once, and the map is
 * the one that comes closest to them. So there are no constants that a model could not fit, and after that a preview
 * costs next to nothing. */
#ifndef KN_PIPELINES_PREVIEW_H
#define KN_PIPELINES_PREVIEW_H

#include "pipelines/autoencoder.h"

enum { KN_PREVIEW_MOST = 512 }; /* pixels of a side */

/* *ret (malloc): [latent channels + 1][3]; the last row is the colour of a cell of zeros. Colours are -1 … 1. */
bool kn_preview_fit(const kn_coder *c, float **ret, kn_error *err);

/* latent: [channels][h][w]. RGBA, opaque; made smaller by whole numbers where it would be too large. */
bool kn_preview_draw(const float *map, int channels, const float *latent, int h, int w, kn_image *ret, kn_error *err);

#endif
