/* What the readers of the tokenizer refuse, and how they say so. */
#include "text_golden.h"

#include <sys/stat.h>
#include <unistd.h>

#include "text/vocabulary.h"

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static kn_code open_json(const char *json, size_t len, kn_error *err) {
    kn_tokenizer_files files = { .json = { json, len } };
    kn_tokenizer *t = NULL;
    *err = (kn_error){ 0 };
    bool ok = kn_tokenizer_open_bytes(&files, &t, err);
    assert_int_equal(ok, err->code == KN_OK);
    assert_int_equal(ok, t != NULL);
    kn_tokenizer_close(t);
    return err->code;
}

/* A copy of `text` with the first `old` replaced by `new`. */
static void replace(const kn_buf *text, const char *old, const char *new, kn_buf *ret) {
    const char *at = strstr(text->data, old);
    if (!at)
        fail_msg("'%s' is not in the text", old);
    kn_buf_init(ret, 1 << 24);
    assert_true(kn_buf_add(ret, text->data, (size_t)(at - text->data)));
    assert_true(kn_buf_add_text(ret, new) && kn_buf_add_text(ret, at + strlen(old)));
}

/* One change to a good tokenizer.json, and the end of the sentence that refuses it. */
static const struct change {
    const char *old, *new;
    kn_code code;
    const char *error;
} json_changes[] = {
    /* other kinds of tokenizer, by name */
    { "\"type\":\"BPE\"", "\"type\":\"Unigram\"", KN_E_UNSUPPORTED,
      "model.type is \"Unigram\"; the Qwen tokenizer has \"BPE\"" },
    { "\"type\":\"BPE\"", "\"type\":\"WordPiece\"", KN_E_UNSUPPORTED,
      "model.type is \"WordPiece\"; the Qwen tokenizer has \"BPE\"" },
    { "\"dropout\":null", "\"dropout\":0.1", KN_E_UNSUPPORTED, "model.dropout is 0.1; the Qwen tokenizer has null" },
    { "\"byte_fallback\":false", "\"byte_fallback\":true", KN_E_UNSUPPORTED,
      "model.byte_fallback is true; the Qwen tokenizer has false" },
    { "\"ignore_merges\":false", "\"ignore_merges\":true", KN_E_UNSUPPORTED,
      "model.ignore_merges is true; the Qwen tokenizer has false" },
    { "\"end_of_word_suffix\":\"\"", "\"end_of_word_suffix\":\"</w>\"", KN_E_UNSUPPORTED,
      "model.end_of_word_suffix is \"</w>\"; the Qwen tokenizer has \"\"" },
    { "\"continuing_subword_prefix\":\"\"", "\"continuing_subword_prefix\":\"##\"", KN_E_UNSUPPORTED,
      "model.continuing_subword_prefix is \"##\"; the Qwen tokenizer has \"\"" },
    { "{\"type\":\"NFC\"}", "{\"type\":\"NFKC\"}", KN_E_UNSUPPORTED,
      "normalizer.type is \"NFKC\"; the Qwen tokenizer has \"NFC\"" },
    { "{\"type\":\"NFC\"}", "7", KN_E_UNSUPPORTED, "normalizer.type is 7; the Qwen tokenizer has \"NFC\"" },
    { "\\\\p{N}| ?", "\\\\p{N}{1,3}| ?", KN_E_UNSUPPORTED, "…; the Qwen tokenizer has another one" },
    { "\"Isolated\"", "\"Removed\"", KN_E_UNSUPPORTED,
      "pre_tokenizer.pretokenizers.0.behavior is \"Removed\"; the Qwen tokenizer has \"Isolated\"" },
    { "\"invert\":false", "\"invert\":true", KN_E_UNSUPPORTED,
      "pre_tokenizer.pretokenizers.0.invert is true; the Qwen tokenizer has false" },
    { "\"use_regex\":false", "\"use_regex\":true", KN_E_UNSUPPORTED,
      "pre_tokenizer.pretokenizers.1.use_regex is true; the Qwen tokenizer has false" },
    { "\"pre_tokenizer\":{\"type\":\"Sequence\"", "\"pre_tokenizer\":{\"type\":\"Metaspace\"", KN_E_UNSUPPORTED,
      "pre_tokenizer.type is \"Metaspace\"; the Qwen tokenizer has \"Sequence\"" },
    { "\"pre_tokenizer\"", "\"pre\"", KN_E_UNSUPPORTED,
      "pre_tokenizer.type is missing; the Qwen tokenizer has \"Sequence\"" },
    { "\"post_processor\":null", "\"post_processor\":{\"type\":\"TemplateProcessing\",\"special_tokens\":{\"<s>\":{}}}",
      KN_E_UNSUPPORTED, "post_processor.special_tokens is {\"<s>\":{}}; the Qwen tokenizer has {}" },
    { "\"lstrip\":false", "\"lstrip\":true", KN_E_UNSUPPORTED,
      "added_tokens: token \"<|endoftext|>\" has lstrip, which no token of Qwen has" },
    /* parts that are missing or twice */
    { "\"merges\":", "\"other\":", KN_E_FORMAT,
      "model.merges is missing: without merges text cannot be split into tokens; a complete file from the model's "
      "publisher is needed" },
    { "\"merges\":[", "\"merges\":[],\"other\":[", KN_E_FORMAT,
      "model.merges: holds no merges; a complete file from the model's publisher is needed" },
    { "\"vocab\":", "\"other\":", KN_E_UNSUPPORTED, "is not a tokenizer: it has no model.vocab" },
    { "\"model\":", "\"other\":", KN_E_UNSUPPORTED, "is not a tokenizer: it has no model.vocab" },
    { "\"dropout\":null", "\"vocab\":{}", KN_E_FORMAT, "'model.vocab' occurs twice" },
    { "\"added_tokens\":", "\"other\":", KN_E_NOT_FOUND,
      "added tokens such as <|im_start|> are listed nowhere; tokenizer_config.json is needed" },
    /* the vocabulary */
    { "\"#\":2,", "\"#\":1,", KN_E_FORMAT, "model.vocab: entries 2 and 3 have the same id 1" },
    { "\"#\":2,", "\"!\":2,", KN_E_FORMAT, "model.vocab: entries 1 and 3 are the same token '!'" },
    { "\"#\":2,", "\"#\":514,", KN_E_FORMAT,
      "model.vocab: entry 3, '#', has id 514, but the 514 tokens must have the ids 0 to 513" },
    { "\"#\":2,", "\"#\":4194304,", KN_E_RANGE,
      "model.vocab: entry 3: the id 4194304 of '#' is too large, ids below 4194304 are allowed" },
    { "\"#\":2,", "\"\":2,", KN_E_FORMAT, "model.vocab: entry 3: the token is empty" },
    { "\"#\":2,", "\"##\":2,", KN_E_UNSUPPORTED,
      "model.vocab: is no byte-level vocabulary: the byte 0x23 has no token '#'" },
    { "\"#\":2,", "\"#\":-2,", KN_E_FORMAT, "an unsigned integer is expected" },
    { "\"#\":2,", "\"#\":2.0,", KN_E_FORMAT, "an unsigned integer is expected" },
    { "\"#\":2,", "\"#\":\"2\",", KN_E_FORMAT, "an unsigned integer is expected" },
    { "\"#\":2,", "\"#\":99999999999999999999,", KN_E_FORMAT, "a number below 2^64 is expected" },
    { "\"#\":2,", "\"\xFF\":2,", KN_E_FORMAT, "the bytes are not UTF-8" },
    { "\"#\":2,", "\"\\ud800\":2,", KN_E_FORMAT, "the other half of a surrogate pair is expected" },
    { "\"#\":2,", "\"#\":2", KN_E_FORMAT, "a comma or the end of the array or object is expected" },
    { "\"vocab\":{", "\"vocab\":[{", KN_E_FORMAT, "a comma or the end of the array or object is expected" },
    /* the merges */
    { "[\"s\",\"t\"]", "[\"s\",\"t\",\"u\"]", KN_E_FORMAT, "model.merges: entry 1: is not two strings" },
    { "[\"s\",\"t\"]", "[\"s\"]", KN_E_FORMAT, "model.merges: entry 1: is not two strings" },
    { "[\"s\",\"t\"]", "[\"s\",7]", KN_E_FORMAT, "a string is expected" },
    { "[\"s\",\"t\"]", "7", KN_E_FORMAT, "an array is expected" },
    { "[\"s\",\"t\"]", "\"st\"", KN_E_FORMAT,
      "model.merges: entry 1: 'st' is not two tokens with one space between them" },
    { "[\"s\",\"t\"]", "\"s  t\"", KN_E_FORMAT,
      "model.merges: entry 1: 's  t' is not two tokens with one space between them" },
    { "[\"s\",\"t\"]", "\" st\"", KN_E_FORMAT,
      "model.merges: entry 1: ' st' is not two tokens with one space between them" },
    { "[\"s\",\"t\"]", "\"\"", KN_E_FORMAT, "model.merges: entry 1: '' is not two tokens with one space between them" },
    { "[\"e\",\"r\"]", "[\"e\",\"zzz\"]", KN_E_FORMAT, "model.merges: entry 2: 'zzz' is not in the vocabulary" },
    { "[\"e\",\"r\"]", "[\"\",\"er\"]", KN_E_FORMAT, "model.merges: entry 2: '' is not in the vocabulary" },
    { "[\"e\",\"r\"]", "[\"Z\",\"Z\"]", KN_E_FORMAT,
      "model.merges: entry 2: 'Z' and 'Z' make a token that is not in the vocabulary" },
    { "[\"e\",\"r\"]", "[\"s\",\"t\"]", KN_E_FORMAT, "model.merges: merges 1 and 2 join the same pair" },
    /* the added tokens */
    { "\"id\":515", "\"id\":514", KN_E_FORMAT, "two added tokens have the id 514" },
    { "\"<|im_start|>\"", "\"<|im_end|>\"", KN_E_FORMAT, "added tokens 515 and 516 are both '<|im_end|>'" },
    { "\"id\":515", "\"id\":5", KN_E_FORMAT,
      "added_tokens: token '<|im_start|>' has id 5, which is another token of the vocabulary" },
    { "\"<|im_start|>\"", "\"user\"", KN_E_FORMAT,
      "added_tokens: token 'user' has id 515, but the vocabulary gives it 270" },
    { "\"<|im_start|>\"", "\"\"", KN_E_RANGE, "added_tokens: added token 515 has 0 bytes, 1 to 4096 are allowed" },
    { "\"<|im_start|>\"", "\"\\u0000\"", KN_E_FORMAT, "a text holds a NUL character" },
    { "\"<|im_start|>\"", "7", KN_E_FORMAT, "a string is expected" },
    { "\"id\":515", "\"id\":-1", KN_E_FORMAT, "added_tokens: the id of a token is '-1', a whole number is needed" },
    { "\"id\":515", "\"id\":4194304", KN_E_RANGE,
      "the id 4194304 of added token '<|im_start|>' is too large, ids below 4194304 are allowed" },
    /* the file as a whole */
    { "{\"version\"", "[{\"version\"", KN_E_FORMAT, "line 1, column 1: an object is expected" },
    { "\"model\":{", "\"model\":[{", KN_E_FORMAT, "an object is expected" },
};

