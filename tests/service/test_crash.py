"""What a crash leaves behind: never two at work, never a use lost that was on disk, never a recovery without need.

`strace` kills the server at a chosen system call of a chosen kind on a chosen file; the same request is then tried
again after a restart."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import tap
from harness import PATIENCE, SANITIZED, Case, Server, wait_until
from workers import Workers

MARKER = "upstream-in-flight"


def stops_strace():
    if SANITIZED:
        return "a sanitizer needs to trace its own process"
    if not shutil.which("strace"):
        return "strace is not installed"
    if os.geteuid() != 0:
        return "only root sees which files the server has open, as it keeps its memory private"
    tried = subprocess.run(["strace", "-f", "true"], capture_output=True, check=False)
    return f"strace may not trace here: {tried.stderr.decode().strip()[-80:]}" if tried.returncode else None


WHY_NOT = stops_strace()


def traced_calls(trace):
    """(line where it begins, line where it ends, text) of each call; calls of several threads may be interleaved."""
    calls, open_calls = [], {}
    for number, line in enumerate(trace.splitlines(), 1):
        thread, _, text = line.partition(" ")
        if text.endswith("<unfinished ...>"):
            open_calls[thread] = number, text.removesuffix("<unfinished ...>")
        elif "resumed>" in text and thread in open_calls:
            begun, start = open_calls.pop(thread)
            calls.append((begun, number, start.rstrip() + text.partition("resumed>")[2]))
        else:
            calls.append((number, number, text.strip()))
    return calls


class Order:
    """When calls of a trace were made."""

    def __init__(self, trace):
        self.calls = traced_calls(trace)

    def first(self, pattern, after=0):
        """The first such call that began after this: (where it begins, where it ends)."""
        for begun, ended, text in self.calls:
            if begun > after and re.search(pattern, text):
                return begun, ended
        raise AssertionError(f"no {pattern}")


class Traced:
    """Cases whose server runs under strace."""

    WRITES = "trace=openat,fsync,connect,sendmsg,writev,sendto,write,unlinkat,linkat,renameat"

    def strace(self, *rules):
        return "strace", "-f", "-qq", "-o", "trace", *rules

    def traced(self, *rules):
        if not (self.folder / "state" / "boot-id").exists():
            self.start_plain().stop()  # which the main thread writes only once
        return self.start_plain(before=self.strace(*rules))

    def start_plain(self, **setup):
        return self.serve(**setup)

    def at(self, name):
        """Rules for calls on this file of the state directory; without a name on the directory itself."""
        return "-P", str(self.folder / "state" / name), *(["-P", name] if name else [])

    def killed_at(self, call, name="", when=1):
        """Sends one request to a server that dies at this call. Each thread counts its own calls; the marker is the
        disk thread's."""
        return self.killed_with(*self.at(name), "-e", f"inject={call}:signal=KILL:when={when}")

    def killed_with(self, *rules):
        server = self.traced(*rules)
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.send(server)
        self.assertEqual(server.process.wait(PATIENCE), -signal.SIGKILL)
        return server

    def send(self, server):
        """The request during which the server dies."""
        server.generate()

    def order(self, server):
        """Of one request, from its beginning to the end of the server."""
        server.generate()
        server.wait_idle()
        server.stop()
        return Order((self.folder / "trace").read_text())


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Crashes(Traced, Case):

    def check_after(self, certain, uses):
        """After a restart: what is certain needs no recovery, what is not admits nobody; uses are as on the disk."""
        worked = len(self.upstream.worked())
        server = self.serve()
        self.assertEqual(server.admission()["recovery_required"], not certain)
        self.assertEqual(server.generate()[0], 200 if certain else 503)
        self.assertEqual(len(self.upstream.worked()), worked + certain)
        self.assertEqual(self.upstream.most_active, min(1, len(self.upstream.worked())))

        def counted():
            return sum(m["calls"] for m in server.own("GET", "usage")[1]["models"])
        wait_until(lambda: counted() == uses + certain, "the uses")

    def test_before_marker(self):
        """before_the_marker_is_made_nothing_was_sent"""
        self.killed_at("openat", MARKER)
        self.assertEqual(self.upstream.worked(), [])
        self.check_after(certain=True, uses=0)

    def test_marker_not_synced(self):
        """with_a_marker_that_is_not_synced_nothing_was_sent"""
        self.killed_at("fsync", MARKER)
        self.assertEqual(self.upstream.worked(), [])
        self.check_after(certain=False, uses=0)

    def test_marker_not_in_folder(self):
        """with_a_marker_whose_folder_is_not_synced_nothing_was_sent"""
        self.killed_at("fsync")
        self.assertEqual(self.upstream.worked(), [])
        self.check_after(certain=False, uses=0)

    def test_not_connected(self):
        """with_a_marker_and_no_connection_nothing_was_sent"""
        self.killed_with("-e", "inject=connect:signal=KILL:when=2")  # after the look whether there is an Ollama
        self.assertEqual(self.upstream.worked(), [])
        self.check_after(certain=False, uses=0)

    def test_marker_not_removed(self):
        """before_the_marker_is_removed_the_end_is_not_on_disk"""
        self.killed_at("unlinkat", MARKER)
        self.assertEqual(len(self.upstream.worked()), 1)
        self.check_after(certain=False, uses=self.saved())

    def test_removal_not_synced(self):
        """a_removed_marker_is_gone_also_if_that_was_not_synced"""
        # This request counts as no use, so that the folder is synced for its marker alone: when that is made, and again
        # when it has been removed.
        self.send = lambda server: server.ask("POST", "/api/unknown", {})
        server = self.killed_at("fsync", when=2)
        self.assertEqual(self.upstream.worked(), ["/api/unknown"])
        self.assertFalse(server.marker())
        calls = Order((self.folder / "trace").read_text())
        _, removed = calls.first(rf'unlinkat\(.*"{MARKER}", 0\) *= 0')
        calls.first(r"fsync\(\d+", removed)
        self.check_after(certain=True, uses=0)

    def saved(self):
        history = self.folder / "state" / "usage.json"
        return sum(m["calls"] for m in json.loads(history.read_text())["models"]) if history.exists() else 0

    def test_usage_not_named(self):
        """a_history_that_was_not_complete_leaves_the_old_one"""
        server = self.serve()
        server.generate()
        wait_until(lambda: self.saved() == 1, "the first use")
        server.stop()
        for call, when in (("fsync", 3), ("fsync", 4), ("fsync", 5), ("linkat", 1), ("linkat", 2), ("renameat", 1)):
            before = self.saved()
            server = self.traced("-e", f"inject={call}:signal=KILL:when={when}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                server.generate()
            self.assertEqual(server.process.wait(PATIENCE), -signal.SIGKILL, (call, when))
            self.assertIn(self.saved() - before, (0, 1), (call, when))
            (self.folder / "state" / MARKER).unlink(missing_ok=True)
        self.assertEqual(len(self.upstream.worked()), 7)

    def test_first_start(self):
        """a_start_that_did_not_write_which_boot_it_is_leaves_nothing_to_recover"""
        for call in "fsync", "linkat":
            server = Server(self, before=self.strace("-e", f"inject={call}:signal=KILL:when=1"))
            self.assertEqual(server.process.wait(PATIENCE), -signal.SIGKILL)
            self.assertFalse((server.state / "boot-id").exists())
        self.check_after(certain=True, uses=0)

    def test_clearing(self):
        """a_start_that_was_clearing_up_after_a_reboot_is_made_again"""
        self.serve().stop()
        state = self.folder / "state"
        for call, name in (("unlinkat", MARKER), ("fsync", ""), ("renameat", "")):
            (state / MARKER).touch()
            (state / "boot-id").write_text("00000000-0000-4000-8000-000000000000\n")
            rules = self.at(name) if name else ()
            server = Server(self, before=self.strace(*rules, "-e", f"inject={call}:signal=KILL:when=1"))
            self.assertEqual(server.process.wait(PATIENCE), -signal.SIGKILL, (call, name))
        self.check_after(certain=True, uses=0)

    def test_order(self):
        """the_marker_is_on_disk_before_the_first_byte_is_sent"""
        o = self.order(self.traced("-y", "-e", self.WRITES))
        _, made = o.first(rf'openat\(.*"{MARKER}", .*O_CREAT\|O_EXCL')
        _, file_synced = o.first(rf"fsync\(\d+<[^>]*/{MARKER}>\) *= 0", made)
        _, folder_synced = o.first(r"fsync\(\d+<[^>]*/state>\) *= 0", file_synced)
        sending, sent = o.first(r"(sendmsg|writev|sendto|write)\(.*POST /api/generate HTTP")
        self.assertLess(folder_synced, sending)
        _, removed = o.first(rf'unlinkat\(.*"{MARKER}"', sent)
        o.first(r"fsync\(\d+<[^>]*/state>\) *= 0", removed)

    def test_history_order(self):
        """a_history_is_on_disk_before_it_has_its_name_and_so_is_the_name_before_it_counts_as_written"""
        server = self.serve()
        server.generate()
        wait_until(lambda: self.saved() == 1, "the first use")
        server.stop()
        o = self.order(self.traced("-y", "-s", "100", "-e", self.WRITES))
        self.assertEqual(self.saved(), 2)
        _, written = o.first(r'write\(\d+<[^>]*/state/#\d+.*"{\\"version\\":1')
        _, synced = o.first(r"fsync\(\d+<[^>]*/state/#\d+[^>]*>.*\) *= 0", written)
        _, named = o.first(r'linkat\(.*"\.kuno-\w+\.part", AT_SYMLINK_FOLLOW\) *= 0', synced)
        _, replaced = o.first(r'renameat\(.*"usage\.json"\) *= 0', named)
        o.first(r"fsync\(\d+<[^>]*/state>\) *= 0", replaced)
        self.assertRaises(AssertionError, o.first, r'openat\(.*"usage\.json", [^)]*O_(WRONLY|RDWR|TRUNC)')


@unittest.skipIf(WHY_NOT, WHY_NOT)
class WorkerCrashes(Traced, Workers):
    """The marker is on the disk before a worker's reservation is made, and goes after it."""

    def start_plain(self, before=()):
        return self.start(before=before)

    def reserved(self):
        return sorted(path.name for path in (self.folder / "state").glob("reserved-*"))

    def killed(self, call, reserved, used):
        name = f"reserved-cpu-{self.addresses[0]}"
        self.killed_at(call, name)
        self.assertEqual(self.reserved(), [name] if reserved else [])
        self.assertEqual(len(self.notes(start="use")), used)
        again = self.start()
        self.assertTrue(again.admission()["recovery_required"])
        self.assertEqual(again.generate()[0], 503)
        self.assertEqual(self.workers(again)[0]["state"], "quarantined" if reserved else "ready")
        self.assertEqual(len(self.notes(start="use")), used)
        again.stop()
        for name in *self.reserved(), MARKER:
            (again.state / name).unlink()
        self.assertEqual(self.start().generate()[0], 200)

    def test_not_reserved(self):
        """before_a_worker_is_reserved_it_was_sent_nothing"""
        self.killed("openat", reserved=False, used=0)

    def test_not_synced(self):
        """with_a_reservation_that_is_not_synced_it_was_sent_nothing"""
        self.killed("fsync", reserved=True, used=0)

    def test_not_released(self):
        """before_a_reservation_is_removed_the_end_is_not_on_disk"""
        self.killed("unlinkat", reserved=True, used=1)

    def test_order(self):
        """a_reservation_is_on_disk_before_its_worker_is_sent_anything"""
        o = self.order(self.traced("-y", "-e", self.WRITES))
        name = f"reserved-cpu-{self.addresses[0]}"
        _, marked = o.first(rf"fsync\(\d+<[^>]*/{MARKER}>\) *= 0")
        _, made = o.first(rf'openat\(.*"{name}", .*O_CREAT\|O_EXCL', marked)
        _, file_synced = o.first(rf"fsync\(\d+<[^>]*/{name}>\) *= 0", made)
        _, folder_synced = o.first(r"fsync\(\d+<[^>]*/state>\) *= 0", file_synced)
        sending, sent = o.first(r"(sendmsg|writev|sendto|write)\(.*POST /api/generate HTTP")
        self.assertLess(folder_synced, sending)
        _, released = o.first(rf'unlinkat\(.*"{name}"', sent)
        _, on_disk = o.first(r"fsync\(\d+<[^>]*/state>\) *= 0", released)
        cleared, _ = o.first(rf'unlinkat\(.*"{MARKER}"', sent)
        self.assertLess(on_disk, cleared)


class Kills(Case):
    """kill -9 at moments that the stand-in chooses."""

    def kill_during(self, stub, when, certain):
        server = self.serve()
        with contextlib.suppress(OSError), server.start_raw(stub):
            when(server)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        self.upstream.release()
        again = Server(self).wait_ready()
        self.assertEqual(again.admission()["recovery_required"], not certain)
        self.assertEqual(again.generate()[0], 200 if certain else 503)
        if not certain:
            again.stop()
            (again.state / MARKER).unlink()
            self.assertEqual(self.serve().generate()[0], 200)

    def arrived(self, _):
        wait_until(lambda: self.upstream.active, "the request")

    def test_before_headers(self):
        """killed_before_the_answer_begins_is_not_certain"""
        self.kill_during("hold", self.arrived, certain=False)

    def test_mid_stream(self):
        """killed_in_the_middle_of_an_answer_is_not_certain"""
        self.kill_during("lines=50 gap=0.1", self.arrived, certain=False)

    def test_queued(self):
        """killed_with_others_in_line_is_not_certain_for_the_one_only"""
        def when(server):
            self.arrived(server)
            others = [server.start_raw(target="/api/generate?waits") for _ in range(3)]
            wait_until(lambda: server.admission()["queued"] == 3, "a line")
            self.addCleanup(lambda: [s.close() for s in others])
        self.kill_during("hold", when, certain=False)
        self.assertNotIn("/api/generate?waits", self.upstream.worked())

    def test_draining(self):
        """killed_while_an_answer_is_drained_is_not_certain"""
        server = self.serve()
        with server.start_raw("lines=2 stall=1") as s:  # which has no end until the test has
            s.recv(1)
            self.assertEqual(server.clients(), 1)
        wait_until(lambda: not server.clients(), "that the server has seen its client leave")
        self.assertEqual((server.admission()["active"], self.upstream.active, self.upstream.gone), (True, 1, 0))
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        again = self.serve()
        self.assertTrue(again.admission()["recovery_required"])
        self.assertEqual(again.generate()[0], 503)

    def test_stopping(self):
        """killed_while_it_stops_is_not_certain"""
        def when(server):
            self.arrived(server)
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not server.accepts(server.listen), "a closed door")
        self.kill_during("hold", when, certain=False)

    def test_metadata(self):
        """killed_while_only_metadata_passes_is_certain"""
        server = self.serve()
        server.ask("GET", "/api/tags")
        server.kill()
        self.assertFalse(self.serve().admission()["recovery_required"])

    def test_idle(self):
        """killed_after_the_work_is_certain_and_the_use_is_kept"""
        server = self.serve()
        server.generate()
        server.wait_idle()
        wait_until(lambda: (server.state / "usage.json").exists(), "the history")
        server.kill()
        again = self.serve()
        self.assertFalse(again.admission()["recovery_required"])
        self.assertEqual(again.own("GET", "usage")[1]["models"][0]["calls"], 1)

    def test_paused(self):
        """a_pause_does_not_outlive_the_server"""
        server = self.serve()
        server.own("POST", "admission/pause")
        server.kill()
        self.assertEqual(self.serve().admission()["state"], "open")

    def test_reboot(self):
        """another_boot_of_the_machine_ends_uncertainty"""
        server = self.serve()
        with server.start_raw("hold"):
            self.arrived(server)
            server.kill()
        self.upstream.release()
        (server.state / "boot-id").write_text("00000000-0000-4000-8000-000000000000\n")
        again = self.serve()
        self.assertFalse(again.admission()["recovery_required"])
        self.assertIn("nothing of it can be running", again.text())
        self.assertEqual(again.generate()[0], 200)

    def test_corrupt(self):
        """a_marker_with_content_is_a_persons_to_judge"""
        server = self.serve()
        server.stop()
        (server.state / MARKER).write_text("x")
        (server.state / "boot-id").write_text("00000000-0000-4000-8000-000000000000\n")
        self.assertTrue(self.serve().admission()["recovery_required"])


if __name__ == "__main__":
    tap.main()
