"""Model files of random numbers: what is stored of each tensor in which format, and the writing of it.

Numbers are such that activations keep a length of about 1: matrices and kernels are normally distributed with a
variance of 1 / fan-in, norms are about 1, the rest is about 0. Random numbers are made once, in a pool for each kind
that is needed, and copied from random places of it, so that the disk sets the pace and not this program.
"""

import functools
import json
import math
import os
import random
import re
import statistics
import struct
from typing import NamedTuple

from measure import whole_file
from networks import NETWORKS, Kind

POOL_BYTES = 8 << 20
ALIGNMENT = 32  # of tensors in GGUF files; also enough for those of safetensors
# A byte stands for one of so many numbers that are distributed like all.
NORMAL = [statistics.NormalDist().inv_cdf((i + 0.5) / 256) for i in range(256)]
FP8_DEVIATION = 64  # of the codes' values; the largest is 448
INT8_PEAK = 127 / 3  # of numbers that are 1 at that deviation; the largest of NORMAL is below 3

STORAGE = {  # elements and bytes of a block; the type's number in GGUF files
    "F32": (1, 4, 0),
    "BF16": (1, 2, 30),
    "F8_E4M3": (1, 1, None),
    "I8": (1, 1, None),
    "U8": (1, 1, None),
    "Q8_0": (32, 34, 8),
    "Q4_K": (256, 144, 12),
}


class Normal(NamedTuple):
    mean: float
    deviation: float


class Stored(NamedTuple):
    """A tensor in a file. content: its bytes where they must be right, else how its numbers are distributed."""

    name: str
    storage: str
    shape: tuple
    content: object

    @property
    def bytes(self):
        elements, size, _ = STORAGE[self.storage]
        return math.prod(self.shape) // elements * size


# What is stored


def plain(tensor, storage="BF16"):
    if tensor.kind is Kind.NORM:
        return Stored(tensor.name, storage, tensor.shape, Normal(1, 0.1))
    deviation = 0.02 if tensor.kind is Kind.SMALL else tensor.fan_in**-0.5
    return Stored(tensor.name, storage, tensor.shape, Normal(0, deviation))


def as_text(name, value):
    data = json.dumps(value).encode()
    return Stored(name, "U8", (len(data),), data)


def fp8(tensor, marks):
    """Codes and their scale, whatever says that they are scaled."""
    deviation, layer = tensor.fan_in**-0.5, tensor.name.removesuffix(".weight")
    if marks == "none":
        yield Stored(tensor.name, "F8_E4M3", tensor.shape, Normal(0, deviation))
        return
    yield Stored(tensor.name, "F8_E4M3", tensor.shape, Normal(0, FP8_DEVIATION))
    scale = "scale_weight" if marks == "scaled_fp8" else "weight_scale"
    yield Stored(f"{layer}.{scale}", "F32", (), struct.pack("<f", deviation / FP8_DEVIATION))
    if marks == "comfy_quant":
        yield as_text(f"{layer}.comfy_quant", {"format": "float8_e4m3fn"})


def int8_convrot(tensor):
    """Turned rows look like any others: what is random stays so when it is turned."""
    layer, scale = tensor.name.removesuffix(".weight"), tensor.fan_in**-0.5 / INT8_PEAK
    yield Stored(tensor.name, "I8", tensor.shape, Normal(0, INT8_PEAK))
    yield Stored(f"{layer}.weight_scale", "F32", (tensor.shape[0], 1), Normal(scale, scale / 10))
    yield as_text(f"{layer}.comfy_quant", {"format": "int8_tensorwise", "convrot": True, "convrot_groupsize": 256})


def safetensors_of(tensors, storage, marks):
    if storage == "fp8" and marks == "scaled_fp8":
        yield Stored("scaled_fp8", "F8_E4M3", (0,), b"")
    for tensor in tensors:
        if storage == "fp8" and tensor.kind is Kind.BLOCK:
            yield from fp8(tensor, marks)
        elif storage == "int8" and tensor.kind in (Kind.BLOCK, Kind.TABLE):
            yield from int8_convrot(tensor)
        else:
            yield plain(tensor)


