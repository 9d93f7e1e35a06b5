/* Qwen-Image up to 2512, from text or from a picture, and Qwen-Image-Edit: the text model of Qwen2.5-VL conditions a
 * dual-stream transformer whose latent the VAE of Wan 2.1 turns into pixels. Pictures to edit are seen by Qwen2.5-VL,
 * small, and follow the drawn one as latents. */
#include "pipelines/qwen_image.h"

#include <string.h>

#include "base/buf.h"
#include "image/resize.h"
#include "image/transform.h"
#include "models/qwen25_text.h"
#include "models/qwen25_vision.h"
#include "models/qwen_image.h"
#include "models/vision_patches.h"
#include "pipelines/config_json.h"
#include "pipelines/job.h"
#include "pipelines/qwen_tokenizer.h"
#include "pipelines/vaes.h"

enum { MAX_TOKENS = 1024 }; /* behind the system turn, the end of the template among them; what is beyond is cut */

/* A side of the pixels that become one token of the text encoder, and of the square that a picture it sees covers. */
enum { TOKEN_SIDE = 28, SEEN_SIDE = 384 };

static const char image_pad[] = "<|image_pad|>";

/* The system turn, and the beginning of the user's. */
static const char describe[] = "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, "
                               "quantity, text, spatial relationships of the objects and background:<|im_end|>\n"
                               "<|im_start|>user\n";
static const char edit[] = "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, "
                           "texture, objects, background), then explain how the user's text instruction should alter "
                           "or modify the image. Generate a new image that meets the user's requirements while "
                           "maintaining consistency with the original input where appropriate.<|im_end|>\n"
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

static void take_vision(void *network, kn_binder *b) {
    static const char *const others[] = { "model.language_model.", "model.layers.", "model.embed_tokens.",
                                          "model.norm.", "lm_head." };
    kn_qwen25_vision_load(network, b);
    for (size_t i = 0; i < KN_COUNT(others); i++) /* of a file that also holds the text model */
        kn_ignore_outside(b, "%s", others[i]);
}

