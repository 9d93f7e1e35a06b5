/* Masks and canvases: against the recorded case of the reference, and by what they promise. */
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "image/canvas.h"
#include "sampling/sampler.h"

/* A mask of rows of digits in tenths, ended by a newline each. */
static kn_mask drawn(const char *rows) {
    kn_mask m = { 0 };
    kn_error err = { 0 };
    uint32_t width = (uint32_t)strcspn(rows, "\n");
    assert_true(kn_mask_new(width, (uint32_t)strlen(rows) / (width + 1), &m, &err));
    for (uint32_t i = 0; i < m.width * m.height; i++)
        m.at[i] = (float)(rows[i + i / width] - '0') / 9;
    return m;
}

/* Frees got. */
static void expect_mask(kn_mask *got, const char *rows) {
    kn_mask want = drawn(rows);
    assert_int_equal(got->width, want.width);
    assert_int_equal(got->height, want.height);
    for (uint32_t i = 0; i < want.width * want.height; i++)
        if (got->at[i] < want.at[i] - 1e-6f || got->at[i] > want.at[i] + 1e-6f)
            fail_msg("pixel %u is %g, not %g", i, (double)got->at[i], (double)want.at[i]);
    kn_mask_free(got);
    kn_mask_free(&want);
}

/* RGBA: grey, opaque. */
static kn_image picture(uint32_t width, uint32_t height, const uint8_t *grey) {
    kn_image p = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_new(width, height, 4, &p, &err));
    for (size_t i = 0; i < (size_t)width * height; i++)
        memcpy(p.pixels + 4 * i, (uint8_t[]){ grey[i], grey[i], grey[i], 255 }, 4);
    return p;
}

static void white_is_drawn_anew_from_the_middle_of_grey_on(void **state) {
    (void)state;
    kn_image p = picture(3, 2, (const uint8_t[]){ 0, 127, 128, 255, 1, 254 });
    kn_mask m = { 0 };
    kn_error err = { 0 };
    assert_true(kn_mask_from_picture(&p, &m, &err));
    expect_mask(&m, "009\n909\n");
    assert_true(kn_mask_from_picture(&p, &m, &err));
    kn_mask_invert(&m);
    expect_mask(&m, "990\n090\n");
    kn_image_free(&p);
}

static void where_something_is_transparent_only_that_counts(void **state) {
    (void)state;
    kn_image p = picture(2, 2, (const uint8_t[]){ 255, 255, 0, 0 });
    kn_mask m = { 0 };
    kn_error err = { 0 };
    p.pixels[3] = 0;
    p.pixels[15] = 128;
    assert_true(kn_mask_from_picture(&p, &m, &err));
    expect_mask(&m, "90\n00\n");
    kn_image_free(&p);
}

static void growing_reaches_a_square_of_pixels_and_no_further(void **state) {
    (void)state;
    static const char one[] = "000000\n000000\n000900\n000000\n000000\n";
    kn_error err = { 0 };
    kn_mask m = drawn(one);
    assert_true(kn_mask_grow(&m, 0, &err));
    expect_mask(&m, one);
    m = drawn(one);
    assert_true(kn_mask_grow(&m, 1, &err));
    expect_mask(&m, "000000\n009990\n009990\n009990\n000000\n");
    m = drawn(one);
    assert_true(kn_mask_grow(&m, 2, &err));
    expect_mask(&m, "099999\n099999\n099999\n099999\n099999\n");
    m = drawn("4009\n0000\n");
    assert_true(kn_mask_grow(&m, 1, &err));
    expect_mask(&m, "4499\n4499\n");
    m = drawn("4009\n0000\n");
    assert_true(kn_mask_grow(&m, 4000000000, &err));
    expect_mask(&m, "9999\n9999\n");
}

static void fading_rises_from_the_edge_and_leaves_what_stays(void **state) {
    (void)state;
    kn_error err = { 0 };
    kn_mask m = drawn("9999999\n9999999\n9999999\n9990999\n9999999\n9999999\n");
    assert_true(kn_mask_fade(&m, 2, &err)); /* in thirds */
    expect_mask(&m, "9999999\n9666669\n9633369\n9630369\n9633369\n9666669\n");
    m = drawn("0990\n");
    assert_true(kn_mask_fade(&m, 0, &err));
    expect_mask(&m, "0990\n");
    m = drawn("999\n999\n"); /* the picture's edge is none of the mask's */
    assert_true(kn_mask_fade(&m, 256, &err));
    expect_mask(&m, "999\n999\n");
}

