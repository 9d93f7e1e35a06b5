"""`kuno mcp` as a client meets it that has started it: lines in, lines out."""

import base64
import contextlib
import http.server
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import tap
from studio.rig import PATIENCE, TOKEN, png
from studio.serve import Serve
from talk import HANDSHAKE, LEGACY, MODERN, PROGRAM, SLOW, SPACE, Lines, Stranger, Studio, call, envelope, note, request

TOOLS = ["get_status", "list_models", "plan_image", "generate_image", "edit_image", "upscale_image", "get_job",
         "wait_for_job", "cancel_job", "list_gallery", "get_image"]
PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
NOT_FOUND, UNSUPPORTED_VERSION = -32002, -32022


def data_url(picture):
    return "data:image/png;base64," + base64.b64encode(picture).decode()


class Case(unittest.TestCase):
    maxDiff = 3000

    @classmethod
    def setUpClass(cls):
        cls.studio = Studio()
        cls.addClassCleanup(cls.studio.close)

    def lines(self, *options):
        one = Lines(self.studio.config, *options)
        self.addCleanup(one.__exit__)
        return one

    def opened(self, *options):
        one = self.lines(*options)
        one.open()
        return one

    def refused(self, answer, code):
        self.assertEqual(answer.get("error", {}).get("code"), code, answer)

    def failed(self, result, start):
        self.assertTrue(result["isError"], result)
        self.assertTrue(result["content"][0]["text"].startswith(start), result)


    def words(self, answer):
        """Of a tool that has failed."""
        self.assertTrue(answer["result"]["isError"], answer)
        return answer["result"]["content"][0]["text"]


