"""A clock on the wall for one program, which a test sets as it likes (wall_clock.c). WALL_CLOCK_LIBRARY names it."""

import os
import struct

LIBRARY = os.environ["WALL_CLOCK_LIBRARY"]
DAY_S = 24 * 3600


class WallClock:
    def __init__(self, folder):
        self.path = os.path.join(folder, "wall-clock")
        self.set(0)
        self.environment = {
            "LD_PRELOAD": LIBRARY,
            "WALL_CLOCK": self.path,
            # Address sanitizers of gcc want to come first.
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
        }

    def set(self, fast_s):
        """So many seconds fast, at once; a negative number is slow."""
        with open(self.path, "r+b" if os.path.exists(self.path) else "xb") as file:
            file.write(struct.pack("q", fast_s))
