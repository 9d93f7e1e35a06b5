/* A client's order on its way: its pictures become inputs, it becomes a job, and the job's pictures become the answer.
 *
 *     reading ──► looking at pictures that nobody knows ──► a job ──► waiting ──► answering
 *
 * A client that leaves before there is a job leaves nothing behind but inputs; later, its job is cancelled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "gateway/state.h"
#include "studio/compat/compat.h"

enum { PIECE_BYTES = 256 << 10, SILENCE_MS = 15 * 1000 };

void kn_compat_forget(kn_visit *v) {
    kn_compat_call *c = v->compat;
    if (!c)
        return;
    kn_order_free(&c->order);
    kn_buf_free(&c->out);
    kn_buf_free(&c->preview);
    free(c);
    v->compat = NULL;
}

/* ---- the answer ---- */

bool kn_compat_add_base64(kn_buf *into, const void *data, size_t len, kn_error *err) {
    return (kn_buf_add_text(into, "\"") && kn_base64_encode(data, len, into) && kn_buf_add_text(into, "\"")) ||
           kn_fail_nomem(err, len / 3 * 4);
}

bool kn_compat_add_json(kn_buf *into, json_t *json, kn_error *err) {
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(json);
    bool ok = text && kn_buf_add_text(into, text);
    free(text);
    return ok || kn_fail_nomem(err, into->len);
}

bool kn_compat_add_picture(kn_store *s, const char *job, unsigned number, kn_buf *into, kn_error *err) {
    KN_AUTO_BUF file;
    kn_id item;
    char *name;
    kn_picture_format format;
    kn_buf_init(&file, KN_STORE_FILE_MAX + 1);
    if (!kn_jobs_find_result(s, job, number, &item, &name, &format, err))
        return false;
    bool ok = (name[0] || kn_fail(err, KN_E_NOT_FOUND, "the picture is not there any more")) &&
              kn_store_read(s, item.text[0] ? "gallery" : "results", name, KN_STORE_FILE_MAX, &file, err);
    free(name);
    return ok && kn_compat_add_base64(into, file.data, file.len, err);
}

size_t kn_compat_results(const json_t *job) {
    return json_array_size(json_object_get(job, "results"));
}

const json_t *kn_compat_result(const json_t *job, size_t i) {
    return json_array_get(json_object_get(job, "results"), i);
}

/* ---- streams ---- */

void kn_compat_pump(kn_visit *v) {
    kn_compat_call *c = v->compat;
    if (!v->x || !kn_exchange_is_drained(v->x))
        return;
    size_t piece = KN_MIN(c->out.len - c->sent, (size_t)PIECE_BYTES);
    if (piece)
        kn_exchange_send(v->x, c->out.data + c->sent, piece);
    c->sent += piece;
    if (c->sent == c->out.len) {
        kn_buf_clear(&c->out);
        c->sent = 0;
        if (c->finished)
            kn_exchange_send_end(v->x);
    }
}

void kn_compat_send(kn_visit *v, const char *text, size_t len) {
    if (!v->x)
        return;
    if (!kn_buf_add(&v->compat->out, text, len)) {
        kn_exchange_break(v->x);
        return;
    }
    kn_compat_pump(v);
    kn_loop_timer_after(v->studio->loop, &v->timer, SILENCE_MS);
}

static void silence(kn_timer *t) {
    static const char comment[] = ":\n\n";
    kn_compat_send(KN_HOLDER(t, kn_visit, timer), comment, sizeof comment - 1);
}

static void begin_stream(kn_visit *v) {
    static const char fields[] = "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
                                 "X-Content-Type-Options: nosniff\r\n";
    const kn_reply reply = { .status = 200, .type = "text/event-stream; charset=utf-8", .fields = fields };
    kn_exchange_stream(v->x, &reply, false);
    v->timer.fired = silence;
    kn_loop_timer_after(v->studio->loop, &v->timer, SILENCE_MS);
}

/* ---- the end ---- */

