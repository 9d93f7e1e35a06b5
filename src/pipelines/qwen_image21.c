/* Qwen-Image 2.1, text to image: Qwen3-VL's residual stream conditions a block-causal transformer whose latent an RGBA
 * autoencoder turns into pixels. */
#include "pipelines/qwen_image21.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "models/qwen3_text.h"
#include "models/qwen_image21.h"
#include "models/vae_qwen21.h"
#include "pipelines/component.h"
#include "pipelines/decode.h"
#include "text/tokenizer.h"

static const double rope_base = 5e6; /* of Qwen3-VL; not in the file */

static void take_text(void *network, kn_binder *b) {
    kn_qwen3_text_load(network, b, rope_base);
    kn_ignore_outside(b, "visual.");
    kn_ignore_outside(b, "model.visual.");
    kn_ignore_outside(b, "lm_head.");
}

static void take_diffusion(void *network, kn_binder *b) {
    kn_qwen21_load(network, b);
}

static void take_vae(void *network, kn_binder *b) {
    kn_vae21_load(network, b);
}

const kn_slot kn_qwen21_text_slot = { "text encoder", "qwen3-vl", "a Qwen3-VL text encoder", sizeof(kn_qwen3_text),
                                      take_text };
const kn_slot kn_qwen21_diffusion_slot = { "diffusion model", "qwen-image-2.1", "a Qwen-Image 2.1 diffusion model",
                                           sizeof(kn_qwen21), take_diffusion };
const kn_slot kn_qwen21_vae_slot = { "VAE", "qwen-image-2.1-vae", "a Qwen-Image 2.1 VAE", sizeof(kn_vae21), take_vae };

struct qwen21 {
    kn_pipeline base;
    kn_device *device;
    kn_precision precision;
    kn_residency residency;
    kn_tokenizer *tokenizer;
    int32_t turn_start; /* id of <|im_start|> */
    kn_component text, diffusion, vae;
    kn_qwen3_text text_network;
    kn_qwen21 diffusion_network;
    kn_vae21 vae_network;
};

/* One call of generate: what its stages share. */
struct job {
    struct qwen21 *p;
    const kn_recipe *recipe;
    const kn_hooks *hooks;
    kn_draw_report *report;
    kn_run run;
    int h, w; /* of the latent */
};

/* What a prompt became: rows of the text encoder's output, on the host. */
struct conditioning {
    float *rows; /* [count, text width] */
    int64_t count;
};

static bool progress(struct job *j, const char *phase, int step, int steps, kn_error *err) {
    if (j->hooks->stop && atomic_load(j->hooks->stop))
        return kn_fail(err, KN_E_CANCELLED, "cancelled");
    if (j->hooks->progress && !j->hooks->progress(j->hooks->progress_ctx, phase, step, steps))
        return kn_fail(err, KN_E_CANCELLED, "cancelled");
    return true;
}

static void dump(struct job *j, const char *name, int rank, const int64_t *dim, const float *values) {
    if (j->hooks->dump)
        j->hooks->dump(j->hooks->dump_ctx, name, rank, dim, values);
}

static void dump_latent(struct job *j, const char *name, const float *x) {
    dump(j, name, 3, (int64_t[]){ j->p->diffusion_network.channels, j->h, j->w }, x);
}

/* Loads a stage's component and starts its clock. */
static bool begin(struct job *j, int stage, const char *name, kn_component *c, kn_error *err) {
    kn_stage_report *s = &j->report->stage[stage];
    double start = kn_now();
    if (!kn_component_load(c, err))
        return false;
    *s = (kn_stage_report){ .name = name, .load_seconds = kn_now() - start, .weight_bytes = kn_weights_bytes(c->file) };
    kn_run_peak_bytes(&j->run);
    s->seconds = -kn_now();
    return progress(j, "load", 0, 0, err);
}

