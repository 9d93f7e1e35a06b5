/* A tokenizer is opened, used and closed with every allocation failing in turn. */
#include "failing_alloc.h"
#include "text_golden.h"

/* Opens a tokenizer and encodes a text that needs NFC, has added tokens and a long word. True when both succeeded. */
static bool open_and_encode(void *files, kn_error *err) {
    static const char text[] = "<|im_start|>user\ncafe\u0301 \u1112\u1161\u11ab "
                               "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                               "a red boat on a quiet lake at dawn<|im_end|>";
    kn_tokenizer *t = NULL;
    if (!kn_tokenizer_open_bytes(files, &t, err)) {
        assert_null(t);
        return false;
    }
    kn_tokens tokens = { 0 };
    bool ok = kn_tokenizer_encode(t, text, sizeof text - 1, false, &tokens, err);
    assert_true(ok || !tokens.id);
    kn_tokens_free(&tokens);
    kn_tokenizer_close(t);
    return ok;
}

static void an_allocation_that_fails_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    kn_buf vocab, merges, config, json;
    golden_read("tokenizer-demo/vocab.json", &vocab);
    golden_read("tokenizer-demo/merges.txt", &merges);
    golden_read("tokenizer-demo/tokenizer_config.json", &config);
    golden_read("tokenizer-demo/tokenizer.json", &json);
    kn_tokenizer_files three = { .vocab = golden_bytes(&vocab),
                                 .merges = golden_bytes(&merges),
                                 .config = golden_bytes(&config) };
    kn_tokenizer_files one = { .json = golden_bytes(&json) };
    alloc_fail_each(open_and_encode, &three, 31, 100000);
    alloc_fail_each(open_and_encode, &one, 31, 100000);
    kn_buf_free(&vocab);
    kn_buf_free(&merges);
    kn_buf_free(&config);
    kn_buf_free(&json);
}

static bool open_built_in(void *ctx, kn_error *err) {
    (void)ctx;
    static const kn_token_text token = { 1000, "x", 1 };
    kn_tokenizer *t = NULL;
    size_t first = 0;
    bool ok = kn_tokenizer_open_published(&t, err) && kn_tokenizer_compare(t, &token, 1, &first, err);
    kn_tokenizer_close(t);
    return ok;
}

static void so_it_is_with_the_built_in_one(void **state) {
    (void)state;
    alloc_fail_each(open_built_in, NULL, 31, 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocation_that_fails_is_an_error_and_leaks_nothing),
        cmocka_unit_test(so_it_is_with_the_built_in_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
