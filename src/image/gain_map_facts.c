/* The numbers of a gain map: as ISO 21496-1 has them in binary, and as Adobe's XMP has them in text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "image/gain_map_file.h"

enum { THREE_CHANNELS = 0x80, BASE_COLOURS = 0x40, COMMON_UNDER = 0x08, BASE_IS_HDR = 0x04 };
enum { XMP_UNDER = 1000000, NUMBER_BYTES = 40 };

static const double stops_max = 64; /* far beyond any light */

/* ---- segments ---- */

bool kn_segments_next(const uint8_t *file, size_t len, size_t *at, uint8_t *ret_marker, kn_span_of_file *ret) {
    enum { SCAN = 0xDA, END = 0xD9 };
    if (*at == 0) {
        if (len < 4 || file[0] != 0xFF || file[1] != 0xD8)
            return false;
        *at = 2;
    }
    while (*at < len && len - *at >= 4 && file[*at] == 0xFF && file[*at + 1] == 0xFF)
        ++*at; /* any number of these may stand before a marker */
    if (*at >= len || len - *at < 4 || file[*at] != 0xFF || file[*at + 1] == SCAN || file[*at + 1] == END)
        return false;
    size_t size = (size_t)file[*at + 2] << 8 | file[*at + 3];
    if (size < 2 || size > len - *at - 2)
        return false;
    *ret_marker = file[*at + 1];
    *ret = (kn_span_of_file){ file + *at + 4, size - 2 };
    *at += size + 2;
    return true;
}

bool kn_segment_is(kn_span_of_file segment, const char *mark, size_t mark_len, kn_span_of_file *ret) {
    if (segment.len < mark_len || memcmp(segment.data, mark, mark_len) != 0)
        return false;
    *ret = (kn_span_of_file){ segment.data + mark_len, segment.len - mark_len };
    return true;
}

bool kn_segment_find(const uint8_t *file, size_t len, uint8_t marker, const char *mark, size_t mark_len,
                     kn_span_of_file *ret) {
    kn_span_of_file segment;
    uint8_t found = 0;
    for (size_t at = 0; kn_segments_next(file, len, &at, &found, &segment);)
        if (found == marker && kn_segment_is(segment, mark, mark_len, ret))
            return true;
    return false;
}

/* ---- checks ---- */

static bool is_within(kn_fraction f, double min, double max) {
    double v = f.under ? kn_fraction_value(f) : NAN;
    return v >= min && v <= max;
}

static bool check(const kn_gain_facts *f, kn_error *err) {
    bool ok = is_within(f->base_headroom, 0, stops_max) && is_within(f->alternate_headroom, 0, stops_max) &&
              kn_fraction_value(f->alternate_headroom) > kn_fraction_value(f->base_headroom);
    for (unsigned i = 0; i < f->channels && ok; i++) {
        const kn_gain *g = &f->of[i];
        ok = is_within(g->min, -stops_max, stops_max) && is_within(g->max, -stops_max, stops_max) &&
             is_within(g->gamma, 0.01, 100) && is_within(g->base_offset, -1, 1) &&
             is_within(g->alternate_offset, -1, 1) && kn_fraction_value(g->max) >= kn_fraction_value(g->min);
    }
    return ok || kn_fail(err, KN_E_RANGE, "the numbers of its gain map make no sense");
}

/* ---- ISO ---- */

/* What is left of the data; a sticky failure. */
struct bytes {
    const uint8_t *at, *end;
    bool short_of;
};

static uint32_t take_32(struct bytes *b) {
    if (b->end - b->at < 4) {
        b->short_of = true;
        return 0;
    }
    uint32_t v = (uint32_t)b->at[0] << 24 | (uint32_t)b->at[1] << 16 | (uint32_t)b->at[2] << 8 | b->at[3];
    b->at += 4;
    return v;
}

/* under 0: it follows. */
static kn_fraction take_fraction(struct bytes *b, bool has_sign, uint32_t under) {
    uint32_t over = take_32(b);
    return (kn_fraction){ has_sign ? (int64_t)(int32_t)over : (int64_t)over, under ? under : take_32(b) };
}

