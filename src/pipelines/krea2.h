/* The Krea 2 pipeline, for the registry. */
#ifndef KN_PIPELINES_KREA2_H
#define KN_PIPELINES_KREA2_H

#include "pipelines/pipeline.h"

extern const kn_slot kn_krea2_diffusion_slot, kn_krea2_text_slot;
extern const kn_stages kn_krea2_stages;

#endif
