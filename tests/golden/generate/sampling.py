"""Schedules and samplers for flow-matching models."""

import math
import os

import numpy as np
import torch
from common import Dice, save, write_json


# ---------------------------------------------------------------- schedules
def exponential_shift(t, mu):
    return math.exp(mu) / (math.exp(mu) + (1.0 / t - 1.0)) if t > 0 else 0.0


def rational_shift(t, shift):
    return shift * t / (1.0 + (shift - 1.0) * t)


def mu_for(seq_len, x1, x2, y1=0.5, y2=1.15):
    slope = (y2 - y1) / (x2 - x1)
    return slope * seq_len + (y1 - slope * x1)


def comfy_table(kind, shift):
    if kind == "flux":
        return [exponential_shift(i / 10000, shift) for i in range(1, 10001)]
    return [rational_shift(i / 1000, shift) for i in range(1, 1001)]


def comfy_simple(table, steps):
    stride = len(table) / steps
    return [table[-(1 + int(i * stride))] for i in range(steps)] + [0.0]


def comfy_normal(kind, shift, steps, sgm=False):
    table = comfy_table(kind, shift)
    f = (lambda t: exponential_shift(t, shift)) if kind == "flux" else (lambda t: rational_shift(t, shift))
    start, end = table[-1], table[0]
    if sgm:
        ts = np.linspace(start, end, steps + 1)[:-1]
    else:
        ts = np.linspace(start, end, steps)
    return [f(t) for t in ts] + [0.0]


def sdcpp(kind, shift, steps):
    """The discrete schedule of stable-diffusion.cpp over its 1000 training steps."""
    f = exponential_shift if kind == "flux" else rational_shift
    ts = [999.0 - 999.0 / max(steps - 1, 1) * i for i in range(steps)]
    return [f((t + 1.0) / 1000.0, shift) for t in ts] + [0.0]


def diffusers_sigmas(config, steps, mu=None):
    from diffusers import FlowMatchEulerDiscreteScheduler

    scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, **config)
    scheduler.set_timesteps(sigmas=np.linspace(1.0, 1.0 / steps, steps).tolist(), mu=mu)
    return scheduler.sigmas.tolist()


def schedules(dice):
    rows = []
    for steps in sorted({1, 2, 4, 8, 9, 20, 52, dice.choices.randrange(3, 60)}):
        seq = dice.pick([256, 1024, 4096, 6400, 24, 2304])
        for name, mu in (("krea2-turbo", 1.15), ("krea2-raw", mu_for(seq, 256, 6400))):
            grid = torch.linspace(1, 0, steps + 1)
            ts = math.exp(mu) / (math.exp(mu) + (1.0 / grid - 1.0))
            rows.append({"schedule": name, "steps": steps, "image_tokens": seq, "mu": mu, "sigmas": ts.tolist()})
        for shift in (3.0, 6.0):
            s = diffusers_sigmas({"shift": shift}, steps)
            rows.append({"schedule": "flow-match-euler-static", "steps": steps, "shift": shift, "sigmas": s})
        mu = mu_for(seq, 256, 4096)
        s = diffusers_sigmas({"use_dynamic_shifting": True}, steps, mu)
        rows.append(
            {"schedule": "flow-match-euler-dynamic", "steps": steps, "image_tokens": seq, "mu": mu, "sigmas": s}
        )
        if steps > 1:
            qwen = {"use_dynamic_shifting": True, "base_shift": 0.5, "max_shift": 0.9, "base_image_seq_len": 256,
                    "max_image_seq_len": 8192, "shift_terminal": 0.02}  # fmt: skip
            mu = mu_for(seq, 256, 8192, 0.5, 0.9)
            s = diffusers_sigmas(qwen, steps, mu)
            rows.append({"schedule": "flow-match-euler-dynamic-terminal", "steps": steps, "image_tokens": seq, "mu": mu,
                         "shift_terminal": 0.02, "sigmas": s})  # fmt: skip
        for kind, shift in (("flux", 1.15), ("auraflow", 3.0), ("auraflow", 6.0)):
            table = comfy_table(kind, shift)
            rows.append({"schedule": "comfyui-simple", "sampling": kind, "steps": steps, "shift": shift,
                         "sigmas": comfy_simple(table, steps)})  # fmt: skip
            rows.append({"schedule": "comfyui-sgm-uniform", "sampling": kind, "steps": steps, "shift": shift,
                         "sigmas": comfy_normal(kind, shift, steps, sgm=True)})  # fmt: skip
            rows.append({"schedule": "sdcpp-discrete", "sampling": kind, "steps": steps, "shift": shift,
                         "sigmas": sdcpp(kind, shift, steps)})  # fmt: skip
            if steps > 1:
                rows.append({"schedule": "comfyui-normal", "sampling": kind, "steps": steps, "shift": shift,
                             "sigmas": comfy_normal(kind, shift, steps)})  # fmt: skip
    return rows


