"""The works that bench/compare has done by Kuno and by a peer, and how much faster Kuno should be.

Rows of one kind differ in size alone; --quick takes the first of each. What is good and what would be excellent are
ratios, peer / Kuno in seconds, or shares, or seconds at most where there is no peer.
"""

from typing import NamedTuple

FASTER, SHARE, SECONDS = "ratio", "share", "seconds"


class Row(NamedTuple):
    name: str
    kind: str
    work: str  # in words
    ours: tuple  # what sides.py makes of it: a name, then parameters
    theirs: tuple  # the same; () where there is no peer
    good: float
    excellent: float | None
    judged: str = FASTER
    layers: tuple = ()  # that were measured, and that the model has
    quick: bool = True  # whether --quick may take it
    threads: tuple = ()  # with which alone it can be done; () if with any
    most_bytes: float | None = None  # that a file may have to be excellent


# Operations

MATRICES = [  # rows, width, out: of Z-Image, Krea 2, Qwen-Image 2.1 and Qwen-Image, at 512 pixels
    (1024, 3840, 3840),
    (1024, 3840, 11520),
    (1024, 3840, 20480),
    (1024, 10240, 3840),
    (1024, 6144, 6144),
    (1024, 6144, 1536),
    (1024, 6144, 32768),
    (1024, 16384, 6144),
    (1024, 4096, 12288),
    (1024, 4096, 4096),
    (1024, 4096, 24576),
    (1024, 12288, 4096),
    (1024, 3072, 9216),
    (1024, 3072, 3072),
    (1024, 3072, 12288),
    (1024, 12288, 3072),
    (256, 3840, 4096),
    (4096, 3840, 4096),
]
COMPARED = [(1024, 3840, 4096), (4096, 3840, 4096)]  # where kuno bench has every format
FORMATS = {"F8_E4M3": "BF16", "Q8_0": "BF16", "Q4_K": "BF16", "ConvRot": "I8"}  # and what each is measured by
ATTENTIONS = [  # rows, heads, heads of keys
    (1024, 30, 30),
    (1024, 24, 24),
    (1024, 32, 32),
    (1152, 48, 12),
    (4096, 24, 24),
    (4608, 30, 30),
    (4608, 32, 32),
]
CONVOLUTIONS = [  # side, channels, out
    (64, 512, 512),
    (128, 512, 512),
    (256, 512, 256),
    (256, 256, 256),
    (512, 256, 128),
    (512, 128, 128),
    (64, 384, 384),
    (256, 192, 192),
    (512, 96, 96),
]


def linear(matrix, storage):
    rows, width, out = matrix
    return "ops", "--filter", f"linear {rows}x{width}x{out} {storage}"


def operations():
    for rows, width, out in MATRICES:
        size, matrix = f"{rows}x{width}x{out}", {"rows": rows, "width": width, "out": out}
        yield Row(f"gemm-bf16-{size}", "gemm-bf16", f"matrix {size}, BF16", linear(matrix.values(), "BF16"),
                  ("torch", {"kind": "gemm"} | matrix), 1.3, 1.7)
    for rows, width, out in MATRICES:
        size, matrix = f"{rows}x{width}x{out}", {"rows": rows, "width": width, "out": out}
        yield Row(f"gemm-int8-{size}", "gemm-int8", f"matrix {size}, INT8", linear(matrix.values(), "I8"),
                  ("torch", {"kind": "gemm_int8"} | matrix), 1.3, 1.7)
    for matrix in COMPARED:
        size = "x".join(map(str, matrix))
        for storage, other in FORMATS.items():
            yield Row(f"format-{storage}-{size}", f"format-{storage}", f"matrix {size}, {storage} by own {other}",
                      linear(matrix, storage), ("kuno", *linear(matrix, other)), 0.9, 0.95)
    for rows, heads, kv_heads in ATTENTIONS:
        name = f"{rows} {heads}/{kv_heads}x128"
        work = {"kind": "attention", "rows": rows, "heads": heads, "kv_heads": kv_heads, "head": 128}
        yield Row(f"attention-{rows}-{heads}", "attention", f"attention {name}",
                  ("ops", "--filter", f"attention {name}"), ("torch", work), 2, None)
    for side, channels, out in CONVOLUTIONS:
        name = f"{side}x{side} {channels} to {out}"
        work = {"kind": "conv", "side": side, "channels": channels, "out": out}
        yield Row(f"conv-{side}-{channels}-{out}", "conv", f"convolution 3x3, {name}",
                  ("ops", "--filter", f"conv3x3 {name}"), ("torch", work), 1.5, None)


