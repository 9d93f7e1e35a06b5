#!/usr/bin/env python3
"""Write nfc.json: what Python's unicodedata makes of single characters and of random sequences.

    python3 make_nfc.py > nfc.json        (a Python whose unicodedata has Unicode 14.0, for example 3.11)

Characters are drawn from those that decompose, combine or join, from all scripts, with some plain ones between.
"""
import json
import random
import unicodedata

assert unicodedata.unidata_version == "14.0.0"
dice = random.Random(14)
ALL = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
changed = [c for c in ALL if unicodedata.normalize("NFC", c) != c]
marks = [c for c in ALL if unicodedata.combining(c)]
parts = sorted({p for c in ALL for p in unicodedata.normalize("NFD", c) if unicodedata.normalize("NFD", c) != c})
hangul = [chr(c) for first, n in ((0x1100, 19), (0x1161, 21), (0x11A7, 28), (0xAC00, 2)) for c in range(first, first + n)]
bounds = [chr(c) for c in (0x10FF, 0x1113, 0x1160, 0x1176, 0x11A7, 0x11C3, 0xABFF, 0xAC00, 0xAC1C, 0xD7A3, 0xD7A4)]
pools = [changed, marks, marks, parts, parts, hangul, hangul + bounds, list("abcEoOsy <=>"), [c for c in ALL if len(unicodedata.normalize("NFD", c)) > 1]]


def row(text):
    return [[ord(c) for c in text], [ord(c) for c in unicodedata.normalize("NFC", text)]]


sequences = []
while len(sequences) < 600:
    few = [dice.choice(pools) for _ in range(dice.randint(1, 3))]
    text = "".join(dice.choice(dice.choice(few)) for _ in range(dice.randint(2, 9)))
    sequences.append(row(text))

print('{"note": "single: every character that NFC changes, with its NFC. sequences: [text, its NFC]. All as code points; '
      'made by make_nfc.py with Unicode 14.0.",')
print('"single": [')
print(",\n".join(json.dumps(row(c)) for c in changed))
print('],\n"sequences": [')
print(",\n".join(json.dumps(s) for s in sequences))
print("]}")
