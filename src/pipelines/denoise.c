/* The way of a latent through the sampler, with guidance. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/job.h"
#include "pipelines/preview.h"

/* The sampler keeps [channels][h][w]; the network wants a row per patch. */
struct layout {
    int channels, h, w, patch;
    kn_patch_order order;
};

static struct layout layout_of(const kn_job *j, int h, int w) {
    const kn_stages *s = j->pipeline->stages;
    return (struct layout){ j->channels, h, w, s->patch, s->order };
}

static int64_t width_of(const struct layout *l) {
    return (int64_t)l->channels * l->patch * l->patch;
}

static int64_t count_rows(const struct layout *l) {
    return (int64_t)(l->h / l->patch) * (l->w / l->patch);
}

/* Where the value of a channel at y, x is among the rows. */
static size_t place_in_rows(const struct layout *l, int c, int y, int x) {
    int p = l->patch, cell = (y % p) * p + x % p;
    int column = l->order == KN_CHANNELS_OUTSIDE ? c * p * p + cell : cell * l->channels + c;
    return (size_t)((y / p) * (l->w / p) + x / p) * (size_t)width_of(l) + (size_t)column;
}

static void to_rows(const struct layout *l, const float *planes, float *rows) {
    for (int c = 0; c < l->channels; c++)
        for (int y = 0; y < l->h; y++)
            for (int x = 0; x < l->w; x++)
                rows[place_in_rows(l, c, y, x)] = *planes++;
}

/* Each value times sign. */
static void to_planes(const struct layout *l, const float *rows, float sign, float *planes) {
    for (int c = 0; c < l->channels; c++)
        for (int y = 0; y < l->h; y++)
            for (int x = 0; x < l->w; x++)
                *planes++ = rows[place_in_rows(l, c, y, x)] * sign;
}

kn_tensor kn_job_upload_latent(kn_job *j, const kn_values *latent) {
    const struct layout l = layout_of(j, (int)latent->dim[1], (int)latent->dim[2]);
    float *rows = malloc(sizeof(float) * kn_values_count(latent));
    if (!rows) {
        kn_run_fail(&j->run, KN_E_NOMEM, "out of memory for %zu values of a latent", kn_values_count(latent));
        return KN_NONE;
    }
    to_rows(&l, latent->at, rows);
    kn_tensor t = kn_upload(&j->run, 2, (int64_t[]){ count_rows(&l), width_of(&l) }, rows);
    free(rows);
    return t;
}

/* What the sampler's callbacks share. */
struct sampling {
    kn_job *job;
    struct layout layout;
    float *latent, *output[KN_SIDES]; /* [rows, width] each */
    float *noise;                     /* of the start, [channels][h][w]; only beside a mask */
    kn_noise step_noise;
};

static void one_output(struct sampling *s, kn_side side, kn_tensor latent, float sigma) {
    kn_job *j = s->job;
    kn_run *r = &j->run;
    kn_scope scope = kn_scope_open(r);
    kn_tensor out = j->pipeline->stages->output(j, side, latent, sigma);
    kn_check_finite(r, out, "diffusion model output");
    if (r->err.code == KN_OK)
        kn_download(r, out, s->output[side]);
    kn_scope_close(r, scope, KN_NONE);
}

static double length_of(const float *x, int64_t n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += (double)x[i] * x[i];
    return sqrt(squares);
}

/* As the pipeline of diffusers for Qwen-Image: guidance turns each patch, whose length stays that of the positive
 * prompt's. */
static void guide_rescaled(float *positive, const float *negative, float cfg, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows; i++, positive += width, negative += width) {
        double wanted = length_of(positive, width);
        kn_guide(positive, negative, cfg, (size_t)width);
        double length = length_of(positive, width);
        for (int64_t k = 0; length > 0 && k < width; k++)
            positive[k] *= (float)(wanted / length);
    }
}

/* Of s->latent; the guided output comes out as the positive one. */
static void outputs(struct sampling *s, float sigma) {
    const kn_recipe *recipe = s->job->recipe;
    kn_run *r = &s->job->run;
    int64_t rows = count_rows(&s->layout), width = width_of(&s->layout);
    kn_scope scope = kn_scope_open(r);
    kn_tensor latent = kn_upload(r, 2, (int64_t[]){ rows, width }, s->latent);
    one_output(s, KN_POSITIVE, latent, sigma);
    if (kn_recipe_is_guided(recipe))
        one_output(s, KN_NEGATIVE, latent, sigma);
    kn_scope_close(r, scope, KN_NONE);
    if (!kn_recipe_is_guided(recipe) || r->err.code != KN_OK)
        return;
    if (recipe->rescaled_guidance)
        guide_rescaled(s->output[KN_POSITIVE], s->output[KN_NEGATIVE], (float)recipe->cfg, rows, width);
    else
        kn_guide(s->output[KN_POSITIVE], s->output[KN_NEGATIVE], (float)recipe->cfg, (size_t)(rows * width));
}

