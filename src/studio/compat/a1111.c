/* A1111's /sdapi/v1, as its clients use it: pictures while they wait, and what they ask for before. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "image/mask.h"
#include "studio/compat/compat.h"
#include "studio/prepare.h"

enum { SIDE = 512 };

void kn_a1111_refuse(kn_exchange *x, const kn_problem *p) {
    json_t *error = json_pack("{s:s, s:s, s:s, s:s}", "error", p->code, "detail", p->detail ? p->detail : p->title,
                              "body", p->pointer ? p->pointer : "", "errors", p->title);
    kn_compat_refuse(x, p, p->status, error, "");
}

/* ---- what is ordered ---- */

/* true, false, or 1 and 0. */
static bool take_truth(kn_form *f) {
    uint64_t number = 0;
    bool truth = false;
    char c = kn_json_peek(f->j);
    if (c == 't' || c == 'f')
        kn_form_bool(f, &truth);
    else if (kn_form_u64(f, 0, 1, &number))
        truth = number;
    return truth;
}

static void refuse_if(kn_form *f, bool wanted, const char *what) {
    if (wanted)
        kn_form_fail(f, KN_E_UNSUPPORTED, "%s is not possible here", what);
}

static void take_overrides(const kn_form *outer, kn_order *o) {
    enum { CHECKPOINT, FORMAT, QUALITY };
    static const char *const keys[] = {
        [CHECKPOINT] = "sd_model_checkpoint", [FORMAT] = "samples_format", [QUALITY] = "jpeg_quality"
    };
    kn_form f;
    kn_form_open(&f, outer->j, outer, keys, KN_COUNT(keys));
    f.tolerant = true;
    for (int key; kn_form_next(&f, &key);) {
        if (kn_form_null(&f))
            continue;
        switch (key) {
        case CHECKPOINT: kn_order_take_profile(&f, o); break;
        case FORMAT: kn_order_take_format(&f, o); break;
        case QUALITY: kn_form_u64(&f, 1, 100, &o->quality); break;
        }
    }
}

/* The first is the picture to change; others are to look at. */
static void take_pictures(kn_form *f, kn_order *o, bool first_is_source) {
    for (bool in = kn_form_items(f); in && kn_form_item(f); first_is_source = false)
        kn_order_take_picture(f, o, first_is_source ? KN_INPUT_SOURCE : KN_INPUT_REFERENCE);
}

/* The standard deviation of a Gaussian, in pixels, that A1111 blurs a mask by and cuts off at 2.5 of them: so far from
 * the mask what is drawn passes into what stays. As far it does so here, inside of the mask. The widest one counts. */
static void take_blur(kn_form *f, kn_order *o) {
    static const double reach = 2.5;
    kn_optional blur = { 0 };
    kn_order_take_number(f, 0, &blur);
    if (blur.given) {
        double pixels = fmin(floor(reach * blur.value + 0.5), KN_MASK_REACH_MAX);
        o->feather = (kn_optional){ true, fmax(pixels, o->feather.value) };
    }
}

enum {
    PROMPT,
    NEGATIVE,
    MODEL,
    WIDTH,
    HEIGHT,
    STEPS,
    CFG,
    STRENGTH,
    SEED,
    BATCH,
    ROUNDS,
    SAMPLER,
    SAMPLER_TOO,
    HIGH_RES,
    OVERRIDES,
    EXTRA,
    INIT,
    MASK,
    INVERT,
    BLUR,
    BLUR_X,
    BLUR_Y,
};
static const char *const keys[] = {
    [PROMPT] = "prompt",
    [NEGATIVE] = "negative_prompt",
    [MODEL] = "model",
    [WIDTH] = "width",
    [HEIGHT] = "height",
    [STEPS] = "steps",
    [CFG] = "cfg_scale",
    [STRENGTH] = "denoising_strength",
    [SEED] = "seed",
    [BATCH] = "batch_size",
    [ROUNDS] = "n_iter",
    [SAMPLER] = "sampler_name",
    [SAMPLER_TOO] = "sampler_index",
    [HIGH_RES] = "enable_hr",
    [OVERRIDES] = "override_settings",
    [EXTRA] = "extra_images",
    [INIT] = "init_images",
    [MASK] = "mask",
    [INVERT] = "inpainting_mask_invert",
    [BLUR] = "mask_blur",
    [BLUR_X] = "mask_blur_x",
    [BLUR_Y] = "mask_blur_y",
};

