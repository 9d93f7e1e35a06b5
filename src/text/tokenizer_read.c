/* The files of a tokenizer, and the refusal of those that describe another kind. Everything is streamed: a first pass
 * over tokenizer.json checks its syntax and notes where its parts are, which are then read one by one. */
#include "text/tokenizer_internal.h"

#include <assert.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "text/vocabulary.h"

enum { MAX_FILE_BYTES = 64 << 20 };

/* A tokenizer under construction. */
struct reading {
    kn_tokenizer *t;
    kn_vocabulary v;
    kn_json_text file; /* the JSON file that is being read; what is called a part lies within it */
    kn_error *err;
};

/* Stands for a value that is not there; as JSON it could not be written. */
static const kn_json_text missing = { "missing", 7 };

static kn_quoted shown(kn_json_text text) {
    return kn_quote(text.data, text.len);
}

/* One member of an object or, by its index of one digit, of an array. What is neither is given back itself. */
static bool step(struct reading *r, kn_json_text part, kn_json_text name, kn_json_text *ret) {
    kn_json_reader j;
    kn_json_begin(&j, r->file, part, r->err);
    kn_json_text key, found = missing;
    char kind = kn_json_peek(&j);
    bool ok = true;
    if (kind == '{') {
        kn_json_object(&j);
        while (ok && kn_json_key(&j, &key)) {
            bool wanted = key.len == name.len && memcmp(key.data, name.data, key.len) == 0;
            if (wanted && found.data != missing.data)
                ok = kn_fail(r->err, KN_E_FORMAT, "'%s' occurs twice", shown(name).text);
            kn_json_skip(&j, wanted ? &found : NULL);
        }
        ok = ok && kn_json_finish(&j);
    } else if (kind == '[') {
        kn_json_array(&j);
        for (size_t i = 0; kn_json_item(&j); i++)
            kn_json_skip(&j, name.len == 1 && (size_t)(*name.data - '0') == i ? &found : NULL);
        ok = kn_json_finish(&j);
    } else {
        found = part;
    }
    kn_json_close(&j);
    *ret = found;
    return ok;
}

/* The value at a path such as "pretokenizers.0.type", as it is written. For small parts: each step reads all of it. */
static bool find(struct reading *r, kn_json_text part, const char *path, kn_json_text *ret) {
    while (*path) {
        kn_json_text name = { path, strcspn(path, ".") };
        if (!step(r, part, name, &part))
            return false;
        path += name.len + (path[name.len] == '.');
    }
    *ret = part;
    return true;
}

/* The vocabulary: an object of token: id. */
static bool read_vocabulary(struct reading *r, kn_json_text part) {
    kn_json_reader j;
    kn_json_begin(&j, r->file, part, r->err);
    bool ok = kn_json_object(&j);
    kn_json_text token;
    uint64_t id = 0;
    while (ok && kn_json_key(&j, &token) && kn_json_u64(&j, &id))
        if (!kn_vocabulary_add(&r->v, token.data, token.len, id, r->err))
            ok = kn_fail_within(r->err, "entry %zu", r->v.n + 1);
    ok = ok && kn_json_finish(&j);
    kn_json_close(&j);
    if (!ok || !kn_vocabulary_index(&r->v, r->err))
        return false;
    r->t->size = (int32_t)r->v.n;
    for (int byte = 0; byte < 256; byte++) {
        char symbol[4];
        size_t len = kn_utf8_put(kn_byte_symbol((uint8_t)byte), symbol);
        id = (uint64_t)kn_vocabulary_find(&r->v, symbol, len, "", 0);
        if (id >= r->v.n)
            return kn_fail(r->err, KN_E_UNSUPPORTED, "is no byte-level vocabulary: the byte 0x%02x has no token '%s'",
                           (unsigned)byte, kn_quote(symbol, len).text);
        r->t->bpe.byte_id[byte] = (uint32_t)id;
    }
    return true;
}

