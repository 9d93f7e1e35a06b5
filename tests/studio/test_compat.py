"""Other people's APIs on the studio's port: what their clients send and read, and how each of them says no."""

import base64
import json
import os
import socket
import struct
import threading
import time
import unittest
import zlib
from concurrent.futures import ThreadPoolExecutor

import tap
from cli.png import png_file
from studio.rig import FORM, PATIENCE, TOKEN, Rig, form, png


def rgba(width, height, pixel):
    """A picture file of one colour, with transparency."""
    return png_file(width, height, 6, (b"\0" + bytes(pixel) * width) * height)


def size_of(picture):
    """Width and height of a PNG file."""
    assert picture.startswith(b"\x89PNG"), picture[:20]
    return struct.unpack(">II", picture[16:24])


SETTINGS = ("a red boat\non a lake\nNegative prompt: blurry\nSteps: 20, Sampler: Euler a, CFG scale: 7, "
            'Seed: 18446744073709551615, Size: 512x768, Model: "name, with comma"')


def with_settings(text):
    """A PNG file with a text below the key that A1111 chose."""
    data = b"tEXtparameters\0" + text.encode("ascii")
    chunk = struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    picture, end = png(16, 16), 12
    return picture[:-end] + chunk + picture[-end:]


def format_of(picture):
    """Of a file in base64."""
    starts = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"RIFF": "webp"}
    return next(name for start, name in starts.items() if base64.b64decode(picture).startswith(start))


class Compat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = Rig()
        cls.rig.edit_by_default()

    @classmethod
    def tearDownClass(cls):
        cls.rig.close()

    def send(self, method, path, body=None, type="application/json", credential="Bearer " + TOKEN, **headers):
        """One request with the credential as it is."""
        if credential:
            headers["Authorization"] = credential
        return self.rig.send(method, path, body, type, token=None, **headers)

    def good(self, answer, status=200):
        self.assertEqual(answer.status, status, answer.body[:500])
        return answer

    def wait_for(self, true, what):
        end = time.monotonic() + PATIENCE
        while not true():
            self.assertLess(time.monotonic(), end, f"{what} does not come")
            time.sleep(0.02)

    def newest_job(self):
        return self.rig.get("/jobs?limit=1")["items"][0]

    def running_job(self):
        """The job that runs, as soon as one does."""
        running = "/jobs?limit=1&state=running"
        self.wait_for(lambda: self.rig.get(running)["items"], "a job that runs")
        return self.rig.get(running)["items"][0]["id"]


