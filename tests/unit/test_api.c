/* libkuno as a program outside uses it: through kuno.h alone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kuno.h"

static kuno_request request_for(const char *prompt, uint64_t seed) {
    kuno_request q;
    kuno_request_init(&q);
    q.prompt = prompt;
    q.random_seed = 0;
    q.seed = seed;
    return q;
}

static void the_built_in_model_draws_without_any_file(void **state) {
    (void)state;
    kuno_model *model = NULL;
    kuno_error error = { 0 };
    kuno_image image = { 0 };
    assert_int_equal(kuno_model_open(NULL, &model, &error), KUNO_OK);
    kuno_request q = request_for("a red apple", 1);
    assert_int_equal(kuno_generate(model, &q, &image, &error), KUNO_OK);
    assert_int_equal(image.width, 128);
    assert_int_equal(image.height, 128);
    assert_int_equal(image.channels, 4);
    assert_non_null(strstr(image.parameters, "a red apple\nSteps: 8, Sampler: euler"));
    /* An apple is red in its middle and transparent in its corners. */
    const unsigned char *middle = image.pixels + 4 * (70 * 128 + 64);
    assert_true(middle[0] > 150 && middle[1] < 110 && middle[2] < 110 && middle[3] > 240);
    assert_true(image.pixels[3] < 16);
    kuno_image_free(&image);
    kuno_image_free(&image);
    kuno_image_free(NULL);
    kuno_model_close(model);
    kuno_model_close(NULL);
}

static void a_random_seed_is_told_and_gives_the_same_picture_again(void **state) {
    (void)state;
    const kuno_model_options options = { .keep_loaded = 1, .threads = 1 };
    kuno_model *model = NULL;
    kuno_image first = { 0 }, again = { 0 };
    assert_int_equal(kuno_model_open(&options, &model, NULL), KUNO_OK);
    kuno_request q;
    kuno_request_init(&q);
    q.prompt = "a cat";
    assert_int_equal(kuno_generate(model, &q, &first, NULL), KUNO_OK);
    q = request_for("a cat", first.seed);
    assert_int_equal(kuno_generate(model, &q, &again, NULL), KUNO_OK);
    assert_memory_equal(first.pixels, again.pixels, (size_t)first.width * first.height * first.channels);
    kuno_image_free(&first);
    kuno_image_free(&again);
    kuno_model_close(model);
}

static void errors_are_one_sentence_with_a_code(void **state) {
    (void)state;
    kuno_model *model = NULL;
    kuno_error error = { 0 };
    const kuno_model_options absent = { .vae = "/nonexistent.safetensors" };
    assert_int_equal(kuno_model_open(&absent, &model, &error), KUNO_INVALID);
    assert_string_equal(error.text, "VAE: '/nonexistent.safetensors': no such file");
    assert_null(model);
    assert_int_equal(kuno_model_open(NULL, &model, &error), KUNO_OK);
    kuno_image image = { 0 };
    kuno_request q = request_for("x", 1);
    q.width = 100;
    assert_int_equal(kuno_generate(model, &q, &image, &error), KUNO_INVALID);
    assert_int_equal(error.code, KUNO_INVALID);
    assert_string_equal(error.text, "width 100 is not a multiple of 16; the nearest allowed is 96");
    assert_null(image.pixels);
    kuno_model_close(model);
}

static int stop_at_two(void *context, const kuno_progress *p) {
    if (p->steps)
        *(int *)context = p->step;
    return p->step == 2;
}

static int cancel_from_inside(void *context, const kuno_progress *p) {
    if (p->step == 3)
        kuno_cancel(context);
    return 0;
}

static void calls_stop_when_asked_and_start_afresh(void **state) {
    (void)state;
    kuno_model *model = NULL;
    kuno_image image = { 0 };
    kuno_error error = { 0 };
    assert_int_equal(kuno_model_open(NULL, &model, &error), KUNO_OK);
    int last = 0;
    kuno_request q = request_for("a fox", 5);
    q.progress = stop_at_two;
    q.progress_context = &last;
    assert_int_equal(kuno_generate(model, &q, &image, &error), KUNO_CANCELLED);
    assert_int_equal(last, 2);
    q.progress = cancel_from_inside;
    q.progress_context = model;
    assert_int_equal(kuno_generate(model, &q, &image, &error), KUNO_CANCELLED);
    q.progress = NULL;
    assert_int_equal(kuno_generate(model, &q, &image, &error), KUNO_OK);
    kuno_image_free(&image);
    kuno_model_close(model);
}

