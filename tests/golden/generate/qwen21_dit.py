"""The Qwen-Image 2.1 diffusion transformer (tiny dimensions, float32)."""

import os

import torch
from diffusers.models.transformers.transformer_qwenimage21 import QwenImage21Transformer2DModel, QwenImage21KVCache
from qwen_common import case, dit21_to_comfy, randomise, taps, tensors

SIZES = [
    dict(layers=3, heads=2, hd=32, axes=(4, 14, 14), ctx=80),
    dict(layers=4, heads=3, hd=32, axes=(4, 14, 14), ctx=96),
]


def build(seed, variant):
    s = SIZES[variant]
    model = QwenImage21Transformer2DModel(
        num_layers=s["layers"],
        num_attention_heads=s["heads"],
        attention_head_dim=s["hd"],
        context_in_dim=s["ctx"],
        axes_dims_rope=s["axes"],
        in_channels=64,
        out_channels=64,
    )
    return randomise(model, seed), dict(
        hidden=s["heads"] * s["hd"],
        heads=s["heads"],
        head_dim=s["hd"],
        layers=s["layers"],
        context_dim=s["ctx"],
        mlp_hidden=3 * s["heads"] * s["hd"],
        axes_dims_rope=list(s["axes"]),
        channels=64,
        eps=1e-6,
    )


