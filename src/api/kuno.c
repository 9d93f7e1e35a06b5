/* The public API over the pipelines: copies what callers own, keeps the flag that stops a call, maps errors. */
#include "kuno.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "image/parameters.h"
#include "image/png.h"
#include "image/read.h"
#include "image/transform.h"
#include "pipelines/conditions.h"
#include "pipelines/dump.h"
#include "pipelines/plan.h"
#include "pipelines/settings.h"
#include "pipelines/upscale.h"

enum { TEXT_LIMIT = 4 << 20, PNG_LIMIT = 1 << 30 };

struct kuno_model {
    kn_model *model;
    atomic_bool stop;
    char *text[7];          /* copies of the options' texts */
    kn_draw_report reports; /* of the last call's pictures */
};

static kuno_code give(const kn_error *from, kuno_error *to) {
    kuno_code code = (kuno_code)kn_exit_code(from->code);
    if (to) {
        *to = (kuno_error){ .code = code };
        memcpy(to->text, from->text, sizeof to->text);
    }
    return code;
}

static bool copy_text(const char *text, char **ret, kn_error *err) {
    if (text && !(*ret = strdup(text)))
        return kn_fail_nomem(err, strlen(text));
    return true;
}

kuno_code kuno_model_open(const kuno_model_options *options, kuno_model **ret, kuno_error *error) {
    const kuno_model_options nothing = { 0 }, *o = options ? options : &nothing;
    const char *const texts[] = { o->config, o->profile, o->diffusion_model, o->text_encoder,
                                  o->vision, o->vae,     o->tokenizer };
    kn_error err = { 0 };
    kuno_model *m = calloc(1, sizeof *m);
    if (!m) {
        kn_fail_nomem(&err, sizeof *m);
        return give(&err, error);
    }
    bool ok = true;
    for (size_t i = 0; ok && i < KN_COUNT(texts); i++)
        ok = copy_text(texts[i], &m->text[i], &err);
    if (ok) {
        const kn_model_wish wish = {
            .config = m->text[0],
            .profile = m->text[1],
            .diffusion_model = m->text[2],
            .text_encoder = m->text[3],
            .vision = m->text[4],
            .vae = m->text[5],
            .tokenizer = m->text[6],
            .threads = { .given = o->threads > 0, .value = o->threads },
            .precision = o->precision == KUNO_EXACT ? "exact" : "fast",
            .residency = o->keep_loaded ? "cached" : "staged",
        };
        ok = kn_model_open(&wish, &m->model, &err);
    }
    if (ok) {
        *ret = m;
        return KUNO_OK;
    }
    kuno_model_close(m);
    return give(&err, error);
}

void kuno_model_close(kuno_model *model) {
    if (!model)
        return;
    kn_model_close(model->model);
    for (size_t i = 0; i < KN_COUNT(model->text); i++)
        free(model->text[i]);
    free(model);
}

void kuno_cancel(kuno_model *model) {
    atomic_store(&model->stop, true);
}

void kuno_request_init(kuno_request *request) {
    *request = (kuno_request){ .cfg = -1,
                               .random_seed = 1,
                               .strength = -1,
                               .mask_fade = -1,
                               .flow_shift = NAN,
                               .mu = NAN,
                               .shift_y1 = NAN,
                               .shift_y2 = NAN };
}

/* One call on a model. */
struct call {
    kuno_model *model;
    const kuno_request *request;
    double start;
    kn_image picture[KN_MAX_REFERENCES + 2]; /* references, then the one to start from and its mask; owned */
    kn_settings settings;
    kn_dump *dump;
};

static bool progress(void *ctx, const char *phase, int step, int steps) {
    const struct call *c = ctx;
    const kuno_progress p = { .phase = phase, .step = step, .steps = steps, .seconds = kn_now() - c->start };
    return !c->request->progress || c->request->progress(c->request->progress_context, &p) == 0;
}

/* A copy with an alpha channel. */
static bool take_picture(const char *what, const kuno_image *from, kn_image *ret, kn_error *err) {
    if (!from->pixels || from->width < 1 || from->height < 1 || (from->channels != 3 && from->channels != 4))
        return kn_fail(err, KN_E_USAGE, "%s: not a picture of %d channels and %dx%d pixels", what, from->channels,
                       from->width, from->height);
    uint32_t width = (uint32_t)from->width, height = (uint32_t)from->height;
    kn_image copy = { 0 };
    if (!kn_image_check_size(width, height, &KN_IMAGE_LIMITS, err) || !kn_image_new(width, height, 4, &copy, err))
        return kn_fail_within(err, "%s", what);
    for (size_t i = 0, n = (size_t)width * height; i < n; i++) {
        const unsigned char *pixel = from->pixels + i * (size_t)from->channels;
        const uint8_t rgba[4] = { pixel[0], pixel[1], pixel[2], from->channels == 4 ? pixel[3] : 255 };
        memcpy(copy.pixels + 4 * i, rgba, sizeof rgba);
    }
    *ret = copy;
    return true;
}

