"""Downloads by /api/v1: ordered, watched, paused, resumed, cancelled, and taken up again after a crash."""

import contextlib
import hashlib
import os
import pathlib
import signal
import sqlite3
import time
import unittest

import files
import tap
from server import Server
from studio.rig import PATIENCE, Rig

KIB, MIB = 1 << 10, 1 << 20
ENDED = ("completed", "failed", "cancelled", "paused")
PARTS = list(files.PARTS)


def slowly(_, reply):
    reply.bytes_per_second = 128 * KIB  # it is under way whenever somebody looks


def steadily(_, reply):
    reply.bytes_per_second = MIB


class Case(unittest.TestCase):
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


class Downloads(Case):
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
        now = self.rig.get(f"/downloads/{download}").json
        self.assertEqual((now["title"], now["profiles"]), ("The small one", []))
        for one in (now, entry):
            self.assertEqual(one["collections"], [{"id": "two", "title": "Two of them"},
                                                  {"id": "too-large", "title": "More than any disk has"}])
        self.assertEqual([d["id"] for d in self.rig.get("/downloads")["items"]], [download])
        self.assertEqual(self.rig.ask("DELETE", f"/downloads/{download}").status, 204)
        self.assertEqual(self.rig.get("/downloads")["items"], [])
        self.assertTrue((self.folder() / "small.safetensors").exists())

    def test_events_tell_how_it_goes(self):
        self.server = self.enterContext(Server("small", steadily))
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
        answer = post("/downloads", {"artifact": "medium", "accept_license": True,
                                     "directory": self.rig.folder + "/studio/inputs"})
        self.problem(answer, 422, "member_invalid")
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


class Models(Case):
    """Downloads of all files of a model, the built-in one under another name."""

    def fetch(self, *parts):
        """What has become of them, in the end."""
        downloads = [self.order(part) for part in parts]
        return [self.ended(download) for download in downloads]

    def setUp(self):
        self.server = self.enterContext(Server(*PARTS[:1], more=PARTS[1:]))
        self.rig = self.enterContext(Rig(mirror=self.server.url))

    def profiles(self):
        return {one["name"]: one for one in self.rig.get("/models")["items"]}

    def assert_usable(self, name="demo-again"):
        profile = self.rig.get(f"/models/{name}").json
        self.assertEqual((profile["title"], profile["model"], profile["variant"], profile["source"]),
                         ("The built-in model, once more", "qwen-image-2.1", "turbo", "user"))
        self.assertEqual((profile["ready"], profile["active"]), (True, False))
        studio = pathlib.Path(self.rig.folder) / "studio" / "models"
        self.assertEqual({file["role"]: pathlib.Path(file["path"]) for file in profile["files"]},
                         {role: studio / role / files.MODEL[role].name for role in files.MODEL})

    def database(self, *statements):
        """Done to it while no service has it."""
        with contextlib.closing(sqlite3.connect(os.path.join(self.rig.folder, "studio", "studio.db"))) as own, own:
            for statement in statements:
                own.execute(statement)

    def test_the_last_file_of_a_model_makes_it_usable_at_once(self):
        told = []
        with self.rig.events("/events?topics=downloads,models") as events:
            downloads = [self.order(part) for part in PARTS]
            for event in events:
                told.append((event.kind, event.data["id"]))
                if told[-1] == ("models.updated", "demo-again"):
                    break
        self.assertIn(("download.updated", downloads[-1]), told)
        self.assert_usable()
        rows = [self.rig.get(f"/downloads/{download}").json for download in downloads]
        self.assertEqual([row["profiles"] for row in rows], [[], [], [], ["demo-again"]])
        self.assertEqual([row["title"] for row in rows], [f"The {part} one" for part in PARTS])
        for row in rows:
            self.assertEqual(row["collections"], [{"id": "demo-again", "title": "The built-in model, once more"}])
        self.assertEqual(self.rig.post("/models/demo-again/activate")["active"], True)

    def test_a_profile_of_that_name_stays_and_the_new_one_gets_another(self):
        mine = {"model": "krea2", "files": [{"role": "diffusion", "path": "/nowhere/mine.gguf"}]}
        self.assertEqual(self.rig.ask("PUT", "/models/demo-again", mine).status, 201)
        before = self.profiles()
        self.assertEqual(self.fetch(*PARTS)[-1]["profiles"], ["demo-again-2"])
        self.assert_usable("demo-again-2")
        after = self.profiles()
        self.assertEqual({name: after[name] for name in before}, before)

    def test_a_profile_that_a_crash_has_swallowed_is_made_at_the_next_start(self):
        last = self.fetch(*PARTS)[-1]
        self.rig.end(signal.SIGKILL)
        self.database("UPDATE downloads SET profiles = NULL", "DELETE FROM profiles")
        os.unlink(os.path.join(self.rig.folder, "studio", "models.toml"))
        asked = len(self.server.requests)
        self.rig.begin()
        self.assert_usable()
        self.assertEqual(self.rig.get(f"/downloads/{last['id']}")["profiles"], ["demo-again"])
        self.assertEqual(len(self.server.requests), asked)
        self.assertEqual(self.rig.ask("DELETE", "/models/demo-again").status, 204)
        self.rig.end()
        self.rig.begin()  # what people have removed does not come back
        self.assertNotIn("demo-again", self.profiles())

    def test_whenever_the_service_is_killed_there_is_one_profile_in_the_end(self):
        self.fetch(*PARTS[1:])
        place = pathlib.Path(self.rig.folder) / "studio" / "models" / "diffusion" / files.MODEL["diffusion"].name
        for round in range(5):
            download = self.order(PARTS[0])
            end = time.monotonic() + PATIENCE
            while not place.exists() and time.monotonic() < end:
                time.sleep(0.0005)
            time.sleep(round * 0.004)  # before, within and after what is written down then
            self.rig.end(signal.SIGKILL)
            self.rig.begin()
            self.assertEqual(self.ended(download)["state"], "completed")
            self.assertEqual(self.rig.get(f"/downloads/{download}")["profiles"], ["demo-again"])
            self.assert_usable()
            self.assertEqual([name for name in self.profiles() if name.startswith("demo-a")], ["demo-again"])
            self.assertEqual(self.rig.ask("DELETE", "/models/demo-again").status, 204)
            place.unlink()

    def test_files_that_are_taken_away_are_missed_and_nothing_else(self):
        last = self.fetch(*PARTS)[-1]
        place = pathlib.Path(last["path"])
        place.rename(place.with_suffix(".away"))
        profile = self.profiles()["demo-again"]
        self.assertEqual((profile["ready"], [file["role"] for file in profile["files"] if not file["present"]]),
                         (False, ["tokenizer"]))
        self.problem(self.rig.post("/models/demo-again/activate"), 409, "missing_model")
        job = {"prompt": "A boat.", "profile": "demo-again"}
        self.problem(self.rig.post("/jobs", job), 409, "missing_model")
        self.assertEqual(self.rig.get(f"/downloads/{last['id']}")["state"], "completed")
        entry = {e["id"]: e for e in self.rig.get("/catalog")["items"]}[PARTS[-1]]
        self.assertEqual((entry["installed"], entry["path"]), (False, None))
        self.assertEqual(self.rig.ended(self.rig.job("A boat."))["state"], "completed")
        self.assertEqual(self.fetch(PARTS[-1])[0]["profiles"], ["demo-again"])  # once more, for the same profile
        self.assert_usable()
        self.assertEqual(self.rig.ended(self.rig.job(**job))["state"], "completed")


tap.main()
