#include "pipelines/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "image/canvas.h"
#include "image/resize.h"
#include "image/transform.h"
#include "pipelines/job.h"
#include "pipelines/preview.h"
#include "pipelines/qwen_tokenizer.h"
#include "pipelines/registry.h"

/* ---- given pictures ---- */

/* What a VAE may take beside the weights of the stage that it works for. */
static kn_coder coder_of(kn_job *j, kn_stage stage) {
    const kn_pipeline *p = j->pipeline;
    int tile = j->recipe->vae_tiling ? KN_VAE_TILE_SIDE / p->stages->vae->factor : 0;
    uint64_t available = kn_memory_available(), weights = j->report->stage[stage].weight_bytes;
    return (kn_coder){ .kind = p->stages->vae,
                       .network = p->vae.network,
                       .run = &j->run,
                       .memory_limit = available == UINT64_MAX ? available : available - KN_MIN(weights, available),
                       .tile = tile,
                       .stride = tile - tile / 8 };
}

/* picture: RGBA. */
static bool make_latent(kn_job *j, const kn_image *picture, kn_values *ret, kn_error *err) {
    const kn_coder coder = coder_of(j, KN_STAGE_PICTURES);
    const kn_autoencoder *vae = coder.kind;
    const int64_t h = picture->height / vae->factor, w = picture->width / vae->factor;
    kn_values latent = { .rank = 3, .dim = { vae->latent_channels, h, w } };
    kn_image rgb = { 0 };
    bool ok = true;
    j->host_bytes =
        KN_MAX(j->host_bytes, sizeof(float) * (uint64_t)picture->height * picture->width * (uint64_t)vae->channels);
    if (j->hooks->plan) {
        kn_encode_shapes(&coder, (int)h, (int)w);
        latent.at = calloc(kn_values_count(&latent), sizeof *latent.at);
        ok = kn_job_went_well(j, err) && (latent.at || kn_fail_nomem(err, sizeof(float) * kn_values_count(&latent)));
    } else if (vae->channels == 4) {
        ok = kn_encode_picture(&coder, picture, &latent.at, err);
    } else {
        ok = kn_image_over_white(picture, &rgb, err) && kn_encode_picture(&coder, &rgb, &latent.at, err);
        kn_image_free(&rgb);
    }
    *ret = latent;
    return ok;
}

/* The picture as the model sees it. */
static kn_condition *picture_of_size(kn_job *j, const kn_image *given, uint32_t width, uint32_t height, kn_error *err) {
    kn_image picture = { 0 };
    if (!kn_image_resize(given, width, height, &picture, err))
        return NULL;
    kn_condition *c = kn_conditions_of_picture(j->conditions, &picture);
    if (!c)
        kn_fail_nomem(err, sizeof *c);
    return c;
}

static bool find_reference(kn_job *j, int i, kn_error *err) {
    const kn_stages *stages = j->pipeline->stages;
    const kn_image *given = &j->recipe->references[i];
    uint32_t width = 0, height = 0;
    kn_reference_size(given->width, given->height, j->recipe->reference_resolution, &width, &height);
    j->reference[i] = j->seen[i] = picture_of_size(j, given, width, height, err);
    if (!j->reference[i] || !stages->seen_resolution)
        return j->reference[i] != NULL;
    kn_reference_size(given->width, given->height, stages->seen_resolution, &width, &height);
    j->seen[i] = picture_of_size(j, given, width, height, err);
    return j->seen[i] != NULL;
}

static bool find_pictures(kn_job *j, kn_error *err) {
    const kn_recipe *recipe = j->recipe;
    bool ok = true;
    for (int i = 0; ok && i < recipe->reference_count; i++)
        ok = find_reference(j, i, err);
    if (ok && recipe->init_image) {
        j->start = picture_of_size(j, recipe->init_image, (uint32_t)recipe->width, (uint32_t)recipe->height, err);
        ok = j->start != NULL;
    }
    return ok;
}

/* Those whose latents are still to be made; returns how many. */
static int list_new_pictures(const kn_job *j, kn_condition *list[KN_MAX_REFERENCES + 1]) {
    int count = 0;
    for (int i = 0; i < j->recipe->reference_count; i++)
        if (!j->reference[i]->values.at)
            list[count++] = j->reference[i];
    if (j->start && !j->start->values.at)
        list[count++] = j->start;
    return count;
}

