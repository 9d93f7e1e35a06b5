#include "http/head.h"

#include <string.h>
#include <strings.h>

#include "base/compiler.h"

/* Sets of bytes, a bit each: 0x00 to 0x3f, 0x40 to 0x7f, …; what is left out is empty. */
typedef struct charset {
    uint64_t words[4];
} charset;

/* Everything but control characters; the tab is text. */
static const charset text_chars = { { 0xffffffff00000200, 0x7fffffffffffffff, UINT64_MAX, UINT64_MAX } };
/* Letters, digits, !#$%&'*+-.^_`|~ */
static const charset token_chars = { { 0x03ff6cfa00000000, 0x57ffffffc7fffffe } };
/* Visible but # */
static const charset target_chars = { { 0xfffffff600000000, 0x7fffffffffffffff } };
/* Letters, digits, -._~%!$&'()*+,;=:[] */
static const charset host_chars = { { 0x2fff7ff200000000, 0x47fffffeaffffffe } };

static bool has(const charset *set, char c) {
    unsigned char b = (unsigned char)c;
    return set->words[b / 64] >> b % 64 & 1;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static size_t span_while(const char *p, size_t n, const charset *set) {
    size_t i = 0;
    while (i < n && has(set, p[i]))
        i++;
    return i;
}

kn_span kn_span_of(const char *text) {
    return (kn_span){ text, strlen(text) };
}

int kn_hex_digit(char c) {
    if (is_digit(c))
        return c - '0';
    char letter = (char)(c | 0x20);
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

bool kn_is_token_char(char c) {
    return has(&token_chars, c);
}

bool kn_span_is(kn_span s, const char *text) {
    return s.len == strlen(text) && !memcmp(s.data, text, s.len);
}

bool kn_span_is_like(kn_span s, const char *text) {
    return s.len == strlen(text) && !strncasecmp(s.data, text, s.len);
}

unsigned kn_head_scan_more(kn_head_scan *s, const char *data, size_t len) {
    uint32_t of_head = (uint32_t)KN_MIN(len, (size_t)KN_HTTP_HEAD_MAX + 1);
    uint32_t of_line = KN_MIN(of_head, (uint32_t)KN_HTTP_LINE_MAX + 2); /* the first one, with its CR LF */
    uint32_t i = s->at, most = s->lines ? of_head : of_line;
    while (i < most) {
        bool after_cr = i > s->line && data[i - 1] == '\r';
        if (!after_cr)
            i += (uint32_t)span_while(data + i, most - i, &text_chars);
        if (i == most)
            break;
        char c = data[i];
        s->at = ++i;
        if (c == '\n') {
            if (!after_cr)
                return 400;
            bool empty = i - 2 == s->line;
            most = of_head;
            s->line = i;
            s->lines++;
            if (empty)
                return i <= KN_HTTP_HEAD_MAX ? KN_SCAN_COMPLETE : 431;
            if (s->lines > KN_HTTP_FIELDS_MAX + 1)
                return 431;
        } else if (after_cr || c != '\r') {
            return 400;
        }
    }
    s->at = i;
    if (!s->lines && s->at > KN_HTTP_LINE_MAX + 1)
        return 414;
    return s->at > KN_HTTP_HEAD_MAX ? 431 : KN_SCAN_MORE;
}

/* The names in `Connection: a, b`, one after the other: false behind the last one. *at moves behind it. */
static bool next_in_list(kn_span list, size_t *at, kn_span *ret) {
    while (*at < list.len && (is_blank(list.data[*at]) || list.data[*at] == ','))
        ++*at;
    size_t start = *at;
    while (*at < list.len && list.data[*at] != ',')
        ++*at;
    size_t end = *at;
    while (end > start && is_blank(list.data[end - 1]))
        end--;
    *ret = (kn_span){ list.data + start, end - start };
    return end > start;
}

static kn_field_id field_id(kn_span name) {
    static const struct {
        const char *name;
        kn_field_id id;
    } known[] = {
        { "authorization", KN_FIELD_AUTHORIZATION },
        { "connection", KN_FIELD_CONNECTION },
        { "content-encoding", KN_FIELD_CONTENT_ENCODING },
        { "content-length", KN_FIELD_CONTENT_LENGTH },
        { "content-type", KN_FIELD_CONTENT_TYPE },
        { "expect", KN_FIELD_EXPECT },
        { "host", KN_FIELD_HOST },
        { "keep-alive", KN_FIELD_KEEP_ALIVE },
        { "origin", KN_FIELD_ORIGIN },
        { "proxy-authenticate", KN_FIELD_PROXY_AUTHENTICATE },
        { "proxy-authorization", KN_FIELD_PROXY_AUTHORIZATION },
        { "proxy-connection", KN_FIELD_PROXY_CONNECTION },
        { "sec-fetch-site", KN_FIELD_SEC_FETCH_SITE },
        { "te", KN_FIELD_TE },
        { "trailer", KN_FIELD_TRAILER },
        { "transfer-encoding", KN_FIELD_TRANSFER_ENCODING },
        { "upgrade", KN_FIELD_UPGRADE },
    };
    char first = (char)(name.data[0] | 0x20);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].name[0] == first && kn_span_is_like(name, known[i].name))
            return known[i].id;
    return KN_FIELD_OTHER;
}

