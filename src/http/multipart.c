#include "http/multipart.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { CONTENT, BEHIND_DELIMITER, HEAD, END };

static bool refuse(kn_multipart *m, const char *why) {
    m->failed = true;
    return kn_fail(m->err, KN_E_FORMAT, "the form is broken: %s", why);
}

/* ---- parameters: `; name=value; other="va\"lue"` ---- */

static bool is_token(char c) {
    return c > ' ' && c < 0x7F && !strchr("()<>@,;:\\\"/[]?={}", c);
}

/* Copies the value at *at, quoted or not, and moves behind it. */
static bool read_value(const char **at, const char *end, char *ret, size_t room) {
    size_t n = 0;
    bool quoted = *at < end && **at == '"';
    *at += quoted;
    for (; *at < end && (quoted ? **at != '"' : is_token(**at)); (*at)++) {
        if (quoted && **at == '\\' && *at + 1 < end)
            (*at)++;
        if (n + 1 == room || !**at)
            return false;
        ret[n++] = **at;
    }
    ret[n] = 0;
    if (!quoted)
        return n > 0;
    return *at < end && *(*at)++ == '"';
}

/* The parameter of a field's value. *ret_there: it is given. False: the value is not well-formed. */
static bool find_parameter(kn_span value, const char *name, char *ret, size_t room, bool *ret_there) {
    const char *end = value.data + value.len, *at = memchr(value.data, ';', value.len);
    *ret_there = false;
    for (at = at ? at : end; at < end;) {
        char other[KN_MULTIPART_HEAD_MAX] = "";
        if (*at++ != ';')
            return false;
        while (at < end && (*at == ' ' || *at == '\t'))
            at++;
        const char *word = at;
        while (at < end && is_token(*at))
            at++;
        size_t len = (size_t)(at - word);
        if (!len || at == end || *at++ != '=')
            return false;
        bool wanted = len == strlen(name) && !strncasecmp(word, name, len);
        if ((wanted && *ret_there) || !read_value(&at, end, wanted ? ret : other, wanted ? room : sizeof other))
            return false;
        *ret_there = *ret_there || wanted;
        while (at < end && (*at == ' ' || *at == '\t'))
            at++;
    }
    return true;
}

/* ---- the beginning ---- */

static bool is_boundary(const char *text) {
    static const char others[] = "'()+_,-./:=? ";
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!letter && !strchr(others, c))
            return false;
    }
    return len && text[len - 1] != ' ';
}

bool kn_multipart_begin(kn_multipart *m, kn_span type, const kn_multipart_receiver *to, kn_error *err) {
    char boundary[KN_MULTIPART_BOUNDARY_MAX + 1];
    bool there;
    *m = (kn_multipart){ .to = *to, .err = err };
    if (!find_parameter(type, "boundary", boundary, sizeof boundary, &there) || !there || !is_boundary(boundary))
        return refuse(m, "its type names no boundary");
    m->delimiter_len = (size_t)snprintf(m->delimiter, sizeof m->delimiter, "\r\n--%s", boundary);
    m->matched = 2; /* the first one stands at the beginning, where no line had to end */
    return true;
}

/* ---- the head of a part ---- */

static kn_span trimmed(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (kn_span){ at, (size_t)(end - at) };
}

static bool read_disposition(kn_multipart *m, kn_span value, char name[KN_MULTIPART_NAME_MAX + 1], bool *ret_file) {
    static const char form[] = "form-data";
    char file[KN_MULTIPART_HEAD_MAX];
    bool named, encoded;
    size_t len = sizeof form - 1;
    bool good = value.len > len && !strncasecmp(value.data, form, len) && strchr("; \t", value.data[len]) &&
                find_parameter(value, "name", name, KN_MULTIPART_NAME_MAX + 1, &named) && named && name[0] &&
                find_parameter(value, "filename", file, sizeof file, ret_file) &&
                find_parameter(value, "filename*", file, sizeof file, &encoded);
    if (!good || kn_utf8_check(name, strlen(name)) != strlen(name))
        return refuse(m, "a part has no name of at most 100 bytes");
    *ret_file = *ret_file || encoded;
    return true;
}

