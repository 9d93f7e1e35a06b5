#!/usr/bin/env python3
"""Write src/text/unicode_tables.c from the facts in tests/golden/unicode/unicode.json.

    scripts/unicode_tables.py > src/text/unicode_tables.c

The facts are the character classes of the pre-tokenizer (Unicode 16.0) and canonical normalization (Unicode 14.0); see
the note in that file. Here they are only rearranged: the three classes become one sorted table, and the characters that
NFC may change or join with what stands before them are collected, so that ordinary text can skip normalization.
"""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
FACTS = json.loads((ROOT / "tests/golden/unicode/unicode.json").read_text())
VOWELS_AND_FINALS = [(0x1161, 0x1175), (0x11A8, 0x11C2)]  # Hangul letters that join with what stands before them


def full(c, decomposition):
    """The full canonical decomposition of one character."""
    first, *rest = decomposition.get(c, [c])
    return [c] if first == c else full(first, decomposition) + rest


def unstable(classes, decomposition, composition):
    """Characters that may change under NFC, depending on what stands before them or always."""
    seconds = {second for _, second, _ in composition}
    made = {result for _, _, result in composition}
    found = set(classes) | seconds | {c for c in decomposition if c not in made}
    found.update(c for first, last in VOWELS_AND_FINALS for c in range(first, last + 1))
    for c in decomposition:
        if c not in found:  # it must not matter what stands before it, also after decomposition
            assert full(c, decomposition)[0] not in found
    assert min(found) == 0x300
    return found


def ranges(numbers):
    out = []
    for n in sorted(numbers):
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return out


def table(kind, name, rows):
    cells = ["{ " + ", ".join(v if isinstance(v, str) else f"0x{v:04X}" for v in row) + " }," for row in rows]
    print(f"\nconst {kind} {name}[] = {{")
    line = "   "
    for cell in cells:
        if len(line) + 1 + len(cell) > 120:
            print(line)
            line = "   "
        line += " " + cell
    print(line)
    print(f"}};\nconst size_t {name}_rows = {len(rows)};")


def main():
    decomposition = {c: to for c, *to in FACTS["canonical_decomposition"]}
    for to in decomposition.values():  # one step at a time, and only the first character goes on decomposing
        assert len(to) <= 2 and not any(c in decomposition for c in to[1:])
        assert len(full(to[0], decomposition)) <= 3
    classes = {c: k for first, last, k in FACTS["combining_class"] for c in range(first, last + 1)}

    kinds = (("letters", "KN_CHAR_LETTER"), ("numbers", "KN_CHAR_NUMBER"), ("white_space", "KN_CHAR_SPACE"))
    kind_rows = sorted([first, last, kind] for key, kind in kinds for first, last in FACTS[key])
    assert all(a[1] < b[0] for a, b in zip(kind_rows, kind_rows[1:]))

    print("/* Made by scripts/unicode_tables.py from tests/golden/unicode/unicode.json; do not edit. */")
    print("/* clang-format off */")
    print('#include "text/unicode_tables.h"')
    table("kn_unicode_range", "kn_unicode_kind", kind_rows)
    table("kn_unicode_range", "kn_unicode_combining", sorted(FACTS["combining_class"]))
    table("kn_unicode_range", "kn_unicode_unstable",
          [[a, b, 1] for a, b in ranges(unstable(classes, decomposition, FACTS["primary_composition"]))])
    table("kn_unicode_pair", "kn_unicode_decomposition",
          [[*(to + [0])[:2], c] for c, to in sorted(decomposition.items())])
    table("kn_unicode_pair", "kn_unicode_composition", sorted(FACTS["primary_composition"]))


main()