/* Puts back what the mask keeps, in every channel. */
static void settle(void *ctx, float *x, float sigma, size_t n) {
    const struct sampling *s = ctx;
    const kn_mask *mask = &s->job->mask;
    size_t cells = (size_t)mask->width * mask->height;
    for (size_t at = 0; at < n; at += cells)
        kn_keep_known(x + at, mask->at, s->job->start->values.at + at, s->noise + at, sigma, cells);
}

static void steer(const struct sampling *s, const float *x, float sigma, float *v) {
    const kn_mask *mask = &s->job->mask;
    size_t cells = (size_t)mask->width * mask->height, n = cells * (size_t)s->layout.channels;
    for (size_t at = 0; at < n; at += cells)
        kn_steer_to_known(v + at, mask->at, x + at, s->job->start->values.at + at, sigma, cells);
}

static bool velocity(void *ctx, const float *x, float sigma, float *v, kn_error *err) {
    struct sampling *s = ctx;
    to_rows(&s->layout, x, s->latent);
    outputs(s, sigma);
    if (!kn_job_went_well(s->job, err))
        return false;
    to_planes(&s->layout, s->output[KN_POSITIVE], s->job->pipeline->stages->sign, v);
    if (s->noise)
        steer(s, x, sigma, v);
    return true;
}

static void draw_noise(void *ctx, float *noise, size_t n) {
    kn_noise_fill(&((struct sampling *)ctx)->step_noise, noise, n);
}

static bool show_preview(kn_job *j, const kn_step *step, kn_error *err) {
    kn_image picture = { 0 };
    if (!j->hooks->preview)
        return true;
    if (!kn_preview_draw(j->pipeline->preview_map, j->channels, step->clean, j->h, j->w, &picture, err))
        return false;
    j->hooks->preview(j->hooks->preview_ctx, (int)step->index + 1, (int)step->steps, &picture);
    kn_image_free(&picture);
    return true;
}

static bool after_step(void *ctx, const kn_step *step, kn_error *err) {
    kn_job *j = ((struct sampling *)ctx)->job;
    char name[32];
    snprintf(name, sizeof name, "latents_%03zu", step->index);
    kn_job_dump_latent(j, name, step->x);
    if (step->index + 2 == step->steps)
        kn_ahead_start(&j->ahead, &j->pipeline->diffusion, &j->pipeline->vae);
    return show_preview(j, step, err) && kn_job_progress(j, "step", (int)step->index + 1, (int)step->steps, err);
}

static void start(const struct sampling *s, float *x, size_t n) {
    kn_job *j = s->job;
    const kn_recipe *recipe = j->recipe;
    kn_noise noise;
    kn_noise_init(&noise, recipe->noise, recipe->seed);
    if (recipe->init_noise)
        memcpy(x, recipe->init_noise, n * sizeof *x);
    else
        kn_noise_fill(&noise, x, n);
    kn_job_dump_latent(j, "noise", x);
    kn_job_dump(j, "sigmas", 1, (int64_t[]){ (int64_t)recipe->sigmas.steps + 1 }, recipe->sigmas.at);
    if (s->noise)
        memcpy(s->noise, x, n * sizeof *x);
    if (j->start) {
        kn_add_noise(x, j->start->values.at, x, recipe->sigmas.at[0], n);
        kn_job_dump_latent(j, "start_latent", x);
    }
}

static bool sample(struct sampling *s, float *x, size_t n, kn_error *err) {
    kn_job *j = s->job;
    kn_noise_init_steps(&s->step_noise, j->recipe->seed);
    const kn_sampling sampling = { .sampler = j->recipe->sampler,
                                   .sigmas = j->recipe->sigmas.at,
                                   .steps = j->recipe->sigmas.steps,
                                   .settle = s->noise ? settle : NULL,
                                   .velocity = velocity,
                                   .draw = draw_noise,
                                   .after_step = after_step,
                                   .ctx = s };
    start(s, x, n);
    if (!kn_sample(&sampling, x, n, err))
        return false;
    kn_job_dump_latent(j, "latents_final", x);
    return true;
}

bool kn_job_denoise(kn_job *j, float *x, kn_error *err) {
    size_t n = (size_t)j->channels * j->h * j->w, latents = j->mask.at ? 4 : 3;
    struct sampling s = { .job = j, .layout = layout_of(j, j->h, j->w), .latent = calloc(latents * n, sizeof(float)) };
    if (!s.latent)
        return kn_fail_nomem(err, latents * n * sizeof(float));
    s.output[KN_POSITIVE] = s.latent + n;
    s.output[KN_NEGATIVE] = s.latent + 2 * n;
    s.noise = j->mask.at ? s.latent + 3 * n : NULL;
    bool ok;
    if (j->hooks->plan) {
        outputs(&s, j->recipe->sigmas.at[0]);
        ok = kn_job_went_well(j, err);
    } else {
        ok = sample(&s, x, n, err);
    }
    free(s.latent);
    return ok;
}
