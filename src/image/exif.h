/* The one thing in a camera's notes that changes the picture: which way up it is. */
#ifndef KN_IMAGE_EXIF_H
#define KN_IMAGE_EXIF_H

#include <stddef.h>
#include <stdint.h>

enum { KN_EXIF_UPRIGHT = 1 };

/* Orientation 1 … 8 as EXIF defines it (tag 0x0112), from TIFF data with or without "Exif\0\0" in front. What is
 * malformed, unknown or not there is upright: notes are never a reason to refuse a picture. */
int kn_exif_orientation(const uint8_t *data, size_t len);

#endif
