/* Programs of ours: begun with nothing of our own, ended with everything that they have started. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "workers/marked.h"
#include "workers/process.h"

static char mark[64];
static kn_loop *loop;
static kn_process process;
static char output[4096];
static size_t output_len;
static int ends;
static bool end_was_clean;

static void said(kn_process *p, kn_span text) {
    assert_ptr_equal(p, &process);
    size_t n = KN_MIN(text.len, sizeof output - 1 - output_len);
    memcpy(output + output_len, text.data, n);
    output_len += n;
    output[output_len] = 0;
}

static void ended(kn_process *p, bool gone) {
    assert_ptr_equal(p, &process);
    ends++;
    end_was_clean = gone;
}

static int begin(void **state) {
    (void)state;
    snprintf(mark, sizeof mark, "KUNO_TEST=%d#", (int)getpid());
    output[0] = 0;
    output_len = 0;
    ends = 0;
    process = (kn_process){ .said = said, .ended = ended };
    kn_process_adopt_orphans();
    if (!kn_loop_new(NULL, NULL, &loop, NULL))
        return -1;
    process.loop = loop;
    return 0;
}

static int end(void **state) {
    (void)state;
    bool gone = kn_process_end_now(&process, 5000);
    kn_loop_free(loop);
    return gone && kn_marked_signal(mark, 0) == 0 ? 0 : -1;
}

/* Valgrind does not know the call by which a process is watched. */
static bool can_watch(void) {
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd >= 0)
        close(fd);
    else
        printf("the kernel, or who stands in for it, has no pidfd_open\n");
    return fd >= 0;
}

