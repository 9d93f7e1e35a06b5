"""Networks that enlarge pictures, tiny, in float32: RRDBNet in its three spellings, SRVGG and MoSR, by spandrel."""

import os
import re

import numpy as np
import torch
from common import Dice, as_bf16, save
from qwen_common import case, picture
from spandrel import ModelLoader
from spandrel.architectures.Compact import Compact
from spandrel.architectures.ESRGAN import ESRGAN
from spandrel.architectures.MoSR import MoSR

TILE, MARGIN, TALL = 12, 6, 71


def randomise(module, dice):
    """On the BF16 grid, of a size that keeps pictures what they are; what the constructor has computed stays."""
    for name, p in sorted(module.named_parameters()):
        if name.endswith("bias"):
            value = dice.normal(*p.shape, std=0.1)
        elif p.ndim == 1:
            value = dice.normal(*p.shape, std=0.1) + (1 if "norm" in name else 0.25)
        else:
            value = dice.normal(*p.shape, std=1.2 / p[0].numel() ** 0.5)
        p.data.copy_(as_bf16(value))
    return module.eval()


# RRDBNet as ESRGAN spells it, and how others do: the number of blocks and the last layers depend on the model.


def renamed(state, blocks, doublings, spelling):
    single = {
        "new": ["conv_first", "conv_body", "conv_hr", "conv_last"],
        "bsrgan": ["conv_first", "trunk_conv", "HRconv", "conv_last"],
    }[spelling]
    dense = {"new": r"body.\1.rdb\2.conv\3.", "bsrgan": r"RRDB_trunk.\1.RDB\2.conv\3."}[spelling]
    up = {"new": "conv_up", "bsrgan": "upconv"}[spelling]
    layers = ["model.0", f"model.1.sub.{blocks}", f"model.{3 * doublings + 2}", f"model.{3 * doublings + 4}"]
    names = dict(zip(layers, single)) | {f"model.{3 * u}": f"{up}{u}" for u in range(1, doublings + 1)}
    out = {}
    for name, value in state.items():
        layer, leaf = name.rsplit(".", 1)
        if layer in names:
            out[f"{names[layer]}.{leaf}"] = value
        else:
            out[re.sub(r"^model\.1\.sub\.(\d+)\.RDB(\d)\.conv(\d)\.0\.", dense, name)] = value
    return out


def rrdb(dice, doublings, unshuffle=1, width=8, blocks=None):
    blocks = blocks or dice.pick((1, 2))
    model = ESRGAN(in_nc=3 * unshuffle**2, num_filters=width, num_blocks=blocks, scale=2**doublings,
                   shuffle_factor=unshuffle if unshuffle > 1 else None)
    return randomise(model, dice).state_dict(), blocks, doublings


def in_tiles(model, x, scale):
    """Each sees some pixels more around it, which are cut off again."""
    _, _, h, w = x.shape
    out = torch.zeros(1, 3, h * scale, w * scale)
    for y in range(0, h, TILE):
        for x0 in range(0, w, TILE):
            top, left = max(y - MARGIN, 0), max(x0 - MARGIN, 0)
            bottom, right = min(y + TILE, h), min(x0 + TILE, w)
            made = model(x[:, :, top:min(bottom + MARGIN, h), left:min(right + MARGIN, w)])
            made = made[:, :, (y - top) * scale:(bottom - top) * scale, (x0 - left) * scale:(right - left) * scale]
            out[:, :, y * scale:bottom * scale, x0 * scale:right * scale] = made
    return out


def write(root, name, family, state, image, dice, tiled=False, tall=False):
    loaded = ModelLoader().load_from_state_dict(dict(state))
    model, folder = loaded.model.float().eval(), f"{root}/{name}"
    fields = {}
    save(f"{folder}/weights.safetensors", state, torch.bfloat16)
    save(f"{folder}/expected.safetensors", {"output": model(image)[0]})
    if tiled:
        height, width = dice.pick((20, 24, 27)), dice.pick((25, 28, 32))
        x = torch.rand(1, 3, height, width, generator=dice.gen)
        save(f"{folder}/tiled.safetensors", {"input": x[0], "output": in_tiles(model, x, loaded.scale)[0]})
        fields = dict(tile=TILE, margin=MARGIN, tiled="tiled.safetensors")
    if tall:
        x = torch.cat([image, image.flip(2)] * 4, 2)[:, :, :TALL, :5]
        save(f"{folder}/tall.safetensors", {"input": x[0], "output": model(x)[0]})
        fields |= dict(tall="tall.safetensors")
    case(folder, component="upscaler", family=family, scale=loaded.scale, weights="weights.safetensors",
         input="../image.png", note="input = v/255 RGB [3,h,w]; output unclamped float", **fields)


def main(seed, out):
    root, dice = f"{out}/upscalers", Dice(seed, "upscalers")
    os.makedirs(root, exist_ok=True)
    image = picture(dice.pick((13, 15, 18)), dice.pick((10, 11, 14)), seed)
    image.save(f"{root}/image.png")
    x = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255

    state, *form = rrdb(dice, 2)
    write(root, "rrdb-x4-old", "rrdb", state, x, dice)
    write(root, "rrdb-x4-new", "rrdb", renamed(state, *form, "new"), x, dice, tiled=True)
    write(root, "rrdb-x4-bsrgan", "rrdb", renamed(state, *form, "bsrgan"), x, dice)
    for name, doublings in (("rrdb-x1-old", 0), ("rrdb-x2-old", 1), ("rrdb-x8-old", 3)):
        write(root, name, "rrdb", rrdb(dice, doublings)[0], x, dice)
    for name, unshuffle in (("rrdb-x2-unshuffle", 2), ("rrdb-x1-unshuffle", 4)):
        state, *form = rrdb(dice, 2, unshuffle)
        write(root, name, "rrdb", renamed(state, *form, "new"), x, dice)
    state, *form = rrdb(dice, 2, width=16, blocks=1)  # as wide as is computed in another way
    write(root, "rrdb-x4-wide", "rrdb", renamed(state, *form, "new"), x, dice, tall=True)

    for name, scale in (("compact-x2", 2), ("compact-x4", 4)):
        model = Compact(num_feat=dice.pick((8, 12)), num_conv=dice.pick((2, 3)), upscale=scale)
        write(root, name, "compact", randomise(model, dice).state_dict(), x, dice)
    for name, scale, upsampler in (("mosr-x4-ps", 4, "ps"), ("mosr-x4-dys", 4, "dys"), ("mosr-x2-gps", 2, "gps"),
                                   ("mosr-x2-dys", 2, "dys")):
        model = MoSR(dim=16, n_block=dice.pick((2, 3)), upscale=scale, upsampler=upsampler)
        write(root, name, "mosr", randomise(model, dice).state_dict(), x, dice, tiled=name == "mosr-x4-dys")
