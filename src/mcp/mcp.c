#include "mcp/mcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "mcp/internal.h"

enum { ANSWER_MAX = 128 << 20 };

static const char *const handshake_versions[] = { "2024-11-05", "2025-03-26", "2025-06-18", KN_MCP_HANDSHAKE };

static const char instructions[] =
    "Kuno draws and edits pictures on this machine. Long jobs: when generate_image, edit_image or upscale_image "
    "answers "
    "with the state queued or running, go on with wait_for_job. Answers show small previews; the full picture is the "
    "resource that they link to.";

bool kn_mcp_is_handshake_version(const char *version) {
    for (size_t i = 0; i < KN_COUNT(handshake_versions); i++)
        if (!strcmp(version, handshake_versions[i]))
            return true;
    return false;
}

/* ---- answers ---- */

json_t *kn_mcp_word_json(const kn_mcp_word *w) {
    int64_t number = 0;
    if (!w->given)
        return json_null();
    if (w->is_text)
        return json_string(w->text);
    return kn_parse_i64(w->text, &number) ? json_integer(number) : NULL;
}

/* Takes over both. */
static bool write_answer(kn_buf *into, const kn_mcp_word *id, const char *member, json_t *value) {
    json_t *message = json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id", kn_mcp_word_json(id), member, value);
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    json_decref(message);
    bool ok = text && kn_buf_add_text(into, text);
    free(text);
    return ok;
}

bool kn_mcp_write_error(kn_buf *into, const kn_mcp_word *id, int code, const char *message, json_t *data) {
    return write_answer(into, id, "error",
                        json_pack("{s:i, s:s, s:o*}", "code", code, "message", message, "data", data));
}

json_t *kn_mcp_versions(const char *requested) {
    return json_pack("{s:[s], s:s}", "supported", KN_MCP_STATELESS, "requested", requested);
}

static json_t *server_info(void) {
    return json_pack("{s:s, s:s, s:s}", "name", "kuno", "title", "Kuno", "version", KN_VERSION);
}

static json_t *capabilities(void) {
    return json_pack("{s:{s:b}, s:{}}", "tools", "listChanged", 0, "resources");
}

/* The answer is on its way; all else that this call was at is over. */
static void finish(kn_mcp_call *c, int code, bool written) {
    kn_mcp_ask_no_more(c);
    kn_mcp_forget_job(c);
    if (!written) {
        code = KN_MCP_INTERNAL;
        kn_buf_clear(&c->answer);
        written = kn_mcp_write_error(&c->answer, &c->id, code, "memory is short", NULL);
    }
    if (!written) /* so short that there is nothing left but silence */
        c->client = NULL;
    c->code = code;
    c->ended = true;
    kn_loop_later(c->mcp->loop, &c->task);
}

void kn_mcp_answer(kn_mcp_call *c, json_t *result, bool lasting) {
    if (result && c->stateless) {
        json_object_set_new(result, "resultType", json_string("complete"));
        json_object_set_new(result, "_meta", json_pack("{s:o}", "io.modelcontextprotocol/serverInfo", server_info()));
        if (lasting) {
            json_object_set_new(result, "ttlMs", json_integer(0));
            json_object_set_new(result, "cacheScope", json_string("private"));
        }
    }
    finish(c, 0, write_answer(&c->answer, &c->id, "result", result));
}

void kn_mcp_answer_error(kn_mcp_call *c, int code, const char *message, json_t *data) {
    finish(c, code, kn_mcp_write_error(&c->answer, &c->id, code, message, data));
}

void kn_mcp_end(kn_mcp_call *c) {
    kn_mcp_ask_no_more(c);
    kn_mcp_forget_job(c);
    c->client = NULL;
    c->ended = true;
    kn_loop_later(c->mcp->loop, &c->task);
}

/* ---- methods ---- */

static void initialize(kn_mcp_call *c, const kn_mcp_message *r) {
    const char *version = kn_mcp_is_handshake_version(r->initialize) ? r->initialize : KN_MCP_HANDSHAKE;
    if (!r->initialize[0])
        kn_mcp_answer_error(c, KN_MCP_INVALID_PARAMS, "protocolVersion is missing", NULL);
    else
        kn_mcp_answer(c,
                      json_pack("{s:s, s:o, s:o, s:s}", "protocolVersion", version, "capabilities", capabilities(),
                                "serverInfo", server_info(), "instructions", instructions),
                      false);
}

