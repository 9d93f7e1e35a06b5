/* Qwen-Image up to 2512, from text or from a picture: the text model of Qwen2.5-VL conditions a dual-stream transformer
 * whose latent the VAE of Wan 2.1 turns into pixels. */
#include "pipelines/qwen_image.h"

#include <math.h>
#include <stdlib.h>

#include "models/qwen25_text.h"
#include "models/qwen_image.h"
#include "models/vae_wan.h"
#include "pipelines/config_json.h"
#include "pipelines/job.h"
#include "pipelines/qwen_tokenizer.h"

enum { MAX_TOKENS = 1024 }; /* behind the system turn, the end of the template among them; what is beyond is cut */

static const char before[] = "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, "
                             "quantity, text, spatial relationships of the objects and background:<|im_end|>\n"
                             "<|im_start|>user\n";
static const char after[] = "<|im_end|>\n<|im_start|>assistant\n";

static void take_text(void *network, kn_binder *b) {
    static const char *const others[] = { "visual.", "model.visual.", "lm_head." };
    kn_qwen25_text_load(network, b);
    for (size_t i = 0; i < KN_COUNT(others); i++) {
        kn_ignore_outside(b, "%s", others[i]);
        kn_ignore_outside(b, "text_encoders.qwen25_7b.transformer.%s", others[i]);
    }
    kn_ignore_outside(b, "text_encoders.qwen25_7b.logit_scale");
}

/* How a head is dealt to time, row and column; without a config.json as in the published models. */
static bool prepare_text(void *network, const kn_source *source, kn_error *err) {
    enum { MOST_PAIRS = 1 << 12 };
    kn_qwen25_text *m = network;
    kn_vl_config config = { 0 };
    const int *s = config.sections;
    if (source->path && !kn_vl_config_read_beside(source->path, &config, err))
        return false;
    int64_t pairs = (int64_t)s[0] + s[1] + s[2];
    if (pairs > MOST_PAIRS)
        return kn_fail(err, KN_E_RANGE, "config.json says mrope sections %d, %d, %d", s[0], s[1], s[2]);
    m->layout = (kn_qwen25_layout){ .head = 2 * (int)pairs, .sections = { s[0], s[1], s[2] } };
    return true;
}

static void take_diffusion(void *network, kn_binder *b) {
    kn_qwen_image_load(network, b);
}

static void take_vae(void *network, kn_binder *b) {
    kn_vae_wan_load(network, b);
}

const kn_slot kn_qwen_image_text_slot = { .name = "text encoder",
                                          .id = "qwen2.5-vl",
                                          .wants = "a Qwen2.5-VL text encoder",
                                          .network_bytes = sizeof(kn_qwen25_text),
                                          .take = take_text,
                                          .prepare = prepare_text };
const kn_slot kn_qwen_image_diffusion_slot = { .name = "diffusion model",
                                               .id = "qwen-image",
                                               .wants = "a Qwen-Image (2512 or earlier) diffusion model",
                                               .network_bytes = sizeof(kn_qwen_image),
                                               .take = take_diffusion };
const kn_slot kn_qwen_image_vae_slot = { .name = "VAE",
                                         .id = "qwen-image-vae",
                                         .wants = "a Qwen-Image or Wan 2.1 VAE",
                                         .network_bytes = sizeof(kn_vae_wan),
                                         .take = take_vae };

struct qwen_image {
    kn_pipeline base;
    kn_device *device;
    kn_precision precision;
    kn_residency residency;
    kn_tokenizer *tokenizer;
    size_t system_tokens; /* the text encoder sees them, the transformer does not */
    kn_component text, diffusion, vae;
    kn_qwen25_text text_network;
    kn_qwen_image diffusion_network;
    kn_vae_wan vae_network;
};

/* One call of generate. */
struct call {
    kn_job job;
    struct qwen_image *p;
    kn_host_rows positive, negative; /* what the prompts became: [tokens, text width] */
    kn_tensor positive_words, negative_words;
};

