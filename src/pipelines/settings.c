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

bool kn_settings_check_picture(const char *what, int number, const kn_image *p, kn_error *err) {
    enum { LEAST_SIDE = 2, MOST_ASPECT = 50 };
    uint32_t shorter = KN_MIN(p->width, p->height), longer = KN_MAX(p->width, p->height);
    if (longer > (uint64_t)shorter * MOST_ASPECT)
        return kn_fail(err, KN_E_RANGE, "%s %d is %ux%u pixels large; one side may be at most %d times the other", what,
                       number, p->width, p->height, MOST_ASPECT);
    if (shorter < LEAST_SIDE)
        return kn_fail(err, KN_E_RANGE, "%s %d is %ux%u pixels large; a side needs at least %d", what, number, p->width,
                       p->height, LEAST_SIDE);
    return true;
}

/* Another variant may have been trained for what this one was not. */
static bool refuse_references(const kn_wish *wish, const kn_architecture *a, const kn_variant *v, kn_error *err) {
    if (v->max_references)
        return kn_fail(err, KN_E_RANGE, "%d reference pictures; %s takes at most %d", wish->reference_count, a->title,
                       v->max_references);
    for (size_t i = 0; i < a->variant_count; i++)
        if (a->variants[i].max_references)
            return kn_fail(err, KN_E_UNSUPPORTED,
                           "%s takes reference pictures in its variant '%s'; this profile's is '%s'", a->title,
                           a->variants[i].name, v->name);
    return kn_fail(err, KN_E_UNSUPPORTED, "%s takes no reference pictures", a->title);
}

/* Of the picture to start from, with its new sides. */
static uint32_t canvas_width(const kn_wish *wish) {
    return wish->inpaint.outpaint.left + wish->init_image->width + wish->inpaint.outpaint.right;
}

static uint32_t canvas_height(const kn_wish *wish) {
    return wish->inpaint.outpaint.top + wish->init_image->height + wish->inpaint.outpaint.bottom;
}

/* The size of the picture to start from, as the model can make it: with a margin where it is to stay to the pixel, else
 * a little smaller. */
static void size_of_start(const kn_wish *wish, uint32_t step, uint32_t *width, uint32_t *height) {
    const kn_image *picture = wish->init_image;
    if (kn_inpaint_is_wanted(&wish->inpaint)) {
        *width = kn_side_on_grid(canvas_width(wish), step);
        *height = kn_side_on_grid(canvas_height(wish), step);
    } else {
        *width = KN_MAX(picture->width / step, 1) * step;
        *height = KN_MAX(picture->height / step, 1) * step;
    }
}

/* A size of one's own: pictures are resized to it. */
static bool has_size(const kn_wish *wish) {
    return wish->width.given || wish->height.given;
}

static bool shows_region(const kn_wish *wish, const kn_architecture *a, const kn_variant *v) {
    return kn_inpaint_is_wanted(&wish->inpaint) && wish->inpaint.show_region && a->region_by_reference &&
           v->max_references;
}

static bool check_inpaint(const kn_wish *wish, const kn_architecture *a, const kn_variant *v, kn_error *err) {
    if (!kn_inpaint_check(&wish->inpaint, wish->init_image, err))
        return false;
    if (kn_inpaint_extends(&wish->inpaint) && wish->width.given != wish->height.given)
        return kn_fail(err, KN_E_USAGE,
                       "outpainting makes the size from the picture and its new sides; give no other, or all of one");
    return !shows_region(wish, a, v) || wish->reference_count + 2 <= v->max_references ||
           kn_fail(err, KN_E_USAGE,
                   "%d reference pictures; the region of the mask is shown in two more, and %s takes at most %d",
                   wish->reference_count, a->title, v->max_references);
}

/* The given pictures, and the size that they suggest for the result. */
static bool take_pictures(const kn_wish *wish, const kn_architecture *a, const kn_variant *v, kn_settings *s,
                          kn_optional size[2], kn_error *err) {
    kn_recipe *r = &s->recipe;
    if (wish->reference_count > v->max_references)
        return refuse_references(wish, a, v, err);
    if (wish->init_image && !a->takes_init_image)
        return kn_fail(err, KN_E_UNSUPPORTED, "%s cannot start from a picture", a->title);
    if (wish->strength.given && !wish->init_image)
        return kn_fail(err, KN_E_USAGE, "a strength of %g needs a picture to start from", wish->strength.value);
    for (int i = 0; i < wish->reference_count; i++)
        if (!kn_settings_check_picture("reference", i + 1, &wish->references[i], err))
            return false;
    if (!check_inpaint(wish, a, v, err))
        return false;
    r->references = wish->references;
    r->reference_count = wish->reference_count;
    r->reference_resolution =
        wish->reference_resolution.given ? (unsigned)wish->reference_resolution.value : KN_REFERENCE_RESOLUTION;
    r->init_image = wish->init_image;
    uint32_t width = 0, height = 0;
    if (wish->init_image) {
        size_of_start(wish, (uint32_t)a->size_step, &width, &height);
    } else if (wish->reference_count) {
        kn_reference_size(wish->references->width, wish->references->height, r->reference_resolution, &width, &height);
    }
    size[0] = wish->width.given || !width ? wish->width : (kn_optional){ true, width };
    size[1] = wish->height.given || !width ? wish->height : (kn_optional){ true, height };
    return true;
}

