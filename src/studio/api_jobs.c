#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "studio/api_visit.h"
#include "studio/prepare.h"

enum { DISK_NEEDED = 64 << 20 };

/* ---- plan ---- */

static bool prepare(kn_visit *v, kn_store *s, const char *text, size_t len, bool upscale, const kn_plan_wish *wish,
                    kn_prepared *ret, kn_error *err) {
    if (kn_prepare(v->studio, s, text, len, upscale, wish, ret, &v->pointer, err))
        return true;
    if (v->pointer.len || err->code == KN_E_USAGE || err->code == KN_E_FORMAT || err->code == KN_E_RANGE)
        kn_visit_set_problem(v, 422, "member_invalid", "A member of the body is not as it should be", NULL);
    return false;
}

/* Where its pictures will lie. */
static bool has_room(const kn_store *s, const kn_prepared *p, kn_error *err) {
    return kn_store_takes(s, p->request.output.save_to_gallery ? "gallery" : "results", DISK_NEEDED, err);
}

static void block_storage(const kn_store *s, kn_prepared *p) {
    kn_error why = { 0 };
    if (has_room(s, p, &why))
        return;
    if (why.code == KN_E_READONLY)
        kn_plan_block(&p->plan, kn_task_failures[KN_TASK_STORAGE_READONLY], KN_STORE_READONLY);
    else
        kn_plan_block(&p->plan, kn_task_failures[KN_TASK_DISK_FULL], "Not enough disk space");
}

static bool work_plan(kn_visit *v, kn_store *s, kn_error *err) {
    kn_prepared p;
    if (!prepare(v, s, v->body.data, v->body.len, false, NULL, &p, err))
        return false;
    int64_t queued, running;
    if (!kn_jobs_count(s, &queued, &running, err)) {
        kn_prepared_free(&p);
        return false;
    }
    if (queued >= KN_JOBS_QUEUE_LIMIT)
        kn_plan_block(&p.plan, "queue_full", "The queue is full");
    if (v->flag)
        kn_plan_block(&p.plan, kn_task_failures[KN_TASK_ISOLATION_MISSING],
                      "The image worker cannot be locked in; the diagnostics say what is missing");
    block_storage(s, &p);
    v->json = kn_studio_plan_json(&p.plan);
    kn_prepared_free(&p);
    return v->json || kn_fail_nomem(err, KN_REQUEST_BYTES);
}

static void send_plan(kn_visit *v) {
    v->flag = kn_visit_is_unlocked(v);
    kn_visit_send(v, work_plan, NULL);
}

void kn_api_plan(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_json(v))
        kn_visit_prove(v, send_plan);
}

/* ---- new jobs ---- */

static const char gone_title[] = "The job existed and is gone";

bool kn_visit_show_job(kn_visit *v, kn_store *s, const char *id, kn_error *err) {
    bool gone = false;
    json_decref(v->json);
    v->json = NULL;
    if (kn_jobs_get(s, id, &v->json, &gone, err))
        return true;
    return gone ? kn_visit_deny(v, 410, "gone", gone_title, NULL) : false;
}

/* The first reason counts. */
static bool check_blocking(kn_visit *v, const kn_studio_plan *plan) {
    if (!plan->blocking_count)
        return true;
    const kn_note *why = &plan->blocking[0];
    return kn_visit_deny(v, strcmp(why->code, "missing_model") ? 422 : 409, why->code,
                         "The job cannot be done as things are", why->message);
}

static bool add_job(kn_visit *v, kn_store *s, const char *request, const kn_prepared *p, const kn_plan_wish *wish,
                    const kn_sha256 *body, kn_error *err) {
    json_t *plan = kn_studio_plan_json(&p->plan), *notes = kn_notes_json(p->plan.notes, p->plan.note_count);
    char *plan_text = plan ? json_dumps(plan, JSON_COMPACT) : NULL, *seeds = kn_prepared_seeds(p);
    char *notes_text = notes ? json_dumps(notes, JSON_COMPACT) : NULL,
         *wish_text = wish ? kn_plan_wish_text(wish) : NULL;
    const kn_new_job job = { .kind = p->plan.kind,
                             .request = request,
                             .plan = plan_text,
                             .units = p->plan.units,
                             .seeds = seeds,
                             .notes = notes_text,
                             .wish = wish_text,
                             .inputs = p->request.inputs,
                             .input_count = p->request.input_count,
                             .route = v->route,
                             .key = v->key[0] ? v->key : NULL,
                             .body = *body };
    kn_id id;
    bool ok = (plan_text && seeds && notes_text && !wish == !wish_text) || kn_fail_nomem(err, KN_REQUEST_BYTES);
    ok = ok && kn_jobs_add(s, &job, KN_JOBS_QUEUE_LIMIT, &id, err);
    if (!ok && err->code == KN_E_RANGE)
        kn_visit_set_problem(v, 429, "queue_full", "The queue is full", NULL);
    json_decref(plan);
    json_decref(notes);
    free(plan_text);
    free(notes_text);
    free(wish_text);
    free(seeds);
    if (!ok)
        return false;
    snprintf(v->fields, sizeof v->fields, "Location: /api/v1/jobs/%s\r\n", id.text);
    return kn_visit_show_job(v, s, id.text, err);
}

