/* Colour profiles: what is found of their names in files of every kind, and that nothing wrong with one costs the
 * picture. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "golden.h"
#include "image/icc.h"
#include "image/read.h"

/* ---- files ---- */

static void expect_picture(const char *what, const kn_buf *file) {
    kn_image image = { 0 };
    kn_error err = { 0 };
    if (!kn_image_read(file->data, file->len, &KN_IMAGE_LIMITS, &image, &err))
        fail_msg("%s: %s", what, err.text);
    assert_int_equal(image.width, 16);
    kn_image_free(&image);
}

static void finds_the_name_that_littlecms_finds(void **state) {
    (void)state;
    json_t *cases = golden_json("image/icc/cases.json"), *row = NULL;
    size_t i = 0;
    assert_true(json_array_size(cases) >= 12);
    json_array_foreach(cases, i, row) {
        kn_buf file;
        char path[100];
        snprintf(path, sizeof path, "image/icc/%s", golden_text(row, "file"));
        golden_read(path, &file);
        kn_icc_name name = kn_icc_name_in(file.data, file.len);
        if (strcmp(name.text, golden_text(row, "name")) != 0)
            fail_msg("%s: '%s'", path, name.text);
        expect_picture(path, &file);
        kn_buf_free(&file);
    }
    json_decref(cases);
}

static void tells_none_from_one_that_cannot_be_read(void **state) {
    (void)state;
    static const struct {
        const char *file, *name;
    } rows[] = {
        { "image/exif-6.jpg", "" },           { "image/text.png", "" },
        { "image/webp-named.jpg", "" },       { "image/icc-garbage.jpg", KN_ICC_UNKNOWN },
        { "image/truncated.png", "" },        { "image/animated.gif", "" },
        { "image/gain-map/gainmap.jpg", "" }, /* whose APP2 segments are about other things */
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_buf file;
        golden_read(rows[i].file, &file);
        kn_icc_name name = kn_icc_name_in(file.data, file.len);
        if (strcmp(name.text, rows[i].name) != 0)
            fail_msg("%s: '%s'", rows[i].file, name.text);
        kn_buf_free(&file);
    }
}

/* A JPEG file with so many segments of this kind in front of all others. */
static void add_segments(kn_buf *file, int app, const void *data, size_t len, size_t count) {
    kn_buf whole;
    golden_read("image/icc/missing-part.jpg", &whole);
    kn_buf_init(file, 64 << 20);
    const uint8_t head[] = { 0xFF, (uint8_t)(0xE0 + app), (uint8_t)((len + 2) >> 8), (uint8_t)(len + 2) };
    bool ok = kn_buf_add(file, whole.data, 2);
    for (size_t i = 0; i < count; i++)
        ok = ok && kn_buf_add(file, head, sizeof head) && kn_buf_add(file, data, len);
    assert_true(ok && kn_buf_add(file, whole.data + 2, whole.len - 2));
    kn_buf_free(&whole);
}

static void thousands_of_parts_cost_neither_time_nor_the_picture(void **state) {
    (void)state;
    enum { MANY = 300000 }; /* in a list that is gone through for each of them it would be minutes */
    static const uint8_t part[] = "ICC_PROFILE\0\1\2abc";
    static const struct {
        int app;
        const void *data;
        size_t len;
    } rows[] = { { 1, "", 0 }, { 2, "", 0 }, { 2, part, sizeof part - 1 } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_buf file;
        add_segments(&file, rows[i].app, rows[i].data, rows[i].len, MANY);
        assert_string_equal(kn_icc_name_in(file.data, file.len).text, KN_ICC_UNKNOWN);
        expect_picture("many segments", &file);
        kn_buf_free(&file);
    }
}

static void parts_that_do_not_agree_are_no_profile(void **state) {
    (void)state;
    static const char *const parts[] = {
        "ICC_PROFILE",          /* neither number nor count */
        "ICC_PROFILE\0\1",      /* … no count */
        "ICC_PROFILE\0\0\1abc", /* they begin with 1 */
        "ICC_PROFILE\0\2\1abc", /* beyond the count */
        "ICC_PROFILE\0\1\3abc", /* twice */
        "ICC_PROFILE\0\2\4abc", /* another count than the file's own */
    };
    static const size_t lengths[] = { 12, 13, 17, 17, 17, 17 };
    for (size_t i = 0; i < KN_COUNT(parts); i++) {
        kn_buf file;
        add_segments(&file, 2, parts[i], lengths[i], 1);
        assert_string_equal(kn_icc_name_in(file.data, file.len).text, KN_ICC_UNKNOWN);
        expect_picture("parts that do not agree", &file);
        kn_buf_free(&file);
    }
}

