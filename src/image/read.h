/* Any supported picture file to upright RGBA pixels: PNG, JPEG and still WebP, told apart by content. */
#ifndef KN_IMAGE_READ_H
#define KN_IMAGE_READ_H

#include "image/image.h"

/* JPEG and WebP are turned as their EXIF notes say; PNG files are not, because their makers do not mean it. Errors are
 * sentences about the file ("is a GIF file; …"), for the caller to put its name in front. */
bool kn_image_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, kn_error *err);

/* The same from a file on disk. */
bool kn_image_read_file(const char *path, const kn_image_limits *limits, kn_image *ret, kn_error *err);

#endif
