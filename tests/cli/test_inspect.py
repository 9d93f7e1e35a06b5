"""kuno inspect-models: what files are, told from their headers alone."""

import json
import os
import shutil
import tomllib

import safetensors
import tap
from kuno import E2E, GOLDEN, SANITIZED, TINY, Case, add_cases

PARTS = {"transformer": "qwen-image-2.1", "text_encoder": "qwen3-vl", "vae": "qwen-image-2.1-vae"}
KREA2, Z_IMAGE = GOLDEN / "krea2" / "models", GOLDEN / "z-image" / "models"
QWEN = GOLDEN / "qwen2512" / "e2e"

# A folder as ComfyUI has it: where each file of the tiny models lies, under a name that people would meet.
TREE = {
    "diffusion_models/krea2_turbo_fp8_scaled.safetensors": KREA2 / "krea2_turbo_fp8_scaled.safetensors",
    "diffusion_models/My \"Krea\" 2 \\ RAW.safetensors": KREA2 / "krea2_turbo_diffusers.safetensors",
    "diffusion_models/z_image_turbo_bf16.safetensors": Z_IMAGE / "z_image_turbo_bf16.safetensors",
    "unet/qwen-image-2.1-Q8_0.gguf": E2E / "transformer-Q8_0.gguf",
    "diffusion_models/qwen/qwen_image_2512_fp8.safetensors": QWEN / "transformer.safetensors",
    "text_encoders/qwen/qwen_2.5_vl_7b.safetensors": QWEN / "text_encoder.safetensors",
    "text_encoders/qwen/config.json": QWEN / "config.json",
    "checkpoints/z_image_base_aio_fp8.safetensors": Z_IMAGE / "z_image_all_in_one_fp8.safetensors",
    "text_encoders/qwen3vl_4b_fp8_scaled.safetensors": KREA2 / "qwen3vl_4b_fp8_scaled.safetensors",
    "text_encoders/qwen_3_4b.safetensors": Z_IMAGE / "qwen_3_4b.safetensors",
    "text_encoders/Qwen3-VL-8B-Q8_0.gguf": E2E / "text_encoder-Q8_0.gguf",
    "vae/qwen_image_vae.safetensors": KREA2 / "qwen_image_vae.safetensors",
    "vae/qwen_image_2.1_vae.safetensors": E2E / "vae.safetensors",
    "tokenizers/krea2": GOLDEN / "tokenizer-tiny",
    "tokenizers/z-image": Z_IMAGE / "tokenizer",
    "tokenizers/qwen/tokenizer.json": E2E / "tokenizer.json",
}
SECONDS = 1
TRIES = 4


class Looking(Case):
    def inspects(self, *args, code=0):
        result = self.kuno("inspect-models", *args)
        self.assertEqual((result.code, result.err), (code, ""))
        return result

    def inspects_json(self, *args, code=0):
        return json.loads(self.inspects("--json", *args, code=code).out)