static void end(struct job *j, int stage, kn_component *c) {
    kn_stage_report *s = &j->report->stage[stage];
    s->seconds += kn_now();
    s->peak_bytes = kn_run_peak_bytes(&j->run);
    if (j->p->residency == KN_STAGED)
        kn_component_unload(c);
}

static void dump_tokens(struct job *j, const char *name, const kn_tokens *t) {
    if (!j->hooks->dump)
        return;
    float *values = malloc(sizeof(float) * t->n);
    for (size_t i = 0; values && i < t->n; i++)
        values[i] = (float)t->id[i];
    if (values)
        dump(j, name, 1, (int64_t[]){ (int64_t)t->n }, values);
    free(values);
}

/* Rows before the second <|im_start|> are the system turn; the transformer never sees them. */
static int64_t system_rows(const kn_tokens *t, int32_t turn_start) {
    for (size_t i = 1; i < t->n; i++)
        if (t->id[i] == turn_start)
            return (int64_t)i;
    return 0;
}

/* The user's text is literal: what looks like a control token in it stays text. An empty one is a space. */
static bool tokenize(struct job *j, const char *prompt, kn_tokens *ret, kn_error *err) {
    static const char before[] = "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n"
                                 "<|im_start|>user\n";
    static const char after[] = "<|im_end|>\n<|im_start|>assistant\n";
    const char *text = *prompt ? prompt : " ";
    const kn_text_part parts[] = {
        { .text = before, .len = sizeof before - 1 },
        { .text = text, .len = strlen(text), .literal = true },
        { .text = after, .len = sizeof after - 1 },
    };
    if (!kn_tokenizer_encode_parts(j->p->tokenizer, parts, KN_COUNT(parts), ret, err))
        return kn_fail_within(err, "tokenizer");
    if (ret->n > KN_QWEN21_MAX_POSITION) {
        kn_fail(err, KN_E_RANGE, "the prompt has %zu tokens, at most about %d fit", ret->n, KN_QWEN21_MAX_POSITION);
        kn_tokens_free(ret);
        return false;
    }
    return true;
}

static bool encode(struct job *j, const char *prompt, const char *sign, struct conditioning *ret, kn_error *err) {
    kn_tokens tokens = { 0 };
    if (!tokenize(j, prompt, &tokens, err))
        return false;
    char name[64];
    snprintf(name, sizeof name, "%stokens", sign);
    dump_tokens(j, name, &tokens);

    kn_run *r = &j->run;
    kn_scope s = kn_scope_open(r);
    int64_t skip = system_rows(&tokens, j->p->turn_start), rows = (int64_t)tokens.n - skip;
    int64_t width = j->p->text_network.width;
    kn_tensor x = kn_qwen3_text_forward(r, &j->p->text_network, tokens.id, (int64_t)tokens.n);
    kn_check_finite(r, x, "text encoder output");
    float *values = malloc(sizeof(float) * (size_t)(rows * width));
    if (!values)
        kn_run_fail(r, KN_E_NOMEM, "out of memory for %lld embeddings", (long long)rows);
    else
        kn_download(r, kn_rows(r, x, skip, rows), values);
    kn_scope_close(r, s, KN_NONE);
    if (!*sign)
        j->report->prompt_tokens = (int)tokens.n;
    kn_tokens_free(&tokens);
    if (r->err.code != KN_OK) {
        free(values);
        *err = r->err;
        return false;
    }
    snprintf(name, sizeof name, "%stext_embeddings", sign);
    dump(j, name, 2, (int64_t[]){ rows, width }, values);
    *ret = (struct conditioning){ .rows = values, .count = rows };
    return true;
}

/* What the sampler calls: velocity of the latent with guidance. The sampler keeps [channels][h][w], the network wants
 * one row of channels per cell. */
struct denoiser {
    struct job *job;
    kn_qwen21_prefix positive, negative;
    bool guided;
    float *rows, *other; /* [h * w, channels]; [channels][h][w] */
    kn_noise step_noise; /* of stochastic samplers */
};

