#include "workers/draw_job.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "image/gain_map.h"
#include "image/parameters.h"
#include "image/read.h"
#include "image/transform.h"
#include "image/write.h"
#include "pipelines/inpaint.h"
#include "pipelines/plan.h"
#include "pipelines/settings.h"
#include "workers/workflows.h"

enum { TEXT_BYTES = 1 << 20 };

static void close_model(kn_drawer *d) {
    kn_model_close(d->model);
    free(d->profile);
    d->model = NULL;
    d->profile = NULL;
}

static void close_upscaler(kn_drawer *d) {
    kn_upscaler_close(d->upscaler);
    free(d->upscaler_name);
    d->upscaler = NULL;
    d->upscaler_name = NULL;
}

void kn_drawer_close(kn_drawer *d) {
    close_model(d);
    close_upscaler(d);
    kn_device_close(d->device);
    d->device = NULL;
}

/* ---- the model that a recipe means ---- */

/* *ret (malloc): NULL for the default one. */
static kn_job_code choose_profile(const kn_drawer *d, const kn_image_recipe *r, char **ret, kn_error *err) {
    const char *name = r->model ? r->model : d->wish.profile;
    kn_profiles all = { 0 };
    if (!r->model && r->workflow) {
        if (!kn_model_profiles(d->wish.config, &all, err))
            return KN_JOB_MODEL_MISSING;
        const kn_profile *p = kn_workflow_profile(r->workflow, &all, d->wish.profile);
        if (!p) {
            kn_fail(err, KN_E_NOT_FOUND, "no profile in models.toml is for the workflow %s", r->workflow->id);
            kn_profiles_free(&all);
            return KN_JOB_MODEL_MISSING;
        }
        name = p->name;
    }
    *ret = name ? strdup(name) : NULL;
    bool ok = !name || *ret || kn_fail_nomem(err, strlen(name));
    kn_profiles_free(&all);
    return ok ? KN_JOB_DONE : KN_JOB_OUT_OF_MEMORY;
}

static kn_job_code code_of_opening(const kn_error *err) {
    switch (err->code) {
    case KN_E_NOT_FOUND: return KN_JOB_MODEL_MISSING;
    case KN_E_NOMEM: return KN_JOB_OUT_OF_MEMORY;
    case KN_E_IO:
    case KN_E_USAGE: return KN_JOB_FAILED;
    default: return KN_JOB_MODEL_MISMATCH;
    }
}

static bool is_same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static kn_job_code open_model(kn_drawer *d, const kn_image_recipe *r, kn_error *err) {
    char *profile = NULL;
    kn_job_code code = choose_profile(d, r, &profile, err);
    if (code != KN_JOB_DONE)
        return code;
    if (d->model && is_same(profile, d->profile) && kn_pipeline_is_current(d->model->pipeline)) {
        free(profile);
    } else {
        close_model(d); /* first, so that there is memory for both only where it is needed */
        kn_model_wish wish = d->wish;
        wish.profile = d->profile = profile;
        if (!kn_model_open(&wish, &d->model, err))
            return code_of_opening(err);
    }
    const kn_model_choice *c = &d->model->choice;
    if (!r->workflow || strcmp(c->architecture->name, r->workflow->architecture) == 0)
        return KN_JOB_DONE;
    kn_fail(err, KN_E_USAGE, "the profile '%s' is of %s, which the workflow %s is not for",
            kn_quote_z(c->profile->name).text, c->architecture->title, r->workflow->id);
    return KN_JOB_MODEL_MISMATCH;
}

/* ---- drawing ---- */

struct job {
    const kn_image_recipe *asked;
    const kn_draw_listener *listener;
    kn_image pictures[KN_RECIPE_REFERENCES_MAX + 2]; /* references, the one to start from, its mask; owned */
    int picture_count;
    bool enlarged;                        /* the picture to another size than it was drawn at */
    uint32_t source_width, source_height; /* of the picture whose gain map is to be kept */
    kn_error hdr_lost;                    /* why it could not be */
    kn_settings settings;
    kn_draw_report report;
};

static bool read_picture(struct job *j, const char *what, int number, const kn_buf *file, kn_error *err) {
    kn_image *to = &j->pictures[j->picture_count];
    if (!kn_image_read(file->data, file->len, &KN_IMAGE_LIMITS, to, err))
        return kn_fail_within(err, "%s %d", what, number);
    j->picture_count++;
    return !j->asked->prompt || kn_settings_check_picture(what, number, to, err); /* any can be enlarged */
}

