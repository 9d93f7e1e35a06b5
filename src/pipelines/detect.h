/* What a model file is: told from tensor names and shapes in the header, never from the file's name. */
#ifndef KN_PIPELINES_DETECT_H
#define KN_PIPELINES_DETECT_H

#include "weights/weights.h"

typedef enum kn_role {
    KN_ROLE_DIFFUSION,
    KN_ROLE_TEXT_ENCODER,
    KN_ROLE_VISION,
    KN_ROLE_VAE,
    KN_ROLE_OTHER,
} kn_role;

typedef struct kn_kind {
    kn_role role;
    const char *id;    /* stable, for --json: "qwen-image-2.1", "qwen3-vl", … */
    const char *title; /* with its article, for sentences: "a Qwen-Image 2.1 diffusion model" */
} kn_kind;

enum { KN_PREFIX_MAX = 128 };

/* NULL: nothing that is known. prefix is what stands in front of the network's own names (KN_PREFIX_MAX bytes). */
const kn_kind *kn_detect(const kn_weights *w, char *prefix);

/* Whether the file holds that kind of network, alone or among others. */
bool kn_detect_as(const kn_weights *w, const char *id, char *prefix);

#endif
