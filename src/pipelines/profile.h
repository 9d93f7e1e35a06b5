/* Model profiles: what models.toml says about the models on this machine, and which one a command means.
 *
 * A profile is a name, an architecture with its variant, the paths of the components, and settings that the model
 * likes. This room reads and checks what is written; it opens no model file and knows no architecture by itself: which
 * ones there are comes from the caller's rules, so that messages and engine agree. Names that other rooms own
 * (samplers, schedulers, devices) are kept as written, with their line, and are theirs to check. */
#ifndef KN_PIPELINES_PROFILE_H
#define KN_PIPELINES_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

#define KN_PROFILES_BYTES_MAX     (1 << 20)
#define KN_PROFILE_NAME_BYTES_MAX 128

/* Everything that may stand in [generation], and in a profile for that model alone. */
typedef enum kn_setting {
    KN_SETTING_WIDTH,
    KN_SETTING_HEIGHT,
    KN_SETTING_STEPS,
    KN_SETTING_CFG,
    KN_SETTING_SEED,
    KN_SETTING_COUNT,
    KN_SETTING_SAMPLER,
    KN_SETTING_SCHEDULER,
    KN_SETTING_FLOW_SHIFT,
    KN_SETTING_MU,
    KN_SETTING_SHIFT_Y1,
    KN_SETTING_SHIFT_Y2,
    KN_SETTING_RNG,
    KN_SETTING_OUTPUT,
    KN_SETTING_DEVICE,
    KN_SETTING_THREADS,
    KN_SETTING_PRECISION,
    KN_SETTING_RESIDENCY,
    KN_SETTINGS,
} kn_setting;

/* Which member counts is fixed for each setting: integers for width, height, steps, seed, count and threads; reals for
 * cfg, flow_shift, mu, shift_y1 and shift_y2; text for the others. */
typedef struct kn_default {
    bool given;
    int line; /* where it is written */
    int64_t integer;
    double real;
    char *text;
} kn_default;

typedef struct kn_generation_defaults {
    kn_default of[KN_SETTINGS];
} kn_generation_defaults;

typedef struct kn_profile {
    char *name, *architecture, *variant; /* variant is NULL for an architecture that has none */
    char *checkpoint, *diffusion_model, *text_encoder, *vision, *vae, *tokenizer; /* NULL: not given */
    int line;
    kn_generation_defaults defaults;
} kn_profile;

typedef struct kn_profile_architecture {
    const char *name;
    const char *const *variants; /* NULL-terminated; NULL: the architecture has none */
    bool takes_checkpoint;       /* whether one file may hold all components */
} kn_profile_architecture;

typedef struct kn_profile_rules {
    const kn_profile_architecture *architectures;
    size_t n;
    const kn_profile *builtin; /* what is there without any models.toml; NULL: nothing is */
} kn_profile_rules;

typedef struct kn_profiles {
    kn_profile *profiles; /* in the order of the file, the one that [models] makes last */
    size_t n;
    const kn_profile *legacy;  /* the one that [models] makes, or NULL */
    const kn_profile *builtin; /* the caller's own, not freed here */
    char *default_model;       /* NULL: not given */
    kn_generation_defaults generation;
} kn_profiles;

/* Reads a models.toml. path NULL means $XDG_CONFIG_HOME/kuno/models.toml, or ~/.config/kuno/models.toml; if there is no
 * such file, there are no profiles, which is fine. A path that was asked for must exist. Errors begin with the path. */
bool kn_profiles_read(const char *path, const kn_profile_rules *rules, kn_profiles *ret, kn_error *err);

/* Where the file is looked for that nobody names. The caller frees it; NULL: this machine has no place for it. */
bool kn_profiles_place(char **ret, kn_error *err);

/* By which it is known whether a models.toml has come, gone or changed. path NULL: the user's own. */
kn_edition kn_profiles_edition(const char *path);

/* Reads one from memory. folder: what relative paths are relative to, "" for the working folder. */
bool kn_profiles_read_text(const char *text, size_t len, const char *folder, const kn_profile_rules *rules,
                           kn_profiles *ret, kn_error *err);
void kn_profiles_free(kn_profiles *p);

/* The profile of that name, the built-in one included; NULL when there is none. */
const kn_profile *kn_profiles_find(const kn_profiles *p, const char *name);

/* The profile that a command works with: the one it names, else default_model, else that of [models], else, if the file
 * has no profiles, the built-in one. name may be NULL. */
bool kn_profiles_select(const kn_profiles *p, const char *name, const kn_profile **ret, kn_error *err);

/* What holds for a profile where a command says nothing: its own settings over those of [generation]. A view: it lives
 * as long as p and the profile do. */
kn_generation_defaults kn_profiles_defaults(const kn_profiles *p, const kn_profile *profile);

#endif
