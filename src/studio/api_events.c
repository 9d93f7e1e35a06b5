/* Streams of events, one for each client that watches. A stream holds a place in the list of events and nothing else:
 * what its client has not taken yet is still there, or it is told to look again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "studio/api_visit.h"

enum { SILENCE_MS = 15 * 1000, AT_ONCE_BYTES = 256 << 10, EVENT_BYTES = 4 << 20 };

static void leave(kn_visit *v) {
    if (!v->at_stream)
        return;
    *v->at_stream = v->next_stream;
    if (v->next_stream)
        v->next_stream->at_stream = v->at_stream;
    v->at_stream = NULL;
    v->api->stream_count--;
}

static void enter(kn_visit *v) {
    kn_api *a = v->api;
    v->next_stream = a->streams;
    v->at_stream = &a->streams;
    if (a->streams)
        a->streams->at_stream = &v->next_stream;
    a->streams = v;
    a->stream_count++;
    v->give_up = leave;
}

static void send_text(kn_visit *v, const kn_buf *text) {
    kn_exchange_send(v->x, text->data, text->len);
    kn_loop_timer_after(v->studio->loop, &v->timer, SILENCE_MS);
}

static bool is_wanted(const kn_visit *v, const kn_event *e) {
    return v->id[0] ? kn_event_topic(e->kind) == KN_TOPIC_JOBS && !strcmp(e->subject, v->id)
                    : v->topics & kn_event_topic(e->kind);
}

/* That events are missing before the one that comes next. */
static bool write_reset(const kn_visit *v, kn_resume why, kn_buf *into) {
    static const char *const reasons[] = {
        [KN_RESUME_TOO_OLD] = "too_old", [KN_RESUME_RESTARTED] = "restarted", [KN_RESUME_UNKNOWN] = "unknown_id"
    };
    kn_event_id id = kn_event_id_of(v->studio->events, v->number);
    return kn_buf_printf(into, "id: %s\nevent: stream.reset\ndata: {\"reason\":\"%s\",\"event_id\":\"%s\"}\n\n",
                         id.text, reasons[why], id.text);
}

/* Its client took so long that what comes next is not here any more. A job's own stream ends with that, since the job
 * may have; whoever comes back to it gets its end. */
static void catch_up(kn_visit *v) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, EVENT_BYTES);
    v->number = kn_events_last(v->studio->events);
    if (!write_reset(v, KN_RESUME_TOO_OLD, &text)) {
        kn_exchange_break(v->x);
        return;
    }
    send_text(v, &text);
    if (v->id[0])
        kn_exchange_send_end(v->x);
}

void kn_events_pump(kn_visit *v) {
    KN_AUTO_BUF text;
    bool last = false;
    kn_buf_init(&text, EVENT_BYTES);
    if (!v->x || !kn_exchange_is_drained(v->x))
        return;
    if (kn_events_has_lost(v->studio->events, v->number)) {
        catch_up(v);
        return;
    }
    while (!last && text.len < AT_ONCE_BYTES) {
        const kn_event *e = kn_events_after(v->studio->events, v->number);
        if (!e)
            break;
        size_t before = text.len;
        bool wanted = is_wanted(v, e);
        if (wanted && !kn_event_write(v->studio->events, e, &text)) {
            text.len = before;
            break;
        }
        v->number = e->seq;
        last = wanted && v->id[0] && kn_event_is_last_of_job(e->kind);
    }
    if (text.len)
        send_text(v, &text);
    if (last)
        kn_exchange_send_end(v->x);
}

static void event_came(kn_watch_events *w, const kn_event *event) {
    (void)event;
    kn_events_pump(KN_HOLDER(w, kn_visit, watch));
}

static void silence(kn_timer *t) {
    static const char comment[] = ":\n\n";
    kn_visit *v = KN_HOLDER(t, kn_visit, timer);
    if (v->x && kn_exchange_is_drained(v->x))
        kn_exchange_send(v->x, comment, sizeof comment - 1);
    kn_loop_timer_after(v->studio->loop, &v->timer, SILENCE_MS);
}

/* ---- the beginning ---- */

static bool accepts_events(kn_visit *v) {
    char accept[500];
    return !kn_visit_field(v, "Accept", accept, sizeof accept) || strstr(accept, "text/event-stream") ||
           strstr(accept, "text/*") || strstr(accept, "*/*");
}

/* Where to go on: the header wins over the parameter. *ret_given: there is such an id. */
static bool read_last_id(kn_visit *v, char id[KN_EVENT_ID_BYTES], bool *ret_given) {
    const char *parameter = kn_visit_parameter(v, "last_event_id");
    bool in_head = kn_visit_has_field(v, "Last-Event-ID");
    const char *where = in_head ? "header/Last-Event-ID" : "query/last_event_id";
    *ret_given = in_head || parameter;
    if (in_head && !kn_visit_field(v, "Last-Event-ID", id, KN_EVENT_ID_BYTES))
        id[0] = 0; /* none of ours has that many bytes, and there is one at most */
    else if (!in_head && parameter)
        snprintf(id, KN_EVENT_ID_BYTES, "%s", parameter);
    if (!*ret_given || kn_event_id_is_valid(id, strlen(id)))
        return true;
    kn_visit_refuse(v, 400, "event_id_invalid", "This is not the id of an event", NULL, where);
    return false;
}

