/* What was found, as one object: for programs, and for the pipe between the image worker and its server. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "image/import.h"

static const double comfy_mu = 1.15; /* ComfyUI's own for Qwen-Image, where no node says another */

/* As workers/recipe.h has them. */
enum { RECIPE_STEPS_MAX = 100, RECIPE_SIDE_MIN = 64, RECIPE_SIDE_MAX = 4096 };

static bool is_beyond(uint32_t side) {
    return side && (side < RECIPE_SIDE_MIN || side > RECIPE_SIDE_MAX);
}

static json_t *number_or_null(bool given, double value) {
    return given ? json_real(value) : json_null();
}

static json_t *integer_or_null(uint32_t value) {
    return value ? json_integer(value) : json_null();
}

static json_t *sigmas_of(const kn_import *f) {
    if (!f->turbo)
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < KN_IMPORT_SIGMAS; i++)
        json_array_append_new(list, json_real(kn_import_turbo_sigmas[i]));
    return list;
}

/* Pairs that have no member of their own. */
static bool is_extra(const kn_import *f, const char *key) {
    static const char *const common[] = { "Steps", "CFG scale", "Seed", "Size", "Sampler", "Schedule type" };
    static const char *const own[] = { "Added guidance", "Flow shift", "References", "Model" };
    for (size_t i = 0; i < KN_COUNT(common); i++)
        if (strcmp(key, common[i]) == 0)
            return false;
    for (size_t i = 0; f->source == KN_IMPORT_KUNO && i < KN_COUNT(own); i++)
        if (strcmp(key, own[i]) == 0)
            return false;
    return true;
}

static json_t *fields_of(const kn_import *f) {
    if (!f->parameters.text)
        return NULL;
    json_t *fields = json_object();
    for (size_t i = 0; i < f->parameters.count; i++) {
        const kn_parameter *p = &f->parameters.list[i];
        if (is_extra(f, p->key) && !json_object_get(fields, p->key))
            json_object_set_new(fields, p->key, json_string(p->value));
    }
    return fields;
}

static json_t *warnings_of(const kn_import *f, bool words) {
    json_t *list = json_array();
    for (int i = 0; i < KN_IMPORT_WARNINGS; i++)
        if (f->warnings >> i & 1)
            json_array_append_new(list,
                                  json_string(words ? kn_import_warnings[i].word : kn_import_warnings[i].sentence));
    return list;
}

/* The workflows that the service knows by their names say every number. */
static const char *named_workflow(const kn_import *f) {
    return f->workflow && !f->turbo && f->width ? f->workflow : NULL;
}

/* What the service draws from, without the pictures, which are not in the file. */
static json_t *recipe_of(const kn_import *f) {
    const unsigned cannot = 1u << KN_IMPORT_SEED_TOO_LARGE | 1u << KN_IMPORT_LORA | 1u << KN_IMPORT_START_PICTURE |
                            1u << KN_IMPORT_MASK | 1u << KN_IMPORT_NOISE;
    const char *workflow = named_workflow(f);
    uint32_t width = kn_import_side(f->width), height = kn_import_side(f->height);
    if (f->source == KN_IMPORT_NONE || !*f->prompt || f->warnings & cannot || f->steps > RECIPE_STEPS_MAX ||
        is_beyond(width) || is_beyond(height))
        return json_null();
    double shift = f->has_flow_shift ? f->flow_shift : exp(comfy_mu);
    bool shifted = f->has_flow_shift || f->warnings >> KN_IMPORT_DEFAULT_SHIFT & 1;
    return json_pack("{s:s*, s:s*, s:s, s:s, s:s*, s:o*, s:o*, s:o*, s:o*, s:o*, s:s*, s:s*}", "workflow", workflow,
                     "model", f->model, "prompt", f->prompt, "negative_prompt", f->negative_prompt, "seed", f->seed,
                     "width", width ? json_integer(width) : NULL, "height", height ? json_integer(height) : NULL,
                     "steps", f->steps ? json_integer(f->steps) : NULL, "cfg", f->has_cfg ? json_real(f->cfg) : NULL,
                     "flow_shift", shifted ? json_real(shift) : NULL, "sampler", workflow ? NULL : kn_import_sampler(f),
                     "scheduler", workflow ? NULL : kn_import_scheduler(f));
}

json_t *kn_import_json(const kn_import *f) {
    json_t *files = json_pack("{s:s*, s:s*, s:s*}", "diffusion_model", f->files[0], "text_encoder", f->files[1], "vae",
                              f->files[2]);
    json_t *cache = json_pack("{s:s*, s:s*}", "device", f->cache_device, "dtype", f->cache_dtype);
    return json_pack(
        "{s:s, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:o, s:o, s:o, s:o, s:o, s:n, s:s?, s:s?,"
        " s:i, s:o*, s:o, s:o, s:o*, s:o, s:o, s:o}",
        "source", kn_import_sources[f->source], "imported_from", f->key, "workflow", f->workflow, "architecture",
        f->architecture, "variant", f->variant, "model", f->model, "prompt", f->prompt, "negative_prompt",
        f->negative_prompt, "seed", f->seed, "width", integer_or_null(f->width), "height", integer_or_null(f->height),
        "steps", integer_or_null(f->steps), "cfg", number_or_null(f->has_cfg, f->cfg), "flow_shift",
        number_or_null(f->has_flow_shift, f->flow_shift), "attention", "sampler", f->sampler, "scheduler", f->scheduler,
        "reference_count", (int)f->reference_count, "sigmas", sigmas_of(f), "cache", cache, "files", files, "fields",
        fields_of(f), "warnings", warnings_of(f, true), "notes", warnings_of(f, false), "recipe", recipe_of(f));
}