static void a_picture_is_written_with_its_settings(void **state) {
    (void)state;
    char path[] = "/tmp/kuno-api-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    kuno_model *model = NULL;
    kuno_image image = { 0 };
    kuno_request q = request_for("a star", 9);
    assert_int_equal(kuno_model_open(NULL, &model, NULL), KUNO_OK);
    assert_int_equal(kuno_generate(model, &q, &image, NULL), KUNO_OK);
    assert_int_equal(kuno_image_write_png(&image, path, NULL), KUNO_OK);
    char text[4096] = "";
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    assert_memory_equal(text, "\x89PNG\r\n\x1a\n", 8);
    assert_non_null(memmem(text, n, "a star\nSteps: 8", 15));
    kuno_error error = { 0 };
    assert_int_equal(kuno_image_write_png(&image, "/nonexistent/x.png", &error), KUNO_INVALID);
    assert_non_null(strstr(error.text, "folder does not exist"));
    close(fd);
    unlink(path);
    kuno_image_free(&image);
    kuno_model_close(model);
}

static const char golden_model[] = KN_TEST_DATA "/qwen21-e2e/models.toml";

static kuno_model *open_golden(int keep_loaded) {
    const kuno_model_options options = { .config = golden_model, .precision = KUNO_EXACT, .keep_loaded = keep_loaded };
    kuno_model *model = NULL;
    kuno_error error = { 0 };
    if (kuno_model_open(&options, &model, &error) != KUNO_OK)
        fail_msg("%s", error.text);
    return model;
}

static kuno_request small_request(uint64_t seed) {
    kuno_request q = request_for("a boat", seed);
    q.width = q.height = 32;
    q.steps = 2;
    return q;
}

static void assert_same_pixels(const kuno_image *a, const kuno_image *b) {
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    assert_memory_equal(a->pixels, b->pixels, (size_t)a->width * a->height * a->channels);
}

static kuno_stage stage_of(const kuno_model *model, const char *name) {
    kuno_report report;
    kuno_model_report(model, &report);
    for (int i = 0; i < KUNO_STAGES; i++)
        if (report.stages[i].name && strcmp(report.stages[i].name, name) == 0)
            return report.stages[i];
    return (kuno_stage){ 0 };
}

static void a_batch_encodes_once_and_draws_what_single_calls_draw(void **state) {
    (void)state;
    for (int keep_loaded = 0; keep_loaded < 2; keep_loaded++) {
        kuno_model *model = open_golden(keep_loaded);
        kuno_image batch[3] = { { 0 } };
        kuno_request q = small_request(5);
        assert_int_equal(kuno_generate_batch(model, &q, 3, batch, NULL), KUNO_OK);
        kuno_stage encode = stage_of(model, "encode"), diffuse = stage_of(model, "diffuse");
        assert_int_equal(encode.runs, 1);
        assert_int_equal(encode.reused, 2);
        assert_int_equal(diffuse.runs, 3);
        assert_true(encode.weight_bytes > 0 && diffuse.seconds > 0);
        for (uint64_t i = 0; i < 3; i++) {
            kuno_model *alone = open_golden(keep_loaded);
            kuno_image one = { 0 };
            q = small_request(5 + i);
            assert_int_equal(kuno_generate(alone, &q, &one, NULL), KUNO_OK);
            assert_true(batch[i].seed == 5 + i && one.seed == 5 + i);
            assert_same_pixels(&one, &batch[i]);
            assert_string_equal(one.parameters, batch[i].parameters);
            kuno_image_free(&one);
            kuno_image_free(&batch[i]);
            kuno_model_close(alone);
        }
        kuno_model_close(model);
    }
}

