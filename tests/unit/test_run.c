/* What runs and devices promise: memory, scopes, views, the sticky error, stopping. */
#include "ops_test.h"

#include <float.h>
#include <pthread.h>
#include <unistd.h>

static void scope_releases_all_but_what_it_keeps(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor outer = kn_upload(&r, DIMS(2), (float[]){ 1, 2 });
    kn_scope s = kn_scope_open(&r);
    kn_tensor gone = kn_new(&r, DIMS(1000));
    kn_tensor kept = kn_upload(&r, DIMS(3), (float[]){ 3, 4, 5 });
    kept = kn_scope_close(&r, s, kept);
    kn_tensor next = kn_new(&r, DIMS(1000));
    assert_int_equal(next.at, gone.at);
    ASSERT_LIST(&r, outer, 0, 1, 2);
    ASSERT_LIST(&r, kept, 0, 3, 4, 5);
    end(&r);
}

static void kept_tensor_belongs_to_the_scope_around(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_scope outer = kn_scope_open(&r);
    kn_scope inner = kn_scope_open(&r);
    kn_tensor t = kn_scope_close(&r, inner, kn_new(&r, DIMS(100)));
    kn_scope_close(&r, outer, (kn_tensor){ 0 });
    assert_int_equal(kn_new(&r, DIMS(100)).at, t.at);
    end(&r);
}

static void keeping_a_view_keeps_what_it_looks_at(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_scope s = kn_scope_open(&r);
    kn_new(&r, DIMS(100));
    kn_tensor t = kn_upload(&r, DIMS(3, 2), (float[]){ 1, 2, 3, 4, 5, 6 });
    kn_tensor v = kn_scope_close(&r, s, kn_rows(&r, t, 1, 2));
    for (int i = 0; i < 10; i++)
        kn_upload(&r, DIMS(2), (float[]){ 9, 9 });
    ASSERT_LIST(&r, v, 0, 3, 4, 5, 6);
    end(&r);
}

static void keeping_a_tensor_from_outside_does_not_move_it_inwards(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor t = kn_upload(&r, DIMS(1), (float[]){ 7 });
    kn_scope a = kn_scope_open(&r);
    kn_scope b = kn_scope_open(&r);
    kn_scope_close(&r, b, t);
    kn_scope_close(&r, a, (kn_tensor){ 0 });
    kn_upload(&r, DIMS(1), (float[]){ 8 });
    ASSERT_LIST(&r, t, 0, 7);
    end(&r);
}

static void dropped_neighbours_merge_and_the_smallest_hole_is_taken(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor t[7];
    for (int i = 0; i < 7; i++)
        t[i] = kn_new(&r, DIMS(i < 3 ? 1000 : 100));
    kn_drop(&r, t[0]);
    kn_drop(&r, t[2]);
    kn_drop(&r, t[1]); /* one hole of 3000 at the front */
    kn_drop(&r, t[5]); /* and one of 100 */
    assert_int_equal(kn_new(&r, DIMS(100)).at, t[5].at);
    assert_int_equal(kn_new(&r, DIMS(3000)).at, t[0].at);
    end(&r);
}

static void memory_is_aligned_and_peak_is_counted_since_the_last_call(void **state) {
    (void)state;
    kn_run r = begin(1);
    uint64_t base = kn_run_peak_bytes(&r);
    kn_tensor a = kn_new(&r, DIMS(1 << 20));
    kn_tensor b = kn_new(&r, DIMS(3, 5));
    assert_int_equal(a.at % 64, 0);
    assert_int_equal(b.at % 64, 0);
    kn_drop(&r, b);
    kn_drop(&r, a);
    uint64_t peak = kn_run_peak_bytes(&r) - base;
    assert_in_range(peak, (4 << 20) + 60, (4 << 20) + 1024);
    assert_int_equal(kn_run_peak_bytes(&r), base);
    end(&r);
}

static void exhausted_memory_is_an_error_with_figures(void **state) {
    (void)state;
    kn_run r = begin_with(1, NULL, 1 << 20);
    assert_int_equal(kn_new(&r, DIMS(100, 1000)).rank, 2);
    assert_int_equal(kn_new(&r, DIMS(100, 2000)).rank, 0);
    assert_failed(&r, KN_E_NOMEM, "1048576");
    assert_failed(&r, KN_E_NOMEM, "800");
    end(&r);
    r = begin_with(1, NULL, 1 << 20);
    kn_new(&r, DIMS(INT64_MAX / 8, 1));
    assert_failed(&r, KN_E_NOMEM, "1048576");
    end(&r);
}