def strength_rows():
    rows = []
    for steps in (4, 8, 9, 20, 52):
        for strength in (0.0, 0.05, 0.3, 0.5, 0.6, 0.75, 0.99, 1.0):
            start = int(max(steps - min(steps * strength, steps), 0))
            encode = int(steps * strength)
            encode = steps - 1 if encode == steps else encode
            whole = steps if strength > 0.9999 else (0 if strength <= 0 else int(steps / strength))
            rows.append({"steps": steps, "strength": strength, "diffusers_start_index": start,
                         "diffusers_steps_run": steps - start, "comfyui_schedule_steps": whole,
                         "comfyui_steps_run": 0 if strength <= 0 else steps,
                         "sdcpp_start_index": steps - encode - 1, "sdcpp_steps_run": encode + 1})  # fmt: skip
    return rows


# ---------------------------------------------------------------- samplers
class Toy:
    """A stand-in for the network: clean estimate D(x, s) = 0.7 tanh((1 + 0.5 s) x) + b, velocity v = (x - D) / s."""

    def __init__(self, b):
        self.b, self.calls = b, []

    def clean(self, x, s):
        self.calls.append(float(s))
        return 0.7 * np.tanh((1.0 + 0.5 * s) * x) + self.b

    def velocity(self, x, s):
        return (x - self.clean(x, s)) / s


def euler(model, x, sigmas, noise):
    for s, n in zip(sigmas[:-1], sigmas[1:]):
        x = x + (n - s) * model.velocity(x, s)
    return x


def heun(model, x, sigmas, noise):
    for s, n in zip(sigmas[:-1], sigmas[1:]):
        d = model.velocity(x, s)
        if n == 0:
            x = x + (n - s) * d
        else:
            d2 = model.velocity(x + (n - s) * d, n)
            x = x + (n - s) * (d + d2) / 2
    return x


def euler_ancestral_flow(model, x, sigmas, noise, eta=1.0):
    for i, (s, n) in enumerate(zip(sigmas[:-1], sigmas[1:])):
        clean = model.clean(x, s)
        if n == 0:
            x = clean
            continue
        down = n * (1.0 + (n / s - 1.0) * eta)
        a_next, a_down = 1.0 - n, 1.0 - down
        renoise = math.sqrt(max(n * n - down * down * a_next * a_next / (a_down * a_down), 0.0))
        x = (down / s) * x + (1.0 - down / s) * clean
        if eta > 0:
            x = (a_next / a_down) * x + renoise * noise[i]
    return x


def dpmpp_2m_log_sigma(model, x, sigmas, noise):
    """Multistep in t = -log sigma, as ComfyUI's dpmpp_2m runs on any model."""
    old = None
    for i, (s, n) in enumerate(zip(sigmas[:-1], sigmas[1:])):
        clean = model.clean(x, s)
        if n == 0:
            x = clean
        else:
            h = math.log(s / n)
            estimate = clean
            if old is not None:
                r = math.log(sigmas[i - 1] / s) / h
                estimate = (1 + 1 / (2 * r)) * clean - (1 / (2 * r)) * old
            x = (n / s) * x - math.expm1(-h) * estimate
        old = clean
    return x