static void dump_pictures(kn_job *j) {
    for (int i = 0; i < j->recipe->reference_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "reference%d.latents", i);
        const kn_values *latent = &j->reference[i]->values;
        kn_job_dump(j, name, latent->rank, latent->dim, latent->at);
    }
    if (j->start)
        kn_job_dump_latent(j, "encoded", j->start->values.at);
}

static bool encode_pictures(kn_job *j, kn_error *err) {
    kn_component *vae = &j->pipeline->vae;
    kn_condition *list[KN_MAX_REFERENCES + 1];
    if (j->recipe->reference_count == 0 && !j->recipe->init_image)
        return true;
    if (!find_pictures(j, err))
        return false;
    int count = list_new_pictures(j, list);
    bool ok = true;
    if (count > 0) {
        ok = kn_job_begin(j, KN_STAGE_PICTURES, vae, err);
        for (int i = 0; ok && i < count; i++)
            if (!list[i]->values.at) /* the same picture may have been given twice */
                ok = list[i]->is_made = make_latent(j, &list[i]->picture, &list[i]->values, err);
        kn_job_end(j, KN_STAGE_PICTURES, vae);
    } else {
        kn_job_skip(j, KN_STAGE_PICTURES);
    }
    if (ok)
        dump_pictures(j);
    return ok;
}

/* ---- prompts ---- */

static int count_sides(const kn_job *j) {
    return kn_recipe_is_guided(j->recipe) ? 2 : 1;
}

/* False: all are there from an earlier picture. */
static bool is_any_prompt_new(const kn_job *j) {
    bool any = false;
    for (int side = 0; side < count_sides(j); side++)
        any = any || !j->prompt[side]->is_made;
    return any;
}

static bool find_prompts(kn_job *j, kn_error *err) {
    const char *const texts[KN_SIDES] = { j->recipe->prompt, j->recipe->negative_prompt };
    for (int side = 0; side < count_sides(j); side++) {
        j->prompt[side] = kn_conditions_of_text(j->conditions, texts[side], j->seen, j->recipe->reference_count);
        if (!j->prompt[side])
            return kn_fail_nomem(err, strlen(texts[side]));
    }
    return true;
}

static bool see_references(kn_job *j, kn_error *err) {
    kn_component *vision = &j->pipeline->vision;
    if (j->recipe->reference_count == 0)
        return true;
    bool ok = kn_job_begin(j, KN_STAGE_SEE, vision, err);
    for (int i = 0; ok && i < j->recipe->reference_count; i++) {
        ok = j->pipeline->stages->see(j, i, err);
        j->seen[i]->is_made = j->seen[i]->is_made || ok;
    }
    kn_job_end(j, KN_STAGE_SEE, vision);
    return ok;
}

static bool encode(kn_job *j, const char *text, kn_condition *c, kn_error *err) {
    const kn_stages *stages = j->pipeline->stages;
    kn_run *r = &j->run;
    if (c->is_made) /* an empty negative prompt beside the same prompt, say */
        return true;
    kn_tokens_free(&c->tokens); /* of a call that was stopped */
    if (!stages->tokenize(j, text, c, err))
        return false;
    kn_scope s = kn_scope_open(r);
    kn_tensor rows = stages->encode(j, c);
    kn_check_finite(r, rows, "text encoder output");
    c->is_made = kn_values_take(r, rows, &c->values, err);
    kn_scope_close(r, s, KN_NONE);
    return c->is_made;
}

static void dump_tokens(kn_job *j, const char *name, const kn_tokens *t) {
    if (!j->hooks->dump)
        return;
    float *values = malloc(sizeof(float) * (t->n + 1));
    for (size_t i = 0; values && i < t->n; i++)
        values[i] = (float)t->id[i];
    if (values)
        kn_job_dump(j, name, 1, (int64_t[]){ (int64_t)t->n }, values);
    free(values);
}

/* New ones and kept ones alike. */
static void tell_prompts(kn_job *j) {
    static const char *const tokens[KN_SIDES] = { "tokens", "negative_tokens" };
    static const char *const rows[KN_SIDES] = { "text_embeddings", "negative_text_embeddings" };
    kn_draw_report *report = j->report;
    for (int side = 0; side < count_sides(j); side++) {
        const kn_condition *c = j->prompt[side];
        dump_tokens(j, tokens[side], &c->tokens);
        kn_job_dump(j, rows[side], c->values.rank, c->values.dim, c->values.at);
    }
    report->prompt_tokens = (int)j->prompt[KN_POSITIVE]->tokens.n;
    report->dropped_tokens = j->prompt[KN_POSITIVE]->dropped;
    report->dropped_negative_tokens = kn_recipe_is_guided(j->recipe) ? j->prompt[KN_NEGATIVE]->dropped : 0;
}

