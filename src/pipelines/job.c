#include "pipelines/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "image/resize.h"
#include "image/transform.h"

bool kn_job_open(kn_job *j, kn_device *device, kn_precision precision, kn_error *err) {
    return j->hooks->plan ? kn_run_open_shapes(device, precision, j->hooks->stop, &j->run, err)
                          : kn_run_open(device, precision, j->hooks->stop, 0, &j->run, err);
}

bool kn_job_progress(kn_job *j, const char *phase, int step, int steps, kn_error *err) {
    if (j->hooks->stop && atomic_load(j->hooks->stop))
        return kn_fail(err, KN_E_CANCELLED, "cancelled");
    if (j->hooks->progress && !j->hooks->progress(j->hooks->progress_ctx, phase, step, steps))
        return kn_fail(err, KN_E_CANCELLED, "cancelled");
    return true;
}

void kn_job_dump(kn_job *j, const char *name, int rank, const int64_t *dim, const float *values) {
    if (j->hooks->dump)
        j->hooks->dump(j->hooks->dump_ctx, name, rank, dim, values);
}

void kn_job_dump_tokens(kn_job *j, const char *name, const kn_tokens *t) {
    if (!j->hooks->dump)
        return;
    float *values = malloc(sizeof(float) * (t->n + 1));
    for (size_t i = 0; values && i < t->n; i++)
        values[i] = (float)t->id[i];
    if (values)
        kn_job_dump(j, name, 1, (int64_t[]){ (int64_t)t->n }, values);
    free(values);
}

void kn_job_dump_latent(kn_job *j, const char *name, const float *x) {
    kn_job_dump(j, name, 3, (int64_t[]){ j->channels, j->h, j->w }, x);
}

static bool noise_fits(const kn_job *j, kn_error *err) {
    size_t have = j->recipe->init_noise_count, need = (size_t)j->channels * j->h * j->w;
    return !j->recipe->init_noise || have == need ||
           kn_fail(err, KN_E_RANGE, "the given noise has %zu values, this size needs %zu", have, need);
}

bool kn_job_begin(kn_job *j, kn_stage stage, kn_component *c, kn_error *err) {
    static const char *const names[KN_STAGE_COUNT] = { "pictures", "see", "encode", "diffuse", "decode" };
    kn_stage_report *s = &j->report->stage[stage];
    double start = kn_now();
    bool is_early = stage == KN_STAGE_PICTURES || stage == KN_STAGE_ENCODE;
    if ((is_early && !noise_fits(j, err)) || (!j->hooks->plan && !kn_component_load(c, err)))
        return false;
    *s = (kn_stage_report){ .name = names[stage],
                            .load_seconds = kn_now() - start,
                            .weight_bytes = kn_component_bytes(c) };
    kn_run_peak_bytes(&j->run);
    s->seconds = -kn_now();
    return kn_job_progress(j, "load", 0, 0, err);
}

void kn_job_end(kn_job *j, kn_stage stage, kn_component *c) {
    kn_stage_report *s = &j->report->stage[stage];
    s->seconds += kn_now();
    s->peak_bytes = kn_run_peak_bytes(&j->run) + j->host_bytes;
    j->host_bytes = 0;
    if (j->residency == KN_STAGED)
        kn_component_unload(c);
}

bool kn_job_went_well(const kn_job *j, kn_error *err) {
    if (j->run.err.code != KN_OK)
        *err = j->run.err;
    return j->run.err.code == KN_OK;
}

bool kn_host_rows_take(kn_job *j, kn_tensor t, kn_host_rows *ret, kn_error *err) {
    kn_host_rows rows = { .count = kn_row_count(t), .width = kn_last_dim(t) };
    if (!kn_job_went_well(j, err))
        return false;
    rows.at = malloc(sizeof(float) * (size_t)(rows.count * rows.width) + 1);
    if (!rows.at)
        return kn_fail_nomem(err, sizeof(float) * (size_t)(rows.count * rows.width));
    kn_download(&j->run, t, rows.at);
    *ret = rows;
    return true;
}

/* The sampler keeps [channels][h][w]; the network wants a row per patch. Copies one way or the other. */
struct layout {
    int channels, h, w, patch;
    kn_patch_order order;
};

