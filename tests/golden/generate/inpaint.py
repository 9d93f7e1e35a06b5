"""What inpainting adds to whole runs: masks, their size on the latent's grid, and what of the result is shown."""

import os

import numpy as np
import torch
import vae as vae_fixtures
from PIL import Image
from common import case, read_png, save, write_png
from tokenizer import make_prompt

FADE = 4  # pixels over which what is drawn passes into what stays


def blocks(width, height, side, rng):
    """A mask of squares of `side` pixels, about half of them white: on a grid of them every way to scale is one."""
    while True:
        cells = rng.integers(0, 2, (height // side, width // side), dtype=np.uint8) * 255
        if 0 < (cells > 0).mean() < 1:
            return Image.fromarray(cells.repeat(side, 0).repeat(side, 1))


def strokes(width, height, rng):
    """A mask as a brush leaves it, with edges anywhere."""
    y, x = np.mgrid[0:height, 0:width]
    white = np.zeros((height, width), dtype=bool)
    for _ in range(3):
        cx, cy = rng.uniform(0, width), rng.uniform(0, height)
        white |= (x - cx) ** 2 + (y - cy) ** 2 < rng.uniform(0.15, 0.3) ** 2 * width * height
    return Image.fromarray(white.astype(np.uint8) * 255)


def values(mask):
    """[1, 1, H, W] of 0 and 1."""
    return torch.from_numpy((np.array(mask) >= 128).astype(np.float32))[None, None]


def on_latent(mask, h, w):
    """[1, 1, h, w]"""
    return torch.nn.functional.interpolate(values(mask), size=(h, w), mode="bilinear", align_corners=False)


def shown(mask):
    """How much of what is drawn is shown, [H, W]: in the mask, rising from its edge by the distance in steps to any of
    eight neighbours. A pixel is d steps inside if the smallest value in the square that reaches d - 1 pixels is 1."""
    m = values(mask)
    inside = m.clone()
    for reach in range(1, FADE + 1):
        inside += -torch.nn.functional.max_pool2d(-m, 2 * reach + 1, stride=1, padding=reach)
    return (inside / (FADE + 1))[0, 0].numpy()


def laid_over(original, drawn, mask):
    share = shown(mask)[..., None]
    a, b = (np.array(p, dtype=np.float64) for p in (original, drawn))
    return Image.fromarray(np.rint(a * (1 - share) + b * share).astype(np.uint8))


def known(x, mask, clean, noise, sigma):
    """The known picture at its noise level where the mask is 0."""
    return mask * x + (1 - mask) * ((1 - sigma) * clean + sigma * noise)


def whole_run(folder, dice, component, files, config, trace):
    """trace(prompt, width, height, steps, seed, image, strength, mask) -> tensors and a description."""
    width, height = dice.pick([(64, 48), (48, 64), (80, 48)])
    source, png = (os.path.join(folder, name) for name in ("input.png", "image.png"))
    write_png(source, vae_fixtures.smooth_image(dice, height, width)[0])
    mask = strokes(width, height, np.random.default_rng(dice.choices.randrange(2**31)))
    mask.save(os.path.join(folder, "mask.png"))
    steps, strength = dice.pick([(6, 0.5), (5, 0.8), (4, 1.0)])
    prompt, seed = make_prompt(dice), dice.choices.randrange(2**31)
    io, info = trace(prompt, width, height, steps, seed, read_png(source), strength, mask)
    save(os.path.join(folder, "io.safetensors"), io)
    write_png(png, io["image"])
    laid_over(Image.open(source), Image.open(png), mask).save(png)
    case(folder, component, files, config,
         [{"output": "ids, conditioning, noise, encoded, start_latent, step*, image"}],
         {"request": info | {"mask": "mask.png"}, "png": "image.png",
          "png_tolerance": "at most 1 per 8-bit channel value",
          "note": "image.png is laid over input.png; the other tensors are as the model left them"})  # fmt: skip
