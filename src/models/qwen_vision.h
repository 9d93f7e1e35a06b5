/* The vision tower of Qwen3-VL: a picture becomes rows in the place of its tokens, and rows that are added after the
 * text model's first layers (deepstack). A ViT with a learned table of positions and rotations by row and column;
 * every 2 x 2 patches are merged into one token (Qwen3-VL, arXiv:2511.21631). */
#ifndef KN_MODELS_QWEN_VISION_H
#define KN_MODELS_QWEN_VISION_H

#include "models/vision_patches.h"

enum { KN_VISION_MAX_BLOCKS = 64, KN_VISION_MAX_DEEPSTACK = 4 };

/* What shapes do not tell: heads, and after which blocks features are taken. depth and width say which tower it is. */
typedef struct kn_vision_layout {
    int depth, heads, deepstack_count, deepstack[KN_VISION_MAX_DEEPSTACK];
    int64_t width;
} kn_vision_layout;

typedef struct kn_vision_block {
    kn_weight norm1, norm1_shift, q, k, v, proj, norm2, norm2_shift, up, down;
} kn_vision_block;

typedef struct kn_vision_merger {
    kn_weight norm, norm_shift, up, down;
} kn_vision_merger;

typedef struct kn_qwen_vision {
    kn_vision_layout layout; /* set before loading; depth 0: that of the published tower of this depth */
    int64_t width, out, table_side;
    kn_patch_layer patch_in;
    kn_weight positions; /* [table_side * table_side, width] */
    kn_vision_block block[KN_VISION_MAX_BLOCKS];
    kn_vision_merger merger, deepstack[KN_VISION_MAX_DEEPSTACK];
} kn_qwen_vision;

/* Takes the tower below the binder's prefix ("visual.", "model.visual."). A layout that does not agree with the shapes,
 * and a tower that is neither published nor laid out, shows in kn_binder_finish. */
void kn_qwen_vision_load(kn_qwen_vision *m, kn_binder *b);

typedef struct kn_vision_features {
    kn_tensor rows; /* [tokens, out], tokens = rows * columns of merged cells */
    int deepstack_count;
    kn_tensor deepstack[KN_VISION_MAX_DEEPSTACK]; /* the same shape */
} kn_vision_features;

/* A picture of height * width RGB pixels, both multiples of 2 * patch. The result lives in the scope around the call.
 * Watched as "patches", "patch_embed", "blockN", "deepstackN", "merged". */
void kn_qwen_vision_forward(kn_run *r, const kn_qwen_vision *m, const uint8_t *rgb, int height, int width,
                            kn_vision_features *ret);

#endif
