/* Tools that make a job: their pictures are sent, the job is begun and watched, and what became of it is shown. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "image/image.h"
#include "mcp/internal.h"
#include "mcp/local.h"

enum {
    ANSWER_BYTES = 2 << 20,
    EVENTS_BYTES = 8 << 20,
    ASK_MS = 120 * 1000,
    SEND_MS = 600 * 1000,
    LONGER_MS = 60 * 1000,       /* a stream of events may take so much longer than its client waits */
    PREVIEWS_BYTES = 700 * 1000, /* of base64, in one answer */
    SIDE_OF_FEW = 256,           /* of previews where there are several */
    SIDE_MIN = 64,
};

/* ---- pictures ---- */

static void send_next(kn_mcp_call *c);

static void sent(kn_mcp_call *c, unsigned status, kn_span body) {
    kn_mcp_picture *p = &c->order.pictures[c->sending];
    json_t *input = kn_mcp_read(c, status, body);
    const char *id = json_string_value(json_object_get(input, "input_id"));
    if (input) {
        snprintf(p->input, sizeof p->input, "%s", id ? id : "");
        kn_buf_free(&p->bytes);
        c->sending++;
        send_next(c);
    }
    json_decref(input);
}

static void send_bytes(kn_mcp_call *c, const kn_mcp_picture *p) {
    static const struct {
        kn_image_kind kind;
        const char *type;
    } rows[] = { { KN_IMAGE_PNG, "image/png" }, { KN_IMAGE_JPEG, "image/jpeg" }, { KN_IMAGE_WEBP, "image/webp" } };
    kn_image_kind kind = kn_image_kind_of(p->bytes.data, p->bytes.len);
    kn_call_request r = { .method = "POST",
                          .target = "/api/v1/inputs",
                          .body = { p->bytes.data, p->bytes.len },
                          .answer_limit = ANSWER_BYTES,
                          .within_ms = SEND_MS };
    for (size_t i = 0; i < KN_COUNT(rows); i++)
        if (rows[i].kind == kind)
            r.type = rows[i].type;
    char text[100];
    snprintf(text, sizeof text, "picture %zu is neither PNG nor JPEG nor WebP", c->sending + 1);
    if (r.type)
        kn_mcp_ask_with(c, &r, sent);
    else
        kn_mcp_answer_failure(c, "input_invalid", text);
}

/* A picture of the gallery becomes an input like any other. */
static void send_item(kn_mcp_call *c, unsigned status, kn_span body) {
    kn_mcp_picture *p = &c->order.pictures[c->sending];
    if (status != 200)
        json_decref(kn_mcp_read(c, status, body));
    else if (kn_buf_add(&p->bytes, body.data, body.len))
        send_bytes(c, p);
    else
        kn_mcp_answer_failure(c, "input_invalid", "a picture is too large");
}

static void fetch_item(kn_mcp_call *c, const kn_mcp_picture *p) {
    char target[KN_MCP_TARGET_BYTES];
    snprintf(target, sizeof target, "/api/v1/gallery/%s/content", p->item);
    const kn_call_request r = { .method = "GET",
                                .target = target,
                                .accept = "image/*",
                                .answer_limit = KN_MCP_PICTURE_BYTES,
                                .within_ms = SEND_MS };
    kn_mcp_ask_with(c, &r, send_item);
}

static void send_file(kn_mcp_call *c, kn_mcp_picture *p) {
    const kn_mcp_setup *s = &c->mcp->setup;
    kn_error err = { 0 };
    if (kn_mcp_read_local(s->folders, s->folder_count, p->path, &p->bytes, &err))
        send_bytes(c, p);
    else
        kn_mcp_answer_failure(c, "input_invalid", err.text);
}

/* Only to be enlarged does a picture go by its name. */
static void send_next(kn_mcp_call *c) {
    kn_mcp_picture *p = &c->order.pictures[c->sending];
    if (c->sending == c->order.picture_count || (c->order.tool == KN_MCP_UPSCALE_IMAGE && p->item[0]))
        c->sent(c);
    else if (p->item[0])
        fetch_item(c, p);
    else if (p->path)
        send_file(c, p);
    else
        send_bytes(c, p);
}