/* The picture whose gain map goes with the result, if one does. */
static int source_of(const struct job *j) {
    return j->asked->init_image.len ? j->asked->reference_count : 0;
}

static const kn_buf *source_file(const struct job *j) {
    return j->asked->init_image.len ? &j->asked->init_image : &j->asked->references[0];
}

static bool has_source(const struct job *j) {
    return j->asked->init_image.len || j->asked->reference_count;
}

static bool read_pictures(struct job *j, kn_error *err) {
    for (int i = 0; i < j->asked->reference_count; i++)
        if (!read_picture(j, "reference", i + 1, &j->asked->references[i], err))
            return false;
    if (j->asked->init_image.len && !read_picture(j, "picture to start from", 1, &j->asked->init_image, err))
        return false;
    if (has_source(j)) {
        j->source_width = j->pictures[source_of(j)].width;
        j->source_height = j->pictures[source_of(j)].height;
    }
    return !j->asked->mask.len || read_picture(j, "mask", 1, &j->asked->mask, err);
}

/* In pixels of what is drawn, which may be smaller than the source, with its new sides, that the result is brought back
 * to. */
static kn_optional fade_of(const struct job *j) {
    const kn_image_recipe *r = j->asked;
    kn_optional fade = r->feather;
    if (fade.given && r->width.given && r->size.width)
        fade.value = rint(fade.value * r->width.value / (r->outpaint.left + j->source_width + r->outpaint.right));
    return fade;
}

/* Whether a latent with cells of that size has anything of a mask that is drawn at width x height. */
static bool look_at_mask(const kn_image *picture, uint32_t width, uint32_t height, uint32_t cell, bool *ret_seen,
                         kn_error *err) {
    kn_mask given = { 0 }, drawn = { 0 }, latent = { 0 };
    bool ok = kn_mask_from_picture(picture, &given, err) && kn_mask_resize(&given, width, height, &drawn, err) &&
              kn_mask_resize(&drawn, width / cell, height / cell, &latent, err);
    *ret_seen = ok && !kn_mask_is_empty(&latent);
    kn_mask_free(&given);
    kn_mask_free(&drawn);
    kn_mask_free(&latent);
    return ok;
}

/* By how much a mask has to grow, of a source that is drawn smaller, to reach the middle of a cell still. What is then
 * drawn beside it goes when the source is restored. */
static bool find_growth(const struct job *j, const kn_architecture *a, kn_optional *ret, kn_error *err) {
    const kn_image_recipe *r = j->asked;
    const kn_image *mask = &j->pictures[r->reference_count + 1];
    uint32_t cell = (uint32_t)kn_architecture_cell(a);
    bool seen = true;
    *ret = (kn_optional){ 0 };
    if (!r->mask.len || !r->width.given || !r->height.given || mask->width <= r->width.value ||
        r->size.width != mask->width || r->size.height != mask->height)
        return true;
    if (!look_at_mask(mask, (uint32_t)r->width.value, (uint32_t)r->height.value, cell, &seen, err))
        return false;
    double smaller = fmax(mask->width / r->width.value, mask->height / r->height.value);
    if (!seen)
        *ret = (kn_optional){ true, fmin(ceil(smaller * cell / 2), KN_MASK_REACH_MAX) };
    return true;
}

static bool make_settings(struct job *j, const kn_model *m, kn_error *err) {
    const kn_image_recipe *r = j->asked;
    const kn_model_choice *c = &m->choice;
    kn_optional grow;
    if (!find_growth(j, c->architecture, &grow, err))
        return false;
    const kn_wish wish = {
        .prompt = r->prompt,
        .negative_prompt = r->negative_prompt,
        .width = r->width,
        .height = r->height,
        .steps = r->steps,
        .cfg = r->cfg,
        .shift = { .flow_shift = r->flow_shift },
        .seed = r->seed,
        .seed_given = r->seed_given,
        .sampler = r->sampler,
        .scheduler = r->scheduler,
        .references = j->pictures,
        .reference_count = r->reference_count,
        .init_image = r->init_image.len ? &j->pictures[r->reference_count] : NULL,
        .strength = r->strength,
        .inpaint = { .mask = r->mask.len ? &j->pictures[r->reference_count + 1] : NULL,
                     .grow = grow,
                     .fade = fade_of(j),
                     .outpaint = r->outpaint,
                     .show_region = r->show_region && kn_pipeline_sees(m->pipeline) },
    };
    if (!kn_settings_make(&wish, &c->defaults, c->architecture, c->variant, &j->settings, err))
        return false;
    if (!r->seed_given)
        j->settings.recipe.seed &= INT64_MAX; /* so that it can be asked for again */
    return true;
}

