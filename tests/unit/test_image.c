/* Picture files of every supported kind to pixels, and what is done to pixels before a model sees them: against the
 * recorded results of the reference libraries, to the byte where the format allows it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "image/exif.h"
#include "image/read.h"
#include "image/resize.h"
#include "image/transform.h"

static const kn_image_limits limits = { .bytes = 1 << 20, .side = 4096, .pixels = 1 << 20 };

static void load(const char *folder, const char *name, kn_buf *into) {
    char path[300];
    snprintf(path, sizeof path, "image/%s%s", folder, name);
    golden_read(path, into);
}

static kn_image read_picture(const char *folder, const char *name) {
    KN_AUTO_BUF file;
    load(folder, name, &file);
    kn_image image = { 0 };
    kn_error err = { 0 };
    if (!kn_image_read(file.data, file.len, &limits, &image, &err))
        fail_msg("%s: %s", name, err.text);
    return image;
}

/* Frees `got`. */
static void expect_picture(kn_image *got, const char *folder, const char *name, int tolerance) {
    kn_image want = read_picture(folder, name);
    if (got->width != want.width || got->height != want.height)
        fail_msg("%s: %ux%u pixels, not %ux%u", name, got->width, got->height, want.width, want.height);
    for (size_t i = 0; i < (size_t)want.width * want.height; i++) {
        for (unsigned c = 0; c < got->channels; c++) {
            int is = got->pixels[i * got->channels + c], should = want.pixels[i * 4 + c];
            if (abs(is - should) > tolerance)
                fail_msg("%s: channel %u of pixel %zu is %d, not %d", name, c, i, is, should);
        }
    }
    kn_image_free(got);
    kn_image_free(&want);
}

static void given_files_have_their_stated_result(void **state) {
    (void)state;
    json_t *cases = golden_json("image/cases.json");
    assert_true(json_array_size(cases) >= 25);
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach(cases, i, row) {
        const char *file = NULL, *expect = NULL, *says = "";
        json_t *decoded = NULL;
        assert_int_equal(json_unpack(row, "{s:s, s:s, s?s, s?o}", "file", &file, "expect", &expect, "says", &says,
                                     "decoded", &decoded),
                         0);
        KN_AUTO_BUF data;
        load("", file, &data);
        kn_image image = { 0 };
        kn_error err = { 0 };
        bool ok = kn_image_read(data.data, data.len, &limits, &image, &err);
        if (ok != (strcmp(expect, "accept") == 0))
            fail_msg("%s: %s", file, ok ? "is accepted" : err.text);
        if (!ok && !strstr(err.text, says))
            fail_msg("%s: says '%s', not '%s'", file, err.text, says);
        if (!ok)
            continue;
        assert_int_equal(image.channels, 4);
        assert_int_equal(image.width, json_integer_value(json_object_get(decoded, "w")));
        assert_int_equal(image.height, json_integer_value(json_object_get(decoded, "h")));
        size_t j = 0;
        json_t *pixel = NULL;
        json_array_foreach(json_object_get(decoded, "px"), j, pixel) {
            int x, y, c[4], tolerance;
            json_unpack(pixel, "[i, i, [i, i, i, i], i]", &x, &y, &c[0], &c[1], &c[2], &c[3], &tolerance);
            for (int k = 0; k < 4; k++) {
                int got = image.pixels[((size_t)y * image.width + (size_t)x) * 4 + (size_t)k];
                if (abs(got - c[k]) > tolerance)
                    fail_msg("%s: channel %d at %d,%d is %d, not %d", file, k, x, y, got, c[k]);
            }
        }
        kn_image_free(&image);
    }
    json_decref(cases);
}

static void limits_hold_for_every_format(void **state) {
    (void)state;
    static const char *const files[] = { "exif-6.jpg", "webp-named.jpg", "rgb16.png" };
    static const struct {
        kn_image_limits limits;
        const char *says;
    } rows[] = { { { 1 << 20, 7, 1 << 20 }, "pixels large; at most 7 are allowed on a side" },
                 { { 1 << 20, 64, 63 }, "pixels large; at most 63 are allowed in all" },
                 { { 20, 64, 128 }, " bytes, at most 20 are allowed" } };
    for (size_t f = 0; f < KN_COUNT(files); f++) {
        KN_AUTO_BUF file;
        load("", files[f], &file);
        for (size_t i = 0; i < KN_COUNT(rows); i++) {
            kn_image image = { 0 };
            kn_error err = { 0 };
            assert_false(kn_image_read(file.data, file.len, &rows[i].limits, &image, &err));
            assert_int_equal(err.code, KN_E_RANGE);
            if (!strstr(err.text, rows[i].says))
                fail_msg("%s: says '%s', not '%s'", files[f], err.text, rows[i].says);
        }
    }
}

