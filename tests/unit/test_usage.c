/* The history of use: what counts, what lasts, what stops the start. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/usage.h"

enum { DAY = 24 * 60 * 60, NOW = 1800000000 };

static kn_digest digest_of(unsigned n) {
    kn_digest d;
    snprintf(d.text, sizeof d.text, "%064x", n);
    return d;
}

static void record(kn_usage *u, unsigned n, int64_t now) {
    kn_digest d = digest_of(n);
    kn_usage_record(u, &d, now);
}

static kn_usage new_usage(void) {
    kn_usage u;
    kn_error err = { 0 };
    assert_true(kn_usage_new(&u, &err));
    return u;
}

static void calls_are_counted_by_what_was_called(void **state) {
    (void)state;
    kn_usage u = new_usage();
    record(&u, 1, NOW);
    record(&u, 2, NOW + 5);
    kn_usage_record(&u, NULL, NOW + 6);
    record(&u, 1, NOW + 7);
    assert_int_equal(u.count, 2);
    assert_int_equal(u.unattributed, 1);
    assert_string_equal(u.uses[0].digest.text, digest_of(1).text); /* used last comes first */
    assert_int_equal(u.uses[0].calls, 2);
    assert_int_equal(u.uses[0].first_s, NOW);
    assert_int_equal(u.uses[0].last_s, NOW + 7);
    assert_int_equal(u.uses[1].calls, 1);
    assert_true(u.uses[0].turn > u.uses[1].turn);
    record(&u, 1, NOW - DAY); /* the clock went back */
    assert_int_equal(u.uses[0].first_s, NOW - DAY);
    assert_int_equal(u.uses[0].last_s, NOW - DAY);
    kn_usage_free(&u);
}

static void the_one_used_longest_ago_makes_room(void **state) {
    (void)state;
    kn_usage u = new_usage();
    for (unsigned i = 0; i < KN_USAGE_MODELS; i++)
        record(&u, i, NOW + i);
    record(&u, 0, NOW + DAY); /* the first one is used again */
    record(&u, KN_USAGE_MODELS, NOW + DAY);
    assert_int_equal(u.count, KN_USAGE_MODELS);
    assert_string_equal(u.uses[0].digest.text, digest_of(KN_USAGE_MODELS).text);
    assert_string_equal(u.uses[1].digest.text, digest_of(0).text);
    assert_int_equal(u.uses[1].calls, 2);
    assert_string_equal(u.uses[KN_USAGE_MODELS - 1].digest.text, digest_of(2).text); /* 1 is gone */

    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_USAGE_BYTES);
    assert_true(kn_usage_write(&u, &text)); /* a full history fits into its file */
    kn_usage_free(&u);
}

static void a_week_without_use_ends_eligibility(void **state) {
    (void)state;
    char json[200];
    kn_catalog c;
    kn_error err = { 0 };
    snprintf(json, sizeof json, "{\"models\":[{\"name\":\"a\",\"digest\":\"%s\"}]}", digest_of(1).text);
    assert_true(kn_catalog_read(json, strlen(json), 0, &c, &err));
    kn_use use = { .digest = digest_of(1), .calls = 1, .first_s = NOW, .last_s = NOW };
    assert_true(kn_usage_is_eligible(&use, &c, NOW));
    assert_true(kn_usage_is_eligible(&use, &c, NOW + 7 * DAY));
    assert_false(kn_usage_is_eligible(&use, &c, NOW + 7 * DAY + 1));
    use.digest = digest_of(2); /* the name has another content now */
    assert_false(kn_usage_is_eligible(&use, &c, NOW));
    kn_catalog_free(&c);
}

static void what_is_written_is_read_again(void **state) {
    (void)state;
    KN_AUTO_BUF first, second;
    kn_buf_init(&first, KN_USAGE_BYTES);
    kn_buf_init(&second, KN_USAGE_BYTES);
    kn_usage u = new_usage(), v = new_usage();
    for (unsigned i = 0; i < 100; i++)
        record(&u, i * i % 37, NOW + i);
    kn_usage_record(&u, NULL, NOW);
    assert_true(kn_usage_write(&u, &first));
    kn_error err = { 0 };
    if (!kn_usage_read(&v, first.data, first.len, &err))
        fail_msg("%s", err.text);
    assert_true(kn_usage_write(&v, &second));
    assert_string_equal(first.data, second.data);
    for (size_t i = 0; i + 1 < v.count; i++)
        assert_true(v.uses[i].turn > v.uses[i + 1].turn);
    record(&v, 5000, NOW);
    assert_true(v.uses[0].turn > v.uses[1].turn);
    kn_usage_free(&u);
    kn_usage_free(&v);
}

