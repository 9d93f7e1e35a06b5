"""The studio as people run it: `kuno serve` with its own image worker and the built-in model."""

import base64
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import tap
from cli.png import Picture, coloured
from studio import agreement
from studio.rig import FORM, PATIENCE, SANITIZED, TOKEN, form, png
from studio.serve import DEMO, LONG, PROGRAM, Serve, write_bright_vae
from studio.slow import resident_bytes
from workers.jpeg import Hdr, Jpeg

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden")
UPSCALER = os.path.join(GOLDEN, "upscalers", "compact-x2", "weights.safetensors")


def motley(x, y):
    return bytes((x * 7 % 256, y * 5 % 256, (x ^ y) % 256))


def pixel(picture, x, y):
    at = (y * picture.width + x) * picture.channels
    return picture.pixels[at:at + picture.channels]


def single(value):
    """As it is in single precision."""
    return struct.unpack("f", struct.pack("f", value))[0]


def changed(picture, width, height, left=0, top=0):
    """Which pixels of a motley picture are others now."""
    def colour(x, y):
        at = ((top + y) * picture.width + left + x) * picture.channels
        return picture.pixels[at:at + 3]

    return {(x, y) for y in range(height) for x in range(width) if colour(x, y) != motley(x, y)}


class Shared(Serve):
    """The gateway's route and the studio have the same models."""

    def begin(self):
        self.more = {"image": {"models": self.folder}}
        super().begin()


def most_workers(rig, *draws):
    """How many there were at a time while several drew at once."""
    most = 0
    with ThreadPoolExecutor(len(draws)) as pool:
        results = [pool.submit(one) for one in draws]
        while not all(one.done() for one in results):
            most = max(most, len(rig.workers()))
            time.sleep(0.002)
    for one in results:
        one.result()  # or its failure
    return most


