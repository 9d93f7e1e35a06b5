#include "image/gain_map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "image/exif.h"
#include "image/gain_map_file.h"
#include "image/resize.h"
#include "image/transform.h"

enum {
    MAP_QUALITY = 95,
    PICTURES_MAX = 16, /* in one file */
    LEVELS = 256,
};

/* ---- where the map is ---- */

/* TIFF data with the list of a file's pictures. */
struct index {
    const uint8_t *data;
    size_t len;
    bool little;
};

static uint32_t number_at(const struct index *x, size_t at, size_t bytes) {
    uint32_t v = 0;
    for (size_t i = 0; i < bytes && at < x->len && i < x->len - at; i++)
        v |= (uint32_t)x->data[at + i] << 8 * (x->little ? i : bytes - 1 - i);
    return v;
}

/* Where the entries are, 16 bytes for each picture. 0: there are none. */
static uint32_t find_entries(const struct index *x, uint32_t *ret_count) {
    enum { ENTRY = 12, PICTURE = 16, LIST = 0xB002, HEAD = 8 };
    uint32_t directory = number_at(x, 4, 4);
    if (directory < HEAD || directory > x->len - 2)
        return 0;
    uint32_t count = number_at(x, directory, 2);
    for (uint32_t i = 0; i < count && directory + 2 + (size_t)(i + 1) * ENTRY <= x->len; i++) {
        size_t at = directory + 2 + (size_t)i * ENTRY;
        if (number_at(x, at, 2) != LIST)
            continue;
        uint32_t bytes = number_at(x, at + 4, 4), from = number_at(x, at + 8, 4);
        if (from < HEAD || from > x->len || bytes > x->len - from)
            return 0;
        *ret_count = KN_MIN(bytes / PICTURE, PICTURES_MAX);
        return from;
    }
    return 0;
}

/* A picture behind the first one that is a gain map, by the list of all (MPF). err tells of the first one that is none.
 */
static bool find_by_index(const uint8_t *file, size_t len, kn_span_of_file *ret, kn_gain_facts *facts, kn_error *err) {
    enum { PICTURE = 16, SIZE_AT = 4, PLACE_AT = 8, LEAST = 10 };
    kn_span_of_file data;
    uint32_t count = 0;
    if (!KN_SEGMENT_FIND(file, len, KN_APP2, KN_MARK_MPF, &data) || data.len < LEAST)
        return false;
    const struct index x = { data.data, data.len, data.data[0] == 'I' };
    uint32_t from = find_entries(&x, &count);
    size_t base = (size_t)(data.data - file);
    for (uint32_t i = 1; from && i < count; i++) {
        uint32_t size = number_at(&x, from + i * PICTURE + SIZE_AT, 4);
        uint32_t place = number_at(&x, from + i * PICTURE + PLACE_AT, 4);
        if (!place || place > len - base || size > len - base - place)
            continue;
        *ret = (kn_span_of_file){ file + base + place, size };
        if (kn_gain_facts_read(ret->data, ret->len, facts, err))
            return true;
    }
    return false;
}

/* The same by the list in XMP: the last picture of the file, as long as is said there. */
static bool find_by_length(const uint8_t *file, size_t len, kn_span_of_file *ret, kn_gain_facts *facts, kn_error *err) {
    static const char semantic[] = "Item:Semantic=\"GainMap\"", length[] = "Item:Length=\"";
    kn_span_of_file xmp;
    if (!KN_SEGMENT_FIND(file, len, KN_APP1, KN_MARK_XMP, &xmp))
        return false;
    const char *end = (const char *)xmp.data + xmp.len;
    const char *item = memmem(xmp.data, xmp.len, semantic, sizeof semantic - 1);
    const char *at = item ? memmem(item, (size_t)(end - item), length, sizeof length - 1) : NULL;
    size_t size = 0;
    for (at = at ? at + sizeof length - 1 : end; at < end && *at >= '0' && *at <= '9' && size <= len; at++)
        size = size * 10 + (size_t)(*at - '0');
    if (size < 2 || size >= len || file[len - size] != 0xFF || file[len - size + 1] != 0xD8)
        return false;
    *ret = (kn_span_of_file){ file + len - size, size };
    return kn_gain_facts_read(ret->data, ret->len, facts, err);
}

