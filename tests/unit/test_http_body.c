#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "http/body.h"

/* Gives the bytes to a body in steps of so many. Returns how many were used, -1 if it broke; data: what they held. */
static ptrdiff_t feed(kn_body *b, const char *text, size_t len, size_t step, char *data) {
    size_t used = 0;
    while (used < len && !b->complete) {
        kn_span piece;
        ptrdiff_t n = kn_body_next(b, text + used, KN_MIN(step, len - used), &piece);
        if (n < 0)
            return -1;
        assert_true(piece.data >= text + used && piece.len <= (size_t)n);
        memcpy(data, piece.data, piece.len);
        data += piece.len;
        used += (size_t)n;
    }
    *data = 0;
    return (ptrdiff_t)used;
}

static void takes_chunks_apart_however_they_are_cut(void **state) {
    (void)state;
    static const char text[] = "3\r\nabc\r\n"
                               "00a;x=\"y z\";q\r\n0123\r\n6789\r\n"
                               "F\r\n0123456789abcde\r\n"
                               "0;e\r\nTrailer: x\r\nAn-other:\t\xff y \r\nEmpty:\r\n\r\nGET /next";
    for (size_t step = 1; step < sizeof text; step++) {
        kn_body b;
        char data[100];
        kn_body_begin(&b, KN_BODY_CHUNKED, 0);
        assert_int_equal(feed(&b, text, sizeof text - 1, step, data), sizeof text - 1 - strlen("GET /next"));
        assert_true(b.complete);
        assert_string_equal(data, "abc0123\r\n67890123456789abcde");
    }
}

static void refuses_chunks_that_others_may_see_differently(void **state) {
    (void)state;
    static const char *const rows[] = {
        "xyz\r\n",
        "-5\r\n",
        "+5\r\n",
        "0x5\r\n",
        "5 \r\n",
        " 5\r\n",
        "5\t\r\n",
        "\r\n",
        ";a\r\n",
        "5\n",
        "5\rx",
        "1234567890abcdef\r\n",
        "5\r\nhelloXX",
        "5\r\nhello\rX",
        "5\r\nhello\n",
        "0\r\n\n",
        "0\r\nA: b\n",
        "0\r\n\r\r",
        "0\r\nA\rB",
        "0\r\nA: \x01",
        "0\r\nbad trailer\r\n",
        "0\r\nA\r\n",
        "0\r\nA : b\r\n",
        "0\r\n: b\r\n",
        "0\r\nA: b\r\n folded\r\n",
        "0\r\nGET / HTTP/1.1\r\n",
        "5;\x01\r\n",
        "5;\n",
        "5\r\nhello\r\n\r\n",
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        for (size_t step = 1; step <= strlen(rows[i]); step++) {
            kn_body b;
            char data[100];
            kn_body_begin(&b, KN_BODY_CHUNKED, 0);
            if (feed(&b, rows[i], strlen(rows[i]), step, data) >= 0)
                fail_msg("'%s' was accepted", rows[i]);
        }
}

static void extensions_and_trailers_have_limits(void **state) {
    (void)state;
    static char text[KN_HTTP_TRAILERS_MAX + 100];
    static char data[KN_HTTP_TRAILERS_MAX + 100];
    for (int over = 0; over <= 1; over++) {
        kn_body b;
        kn_body_begin(&b, KN_BODY_CHUNKED, 0);
        size_t len = (size_t)snprintf(text, sizeof text, "1;%0*d\r\nx\r\n", KN_HTTP_EXTENSION_MAX + over, 0);
        assert_int_equal(feed(&b, text, len, len, data), over ? -1 : (ptrdiff_t)len);
        kn_body_begin(&b, KN_BODY_CHUNKED, 0);
        len = (size_t)snprintf(text, sizeof text, "0\r\na: %0*d\r\nb:\r\n\r\n", KN_HTTP_TRAILERS_MAX - 5 + over, 0);
        assert_int_equal(feed(&b, text, len, len, data), over ? -1 : (ptrdiff_t)len);
    }
}

static void a_length_ends_exactly(void **state) {
    (void)state;
    kn_body b;
    char data[20];
    for (size_t step = 1; step < 9; step++) {
        kn_body_begin(&b, KN_BODY_LENGTH, 5);
        assert_int_equal(feed(&b, "helloGET", 8, step, data), 5);
        assert_true(b.complete);
        assert_string_equal(data, "hello");
    }
    kn_body_begin(&b, KN_BODY_LENGTH, 0);
    assert_true(b.complete);
    kn_body_begin(&b, KN_BODY_NONE, 7);
    assert_true(b.complete);
    kn_body_begin(&b, KN_BODY_LENGTH, 6);
    assert_int_equal(feed(&b, "hello", 5, 5, data), 5);
    kn_body_end(&b);
    assert_false(b.complete);
}

static void without_length_only_the_end_ends_it(void **state) {
    (void)state;
    kn_body b;
    char data[20];
    kn_body_begin(&b, KN_BODY_UNTIL_CLOSE, 0);
    assert_int_equal(feed(&b, "0\r\n\r\n", 5, 2, data), 5);
    assert_string_equal(data, "0\r\n\r\n");
    assert_false(b.complete);
    kn_body_end(&b);
    assert_true(b.complete);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_chunks_apart_however_they_are_cut),
        cmocka_unit_test(refuses_chunks_that_others_may_see_differently),
        cmocka_unit_test(extensions_and_trailers_have_limits),
        cmocka_unit_test(a_length_ends_exactly),
        cmocka_unit_test(without_length_only_the_end_ends_it),
    };
    return cmocka_run_group_tests_name("http body", tests, NULL, NULL);
}
