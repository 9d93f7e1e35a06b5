#include "http/router.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "http/reply.h"

enum { PATH_MAX_BYTES = 512 }; /* longer than any route, decoded */

typedef enum path_kind { PATH_GOOD, PATH_INVALID, PATH_TOO_LONG } path_kind;

/* The path with its %XX resolved once. */
static path_kind decode(kn_span path, char decoded[PATH_MAX_BYTES]) {
    size_t n = 0;
    for (size_t i = 0; i < path.len; i++) {
        char c = path.data[i];
        if (c == '%') {
            int high = i + 2 < path.len ? kn_hex_digit(path.data[i + 1]) : -1;
            int low = i + 2 < path.len ? kn_hex_digit(path.data[i + 2]) : -1;
            c = (char)(high * 16 + low);
            if (high < 0 || low < 0 || !c || c == '/' || c == '\\')
                return PATH_INVALID;
            i += 2;
        }
        if (n == PATH_MAX_BYTES - 1)
            return PATH_TOO_LONG;
        decoded[n++] = c;
    }
    decoded[n] = 0;
    bool climbs = strstr(decoded, "/../") || strstr(decoded, "//") || (n >= 3 && !strcmp(decoded + n - 3, "/.."));
    return climbs || kn_utf8_check(decoded, n) != n ? PATH_INVALID : PATH_GOOD;
}

static bool has_method(const kn_route *r, kn_span method) {
    return kn_span_is(method, r->method) || (kn_span_is(method, "HEAD") && !strcmp(r->method, "GET"));
}

static void answer(kn_exchange *x, unsigned status, const char *code, const char *title) {
    kn_reply_problem(x, &(kn_problem){ .status = status, .code = code, .title = title });
}

static void refuse_method(const kn_route *routes, size_t n, kn_exchange *x, const char *path) {
    char allow[128] = "Allow:";
    size_t len = strlen(allow);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(routes[i].path, path))
            len += (size_t)snprintf(allow + len, sizeof allow - len, "%s %s%s", allow[len - 1] == ':' ? "" : ",",
                                    routes[i].method, strcmp(routes[i].method, "GET") ? "" : ", HEAD");
    snprintf(allow + len, sizeof allow - len, "\r\n");
    kn_reply_problem(
        x, &(kn_problem){
               .status = 405, .code = "method_not_allowed", .title = "This path has other methods", .fields = allow });
}

/* application/json, in UTF-8 if it says so, and not compressed. */
static bool is_json(const kn_head *head) {
    kn_span type;
    if (!kn_head_only(head, KN_FIELD_CONTENT_TYPE, &type) || kn_head_find(head, KN_FIELD_CONTENT_ENCODING, NULL))
        return false;
    const char *semicolon = memchr(type.data, ';', type.len);
    kn_span media = { type.data, semicolon ? (size_t)(semicolon - type.data) : type.len };
    while (media.len && (media.data[media.len - 1] == ' ' || media.data[media.len - 1] == '\t'))
        media.len--;
    if (!kn_span_is_like(media, "application/json"))
        return false;
    if (!semicolon)
        return true;
    kn_span parameter = { semicolon + 1, type.len - (size_t)(semicolon + 1 - type.data) };
    while (parameter.len && (parameter.data[0] == ' ' || parameter.data[0] == '\t')) {
        parameter.data++;
        parameter.len--;
    }
    return kn_span_is_like(parameter, "charset=utf-8") || kn_span_is_like(parameter, "charset=\"utf-8\"");
}

static void enter(const kn_route *r, kn_exchange *x, const kn_head *head) {
    bool has_body = head->framing == KN_BODY_CHUNKED || (head->framing == KN_BODY_LENGTH && head->content_length);
    bool says_type = kn_head_find(head, KN_FIELD_CONTENT_TYPE, NULL);
    if (!r->json_body && has_body)
        answer(x, 413, "body_not_allowed", "This route takes no body");
    else if (!r->json_body || (!has_body && !says_type))
        r->handle(x, (kn_span){ NULL, 0 });
    else if (!is_json(head))
        answer(x, 415, "media_type_unsupported", "The body must be application/json, not compressed");
    else if (head->framing == KN_BODY_LENGTH && head->content_length > r->json_body)
        answer(x, 413, "body_too_large", "The body is too large");
    else {
        *kn_exchange_user(x) = (void *)(uintptr_t)r;
        kn_exchange_collect(x, r->json_body);
    }
}

void kn_router_request(const kn_route *routes, size_t n, kn_exchange *x, const kn_head *head) {
    char path[PATH_MAX_BYTES];
    path_kind kind = decode(kn_head_path(head), path);
    if (kind == PATH_INVALID) {
        answer(x, 400, "path_invalid", "The path is not in its plain form");
        return;
    }
    bool known = false;
    for (size_t i = 0; kind == PATH_GOOD && i < n; i++) {
        if (strcmp(routes[i].path, path))
            continue;
        known = true;
        if (has_method(&routes[i], head->method)) {
            enter(&routes[i], x, head);
            return;
        }
    }
    if (known)
        refuse_method(routes, n, x, path);
    else
        answer(x, 404, "not_found", "There is no such route");
}

void kn_router_collected(kn_exchange *x, kn_span body, bool complete) {
    const kn_route *r = *kn_exchange_user(x);
    *kn_exchange_user(x) = NULL;
    if (complete)
        r->handle(x, (kn_span){ body.len ? body.data : "", body.len });
    else
        answer(x, 413, "body_too_large", "The body is too large");
}