/* At every length: refused with a reason, or (behind the last pixel of a JPEG or PNG file) whole. */
static void a_file_cut_short_is_never_shown_half(void **state) {
    (void)state;
    static const char *const files[] = { "exif-6.jpg", "gray-progressive.jpg", "webp-named.jpg", "rgb16.png" };
    for (size_t f = 0; f < KN_COUNT(files); f++) {
        KN_AUTO_BUF file;
        load("", files[f], &file);
        size_t refused = 0;
        for (size_t len = 0; len < file.len; len++) {
            uint8_t *exact = malloc(len ? len : 1); /* so that a sanitizer sees a byte too far */
            memcpy(exact, file.data, len);
            kn_image image = { 0 };
            kn_error err = { 0 };
            if (kn_image_read(exact, len, &limits, &image, &err)) {
                expect_picture(&image, "", files[f], 0);
            } else {
                assert_int_not_equal(err.code, KN_OK);
                refused++;
            }
            free(exact);
        }
        if (refused + 12 < file.len)
            fail_msg("%s: %zu of %zu lengths are refused", files[f], refused, file.len);
    }
}

static void jpeg_and_webp_are_turned_upright_and_png_is_not(void **state) {
    (void)state;
    for (int o = 1; o <= 8; o++) {
        char file[16], upright[16];
        snprintf(file, sizeof file, "o%d.jpg", o);
        snprintf(upright, sizeof upright, "o%d.png", o);
        kn_image image = read_picture("orientation/", file);
        expect_picture(&image, "orientation/", upright, 3);
    }
    kn_image webp = read_picture("orientation/", "webp-exif.webp");
    expect_picture(&webp, "orientation/", "webp-exif.png", 3);
    kn_image png = read_picture("orientation/", "png-exif.png");
    kn_image plain = read_picture("orientation/", "o1.png");
    assert_int_equal(png.width, plain.width);
    assert_int_equal(png.height, plain.height);
    kn_image_free(&png);
    kn_image_free(&plain);
}

static void exif_is_read_within_its_bounds(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        int orientation;
    } rows[] = {
#define ROW(bytes, orientation) { bytes, sizeof bytes - 1, orientation }
        ROW("", 1),
        ROW("II*\0\x08\0\0\0", 1),
        ROW("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0", 6),
        ROW("Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0", 6),
        ROW("MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\x08\0\0", 8),
        ROW("MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\x09\0\0", 1),   /* no such orientation */
        ROW("MM\0*\0\0\0\x08\0\1\1\x12\0\4\0\0\0\1\0\0\0\6", 1),     /* of another type */
        ROW("MM\0*\0\0\0\x08\xff\xff\1\x13\0\3\0\0\0\1\0\6\0\0", 1), /* more fields than bytes */
        ROW("MM\0*\xff\xff\xff\xff\0\1", 1),
        ROW("IM*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0", 1),
#undef ROW
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        uint8_t *exact = malloc(rows[i].len + 1);
        memcpy(exact, rows[i].bytes, rows[i].len);
        assert_int_equal(kn_exif_orientation(exact, rows[i].len), rows[i].orientation);
        free(exact);
    }
}

static void every_kind_of_png_expands_as_in_the_reference(void **state) {
    (void)state;
    static const char *const rows[][2] = { { "palette.png", "palette-rgba.png" },
                                           { "la.png", "la-rgba.png" },
                                           { "gray16.png", "gray16-8.png" } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_image image = read_picture("alpha/", rows[i][0]);
        expect_picture(&image, "alpha/", rows[i][1], 0);
    }
}

static void transparency_goes_over_white_to_the_byte(void **state) {
    (void)state;
    kn_image image = read_picture("alpha/", "input.png"), flat = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_over_white(&image, &flat, &err));
    assert_int_equal(flat.channels, 3);
    expect_picture(&flat, "alpha/", "over-white.png", 0);
    kn_image_free(&image);
}

static kn_image resized_by(const kn_image *from, uint32_t width, uint32_t height, kn_filter filter) {
    kn_image image = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_resize_by(from, width, height, filter, &image, &err));
    assert_int_equal(image.channels, from->channels);
    return image;
}

static kn_image resized(const kn_image *from, uint32_t width, uint32_t height) {
    return resized_by(from, width, height, KN_LANCZOS);
}

static kn_image without_alpha(const kn_image *rgba) {
    kn_image rgb = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_new(rgba->width, rgba->height, 3, &rgb, &err));
    for (size_t i = 0; i < (size_t)rgb.width * rgb.height; i++)
        memcpy(rgb.pixels + i * 3, rgba->pixels + i * 4, 3);
    return rgb;
}

