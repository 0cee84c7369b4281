"""How much memory this process takes."""

from __future__ import annotations

import os
import sys


def resident_bytes() -> int:
    """The resident size; where /proc is missing, its peak so far, which is the nearest thing to be had."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak * (1 if sys.platform == "darwin" else 1024)
