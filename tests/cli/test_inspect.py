"""kuno inspect-models: what files are, told from their headers alone."""

import json
import os

import safetensors
import tap
from kuno import E2E, SANITIZED, TINY, Case, add_cases

PARTS = {"transformer": "qwen-image-2.1", "text_encoder": "qwen3-vl", "vae": "qwen-image-2.1-vae"}
SECONDS = 1
TRIES = 4


class Inspect(Case):
    def inspects(self, *args, code=0):
        result = self.kuno("inspect-models", *args)
        self.assertEqual((result.code, result.err), (code, ""))
        return result

    def inspects_json(self, *args, code=0):
        return json.loads(self.inspects("--json", *args, code=code).out)

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

    def test_folder(self):
        """says_that_a_folder_is_no_model_file"""
        part, = self.inspects_json(str(self.inputs), code=2)["files"]
        self.assertIn("is a folder", part["error"])

    def test_unknown(self):
        """says_that_a_sound_file_belongs_to_no_known_network"""
        path = self.write("own.safetensors", safetensors.make({"mine": ("F32", [1], bytes(4))}))
        part, = self.inspects_json(path, code=2)["files"]
        self.assertEqual((part["role"], part["tensors"], part["bytes"]), ("unknown", 1, 4))

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