static void take_member(kn_form *f, int key, kn_order *o, uint64_t *rounds) {
    switch (key) {
    case PROMPT: kn_order_take_text(f, &o->prompt); break;
    case NEGATIVE: kn_order_take_text(f, &o->negative_prompt); break;
    case MODEL: kn_order_take_profile(f, o); break;
    case WIDTH: kn_order_take_side(f, &o->width); break;
    case HEIGHT: kn_order_take_side(f, &o->height); break;
    case STEPS: kn_order_take_number(f, 1, &o->wish.steps); break;
    case CFG: kn_order_take_number(f, -1e6, &o->wish.cfg); break;
    case STRENGTH: kn_order_take_number(f, -1e6, &o->wish.strength); break;
    case SEED: kn_order_take_seed(f, o); break;
    case BATCH: kn_form_u64(f, 1, KN_REQUEST_BATCH, &o->count); break;
    case ROUNDS: kn_form_u64(f, 1, KN_REQUEST_BATCH, rounds); break;
    case SAMPLER:
    case SAMPLER_TOO: kn_order_take_sampler(f, o); break;
    case HIGH_RES: refuse_if(f, take_truth(f), "a second pass at a higher resolution"); break;
    case OVERRIDES: take_overrides(f, o); break;
    case EXTRA: take_pictures(f, o, false); break;
    case INIT: take_pictures(f, o, true); break;
    case MASK: kn_order_take_picture(f, o, KN_INPUT_MASK); break;
    case BLUR:
    case BLUR_X:
    case BLUR_Y: take_blur(f, o); break;
    case INVERT: refuse_if(f, take_truth(f), "a mask that is turned around"); break;
    }
}

static bool has_source(const kn_order *o) {
    for (size_t i = 0; i < o->picture_count; i++)
        if (o->pictures[i].role == KN_INPUT_SOURCE)
            return true;
    return false;
}

bool kn_a1111_read(kn_visit *v, kn_order *o, kn_error *err) {
    uint64_t rounds = 1;
    kn_json_reader j;
    kn_form f;
    kn_order_open(&f, &j, v, (kn_json_text){ v->body.data, v->body.len }, keys, KN_COUNT(keys), err);
    for (int key; kn_form_next(&f, &key);)
        if (!kn_form_null(&f))
            take_member(&f, key, o, &rounds);
    kn_order_need(&f, PROMPT, o->prompt);
    kn_order_need(&f, INIT, has_source(o) || !v->flag);
    o->count *= rounds;
    if (!j.failed && o->count > KN_REQUEST_BATCH) {
        f.key = ROUNDS;
        kn_form_fail(&f, KN_E_RANGE, "%d pictures at a time are possible", KN_REQUEST_BATCH);
    }
    if (!o->wish.strength.given)
        o->wish.strength = (kn_optional){ true, KN_ORDER_STRENGTH };
    if (!o->width)
        o->width = o->height ? o->height : SIDE;
    if (!o->height)
        o->height = SIDE;
    return kn_form_finish(&f);
}

/* ---- what comes back ---- */

