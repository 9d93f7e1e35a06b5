#include "image/exif.h"

#include <string.h>

#include "base/text.h"

/* A directory is a count and then fields of tag, type, count and value; a value of more than 4 bytes stands elsewhere.
 */
enum { HEADER = 8, COUNT = 2, FIELD = 12, VALUE = 8, INLINE = 4, CODE = 8 };
enum { TAG_ORIENTATION = 0x0112, TAG_EXIF = 0x8769, TAG_COMMENT = 0x9286 };
enum { BYTE = 1, ASCII = 2, SHORT = 3, LONG = 4, UNDEFINED = 7 };

/* TIFF data, whose numbers are little-endian ("II") or big-endian ("MM"). */
struct tiff {
    const uint8_t *data;
    size_t len;
    bool big;
};

static uint32_t number(const struct tiff *t, size_t at, size_t bytes) {
    uint32_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | t->data[at + (t->big ? i : bytes - 1 - i)];
    return v;
}

static bool has(const struct tiff *t, size_t at, size_t bytes) {
    return at <= t->len && bytes <= t->len - at;
}

static bool open_tiff(const uint8_t *data, size_t len, struct tiff *ret) {
    static const char mark[6] = "Exif\0";
    if (len >= sizeof mark && memcmp(data, mark, sizeof mark) == 0) {
        data += sizeof mark;
        len -= sizeof mark;
    }
    *ret = (struct tiff){ .data = data, .len = len };
    if (!has(ret, 0, HEADER))
        return false;
    ret->big = data[0] == 'M';
    return (memcmp(data, "II", 2) == 0 || memcmp(data, "MM", 2) == 0) && number(ret, 2, 2) == 42;
}

/* Where the field of a directory stands; 0: there is none. */
static size_t find_field(const struct tiff *t, size_t directory, uint32_t tag) {
    if (!has(t, directory, COUNT))
        return 0;
    size_t fields = number(t, directory, COUNT), at = directory + COUNT;
    for (size_t i = 0; i < fields && has(t, at, FIELD); i++, at += FIELD)
        if (number(t, at, 2) == tag)
            return at;
    return 0;
}

static bool is(const struct tiff *t, size_t field, uint32_t type, uint32_t count) {
    return field && number(t, field + 2, 2) == type && number(t, field + 4, 4) == count;
}

int kn_exif_orientation(const uint8_t *data, size_t len) {
    struct tiff t;
    size_t field = open_tiff(data, len, &t) ? find_field(&t, number(&t, 4, 4), TAG_ORIENTATION) : 0;
    uint32_t value = is(&t, field, SHORT, 1) ? number(&t, field + VALUE, 2) : KN_EXIF_UPRIGHT;
    return value >= 1 && value <= 8 ? (int)value : KN_EXIF_UPRIGHT;
}

/* ---- comments ---- */

static const char ascii_code[CODE + 1] = "ASCII\0\0\0", unicode_code[CODE + 1] = "UNICODE\0";

/* Two bytes each, in an order that nobody has laid down: most programs use the highest byte first whatever the rest of
 * the data has. */
static bool add_unicode(const uint8_t *at, size_t len, kn_buf *into) {
    const uint8_t *end = at + len;
    bool ok = true, little = len >= 2 && at[0] && !at[1];
    while (ok && end - at >= 2) {
        uint32_t c = 0;
        char utf8[4];
        ok = kn_utf16_next(&at, end, little, &c) && c && kn_buf_add(into, utf8, kn_utf8_put(c, utf8));
    }
    return ok;
}

bool kn_exif_comment(const uint8_t *data, size_t len, kn_buf *into) {
    struct tiff t;
    size_t field = open_tiff(data, len, &t) ? find_field(&t, number(&t, 4, 4), TAG_EXIF) : 0;
    field = is(&t, field, LONG, 1) ? find_field(&t, number(&t, field + VALUE, 4), TAG_COMMENT) : 0;
    uint32_t type = field ? number(&t, field + 2, 2) : 0; /* UNDEFINED by the standard, but programs differ */
    if (type != UNDEFINED && type != BYTE && type != ASCII)
        return false;
    size_t bytes = number(&t, field + 4, 4), at = bytes <= INLINE ? field + VALUE : number(&t, field + VALUE, 4);
    if (bytes <= CODE || !has(&t, at, bytes))
        return false;
    const uint8_t *code = t.data + at, *text = code + CODE;
    size_t before = into->len, n = bytes - CODE;
    bool plain = memcmp(code, ascii_code, CODE) == 0;
    bool ok = plain ? kn_utf8_check((const char *)text, n) == n && !memchr(text, 0, n) && kn_buf_add(into, text, n)
                    : memcmp(code, unicode_code, CODE) == 0 && add_unicode(text, n, into);
    if (!ok) {
        into->len = before;
        into->data[before] = 0;
    }
    return ok;
}

/* ---- writing ---- */

static bool add_number(kn_buf *into, uint32_t v, size_t bytes) {
    char digits[4];
    for (size_t i = 0; i < bytes; i++)
        digits[i] = (char)(v >> (8 * (bytes - 1 - i)));
    return kn_buf_add(into, digits, bytes);
}

/* A directory of one field. */
static bool add_directory(kn_buf *into, uint32_t tag, uint32_t type, uint32_t count, uint32_t value) {
    return add_number(into, 1, 2) && add_number(into, tag, 2) && add_number(into, type, 2) &&
           add_number(into, count, 4) && add_number(into, value, 4) && add_number(into, 0, 4);
}

static bool put_unicode(kn_buf *into, const char *text) {
    const char *at = text, *end = text + strlen(text);
    uint32_t c = 0;
    bool ok = true;
    while (ok && at < end && kn_utf8_next(&at, end, &c))
        ok = c < 0x10000
                 ? add_number(into, c, 2)
                 : add_number(into, 0xD800 + ((c - 0x10000) >> 10), 2) && add_number(into, 0xDC00 + (c & 0x3FF), 2);
    return ok;
}

bool kn_exif_write(const char *text, kn_buf *into, kn_error *err) {
    enum { DIRECTORY = COUNT + FIELD + 4 };
    const size_t len = strlen(text);
    KN_AUTO_BUF units;
    kn_buf_init(&units, 2 * len);
    if (kn_utf8_check(text, len) != len)
        return kn_fail(err, KN_E_FORMAT, "the picture's text is not UTF-8");
    bool ok = put_unicode(&units, text) && kn_buf_add(into, "MM\0*", 4) && add_number(into, HEADER, 4) &&
              add_directory(into, TAG_EXIF, LONG, 1, HEADER + DIRECTORY) &&
              add_directory(into, TAG_COMMENT, UNDEFINED, (uint32_t)(CODE + units.len), HEADER + 2 * DIRECTORY) &&
              kn_buf_add(into, unicode_code, CODE) && kn_buf_add(into, units.data, units.len);
    return ok || kn_fail_nomem(err, len);
}