static void copy_patches(const struct layout *l, float *planes, float *rows, bool to_rows) {
    int p = l->patch, across = l->w / p, width = l->channels * p * p;
    for (int c = 0; c < l->channels; c++) {
        for (int y = 0; y < l->h; y++) {
            for (int x = 0; x < l->w; x++) {
                int cell = (y % p) * p + x % p;
                int column = l->order == KN_CHANNELS_OUTSIDE ? c * p * p + cell : cell * l->channels + c;
                float *row = &rows[(size_t)((y / p) * across + x / p) * (size_t)width + (size_t)column];
                float *plane = &planes[((size_t)c * l->h + y) * l->w + x];
                if (to_rows)
                    *row = *plane;
                else
                    *plane = *row;
            }
        }
    }
}

/* -> [h, w, 3] */
static kn_tensor upload_rgb(kn_run *r, const kn_image *rgb) {
    size_t n = (size_t)rgb->width * rgb->height * 3;
    float *values = malloc(n * sizeof *values);
    if (!values) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for a picture of %ux%u pixels", rgb->width, rgb->height);
        return KN_NONE;
    }
    for (size_t i = 0; i < n; i++)
        values[i] = (float)rgb->pixels[i] / 127.5f - 1;
    kn_tensor t = kn_upload(r, 3, (int64_t[]){ rgb->height, rgb->width, 3 }, values);
    free(values);
    return t;
}

bool kn_job_encode_start(kn_job *j, kn_encode_fn *encode, void *ctx, float *x, kn_error *err) {
    const kn_recipe *recipe = j->recipe;
    const struct layout cells = { j->channels, j->h, j->w, 1, KN_CHANNELS_INSIDE };
    kn_image fitted = { 0 }, rgb = { 0 };
    kn_host_rows latent = { 0 };
    kn_run *r = &j->run;
    kn_scope s = kn_scope_open(r);
    bool ok = kn_image_resize(recipe->init_image, (uint32_t)recipe->width, (uint32_t)recipe->height, &fitted, err) &&
              kn_image_over_white(&fitted, &rgb, err);
    if (ok) {
        kn_tensor z = encode(r, ctx, upload_rgb(r, &rgb));
        kn_check_finite(r, z, "VAE latent");
        ok = kn_host_rows_take(j, z, &latent, err);
    }
    if (ok) {
        copy_patches(&cells, x, latent.at, false);
        kn_job_dump_latent(j, "encoded", x);
    }
    kn_scope_close(r, s, KN_NONE);
    kn_image_free(&fitted);
    kn_image_free(&rgb);
    free(latent.at);
    return ok;
}

/* What the sampler's callbacks share. */
struct sampling {
    kn_job *job;
    const kn_denoiser *denoiser;
    struct layout layout;
    int64_t rows, width;
    float *latent, *positive, *negative; /* [rows, width] each */
    kn_noise step_noise;
};

static void one_output(struct sampling *s, kn_tensor latent, float sigma, bool negative, float *ret) {
    kn_run *r = &s->job->run;
    kn_scope scope = kn_scope_open(r);
    kn_tensor out = s->denoiser->output(s->denoiser->ctx, r, latent, sigma, negative);
    kn_check_finite(r, out, "diffusion model output");
    if (r->err.code == KN_OK)
        kn_download(r, out, ret);
    kn_scope_close(r, scope, KN_NONE);
}

static void guide(struct sampling *s) {
    float cfg = (float)s->job->recipe->cfg;
    if (s->denoiser->guide)
        s->denoiser->guide(s->positive, s->negative, cfg, s->rows, s->width);
    else
        kn_guide(s->positive, s->negative, cfg, (size_t)(s->rows * s->width));
}

/* Of s->latent. */
static void outputs(struct sampling *s, float sigma) {
    kn_run *r = &s->job->run;
    kn_scope scope = kn_scope_open(r);
    kn_tensor latent = kn_upload(r, 2, (int64_t[]){ s->rows, s->width }, s->latent);
    one_output(s, latent, sigma, false, s->positive);
    if (s->denoiser->guided && r->err.code == KN_OK) {
        one_output(s, latent, sigma, true, s->negative);
        guide(s);
    }
    kn_scope_close(r, scope, KN_NONE);
}

static bool velocity(void *ctx, const float *x, float sigma, float *v, kn_error *err) {
    struct sampling *s = ctx;
    size_t n = (size_t)(s->rows * s->width);
    memcpy(v, x, n * sizeof *v);
    copy_patches(&s->layout, v, s->latent, true);
    outputs(s, sigma);
    if (!kn_job_went_well(s->job, err))
        return false;
    copy_patches(&s->layout, v, s->positive, false);
    for (size_t i = 0; s->denoiser->sign != 1 && i < n; i++)
        v[i] *= s->denoiser->sign;
    return true;
}

