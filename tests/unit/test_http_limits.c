#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <netinet/in.h>

#include "../http/stage.h"

/* ---- clients that leave ---- */

static void a_client_that_leaves_ends_the_upstreams_work(void **state) {
    (void)state;
    client_sends(GET);
    client_leaves();
    assert_true(s.upstream_closed);
    assert_string_equal(s.r.told, "request 1, aborted 0, end 0");
    assert_int_equal(kn_server_connections(s.r.server), 0);
}

static void a_client_that_leaves_is_drained_to_the_end(void **state) {
    (void)state;
    s.r.how.drain_ms = 60000;
    s.r.how.watch_response = true;
    client_sends(GET);
    client_leaves();
    assert_false(s.upstream_closed);
    assert_string_equal(s.r.told, "request 1, left 0");
    upstream_sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    pass(59999);
    upstream_sends("0\r\n\r\n");
    assert_string_equal(s.r.told, "request 1, left 0, response 200, complete 0, end 0");
    assert_int_equal(s.r.seen, 5);
    assert_int_equal(kn_server_connections(s.r.server), 0);
}

static void draining_has_one_deadline_for_all(void **state) {
    (void)state;
    s.r.how.drain_ms = 60000;
    client_sends(GET);
    upstream_sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    client_leaves();
    for (int i = 0; i < 5; i++) { /* it goes on sending, but does not come to an end */
        pass(10000);
        upstream_sends("1\r\nx\r\n");
    }
    assert_false(s.upstream_closed);
    pass(9999);
    assert_false(s.upstream_closed);
    pass(1);
    assert_true(s.upstream_closed);
    assert_string_equal(s.r.told, "request 1, response 200, left 0, aborted 0, end 200");
}

static void a_client_that_leaves_while_it_uploads_cuts_the_request(void **state) {
    (void)state;
    s.r.how.drain_ms = 60000;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    client_leaves();
    assert_true(s.upstream_closed);
    assert_string_equal(s.r.told, "request 1, left 0");
    upstream_sends("HTTP/1.1 400 Cut\r\nContent-Length: 0\r\n\r\n");
    assert_string_equal(s.r.told, "request 1, left 0, response 400, complete 0, end 0");
}

static void a_cut_request_that_is_accepted_all_the_same_has_no_certain_end(void **state) {
    (void)state;
    s.r.how.drain_ms = 60000;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n");
    client_leaves();
    assert_true(s.upstream_closed);
    upstream_sends(OK);
    assert_string_equal(s.r.told, "request 1, left 0, response 200, cut 0, end 0");
}

static void a_request_that_has_its_answer_is_not_cut_any_more(void **state) {
    (void)state;
    s.r.how.drain_ms = 60000;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n");
    upstream_sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    client_leaves();
    assert_false(s.upstream_closed);
    upstream_sends("0\r\n\r\n");
    assert_string_equal(s.r.told, "request 1, response 200, left 0, complete 0, end 200");
}

static void a_half_closed_client_has_left(void **state) {
    (void)state;
    client_sends(GET);
    shutdown(s.client, SHUT_WR);
    look();
    assert_true(s.client_closed && s.upstream_closed);
    assert_string_equal(s.r.told, "request 1, aborted 0, end 0");
}

static void client_sends_its_last(const char *text) {
    assert_int_equal(rig_put(s.client, text, strlen(text)), strlen(text));
    shutdown(s.client, SHUT_WR);
    look();
}

