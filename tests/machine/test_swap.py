"""Swap, which a worker cannot forbid itself: this machine gets some, and services that may use it and that may not."""

import subprocess
import unittest

import tap
from worker import FAILED, PATIENCE, PROGRAM, READY, Session, WorkerCase

SWAP_FILE = "/swap"
PICTURE = b'{"prompt": "a boat", "width": 64, "height": 64}'


def setUpModule():
    subprocess.run(["dd", "if=/dev/zero", f"of={SWAP_FILE}", "bs=1M", "count=64", "status=none"], check=True)
    subprocess.run(["chmod", "600", SWAP_FILE], check=True)
    subprocess.run(["mkswap", "--quiet", SWAP_FILE], check=True)


class Swap(WorkerCase):
    def setUp(self):
        super().setUp()
        subprocess.run(["swapon", SWAP_FILE], check=True)
        self.addCleanup(subprocess.run, ["swapoff", SWAP_FILE], check=True)

    def draws(self, isolation, *properties):
        """In a service with these properties: how the worker ends, whether it drew, what it said."""
        result = subprocess.run(["systemd-run", "--quiet", "--pipe", "--wait", "--collect", *properties, "--",
                                 PROGRAM, "image-worker", "--isolation", isolation], input=PICTURE,
                                capture_output=True, timeout=PATIENCE, check=False)
        return result.returncode, result.stdout[:8] == b"\x89PNG\r\n\x1a\n", result.stderr

    def assert_refuses(self, *properties):
        self.assertEqual(self.draws("required", *properties), (1, False, b"image_isolation_missing\n"))

    def test_on(self):
        """refuses_to_draw_where_its_memory_may_be_swapped"""
        self.assert_refuses()
        self.assert_refuses("--property=MemorySwapMax=1M")

    def test_best_effort(self):
        """draws_without_that_only_where_best_effort_is_asked_for"""
        self.assertEqual(self.draws("best-effort"), (0, True, b""))

    def test_own_group(self):
        """draws_where_its_service_may_not_swap"""
        self.assertEqual(self.draws("required", "--property=MemorySwapMax=0"), (0, True, b""))

    def test_group_above(self):
        """draws_where_a_group_above_may_not_swap"""
        self.addCleanup(subprocess.run, ["systemctl", "set-property", "--runtime", "dry.slice", "MemorySwapMax="],
                        check=True)
        subprocess.run(["systemctl", "set-property", "--runtime", "dry.slice", "MemorySwapMax=0"], check=True)
        self.assertEqual(self.draws("required", "--slice=dry-inner.slice"), (0, True, b""))

    def test_words(self):
        """says_that_swap_is_on_and_how_to_turn_it_off"""
        with self.session() as session:
            self.assertEqual(session.hear(), (READY, b"swap"))
        with Session(self.home, "--isolation", "required") as session:
            kind, words = session.hear()
            self.assertEqual((kind, words.decode()), (FAILED, (
                "image_isolation_missing\nthe image worker cannot be locked in: "
                "swap is on for this process; set MemorySwapMax=0 for its service, or turn swap off")))


class NoSwap(unittest.TestCase):
    def test_off(self):
        """draws_where_the_machine_has_no_swap"""
        result = subprocess.run([PROGRAM, "image-worker", "--isolation", "required"], input=PICTURE,
                                capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual((result.returncode, result.stdout[:4], result.stderr), (0, b"\x89PNG", b""))


tap.main()
