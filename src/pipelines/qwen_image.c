/* Qwen-Image up to 2512, from text or from a picture: the text model of Qwen2.5-VL conditions a dual-stream transformer
 * whose latent the VAE of Wan 2.1 turns into pixels. */
#include "pipelines/qwen_image.h"

#include "models/qwen25_text.h"
#include "models/qwen_image.h"
#include "pipelines/config_json.h"
#include "pipelines/job.h"
#include "pipelines/qwen_tokenizer.h"
#include "pipelines/vaes.h"

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

/* What the transformer makes of the prompts, for all steps. */
struct state {
    kn_tensor words[KN_SIDES];
};

static kn_widths widths(const kn_pipeline *p) {
    const kn_qwen25_text *text = p->text.network;
    const kn_qwen_image *m = p->diffusion.network;
    return (kn_widths){ text->vocabulary, text->width, m->text_width, m->patch_width };
}

/* The system turn, which the text encoder sees and the transformer does not; of the published tokenizer 34 tokens. */
static bool count_system_tokens(const kn_pipeline *p, int64_t *ret, kn_error *err) {
    kn_tokens tokens = { 0 };
    if (!kn_qwen_tokenize(p->tokenizer, before, "", "", &tokens, err))
        return false;
    *ret = (int64_t)tokens.n;
    kn_tokens_free(&tokens);
    return true;
}

static bool tokenize(const kn_job *j, const char *prompt, kn_condition *ret, kn_error *err) {
    const kn_pipeline *p = j->pipeline;
    if (!count_system_tokens(p, &ret->skip, err) ||
        !kn_qwen_tokenize(p->tokenizer, before, prompt, after, &ret->tokens, err))
        return false;
    kn_condition_cut(ret, (size_t)ret->skip + MAX_TOKENS);
    return true;
}

static kn_tensor encode(kn_job *j, const kn_condition *prompt) {
    const kn_tokens *t = &prompt->tokens;
    int64_t n = (int64_t)t->n;
    kn_tensor x = kn_qwen25_text_forward(&j->run, j->pipeline->text.network, t->id, n, NULL, NULL, 0);
    return kn_rows(&j->run, x, prompt->skip, n - prompt->skip);
}

static void prepare(kn_job *j, kn_side side, kn_tensor rows) {
    struct state *s = j->state;
    s->words[side] = kn_qwen_image_read_text(&j->run, j->pipeline->diffusion.network, rows);
}

static kn_tensor output(kn_job *j, kn_side side, kn_tensor latent, float sigma) {
    const struct state *s = j->state;
    const kn_qwen_image_picture picture = { .patches = latent,
                                            .h = j->h / KN_QWEN_IMAGE_PATCH,
                                            .w = j->w / KN_QWEN_IMAGE_PATCH };
    return kn_qwen_image_velocity(&j->run, j->pipeline->diffusion.network, s->words[side], &picture, 1, sigma);
}

const kn_stages kn_qwen_image_stages = {
    .vae = &kn_wan_autoencoder,
    .patch = KN_QWEN_IMAGE_PATCH,
    .order = KN_CHANNELS_OUTSIDE,
    .sign = 1,
    .state_bytes = sizeof(struct state),
    .widths = widths,
    .tokenize = tokenize,
    .encode = encode,
    .prepare = prepare,
    .output = output,
};
