#include "gateway/managed.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/refusal.h"
#include "gateway/visitor.h"

enum { FACTS_MAX = 64, FACTS_MS = 10 * 1000 };

struct kn_managed {
    kn_gateway *g;
    kn_crew *crew;
    kn_request *stops; /* for which workers are being stopped */
    size_t fact_count;
    struct {
        kn_digest digest;
        kn_model_facts facts;
    } facts[FACTS_MAX]; /* of models that were asked for, the last one first */
};

/* Nothing of the request is running anywhere. */
static void finish_unserved(kn_request *r) {
    r->stage = KN_STAGE_OVER;
    kn_request_finish(r, true);
}

static void refuse(kn_request *r, unsigned status) {
    if (r->x)
        kn_refuse_status(r->x, r->kind.dialect, status);
    finish_unserved(r);
}

/* ---- to the upstream ---- */

static void pass(kn_request *r) {
    r->stage = KN_STAGE_UPSTREAM;
    kn_exchange_set_more_fields(r->x, NULL); /* it has its own */
    kn_request_forward(r, r->g->upstream);
}

static void workers_have_stopped(void *ctx, bool certain) {
    kn_managed *m = ctx;
    kn_request *r = m->stops;
    m->stops = NULL;
    if (!certain) { /* something of ours may still have the memory that the upstream is about to use */
        kn_gateway_log(m->g, "recovery required: a worker cannot be ended");
        r->stage = KN_STAGE_OVER;
        if (r->x)
            kn_refuse_work(r->x, r->kind.dialect, KN_REFUSED_RECOVERY, 0);
        kn_request_finish(r, false);
    } else if (!r->x) {
        finish_unserved(r);
    } else {
        pass(r);
    }
}

static void upstream_has_answered(void *ctx, const kn_call_result *answer) {
    kn_request *r = ctx;
    kn_managed *m = r->g->managed;
    r->call = NULL;
    kn_presence_take(&r->g->presence, answer);
    if (answer->end != KN_CALL_ANSWERED) {
        refuse(r, 502);
        return;
    }
    r->stage = KN_STAGE_STOP;
    m->stops = r;
    kn_crew_stop(m->crew, NULL, workers_have_stopped, m);
}

/* Nothing is unloaded for an upstream that is not there. */
static void stop_workers_and_pass(kn_request *r) {
    r->stage = KN_STAGE_ASKS;
    if (!kn_call_start(r->g->upstream, &kn_presence_question, upstream_has_answered, r, &r->call, NULL))
        refuse(r, 502);
}

/* ---- to a worker ---- */

static void placed(kn_crew_job *j, kn_upstream *u) {
    kn_request *r = KN_HOLDER(j, kn_request, job);
    r->stage = KN_STAGE_WORKER;
    if (r->x)
        kn_request_forward(r, u);
    else
        kn_managed_ended(r, true);
}

static void refused(kn_crew_job *j, kn_job_refusal why) {
    kn_request *r = KN_HOLDER(j, kn_request, job);
    if (r->x)
        kn_refuse_place(r->x, r->kind.dialect, why);
    finish_unserved(r);
}

static void over(kn_crew_job *j, bool certain) {
    kn_request *r = KN_HOLDER(j, kn_request, job);
    if (!certain)
        kn_gateway_log(r->g, "recovery required: a worker cannot be ended");
    r->stage = KN_STAGE_OVER;
    kn_request_finish(r, certain);
}

static void place(kn_request *r, const kn_model_facts *f) {
    r->stage = KN_STAGE_PLACE;
    r->job.facts = *f;
    kn_crew_place(r->g->managed->crew, &r->job);
}

static void remember_facts(kn_managed *m, const kn_digest *digest, const kn_model_facts *f) {
    m->fact_count = KN_MIN(m->fact_count + 1, (size_t)FACTS_MAX);
    memmove(&m->facts[1], &m->facts[0], (m->fact_count - 1) * sizeof m->facts[0]);
    m->facts[0].digest = *digest;
    m->facts[0].facts = *f;
}

static void refuse_model(kn_request *r) {
    bool embeds = r->kind.load && strcmp(r->kind.load, "/api/embed") == 0;
    if (r->x)
        kn_refuse_model(r->x, r->kind.dialect, r->wish.model, embeds);
    finish_unserved(r);
}