static void refuses_every_wrong_part_of_tokenizer_json_with_its_name(void **state) {
    (void)state;
    kn_buf good, bad;
    golden_read(SHIPPED "/tokenizer-tiny/tokenizer.json", &good);
    kn_error err;
    assert_int_equal(open_json(good.data, good.len, &err), KN_OK);
    for (size_t i = 0; i < KN_COUNT(json_changes); i++) {
        const struct change *c = &json_changes[i];
        replace(&good, c->old, c->new, &bad);
        open_json(bad.data, bad.len, &err);
        bool named = strncmp(err.text, "tokenizer.json: ", 16) == 0 || strstr(c->error, "added token");
        if (err.code != c->code || !named || !ends_with(err.text, c->error))
            fail_msg("%s: error %d '%s'", c->new, (int)err.code, err.text);
        kn_buf_free(&bad);
    }
    kn_buf_free(&good);
}

static void accepts_the_forms_that_mean_the_same(void **state) {
    (void)state;
    static const struct {
        const char *old, *new;
    } rows[] = {
        { "[\"s\",\"t\"]", "\"s t\"" },
        { "[\"s\",\"t\"]", "[ \"\\u0073\" , \"\\u0074\" ]" },
        { "\"dropout\":null", "\"dropout\":0.0" },
        { "\"ignore_merges\":false,", "" },
        { "{\"type\":\"NFC\"}", "null" },
        { "\"post_processor\":null", "\"post_processor\":{\"type\":\"ByteLevel\"}" },
        { "\"post_processor\":null", "\"post_processor\":{\"type\":\"TemplateProcessing\",\"special_tokens\":{}}" },
        { "\"id\":515", "\"id\":700" },
        { "\"version\":\"1.0\"", "\"model.vocab\":7" },
    };
    kn_buf good, other;
    golden_read(SHIPPED "/tokenizer-tiny/tokenizer.json", &good);
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        replace(&good, rows[i].old, rows[i].new, &other);
        kn_error err;
        if (open_json(other.data, other.len, &err) != KN_OK)
            fail_msg("%s: %s", rows[i].new, err.text);
        kn_buf_free(&other);
    }
    kn_buf_free(&good);
}

