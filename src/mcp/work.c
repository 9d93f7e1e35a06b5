/* Tools that are one question to the studio, resources, and how results are written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "image/image.h"
#include "mcp/internal.h"

enum { RESOURCE_BYTES = 32 << 20, LINKS_PAGE = 50, ASK_MS = 60 * 1000 };

/* ---- results ---- */

static json_t *text_block(const char *text) {
    return json_pack("{s:s, s:s}", "type", "text", "text", text);
}

void kn_mcp_answer_tool(kn_mcp_call *c, json_t *structured, json_t *more) {
    if (!structured) { /* something that belongs into it is not there */
        json_decref(more);
        kn_mcp_answer_strange(c);
        return;
    }
    char *text = json_dumps(structured, JSON_COMPACT);
    json_t *content = text ? json_pack("[o]", text_block(text)) : NULL;
    if (content && more)
        json_array_extend(content, more);
    free(text);
    json_decref(more);
    kn_mcp_answer(c, json_pack("{s:o, s:o, s:b}", "content", content, "structuredContent", structured, "isError", 0),
                  false);
}

void kn_mcp_answer_failure(kn_mcp_call *c, const char *code, const char *message) {
    char text[900];
    snprintf(text, sizeof text, "%s: %s", code, message);
    if (c->is_tool)
        kn_mcp_answer(c, json_pack("{s:[o], s:b}", "content", text_block(text), "isError", 1), false);
    else
        kn_mcp_answer_error(c, KN_MCP_INTERNAL, text, NULL);
}

static const char *media_type_of(kn_span file) {
    switch (kn_image_kind_of(file.data, file.len)) {
    case KN_IMAGE_JPEG: return "image/jpeg";
    case KN_IMAGE_WEBP: return "image/webp";
    default: return "image/png";
    }
}

static json_t *base64_json(kn_span data) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, data.len / 3 * 4 + 4);
    return kn_base64_encode(data.data, data.len, &text) ? json_stringn_nocheck(text.data, text.len) : NULL;
}

json_t *kn_mcp_picture_block(kn_span file) {
    return json_pack("{s:s, s:o, s:s}", "type", "image", "data", base64_json(file), "mimeType", media_type_of(file));
}

static json_t *uri_json(const char *id) {
    return json_sprintf("kuno://gallery/%s", id);
}

json_t *kn_mcp_link_block(const char *id, json_t *media_type, json_t *bytes) {
    return json_pack("{s:s, s:o, s:s, s:O*, s:O*}", "type", "resource_link", "uri", uri_json(id), "name", id,
                     "mimeType", media_type, "size", bytes);
}

/* Members of one object under the names that clients know: pairs of old and new name. */
static json_t *renamed(const json_t *from, const char *const (*names)[2], size_t count) {
    json_t *to = json_object();
    for (size_t i = 0; i < count; i++)
        if (json_object_get(from, names[i][0]))
            json_object_set(to, names[i][1], json_object_get(from, names[i][0]));
    return to;
}

/* ---- status, models, plan ---- */

static void tell_status(kn_mcp_call *c, unsigned status, kn_span body) {
    json_t *s = kn_mcp_read(c, status, body);
    if (!s)
        return;
    json_t *engine = json_object_get(s, "engine"), *queue = json_object_get(s, "queue");
    kn_mcp_answer_tool(c,
                       json_pack("{s:O, s:O, s:O, s:O?, s:O, s:O?, s:O, s:O}", "state",
                                 json_object_get(engine, "state"), "queued", json_object_get(queue, "queued"),
                                 "running", json_object_get(queue, "running"), "model",
                                 json_object_get(s, "active_profile"), "backend", json_object_get(engine, "backend"),
                                 "device", json_object_get(json_object_get(engine, "device"), "name"), "version",
                                 json_object_get(s, "version"), "setup_needed", json_object_get(s, "setup_needed")),
                       NULL);
    json_decref(s);
}

static json_t *models_of(const json_t *list) {
    static const char *const names[][2] = {
        { "name", "name" },     { "title", "title" }, { "model", "model" },     { "variant", "variant" },
        { "active", "active" }, { "ready", "ready" }, { "license", "license" },
    };
    json_t *models = json_array(), *one;
    size_t i;
    json_array_foreach(json_object_get(list, "items"), i, one) {
        json_array_append_new(models, renamed(one, names, KN_COUNT(names)));
    }
    return models;
}

static void tell_models(kn_mcp_call *c, unsigned status, kn_span body) {
    json_t *able = kn_mcp_read(c, status, body);
    if (!able)
        return;
    json_object_set_new(able, "models", models_of(c->job));
    json_object_del(able, "presets");
    json_object_del(able, "output_formats");
    kn_mcp_answer_tool(c, able, NULL);
}

static void ask_abilities(kn_mcp_call *c, unsigned status, kn_span body) {
    c->job = kn_mcp_read(c, status, body);
    if (c->job)
        kn_mcp_ask(c, "GET", "/api/v1/capabilities", NULL, tell_models);
}