class Messages(Case):
    def test_the_handshake_agrees_on_a_version(self):
        for asked, told in (("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), (LEGACY, LEGACY),
                            ("2099-01-01", LEGACY), (MODERN, LEGACY)):
            with self.subTest(asked):
                answer = self.lines().ask(request(1, "initialize", {**HANDSHAKE, "protocolVersion": asked}))["result"]
                self.assertEqual(answer["protocolVersion"], told)
                self.assertEqual(answer["serverInfo"]["name"], "kuno")
                self.assertEqual(answer["capabilities"], {"tools": {"listChanged": False}, "resources": {}})

    def test_ids_come_back_as_they_were(self):
        talk = self.opened()
        for id in (0, -7, 2**53 + 1, "two", "", "ä\n\"", "x" * 255):
            self.assertEqual(talk.ask(request(id, "ping"))["result"], {})

    def test_what_is_no_request_is_refused_and_the_next_one_is_heard(self):
        talk = self.opened()
        rows = [
            (b"{not json}", PARSE_ERROR), (b"\xff", PARSE_ERROR), (b"[" * 70 + b"]" * 69, PARSE_ERROR),
            (b"[" * 70 + b"]" * 70, INVALID_REQUEST),
            (b'{"jsonrpc":"2.0","id":1,"method":"ping"} x', PARSE_ERROR), (b"[]", INVALID_REQUEST),
            (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST), (b"7", INVALID_REQUEST),
            (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID_REQUEST),
            (b'{"id":1,"method":"ping"}', INVALID_REQUEST),
            (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST), (b"{}", INVALID_REQUEST),
            (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST),
            (b'{"jsonrpc":"2.0","id":1,"method":7}', INVALID_REQUEST),
            (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', INVALID_REQUEST),
        ]
        for number, (line, code) in enumerate(rows):
            before = len(talk.seen)
            talk.raw(line + b"\n")
            self.assertEqual(talk.ask(request(f"after {number}", "ping"))["result"], {})
            (answer,) = [one for one in talk.seen[before:] if "error" in one]
            self.assertEqual((line, answer["error"]["code"]), (line, code))

    def test_what_is_json_but_not_taken_is_refused_under_its_id(self):
        talk = self.opened()
        deep = b"[" * 80 + b"]" * 80
        for number, (tool, arguments, wrong) in enumerate([
            (b"generate_image", b'{"prompt":"a cat \\ud83d"}', "prompt"),
            (b"generate_image", b'{"prompt":"a cat \\u0000"}', "prompt"),
            (b"plan_image", b'{"negative_prompt":%s}' % deep, "negative_prompt"),
            (b"list_gallery", b'{"query":"\\udc00"}', "query"), (b"get_job", b'{"job_id":"job_\\u0000"}', "job_id"),
            (b"edit_image", b'{"images":["/a\\u0000b"],"prompt":"a"}', "images"),
        ]):
            talk.raw(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":%s}}\n'
                     % (number, tool, arguments))
            self.failed(talk.answer(number)["result"], f"arguments_invalid: {wrong}: ")
        talk.raw(b'{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"a\\u0000"}}\n')
        self.refused(talk.answer(10), INVALID_PARAMS)
        talk.raw(b'{"jsonrpc":"2.0","id":11,"method":"p\\ud800","params":%s}\n' % deep)
        self.refused(talk.answer(11), INVALID_REQUEST)

    def test_carriage_returns_empty_lines_and_pieces_are_no_matter(self):
        talk = self.opened()
        talk.raw(b"\n\r\n   \n" + b'{"jsonrpc":"2.0","id":6,')
        talk.raw(b'"method":"ping"}\r\n')
        self.assertEqual(talk.answer(6)["result"], {})

    def test_notifications_and_responses_are_never_answered(self):
        talk = self.opened()
        before = len(talk.seen)
        talk.send(note("notifications/no_such"), note("notifications/cancelled", {"requestId": 99}), note("tools/list"),
                  {"jsonrpc": "2.0", "id": 3, "result": {}}, {"jsonrpc": "2.0", "id": 3, "error": {"code": 1}})
        talk.ask(request(4, "ping"))
        self.assertEqual(len(talk.seen), before + 1)

    def test_a_message_that_is_too_long_is_refused_and_stepped_over(self):
        talk = self.opened()
        talk.send(request("large", "ping", {"pad": "x" * (20 << 20)}))
        self.assertEqual(talk.answer("large")["result"], {})
        piece = b" " * (1 << 20)
        for _ in range(65):
            talk.raw(piece)
        talk.send(request("too large", "ping"), request("after", "ping"))
        self.assertEqual(talk.answer("after")["result"], {})
        self.assertIsNone(next((one for one in talk.seen if one.get("id") == "too large"), None))
        self.refused(talk.wait(lambda one: one.get("id", 1) is None), INVALID_REQUEST)

    def test_methods_and_parameters_that_are_unknown_are_refused(self):
        talk = self.opened()
        for number, (method, params, code) in enumerate([
            ("no/such", None, UNKNOWN_METHOD), ("server/discover", None, UNKNOWN_METHOD),
            ("tools/call", {"name": "no_such_tool"}, INVALID_PARAMS), ("tools/call", {}, INVALID_PARAMS),
            ("tools/call", {"name": "get_status", "arguments": []}, INVALID_PARAMS),
            ("tools/list", {"cursor": "x"}, INVALID_PARAMS), ("resources/list", {"cursor": "x"}, INVALID_PARAMS),
            ("tools/list", [], INVALID_PARAMS), ("initialize", {}, INVALID_PARAMS),
            ("resources/read", {}, INVALID_PARAMS), ("resources/read", {"uri": "file:///etc/passwd"}, NOT_FOUND),
            ("resources/read", {"uri": "kuno://gallery/img_" + "0" * 26}, NOT_FOUND),
            ("resources/read", {"uri": "kuno://gallery/img_0/../.."}, NOT_FOUND),
        ]):
            self.refused(talk.ask(request(number, method, params)), code)


class Eras(Case):
    def test_a_client_of_the_newer_era_needs_no_handshake(self):
        talk = self.lines()
        answer = talk.ask(request(1, "server/discover", {"_meta": envelope()}))["result"]
        self.assertEqual(answer["supportedVersions"][:2], [MODERN, LEGACY])
        self.assertEqual((answer["resultType"], answer["ttlMs"], answer["cacheScope"]), ("complete", 0, "private"))
        self.assertEqual(answer["_meta"][SPACE + "serverInfo"]["name"], "kuno")
        listed = talk.ask(request(2, "tools/list", {"_meta": envelope()}))["result"]
        self.assertEqual([one["name"] for one in listed["tools"]], TOOLS)
        status = talk.tool(3, "get_status", **envelope())
        self.assertEqual((status["resultType"], status["structuredContent"]["model"]), ("complete", "demo"))

    def test_the_envelope_is_looked_at_in_order(self):
        talk = self.lines()
        talk.ask(request(1, "server/discover", {"_meta": envelope()}))
        for number, (method, meta, code) in enumerate([
            ("tools/list", {SPACE + "protocolVersion": MODERN}, INVALID_PARAMS),
            ("tools/list", {SPACE + "clientCapabilities": {}}, INVALID_PARAMS),
            ("tools/list", envelope(7), INVALID_PARAMS),
            ("no/such", envelope("2030-01-01"), UNSUPPORTED_VERSION),
            ("no/such", envelope(), UNKNOWN_METHOD), ("ping", envelope(), UNKNOWN_METHOD),
        ]):
            self.refused(talk.ask(request(f"{number}", method, {"_meta": meta})), code)
        answer = talk.ask(request(9, "tools/list", {"_meta": envelope("2030-01-01")}))
        self.assertEqual(answer["error"]["data"], {"supported": [MODERN], "requested": "2030-01-01"})
        self.refused(talk.ask(request(10, "resources/read", {"uri": "kuno://gallery/x", "_meta": envelope()})),
                     INVALID_PARAMS)

    def test_the_first_request_decides(self):
        old, new = self.opened(), self.lines()
        self.refused(old.ask(request(1, "tools/list", {"_meta": envelope()})), INVALID_REQUEST)
        new.ask(request(1, "tools/list", {"_meta": envelope()}))
        self.refused(new.ask(request(2, "initialize", HANDSHAKE)), UNSUPPORTED_VERSION)


class Tools(Case):
    def test_a_picture_comes_with_a_preview_and_a_link_to_all_of_it(self):
        talk = self.opened()
        result = talk.tool(1, "generate_image", {"prompt": "a boat", "width": 640, "height": 320, "seed": "42"},
                           progressToken="p")
        told = result["structuredContent"]
        self.assertEqual((told["state"], told["kind"], result["isError"]), ("completed", "text_to_image", False))
        (image,) = told["images"]
        self.assertEqual((image["width"], image["height"], image["seed"]), (640, 320, "42"))
        text, preview, link = result["content"]
        self.assertEqual(json.loads(text["text"]), told)
        shown = base64.b64decode(preview["data"], validate=True)
        self.assertEqual((preview["mimeType"], shown[:8]), ("image/png", b"\x89PNG\r\n\x1a\n"))
        self.assertEqual((int.from_bytes(shown[16:20], "big"), int.from_bytes(shown[20:24], "big")), (512, 256))
        (whole,) = talk.ask(request(2, "resources/read", {"uri": link["uri"]}))["result"]["contents"]
        self.assertEqual(base64.b64decode(whole["blob"]), self.studio.get(f"/gallery/{image['id']}/content").body)
        self.assertEqual(len(base64.b64decode(whole["blob"])), link["size"])
        steps = [one["progress"] for one in talk.progress("p")]
        self.assertEqual((steps[0], steps[-1], steps), (0, 100, sorted(set(steps))))

    def test_several_pictures_stay_within_one_answer(self):
        result = self.opened().tool(1, "generate_image", {"prompt": "boats", "count": 8})
        self.assertEqual(len(result["structuredContent"]["images"]), 8)
        kinds = [one["type"] for one in result["content"]]
        self.assertEqual(kinds, ["text"] + ["image", "resource_link"] * 8)
        self.assertLess(sum(len(one["data"]) for one in result["content"] if one["type"] == "image"), 700_000)

    def test_what_takes_longer_is_a_job_to_wait_for(self):
        talk = self.opened()
        begun = talk.tool(1, "generate_image", {**SLOW, "wait_seconds": 0})["structuredContent"]
        self.assertIn(begun["state"], ("queued", "running"))
        job = {"job_id": begun["job_id"]}
        waited = talk.tool(2, "wait_for_job", {**job, "wait_seconds": 3}, progressToken=7)["structuredContent"]
        self.assertEqual(waited["state"], "running")
        self.assertEqual(waited["progress"]["phase"], "sampling")
        self.assertGreater(len(talk.progress(7)), 2)
        self.assertIn(talk.tool(3, "cancel_job", job)["structuredContent"]["state"], ("running", "cancelled"))
        ended = talk.tool(4, "wait_for_job", job)
        self.assertEqual((ended["structuredContent"]["state"], ended["isError"]), ("cancelled", False))
        self.assertEqual(talk.tool(5, "get_job", job)["structuredContent"]["state"], "cancelled")

    def test_what_a_job_waits_for_is_told_whenever_one_begins_to_listen(self):
        talk = self.opened()
        job = talk.tool(1, "generate_image", {"prompt": "waits=2", "wait_seconds": 0})["structuredContent"]["job_id"]
        self.studio.wait_for("running")
        talk.send(call(2, "wait_for_job", {"job_id": job}, progressToken="w"))
        told = talk.wait(lambda one: "start both again" in one.get("params", {}).get("message", ""))["params"]
        self.assertEqual((told["progressToken"], 0 < told["progress"] < 0.1), ("w", True))
        progress = talk.tool(3, "get_job", {"job_id": job})["structuredContent"]["progress"]
        self.assertEqual((progress["phase"], progress["waiting"]["code"]), ("waiting", "recovery_required"))
        talk.tool(4, "cancel_job", {"job_id": job})
        self.assertEqual(talk.answer(2)["result"]["structuredContent"]["state"], "cancelled")

    def test_a_request_that_is_cancelled_takes_its_job_along_and_is_not_answered(self):
        talk = self.opened()
        talk.send(call("slow", "generate_image", SLOW, progressToken="s"))
        talk.wait(lambda one: one.get("params", {}).get("progress", 0) > 0)
        talk.send(note("notifications/cancelled", {"requestId": "slow", "reason": "enough"}))
        self.studio.wait_for("cancelled")
        self.assertEqual(talk.ask(request(2, "ping"))["result"], {})
        self.assertFalse([one for one in talk.seen if one.get("id") == "slow"])
        self.assertFalse([one for one in self.studio.states() if one in ("queued", "running")])

    def test_who_only_waits_may_leave_without_harm(self):
        talk = self.opened()
        job = talk.tool(1, "generate_image", {"prompt": "steps=150 ms=20", "wait_seconds": 0})["structuredContent"]
        talk.send(call(2, "wait_for_job", {"job_id": job["job_id"]}, progressToken="w"))
        talk.wait(lambda one: one.get("params", {}).get("progress", 0) > 0)
        talk.send(note("notifications/cancelled", {"requestId": 2}))
        self.assertEqual(self.studio.ended(job["job_id"])["state"], "completed")

    def test_a_failure_says_its_code_first(self):
        talk = self.opened()
        self.failed(talk.tool(1, "generate_image", {"prompt": "fails=out_of_memory"}), "out_of_memory: ")
        self.failed(talk.tool(2, "get_job", {"job_id": "job_" + "0" * 26}), "not_found: ")
        self.failed(talk.tool(3, "generate_image", {"prompt": "x", "count": 9}), "member_invalid: ")
        self.failed(talk.tool(4, "generate_image", {"prompt": "x", "seed": "great"}), "member_invalid: ")
        self.failed(talk.tool(5, "upscale_image", {"image": "img_" + "0" * 26, "factor": 2}),
                    "member_invalid: A member of the body is not as it should be: there is no such picture")

    def test_arguments_that_are_wrong_are_named(self):
        talk = self.opened()
        for number, (name, arguments, words) in enumerate([
            ("generate_image", {"promt": "x"}, "there is no argument 'promt'"),
            ("generate_image", {}, "the argument 'prompt' is missing"),
            ("generate_image", {"prompt": "x", "wait_seconds": 9999},
             "wait_seconds: a whole number from 0 to 3600 is expected"),
            ("generate_image", {"prompt": "x", "image": "y"}, "there is no argument 'image'"),
            ("generate_image", {"prompt": "x", "size": "custom"},
             "size: one of these is expected: auto, 1k, 1.5k, 2k, source"),
            ("plan_image", {"prompt": "x", "format": 3}, "format: one of these is expected: png, jpeg, webp"),
            ("get_job", {"job_id": "../settings"}, "job_id: there is no such id"),
            ("edit_image", {"prompt": "x", "images": []}, "images: at least one picture is needed"),
            ("edit_image", {"prompt": "x", "images": ["http://there/x.png"]}, "images: picture 1: it is neither"),
            ("edit_image", {"prompt": "x", "images": ["data:image/png;base64,!!!!"]}, "images: picture 1: not base64"),
        ]):
            self.failed(talk.tool(number, name, arguments), f"arguments_invalid: {words}")
        self.failed(talk.tool(99, "edit_image", {"prompt": "x", "images": [data_url(b"GIF89a")]}),
                    "input_invalid: picture 1 is neither PNG nor JPEG nor WebP")

    def test_models_plans_and_the_gallery_are_told(self):
        talk = self.opened()
        models = talk.tool(1, "list_models")["structuredContent"]
        self.assertIn("demo", [one["name"] for one in models["models"]])
        self.assertIn("text_to_image", models["kinds"])
        plan = talk.tool(2, "plan_image", {"prompt": "x", "width": 100, "height": 60})["structuredContent"]
        self.assertEqual((plan["width"], plan["height"], plan["model"], plan["blocking"]), (100, 60, "demo", []))
        for title in ("red", "blue"):
            talk.tool(title, "generate_image", {"prompt": f"a {title} house", "title": title, "tags": ["home"]})
        found = talk.tool(3, "list_gallery", {"query": "blue house", "limit": 5})["structuredContent"]["images"]
        self.assertEqual([one["title"] for one in found], ["blue"])
        page = talk.tool(4, "list_gallery", {"tag": "home", "limit": 1})["structuredContent"]
        following = talk.tool(5, "list_gallery", {"tag": "home", "limit": 1, "cursor": page["next_cursor"]})
        self.assertEqual([one["title"] for one in page["images"] + following["structuredContent"]["images"]],
                         ["blue", "red"])
        shown = talk.tool(6, "get_image", {"image_id": found[0]["id"], "max_side": 64})
        self.assertEqual([one["type"] for one in shown["content"]], ["text", "image", "resource_link"])
        self.assertEqual(shown["structuredContent"]["images"][0]["prompt"], "a blue house")
        listed = talk.ask(request(7, "resources/list"))["result"]["resources"]
        self.assertIn(f"kuno://gallery/{found[0]['id']}", [one["uri"] for one in listed])


class Pictures(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.studio.edit_by_default()

    def test_pictures_to_edit_come_from_the_gallery_from_the_message_or_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "own.png")
            with open(path, "wb") as file:
                file.write(png(48, 48, 7))
            talk = self.opened("--allow", folder)
            first = talk.tool(1, "generate_image", {"prompt": "a boat"})["structuredContent"]["images"][0]
            images = [first["uri"], data_url(png(32, 32)), path]
            edited = talk.tool(2, "edit_image", {"prompt": "blue", "images": images})
            self.assertEqual((edited["structuredContent"]["kind"], edited["isError"]), ("edit", False), edited)
            asked = self.studio.get(f"/jobs/{edited['structuredContent']['job_id']}")["request"]["inputs"]
            self.assertEqual([one["role"] for one in asked], ["source", "reference", "reference"])
            masked = talk.tool(3, "edit_image", {"prompt": "blue", "images": [data_url(png(64, 64))],
                                                 "mask": data_url(png(64, 64, 255))})
            self.assertEqual(masked["structuredContent"]["kind"], "inpaint", masked)

    def test_edges_are_as_soft_as_was_said(self):
        talk = self.opened()
        source, mask = data_url(png(64, 64)), data_url(png(64, 64, 255))
        for number, (feather, edge) in enumerate(((0, {"mask": mask}), (12, {"outpaint": {"left": 32}}))):
            wish = {"prompt": "blue", "images": [source], "feather": feather, **edge}
            plan = talk.tool(f"plan {number}", "plan_image", wish)["structuredContent"]
            self.assertEqual(plan["blocking"], [])
            job = talk.tool(f"edit {number}", "edit_image", wish)["structuredContent"]
            self.assertEqual((job["kind"], job["state"]), (plan["kind"], "completed"))
            self.assertEqual(self.studio.get(f"/jobs/{job['job_id']}")["request"]["feather"], feather)
        for number, (feather, edge) in enumerate(((257, {"mask": mask}), (1.5, {"mask": mask}), (4, {}))):
            wish = {"prompt": "blue", "images": [source], "feather": feather, **edge}
            self.failed(talk.tool(number, "edit_image", wish), "member_invalid: ")

    def test_files_outside_of_the_folders_that_were_allowed_are_not_read(self):
        with tempfile.TemporaryDirectory() as folder:
            inside, outside = os.path.join(folder, "in"), os.path.join(folder, "out.png")
            os.mkdir(inside)
            with open(outside, "wb") as file:
                file.write(png(32, 32))
            os.symlink(outside, os.path.join(inside, "link.png"))
            talk = self.opened("--allow", inside)
            for number, path in enumerate((outside, f"{inside}/../out.png", f"{inside}/link.png", f"{inside}/none.png",
                                           f"{inside}", "/dev/zero")):
                leads_out = "a file named by its path leads out of the folder" if "link" in path or ".." in path else ""
                self.failed(talk.tool(number, "edit_image", {"prompt": "x", "images": [path]}),
                            f"input_invalid: {leads_out}")
            closed = self.opened()
            self.failed(closed.tool(1, "edit_image", {"prompt": "x", "images": [outside]}), "input_invalid: paths")


class Life(Case):
    def test_it_ends_when_its_client_does_and_cancels_what_is_under_way(self):
        talk = self.opened()
        talk.send(call(1, "generate_image", SLOW, progressToken=1))
        talk.wait(lambda one: one.get("params", {}).get("progress", 0) > 0)
        self.assertEqual(talk.close(), (0, ""))
        self.studio.wait_for("cancelled", all)

    def test_it_ends_by_a_signal(self):
        talk = self.opened()
        talk.process.send_signal(signal.SIGTERM)
        self.assertEqual(talk.close(), (0, ""))

    def test_what_was_asked_for_before_the_end_is_answered(self):
        talk = self.opened()
        talk.send(call(1, "get_status"))
        talk.process.stdin.close()
        self.assertEqual(talk.answer(1)["result"]["structuredContent"]["queued"], 0)

    def run_with(self, stdin):
        with tempfile.TemporaryFile() as out:
            subprocess.run([PROGRAM, "mcp", "--config", self.studio.config], stdin=stdin, stdout=out, check=True,
                           timeout=PATIENCE)
            out.seek(0)
            return out.read()

    def test_files_take_the_place_of_pipes(self):
        with open(os.devnull, "rb") as nothing:
            self.assertEqual(self.run_with(nothing), b"")
        with tempfile.TemporaryFile() as file:
            file.write(json.dumps(request(1, "initialize", HANDSHAKE)).encode())
            file.write(b"\n" + json.dumps(call(2, "get_status")).encode() + b"\n")
            file.seek(0)
            lines = self.run_with(file).splitlines()
        self.assertEqual([json.loads(line)["id"] for line in lines], [1, 2])

    def test_without_the_service_lists_work_and_calls_say_what_to_do(self):
        with Studio() as studio:
            studio.end()
            with Lines(studio.config) as talk:
                talk.open()
                self.assertEqual(len(talk.ask(request(1, "tools/list"))["result"]["tools"]), len(TOOLS))
                answer = talk.ask(call(2, "get_status"))
                self.failed(answer["result"], "unreachable: the Kuno service at ")
                self.assertIn("does not run; start it with 'kuno serve'", self.words(answer))
                self.assertNotIn("may have taken", self.words(talk.ask(call(3, "generate_image", {"prompt": "x"}))))
                self.refused(talk.ask(request(4, "resources/list")), INTERNAL)
                studio.begin()
            with Lines(studio.config) as talk:
                talk.open()
                self.assertEqual(talk.tool(1, "get_status")["structuredContent"]["state"], "ready")
                with open(studio.token_file, "w") as file:
                    file.write("another-token-that-is-not-of-the-service")
                self.assertIn("the token is not", self.words(talk.ask(call(2, "get_status"))))
                os.unlink(studio.token_file)
                self.assertIn("has not run yet", self.words(talk.ask(call(3, "get_status"))))

    # It is asked who it is before it is sent the token; and what it says is not taken for a shortage of ours.
    def test_another_program_in_its_place_gets_no_token(self):
        healthy = b'{"status": "ok", "version": "1", "api": "v1"}'
        for health, says, asked in ((b"{}", "is not Kuno's studio", 1), (b"[1]", "is not Kuno's studio", 1),
                                    (healthy, "of different versions", 2)):
            with Studio() as studio:
                studio.end()
                with Stranger(studio.port, health) as stranger, Lines(studio.config) as talk:
                    talk.open()
                    answer = talk.ask(call(1, "get_status"))
                    self.assertIn(says, self.words(answer))
                    self.assertNotIn("memory", self.words(answer))
                    self.assertEqual(len(stranger.heard), asked)
                    self.assertNotIn(TOKEN.encode(), stranger.heard[0])

    def test_the_service_of_another_user_gets_no_token(self):
        if os.geteuid() != 0:
            self.skipTest("only root can listen as somebody else")
        with Studio() as studio:
            studio.end()
            for owner, sent in ((65534, True), (1, False)):
                os.chown(studio.folder, owner, -1)
                with Stranger(studio.port, b'{"api": "v1"}', user=65534) as stranger, Lines(studio.config) as talk:
                    talk.open()
                    message = self.words(talk.ask(call(1, "get_status")))
                    self.assertEqual("belongs to another user" in message, not sent, message)
                    self.assertEqual(any(TOKEN.encode() in one for one in stranger.heard), sent, message)


class Forgetful(http.server.BaseHTTPRequestHandler):
    """Takes an order and breaks off, once; knows it the next time."""

    keys = []

    def answer(self, status, kind, text):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        job = {"id": "job_1", "state": "failed", "error": {"code": "odd", "message": "for a test"}}
        if self.path.endswith("/events"):
            self.answer(200, "text/event-stream", f"event: job.failed\ndata: {json.dumps(job)}\n\n")
        else:
            self.answer(200, "application/json", '{"status": "ok", "version": "1", "api": "v1"}')

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.keys.append(self.headers["Idempotency-Key"])
        if len(self.keys) == 1:
            self.close_connection = True
        else:
            self.answer(202, "application/json", '{"id": "job_1", "state": "queued"}')

    def log_message(self, *_):
        pass


class Restarts(Case):
    """The service ends, and jobs go on when it runs again."""

    def setUp(self):
        self.service = Serve()
        self.addCleanup(self.service.close)
        self.config = os.path.join(self.service.folder, "config.json")
        with open(os.open(os.path.join(self.service.folder, "control-token"),
                          os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(TOKEN + "\n")

    def talk(self):
        one = Lines(self.config)
        self.addCleanup(one.__exit__)
        one.open()
        return one

    def wait_for_jobs(self, count=1):
        """The newest one first."""
        end = time.monotonic() + PATIENCE
        while len(self.service.get("/jobs")["items"]) < count:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return [job["id"] for job in self.service.get("/jobs")["items"]]

    def test_an_order_is_drawn_once_however_the_service_ends(self):
        for number, end in enumerate((signal.SIGKILL, signal.SIGTERM)):
            talk = self.talk()
            talk.send(call(1, "generate_image", {"prompt": "x", "count": 2, "preset": "quality"}))
            with self.service.held(self.wait_for_jobs(number + 1)[0]):
                self.service.process.send_signal(end)
            self.service.process.wait(PATIENCE)
            self.service.begin()
            result = talk.answer(1)["result"]
            self.assertFalse(result["isError"], result)
            self.assertEqual(result["structuredContent"]["state"], "completed")
            self.assertEqual(len(self.service.get("/jobs")["items"]), number + 1)

    def test_who_waits_for_a_job_waits_for_its_service(self):
        job = self.service.job("x")
        talk = self.talk()
        self.service.end(signal.SIGKILL)
        talk.send(call(1, "wait_for_job", {"job_id": job}))
        self.service.begin()
        self.assertEqual(talk.answer(1)["result"]["structuredContent"]["state"], "completed")

    def test_a_service_that_stays_away_leaves_the_name_of_the_job(self):
        talk = self.talk()
        talk.send(call(1, "generate_image", {"prompt": "x", "preset": "quality", "wait_seconds": 2}))
        job, = self.wait_for_jobs()
        with self.service.held(job):
            self.service.end(signal.SIGKILL)
        for number, tool in ((1, None), (2, {"job_id": job, "wait_seconds": 1})):
            if tool:
                talk.send(call(number, "wait_for_job", tool))
            words = self.words(talk.answer(number))
            self.assertTrue(words.startswith("unreachable: "), words)
            self.assertIn(job, words)
            self.assertIn("wait_for_job", words)
        self.service.begin()

    def test_an_order_whose_answer_is_lost_is_sent_again_under_its_key(self):
        self.service.end()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", self.service.port), Forgetful)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            self.failed(self.talk().tool(1, "generate_image", {"prompt": "x"}), "odd: for a test")
        finally:
            server.shutdown()
            server.server_close()
        first, again = Forgetful.keys
        self.assertEqual(first, again)
        self.assertEqual(len(first), 32)
        self.service.begin()


tap.main()
