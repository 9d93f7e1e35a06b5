#include "studio/image_runner.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "image/image.h"
#include "workers/recipe.h"

enum {
    LOOKS_MAX = 16,          /* files that wait to be looked at */
    LOOK_WARM_MS = 5 * 1000, /* who sends one picture often sends another */
    LOOK_WITHIN_MS = 60 * 1000,
    REFERENCE_BYTES = 16 << 20, /* of a picture to draw from: what the worker takes */
};

/* One file that is looked at: a client's picture, what it is or how it was made, one of ours for another format, or an
 * upscaler. */
typedef struct look look;
struct look {
    kn_buf file; /* a copy of it, or its path */
    const void *data;
    size_t len;
    unsigned largest, quality;
    kn_picture_format format;
    kn_looked_fn *looked; /* one of the four */
    kn_converted_fn *converted;
    kn_measured_fn *measured;
    kn_inspected_fn *inspected;
    void *ctx;
    bool again; /* its first worker has died */
    look *next;
};

_Static_assert((int)KN_FORMATS == (int)KN_PICTURE_FORMATS && (int)KN_FORMAT_WEBP == (int)KN_PICTURE_WEBP,
               "formats have the same numbers in the studio and for the worker");

struct kn_image_runner {
    kn_loop *loop;
    kn_image_runner_setup setup;

    /* The picture that is drawn. */
    const kn_studio_task *task;
    const kn_task_heard *heard;
    void *heard_ctx;
    kn_turn turn;
    kn_task late;
    bool cancelled;
    char message[sizeof((kn_error){ 0 }.text)];

    /* Files that are looked at, the first one now. */
    kn_image_process *eye;
    kn_task glance;
    look *looks, **last;
    unsigned look_count;

    bool closing;
    kn_task gone;
};

/* ---- what a picture is asked for with ---- */

/* The file in base64, as a text of JSON. */
static bool add_file(const char *path, kn_buf *into, kn_error *err) {
    KN_AUTO_BUF file;
    kn_buf_init(&file, REFERENCE_BYTES + 1);
    if (!kn_file_read_no_link(path, REFERENCE_BYTES, &file, err))
        return kn_fail_within(err, "a picture to draw from");
    size_t len = (file.len + 2) / 3 * 4;
    if (!kn_buf_add_text(into, "\"") || !kn_buf_reserve(into, len + 2))
        return kn_fail_nomem(err, len);
    into->len += (size_t)EVP_EncodeBlock((unsigned char *)into->data + into->len, (const unsigned char *)file.data,
                                         (int)file.len);
    return kn_buf_add_text(into, "\"") || kn_fail_nomem(err, len);
}

/* Where a part of the source is drawn anew, the worker shows the source itself, if the model sees pictures. */
static bool changes_part(const kn_studio_task *task) {
    return task->kind == KN_KIND_INPAINT || task->kind == KN_KIND_OUTPAINT;
}

static bool add_references(const kn_studio_task *task, kn_buf *into, kn_error *err) {
    bool any = false;
    for (size_t i = 0; i < task->input_count; i++) {
        kn_input_role role = task->inputs[i].role;
        if (role == KN_INPUT_MASK || (role == KN_INPUT_SOURCE && changes_part(task)))
            continue;
        if (!kn_buf_add_text(into, any ? "," : ",\"reference_images\":["))
            return kn_fail_nomem(err, into->len);
        if (!add_file(task->inputs[i].path, into, err))
            return false;
        any = true;
    }
    return !any || kn_buf_add_text(into, "]") || kn_fail_nomem(err, into->len);
}

/* The picture that is drawn on from. */
static bool add_start(const kn_studio_task *task, const json_t *strength, kn_buf *into, kn_error *err) {
    return (kn_buf_printf(into, ",\"strength\":%.17g,\"init_image\":", json_number_value(strength)) ||
            kn_fail_nomem(err, into->len)) &&
           add_file(task->inputs[0].path, into, err);
}

static bool add_member(const char *name, const kn_studio_task *task, kn_input_role role, kn_buf *into, kn_error *err) {
    for (size_t i = 0; i < task->input_count; i++)
        if (task->inputs[i].role == role)
            return (kn_buf_printf(into, ",\"%s\":", name) || kn_fail_nomem(err, into->len)) &&
                   add_file(task->inputs[i].path, into, err);
    return true;
}

