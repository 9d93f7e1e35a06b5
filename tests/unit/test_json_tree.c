#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_tree.h"

static bool read_text(const char *text, size_t most, kn_json_tree *ret, kn_error *err) {
    *err = (kn_error){ 0 };
    return kn_json_tree_read((kn_json_text){ text, strlen(text) }, "it", most, ret, err);
}

static void holds_every_value_in_its_order(void **state) {
    (void)state;
    kn_json_tree t;
    kn_error err;
    kn_json_text text;
    double real = 0;
    assert_true(read_text("{\"a\":[1.5,\"x\\ny\",null,true,false,{}],\"\\u0062\":\"plain\"}", 100, &t, &err));
    const kn_json_value *a = kn_json_member(t.root, "a");
    assert_int_equal(t.root->kind, KN_JSON_OBJECT);
    assert_int_equal(t.root->count, 2);
    assert_int_equal(a->count, 6);
    assert_true(kn_json_value_real(kn_json_at(a, 0), &real) && real == 1.5);
    assert_true(kn_json_value_text(kn_json_at(a, 1), &text) && kn_json_is(text, "x\ny"));
    static const kn_json_kind kinds[] = { KN_JSON_NUMBER, KN_JSON_STRING, KN_JSON_NULL,
                                          KN_JSON_TRUE,   KN_JSON_FALSE,  KN_JSON_OBJECT };
    for (size_t i = 0; i < KN_COUNT(kinds); i++)
        assert_int_equal(kn_json_at(a, i)->kind, kinds[i]);
    assert_true(kn_json_value_text(kn_json_member(t.root, "b"), &text) && kn_json_is(text, "plain"));
    assert_null(kn_json_at(a, 6));
    assert_null(kn_json_member(t.root, "c"));
    assert_null(kn_json_member(a, "a"));
    assert_null(kn_json_member(NULL, "a"));
    assert_false(kn_json_value_text(a, &text));
    kn_json_tree_free(&t);
}

static void whole_numbers_lose_no_digit(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_whole;
        uint64_t value;
    } rows[] = {
        { "0", true, 0 },
        { "18446744073709551615", true, UINT64_MAX },
        { "18446744073709551616", false, 0 },
        { "9007199254740993", true, 9007199254740993 },
        { "25.0", true, 25 },
        { "2.5e1", true, 25 },
        { "25.5", false, 0 },
        { "-1", false, 0 },
        { "-0.0", true, 0 },
        { "1e300", false, 0 },
        { "\"5\"", false, 0 },
        { "true", false, 0 },
        { "0.00000000000000000000000000000000000000000000000000000000000000000000", false, 0 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_json_tree t;
        kn_error err;
        uint64_t value = 0;
        assert_true(read_text(rows[i].text, 1, &t, &err));
        assert_int_equal(kn_json_value_u64(t.root, &value), rows[i].is_whole);
        if (rows[i].is_whole)
            assert_true(value == rows[i].value);
        kn_json_tree_free(&t);
    }
}

static void refuses_what_can_be_read_in_two_ways(void **state) {
    (void)state;
    static const struct {
        const char *text, *error;
    } rows[] = {
        { "{\"a\":1,\"b\":2,\"a\":3}", "it has the key 'a' twice in one object" },
        { "{\"x\":[{\"a\":1,\"\\u0061\":3}]}", "it has the key 'a' twice in one object" },
        { "{\"a\":{\"a\":1},\"b\":{\"a\":1}} x", "it is broken at byte 26: nothing more is expected" },
        { "[1,2,3]", "it has too many values" },
        { "NaN", "it is broken at byte 0: a value is expected" },
        { "", "it is broken at byte 0: it ends where a value is expected" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_json_tree t;
        kn_error err;
        assert_false(read_text(rows[i].text, i == 3 ? 3 : 100, &t, &err));
        assert_string_equal(err.text, rows[i].error);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_every_value_in_its_order),
        cmocka_unit_test(whole_numbers_lose_no_digit),
        cmocka_unit_test(refuses_what_can_be_read_in_two_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