def limits():
    """Shares of what the processor can do, also as an older one."""
    for tier, storage, words in (
        ("", "BF16", "BF16, of its best unit"),
        ("avx512", "BF16", "BF16, with AVX-512 alone"),
        ("avx512vnni", "I8", "INT8, with AVX-512 and VNNI alone"),
        ("avx2", "BF16", "BF16, with AVX2 alone"),
    ):
        for matrix in ((1024, 3840, 11520), (1024, 10240, 3840), (4096, 3840, 4096)):
            size = "x".join(map(str, matrix))
            yield Row(f"limit-{tier or 'best'}-{size}", f"limit-{tier or 'best'}", f"matrix {size}, {words}",
                      (*linear(matrix, storage), tier), (), 0.75, 0.85, SHARE)


# Stages. tokens: of the prompt alone, so that with the rest of what the model sees of its template they are about 128.


class Model(NamedTuple):
    title: str
    layers: int
    files: dict  # the diffusion model's storage is the row's
    peer: str  # the kind of work in torch_peer.py
    tokens: int
    measured: int  # layers, of which a step is measured


ENCODER = ("qwen3-4b", "q8_0", 2)
MODELS = {
    "z-image": Model("Z-Image", 30, {"text_encoder": ENCODER, "vae": ("flux-ae", "bf16", None)}, "z_image", 104, 2),
    "krea2": Model(
        "Krea 2",
        28,
        {"text_encoder": ("qwen3-vl-4b", "q4_k", None), "vae": ("qwen-image-vae", "bf16", None)},
        "krea2",
        120,
        2,
    ),
    "qwen-image-2.1": Model(
        "Qwen-Image 2.1",
        32,
        {"text_encoder": ("qwen3-vl-8b", "q4_k", 4), "vae": ("qwen-image-2.1-vae", "bf16", None)},
        "qwen_image_21",
        112,
        2,
    ),
}
PEER_TOKENS = 128


def stage(what, model, storage, layers, size, tokens):
    return what, {"model": model, "storage": storage, "layers": layers}, "--size", f"{size}x{size}", "--tokens", tokens


def steps():
    for size, names in ((256, ["z-image"]), (512, MODELS), (1024, MODELS)):  # the first is small, for --quick
        for name in names:
            model = MODELS[name]
            work = {"kind": model.peer, "layers": model.measured, "size": size, "tokens": PEER_TOKENS}
            yield Row(f"step-{name}-{size}", "step", f"{model.title}, a step at {size}x{size}, BF16",
                      stage("step", name, "bf16", model.measured, size, model.tokens), ("torch", work), 2, 3.5,
                      layers=(model.measured, model.layers))


def steps_of_sdcpp():
    for size in (256, 512):
        for name, storage in (("z-image", "q8_0"), ("z-image", "q4_k"), ("qwen-image-2.1", "q8_0"), ("krea2", "fp8")):
            model = MODELS[name]
            peer = {"package": "cyllama", "size": size, "tokens": model.tokens}
            yield Row(f"sdcpp-{name}-{storage}-{size}", "sdcpp",
                      f"{model.title}, a step at {size}x{size}, {storage.upper()}",
                      stage("step", name, storage, 1, size, model.tokens), ("sdcpp", peer), 20, 40,
                      layers=(1, model.layers))
    # The release that pip compiles for this processor reads nothing but whole models.
    peer = {"package": "stable_diffusion_cpp", "size": 256, "tokens": 104}
    yield Row("sdcpp-compiled-z-image-q8_0-256", "sdcpp-compiled", "Z-Image, a step at 256x256, Q8_0, compiled here",
              stage("step", "z-image", "q8_0", 30, 256, 104), ("sdcpp", peer), 20, 40, layers=(30, 30), quick=False)


