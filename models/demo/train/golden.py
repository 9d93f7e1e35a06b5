"""Reference run of the exported files through diffusers in float32: golden.py MODEL_FOLDER WORK.

Per prompt one safetensors file (token ids, embeddings, noise, velocity and latent of every step, decoded pixels) and a PNG;
golden/index.json lists them. contact-sheet.png shows the prompts of model.json at half size, drawn with the scaled-FP8 set;
contact-sheet.txt names them and marks those whose nearest learned picture (see measure.py) is another one.
"""
import json
import os
import sys

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from encode import grid
from measure import Pictures
from pipeline import load
from train_diffusion import SYSTEM, USER

# name, prompt, torch seed, weights, guidance
RUNS = [("1", "a red apple", 1, "", 1.0), ("1_fp8_scaled", "a red apple", 1, "_fp8_scaled", 1.0),
        ("2_fp8_scaled", "an icon of a frog", 4, "_fp8_scaled", 1.0),
        ("3_fp8_scaled", "Say hello to the astronaut!", 3, "_fp8_scaled", 1.0),
        ("cfg_fp8_scaled", "a red apple", 7, "_fp8_scaled", 3.0)]
COLUMNS, NEGATIVE = 20, " "


@torch.no_grad()
def run(pipe, prompt, seed, sigmas, cfg=1.0):
    noise = torch.randn(1, 1, 64, 8, 8, generator=torch.Generator().manual_seed(seed))
    steps, velocity = [], []
    hook = pipe.transformer.register_forward_hook(lambda m, a, out: velocity.append(out[0][:, -64:].clone()))
    grab = lambda p, i, t, kw: (steps.append(kw["latents"].clone()), {})[1]
    try:
        image = pipe(prompt, negative_prompt=NEGATIVE if cfg > 1 else None, true_cfg_scale=cfg, height=128, width=128, sigmas=sigmas,
                     output_type="pt", latents=noise.view(1, 64, 64).transpose(1, 2), callback_on_step_end=grab).images
    finally:
        hook.remove()
    ids = pipe.processor.tokenizer(SYSTEM + USER.format(prompt))["input_ids"]
    embeds, _, _ = pipe.encode_prompt(prompt)
    cells = lambda x: x.transpose(1, 2).reshape(64, 8, 8).contiguous()
    data = {"input_ids": torch.tensor(ids, dtype=torch.int32), "prompt_embeds": embeds[0].contiguous(), "noise": noise[0, 0].contiguous(),
            "sigmas": torch.tensor(sigmas + [0.0]), "latents": torch.stack([cells(s) for s in steps]),
            "velocity": torch.stack([cells(v) for v in velocity]), "final_latents": cells(steps[-1]), "pixels": image[0].contiguous()}
    return data, Image.fromarray((image[0].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8), "RGBA")


def contact_sheet(pipe, spec, sigmas, folder, work):
    """Draw every prompt once and write the sheet with its list."""
    wanted = {p["prompt"]: p["picture"] for p in spec["prompt_pictures"]}
    prompts, known = spec["prompts"], Pictures(work)
    pixels = torch.stack([run(pipe, p, 100 + i, sigmas)[0]["pixels"] for i, p in enumerate(prompts)])
    near = [known.names[k] for k in known.nearest(pixels)]
    lines = [f"{p}   <- nearest to {n}" if not known.same(n, wanted[p]) else p for p, n in zip(prompts, near)]
    wrong = sum("   <- " in x for x in lines)
    sheet = grid(pixels * 2 - 1, COLUMNS)
    sheet.resize((sheet.width // 2, sheet.height // 2), Image.BOX).quantize(256).save(f"{folder}/golden/contact-sheet.png", optimize=True)
    head = (f"Scaled-FP8 set, row-major, {COLUMNS} per row, half size, torch seed 100 + position from 0. "
            f"{len(prompts) - wrong} of {len(prompts)} right; the others are marked.")
    open(f"{folder}/golden/contact-sheet.txt", "w").write("\n".join([head] + lines) + "\n")


def main(folder, work):
    spec = json.load(open(f"{folder}/model.json"))
    sigmas = spec["sampling"]["sigmas"][:-1]
    os.makedirs(f"{folder}/golden", exist_ok=True)
    torch.set_num_threads(1)
    pipes, index = {s: load(folder, s, sigmas) for s in ("", "_fp8_scaled")}, []
    for name, prompt, seed, suffix, cfg in RUNS:
        data, picture = run(pipes[suffix], prompt, seed, sigmas, cfg)
        save_file(data, f"{folder}/golden/{name}.safetensors")
        picture.save(f"{folder}/golden/{name}.png")
        index.append({"name": name, "prompt": prompt, "torch_seed": seed, "cfg": cfg, "weights": suffix or "bf16"})
        if cfg > 1:
            index[-1] |= {"negative": NEGATIVE, "note": "velocity alternates positive, negative"}
    json.dump(index, open(f"{folder}/golden/index.json", "w"), indent=1)
    contact_sheet(pipes["_fp8_scaled"], spec, sigmas, folder, work)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
