"""A peer of bench/compare: PyTorch and the networks of diffusers and transformers, warm in memory.

In bfloat16; in float32 where the processor has no instructions for bfloat16, without which PyTorch is several times
slower in it.

    torch_peer.py

Needs what requirements.txt names. Reads one JSON object per line and answers each with one:

    {"do": "about"}                          -> versions, kernels
    {"do": "prepare", "kind": K, …}          -> which of several ways is the fastest here; the parameters are those of
                                                the functions below
    {"do": "run", "threads": N}              -> seconds, cpu_seconds of that work, once
"""

import io
import json
import platform
import sys
import time

import diffusers
import numpy as np
import torch
import transformers
from PIL import Image
from torch import nn
from torch.nn import functional

import processor_time

REST = 0.1  # seconds: OpenMP's threads spin for a while after a work, and would slow whose turn is next
TRIES = 2  # of each way, to choose the fastest and to warm up
DTYPE = torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
DEVIATION = 0.02  # of random weights


def timed(work):
    cpu, start = processor_time.used(), time.perf_counter()
    with torch.inference_mode():
        work()
    return time.perf_counter() - start, processor_time.used() - cpu


# Operations: each returns the ways in which PyTorch can do it, by name.


def gemm(rows, width, out):
    x, layer = torch.randn(rows, width, dtype=DTYPE), nn.Linear(width, out, bias=False, dtype=DTYPE)
    packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), rows)
    return {
        "F.linear": lambda: layer(x),
        "prepacked": lambda: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], ""),
    }


