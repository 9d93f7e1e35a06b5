"""Pictures by the gateway's route: what is drawn, who may ask, what makes room, and what becomes of those who leave."""

import base64
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import tap
from harness import PATIENCE, PROGRAM, TOKEN, Case, wait_until
from workers import Workers, is_alive

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
E2E = GOLDEN / "qwen21-e2e"
DEMO = ROOT / "models" / "demo"
FREE = f"""[model_profiles.free]
architecture = "qwen-image-2.1"
variant = "base"
diffusion_model = "{DEMO}/diffusion_model_fp8_scaled.safetensors"
text_encoder = "{DEMO}/text_encoder_fp8_scaled.safetensors"
vae = "{DEMO}/vae.safetensors"
tokenizer = "{DEMO}/tokenizer"
"""
OWNER = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
ROUTE = "/kuno/v1/images/generate"
RECIPE = {"workflow": "qwen-image-2.1-text-to-image/v1", "prompt": "a red boat", "seed": "42", "width": 128,
          "height": 128, "steps": 8, "cfg": 1}
# Long enough that nothing ends it but being told to.
LONG = {**RECIPE, "width": 768, "height": 768, "steps": 100}
EDIT = {**RECIPE, "workflow": "qwen-image-2.1-edit/v1"}
MIB = 1 << 20
LEAST, ASPECT = 2, 50  # pixels of a side of a reference, and what it may be of the other


def text(recipe=RECIPE, **more):
    return json.dumps({**recipe, **more})


class Pictures:
    """What cases with pictures have in common."""

    def draw(self, server, body=None, id=None, port=None, **headers):
        """(status, headers, body) of one picture."""
        fields = {**OWNER, **({"X-Kuno-Image-Preview-Id": id} if id else {}), **headers}
        return server.ask("POST", ROUTE, text() if body is None else body, None, fields, port or server.control)

    def code(self, answer):
        status, headers, body = answer
        self.assertEqual((headers["Content-Type"], headers["Cache-Control"]), ("application/problem+json", "no-store"))
        return status, json.loads(body)["code"]

    def start(self, **more):
        """A server whose pictures may take long."""
        (self.folder / "models.toml").write_text(FREE)
        return self.serve(image={"models": str(self.folder), "keep_warm_seconds": 0, **more})

    def start_picture(self, server, body=None, id="", port=None):
        """Asks for one and leaves the connection to the test."""
        body = (body or text(LONG)).encode()
        s = socket.create_connection(("127.0.0.1", port or server.control), PATIENCE)
        s.sendall(b"POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n%s"
                  b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                  % (ROUTE.encode(), port or server.control, TOKEN.encode(),
                     f"X-Kuno-Image-Preview-Id: {id}\r\n".encode() if id else b"", len(body), body))
        return s

    def preview(self, server, id, port=None):
        status, headers, body = server.ask("GET", f"/kuno/v1/images/previews/{id}", None, None, OWNER,
                                           port or server.control)
        self.assertEqual((status, headers["Cache-Control"]), (200, "no-store"), body)
        return json.loads(body)

    def wait_preview(self, server, id):
        seen = []
        wait_until(lambda: seen.append(self.preview(server, id)) or seen[-1], "a preview")
        return seen[-1]

    def image_workers(self, server):
        """The processes that draw."""
        found = []
        children = pathlib.Path(f"/proc/{server.pid()}/task/{server.pid()}/children").read_text()
        for pid in map(int, children.split()):
            with contextlib.suppress(OSError):
                if b"image-worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found


