"""A server of files that does what it should, or what servers do.

`Server(name, behave)` serves one file of files.py, `more` others beside it. For each request `behave(request, reply)`
may change the reply that is right: its status, its lines, what follows, how fast, and when it breaks off. Every request
is kept in `requests`.
"""

import socket
import struct
import threading
import time

import files

REASONS = {200: "OK", 206: "Partial Content", 302: "Found", 404: "Not Found", 416: "Range Not Satisfiable"}
SLICE = 64 << 10


class Request:
    def __init__(self, number, head):
        lines = head.decode("latin-1").split("\r\n")
        self.number = number
        self.method, self.path, _ = lines[0].split(" ")
        self.fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
        self.first = self.last = None
        if self.fields.get("range", "").startswith("bytes="):
            first, _, last = self.fields["range"][6:].partition("-")
            self.first, self.last = int(first), int(last) if last else None


class Reply:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body
        self.cut = self.stall = self.reset = None  # after so many bytes of the body
        self.bytes_per_second = None
        self.delay = 0


class Server:
    def __init__(self, name, behave=None, etag='"first"', ranges=True, more=()):
        self.content, self.behave, self.etag, self.ranges = files.content(name), behave, etag, ranges
        self.contents = {files.file_name(one): files.content(one) for one in (name, *more)}
        self.requests, self.sent, self.connections = [], 0, 0
        self.lock, self.over = threading.Lock(), threading.Event()
        self.hurry = threading.Event()  # from then on nothing is sent slowly any more
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.hurry.set()
        self.listener.close()

    def asked_bytes(self, since=0):
        """How much of the file the requests from that one on were about."""
        ranges = sorted((r.first or 0, (r.last or len(self.content) - 1) + 1) for r in self.requests[since:])
        total = at = 0
        for first, end in ranges:
            total += max(0, end - max(first, at))
            at = max(at, end)
        return total

    def right_reply(self, request):
        content = self.contents.get(request.path.rpartition("/")[2])
        if content is None:
            return Reply(404, {}, b"there is no such file")
        size, first, last = len(content), request.first, request.last
        fields = {"ETag": self.etag} if self.etag else {}
        asks_part = first is not None and self.ranges
        if asks_part and request.fields.get("if-range", self.etag) == self.etag:
            last = size - 1 if last is None else min(last, size - 1)
            if first >= size:
                return Reply(416, {"Content-Range": f"bytes */{size}"}, b"")
            fields["Content-Range"] = f"bytes {first}-{last}/{size}"
            return Reply(206, fields, memoryview(content)[first:last + 1])
        return Reply(200, fields, memoryview(content))

    def _accept(self):
        while not self.over.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffered = b""
        try:
            while not self.over.is_set():
                while b"\r\n\r\n" not in buffered:
                    more = connection.recv(8192)
                    if not more:
                        return
                    buffered += more
                head, _, buffered = buffered.partition(b"\r\n\r\n")
                with self.lock:
                    request = Request(len(self.requests), head)
                    self.requests.append(request)
                reply = self.right_reply(request)
                if self.behave:
                    self.behave(request, reply)
                if not self._send(connection, reply):
                    return
        except (ConnectionError, BrokenPipeError):
            pass
        finally:
            connection.close()

    def _send(self, connection, reply):
        """False: the connection is over."""
        if self.over.wait(reply.delay):
            return False
        fields = {"Content-Length": str(len(reply.body)), **reply.fields}
        lines = [f"HTTP/1.1 {reply.status} {REASONS.get(reply.status, 'So')}"]
        lines += [f"{name}: {value}" for name, value in fields.items() if value is not None]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        ends = [n for n in (reply.cut, reply.stall, reply.reset) if n is not None]
        end, at, begun = min([len(reply.body), *ends]), 0, time.monotonic()
        while at < end:
            data = reply.body[at:min(at + SLICE, end)]
            connection.sendall(data)
            at += len(data)
            with self.lock:
                self.sent += len(data)
            if reply.bytes_per_second:
                self.hurry.wait(max(0.0, begun + at / reply.bytes_per_second - time.monotonic()))
            if self.over.is_set():
                return False
        if reply.stall is not None:
            self.over.wait(60)
        if reply.reset is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return not ends
