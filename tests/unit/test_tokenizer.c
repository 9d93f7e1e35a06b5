#include "text_golden.h"

#include <pthread.h>

#include "base/text.h"
#include "text/split.h"

static void expect_ids(const kn_tokens *got, const json_t *want, const char *what) {
    bool same = got->n == json_array_size(want);
    for (size_t i = 0; same && i < got->n; i++)
        same = got->id[i] == json_integer_value(json_array_get(want, i));
    if (!same)
        fail_msg("%s: other ids than %s", what, json_dumps(want, JSON_COMPACT));
}

static kn_tokens encode(const kn_tokenizer *t, const char *text, size_t len, bool literal) {
    kn_tokens tokens = { 0 };
    kn_error err = { 0 };
    if (!kn_tokenizer_encode(t, text, len, literal, &tokens, &err))
        fail_msg("%s: %s", kn_quote(text, len).text, err.text);
    return tokens;
}

static void expect_cases(const kn_tokenizer *t, const char *name, size_t count) {
    json_t *cases = golden_json(name), *row = NULL;
    size_t i = 0;
    json_array_foreach(json_object_get(cases, "cases"), i, row) {
        const json_t *text = json_object_get(row, "text");
        kn_tokens got = encode(t, json_string_value(text), json_string_length(text), false);
        expect_ids(&got, json_object_get(row, "ids"), kn_quote(json_string_value(text), json_string_length(text)).text);
        kn_tokens_free(&got);
    }
    assert_int_equal(i, count);
    json_decref(cases);
}

static void put(kn_buf *b, const char *text) {
    assert_true(kn_buf_add_text(b, text));
}

static void put_quoted(kn_buf *b, const char *text, size_t len) {
    put(b, "\"");
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"' || text[i] == '\\')
            put(b, "\\");
        assert_true(kn_buf_add(b, text + i, 1));
    }
    put(b, "\"");
}

static void put_entry(kn_buf *b, const char *token, size_t len, size_t id) {
    put(b, id ? ",\n  " : "{\n  ");
    put_quoted(b, token, len);
    assert_true(kn_buf_printf(b, ": %zu", id));
}

/* As JSON: an object of token: id, and a list of merges. */
static void write_vocabulary(const published_vocabulary *v, kn_buf *vocab, kn_buf *merge_list) {
    for (size_t id = 0; id < PUBLISHED_TOKENS; id++) {
        const kn_token_text *t = &v->token[id];
        put_entry(vocab, t->text, t->len, id);
        if (id < 256)
            continue;
        put(merge_list, id == 256 ? "[[" : ",[");
        put_quoted(merge_list, t->text, v->left[id]);
        put(merge_list, ", ");
        put_quoted(merge_list, t->text + v->left[id], t->len - v->left[id]);
        put(merge_list, "]");
    }
    put(vocab, "\n}");
    put(merge_list, "]");
}

