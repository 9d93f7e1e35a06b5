/* Pictures: 8-bit pixels in memory, what a file of unknown origin is, and the limits under which one is read.
 *
 * Here: the pixels and the recognition of formats. read.h turns any supported file into upright pixels and write.h
 * pixels into a file, with png.h, jpeg.h, webp.h and exif.h behind both; transform.h, resize.h and canvas.h change
 * pixels, mask.h says which ones a model may; parameters.h has the recipe text that travels inside files, import.h what
 * others write there, gain_map.h what makes a photo HDR, icc.h the name of a colour profile. Formats are recognised by
 * their first bytes, never by a name or a declared type. Colours are taken for sRGB whatever profile a file has. */
#ifndef KN_IMAGE_IMAGE_H
#define KN_IMAGE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct kn_image {
    uint32_t width, height;
    unsigned channels; /* 3: red, green, blue; 4: and alpha, not premultiplied; 1: grey, of gain maps alone */
    uint8_t *pixels;   /* [height, width, channels], rows without gaps */
    bool was_turned;   /* upright, when it was read (read.h) */
} kn_image;

/* Pixels are undefined. Neither side is 0. */
bool kn_image_new(uint32_t width, uint32_t height, unsigned channels, kn_image *ret, kn_error *err);
void kn_image_free(kn_image *image);

/* Checked before anything is allocated: a header of 30 bytes can ask for gigabytes. */
typedef struct kn_image_limits {
    size_t bytes;    /* of the file */
    uint32_t side;   /* width and height, in pixels */
    uint64_t pixels; /* width * height */
} kn_image_limits;

/* What people's pictures need and a small machine can bear: 256 MiB of pixels at most. */
#define KN_IMAGE_LIMITS ((kn_image_limits){ .bytes = 64u << 20, .side = 16384, .pixels = 64u << 20 })

typedef enum kn_image_kind {
    KN_IMAGE_UNKNOWN,
    KN_IMAGE_PNG,
    KN_IMAGE_JPEG,
    KN_IMAGE_WEBP,
    KN_IMAGE_GIF,
    KN_IMAGE_BMP,
    KN_IMAGE_TIFF,
    KN_IMAGE_AVIF,
    KN_IMAGE_HEIF,
    KN_IMAGE_JXL,
} kn_image_kind;

kn_image_kind kn_image_kind_of(const void *data, size_t len);
const char *kn_image_kind_name(kn_image_kind kind);

/* What readers check first: that the file is not empty, not too large and of a known kind; then, from its header, that
 * its pixels are within the limits. */
bool kn_image_check_file(const void *data, size_t len, const kn_image_limits *limits, kn_image_kind *ret,
                         kn_error *err);
bool kn_image_check_size(uint32_t width, uint32_t height, const kn_image_limits *limits, kn_error *err);

#endif
