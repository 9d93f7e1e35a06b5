"""--dump against what the reference implementation computed for the tiny models (tests/golden/qwen21-e2e)."""

import array
import json

import safetensors
import tap
from kuno import E2E, TINY, Case, add_cases
from png import Picture

RELATIVE_L2 = 1e-4
SIGMAS_RELATIVE_L2 = 1e-7  # the reference computes them in float32, we in float64: they differ in the last digits
LEVELS = 1  # of 255, in each channel of the picture

# Ours to theirs; the negative ones are there with guidance only.
NAMES = {"tokens": "positive.input_ids", "text_embeddings": "positive.embeddings",
         "negative_tokens": "negative.input_ids", "negative_text_embeddings": "negative.embeddings"}
EXACT = ("tokens", "negative_tokens", "noise")


class Dump(Case):
    def settings(self, case, name):
        return [*TINY, "--precision", "exact", "--seed", str(case["seed"]), "--steps", str(case["steps"]),
                "--size", f"{case['width']}x{case['height']}", "--init-noise", str(E2E / name / "inputs.safetensors")]

    def dump_of(self, name, profile, *args):
        case = json.loads((E2E / name / "case.json").read_text())
        (self.folder / "dump").mkdir(exist_ok=True)
        negative = ["--negative-prompt", case["negative_prompt"]] if case["negative_prompt"] else []
        self.draws(case["prompt"], *negative, *self.settings(case, name), "--model-profile", profile,
                   "--cfg", str(case["cfg"]), "--dump", "dump", *args)
        return case, safetensors.read(self.folder / "dump" / "dump.safetensors")

    def agrees(self, name, profile):
        case, ours = self.dump_of(name, profile)
        golden = safetensors.read(E2E / name / "expected.safetensors")
        steps = case["steps"]
        pairs = {mine: theirs for mine, theirs in NAMES.items() if theirs in golden}
        expected = {mine: golden[theirs] for mine, theirs in pairs.items()}
        expected |= {f"latents_{i:03}": golden[f"step{i}.latents"] for i in range(steps)}
        expected["latents_final"] = golden[f"step{steps - 1}.latents"]
        expected["sigmas"] = golden["sigmas"]
        expected["noise"] = safetensors.read(E2E / name / "inputs.safetensors")["noise"]
        self.assertEqual(set(ours), {*expected, "image"})
        for key, (shape, values) in expected.items():
            self.assertEqual(ours[key][0], shape, key)
            if key in EXACT:
                self.assertEqual(ours[key][1], array.array("f", values), key)
            else:
                bound = SIGMAS_RELATIVE_L2 if key == "sigmas" else RELATIVE_L2
                self.assertLessEqual(safetensors.relative_l2(ours[key][1], values), bound, key)
        self.assertEqual(ours["image"][0], [4, case["height"], case["width"]])

    def draws_like(self, name, profile):
        self.dump_of(name, profile)
        ours = Picture((self.folder / "output.png").read_bytes())
        theirs = Picture((E2E / name / "image.png").read_bytes())
        self.assertEqual((ours.width, ours.height, ours.channels), (theirs.width, theirs.height, theirs.channels))
        self.assertLessEqual(max(abs(a - b) for a, b in zip(ours.pixels, theirs.pixels)), LEVELS)

    def test_image(self):
        """dumps_the_picture_that_it_saves"""
        _, ours = self.dump_of("t2i", "tiny")
        picture = Picture((self.folder / "output.png").read_bytes())
        (channels, height, width), planes = ours["image"]
        cells = height * width
        for at in range(cells):
            for c in range(channels):
                level = (min(max(planes[c * cells + at], -1), 1) + 1) * 127.5
                self.assertAlmostEqual(picture.pixels[at * channels + c], level, delta=0.5001)

    def test_count(self):
        """refuses_to_tell_of_several_pictures_under_the_same_names"""
        (self.folder / "dump").mkdir()
        self.refuses(["generate", "a boat", *TINY, "--dump", "dump", "--count", "2"], "--dump tells of one picture")

    def test_bystander(self):
        """draws_the_same_bytes_with_and_without_a_dump"""
        self.dump_of("t2i", "tiny", "--output", "with.png")
        case = json.loads((E2E / "t2i" / "case.json").read_text())
        self.draws(case["prompt"], *self.settings(case, "t2i"))
        self.assertEqual((self.folder / "with.png").read_bytes(), (self.folder / "output.png").read_bytes())


def agrees(name, profile):
    return lambda self: self.agrees(name, profile)


def draws_like(name, profile):
    return lambda self: self.draws_like(name, profile)


for golden_case, model in (("t2i", "tiny"), ("t2i-cfg", "tiny"), ("turbo", "tiny-turbo")):
    add_cases(Dump, [
        (f"computes_every_tensor_of_{golden_case}_like_the_reference", agrees(golden_case, model)),
        (f"draws_the_picture_of_{golden_case}_like_the_reference", draws_like(golden_case, model)),
    ])

if __name__ == "__main__":
    tap.main()
