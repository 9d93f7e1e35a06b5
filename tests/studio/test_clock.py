"""`kuno serve` while its clock on the wall is set back by a day, and forward again: jobs go on as if nothing had
happened, and no limit of time is longer or shorter than was said."""

import os
import time
import unittest

import tap
from studio import agreement
from studio.rig import TOKEN, png
from studio.serve import LONG, Serve
from wall_clock import DAY_S, WallClock


class Clocked(Serve):
    def begin(self):
        self.clock = WallClock(self.folder)
        self.environment = self.clock.environment
        super().begin()


class Clock(unittest.TestCase):
    def check_dates(self, job):
        """None before the one that comes first."""
        dates = [job[name] for name in ("created_at", "started_at", "finished_at") if job[name]]
        self.assertEqual(dates, sorted(dates))
        return dates[-1]

    def test_what_waits_is_drawn_in_its_order_and_listed_so(self):
        with Clocked() as rig, rig.events() as events:
            runs = rig.job("a boat", **LONG)
            rig.running(runs)
            orders = [(f"boat {number}", f"key-{number}") for number in range(4)]
            jobs = []
            for number, (prompt, key) in enumerate(orders):
                rig.clock.set((0, -DAY_S, DAY_S, -2 * DAY_S)[number])
                jobs.append(rig.post("/jobs", {"prompt": prompt}, Idempotency_Key=key)["id"])
            self.assertEqual(jobs, [rig.post("/jobs", {"prompt": prompt}, Idempotency_Key=key)["id"]
                                    for prompt, key in orders])
            last = rig.job("to be cancelled")
            self.assertEqual(rig.post(f"/jobs/{last}/cancel")["state"], "cancelled")
            jobs = [runs, *jobs, last]
            ended = [rig.ended(job) for job in jobs]
            self.assertEqual([job["state"] for job in ended], ["completed"] * 5 + ["cancelled"])
            self.assertEqual([job["attempts"] for job in ended], [1] * 5 + [0])
            made = [job["created_at"] for job in ended]
            self.assertTrue(made[4] < made[2] < made[1] < made[3], made)  # the clock was as it was set
            for job in ended:
                self.check_dates(job)
            self.assertEqual([job["id"] for job in rig.get("/jobs")["items"]], jobs[::-1])
            self.assertEqual(sorted(jobs), jobs)  # identifiers sort by their time
            drawn = [result["gallery_item"] for job in ended for result in job["results"]]
            self.assertEqual([item["id"] for item in rig.get("/gallery")["items"]], drawn[::-1])
            told = []
            while len(told) < len(jobs) - 1:
                event = next(events)
                if event.kind in ("job.completed", "job.failed"):
                    told.append(event.data["id"])
            self.assertEqual(told, jobs[:-1])
            agreement.check(self, rig)

    def test_dates_are_right_also_of_a_clock_that_stands_before_1970(self):
        with Clocked() as rig:
            picture = png(20, 30)
            rig.clock.set(-int(time.time()) - 1400 * DAY_S)
            source = rig.upload(picture)
            job = rig.ended(rig.job("a boat"))
            item = job["results"][0]["gallery_item"]

            def years(*paths):
                return {rig.get(path)["created_at"][:5] for path in paths}

            self.assertEqual(years(f"/jobs/{job['id']}", f"/gallery/{item}", f"/inputs/{source}"), {"1966-"})
            rig.end()
            for name in os.listdir(os.path.join(rig.folder, "studio")):
                if name.startswith("studio.db"):
                    os.unlink(os.path.join(rig.folder, "studio", name))
            rig.begin()  # from what is in files
            self.assertEqual(years(f"/gallery/{item}", f"/inputs/{source}"), {"1966-"})

    def test_who_asks_for_a_job_waits_as_long_as_was_said(self):
        with Clocked() as rig:
            self.assertEqual(rig.post("/engine/stop").status, 202)
            job = rig.job("waits")
            for jump in (-DAY_S, DAY_S):
                begun = time.monotonic()
                rig.clock.set(jump)
                self.assertEqual(rig.get(f"/jobs/{job}?wait_ms=1000")["state"], "queued")
                self.assertGreater(time.monotonic() - begun, 0.95)
            self.assertEqual(rig.post("/engine/start").status, 202)
            self.assertEqual(rig.ended(job)["state"], "completed")

    def test_sessions_and_links_last_as_long_as_was_said(self):
        with Clocked() as rig:
            codes = [rig.post("/session/link")["code"] for _ in range(2)]
            answer = rig.post("/session", {"token": TOKEN}, token=None)
            cookie = answer.headers["Set-Cookie"].split(";")[0]
            for jump, code in zip((-DAY_S, DAY_S), codes):
                rig.clock.set(jump)
                self.assertEqual(rig.get("/status", token=None, Cookie=cookie).status, 200)
                self.assertEqual(rig.post("/session", {"token": code}, token=None).status, 200)

    def test_what_is_kept_for_days_stays(self):
        with Clocked() as rig:
            rig.clock.set(-DAY_S)
            item = rig.ended(rig.job("a boat"))["results"][0]["gallery_item"]
            rig.clock.set(-2 * DAY_S)
            self.assertEqual(rig.ask("DELETE", f"/gallery/{item}").status, 204)
            kept = rig.ended(rig.job("another boat"))["results"][0]["gallery_item"]
            rig.end()
            rig.begin()  # with the right time
            self.assertEqual(agreement.names(rig, agreement.TRASH)[0][:len(item)], item)
            self.assertEqual([one["id"] for one in rig.get("/gallery")["items"]], [kept])
            self.assertEqual(rig.ended(rig.job("the next"))["state"], "completed")
            agreement.check(self, rig)


tap.main()
