/* kuno generate: what its command line says. The work itself is generate_run.c's. */
#ifndef KN_CLI_GENERATE_H
#define KN_CLI_GENERATE_H

#include "cli/options.h"

/* As given; what was not given is NULL, false, or not set, and left to the profile and the model. The prompt is there,
 * and what contradicts itself has been refused. */
typedef struct kn_generate_options {
    const char *prompt, *negative_prompt;

    const char *model_profile, *config;
    const char *diffusion_model, *text_encoder, *vision, *vae, *tokenizer_path;

    kn_given_paths references;
    const char *init_image, *mask;
    kn_given_real strength;
    kn_given_integer mask_grow, mask_fade;
    kn_given_reals outpaint; /* none, or four whole numbers: left, top, right, bottom */
    bool mask_invert, no_region;

    kn_given_size size;
    kn_given_integer steps, count;
    kn_given_real cfg, flow_shift, mu, shift_y1, shift_y2;
    kn_given_seed seed;
    const char *sampler, *scheduler, *rng, *init_noise;
    kn_given_reals sigmas;

    const char *output;
    bool no_clobber, no_metadata, opaque;

    const char *device, *precision, *residency;
    kn_given_integer threads;
    bool vae_tiling, allow_swap;

    const char *dump;
    bool json, quiet;
} kn_generate_options;

/* Returns the exit status; says on standard error what went wrong. */
int kn_generate_run(const kn_generate_options *o);

#endif
