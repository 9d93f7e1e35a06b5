/* HDR in JPEG files: a second, often smaller picture behind the first, the gain map, says by how much each place is
 * brighter on a screen that can do more (ISO 21496-1). Who knows nothing of it sees the first picture as ever.
 *
 *     kn_gain_map map;
 *     kn_gain_map_read(file, len, &limits, &map, err)     what the source has
 *     kn_gain_map_fit(&map, &source, &result, err)        gone where the result is another brightness
 *     kn_gain_map_write(&result, 95, notes, &map, into, err)
 *     kn_gain_map_free(&map)
 *
 * What is said of a map is read as ISO 21496-1 has it, else as Adobe's XMP has it (hdrgm), and written as both, with
 * the colour profile of the source: its map belongs to colours that are seen through that. All sizes and places in a
 * file are checked; errors are sentences about it, and never a reason to refuse the picture itself. */
#ifndef KN_IMAGE_GAIN_MAP_H
#define KN_IMAGE_GAIN_MAP_H

#include "base/buf.h"
#include "image/jpeg.h"

/* As they are written: exactly. */
typedef struct kn_fraction {
    int64_t over; /* within 32 bits, with a sign or without one as the place wants it */
    uint32_t under;
} kn_fraction;

static inline double kn_fraction_value(kn_fraction f) {
    return (double)f.over / f.under;
}

/* Of a colour, or of all. min and max: of the gain, in stops; the offsets are added before and taken away after. */
typedef struct kn_gain {
    kn_fraction min, max, gamma, base_offset, alternate_offset;
} kn_gain;

typedef struct kn_gain_facts {
    unsigned channels;                             /* 1 or 3 */
    bool use_base_colours;                         /* the gain is in the colour space of the picture */
    kn_fraction base_headroom, alternate_headroom; /* in stops: from where on, and where all of it counts */
    kn_gain of[3];
} kn_gain_facts;

enum { KN_PROFILE_PIECES = 8 }; /* of a colour profile, 64 KiB each */

typedef struct kn_gain_map {
    kn_gain_facts facts;
    kn_image picture; /* RGBA, upright as kn_image_read makes its picture */
    bool grey;        /* and to be written so */
    kn_buf profile;   /* the pieces of the source's colour profile as they stand in its segments, one after the other */
    size_t piece_len[KN_PROFILE_PIECES], piece_count;
} kn_gain_map;

/* Whether a file says that it has one; it may still not be usable. */
bool kn_gain_map_is_there(const void *data, size_t len);

/* Whether there is one that can be read. */
typedef enum kn_gain_map_state { KN_GAIN_MAP_NONE, KN_GAIN_MAP_GOOD, KN_GAIN_MAP_DAMAGED } kn_gain_map_state;
kn_gain_map_state kn_gain_map_look(const void *data, size_t len, const kn_image_limits *limits);

/* False also where there is none. */
bool kn_gain_map_read(const void *data, size_t len, const kn_image_limits *limits, kn_gain_map *ret, kn_error *err);
void kn_gain_map_free(kn_gain_map *m);

/* What is brighter or darker than it was, by more than a quarter of a stop, loses its gain; by one stop, all of it.
 * Both pictures show the same, at any sizes of the same shape. */
bool kn_gain_map_fit(kn_gain_map *m, const kn_image *before, const kn_image *after, kn_error *err);

/* Whether sizes are of the same shape, within one part in a hundred. */
bool kn_gain_map_has_shape(uint32_t width, uint32_t height, uint32_t other_width, uint32_t other_height);

/* As kn_jpeg_write, which makes the same pixels. exif: a segment, NULL: none. */
bool kn_gain_map_write(const kn_image *image, unsigned quality, const kn_jpeg_segment *exif, const kn_gain_map *m,
                       kn_buf *into, kn_error *err);

#endif