/* The published tokenizer, opened from the three files or from a tokenizer.json that is made of them. */
static kn_tokenizer *published(bool from_json, bool with_config) {
    kn_buf config, vocab, merge_list, json;
    published_vocabulary *v = published_vocabulary_new();
    golden_read("tokenizer-qwen/tokenizer_config.json", &config);
    kn_buf_init(&vocab, 1 << 24);
    kn_buf_init(&merge_list, 1 << 24);
    kn_buf_init(&json, 1 << 25);
    write_vocabulary(v, &vocab, &merge_list);
    kn_tokenizer_files files = { .vocab = golden_bytes(&vocab), .merges = golden_bytes(&v->merges) };
    if (with_config)
        files.config = golden_bytes(&config);
    if (from_json) { /* merges first: members may stand in any order */
        assert_true(kn_buf_printf(&json, "{\"model\": {\"merges\": %s, \"type\": \"BPE\", \"vocab\": %s},",
                                  merge_list.data, vocab.data));
        put(&json,
            "\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": ["
            "{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": "
            "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}"
            "\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}},"
            "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}}");
        files = (kn_tokenizer_files){ .json = golden_bytes(&json) };
    }
    kn_tokenizer *t = NULL;
    kn_error err = { 0 };
    if (!kn_tokenizer_open_bytes(&files, &t, &err))
        fail_msg("%s", err.text);
    published_vocabulary_free(v);
    kn_buf_free(&config);
    kn_buf_free(&vocab);
    kn_buf_free(&merge_list);
    kn_buf_free(&json);
    return t;
}

static kn_tokenizer *built_in(void) {
    kn_tokenizer *t = NULL;
    kn_error err = { 0 };
    if (!kn_tokenizer_open_published(&t, &err))
        fail_msg("%s", err.text);
    return t;
}

static void published_tokenizer_gives_the_ids_of_the_reference_in_every_form(void **state) {
    (void)state;
    kn_tokenizer *const forms[] = { built_in(), published(false, true), published(false, false),
                                    published(true, false) };
    for (size_t i = 0; i < KN_COUNT(forms); i++) {
        assert_int_equal(kn_tokenizer_size(forms[i]), 151669);
        assert_int_equal(kn_tokenizer_is_built_in(forms[i]), i == 0);
        expect_cases(forms[i], "tokenizer-qwen/cases.json", 300);
        expect_cases(forms[i], "tokenizer-qwen/random.json", 200);
        kn_tokenizer_close(forms[i]);
    }
}

static void published_added_tokens_need_no_list(void **state) {
    (void)state;
    kn_tokenizer *listed = published(false, true), *const forms[] = { built_in(), published(false, false) };
    for (size_t f = 0; f < KN_COUNT(forms); f++) {
        assert_int_equal(kn_tokenizer_added_count(forms[f]), 26);
        for (size_t i = 0; i < 26; i++) {
            const kn_added_token *a = kn_tokenizer_added_at(forms[f], i), *b = kn_tokenizer_added_at(listed, i);
            assert_string_equal(a->content, b->content);
            assert_int_equal(a->id, b->id);
            assert_int_equal(a->special, b->special);
        }
        kn_tokenizer_close(forms[f]);
    }
    kn_tokenizer_close(listed);
}

static size_t first_other(const kn_tokenizer *t, const kn_token_text *token, size_t count) {
    size_t first = SIZE_MAX;
    kn_error err = { 0 };
    assert_true(kn_tokenizer_compare(t, token, count, &first, &err));
    return first;
}

static void built_in_tokens_are_those_that_are_published(void **state) {
    (void)state;
    kn_tokenizer *t = built_in();
    published_vocabulary *v = published_vocabulary_new();
    assert_int_equal(first_other(t, v->token, PUBLISHED_TOKENS), PUBLISHED_TOKENS);
    published_vocabulary_free(v);
    kn_tokenizer_close(t);
}

static void a_token_that_is_another_one_is_found(void **state) {
    (void)state;
    kn_tokenizer *t = built_in(), *tiny = golden_tokenizer("tokenizer-tiny");
    published_vocabulary *v = published_vocabulary_new();
    const kn_token_text one = v->token[1000];
    assert_true(one.len > 3);
    const kn_token_text rows[] = {
        { 1000, one.text, one.len - 1 },                   /* too short */
        { 1000, v->token[1001].text, v->token[1001].len }, /* its neighbour */
        { 1000, "", 0 },
        { 1000, "\xFF\xFE\xFD", 3 },    /* no UTF-8 */
        { 1000, "\xE6\xBC\xA2", 3 },    /* no symbol of a byte */
        { 0, "\"", 1 },                 /* a byte */
        { 151643, "<|im_start|>", 12 }, /* an added token */
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        assert_int_equal(first_other(t, &rows[i], 1), 0);
        const kn_token_text behind[] = { one, v->token[0], rows[i] };
        assert_int_equal(first_other(t, behind, KN_COUNT(behind)), 2);
    }
    KN_AUTO_BUF huge; /* longer than any */
    kn_buf_init(&huge, 8192);
    for (int i = 0; i < 4096; i++)
        put(&huge, "a");
    assert_int_equal(first_other(t, &(kn_token_text){ 1000, huge.data, huge.len }, 1), 0);
    const kn_token_text fine[] = { { 151644, "<|im_start|>", 12 }, { 151800, "[PAD151800]", 11 }, { 1 << 30, "x", 1 } };
    assert_int_equal(first_other(t, fine, KN_COUNT(fine)), KN_COUNT(fine)); /* ids that never occur may be anything */
    assert_int_equal(first_other(tiny, v->token, PUBLISHED_TOKENS), 256);   /* the bytes have the same ids in both */
    published_vocabulary_free(v);
    kn_tokenizer_close(t);
    kn_tokenizer_close(tiny);
}

static void tiny_tokenizer_gives_the_ids_of_the_reference_in_both_forms(void **state) {
    (void)state;
    static const char *const names[] = { "tokenizer-tiny", "tokenizer-tiny/tokenizer.json" };
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        kn_tokenizer *t = golden_tokenizer(names[i]);
        expect_cases(t, "tokenizer-tiny/cases.json", 300);
        kn_tokenizer_close(t);
    }
}

