"""Watchers: objects that are told of what no middleware is around, such as settles, the jobs of schedules, and the
start of a job in a process child. Tracing is one.

A watcher changes nothing that happens to a job, and must not raise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from windlass.calls.context import Current
from windlass.core.job import NewJob
from windlass.core.lifecycle import Transition

Told = Callable[[bool], None]
"""Called with whether the job was taken in."""


class Watcher(Protocol):
    """Added by ``app.watchers.append(...)``, before a worker starts."""

    receiver: str
    """``module:function`` that a process child calls with what ``carry`` gave, in the context the job then runs in."""

    def carry(self) -> dict[str, str]:
        """The part of the current context that a process child needs, as text."""
        ...

    def firing(self, job: NewJob) -> Told:
        """A schedule's job is about to be offered to the store; headers may be put into its meta."""
        ...

    def decided(self, job: Current, move: Transition | None) -> None:
        """What became of a run, before the store knows. None: nothing will be written about it."""
        ...

    def answered(self, moves: Sequence[Transition], refused: Collection[str], began: int) -> None:
        """The store has answered to what was decided, in an exchange that ``began`` then (ns since 1970)."""
        ...


def carried(watchers: Sequence[Watcher]) -> dict[str, dict[str, str]]:
    """What process children are to know, by who receives it there."""
    return {watcher.receiver: found for watcher in watchers if (found := watcher.carry())}


def firing(watchers: Sequence[Watcher], job: NewJob) -> Told:
    told = [watcher.firing(job) for watcher in watchers]

    def tell(taken: bool) -> None:
        for each in told:
            each(taken)

    return tell
