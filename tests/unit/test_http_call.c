#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../http/stage.h"
#include "http/call.h"

/* ---- calls of our own ---- */

static kn_call_result called;
static char called_body[64];
static unsigned calls;

static void call_done(void *ctx, const kn_call_result *r) {
    assert_ptr_equal(ctx, &s);
    called = *r;
    calls++;
    snprintf(called_body, sizeof called_body, "%.*s", (int)r->body.len, r->body.data);
}

static kn_call *call(const char *json) {
    kn_call *c = NULL;
    kn_call_request r = {
        .method = json ? "POST" : "GET", .target = "/api/ps", .json = json, .answer_limit = 20, .within_ms = 1000
    };
    assert_true(kn_call_start(s.r.upstream, &r, call_done, &s, &c, NULL));
    calls = 0;
    look();
    return c;
}

static void calls_the_upstream_itself(void **state) {
    (void)state;
    call("{}");
    assert_string_equal(s.sent, "POST /api/ps HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
                                "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
    upstream_sends("HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n");
    upstream_sends("14\r\n01234567890123456789\r\n0\r\n\r\n");
    assert_int_equal(calls, 1);
    assert_int_equal(called.end, KN_CALL_ANSWERED);
    assert_int_equal(called.status, 404);
    assert_string_equal(called_body, "01234567890123456789");
    s.sent[0] = 0;
    call(NULL); /* on the same connection */
    assert_string_equal(s.sent, "GET /api/ps HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n");
    upstream_sends(OK);
    assert_int_equal(called.status, 200);
}

static void calls_have_limits(void **state) {
    (void)state;
    call(NULL);
    upstream_sends("HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n012345678901234567890");
    assert_int_equal(called.end, KN_CALL_TOO_LARGE);
    assert_true(s.upstream_closed);
    s.upstream = (close(s.upstream), -1);
    call(NULL);
    upstream_sends("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123");
    pass(999);
    assert_int_equal(calls, 0);
    pass(1);
    assert_int_equal(calls, 1);
    assert_int_equal(called.end, KN_CALL_LATE);
    assert_true(s.upstream_closed);
    s.upstream = (close(s.upstream), -1);
    call(NULL);
    upstream_sends("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123");
    upstream_leaves();
    assert_int_equal(called.end, KN_CALL_BROKEN);
    kn_call_cancel(call(NULL));
    look();
    assert_int_equal(calls, 0);
    assert_true(s.upstream_closed);
    close(s.r.listener);
    kn_call_request r = { .method = "GET", .target = "/", .within_ms = 1000 };
    kn_error err = { 0 };
    assert_false(kn_call_start(s.r.upstream, &r, call_done, &s, NULL, &err));
    assert_int_equal(err.code, KN_E_IO);
    kn_address unused;
    s.r.listener = rig_listen(&unused);
}

static char heard[64];

static void hear(void *ctx, kn_span data) {
    assert_ptr_equal(ctx, &s);
    size_t len = strlen(heard);
    snprintf(heard + len, sizeof heard - len, "%.*s|", (int)data.len, data.data);
}

static void calls_carry_other_bodies_and_hear_answers_as_they_come(void **state) {
    (void)state;
    const kn_call_request r = { .method = "POST",
                                .target = "/x",
                                .accept = "text/event-stream",
                                .fields = "X-A: b\r\n",
                                .type = "image/png",
                                .body = { "a\0b", 3 },
                                .answer_limit = 4,
                                .data = hear,
                                .within_ms = 1000 };
    calls = 0;
    assert_true(kn_call_start(s.r.upstream, &r, call_done, &s, NULL, NULL));
    look();
    assert_string_equal(s.sent, "POST /x HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nX-A: b\r\n"
                                "Content-Type: image/png\r\nContent-Length: 3\r\n\r\na");
    upstream_sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    assert_string_equal(heard, "one|");
    upstream_sends("6\r\nlonger\r\n");
    assert_string_equal(heard, "one|longer|");
    assert_int_equal(calls, 0);
    upstream_sends("0\r\n\r\n");
    assert_int_equal(calls, 1);
    assert_int_equal(called.end, KN_CALL_ANSWERED);
    assert_string_equal(called_body, "");
    assert_true(kn_call_start(s.r.upstream, &r, call_done, &s, NULL, NULL));
    look();
    upstream_sends("HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\ngone"); /* no other answer is heard in pieces */
    assert_string_equal(called_body, "gone");
    assert_string_equal(heard, "one|longer|");
}

static kn_call *unwanted;

static void want_no_more(void *ctx, kn_span data) {
    (void)ctx, (void)data;
    kn_call_cancel(unwanted);
}

static void a_call_can_be_cancelled_while_its_answer_is_heard(void **state) {
    (void)state;
    const kn_call_request r = { .method = "GET", .target = "/x", .data = want_no_more, .within_ms = 1000 };
    calls = 0;
    assert_true(kn_call_start(s.r.upstream, &r, call_done, &s, &unwanted, NULL));
    look();
    upstream_sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n");
    look();
    assert_int_equal(calls, 0);
    assert_true(s.upstream_closed);
}

static void a_call_that_is_cancelled_needs_its_upstream_no_more(void **state) {
    (void)state;
    kn_address address;
    kn_upstream *other = NULL;
    kn_call *c = NULL;
    int listener = rig_listen(&address);
    const kn_upstream_limits limits = kn_upstream_limits_default();
    assert_true(kn_upstream_new(s.r.http, &address, &limits, &other, NULL));
    const kn_call_request r = { .method = "GET", .target = "/", .answer_limit = 20, .within_ms = 1000 };
    assert_true(kn_call_start(other, &r, call_done, &s, &c, NULL));
    calls = 0;
    kn_call_cancel(c);
    kn_upstream_free(other);
    look(); /* the memory that was freed is not looked at */
    assert_int_equal(calls, 0);
    close(listener);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STAGED(calls_the_upstream_itself),
        STAGED(calls_have_limits),
        STAGED(calls_carry_other_bodies_and_hear_answers_as_they_come),
        STAGED(a_call_can_be_cancelled_while_its_answer_is_heard),
        STAGED(a_call_that_is_cancelled_needs_its_upstream_no_more),
    };
    return cmocka_run_group_tests_name("http call", tests, NULL, NULL);
}