def qlinear(unsigned, weight):
    """The product of numbers from 0 to 255 and from -127 to 127, prepared."""
    (rows, width), out = unsigned.shape, weight.shape[0]
    scales, zeros = torch.full((out,), 0.01), torch.zeros(out, dtype=torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(weight, [rows, width])
    pointwise = torch.ops.onednn.qlinear_pointwise
    return lambda: pointwise(unsigned, 0.02, 128, packed, scales, zeros, None, 1.0, 0, DTYPE, "none", [], "")


def saturates():
    """Whether sums of the largest products are cut off, as oneDNN's are that VPMADDUBSW makes."""
    work = qlinear(torch.full((1, 64), 255, dtype=torch.uint8), torch.full((64, 64), 127, dtype=torch.int8))
    exact = (255 - 128) * 127 * 64 * 0.02 * 0.01
    with torch.inference_mode():
        return abs(work().float() / exact - 1).max().item() > 0.01


def gemm_int8(rows, width, out):
    """Activations are quantised already, which is not counted on this side."""
    weight = torch.randint(-127, 128, (out, width), dtype=torch.int8)
    signed = torch.randint(-127, 128, (rows, width), dtype=torch.int8)
    unsigned = torch.randint(0, 256, (rows, width), dtype=torch.uint8)
    return {
        "qlinear, sums saturate" if saturates() else "qlinear": qlinear(unsigned, weight),
        "int_mm": lambda: torch._int_mm(signed, weight.t()),
    }


def attention(rows, heads, kv_heads, head):
    """The shared keys and values are there for every head, as diffusers calls it."""
    q, k, v = (torch.randn(1, n, rows, head, dtype=DTYPE) for n in (heads, kv_heads, kv_heads))
    k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
    return {"scaled_dot_product_attention": lambda: functional.scaled_dot_product_attention(q, k, v)}


def conv(side, channels, out):
    layer = nn.Conv2d(channels, out, 3, padding=1, dtype=DTYPE).to(memory_format=torch.channels_last)
    x = torch.randn(1, channels, side, side, dtype=DTYPE).to(memory_format=torch.channels_last)
    return {"channels_last": lambda: layer(x)}


# Networks, with as many layers as are wanted and random weights.


def leave(module):
    """In place of the initialisation, which takes longer than everything else; the numbers come afterwards."""


def network(make, **config):
    kinds = (nn.Linear, nn.Conv2d, nn.Conv3d, nn.Embedding)
    kept = [kind.reset_parameters for kind in kinds]
    torch.set_default_dtype(DTYPE)
    try:
        for kind in kinds:
            kind.reset_parameters = leave
        model = make(**config).eval()
    finally:
        torch.set_default_dtype(torch.float32)
        for kind, reset in zip(kinds, kept):
            kind.reset_parameters = reset
    pool = torch.randn((1 << 20) + 7, dtype=DTYPE) * DEVIATION
    with torch.no_grad():
        for tensor in [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]:
            if tensor.ndim == 1:
                tensor.fill_(0.5)
            else:
                for piece in tensor.view(-1).split(pool.numel()):
                    piece.copy_(pool[: piece.numel()])
    return model


def z_image(layers, size, tokens):
    model = network(diffusers.ZImageTransformer2DModel, n_layers=layers)
    latent, text = torch.randn(16, 1, size // 8, size // 8, dtype=DTYPE), torch.randn(tokens, 2560, dtype=DTYPE)
    return {"eager": lambda: model([latent], torch.tensor([0.5], dtype=DTYPE), [text], return_dict=False)}


def krea2(layers, size, tokens):
    model, side = network(diffusers.Krea2Transformer2DModel, num_layers=layers), size // 16
    ids = torch.zeros(tokens + side * side, 3)
    ids[tokens:, 1], ids[tokens:, 2] = torch.arange(side * side) // side, torch.arange(side * side) % side
    latent, text = torch.randn(1, side * side, 64, dtype=DTYPE), torch.randn(1, tokens, 12, 2560, dtype=DTYPE)
    return {"eager": lambda: model(latent, text, torch.tensor([0.5]), ids, return_dict=False)}


def qwen_image_21(layers, size, tokens):
    model, side = network(diffusers.QwenImage21Transformer2DModel, num_layers=layers), size // 16
    mask = torch.zeros(1, tokens + side * side // 4, dtype=torch.bool)
    mask[:, tokens:] = True
    latent, text = torch.randn(1, side * side, 64, dtype=DTYPE), torch.randn(1, tokens, 4096, dtype=DTYPE)
    return {"eager": lambda: model(latent, text, torch.tensor([0.5]), [[(1, side, side)]], mask, return_dict=False)}


def qwen3_4b(layers, tokens):
    config = transformers.Qwen3Config(
        vocab_size=4096,  # of which rows are only looked up
        hidden_size=2560,
        intermediate_size=9728,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
    )
    model, ids = network(transformers.Qwen3Model, config=config), torch.randint(0, 4096, (1, tokens))
    return {"eager": lambda: model(input_ids=ids, use_cache=False)}


def decoded(model, *latent):
    """In the faster order of channels, where the network has two dimensions."""
    z = torch.randn(*latent, dtype=DTYPE)
    if z.ndim == 4:
        model, z = model.to(memory_format=torch.channels_last), z.to(memory_format=torch.channels_last)
    return {"eager": lambda: model.decode(z, return_dict=False)}


def flux_ae(size):
    model = network(
        diffusers.AutoencoderKL,
        latent_channels=16,
        down_block_types=["DownEncoderBlock2D"] * 4,
        up_block_types=["UpDecoderBlock2D"] * 4,
        block_out_channels=(128, 256, 512, 512),
        layers_per_block=2,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )
    return decoded(model, 1, 16, size // 8, size // 8)


def qwen_image_vae(size):
    return decoded(network(diffusers.AutoencoderKLQwenImage), 1, 16, 1, size // 8, size // 8)


def qwen_image_21_vae(size):
    return decoded(network(diffusers.AutoencoderKLQwenImage21), 1, 64, 1, size // 16, size // 16)


def rrdb(size):
    """RRDBNet by spandrel, in the faster order of channels."""
    from spandrel.architectures.ESRGAN import ESRGAN

    model = network(ESRGAN).to(memory_format=torch.channels_last)
    x = torch.rand(1, 3, size, size, dtype=DTYPE).to(memory_format=torch.channels_last)
    return {"channels_last": lambda: model(x)}


# Finished pictures, by Pillow, which PyTorch's models give theirs to.


def picture(width, height):
    """Smooth structure and a little noise, distributed as in src/cli/bench_picture.c."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    base = 128 + 60 * np.sin(x / 190) * np.cos(y / 130) + 30 * np.sin((x + y) / 37)
    colours = np.stack([base, base * 0.8 + 20, 255 - base], -1)
    colours += np.random.default_rng(3).normal(0, 2, colours.shape)
    return Image.fromarray(np.clip(colours, 0, 255).astype(np.uint8))


def png(width, height):
    image = picture(width, height)

    def file():
        into = io.BytesIO()
        image.save(into, "PNG", compress_level=1)
        return into

    return {f"Pillow, level 1, {file().getbuffer().nbytes / 1e6:.1f} MB": file}


def lanczos(width, height, to_width, to_height):
    image = picture(width, height)
    return {"Pillow": lambda: image.resize((to_width, to_height), Image.Resampling.LANCZOS)}


WORKS = (
    gemm,
    gemm_int8,
    attention,
    conv,
    z_image,
    krea2,
    qwen_image_21,
    qwen3_4b,
    flux_ae,
    qwen_image_vae,
    qwen_image_21_vae,
    rrdb,
    png,
    lanczos,
)


def prepare(kind, **parameters):
    """The fastest way of doing a work, and its name."""
    ways = {work.__name__: work for work in WORKS}[kind](**parameters)
    seconds = {name: min(timed(way)[0] for _ in range(TRIES)) for name, way in ways.items()}
    name = min(seconds, key=seconds.get)
    return name, ways[name]


def about():
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
        "kernels": torch.backends.cpu.get_cpu_capability(),
        "precision": str(DTYPE).removeprefix("torch."),
    }


def main():
    diffusers.logging.set_verbosity_error()
    work = None
    for line in sys.stdin:
        asked = json.loads(line)
        do = asked.pop("do")
        if do == "about":
            answer = about()
        elif do == "prepare":
            work = None  # frees what it held
            torch.manual_seed(0)
            name, work = prepare(**asked)
            answer = {"way": name}
        else:
            torch.set_num_threads(asked["threads"])
            seconds, cpu_seconds = timed(work)
            time.sleep(REST)
            answer = {"seconds": seconds, "cpu_seconds": cpu_seconds}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
