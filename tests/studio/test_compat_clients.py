"""The official packages of OpenAI draw and edit through the studio, in front of the rig and of `kuno serve` with a
small model that edits. scripts/install-clients brings them."""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import tap
from studio.rig import PATIENCE, TOKEN, Rig, png
from studio.serve import Serve

PROGRAMS = pathlib.Path(__file__).parents[1] / "clients"
MODELS = pathlib.Path(__file__).parents[1] / "golden" / "qwen21-e2e"
PACKAGES = pathlib.Path(os.environ["KUNO_CLIENTS"])
PNG, JPEG, WEBP = "89504e47", "ffd8ffe0", "52494646"
STREAM = ["image_generation.partial_image"] * 2 + ["image_generation.completed"]
PYTHON = [
    ["draw", [PNG]],
    ["draw", [PNG, PNG]],
    ["draw", [JPEG]],
    ["draw", [WEBP]],
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
]
WRONG_KEY = ["refuse", ["AuthenticationError", 401]]
JAVASCRIPT = [
    ["draw", [PNG]],
    ["stream", STREAM],
    ["edit", [PNG]],
    ["edit", [PNG]],
    ["stream", ["image_edit.completed"]],
    ["leave", True],
    ["refuse", [400]],
]


class Editing(Serve):
    """With the models of the golden cases."""

    def begin(self):
        text = re.sub(r'= "(\S+\.(?:safetensors|json|gguf))"', lambda found: f'= "{MODELS / found[1]}"',
                      (MODELS / "models.toml").read_text())
        with open(os.path.join(self.folder, "models.toml"), "w") as file:
            file.write(text)
        super().begin()
        answer = self.post("/models/tiny-turbo/activate")
        assert answer.status == 200, answer.body


class Clients(unittest.TestCase):
    maxDiff = 3000

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="kuno-clients-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        shutil.copytree(PROGRAMS, cls.folder / "programs")
        # JavaScript looks for packages beside the program.
        (cls.folder / "programs" / "node_modules").symlink_to(PACKAGES / "javascript" / "node_modules")
        cls.rig = cls.begin()
        cls.addClassCleanup(cls.rig.close)

    def steps(self, language, interpreter, program, *prompts):
        if not (PACKAGES / f"{language}.installed").exists():
            self.skipTest(f"the clients for {language} are not there; scripts/install-clients brings them")
        pictures = "\n".join(base64.b64encode(one).decode() for one in (png(64, 64, 9), png(32, 48), png(64, 64, 255)))
        ended = subprocess.run(
            [interpreter, self.folder / "programs" / program, f"http://127.0.0.1:{self.rig.port}", *prompts],
            input=pictures,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "NO_PROXY": "*", "OPENAI_API_KEY": TOKEN},
            capture_output=True, text=True, timeout=4 * PATIENCE)
        self.assertEqual(ended.returncode, 0, ended.stdout[-500:] + ended.stderr)
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def python(self, *prompts):
        return self.steps("python", PACKAGES / "python" / "bin" / "python", "images_client.py", *prompts)

    def javascript(self, *prompts):
        return self.steps("javascript", shutil.which("node"), "images_client.mjs", *prompts)


class InFrontOfARig(Clients):
    @classmethod
    def begin(cls):
        rig = Rig()
        rig.edit_by_default()
        return rig

    def test_python(self):
        """openai_for_python_draws_edits_streams_and_is_refused"""
        models, *others, failed, refused = self.python("ms=150 steps=6", "fails=internal")
        self.assertEqual(models, ["list", ["editor", "demo"]])
        self.assertEqual([*others, refused], [*PYTHON, WRONG_KEY])
        self.assertEqual(failed, ["refuse", ["InternalServerError", 500]])

    def test_javascript(self):
        """openai_for_javascript_draws_edits_streams_and_leaves"""
        self.assertEqual(self.javascript("ms=150 steps=6", "ms=20 steps=5000"), JAVASCRIPT)
        self.assertEqual(self.rig.ended(self.rig.job("after all"))["state"], "completed")


class InFrontOfKuno(Clients):
    """Previews come as the worker makes them, so that a quick picture may have fewer."""

    @classmethod
    def begin(cls):
        return Editing()

    def without_previews(self, steps):
        return [[step, [word for word in result if not str(word).endswith("partial_image")]
                 if isinstance(result, list) else result] for step, result in steps]

    def test_python(self):
        """openai_for_python_has_its_pictures_from_kuno_serve"""
        (step, models), *others = self.python("a slow boat")
        self.assertEqual((step, models[0]), ("list", "tiny-turbo"))
        self.assertEqual(self.without_previews(others), self.without_previews([*PYTHON, WRONG_KEY]))

    def test_javascript(self):
        """openai_for_javascript_has_its_pictures_from_kuno_serve"""
        self.assertEqual(self.without_previews(self.javascript("a slow boat", "a boat that nobody waits for")),
                         self.without_previews(JAVASCRIPT))
        self.assertEqual(self.rig.ended(self.rig.job("after all", size={"mode": "custom", "width": 64, "height": 64}))
                         ["state"], "completed")


tap.main()