static void refuses_hostile_sizes(void **state) {
    (void)state;
    kn_buf good, bad;
    golden_read(SHIPPED "/tokenizer-tiny/tokenizer.json", &good);
    static char deep[200001], token[KN_MAX_TOKEN_BYTES + 64];
    kn_error err;

    memset(deep, '[', sizeof deep - 1);
    replace(&good, "null", deep, &bad);
    assert_int_equal(open_json(bad.data, bad.len, &err), KN_E_FORMAT);
    assert_non_null(strstr(err.text, "less deeply nested data is expected"));
    kn_buf_free(&bad);

    int n = snprintf(token, sizeof token, "\"%0*d\":2,", KN_MAX_TOKEN_BYTES + 1, 0);
    assert_true(n > KN_MAX_TOKEN_BYTES);
    replace(&good, "\"#\":2,", token, &bad);
    assert_int_equal(open_json(bad.data, bad.len, &err), KN_E_RANGE);
    assert_non_null(strstr(err.text, "has 4097 bytes, at most 4096 are allowed"));
    kn_buf_free(&bad);

    assert_int_equal(open_json("{}", (size_t)65 << 20, &err), KN_E_RANGE); /* is refused before anything is read */
    assert_int_equal(open_json("", 0, &err), KN_E_TRUNCATED);
    kn_buf_free(&good);
}