class Drawn(Pictures, Case):
    def setUp(self):
        super().setUp()
        self.upstream.residents = []

    def test_same(self):
        """a_picture_is_that_of_kuno_generate_to_the_byte_on_both_doors"""
        server = self.serve(image={})
        own = self.folder / "own.png"
        subprocess.run([PROGRAM, "generate", RECIPE["prompt"], "--seed", "42", "--no-metadata", "--output", str(own)],
                       check=True, capture_output=True, env={**os.environ, "HOME": str(self.folder)})
        for port in (server.control, server.listen):
            status, headers, body = self.draw(server, port=port)
            self.assertEqual((status, headers["Content-Type"]), (200, "image/png"), body[:200])
            self.assertEqual((headers["Cache-Control"], headers["X-Kuno-Seed"]), ("no-store", "42"))
            self.assertEqual(body, own.read_bytes())
        items = server.own("GET", "images/workflows")[1]["items"]
        self.assertEqual([(one["id"], one["unavailable_reason"]) for one in items if "2.1" in one["id"]],
                         [(RECIPE["workflow"], None), (EDIT["workflow"], "no_profile")])
        seen = base64.b64encode((E2E / "edit" / "reference0.png").read_bytes()).decode()
        self.assertEqual(self.code(self.draw(server, text(EDIT, reference_images=[seen]))),
                         (409, "image_model_missing"))
        for key, value in ("steps", 7), ("cfg", 5):
            answer = self.draw(server, text(**{key: value}))
            self.assertEqual(self.code(answer), (422, "image_request_invalid"))
            error, = json.loads(answer[2])["errors"]
            self.assertEqual(error["pointer"], f"/{key}")
            self.assertRegex(error["detail"], f"^{key} cannot be .*: Turbo was distilled for exactly its own 8 steps")
        self.assertTrue(self.image_workers(server))  # it stays warm
        self.assertEqual(server.stop(), 0)

    def test_isolation(self):
        """the_status_says_what_the_worker_does_without_as_soon_as_there_is_one"""
        server = self.serve(image={})
        self.assertIsNone(server.own("GET", "status")[1]["image"]["isolation_missing"])
        self.assertEqual(self.draw(server)[0], 200)
        self.assertLessEqual(set(server.own("GET", "status")[1]["image"]["isolation_missing"]),
                             {"files", "system-calls", "swap"})

    def test_edit(self):
        """so_is_one_that_is_drawn_from_others"""
        server = self.serve(image={"models": str(E2E)})
        own, given = self.folder / "own.png", E2E / "edit" / "reference0.png"
        tiny = {"width": 64, "height": 64, "steps": 2}
        subprocess.run([PROGRAM, "generate", RECIPE["prompt"], "--config", str(E2E / "models.toml"), "--seed", "42",
                        "--size", "64x64", "--steps", "2", "--cfg", "1", "--no-metadata", "--output", str(own),
                        "--reference", str(given), "--reference", str(given)], check=True, capture_output=True)
        reference = base64.b64encode(given.read_bytes()).decode()
        status, _, body = self.draw(server, text(EDIT, **tiny, reference_images=[reference] * 2))
        self.assertEqual((status, body), (200, own.read_bytes()))
        answer = self.draw(server, text(EDIT, **tiny, reference_images=[base64.b64encode(b"no picture").decode()]))
        self.assertEqual(self.code(answer), (422, "image_reference_invalid"))

    def test_blind(self):
        """an_edit_by_a_model_whose_files_see_no_pictures_is_refused_as_that"""
        (self.folder / "text_encoder.safetensors").write_bytes((E2E / "text_encoder.safetensors").read_bytes())
        profile = (E2E / "models.toml").read_text().split("\n\n")[1]
        for name in ("transformer.safetensors", "vae.safetensors", "tokenizer.json"):
            profile = profile.replace(f'"{name}"', f'"{E2E}/{name}"')
        (self.folder / "models.toml").write_text(profile)
        server = self.serve(image={"models": str(self.folder)})
        reference = base64.b64encode((E2E / "edit" / "reference0.png").read_bytes()).decode()
        tiny = {"width": 64, "height": 64, "steps": 2}
        answer = self.draw(server, text(EDIT, **tiny, reference_images=[reference]))
        self.assertEqual(self.code(answer), (409, "image_model_mismatch"))
        self.assertEqual(self.draw(server, text(**tiny))[0], 200)

    def test_doors(self):
        """who_has_no_token_or_comes_from_elsewhere_is_not_let_in"""
        server = self.serve(image={"collections": ["qwen-image-2512-fp8"], "keep_warm_seconds": 0})
        for port in (server.control, server.listen):
            for status, headers in ((401, {"Authorization": "Bearer x"}), (403, {"Origin": "http://evil.example"}),
                                    (421, {"Host": "evil.example"}), (415, {"Content-Type": "text/plain"})):
                self.assertEqual(self.draw(server, port=port, **headers)[0], status)
            self.assertEqual(self.code(self.draw(server, port=port)), (409, "image_model_missing"))
            reasons = [one["unavailable_reason"] for one in json.loads(
                server.ask("GET", "/kuno/v1/images/workflows", None, None, OWNER, port)[2])["items"]]
            self.assertEqual(reasons, ["no_profile"] + ["collection_not_configured"] * 2)
        self.assertEqual(server.ask("GET", "/kuno/v1/status", None, None, OWNER)[0], 404)

    def test_disabled(self):
        """without_image_in_the_configuration_nothing_is_drawn_and_the_public_door_has_no_such_route"""
        server = self.serve()
        self.assertEqual(self.code(self.draw(server)), (409, "image_disabled"))
        self.assertEqual(self.draw(server, port=server.listen)[0], 404)
        status = server.own("GET", "status")[1]
        self.assertEqual((status["image"], status["capabilities"]["image_generation"]), (None, False))
        self.assertEqual({one["unavailable_reason"] for one in server.own("GET", "images/workflows")[1]["items"]},
                         {"image_disabled"})

    def test_recipes(self):
        """a_recipe_that_is_none_is_refused_before_anything_waits_and_says_where"""
        server = self.serve(image={})
        self.assertEqual(self.code(self.draw(server, "{")), (400, "json_invalid"))
        shift = {**RECIPE, "workflow": "qwen-image-2512-text-to-image/v1"}
        for place, wrong in (("/seed", text(seed=42)), ("/seed", text(seed="-1")), ("/seed", text(seed="9" * 19)),
                             ("/width", text(width=130)), ("/height", text(height=4112)), ("/steps", text(steps=101)),
                             ("/cfg", text(cfg=30.5)), ("/prompt", text(prompt="")),
                             ("/flow_shift", text(flow_shift=1)),
                             ("/prompt", text(prompt="x" * 32769)), ("/model", text(model="demo")),
                             ("/metadata", text(metadata=True)), ("/sampler", text(sampler="euler")),
                             ("/attention", text(attention="fast")), ("/reference_images", text(EDIT)),
                             ("/reference_images/10", text(EDIT, reference_images=["QQ=="] * 11)),
                             ("/reference_images/1", text(EDIT, reference_images=["QQ==", "QQ"])),
                             ("/reference_images/0", text(EDIT, reference_images=["data:image/png;base64,QQ=="])),
                             ("/other", text(other=1)), ("", text(shift)), ("/workflow", text(workflow="x"))):
            status, _, body = self.draw(server, wrong)
            problem = json.loads(body)
            self.assertEqual(status, 422, wrong[:200])
            error, = problem["errors"]
            self.assertEqual(error["pointer"], place, wrong[:200])
            self.assertNotEqual(error["detail"], problem["title"])
            self.assertEqual(error["detail"], problem["detail"])
        for detail, wrong in (
            ('seed: digits in quotes are expected, as in "42", so that none is lost', text(seed=42)),
            ("seed: a whole number from 0 to 9223372036854775807 is expected", text(seed="-1")),
            ("flow_shift: this workflow chooses it by the size; leave it out", text(flow_shift=3)),
            ("prompt: no LoRA can be used in prompts", text(prompt="a <lora:canary:1>")),
            ("the key 'flow_shift' is missing", text(shift)),
            ('reference_images[0]: a picture in base64 alone is expected, without "data:" and a type in front',
             text(EDIT, reference_images=["data:image/png;base64,QQ=="])),
        ):
            self.assertEqual(json.loads(self.draw(server, wrong)[2])["detail"], detail)
        self.assertEqual(self.code(self.draw(server, text(attention="fast"))), (422, "image_attention_unsupported"))
        self.assertEqual(self.code(self.draw(server, text(EDIT))), (422, "image_reference_required"))
        self.assertEqual(self.code(self.draw(server, id="A" * 64)), (400, "header_invalid"))
        self.assertFalse(self.image_workers(server))

    def test_limits(self):
        """sixteen_mib_of_one_picture_and_sixty_three_of_all_are_possible_and_sixty_four_of_a_body"""
        server = self.serve(image={"models": str(E2E)})
        sixteen = base64.b64encode(bytes(16 * MIB)).decode()
        rest = "A" * (63 * MIB - 2 * len(sixteen))
        for references, code in (([sixteen], "no picture"), ([sixteen + "AAAA"], "too large"),
                                 ([sixteen, sixteen, rest], "no picture"),
                                 ([sixteen, sixteen, rest, "AAAA"], "too large")):
            status, _, body = self.draw(server, text(EDIT, reference_images=references))
            problem = json.loads(body)
            self.assertEqual((status, problem["code"]), (422, "image_reference_invalid"))
            # Only what is refused by the server itself has a place.
            self.assertEqual("errors" in problem, code == "too large", body)
        body = text(width=64, height=64, steps=1)
        answer = self.draw(server, body + " " * (64 * MIB + 1 - len(body)))
        self.assertEqual(self.code(answer), (413, "body_too_large"))
        self.assertEqual(self.draw(server, body + " " * (64 * MIB - len(body)))[0], 200)

    def test_two(self):
        """two_bodies_are_in_memory_at_once_and_their_places_come_back"""
        server = self.start()
        with contextlib.ExitStack() as stack:
            halves = [stack.enter_context(self.start_half(server)) for _ in range(2)]
            self.assertEqual(self.code(self.draw(server)), (429, "image_busy"))
            halves[0].close()
            wait_until(lambda: self.draw(server, "{")[0] == 400, "a place")
            first = stack.enter_context(self.start_picture(server))
            wait_until(lambda: server.own("GET", "status")[1]["image"]["busy"], "the picture")
            self.assertEqual(self.code(self.draw(server)), (429, "image_busy"))
            halves[1].close()
            second = stack.enter_context(self.start_picture(server))
            wait_until(lambda: server.admission()["queued"] == 1, "one that waits")
            self.assertEqual(self.code(self.draw(server)), (429, "image_busy"))
            second.close()
            wait_until(lambda: server.admission()["queued"] == 0, "one that has left")
            first.close()
            server.wait_idle()
        self.assertEqual(self.draw(server, "{")[0], 400)

    def test_eight(self):
        """of_eight_at_once_each_gets_its_own_or_is_told_to_come_later"""
        server = self.serve(image={})
        answers = [self.in_background(self.draw, server, text(seed=str(seed), height=64 + 16 * seed))
                   for seed in range(8)]
        drawn = 0
        for seed, answer in enumerate(answers):
            status, headers, body = answer()
            if status == 200:
                drawn += 1
                height = int.from_bytes(body[20:24], "big")  # as the PNG says
                self.assertEqual((headers["X-Kuno-Seed"], height), (str(seed), 64 + 16 * seed))
            else:
                self.assertEqual((status, json.loads(body)["code"], headers["Retry-After"]), (429, "image_busy", "5"))
        self.assertGreater(drawn, 0)

    def start_half(self, server):
        s = socket.create_connection(("127.0.0.1", server.control), PATIENCE)
        s.sendall(b"POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                  b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
                  % (ROUTE.encode(), server.control, TOKEN.encode()))
        return s


