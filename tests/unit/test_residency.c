/* What Ollama says of the models that it has loaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/residency.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void byte_counters_tell_where_a_model_is(void **state) {
    (void)state;
    static const struct {
        const char *sizes;
        kn_residency residency;
    } rows[] = {
        { "\"size\":100,\"size_vram\":100", KN_RESIDENT_GPU },
        { "\"size\":100,\"size_vram\":99", KN_RESIDENT_PARTIAL },
        { "\"size\":100,\"size_vram\":1", KN_RESIDENT_PARTIAL },
        { "\"size\":100,\"size_vram\":0", KN_RESIDENT_CPU },
        { "\"size\":100,\"size_vram\":101", KN_RESIDENT_UNKNOWN },
        { "\"size\":100", KN_RESIDENT_UNKNOWN },
        { "\"size_vram\":100", KN_RESIDENT_UNKNOWN },
        { "\"size\":0,\"size_vram\":0", KN_RESIDENT_UNKNOWN },
        { "\"size\":\"100\",\"size_vram\":1", KN_RESIDENT_UNKNOWN },
        { "\"size\":-1,\"size_vram\":1", KN_RESIDENT_UNKNOWN },
        { "\"size\":9223372036854775808,\"size_vram\":1", KN_RESIDENT_UNKNOWN },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char json[400];
        kn_residents r;
        kn_error err = { 0 };
        snprintf(json, sizeof json, "{\"models\":[{\"name\":\"m\",\"digest\":\"" A "\",%s}]}", rows[i].sizes);
        if (!kn_residents_read(json, strlen(json), &r, &err))
            fail_msg("%s", err.text);
        assert_int_equal(r.count, 1);
        if (r.items[0].residency != rows[i].residency)
            fail_msg("%s is %s", rows[i].sizes, kn_residency_names[r.items[0].residency]);
        kn_residents_free(&r);
    }
}

static void everything_else_is_read_too(void **state) {
    (void)state;
    static const char json[] =
        "{\"models\":[{\"name\":\"a:latest\",\"model\":\"a:latest\",\"size\":7,\"digest\":\"" A
        "\",\"details\":{\"x\":[1]},"
        "\"expires_at\":\"2319-03-11T23:47:16.85+00:00\",\"size_vram\":7,\"context_length\":4096},"
        "{\"name\":\"no digest\"},{\"digest\":\"" A "\"}]}";
    kn_residents r;
    kn_error err = { 0 };
    assert_true(kn_residents_read(json, sizeof json - 1, &r, &err));
    assert_int_equal(r.count, 1);
    assert_string_equal(r.items[0].name, "a:latest");
    assert_int_equal(r.items[0].context_length, 4096);
    assert_true(r.items[0].expires_s == 11019368836);
    kn_residents_free(&r);
    static const char *const bad[] = { "", "{}", "[]", "{\"models\":null}", "{\"models\":[{]}", "{\"models\":[1]}" };
    for (size_t i = 0; i < KN_COUNT(bad); i++)
        assert_false(kn_residents_read(bad[i], strlen(bad[i]), &r, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_counters_tell_where_a_model_is),
        cmocka_unit_test(everything_else_is_read_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