static bool begin_part(kn_multipart *m) {
    char name[KN_MULTIPART_NAME_MAX + 1] = "";
    bool is_file = false, known = false;
    const char *at = m->head, *end = m->head + m->head_len - 2; /* without the empty line */
    while (at < end) {
        const char *stop = memchr(at, '\r', (size_t)(end - at));
        if (!stop || stop + 1 == end || stop[1] != '\n')
            return refuse(m, "a line in the head of a part does not end with CR LF");
        const char *colon = memchr(at, ':', (size_t)(stop - at));
        for (const char *c = at; colon && c < colon; c++)
            if (!is_token(*c))
                return refuse(m, "a line in the head of a part is no field");
        if (!colon || colon == at)
            return refuse(m, "a line in the head of a part is no field");
        const kn_span field = { at, (size_t)(colon - at) };
        if (kn_span_is_like(field, "Content-Disposition")) {
            if (known)
                return refuse(m, "a part has two names");
            known = true;
            if (!read_disposition(m, trimmed(colon + 1, stop), name, &is_file))
                return false;
        } else if (kn_span_is_like(field, "Content-Transfer-Encoding")) {
            return refuse(m, "a part is encoded");
        }
        at = stop + 2;
    }
    if (!known)
        return refuse(m, "a part has no name");
    if (m->parts++ == KN_MULTIPART_PARTS_MAX)
        return refuse(m, "more than 64 parts");
    m->state = CONTENT;
    m->matched = 0;
    m->failed = !m->to.begin(m->to.ctx, name, is_file, m->err);
    return !m->failed;
}

static bool read_head(kn_multipart *m, char c) {
    if (m->head_len == sizeof m->head)
        return refuse(m, "the head of a part is longer than 4096 bytes");
    if (!c)
        return refuse(m, "a NUL in the head of a part");
    m->head[m->head_len++] = c;
    size_t n = m->head_len;
    bool empty = n == 2 && !memcmp(m->head, "\r\n", 2);
    return empty || (n >= 4 && !memcmp(m->head + n - 4, "\r\n\r\n", 4)) ? begin_part(m) : true;
}

/* ---- contents ---- */

static bool give(kn_multipart *m, const char *data, size_t len) {
    if (!m->parts)
        return refuse(m, "it does not begin with its boundary");
    m->failed = len && !m->to.data(m->to.ctx, (kn_span){ data, len }, m->err);
    return !m->failed;
}

/* CR stands nowhere in the delimiter but at its start, so what did not become one is content, and only the byte that
 * differs can begin another. */
static bool read_content(kn_multipart *m, const char **at, const char *end) {
    while (*at < end) {
        if (m->matched && **at == m->delimiter[m->matched]) {
            (*at)++;
            if (++m->matched == m->delimiter_len) {
                m->matched = 0;
                m->state = BEHIND_DELIMITER;
                m->failed = m->parts && !m->to.end(m->to.ctx, m->err);
                return !m->failed;
            }
            continue;
        }
        if (m->matched && !give(m, m->delimiter, m->matched))
            return false;
        m->matched = 0;
        const char *stop = memchr(*at, '\r', (size_t)(end - *at));
        if (!give(m, *at, (size_t)((stop ? stop : end) - *at)))
            return false;
        m->matched = stop ? 1 : 0;
        *at = stop ? stop + 1 : end;
    }
    return true;
}

/* CR LF: another part; "--": the end. */
static bool read_behind(kn_multipart *m, char c) {
    m->head[m->matched++] = c;
    if (m->matched < 2)
        return c == '\r' || c == '-' ? true : refuse(m, "a boundary is followed by something else");
    bool another = !memcmp(m->head, "\r\n", 2);
    if (!another && memcmp(m->head, "--", 2) != 0)
        return refuse(m, "a boundary is followed by something else");
    m->state = another ? HEAD : END;
    m->head_len = m->matched = 0;
    return true;
}

/* A line end, as many clients write it. */
static bool read_end(kn_multipart *m, char c) {
    static const char line_end[] = "\r\n";
    return m->matched < 2 && c == line_end[m->matched++] ? true : refuse(m, "something follows the last boundary");
}

bool kn_multipart_feed(kn_multipart *m, kn_span data) {
    const char *at = data.data, *end = at + data.len;
    while (!m->failed && at < end) {
        switch (m->state) {
        case CONTENT: read_content(m, &at, end); break;
        case BEHIND_DELIMITER: read_behind(m, *at++); break;
        case HEAD: read_head(m, *at++); break;
        case END: read_end(m, *at++); break;
        }
    }
    return !m->failed;
}

bool kn_multipart_end(kn_multipart *m) {
    if (m->failed)
        return false;
    return (m->state == END && m->parts) || refuse(m, m->parts ? "it is cut" : "it has no parts");
}
