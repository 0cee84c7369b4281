"""The part of the contract about jobs on their way in, out to workers and back, through time, and changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from windlass.core.job import Claim, Fence, Finished, NewJob, State
from windlass.core.lifecycle import Transition
from windlass.core.terms import Terms
from windlass.store.answers import MAX_BATCH, Answer

INLINE_MAX = 16_384
"""Results up to this size are pushed to waiting clients along with the news."""


EVERY_EVENT = "*"
"""Watching this id means being told of every new event entry."""


Deliver = Callable[[list[Finished]], None]
"""Called on the loop that listens: with what finished, or with an empty list for a plain wake-up."""


class Declared(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker says of one task: the payload versions it reads, and at how many crashes its jobs are given up.

    ``max_crashes`` (0: no opinion) lowers the record's own limit, so that an at-most-once task stays one even when it
    was enqueued by name by someone who does not know it.
    """

    versions: tuple[int, ...] = (1,)
    max_crashes: int = 0


class Presence(msgspec.Struct, kw_only=True):
    """A worker as it presents itself at each beat. ``queues`` in order of preference.

    ``declares`` maps task names to what is declared; the name ``"*queue"`` declares every task of that queue (a queue
    with a handler). ``load`` is free-form and only shown.
    """

    id: str
    queues: list[str]
    declares: dict[str, Declared]
    lease: int = 15_000
    host: str = ""
    pid: int = 0
    started_at: int = 0
    concurrency: int = 0
    load: dict[str, Any] = {}


class BeatReply(msgspec.Struct, array_like=True):
    """``gone``: the store has reaped this worker; it must drop everything and return under a new id.

    ``lost``: held ids that are not this worker's (any more). ``ready``: there is work in its queues (the backstop for a
    lost wake-up). ``next_check``: milliseconds until ``sweep`` may have something to do, -1 for never. ``schedules``:
    see ``ExchangeReply``.
    """

    gone: bool = False
    lost: list[str] = []
    cancels: list[str] = []
    ready: bool = False
    next_due: int = -1
    next_check: int = -1
    schedules: int = 0


class Want(msgspec.Struct):
    """How many jobs a worker has room for: at most ``total``, taken from ``queues`` in order, each with its own cap.

    A queue may be named more than once, with a cap each time. ``idle``: nothing runs on the worker's loop meanwhile, so
    that an in-process engine need not spare it. ``now``: so many could start at once; the rest is taken ahead, and jobs
    from lanes or of a queue with a gate are not (-1: all could start).
    """

    queues: list[tuple[str, int]]
    total: int
    idle: bool = False
    now: int = -1


class ExchangeReply(msgspec.Struct, array_like=True):
    """``refused``: ids whose fence no longer held. ``next_due``: ms until time may make a job ready or open a gate that
    keeps one, -1 for never.

    ``drain``: a job that must run alone waits for this worker to be empty; ask for nothing until then. ``schedules``:
    ``Moment.heeded``, so that workers read schedules only when they have changed.
    """

    claims: list[Claim] = []
    refused: list[str] = []
    cancels: list[str] = []
    next_due: int = -1
    gone: bool = False
    drain: bool = False
    schedules: int = 0


class Note(msgspec.Struct):
    """Progress and log lines of a running claim; refused when the fence no longer holds."""

    id: str
    fence: Fence
    progress: bytes | None = None
    logs: list[tuple[str, str]] = []