static void start_program(const char *path, const char *first, const char *second) {
    char *argv[] = { strdup(path), strdup(first), second ? strdup(second) : NULL, NULL };
    char *env[] = { mark, (char[]){ "PATH=/usr/bin:/bin" }, NULL };
    kn_error err = { 0 };
    const kn_program program = { .path = path, .argv = argv, .env = env, .folder = "/", .mark = mark };
    if (!kn_process_start(&process, &program, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; argv[i]; i++)
        free(argv[i]);
}

static void start(const char *script) {
    start_program("/bin/sh", "-c", script);
}

/* Turns the loop until the process is over, or has written so much. */
static void turn_until(size_t written) {
    for (int i = 0; i < 1000 && !ends && output_len < written; i++)
        assert_true(kn_loop_turn(loop, 20, NULL));
}

static void begins_with_nothing_of_ours(void **state) {
    (void)state;
    if (!can_watch())
        skip();
    setenv("KUNO_CONTROL_TOKEN", "secret", 1);
    int fd = open("/dev/null", O_RDONLY); /* not to be closed by itself */
    start_program("/usr/bin/env", "pwd", NULL);
    turn_until(SIZE_MAX);
    assert_int_equal(ends, 1);
    assert_true(end_was_clean);
    assert_string_equal(output, "/\n");
    ends = 0;
    start_program("/usr/bin/env", "env", NULL);
    turn_until(SIZE_MAX);
    char expected[200];
    snprintf(expected, sizeof expected, "/\n%s\nPATH=/usr/bin:/bin\n", mark);
    assert_string_equal(output, expected);
    ends = 0;
    start_program("/bin/sh", "-c", "ls /proc/self/fd | wc -l");
    turn_until(SIZE_MAX);
    close(fd);
    assert_string_equal(output + strlen(expected), "5\n"); /* the reader's end of its output, and the folder, too */
}

static void tells_why_it_cannot_begin(void **state) {
    (void)state;
    char *none[] = { mark, NULL };
    kn_error err = { 0 };
    kn_program program = { .path = "/no/such/program", .argv = none, .env = none, .folder = "/", .mark = mark };
    assert_false(kn_process_start(&process, &program, &err));
    assert_string_equal(err.text, "cannot be started: No such file or directory");
    program.path = "/bin/true";
    program.folder = "/no/such/folder";
    assert_false(kn_process_start(&process, &program, NULL));
    assert_false(kn_process_is_running(&process));
    assert_int_equal(ends, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* and leaves no child behind */
}

static void is_asked_to_end_and_may_do_so_in_its_own_way(void **state) {
    (void)state;
    if (!can_watch())
        skip();
    start("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done");
    turn_until(3);
    kn_process_stop(&process);
    assert_int_equal(ends, 0);
    turn_until(SIZE_MAX);
    assert_int_equal(ends, 1);
    assert_non_null(strstr(output, "bye\n"));
}

static void takes_with_it_whom_it_leaves_behind(void **state) {
    (void)state;
    if (!can_watch())
        skip();
    start("(trap '' TERM; while :; do sleep 1; done) & echo up; exit 3");
    turn_until(SIZE_MAX);
    assert_int_equal(ends, 1);
    assert_true(end_was_clean);
    assert_int_equal(kn_marked_signal(mark, 0), 0);
}

static void finds_those_who_have_left_its_group(void **state) {
    (void)state;
    if (!can_watch())
        skip();
    /* While a program begins its environment cannot be read, so it tells itself when it runs. */
    start("setsid sh -c 'echo up; kill -STOP $$' & wait");
    turn_until(3);
    assert_true(kn_marked_signal(mark, 0) >= 2);
    kn_process_kill(&process);
    turn_until(SIZE_MAX);
    assert_true(end_was_clean);
    assert_int_equal(kn_marked_signal(mark, 0), 0);
}

static void ends_at_once_if_it_must(void **state) {
    (void)state;
    if (!can_watch())
        skip();
    start("trap '' TERM; echo up; while :; do sleep 1; done");
    turn_until(3);
    assert_true(kn_process_end_now(&process, 5000));
    assert_false(kn_process_is_running(&process));
    assert_int_equal(ends, 0);
    kn_process_stop(&process); /* of what is over: nothing */
    kn_process_kill(&process);
}

/* The owner of a program is killed when it has written three bytes. */
static void start_and_be_killed(const char *script) {
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t owner = fork();
    if (owner == 0) {
        start(script);
        turn_until(3);
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(0);
    }
    char byte;
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    kill(owner, SIGKILL);
    assert_int_equal(waitpid(owner, NULL, 0), owner);
}

/* The kernel asks what it leaves to end, and the mark finds what does not. */
static void what_a_killed_owner_leaves_is_found_by_its_mark(void **state) {
    (void)state;
    if (!can_watch())
        skip();
    start_and_be_killed("trap '' TERM; echo up; while :; do sleep 1; done");
    assert_true(kn_marked_signal("KUNO_TEST=", 0) >= 1);
    assert_true(kn_marked_end(mark, 5000));
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

/* As Ollama does it: it says that it ends, and then ends its runners. We take in the orphan, so that all can be waited
 * for. */
static void whose_owner_is_killed_can_speak_while_it_ends_what_it_has_started(void **state) {
    (void)state;
    if (!can_watch())
        skip();
    start_and_be_killed("sleep 1000 & trap '/bin/echo bye || exit 1; kill $!; wait; exit 0' TERM; echo up; wait");
    int status = 0;
    waitpid(-1, &status, 0);
    size_t left = kn_marked_signal(mark, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) {
    }
    assert_int_equal(status, 0);
    assert_int_equal(left, 0);
}

/* Whoever begins one program after the other has, at one look of twenty, none of their environments. */
static KN_NORETURN void begin_forever(const char *round) {
    char *argv[] = { strdup("begin-forever"), strdup(round), NULL }, *env[] = { strdup(round), NULL };
    execve("/proc/self/exe", argv, env);
    _exit(1);
}

static void finds_who_is_just_beginning(void **state) {
    (void)state;
    enum { LOOKS = 300 };
    if (!can_watch())
        skip();
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* which outlives exec */
        begin_forever(mark);
    }
    while (!kn_marked_signal(mark, 0) && waitpid(child, NULL, WNOHANG) == 0) /* until it has its own environment */
        sched_yield();
    int found = 0;
    for (int i = 0; i < LOOKS; i++)
        found += kn_marked_signal(mark, 0) == 1;
    bool gone = kn_marked_end(mark, 5000);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(found, LOOKS);
    assert_true(gone);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(begins_with_nothing_of_ours, begin, end),
        cmocka_unit_test_setup_teardown(tells_why_it_cannot_begin, begin, end),
        cmocka_unit_test_setup_teardown(is_asked_to_end_and_may_do_so_in_its_own_way, begin, end),
        cmocka_unit_test_setup_teardown(takes_with_it_whom_it_leaves_behind, begin, end),
        cmocka_unit_test_setup_teardown(finds_those_who_have_left_its_group, begin, end),
        cmocka_unit_test_setup_teardown(ends_at_once_if_it_must, begin, end),
        cmocka_unit_test_setup_teardown(what_a_killed_owner_leaves_is_found_by_its_mark, begin, end),
        cmocka_unit_test_setup_teardown(whose_owner_is_killed_can_speak_while_it_ends_what_it_has_started, begin, end),
        cmocka_unit_test_setup_teardown(finds_who_is_just_beginning, begin, end),
    };
    if (argc == 2 && strcmp(argv[0], "begin-forever") == 0)
        begin_forever(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
