"""`kuno serve` under many clients, while workers are killed, the service dies, and others hold its database.

STRESS_JOBS, _CLIENTS, _KILLS, _DEATHS and _LOCKS say how much of it; with STRESS_REST there is a second round of jobs,
and so many seconds after it the service must not hold more memory than so many seconds after the first.
"""

import contextlib
import os
import random
import signal
import sqlite3
import time
import unittest

import tap
from studio import agreement
from studio.crowd import Crowd, Ends
from studio.rig import PATIENCE
from studio.serve import Serve, wait_until_gone

JOBS = int(os.environ.get("STRESS_JOBS", "40"))
CLIENTS = int(os.environ.get("STRESS_CLIENTS", "10"))
KILLS = int(os.environ.get("STRESS_KILLS", "3"))
DEATHS = int(os.environ.get("STRESS_DEATHS", "3"))
LOCKS = [float(word) for word in os.environ.get("STRESS_LOCKS", "0.5 1 6").split()]
REST = int(os.environ.get("STRESS_REST", "0"))
QUIET = 20


def descriptors(rig):
    """None: this user may not see those of a process that nobody may look into."""
    with contextlib.suppress(PermissionError):
        return len(os.listdir(f"/proc/{rig.process.pid}/fd"))


def resident_kib(rig):
    with open(f"/proc/{rig.process.pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def resident_at_rest(rig):
    """The least of some seconds: what is free goes back to the system when all is quiet. The one more job makes it look
    for events that are too old to be kept."""
    time.sleep(REST)
    rig.ended(rig.job())
    figures, end = [], time.monotonic() + QUIET
    while time.monotonic() < end:
        figures.append(resident_kib(rig))
        time.sleep(0.5)
    return min(figures)


def kill_workers(rig, kills):
    """So many times while a job is drawn; a job that was is begun again, or fails. Returns when all were."""
    end = time.monotonic() + 10 * PATIENCE
    while kills and time.monotonic() < end:
        running = [one for one in rig.get("/jobs?state=running")["items"] if one["progress"]["phase"] == "sampling"]
        if not running:
            if not rig.get("/jobs?state=queued&state=running&limit=1")["items"]:
                rig.job("one more", batch=2)
            continue
        for worker in rig.workers(b"--upscalers"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        job = rig.get(f"/jobs/{running[0]['id']}?wait_ms=10000").json
        kills -= job["attempts"] > running[0]["attempts"] or (job["error"] or {}).get("code") == "engine_lost"
        time.sleep(random.random() / 2)
    if kills:
        raise AssertionError(f"{kills} more workers were to be killed")


class Stress(unittest.TestCase):
    def wait(self, true):
        """Or go on after a while."""
        end = time.monotonic() + PATIENCE
        while not true() and time.monotonic() < end:
            time.sleep(0.1)

    def round(self, rig, seed, before):
        """Jobs whose workers are killed; each ends once. Returns what the service has open, in the end no more than
        before."""
        known = {job["id"] for job in agreement.pages(rig, "/jobs")}
        ends = Ends(rig)
        with Crowd(rig, JOBS, CLIENTS, seed) as crowd:
            kill_workers(rig, KILLS)
        told, jobs = ends.all(), agreement.check(self, rig)
        self.assertEqual(len(set(crowd.own)), JOBS // CLIENTS * CLIENTS)
        self.assertEqual(told, {job["id"]: [job["state"]] for job in jobs if job["id"] not in known})
        self.assertLessEqual(set(crowd.own), set(told))
        self.assertLessEqual(len(rig.workers(b"--upscalers")), 1)
        self.wait(lambda: len(rig.workers()) <= 1)  # who looked at pictures goes soon
        self.assertLessEqual(len(rig.workers()), 1)
        if before is not None:
            self.wait(lambda: descriptors(rig) <= before + 1)  # clients that have left are noticed
            self.assertLessEqual(descriptors(rig), before + 1)
        return descriptors(rig)

    def test_every_job_ends_once_whatever_clients_and_workers_do(self):
        with Serve() as rig:
            rig.ended(rig.job())
            before = descriptors(rig)
            after = self.round(rig, 0, before)
            if REST:
                memory = resident_at_rest(rig)
                again = self.round(rig, 1, before)
                more = resident_at_rest(rig)
                print(f"# {memory} KiB after one round, {more} KiB after two; {before}, {after}, {again} descriptors")
                self.assertLessEqual(more, memory * 1.02)

    def test_the_service_may_die_at_any_moment(self):
        with Serve() as rig:
            rig.ended(rig.job())
            orphans = []
            with Crowd(rig, JOBS, CLIENTS) as crowd:
                for _ in range(DEATHS):
                    time.sleep(random.random() * 1.5)
                    orphans += rig.workers()
                    rig.end(signal.SIGKILL)
                    rig.begin()
            jobs = agreement.check(self, rig)
            self.assertLessEqual(set(crowd.own), {job["id"] for job in jobs})
            self.assertEqual(len(set(crowd.own)), JOBS // CLIENTS * CLIENTS)
            ordered = [job["request"]["prompt"] for job in jobs if "nobody" not in job["request"]["prompt"]]
            self.assertEqual(len(ordered), len(set(ordered)))  # a key is one job, also across a death
            self.assertEqual(wait_until_gone(set(orphans) - set(rig.workers()), PATIENCE), [])

    def test_others_may_hold_the_database(self):
        with Serve() as rig:
            rig.ended(rig.job())
            ends = Ends(rig)
            path = os.path.join(rig.folder, "studio", "studio.db")
            with Crowd(rig, JOBS, CLIENTS) as crowd:
                for seconds in LOCKS:
                    other = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)
                    other.execute("BEGIN EXCLUSIVE")
                    time.sleep(seconds)
                    self.assertEqual(rig.get("/health").status, 200)
                    other.execute("ROLLBACK")
                    other.close()
                    time.sleep(random.random() / 2)
            told, jobs = ends.all(), agreement.check(self, rig)
            self.assertLessEqual(set(crowd.refusals), {"storage_busy"})
            self.assertLessEqual(set(crowd.own), {job["id"] for job in jobs})
            self.assertEqual({id: told.get(id) for id in crowd.own},
                             {job["id"]: [job["state"]] for job in jobs if job["id"] in set(crowd.own)})
            self.assertEqual({(job["error"] or {}).get("code") for job in jobs}, {None})


tap.main()
