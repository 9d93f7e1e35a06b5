"""The clock on the wall is set back, or forward, while the server works: its limits of time are as they were said."""

import contextlib
import email.utils
import fcntl
import json
import os
import time

import tap
from harness import PATIENCE, Case, Server, wait_until
from test_images import LONG, Pictures, text
from wall_clock import DAY_S, WallClock


class Clock(Pictures, Case):
    def setUp(self):
        super().setUp()
        self.upstream.residents = []
        self.clock = WallClock(self.folder)

    def serve(self, **setup):
        return super().serve(env=self.clock.environment, **setup)

    def wait_day(self, server, fast_s):
        """Until it answers with the day that it is then."""
        def is_dated():
            date = email.utils.parsedate_to_datetime(server.ask("GET", "/", port=server.control)[1]["Date"]).timestamp()
            return abs(date - fast_s - time.time()) < DAY_S / 2
        wait_until(is_dated, "the date")

    def timed(self, function, *args):
        """(seconds that it took, its result)."""
        begun = time.monotonic()
        result = function(*args)
        return time.monotonic() - begun, result

    def test_set(self):
        """the_tests_clock_is_the_servers"""
        server = self.serve()
        for jump in (0, -DAY_S, DAY_S):
            self.clock.set(jump)
            self.wait_day(server, jump)

    def test_queue(self):
        """who_waits_is_refused_after_the_time_that_was_said_and_not_a_day_later_or_at_once"""
        server = self.serve(queue_timeout_ms=2000)
        for jump in (-DAY_S, DAY_S):
            with server.start_raw("hold"):
                wait_until(lambda: self.upstream.active, "the request")
                waits = self.in_background(self.timed, server.generate)
                wait_until(lambda: server.admission()["queued"] == 1, "one that waits")
                self.clock.set(jump)
                took, (status, _, body) = waits()
                self.assertEqual((status, server.admission()["queued"]), (503, 0), body)
                self.assertGreater(took, 1.9)
                self.assertTrue(server.admission()["active"])
                self.upstream.release()
                server.wait_idle()
            self.assertEqual(server.generate()[0], 200)
            self.upstream.held.clear()

    def test_deadline(self):
        """a_picture_has_the_time_that_was_said"""
        server = self.start(timeout_seconds=2)
        for jump in (-DAY_S, DAY_S):
            picture = self.in_background(self.timed, self.draw, server, text(LONG))
            wait_until(lambda: server.own("GET", "status")[1]["image"]["busy"], "the picture")
            self.clock.set(jump)
            took, answer = picture()
            self.assertEqual(self.code(answer), (504, "image_deadline"))
            self.assertGreater(took, 1.9)
        server.wait_idle()
        self.assertEqual(self.draw(server, text(steps=1, width=64, height=64))[0], 200)

    def test_order(self):
        """what_waits_keeps_its_order_and_is_answered"""
        server = self.serve()
        with server.start_raw("hold"):
            wait_until(lambda: self.upstream.active, "the request")
            waiting = []
            for number in range(4):
                self.clock.set(-number * DAY_S)
                body = {"model": "tiny", "prompt": str(number)}
                waiting.append(self.in_background(server.ask, "POST", "/api/generate", body))
                wait_until(lambda: server.admission()["queued"] == number + 1, "one more")
            self.upstream.release()
            self.assertEqual([answer()[0] for answer in waiting], [200] * 4)
        prompts = [json.loads(body)["prompt"] for _, target, body in self.upstream.seen if target == "/api/generate"]
        self.assertEqual(prompts, ["hello", "0", "1", "2", "3"])

    def test_use(self):
        """the_history_of_use_stays_good"""
        server = self.serve()
        for number, jump in enumerate((0, -DAY_S, DAY_S), 1):
            self.clock.set(jump)
            self.assertEqual(server.generate()[0], 200)
            wait_until(lambda: [use["calls"] for use in server.own("GET", "usage")[1]["models"]] == [number],
                       "one more use")  # which is counted behind the answer
        server.stop()
        again = self.serve()
        (use,) = again.own("GET", "usage")[1]["models"]
        self.assertEqual(use["calls"], 3)
        self.assertLess(use["first_used_at"], use["last_used_at"])

    def test_end(self):
        """the_end_does_not_wait_for_a_reader_of_the_log_until_the_clock_is_where_it_was"""
        end, output = os.pipe()
        self.addCleanup(os.close, end)
        fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(output, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(output, b"x")
        os.set_blocking(output, True)
        server = Server(self, output=output, env=self.clock.environment)
        os.close(output)
        wait_until(lambda: server.accepts(server.listen), "the server")
        server.process.terminate()
        begun = time.monotonic()
        while server.process.poll() is None and time.monotonic() < begun + PATIENCE:
            self.clock.set(int(-3600 * 10 * (time.monotonic() - begun)))  # back by an hour ten times a second
            time.sleep(0.1)
        self.assertEqual(server.process.poll(), 0)


if __name__ == "__main__":
    tap.main()
