/* Nobody keeps others waiting for ever: not by sending a byte now and then, nor by taking one; and nobody who only
 * waits for an answer is taken for slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../http/stage.h"

enum { SECOND = 1000 };

/* ---- the account ---- */

static const kn_patience usual = { .grace_ms = 10 * SECOND, .rate = 100, .most_ms = 60 * SECOND };

static void silence_costs_the_grace(void **state) {
    (void)state;
    kn_waiting w = { 0 };
    assert_true(kn_waiting_due_ms(&w, &usual) == UINT64_MAX);
    kn_waiting_note(&w, &usual, 5000, true, 0);
    assert_int_equal(kn_waiting_due_ms(&w, &usual), 15000);
    kn_waiting_note(&w, &usual, 9000, false, 0); /* something else is waited for */
    assert_true(kn_waiting_due_ms(&w, &usual) == UINT64_MAX);
    kn_waiting_note(&w, &usual, 100000, true, 0);
    assert_int_equal(kn_waiting_due_ms(&w, &usual), 106000);
}

static void bytes_pay_for_what_is_owed_and_not_for_later(void **state) {
    (void)state;
    kn_waiting w = { 0 };
    kn_waiting_note(&w, &usual, 0, true, 0);
    kn_waiting_note(&w, &usual, 8000, true, 500); /* five of the eight seconds */
    assert_int_equal(kn_waiting_due_ms(&w, &usual), 8000 + 7000);
    kn_waiting_note(&w, &usual, 9000, true, 1000000);
    assert_int_equal(kn_waiting_due_ms(&w, &usual), 9000 + 10000);
    kn_waiting_note(&w, &usual, 10000, true, 10); /* less than before is nothing new */
    assert_int_equal(kn_waiting_due_ms(&w, &usual), 10000 + 9000);
}

static void all_time_together_has_an_end(void **state) {
    (void)state;
    kn_waiting w = { 0 };
    kn_waiting_note(&w, &usual, 0, true, 0);
    for (uint64_t i = 1; i < 60; i++) {
        kn_waiting_note(&w, &usual, i * SECOND, true, i * 100000);
        assert_int_equal(kn_waiting_due_ms(&w, &usual), i * SECOND + KN_MIN(10 * SECOND, 60 * SECOND - i * SECOND));
    }
    const kn_patience endless = { .grace_ms = 10 * SECOND, .rate = 100 }, none = { 0 };
    assert_int_equal(kn_waiting_due_ms(&w, &endless), 69 * SECOND);
    assert_true(kn_waiting_due_ms(&w, &none) == UINT64_MAX);
}

static void the_largest_numbers_are_no_trouble(void **state) {
    (void)state;
    const kn_patience largest = { KN_PATIENCE_MAX_MS, KN_PATIENCE_MAX_RATE, KN_PATIENCE_MAX_MS };
    kn_waiting w = { 0 };
    kn_waiting_note(&w, &largest, 0, true, 0);
    assert_int_equal(kn_waiting_due_ms(&w, &largest), KN_PATIENCE_MAX_MS);
    kn_waiting_note(&w, &largest, UINT64_MAX / 2, true, 0);
    assert_int_equal(kn_waiting_due_ms(&w, &largest), UINT64_MAX / 2);
    kn_waiting_note(&w, &largest, UINT64_MAX / 2, true, UINT64_MAX);
    assert_int_equal(w.owed, 0);
}

/* ---- clients ---- */

/* A stage whose server has this patience. */
static void set_patience(const kn_patience *p, size_t collected) {
    kn_server_limits limits = kn_server_limits_default();
    limits.patience = *p;
    limits.collected = collected;
    close(s.client);
    kn_server_free(s.r.server);
    assert_true(kn_server_new(s.r.http, &limits, &s.r.server, NULL));
    s.client = rig_connect(&s.r);
}

static int open_impatient(void **state) {
    open_stage(state);
    set_patience(&usual, 1 << 20);
    return 0;
}

#define IMPATIENT(test) cmocka_unit_test_setup_teardown(test, open_impatient, close_stage)
#define UPLOAD          "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"

static void an_upload_that_trickles_ends(void **state) {
    (void)state;
    s.r.how.drain_ms = 60000;
    client_sends(UPLOAD);
    for (int i = 0; i < 10; i++) {
        assert_false(s.client_closed);
        client_sends("w");
        pass(1000);
    }
    pass(200);
    assert_starts(s.got, "HTTP/1.1 408 Request Timeout\r\n");
    assert_true(s.client_closed);
    assert_true(s.upstream_closed); /* it sees that the request is cut, and what it says to that is its end */
    upstream_sends("HTTP/1.1 400 Cut\r\nContent-Length: 0\r\n\r\n");
    assert_string_equal(s.r.told, "request 1, failed 408, response 400, complete 0, end 408");
}