/* What a job that made no picture means for whoever waits. */
static bool deny_failure(kn_visit *v, const json_t *job, kn_error *err) {
    static const struct {
        kn_task_failure why;
        unsigned status;
    } rows[] = { { KN_TASK_MISSING_MODEL, 409 },
                 { KN_TASK_INPUT_INVALID, 422 },
                 { KN_TASK_ISOLATION_MISSING, 503 },
                 { KN_TASK_DISK_FULL, 507 },
                 { KN_TASK_STORAGE_READONLY, 507 } };
    const json_t *error = json_object_get(job, "error");
    const char *state = json_string_value(json_object_get(job, "state"));
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *message = json_string_value(json_object_get(error, "message"));
    if (state && !strcmp(state, "cancelled"))
        return kn_visit_deny(v, 409, "cancelled", "The picture was cancelled", NULL);
    kn_fail(err, KN_E_USAGE, "%s", message ? message : "");
    for (size_t i = 0; code && i < KN_COUNT(rows); i++)
        if (!strcmp(code, kn_task_failures[rows[i].why]))
            return kn_visit_deny(v, rows[i].status, kn_task_failures[rows[i].why], "The picture was not made", NULL);
    return kn_visit_deny(v, 500, "generation_failed", "The picture was not made", NULL);
}

static bool work_answer(kn_visit *v, kn_store *s, kn_error *err) {
    kn_compat_call *c = v->compat;
    if (!kn_visit_show_job(v, s, v->part[1], err))
        return false;
    const char *state = json_string_value(json_object_get(v->json, "state"));
    if (!state || strcmp(state, "completed") != 0)
        return deny_failure(v, v->json, err);
    return c->way->answer(v, s, v->json, &v->body, err);
}

/* A stream has begun and so has its answer: a failure is one more event. */
static bool try_answer(kn_visit *v, kn_store *s, kn_error *err) {
    (void)err;
    v->errand.err = (kn_error){ 0 };
    v->flag = !work_answer(v, s, &v->errand.err);
    return true;
}

static void after_stream(kn_visit *v) {
    kn_compat_call *c = v->compat;
    if (!v->x)
        return;
    c->finished = true;
    if (v->flag)
        c->way->failed(v);
    else
        kn_compat_send(v, v->body.data, v->body.len);
    kn_buf_free(&v->body);
}

static void after_answer(kn_visit *v) {
    static const char fields[] = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
    if (v->x)
        kn_exchange_reply(v->x, &(kn_reply){ .status = 200,
                                             .type = "application/json",
                                             .fields = fields,
                                             .body = v->body.data,
                                             .len = v->body.len });
    kn_buf_free(&v->body); /* which is copied; its client may take long to read it */
}

/* ---- waiting ---- */

static void stop_waiting(kn_visit *v) {
    kn_compat_call *c = v->compat;
    if (!c->waits)
        return;
    c->waits = false;
    v->give_up = NULL;
    kn_studio_unwatch(v->studio, &v->watch);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    v->api->compat_count--;
}

static void cancel_job(kn_visit *v) {
    kn_visit_send(v, kn_visit_cancel_job, kn_visit_tell_cancelled);
}

static void client_left(kn_visit *v) {
    stop_waiting(v);
    if (!v->compat->converting) /* else when that is back */
        cancel_job(v);
}

/* Whoever comes again orders anew, so nobody would fetch the picture. */
static bool work_leave(kn_visit *v, kn_store *s, kn_error *err) {
    kn_error why = { 0 };
    (void)err; /* its client is told the same */
    v->compat->cancelled = kn_visit_cancel_job(v, s, &why);
    return true;
}

static void after_leave(kn_visit *v) {
    if (v->compat->cancelled)
        kn_visit_tell_cancelled(v);
    if (!v->x)
        return;
    if (!v->compat->order.stream) {
        kn_visit_refuse(v, kn_stopping.status, kn_stopping.code, kn_stopping.title, NULL, NULL);
        return;
    }
    v->problem = kn_stopping;
    v->compat->finished = true;
    v->compat->way->failed(v);
}

static void finish(kn_visit *v) {
    if (v->compat->left)
        kn_visit_send(v, work_leave, after_leave);
    else if (v->compat->order.stream)
        kn_visit_send(v, try_answer, after_stream);
    else
        kn_visit_send(v, work_answer, after_answer);
}

