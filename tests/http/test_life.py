"""How connections live and end: keep-alive, no replays, streams, pressure, clients that leave."""

import socket
import time

import tap
from wire import GATEWAY, LINES, OK, PATIENCE, Case, Hangup, answer, answer_and_close, body_of
from wire import field, has_head, is_whole, receive, request, status, stream_for_ever, stream_on_demand


def answer_once(upstream, connection, head, buffered):
    """Answers the first request and closes under the next, after it has been read."""
    body, rest = body_of(connection, head, buffered)
    upstream.bodies.append(body)
    if len(upstream.bodies) > 1:
        raise Hangup
    connection.sendall(OK)
    return rest


def answer_expectation(upstream, connection, head, buffered):
    if field(head, b"Expect"):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    body, rest = body_of(connection, head, buffered)
    upstream.bodies.append(body)
    connection.sendall(OK)
    return rest


def say_nothing(upstream, connection, _head, _buffered):
    connection.settimeout(PATIENCE)
    while connection.recv(100):
        pass
    upstream.tell()
    raise Hangup


def flood(upstream, connection, _head, _buffered):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n")
    connection.settimeout(1.0)
    try:
        while upstream.count < 200000000:
            upstream.count += connection.send(b"y" * 65536)
    except OSError:
        pass
    upstream.tell()
    raise Hangup


def read_nothing(_upstream, _connection, _head, _buffered):
    time.sleep(3)
    raise Hangup


