"""A real Ollama with two tiny models, for tests that want to know what it really does.

KUNO_TEST_OLLAMA names the program; tests/ollama/build makes one. Nothing that it is asked leaves the machine."""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import subprocess
import sys
import time

from harness import PATIENCE, Server, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "ollama"))
import make_model  # noqa: E402

FOUND = os.environ.get("KUNO_TEST_OLLAMA") or str(pathlib.Path.home() / ".cache" / "kuno-ollama" / "bin" / "ollama")
WHY_NOT = None if os.access(FOUND, os.X_OK) else f"there is no {FOUND}; tests/ollama/build makes one in a few minutes"
NOWHERE = "http://127.0.0.1:1"


class RealOllama:
    def __init__(self, folder, port, models=("kuno-tiny", "kuno-tiny-b")):
        self.port = port
        self.weights = folder / "tiny.gguf"
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "OLLAMA_HOST": f"127.0.0.1:{port}",
                       "OLLAMA_MODELS": str(folder / "models"), "OLLAMA_NOPRUNE": "1", "OLLAMA_NO_CLOUD": "1",
                       "OLLAMA_CONTEXT_LENGTH": "512", "OLLAMA_NUM_PARALLEL": "1", "CUDA_VISIBLE_DEVICES": "-1",
                       "GGML_VK_VISIBLE_DEVICES": "-1", "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE}
        with (folder / "ollama.log").open("wb") as log:
            self.process = subprocess.Popen([FOUND, "serve"], env=environment, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        wait_until(lambda: Server.accepts(port), "Ollama", 60)
        self.weights.write_bytes(make_model.model())
        digest = "sha256:" + hashlib.sha256(self.weights.read_bytes()).hexdigest()
        assert self.ask(port, "POST", f"/api/blobs/{digest}", self.weights.read_bytes())[0] in (200, 201)
        for age, name in enumerate(models):
            status, _, body = self.ask(port, "POST", "/api/create", {
                "model": name, "files": {"tiny.gguf": digest}, "template": "{{ .System }}{{ .Prompt }}",
                "system": name, "parameters": {"num_thread": 1}, "stream": False})
            assert status == 200, body
            # Ollama lists models by age in seconds, those of the same second in any order.
            manifest = folder / "models/manifests/registry.ollama.ai/library" / name / "latest"
            os.utime(manifest, (1800000000 + age, 1800000000 + age))

    @staticmethod
    def ask(port, method, target, body=None, headers=None):
        """(status, headers in order, body)"""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            body = json.dumps(body) if isinstance(body, dict) else body
            connection.request(method, target, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    @staticmethod
    def command(port, folder, *words):
        """What the command line says of a server: its output, or its error if it fails."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "OLLAMA_HOST": f"127.0.0.1:{port}"}
        ended = subprocess.run([FOUND, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, timeout=120)
        return ended.stderr if ended.returncode else ended.stdout

    def cpu_ticks(self):
        """Of the server and its runners."""
        ticks = 0
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12]) if int(fields[3]) == self.process.pid else 0
        return ticks

    def is_idle(self):
        """Whether nothing is computed: in half a second, less than a tenth of what that would take."""
        before = self.cpu_ticks()
        time.sleep(0.5)
        return self.cpu_ticks() - before < 0.05 * os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
