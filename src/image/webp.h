/* Still WebP files in memory: to pixels, lossy and lossless, and from pixels. */
#ifndef KN_IMAGE_WEBP_H
#define KN_IMAGE_WEBP_H

#include "base/buf.h"
#include "image/image.h"

/* RGBA as stored; ret_orientation says how it wants to be turned (exif.h). */
bool kn_webp_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, int *ret_orientation,
                  kn_error *err);

/* Adds the comment in its EXIF notes. False: there is none, or the file is damaged. */
bool kn_webp_comment(const void *data, size_t len, kn_buf *into);

/* As kn_jpeg_profile. */
bool kn_webp_profile(const void *data, size_t len, kn_buf *into);

/* Adds a whole file, lossy with quality 1 … 100, with these EXIF notes (NULL: none), to `into`, whose limit is the
 * caller's; after a failure nothing is added. Transparency stays as it is. */
bool kn_webp_write(const kn_image *image, unsigned quality, const kn_buf *exif, kn_buf *into, kn_error *err);

#endif
