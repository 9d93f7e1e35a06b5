#include "catalog/answer.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { NUMBER_BYTES = 24 };

typedef struct slice {
    const char *at;
    size_t len;
} slice;

void kn_answer_begin(kn_answer *a) {
    *a = (kn_answer){ .total = KN_SIZE_UNKNOWN, .length = KN_SIZE_UNKNOWN };
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static slice trimmed(const char *at, size_t len) {
    while (len && is_blank(*at)) {
        at++;
        len--;
    }
    while (len && is_blank(at[len - 1]))
        len--;
    return (slice){ at, len };
}

static bool is_word(slice s, const char *word) {
    return s.len == strlen(word) && !strncasecmp(s.at, word, s.len);
}

static bool read_number(const char *at, size_t len, uint64_t *ret) {
    char text[NUMBER_BYTES];
    if (!len || len >= sizeof text)
        return false;
    memcpy(text, at, len);
    text[len] = 0;
    return kn_parse_u64(text, ret) && *ret != KN_SIZE_UNKNOWN;
}

/* "bytes 0-99/3000", "bytes 0-99" followed by "/" and an asterisk, or an asterisk and "/3000". */
static bool read_range(slice s, kn_answer *a) {
    static const char unit[] = "bytes ";
    size_t n = sizeof unit - 1;
    if (s.len < n || strncasecmp(s.at, unit, n) != 0)
        return false;
    slice v = trimmed(s.at + n, s.len - n);
    const char *slash = memchr(v.at, '/', v.len);
    if (!slash)
        return false;
    size_t before = (size_t)(slash - v.at), after = v.len - before - 1;
    bool knows_total = !(after == 1 && slash[1] == '*');
    if (knows_total && !read_number(slash + 1, after, &a->total))
        return false;
    if (before == 1 && v.at[0] == '*')
        return knows_total;
    const char *dash = memchr(v.at, '-', before);
    if (!dash || !read_number(v.at, (size_t)(dash - v.at), &a->first) ||
        !read_number(dash + 1, (size_t)(slash - dash) - 1, &a->last))
        return false;
    a->has_range = true;
    return a->first <= a->last && (!knows_total || a->last < a->total);
}

bool kn_etag_is_strong(const char *text, size_t len) {
    if (len < 2 || len >= KN_ETAG_BYTES || text[0] != '"' || text[len - 1] != '"')
        return false;
    for (size_t i = 1; i < len - 1; i++)
        if ((unsigned char)text[i] < 0x21 || text[i] == '"' || text[i] == 0x7F)
            return false;
    return true;
}

void kn_answer_line(kn_answer *a, const char *line, size_t len) {
    if (len >= 5 && !strncmp(line, "HTTP/", 5)) {
        kn_answer_begin(a);
        return;
    }
    const char *colon = len ? memchr(line, ':', len) : NULL;
    if (!colon)
        return;
    slice name = trimmed(line, (size_t)(colon - line));
    slice value = trimmed(colon + 1, len - (size_t)(colon - line) - 1);
    if (is_word(name, "Content-Range")) {
        bool again = a->has_range || a->total != KN_SIZE_UNKNOWN;
        a->is_nonsense |= again || !read_range(value, a);
    } else if (is_word(name, "Content-Length")) {
        uint64_t before = a->length;
        a->is_nonsense |=
            !read_number(value.at, value.len, &a->length) || (before != KN_SIZE_UNKNOWN && before != a->length);
    } else if (is_word(name, "Content-Encoding")) {
        a->is_encoded |= !is_word(value, "identity");
    } else if (is_word(name, "ETag")) {
        bool strong = kn_etag_is_strong(value.at, value.len);
        a->is_nonsense |=
            a->etag[0] && !(strong && strlen(a->etag) == value.len && !memcmp(a->etag, value.at, value.len));
        if (strong) {
            memcpy(a->etag, value.at, value.len);
            a->etag[value.len] = 0;
        }
    }
}
