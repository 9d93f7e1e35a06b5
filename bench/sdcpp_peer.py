"""A peer of bench/compare: steps of stable-diffusion.cpp, from one of the packages that bring it.

    sdcpp_peer.py PACKAGE SIZE TOKENS THREADS DIFFUSION_MODEL TEXT_ENCODER VAE

PACKAGE is "cyllama", whose wheel is new enough for every model, or "stable_diffusion_cpp", which pip compiles for this
processor. Takes turns as `kuno bench --paced` does: between two steps it says {"bench": "ready"} and waits for a line.
"""

import json
import os
import sys
import time

import processor_time

MOST_STEPS = 997  # a number of tensors that no file has


class Turns:
    """What the library calls after each step, and while it loads. The first step is for warming up."""

    def __init__(self):
        self.start = self.cpu = None
        self.out = os.fdopen(os.dup(sys.stdout.fileno()), "w")  # one of the packages closes the other one

    def tell(self, **what):
        print(json.dumps(what), file=self.out, flush=True)

    def __call__(self, step, steps, *rest):
        if steps != MOST_STEPS or step < 1:
            return
        if self.start is not None:
            seconds, cpu_seconds = time.perf_counter() - self.start, processor_time.used() - self.cpu
            self.tell(bench="run", seconds=seconds, cpu_seconds=cpu_seconds)
        self.tell(bench="ready")
        if not sys.stdin.readline():
            os._exit(0)  # nothing is to be decoded, and nothing else stops the library
        self.cpu, self.start = processor_time.used(), time.perf_counter()


def draw_with_cyllama(prompt, size, threads, files):
    from cyllama.sd import stable_diffusion as sd

    wanted = sd.SDContextParams()
    wanted.diffusion_model_path, wanted.llm_path, wanted.vae_path = files
    wanted.n_threads, wanted.diffusion_flash_attn = threads, True
    sd.set_progress_callback(Turns())
    context = sd.SDContext(wanted)
    context.generate(prompt, width=size, height=size, sample_steps=MOST_STEPS, cfg_scale=1.0, seed=1)


def draw_with_stable_diffusion_cpp(prompt, size, threads, files):
    import stable_diffusion_cpp

    names = ("diffusion_model_path", "llm_path", "vae_path")
    context = stable_diffusion_cpp.StableDiffusion(
        **dict(zip(names, files)), n_threads=threads, diffusion_flash_attn=True, verbose=False
    )
    wanted = {"width": size, "height": size, "sample_steps": MOST_STEPS, "cfg_scale": 1.0, "seed": 1}
    context.generate_image(prompt, **wanted, progress_callback=Turns())


def main(package, size, tokens, threads, *files):
    draw = {"cyllama": draw_with_cyllama, "stable_diffusion_cpp": draw_with_stable_diffusion_cpp}[package]
    digits = "".join(str(i * 7 % 10) for i in range(int(tokens)))  # each is one token
    draw(digits, int(size), int(threads), files)
    sys.exit("sdcpp_peer: ended without being asked to")


if __name__ == "__main__":
    main(*sys.argv[1:])
