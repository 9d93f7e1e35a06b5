"""The image worker from outside: one picture by recipe, and sessions of many jobs."""

import base64
import json
import os
import re
import shutil
import signal
import struct
import subprocess

import tap
from jpeg import Hdr, Jpeg
from kuno import E2E, GOLDEN, environment
from png import Picture, coloured
from worker import (CANCEL, DRAW, DRAW_PREVIEW, FACTOR, FAILED, FINAL, FOUND, INSPECT, JPEG, LARGE, MEASURE, PATIENCE,
                    PICTURE, PNG, PREVIEW, PROGRAM, PROGRESS, READY, REPORT, WEBP, Session, WorkerCase, frames, numbers,
                    picture_read)

DEMO = {"prompt": "a red boat", "seed": "42"}
TINY = {"prompt": "a red boat", "seed": "7", "width": 64, "height": 64, "steps": 2, "cfg": 1}
TINY_ARGS = ("--config", str(E2E / "models.toml"))
TINY_OPTIONS = (*TINY_ARGS, "--seed", "7", "--size", "64x64", "--steps", "2", "--cfg", "1")
# Long enough that nothing ends it but being told to.
FREE_ARGS = ("--config", str(GOLDEN / "demo.toml"), "--model-profile", "demo-free")
LONG = {"prompt": "a red boat", "seed": "7", "width": 512, "height": 512, "steps": 100, "cfg": 1}
REFERENCE = (E2E / "edit" / "reference0.png").read_bytes()
IMAGES = GOLDEN / "image"
UPSCALERS = GOLDEN / "upscalers"
PIXELS = base64.b64encode((UPSCALERS / "image.png").read_bytes()).decode()


def to_json(**recipe):
    return json.dumps(recipe).encode()


def mean_error(one, other):
    """Of the colours."""
    own, theirs = ([p.pixels[i * p.channels + c] for i in range(p.width * p.height) for c in range(3)]
                   for p in (one, other))
    assert len(own) == len(theirs)
    return sum(abs(a - b) for a, b in zip(own, theirs)) / len(own)


def resized(**more):
    return to_json(init_image=PIXELS, result={"width": 50, "height": 30, "upscaler": "canary-5e1f", **more})


