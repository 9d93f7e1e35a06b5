"""Write the three model files with the single-file (ComfyUI) tensor names, in BF16 and optionally scaled FP8.

export.py WORK OUT      reads WORK/{vae.pt or vae_refined.pt, latents.pt, diffusion.pt}
"""
import json
import os
import re
import sys

import torch
from diffusers import AutoencoderKLQwenImage21
from safetensors.torch import save_file

import vae
from train_diffusion import FP8_IMAGE, FP8_TEXT


def standard_vae(state, mean, std):
    """The trained autoencoder in the standard shape: two residual blocks per stage (the added ones are identities) and the
    standard latent mean and deviation (folded into the two 1x1 convolutions next to the latent)."""
    ref = AutoencoderKLQwenImage21(**{**vae.CONFIG, "num_res_blocks": 2})
    out = ref.state_dict()
    for k in out:
        if k in state:
            out[k] = state[k].clone()
        elif "time_conv" in k or k.endswith(("conv2.weight", "conv2.bias")):
            out[k] = torch.zeros_like(out[k])
    m, s = (torch.tensor(ref.config[k]) for k in ("latents_mean", "latents_std"))
    scale = s / std                                          # standard = (trained - mean) * scale + m
    w, b = out["quant_conv.weight"], out["quant_conv.bias"]
    w[:64] *= scale.view(-1, 1, 1, 1)
    b[:64] = (b[:64] - mean) * scale + m
    b[64:] += 2 * scale.log()
    w, b = out["post_quant_conv.weight"], out["post_quant_conv.bias"]
    b += (w[:, :, 0, 0] * (mean - m / scale)).sum(1)
    w /= scale.view(1, -1, 1, 1)
    return out


def wan_names(state):
    """diffusers names -> Wan layout; causal convolutions get their temporal axis of length one back."""
    out = {}
    for k, v in state.items():
        causal = v.ndim == 4 and "resample" not in k and "to_qkv" not in k and "proj" not in k and "gamma" not in k
        k = re.sub(r"^quant_conv", "conv1", k)
        k = re.sub(r"^post_quant_conv", "conv2", k)
        k = k.replace("conv_in.", "conv1.").replace("norm_out.", "head.0.").replace("conv_out.", "head.2.")
        k = k.replace("mid_block.resnets.0", "middle.0").replace("mid_block.attentions.0", "middle.1").replace("mid_block.resnets.1", "middle.2")
        k = re.sub(r"down_blocks\.(\d)\.resnets\.(\d)", r"downsamples.\1.downsamples.\2", k)
        k = re.sub(r"up_blocks\.(\d)\.resnets\.(\d)", r"upsamples.\1.upsamples.\2", k)
        k = re.sub(r"down_blocks\.(\d)\.downsampler", r"downsamples.\1.downsamples.2", k)
        k = re.sub(r"up_blocks\.(\d)\.upsampler", r"upsamples.\1.upsamples.3", k)
        k = k.replace("norm1.", "residual.0.").replace("conv1.", "residual.2.") if "samples" in k or "middle" in k else k
        k = k.replace("norm2.", "residual.3.").replace("conv2.", "residual.6.") if "samples" in k or "middle" in k else k
        k = k.replace("conv_shortcut", "shortcut")
        out[k] = (v.unsqueeze(2) if causal else v).contiguous()
    return out


def fp8(state, pattern):
    """Scaled FP8 for the matrices whose name matches; everything else stays BF16."""
    out = {}
    for k, v in state.items():
        if not re.search(pattern, k):
            out[k] = v.bfloat16()
            continue
        scale = v.float().abs().max() / 448
        out[k] = (v.float() / scale).to(torch.float8_e4m3fn)
        out[k + "_scale"] = scale
        out[k.replace(".weight", ".comfy_quant")] = torch.tensor(list(json.dumps({"format": "float8_e4m3fn"}).encode()), dtype=torch.uint8)
    return out


def main(work, out):
    trained, lat = torch.load(f"{work}/diffusion.pt"), torch.load(f"{work}/latents.pt")
    image = {k[6:]: v.contiguous() for k, v in trained.items() if k.startswith("image.")}
    text = {"model." + k[5:]: v.contiguous() for k, v in trained.items() if k.startswith("text.")}
    refined = f"{work}/vae_refined.pt"
    coder = wan_names(standard_vae(torch.load(refined if os.path.exists(refined) else f"{work}/vae.pt"), lat["mean"], lat["std"]))
    half = lambda s: {k: v.bfloat16() for k, v in s.items()}
    save_file(half(image), f"{out}/diffusion_model.safetensors")
    save_file(half(text), f"{out}/text_encoder.safetensors")
    save_file(half(coder), f"{out}/vae.safetensors")
    save_file(fp8(image, FP8_IMAGE), f"{out}/diffusion_model_fp8_scaled.safetensors")
    save_file(fp8(text, FP8_TEXT), f"{out}/text_encoder_fp8_scaled.safetensors")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