class Doors(Compat):
    BASIC = "Basic " + base64.b64encode(("me:" + TOKEN).encode()).decode()

    def test_the_token_opens_in_each_form_that_clients_can_send(self):
        alone = "Basic " + base64.b64encode(TOKEN.encode()).decode()
        as_user = "Basic " + base64.b64encode((TOKEN + ":").encode()).decode()
        for credential in ("Bearer " + TOKEN, "bearer   " + TOKEN):
            self.good(self.send("GET", "/api/v1/status", credential=credential))
        for credential in ("Bearer " + TOKEN, self.BASIC, self.BASIC.replace(" ", "  "), alone, as_user):
            self.good(self.send("GET", "/v1/models", credential=credential))
            self.good(self.send("GET", "/sdapi/v1/options", credential=credential))
        for path in ("/v1/models", "/sdapi/v1/samplers", "/sdcpp/v1/capabilities"):
            self.good(self.send("GET", f"/key/{TOKEN}{path}", credential=None))
            self.good(self.send("GET", f"/key/{TOKEN}{path}", credential="Basic Og=="))

    def test_nothing_else_does(self):
        wrong = ["Basic Og==", "Basic !", "Basic " + base64.b64encode(b"me:" + TOKEN.encode()[1:]).decode(), "Bearer x",
                 "Bearer" + TOKEN, "Bearer\t" + TOKEN]
        for credential in wrong + [None]:
            answer = self.send("GET", "/v1/models", credential=credential)
            self.assertEqual(answer.status, 401)
            self.assertEqual(answer["error"]["type"], "invalid_request_error")
        self.assertEqual(self.send("GET", f"/key/{TOKEN[1:]}/v1/models", credential=None).status, 401)
        self.assertEqual(self.send("GET", f"/key/{TOKEN}/api/v1/status", credential=None).status, 401)
        self.assertEqual(self.send("GET", f"/key/{TOKEN}", credential=None).status, 401)

    def test_foreign_pages_and_names_stay_outside(self):
        for headers, status in (({"Origin": "http://evil.example"}, 403), ({"Sec_Fetch_Site": "cross-site"}, 403),
                                ({"Host": "evil.example"}, 421)):
            for path in ("/v1/models", "/sdapi/v1/options", "/sdcpp/v1/capabilities"):
                answer = self.send("GET", path, **headers)
                self.assertEqual(answer.status, status)
                self.assertEqual(answer.headers["Content-Type"], "application/json")
                self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])

    def test_each_api_says_no_in_its_own_words(self):
        openai = self.send("GET", "/v1/nothing")
        self.assertEqual(openai.status, 404)
        self.assertEqual(openai.json, {"error": {"message": "There is no such route", "type": "invalid_request_error",
                                                 "param": None, "code": "not_found"}})
        a1111 = self.send("GET", "/sdapi/v1/nothing")
        self.assertEqual(a1111.status, 404)
        self.assertEqual(a1111.json, {"error": "not_found", "detail": "There is no such route", "body": "",
                                      "errors": "There is no such route"})
        sdcpp = self.send("GET", "/sdcpp/v1/nothing")
        self.assertEqual((sdcpp.status, sdcpp.json), (404, {"error": "There is no such route"}))
        for path in ("/v1/images/generations", "/sdapi/v1/txt2img", "/sdapi/v1/extra-single-image",
                     "/sdapi/v1/png-info", "/sdcpp/v1/img_gen", "/sdcpp/v1/upscale", "/sdcpp/v1/vid_gen"):
            answer = self.send("POST", path, b'{"prompt":"x"')
            self.assertEqual(answer.status, 400, path)
            self.assertIn(b"The body is not JSON", answer.body, path)
        words = "The path is not in its plain form"
        for paths, own in (
                (("/v1//models", "//v1/models", "///v1/models"),
                 {"error": {"message": words, "type": "invalid_request_error", "param": None, "code": "path_invalid"}}),
                (("/sdapi//v1/options", "//sdapi/v1/options", "/sdapi/v1//options"),
                 {"error": "path_invalid", "detail": words, "body": "", "errors": words}),
                (("/sdcpp//v1/capabilities", "//sdcpp/v1/capabilities", f"/key/{TOKEN}//sdcpp/v1/capabilities"),
                 {"error": words})):
            for path in paths:  # as a base URL with a slash at its end makes them
                answer = self.send("GET", path)
                self.assertEqual((answer.status, answer.json), (400, own), path)
                self.assertEqual(self.send("GET", path.replace(TOKEN, "x"), credential=None).status, 401, path)
        for path in ("/v1/images/generations", "/sdapi/v1/txt2img", "/sdcpp/v1/img_gen"):
            self.assertEqual(self.send("PUT", path, {}).status, 405)
            self.assertEqual(self.send("POST", path, b"a=b", type="text/plain").status, 415)
            for broken in (b"", b"{", b"\xff", b'{"prompt":"a"} x', b"[" * 100000):
                answer = self.send("POST", path, broken)
                self.assertEqual(answer.status, 400, broken[:20])
                self.assertIn("error", answer.json)
        self.assertEqual(self.send("POST", "/sdcpp/v1/img_gen", b"{")["error"], "invalid json")
        for text in (b"a\\u0000b", b"a \\ud83d"):  # JSON that is not taken
            body = b'{"prompt":"%s"}' % text
            self.assertEqual(self.send("POST", "/v1/images/generations", body)["error"]["param"], "prompt")
            self.assertEqual(self.send("POST", "/sdapi/v1/txt2img", body).status, 422)
            self.assertTrue(self.send("POST", "/sdcpp/v1/img_gen", body)["error"].startswith("prompt: "))

    def test_a_ping_needs_no_credential(self):
        answer = self.send("OPTIONS", "/v1/images/generations", credential=None)
        self.assertEqual((answer.status, answer.body), (204, b""))

    def test_two_large_bodies_are_read_at_a_time(self):
        head = (f"POST /v1/images/edits HTTP/1.1\r\nHost: 127.0.0.1:{self.rig.port}\r\n"
                f"Authorization: Bearer {TOKEN}\r\nContent-Type: {FORM}\r\nContent-Length: {8 << 20}\r\n\r\n").encode()
        slow = [socket.create_connection(("127.0.0.1", self.rig.port)) for _ in range(2)]
        for one in slow:
            one.sendall(head + b"--b0undary")

        def large():
            return self.send("POST", "/v1/images/edits", form(("image", "a", b"x" * (5 << 20))), type=FORM)

        self.wait_for(lambda: large().status == 429, "the second of them")
        answer = large()
        self.assertEqual((answer.status, answer["error"]["code"]), (429, "too_many_bodies"))
        self.assertEqual(answer.headers["Retry-After"], "2")
        for one in slow:
            one.close()
        self.wait_for(lambda: large().status == 400, "room for a large body")
        answer = self.send("POST", "/v1/images/edits", b"x", type=FORM, Content_Length=str(65 << 20))
        self.assertEqual(answer.status, 413)