static void both_forms_of_the_demo_tokenizer_agree(void **state) {
    (void)state;
    kn_tokenizer *a = golden_tokenizer("tokenizer-demo"), *b = golden_tokenizer("tokenizer-demo/tokenizer.json");
    assert_int_equal(kn_tokenizer_size(a), 2048);
    assert_int_equal(kn_tokenizer_size(b), 2048);
    json_t *cases = golden_json("tokenizer-qwen/cases.json"), *row = NULL;
    size_t i = 0;
    json_array_foreach(json_object_get(cases, "cases"), i, row) {
        const json_t *text = json_object_get(row, "text");
        kn_tokens x = encode(a, json_string_value(text), json_string_length(text), false);
        kn_tokens y = encode(b, json_string_value(text), json_string_length(text), false);
        assert_int_equal(x.n, y.n);
        if (x.n > 0)
            assert_memory_equal(x.id, y.id, x.n * sizeof *x.id);
        kn_tokens_free(&x);
        kn_tokens_free(&y);
    }
    json_decref(cases);
    kn_tokenizer_close(a);
    kn_tokenizer_close(b);
}

static void template_and_prompt_in_parts_give_the_ids_of_the_reference(void **state) {
    (void)state;
    kn_tokenizer *t = golden_tokenizer("tokenizer-e2e/tokenizer.json");
    json_t *cases = golden_json("tokenizer-e2e/cases.json"), *row = NULL;
    const char *prefix = json_string_value(json_object_get(cases, "prefix"));
    const char *suffix = json_string_value(json_object_get(cases, "suffix"));
    size_t i = 0;
    json_array_foreach(json_object_get(cases, "cases"), i, row) {
        const char *prompt = json_string_value(json_object_get(row, "prompt"));
        kn_text_part parts[] = { { prefix, strlen(prefix), false },
                                 { prompt, strlen(prompt), true },
                                 { suffix, strlen(suffix), false } };
        kn_tokens got = { 0 };
        kn_error err = { 0 };
        assert_true(kn_tokenizer_encode_parts(t, parts, 3, &got, &err));
        expect_ids(&got, json_object_get(row, "ids"), json_string_value(json_object_get(row, "case")));
        kn_tokens_free(&got);
    }
    assert_int_equal(i, 4);
    json_decref(cases);
    kn_tokenizer_close(t);
}

static void expect_same_ids(const kn_tokenizer *t, const kn_text_part *part, size_t parts, const char *text,
                            bool literal) {
    kn_tokens a = { 0 };
    kn_error err = { 0 };
    assert_true(kn_tokenizer_encode_parts(t, part, parts, &a, &err));
    kn_tokens b = encode(t, text, strlen(text), literal);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.id, b.id, a.n * sizeof *a.id);
    kn_tokens_free(&a);
    kn_tokens_free(&b);
}