/* One that cannot be had in the wanted format is left out: the picture itself comes soon. */
static void converted(void *ctx, const void *file, size_t len, const char *message) {
    (void)message;
    kn_visit *v = ctx;
    kn_compat_call *c = v->compat;
    c->converting = v->in_flight = false;
    if (!v->x) {
        cancel_job(v);
        return;
    }
    if (file)
        c->way->preview(v, file, len, c->previews++);
    if (c->ended)
        finish(v);
}

/* One of as many as were asked for, spread over the steps. */
static void show_preview(kn_visit *v) {
    const kn_studio_runner *r = &v->studio->runner;
    kn_compat_call *c = v->compat;
    size_t len = 0;
    if (!c->way->preview || c->previews >= c->order.partial_images || c->converting)
        return;
    const void *png = kn_queue_preview(v->studio->queue, v->part[1], &len);
    if (png && c->order.format == KN_PICTURE_PNG)
        c->way->preview(v, png, len, c->previews++);
    if (!png || c->order.format == KN_PICTURE_PNG)
        return;
    kn_buf_clear(&c->preview);
    c->converting = v->in_flight = true;
    if (!kn_buf_add(&c->preview, png, len) ||
        !r->convert(r->ctx, c->preview.data, len, c->order.format, (unsigned)KN_MAX(c->order.quality, (uint64_t)1),
                    converted, v))
        c->converting = v->in_flight = false;
}

static void end_waiting(kn_visit *v, bool left) {
    kn_compat_call *c = v->compat;
    stop_waiting(v);
    c->ended = true;
    c->left = left;
    if (!c->converting)
        finish(v);
}

static void event_came(kn_watch_events *w, const kn_event *event) {
    kn_visit *v = KN_HOLDER(w, kn_visit, watch);
    kn_compat_call *c = v->compat;
    bool mine = kn_event_topic(event->kind) == KN_TOPIC_JOBS && !strcmp(event->subject, v->part[1]);
    if (mine && event->kind == KN_EVENT_JOB_PREVIEW && c->order.stream)
        show_preview(v);
    if (mine ? kn_event_is_last_of_job(event->kind) : kn_queue_leaves(v->studio->queue, v->part[1]))
        end_waiting(v, !mine);
}

static void wait_for_job(kn_visit *v) {
    kn_compat_call *c = v->compat;
    kn_api *a = v->api;
    c->waits = true;
    c->next = a->compat_calls;
    c->at = &a->compat_calls;
    if (c->next)
        c->next->at = &c->next;
    a->compat_calls = c;
    a->compat_count++;
    v->give_up = client_left;
    v->watch.came = event_came;
    kn_studio_watch(v->studio, &v->watch);
    if (c->order.stream)
        begin_stream(v);
    if (kn_queue_leaves(v->studio->queue, v->part[1]))
        end_waiting(v, true);
}

/* ---- from an order to a job ---- */

static void free_pictures(kn_order *o) {
    for (size_t i = 0; i < o->picture_count; i++)
        kn_buf_free(&o->pictures[i].bytes);
}

/* A job has all that it needs: nothing of what it was made from is held while it waits, is drawn and is read. */
static void forget_request(kn_visit *v) {
    free_pictures(&v->compat->order);
    kn_buf_free(&v->body);
    kn_buf_init(&v->body, KN_COMPAT_ANSWER_MAX);
    if (!v->x)
        return;
    kn_buf body = kn_exchange_take_collected(v->x);
    kn_buf_free(&body);
    kn_compat_let_go(v->api, v->x);
}

/* In a request the mask is one of the inputs; whoever sent it calls it otherwise. */
static void point_at_mask(kn_visit *v) {
    const kn_order *o = &v->compat->order;
    for (size_t i = 0; v->pointer.len && i < o->picture_count; i++) {
        char where[64];
        snprintf(where, sizeof where, "/inputs/%zu/input_id", i);
        if (o->pictures[i].role != KN_INPUT_MASK || strcmp(v->pointer.data, where) != 0)
            continue;
        kn_buf_clear(&v->pointer);
        (void)!kn_buf_add_text(&v->pointer, "/mask"); /* an empty one is no fault */
    }
}

