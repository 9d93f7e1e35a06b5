"""INT8 ConvRot safetensors: linear layers, embedding rows, scales, other scaled layouts."""

import json

import torch
from comfy_kitchen.backends.eager import quantization as q
from comfy_kitchen.tensor.int8_utils import _build_hadamard
from qwen_common import case, tensors


def config(**fields):
    return torch.frombuffer(bytearray(json.dumps(fields).encode()), dtype=torch.uint8).clone()


def main(seed, out, variant):
    out = f"{out}/int8-convrot"
    gen = torch.Generator().manual_seed(seed)
    v = variant
    weights, expected, inputs = {}, {}, {}
    for name, n, k, group, bias in (
        ("a", 24, 64, 16, False),
        ("b", 40, 256, 64, True),
        ("c", 32, 512, 256, False),
        ("d", 7 + v, 768, 256, True),
        ("e", 16, 16, 4, False),
    ):
        w = torch.randn(n, k, generator=gen) / k**0.5
        w[:, 3] *= 12  # an outlier column, the reason for rotating
        b = torch.randn(n, generator=gen) if bias else None
        x = torch.randn(5, k, generator=gen)
        x[:, 5] *= 20
        x[4] = 0
        qw, s = q.quantize_int8_convrot_weight(w, group)
        weights[name + ".weight"], weights[name + ".weight_scale"] = qw, (
            s.reshape(-1, 1) if name != "b" else s.reshape(-1)
        )
        weights[name + ".comfy_quant"] = config(format="int8_tensorwise", convrot=True, convrot_groupsize=group)
        if bias:
            weights[name + ".bias"] = b
        inputs[name + ".x"], expected[name + ".original_weight"] = x, w
        h = _build_hadamard(group)
        expected[name + ".rotated_x"] = torch.matmul(x.reshape(5, k // group, group), h).reshape(5, k)
        xq, xs = q.quantize_int8_rowwise(expected[name + ".rotated_x"])
        expected[name + ".x_q"], expected[name + ".x_scale"] = xq, xs
        expected[name + ".y"] = q.int8_linear(x, qw, s, b, torch.float32, convrot=True, convrot_groupsize=group)
        deq = q.dequantize_int8_convrot_weight(qw, s, group)
        expected[name + ".weight"] = deq
        expected[name + ".y_weight_only"] = torch.nn.functional.linear(x, deq, b)
    # scalar scale, no rotation
    w, x = torch.randn(12, 48, generator=gen), torch.randn(3, 48, generator=gen)
    qw, s = q.quantize_int8_tensorwise(w)
    weights["plain.weight"], weights["plain.weight_scale"], weights["plain.comfy_quant"] = (
        qw,
        s.reshape(()),
        config(format="int8_tensorwise"),
    )
    inputs["plain.x"], expected["plain.y"], expected["plain.weight"] = (
        x,
        q.int8_linear(x, qw, s, None, torch.float32),
        qw.float() * s,
    )
    # embedding table
    table = torch.randn(20, 256, generator=gen) * 0.02
    qt, s = q.quantize_int8_convrot_weight(table, 64)
    ids = torch.tensor([0, 19, 7, 7, 3])
    weights["embed.weight"], weights["embed.weight_scale"], weights["embed.comfy_quant"] = (
        qt,
        s.reshape(-1, 1),
        config(format="int8_tensorwise", convrot=True, convrot_groupsize=64),
    )
    inputs["embed.ids"], expected["embed.rows"] = ids.to(torch.int32), q.dequantize_int8_embedding(qt, s, ids, 64, 0)
    # scaled FP8, both spellings
    w, x = torch.randn(8, 32, generator=gen), torch.randn(2, 32, generator=gen)
    s = (w.abs().max() / 448).float()
    f8 = (w / s).to(torch.float8_e4m3fn)
    weights["fp8.weight"], weights["fp8.weight_scale"], weights["fp8.comfy_quant"] = (
        f8,
        s,
        config(format="float8_e4m3fn"),
    )
    weights["old.weight"], weights["old.scale_weight"] = f8.clone(), s.clone()
    inputs["fp8.x"], expected["fp8.weight"] = x, f8.float() * s
    expected["fp8.y"] = torch.nn.functional.linear(x, f8.float() * s)
    for n in (4, 16):
        expected[f"hadamard{n}"] = _build_hadamard(n)
    tensors(f"{out}/weights.safetensors", weights)
    tensors(f"{out}/inputs.safetensors", inputs)
    tensors(f"{out}/expected.safetensors", expected)
    case(
        out,
        component="int8-convrot",
        weights="weights.safetensors",
        inputs="inputs.safetensors",
        layers=dict(a=16, b=64, c=256, d=256, e=4),
        tolerance={
            "rel_l2": 1e-4,
            "x_q_mismatch_fraction": 0.002,
            "x_q_max_difference": 1,
            "y_rel_l2": 5e-3,
            "y_weight_only_rel_l2": 1e-4,
        },
        note=(
            "y: rotate, quantise per row, integer product, scale. y_weight_only: dequantised and un-rotated weight in"
            " float32. rotated_x, x_scale, weight, rows: rel_l2 1e-4. x_q may differ by one where the rotated value"
            " sits on a rounding tie; then y differs too, hence its wider tolerance. Row 4 of every x is zero."
        ),
    )
