#include "weights/json.h"

#include <string.h>

#include "base/text.h"

bool kn_scan_broken(const kn_scan *j, const char *why) {
    return kn_fail(j->err, KN_E_FORMAT, "%s is broken at byte %td: %s", j->what, j->at - j->start, why);
}

static void skip_space(kn_scan *j) {
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
        j->at++;
}

bool kn_scan_take(kn_scan *j, char c) {
    skip_space(j);
    if (j->at == j->end || *j->at != c)
        return false;
    j->at++;
    return true;
}

bool kn_scan_another(kn_scan *j, size_t seen, char close, bool *ret) {
    *ret = !kn_scan_take(j, close);
    if (!*ret || seen == 0)
        return true;
    return kn_scan_take(j, ',') || kn_scan_broken(j, "a comma is missing");
}

static bool hex4(kn_scan *j, uint32_t *ret) {
    uint32_t v = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        int c = j->at < j->end ? (unsigned char)*j->at : 0;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return kn_scan_broken(j, "four hexadecimal digits are expected");
        v = v << 4 | (uint32_t)digit;
    }
    *ret = v;
    return true;
}

/* One escape sequence, j->at behind its backslash. */
static bool escape(kn_scan *j, char **out) {
    static const char written[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (j->at == j->end)
        return kn_scan_broken(j, "a text does not end");
    const char *simple = memchr(written, *j->at, sizeof written - 1);
    if (simple) {
        *(*out)++ = meant[simple - written];
        j->at++;
        return true;
    }
    if (*j->at != 'u')
        return kn_scan_broken(j, "unknown escape in a text");
    j->at++;
    uint32_t c = 0, low = 0;
    if (!hex4(j, &c))
        return false;
    if (c == 0)
        return kn_scan_broken(j, "a text holds a NUL character"); /* a C string would end there without a word */
    if (c >= 0xD800 && c < 0xE000) {
        bool pair = c < 0xDC00 && j->end - j->at >= 2 && j->at[0] == '\\' && j->at[1] == 'u';
        if (pair) {
            j->at += 2;
            if (!hex4(j, &low))
                return false;
        }
        if (low < 0xDC00 || low >= 0xE000)
            return kn_scan_broken(j, "a text holds half a surrogate pair");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    *out += kn_utf8_put(c, *out);
    return true;
}

bool kn_scan_string(kn_scan *j, const char **ret, size_t *ret_len) {
    if (!kn_scan_take(j, '"'))
        return kn_scan_broken(j, "a text in quotes is expected");
    char *out = j->text; /* no string is longer decoded than written, its NUL takes the place of a quote */
    for (;;) {
        if (j->at == j->end)
            return kn_scan_broken(j, "a text does not end");
        unsigned char c = (unsigned char)*j->at;
        if (c == '"')
            break;
        if (c < 0x20)
            return kn_scan_broken(j, "a text holds a control character");
        if (c == '\\') {
            j->at++;
            if (!escape(j, &out))
                return false;
        } else if (c < 0x80) {
            *out++ = *j->at++;
        } else {
            const char *from = j->at;
            uint32_t ignored = 0;
            if (!kn_utf8_next(&j->at, j->end, &ignored))
                return kn_scan_broken(j, "a text is not UTF-8");
            memcpy(out, from, (size_t)(j->at - from));
            out += j->at - from;
        }
    }
    j->at++;
    *ret_len = (size_t)(out - j->text);
    *ret = j->text;
    *out = 0;
    j->text = out + 1;
    return true;
}

bool kn_scan_key(kn_scan *j, const char **ret, size_t *ret_len) {
    return kn_scan_string(j, ret, ret_len) && (kn_scan_take(j, ':') || kn_scan_broken(j, "a colon is missing"));
}

static size_t digits(kn_scan *j) {
    const char *from = j->at;
    while (j->at < j->end && *j->at >= '0' && *j->at <= '9')
        j->at++;
    return (size_t)(j->at - from);
}

static bool next_is(const kn_scan *j, const char *any) {
    return j->at < j->end && memchr(any, *j->at, strlen(any));
}

bool kn_scan_unsigned(kn_scan *j, uint64_t *ret) {
    skip_space(j);
    const char *from = j->at;
    size_t n = digits(j);
    if (n == 0 || (n > 1 && *from == '0') || next_is(j, ".eE"))
        return kn_scan_broken(j, "an unsigned integer is expected");
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (KN_MUL_OVERFLOWS(v, 10u, &v) || KN_ADD_OVERFLOWS(v, (uint64_t)(from[i] - '0'), &v))
            return kn_scan_broken(j, "a number is too large");
    }
    *ret = v;
    return true;
}

bool kn_scan_unsigned_list(kn_scan *j, uint64_t *ret, size_t max, const char *name, size_t *ret_count) {
    if (!kn_scan_take(j, '['))
        return kn_scan_broken(j, "a list of unsigned integers is expected");
    for (size_t n = 0;; n++) {
        bool more = false;
        if (!kn_scan_another(j, n, ']', &more))
            return false;
        if (!more) {
            *ret_count = n;
            return true;
        }
        if (n == max)
            return kn_fail(j->err, KN_E_RANGE, "has more than %zu %s", max, name);
        if (!kn_scan_unsigned(j, &ret[n]))
            return false;
    }
}

static bool word(kn_scan *j, const char *w) {
    size_t n = strlen(w);
    skip_space(j);
    if ((size_t)(j->end - j->at) < n || memcmp(j->at, w, n) != 0)
        return false;
    j->at += n;
    return true;
}

bool kn_scan_boolean(kn_scan *j, bool *ret) {
    bool v = word(j, "true");
    if (!v && !word(j, "false"))
        return kn_scan_broken(j, "true or false is expected");
    *ret = v;
    return true;
}

static bool skip_number(kn_scan *j) {
    j->at += next_is(j, "-");
    const char *from = j->at;
    size_t n = digits(j);
    bool ok = n > 0 && !(n > 1 && *from == '0');
    if (ok && next_is(j, ".")) {
        j->at++;
        ok = digits(j) > 0;
    }
    if (ok && next_is(j, "eE")) {
        j->at++;
        j->at += next_is(j, "+-");
        ok = digits(j) > 0;
    }
    return ok || kn_scan_broken(j, "a value is expected");
}

static bool skip_items(kn_scan *j, char close, int depth) {
    if (depth == 0)
        return kn_scan_broken(j, "nested too deeply");
    for (size_t n = 0;; n++) {
        const char *key = NULL;
        size_t len = 0;
        bool more = false;
        if (!kn_scan_another(j, n, close, &more))
            return false;
        if (!more)
            return true;
        if ((close == '}' && !kn_scan_key(j, &key, &len)) || !kn_scan_skip(j, depth - 1))
            return false;
    }
}

bool kn_scan_skip(kn_scan *j, int depth) {
    const char *text = NULL;
    size_t len = 0;
    if (kn_scan_take(j, '{'))
        return skip_items(j, '}', depth);
    if (kn_scan_take(j, '['))
        return skip_items(j, ']', depth);
    if (next_is(j, "\""))
        return kn_scan_string(j, &text, &len);
    return word(j, "true") || word(j, "false") || word(j, "null") || skip_number(j);
}

bool kn_scan_end(kn_scan *j) {
    skip_space(j);
    return j->at == j->end || kn_scan_broken(j, "something follows its end");
}