/* What is to be drawn anew of the source, or around it. */
static bool add_part(const kn_studio_task *task, kn_buf *into, kn_error *err) {
    const uint32_t *o = task->request->outpaint;
    bool seen = json_array_size(json_object_get(task->plan, "reference_sizes"));
    return (kn_buf_printf(into, ",\"show_region\":%s", seen ? "true" : "false") || kn_fail_nomem(err, into->len)) &&
           (task->kind != KN_KIND_OUTPAINT ||
            kn_buf_printf(into, ",\"outpaint\":{\"left\":%u,\"right\":%u,\"top\":%u,\"bottom\":%u}", o[0], o[1], o[2],
                          o[3]) ||
            kn_fail_nomem(err, into->len)) &&
           (!task->request->has_feather || kn_buf_printf(into, ",\"feather\":%u", task->request->feather) ||
            kn_fail_nomem(err, into->len)) &&
           add_member("init_image", task, KN_INPUT_SOURCE, into, err) &&
           add_member("mask_image", task, KN_INPUT_MASK, into, err);
}

static bool is_larger(const json_t *plan, const char *a, const char *b) {
    return json_integer_value(json_object_get(plan, a)) > json_integer_value(json_object_get(plan, b));
}

/* Whether the worker takes the size from the source and gives back as many pixels. */
static bool keeps_pixels(const kn_studio_task *task) {
    return changes_part(task) && !is_larger(task->plan, "result_width", "working_width") &&
           !is_larger(task->plan, "result_height", "working_height");
}

/* The size of the result, if it is another than what is drawn. */
static json_t *result_of(const kn_studio_task *task) {
    static const char *const sides[][2] = { { "working_width", "result_width" },
                                            { "working_height", "result_height" } };
    const json_t *plan = task->plan;
    bool same = task->kind != KN_KIND_UPSCALE;
    for (size_t i = 0; i < KN_COUNT(sides); i++)
        same = same && json_integer_value(json_object_get(plan, sides[i][0])) ==
                           json_integer_value(json_object_get(plan, sides[i][1]));
    if (same || keeps_pixels(task))
        return NULL;
    uint32_t tile =
        task->tile_size ? task->tile_size : (uint32_t)json_integer_value(json_object_get(plan, "tile_size"));
    return json_pack("{s:O, s:O, s:s*, s:I, s:f, s:b}", "width", json_object_get(plan, "result_width"), "height",
                     json_object_get(plan, "result_height"), "upscaler", task->upscaler, "tile_size", (json_int_t)tile,
                     "blend", task->blend, "prescale", task->prescale);
}

/* Without what follows it. */
static bool add_start_of(json_t *recipe, kn_buf *into, kn_error *err) {
    char *text = recipe ? json_dumps(recipe, JSON_COMPACT) : NULL;
    json_decref(recipe);
    bool ok = text && kn_buf_add(into, text, strlen(text) - 1); /* its last brace */
    free(text);
    return ok || kn_fail_nomem(err, KN_REQUEST_BYTES);
}

/* Whether the gain map of the source is to go with the result: the worker takes the first picture for the source. Of a
 * picture of the gallery it is the worker who knows whether there is one. */
static bool keeps_hdr(const kn_studio_task *task) {
    return json_is_true(json_object_get(task->plan, "keeps_hdr")) ||
           (task->request->gallery_item[0] && task->request->output.keep_hdr);
}

static bool compose_upscale(const kn_studio_task *task, kn_buf *into, kn_error *err) {
    const kn_output_spec *o = &task->request->output;
    json_t *recipe = json_pack("{s:o, s:s, s:i, s:b}", "result", result_of(task), "format",
                               kn_picture_formats[o->format], "quality", (int)o->quality, "keep_hdr", keeps_hdr(task));
    return add_start_of(recipe, into, err) &&
           (kn_buf_add_text(into, ",\"init_image\":") || kn_fail_nomem(err, into->len)) &&
           add_file(task->inputs[0].path, into, err) && (kn_buf_add_text(into, "}") || kn_fail_nomem(err, into->len));
}

/* What a recipe can say of a plan; beyond that the profile has to say it itself. */
static json_t *within(const json_t *plan, const char *name, double most) {
    json_t *value = json_object_get(plan, name);
    return json_number_value(value) <= most ? value : NULL;
}

