/* What `kuno generate` does: opens the model, draws one picture after the other, saves each when it is whole. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/threads.h"
#include "cli/generate.h"
#include "cli/generate_save.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/save.h"
#include "cli/signals.h"
#include "image/read.h"
#include "image/transform.h"
#include "image/write.h"
#include "pipelines/dump.h"
#include "pipelines/plan.h"
#include "pipelines/settings.h"

enum { JSON_LIMIT = 4 << 20, TEXT_LIMIT = 4 << 20 };

/* One run of the command. */
struct work {
    const kn_generate_options *o;
    const char *output;
    uint64_t count;
    kn_model *model;
    float *sigmas;
    kn_weights *noise_file;
    kn_image *pictures; /* references, then the one to start from and its mask */
    size_t picture_count;
    kn_progress progress;
    kn_dump *dump;
    json_t *images;                 /* NULL without --json */
    kn_draw_report report, reports; /* of the picture that is drawn, and of all before it */
    kn_saving saving;
    bool has_warned;
    kn_settings settings;
    double start;
};

static atomic_bool stop;

static void ask_to_stop(void *ctx) {
    (void)ctx;
    atomic_store(&stop, true);
}

/* As soon as it is known, and once, as all pictures have the same prompts. */
static void warn_of_prompts(struct work *w) {
    const char *const names[] = { "prompt", "negative prompt" };
    const int dropped[] = { w->report.dropped_tokens, w->report.dropped_negative_tokens };
    for (size_t i = 0; i < KN_COUNT(names); i++) {
        if (!dropped[i] || w->has_warned)
            continue;
        kn_progress_clear(&w->progress);
        kn_warn("the %s is too long: its last %s %s dropped", names[i], kn_counted((uint64_t)dropped[i], "token").text,
                dropped[i] == 1 ? "was" : "were");
    }
    if (!w->has_warned && w->o->negative_prompt && !kn_recipe_is_guided(&w->settings.recipe)) {
        kn_progress_clear(&w->progress);
        kn_warn("the negative prompt counts for nothing without guidance; see --cfg");
    }
    w->has_warned = true;
}

/* File names are bytes; JSON wants UTF-8. */
static json_t *json_name(const char *name, size_t len) {
    json_t *text = json_stringn(name, len);
    return text ? text : json_string(kn_quote(name, len).text);
}

/* One line, whatever is in the name. */
static bool tell(const char *name, const char *seed, kn_error *err) {
    KN_AUTO_BUF line;
    kn_buf_init(&line, PATH_MAX);
    bool made = kn_buf_printf(&line, "%s: seed %s\n", kn_quote_path(name).text, seed);
    return (made || kn_fail_nomem(err, PATH_MAX)) && kn_print(&line, err);
}

/* Waits for the picture that is being saved, if there is one, and tells of it. False: w->saving.err says why not. */
static bool end_saving(struct work *w) {
    kn_saving *s = &w->saving;
    if (!s->runs)
        return true;
    if (!kn_saving_end(s))
        return false;
    if (w->images)
        json_array_append_new(w->images,
                              json_pack("{s:o, s:s}", "file", json_name(s->name.data, s->name.len), "seed", s->seed));
    else if (!w->o->quiet && strcmp(w->output, "-") != 0) {
        kn_progress_clear(&w->progress);
        return tell(s->name.data, s->seed, &s->err);
    }
    return true;
}

static bool show(void *ctx, const char *phase, int step, int steps) {
    struct work *w = ctx;
    if (strcmp(phase, "encode") == 0) {
        warn_of_prompts(w);
        kn_progress_begin(&w->progress, "draw", (unsigned)w->settings.recipe.sigmas.steps);
    }
    if (strcmp(phase, "step") == 0)
        kn_progress_step(&w->progress, (unsigned)step);
    if (steps > 0 && step == steps)
        kn_progress_begin(&w->progress, "decode", 0);
    return !atomic_load(&w->saving.done) || end_saving(w);
}

static kn_optional optional(bool given, double value) {
    return (kn_optional){ .given = given, .value = value };
}