class OnePicture(WorkerCase):
    def generate(self, *args):
        self.draws(*args)
        return (self.folder / "output.png").read_bytes()

    def test_same(self):
        """draws_to_the_byte_what_generate_draws"""
        for recipe, worker_args, generate_args in (
                (DEMO, (), ("--seed", "42")),
                (TINY, TINY_ARGS, TINY_OPTIONS),
                ({**TINY, "cfg": 2.5, "negative_prompt": "blue"}, TINY_ARGS,
                 (*TINY_ARGS, "--seed", "7", "--size", "64x64", "--steps", "2", "--cfg", "2.5", "-n", "blue"))):
            result = self.worker(to_json(**recipe), *worker_args)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertEqual(result.stdout, self.generate("a red boat", *generate_args, "--no-metadata"))

    def test_pictures(self):
        """draws_from_given_pictures_what_generate_draws"""
        picture = self.inputs / "reference.png"
        picture.write_bytes(REFERENCE)
        text = base64.b64encode(REFERENCE).decode()
        for more, args in (({"reference_images": [text, text]}, ("--reference", picture, "--reference", picture)),
                           ({"init_image": text, "strength": 0.5}, ("--init-image", picture, "--strength", "0.5"))):
            result = self.worker(to_json(**TINY, **more), *TINY_ARGS)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            drawn = self.generate("a red boat", *TINY_OPTIONS, "--no-metadata", *map(str, args))
            self.assertEqual(result.stdout, drawn)

    def test_part(self):
        """draws_a_part_anew_as_generate_does"""
        picture = self.inputs / "reference.png"
        picture.write_bytes(REFERENCE)
        text = base64.b64encode(REFERENCE).decode()
        for more, args in (({"mask_image": text, "show_region": True}, ("--mask", picture)),
                           ({"mask_image": text}, ("--mask", picture, "--no-region")),
                           ({"mask_image": text, "feather": 9}, ("--mask", picture, "--mask-fade", "9", "--no-region")),
                           ({"outpaint": {"left": 16, "bottom": 32}}, ("--outpaint", "16,0,0,32", "--no-region")),
                           ({"outpaint": {"left": 16}, "feather": 0},
                            ("--outpaint", "16,0,0,0", "--mask-fade", "0", "--no-region"))):
            recipe = {key: value for key, value in TINY.items() if key not in ("width", "height")}
            result = self.worker(to_json(**recipe, init_image=text, **more), *TINY_ARGS)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertEqual(result.stdout, self.generate(
                "a red boat", *TINY_ARGS, "--seed", "7", "--steps", "2", "--cfg", "1", "--no-metadata", "--init-image",
                str(picture), *map(str, args)))

    def test_result(self):
        """brings_pictures_to_a_size_as_upscale_does"""
        for name, result, args in (
                ("weights.safetensors", {"width": 50, "height": 30}, ()),
                ("weights.safetensors", {"width": 50, "height": 30, "blend": 0.5, "prescale": True},
                 ("--blend", "0.5", "--prescale")),
                (None, {"width": 33, "height": 70}, ())):
            model = ("--model", str(UPSCALERS / "compact-x2" / name)) if name else ()
            order = {**result, "upscaler": name} if name else result
            made = self.worker(to_json(init_image=PIXELS, result=order), "--upscalers", str(UPSCALERS / "compact-x2"),
                               env={"KUNO_IMAGE_FRAMES": "1"})
            self.assertEqual((made.returncode, made.stderr), (0, b""))
            (kind, picture), = frames(made.stdout)
            own = self.kuno("upscale", str(UPSCALERS / "image.png"), *model, *args, "--size",
                            f"{result['width']}x{result['height']}", "--output", "-").out
            self.assertEqual((kind, Picture(picture).pixels), (LARGE, Picture(own).pixels))

    def test_metadata(self):
        """tells_of_the_recipe_only_if_asked_to"""
        with_it = self.worker(to_json(**DEMO, metadata=True)).stdout
        self.assertEqual(with_it, self.generate("a red boat", "--seed", "42"))
        self.assertNotIn(b"boat", self.worker(to_json(**DEMO)).stdout)

    def test_source(self):
        """keeps_what_a_mask_keeps_of_a_source_that_is_drawn_smaller"""
        width, height, middle = 144, 96, range(60, 80)
        source = coloured(width, height, lambda x, y: bytes((x * 7 % 256, y * 5 % 256, (x ^ y) % 256)))
        mask = coloured(width, height, lambda x, y: (b"\xff" if x in middle else b"\0") * 3)
        recipe = {**DEMO, "init_image": base64.b64encode(source).decode(), "opaque": True,
                  "mask_image": base64.b64encode(mask).decode(), "width": 96, "height": 64,
                  "result": {"width": width, "height": height}}
        result = self.worker(to_json(**recipe))
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        before, after = Picture(source), Picture(result.stdout)
        self.assertEqual((after.width, after.height), (width, height))
        changed = {i % width for i in range(width * height)
                   if before.pixels[3 * i:3 * i + 3] != after.pixels[after.channels * i:after.channels * i + 3]}
        self.assertEqual(changed, set(middle))

    def test_opaque(self):
        """makes_pictures_opaque_if_asked_to"""
        picture = Picture(self.worker(to_json(**DEMO, opaque=True)).stdout)
        self.assertEqual(set(picture.pixels[3::4]), {255})

    def test_frames(self):
        """shows_a_preview_after_each_step"""
        result = self.worker(to_json(**DEMO), env={"KUNO_IMAGE_FRAMES": "1"})
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        *previews, (kind, final) = frames(result.stdout)
        self.assertEqual((kind, final), (FINAL, self.worker(to_json(**DEMO)).stdout))
        self.assertEqual([kind for kind, _ in previews], [PREVIEW] * 8)
        self.assertEqual([numbers(payload, 4) for _, payload in previews], [(i + 1, 8, 8, 8) for i in range(8)])
        drawn = Picture(final)
        shown = Picture(previews[-1][1][16:])
        self.assertEqual((shown.width, shown.height, set(shown.pixels[3::4])), (8, 8, {255}))
        self.assertGreater(correlation(shown, drawn), 0.85)
        self.assertLess(correlation(Picture(previews[0][1][16:]), drawn), correlation(shown, drawn))

    def test_refusals(self):
        """says_one_word_of_what_is_wrong_and_nothing_of_the_recipe"""
        swapped = self.inputs / "models.toml"
        text = (E2E / "models.toml").read_text().split("\n\n")[1].replace('= "', f'= "{E2E}/')
        text = text.replace(f"{E2E}/qwen-image-2.1", "qwen-image-2.1").replace(f"{E2E}/base", "base")
        swapped.write_text(text.replace("transformer.s", "nowhere.s") + "\n"
                           + text.replace("tiny", "other").replace("vae.s", "transformer.s"))
        bomb = base64.b64encode((IMAGES / "bomb-60000.png").read_bytes()).decode()
        small = base64.b64encode((IMAGES / "one-pixel.png").read_bytes()).decode()
        canary = "canary-5e1f"
        edit = {"workflow": "qwen-image-2.1-edit/v1", "prompt": canary, "seed": "1", "width": 64, "height": 64,
                "steps": 1, "cfg": 1}
        shifted = {**edit, "workflow": "qwen-image-2512-text-to-image/v1", "flow_shift": 3.1}
        for recipe, args, status, word in (
                (b"", (), 2, "image_request_invalid"),
                (b'{"prompt":"canary-5e1f","width":1}', (), 2, "image_request_invalid"),
                (to_json(prompt=canary, sampler=canary), (), 2, "image_request_invalid"),
                (to_json(prompt=canary, steps=3), (), 2, "image_request_invalid"),  # Turbo has its own
                (to_json(prompt=canary, attention="fast"), (), 2, "image_attention_unsupported"),
                (to_json(**edit), (), 2, "image_reference_required"),
                (to_json(prompt=canary, reference_images=["canary=="]), (), 2, "image_reference_invalid"),
                (to_json(prompt=canary, reference_images=[bomb]), (), 2, "image_reference_invalid"),
                (to_json(prompt=canary, reference_images=[small]), (), 2, "image_reference_invalid"),
                (to_json(prompt=canary, model=canary), (), 2, "image_model_missing"),
                (to_json(prompt=canary, mask_image=small), (), 2, "image_request_invalid"),
                (resized(), (), 2, "image_model_missing"),  # no folder of upscalers
                (resized(), ("--upscalers", str(IMAGES)), 2, "image_model_missing"),
                (resized(upscaler="one-pixel.png"), ("--upscalers", str(IMAGES)), 2, "image_model_mismatch"),
                (to_json(**shifted), TINY_ARGS, 2, "image_model_missing"),
                (to_json(**shifted, model="tiny"), TINY_ARGS, 2, "image_model_mismatch"),
                (to_json(prompt=canary, model="tiny"), ("--config", str(swapped)), 2, "image_model_missing"),
                (to_json(prompt=canary, model="other"), ("--config", str(swapped)), 2, "image_model_mismatch")):
            result = self.worker(recipe, *args)
            self.assertEqual((recipe[:60], result.returncode, result.stdout, result.stderr.decode()),
                             (recipe[:60], status, b"", word + "\n"))

    def test_blind(self):
        """says_so_of_a_model_whose_files_see_no_pictures"""
        alone = self.inputs / "alone"  # without the config.json that tells of its vision encoder
        alone.mkdir()
        shutil.copy(E2E / "text_encoder.safetensors", alone)
        text = base64.b64encode(REFERENCE).decode()
        for encoder in (alone / "text_encoder.safetensors", E2E / "text_encoder-Q8_0.gguf"):
            config = self.inputs / "blind.toml"
            config.write_text(f'[model_profiles.tiny]\narchitecture = "qwen-image-2.1"\nvariant = "base"\n'
                              f'diffusion_model = "{E2E}/transformer.safetensors"\ntext_encoder = "{encoder}"\n'
                              f'vae = "{E2E}/vae.safetensors"\ntokenizer = "{E2E}/tokenizer.json"\n')
            args = ("--config", str(config))
            for more in ({}, {"workflow": "qwen-image-2.1-edit/v1"}):
                result = self.worker(to_json(**TINY, **more, model="tiny", reference_images=[text]), *args)
                self.assertEqual((result.returncode, result.stdout, result.stderr), (2, b"", b"image_model_mismatch\n"))
            part = {key: value for key, value in TINY.items() if key not in ("width", "height")}
            part.update(model="tiny", init_image=text, mask_image=text)
            shown, hidden = (self.worker(to_json(**part, show_region=show), *args) for show in (True, False))
            self.assertEqual((shown.returncode, shown.stderr, shown.stdout), (0, b"", hidden.stdout))

    def test_workflow(self):
        """finds_the_model_of_a_workflow"""
        recipe = {**TINY, "workflow": "qwen-image-2.1-text-to-image/v1"}
        result = self.worker(to_json(**recipe), *TINY_ARGS)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(result.stdout, self.worker(to_json(**TINY, model="tiny"), *TINY_ARGS).stdout)

    def launch(self, *args):
        return subprocess.Popen([PROGRAM, "image-worker", "--isolation", "best-effort", *args], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=environment(self.home, KUNO_IMAGE_FRAMES="1"))

    def test_stop(self):
        """stops_at_sigterm_and_when_nobody_listens"""
        for stop in ("signal", "close"):
            with self.launch(*FREE_ARGS) as process:
                process.stdin.write(to_json(**LONG))
                process.stdin.close()
                self.assertEqual(process.stdout.read(5), b"KIP1\1")  # it computes
                if stop == "signal":
                    process.send_signal(signal.SIGTERM)
                    process.stdout.read()
                else:
                    process.stdout.close()
                self.assertEqual((process.wait(PATIENCE), process.stderr.read()), (130, b"image_cancelled\n"))


