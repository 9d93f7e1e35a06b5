"""Nothing leaves the machine, and nothing is written but what was asked for."""

import os
import re
import shutil
import subprocess
import unittest

import tap
from kuno import TINY_PICTURE, Case, everything_in, needs_namespaces
from png import Picture


def strace():
    if not shutil.which("strace"):
        raise unittest.SkipTest("strace is not installed")
    tried = subprocess.run(["strace", "-f", "-e", "trace=none", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise unittest.SkipTest(f"strace is not permitted here: {tried.stderr.strip()}")
    return ["strace", "-f", "-qq"]


# The leak checker of a sanitizer build cannot work while the program is traced.
TRACED = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}

REQUESTS = {"demo": ["a boat"], "tiny": ["a boat", *TINY_PICTURE, "--json", "--dump", "."]}


class Isolation(Case):
    def calls(self, kinds, *args):
        log = self.inputs / "calls"
        result = self.kuno(*args, before=[*strace(), "-e", f"trace={kinds}", "-o", str(log)], env=TRACED)
        self.assertEqual(result.code, 0, result.err)
        return log.read_text(errors="replace").splitlines()

    def test_sockets(self):
        """makes_no_socket_call_while_it_draws"""
        for request in REQUESTS.values():
            self.assertEqual(self.calls("%network", "generate", *request), [])

    def test_sockets_inspect(self):
        """makes_no_socket_call_while_it_inspects"""
        self.assertEqual(self.calls("%network", "inspect-models"), [])

    def test_trace_sees(self):
        """would_see_a_socket_call_if_there_were_one"""
        log = self.inputs / "calls"
        script = "import socket; socket.socket().close()"
        subprocess.run([*strace(), "-e", "trace=%network", "-o", str(log), "python3", "-c", script], check=True)
        self.assertIn("socket(", log.read_text())

    def test_no_network(self):
        """draws_where_there_is_no_network"""
        for request in REQUESTS.values():
            self.draws(*request, before=needs_namespaces("--net"))
            Picture((self.folder / "output.png").read_bytes())

    def test_no_processes(self):
        """starts_no_other_program"""
        calls = self.calls("execve,fork,vfork", "generate", "a boat")
        self.assertEqual(len([call for call in calls if "execve(" in call]), 1, calls)
        self.assertEqual(len(calls), 1, calls)

    def test_writes(self):
        """opens_nothing_for_writing_but_in_the_folder_of_the_picture"""
        calls = self.calls("open,openat,creat", "generate", "a boat", "--output", f"{self.folder}/boat.png")
        for call in calls:
            if re.search(r"O_WRONLY|O_RDWR|O_CREAT|creat\(", call):
                self.assertRegex(call, r'openat\(\d+, "(\.|boat\.png|\.kuno-[0-9a-f]{16}\.part)", ')
        self.assertEqual(everything_in(self.root), ["folder", "folder/boat.png", "home", "inputs", "inputs/calls"])

    def test_read_only(self):
        """draws_to_standard_output_where_no_file_can_be_made"""
        self.folder.chmod(0o555)
        self.home.chmod(0o555)
        Picture(self.draws("a boat", "--output", "-").out)
        self.assertEqual(everything_in(self.root), ["folder", "home", "inputs"])

    def test_no_environment(self):
        """draws_without_any_environment"""
        result = self.draws("a boat", before=["env", "-i"])
        self.assertEqual(result.out.count(b"\n"), 1)

    def test_no_home(self):
        """draws_when_the_home_folder_is_missing"""
        self.draws("a boat", env={"HOME": "/nonexistent"})


if __name__ == "__main__":
    tap.main()
