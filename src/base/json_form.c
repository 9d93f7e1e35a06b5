#include "base/json_form.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"

/* Far longer than any chain of our own keys. */
enum { PLACE_BYTES = 400 };

/* "managed.workers[2].device" */
static bool place_of(const kn_form *f, kn_buf *into) {
    if (f->outer && !place_of(f->outer, into))
        return false;
    if (f->key < 0)
        return true;
    return kn_buf_printf(into, "%s%s", into->len ? "." : "", f->keys[f->key]) &&
           (f->item < 0 || kn_buf_printf(into, "[%td]", f->item));
}

/* The reader tells where in the text it has stopped; the innermost form, which hears of that first, adds which value
 * that is. */
static void add_place(const kn_form *f) {
    kn_json_reader *j = f->j;
    KN_AUTO_BUF place;
    kn_buf_init(&place, PLACE_BYTES);
    if (j->placed)
        return;
    j->placed = true;
    if (place_of(f, &place) && place.len)
        kn_fail_within(j->err, "%s", place.data);
    if (j->pointer && !kn_form_pointer(f, j->pointer))
        kn_buf_clear(j->pointer);
}

bool kn_form_open(kn_form *f, kn_json_reader *j, const kn_form *outer, const char *const *keys, size_t count) {
    assert(count <= KN_FORM_KEYS_MAX);
    *f = (kn_form){ .j = j, .outer = outer, .keys = keys, .count = count, .key = -1, .item = -1 };
    if (!j->failed && kn_json_peek(j) != '{')
        return kn_form_fail(f, KN_E_FORMAT, "an object is expected");
    return kn_json_object(j);
}

static void point_at(kn_form *f, kn_json_text key) {
    if (key.len < sizeof f->stranger)
        memcpy(f->stranger, key.data, key.len);
}

/* The number of the key, once; -1: nobody knows it. */
static bool note_key(kn_form *f, kn_json_text key, int *ret) {
    *ret = -1;
    for (size_t i = 0; i < f->count; i++) {
        if (!kn_json_is(key, f->keys[i]))
            continue;
        if (f->seen >> i & 1) {
            point_at(f, key);
            return kn_form_fail(f, KN_E_FORMAT, "the key '%s' comes twice", f->keys[i]);
        }
        f->seen |= (uint64_t)1 << i;
        *ret = (int)i;
    }
    if (*ret >= 0 || f->tolerant)
        return true;
    kn_quoted word = kn_quote(key.data, key.len);
    point_at(f, key);
    return kn_form_fail(f, KN_E_FORMAT, "unknown key '%s'%s", word.text,
                        kn_suggest_choice(word.text, f->keys, f->count).text);
}

bool kn_form_next(kn_form *f, int *ret) {
    kn_json_text key;
    char c = kn_json_peek(f->j);
    if (c == ',' || c == '}') { /* else something is wrong with the last value, or behind it */
        f->key = -1;
        f->item = -1;
    }
    while (kn_json_key(f->j, &key) && note_key(f, key, ret)) {
        if (*ret >= 0) {
            f->key = *ret;
            return true;
        }
        kn_json_skip(f->j, NULL);
    }
    if (f->j->failed)
        add_place(f);
    return false;
}

bool kn_form_has(const kn_form *f, int key) {
    return f->seen >> key & 1;
}

bool kn_form_need(kn_form *f, int key) {
    if (f->j->failed)
        return false;
    f->key = -1;
    return kn_form_has(f, key) || kn_form_fail(f, KN_E_FORMAT, "the key '%s' is missing", f->keys[key]);
}

bool kn_form_items(kn_form *f) {
    if (!f->j->failed && kn_json_peek(f->j) != '[')
        return kn_form_fail(f, KN_E_FORMAT, "an array is expected");
    return kn_json_array(f->j);
}

bool kn_form_item(kn_form *f) {
    if (f->j->failed)
        return false;
    bool more = kn_json_item(f->j);
    f->item = more ? f->item + 1 : -1;
    return more;
}

/* By a client. */
static bool is_sent(const kn_form *f) {
    return f->j->what;
}

static bool is_whole(kn_json_text number) {
    for (size_t i = 0; i < number.len; i++)
        if (number.data[i] < '0' || number.data[i] > '9')
            return false;
    return true;
}

bool kn_form_u64(kn_form *f, uint64_t min, uint64_t max, uint64_t *ret) {
    kn_json_text number;
    char digits[24] = "";
    uint64_t v = 0;
    char c = kn_json_peek(f->j);
    if (!f->j->failed && c != '-' && (c < '0' || c > '9'))
        return kn_form_fail(f, KN_E_FORMAT, "a number from %" PRIu64 " to %" PRIu64 " is expected", min, max);
    if (!kn_json_skip(f->j, &number))
        return false;
    if (number.len < sizeof digits)
        memcpy(digits, number.data, number.len);
    bool fits = kn_parse_u64(digits, &v) && v >= min && v <= max;
    if (!fits && (is_sent(f) || !is_whole(number)))
        return kn_form_fail(f, KN_E_FORMAT, "a whole number from %" PRIu64 " to %" PRIu64 " is expected", min, max);
    if (!fits)
        return kn_form_fail(f, KN_E_RANGE, "%s is outside %" PRIu64 " to %" PRIu64,
                            kn_quote(number.data, number.len).text, min, max);
    *ret = v;
    return true;
}

