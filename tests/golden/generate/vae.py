"""Tiny Qwen-Image (Wan) and FLUX autoencoders, with conversion to the original key names."""

import os

import torch
from common import Taps, case, randomize, save

MEAN = [-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
        0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921]  # fmt: skip
STD = [2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
       3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160]  # fmt: skip
FLUX_SCALE, FLUX_SHIFT = 0.3611, 0.1159


def calm(model, heads):
    """Scale output convolutions so that decoded pixels mostly stay inside [-1, 1]."""
    from common import as_bf16

    for conv, factor in heads:
        conv.weight.data.copy_(as_bf16(conv.weight * factor))
    return model


# ---------------------------------------------------------------- Qwen-Image VAE
def build_qwen_vae(dice, base_dim):
    from diffusers import AutoencoderKLQwenImage

    model = AutoencoderKLQwenImage(
        base_dim=base_dim,
        z_dim=16,
        dim_mult=[1, 2, 4, 4],
        num_res_blocks=2,
        attn_scales=[],
        temperal_downsample=[False, True, True],
        dropout=0.0,
        latents_mean=MEAN,
        latents_std=STD,
    )
    randomize(model, dice)
    return calm(model, [(model.decoder.conv_out, 0.35)])


def qwen_vae_to_original(state):
    """diffusers names -> the names of the original Wan 2.1 / Qwen-Image single file."""
    resnet = {"norm1": "residual.0", "conv1": "residual.2", "norm2": "residual.3", "conv2": "residual.6",
              "conv_shortcut": "shortcut"}  # fmt: skip
    out = {}
    for key, value in state.items():
        p = key.split(".")
        if p[0] == "quant_conv":
            p[0] = "conv1"
        elif p[0] == "post_quant_conv":
            p[0] = "conv2"
        elif p[1] == "conv_in":
            p[1] = "conv1"
        elif p[1] == "norm_out":
            p[1] = "head.0"
        elif p[1] == "conv_out":
            p[1] = "head.2"
        elif p[1] == "mid_block":
            index = int(p[3]) * 2 if p[2] == "resnets" else 1
            rest = [resnet.get(p[4], p[4])] + p[5:]
            p = [p[0], "middle", str(index)] + rest
        elif p[1] == "down_blocks":
            p = [p[0], "downsamples", p[2], resnet.get(p[3], p[3])] + p[4:]
        elif p[1] == "up_blocks":
            if p[3] == "resnets":
                index = int(p[2]) * 4 + int(p[4])
                p = [p[0], "upsamples", str(index), resnet.get(p[5], p[5])] + p[6:]
            else:
                p = [p[0], "upsamples", str(int(p[2]) * 4 + 3)] + p[5:]
        else:
            raise KeyError(key)
        out[".".join(p)] = value
    return out


def qwen_denormalize(latent):
    mean = torch.tensor(MEAN).view(1, 16, 1, 1)
    std = torch.tensor(STD).view(1, 16, 1, 1)
    return latent * std + mean


def qwen_normalize(latent):
    mean = torch.tensor(MEAN).view(1, 16, 1, 1)
    std = torch.tensor(STD).view(1, 16, 1, 1)
    return (latent - mean) / std


def qwen_decode(model, latent):
    """latent: normalized [1, 16, h, w] -> image [3, 8h, 8w], not clamped."""
    z = qwen_denormalize(latent).unsqueeze(2)
    model.clear_cache()
    x = model.post_quant_conv(z)
    feat, idx = [None] * 64, [0]
    return model.decoder(x, feat_cache=feat, feat_idx=idx)[0, :, 0]


def qwen_encode_moments(model, image):
    """image [1, 3, H, W] -> the 32 channels of quant_conv (16 means, then 16 log-variances)."""
    return model.encode(image.unsqueeze(2)).latent_dist.parameters[:, :, 0]


# ---------------------------------------------------------------- FLUX autoencoder
def build_flux_vae(dice, channels):
    from diffusers import AutoencoderKL

    n = len(channels)
    model = AutoencoderKL(
        in_channels=3,
        out_channels=3,
        down_block_types=["DownEncoderBlock2D"] * n,
        up_block_types=["UpDecoderBlock2D"] * n,
        block_out_channels=channels,
        layers_per_block=2,
        latent_channels=16,
        norm_num_groups=32,
        scaling_factor=FLUX_SCALE,
        shift_factor=FLUX_SHIFT,
        use_quant_conv=False,
        use_post_quant_conv=False,
        mid_block_add_attention=True,
        force_upcast=True,
    )
    randomize(model, dice)
    return calm(model, [(model.decoder.conv_out, 0.35)])