/* ---- profiles ---- */

enum { TAG_AT = 144, PROFILE_BYTES = 1024 };

static void put(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* One tag of these bytes, said to be at `at` and so many bytes long. Returns the length of the whole. */
static size_t make_profile(uint8_t *profile, uint32_t tags, uint32_t at, uint32_t said, const void *tag, size_t len) {
    memset(profile, 0, PROFILE_BYTES);
    memcpy(profile + 36, "acsp", 4);
    put(profile + 128, tags);
    memcpy(profile + 132, "desc", 4);
    put(profile + 136, at);
    put(profile + 140, said);
    assert_true(len <= PROFILE_BYTES - TAG_AT);
    memcpy(profile + TAG_AT, tag, len);
    return TAG_AT + len;
}

static kn_icc_name name_of_plain(const char *text, size_t len, uint32_t said) {
    uint8_t profile[PROFILE_BYTES], tag[PROFILE_BYTES - TAG_AT] = "desc";
    put(tag + 8, said);
    memcpy(tag + 12, text, len);
    size_t all = make_profile(profile, 1, TAG_AT, (uint32_t)len + 12, tag, len + 12);
    return kn_icc_name_of(profile, all);
}

#define PLAIN(text)        name_of_plain(text, sizeof(text), sizeof(text))
#define EXPECT(name, want) assert_string_equal((name).text, want)

static void a_name_is_text_whatever_its_bytes_are(void **state) {
    (void)state;
    EXPECT(PLAIN("Adobe RGB (1998)"), "Adobe RGB (1998)");
    EXPECT(PLAIN("caf\xC3\xA9"), "caf\xC3\xA9");
    EXPECT(PLAIN("caf\xE9"), "caf\xC3\xA9");                                   /* Latin-1 */
    EXPECT(PLAIN("\xFF\xFE\xED\xA0\x80"), "\xC3\xBF\xC3\xBE\xC3\xAD\xC2\xA0"); /* what is neither is something */
    EXPECT(PLAIN("  two\r\n\x1B[31m\x7F words  "), "two[31m words");
    EXPECT(PLAIN("first\0second"), "first");
    EXPECT(PLAIN(""), KN_ICC_UNKNOWN);
    EXPECT(PLAIN(" \n "), KN_ICC_UNKNOWN);
    EXPECT(name_of_plain("no end", 6, 6), "no end");
    EXPECT(name_of_plain("short", 6, 7), KN_ICC_UNKNOWN);
    EXPECT(name_of_plain("short", 6, UINT32_MAX), KN_ICC_UNKNOWN);
}

static void a_long_name_is_cut_between_characters(void **state) {
    (void)state;
    char text[201];
    for (size_t i = 0; i < 200; i += 2)
        memcpy(text + i, "\xC3\xA9", 2);
    text[0] = 'a'; /* so that the limit falls into a character */
    text[1] = 'b';
    text[2] = 'c';
    memmove(text + 3, text + 4, 197);
    kn_icc_name name = name_of_plain(text, 199, 199);
    assert_int_equal(strlen(name.text), 99);
    assert_int_equal(kn_utf8_check(name.text, 99), 99);
    assert_memory_equal(name.text, text, 99);
    name = name_of_plain(text + 1, 198, 198);
    assert_int_equal(strlen(name.text), 98);
    assert_int_equal(kn_utf8_check(name.text, 98), 98);
}

/* records of 12 bytes: two letters, two letters, length, place. */
static kn_icc_name name_of_translated(uint32_t count, uint32_t size, const uint8_t *records, size_t len) {
    uint8_t profile[PROFILE_BYTES], tag[PROFILE_BYTES - TAG_AT] = "mluc";
    put(tag + 8, count);
    put(tag + 12, size);
    memcpy(tag + 16, records, len);
    size_t all = make_profile(profile, 1, TAG_AT, (uint32_t)len + 16, tag, len + 16);
    return kn_icc_name_of(profile, all);
}

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

static void a_translated_name_is_bounded_by_its_tag(void **state) {
    (void)state;
    EXPECT(name_of_translated(1, 12, BYTES("deDE\0\0\0\4\0\0\0\34\0A\0B")), "AB");
    EXPECT(name_of_translated(1, 12, BYTES("deDE\0\0\0\5\0\0\0\34\0A\0B\0")), "AB"); /* half a character */
    EXPECT(name_of_translated(1, 12, BYTES("deDE\0\0\0\6\0\0\0\34\0A\xD8\0\0B")), "A\xEF\xBF\xBD"
                                                                                  "B");
    EXPECT(name_of_translated(1, 12, BYTES("deDE\0\0\0\4\0\0\0\34\xDC\0\xD8\0")), "\xEF\xBF\xBD\xEF\xBF\xBD");
    EXPECT(name_of_translated(1, 12, BYTES("deDE\0\0\0\6\0\0\0\34\0A\0B")), KN_ICC_UNKNOWN);
    EXPECT(name_of_translated(1, 12, BYTES("deDE\0\0\0\4\377\377\377\377\0A\0B")), KN_ICC_UNKNOWN);
    EXPECT(name_of_translated(1, 0, BYTES("deDE\0\0\0\4\0\0\0\34\0A\0B")), KN_ICC_UNKNOWN);
    EXPECT(name_of_translated(0, 12, BYTES("deDE\0\0\0\4\0\0\0\34\0A\0B")), KN_ICC_UNKNOWN);
    EXPECT(name_of_translated(UINT32_MAX, 12, BYTES("deDE\0\0\0\4\0\0\0\34\0A\0B")), "AB");
    EXPECT(name_of_translated(UINT32_MAX, UINT32_MAX, BYTES("deDE\0\0\0\4\0\0\0\34\0A\0B")), "AB");
}

static void a_profile_that_lies_has_no_name(void **state) {
    (void)state;
    static const uint8_t tag[] = "desc\0\0\0\0\0\0\0\4abc";
    static const struct {
        uint32_t tags, at, said;
        const char *name;
    } rows[] = {
        { 1, TAG_AT, sizeof tag, "abc" },
        { UINT32_MAX, TAG_AT, sizeof tag, "abc" },
        { 0, TAG_AT, sizeof tag, KN_ICC_UNKNOWN },
        { 1, TAG_AT, sizeof tag + 1, KN_ICC_UNKNOWN },
        { 1, TAG_AT, UINT32_MAX, KN_ICC_UNKNOWN },
        { 1, UINT32_MAX, sizeof tag, KN_ICC_UNKNOWN },
        { 1, TAG_AT + 1, sizeof tag - 1, KN_ICC_UNKNOWN },
        { 1, 0, sizeof tag, KN_ICC_UNKNOWN },
        { 1, TAG_AT, 0, KN_ICC_UNKNOWN },
    };
    uint8_t profile[PROFILE_BYTES];
    size_t len = 0;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        len = make_profile(profile, rows[i].tags, rows[i].at, rows[i].said, tag, sizeof tag);
        EXPECT(kn_icc_name_of(profile, len), rows[i].name);
    }
    len = make_profile(profile, 1, TAG_AT, sizeof tag, tag, sizeof tag);
    for (size_t n = 0; n < len; n++) { /* in memory of its own, for tools that watch its end */
        uint8_t *cut = malloc(n + 1);
        memcpy(cut, profile, n);
        EXPECT(kn_icc_name_of(cut, n), KN_ICC_UNKNOWN);
        free(cut);
    }
    memcpy(profile + 36, "nope", 4);
    EXPECT(kn_icc_name_of(profile, len), KN_ICC_UNKNOWN);
}