/* The parameters as A1111 writes them below a picture. */
static char *infotext_of(const kn_order *o, const json_t *job, const json_t *result) {
    const json_t *plan = json_object_get(job, "plan");
    char *text = NULL;
    if (asprintf(&text, "%s\n%s%s%sSteps: %d, Sampler: %s, CFG scale: %g, Seed: %s, Size: %dx%d, Model: %s", o->prompt,
                 o->negative_prompt && o->negative_prompt[0] ? "Negative prompt: " : "",
                 o->negative_prompt ? o->negative_prompt : "", o->negative_prompt && o->negative_prompt[0] ? "\n" : "",
                 (int)json_integer_value(json_object_get(plan, "steps")),
                 json_string_value(json_object_get(plan, "sampler")),
                 json_number_value(json_object_get(plan, "guidance")),
                 json_string_value(json_object_get(result, "seed")),
                 (int)json_integer_value(json_object_get(result, "width")),
                 (int)json_integer_value(json_object_get(result, "height")),
                 json_string_value(json_object_get(plan, "profile"))) < 0)
        return NULL;
    return text;
}

/* A seed below 2^63 is a number that JSON can hold. */
static json_t *seed_of(const json_t *result) {
    const char *text = json_string_value(json_object_get(result, "seed"));
    int64_t seed = -1;
    if (text)
        kn_parse_i64(text, &seed);
    return json_integer(seed);
}

static json_t *info_of(const kn_order *o, const json_t *job) {
    const json_t *plan = json_object_get(job, "plan"), *first = kn_compat_result(job, 0);
    json_t *texts = json_array(), *prompts = json_array(), *negatives = json_array(), *seeds = json_array();
    const char *negative = o->negative_prompt ? o->negative_prompt : "";
    for (size_t i = 0; i < kn_compat_results(job); i++) {
        char *text = infotext_of(o, job, kn_compat_result(job, i));
        json_array_append_new(texts, json_string(text ? text : ""));
        json_array_append_new(prompts, json_string(o->prompt));
        json_array_append_new(negatives, json_string(negative));
        json_array_append_new(seeds, seed_of(kn_compat_result(job, i)));
        free(text);
    }
    return json_pack("{s:s, s:s, s:o, s:O, s:O, s:O, s:O, s:O, s:O, s:s, s:O, s:o, s:o, s:o, s:o}", "prompt", o->prompt,
                     "negative_prompt", negative, "seed", seed_of(first), "width", json_object_get(first, "width"),
                     "height", json_object_get(first, "height"), "steps", json_object_get(plan, "steps"), "cfg_scale",
                     json_object_get(plan, "guidance"), "sampler_name", json_object_get(plan, "sampler"),
                     "sd_model_name", json_object_get(plan, "profile"), "version", "kuno " KN_VERSION, "notes",
                     json_object_get(job, "notes"), "infotexts", texts, "all_prompts", prompts, "all_negative_prompts",
                     negatives, "all_seeds", seeds);
}

static json_t *parameters_of(const kn_order *o, const json_t *job) {
    const json_t *plan = json_object_get(job, "plan");
    return json_pack("{s:s, s:s, s:I, s:I, s:O, s:O, s:I}", "prompt", o->prompt, "negative_prompt",
                     o->negative_prompt ? o->negative_prompt : "", "width", (json_int_t)o->width, "height",
                     (json_int_t)o->height, "steps", json_object_get(plan, "steps"), "cfg_scale",
                     json_object_get(plan, "guidance"), "batch_size", (json_int_t)o->count);
}

static bool write_answer(kn_visit *v, kn_store *s, const json_t *job, kn_buf *into, kn_error *err) {
    const kn_order *o = &v->compat->order;
    json_t *info = info_of(o, job);
    char *text = info ? json_dumps(info, JSON_COMPACT) : NULL;
    json_decref(info);
    bool ok = text && kn_buf_add_text(into, "{\"images\":[");
    for (size_t i = 0; ok && i < kn_compat_results(job); i++)
        ok = (!i || kn_buf_add_text(into, ",")) && kn_compat_add_picture(s, v->part[1], (unsigned)i, into, err);
    ok = ok && kn_buf_add_text(into, "],\"parameters\":") && kn_compat_add_json(into, parameters_of(o, job), err) &&
         kn_buf_add_text(into, ",\"info\":") && kn_compat_add_json(into, json_string(text), err) &&
         kn_buf_add_text(into, "}");
    free(text);
    return ok || kn_fail_nomem(err, into->len);
}

