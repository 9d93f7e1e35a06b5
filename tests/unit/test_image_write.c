/* Pixels to JPEG and WebP files and back: what is lost and what is not, and the recipe text in their notes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "image/exif.h"
#include "image/jpeg.h"
#include "image/read.h"
#include "image/size.h"
#include "image/write.h"

enum { FILE_BYTES = 8 << 20, TEXT_BYTES = 1 << 20 };

static const kn_image_kind kinds[] = { KN_IMAGE_PNG, KN_IMAGE_JPEG, KN_IMAGE_WEBP };
static const char *const recipe = "a red boat \xE2\x80\x94 \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80\n"
                                  "Negative prompt: \xC3\xA9\xC3\xA9\nSteps: 8, Seed: 42, Size: 64x48";

/* Smooth, in colour: what a lossy format is made for. */
static kn_image gradient(unsigned channels) {
    kn_image image;
    assert_true(kn_image_new(64, 48, channels, &image, NULL));
    for (uint32_t y = 0; y < image.height; y++) {
        for (uint32_t x = 0; x < image.width; x++) {
            uint8_t *pixel = image.pixels + ((size_t)y * image.width + x) * channels;
            const uint8_t colours[4] = { (uint8_t)(x * 4), (uint8_t)(y * 5), (uint8_t)(255 - x * 2 - y),
                                         (uint8_t)(x < 32 ? 255 : 0) };
            memcpy(pixel, colours, channels);
        }
    }
    return image;
}

static kn_image write_and_read(const kn_image *image, const kn_image_form *form, kn_buf *file) {
    kn_image got = { 0 };
    kn_error err = { 0 };
    kn_buf_init(file, FILE_BYTES);
    if (!kn_image_write(image, form, file, &err) ||
        !kn_image_read(file->data, file->len, &KN_IMAGE_LIMITS, &got, &err)) {
        fail_msg("%s: %s", kn_image_kind_name(form->kind), err.text);
        abort(); /* never reached, which analysers do not know */
    }
    assert_int_equal(kn_image_kind_of(file->data, file->len), form->kind);
    assert_int_equal(got.width, image->width);
    assert_int_equal(got.height, image->height);
    return got;
}

static void a_file_tells_its_size_in_its_first_bytes(void **state) {
    (void)state;
    static const kn_image_form forms[] = {
        { .kind = KN_IMAGE_PNG },
        { .kind = KN_IMAGE_JPEG, .quality = 95 },
        { .kind = KN_IMAGE_JPEG, .quality = 80, .parameters = "a red boat" },
        { .kind = KN_IMAGE_WEBP, .quality = 80 },
        { .kind = KN_IMAGE_WEBP, .quality = 100, .parameters = "a red boat" },
    };
    for (size_t i = 0; i < 2 * KN_COUNT(forms); i++) {
        KN_AUTO_BUF file;
        kn_image image = gradient(i % 2 ? 3 : 4), got = write_and_read(&image, &forms[i / 2], &file);
        uint32_t width = 0, height = 0;
        assert_true(kn_image_size_of(file.data, file.len, &width, &height));
        assert_int_equal(width, 64);
        assert_int_equal(height, 48);
        for (size_t len = 0; len < file.len; len++) {
            char *cut = malloc(len + 1); /* so that reading beyond is noticed */
            assert_non_null(cut);
            memcpy(cut, file.data, len);
            if (kn_image_size_of(cut, len, &width, &height))
                assert_true(width == 64 && height == 48);
            free(cut);
        }
        kn_image_free(&image);
        kn_image_free(&got);
    }
    const uint8_t lossless[30] = "RIFF\x16\0\0\0WEBPVP8L\x0a\0\0\0\x2f\x3f\xc0\x0b"; /* 64 by 48 */
    uint32_t width = 0, height = 0;
    assert_true(kn_image_size_of(lossless, sizeof lossless, &width, &height));
    assert_true(width == 64 && height == 48);
    assert_false(kn_image_size_of("GIF89a\x40\0\x30\0", 10, &width, &height));
}

static double mean_error(const kn_image *a, const kn_image *b) {
    double sum = 0;
    for (size_t i = 0; i < (size_t)a->width * a->height; i++)
        for (unsigned c = 0; c < 3; c++)
            sum += abs(a->pixels[i * a->channels + c] - b->pixels[i * b->channels + c]);
    return sum / (3.0 * a->width * a->height);
}

static void keeps_a_picture_as_well_as_the_quality_says(void **state) {
    (void)state;
    kn_image image = gradient(3);
    for (size_t i = 0; i < KN_COUNT(kinds); i++) {
        double error[2];
        size_t len[2];
        for (int fine = 0; fine < 2; fine++) {
            KN_AUTO_BUF file;
            const kn_image_form form = { .kind = kinds[i], .quality = fine ? 95 : 20 };
            kn_image got = write_and_read(&image, &form, &file);
            error[fine] = mean_error(&image, &got);
            len[fine] = file.len;
            kn_image_free(&got);
        }
        print_message("  %s: %zu bytes, off by %.2f; %zu, %.2f\n", kn_image_kind_name(kinds[i]), len[0], error[0],
                      len[1], error[1]);
        assert_true(error[1] <= (kinds[i] == KN_IMAGE_PNG ? 0 : 2));
        assert_true(kinds[i] == KN_IMAGE_PNG || (error[0] > error[1] && len[0] < len[1]));
    }
    kn_image_free(&image);
}

