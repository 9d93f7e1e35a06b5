/* Whether a tokenizer belongs to a text encoder: by the rows of its table, and by the vocabulary that a GGUF file has.
 */
#include "gguf_maker.h"
#include "pipelines/qwen_tokenizer.h"
#include "text_golden.h"

enum { PADDED = 151936 };

/* The published vocabulary as GGUF files list it: ordinary tokens, added ones, padding. */
static void list_tokens(const kn_tokenizer *published, const published_vocabulary *v, const char *list[PADDED]) {
    for (size_t id = 0; id < PADDED; id++)
        list[id] = id < PUBLISHED_TOKENS ? v->token[id].text : "[PAD]";
    for (size_t i = 0; i < kn_tokenizer_added_count(published); i++) {
        const kn_added_token *a = kn_tokenizer_added_at(published, i);
        list[a->id] = a->content;
    }
}

/* What fits says of a GGUF file with so many of the tokens. */
static bool fits(const kn_tokenizer *t, const char *pre, const char *const *token, size_t count, kn_error *err) {
    gguf_maker m;
    kn_buf file;
    gguf_begin(&m, 1, 3);
    gguf_pair_text(&m, "tokenizer.ggml.model", "gpt2");
    gguf_pair_text(&m, "tokenizer.ggml.pre", pre);
    gguf_pair_texts(&m, "tokenizer.ggml.tokens", token, count);
    gguf_tensor(&m, "token_embd.weight", 0, 8, 0, 32);
    gguf_end(&m, &file);
    kn_component text = { 0 };
    *err = (kn_error){ 0 };
    if (!kn_weights_open_bytes((const uint8_t *)file.data, file.len, &text.file, err))
        fail_msg("%s", err->text);
    bool ok = kn_qwen_tokenizer_fits(t, &text, PADDED, err);
    kn_weights_close(text.file);
    kn_buf_free(&file);
    return ok;
}

static void a_file_that_lists_another_vocabulary_is_refused(void **state) {
    (void)state;
    kn_tokenizer *t = NULL;
    kn_error err = { 0 };
    assert_true(kn_tokenizer_open_published(&t, &err));
    static const char *token[PADDED];
    published_vocabulary *v = published_vocabulary_new();
    list_tokens(t, v, token);
    if (!fits(t, "qwen2", token, PADDED, &err))
        fail_msg("%s", err.text);
    for (size_t id = PUBLISHED_TOKENS + 22; id < PADDED; id++) /* as of Qwen2.5, which lacks the last four */
        token[id] = "[PAD]";
    if (!fits(t, "qwen2", token, PADDED, &err))
        fail_msg("%s", err.text);
    assert_false(fits(t, "qwen2", token, PUBLISHED_TOKENS, &err));
    assert_string_equal(err.text,
                        "tokenizer: the built-in one has 151669 tokens, the text encoder's file lists 151643; name "
                        "the tokenizer that comes with it, by --tokenizer-path or in the profile");
    assert_false(fits(t, "llama-bpe", token, PADDED, &err));
    assert_string_equal(err.text, "text encoder: its file has the tokenizer.ggml.pre 'llama-bpe', 'qwen2' is needed");
    const char *kept = token[151645];
    token[151645] = "<|eot_id|>";
    assert_false(fits(t, "qwen2", token, PADDED, &err));
    assert_string_equal(err.text,
                        "tokenizer: token 151645 of the built-in one is not '<|eot_id|>', as the text encoder's file "
                        "has it; name the tokenizer that comes with it, by --tokenizer-path or in the profile");
    token[151645] = kept;
    memmove(&token[1001], &token[1000], 150000 * sizeof token[0]); /* one more than there was */
    assert_false(fits(t, "qwen2", token, PADDED, &err));
    assert_non_null(strstr(err.text, "of the built-in one is not '"));
    published_vocabulary_free(v);
    kn_tokenizer_close(t);
}

static void a_tokenizer_of_its_own_is_held_against_the_file_too(void **state) {
    (void)state;
    kn_component text = { 0 };
    kn_error err = { 0 };
    kn_tokenizer *own = golden_tokenizer("qwen21-e2e/tokenizer.json"), *other = golden_tokenizer("tokenizer-tiny");
    assert_true(kn_weights_open(golden_path("qwen21-e2e/text_encoder-Q8_0.gguf").path, &text.file, &err));
    if (!kn_qwen_tokenizer_fits(own, &text, 430, &err))
        fail_msg("%s", err.text);
    assert_false(kn_qwen_tokenizer_fits(other, &text, 4096, &err));
    assert_non_null(strstr(err.text, "; they do not belong together"));
    kn_weights_close(text.file);
    kn_tokenizer_close(own);
    kn_tokenizer_close(other);
}

static void a_table_with_too_few_rows_is_refused(void **state) {
    (void)state;
    kn_component text = { 0 };
    kn_error err = { 0 };
    kn_tokenizer *t = NULL;
    const kn_source nothing = { 0 };
    int32_t turn_start = 0;
    assert_true(kn_qwen_tokenizer_open(&nothing, &t, &turn_start, &err));
    assert_int_equal(turn_start, 151644);
    assert_true(kn_weights_open(golden_path("qwen21-e2e/text_encoder.safetensors").path, &text.file, &err));
    assert_true(kn_qwen_tokenizer_fits(t, &text, 151669, &err));
    assert_false(kn_qwen_tokenizer_fits(t, &text, 151668, &err));
    assert_string_equal(err.text,
                        "tokenizer: the built-in one has 151669 tokens, the text encoder's table only 151668; name "
                        "the tokenizer that comes with it, by --tokenizer-path or in the profile");
    kn_weights_close(text.file);
    kn_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_lists_another_vocabulary_is_refused),
        cmocka_unit_test(a_tokenizer_of_its_own_is_held_against_the_file_too),
        cmocka_unit_test(a_table_with_too_few_rows_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
