"""What /api/v1 promises, route by route."""

import calendar
import contextlib
import hashlib
import os
import re
import socket
import sqlite3
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import tap
from studio import agreement, described
from studio.rig import DOCUMENT, PATIENCE, TOKEN, Rig, parts_of_model, png

NOBODY = "job_0123456789abcdefghjkmnpqrs"
NOTHING = "img_0123456789abcdefghjkmnpqrs"
CONTROLS = ("pause", "resume", "cancel")
NOT_ASKED = {("POST", "/api/v1/service/stop")}  # test_life.py does
WORKFLOWS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "workflow")


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = Rig()

    @classmethod
    def tearDownClass(cls):
        cls.rig.close()

    def problem(self, answer, status, code=None, pointer=None):
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
        document = answer.json
        self.assertEqual(document["status"], status)
        self.assertEqual(document["type"], "urn:kuno:problem:" + document["code"].replace("_", "-"))
        if code:
            self.assertEqual(document["code"], code)
        if pointer is not None:
            self.assertEqual(document["errors"][0]["pointer"], pointer)
        return document


class Doors(Api):
    def test_health_needs_no_credential(self):
        answer = self.rig.get("/health", token=None)
        self.assertEqual((answer.status, answer["status"], answer["api"]), (200, "ok", "v1"))

    def test_all_else_needs_one(self):
        for path in ("/status", "/jobs", "/gallery", "/events", "/openapi.yaml", "/nothing"):
            answer = self.rig.get(path, token=None)
            self.problem(answer, 401)
            self.assertEqual(answer.headers["WWW-Authenticate"], 'Bearer realm="kuno"')
            self.problem(self.rig.get(path, token="x" * 32), 401)

    def test_other_names_and_pages_are_refused_before_anything_is_done(self):
        self.problem(self.rig.get("/health", Host="evil.example"), 421)
        for origin in ("http://evil.example", "null"):
            self.problem(self.rig.post("/jobs", {"prompt": "a"}, Origin=origin), 403)
        self.problem(self.rig.get("/status", Sec_Fetch_Site="cross-site"), 403)
        self.assertEqual(self.rig.get("/status", Origin=f"http://localhost:{self.rig.port}").status, 200)

    def test_a_link_begins_one_session_and_no_other(self):
        self.problem(self.rig.post("/session/link", token=None), 401)
        codes = [self.rig.post("/session/link") for _ in range(9)]
        self.assertEqual({one.status for one in codes}, {201})
        left = calendar.timegm(time.strptime(codes[0]["expires_at"], "%Y-%m-%dT%H:%M:%SZ")) - time.time()
        self.assertTrue(100 < left <= 120, left)
        for code, status in ((codes[8]["code"], 200), (codes[8]["code"], 401), (codes[7]["code"][:-1] + "x", 401),
                             (codes[7]["code"], 200), (codes[0]["code"], 401)):  # there is room for eight
            answer = self.rig.post("/session", {"token": code}, token=None)
            self.assertEqual(answer.status, status)
            if status == 200:
                self.assertIn(f"kuno_session_{self.rig.port}=", answer.headers["Set-Cookie"])
        self.problem(self.rig.get("/status", token=codes[6]["code"]), 401)  # it is no token

    def test_a_session_is_a_cookie_and_a_second_secret(self):
        self.problem(self.rig.post("/session", {"token": "y" * 32}, token=None), 401)
        self.problem(self.rig.post("/session", {"token": "short"}, token=None), 422, pointer="/token")
        self.problem(self.rig.post("/session", {"token": TOKEN, "x": 1}, token=None), 422)
        answer = self.rig.post("/session", {"token": TOKEN}, token=None)
        cookie = answer.headers["Set-Cookie"]
        self.assertRegex(cookie, rf"^kuno_session_{self.rig.port}=[0-9a-f]{{64}}; "
                         r"HttpOnly; SameSite=Strict; Path=/api/v1; Max-Age=\d+$")
        own = {"token": None, "Cookie": "other=1; " + cookie.split(";")[0]}
        self.assertEqual(self.rig.get("/status", **own).status, 200)
        self.problem(self.rig.post("/jobs", {"prompt": "a"}, **own), 403)
        self.problem(self.rig.post("/jobs", {"prompt": "a"}, X_Kuno_Csrf="0" * 64, **own), 403)
        self.assertEqual(self.rig.post("/plan", {"prompt": "a"}, X_Kuno_Csrf=answer["csrf_token"], **own).status, 200)
        self.assertEqual(self.rig.ask("DELETE", "/session", X_Kuno_Csrf=answer["csrf_token"], **own).status, 204)
        self.problem(self.rig.get("/status", **own), 401)

    def test_methods_types_and_paths_are_told_apart(self):
        answer = self.rig.ask("PUT", "/jobs", {"prompt": "a"})
        self.problem(answer, 405)
        self.assertEqual(answer.headers["Allow"], "POST, GET, HEAD")
        self.problem(self.rig.get("/nothing"), 404)
        self.problem(self.rig.get("/jobs/a/b/c"), 404)
        self.problem(self.rig.get("/../etc"), 400)
        self.problem(self.rig.post("/jobs", b"prompt=a", type="text/plain"), 415)
        self.problem(self.rig.post("/jobs", {"prompt": "a"}, Content_Encoding="gzip"), 415)
        self.problem(self.rig.post("/inputs", b"GIF89a", type="image/gif"), 415)
        self.problem(self.rig.get("/jobs?nonsense=1"), 400)
        self.assertEqual(self.rig.ask("HEAD", "/status").body, b"")

    def test_the_description_is_served(self):
        answer = self.rig.get("/openapi.yaml")
        self.assertTrue(answer.body.startswith(b"openapi: 3.1.0"))

    def test_bodies_of_requests_are_read_strictly(self):
        for body in (b"", b"{", b"\xff", b'{"prompt":"a"} x', b"[" * 100000):
            self.problem(self.rig.post("/jobs", body), 400, "json_invalid")
        for text in (b'"a\\u0000b"', b'"a \\ud83d"', b'"\\ude00"', b"[" * 100 + b"]" * 100):
            for path, member in (("/jobs", "prompt"), ("/plan", "negative_prompt"), ("/jobs", "size"),
                                 ("/session", "token")):
                body = b'{"%s":%s}' % (member.encode(), text)
                self.problem(self.rig.post(path, body), 422, "member_invalid", "/" + member)
        for body, pointer in (
            ([], None),
            ({}, None),
            ({"prompt": ""}, "/prompt"),
            ({"prompt": "a", "stepps": 3}, "/stepps"),
            ({"prompt": "a" * 60000}, "/prompt"),
            ({"prompt": "a", "seed": 1}, "/seed"),
            ({"prompt": "a", "seed": "9223372036854775808"}, "/seed"),
            ({"prompt": "a", "size": {"mode": "custom", "width": 1, "height": 64}}, "/size/width"),
            ({"prompt": "a", "profile": "nobody"}, "/profile"),
            ({"prompt": "a", "sampler": "nonsense"}, "/sampler"),
            ({"prompt": "a", "output": {"format": "gif"}}, "/output/format"),
            ({"prompt": "a", "output": {"format": "jpeg", "transparent": True}}, "/output/transparent"),
            ({"prompt": "a", "inputs": [{"input_id": "0" * 64, "role": "source"}]}, "/inputs/0/input_id"),
        ):
            self.problem(self.rig.post("/jobs", body), 422, "member_invalid", pointer)
            self.problem(self.rig.post("/plan", body), 422, "member_invalid", pointer)
        self.assertIn("stepps", self.rig.post("/jobs", {"prompt": "a", "stepps": 3})["detail"])
        for member in ("preset", "kind", "sampler", "profile", "size", "batch"):  # what was sent is not repeated
            value = {"mode": "canary"} if member == "size" else 4711 if member == "batch" else "canary"
            detail = self.rig.post("/plan", {"prompt": "a", member: value})["detail"]
            self.assertNotRegex(detail, "canary|4711", member)
        self.problem(self.rig.post("/jobs", b'{"prompt":"a","prompt":"b"}'), 422)


