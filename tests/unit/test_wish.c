/* What requests ask of models, and what models say of themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/wish.h"

static const struct row {
    const char *body;
    kn_input input;
    bool native, clear;
    kn_wish wish;
} rows[] = {
#define BARE                                                                                                           \
    { .model = "tiny" }
    { "{\"model\":\"tiny\"}", KN_INPUT_PROMPT, true, true, BARE },
    { "{\"model\":\"tiny\",\"prompt\":\"\"}", KN_INPUT_PROMPT, true, true, BARE },
    { "{\"model\":\"tiny\",\"prompt\":null}", KN_INPUT_PROMPT, true, true, BARE },
    { "{\"model\":\"tiny\",\"messages\":[ \n]}", KN_INPUT_MESSAGES, true, true, BARE },
    { "{\"MODEL\":\"tiny\",\"Prompt\":\"x\"}", KN_INPUT_PROMPT, true, true, { .model = "tiny", .has_input = true } },
    { "{\"input\":[1],\"model\":\"a/b:7b\"}", KN_INPUT_INPUT, true, true, { .model = "a/b:7b", .has_input = true } },
    { "{\"model\":\"tiny\",\"prompt\":\"x\"}", KN_INPUT_INPUT, true, true, BARE },
    { "{\"model\":\"tiny\",\"messages\":[{\"content\":\"\"}]}",
      KN_INPUT_MESSAGES,
      true,
      true,
      { .model = "tiny", .has_input = true } },
    /* options, where they mean something */
    { "{\"options\":{\"num_ctx\":4096,\"seed\":1},\"model\":\"tiny\"}",
      KN_INPUT_PROMPT,
      true,
      true,
      { .model = "tiny", .context_length = 4096 } },
    { "{\"options\":{\"num_ctx\":4096,\"num_gpu\":1},\"model\":\"tiny\"}", KN_INPUT_PROMPT, false, true, BARE },
    { "{\"options\":{\"num_gpu\":0},\"model\":\"tiny\"}",
      KN_INPUT_PROMPT,
      true,
      true,
      { .model = "tiny", .loads_otherwise = true } },
    { "{\"options\":{\"Num_Thread\":4},\"model\":\"tiny\"}",
      KN_INPUT_PROMPT,
      true,
      true,
      { .model = "tiny", .loads_otherwise = true } },
    { "{\"options\":{\"num_gpu\":null,\"num_ctx\":null},\"model\":\"tiny\"}", KN_INPUT_PROMPT, true, true, BARE },
    { "{\"options\":null,\"model\":\"tiny\"}", KN_INPUT_PROMPT, true, true, BARE },
    { "{\"x\":{\"options\":{\"num_gpu\":1},\"model\":\"other\"},\"model\":\"tiny\"}", KN_INPUT_PROMPT, true, true,
      BARE },
    /* keep_alive, in every form of nothing */
    { "{\"model\":\"tiny\",\"keep_alive\":0}", KN_INPUT_PROMPT, true, true, { .model = "tiny", .at_once = true } },
    { "{\"model\":\"tiny\",\"keep_alive\":-0.00}", KN_INPUT_PROMPT, true, true, { .model = "tiny", .at_once = true } },
    { "{\"model\":\"tiny\",\"keep_alive\":0e9}", KN_INPUT_PROMPT, true, true, { .model = "tiny", .at_once = true } },
    { "{\"model\":\"tiny\",\"keep_alive\":\"0s\"}", KN_INPUT_PROMPT, true, true, { .model = "tiny", .at_once = true } },
    { "{\"model\":\"tiny\",\"keep_alive\":\"0h0.0m\"}",
      KN_INPUT_PROMPT,
      true,
      true,
      { .model = "tiny", .at_once = true } },
    { "{\"model\":\"tiny\",\"keep_alive\":\"0h5m\"}", KN_INPUT_PROMPT, true, true, BARE },
    { "{\"model\":\"tiny\",\"keep_alive\":-1}", KN_INPUT_PROMPT, true, true, BARE },
    { "{\"model\":\"tiny\",\"keep_alive\":null}", KN_INPUT_PROMPT, true, true, BARE },
    { "{\"model\":\"tiny\",\"keep_alive\":0}", KN_INPUT_PROMPT, false, true, BARE },
    /* what counts of what comes twice, and what comes behind */
    { "{\"model\":\"other\",\"Model\":\"tiny\"}", KN_INPUT_PROMPT, true, true, BARE },
    { "{\"model\":\"tiny\",\"model\":null}", KN_INPUT_PROMPT, true, true, BARE },
    { "{\"model\":\"tiny\"} {}", KN_INPUT_PROMPT, true, true, BARE },
    { "{\"model\":\"tiny\"}]", KN_INPUT_PROMPT, true, true, BARE },
    /* no wishes */
    { "", KN_INPUT_PROMPT, true, false, BARE },
    { "not json", KN_INPUT_PROMPT, true, false, BARE },
    { "[]", KN_INPUT_PROMPT, true, false, BARE },
    { "{}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"prompt\":\"x\"}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"\"}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":7}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\" tiny\"}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"t\xc3\xafny\"}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":null}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\"", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\",}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\",\"Model\":\"\"}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\",\"prompt\":\"\",\"prompt\":\"x\"}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\",\"option\u017F\":{\"num_gpu\":1}}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\",\"\u212Aeep_alive\":0}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\",\"option\\u017F\":{\"num_gpu\":1}}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\",\"options\":{},\"OPTIONS\":{}}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\",\"options\":{\"num_ctx\":1,\"NUM_CTX\":2}}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\",\"options\":{\"num_ctx\":1.5}}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\",\"options\":{\"num_ctx\":-1}}", KN_INPUT_PROMPT, true, false, BARE },
    { "{\"model\":\"tiny\",\"options\":[1]}", KN_INPUT_PROMPT, true, false, BARE },
};