/* What the vision encoder saw is needed until the prompts are encoded. */
static bool encode_new_prompts(kn_job *j, kn_error *err) {
    const char *const texts[KN_SIDES] = { j->recipe->prompt, j->recipe->negative_prompt };
    kn_component *text = &j->pipeline->text;
    kn_scope s = kn_scope_open(&j->run);
    bool ok = see_references(j, err);
    if (ok) {
        ok = kn_job_begin(j, KN_STAGE_ENCODE, text, err);
        for (int side = 0; ok && side < count_sides(j); side++)
            ok = encode(j, texts[side], j->prompt[side], err);
        kn_job_end(j, KN_STAGE_ENCODE, text);
    }
    kn_scope_close(&j->run, s, KN_NONE);
    return ok;
}

static bool encode_prompts(kn_job *j, kn_error *err) {
    if (!find_prompts(j, err))
        return false;
    if (is_any_prompt_new(j)) {
        if (!encode_new_prompts(j, err))
            return false;
    } else {
        kn_job_skip(j, KN_STAGE_ENCODE);
        if (j->recipe->reference_count > 0)
            kn_job_skip(j, KN_STAGE_SEE);
    }
    tell_prompts(j);
    return kn_job_progress(j, "encode", 0, 0, err);
}

/* ---- drawing ---- */

/* The first time that previews are wanted of this model. */
static bool prepare_previews(kn_job *j, kn_error *err) {
    kn_pipeline *p = j->pipeline;
    if (!j->hooks->preview || j->hooks->plan || p->preview_map)
        return true;
    const kn_coder coder = coder_of(j, KN_STAGE_DECODE);
    bool ok = kn_component_load(&p->vae, err) && kn_preview_fit(&coder, &p->preview_map, err);
    if (p->residency == KN_STAGED)
        kn_component_unload(&p->vae);
    return ok;
}

static bool diffuse(kn_job *j, float *x, kn_error *err) {
    kn_component *diffusion = &j->pipeline->diffusion;
    kn_run *r = &j->run;
    bool ok = kn_job_begin(j, KN_STAGE_DIFFUSE, diffusion, err);
    if (ok) {
        kn_scope s = kn_scope_open(r);
        for (int side = 0; side < count_sides(j); side++) {
            kn_tensor rows = kn_values_upload(r, &j->prompt[side]->values);
            j->pipeline->stages->prepare(j, (kn_side)side, rows);
            kn_drop(r, rows);
        }
        ok = kn_job_went_well(j, err) && kn_job_denoise(j, x, err);
        kn_scope_close(r, s, KN_NONE);
    }
    kn_job_end(j, KN_STAGE_DIFFUSE, diffusion);
    return ok;
}

static bool decode_pixels(kn_job *j, const float *x, kn_image *ret, kn_error *err) {
    const kn_coder coder = coder_of(j, KN_STAGE_DECODE);
    const int channels = coder.kind->channels, height = j->recipe->height, width = j->recipe->width;
    float *pixels = NULL;
    j->host_bytes = 2 * sizeof(float) * (uint64_t)height * (uint64_t)width * (uint64_t)channels; /* two layouts */
    if (j->hooks->plan) {
        kn_decode_shapes(&coder, j->h, j->w);
        return kn_job_went_well(j, err);
    }
    if (!kn_decode_latent(&coder, x, j->h, j->w, &pixels, err))
        return false;
    kn_job_dump(j, "image", 3, (int64_t[]){ channels, height, width }, pixels);
    bool ok = kn_image_from_planes(pixels, channels, height, width, ret, err);
    free(pixels);
    return ok;
}

/* What the mask keeps comes back as it was given, not as the VAE would have it. */
static bool restore_known(const kn_job *j, kn_image *drawn, kn_error *err) {
    const kn_image *given = &j->start->picture;
    kn_image opaque = { 0 };
    if (drawn->channels == given->channels) {
        kn_image_lay_over(drawn, given, j->recipe->shown);
        return true;
    }
    if (!kn_image_over_white(given, &opaque, err))
        return false;
    kn_image_lay_over(drawn, &opaque, j->recipe->shown);
    kn_image_free(&opaque);
    return true;
}

static bool finish(const kn_job *j, kn_image *drawn, kn_error *err) {
    const kn_recipe *recipe = j->recipe;
    if (recipe->shown && !restore_known(j, drawn, err))
        return false;
    if (recipe->cut_right || recipe->cut_bottom)
        kn_image_cut(drawn, drawn->width - (uint32_t)recipe->cut_right, drawn->height - (uint32_t)recipe->cut_bottom);
    return true;
}

