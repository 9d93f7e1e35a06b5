"""What a worker that has been taken over cannot do: everything is tried from inside, where pictures are read."""

import ctypes
import os
import signal
import unittest

import tap
from worker import FAILED, PROBED, READY, WorkerCase

LANDLOCK_CREATE_RULESET = 444


def landlock_abi():
    return ctypes.CDLL(None, use_errno=True).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)


class Sandbox(WorkerCase):
    """Files with which something is tried: `file` and `folder` exist, `new` does not."""

    def setUp(self):
        super().setUp()
        self.file, self.new, self.sub = self.folder / "file", self.folder / "new", self.folder / "sub"
        self.file.write_bytes(b"data")
        self.sub.mkdir()

    def try_all(self, trials, missing):
        """Each in one session after the other: none of them may be in the way of the next."""
        with self.session(program=PROBED) as session:
            kind, words = session.hear()
            self.assertEqual(kind, READY)
            for part in missing:
                if part in words.decode().split():
                    raise unittest.SkipTest(f"this machine has no sandbox for {part}")
            got = []
            for name, argument, _ in trials:
                kind, said = session.read_picture(f"probe {name} {argument}".encode())
                word, how = said.decode().split("\n")
                self.assertEqual((kind, word), (FAILED, "image_reference_invalid"))
                got.append((name, str(argument), how))
            self.assertEqual(got, [(name, str(argument), f"{name}: {want}") for name, argument, want in trials])
        self.assertEqual(self.file.read_bytes(), b"data")
        self.assertEqual(sorted(os.listdir(self.folder)), ["file", "sub"])

    def test_files(self):
        """opens_no_file_for_writing"""
        self.try_all([(name, self.file, "EACCES") for name in (
            "write", "read_and_write", "append", "open_and_cut", "descriptor", "descriptor_of_thread", "root_of_thread",
            "write_in_thread")]
            + [("create", self.new, "EACCES"), ("folder_of_thread", "new", "EACCES"), ("name_of_process", "", "EACCES"),
               ("nameless", self.folder, "EACCES"),
               ("create", "/dev/shm/kuno-test", "EACCES"), ("read_and_write", "/dev/zero", "EACCES")], ["files"])

    def test_names(self):
        """makes_removes_and_cuts_nothing"""
        self.try_all([(name, self.file, "EPERM") for name in ("truncate", "link", "rename", "unlink")]
                     + [(name, self.new, "EPERM") for name in ("mkdir", "fifo", "symlink")]
                     + [("rmdir", self.sub, "EPERM")], ["system-calls"])

    def test_attributes(self):
        """changes_no_attributes_of_files"""
        self.try_all([(name, self.file, "EPERM") for name in ("chmod", "utimes", "setxattr")], ["system-calls"])

    def test_network(self):
        """reaches_no_network_and_no_other_program"""
        self.try_all([("internet", "", "EAFNOSUPPORT"), ("netlink", "", "EAFNOSUPPORT"), ("bind", self.new, "EPERM"),
                      ("connect", self.new, "EPERM"), ("exec", "/bin/true", "EPERM"), ("fork", "", "EPERM"),
                      ("exec_memory", "", "EPERM"), ("ring", "", "EPERM")], ["system-calls"])

    def test_signals(self):
        """reaches_no_process_by_signals_and_no_user_by_keys"""
        self.try_all([(name, "", "EPERM") for name in
                      ("signal", "owner", "owner_of_socket", "pidfd", "key", "key_by_half")], ["system-calls"])

    def test_scheduling(self):
        """gives_no_process_less_of_the_processor_itself_included"""
        self.try_all([(name, "", "EPERM") for name in ("priority", "own_priority", "scheduler", "affinity")],
                     ["system-calls"])

    def test_processes(self):
        """sees_nothing_of_other_processes"""
        self.try_all([("parent", name, "EACCES") for name in
                      ("cmdline", "environ", "maps", "mem", "status", "stat", "comm", "exe", "root/etc/hostname")]
                     + [("read", "/proc/1/status", "EACCES"), ("folder", "/proc", "EACCES"),
                        ("folder", "/proc/1", "EACCES"), ("folder", "/proc/1/task", "EACCES"),
                        *[("read", path, "EACCES") for path in ("/proc/kcore", "/proc/kmsg") if os.path.exists(path)]],
                     ["files"])

    def test_needed(self):
        """can_do_what_computing_and_drivers_need"""
        self.try_all([("read", self.file, "done"), ("read", "/proc/meminfo", "done"),
                      ("read", "/proc/self/status", "done"), ("read_and_write", "/dev/null", "done"),
                      ("thread_name", "", "done"), ("memfd", "", "done")], ["files", "system-calls"])

    def test_privacy(self):
        """leaves_no_core_and_cannot_be_looked_into"""
        self.try_all([("dumpable", "", "EPERM"), ("dumpable_by_half", "", "EPERM"), ("is_dumpable", "", "0")],
                     ["system-calls"])
        with self.session(program=PROBED) as session:
            session.hear()
            limits = open(f"/proc/{session.process.pid}/limits", encoding="ascii").read()
            self.assertRegex(limits, r"Max core file size +0 +0 ")
            status = open(f"/proc/{session.process.pid}/status", encoding="ascii").read()
            self.assertRegex(status, r"NoNewPrivs:\s1\n")
            self.assertRegex(status, r"Seccomp:\s2\n")

    def test_inherited(self):
        """keeps_nothing_open_that_it_was_started_with"""
        with open(self.file, "ab") as leaked:
            with self.session(program=PROBED, pass_fds=[leaked.fileno()]) as session:
                session.hear()
                kind, said = session.read_picture(b"probe descriptors_open x")
                self.assertEqual((kind, said), (FAILED, b"image_reference_invalid\ndescriptors_open: 0"))

    def test_deadly(self):
        """dies_of_what_no_driver_does"""
        for name in ("ptrace", "memory_of_parent"):
            with self.session(program=PROBED) as session:
                if "system-calls" in session.hear()[1].decode():
                    raise unittest.SkipTest("this machine has no sandbox for system-calls")
                with self.assertRaises(EOFError):
                    session.read_picture(f"probe {name} x".encode())
                self.assertEqual(session.end(), (-signal.SIGSYS, ""))

    def test_is_complete(self):
        """is_complete_where_the_kernel_has_landlock"""
        if landlock_abi() < 3:
            raise unittest.SkipTest("the kernel has no Landlock of version 3")
        with self.session() as session:
            kind, missing = session.hear()
            self.assertEqual(kind, READY)
            self.assertLessEqual(set(missing.decode().split()), {"swap"})

    def test_required(self):
        """works_when_all_is_there_or_refuses_when_all_is_required"""
        with self.session() as session:
            missing = session.hear()[1].decode()
        result = self.worker(b'{"prompt": "a boat"}', isolation="required")
        if missing:
            self.assertEqual((result.returncode, result.stdout, result.stderr), (1, b"", b"image_isolation_missing\n"))
        else:
            self.assertEqual((result.returncode, result.stderr), (0, b""))


tap.main()
