/* What stands in the segments of JPEG files about a gain map. Internal to gain maps (gain_map.h). */
#ifndef KN_IMAGE_GAIN_MAP_FILE_H
#define KN_IMAGE_GAIN_MAP_FILE_H

#include "image/gain_map.h"

typedef struct kn_span_of_file {
    const uint8_t *data;
    size_t len;
} kn_span_of_file;

/* Steps through the segments before the pixels: *at begins as 0. What follows the length is in *ret. False: there are
 * no more. */
bool kn_segments_next(const uint8_t *file, size_t len, size_t *at, uint8_t *ret_marker, kn_span_of_file *ret);

/* The text or data behind a mark at the beginning of a segment (with its NUL). False: another one. */
bool kn_segment_is(kn_span_of_file segment, const char *mark, size_t mark_len, kn_span_of_file *ret);

/* The first such segment of a file. */
bool kn_segment_find(const uint8_t *file, size_t len, uint8_t marker, const char *mark, size_t mark_len,
                     kn_span_of_file *ret);

enum { KN_APP1 = 0xE1, KN_APP2 = 0xE2 };
#define KN_MARK_XMP  "http://ns.adobe.com/xap/1.0/"
#define KN_MARK_EXIF "Exif\0"
#define KN_MARK_ISO  "urn:iso:std:iso:ts:21496:-1"
#define KN_MARK_MPF  "MPF"
#define KN_MARK_ICC  "ICC_PROFILE"

/* All marks end with a NUL, which is part of them. */
#define KN_SEGMENT_FIND(file, len, marker, mark, ret) kn_segment_find(file, len, marker, mark, sizeof(mark), ret)

/* The facts of a map from its own file: those of ISO, else those of XMP. */
bool kn_gain_facts_read(const uint8_t *map, size_t len, kn_gain_facts *ret, kn_error *err);
bool kn_gain_facts_from_iso(kn_span_of_file data, kn_gain_facts *ret, kn_error *err);
bool kn_gain_facts_from_xmp(kn_span_of_file text, kn_gain_facts *ret, kn_error *err);

/* And back, each with its mark. */
bool kn_gain_facts_to_iso(const kn_gain_facts *f, kn_buf *into);
bool kn_gain_facts_to_xmp(const kn_gain_facts *f, kn_buf *into);

#endif
