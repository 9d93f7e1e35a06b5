"""What the small server does at the limits that it was given, and when it is told to stop."""

import random
import socket
import time
import unittest

import tap
from wire import OK, PATIENCE, Bench, answer, receive, request, status, stream_for_ever, stream_lines, stream_on_demand


class Limits(unittest.TestCase):
    def bench(self, *limits, **more):
        bench = Bench(*limits, **more)
        self.addCleanup(lambda: bench.program.poll() is None and bench.close())
        return bench

    def test_drain(self):
        """an abandoned stream is read to its end where that must be known"""
        bench = self.bench("drain=5000", "tell=1")
        bench.up.answers(stream_lines)
        with bench.connect() as connection:
            connection.sendall(request())
            receive(connection, until=lambda data: b'"i"' in data)
        said = [bench.line() for _ in range(2)]
        self.assertEqual(said[0], "upstream complete\n")
        self.assertIn("left=1 answered=0", said[1])

    def test_drain_deadline(self):
        """a stream that does not end is given up in time"""
        bench = self.bench("drain=500", "tell=1")
        bench.up.answers(stream_for_ever)
        with bench.connect() as connection:
            connection.sendall(request())
            receive(connection, until=lambda data: data.count(b"x") > 3)
        self.assertEqual(bench.line(), "upstream aborted\n")
        self.assertTrue(bench.up.event.wait(PATIENCE))

    def wait(self, true):
        end = time.monotonic() + PATIENCE
        while not true():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def refuses(self, bench):
        try:
            bench.connect().close()
        except OSError:
            return True
        return False

    def test_sigterm(self):
        """SIGTERM lets an exchange come to its end, and nobody new in"""
        bench = self.bench()
        bench.up.answers(stream_on_demand)
        with bench.connect() as connection:
            connection.sendall(request())
            bench.up.more.release()
            got, _ = receive(connection, until=lambda data: b'"i"' in data)
            bench.program.terminate()
            self.wait(lambda: self.refuses(bench))
            bench.up.more.release(5)
            more, closed = receive(connection)
        self.assertTrue((got + more).endswith(b"0\r\n\r\n") and closed)
        self.assertEqual(bench.program.wait(PATIENCE), 0)

    def test_too_many_connections(self):
        """connections beyond the limit are closed, and room is found again"""
        bench = self.bench("connections=5")
        bench.up.answers(answer(OK))
        crowd = [bench.connect() for _ in range(5)]
        got, closed = bench.ask(request())
        self.assertEqual((got, closed), (b"", True))
        for connection in crowd:
            connection.close()
        self.wait(lambda: bench.ask(request())[0] == OK)

    def test_nobody_there(self):
        """an upstream that is not there is a bad gateway"""
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            bench = self.bench(upstream=f"127.0.0.1:{unused.getsockname()[1]}")
            self.assertEqual(status(bench.ask(request())[0]), 502)

    def test_restless_clients(self):
        """clients that come and go at any moment leave nothing behind"""
        bench = self.bench()
        bench.up.answers(stream_lines)
        bench.ask(request())
        time.sleep(0.2)
        before, chance = bench.descriptors(), random.Random(1)
        post = request(b"POST /x HTTP/1.1", b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n")
        crowd = []
        for _ in range(400):
            connection = bench.connect()
            raw = chance.choice((request(), post, request() + post))
            connection.sendall(raw[: chance.randrange(len(raw) + 1)])
            crowd.append(connection)
            if len(crowd) > 40:
                leaving = crowd.pop(chance.randrange(len(crowd)))
                if chance.random() < 0.5:  # by a reset
                    leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                leaving.close()
        for connection in crowd:
            connection.close()
        self.wait(lambda: bench.descriptors() <= before)
        bench.up.answers(answer(OK))
        self.assertEqual(bench.ask(request())[0], OK)


if __name__ == "__main__":
    tap.main()