class Odd(Pictures, Case):
    """The odd and hostile pictures and requests of tests/golden, by the route."""

    # What other APIs take and this one does not: it wants a seed to be chosen by whoever asks, and plain base64.
    STRICTER = ("seed-minus-1.json", "image-data-url.json", "seed-u64-max.json")

    def setUp(self):
        super().setUp()
        self.upstream.residents = []
        self.server = self.serve(image={"models": str(E2E)})

    def cases(self, folder):
        return json.loads((GOLDEN / folder / "cases.json").read_text(encoding="utf-8"))

    def test_requests(self):
        """requests_have_their_stated_result"""
        for case in self.cases("requests"):
            body = (GOLDEN / "requests" / case["file"]).read_bytes()
            workflow = EDIT["workflow"] if b"reference_images" in body else RECIPE["workflow"]
            body = re.sub(rb"^{", b'{"workflow": "%s", "cfg": 1, ' % workflow.encode(), body)
            body = re.sub(rb'"cfg": 1, (.*"cfg")', rb"\1", body)
            body = re.sub(rb'("(?:width|height)": )256', rb"\g<1>64", body)
            body = re.sub(rb'"seed": (-?\d+)([,}])', rb'"seed": "\1"\2', body)
            status, headers, answer = self.draw(self.server, body)
            if case["expect"] == "accept" and case["file"] not in self.STRICTER:
                self.assertEqual((status, answer[:4]), (200, b"\x89PNG"), case["file"])
                self.assertEqual(headers["X-Kuno-Seed"], case.get("seed", "42"))
            else:
                self.assertIn((status, json.loads(answer)["code"]),
                              ((400, "json_invalid"), (422, "image_request_invalid"), (422, "image_reference_invalid")),
                              case["file"])
        self.assertNotIn("second line", self.server.text())

    def test_pictures(self):
        """pictures_have_their_stated_result"""
        for case in self.cases("image"):
            picture = base64.b64encode((GOLDEN / "image" / pathlib.Path(case["file"]).name).read_bytes()).decode()
            status, _, answer = self.draw(self.server, text(EDIT, width=64, height=64, steps=1,
                                                            reference_images=[picture]))
            decoded = case.get("decoded", {"w": 0, "h": 0})
            short, long = sorted((decoded["w"], decoded["h"]))
            if case["expect"] == "accept" and short >= LEAST and long <= ASPECT * short:
                self.assertEqual((status, answer[:4]), (200, b"\x89PNG"), case["file"])
            else:
                self.assertEqual((status, json.loads(answer)["code"]), (422, "image_reference_invalid"), case["file"])


