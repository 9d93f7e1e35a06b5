"""Odd and hostile pictures, requests and names (tests/golden/image, tests/golden/requests) through every API of the
studio: each has its stated result, and the service stays up. As people run it: `kuno serve` with its own image worker
and the built-in model."""

import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import tap
from cli.png import Picture
from studio import agreement
from studio.rig import TOKEN, png
from studio.serve import LONG, Serve

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
IMAGES = json.loads((GOLDEN / "image" / "cases.json").read_text())
REQUESTS = json.loads((GOLDEN / "requests" / "cases.json").read_text())
FORM = "multipart/form-data; boundary=b0undary"
LEAST, ASPECT = 2, 50  # pixels of a side, and what it may be of the other, to draw from
BOMB_BYTES = 64 << 20  # that a picture which is refused may take


def peak_bytes(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) << 10


def edit_form(picture):
    """A body of OpenAI's edits."""
    head = "--b0undary\r\nContent-Disposition: form-data; name={}\r\n\r\n"
    text = head.format('"prompt"') + "a boat\r\n" + head.format('"size"') + "64x64\r\n"
    return (text + head.format('"image"; filename="a"')).encode() + picture + b"\r\n--b0undary--\r\n"


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = Serve()
        cls.addClassCleanup(cls.rig.close)

    def tearDown(self):
        self.assertEqual(self.rig.get("/health", token=None).status, 200)

    def newest(self):
        return self.rig.get("/jobs?limit=1")["items"][0]

    def result(self, job):
        ended = self.rig.ended(job)
        self.assertEqual(ended["state"], "completed", ended["error"])
        return Picture(self.rig.get(f"/jobs/{job}/results/0").body)


class Pictures(Cases):
    def bytes_of(self, case):
        return (GOLDEN / "image" / pathlib.Path(case["file"]).name).read_bytes()

    def may_be_used(self, case):
        return case["expect"] == "accept" and case["file"] != "cmyk-adobe.jpg"  # may be refused, and is

    def may_be_drawn_from(self, case):
        decoded = case.get("decoded", {"w": 0, "h": 0})
        sides = sorted((decoded["w"], decoded["h"]))
        return self.may_be_used(case) and sides[0] >= LEAST and sides[1] <= ASPECT * sides[0]

    def check(self, case, pixel):
        for x, y, wanted, tolerance in case["decoded"]["px"]:
            for got, value in zip(pixel(x, y), wanted):
                self.assertLessEqual(abs(got - value), tolerance, (case["file"], x, y))

    def test_inputs_have_their_stated_result(self):
        used = 0
        for case in IMAGES:
            data = self.bytes_of(case)
            answer = self.rig.post("/inputs", data, type="image/png")
            if not self.may_be_used(case):
                self.assertIn(answer.status, (400, 422), case["file"])
                self.assertIn("code", answer.json)
                continue
            used += 1
            self.assertIn(answer.status, (200, 201), (case["file"], answer.body))
            self.assertEqual((answer["width"], answer["height"]), (case["decoded"]["w"], case["decoded"]["h"]))
            own = {"input_id": answer["input_id"], "upscale": {"factor": 1, "upscaler": "lanczos"}}
            picture = self.result(self.rig.post("/upscale", own)["id"])
            self.assertEqual((picture.width, picture.height), (case["decoded"]["w"], case["decoded"]["h"]))

            def pixel(x, y):
                at = (y * picture.width + x) * picture.channels
                return (*picture.pixels[at:at + picture.channels], 255)[:4]

            self.check(case, pixel)
        self.assertEqual(used, sum(case["expect"] == "accept" for case in IMAGES))

    def test_what_shows_too_little_to_be_drawn_from_is_said(self):
        said = {}
        for case in IMAGES:
            if self.may_be_used(case) and not self.may_be_drawn_from(case):
                own = {"input_id": self.rig.upload(self.bytes_of(case)), "role": "source"}
                answer = self.rig.post("/jobs", {"prompt": "a boat", "inputs": [own], "outpaint": {"left": 40}})
                self.assertEqual((answer.status, answer["errors"][0]["pointer"]), (422, "/inputs/0/input_id"))
                said[case["file"]] = answer["detail"]
        self.assertEqual(said, {
            "one-pixel.png": "picture 1 is 1x1 pixels large; a side needs at least 2",
            "strip-1x2000.png": "picture 1 is 1x2000 pixels large; one side may be at most 50 times the other"})

    def test_nothing_of_a_camera_is_in_a_result(self):
        picture = (GOLDEN / "image" / "gps.jpg").read_bytes()
        self.assertIn(b"Exif", picture)
        own = self.rig.upload(picture)
        for name in ("png", "jpeg", "webp"):
            body = {"input_id": own, "upscale": {"factor": 2}, "output": {"format": name}}
            job = self.rig.ended(self.rig.post("/upscale", body)["id"])
            self.assertEqual(job["state"], "completed", job["error"])
            made = self.rig.get(f"/jobs/{job['id']}/results/0").body
            self.assertNotRegex(made, rb"(?i)exif|gps|canon|nikon|xpacket")

    def test_pictures_in_orders_have_their_stated_result(self):
        for case in IMAGES:
            data = self.bytes_of(case)
            text = base64.b64encode(data).decode()
            a1111 = {"prompt": "a boat", "init_images": [text], "width": 64, "height": 64}
            sdcpp = {"prompt": "a boat", "init_image": text, "width": 64, "height": 64}
            answers = [
                self.rig.send("POST", "/v1/images/edits", edit_form(data), type=FORM),
                self.rig.send("POST", "/sdapi/v1/img2img", a1111),
                self.rig.send("POST", "/sdcpp/v1/img_gen", sdcpp),
            ]
            statuses = [answer.status for answer in answers]
            self.assertEqual(statuses, [200, 200, 202] if self.may_be_drawn_from(case) else [400, 422, 400],
                             (case["file"], [answer.body[:200] for answer in answers]))
            for answer in answers:
                self.assertEqual("error" in answer.json, not self.may_be_drawn_from(case))
        self.rig.ended(self.newest()["id"])

    def test_a_bomb_takes_no_memory(self):
        self.rig.upload(png(64, 64, 1))  # its worker is there
        before = [peak_bytes(each) for each in (self.rig.process.pid, *self.rig.workers())]
        for case in IMAGES:
            if case["file"] in ("bomb-60000.png", "ztxt-8MB.png"):
                answer = self.rig.post("/inputs", self.bytes_of(case), type="image/png")
                self.assertIn(answer.status, (422,) if case["expect"] == "reject" else (200, 201))
        after = [peak_bytes(each) for each in (self.rig.process.pid, *self.rig.workers())]
        self.assertEqual(len(before), len(after))
        self.assertLess(max(b - a for a, b in zip(before, after)), BOMB_BYTES)


