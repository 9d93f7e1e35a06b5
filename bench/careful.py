"""What the programs of this folder look at before they measure or write anything."""

import argparse
import contextlib
import errno
import os
import signal
import sys

from measure import Disagreement, run


def whole_number(least, most=None):
    """A type for argparse."""

    def read(text):
        with contextlib.suppress(ValueError):
            number = int(text)
            if number >= least and (most is None or number <= most):
                return number
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number " + (
            f"of at least {least}" if most is None else f"from {least} to {most}"))

    return read


def version_of(program):
    """What kuno says of itself; Disagreement if the program is not kuno."""
    try:
        version = run(program, "--version")[2].strip()
    except OSError as wrong:
        raise Disagreement(f"'{program}' cannot be started: {wrong.strerror}; see --kuno, or build it: make") from None
    if not version.startswith("kuno "):
        raise Disagreement(f"'{program}' is not kuno; see --kuno")
    return version


def try_to_write(path):
    """OSError if a file cannot be written; what is no file at all may have no end, or nobody who reads it."""
    was_there = os.path.lexists(path)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file")
    path.open("ab").close()
    if not was_there:
        path.unlink()


def look_at_text(option, path):
    """Disagreement if what is measured could not be kept in this file, rather than after hours. None is fine."""
    try:
        if path:
            try_to_write(path)
        if path and path.exists():
            path.read_text(encoding="utf-8")
    except OSError as wrong:
        raise Disagreement(f"{option}: '{path}' cannot be written: {wrong.strerror}") from None
    except UnicodeDecodeError:
        raise Disagreement(f"{option}: '{path}' is not a text") from None


def clean_up_when_asked_to_stop():
    """SIGTERM and SIGHUP end a program as Ctrl-C does: what it began is cleared away."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
