/* Resizing to the byte as PIL's Lanczos does it, which is what the reference pipelines feed their models with; and the
 * sizes that they choose. */
#ifndef KN_IMAGE_RESIZE_H
#define KN_IMAGE_RESIZE_H

#include "image/image.h"

/* Transparent pixels do not bleed: with an alpha channel, colours are weighted by it. Neither side is 0. */
bool kn_image_resize(const kn_image *from, uint32_t width, uint32_t height, kn_image *ret, kn_error *err);

/* The size at which Qwen-Image 2.1 sees a reference: about resolution² pixels of the same aspect, both sides multiples
 * of 32; resolution 0: its own size, rounded to these. */
void kn_reference_size(uint32_t width, uint32_t height, unsigned resolution, uint32_t *ret_width, uint32_t *ret_height);

#endif
