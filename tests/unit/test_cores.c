/* Which processors share a core, from what the files of the kernel say, or of a folder like it. */
#include <limits.h>
#include <sched.h>
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

#include "base/cores.h"
#include "base/threads.h"

/* What is below /sys/devices/system/cpu of a machine that has at most so many processors. */
enum { PROCESSORS = 16, PATH_BYTES = 200 };
static const char *const names[] = { "core_cpus_list", "thread_siblings_list" };

typedef struct machine {
    char folder[40];
} machine;

static const char *below(const machine *m, unsigned processor, const char *name, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s/cpu%u/topology%s%s", m->folder, processor, *name ? "/" : "", name);
    return path;
}

static machine build(void) {
    machine m = { .folder = "/tmp/kuno-cores-XXXXXX" };
    assert_non_null(mkdtemp(m.folder));
    for (unsigned i = 0; i < PROCESSORS; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s/cpu%u", m.folder, i);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(mkdir(below(&m, i, "", path), 0700), 0);
    }
    return m;
}

/* siblings: NULL for none of that name. */
static void say(const machine *m, unsigned processor, const char *name, const char *siblings) {
    char path[PATH_BYTES];
    unlink(below(m, processor, name, path));
    if (!siblings)
        return;
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(siblings, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void demolish(const machine *m) {
    for (unsigned i = 0; i < PROCESSORS; i++) {
        char path[PATH_BYTES];
        for (size_t k = 0; k < KN_COUNT(names); k++)
            unlink(below(m, i, names[k], path));
        assert_int_equal(rmdir(below(m, i, "", path)), 0);
        snprintf(path, sizeof path, "%s/cpu%u", m->folder, i);
        assert_int_equal(rmdir(path), 0);
    }
    assert_int_equal(rmdir(m->folder), 0);
}

/* mask: a bit for each processor that may be used. */
static unsigned cores(const machine *m, unsigned mask) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (unsigned i = 0; i < PROCESSORS; i++)
        if (mask >> i & 1)
            CPU_SET(i, &set);
    return kn_cores_count(m->folder, &set, sizeof set);
}

static void threads_of_a_core_count_once(void **state) {
    (void)state;
    machine m = build();
    for (unsigned i = 0; i < 8; i++) { /* 0 and 4, 1 and 5, … as one kind of machine numbers them */
        char text[20];
        snprintf(text, sizeof text, "%u,%u\n", i % 4, i % 4 + 4);
        say(&m, i, "core_cpus_list", text);
    }
    for (unsigned i = 8; i < 16; i++) { /* 8 and 9, 10 and 11, … as another one does; the older name */
        char text[20];
        snprintf(text, sizeof text, "%u-%u\n", i & ~1U, i | 1U);
        say(&m, i, "thread_siblings_list", text);
    }
    assert_int_equal(cores(&m, 0x00FF), 4);
    assert_int_equal(cores(&m, 0xFF00), 4);
    assert_int_equal(cores(&m, 0xFFFF), 8);
    assert_int_equal(cores(&m, 0), 0);
    demolish(&m);
}

static void only_processors_of_the_mask_count(void **state) {
    (void)state;
    machine m = build();
    for (unsigned i = 0; i < 8; i++) {
        char text[20];
        snprintf(text, sizeof text, "%u,%u\n", i % 4, i % 4 + 4);
        say(&m, i, "core_cpus_list", text);
    }
    assert_int_equal(cores(&m, 0x10), 1); /* the second thread of a core alone */
    assert_int_equal(cores(&m, 0x11), 1); /* both */
    assert_int_equal(cores(&m, 0x21), 2); /* threads of two cores */
    assert_int_equal(cores(&m, 0x32), 2);
    demolish(&m);
}

static void four_threads_of_a_core_count_once(void **state) {
    (void)state;
    machine m = build();
    for (unsigned i = 0; i < 8; i++)
        say(&m, i, "core_cpus_list", i < 4 ? "0-3\n" : "4-7\n");
    assert_int_equal(cores(&m, 0xFF), 2);
    demolish(&m);
}

static void where_nothing_is_told_each_processor_is_a_core(void **state) {
    (void)state;
    machine m = build();
    assert_int_equal(cores(&m, 0xFFFF), 16);
    demolish(&m);
    const machine absent = { .folder = "/nonexistent" };
    assert_int_equal(cores(&absent, 0x0F), 4);
    machine endless;
    memset(endless.folder, 'a', sizeof endless.folder - 1);
    endless.folder[sizeof endless.folder - 1] = 0;
    assert_int_equal(cores(&endless, 0x0F), 4);
}

/* Nothing of it may cost a core, let alone the program. */
static void what_makes_no_sense_makes_each_processor_a_core(void **state) {
    (void)state;
    static const char *const odd[] = {
        "",
        "\n",
        "0", /* without an end it may have been cut */
        "0-1",
        "0-1 \n",
        " 0-1\n",
        "0-1,\n",
        ",0-1\n",
        "0--1\n",
        "0-\n",
        "-1\n",
        "1-0\n",
        "0,0\n",
        "1,0\n",
        "0-1,1\n",
        "0-1\n\n",
        "0-1\n0-1\n",
        "0x0-0x1\n",
        "+0-1\n",
        "0-1048576\n",
        "0-4294967297\n",
        "0-99999999999999999999999999\n",
        "0-1048575\n", /* a host that says that all is one core */
        "0-8\n",       /* more threads than any core has */
        "2-3\n",       /* of others */
        "all\n",
        "\xff\xfe\n",
    };
    machine m = build();
    for (size_t i = 0; i < KN_COUNT(odd); i++) {
        for (unsigned k = 0; k < KN_COUNT(names); k++) {
            say(&m, 0, names[k], odd[i]);
            say(&m, 1, names[k], odd[i]);
        }
        if (cores(&m, 3) != 2)
            fail_msg("'%s' was taken", odd[i]);
    }
    demolish(&m);
}

static void a_list_that_does_not_end_is_no_list(void **state) {
    (void)state;
    char text[4096] = "0-1";
    for (size_t len = 3, i = 3; len < 4000; i += 2)
        len += (size_t)snprintf(text + len, sizeof text - len, ",%zu", i);
    machine m = build();
    say(&m, 0, "core_cpus_list", text);
    say(&m, 1, "core_cpus_list", text);
    assert_int_equal(cores(&m, 3), 2);
    say(&m, 1, "thread_siblings_list", "0-1\n"); /* what the other file says counts then */
    assert_int_equal(cores(&m, 3), 1);
    demolish(&m);
}

static void lists_are_read_to_their_end(void **state) {
    (void)state;
    kn_processor_range r[KN_PROCESSOR_RANGES_MAX];
    size_t count = 0;
    assert_true(kn_processor_list_read("7", r, &count));
    assert_true(count == 1 && r[0].first == 7 && r[0].last == 7);
    assert_true(kn_processor_list_read("0-3,8,10-1048575\n", r, &count));
    assert_true(count == 3 && r[0].last == 3 && r[1].first == 8 && r[2].first == 10 && r[2].last == 1048575);
    char text[1000] = "0";
    size_t len = 1;
    for (unsigned i = 1; i < KN_PROCESSOR_RANGES_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, ",%u", 2 * i);
    assert_true(kn_processor_list_read(text, r, &count));
    assert_int_equal(count, KN_PROCESSOR_RANGES_MAX);
    snprintf(text + len, sizeof text - len, ",1000");
    assert_false(kn_processor_list_read(text, r, &count));
}

static void a_computation_has_at_most_one_thread_for_each_processor(void **state) {
    (void)state;
    assert_true(kn_threads_default() >= 1 && kn_threads_default() <= kn_threads_available());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_core_count_once),
        cmocka_unit_test(only_processors_of_the_mask_count),
        cmocka_unit_test(four_threads_of_a_core_count_once),
        cmocka_unit_test(where_nothing_is_told_each_processor_is_a_core),
        cmocka_unit_test(what_makes_no_sense_makes_each_processor_a_core),
        cmocka_unit_test(a_list_that_does_not_end_is_no_list),
        cmocka_unit_test(lists_are_read_to_their_end),
        cmocka_unit_test(a_computation_has_at_most_one_thread_for_each_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
