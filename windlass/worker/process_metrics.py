"""How processes' measurements travel: from a child to its worker, and from a worker to its supervisor.

Here they are bytes that nothing looks into. A layer above measures and adds up.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class MetricsReceiver(Protocol):
    """Takes in the measurements of processes, and that a process is gone (``died``: not as planned). Must not raise or
    block.
    """

    def heard(self, pid: int, words: bytes) -> None: ...

    def gone(self, pid: int, died: bool = False) -> None: ...


class Measures(NamedTuple):
    """``function``: the name of the function by which a process child measures itself. ``gather``: where its
    measurements go.
    """

    function: str
    gather: MetricsReceiver