bool kn_gain_map_is_there(const void *data, size_t len) {
    static const char mark[] = "hdrgm:Version";
    kn_span_of_file found;
    return KN_SEGMENT_FIND(data, len, KN_APP2, KN_MARK_ISO, &found) ||
           (KN_SEGMENT_FIND(data, len, KN_APP1, KN_MARK_XMP, &found) &&
            memmem(found.data, found.len, mark, sizeof mark - 1));
}

/* ---- reading ---- */

static bool is_grey(kn_span_of_file map) {
    enum { BASELINE = 0xC0, PROGRESSIVE = 0xC2, CHANNELS_AT = 5 };
    kn_span_of_file frame;
    uint8_t marker = 0;
    for (size_t at = 0; kn_segments_next(map.data, map.len, &at, &marker, &frame);)
        if (marker >= BASELINE && marker <= PROGRESSIVE && frame.len > CHANNELS_AT)
            return frame.data[CHANNELS_AT] == 1;
    return false;
}

static bool read_profile(const uint8_t *file, size_t len, kn_gain_map *m, kn_error *err) {
    kn_span_of_file segment, data;
    uint8_t marker = 0;
    kn_buf_init(&m->profile, (size_t)KN_PROFILE_PIECES * KN_JPEG_SEGMENT_MAX);
    for (size_t at = 0; kn_segments_next(file, len, &at, &marker, &segment);) {
        if (marker != KN_APP2 || !kn_segment_is(segment, KN_MARK_ICC, sizeof KN_MARK_ICC, &data))
            continue;
        if (m->piece_count == KN_PROFILE_PIECES)
            return kn_fail(err, KN_E_RANGE, "its colour profile is longer than %d KiB", KN_PROFILE_PIECES * 64);
        if (!kn_buf_add(&m->profile, segment.data, segment.len))
            return kn_fail_nomem(err, segment.len);
        m->piece_len[m->piece_count++] = segment.len;
    }
    return true;
}

static int orientation_of(const uint8_t *file, size_t len) {
    kn_span_of_file notes;
    return KN_SEGMENT_FIND(file, len, KN_APP1, KN_MARK_EXIF, &notes) ? kn_exif_orientation(notes.data, notes.len)
                                                                     : KN_EXIF_UPRIGHT;
}

bool kn_gain_map_read(const void *data, size_t len, const kn_image_limits *limits, kn_gain_map *ret, kn_error *err) {
    kn_gain_map m = { .piece_count = 0 };
    kn_span_of_file file = { NULL, 0 };
    kn_error why = { 0 };
    int ignored = 0;
    if (!kn_gain_map_is_there(data, len))
        return kn_fail(err, KN_E_NOT_FOUND, "it has no gain map");
    if (!find_by_index(data, len, &file, &m.facts, &why) && !find_by_length(data, len, &file, &m.facts, &why))
        return kn_fail(err, why.code ? why.code : KN_E_NOT_FOUND, "%s",
                       why.code ? why.text : "its gain map is not where the file says");
    m.grey = m.facts.channels == 1 && is_grey(file);
    bool ok = kn_jpeg_read(file.data, file.len, limits, &m.picture, &ignored, &why);
    if (!ok)
        kn_fail(err, why.code, "its gain map %s", why.text);
    ok = ok && kn_image_orient(&m.picture, orientation_of(data, len), err) && read_profile(data, len, &m, err);
    if (ok)
        *ret = m;
    else
        kn_gain_map_free(&m);
    return ok;
}

kn_gain_map_state kn_gain_map_look(const void *data, size_t len, const kn_image_limits *limits) {
    kn_gain_map map;
    if (!kn_gain_map_is_there(data, len))
        return KN_GAIN_MAP_NONE;
    if (!kn_gain_map_read(data, len, limits, &map, NULL))
        return KN_GAIN_MAP_DAMAGED;
    kn_gain_map_free(&map);
    return KN_GAIN_MAP_GOOD;
}

void kn_gain_map_free(kn_gain_map *m) {
    kn_image_free(&m->picture);
    kn_buf_free(&m->profile);
    *m = (kn_gain_map){ .piece_count = 0 };
}

/* ---- another picture under it ---- */

bool kn_gain_map_has_shape(uint32_t width, uint32_t height, uint32_t other_width, uint32_t other_height) {
    double shape = (double)width / height, other = (double)other_width / other_height;
    return fabs(shape / other - 1) <= 0.01;
}

