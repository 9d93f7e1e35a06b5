"""Kuno as a service on a machine whose power was cut while it had work."""

import unittest

import installed
import tap


class AfterPowerCut(unittest.TestCase):
    def test_1_jobs(self):
        """after_a_power_cut_each_job_ends_once_and_gallery_and_database_agree"""
        self.assertEqual(installed.check(self, installed.Service(), installed.left()), [2, 1])

    def test_2_privacy(self):
        """journals_and_files_of_all_starts_tell_no_prompt_and_no_token"""
        installed.check_privacy(self)


tap.main()
