/* The diffusion transformer of Qwen-Image 2.1: one stream of text, reference and target tokens, block-causal.
 *
 * Everything before the target (the prefix) is modulated for time zero and never sees the target, so its keys and
 * values are computed once per prompt and serve every step. Dimensions come from the tensors. No tensor has a bias. */
#ifndef KN_MODELS_QWEN_IMAGE21_H
#define KN_MODELS_QWEN_IMAGE21_H

#include "compute/ops.h"
#include "models/rope.h"
#include "weights/weights.h"

enum { KN_QWEN21_MAX_LAYERS = 128, KN_QWEN21_MAX_REFERENCES = 10, KN_QWEN21_MAX_POSITION = 8192 };

typedef struct kn_qwen21_layer {
    kn_weight q, k, v, q_norm, k_norm, o, gate, up, down;
} kn_qwen21_layer;

typedef struct kn_qwen21 {
    int layers, heads;
    int64_t width, head, channels, text_width;
    kn_rope_axes axes; /* frame, row, column */
    kn_weight image_in, text_norm, text_in, text_out, time_in, time_out, modulation, final_scale, out;
    kn_qwen21_layer layer[KN_QWEN21_MAX_LAYERS];
} kn_qwen21;

/* Takes the whole network in ComfyUI's naming (fused gate_up) or diffusers' (split). */
void kn_qwen21_load(kn_qwen21 *m, kn_binder *b);

/* One piece of the prefix, in order: rows of the text embeddings, or a reference picture's latent [h * w, channels]. */
typedef struct kn_qwen21_piece {
    int64_t text_rows; /* 0: a reference */
    kn_tensor latent;
    int h, w;
} kn_qwen21_piece;

/* The prefix after its one pass: keys and values per layer, and where the target's positions begin. */
typedef struct kn_qwen21_prefix {
    int64_t tokens;
    float position;
    kn_kv kv[KN_QWEN21_MAX_LAYERS]; /* [tokens, width] each */
} kn_qwen21_prefix;

/* text: all text rows [n, text_width]; pieces say how they alternate with references. The target's size matters for odd
 * grids only. The result lives in the run's scratch memory, in the scope around the call. */
void kn_qwen21_prefill(kn_run *r, const kn_qwen21 *m, kn_tensor text, const kn_qwen21_piece *pieces, int count,
                       int target_h, int target_w, kn_qwen21_prefix *ret);

/* Velocity of the target latent [h * w, channels] at noise level sigma: same shape. */
kn_tensor kn_qwen21_velocity(kn_run *r, const kn_qwen21 *m, const kn_qwen21_prefix *prefix, kn_tensor latent, int h,
                             int w, float sigma);

#endif
