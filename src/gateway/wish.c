#include "gateway/wish.h"

#include <stdio.h>
#include <string.h>

#include "base/json_reader.h"
#include "base/text.h"

static bool is_key(kn_json_text key, const char *word) {
    return kn_span_is_like((kn_span){ key.data, key.len }, word);
}

/* ---- a request ---- */

/* Zero in every form that a duration of Go or a number can have: all of its digits are 0. What is no duration at all
 * the upstream refuses. */
static bool is_zero(kn_json_text value) {
    bool digits = false;
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        if (c == 'e' || c == 'E') /* what follows only says how often to multiply 0 */
            break;
        if (c >= '1' && c <= '9')
            return false;
        digits |= c == '0';
    }
    return digits;
}

/* Options that have an effect on how a model is loaded. */
static bool loads_otherwise(kn_json_text key) {
    static const char *const words[] = { "num_gpu",   "main_gpu", "num_batch",         "num_thread", "use_mmap",
                                         "use_mlock", "low_vram", "draft_num_predict", "f16_kv",     "numa" };
    for (size_t i = 0; i < KN_COUNT(words); i++)
        if (is_key(key, words[i]))
            return true;
    return false;
}

static bool read_options(kn_json_reader *j, kn_wish *w) {
    kn_json_text key;
    bool clear = true;
    if (kn_json_peek(j) == 'n')
        return kn_json_skip(j, NULL);
    kn_json_object(j);
    while (!j->failed && kn_json_key(j, &key)) {
        bool is_context = is_key(key, "num_ctx"), otherwise = loads_otherwise(key);
        bool is_null = kn_json_peek(j) == 'n';
        if (is_context && !is_null)
            clear = clear && !w->context_length && kn_json_u64(j, &w->context_length);
        else
            kn_json_skip(j, NULL);
        w->loads_otherwise |= otherwise && !is_null;
    }
    return clear;
}

/* An array is input if anything is in it, a string if it is not empty; null says nothing. */
static bool read_input(kn_json_reader *j, bool *ret) {
    kn_json_text value;
    char kind = kn_json_peek(j);
    if (!kn_json_skip(j, &value))
        return false;
    if (kind == '[') {
        size_t i = 1;
        while (i < value.len && strchr(" \t\r\n", value.data[i]))
            i++;
        *ret = value.data[i] != ']';
    } else {
        *ret = kind != 'n' && !(kind == '"' && value.len == 2);
    }
    return true;
}

/* If it comes again, the last one counts, unless that is null. */
static bool read_model(kn_json_reader *j, kn_wish *w) {
    kn_json_text text;
    char kind = kn_json_peek(j);
    if (kind == 'n')
        return kn_json_skip(j, NULL);
    if (kind != '"' || !kn_json_string(j, &text) || text.len > KN_MODEL_NAME_MAX)
        return false;
    memcpy(w->model, text.data, text.len);
    w->model[text.len] = 0;
    return kn_name_is_possible(w->model);
}

enum { MODEL = 1, INPUT = 2, OPTIONS = 4, KEEP_ALIVE = 8 };

static unsigned meaning_of(kn_json_text key, const char *input, bool native) {
    return is_key(key, "model")                  ? MODEL
           : is_key(key, input)                  ? INPUT
           : native && is_key(key, "options")    ? OPTIONS
           : native && is_key(key, "keep_alive") ? KEEP_ALIVE
                                                 : 0;
}

/* The upstream knows two letters beyond ASCII as an "s" and a "k". */
static bool is_taken_for_another(kn_json_text key) {
    return memmem(key.data, key.len, "\u017F", 2) || memmem(key.data, key.len, "\u212A", 3);
}