/* One line "name: value" of `len` bytes, from offset `at` of the head. */
static bool parse_field(const kn_head *h, size_t at, size_t len, kn_field *f) {
    const char *line = h->data + at;
    size_t name_len = span_while(line, len, &token_chars);
    if (!name_len || name_len == len || line[name_len] != ':' || name_len > UINT16_MAX)
        return false;
    size_t start = name_len + 1, end = len;
    while (start < end && is_blank(line[start]))
        start++;
    while (end > start && is_blank(line[end - 1]))
        end--;
    *f = (kn_field){
        .name = (uint32_t)at,
        .name_len = (uint16_t)name_len,
        .value = (uint32_t)(at + start),
        .value_len = (uint32_t)(end - start),
        .id = (uint8_t)field_id((kn_span){ line, name_len }),
    };
    return true;
}

/* Bytes of the line at offset `at`, without its CR LF, which is there: the scan has seen it. */
static size_t line_length(const kn_head *h, size_t at) {
    const char *end = memchr(h->data + at, '\r', h->len - at);
    return end ? (size_t)(end - h->data) - at : h->len - at;
}

/* What the fields say about the message itself. */
typedef struct message {
    unsigned hosts, lengths, encodings, nominated;
    bool close, keep_alive, chunked;
    bool upgrade;   /* Connection says that there is one … */
    bool websocket; /* … and Upgrade that it is one to WebSocket */
    uint64_t length;
} message;

static bool read_length(kn_span v, uint64_t *ret) {
    if (!v.len)
        return false;
    uint64_t n = 0;
    for (size_t i = 0; i < v.len; i++) {
        if (!is_digit(v.data[i]) || n > (INT64_MAX - 9) / 10)
            return false;
        n = n * 10 + (uint64_t)(v.data[i] - '0');
    }
    *ret = n;
    return true;
}

/* Whether a list of protocols, each maybe with a version behind a slash, has that of WebSocket. */
static bool has_websocket(kn_span list) {
    size_t at = 0;
    for (kn_span name; next_in_list(list, &at, &name);) {
        const char *slash = memchr(name.data, '/', name.len);
        const kn_span protocol = { name.data, slash ? (size_t)(slash - name.data) : name.len };
        if (kn_span_is_like(protocol, "websocket"))
            return true;
    }
    return false;
}

/* close and keep-alive are about the connection. Other names are fields that go no further; those by which the message
 * itself is understood cannot be among them. */