static bool may_watch(kn_visit *v) {
    if (!accepts_events(v)) {
        kn_visit_refuse(v, 406, "not_acceptable", "Events are sent as text/event-stream", NULL, "header/Accept");
        return false;
    }
    if (v->api->stream_count < KN_API_STREAMS)
        return true;
    kn_visit_refuse(v, 429, "too_many_streams", "Too many clients watch already", NULL, NULL);
    return false;
}

static const char head_lines[] = "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
                                 "X-Content-Type-Options: nosniff\r\n";

/* How far the job is, for who has just begun to watch it: while it waits, that may be all that there is to hear. */
static bool write_progress(const kn_visit *v, kn_buf *into) {
    json_t *now = json_pack("{s:s, s:s}", "id", v->id, "state", "running");
    kn_queue_show_progress(v->studio->queue, now);
    json_t *progress = json_object_get(now, "progress");
    json_t *told = progress ? json_pack("{s:s, s:O}", "job_id", v->id, "progress", progress) : NULL;
    kn_event e = { .seq = v->number, .kind = KN_EVENT_JOB_PROGRESS };
    e.data = told ? json_dumps(told, JSON_COMPACT) : NULL;
    bool ok = !e.data || kn_event_write(v->studio->events, &e, into);
    free(e.data);
    json_decref(told);
    json_decref(now);
    return ok;
}

/* Sends what comes first: the pause before a client tries again, and that it has missed something. */
static void begin_stream(kn_visit *v, const char *last_id, bool given) {
    kn_events *events = v->studio->events;
    KN_AUTO_BUF text;
    kn_resume resume = KN_RESUME_GOOD;
    kn_visit_waits(v);
    kn_exchange_stream(v->x, &(kn_reply){ .status = 200, .type = "text/event-stream", .fields = head_lines }, false);
    v->number = kn_events_last(events);
    if (given)
        resume = kn_events_resume(events, last_id, strlen(last_id), &v->number);
    kn_buf_init(&text, EVENT_BYTES);
    if (!kn_buf_add_text(&text, "retry: 2000\n\n") || (resume != KN_RESUME_GOOD && !write_reset(v, resume, &text)) ||
        (v->id[0] && !given && !write_progress(v, &text))) {
        kn_exchange_break(v->x);
        return;
    }
    v->timer.fired = silence;
    send_text(v, &text);
    v->watch.came = event_came;
    kn_studio_watch(v->studio, &v->watch);
    enter(v);
}

void kn_api_events(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "last_event_id topics");
    char last_id[KN_EVENT_ID_BYTES] = "";
    bool given;
    if (!v || !may_watch(v) || !read_last_id(v, last_id, &given))
        return;
    const char *topics = kn_visit_parameter(v, "topics");
    v->topics = KN_TOPIC_ALL;
    if (topics && !kn_topics_parse(topics, strlen(topics), &v->topics))
        kn_visit_refuse(v, 400, "topic_unknown", "There is no such topic", NULL, "query/topics");
    else
        begin_stream(v, last_id, given);
}

/* ---- of one job ---- */

static bool work_job_events(kn_visit *v, kn_store *s, kn_error *err) {
    return kn_jobs_get(s, v->part[1], &v->json, NULL, err);
}

/* Its last event is made again from what it is now. */
static void send_last_event(kn_visit *v, const char *state) {
    KN_AUTO_BUF text;
    char *json = json_dumps(v->json, JSON_COMPACT);
    kn_buf_init(&text, EVENT_BYTES);
    kn_events *events = v->studio->events;
    kn_event_id id = kn_event_id_of(events, kn_events_last(events));
    kn_exchange_stream(v->x, &(kn_reply){ .status = 200, .type = "text/event-stream", .fields = head_lines }, false);
    if (json && kn_buf_printf(&text, "retry: 2000\n\nid: %s\nevent: job.%s\ndata: ", id.text, state) &&
        kn_buf_add_text(&text, json) && kn_buf_add_text(&text, "\n\n"))
        kn_exchange_send(v->x, text.data, text.len);
    kn_exchange_send_end(v->x);
    free(json);
}

static void after_job_events(kn_visit *v) {
    if (!v->x)
        return;
    char last_id[KN_EVENT_ID_BYTES] = "";
    bool given;
    const char *state = json_string_value(json_object_get(v->json, "state"));
    if (!state || !read_last_id(v, last_id, &given))
        return;
    if (strcmp(state, "queued") != 0 && strcmp(state, "running") != 0)
        send_last_event(v, state);
    else
        begin_stream(v, last_id, given);
}

void kn_api_job_events(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, "last_event_id");
    char last_id[KN_EVENT_ID_BYTES] = "";
    bool given;
    if (!v || !kn_visit_has_id(v, 1, "job_") || !may_watch(v) || !read_last_id(v, last_id, &given))
        return;
    snprintf(v->id, sizeof v->id, "%.*s", (int)sizeof v->id - 1, v->part[1]);
    kn_visit_send(v, work_job_events, after_job_events);
}

void kn_api_end_streams(kn_api *a) {
    for (kn_visit *v = a->streams, *next; v; v = next) {
        next = v->next_stream;
        if (v->x)
            kn_exchange_send_end(v->x);
    }
}
