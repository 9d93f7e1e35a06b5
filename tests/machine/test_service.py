"""Kuno as a service: how it begins, what it survives, what it leaves behind. Its last jobs go on when this ends."""

import os
import pathlib
import signal
import subprocess
import unittest

import installed
import tap
from cli.png import Picture

DYNAMIC_USERS = range(61184, 65520)


def crash_another():
    subprocess.run(["sh", "-c", "kill -SEGV $$"], check=False)


def collected():
    """Programs whose memory the system has kept."""
    told = subprocess.run(["coredumpctl", "list", "--no-legend", "--no-pager"], capture_output=True, text=True,
                          check=False).stdout
    return [line.split()[-2] for line in told.split("\n") if line]


class Installed(unittest.TestCase):
    """In this order."""

    @classmethod
    def setUpClass(cls):
        installed.install()
        cls.service = installed.Service()

    def test_1_start(self):
        """starts_without_rights_and_with_its_token_as_a_credential"""
        lines = pathlib.Path(f"/proc/{self.service.main()}/status").read_text().split("\n")
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        self.assertEqual((status["NoNewPrivs"], status["CapEff"], status["Seccomp"]), ("1", 16 * "0", "2"))
        self.assertIn(int(status["Uid"].split("\t")[0]), DYNAMIC_USERS)
        self.assertEqual(self.service.get("/jobs", token="no" + installed.TOKEN).status, 401)
        self.assertEqual(self.service.get("/jobs").status, 200)

    def test_2_picture(self):
        """draws_with_a_worker_that_is_locked_in_completely_as_is_required"""
        job = self.service.ended(self.service.job(installed.PROMPT, size=installed.SMALL))
        self.assertEqual((job["state"], job["error"]), ("completed", None))
        picture = Picture(self.service.get(f"/jobs/{job['id']}/results/0").body)
        self.assertEqual((picture.width, picture.height), (64, 64))
        self.assertEqual(self.service.status()["image"]["isolation_missing"], [])

    def test_3_killed(self):
        """is_started_again_when_it_is_killed_and_the_job_goes_on_and_ends_once"""
        job, _ = self.service.held()
        main = self.service.main()
        os.kill(main, signal.SIGKILL)
        self.service.wait_next(main)
        self.assertEqual(installed.check(self, self.service, [job]), [2])

    def test_4_crashed(self):
        """no_memory_of_worker_or_service_is_collected_when_they_crash"""
        crash_another()
        installed.wait_until(lambda: collected() == ["/usr/bin/dash"], "what the collector keeps")
        main, (job, worker) = self.service.main(), self.service.held()
        os.kill(worker, signal.SIGSEGV)
        os.kill(worker, signal.SIGCONT)
        installed.wait_until(lambda: self.service.get(f"/jobs/{job}").json["attempts"] == 2, "another attempt", gap=0)
        os.kill(main, signal.SIGSEGV)
        self.service.wait_next(main)
        self.assertEqual(installed.check(self, self.service, [job]), [3])
        crash_another()
        installed.wait_until(lambda: len(collected()) > 1, "what the collector keeps")
        self.assertEqual(collected(), 2 * ["/usr/bin/dash"])

    def test_5_privacy(self):
        """journal_and_files_tell_no_prompt_and_no_token"""
        installed.check_privacy(self)

    def test_6_next(self):
        """a_job_is_being_drawn_and_one_waits_when_the_machine_starts_again"""
        installed.leave(self.service)


tap.main()
