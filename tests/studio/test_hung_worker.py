"""A worker of `kuno serve` that does not end by itself: waits for the 90 seconds that it is given."""

import os
import signal
import time
import unittest

import tap
from studio import agreement
from studio.serve import LONG, Serve

GRACE_S = 90


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


tap.main()
