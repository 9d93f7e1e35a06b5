/* Whether swap is on, from what the files of the kernel say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/swap.h"

static void a_machine_without_devices_has_no_swap(void **state) {
    (void)state;
    assert_false(kn_swap_is_listed("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"));
    assert_true(kn_swap_is_listed("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/zram0 partition 8 0 100\n"));
    assert_true(kn_swap_is_listed("something else"));
}

/* A group's folder with these files; NULL: there is none of that name. */
struct group {
    bool unified;
    const char *swap, *memory;
    kn_swap want;
};

static void put(const char *folder, const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    if (!text)
        return;
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void a_group_forbids_swap_allows_it_or_says_nothing(void **state) {
    (void)state;
    static const struct group rows[] = {
        { true, "0\n", NULL, KN_SWAP_OFF },
        { true, "max\n", NULL, KN_SWAP_ON },
        { true, "1048576\n", NULL, KN_SWAP_ON },
        { true, "none\n", NULL, KN_SWAP_UNKNOWN },
        { true, NULL, NULL, KN_SWAP_UNKNOWN },
        { false, "41943040\n", "41943040\n", KN_SWAP_OFF },
        { false, "83886080\n", "41943040\n", KN_SWAP_ON },
        { false, NULL, "41943040\n", KN_SWAP_UNKNOWN },
        /* the same, since neither is limited */
        { false, "9223372036854771712\n", "9223372036854771712\n", KN_SWAP_ON },
    };
    char folder[] = "/tmp/kuno-test-swap-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        const struct group *r = &rows[i];
        const kn_cgroup g = { folder, r->unified };
        put(folder, "memory.swap.max", r->unified ? r->swap : NULL);
        put(folder, "memory.memsw.limit_in_bytes", r->unified ? NULL : r->swap);
        put(folder, "memory.limit_in_bytes", r->memory);
        kn_swap got = KN_SWAP_UNKNOWN;
        kn_swap_of_group(&g, &got);
        assert_int_equal(got, r->want);
        got = KN_SWAP_OFF; /* one group is enough */
        kn_swap_of_group(&g, &got);
        assert_int_equal(got, KN_SWAP_OFF);
    }
    put(folder, "memory.memsw.limit_in_bytes", NULL);
    put(folder, "memory.limit_in_bytes", NULL);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_without_devices_has_no_swap),
        cmocka_unit_test(a_group_forbids_swap_allows_it_or_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