static bool take_pictures(struct call *c, kn_error *err) {
    const kuno_request *q = c->request;
    if (q->reference_count < 0 || q->reference_count > KN_MAX_REFERENCES)
        return kn_fail(err, KN_E_RANGE, "%d reference pictures; 0 to %d are possible", q->reference_count,
                       KN_MAX_REFERENCES);
    for (int i = 0; i < q->reference_count; i++)
        if (!take_picture("reference", &q->references[i], &c->picture[i], err))
            return false;
    return (!q->init_image || take_picture("init image", q->init_image, &c->picture[q->reference_count], err)) &&
           (!q->mask || take_picture("mask", q->mask, &c->picture[q->reference_count + 1], err));
}

static bool take_inpaint(const struct call *c, kn_inpaint_wish *ret, kn_error *err) {
    const kuno_request *q = c->request;
    const kuno_sides *s = &q->outpaint;
    if (s->left < 0 || s->top < 0 || s->right < 0 || s->bottom < 0)
        return kn_fail(err, KN_E_RANGE, "outpainting by %d,%d,%d,%d pixels; a side cannot become shorter", s->left,
                       s->top, s->right, s->bottom);
    *ret = (kn_inpaint_wish){
        .mask = q->mask ? &c->picture[q->reference_count + 1] : NULL,
        .invert = q->mask_invert != 0,
        .grow = { .given = q->mask_grow != 0, .value = q->mask_grow },
        .fade = { .given = q->mask_fade >= 0, .value = q->mask_fade },
        .outpaint = { (uint32_t)s->left, (uint32_t)s->top, (uint32_t)s->right, (uint32_t)s->bottom },
        .show_region = !q->no_region && kn_pipeline_sees(c->model->model->pipeline),
    };
    return true;
}

static kn_optional unless_nan(double value) {
    return (kn_optional){ .given = !isnan(value), .value = value };
}

static bool make_settings(struct call *c, kn_error *err) {
    const kuno_request *q = c->request;
    const kn_model_choice *m = &c->model->model->choice;
    kn_wish wish = {
        .prompt = q->prompt,
        .negative_prompt = q->negative_prompt,
        .width = { .given = q->width != 0, .value = q->width },
        .height = { .given = q->height != 0, .value = q->height },
        .steps = { .given = q->steps != 0, .value = q->steps },
        .cfg = { .given = q->cfg >= 0, .value = q->cfg },
        .shift = { unless_nan(q->flow_shift), unless_nan(q->mu), unless_nan(q->shift_y1), unless_nan(q->shift_y2) },
        .seed = q->seed,
        .seed_given = !q->random_seed,
        .sampler = q->sampler,
        .scheduler = q->scheduler,
        .rng = q->rng,
        .sigmas = q->sigmas,
        .sigma_count = q->sigma_count,
        .init_noise = q->init_noise,
        .init_noise_count = q->init_noise_count,
        .references = c->picture,
        .reference_count = q->reference_count,
        .init_image = q->init_image ? &c->picture[q->reference_count] : NULL,
        .strength = { .given = q->strength >= 0, .value = q->strength },
        .vae_tiling = q->vae_tiling != 0,
        .allow_swap = q->allow_swap != 0,
    };
    return take_pictures(c, err) && take_inpaint(c, &wish.inpaint, err) &&
           kn_settings_make(&wish, &m->defaults, m->architecture, m->variant, &c->settings, err);
}

static bool draw(struct call *c, kuno_image *ret, kn_error *err) {
    kn_model *m = c->model->model;
    const kn_hooks hooks = { .progress = progress,
                             .progress_ctx = c,
                             .dump = c->dump ? kn_dump_add : NULL,
                             .dump_ctx = c->dump,
                             .stop = &c->model->stop };
    kn_image picture = { 0 };
    kn_draw_report report;
    KN_AUTO_BUF text;
    kn_buf_init(&text, TEXT_LIMIT);
    if (!kn_settings_describe(&c->settings, m->choice.profile->name, &text, err))
        return false;
    char *parameters = strdup(text.data);
    if (!parameters)
        return kn_fail_nomem(err, text.len);
    if (!kn_model_draw(m, &c->settings.recipe, &hooks, &picture, &report, err)) {
        free(parameters);
        return false;
    }
    if (c->request->opaque)
        kn_image_make_opaque(&picture);
    kn_draw_report_add(&c->model->reports, &report);
    *ret = (kuno_image){ .width = (int)picture.width,
                         .height = (int)picture.height,
                         .channels = (int)picture.channels,
                         .pixels = picture.pixels,
                         .seed = c->settings.recipe.seed,
                         .parameters = parameters };
    return true;
}