static void discover(kn_mcp_call *c, const kn_mcp_message *r) {
    (void)r;
    json_t *versions = json_pack("[s]", KN_MCP_STATELESS);
    for (size_t i = KN_COUNT(handshake_versions); i--;)
        json_array_append_new(versions, json_string(handshake_versions[i]));
    kn_mcp_answer(c,
                  json_pack("{s:o, s:o, s:s}", "supportedVersions", versions, "capabilities", capabilities(),
                            "instructions", instructions),
                  true);
}

static void ping(kn_mcp_call *c, const kn_mcp_message *r) {
    (void)r;
    kn_mcp_answer(c, json_object(), false);
}

/* The whole list is one page, so no cursor was ever given out. */
static bool is_first_page(kn_mcp_call *c, const kn_mcp_message *r) {
    if (!r->has_cursor)
        return true;
    kn_mcp_answer_error(c, KN_MCP_INVALID_PARAMS, "the cursor is none that was given out", NULL);
    return false;
}

static void list_tools(kn_mcp_call *c, const kn_mcp_message *r) {
    if (is_first_page(c, r))
        kn_mcp_answer(c, json_pack("{s:O}", "tools", kn_mcp_toolbox_list(c->mcp->toolbox)), true);
}

static void call_tool(kn_mcp_call *c, const kn_mcp_message *r) {
    static const kn_json_text none = { "{}", 2 };
    char message[300];
    kn_error err = { 0 };
    c->is_tool = true;
    kn_mcp_tool tool = r->has_name ? kn_mcp_tool_find(r->name) : KN_MCP_TOOLS;
    if (tool == KN_MCP_TOOLS) {
        snprintf(message, sizeof message, "there is no tool '%s'", kn_quote_z(r->name).text);
        kn_mcp_answer_error(c, KN_MCP_INVALID_PARAMS, message, NULL);
        return;
    }
    if (!kn_mcp_order_read(c->mcp->toolbox, tool, r->arguments.data ? r->arguments : none, &c->order, &err))
        kn_mcp_answer_failure(c, "arguments_invalid", err.text);
    else
        c->step = kn_mcp_work;
}

static void list_resources(kn_mcp_call *c, const kn_mcp_message *r) {
    snprintf(c->cursor, sizeof c->cursor, "%s", r->has_cursor ? r->cursor : "");
    c->step = kn_mcp_list_resources;
}

static void list_templates(kn_mcp_call *c, const kn_mcp_message *r) {
    if (is_first_page(c, r))
        kn_mcp_answer(c,
                      json_pack("{s:[{s:s, s:s, s:s, s:s}, {s:s, s:s, s:s, s:s}]}", "resourceTemplates", "uriTemplate",
                                "kuno://gallery/{id}", "name", "picture", "description", "A picture of the gallery",
                                "mimeType", "image/png", "uriTemplate", "kuno://jobs/{id}/preview", "name", "preview",
                                "description", "The newest preview of a job that runs", "mimeType", "image/png"),
                      true);
}

static void read_resource(kn_mcp_call *c, const kn_mcp_message *r) {
    snprintf(c->uri, sizeof c->uri, "%s", r->uri);
    if (r->has_uri)
        c->step = kn_mcp_read_resource;
    else
        kn_mcp_answer_error(c, KN_MCP_INVALID_PARAMS, "uri is missing", NULL);
}

static const struct method {
    const char *name;
    void (*begin)(kn_mcp_call *c, const kn_mcp_message *r);
    bool handshake, stateless; /* the eras that have it */
} methods[] = {
    { "initialize", initialize, true, false },
    { "server/discover", discover, false, true },
    { "ping", ping, true, false },
    { "tools/list", list_tools, true, true },
    { "tools/call", call_tool, true, true },
    { "resources/list", list_resources, true, true },
    { "resources/templates/list", list_templates, true, true },
    { "resources/read", read_resource, true, true },
};

static const struct method *method_of(const kn_mcp_message *r, bool stateless) {
    for (size_t i = 0; i < KN_COUNT(methods); i++)
        if ((stateless ? methods[i].stateless : methods[i].handshake) && !strcmp(methods[i].name, r->method))
            return &methods[i];
    return NULL;
}

/* What a request of the newer era has to say of itself; false: it is answered. */
static bool has_envelope(kn_mcp_call *c, const kn_mcp_message *r) {
    if (!r->has_version || !r->has_capabilities)
        kn_mcp_answer_error(c, KN_MCP_INVALID_PARAMS,
                            r->has_version ? "params._meta lacks io.modelcontextprotocol/clientCapabilities"
                                           : "params._meta lacks io.modelcontextprotocol/protocolVersion",
                            NULL);
    else if (!r->version_is_text)
        kn_mcp_answer_error(c, KN_MCP_INVALID_PARAMS, "the protocol version is no text", NULL);
    else if (strcmp(r->version, KN_MCP_STATELESS) != 0)
        kn_mcp_answer_error(c, KN_MCP_UNSUPPORTED_VERSION, "unsupported protocol version", kn_mcp_versions(r->version));
    else
        return true;
    return false;
}