static bool open_model(struct work *w, kn_error *err) {
    const kn_generate_options *o = w->o;
    const kn_model_wish wish = {
        .config = o->config,
        .profile = o->model_profile,
        .diffusion_model = o->diffusion_model,
        .text_encoder = o->text_encoder,
        .vision = o->vision,
        .vae = o->vae,
        .tokenizer = o->tokenizer_path,
        .device = o->device,
        .precision = o->precision,
        .residency = o->residency,
        .threads = optional(o->threads.set, (double)o->threads.value),
    };
    if (!kn_model_open(&wish, &w->model, err))
        return false;
    const kn_default *of = w->model->choice.defaults.of;
    const kn_default *output = &of[KN_SETTING_OUTPUT], *count = &of[KN_SETTING_COUNT];
    w->output = o->output ? o->output : output->given ? output->text : "output.png";
    w->count = (uint64_t)(o->count.set ? o->count.value : count->given ? count->integer : 1);
    return true;
}

/* The start noise that the user gives instead of a seed. */
static bool read_noise(struct work *w, kn_wish *wish, kn_error *err) {
    const char *path = w->o->init_noise;
    if (!path)
        return true;
    if (!kn_weights_open(path, &w->noise_file, err))
        return kn_fail_within(err, "--init-noise: '%s'", kn_quote_path(path).text);
    const kn_entry *e = kn_weights_find(w->noise_file, "noise");
    if (!e || e->dtype != KN_F32 || (uintptr_t)e->data % sizeof(float))
        return kn_fail(err, KN_E_FORMAT, "--init-noise: '%s': a tensor 'noise' of type F32 is needed",
                       kn_quote_path(path).text);
    wish->init_noise = (const float *)(const void *)e->data;
    wish->init_noise_count = (size_t)e->elements;
    return true;
}

static bool read_picture(struct work *w, const char *option, const char *path, kn_error *err) {
    return kn_image_read_file(path, &KN_IMAGE_LIMITS, &w->pictures[w->picture_count++], err) ||
           kn_fail_within(err, "%s: '%s'", option, kn_quote_z(path).text);
}

static bool read_pictures(struct work *w, kn_wish *wish, kn_error *err) {
    const kn_generate_options *o = w->o;
    size_t references = o->references.count;
    w->pictures = calloc(references + 2, sizeof *w->pictures);
    if (!w->pictures)
        return kn_fail_nomem(err, (references + 2) * sizeof *w->pictures);
    for (size_t i = 0; i < references; i++)
        if (!read_picture(w, "--reference", o->references.paths[i], err))
            return false;
    if ((o->init_image && !read_picture(w, "--init-image", o->init_image, err)) ||
        (o->mask && !read_picture(w, "--mask", o->mask, err)))
        return false;
    wish->references = w->pictures;
    wish->reference_count = (int)references;
    wish->init_image = o->init_image ? &w->pictures[references] : NULL;
    wish->strength = optional(o->strength.set, o->strength.value);
    wish->inpaint = (kn_inpaint_wish){
        .mask = o->mask ? &w->pictures[references + 1] : NULL,
        .invert = o->mask_invert,
        .grow = optional(o->mask_grow.set, (double)o->mask_grow.value),
        .fade = optional(o->mask_fade.set, (double)o->mask_fade.value),
        .outpaint = { (uint32_t)o->outpaint.values[0], (uint32_t)o->outpaint.values[1], (uint32_t)o->outpaint.values[2],
                      (uint32_t)o->outpaint.values[3] },
        .show_region = !o->no_region && kn_pipeline_sees(w->model->pipeline),
    };
    return true;
}

