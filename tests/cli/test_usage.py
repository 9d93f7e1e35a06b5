"""The program without any work: help, versions, mistakes and how they end."""

import json
import os
import subprocess
import tempfile
import unittest

import tap

KUNO = os.environ["KUNO"]
DONE, INVALID = 0, 2
COMMANDS = ("generate", "upscale", "import-workflow", "inspect-models", "fetch-models", "serve", "open", "mcp", "check",
            "resources", "bench", "image-worker")


def kuno(*args, **options):
    return subprocess.run([KUNO, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)


class Help(unittest.TestCase):
    def test_the_bare_program_tells_what_it_can_do(self):
        told = [kuno(*args) for args in ([], ["--help"], ["-h"], ["help"])]
        for one in told:
            self.assertEqual((one.returncode, one.stderr), (DONE, ""))
            self.assertEqual(one.stdout, told[0].stdout)
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", told[0].stdout)

    def test_each_command_has_its_help_in_three_places(self):
        for command in COMMANDS:
            told = [kuno(*args) for args in ([command, "--help"], [command, "-h"], ["help", command])]
            for one in told:
                self.assertEqual((one.returncode, one.stderr), (DONE, ""))
                self.assertEqual(one.stdout, told[0].stdout)
            self.assertTrue(told[0].stdout.startswith(f"Usage: kuno {command} [OPTION]..."))

    def test_the_version_is_one_line(self):
        told = kuno("--version")
        self.assertEqual((told.returncode, told.stderr), (DONE, ""))
        self.assertRegex(told.stdout, r"\Akuno \d+\.\d+\.\d+\n\Z")

    def test_nothing_is_coloured(self):
        for args in ([], ["generate", "--help"], ["generate", "--steps=0"]):
            told = kuno(*args)
            self.assertNotIn("\x1b", told.stdout + told.stderr)

    def test_a_full_disk_is_not_taken_for_success(self):
        with open("/dev/full", "w") as full:
            told = subprocess.run([KUNO, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(told.returncode, INVALID)
        self.assertEqual(told.stderr, "kuno: cannot write to standard output: No space left on device\n")


class Mistakes(unittest.TestCase):
    def assert_told(self, args, sentence, hint="Try 'kuno --help'."):
        told = kuno(*args)
        self.assertEqual(told.stderr, f"kuno: {sentence}\n{hint}\n")
        self.assertEqual((told.returncode, told.stdout), (INVALID, ""))

    def test_an_unknown_command_is_named_with_the_nearest(self):
        known = f"; known: help, {', '.join(COMMANDS)}"
        self.assert_told(["genrate"], f"unknown command 'genrate'{known} (did you mean 'generate'?)")
        self.assert_told(["help", "me"], f"unknown command 'me'{known}")
        self.assert_told(["a red boat"], f"unknown command 'a red boat'{known}")

    def test_an_option_before_the_command_is_refused(self):
        self.assert_told(["--steps=3"], "unknown option '--steps=3'; options of a command follow its name")

    def test_a_value_out_of_range_is_told_with_the_range(self):
        self.assert_told(
            ["generate", "x", "--steps=0"],
            "generate: --steps: 0 is outside 1 to 1000",
            "Try 'kuno generate --help'.",
        )

    def test_options_that_contradict_each_other_are_refused(self):
        self.assert_told(
            ["inspect-models", "x", "--model-profile=y"],
            "inspect-models: FILE and --model-profile exclude each other",
            "Try 'kuno inspect-models --help'.",
        )

    def test_control_characters_do_not_reach_the_terminal(self):
        told = kuno("generate", "x", "--steps", "\x1b[2J\n")
        self.assertIn(r"'\x1b[2J\x0a' is not a whole number", told.stderr)


class Drawing(unittest.TestCase):
    def draw(self, folder, *args):
        config = os.path.join(os.environ["KUNO_GOLDEN"], "z-image", "models.toml")
        size = ["--size=32x32", "--steps=1", "--seed=1"]
        return kuno("generate", f"--config={config}", "--output=a.png", "--quiet", *size, *args, cwd=folder)

    def test_a_prompt_that_is_cut_is_told_with_the_number_of_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            told = self.draw(folder, "--count=2", "--json", "b, " * 700)
            dropped = json.loads(told.stdout)["dropped_tokens"]
            self.assertGreater(dropped, 500)
            sentence = f"kuno: warning: the prompt is too long: its last {dropped} tokens were dropped\n"
            self.assertEqual((told.returncode, told.stderr), (DONE, sentence))

    def test_a_prompt_that_fits_is_drawn_without_a_word(self):
        with tempfile.TemporaryDirectory() as folder:
            told = self.draw(folder, "a red boat")
            self.assertEqual((told.returncode, told.stdout, told.stderr), (DONE, "", ""))


tap.main()
