/* The autoencoder of FLUX.1, which Z-Image uses: RGB pictures and 16-channel latents at 1/8 of the size; the
 * convolutional network of latent diffusion (arXiv:2112.10752).
 *
 * Pictures are [h, w, 3] in -1 … 1; latents are [h / 8, w / 8, 16], normalised as the diffusion model sees them. */
#ifndef KN_MODELS_VAE_FLUX_H
#define KN_MODELS_VAE_FLUX_H

#include "compute/ops.h"
#include "weights/weights.h"

enum { KN_VAE_FLUX_LEVELS = 4, KN_VAE_FLUX_CHANNELS = 16, KN_VAE_FLUX_FACTOR = 8 };

typedef struct kn_vae_flux_norm {
    kn_weight weight, bias;
} kn_vae_flux_norm;

typedef struct kn_vae_flux_residual {
    kn_vae_flux_norm norm1, norm2;
    kn_weight conv1, conv2, shortcut; /* shortcut.data is NULL where channels stay the same */
} kn_vae_flux_residual;

typedef struct kn_vae_flux_attention {
    kn_vae_flux_norm norm;
    kn_weight q, k, v, out;
} kn_vae_flux_attention;

typedef struct kn_vae_flux_level {
    kn_vae_flux_residual residual[3]; /* two when encoding */
    kn_weight resample;               /* data is NULL on the last level */
} kn_vae_flux_level;

typedef struct kn_vae_flux_half {
    kn_weight in;
    kn_vae_flux_residual middle[2];
    kn_vae_flux_attention attention;
    kn_vae_flux_level level[KN_VAE_FLUX_LEVELS]; /* in the order in which they run */
    kn_vae_flux_norm norm_out;
    kn_weight out;
} kn_vae_flux_half;

typedef struct kn_vae_flux {
    kn_vae_flux_half encoder, decoder;
} kn_vae_flux;

/* Takes encoder and decoder in the published naming or diffusers'. */
void kn_vae_flux_load(kn_vae_flux *m, kn_binder *b);

kn_tensor kn_vae_flux_encode(kn_run *r, const kn_vae_flux *m, kn_tensor picture); /* the mean, no sampling */
kn_tensor kn_vae_flux_decode(kn_run *r, const kn_vae_flux *m, kn_tensor latent);  /* not clamped */

#endif
