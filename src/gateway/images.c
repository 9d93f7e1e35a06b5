#include "gateway/images.h"

#include <inttypes.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_reader.h"
#include "gateway/easel.h"
#include "http/reply.h"
#include "http/router.h"
#include "pipelines/profile.h"
#include "workers/workflows.h"

enum {
    BODIES_MAX = 2, /* in memory at a time */
    ID_LEN = 64,
    GRID = 16,
    POINTER_BYTES = 200,
    RETRY_SOON_S = 5,
    RETRY_LATE_S = 60,
};
#define ID_HEADER "X-Kuno-Image-Preview-Id"

/* A picture that is asked for, until its client has been answered and what draws it is gone. */
typedef struct picture {
    kn_images *images;
    kn_exchange *x; /* NULL: its client has left */
    kn_turn turn;
    bool draws;
    kn_buf recipe; /* while it has a place for its body */
    bool has_place;
    char seed[24];
    char id[ID_LEN + 1];     /* of its previews; empty: there are none */
    kn_frame_preview latest; /* steps 0: there is none yet; png points into … */
    kn_buf png;
    struct picture *next;
} picture;

struct kn_images {
    kn_gateway *g;
    kn_painter_needs needs; /* of the worker */
    char models[PATH_MAX];
    unsigned served;    /* bit n: some profile can draw kn_workflows[n] … */
    kn_edition edition; /* … of this models.toml */
    unsigned bodies;
    picture *pictures;
};

static kn_images *images_of(const kn_exchange *x) {
    const kn_gateway *g = kn_exchange_listener(x);
    return g->images;
}

/* ---- refusals ---- */

static void refuse(const picture *p, const kn_problem *problem) {
    if (p->x)
        kn_reply_problem(p->x, problem);
}

static void refuse_turn(const picture *p, kn_refusal why) {
    static const kn_problem rows[KN_REFUSED_COUNT] = {
        [KN_REFUSED_PAUSED] = { .status = 503,
                                .code = "admission_paused",
                                .title = "Admission is paused",
                                .retry_after_s = RETRY_SOON_S },
        [KN_REFUSED_STOPPING] = { .status = 503,
                                  .code = "stopping",
                                  .title = "The server is stopping",
                                  .retry_after_s = RETRY_SOON_S },
        [KN_REFUSED_RECOVERY] = { .status = 503,
                                  .code = "recovery_required",
                                  .title = "Recovery is required",
                                  .detail = "Earlier work may still be running; a person has to look",
                                  .retry_after_s = RETRY_LATE_S },
        [KN_REFUSED_QUEUE_FULL] = { .status = 429,
                                    .code = "queue_full",
                                    .title = "The queue is full",
                                    .retry_after_s = RETRY_SOON_S },
        [KN_REFUSED_QUEUE_TIMEOUT] = { .status = 503,
                                       .code = "queue_timeout",
                                       .title = "The request has waited too long for its turn",
                                       .retry_after_s = RETRY_SOON_S },
        [KN_REFUSED_STATE] = { .status = 503,
                               .code = "state_unwritable",
                               .title = "The state directory cannot be written",
                               .retry_after_s = RETRY_LATE_S },
    };
    kn_problem problem = rows[why];
    if (why == KN_REFUSED_QUEUE_FULL && !p->images->g->config->queue_limit)
        problem.detail = "Another request is at work, and none may wait for it (queue_limit)";
    refuse(p, &problem);
}

