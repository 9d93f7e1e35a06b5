/* What the command line shows and leaves behind: progress, signals, results, exit statuses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/save.h"
#include "cli/signals.h"

/* ---- progress ---- */

static double clock_now;

static double read_clock(void) {
    return clock_now;
}

struct shown {
    char *text;
    size_t len;
    kn_progress p;
};

static void start(struct shown *s, bool terminal) {
    clock_now = 100;
    kn_progress_init(&s->p, false);
    s->p.out = open_memstream(&s->text, &s->len);
    s->p.terminal = terminal;
    s->p.now = read_clock;
    assert_non_null(s->p.out);
}

static const char *text_so_far(struct shown *s) {
    fflush(s->p.out);
    return s->text;
}

static void stop(struct shown *s) {
    fclose(s->p.out);
    free(s->text);
}

static void a_pipe_gets_plain_lines(void **state) {
    (void)state;
    struct shown s;
    start(&s, false);
    kn_progress_begin(&s.p, "load", 0);
    clock_now += 0.25;
    kn_progress_begin(&s.p, "step", 4);
    for (unsigned i = 1; i <= 4; i++) {
        clock_now += 20;
        kn_progress_step(&s.p, i);
    }
    kn_progress_begin(&s.p, "decode", 0);
    clock_now += 3725;
    kn_progress_end(&s.p);
    assert_string_equal(text_so_far(&s), "kuno: load: 0.2 s\n"
                                         "kuno: step: 1/4, 20.0 s, about 1 min 00 s left\n"
                                         "kuno: step: 2/4, 40.0 s, about 40.0 s left\n"
                                         "kuno: step: 3/4, 1 min 00 s, about 20.0 s left\n"
                                         "kuno: step: 4 steps, 1 min 20 s\n"
                                         "kuno: decode: 1 h 02 min\n");
    stop(&s);
}

static void many_quick_steps_give_few_lines(void **state) {
    (void)state;
    struct shown s;
    start(&s, false);
    kn_progress_begin(&s.p, "step", 1000);
    for (unsigned i = 1; i <= 1000; i++) {
        clock_now += 0.5;
        kn_progress_step(&s.p, i);
    }
    kn_progress_end(&s.p);
    size_t lines = 0;
    for (const char *at = text_so_far(&s); *at; at++)
        lines += *at == '\n';
    assert_in_range(lines, 10, 20); /* one per 30 seconds of 500, and the end */
    stop(&s);
}

static void a_terminal_gets_one_line_that_becomes_a_summary(void **state) {
    (void)state;
    struct shown s;
    start(&s, true);
    kn_progress_begin(&s.p, "step", 2);
    for (int i = 0; i < 2; i++) { /* two pictures */
        for (unsigned k = 1; k <= 2; k++) {
            clock_now += 1;
            kn_progress_step(&s.p, k);
        }
        kn_progress_begin(&s.p, "decode", 0);
        clock_now += 0.5;
        if (i == 0)
            kn_progress_begin(&s.p, "step", 2);
    }
    assert_null(strchr(text_so_far(&s), '\n'));
    assert_non_null(strstr(s.text, "\r\x1b[Kstep"));
    assert_non_null(strstr(s.text, " 1/2, 1.0 s, about 1.0 s left"));
    kn_progress_end(&s.p);
    text_so_far(&s);
    const char *last = strrchr(s.text, '\r');
    assert_string_equal(last, "\r\x1b[Kstep 4.0 s, decode 1.0 s\n");
    stop(&s);
}

static void nothing_moves_without_work(void **state) {
    (void)state;
    for (int terminal = 0; terminal < 2; terminal++) {
        struct shown s;
        start(&s, terminal);
        kn_progress_begin(&s.p, "step", 5);
        kn_progress_step(&s.p, 1);
        text_so_far(&s);
        size_t before = s.len;
        clock_now += 1000;
        kn_progress_step(&s.p, 1);
        kn_progress_step(&s.p, 0);
        text_so_far(&s);
        assert_int_equal(s.len, before);
        assert_null(strstr(s.text, "left")); /* nothing is known yet of how long a step takes */
        stop(&s);
    }
}

static void quiet_says_nothing(void **state) {
    (void)state;
    kn_progress p;
    kn_progress_init(&p, true);
    assert_null(p.out);
    kn_progress_begin(&p, "step", 5);
    kn_progress_step(&p, 5);
    kn_progress_clear(&p);
    kn_progress_end(&p);
}

/* ---- signals ---- */

static int stops;

static void count_stop(void *context) {
    ++*(int *)context;
}

/* Runs what a child does and returns how it ended. */
static int status_of(void (*child)(void)) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        child();
        _exit(99);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void interrupted_once(void) {
    kn_signals_install(count_stop, &stops);
    bool before = kn_signals_stop();
    raise(SIGINT);
    _exit(!before && kn_signals_stop() && stops == 1 ? 7 : 1);
}