static void to_rows(const float *planes, int64_t channels, int64_t cells, float *rows) {
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < cells; i++)
            rows[i * channels + c] = planes[c * cells + i];
}

static void to_planes(const float *rows, int64_t channels, int64_t cells, float *planes) {
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < cells; i++)
            planes[c * cells + i] = rows[i * channels + c];
}

static void one_velocity(struct denoiser *d, const kn_qwen21_prefix *prefix, kn_tensor latent, float sigma, float *v) {
    struct job *j = d->job;
    int64_t channels = j->p->diffusion_network.channels, cells = (int64_t)j->h * j->w;
    kn_tensor out = kn_qwen21_velocity(&j->run, &j->p->diffusion_network, prefix, latent, j->h, j->w, sigma);
    kn_check_finite(&j->run, out, "velocity");
    kn_download(&j->run, out, d->rows);
    to_planes(d->rows, channels, cells, v);
    kn_drop(&j->run, out);
}

static bool velocity(void *ctx, const float *x, float sigma, float *v, kn_error *err) {
    struct denoiser *d = ctx;
    struct job *j = d->job;
    kn_run *r = &j->run;
    int64_t channels = j->p->diffusion_network.channels, cells = (int64_t)j->h * j->w;
    kn_scope s = kn_scope_open(r);
    to_rows(x, channels, cells, d->rows);
    kn_tensor latent = kn_upload(r, 2, (int64_t[]){ cells, channels }, d->rows);
    one_velocity(d, &d->positive, latent, sigma, v);
    if (d->guided && r->err.code == KN_OK) {
        one_velocity(d, &d->negative, latent, sigma, d->other);
        kn_guide(v, d->other, (float)j->recipe->cfg, (size_t)(channels * cells));
    }
    kn_scope_close(r, s, KN_NONE);
    if (r->err.code != KN_OK)
        *err = r->err;
    return r->err.code == KN_OK;
}

static void draw_noise(void *ctx, float *noise, size_t n) {
    kn_noise_fill(&((struct denoiser *)ctx)->step_noise, noise, n);
}

static bool after_step(void *ctx, const kn_step *step, kn_error *err) {
    struct job *j = ((struct denoiser *)ctx)->job;
    char name[32];
    snprintf(name, sizeof name, "latents_%03zu", step->index);
    dump_latent(j, name, step->x);
    return progress(j, "step", (int)step->index + 1, (int)step->steps, err);
}

static void prefill(struct job *j, const struct conditioning *c, kn_qwen21_prefix *ret) {
    kn_run *r = &j->run;
    const kn_qwen21_piece text = { .text_rows = c->count };
    kn_tensor rows = kn_upload(r, 2, (int64_t[]){ c->count, j->p->text_network.width }, c->rows);
    kn_qwen21_prefill(r, &j->p->diffusion_network, rows, &text, 1, j->h, j->w, ret);
    kn_drop(r, rows);
}

static bool start_noise(struct job *j, float *x, size_t n, kn_error *err) {
    const kn_recipe *recipe = j->recipe;
    if (recipe->init_noise && recipe->init_noise_count != n)
        return kn_fail(err, KN_E_RANGE, "the given noise has %zu values, this size needs %zu", recipe->init_noise_count,
                       n);
    kn_noise noise;
    kn_noise_init(&noise, recipe->noise, recipe->seed);
    if (recipe->init_noise)
        memcpy(x, recipe->init_noise, n * sizeof *x);
    else
        kn_noise_fill(&noise, x, n);
    dump_latent(j, "noise", x);
    return true;
}

