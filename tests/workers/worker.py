"""Image workers and the frames in which they talk: KUNO names the program, KUNO_PROBED the one with faults."""

import json
import os
import select
import struct
import subprocess

from kuno import SANITIZED, Case, environment

PROGRAM = os.environ["KUNO"]
PROBED = os.environ["KUNO_PROBED"]
PATIENCE = int(os.environ.get("KUNO_PATIENCE", 240 if SANITIZED else 60))  # whatever takes so long does not come

PREVIEW, FINAL, READY, PROGRESS, REPORT, FAILED, PICTURE, LARGE, FACTOR, FOUND = range(1, 11)
DRAW, DRAW_PREVIEW, READ_PICTURE, CANCEL, CONVERT, MEASURE, INSPECT = range(16, 23)
PNG, JPEG, WEBP = range(3)  # formats to convert to


def frame(kind, payload=b""):
    return b"KIP1" + struct.pack(">BI", kind, len(payload)) + payload


def frames(data):
    """(kind, payload) of each; nothing but frames may be there."""
    found, at = [], 0
    while at < len(data):
        assert data[at:at + 4] == b"KIP1", data[at:at + 9]
        kind, size = struct.unpack_from(">BI", data, at + 4)
        found.append((kind, data[at + 9:at + 9 + size]))
        assert len(found[-1][1]) == size
        at += 9 + size
    return found


def numbers(payload, count):
    return struct.unpack_from(f">{count}I", payload)


def picture_read(payload):
    """Width, height and traits of one that was read, the name of its colour profile, and the PNG file."""
    *facts, length = numbers(payload, 4)
    return tuple(facts), payload[16:16 + length].decode(), payload[16 + length:]


class Session:
    """One worker with one job after the other."""

    def __init__(self, home, *args, program=PROGRAM, pass_fds=()):
        self.process = subprocess.Popen([program, "image-worker", "--session", *args], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(home),
                                        pass_fds=pass_fds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def send(self, kind, payload=b""):
        self.process.stdin.write(frame(kind, payload))
        self.process.stdin.flush()

    def read(self, size):
        data = b""
        while len(data) < size:
            assert select.select([self.process.stdout], [], [], PATIENCE)[0], "the worker says nothing"
            piece = os.read(self.process.stdout.fileno(), size - len(data))
            if not piece:
                raise EOFError(f"after {data!r}")
            data += piece
        return data

    def hear(self):
        head = self.read(9)
        kind, size = struct.unpack(">4xBI", head)
        assert head[:4] == b"KIP1", head
        return kind, self.read(size)

    def hear_all(self):
        """What it has said by now."""
        while select.select([self.process.stdout], [], [], 0)[0]:
            self.hear()

    def hear_end(self):
        """All until the job is done."""
        heard = [self.hear()]
        while heard[-1][0] not in (FINAL, FAILED, PICTURE, LARGE, FACTOR, FOUND):
            heard.append(self.hear())
        return heard

    def draw(self, kind=DRAW, **recipe):
        self.send(kind, json.dumps(recipe).encode())
        return self.hear_end()

    def read_picture(self, data, largest=0):
        self.send(READ_PICTURE, struct.pack(">I", largest) + data)
        return self.hear_end()[-1]

    def convert(self, data, form, quality=95):
        self.send(CONVERT, struct.pack(">II", form, quality) + data)
        return self.hear_end()[-1]

    def end(self):
        """Closes the input; returns the exit status and what was said on standard error."""
        self.process.stdin.close()
        self.process.stdin = None
        _, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err.decode()


class WorkerCase(Case):
    def session(self, *args, **options):
        return Session(self.home, "--isolation", "best-effort", *args, **options)

    def worker(self, recipe, *args, env=(), isolation="best-effort"):
        return subprocess.run([PROGRAM, "image-worker", "--isolation", isolation, *args], input=recipe,
                              capture_output=True, env=environment(self.home, **dict(env)), timeout=PATIENCE)
