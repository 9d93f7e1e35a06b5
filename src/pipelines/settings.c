#include "pipelines/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "image/parameters.h"
#include "image/resize.h"

static const double own_strength = 0.6; /* of the image-to-image pipelines in diffusers */

bool kn_random_seed(uint64_t *ret, kn_error *err) {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        return kn_fail(err, KN_E_IO, "no random seed: %s", strerror(errno));
    *ret = seed;
    return true;
}

static bool check_prompt(const char *what, const char *text, kn_error *err) {
    size_t len = strlen(text), good = kn_utf8_check(text, len);
    if (len > KN_MAX_PROMPT_BYTES)
        return kn_fail(err, KN_E_RANGE, "%s: %zu bytes, at most %d are possible", what, len, KN_MAX_PROMPT_BYTES);
    if (good < len)
        return kn_fail(err, KN_E_FORMAT, "%s: byte %zu (0x%02x) is not UTF-8", what, good + 1,
                       (unsigned)(unsigned char)text[good]);
    return true;
}

/* A whole number: what was asked, else what models.toml says, else the model's own. */
static double number(kn_optional asked, const kn_default *written, bool real, double own) {
    if (asked.given)
        return asked.value;
    if (written->given)
        return real ? written->real : (double)written->integer;
    return own;
}

static const char *word(const char *asked, const kn_default *written, const char *own) {
    return asked ? asked : written->given ? written->text : own;
}

static bool check_side(const char *name, double value, const kn_architecture *a, int *ret, kn_error *err) {
    int step = a->size_step;
    if (!(value >= step && value <= a->max_side))
        return kn_fail(err, KN_E_RANGE, "%s %.0f: %s makes pictures from %d to %d pixels", name, value, a->title, step,
                       a->max_side);
    int side = (int)value, below = side / step * step, above = below + step;
    if (side % step == 0) {
        *ret = side;
        return true;
    }
    bool down = side - below <= above - side || above > a->max_side;
    return kn_fail(err, KN_E_RANGE, "%s %d is not a multiple of %d; the nearest allowed is %d", name, side, step,
                   down ? below : above);
}

/* Pictures that the model can do something with. what: for messages, with a number in it. */
static bool check_picture(const char *what, int index, const kn_image *p, kn_error *err) {
    enum { LEAST_SIDE = 16, MOST_ASPECT = 50 };
    uint32_t shorter = KN_MIN(p->width, p->height), longer = KN_MAX(p->width, p->height);
    if (shorter < LEAST_SIDE)
        return kn_fail(err, KN_E_RANGE, "%s %d is %ux%u pixels large; a side needs at least %d", what, index, p->width,
                       p->height, LEAST_SIDE);
    if (longer > (uint64_t)shorter * MOST_ASPECT)
        return kn_fail(err, KN_E_RANGE, "%s %d is %ux%u pixels large; one side may be at most %d times the other", what,
                       index, p->width, p->height, MOST_ASPECT);
    return true;
}

/* The given pictures, and the size that they suggest for the result. */
static bool take_pictures(const kn_wish *wish, const kn_architecture *a, kn_recipe *r, kn_optional size[2],
                          kn_error *err) {
    if (wish->reference_count > a->max_references)
        return a->max_references ? kn_fail(err, KN_E_RANGE, "%d reference pictures; %s takes at most %d",
                                           wish->reference_count, a->title, a->max_references)
                                 : kn_fail(err, KN_E_UNSUPPORTED, "%s takes no reference pictures", a->title);
    if (wish->init_image && !a->takes_init_image)
        return kn_fail(err, KN_E_UNSUPPORTED, "%s cannot start from a picture", a->title);
    if (wish->strength.given && !wish->init_image)
        return kn_fail(err, KN_E_USAGE, "a strength of %g needs a picture to start from", wish->strength.value);
    for (int i = 0; i < wish->reference_count; i++)
        if (!check_picture("reference", i + 1, &wish->references[i], err))
            return false;
    r->references = wish->references;
    r->reference_count = wish->reference_count;
    r->reference_resolution =
        wish->reference_resolution.given ? (unsigned)wish->reference_resolution.value : KN_REFERENCE_RESOLUTION;
    r->init_image = wish->init_image;
    uint32_t width = 0, height = 0;
    if (wish->init_image) {
        uint32_t step = (uint32_t)a->size_step;
        width = KN_MAX(wish->init_image->width / step, 1) * step;
        height = KN_MAX(wish->init_image->height / step, 1) * step;
    } else if (wish->reference_count) {
        kn_reference_size(wish->references->width, wish->references->height, r->reference_resolution, &width, &height);
    }
    size[0] = wish->width.given || !width ? wish->width : (kn_optional){ true, width };
    size[1] = wish->height.given || !width ? wish->height : (kn_optional){ true, height };
    return true;
}

static bool check_cfg(double cfg, const kn_variant *v, kn_error *err) {
    if (!(cfg >= 0 && cfg <= 100))
        return kn_fail(err, KN_E_RANGE, "cfg %g is outside 0 to 100 (1 turns guidance off)", cfg);
    if (v->why_fixed && cfg != v->cfg)
        return kn_fail(err, KN_E_USAGE, "cfg cannot be %g: %s", cfg, v->why_fixed);
    return true;
}

