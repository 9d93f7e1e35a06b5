"""What people write is neither kept nor told of; a hanging driver costs nobody else anything."""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
import unittest

import tap
from harness import PATIENCE, PROGRAM, SANITIZED, TOKEN, Case, Server, as_user, children_of, wait_until
from ports import free_ports
from workers import Workers

# One word for each place where something private can stand.
CANARIES = {name: f"canary-{name}-0123456789" for name in (
    "prompt", "negative", "image", "system", "option", "url", "field", "cookie", "model", "answer", "error", "user",
    "file", "key", "method")}
FAKES = pathlib.Path(os.environ.get("KUNO_FAKES", "/nowhere"))
NOBODY = 65534
OWNER = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
RECIPE = {"workflow": "qwen-image-2.1-text-to-image/v1", "seed": "42", "width": 128, "height": 128, "steps": 8,
          "cfg": 1}


class Planted:
    """Cases that look for canaries."""

    def everything_written(self, server):
        """Everything that the server has written or told of: its output, its files and their names."""
        texts = {"log": server.text()}
        for path in server.state.rglob("*"):
            name = str(path.relative_to(server.state))
            texts[name] = name + (path.read_bytes().decode("latin-1") if path.is_file() else "")
        return texts

    def everything_shown(self, server):
        """What the system shows of the server and its processes."""
        texts = {}
        pids = [server.pid()]
        for pid in pids:
            pids += children_of(pid)
            for name in "cmdline", "environ", "comm":
                with contextlib.suppress(OSError):
                    shown = pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
                    texts[f"{name} of process {pid}"] = shown.decode("latin-1")
        return texts

    def finds_none(self, texts, names=tuple(CANARIES)):
        for place, text in texts.items():
            for name in names:
                self.assertNotIn(CANARIES[name], text, f"{name} in {place}")
                coded = base64.b64encode(CANARIES[name].encode()).decode()[:-4]
                self.assertNotIn(coded, text, f"{name} in base64 in {place}")
            self.assertNotIn(TOKEN, text, place)

    def told(self, server):
        routes = "status", "usage", "learning", "resources"
        return {route: json.dumps(server.own("GET", route)[1]) for route in routes}


