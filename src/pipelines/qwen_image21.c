/* Qwen-Image 2.1: Qwen3-VL's residual stream conditions a block-causal transformer whose latent an RGBA autoencoder
 * turns into pixels. Reference pictures are part of the prompt: Qwen3-VL sees them, and in the transformer's sequence
 * their latents stand where the prompt has their tokens. */
#include "pipelines/qwen_image21.h"

#include <string.h>

#include "base/buf.h"
#include "image/resize.h"
#include "image/transform.h"
#include "models/qwen3_text.h"
#include "models/qwen_image21.h"
#include "models/qwen_vision.h"
#include "models/vae_qwen21.h"
#include "models/vision_patches.h"
#include "pipelines/config_json.h"
#include "pipelines/job.h"
#include "pipelines/qwen_tokenizer.h"
#include "pipelines/vaes.h"

static const double rope_base = 5e6; /* of Qwen3-VL; not in the file */
static const char image_pad[] = "<|image_pad|>";

static void take_text(void *network, kn_binder *b) {
    kn_qwen3_text_load(network, b, rope_base);
    kn_ignore_outside(b, "visual.");
    kn_ignore_outside(b, "model.visual.");
    kn_ignore_outside(b, "lm_head.");
}

/* The vision encoder, and what its config.json tells of the text encoder's rotary pairs. */
struct vision {
    kn_qwen_vision network;
    int sections[3];
};

static void take_vision(void *network, kn_binder *b) {
    static const char *const others[] = { "model.language_model.", "model.layers.", "model.embed_tokens.",
                                          "model.norm.", "lm_head." };
    struct vision *v = network;
    kn_qwen_vision_load(&v->network, b);
    for (size_t i = 0; i < KN_COUNT(others); i++) /* of a file that also holds the text model */
        kn_ignore_outside(b, "%s", others[i]);
}

static bool prepare_vision(void *network, const kn_source *source, kn_error *err) {
    struct vision *v = network;
    kn_vl_config config = { 0 };
    if (source->path && !kn_vl_config_read_beside(source->path, &config, err))
        return false;
    v->network.layout = config.vision;
    memcpy(v->sections, config.sections, sizeof v->sections);
    return true;
}

static void take_diffusion(void *network, kn_binder *b) {
    kn_qwen21_load(network, b);
}

const kn_slot kn_qwen21_text_slot = { .name = "text encoder",
                                      .id = "qwen3-vl",
                                      .wants = "a Qwen3-VL text encoder",
                                      .network_bytes = sizeof(kn_qwen3_text),
                                      .take = take_text };
const kn_slot kn_qwen21_vision_slot = { .name = "vision encoder",
                                        .id = "qwen3-vl-vision",
                                        .wants = "a Qwen3-VL vision encoder",
                                        .network_bytes = sizeof(struct vision),
                                        .take = take_vision,
                                        .prepare = prepare_vision };
const kn_slot kn_qwen21_diffusion_slot = { .name = "diffusion model",
                                           .id = "qwen-image-2.1",
                                           .wants = "a Qwen-Image 2.1 diffusion model",
                                           .network_bytes = sizeof(kn_qwen21),
                                           .take = take_diffusion };
/* A side of the pixels that become one token of the text encoder, and of those that become one of the transformer. */
enum { TOKEN_SIDE = 32, CELLS_PER_TOKEN = TOKEN_SIDE / KN_VAE21_FACTOR };

_Static_assert((int)KN_MAX_REFERENCES == (int)KN_QWEN21_MAX_REFERENCES,
               "as many references as the model was trained with");

/* What the vision encoder saw, and what the transformer made of prompts and references, for all steps. */
struct state {
    kn_vision_features seen[KN_MAX_REFERENCES];
    kn_qwen21_prefix prefix[KN_SIDES];
};

static kn_widths widths(const kn_pipeline *p) {
    const kn_qwen3_text *text = p->text.network;
    const kn_qwen21 *m = p->diffusion.network;
    return (kn_widths){ text->vocabulary, text->width, m->text_width, m->channels };
}

/* ---- references ---- */

static int rows_of(const kn_job *j, int reference) {
    return (int)j->reference[reference]->picture.height / TOKEN_SIDE;
}

static int columns_of(const kn_job *j, int reference) {
    return (int)j->reference[reference]->picture.width / TOKEN_SIDE;
}

static bool see(kn_job *j, int i, kn_error *err) {
    struct state *s = j->state;
    kn_image rgb = { 0 };
    if (!kn_image_over_white(&j->reference[i]->picture, &rgb, err))
        return false;
    const struct vision *vision = j->pipeline->vision.network;
    kn_qwen_vision_forward(&j->run, &vision->network, rgb.pixels, (int)rgb.height, (int)rgb.width, &s->seen[i]);
    kn_check_finite(&j->run, s->seen[i].rows, "vision encoder output");
    kn_image_free(&rgb);
    return kn_job_went_well(j, err);
}

