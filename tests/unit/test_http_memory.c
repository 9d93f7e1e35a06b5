#include "failing_alloc.h"

#include <sys/resource.h>

#include <jansson.h>

#include "../http/rig.h"

/* What makes something that can fail, each allocation of it in turn. */

static bool make_everything(void *ctx, kn_error *err) {
    (void)ctx;
    kn_loop *loop = NULL;
    kn_http *http = NULL;
    kn_server *server = NULL;
    kn_upstream *upstream = NULL;
    kn_server_limits limits = kn_server_limits_default();
    kn_upstream_limits upstream_limits = kn_upstream_limits_default();
    kn_address any;
    bool good = kn_address_parse("127.0.0.1:0", &any, err) && kn_loop_new(NULL, NULL, &loop, err) &&
                kn_http_new(loop, &http, err) && kn_server_new(http, &limits, &server, err) &&
                kn_upstream_new(http, &any, &upstream_limits, &upstream, err) &&
                kn_server_listen(server, &any, &rig_service, NULL, NULL, err);
    int ends[2] = { -1, -1 };
    if (good && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends))
        good = kn_server_adopt(server, ends[1], NULL, &rig_service, NULL, err);
    if (ends[0] >= 0)
        close(ends[0]);
    kn_server_free(server);
    kn_upstream_free(upstream);
    kn_http_free(http);
    kn_loop_free(loop);
    return good;
}

static void making_them_fails_cleanly(void **state) {
    (void)state;
    alloc_fail_each(make_everything, NULL, 7, 12);
}

/* While it serves there is nobody to tell: whoever cannot be served loses the connection, and nothing else happens. */

static void put_text(rig *r, int fd, const char *text) {
    static char ignored[1 << 16];
    rig_put(fd, text, strlen(text));
    rig_run(r);
    rig_take(fd, ignored, sizeof ignored);
}

/* Everything that holds memory for a while. */
static void serve(rig *r, int clients[4]) {
    static char zeros[300000];
    int upstream = -1;
    put_text(r, clients[0], "GET /x HTTP/1.1\r\nHo");
    put_text(r, clients[0], "st: a\r\n\r\nGET /own HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream = rig_accept(r);
    if (upstream >= 0) {
        put_text(r, upstream, "HTTP/1.1 200 OK\r\nContent-Le");
        put_text(r, upstream, "ngth: 300000\r\n\r\n");
        rig_put(upstream, zeros, sizeof zeros); /* more than the client's socket takes */
        rig_run(r);
        put_text(r, clients[0], "");
    }
    put_text(r, clients[1], "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    if (r->held)
        rig_forward(r, r->held);
    put_text(r, clients[1], "world");
    put_text(r, clients[2], "POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789");
    put_text(r, clients[3], "bad\n");
    for (int fd; (fd = rig_accept(r)) >= 0; close(fd))
        put_text(r, fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
    if (upstream >= 0)
        close(upstream);
    rig_run(r);
}

static void serving_without_memory_loses_connections_only(void **state) {
    (void)state;
    long n = 0;
    do {
        static rig r;
        int clients[4];
        rig_open(&r);
        for (int i = 0; i < 4; i++)
            clients[i] = rig_connect(&r);
        alloc_has_failed = false;
        alloc_fails_after = n++;
        serve(&r, clients);
        alloc_fails_after = -1;
        int healthy = rig_connect(&r); /* others are served as before */
        char text[300];
        rig_put(healthy, "GET /own HTTP/1.1\r\nHost: a\r\n\r\n", 30);
        rig_run(&r);
        rig_take(healthy, text, sizeof text);
        assert_true(strstr(text, "mine"));
        close(healthy);
        for (int i = 0; i < 4; i++)
            close(clients[i]);
        r.now_ms += 3600 * 1000;
        rig_run(&r);
        assert_int_equal(r.begun, r.ended);
        assert_int_equal(r.dispatched, r.upstream_ends);
        rig_close(&r);
        assert_int_equal(alloc_live, 0);
    } while (alloc_has_failed);
    assert_in_range(n, 12, 60);
}

/* ---- descriptors ---- */

static void without_descriptors_clients_are_turned_away_and_nothing_spins(void **state) {
    (void)state;
    static rig r;
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){ 200, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    rig_open(&r);
    kn_address any, address;
    assert_true(kn_address_parse("127.0.0.1:0", &any, NULL));
    assert_true(kn_server_listen(r.server, &any, &rig_service, &r, &address, NULL));
    int client[3], taken[200], count = 0;
    for (int i = 0; i < 3; i++) {
        client[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(client[i], (struct sockaddr *)&address.storage, address.len), 0);
    }
    while (count < 200 && (taken[count] = dup(0)) >= 0)
        count++;
    assert_int_equal(errno, EMFILE);
    rig_run(&r);
    /* The first is turned away, not left waiting. Valgrind keeps the limit itself, by closing what the kernel accepted
     * beyond it, so that the server's own refusal meets the second there. */
    char c;
    assert_int_equal(recv(client[0], &c, 1, MSG_DONTWAIT), 0);
    size_t waiting = recv(client[1], &c, 1, MSG_DONTWAIT) == 0 ? 1 : 2;
    while (count)
        close(taken[--count]);
    rig_run(&r);
    assert_int_equal(kn_server_connections(r.server), 0); /* not before its time */
    assert_int_equal(recv(client[2], &c, 1, MSG_DONTWAIT), -1);
    rig_pass(&r, 100);
    assert_int_equal(kn_server_connections(r.server), waiting);
    for (int i = 0; i < 3; i++)
        close(client[i]);
    rig_close(&r);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(making_them_fails_cleanly),
        cmocka_unit_test(serving_without_memory_loses_connections_only),
        cmocka_unit_test(without_descriptors_clients_are_turned_away_and_nothing_spins),
    };
    json_set_alloc_funcs(malloc, free); /* those of problem documents fail, too */
    return cmocka_run_group_tests_name("http memory", tests, NULL, NULL);
}
