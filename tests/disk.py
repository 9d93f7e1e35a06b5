"""A small disk in memory that only this process and its children see, for tests that fill it."""

import contextlib
import ctypes
import os
import tempfile
import unittest

CLONE_NEWNS, CLONE_NEWUSER, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 0x4000, 0x40000
MS_RDONLY, MS_REMOUNT, MNT_DETACH = 1, 0x20, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def why_no_disk():
    """None: from now on, what is mounted is seen by nobody else. To be asked before there are threads; whoever is not
    root becomes that of a world of its own."""
    user, group = os.geteuid(), os.getegid()
    try:
        checked(LIBC.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user else 0)))
        if user:
            write("/proc/self/setgroups", "deny")
            write("/proc/self/uid_map", f"0 {user} 1")
            write("/proc/self/gid_map", f"0 {group} 1")
        checked(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        with tempfile.TemporaryDirectory() as folder:
            Disk(folder, 1 << 20).close()
    except OSError as error:
        return f"this machine gives nobody a disk of their own: {error}"
    return None


class Disk:
    def __init__(self, folder, size_bytes):
        self.folder = os.fspath(folder)
        self.ballast = os.path.join(self.folder, "ballast")
        checked(LIBC.mount(b"kuno", os.fsencode(folder), b"tmpfs", 0, f"size={size_bytes},mode=700".encode()))

    def close(self):
        checked(LIBC.umount2(os.fsencode(self.folder), MNT_DETACH))

    def fill(self, left=0):
        """All but `left` bytes."""
        with open(self.ballast, "wb") as file:
            for piece in 1 << 16, 4096:
                with contextlib.suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, piece)
            file.truncate(max(0, os.fstat(file.fileno()).st_size - left))

    def make_room(self):
        os.unlink(self.ballast)

    def limit_files(self, count):
        """There are no more than so many, whatever room there is; 0: no limit."""
        checked(LIBC.mount(b"kuno", os.fsencode(self.folder), b"tmpfs", MS_REMOUNT, f"nr_inodes={count}".encode()))

    def protect(self, protects=True):
        """Nothing may be written there, until it may again; while no file there is open for writing."""
        flags = MS_REMOUNT | (MS_RDONLY if protects else 0)
        checked(LIBC.mount(b"kuno", os.fsencode(self.folder), b"tmpfs", flags, None))


class DiskCase(unittest.TestCase):
    """Whose tests have disks, and are skipped where there can be none."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.why_not = why_no_disk()

    def setUp(self):
        if self.why_not:
            self.skipTest(self.why_not)
        super().setUp()

    def mount(self, folder, size_bytes):
        """Until the test has ended."""
        disk = Disk(folder, size_bytes)
        self.addCleanup(disk.close)
        return disk
