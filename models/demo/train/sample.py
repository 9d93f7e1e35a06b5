"""Contact sheet straight from a training checkpoint: sample.py WORK OUT.png STEPS "prompt" ... (STEPS 0 = the Turbo schedule)."""
import os
import sys

import torch
from tokenizers import Tokenizer

import model as M
import vae
from train_diffusion import SYSTEM, TURBO, USER


@torch.no_grad()
def sample(net, tok, prompts, sigmas, noise, cfg=1.0, batch=64):
    """Normalised latents (N,64,8,8) from noise of that shape; prompts of equal token length run together."""
    drop = len(tok.encode(SYSTEM).ids)
    ids = [tok.encode(SYSTEM + USER.format(p)).ids for p in prompts]
    out = noise.flatten(2).transpose(1, 2).contiguous()
    none = net["text"](torch.tensor([tok.encode(SYSTEM + USER.format(" ")).ids]), torch.float32)[:, drop:]
    sigmas = list(sigmas) + [0.0]
    order = sorted(range(len(ids)), key=lambda k: len(ids[k]))
    while order:
        n = len(ids[order[0]])
        group = [k for k in order[:batch] if len(ids[k]) == n]
        order = order[len(group):]
        x, e = out[group], net["text"](torch.tensor([ids[k] for k in group]), torch.float32)[:, drop:]
        for a, b in zip(sigmas, sigmas[1:]):
            t = torch.full((len(group),), a)
            v = net["image"](e, x, t)
            if cfg > 1:
                u = net["image"](none.expand(len(group), -1, -1), x, t)
                v = u + cfg * (v - u)
            x = x + (b - a) * v
        out[group] = x
    return out.transpose(1, 2).unflatten(2, (8, 8))


if __name__ == "__main__":
    from encode import grid
    work, out, steps, prompts = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    torch.set_num_threads(1)
    net = torch.nn.ModuleDict(dict(text=M.TextEncoder(), image=M.ImageTransformer()))
    net.load_state_dict(torch.load(f"{work}/diffusion.pt"))
    refined = f"{work}/vae_refined.pt"
    coder, lat = vae.load(refined if os.path.exists(refined) else f"{work}/vae.pt"), torch.load(f"{work}/latents.pt")
    sigmas = TURBO if steps == 0 else [1 - i / steps for i in range(steps)]
    noise = torch.randn(len(prompts), 64, 8, 8, generator=torch.Generator().manual_seed(0))
    z = sample(net, Tokenizer.from_file(f"{work}/tokenizer/tokenizer.json"), prompts, sigmas, noise)
    with torch.no_grad():
        y = vae.decode(coder, z * lat["std"].view(-1, 1, 1) + lat["mean"].view(-1, 1, 1)).clamp(-1, 1)
    grid(y).save(out)
