#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../http/stage.h"
#include "http/body.h"

/* ---- what is passed on ---- */

static void passes_requests_and_answers_on_byte_for_byte(void **state) {
    (void)state;
    static const struct {
        const char *request, *sent, *answer, *got;
    } rows[] = {
        { GET, GET, OK, OK },
        { POST "hello", POST "hello", OK, OK },
        { "frob //a/../%2F?x=%00&&; HTTP/1.1\r\nx-B:1\r\nhost:  b:1 \r\nX-A: \t2\r\nx-b: 3\r\nX-Empty:\r\n\r\n",
          "frob //a/../%2F?x=%00&&; HTTP/1.1\r\nx-B:1\r\nhost:  b:1 \r\nX-A: \t2\r\nx-b: 3\r\nX-Empty:\r\n\r\n",
          "HTTP/1.1 299 \xe9 Fine\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nX-Obs: \xe9\r\nContent-Length: 0\r\n\r\n",
          "HTTP/1.1 299 \xe9 Fine\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nX-Obs: \xe9\r\nContent-Length: 0\r\n\r\n" },
        { "GET /x HTTP/1.1\r\nConnection: close, X-One\r\nHost: a\r\nX-One: 1\r\nTE: trailers\r\nX-Two: 2\r\n"
          "Keep-Alive: 5\r\nProxy-Connection: a\r\nUpgrade: h2c\r\nProxy-Authorization: b\r\nTrailer: c\r\n\r\n",
          "GET /x HTTP/1.1\r\nHost: a\r\nX-Two: 2\r\n\r\n",
          "HTTP/1.1 200\r\nX-Hop: 1\r\nConnection: x-hop\r\nKeep-Alive: 9\r\nContent-Length: 2\r\n\r\nok",
          "HTTP/1.1 200 \r\nContent-Length: 2\r\nConnection: close\r\n\r\nok" },
        { "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=1\r\nabc\r\n02\r\nde\r\n0\r\nX-T: "
          "v\r\n\r\n",
          "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n1;a=b\r\ny\r\n0\r\nA: b\r\n\r\n",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n" },
        { "GET /x HTTP/1.0\r\n\r\n", NULL, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
          "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok" },
        { "GET /x HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n", GET, OK,
          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok" },
        { "HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n",
          "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n" },
        { "HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n" },
        { GET, GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: \"a\"\r\n\r\n",
          "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: \"a\"\r\n\r\n" },
        { GET, GET, "HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
          "HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 204 No\r\n\r\n" },
        { "GET /x HTTP/1.0\r\nHost: a\r\n\r\n", GET, "HTTP/1.1 103 Early\r\n\r\n" OK,
          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok" },
        { "\r\n\r\n" GET, GET, OK, OK },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        forget();
        s.client_closed = false;
        client_sends(rows[i].request);
        if (rows[i].sent)
            assert_string_equal(s.sent, rows[i].sent);
        else
            assert_starts(s.sent, "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
        upstream_sends(rows[i].answer);
        assert_string_equal(s.got, rows[i].got);
        bool closes = strstr(rows[i].got, "Connection: close");
        assert_int_equal(s.client_closed, closes);
        if (closes) {
            close(s.client);
            s.client = rig_connect(&s.r);
        }
    }
}

/* Takes the chunks away: what remains does not depend on how the bytes came. */
static void dechunk(char *text) {
    char *body = strstr(text, "\r\n\r\n");
    if (!body || !strstr(text, "Transfer-Encoding: chunked"))
        return;
    body += 4;
    kn_body b;
    kn_span piece;
    kn_body_begin(&b, KN_BODY_CHUNKED, 0);
    char *to = body, *end = text + strlen(text);
    for (char *at = body; at < end && !b.complete;) {
        ptrdiff_t n = kn_body_next(&b, at, (size_t)(end - at), &piece);
        assert_true(n > 0);
        memmove(to, piece.data, piece.len);
        to += piece.len;
        at += n;
    }
    assert_true(b.complete);
    *to = 0;
}

/* Bytes of `text` in pieces of 1 to `most`, both sides looking after each. */
static void send_in_pieces(int fd, const char *text, unsigned most, uint64_t *random) {
    size_t len = strlen(text);
    for (size_t at = 0; at < len;) {
        *random = *random * 6364136223846793005 + 1442695040888963407;
        size_t n = KN_MIN(1 + (size_t)(*random >> 33) % most, len - at);
        assert_int_equal(rig_put(fd, text + at, n), n);
        at += n;
        look();
    }
}

static void passes_the_same_on_however_it_is_cut(void **state) {
    (void)state;
    static const char request[] = "POST /x HTTP/1.1\r\nHost: a\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "1a;ext=\"x\"\r\nabcdefghijklmnopqrstuvwxyz\r\n1\r\n\n\r\n0\r\nT: r\r\n\r\n",
                      answer[] =
                          "HTTP/1.1 103 Hm\r\n\r\nHTTP/1.1 200 Good\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
                      sent[] = "POST /x HTTP/1.1\r\nHost: a\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n"
                               "abcdefghijklmnopqrstuvwxyz\n",
                      got[] = "HTTP/1.1 103 Hm\r\n\r\nHTTP/1.1 200 Good\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n"
                              "hello0123456789abcdef";
    uint64_t random = 7;
    for (unsigned round = 0; round < 60; round++) {
        forget();
        unsigned most = round == 0 ? 1 : 1 + round; /* first byte by byte */
        send_in_pieces(s.client, request, most, &random);
        dechunk(s.sent);
        assert_string_equal(s.sent, sent);
        send_in_pieces(s.upstream, answer, most, &random);
        char *second = strstr(s.got + 4, "HTTP/1.1");
        assert_non_null(second);
        dechunk(second);
        assert_string_equal(s.got, got);
    }
    assert_int_equal(s.r.ended, 60);
    assert_int_equal(rig_accept(&s.r), -1); /* one connection carried them all */
}

static void answers_pipelined_requests_one_after_the_other(void **state) {
    (void)state;
    client_sends(GET "GET /own HTTP/1.1\r\nHost: a\r\n\r\n" POST "hello" GET);
    assert_string_equal(s.sent, GET);
    upstream_sends(OK);
    assert_string_equal(s.sent, GET POST "hello");
    assert_starts(s.got, OK "HTTP/1.1 200 OK\r\nDate: ");
    assert_ends(s.got, "\r\n\r\nmine");
    forget();
    upstream_sends(OK);
    assert_string_equal(s.sent, GET);
    upstream_sends(OK);
    assert_string_equal(s.got, OK OK);
}

static void a_body_that_ends_with_the_connection_gets_chunks(void **state) {
    (void)state;
    client_sends(GET);
    upstream_sends("HTTP/1.1 200 OK\r\nX: y\r\n\r\nhello");
    assert_string_equal(s.got, "HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    upstream_leaves();
    assert_ends(s.got, "hello\r\n0\r\n\r\n");
    assert_false(s.client_closed);
    assert_string_equal(s.r.told, "request 1, response 200, complete 0, end 200");
}

static void sends_its_own_address_as_host_where_it_was_told_to(void **state) {
    (void)state;
    s.r.how.upstream_host = true;
    client_sends("GET /x HTTP/1.1\r\nX: 1\r\nHost: evil.example\r\nY: 2\r\n\r\n");
    assert_string_equal(s.sent, "GET /x HTTP/1.1\r\nHost: localhost\r\nX: 1\r\nY: 2\r\n\r\n");
}

static void shows_the_data_of_both_sides_without_framing(void **state) {
    (void)state;
    s.r.how.watch_request = s.r.how.watch_response = true;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_int_equal(s.r.seen, 5);
    upstream_sends(OK);
    assert_int_equal(s.r.seen, 7);
}

/* ---- errors of the peers ---- */

static void a_broken_request_never_becomes_a_complete_one(void **state) {
    (void)state;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    client_sends("5 \r\nhello\r\n0\r\n\r\n" GET);
    assert_starts(s.got, "HTTP/1.1 400 Bad Request\r\n");
    assert_true(s.upstream_closed);
    assert_null(strstr(s.sent, "0\r\n\r\n"));
    assert_null(strstr(s.sent, "GET"));
    assert_string_equal(s.r.told, "request 1, aborted 0, failed 400, end 400");
}

static void a_broken_request_is_drained_where_the_end_must_be_known(void **state) {
    (void)state;
    s.r.how.drain_ms = 1000;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    client_sends("x\r\n");
    assert_starts(s.got, "HTTP/1.1 400 Bad Request\r\n");
    assert_true(s.upstream_closed); /* for sending: it sees the end of a body that was cut */
    assert_string_equal(s.r.told, "request 1, failed 400");
    upstream_sends("HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n");
    assert_string_equal(s.r.told, "request 1, failed 400, response 400, complete 0, end 400");
}

static void an_upstream_that_makes_no_sense_is_a_bad_gateway(void **state) {
    (void)state;
    static const char *const answers[] = {
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n1",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 204 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 103 OK\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
    };
    for (size_t i = 0; i < KN_COUNT(answers); i++) {
        forget();
        client_sends(GET);
        upstream_sends(answers[i]);
        assert_starts(s.got, "HTTP/1.1 502 Bad Gateway\r\n");
        assert_true(s.upstream_closed);
        assert_false(s.client_closed); /* the client did nothing wrong */
        assert_non_null(strstr(s.r.told, "broken 0, failed 502, end 502"));
        close(s.upstream);
        s.upstream = -1;
    }
}

static void the_service_gives_errors_their_form(void **state) {
    (void)state;
    static const kn_reply own = { .status = 502, .type = "application/json", .body = "{\"error\":\"x\"}", .len = 13 };
    s.r.on_error = &own;
    client_sends(GET);
    upstream_leaves();
    assert_starts(s.got, "HTTP/1.1 502 Bad Gateway\r\n");
    assert_ends(s.got, "Content-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"error\":\"x\"}");
}

static void never_sends_a_request_twice(void **state) {
    (void)state;
    client_sends(GET);
    upstream_sends(OK);
    forget();
    client_sends(GET); /* on the same connection, which now dies under it */
    assert_string_equal(s.sent, GET);
    upstream_leaves();
    assert_starts(s.got, "HTTP/1.1 502 Bad Gateway\r\n");
    assert_string_equal(s.r.told, "request 2, broken 0, failed 502, end 502");
    assert_int_equal(rig_accept(&s.r), -1);
}

static void a_closed_idle_connection_costs_no_request(void **state) {
    (void)state;
    client_sends(GET);
    upstream_sends(OK);
    close(s.upstream); /* and the loop has not noticed when the next request comes */
    s.upstream = -1;
    s.r.now_ms++;
    forget();
    client_sends(GET);
    assert_string_equal(s.sent, GET);
    upstream_sends(OK);
    assert_string_equal(s.got, OK);
}

static void an_answer_that_was_cut_never_looks_complete(void **state) {
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX",
    };
    for (size_t i = 0; i < KN_COUNT(answers); i++) {
        forget();
        client_sends(GET);
        upstream_sends(answers[i]);
        upstream_leaves();
        assert_true(s.client_closed);
        assert_non_null(strstr(s.got, "hello"));
        assert_null(strstr(s.got, "0\r\n\r\n"));
        assert_non_null(strstr(s.r.told, "response 200, broken 0, end 200"));
        close(s.client);
        s.client = rig_connect(&s.r);
    }
}

static void an_answer_before_the_end_of_the_upload_is_passed_on_at_once(void **state) {
    (void)state;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\nabc");
    upstream_sends("HTTP/1.1 413 Too much\r\nContent-Length: 0\r\n\r\n");
    assert_string_equal(s.got, "HTTP/1.1 413 Too much\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert_true(s.client_closed); /* for sending: what it still sends is read for a while */
    assert_true(s.upstream_closed);
    client_sends("more");
    assert_string_equal(s.r.told, "request 1, response 413, complete 0, end 413");
    assert_int_equal(kn_server_connections(s.r.server), 1);
    pass(2000);
    assert_int_equal(kn_server_connections(s.r.server), 0);
}

static void bytes_behind_an_answer_end_its_connection(void **state) {
    (void)state;
    client_sends(GET);
    upstream_sends(OK "HTTP/1.1 200 Forged\r\n\r\n");
    assert_string_equal(s.got, OK);
    assert_true(s.upstream_closed);
}

static void any_sign_of_life_ends_an_idle_connection(void **state) {
    (void)state;
    client_sends(GET);
    upstream_sends(OK);
    upstream_sends("x");
    assert_true(s.upstream_closed);
}

static void connections_that_close_are_not_used_again(void **state) {
    (void)state;
    static const char *const answers[] = { "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                                           "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n" };
    for (size_t i = 0; i < KN_COUNT(answers); i++) {
        client_sends(GET);
        upstream_sends(answers[i]);
        assert_true(s.upstream_closed);
        close(s.upstream);
        s.upstream = -1;
    }
    assert_string_equal(s.got,
                        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

static void nobody_at_the_upstream_is_a_bad_gateway_and_nothing_was_sent(void **state) {
    (void)state;
    close(s.r.listener);
    client_sends(GET);
    assert_starts(s.got, "HTTP/1.1 502 Bad Gateway\r\n");
    assert_string_equal(s.r.told, "request 1, unsent 0, failed 502, end 502");
    kn_address unused;
    s.r.listener = rig_listen(&unused);
}

/* ---- decisions ---- */

static void a_waiting_request_goes_on_when_it_is_told_to(void **state) {
    (void)state;
    client_sends("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nX: y\r\n\r\nhello");
    pass(3600 * 1000); /* waiting has no limit but the service's */
    assert_string_equal(s.sent, "");
    rig_forward(&s.r, s.r.held);
    look();
    client_sends("world");
    assert_string_equal(s.sent, "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nX: y\r\n\r\nhelloworld");
    upstream_sends(OK);
    assert_string_equal(s.got, OK);
}

static void a_waiting_request_can_be_answered_later(void **state) {
    (void)state;
    client_sends("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" GET);
    kn_exchange_reply(s.r.held, &(kn_reply){ .status = 503, .fields = "Retry-After: 1\r\n" });
    look();
    assert_starts(s.got, "HTTP/1.1 503 Service Unavailable\r\nDate: ");
    assert_ends(s.got, "Content-Length: 0\r\nRetry-After: 1\r\n\r\n");
    assert_string_equal(s.sent, GET); /* the body was there as a whole, so the connection goes on */
}

static void an_answer_to_a_body_that_is_still_to_come_closes(void **state) {
    (void)state;
    client_sends("POST /own HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\nhello");
    assert_non_null(strstr(s.got, "Connection: close\r\n\r\nmine"));
    client_sends("GET /own HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(s.r.begun, 1);
}

static void a_head_request_gets_the_length_and_no_body(void **state) {
    (void)state;
    client_sends("HEAD /own HTTP/1.1\r\nHost: a\r\n\r\nGET /own HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_ends(s.got, "Content-Length: 4\r\n\r\nmine");
    assert_non_null(strstr(s.got, "Content-Length: 4\r\n\r\nHTTP/1.1 200 OK"));
}

static void a_collected_body_is_shown_whole_and_then_forwarded(void **state) {
    (void)state;
    client_sends("POST /collect HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
    assert_string_equal(s.got, "HTTP/1.1 100 Continue\r\n\r\n");
    client_sends("5\r\nhello\r\n");
    assert_string_equal(s.sent, "");
    client_sends("5\r\nworld\r\n0\r\n\r\n");
    assert_string_equal(s.sent, "POST /collect HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "a\r\nhelloworld\r\n0\r\n\r\n");
    forget();
    upstream_sends("HTTP/1.1 100 Continue\r\n\r\n" OK);
    assert_string_equal(s.got, OK);
    assert_int_equal(s.r.dispatched, 1);
}

static void a_body_beyond_the_limit_is_collected_up_to_it(void **state) {
    (void)state;
    char piece[200], body[151] = "";
    client_sends("POST /collect HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    memset(body, 'a', 150);
    snprintf(piece, sizeof piece, "96\r\n%s\r\n", body);
    client_sends(piece);
    assert_string_equal(s.r.told, "request 1, collected some 101");
    assert_ends(s.sent, piece);
    memset(body, 'b', 150);
    snprintf(piece, sizeof piece, "96\r\n%s\r\n0\r\n\r\n", body);
    client_sends(piece);
    assert_ends(s.sent, piece);
    upstream_sends(OK);
    assert_string_equal(s.got, OK);
}

static void nothing_is_read_of_a_body_that_is_said_to_be_beyond_the_limit(void **state) {
    (void)state;
    client_sends("POST /collect-own HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n");
    assert_string_equal(s.r.told, "request 1, collected some 0, end 200");
    assert_ends(s.got, "Content-Length: 0\r\nConnection: close\r\n\r\n");
}

static void nor_is_it_asked_for(void **state) {
    (void)state;
    client_sends("POST /collect-own HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n");
    assert_string_equal(s.r.told, "request 1, collected some 0, end 200");
    assert_memory_equal(s.got, "HTTP/1.1 200 OK\r\n", strlen("HTTP/1.1 200 OK\r\n"));
}

static void it_passes_on_whole_where_that_is_decided(void **state) {
    (void)state;
    char request[300] = "POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n";
    client_sends(request);
    assert_string_equal(s.r.told, "request 1, collected some 0");
    size_t len = strlen(request);
    memset(request + len, 'b', 101);
    request[len + 101] = 0;
    client_sends(request + len);
    assert_string_equal(s.sent, request);
    upstream_sends(OK);
    assert_string_equal(s.got, OK);
}

static void a_body_of_exactly_the_limit_is_complete(void **state) {
    (void)state;
    char request[300], body[RIG_COLLECT_MAX + 1];
    memset(body, 'a', RIG_COLLECT_MAX);
    body[RIG_COLLECT_MAX] = 0;
    snprintf(request, sizeof request,
             "POST /collect-own HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n%s\r\n0\r\n\r\n", body);
    client_sends(request);
    assert_string_equal(s.r.told, "request 1, collected 100, end 200");
    assert_ends(s.got, body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STAGED(passes_requests_and_answers_on_byte_for_byte),
        STAGED(passes_the_same_on_however_it_is_cut),
        STAGED(answers_pipelined_requests_one_after_the_other),
        STAGED(a_body_that_ends_with_the_connection_gets_chunks),
        STAGED(sends_its_own_address_as_host_where_it_was_told_to),
        STAGED(shows_the_data_of_both_sides_without_framing),
        STAGED(a_broken_request_never_becomes_a_complete_one),
        STAGED(a_broken_request_is_drained_where_the_end_must_be_known),
        STAGED(an_upstream_that_makes_no_sense_is_a_bad_gateway),
        STAGED(the_service_gives_errors_their_form),
        STAGED(never_sends_a_request_twice),
        STAGED(a_closed_idle_connection_costs_no_request),
        STAGED(an_answer_that_was_cut_never_looks_complete),
        STAGED(an_answer_before_the_end_of_the_upload_is_passed_on_at_once),
        STAGED(bytes_behind_an_answer_end_its_connection),
        STAGED(any_sign_of_life_ends_an_idle_connection),
        STAGED(connections_that_close_are_not_used_again),
        STAGED(nobody_at_the_upstream_is_a_bad_gateway_and_nothing_was_sent),
        STAGED(a_waiting_request_goes_on_when_it_is_told_to),
        STAGED(a_waiting_request_can_be_answered_later),
        STAGED(an_answer_to_a_body_that_is_still_to_come_closes),
        STAGED(a_head_request_gets_the_length_and_no_body),
        STAGED(a_collected_body_is_shown_whole_and_then_forwarded),
        STAGED(a_body_beyond_the_limit_is_collected_up_to_it),
        STAGED(nothing_is_read_of_a_body_that_is_said_to_be_beyond_the_limit),
        STAGED(nor_is_it_asked_for),
        STAGED(it_passes_on_whole_where_that_is_decided),
        STAGED(a_body_of_exactly_the_limit_is_complete),
    };
    return cmocka_run_group_tests_name("http exchange", tests, NULL, NULL);
}
