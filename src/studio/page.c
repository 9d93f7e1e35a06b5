#include "studio/page.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* page.S */
typedef struct page_file {
    const char *name, *data, *end;
} page_file;
extern const page_file kn_page_files[];               /* behind the last: one without a name */
extern const char kn_page_text[], kn_page_text_end[]; /* of all of them, one after the other */

/* Nothing but our own files, no script in the text of the page, nothing made of text, nobody's frame. */
static const char fields[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-cache\r\n";

static const char *type_of(const char *name) {
    static const struct {
        const char *ending, *type;
    } rows[] = {
        { ".html", "text/html; charset=utf-8" },
        { ".css", "text/css; charset=utf-8" },
        { ".js", "text/javascript; charset=utf-8" },
        { ".svg", "image/svg+xml" },
    };
    const char *ending = strrchr(name, '.');
    for (size_t i = 0; ending && i < KN_COUNT(rows); i++)
        if (!strcmp(ending, rows[i].ending))
            return rows[i].type;
    return "application/octet-stream";
}

static kn_span between(const char *from, const char *to) {
    return (kn_span){ from, (size_t)(to - from) };
}

bool kn_page_open(kn_page *ret, kn_error *err) {
    const kn_span all = between(kn_page_text, kn_page_text_end);
    return kn_sha256_of(all.data, all.len, &ret->version, err);
}

/* "/" is index.html, "/web/NAME" any of them. */
static const page_file *file_of(kn_span path) {
    static const char folder[] = "/web/";
    size_t len = sizeof folder - 1;
    if (kn_span_is(path, "/"))
        path = kn_span_of("/web/index.html");
    if (path.len <= len || memcmp(path.data, folder, len) != 0)
        return NULL;
    for (const page_file *f = kn_page_files; f->name; f++)
        if (kn_span_is((kn_span){ path.data + len, path.len - len }, f->name))
            return f;
    return NULL;
}

/* Whether the client has it as it is: If-None-Match names it. */
static bool is_known(const kn_head *head, const char *etag) {
    kn_span list;
    return kn_head_named(head, "If-None-Match", &list) && memmem(list.data, list.len, etag, strlen(etag));
}

bool kn_page_answers(const kn_page *p, kn_exchange *x, const kn_head *head) {
    char own[sizeof fields + KN_SHA256_TEXT + 16], etag[KN_SHA256_TEXT + 2];
    bool reads = kn_span_is(head->method, "GET") || kn_span_is(head->method, "HEAD");
    const page_file *f = reads ? file_of(kn_head_path(head)) : NULL;
    if (!f)
        return false;
    snprintf(etag, sizeof etag, "\"%s\"", p->version.text);
    snprintf(own, sizeof own, "%sETag: %s\r\n", fields, etag);
    if (is_known(head, etag))
        kn_exchange_reply(x, &(kn_reply){ .status = 304, .fields = own });
    else
        kn_exchange_reply(x, &(kn_reply){ .status = 200,
                                          .type = type_of(f->name),
                                          .fields = own,
                                          .body = f->data,
                                          .len = (size_t)(f->end - f->data) });
    return true;
}
