"""The same request gives the same bytes."""

import json

import tap
from kuno import GOLDEN, TINY, Case, add_cases

DEMO = ["a red apple", "--seed", "7"]
BASE = ["a boat", *TINY, "--seed", "7", "--size", "80x48", "--steps", "3", "--cfg", "3"]
THREADS = (1, 2, 3, 7)
# Each may use those before it where the processor has no more.
KERNELS = ("reference", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx")


class Repeat(Case):
    def bytes_of(self, *args):
        return self.draws(*args, "--output", "-").out

    def same_for_any_threads(self, request):
        pictures = {self.bytes_of(*request, "--precision", "exact", "--threads", str(n)) for n in THREADS}
        self.assertEqual(len(pictures), 1)

    def test_again(self):
        """draws_the_same_picture_twice_in_a_row"""
        for precision in ("exact", "fast"):
            self.assertEqual(self.bytes_of(*DEMO, "--precision", precision),
                             self.bytes_of(*DEMO, "--precision", precision))

    def test_seed(self):
        """draws_another_picture_from_another_seed"""
        self.assertNotEqual(self.bytes_of("a boat", "--seed", "1", "--no-metadata"),
                            self.bytes_of("a boat", "--seed", "2", "--no-metadata"))

    def test_prompt(self):
        """draws_another_picture_from_another_prompt"""
        self.assertNotEqual(self.bytes_of("a boat", "--seed", "1", "--no-metadata"),
                            self.bytes_of("an apple", "--seed", "1", "--no-metadata"))

    def test_count(self):
        """draws_each_of_several_pictures_as_if_it_were_alone"""
        for residency in ("staged", "cached"):
            self.draws(*BASE, "--count", "3", "--residency", residency, "--output", "boat.png")
            for number, seed in enumerate(("7", "8", "9"), 1):
                alone = self.bytes_of(*[(seed if word == "7" else word) for word in BASE])
                self.assertEqual((self.folder / f"boat-{number}.png").read_bytes(), alone)

    def test_encoders(self):
        """runs_encoders_once_for_all_pictures_of_a_count_and_says_so"""
        picture = str(GOLDEN / "qwen21-e2e" / "edit" / "reference0.png")
        told = json.loads(self.draws(*BASE, "--reference", picture, "--count", "3", "--json").out)
        done = {stage["name"]: (stage["runs"], stage["reused"]) for stage in told["stages"]}
        self.assertEqual(done, {"pictures": (1, 2), "see": (1, 2), "encode": (1, 2), "diffuse": (3, 0),
                                "decode": (3, 0)})
        self.assertEqual([image["seed"] for image in told["images"]], ["7", "8", "9"])
        self.assertTrue(all(stage["seconds"] > 0 and stage["weight_bytes"] > 0 for stage in told["stages"]))

    def test_kernels(self):
        """draws_with_the_kernels_of_every_processor_generation"""
        for number, mask in enumerate(KERNELS):
            result = self.draws(*BASE, "--json", env={"KUNO_CPU": mask})
            self.assertIn(json.loads(result.out)["kernels"], KERNELS[:number + 1])

    def test_unknown_kernels(self):
        """refuses_kernels_that_are_not_known"""
        self.refuses(["generate", *BASE], "KUNO_CPU is 'sse9'", *KERNELS, env={"KUNO_CPU": "sse9"})


add_cases(Repeat, [
    ("draws_the_same_bytes_of_the_demo_model_with_any_number_of_threads",
     lambda self: self.same_for_any_threads(DEMO)),
    ("draws_the_same_bytes_with_guidance_and_odd_sizes_with_any_number_of_threads",
     lambda self: self.same_for_any_threads(BASE)),
])

if __name__ == "__main__":
    tap.main()
