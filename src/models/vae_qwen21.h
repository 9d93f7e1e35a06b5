/* The autoencoder of Qwen-Image 2.1: RGBA pictures and 64-channel latents at 1/16 of the size. The causal 3-D network
 * of Wan 2.2 with one frame, where it collapses to two dimensions; without its patching of pixels.
 *
 * Pictures are [h, w, 4] in -1 … 1; latents are [h / 16, w / 16, 64], normalised as the diffusion model sees them. */
#ifndef KN_MODELS_VAE_QWEN21_H
#define KN_MODELS_VAE_QWEN21_H

#include "models/wan_blocks.h"

enum { KN_VAE21_LEVELS = 5, KN_VAE21_CHANNELS = 64, KN_VAE21_FACTOR = 16 };

typedef kn_wan_vae kn_vae21;

/* Takes encoder and decoder in ComfyUI's naming (Wan layout) or diffusers'. */
void kn_vae21_load(kn_vae21 *m, kn_binder *b);

kn_tensor kn_vae21_encode(kn_run *r, const kn_vae21 *m, kn_tensor picture); /* the mode, no sampling */
kn_tensor kn_vae21_decode(kn_run *r, const kn_vae21 *m, kn_tensor latent);  /* not clamped */

#endif
