"""The Qwen-Image 2.1 VAE (64 channels, x16, RGBA), tiny widths, float32."""

import os

import numpy as np
import torch
from diffusers import AutoencoderKLQwenImage21
from qwen_common import case, picture, randomise, taps, tensors, vae21_to_comfy

SIZES = [dict(base_dim=4, decoder_base_dim=6), dict(base_dim=8, decoder_base_dim=4)]


def build(seed, variant):
    model = AutoencoderKLQwenImage21(**SIZES[variant])
    return randomise(model, seed, gain=1.6), dict(
        SIZES[variant],
        z_dim=64,
        dim_mult=[1, 2, 4, 8, 8],
        num_res_blocks=2,
        temporal_downsample=[False, True, True, True],
        in_channels=4,
        out_channels=4,
    )


def main(seed, out, variant):
    root = f"{out}/qwen21-vae"
    model, config = build(seed, variant)
    gen = torch.Generator().manual_seed(seed + 1000)
    state = model.state_dict()
    tensors(f"{root}/weights.safetensors", vae21_to_comfy(state), torch.bfloat16)
    tensors(f"{root}/weights-diffusers.safetensors", state, torch.bfloat16)
    mean = torch.tensor(model.config.latents_mean).view(1, 64, 1, 1, 1)
    std = torch.tensor(model.config.latents_std).view(1, 64, 1, 1, 1)

    width, height = ((96, 64), (64, 80))[variant]
    image = picture(width, height, seed, "RGBA")
    folder = f"{root}/encode"
    os.makedirs(folder, exist_ok=True)
    image.save(f"{folder}/image.png")
    x = torch.from_numpy(np.array(image)).float().permute(2, 0, 1)[None, :, None] / 255 * 2 - 1
    enc = model.encoder
    modules = {"conv_in": enc.conv_in, "mid_block": enc.mid_block, "conv_out": enc.conv_out}
    modules.update({f"down{i}": b for i, b in enumerate(enc.down_blocks)})
    modules.update({f"down{i}.avg_shortcut": b.avg_shortcut for i, b in enumerate(enc.down_blocks)})
    found, handles = taps(modules)
    latent = model.encode(x).latent_dist.mode()
    [h.remove() for h in handles]
    expected = {k: v[0, :, 0] for k, v in found.items()}
    expected.update(mean=latent[0, :, 0], normalised=((latent - mean) / std)[0, :, 0])
    tensors(f"{folder}/expected.safetensors", expected)
    case(
        folder,
        component="qwen21-vae",
        config=config,
        weights="../weights.safetensors",
        alternative_weights="../weights-diffusers.safetensors",
        input="image.png",
        note=(
            "RGBA 8-bit -> v/255*2-1 on all four channels; mean = first 64 channels of the quantisation convolution;"
            " normalised = (mean-m)/s. Tensors are [C,H,W]."
        ),
    )

    folder = f"{root}/decode"
    shape = ((64, 3, 5), (64, 5, 2))[variant]
    z = torch.randn(1, 64, 1, *shape[1:], generator=gen)
    dec = model.decoder
    modules = {"conv_in": dec.conv_in, "mid_block": dec.mid_block, "head": dec.conv_out}
    modules.update({f"up{i}": b for i, b in enumerate(dec.up_blocks)})
    found, handles = taps(modules)
    out = model.decode(z * std + mean).sample
    [h.remove() for h in handles]
    expected = {k: v[0, :, 0] for k, v in found.items()}
    expected["image"] = out[0, :, 0]
    from diffusers.image_processor import VaeImageProcessor

    os.makedirs(folder, exist_ok=True)
    VaeImageProcessor(vae_scale_factor=16).postprocess(out[:, :, 0], output_type="pil")[0].save(f"{folder}/image.png")
    tensors(f"{folder}/inputs.safetensors", {"normalised": z[0, :, 0]})
    tensors(f"{folder}/expected.safetensors", expected)
    case(
        folder,
        component="qwen21-vae",
        config=config,
        weights="../weights.safetensors",
        alternative_weights="../weights-diffusers.safetensors",
        inputs="inputs.safetensors",
        tolerance={"rel_l2": 1e-4, "png_max_abs": 1, "png_mismatch_fraction": 0.002},
        note="z = normalised*s+m; head is before the clamp to [-1,1]; image.png is round((x/2+0.5)*255) RGBA.",
    )
    folder = f"{root}/decode-tiled"
    tile, stride, shape = ((96, 64, (9, 7)), (80, 48, (7, 8)))[variant]
    z = torch.randn(1, 64, 1, *shape, generator=gen)
    whole = model.decode(z * std + mean).sample
    model.enable_tiling(tile, tile, stride, stride)
    tiled = model.decode(z * std + mean).sample
    tensors(f"{folder}/inputs.safetensors", {"normalised": z[0, :, 0]})
    tensors(f"{folder}/expected.safetensors", {"image": tiled[0, :, 0], "image_untiled": whole[0, :, 0]})
    case(
        folder,
        component="qwen21-vae",
        config=config,
        weights="../weights.safetensors",
        inputs="inputs.safetensors",
        tile_pixels=tile,
        stride_pixels=stride,
        note=(
            "Overlapping tiles (16 pixels per latent), blended linearly over tile - stride pixels, clipped at the"
            " border."
        ),
    )

    folder = f"{root}/encode-tiled"
    width, height = ((160, 112), (112, 144))[variant]
    image = picture(width, height, seed + 1, "RGBA")
    os.makedirs(folder, exist_ok=True)
    image.save(f"{folder}/image.png")
    x = torch.from_numpy(np.array(image)).float().permute(2, 0, 1)[None, :, None] / 255 * 2 - 1
    latent = model.encode(x).latent_dist.mode()
    tensors(f"{folder}/expected.safetensors", {"normalised": ((latent - mean) / std)[0, :, 0]})
    case(
        folder,
        component="qwen21-vae",
        config=config,
        weights="../weights.safetensors",
        input="image.png",
        tile_pixels=tile,
        stride_pixels=stride,
        note="As encode, in overlapping tiles as in decode-tiled.",
    )