static bool make_settings(struct work *w, kn_error *err) {
    const kn_generate_options *o = w->o;
    kn_wish wish = {
        .prompt = o->prompt,
        .negative_prompt = o->negative_prompt,
        .width = optional(o->size.set, o->size.width),
        .height = optional(o->size.set, o->size.height),
        .steps = optional(o->steps.set, (double)o->steps.value),
        .cfg = optional(o->cfg.set, o->cfg.value),
        .shift = { .flow_shift = optional(o->flow_shift.set, o->flow_shift.value),
                   .mu = optional(o->mu.set, o->mu.value),
                   .y1 = optional(o->shift_y1.set, o->shift_y1.value),
                   .y2 = optional(o->shift_y2.set, o->shift_y2.value) },
        .seed = o->seed.value,
        .seed_given = o->seed.set && !o->seed.random,
        .sampler = o->sampler,
        .scheduler = o->scheduler,
        .rng = o->rng,
        .vae_tiling = o->vae_tiling,
        .allow_swap = o->allow_swap,
    };
    if (o->sigmas.count) {
        w->sigmas = malloc(o->sigmas.count * sizeof *w->sigmas);
        if (!w->sigmas)
            return kn_fail_nomem(err, o->sigmas.count * sizeof *w->sigmas);
        for (size_t i = 0; i < o->sigmas.count; i++)
            w->sigmas[i] = (float)o->sigmas.values[i];
        wish.sigmas = w->sigmas;
        wish.sigma_count = o->sigmas.count;
    }
    const kn_model_choice *c = &w->model->choice;
    return read_noise(w, &wish, err) && read_pictures(w, &wish, err) &&
           kn_settings_make(&wish, &c->defaults, c->architecture, c->variant, &w->settings, err);
}

static bool check_room(const struct work *w, kn_error *err) {
    KN_AUTO_BUF text;
    kn_buf_init(&text, TEXT_LIMIT);
    return w->o->no_metadata || (kn_settings_describe(&w->settings, w->model->choice.profile->name, &text, err) &&
                                 (kn_image_has_room(kn_save_kind(w->output), text.data) ||
                                  kn_fail(err, KN_E_OUTPUT,
                                          "'%s': prompt and settings are too long for the notes of a JPEG file; "
                                          "--no-metadata leaves them out",
                                          kn_quote_path(w->output).text)));
}

/* Everything that could refuse the results is asked before the work. */
static bool check_places(const struct work *w, kn_error *err) {
    struct stat st;
    const char *folder = w->o->dump;
    if (folder && w->count > 1)
        return kn_fail(err, KN_E_USAGE, "--dump tells of one picture, and --count wants %llu",
                       (unsigned long long)w->count);
    if (folder && (stat(folder, &st) || !S_ISDIR(st.st_mode)))
        return kn_fail(err, KN_E_OUTPUT, "--dump: '%s' is not a folder; make it first", kn_quote_path(folder).text);
    KN_AUTO_BUF name;
    kn_buf_init(&name, PATH_MAX);
    for (uint64_t i = 0; i < w->count; i++) {
        kn_buf_clear(&name);
        if (!kn_save_name(w->output, i + 1, w->count, &name, err) || !kn_save_check(name.data, !w->o->no_clobber, err))
            return false;
    }
    return check_room(w, err);
}

static bool begin_saving(struct work *w, uint64_t index, kn_image *picture, kn_error *err) {
    kn_saving *s = &w->saving;
    s->picture = *picture;
    s->clobber = !w->o->no_clobber;
    s->metadata = !w->o->no_metadata;
    snprintf(s->seed, sizeof s->seed, "%" PRIu64, w->settings.recipe.seed);
    kn_buf_clear(&s->name);
    if (w->o->opaque)
        kn_image_make_opaque(picture);
    if (!kn_settings_describe(&w->settings, w->model->choice.profile->name, &s->parameters, err) ||
        !kn_save_name(w->output, index + 1, w->count, &s->name, err))
        return false;
    kn_saving_begin(s);
    return true;
}

static bool draw(struct work *w, uint64_t index, kn_error *err) {
    const kn_hooks hooks = {
        .progress = show, .progress_ctx = w, .dump = w->dump ? kn_dump_add : NULL, .dump_ctx = w->dump, .stop = &stop
    };
    kn_image picture = { 0 };
    kn_progress_begin(&w->progress, "encode", 0);
    if (!kn_model_draw(w->model, &w->settings.recipe, &hooks, &picture, &w->report, err))
        return false;
    kn_draw_report_add(&w->reports, &w->report);
    kn_progress_begin(&w->progress, "save", 0);
    if (end_saving(w))
        return begin_saving(w, index, &picture, err);
    kn_image_free(&picture);
    return false;
}

