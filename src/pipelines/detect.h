/* What a model file is: told from tensor names and shapes in the header, never from the file's name. */
#ifndef KN_PIPELINES_DETECT_H
#define KN_PIPELINES_DETECT_H

#include "weights/weights.h"

typedef enum kn_role {
    KN_ROLE_DIFFUSION,
    KN_ROLE_TEXT_ENCODER,
    KN_ROLE_VISION,
    KN_ROLE_VAE,
    KN_ROLE_UPSCALER,
    KN_ROLE_OTHER,
} kn_role;

typedef struct kn_kind {
    kn_role role;
    const char *id;    /* stable, for --json: "qwen-image-2.1", "qwen3-vl", … */
    const char *title; /* with its article, for sentences: "a Qwen-Image 2.1 diffusion model" */
} kn_kind;

enum { KN_PREFIX_MAX = 128 };

/* NULL: nothing that is known. prefix is what stands in front of the network's own names (KN_PREFIX_MAX bytes). Of an
 * all-in-one file the diffusion model. */
const kn_kind *kn_detect(const kn_weights *w, char *prefix);

/* What the file holds for that role, alone or among others; NULL: nothing that is known. */
const kn_kind *kn_detect_role(const kn_weights *w, kn_role role, char *prefix);

/* What the file holds, alone or among others, that is the kind called `id` or cannot be told from it by its header.
 * NULL: there is none. */
const kn_kind *kn_detect_as(const kn_weights *w, const char *id, char *prefix);

/* All-in-one files have a section per component, and training tools write a network's smoothed weights beside those of
 * the last step: these prefixes, NULL-terminated, and the one of them that another prefix begins with, or "". */
extern const char *const kn_sections[];
const char *kn_section_of(const char *prefix);

#endif
