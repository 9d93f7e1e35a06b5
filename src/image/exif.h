/* What matters here of the notes that cameras and programs leave in JPEG and WebP files: which way up a picture is, and
 * the comment in which programs keep a recipe (parameters.h), as AUTOMATIC1111's web UI has it.
 *
 * All of them are TIFF data, with or without "Exif\0\0" in front. What is malformed or not there is passed over: notes
 * are never a reason to refuse a picture. */
#ifndef KN_IMAGE_EXIF_H
#define KN_IMAGE_EXIF_H

#include <stdint.h>

#include "base/buf.h"

enum { KN_EXIF_UPRIGHT = 1 };

/* Orientation 1 … 8 as EXIF defines it (tag 0x0112). */
int kn_exif_orientation(const uint8_t *data, size_t len);

/* Adds the comment (UserComment, tag 0x9286) as UTF-8, if there is one in ASCII or Unicode. False: there is none, or it
 * is larger than the limit of `into`. */
bool kn_exif_comment(const uint8_t *data, size_t len, kn_buf *into);

/* Adds TIFF data that hold this comment and nothing else. text: UTF-8. */
bool kn_exif_write(const char *text, kn_buf *into, kn_error *err);

#endif
