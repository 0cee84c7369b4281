"""What a process child measures for its worker: the metrics of the user's code there. Loaded by name, in the child."""

from __future__ import annotations

import sys


def measure() -> bytes:
    """A snapshot, or nothing where no code has metrics: then nothing is imported for them either."""
    if "prometheus_client" not in sys.modules:
        return b""
    from prometheus_client import REGISTRY

    from windlass.observe.families import read_registry
    from windlass.observe.snapshots import Snapshot, encode

    return encode(Snapshot(families=read_registry(REGISTRY)))