/* Everything has been checked; the recipe's numbers are there. */
static bool add_inpaint(const kn_wish *wish, const kn_architecture *a, const kn_variant *v, kn_settings *s,
                        kn_error *err) {
    kn_recipe *r = &s->recipe;
    if (!kn_inpaint_make(&wish->inpaint, wish->init_image, (uint32_t)r->width, (uint32_t)r->height, has_size(wish),
                         &s->inpaint, err))
        return false;
    if (!has_size(wish)) {
        r->cut_right = r->width - (int)canvas_width(wish);
        r->cut_bottom = r->height - (int)canvas_height(wish);
    }
    s->outpaint = wish->inpaint.outpaint;
    r->init_image = &s->inpaint->picture;
    r->mask = &s->inpaint->mask;
    r->shown = &s->inpaint->shown;
    s->fade = wish->inpaint.fade;
    if (!shows_region(wish, a, v))
        return true;
    if (!kn_inpaint_show_region(s->inpaint, r->prompt, r->references, r->reference_count, err)) {
        kn_settings_free(s);
        return false;
    }
    r->prompt = s->inpaint->prompt;
    r->references = s->inpaint->reference;
    r->reference_count = s->inpaint->reference_count;
    return true;
}

void kn_settings_free(kn_settings *s) {
    kn_inpaint_free(s->inpaint);
    *s = (kn_settings){ 0 };
}

/* A prompt that speaks of a picture which is not there would be drawn without it, and nobody told. */
static bool check_named_references(const char *prompt, int count, kn_error *err) {
    static const char mark[] = "<image";
    for (const char *at = strstr(prompt, mark); at; at = strstr(at + 1, mark)) {
        const char *digits = at + sizeof mark - 1, *end = digits;
        int number = 0;
        for (; *end >= '0' && *end <= '9'; end++)
            number = KN_MIN(10 * number + *end - '0', 1000);
        if (*end == '>' && end > digits && (number < 1 || number > count))
            return kn_fail(err, KN_E_USAGE, "the prompt speaks of %s; reference pictures given: %d",
                           kn_quote(at, (size_t)(end + 1 - at)).text, count);
    }
    return true;
}

static bool check_cfg(double cfg, const kn_architecture *a, const kn_variant *v, kn_error *err) {
    if (!(cfg >= 0 && cfg <= 100))
        return kn_fail(err, KN_E_RANGE, "cfg %g is outside 0 to 100 (%d turns guidance off)", cfg,
                       a->added_guidance ? 0 : 1);
    if (v->why_fixed && cfg != v->cfg)
        return kn_fail(err, KN_E_USAGE, "cfg cannot be %g: %s", cfg, v->why_fixed);
    return true;
}

static kn_optional written_number(const kn_default *d) {
    return (kn_optional){ .given = d->given, .value = d->real };
}

