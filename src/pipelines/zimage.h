/* The Z-Image pipeline, for the registry. */
#ifndef KN_PIPELINES_ZIMAGE_H
#define KN_PIPELINES_ZIMAGE_H

#include "pipelines/pipeline.h"

extern const kn_slot kn_zimage_diffusion_slot, kn_zimage_text_slot;
extern const kn_stages kn_zimage_stages;

#endif
