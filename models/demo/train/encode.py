"""Encode all pictures with the trained autoencoder: work/latents.pt (latents, per-channel mean and deviation); report quality."""
import json
import os
import sys

import numpy as np
import torch
from PIL import Image

import vae

def load_images(work):
    """The pictures chosen by captions.py, (N,4,128,128) uint8."""
    chosen = json.load(open(f"{work}/prompts.json"))["index"]
    return torch.from_numpy(np.load(f"{work}/images.npy")[chosen]).permute(0, 3, 1, 2)


def grid(t, cols=10):
    t = t.add(1).mul(127.5).round().clamp(0, 255).byte().permute(0, 2, 3, 1).numpy()
    sheet = Image.new("RGB", (cols * 132, (len(t) + cols - 1) // cols * 132), (200, 215, 230))
    for i, a in enumerate(t):
        im = Image.fromarray(a, "RGBA")
        sheet.paste(im, (i % cols * 132 + 2, i // cols * 132 + 2), im)
    return sheet


def main(work, keep_latents=False):
    torch.set_num_threads(1)
    model = vae.build()
    model.load_state_dict(torch.load(f"{work}/vae.pt"))
    model = model.to(memory_format=torch.channels_last)
    images = load_images(work)
    means, noise = [], 0
    with torch.no_grad():
        for x in images.split(32):
            x = x.float().div(127.5).sub(1).bfloat16().contiguous(memory_format=torch.channels_last)
            m, v = vae.encode(model, x)
            means.append(m)
            noise = noise + v.clamp(-12, 4).exp().mean((2, 3)).sum(0)
        z = torch.cat(means)
        mean, std = z.mean((0, 2, 3)), (z.var((0, 2, 3)) + noise / len(z)).sqrt()
        if os.path.exists(f"{work}/latents.pt"):                  # an image model is trained on these statistics: keep them
            old = torch.load(f"{work}/latents.pt")
            mean, std = old["mean"], old["std"]
        if not keep_latents:
            torch.save({"z": ((z - mean.view(1, -1, 1, 1)) / std.view(1, -1, 1, 1)), "mean": mean, "std": std}, f"{work}/latents.pt")
        pick = torch.arange(0, len(images), len(images) // 40)[:40]
        y = vae.decode(model, z[pick].bfloat16()).clamp(-1, 1)
        x = images[pick].float().div(127.5).sub(1)
        print("signal share per channel", (z.var((0, 2, 3)) / std ** 2).sort().values[::8].tolist(),
              "PSNR", (10 * torch.log10(4 / ((x - y) ** 2).mean((1, 2, 3)))).mean().item())
    grid(torch.stack([x, y], 1).flatten(0, 1)).save(f"{work}/vae.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
