"""A tokenizer of Qwen's size and form whose merges are random: words fall into other and more tokens."""

import json
import random

MERGES = 151387
LONGEST = 24  # characters of a token
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = """<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|>
    <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>""".split()
ADDED = """<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|>
    <tool_response> </tool_response> <think> </think>""".split()


def byte_letters():
    """The letter that stands for each byte: itself where it can be seen, else one beyond Latin 1."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in seen] + [chr(256 + i) for i in range(256 - len(seen))]


def vocabulary(seed):
    """All tokens but the added ones, and the pairs that become the later ones."""
    draw = random.Random(seed)
    tokens, merges = dict.fromkeys(byte_letters()), []
    listed = list(tokens)
    while len(merges) < MERGES:
        # The earlier a token, the shorter and the likelier to be a part of others.
        left, right = (listed[int(len(listed) * draw.random() ** 3)] for _ in range(2))
        if len(left + right) <= LONGEST and left + right not in tokens:
            tokens[left + right] = None
            listed.append(left + right)
            merges.append([left, right])
    return listed, merges


def write(path, seed=0):
    tokens, merges = vocabulary(seed)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": len(tokens) + i, "content": text, **flags, "special": text in SPECIAL}
        for i, text in enumerate(SPECIAL + ADDED)
    ]
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    bytewise = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": ""}
    model |= {"end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    model |= {"vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, bytewise]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": model,
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(tokenizer, file, ensure_ascii=False)
