/* JPEG files in memory to pixels: baseline and progressive, grey and colour. What is cut short or damaged where it
 * matters is refused, never shown half. */
#ifndef KN_IMAGE_JPEG_H
#define KN_IMAGE_JPEG_H

#include "image/image.h"

/* RGBA with alpha 255, as stored; ret_orientation says how it wants to be turned (exif.h). */
bool kn_jpeg_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, int *ret_orientation,
                  kn_error *err);

#endif