/* The answer to a key that was used before; of a job that was deleted meanwhile nothing is kept that could be told. */
static bool show_again(kn_visit *v, kn_store *s, const kn_id *known, kn_error *err) {
    if (kn_visit_show_job(v, s, known->text, err))
        return true;
    return err->code == KN_E_NOT_FOUND ? kn_visit_deny(v, 410, "gone", gone_title, NULL) : false;
}

bool kn_visit_create_job(kn_visit *v, kn_store *s, const char *request, size_t len, bool upscale,
                         const kn_plan_wish *wish, kn_error *err) {
    kn_sha256 body;
    kn_prepared p;
    kn_id known;
    v->status = 202;
    if (!kn_visit_hash(v, request, len, &body, err) || !kn_visit_find_replayed(v, s, &body, "jobs", &known, err))
        return false;
    if (known.text[0])
        return show_again(v, s, &known, err);
    if (!prepare(v, s, request, len, upscale, wish, &p, err))
        return false;
    bool ok = check_blocking(v, &p.plan) && has_room(s, &p, err) && add_job(v, s, request, &p, wish, &body, err);
    kn_prepared_free(&p);
    return ok;
}

void kn_visit_tell_job(kn_visit *v) {
    json_t *job = json_incref(v->json);
    const char *id = json_string_value(json_object_get(job, "id"));
    kn_studio_tell(v->studio, KN_EVENT_JOB_QUEUED, id ? id : "", job);
    kn_queue_look(v->studio->queue);
}

static void after_create(kn_visit *v) {
    if (!v->flag)
        kn_visit_tell_job(v);
    kn_queue_show_progress(v->studio->queue, v->json);
    kn_visit_answer(v);
}

static bool work_create_job(kn_visit *v, kn_store *s, kn_error *err) {
    return kn_visit_create_job(v, s, v->body.data, v->body.len, false, NULL, err);
}

static bool work_create_upscale(kn_visit *v, kn_store *s, kn_error *err) {
    return kn_visit_create_job(v, s, v->body.data, v->body.len, true, NULL, err);
}

static bool work_retry(kn_visit *v, kn_store *s, kn_error *err) {
    kn_job_order order;
    kn_plan_wish wish;
    bool gone = false;
    json_t *job = NULL;
    if (!kn_jobs_get(s, v->part[1], &job, &gone, err))
        return gone ? kn_visit_deny(v, 410, "gone", gone_title, NULL) : false;
    json_decref(job);
    if (!kn_jobs_order(s, v->part[1], &order, err))
        return false;
    bool ok = (!order.wish || kn_plan_wish_read(order.wish, &wish, err)) &&
              kn_visit_create_job(v, s, order.request, strlen(order.request), order.kind == KN_KIND_UPSCALE,
                                  order.wish ? &wish : NULL, err);
    free(order.request);
    free(order.wish);
    return ok;
}

/* By how much an upscaler enlarges may be the size that is meant. */
static void send_order(kn_visit *v) {
    if (kn_visit_refuse_unlocked(v))
        return;
    if (v->work == work_create_upscale)
        kn_visit_send_measured(v, v->work, after_create);
    else
        kn_visit_send(v, v->work, after_create);
}

static void take_order(kn_visit *v, bool (*work)(kn_visit *v, kn_store *s, kn_error *err)) {
    v->work = work;
    kn_visit_prove(v, send_order);
}

bool kn_visit_read_key(kn_visit *v, const char *route) {
    kn_span value;
    const kn_head *head = kn_exchange_head(v->x);
    snprintf(v->route, sizeof v->route, "%s", route);
    if (!kn_visit_has_field(v, "Idempotency-Key"))
        return true;
    bool good = kn_head_named(head, "Idempotency-Key", &value) && value.len && value.len <= KN_API_KEY_MAX;
    for (size_t i = 0; good && i < value.len; i++)
        good = value.data[i] > 0x20 && value.data[i] < 0x7F;
    if (good)
        memcpy(v->key, value.data, value.len);
    else
        kn_visit_refuse(v, 400, "idempotency_key_invalid", "The key is not 1 to 255 visible characters", NULL,
                        "header/Idempotency-Key");
    return good;
}