static bool compose(const kn_studio_task *task, kn_buf *into, kn_error *err) {
    const kn_studio_request *r = task->request;
    if (task->kind == KN_KIND_UPSCALE)
        return compose_upscale(task, into, err);
    const json_t *plan = task->plan;
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, task->seed);
    bool sized = !keeps_pixels(task);
    json_t *recipe = json_pack(
        "{s:s, s:s, s:s*, s:s, s:O*, s:O*, s:O, s:O*, s:O*, s:o*, s:b, s:b, s:s, s:i, s:b}", "model",
        json_string_value(json_object_get(plan, "profile")), "prompt", r->prompt, "negative_prompt", r->negative_prompt,
        "seed", seed, "width", sized ? json_object_get(plan, "working_width") : NULL, "height",
        sized ? json_object_get(plan, "working_height") : NULL, "sampler", json_object_get(plan, "sampler"), "steps",
        within(plan, "steps", KN_RECIPE_STEPS_MAX), "cfg", within(plan, "guidance", KN_RECIPE_CFG_MAX), "result",
        result_of(task), "metadata", kn_request_embeds_metadata(r), "opaque", !r->output.transparent, "format",
        kn_picture_formats[r->output.format], "quality", (int)r->output.quality, "keep_hdr", keeps_hdr(task));
    if (!add_start_of(recipe, into, err))
        return false;
    if (changes_part(task) && !add_part(task, into, err))
        return false;
    const json_t *strength = json_object_get(plan, "strength");
    return (strength ? add_start(task, strength, into, err) : add_references(task, into, err)) &&
           (kn_buf_add_text(into, "}") || kn_fail_nomem(err, into->len));
}

/* ---- drawing ---- */

static void give_back(kn_image_runner *r, bool certain) {
    if (r->turn.state == KN_TURN_READY)
        kn_easel_finish(&r->turn, certain);
}

static kn_task_failure failure_of(kn_job_code code) {
    switch (code) {
    case KN_JOB_CANCELLED: return KN_TASK_CANCELLED;
    case KN_JOB_OUT_OF_MEMORY: return KN_TASK_OUT_OF_MEMORY;
    case KN_JOB_MODEL_MISSING:
    case KN_JOB_MODEL_MISMATCH: return KN_TASK_MISSING_MODEL;
    case KN_JOB_INVALID:
    case KN_JOB_REFERENCE_INVALID:
    case KN_JOB_REFERENCE_REQUIRED: return KN_TASK_INPUT_INVALID;
    case KN_JOB_ISOLATION_MISSING: return KN_TASK_ISOLATION_MISSING;
    default: return KN_TASK_ENGINE_FAILED;
    }
}

static kn_picture_format format_of(const void *file, size_t len) {
    switch (kn_image_kind_of(file, len)) {
    case KN_IMAGE_PNG: return KN_PICTURE_PNG;
    case KN_IMAGE_JPEG: return KN_PICTURE_JPEG;
    case KN_IMAGE_WEBP: return KN_PICTURE_WEBP;
    default: return KN_PICTURE_FORMATS;
    }
}

/* What the worker says that it has made. */
static bool take_picture(const kn_image_result *r, kn_task_picture *ret) {
    *ret = (kn_task_picture){ .format = format_of(r->file, r->len),
                              .width = r->width,
                              .height = r->height,
                              .data = r->file,
                              .len = r->len,
                              .hdr_lost = r->hdr_lost[0] ? r->hdr_lost : NULL };
    return ret->format != KN_PICTURE_FORMATS && r->width && r->height && r->width <= KN_PICTURE_SIDE_MAX &&
           r->height <= KN_PICTURE_SIDE_MAX;
}

/* A job tells which file is at fault, not where this machine has it. */
static void name_files(const char *from, char *to, size_t room) {
    size_t n = 0;
    while (*from && n + 1 < room) {
        to[n++] = *from;
        if (from[0] == '\'' && from[1] == '/')
            from = memrchr(from, '/', 1 + strcspn(from + 1, "'"));
        from++;
    }
    to[n] = 0;
}