/* Whatever else comes twice is the upstream's to understand. */
static bool read_request(kn_json_reader *j, const char *input, bool native, kn_wish *w) {
    kn_json_text key, value;
    unsigned seen = 0;
    kn_json_object(j);
    while (!j->failed && kn_json_key(j, &key)) {
        unsigned meaning = meaning_of(key, input, native);
        bool ok = !(seen & meaning) && !is_taken_for_another(key);
        seen |= meaning & ~(unsigned)MODEL;
        switch (meaning) {
        case MODEL: ok = ok && read_model(j, w); break;
        case INPUT: ok = ok && read_input(j, &w->has_input); break;
        case OPTIONS: ok = ok && read_options(j, w); break;
        case KEEP_ALIVE:
            ok = ok && kn_json_skip(j, &value);
            w->at_once = ok && is_zero(value);
            break;
        default: kn_json_skip(j, NULL);
        }
        if (!ok)
            return false;
    }
    return !j->failed && w->model[0];
}

bool kn_wish_read(kn_span body, kn_input input, bool native, kn_wish *ret) {
    static const char *const inputs[] = { "prompt", "messages", "input" };
    const kn_json_text text = { body.data, body.len };
    kn_wish w = { .has_input = false };
    kn_error err = { 0 };
    kn_json_reader j;
    kn_json_begin(&j, text, text, &err);
    bool ok = read_request(&j, inputs[input], native, &w);
    kn_json_close(&j);
    if (ok)
        *ret = w;
    return ok;
}

bool kn_name_is_cloud(const char *name) {
    const char *tag = strrchr(name, ':');
    if (!tag || strchr(tag, '/'))
        return false;
    size_t len = strlen(++tag);
    return kn_span_is_like(kn_span_of(tag), "cloud") ||
           (len > 6 && kn_span_is_like(kn_span_of(tag + len - 6), "-cloud"));
}

bool kn_name_is_local(const char *name) {
    const char *tag = strrchr(name, ':');
    return tag && kn_span_is_like(kn_span_of(tag + 1), "local");
}

/* Of letters, digits and "_", and behind the first one of what else such a part may have. */
static bool is_part(const char *at, const char *end, const char *more) {
    enum { PART_MAX = 80 };
    static const char others[] = "-.:/";
    bool is_host = strchr(more, ':'); /* which may be as long as a name */
    if (at == end || strchr(others, *at) || (end - at > PART_MAX && !is_host))
        return false;
    for (; at < end; at++)
        if (strchr(others, *at) && !strchr(more, *at))
            return false;
    return true;
}

bool kn_name_is_well_formed(const char *name) {
    const char *end = name + strlen(name), *slash = strrchr(name, '/');
    const char *model = slash ? slash + 1 : name, *colon = strrchr(model, ':');
    if (!is_part(model, colon ? colon : end, "-.") || (colon && !is_part(colon + 1, end, "-.")))
        return false;
    if (!slash)
        return true;
    const char *before = memrchr(name, '/', (size_t)(slash - name));
    return is_part(before ? before + 1 : name, slash, "-") && (!before || is_part(name, before, "-.:"));
}

/* ---- a model ---- */

/* The contexts that a description has, each with the architecture that it belongs to. */
enum { CONTEXTS_MAX = 8, ARCHITECTURE_BYTES = 64 };
typedef struct contexts {
    char architecture[ARCHITECTURE_BYTES];
    size_t count;
    struct {
        uint64_t length;
        char architecture[ARCHITECTURE_BYTES];
    } of[CONTEXTS_MAX];
} contexts;

/* "llama.context_length" */
static void read_context(kn_json_reader *j, const char *key, size_t architecture_len, contexts *c) {
    uint64_t length = 0;
    if (!kn_json_u64(j, &length) || c->count == CONTEXTS_MAX)
        return;
    snprintf(c->of[c->count].architecture, ARCHITECTURE_BYTES, "%.*s", (int)architecture_len, key);
    c->of[c->count++].length = length;
}

static void read_info(kn_json_reader *j, contexts *c) {
    static const char end[] = ".context_length";
    kn_json_text key, text;
    kn_json_object(j);
    while (!j->failed && kn_json_key(j, &key)) {
        char kind = kn_json_peek(j), copy[ARCHITECTURE_BYTES + sizeof end] = "";
        size_t len = key.len < sizeof copy ? key.len : 0;
        memcpy(copy, key.data, len);
        bool is_context = len > sizeof end - 1 && strcmp(copy + len - (sizeof end - 1), end) == 0;
        if (strcmp(copy, "general.architecture") == 0 && kind == '"') {
            if (kn_json_string(j, &text) && text.len < sizeof c->architecture)
                memcpy(c->architecture, text.data, text.len);
        } else if (is_context && kind >= '0' && kind <= '9' && len - (sizeof end - 1) < ARCHITECTURE_BYTES) {
            read_context(j, copy, len - (sizeof end - 1), c);
        } else {
            kn_json_skip(j, NULL);
        }
    }
}