static bool add_merge(struct reading *r, kn_json_text left, kn_json_text right) {
    static const char unknown[] = "'%s' is not in the vocabulary";
    int32_t a = kn_vocabulary_find(&r->v, left.data, left.len, "", 0);
    int32_t b = kn_vocabulary_find(&r->v, right.data, right.len, "", 0);
    int32_t joined = kn_vocabulary_find(&r->v, left.data, left.len, right.data, right.len);
    if (a < 0)
        return kn_fail(r->err, KN_E_FORMAT, unknown, shown(left).text);
    if (b < 0)
        return kn_fail(r->err, KN_E_FORMAT, unknown, shown(right).text);
    if (joined < 0)
        return kn_fail(r->err, KN_E_FORMAT, "'%s' and '%s' make a token that is not in the vocabulary",
                       shown(left).text, shown(right).text);
    if (r->t->bpe.n == KN_MAX_TOKENS)
        return kn_fail(r->err, KN_E_RANGE, "there are more than %d merges", KN_MAX_TOKENS);
    return kn_bpe_add(&r->t->bpe, (kn_merge){ (uint32_t)a, (uint32_t)b, (uint32_t)joined }, r->err);
}

/* "a b": exactly one space, with something on either side. */
static bool add_merge_line(struct reading *r, kn_json_text line) {
    const char *end = line.data + line.len, *space = line.len ? memchr(line.data, ' ', line.len) : NULL;
    const char *behind = space ? space + 1 : end;
    if (!space || space == line.data || behind == end || memchr(behind, ' ', (size_t)(end - behind)))
        return kn_fail(r->err, KN_E_FORMAT, "'%s' is not two tokens with one space between them", shown(line).text);
    return add_merge(r, (kn_json_text){ line.data, (size_t)(space - line.data) },
                     (kn_json_text){ behind, (size_t)(end - behind) });
}

static bool index_merges(struct reading *r) {
    if (r->t->bpe.n == 0)
        return kn_fail(r->err, KN_E_FORMAT, "holds no merges; a complete file from the model's publisher is needed");
    return kn_bpe_index(&r->t->bpe, r->err);
}

/* merges.txt: one per line, behind a line that begins with "#version". Empty lines do not count. */
static bool read_merges_text(struct reading *r, kn_tokenizer_bytes file) {
    size_t number = 0;
    for (const char *at = file.data, *end = at + file.len, *next; at < end; at = next) {
        const char *nl = memchr(at, '\n', (size_t)(end - at)), *stop = nl ? nl : end;
        next = nl ? nl + 1 : end;
        number++;
        if (stop > at && stop[-1] == '\r')
            stop--;
        kn_json_text line = { at, (size_t)(stop - at) };
        bool skip = line.len == 0 || kn_json_starts(line, "#version");
        if (!skip && !add_merge_line(r, line))
            return kn_fail_within(r->err, "line %zu", number);
    }
    return index_merges(r);
}

/* The merges of tokenizer.json: strings "a b" in older files, arrays ["a", "b"] in newer ones. `left` keeps the first
 * string of an array while the second is read. */
static bool read_merge(struct reading *r, kn_json_reader *j, kn_buf *left) {
    kn_json_text a, b;
    if (kn_json_peek(j) == '"')
        return kn_json_string(j, &a) && add_merge_line(r, a);
    if (!kn_json_array(j) || !kn_json_item(j) || !kn_json_string(j, &a))
        return kn_fail(r->err, KN_E_FORMAT, "is not two strings");
    kn_buf_clear(left);
    if (!kn_buf_add(left, a.data, a.len))
        return kn_fail_nomem(r->err, a.len);
    if (!kn_json_item(j) || !kn_json_string(j, &b) || kn_json_item(j))
        return kn_fail(r->err, KN_E_FORMAT, "is not two strings");
    return add_merge(r, (kn_json_text){ left->data, left->len }, b);
}

