"""Train image transformer and text encoder together: flow matching, captions of equal length per step."""
import argparse
import copy
import json
import os
import re
import sys
import time
from collections import defaultdict

import numpy as np
import torch
from tokenizers import Tokenizer

import model as M
from common import Clock, cosine, launch
from optim import Optimizer

CAPTIONS, LEVELS = 32, 2                             # per worker and step
TURBO = [1.0, 0.978453, 0.95418, 0.926626, 0.89508, 0.845148, 0.704534, 0.414568]
FP8_IMAGE, FP8_TEXT = r"transformer_blocks.*(to_|img_mlp).*weight$", r"layers.*proj\.weight$"   # what export.py rounds
SYSTEM = "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n"
USER = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


def caption_table(work):
    """{token count: (picture numbers, kinds, token matrix)}, empty prompt, length of the system turn, learned pictures.

    A kind is twice the picture number, plus one where the caption is the plain name: those two are watched apart.
    """
    tok = Tokenizer.from_file(f"{work}/tokenizer/tokenizer.json")
    data = json.load(open(f"{work}/prompts.json"))
    rows = defaultdict(list)
    for i in data["core"]:
        texts = data["prompts"][i]
        for text, e in zip(texts, tok.encode_batch([SYSTEM + USER.format(t) for t in texts])):
            rows[len(e.ids)].append((i, 2 * i + (text.lower().rstrip(".") == data["names"][i].lower()), e.ids))
    empty = tok.encode(SYSTEM + USER.format(" ")).ids
    table = {n: [torch.tensor(c) for c in zip(*v)] for n, v in rows.items() if len(v) >= 44}
    return table, torch.tensor(empty), len(tok.encode(SYSTEM).ids), torch.tensor(data["core"])


def fp8(p):
    """A matrix rounded to the values that scaled FP8 can store (as export.py writes it)."""
    scale = p.abs().max() / 448
    return (p / scale).to(torch.float8_e4m3fn).float() * scale


def worker(rank, work, minutes, lr, start, hold, fp8_from):
    torch.manual_seed(int(time.time()) + rank)
    rng = np.random.default_rng(int(time.time()) * 2 + rank)
    data = torch.load(f"{work}/latents.pt")
    z = data["z"].flatten(2).transpose(1, 2).contiguous()                       # (N, 64 tokens, 64 channels)
    table, empty, drop, core = caption_table(work)
    lengths = list(table)
    weights = np.array([len(table[n][0]) for n in lengths], float)
    weights /= weights.sum()
    torch.manual_seed(0)
    master = torch.nn.ModuleDict(dict(text=M.TextEncoder(), image=M.ImageTransformer()))
    if start:
        master.load_state_dict(torch.load(start))
    torch.manual_seed(int(time.time()) + rank)
    fast = copy.deepcopy(master).bfloat16()                                      # working copy; the master stays float32
    named = [(n, p) for n, p in master.named_parameters() if n != "text.norm.weight"]
    shadow = [p for n, p in fast.named_parameters() if n != "text.norm.weight"]
    params = [p for _, p in named]
    rounded = [bool(re.search(FP8_IMAGE if n.startswith("image.") else FP8_TEXT, n)) for n, _ in named]
    opt = Optimizer(named, lr=lr, adam=("embed", "img_in", "proj_out", "time_text", "modulation", "norm_out"))
    clock, step, progress, seen, saved = Clock(minutes, params), 0, 0.0, [], time.time()
    turbo, trouble, hard = torch.tensor(TURBO), torch.full((2 * len(z),), 0.3), torch.ones(2 * len(z))
    while progress < 1:
        for p, q, r in zip(params, shadow, rounded):
            q.data.copy_(fp8(p.data) if r and progress >= fp8_from else p.data)
        if rng.random() < 0.06:                                                  # classifier-free guidance
            pic, kind, ids = core[torch.randint(len(core), (CAPTIONS,))], None, empty[None].expand(CAPTIONS, -1)
        else:
            n = rng.choice(lengths, p=weights)
            j = torch.multinomial(hard[table[n][1]], CAPTIONS, replacement=True)
            pic, kind, ids = (c[j] for c in table[n])
        u = (torch.arange(LEVELS) + torch.rand(CAPTIONS, LEVELS)) / LEVELS
        t = 2 * u / (1 + u)
        t = torch.where(torch.rand_like(t) < 0.7, turbo[torch.randint(8, t.shape)], t).clamp(0.02, 1).flatten()
        x0 = z[pic].repeat_interleave(LEVELS, 0)
        noise = torch.randn_like(x0)
        w = t[:, None, None]
        text = fast["text"](ids, torch.bfloat16)[:, drop:]
        v = fast["image"](text, ((1 - w) * x0 + w * noise).bfloat16(), t).float()
        err = (v - (noise - x0)).square().mean((1, 2))
        err.mean().backward()
        if kind is not None:                                                     # captions that still go wrong come up more often
            high = t > 0.9
            for k, e in zip(kind.repeat_interleave(LEVELS)[high].tolist(), err.detach()[high].tolist()):
                trouble[k] += 0.2 * (e - trouble[k])
            if step % 50 == 49:
                hard = (trouble / trouble.median()).square().clamp(0.3, 4)
        for p, q in zip(params, shadow):
            p.grad = None if q.grad is None else q.grad.float()
            q.grad = None
        progress = clock.average()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step(cosine(step, progress, warmup=15 if start else 60, hold=hold))
        seen.append([err[t > 0.9].mean().item(), err[(t > 0.35) & (t <= 0.9)].mean().item(), err[t <= 0.35].mean().item()])
        step += 1
        if rank == 0 and step % 50 == 0:
            print(f"{step} {progress:.3f} loss high/mid/low {np.round(np.nanmean(seen[-50:], 0), 4)}", flush=True)
            if time.time() - saved > 30:
                torch.save(master.state_dict(), f"{work}/diffusion.tmp")
                os.replace(f"{work}/diffusion.tmp", f"{work}/diffusion.pt")
                saved = time.time()
    if rank == 0:
        torch.save(master.state_dict(), f"{work}/diffusion.pt")


if __name__ == "__main__":
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("work")
    cli.add_argument("minutes", type=float, help="processor minutes of each worker")
    cli.add_argument("lr", type=float)
    cli.add_argument("start", nargs="?", help="checkpoint to continue from")
    cli.add_argument("--hold", type=float, default=0.0, help="share of the time before the learning rate falls")
    cli.add_argument("--fp8-from", type=float, default=2.0, help="progress after which the forward pass uses FP8-rounded matrices")
    a = cli.parse_args()
    launch(worker, a.work, a.minutes, a.lr, a.start, a.hold, a.fp8_from)
