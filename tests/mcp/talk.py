"""Both ends of an MCP connection as bytes: a process with lines, or requests over HTTP. KUNO names the program, the
studio behind it is the rig of tests/studio, whose prompts say what becomes of a picture."""

import contextlib
import json
import os
import socket
import subprocess
import threading
import time

from studio.rig import PATIENCE, TOKEN, Rig

PROGRAM = os.environ["KUNO"]
MODERN, LEGACY = "2026-07-28", "2025-11-25"
SPACE = "io.modelcontextprotocol/"
HANDSHAKE = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
SLOW = {"prompt": "steps=1000 ms=100"}  # nothing but being told to ends it


def envelope(version=MODERN, **more):
    return {SPACE + "protocolVersion": version, SPACE + "clientCapabilities": {}, **more}


def request(id, method, params=None):
    return {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}


def call(id, name, arguments=None, **meta):
    return request(id, "tools/call", {"name": name, "arguments": arguments or {}, **({"_meta": meta} if meta else {})})


def note(method, params=None):
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


class Studio(Rig):
    """The rig, with what `kuno mcp` needs to find it."""

    def begin(self):
        super().begin()
        self.config = os.path.join(self.folder, "config.json")
        self.token_file = os.path.join(self.folder, "control-token")
        with open(self.config, "w") as file:
            json.dump({"state_dir": self.folder, "studio": {"listen": f"127.0.0.1:{self.port}"}}, file)
        with open(os.open(self.token_file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(TOKEN + "\n")

    def states(self):
        return [job["state"] for job in self.get("/jobs")["items"]]

    def wait_for(self, state, what=any):
        end = time.monotonic() + PATIENCE
        while not what(one == state for one in self.states()):
            if time.monotonic() > end:
                raise AssertionError(f"no job becomes {state}: {self.states()}")
            time.sleep(0.01)


class Stranger:
    """A server on the studio's port that answers every request alike, and keeps what it was asked."""

    def __init__(self, port, answer, user=None):
        self.heard, self.answer = [], answer
        if user is not None:
            os.seteuid(user)  # whose the socket is
        try:
            self.listener = socket.create_server(("127.0.0.1", port))
        finally:
            if user is not None:
                os.seteuid(0)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(self.answer)
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with connection:
                    self.heard.append(connection.recv(65536))
                    connection.sendall(head + self.answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


class Lines:
    """`kuno mcp`, line by line."""

    def __init__(self, config, *options):
        own = {name: os.environ[name] for name in os.environ if name in ("PATH", "HOME") or name.endswith("_OPTIONS")}
        self.process = subprocess.Popen([PROGRAM, "mcp", "--config", config, *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own)
        self.seen, self.ended = [], False
        self.news = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.news:
                self.seen.append(json.loads(line))
                self.news.notify_all()
        with self.news:
            self.ended = True
            self.news.notify_all()

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *messages):
        self.raw(b"".join(json.dumps(one).encode() + b"\n" for one in messages))

    def wait(self, wanted):
        """The first message that is wanted, however long ago it came."""
        def found():
            return next((one for one in self.seen if wanted(one)), None)
        with self.news:
            self.news.wait_for(lambda: found() or self.ended, PATIENCE)
            if not found():
                raise AssertionError(f"it does not come, but {self.seen}")
            return found()

    def answer(self, id):
        return self.wait(lambda one: one.get("id") == id and "method" not in one)

    def ask(self, message):
        self.send(message)
        return self.answer(message["id"])

    def tool(self, id, name, arguments=None, **meta):
        return self.ask(call(id, name, arguments, **meta))["result"]

    def progress(self, token):
        return [one["params"] for one in self.seen
                if one.get("method") == "notifications/progress" and one["params"]["progressToken"] == token]

    def open(self):
        """The handshake."""
        answer = self.ask(request("open", "initialize", HANDSHAKE))
        self.send(note("notifications/initialized"))
        return answer["result"]

    def close(self):
        """Closes its input; returns its exit status and what it said besides. Once."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        said = self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        return status, said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.process.stdout.closed:
            self.process.kill()
            self.close()
