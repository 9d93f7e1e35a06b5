/* JPEG files in memory: to pixels, baseline and progressive, grey and colour, and from pixels. What is cut short or
 * damaged where it matters is refused, never shown half. */
#ifndef KN_IMAGE_JPEG_H
#define KN_IMAGE_JPEG_H

#include "base/buf.h"
#include "image/image.h"

/* RGBA with alpha 255, as stored; ret_orientation says how it wants to be turned (exif.h). */
bool kn_jpeg_read(const void *data, size_t len, const kn_image_limits *limits, kn_image *ret, int *ret_orientation,
                  kn_error *err);

/* Adds the comment in its EXIF notes. False: there is none, or the file's head is damaged. */
bool kn_jpeg_comment(const void *data, size_t len, kn_buf *into);

/* Fills an empty buffer with its colour profile. False: it has none, or its head is damaged. True and nothing in it:
 * the profile itself is damaged, or larger than the limit. */
bool kn_jpeg_profile(const void *data, size_t len, kn_buf *into);

/* What stands before the pixels in an APPn segment. */
typedef struct kn_jpeg_segment {
    int app; /* n */
    const void *data;
    size_t len; /* at most KN_JPEG_SEGMENT_MAX */
} kn_jpeg_segment;

enum { KN_JPEG_SEGMENT_MAX = 65533 };

/* Adds a whole file, with quality 1 … 100, to `into`, whose limit is the caller's; after a failure it holds half a
 * file. Transparent pixels lie on white, one channel is grey. From quality 90 on, colours have as many pixels as
 * brightness. */
bool kn_jpeg_write(const kn_image *image, unsigned quality, const kn_jpeg_segment *segments, size_t count, kn_buf *into,
                   kn_error *err);

#endif