class Workflows(Cases):
    """Graphs of ComfyUI in pictures."""

    SEEDS = {"plain-ok.png": "684489560344628", "ztxt-ok.png": "7", "seed-u64.png": "18446744073709551615"}
    REFUSED = {"lora-active.png": "unsupported node LoraLoaderModelOnly (10)",
               "cycle.png": "cycle in the workflow at KSampler (5)",
               "dup-keys.png": "the workflow has the key 'seed' twice in one object", "crc.png": "CRC error"}

    def inspect(self, name):
        data = (GOLDEN / "workflow" / "cases" / name).read_bytes()
        answer = self.rig.post("/recipes/inspect", data, type="image/png")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def test_graphs_have_their_stated_result(self):
        for name, seed in self.SEEDS.items():
            told = self.inspect(name)
            self.assertEqual({key: told["raw"][key] for key in ("seed", "width", "height", "steps", "cfg")},
                             {"seed": seed, "width": 832, "height": 1248, "steps": 20, "cfg": 5})
            size = {"mode": "custom", "width": 832, "height": 1248}
            self.assertEqual((told["recipe"]["size"], told["unsupported"]), (size, []))
            # A seed that no job can have is shown, and in no request.
            self.assertEqual(told["recipe"].get("seed", "18446744073709551615"), seed)
            self.assertEqual("seed_exceeds_signed_64_bit" in {note["code"] for note in told["notes"]},
                             "seed" not in told["recipe"])
        for name, why in self.REFUSED.items():
            told = self.inspect(name)
            self.assertIsNone(told["recipe"])
            self.assertEqual([(one["code"], why in one["message"]) for one in told["unsupported"]],
                             [("workflow_unsupported", True)])