def res_multistep(model, x, sigmas, noise):
    """Second-order exponential multistep in t = -log sigma, without added noise."""
    old = None
    for i, (s, n) in enumerate(zip(sigmas[:-1], sigmas[1:])):
        clean = model.clean(x, s)
        if n == 0 or old is None:
            x = x + (n - s) * (x - clean) / s
        else:
            h = math.log(s / n)
            c2 = -math.log(sigmas[i - 1] / s) / h
            phi1 = math.expm1(-h) / -h
            phi2 = (phi1 - 1.0) / -h
            b1, b2 = phi1 - phi2 / c2, phi2 / c2
            x = math.exp(-h) * x + h * (b1 * clean + b2 * old)
        old = clean
    return x


def lcm(model, x, sigmas, noise):
    for i, (s, n) in enumerate(zip(sigmas[:-1], sigmas[1:])):
        clean = model.clean(x, s)
        x = clean if n == 0 else n * noise[i] + (1.0 - n) * clean
    return x


def with_diffusers(make):
    """Run a diffusers scheduler on the given sigmas (which must be 1 - ... decreasing, zero at the end)."""

    def run(model, x, sigmas, noise):
        scheduler = make(len(sigmas) - 1)
        scheduler.sigmas = torch.tensor(sigmas, dtype=torch.float64)
        scheduler.timesteps = torch.tensor([s * 1000.0 for s in sigmas[:-1]], dtype=torch.float64)
        sample = torch.from_numpy(x)[None, None]
        for i, t in enumerate(scheduler.timesteps):
            v = torch.from_numpy(model.velocity(sample.numpy(), sigmas[i]))
            sample = scheduler.step(v, t, sample, return_dict=False)[0].double()
        return sample.numpy()[0, 0]

    return run


def unipc(steps):
    from diffusers import UniPCMultistepScheduler

    s = UniPCMultistepScheduler(
        prediction_type="flow_prediction",
        use_flow_sigmas=True,
        solver_order=2,
        solver_type="bh2",
        lower_order_final=True,
        final_sigmas_type="zero",
    )
    s.set_timesteps(steps)
    return s


SAMPLERS = {
    "euler": euler,
    "heun": heun,
    "euler-ancestral-flow": euler_ancestral_flow,
    "dpmpp-2m-log-sigma": dpmpp_2m_log_sigma,
    "res-multistep": res_multistep,
    "lcm": lcm,
    "unipc-bh2": with_diffusers(unipc),
}


def main(seed, out):
    dice = Dice(seed, "sampling")
    folder = os.path.join(out, "sampling")
    value = {"component": "schedules", "rows": schedules(dice), "image_to_image": strength_rows()}
    write_json(os.path.join(folder, "schedules.json"), value | {"tolerance": {"absolute": 2e-6}})
    tensors, rows = {}, []
    for n in range(3):
        steps = dice.pick([4, 6, 8])
        kind = dice.pick(["krea", "static"])
        if kind == "krea":
            sigmas = [exponential_shift(1 - i / steps, 1.15) for i in range(steps + 1)]
        else:
            sigmas = [rational_shift(1 - i / steps, 3.0) for i in range(steps + 1)]
        # UniPC works in half-log-SNR, which has no finite start at sigma = 1: it is given a slightly lower first sigma.
        lowered = [0.999] + sigmas[1:]
        b = dice.normal(12, std=0.3).double().numpy()
        x = dice.normal(12).double().numpy()
        noise = dice.normal(steps, 12).double().numpy()
        tensors[f"{n}.b"], tensors[f"{n}.x"] = torch.from_numpy(b), torch.from_numpy(x)
        tensors[f"{n}.noise"] = torch.from_numpy(noise)
        for name, f in SAMPLERS.items():
            model = Toy(b)
            used = lowered if name == "unipc-bh2" else sigmas
            tensors[f"{n}.{name}"] = torch.from_numpy(np.asarray(f(model, x.copy(), used, noise)))
            rows.append({"prefix": f"{n}.", "sampler": name, "sigmas": used, "network_calls": model.calls})
    save(os.path.join(folder, "io.safetensors"), tensors)
    write_json(os.path.join(folder, "samplers.json"), {
        "component": "samplers", "io": "io.safetensors", "network": Toy.__doc__, "rows": rows,
        "note": "b, x, noise and results are float64; noise row i is used at step i by the stochastic samplers",
        "tolerance": {"float64_rel_l2": 1e-6, "float32_rel_l2": 1e-4}})  # fmt: skip