static void a_mask_comes_to_the_size_of_the_latent_as_in_the_reference(void **state) {
    (void)state;
    golden g = golden_open("image/mask/expected.safetensors");
    const kn_entry *from = golden_entry(&g, "mask"), *to = golden_entry(&g, "latent_mask");
    kn_mask m = { 0 }, scaled = { 0 };
    kn_error err = { 0 };
    assert_true(kn_mask_new((uint32_t)from->dim[1], (uint32_t)from->dim[0], &m, &err));
    memcpy(m.at, golden_floats(&g, "mask", NULL), (size_t)from->bytes);
    assert_true(kn_mask_resize(&m, (uint32_t)to->dim[1], (uint32_t)to->dim[0], &scaled, &err));
    golden_compare(&g, "latent_mask", scaled.at, (size_t)to->elements);
    kn_mask_free(&m);
    kn_mask_free(&scaled);
    golden_close(&g);
}

/* What the recorded network says of a clean picture, as a velocity. */
static void one_step_goes_through_the_mask_as_in_the_reference(void **state) {
    (void)state;
    golden g = golden_open("image/mask/expected.safetensors");
    size_t n = 0, cells = 0;
    const float *start = golden_floats(&g, "x", &n), *clean = golden_floats(&g, "latent", NULL);
    const float *noise = golden_floats(&g, "noise", NULL), *told = golden_floats(&g, "model_x0", NULL);
    const float *mask = golden_floats(&g, "latent_mask", &cells), *sigma = golden_floats(&g, "sigmas", NULL);
    float *x = malloc(n * sizeof *x), *v = malloc(n * sizeof *v), *estimate = malloc(n * sizeof *estimate);
    memcpy(x, start, n * sizeof *x);
    for (size_t at = 0; at < n; at += cells)
        kn_keep_known(x + at, mask, clean + at, noise + at, sigma[0], cells);
    golden_compare(&g, "blended_x", x, n);
    for (size_t i = 0; i < n; i++)
        v[i] = (x[i] - told[i]) / sigma[0];
    for (size_t at = 0; at < n; at += cells)
        kn_steer_to_known(v + at, mask, x + at, clean + at, sigma[0], cells);
    for (size_t i = 0; i < n; i++) {
        estimate[i] = x[i] - sigma[0] * v[i];
        x[i] += (sigma[1] - sigma[0]) * v[i];
    }
    golden_compare(&g, "denoised", estimate, n);
    golden_compare(&g, "next_x", x, n);
    free(x);
    free(v);
    free(estimate);
    golden_close(&g);
}

/* Recorded as fractions; ours has 8 bits. */
static kn_image recorded_picture(const golden *g, const char *name) {
    const kn_entry *e = golden_entry(g, name);
    const float *from = golden_floats(g, name, NULL);
    kn_image p = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_new((uint32_t)e->dim[1], (uint32_t)e->dim[0], 3, &p, &err));
    for (uint64_t i = 0; i < e->elements; i++)
        p.pixels[i] = (uint8_t)(from[i] * 255 + 0.5f);
    return p;
}

static void a_canvas_and_its_mask_are_those_of_the_reference(void **state) {
    (void)state;
    golden g = golden_open("image/mask/expected.safetensors");
    json_t *c = golden_json("image/mask/case.json"), *sides = json_object_get(c, "outpaint");
    const kn_sides by = { (uint32_t)golden_size(sides, "left"), (uint32_t)golden_size(sides, "top"),
                          (uint32_t)golden_size(sides, "right"), (uint32_t)golden_size(sides, "bottom") };
    kn_image inner = recorded_picture(&g, "outpaint.image"), want = recorded_picture(&g, "outpaint.canvas");
    kn_image got = { 0 };
    kn_mask mask = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_extend(&inner, by, &got, &err));
    assert_int_equal(got.width, want.width);
    assert_int_equal(got.height, want.height);
    assert_memory_equal(got.pixels, want.pixels, (size_t)want.width * want.height * 3);
    assert_true(kn_mask_of_sides(inner.width, inner.height, by, (uint32_t)golden_size(sides, "feather"), &mask, &err));
    golden_compare(&g, "outpaint.mask", mask.at, (size_t)mask.width * mask.height);
    kn_mask_free(&mask);
    kn_image_free(&inner);
    kn_image_free(&got);
    kn_image_free(&want);
    json_decref(c);
    golden_close(&g);
}

static void sides_pass_into_no_picture_that_has_no_room_for_it(void **state) {
    (void)state;
    kn_error err = { 0 };
    kn_mask m = { 0 };
    assert_true(kn_mask_of_sides(4, 3, (kn_sides){ .left = 2 }, 2, &m, &err));
    expect_mask(&m, "990000\n990000\n990000\n");
}

