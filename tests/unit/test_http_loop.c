#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/loop.h"

static uint64_t now_ms;

static uint64_t test_clock(void *ctx) {
    (void)ctx;
    return now_ms;
}

static int open_loop(void **state) {
    now_ms = 1000;
    return kn_loop_new(test_clock, NULL, (kn_loop **)state, NULL) ? 0 : -1;
}

static int close_loop(void **state) {
    kn_loop_free(*state);
    return 0;
}

static void turn(kn_loop *l) {
    assert_true(kn_loop_turn(l, 0, NULL));
}

/* ---- timers ---- */

static unsigned fired;

static void count(kn_timer *t) {
    (void)t;
    fired++;
}

static void a_timer_comes_at_its_time_and_once(void **state) {
    kn_loop *l = *state;
    kn_timer t = { .fired = count };
    fired = 0;
    kn_loop_timer_after(l, &t, 10);
    now_ms += 9;
    turn(l);
    assert_int_equal(fired, 0);
    now_ms += 1;
    turn(l);
    turn(l);
    assert_int_equal(fired, 1);
}

static void a_timer_can_be_moved_both_ways_and_stopped(void **state) {
    kn_loop *l = *state;
    kn_timer t = { .fired = count };
    fired = 0;
    kn_loop_timer_at(l, &t, 1010);
    kn_loop_timer_at(l, &t, 1030); /* later */
    now_ms = 1029;
    turn(l);
    assert_int_equal(fired, 0);
    kn_loop_timer_at(l, &t, 1029); /* earlier */
    turn(l);
    assert_int_equal(fired, 1);
    kn_loop_timer_at(l, &t, 1040);
    kn_loop_timer_stop(&t);
    now_ms = 1050;
    turn(l);
    assert_int_equal(fired, 1);
    kn_loop_timer_at(l, &t, 1060);
    kn_loop_timer_close(l, &t);
    now_ms = 1070;
    turn(l);
    assert_int_equal(fired, 1);
}

/* Timers in random order, moved and removed at random, against a table that is searched from end to end. */
static void many_timers_come_in_order(void **state) {
    (void)state;
    enum { N = 500 };
    static kn_timer timers[N];
    static uint64_t due[N]; /* KN_TIMER_NEVER: not set */
    kn_timers heap = { 0 };
    uint64_t random = 3, now = 0;
    memset(due, 0xff, sizeof due);
    for (int step = 0; step < 20000; step++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        size_t i = (size_t)(random >> 40) % N;
        uint64_t when = now + (random >> 20) % 1000;
        switch ((random >> 60) % 4) {
        case 0:
            kn_timers_remove(&heap, &timers[i]);
            due[i] = KN_TIMER_NEVER;
            break;
        case 1: now += (random >> 20) % 20; break;
        default:
            kn_timers_set(&heap, &timers[i], when);
            due[i] = when;
            break;
        }
        for (kn_timer *t; (t = kn_timers_take_due(&heap, now));) {
            size_t k = (size_t)(t - timers);
            assert_true(due[k] <= now);
            due[k] = KN_TIMER_NEVER;
        }
        for (size_t k = 0; k < N; k++) {
            assert_true(due[k] == KN_TIMER_NEVER || due[k] > now);
            assert_true(due[k] >= kn_timers_next_ms(&heap) || due[k] == KN_TIMER_NEVER);
        }
    }
}

static void waits_no_longer_than_the_next_timer(void **state) {
    (void)state;
    kn_loop *l;
    assert_true(kn_loop_new(NULL, NULL, &l, NULL)); /* the real clock */
    kn_timer t = { .fired = count };
    fired = 0;
    kn_loop_timer_after(l, &t, 5);
    while (!fired)
        assert_true(kn_loop_turn(l, -1, NULL));
    kn_loop_free(l);
}

/* ---- watches ---- */

static uint32_t heard;

static void hear(kn_watch *w, uint32_t events) {
    (void)w;
    heard |= events;
}

static void a_watch_hears_what_it_wants(void **state) {
    kn_loop *l = *state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    kn_watch w;
    assert_true(kn_watch_open(l, &w, ends[0], EPOLLOUT, hear, NULL));
    heard = 0;
    assert_int_equal(write(ends[1], "x", 1), 1);
    turn(l);
    assert_int_equal(heard, EPOLLOUT);
    heard = 0;
    kn_watch_want(l, &w, EPOLLIN);
    turn(l);
    assert_int_equal(heard, EPOLLIN);
    /* What it does not want any more costs nothing until it happens, and then one event that nobody hears. */
    heard = 0;
    kn_watch_want(l, &w, EPOLLRDHUP);
    turn(l);
    assert_int_equal(heard, 0);
    assert_int_equal(w.armed, EPOLLRDHUP);
    close(ends[1]);
    turn(l);
    assert_true(heard & EPOLLRDHUP);
    heard = 0;
    kn_watch_want(l, &w, 0);
    turn(l);
    turn(l);
    assert_int_equal(heard, 0);
    assert_int_equal(w.armed, 0);
    kn_watch_want(l, &w, EPOLLIN);
    turn(l);
    assert_true(heard & EPOLLIN);
    kn_watch_close(l, &w);
    kn_watch_close(l, &w);
}

