"""What the studio survives: many clients, being killed, storage that is not there, slow readers."""

import contextlib
import http.client
import os
import random
import re
import signal
import socket
import sqlite3
import threading
import time
import unittest

import tap
from studio import agreement
from studio.crowd import Ends
from studio.rig import ENDED, PATIENCE, SANITIZED, TOKEN, Rig, png
from studio.slow import Client, resident_bytes

JOBS = int(os.environ.get("STUDIO_JOBS", "150"))
CLIENTS = int(os.environ.get("STUDIO_CLIENTS", "15"))
DEATHS = int(os.environ.get("STUDIO_DEATHS", "3"))


def descriptors(rig):
    return len(os.listdir(f"/proc/{rig.process.pid}/fd"))


class Life(unittest.TestCase):
    def test_a_database_that_another_program_holds_is_named(self):
        with Rig() as rig:
            rig.end()
            path = os.path.join(rig.folder, "studio", "studio.db")
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN EXCLUSIVE")
                with self.assertRaisesRegex(AssertionError, f"'{path}' cannot be used: .* no other program holds it"):
                    rig.begin()
            rig.begin()

    def test_many_clients_and_every_job_ends_once(self):
        with Rig() as rig:
            rig.ended(rig.job())
            before = descriptors(rig)
            own, failures = [], []
            ends = Ends(rig)

            def leave_in_the_middle():
                with socket.create_connection(("127.0.0.1", rig.port)) as client:
                    client.sendall(f"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{rig.port}\r\nAuthorization: "
                                   f"Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{{"
                                   .encode())

            def client(seed):
                dice = random.Random(seed)
                try:
                    for _ in range(JOBS // CLIENTS):
                        fails = dice.choice(("", "", "", "engine_lost", "engine_failed", "out_of_memory"))
                        words = f"steps={dice.randrange(4)} fails={fails}"
                        job = rig.job(words, batch=dice.choice((1, 1, 2)))
                        own.append(job)
                        if dice.random() < 0.3:
                            rig.post(f"/jobs/{dice.choice(own)}/cancel")
                        if dice.random() < 0.1:
                            leave_in_the_middle()
                except Exception as failure:
                    failures.append(failure)

            clients = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
            for one in clients:
                one.start()
            for one in clients:
                one.join()
            self.assertEqual(failures, [])
            own.append(rig.job("ms=20 steps=5000"))  # those that clients have cancelled may all have ended before
            rig.post(f"/jobs/{own[-1]}/cancel")
            states = {job: rig.ended(job)["state"] for job in own}
            told = ends.all()
            self.assertEqual(len(states), JOBS // CLIENTS * CLIENTS + 1)
            self.assertEqual({job: told.get(job) for job in own}, {job: [states[job]] for job in own})
            self.assertEqual(set(states.values()), set(ENDED))
            agreement.check(self, rig)
            end = time.monotonic() + PATIENCE
            while descriptors(rig) > before + 1:
                self.assertLess(time.monotonic(), end, "what clients have left open")
                time.sleep(0.02)

    @unittest.skipIf(SANITIZED, "a sanitizer keeps freed memory back")
    def test_memory_goes_back_when_a_crowd_has_gone(self):
        with Rig() as rig:
            for n in range(200):
                last = rig.job(f"{n} " + 3000 * "x", output={"save_to_gallery": False})
            rig.ended(last)
            before, most = resident_bytes(rig.process.pid), []

            def look():
                for _ in range(4):
                    self.assertEqual(len(rig.get("/jobs?limit=200")["items"]), 200)
                    most.append(resident_bytes(rig.process.pid))

            crowd = [threading.Thread(target=look) for _ in range(12)]
            for one in crowd:
                one.start()
            for one in crowd:
                one.join()
            self.assertEqual(len(most), 4 * len(crowd))
            end = time.monotonic() + PATIENCE
            while resident_bytes(rig.process.pid) > before + (max(most) - before) // 4:
                self.assertLess(time.monotonic(), end, f"{before} bytes, then {max(most)}")
                time.sleep(0.1)

    def test_jobs_survive_the_death_of_the_service(self):
        with Rig() as rig:
            own = [rig.job("ms=5 steps=3", batch=2) for _ in range(10)]
            for death in range(DEATHS):
                time.sleep(0.05 + 0.05 * death)
                rig.end(signal.SIGKILL)
                rig.begin()
            for job in own:
                ended = rig.ended(job)
                self.assertEqual(ended["state"], "completed", ended["error"])
                self.assertEqual([one["index"] for one in ended["results"]], [0, 1])
            agreement.check(self, rig)

    def test_what_a_death_has_left_half_made_is_removed(self):
        with Rig() as rig:
            kept = rig.ended(rig.job(output={"save_to_gallery": False}))["id"]
            rig.end(signal.SIGKILL)
            unknown = "0" * 26
            for name in ("gallery/.kuno-0123456789abcdef.part", ".kuno-0123456789abcdef.part",
                         f"results/job_{unknown}-0.png", f"thumbnails/img_{unknown}-256.png", "gallery/other.txt"):
                with open(os.path.join(rig.folder, "studio", name), "wb") as file:
                    file.write(b"half")
            rig.begin()
            self.assertEqual(agreement.names(rig, "gallery"), ["other.txt"])  # which is not ours
            self.assertEqual(agreement.names(rig, "results"), [kept + "-0.png"])
            self.assertEqual(agreement.names(rig, "thumbnails"), [])
            self.assertNotIn(".kuno-0123456789abcdef.part", agreement.names(rig, "."))
            self.assertEqual(rig.get(f"/jobs/{kept}/results/0").status, 200)

    def test_a_picture_stays_whose_record_cannot_be_read(self):
        with Rig() as rig:
            good, bad = (rig.ended(rig.job(prompt))["results"][0]["gallery_item"] for prompt in ("good", "bad"))
            picture = rig.get(f"/gallery/{bad}/content").body
            was = rig.get(f"/gallery/{bad}").json
            rig.end()
            for name in ("studio.db", "studio.db-wal", "studio.db-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(rig.folder, "studio", name))
            sidecar = os.path.join(rig.folder, "studio", "gallery", bad + ".json")
            with open(sidecar, "w") as file:
                file.write('{"id": ')
            rig.begin()
            self.assertEqual(sorted(one["id"] for one in rig.get("/gallery")["items"]), sorted((good, bad)))
            item = rig.get(f"/gallery/{bad}").json
            same = ("width", "height", "media_type", "bytes", "sha256", "missing")
            self.assertEqual({name: item[name] for name in same}, {name: was[name] for name in same})
            self.assertEqual((item["recipe_unreadable"], item["recipe"], item["prompt"]), (True, None, None))
            self.assertNotIn("recipe_unreadable", rig.get(f"/gallery/{good}").json)
            self.assertEqual(rig.get(f"/gallery/{bad}/content").body, picture)
            self.assertEqual(rig.get(f"/gallery/{bad}/thumbnail").status, 200)
            answer = rig.ask("PATCH", f"/gallery/{bad}", {"favorite": True})
            self.assertEqual((answer.status, answer["code"]), (409, "conflict"))
            self.assertIn(bad + ".json", answer["detail"])
            with open(sidecar) as file:
                self.assertEqual(file.read(), '{"id": ')
            self.assertEqual(rig.ask("DELETE", f"/gallery/{bad}").status, 204)
            self.assertIn(bad + ".json", agreement.names(rig, agreement.TRASH))

    def has_ended(self, rig, job):
        """No, while nobody says so."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            return rig.get(f"/jobs/{job}")["state"] in ENDED
        return False

    def test_a_gallery_that_was_away_at_a_start_is_its_jobs_again(self):
        with Rig() as rig:
            before = rig.ended(rig.job(batch=2))
            other = rig.ended(rig.job())["results"][0]["gallery_item"]
            self.assertEqual(rig.ask("DELETE", f"/gallery/{other}").status, 204)
            rig.end()
            gallery, away = (os.path.join(rig.folder, "studio", name) for name in ("gallery", "away"))
            os.rename(gallery, away)
            rig.begin()
            job = rig.get(f"/jobs/{before['id']}").json
            self.assertEqual([result["gallery_item"] for result in job["results"]], [None, None])
            rig.end()
            os.rmdir(gallery)
            os.rename(away, gallery)
            rig.begin()
            self.assertEqual(rig.get(f"/jobs/{before['id']}").json["results"], before["results"])
            for result in before["results"]:
                answer = rig.send("GET", result["content_url"])
                self.assertEqual((answer.status, len(answer.body)), (200, result["bytes"]))
            self.assertEqual([item["id"] for item in rig.get("/gallery").json["items"]],
                             [result["gallery_item"] for result in reversed(before["results"])])

    def test_a_job_that_kills_the_service_is_given_up(self):
        with Rig() as rig:
            job, deaths, end = rig.job("kill"), 0, time.monotonic() + PATIENCE
            while not self.has_ended(rig, job):
                self.assertLess(time.monotonic(), end)
                if rig.process.poll() is not None:
                    deaths += 1
                    rig.begin_after_death()
                time.sleep(0.01)
            self.assertLess(deaths, 8)
            ended = rig.ended(job)
            self.assertEqual((ended["state"], ended["error"]["code"]), ("failed", "engine_lost"))
            self.assertEqual(rig.ended(rig.job("the next"))["state"], "completed")

    def test_the_running_job_ends_before_the_service(self):
        rig = Rig()
        try:
            job, waits = rig.job("ms=100 steps=5"), rig.job("waits")
            end = time.monotonic() + PATIENCE
            while rig.get(f"/jobs/{job}")["state"] == "queued" and time.monotonic() < end:
                time.sleep(0.01)
            self.assertEqual(rig.post("/service/stop").status, 202)
            self.assertEqual(rig.process.wait(PATIENCE), 0)
            rig.begin()
            self.assertEqual(rig.get(f"/jobs/{job}")["state"], "completed")
            self.assertEqual(rig.ended(waits)["state"], "completed")
        finally:
            rig.close()

    def test_a_database_in_other_hands_is_told_and_waited_for(self):
        with Rig() as rig:
            job = rig.job("ms=50 steps=10")
            other = sqlite3.connect(os.path.join(rig.folder, "studio", "studio.db"), isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            answer = rig.post("/jobs", {"prompt": "a"})
            self.assertEqual((answer.status, answer["code"]), (503, "storage_busy"))
            self.assertEqual(answer.headers["Retry-After"], "2")
            self.assertEqual(rig.get("/health").status, 200)
            self.assertEqual(rig.get(f"/jobs/{job}").status, 200)  # reading goes on
            time.sleep(1)
            other.execute("ROLLBACK")
            other.close()
            ended = rig.ended(job)
            self.assertEqual((ended["state"], ended["attempts"]), ("completed", 1))

    def test_a_damaged_database_costs_no_picture(self):
        with Rig() as rig:
            item = rig.ended(rig.job("kept"))["results"][0]["gallery_item"]
            rig.end()
            path = os.path.join(rig.folder, "studio", "studio.db")
            with open(path, "r+b") as file:
                file.write(b"this is no database" * 500)
            rig.begin()
            self.assertEqual(rig.get(f"/gallery/{item}")["prompt"], "kept")
            self.assertEqual(rig.get(f"/gallery/{item}/content").status, 200)
            checks = {one["id"]: one["status"] for one in rig.get("/diagnostics")["checks"]}
            self.assertEqual(checks["database"], "warning")
            self.assertEqual(rig.ended(rig.job())["state"], "completed")

    def test_the_queue_has_an_end_that_is_told(self):
        with Rig() as rig:
            self.assertEqual(rig.post("/engine/stop").status, 202)
            first = rig.job("the first")
            limit = rig.get("/capabilities")["limits"]["queue_limit"]
            path = os.path.join(rig.folder, "studio", "studio.db")
            with contextlib.closing(sqlite3.connect(path)) as other, other:
                columns = "kind, state, created_ms, request, plan, units, seeds, notes, wish"
                other.execute(f"WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {limit})"
                              f" INSERT INTO jobs (id, {columns})"
                              f" SELECT substr(id, 1, 24) || printf('%06d', i), {columns} FROM n, jobs")
            for answer in (rig.post("/jobs", {"prompt": "one more"}),
                           rig.send("POST", "/sdapi/v1/txt2img", {"prompt": "one more"})):
                self.assertEqual((answer.status, answer.headers["Retry-After"]), (429, "2"), answer.body)
            self.assertEqual(rig.post(f"/jobs/{first}/cancel")["state"], "cancelled")
            self.assertEqual(rig.post("/jobs", {"prompt": "one more"}).status, 202)

    def test_a_slow_reader_takes_no_memory_and_holds_nobody(self):
        with Rig() as rig:
            picture = png(3000, 3000, 1) + os.urandom(16 << 20)
            own = rig.post("/inputs", picture, type="image/png")
            self.assertEqual(own.status, 201)
            before = resident_bytes(rig.process.pid)
            slow = []
            for _ in range(8):
                client = socket.create_connection(("127.0.0.1", rig.port))
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.sendall(f"GET /api/v1/inputs/{own['input_id']}/content HTTP/1.1\r\n"
                               f"Host: 127.0.0.1:{rig.port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
                slow.append(client)
            time.sleep(0.5)
            self.assertEqual(rig.ended(rig.job())["state"], "completed")
            self.assertLess(resident_bytes(rig.process.pid) - before, 8 * (4 << 20))
            for client in slow:
                client.close()
            self.assertEqual(len(rig.get(f"/inputs/{own['input_id']}/content").body), len(picture))

    def test_whoever_is_too_far_behind_is_told_what_is_missing(self):
        with Rig() as rig:
            rig.post("/engine/stop")
            job = rig.job("tells=80")
            with (Client(rig, "GET", "/api/v1/events") as watcher,
                  Client(rig, "GET", f"/api/v1/jobs/{job}/events") as own,
                  Client(rig, "GET", "/api/v1/events?topics=gallery") as other):
                for one in (watcher, own, other):
                    one.read_until(rb"retry: ")
                rig.post("/engine/start")
                self.assertEqual(rig.ended(job)["state"], "completed")
                missing = rb'event: stream\.reset\ndata: {"reason":"too_old",'
                self.assertLess(watcher.read_until(missing).count(b'"much":'), 70)
                self.assertLess(own.read_until(missing).count(b'"much":'), 70)
                own.read_until(rb"\r\n0\r\n\r\n")  # whoever comes back is told of the job's end
                with rig.events(f"/jobs/{job}/events") as again:
                    self.assertEqual([event.kind for event in again], ["job.completed"])
                last = rig.job("the last")
                told = watcher.read_until(rb'event: job\.completed\ndata: {"id":"%s"' % last.encode())
                self.assertEqual(re.findall(rb"event: (job\.(?!p)\w+)", told)[-3:],
                                 [b"job.queued", b"job.started", b"job.completed"])
                other.read_until(rb"event: gallery\.added")
                self.assertNotIn(b"stream.reset", other.read_until(rb"event: gallery\.added"))


tap.main()
