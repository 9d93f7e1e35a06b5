"""Reproducible Gaussian noise: torch's CPU generator, and the counter-based generator used on CUDA."""

import math
import os

import numpy as np
import torch
from common import Dice, save, write_json

SIZES = [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 20, 31, 32, 33, 47, 48, 100, 255, 1000, 4096]


def philox(counter, key, rounds=10):
    """counter: 4 uint64 arrays holding 32-bit values; key: two 32-bit integers."""
    c = [np.asarray(v, dtype=np.uint64) for v in counter]
    k0, k1 = int(key[0]), int(key[1])
    low = np.uint64(0xFFFFFFFF)
    for _ in range(rounds):
        p0 = c[0] * np.uint64(0xD2511F53)
        p1 = c[2] * np.uint64(0xCD9E8D57)
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            p1 & low,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            p0 & low,
        ]
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [v.astype(np.uint32) for v in c]


def box_muller(a, b):
    """Two uint32 arrays -> (sine part, cosine part) in float32."""
    f = np.float32
    u = a.astype(f) * f(2.3283064e-10) + f(2.3283064e-10 / 2)
    v = b.astype(f) * f(2.3283064e-10 * 6.2831855) + f(2.3283064e-10 * 6.2831855 / 2)
    s = np.sqrt(f(-2.0) * np.log(u))
    return (s * np.sin(v)).astype(f), (s * np.cos(v)).astype(f)


def cuda_randn(seed, n, threads=None, call_offset=0):
    """Values of a float32 normal fill of n elements. threads: size of the launch (None: one thread per element)."""
    key = (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF)
    threads = threads or n
    out = np.zeros(n, dtype=np.float32)
    rounds = math.ceil(n / (threads * 4))
    index = np.arange(threads, dtype=np.uint64)
    for r in range(rounds):
        zero = np.zeros(threads, dtype=np.uint64)
        g = philox(
            [zero + np.uint64(call_offset + r), zero, index & np.uint64(0xFFFFFFFF), index >> np.uint64(32)], key
        )
        s0, c0 = box_muller(g[0], g[1])
        s1, c1 = box_muller(g[2], g[3])
        for part, values in enumerate((s0, c0, s1, c1)):
            start = r * threads * 4 + part * threads
            count = min(threads, n - start)
            if count > 0:
                out[start : start + count] = values[:count]
    return out


def main(seed, out):
    dice = Dice(seed, "noise")
    folder = os.path.join(out, "noise")
    seeds = [0, 1, 42, dice.choices.randrange(2**31), 2**32 + 42, dice.choices.randrange(2**63), 2**64 - 1]
    tensors, rows = {}, []
    for s in seeds:
        for n in SIZES:
            value = torch.randn(n, generator=torch.Generator("cpu").manual_seed(s))
            row = {"seed": str(s), "n": n, "first": value[:4].tolist(), "last": value[-4:].tolist()}
            rows.append(row)
            if n in (5, 15, 16, 17, 33, 1000):
                tensors[f"cpu.{s}.{n}"] = value
    calls = []
    g = torch.Generator("cpu").manual_seed(seeds[3])
    for n in (5, 3, 20, 7, 1, 17, 2, 16, 1, 40):
        calls.append(n)
        tensors[f"cpu_sequence.{len(calls) - 1}"] = torch.randn(n, generator=g)
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
        for n in (5, 16, 33, 47, 64):
            tensors[f"cpu_{name}.42.{n}"] = torch.randn(
                n, generator=torch.Generator("cpu").manual_seed(42), dtype=dtype
            )
    uniform = torch.rand(6, generator=torch.Generator("cpu").manual_seed(42))
    philox_rows = []
    for s in seeds:
        for n, threads in ((1, None), (5, None), (64, None), (1000, None), (10000, 1024)):
            value = cuda_randn(s, n, threads)
            philox_rows.append({"seed": str(s), "n": n, "threads": threads or n, "first": value[:4].tolist(),
                                "last": value[-4:].tolist()})  # fmt: skip
            if n == 1000:
                tensors[f"philox.{s}.{n}"] = torch.from_numpy(value)
    known = philox([[0], [0], [0], [0]], (0, 0))
    save(os.path.join(folder, "noise.safetensors"), tensors)
    write_json(
        os.path.join(folder, "case.json"),
        {
            "component": "noise",
            "io": "noise.safetensors",
            "cpu_randn_float32": rows,
            "cpu_sequence": {"seed": str(seeds[3]), "sizes": calls, "note": "successive draws from one generator"},
            "cpu_rand_float32": {"seed": "42", "values": uniform.tolist()},
            "philox_4x32_10_zero": [int(v[0]) for v in known],
            "philox_randn_float32": philox_rows,
            "philox_note": "computed by the documented algorithm, not on a GPU",
            "tolerance": {"absolute": 2e-6},
        },
    )
