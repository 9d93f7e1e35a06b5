"""From the catalogue to a picture, by `kuno serve`: all files of a model are fetched, and it draws. The model is the
built-in one, so that its pictures are known."""

import json
import time
import unittest

import files
import tap
from server import Server
from studio.rig import PATIENCE
from studio.serve import Catalogued

PARTS = list(files.PARTS)
SIZE = {"mode": "custom", "width": 128, "height": 128}
MCP = {"Accept": "application/json, text/event-stream", "MCP_Protocol_Version": "2025-11-25"}


def fetch(rig, part):
    """The download, when it has ended."""
    download = rig.post("/downloads", {"artifact": part, "accept_license": True})["id"]
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        now = rig.get(f"/downloads/{download}").json
        if now["state"] in ("completed", "failed"):
            return now
        time.sleep(0.02)
    raise AssertionError(f"{part} does not come: {now}")


def models_for_agents(rig):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_models", "arguments": {}}}
    answer = rig.send("POST", "/mcp", call, **MCP).body.decode()
    line = next(line for line in answer.split("\n") if line.startswith("data: ")) if "data: " in answer else answer
    return [one["name"] for one in json.loads(line.removeprefix("data: "))["result"]["structuredContent"]["models"]]


class Fetched(unittest.TestCase):
    def test_what_was_fetched_draws_without_a_restart(self):
        with Server(*PARTS[:1], more=PARTS[1:]) as server, Catalogued(mirror=server.url) as rig:
            wanted = rig.drawn("A red apple.", seed="42", size=SIZE)  # by a worker that stays warm
            for part in PARTS[:-1]:
                self.assertEqual(fetch(rig, part)["profiles"], [])
            self.assertNotIn("demo-again", models_for_agents(rig))
            self.assertEqual(fetch(rig, PARTS[-1])["profiles"], ["demo-again"])
            self.assertIn("demo-again", models_for_agents(rig))
            self.assertIn("demo-again", [one["id"] for one in rig.send("GET", "/v1/models")["data"]])
            picture = rig.drawn("A red apple.", seed="42", size=SIZE, profile="demo-again")
            self.assertEqual(picture.pixels, wanted.pixels)
            self.assertTrue(rig.get("/models/demo")["active"])
            self.assertTrue(rig.post("/models/demo-again/activate")["active"])
            self.assertEqual(rig.drawn("A red apple.", seed="42", size=SIZE).pixels, wanted.pixels)


tap.main()
