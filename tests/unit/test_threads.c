#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/threads.h"

enum { MOST = 1000, MOST_THREADS = 5 };

struct loop {
    atomic_int done[MOST];
    atomic_int busy[MOST_THREADS];
    atomic_int overlaps, strangers;
    unsigned threads;
};

static void count_item(void *ctx, size_t item, unsigned thread) {
    struct loop *l = ctx;
    atomic_fetch_add(&l->done[item], 1);
    if (thread >= l->threads) {
        atomic_fetch_add(&l->strangers, 1);
        return;
    }
    if (atomic_fetch_add(&l->busy[thread], 1) != 0)
        atomic_fetch_add(&l->overlaps, 1);
    atomic_fetch_sub(&l->busy[thread], 1);
}

static void every_item_runs_once_and_no_thread_number_twice_at_a_time(void **state) {
    (void)state;
    for (unsigned threads = 1; threads <= MOST_THREADS; threads++) {
        kn_error err = { 0 };
        kn_pool *p = NULL;
        assert_true(kn_pool_new(threads, &p, &err));
        assert_int_equal(kn_pool_size(p), threads);
        for (size_t round = 0; round < 300; round++) {
            size_t n = round % 7 == 6 ? MOST : round % 7;
            struct loop l = { .threads = threads };
            kn_pool_for(p, n, count_item, &l);
            for (size_t i = 0; i < MOST; i++)
                assert_int_equal(l.done[i], i < n);
            assert_int_equal(l.overlaps, 0);
            assert_int_equal(l.strangers, 0);
        }
        kn_pool_free(p);
    }
}

static void nap(void *ctx, size_t item, unsigned thread) {
    if (item == 0)
        usleep(20000);
    count_item(ctx, item, thread);
}

static void loops_work_when_workers_have_gone_to_sleep_and_when_the_caller_must_wait(void **state) {
    (void)state;
    kn_error err = { 0 };
    kn_pool *p = NULL;
    assert_true(kn_pool_new(3, &p, &err));
    for (int round = 0; round < 5; round++) {
        usleep(20000);
        struct loop l = { .threads = 3 };
        kn_pool_for(p, 50, nap, &l);
        for (size_t i = 0; i < 50; i++)
            assert_int_equal(l.done[i], 1);
    }
    kn_pool_free(p);
}

static void fill_item(void *ctx, size_t item, unsigned thread) {
    (void)thread;
    ((int *)ctx)[item] += (int)item;
}

/* ThreadSanitizer makes this test what it is: no atomics, and still no race. */
static void plain_writes_of_items_are_seen_by_the_caller(void **state) {
    (void)state;
    kn_error err = { 0 };
    kn_pool *p = NULL;
    assert_true(kn_pool_new(4, &p, &err));
    int values[64] = { 0 };
    for (int round = 0; round < 200; round++) {
        kn_pool_for(p, 64, fill_item, values);
        for (int i = 0; i < 64; i++)
            assert_int_equal(values[i], (round + 1) * i);
    }
    kn_pool_free(p);
}

struct spinner {
    pthread_t thread;
    atomic_bool begun, enough;
};

static void *spin(void *arg) {
    struct spinner *s = arg;
    atomic_store(&s->begun, true);
    while (!atomic_load(&s->enough))
        KN_SPIN_PAUSE();
    return NULL;
}

/* Two threads cannot have used more between two moments than twice the time between them. They would seem to have, if
 * what the other one used had not been counted before the first moment: reading its own clock makes up for that. */
static void the_time_of_the_process_has_what_running_threads_used_until_now(void **state) {
    (void)state;
    struct spinner s = { .begun = false };
    assert_int_equal(pthread_create(&s.thread, NULL, spin, &s), 0);
    clockid_t its_own;
    assert_int_equal(pthread_getcpuclockid(s.thread, &its_own), 0);
    while (!atomic_load(&s.begun))
        usleep(1000);
    for (int i = 0; i < 50; i++) {
        double begin = kn_now();
        while (kn_now() < begin + 0.0013) /* so as to come at all moments between two ticks */
            KN_SPIN_PAUSE();
        struct timespec t;
        double start = kn_now(), before = kn_now_process();
        clock_gettime(its_own, &t);
        double after = kn_now_process(), end = kn_now();
        assert_true(after >= before);
        assert_true(after - before <= 2 * (end - start) + 1e-4);
    }
    atomic_store(&s.enough, true);
    pthread_join(s.thread, NULL);
}

static void refuses_sizes_that_make_no_sense(void **state) {
    (void)state;
    kn_pool *p = NULL;
    kn_error err = { 0 };
    assert_false(kn_pool_new(0, &p, &err));
    assert_int_equal(err.code, KN_E_RANGE);
    err = (kn_error){ 0 };
    assert_false(kn_pool_new(1000000, &p, &err));
    assert_non_null(strstr(err.text, "1000000"));
    assert_null(p);
    kn_pool_free(NULL);
}

static void available_threads_are_between_one_and_the_processors(void **state) {
    (void)state;
    unsigned n = kn_threads_available();
    assert_true(n >= 1 && n <= (unsigned)sysconf(_SC_NPROCESSORS_CONF));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_runs_once_and_no_thread_number_twice_at_a_time),
        cmocka_unit_test(loops_work_when_workers_have_gone_to_sleep_and_when_the_caller_must_wait),
        cmocka_unit_test(plain_writes_of_items_are_seen_by_the_caller),
        cmocka_unit_test(the_time_of_the_process_has_what_running_threads_used_until_now),
        cmocka_unit_test(refuses_sizes_that_make_no_sense),
        cmocka_unit_test(available_threads_are_between_one_and_the_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
