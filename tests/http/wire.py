"""Bytes over sockets, for tests that must see every one of them: a recording upstream, the server under test, clients.

Everything is on 127.0.0.1. One Bench is a server with its upstream; a test says with `bench.up.answers(…)` what the
upstream does with the next requests, sends raw bytes with `bench.ask(…)` or over a `bench.connect()`, and looks at what
both sides got.

The server is the small one of server.c, or `kuno serve` itself where KUNO names the program: what the tests of a Case
promise holds for both.
"""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

TOKEN = "0123456789abcdefghijABCDEFGHIJ-_."
PATIENCE = 20  # seconds; whatever takes so long does not come
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Hangup(Exception):
    """The upstream closes this connection now."""


def more(connection):
    data = connection.recv(65536)
    if not data:
        raise Hangup
    return data


def body_of(connection, head, buffered):
    """One framed request body: (body, what came behind it)."""
    if re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
        body = b""
        while True:
            while b"\r\n" not in buffered:
                buffered += more(connection)
            line, buffered = buffered.split(b"\r\n", 1)
            size = int(line, 16)
            while len(buffered) < size + 2:
                buffered += more(connection)
            chunk, buffered = buffered[:size], buffered[size + 2 :]
            if not size:
                return body, buffered
            body += chunk
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    size = int(length[1]) if length else 0
    while len(buffered) < size:
        buffered += more(connection)
    return buffered[:size], buffered[size:]


class Upstream:
    """Records heads and bodies; what it answers is a function of (upstream, connection, head, bytes behind the head),
    which returns the bytes that it has not used."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.socket.getsockname()[1]
        self.answers(answer(OK))
        threading.Thread(target=self.accept, daemon=True).start()

    def answers(self, handler):
        self.handler = handler
        self.heads, self.bodies, self.connections = [], [], 0
        self.came, self.event, self.when, self.count = threading.Event(), threading.Event(), 0.0, 0
        self.more = threading.Semaphore(0)  # what a handler may send that sends on demand

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        connection.settimeout(PATIENCE)
        buffered = b""
        try:
            while True:
                while b"\r\n\r\n" not in buffered:
                    buffered += more(connection)
                head, buffered = buffered.split(b"\r\n\r\n", 1)
                if head.startswith(b"GET /api/version ") and b"\r\nAccept: application/json" in head:
                    self.connections -= 1  # `kuno serve` looks whether there is an Ollama
                    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"version":"0"}')
                    continue
                self.heads.append(head)
                self.came.set()
                buffered = self.handler(self, connection, head, buffered)
        except (OSError, Hangup, ValueError):
            connection.close()

    def tell(self):
        """Something has happened that a test waits for."""
        self.when = time.monotonic()
        self.event.set()


def answer(raw):
    """An upstream that reads the request's body, then answers these bytes."""

    def handler(upstream, connection, head, buffered):
        body, rest = body_of(connection, head, buffered)
        upstream.bodies.append(body)
        connection.sendall(raw)
        return rest

    return handler


def answer_and_close(raw, wait=0.0):
    """One that answers at once, whatever is still to come, and closes."""

    def handler(_upstream, connection, _head, _buffered):
        connection.sendall(raw)
        time.sleep(wait)
        raise Hangup

    return handler


LINES = [*(b'8\r\n{"i":%d}\n\r\n' % i for i in range(5)), b"0\r\n\r\n"]


def stream_lines(_upstream, connection, _head, buffered):
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for line in LINES:
        connection.sendall(line)
        time.sleep(0.2)
    return buffered


