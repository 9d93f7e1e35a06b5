"""Pictures of the studio in the line of Ollama's requests: their place, how long they keep it, what they tell of it."""

import contextlib
import json
import signal
import sqlite3

import tap
from harness import TOKEN, Case, wait_until
from ports import free_ports

ORDER = {"prompt": "a red boat", "seed": "42", "size": {"mode": "custom", "width": 64, "height": 64}}
ENDED = ("completed", "failed", "cancelled")


class Turns(Case):
    def setUp(self):
        super().setUp()
        (self.studio,) = free_ports(1)
        self.upstream.residents = []
        self.open = []
        self.addCleanup(lambda: [one.close() for one in self.open])

    def start(self, **more):
        return self.serve(studio={"listen": f"127.0.0.1:{self.studio}"}, **more)

    def ask(self, server, method, path, body=None):
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        status, _, text = server.ask(method, "/api/v1" + path, body, None, headers, self.studio)
        self.assertLess(status, 300, text)
        return json.loads(text)

    def job(self, server, **more):
        return self.ask(server, "POST", "/jobs", {**ORDER, **more})["id"]

    def progress(self, server, job):
        told = self.ask(server, "GET", f"/jobs/{job}")
        self.assertNotIn(told["state"], ENDED, told)
        return told["progress"]

    def wait_waiting(self, server, job, code):
        seen = {}

        def waits():
            seen.update(told=self.ask(server, "GET", f"/jobs/{job}"))
            return seen["told"]["progress"].get("waiting", {}).get("code") == code
        wait_until(waits, f"{code} of {job}")
        self.assertEqual((seen["told"]["state"], seen["told"]["progress"]["phase"]), ("running", "waiting"))
        return seen["told"]["progress"]["waiting"]

    def wait_ended(self, server, job, state):
        wait_until(lambda: self.ask(server, "GET", f"/jobs/{job}?wait_ms=1000")["state"] in ENDED, f"the end of {job}")
        told = self.ask(server, "GET", f"/jobs/{job}")
        self.assertEqual(told["state"], state, told)
        self.assertNotIn("waiting", told["progress"])

    def request(self, server, name, queued, then=""):
        """One that stands in the line, and when it has its turn is at work until its gate is opened."""
        self.open.append(server.start_raw(f"gate={name} {then}", target=f"/api/generate?{name}"))
        wait_until(lambda: server.admission()["queued"] == queued, f"{name} in line")

    def begin(self, server, then=""):
        """The first one, which is at work at once."""
        self.request(server, "first", 0, then)
        self.wait_worked("first")

    def wait_worked(self, *names):
        def worked():
            return tuple(target.partition("?")[2] for target in self.upstream.worked())
        wait_until(lambda: len(worked()) >= len(names), names[-1])
        self.assertEqual(worked(), names)

    def let_go(self, name):
        self.upstream.gate(name).set()

    def test_place(self):
        """a_picture_has_its_place_beside_the_line_and_its_turn_in_the_order_of_coming"""
        server = self.start(queue_limit=2)
        self.begin(server)
        self.request(server, "before", 1)
        job = self.job(server)
        self.wait_waiting(server, job, "waits_for_turn")
        self.request(server, "after", 3)
        self.assertEqual(server.generate()[0], 503)  # the line is full
        self.let_go("first")
        self.wait_worked("first", "before")
        self.wait_waiting(server, job, "waits_for_turn")
        self.let_go("before")
        self.wait_ended(server, job, "completed")  # which it could not, had the other one its turn
        self.wait_worked("first", "before", "after")

    def test_full(self):
        """one_that_comes_to_a_line_that_is_full_of_others_has_its_turn_behind_them"""
        server = self.start(queue_limit=1)
        self.begin(server)
        self.request(server, "before", 1)
        self.assertEqual(server.generate()[0], 503)
        job = self.job(server)
        self.wait_waiting(server, job, "waits_for_turn")
        self.assertEqual(server.admission()["queued"], 2)
        self.assertEqual(server.generate()[0], 503)
        self.let_go("first")
        self.wait_worked("first", "before")
        self.request(server, "after", 2)
        self.assertEqual(server.generate()[0], 503)
        self.let_go("before")
        self.wait_ended(server, job, "completed")
        self.wait_worked("first", "before", "after")

    def test_batch(self):
        """the_next_picture_comes_behind_the_requests_that_wait_by_then"""
        server = self.start(queue_limit=1)
        self.begin(server)
        job = self.job(server, batch=2)
        self.wait_waiting(server, job, "waits_for_turn")
        self.request(server, "between", 2)
        self.let_go("first")
        self.wait_worked("first", "between")
        wait_until(lambda: self.progress(server, job)["image_index"] == 1, "the second picture")
        self.wait_waiting(server, job, "waits_for_turn")
        self.let_go("between")
        self.wait_ended(server, job, "completed")

    def test_time(self):
        """a_picture_waits_longer_than_a_request_may"""
        server = self.start(queue_timeout_ms=100)
        self.begin(server)
        job = self.job(server)
        self.wait_waiting(server, job, "waits_for_turn")
        status, _, body = server.generate()  # which comes later, and waits too long
        self.assertEqual((status, b"too long" in body), (503, True), body)
        self.assertEqual(self.progress(server, job)["waiting"]["code"], "waits_for_turn")
        self.assertEqual(server.admission()["queued"], 1)
        self.let_go("first")
        self.wait_ended(server, job, "completed")

    def test_pause(self):
        """a_pause_is_waited_through_in_the_place_that_it_has_and_told_of"""
        server = self.start()
        self.begin(server)
        job = self.job(server)
        self.wait_waiting(server, job, "waits_for_turn")
        self.request(server, "after", 2)
        self.assertEqual(server.own("POST", "admission/pause")[0], 200)
        self.assertIn("admission/resume", self.wait_waiting(server, job, "admission_paused")["message"])
        self.let_go("first")
        server.wait_idle()
        self.assertEqual(server.admission()["queued"], 2)
        self.assertEqual(self.progress(server, job)["waiting"]["code"], "admission_paused")
        server.own("POST", "admission/resume")
        self.wait_ended(server, job, "completed")
        self.wait_worked("first", "after")

    def test_paused(self):
        """one_that_comes_while_it_is_paused_waits_and_can_be_cancelled"""
        server = self.start()
        server.own("POST", "admission/pause")
        first, second = self.job(server), self.job(server)
        self.wait_waiting(server, first, "admission_paused")
        self.ask(server, "POST", f"/jobs/{first}/cancel")
        self.wait_ended(server, first, "cancelled")
        self.wait_waiting(server, second, "admission_paused")
        server.own("POST", "admission/resume")
        self.wait_ended(server, second, "completed")

    def rows(self, server):
        """What stands on the disk, whether or not a server answers."""
        with contextlib.closing(sqlite3.connect(f"file:{server.state}/studio/studio.db?mode=ro", uri=True)) as database:
            return database.execute("SELECT id, state, attempts FROM jobs ORDER BY seq").fetchall()

    def test_deaths(self):
        """a_job_that_only_waits_has_lost_no_start_by_any_death_of_the_server"""
        server = self.start()
        self.begin(server, "drop")
        job = self.job(server)
        self.wait_waiting(server, job, "waits_for_turn")
        self.let_go("first")
        for death in range(5):  # one more than the starts that a job has
            self.wait_waiting(server, job, "recovery_required")
            wait_until(lambda: self.rows(server) == [(job, "running", 0)], "what is known on the disk")
            server.kill()
            if death == 4:
                (server.state / "upstream-in-flight").unlink()
            server = self.start()  # the same boot: still not certain, but for the last time
        self.wait_ended(server, job, "completed")
        self.assertEqual(self.rows(server), [(job, "completed", 1)])

    def test_stop(self):
        """a_job_that_only_waits_is_given_back_at_once_when_the_server_stops"""
        server = self.start()
        self.begin(server)
        job = self.job(server)
        self.wait_waiting(server, job, "waits_for_turn")
        server.process.send_signal(signal.SIGTERM)  # which waits for the request that is at work
        wait_until(lambda: self.rows(server) == [(job, "queued", 0)], "the job in the queue")
        self.assertIsNone(server.process.poll())
        self.let_go("first")
        self.assertEqual(server.process.wait(60), 0)
        self.upstream.residents = []
        self.wait_ended(self.start(), job, "completed")

    def test_waiting_clients(self):
        """clients_that_would_wait_for_their_answer_are_told_at_once_that_it_is_paused"""
        server = self.start()
        server.own("POST", "admission/pause")
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        body = json.dumps({"prompt": "a red boat"})
        for path in "/v1/images/generations", "/sdapi/v1/txt2img":
            status, told, text = server.ask("POST", path, body, None, headers, self.studio)
            self.assertEqual(status, 503, text)
            self.assertIn(b"admission/resume", text)
            self.assertNotIn("Retry-After", dict(told))
            self.assertEqual(dict(told).get("X-Should-Retry"), "false" if path.startswith("/v1/") else None)
        self.assertEqual(self.ask(server, "GET", "/jobs")["items"], [])
        status, _, text = server.ask("POST", "/sdcpp/v1/img_gen", body, None, headers, self.studio)
        self.assertEqual(status, 202, text)  # who comes back for it
        self.wait_waiting(server, json.loads(text)["id"], "admission_paused")
        status, _, text = server.ask("GET", f"/sdcpp/v1/jobs/{json.loads(text)['id']}", None, None, headers,
                                     self.studio)
        self.assertEqual((status, json.loads(text)["status"]), (200, "generating"))
        server.own("POST", "admission/resume")
        (job,) = self.ask(server, "GET", "/jobs")["items"]
        self.wait_ended(server, job["id"], "completed")

    def test_recovery(self):
        """while_recovery_is_required_it_says_what_to_do_and_goes_on_with_the_next_start"""
        server = self.start()
        self.begin(server, "drop")
        job = self.job(server)
        self.wait_waiting(server, job, "waits_for_turn")
        self.let_go("first")
        self.assertIn("start both again", self.wait_waiting(server, job, "recovery_required")["message"])
        self.assertEqual(server.own("POST", "admission/resume")[0], 409)
        self.assertEqual(self.progress(server, job)["waiting"]["code"], "recovery_required")
        self.assertEqual(server.stop(), 0)
        server = self.start()  # the same boot: still not certain
        self.wait_waiting(server, job, "recovery_required")
        self.assertEqual(server.stop(), 0)
        (server.state / "upstream-in-flight").unlink()
        self.wait_ended(self.start(), job, "completed")


tap.main()