static void so_does_one_in_chunks(void **state) {
    (void)state;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 10; i++) {
        client_sends("1;this-is-no-data\r\nw\r\n");
        pass(1000);
    }
    pass(200);
    assert_starts(s.got, "HTTP/1.1 408 Request Timeout\r\n");
}

/* Seconds that a client can upload so many bytes each second. */
static int upload_for(const char *bytes, int seconds) {
    client_sends(UPLOAD);
    int i = 0;
    for (; i < seconds && !s.client_closed; i++) {
        client_sends(bytes);
        pass(1000);
        s.sent[0] = 0;
    }
    return i;
}

static char hundred[101];

static void one_that_is_fast_enough_goes_on_to_the_end_of_all_time(void **state) {
    (void)state;
    memset(hundred, 'x', 100);
    assert_int_equal(upload_for(hundred, 1000), 60);
    assert_starts(s.got, "HTTP/1.1 408 Request Timeout\r\n");
}

static void one_that_may_be_of_any_length_goes_on_for_ever(void **state) {
    (void)state;
    memset(hundred, 'x', 100);
    s.r.how.unhurried = true;
    assert_int_equal(upload_for(hundred, 1000), 1000);
    for (int i = 0; i < 10; i++)
        pass(1000);
    assert_starts(s.got, "HTTP/1.1 408 Request Timeout\r\n"); /* but not if it stops */
}

static void an_upstream_that_does_not_read_is_not_the_clients_fault(void **state) {
    (void)state;
    static const char zeros[1 << 16];
    client_sends(UPLOAD);
    for (int idle = 0; idle < 3;) {
        idle = rig_put(s.client, zeros, sizeof zeros) ? 0 : idle + 1;
        rig_run(&s.r);
    }
    pass(299 * SECOND);
    assert_string_equal(s.r.told, "request 1");
}

static void whoever_waits_to_be_told_to_go_on_is_not_slow(void **state) {
    (void)state;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    pass(200 * SECOND);
    assert_string_equal(s.got, "");
    upstream_sends("HTTP/1.1 100 Continue\r\n\r\n");
    pass(9 * SECOND);
    assert_string_equal(s.got, "HTTP/1.1 100 Continue\r\n\r\n");
    pass(1 * SECOND);
    assert_starts(s.got, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 408 Request Timeout\r\n");
}

static void whoever_waits_for_a_turn_is_not_slow(void **state) {
    (void)state;
    client_sends("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    pass(1000 * SECOND);
    rig_forward(&s.r, s.r.held);
    look();
    pass(9 * SECOND);
    client_sends("hello");
    upstream_sends(OK);
    assert_string_equal(s.got, OK);
}

static void an_answer_that_is_made_slowly_is_no_slow_reader(void **state) {
    (void)state;
    client_sends(GET);
    upstream_sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 100; i++) {
        pass(200 * SECOND);
        upstream_sends("6\r\ntoken\n\r\n");
    }
    upstream_sends("0\r\n\r\n");
    assert_ends(s.got, "0\r\n\r\n");
    assert_string_equal(s.r.told, "request 1, response 200, complete 0, end 200");
}

/* More than the client's socket and we take. */
static void begin_large_answer(void) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n";
    static const char zeros[1 << 16];
    client_sends(GET);
    assert_int_equal(rig_put(s.upstream, head, strlen(head)), strlen(head));
    for (int idle = 0; idle < 3;) {
        idle = rig_put(s.upstream, zeros, sizeof zeros) ? 0 : idle + 1;
        rig_run(&s.r);
    }
}

/* Seconds that a client can go on taking so many bytes each second. */
static int read_for(size_t bytes, int seconds) {
    static char ignored[1 << 16];
    int i = 0;
    for (; i < seconds && !strstr(s.r.told, "aborted"); i++) {
        recv(s.client, ignored, bytes, 0);
        rig_pass(&s.r, 1000);
        rig_put(s.upstream, ignored, sizeof ignored);
        rig_run(&s.r);
    }
    return i;
}

static void a_client_that_takes_a_few_bytes_now_and_then_has_left(void **state) {
    (void)state;
    begin_large_answer();
    int seconds = read_for(10, 1000);
    assert_in_range(seconds, 10, 12);
    assert_string_equal(s.r.told, "request 1, response 200, aborted 0, end 200");
}

static void one_that_takes_enough_has_not_before_the_end_of_all_time(void **state) {
    (void)state;
    begin_large_answer();
    assert_in_range(read_for(40000, 1000), 60, 75);
}

/* Its socket has room again only after 160 kB, which is 20 seconds. */
static void one_that_takes_it_steadily_is_seen_to_long_before_its_socket_has_room(void **state) {
    (void)state;
    begin_large_answer();
    assert_in_range(read_for(8000, 1000), 60, 75);
}

