/* libkuno as a program outside uses it: through kuno.h alone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_model_draws_without_any_file),
        cmocka_unit_test(a_random_seed_is_told_and_gives_the_same_picture_again),
        cmocka_unit_test(errors_are_one_sentence_with_a_code),
        cmocka_unit_test(calls_stop_when_asked_and_start_afresh),
        cmocka_unit_test(a_picture_is_written_with_its_settings),
        cmocka_unit_test(two_threads_with_models_of_their_own_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