class Canaries(Planted, Case):
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
        server.ask(c["method"], target, headers=fields)
        server.ask("GET", f"/{c['url']}/../{c['url']}", headers=fields)
        with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
            s.sendall(f"{c['url']}\0{c['method']}\r\n{c['field']}\r\n\r\n".encode())
            s.recv(1000)
        for fields in ({"Authorization": f"Bearer {c['user']}"},
                       {"Authorization": f"Bearer {TOKEN}", "Origin": c["url"]}):
            server.ask("GET", f"/kuno/v1/status?{c['url']}", headers=fields, port=server.control)
        server.own("POST", "admission/pause", {"reason": c["prompt"]})
        server.own("POST", "admission/pause", {c["prompt"]: c["prompt"]})
        return self.told(server)

    def test_canaries(self):
        """no_output_and_no_file_holds_a_byte_of_what_passes"""
        server = self.serve(stream_idle_timeout_ms=500)
        told = self.plant(server)
        wait_until(lambda: server.admission()["recovery_required"], "the end of the last request")
        shown = self.everything_shown(server)
        server.stop()
        texts = {**self.everything_written(server), **shown}
        self.assertIn("recovery required", texts["log"])
        self.assertIn('"calls"', texts["usage.json"])
        self.finds_none({**texts, **told})
        for place in "log", "usage.json":  # nor do they name models; usage is by digest
            self.assertNotIn("tiny", texts[place])

    def plant_in_pictures(self, server, studio):
        """In recipes of the gateway's route and orders of the studio, good ones and others."""
        c = CANARIES
        recipe = {**RECIPE, "prompt": c["prompt"], "negative_prompt": c["negative"]}
        image = base64.b64encode(c["image"].encode()).decode()
        fields = {**OWNER, "X-Field": c["field"], "Cookie": c["cookie"], "User-Agent": c["user"]}
        statuses = []

        def send(port, method, target, body, **more):
            text = body if isinstance(body, (str, bytes)) else json.dumps(body)
            statuses.append(server.ask(method, target, text, None, {**fields, **more}, port)[0])
            return statuses[-1]
        for port in server.control, server.listen:
            target = "/kuno/v1/images/generate"
            self.assertEqual(send(port, "POST", target, recipe), 200)
            self.assertEqual(send(port, "POST", f"{target}?{c['url']}", recipe), 400)
            edit = {**recipe, "workflow": "qwen-image-2.1-edit/v1"}
            for body in ({**edit, "reference_images": [image]}, {**edit, "reference_images": [f"/{c['file']}.png"]},
                         {**recipe, c["key"]: 1}, {**recipe, "workflow": c["model"]}, {**recipe, "model": c["model"]},
                         json.dumps(recipe)[:-9]):
                self.assertIn(send(port, "POST", target, body), (400, 409, 422))
            self.assertEqual(send(port, "POST", target, recipe, Authorization=f"Bearer {c['user']}"), 401)
        api = "/api/v1"
        self.assertEqual(send(studio, "POST", f"{api}/jobs", {"prompt": c["prompt"]}), 202)
        for method, target, body in (
                ("POST", f"/jobs?{c['url']}", {"prompt": c["prompt"]}), ("POST", "/jobs", {c["key"]: c["prompt"]}),
                ("POST", "/jobs", f'{{"prompt": "{c["prompt"]}'),
                ("POST", "/jobs", {"prompt": c["prompt"], "profile": c["model"]}), ("POST", "/plan", {c["key"]: 1}),
                ("GET", f"/jobs/{c['url']}", ""), ("GET", f"/{c['url']}", ""), ("DELETE", f"/inputs/{c['url']}", ""),
                ("POST", "/upscale", {"input": c["file"]}), ("PUT", f"/models/{c['model']}", {c["key"]: c["file"]})):
            self.assertIn(send(studio, method, api + target, body) // 100, (4,), target)
        send(studio, "GET", f"{api}/gallery?q={c['url']}", "")
        for kind in "image/png", c["field"]:
            self.assertIn(send(studio, "POST", f"{api}/inputs", c["image"], **{
                "Content-Type": kind, "Content-Disposition": f'attachment; filename="{c["file"]}.png"'}), (415, 422))
        form = "".join(f'--B\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{c[value]}\r\n'
                       for name, more, value in (("prompt", "", "prompt"), (c["key"], "", "option"),
                                                 ("image", f'; filename="{c["file"]}.png"', "image"))) + "--B--\r\n"
        self.assertIn(send(studio, "POST", "/v1/images/edits", form,
                           **{"Content-Type": "multipart/form-data; boundary=B"}) // 100, (4,))
        order = {"prompt": c["prompt"]}
        for target, body in (("/v1/images/generations", {**order, "model": c["model"], "user": c["user"]}),
                             ("/sdapi/v1/txt2img", {**order, "sampler_name": c["option"]}),
                             ("/sdapi/v1/img2img", {**order, "init_images": [image]})):
            send(studio, "POST", target, body)
        self.assertNotIn(500, statuses)

    def ended(self, server, studio):
        status, _, body = server.ask("GET", "/api/v1/jobs", headers=OWNER, port=studio)
        jobs = json.loads(body)["items"]
        return status == 200 and jobs and all(job["state"] not in ("queued", "running") for job in jobs)

    def test_pictures(self):
        """nor_of_pictures_but_where_the_studio_keeps_its_jobs_and_its_gallery"""
        self.upstream.residents = []
        studio, = free_ports(1)
        server = self.serve(image={}, studio={"listen": f"127.0.0.1:{studio}"})
        self.plant_in_pictures(server, studio)
        wait_until(lambda: self.ended(server, studio), "the end of all jobs", 5 * PATIENCE)
        told, shown = self.told(server), self.everything_shown(server)
        for route in "status", "diagnostics", "diagnostics/report", "health":
            told[route] = server.ask("GET", f"/api/v1/{route}", headers=OWNER, port=studio)[2].decode("latin-1")
        self.assertEqual(server.stop(), 0)
        texts = self.everything_written(server)
        kept = {place for place, text in texts.items() if CANARIES["prompt"] in text}
        self.assertIn(CANARIES["prompt"], texts["studio/studio.db"])  # who looks for canaries finds them
        for place in kept:
            self.assertRegex(place, r"^studio/(studio\.db(-wal|-shm)?|gallery/.*)$")
            self.finds_none({place: texts.pop(place)},
                            ("url", "field", "cookie", "user", "file", "image", "key", "error", "method"))
        self.finds_none({**texts, **told, **shown})

    def test_token(self):
        """the_token_is_in_no_environment_and_no_answer"""
        server = self.serve()
        self.finds_none({**self.everything_shown(server), **self.told(server)})


class WorkerCanaries(Planted, Workers):
    def plant(self, server):
        """In what workers serve, refuse and fail at, and in what goes on to the upstream."""
        c, everyone = CANARIES, range(len(self.homes))
        rest = {"images": [c["image"]], "system": c["system"], "options": {"stop": [c["option"]]}}
        body = {"model": "tiny", "prompt": c["prompt"], **rest}
        fields = {"X-Field": c["field"], "Cookie": c["cookie"], "Authorization": f"Bearer {c['user']}",
                  "User-Agent": c["user"]}

        def send(target, body):
            return server.ask("POST", f"{target}?q={c['url']}", body, "status=400", fields)[0]

        def set_all(**more):
            for worker in everyone:
                self.set_stub(self.homes[worker], loud=True, **more)

        set_all()
        words = [{"role": "user", "content": c["prompt"]}]
        self.assertEqual([send("/api/generate", body), send("/api/chat", {"model": "tiny", "messages": words, **rest}),
                          send("/v1/chat/completions", {"model": "other:7b", "messages": words, "user": c["user"]}),
                          send("/api/embed", {"model": "tiny", "input": c["prompt"]})], 4 * [200])
        self.assertEqual([send("/api/generate", {**body, "model": c["model"]}),
                          send("/api/generate", {**body, "model": c["model"] + "/a/b/c"}),
                          send("/api/generate", {**body, "options": {"num_gpu": 1, c["key"]: c["option"]}}),
                          send("/api/chat", json.dumps(body)[:40]),
                          send("/api/generate", json.dumps(body) + c["prompt"])], [404, 400, 400, 400, 200])
        head = f"POST /api/generate?{c['url']} HTTP/1.1\r\nHost: h\r\nX-Field: {c['field']}\r\n"
        for rest in f"Content-Length: 99999999\r\n\r\n{c['prompt']}", f"Content-Length: 900\r\n\r\n{c['prompt']}":
            with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:  # too much, and too little
                s.sendall((head + rest).encode())
        set_all(cut=True)
        with contextlib.suppress(OSError, http.client.HTTPException):
            send("/api/generate", body)
        server.wait_idle()
        set_all(fail={"other:7b": "error"}, words=c["error"])
        server.own("GET", "status")  # by which a worker that was ended may be back
        self.assertEqual(send("/api/generate", {**body, "model": "other:7b", "options": {"num_ctx": 256}}), 503)
        set_all()
        self.assertEqual([send("/api/generate", {**body, "options": {"num_ctx": 5.5, c["key"]: 1}}),
                          send("/v1/responses", {"model": "tiny", "input": c["prompt"]}),
                          send(f"/api/{c['url']}", body)], 3 * [400])
        self.assertEqual(send("/api/generate", body), 200)  # so that they run

    def test_canaries(self):
        """nor_with_workers_whatever_they_say_themselves"""
        self.upstream.error_text = CANARIES["error"]
        server = self.start()
        self.plant(server)
        told, shown = self.told(server), self.everything_shown(server)
        self.assertGreaterEqual(len(shown), 6)  # the server's, and those of a worker
        self.assertIn('"class": "runtime"', told["learning"])
        server.stop()
        heard = "".join(self.notes())
        for name in "prompt", "image", "system", "option", "user":
            self.assertIn(CANARIES[name], heard)
        texts = self.everything_written(server)
        self.assertIn('"calls"', texts["usage.json"])
        self.finds_none({**texts, **told, **shown})
        for text in texts.values():
            self.assertNotIn("tiny", text)


class Stranger(Server):
    """A server of a user who is not root: of root's processes nobody can see whether they may be dumped."""

    def __init__(self, case, **setup):
        self.program = str(case.folder / "kuno")
        shutil.copy(PROGRAM, self.program)
        if os.geteuid() == 0:
            self.user = NOBODY
            for path in case.folder, *case.folder.rglob("*"):
                os.chown(path, NOBODY, NOBODY)
        mask = os.umask(0o022)
        super().__init__(case, **setup)
        os.umask(mask)


class Dumps(Case):
    """A process that may not be dumped has files in /proc that are root's, whoever's it is."""

    def is_closed(self, pid, what):
        folder = pathlib.Path(f"/proc/{pid}")
        status = (folder / "status").read_text()
        self.assertNotRegex(status, r"\nUid:\t0\t", what)
        self.assertEqual((folder / "status").stat().st_uid, 0, what)
        self.assertRegex((folder / "limits").read_text(), r"\nMax core file size +0 +0 ", what)

    def test_dumps(self):
        """neither_the_server_nor_an_image_worker_nor_an_mcp_server_leaves_its_memory_behind"""
        self.upstream.residents = []
        studio, = free_ports(1)
        options = {"env": {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}} if SANITIZED else {}
        server = Stranger(self, image={}, studio={"listen": f"127.0.0.1:{studio}"}, **options).wait_ready()
        self.addCleanup(shutil.rmtree, server.state, ignore_errors=True)
        self.is_closed(server.pid(), "the server")
        target = "/kuno/v1/images/generate"
        self.assertEqual(server.ask("POST", target, json.dumps({**RECIPE, "prompt": "x"}), None, OWNER,
                                    server.control)[0], 200)
        worker, = children_of(server.pid())
        self.assertIn(b"image-worker", pathlib.Path(f"/proc/{worker}/cmdline").read_bytes())
        self.is_closed(worker, "the image worker")
        with subprocess.Popen([server.program, "mcp", "--config", "config.json"], cwd=self.folder,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"KUNO_CONTROL_TOKEN": TOKEN},
                              **as_user(server.user)) as mcp:
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            mcp.stdin.write(json.dumps(ping).encode() + b"\n")
            mcp.stdin.flush()
            self.assertEqual(json.loads(mcp.stdout.readline())["id"], 1)
            self.is_closed(mcp.pid, "the MCP server")
            mcp.stdin.close()
            self.assertEqual(mcp.wait(PATIENCE), 0)
        self.assertEqual(server.stop(), 0)


class WorkerDumps(Workers):
    def test_dumps(self):
        """what_workers_and_their_runners_have_in_memory_is_in_no_core_dump"""
        for home in self.homes:
            self.set_stub(home, runner=True)
        server = self.start()
        workers = children_of(server.pid())
        runners = [pid for worker in workers for pid in children_of(worker)]
        self.assertEqual((len(workers), len(runners)), (2, 2))
        for pid in server.pid(), *workers, *runners:
            limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
            self.assertRegex(limits, r"\nMax core file size +0 +0 ")
            self.assertEqual(int(pathlib.Path(f"/proc/{pid}/coredump_filter").read_text(), 16), 0)


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
        first = self.in_background(server.own, "GET", "resources")
        self.is_answered_meanwhile(first, server.generate, lambda: server.own("GET", "status"))
        seen = first()[1]
        self.assertIn({"probe": "nvml", "code": "timeout", "pci_address": None}, seen["errors"])
        threads = len(os.listdir(f"/proc/{server.process.pid}/task"))
        begin = time.monotonic()
        for _ in range(PATIENCE // 3 + 1):  # nobody waits for it again (3 s each), and no thread is added
            self.assertIn("timeout", [e["code"] for e in server.own("GET", "resources")[1]["errors"]])
        self.assertLess(time.monotonic() - begin, PATIENCE)
        self.assertEqual(len(os.listdir(f"/proc/{server.process.pid}/task")), threads)
        self.assertEqual(server.stop(seconds=25), 0)  # what drains may take 30


if __name__ == "__main__":
    tap.main()