static void padding_repeats_the_edge_and_cutting_takes_it_away(void **state) {
    (void)state;
    kn_image p = picture(2, 2, (const uint8_t[]){ 1, 2, 3, 4 }), padded = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_pad(&p, 4, 3, &padded, &err));
    static const uint8_t want[12] = { 1, 2, 2, 2, 3, 4, 4, 4, 3, 4, 4, 4 };
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(padded.pixels[4 * i], want[i]);
    kn_image_cut(&padded, 2, 2);
    assert_memory_equal(padded.pixels, p.pixels, 16);
    kn_image_free(&padded);
    kn_image_free(&p);
    kn_mask m = drawn("09\n90\n"), wide = { 0 };
    assert_true(kn_mask_pad(&m, 3, 3, &wide, &err));
    kn_mask_free(&m);
    expect_mask(&wide, "099\n900\n900\n");
}

static void what_is_drawn_lies_over_the_original_by_its_share(void **state) {
    (void)state;
    kn_image below = picture(3, 1, (const uint8_t[]){ 10, 10, 10 }),
             above = picture(3, 1, (const uint8_t[]){ 90, 99, 90 });
    kn_mask m = drawn("036\n");
    kn_image_lay_over(&above, &below, &m);
    assert_int_equal(above.pixels[0], 10);
    assert_int_equal(above.pixels[4], 40); /* 39.67 */
    assert_int_equal(above.pixels[8], 63); /* 63.33 */
    kn_image_paint_red(&below, &m);
    assert_memory_equal(below.pixels, ((const uint8_t[]){ 10, 10, 10, 255, 10, 10, 10, 255, 255, 0, 0, 255 }), 12);
    kn_mask_free(&m);
    kn_image_free(&below);
    kn_image_free(&above);
}

/* As a latent with cells of that size sees it. */
static bool is_seen(const kn_image *rgba, uint32_t width, uint32_t height, uint32_t cell) {
    kn_mask m = { 0 }, padded = { 0 }, latent = { 0 };
    kn_error err = { 0 };
    assert_true(kn_mask_from_picture(rgba, &m, &err) && kn_mask_pad(&m, width, height, &padded, &err) &&
                kn_mask_resize(&padded, width / cell, height / cell, &latent, &err));
    bool seen = !kn_mask_is_empty(&latent);
    kn_mask_free(&m);
    kn_mask_free(&padded);
    kn_mask_free(&latent);
    return seen;
}

static void what_a_mask_lacks_is_told_as_latents_see_it(void **state) {
    (void)state;
    static const uint8_t black[70 * 70];
    static const uint32_t sides[][2] = { { 64, 64 }, { 70, 66 }, { 48, 35 }, { 5, 70 } };
    for (size_t i = 0; i < KN_COUNT(sides); i++) {
        uint32_t w = sides[i][0], h = sides[i][1], wide = kn_side_on_grid(KN_MAX(w, 64u), 16),
                 high = kn_side_on_grid(KN_MAX(h, 64u), 16);
        kn_image p = picture(w, h, black);
        assert_int_equal(kn_mask_lacks_of(&p, wide, high),
                         KN_MASK_LACKS_WHITE | KN_MASK_MISSES_CELLS_8 | KN_MASK_MISSES_CELLS_16);
        for (uint32_t at = 0; at < w * h; at++) {
            p.pixels[(size_t)4 * at] = 255;
            unsigned lacks = kn_mask_lacks_of(&p, wide, high);
            if (lacks & KN_MASK_LACKS_WHITE || !(lacks & KN_MASK_MISSES_CELLS_8) != is_seen(&p, wide, high, 8) ||
                !(lacks & KN_MASK_MISSES_CELLS_16) != is_seen(&p, wide, high, 16))
                fail_msg("pixel %u of %ux%u: %u", at, w, h, lacks);
            p.pixels[(size_t)4 * at] = 0;
        }
        kn_image_free(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(white_is_drawn_anew_from_the_middle_of_grey_on),
        cmocka_unit_test(where_something_is_transparent_only_that_counts),
        cmocka_unit_test(growing_reaches_a_square_of_pixels_and_no_further),
        cmocka_unit_test(fading_rises_from_the_edge_and_leaves_what_stays),
        cmocka_unit_test(a_mask_comes_to_the_size_of_the_latent_as_in_the_reference),
        cmocka_unit_test(one_step_goes_through_the_mask_as_in_the_reference),
        cmocka_unit_test(a_canvas_and_its_mask_are_those_of_the_reference),
        cmocka_unit_test(sides_pass_into_no_picture_that_has_no_room_for_it),
        cmocka_unit_test(padding_repeats_the_edge_and_cutting_takes_it_away),
        cmocka_unit_test(what_is_drawn_lies_over_the_original_by_its_share),
        cmocka_unit_test(what_a_mask_lacks_is_told_as_latents_see_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