class Jobs(Api):
    def test_a_job_becomes_a_picture(self):
        prompt = "a \u5c0f boat \U0001F6A4\nwith \"quotes\" and <|im_start|>"
        answer = self.rig.post("/jobs", {"prompt": prompt, "seed": "9007199254740993", "batch": 2, "tags": ["x"]})
        self.assertEqual(answer.status, 202)
        self.assertEqual(answer.headers["Location"], "/api/v1/jobs/" + answer["id"])
        job = self.rig.ended(answer["id"])
        self.assertEqual((job["state"], job["seeds"]), ("completed", ["9007199254740993", "9007199254740994"]))
        self.assertEqual(job["request"]["prompt"], prompt)
        self.assertEqual(job["progress"]["fraction"], 1)
        self.assertEqual([one["index"] for one in job["results"]], [0, 1])
        for one in job["results"]:
            picture = self.rig.get(one["content_url"][len("/api/v1") :])
            self.assertEqual(picture.headers["Content-Type"], "image/png")
            self.assertEqual(hashlib.sha256(picture.body).hexdigest(), one["sha256"])
            self.assertEqual(len(picture.body), one["bytes"])
            item = self.rig.get("/gallery/" + one["gallery_item"])
            self.assertEqual((item["prompt"], item["seed"], item["job_id"]), (prompt, one["seed"], job["id"]))
            self.assertEqual(item["recipe"]["seed"], one["seed"])
        self.assertEqual(len(self.rig.get(f"/gallery?job_id={job['id']}")["items"]), 2)

    def test_a_random_seed_is_chosen_and_told(self):
        seeds = {self.rig.ended(self.rig.job())["seeds"][0] for _ in range(2)}
        self.assertEqual(len(seeds), 2)

    def test_a_key_answers_again_and_never_twice(self):
        body = {"prompt": "once", "seed": "7"}
        first = self.rig.post("/jobs", body, Idempotency_Key="key-1")
        again = self.rig.post("/jobs", body, Idempotency_Key="key-1")
        self.assertEqual((first.status, again.status, again["id"]), (202, 202, first["id"]))
        self.assertIsNone(first.headers["Idempotency-Replayed"])
        self.assertEqual(again.headers["Idempotency-Replayed"], "true")
        other_words = b'{ "seed":"7",\n"prompt": "\\u006fnce" }'
        self.assertEqual(self.rig.post("/jobs", other_words, Idempotency_Key="key-1")["id"], first["id"])
        self.problem(self.rig.post("/jobs", {"prompt": "two"}, Idempotency_Key="key-1"), 422, "idempotency_key_reused")
        self.problem(self.rig.post("/jobs", body, Idempotency_Key="a b"), 400)
        self.problem(self.rig.post("/jobs", body, Idempotency_Key="a" * 256), 400)
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda _: self.rig.post("/jobs", body, Idempotency_Key="key-2")["id"], range(8))
        self.assertEqual(len(set(answers)), 1)

    def test_a_key_makes_no_second_job_when_its_job_was_deleted(self):
        body, key = {"prompt": "once and no more"}, "key-of-a-deleted-job"
        job = self.rig.post("/jobs", body, Idempotency_Key=key)["id"]
        self.rig.ended(job)
        self.assertEqual(self.rig.ask("DELETE", f"/jobs/{job}").status, 204)
        newest = self.rig.get("/jobs?limit=1").json["items"]
        self.problem(self.rig.post("/jobs", body, Idempotency_Key=key), 410, "gone")
        self.problem(self.rig.post("/jobs", {"prompt": "two"}, Idempotency_Key=key), 422, "idempotency_key_reused")
        self.assertEqual(self.rig.get("/jobs?limit=1").json["items"], newest)
        self.problem(self.rig.post(f"/jobs/{job}/retry"), 410, "gone")

    def test_jobs_are_cancelled_queued_and_running(self):
        running, queued, last = self.rig.job("ms=20 steps=5000"), self.rig.job("queued"), self.rig.job("last")
        answer = self.rig.post(f"/jobs/{queued}/cancel")
        self.assertEqual((answer.status, answer["state"]), (200, "cancelled"))
        end = time.monotonic() + PATIENCE
        while self.rig.get(f"/jobs/{running}")["progress"]["step"] is None and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.rig.get(f"/jobs/{running}/preview").headers["Content-Type"], "image/png")
        answer = self.rig.post(f"/jobs/{running}/cancel")
        self.assertEqual((answer.status, answer["cancel_requested"]), (202, True))
        self.assertEqual(self.rig.ended(running)["state"], "cancelled")
        self.assertEqual(self.rig.ended(last)["state"], "completed")
        answer = self.rig.post(f"/jobs/{last}/cancel")
        self.assertEqual((answer.status, answer["state"]), (200, "completed"))
        self.problem(self.rig.post(f"/jobs/{NOBODY}/cancel"), 404)

    def test_failures_have_their_code(self):
        for code in ("missing_model", "input_invalid", "engine_failed", "engine_lost", "out_of_memory"):
            job = self.rig.ended(self.rig.job("fails=" + code))
            self.assertEqual((job["state"], job["error"]["code"]), ("failed", code))
            self.assertEqual(job["attempts"], 2 if code in ("engine_lost", "out_of_memory") else 1)
        self.assertIn("engine_lost", [one["code"] for one in self.rig.get("/diagnostics")["recent_errors"]])

    def test_a_job_is_listed_waited_for_repeated_and_forgotten(self):
        first = self.rig.job("one", seed="5")
        self.rig.ended(first)
        answer = self.rig.post(f"/jobs/{first}/retry")
        self.assertEqual(answer.status, 202)
        second = self.rig.ended(answer["id"])
        self.assertEqual((second["seeds"], second["request"]["prompt"]), (["5"], "one"))
        page = self.rig.get("/jobs?limit=1&state=completed&state=failed")
        self.assertEqual(page["items"][0]["id"], second["id"])
        cursor = page["next_cursor"]
        self.assertEqual(self.rig.get("/jobs?limit=1&cursor=" + cursor)["items"][0]["id"], first)
        place, mark = cursor.split("-")
        for path in (f"/gallery?cursor={cursor}", f"/jobs?cursor={int(place) + 1}-{mark}", f"/jobs?cursor=0{cursor}",
                     f"/jobs?cursor={place}", "/jobs?cursor=1", "/jobs?cursor=", f"/jobs?cursor={cursor}0"):
            self.problem(self.rig.get(path), 400, "cursor_invalid", "query/cursor")
        self.assertEqual(self.rig.get("/jobs?kind=edit")["items"], [])
        for query in ("limit=0", "limit=201", "limit=x", "state=nonsense", "kind=nonsense"):
            self.problem(self.rig.get("/jobs?" + query), 422)
        self.problem(self.rig.get("/jobs?cursor=x"), 400, "cursor_invalid")
        self.assertEqual(self.rig.ask("DELETE", f"/jobs/{first}").status, 204)
        self.problem(self.rig.get(f"/jobs/{first}"), 410)
        self.problem(self.rig.get(f"/jobs/{NOBODY}"), 404)
        self.problem(self.rig.get("/jobs/nonsense"), 404)
        running = self.rig.job("ms=20 steps=5000")
        self.problem(self.rig.ask("DELETE", f"/jobs/{running}"), 409)
        begun = time.monotonic()
        self.assertIn(self.rig.get(f"/jobs/{running}?wait_ms=100")["state"], ("queued", "running"))
        self.assertGreaterEqual(time.monotonic() - begun, 0.09)
        self.rig.post(f"/jobs/{running}/cancel")
        self.rig.ended(running)

    def test_a_picture_that_is_not_to_be_kept_stays_with_its_job(self):
        job = self.rig.ended(self.rig.job("private", output={"save_to_gallery": False}))
        self.assertIsNone(job["results"][0]["gallery_item"])
        self.assertEqual(self.rig.get(f"/jobs/{job['id']}/results/0").status, 200)
        self.problem(self.rig.get(f"/jobs/{job['id']}/results/1"), 404)
        self.problem(self.rig.get(f"/jobs/{job['id']}/results/8"), 404)
        self.assertEqual(self.rig.get("/gallery?q=private")["items"], [])
        self.assertEqual(self.rig.get(f"/jobs/{job['id']}/preview").status, 204)

    def test_hdr_sources_are_known_and_what_is_kept_is_planned(self):
        with open(os.path.join(WORKFLOWS, "..", "image", "gain-map", "gainmap.jpg"), "rb") as file:
            source = self.rig.upload(file.read())
        self.assertTrue(self.rig.get("/inputs/" + source)["has_gain_map"])
        self.assertFalse(self.rig.get("/inputs/" + self.rig.upload(png(48, 32)))["has_gain_map"])
        path = self.rig.folder + "/hdr.safetensors"
        with open(path, "wb") as file:
            file.write(b"x")
        profile = {"model": "qwen-image-2.1", "files": parts_of_model(path)}
        self.assertEqual(self.rig.ask("PUT", "/models/hdr", profile).status, 201)
        edit = {"prompt": "a", "profile": "hdr", "inputs": [{"input_id": source, "role": "source"}]}
        for more, keeps, dropped in (({"output": {"format": "jpeg"}}, True, False),
                                     ({"output": {"format": "jpeg", "keep_hdr": False}}, None, False),
                                     ({"output": {"format": "webp"}}, None, True), ({}, None, True),
                                     ({"output": {"format": "jpeg"}, "outpaint": {"left": 32}}, None, True),
                                     ({"output": {"format": "jpeg"}, "size": {"mode": "1k", "aspect_ratio": "1:1"}},
                                      None, True)):
            plan = self.rig.post("/plan", {**edit, **more})
            self.assertEqual(plan.status, 200, plan.body)
            self.assertEqual(plan.json.get("keeps_hdr"), keeps, more)
            self.assertEqual("hdr_dropped" in [note["code"] for note in plan.json["notes"]], dropped, more)

    def test_a_prompt_with_too_many_tokens_is_refused_by_the_plan(self):
        for prompt, too_long in (("x" * 8100, False), ("x" * 8300, True), ("x" * 32768, True)):
            plan = self.rig.post("/plan", {"prompt": prompt})
            self.assertEqual([note["code"] for note in plan.json["blocking"]], ["prompt_too_long"] * too_long)
        self.problem(self.rig.post("/jobs", {"prompt": "x" * 32768}), 422, "prompt_too_long")
        ignored = self.rig.post("/plan", {"prompt": "x", "negative_prompt": "x" * 32768}).json
        self.assertEqual(ignored["blocking"], [])

    def test_a_gain_map_that_cannot_be_read_is_not_promised(self):
        with open(os.path.join(WORKFLOWS, "..", "image", "gain-map", "gainmap.jpg"), "rb") as file:
            whole = file.read()
        path = self.rig.folder + "/hdr.safetensors"
        with open(path, "wb") as file:
            file.write(b"x")
        profile = {"model": "qwen-image-2.1", "files": parts_of_model(path)}
        self.assertEqual(self.rig.ask("PUT", "/models/damaged", profile).status, 201)
        source = self.rig.upload(whole[:whole.rindex(b"\xff\xd8\xff")])
        edit = {"prompt": "a", "profile": "damaged", "inputs": [{"input_id": source, "role": "source"}],
                "output": {"format": "jpeg"}}
        for restarts in (False, True):
            if restarts:
                self.rig.end()
                self.rig.begin()
            self.assertFalse(self.rig.get("/inputs/" + source)["has_gain_map"])
            plan = self.rig.post("/plan", edit).json
            self.assertIsNone(plan.get("keeps_hdr"))
            self.assertIn("hdr_dropped", [note["code"] for note in plan["notes"]])

    def test_colour_profiles_are_told_and_noted(self):
        path = self.rig.folder + "/colours.safetensors"
        with open(path, "wb") as file:
            file.write(b"x")
        profile = {"model": "qwen-image-2.1", "files": parts_of_model(path)}
        self.assertEqual(self.rig.ask("PUT", "/models/colours", profile).status, 201)
        images = os.path.join(WORKFLOWS, "..", "image")
        for name, told in (("icc/srgb.webp", "sRGB built-in"), ("icc/p3.png", "Display P3"),
                           ("icc/two.jpg", "Wide \u00e4 \U0001f3a8"), ("icc/bomb.png", "unknown"),
                           ("icc-garbage.jpg", "unknown"), ("gps.jpg", None)):
            with open(os.path.join(images, name), "rb") as file:
                source = self.rig.upload(file.read())
            self.assertEqual(self.rig.get("/inputs/" + source)["icc_profile"], told, name)
            plan = self.rig.post("/plan", {"prompt": "a", "profile": "colours",
                                           "inputs": [{"input_id": source, "role": "source"}]})
            self.assertEqual(plan.status, 200, plan.body)
            self.assertEqual("colour_profile_ignored" in [note["code"] for note in plan.json["notes"]],
                             told not in (None, "sRGB built-in"), name)

    def test_edits_and_upscales_work_from_inputs(self):
        source = self.rig.upload(png(96, 64))
        path = self.rig.folder + "/editor.safetensors"
        with open(path, "wb") as file:
            file.write(b"x")
        profile = {"model": "qwen-image-2.1", "files": parts_of_model(path)}
        self.assertEqual(self.rig.ask("PUT", "/models/editor", profile).status, 201)
        inputs = [{"input_id": source, "role": "source"}]
        self.problem(self.rig.post("/plan", {"prompt": "a", "inputs": inputs}), 422, pointer="/inputs")
        plan = self.rig.post("/plan", {"prompt": "a", "profile": "editor", "inputs": inputs}).json
        self.assertEqual((plan["kind"], plan["reference_sizes"][0]["input_id"]), ("edit", source))
        job = self.rig.ended(self.rig.job("edit", profile="editor", inputs=inputs))
        self.assertEqual((job["kind"], job["state"]), ("edit", "completed"))
        item = self.rig.get("/gallery/" + job["results"][0]["gallery_item"])
        self.assertEqual(item["source_inputs"], [source])
        answer = self.rig.post("/upscale", {"input_id": source, "upscale": {"factor": 2}})
        self.assertEqual(answer.status, 202)
        job = self.rig.ended(answer["id"])
        self.assertEqual((job["kind"], job["results"][0]["width"], job["results"][0]["height"]), ("upscale", 192, 128))
        answer = self.rig.post("/upscale", {"gallery_item": item["id"], "upscale": {"width": 320, "height": 320}})
        self.assertEqual(self.rig.ended(answer["id"])["results"][0]["width"], 320)
        self.problem(self.rig.post("/upscale", {"gallery_item": NOTHING, "upscale": {}}), 422, pointer="/gallery_item")