def stream_on_demand(upstream, connection, _head, buffered):
    """The same, each line when the test says `more.release()`."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for line in LINES:
        upstream.more.acquire(timeout=PATIENCE)
        connection.sendall(line)
    return buffered


def stream_for_ever(upstream, connection, _head, _buffered):
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(300):
            connection.sendall(b"1\r\nx\r\n")
            time.sleep(0.02)
    except OSError:
        upstream.tell()
    raise Hangup


def is_whole(data):
    """Whether a complete final answer is there."""
    if b"\r\n\r\n" not in data:
        return False
    head, body = data.split(b"\r\n\r\n", 1)
    if re.match(rb"HTTP/1.1 1\d\d", head):
        return is_whole(body)
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    if length:
        return len(body) >= int(length[1])
    return bool(re.search(rb"(?i)transfer-encoding: *chunked", head)) and body.endswith(b"0\r\n\r\n")


def has_head(data):
    return b"\r\n\r\n" in data


def receive(connection, seconds=PATIENCE, until=None):
    """(what came, whether the other side closed), until a condition holds or the time is over."""
    data, end = b"", time.monotonic() + seconds
    try:
        while (left := end - time.monotonic()) > 0:
            connection.settimeout(left)
            piece = connection.recv(65536)
            if not piece:
                return data, True
            data += piece
            if until and until(data):
                break
    except socket.timeout:
        pass
    except OSError:
        return data, True
    return data, False


def status(data):
    match = re.match(rb"HTTP/1\.[01] (\d\d\d)", data)
    return int(match[1]) if match else 0


def field(head, name):
    """The values of all fields of this name."""
    lines = head.split(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return [line.split(b":", 1)[1].strip() for line in lines if line.lower().startswith(name.lower() + b":")]


def request(line=b"GET /x HTTP/1.1", fields=b"", body=b""):
    return line + b"\r\nHost: a\r\n" + fields + b"\r\n" + body


class Bench:
    """The small server in front of a recording upstream."""

    def __init__(self, *limits, upstream=None):
        self.up = Upstream()
        target = upstream or f"127.0.0.1:{self.up.port}"
        self.program = subprocess.Popen(
            [os.environ["HTTP_SERVER"], target, TOKEN, *limits], stdout=subprocess.PIPE, text=True
        )
        ports = re.match(r"proxy=(\d+) control=(\d+)", self.line())
        self.proxy, self.control = int(ports[1]), int(ports[2])

    def line(self):
        """The next one that it says; an empty one, if nothing comes."""
        timer = threading.Timer(PATIENCE, self.program.kill)
        timer.start()
        try:
            return self.program.stdout.readline()
        finally:
            timer.cancel()

    def close(self):
        """Ends the server and returns what it said; it must end well."""
        self.program.terminate()
        try:
            said, _ = self.program.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.program.kill()
            raise
        self.up.socket.close()
        if self.program.returncode:
            raise AssertionError(f"the server ended with {self.program.returncode}")
        return said

    def connect(self, port=None):
        return socket.create_connection(("127.0.0.1", port or self.proxy), timeout=PATIENCE)

    def ask(self, raw, until=is_whole):
        """Sends these bytes over a connection of their own: (what came, whether the server closed)."""
        with self.connect() as connection:
            try:
                connection.sendall(raw)
            except OSError:
                pass  # it may refuse before it has read all
            return receive(connection, until=until)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.program.pid}/fd"))


class Gateway(Bench):
    """`kuno serve` there. What is no metadata, as most requests of the tests are not, gets the lease first."""

    def __init__(self):
        import harness  # of tests/service
        from ports import free_ports

        self.up, self.closing = Upstream(), contextlib.ExitStack()
        self.addCleanup = self.closing.callback
        self.folder = pathlib.Path(self.closing.enter_context(tempfile.TemporaryDirectory(prefix="kuno-http-")))
        self.ports = [self.up.port, *free_ports(3)]
        _, self.proxy, self.control, self.studio = self.ports
        keys = {"studio": {"listen": f"127.0.0.1:{self.studio}"}} if STUDIO else {}
        self.server = harness.Server(self, env={"KUNO_CONTROL_TOKEN": TOKEN}, **keys).wait_ready()
        self.program = self.server.process

    def close(self):
        with self.closing:
            self.up.socket.close()
            self.program.send_signal(signal.SIGTERM)
            self.program.send_signal(signal.SIGINT)  # the second one: whatever a test has left is cut
            if self.program.wait(PATIENCE):
                raise AssertionError(f"the server ended with {self.program.returncode}: {self.server.text()}")


GATEWAY = "KUNO" in os.environ
STUDIO = "HTTP_STUDIO" in os.environ  # of that the studio's listener


class Case(unittest.TestCase):
    """Each test has a server of its own: after one whose upstream breaks off, the gateway rightly admits nobody."""

    LIMITS = ()  # of the small server

    def setUp(self):
        self.bench = Gateway() if GATEWAY else Bench(*self.LIMITS)
        self.addCleanup(self.bench.close)
