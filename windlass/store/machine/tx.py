"""One transaction as the operations see it: SQL, the instant, ranks, and what is to be sent once it is committed.

Operations are plain functions ``op(tx, …)``. They check first and write afterwards: one that raises ``StoreError`` has
written nothing. They touch no socket and no event loop.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol

import msgspec

from windlass.core.event import KINDS
from windlass.core.event import Row as EventRow
from windlass.core.job import Finished
from windlass.store.base import StoreSettings
from windlass.store.clock import Tick, tick
from windlass.store.jobs import Presence
from windlass.store.machine.effects import Effects
from windlass.store.machine.flow.book import GateBook
from windlass.store.machine.sql import Statements
from windlass.store.skills import Skills

encode = msgspec.json.Encoder().encode
decode = msgspec.json.decode

Values = Sequence[Any]
Bindings = Sequence[Any] | Mapping[str, Any]

COUNTED = frozenset(
    kind for kind in KINDS
    if kind not in ("progress", "log", "gate_changed") and not kind.startswith(("worker_", "workflow_"))
)  # fmt: skip
"""Kinds of events that happen to jobs and are added up. What those of workflows have for a task is a name."""

_task_and_queue = itemgetter(1, 2)


Who = Callable[[Skills], bool]
"""Whether a worker with these skills is meant."""


class Memo:
    """What outlives a transaction: the settings, and parsed declarations by content."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self.done, self.failed = settings.keep.buckets("")
        self.skills: dict[int, Skills] = {}
        self.todos = False
        """Whether graphs left something to do when somebody last looked: a call may take longer then."""
        self.lane = 0
        """How far sweeps have looked at lanes."""
        self.audited = {"jobs": 0, "lanes": 0}
        """How far they have looked at these for damage."""

    @staticmethod
    def mark(presence: Presence) -> int:
        body = encode((presence.queues, presence.declares))
        return int.from_bytes(hashlib.blake2b(body, digest_size=7).digest())

    def remember(self, mark: int, presence: Presence) -> Skills:
        if len(self.skills) > 500:
            self.skills.clear()
        skills = self.skills[mark] = Skills(presence.queues, presence.declares)
        return skills


class Connection(Protocol):
    """What a driver runs statements on."""

    def execute(self, sql: str, values: Bindings = (), /) -> Iterator[Any]: ...

    def executemany(self, sql: str, rows: Iterable[Bindings], /) -> object: ...