class Requests(Cases):
    """The bodies as they are, with the names that each API has for the same members."""

    def texts(self):
        for case in REQUESTS:
            name = pathlib.Path(case["file"]).name
            body = (GOLDEN / "requests" / name).read_bytes()
            body = re.sub(rb'("(?:width|height)": )256', rb"\g<1>64", body)
            yield name.removesuffix(".json"), case, body

    def accepts(self, case):
        return case["expect"] == "accept" and case.get("may") != "reject"

    def check(self, job, case):
        if "seed" in case:
            self.assertEqual(job["seeds"], [case["seed"]])
        elif "seed -1" in case["what"]:
            self.assertRegex(job["seeds"][0], r"^\d{1,19}$")
        else:
            self.assertEqual(job["seeds"], ["42"])

    def check_prompt(self, job, body):
        """To the byte in the job, the gallery and the picture's own text."""
        prompt = json.loads(body)["prompt"]
        self.assertEqual(job["request"]["prompt"], prompt)
        item = self.rig.get(f"/gallery/{job['results'][0]['gallery_item']}")
        self.assertEqual(item["prompt"], prompt)
        texts = self.result(job["id"]).texts
        self.assertEqual(texts["parameters"][:len(prompt) + 1], prompt + "\n")

    def test_the_studios_own(self):
        for name, case, body in self.texts():
            body = re.sub(rb'"width": (\d+), "height": (\d+)',
                          rb'"size": {"mode": "custom", "width": \1, "height": \2}', body)
            body = re.sub(rb'"seed": (\d+)', rb'"seed": "\1"', body).replace(b', "seed": "-1"', b"")
            if self.accepts(case) and "image" not in name:
                body = body.replace(b', "steps": 4', b"")
            answer = self.rig.post("/jobs", body)
            if not self.accepts(case) or "image" in name:  # it has no pictures in a body, but inputs
                self.assertIn(answer.status, (400, 422), name)
                self.assertRegex(answer["code"], r"^[a-z_]+$")
                continue
            self.assertEqual(answer.status, 202, (name, answer.body))
            job = self.rig.ended(answer["id"])
            self.assertEqual(job["state"], "completed", job["error"])
            self.check(job, case)
            self.check_prompt(job, body)
        self.assertNotIn("second line", self.rig.log)
        answer = self.rig.post("/jobs", {"prompt": "a", "stepps": 20})
        self.assertIn("stepps", answer["detail"])

    def other(self, path, status, translate, refused):
        """An API that steps over what it does not know."""
        for name, case, body in self.texts():
            body = translate(name, body)
            if body is None:
                continue
            answer = self.rig.send("POST", path, body)
            if not self.accepts(case) and name != "unknown-field":
                self.assertIn(answer.status, refused, (name, answer.body[:300]))
                self.assertTrue(answer["error"], name)
                continue
            self.assertEqual(answer.status, status, (name, answer.body[:300]))
            job = self.rig.ended(self.newest()["id"])
            self.assertEqual(job["state"], "completed", job["error"])
            self.check(job, case)
            if name.startswith("prompt"):
                self.check_prompt(job, body)

    def test_openai(self):
        def translate(name, body):
            size = re.sub(rb'"width": (\d+), "height": (\d+)', rb'"size": "\1x\2"', body)
            return None if name.startswith("image") else size  # pictures come in forms

        self.other("/v1/images/generations", 200, translate, (400,))

    def test_a1111(self):
        def translate(name, body):
            return body.replace(b'"cfg"', b'"cfg_scale"').replace(b'"reference_images"', b'"init_images"')

        self.other("/sdapi/v1/txt2img", 200, translate, (400, 422))
        self.other("/sdapi/v1/img2img", 200, lambda name, body: translate(name, body) if "image" in name else None,
                   (400, 422))

    def test_sdcpp(self):
        def translate(name, body):
            body = re.sub(rb'"reference_images": \[("[^"]*")\]', rb'"init_image": \1', body)
            if name == "steps-minus":  # which it brings to 1, as stable-diffusion.cpp does
                return None
            if name == "cfg-1e999":
                body = body.replace(b'"steps": 4, ', b"")
                return body.replace(b'"cfg": 1e999', b'"sample_params": {"guidance": {"txt_cfg": 1e999}}')
            return re.sub(rb'"steps": ("?\d+"?)', rb'"sample_params": {"sample_steps": \1}', body)

        self.other("/sdcpp/v1/img_gen", 202, translate, (400,))


