"""Data-parallel helper: one single-threaded process per core, gradients averaged once per step."""
import math
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORKERS = int(os.environ.get("WORKERS", 2))


def launch(fn, *args):
    with socket.socket() as probe:                # a free port, so that two trainings can run side by side
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")
    mp.spawn(_start, (fn, args), WORKERS)


def _start(rank, fn, args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORKERS)
    torch.manual_seed(rank)
    fn(rank, *args)
    dist.destroy_process_group()


class Clock:
    """Budget in minutes of processor time per worker, so that a stopped or crowded process loses nothing.

    With CLOCK=wall in the environment it is wall-clock minutes instead, for a crowded machine and a fixed end.
    Progress runs from 0 to 1 and is the same number on every worker.
    """

    def __init__(self, minutes, params):
        self.now = time.time if os.environ.get("CLOCK") == "wall" else time.process_time
        self.start, self.seconds, self.params = self.now(), minutes * 60, list(params)

    def average(self):
        """Average the gradients of all workers; return the common progress."""
        flat = [p.grad.flatten() if p.grad is not None else torch.zeros(p.numel()) for p in self.params]
        flat = torch.cat(flat + [torch.tensor([(self.now() - self.start) / self.seconds])])
        dist.all_reduce(flat)
        flat /= WORKERS
        for p, g in zip(self.params, flat[:-1].split([p.numel() for p in self.params])):
            p.grad = g.view_as(p).clone(memory_format=torch.preserve_format)
        return flat[-1].item()


def cosine(step, progress, warmup=100, floor=0.02, hold=0.0):
    """Learning-rate factor: short warm-up, constant for the share `hold` of the time, then a cosine to `floor`."""
    fall = max(0.0, min(1, progress) - hold) / max(1e-6, 1 - hold)
    return min(1, (step + 1) / warmup) * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * fall)))