static bool encode_tokens(struct call *c, const kn_tokens *tokens, kn_host_rows *ret, kn_error *err) {
    kn_run *r = &c->job.run;
    int64_t n = (int64_t)tokens->n, skip = (int64_t)c->p->system_tokens;
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_qwen25_text_forward(r, &c->p->text_network, tokens->id, n, NULL, NULL, 0);
    kn_check_finite(r, x, "text encoder output");
    bool ok = kn_host_rows_take(&c->job, kn_rows(r, x, skip, n - skip), ret, err);
    kn_scope_close(r, s, KN_NONE);
    return ok;
}

static bool encode(struct call *c, const char *prompt, bool negative, kn_host_rows *ret, kn_error *err) {
    kn_draw_report *report = c->job.report;
    kn_tokens tokens = { 0 };
    if (!kn_qwen_tokenize(c->p->tokenizer, before, prompt, after, &tokens, err))
        return false;
    int dropped = (int)(tokens.n - KN_MIN(tokens.n, c->p->system_tokens + MAX_TOKENS));
    tokens.n -= (size_t)dropped;
    *(negative ? &report->dropped_negative_tokens : &report->dropped_tokens) = dropped;
    if (!negative)
        report->prompt_tokens = (int)tokens.n;
    kn_job_dump_tokens(&c->job, negative ? "negative_tokens" : "tokens", &tokens);
    bool ok = encode_tokens(c, &tokens, ret, err);
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
    return kn_vae_wan_encode(r, ctx, picture);
}

/* clean: room for the latent of the picture to start from. */
static bool encode_init_image(struct call *c, float *clean, kn_error *err) {
    bool ok = kn_job_begin(&c->job, KN_STAGE_PICTURES, &c->p->vae, err) &&
              kn_job_encode_start(&c->job, encode_picture, &c->p->vae_network, clean, err);
    kn_job_end(&c->job, KN_STAGE_PICTURES, &c->p->vae);
    return ok;
}

/* What the transformer makes of a prompt once, for all steps. */
static kn_tensor read_text(struct call *c, const kn_host_rows *text) {
    kn_run *r = &c->job.run;
    kn_tensor rows = kn_upload(r, 2, (int64_t[]){ text->count, text->width }, text->at);
    kn_tensor words = kn_qwen_image_read_text(r, &c->p->diffusion_network, rows);
    kn_drop(r, rows);
    return words;
}

static kn_tensor velocity(void *ctx, kn_run *r, kn_tensor latent, float sigma, bool negative) {
    struct call *c = ctx;
    const kn_qwen_image_picture picture = { .patches = latent,
                                            .h = c->job.h / KN_QWEN_IMAGE_PATCH,
                                            .w = c->job.w / KN_QWEN_IMAGE_PATCH };
    return kn_qwen_image_velocity(r, &c->p->diffusion_network, negative ? c->negative_words : c->positive_words,
                                  &picture, 1, sigma);
}

static double length_of(const float *x, int64_t n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += (double)x[i] * x[i];
    return sqrt(squares);
}

/* As the pipeline of diffusers: guidance turns each patch, whose length stays that of the positive prompt's. */
static void guide_rescaled(float *positive, const float *negative, float cfg, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows; i++, positive += width, negative += width) {
        double wanted = length_of(positive, width);
        kn_guide(positive, negative, cfg, (size_t)width);
        double length = length_of(positive, width);
        for (int64_t k = 0; length > 0 && k < width; k++)
            positive[k] *= (float)(wanted / length);
    }
}

/* clean: a latent to start from, or NULL. x: room for the latent. */
static bool diffuse(struct call *c, const float *clean, float *x, kn_error *err) {
    kn_job *j = &c->job;
    const kn_denoiser denoiser = { .output = velocity,
                                   .ctx = c,
                                   .guided = c->negative.at,
                                   .patch = KN_QWEN_IMAGE_PATCH,
                                   .order = KN_CHANNELS_OUTSIDE,
                                   .sign = 1,
                                   .guide = j->recipe->rescaled_guidance ? guide_rescaled : NULL };
    bool ok = kn_job_begin(j, KN_STAGE_DIFFUSE, &c->p->diffusion, err);
    if (ok) {
        kn_scope s = kn_scope_open(&j->run);
        c->positive_words = read_text(c, &c->positive);
        if (denoiser.guided)
            c->negative_words = read_text(c, &c->negative);
        ok = kn_job_went_well(j, err) && kn_job_diffuse(j, &denoiser, clean, x, err);
        kn_scope_close(&j->run, s, KN_NONE);
    }
    kn_job_end(j, KN_STAGE_DIFFUSE, &c->p->diffusion);
    return ok;
}