static bool sees(kn_pipeline *p, kn_error *err) {
    const struct vision *vision = p->vision.network;
    const kn_qwen_vision *v = &vision->network;
    const kn_qwen3_text *text = p->text.network;
    const int *told = vision->sections, *pairs = text->axes.pairs;
    if (v->out != text->width)
        return kn_fail(err, KN_E_FORMAT,
                       "vision encoder: it makes rows of %lld, the text encoder's are %lld wide; they do not belong "
                       "together",
                       (long long)v->out, (long long)text->width);
    if (v->patch_in.patch * KN_VISION_MERGE != TOKEN_SIDE)
        return kn_fail(err, KN_E_UNSUPPORTED, "vision encoder: patches of %d pixels; Qwen3-VL has %d",
                       v->patch_in.patch, TOKEN_SIDE / KN_VISION_MERGE);
    if (told[0] + told[1] + told[2] > 0 && memcmp(told, pairs, 3 * sizeof *told) != 0)
        return kn_fail(err, KN_E_UNSUPPORTED,
                       "text encoder: config.json says mrope sections %d, %d, %d; %d, %d, %d are known", told[0],
                       told[1], told[2], pairs[0], pairs[1], pairs[2]);
    if (kn_tokenizer_token(p->tokenizer, image_pad) < 0)
        return kn_fail(err, KN_E_FORMAT, "tokenizer: it has no token %s, which stands for pictures", image_pad);
    return true;
}

/* ---- prompts ---- */

/* Rows before the second <|im_start|> are the system turn; the transformer never sees them. */
static int64_t system_rows(const kn_tokens *t, int32_t turn_start) {
    for (size_t i = 1; i < t->n; i++)
        if (t->id[i] == turn_start)
            return (int64_t)i;
    return 0;
}

/* What stands before the prompt: the system turn, and the references, each as many tokens as the text encoder has seen.
 */
static bool begin_turn(int count, const int *tokens, kn_buf *into) {
    bool ok = kn_buf_add_text(into, "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n"
                                    "<|im_start|>user\n");
    for (int i = 0; i < count; i++) {
        ok = ok && kn_buf_printf(into, "%s<image%d><|vision_start|>", i ? " " : "", i + 1);
        for (int k = 0; ok && k < tokens[i]; k++)
            ok = kn_buf_add_text(into, image_pad);
        ok = ok && kn_buf_add_text(into, "<|vision_end|>");
    }
    return ok;
}

/* The references among a prompt's tokens, and the runs of text around them behind the system turn. */
struct places {
    kn_rope_picture picture[KN_MAX_REFERENCES];
    int64_t run[KN_MAX_REFERENCES + 1];
    int64_t words; /* of all runs */
};

static struct places find_places(const kn_job *j, const kn_condition *prompt) {
    struct places p = { .words = 0 };
    const kn_tokens *t = &prompt->tokens;
    int32_t pad = kn_tokenizer_token(j->pipeline->tokenizer, image_pad);
    int64_t from = prompt->skip, n = (int64_t)t->n;
    int count = j->recipe->reference_count;
    for (int i = 0; i < count; i++) {
        int rows = rows_of(j, i), columns = columns_of(j, i);
        int64_t at = from;
        while (at < n && t->id[at] != pad)
            at++;
        p.picture[i] = (kn_rope_picture){ at, rows, columns };
        p.run[i] = at - from;
        p.words += p.run[i];
        from = at + (int64_t)rows * columns;
    }
    p.run[count] = n - from;
    p.words += n - from;
    return p;
}

/* Refuses what the transformer has no positions for. sides: the longer ones of the references. */
static bool has_positions(int64_t words, const uint32_t *sides, int count, kn_error *err) {
    int64_t around = 0;
    for (int i = 0; i < count; i++)
        around += (int64_t)CELLS_PER_TOKEN * (sides[i] / TOKEN_SIDE);
    return words + around <= KN_QWEN21_MAX_POSITION ||
           kn_fail(err, KN_E_RANGE, "the prompt has %lld tokens, at most %lld fit%s", (long long)words,
                   (long long)KN_MAX(KN_QWEN21_MAX_POSITION - around, 0), count ? " beside the references" : "");
}

static const char after[] = "<|im_end|>\n<|im_start|>assistant\n";

