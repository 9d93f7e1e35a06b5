"""Faults under the worker's parsers of `kuno serve` cost the job that meets them."""

import unittest

import tap
from studio.serve import Probed


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


tap.main()