bool kn_gain_facts_from_iso(kn_span_of_file data, kn_gain_facts *ret, kn_error *err) {
    enum { HEAD = 5 };
    kn_gain_facts f = { 0 };
    if (data.len < HEAD)
        return kn_fail(err, KN_E_TRUNCATED, "what it says of its gain map is cut short");
    if (data.data[0] || data.data[1])
        return kn_fail(err, KN_E_UNSUPPORTED, "its gain map is of a later version of ISO 21496-1");
    uint8_t flags = data.data[4];
    if (flags & BASE_IS_HDR)
        return kn_fail(err, KN_E_UNSUPPORTED, "its gain map leads from HDR to SDR");
    struct bytes b = { .at = data.data + HEAD, .end = data.data + data.len };
    uint32_t under = 0;
    f.channels = flags & THREE_CHANNELS ? 3 : 1;
    f.use_base_colours = flags & BASE_COLOURS;
    if (flags & COMMON_UNDER && !(under = take_32(&b)))
        return kn_fail(err, KN_E_FORMAT, "the numbers of its gain map make no sense");
    f.base_headroom = take_fraction(&b, false, under);
    f.alternate_headroom = take_fraction(&b, false, under);
    for (unsigned i = 0; i < f.channels; i++) {
        f.of[i].min = take_fraction(&b, true, under);
        f.of[i].max = take_fraction(&b, true, under);
        f.of[i].gamma = take_fraction(&b, false, under);
        f.of[i].base_offset = take_fraction(&b, true, under);
        f.of[i].alternate_offset = take_fraction(&b, true, under);
    }
    if (b.short_of)
        return kn_fail(err, KN_E_TRUNCATED, "what it says of its gain map is cut short");
    if (!check(&f, err))
        return false;
    *ret = f;
    return true;
}

static bool put_fraction(kn_fraction f, kn_buf *into) {
    uint8_t bytes[8];
    for (int i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)((uint64_t)f.over >> (24 - 8 * i));
        bytes[4 + i] = (uint8_t)(f.under >> (24 - 8 * i));
    }
    return kn_buf_add(into, bytes, sizeof bytes);
}

bool kn_gain_facts_to_iso(const kn_gain_facts *f, kn_buf *into) {
    const uint8_t head[] = {
        0, 0, 0, 0, (uint8_t)((f->channels == 3 ? THREE_CHANNELS : 0) | (f->use_base_colours ? BASE_COLOURS : 0))
    };
    bool ok = kn_buf_add(into, KN_MARK_ISO, sizeof KN_MARK_ISO) && kn_buf_add(into, head, sizeof head) &&
              put_fraction(f->base_headroom, into) && put_fraction(f->alternate_headroom, into);
    for (unsigned i = 0; i < f->channels; i++) {
        const kn_gain *g = &f->of[i];
        ok = ok && put_fraction(g->min, into) && put_fraction(g->max, into) && put_fraction(g->gamma, into) &&
             put_fraction(g->base_offset, into) && put_fraction(g->alternate_offset, into);
    }
    return ok;
}

/* ---- XMP ---- */

static const struct name {
    const char *name;
    size_t at;    /* in kn_gain, or in kn_gain_facts */
    bool of_all;  /* one number, in kn_gain_facts */
    double usual; /* NAN: it must be there */
} names[] = {
    { "GainMapMin", offsetof(kn_gain, min), false, 0 },
    { "GainMapMax", offsetof(kn_gain, max), false, NAN },
    { "Gamma", offsetof(kn_gain, gamma), false, 1 },
    { "OffsetSDR", offsetof(kn_gain, base_offset), false, 0.015625 },
    { "OffsetHDR", offsetof(kn_gain, alternate_offset), false, 0.015625 },
    { "HDRCapacityMin", offsetof(kn_gain_facts, base_headroom), true, 0 },
    { "HDRCapacityMax", offsetof(kn_gain_facts, alternate_headroom), true, NAN },
};

static const char *find(const char *from, const char *end, const char *what) {
    return from && from < end ? memmem(from, (size_t)(end - from), what, strlen(what)) : NULL;
}

/* A number of the text, to the character that ends it. */
static bool take_number(const char *from, const char *end, const char *stop, kn_fraction *ret) {
    char text[NUMBER_BYTES];
    const char *last = find(from, end, stop);
    double v = 0;
    while (last && from < last && strchr(" \t\r\n", *from))
        from++;
    if (!last || (size_t)(last - from) >= sizeof text)
        return false;
    memcpy(text, from, (size_t)(last - from));
    text[last - from] = 0;
    text[strcspn(text, " \t\r\n")] = 0;
    if (!kn_parse_double(text, &v) || !(fabs(v) <= 1000))
        return false;
    *ret = (kn_fraction){ llround(v * XMP_UNDER), XMP_UNDER };
    return true;
}