/* What the upstream describes in a way that is not understood it must serve itself. */
static void facts_came(void *ctx, const kn_call_result *answer) {
    kn_request *r = ctx;
    kn_model_facts f;
    bool answered = answer->end == KN_CALL_ANSWERED;
    r->call = NULL;
    if (answered && answer->status == 200 && kn_model_facts_read(answer->body.data, answer->body.len, &f, NULL)) {
        remember_facts(r->g->managed, &r->job.digest, &f);
        place(r, &f);
    } else if (answered && answer->status == 404) { /* deleted since it was listed */
        refuse_model(r);
    } else if (answered || answer->end == KN_CALL_TOO_LARGE) {
        stop_workers_and_pass(r);
    } else {
        refuse(r, 502);
    }
}

static void ask_for_facts(kn_request *r) {
    json_t *body = json_pack("{s:s}", "model", r->wish.model);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    const kn_call_request request = {
        .method = "POST", .target = "/api/show", .json = text, .answer_limit = KN_FACTS_BYTES, .within_ms = FACTS_MS
    };
    r->stage = KN_STAGE_ASKS;
    bool ok = text && kn_call_start(r->g->upstream, &request, facts_came, r, &r->call, NULL);
    free(text);
    if (!ok)
        refuse(r, 502);
}

/* A description never changes without the digest. */
static void find_facts(kn_request *r) {
    const kn_managed *m = r->g->managed;
    for (size_t i = 0; i < m->fact_count; i++) {
        if (strcmp(m->facts[i].digest.text, r->job.digest.text) != 0)
            continue;
        const kn_model_facts f = m->facts[i].facts;
        place(r, &f);
        return;
    }
    ask_for_facts(r);
}

/* The upstream may have it. */
static void not_held(kn_crew_job *j) {
    kn_request *r = KN_HOLDER(j, kn_request, job);
    if (r->x)
        pass(r);
    else
        finish_unserved(r);
}

/* To have a model unloaded takes no place: it goes where the model is. */
static void pass_to_holder(kn_request *r) {
    r->stage = KN_STAGE_PLACE;
    kn_crew_place_at_holder(r->g->managed->crew, &r->job);
}

/* A model of the catalogue that is not elsewhere. */
static void serve_model(kn_request *r, const kn_model *model) {
    bool unloads = r->wish.at_once && !r->wish.has_input;
    if (r->wish.loads_otherwise) {
        kn_refuse_option(r->x, r->kind.dialect);
        finish_unserved(r);
        return;
    }
    r->job = (kn_crew_job){ .wish = &r->wish,
                            .digest = model->digest,
                            .bytes = model->bytes,
                            .preload = r->kind.load,
                            .placed = placed,
                            .refused = refused,
                            .not_held = not_held,
                            .over = over };
    if (unloads && strcmp(r->kind.load, "/api/embed") != 0)
        pass_to_holder(r);
    else
        find_facts(r);
}

/* What no model of the catalogue is called may still be the name of one to newer versions, or of none to any. */
static void serve_unlisted(kn_request *r) {
    if (kn_name_is_local(r->wish.model))
        stop_workers_and_pass(r);
    else if (!kn_name_is_well_formed(r->wish.model))
        pass(r);
    else
        refuse_model(r);
}

static void look_up(kn_request *r, bool again);

static void catalog_is_ready(kn_catalog_wait *w) {
    kn_request *r = KN_HOLDER(w, kn_request, catalog);
    const kn_meter *meter = r->g->meter;
    const kn_model *model = kn_catalog_find(kn_meter_last_catalog(meter), r->wish.model, strlen(r->wish.model));
    bool fresh = kn_meter_catalog_is_fresh(meter), is_cloud_name = kn_name_is_cloud(r->wish.model);
    bool placeable = r->clear && r->kind.load && !is_cloud_name;
    if (model ? model->remote : is_cloud_name)
        pass(r);
    else if (!fresh && !(model && placeable && kn_crew_has_verified(r->g->managed->crew, &model->digest)))
        refuse(r, 502);
    else if (!model && !r->looked_again)
        look_up(r, true);
    else if (!model)
        serve_unlisted(r);
    else if (placeable)
        serve_model(r, model);
    else
        stop_workers_and_pass(r);
}

