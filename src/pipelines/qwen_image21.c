/* Qwen-Image 2.1, text to image: Qwen3-VL's residual stream conditions a block-causal transformer whose latent an RGBA
 * autoencoder turns into pixels. */
#include "pipelines/qwen_image21.h"

#include <stdio.h>
#include <stdlib.h>

#include "models/qwen3_text.h"
#include "models/qwen_image21.h"
#include "models/vae_qwen21.h"
#include "pipelines/job.h"
#include "pipelines/qwen_tokenizer.h"

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

/* One call of generate. */
struct call {
    kn_job job;
    struct qwen21 *p;
    kn_host_rows positive, negative; /* what the prompts became: [rows, text width] */
    kn_qwen21_prefix positive_prefix, negative_prefix;
};

/* Rows before the second <|im_start|> are the system turn; the transformer never sees them. */
static int64_t system_rows(const kn_tokens *t, int32_t turn_start) {
    for (size_t i = 1; i < t->n; i++)
        if (t->id[i] == turn_start)
            return (int64_t)i;
    return 0;
}

/* An empty prompt is a space. */
static bool tokenize(const struct qwen21 *p, const char *prompt, kn_tokens *ret, kn_error *err) {
    static const char before[] = "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n"
                                 "<|im_start|>user\n";
    static const char after[] = "<|im_end|>\n<|im_start|>assistant\n";
    if (!kn_qwen_tokenize(p->tokenizer, before, *prompt ? prompt : " ", after, ret, err))
        return false;
    if (ret->n > KN_QWEN21_MAX_POSITION) {
        kn_fail(err, KN_E_RANGE, "the prompt has %zu tokens, at most about %d fit", ret->n, KN_QWEN21_MAX_POSITION);
        kn_tokens_free(ret);
        return false;
    }
    return true;
}

/* sign: "" or "negative_", in front of the dumped names. */
static bool encode(struct call *c, const char *prompt, const char *sign, kn_host_rows *ret, kn_error *err) {
    struct qwen21 *p = c->p;
    kn_run *r = &c->job.run;
    kn_tokens tokens = { 0 };
    if (!tokenize(p, prompt, &tokens, err))
        return false;
    char name[64];
    snprintf(name, sizeof name, "%stokens", sign);
    kn_job_dump_tokens(&c->job, name, &tokens);
    if (!*sign)
        c->job.report->prompt_tokens = (int)tokens.n;

    kn_scope s = kn_scope_open(r);
    int64_t skip = system_rows(&tokens, p->turn_start);
    kn_tensor x = kn_qwen3_text_forward(r, &p->text_network, tokens.id, (int64_t)tokens.n, p->text_network.layers);
    kn_check_finite(r, x, "text encoder output");
    bool ok = kn_host_rows_take(&c->job, kn_rows(r, x, skip, (int64_t)tokens.n - skip), ret, err);
    kn_scope_close(r, s, KN_NONE);
    kn_tokens_free(&tokens);
    snprintf(name, sizeof name, "%stext_embeddings", sign);
    if (ok)
        kn_job_dump(&c->job, name, 2, (int64_t[]){ ret->count, ret->width }, ret->at);
    return ok;
}

static bool encode_prompts(struct call *c, kn_error *err) {
    const kn_recipe *recipe = c->job.recipe;
    bool ok = kn_job_begin(&c->job, KN_STAGE_ENCODE, &c->p->text, err) &&
              encode(c, recipe->prompt, "", &c->positive, err) &&
              (!kn_recipe_is_guided(recipe) || encode(c, recipe->negative_prompt, "negative_", &c->negative, err));
    kn_job_end(&c->job, KN_STAGE_ENCODE, &c->p->text);
    return ok && kn_job_progress(&c->job, "encode", 0, 0, err);
}

static void prefill(struct call *c, const kn_host_rows *text, kn_qwen21_prefix *ret) {
    kn_run *r = &c->job.run;
    const kn_qwen21_piece piece = { .text_rows = text->count };
    kn_tensor rows = kn_upload(r, 2, (int64_t[]){ text->count, text->width }, text->at);
    kn_qwen21_prefill(r, &c->p->diffusion_network, rows, &piece, 1, c->job.h, c->job.w, ret);
    kn_drop(r, rows);
}

static kn_tensor velocity(void *ctx, kn_run *r, kn_tensor latent, float sigma, bool negative) {
    struct call *c = ctx;
    const kn_qwen21_prefix *prefix = negative ? &c->negative_prefix : &c->positive_prefix;
    return kn_qwen21_velocity(r, &c->p->diffusion_network, prefix, latent, c->job.h, c->job.w, sigma);
}