/* "num_ctx                        4096", one parameter in each line. */
static uint64_t usual_context(kn_json_text parameters) {
    static const char word[] = "num_ctx ";
    const char *at = parameters.data, *end = at + parameters.len;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > sizeof word - 1 && memcmp(at, word, sizeof word - 1) == 0) {
            char digits[24] = "";
            uint64_t length = 0;
            at += sizeof word - 1;
            while (at < stop && *at == ' ')
                at++;
            if ((size_t)(stop - at) < sizeof digits)
                memcpy(digits, at, (size_t)(stop - at));
            return kn_parse_u64(digits, &length) ? length : 0;
        }
        at = stop + 1;
    }
    return 0;
}

/* Adds the digest at the end of a path like /somewhere/blobs/sha256-….  The sum does not depend on the order. */
static void add_weights(kn_digest *sum, const char *path, size_t len) {
    static const char digits[] = "0123456789abcdef";
    kn_digest one;
    if (len < sizeof one.text || path[len - sizeof one.text] != '-' ||
        !kn_digest_parse(path + len - (sizeof one.text - 1), sizeof one.text - 1, &one))
        return;
    for (size_t i = 0; i < sizeof one.text - 1; i++)
        sum->text[i] = sum->text[i] ? digits[kn_hex_digit(sum->text[i]) ^ kn_hex_digit(one.text[i])] : one.text[i];
}

/* "FROM /…/sha256-…" and "ADAPTER /…/sha256-…", each in a line of its own. */
static void read_weights(kn_json_text modelfile, kn_digest *sum) {
    for (const char *at = modelfile.data, *end = at + modelfile.len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        const kn_json_text line = { at, (size_t)(stop - at) };
        if (kn_json_starts(line, "FROM ") || kn_json_starts(line, "ADAPTER "))
            add_weights(sum, line.data, line.len);
        at = stop + 1;
    }
}

bool kn_model_facts_read(const char *json, size_t len, kn_model_facts *ret, kn_error *err) {
    kn_model_facts f = { 0 };
    contexts c = { .count = 0 };
    kn_error failure = { 0 };
    kn_json_reader j;
    kn_json_text key, text;
    kn_json_begin_inside(&j, (kn_json_text){ json, len }, "the description of a model", &failure);
    kn_json_object(&j);
    while (!j.failed && kn_json_key(&j, &key)) {
        char kind = kn_json_peek(&j);
        if (kn_json_is(key, "parameters") && kind == '"')
            f.usual_context = kn_json_string(&j, &text) ? usual_context(text) : 0;
        else if (kn_json_is(key, "modelfile") && kind == '"' && kn_json_string(&j, &text))
            read_weights(text, &f.weights);
        else if (kn_json_is(key, "model_info") && kind == '{')
            read_info(&j, &c);
        else
            kn_json_skip(&j, NULL);
    }
    bool ok = kn_json_finish(&j);
    kn_json_close(&j);
    if (!ok)
        return kn_fail(err, failure.code, "%s", failure.text);
    for (size_t i = 0; i < KN_MIN(c.count, (size_t)CONTEXTS_MAX); i++)
        if (strcmp(c.of[i].architecture, c.architecture) == 0)
            f.trained_context = c.of[i].length;
    *ret = f;
    return true;
}

uint64_t kn_wish_context(const kn_wish *w, const kn_model_facts *f, uint64_t worker_context) {
    uint64_t context = w->context_length ? w->context_length : f->usual_context ? f->usual_context : worker_context;
    if (f->trained_context)
        context = KN_MIN(context, f->trained_context);
    return KN_MAX(context, (uint64_t)KN_CONTEXT_MIN);
}
