#!/usr/bin/env python3
"""Packs merges.txt for the program: pack.py MERGES OUTPUT.

Each merge becomes 36 bits, the ids of its left and right token in 18 bits each, the lowest bits first; two merges share
nine bytes. src/text/published.c reads them.
"""

import sys

BITS = 18


def byte_symbols():
    """What the 256 bytes are written as, in the order of their ids: first those that stand for themselves."""
    plain = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    return [chr(b) for b in plain] + [chr(0x100 + i) for i in range(256 - len(plain))]


def pack(lines):
    ids = {symbol: i for i, symbol in enumerate(byte_symbols())}
    bits = bytearray()
    for i in range(0, len(lines), 2):
        number = 0
        for k, line in enumerate(lines[i:i + 2]):
            left, right = line.split(" ")
            number |= (ids[left] | ids[right] << BITS) << 2 * BITS * k
            if ids.setdefault(left + right, len(ids)) != 256 + i + k:
                sys.exit(f"merge {i + k} makes the token '{left + right}' a second time")
        bits += number.to_bytes(9, "little")
    if len(ids) > 1 << BITS:
        sys.exit(f"{len(ids)} tokens do not fit {BITS} bits")
    return bits


def main():
    merges, output = sys.argv[1:]
    with open(merges, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if not line.startswith("#version")]
    with open(output, "wb") as file:
        file.write(pack(lines))


main()