static void pictures_are_edited_and_started_from(void **state) {
    (void)state;
    kuno_model *model = open_golden(0);
    kuno_image references[2] = { { 0 } }, plain = { 0 }, edited = { 0 }, started = { 0 }, kept = { 0 };
    kuno_error error = { 0 };
    assert_int_equal(kuno_image_read(KN_TEST_DATA "/qwen21-e2e/edit/reference0.png", &references[0], &error), KUNO_OK);
    assert_int_equal(kuno_image_read(KN_TEST_DATA "/image/exif-6.jpg", &references[1], &error), KUNO_OK);
    kuno_request q = small_request(5);
    assert_int_equal(kuno_generate(model, &q, &plain, &error), KUNO_OK);
    q.references = references;
    q.reference_count = 1;
    assert_int_equal(kuno_generate(model, &q, &edited, &error), KUNO_OK);
    assert_memory_not_equal(edited.pixels, plain.pixels, 32 * 32 * 4);
    assert_int_equal(stage_of(model, "see").runs, 1);
    assert_non_null(strstr(edited.parameters, "References: 1"));

    q = small_request(5);
    q.init_image = &references[1];
    q.strength = 0.5;
    assert_int_equal(kuno_generate(model, &q, &started, &error), KUNO_OK);
    assert_non_null(strstr(started.parameters, "Denoising strength: 0.5"));
    assert_null(stage_of(model, "see").name);
    q.strength = 1; /* nothing of it is left */
    assert_int_equal(kuno_generate(model, &q, &kept, &error), KUNO_OK);
    assert_same_pixels(&kept, &plain);
    kuno_image *const all[] = { &references[0], &references[1], &plain, &edited, &started, &kept };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        kuno_image_free(all[i]);
    kuno_model_close(model);
}

/* Of the given picture, opaque, only a part is drawn. */
static void a_part_of_a_picture_is_drawn_and_the_rest_stays(void **state) {
    (void)state;
    enum { SIDE = 40, HALF = SIDE / 2 };
    kuno_model *model = open_golden(0);
    unsigned char pixels[SIDE * SIDE * 3], white[SIDE * SIDE * 3] = { 0 };
    for (size_t i = 0; i < sizeof pixels; i++) {
        pixels[i] = (unsigned char)(i * 7);
        white[i] = i / 3 % SIDE < HALF ? 255 : 0;
    }
    const kuno_image picture = { .width = SIDE, .height = SIDE, .channels = 3, .pixels = pixels };
    const kuno_image mask = { .width = SIDE, .height = SIDE, .channels = 3, .pixels = white };
    kuno_request q = small_request(5);
    q.width = q.height = 0;
    q.init_image = &picture;
    q.mask = &mask;
    q.no_region = 1;
    q.opaque = 1;
    for (q.mask_invert = 0; q.mask_invert < 2; q.mask_invert++) {
        kuno_image drawn = { 0 };
        int changed = 0;
        assert_int_equal(kuno_generate(model, &q, &drawn, NULL), KUNO_OK);
        assert_int_equal(drawn.width, SIDE);
        assert_int_equal(drawn.height, SIDE);
        for (size_t i = 0; i < SIDE * SIDE; i++) {
            bool stays = (i % SIDE >= HALF) != (q.mask_invert != 0);
            bool same = memcmp(drawn.pixels + 4 * i, pixels + 3 * i, 3) == 0;
            assert_true(same || !stays);
            assert_int_equal(drawn.pixels[4 * i + 3], 255);
            changed += !same;
        }
        assert_true(changed > SIDE * HALF * 9 / 10);
        kuno_image_free(&drawn);
    }
    assert_null(stage_of(model, "see").name);

    q = small_request(5);
    q.width = q.height = 0;
    q.init_image = &picture;
    q.outpaint = (kuno_sides){ .left = 3, .bottom = 8 };
    q.mask_fade = 0;
    kuno_image drawn = { 0 };
    assert_int_equal(kuno_generate(model, &q, &drawn, NULL), KUNO_OK);
    assert_int_equal(drawn.width, SIDE + 3);
    assert_int_equal(drawn.height, SIDE + 8);
    for (size_t y = 0; y < SIDE; y++)
        for (size_t x = 0; x < SIDE; x++)
            assert_memory_equal(drawn.pixels + 4 * (y * (SIDE + 3) + x + 3), pixels + 3 * (y * SIDE + x), 3);
    assert_int_equal(stage_of(model, "see").runs, 1); /* it was shown the region */
    kuno_image_free(&drawn);
    kuno_model_close(model);
}