class Pictures(unittest.TestCase):
    def test_the_route_and_the_studio_draw_by_one_warm_worker(self):
        with Shared() as rig:
            by_studio = rig.drawn("a boat", seed="42", output={"transparent": True})
            (worker,) = rig.workers()
            self.assertEqual(Picture(rig.route()).pixels, by_studio.pixels)
            rig.drawn("another boat")
            self.assertEqual(rig.workers(), [worker])

    def test_diagnostics_say_whether_the_worker_is_locked_in(self):
        with Serve() as rig:
            def check():
                (one,) = [one for one in rig.get("/diagnostics")["checks"] if one["id"] == "isolation"]
                return one
            self.assertEqual(check()["status"], "skipped")
            rig.drawn("a boat")
            self.assertEqual(check()["status"] == "ok", check()["action"] is None)
            self.assertIn(check()["status"], ("ok", "warning"))
            self.assertIn(check()["message"], rig.get("/diagnostics/report").body.decode())

    def test_other_models_are_drawn_with_when_the_last_worker_is_gone(self):
        with Serve(image={}) as rig:
            rig.drawn("a boat")
            (first,) = rig.workers()
            rig.route()
            (second,) = rig.workers()
            self.assertNotEqual(first, second)
            turns = [lambda: [rig.drawn("a boat") for _ in range(3)], lambda: [rig.route() for _ in range(3)]]
            self.assertEqual(most_workers(rig, *turns), 1)

    def test_a_profile_that_gets_other_files_is_drawn_with_them_and_so_is_a_file_that_is_replaced(self):
        with Serve() as rig:
            def put(name, vae):
                files = {"diffusion": "diffusion_model_fp8_scaled.safetensors",
                         "text_encoder": "text_encoder_fp8_scaled.safetensors", "tokenizer": "tokenizer"}
                files = {role: os.path.join(DEMO, name) for role, name in files.items()} | {"vae": vae}
                profile = {"model": "qwen-image-2.1", "variant": "turbo",
                           "files": [{"role": role, "path": path} for role, path in files.items()]}
                answer = rig.ask("PUT", f"/models/{name}", profile)
                self.assertIn(answer.status, (200, 201), answer.body)

            def drawn(name):
                size = {"mode": "custom", "width": 128, "height": 128}
                return rig.drawn("A red apple.", seed="42", size=size, profile=name).pixels

            own = shutil.copy(os.path.join(DEMO, "vae.safetensors"), rig.folder)
            put("mine", own)
            first = drawn("mine")
            other = os.path.join(rig.folder, "other.safetensors")
            write_bright_vae(other)
            put("mine", other)
            second = drawn("mine")
            self.assertTrue(second != first)
            put("new", own)
            self.assertTrue(drawn("new") == first)
            workers = rig.workers()
            os.replace(other, own)  # as who downloads it anew does
            self.assertTrue(drawn("new") == second)
            self.assertEqual(rig.workers(), workers)

    def test_a_picture_is_that_of_kuno_generate_to_the_byte(self):
        with Serve() as rig, tempfile.TemporaryDirectory() as folder:
            own = os.path.join(folder, "own.png")
            command = [PROGRAM, "generate", "A red apple.", "--seed", "42", "--output", own]
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
            job = rig.ended(rig.job("A red apple.", seed="42", output={"transparent": True}))
            self.assertEqual(job["state"], "completed", job["error"])
            with open(own, "rb") as file:
                self.assertEqual(rig.get(f"/jobs/{job['id']}/results/0").body, file.read())
            source = rig.upload(rig.get(f"/jobs/{job['id']}/results/0").body)
            self.assertEqual(rig.get(f"/inputs/{source}")["width"], 128)
            item = job["results"][0]["gallery_item"]
            self.assertEqual(rig.get(f"/gallery/{item}/thumbnail?size=32").headers["Content-Type"], "image/png")
            answer = rig.post("/inputs", b"\x89PNG\r\n\x1a\nnonsense", type="image/png")
            self.assertEqual((answer.status, answer["code"]), (422, "input_invalid"))

    def test_other_apis_draw_and_change_the_same_pictures(self):
        with Serve() as rig:
            job = rig.ended(rig.job("A red apple.", seed="42", output={"transparent": True}))
            wanted = rig.get(f"/jobs/{job['id']}/results/0").body
            order = {"prompt": "A red apple.", "seed": 42, "background": "transparent"}
            answer = rig.send("POST", "/v1/images/generations", order)
            self.assertEqual(base64.b64decode(answer["data"][0]["b64_json"]), wanted)
            order = {"prompt": "A green apple.", "width": 256, "height": 256, "denoising_strength": 0.6, "seed": 1}
            made = [rig.send("POST", "/sdapi/v1/img2img", {**order, "init_images": [base64.b64encode(one).decode()]})
                    for one in (wanted, png(256, 256))]
            self.assertEqual([answer.status for answer in made], [200, 200])
            self.assertNotEqual(made[0]["images"], made[1]["images"])

    def test_a_result_has_the_size_that_was_asked_for(self):
        with Serve() as rig:
            for width, height in ((100, 70), (300, 200)):
                picture = rig.drawn("A boat.", size={"mode": "custom", "width": width, "height": height})
                self.assertEqual((picture.width, picture.height), (width, height))
            picture = rig.drawn("A boat.", upscale={"factor": 1.5})
            self.assertEqual((picture.width, picture.height), (192, 192))

    def test_a_part_is_drawn_anew_and_all_else_stays(self):
        with Serve() as rig:
            source = {"input_id": rig.upload(coloured(101, 70, motley)), "role": "source"}
            half = coloured(101, 70, lambda x, y: (b"\xff" if x < 50 else b"\0") * 3)
            picture = rig.drawn("A boat.", inputs=[source, {"input_id": rig.upload(half), "role": "mask"}])
            self.assertEqual((picture.width, picture.height), (101, 70))
            others = changed(picture, 101, 70)
            self.assertEqual([place for place in others if place[0] >= 50], [])
            self.assertGreater(len(others), 50 * 70 // 2)
            source = {"input_id": rig.upload(coloured(112, 80, motley)), "role": "source"}
            picture = rig.drawn("A boat.", inputs=[source], outpaint={"left": 16})
            self.assertEqual((picture.width, picture.height), (128, 80))
            self.assertEqual([place for place in changed(picture, 112, 80, 16) if place[0] >= 40], [])

    def test_a_mask_that_shows_nothing_to_draw_is_refused_by_every_route(self):
        picture = coloured(128, 128, motley)
        black = coloured(128, 128, lambda x, y: b"\0" * 3)
        speck = coloured(128, 128, lambda x, y: (b"\xff" if 16 <= x < 20 and y == 16 else b"\0") * 3)
        seen = coloured(128, 128, lambda x, y: (b"\xff" if (x, y) == (24, 24) else b"\0") * 3)
        with Serve() as rig:
            source = {"input_id": rig.upload(picture), "role": "source"}
            for mask, why in ((black, "no white"), (speck, "cells of 16 pixels")):
                wish = {"prompt": "A boat.", "inputs": [source, {"input_id": rig.upload(mask), "role": "mask"}]}
                for path in ("/jobs", "/plan"):
                    answer = rig.post(path, wish)
                    self.assertEqual((answer.status, answer["code"]), (422, "member_invalid"))
                    self.assertEqual(answer["errors"][0]["pointer"], "/inputs/1/input_id")
                    self.assertIn(why, answer["detail"])
                one, other = (base64.b64encode(file).decode() for file in (picture, mask))
                body = form(("image", "a.png", picture), ("mask", "b.png", mask), ("prompt", "a boat"))
                for answer, status in (
                    (rig.send("POST", "/sdapi/v1/img2img", {"prompt": "a boat", "init_images": [one], "mask": other,
                                                            "width": 128, "height": 128}), 422),
                    (rig.send("POST", "/sdcpp/v1/img_gen", {"prompt": "a boat", "init_image": one,
                                                            "mask_image": other}), 400),
                    (rig.send("POST", "/v1/images/edits", body, type=FORM), 400),
                ):
                    self.assertEqual(answer.status, status, answer.body)
                    self.assertIn(why.encode(), answer.body)
            self.assertEqual(rig.get("/jobs")["items"], [])
            rig.drawn("A boat.", inputs=[source, {"input_id": rig.upload(seen), "role": "mask"}])

    def test_a_picture_grows_by_what_is_asked_for_whatever_the_models_grid(self):
        width, height, room = 128, 128, 40
        with Serve() as rig:
            source = {"input_id": rig.upload(coloured(width, height, motley)), "role": "source"}
            for side in ("top", "left", "right", "bottom"):
                job = rig.ended(rig.job("A boat.", inputs=[source], outpaint={side: 7}))
                self.assertEqual((job["state"], job["notes"]), ("completed", []), job["error"])
                picture = Picture(rig.get(f"/jobs/{job['id']}/results/0").body)
                more = (7, 0) if side in ("left", "right") else (0, 7)
                self.assertEqual((picture.width, picture.height), (width + more[0], height + more[1]))
                self.assertEqual((job["plan"]["result_width"], job["plan"]["result_height"]),
                                 (picture.width, picture.height))
                far = {"left": lambda x, y: x >= room, "right": lambda x, y: x <= width - room,
                       "top": lambda x, y: y >= room, "bottom": lambda x, y: y <= height - room}[side]
                others = changed(picture, width, height, 7 * (side == "left"), 7 * (side == "top"))
                self.assertEqual([place for place in others if far(*place)], [])
                self.assertGreater(len(others), 0)

    def test_a_picture_of_a_few_pixels_is_changed_like_any(self):
        width, height = 8, 4
        with Serve() as rig:
            source = {"input_id": rig.upload(coloured(width, height, motley)), "role": "source"}
            white = {"input_id": rig.upload(coloured(width, height, lambda x, y: b"\xff" * 3)), "role": "mask"}
            picture = rig.drawn("A boat.", inputs=[source, white])
            self.assertEqual((picture.width, picture.height), (width, height))
            picture = rig.drawn("A boat.", inputs=[source], outpaint={"left": 5}, feather=0)
            self.assertEqual((picture.width, picture.height), (width + 5, height))
            self.assertEqual(changed(picture, width, height, 5), set())
            job = rig.ended(rig.post("/upscale", {"input_id": source["input_id"], "upscale": {"factor": 3}})["id"])
            self.assertEqual([(one["width"], one["height"]) for one in job["results"]], [(3 * width, 3 * height)])

    def test_what_is_drawn_passes_into_what_stays_over_the_feather(self):
        width, height, feather = 112, 80, 8
        with Serve() as rig:
            source = {"input_id": rig.upload(coloured(width, height, motley)), "role": "source"}
            box = coloured(width, height, lambda x, y: (b"\xff" if 16 <= x < 90 and y >= 12 else b"\0") * 3)
            wish = {"seed": "42", "inputs": [source, {"input_id": rig.upload(box), "role": "mask"}],
                    "output": {"transparent": True}}
            hard = rig.drawn("A boat.", feather=0, **wish)
            soft = rig.drawn("A boat.", feather=feather, **wish)
            self.assertEqual(soft.channels, 4)
            for y in range(height):
                for x in range(width):
                    steps = max(0, min(x - 15, 90 - x, y - 11))  # from the next pixel that stays
                    share = single(min(single(single(steps) / (feather + 1)), 1))
                    old, new = motley(x, y) + b"\xff", pixel(hard, x, y)
                    wanted = tuple(round(single(single(a * single(1 - share)) + single(b * share)))
                                   for a, b in zip(old, new))
                    self.assertEqual(tuple(pixel(soft, x, y)), wanted, (x, y))
            usual, four = rig.drawn("A boat.", **wish), rig.drawn("A boat.", feather=4, **wish)
            self.assertEqual(usual.pixels, four.pixels)
            self.assertIn("Mask fade: 4", four.texts["parameters"])

    def test_a_part_of_a_large_picture_is_drawn_anew_and_all_else_stays(self):
        width, height = 4112, 96  # longer than the built-in model can work on
        with Serve() as rig:
            source = {"input_id": rig.upload(coloured(width, height, motley)), "role": "source"}
            part = coloured(width, height, lambda x, y: (b"\xff" if 700 <= x < 800 else b"\0") * 3)
            inputs = [source, {"input_id": rig.upload(part), "role": "mask"}]
            job = rig.ended(rig.job("A boat.", inputs=inputs))
            self.assertEqual((job["state"], [note["code"] for note in job["notes"]]),
                             ("completed", ["source_resized"]), job["error"])
            self.assertLess(job["plan"]["working_width"], width)
            picture = Picture(rig.get(f"/jobs/{job['id']}/results/0").body)
            self.assertEqual((picture.width, picture.height), (width, height))
            columns = {x for x, _ in changed(picture, width, height)}
            self.assertEqual(columns, set(range(700, 800)))
            soft = rig.drawn("A boat.", inputs=inputs, feather=50)  # of the source's pixels, not of what is drawn
            self.assertLessEqual({x for x, _ in changed(soft, width, height)}, columns)
            for x in (700, 799):
                steps = [abs(a - b) for y in range(height) for a, b in zip(pixel(soft, x, y), motley(x, y))]
                self.assertLessEqual(max(steps), 255 / 51 + 1)

    def test_a_part_of_a_few_pixels_is_drawn_anew_in_a_large_picture_too(self):
        width, height = 4112, 96
        with Serve() as rig:
            source = {"input_id": rig.upload(coloured(width, height, motley)), "role": "source"}
            for left, top in ((1607, 39), (1623, 55), (2055, 23)):
                part = {(x, y) for x in (left, left + 1) for y in (top, top + 1)}
                mask = coloured(width, height, lambda x, y: (b"\xff" if (x, y) in part else b"\0") * 3)
                inputs = [source, {"input_id": rig.upload(mask), "role": "mask"}]
                picture = rig.drawn("A boat.", inputs=inputs, feather=0)
                self.assertLessEqual(changed(picture, width, height), part)

    def test_a_large_picture_is_drawn_on_at_its_sides_and_stays(self):
        width, height, left, bottom = 4000, 90, 112, 6  # with them longer than the built-in model can work on
        with Serve() as rig:
            source = {"input_id": rig.upload(coloured(width, height, motley)), "role": "source"}
            job = rig.ended(rig.job("A boat.", inputs=[source], outpaint={"left": left, "bottom": bottom}))
            self.assertEqual((job["state"], [note["code"] for note in job["notes"]]),
                             ("completed", ["source_resized"]), job["error"])
            self.assertLess(job["plan"]["working_width"], width)
            self.assertEqual(job["plan"]["paste"], {"x": left, "y": 0, "width": width, "height": height})
            picture = Picture(rig.get(f"/jobs/{job['id']}/results/0").body)
            self.assertEqual((picture.width, picture.height), (left + width, height + bottom))
            faded = (height - 1) // 2  # which is the room that there is
            places = changed(picture, width, height, left)
            self.assertEqual([(x, y) for x, y in places if x >= faded and height - y >= faded], [])
            self.assertGreater(len([(x, y) for x, y in places if x < faded]), 0)
            row = picture.width * picture.channels
            side = b"".join(picture.pixels[y * row:y * row + left * picture.channels] for y in range(picture.height))
            grey = side.count(bytes((128, 128, 128)))  # what the canvas had there
            self.assertLess(grey, left * picture.height // 10)

    def test_formats_are_written_by_the_worker(self):
        with Serve() as rig, tempfile.TemporaryDirectory() as folder:
            starts = {"png": b"\x89PNG", "jpeg": b"\xff\xd8\xff", "webp": b"RIFF"}
            for name, start in starts.items():
                job = rig.ended(rig.job("A red apple.", seed="42", output={"format": name, "quality": 80}))
                self.assertEqual(job["state"], "completed", job["error"])
                result = job["results"][0]
                file = rig.get(f"/jobs/{job['id']}/results/0").body
                self.assertEqual((file[:len(start)], result["width"], result["media_type"]),
                                 (start, 128, "image/" + name))
                own = rig.upload(file)
                self.assertEqual((rig.get(f"/inputs/{own}")["width"], rig.get(f"/inputs/{own}")["media_type"]),
                                 (128, "image/" + name))
                for other, start in starts.items():
                    body = {"directory": folder, "format": other, "file_name": f"{name}-{other}"}
                    answer = rig.post(f"/gallery/{result['gallery_item']}/export", body)
                    self.assertEqual(answer.status, 201, answer.body)
                    with open(answer["path"], "rb") as copy:
                        self.assertEqual(copy.read(len(start)), start)
            own = {"directory": rig.folder, "file_name": "upstream-in-flight"}  # which asks for a recovery
            self.assertEqual(rig.post(f"/gallery/{result['gallery_item']}/export", own).status, 422)

    def test_an_input_tells_whether_it_was_turned(self):
        with Serve() as rig:
            for name, turned in (("exif-6.jpg", True), ("exif-9-invalid.jpg", False), ("webp-named.jpg", False)):
                with open(os.path.join(GOLDEN, "image", name), "rb") as file:
                    answer = rig.post("/inputs", file.read(), type="image/webp" if "webp" in name else "image/jpeg")
                self.assertEqual((answer.status, answer["orientation_applied"]), (201, turned), name)

    def test_upscalers_are_measured_by_the_worker_once(self):
        with Serve() as rig:
            models = os.path.join(rig.folder, "studio", "models")
            folder = os.path.join(models, "upscalers")

            def path(name):
                return os.path.join(folder, name + ".safetensors")

            os.makedirs(path("folder"))
            shutil.copy(UPSCALER, path("compact"))
            shutil.copy(UPSCALER.replace("compact-x2", "compact-x4"), path("larger"))
            os.symlink("compact.safetensors", path("link"))
            os.symlink("nowhere", path("dangling"))
            os.mkfifo(path("fifo"))
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(path("socket"))
            with open(path("broken"), "w") as file:
                file.write("nonsense")
            self.assertEqual(rig.ask("PATCH", "/settings", {"model_directory": models}).status, 200)
            picture = rig.upload(png(20, 30))
            made = rig.ended(rig.post("/upscale", {"input_id": picture, "upscale": {"upscaler": "larger"}})["id"])
            self.assertEqual([one["width"] for one in made["results"]], [80])  # its own factor, also of the first order
            for _ in range(2):
                listed = {one["id"]: (one["factor"], one["installed"]) for one in rig.get("/capabilities")["upscalers"]}
                self.assertEqual(listed, {"lanczos": (None, True), "broken": (None, False), "compact": (2, True),
                                          "larger": (4, True), "link": (2, True)})
            answer = rig.post("/upscale", {"input_id": picture, "upscale": {"factor": 2, "upscaler": "broken"}})
            self.assertEqual((answer.status, answer["code"]), (409, "missing_model"))
            for name, status in (("broken", 422), ("fifo", 422), ("compact", 200)):
                self.assertEqual(rig.ask("PATCH", "/settings", {"upscaler": name}).status, status)
            answer = rig.send("POST", "/sdcpp/v1/upscale", {"image": base64.b64encode(png(20, 30)).decode(),
                                                            "upscaler": "compact", "repeats": 2})
            self.assertEqual((answer.status, answer["width"], answer["height"]), (200, 80, 120))

    def test_a_picture_is_enlarged_as_kuno_upscale_does(self):
        with Serve() as rig, tempfile.TemporaryDirectory() as folder:
            models = os.path.join(rig.folder, "studio", "models")
            os.makedirs(os.path.join(models, "upscalers"))
            shutil.copy(UPSCALER, os.path.join(models, "upscalers", "compact.safetensors"))
            self.assertEqual(rig.ask("PATCH", "/settings", {"model_directory": models}).status, 200)
            source, own = (os.path.join(folder, name) for name in ("source.png", "own.png"))
            with open(source, "wb") as file:
                file.write(coloured(40, 30, motley))
            for model, more in (("lanczos", []), ("compact", ["--model", UPSCALER])):
                command = [PROGRAM, "upscale", source, *more, "--size", "70x53", "--output", own]
                subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
                order = {"input_id": rig.upload(coloured(40, 30, motley)),
                         "upscale": {"width": 70, "height": 53, "upscaler": model}}
                answer = rig.post("/upscale", order)
                self.assertEqual(answer.status, 202, answer.body)
                job = rig.ended(answer["id"])
                self.assertEqual(job["state"], "completed", job["error"])
                with open(own, "rb") as file:
                    wanted = Picture(file.read())
                picture = Picture(rig.get(f"/jobs/{job['id']}/results/0").body)
                self.assertEqual((picture.width, picture.height), (70, 53))
                self.assertEqual(picture.pixels, wanted.pixels)

    def test_an_hdr_photo_stays_one(self):
        with open(os.path.join(GOLDEN, "image", "gain-map", "gainmap.jpg"), "rb") as file:
            photo = file.read()
        with Serve() as rig:
            order = {"input_id": rig.upload(photo), "upscale": {"factor": 2, "upscaler": "lanczos"}}
            for output, is_hdr in (({"format": "jpeg"}, True), ({"format": "jpeg", "keep_hdr": False}, False)):
                answer = rig.post("/upscale", {**order, "output": output})
                self.assertEqual(answer.status, 202, answer.body)
                job = rig.ended(answer["id"])
                self.assertEqual((job["state"], job["notes"]), ("completed", []))
                picture = rig.get(f"/jobs/{job['id']}/results/0").body
                self.assertEqual(b"MPF\0" in picture, is_hdr)
                if is_hdr:
                    made, item = Hdr(picture), job["results"][0]["gallery_item"]
                    self.assertEqual((made.base.width, made.base.height), (96, 64))
                    self.assertEqual((made.map.width, made.map.height), (12, 8))
                    self.assertEqual(made.numbers, Hdr(photo).numbers)
                else:
                    self.assertEqual(Jpeg(picture).coded, made.base.coded)
            # What is inpainted keeps it, too: read by the standards alone, its numbers are those of the photo, and its
            # first picture is coded as it is without a map.
            mask = rig.upload(png(48, 32, 255))
            drawn = []
            for keep in True, False:
                inputs = [{"input_id": order["input_id"], "role": "source"}, {"input_id": mask, "role": "mask"}]
                job = rig.ended(rig.job("a brighter boat", seed="7", inputs=inputs,
                                        output={"format": "jpeg", "keep_hdr": keep}))
                self.assertEqual(job["state"], "completed", job)
                drawn.append(rig.get(f"/jobs/{job['id']}/results/0").body)
            edited, plain = Hdr(drawn[0]), Jpeg(drawn[1])
            self.assertEqual((edited.flags, edited.numbers), (Hdr(photo).flags, Hdr(photo).numbers))
            self.assertEqual((edited.map.width, edited.map.height), (12, 8))
            self.assertEqual(edited.base.coded, plain.coded)
            order = {"gallery_item": item, "upscale": order["upscale"], "output": {"format": "jpeg"}}
            again = rig.ended(rig.post("/upscale", order)["id"])
            self.assertEqual(Hdr(rig.get(f"/jobs/{again['id']}/results/0").body).numbers, made.numbers)

    def test_workflows_of_others_are_read_by_the_worker(self):
        with Serve() as rig:
            for name, source, prompt in (("2512.png", "comfyui", "a red boat on a quiet lake"),
                                         ("refuse-cycle.png", "comfyui", None)):
                with open(os.path.join(GOLDEN, "workflow", name), "rb") as file:
                    answer = rig.post("/recipes/inspect", file.read(), type="image/png").json
                self.assertEqual((answer["source"], (answer["recipe"] or {}).get("prompt")), (source, prompt))
            with open(os.path.join(GOLDEN, "workflow", "a1111.png"), "rb") as file:
                order = {"image": base64.b64encode(file.read()).decode()}
            answer = rig.send("POST", "/sdapi/v1/png-info", order).json
            self.assertEqual(answer["parameters"]["Model"], "name, with comma")
            order = {"image": base64.b64encode(b"\x89PNG\r\n\x1a\n and no more").decode()}
            self.assertEqual(rig.send("POST", "/sdapi/v1/png-info", order).status, 422)

    def test_what_is_written_in_a_prompt_is_in_no_log(self):
        canary = "a-canary-named-Tweety"
        with Serve() as rig:
            self.assertEqual(rig.ended(rig.job(canary))["state"], "completed")
            self.assertNotIn(canary, rig.log)
            self.assertNotIn(TOKEN, rig.log)
            kept = []
            for folder, _, files in os.walk(rig.folder):
                for name in files:
                    with open(os.path.join(folder, name), "rb") as file:
                        if canary.encode() in file.read():
                            kept.append(os.path.relpath(os.path.join(folder, name), rig.folder))
            for path in kept:
                self.assertRegex(path, r"^studio/(studio\.db|gallery/)")

    def cancelled_in_the_middle(self, rig):
        """A job, within a step. What memory its worker has afterwards."""
        job = rig.job("a boat", **LONG, size={"mode": "custom", "width": 512, "height": 512})
        with rig.events(f"/jobs/{job}/events") as events:
            with rig.held(job):  # what it does before it is told does not count
                (worker,) = rig.workers()
                before = [rig.get(f"/jobs/{job}")["progress"] for _ in range(2)][1]  # what it has told is heard by then
                self.assertEqual(rig.post(f"/jobs/{job}/cancel").status, 202)
            told = {}  # the newest of each kind
            while "job.cancelled" not in told:
                event = next(events)
                told[event.kind] = event.data
        one = 1 / 8 / 10  # of eight pictures; a picture's eight steps are eight tenths of its time
        self.assertLess(told["job.progress"]["progress"]["fraction"] - before["fraction"], 1.5 * one)
        self.assertEqual(rig.ended(rig.job("the next"))["state"], "completed")
        self.assertEqual(rig.workers(), [worker])
        return resident_bytes(worker)

    @unittest.skipIf(SANITIZED, "a sanitizer keeps freed memory back")
    def test_a_large_request_leaves_nothing_in_memory(self):
        with Serve() as rig:
            rig.drawn("a boat")
            before = resident_bytes(rig.process.pid)
            body = b'{"prompt":"' + 8_000_000 * b"\\u00e9" + b'"}'
            for path in ("/sdapi/v1/img2img", "/sdapi/v1/txt2img"):
                self.assertEqual(rig.send("POST", path, body).status, 422)
            end = time.monotonic() + PATIENCE
            while resident_bytes(rig.process.pid) > before + (4 << 20):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.1)

    def test_a_running_job_stops_within_a_step_and_gives_its_memory_back(self):
        jobs, most = 8, 1 << 20  # most: that each may leave behind, of 3.5 MiB
        with Serve() as rig:
            warm = self.cancelled_in_the_middle(rig)
            left = [self.cancelled_in_the_middle(rig) - warm for _ in range(jobs)]
            if not SANITIZED:  # a sanitizer keeps freed memory back
                self.assertLess(left[-1], jobs * most, left)

    def test_a_job_survives_its_worker_and_its_server(self):
        with Serve() as rig:
            job = rig.job("a boat", seed="7", **LONG)
            rig.running(job, 1)
            for worker in rig.workers():
                os.kill(worker, signal.SIGKILL)
            rig.running(job, 2, attempts=2)
            rig.end(signal.SIGKILL)
            rig.begin()
            ended = rig.ended(job)
            self.assertEqual(ended["state"], "completed", ended["error"])
            self.assertEqual([one["seed"] for one in ended["results"]], [str(7 + i) for i in range(8)])
            self.assertEqual(ended["attempts"], 3)
            self.assertEqual(len({one["sha256"] for one in ended["results"]}), 8)

    def test_a_second_signal_ends_it_at_once_and_the_job_that_was_cut_is_drawn_again(self):
        rig = Serve()
        try:
            job, waits = rig.job("a boat", **LONG), rig.job("waits")
            with rig.held(job):  # else its picture may be done before anybody has looked
                rig.process.send_signal(signal.SIGTERM)
                end = time.monotonic() + PATIENCE
                while rig.status()["admission"]["state"] != "draining":
                    self.assertLess(time.monotonic(), end)
                self.assertEqual(rig.post("/jobs", {"prompt": "too late"}).status, 503)
                self.assertEqual(rig.end(), 0)
            states = dict(agreement.rows(rig, "SELECT id, state FROM jobs"))
            self.assertIn(states.pop(job), ("queued", "running"))
            self.assertEqual(states, {waits: "queued"})
            rig.begin()
            rig.running(job)
            self.assertEqual(rig.post(f"/jobs/{job}/cancel").status, 202)
            self.assertEqual([rig.ended(one)["state"] for one in (job, waits)], ["cancelled", "completed"])
            agreement.check(self, rig)
        finally:
            rig.close()

    def test_an_orderly_end_waits_for_the_running_job(self):
        rig = Serve()
        try:
            job, waits = rig.job("a boat", preset="quality"), rig.job("waits")
            with rig.events(f"/jobs/{job}/events") as events:  # it may not be seen running, but is told of
                next(event for event in events if event.kind != "job.queued")
            self.assertEqual(rig.end(), 0)
            rig.begin()
            self.assertEqual(rig.get(f"/jobs/{job}")["state"], "completed")
            self.assertEqual(rig.ended(waits)["attempts"], 1)
        finally:
            rig.close()


tap.main()
