/* Inpainting and outpainting as a whole: what stays, what is drawn, what a model is shown, and what is refused. Whole
 * runs are held against the reference pipelines in test_pipeline.c, test_qwen_image.c, test_krea2.c and test_zimage.c.
 */
#include <stdlib.h>
#include <string.h>

#include "golden_model.h"
#include "image/resize.h"

#define SEEING KN_TEST_DATA "/qwen21-e2e/models.toml"
#define OPAQUE KN_TEST_DATA "/qwen2512/e2e/models.toml"

/* RGBA, opaque, every pixel another one. */
static kn_image motley(uint32_t width, uint32_t height) {
    kn_image p = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_new(width, height, 4, &p, &err));
    for (uint32_t i = 0; i < width * height; i++)
        memcpy(p.pixels + 4 * i, (uint8_t[]){ (uint8_t)(i * 7), (uint8_t)(i / 3), (uint8_t)(i ^ i >> 5), 255 }, 4);
    return p;
}

/* Black, with a white rectangle. */
static kn_image rectangle(uint32_t width, uint32_t height, uint32_t x0, uint32_t y0, uint32_t w, uint32_t h) {
    kn_image p = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_new(width, height, 4, &p, &err));
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            bool white = x >= x0 && x < x0 + w && y >= y0 && y < y0 + h;
            uint8_t c = white ? 255 : 0;
            memcpy(p.pixels + 4 * ((size_t)y * width + x), (uint8_t[]){ c, c, c, 255 }, 4);
        }
    return p;
}

static kn_wish small_wish(const kn_image *picture) {
    return (kn_wish){ .prompt = "a boat", .seed_given = true, .steps = { true, 2 }, .init_image = picture };
}

/* How many pixels of `got` at left, top differ from those of a picture that lies there, where its mask is black; or
 * white, if so. */
static int count_changed(const kn_image *got, uint32_t left, uint32_t top, const kn_image *picture,
                         const kn_image *mask, bool white) {
    int changed = 0;
    for (uint32_t y = 0; y < picture->height; y++)
        for (uint32_t x = 0; x < picture->width; x++) {
            size_t from = ((size_t)y * picture->width + x) * 4, to = (size_t)(top + y) * got->width + left + x;
            bool counts = (mask->pixels[from] >= 128) == white;
            changed += counts && memcmp(got->pixels + to * got->channels, picture->pixels + from, 3) != 0;
        }
    return changed;
}

static void what_a_mask_keeps_stays_to_the_byte_at_any_size(void **state) {
    (void)state;
    static const char *const configs[] = { SEEING, OPAQUE }; /* with and without alpha */
    for (size_t i = 0; i < KN_COUNT(configs); i++) {
        kn_model *m = open_model(&(kn_model_wish){ .config = configs[i] });
        kn_image picture = motley(75, 53), mask = rectangle(75, 53, 20, 0, 55, 30);
        kn_wish wish = small_wish(&picture);
        wish.inpaint.mask = &mask;
        kn_image got = draw(m, &wish, &(kn_hooks){ 0 }, NULL);
        assert_int_equal(got.width, 75);
        assert_int_equal(got.height, 53);
        assert_int_equal(count_changed(&got, 0, 0, &picture, &mask, false), 0);
        assert_true(count_changed(&got, 0, 0, &picture, &mask, true) > 55 * 30 * 9 / 10); /* up to the picture's edge */
        kn_image_free(&got);
        wish.inpaint.invert = true;
        got = draw(m, &wish, &(kn_hooks){ 0 }, NULL);
        assert_int_equal(count_changed(&got, 0, 0, &picture, &mask, true), 0);
        kn_image_free(&got);
        wish.inpaint.invert = false;
        wish.inpaint.grow = (kn_optional){ true, 5 };
        kn_image grown = rectangle(75, 53, 15, 0, 60, 35);
        got = draw(m, &wish, &(kn_hooks){ 0 }, NULL);
        assert_int_equal(count_changed(&got, 0, 0, &picture, &grown, false), 0);
        assert_true(count_changed(&got, 0, 0, &picture, &mask, true) > 0);
        kn_image_free(&got);
        kn_image_free(&grown);
        kn_image_free(&picture);
        kn_image_free(&mask);
        kn_model_close(m);
    }
}

