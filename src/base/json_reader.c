#include "base/json_reader.h"

#include <string.h>

#include "base/text.h"

enum { LOOSE_LEVELS = 1 << 20 };

void kn_json_begin(kn_json_reader *j, kn_json_text document, kn_json_text part, kn_error *err) {
    *j = (kn_json_reader){ .start = document.data, .at = part.data, .end = part.data + part.len, .err = err };
    kn_buf_init(&j->decoded, part.len);
    kn_buf_init(&j->deeper, LOOSE_LEVELS);
}

void kn_json_begin_inside(kn_json_reader *j, kn_json_text text, const char *what, kn_error *err) {
    kn_json_begin(j, text, text, err);
    j->what = what;
}

void kn_json_close(kn_json_reader *j) {
    kn_buf_free(&j->decoded);
    kn_buf_free(&j->deeper);
}

bool kn_json_is(kn_json_text text, const char *word) {
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

bool kn_json_starts(kn_json_text text, const char *start) {
    size_t len = strlen(start);
    return text.len >= len && memcmp(text.data, start, len) == 0;
}

/* Says what is wrong at the current place. Lines and columns (in bytes) count from one, as in an editor. A file that
 * ends early may have been cut; a text inside of something else is all there, and simply wrong. */
static bool fail(kn_json_reader *j, const char *what) {
    if (j->failed)
        return false;
    j->failed = true;
    bool early = j->at == j->end;
    if (j->what)
        return kn_fail(j->err, KN_E_FORMAT, "%s is broken at byte %td: %s%s", j->what, j->at - j->start,
                       early ? "it ends where " : "", what);
    size_t line = 1;
    const char *from = j->start;
    for (const char *nl; from < j->at && (nl = memchr(from, '\n', (size_t)(j->at - from))); from = nl + 1)
        line++;
    return kn_fail(j->err, early ? KN_E_TRUNCATED : KN_E_FORMAT, "line %zu, column %zu: %s%s", line,
                   (size_t)(j->at - from) + 1, early ? "the file ends where " : "", what);
}

char kn_json_peek(kn_json_reader *j) {
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t'))
        j->at++;
    return !j->failed && j->at < j->end ? *j->at : 0;
}

static bool expect(kn_json_reader *j, char c, const char *what) {
    if (kn_json_peek(j) != c)
        return fail(j, what);
    j->at++;
    return true;
}

static const char too_deep[] = "less deeply nested data is expected";

/* Remembers the kind of the next level. */
static bool push(kn_json_reader *j, bool object) {
    size_t level = j->depth;
    if (level >= KN_JSON_MAX_DEPTH && !kn_buf_add(&j->deeper, object ? "{" : "[", 1))
        return fail(j, too_deep);
    j->depth++;
    if (level >= KN_JSON_MAX_DEPTH)
        return true;
    uint64_t bit = (uint64_t)1 << level;
    j->objects = object ? j->objects | bit : j->objects & ~bit;
    return true;
}

static void pop(kn_json_reader *j) {
    if (--j->depth >= KN_JSON_MAX_DEPTH)
        j->deeper.len--;
}

static bool is_in_object(const kn_json_reader *j) {
    return j->depth > KN_JSON_MAX_DEPTH ? j->deeper.data[j->deeper.len - 1] == '{' : j->objects >> (j->depth - 1) & 1;
}

static bool enter(kn_json_reader *j, bool object) {
    if (j->depth >= KN_JSON_MAX_DEPTH && !j->loose)
        return fail(j, too_deep);
    if (!expect(j, object ? '{' : '[', object ? "an object is expected" : "an array is expected"))
        return false;
    j->fresh = true;
    return push(j, object);
}

/* Stands between two values: true when there is another one; else the level is left, which completes a value above. */
static bool next(kn_json_reader *j, char close) {
    bool first = j->fresh;
    j->fresh = false;
    if (kn_json_peek(j) == close) {
        j->at++;
        pop(j);
        return false;
    }
    return first ? !j->failed : expect(j, ',', "a comma or the end of the array or object is expected");
}

bool kn_json_object(kn_json_reader *j) {
    return enter(j, true);
}

bool kn_json_array(kn_json_reader *j) {
    return enter(j, false);
}

bool kn_json_item(kn_json_reader *j) {
    return next(j, ']');
}

bool kn_json_key(kn_json_reader *j, kn_json_text *ret) {
    return next(j, '}') && kn_json_string(j, ret) && expect(j, ':', "a colon is expected");
}

/* Four hexadecimal digits of an escape. */
static bool hex4(kn_json_reader *j, uint32_t *ret) {
    uint32_t v = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        char c = j->at < j->end ? *j->at : 0;
        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            v = v << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return fail(j, "four hexadecimal digits are expected");
    }
    *ret = v;
    return true;
}