class Pictures(Api):
    def test_an_input_is_what_its_bytes_are(self):
        picture = png(40, 30)
        answer = self.rig.post("/inputs", picture, type="image/png")
        own = hashlib.sha256(picture).hexdigest()
        self.assertEqual((answer.status, answer["input_id"]), (201, own))
        self.assertEqual((answer["width"], answer["height"], answer["media_type"]), (40, 30, "image/png"))
        self.assertEqual(answer.headers["Location"], "/api/v1/inputs/" + own)
        self.assertEqual(self.rig.post("/inputs", picture, type="image/png").status, 200)
        self.assertEqual(self.rig.get(f"/inputs/{own}/content").body, picture)
        self.assertIn(own, [one["input_id"] for one in self.rig.get("/inputs?limit=200")["items"]])
        self.assertEqual(self.rig.ask("DELETE", f"/inputs/{own}").status, 204)
        self.problem(self.rig.get(f"/inputs/{own}"), 404)
        self.problem(self.rig.get("/inputs/nonsense"), 404)

    def test_an_input_whose_file_is_not_what_was_given_is_not_used(self):
        picture = png(48, 32)
        own = self.rig.upload(picture)
        path = f"{self.rig.folder}/studio/inputs/{own}"
        for content in (b"x" * len(picture), png(48, 32, 5), b""):
            with open(path, "wb") as file:
                file.write(content)
            job = self.rig.ended(self.rig.post("/upscale", {"input_id": own, "upscale": {"factor": 2}})["id"])
            self.assertEqual((job["state"], job["error"]["code"]), ("failed", "input_invalid"))
            if len(content) != len(picture):  # else only who reads all of it can see it
                self.problem(self.rig.get(f"/inputs/{own}/content"), 409, "damaged")
        self.assertEqual(self.rig.upload(picture), own)
        job = self.rig.ended(self.rig.post("/upscale", {"input_id": own, "upscale": {"factor": 2}})["id"])
        self.assertEqual(job["state"], "completed")
        self.assertEqual(self.rig.get(f"/inputs/{own}/content").body, picture)

    def test_what_is_no_picture_is_refused_and_not_kept(self):
        for body in (b"", b"text", png(40, 30)[:60]):
            self.problem(self.rig.post("/inputs", body, type="image/png"), 422, "input_invalid")
            self.problem(self.rig.get("/inputs/" + hashlib.sha256(body).hexdigest()), 404)

    def test_parts_of_a_file_and_what_is_known_already(self):
        picture = png(300, 200, 7)
        own = self.rig.upload(picture)
        path = f"/inputs/{own}/content"
        etag = self.rig.get(path).headers["ETag"]
        self.assertEqual(self.rig.get(path, If_None_Match=etag).status, 304)
        self.assertEqual(self.rig.get(path, If_None_Match='"other"').status, 200)
        size = len(picture)
        for asked, begin, end in (
            ("0-9", 0, 10),
            ("10-", 10, size),
            ("-5", size - 5, size),
            (f"5-{size * 2}", 5, size),
        ):
            answer = self.rig.get(path, Range="bytes=" + asked)
            self.assertEqual((answer.status, answer.body), (206, picture[begin:end]))
            self.assertEqual(answer.headers["Content-Range"], f"bytes {begin}-{end - 1}/{size}")
        for asked in ("bytes=9-5", f"bytes={size}-", "bytes=-0", "bytes=a-b", "lines=0-9", "bytes=0-1,3-4"):
            self.assertEqual(self.rig.get(path, Range=asked).body, picture)

    def item(self, prompt="a boat"):
        return self.rig.ended(self.rig.job(prompt))["results"][0]["gallery_item"]

    def test_the_gallery_is_changed_searched_and_emptied(self):
        own = self.item("a Lighthouse at dusk")
        change = {"title": "Evening", "favorite": True, "tags": ["sea", "sky"]}
        answer = self.rig.ask("PATCH", f"/gallery/{own}", change)
        self.assertEqual((answer["title"], answer["favorite"], answer["tags"]), ("Evening", True, ["sea", "sky"]))
        for query in ("q=lighthouse+DUSK", "q=evening", "tag=sky", "favorite=true", "q=sea"):
            self.assertEqual([one["id"] for one in self.rig.get("/gallery?" + query)["items"]], [own])
        self.assertEqual(self.rig.get("/gallery?q=lighthouse+boat")["items"], [])
        self.problem(self.rig.ask("PATCH", f"/gallery/{own}", {}), 422)
        self.problem(self.rig.ask("PATCH", f"/gallery/{own}", {"title": "a" * 201}), 422, pointer="/title")
        self.problem(self.rig.get("/gallery?favorite=maybe"), 422)
        self.problem(self.rig.get("/gallery?job_id=x"), 422)
        self.assertIsNone(self.rig.ask("PATCH", f"/gallery/{own}", {"title": None})["title"])
        self.assertEqual(self.rig.ask("DELETE", f"/gallery/{own}").status, 204)
        self.problem(self.rig.get(f"/gallery/{own}"), 404)
        self.problem(self.rig.ask("DELETE", f"/gallery/{own}"), 404)

    def test_thumbnails_are_small_and_kept(self):
        own = self.item()
        for size in (32, 64):
            answer = self.rig.get(f"/gallery/{own}/thumbnail?size={size}")
            width, height = int.from_bytes(answer.body[16:20], "big"), int.from_bytes(answer.body[20:24], "big")
            self.assertLessEqual(max(width, height), size)
            self.assertEqual(self.rig.get(f"/gallery/{own}/thumbnail?size={size}").body, answer.body)
        self.problem(self.rig.get(f"/gallery/{own}/thumbnail?size=31"), 422)
        self.problem(self.rig.get(f"/gallery/{NOTHING}/thumbnail"), 404)

    def test_what_is_no_file_in_the_place_of_a_picture_is_none(self):
        own = self.item("a link")
        picture = self.rig.get(f"/gallery/{own}/content").body
        path, elsewhere = f"{self.rig.folder}/studio/gallery/{own}-a-link.png", f"{self.rig.folder}/elsewhere.png"
        with open(elsewhere, "wb") as file:
            file.write(picture)
        for put in (lambda: os.symlink(elsewhere, path), lambda: os.mkfifo(path), lambda: os.mkdir(path)):
            os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
            put()
            self.assertTrue(self.rig.get(f"/gallery/{own}")["missing"])
            self.problem(self.rig.get(f"/gallery/{own}/content"), 404)
            self.problem(self.rig.get(f"/gallery/{own}/thumbnail"), 404)
            copy = {"directory": self.rig.folder, "file_name": "l.png"}
            self.problem(self.rig.post(f"/gallery/{own}/export", copy), 404)

    def test_a_picture_whose_file_is_not_what_was_saved_is_told_as_damaged(self):
        own = self.item("a damage")
        job = self.rig.get(f"/gallery/{own}")["job_id"]
        path = f"{self.rig.folder}/studio/gallery/{own}-a-damage.png"
        size = os.path.getsize(path)
        copies = [("/export", {"directory": self.rig.folder, "file_name": f"d.{name}", "format": name})
                  for name in ("png", "jpeg")]
        for content in (b"x" * size, b"", b"x" * (size + 1)):
            with open(path, "wb") as file:
                file.write(content)
            answers = [self.rig.get(f"/gallery/{own}/thumbnail")]
            answers += [self.rig.post(f"/gallery/{own}{end}", body) for end, body in copies]
            if len(content) != size:  # else only who reads all of it can see it
                answers += [self.rig.get(f"/gallery/{own}/content"), self.rig.get(f"/jobs/{job}/results/0")]
            for answer in answers:
                self.problem(answer, 409, "damaged")
                self.assertIsNone(answer.headers["Retry-After"])

    def test_copies_go_where_they_are_wanted_and_replace_nothing(self):
        own = self.item()
        body = {"directory": self.rig.folder, "file_name": "copy.png"}
        answer = self.rig.post(f"/gallery/{own}/export", body)
        self.assertEqual((answer.status, answer["path"]), (201, self.rig.folder + "/copy.png"))
        with open(answer["path"], "rb") as file:
            self.assertEqual(file.read(), self.rig.get(f"/gallery/{own}/content").body)
        self.problem(self.rig.post(f"/gallery/{own}/export", body), 409, "file_exists")
        for change, pointer in (
            ({"file_name": "../up.png"}, "/file_name"),
            ({"directory": self.rig.folder + "/../x"}, "/directory"),
            ({"directory": "/nonsense/nowhere"}, "/directory"),
            ({"directory": "/proc/self"}, "/directory"),
            ({"format": "gif", "file_name": "b.gif"}, "/format"),
            ({"format": "jpeg", "quality": 0, "file_name": "b.jpg"}, "/quality"),
        ):
            self.problem(self.rig.post(f"/gallery/{own}/export", {**body, **change}), 422, pointer=pointer)

    def test_clients_name_no_folder_of_the_services_own(self):
        own, inside, link = self.item(), self.rig.folder + "/studio", self.rig.folder + "/a-link"
        os.symlink(inside, link)
        for folder in (inside, inside + "/gallery", link, link + "/results"):
            answer = self.rig.post(f"/gallery/{own}/export", {"directory": folder, "file_name": "upstream-in-flight"})
            self.problem(answer, 422, pointer="/directory")
            for name in ("output_directory", "model_directory"):
                self.problem(self.rig.ask("PATCH", "/settings", {name: folder}), 422, pointer="/" + name)
        os.makedirs(inside + "/models", exist_ok=True)
        self.assertEqual(self.rig.ask("PATCH", "/settings", {"model_directory": inside + "/models"}).status, 200)

    def test_copies_have_the_format_that_is_wanted(self):
        own = self.item("in another form")
        starts = {"png": b"\x89PNG", "jpeg": b"\xff\xd8\xff", "webp": b"RIFF"}
        for name, ending in (("png", "png"), ("jpeg", "jpg"), ("webp", "webp")):
            answer = self.rig.post(f"/gallery/{own}/export",
                                   {"directory": self.rig.folder, "format": name, "quality": 80})
            self.assertEqual((answer.status, answer["path"]),
                             (201, f"{self.rig.folder}/{own}-in-another-form.{ending}"))
            with open(answer["path"], "rb") as file:
                content = file.read()
            self.assertEqual((content[:len(starts[name])], len(content)), (starts[name], answer["bytes"]))
            self.problem(self.rig.post(f"/gallery/{own}/export", {"directory": self.rig.folder, "format": name}), 409,
                         "file_exists")

    def test_results_have_the_format_that_is_wanted(self):
        for name, ending in (("jpeg", "jpg"), ("webp", "webp")):
            job = self.rig.ended(self.rig.job("another", output={"format": name, "quality": 50}))
            result = job["results"][0]
            self.assertEqual(result["media_type"], "image/" + name)
            answer = self.rig.get(f"/jobs/{job['id']}/results/0")
            self.assertEqual((answer.headers["Content-Type"], len(answer.body)), ("image/" + name, result["bytes"]))
            item = self.rig.get(f"/gallery/{result['gallery_item']}")
            self.assertEqual(item["media_type"], "image/" + name)
            folder = os.path.join(self.rig.folder, "studio", "gallery")
            self.assertIn(f"{item['id']}-another.{ending}", os.listdir(folder))
            self.assertEqual(self.rig.get(f"/gallery/{item['id']}/thumbnail?size=32").headers["Content-Type"],
                             "image/png")

    def test_what_has_no_room_in_the_notes_of_a_jpeg_file_is_said_before(self):
        notes = self.rig.post("/plan", {"prompt": "\u5c0f" * 32000, "output": {"format": "jpeg"}})["notes"]
        self.assertIn("metadata_dropped", [note["code"] for note in notes])
        for prompt, output in (("\u5c0f" * 30000, {"format": "jpeg"}), ("a" * 32000, {"format": "webp"}),
                               ("a" * 32000, {"format": "jpeg", "embed_metadata": False})):
            notes = self.rig.post("/plan", {"prompt": prompt, "output": output})["notes"]
            self.assertNotIn("metadata_dropped", [note["code"] for note in notes])

    def test_new_pictures_are_copied_to_the_output_directory(self):
        folder = os.path.join(self.rig.folder, "out")
        os.mkdir(folder)
        self.rig.ask("PATCH", "/settings", {"output_directory": folder})
        own = self.item("a copy")
        self.assertEqual(os.listdir(folder), [f"{own}-a-copy.png"])
        os.chmod(folder, 0o500)
        self.rig.ask("PATCH", "/settings", {"output_directory": None})
        self.item("no copy")
        self.assertEqual(len(os.listdir(folder)), 1)

    def test_settings_stay_whose_folders_are_away_for_a_moment(self):
        folder = os.path.join(self.rig.folder, "away")
        os.mkdir(folder)
        self.rig.ask("PATCH", "/settings", {"output_directory": folder})
        os.rename(folder, folder + "-now")
        self.assertIsNone(self.rig.get("/settings")["output_directory"])
        self.assertEqual(self.rig.ask("PATCH", "/settings", {"upscale_blend": 0.5}).status, 200)
        os.rename(folder + "-now", folder)
        self.assertEqual(self.rig.get("/settings")["output_directory"], folder)
        os.rename(folder, folder + "-now")
        self.rig.ask("PATCH", "/settings", {"output_directory": None, "upscale_blend": 0})
        os.rename(folder + "-now", folder)
        self.assertIsNone(self.rig.get("/settings")["output_directory"])

    def test_what_is_not_used_goes_while_the_service_runs(self):
        with Rig() as rig:
            for i in range(120):
                rig.upload(png(8, 8 + i))
            with contextlib.closing(sqlite3.connect(rig.folder + "/studio/studio.db")) as database, database:
                database.execute("UPDATE inputs SET last_used_ms = last_used_ms - 40 * 24 * 3600 * 1000")
            rig.wait(hours=1)
            end = time.monotonic() + PATIENCE
            while rig.get("/inputs")["items"]:
                self.assertLess(time.monotonic(), end)

    def test_own_pictures_are_known_by_their_recipe(self):
        own = self.item("known")
        picture = self.rig.get(f"/gallery/{own}/content").body
        answer = self.rig.post("/recipes/inspect", picture, type="image/png").json
        self.assertEqual((answer["source"], answer["recipe"]["prompt"]), ("kuno", "known"))
        self.assertEqual(self.rig.post("/jobs", answer["recipe"]).status, 202)
        self.assertEqual(self.rig.post("/recipes/inspect", png(17, 17), type="image/png")["source"], "none")
        self.problem(self.rig.post("/recipes/inspect", b"text", type="image/png"), 422)

    def inspect(self, name, type="image/png"):
        with open(os.path.join(WORKFLOWS, name), "rb") as file:
            answer = self.rig.post("/recipes/inspect", file.read(), type=type)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def test_workflows_of_others_become_requests(self):
        answer = self.inspect("2512.png")
        self.assertEqual((answer["source"], answer["references_needed"], answer["unsupported"]), ("comfyui", 0, []))
        self.assertEqual(answer["recipe"], {
            "kind": "auto", "prompt": "a red boat on a quiet lake", "negative_prompt": "blurry, low quality",
            "seed": "1062323160169910", "size": {"mode": "custom", "width": 832, "height": 1248}})
        self.assertEqual((answer["raw"]["steps"], answer["raw"]["cfg"], answer["raw"]["flow_shift"]), (20, 5, 3.1))
        self.assertEqual([note["code"] for note in answer["notes"]], ["missing_model", "steps_by_model"])
        self.assertEqual(self.rig.post("/jobs", answer["recipe"]).status, 202)
        edit = self.inspect("21-edit.png")
        self.assertEqual((edit["references_needed"], edit["recipe"]["kind"]), (2, "edit"))
        self.assertIn("output_bit_depth", [note["code"] for note in edit["notes"]])
        large = self.inspect("big-seed.png")
        self.assertNotIn("seed", large["recipe"])
        self.assertIn("seed_exceeds_signed_64_bit", [note["code"] for note in large["notes"]])
        form = self.inspect("a1111.png")
        self.assertEqual((form["source"], form["raw"]["fields"]["Model"]), ("a1111", "name, with comma"))

    def test_what_cannot_be_taken_over_is_said(self):
        for name, word in (("refuse-lora.png", "unsupported node LoraLoaderModelOnly"), ("refuse-cycle.png", "cycle"),
                           ("refuse-bomb.png", "expands to more than"), ("refuse-bad-crc.png", "CRC"),
                           ("refuse-duplicate-keys.png", "twice in one object")):
            answer = self.inspect(name)
            self.assertIsNone(answer["recipe"])
            self.assertEqual([note["code"] for note in answer["unsupported"]], ["workflow_unsupported"])
            self.assertIn(word, answer["unsupported"][0]["message"])
        nothing = self.inspect("refuse-none.png")
        self.assertEqual((nothing["source"], nothing["recipe"], nothing["raw"], nothing["unsupported"]),
                         ("none", None, None, []))


