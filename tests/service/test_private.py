"""What people write is neither kept nor told of; a hanging driver costs nobody else anything."""

import json
import os
import pathlib
import threading
import time
import unittest

import tap
from harness import PROGRAM, TOKEN, Case, wait_until

# One word for each place where something private can stand.
CANARIES = {name: f"canary-{name}-0123456789" for name in (
    "prompt", "image", "system", "option", "url", "field", "cookie", "model", "answer", "error", "user")}
FAKES = pathlib.Path(os.environ.get("KUNO_FAKES", "/nowhere"))


class Canaries(Case):
    def everything_written(self, server):
        """Everything that the server has written or told of: its output and its files."""
        texts = {"log": server.text()}
        for path in server.state.iterdir():
            texts[path.name] = path.read_bytes().decode("latin-1")
        return texts

    def plant(self, server):
        c = CANARIES
        body = {"model": "tiny", "prompt": c["prompt"], "images": [c["image"]], "system": c["system"],
                "options": {"stop": [c["option"]]}}
        fields = {"X-Field": c["field"], "Cookie": c["cookie"], "Authorization": f"Bearer {c['user']}"}
        target = f"/api/generate?q={c['url']}"
        self.upstream.error_text = c["error"]
        for stub in ("lines=2", "status=500", "status=404"):
            server.ask("POST", target, body, stub, fields)
        server.ask("POST", f"/api/{c['url']}", {**body, "model": c["model"]}, "status=400", fields)
        server.generate(model=c["model"], headers=fields)
        server.ask("GET", f"/v1/models/{c['model']}", headers=fields)
        server.ask("POST", "/api/chat", json.dumps(body)[:40], headers=fields)
        with server.start_raw("lines=100 gap=0.05", json.dumps(body).encode(), target) as s:
            s.recv(1)
        for fields in ({"Authorization": f"Bearer {c['user']}"},
                       {"Authorization": f"Bearer {TOKEN}", "Origin": c["url"]}):
            server.ask("GET", f"/kuno/v1/status?{c['url']}", headers=fields, port=server.control)
        server.own("POST", "admission/pause", {"reason": c["prompt"]})
        server.own("POST", "admission/pause", {c["prompt"]: c["prompt"]})
        told = [server.own("GET", route)[1] for route in ("status", "usage", "learning")]
        return json.dumps(told)

    def test_canaries(self):
        """no_output_and_no_file_holds_a_byte_of_what_passes"""
        server = self.serve(stream_idle_timeout_ms=500)
        told = self.plant(server)
        wait_until(lambda: server.admission()["recovery_required"], "the end of the last request")
        server.stop()
        texts = {**self.everything_written(server), "told": told}
        self.assertIn("recovery required", texts["log"])
        self.assertIn('"calls"', texts["usage.json"])
        for place, text in texts.items():
            for name, canary in CANARIES.items():
                self.assertNotIn(canary, text, f"{name} in {place}")
            self.assertNotIn(TOKEN, text, place)
            self.assertNotIn("tiny", text if place != "told" else "", place)

    def test_token(self):
        """the_token_is_in_no_environment_and_no_answer"""
        server = self.serve()
        environment = pathlib.Path(f"/proc/{server.process.pid}/environ")
        if os.access(environment, os.R_OK):
            self.assertNotIn(TOKEN.encode(), environment.read_bytes())
        self.assertNotIn(TOKEN, json.dumps(server.own("GET", "status")[1]))


@unittest.skipUnless((FAKES / "v2").is_dir(), "the fakes of drivers were not built")
class Drivers(Case):
    CARD = "nvml uuid=GPU-1 pci=0000:04:00.0 name=Fake total=1000 used=100 reserved=10\n"

    def serve_with(self, scenario):
        (self.folder / "scenario").write_text(scenario)
        return self.serve(env={"KUNO_FAKE_GPU": str(self.folder / "scenario"),
                               "LD_LIBRARY_PATH": str(FAKES / "v2")})

    def test_card(self):
        """a_card_is_told_with_its_numbers"""
        (card,) = self.serve_with(self.CARD).own("GET", "resources")[1]["devices"]
        self.assertEqual((card["pci_address"], card["vendor"], card["uuid"], card["observation"]),
                         ("0000:04:00.0", "nvidia", "GPU-1", "ok"))
        self.assertEqual(card["memory"], {"total_bytes": 1000, "used_bytes": 100, "free_bytes": 890,
                                          "reserved_bytes": 10, "source": "nvml_v2", "used_includes_reserved": False})

    def test_hang(self):
        """a_driver_that_hangs_delays_no_other_route_and_not_the_end"""
        server = self.serve_with(self.CARD + "hang Init_v2\n")
        begin = time.monotonic()
        first = self.in_background(server.own, "GET", "resources")
        for _ in range(20):
            asked = time.monotonic()
            self.assertEqual(server.generate()[0], 200)
            self.assertEqual(server.own("GET", "status")[0], 200)
            self.assertLess(time.monotonic() - asked, 1)
        seen = first()[1]
        self.assertLess(time.monotonic() - begin, 4.5)
        self.assertIn({"probe": "nvml", "code": "timeout", "pci_address": None}, seen["errors"])
        threads = len(os.listdir(f"/proc/{server.process.pid}/task"))
        begin = time.monotonic()
        for _ in range(5):  # nobody waits for it again, and no thread is added
            self.assertIn("timeout", [e["code"] for e in server.own("GET", "resources")[1]["errors"]])
        self.assertLess(time.monotonic() - begin, 1)
        self.assertEqual(len(os.listdir(f"/proc/{server.process.pid}/task")), threads)
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 2)


if __name__ == "__main__":
    tap.main()