static void and_has_left_when_it_stops(void **state) {
    (void)state;
    begin_large_answer();
    assert_int_equal(read_for(8000, 40), 40);
    assert_in_range(read_for(0, 1000), 5, 20); /* the grace, and as long until somebody looks */
    assert_string_equal(s.r.told, "request 1, response 200, aborted 0, end 200");
}

static void an_answer_that_nobody_waits_for_any_more_may_be_read_slowly(void **state) {
    (void)state;
    enum { BYTES = 300000 };
    static char answer[BYTES + 100];
    int len = snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BYTES);
    client_sends(GET);
    for (size_t at = 0; at < (size_t)len + BYTES;) {
        at += rig_put(s.upstream, answer + at, (size_t)len + BYTES - at);
        rig_run(&s.r);
    }
    assert_string_equal(s.r.told, "request 1, response 200, complete 0"); /* the turn has been given back */
    rig_pass(&s.r, 200 * SECOND);
    size_t got = 0;
    for (ssize_t n; (n = recv(s.client, answer, sizeof answer, 0)) > 0; rig_run(&s.r))
        got += (size_t)n;
    assert_int_equal(got, (size_t)len + BYTES);
}

/* ---- bodies in memory ---- */

static void a_body_that_is_collected_must_come_in_time_too(void **state) {
    (void)state;
    client_sends("POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n");
    for (int i = 0; i < 10; i++) {
        client_sends("w");
        pass(1000);
    }
    pass(200);
    assert_starts(s.got, "HTTP/1.1 408 Request Timeout\r\n");
    assert_string_equal(s.r.told, "request 1, failed 408, end 408");
}

static void one_that_was_asked_for_is_waited_for_no_longer(void **state) {
    (void)state;
    client_sends("POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\nExpect: 100-continue\r\n\r\n");
    assert_string_equal(s.got, "HTTP/1.1 100 Continue\r\n\r\n");
    pass(10 * SECOND);
    assert_string_equal(s.r.told, "request 1, failed 408, end 408");
}

static void bodies_in_memory_have_a_limit_together(void **state) {
    (void)state;
    static const char request[] = "POST /collect-own HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n"
                                  "1234567890123456789012345678901234567890";
    set_patience(&usual, 100);
    int other[2];
    char text[500];
    for (size_t i = 0; i < KN_COUNT(other); i++) {
        other[i] = rig_connect(&s.r);
        rig_put(other[i], request, strlen(request));
        rig_run(&s.r);
    }
    client_sends(request); /* the third 40 bytes */
    assert_starts(s.got, "HTTP/1.1 503 Service Unavailable\r\n");
    rig_put(other[0], "1234567890", 10); /* the others come to their end, and make room */
    rig_run(&s.r);
    rig_take(other[0], text, sizeof text);
    assert_starts(text, "HTTP/1.1 200 OK\r\n");
    close(s.client);
    close(other[1]); /* and so does one that leaves */
    rig_run(&s.r);
    for (int i = 0; i < 5; i++) {
        s.client = rig_connect(&s.r);
        forget();
        client_sends(request);
        client_sends("1234567890");
        assert_starts(s.got, "HTTP/1.1 200 OK\r\n");
        close(s.client);
    }
    close(other[0]);
    s.client = rig_connect(&s.r);
    rig_run(&s.r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_costs_the_grace),
        cmocka_unit_test(bytes_pay_for_what_is_owed_and_not_for_later),
        cmocka_unit_test(all_time_together_has_an_end),
        cmocka_unit_test(the_largest_numbers_are_no_trouble),
        IMPATIENT(an_upload_that_trickles_ends),
        IMPATIENT(so_does_one_in_chunks),
        IMPATIENT(one_that_is_fast_enough_goes_on_to_the_end_of_all_time),
        IMPATIENT(one_that_may_be_of_any_length_goes_on_for_ever),
        IMPATIENT(an_upstream_that_does_not_read_is_not_the_clients_fault),
        IMPATIENT(whoever_waits_to_be_told_to_go_on_is_not_slow),
        IMPATIENT(whoever_waits_for_a_turn_is_not_slow),
        IMPATIENT(an_answer_that_is_made_slowly_is_no_slow_reader),
        IMPATIENT(a_client_that_takes_a_few_bytes_now_and_then_has_left),
        IMPATIENT(one_that_takes_enough_has_not_before_the_end_of_all_time),
        IMPATIENT(one_that_takes_it_steadily_is_seen_to_long_before_its_socket_has_room),
        IMPATIENT(and_has_left_when_it_stops),
        IMPATIENT(an_answer_that_nobody_waits_for_any_more_may_be_read_slowly),
        IMPATIENT(a_body_that_is_collected_must_come_in_time_too),
        IMPATIENT(one_that_was_asked_for_is_waited_for_no_longer),
        IMPATIENT(bodies_in_memory_have_a_limit_together),
    };
    return cmocka_run_group_tests_name("http patience", tests, NULL, NULL);
}
