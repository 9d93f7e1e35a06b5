"""The programs of bench/ look at what they are asked for before they write or measure anything, and leave no halves."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import tap

ROOT = pathlib.Path(__file__).parents[2]
BENCH = ROOT / "bench"
KUNO = os.environ["KUNO"]
PATIENCE_S = 120
MODEL_BYTES = 167_655_000  # of FLUX's autoencoder, about


def run(program, *args):
    command = [sys.executable, BENCH / program, *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


class Before(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refuses(self, says, program, *args):
        with self.subTest(program=program, args=args):
            before = sorted(self.folder.rglob("*"))
            told = run(program, *args)
            self.assertIn(told.returncode, (1, 2), told.stderr)
            self.assertEqual(told.stdout, "")
            self.assertIn(says, told.stderr)
            self.assertNotIn("Traceback", told.stderr)
            self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_models_of_real_size_are_not_written_for_a_picture_that_cannot_be(self):
        place = self.folder / "models"
        for option, value, says in (
            ("--size", "500x512", "multiples of 16 up to 4096"),
            ("--size", "512x0", "multiples of 16 up to 4096"),
            ("--size", "512x4112", "multiples of 16 up to 4096"),
            ("--size", "512", "no size like 512x512"),
            ("--size", "512x512x512", "no size like 512x512"),
            ("--steps", "0", "from 1 to 1000"),
            ("--threads", "1025", "from 1 to 1024"),
            ("--layers", "0", "at least 1"),
            ("--layers", "29", "krea2 has 28"),
            ("--profile", "sdxl", "invalid choice"),
            ("--kuno", "/bin/true", "is not kuno"),
            ("--kuno", "/nonexistent/kuno", "cannot be started"),
            ("--output", self.folder, "cannot be written"),
            ("--output", self.folder / "missing" / "file", "cannot be written"),
        ):
            self.refuses(says, "real_dimensions", place, "--kuno", KUNO, option, value)

    def test_models_of_real_size_are_not_written_where_they_cannot_lie(self):
        self.refuses("is no folder that can be written", "real_dimensions", "/dev/null/models", "--kuno", KUNO)
        script = (  # the same program on a disk on which one byte is free
            "import collections, runpy, shutil, sys; sys.path.insert(0, sys.argv.pop(1)); del sys.argv[0]\n"
            "shutil.disk_usage = lambda path: collections.namedtuple('Usage', 'free')(1)\n"
            "runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        told = subprocess.run([sys.executable, "-c", script, BENCH, BENCH / "real_dimensions", self.folder / "models",
                               "--kuno", KUNO], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        self.assertEqual(told.returncode, 1)
        self.assertRegex(told.stderr, r"z-image-fp8 needs 10\.\d GB in '.*', 0\.0 GB are free")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_sizes_that_are_known_are_those_of_every_architecture(self):
        registry = (ROOT / "src" / "pipelines" / "registry.c").read_text()
        steps, most = (set(map(int, re.findall(rf"\.{name} = (\d+)", registry))) for name in ("size_step", "max_side"))
        script = (BENCH / "real_dimensions").read_text()
        known = re.search(r"(?m)^SIDE_STEP, MOST_SIDE = (\d+), (\d+)", script).groups()
        self.assertEqual(({int(known[0])}, int(known[1])), (steps, min(most)))

    def test_a_checkpoint_is_not_begun_that_cannot_be(self):
        file = self.folder / "model"
        for args, says in (
            (("flux-ae", "q8_0"), "flux-ae is there as bf16, not as q8_0"),
            (("sdxl", "bf16"), "invalid choice"),
            (("z-image", "bf16", "--layers", "31"), "1 to 30 for z-image"),
            (("z-image", "bf16", "--layers", "0"), "1 to 30 for z-image"),
            (("z-image", "bf16", "--seed", "x"), "invalid int value"),
        ):
            self.refuses(says, "random_checkpoint", *args, "--output", file)
        self.refuses("is not a file", "random_checkpoint", "flux-ae", "bf16", "--output", self.folder)
        self.refuses("No such file", "random_checkpoint", "flux-ae", "bf16", "--output", file / "below")

    def test_nothing_is_measured_that_cannot_be_kept_or_makes_no_sense(self):
        upstream = ("--upstream", "/nonexistent/upstream")
        for program, more in (("compare", ()), ("demo", ()), ("fetch", ()), ("studio", ()), ("proxy", upstream)):
            self.refuses("at least 1", program, "--kuno", KUNO, *more, "--rounds", "0")
            self.refuses("cannot be written", program, "--kuno", KUNO, *more, "--output", self.folder)
            self.refuses("is not kuno", program, "--kuno", "/bin/true", *more)
        for option, value, says in (("--turns", "0", "at least 1"), ("--threads", "0", "from 1 to 1024"),
                                    ("--output", self.folder, "cannot be written"),
                                    ("--kuno", "/bin/true", "not kuno")):
            self.refuses(says, "profile", "--kuno", KUNO, option, value, "picture")
        self.refuses("there is no 'smal'", "proxy", "--kuno", KUNO, *upstream, "--only", "smal")


class Halves(unittest.TestCase):
    def begun(self, folder):
        """A program that writes a checkpoint, and has begun; the file that was there before."""
        path = pathlib.Path(folder) / "model"
        path.write_text("before")
        command = [sys.executable, BENCH / "random_checkpoint", "z-image", "bf16", "--layers", "10", "--output", path]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE_S
        while not any(p.stat().st_size for p in path.parent.glob("model.*")):
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return process, path

    def test_a_checkpoint_that_is_stopped_leaves_nothing_and_replaces_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with tempfile.TemporaryDirectory() as folder:
                process, path = self.begun(folder)
                process.send_signal(number)
                process.communicate(timeout=PATIENCE_S)
                self.assertNotEqual(process.returncode, 0)
                self.assertEqual(list(path.parent.iterdir()), [path])
                self.assertEqual(path.read_text(), "before")

    def test_a_checkpoint_that_finds_the_disk_full_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model"
            limit = MODEL_BYTES // 1024 // 2  # KiB, or blocks of 512 bytes to some shells: about a half or a quarter
            command = ["sh", "-c", f'trap "" XFSZ; ulimit -f {limit}; exec "$@"', "sh", sys.executable,
                       BENCH / "random_checkpoint", "flux-ae", "bf16", "--output", path]
            told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
            self.assertEqual((told.returncode, told.stderr.count("\n")), (1, 1), told.stderr)
            self.assertIn("File too large", told.stderr)
            self.assertEqual(list(path.parent.iterdir()), [])


tap.main()