static void drawn(void *ctx, const kn_image_result *result) {
    kn_image_runner *r = ctx;
    kn_task_picture picture;
    give_back(r, !result->forced);
    r->task = NULL;
    name_files(result->sentence, r->message, sizeof r->message);
    if (result->code == KN_JOB_DONE && take_picture(result, &picture))
        r->heard->done(r->heard_ctx, &picture);
    else if (result->lost)
        r->heard->failed(r->heard_ctx, KN_TASK_ENGINE_LOST, r->message);
    else
        r->heard->failed(r->heard_ctx, r->cancelled ? KN_TASK_CANCELLED : failure_of(result->code),
                         r->message[0] ? r->message : kn_job_codes[result->code].word);
}

static void progress(void *ctx, kn_frame_phase phase, uint32_t step, uint32_t steps) {
    static const kn_task_phase phases[] = {
        [KN_PHASE_LOAD] = KN_TASK_LOADING,      [KN_PHASE_ENCODE] = KN_TASK_ENCODING,
        [KN_PHASE_STEP] = KN_TASK_SAMPLING,     [KN_PHASE_DECODE] = KN_TASK_DECODING,
        [KN_PHASE_ENLARGE] = KN_TASK_UPSCALING,
    };
    kn_image_runner *r = ctx;
    r->heard->progress(r->heard_ctx, phases[phase], step, steps);
}

static void preview(void *ctx, const kn_frame_preview *p) {
    kn_image_runner *r = ctx;
    const kn_task_picture small = {
        .format = KN_PICTURE_PNG, .width = p->width, .height = p->height, .data = p->png, .len = p->png_len
    };
    r->heard->preview(r->heard_ctx, p->step, &small);
}

static void fail_late(kn_task *t) {
    kn_image_runner *r = KN_HOLDER(t, kn_image_runner, late);
    if (!r->task || r->closing)
        return;
    r->task = NULL;
    r->heard->failed(r->heard_ctx, r->cancelled ? KN_TASK_CANCELLED : KN_TASK_ENGINE_FAILED, r->message);
}

static void draw(kn_image_runner *r) {
    const kn_image_listener listener = { .progress = progress, .preview = preview, .done = drawn, .ctx = r };
    const kn_painter_needs needs = { .config = r->task->models_toml ? r->task->models_toml : r->setup.models_toml,
                                     .upscalers = r->task->upscalers,
                                     .isolation = r->setup.isolation };
    kn_error err = { 0 };
    if (kn_painter_draw(r->setup.painter, &needs, r->task->recipe, true, &listener, &err))
        return;
    give_back(r, true);
    snprintf(r->message, sizeof r->message, "%s", err.text);
    kn_loop_later(r->loop, &r->late);
}

static void ready(kn_turn *t) {
    kn_image_runner *r = KN_HOLDER(t, kn_image_runner, turn);
    if (!r->cancelled) {
        r->heard->progress(r->heard_ctx, KN_TASK_LOADING, 0, 0);
        draw(r);
        return;
    }
    give_back(r, true);
    kn_loop_later(r->loop, &r->late);
}

static void waits(kn_turn *t, kn_wait what_for) {
    kn_image_runner *r = KN_HOLDER(t, kn_image_runner, turn);
    if (!r->cancelled)
        r->heard->waits(r->heard_ctx, what_for);
}

/* The service stops. */
static void refused(kn_turn *t, kn_refusal why) {
    (void)why;
    kn_image_runner *r = KN_HOLDER(t, kn_image_runner, turn);
    r->cancelled = true;
    kn_loop_later(r->loop, &r->late);
}

static bool start(void *ctx, const kn_studio_task *task, const kn_task_heard *heard, void *heard_ctx, kn_error *err) {
    kn_image_runner *r = ctx;
    (void)err;
    r->task = task;
    r->heard = heard;
    r->heard_ctx = heard_ctx;
    r->cancelled = false;
    r->message[0] = 0;
    kn_easel_enter(r->setup.easel, &r->turn);
    return true;
}

static void cancel(void *ctx) {
    kn_image_runner *r = ctx;
    if (!r->task || r->cancelled || r->closing) /* what is freed stands last in the loop's line */
        return;
    r->cancelled = true;
    if (r->turn.state == KN_TURN_READY)
        kn_painter_cancel(r->setup.painter);
    else if (r->turn.state == KN_TURN_NONE || kn_easel_leave(&r->turn)) /* else it is about to be ready */
        kn_loop_later(r->loop, &r->late);
}

static void rest(void *ctx) {
    const kn_image_runner *r = ctx;
    kn_painter_cool(r->setup.painter);
}