static void a_size_of_ones_own_resizes_picture_and_mask(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = SEEING });
    kn_image picture = motley(128, 96), mask = rectangle(128, 96, 64, 0, 64, 96), half = { 0 };
    kn_image half_mask = rectangle(64, 48, 31, 0, 33, 48); /* one pixel is between black and white */
    kn_wish wish = small_wish(&picture);
    kn_error err = { 0 };
    wish.inpaint.mask = &mask;
    wish.width = (kn_optional){ true, 64 };
    wish.height = (kn_optional){ true, 48 };
    assert_true(kn_image_resize(&picture, 64, 48, &half, &err));
    kn_image got = draw(m, &wish, &(kn_hooks){ 0 }, NULL);
    assert_int_equal(got.width, 64);
    assert_int_equal(got.height, 48);
    assert_int_equal(count_changed(&got, 0, 0, &half, &half_mask, false), 0);
    kn_image_free(&got);
    kn_image_free(&half);
    kn_image_free(&half_mask);
    kn_image_free(&picture);
    kn_image_free(&mask);
    kn_model_close(m);
}

/* Of one run: the latent of the given picture, and what the last step left. */
struct ends {
    float encoded[1 << 14], last[1 << 14];
    size_t n;
};

static void keep_ends(void *ctx, const char *name, int rank, const int64_t *dim, const float *values) {
    struct ends *e = ctx;
    size_t n = (size_t)(dim[0] * (rank > 1 ? dim[1] : 1) * (rank > 2 ? dim[2] : 1));
    float *to = strcmp(name, "encoded") == 0 ? e->encoded : strcmp(name, "latents_final") == 0 ? e->last : NULL;
    if (!to)
        return;
    assert_true(n <= KN_COUNT(e->last));
    memcpy(to, values, n * sizeof *to);
    e->n = n;
}

static void every_sampler_comes_to_the_known_latent_where_the_mask_keeps_it(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = SEEING, .residency = "cached" });
    kn_image picture = motley(64, 64), mask = rectangle(64, 64, 16, 16, 32, 48);
    struct ends *e = calloc(1, sizeof *e);
    for (size_t k = 0; k < KN_SAMPLER_COUNT; k++) {
        kn_wish wish = small_wish(&picture);
        wish.steps.value = 4;
        wish.inpaint.mask = &mask;
        wish.sampler = kn_samplers[k].name.name;
        wish.strength = (kn_optional){ true, k % 2 ? 1 : 0.7 };
        kn_image got = draw(m, &wish, &(kn_hooks){ .dump = keep_ends, .dump_ctx = e }, NULL);
        size_t cells = 4 * 4, kept = 0;
        for (size_t i = 0; i < e->n; i++) {
            size_t y = i % cells / 4, x = i % 4;
            bool known = x < 1 || x > 2 || y < 1;
            bool same = e->last[i] - e->encoded[i] < 1e-4f && e->encoded[i] - e->last[i] < 1e-4f;
            if (known && !same)
                fail_msg("%s: value %zu is %g, not %g", wish.sampler, i, (double)e->last[i], (double)e->encoded[i]);
            kept += known;
        }
        assert_int_equal(kept, e->n / cells * 10);
        kn_image_free(&got);
    }
    free(e);
    kn_image_free(&picture);
    kn_image_free(&mask);
    kn_model_close(m);
}