static void resizing_equals_the_reference_to_the_byte(void **state) {
    (void)state;
    json_t *cases = golden_json("image/resize/cases.json"), *row = NULL;
    static const char *const filters[KN_FILTER_COUNT] = { "lanczos", "bicubic", "hamming", "bilinear", "box" };
    assert_int_equal(json_array_size(cases), 75);
    size_t i = 0;
    json_array_foreach(cases, i, row) {
        const char *source = golden_text(row, "source"), *file = golden_text(row, "file");
        uint32_t width = (uint32_t)golden_size(row, "width"), height = (uint32_t)golden_size(row, "height");
        kn_filter filter = KN_LANCZOS;
        while (strcmp(filters[filter], golden_text(row, "filter")) != 0)
            assert_true(++filter < KN_FILTER_COUNT);
        kn_image from = read_picture("resize/", source), got = resized_by(&from, width, height, filter);
        expect_picture(&got, "resize/", file, 0);
        if (strcmp(source, "RGBA.png") != 0) {
            kn_image rgb = without_alpha(&from);
            got = resized_by(&rgb, width, height, filter);
            expect_picture(&got, "resize/", file, 0);
            kn_image_free(&rgb);
        }
        kn_image_free(&from);
    }
    json_decref(cases);
}

static void the_same_size_changes_nothing_and_hidden_colours_do_not_bleed(void **state) {
    (void)state;
    kn_image from = read_picture("", "alpha-hidden.png"), same = resized(&from, from.width, from.height);
    assert_memory_equal(same.pixels, from.pixels, (size_t)from.width * from.height * 4);
    kn_image half = resized(&from, 8, 8); /* left opaque red, right fully transparent green */
    for (size_t i = 0; i < 64; i++) {
        const uint8_t *p = half.pixels + i * 4;
        assert_true(p[3] == 0 || (p[0] >= 195 && p[1] <= 5));
    }
    kn_image_free(&from);
    kn_image_free(&same);
    kn_image_free(&half);
}

static void expect_size(const json_t *row, uint32_t width, uint32_t height) {
    const json_t *expected = json_object_get(row, "expected");
    assert_int_equal(width, json_integer_value(json_array_get(expected, 0)));
    assert_int_equal(height, json_integer_value(json_array_get(expected, 1)));
}

static void references_get_the_sizes_of_the_reference_pipeline(void **state) {
    (void)state;
    json_t *cases = golden_json("image/reference-sizes.json"), *row = NULL;
    assert_int_equal(json_array_size(cases), 36);
    size_t i = 0;
    json_array_foreach(cases, i, row) {
        uint32_t width = 0, height = 0;
        kn_reference_size((uint32_t)golden_size(row, "width"), (uint32_t)golden_size(row, "height"),
                          (unsigned)golden_size(row, "resolution"), &width, &height);
        expect_size(row, width, height);
    }
    json_decref(cases);
}

static void pictures_are_seen_at_the_sizes_of_the_reference_processors(void **state) {
    (void)state;
    json_t *cases = golden_json("image/vision-sizes.json"), *row = NULL;
    assert_int_equal(json_array_size(cases), 22);
    size_t i = 0;
    json_array_foreach(cases, i, row) {
        uint32_t width = 0, height = 0;
        kn_vision_size((uint32_t)golden_size(row, "width"), (uint32_t)golden_size(row, "height"),
                       (unsigned)golden_size(row, "factor"), golden_number(row, "min"), golden_number(row, "max"),
                       &width, &height);
        expect_size(row, width, height);
    }
    json_decref(cases);
}

static void an_aspect_has_the_sizes_of_comfyui(void **state) {
    (void)state;
    json_t *cases = golden_json("image/aspect-sizes.json"), *row = NULL;
    assert_int_equal(json_array_size(cases), 32);
    size_t i = 0;
    json_array_foreach(cases, i, row) {
        uint32_t width = 0, height = 0;
        unsigned a = 0, b = 0;
        assert_int_equal(sscanf(golden_text(row, "ratio"), "%u:%u", &a, &b), 2);
        kn_aspect_size(a, b, golden_number(row, "megapixels") * (1 << 20), (unsigned)golden_size(row, "multiple"),
                       &width, &height);
        expect_size(row, width, height);
    }
    json_decref(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_files_have_their_stated_result),
        cmocka_unit_test(limits_hold_for_every_format),
        cmocka_unit_test(a_file_cut_short_is_never_shown_half),
        cmocka_unit_test(jpeg_and_webp_are_turned_upright_and_png_is_not),
        cmocka_unit_test(exif_is_read_within_its_bounds),
        cmocka_unit_test(every_kind_of_png_expands_as_in_the_reference),
        cmocka_unit_test(transparency_goes_over_white_to_the_byte),
        cmocka_unit_test(resizing_equals_the_reference_to_the_byte),
        cmocka_unit_test(the_same_size_changes_nothing_and_hidden_colours_do_not_bleed),
        cmocka_unit_test(references_get_the_sizes_of_the_reference_pipeline),
        cmocka_unit_test(pictures_are_seen_at_the_sizes_of_the_reference_processors),
        cmocka_unit_test(an_aspect_has_the_sizes_of_comfyui),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