static void refuses_tokenizer_json_cut_anywhere(void **state) {
    (void)state;
    kn_buf good;
    golden_read(SHIPPED "/tokenizer-tiny/tokenizer.json", &good);
    kn_error err;
    for (size_t len = 0; len < good.len; len += len < 300 || good.len - len < 300 ? 1 : 41) {
        char *cut = malloc(len + 1); /* of its own, so that a sanitizer sees a step beyond the end */
        memcpy(cut, good.data, len);
        assert_int_not_equal(open_json(cut, len, &err), KN_OK);
        free(cut);
    }
    kn_buf_free(&good);
}

/* The three files of the tiny tokenizer, with one of them changed. */
struct three {
    kn_buf file[3];
};
enum { VOCAB, MERGES, CONFIG };

static void three_read(struct three *t) {
    golden_read(SHIPPED "/tokenizer-tiny/vocab.json", &t->file[VOCAB]);
    golden_read(SHIPPED "/tokenizer-tiny/merges.txt", &t->file[MERGES]);
    golden_read(SHIPPED "/tokenizer-tiny/tokenizer_config.json", &t->file[CONFIG]);
}

static void three_free(struct three *t) {
    for (int i = 0; i < 3; i++)
        kn_buf_free(&t->file[i]);
}

static kn_code open_three(const struct three *t, int which, const char *data, size_t len, kn_error *err) {
    kn_tokenizer_bytes part[3];
    for (int i = 0; i < 3; i++)
        part[i] = i == which ? (kn_tokenizer_bytes){ data, len } : golden_bytes(&t->file[i]);
    kn_tokenizer_files files = { .vocab = part[VOCAB], .merges = part[MERGES], .config = part[CONFIG] };
    kn_tokenizer *k = NULL;
    *err = (kn_error){ 0 };
    bool ok = kn_tokenizer_open_bytes(&files, &k, err);
    assert_int_equal(ok, err->code == KN_OK);
    kn_tokenizer_close(k);
    return err->code;
}