static void draw_noise(void *ctx, float *noise, size_t n) {
    kn_noise_fill(&((struct sampling *)ctx)->step_noise, noise, n);
}

static bool after_step(void *ctx, const kn_step *step, kn_error *err) {
    kn_job *j = ((struct sampling *)ctx)->job;
    char name[32];
    snprintf(name, sizeof name, "latents_%03zu", step->index);
    kn_job_dump_latent(j, name, step->x);
    return kn_job_progress(j, "step", (int)step->index + 1, (int)step->steps, err);
}

static void start(kn_job *j, const float *clean, float *x, size_t n) {
    const kn_recipe *recipe = j->recipe;
    kn_noise noise;
    kn_noise_init(&noise, recipe->noise, recipe->seed);
    if (recipe->init_noise)
        memcpy(x, recipe->init_noise, n * sizeof *x);
    else
        kn_noise_fill(&noise, x, n);
    kn_job_dump_latent(j, "noise", x);
    kn_job_dump(j, "sigmas", 1, (int64_t[]){ (int64_t)recipe->sigmas.steps + 1 }, recipe->sigmas.at);
    if (clean) {
        kn_add_noise(x, clean, x, recipe->sigmas.at[0], n);
        kn_job_dump_latent(j, "start_latent", x);
    }
}

bool kn_job_diffuse(kn_job *j, const kn_denoiser *d, const float *clean, float *x, kn_error *err) {
    size_t n = (size_t)j->channels * j->h * j->w;
    struct sampling s = {
        .job = j,
        .denoiser = d,
        .layout = { j->channels, j->h, j->w, d->patch, d->order },
        .rows = (int64_t)(j->h / d->patch) * (j->w / d->patch),
        .width = (int64_t)j->channels * d->patch * d->patch,
        .latent = calloc(3 * n, sizeof(float)),
    };
    if (!s.latent)
        return kn_fail_nomem(err, 3 * n * sizeof(float));
    s.positive = s.latent + n;
    s.negative = s.positive + n;
    if (j->hooks->plan) {
        outputs(&s, j->recipe->sigmas.at[0]);
        free(s.latent);
        return kn_job_went_well(j, err);
    }
    kn_noise_init_steps(&s.step_noise, j->recipe->seed);
    const kn_sampling sampling = { .sampler = j->recipe->sampler,
                                   .sigmas = j->recipe->sigmas.at,
                                   .steps = j->recipe->sigmas.steps,
                                   .velocity = velocity,
                                   .draw = draw_noise,
                                   .after_step = after_step,
                                   .ctx = &s };
    start(j, clean, x, n);
    bool ok = kn_sample(&sampling, x, n, err);
    free(s.latent);
    if (ok)
        kn_job_dump_latent(j, "latents_final", x);
    return ok;
}

/* What decoding may take beside the weights that it needs. */
static uint64_t memory_for_decoding(const kn_job *j) {
    uint64_t available = kn_memory_available(), weights = j->report->stage[KN_STAGE_DECODE].weight_bytes;
    return available == UINT64_MAX ? available : available - KN_MIN(weights, available);
}

static bool decode_pixels(kn_job *j, const kn_decoder *d, const float *x, kn_image *ret, kn_error *err) {
    float *pixels = NULL;
    int height = j->h * d->factor, width = j->w * d->factor;
    uint64_t limit = memory_for_decoding(j);
    j->host_bytes = 2 * sizeof(float) * (uint64_t)height * (uint64_t)width * (uint64_t)d->channels; /* two layouts */
    if (j->hooks->plan) {
        kn_decode_shapes(d, &j->run, j->h, j->w, limit);
        return kn_job_went_well(j, err);
    }
    if (!kn_decode_latent(d, &j->run, x, j->h, j->w, limit, &pixels, err))
        return false;
    kn_job_dump(j, "image", 3, (int64_t[]){ d->channels, height, width }, pixels);
    bool ok = kn_image_from_planes(pixels, d->channels, height, width, ret, err);
    free(pixels);
    return ok;
}

bool kn_job_decode(kn_job *j, kn_component *vae, const kn_decoder *d, const float *x, kn_image *ret, kn_error *err) {
    bool ok = kn_job_begin(j, KN_STAGE_DECODE, vae, err) && decode_pixels(j, d, x, ret, err);
    kn_job_end(j, KN_STAGE_DECODE, vae);
    return ok && kn_job_progress(j, "decode", 0, 0, err);
}