/* x: room for the latent [channels][h][w]. */
static bool diffuse(struct job *j, const struct conditioning *positive, const struct conditioning *negative, float *x,
                    kn_error *err) {
    const kn_recipe *recipe = j->recipe;
    size_t n = (size_t)(j->p->diffusion_network.channels * j->h * j->w);
    struct denoiser d = { .job = j, .guided = negative->rows != NULL };
    d.rows = malloc(2 * n * sizeof(float));
    d.other = d.rows + n;
    if (!d.rows)
        return kn_fail_nomem(err, 2 * n * sizeof(float));

    kn_scope s = kn_scope_open(&j->run);
    prefill(j, positive, &d.positive);
    if (d.guided)
        prefill(j, negative, &d.negative);
    bool ok = j->run.err.code == KN_OK && start_noise(j, x, n, err);
    if (j->run.err.code != KN_OK)
        *err = j->run.err;
    if (ok) {
        dump(j, "sigmas", 1, (int64_t[]){ (int64_t)recipe->sigmas.steps + 1 }, recipe->sigmas.at);
        kn_noise_init_steps(&d.step_noise, recipe->seed);
        const kn_sampling sampling = { .sampler = recipe->sampler,
                                       .sigmas = recipe->sigmas.at,
                                       .steps = recipe->sigmas.steps,
                                       .velocity = velocity,
                                       .draw = draw_noise,
                                       .after_step = after_step,
                                       .ctx = &d };
        ok = kn_sample(&sampling, x, n, err);
    }
    kn_scope_close(&j->run, s, KN_NONE);
    free(d.rows);
    if (ok)
        dump_latent(j, "latents_final", x);
    return ok;
}

static kn_tensor decode_latent(kn_run *r, void *ctx, kn_tensor latent) {
    return kn_vae21_decode(r, &((struct qwen21 *)ctx)->vae_network, latent);
}

static bool decode(struct job *j, const float *x, kn_image *ret, kn_error *err) {
    /* The last level is the peak: its input, that upsampled, and the shortcut, with some room for the convolution. */
    const kn_weight *widest = &j->p->vae_network.decoder.level[KN_VAE21_LEVELS - 1].residual[0].conv1;
    const kn_decoder vae = { .decode = decode_latent,
                             .ctx = j->p,
                             .latent_channels = KN_VAE21_CHANNELS,
                             .channels = 4,
                             .factor = KN_VAE21_FACTOR,
                             .bytes_per_pixel = 14 * (uint64_t)widest->dim[3] };
    float *pixels = NULL;
    int height = j->h * KN_VAE21_FACTOR, width = j->w * KN_VAE21_FACTOR;
    if (!kn_decode_latent(&vae, &j->run, x, j->h, j->w, kn_memory_available(), &pixels, err))
        return false;
    dump(j, "image", 3, (int64_t[]){ 4, height, width }, pixels);
    bool ok = kn_image_from_planes(pixels, 4, height, width, ret, err);
    free(pixels);
    return ok;
}

/* Encoder, diffusion, VAE: each loads, computes and, when staged, leaves before the next one comes. */
static bool run_stages(struct job *j, kn_image *ret, kn_error *err) {
    struct qwen21 *p = j->p;
    struct conditioning positive = { 0 }, negative = { 0 };
    float *x = malloc(sizeof(float) * (size_t)(p->diffusion_network.channels * j->h * j->w));
    bool ok = x || kn_fail_nomem(err, sizeof(float) * (size_t)(p->diffusion_network.channels * j->h * j->w));

    ok = ok && begin(j, 0, "encode", &p->text, err) && encode(j, j->recipe->prompt, "", &positive, err);
    if (ok && j->recipe->cfg > 1)
        ok = encode(j, j->recipe->negative_prompt, "negative_", &negative, err);
    end(j, 0, &p->text);
    ok = ok && progress(j, "encode", 0, 0, err);

    ok = ok && begin(j, 1, "diffuse", &p->diffusion, err) && diffuse(j, &positive, &negative, x, err);
    end(j, 1, &p->diffusion);

    ok = ok && begin(j, 2, "decode", &p->vae, err) && decode(j, x, ret, err);
    end(j, 2, &p->vae);
    free(positive.rows);
    free(negative.rows);
    free(x);
    return ok && progress(j, "decode", 0, 0, err);
}