static void outpainting_adds_to_the_sides_and_passes_into_the_picture(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = OPAQUE });
    kn_image picture = motley(70, 40), all = rectangle(70, 40, 0, 0, 0, 0), room = rectangle(70, 40, 0, 0, 6, 40);
    kn_wish wish = small_wish(&picture);
    wish.inpaint.outpaint = (kn_sides){ .left = 16, .top = 8 }; /* 86 x 48 */
    wish.inpaint.fade = (kn_optional){ true, 0 };
    kn_image got = draw(m, &wish, &(kn_hooks){ 0 }, NULL);
    assert_int_equal(got.width, 86);
    assert_int_equal(got.height, 48);
    assert_int_equal(count_changed(&got, 16, 8, &picture, &all, false), 0);
    kn_image_free(&got);
    wish.inpaint.outpaint = (kn_sides){ .left = 26, .top = 0, .bottom = 8 };
    wish.inpaint.fade.value = 6;
    got = draw(m, &wish, &(kn_hooks){ 0 }, NULL);
    assert_int_equal(got.width, 96);
    kn_image inside = rectangle(70, 40, 0, 0, 70, 40), middle = rectangle(70, 40, 6, 0, 64, 34);
    for (size_t i = 0; i < (size_t)70 * 40 * 4; i++)
        inside.pixels[i] = middle.pixels[i] ? 0 : 255; /* white where it may change */
    assert_int_equal(count_changed(&got, 26, 0, &picture, &inside, false), 0);
    assert_true(count_changed(&got, 26, 0, &picture, &room, true) > 0);
    kn_image *const pictures[] = { &got, &picture, &all, &room, &inside, &middle };
    for (size_t i = 0; i < KN_COUNT(pictures); i++)
        kn_image_free(pictures[i]);
    kn_model_close(m);
}

/* The model's grid is 16: a canvas of 73 by 47 gets a margin, which belongs to no side. */
static void a_side_that_is_not_added_to_stays_to_the_byte_whatever_the_grid(void **state) {
    (void)state;
    static const kn_sides sides[] = { { .top = 7 }, { .left = 3 }, { .right = 3 }, { .bottom = 7 } };
    kn_model *m = open_model(&(kn_model_wish){ .config = OPAQUE });
    kn_image picture = motley(70, 40);
    kn_wish wish = small_wish(&picture);
    wish.inpaint.fade = (kn_optional){ true, 8 };
    for (size_t i = 0; i < KN_COUNT(sides); i++) {
        const kn_sides s = wish.inpaint.outpaint = sides[i];
        kn_image got = draw(m, &wish, &(kn_hooks){ 0 }, NULL);
        assert_int_equal(got.width, s.left + 70 + s.right);
        assert_int_equal(got.height, s.top + 40 + s.bottom);
        kn_image edge = rectangle(70, 40, s.left ? 8 : 0, s.top ? 8 : 0, s.left || s.right ? 62 : 70,
                                  s.top || s.bottom ? 32 : 40); /* white is what stays */
        assert_int_equal(count_changed(&got, s.left, s.top, &picture, &edge, true), 0);
        assert_true(count_changed(&got, s.left, s.top, &picture, &edge, false) > 0);
        kn_image_free(&edge);
        kn_image_free(&got);
    }
    kn_image_free(&picture);
    kn_model_close(m);
}

/* Narrower than half of the model's cells, whose mask is what lies in their middle. */
static void a_side_of_a_few_pixels_is_drawn(void **state) {
    (void)state;
    static const kn_sides sides[] = { { .top = 7 }, { .left = 3 }, { .right = 1 }, { .bottom = 5 } };
    kn_model *m = open_model(&(kn_model_wish){ .config = OPAQUE });
    kn_image picture = motley(63, 64), black = rectangle(63, 64, 0, 0, 0, 0);
    kn_wish wish = small_wish(&picture);
    wish.inpaint.fade = (kn_optional){ true, 0 };
    for (size_t i = 0; i < KN_COUNT(sides); i++) {
        const kn_sides s = wish.inpaint.outpaint = sides[i];
        kn_image got = draw(m, &wish, &(kn_hooks){ 0 }, NULL);
        assert_int_equal(count_changed(&got, s.left, s.top, &picture, &black, false), 0);
        kn_image_free(&got);
    }
    kn_image_free(&picture);
    kn_image_free(&black);
    kn_model_close(m);
}