static void no_limit_means_physical_memory(void **state) {
    (void)state;
    kn_run r = begin_with(1, NULL, 0);
    ASSERT_LIST(&r, kn_upload(&r, DIMS(2), (float[]){ 1, 2 }), 0, 1, 2);
    int64_t more = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / (int64_t)sizeof(float);
    kn_new(&r, 1, &more);
    assert_failed(&r, KN_E_NOMEM, "are left");
    end(&r);
}

static void impossible_shapes_are_refused(void **state) {
    (void)state;
    static const int64_t dims[][3] = { { 1, -1, 1 }, { INT64_MAX, 2, 2 }, { 1ll << 31, 1ll << 31, 1 } };
    for (size_t i = 0; i < KN_COUNT(dims); i++) {
        kn_run r = begin(1);
        assert_int_equal(kn_new(&r, 3, dims[i]).rank, 0);
        assert_int_equal(r.err.code, KN_E_RANGE);
        end(&r);
    }
}

static void first_failure_stays_and_ops_do_nothing_after_it(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor x = kn_upload(&r, DIMS(2, 2), (float[]){ 1, 2, 3, 4 });
    kn_run_fail(&r, KN_E_FORMAT, "layer %d is odd", 3);
    kn_run_fail(&r, KN_E_IO, "later");
    kn_silu(&r, x);
    kn_add(&r, x, x);
    assert_int_equal(kn_rms_norm(&r, x, NULL, 0).rank, 0);
    assert_int_equal(kn_linear(&r, x, NULL).rank, 0);
    kn_scope s = kn_scope_open(&r);
    assert_int_equal(kn_scope_close(&r, s, x).rank, 0);
    kn_drop(&r, x);
    assert_failed(&r, KN_E_FORMAT, "layer 3 is odd");
    r.err = (kn_error){ 0 };
    ASSERT_LIST(&r, x, 0, 1, 2, 3, 4);
    end(&r);
}

static void none_is_refused_where_a_tensor_is_needed(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_silu(&r, (kn_tensor){ 0 });
    assert_failed(&r, KN_E_USAGE, "silu");
    end(&r);
}

static void views_share_memory_and_are_bounded(void **state) {
    (void)state;
    kn_run r = begin(1);
    kn_tensor t = kn_upload(&r, DIMS(3, 2), (float[]){ 1, 2, 3, 4, 5, 6 });
    kn_tensor row = kn_rows(&r, t, 1, 1), flat = kn_reshape(&r, t, DIMS(6));
    kn_copy(&r, row, kn_upload(&r, DIMS(2), (float[]){ 30, 40 }));
    ASSERT_LIST(&r, flat, 0, 1, 2, 30, 40, 5, 6);
    assert_int_equal(kn_elements(kn_rows(&r, t, 3, 0)), 0);
    assert_int_equal(kn_rows(&r, t, 2, 2).rank, 0);
    assert_failed(&r, KN_E_USAGE, "[3, 2]");
    r.err = (kn_error){ 0 };
    kn_reshape(&r, t, DIMS(4, 2));
    assert_failed(&r, KN_E_USAGE, "[3, 2] cannot be seen as [4, 2]");
    end(&r);
}

static void nan_and_infinity_are_found_wherever_they_are(void **state) {
    (void)state;
    enum { N = 70001 };
    static const int64_t places[] = { 0, 17, 65536, N - 1 };
    kn_run r = begin(2);
    float *v = random_values(N);
    v[5] = FLT_MAX;
    v[6] = 1e-40f;
    for (size_t i = 0; i < KN_COUNT(places); i++) {
        kn_check_finite(&r, kn_upload(&r, DIMS(N), v), "fine");
        assert_int_equal(r.err.code, KN_OK);
        float old = v[places[i]];
        v[places[i]] = i % 2 ? -INFINITY : NAN;
        kn_check_finite(&r, kn_upload(&r, DIMS(N), v), "block 7");
        assert_failed(&r, KN_E_NUMERIC, "block 7");
        r.err = (kn_error){ 0 };
        v[places[i]] = old;
    }
    free(v);
    end(&r);
}

static void stop_flag_ends_every_later_op(void **state) {
    (void)state;
    atomic_bool stop = false;
    kn_run r = begin_with(1, &stop, 1 << 20);
    kn_tensor x = kn_upload(&r, DIMS(2), (float[]){ 1, 2 });
    stop = true;
    kn_add(&r, x, x);
    assert_int_equal(r.err.code, KN_E_CANCELLED);
    assert_string_equal(r.err.text, "cancelled");
    assert_int_equal(kn_new(&r, DIMS(1)).rank, 0);
    stop = false;
    r.err = (kn_error){ 0 };
    ASSERT_LIST(&r, x, 0, 1, 2);
    end(&r);
}

