"""A real Ollama behind the server: every route answers through it as it does directly."""

import hashlib
import json
import pathlib
import re
import shutil
import socket
import tempfile
import time
import unittest

import tap
from harness import PATIENCE, Server, wait_until
from ports import free_ports
from real_ollama import WHY_NOT, RealOllama

# What differs between two answers to the same request.
CHANGING = re.compile(rb'"(created_at|created|[a-z_]*_duration|expires_at|modified_at|id|item_id|response_id'
                      rb'|completed_at|size|size_vram|request_id)":("[^"]*"|[0-9.]+)')
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "date"}
SHORT = {"num_predict": 8, "seed": 1, "temperature": 0}
OPENAI = {"max_tokens": 8, "temperature": 0, "seed": 1}
CHAT = [{"role": "user", "content": "hello"}]
BLOB = "sha256:" + hashlib.sha256(b"blob").hexdigest()
NO_BLOB = "sha256:" + "0" * 64
NO_REGISTRY = "127.0.0.1:1/library/kuno-tiny"
PAGE = {"Origin": "http://localhost:3000"}
FORM = (b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nkuno-tiny\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n--b--\r\n')


def stored_by_zstd(data):
    """A frame of one block that is not compressed."""
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(data)]) + (len(data) << 3 | 1).to_bytes(3, "little") + data


# Method, target, body, header fields: each route that a version from 0.17 to 0.34 has, and what is none.
REQUESTS = [
    ("GET", "/"), ("HEAD", "/"),
    ("GET", "/api/version"), ("HEAD", "/api/version"),
    ("GET", "/api/status"),
    ("GET", "/api/tags"), ("HEAD", "/api/tags"), ("GET", "/api/tags", None, PAGE), ("OPTIONS", "/api/tags", None, PAGE),
    ("GET", "/api/tags", None, {"Origin": "http://elsewhere.example"}),
    ("GET", "/api/tags", None, {"Host": "elsewhere.example"}),
    ("GET", "/api/ps"),
    ("POST", "/api/show", {"model": "kuno-tiny"}), ("POST", "/api/show", {"name": "kuno-tiny", "verbose": True}),
    ("POST", "/api/show", {"model": "none"}), ("POST", "/api/show", {"model": "none:cloud"}),
    ("GET", "/v1/models"), ("GET", "/v1/models/kuno-tiny"), ("GET", "/v1/models/kuno-tiny:latest"),
    ("GET", "/v1/models/none"),
    ("POST", "/api/generate", {"model": "kuno-tiny"}),
    ("POST", "/api/generate", {"model": "kuno-tiny", "prompt": "hello", "options": SHORT}),
    ("POST", "/api/generate", {"model": "kuno-tiny", "prompt": "hello", "options": SHORT, "stream": False}),
    ("POST", "/api/generate", {"model": "none", "prompt": "hello"}),
    ("POST", "/api/generate", {"model": "kuno-tiny", "prompt": "hello", "keep_alive": "300"}),
    ("POST", "/api/generate", b"not json"), ("GET", "/api/generate"), ("POST", "/api/%67enerate", b""),
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
    ("POST", "/v1/responses", {"model": "kuno-tiny", "input": "a", "max_output_tokens": 8, "temperature": 0,
                               "stream": True}),
    ("POST", "/v1/responses",
     stored_by_zstd(b'{"model":"kuno-tiny","input":"a","max_output_tokens":8,"temperature":0}'),
     {"Content-Encoding": "zstd", "Content-Type": "application/json"}),
    ("POST", "/v1/messages", {"model": "kuno-tiny", "messages": CHAT, "max_tokens": 8, "temperature": 0}),
    ("POST", "/v1/messages", {"model": "kuno-tiny", "messages": CHAT, "max_tokens": 8, "temperature": 0,
                              "stream": True}),
    ("POST", "/v1/messages", {"model": "none", "messages": CHAT, "max_tokens": 8}),
    ("POST", "/v1/audio/transcriptions", FORM, {"Content-Type": "multipart/form-data; boundary=b"}),
    ("POST", "/v1/images/generations", {"model": "kuno-tiny", "prompt": "a"}), ("POST", "/v1/images/edits", {}),
    ("POST", f"/api/blobs/{BLOB}", b"blob"), ("POST", f"/api/blobs/{BLOB}", [b"bl", b"ob"]),
    ("HEAD", f"/api/blobs/{BLOB}"), ("HEAD", f"/api/blobs/{NO_BLOB}"),
    ("POST", f"/api/blobs/{NO_BLOB}", b"other"), ("POST", "/api/blobs/nothing", b"x"),
    ("POST", "/api/create", {"model": "made", "from": "kuno-tiny", "system": "x"}),
    ("POST", "/api/create", {"model": "made", "from": "kuno-tiny", "system": "x", "stream": False}),
    ("POST", "/api/create", {"model": "made", "files": {"a.gguf": NO_BLOB}}),
    ("POST", "/api/copy", {"source": "kuno-tiny", "destination": "copied"}),
    ("POST", "/api/copy", {"source": "none", "destination": "copied"}),
    ("DELETE", "/api/delete", {"model": "none"}),
    ("POST", "/api/pull", {"model": NO_REGISTRY, "insecure": True}),
    ("POST", "/api/push", {"model": NO_REGISTRY, "insecure": True, "stream": False}),
    ("POST", "/api/me"), ("POST", "/api/signout"), ("DELETE", "/api/user/keys/a2V5"),
    ("GET", "/api/experimental/model-recommendations"), ("GET", "/api/experimental/aliases"),
    ("POST", "/api/experimental/web_search", {"query": "a"}),
    ("POST", "/api/experimental/web_fetch", {"url": "http://127.0.0.1:1/"}),
    ("GET", "/api/tags/"), ("GET", "//api/tags"), ("GET", "/nothing"), ("PUT", "/api/tags"),
    ("POST", "/api/unknown", {}), ("HEAD", "/api/ps"),
]


