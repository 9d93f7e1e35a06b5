#include "text_golden.h"

#include "base/text.h"
#include "text/unicode.h"

static uint32_t number(const json_t *j) {
    assert_true(json_is_integer(j));
    return (uint32_t)json_integer_value(j);
}

static void classes_are_those_of_the_facts_for_every_code_point(void **state) {
    (void)state;
    static uint8_t want[0x110000];
    static const struct {
        const char *name;
        kn_char_kind kind;
        size_t count;
    } rows[] = {
        { "letters", KN_CHAR_LETTER, 141028 },
        { "numbers", KN_CHAR_NUMBER, 1911 },
        { "white_space", KN_CHAR_SPACE, 25 },
    };
    json_t *facts = golden_json("unicode/unicode.json");
    for (size_t k = 0; k < KN_COUNT(rows); k++) {
        size_t i = 0, count = 0;
        json_t *range = NULL;
        json_array_foreach(json_object_get(facts, rows[k].name), i, range) {
            for (uint32_t c = number(json_array_get(range, 0)); c <= number(json_array_get(range, 1)); c++, count++)
                want[c] = (uint8_t)rows[k].kind;
        }
        assert_int_equal(count, rows[k].count);
    }
    for (uint32_t c = 0; c < 0x110000; c++)
        if (kn_char_kind_of(c) != want[c])
            fail_msg("U+%04X is of kind %d, not %d", c, (int)kn_char_kind_of(c), (int)want[c]);
    assert_int_equal(kn_char_kind_of(UINT32_MAX), KN_CHAR_OTHER);
    json_decref(facts);
}

static void add_characters(kn_buf *b, const json_t *characters) {
    size_t i = 0;
    json_t *c = NULL;
    json_array_foreach(characters, i, c) {
        char utf8[4];
        assert_true(kn_buf_add(b, utf8, kn_utf8_put(number(c), utf8)));
    }
}

/* Checks one row [text, its NFC], and that NFC of the result changes nothing more. */
static void check_nfc(const json_t *row) {
    kn_buf text, want, got, again;
    kn_buf_init(&text, 4096);
    kn_buf_init(&want, 4096);
    kn_buf_init(&got, 4096);
    kn_buf_init(&again, 4096);
    add_characters(&text, json_array_get(row, 0));
    add_characters(&want, json_array_get(row, 1));
    kn_error err = { 0 };
    assert_true(kn_nfc_add(text.data, text.len, &got, &err));
    assert_true(kn_nfc_add(got.data, got.len, &again, &err));
    if (strcmp(got.data, want.data) != 0 || strcmp(again.data, want.data) != 0)
        fail_msg("NFC of %s is %s, not %s", json_dumps(json_array_get(row, 0), 0), kn_quote_z(got.data).text,
                 json_dumps(json_array_get(row, 1), 0));
    if (kn_nfc_is_certain(text.data, text.len))
        assert_string_equal(text.data, want.data);
    kn_buf_free(&text);
    kn_buf_free(&want);
    kn_buf_free(&got);
    kn_buf_free(&again);
}

static void nfc_of_every_single_character(void **state) {
    (void)state;
    static bool changes[0x110000];
    json_t *cases = golden_json("unicode/nfc.json"), *row = NULL;
    size_t i = 0;
    json_array_foreach(json_object_get(cases, "single"), i, row) {
        changes[number(json_array_get(json_array_get(row, 0), 0))] = true;
        check_nfc(row);
    }
    assert_int_equal(i, 1120);
    KN_AUTO_BUF out;
    kn_buf_init(&out, 64);
    for (uint32_t c = 0; c < 0x110000; c++) {
        if ((c >= 0xD800 && c < 0xE000) || changes[c])
            continue;
        char utf8[4];
        size_t n = kn_utf8_put(c, utf8);
        kn_buf_clear(&out);
        assert_true(kn_nfc_add(utf8, n, &out, NULL));
        if (out.len != n || memcmp(out.data, utf8, n) != 0)
            fail_msg("NFC changes U+%04X", c);
    }
    json_decref(cases);
}

static void nfc_of_sequences(void **state) {
    (void)state;
    json_t *cases = golden_json("unicode/nfc.json"), *row = NULL;
    size_t i = 0;
    json_array_foreach(json_object_get(cases, "sequences"), i, row) check_nfc(row);
    assert_int_equal(i, 600);
    json_decref(cases);
}

static void ordinary_text_needs_no_normalization(void **state) {
    (void)state;
    static const char *const plain[] = { "", "a red boat", "caf\u00E9 \u00C5ngstr\u00F6m",
                                         "\u65E5\u672C\u8A9E\uD55C\uAE00", "\U0001F600 \u200D" };
    static const char *const other[] = { "e\u0301", "\u0301", "\u1112\u1161", "\u2126", "\u0958" };
    for (size_t i = 0; i < KN_COUNT(plain); i++)
        assert_true(kn_nfc_is_certain(plain[i], strlen(plain[i])));
    for (size_t i = 0; i < KN_COUNT(other); i++)
        assert_false(kn_nfc_is_certain(other[i], strlen(other[i])));
}

static void a_text_of_nothing_but_marks_takes_no_quadratic_time(void **state) {
    (void)state;
    KN_AUTO_BUF text, out;
    kn_buf_init(&text, 1 << 20);
    kn_buf_init(&out, 3 << 20);
    while (text.len < 400000) /* two hundred thousand marks, above and below in turn: the worst order */
        assert_true(kn_buf_add_text(&text, "\u0301\u0316"));
    kn_error err = { 0 };
    assert_true(kn_nfc_add(text.data, text.len, &out, &err));
    assert_int_equal(out.len, text.len);
    assert_memory_equal(out.data, "\u0316\u0316", 4);
    assert_memory_equal(out.data + out.len - 4, "\u0301\u0301", 4);
}

static void nfc_stops_at_the_limit_of_its_buffer(void **state) {
    (void)state;
    KN_AUTO_BUF out;
    kn_buf_init(&out, 5);
    kn_error err = { 0 };
    assert_false(kn_nfc_add("abc\u0958", 6, &out, &err));
    assert_int_equal(err.code, KN_E_NOMEM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_those_of_the_facts_for_every_code_point),
        cmocka_unit_test(nfc_of_every_single_character),
        cmocka_unit_test(nfc_of_sequences),
        cmocka_unit_test(ordinary_text_needs_no_normalization),
        cmocka_unit_test(a_text_of_nothing_but_marks_takes_no_quadratic_time),
        cmocka_unit_test(nfc_stops_at_the_limit_of_its_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
