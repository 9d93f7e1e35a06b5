#include "pipelines/detect.h"

#include <string.h>

/* A rule holds when both leaves exist behind one common prefix, and dimension 1 of the first one is as asked (0: any).
 */
struct rule {
    kn_kind kind;
    const char *leaf, *also;
    uint64_t dim1;
};

/* The first rule that holds wins: what has more of its own comes first. */
static const struct rule rules[] = {
    { { KN_ROLE_DIFFUSION, "qwen-image-2.1", "a Qwen-Image 2.1 diffusion model" },
      "txt_in.text_norm.weight",
      "transformer_blocks.0.attn.to_q.weight",
      0 },
    { { KN_ROLE_DIFFUSION, "qwen-image", "a Qwen-Image (2512 or earlier) diffusion model" },
      "transformer_blocks.0.attn.add_q_proj.weight",
      "txt_norm.weight",
      0 },
    { { KN_ROLE_DIFFUSION, "krea2", "a Krea 2 diffusion model" },
      "txtfusion.projector.weight",
      "blocks.0.attn.wq.weight",
      0 },
    { { KN_ROLE_DIFFUSION, "z-image", "a Z-Image diffusion model" },
      "context_refiner.0.attention.q_norm.weight",
      "noise_refiner.0.attention.q_norm.weight",
      0 },
    { { KN_ROLE_DIFFUSION, "z-image", "a Z-Image diffusion model" },
      "context_refiner.0.attention.norm_q.weight",
      "noise_refiner.0.attention.norm_q.weight",
      0 },
    { { KN_ROLE_TEXT_ENCODER, "qwen3-vl", "a Qwen3-VL text encoder" },
      "layers.0.self_attn.q_norm.weight",
      "embed_tokens.weight",
      0 },
    { { KN_ROLE_TEXT_ENCODER, "qwen2.5-vl", "a Qwen2.5-VL text encoder" },
      "layers.0.self_attn.q_proj.bias",
      "embed_tokens.weight",
      0 },
    { { KN_ROLE_VISION, "qwen3-vl-vision", "a Qwen3-VL vision encoder" },
      "patch_embed.proj.weight",
      "deepstack_merger_list.0.norm.weight",
      0 },
    { { KN_ROLE_VAE, "qwen-image-2.1-vae", "a Qwen-Image 2.1 VAE" },
      "decoder.conv1.weight",
      "decoder.middle.0.residual.0.gamma",
      64 },
    { { KN_ROLE_VAE, "qwen-image-2.1-vae", "a Qwen-Image 2.1 VAE" },
      "decoder.conv_in.weight",
      "decoder.mid_block.resnets.0.norm1.gamma",
      64 },
    { { KN_ROLE_VAE, "wan2.2-vae", "a Wan 2.2 VAE" }, "decoder.conv1.weight", "decoder.middle.0.residual.0.gamma", 48 },
    { { KN_ROLE_VAE, "qwen-image-vae", "a Qwen-Image or Wan 2.1 VAE" },
      "decoder.conv1.weight",
      "decoder.middle.0.residual.0.gamma",
      16 },
    { { KN_ROLE_VAE, "qwen-image-vae", "a Qwen-Image or Wan 2.1 VAE" },
      "decoder.conv_in.weight",
      "decoder.mid_block.resnets.0.norm1.gamma",
      16 },
    { { KN_ROLE_VAE, "flux-ae", "a FLUX autoencoder" },
      "decoder.conv_in.weight",
      "decoder.mid.block_1.norm1.weight",
      16 },
    { { KN_ROLE_VAE, "flux-ae", "a FLUX autoencoder" },
      "decoder.conv_in.weight",
      "decoder.mid_block.resnets.0.norm1.weight",
      16 },
};

static const kn_kind lora = { KN_ROLE_OTHER, "lora", "a LoRA" };

static bool is_lora(const kn_weights *w) {
    for (size_t i = 0; i < kn_weights_count(w) && i < 64; i++) {
        const char *name = kn_weights_at(w, i)->name;
        if (strstr(name, ".lora_A.") || strstr(name, ".lora_up.") || strstr(name, ".lora_down."))
            return true;
    }
    return false;
}

static bool holds(const struct rule *r, const kn_weights *w, char *prefix) {
    if (!kn_weights_prefix_of(w, r->leaf, prefix, KN_PREFIX_MAX))
        return false;
    const kn_entry *first = kn_weights_find_below(w, prefix, r->leaf);
    bool fits = r->dim1 == 0 || (first->rank > 1 && first->dim[1] == r->dim1);
    return fits && kn_weights_find_below(w, prefix, r->also);
}

const kn_kind *kn_detect(const kn_weights *w, char *prefix) {
    prefix[0] = 0;
    if (is_lora(w))
        return &lora;
    for (size_t i = 0; i < KN_COUNT(rules); i++)
        if (holds(&rules[i], w, prefix))
            return &rules[i].kind;
    prefix[0] = 0;
    return NULL;
}

bool kn_detect_as(const kn_weights *w, const char *id, char *prefix) {
    for (size_t i = 0; i < KN_COUNT(rules); i++)
        if (strcmp(rules[i].kind.id, id) == 0 && holds(&rules[i], w, prefix))
            return true;
    prefix[0] = 0;
    return false;
}