static const struct {
    int file;
    const char *old, *new;
    kn_code code;
    const char *error; /* NULL: is accepted */
} three_changes[] = {
    { VOCAB, "\"#\": 2,", "\"#\": 1,", KN_E_FORMAT, "vocab.json: entries 2 and 3 have the same id 1" },
    { VOCAB, "{", "[", KN_E_FORMAT, "vocab.json: line 1, column 1: an object is expected" },
    { MERGES, "s t\n", "st\n", KN_E_FORMAT, "merges.txt: line 2: 'st' is not two tokens with one space between them" },
    { MERGES, "s t\n", "s t \n", KN_E_FORMAT,
      "merges.txt: line 2: 's t ' is not two tokens with one space between them" },
    { MERGES, "e r\n", "e \xFF\n", KN_E_FORMAT, "merges.txt: line 3: '\\xff' is not in the vocabulary" },
    { MERGES, "e r\n", "s t\n", KN_E_FORMAT, "merges.txt: merges 1 and 2 join the same pair" },
    { MERGES, "e r\n", "e r\r\n\n\r\n", KN_OK, NULL },
    { MERGES, "#version: 0.2\n", "", KN_OK, NULL },
    { CONFIG, "\"Qwen2Tokenizer\"", "\"Qwen2TokenizerFast\"", KN_OK, NULL },
    { CONFIG, "\"Qwen2Tokenizer\"", "\"CLIPTokenizer\"", KN_E_UNSUPPORTED,
      "tokenizer_config.json: tokenizer_class is \"CLIPTokenizer\"; only the tokenizers of Qwen are supported" },
    { CONFIG, "\"515\"", "\"514\"", KN_E_FORMAT, "two added tokens have the id 514" },
    { CONFIG, "\"content\"", "\"lstrip\"", KN_E_FORMAT,
      "tokenizer_config.json: added_tokens_decoder: 'lstrip' occurs twice" },
    { CONFIG, "131072", "1e", KN_E_FORMAT, "a digit is expected" },
    { CONFIG, "\"514\"", "\"x\"", KN_E_FORMAT,
      "tokenizer_config.json: added_tokens_decoder: the id of a token is 'x', a whole number is needed" },
    { CONFIG, "\"add_prefix_space\": false", "\"add_prefix_space\": true", KN_E_UNSUPPORTED,
      "tokenizer_config.json: add_prefix_space is true; the Qwen tokenizer has false" },
    { CONFIG, "\"added_tokens_decoder\"", "\"other\"", KN_E_NOT_FOUND,
      "added tokens such as <|im_start|> are listed nowhere; tokenizer_config.json is needed" },
};

static void refuses_every_wrong_line_of_the_three_files_with_its_place(void **state) {
    (void)state;
    struct three good;
    three_read(&good);
    for (size_t i = 0; i < KN_COUNT(three_changes); i++) {
        kn_buf bad;
        replace(&good.file[three_changes[i].file], three_changes[i].old, three_changes[i].new, &bad);
        kn_error err;
        open_three(&good, three_changes[i].file, bad.data, bad.len, &err);
        const char *want = three_changes[i].error ? three_changes[i].error : "";
        if (err.code != three_changes[i].code || !ends_with(err.text, want) || (!*want && *err.text))
            fail_msg("%s: error %d '%s'", three_changes[i].new, (int)err.code, err.text);
        kn_buf_free(&bad);
    }
    three_free(&good);
}

static void says_which_of_the_files_is_missing(void **state) {
    (void)state;
    struct three good;
    three_read(&good);
    kn_error err;
    assert_int_equal(open_three(&good, MERGES, NULL, 0, &err), KN_E_NOT_FOUND);
    assert_string_equal(err.text,
                        "merges.txt is missing: without merges text cannot be split into tokens; copy it from "
                        "where vocab.json came from");
    assert_int_equal(open_three(&good, VOCAB, NULL, 0, &err), KN_E_NOT_FOUND);
    assert_string_equal(err.text, "vocab.json is missing");
    assert_int_equal(open_three(&good, MERGES, "#version: 0.2\n", 14, &err), KN_E_FORMAT);
    assert_string_equal(err.text, "merges.txt: holds no merges; a complete file from the model's publisher is needed");
    three_free(&good);
}