/* The words are the same whether or not the tokens of pictures stand among them: control tokens are around those. */
static bool has_room(const kn_tokenizer *t, const char *prompt, const uint32_t *sides, int count, kn_error *err) {
    static const int nothing[KN_MAX_REFERENCES];
    kn_tokens tokens = { 0 };
    KN_AUTO_BUF before;
    kn_buf_init(&before, KN_TOKENIZER_MAX_TEXT_BYTES);
    if (!begin_turn(count, nothing, &before))
        return kn_fail_nomem(err, before.limit);
    if (!kn_qwen_tokenize(t, before.data, *prompt ? prompt : " ", after, &tokens, err))
        return false;
    int64_t words = (int64_t)tokens.n - system_rows(&tokens, kn_tokenizer_token(t, "<|im_start|>"));
    kn_tokens_free(&tokens);
    return has_positions(words, sides, count, err);
}

/* An empty prompt is a space. */
static bool tokenize(const kn_job *j, const char *prompt, kn_condition *ret, kn_error *err) {
    const kn_pipeline *p = j->pipeline;
    int count = j->recipe->reference_count, seen[KN_MAX_REFERENCES];
    uint32_t sides[KN_MAX_REFERENCES];
    KN_AUTO_BUF before;
    kn_buf_init(&before, KN_TOKENIZER_MAX_TEXT_BYTES);
    for (int i = 0; i < count; i++) {
        seen[i] = rows_of(j, i) * columns_of(j, i);
        sides[i] = (uint32_t)KN_MAX(rows_of(j, i), columns_of(j, i)) * TOKEN_SIDE;
    }
    if (!begin_turn(count, seen, &before))
        return kn_fail(err, KN_E_RANGE, "the reference pictures take more than %d bytes of prompt",
                       KN_TOKENIZER_MAX_TEXT_BYTES);
    if (!kn_qwen_tokenize(p->tokenizer, before.data, *prompt ? prompt : " ", after, &ret->tokens, err))
        return false;
    ret->skip = system_rows(&ret->tokens, p->turn_start);
    return has_positions(find_places(j, ret).words, sides, count, err);
}

/* x: [tokens, width] -> the rows of text behind the system turn, one run after the other. */
static kn_tensor keep_text(kn_job *j, kn_tensor x, int64_t skip, const struct places *p) {
    kn_run *r = &j->run;
    int64_t from = skip, to = 0;
    kn_tensor text = kn_new(r, 2, (int64_t[]){ p->words, kn_last_dim(x) });
    for (int i = 0; i <= j->recipe->reference_count; i++) {
        kn_copy(r, kn_rows(r, text, to, p->run[i]), kn_rows(r, x, from, p->run[i]));
        to += p->run[i];
        from += p->run[i];
        if (i < j->recipe->reference_count)
            from += (int64_t)p->picture[i].rows * p->picture[i].columns;
    }
    return text;
}

static kn_tensor encode(kn_job *j, const kn_condition *prompt) {
    const struct state *s = j->state;
    const kn_tokens *t = &prompt->tokens;
    const struct places p = find_places(j, prompt);
    kn_tensor x = kn_qwen3_text_forward_pictures(&j->run, j->pipeline->text.network, t->id, (int64_t)t->n, p.picture,
                                                 s->seen, j->recipe->reference_count);
    return keep_text(j, x, prompt->skip, &p);
}

/* ---- drawing ---- */

static void prepare(kn_job *j, kn_side side, kn_tensor rows) {
    struct state *s = j->state;
    const struct places p = find_places(j, j->prompt[side]);
    kn_qwen21_piece pieces[2 * KN_MAX_REFERENCES + 1];
    int count = 0;
    for (int i = 0; i < j->recipe->reference_count; i++) {
        pieces[count++] = (kn_qwen21_piece){ .text_rows = p.run[i] };
        pieces[count++] = (kn_qwen21_piece){ .latent = kn_job_upload_latent(j, &j->reference[i]->values),
                                             .h = CELLS_PER_TOKEN * rows_of(j, i),
                                             .w = CELLS_PER_TOKEN * columns_of(j, i) };
    }
    pieces[count++] = (kn_qwen21_piece){ .text_rows = p.run[j->recipe->reference_count] };
    kn_qwen21_prefill(&j->run, j->pipeline->diffusion.network, rows, pieces, count, j->h, j->w, &s->prefix[side]);
    for (int i = 0; i < j->recipe->reference_count; i++)
        kn_drop(&j->run, pieces[2 * i + 1].latent);
}

static kn_tensor output(kn_job *j, kn_side side, kn_tensor latent, float sigma) {
    const struct state *s = j->state;
    return kn_qwen21_velocity(&j->run, j->pipeline->diffusion.network, &s->prefix[side], latent, j->h, j->w, sigma);
}

const kn_stages kn_qwen21_stages = {
    .vae = &kn_qwen21_autoencoder,
    .patch = 1,
    .sign = 1,
    .state_bytes = sizeof(struct state),
    .widths = widths,
    .tokenize = tokenize,
    .has_room = has_room,
    .encode = encode,
    .prepare = prepare,
    .output = output,
    .see = see,
    .sees = sees,
};
