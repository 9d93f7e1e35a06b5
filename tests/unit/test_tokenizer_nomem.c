/* Fails every allocation in turn. Linked with --wrap for malloc, calloc, realloc and free; jansson is told to allocate
 * through them. Allocations that live are counted, so that a leak is seen without a sanitizer too. */
#include "text_golden.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static long alive;
static long until_failure = -1; /* allocations that still succeed; negative: all of them */

static bool fails_now(void) {
    return until_failure >= 0 && until_failure-- == 0;
}

static void *counted(void *p) {
    alive += p != NULL;
    return p;
}

void *__wrap_malloc(size_t n) {
    return fails_now() ? NULL : counted(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size) {
    return fails_now() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n) {
    if (fails_now())
        return NULL;
    void *grown = __real_realloc(p, n);
    alive += grown && !p;
    return grown;
}

void __wrap_free(void *p) {
    alive -= p != NULL;
    __real_free(p);
}

/* Opens a tokenizer and encodes a text that needs NFC, has added tokens and a long word. True when both succeeded. */
static bool open_and_encode(const kn_tokenizer_files *files, kn_error *err) {
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

static void fail_each_allocation(const kn_tokenizer_files *files) {
    long before = alive;
    kn_error err = { 0 };
    assert_true(open_and_encode(files, &err));
    assert_int_equal(alive, before);
    for (long n = 0;; n++) {
        assert_true(n < 100000);
        err = (kn_error){ 0 };
        until_failure = n;
        bool ok = open_and_encode(files, &err);
        bool failed = until_failure < 0;
        until_failure = -1;
        assert_int_equal(alive, before);
        if (!failed) {
            assert_true(ok);
            assert_true(n > 30); /* there was something to fail */
            return;
        }
        if (ok)
            fail_msg("allocation %ld failed unnoticed", n);
        if (err.code != KN_E_NOMEM)
            fail_msg("allocation %ld: error %d '%s'", n, (int)err.code, err.text);
    }
}

static void an_allocation_that_fails_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    kn_buf vocab, merges, config, json;
    golden_read("tokenizer-demo/vocab.json", &vocab);
    golden_read("tokenizer-demo/merges.txt", &merges);
    golden_read("tokenizer-demo/tokenizer_config.json", &config);
    golden_read("tokenizer-demo/tokenizer.json", &json);
    json_set_alloc_funcs(malloc, free);
    fail_each_allocation(&(kn_tokenizer_files){
        .vocab = golden_bytes(&vocab), .merges = golden_bytes(&merges), .config = golden_bytes(&config) });
    fail_each_allocation(&(kn_tokenizer_files){ .json = golden_bytes(&json) });
    kn_buf_free(&vocab);
    kn_buf_free(&merges);
    kn_buf_free(&config);
    kn_buf_free(&json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocation_that_fails_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
