"""What tests of downloads share: calling the program, and looking at what it left."""

import hashlib
import json
import pathlib
import time

import files
import kuno

# The scenarios that every downloader is held to.
SCENARIOS = json.loads((pathlib.Path(__file__).parent.parent / "golden/catalog/downloads.json").read_text())

ENDED, INVALID, FAILED = 0, 2, 1


class Fetching(kuno.Case):
    TIMEOUT = "10"  # seconds that no server of ours is silent for, unless it is to be

    def setUp(self):
        super().setUp()
        self.models = self.root / "models"

    def arguments(self, name, server, *more):
        mirror = ["--mirror", server.url] if server else []
        return ["fetch-models", name, "-d", str(self.models), "--accept-licence", *mirror, "--timeout", self.TIMEOUT,
                "--tries", "3", *more]

    def fetch(self, name, server, *more, **start):
        return self.kuno(*self.arguments(name, server, *more), **start)

    def place(self, name):
        return self.models / "vae" / f"{name}.safetensors"

    def wait_for(self, condition):
        end = time.monotonic() + kuno.HANG_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def leftovers(self):
        """Files in the folder of models that are not complete ones."""
        return sorted(p.name for p in self.models.rglob("*") if p.is_file() and p.suffix != ".safetensors")

    def is_right(self, name):
        """Whether the file is there; it is an error of the program's if it is there and wrong."""
        path = self.place(name)
        if not path.exists():
            return False
        self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), files.sha256(name))
        return True

    def assert_fetched(self, name, result):
        self.assertEqual(result.code, ENDED, result.err)
        self.assertTrue(self.is_right(name))
        self.assertEqual(self.leftovers(), [])

    def assert_refused(self, name, result, *says, code=FAILED):
        self.assertEqual(result.code, code, result.err)
        for words in says:
            self.assertIn(words, result.err)
        self.assertFalse(self.place(name).exists())
