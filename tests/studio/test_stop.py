"""What clients hear that wait for a picture while `kuno serve` is told to stop: the picture, or that it stops."""

import contextlib
import json
import signal
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import tap
from studio import agreement
from studio.rig import PATIENCE
from studio.serve import Serve

OPENAI, A1111 = "/v1/images/generations", "/sdapi/v1/txt2img"


def code_of(answer):
    error = answer["error"]
    return answer.status, error["code"] if isinstance(error, dict) else error


class Stop(unittest.TestCase):
    @contextlib.contextmanager
    def order(self, rig):
        """Begins a request and leaves the wait for its answer to the test."""
        with ThreadPoolExecutor(8) as pool:
            yield lambda path, **more: pool.submit(rig.send, "POST", path, {"prompt": "a boat", **more})

    def wait_jobs(self, rig, count):
        end = time.monotonic() + PATIENCE
        while len(jobs := rig.get("/jobs")["items"]) < count:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return jobs

    def stop(self, rig):
        rig.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + PATIENCE
        while rig.status()["admission"]["state"] != "draining":
            self.assertLess(time.monotonic(), end)

    def states(self, rig):
        return sorted(row[0] for row in agreement.rows(rig, "SELECT state FROM jobs"))

    def test_the_picture_that_is_drawn_comes_and_who_waits_for_a_turn_is_told(self):
        for path, name in ((OPENAI, "data"), (A1111, "images")):
            with self.subTest(path), Serve() as rig, self.order(rig) as order:
                drawn = order(path, steps=50)
                (job,) = self.wait_jobs(rig, 1)
                with rig.held(job["id"]):
                    waits = [order(OPENAI), order(A1111), order(OPENAI, stream=True)]
                    rig.job("stays")
                    self.wait_jobs(rig, 5)
                    self.stop(rig)
                    for one in waits[:2]:
                        self.assertEqual(code_of(one.result(PATIENCE)), (503, "stopping"))
                        self.assertIn("Retry-After", one.result().headers)
                    stream = waits[2].result(PATIENCE).body
                    self.assertIn(b"event: error\ndata: ", stream)
                    self.assertEqual(json.loads(stream.split(b"data: ")[1])["error"]["code"], "stopping")
                    self.assertEqual(code_of(rig.send("POST", path, {"prompt": "too late"})), (503, "stopping"))
                answer = drawn.result(PATIENCE)
                self.assertEqual((answer.status, len(answer[name])), (200, 1))
                self.assertEqual(rig.process.wait(PATIENCE), 0)
                self.assertEqual(self.states(rig), ["cancelled"] * 3 + ["completed", "queued"])

    def test_who_asks_for_a_job_until_it_ends_hears_of_its_end(self):
        with Serve() as rig, ThreadPoolExecutor(1) as pool:
            job = rig.job("a boat")
            with rig.held(job):
                ended = pool.submit(rig.get, f"/jobs/{job}?wait_ms=60000")
                self.stop(rig)
            self.assertEqual(ended.result(PATIENCE)["state"], "completed")
            self.assertEqual(rig.process.wait(PATIENCE), 0)

    def test_a_long_poll_of_a_job_that_waits_does_not_hold_the_end_up(self):
        with Serve() as rig, ThreadPoolExecutor(1) as pool:
            job, waits = rig.job("a boat"), rig.job("waits")
            with rig.held(job):
                polled = pool.submit(rig.get, f"/jobs/{waits}?wait_ms=60000")
                self.stop(rig)
            self.assertEqual(polled.result(PATIENCE)["state"], "queued")
            self.assertEqual(rig.process.wait(PATIENCE), 0)


tap.main()