static void a_request_is_read_as_the_upstream_reads_it_or_not_at_all(void **state) {
    (void)state;
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        const struct row *r = &rows[i];
        kn_wish w = { .model = "tiny" };
        bool clear = kn_wish_read((kn_span){ r->body, strlen(r->body) }, r->input, r->native, &w);
        if (clear != r->clear || strcmp(w.model, r->wish.model) != 0 || w.has_input != r->wish.has_input ||
            w.at_once != r->wish.at_once || w.context_length != r->wish.context_length ||
            w.loads_otherwise != r->wish.loads_otherwise)
            fail_msg("%s: %s %d %d %d %d", r->body, w.model, w.has_input, w.at_once, (int)w.context_length,
                     w.loads_otherwise);
    }
}

static void names_of_models_end_somewhere(void **state) {
    (void)state;
    char body[400];
    kn_wish w;
    for (int len = KN_MODEL_NAME_MAX; len <= KN_MODEL_NAME_MAX + 1; len++) {
        snprintf(body, sizeof body, "{\"model\":\"%0*d\"}", len, 0);
        assert_int_equal(kn_wish_read((kn_span){ body, strlen(body) }, KN_INPUT_PROMPT, true, &w),
                         len == KN_MODEL_NAME_MAX);
    }
}

static void clouds_are_known_by_their_tags(void **state) {
    (void)state;
    static const char *const clouds[] = { "x:cloud", "x:Cloud", "a/x:20b-cloud", "x:a-CLOUD" };
    static const char *const others[] = { "cloud",           "x", "x:7b", "x-cloud", "x:cloudy", "x:-clou", "x:xcloud",
                                          "host:80/x-cloud", "" };
    for (size_t i = 0; i < KN_COUNT(clouds); i++)
        if (!kn_name_is_cloud(clouds[i]))
            fail_msg("%s", clouds[i]);
    for (size_t i = 0; i < KN_COUNT(others); i++)
        if (kn_name_is_cloud(others[i]))
            fail_msg("%s", others[i]);
}

static void names_that_are_local_are_known_by_their_tags(void **state) {
    (void)state;
    assert_true(kn_name_is_local("x:local"));
    assert_true(kn_name_is_local("a/x:7b:Local"));
    assert_false(kn_name_is_local("local"));
    assert_false(kn_name_is_local("x:local7"));
    assert_false(kn_name_is_local("h:local/a/x"));
}