static kn_settings settings_of(const kn_model *m, const kn_wish *wish) {
    kn_settings s;
    kn_error err = { 0 };
    const kn_model_choice *c = &m->choice;
    if (!kn_settings_make(wish, &c->defaults, c->architecture, c->variant, &s, &err))
        fail_msg("%s", err.text);
    return s;
}

static void a_canvas_comes_to_a_size_of_ones_own(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = SEEING });
    kn_image picture = motley(112, 90), canvas = { 0 }, small = { 0 };
    kn_wish wish = small_wish(&picture);
    kn_error err = { 0 };
    wish.inpaint.outpaint = (kn_sides){ .left = 16, .bottom = 6 }; /* 128 x 96 */
    wish.inpaint.fade = (kn_optional){ true, 8 };
    wish.width = (kn_optional){ true, 64 };
    wish.height = (kn_optional){ true, 48 };
    assert_true(kn_image_extend(&picture, (kn_sides){ .left = 16, .bottom = 6 }, &canvas, &err) &&
                kn_image_resize(&canvas, 64, 48, &small, &err));
    kn_settings s = settings_of(m, &wish);
    assert_memory_equal(s.inpaint->picture.pixels, small.pixels, (size_t)64 * 48 * 4);
    kn_settings_free(&s);
    kn_image got = draw(m, &wish, &(kn_hooks){ 0 }, NULL);
    assert_int_equal(got.width, 64);
    assert_int_equal(got.height, 48);
    kn_image outside = rectangle(64, 48, 0, 0, 64, 48), inside = rectangle(64, 48, 17, 0, 47, 36);
    for (size_t i = 0; i < (size_t)64 * 48 * 4; i++)
        outside.pixels[i] = inside.pixels[i] ? 0 : 255; /* what is drawn, and what it fades over */
    assert_int_equal(count_changed(&got, 0, 0, &small, &outside, false), 0);
    assert_true(count_changed(&got, 0, 0, &small, &outside, true) > 8 * 48 * 9 / 10);
    kn_image *const pictures[] = { &got, &picture, &canvas, &small, &outside, &inside };
    for (size_t i = 0; i < KN_COUNT(pictures); i++)
        kn_image_free(pictures[i]);
    kn_model_close(m);
}

/* White over black: what is kept is white, and the grey between says how much is. */
static void what_comes_back_passes_into_the_enlarged_sides_without_a_seam(void **state) {
    (void)state;
    enum { WIDTH = 600, HEIGHT = 400, LEFT = 120, BOTTOM = 80, FADE = 4 * 40 };
    kn_image picture = rectangle(WIDTH, HEIGHT, 0, 0, WIDTH, HEIGHT);
    kn_image drawn = rectangle(LEFT + WIDTH, HEIGHT + BOTTOM, 0, 0, 0, 0);
    const kn_inpaint_wish wish = { .outpaint = { .left = LEFT, .bottom = BOTTOM } };
    kn_error err = { 0 };
    assert_true(kn_inpaint_restore(&wish, &picture, 4, &drawn, &err));
    for (uint32_t y = 0; y < drawn.height; y++)
        for (uint32_t x = 0; x < drawn.width; x++) {
            int here = drawn.pixels[4 * ((size_t)y * drawn.width + x)];
            int before = x ? drawn.pixels[4 * ((size_t)y * drawn.width + x - 1)] : 0;
            if (x < LEFT || y >= HEIGHT)
                assert_int_equal(here, 0);
            else if (x >= LEFT + FADE && HEIGHT - y >= FADE)
                assert_int_equal(here, 255);
            else /* no step is larger than the steepest of the curve */
                assert_true(here >= before && here - before <= 255 * 2 / FADE + 1);
        }
    kn_image_free(&picture);
    kn_image_free(&drawn);
}

