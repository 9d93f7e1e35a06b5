"""Workers of the server's own, played by stub_worker.py: where requests go, and what becomes of failures."""

import contextlib
import json
import os
import signal
import socket

import tap
from harness import PATIENCE, Server, wait_until
from workers import CPU, Workers, is_alive


class Routing(Workers):
    def test_warm(self):
        """a_model_that_is_loaded_is_used_where_it_is"""
        server = self.start()
        first = self.place(server.generate(model="tiny"))
        second = self.place(server.generate(model="other:7b"))
        self.assertNotEqual(first, second)
        for _ in range(3):
            self.assertEqual(self.place(server.generate(model="tiny")), first)
            self.assertEqual(self.place(server.generate(model="alias")), first)
            self.assertEqual(self.place(server.generate(model="other:7b")), second)
        self.assertEqual(len(self.notes(start="load")), 2)
        self.assertEqual(self.upstream.worked(), [])

    def test_attributed(self):
        """what_a_worker_has_served_is_counted_as_its_model_also_without_a_fresh_list"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        wait_until(lambda: server.own("GET", "usage")[1]["models"], "the first use")
        server.ask("POST", "/api/copy", {"source": "tiny", "destination": "more"})  # whereby the list may be another
        self.upstream.close()
        self.place(server.generate(model="tiny"))
        usage = server.own("GET", "usage")[1]
        self.assertEqual([(one["digest"], one["calls"]) for one in usage["models"]],
                         [(self.upstream.models["tiny:latest"], 2)])
        self.assertEqual(usage["unattributed_calls"], 0)

    def test_routes(self):
        """all_routes_of_models_go_to_workers_and_their_answers_come_back_unchanged"""
        server = self.start()
        bodies = {"/api/generate": "prompt", "/api/chat": "messages", "/api/embed": "input",
                  "/api/embeddings": "prompt", "/v1/chat/completions": "messages", "/v1/completions": "prompt",
                  "/v1/embeddings": "input"}
        for path, key in bodies.items():
            status, headers, body = server.ask("POST", path, {"model": "tiny", key: ["x"]})
            answer = {"worker": self.addresses[0], "path": path, "model": "tiny", "done": True}
            self.assertEqual((status, json.loads(body)), (200, answer), path)
        self.assertEqual(self.upstream.worked(), [])
        self.assertEqual(len(self.notes(start="use")), len(bodies))

    def test_evict(self):
        """the_model_that_was_used_longest_ago_makes_room"""
        self.upstream.models["third:latest"] = "c" * 64
        for home in self.homes:
            self.set_stub(home)
        server = self.start()
        old = self.place(server.generate(model="tiny"))
        self.place(server.generate(model="other:7b"))
        self.assertEqual(self.place(server.generate(model="third")), old)
        self.assertEqual(self.notes(start="unload"), ["unload tiny:latest"])
        self.assertEqual(self.place(server.generate(model="tiny")), 1 - old)

    def test_context(self):
        """another_context_is_another_load"""
        server = self.start()
        first = self.place(server.generate(model="tiny"))
        body = {"model": "tiny", "prompt": "x", "options": {"num_ctx": 256}}
        second = self.place(server.ask("POST", "/api/generate", body))
        self.assertNotEqual(first, second)
        self.assertEqual([line.split()[2] for line in sorted(self.notes(start="load"))], ["256", "512"])
        self.assertEqual(self.place(server.ask("POST", "/api/generate", body)), second)
        self.assertEqual(self.place(server.ask("POST", "/v1/completions", body)), first)

    def test_options(self):
        """options_that_change_how_a_model_is_loaded_are_refused"""
        server = self.start()
        body = {"model": "tiny", "prompt": "x", "options": {"num_gpu": 1}}
        status, _, text = server.ask("POST", "/api/generate", body)
        self.assertEqual(status, 400)
        self.assertIn(b"num_ctx", text)
        self.assertEqual(server.ask("POST", "/v1/completions", body)[0], 200)  # where they mean nothing
        self.assertFalse(server.admission()["recovery_required"])

    def test_unload(self):
        """a_model_is_unloaded_where_it_is"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        self.assertEqual(server.ask("POST", "/api/generate", {"model": "tiny", "keep_alive": 0})[0], 200)
        self.assertEqual(self.notes(start="unload"), ["unload tiny:latest"])
        self.assertEqual(server.ask("POST", "/api/generate", {"model": "other:7b", "keep_alive": 0})[0], 200)
        self.assertEqual(self.upstream.worked(), ["/api/generate"])  # which may have it
        self.assertEqual(len(self.notes(start="load")), 1)

    def test_unloaded(self):
        """what_a_worker_has_unloaded_it_is_not_told_to_have_and_not_asked_to_unload_again"""
        server = self.start()
        self.place(server.generate(model="tiny"))

        def held():
            workers = server.own("GET", "status")[1]["workers"]
            return [one["model"] for worker in workers for one in worker["resident"]]

        self.assertEqual(held(), ["tiny:latest"])
        unload = {"model": "tiny", "keep_alive": 0}
        self.assertEqual(server.ask("POST", "/api/generate", unload)[0], 200)
        wait_until(lambda: not held(), "the worker's own word")
        self.assertEqual((self.notes(start="unload"), self.upstream.worked()), (["unload tiny:latest"], []))
        self.assertEqual(server.ask("POST", "/api/generate", unload)[0], 200)
        self.assertEqual(self.notes(start="unload"), ["unload tiny:latest"])
        self.assertEqual(self.upstream.worked(), ["/api/generate"])
        self.place(server.generate(model="tiny"))
        self.assertEqual(held(), ["tiny:latest"])

    def untouched(self, server):
        """Both workers are as they were, and what is loaded is used where it is."""
        self.assertEqual([len(self.pids(i)) for i in range(2)], [1, 1])
        self.place(server.generate(model="tiny"))
        self.assertEqual((len(self.notes(start="load")), self.notes(start="unload")), (1, []))
        self.assertFalse(server.admission()["recovery_required"])

    def test_not_listed(self):
        """a_model_that_is_not_listed_is_404_as_ollama_says_it_and_nothing_else_happens"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        single, double = "model 'nobody' not found", 'model "nobody" not found, try pulling it first'
        for target, key, words in (("/api/generate", "prompt", single), ("/api/chat", "messages", single),
                                   ("/api/embed", "input", double), ("/api/embeddings", "prompt", double),
                                   ("/v1/chat/completions", "messages", single), ("/v1/embeddings", "input", double),
                                   ("/v1/responses", "input", single), ("/v1/messages", "messages", single)):
            status, _, body = server.ask("POST", target, {"model": "nobody", key: ["x"]})
            error = json.loads(body)["error"]
            self.assertEqual((status, error if target.startswith("/api/") else error["message"]), (404, words), target)
        odd = b'{"model":"nobody","options":{"num_ctx":5.5},"prompt":"x"}'  # a wish that is not clear
        self.assertEqual(server.ask("POST", "/api/generate", odd)[0], 404)
        self.assertEqual(self.upstream.worked(), [])
        self.untouched(server)

    def test_no_name(self):
        """one_that_no_model_can_be_called_is_the_upstreams_to_refuse_and_nothing_else_happens"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        names = "a/b/c/d/e", "a//m", "a:b:c", "n.s/m", "x" * 81, "x" * 255, "tiny:" + "t" * 81
        for name in names:
            status, _, text = server.generate("status=400", name)
            self.assertEqual((status, json.loads(text)), (400, {"error": self.upstream.error_text}), name)
        self.assertEqual(self.upstream.worked(), len(names) * ["/api/generate"])
        self.untouched(server)

    def test_new(self):
        """one_that_has_come_since_the_list_was_read_is_found"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        self.upstream.models["new:latest"] = "e" * 64  # not through this server
        for home in self.homes:
            self.set_stub(home)
        self.place(server.generate(model="new"))

    def test_nonsense(self):
        """what_names_no_model_is_the_upstreams_to_refuse_and_nothing_else_happens"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        for number, body in enumerate((
                b"not json", b"", b"{", b"[]", b"null", b"{}", b'{"prompt":"x"}', b'{"model":5,"prompt":"x"}',
                b'{"model":""}', b'{"model":"tiny","prompt":"x"', b'{"model":"tiny","model":""}',
                b'{"model":"ti\\"ny","prompt":"x"}', b'\xef\xbb\xbf{"model":"tiny","prompt":"x"}')):
            status, _, text = server.ask("POST", "/v1/responses" if number % 2 else "/api/chat", body,
                                         "status=400")
            self.assertEqual((status, json.loads(text)), (400, {"error": self.upstream.error_text}), body)
            self.assertEqual((len(self.upstream.worked()), self.upstream.seen[-1][2]), (number + 1, body))
        self.untouched(server)

    def test_odd(self):
        """what_ollama_understands_all_the_same_workers_serve_too"""
        server = self.start()
        for body in (b'{"model":"tiny","prompt":"x"} {"model":"other:7b"}', b'{"model":"tiny","prompt":"x"}\n]',
                     b'{"model":"other:7b","Model":"tiny","prompt":"x"}',
                     b'{"model":"tiny","model":null,"prompt":"x"}'):
            self.assertEqual(server.ask("POST", "/api/generate", body)[0], 200, body)
        self.assertEqual(len(self.notes(start="use")), 4)
        self.assertEqual([line.split()[1] for line in self.notes(start="load")], ["tiny:latest"])
        self.assertEqual(self.upstream.worked(), [])

    def test_away(self):
        """without_the_upstream_workers_go_on_with_what_they_have_shown_to_have_and_nothing_is_unloaded"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        server.ask("POST", "/api/create", {"model": "x"})  # so that the list must be read again
        self.upstream.close()
        self.untouched(server)
        away = "kuno: the upstream cannot be reached, or broke off its answer"
        for target, body in (("/api/generate", {"model": "other:7b", "prompt": "x"}),  # no worker has had it
                             ("/api/generate", {"model": "nobody", "prompt": "x"}), ("/api/unknown", {}),
                             ("/v1/responses", {"model": "tiny", "input": "x"}),
                             ("/api/chat", {"model": "big:cloud", "messages": ["x"]})):
            status, _, text = server.ask("POST", target, body)
            error = json.loads(text)["error"]
            self.assertEqual((status, error if isinstance(error, str) else error["message"]), (502, away), target)
        self.untouched(server)
        self.assertEqual(server.ask("POST", "/api/generate", {"model": "tiny", "keep_alive": 0})[0], 200)
        self.assertEqual(self.notes(start="unload"), ["unload tiny:latest"])

    def test_upload(self):
        """nobody_waits_for_a_client_that_does_not_send_its_body"""
        server = self.start()
        with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
            s.sendall(b"POST /api/generate HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{")
            self.place(server.generate(model="tiny"))
            server.wait_idle()
            s.sendall(b'"model":"tiny","prompt":"' + b"x" * 72 + b'"}')
            self.assertIn(b"HTTP/1.1 200 ", s.recv(65536))

    def test_refused_early(self):
        """a_body_is_not_asked_for_where_nobody_is_let_in"""
        server = self.start()
        server.own("POST", "admission/pause")
        with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
            s.sendall(b"POST /api/generate HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
            self.assertIn(b"HTTP/1.1 503 ", s.recv(65536))

    def test_unknown(self):
        """what_is_not_understood_goes_to_the_upstream_when_no_worker_runs_any_more"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        odd = {"model": "tiny", "prompt": "x", "options": {"num_ctx": 5.5}}
        for target, body in (("/api/generate", odd), ("/api/unknown", {}), ("/api/generate", b'{"model":" tiny"}'),
                             ("/api/chat", {"model": "tiny:local", "messages": ["x"]}),  # which newer versions know
                             ("/api/generate", b'{"model":"tiny","option\xc5\xbf":{"num_gpu":1},"prompt":"x"}'),
                             ("/v1/responses", {"model": "tiny", "input": "x"})):
            before = [pid for pid in self.pids() if is_alive(pid)]
            self.assertEqual(len(before), 2, target)
            count = len(self.upstream.worked())
            self.assertEqual(server.ask("POST", target, body)[0], 200)
            self.assertEqual(self.upstream.worked()[count:], [target])
            self.assertFalse([pid for pid in before if is_alive(pid)])
            self.assertEqual({w["state"] for w in self.workers(server)}, {"stopped"})
            self.place(server.generate(model="tiny"))  # which starts them again

    def test_page(self):
        """whom_the_upstream_would_not_have_is_refused_before_anything_is_done_for_it"""
        page, name = {"Origin": "http://elsewhere.example"}, {"Host": "elsewhere.example"}
        self.upstream.foreign = (*page.values(), *name.values())
        server = self.start()
        for headers in page, name, {**page, "Host": "localhost"}, {**name, "Origin": "http://localhost:3000"}:
            for target, body in (("/api/generate", {"model": "tiny", "prompt": "x"}), ("/api/unknown", {}),
                                 ("/v1/responses", {"model": "tiny", "input": "x"}), ("/api/generate", b"no JSON"),
                                 ("/api/generate", {"model": "tiny", "keep_alive": 0}), ("/api/copy", {})):
                status, fields, text = server.ask("POST", target, body, headers=headers)
                self.assertEqual((status, fields["Content-Length"], text), (403, "0", b""), target)
            self.assertEqual(server.ask("GET", "/api/ps", headers=headers)[0], 403)
        self.assertEqual((self.upstream.worked(), self.notes(start="load")), ([], []))
        self.place(server.generate(model="tiny"))
        self.assertEqual(server.generate(model="tiny", headers=page)[0], 403)
        self.untouched(server)

    def test_admitted(self):
        """whom_it_would_have_a_worker_serves_and_a_page_may_read_what_it_may_read_there"""
        page = {"Origin": "http://app.example"}
        self.upstream.pages = page.values()
        server = self.start()

        def told(answer):
            return answer[0], answer[1].get("Access-Control-Allow-Origin"), answer[1].get("Vary")

        open_to_it = page["Origin"], "Origin"
        for headers in page, {**page, "Host": "app.example"}:
            answer = server.generate(model="tiny", headers=headers)
            self.place(answer)
            self.assertEqual(told(answer), (200, *open_to_it))
            self.assertEqual(told(server.generate(model="nobody", headers=headers)), (404, *open_to_it))
            self.assertEqual(told(server.ask("POST", "/api/create", {"model": "x"}, headers=headers)),
                             (200, *open_to_it))
        for headers in {}, {"Host": "app.example"}, {"Origin": "http://localhost:3000"}:
            answer = server.generate(model="tiny", headers=headers)
            self.place(answer)
            self.assertEqual(told(answer), (200, None, None))
        self.untouched(server)

    def test_page_away(self):
        """without_the_upstream_nobody_can_say_so_and_who_comes_from_no_page_is_served"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        self.upstream.close()
        for headers in {"Origin": "http://localhost:3000"}, {"Host": "app.example"}:
            self.assertEqual(server.generate(model="tiny", headers=headers)[0], 502)
        for host in "localhost", f"localhost:{server.listen}", "127.0.0.1:1", "[::1]", "[::1]:5":
            self.place(server.generate(model="tiny", headers={"Host": host}))
        self.untouched(server)

    def test_page_silent(self):
        """nor_where_it_is_silent_and_whoever_leaves_meanwhile_leaves_nothing_behind"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        self.upstream.silent = True
        for request in (b"GET /api/ps HTTP/1.1\r\n\r\n", b"POST /api/generate HTTP/1.1\r\nContent-Length: 30\r\n\r\n"
                        b'{"model":"tiny","prompt":"xx"}'):
            line, rest = request.split(b"\r\n", 1)
            asked = self.upstream.asked
            with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
                s.sendall(line + b"\r\nHost: h\r\nOrigin: http://app.example\r\n" + rest)
                wait_until(lambda asked=asked: self.upstream.asked > asked, "the question")
        server.wait_idle()
        self.assertEqual(server.generate(model="tiny", headers={"Host": "app.example"})[0], 502)
        self.upstream.silent = False
        self.untouched(server)

    def test_catalog(self):
        """changes_of_the_catalogue_and_cloud_models_leave_workers_alone"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        for target, body in (("/api/create", {"model": "new"}),
                             ("/api/chat", {"model": "big:cloud", "messages": ["x"]}),
                             ("/api/generate", {"model": "gpt:20b-cloud", "prompt": "x"})):
            self.assertEqual(server.ask("POST", target, body)[0], 200)
        self.assertEqual(self.upstream.worked(), ["/api/create", "/api/chat", "/api/generate"])
        self.assertEqual(len(self.pids()), 2)
        self.place(server.generate(model="tiny"))
        self.assertEqual(len(self.notes(start="load")), 1)

    def test_ps(self):
        """what_is_loaded_anywhere_is_one_list"""
        page = {"Origin": "http://app.example"}
        self.upstream.pages = page.values()
        server = self.start()
        self.place(server.generate(model="tiny"))
        self.place(server.generate(model="other:7b"))
        for headers in {}, page:
            status, fields, body = server.ask("GET", "/api/ps", headers=headers)
            self.assertEqual((status, fields.get("Access-Control-Allow-Origin")), (200, headers.get("Origin")))
            self.assertEqual([m["name"] for m in json.loads(body)["models"]],
                             ["tiny:latest", "other:7b", "tiny:latest"])  # two workers, and the upstream

    def test_ps_failures(self):
        """who_does_not_answer_is_left_out_of_it_and_if_nobody_does_that_is_what_is_said"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        self.upstream.close()
        status, _, body = server.ask("GET", "/api/ps")
        self.assertEqual((status, [m["name"] for m in json.loads(body)["models"]]), (200, ["tiny:latest"]))
        for home in self.homes:
            self.set_stub(home, ps="broken")
        status, _, body = server.ask("GET", "/api/ps")
        self.assertEqual((status, json.loads(body)),
                         (502, {"error": "kuno: the upstream cannot be reached, or broke off its answer"}))

    def test_usage(self):
        """uses_are_counted_and_loads_of_the_servers_own_are_not"""
        server = self.start()
        for _ in range(2):
            self.place(server.generate(model="tiny"))
        server.ask("POST", "/api/generate", {"model": "other:7b"})
        uses = server.own("GET", "usage")[1]
        self.assertEqual([(m["digest"], m["calls"]) for m in uses["models"]],
                         [(self.upstream.models["tiny:latest"], 2)])
        self.assertEqual(uses["unattributed_calls"], 0)

    def test_large(self):
        """a_request_that_is_too_large_to_be_read_is_refused"""
        server = self.start()
        with server.start_raw() as s:
            s.recv(1)
        head = b"POST /api/generate HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
            s.sendall(head)
            with contextlib.suppress(OSError):
                for _ in range(65):
                    s.sendall(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
            self.assertIn(b" 413 ", s.recv(65536))
        server.wait_idle()
        self.place(server.generate(model="tiny"))

    def test_declared(self):
        """one_that_says_so_is_refused_before_any_of_it_comes"""
        server = self.start()
        before, words = len(self.upstream.seen), "kuno: the request is too large"
        forms = {"/api/generate": {"error": words},
                 "/v1/chat/completions": {"error": {"message": words, "type": "invalid_request_error", "param": None,
                                                    "code": None}},
                 "/v1/messages": {"type": "error", "error": {"type": "invalid_request_error", "message": words}}}
        for target, form in forms.items():
            for size, expects in (((64 << 20) + 1, ""), (10 ** 15, ""), ((64 << 20) + 1, "Expect: 100-continue\r\n")):
                with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
                    s.sendall(f"POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n{expects}\r\n".encode())
                    got = b"".join(iter(lambda s=s: s.recv(65536), b""))  # up to the end of the connection
                head, _, body = got.partition(b"\r\n\r\n")
                self.assertRegex(head, rb"^HTTP/1\.1 413 (?s:.*)\r\nConnection: close$")
                document = json.loads(body)
                if target == "/v1/messages":
                    self.assertRegex(document.pop("request_id"), "^req_[0-9a-f]{24}$")
                self.assertEqual(document, form)
        self.assertEqual(len(self.upstream.seen), before)
        self.place(server.generate(model="tiny"))

    def test_largest(self):
        """one_of_exactly_the_limit_is_served"""
        server = self.start()
        body = json.dumps({"model": "tiny", "prompt": "hello"})
        self.place(server.ask("POST", "/api/generate", body + " " * ((64 << 20) - len(body))))

    def test_status(self):
        """the_owner_sees_workers_and_what_they_hold"""
        server = self.start(most=3)
        self.place(server.generate(model="tiny"))
        server.wait_idle()
        document = server.own("GET", "status")[1]
        self.assertEqual(document["mode"], "managed_experimental")
        self.assertTrue(document["capabilities"]["managed_workers"])
        self.assertFalse(document["capabilities"]["gpu_placement_guarantee"])
        first = document["workers"][0]
        self.assertEqual((first["id"], first["backend"], first["state"], first["verified"], first["max_loaded_models"]),
                         (f"cpu-{self.addresses[0]}", "cpu", "ready", True, 3))
        self.assertEqual([(m["model"], m["context_length"], m["residency"]) for m in first["resident"]],
                         [("tiny:latest", 512, "cpu")])
        residency = server.own("GET", "resources")[1]["residency"]
        self.assertIn((first["id"], "tiny:latest"), [(m["worker"], m["model"]) for m in residency])


class Starting(Workers):
    def refuses(self, reason, **stub):
        self.set_stub(self.homes[1], **stub)
        server = Server(self, **self.managed())
        self.assertEqual(server.process.wait(PATIENCE), 2)
        self.assertIn(f"worker cpu-{self.addresses[1]} does not start as configured: {reason}", server.text())
        self.assertFalse(server.accepts(server.listen))
        self.no_worker_is_left(server)

    def test_port(self):
        """none_begins_where_an_address_of_the_server_is_in_use"""
        for port in self.ports[1:]:
            with socket.create_server(("127.0.0.1", port)):
                server = Server(self, **self.managed())
                self.assertEqual(server.process.wait(PATIENCE), 1)
            self.assertIn(f"cannot listen on 127.0.0.1:{port}", server.text())
        self.assertEqual(self.notes(), [])

    def test_devices(self):
        """a_worker_with_another_device_is_refused_before_anybody_is_let_in"""
        self.refuses("wrong_backend", devices=['id=0 library=CUDA pci_id=0000:04:00.0'])

    def test_second(self):
        """so_is_one_that_has_more_than_its_own"""
        self.refuses("several_devices", devices=[CPU, 'id=0 library=CUDA pci_id=0000:04:00.0'])

    def test_silent(self):
        """so_is_one_that_tells_no_device"""
        self.refuses("no_device_told", devices=[])

    def test_exit(self):
        """so_is_one_that_ends"""
        self.refuses("exited", start="exit")

    def test_missing(self):
        """so_is_one_that_is_not_there"""
        for told, change in (("cannot_start", lambda: self.executable.write_bytes(b"\x7fELF")),
                             ("cannot be executed", lambda: self.executable.write_bytes(b"\0")),
                             (f"'{self.executable}': does not exist", self.executable.unlink)):
            change()
            server = Server(self, **self.managed())
            self.assertEqual(server.process.wait(PATIENCE), 2)
            self.assertIn(told, server.text())

    def test_models(self):
        """a_folder_of_models_that_is_not_there_is_not_made"""
        (self.folder / "models").rmdir()
        server = Server(self, **self.managed())
        self.assertEqual(server.process.wait(PATIENCE), 2)
        self.assertIn(f"managed.workers[0].models: '{self.folder}/models': does not exist", server.text())
        self.assertFalse((self.folder / "models").exists())
        self.assertEqual(self.notes(), [])

    def test_signal(self):
        """a_server_that_is_told_to_stop_while_its_workers_start_stops"""
        self.set_stub(self.homes[1], start="silent")
        server = Server(self, **self.managed())
        wait_until(lambda: len(self.pids()) == 2, "the workers")
        self.assertEqual(server.stop(), 0)
        self.no_worker_is_left(server)

    def test_environment(self):
        """a_worker_gets_nothing_of_the_servers_environment"""
        self.start(env={"OLLAMA_DEBUG": "2", "HTTP_PROXY": "x"})
        names = self.notes(0, "start")[0].split()[2:]
        for name in ("KUNO_CONTROL_TOKEN", "OLLAMA_DEBUG", "HTTP_PROXY"):
            self.assertNotIn(name, names)
        for name in ("HOME", "OLLAMA_NOPRUNE", "OLLAMA_NO_CLOUD", "CUDA_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES"):
            self.assertIn(name, names)

    def test_stop(self):
        """stopping_the_server_stops_its_workers"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        self.assertEqual(server.stop(), 0)
        self.assertFalse([pid for pid in self.pids() if is_alive(pid)])
        self.assertEqual(sorted(path.name for path in server.state.iterdir() if "reserved" in path.name), [])


class Failing(Workers):
    def test_memory(self):
        """a_load_that_fails_is_learnt_from_and_another_worker_is_tried"""
        self.set_stub(self.homes[0], fail={"tiny:latest": "memory"})
        server = self.start()
        self.assertEqual(self.place(server.generate(model="tiny")), 1)
        failure, = self.failures(server, 0)
        self.assertEqual((failure["digest"], failure["context_length"], failure["co_resident"], failure["retried"]),
                         (self.upstream.models["tiny:latest"], 512, [], False))
        self.assertIn(failure["class"], ("capacity", "external_pressure", "inconclusive"))  # it is a machine in use
        self.assertGreater(failure["before_cleanup_bytes"], 0)
        self.assertFalse(is_alive(self.pids(0)[0]))  # only the one that failed was ended
        self.assertTrue(is_alive(self.pids(1)[0]))
        server.wait_idle()
        self.place(server.generate(model="other:7b"))
        self.assertEqual(len(self.pids(0)), 2)

    def test_everywhere(self):
        """what_no_worker_can_load_is_refused_and_the_next_request_is_served"""
        for home in self.homes:
            self.set_stub(home, fail={"tiny:latest": "error"})
        server = self.start()
        status, headers, body = server.generate(model="tiny")
        self.assertEqual(status, 503)
        self.assertIn(b"could not be loaded", body)
        self.assertNotIn(b"secret", body)
        for worker in range(2):
            self.assertEqual([f["class"] for f in self.failures(server, worker)], ["runtime"])
        self.place(server.generate(model="other:7b"))
        self.assertNotIn("secret", server.text())

    def test_crash(self):
        """a_worker_that_dies_while_it_loads_is_replaced_by_another"""
        self.set_stub(self.homes[0], fail={"tiny:latest": "exit"})
        server = self.start()
        self.assertEqual(self.place(server.generate(model="tiny")), 1)
        self.assertEqual([f["class"] for f in self.failures(server, 0)], ["runtime"])

    def test_other(self):
        """what_is_loaded_otherwise_than_it_should_be_is_not_used"""
        self.set_stub(self.homes[0], fail={"tiny:latest": "other"})
        server = self.start()
        self.assertEqual(self.place(server.generate(model="tiny")), 1)
        self.assertEqual([f["class"] for f in self.failures(server, 0)], ["verification"])
        self.assertEqual(self.notes(0, "use"), [])

    def test_artifact(self):
        """another_artifact_under_the_name_is_not_used"""
        self.set_stub(self.homes[0], digests={name: "d" * 64 for name in self.upstream.models})
        server = self.start()
        self.assertEqual(self.place(server.generate(model="tiny")), 1)
        self.assertEqual([f["class"] for f in self.failures(server, 0)], ["verification"])

    def test_alone(self):
        """a_load_that_fails_beside_others_for_want_of_memory_is_tried_once_more_alone_if_memory_is_back"""
        for home in self.homes:
            self.set_stub(home, fail_beside={"other:7b": "memory"})
        server = self.start(most=2)
        first = self.place(server.generate(model="tiny"))
        second = self.place(server.generate(model="other:7b"))
        failure = self.failures(server, first)[0]
        self.assertEqual([m["digest"] for m in failure["co_resident"]], [self.upstream.models["tiny:latest"]])
        if failure["class"] == "capacity":  # else others used memory meanwhile
            self.assertEqual((second, failure["retried"], failure["retry_succeeded"]), (first, True, True))
        self.assertFalse(server.admission()["recovery_required"])

    def test_cut(self):
        """an_answer_that_breaks_off_ends_its_worker_and_needs_no_recovery"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        pid = self.pids(0)[0]
        self.set_stub(self.homes[0], cut="close")
        with contextlib.suppress(Exception):
            server.generate(model="tiny")
        server.wait_idle()
        self.assertFalse(is_alive(pid))
        self.assertFalse(server.admission()["recovery_required"])
        self.assertFalse(server.marker())
        self.set_stub(self.homes[0])
        self.place(server.generate(model="tiny"))

    def test_exit(self):
        """so_does_a_worker_that_dies_in_the_middle_of_one"""
        server = self.start()
        self.set_stub(self.homes[0], cut="exit", runner=True)
        with contextlib.suppress(Exception):
            server.generate(model="tiny")
        server.wait_idle()
        self.assertFalse(server.admission()["recovery_required"])
        self.set_stub(self.homes[0])
        self.place(server.generate(model="tiny"))

    def test_leave(self):
        """a_client_that_leaves_a_worker_that_hangs_costs_the_worker_and_nothing_else"""
        server = self.start(stream_idle_timeout_ms=500)
        self.place(server.generate(model="tiny"))
        self.set_stub(self.homes[0], cut="hang", stubborn=True)
        with server.start_raw() as s:
            s.recv(1)
        server.wait_idle()
        self.assertFalse(is_alive(self.pids(0)[0]))
        self.assertFalse(server.admission()["recovery_required"])

    def test_silence(self):
        """nothing_of_what_people_and_workers_write_is_told_or_kept"""
        self.set_stub(self.homes[0], fail={"tiny:latest": "error"})  # of which the stand-in says a secret
        server = self.start()
        for target in ("/api/generate", "/api/unknown-canary"):
            server.ask("POST", target, {"model": "tiny", "prompt": "canary-prompt", "system": "canary-system"})
        server.ask("POST", "/api/generate", {"model": "canary-model", "prompt": "x"})
        told = [json.dumps(server.own("GET", route)[1]) for route in ("status", "learning", "usage")]
        server.stop()
        kept = [path.read_text(errors="replace") for path in server.state.iterdir() if path.is_file()]
        for text in (*told, *kept, server.text()):
            for word in ("canary", "secret", "/api/"):
                self.assertNotIn(word, text)

    def test_leave_early(self):
        """a_client_that_leaves_while_its_model_is_loaded_keeps_nobody_waiting_for_ever"""
        server = self.start()
        server.start_raw().close()
        self.place(server.generate(model="other:7b"))
        server.wait_idle()
        self.assertFalse(server.marker())

    def test_stopped(self):
        """a_worker_that_does_not_answer_any_more_is_ended_and_replaced"""
        server = self.start()
        self.assertEqual(self.place(server.generate(model="tiny")), 0)
        os.kill(self.pids(0)[0], signal.SIGSTOP)
        self.assertEqual(self.place(server.generate(model="tiny")), 1)
        wait_until(lambda: not is_alive(self.pids(0)[0]), "the end of the one that hangs")
        wait_until(lambda: self.workers(server)[0]["state"] == "ready", "another one")

    def test_loop(self):
        """a_worker_that_does_not_come_back_keeps_nobody_waiting_who_has_another"""
        server = self.start()
        self.set_stub(self.homes[0], start="silent")
        os.kill(self.pids(0)[0], signal.SIGKILL)
        wait_until(lambda: len(self.pids(0)) == 2, "the next one")
        self.assertEqual(self.place(server.generate(model="tiny")), 1)
        self.assertEqual(self.workers(server)[0]["state"], "starting")

    def test_killed(self):
        """a_worker_that_is_killed_comes_back"""
        server = self.start()
        os.kill(self.pids(0)[0], signal.SIGKILL)
        wait_until(lambda: len(self.pids(0)) == 2, "the next one")
        wait_until(lambda: self.workers(server)[0]["state"] == "ready", "that it is ready")


class Crashing(Workers):
    def test_orphans(self):
        """what_a_server_that_was_killed_leaves_behind_is_ended_by_the_next_one"""
        for home in self.homes:
            self.set_stub(home, stubborn=True, runner=True)
        server = self.start()
        pids = self.pids()
        os.kill(server.pid(), signal.SIGKILL)
        server.process.wait()
        self.assertTrue(all(is_alive(pid) for pid in pids))  # SIGTERM alone does not end these
        for home in self.homes:
            self.set_stub(home)
        again = self.start()
        self.assertFalse([pid for pid in pids if is_alive(pid)])
        self.assertIn("workers of an earlier process", again.text())
        self.place(again.generate(model="tiny"))  # nothing was under way

    def test_death(self):
        """workers_end_with_the_server_that_was_killed"""
        server = self.start()
        os.kill(server.pid(), signal.SIGKILL)
        wait_until(lambda: not [pid for pid in self.pids() if is_alive(pid)], "their end")

    def test_load(self):
        """nor_does_one_that_was_killed_while_a_model_was_loaded"""
        self.set_stub(self.homes[0], fail={"tiny:latest": "hang"})
        server = self.start()
        with server.start_raw():
            wait_until(lambda: self.notes(0, "load"), "the load")
            os.kill(server.pid(), signal.SIGKILL)
        server.process.wait()
        again = self.start()
        self.assertTrue(again.admission()["recovery_required"])
        self.assertEqual(self.workers(again)[0]["state"], "quarantined")

    def test_reservation(self):
        """a_server_that_was_killed_while_a_worker_worked_admits_nothing_before_a_person_has_looked"""
        server = self.start()
        self.set_stub(self.homes[0], cut="hang")
        with server.start_raw() as s:
            s.recv(1)
            name = f"reserved-cpu-{self.addresses[0]}"
            self.assertTrue((server.state / name).exists())
            self.assertEqual(self.workers(server)[0]["state"], "busy")
            os.kill(server.pid(), signal.SIGKILL)
        server.process.wait()
        self.set_stub(self.homes[0])
        again = self.start()
        self.assertTrue(again.admission()["recovery_required"])
        first, second = self.workers(again)
        self.assertEqual((first["state"], first["reason"]), ("quarantined", "reserved_before_restart"))
        self.assertEqual(second["state"], "ready")
        self.assertEqual(again.generate(model="tiny")[0], 503)
        again.stop()
        (again.state / name).unlink()
        (again.state / "upstream-in-flight").unlink()
        last = self.start()
        self.place(last.generate(model="tiny"))


if __name__ == "__main__":
    tap.main()
