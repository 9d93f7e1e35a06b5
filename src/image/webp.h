/* Still WebP files in memory to pixels, lossy and lossless. */
#ifndef KN_IMAGE_WEBP_H
#define KN_IMAGE_WEBP_H

#include "image/image.h"

/* RGBA as stored; ret_orientation says how it wants to be turned (exif.h). */
bool kn_webp_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, int *ret_orientation,
                  kn_error *err);

#endif
