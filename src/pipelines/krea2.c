/* Krea 2, from text or from a picture: twelve states of Qwen3-VL-4B on its way condition a single-stream transformer
 * whose latent the autoencoder of Qwen-Image turns into pixels. */
#include "pipelines/krea2.h"

#include <stdlib.h>
#include <string.h>

#include "models/krea2.h"
#include "models/qwen3_text.h"
#include "models/vae_wan.h"
#include "pipelines/job.h"
#include "pipelines/qwen_tokenizer.h"

enum { MAX_PROMPT_TOKENS = 507 }; /* 512 with the five that close the template; what is beyond is cut */

/* How many layers of the text encoder lie behind each state that is used. */
static const int taps[] = { 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35 };

static const double rope_base = 5e6; /* of Qwen3-VL; not in the file */

static void take_text(void *network, kn_binder *b) {
    kn_qwen3_text_load(network, b, rope_base);
    kn_ignore_outside(b, "visual.");
    kn_ignore_outside(b, "model.visual.");
    kn_ignore_outside(b, "lm_head.");
}

static void take_diffusion(void *network, kn_binder *b) {
    kn_krea2_load(network, b);
}

static void take_vae(void *network, kn_binder *b) {
    kn_vae_wan_load(network, b);
}

const kn_slot kn_krea2_text_slot = { .name = "text encoder",
                                     .id = "qwen3-vl",
                                     .wants = "a Qwen3-VL-4B text encoder",
                                     .network_bytes = sizeof(kn_qwen3_text),
                                     .take = take_text };
const kn_slot kn_krea2_diffusion_slot = { .name = "diffusion model",
                                          .id = "krea2",
                                          .wants = "a Krea 2 diffusion model",
                                          .network_bytes = sizeof(kn_krea2),
                                          .take = take_diffusion };
const kn_slot kn_krea2_vae_slot = { .name = "VAE",
                                    .id = "qwen-image-vae",
                                    .wants = "a Qwen-Image or Wan 2.1 VAE",
                                    .network_bytes = sizeof(kn_vae_wan),
                                    .take = take_vae };

struct krea2 {
    kn_pipeline base;
    kn_device *device;
    kn_precision precision;
    kn_residency residency;
    kn_tokenizer *tokenizer;
    int32_t turn_start, turn_end; /* ids of <|im_start|> and <|im_end|> */
    kn_component text, diffusion, vae;
    kn_qwen3_text text_network;
    kn_krea2 diffusion_network;
    kn_vae_wan vae_network;
};

/* One call of generate. */
struct call {
    kn_job job;
    struct krea2 *p;
    kn_host_rows positive, negative; /* what the prompts became: [tokens, taps * text width] */
    kn_tensor positive_text, negative_text;
};

/* A prompt in its template. The text encoder sees all of it; what is before the user's text is not passed on. */
struct request {
    kn_tokens tokens;
    size_t prefix;
    int dropped; /* cut from the end of the user's text */
};

/* The prefix ends with the second <|im_start|>, "user", and the token that holds the newline: that may have grown
 * together with newlines of the prompt, and goes with it, as in the published code. */
static size_t prefix_of(const kn_tokens *t, int32_t turn_start) {
    for (size_t i = 1; i + 3 < t->n; i++)
        if (t->id[i] == turn_start)
            return i + 3;
    return 0;
}

/* Control tokens in the user's text stay text, so that the last <|im_end|> is the template's. */
static size_t suffix_of(const kn_tokens *t, int32_t turn_end) {
    size_t at = t->n;
    while (at > 0 && t->id[at - 1] != turn_end)
        at--;
    return at ? at - 1 : 0;
}

static bool tokenize(const struct krea2 *p, const char *prompt, struct request *ret, kn_error *err) {
    static const char before[] =
        "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial "
        "relationships of the objects and background:<|im_end|>\n<|im_start|>user\n";
    static const char after[] = "<|im_end|>\n<|im_start|>assistant\n";
    struct request q = { .dropped = 0 };
    kn_tokens *t = &q.tokens;
    if (!kn_qwen_tokenize(p->tokenizer, before, prompt, after, t, err))
        return false;
    q.prefix = prefix_of(t, p->turn_start);
    size_t suffix = suffix_of(t, p->turn_end), end = KN_MIN(suffix, q.prefix + MAX_PROMPT_TOKENS);
    memmove(t->id + end, t->id + suffix, (t->n - suffix) * sizeof *t->id);
    t->n -= suffix - end;
    q.dropped = (int)(suffix - end);
    *ret = q;
    return true;
}