class Inspect(Looking):
    def test_demo(self):
        """says_that_every_part_of_the_demo_model_fits"""
        profile, = self.inspects_json()["profiles"]
        self.assertEqual((profile["profile"], profile["architecture"]), ("demo", "qwen-image-2.1"))
        self.assertEqual([part["slot"] for part in profile["components"]],
                         ["diffusion model", "text encoder", "VAE", "tokenizer"])
        self.assertTrue(all(part["fits"] for part in profile["components"]))

    def test_text(self):
        """says_the_same_to_people"""
        text = self.inspects().out.decode()
        self.assertTrue(text.startswith("profile demo: Qwen-Image 2.1, turbo\n"))
        self.assertEqual(text.count("    fits\n"), 4)

    def test_profiles(self):
        """looks_at_every_profile_that_there_is"""
        names = [profile["profile"] for profile in self.inspects_json(*TINY)["profiles"]]
        self.assertEqual(names, ["tiny", "tiny-turbo", "tiny-gguf", "tiny-int8", "demo"])

    def test_profile(self):
        """looks_at_one_profile_when_asked"""
        profile, = self.inspects_json(*TINY, "--model-profile", "tiny-turbo")["profiles"]
        self.assertEqual((profile["profile"], profile["variant"]), ("tiny-turbo", "turbo"))

    def test_damaged_profile(self):
        """says_which_part_of_a_profile_cannot_be_used"""
        text = (E2E / "models.toml").read_text().replace("vae.safetensors", "transformer.safetensors")
        for name in ("transformer.safetensors", "text_encoder.safetensors", "tokenizer.json"):
            os.symlink(E2E / name, self.inputs / name)
        path = self.write("models.toml", text)
        profile, = self.inspects_json("--config", path, "--model-profile", "tiny", code=2)["profiles"]
        self.assertEqual([part["slot"] for part in profile["components"] if not part["fits"]], ["VAE"])

    def test_unknown(self):
        """says_that_a_sound_file_belongs_to_no_known_network"""
        path = self.write("own.safetensors", safetensors.make({"mine": ("F32", [1], bytes(4))}))
        part, = self.inspects_json(path, code=2)["files"]
        self.assertEqual((part["role"], part["tensors"], part["bytes"]), ("unknown", 1, 4))

    def test_reason(self):
        """says_why_a_file_cannot_be_used_in_the_words_of_one_thing_or_many"""
        path = self.write("own.safetensors", safetensors.make({"mine": ("F32", [1], bytes(4))}))
        text = self.inspects(path, code=2).out.decode()
        self.assertIn("nothing known, 1 tensor, ", text)
        self.assertIn("cannot be used: its tensor names belong to no known network\n", text)
        text = self.inspects(self.write("none.safetensors", safetensors.make({})), code=2).out.decode()
        self.assertNotIn("stored as", text)
        self.assertIn("cannot be used: the file holds no tensors\n", text)

    def refuses_format(self, tensors, metadata, *words):
        path = self.write("model.safetensors", safetensors.make(tensors, metadata))
        part, = self.inspects_json(path, code=2)["files"]
        self.assertEqual((part["architecture"], part["tensors"]), ("z-image", len(tensors)))
        for word in words:
            self.assertIn(word, part["error"])

    def test_foreign_formats(self):
        """refuses_formats_that_are_not_read_by_their_names_and_says_what_to_use_instead"""
        whole = safetensors.parts(Z_IMAGE / "z_image_turbo_bf16.safetensors")
        layer, instead = "layers.0.feed_forward.w1", "use an FP8, INT8 or GGUF version of the model"
        rows, row = whole[f"{layer}.weight"][1]
        packed = {**whole, f"{layer}.weight": ("U8", [rows, row // 2], bytes(rows * row // 2))}
        for name in ("nvfp4", "mxfp8", "int4_awq"):
            record = json.dumps({"format": name}).encode()
            self.refuses_format({**packed, f"{layer}.comfy_quant": ("U8", [len(record)], record)}, None,
                                f"layer {layer}: ", f"'{name}'", instead)
            listed = {"format_version": "1.0", "layers": {layer: {"format": name}}}
            self.refuses_format(packed, {"_quantization_metadata": json.dumps(listed)}, f"'{name}'", instead)
        for suffix, name in (("weight_scale_2", "NVFP4"), ("qzeros", "AWQ or GPTQ"), ("absmax", "bitsandbytes")):
            self.refuses_format({**packed, f"{layer}.{suffix}": ("F32", [1], bytes(4))}, None, name, instead)

    def test_broken_records(self):
        """refuses_a_quantization_record_that_makes_no_sense"""
        whole = safetensors.parts(Z_IMAGE / "z_image_turbo_bf16.safetensors")
        for text, word in (('{"layers"', "_quantization_metadata"), ("[" * 10000, "_quantization_metadata"),
                           ('{"format_version": "9", "layers": {}}', "format_version '9'"),
                           ('{"format_version": "1.0", "layers": {"mine": {"format": "float8_e4m3fn"}}}', "mine")):
            self.refuses_format(whole, {"_quantization_metadata": text}, word)

    def test_missing_scale(self):
        """counts_missing_scales_whatever_the_network_is"""
        for name, missing in (("bad_missing_scale", 1), ("linear_comfy_quant", 0)):
            part, = self.inspects_json(str(GOLDEN / "fp8" / f"{name}.safetensors"), code=2)["files"]
            self.assertEqual((part["role"], part["missing_scales"]), ("unknown", missing))
        text = self.inspects(str(GOLDEN / "fp8" / "bad_missing_scale.safetensors"), code=2).out.decode()
        self.assertIn("1 scale missing", text)
        self.assertIn("cannot be used: layer net.0 is missing weight_scale\n", text)

    def test_absent(self):
        """goes_on_to_the_next_file_after_one_that_is_absent"""
        absent, vae = self.inspects_json("absent", str(E2E / "vae.safetensors"), code=2)["files"]
        self.assertIn("no such file", absent["error"])
        self.assertEqual(vae["role"], "VAE")

    def test_name(self):
        """tells_a_file_in_lines_of_its_own_whatever_its_name"""
        name = "new\nline \x1b[31mred.safetensors"
        self.write(name, (E2E / "vae.safetensors").read_bytes())
        text = self.inspects(str(self.inputs / name)).out.decode()
        self.assertNotIn("\x1b", text)
        self.assertIn(r"new\x0aline \x1b[31mred.safetensors", text.split("\n")[0])
        part, = self.inspects_json(str(self.inputs / name))["files"]
        self.assertEqual(part["path"], str(self.inputs / name))

    def test_large(self):
        """looks_at_the_header_only_of_a_file_of_20_GB"""
        rows = 5_000_000_000
        header = {"blocks.0.weight": {"dtype": "F32", "shape": [rows], "data_offsets": [0, 4 * rows]}}
        path = self.write("large.safetensors", safetensors.join(header, b""))
        os.truncate(path, os.path.getsize(path) + 4 * rows)
        results = []
        while not results or (min(r.seconds for r in results) > SECONDS and len(results) < TRIES):
            results.append(self.inspects("--json", path, code=2))
        part, = json.loads(results[0].out)["files"]
        self.assertEqual(part["bytes"], 4 * rows)
        self.assertLessEqual(min(result.seconds for result in results), SECONDS)
        if not SANITIZED:
            self.assertLess(results[0].rss_bytes, 100_000_000)

    def test_mixed(self):
        """refuses_files_beside_a_profile"""
        self.refuses(["inspect-models", "a.safetensors", "--model-profile", "demo"], "exclude each other")

    def test_unknown_profile(self):
        """refuses_an_unknown_profile"""
        self.refuses(["inspect-models", "--model-profile", "nope"], "unknown model profile 'nope'", "demo")


class Folder(Looking):
    def tree(self, *left_out):
        root = self.inputs / "models"
        for name, source in TREE.items():
            if name not in left_out:
                place = root / name
                place.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if source.is_dir() else shutil.copy)(source, place)
        return root

    def looks(self, root, code=0):
        folder, = self.inspects_json(str(root), code=code)["folders"]
        return folder

    def test_profiles(self):
        """prints_profiles_that_draw_when_pasted"""
        root = self.tree()
        text = self.inspects(str(root)).out.decode()
        path = self.write("models.toml", text)
        profiles = tomllib.loads(text)["model_profiles"]
        self.assertEqual({name: (p["architecture"], p["variant"]) for name, p in profiles.items()}, {
            "qwen-image-2-1-q8-0": ("qwen-image-2.1", "base"),
            "z-image-base-aio-fp8": ("z-image", "base"),
            "z-image-turbo-bf16": ("z-image", "turbo"),
            "krea2-turbo-fp8-scaled": ("krea2", "turbo"),
            "my-krea-2-raw": ("krea2", "raw"),
            "qwen-image-2512-fp8": ("qwen-image", "base"),
        })
        self.assertEqual(profiles["z-image-turbo-bf16"]["text_encoder"],
                         str(root / "text_encoders" / "qwen_3_4b.safetensors"))
        self.assertEqual(profiles["z-image-turbo-bf16"]["tokenizer"], str(root / "tokenizers" / "z-image"))
        self.assertEqual(profiles["z-image-base-aio-fp8"]["checkpoint"],
                         str(root / "checkpoints" / "z_image_base_aio_fp8.safetensors"))
        for name in profiles:
            self.draws("a boat", "--config", path, "--model-profile", name, "--size", "32x32", "--seed", "1",
                       "--output", f"{name}.png")
            self.assertTrue((self.folder / f"{name}.png").exists())

    def test_use(self):
        """says_where_profiles_go_and_how_they_are_used"""
        root = self.tree()
        first = next(iter(tomllib.loads(self.inspects(str(root)).out.decode())["model_profiles"]))
        for config, place in ((None, ".config/kuno/models.toml"), ("/elsewhere", "/elsewhere/kuno/models.toml")):
            more = {"env": {"XDG_CONFIG_HOME": config}} if config else {}
            text = self.kuno("inspect-models", str(root), **more).out.decode()
            self.assertIn(f"{place} and say\n#   kuno generate --model-profile {first} \"a prompt\"\n", text)
            line = f'default_model = "{first}"\n'
            self.assertIn(f"\n# {line}", text)
            self.assertEqual(tomllib.loads(text.replace(f"# {line}", line))["default_model"], first)
        (root / "diffusion_models").rename(self.folder / "away")
        for name in ("unet", "checkpoints"):
            shutil.rmtree(root / name)
        self.assertNotIn("kuno generate", self.inspects(str(root), code=2).out.decode())

    def test_unchosen(self):
        """names_the_option_and_the_profiles_when_none_is_chosen"""
        path = self.write("models.toml", self.inspects(str(self.tree())).out)
        self.refuses(["generate", "a boat", "--config", path], "no model is chosen; give --model-profile NAME or set "
                     "default_model; known: ", "krea2-turbo-fp8-scaled", "z-image-turbo-bf16")

    def test_key(self):
        """names_the_key_that_a_profile_lacks"""
        path = self.write("models.toml", f'[models]\nvae = "{E2E / "vae.safetensors"}"\n')
        self.refuses(["generate", "a boat", "--config", path],
                     "profile 'legacy' has no diffusion_model; add it to the profile or give --diffusion-model")

    def test_json(self):
        """says_the_same_in_json"""
        root = self.tree()
        groups = self.looks(root)["architectures"]
        tables = "\n".join(profile["toml"] for group in groups for profile in group["profiles"])
        self.assertEqual(tomllib.loads(tables), tomllib.loads(self.inspects(str(root)).out.decode()))
        profile, = groups[0]["profiles"]
        self.assertEqual((groups[0]["architecture"], profile["name"], profile["variant_is_guess"]),
                         ("qwen-image-2.1", "qwen-image-2-1-q8-0", True))

    def test_missing(self):
        """says_what_is_missing_to_a_diffusion_model"""
        root = self.tree("text_encoders/qwen3vl_4b_fp8_scaled.safetensors", "text_encoders/qwen_3_4b.safetensors",
                         "text_encoders/Qwen3-VL-8B-Q8_0.gguf", "checkpoints/z_image_base_aio_fp8.safetensors",
                         "text_encoders/qwen/qwen_2.5_vl_7b.safetensors")
        groups = {group["architecture"]: group for group in self.looks(root, code=2)["architectures"]}
        self.assertEqual([one["missing"] for one in groups["krea2"]["incomplete"]],
                         2 * [["a Qwen3-VL-4B text encoder"]])
        self.assertEqual([one["missing"] for one in groups["z-image"]["incomplete"]],
                         [["a Qwen3 text encoder", "a FLUX autoencoder"]])
        text = self.inspects(str(root), code=2).out.decode()
        self.assertIn("is a diffusion model; missing: a Qwen3-VL-4B text encoder\n", text)
        self.assertEqual(tomllib.loads(text), {})

    def test_tokenizer(self):
        """says_that_the_built_in_tokenizer_is_not_that_of_a_text_encoder"""
        root = self.tree("tokenizers/krea2", "tokenizers/z-image", "tokenizers/qwen/tokenizer.json")
        groups = self.looks(root, code=2)["architectures"]
        for one in (one for group in groups for one in group["incomplete"]):
            self.assertEqual(one["missing"], [])
            self.assertRegex(one["error"], "^tokenizer: the built-in one has 151669 tokens, the text encoder's table "
                                           "only [0-9]+; name the tokenizer that comes with it")

    def test_own_tokenizer(self):
        """takes_the_tokenizer_that_lies_beside_the_text_encoder"""
        root = self.tree("tokenizers/krea2", "text_encoders/qwen3vl_4b_fp8_scaled.safetensors")
        for name in ("aaa", "qwen3vl_4b", "zzz"):
            shutil.copytree(GOLDEN / "tokenizer-tiny", root / "text_encoders" / name)
        own = root / "text_encoders" / "qwen3vl_4b"
        shutil.copy(KREA2 / "qwen3vl_4b_fp8_scaled.safetensors", own / "model.safetensors")
        krea, = (group for group in self.looks(root)["architectures"] if group["architecture"] == "krea2")
        self.assertEqual({(profile["text_encoder"], profile["tokenizer"]) for profile in krea["profiles"]},
                         {(str(own / "model.safetensors"), str(own))})

    def whole_vocabulary(self, path):
        """A text encoder whose table has room for the built-in tokenizer; the table takes no room on the disk."""
        parts = safetensors.parts(Z_IMAGE / "qwen_3_4b.safetensors")
        table, = (name for name in parts if name.endswith("embed_tokens.weight"))
        kind, (_, width), _ = parts.pop(table)
        header, data = safetensors.split(safetensors.make(parts))
        end = len(data) + 151936 * width * 2
        header[table] = {"dtype": kind, "shape": [151936, width], "data_offsets": [len(data), end]}
        path.write_bytes(safetensors.join(header, data))
        os.truncate(path, path.stat().st_size + end - len(data))

    def test_foreign_tokenizer(self):
        """takes_the_built_in_tokenizer_before_that_of_another_folder_but_not_before_its_own"""
        root = self.tree(*(name for name in TREE if not name.startswith(("diffusion_models/z", "vae", "checkpoints"))))
        shutil.copytree(GOLDEN / "tokenizer-tiny", root / "text_encoders" / "aaa")
        place = root / "text_encoders" / "qwen" / "model.safetensors"
        place.parent.mkdir()
        self.whole_vocabulary(place)

        def tokenizers():
            group, = (group for group in self.looks(root)["architectures"] if group["architecture"] == "z-image")
            return {profile.get("tokenizer") for profile in group["profiles"] if profile["text_encoder"] == str(place)}
        self.assertEqual(tokenizers(), {None})
        shutil.copy(GOLDEN / "tokenizer-tiny" / "tokenizer.json", place.parent)
        self.assertEqual(tokenizers(), {str(place.parent)})

    def test_doubt(self):
        """takes_the_name_where_headers_look_alike_and_says_so_where_that_does_not_help"""
        root = self.tree()
        plain = root / "text_encoders" / "qwen_3_4b_other.safetensors"  # Krea's encoder under the name of Z-Image's
        shutil.copy(root / "text_encoders" / "qwen3vl_4b_fp8_scaled.safetensors", plain)
        krea, = (group for group in self.looks(root)["architectures"] if group["architecture"] == "krea2")
        for profile in krea["profiles"]:
            self.assertEqual(profile["text_encoder"],
                             str(root / "text_encoders" / "qwen3vl_4b_fp8_scaled.safetensors"))
            self.assertFalse(profile["text_encoder_is_guess"])
        (root / "text_encoders" / "qwen3vl_4b_fp8_scaled.safetensors").unlink()
        krea, = (group for group in self.looks(root)["architectures"] if group["architecture"] == "krea2")
        for profile in krea["profiles"]:
            self.assertEqual(profile["text_encoder"], str(plain))
            self.assertTrue(profile["text_encoder_is_guess"])
            self.assertIn("# make sure that it is a Qwen3-VL-4B text encoder", profile["toml"])

    def test_widths(self):
        """says_that_a_text_encoder_is_not_the_one_of_the_model"""
        root = self.tree("text_encoders/qwen3vl_4b_fp8_scaled.safetensors", "text_encoders/qwen_3_4b.safetensors",
                         "checkpoints/z_image_base_aio_fp8.safetensors")
        groups = {group["architecture"]: group for group in self.looks(root)["architectures"]}
        self.assertEqual([one["missing"] for one in groups["krea2"]["incomplete"]], [[], []])
        for one in groups["krea2"]["incomplete"]:
            self.assertIn("text encoder: ", one["error"])

    def test_others(self):
        """counts_other_models_and_names_damaged_ones"""
        root = self.tree()
        for name in ("one", "two"):
            (root / f"{name}.safetensors").write_bytes(safetensors.make({
                f"{name}.lora_A.weight": ("F32", [1], bytes(4))}))
        (root / "upscaler.safetensors").write_bytes(safetensors.make({"body": ("F32", [1], bytes(4))}))
        (root / "notes.safetensors").write_text("these are notes")
        cut = root / "vae" / "cut.safetensors"
        cut.write_bytes((E2E / "vae.safetensors").read_bytes()[:-100])
        folder = self.looks(root)
        self.assertEqual(folder["others"], {"a LoRA": 2, "unknown": 1})
        problem, = folder["problems"]
        self.assertEqual(problem["path"], str(cut))
        self.assertIn("truncated", problem["error"])

    def test_names(self):
        """gives_every_profile_a_name_of_its_own_and_refuses_names_that_no_profile_can_hold"""
        root = self.tree()
        model = E2E / "transformer-Q8_0.gguf"
        for name in ("more/qwen-image-2.1-Q8_0.gguf", "\u00e4\u6f22.gguf", "demo.gguf", "a\nb.gguf"):
            place = root / "unet" / name
            place.parent.mkdir(exist_ok=True)
            shutil.copy(model, place)
        group = self.looks(root)["architectures"][0]
        names = [profile["name"] for profile in group["profiles"]]
        self.assertEqual(names, ["demo-2", "qwen-image-2-1-q8-0", "qwen-image-2-1-q8-0-2", "model"])
        problem, = self.looks(root)["problems"]
        self.assertIn("control characters", problem["error"])
        self.assertEqual(len(tomllib.loads(self.inspects(str(root)).out.decode())["model_profiles"]), 9)

    def test_loops(self):
        """visits_nothing_twice_and_opens_regular_files_only"""
        root = self.tree()
        (root / "again").symlink_to(root)
        (root / "unet" / "up").symlink_to("..")
        (root / "unet" / "link.gguf").symlink_to("qwen-image-2.1-Q8_0.gguf")
        os.mkfifo(root / "vae" / "pipe.safetensors")
        folder = self.looks(root)
        self.assertEqual(sum(len(group["profiles"]) for group in folder["architectures"]), 6)
        self.assertEqual(folder["cut"], False)

    def test_depth(self):
        """says_when_a_tree_is_too_deep"""
        deep = self.inputs / "deep"
        (deep / "/".join("abcdefghijklmnop")).mkdir(parents=True)
        self.assertEqual(self.looks(deep, code=2)["cut"], True)

    def test_links(self):
        """does_not_follow_links_to_folders_above_or_into_the_system"""
        root = self.tree()
        before = self.looks(root)
        for name, target in (("top", "/"), ("above", ".."), ("process", "/proc/self"), ("system", "/sys"),
                             ("devices", "/dev"), ("messages.safetensors", "/proc/self/mounts")):
            link = root / "vae" / name
            link.symlink_to(root.parent if target == ".." else target)
            folder = self.looks(root)
            self.assertEqual({**folder, "cut": False}, before, name)
            self.assertEqual(folder["cut"], True, name)
            link.unlink()
        (root / "all").symlink_to("/")
        self.assertIn("# There is more that was not looked at", self.inspects(str(root)).out.decode())

    def test_nothing(self):
        """says_that_a_folder_holds_no_model"""
        text = self.inspects(str(self.inputs), code=2).out.decode()
        self.assertIn("there is no diffusion model that could be used", text)


class Repository(Looking):
    """Folders as diffusers has them, with the tiny Z-Image in them."""

    def setUp(self):
        super().setUp()
        self.repository = self.inputs / "Z-Image-Turbo"
        self.put("transformer", safetensors.shards(self.parts("z_image_turbo_diffusers"), "diffusion_pytorch_model", 3))
        self.put("text_encoder", {"config.json": b"{}",
                                  **safetensors.shards(self.parts("qwen_3_4b"), "model", 2)})
        vae = {name.removeprefix("vae."): part for name, part in self.parts("z_image_all_in_one_fp8").items()
               if name.startswith("vae.")}
        self.put("vae", {"config.json": b"{}", "diffusion_pytorch_model.safetensors": safetensors.make(vae)})
        shutil.copytree(Z_IMAGE / "tokenizer", self.repository / "tokenizer")
        (self.repository / "model_index.json").write_text('{"_class_name": "ZImagePipeline"}')

    @staticmethod
    def parts(name):
        return safetensors.parts(Z_IMAGE / f"{name}.safetensors")

    def put(self, folder, files):
        (self.repository / folder).mkdir(parents=True)
        for name, data in files.items():
            (self.repository / folder / name).write_bytes(data)

    def profile(self, root):
        path = self.write("models.toml", self.inspects(str(root)).out)
        (name, profile), = tomllib.loads(open(path, encoding="utf-8").read())["model_profiles"].items()
        return path, name, profile

    def picture(self, name, *args):
        self.draws("a boat", *args, "--size", "32x32", "--steps", "2", "--seed", "1", "--no-metadata", "--output", name)
        return (self.folder / name).read_bytes()

    def test_profile(self):
        """prints_a_profile_of_a_repository_that_draws_what_whole_files_draw"""
        path, name, profile = self.profile(self.repository)
        self.assertEqual((name, profile["variant"]), ("z-image-turbo", "turbo"))
        self.assertEqual(profile["diffusion_model"],
                         str(self.repository / "transformer" / "diffusion_pytorch_model.safetensors.index.json"))
        whole = self.write("whole.toml", (GOLDEN / "z-image" / "models.toml").read_text()
                           .replace('"models/', f'"{Z_IMAGE}/').replace('"base"', '"turbo"'))
        self.assertEqual(self.picture("split.png", "--config", path, "--model-profile", name),
                         self.picture("whole.png", "--config", whole, "--model-profile", "base"))

    def test_folders(self):
        """takes_folders_for_every_part"""
        lines = ["[model_profiles.folders]", 'architecture = "z-image"', 'variant = "turbo"']
        for key, folder in (("diffusion_model", "transformer"), ("text_encoder", "text_encoder"), ("vae", "vae"),
                            ("tokenizer", "tokenizer")):
            lines.append(f'{key} = "Z-Image-Turbo/{folder}"')
        folders = ["--config", self.write("folders.toml", "\n".join(lines) + "\n"), "--model-profile", "folders"]
        profile, = self.inspects_json(*folders)["profiles"]
        self.assertTrue(all(part["fits"] for part in profile["components"]))
        path, name, _ = self.profile(self.repository)
        want = self.picture("index.png", "--config", path, "--model-profile", name)
        self.assertEqual(self.picture("folders.png", *folders), want)
        self.assertEqual(self.picture("override.png", "--config", path, "--model-profile", name, "--diffusion-model",
                                      str(self.repository / "transformer"), "--vae", str(self.repository / "vae")),
                         want)

    def test_file(self):
        """tells_of_an_index_what_its_shards_hold"""
        index = self.repository / "transformer" / "diffusion_pytorch_model.safetensors.index.json"
        part, = self.inspects_json(str(index))["files"]
        self.assertEqual((part["architecture"], part["tensors"]),
                         ("z-image", len(self.parts("z_image_turbo_diffusers"))))

    def test_cache(self):
        """looks_through_a_cache_whose_files_are_links"""
        cache, revision = self.inputs / "hub" / "models--Tongyi--Z-Image-Turbo", "0123456789abcdef" * 2 + "01234567"
        (cache / "blobs").mkdir(parents=True)
        (cache / "snapshots").mkdir()
        shutil.move(self.repository, cache / "snapshots" / revision)
        for number, file in enumerate(sorted((cache / "snapshots").rglob("*.*"))):
            blob = cache / "blobs" / f"{number:064x}"
            shutil.move(file, blob)
            file.symlink_to(os.path.relpath(blob, file.parent))
        (cache / "blobs" / "77.incomplete").write_bytes(bytes(100))
        path, name, _ = self.profile(cache.parent)
        self.assertEqual(name, "z-image-turbo")
        self.picture("cache.png", "--config", path, "--model-profile", name)

    def test_unfinished(self):
        """says_which_shards_an_unfinished_download_lacks"""
        transformer = self.repository / "transformer"
        for number in (1, 3):
            (transformer / f"diffusion_pytorch_model-{number:05}-of-00003.safetensors").unlink()
        folder, = self.inspects_json(str(self.repository), code=2)["folders"]
        problem, = folder["problems"]
        missing = "2 of 3 shards are missing: diffusion_pytorch_model-00001-of-00003.safetensors, 00003"
        self.assertIn(missing, problem["error"])
        self.assertEqual(folder["others"], {})
        path = self.write("a.toml", (GOLDEN / "z-image" / "models.toml").read_text()
                          .replace('"models/', f'"{Z_IMAGE}/'))
        draw = ["generate", "a boat", "--config", path, "--diffusion-model"]
        self.refuses([*draw, str(transformer)], "diffusion model: ", missing)
        shard = str(transformer / "diffusion_pytorch_model-00002-of-00003.safetensors")
        self.refuses([*draw, shard], "is one shard of a split model; name its index")
        (transformer / "diffusion_pytorch_model.safetensors.index.json").unlink()
        self.refuses([*draw, str(transformer)], "the shards of a split model without their index")
        folder, = self.inspects_json(str(self.repository), code=2)["folders"]
        self.assertIn("whose index (….safetensors.index.json) is missing", folder["problems"][0]["error"])
        self.refuses([*draw, str(self.repository)], "the folder holds a whole pipeline; name one of its parts")


class Memory(Looking):
    def test_profile(self):
        """says_how_much_memory_each_stage_takes"""
        profile, = self.inspects_json(*TINY, "--model-profile", "tiny")["profiles"]
        memory = profile["memory"]
        self.assertEqual((memory["width"], memory["height"]), (1024, 1024))
        self.assertEqual([stage["name"] for stage in memory["stages"]], ["encode", "diffuse", "decode"])
        result = json.loads(self.draws("a boat", "--json", *TINY, "--size", "64x64", "--steps", "1").out)
        for planned, drawn in zip(memory["stages"], result["stages"]):
            self.assertEqual(planned["weight_bytes"], drawn["weight_bytes"])
            self.assertGreaterEqual(planned["needed_bytes"], planned["weight_bytes"] + planned["peak_bytes"])
            self.assertGreaterEqual(planned["peak_bytes"], drawn["peak_bytes"])
        self.assertRegex(self.inspects().out.decode(), r"\nmemory for 128x128: encode \S+ MB, diffuse \S+ MB, decode ")

    def test_swap(self):
        """draws_the_same_when_swapping_is_allowed"""
        picture = ("a boat", *TINY, "--size", "32x32", "--steps", "1", "--seed", "1", "--output")
        self.draws(*picture, "plain.png")
        self.draws(*picture, "swap.png", "--allow-swap")
        self.assertEqual((self.folder / "plain.png").read_bytes(), (self.folder / "swap.png").read_bytes())


def recognises(name, kind):
    def check(self):
        part, = self.inspects_json(str(E2E / f"{name}.safetensors"))["files"]
        self.assertEqual(part["architecture"], kind)
        self.assertEqual(part["tensors"], len(safetensors.parts(E2E / f"{name}.safetensors")))
        self.assertEqual(part["missing_scales"], 0)
    return check


add_cases(Inspect, [(f"recognises_a_{name}", recognises(name, kind)) for name, kind in PARTS.items()])

if __name__ == "__main__":
    tap.main()
