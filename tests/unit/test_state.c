/* The state directory: one process at a time, and a marker that is there before work begins and stays while it may go
 * on. */
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

#include "base/buf.h"
#include "gateway/state.h"

static const kn_boot_id monday = { "11111111-2222-3333-4444-555555555555" },
                        tuesday = { "66666666-7777-8888-9999-aaaaaaaaaaaa" }, unknown = { "" };

static char folder[32];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/kuno-state-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", folder, (char *)NULL);
        _exit(1);
    }
    return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static const char *path_of(const char *name) {
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text) {
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static bool is_there(const char *name) {
    return access(path_of(name), F_OK) == 0;
}

static kn_state *open_state(kn_boot_id boot) {
    kn_state *s = NULL;
    kn_error err = { 0 };
    if (!kn_state_open(folder, boot, &s, &err))
        fail_msg("%s", err.text);
    return s;
}

/* What the system is asked for, in order: "+name" made, "-name" removed, "f" a file synced, "d" the directory. */
static char calls[256];
static int syncs_fail_after = -1;

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_openat64(int at, const char *path, int flags, ...);
int __wrap_openat64(int at, const char *path, int flags, ...);
int __real_unlinkat(int at, const char *path, int flags);
int __wrap_unlinkat(int at, const char *path, int flags);

static void note(const char *what, const char *name) {
    size_t len = strlen(calls);
    snprintf(calls + len, sizeof calls - len, "%s%s ", what, name);
}

int __wrap_fsync(int fd) {
    struct stat st;
    note(fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) ? "d" : "f", "");
    if (syncs_fail_after >= 0 && syncs_fail_after-- == 0) {
        errno = EIO;
        return -1;
    }
    return __real_fsync(fd);
}

int __wrap_openat64(int at, const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = va_arg(args, mode_t);
    va_end(args);
    if (flags & O_EXCL)
        note("+", path);
    return __real_openat64(at, path, flags, mode);
}

int __wrap_unlinkat(int at, const char *path, int flags) {
    note("-", path);
    return __real_unlinkat(at, path, flags);
}

static kn_state_sight look(kn_boot_id boot) {
    kn_state_sight sight;
    kn_error err = { 0 };
    if (!kn_state_look(folder, boot, &sight, &err))
        fail_msg("%s", err.text);
    return sight;
}

