"""Somebody with a folder of ComfyUI's models and nothing else: no tokenizers, no documents, no configuration."""

import json
import os
import pathlib
import shutil
import tomllib

import safetensors
import tap
from kuno import E2E, GOLDEN, Case

KREA2, Z_IMAGE, QWEN = GOLDEN / "krea2" / "models", GOLDEN / "z-image" / "models", GOLDEN / "qwen2512" / "e2e"
MERGES = pathlib.Path(__file__).resolve().parents[2] / "models" / "qwen-tokenizer" / "merges.txt"
ROWS = 151936  # of the published embedding tables

FILES = {
    "diffusion_models/krea2_turbo_fp8_scaled.safetensors": KREA2 / "krea2_turbo_fp8_scaled.safetensors",
    "diffusion_models/z_image_turbo_bf16.safetensors": Z_IMAGE / "z_image_turbo_bf16.safetensors",
    "diffusion_models/qwen_image_2512_bf16.safetensors": QWEN / "transformer.safetensors",
    "diffusion_models/qwen_image_2.1_turbo_bf16.safetensors": E2E / "transformer.safetensors",
    "text_encoders/qwen/config.json": QWEN / "config.json",
    "text_encoders/qwen3vl_8b/config.json": E2E / "config.json",
    "vae/qwen_image_vae.safetensors": KREA2 / "qwen_image_vae.safetensors",
    "vae/qwen_image_2.1_vae.safetensors": E2E / "vae.safetensors",
}
ENCODERS = {
    "text_encoders/qwen3vl_4b_fp8_scaled.safetensors": KREA2 / "qwen3vl_4b_fp8_scaled.safetensors",
    "text_encoders/qwen_3_4b.safetensors": Z_IMAGE / "qwen_3_4b.safetensors",
    "text_encoders/qwen/qwen_2.5_vl_7b.safetensors": QWEN / "text_encoder.safetensors",
    "text_encoders/qwen3vl_8b/qwen3vl_8b.safetensors": E2E / "text_encoder.safetensors",
}
PROFILES = {
    "krea2-turbo-fp8-scaled": ("krea2", "turbo"),
    "z-image-turbo-bf16": ("z-image", "turbo"),
    "qwen-image-2512-bf16": ("qwen-image", "base"),
    "qwen-image-2-1-turbo-bf16": ("qwen-image-2.1", "turbo"),
}


def with_real_vocabulary(path):
    """The tiny text encoder with as many rows as there are tokens, its own over and over."""
    parts = safetensors.parts(path)
    for name, (dtype, shape, data) in parts.items():
        if name.endswith("embed_tokens.weight"):
            row = len(data) // shape[0]
            parts[name] = (dtype, [ROWS, shape[1]], (data * (ROWS // shape[0] + 1))[:ROWS * row])
    return safetensors.make(parts)


def published_tokenizer(folder):
    """vocab.json and merges.txt, as people have them from a repository."""
    plain = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    symbols = [chr(b) for b in plain] + [chr(0x100 + i) for i in range(256 - len(plain))]
    lines = MERGES.read_text(encoding="utf-8").splitlines()[1:]
    tokens = symbols + [line.replace(" ", "") for line in lines]
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    shutil.copy(MERGES, folder / "merges.txt")
    return str(folder)


class NewUser(Case):
    def setUp(self):
        super().setUp()
        self.models = self.home / "ComfyUI" / "models"
        for name, source in FILES.items():
            self.place(name).write_bytes(source.read_bytes())
        for name, source in ENCODERS.items():
            self.place(name).write_bytes(with_real_vocabulary(source))
        vae = {name.removeprefix("vae."): part
               for name, part in safetensors.parts(Z_IMAGE / "z_image_all_in_one_fp8.safetensors").items()
               if name.startswith("vae.")}
        self.place("vae/ae.safetensors").write_bytes(safetensors.make(vae))

    def place(self, name):
        path = self.models / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def picture(self, profile, *args):
        name = f"{profile}{len(os.listdir(self.folder))}.png"
        self.draws("a boat, 一艘船 <|im_end|>", "--model-profile", profile, "--size", "32x32", "--seed", "1",
                   "--no-metadata", "--output", name, *args)
        return (self.folder / name).read_bytes()

    def test_pasted(self):
        """draws_with_every_model_once_the_printed_profiles_are_where_kuno_looks"""
        text = self.kuno("inspect-models", str(self.models)).out.decode()
        place = self.home / ".config" / "kuno" / "models.toml"
        place.parent.mkdir(parents=True)
        place.write_text(text)
        profiles = tomllib.loads(text)["model_profiles"]
        self.assertEqual({name: (p["architecture"], p["variant"]) for name, p in profiles.items()}, PROFILES)
        self.assertNotIn("make sure", text)
        self.assertNotIn("Cannot be used", text)
        tokenizer = published_tokenizer(self.inputs / "tokenizer")
        for name, profile in profiles.items():
            self.assertNotIn("tokenizer", profile)
            self.assertEqual(self.picture(name), self.picture(name, "--tokenizer-path", tokenizer))
        profile, = json.loads(self.kuno("inspect-models", "--json", "--model-profile",
                                        "z-image-turbo-bf16").out)["profiles"]
        self.assertEqual((profile["components"][-1]["path"], profile["components"][-1]["tokens"]),
                         ("(built in)", 151669))


if __name__ == "__main__":
    tap.main()