static void a_model_that_sees_no_masks_is_shown_the_region_in_red(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = SEEING });
    assert_true(kn_pipeline_sees(m->pipeline));
    kn_image picture = motley(64, 64), mask = rectangle(64, 64, 16, 32, 16, 16);
    kn_wish wish = small_wish(&picture);
    wish.inpaint = (kn_inpaint_wish){ .mask = &mask, .show_region = true };
    wish.references = &picture;
    wish.reference_count = 1;
    kn_settings s = settings_of(m, &wish);
    assert_string_equal(s.recipe.prompt, "In <image2>, change the area marked in red in <image3>: a boat");
    assert_int_equal(s.recipe.reference_count, 3);
    const kn_image *shown = &s.recipe.references[1], *marked = &s.recipe.references[2];
    assert_memory_equal(shown->pixels, picture.pixels, (size_t)64 * 64 * 4);
    for (uint32_t i = 0; i < 64 * 64; i++) {
        static const uint8_t red[4] = { 255, 0, 0, 255 };
        assert_memory_equal(marked->pixels + 4 * i, mask.pixels[4 * i] ? red : picture.pixels + 4 * i, 4);
    }
    kn_settings_free(&s);

    wish.prompt = "put a boat where <image3> is red";
    s = settings_of(m, &wish);
    assert_string_equal(s.recipe.prompt, wish.prompt);
    kn_settings_free(&s);
    wish.prompt = "a boat";
    wish.reference_count = 0;
    wish.reference_resolution = (kn_optional){ true, 64 };
    kn_draw_report report;
    kn_image got = draw(m, &wish, &(kn_hooks){ 0 }, &report);
    assert_int_equal(report.stage[KN_STAGE_SEE].runs, 1);
    assert_int_equal(count_changed(&got, 0, 0, &picture, &mask, false), 0);
    kn_image_free(&got);
    wish.inpaint.show_region = false;
    s = settings_of(m, &wish);
    assert_string_equal(s.recipe.prompt, "a boat");
    assert_int_equal(s.recipe.reference_count, 0);
    kn_settings_free(&s);
    kn_model_close(m);

    m = open_model(&(kn_model_wish){ .config = KN_TEST_DATA "/krea2/models.toml", .profile = "turbo" });
    assert_false(kn_pipeline_sees(m->pipeline));
    wish.inpaint.show_region = true; /* to the others it says nothing */
    s = settings_of(m, &wish);
    assert_string_equal(s.recipe.prompt, "a boat");
    kn_settings_free(&s);
    kn_image_free(&picture);
    kn_image_free(&mask);
    kn_model_close(m);
}

static void the_text_in_the_picture_tells_of_it(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = OPAQUE });
    kn_image picture = motley(75, 53), mask = rectangle(75, 53, 0, 0, 20, 20);
    kn_error err = { 0 };
    KN_AUTO_BUF text;
    kn_buf_init(&text, 1 << 16);
    kn_wish wish = small_wish(&picture);
    wish.inpaint.mask = &mask;
    kn_settings s = settings_of(m, &wish);
    assert_true(kn_settings_describe(&s, "tiny", &text, &err));
    assert_non_null(strstr(text.data, "Size: 75x53, Denoising strength: 1, Mask: given, Model: "));
    kn_settings_free(&s);
    wish.inpaint.fade = (kn_optional){ true, 12 };
    s = settings_of(m, &wish);
    kn_buf_clear(&text);
    assert_true(kn_settings_describe(&s, "tiny", &text, &err));
    assert_non_null(strstr(text.data, ", Mask: given, Mask fade: 12, Model: "));
    kn_settings_free(&s);
    wish.inpaint = (kn_inpaint_wish){ .outpaint = { .left = 5, .bottom = 7 } };
    s = settings_of(m, &wish);
    kn_buf_clear(&text);
    assert_true(kn_settings_describe(&s, "tiny", &text, &err));
    assert_non_null(strstr(text.data, "Size: 80x60, Denoising strength: 1, Outpaint: \"5,0,0,7\", "));
    kn_settings_free(&s);
    kn_image_free(&picture);
    kn_image_free(&mask);
    kn_model_close(m);
}

