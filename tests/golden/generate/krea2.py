"""Krea 2: tiny transformer fixtures and end-to-end cases."""

import math
import os

import inpaint
import torch
import vae as vae_fixtures
from common import Dice, Taps, case, randomize, read_png, save, start_index, write_json, write_png
from fp8 import linear_layers, quantized_state, save_raw, with_byte_tensors, with_header_metadata
from text_encoder import KREA_TAPS, build_qwen3vl_text, encode, single_file
from tokenizer import KREA_PREFIX, KREA_SUFFIX, build_tiny, make_prompt, prefix_length

FP8_ENDS = {"wq", "wk", "wv", "wo", "gate", "up", "down"}
TE_FP8_ENDS = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def mlp_width(features, multiplier=4, multiple=128):
    width = int(2 * features / 3) * multiplier
    return multiple * ((width + multiple - 1) // multiple)


def build(dice, features, heads, kv_heads, layers, text_dim, text_heads, taps=12):
    from diffusers import Krea2Transformer2DModel

    head_dim = features // heads
    unit = head_dim // 16
    model = Krea2Transformer2DModel(
        in_channels=64,
        num_layers=layers,
        attention_head_dim=head_dim,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=mlp_width(features),
        timestep_embed_dim=256,
        text_hidden_dim=text_dim,
        num_text_layers=taps,
        text_num_attention_heads=text_heads,
        text_num_key_value_heads=text_heads,
        text_intermediate_size=mlp_width(text_dim),
        axes_dims_rope=(head_dim - 12 * unit, 6 * unit, 6 * unit),
        rope_theta=1000.0,
        norm_eps=1e-5,
    )
    model.set_attention_backend("_native_math")
    return randomize(model, dice, zero_centered_norms=True)


def to_original(state):
    """diffusers names -> names of the krea-ai release and of ComfyUI single files."""
    whole = {
        "img_in": "first", "time_embed.linear_1": "tmlp.0", "time_embed.linear_2": "tmlp.2", "time_mod_proj": "tproj.1",
        "txt_in.linear_1": "txtmlp.1", "txt_in.linear_2": "txtmlp.3", "text_fusion.projector": "txtfusion.projector",
        "final_layer.linear": "last.linear",
    }  # fmt: skip
    exact = {"txt_in.norm.weight": "txtmlp.0.scale", "final_layer.norm.weight": "last.norm.scale",
             "final_layer.scale_shift_table": "last.modulation.lin"}  # fmt: skip
    block = {
        "attn.to_q.weight": "attn.wq.weight", "attn.to_k.weight": "attn.wk.weight",
        "attn.to_v.weight": "attn.wv.weight",
        "attn.to_gate.weight": "attn.gate.weight", "attn.to_out.0.weight": "attn.wo.weight",
        "attn.norm_q.weight": "attn.qknorm.qnorm.scale", "attn.norm_k.weight": "attn.qknorm.knorm.scale",
        "ff.gate.weight": "mlp.gate.weight", "ff.up.weight": "mlp.up.weight", "ff.down.weight": "mlp.down.weight",
        "norm1.weight": "prenorm.scale", "norm2.weight": "postnorm.scale", "scale_shift_table": "mod.lin",
    }  # fmt: skip
    out = {}
    for key, value in state.items():
        stem, _, leaf = key.rpartition(".")
        if key in exact:
            out[exact[key]] = value
        elif stem in whole:
            out[f"{whole[stem]}.{leaf}"] = value
        elif key.startswith("transformer_blocks."):
            _, index, rest = key.split(".", 2)
            out[f"blocks.{index}.{block[rest]}"] = value.reshape(-1) if rest == "scale_shift_table" else value
        elif key.startswith("text_fusion."):
            _, group, index, rest = key.split(".", 3)
            out[f"txtfusion.{group}.{index}.{block[rest]}"] = value
        else:
            raise KeyError(key)
    return out


def pack(latent):
    """[1, C, H, W] -> [1, H/2 * W/2, C * 4]; feature order: channel, patch row, patch column."""
    _, c, h, w = latent.shape
    return latent.view(1, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(1, (h // 2) * (w // 2), c * 4)


def unpack(tokens, h, w):
    c = tokens.shape[2] // 4
    return tokens.view(1, h // 2, w // 2, c, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(1, c, h, w)


def positions(text_len, h, w):
    ids = torch.zeros(text_len + h * w, 3)
    rows, cols = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    ids[text_len:, 1] = rows.reshape(-1).float()
    ids[text_len:, 2] = cols.reshape(-1).float()
    return ids


def velocity(model, latent, text, t):
    """latent [1, 16, H, W], text [1, L, 12, D], t in [0, 1] -> velocity [1, 16, H, W]."""
    _, _, h, w = latent.shape
    out = model(
        hidden_states=pack(latent),
        encoder_hidden_states=text,
        timestep=torch.tensor([t], dtype=torch.float32),
        position_ids=positions(text.shape[1], h // 2, w // 2),
        encoder_attention_mask=None,
        return_dict=False,
    )[0]
    return unpack(out, h, w)


def timesteps(seq_len, steps, mu=None):
    ts = torch.linspace(1, 0, steps + 1)
    if mu is None:
        slope = (1.15 - 0.5) / (6400 - 256)
        mu = slope * seq_len + (0.5 - slope * 256)
    ts = math.exp(mu) / (math.exp(mu) + (1.0 / ts - 1.0))
    return mu, ts.tolist()


def prompt_ids(tok, prompt):
    return tok.encode(KREA_PREFIX + prompt + KREA_SUFFIX, add_special_tokens=False).ids


def condition(tok, text_model, prompt):
    ids = prompt_ids(tok, prompt)
    states = encode(text_model, ids)
    drop = prefix_length(tok, KREA_PREFIX)
    return ids, torch.stack([states[k] for k in KREA_TAPS], dim=2)[:, drop:]


def trace(tok, text_model, dit, vae, prompt, negative, width, height, steps, cfg, mu, seed, source=None, strength=1.0,
          mask=None):
    """The whole pipeline in float32; returns tensors and a description."""
    io, info = {}, {}
    ids, text = condition(tok, text_model, prompt)
    io["ids"] = torch.tensor(ids, dtype=torch.int32)
    io["conditioning"] = text[0]
    if cfg > 0:
        neg_ids, neg_text = condition(tok, text_model, negative)
        io["negative_ids"] = torch.tensor(neg_ids, dtype=torch.int32)
        io["negative_conditioning"] = neg_text[0]
    h, w = height // 8, width // 8
    latent = torch.randn(1, 16, h, w, generator=torch.Generator("cpu").manual_seed(seed))
    io["noise"] = latent[0]
    used_mu, ts = timesteps((h // 2) * (w // 2), steps, mu)
    start = 0
    if source is not None:
        start = start_index(steps, strength)
        clean = vae_fixtures.qwen_normalize(vae_fixtures.qwen_encode_moments(vae, source)[:, :16])
        latent = (1.0 - ts[start]) * clean + ts[start] * latent
        io["encoded"], io["start_latent"] = clean[0], latent[0]
    mask_latent = None if mask is None else inpaint.on_latent(mask, h, w)
    for i, (t, t_next) in list(enumerate(zip(ts[:-1], ts[1:])))[start:]:
        if mask is not None:
            latent = inpaint.known(latent, mask_latent, clean, io["noise"], t)
        v = velocity(dit, latent, text, t)
        if cfg > 0:
            v = v + cfg * (v - velocity(dit, latent, neg_text, t))
        if mask is not None:
            v = (latent - inpaint.known(latent - t * v, mask_latent, clean, io["noise"], 0)) / t
        else:
            io[f"step{i}.velocity"] = v[0]
        latent = latent + (t_next - t) * v
        io[f"step{i}.latent"] = latent[0]
    image = vae_fixtures.qwen_decode(vae, latent)
    io["image"] = image
    info = {
        "prompt": prompt, "negative_prompt": negative if cfg > 0 else None, "width": width, "height": height,
        "steps": steps, "cfg": cfg, "mu": used_mu, "mu_given": mu is not None, "timesteps": ts, "seed": seed,
        "noise": "CPU generator, one draw of 16*h*w float32 values", "taps": list(KREA_TAPS),
    }  # fmt: skip
    if source is not None:
        info |= {"input_image": "input.png", "strength": strength, "start_index": start}
    return io, info


def main(seed, out):
    root = os.path.join(out, "krea2")
    models = os.path.join(root, "models")
    tok = build_tiny(seed, os.path.join(models, "tokenizer"))
    dice = Dice(seed, "krea2")
    rows = (tok.get_vocab_size() + 31) // 32 * 32

    te_config = {
        "vocab_size": rows, "hidden_size": 32, "num_hidden_layers": 36, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": dice.pick([64, 80]), "rms_norm_eps": 1e-6,
    }  # fmt: skip
    text_model = build_qwen3vl_text(dice, te_config)
    heads, kv_heads, head_dim, layers = dice.pick([(4, 2, 32, 2), (6, 2, 16, 3), (6, 3, 16, 3)])
    features = heads * head_dim
    dit = build(dice, features, heads, kv_heads, layers, text_dim=32, text_heads=2)
    base_dim = dice.pick([4, 5])
    vae = vae_fixtures.build_qwen_vae(dice, base_dim)

    # Weights as users have them.
    original = to_original(dit.state_dict())
    save(os.path.join(models, "krea2_turbo_bf16.safetensors"), original, torch.bfloat16)
    save(os.path.join(models, "krea2_turbo_diffusers.safetensors"), dit.state_dict(), torch.bfloat16)
    layers_fp8 = linear_layers(
        original, ["blocks.", "txtfusion.layerwise_blocks.", "txtfusion.refiner_blocks."], FP8_ENDS
    )
    stored, effective = quantized_state(original, layers_fp8)
    full = {name for name in layers_fp8 if name.startswith("txtfusion.")}
    save_raw(
        os.path.join(models, "krea2_turbo_fp8_scaled.safetensors"), *with_header_metadata(stored, layers_fp8, full)
    )
    save(
        os.path.join(models, "qwen3vl_4b_bf16.safetensors"),
        single_file(text_model, "model.language_model."),
        torch.bfloat16,
    )
    te_state = single_file(text_model, "model.")
    te_layers = linear_layers(te_state, ["model.layers."], TE_FP8_ENDS)
    te_stored, te_effective = quantized_state(te_state, te_layers)
    # A few vision-tower entries, which a text-only loader skips.
    te_stored["visual.patch_embed.proj.bias"] = dice.normal(8).to(torch.bfloat16)
    te_stored["visual.merger.linear_fc2.weight"] = dice.normal(32, 8).to(torch.bfloat16)
    save_raw(os.path.join(models, "qwen3vl_4b_fp8_scaled.safetensors"), *with_byte_tensors(te_stored, te_layers))
    vae_original = vae_fixtures.qwen_vae_to_original(vae.state_dict())
    save(os.path.join(models, "qwen_image_vae.safetensors"), vae_original, torch.bfloat16)
    save(os.path.join(models, "qwen_image_vae_diffusers.safetensors"), vae.state_dict(), torch.bfloat16)

    config = {
        "features": features, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "layers": layers,
        "mlp_width": mlp_width(features), "text_dim": 32, "text_heads": 2, "text_mlp_width": mlp_width(32),
        "text_layers": 12, "timestep_dim": 256, "rope_theta": 1000.0,
        "rope_axes": list(dit.config.axes_dims_rope), "norm_eps": 1e-5, "patch": 2, "channels": 16,
    }  # fmt: skip
    write_json(
        os.path.join(models, "configs.json"),
        {"transformer": config, "text_encoder": te_config | {"rope_theta": 5e6}, "vae": {"base_dim": base_dim}},
    )

    # Autoencoder.
    vae_config = {"base_dim": base_dim, "z_dim": 16, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 2}
    vae_fixtures.fixtures(os.path.join(root, "vae"), vae, "qwen-image-vae", {
        "files": ["../models/qwen_image_vae.safetensors", "../models/qwen_image_vae_diffusers.safetensors"],
        "note": "both hold the same numbers"}, vae_config, dice)  # fmt: skip

    # Transformer forward passes with intermediate values.
    io, entries = {}, []
    for n, (h, w) in enumerate((dice.pick([(4, 6), (6, 4)]), dice.pick([(2, 10), (8, 6)]))):
        length = dice.pick([9, 14, 21])
        t = dice.pick([1.0, 0.8125, 0.4375, 0.0625])
        latent, text = dice.normal(1, 16, h, w), dice.normal(1, length, 12, 32, std=1.5)
        text[:, ::4] *= 0.002  # small rows make the epsilon of the norms visible
        taps = Taps()
        taps.add(dit.time_embed, "time_embed")
        taps.add(dit.time_mod_proj, "time_mod")
        for i in range(2):
            taps.add(dit.text_fusion.layerwise_blocks[i], f"txtfusion.layerwise{i}")
            taps.add(dit.text_fusion.refiner_blocks[i], f"txtfusion.refiner{i}")
        taps.add(dit.text_fusion.projector, "txtfusion.projector")
        taps.add(dit.txt_in, "txtmlp")
        taps.add(dit.img_in, "first")
        taps.add(dit.transformer_blocks[0].attn.norm_q, "block0.qnorm")
        taps.add(dit.transformer_blocks[0].attn.norm_k, "block0.knorm")
        taps.add(dit.transformer_blocks[0].attn, "block0.attn")
        taps.add(dit.transformer_blocks[0].ff, "block0.mlp")
        for i, b in enumerate(dit.transformer_blocks):
            taps.add(b, f"block{i}")
        taps.add(dit.final_layer, "last")
        result = velocity(dit, latent, text, t)
        values = taps.close()
        cos, sin = dit.rotary_emb(positions(length, h // 2, w // 2))
        io[f"{n}.latent"], io[f"{n}.text"], io[f"{n}.velocity"] = latent[0], text[0], result[0]
        io[f"{n}.timestep"] = torch.tensor([t])
        io[f"{n}.rope_cos"], io[f"{n}.rope_sin"] = cos[:, ::2], sin[:, ::2]
        for k, v in values.items():
            v = v.squeeze(-1) if k == "txtfusion.projector" else v
            io[f"{n}.{k}"] = v if k.startswith("txtfusion.layerwise") else v[0]
        entries.append({"prefix": f"{n}.", "input": "latent, text, timestep", "output": "velocity"})
    folder = os.path.join(root, "dit")
    save(os.path.join(folder, "io.safetensors"), io)
    case(folder, "krea2-transformer", {
        "files": ["../models/krea2_turbo_bf16.safetensors", "../models/krea2_turbo_diffusers.safetensors"],
        "note": "both hold the same numbers"}, config, entries)  # fmt: skip

    # End to end: Turbo, Raw (guidance and computed mu), Turbo with scaled FP8 files.
    prompts = [make_prompt(dice) for _ in range(4)]
    width, height = dice.pick([(96, 64), (64, 96), (80, 64), (112, 48), (48, 80)])
    plain = {
        "diffusion": "../models/krea2_turbo_bf16.safetensors",
        "text_encoder": "../models/qwen3vl_4b_bf16.safetensors",
        "vae": "../models/qwen_image_vae.safetensors",
        "tokenizer": "../models/tokenizer",
    }
    scaled = plain | {"diffusion": "../models/krea2_turbo_fp8_scaled.safetensors",
                      "text_encoder": "../models/qwen3vl_4b_fp8_scaled.safetensors"}  # fmt: skip
    runs = [
        ("e2e-turbo", plain, prompts[0], "", width, height, dice.pick([8, 8, 8, 6, 3]), 0.0, 1.15,
         dice.choices.randrange(2**31)),
        ("e2e-raw", plain, prompts[1] + "，雪山 ❄", prompts[2], height, width, dice.pick([5, 6, 7]),
         dice.pick([3.5, 3.5, 2.0]), None, dice.choices.randrange(2**40)),
        ("e2e-turbo-fp8", scaled, prompts[3], "", 64, 64, dice.pick([4, 5]), 0.0, 1.15, dice.choices.randrange(2**31)),
    ]  # fmt: skip
    for name, files, prompt, negative, width, height, steps, cfg, mu, noise_seed in runs:
        if "fp8" in name:
            load_original(dit, effective)
            text_model.load_state_dict({k[len("model.") :]: v for k, v in te_effective.items()})
        io, info = trace(tok, text_model, dit, vae, prompt, negative, width, height, steps, cfg, mu, noise_seed)
        folder = os.path.join(root, name)
        save(os.path.join(folder, "io.safetensors"), io)
        write_png(os.path.join(folder, "image.png"), io["image"])
        case(folder, "krea2-end-to-end", files, config, [{"output": "ids, conditioning, noise, step*.latent, image"}],
             {"request": info, "png": "image.png", "png_tolerance": "at most 1 per 8-bit channel value"})  # fmt: skip
        if name == "e2e-turbo":
            image_to_image(os.path.join(root, "e2e-image-to-image"), dice, files, config, tok, text_model, dit, vae)
            inpaint.whole_run(
                os.path.join(root, "e2e-inpaint"), Dice(seed, "krea2-inpaint"), "krea2-inpaint", files, config,
                lambda prompt, width, height, steps, *more:
                    trace(tok, text_model, dit, vae, prompt, "", width, height, steps, 0.0, 1.15, *more),
            )  # fmt: skip


def image_to_image(folder, dice, files, config, tok, text_model, dit, vae):
    width, height = dice.pick([(64, 48), (48, 64), (80, 48)])
    write_png(os.path.join(folder, "input.png"), vae_fixtures.smooth_image(dice, height, width)[0])
    image = read_png(os.path.join(folder, "input.png"))
    steps, strength = dice.pick([(8, 0.6), (7, 0.5), (6, 0.75)])
    io, info = trace(tok, text_model, dit, vae, make_prompt(dice), "", width, height, steps, 0.0, 1.15,
                     dice.choices.randrange(2**31), image, strength)  # fmt: skip
    save(os.path.join(folder, "io.safetensors"), io)
    write_png(os.path.join(folder, "image.png"), io["image"])
    case(folder, "krea2-image-to-image", files, config,
         [{"output": "ids, conditioning, noise, encoded, start_latent, step*, image"}],
         {"request": info, "png": "image.png", "png_tolerance": "at most 1 per 8-bit channel value"})  # fmt: skip




def load_original(dit, state):
    """Put values held under original names back into the diffusers module."""
    back = {}
    for key, value in dit.state_dict().items():
        (name,) = to_original({key: value})
        back[key] = state[name].reshape(value.shape)
    dit.load_state_dict(back)