static bool encode(struct call *c, const char *prompt, bool negative, kn_host_rows *ret, kn_error *err) {
    const kn_qwen3_text *network = &c->p->text_network;
    kn_draw_report *report = c->job.report;
    kn_run *r = &c->job.run;
    struct request q = { .dropped = 0 };
    if (!tokenize(c->p, prompt, &q, err))
        return false;
    int64_t n = (int64_t)q.tokens.n, skip = (int64_t)q.prefix;
    *(negative ? &report->dropped_negative_tokens : &report->dropped_tokens) = q.dropped;
    if (!negative)
        report->prompt_tokens = (int)n;
    kn_job_dump_tokens(&c->job, negative ? "negative_tokens" : "tokens", &q.tokens);

    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_qwen3_text_taps(r, network, q.tokens.id, n, taps, KN_COUNT(taps));
    kn_check_finite(r, x, "text encoder output");
    bool ok = kn_host_rows_take(&c->job, kn_rows(r, x, skip, n - skip), ret, err);
    kn_scope_close(r, s, KN_NONE);
    kn_tokens_free(&q.tokens);
    if (ok)
        kn_job_dump(&c->job, negative ? "negative_text_embeddings" : "text_embeddings", 3,
                    (int64_t[]){ ret->count, KN_COUNT(taps), network->width }, ret->at);
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
static kn_tensor fuse(struct call *c, const kn_host_rows *states) {
    kn_run *r = &c->job.run;
    kn_tensor rows = kn_upload(r, 2, (int64_t[]){ states->count, states->width }, states->at);
    kn_tensor text = kn_krea2_fuse_text(r, &c->p->diffusion_network, rows);
    kn_drop(r, rows);
    return text;
}

static kn_tensor velocity(void *ctx, kn_run *r, kn_tensor latent, float sigma, bool negative) {
    struct call *c = ctx;
    kn_tensor text = negative ? c->negative_text : c->positive_text;
    return kn_krea2_velocity(r, &c->p->diffusion_network, text, latent, c->job.h / KN_KREA2_PATCH,
                             c->job.w / KN_KREA2_PATCH, sigma);
}

/* clean: a latent to start from, or NULL. x: room for the latent. */
static bool diffuse(struct call *c, const float *clean, float *x, kn_error *err) {
    kn_job *j = &c->job;
    const kn_denoiser denoiser = { .output = velocity,
                                   .ctx = c,
                                   .guided = c->negative.at,
                                   .patch = KN_KREA2_PATCH,
                                   .order = KN_CHANNELS_OUTSIDE,
                                   .sign = 1 };
    bool ok = kn_job_begin(j, KN_STAGE_DIFFUSE, &c->p->diffusion, err);
    if (ok) {
        kn_scope s = kn_scope_open(&j->run);
        c->positive_text = fuse(c, &c->positive);
        if (denoiser.guided)
            c->negative_text = fuse(c, &c->negative);
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
    struct krea2 *p = (struct krea2 *)base;
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
    struct krea2 *p = (struct krea2 *)base;
    kn_component_close(&p->text);
    kn_component_close(&p->diffusion);
    kn_component_close(&p->vae);
    kn_tokenizer_close(p->tokenizer);
    free(p);
}

static bool open_tokenizer(struct krea2 *p, const kn_source *source, kn_error *err) {
    if (!kn_qwen_tokenizer_open(source, &p->tokenizer, &p->turn_start, err))
        return false;
    p->turn_end = kn_tokenizer_token(p->tokenizer, "<|im_end|>");
    return p->turn_end >= 0 || kn_fail(err, KN_E_FORMAT, "tokenizer: it has no token <|im_end|>");
}

/* The parts were made for each other only if their shapes meet. */
static bool parts_fit(const struct krea2 *p, kn_error *err) {
    const kn_qwen3_text *text = &p->text_network;
    const kn_krea2 *m = &p->diffusion_network;
    int64_t patch = (int64_t)KN_VAE_WAN_CHANNELS * KN_KREA2_PATCH * KN_KREA2_PATCH;
    if (!kn_qwen_tokenizer_fits(p->tokenizer, text->vocabulary, err))
        return false;
    if (text->width != m->text_form.width)
        return kn_fail(err, KN_E_FORMAT,
                       "text encoder: its width is %lld, the diffusion model wants %lld; they do not belong together",
                       (long long)text->width, (long long)m->text_form.width);
    if (text->layers < taps[KN_COUNT(taps) - 1])
        return kn_fail(err, KN_E_FORMAT, "text encoder: it has %d layers, Krea 2 looks behind the first %d",
                       text->layers, taps[KN_COUNT(taps) - 1]);
    if (m->taps != (int64_t)KN_COUNT(taps))
        return kn_fail(err, KN_E_FORMAT, "diffusion model: it fuses %lld states of the text encoder, Krea 2 has %zu",
                       (long long)m->taps, KN_COUNT(taps));
    if (m->patch_width != patch)
        return kn_fail(err, KN_E_FORMAT, "diffusion model: its patches have %lld values, those of the VAE %lld",
                       (long long)m->patch_width, (long long)patch);
    return true;
}

bool kn_krea2_pipeline_open(const kn_model_files *files, kn_device *device, kn_precision precision,
                            kn_residency residency, kn_pipeline **ret, kn_error *err) {
    struct krea2 *p = calloc(1, sizeof *p);
    if (!p)
        return kn_fail_nomem(err, sizeof *p);
    p->base = (kn_pipeline){ .generate = generate, .close = close_pipeline };
    p->device = device;
    p->precision = precision;
    p->residency = residency;
    if (open_tokenizer(p, &files->tokenizer, err) &&
        kn_component_open(&p->text, &kn_krea2_text_slot, &files->text_encoder, &p->text_network, err) &&
        kn_component_open(&p->diffusion, &kn_krea2_diffusion_slot, &files->diffusion_model, &p->diffusion_network,
                          err) &&
        kn_component_open(&p->vae, &kn_krea2_vae_slot, &files->vae, &p->vae_network, err) && parts_fit(p, err)) {
        *ret = &p->base;
        return true;
    }
    close_pipeline(&p->base);
    return false;
}