/* What went wrong with a picture that was being saved is why the next one was not finished. */
static bool draw_all(struct work *w, kn_error *err) {
    bool drawn = true;
    for (uint64_t i = 0; drawn && i < w->count; i++, w->settings.recipe.seed++)
        drawn = draw(w, i, err);
    if (!end_saving(w) || w->saving.err.code != KN_OK) {
        *err = w->saving.err;
        return false;
    }
    return drawn;
}

static json_t *stages(const kn_draw_report *report) {
    json_t *list = json_array();
    for (int i = 0; i < KN_STAGE_COUNT; i++) {
        const kn_stage_report *s = &report->stage[i];
        if (!s->name)
            continue;
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:f, s:f, s:I, s:I}", "name", s->name, "runs", s->runs,
                                              "reused", s->reused, "load_seconds", s->load_seconds, "seconds",
                                              s->seconds, "weight_bytes", (json_int_t)s->weight_bytes, "peak_bytes",
                                              (json_int_t)s->peak_bytes));
    }
    return list;
}

static bool print_json(struct work *w, kn_error *err) {
    const kn_recipe *r = &w->settings.recipe;
    const kn_model *m = w->model;
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:i, s:i, s:I, s:f, s:f, s:s, s:s, s:s, s:I, s:i, s:i, s:O, "
        "s:o, "
        "s:f}",
        "model", m->choice.profile->name, "architecture", m->choice.architecture->name, "variant",
        m->choice.variant->name, "device", kn_device_name(m->device), "kernels", kn_device_kernels(m->device),
        "threads", (int)kn_device_threads(m->device), "cores", (int)kn_threads_default(), "processors",
        (int)kn_threads_available(), "precision", m->precision == KN_EXACT ? "exact" : "fast", "width",
        r->width - r->cut_right, "height", r->height - r->cut_bottom, "steps", (json_int_t)r->sigmas.steps, "cfg",
        w->settings.cfg, "cfg_scale", r->cfg, "sampler", r->sampler->name.name, "scheduler", w->settings.scheduler,
        "rng", w->settings.rng, "prompt_tokens", (json_int_t)w->report.prompt_tokens, "dropped_tokens",
        w->report.dropped_tokens, "dropped_negative_tokens", w->report.dropped_negative_tokens, "images", w->images,
        "stages", stages(&w->reports), "seconds", kn_now() - w->start);
    char *text = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    if (!text)
        return kn_fail(err, KN_E_NOMEM, "out of memory for the description");
    KN_AUTO_BUF out;
    kn_buf_init(&out, JSON_LIMIT);
    bool ok = kn_buf_printf(&out, "%s\n", text) || kn_fail_nomem(err, strlen(text));
    free(text);
    return ok && kn_print(&out, err);
}

static bool work(struct work *w, kn_error *err) {
    if (!open_model(w, err) || !make_settings(w, err) || !check_places(w, err))
        return false;
    if ((w->o->dump && !(w->dump = kn_dump_new())) || (w->o->json && !(w->images = json_array())))
        return kn_fail_nomem(err, sizeof(void *));
    if (!draw_all(w, err))
        return false;
    kn_progress_end(&w->progress);
    return (!w->dump || kn_dump_write(w->dump, w->o->dump, err)) && (!w->images || print_json(w, err));
}

int kn_generate_run(const kn_generate_options *o) {
    struct work w = { .o = o, .start = kn_now() };
    kn_error err = { 0 };
    kn_signals_install(ask_to_stop, NULL);
    kn_progress_init(&w.progress, o->quiet);
    kn_saving_init(&w.saving);
    bool ok = work(&w, &err);
    if (!ok)
        kn_progress_clear(&w.progress);
    kn_saving_free(&w.saving);
    kn_dump_free(w.dump);
    json_decref(w.images);
    for (size_t i = 0; i < w.picture_count; i++)
        kn_image_free(&w.pictures[i]);
    free(w.pictures);
    free(w.sigmas);
    kn_settings_free(&w.settings);
    kn_weights_close(w.noise_file);
    kn_model_close(w.model);
    return ok ? 0 : kn_report(NULL, &err);
}
