"""kuno upscale: from a picture and a file that people have to a larger picture, or one clear sentence."""

import json
import signal
import subprocess

import safetensors
import tap
from kuno import GOLDEN, Case, everything_in
from png import Picture

CASES = GOLDEN / "upscalers"
IMAGE = str(CASES / "image.png")


def model(name):
    return str(CASES / name / "weights.safetensors")


class Upscale(Case):
    def upscales(self, *args, **start):
        result = self.kuno("upscale", *args, **start)
        self.assertEqual(result.code, 0, result.err)
        return result

    def picture(self, name="upscaled.png"):
        return Picture((self.folder / name).read_bytes())

    def setUp(self):
        super().setUp()
        with open(IMAGE, "rb") as file:
            self.source = Picture(file.read())

    def test_scale(self):
        """enlarges_by_as_much_as_the_network_does"""
        for name in ("rrdb-x4-old", "rrdb-x1-unshuffle", "compact-x2", "mosr-x4-dys"):
            with open(CASES / name / "case.json", encoding="utf-8") as file:
                scale = json.load(file)["scale"]
            told = json.loads(self.upscales(IMAGE, "--model", model(name), "--json").out)
            picture = self.picture()
            size = (self.source.width * scale, self.source.height * scale)
            self.assertEqual((picture.width, picture.height), size)
            self.assertEqual((told["width"], told["height"], told["scale"]), (*size, scale))
            self.assertEqual(everything_in(self.folder), ["upscaled.png"])

    def test_size(self):
        """gives_the_very_size_that_is_wanted"""
        self.upscales(IMAGE, "--model", model("compact-x2"), "--size", "61x33", "-o", "a.png")
        self.upscales(IMAGE, "--factor", "1.5", "--output", "b.png")
        self.assertEqual((self.picture("a.png").width, self.picture("a.png").height), (61, 33))
        self.assertEqual(self.picture("b.png").width, round(1.5 * self.source.width))

    def test_stdout(self):
        """writes_to_standard_output_when_asked"""
        result = self.upscales(IMAGE, "--factor", "2", "--output", "-")
        self.assertEqual(Picture(result.out).width, 2 * self.source.width)
        self.assertEqual(everything_in(self.folder), [])

    def test_same(self):
        """gives_the_same_pixels_for_any_number_of_threads"""
        for threads in ("1", "3"):
            self.upscales(IMAGE, "--model", model("rrdb-x4-wide"), "--precision", "exact", "--threads", threads,
                          "--output", f"{threads}.png")
        self.assertEqual(self.picture("1.png").pixels, self.picture("3.png").pixels)

    def test_inspect(self):
        """is_known_to_inspect_models"""
        told = json.loads(self.kuno("inspect-models", model("rrdb-x2-unshuffle"), "--json").out)["files"][0]
        self.assertEqual((told["role"], told["architecture"], told["enlarging"]["scale"]), ("upscaler", "rrdb", 2))
        self.assertGreater(told["enlarging"]["tile_bytes"], 1 << 20)

    def test_inspect_broken(self):
        """inspect_models_names_what_an_upscaler_lacks"""
        parts = safetensors.parts(model("compact-x2"))
        del parts["body.2.weight"]
        file = self.write("broken.safetensors", safetensors.make(parts))
        result = self.kuno("inspect-models", file)
        self.assertEqual(result.code, 2)
        self.assertIn("cannot be used", result.out.decode())

    def test_no_picture(self):
        """refuses_to_begin_without_a_picture_or_a_size"""
        self.refuses(["upscale"], "needs a picture")
        self.refuses(["upscale", IMAGE], "--factor or --size")
        self.refuses(["upscale", IMAGE, "--factor", "2", "--blend", "0.5"], "--blend is about what a network makes")
        self.refuses(["upscale", IMAGE, "--factor", "2", "--size", "9x9"], "give one of them")

    def test_bad_files(self):
        """refuses_files_that_are_not_what_they_should_be"""
        text = self.write("text.png", "no picture")
        pickle = self.write("4x.pth", b"PK\x03\x04" + bytes(100))
        self.refuses(["upscale", text, "--factor", "2"], "text.png", "not a picture")
        self.refuses(["upscale", IMAGE, "--model", pickle], "4x.pth", "pickle", "use a safetensors file")
        self.refuses(["upscale", IMAGE, "--model", str(GOLDEN / "qwen21-vae" / "weights.safetensors")],
                     "upscaler: ", "is a Qwen-Image 2.1 VAE")
        self.refuses(["upscale", IMAGE, "--model", "absent.safetensors"], "absent.safetensors")

    def test_limits(self):
        """refuses_results_beyond_the_limits"""
        self.refuses(["upscale", IMAGE, "--size", "8193x10"], "8193")
        self.refuses(["upscale", IMAGE, "--factor", "17"], "--factor")
        self.refuses(["upscale", IMAGE, "--model", model("compact-x2"), "--tile", "18"], "no multiple of 4")
        self.refuses(["upscale", IMAGE, "--factor", "2", "--output", "boat.gif"], "let the name end in .png")

    def test_formats(self):
        """writes_the_format_that_the_ending_says"""
        for name, start in (("boat.jpg", b"\xff\xd8\xff"), ("boat.WEBP", b"RIFF"), ("boat.png", b"\x89PNG")):
            self.upscales(IMAGE, "--factor", "2", "--output", name)
            self.assertTrue((self.folder / name).read_bytes().startswith(start))
            self.upscales(name, "--factor", "0.5", "--output", "small.png")

    def test_stop(self):
        """stops_within_a_tile_and_leaves_nothing_behind"""
        self.upscales(IMAGE, "--size", "1200x900", "--output", "large.png")
        process = self.start("upscale", "large.png", "--model", model("rrdb-x4-wide"), "--tile", "16", "--threads", "1",
                             stderr=subprocess.PIPE)
        while b"enlarge" not in process.stderr.readline():  # the first tenth of its tiles is done
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(everything_in(self.folder), ["large.png"])


tap.main()