GGUF_TEXT = [
    (r"^model\.embed_tokens\.", "token_embd."),
    (r"^model\.norm\.", "output_norm."),
    (r"^lm_head\.", "output."),
    (r"^model\.layers\.", "blk."),
    (r"\.input_layernorm\.", ".attn_norm."),
    (r"\.post_attention_layernorm\.", ".ffn_norm."),
    (r"\.self_attn\.([qkv])_proj\.", r".attn_\1."),
    (r"\.self_attn\.([qk])_norm\.", r".attn_\1_norm."),
    (r"\.self_attn\.o_proj\.", ".attn_output."),
    (r"\.mlp\.(gate|up|down)_proj\.", r".ffn_\1."),
]


def gguf_name(name):
    return functools.reduce(lambda now, rule: re.sub(*rule, now), GGUF_TEXT, name)


def gguf_of(tensors, storage):
    """A vision tower would be a file of its own. What is no matrix stays wide, as converters leave it."""
    for tensor in tensors:
        if tensor.name.startswith("visual."):
            continue
        kept = "BF16" if tensor.kind is Kind.PLAIN else "F32"
        if tensor.kind in (Kind.BLOCK, Kind.TABLE):
            kept = storage if tensor.shape[1] % STORAGE[storage][0] == 0 else "Q8_0"
        yield plain(tensor._replace(name=gguf_name(tensor.name)), kept)


# How files begin


def lay_out(stored, alignment):
    """Where each tensor begins behind the head, and where the last one ends."""
    offsets, end = [], 0
    for tensor in stored:
        offsets.append(end + -end % alignment)
        end = offsets[-1] + tensor.bytes
    return offsets, end