def layout(text_runs, grids):
    """text_runs[i] tokens of text, then reference i; the last run precedes the target. True: a slot of 2x2 latents."""
    mask = []
    for run, (h, w) in zip(text_runs, grids):
        mask += [False] * run + [True] * (h * w // 4)
    return torch.tensor([mask])


def positions(text_runs, grids, half_token):
    """(frame, row, column) of every token. half_token: centre references of other parity on the target (ComfyUI)."""
    out, pos = [], 0
    for run, (h, w) in zip(text_runs, grids):
        out += [(pos + i,) * 3 for i in range(run)]
        pos += run
        dy, dx = ((h % 2 - grids[-1][0] % 2) / 2, (w % 2 - grids[-1][1] % 2) / 2) if half_token else (0, 0)
        out += [(pos, y - (h - h // 2) + dy, x - (w - w // 2) + dx) for y in range(h) for x in range(w)]
        pos += max(h, w)
    return torch.tensor(out, dtype=torch.float32)


def forward(model, axes, text_runs, grids, embeds, images, t, half_token=True):
    """The same network on any grid, odd sizes included (the library's own forward wants multiples of four tokens)."""
    text, parts, segments, at, length = model.txt_in(embeds), [], [], 0, 0
    for run, image in zip(text_runs, images):
        parts += [text[:, at : at + run], model.img_in(image)]
        segments += [(length, length + run, True), (length + run, length + run + image.shape[1], False)]
        at, length = at + run, length + run + image.shape[1]
    x = torch.cat(parts, 1)
    pos = positions(text_runs, grids, half_token)
    angle = torch.cat([pos[:, i : i + 1] / 10000 ** (torch.arange(0, d, 2).float() / d) for i, d in enumerate(axes)], 1)
    target = torch.zeros(length, dtype=torch.bool)
    target[segments[-1][0] :] = True
    temb = model.time_text_embed(torch.tensor([t, 0.0]), x)
    mod = model.modulation(temb)
    for block in model.transformer_blocks:
        x = block(x, mod, torch.polar(torch.ones_like(angle), angle), target_token_mask=target, segments=segments[:-1])
    return model.proj_out(model.norm_out(x, temb, target))[:, target]


def odd(model, config, folder, gen, text_runs, grids, t):
    refs, target = grids[:-1], grids[-1]
    embeds = torch.randn(1, sum(text_runs), config["context_dim"], generator=gen) * 2
    images = [torch.randn(1, h * w, 64, generator=gen) for h, w in grids]
    args = (model, config["axes_dims_rope"], text_runs, grids, embeds, images, t)
    inputs = {"encoder_hidden_states": embeds, "step0.latents": images[-1][0].T.reshape(64, *target)}
    inputs.update({f"reference{i}": images[i][0].T.reshape(64, *r) for i, r in enumerate(refs)})
    tensors(f"{folder}/inputs.safetensors", inputs)
    tensors(
        f"{folder}/expected.safetensors",
        {
            "step0.output": forward(*args),
            "step0.output_integer_grid": forward(*args, half_token=False),
            "positions": positions(text_runs, grids, True),
        },
    )
    case(
        folder,
        component="qwen21-dit",
        weights="../weights.safetensors",
        naming="comfy",
        config=config,
        timesteps=[t],
        text_runs=text_runs,
        grids=grids,
        note=(
            "Odd target grid. step0.output uses the half-token centring of reference grids; output_integer_grid does"
            " not (equal when there is no reference)."
        ),
    )


def run(model, config, folder, gen, text_runs, grids, times, naming):
    refs, target = grids[:-1], grids[-1]
    mask = layout(text_runs, grids)
    slots = int(mask.shape[1] - target[0] * target[1] // 4)
    embeds = torch.randn(1, slots, config["context_dim"], generator=gen) * 2
    ref_latents = [torch.randn(1, h * w, 64, generator=gen) for h, w in refs]
    latents = [torch.randn(1, target[0] * target[1], 64, generator=gen) for _ in times]
    kwargs = dict(
        encoder_hidden_states=embeds, img_shapes=[[(1, h, w) for h, w in grids]], img_mask=mask, return_dict=False
    )
    n = target[0] * target[1]
    expected, cache = {}, QwenImage21KVCache(config["layers"])
    for step, (t, x) in enumerate(zip(times, latents)):
        hidden = torch.cat(ref_latents + [x], dim=1)
        modules = {"temb": model.time_text_embed, "txt_in": model.txt_in, "modulation": model.modulation}
        modules.update({f"block{i}": b for i, b in enumerate(model.transformer_blocks)})
        found, handles = taps(modules if step == 0 else {})
        out = model(hidden_states=hidden, timestep=torch.tensor([t]), **kwargs)[0][:, -n:]
        for h in handles:
            h.remove()
        expected.update({"step0." + k: v for k, v in found.items()})
        cached = model(
            hidden_states=hidden,
            timestep=torch.tensor([t]),
            kv_cache=cache,
            kv_cache_mode="extract" if step == 0 else "cached",
            **kwargs,
        )[0][:, -n:]
        expected[f"step{step}.output"], expected[f"step{step}.output_cached"] = out, cached
    expected["cache.layer0.k"], expected["cache.layer0.v"] = cache.get_layer(0).get()
    keep = ~mask[0, :slots]
    own = forward(
        model, config["axes_dims_rope"], text_runs, grids, embeds[:, keep], ref_latents + [latents[0]], times[0]
    )
    assert (own - expected["step0.output"]).abs().max() < 1e-5
    full = torch.cat(
        [model.pos_embed(kwargs["img_shapes"][0], torch.repeat_interleave(mask[0], torch.where(mask, 4, 1)[0]), "cpu")]
    )
    expected["rope.cos"], expected["rope.sin"] = full.real, full.imag
    inputs = {"encoder_hidden_states": embeds[:, keep], "encoder_hidden_states_with_slots": embeds}
    inputs.update({f"reference{i}": r[0].T.reshape(64, *refs[i]) for i, r in enumerate(ref_latents)})
    inputs.update({f"step{i}.latents": x[0].T.reshape(64, *target) for i, x in enumerate(latents)})
    tensors(f"{folder}/inputs.safetensors", inputs)
    tensors(f"{folder}/expected.safetensors", expected)
    case(
        folder,
        component="qwen21-dit",
        weights="../weights.safetensors" if naming == "comfy" else "../weights-diffusers.safetensors",
        config=config,
        naming=naming,
        timesteps=times,
        text_runs=text_runs,
        grids=grids,
        prefix_tokens=int(keep.sum()) + sum(h * w for h, w in refs),
        note=(
            "timesteps are sigmas in [0,1]. Sequence = run, reference, run, reference, ..., run, target. latents are"
            " [C,h,w]; outputs are [1,h*w,C] rows of the target. step0.blockN is the whole joint sequence."
            " temb/modulation rows: sampled t, then t=0. output_cached: step 0 fills the prefix cache, later steps read"
            " it; must equal output."
        ),
    )


def main(seed, out, variant):
    out, v = f"{out}/qwen21-dit", variant
    model, config = build(seed, variant)
    gen = torch.Generator().manual_seed(seed + 1000)
    tensors(f"{out}/weights.safetensors", dit21_to_comfy(model.state_dict()), torch.bfloat16)
    tensors(f"{out}/weights-diffusers.safetensors", {k: t for k, t in model.state_dict().items()}, torch.bfloat16)
    table = [
        ("t2i", [7], [(4, 6)], [0.9, 0.35]),
        ("edit1", [3, 6], [(4, 4), (6, 4)], [1.0, 0.5]),
        ("edit3", [3, 2, 2, 9], [(2, 4), (4, 2), (4, 4), (4, 6)], [0.95, 0.25]),
    ]
    if v:
        table = [
            ("t2i", [12], [(6, 2)], [0.8, 0.1]),
            ("edit1", [4, 3], [(6, 4), (4, 8)], [0.99, 0.6]),
            ("edit3", [5, 3, 1, 4], [(4, 4), (2, 2), (6, 2), (6, 6)], [0.7, 0.3]),
        ]
    for name, runs, grids, times in table:
        run(
            model, config, os.path.join(out, name), gen, runs, grids, times, "diffusers" if name == "edit1" else "comfy"
        )
    odd(model, config, os.path.join(out, "t2i-odd"), gen, [6 + v], [(5, 7 + 2 * v)], 0.8)
    odd(model, config, os.path.join(out, "edit-odd"), gen, [4, 5 + v], [(4, 6), (5, 7)], 0.7)
