/* Looks at the cards: one at a time, and each newer than who asked for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/scanner.h"

static kn_loop *loop;
static kn_scanner *scanner;
static kn_scan first, second, third;
static unsigned seen, inside; /* how many looks have come, and to whom they came within one */

static int begin(void **state) {
    (void)state;
    char text[] = "/tmp/kuno-scanner-XXXXXX";
    if (!mkdtemp(text) || !kn_loop_new(NULL, NULL, &loop, NULL) || !kn_scanner_new(loop, text, &scanner, NULL))
        return -1;
    rmdir(text); /* a machine without a card */
    first = second = third = (kn_scan){ 0 };
    seen = inside = 0;
    return 0;
}

static int end(void **state) {
    (void)state;
    kn_scanner_free(scanner);
    kn_loop_free(loop);
    return 0;
}

static void count(kn_scan *scan, const kn_gpu_report *r) {
    (void)scan;
    assert_non_null(r);
    seen++;
}

static void ask_again(kn_scan *scan, const kn_gpu_report *r) {
    count(scan, r);
    second.seen = count;
    unsigned before = seen;
    kn_scanner_scan(scanner, &second);
    inside += seen - before;
}

static void turn_until(unsigned looks) {
    for (int i = 0; i < 500 && seen < looks; i++)
        assert_true(kn_loop_turn(loop, 20, NULL));
}

static void never_comes_before_it_was_asked_for(void **state) {
    (void)state;
    first.seen = count;
    kn_scanner_scan(scanner, &first);
    assert_int_equal(seen, 0);
    turn_until(1);
    assert_int_equal(seen, 1);
}

static void who_asks_during_a_look_gets_the_next_one(void **state) {
    (void)state;
    first.seen = ask_again;
    third.seen = count;
    kn_scanner_scan(scanner, &first);
    kn_scanner_scan(scanner, &third); /* also: a look is under way by now */
    turn_until(3);
    assert_int_equal(seen, 3);
    assert_int_equal(inside, 0);
}

static void who_is_forgotten_hears_nothing(void **state) {
    (void)state;
    first.seen = second.seen = count;
    kn_scanner_scan(scanner, &first);
    kn_scanner_scan(scanner, &second);
    kn_scanner_forget(&first);
    kn_scanner_forget(&first);
    turn_until(1);
    kn_scanner_forget(&second); /* long over */
    assert_int_equal(seen, 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(never_comes_before_it_was_asked_for),
        TEST(who_asks_during_a_look_gets_the_next_one),
        TEST(who_is_forgotten_hears_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