static void what_cannot_be_met_is_refused_in_a_sentence(void **state) {
    (void)state;
    kn_image picture = motley(64, 64), smaller = motley(48, 64), black = rectangle(64, 64, 0, 0, 0, 0);
    kn_image white = rectangle(64, 64, 0, 0, 64, 64);
    const struct {
        kn_inpaint_wish inpaint;
        const kn_image *picture;
        int references, width;
        const char *text;
    } rows[] = {
        { { .mask = &white }, NULL, 0, 0, "a mask needs a picture to start from" },
        { { .outpaint = { .top = 1 } }, NULL, 0, 0, "outpainting needs a picture to start from" },
        { { .mask = &smaller },
          &picture,
          0,
          0,
          "the mask is 48x64 pixels large and the picture 64x64; both need the same size" },
        { { .mask = &black }, &picture, 0, 0, "the mask has no white in it, so that nothing would be drawn" },
        { { .mask = &white, .invert = true }, &picture, 0, 0, "the mask has no black in it" },
        { { .mask = &white, .grow = { true, 257 } }, &picture, 0, 0, "the mask cannot grow by 257 pixels; 0 to 256" },
        { { .mask = &white, .fade = { true, -1 } }, &picture, 0, 0, "the mask cannot fade over -1 pixels; 0 to 256" },
        { { .invert = true }, &picture, 0, 0, "there is no mask to invert" },
        { { .grow = { true, 1 } }, &picture, 0, 0, "there is no mask to grow" },
        { { .fade = { true, 1 } }, &picture, 0, 0, "there is no mask to fade" },
        { { .mask = &white, .outpaint = { .top = 1 } }, &picture, 0, 0, "outpainting has a mask of its own" },
        { { .outpaint = { .left = 8193 } }, &picture, 0, 0, "outpainting by 8193 pixels on one side; at most 8192" },
        { { .outpaint = { .left = 8000 } }, &picture, 0, 0, "width 8064: Qwen-Image 2.1 makes pictures from 16 to" },
        { { .outpaint = { .left = 8 } }, &picture, 0, 64, "outpainting makes the size from the picture and its new" },
        { { .mask = &white, .show_region = true },
          &picture,
          9,
          0,
          "9 reference pictures; the region of the mask is shown in two more, and Qwen-Image 2.1 takes at most 10" },
    };
    kn_model *m = open_model(&(kn_model_wish){ .config = SEEING });
    kn_image references[9];
    for (size_t i = 0; i < KN_COUNT(references); i++)
        references[i] = picture;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_wish wish = small_wish(rows[i].picture);
        kn_settings s;
        kn_error err = { 0 };
        wish.inpaint = rows[i].inpaint;
        wish.references = references;
        wish.reference_count = rows[i].references;
        wish.width = (kn_optional){ rows[i].width > 0, rows[i].width };
        assert_false(kn_settings_make(&wish, &m->choice.defaults, m->choice.architecture, m->choice.variant, &s, &err));
        if (!strstr(err.text, rows[i].text))
            fail_msg("'%s' does not say '%s'", err.text, rows[i].text);
        assert_int_equal(kn_exit_code(err.code), 2);
    }
    kn_image *const pictures[] = { &picture, &smaller, &black, &white };
    for (size_t i = 0; i < KN_COUNT(pictures); i++)
        kn_image_free(pictures[i]);
    kn_model_close(m);
}

