"""Man pages and completions: they are made from the option tables, so they must be whole and work."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import tap

KUNO = os.environ["KUNO"]
DOCS = pathlib.Path(os.environ["KUNO_DOCS"])
COMMANDS = ("bench", "check", "fetch-models", "generate", "image-worker", "import-workflow", "inspect-models", "mcp",
            "open", "resources", "serve", "upscale")
NO_ANSWER = ("kuno-mcp.1", "kuno-serve.1", "kuno-image-worker.1")  # those that speak with programs


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def options_of(command):
    """The long options that a command's help tells of."""
    return re.findall(r"^ .{5}--([a-z0-9-]+)", run(KUNO, command, "--help").stdout, re.M)


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


class ManPages(unittest.TestCase):
    pages = ["kuno.1"] + [f"kuno-{command}.1" for command in COMMANDS]

    @needs("groff")
    def test_man_pages_render_without_warnings(self):
        for page in self.pages:
            shown = run("groff", "-man", "-ww", "-Tutf8", str(DOCS / "man" / page))
            self.assertEqual((page, shown.returncode, shown.stderr), (page, 0, ""))
            self.assertGreater(len(shown.stdout), 1000)

    @needs("mandoc")
    def test_another_reader_of_man_pages_has_no_complaints(self):
        for page in self.pages:
            found = run("mandoc", "-T", "lint", "-W", "warning", str(DOCS / "man" / page)).stdout
            complaints = [line for line in found.splitlines() if "missing date" not in line]
            self.assertEqual((page, complaints), (page, []))

    @needs("groff")
    def test_every_option_is_in_the_man_page_of_its_command(self):
        for command in COMMANDS:
            text = run("groff", "-man", "-Tascii", "-P-cbou", str(DOCS / "man" / f"kuno-{command}.1")).stdout
            self.assertGreaterEqual(len(options_of(command)), 2)
            for option in options_of(command):
                self.assertRegex(text, rf"(?m)^ +(-., )?--{option}\b")

    def test_a_standard_output_that_cannot_be_written_is_status_2_in_every_man_page(self):
        # As it is in the programs: see tests/cli/test_output.py.
        for page in self.pages:
            text = (DOCS / "man" / page).read_text().split(".SH EXIT STATUS")[1].split(".SH ")[0].replace("\n", " ")
            meaning = dict(re.findall(r"\.TP \.B (\d+) (.+?)(?= \.TP|$)", text))
            self.assertLessEqual({"0", "2"}, set(meaning), page)
            self.assertNotRegex(meaning.get("1", ""), r"file could not be written|standard output", page)
            if page not in NO_ANSWER:
                self.assertIn("standard output", meaning["2"], page)

    def test_every_mark_of_the_templates_was_replaced(self):
        for page in self.pages:
            self.assertNotIn("@", (DOCS / "man" / page).read_text())


class Completions(unittest.TestCase):
    def complete_in_bash(self, *words):
        script = (
            f"source {DOCS}/completions/kuno; compopt() {{ :; }}; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); "
            '_kuno; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = run("bash", "--norc", "-c", script, "bash", "kuno", *words, cwd=DOCS / "man")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    @needs("bash")
    def test_bash_offers_commands_options_names_and_files(self):
        self.assertEqual(self.complete_in_bash("gen"), ["generate"])
        self.assertEqual(self.complete_in_bash("help", "ins"), ["inspect-models"])
        for command in COMMANDS:
            offered = self.complete_in_bash(command, "--")
            self.assertEqual(sorted(offered), sorted(f"--{option}" for option in options_of(command)))
        self.assertEqual(self.complete_in_bash("generate", "--precision", "e"), ["exact"])
        self.assertEqual(self.complete_in_bash("bench", "st"), ["step"])
        self.assertEqual(self.complete_in_bash("generate", "--rng", "=", "torch-cu"), ["torch-cuda"])
        self.assertEqual(self.complete_in_bash("generate", "--rng", "="), ["torch-cpu", "torch-cuda"])
        self.assertEqual(self.complete_in_bash("generate", "-o", "kuno-g"), ["kuno-generate.1"])
        self.assertEqual(self.complete_in_bash("generate", "--steps", ""), [])

    @needs("zsh")
    def test_zsh_can_read_its_completions(self):
        done = run("zsh", "-n", str(DOCS / "completions" / "_kuno"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    @needs("fish")
    def test_fish_offers_commands_options_and_names(self):
        def complete(line):
            script = f"source {DOCS}/completions/kuno.fish; complete -C '{line}'"
            done = run("fish", "--no-config", "-c", script)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return [row.split("\t")[0] for row in done.stdout.splitlines()]

        self.assertEqual(complete("kuno gen"), ["generate"])
        for command in COMMANDS:
            offered = complete(f"kuno {command} --")
            self.assertEqual(sorted(offered), sorted(f"--{option}" for option in options_of(command)))
        self.assertEqual(complete("kuno generate --precision e"), ["exact"])
        self.assertEqual(complete("kuno bench st"), ["step"])


tap.main()
