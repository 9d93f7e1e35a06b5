/* Qwen-Image 2.1: Qwen3-VL's residual stream conditions a block-causal transformer whose latent an RGBA autoencoder
 * turns into pixels. Reference pictures are part of the prompt: Qwen3-VL sees them, and in the transformer's sequence
 * their latents stand where the prompt has their tokens. */
#include "pipelines/qwen_image21.h"

#include <stdio.h>
#include <stdlib.h>
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

static const double rope_base = 5e6; /* of Qwen3-VL; not in the file */

static void take_text(void *network, kn_binder *b) {
    kn_qwen3_text_load(network, b, rope_base);
    kn_ignore_outside(b, "visual.");
    kn_ignore_outside(b, "model.visual.");
    kn_ignore_outside(b, "lm_head.");
}

static void take_vision(void *network, kn_binder *b) {
    static const char *const others[] = { "model.language_model.", "model.layers.", "model.embed_tokens.",
                                          "model.norm.", "lm_head." };
    kn_qwen_vision_load(network, b);
    for (size_t i = 0; i < KN_COUNT(others); i++) /* of a file that also holds the text model */
        kn_ignore_outside(b, "%s", others[i]);
}

static void take_diffusion(void *network, kn_binder *b) {
    kn_qwen21_load(network, b);
}

static void take_vae(void *network, kn_binder *b) {
    kn_vae21_load(network, b);
}

const kn_slot kn_qwen21_text_slot = { .name = "text encoder",
                                      .id = "qwen3-vl",
                                      .wants = "a Qwen3-VL text encoder",
                                      .network_bytes = sizeof(kn_qwen3_text),
                                      .take = take_text };
const kn_slot kn_qwen21_vision_slot = { .name = "vision encoder",
                                        .id = "qwen3-vl-vision",
                                        .wants = "a Qwen3-VL vision encoder",
                                        .network_bytes = sizeof(kn_qwen_vision),
                                        .take = take_vision };
const kn_slot kn_qwen21_diffusion_slot = { .name = "diffusion model",
                                           .id = "qwen-image-2.1",
                                           .wants = "a Qwen-Image 2.1 diffusion model",
                                           .network_bytes = sizeof(kn_qwen21),
                                           .take = take_diffusion };
const kn_slot kn_qwen21_vae_slot = { .name = "VAE",
                                     .id = "qwen-image-2.1-vae",
                                     .wants = "a Qwen-Image 2.1 VAE",
                                     .network_bytes = sizeof(kn_vae21),
                                     .take = take_vae };

struct qwen21 {
    kn_pipeline base;
    kn_device *device;
    kn_precision precision;
    kn_residency residency;
    kn_tokenizer *tokenizer;
    int32_t turn_start, image_pad; /* ids of <|im_start|> and <|image_pad|> */
    kn_component text, vision, diffusion, vae;
    kn_error blind; /* why reference pictures cannot be seen; KN_OK: they can */
    kn_qwen3_text text_network;
    kn_qwen_vision vision_network;
    kn_qwen21 diffusion_network;
    kn_vae21 vae_network;
};

/* A side of the pixels that become one token of the text encoder, and of those that become one of the transformer. */
enum { TOKEN_SIDE = 32, CELLS_PER_TOKEN = TOKEN_SIDE / KN_VAE21_FACTOR };

/* A reference picture on its way: pixels, then what both encoders make of them. */
struct reference {
    kn_image picture; /* RGBA; sides are multiples of TOKEN_SIDE */
    kn_host_rows latent;
};

static int rows_of(const struct reference *f) {
    return (int)f->picture.height / TOKEN_SIDE;
}

static int columns_of(const struct reference *f) {
    return (int)f->picture.width / TOKEN_SIDE;
}

/* What a prompt became: rows of text, in runs between the references. */
struct text {
    kn_host_rows rows; /* [sum of runs, text width] */
    int64_t run[KN_QWEN21_MAX_REFERENCES + 1];
};

/* One call of generate. */
struct call {
    kn_job job;
    struct qwen21 *p;
    struct reference reference[KN_QWEN21_MAX_REFERENCES];
    kn_vision_features seen[KN_QWEN21_MAX_REFERENCES]; /* in the run's scratch memory */
    int references;
    float *clean; /* latent of the picture to start from, [channels][h][w]; NULL: none */
    struct text positive, negative;
    kn_qwen21_prefix positive_prefix, negative_prefix;
};

