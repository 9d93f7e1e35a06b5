"""Fine-tune the decoder alone (the latents, and so the image model, stay valid): refine_decoder.py WORK MINUTES [--drawn N].

The standard layout has one more residual block per stage than the first training used; they are free to learn here. The
decoder only ever has to show the learned pictures, so it may learn them by heart. With --drawn, half of the latents
are those that the finished image model draws (N per picture), so that its small errors are cleaned up as well.
Writes WORK/vae_refined.pt, which export.py prefers.
"""
import argparse
import json
import os
import time

import numpy as np
import torch
from tokenizers import Tokenizer

import model as M
import vae
from common import Clock, cosine, launch
from encode import load_images
from optim import Optimizer
from sample import sample
from train_diffusion import TURBO
from train_vae import edges

BATCH = 6                                                  # per worker


def draw(work, rank, core, prompts, count):
    """`count` drawings per learned picture with random captions: (count, N, 64, 8, 8)."""
    net = torch.nn.ModuleDict(dict(text=M.TextEncoder(), image=M.ImageTransformer()))
    net.load_state_dict(torch.load(f"{work}/diffusion.pt"))
    tok, rng = Tokenizer.from_file(f"{work}/tokenizer/tokenizer.json"), np.random.default_rng(rank)
    noise = torch.randn(count, len(core), 64, 8, 8, generator=torch.Generator().manual_seed(rank + 10))
    return torch.stack([sample(net, tok, [str(rng.choice(prompts[k])) for k in core], TURBO, x) for x in noise])


def worker(rank, work, minutes, lr, count):
    spec = json.load(open(f"{work}/prompts.json"))
    core = spec["core"]
    images, lat = load_images(work)[core], torch.load(f"{work}/latents.pt")
    mean, std = lat["mean"].view(-1, 1, 1), lat["std"].view(-1, 1, 1)
    true, drawn = lat["z"][core], None
    if count:
        drawn = draw(work, rank, core, spec["prompts"], count)
        far = (true - drawn).square().mean((2, 3, 4))
        wrong = far > 0.5                                  # another picture was drawn: of no use here
        drawn[wrong] = true.expand_as(drawn)[wrong]
        print(f"worker {rank}: {wrong.sum()} of {far.numel()} unusable, error {far[~wrong].mean():.4f}", flush=True)
    refined = f"{work}/vae_refined.pt"
    model = vae.load(refined if os.path.exists(refined) else f"{work}/vae.pt", 2)
    named = [(n, p) for n, p in model.named_parameters() if n.startswith(("decoder", "post_quant")) and "time_conv" not in n]
    params = [p for _, p in named]
    model.encoder.requires_grad_(False)
    opt, clock, step, progress, seen, saved = Optimizer(named, lr=lr), Clock(minutes, params), 0, 0.0, [], time.time()
    torch.manual_seed(int(time.time()) * 2 + rank)
    while progress < 1:
        i = torch.randint(len(core), (BATCH,))
        z = true[i] + torch.randn_like(true[i]) * 0.15 * torch.rand(BATCH, 1, 1, 1)
        if count:
            mine = torch.rand(BATCH) < 0.7
            z[mine] = drawn[torch.randint(count, (BATCH,)), i][mine]
        x = images[i].float().div(127.5).sub(1)
        y = vae.decode(model, (z * std + mean).bfloat16().contiguous(memory_format=torch.channels_last))
        l1 = (y - x).abs().mean()
        (l1 + 0.5 * (edges(y) - edges(x)).abs().mean()).backward()
        progress = clock.average()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step(cosine(step, progress, warmup=30))
        seen.append(l1.item())
        step += 1
        if rank == 0 and step % 200 == 0:
            print(f"{step} {progress:.3f} l1 {np.mean(seen[-200:]):.4f}", flush=True)
        if rank == 0 and (time.time() - saved > 60 or progress >= 1):
            torch.save(model.state_dict(), refined + ".tmp")
            os.replace(refined + ".tmp", refined)
            saved = time.time()


if __name__ == "__main__":
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("work")
    cli.add_argument("minutes", type=float, help="processor minutes of each worker")
    cli.add_argument("--lr", type=float, default=3e-3)
    cli.add_argument("--drawn", type=int, default=0)
    a = cli.parse_args()
    launch(worker, a.work, a.minutes, a.lr, a.drawn)
