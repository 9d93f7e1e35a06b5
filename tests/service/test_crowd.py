"""Two hundred clients that come, send, and leave as they like: never two at work, and nothing is left behind.

KUNO_CROWD_SECONDS says for how long; a few seconds unless it is set."""

import contextlib
import os
import random
import socket
import threading
import time

import tap
from harness import SANITIZED, Case, wait_until

CLIENTS = 200
SECONDS = float(os.environ.get("KUNO_CROWD_SECONDS", "4"))
BODY = b'{"model":"tiny","prompt":"hello"}'


class Crowd(Case):
    def client(self, server, seed, end):
        chance = random.Random(seed)
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.listen), 5) as s:
                s.settimeout(chance.choice((0.01, 0.1, 1)))
                target = chance.choice(("/api/generate", "/api/chat", "/api/tags", "/api/unknown", "/v1/models"))
                stub = chance.choice(("lines=1", "lines=3 gap=0.01", "status=500", "delay=0.01"))
                request = (f"POST {target} HTTP/1.1\r\nHost: h\r\nX-Stub: {stub}\r\n"
                           f"Content-Length: {len(BODY)}\r\n\r\n").encode() + BODY
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
        threads = [threading.Thread(target=self.client, args=(server, seed, end)) for seed in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.wait_idle()

    def test_crowd(self):
        """no_two_are_ever_at_work_and_the_end_is_as_the_beginning"""
        server = self.serve(queue_limit=50, queue_timeout_ms=200, stream_idle_timeout_ms=5000)
        pid = server.process.pid
        self.run_crowd(server, min(1, SECONDS))
        wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) < 60, "closed connections")
        before = self.resident_kib(pid)
        self.run_crowd(server, SECONDS)
        self.assertEqual(self.upstream.most_active, 1)
        self.assertGreater(len(self.upstream.worked()), SECONDS)
        self.assertFalse(server.admission()["recovery_required"])
        self.assertFalse(server.marker())
        wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) < 60, "closed connections")
        if not SANITIZED:  # a sanitizer keeps freed memory back
            self.assertLess(self.resident_kib(pid) - before, 2048)
        self.assertEqual(server.generate()[0], 200)


if __name__ == "__main__":
    tap.main()
