/* Pixels to a file of any kind that can be written: PNG, JPEG and WebP, the last two with a recipe text in their EXIF
 * notes, where AUTOMATIC1111's web UI has it, and read from there again. Colours are sRGB, which is what programs take
 * a file without a colour profile for; nothing but the recipe is in it. */
#ifndef KN_IMAGE_WRITE_H
#define KN_IMAGE_WRITE_H

#include "base/buf.h"
#include "image/image.h"

enum { KN_IMAGE_QUALITY = 95 }; /* where nothing is said */

typedef struct kn_image_form {
    kn_image_kind kind;                 /* KN_IMAGE_PNG, KN_IMAGE_JPEG or KN_IMAGE_WEBP */
    unsigned quality;                   /* 1 … 100; of no account for PNG */
    const char *parameters;             /* a recipe text (parameters.h); NULL: none */
    const struct kn_gain_map *gain_map; /* of a JPEG file (gain_map.h); NULL: none */
} kn_image_form;

/* Adds a whole file to `into`, whose limit is the caller's. Transparent pixels of a JPEG file lie on white. */
bool kn_image_write(const kn_image *image, const kn_image_form *form, kn_buf *into, kn_error *err);

/* Whether a recipe text fits into the notes of a JPEG file, which hold 64 KiB. */
bool kn_image_has_room(kn_image_kind kind, const char *parameters);

/* Adds the recipe text that a file has. False: it has none. */
bool kn_image_parameters(const void *data, size_t len, kn_buf *into);

#endif
