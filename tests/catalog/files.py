"""The files of the tests' own catalogue: made from their names, so that nobody has to keep them, and the model that is
part of the program, for those who want to draw with what they have fetched.

As a program it writes that catalogue: files.py OUTPUT
"""

import functools
import hashlib
import json
import pathlib
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

DEMO = pathlib.Path(__file__).parents[2] / "models" / "demo"
MODEL = {  # by role
    "diffusion": DEMO / "diffusion_model_fp8_scaled.safetensors",
    "text_encoder": DEMO / "text_encoder_fp8_scaled.safetensors",
    "vae": DEMO / "vae.safetensors",
    "tokenizer": DEMO / "tokenizer" / "tokenizer.json",
}
PARTS = {f"demo-{role.replace('_', '-')}": role for role in MODEL}
BYTES |= {name: MODEL[role].stat().st_size for name, role in PARTS.items()}


@functools.cache
def content(name):
    if name in PARTS:
        return MODEL[PARTS[name]].read_bytes()
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


def file_name(name):
    return MODEL[PARTS[name]].name if name in PARTS else f"{name}.safetensors"


def artifact(name):
    role = PARTS.get(name, "vae")
    return {
        "id": name, "title": f"The {name} one", "role": role, "licence": "free", "repository": REPOSITORY,
        "revision": REVISION, "path": f"split/{file_name(name)}", "folder": role, "bytes": BYTES[name],
        "sha256": sha256(name),
    }


def collection(name, title, *parts):
    return {"id": name, "title": title, "model": "qwen-image-2.1", "variant": "turbo", "artifacts": parts}


def catalogue():
    return {
        "domains": ["example.org"],
        "base": "https://models.example.org",
        "licences": [{"id": "free", "title": "Free Licence", "page": "https://example.org/licence"}],
        "artifacts": [artifact(name) for name in BYTES],
        "collections": [
            collection("two", "Two of them", "small", "medium"),
            collection("too-large", "More than any disk has", "small", "endless"),
            collection("demo-again", "The built-in model, once more", *PARTS),
        ],
    }


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(catalogue(), file, indent=1)
