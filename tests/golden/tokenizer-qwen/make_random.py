#!/usr/bin/env python3
"""Write random.json: ids of random strings, by the published implementation of the tokenizer.

    pip install tokenizers==0.23.3
    python3 make_random.py TOKENIZER_JSON > random.json        (the published tokenizer.json of Qwen3)

The strings mix what the rules of the pre-tokenizer, normalization and added tokens look at.
"""
import json
import random
import sys

from tokenizers import Tokenizer

POOLS = [
    "abcdefghij XYZ'", "'stSTreREveVEmMllLLdD\u017f", "  \t\n\r\u00a0\u3000\u2028\x0b\x0c\x85", "0123456789\u00bd\u00b2\u2167\u0663",
    "!?.,;:-_()[]{}<>|\"#$%^&*", "\u65e5\u672c\u8a9e\u4e2d\u6587\uae00\u0e01\u0e02\u0e04", "\u00e9\u00e8\u00fc\u00df\u00c5\u03a9\u212b\u212a",
    "e\u0301a\u0300o\u0323\u0302\u0308\u0345\u05b0\u0592", "\u1112\u1161\u11ab\u1100\uac00\u11a8\uac01", "\U0001f600\U0001f468\u200d\ufe0f\U0001f3f3",
    "\u0958\u2126\u1e9b\u0323\ufb2c\u0344\u0374", "\uff41\uff42\uff11\uff12", "\x00\x01\x1c\x1f\x7f\u180e\u200b\ufeff",
    "\u0bc6\u0bbe\u0bd7\u09c7\u09be\u0dd9\u0dcf\u0dca",
]
MARKS = ["<|im_start|>", "<|im_end|>", "<|image_pad|>", "<think>", "</think>", "<|im_start", "|>", "<tool_call>"]
dice = random.Random(3)


def text():
    out = []
    for _ in range(dice.randint(1, 7)):
        if dice.random() < 0.15:
            out.append(dice.choice(MARKS))
            continue
        one, other = dice.choice(POOLS), dice.choice(POOLS)
        out.append("".join(dice.choice(one if dice.random() < 0.7 else other) for _ in range(dice.randint(1, 9))))
    return "".join(out)


tokenizer = Tokenizer.from_file(sys.argv[1])
texts = [text() for _ in range(200)]
rows = [{"text": t, "ids": tokenizer.encode(t, add_special_tokens=False).ids} for t in texts]
print('{"note": "made by make_random.py with tokenizers 0.23.3; same form as cases.json",\n"cases": [')
print(",\n".join(json.dumps(r, separators=(",", ":")) for r in rows))
print("]}")
