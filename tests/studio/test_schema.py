"""schemathesis in front of `kuno serve`: requests as the descriptions in docs/ allow them, and as they do not. No
answer may be another than described, and nothing that they forbid may be taken. scripts/install-clients brings it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import tap
from studio.rig import TOKEN
from studio.serve import Serve

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PACKAGES = pathlib.Path(os.environ["KUNO_CLIENTS"])
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "negative_data_rejection")  # fmt: skip
ENDLESS = r"/events$|/service/stop|/engine/(stop|restart)"  # streams, and what ends what is tested
PATIENCE = 500


class Descriptions(unittest.TestCase):
    def check(self, document, port, *more):
        if not (PACKAGES / "schemathesis.installed").exists():
            self.skipTest("schemathesis is not there; scripts/install-clients brings it")
        folder = tempfile.mkdtemp(prefix="kuno-schema-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        command = [PACKAGES / "schemathesis" / "bin" / "schemathesis", "run", DOCS / document, "--url",
                   f"http://127.0.0.1:{port}", "-H", f"Authorization: Bearer {TOKEN}", "--phases",
                   "examples,coverage,fuzzing", "-n", "3", "--seed", "1", "--checks", ",".join(CHECKS), "--no-color",
                   *more]
        ended = subprocess.run(command, cwd=folder, env={"PATH": os.environ["PATH"], "HOME": folder, "NO_PROXY": "*"},
                               capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(ended.returncode, 0, ended.stdout[-5000:] + ended.stderr[-1000:])

    def test_the_studio_is_as_it_is_described(self):
        with Serve() as rig:
            self.check("studio.yaml", rig.port, "--exclude-path-regex", ENDLESS)
            self.assertEqual(rig.get("/health", token=None).status, 200)
            rig.end(signal.SIGKILL)  # it has been asked for many pictures

    def test_the_owners_routes_are_as_they_are_described(self):
        with Serve() as rig:
            with open(os.path.join(rig.folder, "config.json")) as file:
                control = json.load(file)["control"]
            self.check("control.yaml", control.rpartition(":")[2])
            self.assertEqual(rig.get("/health", token=None).status, 200)


tap.main()
