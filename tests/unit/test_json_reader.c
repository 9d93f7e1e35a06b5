#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_reader.h"

static void begin(kn_json_reader *j, const char *text, kn_error *err) {
    kn_json_text all = { text, strlen(text) };
    *err = (kn_error){ 0 };
    kn_json_begin(j, all, all, err);
}

/* Reads the whole text by stepping over it. */
static bool is_json(const char *text, kn_error *err) {
    kn_json_reader j;
    begin(&j, text, err);
    kn_json_skip(&j, NULL);
    bool good = kn_json_finish(&j);
    kn_json_close(&j);
    return good;
}

static void gives_the_values_one_after_the_other(void **state) {
    (void)state;
    kn_json_reader j;
    kn_error err;
    begin(&j,
          " { \"a\" : [ 1 , \"x\" , [] ] , \"skip\" : { \"b\" : [ null , -1.5e+3 ] } , \"n\" : 18446744073709551615 } ",
          &err);
    kn_json_text text;
    uint64_t n = 0;
    assert_true(kn_json_object(&j));
    assert_true(kn_json_key(&j, &text) && kn_json_is(text, "a"));
    assert_true(kn_json_array(&j));
    assert_true(kn_json_item(&j) && kn_json_u64(&j, &n) && n == 1);
    assert_true(kn_json_item(&j) && kn_json_peek(&j) == '"' && kn_json_string(&j, &text) && kn_json_is(text, "x"));
    assert_true(kn_json_item(&j) && kn_json_array(&j));
    assert_false(kn_json_item(&j));
    assert_false(kn_json_item(&j));
    assert_true(kn_json_key(&j, &text) && kn_json_is(text, "skip"));
    assert_true(kn_json_skip(&j, &text));
    assert_true(kn_json_is(text, "{ \"b\" : [ null , -1.5e+3 ] }"));
    assert_true(kn_json_key(&j, &text) && kn_json_is(text, "n") && kn_json_u64(&j, &n));
    assert_true(n == UINT64_MAX);
    assert_false(kn_json_key(&j, &text));
    assert_true(kn_json_finish(&j));
    assert_int_equal(err.code, KN_OK);
    kn_json_close(&j);
}

static void resolves_escapes(void **state) {
    (void)state;
    static const struct {
        const char *json, *text;
    } rows[] = {
        { "\"plain\"", "plain" },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t" },
        { "\"\\u0120x\\u00e9\\u20AC\"", "\u0120x\u00E9\u20AC" },
        { "\"a\\ud83d\\ude00b\"", "a\U0001F600b" },
        { "\"\u00E9\\n\U0001F600\"", "\u00E9\n\U0001F600" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_json_reader j;
        kn_error err;
        begin(&j, rows[i].json, &err);
        kn_json_text text = { 0 };
        assert_true(kn_json_string(&j, &text));
        assert_true(kn_json_is(text, rows[i].text));
        assert_true(kn_json_finish(&j));
        kn_json_close(&j);
    }
}

/* What stands for itself is stepped over several bytes at a time. */
static void sees_each_byte_of_a_string_wherever_it_stands(void **state) {
    (void)state;
    enum { LEN = 26 };
    for (size_t at = 0; at < LEN; at++) {
        for (int c = 1; c < 256; c++) {
            kn_json_reader j;
            kn_error err;
            kn_json_text got = { NULL, 0 };
            char text[LEN + 3] = "\"~~~~ ~~~~ ~~~~!~~~~#~~~~[]\"";
            text[1 + at] = (char)c;
            begin(&j, text, &err);
            bool ok = kn_json_string(&j, &got);
            assert_int_equal(ok, c >= ' ' && c < 0x80 && c != '\\');
            if (ok)
                assert_int_equal(got.len, c == '"' ? at : LEN);
            else if (c != '\\')
                assert_int_equal(j.at - text, 1 + at);
            kn_json_close(&j);
        }
    }
}

static void accepts_what_is_json(void **state) {
    (void)state;
    static const char *const rows[] = {
        "0",
        "-0",
        "1.5",
        "1e9",
        "-2.25E-07",
        "true",
        "false",
        "null",
        "\"\"",
        "[]",
        "{}",
        "[[],{},[{}]]",
        "\t[1\r\n,2 ]",
        "{\"a\":{\"b\":{\"c\":[]}},\"d\":1}",
        "[1,\"a\",null,{\"x\":[]},[]]",
    };
    kn_error err;
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        if (!is_json(rows[i], &err))
            fail_msg("%s: %s", rows[i], err.text);
}

static void refuses_what_is_not_json(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",
        " ",
        "[",
        "]",
        "{",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{1:2}",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{,}",
        "{\"a\" 1}",
        "[}",
        "{]",
        "[1}",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "0x1",
        "1 2",
        "nul",
        "True",
        "NaN",
        "'a'",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\",
        "\"\\u",
        "\"a\nb\"",
        "\"\x01\"",
        "\"\x1F\"",
        "\"a\tb\"",
        "\"\xFF\"",
        "\"\xC3\"",
        "\"\xED\xA0\x80\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\ude00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800x\"",
        "\"\\ud83d\\ud83d\"",
        "[1]x",
        "/**/1",
        "\xEF\xBB\xBF[]",
        "{\"a\":1 \"b\":2}",
        "[\"a\":1]",
    };
    kn_error err;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        assert_false(is_json(rows[i], &err));
        assert_true(err.code == KN_E_FORMAT || err.code == KN_E_TRUNCATED);
    }
}

