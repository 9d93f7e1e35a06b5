/* From what was asked to a recipe: every default filled in, every number checked, every refusal worded. Command line,
 * library and server all come through here. */
#ifndef KN_PIPELINES_SETTINGS_H
#define KN_PIPELINES_SETTINGS_H

#include "base/buf.h"
#include "pipelines/inpaint.h"
#include "pipelines/profile.h"
#include "pipelines/registry.h"

/* How noise levels are moved; at most one of flow_shift, mu, and the ends of mu (schedule.h). */
typedef struct kn_shift_choice {
    kn_optional flow_shift, mu, y1, y2;
} kn_shift_choice;

/* What somebody asked for. NULL, and numbers that are not given, mean the model's default. */
typedef struct kn_wish {
    const char *prompt, *negative_prompt;
    kn_optional width, height, steps, cfg;
    kn_shift_choice shift; /* if there is one, nothing of models.toml's is used beside it */
    uint64_t seed;
    bool seed_given;                       /* no: one is chosen at random */
    const char *sampler, *scheduler, *rng; /* names as people write them */
    const float *sigmas;                   /* a schedule of one's own, without or with the final 0 */
    size_t sigma_count;
    const float *init_noise; /* instead of noise from the seed: [channels][h][w] */
    size_t init_noise_count;
    const kn_image *references, *init_image; /* as in a recipe */
    int reference_count;
    bool vae_tiling, allow_swap;                /* as in a recipe */
    kn_optional reference_resolution, strength; /* strength 0 … 1: how much of init_image may change */
    kn_inpaint_wish inpaint;                    /* which part of init_image is drawn anew; nothing: all of it */
} kn_wish;

enum {
    KN_MAX_PROMPT_BYTES = 1 << 20,
    KN_REFERENCE_RESOLUTION = 1024, /* of Qwen-Image 2.1 */
};

/* A recipe, and what its numbers are called. */
typedef struct kn_settings {
    kn_recipe recipe;
    double cfg; /* as it was written: recipe.cfg, or that less 1 where guidance is added */
    bool added_guidance;
    kn_shift_choice shift;
    double strength; /* of recipe.init_image */
    const char *scheduler, *rng;
    kn_sides outpaint;   /* on the sides of recipe.init_image */
    kn_optional fade;    /* of the edge of what is drawn; not given: as it is usual */
    kn_inpaint *inpaint; /* the recipe's pictures and masks; NULL: nothing is inpainted */
} kn_settings;

/* What is not given comes from the defaults (models.toml), then from the variant; the size first from the given
 * pictures, init_image or else the first reference. A mask works on the picture as large as it is, if need be with a
 * margin that is cut off again. The wish' texts and pictures must outlive the settings. An error about one setting
 * begins with its name ("steps 300 is …"), by which others find it. */
bool kn_settings_make(const kn_wish *wish, const kn_generation_defaults *defaults, const kn_architecture *a,
                      const kn_variant *v, kn_settings *ret, kn_error *err);
void kn_settings_free(kn_settings *s); /* needed where something is inpainted; settings may be zeroed */

/* Whether a model can do something with a given picture. what: for messages, in front of its number. */
bool kn_settings_check_picture(const char *what, int number, const kn_image *p, kn_error *err);

/* The settings as the text that travels in a PNG; model is the profile's name. */
bool kn_settings_describe(const kn_settings *s, const char *model, kn_buf *into, kn_error *err);

/* A seed from the system's randomness. */
bool kn_random_seed(uint64_t *ret, kn_error *err);

#endif