class Behind(unittest.TestCase):
    """The server in front of a real Ollama, which the tests of a class share."""

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


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Real(Behind):
    def seen(self, port, method, target, body=None, headers=None):
        """An answer as a client sees it, without what differs from one to the next."""
        status, headers, text = self.ollama.ask(port, method, target, body, headers)
        text = CHANGING.sub(rb'"\1":0', re.sub(rb":%d(?![\d.])" % port, b":PORT", text))
        kept = [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP]
        if b'":0' in text:
            kept = [(name, value) for name, value in kept if name.lower() != "content-length"]
        return status, kept, text

    def test_routes(self):
        """every_route_answers_as_it_does_directly"""
        for request in REQUESTS:
            self.seen(self.ports[0], *request)  # so that it is as it will be afterwards
            direct, through = (self.seen(port, *request) for port in (self.ports[0], self.server.listen))
            self.assertEqual(through, direct, request)
        self.assertFalse(self.server.admission()["recovery_required"])

    def test_delete(self):
        """so_does_the_one_whose_request_has_a_body_without_being_a_post"""
        answers = []
        for port in (self.ports[0], self.server.listen):
            self.ollama.ask(self.ports[0], "POST", "/api/copy", {"source": "kuno-tiny", "destination": "copied"})
            answers.append(self.seen(port, "DELETE", "/api/delete", {"model": "copied"}))
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0][0], 200)

    def test_command_line(self):
        """so_does_its_command_line"""
        weights = (self.folder / "tiny.gguf").read_bytes() + bytes(32)  # a file that is not there yet
        (self.folder / "Modelfile").write_text(
            "FROM ./new.gguf\nPARAMETER num_predict 8\nPARAMETER temperature 0\nPARAMETER num_thread 1\n")
        seen = []
        for number, port in enumerate((self.ports[0], self.server.listen)):
            (self.folder / "new.gguf").write_bytes(weights + bytes(32 * number))
            seen.append([self.ollama.command(port, self.folder, *words.split()) for words in (
                f"create typed -f {self.folder / 'Modelfile'}", "show kuno-tiny", "run typed hello", "run typed hello",
                "stop typed", "cp typed copied", "rm typed copied", "rm typed", "list")])
        self.assertEqual(seen[0], seen[1])
        self.assertRegex(seen[1][2], r"^\S{8}\s*$")
        self.assertIn("kuno-tiny-b:latest", seen[1][-1])
        self.assertIn("not found", seen[1][-2])

    def test_cancel(self):
        """clients_that_leave_keep_the_next_one_waiting_and_no_more"""
        body = json.dumps({"model": "kuno-tiny", "prompt": "x", "options": {"num_predict": 400}}).encode()
        for number in range(20):  # in different moments
            with self.server.start_raw(body=body) as s:
                s.recv(1)
                time.sleep(0.002 * number)
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
        wait_until(lambda: used() == [digest], "the use")

    def test_resources(self):
        """what_is_loaded_on_the_cpu_is_told_so"""
        self.ollama.ask(self.server.listen, "POST", "/api/generate", {"model": "kuno-tiny"})
        residency = self.server.own("GET", "resources")[1]["residency"]
        self.assertIn(("kuno-tiny:latest", "cpu"), [(m["model"], m["class"]) for m in residency])


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Drain(Behind):
    """Alone, since Ollama may be of no more use when its client has left it."""

    def test_drain(self):
        """an_answer_that_goes_on_is_drained_for_its_time_and_no_longer_and_ollama_stops_then"""
        self.server.stop()
        server = Server(self, stream_idle_timeout_ms=1500).wait_ready()
        long = {"model": "kuno-tiny", "prompt": "x", "options": {"num_ctx": 2048, "num_predict": 20000}}
        with server.start_raw(body=json.dumps(long).encode()) as s:
            s.recv(1)
        left = time.monotonic()
        admission = server.admission()
        self.assertEqual((admission["active_kind"], admission["state"]), ("inference", "open"))
        wait_until(lambda: server.admission()["recovery_required"], "the end of the drain")
        self.assertGreater(time.monotonic() - left, 1.4)
        self.assertFalse(server.admission()["active"])
        wait_until(self.ollama.is_idle, "the end of the computation")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Cut(Behind):
    """Alone for the same reason."""

    def test_cut(self):
        """nobody_is_let_in_behind_a_request_that_it_has_begun_without_its_end"""
        self.server.stop()
        server = Server(self, client_wait_ms=1000).wait_ready()
        short = {"model": "kuno-tiny", "prompt": "x", "options": SHORT}
        self.assertEqual(self.ollama.ask(server.listen, "POST", "/api/generate", short)[0], 200)
        body = json.dumps({"model": "kuno-tiny", "prompt": "x"}).encode()
        with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
            s.sendall(b"POST /api/generate HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                      b"%x\r\n%s\r\n" % (len(body), body))
            self.assertIn(b"HTTP/1.1 408 ", s.recv(65536))
        server.wait_idle()
        status, _, _ = self.ollama.ask(server.listen, "POST", "/api/generate", short)
        self.assertEqual((status, server.admission()["recovery_required"]), (503, True))


if __name__ == "__main__":
    tap.main()
