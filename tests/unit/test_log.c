/* The log of a service: whoever writes a line goes on at once, whatever becomes of the line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"

enum { PIPE_BYTES = 4096, TEXT_MAX = 1 << 20, MANY = 3000 };

/* A pipe of the smallest size that there is. */
static void make_pipe(int ends[2]) {
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES);
}

static kn_log *begin(int fd) {
    kn_log *l = NULL;
    assert_true(kn_log_new(fd, "kuno: ", &l, NULL));
    return l;
}

static bool read_more(int fd, kn_buf *into) {
    char piece[1024];
    ssize_t n = read(fd, piece, sizeof piece);
    return n > 0 && kn_buf_add(into, piece, (size_t)n);
}

/* Everything until nobody has the other end any more, or until `last` is in it. */
static void read_until(int fd, const char *last, kn_buf *into) {
    while (!(last && strstr(into->data, last)) && read_more(fd, into))
        ;
}

static void every_line_arrives_in_order(void **state) {
    (void)state;
    KN_AUTO_BUF seen;
    KN_AUTO_BUF expected;
    int ends[2];
    kn_buf_init(&seen, TEXT_MAX);
    kn_buf_init(&expected, TEXT_MAX);
    make_pipe(ends);
    kn_log *l = begin(ends[1]);
    for (int i = 0; i < 50; i++) {
        kn_log_say(l, "line %d of %s", i, "many");
        assert_true(kn_buf_printf(&expected, "kuno: line %d of many\n", i));
    }
    kn_log_free(l);
    close(ends[1]);
    read_until(ends[0], NULL, &seen);
    close(ends[0]);
    assert_string_equal(seen.data, expected.data);
}

/* Lines are numbered. How many there have been, those that were dropped in their place included. */
static int count_lines(const char *text, int *ret_dropped) {
    int next = 0, n = 0;
    for (*ret_dropped = 0; *text; text = strchr(text, '\n') + 1) {
        if (sscanf(text, "kuno: line %d", &n) == 1) {
            assert_int_equal(n, next);
            next++;
        } else {
            assert_int_equal(sscanf(text, "kuno: %d line", &n), 1);
            *ret_dropped += n;
            next += n;
        }
    }
    return next;
}

static void a_reader_that_sleeps_holds_nobody_up_and_is_told_what_it_has_missed(void **state) {
    (void)state;
    KN_AUTO_BUF seen;
    int ends[2], dropped = 0;
    kn_buf_init(&seen, TEXT_MAX);
    make_pipe(ends);
    kn_log *l = begin(ends[1]);
    for (int i = 0; i < MANY; i++) /* would never return, were it to wait */
        kn_log_say(l, "line %d", i);
    read_until(ends[0], "dropped here", &seen);
    kn_log_say(l, "line %d", MANY);
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    kn_log_free(l);
    close(ends[1]);
    read_until(ends[0], NULL, &seen);
    close(ends[0]);
    assert_int_equal(count_lines(seen.data, &dropped), MANY + 1);
    assert_true(dropped > MANY / 4);
}

static void the_end_does_not_wait_for_a_reader(void **state) {
    (void)state;
    KN_AUTO_BUF seen;
    int ends[2], dropped = 0;
    kn_buf_init(&seen, TEXT_MAX);
    make_pipe(ends);
    kn_log *l = begin(ends[1]);
    for (int i = 0; i < MANY; i++)
        kn_log_say(l, "line %d", i);
    double from = kn_now();
    kn_log_free(l);
    assert_true(kn_now() - from < 10 * KN_LOG_END_MS / 1000.0);
    /* What is left is written, to the last line or to the one that tells how many are missing. */
    do
        assert_true(read_more(ends[0], &seen));
    while (seen.data[seen.len - 1] != '\n' || count_lines(seen.data, &dropped) < MANY);
    close(ends[0]);
    close(ends[1]);
}

/* Whenever the thread comes to it: each of the four is there or counted. */
static void lines_that_cannot_be_written_are_counted(void **state) {
    (void)state;
    KN_AUTO_BUF seen;
    int ends[2], found = 0, counted = 0;
    kn_buf_init(&seen, TEXT_MAX);
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    kn_log *l = begin(fd);
    for (int i = 0; i < 3; i++)
        kn_log_say(l, "a line");
    make_pipe(ends);
    assert_true(dup2(ends[1], fd) == fd); /* there is room again */
    close(ends[1]);
    kn_log_say(l, "a line");
    kn_log_free(l);
    close(fd);
    read_until(ends[0], NULL, &seen);
    close(ends[0]);
    for (const char *at = seen.data; *at; at = strchr(at, '\n') + 1) {
        int n = 0;
        if (sscanf(at, "kuno: %d line", &n) == 1)
            counted += n;
        else
            found++;
    }
    assert_int_equal(found + counted, 4);
}

static void a_long_line_is_cut_and_stays_one(void **state) {
    (void)state;
    KN_AUTO_BUF seen;
    int ends[2];
    kn_buf_init(&seen, TEXT_MAX);
    make_pipe(ends);
    char text[2 * KN_LOG_LINE_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    kn_log *l = begin(ends[1]);
    kn_log_say(l, "%s", text);
    kn_log_say(l, "short");
    kn_log_free(l);
    close(ends[1]);
    read_until(ends[0], NULL, &seen);
    close(ends[0]);
    assert_int_equal(seen.len, strlen("kuno: ") + KN_LOG_LINE_BYTES - 1 + 1 + strlen("kuno: short\n"));
    assert_string_equal(strchr(seen.data, '\n') + 1, "kuno: short\n");
}

static void *say_many(void *arg) {
    for (int i = 0; i < 100; i++)
        kn_log_say(arg, "x");
    return NULL;
}

static void lines_of_several_threads_do_not_mix(void **state) {
    (void)state;
    KN_AUTO_BUF seen;
    int ends[2];
    kn_buf_init(&seen, TEXT_MAX);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    kn_log *l = begin(ends[1]);
    pthread_t threads[4];
    for (size_t i = 0; i < KN_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, say_many, l), 0);
    for (size_t i = 0; i < KN_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    kn_log_free(l);
    close(ends[1]);
    read_until(ends[0], NULL, &seen);
    close(ends[0]);
    assert_int_equal(seen.len, 400 * strlen("kuno: x\n"));
    for (size_t i = 0; i < 400; i++)
        assert_memory_equal(seen.data + i * strlen("kuno: x\n"), "kuno: x\n", strlen("kuno: x\n"));
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_arrives_in_order),
        cmocka_unit_test(a_reader_that_sleeps_holds_nobody_up_and_is_told_what_it_has_missed),
        cmocka_unit_test(the_end_does_not_wait_for_a_reader),
        cmocka_unit_test(lines_that_cannot_be_written_are_counted),
        cmocka_unit_test(a_long_line_is_cut_and_stays_one),
        cmocka_unit_test(lines_of_several_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
