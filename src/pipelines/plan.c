#include "pipelines/plan.h"

#include "base/memory.h"
#include "base/text.h"

bool kn_plan_make(const kn_model *m, const kn_recipe *recipe, const atomic_bool *stop, kn_draw_report *ret,
                  kn_error *err) {
    const kn_hooks hooks = { .stop = stop, .plan = true };
    kn_image none = { 0 };
    return kn_pipeline_draw(m->pipeline, recipe, &hooks, &none, ret, err);
}

uint64_t kn_plan_bytes(const kn_draw_report *plan, kn_stage stage, kn_residency residency) {
    uint64_t weights = plan->stage[stage].weight_bytes, scratch = 0;
    for (kn_stage i = KN_STAGE_PICTURES; i <= stage; i++)
        scratch = KN_MAX(scratch, plan->stage[i].peak_bytes);
    /* The VAE, which is needed for given pictures and again in the end, is there once. */
    kn_stage first = stage == KN_STAGE_DECODE ? KN_STAGE_SEE : KN_STAGE_PICTURES;
    for (kn_stage i = first; residency == KN_CACHED && i < stage; i++)
        weights += plan->stage[i].weight_bytes;
    return weights + scratch;
}

/* The first stage for which there is too little; KN_STAGE_COUNT: there is none. */
static kn_stage first_beyond(const kn_draw_report *plan, kn_residency residency, uint64_t available) {
    kn_stage i = KN_STAGE_PICTURES;
    while (i < KN_STAGE_COUNT && (!plan->stage[i].name || kn_plan_bytes(plan, i, residency) <= available))
        i++;
    return i;
}

enum { PARTS = 16 };

/* *ret: the recipe with so many parts of its width and height. */
static bool fits_in_part(const kn_model *m, const kn_recipe *recipe, int parts, uint64_t available,
                         const atomic_bool *stop, kn_recipe *ret) {
    int step = m->choice.architecture->size_step;
    kn_draw_report plan;
    *ret = *recipe;
    ret->width = recipe->width * parts / PARTS / step * step;
    ret->height = recipe->height * parts / PARTS / step * step;
    return ret->width > 0 && ret->height > 0 && kn_plan_make(m, ret, stop, &plan, NULL) &&
           first_beyond(&plan, m->residency, available) == KN_STAGE_COUNT;
}

/* The largest size of about the same shape that fits; false: none does. */
static bool find_size(const kn_model *m, const kn_recipe *recipe, uint64_t available, const atomic_bool *stop,
                      kn_recipe *ret) {
    kn_recipe tried;
    int fits = 0;
    for (int beyond = PARTS; beyond - fits > 1;) {
        int parts = (fits + beyond) / 2;
        if (fits_in_part(m, recipe, parts, available, stop, &tried)) {
            fits = parts;
            *ret = tried;
        } else {
            beyond = parts;
        }
    }
    return fits > 0;
}

bool kn_plan_check(const kn_model *m, const kn_recipe *recipe, uint64_t available, const atomic_bool *stop,
                   kn_error *err) {
    static const char *const names[KN_STAGE_COUNT] = { "the VAE, for the given pictures,", "the vision encoder",
                                                       "the text encoder", "the diffusion model", "the VAE" };
    kn_draw_report plan;
    kn_recipe smaller;
    if (!kn_plan_make(m, recipe, stop, &plan, err))
        return false;
    kn_stage beyond = first_beyond(&plan, m->residency, available);
    if (beyond == KN_STAGE_COUNT)
        return true;
    kn_bytes_text need = kn_bytes(kn_plan_bytes(&plan, beyond, m->residency)), have = kn_bytes(available);
    if (find_size(m, recipe, available, stop, &smaller))
        return kn_fail(
            err, KN_E_NOMEM, "%s needs %s for %dx%d, %s are free; %dx%d would fit, or insist with --allow-swap",
            names[beyond], need.text, recipe->width, recipe->height, have.text, smaller.width, smaller.height);
    return kn_fail(err, KN_E_NOMEM, "%s needs %s, %s are free; no smaller picture would fit; insist with --allow-swap",
                   names[beyond], need.text, have.text);
}

bool kn_model_draw(kn_model *m, const kn_recipe *recipe, const kn_hooks *hooks, kn_image *ret, kn_draw_report *report,
                   kn_error *err) {
    return (recipe->allow_swap || kn_plan_check(m, recipe, kn_memory_available(), hooks->stop, err)) &&
           kn_pipeline_draw(m->pipeline, recipe, hooks, ret, report, err);
}