static void a_picture_without_alpha_is_opaque(void **state) {
    (void)state;
    kuno_model *model = open_golden(0);
    unsigned char rgb[32 * 32 * 3], rgba[32 * 32 * 4];
    for (size_t i = 0; i < 32 * 32; i++) {
        for (size_t c = 0; c < 3; c++)
            rgb[3 * i + c] = rgba[4 * i + c] = (unsigned char)(i * (c + 1));
        rgba[4 * i + 3] = 255;
    }
    const kuno_image given[] = { { .width = 32, .height = 32, .channels = 3, .pixels = rgb },
                                 { .width = 32, .height = 32, .channels = 4, .pixels = rgba } };
    kuno_image drawn[2] = { { 0 } };
    for (size_t i = 0; i < 2; i++) {
        kuno_request q = small_request(5);
        q.init_image = &given[i];
        assert_int_equal(kuno_generate(model, &q, &drawn[i], NULL), KUNO_OK);
    }
    assert_same_pixels(&drawn[0], &drawn[1]);
    kuno_image_free(&drawn[0]);
    kuno_image_free(&drawn[1]);
    kuno_model_close(model);
}

/* Each of these settings changes the picture and is told in its parameters. */
static void noise_levels_and_samplers_are_as_the_request_says(void **state) {
    (void)state;
    static const float sigmas[] = { 1, 0.3f };
    static const float noise[64 * 2 * 2] = { 1 };
    kuno_request rows[6];
    static const char *const says[] = { "Flow shift: 2", "Sampler: heun",   "Schedule type: custom",
                                        "RNG: given",    "RNG: torch-cuda", "Schedule type: beta" };
    kuno_request q = small_request(5);
    q.steps = 4;
    for (size_t i = 0; i < 6; i++)
        rows[i] = q;
    rows[0].flow_shift = 2;
    rows[1].sampler = "heun";
    rows[2].steps = 0;
    rows[2].sigmas = sigmas;
    rows[2].sigma_count = 2;
    rows[3].init_noise = noise;
    rows[3].init_noise_count = 64 * 2 * 2;
    rows[4].rng = "torch-cuda";
    rows[5].scheduler = "beta";
    kuno_model *model = open_golden(1);
    kuno_image plain = { 0 };
    assert_int_equal(kuno_generate(model, &q, &plain, NULL), KUNO_OK);
    for (size_t i = 0; i < 6; i++) {
        kuno_image other = { 0 };
        kuno_error error = { 0 };
        if (kuno_generate(model, &rows[i], &other, &error) != KUNO_OK)
            fail_msg("%s: %s", says[i], error.text);
        assert_memory_not_equal(other.pixels, plain.pixels, 32 * 32 * 4);
        if (!strstr(other.parameters, says[i]))
            fail_msg("'%s' does not say '%s'", other.parameters, says[i]);
        kuno_image_free(&other);
    }
    kuno_image_free(&plain);
    kuno_model_close(model);
}

static void a_dump_is_written_where_the_request_says(void **state) {
    (void)state;
    char folder[] = "/tmp/kuno-api-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/dump.safetensors", folder);
    kuno_model *model = open_golden(0);
    kuno_image image = { 0 };
    kuno_request q = small_request(5);
    q.dump = folder;
    assert_int_equal(kuno_generate(model, &q, &image, NULL), KUNO_OK);
    assert_int_equal(access(path, R_OK), 0);
    unlink(path);
    rmdir(folder);
    kuno_image_free(&image);
    kuno_model_close(model);
}

