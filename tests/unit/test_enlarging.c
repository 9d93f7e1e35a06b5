/* What the ops promise that only networks use which enlarge pictures, on every tier of this machine. */
#include "ops_test.h"

static void activations_have_their_known_values(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor x = kn_upload(&r, DIMS(6), (float[]){ 0, 1, -2, 30, -100, -0.5f });
    kn_mish(&r, x);
    ASSERT_LIST(&r, x, 1e-6, 0, 0.86509839, -0.25250148, 30, 0, -0.22074362);
    x = kn_upload(&r, DIMS(3, 2), (float[]){ 1, -1, -2, 4, 0, -8 });
    kn_leaky_relu(&r, x, 0.25f);
    ASSERT_LIST(&r, x, 0, 1, -0.25, -0.5, 4, 0, -2);
    const float slopes[] = { 0.5f, -1 };
    const kn_weight slope = { .data = slopes, .dtype = KN_F32, .rank = 1, .dim = { 2 }, .scale = 1, .name = "slope" };
    x = kn_upload(&r, DIMS(3, 2), (float[]){ 1, -1, -2, 4, 0, -8 });
    kn_prelu(&r, x, &slope);
    ASSERT_LIST(&r, x, 0, 1, 1, -1, 4, 0, 8);
    kn_prelu(&r, kn_upload(&r, DIMS(1, 3), (float[]){ 1, 2, 3 }), &slope);
    assert_failed(&r, KN_E_FORMAT, "'slope': prelu needs aligned F32 [3]");
    end(&r);
}

static void leaky_relu_takes_every_element_of_any_size(void **state) {
    (void)state;
    kn_run r = begin(3);
    static const int64_t sizes[] = { 0, 1, 63, 64, 65, 16383, 16385, 70001 };
    for (size_t i = 0; i < KN_COUNT(sizes); i++) {
        int64_t n = sizes[i];
        float *x = random_values(n);
        double *want = malloc((size_t)(n + 1) * sizeof *want);
        assert_non_null(want);
        for (int64_t k = 0; k < n; k++)
            want[k] = x[k] < 0 ? x[k] * 0.1f : x[k];
        kn_tensor t = kn_upload(&r, 1, &n, x);
        kn_leaky_relu(&r, t, 0.1f);
        assert_values(&r, t, want, 0);
        free(want);
        free(x);
    }
    end(&r);
}

static void additions_reach_the_columns_that_both_have(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor wide = kn_upload(&r, DIMS(2, 3), (float[]){ 1, 2, 3, 4, 5, 6 });
    kn_tensor narrow = kn_upload(&r, DIMS(2, 2), (float[]){ 10, 20, 30, 40 });
    kn_add_scaled(&r, wide, 0.5f, narrow);
    ASSERT_LIST(&r, wide, 0, 6, 12, 3, 19, 25, 6);
    kn_add_scaled(&r, narrow, 2, wide);
    ASSERT_LIST(&r, narrow, 0, 22, 44, 68, 90);
    kn_add_constant(&r, narrow, -2);
    ASSERT_LIST(&r, narrow, 0, 20, 42, 66, 88);
    kn_add_scaled(&r, narrow, 1, kn_rows(&r, wide, 0, 1));
    assert_failed(&r, KN_E_USAGE, "add_scaled of [1, 3] to [2, 2]");
    end(&r);
}

static void columns_are_copied_out(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor x = kn_upload(&r, DIMS(2, 1, 4), (float[]){ 1, 2, 3, 4, 5, 6, 7, 8 });
    kn_tensor y = kn_columns(&r, x, 1, 2);
    assert_int_equal(y.rank, 3);
    ASSERT_LIST(&r, y, 0, 2, 3, 6, 7);
    kn_columns(&r, x, 3, 2);
    assert_failed(&r, KN_E_USAGE, "columns 3 to 5 of [2, 1, 4]");
    end(&r);
}