static bool draw_all(struct call *c, size_t count, kuno_image *ret, kn_error *err) {
    const char *dump = c->request->dump;
    if (dump && !(c->dump = kn_dump_new()))
        return kn_fail_nomem(err, sizeof(void *));
    for (size_t i = 0; i < count; i++, c->settings.recipe.seed++)
        if (!draw(c, &ret[i], err))
            return false;
    return !dump || kn_dump_write(c->dump, dump, err);
}

static bool check_count(const struct call *c, size_t count, kn_error *err) {
    if (count > 1 && c->request->dump)
        return kn_fail(err, KN_E_USAGE, "a dump tells of one picture, and %zu are wanted", count);
    return c->settings.recipe.seed <= UINT64_MAX - (count - 1) ||
           kn_fail(err, KN_E_USAGE, "the last seed would be beyond 18446744073709551615");
}

kuno_code kuno_generate_batch(kuno_model *model, const kuno_request *request, size_t count, kuno_image *ret,
                              kuno_error *error) {
    kn_error err = { 0 };
    struct call c = { .model = model, .request = request, .start = kn_now() };
    if (count < 1 || count > KUNO_BATCH_MAX) {
        kn_fail(&err, KN_E_RANGE, "%zu pictures; 1 to %d are possible", count, KUNO_BATCH_MAX);
        return give(&err, error);
    }
    kuno_image *drawn = calloc(count, sizeof *drawn);
    atomic_store(&model->stop, false);
    model->reports = (kn_draw_report){ 0 };
    bool ok = (drawn || kn_fail_nomem(&err, count * sizeof *drawn)) && make_settings(&c, &err) &&
              check_count(&c, count, &err) && draw_all(&c, count, drawn, &err);
    if (ok)
        memcpy(ret, drawn, count * sizeof *drawn);
    for (size_t i = 0; !ok && drawn && i < count; i++)
        kuno_image_free(&drawn[i]);
    free(drawn);
    kn_dump_free(c.dump);
    kn_settings_free(&c.settings);
    for (size_t i = 0; i < KN_COUNT(c.picture); i++)
        kn_image_free(&c.picture[i]);
    return ok ? KUNO_OK : give(&err, error);
}

kuno_code kuno_generate(kuno_model *model, const kuno_request *request, kuno_image *ret, kuno_error *error) {
    return kuno_generate_batch(model, request, 1, ret, error);
}

void kuno_model_report(const kuno_model *model, kuno_report *ret) {
    const kn_draw_report *from = &model->reports;
    _Static_assert((int)KUNO_STAGES == (int)KN_STAGE_COUNT, "the stages of a pipeline");
    *ret = (kuno_report){ .prompt_tokens = from->prompt_tokens,
                          .dropped_tokens = from->dropped_tokens,
                          .dropped_negative_tokens = from->dropped_negative_tokens };
    for (int i = 0; i < KUNO_STAGES; i++) {
        const kn_stage_report *s = &from->stage[i];
        ret->stages[i] = (kuno_stage){ .name = s->name,
                                       .runs = s->runs,
                                       .reused = s->reused,
                                       .load_seconds = s->load_seconds,
                                       .seconds = s->seconds,
                                       .weight_bytes = s->weight_bytes,
                                       .peak_bytes = s->peak_bytes };
    }
}

struct kuno_upscaler {
    kn_device *device;
    kn_upscaler *network; /* NULL: Lanczos alone */
    atomic_bool stop;
};

kuno_code kuno_upscaler_open(const char *file, unsigned threads, kuno_precision precision, kuno_upscaler **ret,
                             kuno_error *error) {
    kn_error err = { 0 };
    kn_precision p = precision == KUNO_EXACT ? KN_EXACT : KN_FAST;
    kuno_upscaler *u = calloc(1, sizeof *u);
    bool ok = u || kn_fail_nomem(&err, sizeof *u);
    if (ok && file)
        ok = kn_device_open_cpu(threads, &u->device, &err) && kn_upscaler_open(file, u->device, p, &u->network, &err);
    if (ok) {
        *ret = u;
        return KUNO_OK;
    }
    kuno_upscaler_close(u);
    return give(&err, error);
}

