/* Z-Image, from text or from a picture: Qwen3's state before its last layer conditions a single-stream transformer
 * whose latent the FLUX autoencoder turns into pixels. */
#include "pipelines/zimage.h"

#include <stdio.h>
#include <stdlib.h>

#include "models/qwen3_text.h"
#include "models/vae_flux.h"
#include "models/zimage.h"
#include "pipelines/job.h"
#include "pipelines/qwen_tokenizer.h"

enum { MAX_TOKENS = 512 }; /* of a prompt with its template, as the model was trained; what is beyond is cut */

static const double rope_base = 1e6; /* of Qwen3; not in the file */

static void take_text(void *network, kn_binder *b) {
    kn_qwen3_text_load(network, b, rope_base);
    kn_ignore_outside(b, "lm_head.");
    kn_ignore_outside(b, "text_encoders.qwen3_4b.transformer.lm_head.");
    kn_ignore_outside(b, "text_encoders.qwen3_4b.logit_scale");
}

static void take_diffusion(void *network, kn_binder *b) {
    kn_zimage_load(network, b);
}

static void take_vae(void *network, kn_binder *b) {
    kn_vae_flux_load(network, b);
}

const kn_slot kn_zimage_text_slot = { .name = "text encoder",
                                      .id = "qwen3",
                                      .wants = "a Qwen3 text encoder",
                                      .network_bytes = sizeof(kn_qwen3_text),
                                      .take = take_text };
const kn_slot kn_zimage_diffusion_slot = { .name = "diffusion model",
                                           .id = "z-image",
                                           .wants = "a Z-Image diffusion model",
                                           .network_bytes = sizeof(kn_zimage),
                                           .take = take_diffusion };
const kn_slot kn_zimage_vae_slot = { .name = "VAE",
                                     .id = "flux-ae",
                                     .wants = "a FLUX autoencoder",
                                     .network_bytes = sizeof(kn_vae_flux),
                                     .take = take_vae };

struct zimage {
    kn_pipeline base;
    kn_device *device;
    kn_precision precision;
    kn_residency residency;
    kn_tokenizer *tokenizer;
    kn_component text, diffusion, vae;
    kn_qwen3_text text_network;
    kn_zimage diffusion_network;
    kn_vae_flux vae_network;
};

/* One call of generate. */
struct call {
    kn_job job;
    struct zimage *p;
    kn_host_rows positive, negative; /* what the prompts became: [tokens, text width] */
    kn_tensor positive_words, negative_words;
};

/* The state before the last layer, of all tokens. */
static bool encode(struct call *c, const char *prompt, bool negative, kn_host_rows *ret, kn_error *err) {
    static const char before[] = "<|im_start|>user\n", after[] = "<|im_end|>\n<|im_start|>assistant\n";
    const kn_qwen3_text *network = &c->p->text_network;
    kn_draw_report *report = c->job.report;
    kn_run *r = &c->job.run;
    kn_tokens tokens = { 0 };
    if (!kn_qwen_tokenize(c->p->tokenizer, before, prompt, after, &tokens, err))
        return false;
    int dropped = (int)tokens.n - KN_MIN((int)tokens.n, MAX_TOKENS);
    tokens.n -= (size_t)dropped;
    *(negative ? &report->dropped_negative_tokens : &report->dropped_tokens) = dropped;
    if (!negative)
        report->prompt_tokens = (int)tokens.n;
    kn_job_dump_tokens(&c->job, negative ? "negative_tokens" : "tokens", &tokens);

    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_qwen3_text_forward(r, network, tokens.id, (int64_t)tokens.n, network->layers - 1);
    kn_check_finite(r, x, "text encoder output");
    bool ok = kn_host_rows_take(&c->job, x, ret, err);
    kn_scope_close(r, s, KN_NONE);
    kn_tokens_free(&tokens);
    if (ok)
        kn_job_dump(&c->job, negative ? "negative_text_embeddings" : "text_embeddings", 2,
                    (int64_t[]){ ret->count, ret->width }, ret->at);
    return ok;
}