static void a_mask_between_the_cells_of_the_latent_is_refused_until_it_grows(void **state) {
    (void)state;
    kn_model *m = open_model(&(kn_model_wish){ .config = SEEING });
    kn_image picture = motley(64, 64), mask = rectangle(64, 64, 16, 16, 4, 4);
    kn_wish wish = small_wish(&picture);
    wish.inpaint.mask = &mask;
    kn_settings s = settings_of(m, &wish);
    kn_image got = { 0 };
    kn_draw_report report;
    kn_error err = { 0 };
    assert_false(kn_pipeline_draw(m->pipeline, &s.recipe, &(kn_hooks){ 0 }, &got, &report, &err));
    assert_string_equal(err.text, "the mask falls between the model's cells of 16 pixels; let it grow");
    assert_int_equal(kn_exit_code(err.code), 2);
    assert_null(report.stage[KN_STAGE_PICTURES].name); /* before anything was loaded */
    kn_settings_free(&s);
    wish.inpaint.grow = (kn_optional){ true, 6 };
    got = draw(m, &wish, &(kn_hooks){ 0 }, NULL);
    kn_image_free(&got);
    kn_image_free(&picture);
    kn_image_free(&mask);
    kn_model_close(m);
}

static void a_prompt_cannot_speak_of_a_reference_that_is_not_there(void **state) {
    (void)state;
    static const struct {
        const char *prompt, *text;
        int references;
    } rows[] = {
        { "the hat of <image3>", "the prompt speaks of <image3>; reference pictures given: 2", 2 },
        { "<image1> and <image12345678901234567890>", "<image12345678901234567890>; reference pictures given: 2", 2 },
        { "<image0>", "the prompt speaks of <image0>; reference pictures given: 1", 1 },
        { "the <image> of <image1", NULL, 0 },
        { "<image1> over <image02>", NULL, 2 },
        { "like <image1>", "the prompt speaks of <image1>; reference pictures given: 0", 0 },
    };
    kn_image references[2] = { motley(32, 32), motley(32, 32) };
    kn_model *m = open_model(&(kn_model_wish){ .config = SEEING });
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        const kn_wish wish = { .prompt = rows[i].prompt,
                               .seed_given = true,
                               .references = references,
                               .reference_count = rows[i].references };
        kn_settings s;
        kn_error err = { 0 };
        bool ok = kn_settings_make(&wish, &m->choice.defaults, m->choice.architecture, m->choice.variant, &s, &err);
        if (ok != !rows[i].text || (!ok && !strstr(err.text, rows[i].text)))
            fail_msg("%s: '%s'", rows[i].prompt, err.text);
    }
    kn_image_free(&references[0]);
    kn_image_free(&references[1]);
    kn_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_mask_keeps_stays_to_the_byte_at_any_size),
        cmocka_unit_test(a_size_of_ones_own_resizes_picture_and_mask),
        cmocka_unit_test(every_sampler_comes_to_the_known_latent_where_the_mask_keeps_it),
        cmocka_unit_test(outpainting_adds_to_the_sides_and_passes_into_the_picture),
        cmocka_unit_test(a_side_that_is_not_added_to_stays_to_the_byte_whatever_the_grid),
        cmocka_unit_test(a_side_of_a_few_pixels_is_drawn),
        cmocka_unit_test(a_canvas_comes_to_a_size_of_ones_own),
        cmocka_unit_test(what_comes_back_passes_into_the_enlarged_sides_without_a_seam),
        cmocka_unit_test(a_model_that_sees_no_masks_is_shown_the_region_in_red),
        cmocka_unit_test(the_text_in_the_picture_tells_of_it),
        cmocka_unit_test(what_cannot_be_met_is_refused_in_a_sentence),
        cmocka_unit_test(a_mask_between_the_cells_of_the_latent_is_refused_until_it_grows),
        cmocka_unit_test(a_prompt_cannot_speak_of_a_reference_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
