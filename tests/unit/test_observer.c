/* What is learnt of a request that passes by, and that nothing else is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/observer.h"

static const struct {
    const char *json;
    kn_input input;
    kn_observed result;
    const char *name;
} rows[] = {
    { "{\"model\":\"tiny\",\"prompt\":\"hi\"}", KN_INPUT_PROMPT, KN_OBSERVED_MODEL, "tiny" },
    { " { \"prompt\" : \"hi\" , \"model\" : \"a/b:c-1.5_x\" } \r\n", KN_INPUT_PROMPT, KN_OBSERVED_MODEL,
      "a/b:c-1.5_x" },
    { "{\"MODEL\":\"tiny\",\"Prompt\":\"hi\"}", KN_INPUT_PROMPT, KN_OBSERVED_MODEL, "tiny" },
    { "{\"mod\\u0065l\":\"t\\u0069ny\",\"prompt\":\"\\\"\"}", KN_INPUT_PROMPT, KN_OBSERVED_MODEL, "tiny" },
    { "{\"model\":\"hf.co\\/x\\/y\",\"prompt\":\"\\\\\"}", KN_INPUT_PROMPT, KN_OBSERVED_MODEL, "hf.co/x/y" },
    { "{\"a\":{\"model\":\"no\",\"prompt\":\"\"},\"model\":\"tiny\",\"b\":[{\"model\":\"no\"}],\"prompt\":\"hi\"}",
      KN_INPUT_PROMPT, KN_OBSERVED_MODEL, "tiny" },
    { "{\"x\":-1.5e3,\"y\":true,\"z\":null,\"w\":[],\"v\":{},\"u\":\"}\",\"model\":\"m\",\"prompt\":\"p\"}",
      KN_INPUT_PROMPT, KN_OBSERVED_MODEL, "m" },
    { "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}", KN_INPUT_MESSAGES, KN_OBSERVED_MODEL,
      "m" },
    { "{\"model\":\"m\",\"input\":[\"\"]}", KN_INPUT_INPUT, KN_OBSERVED_MODEL, "m" },
    { "{\"model\":\"m\",\"input\":\"text\"}", KN_INPUT_INPUT, KN_OBSERVED_MODEL, "m" },
    { "{\"model\":\"m\",\"input\":[[1,2],[3]]}", KN_INPUT_INPUT, KN_OBSERVED_MODEL, "m" },
    { "{\"model\":\"m\",\"prompt\":\"x\"}{\"model\":\"n\"}", KN_INPUT_PROMPT, KN_OBSERVED_MODEL, "m" },
    { "{\"model\":\"m\",\"prompt\":\"x\"}\"", KN_INPUT_PROMPT, KN_OBSERVED_MODEL, "m" },
    { "{\"model\":\"m\",\"prompt\":\"x\",\"prompt\":null}", KN_INPUT_PROMPT, KN_OBSERVED_MODEL, "m" },
    /* loads and unloads */
    { "{\"model\":\"m\"}", KN_INPUT_PROMPT, KN_OBSERVED_NOTHING, NULL },
    { "{\"model\":\"m\",\"prompt\":\"\",\"keep_alive\":0}", KN_INPUT_PROMPT, KN_OBSERVED_NOTHING, NULL },
    { "{\"model\":\"m\",\"prompt\":null}", KN_INPUT_PROMPT, KN_OBSERVED_NOTHING, NULL },
    { "{\"model\":\"m\",\"messages\":[ \n ]}", KN_INPUT_MESSAGES, KN_OBSERVED_NOTHING, NULL },
    { "{\"model\":\"m\",\"prompt\":\"x\"}", KN_INPUT_MESSAGES, KN_OBSERVED_NOTHING, NULL },
    { "{\"model\":\"m\",\"prompts\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_NOTHING, NULL },
    { "{\"model\":\"m\",\"messages2\":[1],\"message\":[1]}", KN_INPUT_MESSAGES, KN_OBSERVED_NOTHING, NULL },
    { "{\"model\":\"m\",\"prompt\":\"x\",\"prompt\":\"\"}", KN_INPUT_PROMPT, KN_OBSERVED_NOTHING, NULL },
    { "{}", KN_INPUT_PROMPT, KN_OBSERVED_NOTHING, NULL },
    /* what cannot be told; what is named twice is not said of either */
    { "{\"model\":\"m\",\"model\":\"longer\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"longer\",\"Model\":\"n\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\",\"prompt\":\"x\",\"model\":null}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\" \",\"model\":\"m\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\",\"prompt\":\"x\"", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\",\"prompt\":\"x", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\",\"model\":\"\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\",\"model\":7,\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":7,\"model\":\"m\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"\\\"a\\\\b\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":7,\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":[\"m\"],\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m n\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\\u0000\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\\u00e9\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\\n\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\\x\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\\u00g0\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "[{\"model\":\"m\",\"prompt\":\"x\"}]", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\",\"prompt\":\"x\",}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\" \"m\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\" \"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "{\"model\":\"m\",\"x\":?,\"prompt\":\"x\"}", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
    { "\x1F\x8B\x08", KN_INPUT_PROMPT, KN_OBSERVED_UNCLEAR, NULL },
};

static void check(size_t i, const kn_observer *o, const char *how) {
    if (kn_observer_result(o) != rows[i].result || (rows[i].name && strcmp(o->name, rows[i].name) != 0))
        fail_msg("%s (%s): %d, '%s'", rows[i].json, how, kn_observer_result(o), o->name);
}

static void tells_uses_from_loads(void **state) {
    (void)state;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_observer o;
        kn_observer_begin(&o, rows[i].input);
        kn_observer_feed(&o, rows[i].json, strlen(rows[i].json));
        check(i, &o, "whole");
    }
}

static void it_does_not_matter_how_the_bytes_are_cut(void **state) {
    (void)state;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        size_t len = strlen(rows[i].json);
        for (size_t cut = 0; cut <= len; cut++) {
            kn_observer o;
            kn_observer_begin(&o, rows[i].input);
            kn_observer_feed(&o, rows[i].json, cut);
            kn_observer_feed(&o, rows[i].json + cut, len - cut);
            check(i, &o, "in two pieces");
        }
        kn_observer o;
        kn_observer_begin(&o, rows[i].input);
        for (size_t k = 0; k < len; k++)
            kn_observer_feed(&o, rows[i].json + k, 1);
        check(i, &o, "byte by byte");
    }
}

static void names_have_a_limit(void **state) {
    (void)state;
    for (size_t len = KN_MODEL_NAME_MAX - 1; len <= KN_MODEL_NAME_MAX + 1; len++) {
        char name[KN_MODEL_NAME_MAX + 2];
        memset(name, 'n', len);
        kn_observer o;
        kn_observer_begin(&o, KN_INPUT_PROMPT);
        kn_observer_feed(&o, "{\"model\":\"", 10);
        kn_observer_feed(&o, name, len);
        kn_observer_feed(&o, "\",\"prompt\":\"x\"}", 15);
        assert_int_equal(kn_observer_result(&o), len <= KN_MODEL_NAME_MAX ? KN_OBSERVED_MODEL : KN_OBSERVED_UNCLEAR);
        assert_int_equal(strlen(o.name), len <= KN_MODEL_NAME_MAX ? len : 0);
        assert_int_equal(kn_observer_naming(&o), len <= KN_MODEL_NAME_MAX ? KN_NAMING_MODEL : KN_NAMING_UNKNOWN);
    }
}

static void what_names_no_model_is_told_from_what_may_name_one(void **state) {
    (void)state;
    static const char *const nothing[] = { "",
                                           " ",
                                           "null",
                                           "[\"model\"]",
                                           "{}",
                                           "{\"prompt\":\"x\"}",
                                           "{\"model\":null}",
                                           "{\"model\":\"\"}",
                                           "{\"model\":\"a\\\"b\"}",
                                           "{\"model\":\"m\"",
                                           "{\"model\":\"m\",}",
                                           "{\"model\":\"m\",\"model\":\"\"}",
                                           "{\"model\":[\"m\"],\"model\":\"m\"}",
                                           "\xEF\xBB\xBF{\"model\":\"m\"}" };
    static const char *const model[] = { "{\"model\":\"m\"}", "{\"model\":\"\",\"model\":\"m\"} x",
                                         "{\"prompt\":[[{}]],\"model\":\"m\",\"model\":null}" };
    static const char *const unknown[] = { "{\"model\":\" m \"}", "{\"model\":\"m\\u00a0\"}",
                                           "{\"model\":\"https://h/a/m\"}" };
    const struct {
        const char *const *texts;
        size_t count;
        kn_naming naming;
    } lists[] = { { nothing, KN_COUNT(nothing), KN_NAMING_NOTHING },
                  { model, KN_COUNT(model), KN_NAMING_MODEL },
                  { unknown, KN_COUNT(unknown), KN_NAMING_UNKNOWN } };
    for (size_t i = 0; i < KN_COUNT(lists); i++) {
        for (size_t k = 0; k < lists[i].count; k++) {
            const char *json = lists[i].texts[k];
            kn_observer o;
            kn_observer_begin(&o, KN_INPUT_PROMPT);
            kn_observer_feed(&o, json, strlen(json));
            kn_naming naming = kn_observer_naming(&o);
            if (naming != lists[i].naming || (naming == KN_NAMING_MODEL && strcmp(o.name, "m") != 0))
                fail_msg("%s: %d, '%s'", json, naming, o.name);
        }
    }
}

static void names_are_of_the_letters_that_names_have(void **state) {
    (void)state;
    static const char *const possible[] = { "m", "_m", "9", "a/b:c-1.5_x", "hf.co/a/b:Q4_K_M", "h:1/a/b:c", "m:7b-" };
    static const char *const others[] = { "",    " ",        "m ",   "a b",       "a\"b", "a+b",  "n\xC3\xA9",
                                          "m\n", "\1",       ":tag", "m:",        "m/",   "/m",   "../m",
                                          ".m",  "-m",       "a@b",  "x://h/a/b", "a,b",  "a\\b", "a*",
                                          "m?",  "\xC5\xBF", "{}",   "\x7F" };
    for (size_t i = 0; i < KN_COUNT(possible); i++)
        if (!kn_name_is_possible(possible[i]))
            fail_msg("%s", possible[i]);
    for (size_t i = 0; i < KN_COUNT(others); i++)
        if (kn_name_is_possible(others[i]))
            fail_msg("%s", others[i]);
}

/* The observer's memory after a request in which a word stands wherever people write. */
static void nothing_that_people_write_is_kept(void **state) {
    (void)state;
    static const char json[] =
        "{\"canary\":\"canary\",\"system\":\"canary\",\"prompt\":\"canary\",\"images\":[\"canary\",{\"canary\":"
        "\"canary\"}],\"context\":[1],\"canarycanary\":0,\"options\":{\"stop\":[\"canary\"]},\"model\":\"tiny\"}";
    for (size_t end = 0; end < sizeof json; end++) {
        kn_observer o;
        kn_observer_begin(&o, KN_INPUT_PROMPT);
        kn_observer_feed(&o, json, end);
        /* A key is there until the next; that is no content. */
        memset(o.key, 0, sizeof o.key);
        assert_null(memmem(&o, sizeof o, "can", 3));
    }
}

static void nested_input_of_any_size_is_stepped_over(void **state) {
    (void)state;
    enum { LEVELS = 1 << 20 };
    char *text = malloc(LEVELS);
    assert_non_null(text);
    kn_observer o;
    kn_observer_begin(&o, KN_INPUT_PROMPT);
    kn_observer_feed(&o, "{\"x\":", 5);
    memset(text, '[', LEVELS);
    kn_observer_feed(&o, text, LEVELS);
    memset(text, ']', LEVELS);
    kn_observer_feed(&o, text, LEVELS);
    kn_observer_feed(&o, ",\"prompt\":\"", 11);
    memset(text, '\\', LEVELS); /* an even number of them */
    kn_observer_feed(&o, text, LEVELS);
    kn_observer_feed(&o, "\\\"\",\"model\":\"m\"}", 16);
    assert_int_equal(kn_observer_result(&o), KN_OBSERVED_MODEL);
    assert_string_equal(o.name, "m");
    free(text);
    assert_true(sizeof o < 400);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_uses_from_loads),
        cmocka_unit_test(it_does_not_matter_how_the_bytes_are_cut),
        cmocka_unit_test(names_have_a_limit),
        cmocka_unit_test(what_names_no_model_is_told_from_what_may_name_one),
        cmocka_unit_test(names_are_of_the_letters_that_names_have),
        cmocka_unit_test(nothing_that_people_write_is_kept),
        cmocka_unit_test(nested_input_of_any_size_is_stepped_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
