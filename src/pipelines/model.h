/* An opened model: the profile that was meant, the architecture it names, a device, and the pipeline on it. */
#ifndef KN_PIPELINES_MODEL_H
#define KN_PIPELINES_MODEL_H

#include "pipelines/profile.h"
#include "pipelines/registry.h"

/* What a caller says about the model; NULL and "not given" leave the choice to models.toml and the defaults. */
typedef struct kn_model_wish {
    const char *config, *profile;
    const char *diffusion_model, *text_encoder, *vision, *vae, *tokenizer; /* in place of the profile's */
    const char *device, *precision, *residency; /* names: "cpu"; "fast", "exact"; "staged", "cached" */
    kn_optional threads;
} kn_model_wish;

/* Which files a wish means, before any of them is opened. */
typedef struct kn_model_choice {
    kn_profiles profiles;
    const kn_profile *profile;
    const kn_architecture *architecture;
    const kn_variant *variant;
    kn_model_files files;
    kn_generation_defaults defaults; /* view of profiles */
} kn_model_choice;

/* Every profile of a models.toml, checked against the registry; config NULL: the user's own. */
bool kn_model_profiles(const char *config, kn_profiles *ret, kn_error *err);

bool kn_model_choose(const kn_model_wish *wish, kn_model_choice *ret, kn_error *err);
void kn_model_choice_free(kn_model_choice *c);

typedef struct kn_model {
    kn_model_choice choice;
    kn_device *device;
    kn_precision precision;
    kn_residency residency;
    kn_pipeline *pipeline;
} kn_model;

/* Opens every component and checks it; reads no tensor data. The wish' texts must outlive the model. */
bool kn_model_open(const kn_model_wish *wish, kn_model **ret, kn_error *err);
void kn_model_close(kn_model *m);

#endif
