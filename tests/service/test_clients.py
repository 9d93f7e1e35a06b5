"""The official clients of Ollama and OpenAI get through the server what they get directly.

Each program of tests/clients goes through its steps twice, in front of a real Ollama and in front of the server, and
says what came of them. scripts/install-clients brings the packages.

They leave a stream in its middle only in front of the server. Ollama 0.17.4 does not always survive it: what computes
may hang in handing over a piece that nobody takes any more, and the model is never free again. The server never lets
it come to that, since it takes the rest."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import tap
from harness import Server
from ports import free_ports
from real_ollama import WHY_NOT, RealOllama

PROGRAMS = pathlib.Path(__file__).parents[1] / "clients"
PACKAGES = pathlib.Path(os.environ["KUNO_CLIENTS"])
CLIENTS = {
    "ollama_client.py": ("python", PACKAGES / "python" / "bin" / "python"),
    "openai_client.py": ("python", PACKAGES / "python" / "bin" / "python"),
    "ollama_client.mjs": ("javascript", shutil.which("node")),
    "openai_client.mjs": ("javascript", shutil.which("node")),
}
# What differs between two answers to the same request.
CHANGING = {"created", "created_at", "completed_at", "expires_at", "modified_at", "id", "item_id", "total_duration",
            "load_duration", "prompt_eval_duration", "eval_duration"}
PROGRAM_SECONDS = 120


def why_not(language):
    if WHY_NOT:
        return WHY_NOT
    if not (PACKAGES / f"{language}.installed").exists():
        return f"the clients for {language} are not there; scripts/install-clients brings them"
    return None


def steady(thing):
    if isinstance(thing, list):
        return [steady(one) for one in thing]
    if isinstance(thing, dict):
        return {key: "…" if key in CHANGING else steady(value) for key, value in thing.items()}
    return thing


class Clients(unittest.TestCase):
    maxDiff = 3000

    @classmethod
    def setUpClass(cls):
        if WHY_NOT:
            return
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="kuno-clients-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        shutil.copytree(PROGRAMS, cls.folder / "programs")
        # JavaScript looks for packages beside the program.
        (cls.folder / "programs" / "node_modules").symlink_to(PACKAGES / "javascript" / "node_modules")
        cls.ports = free_ports(3)
        ollama = RealOllama(cls.folder, cls.ports[0])
        cls.addClassCleanup(ollama.stop)
        cls.weights = ollama.weights

    def steps(self, program, port, at_two):
        """What came of each step, in order."""
        language, interpreter = CLIENTS[program]
        try:
            ended = subprocess.run(
                [interpreter, self.folder / "programs" / program, f"http://127.0.0.1:{port}", "kuno-tiny", at_two,
                 self.weights],
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "NO_PROXY": "*"},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROGRAM_SECONDS)
        except subprocess.TimeoutExpired as late:
            log = (self.folder / "ollama.log").read_text()
            self.fail(f"{program} hangs after {(late.stdout or b'')[-200:]}, Ollama says\n{log[-2000:]}")
        self.assertEqual(ended.returncode, 0, ended.stdout[-500:] + ended.stderr)
        return [steady(json.loads(line)) for line in ended.stdout.splitlines()]

    def compare(self, program, steps):
        reason = why_not(CLIENTS[program][0])
        if reason:
            self.skipTest(reason)
        server = Server(self).wait_ready()
        direct = self.steps(program, self.ports[0], "stay")
        through = self.steps(program, server.listen, "leave")
        for one, other in zip(direct, through):
            self.assertEqual(other, one)
        self.assertEqual([name for name, _ in through], [name for name, _ in direct])
        self.assertEqual({name for name, _ in through}, set(steps.split()))
        self.assertNotIn(["refuse", "no error"], through)
        server.wait_idle()
        self.assertFalse(server.admission()["recovery_required"])

    def test_ollama_python(self):
        """ollama_for_python_works_as_it_does_directly"""
        self.compare("ollama_client.py", "list show load unload upload create generate chat embed stream cancel refuse "
                                         "copy delete")

    def test_openai_python(self):
        """openai_for_python_works_as_it_does_directly"""
        self.compare("openai_client.py", "list show generate chat embed stream cancel refuse")

    def test_ollama_javascript(self):
        """ollama_for_javascript_works_as_it_does_directly"""
        self.compare("ollama_client.mjs", "list show load unload upload create generate chat embed stream cancel "
                                          "refuse copy delete")

    def test_openai_javascript(self):
        """openai_for_javascript_works_as_it_does_directly"""
        self.compare("openai_client.mjs", "list show generate chat embed stream cancel refuse")


if __name__ == "__main__":
    tap.main()
