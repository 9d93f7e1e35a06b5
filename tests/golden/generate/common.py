"""Helpers shared by the fixture generators."""

import json
import os
import random

import torch
from safetensors.torch import save_file

torch.set_num_threads(1)  # the same sums on every machine
torch.set_grad_enabled(False)


class Dice:
    """One seed gives both the random weights and the choice of dimensions, prompts and sizes."""

    def __init__(self, seed, salt):
        self.choices = random.Random(f"{seed}/{salt}")
        self.gen = torch.Generator().manual_seed(self.choices.getrandbits(48))

    def pick(self, values):
        return self.choices.choice(list(values))

    def normal(self, *shape, std=1.0):
        return torch.randn(*shape, generator=self.gen) * std


def as_bf16(tensor):
    """Round to the nearest BF16 value but keep float32, so that a BF16 file holds the same numbers."""
    return tensor.to(torch.bfloat16).to(torch.float32)


def randomize(module, dice, zero_centered_norms=False):
    """Give each parameter a random value of a sensible size, exactly representable in BF16."""
    for name, p in sorted(module.named_parameters()):
        leaf = name.rsplit(".", 1)[-1]
        parent = name.rsplit(".", 2)[-2] if "." in name else ""
        is_norm = leaf == "gamma" or "norm" in parent or (leaf == "weight" and p.ndim == 1)
        if is_norm and leaf in ("weight", "gamma"):
            value = dice.normal(*p.shape, std=0.25) + (0.0 if zero_centered_norms else 1.0)
        elif leaf == "bias":
            value = dice.normal(*p.shape, std=0.1)
        elif "table" in leaf or "pad_token" in leaf:
            value = dice.normal(*p.shape, std=0.4)
        elif "embed_tokens" in name:
            value = dice.normal(*p.shape, std=1.0)
            value[::5] *= 0.002  # small rows make the epsilon of the norms visible
        else:
            fan_in = p[0].numel()
            value = dice.normal(*p.shape, std=1.2 / fan_in**0.5)
        p.data.copy_(as_bf16(value))
    return module.float().eval()


def save(path, tensors, dtype=None, metadata=None):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    out = {}
    for key, value in tensors.items():
        value = value.detach().clone().contiguous()
        if dtype is not None and value.is_floating_point():
            value = value.to(dtype)
        out[key] = value
    save_file(out, path, metadata=metadata if metadata is not None else {"format": "pt"})
    os.chmod(path, 0o644)


def write_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, indent=1)
        f.write("\n")


TOLERANCE = {"float32_rel_l2": 1e-4, "bf16_compute_rel_l2": 3e-2}


def case(path, component, weights, config, steps, extra=None):
    """Write case.json beside io.safetensors."""
    value = {
        "component": component,
        "weights": weights,
        "config": config,
        "io": "io.safetensors",
        "entries": steps,
        "tolerance": TOLERANCE,
        "reference_compute": "float32 on CPU",
    }
    value.update(extra or {})
    write_json(os.path.join(path, "case.json"), value)


class Taps:
    """Record the outputs of chosen submodules."""

    def __init__(self):
        self.values = {}
        self.handles = []

    def add(self, module, name, pick=lambda out: out[0] if isinstance(out, tuple) else out):
        self.handles.append(
            module.register_forward_hook(lambda m, a, out: self.values.__setitem__(name, pick(out).detach().clone()))
        )

    def close(self):
        for handle in self.handles:
            handle.remove()
        return self.values


def start_index(steps, strength):
    """First step of an image-to-image run."""
    return int(max(steps - min(steps * strength, steps), 0))


def read_png(path):
    """8-bit RGB file -> [1, 3, H, W] in [-1, 1]."""
    import numpy as np
    from PIL import Image

    array = torch.from_numpy(np.array(Image.open(path).convert("RGB")))
    return (array.permute(2, 0, 1).to(torch.float32) / 127.5 - 1.0)[None]


def write_png(path, image):
    """image: [3, H, W] in [-1, 1]; rounds half to even after scaling to 0..255."""
    from PIL import Image

    array = ((image * 0.5 + 0.5).clamp(0, 1) * 255.0).round().to(torch.uint8).permute(1, 2, 0).numpy()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Image.fromarray(array).save(path)
    return array
