"""What the programs of this folder share: running and watching a process, telling what the machine did meanwhile,
and writing what has a name only when it is complete."""

import contextlib
import json
import os
import platform
import re
import resource
import shlex
import subprocess
import tempfile
import time

# Settings of the caller that would change what either side does.
STEERING = ("KUNO_", "MKL_", "OMP_", "OPENBLAS_", "TORCH_")


DISTURBANCE = 0.05  # of the processors, used by others, from which on a clock on the wall tells more of them than of us


class Disagreement(Exception):
    """What was measured is not what should be compared."""


def environment():
    clean = {name: value for name, value in os.environ.items() if not name.startswith(STEERING)}
    return clean | {"HF_HUB_OFFLINE": "1", "DIFFUSERS_VERBOSITY": "error", "TRANSFORMERS_VERBOSITY": "error"}


def run(*command, watch=None):
    """A whole process: (seconds, resources used, what it printed). watch is called with its number once it runs."""
    with tempfile.TemporaryFile() as out:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, env=environment())
        if watch:
            watch(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise Disagreement(f"'{shlex.join(map(str, command))}' ended with status {process.returncode}")
        out.seek(0)
        return seconds, used, out.read().decode()


def run_for_json(*command):
    """A whole process that tells one object of JSON: (resources used, what it told)."""
    _, used, said = run(*command)
    with contextlib.suppress(ValueError):
        answer = json.loads(said)
        if isinstance(answer, dict):
            return used, answer
    raise Disagreement(f"'{shlex.join(map(str, command))}' did not tell what was asked")


class Worker:
    """A process that answers each line of JSON with one."""

    def __init__(self, *command):
        self.errors = tempfile.TemporaryFile()
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        self.process = subprocess.Popen(command, **streams, text=True, env=environment())

    def ask(self, **what):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        command = shlex.join(map(str, self.process.args))
        if not answer:
            raise Disagreement(f"'{command}' ended with status {self.process.wait()}{self.last_words()}")
        try:
            return json.loads(answer)
        except ValueError:
            self.process.kill()
            raise Disagreement(f"'{command}' did not answer in JSON") from None

    def last_words(self):
        """The end of what it said about its end."""
        self.errors.seek(0)
        words = self.errors.read().decode(errors="replace").strip().split("\n")[-1]
        return f": {words}" if words else ""

    def is_running(self):
        return self.process.poll() is None

    def cpu_seconds(self):
        """Of the process since it began. One that has ended is among the children of ours that are counted anyway."""
        if not self.is_running():
            return 0
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


class Busyness:
    """How much of the processors others used while we measured: what ran, less what ran for us."""

    def __init__(self):
        self.start, self.busy, self.ours = time.perf_counter(), self.ran(), self.ran_for_us()

    @staticmethod
    def ran():
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
        idle, waiting = ticks[3], ticks[4]
        return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def ran_for_us():
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used)

    def others(self, of_peer=0):
        """The share, 0 to 1; `of_peer` are the seconds that a peer's still living process has used since then."""
        other = self.ran() - self.busy - (self.ran_for_us() - self.ours) - of_peer
        return max(0.0, other) / (time.perf_counter() - self.start) / os.cpu_count()


def busyness_line(others):
    return f"- Others used {100 * others:.0f} % of the processors' time during the measurement" + (
        "" if others < DISTURBANCE else ": **the wall clock is disturbed**"
    )


def processor(kernels=None):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        pairs = [[part.strip() for part in line.split(":", 1)] for line in file if ":" in line]
    facts = dict(reversed(pairs))  # of the first
    kind = f" (family {facts['cpu family']}, model {facts['model']})" if "cpu family" in facts else ""
    return (
        f"{facts.get('model name', platform.machine())}{kind}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores"
        + (f"; kuno uses its {kernels} kernels" if kernels else "")
    )


def processor_line(kernels=None):
    return f"- Processor: {processor(kernels)}"


def table(head, rows):
    """Markdown; the first column is text, the others are numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@contextlib.contextmanager
def whole_file(path):
    """Binary and unbuffered; gets its name when it is complete, and leaves nothing behind when it is not."""
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb", buffering=0) as file:
            yield file
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def replace_part(path, text):
    """Puts a report, which begins with a line "# TITLE", into a file in place of an earlier one of that title."""
    title = text.split("\n", 1)[0]
    parts = re.split(r"(?m)^(?=# )", path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [part.rstrip("\n") + "\n" for part in parts if part.strip()]
    titles = [part.split("\n", 1)[0] for part in kept]
    if title in titles:
        kept[titles.index(title)] = text
    else:
        kept.append(text)
    with whole_file(path.resolve()) as file:
        file.write("\n".join(kept).encode())