class Service(Api):
    def test_status_engine_and_capabilities(self):
        status = self.rig.get("/status").json
        self.assertEqual((status["active_profile"], status["setup_needed"]), ("demo", False))
        self.assertRegex(status["event_id"], r"^[0-9a-f]{8}-\d+$")
        for word in ("stop", "start", "restart"):
            self.assertEqual(self.rig.post("/engine/" + word).status, 202)
        self.assertEqual(self.rig.get("/engine")["state"], "ready")
        self.assertEqual(self.rig.get("/capabilities?profile=demo")["output_formats"],
                         ["png", "jpeg", "webp"])
        self.problem(self.rig.get("/capabilities?profile=nobody"), 404)
        self.problem(self.rig.get("/capabilities?profile=A"), 422)

    def test_nothing_begins_while_the_engine_is_stopped(self):
        self.rig.post("/engine/stop")
        job = self.rig.job()
        time.sleep(0.1)
        self.assertEqual(self.rig.get(f"/jobs/{job}")["state"], "queued")
        self.rig.post("/engine/start")
        self.assertEqual(self.rig.ended(job)["state"], "completed")

    def test_tags_are_words_and_each_is_there_once(self):
        self.problem(self.rig.post("/jobs", {"prompt": "a", "tags": ["b", ""]}), 422, "member_invalid", "/tags/1")
        own = self.rig.ended(self.rig.job(tags=["sea", "sky", "sea"]))["results"][0]["gallery_item"]
        self.assertEqual(self.rig.get(f"/gallery/{own}")["tags"], ["sea", "sky"])
        self.problem(self.rig.ask("PATCH", f"/gallery/{own}", {"tags": [""]}), 422, pointer="/tags")
        self.assertEqual(self.rig.ask("PATCH", f"/gallery/{own}", {"tags": ["b", "b", "a"]})["tags"], ["b", "a"])

    def test_parameters_are_named_when_they_are_refused(self):
        for query, status, code, pointer in (
            ("nope=1", 400, "parameter_unknown", "query/nope"),
            ("limit=1&a%20b=", 400, "parameter_unknown", "query/a b"),
            ("limit=1&limit=2", 422, "parameter_invalid", "query/limit"),
            ("cursor=none-of-ours", 400, "cursor_invalid", "query/cursor"),
        ):
            self.problem(self.rig.get("/jobs?" + query), status, code, pointer)
        self.assertEqual(self.rig.get("/jobs?state=queued&state=running").status, 200)

    def test_settings_name_what_there_is(self):
        for change, pointer in (({"active_profile": "nosuch"}, "/active_profile"),
                                ({"upscaler": "nosuch"}, "/upscaler")):
            self.problem(self.rig.ask("PATCH", "/settings", change), 422, "member_invalid", pointer)
        for change in ({"active_profile": "demo"}, {"active_profile": None}, {"upscaler": "lanczos"}):
            self.assertEqual(self.rig.ask("PATCH", "/settings", change).status, 200)

    def test_a_profile_without_all_parts_is_not_ready(self):
        path = self.rig.folder + "/part.safetensors"
        with open(path, "wb") as file:
            file.write(b"x")
        for part, name in (("diffusion", "diffusion model"), ("text_encoder", "text encoder"), ("vae", "VAE")):
            files = [one for one in parts_of_model(path) if one["role"] != part]
            self.assertFalse(self.rig.ask("PUT", "/models/part", {"model": "qwen-image-2.1", "files": files})["ready"])
            self.problem(self.rig.post("/models/part/activate"), 409, "missing_model")
            (reason,) = self.rig.post("/plan", {"prompt": "a", "profile": "part"})["blocking"]
            self.assertEqual((reason["code"], reason["message"]),
                             ("missing_model", f"The profile names no file for the {name}"))
            self.problem(self.rig.post("/jobs", {"prompt": "a", "profile": "part"}), 409, "missing_model")
        self.assertEqual(self.rig.ask("DELETE", "/models/part").status, 204)

    def test_a_plan_says_that_the_queue_is_full(self):
        with Rig() as rig:
            rig.post("/engine/stop")
            rig.job()
            with contextlib.closing(sqlite3.connect(rig.folder + "/studio/studio.db")) as database, database:
                database.execute(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)"
                    " INSERT INTO jobs (id, kind, state, created_ms, request, plan, units, seeds, notes)"
                    " SELECT id || i, kind, state, created_ms, request, plan, units, seeds, notes FROM jobs, n")
            self.problem(rig.post("/jobs", {"prompt": "a boat"}), 429, "queue_full")
            self.assertEqual([one["code"] for one in rig.post("/plan", {"prompt": "a boat"})["blocking"]],
                             ["queue_full"])

    def test_settings_are_changed_by_one_at_a_time(self):
        answer = self.rig.get("/settings")
        etag = answer.headers["ETag"]
        self.assertFalse(answer["telemetry"])
        changed = self.rig.ask("PATCH", "/settings", {"default_preset": "quality", "ui": {"a": [1]}}, If_Match=etag,
                               type="application/merge-patch+json")
        self.assertEqual((changed["default_preset"], changed["ui"]), ("quality", {"a": [1]}))
        self.problem(self.rig.ask("PATCH", "/settings", {"default_preset": "fast"}, If_Match=etag), 412)
        self.assertEqual(self.rig.ask("PATCH", "/settings", {"default_preset": "fast"}, If_Match="*").status, 200)
        weak = "W/" + self.rig.get("/settings").headers["ETag"]
        self.problem(self.rig.ask("PATCH", "/settings", {"default_preset": "fast"}, If_Match=weak), 412)
        for wrong in ("a" * 200, "a" * 5000, "", 'junk"5"junk', '"a"9""', '*, "8"', '"5" "6"'):
            self.problem(self.rig.ask("PATCH", "/settings", {"default_preset": "fast"}, If_Match=wrong), 400,
                         "header_invalid", "header/If-Match")
        for change, pointer in (
            ({}, None),
            ({"telemetry": True}, None),
            ({"engine_port": 0}, "/engine_port"),
            ({"output_directory": "relative"}, "/output_directory"),
            ({"upscale_blend": 2}, "/upscale_blend"),
            ({"ui": []}, "/ui"),
        ):
            self.problem(self.rig.ask("PATCH", "/settings", change), 422, pointer=pointer)

    def test_a_page_keeps_nothing_that_would_change_while_it_is_kept(self):
        for ui in ("1e400", "-1e400", "9223372036854775808", "99999999999999999999999", '1, "a": 2',
                   '[{"b": 1, "b": 1}]'):
            body = b'{"ui": {"a": %s}}' % ui.encode()
            self.problem(self.rig.ask("PATCH", "/settings", body), 422, "member_invalid", "/ui")
        kept = {"a": [9223372036854775807, -9223372036854775808, 1e300, 1e-300]}
        self.assertEqual(self.rig.ask("PATCH", "/settings", {"ui": kept})["ui"], kept)

    def test_profiles_are_put_used_and_dropped(self):
        path = self.rig.folder + "/d.safetensors"
        body = {"model": "qwen-image-2.1", "variant": "turbo", "files": parts_of_model(path)}
        self.assertEqual(self.rig.ask("PUT", "/models/mine", body).status, 201)
        self.assertEqual(self.rig.get("/models/demo")["title"], "Built-in demo")
        answer = self.rig.ask("PUT", "/models/mine", {**body, "title": "Mine"})
        self.assertEqual((answer.status, answer["title"], answer["ready"]), (200, "Mine", False))
        self.problem(self.rig.post("/models/mine/activate"), 409, "missing_model")
        self.problem(self.rig.post("/jobs", {"prompt": "a", "profile": "mine"}), 409, "missing_model")
        plan = self.rig.post("/plan", {"prompt": "a", "profile": "mine"}).json
        self.assertEqual(plan["blocking"][0]["code"], "missing_model")
        with open(path, "wb") as file:
            file.write(b"x")
        self.assertTrue(self.rig.post("/models/mine/activate")["active"])
        self.assertEqual([one["name"] for one in self.rig.get("/models")["items"]], ["demo", "mine"])
        self.problem(self.rig.ask("PUT", "/models/demo", body), 409, "profile_is_fixed")
        self.problem(self.rig.ask("DELETE", "/models/demo"), 409)
        self.problem(self.rig.ask("PUT", "/models/mine", {**body, "model": "nonsense"}), 422, pointer="/model")
        self.problem(self.rig.ask("PUT", "/models/Mine", body), 422)
        self.assertEqual(self.rig.ask("DELETE", "/models/mine").status, 204)
        self.assertEqual(self.rig.get("/status")["active_profile"], "demo")
        self.problem(self.rig.get("/models/mine"), 404)
        answer = self.rig.post("/models/scan", {"directory": self.rig.folder})
        self.assertEqual(answer.status, 200)
        self.problem(self.rig.post("/models/scan", {"directory": "relative"}), 422)
        self.problem(self.rig.post("/models/scan", {"directory": "/nonsense"}), 404)

    def test_offline_nothing_is_downloaded(self):
        self.assertTrue(self.rig.get("/catalog")["offline"])
        self.assertEqual(self.rig.get("/downloads").json, {"items": [], "next_cursor": None})
        self.problem(self.rig.post("/downloads", {"artifact": "x", "accept_license": True}), 404)
        self.problem(self.rig.post("/downloads", {"artifact": "x"}), 422)
        refused = self.problem(self.rig.post("/downloads", {"artifact": "small", "accept_license": True}), 409)
        self.assertEqual(refused["code"], "offline")
        none = "/downloads/dl_0123456789abcdefghjkmnpqrs"
        for method, path in (("GET", none), ("DELETE", none), *(("POST", f"{none}/{do}") for do in CONTROLS)):
            self.problem(self.rig.ask(method, path), 404)

    def test_diagnostics_say_nothing_of_what_people_write(self):
        canary = "canary-in-a-prompt"
        self.rig.ended(self.rig.job(canary + " fails=engine_failed"))
        for path in ("/diagnostics", "/diagnostics/report"):
            answer = self.rig.get(path)
            self.assertEqual(answer.status, 200)
            self.assertNotIn(canary.encode(), answer.body)
            self.assertNotIn(self.rig.folder.encode(), answer.body)
        self.assertNotIn(canary, self.rig.log)

    def test_diagnostics_tell_how_many_pictures_are_not_as_the_index_says(self):
        def gallery():
            (check,) = [one for one in rig.get("/diagnostics")["checks"] if one["id"] == "gallery"]
            return check["status"], check["message"]

        with Rig() as rig:
            own = [rig.ended(rig.job("a"))["results"][0]["gallery_item"] for _ in range(6)]
            self.assertEqual(gallery(), ("ok", "Files and index of the gallery agree"))
            folder = os.path.join(rig.folder, "studio", "gallery")
            pictures = [os.path.join(folder, item + "-a.png") for item in own]
            records = [os.path.join(folder, item + ".json") for item in own]
            os.unlink(pictures[0])
            self.assertEqual(gallery(), ("warning", "Files differ from the index: 1 picture of 6"))
            os.rename(pictures[1], os.path.join(rig.folder, "elsewhere.png"))
            os.symlink(os.path.join(rig.folder, "elsewhere.png"), pictures[1])
            with open(pictures[2], "ab") as file:
                file.write(b"x")
            os.unlink(records[3])
            with open(records[4], "a") as file:
                file.write("\n")
            self.assertEqual(gallery(), ("warning", "Files differ from the index: 5 pictures of 6"))
            self.assertIn(gallery()[1].encode(), rig.get("/diagnostics/report").body)


    def last(self, method, path, body=b""):
        """All that comes to a client that closes its sending side behind its request."""
        head = (f"{method} /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1:{self.rig.port}\r\n"
                f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n")
        with socket.create_connection(("127.0.0.1", self.rig.port), PATIENCE) as client:
            client.sendall(head.encode() + body)
            client.shutdown(socket.SHUT_WR)
            with client.makefile("rb") as answer:
                return answer.read()

    def test_who_closes_the_sending_side_is_answered(self):
        answer = self.last("POST", "/jobs", b'{"prompt": "ms=20 steps=5000"}')
        self.assertTrue(answer.startswith(b"HTTP/1.1 202 "), answer)
        job = re.search(rb'"id":"(job_\w+)"', answer)[1].decode()
        for path in ("/status", "/gallery", f"/jobs/{job}", "/jobs?limit=200"):
            self.assertTrue(self.last("GET", path).startswith(b"HTTP/1.1 200 "), path)
        whole = self.rig.upload(png(900, 900, 5) + os.urandom(8 << 20))  # more than a socket takes at once
        self.assertGreater(len(self.last("GET", f"/inputs/{whole}/content")), 8 << 20)
        for path in (f"/jobs/{job}?wait_ms=60000", "/events", f"/jobs/{job}/events"):  # it has left
            self.assertNotIn(b'"state":', self.last("GET", path), path)
        self.rig.post(f"/jobs/{job}/cancel")

    def test_what_is_deleted_is_not_to_be_found_in_the_database(self):
        canary = b"canary-that-is-deleted"

        def is_there():
            names = [name for name in os.listdir(folder) if name.startswith("studio.db")]
            return any(canary in agreement.content(self.rig, ".", name) for name in names)

        folder = os.path.join(self.rig.folder, "studio")
        item = self.rig.ended(self.rig.job(canary.decode()))["results"][0]["gallery_item"]
        self.assertTrue(is_there())
        job = self.rig.get(f"/gallery/{item}")["job_id"]
        for path in (f"/jobs/{job}", f"/gallery/{item}"):
            self.assertEqual(self.rig.ask("DELETE", path).status, 204)
        end = time.monotonic() + PATIENCE
        while is_there():
            self.assertLess(time.monotonic(), end, "it is still there")
            time.sleep(0.05)


class Events(Api):
    def test_a_job_is_told_from_beginning_to_end(self):
        with self.rig.events("/events?topics=jobs,gallery") as events:
            job = self.rig.job("ms=150 steps=3")
            kinds, numbers = [], []
            for event in events:
                kinds.append(event.kind)
                numbers.append(int(event.id.split("-")[1]))
                if event.kind == "job.completed":
                    break
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(kinds[:2], ["job.queued", "job.started"])
        for kind in ("job.progress", "job.preview", "gallery.added"):
            self.assertIn(kind, kinds)
        self.assertEqual(event.data["id"], job)

    def test_a_watcher_goes_on_by_the_last_id(self):
        last = self.rig.get("/status")["event_id"]
        job = self.rig.job()
        self.rig.ended(job)
        for headers, path in (({"Last_Event_ID": last}, "/events"), ({}, "/events?last_event_id=" + last)):
            with self.rig.events(path, **headers) as events:
                first = next(events)
                self.assertEqual((first.kind, first.data["id"]), ("job.queued", job))
        boot = last.split("-")[0]
        for own, reason in (("00000000-1", "restarted"), (boot + "-999999", "unknown_id")):
            with self.rig.events(Last_Event_ID=own) as events:
                first = next(events)
                self.assertEqual((first.kind, first.data["reason"]), ("stream.reset", reason))
        for wrong in ("x", "", boot + "-", boot + "-" + 19 * "1", 40 * "0", 5000 * "1"):
            for path in ("/events", f"/jobs/{job}/events"):
                self.problem(self.rig.get(path, Last_Event_ID=wrong), 400, "event_id_invalid", "header/Last-Event-ID")
                code, where = ("event_id_invalid", "query/last_event_id") if len(wrong) < 100 else (None, None)
                self.problem(self.rig.get(f"{path}?last_event_id={wrong}"), 400, code, where)
        self.problem(self.rig.get("/events?topics=nonsense"), 400)
        self.problem(self.rig.get("/events", Accept="application/json"), 406)

    def test_the_stream_of_a_job_ends_with_it(self):
        job = self.rig.job("ms=50 steps=3")
        with self.rig.events(f"/jobs/{job}/events") as events:
            kinds = [event.kind for event in events]
        self.assertEqual(kinds[-1], "job.completed")
        with self.rig.events(f"/jobs/{job}/events") as events:
            self.assertEqual([event.kind for event in events], ["job.completed"])
        self.problem(self.rig.get(f"/jobs/{NOBODY}/events"), 404)

    def raw(self, text):
        with socket.create_connection(("127.0.0.1", self.rig.port), timeout=PATIENCE) as client:
            client.sendall(text.encode())
            answer = b""
            while piece := client.recv(65536):
                answer += piece
        return answer

    def test_streams_are_framed_as_the_client_can_read_them(self):
        job = self.rig.job()
        self.rig.ended(job)
        fields = f"Host: 127.0.0.1:{self.rig.port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        ask = f"/api/v1/jobs/{job}/events HTTP/1."
        old = self.raw(f"GET {ask}0\r\n{fields}\r\n")
        self.assertNotIn(b"chunked", old)
        self.assertTrue(old.endswith(b"}\n\n"))
        three = (f"{method} {ask}1\r\n{fields}{more}\r\n" for method, more in
                 (("GET", ""), ("HEAD", ""), ("GET", "Connection: close\r\n")))
        answers = self.raw("".join(three))
        self.assertEqual(answers.count(b"HTTP/1.1 200 OK"), 3)
        self.assertEqual(answers.count(b"Transfer-Encoding: chunked"), 3)
        self.assertEqual(answers.count(b"event: job.completed"), 2)
        self.assertTrue(answers.endswith(b"\r\n0\r\n\r\n"))


class ZzDescribed(unittest.TestCase):
    """Runs last, by its name."""

    @unittest.skipIf(described.WHY_NOT, described.WHY_NOT)
    def test_every_described_route_was_asked_and_all_answers_are_as_described(self):
        self.assertEqual(DOCUMENT.operations() - DOCUMENT.asked, NOT_ASKED)


tap.main()
