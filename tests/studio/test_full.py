"""`kuno serve` on a disk that is full: nothing half is left, nothing is lost, and it goes on when there is room.

The disk is a small one of its own, in memory, that only this process and its children see.
"""

import contextlib
import ctypes
import errno
import os
import random
import signal
import tempfile
import time
import unittest

import tap
from studio import agreement
from studio.crowd import Crowd
from studio.rig import PATIENCE, png
from studio.serve import Serve

JOBS = int(os.environ.get("STRESS_JOBS", "30"))
CLIENTS = int(os.environ.get("STRESS_CLIENTS", "10"))
TIMES = int(os.environ.get("STRESS_FULL", "4"))
DISK_BYTES = 128 << 20
CLONE_NEWNS, CLONE_NEWUSER, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 0x4000, 0x40000
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def mount_own_disk(folder):
    """Where nobody else sees it; whoever is not root becomes that of a world of its own first."""
    user, group = os.geteuid(), os.getegid()
    checked(LIBC.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user else 0)))
    if user:
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"0 {user} 1")
        write("/proc/self/gid_map", f"0 {group} 1")
    checked(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    checked(LIBC.mount(b"kuno", os.fsencode(folder), b"tmpfs", 0, f"size={DISK_BYTES}".encode()))


class Full(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.disk = tempfile.mkdtemp(prefix="kuno-disk-")
        cls.why_not = None
        try:
            mount_own_disk(cls.disk)
        except OSError as error:
            cls.why_not = f"this machine gives nobody a disk of their own: {error}"

    @classmethod
    def tearDownClass(cls):
        if not cls.why_not:
            LIBC.umount2(os.fsencode(cls.disk), 0)
        os.rmdir(cls.disk)

    def setUp(self):
        if self.why_not:
            self.skipTest(self.why_not)
        self.ballast = os.path.join(self.disk, "ballast")

    def fill(self, left=0):
        """All but `left` bytes."""
        with open(self.ballast, "wb") as file:
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, 1 << 16)
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, 4096)
            file.truncate(max(0, os.fstat(file.fileno()).st_size - left))

    def make_room(self):
        os.unlink(self.ballast)

    def test_jobs_end_once_and_whole_while_the_disk_is_full_again_and_again(self):
        with Serve(self.disk) as rig:
            rig.ended(rig.job())
            with Crowd(rig, JOBS, CLIENTS) as crowd:
                for left in random.Random(1).sample(range(0, 96 << 10, 4096), TIMES):
                    time.sleep(random.random() * 0.5)
                    self.fill(left)
                    time.sleep(1 + random.random())
                    self.make_room()
            jobs = agreement.check(self, rig)
            self.assertLessEqual(set(crowd.own), {job["id"] for job in jobs})
            self.assertLessEqual(set(crowd.refusals), {"disk_full"})
            self.assertLessEqual({(job["error"] or {}).get("code") for job in jobs}, {None, "disk_full"})

    def test_a_full_disk_is_told_and_nothing_else_is_lost(self):
        with Serve(self.disk) as rig:
            kept = rig.ended(rig.job())["results"][0]["gallery_item"]
            runs = rig.job("a boat", batch=8)
            rig.running(runs)
            self.fill()
            for answer in (rig.post("/jobs", {"prompt": "a"}), rig.post("/inputs", png(50, 50), type="image/png")):
                self.assertEqual((answer.status, answer["code"]), (507, "disk_full"))
            for path in ("/health", "/jobs", f"/gallery/{kept}", f"/gallery/{kept}/content"):
                self.assertEqual(rig.get(path).status, 200)
            time.sleep(1)
            self.make_room()
            ended = rig.ended(runs)
            self.assertEqual((ended["state"], ended["error"]["code"]), ("failed", "disk_full"))
            self.assertEqual(rig.ended(rig.job())["state"], "completed")
            agreement.check(self, rig)

    def test_a_death_on_a_full_disk_is_recovered_from_when_there_is_room(self):
        with Serve(self.disk) as rig:
            runs, waits = rig.job("a boat", batch=8), rig.job("waits")
            rig.running(runs, 1)
            self.fill()
            rig.end(signal.SIGKILL)
            rig.begin_after_death()  # it may say that there is no room
            self.make_room()
            if rig.process.poll() is not None:
                rig.begin()
            self.assertIn(rig.ended(runs)["state"], ("completed", "failed"))
            self.assertEqual(rig.ended(waits)["state"], "completed")
            agreement.check(self, rig)


tap.main()
