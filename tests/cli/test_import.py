"""kuno import-workflow: from a picture that somebody made to the command that makes it again, or one clear sentence."""

import json
import shlex
import subprocess

import tap
from kuno import GOLDEN, Case
from png import Picture, chunk, png_file

CASES = GOLDEN / "workflow"


class Import(Case):
    def imports(self, name, *args):
        result = self.kuno("import-workflow", str(CASES / name), *args)
        self.assertEqual(result.code, 0, result.err)
        return result

    def test_all(self):
        """reads_and_refuses_what_was_recorded"""
        with open(CASES / "case.json", encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        self.assertEqual(len(cases), 26)
        for case in cases:
            if "refuse" in case:
                self.refuses(["import-workflow", str(CASES / case["file"])], case["file"])
                continue
            told = json.loads(self.imports(case["file"], "--json").out)
            for key, value in case["expected"].items():
                self.assertEqual(told[key], value, (case["file"], key))

    def test_command(self):
        """the_command_says_what_the_workflow_says"""
        result = self.imports("2512.png")
        words = shlex.split(result.out.decode())
        self.assertEqual(words[:2], ["kuno", "generate"])
        self.assertEqual(sorted(words[2:]), sorted([
            "--prompt=a red boat on a quiet lake", "--negative-prompt=blurry, low quality", "--size=832x1248",
            "--steps=20", "--cfg=5", "--seed=1062323160169910", "--sampler=euler", "--scheduler=simple",
            "--flow-shift=3.1"]))
        self.assertIn("no profile in models.toml is for qwen-image, variant base", result.err)

    def test_profile(self):
        """names_the_profile_that_can_draw_it"""
        toml = self.inputs / "models.toml"
        toml.write_text("\n".join(
            f'[model_profiles.{name}]\narchitecture = "{architecture}"\nvariant = "{variant}"\ndiffusion_model = "d"\n'
            f'text_encoder = "t"\nvae = "v"\n' for name, architecture, variant in (
                ("base", "qwen-image-2.1", "base"), ("fast", "qwen-image-2.1", "turbo"))), encoding="utf-8")
        for name, profile in ("21-edit.png", "base"), ("21-turbo.png", "fast"):
            told = json.loads(self.imports(name, "--json", "--config", str(toml)).out)
            self.assertEqual(told["profile"], profile)
            self.assertIn(f"--config={toml}", shlex.split(told["command"]))
            self.assertIn(f"--model-profile={profile}", shlex.split(told["command"]))

    def test_own(self):
        """a_picture_of_our_own_is_drawn_again_to_the_pixel"""
        self.draws("--size", "32x32", "--seed", "5", "it's \"a\" boat", "-n", "-x", "-o", "a.png")
        result = self.kuno("import-workflow", "a.png")
        self.assertEqual((result.code, result.err), (0, ""))
        words = shlex.split(result.out.decode())
        self.assertIn("--model-profile=demo", words)
        self.draws(*words[2:], "-o", "b.png")
        again, first = (Picture((self.folder / name).read_bytes()) for name in ("b.png", "a.png"))
        self.assertEqual(again.pixels, first.pixels)

    def test_quoting(self):
        """nothing_of_a_prompt_reaches_a_terminal_or_shell_unquoted"""
        prompt = "a \x1b[31mred\x07 'boat' $(touch x) \\ `id` \u009b5m caf\u00e9"
        self.draws("--size", "32x32", "--seed", "5", prompt, "-o", "a.png")
        result = self.kuno("import-workflow", "a.png")
        self.assertEqual(result.code, 0, result.err)
        self.assertFalse(set(result.out) & (set(range(32)) - {10} | {127}))
        script = result.out.decode().replace("kuno generate", "printf '%s\\n'")
        said = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode()
        self.assertIn(f"--prompt={prompt}\n", said)

    def told(self, **texts):
        """What is told of a picture with these texts."""
        empty = png_file(16, 16, 2, b"\0" * 16 * 49)
        where = empty.index(b"IDAT") - 4
        added = b"".join(chunk(b"tEXt", key.encode() + b"\0" + text.encode("latin-1")) for key, text in texts.items())
        (self.folder / "made.png").write_bytes(empty[:where] + added + empty[where:])
        return json.loads(self.imports(self.folder / "made.png", "--json").out)

    def test_syntax(self):
        """says_where_a_prompt_of_a1111_is_more_than_its_words"""
        settings = "\nSteps: 20, Seed: 5, Size: 512x512"
        for prompt in ("a (red:1.4) boat", "((boat))", "a [grey] sea", "[day:night:0.5]", "a BREAK b", "a AND b",
                       "a \\(real\\) boat", "a, embedding:foo", "(worst quality:2)"):
            for text in prompt + settings, "boat\nNegative prompt: " + prompt + settings:
                self.assertEqual(self.told(parameters=text)["warnings"], ["prompt-syntax"], text)
        for prompt in ("a red boat :) at 10:30", "ANDORRA, BREAKFAST", "no embedding: none", "list(", "()", "a) (b"):
            self.assertEqual(self.told(parameters=prompt + settings)["warnings"], [], prompt)
        own = "a (red:1.4) boat\nSteps: 20, Seed: 5, Size: 512x512, Version: kuno 0.1.0"
        self.assertEqual(self.told(parameters=own)["warnings"], [])

    def test_lines(self):
        """lines_of_windows_become_lines"""
        told = self.told(parameters="a boat\r\non a lake\r\nNegative prompt: grey\r\ndull\r\n"
                                    "Steps: 20, Seed: 5, Size: 512x512\r\n")
        self.assertEqual((told["prompt"], told["negative_prompt"]), ("a boat\non a lake", "grey\ndull"))
        self.assertEqual((told["steps"], told["width"]), (20, 512))

    def test_wrong(self):
        """says_what_is_wrong_in_one_sentence"""
        self.refuses(["import-workflow"], "needs a picture")
        self.refuses(["import-workflow", "absent.png"], "absent.png")
        self.refuses(["import-workflow", str(GOLDEN / "image" / "gps.jpg")], "gps.jpg", "has no workflow metadata")
        self.refuses(["import-workflow", str(GOLDEN / "image" / "animated.gif")], "animated.gif", "is a GIF file")
        self.refuses(["import-workflow", str(CASES / "refuse-none.png")], "has no workflow metadata")
        self.refuses(["import-workflow", str(CASES / "2512.png"), "--config", "absent.toml"], "absent.toml")


tap.main()
