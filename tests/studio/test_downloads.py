"""Downloads by /api/v1: ordered, watched, paused, resumed, cancelled, and taken up again after a crash."""

import hashlib
import os
import pathlib
import signal
import time
import unittest

import files
import tap
from server import Server
from studio.rig import PATIENCE, Rig

MIB = 1 << 20
ENDED = ("completed", "failed", "cancelled", "paused")


def slowly(_, reply):
    reply.bytes_per_second = MIB


class Downloads(unittest.TestCase):
    def begin(self, name, behave=None):
        self.server = self.enterContext(Server(name, behave))
        self.rig = self.enterContext(Rig(mirror=self.server.url))
        return self.order(name)

    def order(self, name, **more):
        answer = self.rig.post("/downloads", {"artifact": name, "accept_license": True}, **more)
        self.assertEqual(answer.status, 202, answer.body)
        self.assertEqual(answer.headers["Location"], f"/api/v1/downloads/{answer['id']}")
        return answer["id"]

    def problem(self, answer, status, code):
        self.assertEqual((answer.status, answer["code"]), (status, code), answer.body)

    def wait(self, download, until):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            now = self.rig.get(f"/downloads/{download}").json
            if until(now):
                return now
            time.sleep(0.02)
        raise AssertionError(f"it does not come to that: {now}")

    def ended(self, download):
        return self.wait(download, lambda now: now["state"] in ENDED)

    def do(self, download, what):
        return self.rig.post(f"/downloads/{download}/{what}")

    def folder(self):
        return pathlib.Path(self.rig.folder) / "studio" / "models" / "vae"

    def assert_complete(self, download, name):
        now = self.ended(download)
        self.assertEqual((now["state"], now["error"]), ("completed", None))
        self.assertEqual((now["bytes_done"], now["bytes_total"]), (files.BYTES[name],) * 2)
        self.assertEqual(pathlib.Path(now["path"]), self.folder() / f"{name}.safetensors")
        content = pathlib.Path(now["path"]).read_bytes()
        self.assertEqual(hashlib.sha256(content).hexdigest(), files.sha256(name))
        self.assertEqual(os.listdir(self.folder()), [f"{name}.safetensors"])

    def test_one_is_ordered_and_comes(self):
        download = self.begin("small")
        self.assert_complete(download, "small")
        entry = {e["id"]: e for e in self.rig.get("/catalog")["items"]}["small"]
        self.assertEqual((entry["installed"], entry["license_accepted"], entry["needed_by"]),
                         (True, True, ["two", "too-large"]))
        self.assertEqual(entry["license_page"], "https://example.org/licence")
        self.assertEqual([d["id"] for d in self.rig.get("/downloads")["items"]], [download])
        self.assertEqual(self.rig.ask("DELETE", f"/downloads/{download}").status, 204)
        self.assertEqual(self.rig.get("/downloads")["items"], [])
        self.assertTrue((self.folder() / "small.safetensors").exists())

    def test_events_tell_how_it_goes(self):
        self.server = self.enterContext(Server("small", slowly))
        self.rig = self.enterContext(Rig(mirror=self.server.url))
        states, done = [], [0]
        with self.rig.events("/events?topics=downloads") as events:
            download = self.order("small")
            for event in events:
                self.assertEqual((event.kind, event.data["id"]), ("download.updated", download))
                states.append(event.data["state"])
                done.append(event.data["bytes_done"])
                if event.data["state"] in ENDED:
                    break
        self.assertEqual((states[0], states[-1]), ("queued", "completed"))
        self.assertIn("running", states)
        self.assertEqual(done, sorted(done))
        self.assertTrue(any(0 < n < files.BYTES["small"] for n in done))

    def test_paused_and_resumed_it_goes_on(self):
        download = self.begin("small", slowly)
        self.wait(download, lambda now: now["bytes_done"] > 0)
        self.assertEqual(self.do(download, "pause")["state"], "paused")
        self.assertEqual(self.do(download, "pause").status, 200)  # again: nothing
        asked = len(self.server.requests)
        self.server.behave = None
        self.assertEqual(self.do(download, "resume").status, 200)
        self.assert_complete(download, "small")
        self.assertGreater(min(r.first for r in self.server.requests[asked:]), 0)
        self.problem(self.do(download, "pause"), 409, "conflict")
        self.problem(self.do(download, "resume"), 409, "conflict")

    def test_cancelled_nothing_is_left(self):
        download = self.begin("small", slowly)
        self.wait(download, lambda now: now["bytes_done"] > 0)
        self.problem(self.rig.ask("DELETE", f"/downloads/{download}"), 409, "conflict")
        self.assertEqual(self.do(download, "cancel")["state"], "cancelled")
        end = time.monotonic() + PATIENCE
        while os.listdir(self.folder()) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(os.listdir(self.folder()), [])
        self.assertEqual(self.rig.ask("DELETE", f"/downloads/{download}").status, 204)
        self.server.behave = None
        self.assert_complete(self.order("small"), "small")

    def test_a_crash_of_the_service_costs_nothing(self):
        download = self.begin("small", slowly)
        self.wait(download, lambda now: now["bytes_done"] > 0)
        self.rig.end(signal.SIGKILL)
        self.server.behave = None
        self.rig.begin()
        self.assert_complete(download, "small")

    def test_the_end_of_the_service_is_no_end_of_a_download(self):
        download = self.begin("small", slowly)
        self.wait(download, lambda now: now["bytes_done"] > 0)
        self.assertEqual(self.rig.end(), 0)
        asked = len(self.server.requests)
        self.server.behave = None
        self.rig.begin()
        self.assert_complete(download, "small")
        self.assertGreater(min(r.first for r in self.server.requests[asked:]), 0)

    def test_what_fails_is_told_and_can_be_tried_again(self):
        def gone(_, reply):
            reply.status, reply.body = 404, b""
        download = self.begin("small", gone)
        now = self.ended(download)
        self.assertEqual((now["state"], now["error"]["code"]), ("failed", "moved"))
        self.assertEqual(now["error"]["manual_page"],
                         f"https://models.example.org/tests/models/tree/{files.REVISION}")
        self.server.behave = None
        self.assertEqual(self.do(download, "resume").status, 200)
        self.assert_complete(download, "small")

    def test_a_file_of_that_name_is_left_alone(self):
        self.server = self.enterContext(Server("small"))
        self.rig = self.enterContext(Rig(mirror=self.server.url))
        self.folder().mkdir(parents=True)
        (self.folder() / "small.safetensors").write_bytes(b"mine")
        now = self.ended(self.order("small"))
        self.assertEqual((now["state"], now["error"]["code"]), ("failed", "file_differs"))
        self.assertEqual((self.folder() / "small.safetensors").read_bytes(), b"mine")

    def test_orders_that_cannot_be_are_refused(self):
        download = self.begin("small", slowly)
        post = self.rig.post
        self.problem(post("/downloads", {"artifact": "small", "accept_license": True}), 409, "conflict")
        self.problem(post("/downloads", {"artifact": "medium", "accept_license": False}), 422, "license_not_accepted")
        self.problem(post("/downloads", {"artifact": "two", "accept_license": True}), 404, "not_found")
        self.problem(post("/downloads", {"artifact": "endless", "accept_license": True}), 507, "disk_full")
        for directory, status in (("relative", 422), ("/nonsense", 404), ("/proc/self", 422), ("/a/../b", 422)):
            answer = post("/downloads", {"artifact": "medium", "accept_license": True, "directory": directory})
            self.assertEqual(answer.status, status, (directory, answer.body))
        for body in ({"artifact": "medium"}, {"accept_license": True}, {"artifact": 5, "accept_license": True},
                     {"artifact": "medium", "accept_license": True, "url": "https://example.org"}):
            self.problem(post("/downloads", body), 422, "member_invalid")
        self.assertEqual(self.do(download, "cancel").status, 200)

    def test_the_same_key_is_the_same_download(self):
        self.server = self.enterContext(Server("small"))
        self.rig = self.enterContext(Rig(mirror=self.server.url))
        first = self.order("small", Idempotency_Key="once")
        again = self.rig.post("/downloads", {"artifact": "small", "accept_license": True}, Idempotency_Key="once")
        self.assertEqual((again.status, again["id"], again.headers["Idempotency-Replayed"]), (202, first, "true"))
        other = self.rig.post("/downloads", {"artifact": "medium", "accept_license": True}, Idempotency_Key="once")
        self.problem(other, 422, "idempotency_key_reused")
        self.assert_complete(first, "small")


tap.main()