void kn_a1111_draw(kn_exchange *x, kn_span body) {
    static const kn_compat_way way = { .read = kn_a1111_read, .answer = write_answer };
    kn_visit *v = kn_visit_begin(x, body, NULL);
    char what[16] = "";
    if (!v)
        return;
    v->flag = kn_compat_part(v, 2, what, sizeof what) && !strcmp(what, "img2img");
    kn_compat_order(v, &way);
}

/* ---- what runs ---- */

/* The call that waits for the job that runs; NULL: nobody does through these APIs. */
static kn_visit *waiting_for(kn_api *a, const char *job) {
    for (kn_compat_call *c = a->compat_calls; job && c; c = c->next)
        if (!strcmp(c->visit->part[1], job))
            return c->visit;
    return NULL;
}

static bool add_preview(kn_visit *v, const char *job, json_t *into) {
    KN_AUTO_BUF text;
    size_t len = 0;
    const void *png = kn_queue_preview(v->studio->queue, job, &len);
    const char *skip = kn_visit_parameter(v, "skip_current_image");
    kn_buf_init(&text, KN_STREAM_MAX * 2);
    if (!png || (skip && strcmp(skip, "false") != 0) || !kn_compat_add_base64(&text, png, len, NULL))
        return false;
    return json_object_set_new(into, "current_image", json_stringn(text.data + 1, text.len - 2)) == 0;
}

void kn_a1111_progress(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (!v)
        return;
    const char *job = kn_queue_job(v->studio->queue);
    json_t *seen = json_pack("{s:s, s:s}", "id", job ? job : "", "state", "running");
    kn_queue_show_progress(v->studio->queue, seen);
    const json_t *p = json_object_get(seen, "progress");
    double eta = json_number_value(json_object_get(p, "eta_seconds"));
    v->json =
        json_pack("{s:f, s:f, s:{s:b, s:b, s:s, s:i, s:s, s:i, s:I, s:I}, s:n, s:n}", "progress",
                  fmin(json_number_value(json_object_get(p, "fraction")), 0.99), "eta_relative", eta, "state",
                  "skipped", 0, "interrupted", 0, "job", job ? job : "", "job_count", job ? 1 : 0, "job_timestamp", "0",
                  "job_no", 0, "sampling_step", json_integer_value(json_object_get(p, "step")), "sampling_steps",
                  json_integer_value(json_object_get(p, "steps")), "current_image", "textinfo");
    json_decref(seen);
    if (job && v->json)
        add_preview(v, job, v->json);
    kn_visit_answer(v);
}

static bool work_interrupt(kn_visit *v, kn_store *s, kn_error *err) {
    kn_error gone = { 0 };
    (void)err;
    v->flag = false;
    v->status = 0;
    if (!kn_visit_cancel_job(v, s, &gone))
        v->problem = (kn_problem){ 0 }; /* it has ended meanwhile, which is what was wanted */
    return true;
}

static void after_interrupt(kn_visit *v) {
    kn_visit_tell_cancelled(v);
    json_decref(v->json);
    v->json = json_object();
    v->status = 200;
    kn_visit_answer(v);
}

/* The picture that runs and that somebody waits for here; those of the studio itself are not theirs to stop. */
void kn_a1111_interrupt(kn_exchange *x, kn_span body) {
    kn_visit *v = kn_visit_begin(x, body, NULL);
    if (!v)
        return;
    const char *job = kn_queue_job(v->studio->queue);
    if (waiting_for(v->api, job)) {
        snprintf(v->part[1], sizeof v->part[1], "%s", job);
        kn_visit_send(v, work_interrupt, after_interrupt);
        return;
    }
    v->json = json_object();
    kn_visit_answer(v);
}