static bool read_merges_json(struct reading *r, kn_json_text part) {
    kn_json_reader j;
    kn_json_begin(&j, r->file, part, r->err);
    KN_AUTO_BUF left;
    kn_buf_init(&left, part.len);
    bool ok = kn_json_array(&j);
    while (ok && kn_json_item(&j))
        if (!read_merge(r, &j, &left))
            ok = kn_fail_within(r->err, "entry %zu", r->t->bpe.n + 1);
    ok = ok && kn_json_finish(&j);
    kn_json_close(&j);
    return ok && index_merges(r);
}

/* Adds a token after a look at whether the vocabulary has it already, which is fine as long as both agree. */
static bool add_token(struct reading *r, kn_json_text content, uint64_t id, bool special) {
    int32_t ordinary = kn_vocabulary_find(&r->v, content.data, content.len, "", 0);
    if (ordinary >= 0 && (uint64_t)ordinary != id)
        return kn_fail(r->err, KN_E_FORMAT, "token '%s' has id %llu, but the vocabulary gives it %d",
                       shown(content).text, (unsigned long long)id, (int)ordinary);
    if (ordinary < 0 && id < r->v.n)
        return kn_fail(r->err, KN_E_FORMAT, "token '%s' has id %llu, which is another token of the vocabulary",
                       shown(content).text, (unsigned long long)id);
    return kn_tokenizer_add(r->t, content.data, content.len, id, special, r->err);
}

/* The id of an added token, which stands among its members or is the key of them. */
static bool read_id(struct reading *r, kn_json_text text, uint64_t *ret) {
    kn_json_reader j;
    kn_json_begin(&j, text, text, NULL);
    return (kn_json_u64(&j, ret) && kn_json_finish(&j)) ||
           kn_fail(r->err, KN_E_FORMAT, "the id of a token is '%s', a whole number is needed", shown(text).text);
}

/* One added token as both files write it: {"content": …, "special": …, …}. */
static bool read_added_token(struct reading *r, kn_json_text part, uint64_t id) {
    static const char *const variants[] = { "lstrip", "rstrip", "single_word", "normalized" };
    kn_json_text quoted, special, variant;
    if (!find(r, part, "content", &quoted) || !find(r, part, "special", &special))
        return false;
    for (size_t i = 0; i < KN_COUNT(variants); i++) {
        if (!find(r, part, variants[i], &variant))
            return false;
        if (!kn_json_is(variant, "false") && variant.data != missing.data)
            return kn_fail(r->err, KN_E_UNSUPPORTED, "token %s has %s, which no token of Qwen has", shown(quoted).text,
                           variants[i]);
    }
    kn_json_reader j;
    kn_json_begin(&j, r->file, quoted, r->err);
    kn_json_text content;
    bool ok = kn_json_string(&j, &content) && add_token(r, content, id, kn_json_is(special, "true"));
    kn_json_close(&j);
    return ok;
}

/* tokenizer.json has an array of them, each with its id. */
static bool read_added_array(struct reading *r, kn_json_text part) {
    kn_json_reader j;
    kn_json_begin(&j, r->file, part, r->err);
    bool ok = kn_json_array(&j);
    kn_json_text token, id;
    uint64_t number = 0;
    while (ok && kn_json_item(&j) && kn_json_skip(&j, &token))
        ok = find(r, token, "id", &id) && read_id(r, id, &number) && read_added_token(r, token, number);
    ok = ok && kn_json_finish(&j);
    kn_json_close(&j);
    return ok;
}

/* tokenizer_config.json has an object of id: token. */
static bool read_added_object(struct reading *r, kn_json_text part) {
    kn_json_reader j;
    kn_json_begin(&j, r->file, part, r->err);
    bool ok = kn_json_object(&j);
    kn_json_text id, token;
    uint64_t number = 0;
    while (ok && kn_json_key(&j, &id))
        ok = read_id(r, id, &number) && kn_json_skip(&j, &token) && read_added_token(r, token, number);
    ok = ok && kn_json_finish(&j);
    kn_json_close(&j);
    return ok;
}

