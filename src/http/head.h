/* Heads of HTTP/1.1 messages, read strictly (RFC 9110, RFC 9112).
 *
 * What can be understood in two ways is refused, never repaired: two lengths, a length beside chunks, bare line feeds,
 * folded lines, space before a colon, names that are no tokens. So nobody behind us can see other messages in the bytes
 * than we do.
 *
 * Reading goes in two steps. kn_head_scan looks at bytes as they come, however they are cut, and finds the end of the
 * head; it stops at the first byte that no head has. kn_request_parse and kn_response_parse then understand the whole
 * head at once. They copy and allocate nothing: a kn_head is spans of the bytes that it was read from. */
#ifndef KN_HTTP_HEAD_H
#define KN_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KN_HTTP_LINE_MAX = 16 << 10, /* bytes of a request line */
    KN_HTTP_HEAD_MAX = 64 << 10, /* bytes of a head */
    KN_HTTP_FIELDS_MAX = 100,
    KN_HTTP_METHOD_MAX = 32,
    KN_HTTP_NOMINATED_MAX = 100, /* names in Connection fields */
};

/* Bytes that somebody else owns, not terminated. */
typedef struct kn_span {
    const char *data;
    size_t len;
} kn_span;

bool kn_span_is(kn_span s, const char *text);      /* the same bytes */
bool kn_span_is_like(kn_span s, const char *text); /* the same but for the case of letters */
kn_span kn_span_of(const char *text);

/* 0 to 15, or -1. */
int kn_hex_digit(char c);

/* Whether names of fields may have it. */
bool kn_is_token_char(char c);

/* Fields whose names mean something to somebody here. */
typedef enum kn_field_id {
    KN_FIELD_OTHER,
    /* hop by hop: never passed on */
    KN_FIELD_CONNECTION,
    KN_FIELD_KEEP_ALIVE,
    KN_FIELD_PROXY_AUTHENTICATE,
    KN_FIELD_PROXY_AUTHORIZATION,
    KN_FIELD_PROXY_CONNECTION,
    KN_FIELD_TE,
    KN_FIELD_TRAILER,
    KN_FIELD_TRANSFER_ENCODING,
    KN_FIELD_UPGRADE,
    KN_FIELD_LAST_HOP_BY_HOP = KN_FIELD_UPGRADE,
    KN_FIELD_AUTHORIZATION,
    KN_FIELD_CONTENT_ENCODING,
    KN_FIELD_CONTENT_LENGTH,
    KN_FIELD_CONTENT_TYPE,
    KN_FIELD_EXPECT,
    KN_FIELD_HOST,
    KN_FIELD_ORIGIN,
    KN_FIELD_SEC_FETCH_SITE,
} kn_field_id;

typedef struct kn_field {
    uint32_t name, value; /* offsets in the head */
    uint32_t value_len;
    uint16_t name_len;
    uint8_t id;
} kn_field;

typedef enum kn_framing {
    KN_BODY_NONE,
    KN_BODY_LENGTH,
    KN_BODY_CHUNKED,
    KN_BODY_UNTIL_CLOSE, /* responses only */
} kn_framing;

typedef struct kn_head {
    const char *data;
    size_t len;     /* with the empty line at its end */
    unsigned minor; /* HTTP/1.0 or HTTP/1.1 */

    kn_span method, target; /* of a request: as they came */
    unsigned status;        /* of a response */
    kn_span reason;

    kn_framing framing;
    uint64_t content_length; /* with KN_BODY_LENGTH; also of a response to HEAD, whose framing is none */
    bool keep_alive;         /* the sender would go on with this connection */
    bool expects_continue;   /* Expect: 100-continue, in HTTP/1.1 */
    bool nominates;          /* Connection names fields besides close and keep-alive */

    unsigned field_count;
    kn_field fields[KN_HTTP_FIELDS_MAX];
} kn_head;

kn_span kn_head_name(const kn_head *h, const kn_field *f);
kn_span kn_head_value(const kn_head *h, const kn_field *f);

/* The first field after `after` (NULL: from the start) that has this name; NULL: there is none. */
const kn_field *kn_head_find(const kn_head *h, kn_field_id id, const kn_field *after);

/* Its value if there is exactly one such field; false if there is none or more. */
bool kn_head_only(const kn_head *h, kn_field_id id, kn_span *ret);

/* The same for a field without an id. */
bool kn_head_named(const kn_head *h, const char *name, kn_span *ret);

/* The target up to its query. */
kn_span kn_head_path(const kn_head *h);

/* Whether a field goes no further than this connection: by its name, or because Connection names it. */
bool kn_field_is_hop_by_hop(const kn_head *h, const kn_field *f);

/* Where the search for the end of a head stands. Zeroed for a new head. */
typedef struct kn_head_scan {
    uint32_t at;    /* bytes seen */
    uint32_t lines; /* ended so far */
    uint32_t line;  /* where the present one begins */
} kn_head_scan;

/* Statuses say what to answer: 400, 414, 431. */
typedef enum kn_scanned {
    KN_SCAN_MORE = 0,     /* all is well so far, the end has not come */
    KN_SCAN_COMPLETE = 1, /* s->at is the length of the head */
} kn_scanned;

/* data: the head from its first byte, of which s->at were seen before. Returns a kn_scanned or a status. */
unsigned kn_head_scan_more(kn_head_scan *s, const char *data, size_t len);

/* data: a complete head. 0, or the status to refuse it with: 400, 414, 431, 501, 505. An offer to go on in another
 * protocol on the same connection, such as HTTP/2 or TLS, which some clients make with every request, is passed over,
 * as the standard allows. Only who asks for a WebSocket can do nothing with another answer, and is told. */
unsigned kn_request_parse(kn_head *h, const char *data, size_t len);

/* Of a head that is refused, maybe before its end: its method and its target, as far as they came, empty if they did
 * not. Good for choosing the words of the refusal, and for nothing else. */
void kn_request_glance(const char *data, size_t len, kn_span *ret_method, kn_span *ret_target);

/* to_head: it answers a HEAD request, so no body follows. False: it is no response, or a switch of protocols. */
bool kn_response_parse(kn_head *h, const char *data, size_t len, bool to_head);

#endif
