#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing_alloc.h"
#include "golden.h"
#include "image/gain_map_file.h"
#include "image/read.h"

enum { LIMIT = 1 << 20 };

static kn_buf source_file(void) {
    kn_buf file;
    golden_read("image/gain-map/gainmap.jpg", &file);
    return file;
}

static kn_gain_map source_map(void) {
    kn_buf file = source_file();
    kn_gain_map m;
    kn_error err = { 0 };
    if (!kn_gain_map_read(file.data, file.len, &KN_IMAGE_LIMITS, &m, &err))
        fail_msg("%s", err.text);
    kn_buf_free(&file);
    return m;
}

static kn_image source_picture(void) {
    kn_buf file = source_file();
    kn_image picture;
    assert_true(kn_image_read(file.data, file.len, &KN_IMAGE_LIMITS, &picture, NULL));
    kn_buf_free(&file);
    return picture;
}

static void near(const char *what, double got, double want) {
    if (!(fabs(got - want) <= 0.001))
        fail_msg("%s is %g, not %g", what, got, want);
}

static void check_recorded(const kn_gain_facts *f) {
    json_t *all = golden_json("image/gain-map/case.json"), *want = json_object_get(all, "metadata");
    const struct {
        const char *name;
        kn_fraction got;
    } rows[] = { { "alternate_headroom", f->alternate_headroom },
                 { "alternate_offset", f->of[0].alternate_offset },
                 { "base_headroom", f->base_headroom },
                 { "base_offset", f->of[0].base_offset },
                 { "gamma", f->of[0].gamma },
                 { "max", f->of[0].max },
                 { "min", f->of[0].min } };
    assert_int_equal(json_object_size(want), KN_COUNT(rows));
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        near(rows[i].name, kn_fraction_value(rows[i].got), golden_number(want, rows[i].name));
    json_decref(all);
}

static void reads_the_recorded_map(void **state) {
    (void)state;
    kn_gain_map m = source_map();
    kn_buf file;
    kn_image want;
    golden_read("image/gain-map/map-source.png", &file);
    assert_true(kn_image_read(file.data, file.len, &KN_IMAGE_LIMITS, &want, NULL));
    check_recorded(&m.facts);
    assert_int_equal(m.facts.channels, 1);
    assert_true(m.grey && m.facts.use_base_colours);
    assert_int_equal(m.picture.width, 12);
    assert_int_equal(m.picture.height, 8);
    long errors = 0;
    for (size_t i = 0; i < (size_t)12 * 8 * 4; i++)
        errors += abs(m.picture.pixels[i] - want.pixels[i]);
    assert_in_range(errors, 0, 12 * 8 * 3 * 4); /* 4 levels: JPEG has been over it */
    kn_image_free(&want);
    kn_buf_free(&file);
    kn_gain_map_free(&m);
}

/* Its first picture begins at 0, its map at 2177. */
static void says_the_same_in_both_ways(void **state) {
    (void)state;
    enum { MAP_AT = 2177 };
    kn_buf file = source_file();
    const uint8_t *map = (const uint8_t *)file.data + MAP_AT;
    kn_span_of_file iso, xmp;
    kn_gain_facts a, b;
    assert_true(KN_SEGMENT_FIND(map, file.len - MAP_AT, KN_APP2, KN_MARK_ISO, &iso));
    assert_true(KN_SEGMENT_FIND(map, file.len - MAP_AT, KN_APP1, KN_MARK_XMP, &xmp));
    assert_true(kn_gain_facts_from_iso(iso, &a, NULL));
    assert_true(kn_gain_facts_from_xmp(xmp, &b, NULL));
    check_recorded(&a);
    check_recorded(&b);
    kn_buf_free(&file);
}

static kn_gain_facts three_channels(void) {
    kn_gain_facts f = { .channels = 3, .base_headroom = { 1, 4 }, .alternate_headroom = { 4294967295u, 1000000000u } };
    for (int i = 0; i < 3; i++)
        f.of[i] = (kn_gain){ { -i - 1, 7 }, { 3 + i, 2 }, { 10 + i, 11 }, { i, 64 }, { -i, 128 } };
    return f;
}

static kn_span_of_file behind(const kn_buf *b, const char *mark, size_t mark_len) {
    kn_span_of_file all = { (const uint8_t *)b->data, b->len }, ret = { NULL, 0 };
    assert_true(kn_segment_is(all, mark, mark_len, &ret));
    return ret;
}

