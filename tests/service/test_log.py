"""What the server says of itself: it waits for nobody who reads it, and is told what it should know."""

import contextlib
import fcntl
import json
import os
import re
import resource
import subprocess
import threading

import tap
from harness import PATIENCE, PROGRAM, TOKEN, Case, Server, wait_until
from workers import Workers

PIPE_BYTES, MANY = 4096, 1500


class Reader:
    """The other end of the server's standard error."""

    def __init__(self, case):
        self.end, self.output = os.pipe()
        self.text = ""
        fcntl.fcntl(self.output, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        case.addCleanup(self.close)

    def begin(self):
        """From now on somebody reads."""
        threading.Thread(target=self.read, daemon=True).start()
        return self

    def read(self):
        while piece := os.read(self.end, 65536):
            self.text += piece.decode()

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self.end)

    def lines(self, words):
        return [line for line in self.text.splitlines() if words in line]


class Logging(Case):
    def with_reader(self):
        reader = Reader(self)
        server = Server(self, output=reader.output)
        os.close(reader.output)
        wait_until(lambda: server.accepts(server.listen), "the server")
        return reader, server

    def pause(self, server, times):
        """Makes it say a line so many times, over one connection."""
        with contextlib.closing(server.connect(server.control)) as connection:
            for _ in range(times):
                connection.request("POST", "/kuno/v1/admission/pause", headers={"Authorization": f"Bearer {TOKEN}"})
                self.assertEqual(connection.getresponse().read()[:1], b"{")

    def test_stopped_reader(self):
        """a_reader_that_does_not_read_stops_nobody_and_is_told_what_it_has_missed"""
        reader, server = self.with_reader()
        self.pause(server, MANY)
        server.own("POST", "admission/resume")
        self.assertEqual(server.generate()[0], 200)
        reader.begin()
        wait_until(lambda: reader.lines("dropped here"), "word of what was dropped")
        self.pause(server, 1)
        self.assertEqual(server.stop(), 0)

        def counted():
            dropped = sum(int(n) for n in re.findall(r"kuno: (\d+) lines? w\w+ dropped here\n", reader.text))
            self.assertGreater(dropped, 100)
            return len(reader.lines("admission is")) + dropped
        wait_until(lambda: counted() == MANY + 2, "word of every line")

    def test_end(self):
        """the_end_does_not_wait_for_one_either"""
        _, server = self.with_reader()
        self.pause(server, 300)
        self.assertEqual(server.stop(), 0)

    def test_no_reader(self):
        """nor_does_anybody_wait_for_one_that_is_gone"""
        reader, server = self.with_reader()
        reader.close()
        self.pause(server, 3)
        server.own("POST", "admission/resume")
        self.assertEqual(server.generate()[0], 200)
        self.assertEqual(server.stop(), 0)


class Presence(Case):
    def test_there(self):
        """an_ollama_that_answers_is_told_of_once"""
        server = self.serve()
        server.own("GET", "status")
        self.assertIn(f"gateway mode: clients of Ollama at 127.0.0.1:{server.listen}\n", server.text())
        self.assertEqual(server.text().count(f"the Ollama at 127.0.0.1:{self.ports[0]} answers\n"), 1)

    def test_absent(self):
        """one_that_does_not_is_told_of_with_what_to_do_and_when_it_comes_later"""
        self.upstream.close()
        server = self.serve()
        self.assertIn(f"no Ollama answers at 127.0.0.1:{self.ports[0]}, so what needs one gets 502; start it (ollama "
                      "serve), or name its address as 'upstream' in config.json\n", server.text())
        self.assertEqual(server.generate()[0], 502)
        self.upstream.__init__(self.ports[0])
        server.wait_said(f"the Ollama at 127.0.0.1:{self.ports[0]} answers\n")
        self.assertEqual(server.generate()[0], 200)
        self.assertEqual(server.text().count("no Ollama"), 1)

    def test_other(self):
        """what_is_no_ollama_is_told_of"""
        self.upstream.version = {"version": 1}
        self.assertIn(f"what answers at 127.0.0.1:{self.ports[0]} is no Ollama; name the address of one",
                      self.serve().text())

    def test_recovery(self):
        """what_ends_recovery_is_told_with_it_and_there_is_no_command_that_is_not_there"""
        server = self.serve()
        with server.start_raw("cut=1 lines=2") as s:
            s.recv(1)
        wait_until(lambda: server.admission()["recovery_required"], "recovery")
        server.stop()
        again = self.serve()
        told = "to recover, stop kuno and the Ollama behind it, remove 'upstream-in-flight' and 'reserved-*' from"
        self.assertEqual(again.text().count(told), 2)
        self.assertNotIn("kuno recover", again.text())
        again.stop()
        (again.state / "upstream-in-flight").unlink()
        self.assertEqual(self.serve().generate()[0], 200)


