#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "studio/api_visit.h"

/* ---- new ones ---- */

static bool work_accept(kn_visit *v, kn_store *s, kn_error *err) {
    kn_sha256 id;
    kn_input input;
    kn_input_facts facts;
    memcpy(id.text, v->id, sizeof id.text);
    memcpy(&facts, v->body.data, sizeof facts); /* put there by looked */
    if (!kn_inputs_accept(s, &id, &facts, &input, err))
        return false;
    v->status = 201;
    snprintf(v->fields, sizeof v->fields, "Location: /api/v1/inputs/%s\r\n", id.text);
    v->json = kn_input_json(&input);
    return v->json || kn_fail_nomem(err, sizeof input);
}

static void drop(kn_visit *v, kn_store *s, kn_error *err) {
    kn_sha256 id;
    memcpy(id.text, v->id, sizeof id.text);
    kn_inputs_refuse(s, &id);
    kn_fail(err, KN_E_FORMAT, "%s", v->body.data);
}

static bool work_refuse(kn_visit *v, kn_store *s, kn_error *err) {
    drop(v, s, err);
    return kn_visit_deny(v, 422, "input_invalid", "The picture cannot be used", NULL);
}

static bool work_turn_away(kn_visit *v, kn_store *s, kn_error *err) {
    drop(v, s, err);
    return kn_visit_deny_unlocked(v);
}

static void looked(void *ctx, const kn_input_facts *facts, const void *png, size_t len, const char *message) {
    (void)png, (void)len;
    kn_visit *v = ctx;
    bool unlocked = !facts && kn_visit_is_unlocked(v);
    kn_buf_clear(&v->body);
    bool ok = facts ? kn_buf_add(&v->body, facts, sizeof *facts) : kn_buf_add_text(&v->body, message ? message : "");
    if (ok) /* also if the client is gone: the file is to be known or to go */
        kn_visit_send(v, facts ? work_accept : unlocked ? work_turn_away : work_refuse, NULL);
    else if (kn_visit_is_back(v))
        kn_visit_refuse(v, 503, "out_of_memory", "Memory is short", NULL, NULL);
}

static bool work_receive(kn_visit *v, kn_store *s, kn_error *err) {
    kn_input input;
    if (!kn_inputs_receive(s, v->body.data, v->body.len, &input, &v->flag, err))
        return false;
    memcpy(v->id, input.id.text, sizeof v->id);
    if (v->flag)
        v->json = kn_input_json(&input);
    return !v->flag || v->json || kn_fail_nomem(err, sizeof input);
}

static void after_receive(kn_visit *v) {
    const kn_studio_runner *r = &v->studio->runner;
    if (v->flag) {
        kn_visit_answer(v);
        return;
    }
    v->in_flight = true;
    if (!r->look(r->ctx, v->body.data, v->body.len, 0, looked, v)) {
        v->in_flight = false;
        kn_visit_refuse(v, 503, "engine_busy", "The image worker cannot look at the picture now", NULL, NULL);
    }
}

void kn_api_create_input(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && !v->body.len)
        kn_visit_refuse(v, 422, "input_invalid", "The picture cannot be used", "the body is empty", NULL);
    else if (v)
        kn_visit_send(v, work_receive, after_receive);
}

/* ---- those that are there ---- */

static bool work_list(kn_visit *v, kn_store *s, kn_error *err) {
    int64_t next = 0;
    json_t *items = json_array();
    if (kn_inputs_list(s, (unsigned)v->end, (int64_t)v->number, items, &next, err))
        return kn_visit_list(v, items, next, err);
    json_decref(items);
    return false;
}

void kn_api_list_inputs(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "limit cursor");
    if (!v || !kn_visit_page(v))
        return;
    kn_visit_send(v, work_list, NULL);
}

static bool work_get(kn_visit *v, kn_store *s, kn_error *err) {
    kn_input input;
    if (!kn_inputs_find(s, v->part[1], &input, err))
        return false;
    v->json = kn_input_json(&input);
    return v->json || kn_fail_nomem(err, sizeof input);
}

void kn_api_get_input(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_id(v, 1, NULL))
        kn_visit_send(v, work_get, NULL);
}

static bool work_delete(kn_visit *v, kn_store *s, kn_error *err) {
    v->status = 204;
    return kn_inputs_delete(s, v->part[1], err);
}

void kn_api_delete_input(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_id(v, 1, NULL))
        kn_visit_send(v, work_delete, NULL);
}

static bool work_content(kn_visit *v, kn_store *s, kn_error *err) {
    kn_input input;
    if (!kn_inputs_find(s, v->part[1], &input, err))
        return false;
    v->format = input.facts.format;
    return kn_visit_open_picture(v, s, "inputs", v->part[1], input.bytes, err);
}

static void after_content(kn_visit *v) {
    kn_visit_send_file(v, kn_picture_media_types[v->format], v->part[1]);
}

void kn_api_input_content(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_id(v, 1, NULL))
        kn_visit_send(v, work_content, after_content);
}