/* What a job's end means for its client. Words of the worker are for people at this machine: they stay here. */
static const kn_problem failures[KN_JOB_CODES] = {
    [KN_JOB_INVALID] = { .status = 422,
                         .code = "image_request_invalid",
                         .title = "The recipe asks for what cannot be" },
    [KN_JOB_REFERENCE_INVALID] = { .status = 422,
                                   .code = "image_reference_invalid",
                                   .title = "A reference cannot be read or used",
                                   .detail = "A PNG, JPEG or WebP file of at most 16 MiB in plain base64 is expected" },
    [KN_JOB_REFERENCE_REQUIRED] = { .status = 422,
                                    .code = "image_reference_required",
                                    .title = "This workflow edits pictures; give at least one",
                                    .pointer = "/reference_images" },
    [KN_JOB_ATTENTION_UNSUPPORTED] = { .status = 422,
                                       .code = "image_attention_unsupported",
                                       .title = "There is no fast attention on this device",
                                       .pointer = "/attention" },
    [KN_JOB_MODEL_MISSING] = { .status = 409,
                               .code = "image_model_missing",
                               .title = "There is no model for this workflow",
                               .detail = "A profile of models.toml has to name its files" },
    [KN_JOB_MODEL_MISMATCH] = { .status = 409,
                                .code = "image_model_mismatch",
                                .title = "The model's files are not what this workflow needs" },
    [KN_JOB_OUT_OF_MEMORY] = { .status = 503,
                               .code = "image_out_of_memory",
                               .title = "Memory is short for this picture",
                               .detail = "A smaller picture may fit",
                               .retry_after_s = RETRY_LATE_S },
    [KN_JOB_CANCELLED] = { .status = 503,
                           .code = "stopping",
                           .title = "The server is stopping",
                           .retry_after_s = RETRY_SOON_S },
    [KN_JOB_DEADLINE] = { .status = 504,
                          .code = "image_deadline",
                          .title = "The picture took longer than timeout_seconds" },
    [KN_JOB_ISOLATION_MISSING] = { .status = 503,
                                   .code = "image_isolation_missing",
                                   .title = "The image worker cannot be locked in",
                                   .retry_after_s = RETRY_LATE_S },
    [KN_JOB_FAILED] = { .status = 502, .code = "image_worker_failed", .title = "The image worker has failed" },
};

/* A model's own limits are known to the worker, whose words about one setting begin with that (pipelines/settings.h).
 * Others may hold what was asked for, or name files. */
static void refuse_settings(const picture *p, const char *sentence) {
    static const struct {
        const char *start, *pointer;
    } rows[] = {
        { "steps ", "/steps" },
        { "cfg ", "/cfg" },
        { "width ", "/width" },
        { "height ", "/height" },
        { "flow shift ", "/flow_shift" },
        { "prompt: ", "/prompt" },
        { "negative prompt: ", "/negative_prompt" },
        { "reference ", "/reference_images" },
    };
    kn_problem problem = failures[KN_JOB_INVALID];
    problem.pointer = "";
    problem.detail = "The model does not take these settings together";
    for (size_t i = 0; i < KN_COUNT(rows); i++) {
        if (strncmp(sentence, rows[i].start, strlen(rows[i].start)) != 0)
            continue;
        problem.pointer = rows[i].pointer;
        problem.detail = sentence;
    }
    refuse(p, &problem);
}

/* ---- what a picture has ---- */

static void give_up_place(picture *p) {
    if (p->has_place)
        p->images->bodies--;
    p->has_place = false;
    kn_buf_free(&p->recipe);
}

static void forget_preview(picture *p) {
    p->id[0] = 0;
    p->latest = (kn_frame_preview){ 0 };
    kn_buf_free(&p->png);
}

/* It will not be drawn any more; while there is somebody to be answered, it stays. */
static void end_picture(picture *p) {
    give_up_place(p);
    forget_preview(p);
    if (p->x)
        return;
    picture **at = &p->images->pictures;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free(p);
}

static picture *find_picture(const kn_images *m, const char *id) {
    picture *p = m->pictures;
    while (p && strcmp(p->id, id) != 0)
        p = p->next;
    return p;
}

/* ---- drawing ---- */

static void drawn(void *ctx, const kn_image_result *r) {
    picture *p = ctx;
    kn_gateway *g = p->images->g;
    char fields[160];
    if (r->code == KN_JOB_DONE && p->x) {
        snprintf(fields, sizeof fields,
                 "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Kuno-Seed: %s\r\n", p->seed);
        kn_exchange_reply(
            p->x, &(kn_reply){ .status = 200, .type = "image/png", .fields = fields, .body = r->file, .len = r->len });
    } else if (r->code == KN_JOB_INVALID) {
        refuse_settings(p, r->sentence);
    } else if (r->code != KN_JOB_DONE) {
        kn_problem problem = failures[r->code];
        if (r->code == KN_JOB_ISOLATION_MISSING && r->sentence[0])
            problem.detail = r->sentence; /* what the machine lacks, and what can be done */
        refuse(p, &problem);
    }
    if (r->code != KN_JOB_DONE && r->code != KN_JOB_CANCELLED)
        kn_gateway_log(g, "a picture was not drawn: %s", kn_job_codes[r->code].word);
    if (r->forced)
        kn_gateway_log(g, "recovery required: an image worker did not stop and was killed");
    p->draws = false;
    kn_easel_finish(&p->turn, !r->forced);
    end_picture(p);
}