bool kn_form_text(kn_form *f, size_t min, size_t max, kn_json_text *ret) {
    kn_json_text text;
    if (!f->j->failed && kn_json_peek(f->j) != '"')
        return kn_form_fail(f, KN_E_FORMAT, "a text in quotes is expected");
    if (!kn_json_string(f->j, &text))
        return false;
    if (text.len < min || text.len > max)
        return kn_form_fail(f, KN_E_RANGE, "a text of %zu to %zu bytes is expected, this one has %zu", min, max,
                            text.len);
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7F)
            return kn_form_fail(f, KN_E_FORMAT, "the text holds a control character");
    }
    *ret = text;
    return true;
}

bool kn_form_real(kn_form *f, double min, double max, double *ret) {
    kn_json_text number;
    char digits[64] = "";
    double v = 0;
    char c = kn_json_peek(f->j);
    if (!f->j->failed && c != '-' && (c < '0' || c > '9'))
        return kn_form_fail(f, KN_E_FORMAT, "a number from %g to %g is expected", min, max);
    if (!kn_json_skip(f->j, &number))
        return false;
    if (number.len < sizeof digits)
        memcpy(digits, number.data, number.len);
    if (!kn_parse_double(digits, &v) || !(v >= min && v <= max))
        return kn_form_fail(f, KN_E_RANGE, "a number from %g to %g is expected", min, max);
    *ret = v;
    return true;
}

bool kn_form_bool(kn_form *f, bool *ret) {
    char c = kn_json_peek(f->j);
    if (!f->j->failed && c != 't' && c != 'f')
        return kn_form_fail(f, KN_E_FORMAT, "true or false is expected");
    return kn_json_bool(f->j, ret);
}

bool kn_form_null(kn_form *f) {
    return !f->j->failed && kn_json_peek(f->j) == 'n' && kn_json_skip(f->j, NULL);
}

static size_t characters(kn_json_text text) {
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += (text.data[i] & 0xC0) != 0x80;
    return n;
}

bool kn_form_prose(kn_form *f, size_t min, size_t max, kn_json_text *ret) {
    kn_json_text text;
    if (!f->j->failed && kn_json_peek(f->j) != '"')
        return kn_form_fail(f, KN_E_FORMAT, "a text in quotes is expected");
    if (!kn_json_string(f->j, &text))
        return false;
    size_t n = characters(text);
    if (n < min || n > max)
        return kn_form_fail(f, KN_E_RANGE, "a text of %zu to %zu characters is expected, this one has %zu", min, max,
                            n);
    *ret = text;
    return true;
}

bool kn_form_word(kn_form *f, const char *const *words, size_t count, size_t *ret) {
    kn_json_text text;
    if (!f->j->failed && kn_json_peek(f->j) != '"')
        return kn_form_fail(f, KN_E_FORMAT, "a text in quotes is expected");
    if (!kn_json_string(f->j, &text))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (kn_json_is(text, words[i])) {
            *ret = i;
            return true;
        }
    }
    kn_quoted word = kn_quote(text.data, text.len);
    kn_choice choice = kn_suggest_choice(word.text, words, count);
    return is_sent(f) ? kn_form_fail(f, KN_E_FORMAT, "the word is not known%s", choice.text)
                      : kn_form_fail(f, KN_E_FORMAT, "'%s' is not known%s", word.text, choice.text);
}

int kn_form_set_error(kn_form *f, kn_code code, const char *fmt, ...) {
    kn_json_reader *j = f->j;
    if (j->failed)
        return 0;
    j->failed = true;
    va_list args;
    va_start(args, fmt);
    char text[sizeof j->err->text];
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    kn_error_set(j->err, code, "%s", text);
    add_place(f);
    return 0;
}

/* The two characters that mean something in a pointer have other names there. */
static bool add_name(const char *name, kn_buf *into) {
    bool ok = kn_buf_add_text(into, "/");
    for (; ok && *name; name++)
        ok = *name == '~'   ? kn_buf_add_text(into, "~0")
             : *name == '/' ? kn_buf_add_text(into, "~1")
                            : kn_buf_add(into, name, 1);
    return ok;
}

bool kn_form_pointer(const kn_form *f, kn_buf *into) {
    if (f->outer && !kn_form_pointer(f->outer, into))
        return false;
    if (f->stranger[0])
        return add_name(f->stranger, into);
    if (f->key < 0)
        return true;
    return kn_buf_printf(into, "/%s", f->keys[f->key]) && (f->item < 0 || kn_buf_printf(into, "/%td", f->item));
}

bool kn_form_finish(kn_form *f) {
    bool ok = kn_json_finish(f->j);
    if (!ok)
        add_place(f);
    kn_json_close(f->j);
    return ok;
}
