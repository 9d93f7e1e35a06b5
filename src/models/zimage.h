/* The diffusion transformer of Z-Image: one stream of image and text tokens, each refined by itself before they meet
 * (Z-Image, arXiv:2511.22699; after Lumina-Image 2.0, arXiv:2503.21758).
 *
 * Text does not see time before it meets the picture, so its refined rows are computed once per prompt and serve every
 * step. Dimensions come from the tensors. */
#ifndef KN_MODELS_ZIMAGE_H
#define KN_MODELS_ZIMAGE_H

#include "compute/ops.h"
#include "models/rope.h"
#include "weights/weights.h"

enum {
    KN_ZIMAGE_MAX_LAYERS = 128,
    KN_ZIMAGE_MAX_REFINERS = 16,
    KN_ZIMAGE_PATCH = 2,
    KN_ZIMAGE_MAX_SIDE = 512 /* rows and columns of patches that the positions were trained for */
};

typedef struct kn_zimage_block {
    kn_weight norm1, q, k, v, q_norm, k_norm, o, norm2;
    kn_weight ffn_norm1, gate, up, down, ffn_norm2;
    kn_weight modulation; /* data is NULL in blocks that do not see time */
} kn_zimage_block;

typedef struct kn_zimage {
    int layers, noise_refiners, context_refiners, heads;
    int64_t width, head, patch_width, text_width;
    kn_rope_axes axes; /* sequence, row, column */
    kn_weight image_in, image_pad, text_norm, text_in, text_pad, time_in, time_out, final_scale, out;
    kn_zimage_block noise_refiner[KN_ZIMAGE_MAX_REFINERS], context_refiner[KN_ZIMAGE_MAX_REFINERS];
    kn_zimage_block layer[KN_ZIMAGE_MAX_LAYERS];
} kn_zimage;

/* Takes the whole network in ComfyUI's naming (fused qkv) or diffusers' (split). */
void kn_zimage_load(kn_zimage *m, kn_binder *b);

/* Text embeddings [n, text_width] -> refined words [n rounded up to 32, width]. */
kn_tensor kn_zimage_refine_text(kn_run *r, const kn_zimage *m, kn_tensor text);

/* The network's output for a latent of h x w patches, [h * w, patch_width] with a patch's channels innermost, at noise
 * level sigma: same shape. It points towards the picture, so it is the velocity with its sign turned. */
kn_tensor kn_zimage_forward(kn_run *r, const kn_zimage *m, kn_tensor words, kn_tensor latent, int h, int w,
                            float sigma);

#endif
