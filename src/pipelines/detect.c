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
    { { KN_ROLE_DIFFUSION, "krea2", "a Krea 2 diffusion model" },
      "text_fusion.projector.weight",
      "transformer_blocks.0.attn.to_gate.weight",
      0 },
    { { KN_ROLE_DIFFUSION, "lumina2", "a Lumina 2 diffusion model" },
      "cap_embedder.1.weight",
      "noise_refiner.0.attention.q_norm.weight",
      2304 },
    { { KN_ROLE_DIFFUSION, "z-image", "a Z-Image diffusion model" },
      "context_refiner.0.attention.q_norm.weight",
      "noise_refiner.0.attention.q_norm.weight",
      0 },
    { { KN_ROLE_DIFFUSION, "z-image", "a Z-Image diffusion model" },
      "context_refiner.0.attention.norm_q.weight",
      "noise_refiner.0.attention.norm_q.weight",
      0 },
    { { KN_ROLE_TEXT_ENCODER, "qwen3", "a Qwen3 or Qwen3-VL text encoder" },
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
    { { KN_ROLE_VISION, "qwen2.5-vl-vision", "a Qwen2.5-VL vision encoder" },
      "patch_embed.proj.weight",
      "merger.ln_q.weight",
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
    { { KN_ROLE_UPSCALER, "rrdb", "an RRDBNet (ESRGAN) upscaler" },
      "model.1.sub.0.RDB1.conv1.0.weight",
      "model.0.weight",
      0 },
    { { KN_ROLE_UPSCALER, "rrdb", "an RRDBNet (ESRGAN) upscaler" },
      "body.0.rdb1.conv1.weight",
      "conv_first.weight",
      0 },
    { { KN_ROLE_UPSCALER, "rrdb", "an RRDBNet (ESRGAN) upscaler" },
      "RRDB_trunk.0.RDB1.conv1.weight",
      "conv_first.weight",
      0 },
    { { KN_ROLE_UPSCALER, "mosr", "a MoSR upscaler" }, "gblocks.1.fc1.weight", "shortcut.conv11.weight", 0 },
    { { KN_ROLE_UPSCALER, "srvgg", "a compact (SRVGG) upscaler" }, "body.0.weight", "body.1.weight", 3 },
};

static const kn_kind lora = { KN_ROLE_OTHER, "lora", "a LoRA" };
static const kn_kind qwen3_vl = { KN_ROLE_TEXT_ENCODER, "qwen3-vl", "a Qwen3-VL text encoder" };

static bool is_lora(const kn_weights *w) {
    for (size_t i = 0; i < kn_weights_count(w) && i < 64; i++) {
        const char *name = kn_weights_at(w, i)->name;
        if (strstr(name, ".lora_A.") || strstr(name, ".lora_up.") || strstr(name, ".lora_down."))
            return true;
    }
    return false;
}

/* Qwen3 and Qwen3-VL have the same text tensors; what a GGUF file calls itself tells, or the vision tower beside them.
 */
static bool is_qwen3_vl(const kn_weights *w) {
    const char *gguf = kn_weights_metadata(w, "general.architecture");
    char prefix[KN_PREFIX_MAX];
    return gguf ? strcmp(gguf, "qwen3vl") == 0
                : kn_weights_prefix_of(w, "visual.deepstack_merger_list.0.norm.weight", prefix, sizeof prefix);
}

/* Where a network stands in a file twice, the smoothed weights are the ones to use. */
static bool find_prefix(const struct rule *r, const kn_weights *w, char *prefix) {
    static const char smoothed[] = "params_ema.";
    if (r->kind.role != KN_ROLE_UPSCALER || !kn_weights_find_below(w, smoothed, r->leaf))
        return kn_weights_prefix_of(w, r->leaf, prefix, KN_PREFIX_MAX);
    memcpy(prefix, smoothed, sizeof smoothed);
    return true;
}

static bool holds(const struct rule *r, const kn_weights *w, char *prefix) {
    if (!find_prefix(r, w, prefix))
        return false;
    const kn_entry *first = kn_weights_find_below(w, prefix, r->leaf);
    bool fits = r->dim1 == 0 || (first->rank > 1 && first->dim[1] == r->dim1);
    return fits && kn_weights_find_below(w, prefix, r->also);
}

/* What a rule that holds says about this file. */
static const kn_kind *kind_of(const struct rule *r, const kn_weights *w) {
    return strcmp(r->kind.id, "qwen3") == 0 && is_qwen3_vl(w) ? &qwen3_vl : &r->kind;
}

const kn_kind *kn_detect_role(const kn_weights *w, kn_role role, char *prefix) {
    for (size_t i = 0; i < KN_COUNT(rules); i++)
        if (role == rules[i].kind.role && holds(&rules[i], w, prefix))
            return kind_of(&rules[i], w);
    prefix[0] = 0;
    return NULL;
}

const kn_kind *kn_detect(const kn_weights *w, char *prefix) {
    prefix[0] = 0;
    const kn_kind *kind = is_lora(w) ? &lora : NULL;
    for (kn_role role = KN_ROLE_DIFFUSION; role < KN_ROLE_OTHER && !kind; role++)
        kind = kn_detect_role(w, role, prefix);
    return kind;
}

/* What may be Qwen3-VL is taken for it: its text model differs from Qwen3's in a number that no file has. */
static bool may_be(const kn_kind *kind, const char *id) {
    return strcmp(kind->id, id) == 0 || (strcmp(kind->id, "qwen3") == 0 && strcmp(id, qwen3_vl.id) == 0);
}

const kn_kind *kn_detect_as(const kn_weights *w, const char *id, char *prefix) {
    size_t i = 0;
    while (i < KN_COUNT(rules) && !may_be(&rules[i].kind, id))
        i++;
    const kn_kind *kind = i < KN_COUNT(rules) ? kn_detect_role(w, rules[i].kind.role, prefix) : NULL;
    if (kind && may_be(kind, id))
        return kind;
    prefix[0] = 0;
    return NULL;
}

const char *const kn_sections[] = {
    "model.diffusion_model.", "text_encoders.", "vae.", "params_ema.", "params.", NULL
};

const char *kn_section_of(const char *prefix) {
    for (int i = 0; kn_sections[i]; i++)
        if (strncmp(prefix, kn_sections[i], strlen(kn_sections[i])) == 0)
            return kn_sections[i];
    return "";
}