static bool encode_prompts(struct call *c, kn_error *err) {
    const kn_recipe *recipe = c->job.recipe;
    bool ok = kn_job_begin(&c->job, KN_STAGE_ENCODE, &c->p->text, err) &&
              encode(c, recipe->prompt, false, &c->positive, err) &&
              (!kn_recipe_is_guided(recipe) || encode(c, recipe->negative_prompt, true, &c->negative, err));
    kn_job_end(&c->job, KN_STAGE_ENCODE, &c->p->text);
    return ok && kn_job_progress(&c->job, "encode", 0, 0, err);
}

static kn_tensor encode_picture(kn_run *r, void *ctx, kn_tensor picture) {
    return kn_vae_flux_encode(r, ctx, picture);
}

/* clean: room for the latent of the picture to start from. */
static bool encode_init_image(struct call *c, float *clean, kn_error *err) {
    bool ok = kn_job_begin(&c->job, KN_STAGE_PICTURES, &c->p->vae, err) &&
              kn_job_encode_start(&c->job, encode_picture, &c->p->vae_network, clean, err);
    kn_job_end(&c->job, KN_STAGE_PICTURES, &c->p->vae);
    return ok;
}

/* What the transformer makes of a prompt once, for all steps. */
static kn_tensor refine(struct call *c, const kn_host_rows *text) {
    kn_run *r = &c->job.run;
    kn_tensor rows = kn_upload(r, 2, (int64_t[]){ text->count, text->width }, text->at);
    kn_tensor words = kn_zimage_refine_text(r, &c->p->diffusion_network, rows);
    kn_drop(r, rows);
    return words;
}

static kn_tensor output(void *ctx, kn_run *r, kn_tensor latent, float sigma, bool negative) {
    struct call *c = ctx;
    kn_tensor words = negative ? c->negative_words : c->positive_words;
    return kn_zimage_forward(r, &c->p->diffusion_network, words, latent, c->job.h / KN_ZIMAGE_PATCH,
                             c->job.w / KN_ZIMAGE_PATCH, sigma);
}

/* clean: a latent to start from, or NULL. x: room for the latent. */
static bool diffuse(struct call *c, const float *clean, float *x, kn_error *err) {
    kn_job *j = &c->job;
    const kn_denoiser denoiser = { .output = output,
                                   .ctx = c,
                                   .guided = c->negative.at,
                                   .patch = KN_ZIMAGE_PATCH,
                                   .order = KN_CHANNELS_INSIDE,
                                   .sign = -1 };
    bool ok = kn_job_begin(j, KN_STAGE_DIFFUSE, &c->p->diffusion, err);
    if (ok) {
        kn_scope s = kn_scope_open(&j->run);
        c->positive_words = refine(c, &c->positive);
        if (denoiser.guided)
            c->negative_words = refine(c, &c->negative);
        ok = kn_job_went_well(j, err) && kn_job_diffuse(j, &denoiser, clean, x, err);
        kn_scope_close(&j->run, s, KN_NONE);
    }
    kn_job_end(j, KN_STAGE_DIFFUSE, &c->p->diffusion);
    return ok;
}

static kn_tensor decode_latent(kn_run *r, void *ctx, kn_tensor latent) {
    return kn_vae_flux_decode(r, ctx, latent);
}

static bool decode(struct call *c, const float *x, kn_image *ret, kn_error *err) {
    kn_vae_flux *network = &c->p->vae_network;
    /* The last level is the peak: its input, that normed, and what half as many channels come out of the convolution.
     */
    const kn_weight *widest = &network->decoder.level[KN_VAE_FLUX_LEVELS - 1].residual[0].conv1;
    const kn_decoder vae = { .decode = decode_latent,
                             .ctx = network,
                             .latent_channels = KN_VAE_FLUX_CHANNELS,
                             .channels = 3,
                             .factor = KN_VAE_FLUX_FACTOR,
                             .bytes_per_pixel = 12 * (uint64_t)widest->dim[3] };
    return kn_job_decode(&c->job, &c->p->vae, &vae, x, ret, err);
}