/* What is not listed may have come since the list was read, without our knowledge. */
static void look_up(kn_request *r, bool again) {
    r->stage = KN_STAGE_CATALOG;
    r->looked_again = again;
    r->catalog.ready = catalog_is_ready;
    if (again)
        kn_meter_refresh_since(r->g->meter, kn_loop_now_ms(r->g->loop), &r->catalog);
    else
        kn_meter_refresh(r->g->meter, &r->catalog);
}

/* Where it is not certain that the body is understood as the upstream does, its model's name may still be plain. */
static kn_naming read_name(kn_request *r, kn_span body) {
    kn_observer o;
    kn_observer_begin(&o, r->kind.input);
    kn_observer_feed(&o, body.data, body.len);
    kn_naming naming = kn_observer_naming(&o);
    if (naming == KN_NAMING_MODEL)
        memcpy(r->wish.model, o.name, sizeof r->wish.model);
    explicit_bzero(&o, sizeof o);
    return naming;
}

bool kn_managed_begin(kn_request *r) {
    bool reads = r->kind.observed && !r->compressed;
    if (!reads)
        return true;
    r->stage = KN_STAGE_BODY;
    kn_exchange_collect(r->x, KN_MANAGED_BODY_MAX);
    return false;
}

bool kn_managed_collected(kn_request *r, kn_span body, bool complete) {
    r->stage = KN_STAGE_NONE;
    if (!complete) {
        kn_refuse_status(r->x, r->kind.dialect, 413);
        return false;
    }
    r->clear = kn_wish_read(body, r->kind.input, r->kind.native, &r->wish);
    r->naming = r->clear ? KN_NAMING_MODEL : read_name(r, body);
    return true;
}

static void serve(kn_request *r) {
    if (r->naming == KN_NAMING_MODEL)
        look_up(r, false);
    else
        stop_workers_and_pass(r);
}

/* Before it is judged nothing is loaded for it, and no worker ended. What goes to the upstream without touching a
 * worker it judges itself. */
void kn_managed_serve(kn_request *r) {
    if (r->kind.class == KN_ROUTE_CATALOG || r->naming == KN_NAMING_NOTHING) {
        pass(r);
    } else {
        r->stage = KN_STAGE_ASKS;
        kn_visitor_judge(r, serve, finish_unserved);
    }
}

void kn_managed_left(kn_request *r) {
    if (r->stage == KN_STAGE_CATALOG)
        kn_meter_forget(r->g->meter, &r->catalog);
    else if (r->stage == KN_STAGE_ASKS)
        kn_call_cancel(r->call);
    else
        return; /* goes on to its end by itself */
    finish_unserved(r);
}

void kn_managed_ended(kn_request *r, bool certain) {
    r->stage = KN_STAGE_OVER;
    kn_crew_finish(r->g->managed->crew, &r->job, certain);
}

/* ---- */

static void log_line(void *ctx, const char *line) {
    kn_gateway_log(ctx, "%s", line);
}

bool kn_managed_new(kn_gateway *g, const kn_upstream_limits *limits, kn_managed **ret, kn_error *err) {
    kn_managed *m = calloc(1, sizeof *m);
    if (!m)
        return kn_fail_nomem(err, sizeof *m);
    m->g = g;
    const kn_crew_setup setup = { .config = g->config,
                                  .http = g->http,
                                  .limits = limits,
                                  .state = g->state,
                                  .disk = g->disk,
                                  .scanner = kn_watcher_scanner(g->watcher),
                                  .log = log_line,
                                  .ctx = g };
    if (!kn_crew_new(&setup, &m->crew, err)) {
        free(m);
        return false;
    }
    *ret = m;
    return true;
}

void kn_managed_end(kn_managed *m) {
    if (!m)
        return;
    kn_crew_end(m->crew);
    if (m->stops)
        finish_unserved(m->stops);
    m->stops = NULL;
}

void kn_managed_free(kn_managed *m) {
    if (!m)
        return;
    kn_crew_free(m->crew);
    free(m);
}

kn_crew *kn_managed_crew(kn_managed *m) {
    return m->crew;
}
