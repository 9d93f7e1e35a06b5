"""How much memory and time the program may take, measured from outside."""

import json
import unittest

import tap
from kuno import SANITIZED, Case

MB = 1_000_000
ABOVE_WEIGHTS_BYTES = 150 * MB


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


if __name__ == "__main__":
    tap.main()
