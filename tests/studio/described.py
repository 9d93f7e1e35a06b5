"""Answers of the studio beside docs/studio.yaml: status, type, header and every member, and nothing that it does not
name. Without the modules for that, WHY_NOT says so and nothing is compared."""

import json
import pathlib
import re

try:
    import jsonschema
    import yaml

    WHY_NOT = None
except ImportError as missing:
    WHY_NOT = f"{missing.name} is missing: apt-get install python3-jsonschema python3-yaml"

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "studio.yaml"
DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
EVENTS = {"job.progress": "EvProgress", "job.preview": "EvPreview", "job.deleted": "EvId", "gallery.deleted": "EvId",
          "models.updated": "EvId", "settings.updated": "Settings", "engine.updated": "Engine",
          "stream.reset": "EvReset"}  # fmt: skip
NOT_DESCRIBED = ("/api/v1/openapi.yaml",)


def closed(schema):
    """The schema, where nothing may come that it does not name, unless it says that it may."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(part) for key, part in schema.items()}
    return {"additionalProperties": False, **parts} if isinstance(schema.get("properties"), dict) else parts


class Document:
    def __init__(self):
        self.text = yaml.safe_load(DOCUMENT.read_text())
        self.components = closed(self.text["components"])
        self.formats = jsonschema.FormatChecker(formats=())
        self.formats.checks("date-time")(lambda text: not isinstance(text, str) or bool(DATE.fullmatch(text)))
        self.asked = set()
        self.paths = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$"), path) for path in self.text["paths"]]
        self.paths.sort(key=lambda pair: "{" in pair[1])

    def follow(self, thing):
        while "$ref" in thing:
            at = self.text
            for part in thing["$ref"].removeprefix("#/").split("/"):
                at = at[part]
            thing = at
        return thing

    def validate(self, schema, value):
        whole = {**closed(schema), "components": self.components}
        jsonschema.Draft202012Validator(whole, format_checker=self.formats).validate(value)

    def operations(self):
        methods = ("get", "post", "put", "patch", "delete")
        return {(m.upper(), path) for path, entry in self.text["paths"].items() for m in entry if m in methods}

    def answers_of(self, method, target):
        path = target.split("?")[0]
        described = next((known for pattern, known in self.paths if pattern.match(path)), None)
        operation = self.text["paths"].get(described, {}).get(method.lower())
        if operation is None:
            return None
        self.asked.add((method, described))
        return operation["responses"]

    def check(self, method, target, status, headers, body):
        answers = self.answers_of(method, target)
        if answers is None:  # a path or method that there is not: the router's own words
            assert status >= 400 or target.split("?")[0] in NOT_DESCRIBED or method == "HEAD", (method, target, status)
            return
        answer = self.follow(answers[str(status) if str(status) in answers else "default"])
        assert str(status) in answers or status >= 400, (method, target, status)
        for name in answer.get("headers", ()):
            assert name in headers or name in ("Retry-After", "Idempotency-Replayed"), f"{status} without {name}"
        content = answer.get("content")
        if not content:
            assert not body, (method, target, status)
            return
        media = headers["Content-Type"].split(";")[0]
        assert media in content, (method, target, status, media)
        if media.endswith("json"):
            self.validate(content[media]["schema"], json.loads(body))

    def check_event(self, kind, data):
        family = kind.split(".")[0]
        name = EVENTS.get(kind) or {"job": "Job", "gallery": "GalleryItem", "download": "Download"}[family]
        self.validate({"$ref": f"#/components/schemas/{name}"}, data)