/* One that cannot be kept is left out: the next one comes soon. */
static void preview_came(void *ctx, const kn_frame_preview *preview) {
    picture *p = ctx;
    kn_buf_free(&p->png);
    kn_buf_init(&p->png, KN_PREVIEW_BYTES);
    p->latest = (kn_frame_preview){ 0 };
    if (!kn_buf_add(&p->png, preview->png, preview->png_len))
        return;
    p->latest = *preview;
    p->latest.png = (const uint8_t *)p->png.data;
}

static void ready(kn_turn *t) {
    picture *p = KN_HOLDER(t, picture, turn);
    const kn_image_listener listener = { .preview = preview_came, .done = drawn, .ctx = p };
    p->draws = p->x && kn_painter_draw(p->images->g->painter, &p->images->needs, &p->recipe, p->id[0], &listener, NULL);
    if (p->draws)
        return;
    refuse(p, &failures[KN_JOB_FAILED]);
    kn_easel_finish(t, true);
    end_picture(p);
}

static void refused(kn_turn *t, kn_refusal why) {
    picture *p = KN_HOLDER(t, picture, turn);
    refuse_turn(p, why);
    end_picture(p);
}

/* ---- POST generate ---- */

static bool is_id(const char *text, size_t len) {
    return len == ID_LEN && strspn(text, "0123456789abcdef") >= len;
}

/* False: it has been answered. */
static bool read_id(picture *p, const kn_head *head) {
    kn_span id;
    if (!kn_head_named(head, ID_HEADER, &id))
        return true;
    if (!is_id(id.data, id.len)) {
        refuse(p, &(kn_problem){ .status = 400,
                                 .code = "header_invalid",
                                 .title = "A header's value is not allowed",
                                 .detail = "64 random digits of 0-9 and a-f are expected",
                                 .pointer = "header/" ID_HEADER });
        return false;
    }
    memcpy(p->id, id.data, id.len);
    return true;
}

static bool is_configured(const kn_images *m, const kn_workflow *w) {
    return m->g->config->image.workflows >> (w - kn_workflows) & 1;
}

/* The recipe as far as it can be judged without the model. False: it has been answered. */
static bool check_recipe(picture *p) {
    kn_image_recipe recipe;
    kn_error err = { 0 };
    KN_AUTO_BUF pointer;
    kn_buf_init(&pointer, POINTER_BYTES);
    kn_job_code code = kn_image_recipe_check(p->recipe.data, p->recipe.len, &recipe, &pointer, &err);
    if (code == KN_JOB_INVALID && !kn_json_check((kn_json_text){ p->recipe.data, p->recipe.len }, NULL)) {
        refuse(p, &(kn_problem){ .status = 400, .code = "json_invalid", .title = "The body is not JSON" });
        return false;
    }
    if (code == KN_JOB_DONE) {
        snprintf(p->seed, sizeof p->seed, "%" PRIu64, recipe.seed);
        code = is_configured(p->images, recipe.workflow) ? KN_JOB_DONE : KN_JOB_MODEL_MISSING;
        kn_image_recipe_free(&recipe);
        if (code != KN_JOB_DONE)
            refuse(p, &failures[code]);
    } else if (code == KN_JOB_OUT_OF_MEMORY) {
        refuse(p, &failures[code]);
    } else {
        kn_problem problem = failures[code];
        problem.pointer = pointer.data;
        problem.detail = err.text;
        refuse(p, &problem);
    }
    return code == KN_JOB_DONE;
}

static bool has_its_own_id(picture *p) {
    if (!p->id[0] || find_picture(p->images, p->id) == p)
        return true;
    p->id[0] = 0; /* it is the other one's */
    refuse(p, &(kn_problem){ .status = 409,
                             .code = "image_preview_id_taken",
                             .title = "Another picture has the same preview id",
                             .pointer = "header/" ID_HEADER });
    return false;
}

static void generate_route(kn_exchange *x, kn_span body) {
    kn_images *m = images_of(x);
    const kn_head *head = kn_exchange_head(x);
    picture *p = head ? calloc(1, sizeof *p) : NULL;
    (void)body; /* taken below */
    if (!p) {
        m->bodies--;
        kn_reply_problem(x, &failures[KN_JOB_OUT_OF_MEMORY]);
        return;
    }
    *p = (picture){ .images = m, .x = x, .turn = { .ready = ready, .refused = refused }, .has_place = true };
    p->recipe = kn_exchange_take_collected(x);
    kn_buf_init(&p->png, 0);
    bool good = read_id(p, head);
    /* Behind the others, so that it is not found where one of them has its id. */
    picture **last = &m->pictures;
    while (*last)
        last = &(*last)->next;
    *last = p;
    *kn_exchange_user(x) = p;
    if (good && has_its_own_id(p) && check_recipe(p))
        kn_easel_enter(m->g->easel, &p->turn);
    else
        end_picture(p);
}

