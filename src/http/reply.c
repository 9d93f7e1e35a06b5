#include "http/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

static const char own_fields[] = "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n";

const char *kn_status_reason(unsigned status) {
    static const struct {
        unsigned status;
        const char *reason;
    } known[] = {
        { 200, "OK" },
        { 201, "Created" },
        { 202, "Accepted" },
        { 204, "No Content" },
        { 206, "Partial Content" },
        { 304, "Not Modified" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 406, "Not Acceptable" },
        { 408, "Request Timeout" },
        { 409, "Conflict" },
        { 410, "Gone" },
        { 411, "Length Required" },
        { 412, "Precondition Failed" },
        { 413, "Content Too Large" },
        { 414, "URI Too Long" },
        { 415, "Unsupported Media Type" },
        { 421, "Misdirected Request" },
        { 422, "Unprocessable Content" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" },
        { 501, "Not Implemented" },
        { 502, "Bad Gateway" },
        { 503, "Service Unavailable" },
        { 504, "Gateway Timeout" },
        { 505, "HTTP Version Not Supported" },
        { 507, "Insufficient Storage" },
    };
    for (size_t i = 0; i < KN_COUNT(known); i++)
        if (known[i].status == status)
            return known[i].reason;
    return "";
}

static void reply_document(kn_exchange *x, unsigned status, const char *type, const char *fields, json_t *document) {
    char *text = document ? json_dumps(document, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(document);
    kn_reply r = { .status = text ? status : 500, .type = text ? type : NULL, .fields = fields, .body = text };
    r.len = text ? strlen(text) : 0;
    kn_exchange_reply(x, &r);
    free(text);
}

void kn_reply_json(kn_exchange *x, unsigned status, json_t *document) {
    reply_document(x, status, "application/json", own_fields, document);
}

void kn_reply_json_with(kn_exchange *x, unsigned status, json_t *document, const char *fields) {
    char all[1024];
    snprintf(all, sizeof all, "%s%s", own_fields, fields);
    reply_document(x, status, "application/json", all, document);
}

/* "not_found" as the last part of a URN: "not-found". */
static void print_type(char *text, size_t room, const char *code) {
    int start = snprintf(text, room, "urn:kuno:problem:");
    snprintf(text + start, room - (size_t)start, "%s", code);
    for (char *c = text + start; *c; c++)
        if (*c == '_')
            *c = '-';
}

void kn_reply_problem(kn_exchange *x, const kn_problem *p) {
    char type[128], fields[768], retry[40] = "";
    if (kn_exchange_dialect(x)) {
        kn_exchange_dialect(x)(x, p);
        return;
    }
    print_type(type, sizeof type, p->code);
    if (p->retry_after_s)
        snprintf(retry, sizeof retry, "Retry-After: %u\r\n", p->retry_after_s);
    snprintf(fields, sizeof fields, "%s%s%s", own_fields, retry, p->fields ? p->fields : "");

    json_t *document = json_pack("{s:s, s:s, s:i, s:s, s:s*}", "type", type, "title", p->title, "status",
                                 (int)p->status, "code", p->code, "detail", p->detail);
    if (document && p->retry_after_s)
        json_object_set_new(document, "retry_after_seconds", json_integer(p->retry_after_s));
    if (document && p->pointer)
        json_object_set_new(
            document, "errors",
            json_pack("[{s:s, s:s}]", "pointer", p->pointer, "detail", p->detail ? p->detail : p->title));
    reply_document(x, p->status, "application/problem+json", fields, document);
}

void kn_reply_status(kn_exchange *x, unsigned status) {
    static const kn_problem known[] = {
        { .status = 400, .code = "request_malformed", .title = "The request is not well-formed" },
        { .status = 408, .code = "request_timeout", .title = "The request did not arrive in time" },
        { .status = 414, .code = "target_too_long", .title = "The target is too long" },
        { .status = 431, .code = "header_too_large", .title = "The header has too many or too long fields" },
        { .status = 501, .code = "not_implemented", .title = "This way to talk is not supported" },
        { .status = 502, .code = "upstream_failed", .title = "The upstream cannot be reached, or broke off" },
        { .status = 503, .code = "out_of_memory", .title = "Memory is short", .retry_after_s = 5 },
        { .status = 504, .code = "upstream_timeout", .title = "The upstream did not answer in time" },
        { .status = 505, .code = "version_unsupported", .title = "Only HTTP/1.0 and HTTP/1.1 are spoken here" },
    };
    kn_problem p = { .status = status, .code = "request_failed", .title = "The request failed" };
    for (size_t i = 0; i < KN_COUNT(known); i++)
        if (known[i].status == status)
            p = known[i];
    kn_reply_problem(x, &p);
}
