"""Safetensors files in plain Python: read to compare, made to be right or wrong on purpose."""

import array
import json
import math
import struct

LENGTH_BYTES = 8
ITEM = {"F32": "f", "I32": "i", "I64": "q"}


def split(data):
    """The header as an object, and the bytes behind it."""
    size = struct.unpack_from("<Q", data)[0]
    return json.loads(data[LENGTH_BYTES:LENGTH_BYTES + size]), data[LENGTH_BYTES + size:]


def join(header, data):
    """A file of a header (an object, or bytes that need not be JSON) and data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def read(path):
    """All tensors: name to (shape, values)."""
    with open(path, "rb") as file:
        header, data = split(file.read())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["shape"], array.array(ITEM[entry["dtype"]], data[begin:end]))
    return tensors


def make(tensors, metadata=None):
    """A right file of name to (dtype, shape, bytes)."""
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    return join(header, data)


def parts(path):
    """What `make` takes, of a file."""
    with open(path, "rb") as file:
        header, data = split(file.read())
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def shards(tensors, stem, count):
    """The files of a split model, name to bytes, from what `make` takes."""
    files, index = {}, {}
    names = sorted(tensors)
    for number in range(count):
        file = f"{stem}-{number + 1:05}-of-{count:05}.safetensors"
        own = names[number::count]
        files[file] = make({name: tensors[name] for name in own}, {"format": "pt"})
        index.update((name, file) for name in own)
    files[f"{stem}.safetensors.index.json"] = json.dumps({"metadata": {"total_size": 0}, "weight_map": index}).encode()
    return files


def relative_l2(ours, expected):
    """Length of the difference, in lengths of what is expected."""
    assert len(ours) == len(expected)
    difference = math.fsum((a - b) ** 2 for a, b in zip(ours, expected))
    return math.sqrt(difference / math.fsum(b * b for b in expected))
