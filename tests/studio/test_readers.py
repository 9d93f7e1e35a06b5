"""Clients of `kuno serve` that take pictures and events slowly, or leave in the middle of them: memory stays what it
is, everybody else is served, and whoever leaves gives back what was theirs."""

import base64
import contextlib
import json
import os
import random
import socket
import threading
import time
import unittest

import tap
from cli.png import png_file
from studio import agreement
from studio.rig import PATIENCE, TOKEN
from studio.serve import Serve
from studio.slow import MIB, Client, connections, resident_bytes

RATE = 1000  # bytes a second
SIDE = 1300  # of a picture that no buffer of a socket holds
STREAMS = 64  # that there are at a time
STREAMED = {"prompt": "a boat", "size": "128x128", "n": 2, "stream": True, "partial_images": 3}
LONG = {"batch": 8, "preset": "quality"}  # seconds, for a job that somebody leaves while it runs
OTHER = 15 * MIB  # what the service may take meanwhile for anything

# What is given back is not to be kept for AddressSanitizer to watch.
os.environ["ASAN_OPTIONS"] = ":".join([os.environ.get("ASAN_OPTIONS", ""), "quarantine_size_mb=0",
                                       "thread_local_quarantine_size_kb=0"])


def noise():
    """A picture that cannot be made smaller."""
    dice = random.Random(1)
    return png_file(SIDE, SIDE, 2, b"".join(b"\0" + dice.randbytes(3 * SIDE) for _ in range(SIDE)))


class Readers(unittest.TestCase):
    def wait(self, true, what):
        end = time.monotonic() + PATIENCE
        while not true():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def check_others(self, rig):
        self.assertEqual(rig.get("/health").status, 200)
        self.assertEqual(rig.ended(rig.job("another boat"))["state"], "completed")
        answer = rig.send("POST", "/v1/images/generations", {"prompt": "a boat", "size": "64x64"})
        self.assertEqual(answer.status, 200, answer.body[:300])


@contextlib.contextmanager
def slowly(clients):
    """So many bytes a second of each are read meanwhile, at least once."""
    over, once = threading.Event(), threading.Event()

    def work():
        while not over.wait(1 if once.is_set() else 0):
            for one in clients:
                one.read_if_there(RATE)
            once.set()

    reader = threading.Thread(target=work)
    reader.start()
    try:
        once.wait(PATIENCE)
        yield
    finally:
        over.set()
        reader.join()


class Slow(Readers):
    def test_pictures_that_are_read_slowly_take_no_memory_and_hold_nobody(self):
        with Serve() as rig, contextlib.ExitStack() as stack:
            own = rig.upload(noise())
            order = {"input_id": own, "upscale": {"factor": 1, "upscaler": "lanczos"}}
            job = rig.ended(rig.post("/upscale", order)["id"])
            item = job["results"][0]["gallery_item"]
            paths = [f"/api/v1/jobs/{job['id']}/results/0", f"/api/v1/gallery/{item}/content",
                     f"/api/v1/inputs/{own}/content"]
            pictures = [rig.send("GET", path).body for path in paths]
            self.assertGreater(min(map(len, pictures)), 4 * MIB)
            self.check_others(rig)
            before = resident_bytes(rig.process.pid)
            slow = [stack.enter_context(Client(rig, "GET", path)) for path in paths * 5]
            lengths = [one.read_head() for one in slow]
            with slowly(slow):
                self.check_others(rig)
            self.assertLess(resident_bytes(rig.process.pid) - before, OTHER)  # of more than 60 MiB that they wait for
            self.assertEqual(slow[0].read_body(lengths[0]), pictures[0])

    def test_pictures_in_answers_of_other_apis_are_held_once_and_their_requests_not_at_all(self):
        with Serve() as rig, contextlib.ExitStack() as stack:
            order = {"image": base64.b64encode(noise()).decode(), "upscaling_resize": 1, "upscaler_1": "Lanczos"}
            path = "/sdapi/v1/extra-single-image"
            whole = rig.send("POST", path, order).body
            self.check_others(rig)
            before, slow = resident_bytes(rig.process.pid), []
            for _ in range(6):  # of requests that are so large, two are read at a time
                with slowly(slow):
                    client = stack.enter_context(Client(rig, "POST", path, order))
                    self.assertEqual(client.read_head(), len(whole))
                slow.append(client)
            with slowly(slow):
                self.check_others(rig)
            # Held twice, they would take 40 MiB more, and as much again with their requests.
            self.assertLess(resident_bytes(rig.process.pid) - before, len(slow) * len(whole) + 2 * OTHER)
            answer = slow[0].read_body(len(whole))
            self.assertEqual(json.loads(answer)["image"], json.loads(whole)["image"])

    def test_events_that_are_read_slowly_are_all_there(self):
        with Serve() as rig, contextlib.ExitStack() as stack:
            self.check_others(rig)
            before = resident_bytes(rig.process.pid)
            slow = [stack.enter_context(Client(rig, "GET", "/api/v1/events")) for _ in range(8)]
            slow += [stack.enter_context(Client(rig, "POST", "/v1/images/generations", STREAMED)) for _ in range(2)]
            for one in slow:
                one.read_head()
            with slowly(slow):
                self.check_others(rig)
            self.assertLess(resident_bytes(rig.process.pid) - before, OTHER)
            for one in slow[:8]:
                for _ in range(4):  # those of the streams, and of the others
                    one.read_until(rb"event: job\.completed\n")
            for one in slow[8:]:
                for _ in range(STREAMED["n"]):
                    one.read_until(rb"event: image_generation\.completed\n")