void kn_mcp_send_pictures(kn_mcp_call *c, void (*then)(kn_mcp_call *c)) {
    kn_buf_init(&c->body, 2 * KN_MCP_REQUEST_BYTES);
    c->sent = then;
    send_next(c);
}

/* ---- progress ---- */

static void tell_progress(kn_mcp_call *c, double percent, const char *message) {
    if (!c->client || !c->progress_token.given || percent <= c->progress)
        return;
    c->progress = percent;
    json_t *note = json_pack("{s:s, s:s, s:{s:o, s:f, s:i, s:s}}", "jsonrpc", "2.0", "method", "notifications/progress",
                             "params", "progressToken", kn_mcp_word_json(&c->progress_token), "progress", percent,
                             "total", 100, "message", message);
    char *text = note ? json_dumps(note, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(note);
    if (text)
        c->client->notify(c->ctx, text, strlen(text));
    free(text);
}

/* "picture 2, sampling, step 3 of 8" */
static void tell_progress_of(kn_mcp_call *c, const json_t *progress) {
    const char *wait = json_string_value(json_object_get(json_object_get(progress, "waiting"), "message"));
    if (wait) { /* nothing has moved, but what is told has to be more than what was told before */
        tell_progress(c, c->progress + 0.001, wait);
        return;
    }
    const char *phase = json_string_value(json_object_get(progress, "phase"));
    long long step = json_integer_value(json_object_get(progress, "step"));
    long long steps = json_integer_value(json_object_get(progress, "steps"));
    long long picture = json_integer_value(json_object_get(progress, "image_index"));
    double percent = floor(json_number_value(json_object_get(progress, "fraction")) * 1000) / 10;
    char message[160];
    int len = picture ? snprintf(message, sizeof message, "picture %lld, ", picture + 1) : 0;
    len += snprintf(message + len, sizeof message - (size_t)len, "%.40s", phase ? phase : "working");
    if (steps)
        snprintf(message + len, sizeof message - (size_t)len, ", step %lld of %lld", step, steps);
    tell_progress(c, fmin(percent, 99), message);
}

/* ---- what is shown of a job ---- */

static const char *state_of(const json_t *job) {
    const char *state = json_string_value(json_object_get(job, "state"));
    return state ? state : "";
}

static bool has_ended(const json_t *job) {
    const char *state = state_of(job);
    return !strcmp(state, "completed") || !strcmp(state, "failed") || !strcmp(state, "cancelled");
}

static const char *item_of(const json_t *result) {
    return json_string_value(json_object_get(result, "gallery_item"));
}

static json_t *image_of(const json_t *result) {
    static const char *const names[] = { "width", "height", "seed", "media_type", "bytes" };
    json_t *image = json_object();
    const char *id = item_of(result);
    if (id) {
        json_object_set_new(image, "id", json_string(id));
        json_object_set_new(image, "uri", json_sprintf("kuno://gallery/%s", id));
    }
    for (size_t i = 0; i < KN_COUNT(names); i++)
        if (json_object_get(result, names[i]))
            json_object_set(image, names[i], json_object_get(result, names[i]));
    return image;
}

static json_t *job_as_told(const json_t *job) {
    json_t *images = json_array(), *one, *error = json_object_get(job, "error");
    json_t *position = json_object_get(job, "queue_position");
    size_t i;
    json_array_foreach(json_object_get(job, "results"), i, one) {
        json_array_append_new(images, image_of(one));
    }
    if (json_is_object(error))
        error = json_pack("{s:O, s:O}", "code", json_object_get(error, "code"), "message",
                          json_object_get(error, "message"));
    else
        error = NULL;
    return json_pack("{s:O, s:O, s:O, s:O*, s:O*, s:o, s:o*, s:O}", "job_id", json_object_get(job, "id"), "kind",
                     json_object_get(job, "kind"), "state", json_object_get(job, "state"), "progress",
                     strcmp(state_of(job), "running") ? NULL : json_object_get(job, "progress"), "queue_position",
                     json_is_integer(position) ? position : NULL, "images", images, "error", error, "notes",
                     json_object_get(job, "notes"));
}

static void answer_job(kn_mcp_call *c) {
    const json_t *error = json_object_get(c->job, "error");
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *message = json_string_value(json_object_get(error, "message"));
    json_t *content = c->content;
    c->content = NULL;
    if (!strcmp(state_of(c->job), "failed")) {
        kn_mcp_answer_failure(c, code ? code : "internal", message ? message : "the job has failed");
        json_decref(content);
    } else {
        kn_mcp_answer_tool(c, job_as_told(c->job), content);
    }
}

static void show_next(kn_mcp_call *c);

static const json_t *result_of(const kn_mcp_call *c, size_t i) {
    return json_array_get(json_object_get(c->job, "results"), i);
}

static uint64_t usual_side(const kn_mcp_call *c) {
    return json_array_size(json_object_get(c->job, "results")) > 1 ? SIDE_OF_FEW : KN_MCP_SIDE_MAX;
}

/* One that would be larger than its share of the answer is asked for again, smaller. */
static void keep_preview(kn_mcp_call *c, unsigned status, kn_span body) {
    size_t share = PREVIEWS_BYTES / json_array_size(json_object_get(c->job, "results"));
    bool fits = (body.len + 2) / 3 * 4 <= share;
    const json_t *result = result_of(c, c->shown);
    if (status == 200 && !fits && c->side > SIDE_MIN) {
        c->side /= 2;
        show_next(c);
        return;
    }
    if (status == 200 && fits)
        json_array_append_new(c->content, kn_mcp_picture_block(body));
    json_array_append_new(c->content, kn_mcp_link_block(item_of(result), json_object_get(result, "media_type"),
                                                        json_object_get(result, "bytes")));
    c->shown++;
    c->side = usual_side(c);
    show_next(c);
}

static void show_next(kn_mcp_call *c) {
    char target[KN_MCP_TARGET_BYTES];
    while (result_of(c, c->shown) && !item_of(result_of(c, c->shown)))
        c->shown++;
    if (!result_of(c, c->shown)) {
        answer_job(c);
        return;
    }
    snprintf(target, sizeof target, "/api/v1/gallery/%.40s/thumbnail?size=%u", item_of(result_of(c, c->shown)),
             (unsigned)c->side);
    kn_mcp_ask(c, "GET", target, NULL, keep_preview);
}

void kn_mcp_show_job(kn_mcp_call *c, json_t *job) {
    json_decref(c->job);
    c->job = job;
    c->content = json_array();
    c->side = usual_side(c);
    if (!strcmp(state_of(job), "completed")) {
        tell_progress(c, 100, "done");
        show_next(c);
    } else {
        answer_job(c);
    }
}

/* ---- watching ---- */

static void stop_watching(kn_mcp_call *c) {
    c->watches = false;
    kn_loop_timer_stop(&c->patience);
    kn_mcp_ask_no_more(c);
    kn_buf_free(&c->events);
}

static void tell_job(kn_mcp_call *c, unsigned status, kn_span body) {
    json_t *job = kn_mcp_read(c, status, body);
    if (job)
        kn_mcp_show_job(c, job);
}

/* Nobody waits any longer: the job as it is now. */
static void look(kn_mcp_call *c) {
    char target[KN_MCP_TARGET_BYTES];
    stop_watching(c);
    snprintf(target, sizeof target, "/api/v1/jobs/%s", c->job_id);
    kn_mcp_ask(c, "GET", target, NULL, tell_job);
}

static void patience_is_over(kn_timer *t) {
    look(KN_HOLDER(t, kn_mcp_call, patience));
}

/* One event: lines "event: job.progress" and "data: {…}". Whether it was the last one. */
static bool take_event(kn_mcp_call *c, const char *text) {
    static const char name[] = "event: job.", data[] = "\ndata: ";
    const char *kind = strstr(text, name), *start = strstr(text, data);
    json_t *json = kind && start ? json_loads(start + sizeof data - 1, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    if (!json)
        return false;
    kind += sizeof name - 1;
    if (!strncmp(kind, "progress\n", 9))
        tell_progress_of(c, json_object_get(json, "progress"));
    if (has_ended(json)) {
        stop_watching(c);
        kn_mcp_show_job(c, json);
        return true;
    }
    json_decref(json);
    return false;
}

static void take_events(kn_mcp_call *c) {
    char *at = c->events.data;
    for (char *stop; (stop = strstr(at, "\n\n")); at = stop + 2) {
        stop[1] = 0;
        if (take_event(c, at))
            return;
    }
    c->events.len -= (size_t)(at - c->events.data);
    memmove(c->events.data, at, c->events.len + 1);
}

static void heard(kn_task *t) {
    kn_mcp_call *c = KN_HOLDER(t, kn_mcp_call, heard);
    if (c->watches)
        take_events(c);
}

static void hear(void *ctx, kn_span data) {
    kn_mcp_call *c = ctx;
    c->lost_ms = 0;
    if (kn_buf_add(&c->events, data.data, data.len))
        kn_loop_later(c->mcp->loop, &c->heard);
}

/* The stream has ended, or there is none: not because the job has, for that would have been heard. A service that stops
 * may come back, with the job. */
static void watch_is_over(kn_mcp_call *c, unsigned status, kn_span body) {
    if (status == 404 || status == 410)
        json_decref(kn_mcp_read(c, status, body));
    else if ((status != 200 && status != 503) || !kn_mcp_ask_again(c))
        look(c);
}

void kn_mcp_watch_job(kn_mcp_call *c) {
    char target[KN_MCP_TARGET_BYTES];
    snprintf(target, sizeof target, "/api/v1/jobs/%s/events", c->job_id);
    uint64_t wait_ms = c->order.wait_s * 1000;
    const kn_call_request r = { .method = "GET",
                                .target = target,
                                .accept = "text/event-stream",
                                .answer_limit = ANSWER_BYTES,
                                .data = hear,
                                .within_ms = wait_ms + LONGER_MS };
    tell_progress(c, 0, "waiting");
    if (!wait_ms) {
        look(c);
        return;
    }
    kn_buf_init(&c->events, EVENTS_BYTES);
    c->heard.run = heard;
    c->watches = true;
    c->patience.fired = patience_is_over;
    kn_loop_timer_after(c->mcp->loop, &c->patience, wait_ms);
    kn_mcp_ask_with(c, &r, watch_is_over);
}

/* ---- beginning and leaving ---- */

static void leave(kn_mcp_call *c, unsigned status, kn_span body) {
    (void)status, (void)body;
    kn_mcp_end(c);
}

static void cancel(kn_mcp_call *c) {
    char target[KN_MCP_TARGET_BYTES];
    stop_watching(c);
    snprintf(target, sizeof target, "/api/v1/jobs/%s/cancel", c->job_id);
    kn_mcp_ask(c, "POST", target, NULL, leave);
}

static void begun(kn_mcp_call *c, unsigned status, kn_span body) {
    if (status == 503 && kn_mcp_ask_again(c)) /* it stops, and what it may have taken before is not told */
        return;
    c->key[0] = 0;
    c->uncertain = false;
    c->lost_ms = 0;
    c->job = kn_mcp_read(c, status, body);
    if (!c->job)
        return;
    const char *id = json_string_value(json_object_get(c->job, "id"));
    snprintf(c->job_id, sizeof c->job_id, "%s", id ? id : "");
    c->begun = true;
    if (c->client)
        kn_mcp_watch_job(c);
    else
        cancel(c);
}

/* A number that nobody else has. */
static bool make_key(char ret[KN_MCP_KEY_BYTES]) {
    uint64_t number[2];
    if (getrandom(number, sizeof number, 0) != sizeof number)
        return false;
    snprintf(ret, KN_MCP_KEY_BYTES, "%016" PRIx64 "%016" PRIx64, number[0], number[1]);
    return true;
}

void kn_mcp_begin_job(kn_mcp_call *c) {
    kn_buf_clear(&c->body);
    if (!make_key(c->key))
        kn_mcp_answer_failure(c, "internal", "the system gives no random numbers");
    else if (kn_mcp_order_body(&c->order, &c->body))
        kn_mcp_ask(c, "POST", c->order.tool == KN_MCP_UPSCALE_IMAGE ? "/api/v1/upscale" : "/api/v1/jobs", c->body.data,
                   begun);
    else
        kn_mcp_answer_failure(c, "arguments_invalid", "the arguments are too long");
}

bool kn_mcp_leave_job(kn_mcp_call *c) {
    if (c->key[0] && c->then == begun) /* there may be a job by now: that is told first */
        return false;
    if (!c->begun || has_ended(c->job))
        return true;
    cancel(c);
    return false;
}

void kn_mcp_forget_job(kn_mcp_call *c) {
    stop_watching(c);
}