static void *stop_soon(void *stop) {
    usleep(30000);
    atomic_store((atomic_bool *)stop, true);
    return NULL;
}

static void stop_flag_ends_ops_under_way(void **state) {
    (void)state;
    enum { ROWS = 1 << 13, WIDTH = 64 };
    atomic_bool stop = false;
    kn_run r = begin_with(2, &stop, 1 << 28);
    int64_t dim[] = { ROWS, WIDTH };
    float *v = random_values(ROWS * WIDTH);
    kn_tensor x = kn_upload(&r, 2, dim, v);
    kn_weight w = { .data = v, .dtype = KN_F32, .rank = 2, .dim = { WIDTH, WIDTH }, .scale = 1 };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, &stop), 0);
    while (r.err.code == KN_OK) {
        kn_scope s = kn_scope_open(&r);
        kn_linear(&r, x, &w);
        kn_scope_close(&r, s, kn_attention(&r, x, (kn_kv){ 0 }, (kn_kv){ x, x }, 1, 1, false));
    }
    assert_int_equal(r.err.code, KN_E_CANCELLED);
    pthread_join(thread, NULL);
    free(v);
    end(&r);
}

static void *compute_apart(void *ret) {
    enum { N = 64 };
    kn_run r = begin(2);
    float v[N * N];
    for (int i = 0; i < N * N; i++)
        v[i] = (float)(i % 7);
    kn_weight w = { .data = v, .dtype = KN_F32, .rank = 2, .dim = { N, N }, .scale = 1 };
    kn_tensor x = kn_upload(&r, DIMS(N, N), v);
    for (int i = 0; i < 50; i++) {
        kn_scope s = kn_scope_open(&r);
        kn_scope_close(&r, s, kn_linear(&r, x, &w));
    }
    *(kn_code *)ret = r.err.code;
    end(&r);
    return NULL;
}

static void two_devices_share_nothing(void **state) {
    (void)state;
    pthread_t thread;
    kn_code here = KN_E_IO, there = KN_E_IO;
    assert_int_equal(pthread_create(&thread, NULL, compute_apart, &there), 0);
    compute_apart(&here);
    pthread_join(thread, NULL);
    assert_int_equal(here, KN_OK);
    assert_int_equal(there, KN_OK);
}

static void environment_chooses_the_kernels(void **state) {
    (void)state;
    const char *tier = getenv("KUNO_CPU"); /* set by the loop over tiers */
    char *before = strdup(tier ? tier : "");
    kn_error err = { 0 };
    kn_device *d = NULL;
    setenv("KUNO_CPU", "reference", 1);
    assert_true(kn_device_open_cpu(3, &d, &err));
    assert_string_equal(kn_device_name(d), "cpu");
    assert_string_equal(kn_device_kernels(d), "reference");
    assert_int_equal(kn_device_threads(d), 3);
    kn_device_close(d);
    setenv("KUNO_CPU", "pentium", 1);
    assert_false(kn_device_open_cpu(1, &d, &err));
    assert_int_equal(err.code, KN_E_USAGE);
    assert_non_null(strstr(err.text, "'pentium'"));
    assert_non_null(strstr(err.text, "reference"));
    setenv("KUNO_CPU", before, 1);
    free(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scope_releases_all_but_what_it_keeps),
        cmocka_unit_test(kept_tensor_belongs_to_the_scope_around),
        cmocka_unit_test(keeping_a_view_keeps_what_it_looks_at),
        cmocka_unit_test(keeping_a_tensor_from_outside_does_not_move_it_inwards),
        cmocka_unit_test(dropped_neighbours_merge_and_the_smallest_hole_is_taken),
        cmocka_unit_test(memory_is_aligned_and_peak_is_counted_since_the_last_call),
        cmocka_unit_test(exhausted_memory_is_an_error_with_figures),
        cmocka_unit_test(no_limit_means_physical_memory),
        cmocka_unit_test(impossible_shapes_are_refused),
        cmocka_unit_test(first_failure_stays_and_ops_do_nothing_after_it),
        cmocka_unit_test(none_is_refused_where_a_tensor_is_needed),
        cmocka_unit_test(views_share_memory_and_are_bounded),
        cmocka_unit_test(nan_and_infinity_are_found_wherever_they_are),
        cmocka_unit_test(stop_flag_ends_every_later_op),
        cmocka_unit_test(stop_flag_ends_ops_under_way),
        cmocka_unit_test(two_devices_share_nothing),
        cmocka_unit_test(environment_chooses_the_kernels),
    };
    return run_on_every_tier(tests, KN_COUNT(tests));
}
