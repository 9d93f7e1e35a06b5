"""What the owner's routes answer is what docs/control.yaml says, in every state and for every refusal."""

import json
import os
import pathlib
import re
import unittest
import urllib.parse

import tap
from harness import TOKEN, Case, wait_until

try:
    import jsonschema
    import yaml
    WHY_NOT = None
except ImportError as missing:
    WHY_NOT = f"{missing.name} is missing: apt-get install python3-jsonschema python3-yaml"

FAKES = pathlib.Path(os.environ.get("KUNO_FAKES", "/nowhere"))
DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "control.yaml"
OWNER = {"Authorization": f"Bearer {TOKEN}"}
JSON = {"Content-Type": "application/json"}
PICTURE = "/kuno/v1/images/generate"
DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def closed(schema):
    """The schema, where nothing may come that it does not name."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(part) for key, part in schema.items()}
    return {**parts, "additionalProperties": False} if isinstance(schema.get("properties"), dict) else parts


class Document:
    def __init__(self):
        self.text = yaml.safe_load(DOCUMENT.read_text())
        self.components = closed(self.text["components"])
        self.formats = jsonschema.FormatChecker(formats=("uuid",))
        self.formats.checks("date-time")(lambda text: not isinstance(text, str) or DATE.fullmatch(text))

    def follow(self, thing):
        while "$ref" in thing:
            at = self.text
            for part in thing["$ref"].removeprefix("#/").split("/"):
                at = at[part]
            thing = at
        return thing

    def check(self, method, path, status, headers, body):
        """Fails unless this is an answer that the description has."""
        operation = self.text["paths"][path][method.lower()]
        answers = operation["responses"]
        named = str(status) if str(status) in answers else "default"
        answer = self.follow(answers[named])
        for name in answer.get("headers", ()):
            assert name in headers or name == "Retry-After", f"{status} without {name}"
        (media, content), = answer["content"].items()
        assert headers["Content-Type"] == media, headers
        document = json.loads(body)
        schema = {**content["schema"], "components": self.components}
        jsonschema.Draft202012Validator(schema, format_checker=self.formats).validate(document)
        if media == "application/problem+json":
            assert document["status"] == status, document
            assert document["type"] == "urn:kuno:problem:" + document["code"].replace("_", "-"), document
        return document


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Described(Case):
    @classmethod
    def setUpClass(cls):
        cls.document = Document()

    def ask(self, server, method, target, body=None, headers=None, path=None):
        """What the owner gets: (status, document), which the description has."""
        path = path or urllib.parse.urlsplit(target).path
        status, fields, text = server.ask(method, target, body, None, {**OWNER, **(headers or {})}, server.control)
        self.assertEqual((fields["Cache-Control"], fields["X-Content-Type-Options"]), ("no-store", "nosniff"))
        return status, self.document.check(method, path, status, fields, text)

    def get(self, server, route):
        status, document = self.ask(server, "GET", f"/kuno/v1/{route}")
        self.assertEqual(status, 200)
        return document

    def all_routes(self, server):
        return {route: self.get(server, route) for route in ("status", "resources", "learning", "usage")}

    def operations(self):
        """(method, path as described, path to ask for)"""
        return [(method.upper(), path, path.replace("{preview_id}", "0" * 64))
                for path, methods in self.document.text["paths"].items() for method in methods]

    def test_states(self):
        """every_route_answers_as_described_in_every_state"""
        server = self.serve()
        self.all_routes(server)
        work = self.in_background(server.generate, "hold")
        wait_until(lambda: self.upstream.active, "the request")
        waits = self.in_background(server.generate)
        wait_until(lambda: self.get(server, "status")["admission"]["queued"] == 1, "one that waits")
        seen = self.all_routes(server)
        self.assertEqual(seen["status"]["admission"]["active_kind"], "inference")
        status, admission = self.ask(server, "POST", "/kuno/v1/admission/pause", '{"reason":"tea","wait_ms":1}', JSON)
        self.assertEqual((status, admission["state"], admission["active"]), (200, "paused", True))
        self.upstream.release()
        self.assertEqual(work()[0], 200)
        server.wait_idle()
        self.assertEqual(self.get(server, "status")["admission"]["queued"], 1)
        self.assertEqual(self.ask(server, "POST", "/kuno/v1/admission/resume")[1]["state"], "open")
        self.assertEqual(waits()[0], 200)
        server.generate(model="nobody-knows")
        wait_until(lambda: self.get(server, "usage")["unattributed_calls"] == 1, "the use without a name")
        self.assertEqual([m["calls"] for m in self.get(server, "usage")["models"]], [2])
        with server.start_raw("cut=1 lines=2") as s:
            s.recv(1)
        wait_until(lambda: server.admission()["recovery_required"], "recovery")
        self.all_routes(server)
        self.assertEqual(self.ask(server, "POST", "/kuno/v1/admission/resume")[0], 409)

    def test_pages(self):
        """so_does_the_use_of_models_page_by_page"""
        server = self.serve()
        for name in ("tiny", "other:7b"):
            server.generate(model=name)
        wait_until(lambda: len(self.get(server, "usage")["models"]) == 2, "the uses")
        first = self.get(server, "usage?limit=1")
        second = self.get(server, f"usage?limit=1&cursor={first['next_cursor']}")
        self.assertEqual([m["names"] for m in (*first["models"], *second["models"])],
                         [["other:7b"], ["alias:latest", "tiny:latest"]])
        self.assertIsNone(second["next_cursor"])

    def test_unknown(self):
        """so_do_they_where_the_upstream_says_nothing"""
        server = self.serve()
        self.upstream.residents = [{"name": "a", "digest": "0" * 64}, {"name": "b", "digest": "1" * 64, "size": 5},
                                   {"name": "c", "digest": "2" * 64, "size": 5, "size_vram": 0}]
        seen = self.get(server, "resources")["residency"]
        self.assertEqual([(m["model"], m["size_bytes"], m["size_vram_bytes"], m["class"]) for m in seen],
                         [("a", None, None, "unknown"), ("b", 5, None, "unknown"), ("c", 5, 0, "cpu")])

    def test_alone(self):
        """so_do_they_without_an_upstream"""
        self.upstream.close()
        self.assertFalse(self.all_routes(self.serve())["status"]["upstream"]["reachable"])

    @unittest.skipUnless((FAKES / "v2").is_dir(), "the fakes of drivers were not built")
    def test_cards(self):
        """so_do_they_with_a_graphics_card"""
        world = self.folder / "world"
        card = "nvml uuid=GPU-1 pci=0000:04:00.0 name=Fake total=1000 used=100 reserved=10\n"
        silence = "fail DeviceGetMemoryInfo 999\nfail DeviceGetMemoryInfo_v2 999\n"
        server = self.serve(env={"KUNO_FAKE_GPU": str(world), "LD_LIBRARY_PATH": str(FAKES / "v2")})
        for text, total in ((card, 1000), (card + silence, None)):
            world.write_text(text)
            (seen,) = self.get(server, "resources")["devices"]
            self.assertEqual((seen["pci_address"], seen["memory"]["total_bytes"]), ("0000:04:00.0", total))

    def test_refusals(self):
        """every_refusal_is_a_problem_as_described"""
        server = self.serve(image={})
        for method, path, target in self.operations():
            other = {"GET": "PUT", "POST": "GET"}[method]
            for status, headers in ((401, {"Authorization": "Bearer x"}), (403, {"Origin": "http://evil.example"}),
                                    (421, {"Host": "evil.example"})):
                self.assertEqual(self.ask(server, method, target, None, headers, path)[0], status)
            answer = server.ask(other, target, None, None, OWNER, server.control)
            self.assertEqual((answer[0], answer[1]["Allow"].split(", ")[0]), (405, method))
            self.document.check(method, path, *answer)
        pause = "/kuno/v1/admission/pause"
        for status, body, headers in ((400, "", JSON), (400, "{", JSON), (422, '{"x":1}', JSON),
                                      (415, "{}", {"Content-Type": "a/b"}), (413, "[" * 70000, JSON)):
            self.assertEqual(self.ask(server, "POST", pause, body, headers)[0], status)
        for body, where, word in (('{"x":1}', "/x", "'x'"), ('{"wait_ms":60001}', "/wait_ms", "60000"),
                                  ('{"reason":"a","reason":"b"}', "/reason", "twice")):
            (error,) = self.ask(server, "POST", pause, body, JSON)[1]["errors"]
            self.assertEqual((error["pointer"], word in error["detail"], "60001" in error["detail"]),
                             (where, True, False))
        for status, body, headers in ((400, "{", JSON), (422, "{}", JSON), (415, "{}", {"Content-Type": "a/b"}),
                                      (400, "{}", {**JSON, "X-Kuno-Image-Preview-Id": "1"})):
            self.assertEqual(self.ask(server, "POST", PICTURE, body, headers)[0], status)
        for query in ("limit=0", "limit=501", "cursor=x", "other=1", "limit=1&limit=1"):
            self.assertEqual(self.ask(server, "GET", f"/kuno/v1/usage?{query}")[0], 400)
        for route in ("status", "resources", "learning", "images/workflows", "images/previews/" + "0" * 64):
            path = f"/kuno/v1/{route}".replace("0" * 64, "{preview_id}")
            status, problem = self.ask(server, "GET", f"/kuno/v1/{route}?x=1", path=path)
            self.assertEqual((status, problem["code"], problem["errors"][0]["pointer"]),
                             (400, "parameter_invalid", "query"), route)
        for path in (pause, "/kuno/v1/admission/resume", PICTURE):
            status, problem = self.ask(server, "POST", path + "?wait_ms=1", "{}" if path == pause else None, JSON)
            self.assertEqual((status, problem["code"]), (400, "parameter_invalid"), path)
        self.assertEqual(server.admission()["state"], "open")
        self.assertEqual(self.ask(server, "GET", "/kuno/v1/status?", path="/kuno/v1/status")[0], 200)
        self.assertEqual(self.ask(server, "POST", "/kuno/v1/admission/resume", "{}", JSON)[0], 400)
        for _ in range(100):
            status, problem = self.ask(server, "GET", "/kuno/v1/status", None, {"Authorization": "Bearer x"})
            if status == 429:
                break
        self.assertEqual((status, problem["retry_after_seconds"]), (429, 1))

    def test_complete(self):
        """every_route_is_described_and_every_description_is_a_route"""
        server = self.serve(image={})
        manual = (DOCUMENT.parents[1] / "src/cli/man/kuno-serve.1.in").read_text()
        self.assertEqual(sorted(re.findall(r"^\.B (GET|POST) (/kuno/\S+)", manual, re.MULTILINE)),
                         sorted(operation[:2] for operation in self.operations()))
        for method, path, target in self.operations():
            wanted = 400 if path == PICTURE else 200  # there is no recipe
            self.assertEqual(self.ask(server, method, target, path=path)[0], wanted, path)


if __name__ == "__main__":
    tap.main()
