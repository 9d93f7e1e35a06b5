/* Masks: which part of a picture is drawn anew, and what is done with them on the way from a file to the latent and
 * back to the pixels.
 *
 * A mask has a value for every pixel: 1 is drawn anew, 0 stays. Those that people give are hard; growing keeps them so,
 * fading and outpainting make the values between. Memory for which there is none is the only thing that can fail. */
#ifndef KN_IMAGE_MASK_H
#define KN_IMAGE_MASK_H

#include <stdbool.h>

#include "image/image.h"

enum { KN_MASK_REACH_MAX = 256 }; /* pixels that people may have a mask grow or fade by */

typedef struct kn_mask {
    uint32_t width, height;
    float *at; /* [height, width], 0 … 1 */
} kn_mask;

bool kn_mask_new(uint32_t width, uint32_t height, kn_mask *ret, kn_error *err); /* all 0 */
void kn_mask_free(kn_mask *m);
bool kn_mask_is_empty(const kn_mask *m); /* nothing would be drawn */

/* As people make them: white is drawn anew and black stays, by the first channel, which is that of a grey picture, too.
 * Where a picture has transparent pixels they are what is drawn, as if erased, and its colours say nothing. Hard: from
 * 128 of 255 on it is 1. */
bool kn_mask_from_picture(const kn_image *rgba, kn_mask *ret, kn_error *err);

/* Why a picture is of no use as such a mask, without making it: bits. Its white falls between cells where no latent
 * with cells of so many pixels would have any of it (kn_mask_resize), once the mask is padded to width x height. */
typedef enum kn_mask_lacks {
    KN_MASK_LACKS_WHITE = 1,
    KN_MASK_MISSES_CELLS_8 = 2,
    KN_MASK_MISSES_CELLS_16 = 4,
} kn_mask_lacks;
unsigned kn_mask_lacks_of(const kn_image *rgba, uint32_t width, uint32_t height);

void kn_mask_invert(kn_mask *m);

/* Each value becomes the largest of a square that reaches so many pixels to every side. */
bool kn_mask_grow(kn_mask *m, uint32_t pixels, kn_error *err);

/* Values rise from what is 0 over so many pixels, so that a seam does not show. What is 0 stays 0. */
bool kn_mask_fade(kn_mask *m, uint32_t pixels, kn_error *err);

/* Bilinear between the centres of pixels and without any mean over what is left out: how the references bring a mask to
 * the latent's size. */
bool kn_mask_resize(const kn_mask *m, uint32_t width, uint32_t height, kn_mask *ret, kn_error *err);

/* drawn, where the mask is 1, over the original of the same size and channels, which is left to the byte where it is 0.
 * The result is in drawn. */
void kn_image_lay_over(kn_image *drawn, const kn_image *original, const kn_mask *m);

/* Paints an RGBA picture red where the mask is at least one half. */
void kn_image_paint_red(kn_image *rgba, const kn_mask *m);

#endif
