"""The part of the contract that only reads: records, listings, counts, events, and what the engine promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from windlass.core.event import Entry
from windlass.core.job import Job, LogLine
from windlass.core.limits import NO_LIMITS, Limits
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Presence, Query


class Page(msgspec.Struct):
    """``cursor`` continues the listing, empty at its end. ``partial``: the scan bound was reached before ``limit``."""

    jobs: list[Job] = []
    cursor: str = ""
    partial: bool = False


class QueueInfo(msgspec.Struct, kw_only=True):
    """A queue's jobs by state, and how long the oldest ready one has been waiting (ms, -1 when none is).

    ``lanes``: how many lanes have ready jobs. ``limits``: what holds for its gate.
    """

    name: str
    counts: dict[str, int] = {}
    oldest_ready: int = -1
    lanes: int = 0
    limits: Limits = NO_LIMITS


class WorkerInfo(msgspec.Struct, kw_only=True):
    """A worker as others see it. ``beat_age``: ms since its last beat; ``alive``: its lease still holds."""

    presence: Presence
    beat_age: int
    alive: bool
    running: int
    idle: bool


class Total(msgspec.Struct, frozen=True, array_like=True):
    """How many events of a kind there ever were, of jobs of a task in a queue."""

    kind: str
    queue: str
    task: str
    count: int


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """The dead letters of one fingerprint: how many there are, and the one accepted last."""

    fingerprint: str
    count: int
    newest: str


class StoreInfo(msgspec.Struct, kw_only=True):
    """What ``doctor`` reports: the engine, how durable an accepted job is, and warnings worth reading."""

    engine: str
    version: str
    durability: str
    location: str
    warnings: list[str] = []
    details: dict[str, str] = {}


class Reads(Protocol):
    """What others want to know; nothing here changes a job."""

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        """Records by id, None where there is none."""

    async def find(self, query: Query) -> Page:
        """A page of records."""

    async def lines(self, id: str, after: int = -1, limit: int = MAX_BATCH) -> list[LogLine]:
        """A job's log lines behind number ``after``."""

    async def events(self, after: int, limit: int = 100, kinds: Sequence[str] = ()) -> list[Entry]:
        """Event entries with a seq above ``after``, oldest first; ``after=-1`` answers only the newest entry.

        ``kinds``: only entries with an event of one of these kinds, each with its groups of those kinds and no others.
        """

    async def totals(self) -> list[Total]:
        """How many events there ever were, by kind, queue and task; events kept or not."""

    async def faults(self, limit: int = MAX_BATCH) -> list[Fault]:
        """The dead letters by fingerprint, the most frequent first."""

    async def queues(self) -> list[QueueInfo]:
        """Every queue that has or had jobs."""

    async def workers(self) -> list[WorkerInfo]:
        """Every worker that has not left."""

    async def info(self) -> StoreInfo:
        """What the engine is and what it promises."""
