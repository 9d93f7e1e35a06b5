"""How much memory and time the program may take, measured from outside."""

import json
import math
import os
import pathlib
import unittest

import tap
from kuno import SANITIZED, Case
from png import Picture

MB = 1_000_000
ABOVE_WEIGHTS_BYTES = 150 * MB


def a_memory_group():
    """A new control group and the name of its limit, of whichever generation this machine has; or nothing."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = pathlib.Path(root, f"kuno-test-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / limit).exists():
            return group, limit
        group.rmdir()
    return None, None


@unittest.skipIf(SANITIZED, "a sanitizer keeps memory of its own beside the program's")
class Memory(Case):
    def test_demo(self):
        """draws_the_demo_picture_within_150_MB_above_the_weights"""
        for residency in ("staged", "cached"):
            result = self.draws("a boat", "--json", "--residency", residency)
            weights = sum(stage["weight_bytes"] for stage in json.loads(result.out)["stages"])
            self.assertLess(weights, 9 * MB)
            self.assertLessEqual(result.rss_bytes, weights + ABOVE_WEIGHTS_BYTES)

    def test_count(self):
        """needs_no_more_memory_for_forty_pictures_than_for_five"""
        few, many = (self.draws("a boat", "--size", "48x48", "--count", str(count), "--quiet").rss_bytes
                     for count in (5, 40))
        self.assertLessEqual(many, few * 1.02 + 2 * MB)

    def test_group(self):
        """a_limit_of_a_control_group_further_up_is_seen_before_it_kills"""
        group, limit = a_memory_group()
        if not group:
            self.skipTest("no control group with a memory limit can be made here")
        inner = group / "inner"
        inner.mkdir()
        self.addCleanup(group.rmdir)
        self.addCleanup(inner.rmdir)
        (group / limit).write_text(str(60 * MB))
        result = self.kuno("generate", "a boat", "--size", "1024x1024",
                           preexec_fn=lambda: (inner / "cgroup.procs").write_text(str(os.getpid())))
        self.assertEqual(result.code, 1)
        self.assertRegex(result.err, r"^kuno: the VAE needs .* MB are free; \d+x\d+ would fit")

    def test_tiles(self):
        """decodes_in_tiles_with_less_memory_and_without_seams"""
        peaks, pixels = [], []
        for more in ([], ["--vae-tiling"]):
            result = self.draws("a red apple", "--size", "1024x64", "--seed", "1", "--json", *more)
            peaks.append({stage["name"]: stage["peak_bytes"] for stage in json.loads(result.out)["stages"]}["decode"])
            pixels.append(Picture((self.folder / "output.png").read_bytes()).pixels)
        self.assertLess(peaks[1], 0.75 * peaks[0])
        squares = [(a - b) ** 2 for a, b in zip(*pixels)]
        self.assertGreater(10 * math.log10(255 ** 2 * len(squares) / sum(squares)), 35)


if __name__ == "__main__":
    tap.main()
