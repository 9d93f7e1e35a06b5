/* Pictures as the vision encoders of the Qwen-VL family take them: patches of both frames of a still, numbered so that
 * the 2 x 2 that become one token lie together, and turned by their row and column. */
#ifndef KN_MODELS_VISION_PATCHES_H
#define KN_MODELS_VISION_PATCHES_H

#include "models/rope.h"
#include "weights/weights.h"

enum {
    KN_VISION_COLOURS = 3,
    KN_VISION_FRAMES = 2,
    KN_VISION_MERGE = 2, /* patches of a side that become one token */
    KN_VISION_MERGED = KN_VISION_MERGE * KN_VISION_MERGE,
};

typedef struct kn_patch_grid {
    int patch, rows, columns; /* pixels of a patch's side; patches */
    int64_t count;
    const int32_t *cells; /* the order in which tokens come, [count / 4]; NULL: row by row */
} kn_patch_grid;

kn_patch_grid kn_patch_grid_of(int patch, int height, int width);

/* The place of patch i. */
void kn_patch_place(const kn_patch_grid *g, int64_t i, int *row, int *column);

/* The first layer. It goes over both frames at once or, as GGUF files have it, has a kernel for each. */
typedef struct kn_patch_layer {
    kn_weight first, second; /* second: data NULL where the first one is for both */
    int frames, patch;       /* that a kernel covers; pixels of a patch's side */
} kn_patch_layer;

/* "patch_embed.proj" and, if it is there, "patch_embed.second_proj". */
void kn_patch_layer_take(kn_patch_layer *l, kn_binder *b);

/* rgb: [rows * patch, columns * patch, 3] -> [count, width]. Patches of (v / 255 - mean) / deviation, watched as
 * "patches" [count, colour * frame * y * x], and what the layer makes of them, "patch_embed". */
kn_tensor kn_patch_layer_apply(kn_run *r, const kn_patch_layer *l, const kn_patch_grid *g, const uint8_t *rgb,
                               const float *mean, const float *deviation);

/* Half of a head turns by the patch's row, half by its column. */
kn_rope kn_patches_turn(kn_run *r, const kn_patch_grid *g, int64_t head);

#endif
