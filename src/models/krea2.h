/* The diffusion transformer of Krea 2, Raw and Turbo: one stream of text and image tokens, grouped-query attention with
 * a sigmoid gate, modulated by time through one vector that every block offsets by its own table.
 *
 * A token of text arrives as the hidden states after twelve layers of the text encoder. They are fused into one vector
 * per token without looking at time, so that this is done once per prompt and serves every step. Dimensions come from
 * the tensors; RoPE base and axes are constants of the model. */
#ifndef KN_MODELS_KREA2_H
#define KN_MODELS_KREA2_H

#include "compute/ops.h"
#include "models/rope.h"
#include "weights/weights.h"

enum { KN_KREA2_MAX_LAYERS = 64, KN_KREA2_MAX_TEXT_LAYERS = 8, KN_KREA2_PATCH = 2 };

typedef struct kn_krea2_block {
    kn_weight norm1, q, k, v, gate, q_norm, k_norm, o, norm2, mlp_gate, mlp_up, mlp_down;
    kn_weight table; /* [6, width]: what the block adds to the modulation; not in text fusion, which sees no time */
} kn_krea2_block;

/* What all blocks of a row of blocks have alike. */
typedef struct kn_krea2_form {
    int heads, kv_heads;
    int64_t width, head;
} kn_krea2_form;

typedef struct kn_krea2 {
    int layers, tap_layers, text_layers;
    int64_t patch_width, taps; /* taps: hidden states per token of text */
    kn_krea2_form form, text_form;
    kn_rope_axes axes; /* text, row, column */
    kn_weight image_in, time_in, time_out, modulation, projector, text_norm, text_in, text_out;
    kn_weight final_table, final_norm, out;              /* final_table: [2, width] */
    kn_krea2_block tap_layer[KN_KREA2_MAX_TEXT_LAYERS];  /* among the taps of each token by itself */
    kn_krea2_block text_layer[KN_KREA2_MAX_TEXT_LAYERS]; /* among the tokens of the text */
    kn_krea2_block layer[KN_KREA2_MAX_LAYERS];           /* among text and picture */
} kn_krea2;

/* Takes the whole network in the published naming, which ComfyUI has too, or diffusers'. */
void kn_krea2_load(kn_krea2 *m, kn_binder *b);

/* Hidden states [n, taps * text width], a token's one after the other -> text [n, width]. */
kn_tensor kn_krea2_fuse_text(kn_run *r, const kn_krea2 *m, kn_tensor states);

/* Velocity of a latent of h x w patches at noise level sigma. latent: [h * w, patch_width], a patch's cells
 * innermost; text: what kn_krea2_fuse_text gave. Same shape as latent. */
kn_tensor kn_krea2_velocity(kn_run *r, const kn_krea2 *m, kn_tensor text, kn_tensor latent, int h, int w, float sigma);

#endif