/* Each stage loads, computes and, when staged, leaves before the next one comes. */
static bool run_stages(struct call *c, kn_image *ret, kn_error *err) {
    size_t n = (size_t)c->job.channels * c->job.h * c->job.w;
    bool from_picture = c->job.recipe->init_image != NULL;
    float *x = malloc(n * sizeof *x), *clean = from_picture ? malloc(n * sizeof *clean) : NULL;
    bool ok = ((x && (clean || !from_picture)) || kn_fail_nomem(err, 2 * n * sizeof *x)) &&
              (!from_picture || encode_init_image(c, clean, err)) && encode_prompts(c, err) &&
              diffuse(c, clean, x, err) && decode(c, x, ret, err);
    free(x);
    free(clean);
    return ok;
}

static bool generate(kn_pipeline *base, const kn_recipe *recipe, const kn_hooks *hooks, kn_image *ret,
                     kn_draw_report *report, kn_error *err) {
    struct zimage *p = (struct zimage *)base;
    struct call c = { .p = p,
                      .job = { .recipe = recipe,
                               .hooks = hooks,
                               .report = report,
                               .residency = p->residency,
                               .channels = KN_VAE_FLUX_CHANNELS,
                               .h = recipe->height / KN_VAE_FLUX_FACTOR,
                               .w = recipe->width / KN_VAE_FLUX_FACTOR } };
    *report = (kn_draw_report){ 0 };
    bool ok = kn_job_open(&c.job, p->device, p->precision, err);
    if (ok) {
        ok = run_stages(&c, ret, err);
        kn_run_close(&c.job.run);
    }
    free(c.positive.at);
    free(c.negative.at);
    return ok;
}

static void close_pipeline(kn_pipeline *base) {
    struct zimage *p = (struct zimage *)base;
    kn_component_close(&p->text);
    kn_component_close(&p->diffusion);
    kn_component_close(&p->vae);
    kn_tokenizer_close(p->tokenizer);
    free(p);
}

/* The parts were made for each other only if their widths meet. */
static bool parts_fit(const struct zimage *p, kn_error *err) {
    if (!kn_qwen_tokenizer_fits(p->tokenizer, p->text_network.vocabulary, err))
        return false;
    if (p->text_network.width != p->diffusion_network.text_width)
        return kn_fail(err, KN_E_FORMAT,
                       "text encoder: its width is %lld, the diffusion model wants %lld; they do not belong together",
                       (long long)p->text_network.width, (long long)p->diffusion_network.text_width);
    int64_t patch = (int64_t)KN_VAE_FLUX_CHANNELS * KN_ZIMAGE_PATCH * KN_ZIMAGE_PATCH;
    if (p->diffusion_network.patch_width != patch)
        return kn_fail(err, KN_E_FORMAT, "diffusion model: its patches have %lld values, those of the VAE %lld",
                       (long long)p->diffusion_network.patch_width, (long long)patch);
    return true;
}

bool kn_zimage_pipeline_open(const kn_model_files *files, kn_device *device, kn_precision precision,
                             kn_residency residency, kn_pipeline **ret, kn_error *err) {
    struct zimage *p = calloc(1, sizeof *p);
    int32_t turn_start = 0;
    if (!p)
        return kn_fail_nomem(err, sizeof *p);
    p->base = (kn_pipeline){ .generate = generate, .close = close_pipeline };
    p->device = device;
    p->precision = precision;
    p->residency = residency;
    if (kn_qwen_tokenizer_open(&files->tokenizer, &p->tokenizer, &turn_start, err) &&
        kn_component_open(&p->text, &kn_zimage_text_slot, &files->text_encoder, &p->text_network, err) &&
        kn_component_open(&p->diffusion, &kn_zimage_diffusion_slot, &files->diffusion_model, &p->diffusion_network,
                          err) &&
        kn_component_open(&p->vae, &kn_zimage_vae_slot, &files->vae, &p->vae_network, err) && parts_fit(p, err)) {
        *ret = &p->base;
        return true;
    }
    close_pipeline(&p->base);
    return false;
}