static void tell_plan(kn_mcp_call *c, unsigned status, kn_span body) {
    static const char *const names[][2] = {
        { "kind", "kind" },
        { "profile", "model" },
        { "working_width", "working_width" },
        { "working_height", "working_height" },
        { "result_width", "width" },
        { "result_height", "height" },
        { "steps", "steps" },
        { "sampler", "sampler" },
        { "upscaler", "upscaler" },
        { "memory", "memory" },
        { "estimated_seconds", "estimated_seconds" },
        { "notes", "notes" },
        { "blocking", "blocking" },
    };
    json_t *plan = kn_mcp_read(c, status, body);
    if (plan)
        kn_mcp_answer_tool(c, renamed(plan, names, KN_COUNT(names)), NULL);
    json_decref(plan);
}

static void ask_plan(kn_mcp_call *c) {
    kn_buf_clear(&c->body);
    if (kn_mcp_order_body(&c->order, &c->body))
        kn_mcp_ask(c, "POST", "/api/v1/plan", c->body.data, tell_plan);
    else
        kn_mcp_answer_failure(c, "arguments_invalid", "the arguments are too long");
}

/* ---- the gallery ---- */

static json_t *item_of(const json_t *from) {
    static const char *const names[][2] = {
        { "id", "id" },
        { "created_at", "created_at" },
        { "title", "title" },
        { "prompt", "prompt" },
        { "kind", "kind" },
        { "width", "width" },
        { "height", "height" },
        { "seed", "seed" },
        { "profile", "model" },
        { "media_type", "media_type" },
        { "bytes", "bytes" },
        { "tags", "tags" },
        { "favorite", "favorite" },
    };
    json_t *item = renamed(from, names, KN_COUNT(names));
    const char *id = json_string_value(json_object_get(from, "id"));
    json_object_set_new(item, "uri", uri_json(id ? id : ""));
    return item;
}

static json_t *link_of(const json_t *item) {
    const char *id = json_string_value(json_object_get(item, "id"));
    return kn_mcp_link_block(id ? id : "", json_object_get(item, "media_type"), json_object_get(item, "bytes"));
}

static void tell_gallery(kn_mcp_call *c, unsigned status, kn_span body) {
    json_t *list = kn_mcp_read(c, status, body), *one, *items = json_array(), *links = json_array();
    size_t i;
    json_array_foreach(json_object_get(list, "items"), i, one) {
        json_array_append_new(items, item_of(one));
        json_array_append_new(links, link_of(one));
    }
    json_t *structured = json_pack("{s:o, s:O?}", "images", items, "next_cursor", json_object_get(list, "next_cursor"));
    if (list)
        kn_mcp_answer_tool(c, structured, links);
    else {
        json_decref(structured);
        json_decref(links);
    }
    json_decref(list);
}

static void ask_gallery(kn_mcp_call *c) {
    char target[KN_MCP_TARGET_BYTES];
    snprintf(target, sizeof target, "/api/v1/gallery?%s", c->order.query.data);
    kn_mcp_ask(c, "GET", target, NULL, tell_gallery);
}

static void tell_image(kn_mcp_call *c, unsigned status, kn_span body) {
    json_t *more = json_array();
    if (status == 200)
        json_array_append_new(more, kn_mcp_picture_block(body));
    json_array_append_new(more, link_of(c->job));
    kn_mcp_answer_tool(c, json_pack("{s:[o], s:n}", "images", item_of(c->job), "next_cursor"), more);
}

static void ask_thumbnail(kn_mcp_call *c, unsigned status, kn_span body) {
    char target[KN_MCP_TARGET_BYTES];
    c->job = kn_mcp_read(c, status, body);
    snprintf(target, sizeof target, "/api/v1/gallery/%s/thumbnail?size=%u", c->order.subject,
             (unsigned)c->order.max_side);
    if (c->job)
        kn_mcp_ask(c, "GET", target, NULL, tell_image);
}

/* ---- tools ---- */

static void tell_job(kn_mcp_call *c, unsigned status, kn_span body) {
    json_t *job = kn_mcp_read(c, status, body);
    if (job)
        kn_mcp_show_job(c, job);
}

/* One of the studio's things by its id: "/api/v1/jobs/%s/cancel". */
static void ask_about(kn_mcp_call *c, const char *method, const char *room, const char *more, kn_mcp_then *then) {
    char target[KN_MCP_TARGET_BYTES];
    snprintf(target, sizeof target, "/api/v1/%s/%s%s", room, c->order.subject, more);
    kn_mcp_ask(c, method, target, NULL, then);
}

