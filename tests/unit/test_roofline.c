/* The limits of the processor by which kernels are judged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compute/cpu/roofline.h"
#include "compute/cpu/roofline_burst.h"

static void the_best_burst_counts(void **state) {
    (void)state;
    const kn_burst bursts[] = { { 400, 1, 1 }, { 400, 0.8, 0.8 }, { 400, 2, 2 } };
    assert_float_equal(kn_burst_best(bursts, 3), 500, 1e-3F);
    assert_float_equal(kn_burst_best(bursts, 0), 0, 0);
}

/* A host that gives the processor to another machine makes the system take more off a thread's time than was lost. */
static void a_burst_that_was_disturbed_makes_no_limit_that_the_processor_has_not(void **state) {
    (void)state;
    const kn_burst bursts[] = { { 400, 1, 0.85 }, { 396, 1, 0.99 }, { 400, 7, 0.5 } };
    assert_float_equal(kn_burst_best(bursts, 3), 400, 1e-3F);
}

static void where_all_were_disturbed_the_best_by_processor_time_counts(void **state) {
    (void)state;
    const kn_burst bursts[] = { { 400, 3, 1.25 }, { 400, 2, 1 }, { 400, 2, 0 } };
    assert_float_equal(kn_burst_best(bursts, 3), 400, 1e-3F);
}

static void measuring_again_keeps_the_more_of_both(void **state) {
    (void)state;
    kn_error err = { 0 };
    kn_device *d = NULL;
    kn_roofline *l = NULL;
    assert_true(kn_device_open_cpu(1, &d, &err));
    assert_true(kn_roofline_open(d, &l, &err));
    double rates[KN_UNIT_COUNT] = { 0 };
    rates[KN_UNIT_READ] = 0x1p100;
    kn_roofline_measure_again(l, rates);
    assert_float_equal(rates[KN_UNIT_READ], 0x1p100F, 0);
    assert_true(rates[KN_UNIT_UPDATE] > 0);
    kn_roofline_close(l);
    kn_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_burst_counts),
        cmocka_unit_test(a_burst_that_was_disturbed_makes_no_limit_that_the_processor_has_not),
        cmocka_unit_test(where_all_were_disturbed_the_best_by_processor_time_counts),
        cmocka_unit_test(measuring_again_keeps_the_more_of_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
