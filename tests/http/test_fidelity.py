"""What the proxy passes on, and in which form: everything but what belongs to one connection."""

import re
import time

import tap
from wire import OK, PATIENCE, Case, Hangup, answer, answer_and_close
from wire import field, has_head, is_whole, receive, request, status

HOP_BY_HOP = (
    b"Connection: close, X-Priv\r\nX-Priv: 1\r\nX-Keep: 2\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n"
    b"Proxy-Connection: keep-alive\r\nUpgrade: h2c\r\nProxy-Authorization: Basic eA==\r\n"
)
ODD_ANSWER = (
    b"HTTP/1.1 200 Fine By Me\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\nSet-Cookie: a=1\r\n"
    b"Set-Cookie: b=2\r\nX-Empty:\r\nX-Obs: \xe9\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: u\r\n"
    b"Content-Length: 2\r\n\r\nok"
)


class Fidelity(Case):
    def forwarded(self, raw, answers=OK):
        """The head that the upstream got for this request."""
        self.bench.up.answers(answer(answers))
        self.bench.ask(raw)
        self.assertEqual(len(self.bench.up.heads), 1)
        return self.bench.up.heads[0]

    def odd_answer(self):
        self.bench.up.answers(answer(ODD_ANSWER))
        return self.bench.ask(request())[0]

    def test_other_request_fields(self):
        """other request fields are passed on"""
        self.assertEqual(field(self.forwarded(request(fields=HOP_BY_HOP)), b"X-Keep"), [b"2"])

    def test_answer_field_named_by_connection(self):
        """an answer's field that Connection names goes no further"""
        self.assertEqual(field(self.odd_answer(), b"X-Hop"), [])

    def test_set_cookie(self):
        """repeated Set-Cookie stay apart and in order"""
        self.assertEqual(field(self.odd_answer(), b"Set-Cookie"), [b"a=1", b"b=2"])

    def test_empty_value(self):
        """empty values stay"""
        self.assertEqual(field(self.odd_answer(), b"X-Empty"), [b""])

    def test_obs_text(self):
        """bytes beyond ASCII stay"""
        self.assertEqual(field(self.odd_answer(), b"X-Obs"), [b"\xe9"])

    def test_date(self):
        """Date is the upstream's, once"""
        self.assertEqual(field(self.odd_answer(), b"Date"), [b"Mon, 01 Jan 2024 00:00:00 GMT"])

    def test_server(self):
        """Server is the upstream's"""
        self.assertEqual(field(self.odd_answer(), b"Server"), [b"u"])

    def test_reason(self):
        """the reason phrase stays"""
        self.assertTrue(self.odd_answer().startswith(b"HTTP/1.1 200 Fine By Me\r\n"))

    def test_target(self):
        """the target is passed on byte for byte"""
        target = b"/a//b/../c%2Fd%20e?x=1&y=%00&z=a+b&&=;"
        self.assertEqual(self.forwarded(request(b"GET " + target + b" HTTP/1.1")).split(b" ")[1], target)

    def test_order(self):
        """order, case and repeats of fields stay"""
        head = self.forwarded(request(fields=b"x-b: 1\r\nX-A: 2\r\nx-b: 3\r\nAccept: */*\r\n"))
        own = [line for line in head.split(b"\r\n")[1:] if line[:2].lower() == b"x-"]
        self.assertEqual(own, [b"x-b: 1", b"X-A: 2", b"x-b: 3"])

    def test_host(self):
        """Host is passed on"""
        self.assertEqual(field(self.forwarded(request()), b"Host"), [b"a"])

    def test_nothing_invented(self):
        """no field is invented"""
        self.assertEqual(self.forwarded(request()), b"GET /x HTTP/1.1\r\nHost: a")

    def test_unknown_method(self):
        """unknown methods are passed on"""
        self.assertTrue(self.forwarded(request(b"FROB /x HTTP/1.1")).startswith(b"FROB "))

    def test_chunked_request(self):
        """a chunked request arrives with its bytes"""
        fields = b"Transfer-Encoding: chunked\r\nTrailer: X-T\r\n"
        body = b"3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX-T: v\r\n\r\n"
        self.forwarded(request(b"POST /x HTTP/1.1", fields, body))
        self.assertEqual(self.bench.up.bodies, [b"abcde"])

    def test_trailers(self):
        """trailers never become fields"""
        fields = b"Transfer-Encoding: chunked\r\nTrailer: X-T\r\n"
        head = self.forwarded(request(b"POST /x HTTP/1.1", fields, b"0\r\nX-T: v\r\n\r\n"))
        self.assertEqual(field(head, b"X-T"), [])

    def test_length(self):
        """a request with a length keeps it"""
        head = self.forwarded(request(b"POST /x HTTP/1.1", b"Content-Length: 5\r\n", b"hello"))
        self.assertEqual((field(head, b"Content-Length"), field(head, b"Transfer-Encoding")), ([b"5"], []))

    def test_get_with_body(self):
        """a GET with a body is passed on"""
        self.forwarded(request(fields=b"Content-Length: 3\r\n", body=b"abc"))
        self.assertEqual(self.bench.up.bodies, [b"abc"])

    def test_redirect(self):
        """redirects are passed on, never followed"""
        redirect = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n"
        self.bench.up.answers(answer(redirect))
        got, _ = self.bench.ask(request())
        self.assertEqual(got, redirect)

    def test_head(self):
        """HEAD keeps the length and has no body"""
        self.bench.up.answers(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"))
        got, _ = self.bench.ask(request(b"HEAD /x HTTP/1.1"), has_head)
        self.assertEqual((status(got), field(got, b"Content-Length")), (200, [b"1234"]))
        self.assertTrue(got.endswith(b"\r\n\r\n"))

    def without_body(self, code):
        self.bench.up.answers(answer(b'HTTP/1.1 %d X\r\nETag: "a"\r\n\r\n' % code))
        with self.bench.connect() as connection:
            connection.sendall(request())
            got, _ = receive(connection, until=has_head)
            self.assertEqual(status(got), code)
            self.assertIsNone(re.search(rb"(?i)transfer-encoding", got))
            self.bench.up.handler = answer(OK)
            connection.sendall(request())
            self.assertEqual(status(receive(connection, until=is_whole)[0]), 200)

    def test_204(self):
        """204 has no body and the connection goes on"""
        self.without_body(204)

    def test_304(self):
        """304 has no body and the connection goes on"""
        self.without_body(304)

    def test_early_hints(self):
        """103 is passed on to a client of HTTP/1.1"""
        self.bench.up.answers(answer(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK))
        got, _ = self.bench.ask(request())
        self.assertTrue(got.startswith(b"HTTP/1.1 103"))
        self.assertTrue(got.endswith(OK))

    def test_early_hints_to_http_1_0(self):
        """1xx is never sent to a client of HTTP/1.0"""
        self.bench.up.answers(answer(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK))
        got, _ = self.bench.ask(b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n", until=None)
        self.assertEqual(status(got), 200)
        self.assertNotIn(b" 103 ", got)

    def test_http_1_0(self):
        """a client of HTTP/1.0 gets no chunks, then the end"""
        self.bench.up.answers(answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
        got, closed = self.bench.ask(b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n", None)
        self.assertTrue(closed and got.endswith(b"\r\n\r\nhello"))
        self.assertNotIn(b"chunked", got.lower())

    def test_until_close(self):
        """a body that ends with the connection is passed on to its end"""
        self.bench.up.answers(answer_and_close(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"))
        got, _ = self.bench.ask(request())
        self.assertIn(b"hello", got)
        self.assertTrue(is_whole(got))

    def test_short(self):
        """an answer that is cut short never looks complete"""
        self.bench.up.answers(answer_and_close(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"))
        got, closed = self.bench.ask(request(), None)
        self.assertTrue(closed)
        self.assertFalse(is_whole(got))

    def test_cut_chunks(self):
        """no last chunk is invented"""
        cut = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        self.bench.up.answers(answer_and_close(cut, 0.2))
        got, closed = self.bench.ask(request(), None)
        self.assertTrue(closed)
        self.assertFalse(got.endswith(b"0\r\n\r\n"))

    def test_cut_to_http_1_0(self):
        """a cut answer whose end is the connection's is a reset for a client of HTTP/1.0"""

        def cut(_upstream, connection, _head, _buffered):
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            time.sleep(0.2)
            raise Hangup

        self.bench.up.answers(cut)
        with self.bench.connect() as connection:
            connection.sendall(b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n")
            connection.settimeout(PATIENCE)
            with self.assertRaises(ConnectionResetError):
                while connection.recv(65536):
                    pass


def add_cases():
    for name in (b"X-Priv", b"Keep-Alive", b"TE", b"Proxy-Connection", b"Upgrade", b"Proxy-Authorization"):

        def run(self, name=name):
            self.assertEqual(field(self.forwarded(request(fields=HOP_BY_HOP)), name), [])

        run.__doc__ = f"{name.decode()} of a request goes no further"
        setattr(Fidelity, f"test_hop_{name.decode()}", run)


add_cases()
if __name__ == "__main__":
    tap.main()
