"""GGUF: raw blocks of every type with their values, container files (v2, v3), files to refuse, a Q4_K model."""

import os
import struct

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from qwen_common import case, dit21_to_comfy, randomise, tensors

TYPES = [
    T.F32,
    T.F16,
    T.BF16,
    T.Q8_0,
    T.Q4_0,
    T.Q4_1,
    T.Q5_0,
    T.Q5_1,
    T.Q2_K,
    T.Q3_K,
    T.Q4_K,
    T.Q5_K,
    T.Q6_K,
    T.IQ4_NL,
    T.IQ4_XS,
]
HALF = {  # byte offsets of the F16 scale fields inside one block
    T.Q8_0: [0],
    T.Q4_0: [0],
    T.Q4_1: [0, 2],
    T.Q5_0: [0],
    T.Q5_1: [0, 2],
    T.Q2_K: [80, 82],
    T.Q3_K: [108],
    T.Q4_K: [0, 2],
    T.Q5_K: [0, 2],
    T.Q6_K: [208],
    T.IQ4_NL: [0],
    T.IQ4_XS: [0],
}


def random_blocks(kind, count, rng, scale=0.01):
    """Random bits with sane scale fields: every code path of a decoder is visited."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    if kind in (T.F32, T.F16, T.BF16):
        a = rng.normal(0, 1, count * 32).astype(np.float32)
        raw = gguf.quants.quantize(a, kind) if kind != T.F32 else a
        return np.frombuffer(raw.tobytes(), np.uint8).reshape(count, -1).copy()
    raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALF[kind]:
        h = (rng.normal(0, scale, count)).astype(np.float16)
        raw[:, at : at + 2] = h.view(np.uint8).reshape(count, 2)
    return raw


def values(kind, raw):
    if kind == T.F32:
        return raw.reshape(-1).view(np.float32).copy()
    flat = raw.reshape(-1)
    if kind in (T.F16, T.BF16):
        return (
            gguf.quants.dequantize(flat.view(np.float16) if kind == T.F16 else flat, kind)
            .astype(np.float32)
            .reshape(-1)
        )
    return np.concatenate([gguf.quants.dequantize(r, kind).reshape(-1) for r in raw]).astype(np.float32)


def blocks(out, rng, count):
    table = {}
    for kind in TYPES:
        raw = random_blocks(kind, count, rng)
        table[kind.name + ".raw"], table[kind.name + ".values"] = raw, values(kind, raw)
    tensors(f"{out}/blocks.safetensors", table)
    rng.normal(0, 1, (4, 256))


def metadata(w):
    w.add_name("synthetic")
    w.add_uint8("t.u8", 200)
    w.add_int8("t.i8", -7)
    w.add_uint16("t.u16", 60000)
    w.add_int16("t.i16", -12345)
    w.add_uint32("t.u32", 4000000000)
    w.add_int32("t.i32", -5)
    w.add_float32("t.f32", 0.25)
    w.add_bool("t.bool", True)
    w.add_string("t.str", "caf\u00e9")
    w.add_uint64("t.u64", 1 << 40)
    w.add_int64("t.i64", -(1 << 40))
    w.add_float64("t.f64", 1e-3)
    w.add_array("t.ints", [1, 2, 3])
    w.add_array("t.strs", ["a", "", "\u6c34"])
    w.add_array("t.floats", [0.5, -1.5])


def container(out, rng):
    os.makedirs(f"{out}/container", exist_ok=True)
    path = f"{out}/container/v3.gguf"
    w = gguf.GGUFWriter(path, "synthetic")
    w.add_custom_alignment(64)
    metadata(w)
    expected = {}
    for i, kind in enumerate(TYPES):
        rows = 2 + i % 2
        raw = random_blocks(kind, rows, rng)
        v = values(kind, raw).reshape(rows, -1)
        name = f"tensor.{kind.name.lower()}.weight"
        raw = raw.reshape(rows, -1)
        w.add_tensor(
            name,
            raw.view(np.float32) if kind == T.F32 else raw.view(np.float16) if kind == T.F16 else raw,
            raw_dtype=kind,
        )
        expected[name] = v
    w.add_tensor("tensor.rank1", np.arange(5, dtype=np.float32))
    expected["tensor.rank1"] = np.arange(5, dtype=np.float32)
    w.add_tensor("tensor.rank4", np.arange(2 * 3 * 2 * 4, dtype=np.float16).reshape(2, 3, 2, 4))
    expected["tensor.rank4"] = np.arange(48, dtype=np.float32).reshape(2, 3, 2, 4)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    data = open(path, "rb").read()
    open(f"{out}/container/v2.gguf", "wb").write(data[:4] + struct.pack("<I", 2) + data[8:])
    tensors(f"{out}/container/expected.safetensors", expected)
    case(
        f"{out}/container",
        component="gguf",
        alignment=64,
        tolerance={"max_ulp": 1},
        files=["v3.gguf", "v2.gguf"],
        metadata={
            "general.architecture": "synthetic",
            "general.name": "synthetic",
            "general.alignment": 64,
            "t.u8": 200,
            "t.i8": -7,
            "t.u16": 60000,
            "t.i16": -12345,
            "t.u32": 4000000000,
            "t.i32": -5,
            "t.f32": 0.25,
            "t.bool": True,
            "t.str": "caf\u00e9",
            "t.u64": 1 << 40,
            "t.i64": -(1 << 40),
            "t.f64": 0.001,
            "t.ints": [1, 2, 3],
            "t.strs": ["a", "", "\u6c34"],
            "t.floats": [0.5, -1.5],
        },
        note=(
            "expected.safetensors shapes are row-major; the file stores dimensions fastest first. v2 differs only in"
            " the version field."
        ),
    )
    bad = f"{out}/refuse"
    os.makedirs(bad, exist_ok=True)

    def s(b):
        return struct.pack("<Q", len(b)) + b

    def file(name, version=3, count=1, kv=b"", n_kv=0, info=None, tail=b"", magic=b"GGUF"):
        info = s(b"a") + struct.pack("<IQIQ", 1, 8, 0, 0) if info is None else info
        head = magic + struct.pack("<IQQ", version, count, n_kv) + kv + info
        open(f"{bad}/{name}.gguf", "wb").write(head + b"\0" * (-len(head) % 32) + tail)

    ok = np.zeros(8, np.float32).tobytes()
    file("bad-magic", magic=b"GGML", tail=ok)
    file("version-1", version=1, tail=ok)
    file("big-endian", version=0x03000000, tail=ok)
    file("data-beyond-end", tail=ok[:16])
    file("misaligned-offset", info=s(b"a") + struct.pack("<IQIQ", 1, 8, 0, 4), tail=ok + ok)
    file("unknown-type", info=s(b"a") + struct.pack("<IQIQ", 1, 8, 4, 0), tail=ok)
    file("five-dimensions", info=s(b"a") + struct.pack("<IQQQQQIQ", 5, 8, 1, 1, 1, 1, 0, 0), tail=ok)
    file("size-overflow", info=s(b"a") + struct.pack("<IQQIQ", 2, 1 << 40, 1 << 40, 0, 0), tail=ok)
    file("row-not-whole-blocks", info=s(b"a") + struct.pack("<IQIQ", 1, 33, 8, 0), tail=ok * 4)
    file("duplicate-name", count=2, info=(s(b"a") + struct.pack("<IQIQ", 1, 8, 0, 0)) * 2, tail=ok)
    file("huge-count", count=1 << 60, tail=ok)
    file("string-beyond-end", kv=struct.pack("<Q", 1 << 50), n_kv=1, tail=ok)
    file("zero-alignment", kv=s(b"general.alignment") + struct.pack("<II", 4, 0), n_kv=1, tail=ok)
    file("nested-array-depth", kv=s(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100, n_kv=1, tail=ok)
    open(f"{bad}/truncated-header.gguf", "wb").write(data[:150])


def model_q4k(out, seed, rng):
    """A 2.1 transformer with real axes (head 128) whose matrices are Q4_K blocks; values of the decoded weights."""
    import qwen21_dit
    from diffusers.models.transformers.transformer_qwenimage21 import QwenImage21Transformer2DModel

    model = QwenImage21Transformer2DModel(
        num_layers=1, num_attention_heads=2, attention_head_dim=128, context_in_dim=256
    )
    randomise(model, seed)
    plain = dit21_to_comfy(model.state_dict())
    folder = f"{out}/qwen21-dit-q4_k"
    os.makedirs(folder, exist_ok=True)
    w = gguf.GGUFWriter(f"{folder}/model.gguf", "qwen_image21")
    held = {}
    for k, v in plain.items():
        a = v.numpy().copy()
        if a.ndim == 2 and a.shape[1] % 256 == 0 and k.startswith("transformer_blocks"):
            raw = random_blocks(T.Q4_K, a.size // 256, rng)
            d = np.float16(0.0003 * (1 + 0.2 * rng.normal(size=len(raw)))).view(np.uint8).reshape(-1, 2)
            m = np.float16(0.0022 * (1 + 0.2 * rng.normal(size=len(raw)))).view(np.uint8).reshape(-1, 2)
            raw[:, 0:2], raw[:, 2:4] = d, m
            held[k] = torch.from_numpy(values(T.Q4_K, raw).reshape(a.shape))
            w.add_tensor(k, raw.reshape(a.shape[0], -1), raw_dtype=T.Q4_K)
        elif a.ndim == 2:
            q = gguf.quants.quantize(a, T.Q8_0)
            held[k] = torch.from_numpy(gguf.quants.dequantize(q, T.Q8_0).reshape(a.shape).copy())
            w.add_tensor(k, q, raw_dtype=T.Q8_0)
        else:
            held[k] = v
            w.add_tensor(k, a)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    for k in list(held):
        if k.endswith("gate_up.weight"):
            t = held.pop(k)
            held[k.replace("gate_up", "gate_layer")], held[k.replace("gate_up", "proj")] = t.chunk(2)
    model.load_state_dict(held)
    gen = torch.Generator().manual_seed(seed)
    e, r, x = (
        torch.randn(1, 9, 256, generator=gen),
        torch.randn(1, 16, 64, generator=gen),
        torch.randn(1, 24, 64, generator=gen),
    )
    runs, grids = [4, 5], [(4, 4), (4, 6)]
    o = qwen21_dit.forward(model, (16, 56, 56), runs, grids, e, [r, x], 0.6)
    tensors(
        f"{folder}/inputs.safetensors",
        {"encoder_hidden_states": e, "reference0": r[0].T.reshape(64, 4, 4), "step0.latents": x[0].T.reshape(64, 4, 6)},
    )
    tensors(f"{folder}/expected.safetensors", {"step0.output": o})
    case(
        folder,
        component="qwen21-dit",
        weights="model.gguf",
        config=dict(
            hidden=256,
            heads=2,
            head_dim=128,
            layers=1,
            context_dim=256,
            mlp_hidden=768,
            axes_dims_rope=[16, 56, 56],
            channels=64,
            eps=1e-6,
        ),
        text_runs=runs,
        grids=grids,
        timesteps=[0.6],
        note="Q4_K block matrices, Q8_0 for the rest, F32 vectors; float32 arithmetic on dequantised weights",
    )


def main(seed, out, variant):
    out = f"{out}/gguf"
    rng = np.random.default_rng(seed)
    blocks(out, rng, 6 + 3 * variant)
    container(out, rng)
    model_q4k(out, seed, rng)