static void make_linear(float ret[LEVELS]) {
    for (int i = 0; i < LEVELS; i++) {
        double v = i / 255.0;
        ret[i] = (float)(v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
}

static double luminance(const kn_image *p, size_t at, const float linear[LEVELS]) {
    const uint8_t *c = p->pixels + at * p->channels;
    return 0.2126 * (double)linear[c[0]] + 0.7152 * (double)linear[c[1]] + 0.0722 * (double)linear[c[2]];
}

/* How much of the gain stays where brightness was this and now is that. */
static double share(double before, double after) {
    static const double floor_light = 1.0 / 1024, kept = 0.25, gone = 1;
    double stops = fabs(log2((after + floor_light) / (before + floor_light)));
    return KN_MIN(KN_MAX(1 - (stops - kept) / (gone - kept), 0.0), 1.0);
}

/* A level of the map with only so much of its gain. */
static uint8_t faded(const kn_gain *g, uint8_t level, double by) {
    double min = kn_fraction_value(g->min), range = kn_fraction_value(g->max) - min;
    double gamma = kn_fraction_value(g->gamma);
    if (!(range > 0))
        return level;
    double gain = by * (min + range * pow(level / 255.0, 1 / gamma));
    double share = KN_MIN(KN_MAX((gain - min) / range, 0.0), 1.0);
    return (uint8_t)lround(255 * pow(share, gamma));
}

static void fade(kn_gain_map *m, const kn_image *before, const kn_image *after) {
    float linear[LEVELS];
    size_t count = (size_t)m->picture.width * m->picture.height;
    make_linear(linear);
    for (size_t i = 0; i < count; i++) {
        double by = share(luminance(before, i, linear), luminance(after, i, linear));
        uint8_t *levels = m->picture.pixels + i * m->picture.channels;
        for (unsigned c = 0; c < 3 && by < 1; c++)
            levels[c] = faded(&m->facts.of[m->facts.channels == 3 ? c : 0], levels[c], by);
    }
}

bool kn_gain_map_fit(kn_gain_map *m, const kn_image *before, const kn_image *after, kn_error *err) {
    kn_image a = { 0 }, b = { 0 };
    bool ok = kn_image_resize_by(before, m->picture.width, m->picture.height, KN_BOX, &a, err) &&
              kn_image_resize_by(after, m->picture.width, m->picture.height, KN_BOX, &b, err);
    if (ok)
        fade(m, &a, &b);
    kn_image_free(&a);
    kn_image_free(&b);
    return ok;
}

/* ---- writing ---- */

/* The list of the two pictures, with places that are known later: sizes and where the second one begins. */
static const uint8_t index_data[] = {
    'M',  'P',  'F', 0, 'M', 'M', 0, 42, 0,   0,   0,   8,               /* TIFF, a directory at 8 … */
    0,    3,                                                             /* … of three entries */
    0xB0, 0x00, 0,   7, 0,   0,   0, 4,  '0', '1', '0', '0',             /* version */
    0xB0, 0x01, 0,   4, 0,   0,   0, 1,  0,   0,   0,   2,               /* two pictures */
    0xB0, 0x02, 0,   7, 0,   0,   0, 32, 0,   0,   0,   50,              /* told of at 50 */
    0,    0,    0,   0,                                                  /* no more directories */
    0,    3,    0,   0, 0,   0,   0, 0,  0,   0,   0,   0,   0, 0, 0, 0, /* the first one: kind, size, place */
    0,    0,    0,   0, 0,   0,   0, 0,  0,   0,   0,   0,   0, 0, 0, 0, /* the map */
};
enum { INDEX_MARK = 4, FIRST_SIZE_AT = 54, SECOND_SIZE_AT = 70, SECOND_PLACE_AT = 74 }; /* behind the mark */

static void put_32(uint8_t *at, size_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static bool make_grey(const kn_image *rgba, kn_image *ret, kn_error *err) {
    if (!kn_image_new(rgba->width, rgba->height, 1, ret, err))
        return false;
    for (size_t i = 0; i < (size_t)rgba->width * rgba->height; i++)
        ret->pixels[i] = rgba->pixels[i * rgba->channels];
    return true;
}

static bool write_map(const kn_gain_map *m, kn_buf *into, kn_error *err) {
    KN_AUTO_BUF xmp;
    KN_AUTO_BUF iso;
    kn_image grey = { 0 };
    kn_buf_init(&xmp, KN_JPEG_SEGMENT_MAX);
    kn_buf_init(&iso, KN_JPEG_SEGMENT_MAX);
    if (!kn_gain_facts_to_xmp(&m->facts, &xmp) || !kn_gain_facts_to_iso(&m->facts, &iso))
        return kn_fail_nomem(err, KN_JPEG_SEGMENT_MAX);
    if (m->grey && !make_grey(&m->picture, &grey, err))
        return false;
    const kn_jpeg_segment segments[] = { { 1, xmp.data, xmp.len }, { 2, iso.data, iso.len } };
    bool ok = kn_jpeg_write(m->grey ? &grey : &m->picture, MAP_QUALITY, segments, KN_COUNT(segments), into, err);
    kn_image_free(&grey);
    return ok;
}

static bool tell_of_map(size_t map_bytes, kn_buf *into) {
    return kn_buf_add(into, KN_MARK_XMP, sizeof KN_MARK_XMP) &&
           kn_buf_printf(into,
                         "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF "
                         "xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"><rdf:Description rdf:about=\"\" "
                         "xmlns:hdrgm=\"http://ns.adobe.com/hdr-gain-map/1.0/\" "
                         "xmlns:Container=\"http://ns.google.com/photos/1.0/container/\" "
                         "xmlns:Item=\"http://ns.google.com/photos/1.0/container/item/\" hdrgm:Version=\"1.0\">"
                         "<Container:Directory><rdf:Seq><rdf:li rdf:parseType=\"Resource\"><Container:Item "
                         "Item:Semantic=\"Primary\" Item:Mime=\"image/jpeg\"/></rdf:li><rdf:li "
                         "rdf:parseType=\"Resource\"><Container:Item Item:Semantic=\"GainMap\" "
                         "Item:Mime=\"image/jpeg\" Item:Length=\"%zu\"/></rdf:li></rdf:Seq></Container:Directory>"
                         "</rdf:Description></rdf:RDF></x:xmpmeta>",
                         map_bytes);
}

/* Sizes and places, now that they are known. */
static bool fill_index(kn_buf *file, size_t start, size_t map_bytes, kn_error *err) {
    uint8_t *base = (uint8_t *)file->data + start;
    size_t base_bytes = file->len - start;
    kn_span_of_file list;
    if (!KN_SEGMENT_FIND(base, base_bytes, KN_APP2, KN_MARK_MPF, &list))
        return kn_fail(err, KN_E_FORMAT, "the list of pictures is missing in a JPEG file");
    size_t place = (size_t)(list.data - base);
    put_32(base + place + FIRST_SIZE_AT, base_bytes);
    put_32(base + place + SECOND_SIZE_AT, map_bytes);
    put_32(base + place + SECOND_PLACE_AT, base_bytes - place);
    return true;
}

bool kn_gain_map_write(const kn_image *image, unsigned quality, const kn_jpeg_segment *exif, const kn_gain_map *m,
                       kn_buf *into, kn_error *err) {
    static const uint8_t versions[4] = { 0 };
    KN_AUTO_BUF map;
    KN_AUTO_BUF xmp;
    KN_AUTO_BUF iso;
    kn_jpeg_segment segments[4 + KN_PROFILE_PIECES];
    size_t count = 0, start = into->len;
    kn_buf_init(&map, into->limit);
    kn_buf_init(&xmp, KN_JPEG_SEGMENT_MAX);
    kn_buf_init(&iso, KN_JPEG_SEGMENT_MAX);
    if (!write_map(m, &map, err))
        return false;
    if (!tell_of_map(map.len, &xmp) || !kn_buf_add(&iso, KN_MARK_ISO, sizeof KN_MARK_ISO) ||
        !kn_buf_add(&iso, versions, sizeof versions))
        return kn_fail_nomem(err, KN_JPEG_SEGMENT_MAX);
    if (exif)
        segments[count++] = *exif;
    segments[count++] = (kn_jpeg_segment){ 1, xmp.data, xmp.len };
    segments[count++] = (kn_jpeg_segment){ 2, iso.data, iso.len };
    segments[count++] = (kn_jpeg_segment){ 2, index_data, sizeof index_data };
    for (size_t i = 0, at = 0; i < m->piece_count; at += m->piece_len[i++])
        segments[count++] = (kn_jpeg_segment){ 2, m->profile.data + at, m->piece_len[i] };
    if (!kn_jpeg_write(image, quality, segments, count, into, err) || !fill_index(into, start, map.len, err))
        return false;
    if (map.len > into->limit - into->len)
        return kn_fail(err, KN_E_RANGE, "becomes larger than %zu bytes as a JPEG file", into->limit);
    return kn_buf_add(into, map.data, map.len) || kn_fail_nomem(err, map.len);
}