class OpenAI(Compat):
    def draw(self, **more):
        return self.send("POST", "/v1/images/generations", {"prompt": "a red boat", **more})

    def test_a_prompt_becomes_a_picture(self):
        answer = self.good(self.draw(model="gpt-image-1", n=2, size="256x128", quality="high", seed="9007199254740993",
                                     response_format="b64_json", user="somebody", moderation="low", svg=None))
        self.assertEqual([size_of(base64.b64decode(one["b64_json"])) for one in answer["data"]], [(256, 128)] * 2)
        self.assertEqual({key: answer[key] for key in ("size", "quality", "background", "output_format")},
                         {"size": "256x128", "quality": "high", "background": "opaque", "output_format": "png"})
        job = self.newest_job()
        self.assertEqual(job["seeds"], ["9007199254740993", "9007199254740994"])
        self.assertEqual(job["request"]["preset"], "quality")

    def test_steps_and_guidance_are_those_that_the_model_can_do(self):
        self.good(self.draw(steps=3, cfg=2.5))
        job = self.newest_job()
        self.assertEqual((job["plan"]["steps"], job["plan"]["guidance"], job["notes"]), (3, 2.5, []))
        self.good(self.draw(model="demo", steps=3, cfg=2.5))
        job = self.newest_job()
        self.assertEqual((job["plan"]["steps"], job["plan"]["guidance"]), (8, 1))
        self.assertEqual([note["code"] for note in job["notes"]], ["settings_adjusted"])

    def test_models_are_profiles(self):
        models = self.good(self.send("GET", "/v1/models"))["data"]
        self.assertEqual([one["id"] for one in models], ["editor", "demo"])
        self.assertEqual((models[0]["object"], models[0]["owned_by"]), ("model", "kuno"))
        self.assertEqual(self.good(self.send("GET", "/v1/models/demo"))["id"], "demo")
        answer = self.send("GET", "/v1/models/nobody")
        self.assertEqual((answer.status, answer["error"]["param"]), (404, "model"))
        for name in ("nobody", "Some Model"):
            answer = self.draw(model=name)
            self.assertEqual((answer.status, answer["error"]["code"], answer["error"]["param"]),
                             (404, "model_not_found", "model"))
        self.good(self.draw(model="demo"))
        self.good(self.draw(model=None))

    def test_what_is_wrong_is_named(self):
        for member, value in (("size", "7x7"), ("size", "64"), ("size", "1024x16"), ("size", 512), ("size", "64x64x64"),
                              ("n", 0), ("n", 99), ("n", "2"), ("output_format", "gif"), ("output_compression", 101),
                              ("background", "blue"), ("quality", "best"), ("response_format", "url"),
                              ("stream", "yes"),
                              ("partial_images", 4), ("seed", 1.5), ("seed", 2**64), ("seed", "x"), ("steps", "4"),
                              ("prompt", ""), ("prompt", "a" * 60000), ("prompt", 5)):
            answer = self.draw(**{member: value})
            self.assertEqual((answer.status, answer["error"]["param"]), (400, member), (member, value))
            self.assertEqual(answer["error"]["type"], "invalid_request_error")
        answer = self.draw(background="transparent", output_format="jpeg")
        self.assertEqual((answer.status, answer["error"]["param"]), (400, "background"))
        self.assertEqual(self.send("POST", "/v1/images/generations", {"n": 1}).status, 400)
        self.assertEqual(self.send("POST", "/v1/images/generations", b'{"prompt":"a","prompt":"b"}').status, 400)
        self.assertEqual(self.send("POST", "/v1/images/generations", []).status, 400)

    def test_a_stream_shows_previews_and_ends_with_the_pictures(self):
        answer = self.good(self.draw(prompt="ms=150 steps=6", n=2, stream=True, partial_images=2, size="64x64"))
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream; charset=utf-8")
        events = [block.split(b"\ndata: ") for block in answer.body.split(b"\n\n") if b"data: " in block]
        kinds = [kind.decode().removeprefix("event: ") for kind, _ in events]
        self.assertEqual(kinds, ["image_generation.partial_image"] * 2 + ["image_generation.completed"] * 2)
        documents = [json.loads(data) for _, data in events]
        self.assertEqual([one["type"] for one in documents], kinds)
        self.assertEqual([one["partial_image_index"] for one in documents[:2]], [0, 1])
        for one in documents:
            size_of(base64.b64decode(one["b64_json"]))
            self.assertEqual((one["size"], one["output_format"]), ("64x64", "png"))
        self.assertEqual(documents[-1]["usage"]["total_tokens"], 0)

    def test_pictures_and_previews_have_the_format_that_was_asked_for(self):
        for name in ("png", "jpeg", "webp"):
            answer = self.good(self.draw(output_format=name, output_compression=50))
            self.assertEqual((answer["output_format"], format_of(answer["data"][0]["b64_json"])), (name, name))
            self.assertEqual(self.newest_job()["request"]["output"]["quality"], 50)
            answer = self.good(self.draw(prompt="ms=150 steps=6", stream=True, partial_images=2, output_format=name))
            documents = [json.loads(block.split(b"\ndata: ")[1])
                         for block in answer.body.split(b"\n\n") if b"data: " in block]
            self.assertEqual([one["type"].split(".")[1] for one in documents], ["partial_image"] * 2 + ["completed"])
            self.assertEqual([format_of(one["b64_json"]) for one in documents], [name] * 3)
        self.good(self.draw(output_format="webp", background="transparent"))

    def test_a_retried_job_is_the_order_that_was_given(self):
        self.good(self.draw(steps=3, cfg=2.5, seed=11, size="64x96", output_format="webp", output_compression=70))
        first = self.newest_job()
        answer = self.rig.post(f"/jobs/{first['id']}/retry")
        self.assertEqual(answer.status, 202, answer.body)
        again = self.rig.ended(answer["id"])
        self.assertNotEqual(again["id"], first["id"])
        self.assertEqual((again["plan"]["steps"], again["plan"]["guidance"]), (3, 2.5))
        more = self.rig.ended(self.rig.post(f"/jobs/{again['id']}/retry")["id"])
        self.assertEqual([self.essence(one) for one in (again, more)], [self.essence(first)] * 2)
        own = self.rig.ended(self.rig.job("its own", seed="3"))
        again = self.rig.ended(self.rig.post(f"/jobs/{own['id']}/retry")["id"])
        self.assertEqual(self.essence(again), self.essence(own))

    def essence(self, job):
        """What of a job does not depend on when it was made."""
        own = {member: job[member] for member in ("request", "plan", "seeds", "notes", "kind")}
        return {**own, "plan": {**own["plan"], "memory": None, "estimated_seconds": None}}

    def test_a_failure_is_told_once_and_not_tried_again(self):
        failures = {"engine_failed": 500, "missing_model": 409, "input_invalid": 400, "isolation_missing": 503,
                    "disk_full": 507}
        for code, status in failures.items():
            answer = self.draw(prompt="fails=" + code)
            self.assertEqual(answer.status, status)
            self.assertIn("asked to fail", answer["error"]["message"])
            self.assertEqual(answer.headers["X-Should-Retry"], "false" if status != 400 else None)
        answer = self.good(self.draw(prompt="fails=engine_failed", stream=True))
        event, data = answer.body.strip().rsplit(b"\n\n", 1)[-1].split(b"\ndata: ")
        self.assertEqual((event, json.loads(data)["error"]["code"]), (b"event: error", "generation_failed"))

    def edit(self, *parts):
        return self.send("POST", "/v1/images/edits", form(*parts), type=FORM)

    def test_pictures_are_edited(self):
        one, other, mask = png(64, 64, 10), png(32, 48, 20), rgba(64, 64, (0, 0, 0, 0))
        self.good(self.edit(("prompt", "make it blue"), ("image", "a.png", one)))
        self.assertEqual([each["role"] for each in self.newest_job()["request"]["inputs"]], ["source"])
        self.good(self.edit(("image[]", "a.png", one), ("image[]", "b.txt", other), ("prompt", "both"), ("n", "2")))
        job = self.newest_job()
        self.assertEqual([each["role"] for each in job["request"]["inputs"]], ["source", "reference"])
        self.assertEqual((job["kind"], len(job["results"])), ("edit", 2))
        self.good(self.edit(("mask", "m.png", mask), ("prompt", "here"), ("image", "upload", one), ("size", "auto")))
        job = self.newest_job()
        self.assertEqual([each["role"] for each in job["request"]["inputs"]], ["mask", "source"])
        self.assertEqual(job["kind"], "inpaint")
        answer = self.good(self.edit(("stream", "true"), ("prompt", "a"), ("image", "a", one)))
        self.assertIn(b"event: image_edit.completed\n", answer.body)

    def test_what_is_wrong_with_a_form_is_named(self):
        one = png(64, 64)
        for parts, parameter in (
            ([("image", "a.png", one)], None),
            ([("prompt", "a")], "image"),
            ([("prompt", "a"), ("image", "a.png", b"")], "image"),
            ([("prompt", "a"), ("image", "a.png", b"hello")], "image"),
            ([("prompt", "a"), ("image", "a.png", one[:60])], "image"),
            ([("prompt", "a"), ("image", "text")], "image"),
            ([("prompt", "a"), ("image", "a.png", one), ("mask", "m.png", b"")], "mask"),
            ([("prompt", "a"), ("image", "a.png", one), ("mask", "m.png", b"hello")], "mask"),
            ([("prompt", "a"), ("mask", "m.png", one[:60]), ("image", "a.png", one)], "mask"),
            ([("prompt", "a"), ("mask", "m.png", png(64, 64, 0)), ("image", "a.png", one)], "mask"),  # all is kept
            ([("prompt", "a"), ("image", "a.png", one), ("mask", "text")], "mask"),
            ([("prompt", "a"), ("markup", "a.png", one), ("image", "a.png", one)], "markup"),
            ([("prompt", "a"), ("prompt", "b"), ("image", "a.png", one)], "prompt"),
            ([("prompt", b"\xff"), ("image", "a.png", one)], "prompt"),
            ([("prompt", "a"), ("n", "x"), ("image", "a.png", one)], "n"),
            ([("prompt", "a"), ("n", "99"), ("image", "a.png", one)], "n"),
        ):
            answer = self.edit(*parts)
            self.assertEqual((answer.status, answer["error"]["param"]), (400, parameter), answer.body)
        self.assertEqual(self.edit(("prompt", "a"), *[("image[]", "a", one)] * 13).status, 400)
        broken = form(("prompt", "a"), ("image", "a.png", one))[:-4]
        self.assertEqual(self.send("POST", "/v1/images/edits", broken, type=FORM).status, 400)
        self.assertEqual(self.send("POST", "/v1/images/edits", broken, type="multipart/form-data").status, 400)
        self.assertEqual(self.send("POST", "/v1/images/edits", {"prompt": "a"}).status, 415)
        self.assertEqual([item for item in self.rig.get("/inputs")["items"] if item["width"] < 16], [])
        answer = self.edit(("prompt", "a"), ("image", "a.png", png(1, 1)))  # a picture, but nothing to draw from
        self.assertEqual((answer.status, answer["error"]["param"]), (400, "image"), answer.body)

    def test_who_leaves_has_its_job_cancelled(self):
        for stream in (False, True):
            body = json.dumps({"prompt": "ms=20 steps=5000", "stream": stream}).encode()
            with socket.create_connection(("127.0.0.1", self.rig.port)) as client:
                client.sendall((f"POST /v1/images/generations HTTP/1.1\r\nHost: 127.0.0.1:{self.rig.port}\r\n"
                                f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
                                f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
                job = self.running_job()
            self.assertEqual(self.rig.ended(job)["state"], "cancelled")

    def test_a_cancelled_job_is_told_to_who_waits(self):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.draw(prompt="ms=20 steps=5000")))
        thread.start()
        self.rig.post(f"/jobs/{self.running_job()}/cancel")
        thread.join()
        self.assertEqual((answers[0].status, answers[0]["error"]["code"]), (409, "cancelled"))

    def test_eight_at_once_get_their_own_pictures(self):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda seed: self.draw(seed=seed, size=f"{64 + 16 * seed}x64"), range(8)))
        for seed, answer in enumerate(answers):
            self.assertEqual(size_of(base64.b64decode(self.good(answer)["data"][0]["b64_json"])), (64 + 16 * seed, 64))