/* One number as an attribute or between tags, or a list of three. Returns how many; 0: it is not there. */
static int take_numbers(const char *text, const char *end, const char *name, kn_fraction ret[3]) {
    static const char item[] = "<rdf:li>";
    char words[4][48];
    snprintf(words[0], sizeof words[0], "hdrgm:%s=\"", name);
    snprintf(words[1], sizeof words[1], "hdrgm:%s='", name);
    snprintf(words[2], sizeof words[2], "<hdrgm:%s>", name);
    snprintf(words[3], sizeof words[3], "</hdrgm:%s>", name);
    const char *quoted = find(text, end, words[0]), *single = find(text, end, words[1]);
    if (quoted)
        return take_number(quoted + strlen(words[0]), end, "\"", ret) ? 1 : -1;
    if (single)
        return take_number(single + strlen(words[1]), end, "'", ret) ? 1 : -1;
    const char *from = find(text, end, words[2]), *to = find(from, end, words[3]);
    if (!from || !to)
        return 0;
    from += strlen(words[2]);
    int count = 0;
    for (const char *at = from; (at = find(at, to, item)); count++)
        if (at += strlen(item), count == 3 || !take_number(at, to + 1, "<", &ret[count]))
            return -1;
    return count == 0 ? (take_number(from, to + 1, "<", ret) ? 1 : -1) : count == 2 ? -1 : count;
}

bool kn_gain_facts_from_xmp(kn_span_of_file xmp, kn_gain_facts *ret, kn_error *err) {
    const char *text = (const char *)xmp.data, *end = text + xmp.len;
    kn_gain_facts f = { .channels = 1, .use_base_colours = true };
    if (find(text, end, "hdrgm:BaseRenditionIsHDR=\"True\"") || find(text, end, "<hdrgm:BaseRenditionIsHDR>True<"))
        return kn_fail(err, KN_E_UNSUPPORTED, "its gain map leads from HDR to SDR");
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        const struct name *n = &names[i];
        kn_fraction v[3] = { { 0, 1 } };
        int count = take_numbers(text, end, n->name, v);
        if (count < 0 || (count == 0 && isnan(n->usual)) || (n->of_all && count > 1))
            return kn_fail(err, KN_E_FORMAT, "its gain map says no %s", n->name);
        if (count == 0)
            v[0] = (kn_fraction){ llround(n->usual * XMP_UNDER), XMP_UNDER };
        for (int c = 0; c < (n->of_all ? 1 : 3); c++)
            *(kn_fraction *)((char *)(n->of_all ? (void *)&f : (void *)&f.of[c]) + n->at) = v[count == 3 ? c : 0];
        if (count == 3)
            f.channels = 3;
    }
    if (!check(&f, err))
        return false;
    *ret = f;
    return true;
}

bool kn_gain_facts_to_xmp(const kn_gain_facts *f, kn_buf *into) {
    bool ok = kn_buf_add(into, KN_MARK_XMP, sizeof KN_MARK_XMP) &&
              kn_buf_add_text(into, "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF "
                                    "xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"><rdf:Description "
                                    "rdf:about=\"\" xmlns:hdrgm=\"http://ns.adobe.com/hdr-gain-map/1.0/\" "
                                    "hdrgm:Version=\"1.0\" hdrgm:BaseRenditionIsHDR=\"False\"");
    for (size_t i = 0; i < KN_COUNT(names) && ok; i++) {
        const char *from = names[i].of_all ? (const char *)f : (const char *)&f->of[0];
        if (names[i].of_all || f->channels == 1)
            ok = kn_buf_printf(into, " hdrgm:%s=\"%.9g\"", names[i].name,
                               kn_fraction_value(*(const kn_fraction *)(from + names[i].at)));
    }
    ok = ok && kn_buf_add_text(into, ">");
    for (size_t i = 0; i < KN_COUNT(names) && f->channels == 3 && ok; i++) {
        if (names[i].of_all)
            continue;
        ok = kn_buf_printf(into, "<hdrgm:%s><rdf:Seq>", names[i].name);
        for (int c = 0; c < 3 && ok; c++)
            ok = kn_buf_printf(into, "<rdf:li>%.9g</rdf:li>",
                               kn_fraction_value(*(const kn_fraction *)((const char *)&f->of[c] + names[i].at)));
        ok = ok && kn_buf_printf(into, "</rdf:Seq></hdrgm:%s>", names[i].name);
    }
    return ok && kn_buf_add_text(into, "</rdf:Description></rdf:RDF></x:xmpmeta>");
}

bool kn_gain_facts_read(const uint8_t *map, size_t len, kn_gain_facts *ret, kn_error *err) {
    kn_span_of_file found;
    if (KN_SEGMENT_FIND(map, len, KN_APP2, KN_MARK_ISO, &found))
        return kn_gain_facts_from_iso(found, ret, err);
    if (KN_SEGMENT_FIND(map, len, KN_APP1, KN_MARK_XMP, &found))
        return kn_gain_facts_from_xmp(found, ret, err);
    return kn_fail(err, KN_E_NOT_FOUND, "its second picture is no gain map");
}
