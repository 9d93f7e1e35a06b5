"""What those share that measure `kuno serve`: what is promised, and what the kernel says of a process."""

import pathlib
import re
import socket
from typing import NamedTuple

MISSED, DISTURBED, NOT_MEASURED = "**missed**", "**disturbed**", "**not measured**"


class Promise(NamedTuple):
    name: str
    value: float | None  # None: not measured
    limit: float
    aim: float
    at_least: bool = False
    disturbed: bool = False  # the clock tells of others

    def reaches(self, goal):
        return self.value >= goal if self.at_least else self.value <= goal

    def verdict(self):
        if self.value is None:
            return NOT_MEASURED
        if self.disturbed:
            return DISTURBED
        return MISSED if not self.reaches(self.limit) else "as aimed" if self.reaches(self.aim) else "kept"

    def line(self):
        sign = "≥" if self.at_least else "≤"
        return [self.name, number(self.value), f"{sign} {self.limit:g}", f"{sign} {self.aim:g}", self.verdict()]


def exit_status(promises):
    """1: one is missed; 77: not all could be measured."""
    verdicts = {promise.verdict() for promise in promises}
    if MISSED in verdicts:
        return 1
    if verdicts & {DISTURBED, NOT_MEASURED}:
        print("not all that is promised could be measured")
        return 77
    return 0


def number(value):
    return "" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def read(path):
    return pathlib.Path(path).read_text(encoding="ascii")


def memory_kib(pid):
    """PSS; where only root may read that, as of kuno, RSS, which is no less."""
    try:
        return int(re.search(r"(?m)^Pss:\s+(\d+)", read(f"/proc/{pid}/smaps_rollup"))[1])
    except PermissionError:
        return int(re.search(r"(?m)^VmRSS:\s+(\d+)", read(f"/proc/{pid}/status"))[1])