static bool generate(kn_pipeline *base, const kn_recipe *recipe, const kn_hooks *hooks, kn_image *ret,
                     kn_draw_report *report, kn_error *err) {
    struct qwen21 *p = (struct qwen21 *)base;
    struct job j = { .p = p,
                     .recipe = recipe,
                     .hooks = hooks,
                     .report = report,
                     .h = recipe->height / KN_VAE21_FACTOR,
                     .w = recipe->width / KN_VAE21_FACTOR };
    *report = (kn_draw_report){ 0 };
    if (!kn_run_open(p->device, p->precision, hooks->stop, 0, &j.run, err))
        return false;
    bool ok = run_stages(&j, ret, err);
    kn_run_close(&j.run);
    return ok;
}

static void close_pipeline(kn_pipeline *base) {
    struct qwen21 *p = (struct qwen21 *)base;
    kn_component_close(&p->text);
    kn_component_close(&p->diffusion);
    kn_component_close(&p->vae);
    if (p->tokenizer)
        kn_tokenizer_close(p->tokenizer);
    free(p);
}

static bool open_tokenizer(struct qwen21 *p, const kn_source *source, kn_error *err) {
    const kn_tokenizer_files files = { .json = { (const char *)source->data, source->len } };
    bool ok = source->path ? kn_tokenizer_open(source->path, &p->tokenizer, err)
                           : kn_tokenizer_open_bytes(&files, &p->tokenizer, err);
    if (!ok)
        return kn_fail_within(err, "tokenizer");
    p->turn_start = kn_tokenizer_token(p->tokenizer, "<|im_start|>");
    if (p->turn_start < 0)
        return kn_fail(err, KN_E_FORMAT, "tokenizer: it has no token <|im_start|>; it is not a Qwen tokenizer");
    return true;
}

/* The parts were made for each other only if their widths meet. */
static bool parts_fit(const struct qwen21 *p, kn_error *err) {
    if (kn_tokenizer_size(p->tokenizer) > p->text_network.vocabulary)
        return kn_fail(err, KN_E_FORMAT,
                       "tokenizer: it has %lld tokens, the text encoder's table only %lld; they do not belong together",
                       (long long)kn_tokenizer_size(p->tokenizer), (long long)p->text_network.vocabulary);
    if (p->text_network.width != p->diffusion_network.text_width)
        return kn_fail(err, KN_E_FORMAT,
                       "text encoder: its width is %lld, the diffusion model wants %lld; they do not belong together",
                       (long long)p->text_network.width, (long long)p->diffusion_network.text_width);
    if (p->diffusion_network.channels != KN_VAE21_CHANNELS)
        return kn_fail(err, KN_E_FORMAT, "diffusion model: %lld latent channels, the VAE has %d",
                       (long long)p->diffusion_network.channels, KN_VAE21_CHANNELS);
    return true;
}

bool kn_qwen21_pipeline_open(const kn_model_files *files, kn_device *device, kn_precision precision,
                             kn_residency residency, kn_pipeline **ret, kn_error *err) {
    struct qwen21 *p = calloc(1, sizeof *p);
    if (!p)
        return kn_fail_nomem(err, sizeof *p);
    p->base = (kn_pipeline){ .generate = generate, .close = close_pipeline };
    p->device = device;
    p->precision = precision;
    p->residency = residency;
    if (open_tokenizer(p, &files->tokenizer, err) &&
        kn_component_open(&p->text, &kn_qwen21_text_slot, &files->text_encoder, &p->text_network, err) &&
        kn_component_open(&p->diffusion, &kn_qwen21_diffusion_slot, &files->diffusion_model, &p->diffusion_network,
                          err) &&
        kn_component_open(&p->vae, &kn_qwen21_vae_slot, &files->vae, &p->vae_network, err) && parts_fit(p, err)) {
        *ret = &p->base;
        return true;
    }
    close_pipeline(&p->base);
    return false;
}