class Names(Cases):
    LONG = "a" * 200  # as far as the API goes
    GOOD = ("caf\u00e9 \u6d77.png", "space name (1).png", "-rf.png", "emoji \U0001f680.png", "CON.png", "..%2fup.png",
            ".hidden.png", LONG)  # fmt: skip
    BAD = ("new\nline.png", "../up.png", "dir/", "a" * 201, "a" * 256, "", ".", "..", "a\\b", "a\0b", "\ud800")

    def test_copies_have_the_names_that_are_given_or_none(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        item = self.rig.ended(self.rig.job("a boat"))["results"][0]["gallery_item"]
        for name in self.GOOD:
            answer = self.rig.post(f"/gallery/{item}/export", {"directory": folder, "file_name": name})
            self.assertEqual((answer.status, answer["path"]), (201, os.path.join(folder, name)))
        for name in self.BAD:
            answer = self.rig.post(f"/gallery/{item}/export", {"directory": folder, "file_name": name})
            self.assertIn(answer.status, (400, 422), name)
        self.assertEqual(sorted(os.listdir(folder)), sorted(self.GOOD))

    def test_files_of_models_are_listed_by_their_names(self):
        models = os.path.join(self.rig.folder, "studio", "models")
        os.makedirs(os.path.join(models, "upscalers"))
        names = ("caf\u00e9 \u6d77.safetensors", "space name (1).safetensors", "-rf.safetensors", ".hidden.safetensors",
                 "new\nline.safetensors", "Good One.safetensors", "a" * 70 + ".safetensors")
        for name in names:
            for folder in (models, os.path.join(models, "upscalers")):
                shutil.copy(GOLDEN / "upscalers" / "compact-x2" / "weights.safetensors", os.path.join(folder, name))
        answer = self.rig.post("/models/scan", {"directory": models, "recursive": False})
        self.assertEqual(answer.status, 200, answer.body)
        listed = {os.path.basename(each["path"]) for each in answer["files"]}
        self.assertEqual(listed, set(names) - {".hidden.safetensors"})
        self.assertEqual(self.rig.ask("PATCH", "/settings", {"model_directory": models}).status, 200)
        upscalers = self.rig.get("/capabilities")["upscalers"]
        self.assertEqual([(each["id"], each["factor"]) for each in upscalers], [("lanczos", None), ("good-one", 2)])
        self.assertNotIn("new\n", self.rig.log)

    def test_pictures_are_named_after_any_prompt(self):
        for prompt in ("/etc/passwd\n\u202e", "..", "\U0001f680" * 100, "con: \"<>|*?", " ", "-rf"):
            job = self.rig.ended(self.rig.job(prompt))
            self.assertEqual(job["state"], "completed", prompt)
        for name in agreement.names(self.rig, "gallery"):
            self.assertRegex(name, r"^img_[0-9a-z]{26}[^/\x00-\x1f\u202e]*\.(png|json)$")
            self.assertLess(len(name.encode()), 110)


class Raw(Cases):
    """Bytes as they are, at the studio's door: those that are a request in more than one way, or in none."""

    HEALTH, ORDER = "GET /api/v1/health HTTP/1.1", "POST /api/v1/jobs HTTP/1.1"
    JSON, BODY = "Content-Type: application/json", '{"prompt":"a boat"}'
    # What it is, the lines of its head, where "Host" and "Token" stand for ours, its body, and how it is answered.
    ROWS = (
        ("lengths and chunks", [ORDER, "Host", "Token", "Content-Length: 4", "Transfer-Encoding: chunked"],
         "0\r\n\r\nGET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n", [400]),
        ("two lengths", [ORDER, "Host", "Token", JSON, "Content-Length: 5", "Content-Length: 19"], BODY, [400]),
        ("a chunk over 64 bits", [ORDER, "Host", "Token", JSON, "Transfer-Encoding: chunked"],
         "FFFFFFFFFFFFFFFFF\r\nx\r\n0\r\n\r\n", [400]),
        ("no host", [HEALTH, "Connection: close"], "", [400]),
        ("a foreign host", [HEALTH, "Host: evil.example:11434", "Origin: http://evil.example:11434",
                            "Connection: close"], "", [421]),
        ("a frame in a sandbox", ["POST /api/v1/engine/stop HTTP/1.1", "Host", "Token", "Origin: null",
                                  "Content-Length: 0", "Connection: close"], "", [403]),
        ("a header of 100 kB", [HEALTH, "Host", "X-Long: " + "a" * 100_000], "", [431]),
        ("two at once", [HEALTH, "Host"],
         "GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", [200, 421]),
        ("dots in the path", ["GET /gallery/../../etc/passwd HTTP/1.1", "Host", "Token", "Connection: close"], "",
         [400]),
        ("dots in disguise", ["GET /api/v1/gallery/%2e%2e%2f%2e%2e%2fpasswd/content HTTP/1.1", "Host", "Token",
                              "Connection: close"], "", [400]),
        ("an upgrade", ["GET /api/v1/events HTTP/1.1", "Host", "Token", "Connection: Upgrade", "Upgrade: websocket"],
         "", [501]),
        ("who waits to be told to go on", [ORDER, "Host", "Token", JSON, "Expect: 100-continue", "Content-Length: 19",
                                           "Connection: close"], BODY, [100, 202]),
    )

    def answered(self, data):
        """The statuses of all that comes until the server closes the connection."""
        got = b""
        with socket.create_connection(("127.0.0.1", self.rig.port), 60) as client:
            with contextlib.suppress(ConnectionError):  # it may close before it has read all
                client.sendall(data)
            while piece := client.recv(65536):
                got += piece
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) [A-Z]", got)]

    def test_bytes_have_their_stated_result(self):
        own = {"Host": f"Host: 127.0.0.1:{self.rig.port}", "Token": f"Authorization: Bearer {TOKEN}"}
        self.rig.ended(self.rig.job("a boat"))
        for what, lines, body, statuses in self.ROWS:
            head = "\r\n".join(own.get(line, line) for line in lines)
            self.assertEqual(self.answered(f"{head}\r\n\r\n{body}".encode()), statuses, what)
        lines = f"{self.HEALTH}\n{own['Host']}\n\n"
        self.assertEqual(self.answered(lines.encode()), [400])
        ended = self.rig.ended(self.newest()["id"])  # nobody has stopped the engine
        self.assertEqual((ended["request"]["prompt"], ended["state"]), ("a boat", "completed"))


