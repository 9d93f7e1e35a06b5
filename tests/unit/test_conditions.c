/* What is kept of prompts and pictures, and when it is forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipelines/conditions.h"

static kn_condition *of_text(kn_conditions *all, const char *text, kn_condition *const *about, int count) {
    kn_condition *c = kn_conditions_of_text(all, text, about, count);
    assert_non_null(c);
    return c;
}

static kn_condition *of_grey(kn_conditions *all, uint32_t width, uint32_t height, uint8_t value) {
    kn_image picture = { 0 };
    kn_error err = { 0 };
    assert_true(kn_image_new(width, height, 3, &picture, &err));
    memset(picture.pixels, value, (size_t)width * height * 3);
    kn_condition *c = kn_conditions_of_picture(all, &picture);
    assert_non_null(c);
    assert_null(picture.pixels); /* taken over */
    return c;
}

/* As if an encoder had made so many values of it. */
static void make(kn_condition *c, size_t count) {
    c->values = (kn_values){ .at = malloc(count * sizeof(float)), .rank = 1, .dim = { (int64_t)count } };
    assert_non_null(c->values.at);
    c->is_made = true;
}

static void the_same_is_one_condition_and_a_new_one_is_empty(void **state) {
    (void)state;
    kn_conditions *all = kn_conditions_new();
    kn_condition *boat = of_text(all, "a boat", NULL, 0), *none = of_text(all, "", NULL, 0);
    kn_condition *grey = of_grey(all, 4, 2, 128), *high = of_grey(all, 2, 4, 128), *black = of_grey(all, 4, 2, 0);
    assert_null(boat->values.at);
    assert_string_equal(boat->text, "a boat");
    kn_condition *const different[] = { boat, none, grey, high, black };
    for (size_t i = 0; i < KN_COUNT(different); i++)
        for (size_t k = 0; k < i; k++)
            assert_true(different[i] != different[k] && different[i]->serial != different[k]->serial);
    assert_ptr_equal(of_text(all, "a boat", NULL, 0), boat);
    assert_ptr_equal(of_text(all, "", NULL, 0), none);
    assert_ptr_equal(of_grey(all, 4, 2, 128), grey);
    kn_conditions_free(all);
    kn_conditions_free(NULL);
}

static void a_prompt_is_another_one_about_other_pictures_or_in_another_order(void **state) {
    (void)state;
    kn_conditions *all = kn_conditions_new();
    kn_condition *pictures[] = { of_grey(all, 4, 2, 1), of_grey(all, 4, 2, 2) },
                 *turned[] = { pictures[1], pictures[0] };
    kn_condition *boat = of_text(all, "a boat", NULL, 0), *both = of_text(all, "a boat", pictures, 2);
    assert_ptr_not_equal(both, boat);
    assert_ptr_not_equal(of_text(all, "a boat", pictures, 1), both);
    assert_ptr_not_equal(of_text(all, "a boat", turned, 2), both);
    assert_ptr_equal(of_text(all, "a boat", pictures, 2), both);
    kn_conditions_free(all);
}

static void forgets_what_was_never_made_with_all_that_hangs_on_it(void **state) {
    (void)state;
    kn_conditions *all = kn_conditions_new();
    kn_condition *picture = of_grey(all, 4, 2, 1), *about = of_text(all, "a boat", &picture, 1);
    make(about, 3);
    uint64_t serial = about->serial;
    kn_conditions_trim(all);
    picture = of_grey(all, 4, 2, 1); /* another one, though it looks the same */
    assert_int_not_equal(of_text(all, "a boat", &picture, 1)->serial, serial);
    kn_conditions_free(all);
}

static void keeps_the_youngest_of_many(void **state) {
    (void)state;
    kn_conditions *all = kn_conditions_new();
    uint64_t serials[KN_CONDITIONS_COUNT + 3];
    char text[32];
    for (int i = 0; i < (int)KN_COUNT(serials); i++) {
        snprintf(text, sizeof text, "prompt %d", i);
        kn_condition *c = of_text(all, text, NULL, 0);
        make(c, 1);
        serials[i] = c->serial;
    }
    assert_int_equal(of_text(all, "prompt 0", NULL, 0)->serial, serials[0]); /* asked for again, it is young */
    kn_conditions_trim(all);
    for (int i = 0; i < (int)KN_COUNT(serials); i++) {
        snprintf(text, sizeof text, "prompt %d", i);
        bool kept = i == 0 || i > 3;
        assert_true((of_text(all, text, NULL, 0)->serial == serials[i]) == kept);
    }
    kn_conditions_free(all);
}

static void keeps_no_more_bytes_than_it_may(void **state) {
    (void)state;
    const size_t half = KN_CONDITIONS_BYTES / sizeof(float) / 2;
    kn_conditions *all = kn_conditions_new();
    kn_condition *old = of_text(all, "old", NULL, 0), *young = of_text(all, "young", NULL, 0);
    make(old, half);
    make(young, half);
    uint64_t serials[] = { old->serial, young->serial };
    kn_conditions_trim(all); /* the texts are counted too */
    assert_int_equal(of_text(all, "young", NULL, 0)->serial, serials[1]);
    assert_int_not_equal(of_text(all, "old", NULL, 0)->serial, serials[0]);
    kn_conditions_free(all);
}

static void a_long_prompt_is_cut_and_says_by_how_much(void **state) {
    (void)state;
    kn_condition c = { .text = NULL };
    kn_error err = { 0 };
    for (int32_t i = 0; i < 5; i++)
        assert_true(kn_tokens_add(&c.tokens, i, &err));
    kn_condition_cut(&c, 5);
    assert_int_equal(c.dropped, 0);
    kn_condition_cut(&c, 3);
    assert_int_equal(c.dropped, 2);
    assert_int_equal(c.tokens.n, 3);
    kn_tokens_free(&c.tokens);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_is_one_condition_and_a_new_one_is_empty),
        cmocka_unit_test(a_prompt_is_another_one_about_other_pictures_or_in_another_order),
        cmocka_unit_test(forgets_what_was_never_made_with_all_that_hangs_on_it),
        cmocka_unit_test(keeps_the_youngest_of_many),
        cmocka_unit_test(keeps_no_more_bytes_than_it_may),
        cmocka_unit_test(a_long_prompt_is_cut_and_says_by_how_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