/* A character that is none, or none here. */
static bool replace(kn_json_reader *j, uint32_t *ret, const char *why) {
    if (!j->loose)
        return fail(j, why);
    j->replaced = true;
    *ret = 0xFFFD;
    return true;
}

/* What follows a backslash; characters outside the BMP are two escapes, high surrogate first. */
static bool escape(kn_json_reader *j, uint32_t *ret) {
    static const char letters[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    char c = j->at < j->end ? *j->at : 0;
    const char *known = c ? strchr(letters, c) : NULL;
    if (known) {
        j->at++;
        *ret = (uint32_t)meaning[known - letters];
        return true;
    }
    if (c != 'u')
        return fail(j, "an escape sequence is expected");
    j->at++;
    uint32_t high = 0, low = 0;
    if (!hex4(j, &high))
        return false;
    if (high == 0)
        return replace(j, ret, "a text holds a NUL character");
    if (high < 0xD800 || high > 0xDFFF) {
        *ret = high;
        return true;
    }
    const char *behind = j->at;
    bool pair = high < 0xDC00 && j->end - j->at >= 2 && memcmp(j->at, "\\u", 2) == 0;
    if (pair) {
        j->at += 2;
        if (!hex4(j, &low))
            return false;
    }
    if (low < 0xDC00 || low > 0xDFFF) {
        if (j->loose)
            j->at = behind; /* the second one is a character of its own */
        return replace(j, ret, "the other half of a surrogate pair is expected");
    }
    *ret = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

/* Moves over eight characters of ASCII at a time that stand for themselves, which is nearly all of a long text. In
 * those others the subtraction goes below zero, into the highest bit. */
static void plain_words(kn_json_reader *j) {
    static const uint64_t each = 0x0101010101010101u;
    for (uint64_t w; (size_t)(j->end - j->at) >= sizeof w; j->at += sizeof w) {
        memcpy(&w, j->at, sizeof w);
        uint64_t quote = (w ^ each * '"') - each, backslash = (w ^ each * '\\') - each, control = w - each * ' ';
        if ((w | quote | backslash | control) & each * 0x80)
            return;
    }
}

/* Moves over characters that stand for themselves. */
static bool plain_run(kn_json_reader *j) {
    for (;;) {
        plain_words(j);
        if (j->at == j->end)
            break;
        unsigned char c = (unsigned char)*j->at;
        uint32_t ignored = 0;
        if (c == '"' || c == '\\')
            return true;
        if (c < 0x20)
            return fail(j, "a control character must be written as an escape");
        if (c < 0x80)
            j->at++;
        else if (!kn_utf8_next(&j->at, j->end, &ignored))
            return fail(j, "the bytes are not UTF-8");
    }
    return fail(j, "the end of a string is expected");
}

bool kn_json_string(kn_json_reader *j, kn_json_text *ret) {
    if (!expect(j, '"', "a string is expected"))
        return false;
    const char *from = j->at;
    j->replaced = false;
    if (!plain_run(j))
        return false;
    if (*j->at == '"') {
        *ret = (kn_json_text){ from, (size_t)(j->at++ - from) };
        return true;
    }
    kn_buf_clear(&j->decoded);
    bool room = kn_buf_add(&j->decoded, from, (size_t)(j->at - from));
    while (room && *j->at == '\\') {
        j->at++;
        uint32_t c = 0;
        if (!escape(j, &c))
            return false;
        char utf8[4];
        room = kn_buf_add(&j->decoded, utf8, kn_utf8_put(c, utf8));
        from = j->at;
        if (!plain_run(j))
            return false;
        room = room && kn_buf_add(&j->decoded, from, (size_t)(j->at - from));
    }
    if (!room) {
        j->failed = true;
        return kn_fail_nomem(j->err, (unsigned long long)(j->at - from) + j->decoded.len);
    }
    j->at++;
    *ret = (kn_json_text){ j->decoded.data, j->decoded.len };
    return true;
}

static bool digits(kn_json_reader *j) {
    const char *from = j->at;
    while (j->at < j->end && *j->at >= '0' && *j->at <= '9')
        j->at++;
    return j->at > from || fail(j, "a digit is expected");
}

static bool whole_part(kn_json_reader *j) {
    const char *from = j->at;
    if (!digits(j))
        return false;
    return *from != '0' || j->at == from + 1 || fail(j, "a number without leading zeros is expected");
}

bool kn_json_u64(kn_json_reader *j, uint64_t *ret) {
    char c = kn_json_peek(j);
    const char *from = j->at;
    if (c < '0' || c > '9')
        return fail(j, "an unsigned integer is expected");
    uint64_t v = 0;
    if (!whole_part(j))
        return false;
    for (const char *p = from; p < j->at; p++) {
        if (KN_MUL_OVERFLOWS(v, 10u, &v) || KN_ADD_OVERFLOWS(v, (uint64_t)(*p - '0'), &v)) {
            j->at = from;
            return fail(j, "a number below 2^64 is expected");
        }
    }
    if (j->at < j->end && strchr(".eE", *j->at) && *j->at)
        return fail(j, "an unsigned integer is expected");
    *ret = v;
    return true;
}

static bool skip_number(kn_json_reader *j) {
    j->at += *j->at == '-';
    if (!whole_part(j))
        return false;
    if (j->at < j->end && *j->at == '.') {
        j->at++;
        if (!digits(j))
            return false;
    }
    if (j->at == j->end || (*j->at | 32) != 'e')
        return true;
    j->at++;
    if (j->at < j->end && (*j->at == '+' || *j->at == '-'))
        j->at++;
    return digits(j);
}

static bool word(kn_json_reader *j, const char *text, const char *what) {
    size_t len = strlen(text);
    if ((size_t)(j->end - j->at) < len || memcmp(j->at, text, len) != 0)
        return fail(j, what);
    j->at += len;
    return true;
}

bool kn_json_bool(kn_json_reader *j, bool *ret) {
    bool v = kn_json_peek(j) == 't';
    if (!word(j, v ? "true" : "false", "true or false is expected"))
        return false;
    *ret = v;
    return true;
}

/* A string, number or word; of an array or object only its beginning. */
static bool skip_start(kn_json_reader *j) {
    static const char no_value[] = "a value is expected";
    kn_json_text ignored;
    char c = kn_json_peek(j);
    switch (c) {
    case '{': return enter(j, true);
    case '[': return enter(j, false);
    case '"': return kn_json_string(j, &ignored);
    case 't': return word(j, "true", no_value);
    case 'f': return word(j, "false", no_value);
    case 'n': return word(j, "null", no_value);
    default: return c == '-' || (c >= '0' && c <= '9') ? skip_number(j) : fail(j, no_value);
    }
}

bool kn_json_skip(kn_json_reader *j, kn_json_text *ret) {
    kn_json_peek(j);
    const char *from = j->at;
    size_t outside = j->depth;
    do {
        skip_start(j);
        kn_json_text ignored;
        while (!j->failed && j->depth > outside) {
            if (is_in_object(j) ? kn_json_key(j, &ignored) : kn_json_item(j))
                break;
        }
    } while (!j->failed && j->depth > outside);
    if (ret && !j->failed)
        *ret = (kn_json_text){ from, (size_t)(j->at - from) };
    return !j->failed;
}

bool kn_json_finish(kn_json_reader *j) {
    if (!j->failed && (kn_json_peek(j) || j->at < j->end))
        return fail(j, "nothing more is expected");
    return !j->failed;
}

bool kn_json_check(kn_json_text text, kn_error *err) {
    kn_json_reader j;
    kn_json_begin_inside(&j, text, "the text", err);
    j.loose = true;
    kn_json_skip(&j, NULL);
    bool ok = kn_json_finish(&j);
    kn_json_close(&j);
    return ok;
}
