/* Resizing to the byte as PIL does it, which is what the reference pipelines feed their models with; and the sizes that
 * they choose. */
#ifndef KN_IMAGE_RESIZE_H
#define KN_IMAGE_RESIZE_H

#include "image/image.h"

/* Lanczos for pictures; some vision encoders were trained with bicubic. */
typedef enum kn_filter { KN_LANCZOS, KN_BICUBIC, KN_HAMMING, KN_BILINEAR, KN_BOX, KN_FILTER_COUNT } kn_filter;

/* Transparent pixels do not bleed: with an alpha channel, colours are weighted by it. Neither side is 0. */
bool kn_image_resize_by(const kn_image *from, uint32_t width, uint32_t height, kn_filter filter, kn_image *ret,
                        kn_error *err);
bool kn_image_resize(const kn_image *from, uint32_t width, uint32_t height, kn_image *ret, kn_error *err); /* Lanczos */

/* The size at which Qwen-Image 2.1 sees a reference: about resolution² pixels of the same aspect, both sides multiples
 * of 32; resolution 0: its own size, rounded to these. */
void kn_reference_size(uint32_t width, uint32_t height, unsigned resolution, uint32_t *ret_width, uint32_t *ret_height);

/* The size at which a vision encoder of Qwen sees a picture: both sides multiples of `factor`, least to most pixels. */
void kn_vision_size(uint32_t width, uint32_t height, unsigned factor, double least, double most, uint32_t *ret_width,
                    uint32_t *ret_height);

/* A picture of the aspect a:b with about so many pixels (2^20 are ComfyUI's megapixel), both sides multiples of step.
 */
void kn_aspect_size(unsigned a, unsigned b, double pixels, unsigned step, uint32_t *ret_width, uint32_t *ret_height);

#endif