static void the_marker_is_durable_before_mark_returns(void **state) {
    (void)state;
    kn_state *s = open_state(monday);
    kn_error err = { 0 };
    calls[0] = 0;
    assert_true(kn_state_mark(s, &err));
    assert_string_equal(calls, "+upstream-in-flight f d ");
    struct stat st;
    assert_int_equal(stat(path_of("upstream-in-flight"), &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    calls[0] = 0;
    assert_true(kn_state_clear(s, &err));
    assert_string_equal(calls, "-upstream-in-flight d ");
    assert_false(is_there("upstream-in-flight"));
    kn_state_close(s);
}

static void a_marker_that_is_not_durable_is_none(void **state) {
    (void)state;
    kn_state *s = open_state(monday);
    for (int fails = 0; fails < 2; fails++) {
        kn_error err = { 0 };
        syncs_fail_after = fails;
        assert_false(kn_state_mark(s, &err));
        assert_non_null(strstr(err.text, "cannot be made durable: Input/output error"));
        assert_false(is_there("upstream-in-flight"));
    }
    syncs_fail_after = -1;
    kn_error err = { 0 };
    assert_true(kn_state_mark(s, &err));
    assert_false(kn_state_mark(s, &err)); /* one at a time */
    kn_state_close(s);
}

static void the_boot_is_known_before_a_marker_can_be(void **state) {
    (void)state;
    calls[0] = 0;
    kn_state *s = open_state(monday);
    const char *file = strchr(calls, 'f'), *dir = file ? strchr(file, 'd') : NULL;
    assert_non_null(dir);
    kn_state_close(s);
    char text[64] = { 0 };
    int fd = open(path_of("boot-id"), O_RDONLY);
    assert_int_equal(read(fd, text, sizeof text), 37);
    close(fd);
    assert_int_equal(strncmp(text, monday.text, 36), 0);
}

static void a_marker_stays_until_its_end_is_proved(void **state) {
    (void)state;
    const struct {
        const char *what, *boot_file, *marker;
        kn_boot_id now;
        bool uncertain, cleared;
    } rows[] = {
        { "the same boot", "11111111-2222-3333-4444-555555555555\n", "", monday, true, false },
        { "another boot", "11111111-2222-3333-4444-555555555555\n", "", tuesday, false, true },
        { "no marker", "11111111-2222-3333-4444-555555555555\n", NULL, tuesday, false, false },
        { "the present boot is unknown", "11111111-2222-3333-4444-555555555555\n", "", unknown, true, false },
        { "no boot was written down", NULL, "", tuesday, true, false },
        { "a boot cut short", "11111111-2222-3333-4444-55555555555\n", "", tuesday, true, false },
        { "a boot with more behind it", "11111111-2222-3333-4444-555555555555\nx", "", tuesday, true, false },
        { "a boot without its line end", "11111111-2222-3333-4444-555555555555", "", tuesday, true, false },
        { "a boot in capitals", "AAAAAAAA-2222-3333-4444-555555555555\n", "", tuesday, true, false },
        { "nothing where the boot was", "", "", tuesday, true, false },
        { "a marker with content", "11111111-2222-3333-4444-555555555555\n", "x", tuesday, true, false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        if (i)
            make_folder(NULL);
        if (rows[i].boot_file)
            write_file("boot-id", rows[i].boot_file);
        if (rows[i].marker)
            write_file("upstream-in-flight", rows[i].marker);
        assert_int_equal(look(rows[i].now).uncertain, rows[i].uncertain);
        assert_int_equal(is_there("upstream-in-flight"), rows[i].marker != NULL);
        kn_state *s = open_state(rows[i].now);
        if (kn_state_is_uncertain(s) != rows[i].uncertain || kn_state_was_cleared(s) != rows[i].cleared ||
            is_there("upstream-in-flight") != rows[i].uncertain)
            fail_msg("%s: uncertain %d, cleared %d", rows[i].what, kn_state_is_uncertain(s), kn_state_was_cleared(s));
        kn_state_close(s);
        if (i + 1 < KN_COUNT(rows))
            remove_folder(NULL);
    }
}

static void uncertainty_outlives_restarts_and_ends_with_the_boot(void **state) {
    (void)state;
    kn_error err = { 0 };
    kn_state *s = open_state(monday);
    assert_true(kn_state_mark(s, &err));
    kn_state_close(s); /* as a crash leaves it */
    for (int i = 0; i < 3; i++) {
        s = open_state(monday);
        assert_true(kn_state_is_uncertain(s));
        kn_state_close(s);
    }
    s = open_state(tuesday);
    assert_true(kn_state_was_cleared(s));
    assert_true(kn_state_mark(s, &err));
    kn_state_close(s);
    s = open_state(tuesday); /* and the new marker is of the new boot */
    assert_true(kn_state_is_uncertain(s));
    kn_state_close(s);
}

static void a_marker_that_is_no_file_is_a_persons_to_judge(void **state) {
    (void)state;
    write_file("boot-id", "11111111-2222-3333-4444-555555555555\n");
    assert_int_equal(symlink("/nowhere", path_of("upstream-in-flight")), 0);
    kn_state *s = open_state(tuesday);
    assert_true(kn_state_is_uncertain(s));
    kn_state_close(s);
    unlink(path_of("upstream-in-flight"));
    assert_int_equal(mkdir(path_of("upstream-in-flight"), 0700), 0);
    s = open_state(tuesday);
    assert_true(kn_state_is_uncertain(s));
    kn_state_close(s);
}

static void a_worker_is_reserved_until_its_end_is_proved(void **state) {
    (void)state;
    kn_error err = { 0 };
    kn_state *s = open_state(monday);
    assert_false(kn_state_was_reserved(s, "cpu-1"));
    assert_true(kn_state_release(s, "cpu-1", &err)); /* what is not reserved */
    assert_true(kn_state_reserve(s, "cpu-1", &err));
    assert_true(kn_state_reserve(s, "cpu-2", &err));
    assert_true(kn_state_release(s, "cpu-2", &err));
    assert_true(is_there("reserved-cpu-1"));
    assert_false(is_there("reserved-cpu-2"));
    kn_state_close(s);
    s = open_state(monday);
    assert_true(kn_state_is_uncertain(s));
    assert_true(kn_state_was_reserved(s, "cpu-1"));
    assert_false(kn_state_was_reserved(s, "cpu-2"));
    kn_state_close(s);
    s = open_state(tuesday); /* which none of its work survives */
    assert_false(kn_state_is_uncertain(s));
    assert_true(kn_state_was_cleared(s));
    assert_false(kn_state_was_reserved(s, "cpu-1"));
    assert_false(is_there("reserved-cpu-1"));
    kn_state_close(s);
}

static void one_process_at_a_time(void **state) {
    (void)state;
    kn_state *s = open_state(monday), *other = NULL;
    kn_error err = { 0 };
    assert_false(kn_state_open(folder, monday, &other, &err));
    assert_non_null(strstr(err.text, "is in use by another kuno; stop it, or give this one another state_dir"));
    assert_non_null(strstr(err.text, folder));
    assert_true(look(monday).in_use);
    kn_state_close(s);
    assert_false(look(monday).in_use);
    kn_state_close(open_state(monday));
}

static void looking_changes_nothing_and_finds_what_is_in_the_way(void **state) {
    (void)state;
    static const char *const names[] = { "boot-id", "instance.lock" };
    kn_state_sight sight = look(monday);
    assert_false(sight.in_use || sight.uncertain);
    assert_int_equal(rmdir(folder), 0); /* nothing was made in it */
    assert_int_equal(mkdir(folder, 0700), 0);
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        kn_error err = { 0 }, why = { 0 };
        kn_state *s = NULL;
        assert_int_equal(mkdir(path_of(names[i]), 0700), 0);
        assert_false(kn_state_look(folder, monday, &sight, &err));
        assert_non_null(strstr(err.text, names[i]));
        assert_false(kn_state_open(folder, monday, &s, &why));
        assert_non_null(strstr(why.text, err.text));
        assert_int_equal(rmdir(path_of(names[i])), 0);
        unlink(path_of("instance.lock")); /* which opening has made */
    }
    kn_error err = { 0 };
    assert_int_equal(chmod(folder, 0770), 0);
    assert_false(kn_state_look(folder, monday, &sight, &err));
    assert_non_null(strstr(err.text, "lets others write"));
}

static void its_own_files_are_known_by_name(void **state) {
    (void)state;
    static const char *const ours[] = { "boot-id",    "instance.lock", "upstream-in-flight",
                                        "usage.json", "control-token", "reserved-cpu-1" };
    static const char *const others[] = { "", "boot", "boot-idx", "reserved", "home", "studio" };
    for (size_t i = 0; i < KN_COUNT(ours); i++)
        assert_true(kn_state_has(ours[i], strlen(ours[i])));
    for (size_t i = 0; i < KN_COUNT(others); i++)
        assert_false(kn_state_has(others[i], strlen(others[i])));
}

static void folders_are_made_and_must_be_ones_own(void **state) {
    (void)state;
    char path[100];
    kn_state *s = NULL;
    kn_error err = { 0 };
    snprintf(path, sizeof path, "%s/a/b//c/", folder);
    assert_true(kn_state_open(path, monday, &s, &err));
    kn_state_close(s);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);

    assert_int_equal(chmod(path, 0770), 0);
    assert_false(kn_state_open(path, monday, &s, &err));
    assert_non_null(strstr(err.text, "its mode 0770 lets others write"));

    err = (kn_error){ 0 };
    write_file("file", "");
    snprintf(path, sizeof path, "%s/file", folder);
    assert_false(kn_state_open(path, monday, &s, &err));
    err = (kn_error){ 0 };
    assert_false(kn_state_open("/proc/none", monday, &s, &err));
    assert_non_null(strstr(err.text, "cannot be made"));
}

static void the_kernel_tells_the_boot(void **state) {
    (void)state;
    assert_int_equal(strlen(kn_boot_id_read(KN_BOOT_ID_PATH).text), 36);
    assert_int_equal(strlen(kn_boot_id_read("/nowhere").text), 0);
}

static char told[1000];

static void note_line(void *ctx, const char *line) {
    (void)ctx;
    size_t len = strlen(told);
    snprintf(told + len, sizeof told - len, "%s\n", line);
}

static void trouble_is_told_when_it_begins_and_when_it_ends(void **state) {
    (void)state;
    kn_state *s = open_state(monday);
    told[0] = 0;
    kn_state_tell_trouble(s, note_line, NULL);
    for (int i = 0; i < 3; i++) {
        syncs_fail_after = 0;
        assert_false(kn_state_mark(s, NULL));
        syncs_fail_after = 0;
        assert_false(kn_state_reserve(s, "cpu-1", NULL));
    }
    syncs_fail_after = -1;
    assert_string_equal(told,
                        "disk: the marker in the state directory cannot be written: 'upstream-in-flight' cannot be "
                        "made durable: Input/output error\n");
    told[0] = 0;
    assert_true(kn_state_mark(s, NULL) && kn_state_clear(s, NULL));
    assert_string_equal(told, "disk: the marker in the state directory can be written again\n");
    kn_state_close(s);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(the_marker_is_durable_before_mark_returns),
        TEST(a_marker_that_is_not_durable_is_none),
        TEST(the_boot_is_known_before_a_marker_can_be),
        TEST(a_marker_stays_until_its_end_is_proved),
        TEST(uncertainty_outlives_restarts_and_ends_with_the_boot),
        TEST(a_marker_that_is_no_file_is_a_persons_to_judge),
        TEST(a_worker_is_reserved_until_its_end_is_proved),
        TEST(one_process_at_a_time),
        TEST(looking_changes_nothing_and_finds_what_is_in_the_way),
        TEST(folders_are_made_and_must_be_ones_own),
        TEST(trouble_is_told_when_it_begins_and_when_it_ends),
        cmocka_unit_test(the_kernel_tells_the_boot),
        cmocka_unit_test(its_own_files_are_known_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