class Disk(Case):
    def test_history(self):
        """a_history_that_cannot_be_written_is_told_of_once_and_so_is_its_end"""
        reader = Reader(self).begin()
        server = Server(self, output=reader.output)
        os.close(reader.output)
        wait_until(lambda: "answer" in reader.text, "the server")

        def healthy():
            return server.own("GET", "usage")[1]["persistence"]["healthy"]
        _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, hard))
        for _ in range(3):
            self.assertEqual(server.generate()[0], 200)
            wait_until(lambda: not healthy(), "the failure")
        wait_until(lambda: reader.lines("disk:"), "word of it")
        self.assertEqual(reader.lines("disk:"),
                         ["kuno: disk: the history of use cannot be written: cannot be written: File too large"])
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        server.generate()
        wait_until(healthy, "a history")
        wait_until(lambda: len(reader.lines("disk:")) > 1, "word of it")
        self.assertEqual(reader.lines("disk:")[1:], ["kuno: disk: the history of use can be written again"])

    def test_marker(self):
        """so_is_a_marker"""
        server = self.serve()
        stranger = server.state / "upstream-in-flight"
        stranger.touch()
        for _ in range(3):
            self.assertEqual(server.generate()[0], 503)
        words = "disk: the marker in the state directory cannot be written: 'upstream-in-flight' cannot be written: "
        server.wait_said(words)
        self.assertEqual(server.text().count("disk:"), 1)
        stranger.unlink()
        self.assertEqual(server.generate()[0], 200)
        server.wait_said("disk: the marker in the state directory can be written again\n")
        self.assertEqual(server.text().count("disk:"), 2)


class Resources(Workers):
    def ask(self, *args):
        told = subprocess.run([PROGRAM, "resources", "--config", "config.json", *args], cwd=self.folder, check=True,
                              capture_output=True, text=True, env={"HOME": str(self.folder)}, timeout=PATIENCE)
        self.assertEqual(told.stderr, "")
        return told.stdout

    def test_workers(self):
        """what_workers_hold_is_seen_from_outside_as_by_the_owners_route"""
        server = self.start()
        for model in "tiny", "other:7b":
            self.assertEqual(server.generate(model=model)[0], 200)
        told, route = json.loads(self.ask("--json")), server.own("GET", "resources")[1]
        self.assertEqual(len({m["worker"] for m in route["residency"]}), 3)
        self.assertEqual((told["residency"], told["errors"]), (route["residency"], route["errors"]))
        for number in range(2):
            self.assertIn(f" by worker cpu-{self.addresses[number]}", self.ask())

    def test_stopped(self):
        """workers_that_do_not_run_hold_nothing"""
        server = self.start()
        server.stop()
        told = json.loads(self.ask("--json"))
        self.assertEqual([m["worker"] for m in told["residency"]], [None])
        self.assertNotIn("worker-ps", [e["probe"] for e in told["errors"]])


if __name__ == "__main__":
    tap.main()