static bool read_connection(kn_span list, message *m) {
    size_t at = 0;
    for (kn_span name; next_in_list(list, &at, &name);) {
        if (span_while(name.data, name.len, &token_chars) != name.len)
            return false;
        if (kn_span_is_like(name, "close"))
            m->close = true;
        else if (kn_span_is_like(name, "keep-alive"))
            m->keep_alive = true;
        else if (kn_span_is_like(name, "host") || kn_span_is_like(name, "content-length") ||
                 ++m->nominated > KN_HTTP_NOMINATED_MAX)
            return false;
        m->upgrade |= kn_span_is_like(name, "upgrade");
    }
    return true;
}

/* The fields from offset `at` to the empty line. 0, or the status to refuse a request with. */
static unsigned parse_fields(kn_head *h, size_t at, message *m) {
    *m = (message){ 0 };
    for (size_t len; (len = line_length(h, at)) > 0; at += len + 2) {
        if (h->field_count == KN_HTTP_FIELDS_MAX)
            return 431;
        kn_field *f = &h->fields[h->field_count++];
        if (!parse_field(h, at, len, f))
            return 400;
        kn_span value = kn_head_value(h, f);
        bool good = true;
        switch ((kn_field_id)f->id) {
        case KN_FIELD_HOST:
            m->hosts++;
            good = span_while(value.data, value.len, &host_chars) == value.len;
            break;
        case KN_FIELD_CONTENT_LENGTH:
            m->lengths++;
            good = read_length(value, &m->length);
            break;
        case KN_FIELD_TRANSFER_ENCODING:
            m->encodings++;
            m->chunked = kn_span_is_like(value, "chunked");
            break;
        case KN_FIELD_CONNECTION: good = read_connection(value, m); break;
        case KN_FIELD_UPGRADE: m->websocket |= has_websocket(value); break;
        case KN_FIELD_EXPECT: h->expects_continue = kn_span_is_like(value, "100-continue"); break;
        default: break;
        }
        if (!good)
            return 400;
    }
    if (m->lengths > 1 || m->encodings > 1 || (m->lengths && m->encodings) || (m->encodings && !h->minor))
        return 400;
    if (m->encodings && !m->chunked)
        return 501;
    h->framing = m->chunked ? KN_BODY_CHUNKED : m->lengths ? KN_BODY_LENGTH : KN_BODY_NONE;
    h->content_length = m->length;
    h->keep_alive = !m->close && (h->minor || m->keep_alive);
    h->expects_continue = h->expects_continue && h->minor;
    h->nominates = m->nominated > 0;
    return 0;
}

static void begin(kn_head *h, const char *data, size_t len) {
    /* The table of fields is left as it is: field_count says how much of it means something. */
    memset(h, 0, offsetof(kn_head, fields));
    h->data = data;
    h->len = len;
}

/* "HTTP/1.1": 0, or the status. */
static unsigned parse_version(kn_head *h, const char *p, size_t len) {
    if (len != 8 || memcmp(p, "HTTP/", 5) || !is_digit(p[5]) || p[6] != '.' || !is_digit(p[7]))
        return 400;
    if (p[5] != '1' || p[7] > '1')
        return 505;
    h->minor = (unsigned)(p[7] - '0');
    return 0;
}

static bool target_is_good(kn_span method, kn_span target) {
    if (kn_span_is(target, "*"))
        return kn_span_is(method, "OPTIONS");
    return target.len && target.data[0] == '/';
}

unsigned kn_request_parse(kn_head *h, const char *data, size_t len) {
    begin(h, data, len);
    size_t end = line_length(h, 0);
    if (end > KN_HTTP_LINE_MAX)
        return 414;

    size_t n = span_while(data, end, &token_chars);
    if (!n || n > KN_HTTP_METHOD_MAX || n == end || data[n] != ' ')
        return 400;
    h->method = (kn_span){ data, n };
    size_t at = n + 1;
    n = span_while(data + at, end - at, &target_chars);
    if (!n || at + n == end || data[at + n] != ' ')
        return 400;
    h->target = (kn_span){ data + at, n };
    at += n + 1;
    unsigned status = parse_version(h, data + at, end - at);
    if (status)
        return status;
    if (kn_span_is(h->method, "CONNECT"))
        return 501;
    if (!target_is_good(h->method, h->target))
        return 400;

    message m;
    status = parse_fields(h, end + 2, &m);
    if (status)
        return status;
    if (m.hosts > 1 || (!m.hosts && h->minor))
        return 400;
    return m.upgrade && m.websocket && h->minor ? 501 : 0; /* HTTP/1.0 has no upgrades */
}