static void a_prompt_that_is_too_long_is_cut_and_reported(void **state) {
    (void)state;
    const kuno_model_options options = { .config = KN_TEST_DATA "/z-image/models.toml", .profile = "turbo" };
    kuno_model *model = NULL;
    kuno_image image = { 0 };
    static char prompt[4001];
    memset(prompt, 'x', sizeof prompt - 1);
    assert_int_equal(kuno_model_open(&options, &model, NULL), KUNO_OK);
    kuno_request q = request_for(prompt, 1);
    q.width = q.height = 32;
    q.steps = 1;
    assert_int_equal(kuno_generate(model, &q, &image, NULL), KUNO_OK);
    kuno_report report;
    kuno_model_report(model, &report);
    assert_int_equal(report.prompt_tokens, 512);
    assert_true(report.dropped_tokens > 0);
    kuno_image_free(&image);
    kuno_model_close(model);
}

static void requests_that_cannot_be_met_say_why(void **state) {
    (void)state;
    kuno_model *model = open_golden(0);
    unsigned char pixel[4] = { 0 };
    const kuno_image nothing = { 0 }, endless = { .width = 1 << 20, .height = 1, .channels = 4, .pixels = pixel };
    struct {
        kuno_request q;
        size_t count;
        const char *text;
    } rows[13];
    for (size_t i = 0; i < 13; i++) {
        rows[i].q = small_request(5);
        rows[i].count = 1;
    }
    rows[0].q.references = &nothing;
    rows[0].q.reference_count = 1;
    rows[0].text = "reference: not a picture of 0 channels and 0x0 pixels";
    rows[1].q.init_image = &endless;
    rows[1].text = "init image: ";
    rows[2].q.reference_count = 11;
    rows[2].text = "11 reference pictures; 0 to 10 are possible";
    rows[3].q.reference_count = -1;
    rows[3].text = "-1 reference pictures";
    rows[4].q.strength = 0.5;
    rows[4].text = "a strength of 0.5 needs a picture to start from";
    rows[5].count = 0;
    rows[5].text = "0 pictures; 1 to 10000 are possible";
    rows[6].count = SIZE_MAX;
    rows[6].text = "1 to 10000 are possible";
    rows[7].q.seed = UINT64_MAX;
    rows[7].count = 2;
    rows[7].text = "the last seed would be beyond 18446744073709551615";
    rows[8].q.dump = "/tmp";
    rows[8].count = 2;
    rows[8].text = "a dump tells of one picture, and 2 are wanted";
    rows[9].q.init_noise = (const float[]){ 0 };
    rows[9].q.init_noise_count = 1;
    rows[9].text = "the given noise has 1 values, this size needs 256";
    rows[10].q.mask = &nothing;
    rows[10].text = "mask: not a picture of 0 channels and 0x0 pixels";
    rows[11].q.outpaint.top = -1;
    rows[11].text = "outpainting by 0,-1,0,0 pixels; a side cannot become shorter";
    rows[12].q.mask_grow = 2;
    rows[12].text = "there is no mask to grow";
    for (size_t i = 0; i < 13; i++) {
        kuno_image image = { 0 };
        kuno_error error = { 0 };
        assert_int_equal(kuno_generate_batch(model, &rows[i].q, rows[i].count, &image, &error), KUNO_INVALID);
        if (!strstr(error.text, rows[i].text))
            fail_msg("'%s' does not say '%s'", error.text, rows[i].text);
        assert_null(image.pixels);
    }
    kuno_image image = { 0 };
    kuno_error error = { 0 };
    assert_int_equal(kuno_image_read("/nonexistent.png", &image, &error), KUNO_INVALID);
    assert_string_equal(error.text, "'/nonexistent.png': no such file");
    kuno_model_close(model);
}

/* Runs under ThreadSanitizer too. */
struct thread {
    pthread_t id;
    const char *prompt;
    kuno_image image;
    kuno_code code;
};

static void *draw_apart(void *context) {
    struct thread *t = context;
    const kuno_model_options options = { .threads = 2, .precision = KUNO_EXACT };
    kuno_model *model = NULL;
    t->code = kuno_model_open(&options, &model, NULL);
    if (t->code == KUNO_OK) {
        kuno_request q = request_for(t->prompt, 3);
        t->code = kuno_generate(model, &q, &t->image, NULL);
    }
    kuno_model_close(model);
    return NULL;
}