const kn_problem kn_stopping = { .status = 503, .code = "stopping", .title = "The service is about to end" };

bool kn_visit_is_too_late(kn_visit *v) {
    if (!kn_queue_is_stopping(v->studio->queue))
        return false;
    kn_visit_refuse(v, 503, kn_stopping.code, kn_stopping.title, NULL, NULL);
    return true;
}

void kn_api_create_job(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_read_key(v, "jobs") && kn_visit_has_json(v) && !kn_visit_is_too_late(v))
        take_order(v, work_create_job);
}

void kn_api_create_upscale(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_read_key(v, "upscale") && kn_visit_has_json(v) && !kn_visit_is_too_late(v))
        take_order(v, work_create_upscale);
}

void kn_api_retry_job(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    char route[KN_API_PART_BYTES + 8];
    if (!v || !kn_visit_has_id(v, 1, "job_"))
        return;
    snprintf(route, sizeof route, "retry/%s", v->part[1]);
    if (kn_visit_read_key(v, route) && !kn_visit_is_too_late(v))
        take_order(v, work_retry);
}

/* ---- lists and single ones ---- */

static bool read_states(kn_visit *v) {
    for (size_t i = 0; i < v->query.count; i++) {
        if (strcmp(v->query.at[i].name, "state") != 0)
            continue;
        int state = 0;
        while (state < KN_STATES && strcmp(kn_job_states[state], v->query.at[i].value) != 0)
            state++;
        if (state == KN_STATES) {
            kn_visit_refuse(v, 422, "parameter_invalid", "A parameter's value is not allowed", NULL, "query/state");
            return false;
        }
        v->topics |= 1u << state;
    }
    return true;
}

static bool read_kind(kn_visit *v) {
    const char *kind = kn_visit_parameter(v, "kind");
    v->at = KN_KIND_AUTO;
    if (!kind)
        return true;
    for (v->at = KN_KIND_TEXT_TO_IMAGE; v->at < KN_KIND_COUNT; v->at++)
        if (!strcmp(kn_studio_kinds[v->at], kind))
            return true;
    kn_visit_refuse(v, 422, "parameter_invalid", "A parameter's value is not allowed", NULL, "query/kind");
    return false;
}

static bool work_list_jobs(kn_visit *v, kn_store *s, kn_error *err) {
    const kn_jobs_filter f = {
        .states = v->topics, .kind = (kn_studio_kind)v->at, .limit = (unsigned)v->end, .before = (int64_t)v->number
    };
    int64_t next = 0;
    json_t *items = json_array();
    if (kn_jobs_list(s, &f, items, &next, err))
        return kn_visit_list(v, items, next, err);
    json_decref(items);
    return false;
}

static void after_list_jobs(kn_visit *v) {
    const json_t *items = json_object_get(v->json, "items");
    for (size_t i = 0; i < json_array_size(items); i++)
        kn_queue_show_progress(v->studio->queue, json_array_get(items, i));
    kn_visit_answer(v);
}

void kn_api_list_jobs(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "limit cursor state kind");
    if (!v || !kn_visit_page(v) || !read_states(v) || !read_kind(v))
        return;
    kn_visit_send(v, work_list_jobs, after_list_jobs);
}

static bool work_get_job(kn_visit *v, kn_store *s, kn_error *err) {
    return kn_visit_show_job(v, s, v->part[1], err);
}

static bool has_ended(const json_t *job) {
    const char *state = json_string_value(json_object_get(job, "state"));
    return state && strcmp(state, "queued") != 0 && strcmp(state, "running") != 0;
}

static void after_get_job(kn_visit *v);

static void look_again(kn_visit *v) {
    kn_studio_unwatch(v->studio, &v->watch);
    kn_loop_timer_stop(&v->timer);
    v->number = 0;
    if (v->x && !v->in_flight)
        kn_visit_send(v, work_get_job, after_get_job);
}

static void time_is_over(kn_timer *t) {
    look_again(KN_HOLDER(t, kn_visit, timer));
}

static void event_came(kn_watch_events *w, const kn_event *event) {
    kn_visit *v = KN_HOLDER(w, kn_visit, watch);
    bool ended = kn_event_is_last_of_job(event->kind) && !strcmp(event->subject, v->part[1]);
    if (ended || kn_queue_is_over(v->studio->queue))
        look_again(v);
}

