/* The diffusion transformer of Qwen-Image up to 2512: text and picture are two streams with weights of their own, which
 * meet in the attention of every block (Qwen-Image technical report, arXiv:2508.02324).
 *
 * A latent is dealt in patches of 2 x 2 cells, a channel's four together. Pictures that a prompt is about follow the
 * one that is drawn. Dimensions come from the tensors; every layer has a bias. */
#ifndef KN_MODELS_QWEN_IMAGE_H
#define KN_MODELS_QWEN_IMAGE_H

#include "compute/ops.h"
#include "models/rope.h"
#include "weights/weights.h"

enum { KN_QWEN_IMAGE_MAX_LAYERS = 128, KN_QWEN_IMAGE_PATCH = 2 };

/* What one stream has of a block. */
typedef struct kn_qwen_image_half {
    kn_weight modulation, q, k, v, q_norm, k_norm, o, up, down;
} kn_qwen_image_half;

typedef struct kn_qwen_image_layer {
    kn_qwen_image_half picture, text;
} kn_qwen_image_layer;

typedef struct kn_qwen_image {
    int layers, heads;
    int64_t width, head, patch_width, text_width;
    kn_rope_axes axes; /* frame, row, column */
    kn_weight image_in, text_norm, text_in, time_in, time_out, modulation, out;
    kn_qwen_image_layer layer[KN_QWEN_IMAGE_MAX_LAYERS];
} kn_qwen_image;

/* Takes the whole network; all publishers name its tensors alike. */
void kn_qwen_image_load(kn_qwen_image *m, kn_binder *b);

/* Once per prompt. text: [n, text_width] -> [n, width]. */
kn_tensor kn_qwen_image_read_text(kn_run *r, const kn_qwen_image *m, kn_tensor text);

typedef struct kn_qwen_image_picture {
    kn_tensor patches; /* [h * w, patch_width] */
    int h, w;
} kn_qwen_image_picture;

/* Velocity of the first picture at noise level sigma: the shape of its patches. text: from read_text. The others are
 * what the prompt is about. */
kn_tensor kn_qwen_image_velocity(kn_run *r, const kn_qwen_image *m, kn_tensor text,
                                 const kn_qwen_image_picture *pictures, int count, float sigma);

#endif
