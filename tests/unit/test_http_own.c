#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "http/address.h"
#include "http/guard.h"

static void addresses_are_numbers_with_a_port(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good, loopback;
    } rows[] = {
        { "127.0.0.1:11434", true, true },
        { "127.255.0.3:0", true, true },
        { "0.0.0.0:80", true, false },
        { "192.168.1.74:65535", true, false },
        { "[::1]:11434", true, true },
        { "[::]:80", true, false },
        { "[::ffff:127.0.0.1]:80", true, true },
        { "[::ffff:10.0.0.1]:80", true, false },
        { "unix:/run/kuno/socket", true, true },
        { "127.0.0.1", false, false },
        { "127.0.0.1:", false, false },
        { "127.0.0.1:65536", false, false },
        { "127.0.0.1:+80", false, false },
        { "127.0.0.1: 80", false, false },
        { "127.1:80", false, false },
        { "127.0.0.1 :80", false, false },
        { "[127.0.0.1]:80", false, false },
        { "::1:80", false, false },
        { "[::1]80", false, false },
        { "[::1:80", false, false },
        { "[::1%eth0]:80", false, false },
        { "localhost:80", false, false },
        { ":80", false, false },
        { "", false, false },
        { "unix:", false, false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_address a;
        kn_error err = { 0 };
        bool good = kn_address_parse(rows[i].text, &a, &err);
        if (good != rows[i].good || good != (err.code == KN_OK))
            fail_msg("'%s' is %s: %s", rows[i].text, good ? "taken" : "refused", err.text);
        if (!good)
            continue;
        assert_int_equal(kn_address_is_loopback(&a), rows[i].loopback);
        if (!strstr(rows[i].text, "ffff"))
            assert_string_equal(kn_address_print(&a).text, rows[i].text);
    }
}

static void a_path_too_long_for_a_socket_is_refused(void **state) {
    (void)state;
    char text[200];
    for (int len = 107; len <= 108; len++) { /* what Linux takes, with its NUL, is 108 */
        kn_address a;
        kn_error err = { 0 };
        snprintf(text, sizeof text, "unix:/%0*d", len - 1, 0);
        assert_int_equal(kn_address_parse(text, &a, &err), len == 107);
    }
}

static void ports_do_not_make_another_host(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } rows[] = {
        { "10.0.0.1:1", "10.0.0.1:2", true }, { "10.0.0.1:1", "10.0.0.2:1", false }, { "[::1]:1", "[::1]:2", true },
        { "[::1]:1", "[::2]:1", false },      { "[::1]:1", "127.0.0.1:1", false },   { "unix:/a", "unix:/a", true },
        { "unix:/a", "unix:/b", false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_address a, b;
        assert_true(kn_address_parse(rows[i].a, &a, NULL) && kn_address_parse(rows[i].b, &b, NULL));
        assert_int_equal(kn_address_is_same_host(&a, &b), rows[i].same);
    }
}

#define TOKEN "0123456789abcdefABCDEF-_.0123456"

static void tokens_have_a_length_and_an_alphabet(void **state) {
    (void)state;
    char longest[KN_TOKEN_MAX + 2];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_true(kn_token_is_valid(TOKEN, strlen(TOKEN)));
    assert_false(kn_token_is_valid(TOKEN, strlen(TOKEN) - 1));
    assert_true(kn_token_is_valid(longest, KN_TOKEN_MAX));
    assert_false(kn_token_is_valid(longest, KN_TOKEN_MAX + 1));
    assert_false(kn_token_is_valid("0123456789abcdefABCDEF-_.012345 ", 32));
    assert_false(kn_token_is_valid("0123456789abcdefABCDEF-_.012345\n", 32));
    assert_false(kn_token_is_valid("0123456789abcdefABCDEF-_.01234\xc3\xa9", 32));
    assert_false(kn_token_is_valid("0123456789abcdef\0ABCDEF-_.01234", 32));
}

static void only_the_same_token_is_the_same(void **state) {
    (void)state;
    kn_span secret = kn_span_of(TOKEN);
    assert_true(kn_token_is_same(kn_span_of(TOKEN), secret));
    for (size_t i = 0; i < secret.len; i++) { /* each byte counts */
        char wrong[] = TOKEN;
        wrong[i] ^= 1;
        assert_false(kn_token_is_same(kn_span_of(wrong), secret));
    }
    for (size_t len = 0; len < secret.len; len++)
        assert_false(kn_token_is_same((kn_span){ TOKEN, len }, secret));
    assert_false(kn_token_is_same(kn_span_of(TOKEN TOKEN), secret));
    assert_false(kn_token_is_same(kn_span_of(""), kn_span_of("")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_numbers_with_a_port), cmocka_unit_test(a_path_too_long_for_a_socket_is_refused),
        cmocka_unit_test(ports_do_not_make_another_host),    cmocka_unit_test(tokens_have_a_length_and_an_alphabet),
        cmocka_unit_test(only_the_same_token_is_the_same),
    };
    return cmocka_run_group_tests_name("http own", tests, NULL, NULL);
}