static void says_where_and_what(void **state) {
    (void)state;
    kn_error err;
    assert_false(is_json("{\n  \"a\": 1,\n  b\n}", &err));
    assert_string_equal(err.text, "line 3, column 3: a string is expected");
    assert_false(is_json("[1,\n2", &err));
    assert_int_equal(err.code, KN_E_TRUNCATED);
    assert_string_equal(err.text,
                        "line 2, column 2: the file ends where a comma or the end of the array or object is expected");
}

static void inside_of_something_else_says_what_and_at_which_byte(void **state) {
    (void)state;
    static const struct {
        const char *json, *says;
    } rows[] = {
        { "{\n b}", "its header is broken at byte 3: a string is expected" },
        { "[1,2",
          "its header is broken at byte 4: it ends where a comma or the end of the array or object is expected" },
        { "\"a\\u0000b\"", "its header is broken at byte 8: a text holds a NUL character" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_json_reader j;
        kn_error err = { 0 };
        kn_json_begin_inside(&j, (kn_json_text){ rows[i].json, strlen(rows[i].json) }, "its header", &err);
        assert_false(kn_json_skip(&j, NULL));
        assert_int_equal(err.code, KN_E_FORMAT); /* all of it is there: nothing was cut */
        assert_string_equal(err.text, rows[i].says);
        kn_json_close(&j);
    }
}

static void true_and_false_are_words_and_nothing_else(void **state) {
    (void)state;
    static const struct {
        const char *json;
        int value; /* -1: refused */
    } rows[] = { { " true", 1 }, { "false ", 0 }, { "1", -1 },    { "\"true\"", -1 },
                 { "tru", -1 },  { "True", -1 },  { "null", -1 }, { "", -1 } };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_json_reader j;
        kn_error err;
        begin(&j, rows[i].json, &err);
        bool value = rows[i].value != 1;
        assert_int_equal(kn_json_bool(&j, &value) && kn_json_finish(&j), rows[i].value >= 0);
        if (rows[i].value >= 0)
            assert_int_equal(value, rows[i].value);
        else
            assert_non_null(strstr(err.text, "true or false is expected"));
        kn_json_close(&j);
    }
}

static void numbers_must_be_whole_and_fit(void **state) {
    (void)state;
    static const char *const rows[] = { "-1", "1.0", "1e3", "18446744073709551616", "01", "\"1\"", "null", "" };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_json_reader j;
        kn_error err;
        begin(&j, rows[i], &err);
        uint64_t n = 7;
        assert_false(kn_json_u64(&j, &n));
        assert_int_equal(n, 7);
        assert_int_not_equal(err.code, KN_OK);
    }
}

