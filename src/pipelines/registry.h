/* The registry of architectures: the one table that command line, profiles, inspection and documents read. */
#ifndef KN_PIPELINES_REGISTRY_H
#define KN_PIPELINES_REGISTRY_H

#include <stddef.h>

#include "pipelines/pipeline.h"
#include "sampling/schedule.h"

/* A training of an architecture that wants other settings. The first variant of an architecture is its default. */
typedef struct kn_variant {
    const char *name;
    int steps, width, height;
    double cfg;             /* as its users write it, see added_guidance */
    kn_flow_id flow;        /* how its noise levels are spaced */
    bool rescaled_guidance; /* see kn_recipe */
    int max_references;     /* pictures that a prompt can be about; 0: none */
    const char *why_fixed;  /* why steps, guidance and schedule cannot be chosen; NULL: they can */
} kn_variant;

typedef struct kn_architecture {
    const char *name, *title;
    const kn_variant *variants;
    size_t variant_count;
    int size_step;            /* width and height are multiples of this */
    int max_side;             /* largest width or height that makes sense */
    bool checkpoint_in_one;   /* an all-in-one file can be used */
    bool takes_init_image;    /* image to image by strength */
    bool region_by_reference; /* it does not see a mask, but the region in red in a reference */
    bool added_guidance;      /* its users write how much guidance is added: 0 is off where it is 1 for others */
    kn_start_rule start_rule; /* what a strength leaves of the steps */
    const kn_slot *diffusion_model, *text_encoder, *vae;
    const kn_slot *vision; /* NULL: it sees no pictures */
    const kn_stages *stages;
} kn_architecture;

extern const kn_architecture kn_architectures[];
extern const size_t kn_architecture_count;

int kn_architecture_cell(const kn_architecture *a); /* pixels of a side for one place of its latents */

const kn_architecture *kn_architecture_find(const char *name); /* NULL: unknown */
const kn_variant *kn_variant_find(const kn_architecture *a, const char *name);

#endif