static bool create_job(kn_visit *v, kn_store *s, kn_error *err) {
    kn_compat_call *c = v->compat;
    bool enlarges = c->order.enlarging.wanted;
    if (enlarges && !kn_order_settle(v, s, &c->order, err))
        return false;
    char *request = kn_order_request(&c->order);
    bool ok = request ? kn_visit_create_job(v, s, request, strlen(request), enlarges, &c->order.wish, err)
                      : kn_fail_nomem(err, KN_REQUEST_BYTES);
    free(request);
    const char *id = json_string_value(json_object_get(v->json, "id"));
    c->created = ok && id;
    if (!ok)
        point_at_mask(v);
    if (c->created)
        snprintf(v->part[1], sizeof v->part[1], "%s", id);
    return ok;
}

static void after_create(kn_visit *v) {
    kn_compat_call *c = v->compat;
    forget_request(v);
    if (!c->created)
        return;
    kn_visit_tell_job(v);
    if (!c->way->answer)
        c->way->accepted(v);
    else if (v->x)
        wait_for_job(v);
    else
        cancel_job(v);
}

static bool work_accept(kn_visit *v, kn_store *s, kn_error *err) {
    kn_compat_call *c = v->compat;
    for (size_t i = 0; i < c->order.picture_count; i++) {
        kn_order_picture *p = &c->order.pictures[i];
        kn_input input;
        if (!p->known && !kn_inputs_accept(s, &p->id, &p->facts, &input, err))
            return false;
    }
    return c->abandoned || create_job(v, s, err);
}

/* The pictures that nobody looked at, and the one that cannot be used. */
static void drop_pictures(kn_visit *v, kn_store *s) {
    kn_compat_call *c = v->compat;
    for (size_t i = 0; i < c->order.picture_count; i++)
        if (!c->order.pictures[i].known)
            kn_inputs_refuse(s, &c->order.pictures[i].id);
    free_pictures(&c->order);
}

static bool work_refuse(kn_visit *v, kn_store *s, kn_error *err) {
    drop_pictures(v, s);
    kn_fail(err, KN_E_FORMAT, "%s", v->body.data);
    bool is_mask = v->compat->order.pictures[v->compat->looking].role == KN_INPUT_MASK;
    return kn_buf_add_text(&v->pointer, is_mask ? "/mask" : "/image") &&
           kn_visit_deny(v, 422, "input_invalid", "A picture cannot be used", NULL);
}

static bool work_turn_away(kn_visit *v, kn_store *s, kn_error *err) {
    drop_pictures(v, s);
    kn_fail(err, KN_E_FORMAT, "%s", v->body.data);
    return kn_visit_deny_unlocked(v);
}

static bool work_be_busy(kn_visit *v, kn_store *s, kn_error *err) {
    (void)err;
    drop_pictures(v, s);
    return kn_visit_deny(v, 503, "engine_busy", "The image worker cannot look at pictures now", NULL);
}

/* Who waits for an answer is not kept waiting for what only a person can end. */
static bool work_not_wait(kn_visit *v, kn_store *s, kn_error *err) {
    static const char *const titles[KN_WAITS] = {
        [KN_WAITS_FOR_RESUME] = "Admission is paused",
        [KN_WAITS_FOR_RECOVERY] = "Earlier work may still be running",
    };
    static const char *const details[KN_WAITS] = {
        [KN_WAITS_FOR_RESUME] = "the owner resumes it with POST /kuno/v1/admission/resume at the control address",
        [KN_WAITS_FOR_RECOVERY] = KN_STATE_RECOVERY,
    };
    kn_wait what = v->compat->stands_for;
    drop_pictures(v, s);
    kn_fail(err, KN_E_USAGE, "%s", details[what]);
    return kn_visit_deny(v, 503, kn_queue_waits[what].code, titles[what], NULL);
}

static void look_at_next(kn_visit *v);

