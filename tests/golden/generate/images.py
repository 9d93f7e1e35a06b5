"""Pictures: resizing to the byte, sizes of references, orientation, alpha and odd sample formats, profiles; masks."""

import io
import json
import math
import os
import struct

import numpy as np
import torch
from PIL import Image, ImageCms, ImageOps
from qwen_common import case, picture, tensors
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

PAIRS = [
    (4000, 3000),
    (3000, 4000),
    (1024, 1024),
    (1, 1000),
    (640, 480),
    (1248, 832),
    (1920, 1080),
    (1080, 1920),
    (777, 333),
    (48, 48),
    (16, 2000),
    (5000, 900),
]


def rows(path, table):
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(row) for row in table) + "\n]\n")


def noise_image(w, h, mode, rng):
    a = rng.integers(0, 256, (h, w, len(mode)), dtype=np.uint8)
    if mode == "RGBA":
        a[..., 3] = rng.choice([0, 1, 40, 128, 254, 255], (h, w))
    return Image.fromarray(a if len(mode) > 1 else a[..., 0])


def resizes(out, rng, v):
    os.makedirs(out, exist_ok=True)
    cases = []
    for mode, (w, h) in (
        (("RGB", (53, 37)), ("RGBA", (31, 44)), ("L", (20, 70)))
        if not v
        else (("RGB", (40, 61)), ("RGBA", (57, 23)), ("L", (33, 33)))
    ):
        source = noise_image(w, h, mode, rng)
        source.save(f"{out}/{mode}.png")
        for tw, th in ((w // 3, h // 4), (w * 2 + 1, h + 9), (w - 7, h + 13), (w + 40, max(1, h // 7)), (1, 1)):
            for kind in ("lanczos", "bicubic", "hamming", "bilinear", "box"):
                file = f"{mode}-{kind}-{tw}x{th}.png"
                source.resize((tw, th), Image.Resampling[kind.upper()]).save(f"{out}/{file}")
                cases.append(dict(file=file, source=f"{mode}.png", width=tw, height=th, filter=kind))
    rows(f"{out}/cases.json", cases)


def sizes(path):
    def reference(w, h, resolution):
        if resolution == 0:
            return max(32, round(w / 32) * 32), max(32, round(h / 32) * 32)
        r = w / h
        return max(32, round(math.sqrt(resolution * resolution * r) / 32) * 32), max(
            32, round(math.sqrt(resolution * resolution / r) / 32) * 32
        )

    rows(
        path,
        [dict(width=w, height=h, resolution=r, expected=reference(w, h, r)) for w, h in PAIRS for r in (1024, 0, 768)],
    )


def vision_sizes(path):
    """As the processors of Qwen3-VL and Qwen2.5-VL resize."""
    table = []
    for w, h in PAIRS:
        for factor, least, most in ((32, 65536, 16777216), (28, 3136, 12845056)):
            if max(w, h) / min(w, h) > 200:
                continue
            height, width = smart_resize(h, w, factor, least, most)
            table.append(dict(width=w, height=h, factor=factor, min=least, max=most, expected=(width, height)))
    rows(path, table)


def aspect_sizes(path):
    """ComfyUI's ResolutionSelector."""
    table = []
    for ratio in ("1:1", "2:3", "3:2", "3:4", "4:3", "9:16", "16:9", "21:9"):
        a, b = (int(side) for side in ratio.split(":"))
        for megapixels, multiple in ((1.0, 8), (2.0, 16), (1.5, 32), (0.3, 64)):
            unit = math.sqrt(megapixels * 1048576 / (a * b))
            expected = [round(side * unit / multiple) * multiple for side in (a, b)]
            table.append(dict(ratio=ratio, megapixels=megapixels, multiple=multiple, expected=expected))
    rows(path, table)


def exif(orientation):
    e = Image.Exif()
    e[0x0112] = orientation
    return e


def orientation(out, seed):
    os.makedirs(out, exist_ok=True)
    base = picture(24, 16, seed)
    for o in range(1, 9):
        base.save(f"{out}/o{o}.jpg", quality=95, subsampling=0, exif=exif(o))
        ImageOps.exif_transpose(Image.open(f"{out}/o{o}.jpg")).save(f"{out}/o{o}.png")
    base.save(f"{out}/png-exif.png", exif=exif(6))
    base.save(f"{out}/webp-exif.webp", lossless=True, exif=exif(8))
    ImageOps.exif_transpose(Image.open(f"{out}/webp-exif.webp")).convert("RGB").save(f"{out}/webp-exif.png")


def comments(out):
    """Notes as other programs write them: numbers with either byte first, the text with its highest."""
    os.makedirs(out, exist_ok=True)
    text = "%s\nSteps: 4, Seed: 7, Size: 8x8"
    unicode = b"UNICODE\0" + (text % "a b\u00f4t \U0001f680").encode("utf-16-be")
    for name, comment in (("unicode.jpg", unicode), ("unicode.webp", unicode),
                          ("ascii.jpg", b"ASCII\0\0\0" + (text % "a boat").encode())):  # fmt: skip
        notes = Image.Exif()
        notes.endian = ">" if name == "ascii.jpg" else "<"
        notes.get_ifd(0x8769)[0x9286] = comment
        Image.new("RGB", (8, 8), (200, 30, 40)).save(f"{out}/{name}", exif=notes)


def alpha(out, rng):
    os.makedirs(out, exist_ok=True)
    im = noise_image(24, 20, "RGBA", rng)
    im.save(f"{out}/input.png")
    white = Image.new("RGB", im.size, (255, 255, 255))
    white.paste(im, mask=im.getchannel("A"))
    white.save(f"{out}/over-white.png")
    palette = noise_image(9, 7, "RGB", rng).quantize(8)
    palette.info["transparency"] = 2
    palette.save(f"{out}/palette.png", transparency=2)
    Image.open(f"{out}/palette.png").convert("RGBA").save(f"{out}/palette-rgba.png")
    deep = rng.integers(0, 65536, (5, 6), dtype=np.uint16)
    Image.fromarray(deep).save(f"{out}/gray16.png")
    Image.fromarray((deep >> 8).astype(np.uint8)).save(f"{out}/gray16-8.png")
    noise_image(8, 6, "L", rng).convert("LA").save(f"{out}/la.png")
    Image.open(f"{out}/la.png").convert("RGBA").save(f"{out}/la-rgba.png")


def masks(out, rng, seed):
    """A mask on the latent's grid, one step of Euler's method through it, and a canvas with its mask."""
    gen = torch.Generator().manual_seed(seed)
    h, w, channels, factor = 3, 5, 8, 16
    soft = torch.nn.functional.interpolate(
        torch.rand(1, 1, 12, 20, generator=gen), size=(h * factor, w * factor), mode="bicubic"
    )[0, 0]
    mask = ((soft - 0.2) / 0.6).clamp(0, 1)
    m = torch.nn.functional.interpolate(mask[None, None], size=(h, w), mode="bilinear", align_corners=False)[0, 0]
    x, model_x0, latent, noise = torch.randn(4, channels, h, w, generator=gen)
    sigmas = torch.tensor([0.9, 0.5])
    blended = x * m + (sigmas[0] * noise + (1 - sigmas[0]) * latent) * (1 - m)
    denoised = model_x0 * m + latent * (1 - m)
    sides, feather = dict(left=8, top=0, right=16, bottom=8), 6
    image = torch.from_numpy(rng.random((20, 26, 3), dtype=np.float32))
    canvas = torch.full((image.shape[0] + sides["top"] + sides["bottom"],
                         image.shape[1] + sides["left"] + sides["right"], 3), 0.5)  # fmt: skip
    outside = torch.ones(canvas.shape[:2])
    inside = (slice(sides["top"], sides["top"] + 20), slice(sides["left"], sides["left"] + 26))
    canvas[inside] = image
    y, x_ = torch.meshgrid(torch.arange(20.0), torch.arange(26.0), indexing="ij")
    far = torch.full((20, 26), math.inf)
    for side, distance in (("left", x_), ("right", 26 - x_), ("top", y), ("bottom", 20 - y)):
        far = torch.minimum(far, distance) if sides[side] else far
    outside[inside] = ((feather - far) / feather).clamp(min=0) ** 2
    tensors(
        f"{out}/expected.safetensors",
        {
            "mask": mask, "latent_mask": m, "x": x, "model_x0": model_x0, "latent": latent, "noise": noise,
            "sigmas": sigmas, "blended_x": blended, "denoised": denoised,
            "next_x": blended + (sigmas[1] - sigmas[0]) * (blended - denoised) / sigmas[0],
            "outpaint.image": image, "outpaint.canvas": canvas, "outpaint.mask": outside,
        },
    )  # fmt: skip
    case(out, component="image-mask", outpaint=dict(sides, feather=feather))


def colour_profile(tag, length=None):
    """A profile with nothing but its description; length: what its head says of it."""
    size = 144 + len(tag)
    head = struct.pack(">I4sI4s4s4s12s4s28sIII48x", length or size, b"none", 0x02100000, b"mntr", b"RGB ", b"XYZ ",
                       bytes(12), b"acsp", bytes(28), 0xF6D6, 0x10000, 0xD32D)  # fmt: skip
    return head + struct.pack(">I4sII", 1, b"desc", 144, len(tag)) + tag


def plain_description(text):
    """As version 2 has it; text: bytes."""
    tag = struct.pack(">4sII", b"desc", 0, len(text) + 1) + text + bytes(79)
    return tag + bytes(-len(tag) % 4)


def translated_description(**texts):
    """As version 4 has it, in several languages."""
    coded = [text.encode("utf-16-be") for text in texts.values()]
    tag = struct.pack(">4sIII", b"mluc", 0, len(texts), 12)
    at = 16 + 12 * len(texts)
    for language, text in zip(texts, coded):
        tag += struct.pack(">2s2sII", language[:2].encode(), language[2:].encode(), len(text), at)
        at += len(text)
    tag += b"".join(coded)
    return tag + bytes(-len(tag) % 4)


def in_parts(jpeg, profile, order, count):
    """The JPEG file with the profile cut into so many parts, these of them, in that order."""
    size = -(-len(profile) // count)
    parts = [profile[i * size : (i + 1) * size] for i in range(count)]
    segments = (b"ICC_PROFILE\0" + bytes([i + 1, count]) + parts[i] for i in order)
    return jpeg[:2] + b"".join(b"\xff\xe2" + struct.pack(">H", len(s) + 2) + s for s in segments) + jpeg[2:]


def profiles(out):
    """Colour profiles, with the name that LittleCMS finds in what Pillow takes out of the file."""
    os.makedirs(out, exist_ok=True)
    image = picture(16, 16, 1)
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    p3 = colour_profile(plain_description(b"Display P3"))
    two = colour_profile(translated_description(deDE="Breitbild \u00e4", enUS="Wide \u00e4 \U0001f3a8"))
    files = {"srgb.png": srgb, "srgb.jpg": srgb, "srgb.webp": srgb, "p3.png": p3, "p3.webp": p3, "two.jpg": two}
    for name, profile in files.items():
        image.save(f"{out}/{name}", icc_profile=profile, quality=90)
    plain = io.BytesIO()
    image.save(plain, "JPEG")
    with open(f"{out}/parts.jpg", "wb") as f:
        f.write(in_parts(plain.getvalue(), p3, (2, 0, 1), 3))
    cases = []
    for name in (*files, "parts.jpg"):
        profile = ImageCms.ImageCmsProfile(io.BytesIO(Image.open(f"{out}/{name}").info["icc_profile"]))
        cases.append(dict(file=name, name=ImageCms.getProfileDescription(profile).strip()))

    # What nobody can read, in pictures that everybody can.
    with open(f"{out}/missing-part.jpg", "wb") as f:
        f.write(in_parts(plain.getvalue(), p3, (0, 2), 3))
    bomb = colour_profile(plain_description(b"Bomb") + bytes(8 << 20))
    image.save(f"{out}/bomb.png", icc_profile=bomb)
    image.save(f"{out}/length.png", icc_profile=colour_profile(plain_description(b"Length"), 0xFFFFFFF0))
    with open(f"{out}/p3.png", "rb") as f:
        whole = f.read()
    with open(f"{out}/damaged.png", "wb") as f:
        f.write(whole.replace(b"ICC Profile\0\0\x78", b"ICC Profile\0\0\x77"))
    image.save(f"{out}/nonsense.webp", icc_profile=b"nonsense")
    for name in ("missing-part.jpg", "bomb.png", "length.png", "damaged.png", "nonsense.webp"):
        cases.append(dict(file=name, name="unknown"))
    rows(f"{out}/cases.json", cases)


def main(seed, out, variant):
    out = f"{out}/image"
    rng = np.random.default_rng(seed)
    resizes(f"{out}/resize", rng, variant)
    sizes(f"{out}/reference-sizes.json")
    vision_sizes(f"{out}/vision-sizes.json")
    aspect_sizes(f"{out}/aspect-sizes.json")
    orientation(f"{out}/orientation", seed)
    comments(f"{out}/comments")
    alpha(f"{out}/alpha", rng)
    masks(f"{out}/mask", rng, seed)
    profiles(f"{out}/icc")
