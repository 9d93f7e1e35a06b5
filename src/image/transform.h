/* Changes of pixels that keep the size: turning upright, and taking transparency away. */
#ifndef KN_IMAGE_TRANSFORM_H
#define KN_IMAGE_TRANSFORM_H

#include "image/image.h"

/* Turns and mirrors in place as an EXIF orientation (1 … 8) says; 5 … 8 swap the sides. */
bool kn_image_orient(kn_image *image, int orientation, kn_error *err);

/* Whether any pixel is; an RGB picture is not. */
bool kn_image_is_transparent(const kn_image *image);

/* Take transparency away as it is, with the channel or without it. */
void kn_image_make_opaque(kn_image *image);
void kn_image_drop_alpha(kn_image *image);

/* RGBA on white -> RGB, rounded as PIL's paste. */
bool kn_image_over_white(const kn_image *rgba, kn_image *ret, kn_error *err);

#endif
