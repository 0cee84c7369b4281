"""The store contract: what every engine does, in the language of jobs. It says what; the conformance suite proves it.

An engine keeps jobs and moves them. It applies transitions and the small rules of ``core.lifecycle``; it chooses
nothing and never looks into payloads. All methods are coroutines on the loop that opened the store; each is one atomic
step and safe to send again after a lost reply. Driver exceptions come out as ``StoreError`` or ``StoreUnavailable``.

The contract has five parts, each in a module with its values: ``Jobs``, ``Flow``, ``Graphs``, ``Items`` and ``Reads``.
A ``Store`` is all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from windlass.core.job import NewJob
from windlass.core.keep import DEFAULT_KEEP, Keep
from windlass.store.answers import Answer
from windlass.store.flow import Flow
from windlass.store.graphs import Graphs
from windlass.store.items import Items
from windlass.store.jobs import Jobs
from windlass.store.reads import Reads

Clock = Callable[[], int]
"""Milliseconds since the epoch, as the host sees them."""


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine needs to know of the app. ``name`` keeps apps apart that share a server."""

    name: str = "windlass"
    keep: Keep = DEFAULT_KEEP
    unknown_after: int = 3_600_000
    events_kept: int = 10_000
    logs_kept: int = 1_000
    scan_limit: int = 10_000
    staged_for: int = 3_600_000
    audit_every: int = 60_000


@runtime_checkable
class Direct(Protocol):
    """An engine that may also take jobs from any thread, with no loop in between.

    It is ``Store.insert`` without the hops to a loop and back, which a sync caller would pay for every call.
    """

    def insert_here(self, jobs: Sequence[NewJob]) -> list[Answer]: ...


@runtime_checkable
class Serial(Protocol):
    """An engine whose server serves one call at a time: a long one keeps everybody waiting.

    Workers keep their exchanges with it short.
    """

    serial: bool


class Store(Jobs, Flow, Graphs, Items, Reads, Protocol):
    """All of it: what an engine is."""