/* The noise levels of a wish. */
static bool make_sigmas(const kn_wish *wish, const kn_generation_defaults *defaults, const kn_architecture *a,
                        const kn_variant *v, kn_settings *s, kn_error *err) {
    const kn_recipe *r = &s->recipe;
    kn_schedule schedule = KN_SCHEDULE_OFFICIAL;
    const char *name = word(wish->scheduler, &defaults->of[KN_SETTING_SCHEDULER], kn_schedules[schedule].name);
    if (!kn_schedule_find(name, &schedule, err))
        return false;
    bool listed = wish->sigmas != NULL;
    double steps = number(wish->steps, &defaults->of[KN_SETTING_STEPS], false, v->steps);
    if (listed && !wish->steps.given)
        steps = 0; /* the list tells */
    else if (!(steps >= 1 && steps <= KN_MAX_STEPS))
        return kn_fail(err, KN_E_RANGE, "steps %.0f is outside 1 to %d", steps, KN_MAX_STEPS);
    if (v->why_fixed && (listed || schedule != KN_SCHEDULE_OFFICIAL || steps != v->steps))
        return kn_fail(err, KN_E_USAGE, "%s cannot be chosen: %s",
                       listed              ? "sigmas"
                       : steps != v->steps ? "steps"
                                           : "the schedule",
                       v->why_fixed);
    const kn_sigma_request request = {
        .flow = &kn_flows[v->flow],
        .schedule = schedule,
        .steps = (size_t)steps,
        .image_tokens = (uint64_t)(r->width / a->size_step) * (uint64_t)(r->height / a->size_step),
        .custom = wish->sigmas,
        .custom_count = wish->sigma_count,
        .strength = { .given = r->init_image != NULL, .value = s->strength },
        .start_rule = KN_START_DIFFUSERS,
    };
    s->scheduler = listed ? "custom" : kn_schedules[schedule].name;
    if (!kn_sigmas_make(&request, &s->recipe.sigmas, err))
        return false;
    return s->recipe.sigmas.steps > 0 ||
           kn_fail(err, KN_E_USAGE, "a strength of %g leaves no step to do; more strength or more steps are needed",
                   s->strength);
}

bool kn_settings_make(const kn_wish *wish, const kn_generation_defaults *defaults, const kn_architecture *a,
                      const kn_variant *v, kn_settings *ret, kn_error *err) {
    const kn_default *of = defaults->of;
    const char *negative = wish->negative_prompt ? wish->negative_prompt : "";
    if (!wish->prompt || !*wish->prompt)
        return kn_fail(err, KN_E_USAGE, "the prompt is empty; say what to draw");
    if (!check_prompt("prompt", wish->prompt, err) || !check_prompt("negative prompt", negative, err))
        return false;

    kn_settings s = { .recipe = { .prompt = wish->prompt,
                                  .negative_prompt = negative,
                                  .seed = wish->seed,
                                  .init_noise = wish->init_noise,
                                  .init_noise_count = wish->init_noise_count } };
    kn_recipe *r = &s.recipe;
    kn_optional size[2];
    s.strength = wish->strength.given ? wish->strength.value : own_strength;
    if (!take_pictures(wish, a, r, size, err) ||
        !check_side("width", number(size[0], &of[KN_SETTING_WIDTH], false, v->width), a, &r->width, err) ||
        !check_side("height", number(size[1], &of[KN_SETTING_HEIGHT], false, v->height), a, &r->height, err))
        return false;
    r->cfg = number(wish->cfg, &of[KN_SETTING_CFG], true, v->cfg);
    if (!check_cfg(r->cfg, v, err) || !make_sigmas(wish, defaults, a, v, &s, err))
        return false;
    if (!kn_sampler_find(word(wish->sampler, &of[KN_SETTING_SAMPLER], "euler"), &r->sampler, err) ||
        !kn_noise_find(word(wish->rng, &of[KN_SETTING_RNG], kn_noise_kinds[KN_NOISE_TORCH_CPU].name), &r->noise, err))
        return false;
    s.rng = kn_noise_kinds[r->noise].name;
    if (!wish->seed_given && of[KN_SETTING_SEED].given && of[KN_SETTING_SEED].integer >= 0)
        r->seed = (uint64_t)of[KN_SETTING_SEED].integer;
    else if (!wish->seed_given && !kn_random_seed(&r->seed, err))
        return false;
    *ret = s;
    return true;
}

bool kn_settings_describe(const kn_settings *s, const char *model, kn_buf *into, kn_error *err) {
    const kn_recipe *r = &s->recipe;
    char steps[24], cfg[32], seed[24], size[32], strength[32], references[16];
    snprintf(steps, sizeof steps, "%zu", r->sigmas.steps);
    snprintf(cfg, sizeof cfg, "%g", r->cfg);
    snprintf(seed, sizeof seed, "%" PRIu64, r->seed);
    snprintf(size, sizeof size, "%dx%d", r->width, r->height);
    snprintf(strength, sizeof strength, "%g", s->strength);
    snprintf(references, sizeof references, "%d", r->reference_count);
    const kn_parameter all[] = {
        { "Steps", steps },
        { "Sampler", r->sampler->name.name },
        { "Schedule type", s->scheduler },
        { "CFG scale", cfg },
        { "Seed", seed },
        { "Size", size },
        { "Model", model },
        { "Denoising strength", r->init_image ? strength : NULL },
        { "References", r->reference_count ? references : NULL },
        { "RNG", r->init_noise ? "given" : s->rng },
        { "Version", "kuno " KN_VERSION },
    };
    kn_parameter list[KN_COUNT(all)];
    size_t count = 0;
    for (size_t i = 0; i < KN_COUNT(all); i++)
        if (all[i].value)
            list[count++] = all[i];
    const char *negative = r->cfg > 1 && *r->negative_prompt ? r->negative_prompt : NULL;
    return kn_parameters_write(r->prompt, negative, list, count, into, err);
}