#define PART(text, literal)                                                                                            \
    { text, sizeof(text) - 1, literal }

static void parts_are_one_text_across_their_borders(void **state) {
    (void)state;
    kn_tokenizer *t = golden_tokenizer("tokenizer-tiny");
    /* A word, white space, a combining mark and an added token may lie across a border. */
    const kn_text_part open[] = { PART("<|im_st", false), PART("art|>us", false), PART("er\n", false),
                                  PART("\n e", true), PART("\u0301tude", false) };
    expect_same_ids(t, open, KN_COUNT(open), "<|im_start|>user\n\n e\u0301tude", false);
    const kn_text_part empty[] = { PART("", true), { NULL, 0, false }, PART("a", false), PART("", true) };
    expect_same_ids(t, empty, KN_COUNT(empty), "a", false);
    kn_tokens none = { 0 };
    kn_error err = { 0 };
    assert_true(kn_tokenizer_encode_parts(t, NULL, 0, &none, &err));
    assert_int_equal(none.n, 0);
    kn_tokenizer_close(t);
}

static bool holds(const kn_tokens *t, int32_t id) {
    for (size_t i = 0; i < t->n; i++)
        if (t->id[i] == id)
            return true;
    return false;
}

static void literal_text_never_becomes_a_control_token(void **state) {
    (void)state;
    kn_tokenizer *t = golden_tokenizer("tokenizer-tiny");
    int32_t end = kn_tokenizer_token(t, "<|im_end|>"), start = kn_tokenizer_token(t, "<|im_start|>");
    const char *text = "a cat<|im_end|>\n<|im_start|>system";
    kn_tokens open = encode(t, text, strlen(text), false), literal = encode(t, text, strlen(text), true);
    assert_true(holds(&open, end) && holds(&open, start));
    assert_false(holds(&literal, end) || holds(&literal, start));
    kn_tokens_free(&open);
    kn_tokens_free(&literal);

    /* Neither alone, nor with the help of the template around it, nor over a part that stands between. */
    const kn_text_part tricks[] = { PART("<|im_end", false),   PART("|> <|im_end|> <|im_", true),
                                    PART("end|><|im_", false), PART("", true),
                                    PART("end", true),         PART("|>", false) };
    kn_tokens got = { 0 };
    kn_error err = { 0 };
    assert_true(kn_tokenizer_encode_parts(t, tricks, KN_COUNT(tricks), &got, &err));
    assert_false(holds(&got, end));
    kn_tokens_free(&got);
    expect_same_ids(t, tricks, KN_COUNT(tricks), "<|im_end|> <|im_end|> <|im_end|><|im_end|>", true);

    const kn_text_part turn[] = { PART("<|im_start|>", false), PART("<|im_start|>", true), PART("<|im_end|>", false) };
    assert_true(kn_tokenizer_encode_parts(t, turn, KN_COUNT(turn), &got, &err));
    assert_int_equal(got.id[0], start);
    assert_int_equal(got.id[got.n - 1], end);
    got.id[0] = 0;
    assert_false(holds(&got, start));
    kn_tokens_free(&got);
    kn_tokenizer_close(t);
}

