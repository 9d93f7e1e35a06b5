"""The server as its clients and its owner meet it: `kuno serve` in front of a stand-in for Ollama.

KUNO names the program. The stand-in does what a request's field X-Stub says:

    lines=N gap=S     answer with so many lines of NDJSON, so many seconds apart
    delay=S           wait before the head of the answer
    hold              wait before the head until the test says `upstream.release()`
    pause=N           do so before that line
    gate=NAME         wait before the head until the test says `upstream.gate(NAME).set()`
    cut=N             close the connection after so many lines, in the middle of the answer
    stall=N           fall silent after so many lines
    bulk=N            answer with so many MiB
    status=N          answer with this status
    drop              close the connection without an answer
    hasty             work on a body that is a whole document, although its end has not been told

and counts how many requests that are no metadata it has at work at the same time."""

import contextlib
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import findings
from ports import free_ports

PROGRAM = os.environ["KUNO"]
SANITIZED = os.environ.get("KUNO_SANITIZE", "none") != "none"
TOKEN = "0123456789abcdef-control_token.0123456789"
PATIENCE = 60  # whatever takes so long does not come


def wait_until(true, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"{what} does not come within {seconds} s")
        time.sleep(0.005)


def children_of(pid):
    """The processes that any of its threads has started."""
    found = []
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, thread.read_text().split())
    return sorted(found)


