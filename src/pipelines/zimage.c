/* Z-Image, from text or from a picture: Qwen3's state before its last layer conditions a single-stream transformer
 * whose latent the FLUX autoencoder turns into pixels. */
#include "pipelines/zimage.h"

#include "models/qwen3_text.h"
#include "models/zimage.h"
#include "pipelines/job.h"
#include "pipelines/qwen_tokenizer.h"
#include "pipelines/vaes.h"

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

/* What the transformer makes of the prompts, for all steps. */
struct state {
    kn_tensor words[KN_SIDES];
};

static kn_widths widths(const kn_pipeline *p) {
    const kn_qwen3_text *text = p->text.network;
    const kn_zimage *m = p->diffusion.network;
    return (kn_widths){ text->vocabulary, text->width, m->text_width, m->patch_width };
}

static bool tokenize(const kn_job *j, const char *prompt, kn_condition *ret, kn_error *err) {
    static const char before[] = "<|im_start|>user\n", after[] = "<|im_end|>\n<|im_start|>assistant\n";
    if (!kn_qwen_tokenize(j->pipeline->tokenizer, before, prompt, after, &ret->tokens, err))
        return false;
    kn_condition_cut(ret, MAX_TOKENS);
    return true;
}

/* The state before the last layer, of all tokens. */
static kn_tensor encode(kn_job *j, const kn_condition *prompt) {
    const kn_qwen3_text *m = j->pipeline->text.network;
    return kn_qwen3_text_forward(&j->run, m, prompt->tokens.id, (int64_t)prompt->tokens.n, m->layers - 1);
}

static void prepare(kn_job *j, kn_side side, kn_tensor rows) {
    struct state *s = j->state;
    s->words[side] = kn_zimage_refine_text(&j->run, j->pipeline->diffusion.network, rows);
}

static kn_tensor output(kn_job *j, kn_side side, kn_tensor latent, float sigma) {
    const struct state *s = j->state;
    return kn_zimage_forward(&j->run, j->pipeline->diffusion.network, s->words[side], latent, j->h / KN_ZIMAGE_PATCH,
                             j->w / KN_ZIMAGE_PATCH, sigma);
}

const kn_stages kn_zimage_stages = {
    .vae = &kn_flux_autoencoder,
    .patch = KN_ZIMAGE_PATCH,
    .order = KN_CHANNELS_INSIDE,
    .sign = -1,
    .state_bytes = sizeof(struct state),
    .widths = widths,
    .tokenize = tokenize,
    .encode = encode,
    .prepare = prepare,
    .output = output,
};
