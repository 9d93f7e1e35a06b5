"""kuno serve: clients pass unchanged, one at a time, and their owner sees and steers it."""

import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import time

import tap
from harness import PATIENCE, PROGRAM, TOKEN, Case, Server, wait_until
from ports import free_ports


class Passing(Case):
    def test_unchanged(self):
        """requests_and_answers_pass_unchanged"""
        server = self.serve()
        status, headers, body = server.ask("POST", "/api/generate?x=%41", b'{"model": "tiny",  "prompt":"\\u00e9"}',
                                           "lines=3", {"X-Odd": "kept", "Accept-Encoding": "gzip"})
        self.assertEqual((status, headers["Content-Type"]), (200, "application/x-ndjson"))
        self.assertEqual(body, b'{"line": 0}\n{"line": 1}\n{"line": 2}\n')
        self.assertEqual(self.upstream.seen[0],
                         ("POST", "/api/generate?x=%41", b'{"model": "tiny",  "prompt":"\\u00e9"}'))
        line, fields = self.upstream.heads[0]
        self.assertEqual(line, "POST /api/generate?x=%41 HTTP/1.1")
        self.assertEqual(dict(fields)["X-Odd"], "kept")
        self.assertEqual(dict(fields)["Host"], f"127.0.0.1:{server.listen}")

    def test_errors(self):
        """the_upstreams_errors_pass_unchanged"""
        status, _, body = self.serve().generate("status=404")
        self.assertEqual((status, json.loads(body)), (404, {"error": self.upstream.error_text}))

    def test_refusals(self):
        """who_is_not_understood_is_told_so_in_the_words_of_the_path"""
        studio = free_ports(1)[0]
        server = self.serve(studio={"listen": f"127.0.0.1:{studio}"})

        def refusal(port, raw):
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as s, s.makefile("rb") as stream:
                s.sendall(raw)
                head, _, body = stream.read().partition(b"\r\n\r\n")
            self.assertNotIn(b"canary", head + body)
            return int(head.split()[1]), head, body

        heads = (
            (501, b"Host: a\r\nConnection: upgrade\r\nUpgrade: websocket"),
            (501, b"Host: a\r\nTransfer-Encoding: canary"),
            (400, b"Host: a\r\ncanary"),
            (400, b"X: canary"),
            (431, b"Host: a" + b"\r\nX: canary" * 200),
        )
        words = {
            "ollama": lambda d, status: d["error"].startswith("kuno: "),
            "openai": lambda d, status: d["error"]["message"] and d["error"]["type"],
            "anthropic": lambda d, status: d["type"] == "error" and d["error"]["message"] and "req_" in d["request_id"],
            "a1111": lambda d, status: d["detail"],
            "problem": lambda d, status: d["status"] == status and d["code"] and d["title"],
        }
        for port, path, family in (
            (server.listen, b"/api/tags", "ollama"), (server.listen, b"/", "ollama"),
            (server.listen, b"/v1/models", "openai"), (server.listen, b"/v1/messages", "anthropic"),
            (server.listen, b"/kuno/v1/images/generate", "problem"), (server.control, b"/kuno/v1/status", "problem"),
            (server.control, b"/v1/models", "problem"), (studio, b"/api/v1/jobs", "problem"),
            (studio, b"/v1/models", "openai"), (studio, b"/sdapi/v1/options", "a1111"),
        ):
            for status, raw in (
                *((status, b"GET " + path + b" HTTP/1.1\r\n" + fields + b"\r\n\r\n") for status, fields in heads),
                (505, b"GET " + path + b" HTTP/2.0\r\nHost: canary\r\n\r\n"),
                (414, b"GET " + path + b"?" + b"canary" * 4000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"),
            ):
                got, _, body = refusal(port, raw)
                self.assertEqual(got, status, (path, raw[:80]))
                self.assertTrue(words[family](json.loads(body), status), (path, body))
        status, _, body = refusal(server.listen, b"CONNECT canary:1 HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual((status, list(json.loads(body))), (501, ["error"]))
        status, head, body = refusal(server.listen, b"HEAD /api/tags HTTP/1.1\r\n\r\n")
        self.assertEqual((status, body), (400, b""))
        self.assertNotIn(b"Content-Length: 0", head)

    def test_streams(self):
        """each_line_passes_when_it_comes"""
        server = self.serve()
        with server.start_raw("lines=3 pause=2") as s, s.makefile("rb") as stream:
            for number in range(2):  # there is no more until it is released
                self.assertIn(b'{"line": %d}\n' % number, stream)
            self.upstream.release()
            self.assertIn(b"0\r\n", stream)

    def test_crowd_of_one(self):
        """one_address_has_as_many_connections_as_it_may_and_others_have_theirs"""
        server = self.serve(max_connections_per_address=8)

        def answers(source):
            with socket.create_connection(("127.0.0.1", server.listen), PATIENCE, (source, 0)) as s:
                with contextlib.suppress(OSError):
                    s.sendall(b"GET /api/version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    return s.recv(12)
            return b""

        with contextlib.ExitStack() as crowd:
            for _ in range(8):
                s = crowd.enter_context(
                    socket.create_connection(("127.0.0.1", server.listen), PATIENCE, ("127.0.0.2", 0)))
                s.sendall(b"GET /api/version HTTP/1.1\r\nHost: a\r\n\r\n")
                self.assertEqual(s.recv(12), b"HTTP/1.1 200")
            self.assertEqual(answers("127.0.0.2"), b"")
            self.assertEqual(answers("127.0.0.1"), b"HTTP/1.1 200")
        wait_until(lambda: answers("127.0.0.2") == b"HTTP/1.1 200", "room for one more")

    def test_few_descriptors(self):
        """whatever_crowd_there_is_who_was_let_in_is_served_and_the_owner_is"""
        crowd = contextlib.ExitStack()
        self.addCleanup(crowd.close)

        def come(port, says=b""):
            s = crowd.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            s.sendall(says)
            return s

        server = self.serve(before=("prlimit", "--nofile=256:256"))
        server.wait_said("max_connections: of 1024 only 80 can be had, since a process may have 256 descriptors")
        owner = server.connect(server.control)
        self.addCleanup(owner.close)
        status = "GET", "/kuno/v1/status", None, {"Authorization": f"Bearer {TOKEN}"}

        def stays():
            owner.request(*status)
            with owner.getresponse() as answer:
                answer.read()
                return answer.status == 200 and owner.sock is not None

        self.assertTrue(stays())
        first = come(server.listen)
        for number in range(300):
            come(server.listen)
            come(server.control, b"" if number % 2 else b"GET /kuno/v1/st")
        for _ in range(20):
            self.assertEqual(server.own("GET", "status")[0], 200)
        self.assertTrue(stays())
        first.sendall(b"POST /api/generate HTTP/1.1\r\nHost: a\r\nContent-Length: 16\r\n\r\n{\"model\":\"tiny\"}")
        self.assertTrue(first.recv(65536).startswith(b"HTTP/1.1 200"))
        server.wait_idle()
        self.assertFalse(server.admission()["recovery_required"])

    def test_no_limit_for_this_machine(self):
        """clients_behind_a_proxy_on_this_machine_are_not_limited_as_one"""
        server = self.serve()
        with contextlib.ExitStack() as crowd:
            for _ in range(300):
                s = crowd.enter_context(socket.create_connection(("127.0.0.1", server.listen), PATIENCE))
            s.sendall(b"GET /api/version HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(s.recv(12), b"HTTP/1.1 200")

    def test_no_upstream(self):
        """an_upstream_that_is_not_there_is_502_and_needs_no_recovery"""
        server = self.serve()
        self.upstream.close()
        for target, form in (("/api/tags", lambda d: d["error"]), ("/v1/models", lambda d: d["error"]["message"])):
            status, _, body = server.ask("GET", target)
            self.assertEqual((status, form(json.loads(body))),
                             (502, "kuno: the upstream cannot be reached, or broke off its answer"))
        self.assertEqual(server.generate()[0], 502)
        server.wait_idle()
        self.assertFalse(server.admission()["recovery_required"])
        self.assertFalse(server.marker())

    def test_no_control(self):
        """the_owners_routes_are_not_at_the_clients_door"""
        server = self.serve()
        status, _, body = server.ask("GET", "/kuno/v1/status", headers={"Authorization": f"Bearer {TOKEN}"})
        self.assertEqual((status, json.loads(body)), (404, {"error": "kuno: there is no such route here"}))
        self.assertEqual(self.upstream.seen, [])


class Turns(Case):
    def test_one_at_a_time(self):
        """work_is_done_one_after_the_other_in_the_order_of_coming"""
        server = self.serve()
        sockets = []
        for number in range(5):
            sockets.append(server.start_raw("lines=2 gap=0.05", target=f"/api/generate?n={number}"))
            wait_until(lambda: server.admission()["queued"] + server.admission()["active"] > number or
                       len(self.upstream.worked()) > number, "a place in line")
        for s in sockets:
            with s, s.makefile("rb") as stream:
                for line in stream:
                    if line == b"0\r\n":
                        break
        self.assertEqual(self.upstream.worked(), [f"/api/generate?n={number}" for number in range(5)])
        self.assertEqual(self.upstream.most_active, 1)

    def test_exempt(self):
        """metadata_does_not_wait"""
        server = self.serve()
        with server.start_raw("hold"):
            wait_until(lambda: self.upstream.active, "the request")
            for target in ("/api/tags", "/api/version", "/api/ps", "/v1/models", "/"):
                self.assertEqual(server.ask("GET", target)[0], 200)
            self.assertEqual(server.ask("POST", "/api/show", {"model": "tiny"})[0], 200)
            self.assertTrue(server.admission()["active"])
            self.upstream.release()

    def test_everything_else(self):
        """what_is_not_known_to_be_harmless_waits"""
        server = self.serve(queue_timeout_ms=300)
        with server.start_raw("hold"):
            wait_until(lambda: self.upstream.active, "the request")
            for method, target in (("POST", "/api/chat"), ("DELETE", "/api/delete"), ("GET", "/api/%74ags"),
                                   ("POST", "/api/unknown"), ("GET", "/api/generate"), ("POST", "/api/blobs/sha256:1")):
                status, headers, body = server.ask(method, target, {})
                self.assertEqual((status, json.loads(body)["error"]),
                                 (503, "kuno: the request has waited too long for its turn"))
                self.assertEqual(headers["Retry-After"], "5")
            self.assertEqual(len(self.upstream.worked()), 1)
            self.upstream.release()

    def test_full(self):
        """the_line_has_an_end"""
        server = self.serve(queue_limit=2)
        with server.start_raw("hold"), server.start_raw(), server.start_raw():
            wait_until(lambda: server.admission()["queued"] == 2, "two in line")
            status, headers, body = server.ask("POST", "/v1/chat/completions", {})
            self.assertEqual((status, headers["Retry-After"]), (503, "5"))
            self.assertEqual(json.loads(body)["error"]["message"], "kuno: the queue is full: 2 requests wait")
            self.upstream.release()

    def test_no_line(self):
        """where_nobody_may_wait_that_is_what_is_said"""
        server = self.serve(queue_limit=0)
        self.assertEqual(server.generate()[0], 200)
        server.wait_idle()
        with server.start_raw("hold"):
            wait_until(lambda: self.upstream.active, "the request")
            status, _, body = server.generate()
            self.assertEqual((status, json.loads(body)["error"]),
                             (503, "kuno: another request is at work, and none may wait for it"))
            self.upstream.release()

    def test_leaving(self):
        """who_leaves_the_line_is_never_sent"""
        server = self.serve()
        with server.start_raw("hold"):
            wait_until(lambda: self.upstream.active, "the request")
            with server.start_raw(target="/api/generate?left"):
                wait_until(lambda: server.admission()["queued"] == 1, "one in line")
            wait_until(lambda: server.admission()["queued"] == 0, "an empty line")
            self.upstream.release()
        server.wait_idle()
        self.assertEqual(server.generate()[0], 200)
        self.assertEqual(self.upstream.worked(), ["/api/generate"] * 2)

    def test_pause(self):
        """pausing_refuses_who_comes"""
        server = self.serve()
        self.assertEqual(server.own("POST", "admission/pause")[1]["state"], "paused")
        for target, words in (("/api/chat", {"error": "kuno: admission is paused"}),
                              ("/v1/messages", {"type": "error", "error": {"type": "overloaded_error",
                                                                          "message": "kuno: admission is paused"}})):
            status, headers, body = server.ask("POST", target, {})
            document = json.loads(body)
            document.pop("request_id", None)
            self.assertEqual((status, headers["Retry-After"], document), (503, "5", words))
        self.assertEqual(server.ask("GET", "/api/tags")[0], 200)
        self.assertEqual(server.own("POST", "admission/resume")[1]["state"], "open")
        self.assertEqual(server.generate()[0], 200)

    def test_pause_line(self):
        """who_waits_already_keeps_the_place_through_a_pause"""
        server = self.serve()
        with server.start_raw("hold"):
            wait_until(lambda: self.upstream.active, "the request")
            waits = [self.in_background(server.ask, "POST", "/api/generate?n=0", {"model": "tiny", "prompt": "x"})]
            wait_until(lambda: server.admission()["queued"] == 1, "one in line")
            waits.append(self.in_background(server.ask, "POST", "/api/generate?n=1", {"model": "tiny", "prompt": "x"}))
            wait_until(lambda: server.admission()["queued"] == 2, "two in line")
            server.own("POST", "admission/pause")
            self.assertEqual(server.generate()[0], 503)
            self.upstream.release()
        server.wait_idle()
        self.assertEqual((server.admission()["queued"], len(self.upstream.worked())), (2, 1))
        self.assertEqual(server.own("POST", "admission/resume")[0], 200)
        self.assertEqual([one()[0] for one in waits], [200, 200])
        self.assertEqual(self.upstream.worked()[1:], ["/api/generate?n=0", "/api/generate?n=1"])

    def test_pause_time(self):
        """but_no_longer_than_anybody_waits"""
        server = self.serve(queue_timeout_ms=2000)
        with server.start_raw("hold"):
            wait_until(lambda: self.upstream.active, "the request")
            waits = self.in_background(server.generate)
            wait_until(lambda: server.admission()["queued"] == 1, "one in line")
            server.own("POST", "admission/pause")
            status, _, body = waits()
            self.assertEqual((status, json.loads(body)["error"]),
                             (503, "kuno: the request has waited too long for its turn"))
            self.upstream.release()

    def test_pause_waits(self):
        """pausing_can_wait_for_the_work_to_end"""
        server = self.serve()
        with server.start_raw("hold"):
            wait_until(lambda: self.upstream.active, "the request")
            self.assertTrue(server.own("POST", "admission/pause", {"wait_ms": 100, "reason": "lunch"})[1]["active"])
            paused = self.in_background(server.own, "POST", "admission/pause", {"wait_ms": 60000})
            self.assertTrue(server.admission()["active"])
            self.upstream.release()
            self.assertFalse(paused()[1]["active"])


class Slow(Case):
    """Whoever has the turn and keeps everybody waiting by sending or taking next to nothing."""
    HURRY = {"client_wait_ms": 600, "client_min_rate": 1000}
    HEAD = b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n"

    def trickle(self, s, piece, seconds=PATIENCE):
        """Sends a piece ten times a second until the server has had enough; returns what it says."""
        end = time.monotonic() + seconds
        with contextlib.suppress(OSError):
            while time.monotonic() < end and not select.select([s], [], [], 0.1)[0]:
                s.sendall(piece)
        s.settimeout(PATIENCE)
        return s.recv(65536)

    def check_turn(self, server):
        """Somebody else gets it, and nothing is uncertain."""
        self.assertEqual(server.generate()[0], 200)
        server.wait_idle()
        self.assertFalse(server.admission()["recovery_required"])

    def test_trickle(self):
        """an_upload_that_trickles_loses_its_turn"""
        server = self.serve(**self.HURRY)
        with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
            s.sendall(self.HEAD % b"/api/generate")
            wait_until(lambda: server.admission()["active"], "its turn")
            waits = self.in_background(server.generate)
            answer = self.trickle(s, b" ")
            self.assertIn(b"HTTP/1.1 408 ", answer)
            self.assertIn(b"kuno: the request did not arrive in time", answer)
            self.assertEqual(waits()[0], 200)
        self.check_turn(server)

    def test_hasty(self):
        """one_that_is_worked_on_although_its_end_is_missing_lets_nobody_in_behind_it"""
        for leaves in True, False:
            server = self.serve(**self.HURRY)
            with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
                s.sendall(b"POST /api/generate HTTP/1.1\r\nHost: h\r\nX-Stub: hasty\r\n"
                          b"Transfer-Encoding: chunked\r\n\r\n10\r\n{\"model\":\"tiny\"}\r\n")
                wait_until(lambda: "/api/generate" in self.upstream.begun, "its turn")
                if not leaves:
                    self.assertIn(b"HTTP/1.1 408 ", s.recv(65536))
            wait_until(lambda: server.admission()["recovery_required"], "the doubt")
            self.assertTrue(server.marker())
            self.assertEqual(server.generate()[0], 503)
            server.wait_said("the end of a request is not certain (cut)")
            server.stop()
            (server.state / "upstream-in-flight").unlink()
            self.upstream.begun.clear()

    def test_whole_upload(self):
        """nor_is_anything_in_doubt_where_a_file_was_there_already"""
        server = self.serve(**self.HURRY)
        with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
            s.sendall(b"POST /api/blobs/sha256:%s HTTP/1.1\r\nHost: h\r\nX-Stub: hasty\r\n"
                      b"Content-Length: 1000\r\n\r\nx" % (b"a" * 64))
            wait_until(lambda: any("blobs" in path for path in self.upstream.begun), "its turn")
        self.check_turn(server)

    def test_silent_upload(self):
        """so_does_one_that_does_not_come"""
        server = self.serve(**self.HURRY)
        with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
            s.sendall(self.HEAD % b"/api/create")
            self.assertIn(b"HTTP/1.1 408 ", s.recv(65536))
        self.check_turn(server)

    def test_endless(self):
        """so_does_one_that_is_fast_enough_and_has_no_end_unless_it_is_a_models_file"""
        server = self.serve(client_wait_ms=10000, client_min_rate=1000, client_wait_max_ms=1500)
        with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
            s.sendall(self.HEAD % b"/api/generate")
            self.assertIn(b"HTTP/1.1 408 ", self.trickle(s, bytes(1000)))
        with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
            s.sendall(self.HEAD % (b"/api/blobs/sha256:" + b"0" * 64))
            for _ in range(30):  # three seconds, twice as long as others have
                s.sendall(bytes(1000))
                self.assertEqual(select.select([s], [], [], 0.1)[0], [])
            s.sendall(bytes(70000))
            s.settimeout(PATIENCE)
            self.assertIn(b"HTTP/1.1 200 ", s.recv(65536))
        self.check_turn(server)

    def test_reader(self):
        """a_client_that_hardly_takes_its_answer_loses_its_turn"""
        server = self.serve(**self.HURRY)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(PATIENCE)
            s.connect(("127.0.0.1", server.listen))
            s.sendall(b"GET /api/generate HTTP/1.1\r\nHost: h\r\nX-Stub: bulk=64\r\n\r\n")
            wait_until(lambda: self.upstream.active, "its turn")
            waits = self.in_background(server.generate)
            end = time.monotonic() + PATIENCE
            with contextlib.suppress(OSError):
                while s.recv(10) and len(self.upstream.worked()) < 2 and time.monotonic() < end:
                    time.sleep(0.05)
            self.assertEqual(waits()[0], 200)
        self.check_turn(server)

    def test_steady_reader(self):
        """one_that_takes_it_slowly_and_steadily_does_not_until_it_stops"""
        server = self.serve(client_wait_ms=4000, client_min_rate=1000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(PATIENCE)
            s.connect(("127.0.0.1", server.listen))
            s.sendall(b"GET /api/generate HTTP/1.1\r\nHost: h\r\nX-Stub: bulk=64\r\n\r\n")
            wait_until(lambda: self.upstream.active, "its turn")
            waits = self.in_background(server.generate)
            end = time.monotonic() + 9
            while time.monotonic() < end:  # far less than what lies in between
                self.assertTrue(s.recv(4096))
                time.sleep(0.05)
            self.assertEqual(len(self.upstream.worked()), 1)
            self.assertEqual(waits()[0], 200)
        self.check_turn(server)

    def test_slow_answer(self):
        """an_answer_that_is_made_slowly_is_no_slow_client"""
        server = self.serve(**self.HURRY)
        status, _, body = server.generate("lines=4 gap=0.8")
        self.assertEqual((status, body.count(b"line")), (200, 4))

    def test_waiting(self):
        """nor_is_one_that_waits_for_its_turn"""
        server = self.serve(client_wait_ms=2500)
        with server.start_raw("hold"):
            wait_until(lambda: self.upstream.active, "the request")
            with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
                s.sendall(b"POST /api/generate HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n")
                wait_until(lambda: server.admission()["queued"] == 1, "one in line")
                time.sleep(3)
                self.upstream.release()
                wait_until(lambda: not server.admission()["queued"], "its turn")
                s.sendall(b"{}")
                self.assertIn(b"HTTP/1.1 200 ", s.recv(65536))


class Network(Case):
    """On an address that other machines reach."""

    def test_names(self):
        """clients_use_whatever_name_they_have_for_it_and_the_upstream_sees_its_own"""
        server = self.serve(listen=f"0.0.0.0:{self.ports[1]}")
        page = {"Origin": "http://ai.example.org:11434"}
        for host in "ai.example.org", f"192.0.2.7:{self.ports[1]}", "server", "[2001:db8::1]:11434":
            self.upstream.heads.clear()
            self.assertEqual(server.generate(headers={"Host": host, **page})[0], 200)
            self.assertEqual(server.ask("GET", "/v1/models", headers={"Host": host, **page})[0], 200)
            seen = [dict(fields) for line, fields in self.upstream.heads if "/api/generate" in line or "/v1/" in line]
            self.assertEqual([(one["Host"], one["Origin"]) for one in seen],
                             2 * [(f"127.0.0.1:{self.ports[0]}", page["Origin"])], host)

    def test_pages(self):
        """so_a_page_at_a_name_that_leads_here_is_as_foreign_to_the_upstream_as_any"""
        server = self.serve(listen=f"0.0.0.0:{self.ports[1]}")
        self.upstream.foreign = ("http://evil.example:11434",)
        rebound = {"Host": "evil.example:11434", "Origin": "http://evil.example:11434"}
        self.assertEqual(server.ask("POST", "/api/show", {"model": "tiny"}, headers=rebound)[0], 403)


class Leaving(Case):
    def test_stream(self):
        """an_answer_whose_client_has_left_is_drained_and_its_turn_kept"""
        server = self.serve()
        with server.start_raw("lines=8 pause=4") as s:
            s.recv(1)
        time.sleep(0.1)
        self.assertTrue(server.admission()["active"])
        self.assertTrue(server.marker())
        self.upstream.release()
        server.wait_idle()
        self.assertEqual((self.upstream.gone, server.admission()["recovery_required"], server.marker()),
                         (0, False, False))

    def test_before_headers(self):
        """so_is_one_that_had_not_begun"""
        server = self.serve()
        with server.start_raw("hold"):
            wait_until(lambda: self.upstream.active, "the request")
        time.sleep(0.1)
        self.assertTrue(server.admission()["active"])
        self.upstream.release()
        server.wait_idle()
        self.assertFalse(server.admission()["recovery_required"])

    def test_drain_time(self):
        """draining_has_a_total_deadline_and_then_needs_recovery"""
        server = self.serve(stream_idle_timeout_ms=700)
        with server.start_raw("lines=1000 gap=0.1") as s:  # never silent for long, but longer than that in all
            s.recv(1)
        wait_until(lambda: server.admission()["recovery_required"], "recovery")
        wait_until(lambda: self.upstream.gone, "the end of the connection, long before that of the answer")
        self.check_recovery(server)

    def test_stall(self):
        """an_answer_that_stalls_needs_recovery"""
        server = self.serve(stream_idle_timeout_ms=400)
        with server.start_raw("lines=3 stall=1") as s:
            while s.recv(4096):
                pass
        self.check_recovery(server)

    def test_late_head(self):
        """an_answer_that_does_not_begin_is_504_and_needs_recovery"""
        server = self.serve(header_timeout_ms=300)
        status, _, body = server.generate("hold")
        self.assertEqual((status, json.loads(body)["error"]), (504, "kuno: the upstream did not answer in time"))
        self.check_recovery(server)

    def test_cut(self):
        """an_answer_that_breaks_off_needs_recovery_and_does_not_look_complete"""
        server = self.serve()
        with server.start_raw("lines=3 cut=2") as s, s.makefile("rb") as stream:
            self.assertFalse(stream.read().endswith(b"0\r\n\r\n"))
        self.check_recovery(server)

    def test_drop(self):
        """so_does_an_upstream_that_hangs_up"""
        server = self.serve()
        self.assertEqual(server.generate("drop")[0], 502)
        self.assertEqual(len(self.upstream.worked()), 1)  # and nothing is sent twice
        self.check_recovery(server)

    def test_upload(self):
        """an_upload_that_breaks_off_leaves_nothing_running"""
        server = self.serve()
        with socket.create_connection(("127.0.0.1", server.listen), PATIENCE) as s:
            s.sendall(b"POST /api/generate HTTP/1.1\r\nHost: h\r\nX-Stub: status=400\r\nContent-Length: 100\r\n\r\n{")
            wait_until(lambda: server.admission()["active"], "the request")
        server.wait_idle()
        self.assertFalse(server.admission()["recovery_required"])

    def check_recovery(self, server):
        wait_until(lambda: server.admission()["recovery_required"], "recovery")
        self.assertTrue(server.marker())
        status, headers, body = server.generate()
        self.assertEqual((status, headers["X-Should-Retry"]), (503, "false"))
        self.assertIn("recovery is required", json.loads(body)["error"])
        self.assertEqual(server.ask("GET", "/api/tags")[0], 200)
        status, problem = server.own("POST", "admission/resume")
        self.assertEqual((status, problem["code"]), (409, "recovery_required"))
        self.assertEqual(server.stop(), 0)
        again = self.serve()  # the same boot: still not certain
        self.assertEqual(again.admission()["state"], "recovery_required")
        self.assertEqual(again.generate()[0], 503)
        again.stop()
        (again.state / "upstream-in-flight").unlink()
        self.assertEqual(self.serve().generate()[0], 200)


class Owner(Case):
    def test_guard(self):
        """only_the_owner_is_let_in"""
        server = self.serve()

        def status(**fields):
            return server.ask("GET", "/kuno/v1/status", headers=fields, port=server.control)[0]
        good = {"Authorization": f"Bearer {TOKEN}"}
        self.assertEqual(status(**good), 200)
        self.assertEqual(status(), 401)
        self.assertEqual(status(Authorization=f"Bearer {TOKEN}x"), 401)
        self.assertEqual(status(Authorization=TOKEN), 401)
        self.assertEqual(status(**good, Host=f"evil.example:{server.control}"), 421)
        self.assertEqual(status(**good, Origin="https://evil.example"), 403)

    def test_status(self):
        """the_status_tells_what_there_is"""
        status = self.serve().own("GET", "status")[1]
        self.assertEqual((status["api"], status["mode"], status["upstream"]["version"]),
                         ("kuno/v1", "gateway", "0.0.0-stub"))
        self.assertRegex(status["started_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertFalse(status["capabilities"]["gpu_placement_guarantee"])
        self.assertEqual(status["admission"]["active_kind"], None)

    def test_resources(self):
        """resources_tell_the_machine_and_what_is_loaded"""
        seen = self.serve().own("GET", "resources")[1]
        self.assertGreater(seen["host"]["memory_total_bytes"], 1 << 20)
        self.assertEqual([(m["model"], m["class"], m["worker"]) for m in seen["residency"]],
                         [("tiny:latest", "gpu", None)])

    def test_resources_alone(self):
        """resources_without_an_upstream_say_so"""
        server = self.serve()
        self.upstream.close()
        seen = server.own("GET", "resources")[1]
        self.assertIn({"probe": "upstream-ps", "code": "unreachable", "pci_address": None}, seen["errors"])

    def test_bad_pause(self):
        """bodies_that_are_not_as_they_should_be_are_refused_with_their_place"""
        server = self.serve()
        for body, status, code, pointer in (("{", 400, "json_invalid", None),
                                            ("[]", 422, "member_invalid", ""),
                                            ('{"wait_ms": 60001}', 422, "member_invalid", "/wait_ms"),
                                            ('{"wait_ms": "1"}', 422, "member_invalid", "/wait_ms"),
                                            ('{"reason": 1}', 422, "member_invalid", "/reason"),
                                            ('{"x": 1}', 422, "member_invalid", "/x"),
                                            ('{"wait_ms": 1, "wait_ms": 1}', 422, "member_invalid", "/wait_ms")):
            got, problem = server.own("POST", "admission/pause", body)
            self.assertEqual((got, problem["code"]), (status, code), body)
            self.assertEqual(problem["errors"][0]["pointer"] if "errors" in problem else None, pointer, body)
        self.assertEqual(server.admission()["state"], "open")

    def test_methods(self):
        """other_methods_and_paths_are_refused"""
        server = self.serve()
        self.assertEqual(server.own("POST", "status", {})[0], 405)
        self.assertEqual(server.own("GET", "admission/pause")[0], 405)
        self.assertEqual(server.own("GET", "nothing")[0], 404)
        self.assertEqual(server.own("GET", "learning"), (200, {"workers": []}))


class Life(Case):
    def test_drain(self):
        """a_signal_lets_work_finish_and_takes_no_more"""
        server = self.serve()
        with server.start_raw("hold") as s:
            wait_until(lambda: self.upstream.active, "the request")
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not server.accepts(server.listen), "a closed door")
            self.assertEqual(server.admission()["state"], "draining")
            self.upstream.release()
            with s.makefile("rb") as stream:
                self.assertTrue(stream.read().endswith(b"0\r\n\r\n"))
        self.assertEqual(server.process.wait(PATIENCE), 0)
        self.assertFalse(server.marker())

    def test_twice(self):
        """a_second_signal_ends_it_at_once_and_keeps_the_marker"""
        server = self.serve()
        with server.start_raw("hold"):
            wait_until(lambda: self.upstream.active, "the request")
            server.process.send_signal(signal.SIGINT)
            wait_until(lambda: not server.accepts(server.listen), "a closed door")
            self.assertEqual(server.stop(signal.SIGINT, 20), 0)  # what drains may take 30
        self.assertTrue(server.marker())

    def test_idle(self):
        """an_idle_server_stops_at_once"""
        server = self.serve()
        self.assertEqual(server.stop(seconds=25), 0)  # what drains may take 30

    def refused(self, server, *words):
        self.assertEqual(server.process.wait(PATIENCE), 1 if "cannot listen" in words[0] else 2)
        text = server.text().splitlines()[-1]
        for word in words:
            self.assertIn(word, text)

    def test_port(self):
        """a_port_in_use_is_told_with_its_address_and_its_owner_before_anything_is_begun"""
        command = pathlib.Path("/proc/self/comm").read_text(encoding="utf-8").strip()
        studio = free_ports(1)[0]
        for port in (*self.ports[1:], studio):
            with socket.create_server(("127.0.0.1", port)):
                server = Server(self, studio={"listen": f"127.0.0.1:{studio}"})
                self.refused(server, f"cannot listen on 127.0.0.1:{port}: Address already in use; ",
                             f"; '{command}' (process {os.getpid()}) listens there")
                self.assertFalse((server.state / "studio").exists())
                self.assertNotIn("clients of Ollama at", server.text())

    def test_lock(self):
        """one_process_uses_a_state_directory"""
        self.serve()
        self.ports[1:] = free_ports(2)
        self.refused(Server(self), "is in use by another kuno")

    def test_no_token(self):
        """a_configured_server_needs_a_token"""
        (self.folder / "config.json").write_text(json.dumps({"state_dir": str(self.folder / "state")}))
        told = subprocess.run([PROGRAM, "serve", "--config", "config.json"], cwd=self.folder, capture_output=True,
                              text=True, env={}, check=False, timeout=PATIENCE)
        self.assertEqual(told.returncode, 2)
        self.assertIn("control token: there is none; set KUNO_CONTROL_TOKEN", told.stderr)
        self.assertFalse((self.folder / "state").exists())


if __name__ == "__main__":
    tap.main()
