"""`kuno open`: the service is found or started, and the browser gets a link that is good once."""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import tap
from ports import free_ports
from studio.rig import PATIENCE, TOKEN

PROGRAM = os.environ["KUNO"]
LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/#link=([0-9a-f]{64})")


class Open(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kuno-open-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.listen, control, upstream, self.port = free_ports(4)
        (self.folder / "models.toml").touch()
        (self.folder / "config.json").write_text(json.dumps({
            "listen": f"127.0.0.1:{self.listen}", "control": f"127.0.0.1:{control}",
            "upstream": f"127.0.0.1:{upstream}",
            "state_dir": str(self.folder / "state"),
            "studio": {"listen": f"127.0.0.1:{self.port}", "models": str(self.folder / "models.toml")}}))
        self.token_file = self.folder / "token"
        self.token_file.write_text(TOKEN)
        self.token_file.chmod(0o600)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.addCleanup(self.stop)

    def ask(self, method, path, body=None, token=TOKEN):
        fields = {"Content-Type": "application/json", **({"Authorization": "Bearer " + token} if token else {})}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v1{path}", method=method, headers=fields,
                                         data=None if body is None else json.dumps(body).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read()

    def is_held(self):
        """The lock is the last thing that a service gives back."""
        with contextlib.suppress(FileNotFoundError), open(self.folder / "state" / "instance.lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def stop(self):
        with contextlib.suppress(OSError):
            self.ask("POST", "/service/stop")
        end = time.monotonic() + PATIENCE
        while self.is_held():
            self.assertLess(time.monotonic(), end, "the service does not end")
            time.sleep(0.02)

    def program(self, name, script):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def open(self, *options, status=0, **variables):
        own = {name: os.environ[name] for name in os.environ if name.endswith("_OPTIONS")}
        own.update({"HOME": str(self.folder), "PATH": f"{self.bin}:/usr/bin:/bin", **variables})
        done = subprocess.run([PROGRAM, "open", "--config", str(self.folder / "config.json"), *options], env=own,
                              capture_output=True, text=True, timeout=4 * PATIENCE)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def printed(self, **variables):
        done = self.open("--token-file", str(self.token_file), "--print", **variables)
        port, code = LINK.fullmatch(done.stdout.strip()).groups()
        self.assertEqual(int(port), self.port)
        return code

    def test_it_starts_the_service_once_and_each_link_is_good_once(self):
        codes = [self.printed(), self.printed()]
        self.assertIn("studio at http://127.0.0.1", (self.folder / "state" / "serve.log").read_text())
        self.assertNotEqual(codes[0], codes[1])
        for code in codes:
            self.assertEqual(self.ask("POST", "/session", {"token": code}, token=None)[0], 200)
            self.assertEqual(self.ask("POST", "/session", {"token": code}, token=None)[0], 401)
        self.assertEqual(self.ask("GET", "/status")[0], 200)

    def test_several_at_once_start_one_service_and_all_get_its_link(self):
        command = [PROGRAM, "open", "--config", str(self.folder / "config.json"), "--token-file", str(self.token_file),
                   "--print"]
        for _ in range(3):
            several = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                       for _ in range(4)]
            said = [one.communicate(timeout=PATIENCE) for one in several]
            codes = {LINK.fullmatch(out.strip()).group(2) if LINK.fullmatch(out.strip()) else err for out, err in said}
            self.assertEqual(len(codes), 4, codes)
            for code in codes:
                self.assertEqual(self.ask("POST", "/session", {"token": code}, token=None)[0], 200, code)
            self.stop()
        self.assertNotIn("in use", (self.folder / "state" / "serve.log").read_text())

    def test_what_earlier_services_said_stays_until_it_is_too_much(self):
        log = self.folder / "state" / "serve.log"
        self.printed()
        self.stop()
        said = log.read_text()
        self.printed()
        self.stop()
        self.assertTrue(log.read_text().startswith(said + "kuno: "), log.read_text())
        with log.open("a") as file:
            file.write("x" * (1 << 20))
        with socket.create_server(("127.0.0.1", self.listen)):
            done = self.open("--token-file", str(self.token_file), "--print", status=1)
        self.assertIn(f"127.0.0.1:{self.listen}", done.stderr)
        self.assertTrue(log.with_name("serve.log.1").read_text().startswith(said))
        self.assertLess(log.stat().st_size, 1 << 20)

    def test_the_browser_gets_the_link_and_never_the_token(self):
        seen = self.folder / "seen"
        note = f'echo "$(basename "$0") $*" > {seen}; env >> {seen}; cat /proc/$PPID/cmdline >> {seen}'
        for name in ("chromium", "xdg-open"):
            self.program(name, note)
        for default, wanted in (("chromium.desktop", "chromium --app="), ("firefox.desktop", "xdg-open "),
                                ("", "xdg-open ")):
            self.program("xdg-settings", f"echo {default}")
            done = self.open(DISPLAY=":9", KUNO_CONTROL_TOKEN=TOKEN)
            self.assertEqual((done.stdout, done.stderr), ("", ""))
            text = seen.read_text()
            self.assertRegex(text.split("\n")[0], "^" + re.escape(wanted) + LINK.pattern + "$")
            self.assertNotIn(TOKEN, text)
            seen.unlink()
        self.program("chromium", "exit 1")  # it is the default, and no good
        self.program("xdg-settings", "echo chromium.desktop")
        self.open("--token-file", str(self.token_file), DISPLAY=":9")
        self.assertTrue(seen.read_text().startswith("xdg-open http://"))

    def test_where_there_is_no_browser_the_link_is_printed(self):
        for name in ("xdg-open", "sensible-browser"):
            self.program(name, "exit 3")
        self.program("xdg-settings", "exit 1")
        for variables in ({}, {"DISPLAY": ":9"}, {"BROWSER": "none"}):
            done = self.open("--token-file", str(self.token_file), **variables)
            self.assertRegex(done.stdout, "^" + LINK.pattern + "\n$")
            self.assertIn("no browser to be had", done.stderr)

    def test_a_service_that_cannot_begin_says_why(self):
        with socket.create_server(("127.0.0.1", self.listen)):
            done = self.open("--token-file", str(self.token_file), "--print", status=1)
        self.assertIn(f"127.0.0.1:{self.listen}", done.stderr)
        self.assertTrue(done.stderr.startswith("kuno: open: the service ends at once: "), done.stderr)

    def test_another_program_in_its_place_gets_no_token(self):
        with socket.create_server(("127.0.0.1", self.port)) as other:
            other.settimeout(PATIENCE)
            process = subprocess.Popen([PROGRAM, "open", "--config", str(self.folder / "config.json"), "--print",
                                        "--token-file", str(self.token_file)], stderr=subprocess.PIPE, text=True)
            connection, _ = other.accept()
            with connection:
                connection.settimeout(PATIENCE)
                asked = connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                self.assertNotIn(TOKEN.encode(), asked)
                said = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 2)
        self.assertIn("is not Kuno's studio", said)

    def test_a_wrong_token_is_said(self):
        self.printed()
        other = self.folder / "other"
        other.write_text("x" * 40)
        other.chmod(0o600)
        self.assertIn("the token is not", self.open("--token-file", str(other), "--print", status=2).stderr)
        missing = self.open("--token-file", str(self.folder / "none"), "--print", status=2)
        self.assertIn("none", missing.stderr)


tap.main()