/* ---- given pictures ---- */

static kn_tensor upload_picture(kn_run *r, const kn_image *rgba) {
    size_t n = (size_t)rgba->width * rgba->height * 4;
    float *values = malloc(n * sizeof *values);
    if (!values) {
        kn_run_fail(r, KN_E_NOMEM, "out of memory for a picture of %ux%u pixels", rgba->width, rgba->height);
        return KN_NONE;
    }
    for (size_t i = 0; i < n; i++)
        values[i] = (float)rgba->pixels[i] / 127.5f - 1;
    kn_tensor t = kn_upload(r, 3, (int64_t[]){ rgba->height, rgba->width, 4 }, values);
    free(values);
    return t;
}

/* -> [cells, channels] */
static bool make_latent(struct call *c, const kn_image *rgba, kn_host_rows *ret, kn_error *err) {
    kn_run *r = &c->job.run;
    kn_scope s = kn_scope_open(r);
    kn_tensor z = kn_vae21_encode(r, &c->p->vae_network, upload_picture(r, rgba));
    kn_check_finite(r, z, "VAE latent");
    bool ok = kn_host_rows_take(&c->job, z, ret, err);
    kn_scope_close(r, s, KN_NONE);
    return ok;
}

/* [cells, channels] -> [channels][cells], owned. */
static float *to_planes(const kn_host_rows *rows, kn_error *err) {
    size_t n = (size_t)(rows->count * rows->width);
    float *planes = malloc(n * sizeof *planes);
    if (!planes)
        kn_fail_nomem(err, n * sizeof *planes);
    for (int64_t i = 0; planes && i < rows->count; i++)
        for (int64_t k = 0; k < rows->width; k++)
            planes[k * rows->count + i] = rows->at[i * rows->width + k];
    return planes;
}

static bool encode_reference(struct call *c, int i, kn_error *err) {
    struct reference *f = &c->reference[i];
    const kn_image *given = &c->job.recipe->references[i];
    uint32_t width = 0, height = 0;
    kn_reference_size(given->width, given->height, c->job.recipe->reference_resolution, &width, &height);
    if (!kn_image_resize(given, width, height, &f->picture, err) || !make_latent(c, &f->picture, &f->latent, err))
        return false;
    float *planes = to_planes(&f->latent, err);
    if (!planes)
        return false;
    char name[32];
    snprintf(name, sizeof name, "reference%d.latents", i);
    const int64_t dim[] = { KN_VAE21_CHANNELS, height / KN_VAE21_FACTOR, width / KN_VAE21_FACTOR };
    kn_job_dump(&c->job, name, 3, dim, planes);
    free(planes);
    return true;
}

static bool encode_start(struct call *c, kn_error *err) {
    const kn_recipe *recipe = c->job.recipe;
    kn_image picture = { 0 };
    kn_host_rows latent = { 0 };
    if (!kn_image_resize(recipe->init_image, (uint32_t)recipe->width, (uint32_t)recipe->height, &picture, err))
        return false;
    if (make_latent(c, &picture, &latent, err))
        c->clean = to_planes(&latent, err);
    kn_image_free(&picture);
    free(latent.at);
    return c->clean != NULL;
}

static bool encode_pictures(struct call *c, kn_error *err) {
    const kn_recipe *recipe = c->job.recipe;
    if (recipe->reference_count == 0 && !recipe->init_image)
        return true;
    bool ok = kn_job_begin(&c->job, KN_STAGE_PICTURES, &c->p->vae, err);
    for (; ok && c->references < recipe->reference_count; c->references++)
        ok = encode_reference(c, c->references, err);
    ok = ok && (!recipe->init_image || encode_start(c, err));
    kn_job_end(&c->job, KN_STAGE_PICTURES, &c->p->vae);
    return ok;
}

static bool see(struct call *c, int i, kn_error *err) {
    kn_image rgb = { 0 };
    if (!kn_image_over_white(&c->reference[i].picture, &rgb, err))
        return false;
    kn_qwen_vision_forward(&c->job.run, &c->p->vision_network, rgb.pixels, (int)rgb.height, (int)rgb.width,
                           &c->seen[i]);
    kn_check_finite(&c->job.run, c->seen[i].rows, "vision encoder output");
    kn_image_free(&rgb);
    return kn_job_went_well(&c->job, err);
}