def safetensors_head(stored, offsets, marks):
    header = {}
    if marks == "header":
        layers = {t.name.removesuffix(".weight"): {"format": "float8_e4m3fn"} for t in stored if t.storage == "F8_E4M3"}
        header["__metadata__"] = {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": layers})}
    for tensor, at in zip(stored, offsets):
        place = [at, at + tensor.bytes]
        header[tensor.name] = {"dtype": tensor.storage, "shape": tensor.shape, "data_offsets": place}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def gguf_text(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value):
    """A number or a text, and in front what it is."""
    match value:
        case str():
            return struct.pack("<I", 8) + gguf_text(value)
        case float():
            return struct.pack("<If", 6, value)
        case int():
            return struct.pack("<II", 4, value)


def gguf_head(stored, offsets, facts):
    version = 3
    head = [b"GGUF", struct.pack("<IQQ", version, len(stored), len(facts))]
    head += [gguf_text(name) + gguf_value(value) for name, value in facts.items()]
    for tensor, at in zip(stored, offsets):
        rank, number = len(tensor.shape), STORAGE[tensor.storage][2]
        head.append(gguf_text(tensor.name))
        head.append(struct.pack(f"<I{rank}QIQ", rank, *tensor.shape[::-1], number, at))  # the fastest dimension first
    data = b"".join(head)
    return data + bytes(-len(data) % ALIGNMENT)


# Random numbers


def woven(columns):
    """Byte i of every column, then byte i + 1 of every column, and so on."""
    data = bytearray(sum(map(len, columns)))
    for i, column in enumerate(columns):
        data[i :: len(columns)] = column
    return data


def numbers(pattern, wanted, picks):
    """Packed numbers: for each byte of picks that number of a list of 256."""
    packed = [struct.pack(pattern, number) for number in wanted]
    return woven([picks.translate(bytes(column)) for column in zip(*packed)])


def bf16(number):
    """Rounded half up, which is near enough."""
    return (struct.unpack("<I", struct.pack("<f", number))[0] + 0x8000) >> 16


def fp8_code(number):
    return min(range(256), key=lambda code: abs(fp8_value(code) - number))


@functools.lru_cache(maxsize=256)
def fp8_value(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    if exponent == 15 and mantissa == 7:
        return math.inf  # no number
    size = math.ldexp(8 + mantissa, exponent - 10) if exponent else math.ldexp(mantissa, -9)
    return -size if code & 128 else size


def q8_0(deviation, draw, count):
    """Blocks of d, 32 numbers of 8 bits; d varies a little, as it does where it follows the largest number."""
    scales = [deviation / INT8_PEAK * (0.75 + i / 512) for i in range(256)]
    scale, codes = numbers("<e", scales, draw(count)), bytes(round(INT8_PEAK * x) & 255 for x in NORMAL)
    return woven([scale[0::2], scale[1::2], *(draw(count).translate(codes) for _ in range(32))])


def q4_k(deviation, draw, count):
    """Blocks of d, dmin, 8 pairs of 6-bit scales, 256 numbers n of 4 bits: d * scale * n - dmin * minimum.

    Scale and minimum are the same number here, 32 to 63, and dmin = 7.5 d, so that numbers are even around 0.
    """
    scale = math.sqrt(sum(i * i for i in range(32, 64)) / 32) * math.sqrt((16 * 16 - 1) / 12)
    d = struct.pack("<ee", deviation / scale, 7.5 * deviation / scale)
    ends = bytes(i & 0b11011111 | 0b10100000 for i in range(256))  # both numbers that this byte has a part of
    first, middle = [draw(count).translate(ends) for _ in range(4)], bytes((i & 15) * 17 for i in range(256))
    last = [draw(count).translate(middle) for _ in range(4)]
    nibbles = [draw(count) for _ in range(128)]
    return woven([*(bytes([byte]) * count for byte in d), *first, *first, *last, *nibbles])


class Pools:
    """Random numbers in every form, made when they are first asked for."""

    def __init__(self, seed):
        self.random, self.made = random.Random(seed), {}

    def make(self, storage, mean, deviation):
        count, draw = POOL_BYTES // STORAGE[storage][1], self.random.randbytes
        wanted = [mean + deviation * x for x in NORMAL]
        match storage:
            case "F32":
                return numbers("<f", wanted, draw(count))
            case "BF16":
                return numbers("<H", map(bf16, wanted), draw(count))
            case "F8_E4M3":
                return numbers("<B", map(fp8_code, wanted), draw(count))
            case "I8":
                return numbers("<b", map(round, wanted), draw(count))
            case "Q8_0":
                return q8_0(deviation, draw, count)
            case "Q4_K":
                return q4_k(deviation, draw, count)

    def pieces(self, tensor):
        """The tensor's bytes, a piece at a time."""
        if isinstance(tensor.content, bytes):
            yield tensor.content
            return
        kind = (tensor.storage, *tensor.content)
        if kind not in self.made:
            self.made[kind] = self.make(*kind)
        pool, item, left = memoryview(self.made[kind]), STORAGE[tensor.storage][1], tensor.bytes
        while left:
            at = self.random.randrange(len(pool) // item) * item
            piece = pool[at : at + left]
            yield piece
            left -= len(piece)


# Whole files


class Layout(NamedTuple):
    head: bytes
    stored: list
    offsets: list  # behind the head
    bytes: int  # of the whole file


def layout(model, storage, layers=None, facts=None):
    """facts: what a GGUF file says beside what others of that model say."""
    network = NETWORKS[model]
    tensors = network.tensors(network.layers if layers is None else layers)
    if storage in ("q8_0", "q4_k"):
        stored = list(gguf_of(tensors, storage.upper()))
        offsets, end = lay_out(stored, ALIGNMENT)
        said = {"general.architecture": network.architecture} | network.facts(layers or network.layers)
        head = gguf_head(stored, offsets, said | (facts or {}))
    else:
        stored = list(safetensors_of(tensors, storage, network.marks))
        stored.sort(key=lambda tensor: -STORAGE[tensor.storage][1])  # all is aligned without room between
        offsets, end = lay_out(stored, 1)
        head = safetensors_head(stored, offsets, network.marks if storage == "fp8" else "none")
    return Layout(head, stored, offsets, len(head) + end)


def write_all(file, data):
    """An unbuffered file may take less than it is given: when the disk is full, before it says so."""
    left = memoryview(data)
    while left:
        left = left[file.write(left):]


def write(path, model, storage, layers=None, seed=0, sparse=False, facts=None):
    """sparse: without random numbers, as long as others, of no size on disk. The file appears when it is complete."""
    made, pools = layout(model, storage, layers, facts), Pools(seed)
    with whole_file(path) as file:
        write_all(file, made.head)
        for tensor, at in zip(made.stored, made.offsets):
            file.seek(len(made.head) + at)
            if sparse and not isinstance(tensor.content, bytes):
                continue
            for piece in pools.pieces(tensor):
                write_all(file, piece)
        os.ftruncate(file.fileno(), made.bytes)
