"""Files of random weights (bench/random_checkpoint): they are what the published files are, and the program says so.

Only their headers are written, and only headers are looked at: 320 GB take a few seconds.
"""

import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tomllib

import tap
from kuno import GOLDEN, Case, add_cases, environment

BENCH = pathlib.Path(os.environ["KUNO_BENCH"])
sys.path.insert(0, str(BENCH))
import checkpoint  # noqa: E402 (these lie there)
import networks  # noqa: E402

# What inspection calls the networks; what a text encoder is follows from what is beside it.
KINDS = {
    "z-image": "z-image",
    "krea2": "krea2",
    "qwen-image-2.1": "qwen-image-2.1",
    "qwen-image": "qwen-image",
    "qwen3-4b": "qwen3",
    "qwen3-vl-4b": "qwen3-vl",
    "qwen3-vl-8b": "qwen3-vl",
    "qwen2.5-vl-7b": "qwen2.5-vl",
    "flux-ae": "flux-ae",
    "qwen-image-vae": "qwen-image-vae",
    "qwen-image-2.1-vae": "qwen-image-2.1-vae",
    "rrdb": "rrdb",
}
PUBLISHED = {
    "z_image_bf16": ("z-image", "bf16"),
    "krea2_bf16": ("krea2", "bf16"),
    "krea2_fp8_scaled": ("krea2", "fp8"),
    "qwen_image_fp8": ("qwen-image", "fp8"),
    "qwen3_4b": ("qwen3-4b", "bf16"),
    "qwen3vl_4b_text_fp8_scaled": ("qwen3-vl-4b", "fp8"),  # lists no vision tower
    "flux_ae": ("flux-ae", "bf16"),
    "qwen_image_vae": ("qwen-image-vae", "bf16"),
}
# A folder as ComfyUI has it, with a model of every kind.
TREE = {
    "diffusion_models/z_image_fp8_scaled.safetensors": ("z-image", "fp8"),
    "unet/z-image-Q8_0.gguf": ("z-image", "q8_0"),
    "unet/z-image-Q4_K_M.gguf": ("z-image", "q4_k"),
    "diffusion_models/krea2_raw_fp8_scaled.safetensors": ("krea2", "fp8"),
    "diffusion_models/qwen_image_2.1_int8_convrot.safetensors": ("qwen-image-2.1", "int8"),
    "unet/qwen-image-2.1-Q4_K_M.gguf": ("qwen-image-2.1", "q4_k"),
    "diffusion_models/qwen_image_2512_fp8_e4m3fn.safetensors": ("qwen-image", "fp8"),
    "text_encoders/qwen_3_4b.safetensors": ("qwen3-4b", "bf16"),
    "text_encoders/qwen3vl_4b_fp8_scaled.safetensors": ("qwen3-vl-4b", "fp8"),
    "text_encoders/qwen3vl_8b_int8_convrot.safetensors": ("qwen3-vl-8b", "int8"),
    "text_encoders/qwen_2.5_vl_7b_fp8_scaled.safetensors": ("qwen2.5-vl-7b", "fp8"),
    "vae/ae.safetensors": ("flux-ae", "bf16"),
    "vae/qwen_image_vae.safetensors": ("qwen-image-vae", "bf16"),
    "vae/qwen_image_2.1_vae_bf16.safetensors": ("qwen-image-2.1-vae", "bf16"),
}
MAY_TAKE_BYTES = 1 << 30  # beside the weights, for a picture of the model's own size


