"""A machine whose kernel cannot lock files away: Landlock has version 2 there."""

import subprocess
import unittest

import installed
import tap
from worker import FAILED, PROGRAM, READY, Session, WorkerCase

MISSING = "the image worker cannot be locked in: Landlock has version 2 here, 3 is needed; use Linux 6.2 or later"


class Worker(WorkerCase):
    def test_required(self):
        """refuses_to_draw_and_says_what_is_missing"""
        result = self.worker(b'{"prompt": "a boat"}', isolation="required")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (1, b"", b"image_isolation_missing\n"))
        with Session(self.home, "--isolation", "required") as session:
            self.assertEqual(session.hear(), (FAILED, f"image_isolation_missing\n{MISSING}".encode()))

    def test_best_effort(self):
        """draws_with_best_effort_and_says_what_is_missing"""
        with self.session() as session:
            self.assertEqual(session.hear(), (READY, b"files"))
        result = self.worker(b'{"prompt": "a boat", "width": 64, "height": 64}')
        self.assertEqual((result.returncode, result.stdout[:4], result.stderr), (0, b"\x89PNG", b""))


class Service(unittest.TestCase):
    def job(self, isolation):
        installed.install(isolation)
        service = installed.Service()
        return service, service.ended(service.job(size=installed.SMALL))

    def test_required(self):
        """the_service_fails_a_job_in_words_that_say_what_to_do"""
        service, job = self.job("required")
        self.assertEqual(job["state"], "failed")
        self.assertEqual((job["error"]["code"], job["error"]["message"]), ("engine_failed", MISSING))
        self.assertEqual(service.refused_by_route(), (503, "image_isolation_missing", MISSING))

    def test_best_effort(self):
        """the_service_draws_with_best_effort_and_its_status_says_what_is_missing"""
        service, job = self.job("best-effort")
        self.assertEqual((job["state"], job["error"]), ("completed", None))
        self.assertEqual(service.status()["image"]["isolation_missing"], ["files"])
        (check,) = [one for one in service.get("/diagnostics")["checks"] if one["id"] == "isolation"]
        self.assertEqual(check["status"], "warning")


tap.main()
