/* The vision tower of Qwen2.5-VL: a ViT without a table of positions, whose patches see their window in most blocks and
 * the whole picture in a few (Qwen2.5-VL, arXiv:2502.13923). */
#ifndef KN_MODELS_QWEN25_VISION_H
#define KN_MODELS_QWEN25_VISION_H

#include "models/vision_patches.h"

enum { KN_VISION25_MAX_BLOCKS = 64 };

/* What shapes do not tell. depth and width say which tower it is. */
typedef struct kn_vision25_layout {
    int depth, heads;
    int window;     /* merged cells of a window's side */
    uint64_t whole; /* bit n: block n sees the whole picture */
    int64_t width;
} kn_vision25_layout;

typedef struct kn_vision25_block {
    kn_weight norm1, q, k, v, proj, norm2, gate, up, down;
} kn_vision25_block;

typedef struct kn_qwen25_vision {
    kn_vision25_layout layout; /* set before loading; depth 0: that of the published tower */
    int64_t width, out;
    kn_patch_layer patch_in;
    kn_vision25_block block[KN_VISION25_MAX_BLOCKS];
    kn_weight merge_norm, merge_up, merge_down;
} kn_qwen25_vision;

/* Takes the tower below the binder's prefix ("visual.", "model.visual."). A layout that does not agree with the shapes,
 * and a tower that is neither published nor laid out, shows in kn_binder_finish. */
void kn_qwen25_vision_load(kn_qwen25_vision *m, kn_binder *b);

/* A picture of height * width RGB pixels, both multiples of 2 * patch -> [tokens, out], row by row. Watched as
 * "patches", "patch_embed" and "blockN", whose patches come window by window, and "merged". */
kn_tensor kn_qwen25_vision_forward(kn_run *r, const kn_qwen25_vision *m, const uint8_t *rgb, int height, int width);

#endif
