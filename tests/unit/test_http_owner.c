/* Who listens on an address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cgroup.h"
#include "http/owner.h"

/* Listens on a port that the system chooses; -1: this machine has no such address. */
static int listen_on(const char *text, kn_address *ret) {
    assert_true(kn_address_parse(text, ret, NULL));
    int fd = socket(ret->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&ret->storage, ret->len)) {
        print_message("%s is no address of this machine\n", text);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    assert_int_equal(listen(fd, 1), 0);
    ret->len = sizeof ret->storage;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&ret->storage, &ret->len), 0);
    return fd;
}

static kn_address with_host(const char *host, const kn_address *a) {
    char text[64];
    kn_address ret;
    snprintf(text, sizeof text, "%s:%u", host, kn_address_port(a));
    assert_true(kn_address_parse(text, &ret, NULL));
    return ret;
}

static void check_owner(const kn_address *a, const char *wanted) {
    assert_string_equal(kn_address_owner(a).text, wanted);
}

static void the_program_that_listens_is_named_with_its_process(void **state) {
    (void)state;
    static const struct {
        const char *listens, *is_asked_for;
    } rows[] = { { "127.0.0.1:0", "127.0.0.1" },
                 { "0.0.0.0:0", "127.0.0.1" },
                 { "[::1]:0", "[::1]" },
                 { "[::]:0", "[::1]" },
                 { "[::]:0", "127.0.0.1" } };
    char command[32], us[80];
    assert_true(kn_system_read("/proc/self/comm", command, sizeof command));
    command[strcspn(command, "\n")] = 0;
    snprintf(us, sizeof us, "'%s' (process %d)", command, (int)getpid());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kn_address a;
        int fd = listen_on(rows[i].listens, &a);
        if (fd < 0)
            continue;
        a = with_host(rows[i].is_asked_for, &a);
        uid_t user = geteuid() + 1;
        check_owner(&a, us);
        assert_true(kn_address_user(&a, &user));
        assert_int_equal(user, geteuid());
        close(fd);
    }
}

static void who_listens_on_another_address_is_not_meant(void **state) {
    (void)state;
    kn_address a, b;
    int own = listen_on("127.0.0.1:0", &a);
    assert_true(own >= 0);
    b = with_host("127.0.0.2", &a);
    check_owner(&b, "another program");
    uid_t user;
    assert_false(kn_address_user(&b, &user));
    close(own);
    assert_true(kn_address_parse("unix:/nowhere", &b, NULL));
    check_owner(&b, "another program");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_that_listens_is_named_with_its_process),
        cmocka_unit_test(who_listens_on_another_address_is_not_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
