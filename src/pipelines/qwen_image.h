/* The pipeline of Qwen-Image up to 2512, for the registry. */
#ifndef KN_PIPELINES_QWEN_IMAGE_H
#define KN_PIPELINES_QWEN_IMAGE_H

#include "pipelines/pipeline.h"

extern const kn_slot kn_qwen_image_diffusion_slot, kn_qwen_image_text_slot, kn_qwen_image_vision_slot;
extern const kn_stages kn_qwen_image_stages;

#endif