class Running(Pictures, Case):
    """Pictures that take long."""

    def setUp(self):
        super().setUp()
        self.upstream.residents = []

    def test_previews(self):
        """previews_are_for_who_knows_the_id_and_only_while_it_is_drawn"""
        server = self.start()
        id, other = os.urandom(32).hex(), os.urandom(32).hex()
        self.assertIsNone(self.preview(server, id))
        with self.start_picture(server, id=id):
            seen = self.wait_preview(server, id)
            self.assertEqual((seen["steps"], seen["width"], seen["height"]), (100, 48, 48))
            self.assertEqual(base64.b64decode(seen["png_base64"])[:4], b"\x89PNG")
            self.assertIsNone(self.preview(server, other))
            self.assertEqual(self.preview(server, id, server.listen)["steps"], 100)
            self.assertEqual(self.code(self.draw(server, id=id)), (409, "image_preview_id_taken"))
            wait_until(lambda: self.preview(server, id)["step"] > seen["step"], "the next one")
            for wrong in ("x" * 64, id[:-1], id + "0", id.upper()):
                status = server.ask("GET", f"/kuno/v1/images/previews/{wrong}", None, None, OWNER, server.control)[0]
                self.assertEqual(status, 400, wrong)
        server.wait_idle()
        self.assertIsNone(self.preview(server, id))

    def test_leave(self):
        """a_client_that_leaves_cancels_and_the_next_one_has_its_turn"""
        server = self.start()
        id = os.urandom(32).hex()
        with self.start_picture(server, id=id, port=server.listen):
            self.wait_preview(server, id)
            self.assertEqual(server.admission()["active_kind"], "image")
            waits = self.in_background(server.generate)
            wait_until(lambda: server.admission()["queued"] == 1, "one that waits")
            (worker,) = self.image_workers(server)
        self.assertEqual(waits()[0], 200)
        self.assertFalse(is_alive(worker))
        self.assertFalse(server.admission()["recovery_required"])

    def test_killed(self):
        """a_worker_that_is_killed_costs_its_picture"""
        server = self.start()
        answer = self.in_background(self.draw, server, text(LONG))
        wait_until(lambda: self.image_workers(server), "a worker")
        os.kill(self.image_workers(server)[0], signal.SIGKILL)
        self.assertEqual(self.code(answer()), (502, "image_worker_failed"))
        server.wait_idle()
        self.assertEqual((server.admission()["state"], server.generate()[0]), ("open", 200))
        server.wait_said("a picture was not drawn: image_worker_failed")
        server.wait_said("the image worker was ended by signal 9\n")

    def test_deadline(self):
        """a_picture_that_takes_longer_than_it_may_is_ended"""
        self.assertEqual(self.code(self.draw(self.start(timeout_seconds=1), text(LONG))), (504, "image_deadline"))

    def test_admission(self):
        """while_admission_is_paused_or_the_server_stops_nothing_is_drawn"""
        server = self.start()
        server.own("POST", "admission/pause", {})
        self.assertEqual(self.code(self.draw(server)), (503, "admission_paused"))
        server.own("POST", "admission/resume")
        first = self.start_picture(server)
        wait_until(lambda: server.admission()["active"], "the picture")
        waits = self.in_background(self.draw, server)
        wait_until(lambda: server.admission()["queued"] == 1, "one that waits")
        os.kill(server.pid(), signal.SIGTERM)
        self.assertEqual(self.code(waits()), (503, "stopping"))
        first.close()
        self.assertEqual(server.process.wait(PATIENCE), 0)

    def test_canaries(self):
        """nothing_of_a_picture_is_in_a_log_or_file"""
        server = self.start()
        canary, id = "canary-prompt-0123456789", os.urandom(32).hex()
        recipe = text(LONG, prompt=canary, negative_prompt=canary)
        with self.start_picture(server, recipe, id):
            self.wait_preview(server, id)
        server.wait_idle()
        self.draw(server, text(prompt=f"<lora:{canary}:1>"))
        self.draw(server, text(EDIT, prompt=canary, reference_images=[base64.b64encode(canary.encode()).decode()]))
        self.draw(server, text(**{canary: canary}))
        server.stop()
        kept = [server.text(), *(path.read_text("latin-1") for path in server.state.rglob("*") if path.is_file())]
        self.assertIn("image_reference_invalid", kept[0])
        for one in kept:
            for private in (canary, id, base64.b64encode(canary.encode()).decode()):
                self.assertNotIn(private, one)


