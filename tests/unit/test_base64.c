/* Base64: the examples of RFC 4648, and everything that is nearly base64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"

static void reads_the_examples_of_the_standard(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { "", "" },
        { "Zg==", "f" },
        { "Zm8=", "fo" },
        { "Zm9v", "foo" },
        { "Zm9vYg==", "foob" },
        { "Zm9vYmE=", "fooba" },
        { "Zm9vYmFy", "foobar" },
        { "+/+/", "\xFB\xFF\xBF" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF got;
        kn_error err = { 0 };
        kn_buf_init(&got, 100);
        assert_true(kn_base64_decode(rows[i][0], strlen(rows[i][0]), &got, &err));
        assert_string_equal(got.data, rows[i][1]);
        assert_true(kn_base64_decode(rows[i][0], strlen(rows[i][0]), NULL, &err));
        kn_buf_clear(&got);
        assert_true(kn_base64_encode(rows[i][1], strlen(rows[i][1]), &got));
        assert_string_equal(got.data, rows[i][0]);
    }
}

static void every_byte_comes_back(void **state) {
    (void)state;
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)(i * 37);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        KN_AUTO_BUF text, got;
        kn_buf_init(&text, 400);
        kn_buf_init(&got, 400);
        assert_true(kn_base64_encode(bytes, len, &text));
        assert_int_equal(text.len, strlen(text.data));
        assert_true(kn_base64_decode(text.data, text.len, &got, NULL));
        assert_int_equal(got.len, len);
        assert_memory_equal(got.data, bytes, len);
    }
}

static void refuses_what_is_nearly_base64(void **state) {
    (void)state;
    static const char *const rows[] = { "Zg",    "Zg=",  "Z===", "====",     "Zh==",       "Zm9=", "Zm 9",
                                        "Zm9\n", "Zm9-", "Zm9_", "Zg==Zg==", "Zm\xC3\xA4", "=Zg=", "Z=g=" };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF got;
        kn_error err = { 0 };
        kn_buf_init(&got, 100);
        assert_false(kn_base64_decode(rows[i], strlen(rows[i]), &got, &err));
        assert_int_equal(err.code, KN_E_FORMAT);
        assert_false(kn_base64_decode(rows[i], strlen(rows[i]), NULL, NULL));
    }
}

static void refuses_every_other_character_wherever_it_stands(void **state) {
    (void)state;
    static const char known[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t at = 0; at < 11; at++) { /* behind the last of these there may be padding */
        for (int c = 0; c < 256; c++) {
            KN_AUTO_BUF got;
            char text[] = "AAAABBBBCCCC";
            text[at] = (char)c;
            kn_buf_init(&got, 100);
            assert_int_equal(kn_base64_decode(text, 12, &got, NULL), c && strchr(known, c));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_examples_of_the_standard),
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(refuses_what_is_nearly_base64),
        cmocka_unit_test(refuses_every_other_character_wherever_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
