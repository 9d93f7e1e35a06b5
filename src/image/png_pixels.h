/* The pixels of a PNG file as it stores them: every row filtered, all of them compressed, in pieces. The same picture
 * always gives the same bytes.
 *
 * The filter of a row is the one that leaves the least sum of magnitudes. Of what is drawn, photographed or enlarged
 * filters leave noise, in which nothing comes again but runs: looking for more takes ten times as long and, in the
 * codes that it costs, makes the file larger. Of diagrams, texts and flat colours much comes again. Rows from all over
 * a picture are tried both ways, and the shorter way is taken. */
#ifndef KN_IMAGE_PNG_PIXELS_H
#define KN_IMAGE_PNG_PIXELS_H

#include <zlib.h>

#include "image/image.h"

enum { KN_PNG_PIECE_MAX = 1 << 16 };

typedef struct kn_png_pixels {
    const kn_image *image;
    uint32_t next;     /* row */
    size_t row_bytes;  /* with the filter's number in front */
    uint32_t rows_max; /* filtered at a time */

    uint8_t *room;        /* for what follows */
    uint8_t *row, *above; /* one row each, with zeros before it for a pixel that is not there */
    uint8_t *tried;       /* [filters, row_bytes] */
    uint8_t *rows;        /* [rows_max, row_bytes] */

    z_stream z;
    bool is_started, is_complete;
    uint8_t piece[KN_PNG_PIECE_MAX];
} kn_png_pixels;

/* `p` is all zeros; to be closed whatever comes of it. The picture stays the caller's and has 3 or 4 channels. */
bool kn_png_pixels_open(kn_png_pixels *p, const kn_image *image, kn_error *err);
void kn_png_pixels_close(kn_png_pixels *p);

/* Bytes of the next piece, in `piece`; 0 behind the last one. */
size_t kn_png_pixels_next(kn_png_pixels *p);

#endif
