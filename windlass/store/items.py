"""The part of the contract about items, logs, and the one step that changes them together with jobs.

An *item* is a named value on a shelf. A *log* is a row of records that are never changed, in streams. What comes next
to jobs (locks, ``once``, breakers, schedules, the event bus, the outbox, steps of a saga) is made of these two and of
``commit``. Engines never look into a body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from windlass.core.event import Group
from windlass.core.graph import NewGraph
from windlass.core.job import NewJob
from windlass.store.answers import MAX_BATCH, Answer, GraphAnswer

ANY = -1
"""Expected by who does not care what is there."""


HEEDED = "schedules"
"""Workers are told of every change on this shelf: of schedules, which all of them know."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """What is on a shelf under a key. ``version`` 0: nothing is, and the body is empty.

    A version is larger than all that the store gave before, so it can fence whoever had the item earlier. It changes
    with the body, and only then. ``ttl``: milliseconds until the item goes by itself, 0 for never.
    """

    shelf: str
    key: str
    body: bytes = b""
    ttl: int = 0
    version: int = 0


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """One item to be written, if it has the version expected: 0 for an item that is not there, ``ANY`` for whatever is.

    ``body`` None takes the item off its shelf, UNSET leaves it as it is and only checks. The body that is there already
    keeps its version and gets the ``ttl`` anew.
    """

    shelf: str
    key: str
    body: bytes | msgspec.UnsetType | None = msgspec.UNSET
    ttl: int = 0
    expect: int = ANY


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Records for the end of one stream of a log, if the stream has the length expected (``ANY``: whatever it has)."""

    log: str
    stream: str
    bodies: list[bytes]
    expect: int = ANY


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One step: everything that it expects is there and all of it is done, or nothing is.

    ``jobs`` come in as by ``insert``, but a full queue takes them: what has happened cannot be refused. An answer that
    is not ACCEPTED stops nothing else of the step. ``graph`` is a whole workflow with its ``nodes``. ``event`` is
    written to the event stream.
    """

    items: list[Put] = []
    appends: list[Append] = []
    jobs: list[NewJob] = []
    graph: NewGraph | None = None
    nodes: list[NewJob] = []
    event: Group | None = None


class StreamEnd(msgspec.Struct, frozen=True, array_like=True):
    """The end of a stream: how long it is, and the position of the record that was appended last, 0 for none."""

    length: int
    position: int = 0


class Committed(msgspec.Struct, kw_only=True):
    """What became of a commit. ``items`` and ``ends``: one for each put and append, as they are now.

    ``answers`` and ``graph`` are there only if it was ``done``.
    """

    done: bool
    items: list[Item] = []
    ends: list[StreamEnd] = []
    answers: list[Answer] = []
    graph: GraphAnswer | None = None


class Record(msgspec.Struct, frozen=True, array_like=True):
    """One record of a log.

    ``position``: its place in the log, from 1, without gaps; no record ever appears below one that could be read.
    ``n``: its place in its stream, from 1, without gaps. ``at``: when it was appended, by the store's clock.
    """

    position: int
    stream: str
    n: int
    at: int
    body: bytes


class LogKeep(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a log stays: records at most ``age`` ms old, at most ``count`` of them, of ``size`` bytes. 0: all."""

    age: int = 0
    count: int = 0
    size: int = 0


class LogInfo(msgspec.Struct, kw_only=True):
    """A log. ``first`` and ``last``: positions of the oldest record kept and of the newest ever (0: there was none).

    With nothing kept ``first`` is the position behind ``last``.
    """

    name: str
    first: int = 1
    last: int = 0
    count: int = 0
    size: int = 0
    keep: LogKeep = LogKeep()


def log_channel(log: str) -> str:
    """What a client watches to be woken by every append to a log. No job can have this id."""
    return f"\n{log}"


class Moment(msgspec.Struct, frozen=True, array_like=True):
    """``now``: the store's clock. ``heeded``: a number that changes whenever an item of the HEEDED shelf does."""

    now: int
    heeded: int


class Items(Protocol):
    """Items and logs."""

    async def commit(self, commits: Sequence[Commit]) -> list[Committed]:
        """Take steps, each by itself, in order: a later one finds what an earlier one did.

        At most MAX_BATCH of them, with at most MAX_BATCH items, records and jobs in all.
        """
        ...

    async def moment(self) -> Moment:
        """What time it is for the store, and whether schedules have changed."""
        ...

    async def items(self, shelf: str, keys: Sequence[str]) -> list[Item]:
        """The items under these keys, version 0 where there is none."""
        ...

    async def shelf(
        self, name: str, after: str = "", until: str = "", limit: int = MAX_BATCH, newest_first: bool = False
    ) -> list[Item]:
        """Items of a shelf in the order of their keys (code points): behind ``after`` and before ``until``, exclusive.

        ``newest_first``: the largest key first, going down from ``until`` to ``after``.
        """
        ...

    async def records(
        self, log: str, after: int = 0, limit: int = MAX_BATCH, *, stream: str | None = None, since: int = 0
    ) -> list[Record]:
        """Records behind position ``after``, oldest first; of one ``stream``, behind its record number ``after``.

        ``since``: only those appended at this time or later. A page with large records may be shorter than ``limit``;
        only an empty one is the end.
        """
        ...

    async def logs(self, names: Sequence[str] = ()) -> list[LogInfo]:
        """These logs, or all there are, by name."""
        ...

    async def retain(self, log: str, keep: LogKeep) -> None:
        """Say how much of a log stays. What is too much goes in the order it came, as records are added and by sweeps.

        A stream of which nothing is kept any more is forgotten: its length is 0 again. A log is never forgotten.
        """
        ...


async def put_one(store: Items, put: Put) -> tuple[bool, Item]:
    """Write one item; whether it was done, and the item as it is now."""
    [answer] = await store.commit([Commit(items=[put])])
    return answer.done, answer.items[0]


async def put_all(store: Items, puts: Sequence[Put]) -> None:
    """Write items over whatever is there, in one step."""
    await store.commit([Commit(items=list(puts))])


async def read_one(store: Items, shelf: str, key: str) -> Item:
    """One item, version 0 where there is none."""
    [item] = await store.items(shelf, [key])
    return item
