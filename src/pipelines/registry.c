#include "pipelines/registry.h"

#include <string.h>

#include "base/compiler.h"
#include "models/qwen_image21.h"
#include "pipelines/job.h"
#include "pipelines/krea2.h"
#include "pipelines/qwen_image.h"
#include "pipelines/qwen_image21.h"
#include "pipelines/vaes.h"
#include "pipelines/zimage.h"

static const kn_variant qwen21_variants[] = {
    { .name = "base",
      .steps = 40,
      .cfg = 1,
      .width = 1024,
      .height = 1024,
      .flow = KN_FLOW_QWEN_IMAGE_21,
      .max_references = KN_QWEN21_MAX_REFERENCES },
    { .name = "turbo",
      .steps = 8,
      .cfg = 1,
      .width = 1024,
      .height = 1024,
      .flow = KN_FLOW_QWEN_IMAGE_21_TURBO,
      .max_references = KN_QWEN21_MAX_REFERENCES,
      .why_fixed = "Turbo was distilled for exactly its own 8 steps without guidance" },
};

static const kn_variant zimage_variants[] = {
    { .name = "turbo", .steps = 8, .cfg = 1, .width = 1024, .height = 1024, .flow = KN_FLOW_Z_IMAGE_TURBO },
    { .name = "base", .steps = 50, .cfg = 5, .width = 1024, .height = 1024, .flow = KN_FLOW_Z_IMAGE_BASE },
};

static const kn_variant krea2_variants[] = {
    { .name = "raw", .steps = 52, .cfg = 3.5, .width = 1024, .height = 1024, .flow = KN_FLOW_KREA2_RAW },
    { .name = "turbo", .steps = 8, .cfg = 0, .width = 1024, .height = 1024, .flow = KN_FLOW_KREA2_TURBO },
};

/* The published settings; the same weights, guided as ComfyUI does and as diffusers does, and weights that were trained
 * to edit one to three pictures (Qwen-Image-Edit 2509). */
static const kn_variant qwen_image_variants[] = {
    { .name = "base", .steps = 50, .cfg = 4, .width = 1328, .height = 1328, .flow = KN_FLOW_QWEN_IMAGE_2512 },
    { .name = "rescaled",
      .steps = 50,
      .cfg = 4,
      .width = 1328,
      .height = 1328,
      .flow = KN_FLOW_QWEN_IMAGE_2512,
      .rescaled_guidance = true },
    { .name = "edit",
      .steps = 40,
      .cfg = 4,
      .width = 1024,
      .height = 1024,
      .flow = KN_FLOW_QWEN_IMAGE_2512,
      .rescaled_guidance = true,
      .max_references = 3 },
};

const kn_architecture kn_architectures[] = {
    { .name = "qwen-image-2.1",
      .title = "Qwen-Image 2.1",
      .variants = qwen21_variants,
      .variant_count = KN_COUNT(qwen21_variants),
      .size_step = 16,
      .max_side = 4096,
      .takes_init_image = true,
      .region_by_reference = true,
      .diffusion_model = &kn_qwen21_diffusion_slot,
      .text_encoder = &kn_qwen21_text_slot,
      .vae = &kn_qwen21_vae_slot,
      .vision = &kn_qwen21_vision_slot,
      .stages = &kn_qwen21_stages },
    { .name = "z-image",
      .title = "Z-Image",
      .variants = zimage_variants,
      .variant_count = KN_COUNT(zimage_variants),
      .size_step = 16,
      .max_side = 8192, /* 512 patches of 16 pixels: as far as positions were trained */
      .checkpoint_in_one = true,
      .takes_init_image = true,
      .diffusion_model = &kn_zimage_diffusion_slot,
      .text_encoder = &kn_zimage_text_slot,
      .vae = &kn_flux_vae_slot,
      .stages = &kn_zimage_stages },
    { .name = "krea2",
      .title = "Krea 2",
      .variants = krea2_variants,
      .variant_count = KN_COUNT(krea2_variants),
      .size_step = 16,
      .max_side = 4096,
      .takes_init_image = true,
      .added_guidance = true,
      .diffusion_model = &kn_krea2_diffusion_slot,
      .text_encoder = &kn_krea2_text_slot,
      .vae = &kn_wan_vae_slot,
      .stages = &kn_krea2_stages },
    { .name = "qwen-image",
      .title = "Qwen-Image",
      .variants = qwen_image_variants,
      .variant_count = KN_COUNT(qwen_image_variants),
      .size_step = 16,
      .max_side = 4096,
      .checkpoint_in_one = true,
      .takes_init_image = true,
      .start_rule = KN_START_COMFYUI,
      .diffusion_model = &kn_qwen_image_diffusion_slot,
      .text_encoder = &kn_qwen_image_text_slot,
      .vae = &kn_wan_vae_slot,
      .vision = &kn_qwen_image_vision_slot,
      .stages = &kn_qwen_image_stages },
};
const size_t kn_architecture_count = KN_COUNT(kn_architectures);

int kn_architecture_cell(const kn_architecture *a) {
    return a->stages->vae->factor;
}

const kn_architecture *kn_architecture_find(const char *name) {
    for (size_t i = 0; i < kn_architecture_count; i++)
        if (strcmp(kn_architectures[i].name, name) == 0)
            return &kn_architectures[i];
    return NULL;
}

const kn_variant *kn_variant_find(const kn_architecture *a, const char *name) {
    for (size_t i = 0; i < a->variant_count; i++)
        if (strcmp(a->variants[i].name, name) == 0)
            return &a->variants[i];
    return NULL;
}
