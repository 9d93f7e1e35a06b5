"""Ctrl-C and its relatives: the run ends soon, and nothing half is left."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

import tap
from kuno import E2E, GOLDEN, SANITIZED, Case, add_cases, everything_in, wait
from png import Picture

LARGE = ["generate", "a boat", "--size", "1024x1024"]  # takes seconds; a step, a second at most
STEP_SECONDS = 60 if SANITIZED else 8  # more than a step may take while others keep the machine busy
AT_ONCE_SECONDS = 20 if SANITIZED else 4


class Stop(Case):
    def started(self, *args, say="kuno: encode"):
        """A run that has come so far as to say a thing."""
        process = self.start(*args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        for line in process.stderr:
            if line.decode().startswith(say):
                return process
        self.fail(f"it never said '{say}'")

    def wait_until_taken(self, process, number):
        """No thread of it has that signal before it."""
        end = time.monotonic() + STEP_SECONDS
        while any(int(pending, 16) >> (number - 1) & 1 for pending in re.findall(
                r"(?:SigPnd|ShdPnd):\s+(\w+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.001)

    def ends(self, process, within, code=130):
        begin = time.monotonic()
        self.assertEqual(wait(process)[0], code)
        self.assertLessEqual(time.monotonic() - begin, within)

    def stops(self, number):
        process = self.started(*LARGE)
        os.kill(process.pid, number)
        self.ends(process, STEP_SECONDS)
        self.assertRegex(process.stderr.read().decode(), r"\Akuno: .*cancelled\n\Z")
        self.assertEqual(everything_in(self.root), ["folder", "home", "inputs"])

    def test_later(self):
        """stops_between_later_steps"""
        process = self.started(*LARGE, say="kuno: draw:")
        os.kill(process.pid, signal.SIGINT)
        self.ends(process, STEP_SECONDS)
        self.assertEqual(everything_in(self.folder), [])

    def test_decode(self):
        """stops_while_the_picture_is_decoded"""
        process = self.started(*LARGE, say="kuno: draw: 8 steps")
        os.kill(process.pid, signal.SIGINT)
        self.ends(process, STEP_SECONDS)
        self.assertEqual(everything_in(self.folder), [])

    def test_twice(self):
        """ends_at_once_at_the_second_signal"""
        process = self.started("generate", "a boat", "--size", "1536x1536")
        os.kill(process.pid, signal.SIGINT)
        self.wait_until_taken(process, signal.SIGINT)  # two signals of a kind that come together are one
        os.kill(process.pid, signal.SIGINT)
        self.ends(process, AT_ONCE_SECONDS)
        self.assertEqual(everything_in(self.folder), [])

    def test_kill(self):
        """leaves_nothing_when_it_is_killed"""
        process = self.started(*LARGE)
        os.kill(process.pid, signal.SIGKILL)
        self.ends(process, AT_ONCE_SECONDS, -signal.SIGKILL)
        self.assertEqual(everything_in(self.root), ["folder", "home", "inputs"])

    @unittest.skipIf(SANITIZED, "a sanitizer keeps the signal of a lost file to itself")
    def test_lost_file(self):
        """a_model_file_cut_short_under_the_run_is_a_message_and_leaves_nothing"""
        path = self.inputs / "model.safetensors"
        shutil.copyfile(E2E / "transformer.safetensors", path)
        process = self.started("generate", "a boat", "--config", E2E / "models.toml", "--diffusion-model", path,
                               "--size", "1024x1024", "--steps", "200", "--threads", "1", say="kuno: draw:")
        os.truncate(path, 4096)
        self.ends(process, STEP_SECONDS, 2)
        self.assertIn(b"kuno: a file became shorter while it was in use", process.stderr.read())
        self.assertEqual(everything_in(self.folder), [])

    def test_keeps_old(self):
        """keeps_the_old_file_when_it_is_stopped"""
        (self.folder / "output.png").write_text("something else")
        process = self.started(*LARGE)
        os.kill(process.pid, signal.SIGINT)
        self.ends(process, STEP_SECONDS)
        self.assertEqual((self.folder / "output.png").read_text(), "something else")

    def test_count(self):
        """keeps_the_pictures_that_were_whole_when_it_is_stopped"""
        process = self.started("generate", "a boat", "--size", "256x256", "--count", "200", say="kuno: save")
        os.kill(process.pid, signal.SIGTERM)
        self.ends(process, STEP_SECONDS)
        made = everything_in(self.folder)
        self.assertIn("output-1.png", made)
        self.assertLess(len(made), 200)
        for name in made:
            self.assertEqual(Picture((self.folder / name).read_bytes()).width, 256)

    def test_any_time(self):
        """leaves_a_whole_picture_or_none_whenever_it_is_stopped"""
        begin = time.monotonic()
        self.draws("a boat")
        usual = time.monotonic() - begin
        for share in range(12):
            (self.folder / "output.png").unlink(missing_ok=True)
            process = self.start("generate", "a boat", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(usual * share / 10)
            os.kill(process.pid, signal.SIGINT)
            code, _ = wait(process)
            self.assertIn(code, (0, 130, -signal.SIGINT))  # the last: before the program took the signal over
            self.assertEqual(everything_in(self.folder), ["output.png"] if code == 0 else [])
            if code == 0:
                Picture((self.folder / "output.png").read_bytes())

    def test_every_architecture(self):
        """every_architecture_stops_wherever_it_is"""
        for config, profile in (("krea2/models.toml", "raw"), ("z-image/models.toml", None),
                                ("qwen2512/e2e/models.toml", None), ("qwen21-e2e/models.toml", None)):
            chosen = ["--model-profile", profile] if profile else []
            for tenth in range(1, 10):
                process = self.start("generate", "a boat", "--config", GOLDEN / config, *chosen, "--size", "768x768",
                                     "-q", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(tenth / 10)
                os.kill(process.pid, signal.SIGTERM)
                self.assertIn(wait(process)[0], (0, 130, -signal.SIGTERM), (config, tenth))

    def test_ignored(self):
        """goes_on_after_a_hang_up_that_nohup_ignores"""
        process = self.start("generate", "a boat", "--size", "256x256", stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, before=["sh", "-c", 'trap "" HUP; exec "$@"', "sh"])
        self.addCleanup(process.stderr.close)
        process.stderr.readline()
        os.kill(process.pid, signal.SIGHUP)
        process.stderr.read()
        self.assertEqual(wait(process)[0], 0)
        self.assertEqual(os.listdir(self.folder), ["output.png"])


def stops(number):
    return lambda self: self.stops(number)


add_cases(Stop, [
    ("stops_within_a_step_at_ctrl_c_and_leaves_nothing", stops(signal.SIGINT)),
    ("stops_within_a_step_at_sigterm_and_leaves_nothing", stops(signal.SIGTERM)),
    ("stops_within_a_step_at_a_hang_up_and_leaves_nothing", stops(signal.SIGHUP)),
])

if __name__ == "__main__":
    tap.main()
