"""What processes measure of themselves, on its way up: from a child to its worker, from a worker to its supervisor.

Here it is bytes that nobody looks into. Who measures, and who adds up, is in a layer above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from windlass.worker.service import Worker


class MetricsReceiver(Protocol):
    """Takes in what processes say, and that they are gone (``died``: not of its own will). Must not raise or block."""

    def heard(self, pid: int, words: bytes) -> None: ...

    def gone(self, pid: int, died: bool = False) -> None: ...


class Measures(NamedTuple):
    """``function``: the name of what a process child calls to measure itself. ``gather``: who is told."""

    function: str
    gather: MetricsReceiver


class Companion(Protocol):
    """Lives as long as a worker and looks at it, without having a part in its work. Must not raise."""

    measures: Measures

    async def start(self, worker: Worker) -> None:
        """The worker is up."""

    async def stop(self) -> None:
        """The worker has ended its jobs and its children."""
