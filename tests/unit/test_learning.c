/* What is learnt from loads, and what a failure is put down to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/learning.h"

#define MIB(n) ((uint64_t)(n) << 20)
static const kn_gpu_bytes unknown;

static kn_gpu_bytes bytes(uint64_t n) {
    return (kn_gpu_bytes){ true, n };
}

static kn_learning *l;

static int begin(void **state) {
    (void)state;
    l = calloc(1, sizeof *l);
    return l ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    free(l);
    return 0;
}

static kn_footprint load(int model, uint64_t context, uint64_t settings, uint64_t size) {
    kn_footprint f = { .context_length = context, .settings = settings, .bytes = size };
    snprintf(f.digest.text, sizeof f.digest.text, "%064d", model);
    return f;
}

static uint64_t seen(int model, uint64_t context, uint64_t settings) {
    const kn_footprint f = load(model, context, settings, 0);
    return kn_learning_footprint(l, &f);
}

static void saw(int model, uint64_t context, uint64_t settings, uint64_t size) {
    const kn_footprint f = load(model, context, settings, size);
    kn_learning_saw_load(l, &f);
}

static void a_load_is_known_by_model_context_and_settings(void **state) {
    (void)state;
    saw(1, 512, 7, 1000);
    assert_int_equal(seen(1, 512, 7), 1000);
    assert_int_equal(seen(2, 512, 7), 0);
    assert_int_equal(seen(1, 513, 7), 0);
    assert_int_equal(seen(1, 512, 8), 0);
    saw(1, 512, 7, 500); /* less than the most it took is no news */
    assert_int_equal(seen(1, 512, 7), 1000);
    saw(1, 512, 7, 1500);
    assert_int_equal(seen(1, 512, 7), 1500);
    assert_int_equal(l->footprint_count, 1);
}

static void loads_not_seen_for_long_are_forgotten_first(void **state) {
    (void)state;
    for (int i = 0; i < KN_FOOTPRINTS_MAX; i++)
        saw(i, 512, 7, 1000);
    saw(0, 512, 7, 1000);
    saw(1000, 512, 7, 1000);
    assert_int_equal(l->footprint_count, KN_FOOTPRINTS_MAX);
    assert_int_equal(seen(0, 512, 7), 1000);
    assert_int_equal(seen(1, 512, 7), 0);
    assert_int_equal(seen(2, 512, 7), 1000);
}

static void the_baseline_is_the_lowest_reading_without_a_load(void **state) {
    (void)state;
    kn_learning_saw_unloaded(l, unknown);
    assert_false(l->baseline.known);
    kn_learning_saw_unloaded(l, bytes(MIB(300)));
    kn_learning_saw_unloaded(l, bytes(MIB(200)));
    kn_learning_saw_unloaded(l, bytes(MIB(400)));
    kn_learning_saw_unloaded(l, unknown);
    assert_true(l->baseline.bytes == MIB(200));
}

static void memory_rests_when_three_readings_in_a_row_agree(void **state) {
    (void)state;
    kn_readings r = { 0 };
    assert_false(kn_readings_add(&r, bytes(MIB(900))));
    assert_false(kn_readings_add(&r, bytes(MIB(500))));
    assert_false(kn_readings_add(&r, bytes(MIB(300)))); /* still falling */
    assert_false(kn_readings_add(&r, bytes(MIB(310))));
    assert_false(kn_readings_add(&r, unknown)); /* begins anew */
    assert_false(kn_readings_add(&r, bytes(MIB(305))));
    assert_false(kn_readings_add(&r, bytes(MIB(300))));
    assert_true(kn_readings_add(&r, bytes(MIB(310))));
    assert_true(r.low == MIB(300));
}

