#include "gateway/visitor.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "gateway/refusal.h"

/* Without its port. */
static kn_span name_of(kn_span host) {
    const char *colon = memrchr(host.data, ':', host.len);
    bool has_port = colon && !memchr(colon, ']', (size_t)(host.data + host.len - colon));
    return (kn_span){ host.data, has_port ? (size_t)(colon - host.data) : host.len };
}

static bool is_own_name(kn_span host) {
    char text[80];
    kn_address address;
    kn_span name = name_of(host);
    if (kn_span_is_like(name, "localhost"))
        return true;
    if (!name.len || name.len + 3 > sizeof text)
        return false;
    memcpy(text, name.data, name.len);
    memcpy(text + name.len, ":1", 3);
    return kn_address_parse(text, &address, NULL) && kn_address_is_loopback(&address);
}

/* The name that the upstream would see; data NULL: its own address. */
static kn_span host_of(const kn_request *r, const kn_head *head) {
    kn_span host = { NULL, 0 };
    if (kn_address_is_loopback(&r->g->config->listen))
        kn_head_only(head, KN_FIELD_HOST, &host);
    return host;
}

/* What an answer says to pages, and to caches about them. */
static bool is_for_pages(kn_span name) {
    static const char start[] = "access-control-";
    return kn_span_is_like(name, "vary") ||
           (name.len > sizeof start - 1 && strncasecmp(name.data, start, sizeof start - 1) == 0);
}

static bool add_line(kn_buf *lines, kn_span name, kn_span value) {
    return kn_buf_add(lines, name.data, name.len) && kn_buf_add_text(lines, ": ") &&
           kn_buf_add(lines, value.data, value.len) && kn_buf_add_text(lines, "\r\n");
}

/* Too much of it is not told at all: then a page may do less than it could, never more. */
static void head_came(void *ctx, const kn_head *head) {
    const kn_request *r = ctx;
    KN_AUTO_BUF lines;
    bool ok = true;
    kn_buf_init(&lines, KN_MORE_FIELDS_MAX);
    for (unsigned i = 0; i < head->field_count; i++) {
        kn_span name = kn_head_name(head, &head->fields[i]);
        if (is_for_pages(name))
            ok = ok && add_line(&lines, name, kn_head_value(head, &head->fields[i]));
    }
    if (ok && lines.len)
        kn_exchange_set_more_fields(r->x, lines.data);
}

static void turn_away(kn_request *r, unsigned status) {
    if (status == 502)
        kn_refuse_status(r->x, r->kind.dialect, status);
    else
        kn_exchange_reply(r->x, &(kn_reply){ .status = status });
    r->turned_away(r);
}

static void answered(void *ctx, const kn_call_result *answer) {
    kn_request *r = ctx;
    r->call = NULL;
    bool is_heard = answer->end == KN_CALL_ANSWERED;
    if (is_heard && answer->status / 100 == 2)
        r->admitted(r);
    else
        turn_away(r, is_heard && answer->status / 100 == 4 ? answer->status : 502);
}

static bool ask(kn_request *r, kn_span host, const kn_head *head) {
    kn_call_request question = kn_presence_question;
    KN_AUTO_BUF origins;
    bool ok = true;
    kn_buf_init(&origins, KN_HTTP_HEAD_MAX);
    for (const kn_field *f = NULL; ok && (f = kn_head_find(head, KN_FIELD_ORIGIN, f));)
        ok = add_line(&origins, kn_head_name(head, f), kn_head_value(head, f));
    question.host = host;
    question.fields = origins.len ? origins.data : NULL;
    question.head = head_came;
    return ok && kn_call_start(r->g->upstream, &question, answered, r, &r->call, NULL);
}

void kn_visitor_judge(kn_request *r, void (*admitted)(kn_request *r), void (*turned_away)(kn_request *r)) {
    const kn_head *head = kn_exchange_head(r->x);
    kn_span host = head ? host_of(r, head) : (kn_span){ NULL, 0 };
    r->admitted = admitted;
    r->turned_away = turned_away;
    if (head && !kn_head_find(head, KN_FIELD_ORIGIN, NULL) && (!host.data || is_own_name(host)))
        admitted(r);
    else if (!head || !ask(r, host, head))
        turn_away(r, 502);
}