static void numbers_come_back_as_they_were(void **state) {
    (void)state;
    const kn_gain_facts f = three_channels();
    kn_gain_facts iso, xmp;
    kn_error err = { 0 };
    KN_AUTO_BUF a;
    KN_AUTO_BUF b;
    kn_buf_init(&a, LIMIT);
    kn_buf_init(&b, LIMIT);
    assert_true(kn_gain_facts_to_iso(&f, &a) && kn_gain_facts_to_xmp(&f, &b));
    assert_true(kn_gain_facts_from_iso(behind(&a, KN_MARK_ISO, sizeof KN_MARK_ISO), &iso, &err));
    if (!kn_gain_facts_from_xmp(behind(&b, KN_MARK_XMP, sizeof KN_MARK_XMP), &xmp, &err))
        fail_msg("%s", err.text);
    assert_int_equal(iso.channels, 3);
    assert_int_equal(xmp.channels, 3);
    assert_memory_equal(&iso.alternate_headroom, &f.alternate_headroom, sizeof(int64_t));
    for (int i = 0; i < 3; i++) {
        assert_true(iso.of[i].min.over == f.of[i].min.over && iso.of[i].min.under == f.of[i].min.under);
        assert_true(iso.of[i].max.over == f.of[i].max.over && iso.of[i].gamma.over == f.of[i].gamma.over);
        assert_true(iso.of[i].alternate_offset.over == f.of[i].alternate_offset.over);
        near("min", kn_fraction_value(xmp.of[i].min), kn_fraction_value(f.of[i].min));
        near("gamma", kn_fraction_value(xmp.of[i].gamma), kn_fraction_value(f.of[i].gamma));
        near("offset", kn_fraction_value(xmp.of[i].alternate_offset), kn_fraction_value(f.of[i].alternate_offset));
    }
}

static void iso_with_one_denominator_for_all_is_read(void **state) {
    (void)state;
    static const uint8_t data[] = { 0,    0,    0, 0, 0x08, 0,  0, 0, 10, 0,  0, 0, 5, 0, 0, 0, 20, 0xFF, 0xFF,
                                    0xFF, 0xFE, 0, 0, 0,    20, 0, 0, 0,  10, 0, 0, 0, 1, 0, 0, 0,  2 };
    kn_gain_facts f;
    assert_true(kn_gain_facts_from_iso((kn_span_of_file){ data, sizeof data }, &f, NULL));
    near("base", kn_fraction_value(f.base_headroom), 0.5);
    near("alternate", kn_fraction_value(f.alternate_headroom), 2);
    near("min", kn_fraction_value(f.of[0].min), -0.2);
    near("max", kn_fraction_value(f.of[0].max), 2);
    near("gamma", kn_fraction_value(f.of[0].gamma), 1);
    near("offset", kn_fraction_value(f.of[0].alternate_offset), 0.2);
}