static bool tell_progress(void *ctx, const char *phase, int step, int steps) {
    static const char *const phases[KN_PHASES] = { "load", "encode", "step", "decode", "tile" };
    const struct job *j = ctx;
    int which = 0;
    while (which < KN_PHASES - 1 && strcmp(phase, phases[which]) != 0)
        which++;
    if (j->listener->progress)
        j->listener->progress(j->listener->ctx, (kn_frame_phase)which, step, steps);
    return true;
}

static bool draw(struct job *j, kn_model *m, kn_image *ret, kn_error *err) {
    const kn_hooks hooks = { .progress = tell_progress,
                             .progress_ctx = j,
                             .preview = j->listener->preview,
                             .preview_ctx = j->listener->ctx,
                             .stop = j->listener->stop };
    return kn_model_draw(m, &j->settings.recipe, &hooks, ret, &j->report, err);
}

/* Never a reason to fail: without its map a picture is what others see of it. */
static bool write_hdr(const struct job *j, const kn_image_form *form, const kn_image *picture, kn_buf *file,
                      kn_error *err) {
    const kn_image_recipe *r = j->asked;
    const kn_buf *source = source_file(j);
    kn_gain_map map;
    kn_image_form with = *form;
    if (form->kind != KN_IMAGE_JPEG)
        return kn_fail(err, KN_E_UNSUPPORTED, "only JPEG files have room for a gain map");
    if (r->outpaint.left || r->outpaint.top || r->outpaint.right || r->outpaint.bottom ||
        !kn_gain_map_has_shape(j->source_width, j->source_height, picture->width, picture->height))
        return kn_fail(err, KN_E_UNSUPPORTED, "the result shows another part of the scene than its source");
    if (!kn_gain_map_read(source->data, source->len, &KN_IMAGE_LIMITS, &map, err))
        return false;
    with.gain_map = &map;
    bool ok =
        kn_gain_map_fit(&map, &j->pictures[source_of(j)], picture, err) && kn_image_write(picture, &with, file, err);
    kn_gain_map_free(&map);
    return ok;
}

/* m: NULL: there are no settings to tell. */
static bool write_file(struct job *j, const kn_model *m, const kn_image *picture, kn_buf *file, kn_error *err) {
    KN_AUTO_BUF text;
    kn_image_form form = { .kind = j->asked->kind, .quality = j->asked->quality };
    kn_buf_init(&text, TEXT_BYTES);
    if (m && j->asked->metadata) {
        if (!kn_settings_describe(&j->settings, m->choice.profile->name, &text, err))
            return false;
        form.parameters = text.data;
    }
    size_t start = file->len;
    if (j->asked->keep_hdr && has_source(j) && kn_gain_map_is_there(source_file(j)->data, source_file(j)->len) &&
        write_hdr(j, &form, picture, file, &j->hdr_lost))
        return true;
    file->len = start;
    file->data[start] = 0;
    return kn_image_write(picture, &form, file, err);
}

/* Numbers and names only: nothing of the prompt. */
static bool add_report(json_t *all, kn_buf *into, kn_error *err) {
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    bool ok = (text && kn_buf_add_text(into, text)) || kn_fail_nomem(err, into->limit);
    free(text);
    json_decref(all);
    return ok;
}

/* NULL: nothing is lost. */
static const char *hdr_lost(const struct job *j) {
    return j->hdr_lost.code == KN_OK ? NULL : j->hdr_lost.text;
}

static bool write_report(const struct job *j, const kn_model *m, const kn_image *picture, kn_buf *into, kn_error *err) {
    char seed[24];
    double load = 0, seconds = 0;
    uint64_t peak = 0;
    for (int i = 0; i < KN_STAGE_COUNT; i++) {
        const kn_stage_report *s = &j->report.stage[i];
        load += s->load_seconds;
        seconds += s->seconds;
        peak = KN_MAX(peak, s->peak_bytes + s->weight_bytes);
    }
    snprintf(seed, sizeof seed, "%" PRIu64, j->settings.recipe.seed);
    json_t *all = json_pack("{s:s, s:s, s:i, s:i, s:i, s:f, s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:I, s:s*}", "seed",
                            seed, "model", m->choice.profile->name, "width", (int)picture->width, "height",
                            (int)picture->height, "steps", (int)j->settings.recipe.sigmas.steps, "cfg", j->settings.cfg,
                            "sampler", j->settings.recipe.sampler->name.name, "scheduler", j->settings.scheduler,
                            "prompt_tokens", j->report.prompt_tokens, "dropped_tokens", j->report.dropped_tokens,
                            "dropped_negative_tokens", j->report.dropped_negative_tokens, "load_seconds", load,
                            "seconds", seconds, "peak_bytes", (json_int_t)peak, "hdr_lost", hdr_lost(j));
    return add_report(all, into, err);
}