static bool decode(kn_job *j, const float *x, kn_image *ret, kn_error *err) {
    kn_component *vae = &j->pipeline->vae;
    kn_image drawn = { 0 };
    bool ok = kn_job_begin(j, KN_STAGE_DECODE, vae, err) && decode_pixels(j, x, &drawn, err);
    kn_job_end(j, KN_STAGE_DECODE, vae);
    ok = ok && (j->hooks->plan || finish(j, &drawn, err)) && kn_job_progress(j, "decode", 0, 0, err);
    if (ok)
        *ret = drawn;
    else
        kn_image_free(&drawn);
    return ok;
}

static bool recipe_fits(const kn_job *j, kn_error *err) {
    const kn_recipe *recipe = j->recipe;
    size_t have = recipe->init_noise_count, need = (size_t)j->channels * j->h * j->w;
    if (recipe->init_noise && have != need)
        return kn_fail(err, KN_E_RANGE, "the given noise has %zu values, this size needs %zu", have, need);
    return recipe->reference_count == 0 || kn_pipeline_check_sight(j->pipeline, err);
}

static bool find_mask(kn_job *j, kn_error *err) {
    if (!j->recipe->mask)
        return true;
    if (!kn_mask_resize(j->recipe->mask, (uint32_t)j->w, (uint32_t)j->h, &j->mask, err))
        return false;
    return !kn_mask_is_empty(&j->mask) ||
           kn_fail(err, KN_E_RANGE, "the mask falls between the model's cells of %d pixels; let it grow",
                   j->pipeline->stages->vae->factor);
}

/* Encoders, diffusion, VAE: each loads, computes and, when staged, leaves before the next one comes. */
static bool run_stages(kn_job *j, kn_image *ret, kn_error *err) {
    size_t n = (size_t)j->channels * j->h * j->w;
    float *x = malloc(n * sizeof *x);
    bool ok = (x || kn_fail_nomem(err, n * sizeof *x)) && recipe_fits(j, err) && find_mask(j, err) &&
              encode_pictures(j, err) && encode_prompts(j, err) && prepare_previews(j, err) && diffuse(j, x, err) &&
              decode(j, x, ret, err);
    free(x);
    return ok;
}

/* A plan computes nothing, so that its run follows shapes only and what it makes of prompts is nothing to keep. */
static bool open_job(kn_job *j, kn_error *err) {
    const kn_pipeline *p = j->pipeline;
    bool plan = j->hooks->plan;
    j->conditions = plan ? kn_conditions_new() : p->conditions;
    j->state = calloc(1, p->stages->state_bytes);
    if (!j->conditions || !j->state)
        return kn_fail_nomem(err, p->stages->state_bytes);
    return plan ? kn_run_open_shapes(p->device, p->precision, j->hooks->stop, &j->run, err)
                : kn_run_open(p->device, p->precision, j->hooks->stop, 0, &j->run, err);
}

static void close_job(kn_job *j) {
    if (j->hooks->plan)
        kn_conditions_free(j->conditions);
    else
        kn_conditions_trim(j->conditions);
    kn_mask_free(&j->mask);
    free(j->state);
}

bool kn_pipeline_draw(kn_pipeline *p, const kn_recipe *recipe, const kn_hooks *hooks, kn_image *ret,
                      kn_draw_report *report, kn_error *err) {
    const kn_autoencoder *vae = p->stages->vae;
    kn_job j = { .pipeline = p,
                 .recipe = recipe,
                 .hooks = hooks,
                 .report = report,
                 .channels = vae->latent_channels,
                 .h = recipe->height / vae->factor,
                 .w = recipe->width / vae->factor };
    *report = (kn_draw_report){ 0 };
    bool ok = open_job(&j, err);
    if (ok) {
        ok = run_stages(&j, ret, err);
        kn_run_close(&j.run);
    }
    close_job(&j);
    return ok;
}

/* ---- opening ---- */

static bool open_part(kn_component *c, const kn_slot *slot, const kn_source *source, kn_error *err) {
    void *network = calloc(1, slot->network_bytes);
    if (!network)
        return kn_fail_nomem(err, slot->network_bytes);
    bool ok = kn_component_open(c, slot, source, network, err);
    c->network = network; /* the pipeline's to free, however it went */
    return ok;
}