static void the_three_files_may_be_cut_anywhere_without_harm(void **state) {
    (void)state;
    struct three good;
    three_read(&good);
    for (int file = 0; file < 3; file++) {
        size_t size = good.file[file].len;
        for (size_t len = 0; len < size - 1; len += len < 200 || size - len < 200 ? 1 : 37) {
            char *cut = malloc(len + 1);
            memcpy(cut, good.file[file].data, len);
            kn_error err;
            kn_code code = open_three(&good, file, cut, len, &err);
            if (file != MERGES) /* a list of merges that ends early is still a list of merges */
                assert_int_not_equal(code, KN_OK);
            free(cut);
        }
    }
    three_free(&good);
}

static void write_file(const char *folder, const char *name, const kn_buf *data) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data->data, 1, data->len, f), data->len);
    assert_int_equal(fclose(f), 0);
}

static void remove_file(const char *folder, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static kn_code open_path(const char *path, kn_error *err) {
    kn_tokenizer *t = NULL;
    *err = (kn_error){ 0 };
    kn_tokenizer_open(path, &t, err);
    kn_tokenizer_close(t);
    return err->code;
}

static void a_folder_is_read_from_what_is_in_it(void **state) {
    (void)state;
    char folder[] = "/tmp/kuno-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    struct three good;
    kn_buf json, wrong;
    three_read(&good);
    golden_read(SHIPPED "/tokenizer-tiny/tokenizer.json", &json);
    kn_buf_init(&wrong, 16);
    assert_true(kn_buf_add_text(&wrong, "{"));
    kn_error err;

    assert_int_equal(open_path(folder, &err), KN_E_NOT_FOUND);
    assert_string_equal(err.text, "the folder has neither vocab.json and merges.txt nor tokenizer.json");
    write_file(folder, "vocab.json", &good.file[VOCAB]);
    assert_int_equal(open_path(folder, &err), KN_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "merges.txt is missing"));
    write_file(folder, "merges.txt", &good.file[MERGES]);
    assert_int_equal(open_path(folder, &err), KN_E_NOT_FOUND); /* no added tokens: see above */
    write_file(folder, "tokenizer.json", &json);
    assert_int_equal(open_path(folder, &err), KN_OK);
    write_file(folder, "tokenizer.json", &wrong);
    assert_int_equal(open_path(folder, &err), KN_E_TRUNCATED);
    write_file(folder, "tokenizer_config.json", &good.file[CONFIG]);
    assert_int_equal(open_path(folder, &err), KN_OK); /* the three files are complete and come first */
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    assert_int_equal(open_path(path, &err), KN_E_TRUNCATED);
    write_file(folder, "tokenizer.json", &json);
    assert_int_equal(open_path(path, &err), KN_OK);
    snprintf(path, sizeof path, "%s/absent", folder);
    assert_int_equal(open_path(path, &err), KN_E_NOT_FOUND);

    static const char *const names[] = { "vocab.json", "merges.txt", "tokenizer_config.json", "tokenizer.json" };
    for (size_t i = 0; i < KN_COUNT(names); i++)
        remove_file(folder, names[i]);
    snprintf(path, sizeof path, "%s/merges.txt", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(open_path(folder, &err), KN_E_FORMAT);
    assert_string_equal(err.text, "merges.txt is a folder, a file is needed");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0);
    three_free(&good);
    kn_buf_free(&json);
    kn_buf_free(&wrong);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_every_wrong_part_of_tokenizer_json_with_its_name),
        cmocka_unit_test(accepts_the_forms_that_mean_the_same),
        cmocka_unit_test(refuses_hostile_sizes),
        cmocka_unit_test(refuses_tokenizer_json_cut_anywhere),
        cmocka_unit_test(refuses_every_wrong_line_of_the_three_files_with_its_place),
        cmocka_unit_test(says_which_of_the_files_is_missing),
        cmocka_unit_test(the_three_files_may_be_cut_anywhere_without_harm),
        cmocka_unit_test(a_folder_is_read_from_what_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