/* ---- another size ---- */

static bool has_device(kn_drawer *d, kn_error *err) {
    unsigned threads = d->wish.threads.given ? (unsigned)d->wish.threads.value : 0;
    return d->device || kn_device_open_cpu(threads, &d->device, err);
}

static bool open_upscaler(kn_drawer *d, const char *name, kn_error *err) {
    if (is_same(name, d->upscaler_name) && (!name || kn_upscaler_is_current(d->upscaler)))
        return true;
    close_upscaler(d);
    if (!name)
        return true;
    char *path = NULL;
    if (!d->upscalers)
        return kn_fail(err, KN_E_NOT_FOUND, "there is no folder of upscalers");
    if (asprintf(&path, "%s/%s", d->upscalers, name) < 0 || !(d->upscaler_name = strdup(name))) {
        free(path);
        return kn_fail_nomem(err, strlen(name));
    }
    bool exact = d->wish.precision && strcmp(d->wish.precision, "exact") == 0;
    bool ok = has_device(d, err) && kn_upscaler_open(path, d->device, exact ? KN_EXACT : KN_FAST, &d->upscaler, err);
    free(path);
    if (!ok)
        close_upscaler(d);
    return ok;
}

/* A margin of the model's grid is cut off; anything else is enlarged or reduced. */
static bool is_margin(const kn_image *picture, const kn_recipe_size *to) {
    enum { MARGIN = 32 };
    return picture->width >= to->width && picture->height >= to->height && picture->width - to->width < MARGIN &&
           picture->height - to->height < MARGIN;
}

/* picture is replaced. */
static kn_job_code bring_to_size(struct job *j, kn_drawer *d, kn_image *picture, kn_error *err) {
    const kn_recipe_size *to = &j->asked->size;
    const kn_upscale_wish wish = { .width = to->width,
                                   .height = to->height,
                                   .blend = to->blend,
                                   .prescale = to->prescale,
                                   .tile = to->tile / KN_UPSCALE_TILE_STEP * KN_UPSCALE_TILE_STEP,
                                   .progress = tell_progress,
                                   .progress_ctx = j,
                                   .stop = j->listener->stop };
    kn_upscale_report report;
    kn_image larger = { 0 };
    if (j->asked->prompt && is_margin(picture, to)) {
        kn_image_cut(picture, to->width, to->height);
        return KN_JOB_DONE;
    }
    if (!open_upscaler(d, to->upscaler, err))
        return code_of_opening(err);
    if (!kn_upscale(d->upscaler, picture, &wish, &larger, &report, err))
        return kn_job_code_of_error(err);
    kn_image_free(picture);
    *picture = larger;
    j->enlarged = true;
    return KN_JOB_DONE;
}

kn_job_code kn_measure_job(kn_drawer *d, const char *path, uint32_t *ret, kn_error *err) {
    kn_upscaler *u = NULL;
    if (!has_device(d, err) || !kn_upscaler_open(path, d->device, KN_FAST, &u, err))
        return code_of_opening(err);
    *ret = kn_upscaler_about(u).scale;
    kn_upscaler_close(u);
    return KN_JOB_DONE;
}

static bool add_alpha(kn_image *picture, kn_error *err) {
    kn_image rgba = { 0 };
    if (picture->channels == 4)
        return true;
    if (!kn_image_new(picture->width, picture->height, 4, &rgba, err))
        return false;
    for (size_t i = 0, n = (size_t)rgba.width * rgba.height; i < n; i++) {
        memcpy(rgba.pixels + 4 * i, picture->pixels + 3 * i, 3);
        rgba.pixels[4 * i + 3] = 255;
    }
    kn_image_free(picture);
    *picture = rgba;
    return true;
}

