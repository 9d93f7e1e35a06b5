#!/usr/bin/env python3
"""Write src/text/unicode_fold_table.h from the facts that Python has of Unicode (3.11: version 14.0, as of our NFC).

    scripts/unicode_fold.py > src/text/unicode_fold_table.h

Simple case folding: one character becomes one. Characters that follow each other, or every other one, and are as far
from what they become share a row.
"""
import sys
import unicodedata

VERSION = "14.0.0"


def folded(c):
    """The one character that stands for all its cases."""
    for text in chr(c).casefold(), chr(c).lower():
        if len(text) == 1:
            return ord(text)
    return c


def rows():
    out = []
    for c in range(0x110000):
        away = 0 if 0xD800 <= c < 0xE000 else folded(c) - c
        if not away:
            continue
        if out:
            last = out[-1]
            step = c - last[1]
            if last[3] == away and step <= 2 and step == (last[2] or step):
                last[1:3] = c, step
                continue
        out.append([c, c, 0, away])
    return [(first, last, step or 1, away) for first, last, step, away in out]


def main():
    if unicodedata.unidata_version != VERSION:
        sys.exit(f"this Python knows Unicode {unicodedata.unidata_version}, not {VERSION}")
    print("/* Made by scripts/unicode_fold.py; do not edit. Only for unicode_fold.c. */\n/* clang-format off */")
    print("static const fold_row fold_rows[] = {")
    line = "   "
    for first, last, step, away in rows():
        cell = f" {{ 0x{first:04X}, 0x{last:04X}, {step}, {away} }},"
        if len(line) + len(cell) > 120:
            print(line)
            line = "   "
        line += cell
    print(f"{line}\n}};\n/* clang-format on */")


main()
