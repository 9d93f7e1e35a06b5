#!/usr/bin/env python3
"""A stand-in for `ollama serve` as a worker. What it is to do it reads from stub.json in its HOME, since its
environment is all the server's; what it has done it appends to stub.log there, one line each.

    models      {name: digest}
    devices     lines that it tells of its devices, without their beginning
    bytes       what a load takes
    vram        how much of a load is on the card (1, 0.5, 0)
    fail        {name: "memory" | "error" | "exit" | "hang" | "other"}: what comes of loading that model
    fail_beside the same, only while something else is loaded
    card        [file, PCI address]: loads are added to what that card has in use in this file (tests/gpu/scenario.h)
    leak        bytes that stay in use there after a load has failed
    dark        a line that is added to this file then
    cut         end in the middle of the answer of a request
    ps          "broken": what is loaded is told as what is no JSON
    words       what a load that ends in an "error" is refused with
    loud        what it is sent it writes down, and to its output
    work        how many seconds it is at work; then it notes from when to when it was
    stubborn    SIGTERM is ignored
    start       "exit" | "silent": instead of starting"""

import fcntl
import http.server
import json
import os
import pathlib
import re
import signal
import socketserver
import subprocess
import sys
import threading
import time

HOME = pathlib.Path(os.environ["HOME"])
PORT = int(os.environ["OLLAMA_HOST"].rsplit(":", 1)[1])
CONTEXT = int(os.environ["OLLAMA_CONTEXT_LENGTH"])
DECODER = json.JSONDecoder(  # the first value alone, and null says nothing
    object_pairs_hook=lambda pairs: {key.lower(): value for key, value in pairs if value is not None})
loaded = {}  # digest: (name, context)


def setup():
    return json.loads((HOME / "stub.json").read_text())


def note(*words):
    with (HOME / "stub.log").open("a") as log:
        print(*words, file=log)


def tell(message, rest=""):
    print(f'time=2026-01-01T00:00:00.000Z level=INFO source=stub.py:1 msg="{message}"{rest}', file=sys.stderr,
          flush=True)


def use_card(s, amount):
    """More is in use on the card, or less."""
    if "card" not in s:
        return
    path, place = s["card"]
    with open(path + ".lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = pathlib.Path(path).read_text()
        text = re.sub(rf"(pci={place} .*used=)(\d+)", lambda m: m[1] + str(int(m[2]) + amount), text)
        pathlib.Path(path + ".new").write_text(text)
        os.rename(path + ".new", path)


def leave(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one comes for every thread of the server that dies
    s = setup()
    use_card(s, -len(loaded) * s.get("bytes", 1000))
    os._exit(0)


def full(name):
    return name if ":" in name else name + ":latest"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format, *args):
        pass

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def is_strange(self):
        """True: this has answered, as an Ollama on a loopback address does by its usual rules."""
        strange = "Origin" in self.headers or self.headers["Host"] != f"127.0.0.1:{PORT}"
        if strange:
            self.close_connection = True
            self.answer(403, "")
        return strange

    def do_GET(self):
        s = setup()
        if self.is_strange():
            return
        if self.path == "/api/version":
            self.answer(200, {"version": "0.0.0-stub"})
        elif self.path == "/api/ps":
            models = [{"name": name, "model": name, "digest": s.get("digests", s["models"])[name],
                       "size": s.get("bytes", 1000), "size_vram": int(s.get("bytes", 1000) * s.get("vram", 0)),
                       "expires_at": "2300-01-01T00:00:00Z", "context_length": context}
                      for name, context in loaded.values()]
            self.answer(200, "broken" if s.get("ps") else {"models": models})
        else:
            self.answer(404, {"error": "not found"})

    def load(self, s, name, context):
        """True: it is loaded; else this has answered."""
        digest = s["models"][name]
        if digest in loaded and loaded[digest][1] == context:
            return True
        beside = s.get("fail_beside", {}).get(name) if set(loaded) - {digest} else None
        how = s.get("fail", {}).get(name) or beside
        note("load", name, context, how or "well")
        if how:
            use_card(s, s.get("leak", 0))
        if how and "dark" in s:
            with open(s["card"][0], "a") as file:
                print(s["dark"], file=file)
        if how == "memory":
            self.answer(500, {"error": "model requires more system memory (9.9 GiB) than is available"})
        elif how == "error":
            self.answer(500, {"error": s.get("words", "secret words of a runner")})
        elif how == "exit":
            os._exit(3)
        elif how == "hang":
            time.sleep(600)
        else:
            if digest not in loaded:
                use_card(s, s.get("bytes", 1000))
            loaded[digest] = name, context + 1 if how == "other" else context
            return True
        return False

    def do_POST(self):
        s = setup()
        if self.is_strange():
            return
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if s.get("loud"):
            note("heard", self.path, self.headers, body)
            print(self.path, self.headers, body, flush=True)
            tell("request", f' body="{body}"')
        q, _ = DECODER.raw_decode(body)
        name, given = full(q["model"]), q.get("prompt") or q.get("messages") or q.get("input")
        if name not in s["models"]:
            self.answer(404, {"error": "model not found"})
            return
        if not given and q.get("keep_alive") == 0:
            note("unload", name)
            if loaded.pop(s["models"][name], None):
                use_card(s, -s.get("bytes", 1000))
            self.answer(200, {"done_reason": "unload"})
            return
        native = self.path.startswith("/api/")
        context = (q.get("options") or {}).get("num_ctx", CONTEXT) if native else CONTEXT
        if not self.load(s, name, context):
            return
        if not given:
            self.answer(200, {"done_reason": "load"})
            return
        note("use", self.path, name)
        if "work" in s:
            begun = time.monotonic()
            time.sleep(s["work"])
            note("span", begun, time.monotonic())
        if s.get("cut"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"5\r\nhello\r\n")
            if s["cut"] == "exit":
                os._exit(3)
            if s["cut"] == "hang":
                time.sleep(600)
            self.close_connection = True
            return
        self.answer(200, {"worker": PORT, "path": self.path, "model": q["model"], "done": True})


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        pass


def main():
    s = setup()
    note("start", os.getpid(), " ".join(sorted(name for name in os.environ)))
    if s.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, leave)
    if s.get("start") == "exit":
        sys.exit(1)
    if s.get("runner"):  # what it leaves behind if it is killed
        subprocess.Popen(["sleep", "600"])
    server = Server(("127.0.0.1", PORT), Handler)
    print("some line of a log", flush=True)
    if s.get("start") == "silent":
        time.sleep(600)
    tell(f"Listening on 127.0.0.1:{PORT} (version 0.0.0-stub)")
    for device in s["devices"]:
        tell("inference compute", " " + device)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:  # and not signal.pause(), which sleeps through a signal that another thread has got
        time.sleep(0.05)


main()