static void after_get_job(kn_visit *v) {
    if (v->x && v->number && !has_ended(v->json) && !kn_queue_is_over(v->studio->queue)) {
        kn_visit_waits(v);
        v->watch.came = event_came;
        v->timer.fired = time_is_over;
        kn_studio_watch(v->studio, &v->watch);
        kn_loop_timer_after(v->studio->loop, &v->timer, v->number);
        return;
    }
    kn_queue_show_progress(v->studio->queue, v->json);
    kn_visit_answer(v);
}

void kn_api_get_job(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "wait_ms");
    if (v && kn_visit_has_id(v, 1, "job_") && kn_visit_number(v, "wait_ms", 0, 60000, 0, &v->number))
        kn_visit_send(v, work_get_job, after_get_job);
}

static bool work_delete_job(kn_visit *v, kn_store *s, kn_error *err) {
    v->status = 204;
    return kn_jobs_delete(s, v->part[1], err);
}

static void after_delete_job(kn_visit *v) {
    kn_studio_tell(v->studio, KN_EVENT_JOB_DELETED, v->part[1], json_pack("{s:s}", "id", v->part[1]));
    kn_visit_answer(v);
}

void kn_api_delete_job(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_id(v, 1, "job_"))
        kn_visit_send(v, work_delete_job, after_delete_job);
}

/* Whether this request ended it, so that it is told once. */
bool kn_visit_cancel_job(kn_visit *v, kn_store *s, kn_error *err) {
    kn_job_state before = KN_STATE_FAILED, now;
    if (!kn_visit_show_job(v, s, v->part[1], err))
        return false;
    before = has_ended(v->json) ? KN_STATE_FAILED : KN_STATE_QUEUED;
    if (!kn_jobs_cancel(s, v->part[1], &now, err))
        return false;
    v->flag = before == KN_STATE_QUEUED && now == KN_STATE_CANCELLED;
    v->status = now == KN_STATE_RUNNING ? 202 : 200;
    return kn_visit_show_job(v, s, v->part[1], err);
}

void kn_visit_tell_cancelled(kn_visit *v) {
    if (v->flag)
        kn_studio_tell(v->studio, KN_EVENT_JOB_CANCELLED, v->part[1], json_incref(v->json));
    if (v->status == 202)
        kn_queue_cancel(v->studio->queue, v->part[1]);
    kn_queue_show_progress(v->studio->queue, v->json);
}

static void after_cancel_job(kn_visit *v) {
    kn_visit_tell_cancelled(v);
    kn_visit_answer(v);
}

void kn_api_cancel_job(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_id(v, 1, "job_"))
        kn_visit_send(v, kn_visit_cancel_job, after_cancel_job);
}

/* ---- pictures of a job ---- */

static void after_preview(kn_visit *v) {
    size_t len = 0;
    const void *png = kn_queue_preview(v->studio->queue, v->part[1], &len);
    v->status = 204;
    if (!png) {
        kn_visit_answer(v);
        return;
    }
    snprintf(v->fields, sizeof v->fields, "ETag: \"%u\"\r\nAccept-Ranges: none\r\n",
             kn_queue_preview_number(v->studio->queue));
    kn_visit_send_bytes(v, "image/png", png, len);
}

void kn_api_job_preview(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (v && kn_visit_has_id(v, 1, "job_"))
        kn_visit_send(v, work_get_job, after_preview);
}

static bool work_result(kn_visit *v, kn_store *s, kn_error *err) {
    kn_id item;
    char *file;
    if (!kn_visit_show_job(v, s, v->part[1], err) ||
        !kn_jobs_find_result(s, v->part[1], (unsigned)v->number, &item, &file, &v->format, err))
        return false;
    uint64_t bytes = 0;
    const json_t *results = json_object_get(v->json, "results");
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *one = json_array_get(results, i);
        if (json_integer_value(json_object_get(one, "index")) != (json_int_t)v->number)
            continue;
        snprintf(v->id, sizeof v->id, "%s", json_string_value(json_object_get(one, "sha256")));
        bytes = (uint64_t)json_integer_value(json_object_get(one, "bytes"));
    }
    bool ok = kn_visit_open_picture(v, s, item.text[0] ? "gallery" : "results", file, bytes, err);
    free(file);
    return ok;
}

static void after_result(kn_visit *v) {
    kn_visit_send_file(v, kn_picture_media_types[v->format], v->id);
}

void kn_api_job_result(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "");
    if (!v || !kn_visit_has_id(v, 1, "job_"))
        return;
    char number[KN_API_PART_BYTES] = "";
    if (kn_route_part(kn_exchange_head(x), 5, number, sizeof number) && kn_parse_u64(number, &v->number) &&
        v->number < KN_REQUEST_BATCH)
        kn_visit_send(v, work_result, after_result);
    else
        kn_visit_refuse(v, 404, "not_found", "There is no such resource", NULL, NULL);
}
