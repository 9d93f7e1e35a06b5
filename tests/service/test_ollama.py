"""A real Ollama behind the server: every route answers through it as it does directly.

KUNO_TEST_OLLAMA names the program; tests/ollama/build makes one."""

import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import tap
from harness import PATIENCE, Server, free_ports, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "ollama"))
import make_model  # noqa: E402

FOUND = os.environ.get("KUNO_TEST_OLLAMA") or str(pathlib.Path.home() / ".cache" / "kuno-ollama" / "bin" / "ollama")
WHY_NOT = None if os.access(FOUND, os.X_OK) else f"there is no {FOUND}; tests/ollama/build makes one"
# What differs between two answers to the same request.
CHANGING = re.compile(rb'"(created_at|created|[a-z_]*_duration|expires_at|modified_at|id|item_id|response_id'
                      rb'|created_at|completed_at|size|size_vram|request_id)":("[^"]*"|[0-9.]+)')
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "date"}
SHORT = {"num_predict": 8, "seed": 1, "temperature": 0}
OPENAI = {"max_tokens": 8, "temperature": 0, "seed": 1}
CHAT = [{"role": "user", "content": "hello"}]


class RealOllama:
    """One server with two tiny models, in a folder of its own."""

    def __init__(self, folder, port, models=("kuno-tiny", "kuno-tiny-b")):
        self.port = port
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "OLLAMA_HOST": f"127.0.0.1:{port}",
                       "OLLAMA_MODELS": str(folder / "models"), "OLLAMA_NOPRUNE": "1", "OLLAMA_NO_CLOUD": "1",
                       "OLLAMA_CONTEXT_LENGTH": "512", "OLLAMA_NUM_PARALLEL": "1", "CUDA_VISIBLE_DEVICES": "-1",
                       "GGML_VK_VISIBLE_DEVICES": "-1"}
        with (folder / "ollama.log").open("wb") as log:
            self.process = subprocess.Popen([FOUND, "serve"], env=environment, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        wait_until(lambda: Server.accepts(port), "Ollama", 60)
        weights = make_model.model()
        digest = "sha256:" + hashlib.sha256(weights).hexdigest()
        assert self.ask(port, "POST", f"/api/blobs/{digest}", weights)[0] in (200, 201)
        for age, name in enumerate(models):
            status, _, body = self.ask(port, "POST", "/api/create", {
                "model": name, "files": {"tiny.gguf": digest}, "template": "{{ .System }}{{ .Prompt }}",
                "system": name, "parameters": {"num_thread": 1}, "stream": False})
            assert status == 200, body
            # Ollama lists models by age in seconds, those of the same second in any order.
            manifest = folder / "models/manifests/registry.ollama.ai/library" / name / "latest"
            os.utime(manifest, (1800000000 + age, 1800000000 + age))

    @staticmethod
    def ask(port, method, target, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            connection.request(method, target, json.dumps(body) if isinstance(body, dict) else body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


REQUESTS = [
    ("GET", "/", None), ("HEAD", "/", None), ("GET", "/api/version", None), ("HEAD", "/api/version", None),
    ("GET", "/api/tags", None), ("HEAD", "/api/tags", None), ("GET", "/api/ps", None), ("GET", "/v1/models", None),
    ("GET", "/v1/models/kuno-tiny", None), ("GET", "/v1/models/none", None), ("OPTIONS", "/api/generate", None),
    ("POST", "/api/show", {"model": "kuno-tiny"}), ("POST", "/api/show", {"model": "none"}),
    ("POST", "/api/show", b"{"),
    ("POST", "/api/generate", {"model": "kuno-tiny"}),
    ("POST", "/api/generate", {"model": "kuno-tiny", "prompt": "hello", "options": SHORT}),
    ("POST", "/api/generate", {"model": "kuno-tiny", "prompt": "hello", "options": SHORT, "stream": False}),
    ("POST", "/api/generate", {"model": "none", "prompt": "hello"}),
    ("POST", "/api/generate", {"model": "kuno-tiny", "prompt": "hello", "keep_alive": "300"}),
    ("POST", "/api/generate", b"not json"), ("GET", "/api/generate", None), ("POST", "/api/%67enerate", b""),
    ("POST", "/api/chat", {"model": "kuno-tiny", "messages": CHAT, "options": SHORT}),
    ("POST", "/api/chat", {"model": "kuno-tiny", "messages": []}),
    ("POST", "/api/embed", {"model": "kuno-tiny", "input": ["a", "b"]}),
    ("POST", "/api/embed", {"model": "kuno-tiny", "input": []}),
    ("POST", "/api/embeddings", {"model": "kuno-tiny", "prompt": "a"}),
    ("POST", "/v1/chat/completions", {"model": "kuno-tiny", "messages": CHAT, **OPENAI}),
    ("POST", "/v1/chat/completions", {"model": "kuno-tiny", "messages": CHAT, **OPENAI, "stream": True,
                                      "stream_options": {"include_usage": True}}),
    ("POST", "/v1/chat/completions", {"model": "kuno-tiny", "messages": []}),
    ("POST", "/v1/chat/completions", {"model": "none", "messages": CHAT}),
    ("POST", "/v1/completions", {"model": "kuno-tiny", "prompt": "a", **OPENAI}),
    ("POST", "/v1/completions", {"model": "kuno-tiny", "prompt": "a", **OPENAI, "stream": True}),
    ("POST", "/v1/embeddings", {"model": "kuno-tiny", "input": "a"}),
    ("POST", "/v1/embeddings", {"model": "kuno-tiny", "input": ["a"], "encoding_format": "base64"}),
    ("POST", "/v1/responses", {"model": "kuno-tiny", "input": "a", "max_output_tokens": 8, "temperature": 0}),
    ("POST", "/v1/messages", {"model": "kuno-tiny", "messages": CHAT, "max_tokens": 8, "temperature": 0}),
    ("POST", "/v1/messages", {"model": "none", "messages": CHAT, "max_tokens": 8}),
    ("POST", "/api/blobs/sha256:" + hashlib.sha256(b"blob").hexdigest(), b"blob"),
    ("POST", "/api/blobs/sha256:" + hashlib.sha256(b"blob").hexdigest(), b"blob"),
    ("HEAD", "/api/blobs/sha256:" + hashlib.sha256(b"blob").hexdigest(), None),
    ("HEAD", "/api/blobs/sha256:" + "0" * 64, None),
    ("POST", "/api/blobs/sha256:" + "0" * 64, b"other"), ("POST", "/api/blobs/nothing", b"x"),
    ("POST", "/api/copy", {"source": "kuno-tiny", "destination": "copied"}),
    ("POST", "/api/copy", {"source": "none", "destination": "copied"}),
    ("DELETE", "/api/delete", {"model": "none"}),
    ("POST", "/api/create", {"model": "made", "from": "kuno-tiny", "system": "x"}),
    ("POST", "/api/me", None), ("GET", "/api/tags/", None), ("GET", "//api/tags", None), ("GET", "/nothing", None),
    ("PUT", "/api/tags", None), ("POST", "/api/unknown", {}),
]


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Real(unittest.TestCase):
    maxDiff = 3000

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="kuno-ollama-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.ports = free_ports(4)
        cls.ollama = RealOllama(cls.folder, cls.ports[0])
        cls.addClassCleanup(cls.ollama.stop)

    def setUp(self):
        self.server = Server(self).wait_ready()
        self.addCleanup(shutil.rmtree, self.server.state, ignore_errors=True)

    def seen(self, port, method, target, body):
        """An answer as a client sees it, without what differs from one to the next."""
        status, headers, text = self.ollama.ask(port, method, target, body)
        text = CHANGING.sub(rb'"\1":0', text.replace(str(port).encode(), b"PORT"))
        kept = [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP]
        if b'":0' in text:
            kept = [(name, value) for name, value in kept if name.lower() != "content-length"]
        return status, kept, text

    def test_routes(self):
        """every_route_answers_as_it_does_directly"""
        for method, target, body in REQUESTS:
            self.seen(self.ports[0], method, target, body)  # so that it is as it will be afterwards
            direct, through = (self.seen(port, method, target, body) for port in (self.ports[0], self.server.listen))
            self.assertEqual(through, direct, f"{method} {target}")
        self.assertFalse(self.server.admission()["recovery_required"])

    def test_delete(self):
        """so_does_the_one_whose_request_has_a_body_without_being_a_post"""
        answers = []
        for port in (self.ports[0], self.server.listen):
            self.ollama.ask(self.ports[0], "POST", "/api/copy", {"source": "kuno-tiny", "destination": "copied"})
            answers.append(self.seen(port, "DELETE", "/api/delete", {"model": "copied"}))
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0][0], 200)

    def test_cancel(self):
        """a_client_that_leaves_keeps_the_next_one_waiting_and_no_more"""
        body = json.dumps({"model": "kuno-tiny", "prompt": "x", "options": {"num_predict": 400}}).encode()
        with self.server.start_raw(body=body) as s:
            s.recv(1)
        status, _, text = self.ollama.ask(self.server.listen, "POST", "/api/generate",
                                          {"model": "kuno-tiny", "prompt": "y", "options": SHORT, "stream": False})
        self.assertEqual((status, json.loads(text)["done"]), (200, True))
        self.assertFalse(self.server.admission()["recovery_required"])

    def test_usage(self):
        """uses_are_counted_by_what_ollama_lists"""
        digest = next(m["digest"] for m in json.loads(self.ollama.ask(self.ports[0], "GET", "/api/tags")[2])["models"]
                      if m["name"] == "kuno-tiny-b:latest")
        self.ollama.ask(self.server.listen, "POST", "/api/generate",
                        {"model": "kuno-tiny-b", "prompt": "y", "options": SHORT, "stream": False})

        def used():
            return [m["digest"] for m in self.server.own("GET", "usage")[1]["models"]]
        wait_until(lambda: used() == [digest], "the use", 5)

    def test_resources(self):
        """what_is_loaded_on_the_cpu_is_told_so"""
        self.ollama.ask(self.server.listen, "POST", "/api/generate", {"model": "kuno-tiny"})
        residency = self.server.own("GET", "resources")[1]["residency"]
        self.assertIn(("kuno-tiny:latest", "cpu"), [(m["model"], m["class"]) for m in residency])


if __name__ == "__main__":
    tap.main()
