"""How much memory and processor time this process takes."""

from __future__ import annotations

import os
import sys
import time


def resident_bytes() -> int:
    """The resident size; where /proc is missing, its peak so far, which is the nearest thing to be had."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak * (1 if sys.platform == "darwin" else 1024)


class Cpu:
    """The part of a core that this process used since it was last asked."""

    def __init__(self) -> None:
        self._wall, self._used = time.monotonic(), time.process_time()

    def percent(self) -> float:
        wall, used = time.monotonic(), time.process_time()
        passed, spent = wall - self._wall, used - self._used
        self._wall, self._used = wall, used
        return round(spent / passed * 100, 1) if passed > 0 else 0.0
