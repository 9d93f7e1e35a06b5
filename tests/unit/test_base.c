#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"

static void first_error_wins_and_context_goes_in_front(void **state) {
    (void)state;
    kn_error err = { 0 };
    assert_false(kn_fail(&err, KN_E_RANGE, "steps is %d", 7));
    assert_false(kn_fail(&err, KN_E_IO, "later"));
    assert_false(kn_fail_within(&err, "recipe"));
    assert_int_equal(err.code, KN_E_RANGE);
    assert_string_equal(err.text, "recipe: steps is 7");
    err = (kn_error){ 0 };
    kn_fail(&err, KN_E_CANCELLED, "cancelled");
    kn_fail_within(&err, "step 3");
    assert_string_equal(err.text, "cancelled");
}

static void buffer_refuses_beyond_its_limit_and_keeps_its_content(void **state) {
    (void)state;
    KN_AUTO_BUF b;
    kn_buf_init(&b, 8);
    assert_string_equal(b.data, "");
    assert_true(kn_buf_printf(&b, "%d-%d", 12, 34));
    assert_false(kn_buf_add(&b, "toolong", 7));
    assert_false(kn_buf_printf(&b, "%s", "abcd"));
    assert_string_equal(b.data, "12-34");
    assert_true(kn_buf_add_text(&b, "xyz"));
    assert_int_equal(b.len, 8);
}

static void utf8_rejects_overlong_surrogates_and_beyond_unicode(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t good;
    } rows[] = {
        { "plain", 5 },        { "caf\xC3\xA9", 5 },      { "\xF0\x9F\x98\x80", 4 }, { "a\xC0\x80", 1 },
        { "\xED\xA0\x80", 0 }, { "\xF4\x90\x80\x80", 0 }, { "\xE2\x82", 0 },         { "ok\xFF", 2 },
        { "\xE0\x80\xAF", 0 }, { "\xF4\x8F\xBF\xBF", 4 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        assert_int_equal(kn_utf8_check(rows[i].text, strlen(rows[i].text)), rows[i].good);
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        if (c >= 0xD800 && c < 0xE000)
            continue;
        char out[4];
        size_t n = kn_utf8_put(c, out);
        const char *at = out;
        uint32_t back = 0;
        assert_true(kn_utf8_next(&at, out + n, &back));
        assert_int_equal(back, c);
        assert_ptr_equal(at, out + n);
    }
}

static void quoting_escapes_controls_and_cuts_at_a_character(void **state) {
    (void)state;
    assert_string_equal(kn_quote_z("a\x1b[31mb\nc").text, "a\\x1b[31mb\\x0ac");
    assert_string_equal(kn_quote_z("ok \xFF caf\xC3\xA9").text, "ok \\xff caf\xC3\xA9");
    char sixty[61] = "";
    memset(sixty, 'x', 47);
    memcpy(sixty + 47, "\xC3\xA9", 2);
    memset(sixty + 49, 'y', 11);
    kn_quoted q = kn_quote_z(sixty);
    assert_int_equal(strlen(q.text), 47 + strlen("…"));
}

static void one_of_anything_is_told_without_an_s(void **state) {
    (void)state;
    assert_string_equal(kn_counted(0, "tile").text, "0 tiles");
    assert_string_equal(kn_counted(1, "tile").text, "1 tile");
    assert_string_equal(kn_counted(2, "quantised layer").text, "2 quantised layers");
    assert_string_equal(kn_counted(UINT64_MAX, "byte").text, "18446744073709551615 bytes");
}

static void a_path_in_a_message_is_whole_unless_it_is_very_long(void **state) {
    (void)state;
    char path[1000] = "/models/a\nfolder/";
    size_t front = strlen(path);
    memset(path + front, 'x', 200);
    char whole[1000] = "/models/a\\x0afolder/";
    memcpy(whole + strlen(whole), path + front, 201);
    assert_string_equal(kn_quote_path(path).text, whole);

    memset(path, '\n', sizeof path - 1);
    kn_quoted_path q = kn_quote_path(path);
    assert_in_range(strlen(q.text), 200, sizeof q.text - 1);
    assert_string_equal(q.text + strlen(q.text) - strlen("…"), "…");
}

static void numbers_are_whole_strings_in_range(void **state) {
    (void)state;
    uint64_t u = 7;
    int64_t i = 7;
    double d = 7;
    assert_true(kn_parse_u64("18446744073709551615", &u) && u == UINT64_MAX);
    assert_false(kn_parse_u64("18446744073709551616", &u));
    assert_false(kn_parse_u64("", &u) || kn_parse_u64("+1", &u) || kn_parse_u64("1 ", &u) || kn_parse_u64("0x1", &u));
    assert_true(kn_parse_i64("-9223372036854775808", &i) && i == INT64_MIN);
    assert_false(kn_parse_i64("9223372036854775808", &i) || kn_parse_i64("-", &i) || kn_parse_i64("--1", &i));
    assert_true(kn_parse_double("-2.5e-3", &d) && d == -2.5e-3);
    assert_false(kn_parse_double("1e999", &d) || kn_parse_double("nan", &d) || kn_parse_double("0x1p3", &d));
    assert_false(kn_parse_double("1,5", &d) || kn_parse_double(" 1", &d) || kn_parse_double("1e", &d));
}