class A1111(Compat):
    SILLY_TAVERN = {"prompt": "a red boat", "negative_prompt": "blurry", "width": 512, "height": 512, "steps": 20,
                    "cfg_scale": 7, "batch_size": 1, "sampler_name": "euler_a", "scheduler": "karras"}

    def draw(self, **more):
        return self.send("POST", "/sdapi/v1/txt2img", {**self.SILLY_TAVERN, **more})

    def test_silly_tavern_gets_its_picture(self):
        answer = self.good(self.draw(model="demo", seed=42, clip_skip=2))
        self.assertEqual(size_of(base64.b64decode(answer["images"][0])), (512, 512))
        info = json.loads(answer["info"])
        self.assertEqual((info["seed"], info["all_seeds"], info["width"], info["height"]), (42, [42], 512, 512))
        self.assertEqual((info["prompt"], info["negative_prompt"], info["sampler_name"]),
                         ("a red boat", "blurry", "euler_ancestral"))
        self.assertIn("Seed: 42", info["infotexts"][0])
        self.assertEqual(self.newest_job()["request"]["sampler"], "euler_ancestral")

    def test_what_means_nothing_here_is_stepped_over(self):
        self.good(self.draw(url="http://x", auth="", restore_faces=False, enable_hr=False, hr_upscaler="Latent",
                            hr_scale=1.5, hr_additional_modules=[], denoising_strength=0.7, hr_second_pass_steps=0,
                            override_settings={"CLIP_stop_at_last_layers": 1, "sd_vae": "x"}, clip_skip=1,
                            override_settings_restore_afterwards=True, save_images=True, send_images=True,
                            do_not_save_grid=False, styles=None, alwayson_scripts={"a": {"args": []}}))
        for name, ours in (("Euler a", "euler_ancestral"), ("DPM++ 2M Karras", "dpmpp_2m"), ("k_euler", "euler")):
            self.good(self.draw(sampler_name=name))
            self.assertEqual(self.newest_job()["request"]["sampler"], ours)
        self.good(self.draw(sampler_name="PLMS"))
        self.assertNotIn("sampler", self.newest_job()["request"])

    def test_seeds_that_are_chosen_keep_their_digits_in_javascript(self):
        for _ in range(3):
            info = json.loads(self.good(self.draw(seed=-1, batch_size=2))["info"])
            self.assertEqual(info["all_seeds"], [info["seed"], info["seed"] + 1])
            self.assertTrue(all(0 <= seed < 2**53 for seed in info["all_seeds"]), info["all_seeds"])

    def test_open_web_ui_gets_its_picture(self):
        options = self.good(self.send("GET", "/sdapi/v1/options")).json
        self.assertEqual(options["sd_model_checkpoint"], "editor")
        answer = self.good(self.send("POST", "/sdapi/v1/options", options))
        self.assertEqual(answer.body, b"null")
        answer = self.good(self.send("POST", "/sdapi/v1/txt2img", {"prompt": "a", "batch_size": 2, "width": 96,
                                                                   "height": 64, "steps": 4}))
        self.assertEqual([size_of(base64.b64decode(one)) for one in answer["images"]], [(96, 64)] * 2)
        self.assertIsInstance(json.loads(answer["info"]), dict)

    def test_another_model_is_chosen_in_the_studio(self):
        for name, status in (("png", 200), (None, 200), ("jpg", 400), ("webp", 400), ("gif", 400), (5, 400)):
            self.assertEqual(self.send("POST", "/sdapi/v1/options", {"samples_format": name}).status, status, name)
        for name, code in (("nobody", "model_unknown"), ("No such!", "model_unknown"), ("demo", "model_fixed")):
            answer = self.send("POST", "/sdapi/v1/options", {"sd_model_checkpoint": name})
            self.assertEqual((answer.status, answer["error"]), (400, code))
        self.good(self.draw(override_settings={"sd_model_checkpoint": "demo"}))
        self.assertEqual(self.draw(override_settings={"sd_model_checkpoint": "nobody"}).status, 422)

    def test_lists_name_what_there_is(self):
        self.assertIn("euler", [one["name"] for one in self.send("GET", "/sdapi/v1/samplers").json])
        for path in ("schedulers", "upscalers", "latent-upscale-modes"):
            self.assertTrue(all(one["name"] for one in self.good(self.send("GET", "/sdapi/v1/" + path)).json))
        self.assertEqual({one["title"] for one in self.send("GET", "/sdapi/v1/sd-models").json}, {"demo", "editor"})
        for path in ("sd-vae", "sd-modules", "loras"):
            self.assertEqual(self.good(self.send("GET", "/sdapi/v1/" + path)).json, [])
        self.assertEqual(self.send("GET", "/sdapi/v1/embeddings").json, {"loaded": {}, "skipped": {}})

    def test_pictures_are_changed(self):
        one, mask = base64.b64encode(png(64, 96)).decode(), base64.b64encode(png(64, 96, 255)).decode()
        answer = self.send("POST", "/sdapi/v1/img2img", {"prompt": "a", "width": 64, "height": 96, "init_images": [one],
                                                         "denoising_strength": 0.5, "inpainting_mask_invert": 0})
        self.good(answer)
        self.assertEqual(self.newest_job()["kind"], "edit")
        for more, feather in (({}, None), ({"mask_blur": 4}, 10), ({"mask_blur": 0}, 0), ({"mask_blur": 64}, 160)):
            self.good(self.send("POST", "/sdapi/v1/img2img", {"prompt": "a", "width": 64, "height": 96, "mask": mask,
                                                              "init_images": ["data:image/png;base64," + one], **more}))
            job = self.newest_job()
            self.assertEqual((job["kind"], job["request"].get("feather")), ("inpaint", feather))
        self.good(self.send("POST", "/sdapi/v1/img2img", {"prompt": "a", "width": 64, "height": 96, "mask_blur": 4,
                                                          "init_images": [one]}))
        self.assertNotIn("feather", self.newest_job()["request"])

    def test_what_is_wrong_is_named(self):
        for member, value in (("width", 0), ("width", 2**31 - 1), ("height", -1), ("steps", "20"), ("cfg_scale", None),
                              ("seed", 1.5), ("batch_size", 0), ("enable_hr", True), ("prompt", None), ("prompt", "")):
            answer = self.draw(**{member: value})
            if value is None and member != "prompt":
                self.good(answer)
                continue
            self.assertEqual(answer.status, 422, (member, value, answer.body[:300]))
            self.assertEqual(set(answer.json), {"error", "detail", "body", "errors"})
        self.assertEqual(self.draw(batch_size=4, n_iter=4).status, 422)
        self.assertEqual(self.send("POST", "/sdapi/v1/img2img", {"prompt": "a"}).status, 422)
        one = base64.b64encode(png(64, 64)).decode()
        for picture in ("http://127.0.0.1/a.png", "!", one[:-3], "", 5, base64.b64encode(b"hello").decode()):
            answer = self.send("POST", "/sdapi/v1/img2img", {"prompt": "a", "init_images": [picture]})
            self.assertEqual(answer.status, 422, picture)
        answer = self.send("POST", "/sdapi/v1/img2img",
                           {"prompt": "a", "init_images": [one], "mask": one, "inpainting_mask_invert": 1})
        self.assertEqual(answer.status, 422)

    def test_formats_come_with_the_settings_of_the_order(self):
        for name in ("jpg", "jpeg", "webp", "png", "JPG"):
            answer = self.good(self.draw(override_settings={"samples_format": name, "jpeg_quality": 60}))
            self.assertEqual(format_of(answer["images"][0]), {"jpg": "jpeg"}.get(name.lower(), name.lower()))
        self.assertEqual(self.draw(override_settings={"samples_format": "avif"}).status, 422)

    def extra(self, **more):
        one = base64.b64encode(png(40, 20)).decode()
        return self.send("POST", "/sdapi/v1/extra-single-image", {"image": one, **more})

    def test_a_picture_is_enlarged(self):
        for more, size in (({}, (80, 40)), ({"upscaling_resize": 3.5, "upscaler_1": "Lanczos"}, (140, 70)),
                           ({"upscaling_resize": 4, "upscaler_1": "None"}, (40, 20)),
                           ({"resize_mode": 1, "upscaling_resize_w": 100, "upscaling_resize_h": 50}, (100, 50)),
                           ({"resize_mode": 1, "upscaling_resize_w": 100, "upscaling_resize_h": 90,
                             "upscaling_crop": False}, (180, 90)),
                           ({"gfpgan_visibility": 0, "show_extras_results": True, "upscale_first": False}, (80, 40))):
            answer = self.good(self.extra(**more))
            self.assertEqual((size_of(base64.b64decode(answer["image"])), answer["html_info"]), (size, ""))
            self.assertEqual(self.newest_job()["kind"], "upscale")
        for more in ({"image": None}, {"image": "!"}, {"gfpgan_visibility": 0.5},
                     {"extras_upscaler_2_visibility": 1}, {"upscaling_resize": 0}, {"upscaling_resize": "2"},
                     {"upscaling_resize": 0.1}, {"upscaler_1": "../x"}, {"resize_mode": 1},
                     {"resize_mode": 1, "upscaling_resize_w": 100, "upscaling_resize_h": 90}):
            answer = self.extra(**more)
            self.assertEqual((answer.status, sorted(answer.json)), (422, ["body", "detail", "error", "errors"]), more)
        answer = self.extra(upscaler_1="nobody")
        self.assertEqual((answer.status, answer["error"]), (409, "missing_model"))

    def png_info(self, picture):
        return self.send("POST", "/sdapi/v1/png-info", {"image": base64.b64encode(picture).decode()})

    def test_the_settings_in_a_picture_are_told(self):
        answer = self.good(self.png_info(with_settings(SETTINGS))).json
        self.assertEqual(answer, {"info": SETTINGS, "items": {}, "parameters": {
            "Prompt": "a red boat\non a lake", "Negative prompt": "blurry", "Steps": "20", "Sampler": "Euler a",
            "CFG scale": "7", "Seed": "18446744073709551615", "Size": "512x768", "Model": "name, with comma"}})
        nothing = {"info": "", "items": {}, "parameters": {}}
        self.assertEqual(self.good(self.png_info(png(16, 16))).json, nothing)
        self.assertEqual(self.good(self.png_info(with_settings("x" * (128 << 10)))).json["info"], "x" * (128 << 10))
        self.assertEqual(self.good(self.png_info(with_settings("x" * ((128 << 10) + 1)))).json, nothing)
        many = ", ".join(f"A{i}: 1" for i in range(65))
        self.assertEqual(self.good(self.png_info(with_settings(many))).json, {**nothing, "info": many})

    def test_what_is_no_picture_has_no_settings(self):
        for body in ({}, {"image": None}, {"image": ""}, {"image": "!"}, {"image": 1}, {"image": "http://x/y.png"},
                     {"image": base64.b64encode(b"text").decode()},
                     {"image": base64.b64encode(png(16, 16)[:20]).decode()}):
            answer = self.send("POST", "/sdapi/v1/png-info", body)
            self.assertEqual((answer.status, sorted(answer.json)), (422, ["body", "detail", "error", "errors"]), body)
        self.assertEqual(self.send("POST", "/sdapi/v1/png-info", b"{").status, 400)
        damaged = with_settings(SETTINGS).replace(b"a red boat", b"a red goat")
        self.assertEqual(self.png_info(damaged).status, 422)

    def test_progress_is_shown_and_interrupted(self):
        idle = self.good(self.send("GET", "/sdapi/v1/progress")).json
        self.assertEqual((idle["progress"], idle["state"]["job_count"], idle["current_image"]), (0, 0, None))
        self.assertEqual(self.good(self.send("POST", "/sdapi/v1/interrupt")).json, {})
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.draw(prompt="ms=20 steps=5000")))
        thread.start()
        job = self.running_job()
        self.wait_for(lambda: self.send("GET", "/sdapi/v1/progress")["current_image"], "a preview")
        running = self.send("GET", "/sdapi/v1/progress").json
        self.assertTrue(0 < running["progress"] < 1)
        self.assertEqual((running["state"]["job_count"], running["state"]["sampling_steps"]), (1, 5000))
        size_of(base64.b64decode(running["current_image"]))
        self.assertIsNone(self.send("GET", "/sdapi/v1/progress?skip_current_image=true")["current_image"])
        self.assertEqual(self.good(self.send("POST", "/sdapi/v1/interrupt")).json, {})
        thread.join()
        self.assertEqual((answers[0].status, answers[0]["error"]), (409, "cancelled"))
        self.assertEqual(self.rig.ended(job)["state"], "cancelled")

    def test_the_studios_own_jobs_are_not_interrupted(self):
        job = self.rig.job("ms=20 steps=100")
        self.running_job()
        self.good(self.send("POST", "/sdapi/v1/interrupt", b""))
        self.assertEqual(self.rig.ended(job)["state"], "completed")


