#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "image/parameters.h"

static const kn_parameter recipe[] = {
    { "Steps", "8" },      { "Sampler", "euler" },     { "CFG scale", "1" },     { "Seed", "42" },
    { "Size", "128x128" }, { "Model", "demo, small" }, { "Note", "a: \"b\"\n" }, { "Version", "kuno 0.1.0" },
};

static void has_the_form_that_others_read(void **state) {
    (void)state;
    KN_AUTO_BUF b;
    kn_buf_init(&b, 1000);
    kn_error err = { 0 };
    assert_true(kn_parameters_write("a red boat", "blurry, dark", recipe, KN_COUNT(recipe), &b, &err));
    assert_string_equal(b.data, "a red boat\n"
                                "Negative prompt: blurry, dark\n"
                                "Steps: 8, Sampler: euler, CFG scale: 1, Seed: 42, Size: 128x128, "
                                "Model: \"demo, small\", Note: \"a: \\\"b\\\"\\n\", Version: kuno 0.1.0");
    kn_buf_clear(&b);
    assert_true(kn_parameters_write("x", NULL, recipe, 3, &b, &err));
    assert_string_equal(b.data, "x\nSteps: 8, Sampler: euler, CFG scale: 1");
}

static void prompts_and_values_come_back(void **state) {
    (void)state;
    static const struct {
        const char *prompt, *negative;
    } rows[] = {
        { "a red boat", "" },
        { "", "" },
        { "", "only what is not wanted" },
        { "two\nlines\n\nand a gap", "two\nlines" },
        { "Steps: 3", "Steps: 3, Sampler: none, Seed: 1" },
        { "a\nSteps: 3, Sampler: x, Seed: 9, Size: 1x1", "" },
        { "\"quoted\", 'single', back\\slash, {a|b} <lora:x:1>", "\"" },
        { " blanks at both ends ", " here too " },
        { "ends in a new line\n", "" },
        { "\nstarts with one", "" },
        { "the words Negative prompt: within a line", "Negative prompt: again" },
        { "caf\xC3\xA9 \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80 \xE5\x8F\xA4\xE6\xB1\xA0", "\xD7\xA9" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF b;
        kn_buf_init(&b, 1000);
        kn_error err = { 0 };
        kn_parameters p = { 0 };
        assert_true(kn_parameters_write(rows[i].prompt, rows[i].negative, recipe, KN_COUNT(recipe), &b, &err));
        assert_true(kn_parameters_read(b.data, &p, &err));
        assert_string_equal(p.prompt, rows[i].prompt);
        assert_string_equal(p.negative, rows[i].negative);
        assert_int_equal(p.count, KN_COUNT(recipe));
        for (size_t k = 0; k < p.count; k++) {
            assert_string_equal(p.list[k].key, recipe[k].key);
            assert_string_equal(p.list[k].value, recipe[k].value);
        }
        kn_parameters_free(&p);
    }
}

static void any_value_comes_back(void **state) {
    (void)state;
    static const char *const values[] = {
        "",
        "plain",
        " blank in front",
        "blank behind ",
        ",",
        ":",
        "\"",
        "\"\"",
        "\\",
        "a\\",
        "\\\"",
        "[1, 2]",
        "a\nb",
        "\r",
        "\t",
        "\"a\", \"b\"",
        "caf\xC3\xA9, \xF0\x9F\x9A\x80",
        "\x01",
    };
    for (size_t i = 0; i < KN_COUNT(values); i++) {
        const kn_parameter list[] = { { "First", values[i] }, { "Second", "2" }, { "Third", values[i] } };
        KN_AUTO_BUF b;
        kn_buf_init(&b, 1000);
        kn_error err = { 0 };
        kn_parameters p = { 0 };
        assert_true(kn_parameters_write("p", "n", list, 3, &b, &err));
        assert_true(kn_parameters_read(b.data, &p, &err));
        assert_int_equal(p.count, 3);
        assert_string_equal(kn_parameters_find(&p, "First"), values[i]);
        assert_string_equal(kn_parameters_find(&p, "Second"), "2");
        assert_string_equal(kn_parameters_find(&p, "Third"), values[i]);
        kn_parameters_free(&p);
    }
}

static void text_of_another_program_is_understood(void **state) {
    (void)state;
    kn_parameters p = { 0 };
    kn_error err = { 0 };
    assert_true(kn_parameters_read("a red boat on a quiet lake, second line\nwith a break\n"
                                   "Negative prompt: blurry, low quality\n"
                                   "Steps: 20, Sampler: Euler, Schedule type: Simple, CFG scale: 5, "
                                   "Seed: 1062323160169910, Size: 832x1248, Model: \"name, with comma\", "
                                   "Denoising strength: 0.4, Version: v1\n",
                                   &p, &err));
    assert_string_equal(p.prompt, "a red boat on a quiet lake, second line\nwith a break");
    assert_string_equal(p.negative, "blurry, low quality");
    assert_int_equal(p.count, 9);
    assert_string_equal(kn_parameters_find(&p, "Schedule type"), "Simple");
    assert_string_equal(kn_parameters_find(&p, "Seed"), "1062323160169910");
    assert_string_equal(kn_parameters_find(&p, "Model"), "name, with comma");
    assert_string_equal(kn_parameters_find(&p, "Version"), "v1");
    assert_null(kn_parameters_find(&p, "Clip skip"));
    kn_parameters_free(&p);
}

static void words_with_colons_are_no_settings(void **state) {
    (void)state;
    static const char *const texts[] = { "", "\n", "a boat", "style: photo, light: soft",
                                         "first\nstyle: photo, a, b, c" };
    for (size_t i = 0; i < KN_COUNT(texts); i++) {
        kn_parameters p = { 0 };
        kn_error err = { 0 };
        assert_true(kn_parameters_read(texts[i], &p, &err));
        assert_string_equal(p.prompt, texts[i]);
        assert_string_equal(p.negative, "");
        assert_int_equal(p.count, 0);
        kn_parameters_free(&p);
    }
}

static void odd_settings_keep_what_is_readable(void **state) {
    (void)state;
    kn_parameters p = { 0 };
    kn_error err = { 0 };
    assert_true(
        kn_parameters_read("A: \"open, B: \"a\"b\", words, :x, C:, D: \"bad \\q\", E: {\"k\": [1, 2]}", &p, &err));
    assert_string_equal(p.prompt, "");
    assert_string_equal(kn_parameters_find(&p, "A"), "\"open");
    assert_string_equal(kn_parameters_find(&p, "B"), "\"a\"b\"");
    assert_string_equal(kn_parameters_find(&p, "C"), "");
    assert_string_equal(kn_parameters_find(&p, "D"), "\"bad \\q\"");
    assert_string_equal(kn_parameters_find(&p, "E"), "{\"k\": [1");
    assert_int_equal(p.count, 5);
    kn_parameters_free(&p);
}

static void long_texts_and_lists_are_refused(void **state) {
    (void)state;
    KN_AUTO_BUF b;
    kn_buf_init(&b, KN_PARAMETERS_BYTES_MAX + 1);
    kn_parameters p = { 0 };
    for (int i = 0; i < KN_PARAMETERS_MAX + 1; i++)
        assert_true(kn_buf_printf(&b, "Key %d: %d,", i, i));
    kn_error err = { 0 };
    assert_false(kn_parameters_read(b.data, &p, &err));
    assert_string_equal(err.text, "has more than 64 settings");
    while (b.len <= KN_PARAMETERS_BYTES_MAX)
        assert_true(kn_buf_add_text(&b, "x"));
    err = (kn_error){ 0 };
    assert_false(kn_parameters_read(b.data, &p, &err));
    assert_string_equal(err.text, "has 1048577 bytes, at most 1048576 are allowed");

    kn_buf_free(&b);
    kn_buf_init(&b, 20);
    err = (kn_error){ 0 };
    assert_false(kn_parameters_write("a prompt of some length", NULL, recipe, 3, &b, &err));
    assert_int_equal(err.code, KN_E_RANGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_form_that_others_read),
        cmocka_unit_test(prompts_and_values_come_back),
        cmocka_unit_test(any_value_comes_back),
        cmocka_unit_test(text_of_another_program_is_understood),
        cmocka_unit_test(words_with_colons_are_no_settings),
        cmocka_unit_test(odd_settings_keep_what_is_readable),
        cmocka_unit_test(long_texts_and_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