static kn_wait waits_for(void *ctx) {
    const kn_image_runner *r = ctx;
    return kn_easel_waits_for(r->setup.easel);
}

/* Who looks at pictures is locked in as well as who draws them. */
static kn_cage_gaps gaps(void *ctx) {
    const kn_image_runner *r = ctx;
    kn_cage_gaps found = kn_painter_gaps(r->setup.painter);
    return found.known ? found : kn_image_process_gaps(r->eye);
}

static const char *obstacle(void *ctx, bool to_look) {
    const kn_image_runner *r = ctx;
    const char *found = kn_image_process_obstacle(r->eye);
    return found || to_look ? found : kn_painter_obstacle(r->setup.painter);
}

static bool is_proven(void *ctx) {
    const kn_image_runner *r = ctx;
    return r->setup.isolation != KN_ISOLATION_REQUIRED ||
           (kn_image_process_gaps(r->eye).known && !kn_image_process_obstacle(r->eye));
}

/* ---- looking ---- */

static void look_at_first(kn_image_runner *r);

static void free_look(look *l) {
    kn_buf_free(&l->file);
    free(l);
}

static look *take_first(kn_image_runner *r) {
    look *l = r->looks;
    r->looks = l->next;
    if (!r->looks)
        r->last = &r->looks;
    r->look_count--;
    return l;
}

/* Nothing has become of it. */
static void tell_failure(look *l, const char *message, bool certain) {
    if (l->looked)
        l->looked(l->ctx, NULL, NULL, 0, message);
    else if (l->converted)
        l->converted(l->ctx, NULL, 0, message);
    else if (l->inspected)
        l->inspected(l->ctx, NULL, 0, message);
    else
        l->measured(l->ctx, 0, certain);
    free_look(l);
}

static void tell_facts(look *l, const kn_image_result *result) {
    kn_picture_format format = format_of(l->data, l->len);
    const kn_input_facts facts = { .format = format,
                                   .width = result->width,
                                   .height = result->height,
                                   .orientation_applied = result->was_turned,
                                   .has_alpha = result->is_transparent,
                                   .has_gain_map = result->has_gain_map,
                                   .has_damaged_map = result->has_damaged_map,
                                   .icc_profile = result->icc_profile,
                                   .mask_lacks = result->mask_lacks };
    l->looked(l->ctx, &facts, result->file, result->len, NULL);
}

/* A worker that died may have been killed for something else; one that dies twice died of the picture. */
static void seen(void *ctx, const kn_image_result *result) {
    kn_image_runner *r = ctx;
    if (result->lost && !r->looks->again) {
        r->looks->again = true;
        look_at_first(r);
        return;
    }
    look *l = take_first(r);
    if (result->code != KN_JOB_DONE) {
        bool certain = result->lost || result->code == KN_JOB_MODEL_MISMATCH;
        tell_failure(l, result->sentence[0] ? result->sentence : kn_job_codes[result->code].word, certain);
    } else {
        if (l->looked)
            tell_facts(l, result);
        else if (l->converted)
            l->converted(l->ctx, result->file, result->len, NULL);
        else if (l->inspected)
            l->inspected(l->ctx, (const char *)result->file, result->len, NULL);
        else
            l->measured(l->ctx, result->factor, true);
        free_look(l);
    }
    look_at_first(r);
}

static bool send_look(kn_image_runner *r, const look *l, kn_error *err) {
    const kn_image_listener listener = { .done = seen, .ctx = r };
    if (l->looked)
        return kn_image_process_read(r->eye, l->data, l->len, l->largest, &listener, err);
    if (l->converted)
        return kn_image_process_convert(r->eye, l->data, l->len, (kn_frame_format)l->format, l->quality, &listener,
                                        err);
    if (l->inspected)
        return kn_image_process_inspect(r->eye, l->data, l->len, &listener, err);
    return kn_image_process_measure(r->eye, l->file.data, &listener, err);
}

static void look_at_first(kn_image_runner *r) {
    while (r->looks && !r->closing) {
        kn_error err = { 0 };
        if (send_look(r, r->looks, &err))
            return;
        tell_failure(take_first(r), err.text, false);
    }
}

static void glance(kn_task *t) {
    kn_image_runner *r = KN_HOLDER(t, kn_image_runner, glance);
    if (r->looks && !kn_image_process_is_busy(r->eye))
        look_at_first(r);
}