static bool prepare_vision(void *network, const kn_source *source, kn_error *err) {
    kn_qwen25_vision *m = network;
    kn_vl_config config = { 0 };
    if (source->path && !kn_vl_config_read_beside(source->path, &config, err))
        return false;
    m->layout = (kn_vision25_layout){ .depth = config.vision.depth,
                                      .heads = config.vision.heads,
                                      .width = config.vision.width,
                                      .window = config.window_pixels / TOKEN_SIDE };
    for (int i = 0; i < config.whole_count; i++)
        if (config.whole[i] < KN_VISION25_MAX_BLOCKS)
            m->layout.whole |= (uint64_t)1 << config.whole[i];
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
const kn_slot kn_qwen_image_vision_slot = { .name = "vision encoder",
                                            .id = "qwen2.5-vl-vision",
                                            .wants = "a Qwen2.5-VL vision encoder",
                                            .network_bytes = sizeof(kn_qwen25_vision),
                                            .take = take_vision,
                                            .prepare = prepare_vision };
const kn_slot kn_qwen_image_diffusion_slot = { .name = "diffusion model",
                                               .id = "qwen-image",
                                               .wants = "a Qwen-Image (2512 or earlier) diffusion model",
                                               .network_bytes = sizeof(kn_qwen_image),
                                               .take = take_diffusion };

/* What the vision encoder saw; what the transformer makes of the prompts, for all steps; the pictures to edit. */
struct state {
    kn_tensor seen[KN_MAX_REFERENCES];
    kn_tensor words[KN_SIDES];
    kn_qwen_image_picture reference[KN_MAX_REFERENCES];
};

static kn_widths widths(const kn_pipeline *p) {
    const kn_qwen25_text *text = p->text.network;
    const kn_qwen_image *m = p->diffusion.network;
    return (kn_widths){ text->vocabulary, text->width, m->text_width, m->patch_width };
}

/* ---- pictures to edit ---- */

/* A picture as it is seen: of whole tokens, within the limits of the published processor. */
static void size_of_seen(const kn_image *picture, uint32_t *width, uint32_t *height) {
    kn_vision_size(picture->width, picture->height, TOKEN_SIDE, 4 * TOKEN_SIDE * TOKEN_SIDE,
                   16384 * TOKEN_SIDE * TOKEN_SIDE, width, height);
}

static void tokens_of(const kn_image *picture, int *rows, int *columns) {
    uint32_t width = 0, height = 0;
    size_of_seen(picture, &width, &height);
    *rows = (int)height / TOKEN_SIDE;
    *columns = (int)width / TOKEN_SIDE;
}

static bool see(kn_job *j, int i, kn_error *err) {
    const kn_image *picture = &j->seen[i]->picture;
    struct state *s = j->state;
    kn_image rgb = { 0 }, whole = { 0 };
    uint32_t width = 0, height = 0;
    size_of_seen(picture, &width, &height);
    bool ok =
        kn_image_over_white(picture, &rgb, err) && kn_image_resize_by(&rgb, width, height, KN_BICUBIC, &whole, err);
    if (ok) {
        s->seen[i] = kn_qwen25_vision_forward(&j->run, j->pipeline->vision.network, whole.pixels, (int)whole.height,
                                              (int)whole.width);
        kn_check_finite(&j->run, s->seen[i], "vision encoder output");
    }
    kn_image_free(&rgb);
    kn_image_free(&whole);
    return ok && kn_job_went_well(j, err);
}

static bool sees(kn_pipeline *p, kn_error *err) {
    const kn_qwen25_vision *v = p->vision.network;
    const kn_qwen25_text *text = p->text.network;
    if (v->out != text->width)
        return kn_fail(err, KN_E_FORMAT,
                       "vision encoder: it makes rows of %lld, the text encoder's are %lld wide; they do not belong "
                       "together",
                       (long long)v->out, (long long)text->width);
    if (v->patch_in.patch * KN_VISION_MERGE != TOKEN_SIDE)
        return kn_fail(err, KN_E_UNSUPPORTED, "vision encoder: patches of %d pixels; Qwen2.5-VL has %d",
                       v->patch_in.patch, TOKEN_SIDE / KN_VISION_MERGE);
    if (kn_tokenizer_token(p->tokenizer, image_pad) < 0)
        return kn_fail(err, KN_E_FORMAT, "tokenizer: it has no token %s, which stands for pictures", image_pad);
    return true;
}

/* ---- prompts ---- */

static const char *system_turn(const kn_job *j) {
    return j->recipe->reference_count ? edit : describe;
}

/* The text encoder sees it and the transformer does not; with the published tokenizer 34 tokens, or 64 to edit. */
static bool count_system_tokens(const kn_job *j, int64_t *ret, kn_error *err) {
    kn_tokens tokens = { 0 };
    if (!kn_qwen_tokenize(j->pipeline->tokenizer, system_turn(j), "", "", &tokens, err))
        return false;
    *ret = (int64_t)tokens.n;
    kn_tokens_free(&tokens);
    return true;
}

static int64_t picture_tokens(const kn_job *j, int i) {
    int rows = 0, columns = 0;
    tokens_of(&j->seen[i]->picture, &rows, &columns);
    return (int64_t)rows * columns;
}

/* What stands before the prompt: the system turn, and the pictures, each as many tokens as have been seen of it. */
static bool begin_turn(const kn_job *j, kn_buf *into) {
    bool ok = kn_buf_add_text(into, system_turn(j));
    for (int i = 0; i < j->recipe->reference_count; i++) {
        ok = ok && kn_buf_printf(into, "Picture %d: <|vision_start|>", i + 1);
        for (int64_t k = 0; ok && k < picture_tokens(j, i); k++)
            ok = kn_buf_add_text(into, image_pad);
        ok = ok && kn_buf_add_text(into, "<|vision_end|>");
    }
    return ok;
}

/* Pictures do not count in what is too long. */
static bool tokenize(const kn_job *j, const char *prompt, kn_condition *ret, kn_error *err) {
    KN_AUTO_BUF before;
    kn_buf_init(&before, KN_TOKENIZER_MAX_TEXT_BYTES);
    if (!begin_turn(j, &before))
        return kn_fail(err, KN_E_RANGE, "the reference pictures take more than %d bytes of prompt",
                       KN_TOKENIZER_MAX_TEXT_BYTES);
    if (!count_system_tokens(j, &ret->skip, err) ||
        !kn_qwen_tokenize(j->pipeline->tokenizer, before.data, prompt, after, &ret->tokens, err))
        return false;
    int64_t most = ret->skip + MAX_TOKENS;
    for (int i = 0; i < j->recipe->reference_count; i++)
        most += picture_tokens(j, i);
    kn_condition_cut(ret, (size_t)most);
    return true;
}

static kn_tensor encode(kn_job *j, const kn_condition *prompt) {
    const struct state *s = j->state;
    const kn_tokens *t = &prompt->tokens;
    int32_t pad = kn_tokenizer_token(j->pipeline->tokenizer, image_pad);
    kn_rope_picture places[KN_MAX_REFERENCES];
    int64_t n = (int64_t)t->n, at = prompt->skip;
    for (int i = 0; i < j->recipe->reference_count; i++) {
        while (at < n && t->id[at] != pad)
            at++;
        places[i].at = at;
        tokens_of(&j->seen[i]->picture, &places[i].rows, &places[i].columns);
        at += picture_tokens(j, i);
    }
    kn_tensor x = kn_qwen25_text_forward(&j->run, j->pipeline->text.network, t->id, n, places, s->seen,
                                         j->recipe->reference_count);
    return kn_rows(&j->run, x, prompt->skip, n - prompt->skip);
}

/* ---- drawing ---- */

static void prepare(kn_job *j, kn_side side, kn_tensor rows) {
    struct state *s = j->state;
    s->words[side] = kn_qwen_image_read_text(&j->run, j->pipeline->diffusion.network, rows);
    for (int i = 0; side == KN_POSITIVE && i < j->recipe->reference_count; i++) {
        const kn_values *latent = &j->reference[i]->values;
        s->reference[i] = (kn_qwen_image_picture){ .patches = kn_job_upload_latent(j, latent),
                                                   .h = (int)latent->dim[1] / KN_QWEN_IMAGE_PATCH,
                                                   .w = (int)latent->dim[2] / KN_QWEN_IMAGE_PATCH };
    }
}

static kn_tensor output(kn_job *j, kn_side side, kn_tensor latent, float sigma) {
    const struct state *s = j->state;
    kn_qwen_image_picture pictures[KN_MAX_REFERENCES + 1] = {
        { .patches = latent, .h = j->h / KN_QWEN_IMAGE_PATCH, .w = j->w / KN_QWEN_IMAGE_PATCH }
    };
    memcpy(pictures + 1, s->reference, sizeof s->reference);
    return kn_qwen_image_velocity(&j->run, j->pipeline->diffusion.network, s->words[side], pictures,
                                  1 + j->recipe->reference_count, sigma);
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
    .seen_resolution = SEEN_SIDE,
    .see = see,
    .sees = sees,
};
