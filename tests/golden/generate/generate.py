"""Write a whole set of golden values.

python generate.py --seed N --out DIR [PART...]

The set that comes with Kuno is that of seed 10. Odd seeds give Qwen-Image 2.1 and pictures other sizes.
"""

import argparse

import fp8
import gguf_files
import images
import int8_convrot
import krea2
import manifests
import noise
import qwen2512
import qwen21_dit
import qwen21_e2e
import qwen21_vae
import qwen_vl
import sampling
import text_encoder
import tokenizer
import upscalers
import z_image

DICED = (tokenizer, text_encoder, fp8, noise, sampling, krea2, z_image, upscalers, manifests)  # the seed chooses all sizes
# In two variants, the second for odd seeds; each with the distance of its own seed from that of the set.
IN_VARIANTS = {
    qwen21_dit: 1,
    qwen21_vae: 11,
    qwen_vl: 21,
    qwen21_e2e: 31,
    gguf_files: 41,
    int8_convrot: 51,
    qwen2512: 61,
    images: 81,
}


def main():
    parts = {part.__name__: part for part in (*DICED, *IN_VARIANTS)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("parts", metavar="PART", nargs="*", help="one of " + ", ".join(parts))
    a = parser.parse_args()
    for name in a.parts:
        if name not in parts:
            parser.error(f"unknown part {name}; known: {', '.join(parts)}")
    for name in a.parts or parts:
        print(name, flush=True)
        if parts[name] in DICED:
            parts[name].main(a.seed, a.out)
        else:
            parts[name].main(a.seed + IN_VARIANTS[parts[name]], a.out, a.seed % 2)


if __name__ == "__main__":
    main()
