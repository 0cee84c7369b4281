"""The data of one memory store and the moves on it, shared by all connections of the process to the same URL.

Every method here runs under the hub's lock and is one atomic step. What must happen after the step (telling clients and
workers) is collected and sent by ``MemoryStore`` when the step is over.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import partial

from windlass.core import lifecycle
from windlass.core.graph import WORK, because
from windlass.core.job import Finished, State
from windlass.core.limits import OPEN
from windlass.store.base import Clock, StoreSettings
from windlass.store.memory import faults, gates, inserts, lanes, retention, unique
from windlass.store.memory.clock import StoreClock
from windlass.store.memory.gates import Gate
from windlass.store.memory.items import Shelf
from windlass.store.memory.lanes import BAND, Lane, QueueLanes
from windlass.store.memory.nodes import GraphRow, Phase, Todo
from windlass.store.memory.records import ASIDE, NOT_HELD, Row, WorkerRow
from windlass.store.memory.telling import Telling

Heap = list[tuple[int, Row]]


class Hub(Telling):
    """All state, its indexes, and the few moves every call is made of."""

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
        # How many jobs a step made claimable, by queue: so many idle workers are woken behind it.
        self.fresh: defaultdict[str, int] = defaultdict(int)
        # Flow. Without gates and lanes these are empty, and a job without terms never meets them.
        self.gates: dict[str, Gate] = {}
        self.keys: dict[tuple[str, str], Gate] = {}
        self.orders: dict[str, QueueLanes] = {}
        self.openings: list[tuple[int, int, Gate | Lane]] = []
        self.oldest: dict[str, list[tuple[int, int, int, Row]]] = {}
        self.uniques: dict[str, unique.Key] = {}
        self.heeded = 0
        self.fading: list[tuple[int, int, Callable[[int], None]]] = []
        # Shelves and logs. ``going``: how many of all items will be gone by themselves.
        self.shelves: dict[str, Shelf] = {}
        self.going = 0
        # Graphs. ``nodes`` has what is no job: joins, and jobs that are staged or not opened yet.
        self.staging: dict[str, GraphRow] = {}
        self.graphs: dict[str, GraphRow] = {}
        self.todos: deque[Todo] = deque()
        self.audits: list[tuple[int, int, GraphRow]] = []
        self.committed, self.work = 0, WORK

    def known(self, id: str) -> Row | None:
        """A job, or a node of a graph that can be seen."""
        row = self.jobs.get(id)
        if row is None and (row := self.nodes.get(id)) is not None:
            graph = row.links.graph if row.links is not None else None
            return row if graph is not None and graph.phase is Phase.REAL else None
        return row

    # -- states and indexes

    def now(self) -> int:
        return self.clock.now(self.workers.values())

    def set_state(self, row: Row, state: State) -> None:
        counts = self.counts[row.queue]
        counts[row.state] -= 1
        counts[state] += 1
        was, row.state = row.state, state
        if self.gates or self.keys or self.orders:
            lanes.changed(self, row, was)

    def make_ready(self, row: Row, keep_place: bool = False, due: int = 0) -> None:
        """Into the ready order, at its end unless it keeps its place; in a strict lane it always does.

        ``due``: the time that has come for it. It is known of whoever runs then, also when he goes back to his place.
        """
        self.watch_expiry(row)
        self.set_state(row, State.READY)
        row.worker, row.due = "", row.due if keep_place else due
        if row.terms is None and not (self.gates or self.orders or self.oldest):
            if not (keep_place and row.rank):
                self.ranks += 1
                row.rank = (9 - row.priority) * BAND + self.ranks
            if lifecycle.runs_alone(row.crashes, row.max_crashes):
                lanes.keep_alone(self, row)
            else:
                self.push_ready(row)
            return
        if not (row.rank and (keep_place or lanes.strict_name(row))):
            row.rank = lanes.rank_of(self, row)
        lanes.enter(self, row)
        if row.queue in self.oldest:
            inserts.remember(self, row)

    def push_ready(self, row: Row) -> None:
        row.hold = NOT_HELD
        heapq.heappush(self.ready[row.queue], (row.rank, row))
        self.fresh[row.queue] += 1

    def make_scheduled(self, row: Row, due: int) -> None:
        self.watch_expiry(row)
        self.set_state(row, State.SCHEDULED)
        row.worker, row.due = "", due
        heapq.heappush(self.due, (due, row.n, row))

    def make_waiting(self, row: Row) -> None:
        self.watch_expiry(row)
        self.set_state(row, State.WAITING)
        row.worker, row.due = "", 0

    def watch_expiry(self, row: Row) -> None:
        """For a job that comes in or comes back: while it ran, its expiry was of no interest."""
        if row.expires and row.state in (State.WAITING, State.RUNNING):
            heapq.heappush(self.expiring, (row.expires, row.n, row))

    def set_aside(self, row: Row, now: int) -> None:
        row.hold, row.aside_since = ASIDE, now
        heap = self.aside[row.queue].setdefault((row.task, row.version), [])
        heapq.heappush(heap, (row.rank, row))
        self.wake(row.queue, 1, lambda worker: worker.takes(row.queue, row.task, row.version))

    def undeclare(self, worker: WorkerRow, now: int) -> None:
        """A worker goes: what it declared counts as unknown from now on, not from when it was set aside."""
        for queue in worker.presence.queues:
            known = self.aside.get(queue, {})
            self.declared |= {(queue, *task): now for task in known if worker.takes(queue, *task)}

    def is_declared(self, queue: str, task: str, version: int, now: int) -> bool:
        """Whether a live worker of the queue declares this."""
        return any(
            worker.takes(queue, task, version) and queue in worker.presence.queues
            for worker in self.workers.values()
            if not worker.dead and worker.lease_until > now
        )

    def unknown_since(self, row: Row) -> int:
        return max(row.aside_since, self.declared.get((row.queue, row.task, row.version), 0))

    def promote(self, now: int, limit: int) -> Counter[str]:
        """Due jobs become ready, in the order they were due; how many per queue."""
        promoted: Counter[str] = Counter()
        while self.due and self.due[0][0] <= now and limit > 0:
            due, _, row = heapq.heappop(self.due)
            if row.state is State.SCHEDULED and row.due == due:
                self.make_ready(row, due=due)
                promoted[row.queue] += 1
                limit -= 1
        if self.openings:
            lanes.open_due(self, now, limit)
        return promoted

    def next_due(self, now: int) -> int:
        """When time makes a job ready or opens a gate, in milliseconds from now; -1 for never."""
        while self.due and not (self.due[0][2].state is State.SCHEDULED and self.due[0][2].due == self.due[0][0]):
            heapq.heappop(self.due)
        times = [self.due[0][0]] if self.due else []
        if self.openings and (opening := lanes.next_opening(self)) is not None:
            times.append(opening.opens)
        return max(0, min(times) - now) if times else -1

    def schedule(self, what: Gate | Lane, when: int) -> None:
        """Time opens this, or may."""
        if not what.opens or when < what.opens:
            what.opens = when
            self.ranks += 1
            heapq.heappush(self.openings, (when, self.ranks, what))

    def fade(self, when: int, forget: Callable[[int], None]) -> None:
        """Something has outlived itself by then: the sweep calls this."""
        self.ranks += 1
        heapq.heappush(self.fading, (when, self.ranks, forget))

    def next_turn(self) -> int:
        self.turns += 1
        return self.turns

    def next_version(self) -> int:
        self.versions += 1
        return self.versions

    def wake_fresh(self, now: int) -> None:
        """Wake idle workers for what this step made claimable, unless the queue's gate is closed to all of it."""
        fresh, self.fresh = self.fresh, defaultdict(int)
        for queue, count in fresh.items():
            gate = gates.of_queue(self, queue)
            opens = gate.opens_to(1, now) if gate is not None else OPEN
            if gate is not None and opens > 0 and gates.has_ready(self, queue):
                self.schedule(gate, opens)
            if opens == OPEN:
                self.wake(queue, count)
            if opens == OPEN and gate is not None:
                self.wake_for_asides(queue)

    def wake_for_asides(self, queue: str) -> None:
        """A queue's gate has opened: what was set aside there is not for anybody."""
        for (task, version), heap in self.aside[queue].items():
            if self.head(heap, ASIDE) is not None:
                self.wake(queue, 1, partial(WorkerRow.takes, queue=queue, task=task, version=version))

    def wake_for_due(self, before: int, now: int) -> None:
        """One idle worker sleeps until the next due time: when that came nearer, someone must set the alarm anew."""
        due = self.next_due(now)
        if due < 0 or (0 <= before <= due):
            return
        opening = lanes.next_opening(self) if self.openings else None
        if opening is None or (self.due and self.due[0][0] <= opening.opens):
            self.wake(self.due[0][2].queue, 1)
        elif isinstance(opening, Gate) and not opening.queue:
            for queue in opening.waiting:
                self.wake(queue, 1)
        else:
            self.wake(opening.queue, 1)

    @staticmethod
    def head(heap: Heap, hold: str) -> Row | None:
        """The first entry that still stands: entries are not removed when a job leaves, only outlived."""
        while heap:
            rank, row = heap[0]
            if row.rank == rank and row.state is State.READY and row.hold == hold:
                return row
            heapq.heappop(heap)
        return None

    # -- endings

    def finish(self, row: Row, state: State, now: int, reason: str = "", keep: str = "") -> None:
        """Any state to a terminal one: file it for retention and tell who waits."""
        was = row.state
        self.set_state(row, state)
        row.finished_at, row.reason, row.worker, row.cancel = now, reason, "", False
        if row.terms is not None:
            self.over(row)
        if row.watchers:
            self.tell(row.watchers, row.finished())
            row.watchers = None
        failed = state is State.FAILED
        if failed:
            faults.enter(self, row)
        bucket = (
            keep or (row.keep_failed if failed else row.keep_done) or retention.default_bucket(self, row.queue, failed)
        )
        row.keep_failed, row.keep_done = (bucket, row.keep_done) if failed else (row.keep_failed, bucket)
        if row.links is not None and self._ended_in_graph(row, was):
            return
        retention.file(self, row, bucket)

    def over(self, row: Row) -> None:
        """A job with terms is over or gone: its lane is free, and its unique key."""
        lanes.let_go(self, row)
        if row.terms is not None and row.terms.unique:
            unique.let_go(self, row)

    def cancel(self, row: Row, now: int, reason: str) -> None:
        """End a job that does not run; ask the worker of one that does."""
        if row.state is not State.RUNNING:
            self.finish(row, State.CANCELLED, now, reason)
            return
        row.cancel, row.reason = True, reason
        self.workers[row.worker].idle = False
        self.tell({row.worker}, None)

    def delete(self, row: Row) -> None:
        """The record goes at once; who waits for it is told so."""
        if row.watchers:
            self.tell(row.watchers, Finished(row.id, None, reason="deleted"))
        retention.unfile(self, row)
        if row.links is not None:
            self._stop_awaited(row, row.state, "deleted")
            retention.forget_awaited(self, row)
        self.counts[row.queue][row.state] -= 1
        row.state, row.expires = State.SKIPPED, 0
        del self.jobs[row.id]
        lanes.leave(self, row)
        if row.terms is not None:
            self.over(row)

    def expire(self, row: Row, now: int) -> None:
        if row.expire_to is State.FAILED:
            row.error, row.fingerprint = lifecycle.expired_error(), "expired"
        self.finish(row, row.expire_to, now, lifecycle.EXPIRED)

    def recover(self, worker: WorkerRow, row: Row, now: int, crashed: bool) -> State:
        """A claim whose worker left or died goes where the rules say, in its old place."""
        worker.running.pop(row.id, None)
        if not crashed:
            if row.cancel:
                self.finish(row, State.CANCELLED, now, row.reason)
            else:
                self.make_ready(row, keep_place=True)
            return row.state
        row.crashes += 1
        row.max_crashes = worker.max_crashes(row)
        state = lifecycle.after_crash(row.crashes, row.max_crashes, row.cancel)
        if state is State.FAILED:
            silent = now - worker.beat_at if worker.lease_until <= now else 0
            row.error = lifecycle.crash_error(row.crashes, worker.presence.id, silent)
            row.fingerprint = lifecycle.crash_mark(silent)
            self.finish(row, state, now, lifecycle.crash_reason(silent))
        elif state is State.CANCELLED:
            self.finish(row, state, now, row.reason)
        elif row.crash_delay:
            self.make_scheduled(row, now + row.crash_delay)
        else:
            self.make_ready(row, keep_place=True)
        return state

    # -- graphs: only what must be one step with the end of a job; the rest is in ``graphs`` and ``spreading``

    def todo(self, op: str, graph: GraphRow | None, row: Row | None = None) -> None:
        self.todos.append(Todo(op, graph, row))
        if graph is not None:
            graph.todos += 1

    def _ended_in_graph(self, row: Row, was: State) -> bool:
        """Put up what the end of a node means for others. False: it is filed like any job."""
        place = row.links
        assert place is not None
        self._stop_awaited(row, was, row.reason or "cancelled")
        graph = place.graph
        place.culprit = ""  # it is to blame itself; whoever gives a node up says otherwise
        if graph is None:
            return False
        graph.stamp += 1
        if place.links.outs:
            self.todo("spread", graph, row)
        if place.links.aftermath:
            return False
        graph.counts[row.state] += 1
        return True

    def _stop_awaited(self, row: Row, was: State, reason: str) -> None:
        """A job that no longer waits takes the graph it waited for with it."""
        awaited = self.graphs.get(row.links.awaits) if row.links is not None and was is State.WAITING else None
        if awaited is not None and awaited.under_way:
            if reason == lifecycle.EXPIRED:  # the job's time has passed, not that of the graph's jobs
                reason = because(row.task, row.id, State.CANCELLED, expired=True)
            self.stop(awaited, "cancel", reason)

    def stop(self, graph: GraphRow, how: str, reason: str, culprit: str = "") -> None:
        if not graph.stopping:
            graph.stopping, graph.reason, graph.culprit = how, reason, culprit
            self.todo("stop", graph)

    def drop(self, graph: GraphRow, op: str = "drop") -> None:
        """A graph is no more; its nodes go in bounded steps. ``op="prune"``: its callbacks stay, while each is kept."""
        graph.phase = Phase.DROPPED
        self.staging.pop(graph.new.id, None)
        self.graphs.pop(graph.new.id, None)
        if graph.end is not None:
            self.nodes.pop(graph.new.id, None)
        self.todo(op, graph)