void kn_mcp_work(kn_mcp_call *c) {
    switch (c->order.tool) {
    case KN_MCP_GET_STATUS: kn_mcp_ask(c, "GET", "/api/v1/status", NULL, tell_status); break;
    case KN_MCP_LIST_MODELS: kn_mcp_ask(c, "GET", "/api/v1/models", NULL, ask_abilities); break;
    case KN_MCP_PLAN_IMAGE: kn_mcp_send_pictures(c, ask_plan); break;
    case KN_MCP_GENERATE_IMAGE:
    case KN_MCP_EDIT_IMAGE:
    case KN_MCP_UPSCALE_IMAGE: kn_mcp_send_pictures(c, kn_mcp_begin_job); break;
    case KN_MCP_GET_JOB: ask_about(c, "GET", "jobs", "", tell_job); break;
    case KN_MCP_CANCEL_JOB: ask_about(c, "POST", "jobs", "/cancel", tell_job); break;
    case KN_MCP_WAIT_FOR_JOB:
        snprintf(c->job_id, sizeof c->job_id, "%s", c->order.subject);
        kn_mcp_watch_job(c);
        break;
    case KN_MCP_LIST_GALLERY: ask_gallery(c); break;
    case KN_MCP_GET_IMAGE: ask_about(c, "GET", "gallery", "", ask_thumbnail); break;
    case KN_MCP_TOOLS: break;
    }
}

/* ---- resources ---- */

static void tell_resources(kn_mcp_call *c, unsigned status, kn_span body) {
    if (status == 400) {
        kn_mcp_answer_error(c, KN_MCP_INVALID_PARAMS, "the cursor is none that was given out", NULL);
        return;
    }
    json_t *list = kn_mcp_read(c, status, body), *one, *resources = json_array();
    size_t i;
    json_array_foreach(json_object_get(list, "items"), i, one) {
        json_t *link = link_of(one);
        json_object_del(link, "type");
        json_array_append_new(resources, link);
    }
    json_t *next = json_object_get(list, "next_cursor");
    json_t *result = json_pack("{s:o, s:O*}", "resources", resources, "nextCursor", json_is_string(next) ? next : NULL);
    if (list)
        kn_mcp_answer(c, result, true);
    else
        json_decref(result);
    json_decref(list);
}

void kn_mcp_list_resources(kn_mcp_call *c) {
    char target[KN_MCP_TARGET_BYTES];
    if (strspn(c->cursor, "0123456789") != strlen(c->cursor)) {
        kn_mcp_answer_error(c, KN_MCP_INVALID_PARAMS, "the cursor is none that was given out", NULL);
        return;
    }
    snprintf(target, sizeof target, "/api/v1/gallery?limit=%d%s%s", LINKS_PAGE, c->cursor[0] ? "&cursor=" : "",
             c->cursor);
    kn_mcp_ask(c, "GET", target, NULL, tell_resources);
}

static void tell_nothing_there(kn_mcp_call *c) {
    kn_mcp_answer_error(c, c->stateless ? KN_MCP_INVALID_PARAMS : KN_MCP_NOT_FOUND, "there is no such resource",
                        json_pack("{s:s}", "uri", c->uri));
}

static void tell_resource(kn_mcp_call *c, unsigned status, kn_span body) {
    if (status == 200) {
        json_t *contents =
            json_pack("[{s:s, s:s, s:o}]", "uri", c->uri, "mimeType", media_type_of(body), "blob", base64_json(body));
        kn_mcp_answer(c, json_pack("{s:o}", "contents", contents), true);
    } else if (status == 204 || status == 404 || status == 410) {
        tell_nothing_there(c);
    } else {
        json_decref(kn_mcp_read(c, status, body));
    }
}

/* "START" ID "END" */
static bool is_uri(const char *uri, const char *start, const char *prefix, const char *end,
                   char id[KN_MCP_SUBJECT_BYTES]) {
    size_t len = strlen(uri), front = strlen(start), back = strlen(end);
    if (len < front + back || len - front - back >= KN_MCP_SUBJECT_BYTES || strncmp(uri, start, front) != 0 ||
        strcmp(uri + len - back, end) != 0)
        return false;
    memcpy(id, uri + front, len - front - back);
    id[len - front - back] = 0;
    return kn_mcp_is_id(id, prefix);
}

void kn_mcp_read_resource(kn_mcp_call *c) {
    char id[KN_MCP_SUBJECT_BYTES], target[KN_MCP_TARGET_BYTES];
    if (is_uri(c->uri, "kuno://gallery/", "img_", "", id)) {
        snprintf(target, sizeof target, "/api/v1/gallery/%s/content", id);
    } else if (is_uri(c->uri, "kuno://jobs/", "job_", "/preview", id)) {
        snprintf(target, sizeof target, "/api/v1/jobs/%s/preview", id);
    } else {
        tell_nothing_there(c);
        return;
    }
    const kn_call_request r = {
        .method = "GET", .target = target, .accept = "image/*", .answer_limit = RESOURCE_BYTES, .within_ms = ASK_MS
    };
    kn_mcp_ask_with(c, &r, tell_resource);
}
