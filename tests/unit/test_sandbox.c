/* The parts of the cage one by one, each in a child of its own: what either of them alone keeps out. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "workers/sandbox.h"

enum { REFUSED = 255 };

/* A folder with a file and a folder in it, and names of what is not there. */
static char folder[] = "/tmp/kuno-test-sandbox-XXXXXX", file[64], sub[64], new[64];

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    snprintf(file, sizeof file, "%s/file", folder);
    snprintf(sub, sizeof sub, "%s/sub", folder);
    snprintf(new, sizeof new, "%s/new", folder);
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 || close(fd) || mkdir(sub, 0700);
}

static int remove_folder(void **state) {
    (void)state;
    return unlink(file) || rmdir(sub) || rmdir(folder);
}

/* What an attempt in a child ends with: its errno, 0 if it worked, minus the signal that ended it. */
static int attempt(bool (*enter)(kn_error *err), bool (*try)(void)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!enter(NULL))
            _exit(REFUSED);
        _exit(try() ? 0 : errno);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static bool nothing(void) {
    return true;
}

static void need(bool (*enter)(kn_error *err), const char *what) {
    if (attempt(enter, nothing) != REFUSED)
        return;
    print_message("skipped: there is no %s here\n", what);
    skip();
}

static bool opens(const char *path, int flags) {
    return open(path, flags | O_CLOEXEC, 0600) >= 0;
}

static bool write_file(void) {
    return opens(file, O_WRONLY);
}

static bool cut_file(void) {
    return opens(file, O_RDONLY | O_TRUNC);
}

static bool truncate_file(void) {
    return truncate(file, 0) == 0;
}

static bool create_file(void) {
    return opens(new, O_WRONLY | O_CREAT);
}

static bool create_nameless(void) {
    return opens(folder, O_WRONLY | O_TMPFILE);
}

static bool make_sub(void) {
    return mkdir(new, 0700) == 0;
}

static bool remove_sub(void) {
    return rmdir(sub) == 0;
}

static bool make_fifo(void) {
    return mkfifo(new, 0600) == 0;
}

static bool make_symlink(void) {
    return symlink("x", new) == 0;
}

static bool link_file(void) {
    return link(file, new) == 0;
}

static bool rename_file(void) {
    return rename(file, new) == 0;
}

static bool unlink_file(void) {
    return unlink(file) == 0;
}

static bool run_program(void) {
    return execl("/bin/true", "true", (char *)NULL) == 0;
}

static bool read_of_parent(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)getppid());
    return opens(path, O_RDONLY);
}

static bool read_file(void) {
    return opens(file, O_RDONLY);
}

static void *write_in_thread(void *ctx) {
    (void)ctx;
    return (void *)(intptr_t)(write_file() ? 0 : errno);
}

static bool write_by_thread(void) {
    pthread_t thread;
    void *result = NULL;
    errno = pthread_create(&thread, NULL, write_in_thread, NULL);
    if (!errno && !pthread_join(thread, &result))
        errno = (int)(intptr_t)result;
    return errno == 0;
}

static bool bind_socket(void) {
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(a.sun_path, sizeof a.sun_path, "%s", new);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof a) == 0;
}

static bool reach_network(void) {
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0;
}

static bool change_mode(void) {
    return chmod(file, 0600) == 0;
}

static bool trace_parent(void) {
    return ptrace(PTRACE_ATTACH, getppid(), NULL, NULL) == 0;
}

static bool signal_parent(void) {
    return kill(getppid(), 0) == 0;
}

static void landlock_alone_keeps_files_as_they_are(void **state) {
    (void)state;
    need(kn_sandbox_files, "Landlock");
    bool (*const denied[])(void) = {
        write_file,  cut_file,       truncate_file, create_file,     create_nameless, make_sub,
        remove_sub,  make_fifo,      link_file,     make_symlink,    rename_file,     unlink_file,
        run_program, read_of_parent, bind_socket,   write_by_thread,
    };
    for (size_t i = 0; i < KN_COUNT(denied); i++)
        assert_int_equal(attempt(kn_sandbox_files, denied[i]), EACCES);
    assert_int_equal(attempt(kn_sandbox_files, read_file), 0);
}

