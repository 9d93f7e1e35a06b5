"""Scaled FP8 files: quantization of chosen linear weights and the three ways of marking them, and decoding tables."""

import json
import os

import torch
from common import Dice, save, write_json


def quantize(weight, scale=None):
    """E4M3FN storage with one float32 scale: scale = max|w| / 448, q = rne(w / scale)."""
    if scale is None:
        scale = (weight.abs().max() / 448.0).to(torch.float32)
    q = (weight / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    return q, scale.reshape(())


def dequantize(q, scale):
    return q.to(torch.float32) * scale


def quantized_state(state, layers):
    """Return (file tensors without markers, the state with those weights replaced by their dequantized values)."""
    stored, effective = {}, dict(state)
    for key, value in state.items():
        layer = key[: -len(".weight")] if key.endswith(".weight") else None
        if layer in layers:
            q, scale = quantize(value)
            stored[key] = q
            stored[layer + ".weight_scale"] = scale
            effective[key] = dequantize(q, scale)
        else:
            stored[key] = value.to(torch.bfloat16)
    return stored, effective


def conf(full_precision):
    value = {"format": "float8_e4m3fn"}
    if full_precision:
        value["full_precision_matrix_mult"] = True
    return value


def with_header_metadata(stored, layers, full_precision=()):
    """Style 1: one JSON string in the safetensors header."""
    table = {layer: conf(layer in full_precision) for layer in sorted(layers)}
    text = json.dumps({"format_version": "1.0", "layers": table})
    return dict(stored), {"_quantization_metadata": text}


def with_byte_tensors(stored, layers, full_precision=()):
    """Style 2: one U8 tensor of JSON bytes beside each quantized weight."""
    out = dict(stored)
    for layer in layers:
        data = json.dumps(conf(layer in full_precision)).encode("utf-8")
        out[layer + ".comfy_quant"] = torch.tensor(list(data), dtype=torch.uint8)
    return out, {"format": "pt"}


def with_old_names(stored, layers, prefix="", full_precision=False):
    """Style 3 (older files): scale_weight / scale_input and one marker tensor for the whole model."""
    out = {}
    for key, value in stored.items():
        if key.endswith(".weight_scale"):
            layer = key[: -len(".weight_scale")]
            out[layer + ".scale_weight"] = value
            out[layer + ".scale_input"] = torch.ones((), dtype=torch.float32)
        else:
            out[key] = value
    out[prefix + "scaled_fp8"] = torch.zeros(2 if full_precision else 0).to(torch.float8_e4m3fn)
    return out, {"format": "pt"}


def linear_layers(state, starts, ends):
    """Names of linear layers (2-D weights) under the given prefixes whose last part is listed."""
    names = set()
    for key, value in state.items():
        if key.endswith(".weight") and value.ndim == 2 and key.startswith(tuple(starts)):
            if key[: -len(".weight")].split(".")[-1] in ends:
                names.add(key[: -len(".weight")])
    return names


def save_raw(path, tensors, metadata):
    """Keep the dtypes as they are."""
    save(path, tensors, None, metadata)


def main(seed, out):
    dice = Dice(seed, "fp8")
    folder = os.path.join(out, "fp8")
    tables = {}
    codes = torch.arange(256, dtype=torch.uint8)
    for name, dtype in (("F8_E4M3", torch.float8_e4m3fn), ("F8_E5M2", torch.float8_e5m2)):
        values = codes.view(dtype).to(torch.float32)
        tables[name] = [("nan" if v != v else "inf" if v == float("inf") else "-inf" if v == -float("inf") else v)
                        for v in values.tolist()]  # fmt: skip
    samples = [0.0, -0.0, 1.0, 1.0625, 1.0624, 1.1875, 0.001953125, 0.0009765625, 0.00097656256, 0.0009, 0.015625, 0.01,
               447.0, 448.0, 449.0, 463.9, 464.0, 464.1, 480.0, 1e6, -448.0, -500.0, 0.3, -0.7, 3.14159265]  # fmt: skip
    samples += dice.normal(40, std=2.0).tolist()
    x = torch.tensor(samples, dtype=torch.float32)
    encoded = x.to(torch.float8_e4m3fn).view(torch.uint8).tolist()
    saturated = x.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8).tolist()
    write_json(
        os.path.join(folder, "tables.json"),
        {
            "component": "fp8",
            "decode": tables,
            "encode_e4m3": {"input": x.tolist(), "code_without_clamp": encoded, "code_after_clamp_to_448": saturated},
        },
    )
    # One linear layer in each marking style, with input and output.
    n_in, n_out, rows = dice.pick([48, 64]), dice.pick([24, 40]), 5
    weight, bias = dice.normal(n_out, n_in, std=0.05), dice.normal(n_out, std=0.1).to(torch.bfloat16).float()
    plain = dice.normal(n_in, n_in, std=0.1).to(torch.bfloat16).float()
    state = {"net.0.weight": weight, "net.0.bias": bias, "net.1.weight": plain}
    stored, effective = quantized_state(state, {"net.0"})
    inputs = dice.normal(rows, n_in)
    hidden = inputs @ plain.T
    io = {"input": inputs, "dequantized_weight": effective["net.0.weight"],
          "output": hidden @ effective["net.0.weight"].T + bias}  # fmt: skip
    save(os.path.join(folder, "io.safetensors"), io)
    save_raw(
        os.path.join(folder, "linear_header_metadata.safetensors"), *with_header_metadata(stored, {"net.0"}, {"net.0"})
    )
    save_raw(os.path.join(folder, "linear_comfy_quant.safetensors"), *with_byte_tensors(stored, {"net.0"}))
    save_raw(os.path.join(folder, "linear_scaled_fp8.safetensors"), *with_old_names(stored, {"net.0"}))
    prefixed = {"model.diffusion_model." + k: v for k, v in stored.items()}
    save_raw(
        os.path.join(folder, "linear_scaled_fp8_prefixed.safetensors"),
        *with_old_names(prefixed, {}, "model.diffusion_model.", True),
    )
    # Files that a strict loader must refuse.
    bad = dict(stored)
    del bad["net.0.weight_scale"]
    save_raw(os.path.join(folder, "bad_missing_scale.safetensors"), *with_header_metadata(bad, {"net.0"}))
    bad = dict(stored)
    bad["net.0.weight_scale"] = torch.ones(n_out)
    save_raw(os.path.join(folder, "bad_vector_scale.safetensors"), *with_byte_tensors(bad, {"net.0"}))
    bad, meta = with_byte_tensors(stored, {"net.0"})
    bad["net.0.comfy_quant"] = torch.tensor(list(b'{"format": "nvfp4"}'), dtype=torch.uint8)
    save_raw(os.path.join(folder, "bad_unknown_format.safetensors"), bad, meta)
    bad, meta = with_header_metadata(stored, {"net.0", "net.9"})
    save_raw(os.path.join(folder, "bad_layer_without_weight.safetensors"), bad, meta)
    bad, meta = with_byte_tensors(stored, {"net.0"})
    scale = plain.abs().amax(dim=1, keepdim=True) / 127.0
    bad["net.1.weight"] = (plain / scale).round().to(torch.int8)
    bad["net.1.weight_scale"] = scale
    bad["net.1.comfy_quant"] = torch.tensor(list(b'{"format": "int8_tensorwise"}'), dtype=torch.uint8)
    save_raw(os.path.join(folder, "bad_mixed_int8.safetensors"), bad, meta)
    bad, meta = with_byte_tensors(stored, {"net.0"})
    bad["net.0.comfy_quant"] = bad["net.0.comfy_quant"][:-3]
    save_raw(os.path.join(folder, "bad_truncated_json.safetensors"), bad, meta)
    bad, meta = with_byte_tensors(stored, {"net.0"})
    bad["net.0.bias"] = bad["net.0.bias"].to(torch.float8_e4m3fn)
    save_raw(os.path.join(folder, "bad_fp8_bias.safetensors"), bad, meta)
    write_json(
        os.path.join(folder, "case.json"),
        {
            "component": "fp8",
            "io": "io.safetensors",
            "network": "output = (input @ net.1.weight^T) @ dequantized(net.0.weight)^T + net.0.bias",
            "equal_files": ["linear_header_metadata.safetensors", "linear_comfy_quant.safetensors",
                            "linear_scaled_fp8.safetensors", "linear_scaled_fp8_prefixed.safetensors"],
            "refuse": {
                "bad_missing_scale.safetensors": "net.0 has no weight_scale",
                "bad_vector_scale.safetensors": "weight_scale is not a scalar",
                "bad_unknown_format.safetensors": "format nvfp4",
                "bad_layer_without_weight.safetensors": "metadata names net.9, which the file lacks",
                "bad_mixed_int8.safetensors": "net.1 has format int8_tensorwise",
                "bad_truncated_json.safetensors": "net.0.comfy_quant is not valid JSON",
                "bad_fp8_bias.safetensors": "net.0.bias is FP8",
            },
            "tolerance": {"dequantized_weight": "exact in float32", "float32_rel_l2": 1e-5},
        },
    )  # fmt: skip