/* For files that list no added tokens: the published ones belong to the published vocabulary only. */
static bool add_published(struct reading *r) {
    if (r->v.n != KN_PUBLISHED_TOKENS)
        return kn_fail(r->err, KN_E_NOT_FOUND,
                       "added tokens such as <|im_start|> are listed nowhere; tokenizer_config.json is needed");
    return kn_tokenizer_add_published(r->t, r->err);
}

static bool read_config(struct reading *r) {
    kn_json_text class, space, added;
    if (!find(r, r->file, "tokenizer_class", &class) || !find(r, r->file, "add_prefix_space", &space) ||
        !find(r, r->file, "added_tokens_decoder", &added))
        return false;
    if (class.data != missing.data && !kn_json_starts(class, "\"Qwen"))
        return kn_fail(r->err, KN_E_UNSUPPORTED, "tokenizer_class is %s; only the tokenizers of Qwen are supported",
                       shown(class).text);
    if (kn_json_is(space, "true"))
        return kn_fail(r->err, KN_E_UNSUPPORTED, "add_prefix_space is true; the Qwen tokenizer has false");
    return added.data == missing.data || read_added_object(r, added) || kn_fail_within(r->err, "added_tokens_decoder");
}

/* The members of tokenizer.json that matter. */
enum member {
    TYPE,
    DROPOUT,
    BYTE_FALLBACK,
    IGNORE_MERGES,
    WORD_PREFIX,
    WORD_SUFFIX,
    VOCAB,
    MERGES,
    NORMALIZER,
    PRE_TOKENIZER,
    POST_PROCESSOR,
    ADDED_TOKENS,
    MEMBERS
};

static const char *const member_names[MEMBERS] = {
    [TYPE] = "model.type",
    [DROPOUT] = "model.dropout",
    [BYTE_FALLBACK] = "model.byte_fallback",
    [IGNORE_MERGES] = "model.ignore_merges",
    [WORD_PREFIX] = "model.continuing_subword_prefix",
    [WORD_SUFFIX] = "model.end_of_word_suffix",
    [VOCAB] = "model.vocab",
    [MERGES] = "model.merges",
    [NORMALIZER] = "normalizer",
    [PRE_TOKENIZER] = "pre_tokenizer",
    [POST_PROCESSOR] = "post_processor",
    [ADDED_TOKENS] = "added_tokens",
};

/* What a file must say to be of the Qwen kind: each value as it is written, the usual one first. The expression is the
 * one that split.c follows. */
