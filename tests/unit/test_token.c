/* The control token: where it comes from, what is refused. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/token.h"

#define TOKEN "0123456789abcdefABCDEF-_.0123456" /* 32 */

static char folder[] = "/tmp/kuno-token-XXXXXX", path[64];

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/control-token", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static int clear(void **state) {
    (void)state;
    unsetenv("KUNO_CONTROL_TOKEN");
    unsetenv("KUNO_CONTROL_TOKEN_FILE");
    unsetenv("CREDENTIALS_DIRECTORY");
    unlink(path);
    return 0;
}

static void write_file(const char *text, size_t len, mode_t mode) {
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void each_source_is_taken(void **state) {
    (void)state;
    kn_token t;
    const char *from = NULL;
    kn_error err = { 0 };
    assert_true(kn_token_take(&t, &from, &err));
    assert_null(from);
    assert_int_equal(t.len, 0);

    setenv("KUNO_CONTROL_TOKEN", TOKEN, 1);
    assert_true(kn_token_take(&t, &from, &err));
    assert_string_equal(from, "KUNO_CONTROL_TOKEN");
    assert_string_equal(t.text, TOKEN);
    assert_null(getenv("KUNO_CONTROL_TOKEN")); /* no child gets it */

    write_file(TOKEN "x\n", 34, 0600);
    setenv("KUNO_CONTROL_TOKEN_FILE", path, 1);
    assert_true(kn_token_take(&t, &from, &err));
    assert_string_equal(from, "KUNO_CONTROL_TOKEN_FILE");
    assert_string_equal(t.text, TOKEN "x");

    unsetenv("KUNO_CONTROL_TOKEN_FILE");
    setenv("CREDENTIALS_DIRECTORY", folder, 1);
    write_file(TOKEN, 32, 0440); /* as the service manager leaves it */
    assert_true(kn_token_take(&t, &from, &err));
    assert_string_equal(from, "the credential control-token");
    assert_string_equal(t.text, TOKEN);

    unlink(path);
    assert_true(kn_token_take(&t, &from, &err));
    assert_null(from);
    assert_int_equal(err.code, KN_OK);
}

static void both_variables_at_once_are_refused(void **state) {
    (void)state;
    kn_token t;
    const char *from = NULL;
    kn_error err = { 0 };
    setenv("KUNO_CONTROL_TOKEN", TOKEN, 1);
    setenv("KUNO_CONTROL_TOKEN_FILE", path, 1);
    assert_false(kn_token_take(&t, &from, &err));
    assert_string_equal(err.text, "KUNO_CONTROL_TOKEN and KUNO_CONTROL_TOKEN_FILE are both set; keep one");
}

static void bad_tokens_are_refused_without_being_shown(void **state) {
    (void)state;
    char longest[258];
    memset(longest, 'a', sizeof longest);
    longest[257] = 0;
    const char *const rows[][2] = {
        { "", "has 0 characters, 32 to 256 are needed" },
        { "0123456789abcdefABCDEF-_.012345", "has 31 characters" },
        { longest, "has 257 characters" },
        { "0123456789abcdefABCDEF-_.01234 6", "has other characters than" },
        { "0123456789abcdefABCDEF-_.0123/56", "has other characters than" },
        { "\xC3\xA9" TOKEN, "has other characters than" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_token t;
        const char *from = NULL;
        kn_error err = { 0 };
        setenv("KUNO_CONTROL_TOKEN", rows[i][0], 1);
        assert_false(kn_token_take(&t, &from, &err));
        if (!strstr(err.text, rows[i][1]) || strstr(err.text, "ABCDEF"))
            fail_msg("'%s'", err.text);
    }
    longest[256] = 0;
    setenv("KUNO_CONTROL_TOKEN", longest, 1);
    kn_token t;
    const char *from = NULL;
    kn_error err = { 0 };
    assert_true(kn_token_take(&t, &from, &err));
    assert_int_equal(t.len, 256);
}

static void files_that_others_reach_are_refused(void **state) {
    (void)state;
    static const struct {
        mode_t mode;
        const char *text;
    } rows[] = {
        { 0644, "its mode 0644 lets others in; set it to 0600" },
        { 0604, "its mode 0604 lets others in" },
        { 0620, "its mode 0620 lets others in" },
        { 0601, "its mode 0601 lets others in" },
    };
    kn_token t;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_error err = { 0 };
        write_file(TOKEN, 32, rows[i].mode);
        assert_false(kn_token_read_file(path, &t, &err));
        assert_non_null(strstr(err.text, rows[i].text));
    }
    kn_error err = { 0 };
    assert_false(kn_token_read_file(folder, &t, &err));
    assert_non_null(strstr(err.text, "is not a regular file"));
    err = (kn_error){ 0 };
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(kn_token_read_file(path, &t, &err)); /* and does not wait for somebody to write */
    assert_non_null(strstr(err.text, "is not a regular file"));
}

static void one_line_is_all_a_file_may_hold(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        bool good;
    } rows[] = {
        { TOKEN "\n", 33, true },
        { TOKEN, 32, true },
        { TOKEN "\r\n", 34, false },
        { TOKEN "\n\n", 34, false },
        { "", 0, false },
        { " " TOKEN, 33, false },
        { TOKEN "\0", 33, false },
        { TOKEN "\n" TOKEN, 65, false },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_token t;
        kn_error err = { 0 };
        write_file(rows[i].text, rows[i].len, 0600);
        assert_int_equal(kn_token_read_file(path, &t, &err), rows[i].good);
    }
    char large[1000];
    memset(large, 'a', sizeof large);
    kn_token t;
    kn_error err = { 0 };
    write_file(large, sizeof large, 0600);
    assert_false(kn_token_read_file(path, &t, &err));
}

static void a_token_is_made_once(void **state) {
    (void)state;
    kn_token a, b;
    kn_error err = { 0 };
    struct stat st;
    assert_true(kn_token_make_file(path, &a, &err));
    assert_int_equal(a.len, 64);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(kn_token_make_file(path, &b, &err));
    assert_string_equal(a.text, b.text);
    unlink(path);
    assert_true(kn_token_make_file(path, &b, &err));
    assert_string_not_equal(a.text, b.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_source_is_taken, clear),
        cmocka_unit_test_setup(both_variables_at_once_are_refused, clear),
        cmocka_unit_test_setup(bad_tokens_are_refused_without_being_shown, clear),
        cmocka_unit_test_setup(files_that_others_reach_are_refused, clear),
        cmocka_unit_test_setup(one_line_is_all_a_file_may_hold, clear),
        cmocka_unit_test_setup(a_token_is_made_once, clear),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