class Sending(Readers):
    def test_who_hardly_sends_a_body_does_not_keep_others_from_sending_theirs(self):
        kinds = {"/sdapi/v1/img2img": "application/json", "/v1/images/edits": "multipart/form-data; boundary=x",
                 "/api/v1/inputs": "image/png"}
        with Serve(client_wait_ms=600, client_min_rate=1000) as rig:
            for path, kind in kinds.items():
                with contextlib.ExitStack() as stack:
                    slow = [stack.enter_context(socket.create_connection(("127.0.0.1", rig.port), PATIENCE))
                            for _ in range(2)]  # as many as may send large bodies at a time
                    for one in slow:
                        one.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{rig.port}\r\nAuthorization: Bearer "
                                    f"{TOKEN}\r\nContent-Type: {kind}\r\nContent-Length: {60 * MIB}\r\n\r\nx".encode())
                    for one in slow:
                        self.assertIn(b"HTTP/1.1 408 ", one.recv(65536), path)
            self.check_others(rig)


class Leaving(Readers):
    def check_left(self, rig, before):
        """Nothing of those who were there is left, and nobody has to recover."""
        self.wait(lambda: connections(rig) <= before, "connections are given back")
        admission = rig.status()["admission"]
        self.assertEqual((admission["active"], admission["queued"], admission["state"]), (False, 0, "open"))
        self.check_others(rig)
        agreement.check(self, rig)

    def test_who_leaves_a_stream_of_events_makes_room_for_the_next(self):
        with Serve() as rig:
            for _ in range(2):
                with contextlib.ExitStack() as stack:
                    watchers = [stack.enter_context(Client(rig, "GET", "/api/v1/events")) for _ in range(STREAMS)]
                    for one in watchers:
                        one.read_until(rb"retry: ")
                    self.assertEqual(rig.get("/events").status, 429)
                    rig.job("a boat", **LONG)
                    for one in watchers:
                        for kind in (rb"queued", rb"started"):  # what each is told of, however late it looks
                            one.read_until(rb"event: job\." + kind)
                self.wait(lambda: not connections(rig), "they have left")
            self.wait(lambda: not rig.get("/jobs?state=queued&state=running")["items"], "jobs go on without watchers")
            self.check_left(rig, 0)

    def test_who_leaves_the_stream_of_a_job_leaves_the_job(self):
        with Serve() as rig:
            job = rig.job("a boat", **LONG)
            with Client(rig, "GET", f"/api/v1/jobs/{job}/events") as watcher:
                watcher.read_until(rb"event: job\.")
            self.assertEqual(rig.ended(job)["state"], "completed")
            self.check_left(rig, 0)

    def test_who_leaves_a_stream_of_pictures_has_them_cancelled_and_the_next_is_drawn(self):
        with Serve() as rig:
            order = {**STREAMED, "n": 8, "quality": "high", "size": "256x256"}
            with contextlib.ExitStack() as held, Client(rig, "POST", "/v1/images/generations", order) as client:
                client.read_until(rb"event: image_generation\.partial_image\ndata: ")
                (left,) = rig.get("/jobs")["items"]
                held.enter_context(rig.held(left["id"]))  # until the client has left
                waits = rig.job("the next")
            self.assertEqual(rig.ended(left["id"])["state"], "cancelled")
            self.assertEqual(rig.ended(waits)["state"], "completed")
            self.check_left(rig, 0)

    def test_who_leaves_in_the_middle_of_a_picture_takes_nothing_with_them(self):
        with Serve() as rig:
            own = rig.upload(noise())
            for _ in range(20):
                with Client(rig, "GET", f"/api/v1/inputs/{own}/content") as client:
                    client.read_until(rb"IHDR")
            self.wait(lambda: not connections(rig), "they have left")
            self.assertEqual(rig.get(f"/inputs/{own}/content").body, noise())
            self.check_left(rig, 0)


tap.main()