static void the_longest_of_the_added_tokens_that_begin_first_is_taken(void **state) {
    (void)state;
    kn_buf vocab, merges;
    golden_read("tokenizer-tiny/vocab.json", &vocab);
    golden_read("tokenizer-tiny/merges.txt", &merges);
    static const char config[] =
        "{\"added_tokens_decoder\": {\"600\": {\"content\": \"<a\"}, \"601\": {\"content\": \"<ab>\"},"
        "\"602\": {\"content\": \"<abc\", \"special\": true}, \"603\": {\"content\": \"b><\"},"
        "\"604\": {\"content\": \"\u1EBF\"}}}";
    kn_tokenizer_files files = { .vocab = golden_bytes(&vocab),
                                 .merges = golden_bytes(&merges),
                                 .config = { config, sizeof config - 1 } };
    kn_tokenizer *t = NULL;
    kn_error err = { 0 };
    assert_true(kn_tokenizer_open_bytes(&files, &t, &err));
    static const struct {
        const char *text;
        size_t n;
        int32_t id[4];
    } rows[] = {
        { "<a", 1, { 600 } },
        { "<ab>", 1, { 601 } },
        { "<ab><a", 2, { 601, 600 } },
        { "<abc", 1, { 602 } },
        { "<a<abc", 2, { 600, 602 } },
        { "b><a", 2, { 603, 64 } },
        { "<\u1EBF<a", 3, { 27, 604, 600 } },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        kn_tokens got = encode(t, rows[i].text, strlen(rows[i].text), false);
        assert_int_equal(got.n, rows[i].n);
        assert_memory_equal(got.id, rows[i].id, got.n * sizeof *got.id);
        kn_tokens_free(&got);
    }
    kn_tokens raw = encode(t, "e\u0302\u0301", 5, false); /* searched on the text as it is, not after NFC */
    assert_false(holds(&raw, 604));
    kn_tokens_free(&raw);
    assert_int_equal(kn_tokenizer_size(t), 605);
    assert_int_equal(kn_tokenizer_added_count(t), 5);
    assert_int_equal(kn_tokenizer_token(t, "<abc"), 602);
    assert_int_equal(kn_tokenizer_token(t, "<abcd"), -1);
    assert_int_equal(kn_tokenizer_token(t, ""), -1);
    kn_tokenizer_close(t);
    kn_buf_free(&vocab);
    kn_buf_free(&merges);
}

static void words_end_where_the_expression_says(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        /* The long s in a contraction shows in no ids of the published vocabulary, so it is looked at here. */
        { "a'\u017Fa x'LLy'lx 'Ll", "a|'\u017F|a| x|'LL|y|'lx| '|Ll" },
        { "don't I'VEn'", "don|'t| I|'VE|n|'" },
        { "12 3\u00BDx", "1|2| |3|\u00BD|x" },
        { "a  b \n\t\n  c", "a| | b| \n\t\n| | c" },
        { " !?\r\n\n x  ", " !?\r\n\n| x|  " },
        { "e\u0301t\u00E9 \u200B.", "e|\u0301t\u00E9| \u200B." },
        { "\t7\t\tx", "\t|7|\t|\tx" },
    };
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        char words[100] = "";
        size_t n = 0;
        for (const char *at = rows[i][0], *end = at + strlen(at), *next; at < end; at = next) {
            next = kn_split_next(at, end);
            n += (size_t)snprintf(words + n, sizeof words - n, "%s%.*s", n ? "|" : "", (int)(next - at), at);
        }
        assert_string_equal(words, rows[i][1]);
    }
}

static void refuses_text_that_is_not_utf8_and_says_where(void **state) {
    (void)state;
    kn_tokenizer *t = golden_tokenizer("tokenizer-tiny");
    kn_tokens got = { 0 };
    kn_error err = { 0 };
    assert_false(kn_tokenizer_encode(t, "caf\xE9 noir", 9, false, &got, &err));
    assert_int_equal(err.code, KN_E_FORMAT);
    assert_string_equal(err.text, "the text is not UTF-8 at byte 3");
    const kn_text_part halves[] = { PART("\xC3", false), PART("\xA9", true) };
    err = (kn_error){ 0 };
    assert_false(kn_tokenizer_encode_parts(t, halves, 2, &got, &err));
    assert_string_equal(err.text, "the text is not UTF-8 at byte 0");
    assert_null(got.id);
    kn_tokenizer_close(t);
}