static void the_filter_alone_keeps_from_programs_networks_and_attributes(void **state) {
    (void)state;
    need(kn_sandbox_calls, "filter of system calls");
    assert_int_equal(attempt(kn_sandbox_calls, reach_network), EAFNOSUPPORT);
    assert_int_equal(attempt(kn_sandbox_calls, bind_socket), EPERM);
    assert_int_equal(attempt(kn_sandbox_calls, run_program), EPERM);
    assert_int_equal(attempt(kn_sandbox_calls, change_mode), EPERM);
    assert_int_equal(attempt(kn_sandbox_calls, signal_parent), EPERM);
    assert_int_equal(attempt(kn_sandbox_calls, trace_parent), -SIGSYS);
    assert_int_equal(attempt(kn_sandbox_calls, read_file), 0);
}

static bool enter_all(kn_error *err) {
    unsigned missing = 0;
    return kn_sandbox_enter(KN_ISOLATION_BEST_EFFORT, &missing, err);
}

static bool keeps_its_streams_alone(void) {
    return fcntl(STDERR_FILENO, F_GETFD) >= 0 && fcntl(STDERR_FILENO + 1, F_GETFD) < 0;
}

static void the_whole_leaves_only_the_standard_streams_open(void **state) {
    (void)state;
    need(enter_all, "way to limit what a process opens");
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(attempt(enter_all, keeps_its_streams_alone), 0);
    close(fd);
}

static void what_is_missing_can_be_tried_without_being_locked_in(void **state) {
    (void)state;
    kn_error err = { 0 };
    unsigned missing = ~0U;
    need(enter_all, "way to limit what a process opens");
    if (!kn_sandbox_try(&missing, &err))
        fail_msg("%s", err.text);
    assert_int_equal(missing >> KN_CAGE_PARTS, 0);
    if (missing >> KN_CAGE_FILES & 1)
        assert_false(attempt(kn_sandbox_files, read_file) == 0);
    else
        assert_int_equal(attempt(kn_sandbox_files, write_file), EACCES);
    assert_true(write_file());
}

static void what_is_missing_is_told_to_people_with_what_to_do(void **state) {
    (void)state;
    const unsigned all = (1U << KN_CAGE_PARTS) - 1, last = 1U << KN_CAGE_SWAP;
    assert_string_equal(kn_cage_list_of(all).text, "files, system-calls, swap");
    assert_string_equal(kn_cage_list_of(last).text, "swap");
    assert_string_equal(kn_cage_list_of(0).text, "");
    assert_ptr_equal(kn_cage_remedy(all), kn_cage_remedies[KN_CAGE_FILES]);
    assert_ptr_equal(kn_cage_remedy(last), kn_cage_remedies[KN_CAGE_SWAP]);
    assert_null(kn_cage_remedy(0));
}

static void what_a_worker_does_without_is_read_in_known_words_only(void **state) {
    (void)state;
    kn_cage_gaps gaps = { 0 };
    assert_true(kn_cage_gaps_read("", 0, &gaps) && gaps.known && gaps.parts == 0);
    assert_true(kn_cage_gaps_read("files swap", 10, &gaps));
    assert_int_equal(gaps.parts, 1U << KN_CAGE_FILES | 1U << KN_CAGE_SWAP);
    assert_true(kn_cage_gaps_read("system-callsX", 12, &gaps));
    assert_int_equal(gaps.parts, 1U << KN_CAGE_CALLS);
    static const char *const others[] = { " ", "file", "filesystem", "files  swap", " swap", "files\nswap", "Swap" };
    for (size_t i = 0; i < KN_COUNT(others); i++)
        assert_false(kn_cage_gaps_read(others[i], strlen(others[i]), &gaps));
    assert_int_equal(gaps.parts, 1U << KN_CAGE_CALLS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(landlock_alone_keeps_files_as_they_are),
        cmocka_unit_test(the_filter_alone_keeps_from_programs_networks_and_attributes),
        cmocka_unit_test(the_whole_leaves_only_the_standard_streams_open),
        cmocka_unit_test(what_is_missing_can_be_tried_without_being_locked_in),
        cmocka_unit_test(what_is_missing_is_told_to_people_with_what_to_do),
        cmocka_unit_test(what_a_worker_does_without_is_read_in_known_words_only),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
