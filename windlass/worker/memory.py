"""How much memory and processor time this process takes."""

from __future__ import annotations

import os
import sys
import time


def resident_bytes() -> int:
    """The resident size. Where /proc is missing it is the peak so far, the nearest value to be had."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak * (1 if sys.platform == "darwin" else 1024)


class Cpu:
    """The share of one core that this process has used since the last call."""

    def __init__(self) -> None:
        self._wall, self._used = time.monotonic(), time.process_time()

    def percent(self) -> float:
        wall, used = time.monotonic(), time.process_time()
        passed, spent = wall - self._wall, used - self._used
        self._wall, self._used = wall, used
        return round(spent / passed * 100, 1) if passed > 0 else 0.0
