#include "pipelines/vaes.h"

#include "models/vae_flux.h"
#include "models/vae_qwen21.h"
#include "models/vae_wan.h"

static void take_qwen21(void *network, kn_binder *b) {
    kn_vae21_load(network, b);
}

static void take_wan(void *network, kn_binder *b) {
    kn_vae_wan_load(network, b);
}

static void take_flux(void *network, kn_binder *b) {
    kn_vae_flux_load(network, b);
}

const kn_slot kn_qwen21_vae_slot = { .name = "VAE",
                                     .id = "qwen-image-2.1-vae",
                                     .wants = "a Qwen-Image 2.1 VAE",
                                     .network_bytes = sizeof(kn_vae21),
                                     .take = take_qwen21 };
const kn_slot kn_wan_vae_slot = { .name = "VAE",
                                  .id = "qwen-image-vae",
                                  .wants = "a Qwen-Image or Wan 2.1 VAE",
                                  .network_bytes = sizeof(kn_vae_wan),
                                  .take = take_wan };
const kn_slot kn_flux_vae_slot = { .name = "VAE",
                                   .id = "flux-ae",
                                   .wants = "a FLUX autoencoder",
                                   .network_bytes = sizeof(kn_vae_flux),
                                   .take = take_flux };

static kn_tensor encode_qwen21(kn_run *r, const void *network, kn_tensor picture) {
    return kn_vae21_encode(r, network, picture);
}

static kn_tensor decode_qwen21(kn_run *r, const void *network, kn_tensor latent) {
    return kn_vae21_decode(r, network, latent);
}

static kn_tensor encode_wan(kn_run *r, const void *network, kn_tensor picture) {
    return kn_vae_wan_encode(r, network, picture);
}

static kn_tensor decode_wan(kn_run *r, const void *network, kn_tensor latent) {
    return kn_vae_wan_decode(r, network, latent);
}

static kn_tensor encode_flux(kn_run *r, const void *network, kn_tensor picture) {
    return kn_vae_flux_encode(r, network, picture);
}

static kn_tensor decode_flux(kn_run *r, const void *network, kn_tensor latent) {
    return kn_vae_flux_decode(r, network, latent);
}

const kn_autoencoder kn_qwen21_autoencoder = { encode_qwen21, decode_qwen21, 4, KN_VAE21_CHANNELS, KN_VAE21_FACTOR };
const kn_autoencoder kn_wan_autoencoder = { encode_wan, decode_wan, 3, KN_VAE_WAN_CHANNELS, KN_VAE_WAN_FACTOR };
const kn_autoencoder kn_flux_autoencoder = { encode_flux, decode_flux, 3, KN_VAE_FLUX_CHANNELS, KN_VAE_FLUX_FACTOR };
