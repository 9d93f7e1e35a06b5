/* The autoencoder of Qwen-Image, Krea 2 and Wan 2.1: RGB pictures and 16-channel latents at 1/8 of the size (Wan,
 * arXiv:2503.20314).
 *
 * Pictures are [h, w, 3] in -1 … 1; latents are [h / 8, w / 8, 16], normalised as the diffusion model sees them. */
#ifndef KN_MODELS_VAE_WAN_H
#define KN_MODELS_VAE_WAN_H

#include "models/wan_blocks.h"

enum { KN_VAE_WAN_LEVELS = 4, KN_VAE_WAN_CHANNELS = 16, KN_VAE_WAN_FACTOR = 8 };

typedef kn_wan_vae kn_vae_wan;

/* Takes encoder and decoder in the published naming, which ComfyUI has too, or diffusers'. */
void kn_vae_wan_load(kn_vae_wan *m, kn_binder *b);

kn_tensor kn_vae_wan_encode(kn_run *r, const kn_vae_wan *m, kn_tensor picture); /* the mean, no sampling */
kn_tensor kn_vae_wan_decode(kn_run *r, const kn_vae_wan *m, kn_tensor latent);  /* not clamped */

#endif