static void nesting_has_a_limit_and_needs_no_stack(void **state) {
    (void)state;
    static char deep[1 << 20];
    kn_error err;
    memset(deep, '[', KN_JSON_MAX_DEPTH);
    memset(deep + KN_JSON_MAX_DEPTH, ']', KN_JSON_MAX_DEPTH);
    assert_true(is_json(deep, &err));
    memset(deep, '[', sizeof deep - 1);
    assert_false(is_json(deep, &err));
    assert_string_equal(err.text, "line 1, column 65: less deeply nested data is expected");
}

/* What is JSON by its grammar, but not taken by the strict reader. */
static void a_loose_reader_takes_all_that_is_json(void **state) {
    (void)state;
    static const struct {
        const char *json, *text;
        bool replaced;
    } rows[] = {
        { "\"a\\u0000b\"", "a\uFFFDb", true },
        { "\"\\ud83d\"", "\uFFFD", true },
        { "\"\\ude00x\"", "\uFFFDx", true },
        { "\"\\ud83d\\u0041\"", "\uFFFDA", true },
        { "\"\\ud83d\\ud83d\\ude00\"", "\uFFFD\U0001F600", true },
        { "\"plain\"", "plain", false },
    };
    kn_json_reader j;
    kn_error err;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_json_text text = { 0 };
        begin(&j, rows[i].json, &err);
        j.loose = true;
        assert_true(kn_json_string(&j, &text));
        assert_true(kn_json_is(text, rows[i].text));
        assert_int_equal(j.replaced, rows[i].replaced);
        assert_true(kn_json_finish(&j));
        assert_true(kn_json_check((kn_json_text){ rows[i].json, strlen(rows[i].json) }, NULL));
        kn_json_close(&j);
    }
}

static void a_loose_reader_goes_deeper(void **state) {
    (void)state;
    enum { LEVELS = 1000 };
    static const char open[] = "{\"a\":[", close[] = "]}";
    KN_AUTO_BUF deep;
    kn_buf_init(&deep, 20000);
    for (int i = 0; i < LEVELS; i++)
        assert_true(kn_buf_add_text(&deep, open));
    for (int i = 0; i < LEVELS; i++)
        assert_true(kn_buf_add_text(&deep, close));
    assert_true(kn_json_check((kn_json_text){ deep.data, deep.len }, NULL));
    assert_false(kn_json_check((kn_json_text){ deep.data, deep.len - 1 }, NULL));
    deep.data[deep.len - 3] = ']'; /* where an object ends */
    assert_false(kn_json_check((kn_json_text){ deep.data, deep.len }, NULL));
}

static void the_first_error_stays(void **state) {
    (void)state;
    kn_json_reader j;
    kn_error err;
    begin(&j, "[x, {\"a\": 1}]", &err);
    kn_json_text text;
    uint64_t n = 0;
    assert_true(kn_json_array(&j) && kn_json_item(&j));
    assert_false(kn_json_u64(&j, &n));
    assert_false(kn_json_item(&j) || kn_json_object(&j) || kn_json_array(&j) || kn_json_key(&j, &text) ||
                 kn_json_string(&j, &text) || kn_json_skip(&j, &text) || kn_json_finish(&j));
    assert_string_equal(err.text, "line 1, column 2: an unsigned integer is expected");
    kn_json_close(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_values_one_after_the_other),
        cmocka_unit_test(resolves_escapes),
        cmocka_unit_test(sees_each_byte_of_a_string_wherever_it_stands),
        cmocka_unit_test(accepts_what_is_json),
        cmocka_unit_test(refuses_what_is_not_json),
        cmocka_unit_test(says_where_and_what),
        cmocka_unit_test(inside_of_something_else_says_what_and_at_which_byte),
        cmocka_unit_test(true_and_false_are_words_and_nothing_else),
        cmocka_unit_test(numbers_must_be_whole_and_fit),
        cmocka_unit_test(nesting_has_a_limit_and_needs_no_stack),
        cmocka_unit_test(a_loose_reader_takes_all_that_is_json),
        cmocka_unit_test(a_loose_reader_goes_deeper),
        cmocka_unit_test(the_first_error_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