def flux_vae_to_original(state, levels=4):
    """diffusers names -> the names of FLUX's ae.safetensors (decoder levels count from the output side)."""
    attention = {"to_q": "q", "to_k": "k", "to_v": "v", "group_norm": "norm"}
    out = {}
    for key, value in state.items():
        p = key.split(".")
        if p[1] == "conv_norm_out":
            p[1] = "norm_out"
        elif p[1] == "mid_block":
            if p[2] == "resnets":
                p = [p[0], "mid", f"block_{int(p[3]) + 1}"] + p[4:]
            else:
                name = "proj_out" if p[4] == "to_out" else attention[p[4]]
                p = [p[0], "mid", "attn_1", name, p[-1]]
                if value.ndim == 2:
                    value = value[:, :, None, None]
        elif p[1] == "down_blocks":
            if p[3] == "resnets":
                p = [p[0], "down", p[2], "block", p[4]] + p[5:]
            else:
                p = [p[0], "down", p[2], "downsample"] + p[5:]
        elif p[1] == "up_blocks":
            level = str(levels - 1 - int(p[2]))
            if p[3] == "resnets":
                p = [p[0], "up", level, "block", p[4]] + p[5:]
            else:
                p = [p[0], "up", level, "upsample"] + p[5:]
        name = ".".join(p).replace("conv_shortcut", "nin_shortcut")
        out[name] = value
    return out


def flux_decode(model, latent):
    return model.decode(latent / FLUX_SCALE + FLUX_SHIFT).sample[0]


def flux_encode_moments(model, image):
    return model.encode(image).latent_dist.parameters


# ---------------------------------------------------------------- fixtures
def smooth_image(dice, height, width):
    small = torch.rand(1, 3, max(2, height // 8), max(2, width // 8), generator=dice.gen) * 2 - 1
    image = torch.nn.functional.interpolate(small, size=(height, width), mode="bilinear", align_corners=False)
    return (image + dice.normal(1, 3, height, width, std=0.1)).clamp(-1, 1)


def fixtures(folder, model, kind, weights, config, dice):
    io, entries = {}, []
    for n in range(2):
        h, w = dice.pick([2, 3]), dice.pick([3, 4])
        latent = dice.normal(1, 16, h, w)
        image = smooth_image(dice, h * 8, w * 8)
        taps = Taps()
        decoder, encoder = model.decoder, model.encoder
        taps.add(decoder.conv_in, "decoder.conv_in")
        taps.add(decoder.mid_block.resnets[0], "decoder.mid.resnet0")
        taps.add(decoder.mid_block.attentions[0], "decoder.mid.attn")
        taps.add(decoder.mid_block, "decoder.mid")
        for i, block in enumerate(decoder.up_blocks if n == 0 else []):
            taps.add(block, f"decoder.up{i}")
        taps.add(encoder.conv_in, "encoder.conv_in")
        taps.add(encoder.mid_block, "encoder.mid")
        if kind == "qwen-image-vae":
            pixels = qwen_decode(model, latent)
            moments = qwen_encode_moments(model, image)
            encoded = qwen_normalize(moments[:, :16])
        else:
            pixels = flux_decode(model, latent)
            moments = flux_encode_moments(model, image)
            encoded = (moments[:, :16] - FLUX_SHIFT) * FLUX_SCALE
        values = taps.close()
        io[f"{n}.latent"] = latent[0]
        io[f"{n}.decoded"] = pixels
        io[f"{n}.image"] = image[0]
        io[f"{n}.moments"] = moments[0]
        io[f"{n}.encoded"] = encoded[0]
        for k, v in values.items():
            io[f"{n}.{k}"] = v[0, :, 0] if v.ndim == 5 else v[0]
        entries.append(
            {
                "prefix": f"{n}.",
                "decode": "latent (model space, normalized) -> decoded (pixels before clamping)",
                "encode": "image in [-1, 1] -> moments (mean | log-variance) -> encoded (mean in model space)",
            }
        )
    save(os.path.join(folder, "io.safetensors"), io)
    case(folder, kind, weights, config, entries)
