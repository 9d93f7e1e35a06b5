/* Which names stand for which model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "gateway/catalog.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char answer[] =
    "{\"models\":[{\"name\":\"tiny:latest\",\"model\":\"tiny:latest\",\"modified_at\":\"2026-01-01T00:00:00Z\","
    "\"size\":"
    "434000,\"digest\":\"" A "\",\"details\":{\"families\":[\"llama\"],\"name\":\"no\"}},"
    "{\"name\":\"Other/Big:7B-Q4\",\"size\":5000000000,\"digest\":\"" B "\"},"
    "{\"name\":\"copy:latest\",\"size\":434000,\"digest\":\"" A "\",\"remote_host\":\"\"},"
    "{\"name\":\"hf.co/x/y:latest\",\"size\":1,\"digest\":\"" B "\"},"
    "{\"name\":\"far:cloud\",\"size\":300,\"digest\":\"" B "\",\"remote_host\":\"https://example.org\"},"
    "{\"name\":\"no-digest:latest\",\"size\":1},"
    "{\"name\":\"short:latest\",\"digest\":\"aaaa\"},"
    "{\"name\":\"capitals:latest\",\"digest\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"},"
    "{\"name\":7,\"digest\":\"" A "\"},{\"name\":\"\",\"digest\":\"" A "\"}],\"more\":{}}";

static kn_catalog read_answer(void) {
    kn_catalog c;
    kn_error err = { 0 };
    if (!kn_catalog_read(answer, sizeof answer - 1, 1000, &c, &err))
        fail_msg("%s", err.text);
    return c;
}

static void finds_models_by_any_form_of_their_names(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { "tiny", "tiny:latest" },
        { "tiny:latest", "tiny:latest" },
        { "TINY:Latest", "tiny:latest" },
        { "library/tiny", "tiny:latest" },
        { "registry.ollama.ai/library/tiny:latest", "tiny:latest" },
        { "other/big:7b-q4", "Other/Big:7B-Q4" },
        { "registry.ollama.ai/other/big:7b-q4", "Other/Big:7B-Q4" },
        { "hf.co/x/y", "hf.co/x/y:latest" },
        { "far:cloud", "far:cloud" },
        { "tiny:7b", NULL },
        { "other/big", NULL },
        { "big:7b-q4", NULL },
        { "no-digest", NULL },
        { "short", NULL },
        { "capitals", NULL },
        { "", NULL },
    };
    kn_catalog c = read_answer();
    assert_int_equal(c.count, 5);
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        const kn_model *m = kn_catalog_find(&c, rows[i][0], strlen(rows[i][0]));
        if (!m != !rows[i][1] || (m && strcmp(m->name, rows[i][1]) != 0))
            fail_msg("'%s' is '%s'", rows[i][0], m ? m->name : "nothing");
    }
    assert_int_equal(kn_catalog_find(&c, "tiny", 4)->bytes, 434000);
    assert_true(kn_catalog_find(&c, "far:cloud", 9)->remote);
    assert_false(kn_catalog_find(&c, "copy", 4)->remote);
    kn_catalog_free(&c);
}

static void aliases_share_a_digest(void **state) {
    (void)state;
    kn_catalog c = read_answer();
    kn_digest a;
    assert_true(kn_digest_parse(A, 64, &a));
    const kn_model *first = kn_catalog_of_digest(&c, &a, NULL), *second = kn_catalog_of_digest(&c, &a, first);
    assert_string_equal(first->name, "copy:latest");
    assert_string_equal(second->name, "tiny:latest");
    assert_null(kn_catalog_of_digest(&c, &a, second));
    kn_catalog_free(&c);
}

static void what_is_known_lasts_a_minute(void **state) {
    (void)state;
    kn_catalog c = read_answer();
    assert_true(kn_catalog_is_fresh(&c, 1000));
    assert_true(kn_catalog_is_fresh(&c, 60999));
    assert_false(kn_catalog_is_fresh(&c, 61000));
    kn_catalog_invalidate(&c);
    assert_false(kn_catalog_is_fresh(&c, 1000));
    kn_catalog_free(&c);
    assert_false(kn_catalog_is_fresh(&c, 0));
    assert_null(kn_catalog_find(&c, "tiny", 4));
}

static void what_is_no_list_is_refused(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",
        "[]",
        "{}",
        "{\"models\":{}}",
        "{\"models\":null}",
        "{\"models\":[}",
        "{\"models\":[7]}",
        ("{\"models\":[{\"name\":\"a\",\"digest\":\"" A "\"}]"),
        "{\"models\":[]} x",
        "{\"models\":[{\"size\":-1.}]}",
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_catalog c;
        kn_error err = { 0 };
        if (kn_catalog_read(rows[i], strlen(rows[i]), 0, &c, &err))
            fail_msg("'%s' was taken", rows[i]);
        assert_true(err.code != KN_OK);
    }
    kn_catalog c;
    kn_error err = { 0 };
    assert_true(kn_catalog_read("{\"models\":[]}", 13, 0, &c, &err));
    assert_int_equal(c.count, 0);
    assert_null(kn_catalog_find(&c, "tiny", 4));
    kn_catalog_free(&c);
}

static void there_is_a_limit_to_models(void **state) {
    (void)state;
    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_CATALOG_BYTES);
    assert_true(kn_buf_add_text(&text, "{\"models\":["));
    for (int i = 0; i <= KN_CATALOG_MODELS; i++)
        assert_true(kn_buf_printf(&text, "%s{\"name\":\"m%d\",\"digest\":\"" A "\"}", i ? "," : "", i));
    assert_true(kn_buf_add_text(&text, "]}"));
    kn_catalog c;
    kn_error err = { 0 };
    assert_false(kn_catalog_read(text.data, text.len, 0, &c, &err));
    assert_string_equal(err.text, "more than 16384 models");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_models_by_any_form_of_their_names),
        cmocka_unit_test(aliases_share_a_digest),
        cmocka_unit_test(what_is_known_lasts_a_minute),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(there_is_a_limit_to_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
