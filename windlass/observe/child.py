"""How a process child measures itself for its worker: the metrics of the user's code there. The child loads
it by name.
"""

from __future__ import annotations

import sys


def measure() -> bytes:
    """A snapshot; nothing if no code has metrics, and then nothing is imported either."""
    if "prometheus_client" not in sys.modules:
        return b""
    from prometheus_client import REGISTRY

    from windlass.observe.families import read_registry
    from windlass.observe.snapshots import Snapshot, encode

    return encode(Snapshot(families=read_registry(REGISTRY)))