static bool see_references(struct call *c, kn_error *err) {
    if (c->references == 0)
        return true;
    bool ok = kn_job_begin(&c->job, KN_STAGE_SEE, &c->p->vision, err);
    for (int i = 0; ok && i < c->references; i++)
        ok = see(c, i, err);
    kn_job_end(&c->job, KN_STAGE_SEE, &c->p->vision);
    return ok;
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
static bool begin_turn(const struct call *c, kn_buf *into) {
    bool ok = kn_buf_add_text(into, "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n"
                                    "<|im_start|>user\n");
    for (int i = 0; i < c->references; i++) {
        ok = ok && kn_buf_printf(into, "%s<image%d><|vision_start|>", i ? " " : "", i + 1);
        for (int k = 0; ok && k < rows_of(&c->reference[i]) * columns_of(&c->reference[i]); k++)
            ok = kn_buf_add_text(into, "<|image_pad|>");
        ok = ok && kn_buf_add_text(into, "<|vision_end|>");
    }
    return ok;
}

/* An empty prompt is a space. */
static bool tokenize(const struct call *c, const char *prompt, kn_tokens *ret, kn_error *err) {
    static const char after[] = "<|im_end|>\n<|im_start|>assistant\n";
    KN_AUTO_BUF before;
    kn_buf_init(&before, KN_TOKENIZER_MAX_TEXT_BYTES);
    if (!begin_turn(c, &before))
        return kn_fail(err, KN_E_RANGE, "the reference pictures take more than %d bytes of prompt",
                       KN_TOKENIZER_MAX_TEXT_BYTES);
    return kn_qwen_tokenize(c->p->tokenizer, before.data, *prompt ? prompt : " ", after, ret, err);
}

/* The references among the tokens, and the runs of text between them behind the system turn. Refuses what the
 * transformer has no positions for. */
static bool place_references(const struct call *c, const kn_tokens *t, int64_t skip, kn_rope_picture *places,
                             int64_t *run, kn_error *err) {
    int64_t from = skip, words = 0, around = 0, n = (int64_t)t->n;
    for (int i = 0; i < c->references; i++) {
        int rows = rows_of(&c->reference[i]), columns = columns_of(&c->reference[i]);
        int64_t at = from;
        while (at < n && t->id[at] != c->p->image_pad)
            at++;
        places[i] = (kn_rope_picture){ at, rows, columns };
        run[i] = at - from;
        from = at + (int64_t)rows * columns;
        words += run[i];
        around += (int64_t)CELLS_PER_TOKEN * KN_MAX(rows, columns);
    }
    run[c->references] = n - from;
    words += n - from;
    return words + around <= KN_QWEN21_MAX_POSITION ||
           kn_fail(err, KN_E_RANGE, "the prompt has %lld tokens, at most %lld fit%s", (long long)words,
                   (long long)KN_MAX(KN_QWEN21_MAX_POSITION - around, 0),
                   c->references ? " beside the references" : "");
}

/* x: [tokens, width] -> the rows of text behind the system turn, one run after the other. */
static kn_tensor keep_text(const struct call *c, kn_run *r, kn_tensor x, int64_t skip, const int64_t *run) {
    int64_t kept = 0, from = skip, to = 0;
    for (int i = 0; i <= c->references; i++)
        kept += run[i];
    kn_tensor text = kn_new(r, 2, (int64_t[]){ kept, kn_last_dim(x) });
    for (int i = 0; i <= c->references; i++) {
        kn_copy(r, kn_rows(r, text, to, run[i]), kn_rows(r, x, from, run[i]));
        to += run[i];
        from += run[i];
        if (i < c->references)
            from += (int64_t)rows_of(&c->reference[i]) * columns_of(&c->reference[i]);
    }
    return text;
}

static bool encode_tokens(struct call *c, const kn_tokens *tokens, struct text *ret, kn_error *err) {
    kn_run *r = &c->job.run;
    kn_rope_picture places[KN_QWEN21_MAX_REFERENCES];
    int64_t skip = system_rows(tokens, c->p->turn_start);
    if (!place_references(c, tokens, skip, places, ret->run, err))
        return false;
    kn_scope s = kn_scope_open(r);
    kn_tensor x = kn_qwen3_text_forward_pictures(r, &c->p->text_network, tokens->id, (int64_t)tokens->n, places,
                                                 c->seen, c->references);
    kn_check_finite(r, x, "text encoder output");
    bool ok = kn_host_rows_take(&c->job, keep_text(c, r, x, skip, ret->run), &ret->rows, err);
    kn_scope_close(r, s, KN_NONE);
    return ok;
}

/* sign: "" or "negative_", in front of the dumped names. */
static bool encode(struct call *c, const char *prompt, const char *sign, struct text *ret, kn_error *err) {
    kn_tokens tokens = { 0 };
    if (!tokenize(c, prompt, &tokens, err))
        return false;
    char name[64];
    snprintf(name, sizeof name, "%stokens", sign);
    kn_job_dump_tokens(&c->job, name, &tokens);
    if (!*sign)
        c->job.report->prompt_tokens = (int)tokens.n;
    bool ok = encode_tokens(c, &tokens, ret, err);
    kn_tokens_free(&tokens);
    snprintf(name, sizeof name, "%stext_embeddings", sign);
    if (ok)
        kn_job_dump(&c->job, name, 2, (int64_t[]){ ret->rows.count, ret->rows.width }, ret->rows.at);
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

/* ---- drawing ---- */

static void prefill(struct call *c, const struct text *text, kn_qwen21_prefix *ret) {
    kn_run *r = &c->job.run;
    kn_qwen21_piece pieces[2 * KN_QWEN21_MAX_REFERENCES + 1];
    int count = 0;
    for (int i = 0; i < c->references; i++) {
        const kn_host_rows *z = &c->reference[i].latent;
        pieces[count++] = (kn_qwen21_piece){ .text_rows = text->run[i] };
        pieces[count++] = (kn_qwen21_piece){ .latent = kn_upload(r, 2, (int64_t[]){ z->count, z->width }, z->at),
                                             .h = CELLS_PER_TOKEN * rows_of(&c->reference[i]),
                                             .w = CELLS_PER_TOKEN * columns_of(&c->reference[i]) };
    }
    pieces[count++] = (kn_qwen21_piece){ .text_rows = text->run[c->references] };
    kn_tensor rows = kn_upload(r, 2, (int64_t[]){ text->rows.count, text->rows.width }, text->rows.at);
    kn_qwen21_prefill(r, &c->p->diffusion_network, rows, pieces, count, c->job.h, c->job.w, ret);
    kn_drop(r, rows);
    for (int i = 0; i < c->references; i++)
        kn_drop(r, pieces[2 * i + 1].latent);
}

static kn_tensor velocity(void *ctx, kn_run *r, kn_tensor latent, float sigma, bool negative) {
    struct call *c = ctx;
    const kn_qwen21_prefix *prefix = negative ? &c->negative_prefix : &c->positive_prefix;
    return kn_qwen21_velocity(r, &c->p->diffusion_network, prefix, latent, c->job.h, c->job.w, sigma);
}

/* x: room for the latent. */
static bool diffuse(struct call *c, float *x, kn_error *err) {
    kn_job *j = &c->job;
    const kn_denoiser denoiser = { .output = velocity, .ctx = c, .guided = c->negative.rows.at, .patch = 1, .sign = 1 };
    bool ok = kn_job_begin(j, KN_STAGE_DIFFUSE, &c->p->diffusion, err);
    if (ok) {
        kn_scope s = kn_scope_open(&j->run);
        prefill(c, &c->positive, &c->positive_prefix);
        if (denoiser.guided)
            prefill(c, &c->negative, &c->negative_prefix);
        ok = kn_job_went_well(j, err) && kn_job_diffuse(j, &denoiser, c->clean, x, err);
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
    /* The last level is the peak: its input, that upsampled, and the shortcut, with some room for the convolution. */
    const kn_weight *widest = &network->decoder.level[KN_VAE21_LEVELS - 1].residual[0].conv1;
    const kn_decoder vae = { .decode = decode_latent,
                             .ctx = network,
                             .latent_channels = KN_VAE21_CHANNELS,
                             .channels = 4,
                             .factor = KN_VAE21_FACTOR,
                             .bytes_per_pixel = 14 * (uint64_t)widest->dim[3] };
    return kn_job_decode(&c->job, &c->p->vae, &vae, x, ret, err);
}

/* What is given is turned into numbers; what the vision encoder saw is needed until the prompts are encoded. */
static bool encode_all(struct call *c, kn_error *err) {
    kn_scope s = kn_scope_open(&c->job.run);
    bool ok = encode_pictures(c, err) && see_references(c, err) && encode_prompts(c, err);
    kn_scope_close(&c->job.run, s, KN_NONE);
    return ok;
}

/* Encoders, diffusion, VAE: each loads, computes and, when staged, leaves before the next one comes. */
static bool run_stages(struct call *c, kn_image *ret, kn_error *err) {
    if (c->job.recipe->reference_count > 0 && c->p->blind.code != KN_OK)
        return kn_fail(err, c->p->blind.code, "%s", c->p->blind.text);
    size_t n = (size_t)c->job.channels * c->job.h * c->job.w;
    float *x = malloc(n * sizeof *x);
    bool ok =
        (x || kn_fail_nomem(err, n * sizeof *x)) && encode_all(c, err) && diffuse(c, x, err) && decode(c, x, ret, err);
    free(x);
    return ok;
}

static void free_call(struct call *c) {
    for (int i = 0; i < KN_QWEN21_MAX_REFERENCES; i++) {
        kn_image_free(&c->reference[i].picture);
        free(c->reference[i].latent.at);
    }
    free(c->clean);
    free(c->positive.rows.at);
    free(c->negative.rows.at);
    free(c);
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
    bool ok = kn_job_open(&c->job, p->device, p->precision, err);
    if (ok) {
        ok = run_stages(c, ret, err);
        kn_run_close(&c->job.run);
    }
    free_call(c);
    return ok;
}

static void close_pipeline(kn_pipeline *base) {
    struct qwen21 *p = (struct qwen21 *)base;
    kn_component_close(&p->text);
    kn_component_close(&p->vision);
    kn_component_close(&p->diffusion);
    kn_component_close(&p->vae);
    kn_tokenizer_close(p->tokenizer);
    free(p);
}

static bool vision_fits(const struct qwen21 *p, const kn_vl_config *config, kn_error *err) {
    const kn_qwen_vision *v = &p->vision_network;
    const int *told = config->sections, *pairs = p->text_network.axes.pairs;
    if (v->out != p->text_network.width)
        return kn_fail(err, KN_E_FORMAT,
                       "vision encoder: it makes rows of %lld, the text encoder's are %lld wide; they do not belong "
                       "together",
                       (long long)v->out, (long long)p->text_network.width);
    if (v->patch * KN_VISION_MERGE != TOKEN_SIDE)
        return kn_fail(err, KN_E_UNSUPPORTED, "vision encoder: patches of %d pixels; Qwen3-VL has %d", v->patch,
                       TOKEN_SIDE / KN_VISION_MERGE);
    if (told[0] + told[1] + told[2] > 0 && memcmp(told, pairs, 3 * sizeof *told) != 0)
        return kn_fail(err, KN_E_UNSUPPORTED,
                       "text encoder: config.json says mrope sections %d, %d, %d; %d, %d, %d are known", told[0],
                       told[1], told[2], pairs[0], pairs[1], pairs[2]);
    if (p->image_pad < 0)
        return kn_fail(err, KN_E_FORMAT, "tokenizer: it has no token <|image_pad|>, which stands for pictures");
    return true;
}

static bool open_vision(struct qwen21 *p, const kn_source *source, kn_error *err) {
    kn_vl_config config = { 0 };
    p->image_pad = kn_tokenizer_token(p->tokenizer, "<|image_pad|>");
    if (source->path && !kn_vl_config_read_beside(source->path, &config, err))
        return false;
    p->vision_network.layout = config.vision;
    return kn_component_open(&p->vision, &kn_qwen21_vision_slot, source, &p->vision_network, err) &&
           vision_fits(p, &config, err);
}

/* The vision encoder has a file of its own or is in the text encoder's. There, it is a reason to refuse references, but
 * none to refuse the model, if it cannot be used. */
static bool find_vision(struct qwen21 *p, const kn_model_files *files, kn_error *err) {
    char prefix[KN_PREFIX_MAX];
    if (files->vision.path || files->vision.data)
        return open_vision(p, &files->vision, err);
    if (kn_detect_as(p->text.file, kn_qwen21_vision_slot.id, prefix))
        (void)open_vision(p, &files->text_encoder, &p->blind);
    else
        kn_fail(&p->blind, KN_E_UNSUPPORTED,
                "this model cannot see pictures: its text encoder's file has no vision encoder in it; give one by "
                "--vision or in the profile");
    return true;
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
        kn_component_open(&p->vae, &kn_qwen21_vae_slot, &files->vae, &p->vae_network, err) && parts_fit(p, err) &&
        find_vision(p, files, err)) {
        *ret = &p->base;
        return true;
    }
    close_pipeline(&p->base);
    return false;
}
