/* A rig (rig.h) with one client and one upstream, for cmocka: a step is taken, everybody looks, and what they have
 * received is compared. Included by one file of a program. */
#ifndef KN_TESTS_HTTP_STAGE_H
#define KN_TESTS_HTTP_STAGE_H

#include "../http/rig.h"

enum { TEXT = 1 << 16 };

/* The rig and what its people have received. */
typedef struct stage {
    rig r;
    int client, upstream;
    char got[TEXT], sent[TEXT]; /* by the client, by the upstream */
    bool client_closed, upstream_closed;
} stage;

static stage s;

static inline int open_stage(void **state) {
    (void)state;
    memset(&s, 0, sizeof s);
    rig_open(&s.r);
    s.client = rig_connect(&s.r);
    s.upstream = -1;
    return 0;
}

static inline int close_stage(void **state) {
    (void)state;
    if (s.client >= 0)
        close(s.client);
    if (s.upstream >= 0)
        close(s.upstream);
    rig_close(&s.r);
    return s.r.begun == s.r.ended && s.r.dispatched == s.r.upstream_ends ? 0 : -1;
}

static inline void look(void) {
    rig_run(&s.r);
    if (s.upstream < 0)
        s.upstream = rig_accept(&s.r);
    if (s.upstream >= 0) {
        size_t len = strlen(s.sent);
        s.upstream_closed = rig_take(s.upstream, s.sent + len, TEXT - len);
    }
    size_t len = strlen(s.got);
    if (s.client >= 0)
        s.client_closed = rig_take(s.client, s.got + len, TEXT - len);
}

static inline void client_sends(const char *text) {
    assert_int_equal(rig_put(s.client, text, strlen(text)), strlen(text));
    look();
}

static inline void upstream_sends(const char *text) {
    assert_true(s.upstream >= 0);
    assert_int_equal(rig_put(s.upstream, text, strlen(text)), strlen(text));
    look();
}

static inline void forget(void) {
    s.got[0] = s.sent[0] = s.r.told[0] = 0;
}

static inline void client_leaves(void) {
    close(s.client);
    s.client = -1;
    look();
}

static inline void upstream_leaves(void) {
    close(s.upstream);
    s.upstream = -1;
    rig_run(&s.r);
    size_t len = strlen(s.got);
    s.client_closed = rig_take(s.client, s.got + len, TEXT - len);
}

static inline void pass(uint64_t ms) {
    s.r.now_ms += ms;
    look();
}

static inline void assert_starts(const char *text, const char *start) {
    if (strncmp(text, start, strlen(start)) != 0)
        fail_msg("'%s' does not start with '%s'", text, start);
}

static inline void assert_ends(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    if (a < b || strcmp(text + a - b, end) != 0)
        fail_msg("'%s' does not end in '%s'", text, end);
}

#define GET  "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
#define OK   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

#define STAGED(test) cmocka_unit_test_setup_teardown(test, open_stage, close_stage)

#endif
