"""Workers of `kuno serve` that do not end by themselves: each case waits for the 90 seconds that they are given, or for
the 30 that a service has to stop."""

import contextlib
import json
import os
import signal
import time
import unittest
import urllib.error
from concurrent.futures import ThreadPoolExecutor

import tap
from studio import agreement
from studio.rig import PATIENCE
from studio.serve import LONG, Serve

GRACE_S, DRAIN_S = 90, 30


class Hung(unittest.TestCase):
    def test_a_worker_that_does_not_stop_is_killed_after_its_grace_and_recovery_is_required(self):
        with Serve() as rig:
            job = rig.job("a boat", **LONG)
            rig.running(job)
            (worker,) = rig.workers()
            os.kill(worker, signal.SIGSTOP)
            begun = time.monotonic()
            self.assertEqual(rig.post(f"/jobs/{job}/cancel").status, 202)
            waits = rig.job("waits")
            while time.monotonic() - begun < GRACE_S - 5:
                self.assertEqual(rig.get(f"/jobs/{job}?wait_ms=2000")["state"], "running")
                self.assertEqual(rig.workers(), [worker])
                self.assertFalse(rig.status()["admission"]["recovery_required"])
            ended = rig.ended(job)
            self.assertEqual(ended["state"], "cancelled")
            self.assertGreater(time.monotonic() - begun, GRACE_S - 1)
            self.assertEqual(rig.workers(), [])
            self.assertEqual(rig.status()["admission"]["state"], "recovery_required")
            self.assertEqual(rig.get(f"/jobs/{waits}?wait_ms=5000")["results"], [])  # nothing more is begun

            # What a person then does.
            marker = os.path.join(rig.folder, "upstream-in-flight")
            rig.end()
            self.assertTrue(os.path.exists(marker))
            os.unlink(marker)
            rig.begin()
            self.assertEqual(rig.ended(waits)["state"], "completed")
            self.assertFalse(rig.status()["admission"]["recovery_required"])
            agreement.check(self, rig)

    def cut(self, rig, ask, option=b"image-worker"):
        """What a client is answered whose picture is not done when the service has to be."""
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(ask)
            end = time.monotonic() + PATIENCE
            while not (drawing := rig.workers(option)) and time.monotonic() < end:
                time.sleep(0.01)
            (worker,) = drawing
            os.kill(worker, signal.SIGSTOP)
            try:
                rig.process.send_signal(signal.SIGTERM)
                return answer.result(DRAIN_S + PATIENCE)
            finally:
                self.assertEqual(rig.process.wait(PATIENCE), 0)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGCONT)

    def test_who_waits_for_a_picture_that_is_cut_is_told_that_the_service_stops(self):
        with Serve() as rig:
            order = {"prompt": "a boat", "n": 8}
            answer = self.cut(rig, lambda: rig.send("POST", "/v1/images/generations", order), b"--upscalers")
            self.assertEqual((answer.status, answer["error"]["code"]), (503, "stopping"))
            self.assertEqual(agreement.rows(rig, "SELECT count(*) FROM jobs WHERE state = 'completed'"), [(0,)])

    def test_so_is_who_waits_for_one_of_the_gateways(self):
        def ask():
            with self.assertRaises(urllib.error.HTTPError) as refusal:
                rig.route(width=1024, height=1024)
            return refusal.exception.code, json.load(refusal.exception)["code"]

        with Serve(image={}) as rig:
            self.assertEqual(self.cut(rig, ask), (503, "stopping"))


tap.main()
