/* The public API over the pipelines: copies what callers own, keeps the flag that stops a call, maps errors. */
#include "kuno.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "image/parameters.h"
#include "image/png.h"
#include "pipelines/model.h"
#include "pipelines/settings.h"

enum { TEXT_LIMIT = 4 << 20, PNG_LIMIT = 1 << 30 };

struct kuno_model {
    kn_model *model;
    atomic_bool stop;
    char *text[6]; /* copies of the options' texts */
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
    const char *const texts[] = { o->config, o->profile, o->diffusion_model, o->text_encoder, o->vae, o->tokenizer };
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
            .vae = m->text[4],
            .tokenizer = m->text[5],
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
    *request = (kuno_request){ .cfg = -1, .random_seed = 1 };
}

struct watcher {
    const kuno_request *request;
    double start;
};

static bool progress(void *ctx, const char *phase, int step, int steps) {
    const struct watcher *w = ctx;
    const kuno_progress p = { .phase = phase, .step = step, .steps = steps, .seconds = kn_now() - w->start };
    return !w->request->progress || w->request->progress(w->request->progress_context, &p) == 0;
}

static bool make_settings(const kn_model *m, const kuno_request *q, kn_settings *ret, kn_error *err) {
    const kn_wish wish = {
        .prompt = q->prompt,
        .negative_prompt = q->negative_prompt,
        .width = { .given = q->width != 0, .value = q->width },
        .height = { .given = q->height != 0, .value = q->height },
        .steps = { .given = q->steps != 0, .value = q->steps },
        .cfg = { .given = q->cfg >= 0, .value = q->cfg },
        .seed = q->seed,
        .seed_given = !q->random_seed,
        .sampler = q->sampler,
        .scheduler = q->scheduler,
    };
    return kn_settings_make(&wish, &m->choice.defaults, m->choice.architecture, m->choice.variant, ret, err);
}

kuno_code kuno_generate(kuno_model *model, const kuno_request *request, kuno_image *ret, kuno_error *error) {
    kn_error err = { 0 };
    kn_model *m = model->model;
    struct watcher watcher = { .request = request, .start = kn_now() };
    const kn_hooks hooks = { .progress = progress, .progress_ctx = &watcher, .stop = &model->stop };
    kn_settings settings;
    kn_image picture = { 0 };
    kn_draw_report report;
    KN_AUTO_BUF text;
    kn_buf_init(&text, TEXT_LIMIT);
    atomic_store(&model->stop, false);
    bool ok = make_settings(m, request, &settings, &err) &&
              m->pipeline->generate(m->pipeline, &settings.recipe, &hooks, &picture, &report, &err) &&
              kn_settings_describe(&settings, m->choice.profile->name, &text, &err);
    char *parameters = ok ? strdup(text.data) : NULL;
    if (ok && !parameters)
        ok = kn_fail_nomem(&err, text.len);
    if (ok)
        *ret = (kuno_image){ .width = (int)picture.width,
                             .height = (int)picture.height,
                             .channels = (int)picture.channels,
                             .pixels = picture.pixels,
                             .seed = settings.recipe.seed,
                             .parameters = parameters };
    else
        kn_image_free(&picture);
    return ok ? KUNO_OK : give(&err, error);
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
