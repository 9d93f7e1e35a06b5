"""Kuno as a service on a machine that was started again while it had work. It has work again when this ends."""

import unittest

import installed
import tap


class AfterReboot(unittest.TestCase):
    def test_1_jobs(self):
        """after_a_reboot_each_job_ends_once_and_gallery_and_database_agree"""
        self.assertEqual(installed.check(self, installed.Service(), installed.left()), [2, 1])

    def test_2_next(self):
        """a_job_is_being_drawn_and_one_waits_when_the_power_is_cut"""
        installed.leave(installed.Service())


tap.main()
