"""Two hundred clients that come, send, and leave as they like: never two at work, and nothing is left behind.

KUNO_CROWD_SECONDS says for how long; a few seconds unless it is set."""

import contextlib
import json
import os
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import tap
from harness import SANITIZED, Case, wait_until
from workers import Workers

CLIENTS = 200
SECONDS = float(os.environ.get("KUNO_CROWD_SECONDS", "4"))
WORDS = {"prompt": "hello", "messages": ["hello"], "input": "hello"}


class Crowd:
    TARGETS = "/api/generate", "/api/chat", "/api/tags", "/api/unknown", "/v1/models"
    MODELS = "tiny",

    def client(self, server, seed, end):
        chance = random.Random(seed)
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.listen), 5) as s:
                s.settimeout(chance.choice((0.01, 0.1, 1)))
                stub = chance.choice(("lines=1", "lines=3 gap=0.01", "status=500", "delay=0.01"))
                body = json.dumps({"model": chance.choice(self.MODELS), **WORDS}).encode()
                request = (f"POST {chance.choice(self.TARGETS)} HTTP/1.1\r\nHost: h\r\nX-Stub: {stub}\r\n"
                           f"Content-Length: {len(body)}\r\n\r\n").encode() + body
                s.sendall(request[:chance.choice((10, len(request) - 5, len(request), len(request), len(request)))])
                while chance.random() < 0.8 and s.recv(4096):
                    pass
            time.sleep(chance.random() * 0.05)

    @staticmethod
    def resident_kib(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

    def run_crowd(self, server, seconds):
        end = time.monotonic() + seconds
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda seed: self.client(server, seed, end), range(CLIENTS)))  # or the first failure
        server.wait_idle()
        wait_until(lambda: len(os.listdir(f"/proc/{server.pid()}/fd")) < 60, "closed connections")

    def crowd_passes(self, server):
        """It is as it was, after a first crowd by which it has what it needs."""
        self.run_crowd(server, min(1, SECONDS))
        before = self.resident_kib(server.pid())
        self.run_crowd(server, SECONDS)
        self.assertFalse(server.admission()["recovery_required"])
        self.assertFalse(server.marker())
        if not SANITIZED:  # a sanitizer keeps freed memory back
            self.assertLess(self.resident_kib(server.pid()) - before, 2048)
        self.assertEqual(server.generate()[0], 200)


class UpstreamCrowd(Crowd, Case):
    def test_crowd(self):
        """no_two_are_ever_at_work_and_the_end_is_as_the_beginning"""
        self.crowd_passes(self.serve(queue_limit=50, queue_timeout_ms=200, stream_idle_timeout_ms=5000))
        self.assertEqual(self.upstream.most_active, 1)
        self.assertGreater(len(self.upstream.worked()), SECONDS)


class WorkerCrowd(Crowd, Workers):
    TARGETS = ("/api/generate", "/api/chat", "/api/embed", "/v1/chat/completions", "/v1/embeddings", "/api/tags",
               "/api/ps")
    MODELS = "tiny", "alias", "other:7b", "nobody", "a/b/c/d"

    def test_crowd(self):
        """nor_are_they_with_workers_not_even_two_workers"""
        for home in self.homes:
            self.set_stub(home, work=0.005)
        self.crowd_passes(self.start(queue_limit=50, queue_timeout_ms=200, stream_idle_timeout_ms=5000))
        spans = sorted(tuple(map(float, line.split()[1:])) for line in self.notes(start="span"))
        self.assertTrue(spans)
        for (_, end), (begin, _) in zip(spans, spans[1:]):
            self.assertLessEqual(end, begin)
        self.assertLessEqual(self.upstream.most_active, 1)


if __name__ == "__main__":
    tap.main()