class Tx:
    """A transaction, or a consistent look at the data where nothing is written."""

    def __init__(self, db: Connection, sql: Statements, memo: Memo, host: int) -> None:
        self.db, self.sql, self.memo, self.settings = db, sql, memo, memo.settings
        self.groups: list[Any] = []
        """Groups of events, and pieces of JSON with several of them."""
        self.kinds: dict[str, None] = {}
        """Those of the groups, each once."""
        self.mail: dict[str, list[Finished]] = {}
        self._counts: Counter[tuple[str, str, int | str]] = Counter()
        """By task, queue and kind: events to be added up; without a task, by queue and state: jobs."""
        self.effects = Effects()
        # ``opens``: when time next opens a lane, as it was at the beginning.
        (
            last, shift, self.ranks, self.heeded, shortest, self.idle, self._followed, self.graphs, self.todos,
            self.lanes, self.gates, self.uniques, self.schema, self.opens,
        ) = self.one(sql.tx.BEGIN)  # fmt: skip
        self._book: GateBook | None = None
        self.last = last
        self.tick: Tick = tick(host, last, shift, shortest)
        self.now = self.tick.now

    # -- SQL

    def run(self, sql: str, values: Bindings = ()) -> None:
        self.db.execute(sql, values)

    def run_many(self, sql: str, rows: Iterable[Bindings]) -> None:
        self.db.executemany(sql, rows)

    def one(self, sql: str, values: Bindings = ()) -> Any:
        """The first row, or None. The statement is dropped after it: each further step would cost Python's lock."""
        return next(iter(self.db.execute(sql, values)), None)

    def value(self, sql: str, values: Bindings = ()) -> Any:
        row = self.one(sql, values)
        return None if row is None else row[0]

    def all(self, sql: str, values: Bindings = ()) -> list[Any]:
        return list(self.db.execute(sql, values))

    # -- what every writing transaction begins and ends with

    def extend_leases(self) -> None:
        """Everyone was paused, or the clock was set: nobody may be judged dead for not beating meanwhile."""
        if self.tick.gap:
            self.run(self.sql.tx.EXTEND_LEASES, (self.tick.gap, self.last))

    def finish(self) -> None:
        if self._book is not None:
            self._book.flush()
        self.memo.todos = bool(self.todos)
        counts = [(*what, change) for what, change in self._counts.items() if change]
        self.run(
            self.sql.tx.FINISH,
            (
                self.now, self.tick.shift, self.ranks, self.heeded, encode(counts).decode(),
                f",{','.join(self.kinds)},", encode(self.groups).decode(), max(1, self.settings.events_kept),
            ),
        )  # fmt: skip
        if self.groups and self._followed:
            for (name,) in self.all(self.sql.tx.FOLLOWERS):
                self.tell(name)

    # -- small moves all operations are made of

    def take_ranks(self, count: int) -> int:
        """The first of ``count`` fresh ranks."""
        first: int = self.ranks + 1
        self.ranks += count
        return first

    def count(self, queue: str, state: int, change: int) -> None:
        self._counts["", queue, state] += change

    def counted(self, queue: str, state: int) -> int:
        """How many jobs of a queue are in a state now."""
        kept = self.value(self.sql.tx.COUNTED, (queue, state)) or 0
        return int(kept) + self._counts["", queue, state]

    def counted_in(self, queues: Iterable[str], state: int) -> dict[str, int]:
        """How many jobs of each of these queues are in a state now."""
        kept = dict(self.all(self.sql.tx.COUNTED_IN, (ids_json(queues), state)))
        return {queue: kept.get(queue, 0) + self._counts["", queue, state] for queue in queues}

    @property
    def book(self) -> GateBook:
        """The gates, read once. Where there are none, ask ``gates`` first: that costs nothing."""
        if self._book is None:
            self._book = GateBook(self)
        return self._book

    def forget_book(self) -> None:
        """The gates were written by other means."""
        self._book = None

    @property
    def gated(self) -> str:
        """The tasks whose gates have something to say, as JSON."""
        return self.book.gated_tasks if self.gates else "[]"

    def record(self, kind: str, worker: str, rows: list[EventRow]) -> None:
        self.announce(kind, worker, rows)
        if rows and kind in COUNTED:
            self.add_up(kind, Counter(map(_task_and_queue, rows)))

    def announce(self, kind: str, worker: str, rows: list[EventRow]) -> None:
        """An event that is added up elsewhere."""
        if rows:
            self.groups.append((kind, worker, rows))
            self.kinds[kind] = None

    def add_up(self, kind: str, events: Mapping[tuple[str, str], int]) -> None:
        """Events by task and queue."""
        for (task, queue), many in events.items():
            if task:
                self._counts[task, queue, kind] += many

    def tell(self, name: str, item: Finished | None = None) -> None:
        box = self.mail.setdefault(name, [])
        if item is not None:
            box.append(item)

    def skills(self, worker: int, mark: int) -> Skills:
        known = self.memo.skills.get(mark)
        if known is None:
            body = self.value(self.sql.tx.PRESENCE, (worker,))
            known = self.memo.remember(mark, decode(body, type=Presence))
        return known

    def wake(self, queue: str, count: int, who: Who | None = None, but: int = 0) -> None:
        """Wake as many idle workers of a queue as there are jobs it may give; ``but`` is the worker that needs no
        waking."""
        self.wake_all([(queue, count, who)], but)

    def wake_queues(self, counts: Mapping[str, int], but: int = 0) -> None:
        """The same for several queues."""
        self.wake_all([(queue, count, None) for queue, count in counts.items()], but)

    def wake_all(self, calls: Iterable[tuple[str, int, Who | None]], but: int = 0) -> None:
        """The same for several queues, each with who among its workers is meant."""
        if not self.idle:
            return
        if self.gates:
            calls = [(queue, self.book.may_give(queue, count), who) for queue, count, who in calls]
        calls = [call for call in calls if call[1] > 0]
        idle = {n: (id, mark) for n, id, mark in self.all(self.sql.tx.IDLE, (but,))} if calls else {}
        woken: list[int] = []
        for queue, count, who in calls if idle else ():
            known = ((n, self.skills(n, mark)) for n, (_, mark) in idle.items())
            fit = (n for n, skills in known if queue in skills.queues and (who is None or who(skills)))
            for n in list(islice(fit, count)):
                self.tell(idle.pop(n)[0])
                woken.append(n)
        if woken:
            self.run(self.sql.tx.BUSY, (ids_json(woken),))

    def wake_any(self) -> None:
        """One idle worker, whatever its queues: todos are left, and anyone can work them off."""
        row = self.one(self.sql.tx.FIRST_IDLE) if self.idle else None
        if row is not None:
            self.run(self.sql.tx.BUSY, (ids_json([row[0]]),))
            self.tell(row[1])


def ids_json(values: Iterable[object]) -> str:
    return encode(list(values)).decode()