class SweepReply(msgspec.Struct, array_like=True):
    """What a sweep did. ``more``: it stopped at its limit and should be called again soon.

    ``repaired``: workflows that had no live job and no end, which should never be, and that were put right.
    """

    promoted: int = 0
    recovered: int = 0
    quarantined: int = 0
    expired: int = 0
    parked: int = 0
    pruned: int = 0
    dead_workers: list[str] = []
    more: bool = False
    next_check: int = -1
    repaired: list[str] = []


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs: every given field must match. Ordered by acceptance, newest first unless ``oldest_first``."""

    queue: str = ""
    states: tuple[State, ...] = ()
    task: str = ""
    fingerprint: str = ""
    worker: str = ""
    since: int = 0
    until: int = 0
    after: str = ""
    limit: int = 100
    oldest_first: bool = False


class Action(StrEnum):
    """What ``change`` can do to jobs. Each acts on some states and skips the others with a reason."""

    CANCEL = "cancel"
    RETRY = "retry"
    PROMOTE = "promote"
    MOVE = "move"
    REPRIORITISE = "reprioritise"
    RESCHEDULE = "reschedule"
    EDIT = "edit"
    DELETE = "delete"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An action with its argument: ``queue`` for MOVE, ``priority`` for REPRIORITISE, ``payload`` for EDIT.

    RETRY takes the jobs of one call in the order they were accepted, however they are named.
    RESCHEDULE: ``at`` (an instant) or ``delay`` (from now). EDIT with ``terms``: the job gets these as well, and only
    one that has ended does; what others have of gates, lanes and keys they keep.
    """

    action: Action
    delay: int = 0
    at: int = 0
    queue: str = ""
    priority: int = 0
    payload: bytes = b""
    reason: str = ""
    terms: Terms | msgspec.UnsetType | None = msgspec.UNSET


class ChangeReply(msgspec.Struct):
    """``changed`` ids; ``skipped`` ids with the reason; ``cursor`` to go on with a query, empty at its end."""

    changed: list[str] = []
    skipped: dict[str, str] = {}
    cursor: str = ""


class WatchReply(msgspec.Struct, array_like=True):
    """What is over already, and the ids the store does not know."""

    finished: list[Finished] = []
    missing: list[str] = []


class Jobs(Protocol):
    """Jobs on their way: in, out to a worker and back, through time, changed by hand; and who is told of it."""

    async def open(self) -> None:
        """Connect, and create or check the schema. Opening twice is harmless."""

    async def close(self) -> None:
        """Let go of everything. Closing twice, or without opening, is harmless."""

    async def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        """Keep new jobs: one answer per job, in order. At most MAX_BATCH of them. Wakes idle workers."""

    async def beat(self, presence: Presence, acked_seq: int, held: Sequence[str]) -> BeatReply:
        """Register or renew a worker and reconcile what it holds.

        Claims stamped with a seq of at most ``acked_seq`` that are not in ``held`` go back to ready, no crash counted.
        """

    async def exchange(self, worker: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
        """Settle what finished and claim what is free, in one round trip.

        The worker's last seq again re-grants the same claims and applies nothing twice; a lower one is refused with
        StoreError. A worker that got less than it wanted is marked idle in the same step.
        """

    async def leave(self, worker: str, crashed: bool = False) -> None:
        """Sign a worker off. Its claims go back to ready; ``crashed`` counts a crash against each, as a sweep would."""

    async def note(self, worker: str, notes: Sequence[Note]) -> list[str]:
        """Keep progress and logs of running claims; answers the ids whose fence no longer held."""

    async def sweep(self, limit: int = MAX_BATCH) -> SweepReply:
        """Due to ready, expired to their end, dead workers' jobs recovered, undeclared ones parked, pruning."""

    async def change(
        self, change: Change, ids: Sequence[str] = (), query: Query | None = None, limit: int = MAX_BATCH
    ) -> ChangeReply:
        """Act on jobs by id, or on a page of those a query finds."""

    async def watch(self, client: str, ids: Sequence[str]) -> WatchReply:
        """Answer what is over and remember to tell ``client`` (a listening name) of the rest, atomically."""

    async def unwatch(self, client: str, ids: Sequence[str] | None = None) -> None:
        """Forget some or all of a client's watches."""

    async def listen(self, name: str, deliver: Deliver) -> None:
        """Receive what is sent to ``name``, a worker's or a client's id."""

    async def unlisten(self, name: str) -> None:
        """Stop receiving, and forget the name's watches."""

    async def signal(self, names: Sequence[str]) -> None:
        """A plain wake-up for whoever listens to these names. It is lost where nobody does."""