class Life(Case):
    def test_pipelined(self):
        """pipelined requests are answered in order"""
        self.bench.up.answers(answer(OK))
        two = request(b"GET /1 HTTP/1.1") + request(b"GET /2 HTTP/1.1")
        got, _ = self.bench.ask(two, lambda data: data.count(b"\r\n\r\nok") == 2)
        self.assertEqual([head.split(b" ")[1] for head in self.bench.up.heads], [b"/1", b"/2"])
        self.assertEqual(got, OK + OK)

    def test_keep_alive(self):
        """connections are kept on both sides"""
        self.bench.up.answers(answer(OK))
        with self.bench.connect() as connection:
            for _ in range(3):
                connection.sendall(request())
                receive(connection, until=is_whole)
        self.assertEqual(len(self.bench.up.heads), 3)
        self.assertLessEqual(self.bench.up.connections, 1)

    def never_replays(self, line, fields, body):
        self.bench.up.answers(answer_once)
        with self.bench.connect() as connection:
            connection.sendall(request())
            receive(connection, until=is_whole)
            connection.sendall(request(line, fields, body))
            got, _ = receive(connection, until=has_head)
        self.assertEqual(sum(head.startswith(line.split(b" HTTP")[0]) for head in self.bench.up.heads), 1)
        self.assertEqual(status(got), 502)

    def test_post_is_not_replayed(self):
        """a POST whose connection dies is sent once"""
        self.never_replays(b"POST /p HTTP/1.1", b"Content-Length: 3\r\n", b"abc")

    def test_get_is_not_replayed(self):
        """a GET whose connection dies is sent once"""
        self.never_replays(b"GET /g HTTP/1.1", b"", b"")

    def test_expect(self):
        """100 Continue comes from the upstream, before the body"""
        self.bench.up.answers(answer_expectation)
        with self.bench.connect() as connection:
            connection.sendall(request(b"POST /x HTTP/1.1", b"Content-Length: 5\r\nExpect: 100-continue\r\n"))
            got, _ = receive(connection, until=has_head)
            self.assertTrue(got.startswith(b"HTTP/1.1 100"))
            connection.sendall(b"hello")
            more, _ = receive(connection, until=is_whole)
        self.assertEqual(self.bench.up.bodies, [b"hello"])
        self.assertIn(b" 200 ", got + more)

    def test_early_answer(self):
        """an answer before the end of the upload is passed on at once"""
        self.bench.up.answers(
            answer_and_close(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 3)
        )
        with self.bench.connect() as connection:
            connection.sendall(request(b"POST /x HTTP/1.1", b"Content-Length: 5000000\r\n"))
            connection.sendall(b"x" * 1000)
            got, _ = receive(connection, until=has_head)
        self.assertEqual(status(got), 413)

    def test_stream(self):
        """streamed lines arrive when they are sent"""
        self.bench.up.answers(stream_on_demand)
        late = []
        with self.bench.connect() as connection:
            connection.sendall(request())
            for line in LINES:  # none is sent before the last one has arrived
                sent = time.monotonic()
                self.bench.up.more.release()
                got, _ = receive(connection, until=lambda data, line=line: data.endswith(line))
                self.assertTrue(got.endswith(line), got)
                late.append(time.monotonic() - sent)
        self.assertLess(min(late), 0.1)  # a busy machine may be late

    def leaving_is_noticed(self, handler, until):
        self.bench.up.answers(handler)
        connection = self.bench.connect()
        connection.sendall(request(b"GET /api/version HTTP/1.1"))  # what holds the lease would be read to its end
        self.assertTrue(self.bench.up.came.wait(PATIENCE))
        if until:
            receive(connection, until=until)
        left = time.monotonic()
        connection.close()
        self.assertTrue(self.bench.up.event.wait(PATIENCE), "the upstream's connection stayed open")
        self.assertLess(self.bench.up.when - left, 1.0)

    def test_leaves_while_streaming(self):
        """a client that leaves during a stream ends it within a second"""
        self.leaving_is_noticed(stream_for_ever, lambda data: data.count(b"x") > 3)

    def test_leaves_before_an_answer(self):
        """a client that leaves before any answer is noticed within a second"""
        self.leaving_is_noticed(say_nothing, None)

    def test_slow_client(self):
        """a client that does not read stops the upstream"""
        self.bench.up.answers(flood)
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            connection.connect(("127.0.0.1", self.bench.proxy))
            connection.sendall(request())
            self.assertTrue(self.bench.up.event.wait(PATIENCE))
        self.assertGreater(self.bench.up.count, 0)
        self.assertLess(self.bench.up.count, 24e6)

    def test_slow_upstream(self):
        """an upstream that does not read stops the client"""
        self.bench.up.answers(read_nothing)
        sent = 0
        with self.bench.connect() as connection:
            connection.settimeout(1.0)
            connection.sendall(request(b"POST /x HTTP/1.1", b"Content-Length: 200000000\r\n"))
            try:
                while sent < 100000000:
                    sent += connection.send(b"z" * 65536)
            except OSError:
                pass
        self.assertLess(sent, 24e6)

    def test_upgrade(self):
        """who asks for a WebSocket is refused"""
        self.bench.up.answers(answer(OK))
        fields = (
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n"
        )
        got, closed = self.bench.ask(request(b"GET /ws HTTP/1.1", fields), until=None)
        self.assertEqual((status(got), closed, self.bench.up.heads), (501, True, []))

    def test_offered_upgrade(self):
        """an offer of HTTP/2, which some clients always make, is passed over and goes no further"""
        self.bench.up.answers(answer(OK))
        fields = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAB\r\nX-A: b\r\n"
        self.assertEqual(self.bench.ask(request(fields=fields))[0], OK)
        self.assertEqual(self.bench.up.heads, [b"GET /x HTTP/1.1\r\nHost: a\r\nX-A: b"])

    def test_offered_tls(self):
        """an offer of TLS is passed over, too, and the body goes on"""
        self.bench.up.answers(answer(OK))
        fields = b"Content-Length: 2\r\nUpgrade: TLS/1.2\r\nConnection: Upgrade\r\nX-A: b\r\n"
        self.assertEqual(self.bench.ask(request(b"POST /x HTTP/1.1", fields, b"{}"))[0], OK)
        self.assertEqual(self.bench.up.heads, [b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nX-A: b"])
        self.assertEqual(self.bench.up.bodies, [b"{}"])

    def oversized(self, raw, allowed):
        self.bench.up.answers(answer(OK))
        got, closed = self.bench.ask(raw, has_head)
        self.assertTrue(status(got) in allowed or (closed and not got))
        self.assertEqual(self.bench.up.heads, [])

    def test_large_field(self):
        """a field of 200 kB is refused"""
        self.oversized(request(fields=b"X-Big: " + b"a" * 200000 + b"\r\n"), (431, 400))

    def test_many_fields(self):
        """5000 fields are refused"""
        self.oversized(request(fields=b"".join(b"X-%d: a\r\n" % i for i in range(5000))), (431, 400))

    def test_large_target(self):
        """a target of 200 kB is refused"""
        self.oversized(request(b"GET /" + b"a" * 200000 + b" HTTP/1.1"), (414, 431, 400))

    def others_are_served_beside(self, start):
        self.bench.up.answers(answer(OK))
        crowd = [self.bench.connect() for _ in range(200)]
        try:
            for connection in crowd:
                connection.sendall(start)
            got, _ = self.bench.ask(request())
            self.assertEqual(status(got), 200)
        finally:
            for connection in crowd:
                connection.close()

    def test_idle_crowd(self):
        """200 idle connections keep nobody waiting"""
        self.others_are_served_beside(b"")

    def test_half_sent_crowd(self):
        """200 half-sent heads keep nobody waiting"""
        self.others_are_served_beside(b"GET /x HTTP/1.1\r\nHo")


class Trickle(Case):
    LIMITS = ("head=1000",)
    WITHIN = 14 if GATEWAY else 4  # the gateway gives a head 10 s

    def test_trickling_head(self):
        """a head that is never complete ends its connection, however it trickles"""
        with self.bench.connect() as connection:
            start, closed = time.monotonic(), False
            connection.sendall(b"GET /x HTTP/1.1\r\nHost: a\r\n")
            while not closed and time.monotonic() - start < self.WITHIN + 1:
                try:
                    connection.sendall(b"X-A: b\r\n")
                except OSError:
                    break
                closed = receive(connection, 0.2)[1]
            self.assertLess(time.monotonic() - start, self.WITHIN)


if __name__ == "__main__":
    tap.main()
