"""Two real Ollamas as workers on the processor, beside a third one that owns the models."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import tempfile
import unittest

import tap
from harness import TOKEN, Server, children_of, wait_until
from ports import free_ports
from real_ollama import FOUND, WHY_NOT, RealOllama, make_model
from test_ollama import CHAT, OPENAI, SHORT


# The rest of a request, with the end of its body.
FEW = '"stream":false,"options":{"num_predict":2}}'
ASKS = '"messages":[{"role":"user","content":"x"}],"max_tokens":2}'
ROUTES = {"/api/generate": '"prompt":"x",' + FEW, "/api/chat": '"messages":[{"role":"user","content":"x"}],' + FEW,
          "/api/embed": '"input":"x"}', "/api/embeddings": '"prompt":"x"}', "/v1/chat/completions": ASKS,
          "/v1/completions": '"prompt":"x","max_tokens":2}', "/v1/embeddings": '"input":"x"}'}


def marked(text):
    """Processes with this in their environment: workers and all that they have started."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and text.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return sorted(found)


def words_of(answer):
    """Of an error, in whichever form; which "type" it has in that of OpenAI versions of Ollama do not agree about."""
    error = json.loads(answer)["error"]
    return error if isinstance(error, str) else error["message"]


@unittest.skipIf(WHY_NOT, WHY_NOT)
class RealWorkers(unittest.TestCase):
    maxDiff = 3000

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="kuno-ollama-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.ports = free_ports(5)
        cls.ollama = RealOllama(cls.folder, cls.ports[0])  # two models of the same weights
        cls.addClassCleanup(cls.ollama.stop)
        for number, name in enumerate(("kuno-other", "kuno-third")):
            weights = make_model.model()[:-4] + bytes(4 * [number])
            digest = "sha256:" + hashlib.sha256(weights).hexdigest()
            assert cls.ollama.ask(cls.ports[0], "POST", f"/api/blobs/{digest}", weights)[0] == 201
            assert cls.ollama.ask(cls.ports[0], "POST", "/api/create", {
                "model": name, "files": {"tiny.gguf": digest}, "template": "{{ .Prompt }}",
                "parameters": {"num_thread": 1, "num_ctx": 1024}, "stream": False})[0] == 200

    def setUp(self):
        workers = [{"executable": os.path.realpath(FOUND), "models": str(self.folder / "models"),
                    "home": str(self.folder / "state" / f"home{i}"), "address": f"127.0.0.1:{self.ports[3 + i]}",
                    "max_loaded_models": 1, "context_length": 512, "device": {"backend": "cpu"}} for i in range(2)]
        self.managed = {"reserve_bytes": 0, "workers": workers}
        self.server = Server(self, managed=self.managed).wait_ready()
        self.mark = f"KUNO_WORKER={self.server.state}#"
        self.addCleanup(shutil.rmtree, self.server.state, ignore_errors=True)
        self.addCleanup(self.nothing_is_left)
        self.wait_for_no_runner()  # what Ollama looks for devices with is one, too

    def nothing_is_left(self):
        self.server.kill()
        wait_until(lambda: not marked(self.mark), "the end of workers and their runners")

    def wait_for_no_runner(self):
        """One that holds a model stays for minutes."""
        wait_until(lambda: not any(self.serves().values()), "the end of all runners")

    def ask(self, target, body, port=None):
        status, _, text = self.ollama.ask(port or self.server.listen, "POST", target, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def generate(self, model, port=None, **more):
        return self.ask("/api/generate", {"model": model, "prompt": "hello", "stream": False, "options": SHORT, **more},
                        port)["response"]

    def held(self):
        """What each worker holds: {model: context}."""
        self.server.wait_idle()
        workers = self.server.own("GET", "status")[1]["workers"]
        self.assertEqual({w["state"] for w in workers} | {"ready"}, {"ready"})
        return [{m["model"]: m["context_length"] for m in w["resident"]} for w in workers]

    def serves(self):
        """The process of each worker, and its runners."""
        return {pid: children_of(pid) for pid in children_of(self.server.pid())}

    def test_two(self):
        """two_workers_serve_two_models_as_the_owner_of_the_models_would_and_keep_them_loaded"""
        direct = {model: self.generate(model, self.ports[0]) for model in ("kuno-tiny", "kuno-other")}
        for model, text in direct.items():
            self.assertEqual(self.generate(model), text)
        self.assertEqual(self.held(), [{"kuno-tiny:latest": 512}, {"kuno-other:latest": 1024}])
        before = self.serves()
        self.assertEqual([len(runners) for runners in before.values()], [1, 1])
        for _ in range(3):
            for model, text in direct.items():
                self.assertEqual(self.generate(model), text)
        self.assertEqual(self.serves(), before)

    def test_not_listed(self):
        """a_model_that_is_not_listed_is_refused_as_ollama_refuses_it_and_no_worker_is_touched"""
        self.generate("kuno-tiny")
        before = self.serves()
        for target, key in (("/api/generate", "prompt"), ("/api/chat", "messages"), ("/api/embed", "input"),
                            ("/api/embeddings", "prompt"), ("/v1/chat/completions", "messages"),
                            ("/v1/completions", "prompt"), ("/v1/embeddings", "input")):
            body = {"model": "none", key: [{"role": "user", "content": "x"}] if key == "messages" else "x"}
            self.assertEqual(self.same(target, body), 404)
        self.assertEqual(self.serves(), before)

    def test_odd(self):
        """what_is_odd_is_answered_as_ollama_answers_it_and_what_names_no_model_touches_no_worker"""
        self.generate("kuno-tiny")
        before = self.serves()
        for target, rest in ROUTES.items():
            whole = '{"model":"kuno-tiny",' + rest
            for body in (whole + " {}", whole + "]", '{"model":"none",' + rest + " x",
                         '{"model":"kuno-other","model":"none",' + rest, '{"model":"none","Model":"kuno-tiny",' + rest,
                         '{"model":"kuno-tiny","model":null,' + rest, '{"model":"",' + rest, "{" + rest,
                         '{"model":null,' + rest, '{"model":5,' + rest, '{"model":"kuno-tiny","model":[],' + rest,
                         '{"model":"a\\"b",' + rest, '{"model":"kuno-tiny:",' + rest, "\ufeff" + whole, whole[:-1], "",
                         "not json", "[]", "null", "{}"):
                self.same(target, body.encode())
        for target, rest in ROUTES.items():
            for name in ("a/b/c/d", "a/b/c/d/e", "a/b/c", "a//m", "a:b:c", "a:b/c", "n.s/m", "h:80/n/m",
                         "x" * 80, "x" * 81, "x" * 255, "kuno-tiny:" + "t" * 80, "kuno-tiny:" + "t" * 81,
                         "n" * 80 + "/m", "n" * 81 + "/m", "h" * 81 + "/n/m"):
                self.same(target, (json.dumps({"model": name})[:-1] + "," + rest).encode())
        self.assertEqual(self.serves(), before)
        for target, rest in ROUTES.items():  # what some versions read otherwise
            for name in " kuno-tiny ", " ", "n\u00e9", "x" * 300, "http://kuno-tiny":
                self.same(target, (json.dumps({"model": name})[:-1] + "," + rest).encode())
        self.assertFalse(self.server.admission()["recovery_required"])

    def same(self, target, body):
        """Directly and through the server: the same status, and the same words of an error."""
        (status, words), (own_status, own_words) = (
            (status, words_of(text) if status != 200 else None) for status, _, text in
            (self.ollama.ask(port, "POST", target, body) for port in (self.ports[0], self.server.listen)))
        self.assertEqual((own_status, own_words), (status, words), (target, body))
        return status

    def test_private(self):
        """what_is_asked_of_workers_is_in_no_file_and_no_output"""
        canary = "canary-0123456789"
        for target, body in (("/api/generate", {"prompt": canary, "system": canary, "options": SHORT, "stream": False}),
                             ("/api/chat", {"messages": [{"role": "user", "content": canary}], "options": SHORT,
                                            "stream": False}),
                             ("/api/embed", {"input": canary}), ("/v1/completions", {"prompt": canary, **OPENAI})):
            self.ask(target, {"model": "kuno-tiny", **body})
        self.ollama.ask(self.server.listen, "POST", "/api/generate", {"model": canary, "prompt": canary})
        body = json.dumps({"model": "kuno-tiny", "prompt": canary, "options": {"num_predict": 100000}}).encode()
        with self.server.start_raw(body=body, target=f"/api/generate?{canary}") as s:
            s.recv(1)
        self.server.wait_idle()
        shown = {pid: (pathlib.Path(f"/proc/{pid}") / name).read_bytes() for name in ("environ", "cmdline")
                 for pid in (self.server.pid(), *marked(self.mark))}
        self.assertGreater(len(shown), 3)  # with a runner
        told = json.dumps([self.server.own("GET", route)[1] for route in ("status", "usage", "learning", "resources")])
        self.server.stop()
        places = {**shown, "told": told.encode(), "log": self.server.text().encode(),
                  **{path: str(path).encode() + path.read_bytes() for path in self.server.state.rglob("*")
                     if path.is_file()}}
        self.assertTrue(any("home0" in str(place) for place in places))
        for place, text in places.items():
            self.assertNotIn(canary.encode(), text, place)
            self.assertNotIn(TOKEN.encode(), text, place)

    def test_pages(self):
        """pages_are_admitted_or_refused_as_ollama_does_it_and_no_model_is_loaded_for_those_that_are_refused"""
        body = {"model": "kuno-tiny", "prompt": "x", "options": SHORT, "stream": False}
        for target in "/api/generate", "/v1/completions":
            for origin in "http://elsewhere.example", "null", "https://localhost.elsewhere.example":
                seen = []
                for port in self.ports[0], self.server.listen:
                    status, headers, text = self.ollama.ask(port, "POST", target, body, {"Origin": origin})
                    seen.append((status, {name for name, _ in headers}, text))
                self.assertEqual(seen[1], seen[0], origin)
                self.assertEqual(seen[0][0], 403)
        self.wait_for_no_runner()
        status, headers, _ = self.ollama.ask(self.server.listen, "POST", "/api/generate", body,
                                             {"Origin": "http://localhost:3000"})
        self.assertEqual((status, dict(headers)["Access-Control-Allow-Origin"]), (200, "http://localhost:3000"))

    def test_shared(self):
        """models_of_the_same_weights_share_a_load"""
        self.generate("kuno-tiny")
        before = self.serves()
        self.assertEqual(self.generate("kuno-tiny-b"), self.generate("kuno-tiny-b", self.ports[0]))
        self.assertEqual(self.serves(), before)
        self.assertEqual(self.held()[0], {"kuno-tiny:latest": 512})

    def test_evict(self):
        """the_model_used_longest_ago_makes_room_for_a_third"""
        for model in ("kuno-tiny", "kuno-other", "kuno-tiny", "kuno-third"):
            self.generate(model)
        self.assertEqual(self.held(), [{"kuno-tiny:latest": 512}, {"kuno-third:latest": 1024}])
        self.assertEqual(self.server.own("GET", "learning")[1]["workers"][0]["failures"], [])

    def test_context(self):
        """contexts_are_what_was_asked_for_as_far_as_the_model_goes"""
        for context, loaded in ((256, 256), (100000, 2048), (None, 512)):
            options = {**SHORT, **({"num_ctx": context} if context else {})}
            self.generate("kuno-tiny", options=options)
            self.assertIn({"kuno-tiny:latest": loaded}, self.held())
        self.assertEqual([w["failures"] for w in self.server.own("GET", "learning")[1]["workers"]], [[], []])

    def test_routes(self):
        """every_route_of_models_answers_as_it_does_directly"""
        for target, body, at in (
                ("/api/chat", {"messages": CHAT, "options": SHORT, "stream": False}, ("message", "content")),
                ("/api/embed", {"input": ["a", "b"]}, ("embeddings",)),
                ("/api/embeddings", {"prompt": "a"}, ("embedding",)),
                ("/v1/chat/completions", {"messages": CHAT, **OPENAI}, ("choices",)),
                ("/v1/completions", {"prompt": "a", **OPENAI}, ("choices",)),
                ("/v1/embeddings", {"input": "a"}, ("data",))):
            answers = []
            for port in (self.ports[0], self.server.listen):
                value = self.ask(target, {"model": "kuno-tiny", **body}, port)
                for key in at:
                    value = value[key]
                answers.append(value)
            self.assertEqual(answers[0], answers[1], target)
        self.assertEqual(sum(len(one) for one in self.held()), 1)

    def test_stream(self):
        """answers_stream_as_lines_and_as_events"""
        body = {"model": "kuno-tiny", "prompt": "x", "options": SHORT}
        _, headers, text = self.ollama.ask(self.server.listen, "POST", "/api/generate", body)
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertEqual(dict(headers)["Content-Type"], "application/x-ndjson")
        self.assertEqual((len(lines), lines[-1]["done"]), (9, True))
        body = {"model": "kuno-tiny", "messages": CHAT, "stream": True, **OPENAI}
        _, headers, text = self.ollama.ask(self.server.listen, "POST", "/v1/chat/completions", body)
        self.assertTrue(text.endswith(b"data: [DONE]\n\n"))

    def test_cancel(self):
        """a_client_that_leaves_costs_nobody_anything"""
        body = json.dumps({"model": "kuno-tiny", "prompt": "x", "options": {"num_predict": 400}}).encode()
        with self.server.start_raw(body=body) as s:
            s.recv(1)
        before = self.serves()
        self.generate("kuno-tiny")
        self.assertEqual(self.serves(), before)
        self.assertFalse(self.server.admission()["recovery_required"])

    def told(self):
        workers = self.server.own("GET", "status")[1]["workers"]
        return [one["model"] for worker in workers for one in worker["resident"]]

    def test_unload(self):
        """a_model_is_unloaded_where_it_is"""
        self.generate("kuno-tiny")
        self.ask("/api/generate", {"model": "kuno-tiny", "keep_alive": 0})
        self.wait_for_no_runner()
        wait_until(lambda: not self.told(), "the worker's own word")
        self.generate("kuno-tiny")
        self.assertEqual(self.told(), ["kuno-tiny:latest"])
        self.ask("/api/generate", {"model": "kuno-tiny", "prompt": "x", "stream": False, "keep_alive": "1s"})
        wait_until(lambda: not self.told(), "the second that it stays")

    def kill_while_it_streams(self, find):
        body = json.dumps({"model": "kuno-tiny", "prompt": "x", "options": {"num_predict": 100000}}).encode()
        with self.server.start_raw(body=body) as s:
            s.recv(1)
            os.kill(find(), signal.SIGKILL)
            with contextlib.suppress(OSError):
                while s.recv(65536):
                    pass
        self.server.wait_idle()
        self.assertFalse(self.server.admission()["recovery_required"])

    def worker_with_a_runner(self):
        return next(pid for pid, runners in self.serves().items() if runners)

    def test_killed(self):
        """a_worker_that_is_killed_while_it_streams_leaves_no_runner_and_comes_back"""
        text = self.generate("kuno-tiny")
        runner = self.serves()[self.worker_with_a_runner()][0]
        self.kill_while_it_streams(self.worker_with_a_runner)
        self.assertNotIn(runner, marked(self.mark))
        self.assertEqual(self.generate("kuno-tiny"), text)

    def test_runner(self):
        """a_runner_that_is_killed_is_loaded_again"""
        text = self.generate("kuno-tiny")
        self.kill_while_it_streams(lambda: self.serves()[self.worker_with_a_runner()][0])
        self.assertEqual(self.generate("kuno-tiny"), text)

    def test_server(self):
        """a_server_that_is_killed_leaves_neither_workers_nor_runners"""
        self.generate("kuno-tiny")
        self.generate("kuno-other")
        self.assertEqual(len(marked(self.mark)), 4)
        os.kill(self.server.pid(), signal.SIGKILL)
        wait_until(lambda: not marked(self.mark), "their end")

    def test_server_at_its_start(self):
        """a_server_that_is_killed_while_its_workers_look_for_devices_leaves_nothing"""
        self.server.stop()
        self.server = Server(self, managed=self.managed)
        wait_until(lambda: any(self.serves().values()), "a runner that looks")
        os.kill(self.server.pid(), signal.SIGKILL)
        wait_until(lambda: not marked(self.mark), "their end")


if __name__ == "__main__":
    tap.main()
