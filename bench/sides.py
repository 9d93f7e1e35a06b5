"""Who takes part in bench/compare: Kuno and each peer, ready to do one work when it is their turn.

A side is made for one work and some numbers of threads. `turn(threads)` does it once and tells a Sample; `close()` ends
its processes; `about` says in which way it works, where there are several.
"""

import contextlib
import json
import pathlib
import shlex
import statistics
import subprocess
from typing import NamedTuple

from measure import Disagreement, Worker, environment, run, run_for_json

HERE = pathlib.Path(__file__).resolve().parent


class Sample(NamedTuple):
    seconds: float
    cpu_seconds: float


class Absent(Exception):
    """A peer that cannot be had here; the text says why."""


class Paced:
    """A process that says when it is ready, waits for a line, and tells how long its work took."""

    def __init__(self, *command, **variables):
        self.command = shlex.join(map(str, command))
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, **streams, text=True, env=environment() | variables)
        self.wait_for("ready")

    def wait_for(self, what):
        for line in self.process.stdout:
            told = json.loads(line) if line.startswith("{") else {}  # libraries print, too
            if told.get("bench") == what:
                return told
        self.process.kill()
        words = self.process.stderr.read().strip().split("\n")
        raise Absent(f"'{self.command}' ended: {words[-1]}")

    def turn(self):
        with contextlib.suppress(BrokenPipeError):  # wait_for() says why
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        told = self.wait_for("run")
        self.wait_for("ready")
        return Sample(told["seconds"], told["cpu_seconds"])

    def close(self):
        """What it tells at the end, line by line."""
        out, _ = self.process.communicate()
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


class Processes:
    """A paced process for each number of threads, started when they are first needed."""

    def __init__(self, about, command, variables=None):
        self.about, self.command, self.variables = about, command, variables or {}
        self.running = {}

    def turn(self, threads):
        if threads not in self.running:
            self.running[threads] = Paced(*self.command(threads), **self.variables)
        return self.running[threads].turn()

    def close(self):
        return {threads: process.close() for threads, process in self.running.items()}


def kuno(program, *args, **variables):
    """`kuno bench` with these arguments."""
    command = (program, "bench", *map(str, args), "--json", "--paced", "--repeat", "1000")
    return Processes("", lambda threads: (*command, "--threads", str(threads)), variables)


class KunoPicture:
    """A whole process of `kuno generate` with the built-in model, from its start until its end."""

    about = ""

    def __init__(self, program, file):
        self.command = (program, "generate", "a red apple", "--seed=1", "--quiet", f"--output={file}")

    def turn(self, threads):
        seconds, used, _ = run(*self.command, f"--threads={threads}")
        return Sample(seconds, used.ru_utime + used.ru_stime)

    def close(self):
        return {}


class KunoLoading:
    """What a file's first step takes more than any other: reading, preparing, and what is done once."""

    about = ""

    def __init__(self, program, *args):
        self.command = (program, "bench", "step", *map(str, args), "--json", "--repeat", "1")

    def turn(self, threads):
        used, step = run_for_json(*self.command, f"--threads={threads}")
        seconds = step["load_seconds"] + step["first_seconds"] - step["median_seconds"]
        return Sample(seconds, used.ru_utime + used.ru_stime)

    def close(self):
        return {}


def torch_worker(python):
    """PyTorch's process for all works, and what it tells about itself."""
    if python is None:
        raise Absent("needs --python, an interpreter that has bench/requirements.txt")
    try:
        worker = Worker(python, HERE / "torch_peer.py")
    except OSError as wrong:
        raise Absent(f"--python {python} cannot be started: {wrong.strerror}") from None
    try:
        return worker, worker.ask(do="about")
    except Disagreement as wrong:
        worker.close()
        raise Absent(f"--python is no interpreter that has bench/requirements.txt: {wrong}") from None


class Torch:
    """PyTorch, in that process."""

    def __init__(self, worker, **work):
        self.worker, self.about = worker, worker.ask(do="prepare", **work)["way"]

    def turn(self, threads):
        return Sample(**self.worker.ask(do="run", threads=threads))

    def close(self):
        return {}


def look_for_package(python, package):
    """Absent if the interpreter of --peers is not there or has it not."""
    if python is None:
        raise Absent("needs --peers, an environment that has bench/requirements-ggml.txt")
    try:
        known = subprocess.run([python, "-c", f"import {package}"], capture_output=True, text=True, check=False)
    except OSError as wrong:
        raise Absent(f"--peers {python} cannot be started: {wrong.strerror}") from None
    if known.returncode:
        raise Absent(f"{package} is not in the environment of --peers")


def script_peer(python, about, script, *args):
    """A script of this folder that takes turns; the number of threads stands where args have None."""
    command = (python, HERE / script, *args)
    return Processes(about, lambda threads: [str(threads if word is None else word) for word in command])


def llama(python, file, tokens):
    return script_peer(python, "cyllama", "llama_peer.py", file, tokens, None)


def sdcpp(python, package, size, tokens, files):
    return script_peer(python, package, "sdcpp_peer.py", package, size, tokens, None, *files)


def median(samples, what):
    return statistics.median(getattr(sample, what) for sample in samples)
