"""Faults under the worker's parsers of `kuno serve` cost the job that meets them."""

import os
import signal
import threading
import time
import unittest

import tap
from studio.rig import PATIENCE, png
from studio.serve import Probed, wait_until_gone


def hangs(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read() == "hangs\n"
    except OSError:
        return False


class Faults(unittest.TestCase):
    def test_a_checkpoint_that_crashes_its_parser_costs_one_job(self):
        with Probed() as rig:
            before, bad, after = rig.job(), rig.job(profile="crash"), rig.job()
            ended = rig.ended(bad)
            self.assertEqual((ended["state"], ended["error"]["code"], ended["attempts"]), ("failed", "engine_lost", 2))
            self.assertIn("signal 11", ended["error"]["message"])
            for job in (before, after):
                self.assertEqual(rig.ended(job)["attempts"], 1)
                self.assertEqual(rig.ended(job)["state"], "completed")
            self.assertFalse(rig.status()["admission"]["recovery_required"])

    def test_a_picture_is_looked_at_again_if_that_was_not_what_its_worker_died_of(self):
        with Probed() as rig:
            def upload(shade):
                return rig.post("/inputs", png(20, 20, shade), type="image/png")

            answers = []
            self.assertEqual(upload(1).status, 201)
            (eye,) = rig.workers()
            os.kill(eye, signal.SIGSTOP)
            other = threading.Thread(target=lambda: answers.append(upload(2)))
            other.start()
            time.sleep(0.5)  # it has been sent
            os.kill(eye, signal.SIGKILL)
            other.join()
            self.assertEqual((answers[0].status, answers[0]["width"]), (201, 20))
            deadly = rig.post("/inputs", b"probe crash x", type="image/png")
            self.assertEqual((deadly.status, deadly["code"]), (422, "input_invalid"))
            self.assertIn("signal 11", deadly["detail"])
            self.assertEqual(upload(3).status, 201)

    def test_a_worker_that_hangs_does_not_outlive_its_server(self):
        with Probed() as rig:
            job = rig.job(profile="hang")
            end = time.monotonic() + PATIENCE
            while not any(map(hangs, rig.workers())):
                self.assertLess(time.monotonic(), end, "nothing hangs")
                time.sleep(0.02)
            (worker,) = rig.workers()
            self.assertEqual(rig.post(f"/jobs/{job}/cancel").status, 202)
            rig.end(signal.SIGKILL)
            self.assertEqual(wait_until_gone([worker], PATIENCE), [])
            rig.begin()
            self.assertEqual(rig.ended(job)["state"], "cancelled")


tap.main()
