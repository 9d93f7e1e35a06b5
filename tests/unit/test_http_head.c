#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "http/head.h"

/* Scans and parses a request: the status to refuse it with, 0 if it is good; 1 if its end has not come. */
static unsigned judge(kn_head *h, const char *data, size_t len) {
    kn_head_scan scan = { 0 };
    unsigned scanned = kn_head_scan_more(&scan, data, len);
    if (scanned == KN_SCAN_MORE)
        return 1;
    return scanned == KN_SCAN_COMPLETE ? kn_request_parse(h, data, scan.at) : scanned;
}

/* A request line and fields, each behind the other. */
static unsigned judge_text(const char *text) {
    static kn_head h;
    return judge(&h, text, strlen(text));
}

static void refuses_heads_that_can_be_understood_in_two_ways(void **state) {
    (void)state;
    static const struct {
        const char *fields;
        unsigned status;
    } rows[] = {
        { "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400 },
        { "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", 400 },
        { "Content-Length: 5\r\nContent-Length: 6\r\n", 400 },
        { "Content-Length: 5\r\ncontent-length: 5\r\n", 400 },
        { "Content-Length: 5, 5\r\n", 400 },
        { "Content-Length: +5\r\n", 400 },
        { "Content-Length: -5\r\n", 400 },
        { "Content-Length: 5a\r\n", 400 },
        { "Content-Length: 0x5\r\n", 400 },
        { "Content-Length: 5 5\r\n", 400 },
        { "Content-Length:\r\n", 400 },
        { "Content-Length: 99999999999999999999\r\n", 400 },
        { "Content-Length: 9223372036854775808\r\n", 400 },
        { "Content-Length: 9223372036854775799\r\n", 0 },
        { "Content-Length: 007\r\n", 0 },
        { "Transfer-Encoding: xchunked\r\n", 501 },
        { "Transfer-Encoding: chunked, identity\r\n", 501 },
        { "Transfer-Encoding: identity\r\n", 501 },
        { "Transfer-Encoding: chunked, chunked\r\n", 501 },
        { "Transfer-Encoding: gzip, chunked\r\n", 501 },
        { "Transfer-Encoding: \"chunked\"\r\n", 501 },
        { "Transfer-Encoding:\r\n", 501 },
        { "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400 },
        { "Transfer-Encoding: CHUNKED \r\n", 0 },
        { "X-A : b\r\n", 400 },
        { "X-A\t: b\r\n", 400 },
        { "X-A: b\r\n c\r\n", 400 },
        { "X-A: b\r\n\tc\r\n", 400 },
        { " X-A: b\r\n", 400 },
        { "X(A: b\r\n", 400 },
        { "X\xe9: b\r\n", 400 },
        { ": b\r\n", 400 },
        { "no colon\r\n", 400 },
        { "nocolon\r\n", 400 },
        { "Host: b\r\n", 400 },
        { "Connection: close, host\r\n", 400 },
        { "Connection: Content-Length\r\n", 400 },
        { "Connection: a b\r\n", 400 },
        { "Connection: , ,, x-a ,\r\n", 0 },
        { "Connection: Upgrade\r\nUpgrade: websocket\r\n", 501 },
        { "Upgrade: h2c, websocket\r\nConnection: x-a, upgrade\r\n", 501 },
        { "Upgrade: TLS/1.2\r\nUpgrade: WebSocket/13\r\nConnection: upgrade\r\n", 501 },
        { "Upgrade: TLS/1.2\r\nConnection: Upgrade\r\n", 0 }, /* with every request of some clients */
        { "Upgrade: h2c\r\nUpgrade: TLS/1.0\r\nConnection: upgrade\r\n", 0 },
        { "Upgrade: h2\r\nConnection: upgrade\r\n", 0 },
        { "Upgrade: websockets, x/websocket\r\nConnection: upgrade\r\n", 0 },
        { "Upgrade: h2c,, HTTP/2.0\r\nConnection: upgrade\r\n", 0 }, /* an offer that nobody needs to take */
        { "Upgrade: websocket\r\n", 0 },                             /* not for this connection */
        { "Connection: upgrade\r\n", 0 },
        { "X-A:\r\nX-B: \t \r\nX-C: \xe9\x80\xff\r\n", 0 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char text[300];
        snprintf(text, sizeof text, "POST /x HTTP/1.1\r\nHost: a\r\n%s\r\n", rows[i].fields);
        unsigned status = judge_text(text);
        if (status != rows[i].status)
            fail_msg("'%s' gives %u, not %u", rows[i].fields, status, rows[i].status);
    }
}

static void refuses_request_lines_that_are_none(void **state) {
    (void)state;
    static const struct {
        const char *line;
        unsigned status;
    } rows[] = {
        { "GET  /x HTTP/1.1", 400 },
        { "GET /x  HTTP/1.1", 400 },
        { "GET /x HTTP/1.1 ", 400 },
        { " GET /x HTTP/1.1", 400 },
        { "GET\t/x HTTP/1.1", 400 },
        { "GET /x", 400 },
        { "GET /x ", 400 },
        { "GET", 400 },
        { "GET /x HTTP/1.2x", 400 },
        { "GET /x HTTP/1.", 400 },
        { "GET /x http/1.1", 400 },
        { "GET /x HTTP/1,1", 400 },
        { "GET /x HTTP/01.1", 400 },
        { "GET /x HTTP/2.0", 505 },
        { "GET /x HTTP/1.2", 505 },
        { "GET /x HTTP/0.9", 505 },
        { "GET /x y HTTP/1.1", 400 },
        { "GET /x#y HTTP/1.1", 400 },
        { "GET /\xc3\xa9 HTTP/1.1", 400 },
        { "GET http://a/x HTTP/1.1", 400 },
        { "GET x HTTP/1.1", 400 },
        { "GET * HTTP/1.1", 400 },
        { "OPTIONS * HTTP/1.1", 0 },
        { "OPTIONS *x HTTP/1.1", 400 },
        { "GE(T /x HTTP/1.1", 400 },
        { "CONNECT a:1 HTTP/1.1", 501 },
        { "connect /a HTTP/1.1", 0 },
        { "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF /x HTTP/1.1", 0 },
        { "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG /x HTTP/1.1", 400 },
        { "!#$%&'*+-.^_`|~09azAZ /x HTTP/1.1", 0 },
        { "GET /!\"$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~ HTTP/1.1", 0 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char text[300];
        snprintf(text, sizeof text, "%s\r\nHost: a\r\n\r\n", rows[i].line);
        unsigned status = judge_text(text);
        if (status != rows[i].status)
            fail_msg("'%s' gives %u, not %u", rows[i].line, status, rows[i].status);
    }
}

static void asks_for_one_host(void **state) {
    (void)state;
    static const struct {
        const char *text;
        unsigned status;
    } rows[] = {
        { "GET / HTTP/1.1\r\n\r\n", 400 },
        { "GET / HTTP/1.0\r\n\r\n", 0 },
        { "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost:\r\n\r\n", 0 },
        { "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 0 },
        { "GET / HTTP/1.1\r\nHost: me@a\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", 0 },
        { "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        assert_int_equal(judge_text(rows[i].text), rows[i].status);
}

/* Each byte that no head has is refused when it comes, without waiting for more. */
static void stops_at_the_first_byte_that_no_head_has(void **state) {
    (void)state;
    static const char *const rows[] = { "GET /x HTTP/1.1\n",
                                        "GET /x HTTP/1.1\r\nHost: a\n",
                                        "GET /\r/",
                                        "GET /x HTTP/1.1\r\nX: \x01",
                                        "GET /x HTTP/1.1\r\nX: \x7f",
                                        "\n",
                                        "\rG",
                                        "GET /x HTTP/1.1\r\nX: a\r\r" };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        size_t len = strlen(rows[i]);
        kn_head_scan scan = { 0 };
        assert_int_equal(kn_head_scan_more(&scan, rows[i], len - 1), KN_SCAN_MORE);
        assert_int_equal(kn_head_scan_more(&scan, rows[i], len), 400);
    }
    static const char with_nul[] = "GET /x\0";
    kn_head_scan scan = { 0 };
    assert_int_equal(kn_head_scan_more(&scan, with_nul, sizeof with_nul - 1), 400);
}

static void finds_the_end_however_the_bytes_come(void **state) {
    (void)state;
    static const char text[] = "GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET ";
    size_t end = strlen(text) - 4;
    for (size_t step = 1; step <= end; step++) {
        kn_head_scan scan = { 0 };
        unsigned scanned = KN_SCAN_MORE;
        for (size_t len = step; scanned == KN_SCAN_MORE; len += step)
            scanned = kn_head_scan_more(&scan, text, KN_MIN(len, sizeof text - 1));
        assert_int_equal(scanned, KN_SCAN_COMPLETE);
        assert_int_equal(scan.at, end);
    }
}

/* A head of a request line of so many bytes, so many fields, and so many bytes altogether (0: as many as it takes). */
static unsigned judge_size(size_t line, unsigned fields, size_t all) {
    static char text[(KN_HTTP_HEAD_MAX + 1000)];
    static kn_head h;
    size_t len = (size_t)snprintf(text, sizeof text, "GET /");
    while (len < line - 9)
        text[len++] = 'a';
    len += (size_t)snprintf(text + len, sizeof text - len, " HTTP/1.1\r\nHost: a\r\n");
    for (unsigned i = 1; i < fields; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "X: y\r\n");
    if (all) {
        len += (size_t)snprintf(text + len, sizeof text - len, "Z: ");
        while (len < all - 4)
            text[len++] = 'z';
        len += (size_t)snprintf(text + len, sizeof text - len, "\r\n");
    }
    len += (size_t)snprintf(text + len, sizeof text - len, "\r\n");
    assert_true(!all || len == all);
    return judge(&h, text, len);
}

static void keeps_to_its_limits(void **state) {
    (void)state;
    assert_int_equal(judge_size(KN_HTTP_LINE_MAX, 1, 0), 0);
    assert_int_equal(judge_size(KN_HTTP_LINE_MAX + 1, 1, 0), 414);
    assert_int_equal(judge_size(20, KN_HTTP_FIELDS_MAX, 0), 0);
    assert_int_equal(judge_size(20, KN_HTTP_FIELDS_MAX + 1, 0), 431);
    assert_int_equal(judge_size(20, 1, KN_HTTP_HEAD_MAX), 0);
    assert_int_equal(judge_size(20, 1, KN_HTTP_HEAD_MAX + 1), 431);
    /* without an end in sight */
    size_t len = 100000;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, 'a', len);
    kn_head_scan scan = { 0 };
    assert_int_equal(kn_head_scan_more(&scan, text, KN_HTTP_LINE_MAX), KN_SCAN_MORE);
    assert_int_equal(kn_head_scan_more(&scan, text, KN_HTTP_LINE_MAX + 2), 414);
    /* nor does what stands behind the limit change the verdict where it came along */
    text[KN_HTTP_LINE_MAX + 2] = '\n';
    scan = (kn_head_scan){ 0 };
    assert_int_equal(kn_head_scan_more(&scan, text, len), 414);
    assert_int_equal(scan.at, KN_HTTP_LINE_MAX + 2);
    text[KN_HTTP_LINE_MAX + 2] = 'a';
    memcpy(text, "GET / HTTP/1.1\r\n", 16);
    scan = (kn_head_scan){ 0 };
    assert_int_equal(kn_head_scan_more(&scan, text, KN_HTTP_HEAD_MAX), KN_SCAN_MORE);
    assert_int_equal(kn_head_scan_more(&scan, text, KN_HTTP_HEAD_MAX + 1), 431);
    free(text);
}

static void tells_what_a_request_says(void **state) {
    (void)state;
    static const char text[] = "PUT /a?b=%00 HTTP/1.1\r\nhost: A:1\r\nCONTENT-length: 12\r\nContent-Type:\tx/y \r\n"
                               "Expect: 100-Continue\r\nConnection: X-One, keep-alive\r\nX-One: 1\r\nX-Two: 2\r\n\r\n";
    kn_head h = { 0 };
    assert_int_equal(judge(&h, text, sizeof text - 1), 0);
    assert_true(kn_span_is(h.method, "PUT"));
    assert_true(kn_span_is(h.target, "/a?b=%00"));
    assert_true(kn_span_is(kn_head_path(&h), "/a"));
    assert_int_equal(h.minor, 1);
    assert_int_equal(h.framing, KN_BODY_LENGTH);
    assert_int_equal(h.content_length, 12);
    assert_true(h.keep_alive && h.expects_continue && h.nominates);
    assert_int_equal(h.field_count, 7);
    kn_span v = { 0 };
    assert_true(kn_head_only(&h, KN_FIELD_HOST, &v) && kn_span_is(v, "A:1"));
    assert_true(kn_head_only(&h, KN_FIELD_CONTENT_TYPE, &v) && kn_span_is(v, "x/y"));
    assert_false(kn_head_only(&h, KN_FIELD_ORIGIN, &v));
    assert_true(kn_span_is(kn_head_name(&h, &h.fields[1]), "CONTENT-length"));
    static const bool hop[] = { false, false, false, false, true, true, false };
    for (unsigned i = 0; i < h.field_count; i++)
        assert_int_equal(kn_field_is_hop_by_hop(&h, &h.fields[i]), hop[i]);
}

static void glances_at_what_a_refused_head_was_about(void **state) {
    (void)state;
    static const struct {
        const char *head, *method, *target;
    } cases[] = {
        { "POST /v1/x?y HTTP/9", "POST", "/v1/x?y" },
        { "HEAD /a\nb", "HEAD", "/a" },
        { "GET /v1/cha", "GET", "/v1/cha" },
        { "GET ", "GET", "" },
        { "GET\r\n /x", "GET", "" },
        { "PO", "PO", "" },
        { "GE(T /x ", "GE(T", "/x" },
        { "CONNECT a:1 HTTP/1.1", "CONNECT", "a:1" },
    };
    for (size_t i = 0; i < KN_COUNT(cases); i++) {
        kn_span method, target;
        kn_request_glance(cases[i].head, strlen(cases[i].head), &method, &target);
        assert_true(kn_span_is(method, cases[i].method));
        assert_true(kn_span_is(target, cases[i].target));
    }
}

static void knows_whether_a_connection_goes_on(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool keep;
    } rows[] = {
        { "GET / HTTP/1.1\r\nHost: a\r\n\r\n", true },
        { "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", false },
        { "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false },
        { "GET / HTTP/1.0\r\n\r\n", false },
        { "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true },
        { "GET / HTTP/1.0\r\nConnection: Keep-Alive, close\r\n\r\n", false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_head h = { 0 };
        assert_int_equal(judge(&h, rows[i].text, strlen(rows[i].text)), 0);
        assert_int_equal(h.keep_alive, rows[i].keep);
    }
}

static void knows_where_the_body_of_an_answer_ends(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool to_head;
        kn_framing framing;
    } rows[] = {
        { "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false, KN_BODY_LENGTH },
        { "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true, KN_BODY_NONE },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, KN_BODY_CHUNKED },
        { "HTTP/1.1 200\r\n\r\n", false, KN_BODY_UNTIL_CLOSE },
        { "HTTP/1.0 200 \r\n\r\n", false, KN_BODY_UNTIL_CLOSE },
        { "HTTP/1.1 204 No\r\n\r\n", false, KN_BODY_NONE },
        { "HTTP/1.1 304 Same\r\nContent-Length: 3\r\n\r\n", false, KN_BODY_NONE },
        { "HTTP/1.1 103 Hints\r\n\r\n", false, KN_BODY_NONE },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_head h = { 0 };
        assert_true(kn_response_parse(&h, rows[i].text, strlen(rows[i].text), rows[i].to_head));
        assert_int_equal(h.framing, rows[i].framing);
        assert_int_equal(h.keep_alive, rows[i].framing != KN_BODY_UNTIL_CLOSE);
    }
}

/* The standard's own words, not our table. */
static void names_are_tokens_of_the_standard(void **state) {
    (void)state;
    for (int c = 1; c < 256; c++) {
        bool is_token = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                        (c < 128 && strchr("!#$%&'*+-.^_`|~", c));
        char text[64];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\nX%cY: z\r\n\r\n", c);
        if (c != ':') /* ends the name, and begins the value */
            assert_int_equal(judge_text(text), is_token ? 0 : 400);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_heads_that_can_be_understood_in_two_ways),
        cmocka_unit_test(refuses_request_lines_that_are_none),
        cmocka_unit_test(asks_for_one_host),
        cmocka_unit_test(stops_at_the_first_byte_that_no_head_has),
        cmocka_unit_test(finds_the_end_however_the_bytes_come),
        cmocka_unit_test(keeps_to_its_limits),
        cmocka_unit_test(tells_what_a_request_says),
        cmocka_unit_test(glances_at_what_a_refused_head_was_about),
        cmocka_unit_test(knows_whether_a_connection_goes_on),
        cmocka_unit_test(knows_where_the_body_of_an_answer_ends),
        cmocka_unit_test(names_are_tokens_of_the_standard),
    };
    return cmocka_run_group_tests_name("http head", tests, NULL, NULL);
}