static void scratch_folder(char path[32]) {
    snprintf(path, 32, "/tmp/kuno-test-XXXXXX");
    assert_non_null(mkdtemp(path));
}

static void identities_have_one_form(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        { "01234567-89ab-cdef-0123-456789abcdef", true },   { "01234567-89ab-cdef-0123-456789abcde", false },
        { "01234567-89ab-cdef-0123-456789abcdef0", false }, { "01234567-89AB-cdef-0123-456789abcdef", false },
        { "01234567089ab-cdef-0123-456789abcdef", false },  { "0123456-789ab-cdef-0123-456789abcdef", false },
        { "01234567-89ab-cdef-0123-456789abcdeg", false },  { "", false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        assert_int_equal(kn_text_is_uuid(rows[i].text, strlen(rows[i].text)), rows[i].good);
    assert_true(kn_text_is_hex("0123456789abcdef", 16));
    assert_false(kn_text_is_hex("0123456789abcdeF", 16));
    char text[] = "123456789";
    kn_hex("\x00\x9F\xAB\xFF", 4, text);
    assert_string_equal(text, "009fabff");
    kn_hex("", 0, text);
    assert_string_equal(text, "");
}

static void output_appears_whole_or_not_at_all(void **state) {
    (void)state;
    char dir[32], path[64];
    scratch_folder(dir);
    snprintf(path, sizeof path, "%s/out.bin", dir);
    kn_error err = { 0 };
    kn_output o;

    assert_true(kn_output_open(path, true, &o, &err));
    assert_true(kn_output_write(&o, "half", 4, &err));
    assert_int_equal(access(path, F_OK), -1);
    kn_output_drop(&o);
    assert_int_equal(rmdir(dir), 0); /* nothing was left behind */

    assert_int_equal(mkdir(dir, 0700), 0);
    assert_true(kn_output_open(path, false, &o, &err));
    assert_true(kn_output_write(&o, "whole", 5, &err));
    assert_true(kn_output_commit(&o, false, &err));
    KN_AUTO_BUF b;
    kn_buf_init(&b, 100);
    assert_true(kn_file_read(path, 100, &b, &err));
    assert_string_equal(b.data, "whole");

    assert_false(kn_output_open(path, false, &o, &err));
    assert_int_equal(err.code, KN_E_OUTPUT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void output_says_what_is_wrong_with_its_place(void **state) {
    (void)state;
    kn_output o;
    kn_error err = { 0 };
    assert_false(kn_output_open("/nonexistent-folder/x.png", true, &o, &err));
    assert_int_equal(err.code, KN_E_OUTPUT);
    assert_non_null(strstr(err.text, "folder does not exist"));
    err = (kn_error){ 0 };
    assert_false(kn_output_open("/tmp", true, &o, &err));
    assert_non_null(strstr(err.text, "is a folder"));
}

static void reading_refuses_folders_absent_and_oversized_files(void **state) {
    (void)state;
    KN_AUTO_BUF b;
    kn_buf_init(&b, 1000);
    kn_error err = { 0 };
    kn_map m;
    assert_false(kn_map_open("/tmp", &m, &err));
    assert_int_equal(err.code, KN_E_FORMAT);
    err = (kn_error){ 0 };
    assert_false(kn_map_open("/nonexistent", &m, &err));
    assert_int_equal(err.code, KN_E_NOT_FOUND);
    err = (kn_error){ 0 };
    assert_false(kn_file_read("/proc/self/exe", 10, &b, &err));
    assert_int_equal(err.code, KN_E_RANGE);
    assert_int_equal(b.len, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_error_wins_and_context_goes_in_front),
        cmocka_unit_test(buffer_refuses_beyond_its_limit_and_keeps_its_content),
        cmocka_unit_test(utf8_rejects_overlong_surrogates_and_beyond_unicode),
        cmocka_unit_test(quoting_escapes_controls_and_cuts_at_a_character),
        cmocka_unit_test(one_of_anything_is_told_without_an_s),
        cmocka_unit_test(a_path_in_a_message_is_whole_unless_it_is_very_long),
        cmocka_unit_test(numbers_are_whole_strings_in_range),
        cmocka_unit_test(identities_have_one_form),
        cmocka_unit_test(output_appears_whole_or_not_at_all),
        cmocka_unit_test(output_says_what_is_wrong_with_its_place),
        cmocka_unit_test(reading_refuses_folders_absent_and_oversized_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
