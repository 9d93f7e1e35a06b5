#include "gateway/loaded.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "gateway/managed.h"
#include "gateway/refusal.h"
#include "gateway/residency.h"

enum { ANSWER_MS = 5000, ANSWERS_BYTES = 4 << 20 };

typedef struct source {
    kn_loaded *loaded;
    kn_call *call; /* NULL: it has answered, or was not asked */
    kn_buf models;
} source;

struct kn_loaded {
    kn_request *request;
    size_t count, out, answered;
    source sources[KN_WORKERS_MAX + 1]; /* the workers, then the upstream */
};

bool kn_loaded_is_asked(const kn_head *head) {
    return kn_span_is(head->method, "GET") && kn_span_is(kn_head_path(head), "/api/ps");
}

static bool add_models(kn_json_reader *j, kn_buf *models) {
    kn_json_text one;
    bool ok = kn_json_array(j);
    while (ok && kn_json_item(j))
        ok = kn_json_peek(j) == '{' && kn_json_skip(j, &one) && (!models->len || kn_buf_add_text(models, ",")) &&
             kn_buf_add(models, one.data, one.len);
    return ok;
}

bool kn_loaded_add(kn_buf *models, const char *json, size_t len) {
    kn_error err = { 0 };
    kn_json_reader j;
    kn_json_text key;
    bool ok = true;
    kn_json_begin_inside(&j, (kn_json_text){ json, len }, "the list of loaded models", &err);
    kn_json_object(&j);
    while (ok && !j.failed && kn_json_key(&j, &key)) {
        if (kn_json_is(key, "models") && kn_json_peek(&j) == '[')
            ok = add_models(&j, models);
        else
            kn_json_skip(&j, NULL);
    }
    ok = ok && kn_json_finish(&j);
    kn_json_close(&j);
    return ok;
}

static bool put_together(const kn_loaded *l, kn_buf *answer) {
    bool ok = kn_buf_add_text(answer, "{\"models\":["), first = true;
    for (size_t i = 0; ok && i < l->count; i++) {
        const kn_buf *models = &l->sources[i].models;
        if (!models->len)
            continue;
        ok = (first || kn_buf_add_text(answer, ",")) && kn_buf_add(answer, models->data, models->len);
        first = false;
    }
    return ok && kn_buf_add_text(answer, "]}");
}

static void answer(kn_loaded *l) {
    kn_request *r = l->request;
    KN_AUTO_BUF text;
    kn_buf_init(&text, ANSWERS_BYTES);
    if (!l->answered)
        kn_refuse_status(r->x, r->kind.dialect, 502);
    else if (put_together(l, &text))
        kn_exchange_reply(
            r->x, &(kn_reply){
                      .status = 200, .type = "application/json; charset=utf-8", .body = text.data, .len = text.len });
    else
        kn_refuse_status(r->x, r->kind.dialect, 503);
}

static void list_came(void *ctx, const kn_call_result *result) {
    source *s = ctx;
    s->call = NULL;
    s->loaded->out--;
    if (result->end == KN_CALL_ANSWERED && result->status == 200 &&
        kn_loaded_add(&s->models, result->body.data, result->body.len))
        s->loaded->answered++;
    else
        kn_buf_clear(&s->models);
    if (!s->loaded->out)
        answer(s->loaded);
}

static void ask(kn_loaded *l, kn_upstream *u) {
    const kn_call_request request = {
        .method = "GET", .target = "/api/ps", .answer_limit = KN_RESIDENTS_BYTES, .within_ms = ANSWER_MS
    };
    source *s = &l->sources[l->count++];
    s->loaded = l;
    kn_buf_init(&s->models, KN_RESIDENTS_BYTES);
    if (u && kn_call_start(u, &request, list_came, s, &s->call, NULL))
        l->out++;
}

void kn_loaded_answer(kn_request *r) {
    kn_crew *crew = kn_managed_crew(r->g->managed);
    kn_loaded *l = r->loaded = calloc(1, sizeof *l);
    if (!l) {
        kn_refuse_status(r->x, r->kind.dialect, 503);
        return;
    }
    l->request = r;
    for (size_t i = 0; i < kn_crew_count(crew); i++)
        ask(l, kn_crew_upstream(crew, i));
    ask(l, r->g->upstream);
    if (!l->out)
        answer(l);
}

void kn_loaded_give_up(kn_request *r) {
    kn_loaded *l = r->loaded;
    for (size_t i = 0; i < l->count; i++) {
        if (l->sources[i].call)
            kn_call_cancel(l->sources[i].call);
        kn_buf_free(&l->sources[i].models);
    }
    free(l);
    free(r);
}
