"""The official packages of OpenAI draw and edit through the studio. scripts/install-clients brings them."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import tap
from studio.rig import PATIENCE, TOKEN, Rig, png

PROGRAMS = pathlib.Path(__file__).parents[1] / "clients"
PACKAGES = pathlib.Path(os.environ["KUNO_CLIENTS"])
PNG, JPEG = "89504e47", "ffd8ffe0"
STREAM = ["image_generation.partial_image"] * 2 + ["image_generation.completed"]


class Clients(unittest.TestCase):
    maxDiff = 3000

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="kuno-clients-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        shutil.copytree(PROGRAMS, cls.folder / "programs")
        # JavaScript looks for packages beside the program.
        (cls.folder / "programs" / "node_modules").symlink_to(PACKAGES / "javascript" / "node_modules")
        cls.rig = Rig()
        cls.addClassCleanup(cls.rig.close)
        cls.rig.edit_by_default()

    def steps(self, language, interpreter, program):
        if not (PACKAGES / f"{language}.installed").exists():
            self.skipTest(f"the clients for {language} are not there; scripts/install-clients brings them")
        pictures = "\n".join(base64.b64encode(one).decode() for one in (png(64, 64, 9), png(32, 48), png(64, 64, 255)))
        ended = subprocess.run(
            [interpreter, self.folder / "programs" / program, f"http://127.0.0.1:{self.rig.port}"], input=pictures,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "NO_PROXY": "*", "OPENAI_API_KEY": TOKEN},
            capture_output=True, text=True, timeout=2 * PATIENCE)
        self.assertEqual(ended.returncode, 0, ended.stdout[-500:] + ended.stderr)
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def test_python(self):
        """openai_for_python_draws_edits_streams_and_is_refused"""
        self.assertEqual(self.steps("python", PACKAGES / "python" / "bin" / "python", "images_client.py"), [
            ["list", ["editor", "demo"]],
            ["draw", [PNG]],
            ["draw", [PNG, PNG]],
            ["draw", [JPEG]],
            ["draw", [PNG]],
            ["draw", [PNG]],
            ["stream", STREAM],
            ["edit", [PNG]],
            ["edit", [PNG]],
            ["edit", [PNG]],
            ["edit", [PNG]],
            ["stream", ["image_edit.completed"]],
            ["refuse", ["BadRequestError", 400]],
            ["refuse", ["BadRequestError", 400]],
            ["refuse", ["BadRequestError", 400]],
            ["refuse", ["NotFoundError", 404]],
            ["refuse", ["InternalServerError", 500]],
            ["refuse", ["AuthenticationError", 401]],
        ])

    def test_javascript(self):
        """openai_for_javascript_draws_edits_streams_and_leaves"""
        self.assertEqual(self.steps("javascript", shutil.which("node"), "images_client.mjs"), [
            ["draw", [PNG]],
            ["stream", STREAM],
            ["edit", [PNG]],
            ["edit", [PNG]],
            ["stream", ["image_edit.completed"]],
            ["leave", True],
            ["refuse", [400]],
        ])
        self.assertEqual(self.rig.ended(self.rig.job("after all"))["state"], "completed")


tap.main()
