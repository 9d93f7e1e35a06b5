/* Previews: a latent's cells as colours. That they show the picture, tests of the image worker see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipelines/preview.h"

/* Two channels: the first is red, the second takes from all. */
static const float map[] = { 1, 0, 0, -1, -1, -1, 0, 0.5f, 1 };

static void each_cell_becomes_one_opaque_pixel(void **state) {
    (void)state;
    static const float latent[] = { 0, 0.5f, -1, 9, /* first channel, [2][2] */
                                    0, 0,    0,  1 };
    static const uint8_t want[] = { 128, 191, 255, 255, 191, 191, 255, 255, 0, 191, 255, 255, 255, 64, 128, 255 };
    kn_image got = { 0 };
    assert_true(kn_preview_draw(map, 2, latent, 2, 2, &got, NULL));
    assert_int_equal(got.width, 2);
    assert_int_equal(got.height, 2);
    assert_int_equal(got.channels, 4);
    assert_memory_equal(got.pixels, want, sizeof want);
    kn_image_free(&got);
}

static void none_is_larger_than_the_protocol_allows(void **state) {
    (void)state;
    static const struct {
        int h, w;
        uint32_t height, width;
    } rows[] = { { 512, 512, 512, 512 }, { 513, 2, 256, 1 }, { 2, 1024, 1, 512 }, { 1, 2000, 1, 500 } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_image got = { 0 };
        float *latent = calloc((size_t)rows[i].h * (size_t)rows[i].w * 2, sizeof *latent);
        assert_non_null(latent);
        assert_true(kn_preview_draw(map, 2, latent, rows[i].h, rows[i].w, &got, NULL));
        assert_int_equal(got.height, rows[i].height);
        assert_int_equal(got.width, rows[i].width);
        kn_image_free(&got);
        free(latent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cell_becomes_one_opaque_pixel),
        cmocka_unit_test(none_is_larger_than_the_protocol_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