class Sdcpp(Compat):
    def submit(self, **more):
        return self.send("POST", "/sdcpp/v1/img_gen", {"prompt": "a red boat", **more})

    def ended(self, url):
        job = {}

        def has_ended():
            job.update(self.good(self.send("GET", url)).json)
            return job["status"] not in ("queued", "generating")

        self.wait_for(has_ended, "the end")
        return job

    def test_a_job_is_polled_until_its_pictures_are_there(self):
        answer = self.good(self.submit(width=96, height=64, seed=7, batch_count=2, output_format="PNG",
                                       sample_params={"sample_method": "euler", "scheduler": "karras",
                                                      "sample_steps": 5,
                                                      "guidance": {"txt_cfg": 1.5, "img_cfg": None}, "eta": 0.1},
                                       hires={"enabled": False}, lora=[], vae_tiling_params={"enabled": True},
                                       nonsense=1), 202)
        self.assertEqual((answer["kind"], answer["status"]), ("img_gen", "queued"))
        self.assertEqual(answer["poll_url"], "/sdcpp/v1/jobs/" + answer["id"])
        job = self.ended(answer["poll_url"])
        self.assertEqual((job["status"], job["error"], job["queue_position"]), ("completed", None, 0))
        self.assertTrue(job["created"] <= job["started"] <= job["completed"])
        self.assertEqual(job["result"]["output_format"], "png")
        self.assertEqual([one["index"] for one in job["result"]["images"]], [0, 1])
        for one in job["result"]["images"]:
            self.assertEqual(size_of(base64.b64decode(one["b64_json"])), (96, 64))
        made = self.rig.get("/jobs/" + answer["id"])
        self.assertEqual((made["seeds"], made["plan"]["steps"], made["plan"]["guidance"]), (["7", "8"], 5, 1.5))

    def test_results_have_the_format_that_was_asked_for(self):
        for name in ("png", "jpeg", "WebP"):
            job = self.ended(self.good(self.submit(output_format=name, output_compression=40), 202)["poll_url"])
            self.assertEqual(job["result"]["output_format"], name.lower())
            self.assertEqual(format_of(job["result"]["images"][0]["b64_json"]), name.lower())
        self.good(self.submit(embed_image_metadata=False), 202)
        self.assertFalse(self.newest_job()["request"]["output"]["embed_metadata"])

    def test_a_picture_is_enlarged_by_a_network_as_often_as_was_said(self):
        models = os.path.join(self.rig.folder, "models")
        os.makedirs(os.path.join(models, "upscalers"))
        for name, factor in (("2x-Sharp", "2"), ("3x-soft", "3"), ("none-at-all", "x")):
            with open(os.path.join(models, "upscalers", name + ".safetensors"), "w") as file:
                file.write(factor)
        self.good(self.rig.ask("PATCH", "/settings", {"model_directory": models}))
        one = base64.b64encode(png(40, 20)).decode()

        def enlarge(**more):
            return self.send("POST", "/sdcpp/v1/upscale", {"image": one, "upscaler": "2x-sharp", **more})

        for more, scale, repeats in (({}, 2, 1), ({"repeats": 3, "tile_size": 64}, 2, 3),
                                     ({"upscaler": "3x-Soft", "image": "data:image/png;base64," + one}, 3, 1)):
            answer = self.good(enlarge(**more)).json
            size = (40 * scale**repeats, 20 * scale**repeats)
            self.assertEqual(size_of(base64.b64decode(answer["images"][0].pop("b64_json"))), size)
            self.assertEqual(answer, {"images": [{"index": 0}], "output_format": "png", "width": size[0],
                                      "height": size[1], "scale": scale, "repeats": repeats})
        self.assertEqual(format_of(self.good(enlarge(output_format="webp"))["images"][0]["b64_json"]), "webp")
        for more in ({"image": None}, {"image": "!"}, {"upscaler": "none-at-all"}, {"upscaler": "nobody"},
                     {"upscaler": "Lanczos"}, {"upscaler": "None"}, {"repeats": 0}, {"repeats": 5},
                     {"tile_size": 4096}, {"output_format": "gif"},
                     {"image": base64.b64encode(png(3000, 20)).decode(), "repeats": 2}):
            answer = enlarge(**more)
            self.assertEqual((answer.status, list(answer.json)), (400, ["error"]), more)
        can = self.good(self.send("GET", "/sdcpp/v1/capabilities")).json
        self.assertEqual([(each["name"], each["image_upscale"]) for each in can["upscalers"]],
                         [("None", False), ("lanczos", False), ("2x-sharp", True), ("3x-soft", True)])
        self.assertEqual((can["upscale"], can["limits"]["max_upscale_width"]), (True, 8192))
        names = self.good(self.send("GET", "/sdapi/v1/upscalers")).json
        self.assertEqual([(each["name"], each["scale"]) for each in names],
                         [("None", 4), ("Lanczos", 4), ("2x-sharp", 2), ("3x-soft", 3)])
        self.good(self.rig.ask("PATCH", "/settings", {"model_directory": self.rig.folder}))

    def test_a_running_job_is_cancelled(self):
        running, queued = self.submit(prompt="ms=20 steps=5000"), self.submit()
        self.running_job_is(running["id"])
        answer = self.send("POST", queued["poll_url"] + "/cancel")
        self.assertEqual((answer.status, answer["status"]), (200, "cancelled"))
        answer = self.send("POST", running["poll_url"] + "/cancel")
        self.assertEqual((answer.status, answer["status"]), (202, "generating"))
        job = self.ended(running["poll_url"])
        self.assertEqual((job["status"], job["error"]["code"], job["result"]), ("cancelled", "cancelled", None))
        self.assertEqual(self.send("POST", running["poll_url"] + "/cancel").status, 200)

    def running_job_is(self, job):
        self.wait_for(lambda: self.send("GET", "/sdcpp/v1/jobs/" + job)["status"] == "generating", "its start")

    def test_a_client_that_leaves_keeps_its_job(self):
        job = self.submit(prompt="ms=20 steps=10")
        self.assertEqual(self.ended(job["poll_url"])["status"], "completed")

    def test_failures_and_lost_jobs_are_told(self):
        job = self.ended(self.submit(prompt="fails=engine_failed")["poll_url"])
        self.assertEqual((job["status"], job["error"]["code"]), ("failed", "generation_failed"))
        self.assertEqual(self.rig.ask("DELETE", "/jobs/" + job["id"]).status, 204)
        self.assertEqual(self.send("GET", "/sdcpp/v1/jobs/" + job["id"]).status, 410)
        for path in ("/sdcpp/v1/jobs/job_1234_00000001", "/sdcpp/v1/jobs/x", "/sdcpp/v1/vid"):
            self.assertEqual(self.send("GET", path).status, 404)

    def test_videos_are_refused_as_by_a_server_whose_model_makes_none(self):
        answer = self.send("POST", "/sdcpp/v1/vid_gen", {"prompt": "a boat", "video_frames": 33})
        self.assertEqual((answer.status, sorted(answer.json)), (400, ["error"]))
        self.assertEqual(self.send("GET", "/sdcpp/v1/capabilities")["supported_modes"], ["img_gen"])

    def test_pictures_go_into_jobs_and_deleted_ones_out_of_results(self):
        one, mask = base64.b64encode(png(64, 64, 30)).decode(), base64.b64encode(png(64, 64, 255)).decode()
        job = self.good(self.submit(init_image="data:image/png;base64," + one, mask_image=mask, ref_images=[], width=-1,
                                    height=-1), 202)
        self.ended(job["poll_url"])
        self.assertEqual(self.newest_job()["kind"], "inpaint")
        job = self.good(self.submit(ref_images=[one, one]), 202)
        self.ended(job["poll_url"])
        made = self.newest_job()
        self.assertEqual([each["role"] for each in made["request"]["inputs"]], ["reference"] * 2)
        self.assertEqual(self.rig.ask("DELETE", "/gallery/" + made["results"][0]["gallery_item"]).status, 204)
        self.assertEqual(self.ended(job["poll_url"])["result"]["images"], [])

    def test_what_is_wrong_is_refused(self):
        for member, value in (("width", 5), ("seed", 1.5), ("steps", []), ("lora", [{"path": "../x"}]),
                              ("control_image", "x"), ("init_image", "x"), ("ref_images", ["!"]),
                              ("output_format", "gif"),
                              ("hires", {"enabled": True}), ("sample_params", 1), ("prompt", ""),
                              ("sample_params", {"custom_sigmas": [1, 0]}),
                              ("sample_params", {"guidance": {"txt_cfg": -1}})):
            answer = self.submit(**{member: value})
            if member == "steps":
                self.assertEqual(answer.status, 202)
                continue
            self.assertEqual((answer.status, list(answer.json)), (400, ["error"]), (member, value))

    def test_capabilities_say_what_the_planner_accepts(self):
        picture = base64.b64encode(png(64, 64)).decode()
        orders = {"init_image": {"init_image": picture}, "ref_images": {"ref_images": [picture]},
                  "mask_image": {"init_image": picture, "mask_image": picture}}
        seen = []
        for model in ("demo", "editor"):
            self.assertEqual(self.rig.post(f"/models/{model}/activate").status, 200)
            can = self.good(self.send("GET", "/sdcpp/v1/capabilities"))["features"]
            for feature, order in orders.items():
                status = self.send("POST", "/sdcpp/v1/img_gen", {"prompt": "a", **order}).status
                self.assertEqual(status, 202 if can[feature] else 400, (model, feature))
                seen.append(can[feature])
        self.assertEqual(seen, [True, False, True, True, True, True])  # the built-in one sees no pictures

    def test_capabilities_say_what_can_be_done(self):
        can = self.good(self.send("GET", "/sdcpp/v1/capabilities")).json
        self.assertEqual((can["model"]["name"], can["current_mode"]), ("editor", "img_gen"))
        self.assertTrue(can["features"]["cancel_generating"] and can["features"]["ref_images"])
        self.assertFalse(can["features"]["lora"])
        self.assertIn("euler", can["samplers"])
        self.assertEqual(can["defaults_by_mode"]["img_gen"]["sample_params"]["sample_method"], "default")
        self.assertEqual(can["limits"]["max_batch_count"], 8)


tap.main()
