/* The Qwen-Image 2.1 pipeline, for the registry. */
#ifndef KN_PIPELINES_QWEN_IMAGE21_H
#define KN_PIPELINES_QWEN_IMAGE21_H

#include "pipelines/pipeline.h"

extern const kn_slot kn_qwen21_diffusion_slot, kn_qwen21_text_slot, kn_qwen21_vision_slot;
extern const kn_stages kn_qwen21_stages;

#endif