static void long_words_and_texts_are_no_trouble_up_to_the_limit(void **state) {
    (void)state;
    kn_tokenizer *t = golden_tokenizer("tokenizer-demo");
    static const char *const units[] = {
        "x", " ", "a red boat, ", "\u6F22", "\u0301\u0316", "<", "<|im_", "<|im_end|>"
    };
    KN_AUTO_BUF text;
    kn_buf_init(&text, KN_TOKENIZER_MAX_TEXT_BYTES + 16);
    for (size_t i = 0; i < KN_COUNT(units); i++) {
        kn_buf_clear(&text);
        while (text.len < 300000)
            put(&text, units[i]);
        kn_tokens got = encode(t, text.data, text.len, false);
        assert_true(got.n > 0 && got.n <= text.len);
        kn_tokens_free(&got);
    }
    while (text.len <= KN_TOKENIZER_MAX_TEXT_BYTES)
        put(&text, "x");
    kn_tokens got = encode(t, text.data, KN_TOKENIZER_MAX_TEXT_BYTES, false);
    kn_tokens_free(&got);
    const kn_text_part parts[] = { { text.data, 1, false }, { text.data, KN_TOKENIZER_MAX_TEXT_BYTES, true } };
    kn_error err = { 0 };
    assert_false(kn_tokenizer_encode_parts(t, parts, 2, &got, &err));
    assert_int_equal(err.code, KN_E_RANGE);
    assert_string_equal(err.text, "the text has more than 1048576 bytes");
    kn_tokenizer_close(t);
}

struct reader {
    const kn_tokenizer *t;
    const json_t *cases;
    bool same;
};

static void *encode_all(void *context) {
    struct reader *r = context;
    r->same = true;
    for (size_t i = 0; i < json_array_size(r->cases); i++) {
        const json_t *row = json_array_get(r->cases, i), *text = json_object_get(row, "text");
        const json_t *want = json_object_get(row, "ids");
        kn_tokens got = { 0 };
        bool ok = kn_tokenizer_encode(r->t, json_string_value(text), json_string_length(text), false, &got, NULL);
        r->same = r->same && ok && got.n == json_array_size(want);
        for (size_t k = 0; r->same && k < got.n; k++)
            r->same = got.id[k] == json_integer_value(json_array_get(want, k));
        kn_tokens_free(&got);
    }
    return NULL;
}

static void several_threads_use_one_tokenizer(void **state) {
    (void)state;
    kn_tokenizer *t = golden_tokenizer("tokenizer-tiny");
    json_t *cases = golden_json("tokenizer-tiny/cases.json");
    struct reader readers[4];
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        readers[i] = (struct reader){ t, json_object_get(cases, "cases"), false };
        assert_int_equal(pthread_create(&threads[i], NULL, encode_all, &readers[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(readers[i].same);
    }
    json_decref(cases);
    kn_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_tokenizer_gives_the_ids_of_the_reference_in_every_form),
        cmocka_unit_test(published_added_tokens_need_no_list),
        cmocka_unit_test(built_in_tokens_are_those_that_are_published),
        cmocka_unit_test(a_token_that_is_another_one_is_found),
        cmocka_unit_test(tiny_tokenizer_gives_the_ids_of_the_reference_in_both_forms),
        cmocka_unit_test(both_forms_of_the_demo_tokenizer_agree),
        cmocka_unit_test(template_and_prompt_in_parts_give_the_ids_of_the_reference),
        cmocka_unit_test(parts_are_one_text_across_their_borders),
        cmocka_unit_test(literal_text_never_becomes_a_control_token),
        cmocka_unit_test(the_longest_of_the_added_tokens_that_begin_first_is_taken),
        cmocka_unit_test(words_end_where_the_expression_says),
        cmocka_unit_test(refuses_text_that_is_not_utf8_and_says_where),
        cmocka_unit_test(long_words_and_texts_are_no_trouble_up_to_the_limit),
        cmocka_unit_test(several_threads_use_one_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