void kuno_upscaler_close(kuno_upscaler *upscaler) {
    if (!upscaler)
        return;
    kn_upscaler_close(upscaler->network);
    kn_device_close(upscaler->device);
    free(upscaler);
}

int kuno_upscaler_scale(const kuno_upscaler *upscaler) {
    return upscaler->network ? (int)kn_upscaler_about(upscaler->network).scale : 1;
}

void kuno_upscaler_cancel(kuno_upscaler *upscaler) {
    atomic_store(&upscaler->stop, true);
}

struct enlarging {
    const kuno_upscale_request *request;
    double start;
};

static bool enlarging_progress(void *ctx, const char *phase, int step, int steps) {
    const struct enlarging *e = ctx;
    const kuno_progress p = { .phase = phase, .step = step, .steps = steps, .seconds = kn_now() - e->start };
    return e->request->progress(e->request->progress_context, &p) == 0;
}

static bool enlarge(kuno_upscaler *u, const kn_image *from, const kuno_upscale_request *q, kn_image *ret,
                    kn_error *err) {
    struct enlarging e = { .request = q, .start = kn_now() };
    kn_upscale_report report;
    uint32_t scale = (uint32_t)kuno_upscaler_scale(u);
    bool is_default = q->width == 0 && q->height == 0;
    if (q->width < 0 || q->height < 0 || q->tile < 0)
        return kn_fail(err, KN_E_RANGE, "%dx%d in tiles of %d: sizes are not negative", q->width, q->height, q->tile);
    const kn_upscale_wish wish = { .width = is_default ? from->width * scale : (uint32_t)q->width,
                                   .height = is_default ? from->height * scale : (uint32_t)q->height,
                                   .blend = q->blend,
                                   .prescale = q->prescale != 0,
                                   .tile = (uint32_t)q->tile,
                                   .progress = q->progress ? enlarging_progress : NULL,
                                   .progress_ctx = &e,
                                   .stop = &u->stop };
    return kn_upscale(u->network, from, &wish, ret, &report, err);
}

kuno_code kuno_upscale(kuno_upscaler *upscaler, const kuno_image *image, const kuno_upscale_request *request,
                       kuno_image *ret, kuno_error *error) {
    kn_error err = { 0 };
    kn_image from = { 0 }, to = { 0 };
    atomic_store(&upscaler->stop, false);
    bool ok = take_picture("picture", image, &from, &err) && enlarge(upscaler, &from, request, &to, &err);
    kn_image_free(&from);
    if (!ok)
        return give(&err, error);
    *ret = (kuno_image){
        .width = (int)to.width, .height = (int)to.height, .channels = (int)to.channels, .pixels = to.pixels
    };
    return KUNO_OK;
}

kuno_code kuno_image_read(const char *path, kuno_image *ret, kuno_error *error) {
    kn_error err = { 0 };
    kn_image picture = { 0 };
    if (!kn_image_read_file(path, &KN_IMAGE_LIMITS, &picture, &err)) {
        kn_fail_within(&err, "'%s'", kn_quote_path(path).text);
        return give(&err, error);
    }
    *ret = (kuno_image){ .width = (int)picture.width,
                         .height = (int)picture.height,
                         .channels = (int)picture.channels,
                         .pixels = picture.pixels };
    return KUNO_OK;
}

void kuno_image_free(kuno_image *image) {
    if (!image)
        return;
    free(image->pixels);
    free(image->parameters);
    *image = (kuno_image){ 0 };
}

kuno_code kuno_image_write_png(const kuno_image *image, const char *path, kuno_error *error) {
    kn_error err = { 0 };
    const kn_image picture = { .width = (uint32_t)image->width,
                               .height = (uint32_t)image->height,
                               .channels = (unsigned)image->channels,
                               .pixels = image->pixels };
    const kn_png_text text = { KN_PARAMETERS_KEY, image->parameters };
    KN_AUTO_BUF png;
    kn_buf_init(&png, PNG_LIMIT);
    kn_output out = { .dir_fd = -1, .fd = -1 };
    bool ok = kn_png_write(&picture, &text, image->parameters != NULL, &png, &err) &&
              kn_output_open(path, true, &out, &err) && kn_output_write(&out, png.data, png.len, &err) &&
              kn_output_commit(&out, true, &err);
    kn_output_drop(&out);
    return ok ? KUNO_OK : give(&err, error);
}

const char *kuno_version(void) {
    return KN_VERSION;
}