static void knows_the_names_of_srgb(void **state) {
    (void)state;
    static const char *const yes[] = { "sRGB IEC61966-2.1", "sRGB built-in", "sRGB", "Artifex sRGB", "c2" };
    static const char *const no[] = {
        "Display P3", "Adobe RGB (1998)", "Generic RGB Profile", KN_ICC_UNKNOWN, "", "c"
    };
    for (size_t i = 0; i < KN_COUNT(yes); i++)
        assert_true(kn_icc_is_srgb(yes[i]));
    for (size_t i = 0; i < KN_COUNT(no); i++)
        assert_false(kn_icc_is_srgb(no[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_name_that_littlecms_finds),
        cmocka_unit_test(tells_none_from_one_that_cannot_be_read),
        cmocka_unit_test(thousands_of_parts_cost_neither_time_nor_the_picture),
        cmocka_unit_test(parts_that_do_not_agree_are_no_profile),
        cmocka_unit_test(a_name_is_text_whatever_its_bytes_are),
        cmocka_unit_test(a_long_name_is_cut_between_characters),
        cmocka_unit_test(a_translated_name_is_bounded_by_its_tag),
        cmocka_unit_test(a_profile_that_lies_has_no_name),
        cmocka_unit_test(knows_the_names_of_srgb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