/* The ways to move noise levels exclude each other, so what is asked for goes before all of what is written. */
static kn_shift_choice choose_shift(const kn_shift_choice *asked, const kn_default *of) {
    if (asked->flow_shift.given || asked->mu.given || asked->y1.given || asked->y2.given)
        return *asked;
    return (kn_shift_choice){
        .flow_shift = written_number(&of[KN_SETTING_FLOW_SHIFT]),
        .mu = written_number(&of[KN_SETTING_MU]),
        .y1 = written_number(&of[KN_SETTING_SHIFT_Y1]),
        .y2 = written_number(&of[KN_SETTING_SHIFT_Y2]),
    };
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
    s->shift = choose_shift(&wish->shift, defaults->of);
    const kn_sigma_request request = {
        .flow = &kn_flows[v->flow],
        .schedule = schedule,
        .steps = (size_t)steps,
        .image_tokens = (uint64_t)(r->width / a->size_step) * (uint64_t)(r->height / a->size_step),
        .flow_shift = s->shift.flow_shift,
        .mu = s->shift.mu,
        .shift_y1 = s->shift.y1,
        .shift_y2 = s->shift.y2,
        .custom = wish->sigmas,
        .custom_count = wish->sigma_count,
        .strength = { .given = r->init_image != NULL, .value = s->strength },
        .start_rule = a->start_rule,
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
                                  .vae_tiling = wish->vae_tiling,
                                  .allow_swap = wish->allow_swap,
                                  .init_noise = wish->init_noise,
                                  .init_noise_count = wish->init_noise_count } };
    kn_recipe *r = &s.recipe;
    kn_optional size[2] = { { 0 } };
    s.strength = wish->strength.given ? wish->strength.value : kn_inpaint_is_wanted(&wish->inpaint) ? 1 : own_strength;
    if (!take_pictures(wish, a, v, &s, size, err) ||
        !check_side("width", number(size[0], &of[KN_SETTING_WIDTH], false, v->width), a, &r->width, err) ||
        !check_side("height", number(size[1], &of[KN_SETTING_HEIGHT], false, v->height), a, &r->height, err))
        return false;
    s.cfg = number(wish->cfg, &of[KN_SETTING_CFG], true, v->cfg);
    s.added_guidance = a->added_guidance;
    r->cfg = s.cfg + (a->added_guidance ? 1 : 0);
    r->rescaled_guidance = v->rescaled_guidance;
    if (!check_cfg(s.cfg, a, v, err) || !make_sigmas(wish, defaults, a, v, &s, err))
        return false;
    if (!kn_sampler_find(word(wish->sampler, &of[KN_SETTING_SAMPLER], "euler"), &r->sampler, err) ||
        !kn_noise_find(word(wish->rng, &of[KN_SETTING_RNG], kn_noise_kinds[KN_NOISE_TORCH_CPU].name), &r->noise, err))
        return false;
    s.rng = kn_noise_kinds[r->noise].name;
    if (!wish->seed_given && of[KN_SETTING_SEED].given && of[KN_SETTING_SEED].integer >= 0)
        r->seed = (uint64_t)of[KN_SETTING_SEED].integer;
    else if (!wish->seed_given && !kn_random_seed(&r->seed, err))
        return false;
    if (v->max_references &&
        !check_named_references(r->prompt, r->reference_count + (shows_region(wish, a, v) ? 2 : 0), err))
        return false;
    if (kn_inpaint_is_wanted(&wish->inpaint) && !add_inpaint(wish, a, v, &s, err))
        return false;
    *ret = s;
    return true;
}

/* Parameters of a description, and their texts. */
struct list {
    kn_parameter at[20];
    char text[20][32];
    size_t count;
};

static void add(struct list *l, const char *name, const char *value) {
    l->at[l->count++] = (kn_parameter){ name, value };
}

static void add_number(struct list *l, const char *name, double value) {
    snprintf(l->text[l->count], sizeof l->text[0], "%g", value);
    add(l, name, l->text[l->count]);
}

static void add_if_given(struct list *l, const char *name, kn_optional value) {
    if (value.given)
        add_number(l, name, value.value);
}

bool kn_settings_describe(const kn_settings *s, const char *model, kn_buf *into, kn_error *err) {
    const kn_recipe *r = &s->recipe;
    const kn_sides *sides = &s->outpaint;
    char seed[24], size[32], outpaint[64];
    snprintf(seed, sizeof seed, "%" PRIu64, r->seed);
    snprintf(size, sizeof size, "%dx%d", r->width - r->cut_right, r->height - r->cut_bottom);
    snprintf(outpaint, sizeof outpaint, "%u,%u,%u,%u", sides->left, sides->top, sides->right, sides->bottom);
    struct list l = { .count = 0 };
    add_number(&l, "Steps", (double)r->sigmas.steps);
    add(&l, "Sampler", r->sampler->name.name);
    add(&l, "Schedule type", s->scheduler);
    add_number(&l, "CFG scale", r->cfg);
    if (s->added_guidance)
        add_number(&l, "Added guidance", s->cfg);
    if (r->rescaled_guidance)
        add(&l, "Guidance", "rescaled");
    add_if_given(&l, "Flow shift", s->shift.flow_shift);
    add_if_given(&l, "Mu", s->shift.mu);
    add_if_given(&l, "Shift y1", s->shift.y1);
    add_if_given(&l, "Shift y2", s->shift.y2);
    add(&l, "Seed", seed);
    add(&l, "Size", size);
    if (r->init_image)
        add_number(&l, "Denoising strength", s->strength);
    if (sides->left || sides->top || sides->right || sides->bottom)
        add(&l, "Outpaint", outpaint);
    else if (s->inpaint)
        add(&l, "Mask", "given");
    add_if_given(&l, "Mask fade", s->fade);
    add(&l, "Model", model);
    if (r->reference_count)
        add_number(&l, "References", r->reference_count);
    add(&l, "RNG", r->init_noise ? "given" : s->rng);
    add(&l, "Version", "kuno " KN_VERSION);
    const char *negative = kn_recipe_is_guided(r) && *r->negative_prompt ? r->negative_prompt : NULL;
    return kn_parameters_write(r->prompt, negative, l.at, l.count, into, err);
}
