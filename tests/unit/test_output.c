/* Files under construction, on file systems that have nameless files and on those that have not. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

/* The program is linked with --wrap=openat64. */
int __real_openat64(int dir, const char *path, int flags, mode_t mode);
int __wrap_openat64(int dir, const char *path, int flags, mode_t mode);

static bool nameless_files;

int __wrap_openat64(int dir, const char *path, int flags, mode_t mode) {
    if ((flags & O_TMPFILE) == O_TMPFILE && !nameless_files) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_openat64(dir, path, flags, mode);
}

typedef struct place {
    char dir[32], path[64];
} place;

static place new_place(void) {
    place p = { .dir = "/tmp/kuno-test-XXXXXX" };
    assert_non_null(mkdtemp(p.dir));
    snprintf(p.path, sizeof p.path, "%s/out.bin", p.dir);
    return p;
}

/* Fails unless the folder holds nothing but the named file. */
static void remove_place(const place *p) {
    unlink(p->path);
    assert_int_equal(rmdir(p->dir), 0);
}

static void make_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void assert_content(const char *path, const char *text) {
    KN_AUTO_BUF b;
    kn_buf_init(&b, 100);
    kn_error err = { 0 };
    assert_true(kn_file_read(path, 100, &b, &err));
    assert_string_equal(b.data, text);
}

static void both_ways(void (*promise)(void)) {
    for (int i = 0; i < 2; i++) {
        nameless_files = i;
        promise();
    }
}

static void nothing_until_committed(void) {
    place p = new_place();
    kn_output o;
    kn_error err = { 0 };
    assert_true(kn_output_open(p.path, false, &o, &err));
    assert_true(kn_output_write(&o, "half", 4, &err));
    assert_int_equal(access(p.path, F_OK), -1);
    kn_output_drop(&o);
    kn_output_drop(&o);
    remove_place(&p);
    p = new_place();
    assert_true(kn_output_open(p.path, false, &o, &err));
    assert_true(kn_output_write(&o, "whole", 5, &err));
    assert_true(kn_output_commit(&o, false, &err));
    assert_true(kn_output_commit(&o, false, &err));
    assert_content(p.path, "whole");
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(p.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
    remove_place(&p);
}

static void appears_whole_or_not_at_all(void **state) {
    (void)state;
    both_ways(nothing_until_committed);
}

static void old_until_new(void) {
    place p = new_place();
    make_file(p.path, "old");
    kn_output o;
    kn_error err = { 0 };
    assert_true(kn_output_open(p.path, true, &o, &err));
    assert_true(kn_output_write(&o, "new", 3, &err));
    assert_content(p.path, "old");
    assert_true(kn_output_commit(&o, true, &err));
    assert_content(p.path, "new");
    remove_place(&p);
}

static void replaces_a_file_in_one_moment(void **state) {
    (void)state;
    both_ways(old_until_new);
}

static void not_over_another(void) {
    place p = new_place();
    kn_output o;
    kn_error err = { 0 };
    assert_true(kn_output_open(p.path, false, &o, &err));
    assert_true(kn_output_write(&o, "mine", 4, &err));
    make_file(p.path, "somebody else's"); /* while we were at work */
    assert_false(kn_output_commit(&o, false, &err));
    assert_int_equal(err.code, KN_E_OUTPUT);
    assert_string_equal(err.text, "exists already; choose another name or allow it to be replaced");
    assert_content(p.path, "somebody else's");
    remove_place(&p);
}

static void never_replaces_unasked(void **state) {
    (void)state;
    both_ways(not_over_another);
}

static void looking_makes_nothing(void **state) {
    (void)state;
    place p = new_place();
    kn_error err = { 0 };
    char below[80];
    assert_true(kn_output_look(p.path, false, &err));
    assert_int_equal(access(p.path, F_OK), -1);
    make_file(p.path, "old");
    assert_true(kn_output_look(p.path, true, &err));
    assert_false(kn_output_look(p.path, false, &err));
    err = (kn_error){ 0 };
    assert_false(kn_output_look(p.dir, true, &err));
    assert_string_equal(err.text, "is a folder, a file name is needed");
    err = (kn_error){ 0 };
    snprintf(below, sizeof below, "%s/below", p.path);
    assert_false(kn_output_look(below, true, &err));
    assert_content(p.path, "old");
    remove_place(&p);
}

/* A child that is killed when it has written. */
static void write_and_die(const place *p) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        kn_output o;
        if (kn_output_open(p->path, true, &o, NULL) && kn_output_write(&o, "half", 4, NULL))
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void a_killed_process_leaves_nothing(void **state) {
    (void)state;
    nameless_files = true;
    place p = new_place();
    int probe = open(p.dir, O_TMPFILE | O_WRONLY, 0600);
    if (probe < 0) {
        remove_place(&p);
        print_message("the file system of /tmp has no nameless files\n");
        skip();
    }
    close(probe);
    write_and_die(&p);
    remove_place(&p);
}

static void what_it_leaves_elsewhere_is_known_by_its_name(void **state) {
    (void)state;
    nameless_files = false;
    place p = new_place();
    write_and_die(&p);
    unsigned left = 0;
    DIR *d = opendir(p.dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        if (!kn_output_is_unfinished(e->d_name))
            continue;
        left++;
        assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
    }
    closedir(d);
    assert_int_equal(left, 1);
    static const char *const others[] = { "",
                                          ".part",
                                          ".kuno-.part",
                                          "out.bin",
                                          ".kuno-0123456789abcdef.png",
                                          "xkuno-0123456789abcdef.part",
                                          ".kuno-0123456789abcdef.part2" };
    for (size_t i = 0; i < KN_COUNT(others); i++)
        assert_false(kn_output_is_unfinished(others[i]));
    remove_place(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appears_whole_or_not_at_all),
        cmocka_unit_test(replaces_a_file_in_one_moment),
        cmocka_unit_test(never_replaces_unasked),
        cmocka_unit_test(looking_makes_nothing),
        cmocka_unit_test(a_killed_process_leaves_nothing),
        cmocka_unit_test(what_it_leaves_elsewhere_is_known_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