static void mish_glu_takes_the_gate_first(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor x = kn_upload(&r, DIMS(2, 4), (float[]){ 1, 0, 3, 5, -2, 30, 2, 0.5f });
    ASSERT_LIST(&r, kn_mish_glu(&r, x), 1e-6, 3 * 0.86509839, 0, 2 * -0.25250148, 15);
    kn_mish_glu(&r, kn_upload(&r, DIMS(1, 3), (float[]){ 1, 2, 3 }));
    assert_failed(&r, KN_E_USAGE, "mish_glu: [1, 3] has no two halves");
    end(&r);
}

static void shuffling_makes_a_channel_s_pixels_of_its_channels(void **state) {
    (void)state;
    kn_run r = begin(1);
    /* one pixel, two channels of two by two, and one pixel to its right */
    kn_tensor x = kn_upload(&r, DIMS(1, 2, 8), (float[]){ 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18 });
    kn_tensor y = kn_pixel_shuffle(&r, x, 2, KN_NONE);
    assert_int_equal(y.dim[0], 2);
    assert_int_equal(y.dim[1], 4);
    assert_int_equal(y.dim[2], 2);
    ASSERT_LIST(&r, y, 0, 1, 5, 2, 6, 11, 15, 12, 16, 3, 7, 4, 8, 13, 17, 14, 18);
    kn_tensor base = kn_upload(&r, DIMS(1, 2, 2), (float[]){ 100, 200, 300, 400 });
    ASSERT_LIST(&r, kn_pixel_shuffle(&r, x, 2, base), 0, 101, 205, 102, 206, 311, 415, 312, 416, 103, 207, 104, 208,
                313, 417, 314, 418);
    kn_tensor back = kn_pixel_unshuffle(&r, y, 2);
    ASSERT_LIST(&r, back, 0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18);
    kn_pixel_shuffle(&r, x, 3, KN_NONE);
    assert_failed(&r, KN_E_USAGE, "pixel_shuffle: the channels of [1, 2, 8] are not groups of 9");
    r.err = (kn_error){ 0 };
    kn_pixel_unshuffle(&r, y, 3);
    assert_failed(&r, KN_E_USAGE, "pixel_unshuffle by 3 of [2, 4, 2]");
    r.err = (kn_error){ 0 };
    kn_pixel_shuffle(&r, x, 2, y);
    assert_failed(&r, KN_E_USAGE, "onto [2, 4, 2]");
    end(&r);
}

/* One channel a group, each with the offsets of its own. */
static void learned_places_are_read_between_pixels_and_within_the_picture(void **state) {
    (void)state;
    enum { PLACES = 2 * KN_DYSAMPLE_GROUPS };
    kn_run r = begin(1);
    const float picture[] = { 0, 0, 0, 0, 8, 8, 8, 8, 16, 16, 16, 16, 24, 24, 24, 24 }; /* [2, 2, 4] */
    float at[PLACES] = { 0.25f, 0, -1, 5, 0, 0.5f, 0, -3 }, offset[4 * PLACES] = { 0 };
    offset[0] = 1; /* half of it counts: the first pixel's first group reads 0.75 to the right */
    const kn_weight place = { .data = at, .dtype = KN_F32, .rank = 1, .dim = { PLACES }, .scale = 1, .name = "place" };
    kn_tensor x = kn_upload(&r, DIMS(2, 2, 4), picture), o = kn_upload(&r, DIMS(2, 2, PLACES), offset);
    ASSERT_LIST(&r, kn_dysample(&r, x, o, &place, 1), 0, /* right by 8, down by 16 */
                6, 8, 0, 8, 8, 16, 0, 8, 18, 16, 16, 8, 24, 24, 16, 8);
    kn_dysample(&r, x, o, &place, 2);
    assert_failed(&r, KN_E_USAGE, "dysample by 2 of [2, 2, 4] at [2, 2, 8]");
    end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_have_their_known_values),
        cmocka_unit_test(leaky_relu_takes_every_element_of_any_size),
        cmocka_unit_test(additions_reach_the_columns_that_both_have),
        cmocka_unit_test(columns_are_copied_out),
        cmocka_unit_test(mish_glu_takes_the_gate_first),
        cmocka_unit_test(shuffling_makes_a_channel_s_pixels_of_its_channels),
        cmocka_unit_test(learned_places_are_read_between_pixels_and_within_the_picture),
    };
    return run_on_every_tier(tests, KN_COUNT(tests));
}
