"""The data of one memory store, shared by all connections of the process to the same URL.

Every rule that works on a hub runs under its lock and is one atomic step. What must follow the step (telling clients
and workers) is collected here and sent by ``MemoryStore`` when the step is over.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable

from windlass.core.graph import WORK
from windlass.core.job import State
from windlass.store.base import Clock, StoreSettings
from windlass.store.memory.clock import StoreClock
from windlass.store.memory.item_rows import Shelf
from windlass.store.memory.records import (
    ASIDE,
    NOT_HELD,
    Gate,
    GraphRow,
    Key,
    Lane,
    Phase,
    QueueLanes,
    Row,
    Todo,
    WorkerRow,
)
from windlass.store.memory.telling import Telling

Heap = list[tuple[int, Row]]


class Hub(Telling):
    """All state with its indexes, and the moves that need no rule of another module."""

    def __init__(self, settings: StoreSettings, clock: Clock) -> None:
        super().__init__(settings.events_kept)
        self.settings, self.clock = settings, StoreClock(clock)
        self.lock = threading.RLock()
        self.ready: defaultdict[str, Heap] = defaultdict(list)
        self.solo: defaultdict[str, Heap] = defaultdict(list)
        self.aside: defaultdict[str, dict[tuple[str, int], Heap]] = defaultdict(dict)
        self.declared: dict[tuple[str, str, int], int] = {}
        self.due: list[tuple[int, int, Row]] = []
        self.expiring: list[tuple[int, int, Row]] = []
        self.buckets: defaultdict[str, OrderedDict[str, Row]] = defaultdict(OrderedDict)
        self.weights: Counter[str] = Counter()
        self.counts: defaultdict[str, Counter[State]] = defaultdict(Counter)
        self.accepted = self.ranks = self.turns = self.versions = 0
        self.touched: set[str] = set()
        self.faults: dict[str, list[tuple[int, str]]] = {}
        self.default_keep: dict[str, tuple[str, str]] = {}
        # How many jobs a step made claimable, by queue: as many idle workers are woken after it.
        self.fresh: defaultdict[str, int] = defaultdict(int)
        # Gates and lanes. Where an app has none these are empty, and a job without terms never looks at them.
        self.gates: dict[str, Gate] = {}
        self.keys: dict[tuple[str, str], Gate] = {}
        self.orders: dict[str, QueueLanes] = {}
        self.openings: list[tuple[int, int, Gate | Lane]] = []
        self.oldest: dict[str, list[tuple[int, int, int, Row]]] = {}
        self.uniques: dict[str, Key] = {}
        self.heeded = 0
        self.fading: list[tuple[int, int, Callable[[int], None]]] = []
        # Shelves. ``going``: how many items have an end.
        self.shelves: dict[str, Shelf] = {}
        self.going = 0
        # Graphs. ``nodes`` has the nodes that are not jobs yet or never: joins, and jobs that are staged or not opened.
        self.staging: dict[str, GraphRow] = {}
        self.graphs: dict[str, GraphRow] = {}
        self.todos: deque[Todo] = deque()
        self.audits: list[tuple[int, int, GraphRow]] = []
        self.committed, self.work = 0, WORK

    def known(self, id: str) -> Row | None:
        """The row of a job, or of a node whose graph readers can see."""
        row = self.jobs.get(id)
        if row is None and (row := self.nodes.get(id)) is not None:
            graph = row.links.graph if row.links is not None else None
            return row if graph is not None and graph.phase is Phase.REAL else None
        return row

    # -- states and indexes

    def now(self) -> int:
        return self.clock.now(self.workers.values())

    def push_ready(self, row: Row) -> None:
        row.hold = NOT_HELD
        heapq.heappush(self.ready[row.queue], (row.rank, row))
        self.fresh[row.queue] += 1

    def watch_expiry(self, row: Row) -> None:
        """Watch the expiry of a job that comes in or comes back from its worker."""
        if row.expires and row.state in (State.WAITING, State.RUNNING):
            heapq.heappush(self.expiring, (row.expires, row.n, row))

    def set_aside(self, row: Row, now: int) -> None:
        row.hold, row.aside_since = ASIDE, now
        heap = self.aside[row.queue].setdefault((row.task, row.version), [])
        heapq.heappush(heap, (row.rank, row))
        self.wake(row.queue, 1, lambda worker: worker.takes(row.queue, row.task, row.version))

    def undeclare(self, worker: WorkerRow, now: int) -> None:
        """Note that a worker has gone: the tasks it declared count as unknown from now on, even for jobs set aside
        earlier.
        """
        for queue in worker.presence.queues:
            known = self.aside.get(queue, {})
            self.declared |= {(queue, *task): now for task in known if worker.takes(queue, *task)}

    def is_declared(self, queue: str, task: str, version: int, now: int) -> bool:
        """Whether a live worker of the queue declares this task in this version."""
        return any(
            worker.takes(queue, task, version) and queue in worker.presence.queues
            for worker in self.workers.values()
            if not worker.dead and worker.lease_until > now
        )

    def unknown_since(self, row: Row) -> int:
        return max(row.aside_since, self.declared.get((row.queue, row.task, row.version), 0))

    def schedule(self, what: Gate | Lane, when: int) -> None:
        """Look at this gate or lane again at that instant: time may have opened it."""
        if not what.opens or when < what.opens:
            what.opens = when
            self.ranks += 1
            heapq.heappush(self.openings, (when, self.ranks, what))

    def fade(self, when: int, forget: Callable[[int], None]) -> None:
        """Have the sweep call ``forget`` at that instant, when something in the store has outlived its use."""
        self.ranks += 1
        heapq.heappush(self.fading, (when, self.ranks, forget))

    def next_turn(self) -> int:
        self.turns += 1
        return self.turns

    def next_version(self) -> int:
        self.versions += 1
        return self.versions

    @staticmethod
    def head(heap: Heap, hold: str) -> Row | None:
        """The first job of a heap that still belongs there. Heaps keep entries of jobs that have left; they are dropped
        here.
        """
        while heap:
            rank, row = heap[0]
            if row.rank == rank and row.state is State.READY and row.hold == hold:
                return row
            heapq.heappop(heap)
        return None

    # -- endings

    # -- graphs: only what must be one step with the end of a job; the rest is in ``graphs`` and ``spreading``

    def todo(self, op: str, graph: GraphRow | None, row: Row | None = None) -> None:
        self.todos.append(Todo(op, graph, row))
        if graph is not None:
            graph.todos += 1

    def stop(self, graph: GraphRow, how: str, reason: str, culprit: str = "") -> None:
        """Put up a todo that stops the graph, unless it is being stopped already."""
        if not graph.stopping:
            graph.stopping, graph.reason, graph.culprit = how, reason, culprit
            self.todo("stop", graph)

    def drop(self, graph: GraphRow, op: str = "drop") -> None:
        """Drop a graph: readers see it no more, and its nodes go in bounded steps. ``op="prune"`` keeps its callbacks
        for as long as each is kept itself.
        """
        graph.phase = Phase.DROPPED
        self.staging.pop(graph.new.id, None)
        self.graphs.pop(graph.new.id, None)
        if graph.end is not None:
            self.nodes.pop(graph.new.id, None)
        self.todo(op, graph)