def correlation(small, large):
    """Of a preview with the mean colours of the cells that its pixels stand for."""
    side = large.width // small.width
    ours, theirs = [], []
    for y in range(small.height):
        for x in range(small.width):
            for c in range(3):
                ours.append(small.pixels[(y * small.width + x) * 4 + c])
                theirs.append(sum(large.pixels[((y * side + i) * large.width + x * side + j) * 4 + c]
                                  for i in range(side) for j in range(side)) / side ** 2)
    mean, their_mean = sum(ours) / len(ours), sum(theirs) / len(theirs)
    both = sum((a - mean) * (b - their_mean) for a, b in zip(ours, theirs))
    return both / (sum((a - mean) ** 2 for a in ours) * sum((b - their_mean) ** 2 for b in theirs)) ** 0.5


class Sessions(WorkerCase):
    def test_warm(self):
        """loads_nothing_for_the_second_picture"""
        with self.session() as session:
            self.assertEqual(session.hear()[0], READY)
            reports = []
            for seed in ("42", "43"):
                *heard, (kind, png) = session.draw(**{**DEMO, "seed": seed})
                self.assertEqual((kind, heard[-1][0]), (FINAL, REPORT))
                self.assertEqual(png, self.worker(to_json(**{**DEMO, "seed": seed})).stdout)
                reports.append(json.loads(heard[-1][1]))
            self.assertEqual([report["seed"] for report in reports], ["42", "43"])
            self.assertEqual((reports[0]["width"], reports[0]["height"], reports[0]["model"]), (128, 128, "demo"))
            self.assertGreater(reports[0]["load_seconds"], 0)
            self.assertLess(reports[1]["load_seconds"], reports[0]["load_seconds"] / 10)
            self.assertEqual(session.end(), (0, ""))

    def test_progress(self):
        """tells_progress_always_and_previews_if_they_are_wanted"""
        with self.session() as session:
            session.hear()
            for kind, previews in ((DRAW, 0), (DRAW_PREVIEW, 8)):
                heard = session.draw(kind, **DEMO)
                steps = [numbers(payload, 3) for kind, payload in heard if kind == PROGRESS]
                self.assertEqual([one for one in steps if one[0] == 2], [(2, i + 1, 8) for i in range(8)])
                self.assertEqual(sum(kind == PREVIEW for kind, _ in heard), previews)

    def test_seed(self):
        """tells_the_seed_that_it_chose"""
        with self.session() as session:
            session.hear()
            *_, (_, report), (_, png) = session.draw(prompt="a red boat", seed="-1")
            seed = json.loads(report)["seed"]
            self.assertLess(int(seed), 2 ** 63)
            self.assertEqual(session.draw(prompt="a red boat", seed=seed)[-1], (FINAL, png))

    def test_cancel(self):
        """stops_within_a_step_and_goes_on_with_the_next_job"""
        with self.session(*FREE_ARGS) as session:
            session.hear()
            session.send(DRAW, to_json(**LONG))
            while session.hear()[1][:8] != struct.pack(">II", 2, 2):
                pass  # until the second step is done
            session.process.send_signal(signal.SIGSTOP)  # what it does before it is told does not count
            os.waitid(os.P_PID, session.process.pid, os.WSTOPPED)
            session.hear_all()
            session.send(CANCEL)
            session.process.send_signal(signal.SIGCONT)
            *steps, (kind, said) = session.hear_end()
            self.assertEqual((kind, said.split(b"\n")[0]), (FAILED, b"image_cancelled"))
            self.assertLessEqual(len(steps), 1)
            kind, png = session.draw(**{**LONG, "steps": 1, "width": 64, "height": 64})[-1]
            self.assertEqual(kind, FINAL)
            Picture(png)
            self.assertEqual(session.end(), (0, "image_cancelled\n"))

    def test_cancel_late(self):
        """a_late_word_to_stop_does_not_reach_the_next_job"""
        with self.session(*TINY_ARGS) as session:
            session.hear()
            for _ in range(3):
                session.send(CANCEL)
                self.assertEqual(session.draw(**TINY)[-1][0], FINAL)

    def test_input_ends(self):
        """ends_at_once_when_its_server_has_died"""
        with self.session(*FREE_ARGS) as session:
            session.hear()
            session.send(DRAW, to_json(**LONG))
            while session.hear()[0] != PROGRESS:
                pass
            self.assertEqual(session.end(), (0, ""))  # no step comes to its end first

    def test_errors(self):
        """explains_to_its_server_what_was_wrong_and_stays"""
        with self.session() as session:
            session.hear()
            for recipe, want in (
                    (b'{"prompt":"x","width":1}',
                     b"image_request_invalid\nwidth: a whole number from 64 to 4096 is expected"),
                    (b"[1]", b"image_request_invalid\nan object is expected"),
                    (to_json(prompt="x", sampler="eulr"), b"image_request_invalid\nunknown sampler 'eulr'"),
                    (to_json(prompt="x", reference_images=["AAAA"]),
                     b"image_reference_invalid\nreference 1: is not a picture of a known format")):
                session.send(DRAW, recipe)
                kind, said = session.hear_end()[-1]
                self.assertEqual((kind, said[:len(want)]), (FAILED, want))
            self.assertEqual(session.draw(**DEMO)[-1][0], FINAL)

    def test_pictures(self):
        """reads_pictures_for_its_server"""
        with self.session() as session:
            session.hear()
            for name, largest, facts, size in (("exif-6.jpg", 0, (32, 48, 8), (32, 48)),
                                               ("exif-6.jpg", 24, (32, 48, 8), (16, 24)),
                                               ("alpha-hidden.png", 0, (16, 16, 1), (16, 16)),
                                               ("webp-named.jpg", 512, (48, 32, 0), (48, 32))):
                kind, payload = session.read_picture((IMAGES / name).read_bytes(), largest)
                self.assertEqual(kind, PICTURE, name)
                told, profile, png = picture_read(payload)
                self.assertEqual((name, told, profile), (name, facts, ""))
                picture = Picture(png)
                self.assertEqual((name, picture.width, picture.height), (name, *size))
            kind, said = session.read_picture((IMAGES / "animated.webp").read_bytes())
            self.assertEqual((kind, said), (FAILED, b"image_reference_invalid\nis an animated WebP file; only still "
                                                    b"pictures are supported"))

    def test_formats(self):
        """draws_into_jpeg_and_webp_files_with_the_recipe_in_their_notes"""
        comment = "UNICODE\0".encode() + "a red boat\nSteps: 8".encode("utf-16-be")
        with self.session() as session:
            session.hear()
            wanted = Picture(session.draw(**DEMO, opaque=True)[-1][1])
            for name, start in (("jpeg", b"\xff\xd8\xff"), ("webp", b"RIFF")):
                errors, sizes = [], []
                for quality in (95, 20):
                    *_, (_, report), (kind, file) = session.draw(**DEMO, opaque=True, format=name, quality=quality,
                                                                 metadata=True)
                    self.assertEqual((kind, file[:len(start)], file.count(comment)), (FINAL, start, 1))
                    self.assertEqual(json.loads(report)["width"], 128)
                    kind, payload = session.read_picture(file)
                    self.assertEqual(kind, PICTURE)
                    facts, _, png = picture_read(payload)
                    self.assertEqual(facts, (128, 128, 0))
                    errors.append(mean_error(Picture(png), wanted))
                    sizes.append(len(file))
                self.assertLess(errors[0], 3)
                self.assertLess(errors[0], errors[1])
                self.assertGreater(sizes[0], sizes[1])
                self.assertNotIn(b"Exif", session.draw(**DEMO, format=name)[-1][1])
            for recipe in ({"format": "gif"}, {"quality": 0}, {"quality": "high"}):
                self.assertEqual(session.draw(**DEMO, **recipe)[-1][0], FAILED)

    def test_convert(self):
        """writes_own_pictures_in_another_format_with_their_recipe"""
        with self.session() as session:
            session.hear()
            own = session.draw(**DEMO, metadata=True, opaque=True)[-1][1]
            recipe = Picture(own).texts["parameters"]
            for form in (JPEG, WEBP, PNG):
                kind, other = session.convert(own, form)
                self.assertEqual(kind, LARGE)
                kind, back = session.convert(other, PNG)
                self.assertEqual((kind, Picture(back).texts), (LARGE, {"parameters": recipe}))
                self.assertLessEqual(mean_error(Picture(back), Picture(own)), 0 if form == PNG else 3)
            kind, said = session.convert(b"nonsense", PNG)
            self.assertEqual((kind, said.split(b"\n")[0]), (FAILED, b"image_reference_invalid"))

    def test_hdr(self):
        """keeps_the_gain_map_of_what_is_changed_and_no_pixel_of_it"""
        source = (IMAGES / "gain-map" / "gainmap.jpg").read_bytes()
        own = Hdr(source)
        picture = base64.b64encode(source).decode()
        larger = {"init_image": picture, "result": {"width": 96, "height": 64}}
        redrawn = {**TINY, "init_image": picture, "strength": 0.5, "width": 96, "height": 64, "metadata": True}
        with self.session(*TINY_ARGS) as session:
            session.hear()
            for recipe in (larger, redrawn):
                *_, (_, report), (_, plain) = session.draw(**recipe, format="jpeg")
                self.assertNotIn("hdr_lost", json.loads(report))
                *_, (_, report), (_, file) = session.draw(**recipe, format="jpeg", keep_hdr=True)
                self.assertNotIn("hdr_lost", json.loads(report))
                made = Hdr(file)
                self.assertEqual((made.base.width, made.base.height), (96, 64))
                self.assertEqual(made.base.coded, Jpeg(plain).coded)
                self.assertEqual((made.map.width, made.map.height, made.map.channels), (12, 8, 1))
                self.assertEqual((made.flags, made.numbers), (own.flags, own.numbers))
                for told, number in zip(made.told, made.numbers):
                    self.assertAlmostEqual(told, float(number), delta=1e-6)
                self.assertEqual(b"Exif" in file, recipe is redrawn)

    def test_hdr_lost(self):
        """says_why_a_picture_is_without_the_gain_map_of_its_source"""
        source = (IMAGES / "gain-map" / "gainmap.jpg").read_bytes()
        whole, cut, none = (base64.b64encode(data).decode() for data in (
            source, source[:2177], (IMAGES / "gps.jpg").read_bytes()))
        size, square = {"width": 96, "height": 64}, {"width": 64, "height": 64}
        with self.session() as session:
            session.hear()
            for picture, result, form, why in (
                    (whole, size, "png", "only JPEG files have room for a gain map"),
                    (whole, square, "jpeg", "the result shows another part of the scene than its source"),
                    (cut, size, "jpeg", "its gain map is not where the file says"),
                    (none, square, "png", None)):
                recipe = {"init_image": picture, "result": result, "format": form, "keep_hdr": True}
                *_, (_, report), (kind, file) = session.draw(**recipe)
                self.assertEqual((kind, file[:2]), (LARGE, b"\xff\xd8" if form == "jpeg" else b"\x89P"))
                self.assertEqual(json.loads(report).get("hdr_lost"), why)
                self.assertNotIn(b"MPF\0", file)

    def test_trait(self):
        """tells_whether_a_picture_is_hdr_and_its_gain_map_can_be_read"""
        source = (IMAGES / "gain-map" / "gainmap.jpg").read_bytes()
        second = source.rindex(b"\xff\xd8\xff")  # where the map begins
        scan = source.rindex(b"\xff\xda")
        version = source.rindex(b"urn:iso:std:iso:ts:21496:-1\0") + 28
        plain = (IMAGES / "gps.jpg").read_bytes()
        pictures = ((source, 2), (plain, 0), (source[:second], 4), (source[:second + 40], 4), (source[:scan - 20], 4),
                    (source[:second] + bytes(len(source) - second), 4),
                    (source[:version] + b"\xff\xff" + source[version + 2:], 4))
        with self.session() as session:
            session.hear()
            for i, (picture, traits) in enumerate(pictures):
                kind, payload = session.read_picture(picture)
                self.assertEqual((kind, numbers(payload, 3)[2]), (PICTURE, traits), i)

    def test_large_canvas(self):
        """keeps_what_it_is_given_where_a_canvas_is_drawn_smaller"""
        def colour(x, y):
            return bytes((x * 7 % 256, y * 5 % 256, (x ^ y) % 256))

        picture = base64.b64encode(coloured(176, 128, colour)).decode()
        recipe = {**TINY, "init_image": picture, "outpaint": {"left": 80, "top": 64}, "width": 128, "height": 96,
                  "opaque": True}
        with self.session(*TINY_ARGS) as session:
            session.hear()
            for size, kept in (((256, 192), True), ((320, 240), False)):
                kind, file = session.draw(**recipe, result=dict(zip(("width", "height"), size)))[-1]
                self.assertEqual(kind, LARGE)
                made = Picture(file)
                self.assertEqual((made.width, made.height), size)
                faded = 63  # over half of the picture's shorter side, since twice 40 is more
                places = [(x, y, ((64 + y) * made.width + 80 + x) * made.channels)
                          for y in range(faded, 128) for x in range(faded, 176)]
                same = sum(made.pixels[at:at + 3] == colour(x, y) for x, y, at in places)
                self.assertEqual(same == len(places), kept, (size, same))
            del recipe["height"]
            kind, said = session.draw(**recipe, result={"width": 256, "height": 192})[-1]
            self.assertEqual(kind, FAILED)
            self.assertIn(b"outpainting makes the size from the picture and its new sides", said)

    def test_profiles(self):
        """tells_the_colour_profile_of_a_picture_and_reads_it_whatever_that_is"""
        with self.session() as session:
            session.hear()
            for row in json.loads((IMAGES / "icc" / "cases.json").read_text()):
                kind, payload = session.read_picture((IMAGES / "icc" / row["file"]).read_bytes())
                self.assertEqual(kind, PICTURE, row)
                facts, profile, png = picture_read(payload)
                self.assertEqual((facts, profile, Picture(png).width), ((16, 16, 0), row["name"], 16), row)
                self.assertNotIn(b"iCCP", png)

    def test_inspect(self):
        """tells_how_a_picture_was_made"""
        workflows = IMAGES.parent / "workflow"
        with self.session() as session:
            session.hear()
            own = session.draw(**DEMO, metadata=True, format="jpeg")[-1][1]
            for data, expected in (
                    ((workflows / "2512.png").read_bytes(), {"source": "comfyui", "seed": "1062323160169910"}),
                    (own, {"source": "kuno", "model": "demo", "prompt": DEMO["prompt"]}),
                    ((IMAGES / "gps.jpg").read_bytes(), {"source": "none"}),
                    ((workflows / "refuse-cycle.png").read_bytes(), {"source": "comfyui", "imported_from": "prompt"})):
                session.send(INSPECT, data)
                kind, told = session.hear_end()[-1]
                self.assertEqual((kind, json.loads(told) | expected), (FOUND, json.loads(told)))
            self.assertIn("cycle", json.loads(told)["refused"])
            session.send(INSPECT, b"nonsense")
            kind, said = session.hear_end()[-1]
            self.assertEqual((kind, said.split(b"\n")[0]), (FAILED, b"image_reference_invalid"))

    def test_measure(self):
        """tells_by_how_much_an_upscaler_enlarges"""
        with self.session() as session:
            session.hear()
            for name, factor in (("compact-x2", 2), ("compact-x4", 4), ("mosr-x2-dys", 2), ("mosr-x4-ps", 4),
                                 ("rrdb-x1-unshuffle", 1), ("rrdb-x2-old", 2), ("rrdb-x4-new", 4), ("rrdb-x8-old", 8)):
                session.send(MEASURE, str(UPSCALERS / name / "weights.safetensors").encode())
                kind, payload = session.hear_end()[-1]
                self.assertEqual((name, kind, *numbers(payload, 1)), (name, FACTOR, factor))
            for path, word in ((IMAGES / "one-pixel.png", b"image_model_mismatch"),
                               (IMAGES / "nowhere", b"image_model_missing")):
                session.send(MEASURE, str(path).encode())
                kind, said = session.hear_end()[-1]
                self.assertEqual((kind, said.split(b"\n")[0]), (FAILED, word))
            self.assertEqual(session.draw(**DEMO)[-1][0], FINAL)

    def test_bomb(self):
        """refuses_a_picture_too_large_before_it_takes_memory"""
        with self.session() as session:
            session.hear()
            before = peak_bytes(session.process.pid)
            kind, said = session.read_picture((IMAGES / "bomb-60000.png").read_bytes())
            self.assertEqual((kind, said.split(b"\n")[0]), (FAILED, b"image_reference_invalid"))
            self.assertLess(peak_bytes(session.process.pid) - before, 16 << 20)

    def test_nonsense(self):
        """ends_when_its_server_does_not_keep_to_the_protocol"""
        recipe = to_json(**LONG)
        job = b"KIP1" + struct.pack(">BI", DRAW, len(recipe)) + recipe
        for nonsense in (b"GET / HTTP/1.1\r\n", b"KIP1\2\0\0\0\1x", b"KIP1\x10\xff\xff\xff\xff", job * 3):
            with self.session(*FREE_ARGS) as session:
                session.hear()
                session.process.stdin.write(nonsense)
                session.process.stdin.flush()
                try:
                    while True:
                        self.assertIn(session.hear()[0], (PROGRESS, FAILED))
                except EOFError:
                    pass
                self.assertEqual(session.process.wait(PATIENCE), 0)

    def test_default(self):
        """wants_to_be_locked_in_unless_told_otherwise"""
        with Session(self.home) as session:
            try:
                kind, said = session.hear()
            except EOFError:
                self.fail("the worker says nothing")
            self.assertIn((kind, said.split(b"\n")[0]), ((READY, b""), (FAILED, b"image_isolation_missing")))


def peak_bytes(pid):
    status = open(f"/proc/{pid}/status", encoding="ascii").read()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10


tap.main()