/* A tool says so in its result, where agents read what to do. */
static void refuse_one_more(kn_mcp_call *c, const struct method *method) {
    char text[160];
    snprintf(text, sizeof text,
             "%d requests are under way, which is as many as there may be; wait for answers, then call again",
             KN_MCP_CALLS);
    c->is_tool = method->begin == call_tool;
    kn_mcp_answer_failure(c, "too_many_requests", text);
}

static void begin(kn_mcp_call *c, const kn_mcp_message *r) {
    if (c->stateless && !has_envelope(c, r))
        return;
    const struct method *method = method_of(r, c->stateless);
    if (!method)
        kn_mcp_answer_error(c, KN_MCP_UNKNOWN_METHOD, "there is no such method", NULL);
    else if (r->params_are_wrong)
        kn_mcp_answer_error(c, KN_MCP_INVALID_PARAMS, "params are not as they should be", NULL);
    else if (c->mcp->call_count > KN_MCP_CALLS)
        refuse_one_more(c, method);
    else
        method->begin(c, r);
}

/* ---- calls ---- */

static void free_call(kn_mcp_call *c) {
    kn_mcp *m = c->mcp;
    kn_loop_timer_close(m->loop, &c->patience);
    kn_loop_timer_close(m->loop, &c->again);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    m->call_count--;
    kn_mcp_order_free(&c->order);
    json_decref(c->job);
    json_decref(c->content);
    kn_buf_free(&c->answer);
    kn_buf_free(&c->body);
    kn_buf_free(&c->events);
    free(c);
    if (!m->calls && m->setup.idle)
        m->setup.idle(m->setup.idle_ctx);
}

static void go_on(kn_task *t) {
    kn_mcp_call *c = KN_HOLDER(t, kn_mcp_call, task);
    if (!c->ended) {
        c->step(c);
        return;
    }
    if (c->client)
        c->client->answer(c->ctx, c->answer.data, c->answer.len, c->code);
    free_call(c);
}

kn_mcp_call *kn_mcp_begin(kn_mcp *m, const kn_mcp_message *request, bool stateless, const kn_mcp_client *client,
                          void *ctx) {
    kn_mcp_call *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    *c = (kn_mcp_call){ .mcp = m,
                        .client = client,
                        .ctx = ctx,
                        .next = m->calls,
                        .at = &m->calls,
                        .task.run = go_on,
                        .stateless = stateless,
                        .id = request->id,
                        .progress_token = request->progress_token,
                        .progress = -1 };
    if (m->calls)
        m->calls->at = &c->next;
    m->calls = c;
    m->call_count++;
    kn_buf_init(&c->answer, ANSWER_MAX);
    begin(c, request);
    kn_loop_later(m->loop, &c->task);
    return c;
}

void kn_mcp_cancel(kn_mcp_call *c) {
    c->client = NULL;
    if (!c->ended && kn_mcp_leave_job(c))
        kn_mcp_end(c);
}

/* ---- the whole ---- */

bool kn_mcp_new(const kn_mcp_setup *setup, kn_mcp **ret, kn_error *err) {
    kn_mcp *m = calloc(1, sizeof *m);
    const kn_upstream_limits limits = kn_upstream_limits_default();
    if (!m)
        return kn_fail_nomem(err, sizeof *m);
    m->setup = *setup;
    if (setup->acquaint)
        m->acquaint = *setup->acquaint;
    m->loop = kn_http_loop(setup->http);
    if (!kn_upstream_new(setup->http, setup->studio, &limits, &m->studio, err) ||
        !kn_mcp_toolbox_new(&m->toolbox, err)) {
        kn_mcp_free(m);
        return false;
    }
    *ret = m;
    return true;
}

void kn_mcp_free(kn_mcp *m) {
    if (!m)
        return;
    m->setup.idle = NULL;
    for (kn_mcp_call *c = m->calls; c; c = c->next)
        kn_mcp_end(c);
    while (m->calls) /* they go in tasks of the loop */
        kn_loop_turn(m->loop, 0, NULL);
    kn_mcp_forget_visits(m);
    kn_upstream_free(m->studio);
    kn_mcp_toolbox_free(m->toolbox);
    free(m);
}

bool kn_mcp_is_idle(const kn_mcp *m) {
    return !m->calls;
}