class Service(Cases):
    def leave(self, path, body):
        """Sends a request and closes before any byte of an answer."""
        data = json.dumps(body).encode()
        with socket.create_connection(("127.0.0.1", self.rig.port)) as client:
            client.sendall((f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.rig.port}\r\n"
                            f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
                            f"Content-Length: {len(data)}\r\n\r\n").encode() + data)
            end = time.monotonic() + 60
            while not self.rig.get("/jobs?limit=1&state=running")["items"]:
                self.assertLess(time.monotonic(), end, "no job runs")
        return self.newest()["id"]

    def test_who_closes_before_the_answer_has_its_picture_cancelled(self):
        job = self.leave("/v1/images/generations", {"prompt": "a boat", "n": 8, "size": "1024x1024",
                                                       "quality": "high"})
        self.assertEqual(self.rig.ended(job)["state"], "cancelled")
        self.assertEqual(self.rig.ended(self.rig.job("the next"))["state"], "completed")
        self.assertEqual(self.rig.get("/engine")["state"], "ready")

    def test_of_eight_at_once_each_gets_its_own(self):
        def draw(seed):
            return self.rig.send("POST", "/sdapi/v1/txt2img", {"prompt": "a boat", "seed": seed, "width": 64,
                                                               "height": 64 + 16 * seed})

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(draw, range(8)))
        for seed, answer in enumerate(answers):
            self.assertEqual(answer.status, 200, answer.body[:300])
            picture = Picture(base64.b64decode(answer["images"][0]))
            self.assertEqual((picture.width, picture.height), (64, 64 + 16 * seed))
            self.assertEqual(json.loads(answer["info"])["seed"], seed)

    def test_a_queued_job_goes_at_once_and_the_others_keep_their_order(self):
        jobs = [self.rig.job("boat 0", **LONG), *(self.rig.job(f"boat {i}", batch=2) for i in range(1, 4))]
        self.assertEqual(self.rig.post(f"/jobs/{jobs[2]}/cancel")["state"], "cancelled")
        ended = [self.rig.ended(job) for job in jobs]
        self.assertEqual([job["state"] for job in ended], ["completed", "completed", "cancelled", "completed"])
        starts = [job["started_at"] for job in ended if job["started_at"]]
        self.assertEqual(starts, sorted(starts))


tap.main()
