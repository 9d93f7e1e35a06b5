/* Dates as programs exchange them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/date.h"

static void dates_are_read_in_any_zone_and_written_in_one(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t seconds;
        const char *shown;
    } rows[] = {
        { "1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z" },
        { "1970-01-01T00:59:59+01:00", -1, "1969-12-31T23:59:59Z" },
        { "1966-02-03T18:45:30Z", -123311670, "1966-02-03T18:45:30Z" },
        { "0001-01-01T00:00:00Z", -62135596800, "0001-01-01T00:00:00Z" },
        { "2026-11-29T19:05:39Z", 1795979139, "2026-11-29T19:05:39Z" },
        { "2026-11-29T20:05:39.123456789+01:00", 1795979139, "2026-11-29T19:05:39Z" },
        { "2026-11-29T08:35:39-10:30", 1795979139, "2026-11-29T19:05:39Z" },
        { "2319-03-11T23:47:16.854775807Z", 11019368836, "2319-03-11T23:47:16Z" }, /* Ollama's "for ever" */
        { "2024-02-29T12:00:00Z", 1709208000, "2024-02-29T12:00:00Z" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        int64_t seconds = -1;
        if (!kn_date_parse(rows[i].text, strlen(rows[i].text), &seconds) || seconds != rows[i].seconds)
            fail_msg("%s is %lld", rows[i].text, (long long)seconds);
        assert_string_equal(kn_date_of(seconds).text, rows[i].shown);
    }
}

static void what_is_no_date_is_refused(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",
        "2026-11-29",
        "2026-11-29T19:05:39",
        "2026-11-29 19:05:39Z",
        "2026-13-29T19:05:39Z",
        "2026-11-32T19:05:39Z",
        "2026-11-29T24:05:39Z",
        "2026-11-29T19:60:39Z",
        "2026-11-29T19:05:61Z",
        "2026-11-29T19:05:39.Z",
        "2026-11-29T19:05:39+1:00",
        "2026-11-29T19:05:39+01:60",
        "2026-11-29T19:05:39Zx",
        "969-11-29T19:05:39Z",
        "2026-1-29T19:05:39Z",
        "+026-11-29T19:05:39Z",
        "0000-01-01T00:59:59+01:00",
        "9999-12-31T23:59:59-00:01",
    };
    int64_t seconds = 0;
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        if (kn_date_parse(rows[i], strlen(rows[i]), &seconds))
            fail_msg("'%s' was taken", rows[i]);
    assert_string_equal(kn_date_of(KN_DATE_FIRST_S).text, "0000-01-01T00:00:00Z");
    assert_string_equal(kn_date_of(KN_DATE_FIRST_S - 1).text, "");
    assert_string_equal(kn_date_of(INT64_MAX).text, "");
}

static void fractions_of_a_second_are_dropped_before_1970_too(void **state) {
    (void)state;
    assert_string_equal(kn_date_of_ms(-1).text, "1969-12-31T23:59:59Z");
    assert_string_equal(kn_date_of_ms(-1000).text, "1969-12-31T23:59:59Z");
    assert_string_equal(kn_date_of_ms(1999).text, "1970-01-01T00:00:01Z");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_read_in_any_zone_and_written_in_one),
        cmocka_unit_test(what_is_no_date_is_refused),
        cmocka_unit_test(fractions_of_a_second_are_dropped_before_1970_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