static void a_failure_is_blamed_on_what_explains_it(void **state) {
    (void)state;
    static const struct row {
        kn_failure_class suspected;
        bool known;
        uint64_t after_mib;
        kn_failure_class class;
    } rows[] = {
        { KN_FAILED_CAPACITY, true, 200, KN_FAILED_CAPACITY },
        { KN_FAILED_CAPACITY, true, 100, KN_FAILED_CAPACITY },
        { KN_FAILED_CAPACITY, true, 264, KN_FAILED_CAPACITY }, /* noise */
        { KN_FAILED_CAPACITY, true, 265, KN_FAILED_PRESSURE },
        { KN_FAILED_ESTIMATE, true, 200, KN_FAILED_ESTIMATE },
        { KN_FAILED_ESTIMATE, true, 4000, KN_FAILED_PRESSURE },
        { KN_FAILED_ESTIMATE, false, 0, KN_FAILED_INCONCLUSIVE },
        { KN_FAILED_RUNTIME, true, 4000, KN_FAILED_RUNTIME },
        { KN_FAILED_RUNTIME, false, 0, KN_FAILED_RUNTIME },
        { KN_FAILED_VERIFICATION, true, 4000, KN_FAILED_VERIFICATION },
    };
    assert_int_equal(kn_failure_judge(unknown, KN_FAILED_CAPACITY, bytes(1)), KN_FAILED_INCONCLUSIVE);
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_failure_class class = kn_failure_judge(bytes(MIB(200)), rows[i].suspected,
                                                  (kn_gpu_bytes){ rows[i].known, MIB(rows[i].after_mib) });
        if (class != rows[i].class)
            fail_msg("row %zu: %s", i, kn_failure_class_names[class]);
    }
}

static void only_want_of_memory_beside_others_is_tried_again(void **state) {
    (void)state;
    for (int class = 0; class < KN_FAILED_COUNT; class ++) {
        kn_failure f = { .class = (kn_failure_class) class };
        assert_false(kn_failure_deserves_retry(&f)); /* it was alone already */
        f.companion_count = 1;
        assert_int_equal(kn_failure_deserves_retry(&f), class == KN_FAILED_CAPACITY || class == KN_FAILED_ESTIMATE);
    }
}

static void failures_are_told_up_to_64_the_oldest_first(void **state) {
    (void)state;
    for (int i = 0; i < KN_FAILURES_MAX + 6; i++) {
        kn_failure *f = kn_learning_add_failure(l);
        snprintf(f->digest.text, sizeof f->digest.text, "%064d", i);
        f->context_length = 512;
        f->class = KN_FAILED_CAPACITY;
        f->before = bytes(MIB(1));
        f->retry = i % 2 ? KN_RETRY_SUCCEEDED : KN_RETRY_NONE;
        f->companion_count = 1;
        f->companions[0].context_length = 7;
    }
    json_t *told = kn_learning_json(l, "cpu-1"), *failures = json_object_get(told, "failures");
    assert_int_equal(json_array_size(failures), 64);
    assert_string_equal(json_string_value(json_object_get(told, "worker")), "cpu-1");
    assert_true(json_is_null(json_object_get(told, "unloaded_baseline_bytes")));
    json_t *first = json_array_get(failures, 0), *second = json_array_get(failures, 1);
    char digest[65];
    snprintf(digest, sizeof digest, "%064d", 6);
    assert_string_equal(json_string_value(json_object_get(first, "digest")), digest);
    assert_string_equal(json_string_value(json_object_get(first, "class")), "capacity");
    assert_true(json_integer_value(json_object_get(first, "before_cleanup_bytes")) == (json_int_t)MIB(1));
    assert_true(json_is_null(json_object_get(first, "after_cleanup_bytes")));
    assert_true(json_is_false(json_object_get(first, "retried")));
    assert_true(json_is_null(json_object_get(first, "retry_succeeded")));
    assert_true(json_is_true(json_object_get(second, "retry_succeeded")));
    assert_int_equal(json_array_size(json_object_get(second, "co_resident")), 1);
    json_decref(told);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_load_is_known_by_model_context_and_settings),     TEST(loads_not_seen_for_long_are_forgotten_first),
        TEST(the_baseline_is_the_lowest_reading_without_a_load), TEST(memory_rests_when_three_readings_in_a_row_agree),
        TEST(a_failure_is_blamed_on_what_explains_it),           TEST(only_want_of_memory_beside_others_is_tried_again),
        TEST(failures_are_told_up_to_64_the_oldest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