/* The parts were made for each other only if their shapes meet. */
static bool parts_fit(const kn_pipeline *p, kn_error *err) {
    const kn_stages *s = p->stages;
    const kn_widths w = s->widths(p);
    const int64_t patch = (int64_t)s->vae->latent_channels * s->patch * s->patch;
    if (!kn_qwen_tokenizer_fits(p->tokenizer, &p->text, w.vocabulary, err))
        return false;
    if (w.text != w.wanted_text)
        return kn_fail(err, KN_E_FORMAT,
                       "text encoder: its width is %lld, the diffusion model wants %lld; they do not belong together",
                       (long long)w.text, (long long)w.wanted_text);
    if (w.patch != patch)
        return kn_fail(err, KN_E_FORMAT, "diffusion model: its patches have %lld values, those of the VAE %lld",
                       (long long)w.patch, (long long)patch);
    return !s->fits || s->fits(p, err);
}

/* The vision encoder has a file of its own or is in the text encoder's. There, it is a reason to refuse references, but
 * none to refuse the model, if it cannot be used. */
static bool find_vision(kn_pipeline *p, const kn_slot *slot, const kn_model_files *files, kn_error *err) {
    char prefix[KN_PREFIX_MAX];
    if (!slot)
        return true;
    if (files->vision.path || files->vision.data)
        return open_part(&p->vision, slot, &files->vision, err) && p->stages->sees(p, err);
    if (kn_detect_as(p->text.file, slot->id, prefix))
        (void)(open_part(&p->vision, slot, &files->text_encoder, &p->blind) && p->stages->sees(p, &p->blind));
    else
        kn_fail(&p->blind, KN_E_UNSUPPORTED,
                "this model cannot see pictures: its text encoder's file has no vision encoder in it; give one by "
                "--vision or in the profile");
    return true;
}

bool kn_pipeline_open(const kn_architecture *a, const kn_model_files *files, kn_device *device, kn_precision precision,
                      kn_residency residency, kn_pipeline **ret, kn_error *err) {
    kn_pipeline *p = calloc(1, sizeof *p);
    if (!p)
        return kn_fail_nomem(err, sizeof *p);
    p->stages = a->stages;
    p->device = device;
    p->precision = precision;
    p->residency = residency;
    p->conditions = kn_conditions_new();
    if ((p->conditions || kn_fail_nomem(err, sizeof *p)) &&
        kn_qwen_tokenizer_open(&files->tokenizer, &p->tokenizer, &p->turn_start, err) &&
        open_part(&p->text, a->text_encoder, &files->text_encoder, err) &&
        open_part(&p->diffusion, a->diffusion_model, &files->diffusion_model, err) &&
        open_part(&p->vae, a->vae, &files->vae, err) && parts_fit(p, err) && find_vision(p, a->vision, files, err)) {
        *ret = p;
        return true;
    }
    kn_pipeline_close(p);
    return false;
}

bool kn_pipeline_sees(const kn_pipeline *p) {
    return p->stages->see && p->blind.code == KN_OK;
}

bool kn_pipeline_check_sight(const kn_pipeline *p, kn_error *err) {
    return p->blind.code == KN_OK || kn_fail(err, p->blind.code, "%s", p->blind.text);
}

bool kn_pipeline_is_current(const kn_pipeline *p) {
    return kn_component_is_current(&p->text) && kn_component_is_current(&p->vision) &&
           kn_component_is_current(&p->diffusion) && kn_component_is_current(&p->vae);
}

static void close_part(kn_component *c) {
    kn_component_close(c);
    free(c->network);
}

void kn_pipeline_close(kn_pipeline *p) {
    if (!p)
        return;
    close_part(&p->text);
    close_part(&p->vision);
    close_part(&p->diffusion);
    close_part(&p->vae);
    kn_tokenizer_close(p->tokenizer);
    kn_conditions_free(p->conditions);
    free(p->preview_map);
    free(p);
}

/* A byte makes three tokens at the worst, where Unicode takes a character apart. */
bool kn_stages_have_room(const kn_stages *s, const kn_source *tokenizer, const char *prompt, const uint32_t *sides,
                         int count, kn_error *err) {
    enum { CERTAIN_BYTES = 1000 };
    kn_tokenizer *t = NULL;
    if (!s->has_room || strlen(prompt) <= CERTAIN_BYTES)
        return true;
    bool ok = kn_qwen_tokenizer_read(tokenizer, &t, err) &&
              s->has_room(t, prompt, sides, KN_MIN(count, (int)KN_MAX_REFERENCES), err);
    kn_tokenizer_close(t);
    return ok;
}