static void a_half_closed_client_waits_for_what_comes_soon(void **state) {
    (void)state;
    client_sends("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    kn_exchange_set_brief(s.r.held, true);
    client_sends_its_last("");
    pass(60000);
    assert_false(s.client_closed);
    assert_string_equal(s.r.told, "request 1");
    kn_exchange_reply(s.r.held, &(kn_reply){ .status = 200, .type = "text/plain", .body = "late", .len = 4 });
    look();
    assert_ends(s.got, "\r\n\r\nlate");
    assert_true(s.client_closed);
    assert_string_equal(s.r.told, "request 1, end 200");
}

static void it_has_left_when_that_is_taken_back(void **state) {
    (void)state;
    client_sends("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    kn_exchange_set_brief(s.r.held, true);
    client_sends_its_last("");
    kn_exchange_set_brief(s.r.held, false);
    look();
    assert_true(s.client_closed);
    assert_string_equal(s.r.told, "request 1, end 0");
}

static void a_half_closed_client_gets_what_is_forwarded_soon(void **state) {
    (void)state;
    client_sends("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    kn_exchange_set_brief(s.r.held, true);
    client_sends_its_last("");
    rig_forward(&s.r, s.r.held);
    look();
    upstream_sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    upstream_sends("0\r\n\r\n");
    assert_ends(s.got, "0\r\n\r\n");
    assert_string_equal(s.r.told, "request 1, response 200, complete 0, end 200");
}

static void all_that_was_sent_before_a_half_close_is_served(void **state) {
    (void)state;
    client_sends_its_last("GET /own HTTP/1.1\r\nHost: a\r\n\r\nGET /own HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(s.client_closed);
    assert_string_equal(s.r.told, "request 1, end 200, request 2, end 200");
    assert_int_equal(kn_server_connections(s.r.server), 0);
}

static void a_request_that_is_not_complete_is_none_after_a_half_close(void **state) {
    (void)state;
    client_sends("POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhal");
    client_sends_its_last("f");
    assert_true(s.client_closed);
    assert_string_equal(s.r.told, "request 1, end 0");
}

static void a_client_that_left_before_it_was_served_is_not_served(void **state) {
    (void)state;
    assert_int_equal(rig_put(s.client, GET, strlen(GET)), strlen(GET));
    client_leaves();
    assert_int_equal(s.upstream, -1);
    assert_string_equal(s.r.told, "request 1, unsent 0, end 0");
}

static void a_waiting_client_that_leaves_is_never_dispatched(void **state) {
    (void)state;
    client_sends("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_non_null(s.r.held);
    client_leaves();
    assert_string_equal(s.r.told, "request 1, end 0");
    assert_int_equal(s.upstream, -1);
}

static void a_client_that_leaves_before_it_is_dispatched_was_sent_nothing(void **state) {
    (void)state;
    client_sends("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    rig_forward(&s.r, s.r.held);
    client_leaves();
    assert_string_equal(s.r.told, "request 1, unsent 0, end 0");
}

/* ---- time ---- */

static void a_head_must_be_complete_in_time_however_it_trickles(void **state) {
    (void)state;
    client_sends("GET /x HT");
    for (int i = 0; i < 9; i++) {
        pass(1000);
        client_sends("T");
    }
    pass(999);
    assert_false(s.client_closed);
    pass(1);
    assert_starts(s.got, "HTTP/1.1 408 Request Timeout\r\n");
    assert_true(s.client_closed);
}

static void an_idle_connection_is_closed_without_a_word(void **state) {
    (void)state;
    pass(60000);
    client_sends("GET /own HTTP/1.1\r\nHost: a\r\n\r\n");
    s.got[0] = 0;
    pass(74999);
    assert_false(s.client_closed);
    pass(1);
    assert_true(s.client_closed);
    assert_string_equal(s.got, "");
}

static void empty_lines_do_not_keep_a_connection(void **state) {
    (void)state;
    client_sends("GET /own HTTP/1.1\r\nHost: a\r\n\r\n\r\n");
    s.got[0] = 0;
    for (int i = 0; i < 9; i++) {
        pass(8000);
        client_sends(i % 2 ? "\r\n" : "\r\n\r\n");
        assert_false(s.client_closed);
    }
    pass(3000);
    assert_true(s.client_closed);
    assert_string_equal(s.got, "");
}

static void a_request_behind_an_empty_line_has_its_own_time(void **state) {
    (void)state;
    client_sends("\r\n");
    pass(70000);
    client_sends("GET /own HTTP/1.1\r\n");
    pass(9000);
    client_sends("Host: a\r\n\r\n");
    assert_starts(s.got, "HTTP/1.1 200 OK\r\n");
}

static void a_body_that_stalls_is_given_up(void **state) {
    (void)state;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    pass(299000);
    client_sends("w");
    pass(299999);
    assert_false(s.client_closed);
    pass(1);
    assert_starts(s.got, "HTTP/1.1 408 Request Timeout\r\n");
    assert_true(s.upstream_closed);
    assert_string_equal(s.r.told, "request 1, aborted 0, failed 408, end 408");
}

static void an_upstream_that_says_nothing_is_late(void **state) {
    (void)state;
    client_sends(GET);
    pass(599999);
    assert_string_equal(s.got, "");
    pass(1);
    assert_starts(s.got, "HTTP/1.1 504 Gateway Timeout\r\n");
    assert_true(s.upstream_closed);
    assert_string_equal(s.r.told, "request 1, broken 0, failed 504, end 504");
}

static void interim_answers_do_not_make_it_early(void **state) {
    (void)state;
    client_sends(GET);
    for (int i = 0; i < 5; i++) {
        pass(100000);
        upstream_sends("HTTP/1.1 102 Processing\r\n\r\n");
    }
    upstream_sends("HTTP/1.1 103 Ear"); /* nor does a head that never ends */
    forget();
    pass(99999);
    assert_string_equal(s.got, "");
    pass(1);
    assert_starts(s.got, "HTTP/1.1 504 Gateway Timeout\r\n");
    assert_true(s.upstream_closed);
}

static void an_upstream_that_stalls_is_cut(void **state) {
    (void)state;
    client_sends(GET);
    upstream_sends("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
    pass(299000);
    upstream_sends("w");
    pass(299999);
    assert_false(s.client_closed);
    pass(1);
    assert_true(s.client_closed && s.upstream_closed);
    assert_string_equal(s.r.told, "request 1, response 200, broken 0, end 200");
}

static void an_upstream_that_is_not_reached_in_time_was_sent_nothing(void **state) {
    (void)state;
    /* A listener whose queue is full lets connections wait. */
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), waiting[8];
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof a;
    assert_int_equal(bind(listener, (struct sockaddr *)&a, len) | listen(listener, 0) |
                         getsockname(listener, (struct sockaddr *)&a, &len),
                     0);
    for (size_t i = 0; i < KN_COUNT(waiting); i++) {
        waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connect(waiting[i], (struct sockaddr *)&a, len))
            assert_int_equal(errno, EINPROGRESS);
    }
    kn_upstream_free(s.r.upstream);
    kn_address address = { .len = len };
    memcpy(&address.storage, &a, len);
    kn_upstream_limits limits = kn_upstream_limits_default();
    assert_true(kn_upstream_new(s.r.http, &address, &limits, &s.r.upstream, NULL));

    client_sends(GET);
    pass(4999);
    assert_string_equal(s.got, "");
    pass(1);
    assert_starts(s.got, "HTTP/1.1 502 Bad Gateway\r\n");
    assert_string_equal(s.r.told, "request 1, unsent 0, failed 502, end 502");
    for (size_t i = 0; i < KN_COUNT(waiting); i++)
        close(waiting[i]);
    close(listener);
}

static void an_idle_connection_to_the_upstream_is_closed_in_time(void **state) {
    (void)state;
    client_sends(GET);
    upstream_sends(OK);
    pass(59999);
    assert_false(s.upstream_closed);
    pass(1);
    assert_true(s.upstream_closed);
}

/* ---- pressure ---- */

/* Sends zeros until nothing goes any more; the loop runs in between. */
static size_t send_until_stuck(int fd) {
    static const char zeros[1 << 16];
    size_t total = 0;
    for (int idle = 0; idle < 3;) {
        size_t n = rig_put(fd, zeros, sizeof zeros);
        total += n;
        idle = n ? 0 : idle + 1;
        rig_run(&s.r);
    }
    return total;
}

/* Reads everything that comes while the loop runs. */
static size_t receive_all(int fd) {
    static char bytes[1 << 16];
    size_t total = 0;
    for (int idle = 0; idle < 3;) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        total += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        rig_run(&s.r);
    }
    return total;
}

static void a_client_that_does_not_read_stops_the_upstream(void **state) {
    (void)state;
    client_sends(GET);
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n";
    assert_int_equal(rig_put(s.upstream, head, strlen(head)), strlen(head));
    size_t sent = send_until_stuck(s.upstream);
    assert_in_range(sent, 1, 2 << 20); /* what we hold, and two sockets' buffers */
    assert_int_equal(receive_all(s.client), strlen(head) + sent);
    assert_true(send_until_stuck(s.upstream) > 0); /* it goes on */
    /* Whoever takes nothing for too long has left. */
    rig_pass(&s.r, 299999);
    assert_string_equal(s.r.told, "request 1, response 200");
    rig_pass(&s.r, 1);
    assert_string_equal(s.r.told, "request 1, response 200, aborted 0, end 200");
}

static void a_client_that_does_not_read_keeps_its_lease_and_is_drained(void **state) {
    (void)state;
    s.r.how.drain_ms = 300000;
    client_sends(GET);
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n";
    assert_int_equal(rig_put(s.upstream, head, strlen(head)), strlen(head));
    size_t sent = send_until_stuck(s.upstream);
    pass(299000);
    assert_string_equal(s.r.told, "request 1, response 200");
    client_leaves();
    assert_string_equal(s.r.told, "request 1, response 200, left 0");
    static const char zeros[1 << 16];
    while (sent < 3000000) {
        sent += rig_put(s.upstream, zeros, KN_MIN(sizeof zeros, 3000000 - sent));
        rig_run(&s.r);
    }
    assert_string_equal(s.r.told, "request 1, response 200, left 0, complete 0, end 200");
}

static void an_upstream_that_does_not_read_stops_the_client(void **state) {
    (void)state;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
    size_t sent = send_until_stuck(s.client);
    assert_in_range(sent, 1, 2 << 20);
    assert_int_equal(receive_all(s.upstream), sent);
    assert_true(send_until_stuck(s.client) > 0);
}

static void large_bodies_arrive_whole_in_both_directions(void **state) {
    (void)state;
    enum { BYTES = 5000000 };
    static unsigned char out[BYTES], in[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        out[i] = (unsigned char)(i * 2654435761u >> 16);
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n");
    for (int direction = 0; direction < 2; direction++) {
        int from = direction ? s.upstream : s.client, to = direction ? s.client : s.upstream;
        if (direction)
            upstream_sends("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n");
        size_t sent = 0, received = 0;
        while (received < BYTES) {
            sent += rig_put(from, out + sent, BYTES - sent);
            rig_run(&s.r);
            ssize_t n = recv(to, in + received, BYTES - received, 0);
            received += n > 0 ? (size_t)n : 0;
        }
        assert_memory_equal(in, out, BYTES);
    }
    look();
    assert_string_equal(s.r.told, "request 1, response 200, complete 0, end 200");
}

/* ---- servers ---- */

static void drained(void *ctx) {
    *(bool *)ctx = true;
}

static void draining_lets_exchanges_come_to_their_end(void **state) {
    (void)state;
    bool done = false;
    int idle = rig_connect(&s.r);
    client_sends(GET);
    kn_server_drain(s.r.server, drained, &done);
    look();
    char text[16];
    assert_true(rig_take(idle, text, sizeof text)); /* idle ones are closed */
    close(idle);
    assert_false(done);
    upstream_sends(OK);
    assert_true(done && s.client_closed);
    assert_string_equal(s.got, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
}

static void who_still_sends_when_the_last_answer_is_out_is_waited_for(void **state) {
    (void)state;
    bool done = false;
    client_sends("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    kn_server_drain(s.r.server, drained, &done);
    upstream_sends(OK);
    assert_false(done);
    close(s.client);
    s.client = -1;
    rig_run(&s.r);
    assert_true(done);
    assert_int_equal(kn_server_connections(s.r.server), 0);
}

static void an_idle_server_is_drained_at_once(void **state) {
    (void)state;
    bool done = false;
    kn_server_drain(s.r.server, drained, &done);
    assert_true(done);
}

static void cutting_ends_every_exchange(void **state) {
    (void)state;
    s.r.how.drain_ms = 60000;
    client_sends(GET);
    kn_server_cut(s.r.server);
    look();
    assert_true(s.client_closed && s.upstream_closed);
    assert_string_equal(s.r.told, "request 1, aborted 0, end 0");
    s.client = (close(s.client), rig_connect(&s.r));
    s.upstream = (close(s.upstream), -1);
    forget();
    client_sends(GET);
    client_leaves(); /* one that is drained is cut, too */
    kn_server_cut(s.r.server);
    look();
    assert_string_equal(s.r.told, "request 2, left 0, aborted 0, end 0");
}

static void connections_beyond_the_limit_are_closed(void **state) {
    (void)state;
    kn_server_limits limits = kn_server_limits_default();
    limits.connections = 3;
    limits.connections_per_peer = 2;
    kn_server *server;
    kn_address one, other;
    assert_true(kn_server_new(s.r.http, &limits, &server, NULL));
    assert_true(kn_address_parse("192.0.2.1:1", &one, NULL) && kn_address_parse("[2001:db8::1]:1", &other, NULL));
    static const bool served[] = { true, true, false, true, false };
    int ends[KN_COUNT(served)][2];
    for (size_t i = 0; i < KN_COUNT(served); i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends[i]), 0);
        const kn_address *peer = i < 3 ? &one : &other;
        assert_int_equal(kn_server_adopt(server, ends[i][1], peer, &rig_service, &s.r, NULL), served[i]);
        char text[8];
        assert_int_equal(rig_take(ends[i][0], text, sizeof text), !served[i]);
    }
    close(ends[0][0]); /* makes room for the same address again */
    rig_run(&s.r);
    int again[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, again), 0);
    assert_true(kn_server_adopt(server, again[1], &one, &rig_service, &s.r, NULL));
    close(again[0]);
    for (size_t i = 1; i < KN_COUNT(served); i++)
        close(ends[i][0]);
    rig_run(&s.r);
    assert_int_equal(kn_server_connections(server), 0);
    kn_server_free(server);
}

static void who_asks_nothing_and_is_not_trusted_makes_room_where_that_is_the_rule(void **state) {
    (void)state;
    enum { TRUSTED, REFUSED, BEGINS, SERVED, FIRST, SECOND, THIRD, FOURTH, MOST = FIRST };
    static const char *const sent[] = {
        [TRUSTED] = "GET /kuno/v1/status HTTP/1.1\r\nHost: localhost:80\r\n\r\n",
        [REFUSED] = "GET /kuno/v1/status HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
        [BEGINS] = "GET /own HT",
        [SERVED] = "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n",
        [FIRST] = "",
        [SECOND] = "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n",
        [THIRD] = "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n",
        [FOURTH] = "",
    };
    /* FIRST comes instead of REFUSED, SECOND of BEGINS, THIRD of FIRST, and then nobody can go. */
    static const bool closed[] = { [REFUSED] = true, [BEGINS] = true, [FIRST] = true, [FOURTH] = true };
    kn_server_limits limits = kn_server_limits_default();
    limits.connections = MOST;
    limits.yields = true;
    kn_server *server;
    int ends[KN_COUNT(sent)][2];
    assert_true(kn_server_new(s.r.http, &limits, &server, NULL));
    for (size_t i = 0; i < KN_COUNT(sent); i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends[i]), 0);
        assert_int_equal(kn_server_adopt(server, ends[i][1], NULL, &rig_service, &s.r, NULL), i != FOURTH);
        assert_int_equal(kn_server_connections(server), KN_MIN(i + 1, (size_t)MOST));
        rig_put(ends[i][0], sent[i], strlen(sent[i]));
        rig_run(&s.r);
    }
    for (size_t i = 0; i < KN_COUNT(sent); i++) {
        char text[1000];
        assert_int_equal(rig_take(ends[i][0], text, sizeof text), i < KN_COUNT(closed) && closed[i]);
        close(ends[i][0]);
    }
    rig_run(&s.r);
    assert_int_equal(kn_server_connections(server), 0);
    kn_server_free(server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STAGED(a_client_that_leaves_ends_the_upstreams_work),
        STAGED(a_client_that_leaves_is_drained_to_the_end),
        STAGED(draining_has_one_deadline_for_all),
        STAGED(a_client_that_leaves_while_it_uploads_cuts_the_request),
        STAGED(a_cut_request_that_is_accepted_all_the_same_has_no_certain_end),
        STAGED(a_request_that_has_its_answer_is_not_cut_any_more),
        STAGED(a_half_closed_client_has_left),
        STAGED(a_half_closed_client_waits_for_what_comes_soon),
        STAGED(it_has_left_when_that_is_taken_back),
        STAGED(a_half_closed_client_gets_what_is_forwarded_soon),
        STAGED(all_that_was_sent_before_a_half_close_is_served),
        STAGED(a_request_that_is_not_complete_is_none_after_a_half_close),
        STAGED(a_client_that_left_before_it_was_served_is_not_served),
        STAGED(a_waiting_client_that_leaves_is_never_dispatched),
        STAGED(a_client_that_leaves_before_it_is_dispatched_was_sent_nothing),
        STAGED(a_head_must_be_complete_in_time_however_it_trickles),
        STAGED(an_idle_connection_is_closed_without_a_word),
        STAGED(empty_lines_do_not_keep_a_connection),
        STAGED(a_request_behind_an_empty_line_has_its_own_time),
        STAGED(a_body_that_stalls_is_given_up),
        STAGED(an_upstream_that_says_nothing_is_late),
        STAGED(interim_answers_do_not_make_it_early),
        STAGED(an_upstream_that_stalls_is_cut),
        STAGED(an_upstream_that_is_not_reached_in_time_was_sent_nothing),
        STAGED(an_idle_connection_to_the_upstream_is_closed_in_time),
        STAGED(a_client_that_does_not_read_stops_the_upstream),
        STAGED(a_client_that_does_not_read_keeps_its_lease_and_is_drained),
        STAGED(an_upstream_that_does_not_read_stops_the_client),
        STAGED(large_bodies_arrive_whole_in_both_directions),
        STAGED(draining_lets_exchanges_come_to_their_end),
        STAGED(who_still_sends_when_the_last_answer_is_out_is_waited_for),
        STAGED(an_idle_server_is_drained_at_once),
        STAGED(cutting_ends_every_exchange),
        STAGED(connections_beyond_the_limit_are_closed),
        STAGED(who_asks_nothing_and_is_not_trusted_makes_room_where_that_is_the_rule),
    };
    return cmocka_run_group_tests_name("http limits", tests, NULL, NULL);
}