#define D         "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define USE(rest) "{\"version\":1,\"unattributed_calls\":0,\"models\":[{\"digest\":\"" D "\"," rest "}]}"

static void damaged_histories_are_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { "", "an object is expected" },
        { "{}", "the key 'version' is missing" },
        { "{\"version\":2,\"unattributed_calls\":0,\"models\":[]}", "version: 2 is outside 1 to 1" },
        { "{\"version\":1,\"models\":[]}", "the key 'unattributed_calls' is missing" },
        { "{\"version\":1,\"unattributed_calls\":-1,\"models\":[]}", "unattributed_calls: a whole number" },
        { "{\"version\":1,\"unattributed_calls\":0,\"models\":[]", "the file ends" },
        { "{\"version\":1,\"unattributed_calls\":0,\"models\":[],\"x\":0}", "unknown key 'x'" },
        { USE("\"calls\":1,\"first_used_at\":2"), "models[0]: the key 'last_used_at' is missing" },
        { USE("\"calls\":0,\"first_used_at\":2,\"last_used_at\":2"), "models[0].calls: 0 is outside" },
        { USE("\"calls\":1,\"first_used_at\":3,\"last_used_at\":2"), "models[0]: used first after it was used last" },
        { USE("\"calls\":1,\"first_used_at\":2,\"last_used_at\":2},{\"digest\":\"" D "\""),
          "models[1].digest: the digest comes twice" },
        { "{\"models\":[{\"digest\":\"" D "x\"}]}", "models[0].digest: a text of 64 to 64 bytes" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_usage u = new_usage();
        kn_error err = { 0 };
        if (kn_usage_read(&u, rows[i][0], strlen(rows[i][0]), &err))
            fail_msg("%s\n  was taken", rows[i][0]);
        if (!strstr(err.text, rows[i][1]))
            fail_msg("%s\n  says '%s'", rows[i][0], err.text);
        kn_usage_free(&u);
    }
    kn_usage u = new_usage();
    kn_error err = { 0 };
    static const char good[] = USE("\"calls\":18446744073709551615,\"first_used_at\":2,\"last_used_at\":2");
    assert_true(kn_usage_read(&u, good, sizeof good - 1, &err));
    kn_usage_free(&u);
}

static void a_file_is_replaced_as_a_whole(void **state) {
    (void)state;
    char folder[] = "/tmp/kuno-usage-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/usage.json", folder);
    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_USAGE_BYTES);
    kn_usage u = new_usage(), v = new_usage();
    kn_error err = { 0 };
    assert_true(kn_usage_load(&u, path, &err)); /* none yet */
    assert_int_equal(u.count, 0);
    record(&u, 7, NOW);
    assert_true(kn_usage_write(&u, &text) && kn_usage_save(path, &text, &err) && kn_usage_save(path, &text, &err));
    assert_true(kn_usage_load(&v, path, &err));
    assert_int_equal(v.count, 1);

    kn_buf_clear(&text);
    assert_true(kn_buf_add_text(&text, "{\"version\":1,\"unatt"));
    assert_true(kn_usage_save(path, &text, &err));
    assert_false(kn_usage_load(&v, path, &err));
    assert_non_null(strstr(err.text, "cannot be read (move it away to begin a new one): line 1"));
    assert_int_equal(access(path, F_OK), 0); /* and is still there */

    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left */
    err = (kn_error){ 0 };
    assert_false(kn_usage_save(path, &text, &err));
    kn_usage_free(&u);
    kn_usage_free(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_counted_by_what_was_called), cmocka_unit_test(the_one_used_longest_ago_makes_room),
        cmocka_unit_test(a_week_without_use_ends_eligibility),  cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(damaged_histories_are_refused),        cmocka_unit_test(a_file_is_replaced_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
