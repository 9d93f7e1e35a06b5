"""The files of the tests' own catalogue: made from their names, so that nobody has to keep them.

As a program it writes that catalogue: files.py OUTPUT
"""

import functools
import hashlib
import json
import random
import sys

REVISION = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "tests/models"

# One connection fetches what is smaller than 16 MiB, eight fetch the rest in pieces of 8 MiB.
BYTES = {
    "small": 3_000_000,
    "medium": (18 << 20) + 5,
    "large": (41 << 20) + 12345,
    "huge": 128 << 20,
    "bench": 512 << 20,
    "endless": 1 << 43,
}
BLOCK = 16 << 20  # of what is too large to be made at once


@functools.cache
def content(name):
    return random.Random(name).randbytes(min(BYTES[name], BLOCK) if name == "bench" else BYTES[name])


def parts(name):
    """The content in parts, for a file that repeats itself."""
    for at in range(0, BYTES[name], len(content(name))):
        yield content(name)[:BYTES[name] - at]


@functools.cache
def sha256(name):
    if name == "endless":
        return "e" * 64  # nobody has it
    hashed = hashlib.sha256()
    for part in parts(name):
        hashed.update(part)
    return hashed.hexdigest()


def artifact(name):
    return {
        "id": name, "title": f"The {name} one", "role": "vae", "licence": "free", "repository": REPOSITORY,
        "revision": REVISION, "path": f"split/{name}.safetensors", "folder": "vae", "bytes": BYTES[name],
        "sha256": sha256(name),
    }


def catalogue():
    return {
        "domains": ["example.org"],
        "base": "https://models.example.org",
        "licences": [{"id": "free", "title": "Free Licence", "page": "https://example.org/licence"}],
        "artifacts": [artifact(name) for name in BYTES],
        "collections": [
            {"id": "two", "title": "Two of them", "artifacts": ["small", "medium"]},
            {"id": "too-large", "title": "More than any disk has", "artifacts": ["small", "endless"]},
        ],
    }


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(catalogue(), file, indent=1)