static kn_tensor decode_latent(kn_run *r, void *ctx, kn_tensor latent) {
    return kn_vae_wan_decode(r, ctx, latent);
}

static bool decode(struct call *c, const float *x, kn_image *ret, kn_error *err) {
    kn_vae_wan *network = &c->p->vae_network;
    const kn_decoder vae = { .decode = decode_latent,
                             .ctx = network,
                             .latent_channels = KN_VAE_WAN_CHANNELS,
                             .channels = 3,
                             .factor = KN_VAE_WAN_FACTOR,
                             .bytes_per_pixel = kn_vae_wan_bytes_per_pixel(network) };
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
    struct qwen_image *p = (struct qwen_image *)base;
    struct call c = { .p = p,
                      .job = { .recipe = recipe,
                               .hooks = hooks,
                               .report = report,
                               .residency = p->residency,
                               .channels = KN_VAE_WAN_CHANNELS,
                               .h = recipe->height / KN_VAE_WAN_FACTOR,
                               .w = recipe->width / KN_VAE_WAN_FACTOR } };
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
    struct qwen_image *p = (struct qwen_image *)base;
    kn_component_close(&p->text);
    kn_component_close(&p->diffusion);
    kn_component_close(&p->vae);
    kn_tokenizer_close(p->tokenizer);
    free(p);
}

/* The system turn always has as many tokens; of the published tokenizer 34. */
static bool open_tokenizer(struct qwen_image *p, const kn_source *source, kn_error *err) {
    int32_t turn_start = 0;
    kn_tokens tokens = { 0 };
    if (!kn_qwen_tokenizer_open(source, &p->tokenizer, &turn_start, err) ||
        !kn_qwen_tokenize(p->tokenizer, before, "", "", &tokens, err))
        return false;
    p->system_tokens = tokens.n;
    kn_tokens_free(&tokens);
    return true;
}

/* The parts were made for each other only if their shapes meet. */
static bool parts_fit(const struct qwen_image *p, kn_error *err) {
    const kn_qwen_image *m = &p->diffusion_network;
    int64_t patch = (int64_t)KN_VAE_WAN_CHANNELS * KN_QWEN_IMAGE_PATCH * KN_QWEN_IMAGE_PATCH;
    if (!kn_qwen_tokenizer_fits(p->tokenizer, p->text_network.vocabulary, err))
        return false;
    if (p->text_network.width != m->text_width)
        return kn_fail(err, KN_E_FORMAT,
                       "text encoder: its width is %lld, the diffusion model wants %lld; they do not belong together",
                       (long long)p->text_network.width, (long long)m->text_width);
    if (m->patch_width != patch)
        return kn_fail(err, KN_E_FORMAT, "diffusion model: its patches have %lld values, those of the VAE %lld",
                       (long long)m->patch_width, (long long)patch);
    return true;
}

bool kn_qwen_image_pipeline_open(const kn_model_files *files, kn_device *device, kn_precision precision,
                                 kn_residency residency, kn_pipeline **ret, kn_error *err) {
    struct qwen_image *p = calloc(1, sizeof *p);
    if (!p)
        return kn_fail_nomem(err, sizeof *p);
    p->base = (kn_pipeline){ .generate = generate, .close = close_pipeline };
    p->device = device;
    p->precision = precision;
    p->residency = residency;
    if (open_tokenizer(p, &files->tokenizer, err) &&
        kn_component_open(&p->text, &kn_qwen_image_text_slot, &files->text_encoder, &p->text_network, err) &&
        kn_component_open(&p->diffusion, &kn_qwen_image_diffusion_slot, &files->diffusion_model, &p->diffusion_network,
                          err) &&
        kn_component_open(&p->vae, &kn_qwen_image_vae_slot, &files->vae, &p->vae_network, err) && parts_fit(p, err)) {
        *ret = &p->base;
        return true;
    }
    close_pipeline(&p->base);
    return false;
}