void kn_request_glance(const char *data, size_t len, kn_span *ret_method, kn_span *ret_target) {
    size_t n = span_while(data, len, &target_chars); /* whether it is a method is of no interest here */
    const char *target = n < len && data[n] == ' ' ? data + n + 1 : data + len;
    *ret_method = (kn_span){ data, n };
    *ret_target = (kn_span){ target, span_while(target, (size_t)(data + len - target), &target_chars) };
}

bool kn_response_parse(kn_head *h, const char *data, size_t len, bool to_head) {
    begin(h, data, len);
    size_t end = line_length(h, 0);
    if (end < 12 || parse_version(h, data, 8) || data[8] != ' ' || (end > 12 && data[12] != ' '))
        return false;
    for (int i = 9; i < 12; i++) {
        if (!is_digit(data[i]))
            return false;
        h->status = h->status * 10 + (unsigned)(data[i] - '0');
    }
    if (end > 13)
        h->reason = (kn_span){ data + 13, end - 13 };
    if (h->status < 100 || h->status == 101)
        return false;

    message m;
    if (parse_fields(h, end + 2, &m))
        return false;
    bool interim = h->status < 200;
    if ((interim || h->status == 204) && (m.encodings || (m.lengths && m.length)))
        return false; /* the standard has none here: whoever sends it means another message than we understand */
    if (to_head || interim || h->status == 204 || h->status == 304) {
        h->framing = KN_BODY_NONE;
    } else if (h->framing == KN_BODY_NONE) {
        h->framing = KN_BODY_UNTIL_CLOSE;
        h->keep_alive = false;
    }
    return true;
}

kn_span kn_head_name(const kn_head *h, const kn_field *f) {
    return (kn_span){ h->data + f->name, f->name_len };
}

kn_span kn_head_value(const kn_head *h, const kn_field *f) {
    return (kn_span){ h->data + f->value, f->value_len };
}

const kn_field *kn_head_find(const kn_head *h, kn_field_id id, const kn_field *after) {
    for (const kn_field *f = after ? after + 1 : h->fields; f < h->fields + h->field_count; f++)
        if (f->id == id)
            return f;
    return NULL;
}

bool kn_head_only(const kn_head *h, kn_field_id id, kn_span *ret) {
    const kn_field *f = kn_head_find(h, id, NULL);
    if (!f || kn_head_find(h, id, f))
        return false;
    *ret = kn_head_value(h, f);
    return true;
}

bool kn_head_named(const kn_head *h, const char *name, kn_span *ret) {
    unsigned found = 0;
    for (unsigned i = 0; i < h->field_count; i++) {
        if (!kn_span_is_like(kn_head_name(h, &h->fields[i]), name))
            continue;
        *ret = kn_head_value(h, &h->fields[i]);
        found++;
    }
    return found == 1;
}

kn_span kn_head_path(const kn_head *h) {
    const char *query = memchr(h->target.data, '?', h->target.len);
    return (kn_span){ h->target.data, query ? (size_t)(query - h->target.data) : h->target.len };
}

bool kn_field_is_hop_by_hop(const kn_head *h, const kn_field *f) {
    if (f->id != KN_FIELD_OTHER && f->id <= KN_FIELD_LAST_HOP_BY_HOP)
        return true;
    if (!h->nominates)
        return false;
    kn_span name = kn_head_name(h, f);
    for (const kn_field *c = NULL; (c = kn_head_find(h, KN_FIELD_CONNECTION, c));) {
        size_t at = 0;
        for (kn_span item; next_in_list(kn_head_value(h, c), &at, &item);)
            if (item.len == name.len && !strncasecmp(item.data, name.data, name.len))
                return true;
    }
    return false;
}