/* ---- GET previews/ID and workflows ---- */

static void reply_null(kn_exchange *x) {
    kn_reply_json(x, 200, json_null());
}

static void preview_route(kn_exchange *x, kn_span body) {
    (void)body;
    char id[ID_LEN + 1];
    if (!kn_route_part(kn_exchange_head(x), 4, id, sizeof id) || !is_id(id, strlen(id))) {
        kn_reply_problem(x, &(kn_problem){ .status = 400,
                                           .code = "parameter_invalid",
                                           .title = "A parameter is unknown or its value not allowed",
                                           .detail = "64 digits of 0-9 and a-f are expected",
                                           .pointer = "path/preview_id" });
        return;
    }
    const picture *p = find_picture(images_of(x), id);
    if (!p || !p->latest.steps) {
        reply_null(x);
        return;
    }
    char *text = malloc((p->latest.png_len + 2) / 3 * 4 + 1);
    if (text)
        EVP_EncodeBlock((unsigned char *)text, p->latest.png, (int)p->latest.png_len);
    kn_reply_json(x, 200,
                  text ? json_pack("{s:I, s:I, s:I, s:I, s:s}", "step", (json_int_t)p->latest.step, "steps",
                                   (json_int_t)p->latest.steps, "width", (json_int_t)p->latest.width, "height",
                                   (json_int_t)p->latest.height, "png_base64", text)
                       : NULL);
    free(text);
}

/* Which workflows profiles can draw; profiles come and go while this runs. */
static void look_at_profiles(kn_images *m) {
    kn_error why = { 0 };
    m->edition = kn_profiles_edition(m->needs.config);
    if (m->g->config->image.enabled && !kn_workflows_served(m->needs.config, &m->served, &why))
        kn_gateway_log(m->g, "no pictures can be drawn: %s", why.text);
}

static void look_again(kn_images *m) {
    const kn_edition now = kn_profiles_edition(m->needs.config);
    if (!kn_edition_is(&m->edition, &now))
        look_at_profiles(m);
}

/* NULL: it can be asked for. */
static const char *why_not(const kn_images *m, const kn_workflow *w) {
    return !m->g->config->image.enabled             ? "image_disabled"
           : !is_configured(m, w)                   ? "collection_not_configured"
           : !(m->served >> (w - kn_workflows) & 1) ? "no_profile"
                                                    : NULL;
}

static void workflows_route(kn_exchange *x, kn_span body) {
    (void)body;
    kn_images *m = images_of(x);
    json_t *items = json_array();
    look_again(m);
    for (const kn_workflow *w = kn_workflows; w < kn_workflows + KN_WORKFLOWS; w++) {
        const char *reason = why_not(m, w);
        json_array_append_new(
            items, json_pack("{s:s, s:s, s:b, s:s?, s:s, s:b, s:b, s:i, s:i}", "id", w->id, "kind",
                             w->edits ? "edit" : "text_to_image", "available", !reason, "unavailable_reason", reason,
                             "collection", w->collection, "requires_flow_shift", w->takes_shift, "fast_attention",
                             false, "max_reference_images", w->edits ? KN_RECIPE_REFERENCES_MAX : 0, "grid", GRID));
    }
    kn_reply_json(x, 200, json_pack("{s:o}", "items", items));
}

/* ---- the routes ---- */

enum { GENERATE };
static const kn_route routes[] = {
    [GENERATE] = { "POST", "/kuno/v1/images/generate", generate_route, KN_RECIPE_BYTES },
    { "GET", "/kuno/v1/images/previews/*", preview_route, 0 },
    { "GET", "/kuno/v1/images/workflows", workflows_route, 0 },
};

bool kn_images_are_meant(const kn_head *head) {
    static const char *const wanted[] = { "kuno", "v1", "images" };
    char part[8];
    for (unsigned i = 0; i < KN_COUNT(wanted); i++)
        if (!kn_route_part(head, i, part, sizeof part) || strcmp(part, wanted[i]) != 0)
            return false;
    return true;
}

