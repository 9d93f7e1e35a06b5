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

/* Whether a path is that of a route, part by part. */
static bool is_path_of(const kn_route *r, const char *path) {
    const char *wanted = r->path;
    while (*wanted && *wanted != ' ' && (*wanted == '*' || *wanted == *path)) {
        if (*wanted++ != '*') {
            path++;
            continue;
        }
        size_t len = strcspn(path, "/");
        if (!len)
            return false;
        path += len;
    }
    return (!*wanted || *wanted == ' ') && !*path;
}

/* Whether there is a route of exactly this path: then those that it would fit as well have no say. */
static bool is_exact(const kn_route *routes, size_t n, const char *path) {
    for (size_t i = 0; i < n; i++)
        if (is_path_of(&routes[i], path) && !strchr(routes[i].path, '*'))
            return true;
    return false;
}

static bool is_meant(const kn_route *r, const char *path, bool exact) {
    return is_path_of(r, path) && !(exact && strchr(r->path, '*'));
}

static bool has_method(const kn_route *r, kn_span method) {
    return kn_span_is(method, r->method) || (kn_span_is(method, "HEAD") && !strcmp(r->method, "GET"));
}

static void answer(kn_exchange *x, unsigned status, const char *code, const char *title) {
    kn_reply_problem(x, &(kn_problem){ .status = status, .code = code, .title = title });
}

static void refuse_method(const kn_route *routes, size_t n, kn_exchange *x, const char *path) {
    char allow[128] = "Allow:";
    bool exact = is_exact(routes, n, path);
    size_t len = strlen(allow);
    for (size_t i = 0; i < n; i++)
        if (is_meant(&routes[i], path, exact))
            len += (size_t)snprintf(allow + len, sizeof allow - len, "%s %s%s", allow[len - 1] == ':' ? "" : ",",
                                    routes[i].method, strcmp(routes[i].method, "GET") ? "" : ", HEAD");
    snprintf(allow + len, sizeof allow - len, "\r\n");
    kn_reply_problem(
        x, &(kn_problem){
               .status = 405, .code = "method_not_allowed", .title = "This path has other methods", .fields = allow });
}

static bool is_listed(kn_span media, const char *types) {
    while (*types) {
        size_t len = strcspn(types, " ");
        if (media.len == len && !strncasecmp(media.data, types, len))
            return true;
        types += len + (types[len] == ' ');
    }
    return false;
}

bool kn_route_has_type(const kn_head *head, const char *types) {
    kn_span type;
    if (!kn_head_only(head, KN_FIELD_CONTENT_TYPE, &type) || kn_head_find(head, KN_FIELD_CONTENT_ENCODING, NULL))
        return false;
    const char *semicolon = memchr(type.data, ';', type.len);
    kn_span media = { type.data, semicolon ? (size_t)(semicolon - type.data) : type.len };
    while (media.len && (media.data[media.len - 1] == ' ' || media.data[media.len - 1] == '\t'))
        media.len--;
    if (!is_listed(media, types))
        return false;
    if (!semicolon || kn_span_is_like(media, "multipart/form-data")) /* the parts' reader wants the boundary */
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
    const char *space = strchr(r->path, ' '), *types = space ? space + 1 : "application/json";
    if (!r->json_body && has_body)
        answer(x, 400, "body_not_allowed", "This route takes no body");
    else if (!r->json_body || (!has_body && !says_type))
        r->handle(x, (kn_span){ NULL, 0 });
    else if (!kn_route_has_type(head, types))
        kn_reply_problem(x, &(kn_problem){ .status = 415,
                                           .code = "media_type_unsupported",
                                           .title = "The body is of another type, or compressed",
                                           .detail = types });
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
    bool known = false, exact = kind == PATH_GOOD && is_exact(routes, n, path);
    for (size_t i = 0; kind == PATH_GOOD && i < n; i++) {
        if (!is_meant(&routes[i], path, exact))
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

/* ---- parts and parameters ---- */

bool kn_route_part(const kn_head *head, unsigned number, char *ret, size_t room) {
    char path[PATH_MAX_BYTES];
    if (decode(kn_head_path(head), path) != PATH_GOOD)
        return false;
    const char *at = path;
    for (unsigned i = 0; at && i <= number; i++) {
        at = strchr(at, '/');
        at = at ? at + 1 : NULL;
    }
    size_t len = at ? strcspn(at, "/") : 0;
    if (!len || len >= room)
        return false;
    memcpy(ret, at, len);
    ret[len] = 0;
    return true;
}

bool kn_route_is_bare(kn_exchange *x) {
    const kn_head *head = kn_exchange_head(x);
    if (head && head->target.len <= kn_head_path(head).len + 1) /* a question mark alone asks nothing */
        return true;
    kn_reply_problem(x, &(kn_problem){ .status = 400,
                                       .code = "parameter_invalid",
                                       .title = "A parameter is unknown or its value not allowed",
                                       .detail = "This route has no parameters",
                                       .pointer = "query" });
    return false;
}

/* Up to a stop; "+" is a space. */
static bool decode_value(const char **at, const char *end, const char *stops, kn_parameter_list *l, size_t *used) {
    while (*at < end && !strchr(stops, **at)) {
        char c = *(*at)++;
        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            int high = end - *at >= 2 ? kn_hex_digit((*at)[0]) : -1, low = end - *at >= 2 ? kn_hex_digit((*at)[1]) : -1;
            c = (char)(high * 16 + low);
            if (high < 0 || low < 0 || !c)
                return false;
            *at += 2;
        }
        if (*used + 2 >= sizeof l->text)
            return false;
        l->text[(*used)++] = c;
    }
    l->text[(*used)++] = 0;
    return true;
}

bool kn_route_query(const kn_head *head, kn_parameter_list *ret) {
    kn_span target = head->target;
    const char *at = memchr(target.data, '?', target.len), *end = target.data + target.len;
    size_t used = 0;
    ret->count = 0;
    for (at = at ? at + 1 : end; at < end; at += *at == '&') {
        if (*at == '&')
            continue;
        if (ret->count == KN_QUERY_MAX || used + 2 >= sizeof ret->text)
            return false;
        const char *name = ret->text + used;
        if (!decode_value(&at, end, "=&", ret, &used))
            return false;
        at += at < end && *at == '=';
        const char *value = ret->text + used;
        if (used + 2 >= sizeof ret->text || !decode_value(&at, end, "&", ret, &used) ||
            kn_utf8_check(name, strlen(name)) != strlen(name) || kn_utf8_check(value, strlen(value)) != strlen(value))
            return false;
        ret->at[ret->count].name = name;
        ret->at[ret->count++].value = value;
        if (at == end)
            break;
    }
    return true;
}