def encoders():
    layers = 6
    for kind, storage, peer, good, excellent in (
        ("encoder-torch", "bf16", ("torch", {"kind": "qwen3_4b", "layers": layers}), 1.5, 2),
        ("encoder-llama", "q8_0", ("llama", {}), 10, 15),
        ("encoder-llama-q4_k", "q4_k", ("llama", {}), 10, 15),
    ):
        # The pipeline stops before the last layer, which the peers go through.
        encoder = {"encoder": ("qwen3-4b", storage, layers + 1)}
        yield Row(kind, kind.removesuffix("-q4_k"), f"Qwen3-4B, a prompt of {PEER_TOKENS} tokens, {storage.upper()}",
                  ("encode", encoder), peer, good, excellent, layers=(layers, 36))


def decoders():
    vaes = (("flux-ae", "flux_ae", "FLUX's autoencoder", "z-image", 1.5, 2.5),
            ("qwen-image-vae", "qwen_image_vae", "Qwen-Image's VAE", "krea2", 4, None),
            ("qwen-image-2.1-vae", "qwen_image_21_vae", "Qwen-Image 2.1's VAE", "qwen-image-2.1", 1.5, 2.5))
    for size, some in ((256, vaes[:1]), (512, vaes), (1024, vaes)):
        for name, kind, title, model, good, excellent in some:
            yield Row(f"decode-{name}-{size}", "decode", f"{title}, decoding {size}x{size}",
                      stage("decode", model, "bf16", MODELS[model].measured, size, 1),
                      ("torch", {"kind": kind, "size": size}), good, excellent)


def upscalers():
    for size, side in ((128, "128x128"), (256, "256x256")):
        yield Row(f"upscale-rrdb-{size}", "upscale", f"RRDBNet of 23 blocks, {side} to 4 times its size",
                  ("upscale", "rrdb", "bf16", "--size", side), ("torch", {"kind": "rrdb", "size": size}), 1.5, 2.5)


# Seconds of one processor that the targets name, and those that Pillow took on the same machine.
PNG_GOOD, PNG_EXCELLENT, PNG_OF_PILLOW, PNG_BYTES = 0.7, 0.35, 1.37, 13.6e6


def pictures():
    """What happens to finished ones."""
    yield Row("png-3840x2160", "png", "a PNG file of 3840x2160", ("picture", "--filter", "png 3840x2160"),
              ("torch", {"kind": "png", "width": 3840, "height": 2160}), round(PNG_OF_PILLOW / PNG_GOOD, 2),
              round(PNG_OF_PILLOW / PNG_EXCELLENT, 2), threads=(1,), most_bytes=PNG_BYTES)
    for width, height, to_width, to_height in ((1024, 1024, 4096, 4096), (3840, 2160, 1365, 768)):
        size = f"{width}x{height} to {to_width}x{to_height}"
        work = {"kind": "lanczos", "width": width, "height": height, "to_width": to_width, "to_height": to_height}
        yield Row(f"lanczos-{width}-{to_width}", "lanczos", f"Lanczos, {size}",
                  ("picture", "--filter", f"lanczos {size}"), ("torch", work), 2, 4, threads=(1,))


def programs():
    yield Row("load", "load", "8 GB of Z-Image in the page cache: what the first step takes more than the second",
              ("load", *stage("step", "z-image", "bf16", 20, 256, 16)[1:]), (), 2, None, SECONDS, (20, 30), quick=False)
    yield Row("demo", "demo", "the demo picture, from the start of the process to its end", ("demo",), (), 0.15, None,
              SECONDS)


ROWS = [
    *operations(),
    *limits(),
    *steps(),
    *steps_of_sdcpp(),
    *encoders(),
    *decoders(),
    *upscalers(),
    *pictures(),
    *programs(),
]