/* x: room for the latent. */
static bool diffuse(struct call *c, float *x, kn_error *err) {
    kn_job *j = &c->job;
    const kn_denoiser denoiser = { .output = velocity, .ctx = c, .guided = c->negative.at, .patch = 1, .sign = 1 };
    bool ok = kn_job_begin(j, KN_STAGE_DIFFUSE, &c->p->diffusion, err);
    if (ok) {
        kn_scope s = kn_scope_open(&j->run);
        prefill(c, &c->positive, &c->positive_prefix);
        if (denoiser.guided)
            prefill(c, &c->negative, &c->negative_prefix);
        ok = kn_job_went_well(j, err) && kn_job_diffuse(j, &denoiser, NULL, x, err);
        kn_scope_close(&j->run, s, KN_NONE);
    }
    kn_job_end(j, KN_STAGE_DIFFUSE, &c->p->diffusion);
    return ok;
}

static kn_tensor decode_latent(kn_run *r, void *ctx, kn_tensor latent) {
    return kn_vae21_decode(r, ctx, latent);
}

static bool decode(struct call *c, const float *x, kn_image *ret, kn_error *err) {
    kn_vae21 *network = &c->p->vae_network;
    bool ok = kn_job_begin(&c->job, KN_STAGE_DECODE, &c->p->vae, err);
    /* The last level is the peak: its input, that upsampled, and the shortcut, with some room for the convolution. */
    const kn_weight *widest = &network->decoder.level[KN_VAE21_LEVELS - 1].residual[0].conv1;
    const kn_decoder vae = { .decode = decode_latent,
                             .ctx = network,
                             .latent_channels = KN_VAE21_CHANNELS,
                             .channels = 4,
                             .factor = KN_VAE21_FACTOR,
                             .bytes_per_pixel = 14 * (uint64_t)widest->dim[3] };
    ok = ok && kn_job_decode(&c->job, &vae, x, ret, err);
    kn_job_end(&c->job, KN_STAGE_DECODE, &c->p->vae);
    return ok && kn_job_progress(&c->job, "decode", 0, 0, err);
}

/* Encoder, diffusion, VAE: each loads, computes and, when staged, leaves before the next one comes. */
static bool run_stages(struct call *c, kn_image *ret, kn_error *err) {
    size_t n = (size_t)c->job.channels * c->job.h * c->job.w;
    float *x = malloc(n * sizeof *x);
    bool ok = (x || kn_fail_nomem(err, n * sizeof *x)) && encode_prompts(c, err) && diffuse(c, x, err) &&
              decode(c, x, ret, err);
    free(x);
    return ok;
}

static bool generate(kn_pipeline *base, const kn_recipe *recipe, const kn_hooks *hooks, kn_image *ret,
                     kn_draw_report *report, kn_error *err) {
    struct qwen21 *p = (struct qwen21 *)base;
    struct call *c = calloc(1, sizeof *c);
    if (!c)
        return kn_fail_nomem(err, sizeof *c);
    *report = (kn_draw_report){ 0 };
    c->p = p;
    c->job = (kn_job){ .recipe = recipe,
                       .hooks = hooks,
                       .report = report,
                       .residency = p->residency,
                       .channels = KN_VAE21_CHANNELS,
                       .h = recipe->height / KN_VAE21_FACTOR,
                       .w = recipe->width / KN_VAE21_FACTOR };
    bool ok = kn_run_open(p->device, p->precision, hooks->stop, 0, &c->job.run, err);
    if (ok) {
        ok = run_stages(c, ret, err);
        kn_run_close(&c->job.run);
    }
    free(c->positive.at);
    free(c->negative.at);
    free(c);
    return ok;
}

static void close_pipeline(kn_pipeline *base) {
    struct qwen21 *p = (struct qwen21 *)base;
    kn_component_close(&p->text);
    kn_component_close(&p->diffusion);
    kn_component_close(&p->vae);
    kn_tokenizer_close(p->tokenizer);
    free(p);
}

/* The parts were made for each other only if their widths meet. */
static bool parts_fit(const struct qwen21 *p, kn_error *err) {
    if (!kn_qwen_tokenizer_fits(p->tokenizer, p->text_network.vocabulary, err))
        return false;
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
    if (kn_qwen_tokenizer_open(&files->tokenizer, &p->tokenizer, &p->turn_start, err) &&
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