static void two_threads_with_models_of_their_own_do_not_meet(void **state) {
    (void)state;
    struct thread threads[2] = { { .prompt = "a rose" }, { .prompt = "a rose" } };
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i].id, NULL, draw_apart, &threads[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i].id, NULL);
        assert_int_equal(threads[i].code, KUNO_OK);
    }
    assert_memory_equal(threads[0].image.pixels, threads[1].image.pixels, 128 * 128 * 4);
    for (int i = 0; i < 2; i++)
        kuno_image_free(&threads[i].image);
}

static int count_tiles(void *context, const kuno_progress *p) {
    *(int *)context += strcmp(p->phase, "tile") == 0 && p->step > 0;
    return 0;
}

static void pictures_are_enlarged_by_networks_and_without(void **state) {
    (void)state;
    kuno_upscaler *network = NULL, *plain = NULL;
    kuno_image from = { 0 }, to = { 0 };
    int tiles = 0;
    kuno_error error = { 0 };
    assert_int_equal(kuno_image_read(KN_TEST_DATA "/upscalers/image.png", &from, NULL), KUNO_OK);
    assert_int_equal(
        kuno_upscaler_open(KN_TEST_DATA "/upscalers/compact-x2/weights.safetensors", 1, KUNO_FAST, &network, NULL),
        KUNO_OK);
    assert_int_equal(kuno_upscaler_open(NULL, 0, KUNO_FAST, &plain, NULL), KUNO_OK);
    assert_int_equal(kuno_upscaler_scale(network), 2);
    assert_int_equal(kuno_upscaler_scale(plain), 1);
    kuno_upscale_request q = { .progress = count_tiles, .progress_context = &tiles };
    assert_int_equal(kuno_upscale(network, &from, &q, &to, NULL), KUNO_OK);
    assert_int_equal(to.width, 2 * from.width);
    assert_int_equal(to.height, 2 * from.height);
    assert_int_equal(to.channels, 3); /* nothing of it is transparent */
    assert_int_equal(tiles, 1);
    kuno_image_free(&to);
    q.width = 50;
    q.height = 40;
    assert_int_equal(kuno_upscale(plain, &from, &q, &to, NULL), KUNO_OK);
    assert_int_equal(to.width, 50);
    assert_int_equal(tiles, 1);
    kuno_image_free(&to);
    q.height = -1;
    assert_int_equal(kuno_upscale(plain, &from, &q, &to, &error), KUNO_INVALID);
    q.height = 0;
    assert_int_equal(kuno_upscale(plain, &from, &q, &to, &error), KUNO_INVALID);
    error = (kuno_error){ 0 };
    kuno_upscaler *none = NULL;
    assert_int_equal(kuno_upscaler_open("/nonexistent.safetensors", 1, KUNO_FAST, &none, &error), KUNO_INVALID);
    assert_string_equal(error.text, "upscaler: '/nonexistent.safetensors': no such file");
    kuno_upscaler_close(network);
    kuno_upscaler_close(plain);
    kuno_upscaler_close(NULL);
    kuno_image_free(&from);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_model_draws_without_any_file),
        cmocka_unit_test(a_random_seed_is_told_and_gives_the_same_picture_again),
        cmocka_unit_test(errors_are_one_sentence_with_a_code),
        cmocka_unit_test(calls_stop_when_asked_and_start_afresh),
        cmocka_unit_test(a_picture_is_written_with_its_settings),
        cmocka_unit_test(a_batch_encodes_once_and_draws_what_single_calls_draw),
        cmocka_unit_test(pictures_are_edited_and_started_from),
        cmocka_unit_test(a_part_of_a_picture_is_drawn_and_the_rest_stays),
        cmocka_unit_test(a_picture_without_alpha_is_opaque),
        cmocka_unit_test(noise_levels_and_samplers_are_as_the_request_says),
        cmocka_unit_test(a_dump_is_written_where_the_request_says),
        cmocka_unit_test(a_prompt_that_is_too_long_is_cut_and_reported),
        cmocka_unit_test(requests_that_cannot_be_met_say_why),
        cmocka_unit_test(two_threads_with_models_of_their_own_do_not_meet),
        cmocka_unit_test(pictures_are_enlarged_by_networks_and_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
