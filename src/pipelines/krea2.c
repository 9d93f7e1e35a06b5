/* Krea 2, from text or from a picture: twelve states of Qwen3-VL-4B on its way condition a single-stream transformer
 * whose latent the autoencoder of Qwen-Image turns into pixels. */
#include "pipelines/krea2.h"

#include <string.h>

#include "models/krea2.h"
#include "models/qwen3_text.h"
#include "pipelines/job.h"
#include "pipelines/qwen_tokenizer.h"
#include "pipelines/vaes.h"

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

/* What the transformer makes of the prompts, for all steps. */
struct state {
    kn_tensor text[KN_SIDES];
};

static kn_widths widths(const kn_pipeline *p) {
    const kn_qwen3_text *text = p->text.network;
    const kn_krea2 *m = p->diffusion.network;
    return (kn_widths){ text->vocabulary, text->width, m->text_form.width, m->patch_width };
}

static bool fits(const kn_pipeline *p, kn_error *err) {
    const kn_qwen3_text *text = p->text.network;
    const kn_krea2 *m = p->diffusion.network;
    if (text->layers < taps[KN_COUNT(taps) - 1])
        return kn_fail(err, KN_E_FORMAT, "text encoder: it has %d layers, Krea 2 looks behind the first %d",
                       text->layers, taps[KN_COUNT(taps) - 1]);
    if (m->taps != (int64_t)KN_COUNT(taps))
        return kn_fail(err, KN_E_FORMAT, "diffusion model: it fuses %lld states of the text encoder, Krea 2 has %zu",
                       (long long)m->taps, KN_COUNT(taps));
    if (kn_tokenizer_token(p->tokenizer, "<|im_end|>") < 0)
        return kn_fail(err, KN_E_FORMAT, "tokenizer: it has no token <|im_end|>");
    return true;
}

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

static bool tokenize(const kn_job *j, const char *prompt, kn_condition *ret, kn_error *err) {
    static const char before[] =
        "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial "
        "relationships of the objects and background:<|im_end|>\n<|im_start|>user\n";
    static const char after[] = "<|im_end|>\n<|im_start|>assistant\n";
    const kn_pipeline *p = j->pipeline;
    kn_tokens *t = &ret->tokens;
    if (!kn_qwen_tokenize(p->tokenizer, before, prompt, after, t, err))
        return false;
    size_t prefix = prefix_of(t, p->turn_start), suffix = suffix_of(t, kn_tokenizer_token(p->tokenizer, "<|im_end|>"));
    size_t end = KN_MIN(suffix, prefix + MAX_PROMPT_TOKENS);
    memmove(t->id + end, t->id + suffix, (t->n - suffix) * sizeof *t->id);
    t->n -= suffix - end;
    ret->skip = (int64_t)prefix;
    ret->dropped = (int)(suffix - end);
    return true;
}

/* The text encoder sees all tokens; what is before the user's text is not passed on. -> [tokens, taps, text width] */
static kn_tensor encode(kn_job *j, const kn_condition *prompt) {
    const kn_qwen3_text *m = j->pipeline->text.network;
    const kn_tokens *t = &prompt->tokens;
    int64_t n = (int64_t)t->n - prompt->skip;
    kn_run *r = &j->run;
    kn_tensor states = kn_qwen3_text_taps(r, m, t->id, (int64_t)t->n, taps, KN_COUNT(taps));
    return kn_reshape(r, kn_rows(r, states, prompt->skip, n), 3, (int64_t[]){ n, KN_COUNT(taps), m->width });
}

static void prepare(kn_job *j, kn_side side, kn_tensor rows) {
    struct state *s = j->state;
    kn_tensor states = kn_reshape(&j->run, rows, 2, (int64_t[]){ rows.dim[0], rows.dim[1] * rows.dim[2] });
    s->text[side] = kn_krea2_fuse_text(&j->run, j->pipeline->diffusion.network, states);
}

static kn_tensor output(kn_job *j, kn_side side, kn_tensor latent, float sigma) {
    const struct state *s = j->state;
    return kn_krea2_velocity(&j->run, j->pipeline->diffusion.network, s->text[side], latent, j->h / KN_KREA2_PATCH,
                             j->w / KN_KREA2_PATCH, sigma);
}

const kn_stages kn_krea2_stages = {
    .vae = &kn_wan_autoencoder,
    .patch = KN_KREA2_PATCH,
    .order = KN_CHANNELS_OUTSIDE,
    .sign = 1,
    .state_bytes = sizeof(struct state),
    .widths = widths,
    .fits = fits,
    .tokenize = tokenize,
    .encode = encode,
    .prepare = prepare,
    .output = output,
};