/* A source, or a canvas for it, that the model could not work on as it is was drawn smaller, all of it: what the mask
 * keeps comes back. */
static bool restore_source(const struct job *j, kn_image *picture, kn_error *err) {
    const kn_image *source = &j->pictures[j->asked->reference_count];
    const kn_sides *sides = &j->settings.outpaint;
    const kn_inpaint_wish wish = { .mask = j->asked->mask.len ? source + 1 : NULL,
                                   .outpaint = *sides,
                                   .fade = j->asked->feather };
    double enlarged = wish.fade.given ? 1 : (double)picture->width / j->settings.recipe.width;
    if (!kn_inpaint_is_wanted(&wish) || !j->enlarged || picture->width != sides->left + source->width + sides->right ||
        picture->height != sides->top + source->height + sides->bottom)
        return true;
    if (!add_alpha(picture, err) || !kn_inpaint_restore(&wish, source, enlarged, picture, err))
        return false;
    if (j->asked->opaque)
        kn_image_make_opaque(picture);
    return true;
}

static kn_job_code resize_only(struct job *j, kn_drawer *d, kn_buf *file, kn_buf *report, kn_error *err) {
    if (!read_pictures(j, err))
        return err->code == KN_E_NOMEM ? KN_JOB_OUT_OF_MEMORY : KN_JOB_REFERENCE_INVALID;
    kn_image *picture = &j->pictures[j->picture_count - 1];
    kn_job_code code = bring_to_size(j, d, picture, err);
    if (code != KN_JOB_DONE)
        return code;
    bool ok = write_file(j, NULL, picture, file, err) &&
              add_report(json_pack("{s:i, s:i, s:s*}", "width", (int)picture->width, "height", (int)picture->height,
                                   "hdr_lost", hdr_lost(j)),
                         report, err);
    return ok ? KN_JOB_DONE : KN_JOB_FAILED;
}

static kn_job_code run(struct job *j, kn_drawer *d, kn_model *m, kn_buf *file, kn_buf *report, kn_error *err) {
    kn_image picture = { 0 };
    if (!read_pictures(j, err))
        return err->code == KN_E_NOMEM ? KN_JOB_OUT_OF_MEMORY : KN_JOB_REFERENCE_INVALID;
    if (!make_settings(j, m, err))
        return err->code == KN_E_NOMEM ? KN_JOB_OUT_OF_MEMORY : KN_JOB_INVALID;
    if (j->asked->reference_count && !kn_pipeline_check_sight(m->pipeline, err)) /* of its files, not of the recipe */
        return err->code == KN_E_NOMEM ? KN_JOB_OUT_OF_MEMORY : KN_JOB_MODEL_MISMATCH;
    if (!draw(j, m, &picture, err))
        return kn_job_code_of_error(err);
    if (j->asked->opaque)
        kn_image_make_opaque(&picture);
    kn_job_code code = j->asked->size.width ? bring_to_size(j, d, &picture, err) : KN_JOB_DONE;
    if (code == KN_JOB_DONE && !restore_source(j, &picture, err))
        code = kn_job_code_of_error(err);
    if (code == KN_JOB_DONE && !(write_file(j, m, &picture, file, err) && write_report(j, m, &picture, report, err)))
        code = KN_JOB_FAILED;
    kn_image_free(&picture);
    return code;
}

static kn_job_code do_job(struct job *j, kn_drawer *d, kn_buf *file, kn_buf *report, kn_error *err) {
    if (!j->asked->prompt)
        return resize_only(j, d, file, report, err);
    kn_job_code code = open_model(d, j->asked, err);
    return code == KN_JOB_DONE ? run(j, d, d->model, file, report, err) : code;
}

kn_job_code kn_draw_job(kn_drawer *d, const char *recipe, size_t len, const kn_draw_listener *listener, kn_buf *file,
                        kn_buf *report, bool *large, kn_error *err) {
    kn_image_recipe asked = { 0 };
    kn_job_code code = kn_image_recipe_read(recipe, len, true, &asked, NULL, err);
    if (code != KN_JOB_DONE)
        return code;
    struct job j = { .asked = &asked, .listener = listener };
    *large = asked.size.width;
    if (*large)
        kn_buf_init(file, KN_LARGE_BYTES);
    code = do_job(&j, d, file, report, err);
    kn_settings_free(&j.settings);
    for (int i = 0; i < j.picture_count; i++)
        kn_image_free(&j.pictures[i]);
    kn_image_recipe_free(&asked);
    return code;
}
