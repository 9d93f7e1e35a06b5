#include "image/transform.h"

#include <string.h>

#include "image/exif.h"

bool kn_image_orient(kn_image *image, int orientation, kn_error *err) {
    if (orientation == KN_EXIF_UPRIGHT)
        return true;
    /* Where the source pixel of the result's first pixel is, and the steps to those of its right and lower neighbour:
     * counted in pixels, from the last column or row where `last_…`, along columns (1) or rows (w). */
    ptrdiff_t w = image->width, h = image->height, last_column = w - 1, last_row = (h - 1) * w;
    const struct {
        ptrdiff_t start, right, down;
    } ways[9] = {
        [2] = { last_column, -1, w },             /* mirrored left to right */
        [3] = { last_row + last_column, -1, -w }, /* upside down */
        [4] = { last_row, 1, -w },                /* mirrored top to bottom */
        [5] = { 0, w, 1 },                        /* transposed */
        [6] = { last_row, -w, 1 },                /* to be turned right */
        [7] = { last_row + last_column, -w, -1 }, /* transposed about the other diagonal */
        [8] = { last_column, w, -1 },             /* to be turned left */
    };
    bool swapped = orientation >= 5;
    kn_image turned = { 0 };
    if (!kn_image_new(swapped ? image->height : image->width, swapped ? image->width : image->height, image->channels,
                      &turned, err))
        return false;
    uint8_t *to = turned.pixels;
    for (uint32_t y = 0; y < turned.height; y++) {
        ptrdiff_t at = ways[orientation].start + y * ways[orientation].down;
        for (uint32_t x = 0; x < turned.width; x++, at += ways[orientation].right, to += image->channels)
            memcpy(to, image->pixels + at * (ptrdiff_t)image->channels, image->channels);
    }
    kn_image_free(image);
    *image = turned;
    return true;
}

static size_t count_pixels(const kn_image *image) {
    return (size_t)image->width * image->height;
}

bool kn_image_is_transparent(const kn_image *image) {
    size_t i = 0, n = image->channels == 4 ? count_pixels(image) : 0;
    while (i < n && image->pixels[4 * i + 3] == 255)
        i++;
    return i < n;
}

void kn_image_make_opaque(kn_image *image) {
    for (size_t i = 0, n = image->channels == 4 ? count_pixels(image) : 0; i < n; i++)
        image->pixels[4 * i + 3] = 255;
}

void kn_image_drop_alpha(kn_image *image) {
    if (image->channels != 4)
        return;
    for (size_t i = 0, n = count_pixels(image); i < n; i++)
        memmove(image->pixels + 3 * i, image->pixels + 4 * i, 3);
    image->channels = 3;
}

bool kn_image_over_white(const kn_image *rgba, kn_image *ret, kn_error *err) {
    kn_image image = { 0 };
    if (!kn_image_new(rgba->width, rgba->height, 3, &image, err))
        return false;
    const uint8_t *from = rgba->pixels;
    uint8_t *to = image.pixels;
    for (size_t i = 0; i < (size_t)rgba->width * rgba->height; i++, from += 4) {
        for (int c = 0; c < 3; c++) {
            unsigned t = from[c] * from[3] + 255u * (255u - from[3]) + 128;
            *to++ = (uint8_t)((t + (t >> 8)) >> 8); /* t / 255, rounded */
        }
    }
    *ret = image;
    return true;
}