static void interrupted_twice(void) {
    kn_signals_install(NULL, NULL);
    raise(SIGTERM);
    raise(SIGINT);
}

static void interrupted_while_held(void) {
    kn_signals_install(NULL, NULL);
    kn_signals_hold();
    kn_signals_hold(); /* another thread, say */
    raise(SIGINT);
    raise(SIGTERM);
    kn_signals_release();
    if (!kn_signals_stop())
        _exit(1);
    kn_signals_release(); /* what was put off comes now */
}

static void broken_pipe(void) {
    kn_signals_install(NULL, NULL);
    int ends[2];
    if (pipe(ends) || close(ends[0]))
        _exit(1);
    _exit(write(ends[1], "x", 1) < 0 && errno == EPIPE ? 7 : 1);
}

static void the_first_signal_asks_and_the_second_ends(void **state) {
    (void)state;
    assert_int_equal(status_of(interrupted_once), 7);
    assert_int_equal(status_of(interrupted_twice), 130);
    assert_int_equal(status_of(interrupted_while_held), 130);
    assert_int_equal(status_of(broken_pipe), 7);
}

/* ---- results ---- */

static void results_are_saved_under_their_name(void **state) {
    (void)state;
    char dir[] = "/tmp/kuno-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/boat.png", dir);
    kn_error err = { 0 };
    assert_true(kn_save_check(path, false, &err));
    assert_int_equal(access(path, F_OK), -1); /* asking leaves nothing behind */
    assert_true(kn_save(path, false, "one", 3, &err));
    assert_false(kn_save_check(path, false, &err));
    assert_non_null(strstr(err.text, "exists already"));
    err = (kn_error){ 0 };
    assert_false(kn_save(path, false, "two", 3, &err));
    err = (kn_error){ 0 };
    assert_true(kn_save(path, true, "three", 5, &err));
    KN_AUTO_BUF b;
    kn_buf_init(&b, 100);
    assert_true(kn_file_read(path, 100, &b, &err));
    assert_string_equal(b.data, "three");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_false(kn_save_check(path, true, &err));
    assert_int_equal(err.code, KN_E_OUTPUT);
    assert_non_null(strstr(err.text, "boat.png': its folder does not exist"));
}

static void several_results_are_numbered_before_the_ending(void **state) {
    (void)state;
    static const struct {
        const char *path, *first, *tenth;
    } rows[] = {
        { "boat.png", "boat-1.png", "boat-10.png" },
        { "a.b/boat", "a.b/boat-1", "a.b/boat-10" },
        { "/x/.hidden", "/x/.hidden-1", "/x/.hidden-10" },
        { "two.dots.png", "two.dots-1.png", "two.dots-10.png" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        KN_AUTO_BUF b;
        kn_buf_init(&b, 100);
        kn_error err = { 0 };
        assert_true(kn_save_name(rows[i].path, 1, 1, &b, &err));
        assert_string_equal(b.data, rows[i].path);
        kn_buf_clear(&b);
        assert_true(kn_save_name(rows[i].path, 1, 10, &b, &err));
        assert_string_equal(b.data, rows[i].first);
        kn_buf_clear(&b);
        assert_true(kn_save_name(rows[i].path, 10, 10, &b, &err));
        assert_string_equal(b.data, rows[i].tenth);
    }
}

static void exit_statuses_tell_bad_input_from_failure(void **state) {
    (void)state;
    assert_int_equal(kn_exit_code(KN_OK), 0);
    assert_int_equal(kn_exit_code(KN_E_NOMEM), 1);
    assert_int_equal(kn_exit_code(KN_E_OUTPUT), 2);
    assert_int_equal(kn_exit_code(KN_E_NUMERIC), 1);
    assert_int_equal(kn_exit_code(KN_E_USAGE), 2);
    assert_int_equal(kn_exit_code(KN_E_NOT_FOUND), 2);
    assert_int_equal(kn_exit_code(KN_E_FORMAT), 2);
    assert_int_equal(kn_exit_code(KN_E_CANCELLED), 130);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_gets_plain_lines),
        cmocka_unit_test(many_quick_steps_give_few_lines),
        cmocka_unit_test(a_terminal_gets_one_line_that_becomes_a_summary),
        cmocka_unit_test(nothing_moves_without_work),
        cmocka_unit_test(quiet_says_nothing),
        cmocka_unit_test(the_first_signal_asks_and_the_second_ends),
        cmocka_unit_test(results_are_saved_under_their_name),
        cmocka_unit_test(several_results_are_numbered_before_the_ending),
        cmocka_unit_test(exit_statuses_tell_bad_input_from_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
