"""Names, types and shapes of every tensor of the full-size models (no values)."""

import json
import os

import krea2
import torch
import vae
import z_image
from fp8 import conf, linear_layers


def entries(state, dtype="BF16"):
    return {key: [dtype, list(value.shape)] for key, value in state.items()}


def scaled(table, layers, byte_tensors):
    """The same file with scaled FP8 layers; returns (table, header metadata or None)."""
    out, metadata = {}, None
    for key, (dtype, shape) in table.items():
        layer = key[: -len(".weight")] if key.endswith(".weight") else None
        if layer in layers:
            out[key] = ["F8_E4M3", shape]
            out[layer + ".weight_scale"] = ["F32", []]
            if byte_tensors:
                out[layer + ".comfy_quant"] = ["U8", [len(json.dumps(conf(False)))]]
        else:
            out[key] = [dtype, shape]
    if not byte_tensors:
        metadata = {"_quantization_metadata": json.dumps({"layers": {name: conf(False) for name in sorted(layers)}})}
    return out, metadata


def text_model(prefix):
    width, heads, kv_heads, head_dim, mlp = 2560, 32, 8, 128, 9728
    out = {prefix + "embed_tokens.weight": ["BF16", [151936, width]], prefix + "norm.weight": ["BF16", [width]]}
    for n in range(36):
        p = f"{prefix}layers.{n}."
        for leaf, shape in (
            ("input_layernorm", [width]),
            ("post_attention_layernorm", [width]),
            ("self_attn.q_proj", [heads * head_dim, width]),
            ("self_attn.k_proj", [kv_heads * head_dim, width]),
            ("self_attn.v_proj", [kv_heads * head_dim, width]),
            ("self_attn.o_proj", [width, heads * head_dim]),
            ("self_attn.q_norm", [head_dim]),
            ("self_attn.k_norm", [head_dim]),
            ("mlp.gate_proj", [mlp, width]),
            ("mlp.up_proj", [mlp, width]),
            ("mlp.down_proj", [width, mlp]),
        ):
            out[f"{p}{leaf}.weight"] = ["BF16", shape]
    return out


def main(seed, out):
    from diffusers import AutoencoderKL, AutoencoderKLQwenImage, Krea2Transformer2DModel, ZImageTransformer2DModel

    files = {}
    with torch.device("meta"):
        state = Krea2Transformer2DModel().state_dict()
        original = krea2.to_original(state)
        files["krea2_bf16"] = entries(original), None
        files["krea2_diffusers"] = entries(state), None
        groups = ["blocks.", "txtfusion.layerwise_blocks.", "txtfusion.refiner_blocks."]
        files["krea2_fp8_scaled"] = scaled(entries(original), linear_layers(original, groups, krea2.FP8_ENDS), False)
        state = ZImageTransformer2DModel(axes_lens=[1536, 512, 512]).state_dict()
        files["z_image_bf16"] = entries(z_image.to_original(state)), None
        files["z_image_diffusers"] = entries(state), None
        state = AutoencoderKLQwenImage().state_dict()
        files["qwen_image_vae"] = entries(vae.qwen_vae_to_original(state)), None
        files["qwen_image_vae_diffusers"] = entries(state), None
        levels = 4
        state = AutoencoderKL(
            in_channels=3,
            out_channels=3,
            down_block_types=["DownEncoderBlock2D"] * levels,
            up_block_types=["UpDecoderBlock2D"] * levels,
            block_out_channels=[128, 256, 512, 512],
            layers_per_block=2,
            latent_channels=16,
            norm_num_groups=32,
            use_quant_conv=False,
            use_post_quant_conv=False,
        ).state_dict()
        files["flux_ae"] = entries(vae.flux_vae_to_original(state)), None
        files["flux_ae_diffusers"] = entries(state), None
    files["qwen3_4b"] = text_model("model."), None
    files["qwen3vl_4b_text_repository"] = text_model("model.language_model."), None
    table = text_model("model.")
    layers = {k[: -len(".weight")] for k in table if k.split(".")[-2] in krea2.TE_FP8_ENDS}
    files["qwen3vl_4b_text_fp8_scaled"] = scaled(table, layers, True)
    folder = os.path.join(out, "manifests")
    os.makedirs(folder, exist_ok=True)
    for name, (table, metadata) in files.items():
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as f:
            lines = ",\n".join(json.dumps(k) + ":" + json.dumps(table[k], separators=(",", ":")) for k in sorted(table))
            head = "" if metadata is None else '"__metadata__":' + json.dumps(metadata, separators=(",", ":")) + ",\n"
            f.write("{" + head + lines + "}\n")
