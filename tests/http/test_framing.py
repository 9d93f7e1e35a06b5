"""What the proxy refuses: requests whose end can be seen in two ways, and answers of that kind."""

import time

import tap
from wire import Case, answer, has_head, receive, request, status

REFUSED = [
    ("length with chunks", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n", (400,)),
    ("two lengths", b"Content-Length: 5\r\nContent-Length: 6\r\n", b"hello!", (400,)),
    ("a list of lengths", b"Content-Length: 5, 6\r\n", b"hello!", (400,)),
    *[
        (f"length {value!r}", b"Content-Length: " + value + b"\r\n", b"hello", (400, 413))
        for value in (b"+5", b"-5", b"5a", b"0x5", b"5 5", b"", b"99999999999999999999")
    ],
    *[
        (f"encoding {value!r}", b"Transfer-Encoding: " + value + b"\r\n", b"5\r\nhello\r\n0\r\n\r\n", (400, 501))
        for value in (
            b"xchunked",
            b"chunked, identity",
            b"identity",
            b"chunked, chunked",
            b"\x0bchunked",
            b"gzip, chunked",
        )
    ],
    *[
        (f"chunk {body[:16]!r}", b"Transfer-Encoding: chunked\r\n", body, (400,))
        for body in (
            b"xyz\r\nhello\r\n0\r\n\r\n",
            b"-5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b"10000000000000005\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhelloXX0\r\n\r\n",
            b"5\nhello\n0\n\n",
            b"\r\nhello\r\n0\r\n\r\n",
        )
    ],
]

REFUSED_HEADS = [
    ("chunks in HTTP/1.0", b"POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (400, 501)),
    ("bare line feeds", b"GET /x HTTP/1.1\nHost: a\n\n", (400,)),
    ("a folded line", request(fields=b"X-A: b\r\n c\r\n"), (400,)),
    ("a space before the colon", request(fields=b"X-A : b\r\n"), (400,)),
    ("a bare CR in a value", request(fields=b"X-A: b\rc\r\n"), (400,)),
    ("NUL in a value", request(fields=b"X-A: b\0c\r\n"), (400,)),
    ("NUL in the target", request(b"GET /x\0y HTTP/1.1"), (400,)),
    ("no Host in HTTP/1.1", b"GET /x HTTP/1.1\r\n\r\n", (400,)),
    ("two Hosts", request(fields=b"Host: b\r\n"), (400,)),
    ("a name that is no token", request(fields=b"X(A: b\r\n"), (400,)),
    ("an empty name", request(fields=b": b\r\n"), (400,)),
    ("a method that is no token", request(b"GE(T /x HTTP/1.1"), (400, 501, 405)),
    ("two spaces in the request line", request(b"GET  /x HTTP/1.1"), (400,)),
    ("version HTTP/1.2x", request(b"GET /x HTTP/1.2x"), (400, 505)),
    ("version HTTP/2.0", request(b"GET /x HTTP/2.0"), (400, 505)),
    ("HTTP/0.9", b"GET /x\r\n\r\n", (400, 505)),
    ("a space in the target", request(b"GET /x y HTTP/1.1"), (400,)),
    ("CONNECT", request(b"CONNECT a:1 HTTP/1.1"), (400, 405, 501)),
    ("an absolute target", request(b"GET http://a/x HTTP/1.1"), (400,)),
    ("a fragment in the target", request(b"GET /x#y HTTP/1.1"), (400,)),
    ("* with GET", request(b"GET * HTTP/1.1"), (400,)),
]

BAD_ANSWERS = [
    ("garbage", b"garbage\r\n\r\n"),
    (
        "length with chunks",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ),
    ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    ("a folded line", b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\nok"),
    (
        "a switch of protocols",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw",
    ),
]


class Framing(Case):
    def refuses(self, raw, allowed):
        """An error status or nothing but a close, at once, and no complete request at the upstream."""
        self.bench.up.answers(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
        got, closed = self.bench.ask(raw, has_head)
        time.sleep(0.05)
        self.assertEqual(self.bench.up.bodies, [])
        self.assertIn(status(got), allowed if got else (0,))
        self.assertTrue(got or closed)

    def test_nothing_behind_an_ambiguous_message_is_forwarded(self):
        """nothing behind an ambiguous message is forwarded"""
        self.bench.up.answers(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
        hidden = b"1\r\nZ\r\nQ\r\n\r\n" + request(b"GET /evil HTTP/1.1")
        with self.bench.connect() as connection:
            fields = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"
            connection.sendall(request(b"POST /x HTTP/1.1", fields, hidden))
            receive(connection, 1.5)
        self.assertFalse(any(b"/evil" in head for head in self.bench.up.heads))


def add_case(name, promise, run):
    run.__doc__ = promise
    setattr(Framing, f"test_{name}", run)


def add_cases():
    for i, (what, fields, body, allowed) in enumerate(REFUSED):
        raw = request(b"POST /x HTTP/1.1", fields, body)
        add_case(f"body_{i:02}", f"refuses {what}", lambda self, r=raw, a=allowed: self.refuses(r, a))
    for i, (what, raw, allowed) in enumerate(REFUSED_HEADS):
        add_case(f"head_{i:02}", f"refuses {what}", lambda self, r=raw, a=allowed: self.refuses(r, a))
    for i, (what, raw) in enumerate(BAD_ANSWERS):

        def run(self, raw=raw):
            self.bench.up.answers(answer(raw))
            got, _ = self.bench.ask(request(), has_head)
            self.assertIn(status(got), (502, 0))

        add_case(f"answer_{i:02}", f"an answer with {what} is a bad gateway", run)


add_cases()
if __name__ == "__main__":
    tap.main()
