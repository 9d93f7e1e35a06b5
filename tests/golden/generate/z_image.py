"""Z-Image: tiny transformer fixtures and end-to-end cases."""

import os

import inpaint
import torch
import vae as vae_fixtures
from common import Dice, Taps, case, randomize, read_png, save, start_index, write_json, write_png
from fp8 import linear_layers, quantized_state, save_raw, with_old_names
from text_encoder import build_qwen3, encode, single_file
from tokenizer import ZIMAGE_PREFIX, ZIMAGE_SUFFIX, build_tiny, make_prompt

FP8_ENDS = {"qkv", "out", "w1", "w2", "w3"}


def build(dice, heads, layers, text_dim, refiners=2, head_dim=32):
    from diffusers import ZImageTransformer2DModel

    model = ZImageTransformer2DModel(
        all_patch_size=(2,),
        all_f_patch_size=(1,),
        in_channels=16,
        dim=heads * head_dim,
        n_layers=layers,
        n_refiner_layers=refiners,
        n_heads=heads,
        n_kv_heads=heads,
        norm_eps=1e-5,
        qk_norm=True,
        cap_feat_dim=text_dim,
        rope_theta=256.0,
        t_scale=1000.0,
        axes_dims=[head_dim // 4, head_dim * 3 // 8, head_dim * 3 // 8],
        axes_lens=[1536, 512, 512],
    )
    model.set_attention_backend("_native_math")
    return randomize(model, dice)


def to_original(state):
    """diffusers names -> ComfyUI single-file names (fused qkv, short names for the embedder and the final layer)."""
    rename = {
        "all_x_embedder.2-1.": "x_embedder.", "all_final_layer.2-1.": "final_layer.",
        "attention.to_out.0.": "attention.out.",
        "attention.norm_q.": "attention.q_norm.", "attention.norm_k.": "attention.k_norm.",
    }  # fmt: skip
    out = {}
    for key, value in state.items():
        if ".attention.to_q." in key:
            parts = [state[key.replace("to_q", f"to_{n}")] for n in "qkv"]
            out[key.replace("to_q", "qkv")] = torch.cat(parts, dim=0)
            continue
        if ".attention.to_k." in key or ".attention.to_v." in key:
            continue
        for a, b in rename.items():
            key = key.replace(a, b)
        out[key] = value
    return out


def from_original(state, like):
    """ComfyUI single-file names -> diffusers names."""
    out = {}
    for key in like:
        if any(f".attention.to_{n}." in key for n in "qkv"):
            n = "qkv".index(key.split(".attention.to_")[1][0])
            fused = state[key.split(".attention.to_")[0] + ".attention.qkv.weight"]
            out[key] = fused.chunk(3, dim=0)[n]
        else:
            (name,) = to_original({key: like[key]})
            out[key] = state[name]
    return out


def velocity(model, latent, text, sigma):
    """latent [1, 16, H, W], text [L, D], sigma in [0, 1] (1 is noise) -> velocity d latent / d sigma."""
    t = torch.tensor([(1000.0 - sigma * 1000.0) / 1000.0], dtype=torch.float32)
    out = model([latent[0].unsqueeze(1)], t, [text], return_dict=False)[0][0]
    return -out.squeeze(1)[None]


def sigmas(steps, shift):
    s = torch.linspace(1.0, 1.0 / steps, steps)
    s = shift * s / (1 + (shift - 1) * s)
    return s.tolist() + [0.0]


def condition(tok, text_model, prompt, limit=512):
    ids = tok.encode(ZIMAGE_PREFIX + prompt + ZIMAGE_SUFFIX, add_special_tokens=False).ids[:limit]
    return ids, encode(text_model, ids)[-2][0]


def trace(
    tok, text_model, dit, vae, prompt, negative, width, height, steps, cfg, shift, seed, source=None, strength=1.0,
    mask=None
):
    io = {}
    ids, text = condition(tok, text_model, prompt)
    io["ids"], io["conditioning"] = torch.tensor(ids, dtype=torch.int32), text
    if cfg > 0:
        neg_ids, neg_text = condition(tok, text_model, negative)
        io["negative_ids"], io["negative_conditioning"] = torch.tensor(neg_ids, dtype=torch.int32), neg_text
    h, w = height // 8, width // 8
    latent = torch.randn(1, 16, h, w, generator=torch.Generator("cpu").manual_seed(seed))
    io["noise"] = latent[0]
    schedule = sigmas(steps, shift)
    start = 0
    if source is not None:
        start = start_index(steps, strength)
        moments = vae_fixtures.flux_encode_moments(vae, source)
        clean = (moments[:, :16] - vae_fixtures.FLUX_SHIFT) * vae_fixtures.FLUX_SCALE
        latent = (1.0 - schedule[start]) * clean + schedule[start] * latent
        io["encoded"], io["start_latent"] = clean[0], latent[0]
    mask_latent = None if mask is None else inpaint.on_latent(mask, h, w)
    for i, (s, s_next) in list(enumerate(zip(schedule[:-1], schedule[1:])))[start:]:
        if mask is not None:
            latent = inpaint.known(latent, mask_latent, clean, io["noise"], s)
        v = velocity(dit, latent, text, s)
        if cfg > 0:
            v = v + cfg * (v - velocity(dit, latent, neg_text, s))
        if mask is not None:
            v = (latent - inpaint.known(latent - s * v, mask_latent, clean, io["noise"], 0)) / s
        else:
            io[f"step{i}.velocity"] = v[0]
        latent = latent + (s_next - s) * v
        io[f"step{i}.latent"] = latent[0]
    io["image"] = vae_fixtures.flux_decode(vae, latent)
    info = {
        "prompt": prompt, "negative_prompt": negative if cfg > 0 else None, "width": width, "height": height,
        "steps": steps,
        "cfg": cfg, "shift": shift, "sigmas": schedule, "seed": seed,
        "noise": "CPU generator, one draw of 16*h*w float32 values",
    }  # fmt: skip
    if source is not None:
        info |= {"input_image": "input.png", "strength": strength, "start_index": start}
    return io, info


def main(seed, out):
    root = os.path.join(out, "z-image")
    models = os.path.join(root, "models")
    tok = build_tiny(seed + 1, os.path.join(models, "tokenizer"))
    dice = Dice(seed, "z-image")
    rows = (tok.get_vocab_size() + 31) // 32 * 32
    te_config = {
        "vocab_size": rows, "hidden_size": 48, "num_hidden_layers": dice.pick([3, 4]), "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": dice.pick([96, 112]), "rms_norm_eps": 1e-6,
    }  # fmt: skip
    text_model = build_qwen3(dice, te_config)
    heads, layers = dice.pick([(2, 3), (3, 2)])
    dit = build(dice, heads, layers, 48)
    channels = dice.pick([[32, 32, 32, 64], [32, 32, 64, 32]])
    vae = vae_fixtures.build_flux_vae(dice, channels)

    original = to_original(dit.state_dict())
    te_state = single_file(text_model, "model.")
    vae_state = vae_fixtures.flux_vae_to_original(vae.state_dict())
    save(os.path.join(models, "z_image_turbo_bf16.safetensors"), original, torch.bfloat16)
    save(os.path.join(models, "z_image_turbo_diffusers.safetensors"), dit.state_dict(), torch.bfloat16)
    save(os.path.join(models, "qwen_3_4b.safetensors"), te_state, torch.bfloat16)
    save(os.path.join(models, "ae.safetensors"), vae_state, torch.bfloat16)
    # One file with everything, transformer in scaled FP8 with the older marking.
    layers_fp8 = linear_layers(original, ["layers.", "noise_refiner.", "context_refiner."], FP8_ENDS)
    stored, effective = quantized_state(original, layers_fp8)
    together = {"model.diffusion_model." + k: v for k, v in stored.items()}
    together["model.diffusion_model.norm_final.weight"] = torch.ones(heads * 32, dtype=torch.bfloat16)
    together, meta = with_old_names(together, layers_fp8, "model.diffusion_model.")
    together |= {"text_encoders.qwen3_4b.transformer." + k: v.to(torch.bfloat16) for k, v in te_state.items()}
    together |= {"vae." + k: v.to(torch.bfloat16) for k, v in vae_state.items()}
    save_raw(os.path.join(models, "z_image_all_in_one_fp8.safetensors"), together, meta)

    config = {
        "dim": heads * 32, "heads": heads, "kv_heads": heads, "head_dim": 32, "layers": layers, "refiner_layers": 2,
        "ffn_width": int(heads * 32 / 3 * 8), "text_dim": 48, "adaln_dim": min(heads * 32, 256), "timestep_mid": 1024,
        "rope_theta": 256.0, "rope_axes": [8, 12, 12], "norm_eps": 1e-5, "qk_norm_eps": 1e-5, "patch": 2,
        "channels": 16, "pad_multiple": 32,
    }  # fmt: skip
    write_json(
        os.path.join(models, "configs.json"),
        {
            "transformer": config,
            "text_encoder": te_config | {"rope_theta": 1e6},
            "vae": {"block_out_channels": channels},
        },
    )

    vae_config = {"block_out_channels": channels, "layers_per_block": 2, "latent_channels": 16, "norm_num_groups": 32}
    vae_fixtures.fixtures(
        os.path.join(root, "vae"), vae, "flux-vae", {"files": ["../models/ae.safetensors"]}, vae_config, dice
    )

    io, entries = {}, []
    shapes = [dice.pick([(4, 6), (6, 10)]), (8, 16), dice.pick([(12, 8), (2, 8)])]
    lengths = [dice.pick([5, 17]), 32, dice.pick([33, 40])]
    for n, ((h, w), length) in enumerate(zip(shapes, lengths)):
        sigma = dice.pick([1.0, 0.75, 0.3125, 0.0625])
        latent, text = dice.normal(1, 16, h, w), dice.normal(length, 48, std=1.5)
        text[::4] *= 0.002  # small rows make the epsilon of the norms visible
        taps = Taps()
        taps.add(dit.t_embedder, "t_embedder")
        taps.add(dit.cap_embedder, "cap_embedder")
        taps.add(dit.all_x_embedder["2-1"], "x_embedder")
        for i in range(2):
            taps.add(dit.noise_refiner[i], f"noise_refiner{i}")
            taps.add(dit.context_refiner[i], f"context_refiner{i}")
        taps.add(dit.layers[0].attention, "layer0.attention")
        taps.add(dit.layers[0].feed_forward, "layer0.feed_forward")
        for i, b in enumerate(dit.layers):
            taps.add(b, f"layer{i}")
        taps.add(dit.all_final_layer["2-1"], "final_layer")
        result = velocity(dit, latent, text, sigma)
        values = taps.close()
        io[f"{n}.latent"], io[f"{n}.text"], io[f"{n}.velocity"] = latent[0], text, result[0]
        io[f"{n}.sigma"] = torch.tensor([sigma])
        for k, v in values.items():
            if n != 1:
                io[f"{n}.{k}"] = v[0] if v.ndim == 3 or k == "t_embedder" else v
        entries.append({"prefix": f"{n}.", "input": "latent, text, sigma", "output": "velocity",
                        "order": "joint sequence is image tokens (padded), then text tokens (padded)"})  # fmt: skip
    folder = os.path.join(root, "dit")
    save(os.path.join(folder, "io.safetensors"), io)
    case(folder, "z-image-transformer", {
        "files": ["../models/z_image_turbo_bf16.safetensors", "../models/z_image_turbo_diffusers.safetensors"],
        "note": "both hold the same numbers"}, config, entries)  # fmt: skip

    prompts = [make_prompt(dice) for _ in range(4)]
    split = {"diffusion": "../models/z_image_turbo_bf16.safetensors", "text_encoder": "../models/qwen_3_4b.safetensors",
             "vae": "../models/ae.safetensors", "tokenizer": "../models/tokenizer"}  # fmt: skip
    single = {"checkpoint": "../models/z_image_all_in_one_fp8.safetensors", "tokenizer": "../models/tokenizer"}
    width, height = dice.pick([(96, 64), (64, 96), (80, 64), (112, 48), (48, 80)])
    runs = [
        (
            "e2e-turbo",
            split,
            prompts[0],
            "",
            width,
            height,
            dice.pick([8, 8, 8, 6, 3]),
            0.0,
            3.0,
            dice.choices.randrange(2**31),
        ),
        (
            "e2e-base",
            split,
            prompts[1] + "，水墨画",
            prompts[2],
            height,
            width,
            dice.pick([5, 6]),
            dice.pick([4.0, 3.0]),
            6.0,
            dice.choices.randrange(2**40),
        ),
        (
            "e2e-all-in-one-fp8",
            single,
            prompts[3],
            "",
            64,
            64,
            dice.pick([4, 5]),
            0.0,
            3.0,
            dice.choices.randrange(2**31),
        ),
    ]
    for name, files, prompt, negative, width, height, steps, cfg, shift, noise_seed in runs:
        if "fp8" in name:
            dit.load_state_dict(from_original(effective, dit.state_dict()))
        io, info = trace(tok, text_model, dit, vae, prompt, negative, width, height, steps, cfg, shift, noise_seed)
        folder = os.path.join(root, name)
        save(os.path.join(folder, "io.safetensors"), io)
        write_png(os.path.join(folder, "image.png"), io["image"])
        case(folder, "z-image-end-to-end", files, config, [{"output": "ids, conditioning, noise, step*.latent, image"}],
             {"request": info, "png": "image.png", "png_tolerance": "at most 1 per 8-bit channel value"})  # fmt: skip
        if name == "e2e-turbo":
            image_to_image(os.path.join(root, "e2e-image-to-image"), dice, files, config, tok, text_model, dit, vae)
            inpaint.whole_run(
                os.path.join(root, "e2e-inpaint"), Dice(seed, "z-image-inpaint"), "z-image-inpaint", files, config,
                lambda prompt, width, height, steps, *more:
                    trace(tok, text_model, dit, vae, prompt, "", width, height, steps, 0.0, 3.0, *more),
            )  # fmt: skip


def image_to_image(folder, dice, files, config, tok, text_model, dit, vae):
    width, height = dice.pick([(64, 48), (48, 64), (80, 48)])
    write_png(os.path.join(folder, "input.png"), vae_fixtures.smooth_image(dice, height, width)[0])
    image = read_png(os.path.join(folder, "input.png"))
    steps, strength = dice.pick([(8, 0.6), (7, 0.5), (6, 0.75)])
    io, info = trace(tok, text_model, dit, vae, make_prompt(dice), "", width, height, steps, 0.0, 3.0,
                     dice.choices.randrange(2**31), image, strength)  # fmt: skip
    save(os.path.join(folder, "io.safetensors"), io)
    write_png(os.path.join(folder, "image.png"), io["image"])
    case(folder, "z-image-image-to-image", files, config,
         [{"output": "ids, conditioning, noise, encoded, start_latent, step*, image"}],
         {"request": info, "png": "image.png", "png_tolerance": "at most 1 per 8-bit channel value"})  # fmt: skip