/* As a running Ollama 0.17.4 tells them apart: of the others it says "model is required" or "unqualified name". */
static void names_have_parts_within_limits(void **state) {
    (void)state;
#define N10 "0123456789"
#define N80 N10 N10 N10 N10 N10 N10 N10 N10
    static const char *const good[] = { "m",        "_m",          "a.b",
                                        "m:7b-",    "a/m:x",       "a-b_c/m",
                                        "h/a/m",    "h:80/a/m",    "hf.co/a/b:Q4_K_M",
                                        (N80),      (N80 "/m"),    ("m:" N80),
                                        ("a/" N80), (N80 "1/a/m"), (N80 N80 "/a/m") };
    static const char *const bad[] = {
        "a/b/c/d", "a/b/c/d/e", "a//m",    "//m",          "/m",        "m/",           "a:b:c",
        "a:b/c",   "a.b/m",     "a/-m",    "-/a/m",        ":80/a/m",   "m:",           "m:-x",
        ".a/m",    "h/a/m:",    (N80 "1"), ("m:" N80 "1"), (N80 "1/m"), ("a/" N80 "1"), ("h/" N80 "1/m")
    };
#undef N10
#undef N80
    for (size_t i = 0; i < KN_COUNT(good); i++)
        if (!kn_name_is_well_formed(good[i]))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < KN_COUNT(bad); i++)
        if (kn_name_is_well_formed(bad[i]))
            fail_msg("%s", bad[i]);
}

#define BLOB(digit) "sha256-" digit digit digit digit digit digit digit digit
#define A           "aaaaaaaa"
#define B           "00000001"

static kn_model_facts facts_of(const char *json) {
    kn_model_facts f;
    kn_error err = { 0 };
    if (!kn_model_facts_read(json, strlen(json), &f, &err))
        fail_msg("%s: %s", json, err.text);
    return f;
}

static void a_description_tells_contexts(void **state) {
    (void)state;
    kn_model_facts f = facts_of("{\"parameters\":\"stop x\\nnum_ctx            4096\\nseed 1\",\"model_info\":{"
                                "\"bert.context_length\":512,\"clip.vision.context_length\":7,"
                                "\"general.architecture\":\"bert\",\"tokens\":null}}");
    assert_int_equal(f.trained_context, 512);
    assert_int_equal(f.usual_context, 4096);
    f = facts_of("{\"parameters\":\"num_ctx many\\n\",\"model_info\":{\"a.context_length\":512}}");
    assert_int_equal(f.trained_context, 0);
    assert_int_equal(f.usual_context, 0);
    f = facts_of("{}");
    assert_string_equal(f.weights.text, "");
    assert_false(kn_model_facts_read("[1]", 3, &f, NULL));
}

static void models_of_the_same_weights_are_known_as_such(void **state) {
    (void)state;
    kn_model_facts one = facts_of("{\"modelfile\":\"# FROM a:latest\\n\\nFROM /m/blobs/" BLOB(A) "\\nSYSTEM x\\n\"}");
    kn_model_facts both = facts_of("{\"modelfile\":\"FROM /m/" BLOB(A) "\\nADAPTER /m/" BLOB(B) "\"}");
    kn_model_facts again = facts_of("{\"modelfile\":\"ADAPTER /n/" BLOB(B) "\\nSYSTEM FROM\\nFROM /n/" BLOB(A) "\"}");
    assert_string_equal(one.weights.text, A A A A A A A A);
    assert_string_not_equal(one.weights.text, both.weights.text);
    assert_string_equal(both.weights.text, again.weights.text);
    one = facts_of("{\"modelfile\":\"FROM llama3\\nFROM /m/sha256-12\\n\"}");
    assert_string_equal(one.weights.text, "");
}

static void the_context_is_what_was_asked_for_within_what_the_model_can(void **state) {
    (void)state;
    const kn_model_facts plain = { .trained_context = 0 }, small = { .trained_context = 2048, .usual_context = 1024 };
    const kn_wish nothing = { .context_length = 0 }, much = { .context_length = 8192 }, one = { .context_length = 1 };
    assert_int_equal(kn_wish_context(&nothing, &plain, 4096), 4096);
    assert_int_equal(kn_wish_context(&nothing, &small, 4096), 1024);
    assert_int_equal(kn_wish_context(&much, &plain, 4096), 8192);
    assert_int_equal(kn_wish_context(&much, &small, 4096), 2048);
    assert_int_equal(kn_wish_context(&one, &plain, 4096), KN_CONTEXT_MIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_as_the_upstream_reads_it_or_not_at_all),
        cmocka_unit_test(names_of_models_end_somewhere),
        cmocka_unit_test(clouds_are_known_by_their_tags),
        cmocka_unit_test(names_that_are_local_are_known_by_their_tags),
        cmocka_unit_test(names_have_parts_within_limits),
        cmocka_unit_test(a_description_tells_contexts),
        cmocka_unit_test(models_of_the_same_weights_are_known_as_such),
        cmocka_unit_test(the_context_is_what_was_asked_for_within_what_the_model_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