static const struct rule {
    enum member member;
    const char *path;
    const char *allowed[4];
} rules[] = {
    { TYPE, "", { "\"BPE\"" } },
    { DROPOUT, "", { "null", "0.0", "missing" } },
    { BYTE_FALLBACK, "", { "false", "missing" } },
    { IGNORE_MERGES, "", { "false", "missing" } },
    { WORD_PREFIX, "", { "\"\"", "null", "missing" } },
    { WORD_SUFFIX, "", { "\"\"", "null", "missing" } },
    { NORMALIZER, "type", { "\"NFC\"", "null", "missing" } },
    { PRE_TOKENIZER, "type", { "\"Sequence\"" } },
    { PRE_TOKENIZER, "pretokenizers.0.type", { "\"Split\"" } },
    { PRE_TOKENIZER,
      "pretokenizers.0.pattern.Regex",
      { "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}|"
        " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"" } },
    { PRE_TOKENIZER, "pretokenizers.0.behavior", { "\"Isolated\"" } },
    { PRE_TOKENIZER, "pretokenizers.0.invert", { "false", "missing" } },
    { PRE_TOKENIZER, "pretokenizers.1.type", { "\"ByteLevel\"" } },
    { PRE_TOKENIZER, "pretokenizers.1.add_prefix_space", { "false" } },
    { PRE_TOKENIZER, "pretokenizers.1.use_regex", { "false" } },
    { PRE_TOKENIZER, "pretokenizers.2", { "missing" } },
    { POST_PROCESSOR, "type", { "null", "missing", "\"ByteLevel\"", "\"TemplateProcessing\"" } },
    { POST_PROCESSOR, "special_tokens", { "{}", "null", "missing" } },
};

static bool check_rule(struct reading *r, const struct rule *rule, const kn_json_text value[MEMBERS]) {
    kn_json_text got;
    const char *name = member_names[rule->member], *dot = *rule->path ? "." : "";
    if (!find(r, value[rule->member], rule->path, &got))
        return kn_fail_within(r->err, "%s", name);
    for (size_t i = 0; i < KN_COUNT(rule->allowed) && rule->allowed[i]; i++)
        if (kn_json_is(got, rule->allowed[i]))
            return true;
    assert(rule->allowed[0]);
    const char *usual = strlen(rule->allowed[0]) < 48 ? rule->allowed[0] : "another one"; /* the expression is long */
    return kn_fail(r->err, KN_E_UNSUPPORTED, "%s%s%s is %s; the Qwen tokenizer has %s", name, dot, rule->path,
                   shown(got).text, usual);
}

/* Notes where the members are; `inside` is the front of their names. The file is checked as JSON on the way. */
static bool note_members(kn_json_reader *j, const char *inside, kn_json_text value[MEMBERS]) {
    kn_json_text key;
    kn_json_object(j);
    while (kn_json_key(j, &key)) {
        if (!*inside && kn_json_is(key, "model")) {
            if (!note_members(j, "model.", value))
                return false;
            continue;
        }
        kn_json_text other = missing, *into = &other;
        for (size_t m = 0; m < MEMBERS; m++) {
            const char *name = member_names[m] + strlen(inside);
            bool here = strncmp(member_names[m], inside, strlen(inside)) == 0 && !strchr(name, '.');
            if (here && kn_json_is(key, name))
                into = &value[m];
        }
        if (into->data != missing.data)
            return kn_fail(j->err, KN_E_FORMAT, "'%s%s' occurs twice", inside, shown(key).text);
        kn_json_skip(j, into);
    }
    return !j->failed;
}

static bool read_json(struct reading *r) {
    kn_json_text value[MEMBERS];
    for (size_t m = 0; m < MEMBERS; m++)
        value[m] = missing;
    kn_json_reader j;
    kn_json_begin(&j, r->file, r->file, r->err);
    bool ok = note_members(&j, "", value) && kn_json_finish(&j);
    kn_json_close(&j);
    if (!ok)
        return false;
    if (value[VOCAB].data == missing.data)
        return kn_fail(r->err, KN_E_UNSUPPORTED, "is not a tokenizer: it has no model.vocab");
    for (size_t i = 0; i < KN_COUNT(rules); i++)
        if (!check_rule(r, &rules[i], value))
            return false;
    if (value[MERGES].data == missing.data)
        return kn_fail(r->err, KN_E_FORMAT,
                       "model.merges is missing: without merges text cannot be split into tokens; "
                       "a complete file from the model's publisher is needed");
    if (!read_vocabulary(r, value[VOCAB]))
        return kn_fail_within(r->err, "%s", member_names[VOCAB]);
    if (!read_merges_json(r, value[MERGES]))
        return kn_fail_within(r->err, "%s", member_names[MERGES]);
    if (value[ADDED_TOKENS].data != missing.data && !read_added_array(r, value[ADDED_TOKENS]))
        return kn_fail_within(r->err, "%s", member_names[ADDED_TOKENS]);
    return r->t->n_added > 0 || add_published(r);
}

static bool read_three(struct reading *r, const kn_tokenizer_files *files) {
    r->file = (kn_json_text){ files->vocab.data, files->vocab.len };
    if (!read_vocabulary(r, r->file))
        return kn_fail_within(r->err, "vocab.json");
    if (!read_merges_text(r, files->merges))
        return kn_fail_within(r->err, "merges.txt");
    r->file = (kn_json_text){ files->config.data, files->config.len };
    if (r->file.data && !read_config(r))
        return kn_fail_within(r->err, "tokenizer_config.json");
    return r->t->n_added > 0 || add_published(r);
}

bool kn_tokenizer_read_files(kn_tokenizer *t, const kn_tokenizer_files *files, kn_error *err) {
    const kn_tokenizer_bytes *all[] = { &files->vocab, &files->merges, &files->config, &files->json };
    for (size_t i = 0; i < KN_COUNT(all); i++)
        if (all[i]->len > MAX_FILE_BYTES)
            return kn_fail(err, KN_E_RANGE, "a file of %zu bytes is no tokenizer, at most %d are allowed", all[i]->len,
                           MAX_FILE_BYTES);
    if (!files->json.data && !files->vocab.data)
        return kn_fail(err, KN_E_NOT_FOUND, "%s is missing", files->merges.data ? "vocab.json" : "tokenizer.json");
    if (!files->json.data && !files->merges.data)
        return kn_fail(err, KN_E_NOT_FOUND,
                       "merges.txt is missing: without merges text cannot be split into tokens; "
                       "copy it from where vocab.json came from");
    struct reading r = { .t = t, .file = { files->json.data, files->json.len }, .err = err };
    kn_vocabulary_init(&r.v);
    bool ok = files->json.data ? read_json(&r) || kn_fail_within(err, "tokenizer.json") : read_three(&r, files);
    kn_vocabulary_free(&r.v);
    return ok && kn_tokenizer_finish_added(t, err);
}

/* A file of a folder, or nothing where there is none. */
static bool map_in(const char *folder, const char *name, kn_map *map, kn_tokenizer_bytes *ret, kn_error *err) {
    KN_AUTO_BUF path;
    kn_buf_init(&path, strlen(folder) + 64);
    if (!kn_buf_printf(&path, "%s/%s", folder, name))
        return kn_fail_nomem(err, path.limit);
    kn_error why = { 0 };
    if (kn_map_open(path.data, map, &why))
        *ret = (kn_tokenizer_bytes){ map->data ? (const char *)map->data : "", map->len };
    else if (why.code != KN_E_NOT_FOUND)
        return kn_fail(err, why.code, "%s %s", name, why.text);
    return true;
}

static bool open_folder(const char *path, kn_tokenizer **ret, kn_error *err) {
    kn_map map[4] = { 0 };
    kn_tokenizer_files files = { 0 };
    bool ok = map_in(path, "vocab.json", &map[0], &files.vocab, err) &&
              map_in(path, "merges.txt", &map[1], &files.merges, err) &&
              map_in(path, "tokenizer_config.json", &map[2], &files.config, err) &&
              map_in(path, "tokenizer.json", &map[3], &files.json, err);
    if (ok && files.vocab.data && files.merges.data && files.config.data)
        files.json.data = NULL;
    if (ok && !files.json.data && !files.vocab.data && !files.merges.data)
        ok = kn_fail(err, KN_E_NOT_FOUND, "the folder has neither vocab.json and merges.txt nor tokenizer.json");
    ok = ok && kn_tokenizer_open_bytes(&files, ret, err);
    for (size_t i = 0; i < KN_COUNT(map); i++)
        kn_map_close(&map[i]);
    return ok;
}

bool kn_tokenizer_open(const char *path, kn_tokenizer **ret, kn_error *err) {
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return open_folder(path, ret, err);
    kn_map map = { 0 };
    if (!kn_map_open(path, &map, err))
        return false;
    kn_tokenizer_files files = { .json = { map.data ? (const char *)map.data : "", map.len } };
    bool ok = kn_tokenizer_open_bytes(&files, ret, err);
    kn_map_close(&map);
    return ok;
}
