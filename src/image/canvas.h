/* A picture on a larger canvas: for outpainting with room on its sides and the mask of what is to be drawn there, and
 * to reach a size that a model can make. */
#ifndef KN_IMAGE_CANVAS_H
#define KN_IMAGE_CANVAS_H

#include "image/mask.h"

/* What comes on each side, in pixels. */
typedef struct kn_sides {
    uint32_t left, top, right, bottom;
} kn_sides;

enum { KN_SIDE_MAX = 8192 }; /* that can be added on one side */

/* The multiple of step that is not smaller. */
uint32_t kn_side_on_grid(uint32_t side, uint32_t step);

/* The new pixels are mid grey, and opaque. */
bool kn_image_extend(const kn_image *picture, kn_sides by, kn_image *ret, kn_error *err);

/* The mask of such a canvas for a picture of this size. With room of `fade` pixels on both its sides, what is next to
 * added ones is drawn anew, too, the less the farther it is from them, so that the picture flows on. */
bool kn_mask_of_sides(uint32_t width, uint32_t height, kn_sides by, uint32_t fade, kn_mask *ret, kn_error *err);

/* To a size that is not smaller: the last column and row are repeated. Of the same size it is a copy. */
bool kn_image_pad(const kn_image *picture, uint32_t width, uint32_t height, kn_image *ret, kn_error *err);
bool kn_mask_pad(const kn_mask *m, uint32_t width, uint32_t height, kn_mask *ret, kn_error *err);

/* And back: what lies beyond this size is taken away, in place. */
void kn_image_cut(kn_image *picture, uint32_t width, uint32_t height);

#endif