def as_user(user):
    """For subprocess: who runs the program, if not who runs the tests."""
    return {"user": user, "group": user, "extra_groups": []} if user else {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    METADATA = ("/api/tags", "/api/ps", "/api/version", "/v1/models", "/api/show", "/")
    works = False

    def log_message(self, format, *args):
        pass

    def read_body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b""
            while size := int(self.rfile.readline() or b"0", 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.is_cut = not self.rfile.readline()
            return body
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        self.is_cut = len(body) < length
        return body

    def end_headers(self):
        if self.headers.get("Origin") in self.server.stub.pages:
            self.send_header("Access-Control-Allow-Origin", self.headers["Origin"])
            self.send_header("Vary", "Origin")
        super().end_headers()

    def answer(self, status, document):
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.command == "HEAD":
            self.end_work()
            self.end_headers()
            return
        self.end_headers()
        self.wfile.write(memoryview(body)[:-1])
        self.end_work()
        self.wfile.write(body[-1:])

    def begin_work(self):
        stub = self.server.stub
        with stub.lock:
            self.works = True
            stub.active += 1
            stub.most_active = max(stub.most_active, stub.active)

    def end_work(self):
        """Once, before the last byte of an answer: the next request may come before anything more is done here."""
        with self.server.stub.lock:
            self.server.stub.active -= self.works
            self.works = False

    def do_GET(self):
        stub, path = self.server.stub, self.path.split("?")[0]
        if self.headers.get("Origin") in stub.foreign or self.headers.get("Host") in stub.foreign:
            self.read_body()
            self.answer(403, b"")
            return
        if stub.silent and path == "/api/version":
            stub.asked += 1
            stub.over.wait(PATIENCE)
            self.close_connection = True
            return
        stub.begun.append(path)
        body = self.read_body()
        if self.path != "/api/version" or "Accept" not in self.headers:  # else the server looks whether we are there
            with stub.lock:
                stub.seen.append((self.command, self.path, body))
                stub.heads.append((self.requestline, list(self.headers.items())))
        if path in self.METADATA and self.command in ("GET", "HEAD", "POST"):
            self.metadata(path)
            return
        self.begin_work()
        try:
            if path == "/api/generate" and stub.unloads:
                self.unload(json.loads(body))
                return
            words = dict(re.findall(r"(\w+)(?:=(\S+))?", self.headers.get("X-Stub", "")))
            if self.is_cut and "hasty" not in words:
                words = {"status": "400"}
            self.work(words)
        except OSError:
            stub.gone += 1
            self.close_connection = True
        finally:
            self.end_work()

    do_POST = do_DELETE = do_HEAD = do_PUT = do_OPTIONS = do_GET

    def metadata(self, path):
        stub = self.server.stub
        if self.is_cut:
            self.answer(400, {"error": stub.error_text})
            return
        models = [{"name": name, "model": name, "size": 1000, "digest": digest, "size_vram": 1000,
                   "context_length": 512, "expires_at": "2026-01-01T00:00:00.5+02:00"}
                  for name, digest in stub.models.items()]
        residents = models[:1] if stub.residents is None else stub.residents
        documents = {"/api/tags": {"models": models}, "/api/ps": {"models": residents},
                     "/api/version": stub.version}
        self.answer(200, documents.get(path, {}))

    def unload(self, request):
        self.server.stub.residents = [one for one in self.server.stub.residents if one["name"] != request["model"]]
        self.answer(200, {"done_reason": "unload"})

    def work(self, words):
        stub = self.server.stub
        if "hold" in words:
            stub.held.wait(PATIENCE)
        if "gate" in words:
            stub.gate(words["gate"]).wait(3 * PATIENCE)
        time.sleep(float(words.get("delay", 0)))
        if "drop" in words:
            raise OSError
        if "status" in words:
            self.answer(int(words["status"]), {"error": stub.error_text})
            return
        if "bulk" in words:
            self.answer(200, bytes(int(words["bulk"]) << 20))
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(int(words.get("lines", 1))):
            if words.get("cut") == str(number):
                raise OSError
            if words.get("stall") == str(number):
                stub.over.wait(PATIENCE)
                raise OSError
            if words.get("pause") == str(number):
                stub.held.wait(PATIENCE)
            line = json.dumps({"line": number}).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            time.sleep(float(words.get("gap", 0)))
        self.end_work()
        self.wfile.write(b"0\r\n\r\n")


class Upstream(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, port):
        super().__init__(("127.0.0.1", port), Handler)
        self.stub, self.lock = self, threading.Lock()
        self.begun, self.seen, self.heads, self.connections = [], [], [], []
        self.active = self.most_active = self.gone = 0
        self.held, self.over, self.gates = threading.Event(), threading.Event(), {}
        self.error_text = "the upstream's own words"
        self.residents = None  # what /api/ps lists, if not the first model
        self.version = {"version": "0.0.0-stub"}
        self.foreign = ()  # pages that it does not admit, and names
        self.pages = ()  # pages that may read its answers
        self.silent, self.asked = False, 0  # who asks for its version gets no answer, and how often
        self.unloads = False  # what it is asked to generate it unloads instead
        self.models = {name: hashlib.sha256(content).hexdigest()
                       for name, content in (("tiny:latest", b"a"), ("other:7b", b"b"), ("alias:latest", b"a"))}
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def get_request(self):
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def release(self):
        self.held.set()

    def gate(self, name):
        with self.lock:
            return self.gates.setdefault(name, threading.Event())

    def close(self):
        for one in self.over, self.held, *self.gates.values():
            one.set()
        self.shutdown()
        self.server_close()
        for connection in self.connections:  # those that are kept for further requests
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def worked(self):
        """The targets of what was no metadata."""
        return [target for method, target, _ in self.seen if target.split("?")[0] not in Handler.METADATA]


class Server:
    """`kuno serve` in the background."""

    program, user = PROGRAM, None

    def __init__(self, case, before=(), env=None, output=None, **keys):
        self.listen, self.control = case.ports[1:3]
        self.folder = case.folder
        self.state = case.folder / "state"
        config = {"listen": f"127.0.0.1:{self.listen}", "upstream": f"127.0.0.1:{case.ports[0]}",
                  "control": f"127.0.0.1:{self.control}", "state_dir": str(self.state), **keys}
        (case.folder / "config.json").write_text(json.dumps(config))
        self.log = (case.folder / "log").open("ab+")
        self.told_before = self.text().count("answer")  # by an earlier server
        kept = {name: os.environ[name] for name in os.environ if name == "PATH" or name.endswith("SAN_OPTIONS")}
        self.process = subprocess.Popen(
            [*before, self.program, "serve", "--config", "config.json"], cwd=case.folder, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=output or self.log, start_new_session=True, **as_user(self.user),
            env={**kept, "HOME": str(case.folder), "LC_ALL": "C.UTF-8", "KUNO_CONTROL_TOKEN": TOKEN, **(env or {})})
        case.addCleanup(self.check_findings)
        case.addCleanup(self.kill)

    def wait_ready(self):
        """It listens, and has said whether there is an Ollama, which is its last word at a start."""
        def ready():
            return self.accepts(self.listen) and self.text().count("answer") > self.told_before
        wait_until(lambda: self.process.poll() is not None or ready(), "the server")
        assert self.process.poll() is None, self.text()
        return self

    @staticmethod
    def accepts(port):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0

    def text(self):
        return (self.folder / "log").read_text()

    def wait_said(self, words):
        """Its log has a thread of its own, and may come a little later than its answers."""
        wait_until(lambda: words in self.text(), words)

    def kill(self):
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def check_findings(self):
        findings.check(self.process.returncode, self.text())

    def pid(self):
        """The server's own, also below a program that runs it."""
        if self.process.args[0] == self.program:
            return self.process.pid
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(children.split()[0])

    def stop(self, number=signal.SIGTERM, seconds=PATIENCE):
        os.kill(self.pid(), number)
        return self.process.wait(seconds)

    def connect(self, port=None):
        return http.client.HTTPConnection("127.0.0.1", port or self.listen, timeout=PATIENCE)

    def ask(self, method, target, body=None, stub=None, headers=None, port=None):
        """One request on a connection of its own: (status, headers, body)."""
        connection = self.connect(port)
        fields = {**({"X-Stub": stub} if stub else {}), **(headers or {})}
        try:
            connection.request(method, target, json.dumps(body) if isinstance(body, dict) else body, fields)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def generate(self, stub=None, model="tiny", prompt="hello", **more):
        return self.ask("POST", "/api/generate", {"model": model, "prompt": prompt}, stub, **more)

    def own(self, method, route, body=None, headers=None):
        """The owner asks: (status, document)."""
        media = {"Content-Type": "application/json"} if body is not None else {}
        fields = {"Authorization": f"Bearer {TOKEN}", **media, **(headers or {})}
        status, _, text = self.ask(method, f"/kuno/v1/{route}", body, None, fields, self.control)
        return status, json.loads(text)

    def admission(self):
        return self.own("GET", "status")[1]["admission"]

    def wait_idle(self):
        wait_until(lambda: not self.admission()["active"], "an idle gateway")

    def clients(self):
        """How many connections of Ollama's clients it has open."""
        address, listens = f"0100007F:{self.listen:04X}", "0A"
        lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
        return sum(local == address and state != listens and inode != "0" for local, state, inode in
                   ((fields[1], fields[3], fields[9]) for fields in map(str.split, lines)))

    def marker(self):
        return (self.state / "upstream-in-flight").exists()

    def start_raw(self, stub="", body=b'{"model":"tiny","prompt":"hello"}', target="/api/generate"):
        """Sends a request and leaves the connection to the test."""
        s = socket.create_connection(("127.0.0.1", self.listen), PATIENCE)
        s.sendall(b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Stub: %s\r\nContent-Length: %d\r\n\r\n%s"
                  % (target.encode(), stub.encode(), len(body), body))
        return s


class Case(unittest.TestCase):
    longMessage = True
    maxDiff = 2000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kuno-service-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.ports = free_ports(3)
        self.upstream = Upstream(self.ports[0])
        self.addCleanup(self.upstream.close)

    def serve(self, **setup):
        return Server(self, **setup).wait_ready()

    def in_background(self, function, *args, **named):
        """Runs it in a thread; the returned function waits for its result, and has `is_over` to ask for it."""
        results = []
        thread = threading.Thread(target=lambda: results.append(function(*args, **named)), daemon=True)
        thread.start()

        def result():
            thread.join(PATIENCE)
            self.assertTrue(results, "no result")
            return results[0]
        result.is_over = lambda: not thread.is_alive()
        return result

    def is_answered_meanwhile(self, background, *questions):
        """More than once each is answered with 200 before what runs in the background is over."""
        rounds = 0
        while not background.is_over():
            for question in questions:
                self.assertEqual(question()[0], 200)
            rounds += not background.is_over()
        self.assertGreater(rounds, 2)  # the first may have come with its end