class Room(Workers, Pictures):
    """Ollama makes room for pictures."""

    def setUp(self):
        super().setUp()
        self.upstream.residents = [{"name": "tiny:latest", "digest": "0" * 64},
                                   {"name": "other:7b", "digest": "1" * 64}]

    def unloaded(self):
        """What the upstream was asked to unload."""
        bodies = [json.loads(body) for method, target, body in self.upstream.seen if target == "/api/generate"]
        return [body["model"] for body in bodies if body.get("keep_alive") == 0]

    def test_upstream(self):
        """the_upstream_has_unloaded_its_models_before_a_picture_is_drawn"""
        self.upstream.unloads = True
        server = self.serve(image={})
        self.assertEqual(self.draw(server)[0], 200)
        self.assertEqual((self.unloaded(), self.upstream.residents), (["tiny:latest", "other:7b"], []))
        self.upstream.close()
        self.assertEqual(self.draw(server)[0], 200)

    def test_workers(self):
        """workers_on_its_device_are_ended_and_come_back_with_the_next_request"""
        self.upstream.residents = []
        server = self.start(image={})
        self.place(server.generate(model="tiny"))
        before = self.pids()
        self.assertEqual(self.draw(server)[0], 200)
        self.assertEqual([pid for pid in before if is_alive(pid)], [])
        self.assertEqual(self.image_workers(server), [])  # it has given the device back
        self.place(server.generate(model="tiny"))
        self.assertGreater(len(self.pids()), len(before))

    def test_elsewhere(self):
        """workers_on_other_devices_stay"""
        self.upstream.residents = []
        server = self.start(image={"pci_address": "0000:2d:00.0"})
        self.assertEqual(server.own("GET", "status")[1]["image"]["pci_address"], "0000:2d:00.0")
        self.place(server.generate(model="tiny"))
        self.assertEqual(self.draw(server)[0], 200)
        self.assertEqual([is_alive(pid) for pid in self.pids()], [True, True])


if __name__ == "__main__":
    tap.main()
