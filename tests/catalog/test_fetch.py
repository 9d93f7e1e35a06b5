"""Downloads from servers of all kinds: the file is right in the end, or it is not there."""

import json
import os
import re
import stat
import subprocess
import unittest

import fetching
import files
import kuno
import tap
from fetching import ENDED, INVALID, Fetching
from server import Server

MIB = 1 << 20


def first_request(change):
    """A behaviour of a server that is bad once."""
    def behave(request, reply):
        if request.number == 0:
            change(reply)
    return behave


def cut_after(n):
    return first_request(lambda reply: setattr(reply, "cut", n))


def slowly(_, reply):
    reply.bytes_per_second = 2 * MIB


class Scenarios(Fetching):
    """One test for each of the recorded scenarios, by its name."""

    def test_range_ignored(self):
        with Server("small", cut_after(1_000_000), ranges=False) as server:
            self.assert_fetched("small", self.fetch("small", server))
        self.assertEqual([r.first for r in server.requests], [0, 1_000_000])
        self.assertEqual(server.sent, 4_000_000)

    def test_range_honoured(self):
        with Server("small", cut_after(1_000_000)) as server:
            self.assert_fetched("small", self.fetch("small", server))
        self.assertEqual([r.first for r in server.requests], [0, 1_000_000])
        self.assertEqual(server.sent, 3_000_000)

    def test_etag_changed(self):
        def behave(request, reply):
            reply.cut = 1_000_000 if request.number == 0 else None
            server.etag = '"second"'
        with Server("small", behave) as server:
            self.assert_fetched("small", self.fetch("small", server))
        self.assertEqual(server.requests[1].fields["if-range"], '"first"')
        self.assertEqual(server.sent, 4_000_000)

    def test_hash_wrong(self):
        def behave(_, reply):
            reply.body = bytearray(reply.body)
            reply.body[-1] ^= 1
        with Server("small", behave) as server:
            result = self.fetch("small", server)
        self.assert_refused("small", result, files.sha256("small"), "by hand", code=INVALID)
        self.assertEqual(len(set(re.findall(r"\b[0-9a-f]{64}\b", result.err))), 2)
        self.assertEqual(self.leftovers(), [])

    def test_what_is_in_the_place_of_the_unfinished_file_is_told(self):
        part = self.place("small").with_suffix(".safetensors.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        theirs = part.with_name("theirs")
        theirs.write_bytes(b"theirs")
        os.link(theirs, part)
        with Server("small") as server:
            self.assert_refused("small", self.fetch("small", server), "another name", code=INVALID)
            self.assertEqual(theirs.read_bytes(), b"theirs")
            theirs.unlink()
            result = self.fetch("small", server)
            self.assert_fetched("small", result)
            self.assertIn("was of another size, with 6 bytes; it was emptied", result.err)
            self.place("small").unlink()
            self.assertNotIn("emptied", self.fetch("small", server).err)

    def test_disk_full(self):
        with Server("small") as server:
            result = self.fetch("too-large", server)
            self.assert_refused("small", result, "more on the disk", code=INVALID)
            self.assertEqual(server.requests, [])

    # All that is missing is the name: nothing is asked for, and what is there is hashed.
    def test_complete_416(self):
        with Server("large") as server:
            self.assert_fetched("large", self.fetch("large", server))
        whole, part = self.place("large"), self.place("large").with_suffix(".safetensors.part")
        for content, right in ((whole.read_bytes(), True), (bytes(files.BYTES["large"]), False)):
            whole.unlink(missing_ok=True)
            part.write_bytes(content)
            lines = ["kuno-download 1", f"bytes {len(content)}", f"sha256 {files.sha256('large')}", "piece 8388608",
                     *(f"done {i}" for i in range(6))]
            part.with_suffix(".part.journal").write_text("\n".join(lines) + "\n")
            with Server("large", lambda _, reply: setattr(reply, "status", 416)) as server:
                result = self.fetch("large", server)
            if right:
                self.assert_fetched("large", result)
                self.assertEqual(server.requests, [])
            else:
                self.assert_refused("large", result)

    # It is tried again, goes on where it stopped, and says that it is stalled meanwhile.
    def test_stall(self):
        self.TIMEOUT = "1"
        with Server("small", first_request(lambda reply: setattr(reply, "stall", 10_000))) as server:
            self.assert_fetched("small", self.fetch("small", server))
        self.assertEqual([r.first for r in server.requests], [0, 10_000])

    def test_kill(self):
        with Server("huge", slowly) as server:
            process = self.start(*self.arguments("huge", server), stderr=subprocess.DEVNULL)
            journal = self.place("huge").with_suffix(".safetensors.part.journal")
            self.wait_for(lambda: journal.exists() and journal.read_text().count("done") >= 3)
            process.kill()
            process.wait(kuno.HANG_SECONDS)
            self.assertFalse(self.place("huge").exists())
            done = journal.read_text().count("done") * 8 * MIB
            server.behave, asked = None, len(server.requests)
            self.assert_fetched("huge", self.fetch("huge", server))
            self.assertLessEqual(server.asked_bytes(asked), files.BYTES["huge"] - done)


class ScenariosAreComplete(unittest.TestCase):
    def test_each_recorded_scenario_is_tried(self):
        for scenario in fetching.SCENARIOS:
            self.assertTrue(hasattr(Scenarios, "test_" + scenario["id"].replace("-", "_")), scenario["id"])


class Servers(Fetching):
    def test_large_files_come_over_eight_connections_and_small_ones_over_one(self):
        for name, connections in (("huge", 8), ("small", 1)):
            with Server(name, lambda request, reply: setattr(reply, "delay", 0.3)) as server:
                self.assert_fetched(name, self.fetch(name, server))
            self.assertEqual(server.connections, connections)
            self.assertEqual(server.asked_bytes(), files.BYTES[name])
            for request in server.requests:
                self.assertEqual(request.fields["accept-encoding"], "identity")
                self.assertTrue(request.fields["user-agent"].startswith("kuno/"))

    def test_a_server_without_ranges_sends_the_whole_once(self):
        with Server("large", ranges=False) as server:
            self.assert_fetched("large", self.fetch("large", server))
        self.assertEqual(len(server.requests), 1)

    def test_a_wrong_content_range_is_never_taken_for_the_right_one(self):
        size = files.BYTES["small"]
        for line in (f"bytes 1-{size - 1}/{size}", f"bytes 0-{size}/{size}", f"bytes 0-{size - 1}", "bytes 9-3/10",
                     f"bytes 0-{size - 1}/{size}, bytes 0-1/2", None, f"bits 0-{size - 1}/{size}"):
            with Server("small", lambda _, r, v=line: r.fields.update({"Content-Range": v})) as server:
                self.assert_refused("small", self.fetch("small", server), "other bytes than those")
                self.assertEqual(len(server.requests), 3)

    def test_a_file_of_another_size_is_refused_at_once(self):
        size = files.BYTES["small"]

        def shorter(request, reply):
            reply.body = reply.body[:-5]
            if reply.status == 206:
                reply.fields["Content-Range"] = f"bytes 0-{size - 6}/{size - 5}"
        for ranges in (True, False):
            with Server("small", shorter, ranges=ranges) as server:
                result = self.fetch("small", server)
                self.assert_refused("small", result, f"{size - 5} bytes", f"{size}", code=INVALID)
                self.assertEqual(len(server.requests), 1)

    def test_what_breaks_off_or_is_reset_goes_on_where_it_was(self):
        for kind in ("cut", "reset"):
            def behave(request, reply, kind=kind):
                if request.number < 5:
                    setattr(reply, kind, 300_000)
            with Server("large", behave) as server:
                self.assert_fetched("large", self.fetch("large", server))
            self.place("large").unlink()
            if kind == "cut":  # what was reset may be lost on its way
                self.assertGreaterEqual(sum(r.first % (8 * MIB) == 300_000 for r in server.requests), 1)

    def test_a_server_that_always_breaks_off_and_cannot_resume_is_given_up(self):
        with Server("small", lambda _, reply: setattr(reply, "cut", 1_000_000), ranges=False) as server:
            self.assert_refused("small", self.fetch("small", server), "began anew")
        self.assertLess(len(server.requests), 10)

    # What the slow one has before it is fetched by others in the end.
    def test_one_slow_connection_does_not_keep_the_others_waiting(self):
        def behave(request, reply):
            if request.number == 1:
                reply.bytes_per_second = 200_000
        with Server("large", behave) as server:
            result = self.fetch("large", server)
        self.assert_fetched("large", result)
        self.assertLess(result.seconds, 8 * MIB / 200_000 / 2)

    def test_redirects_are_followed_and_remembered(self):
        def elsewhere(request, reply):
            if "/resolve/" in request.path:
                reply.status, reply.body = 302, b""
                reply.fields = {"Location": f"{server.url}/found/large.safetensors?signed=1"}
            else:
                right = server.right_reply(type(request)(0, request_head(request)))
                reply.status, reply.fields, reply.body = right.status, right.fields, right.body

        def request_head(request):
            lines = ["GET /x/large.safetensors HTTP/1.1"] + [f"{k}: {v}" for k, v in request.fields.items()]
            return "\r\n".join(lines).encode()
        with Server("large", elsewhere) as server:
            self.assert_fetched("large", self.fetch("large", server))
        self.assertEqual(sum("/resolve/" in r.path for r in server.requests), 1)

    def test_redirects_without_an_end_or_to_strangers_are_not_followed(self):
        for target, says in (("{url}/tests/models/resolve/x/small.safetensors", "without an end"),
                             ("http://example.org/small.safetensors", "must be https"),
                             ("https://strangers.example/small.safetensors", "'strangers.example'"),
                             ("https://example.org.evil.test/a", "'example.org.evil.test'"),
                             ("file:///etc/passwd", "no address"),
                             ("https://user:word@example.org/a", "user's name")):
            def behave(_, reply, target=target):
                reply.status, reply.body, reply.fields = 302, b"", {"Location": target.format(url=server.url)}
            with Server("small", behave) as server:
                result = self.fetch("small", server)
                self.assertNotEqual(result.code, ENDED)
                self.assert_refused("small", result, says, code=result.code)
                self.assertLessEqual(len(server.requests), 6)

    def test_a_server_that_asks_to_wait_is_heard(self):
        def behave(request, reply):
            if request.number == 0:
                reply.status, reply.body, reply.fields = 503, b"later", {"Retry-After": "2"}
        with Server("small", behave) as server:
            result = self.fetch("small", server)
        self.assert_fetched("small", result)
        self.assertGreater(result.seconds, 2)

    def test_what_the_server_did_is_told_in_whole_sentences(self):
        def wait(seconds):
            def behave(_, reply):
                reply.status, reply.body, reply.fields = 503, b"", {"Retry-After": seconds}
            return behave

        def behind_a_long_line(_, reply):
            reply.fields["X-Long"] = "y" * (5 * MIB)
        for behave, says in ((lambda _, reply: reply.fields.update({"Content-Range": "nonsense"}),
                              "the server sends other bytes than those that it was asked for, again and again; try"),
                             (lambda _, reply: reply.fields.update({"Content-Encoding": "gzip", "Content-Range": None}),
                              "other bytes than those that it was asked for"),
                             (behind_a_long_line, "a line of the server's answer is too long"),
                             (wait("1200"), "the server asks to come again in 20 minutes"),
                             (wait("99999999999"), "the server asks not to come again for more than a day")):
            with Server("small", behave) as server:
                result = self.fetch("small", server)
            self.assert_refused("small", result, says)
            self.assertNotIn("…", result.err)

    def test_a_file_that_moved_is_told_with_its_page_and_its_place(self):
        def behave(_, reply):
            reply.status, reply.body = 404, b"<html>"
        with Server("small", behave) as server:
            result = self.fetch("small", server)
        page = f"https://models.example.org/tests/models/tree/{files.REVISION}"
        self.assert_refused("small", result, "(404)", page, str(self.place("small")), code=INVALID)
        self.assertEqual(len(server.requests), 1)

    def test_a_server_that_is_not_there_is_told(self):
        with Server("small") as server:
            pass
        self.assert_refused("small", self.fetch("small", server), "again and again")

    def test_compressed_answers_are_refused(self):
        with Server("small", lambda _, reply: reply.fields.update({"Content-Encoding": "gzip"})) as server:
            self.assert_refused("small", self.fetch("small", server))


class Files(Fetching):
    def test_a_collection_is_fetched_and_then_found_complete(self):
        with Server("small", more=["medium"]) as server:
            first = self.fetch("two", server, "--json")
            asked = len(server.requests)
            second = self.fetch("two", server, "--json")
            self.assertEqual(len(server.requests), asked)
        for result, was_there in ((first, False), (second, True)):
            self.assertEqual(result.code, ENDED, result.err)
            told = json.loads(result.out)
            self.assertEqual([(f["id"], f["sha256"], f["was_there"]) for f in told["files"]],
                             [(name, files.sha256(name), was_there) for name in ("small", "medium")])
        offline = self.fetch("two", None, "--offline")
        self.assertEqual(offline.code, ENDED, offline.err)
        self.assertEqual(stat.S_IMODE(os.stat(self.place("small")).st_mode), 0o644)

    def test_a_file_of_that_name_is_never_touched(self):
        self.place("small").parent.mkdir(parents=True)
        for content in (b"mine", bytes(files.BYTES["small"])):
            self.place("small").write_bytes(content)
            with Server("small") as server:
                result = self.fetch("small", server)
                self.assertEqual(server.requests, [])
            self.assertEqual(result.code, INVALID)
            self.assertIn("left as it is", result.err)
            self.assertEqual(self.place("small").read_bytes(), content)
            self.assertEqual(self.leftovers(), [])

    def test_a_file_made_meanwhile_is_not_replaced(self):
        def behave(_, reply):
            self.place("small").write_bytes(b"mine")
        with Server("small", behave) as server:
            result = self.fetch("small", server)
        self.assertEqual(result.code, INVALID)
        self.assertEqual(self.place("small").read_bytes(), b"mine")

    def test_two_at_once_do_not_meet(self):
        def behave(_, reply):
            reply.bytes_per_second = MIB // 16
        with Server("small", behave) as server:
            first = self.start(*self.arguments("small", server), stderr=subprocess.DEVNULL)
            self.wait_for(lambda: server.requests)
            second = self.fetch("small", server)
            self.assertEqual(second.code, INVALID)
            self.assertIn("another process", second.err)
            server.hurry.set()
            self.assertEqual(first.wait(kuno.HANG_SECONDS), ENDED)
        self.assertTrue(self.is_right("small"))

    def test_what_the_journal_says_of_another_file_is_not_believed(self):
        part = self.place("large").with_suffix(".safetensors.part")
        part.parent.mkdir(parents=True)
        head = ["kuno-download 1", f"bytes {files.BYTES['large']}", f"sha256 {files.sha256('large')}", "piece 8388608"]
        done = [f"done {i}" for i in range(6)]
        for text in ("\n".join([*head[:2], "sha256 " + "0" * 64, head[3], *done, ""]),
                     "\n".join([*head[:3], "piece 4096", *done, ""]), "\0" * 5000, "kuno-download 2\n",
                     "\n".join([*head, "done 6", "done -1", "done 99999999999999999999", *done, ""]),
                     "\n".join([*head, "done 0"])):
            part.write_bytes(bytes(files.BYTES["large"]))
            part.with_suffix(".part.journal").write_text(text)
            with Server("large") as server:
                self.assert_fetched("large", self.fetch("large", server))
                self.assertEqual(server.asked_bytes(), files.BYTES["large"])
            self.place("large").unlink()

    def test_wrong_bytes_of_an_earlier_call_cost_another_fetch_and_no_more(self):
        part = self.place("large").with_suffix(".safetensors.part")
        part.parent.mkdir(parents=True)
        part.write_bytes(bytes(files.BYTES["large"]))
        part.with_suffix(".part.journal").write_text(
            f"kuno-download 1\nbytes {files.BYTES['large']}\nsha256 {files.sha256('large')}\npiece 8388608\ndone 0\n")
        with Server("large") as server:
            self.assert_fetched("large", self.fetch("large", server))

    # Whatever an earlier call left, and however the server sends: the name is given to the right bytes or to none.
    def test_what_was_left_too_long_or_too_short_never_gets_the_name(self):
        for name in ("small", "large"):
            size = files.BYTES[name]
            part = self.place(name).with_suffix(".safetensors.part")
            part.parent.mkdir(parents=True, exist_ok=True)
            head = f"kuno-download 1\nbytes {size}\nsha256 {files.sha256(name)}\npiece 8388608\n"
            for content, journal, ranges in ((bytes(3 * size), None, True), (bytes(3 * size), "junk", False),
                                             (files.content(name) + b"tail", head + "done 0\n", True),
                                             (files.content(name)[:-1], head + "done 0\n", False)):
                part.write_bytes(content)
                if journal:
                    part.with_suffix(".part.journal").write_text(journal)
                with Server(name, ranges=ranges) as server:
                    self.assert_fetched(name, self.fetch(name, server))
                self.place(name).unlink()

    def test_what_another_program_writes_meanwhile_is_noticed(self):
        part = self.place("small").with_suffix(".safetensors.part")

        def lengthen(_, __):
            with open(part, "ab") as file:
                file.write(b"tail")

        def replace(_, __):
            part.unlink()
            part.write_bytes(bytes(files.BYTES["small"]))
        for behave in (lengthen, replace):
            with Server("small", behave) as server:
                self.assert_refused("small", self.fetch("small", server), "another program", code=INVALID)
            self.assertEqual(self.leftovers(), [])

    def test_what_fails_before_the_first_byte_leaves_nothing(self):
        def answer(status, **fields):
            def behave(_, reply):
                reply.status, reply.body = status, b""
                reply.fields = {name: value.format(url=server.url) for name, value in fields.items()}
            return behave

        def longer(_, reply):
            reply.status, reply.fields, reply.body = 200, {}, bytes(reply.body) + b"tail"
        for name, behave in (("small", answer(404)), ("large", answer(403)), ("small", answer(500)),
                             ("small", answer(302, Location="{url}/again")), ("large", longer),
                             ("large", lambda _, reply: setattr(reply, "cut", 0))):
            with Server(name, behave) as server:
                result = self.fetch(name, server)
                self.assert_refused(name, result, code=result.code)
                self.assertNotEqual(result.code, ENDED)
                self.assertNotIn("is kept", result.err)
                self.assertEqual(self.leftovers(), [])

    def test_stopping_keeps_what_has_come_to_the_byte(self):
        with Server("huge", slowly) as server:
            process = self.start(*self.arguments("huge", server), stderr=subprocess.DEVNULL)
            self.wait_for(lambda: server.sent >= 60 * MIB)
            process.terminate()
            self.assertEqual(process.wait(kuno.HANG_SECONDS), 130)
            self.assertEqual(len(self.leftovers()), 2)
            server.behave, asked = None, len(server.requests)
            self.assert_fetched("huge", self.fetch("huge", server))
            # Some was still on its way when nobody wanted it any more.
            self.assertLess(server.asked_bytes(asked), files.BYTES["huge"] - 10 * MIB)

    # The limit on the size of files stands for a disk that is full.
    def test_a_full_disk_ends_it_and_the_rest_goes_on_later(self):
        with Server("large") as server:
            result = self.fetch("large", server, before=("sh", "-c", 'ulimit -f 20480; exec "$@"', "sh"))
            self.assert_refused("large", result, code=INVALID)
            self.assertEqual(server.requests, [])
            self.assert_fetched("large", self.fetch("large", server))

    def test_a_disk_that_is_too_small_is_seen_before_the_first_byte(self):
        script = 'mount -t tmpfs -o size=20m none "$0" && exec "$@"'
        if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
            self.skipTest("this machine gives no namespace of its own for a small disk")
        self.models.mkdir()
        with Server("large") as server:
            result = self.fetch("large", server, before=("unshare", "-rm", "sh", "-c", script, str(self.models)))
            self.assert_refused("large", result, "are free", code=INVALID)
            self.assertEqual(server.requests, [])


class Words(Fetching):
    def test_collections_are_listed_with_sizes_and_licences(self):
        told = self.kuno("fetch-models")
        self.assertEqual(told.code, ENDED)
        self.assertIn(b"two  Two of them, 21.9 MB\n  vae/small.safetensors  3.0 MB, Free Licence\n", told.out)
        listed = json.loads(self.kuno("fetch-models", "--json").out)["collections"]
        self.assertEqual([c["id"] for c in listed], ["two", "too-large", "demo-again"])
        self.assertEqual(listed[0]["files"][0]["sha256"], files.sha256("small"))

    def test_without_a_word_of_agreement_nothing_is_fetched(self):
        with Server("small") as server:
            result = self.kuno("fetch-models", "small", "-d", str(self.models), "--mirror", server.url)
            self.assert_refused("small", result, "Free Licence", "https://example.org/licence", "--accept-licence",
                                code=INVALID)
            self.assertEqual(server.requests, [])

    def test_offline_nothing_is_asked_for(self):
        if subprocess.run(["strace", "-f", "-e", "trace=none", "true"], capture_output=True, check=False).returncode:
            self.skipTest("strace is not permitted here")
        traced = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}  # not under a tracer
        result = self.fetch("small", None, "--offline", env=traced,
                            before=("strace", "-f", "-qq", "-e", "trace=socket", "-o", str(self.root / "trace")))
        self.assert_refused("small", result, "offline", code=INVALID)
        self.assertNotIn("AF_INET", (self.root / "trace").read_text())

    def test_mirrors_are_https_or_on_this_machine(self):
        for mirror, says in (("http://example.org", "must be https"), ("ftp://example.org", "must be https"),
                             ("nonsense", "address"), ("https://a:b@example.org", "user's name"),
                             ("https://example.org/?a", "no '?'"), ("http://127.0.0.1.example.org", "must be https"),
                             ("http://[::1", "address")):
            result = self.kuno("fetch-models", "small", "-d", str(self.models), "--accept-licence", "--mirror", mirror)
            self.assert_refused("small", result, says, code=INVALID)

    def test_mistakes_are_told(self):
        for arguments, says in ((["tow", "-d", "m"], "did you mean 'two'?"), (["two"], "--directory"),
                                (["two", "-d", "m", "--offline", "--mirror", "https://a"], "--offline")):
            result = self.kuno("fetch-models", *arguments)
            self.assertEqual((result.code, result.out), (INVALID, b""))
            self.assert_one_message(result.err)
            self.assertIn(says, result.err)
            self.assertEqual(kuno.everything_in(self.folder), [])

    def test_progress_is_told_in_plain_lines(self):
        def behave(_, reply):
            reply.bytes_per_second = 1 * MIB
        with Server("small", behave) as server:
            result = self.fetch("small", server)
            self.assert_fetched("small", result)
            self.assertRegex(result.err, r"small\.safetensors: fetching, [0-9.]+ MB of 3\.0 MB, [0-9.]+ [kM]B/s, about")
            self.assertIn("small.safetensors: fetched, the SHA-256 is right", result.err)
            self.place("small").unlink()
            quiet = self.fetch("small", server, "--quiet")
            self.assertEqual((quiet.code, quiet.err), (ENDED, ""))


tap.main()
