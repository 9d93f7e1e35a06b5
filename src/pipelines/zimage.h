/* The Z-Image pipeline, for the registry. */
#ifndef KN_PIPELINES_ZIMAGE_H
#define KN_PIPELINES_ZIMAGE_H

#include "pipelines/pipeline.h"

extern const kn_slot kn_zimage_diffusion_slot, kn_zimage_text_slot, kn_zimage_vae_slot;
kn_pipeline_open_fn kn_zimage_pipeline_open;

#endif