class Checkpoints(Case):
    def write_checkpoint(self, model, storage, path=None, *options):
        path = path or self.inputs / f"{model}-{storage}"
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([BENCH / "random_checkpoint", model, storage, "--output", path, *options], check=True,
                       env=environment(self.home))
        return path

    def inspects(self, *args):
        result = self.kuno("inspect-models", "--json", *args)
        self.assertEqual((result.code, result.err), (0, ""), result.out)
        return json.loads(result.out)

    def header(self, path):
        with open(path, "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
        return {name: [entry["dtype"], entry["shape"]] for name, entry in header.items() if name != "__metadata__"}

    def test_folder(self):
        """a_folder_of_all_makes_profiles_in_which_every_part_fits_and_a_step_takes_less_than_1_GiB"""
        root = self.inputs / "models"
        for name, (model, storage) in TREE.items():
            self.write_checkpoint(model, storage, root / name, "--sparse")
        result = self.kuno("inspect-models", str(root))
        self.assertEqual((result.code, result.err), (0, ""))
        names = set(tomllib.loads(result.out.decode())["model_profiles"])
        self.assertEqual(len(names), 7)
        config = self.write("models.toml", result.out)
        seen = {profile["profile"]: profile for profile in self.inspects("--config", config)["profiles"]}
        for name in names:
            parts = {part["slot"]: part["fits"] for part in seen[name]["components"]}
            self.assertEqual(parts, dict.fromkeys(("diffusion model", "text encoder", "VAE", "tokenizer"), True))
            needs = {stage["name"]: stage["peak_bytes"] for stage in seen[name]["memory"]["stages"]}
            self.assertGreaterEqual(seen[name]["memory"]["width"], 1024)  # the model's usual size
            self.assertLess(needs["encode"], MAY_TAKE_BYTES)
            self.assertLess(needs["diffuse"], MAY_TAKE_BYTES)

    def test_layers(self):
        """a_model_of_one_layer_is_one_still"""
        for model, storage in (("z-image", "fp8"), ("krea2", "fp8"), ("qwen-image-2.1", "q4_k")):
            path = self.write_checkpoint(model, storage, None, "--sparse", "--layers", "1")
            part, = self.inspects(str(path))["files"]
            self.assertEqual((part["architecture"], part["missing_scales"]), (KINDS[model], 0))

    def test_seed(self):
        """the_same_seed_makes_the_same_numbers"""
        tensor = checkpoint.Stored("any", "BF16", (5000, 3000), checkpoint.Normal(0, 1))
        one, same, other = (b"".join(checkpoint.Pools(seed).pieces(tensor)) for seed in (1, 1, 2))
        self.assertEqual(len(one), tensor.bytes)
        self.assertTrue(one == same)
        self.assertFalse(one == other)


FP8_VALUES = json.loads((GOLDEN / "fp8" / "tables.json").read_text())["decode"]["F8_E4M3"]


def decode_q8_0(block):
    d, *codes = struct.unpack("<e32b", block)
    return [d * code for code in codes]


def decode_q4_k(block):
    d, dmin, scales, codes = *struct.unpack_from("<ee", block), block[4:16], block[16:]
    for j in range(8):
        if j < 4:
            scale, minimum = scales[j] & 63, scales[j + 4] & 63
        else:
            scale = scales[j + 4] & 15 | scales[j - 4] >> 6 << 4
            minimum = scales[j + 4] >> 4 | scales[j] >> 6 << 4
        for code in codes[32 * (j // 2):][:32]:
            yield d * scale * (code >> 4 * (j % 2) & 15) - dmin * minimum


DECODERS = {  # from the bytes of a block to its numbers
    "F32": lambda block: struct.unpack("<f", block),
    "BF16": lambda block: struct.unpack("<f", bytes(2) + block),
    "F8_E4M3": lambda block: [FP8_VALUES[block[0]]],
    "I8": lambda block: struct.unpack("<b", block),
    "Q8_0": decode_q8_0,
    "Q4_K": decode_q4_k,
}


def has_the_spread(storage):
    def check(self):
        deviation = 40 if storage == "I8" else 0.02
        item = checkpoint.STORAGE[storage][1]
        data = checkpoint.Pools(7).make(storage, 0, deviation)[:item * (100_000 // item)]
        numbers = [x for at in range(0, len(data), item) for x in DECODERS[storage](data[at:at + item])]
        self.assertLess(abs(statistics.fmean(numbers)), 0.02 * deviation)
        self.assertAlmostEqual(statistics.pstdev(numbers) / deviation, 1, delta=0.03)
        self.assertLess(max(map(abs, numbers)), 5 * deviation)
    return check


def has_the_published_tensors(manifest):
    def check(self):
        path = self.write_checkpoint(*PUBLISHED[manifest], None, "--sparse")
        published = json.loads((GOLDEN / "manifests" / f"{manifest}.json").read_text())
        published.pop("__metadata__", None)
        own = self.header(path)
        if "_text_" in manifest:
            own = {name: entry for name, entry in own.items() if not name.startswith("visual.")}
        self.assertEqual(own, published)
    return check


def is_recognised(model, storage):
    def check(self):
        path = self.write_checkpoint(model, storage, None, "--sparse")
        part, = self.inspects(str(path))["files"]
        self.assertEqual((part["architecture"], part["missing_scales"]), (KINDS[model], 0))
        self.assertEqual(part["quantised_layers"] > 0, storage != "bf16")
        self.assertLess(path.stat().st_blocks * 512, 50_000_000)
    return check


add_cases(Checkpoints, [
    *((f"has_the_tensors_of_{manifest}", has_the_published_tensors(manifest)) for manifest in PUBLISHED),
    *((f"is_recognised_{model}_{storage}", is_recognised(model, storage))
      for model, network in networks.NETWORKS.items() for storage in network.formats),
    *((f"numbers_have_the_spread_that_they_should_as_{storage}", has_the_spread(storage)) for storage in DECODERS),
])

if __name__ == "__main__":
    tap.main()