/* Called from within a request, which is answered later in any case. copy NULL: the data stay. */
static bool take_look(kn_image_runner *r, const look *what, const void *copy) {
    look *l = r->look_count < LOOKS_MAX && !r->closing ? calloc(1, sizeof *l) : NULL;
    if (!l)
        return false;
    *l = *what;
    kn_buf_init(&l->file, KN_PICTURE_BYTES + 1);
    if (copy && !kn_buf_add(&l->file, copy, l->len)) {
        free_look(l);
        return false;
    }
    if (copy)
        l->data = l->file.data;
    bool alone = !r->looks;
    *r->last = l;
    r->last = &l->next;
    r->look_count++;
    if (alone && !kn_image_process_is_busy(r->eye))
        kn_loop_later(r->loop, &r->glance);
    return true;
}

static bool look_at(void *ctx, const void *data, size_t len, unsigned largest, kn_looked_fn *looked, void *looked_ctx) {
    const look what = { .len = len, .largest = largest, .looked = looked, .ctx = looked_ctx };
    return take_look(ctx, &what, data);
}

static bool convert(void *ctx, const void *data, size_t len, kn_picture_format format, unsigned quality,
                    kn_converted_fn *converted, void *converted_ctx) {
    const look what = {
        .data = data, .len = len, .format = format, .quality = quality, .converted = converted, .ctx = converted_ctx
    };
    return take_look(ctx, &what, NULL);
}

static bool measure(void *ctx, const char *path, kn_measured_fn *measured, void *measured_ctx) {
    const look what = { .len = strlen(path), .measured = measured, .ctx = measured_ctx };
    return take_look(ctx, &what, path);
}

static bool inspect(void *ctx, const void *data, size_t len, kn_inspected_fn *inspected, void *inspected_ctx) {
    const look what = { .data = data, .len = len, .inspected = inspected, .ctx = inspected_ctx };
    return take_look(ctx, &what, NULL);
}

/* ---- beginning and end ---- */

bool kn_image_runner_new(kn_loop *l, const kn_image_runner_setup *setup, kn_image_runner **ret, kn_error *err) {
    kn_image_runner *r = calloc(1, sizeof *r);
    if (!r)
        return kn_fail_nomem(err, sizeof *r);
    *r = (kn_image_runner){ .loop = l,
                            .setup = *setup,
                            .turn = { .ready = ready, .refused = refused, .waits = waits },
                            .late.run = fail_late,
                            .glance.run = glance };
    r->last = &r->looks;
    const kn_image_process_options eye = { .isolation = setup->isolation,
                                           .keep_warm_ms = LOOK_WARM_MS,
                                           .deadline_ms = LOOK_WITHIN_MS,
                                           .log = setup->log,
                                           .log_ctx = setup->log_ctx,
                                           .told = kn_painter_told(setup->painter) };
    if (!kn_image_process_new(l, &eye, &r->eye, err)) {
        kn_image_runner_free(r);
        return false;
    }
    *ret = r;
    return true;
}

/* Last of all: other tasks of the runner may still stand in the loop's line. */
static void free_runner(kn_task *t) {
    free(KN_HOLDER(t, kn_image_runner, gone));
}

void kn_image_runner_free(kn_image_runner *r) {
    if (!r)
        return;
    r->closing = true;
    kn_image_process_free(r->eye);
    if (r->turn.state == KN_TURN_READY)
        kn_painter_abandon(r->setup.painter);
    kn_easel_drop(&r->turn);
    while (r->looks)
        tell_failure(take_first(r), "the service ends", false);
    r->gone.run = free_runner;
    kn_loop_later(r->loop, &r->gone);
}

kn_studio_runner kn_image_runner_face(kn_image_runner *r) {
    return (kn_studio_runner){ .ctx = r,
                               .backend = "cpu",
                               .device = "this machine's processor",
                               .formats = (1u << KN_PICTURE_FORMATS) - 1,
                               .kinds = ~0u,
                               .resizes = true,
                               .compose = compose,
                               .start = start,
                               .cancel = cancel,
                               .look = look_at,
                               .convert = convert,
                               .measure = measure,
                               .inspect = inspect,
                               .gaps = gaps,
                               .obstacle = obstacle,
                               .is_proven = is_proven,
                               .waits_for = waits_for,
                               .rest = rest };
}