static void looked(void *ctx, const kn_input_facts *facts, const void *png, size_t len, const char *message) {
    (void)png, (void)len;
    kn_visit *v = ctx;
    kn_compat_call *c = v->compat;
    v->in_flight = false;
    if (facts) {
        c->order.pictures[c->looking++].facts = *facts;
        look_at_next(v);
        return;
    }
    kn_buf_clear(&v->body);
    bool said = kn_buf_add_text(&v->body, message ? message : "");
    bool unlocked = kn_visit_is_unlocked(v);
    kn_visit_send(v, !said ? work_be_busy : unlocked ? work_turn_away : work_refuse, NULL);
}

static void look_at_next(kn_visit *v) {
    const kn_studio_runner *r = &v->studio->runner;
    kn_compat_call *c = v->compat;
    while (c->looking < c->order.picture_count && c->order.pictures[c->looking].known)
        c->looking++;
    c->abandoned = !v->x;
    if (c->looking == c->order.picture_count) {
        bool waits = !c->way->accepted;
        c->stands_for = waits && r->waits_for ? r->waits_for(r->ctx) : KN_WAITS_FOR_TURN;
        kn_visit_send(v, c->stands_for == KN_WAITS_FOR_TURN ? work_accept : work_not_wait,
                      c->stands_for == KN_WAITS_FOR_TURN ? after_create : NULL);
        return;
    }
    const kn_order_picture *p = &c->order.pictures[c->looking];
    v->in_flight = !c->abandoned && r->look(r->ctx, p->bytes.data, p->bytes.len, 0, looked, v);
    if (!v->in_flight)
        kn_visit_send(v, work_be_busy, NULL);
}

/* ---- reading ---- */

static bool receive_pictures(kn_order *o, kn_store *s, kn_error *err) {
    for (size_t i = 0; i < o->picture_count; i++) {
        kn_order_picture *p = &o->pictures[i];
        kn_input input;
        if (!kn_inputs_receive(s, p->bytes.data, p->bytes.len, &input, &p->known, err))
            return false;
        p->id = input.id;
        if (p->known)
            p->facts = input.facts;
    }
    return true;
}

static bool work_read(kn_visit *v, kn_store *s, kn_error *err) {
    kn_compat_call *c = v->compat;
    if (!c->way->is_form && !kn_visit_check_json(v))
        return false;
    if (!c->way->read(v, &c->order, err)) {
        if (!v->problem.status && err->code != KN_E_NOMEM)
            kn_visit_set_problem(v, 422, "member_invalid", "A member of the body is not as it should be", NULL);
        return false;
    }
    kn_buf_clear(&v->body);
    return receive_pictures(&c->order, s, err);
}

static bool may_wait(kn_visit *v) {
    if (v->api->compat_count < KN_COMPAT_CALLS)
        return true;
    kn_visit_refuse(v, 429, "queue_full", "Too many clients wait for pictures already", NULL, NULL);
    return false;
}

static void send_order(kn_visit *v) {
    if (kn_visit_refuse_unlocked(v))
        return;
    if (v->compat->way->measures)
        kn_visit_send_measured(v, work_read, look_at_next);
    else
        kn_visit_send(v, work_read, look_at_next);
}

void kn_compat_order(kn_visit *v, const kn_compat_way *way) {
    if (kn_visit_is_too_late(v) || (way->answer && !may_wait(v)))
        return;
    kn_compat_call *c = calloc(1, sizeof *c);
    if (!c) {
        kn_visit_refuse(v, 503, "out_of_memory", "Memory is short", NULL, NULL);
        return;
    }
    kn_order_init(&c->order);
    kn_buf_init(&c->out, KN_COMPAT_ANSWER_MAX);
    kn_buf_init(&c->preview, KN_COMPAT_ANSWER_MAX);
    c->way = way;
    c->visit = v;
    v->compat = c;
    snprintf(v->route, sizeof v->route, "compat");
    if (way->answer)
        kn_visit_waits(v);
    kn_visit_field(v, "Content-Type", c->type, sizeof c->type);
    kn_visit_prove(v, send_order);
}