static kn_loop *the_loop;
static kn_watch watches[2];

/* Whoever comes first closes both. */
static void close_both(kn_watch *w, uint32_t events) {
    (void)w;
    (void)events;
    fired++;
    kn_watch_close(the_loop, &watches[0]);
    kn_watch_close(the_loop, &watches[1]);
}

static void a_closed_watch_hears_nothing_of_what_was_on_its_way(void **state) {
    the_loop = *state;
    fired = 0;
    for (int i = 0; i < 2; i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        assert_true(kn_watch_open(the_loop, &watches[i], ends[0], EPOLLIN, close_both, NULL));
        close(ends[1]);
    }
    turn(the_loop);
    assert_int_equal(fired, 1);
}

static void a_descriptor_that_cannot_be_watched_stays_the_callers(void **state) {
    kn_loop *l = *state;
    kn_watch w;
    kn_error err = { 0 };
    assert_false(kn_watch_open(l, &w, 9999, EPOLLIN, hear, &err));
    assert_int_equal(err.code, KN_E_IO);
    assert_int_equal(w.fd, -1);
}

/* ---- tasks and signals ---- */

static char order[32];
static size_t ordered;

typedef struct named {
    kn_task task;
    char name;
    kn_loop *again; /* asks to run once more */
} named;

static void write_name(kn_task *t) {
    named *n = KN_HOLDER(t, named, task);
    order[ordered++] = n->name;
    if (n->again)
        kn_loop_later(n->again, t);
    n->again = NULL;
}

static void tasks_run_in_order_and_once(void **state) {
    kn_loop *l = *state;
    named a = { { .run = write_name }, 'a', l }, b = { { .run = write_name }, 'b', NULL };
    memset(order, 0, sizeof order);
    ordered = 0;
    kn_loop_later(l, &a.task);
    kn_loop_later(l, &b.task);
    kn_loop_later(l, &a.task);
    turn(l);
    assert_string_equal(order, "ab");
    turn(l); /* what a task asks for comes in the next turn */
    assert_string_equal(order, "aba");
    turn(l);
    assert_string_equal(order, "aba");
}

enum { POSTERS = 4, POSTS = 2000 };

typedef struct posted {
    kn_task task;
    unsigned thread, n;
} posted;

static struct poster {
    pthread_t thread;
    kn_loop *loop;
    posted posts[POSTS];
} posters[POSTERS];
static unsigned arrived[POSTERS], all_arrived;

static void arrive(kn_task *t) {
    posted *p = KN_HOLDER(t, posted, task);
    assert_int_equal(arrived[p->thread], p->n); /* each thread's in its order */
    arrived[p->thread]++;
    all_arrived++;
}

static void *post_all(void *arg) {
    struct poster *p = arg;
    for (unsigned i = 0; i < POSTS; i++)
        kn_loop_post(p->loop, &p->posts[i].task);
    return NULL;
}

static void other_threads_wake_the_loop(void **state) {
    (void)state;
    kn_loop *l;
    assert_true(kn_loop_new(NULL, NULL, &l, NULL));
    for (unsigned i = 0; i < POSTERS; i++) {
        posters[i].loop = l;
        for (unsigned n = 0; n < POSTS; n++)
            posters[i].posts[n] = (posted){ { .run = arrive }, i, n };
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_all, &posters[i]), 0);
    }
    while (all_arrived < POSTERS * POSTS)
        assert_true(kn_loop_turn(l, -1, NULL));
    for (unsigned i = 0; i < POSTERS; i++)
        pthread_join(posters[i].thread, NULL);
    kn_loop_free(l);
}

static void stop_at_signal(void *ctx, int signal) {
    assert_int_equal(signal, SIGUSR1);
    kn_loop_stop(ctx);
}

static void signals_come_as_calls(void **state) {
    kn_loop *l = *state;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    assert_true(kn_loop_signals(l, &set, stop_at_signal, l, NULL));
    assert_int_equal(raise(SIGUSR1), 0);
    assert_true(kn_loop_run(l, NULL));
}

#define LOOPED(test) cmocka_unit_test_setup_teardown(test, open_loop, close_loop)

int main(void) {
    const struct CMUnitTest tests[] = {
        LOOPED(a_timer_comes_at_its_time_and_once),
        LOOPED(a_timer_can_be_moved_both_ways_and_stopped),
        cmocka_unit_test(many_timers_come_in_order),
        cmocka_unit_test(waits_no_longer_than_the_next_timer),
        LOOPED(a_watch_hears_what_it_wants),
        LOOPED(a_closed_watch_hears_nothing_of_what_was_on_its_way),
        LOOPED(a_descriptor_that_cannot_be_watched_stays_the_callers),
        LOOPED(tasks_run_in_order_and_once),
        cmocka_unit_test(other_threads_wake_the_loop),
        LOOPED(signals_come_as_calls),
    };
    return cmocka_run_group_tests_name("http loop", tests, NULL, NULL);
}