/* Looked at before a body is read. False: it has been answered. */
static bool may_begin(const kn_images *m, kn_exchange *x, const kn_head *head) {
    char name[sizeof "generate"];
    if (!kn_span_is(head->method, "POST") || !kn_route_part(head, 3, name, sizeof name) ||
        strcmp(name, "generate") != 0)
        return true;
    if (!m->g->config->image.enabled) {
        kn_reply_problem(x, &(kn_problem){ .status = 409,
                                           .code = "image_disabled",
                                           .title = "No pictures are drawn here",
                                           .detail = "config.json has no \"image\"" });
        return false;
    }
    if (m->bodies < BODIES_MAX)
        return true;
    kn_reply_problem(x, &(kn_problem){ .status = 429,
                                       .code = "image_busy",
                                       .title = "Two pictures are being drawn or wait",
                                       .retry_after_s = RETRY_SOON_S });
    return false;
}

/* The user of an exchange: the router's while a body comes, then the picture; NULL for the other routes. */
static bool collects(kn_exchange *x) {
    return *kn_exchange_user(x) == (const void *)&routes[GENERATE];
}

static void on_collected(kn_exchange *x, kn_span body, bool complete) {
    if (collects(x) && !complete)
        images_of(x)->bodies--;
    kn_router_collected(x, body, complete);
}

static void on_end(kn_exchange *x) {
    picture *p = *kn_exchange_user(x);
    kn_images *m = images_of(x);
    if (collects(x))
        m->bodies--;
    else if (p) {
        p->x = NULL;
        if (p->draws)
            kn_painter_cancel(m->g->painter);
        else if (p->turn.state == KN_TURN_NONE || kn_easel_leave(&p->turn))
            end_picture(p);
    }
    kn_gateway_settle(m->g);
}

static const kn_service service = { .collected = on_collected, .end = on_end };

void kn_images_serve(kn_images *m, kn_exchange *x, const kn_head *head) {
    kn_exchange_hand_over(x, &service);
    if (!kn_route_is_bare(x) || !may_begin(m, x, head))
        return;
    kn_router_request(routes, KN_COUNT(routes), x, head);
    if (collects(x))
        m->bodies++;
}

bool kn_images_cut(kn_images *m) {
    bool any = false;
    for (picture *p = m->pictures; p; p = p->next) {
        any = any || p->x;
        refuse(p, &failures[KN_JOB_CANCELLED]);
        if (p->draws)
            kn_painter_cancel(m->g->painter);
    }
    return any;
}

bool kn_images_are_wanted(const kn_images *m) {
    return m->pictures != NULL;
}

json_t *kn_images_status_json(kn_images *m) {
    const char *pci = m->g->config->image.pci.text;
    if (!m->g->config->image.enabled)
        return json_null();
    json_t *workflows = json_array();
    look_again(m);
    for (const kn_workflow *w = kn_workflows; w < kn_workflows + KN_WORKFLOWS; w++)
        if (!why_not(m, w))
            json_array_append_new(workflows, json_string(w->id));
    return json_pack("{s:b, s:s?, s:o, s:b, s:o, s:s?}", "enabled", true, "pci_address", pci[0] ? pci : NULL,
                     "workflows", workflows, "busy", kn_painter_is_busy(m->g->painter), "isolation_missing",
                     kn_cage_json(kn_painter_gaps(m->g->painter)), "isolation_problem",
                     kn_painter_obstacle(m->g->painter));
}

/* ---- beginning and end ---- */

/* Where models are is a models.toml, or a folder with one. */
static bool find_models(kn_images *m, const kn_image_config *c, kn_error *err) {
    struct stat s;
    bool is_folder = stat(c->models, &s) == 0 && S_ISDIR(s.st_mode);
    return snprintf(m->models, sizeof m->models, "%s%s", c->models, is_folder ? "/models.toml" : "") <
               (int)sizeof m->models ||
           kn_fail(err, KN_E_USAGE, "image.models: the path is too long");
}

bool kn_images_new(kn_gateway *g, kn_images **ret, kn_error *err) {
    const kn_image_config *c = &g->config->image;
    kn_images *m = calloc(1, sizeof *m);
    if (!m)
        return kn_fail_nomem(err, sizeof *m);
    m->g = g;
    if (c->models && !find_models(m, c, err)) {
        free(m);
        return false;
    }
    m->needs = (kn_painter_needs){
        .config = c->models ? m->models : NULL,
        .isolation = c->isolated ? KN_ISOLATION_REQUIRED : KN_ISOLATION_BEST_EFFORT,
        .deadline_ms = (uint64_t)c->timeout_s * 1000,
    };
    look_at_profiles(m);
    *ret = m;
    return true;
}

void kn_images_free(kn_images *m) {
    if (!m)
        return;
    while (m->pictures) { /* their clients have been cut */
        picture *p = m->pictures;
        kn_easel_drop(&p->turn);
        end_picture(p);
    }
    free(m);
}