static void numbers_of_others_are_found_and_wrong_ones_refused(void **state) {
    (void)state;
#define NEEDED "hdrgm:GainMapMax=\"2\" hdrgm:HDRCapacityMax=\"2\" "
    static const struct {
        const char *xmp, *error;
        double min, offset;
        unsigned channels;
    } rows[] = {
        { NEEDED, NULL, 0, 0.015625, 1 },
        { "hdrgm:GainMapMax='2' hdrgm:HDRCapacityMax='2' hdrgm:GainMapMin='-0.5'", NULL, -0.5, 0.015625, 1 },
        { "<hdrgm:GainMapMax> 2 </hdrgm:GainMapMax><hdrgm:HDRCapacityMax>2.5</hdrgm:HDRCapacityMax>", NULL, 0, 0.015625,
          1 },
        { NEEDED "><hdrgm:GainMapMin><rdf:Seq><rdf:li>-0.5</rdf:li><rdf:li>0</rdf:li>\n<rdf:li> 0.5</rdf:li></rdf:Seq>"
                 "</hdrgm:GainMapMin>",
          NULL, -0.5, 0.015625, 3 },
        { NEEDED "><hdrgm:GainMapMin><rdf:li>1</rdf:li><rdf:li>0</rdf:li></hdrgm:GainMapMin>", "no GainMapMin", 0, 0,
          0 },
        { NEEDED "><hdrgm:GainMapMin><rdf:li>1</rdf:li><rdf:li>0</rdf:li><rdf:li>1</rdf:li><rdf:li>0</rdf:li>"
                 "</hdrgm:GainMapMin>",
          "no GainMapMin", 0, 0, 0 },
        { NEEDED "hdrgm:GainMapMin=\"nan\"", "no GainMapMin", 0, 0, 0 },
        { NEEDED "hdrgm:GainMapMin=\"1e9\"", "no GainMapMin", 0, 0, 0 },
        { NEEDED "hdrgm:GainMapMin=\"3\"", "make no sense", 0, 0, 0 },
        { NEEDED "hdrgm:Gamma=\"0\"", "make no sense", 0, 0, 0 },
        { NEEDED "hdrgm:HDRCapacityMin=\"2\"", "make no sense", 0, 0, 0 },
        { NEEDED "hdrgm:BaseRenditionIsHDR=\"True\"", "from HDR to SDR", 0, 0, 0 },
        { "hdrgm:GainMapMax=\"2\"", "no HDRCapacityMax", 0, 0, 0 },
        { "hdrgm:GainMapMax=\"2", "no GainMapMax", 0, 0, 0 },
        { "", "no GainMapMax", 0, 0, 0 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_gain_facts f;
        kn_error err = { 0 };
        /* without a NUL behind it */
        size_t len = strlen(rows[i].xmp);
        uint8_t *copy = malloc(len + 1);
        memcpy(copy, rows[i].xmp, len);
        bool ok = kn_gain_facts_from_xmp((kn_span_of_file){ copy, len }, &f, &err);
        free(copy);
        if (rows[i].error ? ok || !strstr(err.text, rows[i].error) : !ok)
            fail_msg("row %zu: '%s'", i, err.text);
        if (!ok)
            continue;
        assert_int_equal(f.channels, rows[i].channels);
        near("min", kn_fraction_value(f.of[0].min), rows[i].min);
        near("offset", kn_fraction_value(f.of[0].alternate_offset), rows[i].offset);
    }
}

static void cut_or_wrong_iso_data_are_refused(void **state) {
    (void)state;
    const kn_gain_facts f = three_channels();
    KN_AUTO_BUF b;
    kn_buf_init(&b, LIMIT);
    assert_true(kn_gain_facts_to_iso(&f, &b));
    const size_t mark = sizeof KN_MARK_ISO;
    kn_gain_facts ret;
    for (size_t len = 0; len < b.len - mark; len++) {
        uint8_t *copy = malloc(len + 1); /* so that reading beyond it is seen */
        memcpy(copy, b.data + mark, len);
        assert_false(kn_gain_facts_from_iso((kn_span_of_file){ copy, len }, &ret, NULL));
        free(copy);
    }
    static const struct {
        size_t at;
        uint8_t value;
        const char *error;
    } rows[] = {
        { 1, 1, "later version" },     { 4, 0x84, "from HDR to SDR" }, { 12, 0, "make no sense" /* under 0 */ },
        { 21, 0x7F, "make no sense" }, { 37, 0xFF, "make no sense" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_error err = { 0 };
        uint8_t *at = (uint8_t *)b.data + mark + rows[i].at, was = *at;
        *at = rows[i].value;
        bool ok = kn_gain_facts_from_iso(behind(&b, KN_MARK_ISO, mark), &ret, &err);
        if (ok || !strstr(err.text, rows[i].error))
            fail_msg("row %zu: '%s'", i, err.text);
        *at = was;
    }
}

/* ---- files ---- */

static void a_result_has_the_map_and_the_pixels_that_it_has_without(void **state) {
    (void)state;
    kn_gain_map m = source_map(), back;
    kn_image picture = source_picture(), with, without;
    kn_error err = { 0 };
    KN_AUTO_BUF hdr;
    KN_AUTO_BUF sdr;
    kn_buf_init(&hdr, LIMIT);
    kn_buf_init(&sdr, LIMIT);
    assert_true(kn_gain_map_write(&picture, 95, NULL, &m, &hdr, &err));
    assert_true(kn_jpeg_write(&picture, 95, NULL, 0, &sdr, &err));
    assert_true(kn_image_read(hdr.data, hdr.len, &KN_IMAGE_LIMITS, &with, &err));
    assert_true(kn_image_read(sdr.data, sdr.len, &KN_IMAGE_LIMITS, &without, &err));
    assert_int_equal(with.width, 48);
    assert_int_equal(with.height, 32);
    assert_memory_equal(with.pixels, without.pixels, (size_t)48 * 32 * 4);
    if (!kn_gain_map_read(hdr.data, hdr.len, &KN_IMAGE_LIMITS, &back, &err))
        fail_msg("%s", err.text);
    assert_memory_equal(&back.facts, &m.facts, sizeof m.facts);
    assert_true(back.grey);
    assert_int_equal(back.picture.width, 12);
    assert_int_equal(back.picture.height, 8);
    for (size_t i = 0; i < (size_t)12 * 8 * 4; i++)
        assert_in_range(abs(back.picture.pixels[i] - m.picture.pixels[i]), 0, 8);
    kn_image_free(&picture);
    kn_image_free(&with);
    kn_image_free(&without);
    kn_gain_map_free(&m);
    kn_gain_map_free(&back);
}

static void colour_profile_and_notes_stay(void **state) {
    (void)state;
    static const uint8_t notes[] = {
        'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0
    }; /* turned by 90 degrees */
    static const char profile[] = "ICC_PROFILE\0\1\2abcdefgICC_PROFILE\0\2\2hij";
    const kn_jpeg_segment exif = { 1, notes, sizeof notes };
    kn_gain_map m = source_map(), back;
    kn_image picture = source_picture();
    kn_error err = { 0 };
    KN_AUTO_BUF file;
    kn_buf_init(&file, LIMIT);
    assert_true(kn_buf_add(&m.profile, profile, sizeof profile - 1));
    m.piece_count = 2;
    m.piece_len[0] = 21;
    m.piece_len[1] = sizeof profile - 1 - 21;
    assert_true(kn_gain_map_write(&picture, 90, &exif, &m, &file, &err));
    assert_true(kn_gain_map_read(file.data, file.len, &KN_IMAGE_LIMITS, &back, &err));
    assert_int_equal(back.piece_count, 2);
    assert_int_equal(back.piece_len[0], 21);
    assert_int_equal(back.profile.len, sizeof profile - 1);
    assert_memory_equal(back.profile.data, profile, sizeof profile - 1);
    assert_int_equal(back.picture.width, 8); /* upright, as its picture */
    assert_int_equal(back.picture.height, 12);
    kn_image_free(&picture);
    kn_gain_map_free(&m);
    kn_gain_map_free(&back);
}

/* Also where only XMP tells where the map is, and what it says. */
static void older_files_are_read_by_their_xmp(void **state) {
    (void)state;
    static const char *const marks[] = { "MPF", "urn:iso:std:iso:ts:21496:-1" };
    kn_buf file = source_file();
    for (size_t i = 0; i < KN_COUNT(marks); i++)
        for (char *at; (at = memmem(file.data, file.len, marks[i], strlen(marks[i]) + 1));)
            *at = 'X';
    kn_gain_map m;
    kn_error err = { 0 };
    assert_true(kn_gain_map_is_there(file.data, file.len));
    if (!kn_gain_map_read(file.data, file.len, &KN_IMAGE_LIMITS, &m, &err))
        fail_msg("%s", err.text);
    check_recorded(&m.facts);
    kn_gain_map_free(&m);
    kn_buf_free(&file);
}

static void what_is_not_there_or_cut_is_said(void **state) {
    (void)state;
    kn_buf file = source_file(), plain;
    kn_gain_map m;
    kn_error err = { 0 };
    golden_read("image/gps.jpg", &plain);
    assert_false(kn_gain_map_is_there(plain.data, plain.len));
    assert_false(kn_gain_map_read(plain.data, plain.len, &KN_IMAGE_LIMITS, &m, &err));
    assert_string_equal(err.text, "it has no gain map");
    kn_buf_free(&plain);
    for (size_t len = 0; len < file.len; len += 7) {
        err = (kn_error){ 0 };
        uint8_t *copy = malloc(len + 1);
        memcpy(copy, file.data, len);
        if (kn_gain_map_read(copy, len, &KN_IMAGE_LIMITS, &m, &err))
            fail_msg("a file of %zu bytes is taken", len);
        assert_int_not_equal(err.code, KN_OK);
        free(copy);
    }
    kn_buf_free(&file);
}

/* ---- another picture under it ---- */

static kn_image plain_picture(uint32_t width, uint32_t height, uint8_t level) {
    kn_image p;
    assert_true(kn_image_new(width, height, 4, &p, NULL));
    memset(p.pixels, level, (size_t)width * height * 4);
    for (size_t i = 0; i < (size_t)width * height; i++)
        p.pixels[i * 4 + 3] = 255;
    return p;
}

static double linear(uint8_t level) {
    double v = level / 255.0;
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

static void gain_goes_where_brightness_has_changed(void **state) {
    (void)state;
    static const struct {
        uint8_t before, after;
        bool kept, gone;
    } rows[] = {
        { 100, 100, true, false }, { 100, 105, true, false }, { 100, 120, false, false }, { 120, 100, false, false },
        { 100, 200, false, true }, { 200, 10, false, true },  { 0, 0, true, false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_gain_map m = source_map(), was = source_map();
        kn_image before = plain_picture(48, 32, rows[i].before), after = plain_picture(96, 64, rows[i].after);
        double stops = fabs(log2((linear(rows[i].after) + 1.0 / 1024) / (linear(rows[i].before) + 1.0 / 1024)));
        double share = fmin(fmax(1 - (stops - 0.25) / 0.75, 0), 1);
        assert_true(rows[i].kept == (share == 1) && rows[i].gone == (share == 0));
        assert_true(kn_gain_map_fit(&m, &before, &after, NULL));
        for (size_t at = 0; at < (size_t)12 * 8 * 4; at++) {
            double gain = share * (-0.1 + 2.4 * was.picture.pixels[at] / 255);
            double want = 255 * fmin(fmax((gain + 0.1) / 2.4, 0), 1);
            if (at % 4 == 3 || rows[i].kept)
                assert_int_equal(m.picture.pixels[at], was.picture.pixels[at]);
            else
                assert_true(fabs(m.picture.pixels[at] - want) <= 0.501);
        }
        kn_image_free(&before);
        kn_image_free(&after);
        kn_gain_map_free(&m);
        kn_gain_map_free(&was);
    }
}

static void shapes_are_the_same_within_a_hundredth(void **state) {
    (void)state;
    assert_true(kn_gain_map_has_shape(4000, 3000, 1024, 768));
    assert_true(kn_gain_map_has_shape(4000, 3000, 1184, 880));
    assert_false(kn_gain_map_has_shape(4000, 3000, 1024, 1024));
    assert_false(kn_gain_map_has_shape(4000, 3000, 3000, 4000));
}

static bool read_and_write(void *ctx, kn_error *err) {
    const kn_buf *file = ctx;
    kn_gain_map m;
    kn_image picture = { 0 };
    KN_AUTO_BUF out;
    kn_buf_init(&out, LIMIT);
    if (!kn_gain_map_read(file->data, file->len, &KN_IMAGE_LIMITS, &m, err))
        return false;
    bool ok = kn_image_new(96, 64, 3, &picture, err);
    if (ok)
        memset(picture.pixels, 90, (size_t)96 * 64 * 3);
    ok = ok && kn_gain_map_fit(&m, &picture, &picture, err) && kn_gain_map_write(&picture, 95, NULL, &m, &out, err);
    kn_image_free(&picture);
    kn_gain_map_free(&m);
    return ok;
}

static void survives_every_failing_allocation(void **state) {
    (void)state;
    kn_buf file = source_file();
    alloc_fail_each(read_and_write, &file, 5, 200);
    kn_buf_free(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_recorded_map),
        cmocka_unit_test(says_the_same_in_both_ways),
        cmocka_unit_test(numbers_come_back_as_they_were),
        cmocka_unit_test(iso_with_one_denominator_for_all_is_read),
        cmocka_unit_test(numbers_of_others_are_found_and_wrong_ones_refused),
        cmocka_unit_test(cut_or_wrong_iso_data_are_refused),
        cmocka_unit_test(a_result_has_the_map_and_the_pixels_that_it_has_without),
        cmocka_unit_test(colour_profile_and_notes_stay),
        cmocka_unit_test(older_files_are_read_by_their_xmp),
        cmocka_unit_test(what_is_not_there_or_cut_is_said),
        cmocka_unit_test(gain_goes_where_brightness_has_changed),
        cmocka_unit_test(shapes_are_the_same_within_a_hundredth),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
