"""Processor time of this process, for peers as well: nothing but the standard library."""

import contextlib
import os
import time

PER_THREAD, SCHEDULED = 4, 2  # as the kernel numbers clocks: a thread's own time, counted to the nanosecond


def used():
    """Seconds of all threads, with what those that run have used until now.

    The clock of a process lacks that: what a thread uses is counted when it is switched, at the next tick, which may be
    10 ms away, or when its own clock is read. Threads of OpenMP wait by running, so that it matters for every work.
    """
    for name in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # it has ended
            time.clock_gettime(~int(name) << 3 | PER_THREAD | SCHEDULED)
    return time.process_time()
