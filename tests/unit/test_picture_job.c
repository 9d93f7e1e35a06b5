/* Clients' pictures made harmless: the odd and hostile files, and what is left of a good one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "image/png.h"
#include "workers/picture_job.h"

enum { PNG_BYTES = 1 << 20 };

static kn_job_code work(const char *name, uint32_t largest, kn_picture_facts *facts, kn_buf *png, kn_error *err) {
    char path[100];
    kn_buf file;
    snprintf(path, sizeof path, "image/%s", name);
    golden_read(path, &file);
    kn_buf_init(png, PNG_BYTES);
    kn_job_code code = kn_picture_job(file.data, file.len, largest, facts, png, err);
    kn_buf_free(&file);
    return code;
}

static void check_pixels(const json_t *decoded, const kn_image *got) {
    size_t i = 0;
    json_t *place = NULL;
    json_array_foreach(json_object_get(decoded, "px"), i, place) {
        json_int_t x = json_integer_value(json_array_get(place, 0)), y = json_integer_value(json_array_get(place, 1));
        json_int_t tolerance = json_integer_value(json_array_get(place, 3));
        const uint8_t *pixel = got->pixels + ((size_t)y * got->width + (size_t)x) * got->channels;
        for (size_t c = 0; c < 4; c++) {
            json_int_t want = json_integer_value(json_array_get(json_array_get(place, 2), c));
            assert_true(llabs(pixel[c] - want) <= tolerance);
        }
    }
}

static void gives_every_odd_picture_its_stated_result(void **state) {
    (void)state;
    json_t *cases = golden_json("image/cases.json"), *row = NULL;
    size_t i = 0;
    assert_true(json_array_size(cases) >= 25);
    json_array_foreach(cases, i, row) {
        kn_picture_facts facts;
        kn_error err = { 0 };
        kn_buf png;
        const char *file = golden_text(row, "file");
        const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
        const json_t *decoded = json_object_get(row, "decoded");
        kn_job_code code = work(name, 0, &facts, &png, &err);
        print_message("  %s: %s %s\n", name, kn_job_codes[code].word, err.text);
        bool accept = strcmp(golden_text(row, "expect"), "accept") == 0;
        if (code == KN_JOB_DONE) {
            kn_image got = { 0 };
            assert_true(accept);
            assert_true(kn_png_read(png.data, png.len, &KN_IMAGE_LIMITS, &got, &err));
            assert_int_equal(got.width, golden_size(decoded, "w"));
            assert_int_equal(got.height, golden_size(decoded, "h"));
            assert_int_equal(got.width, facts.width);
            check_pixels(decoded, &got);
            kn_image_free(&got);
        } else {
            assert_true(!accept || *golden_text(row, "may"));
            assert_int_equal(code, KN_JOB_REFERENCE_INVALID);
            assert_true(err.text[0] != 0);
        }
        kn_buf_free(&png);
    }
    json_decref(cases);
}

/* Chunks of a PNG file other than these. */
static bool has_more_than_pixels(const kn_buf *png) {
    static const char *const pixels[] = { "IHDR", "IDAT", "IEND" };
    size_t at = 8;
    bool more = false;
    while (at + 12 <= png->len && !more) {
        const uint8_t *n = (const uint8_t *)png->data + at;
        bool known = false;
        for (size_t i = 0; i < KN_COUNT(pixels); i++)
            known = known || memcmp(png->data + at + 4, pixels[i], 4) == 0;
        more = !known;
        at += 12 + ((size_t)n[0] << 24 | (size_t)n[1] << 16 | (size_t)n[2] << 8 | n[3]);
    }
    return more || at != png->len;
}

static void leaves_nothing_but_pixels(void **state) {
    (void)state;
    static const char *const names[] = { "gps.jpg", "exif-6.jpg", "ztxt-8MB.png", "workflow-a1111.png" };
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        kn_picture_facts facts;
        kn_error err = { 0 };
        kn_buf png;
        assert_int_equal(work(names[i], 0, &facts, &png, &err), KN_JOB_DONE);
        assert_false(has_more_than_pixels(&png));
        kn_buf_free(&png);
    }
}

static void makes_pictures_fit_and_no_larger(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t largest, width, height, width_as_it_came;
        bool transparent;
    } rows[] = {
        { "exif-6.jpg", 24, 16, 24, 32, false },
        { "exif-6.jpg", 512, 32, 48, 32, false },
        { "strip-1x2000.png", 100, 1, 100, 1, false },
        { "alpha-hidden.png", 8, 8, 8, 16, true },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_picture_facts facts;
        kn_error err = { 0 };
        kn_buf png;
        kn_image got = { 0 };
        assert_int_equal(work(rows[i].name, rows[i].largest, &facts, &png, &err), KN_JOB_DONE);
        assert_true(kn_png_read(png.data, png.len, &KN_IMAGE_LIMITS, &got, &err));
        assert_int_equal(got.width, rows[i].width);
        assert_int_equal(got.height, rows[i].height);
        assert_int_equal(facts.width, rows[i].width_as_it_came);
        assert_int_equal(facts.is_transparent, rows[i].transparent);
        if (rows[i].transparent) /* hidden colours do not bleed into what can be seen */
            assert_true(got.pixels[0] >= 195 && got.pixels[1] <= 5 && got.pixels[3] == 255);
        kn_image_free(&got);
        kn_buf_free(&png);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_every_odd_picture_its_stated_result),
        cmocka_unit_test(leaves_nothing_but_pixels),
        cmocka_unit_test(makes_pictures_fit_and_no_larger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
