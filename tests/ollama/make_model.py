"""Makes a tiny text model with random weights as a GGUF file: our own weights and vocabulary, always the same bytes.

What it says is noise of printable ASCII. It exists so that real servers stream real tokens."""

import random
import struct
from array import array

LAYERS, WIDTH, CONTEXT = 2, 64, 2048
HEADS, KV_HEADS = 4, 2
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
ALIGNMENT = 32


def byte_characters():
    """A printable character for each byte, as byte-level tokenizers have it."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return [chr(byte if byte in plain else next(spare)) for byte in range(256)]


TOKENS = [*byte_characters(), "<|begin|>", "<|end|>"]


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def entry(key, kind, value):
    head = string(key) + struct.pack("<I", kind)
    if kind == STRING:
        return head + string(value)
    if kind == ARRAY:
        item, values = value
        packed = b"".join(string(v) if item == STRING else struct.pack("<i", v) for v in values)
        return head + struct.pack("<IQ", item, len(values)) + packed
    return head + struct.pack({U32: "<I", F32: "<f", BOOL: "<?"}[kind], value)


def metadata():
    return [
        entry("general.architecture", STRING, "llama"),
        entry("general.name", STRING, "kuno-tiny"),
        entry("general.file_type", U32, 0),
        entry("llama.context_length", U32, CONTEXT),
        entry("llama.embedding_length", U32, WIDTH),
        entry("llama.block_count", U32, LAYERS),
        entry("llama.feed_forward_length", U32, 2 * WIDTH),
        entry("llama.attention.head_count", U32, HEADS),
        entry("llama.attention.head_count_kv", U32, KV_HEADS),
        entry("llama.rope.dimension_count", U32, WIDTH // HEADS),
        entry("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        entry("llama.vocab_size", U32, len(TOKENS)),
        entry("tokenizer.ggml.model", STRING, "gpt2"),
        entry("tokenizer.ggml.pre", STRING, "default"),
        entry("tokenizer.ggml.tokens", ARRAY, (STRING, TOKENS)),
        entry("tokenizer.ggml.token_type", ARRAY, (I32, [1] * 256 + [3, 3])),
        entry("tokenizer.ggml.merges", ARRAY, (STRING, [])),
        entry("tokenizer.ggml.bos_token_id", U32, 256),
        entry("tokenizer.ggml.eos_token_id", U32, 257),
        entry("tokenizer.ggml.add_bos_token", BOOL, True),
    ]


def tensors():
    """(name, shape as the format has it, values); only printable ASCII gets a say at the end."""
    rng = random.Random(1)
    kv = KV_HEADS * WIDTH // HEADS
    deviation = WIDTH ** -0.5

    def matrix(name, rows, columns, scale, keeps=lambda row: True):
        values = (rng.gauss(0, scale) if keeps(row) else 0.0 for row in range(rows) for _ in range(columns))
        return name, (columns, rows), array("f", values)

    def ones(name):
        return name, (WIDTH,), array("f", [1.0] * WIDTH)

    yield matrix("token_embd.weight", len(TOKENS), WIDTH, 1.0)
    yield ones("output_norm.weight")
    yield matrix("output.weight", len(TOKENS), WIDTH, 4 * deviation, lambda row: 32 <= row < 127)
    for layer in range(LAYERS):
        part = f"blk.{layer}."
        yield ones(part + "attn_norm.weight")
        yield ones(part + "ffn_norm.weight")
        for name, rows in (("attn_q", WIDTH), ("attn_k", kv), ("attn_v", kv), ("attn_output", WIDTH),
                           ("ffn_gate", 2 * WIDTH), ("ffn_up", 2 * WIDTH)):
            yield matrix(f"{part}{name}.weight", rows, WIDTH, deviation)
        yield matrix(part + "ffn_down.weight", WIDTH, 2 * WIDTH, (2 * WIDTH) ** -0.5)


def padded(raw):
    return raw + bytes(-len(raw) % ALIGNMENT)


def model():
    """The file's bytes."""
    infos, data, count = b"", b"", 0
    for name, shape, values in tensors():
        infos += string(name) + struct.pack("<I", len(shape))
        infos += b"".join(struct.pack("<Q", side) for side in shape) + struct.pack("<IQ", 0, len(data))
        data += padded(values.tobytes())
        count += 1
    entries = metadata()
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(entries)) + b"".join(entries) + infos
    return padded(head) + data