static void keeps_transparency_or_lays_it_on_white(void **state) {
    (void)state;
    kn_image image = gradient(4);
    for (size_t i = 0; i < KN_COUNT(kinds); i++) {
        KN_AUTO_BUF file;
        const kn_image_form form = { .kind = kinds[i], .quality = 95 };
        kn_image got = write_and_read(&image, &form, &file);
        const uint8_t *hidden = got.pixels + 4 * (24 * 64 + 48), *seen = got.pixels + 4 * (24 * 64 + 8);
        assert_int_equal(seen[3], 255);
        assert_int_equal(hidden[3], kinds[i] == KN_IMAGE_JPEG ? 255 : 0);
        if (kinds[i] == KN_IMAGE_JPEG)
            assert_true(hidden[0] > 245 && hidden[1] > 245 && hidden[2] > 245);
        kn_image_free(&got);
    }
    kn_image_free(&image);
}

static void a_recipe_comes_back_to_the_byte(void **state) {
    (void)state;
    kn_image image = gradient(3);
    for (size_t i = 0; i < KN_COUNT(kinds); i++) {
        KN_AUTO_BUF file;
        KN_AUTO_BUF text;
        kn_buf_init(&text, TEXT_BYTES);
        const kn_image_form form = { .kind = kinds[i], .quality = 80, .parameters = recipe };
        kn_image got = write_and_read(&image, &form, &file);
        assert_true(kn_image_parameters(file.data, file.len, &text));
        assert_string_equal(text.data, recipe);
        kn_image_free(&got);
        kn_buf_clear(&text);
        kn_buf_free(&file);
        got = write_and_read(&image, &(kn_image_form){ .kind = kinds[i], .quality = 80 }, &file);
        assert_false(kn_image_parameters(file.data, file.len, &text));
        assert_int_equal(text.len, 0);
        assert_null(memmem(file.data, file.len, "Exif", 4));
        kn_image_free(&got);
    }
    kn_image_free(&image);
}

static void reads_the_notes_of_other_programs(void **state) {
    (void)state;
    static const char *const names[] = { "unicode.jpg", "unicode.webp", "ascii.jpg" };
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        char path[100];
        KN_AUTO_BUF file;
        KN_AUTO_BUF text;
        snprintf(path, sizeof path, "image/comments/%s", names[i]);
        golden_read(path, &file);
        kn_buf_init(&text, TEXT_BYTES);
        assert_true(kn_image_parameters(file.data, file.len, &text));
        assert_string_equal(text.data, i < 2 ? "a b\xC3\xB4t \xF0\x9F\x9A\x80\nSteps: 4, Seed: 7, Size: 8x8"
                                             : "a boat\nSteps: 4, Seed: 7, Size: 8x8");
    }
}

static void a_text_that_is_too_long_for_jpeg_is_refused(void **state) {
    (void)state;
    kn_image image = gradient(3);
    KN_AUTO_BUF text;
    KN_AUTO_BUF file;
    kn_error err = { 0 };
    kn_buf_init(&text, TEXT_BYTES);
    kn_buf_init(&file, FILE_BYTES);
    while (text.len < 32737)
        assert_true(kn_buf_add_text(&text, "a"));
    assert_true(kn_image_has_room(KN_IMAGE_JPEG, text.data));
    kn_image_form form = { .kind = KN_IMAGE_JPEG, .quality = 80, .parameters = text.data };
    assert_true(kn_image_write(&image, &form, &file, &err));
    assert_true(kn_buf_add_text(&text, "a"));
    form.parameters = text.data;
    kn_buf_clear(&file);
    assert_false(kn_image_has_room(KN_IMAGE_JPEG, text.data));
    assert_false(kn_image_write(&image, &form, &file, &err));
    assert_int_equal(err.code, KN_E_RANGE);
    form.kind = KN_IMAGE_WEBP;
    kn_buf_free(&file);
    kn_image got = write_and_read(&image, &form, &file);
    kn_image_free(&got);
    kn_image_free(&image);
}

static void stops_at_the_limit_of_a_file(void **state) {
    (void)state;
    kn_image image = gradient(3);
    for (size_t i = 0; i < KN_COUNT(kinds); i++) {
        KN_AUTO_BUF file;
        kn_error err = { 0 };
        kn_buf_init(&file, 100);
        assert_false(kn_image_write(&image, &(kn_image_form){ .kind = kinds[i], .quality = 95 }, &file, &err));
        assert_int_equal(err.code, KN_E_RANGE);
    }
    kn_image_free(&image);
}

static void damaged_notes_are_passed_over(void **state) {
    (void)state;
    KN_AUTO_BUF whole;
    KN_AUTO_BUF text;
    kn_buf_init(&whole, TEXT_BYTES);
    kn_buf_init(&text, TEXT_BYTES);
    assert_true(kn_exif_write("a boat \xF0\x9F\x9A\x80", &whole, NULL));
    const uint8_t *data = (const uint8_t *)whole.data;
    for (size_t len = 0; len < whole.len; len++)
        assert_false(kn_exif_comment(data, len, &text));
    assert_int_equal(text.len, 0);
    assert_true(kn_exif_comment(data, whole.len, &text));
    for (size_t i = 0; i < whole.len; i++) { /* whatever one bit does, it ends within the data */
        whole.data[i] ^= 0x40;
        kn_buf_clear(&text);
        (void)kn_exif_comment(data, whole.len, &text);
        whole.data[i] ^= 0x40;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_a_picture_as_well_as_the_quality_says),
        cmocka_unit_test(a_file_tells_its_size_in_its_first_bytes),
        cmocka_unit_test(keeps_transparency_or_lays_it_on_white),
        cmocka_unit_test(a_recipe_comes_back_to_the_byte),
        cmocka_unit_test(reads_the_notes_of_other_programs),
        cmocka_unit_test(a_text_that_is_too_long_for_jpeg_is_refused),
        cmocka_unit_test(stops_at_the_limit_of_a_file),
        cmocka_unit_test(damaged_notes_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
