/* The VAEs that pipelines use, each as a slot for its file and as an autoencoder. */
#ifndef KN_PIPELINES_VAES_H
#define KN_PIPELINES_VAES_H

#include "pipelines/autoencoder.h"
#include "pipelines/pipeline.h"

extern const kn_slot kn_qwen21_vae_slot, kn_wan_vae_slot, kn_flux_vae_slot;
extern const kn_autoencoder kn_qwen21_autoencoder, kn_wan_autoencoder, kn_flux_autoencoder;

#endif
