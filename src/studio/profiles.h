/* Model profiles as clients see them: the built-in model, those of models.toml, and those that clients have put here.
 * The first two are read only; a name of theirs cannot be taken. Only names, sizes and whether files are there is
 * looked at: what is in them is for the image worker. */
#ifndef KN_STUDIO_PROFILES_H
#define KN_STUDIO_PROFILES_H

#include <jansson.h>

#include "sampling/schedule.h"
#include "studio/request.h"
#include "studio/store.h"

enum { KN_PROFILE_FILES = 16, KN_PROFILES_MAX = 500 };

typedef enum kn_model_role {
    KN_MODEL_DIFFUSION,
    KN_MODEL_TEXT_ENCODER,
    KN_MODEL_VISION_ENCODER,
    KN_MODEL_VAE,
    KN_MODEL_UPSCALER,
    KN_MODEL_TOKENIZER,
    KN_MODEL_ROLES,
} kn_model_role;
extern const char *const kn_model_roles[KN_MODEL_ROLES];

struct kn_architecture; /* pipelines/registry.h */
struct kn_variant;

typedef struct kn_model_file {
    kn_model_role role;
    char *path;
    bool present;
    uint64_t bytes;
} kn_model_file;

typedef struct kn_model_profile {
    char name[KN_NAME_BYTES];
    char *title; /* NULL: none */
    const struct kn_architecture *architecture;
    const struct kn_variant *variant;
    bool official, fixed;   /* fixed: cannot be changed here */
    bool is_checkpoint;     /* one file has all parts */
    unsigned references;    /* pictures that a prompt can be about */
    uint32_t width, height; /* what it draws if nobody says anything … */
    kn_optional steps, cfg; /* … and what models.toml says about it */
    char sampler[64];       /* empty: the model's own */
    size_t file_count;
    kn_model_file files[KN_PROFILE_FILES];
} kn_model_profile;

typedef struct kn_model_list {
    kn_model_profile *profiles;
    size_t count;
    char usual[KN_NAME_BYTES]; /* what models.toml would have drawn with; empty: it leaves that open */
} kn_model_list;

/* models_toml: NULL: the user's own. A models.toml that cannot be read gives no profiles of its own, and
 * *ret_problem says why. */
bool kn_profiles_list(kn_store *s, const char *models_toml, kn_model_list *ret, kn_error *ret_problem, kn_error *err);
void kn_profiles_list_free(kn_model_list *list);

/* Whether the model takes so long a prompt beside references with these longer sides. KN_E_RANGE: it does not. Of its
 * files only the tokenizer is read, and that only for long prompts. */
bool kn_model_has_room(const kn_model_profile *p, const char *prompt, const uint32_t *sides, size_t count,
                       kn_error *err);

const kn_model_profile *kn_profiles_named(const kn_model_list *list, const char *name); /* NULL: there is none */

/* The first one of models.toml or a client's that is of this architecture and variant. NULL: there is none. */
const kn_model_profile *kn_profiles_of(const kn_model_list *list, const char *architecture, const char *variant);

bool kn_model_is_ready(const kn_model_profile *p);
const char *kn_model_obstacle(const kn_model_profile *p); /* what it lacks, for people; NULL: it is ready */
uint64_t kn_model_bytes(const kn_model_profile *p, kn_model_role role); /* of its files in that role */
json_t *kn_model_json(const kn_model_profile *p, bool active);

/* Reads the body of a PUT. */
bool kn_profile_read(const char *name, const char *text, size_t len, kn_model_profile *ret, kn_buf *pointer,
                     kn_error *err);
void kn_profile_free_model(kn_model_profile *p);

/* What clients put here is also written to a models.toml of the store's, for the image worker. */
#define KN_PROFILES_FILE "models.toml"
bool kn_profile_is_ours(kn_store *s, const char *name, bool *ret, kn_error *err);

bool kn_profile_put(kn_store *s, const kn_model_profile *p, bool *ret_new, kn_error *err);
bool kn_profile_drop(kn_store *s, const char *name, kn_error *err); /* KN_E_NOT_FOUND */

#endif
