"""A store that fails on order: before a call, after it (the reply is lost), late, or twice. For tests of callers.

It wraps any store and has the whole contract. Without orders it changes nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from windlass.core.event import Entry
from windlass.core.graph import GraphInfo, Input, NewGraph
from windlass.core.hints import did_you_mean
from windlass.core.job import Job, LogLine, NewJob, State
from windlass.core.lifecycle import Transition
from windlass.errors import ConfigError, StoreUnavailable
from windlass.store.answers import MAX_BATCH, Answer, GraphAnswer
from windlass.store.base import Store
from windlass.store.flow import Flow, GateInfo, Hold, Tuning, UniqueInfo
from windlass.store.graphs import GraphPage, Graphs
from windlass.store.items import Commit, Committed, Item, Items, LogInfo, LogKeep, Moment, Record
from windlass.store.jobs import (
    BeatReply,
    Change,
    ChangeReply,
    Deliver,
    ExchangeReply,
    Jobs,
    Note,
    Presence,
    Query,
    SweepReply,
    Want,
    WatchReply,
)
from windlass.store.reads import Fault, Page, QueueInfo, Reads, StoreInfo, Total, WorkerInfo

T = TypeVar("T")
OPERATIONS = frozenset(name for part in (Jobs, Flow, Graphs, Items, Reads) for name in vars(part) if name[0] != "_")
Kind = Literal["fail", "lose_reply", "delay", "duplicate"]


class FailOrder(msgspec.Struct):
    """One order: what happens to the next ``times`` calls of an operation."""

    operation: str
    kind: Kind
    times: int
    error: Exception | None = None
    seconds: float = 0.0


class Faults:
    """The orders, carried out first come first served per operation, and a count of the calls. Many stores may share
    them.
    """

    def __init__(self) -> None:
        self._orders: list[FailOrder] = []
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()

    def fail(self, operation: str, error: Exception | None = None, times: int = 1) -> None:
        """The call fails and nothing is applied."""
        self._order(FailOrder(operation, "fail", times, error))

    def lose_reply(self, operation: str, error: Exception | None = None, times: int = 1) -> None:
        """The call is applied, and the caller hears StoreUnavailable: what a cut connection does."""
        self._order(FailOrder(operation, "lose_reply", times, error))

    def delay(self, operation: str, seconds: float, times: int = 1) -> None:
        """The call is applied after so many real seconds."""
        self._order(FailOrder(operation, "delay", times, seconds=seconds))

    def duplicate(self, operation: str, times: int = 1) -> None:
        """The call is applied twice and the second answer returned: what a resend does."""
        self._order(FailOrder(operation, "duplicate", times))

    def clear(self) -> None:
        """Forget orders not yet obeyed."""
        with self._lock:
            self._orders.clear()

    def _order(self, fault: FailOrder) -> None:
        if fault.operation not in OPERATIONS:
            hint = did_you_mean(fault.operation, OPERATIONS)
            raise ConfigError(f"a store has no operation {fault.operation!r}{hint}")
        with self._lock:
            self._orders.append(fault)

    def take(self, operation: str) -> FailOrder | None:
        """The order for this call; it is used up."""
        with self._lock:
            self.calls[operation] += 1
            fault = next((fault for fault in self._orders if fault.operation == operation), None)
            if fault is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._orders.remove(fault)
            return fault


class FailingStore:
    """``FailingStore(store)``; orders are given to ``.orders``."""

    def __init__(self, store: Store, faults: Faults | None = None) -> None:
        self.store = store
        self.orders = faults or Faults()

    async def _call(self, operation: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        fault = self.orders.take(operation)
        if fault is None:
            return await call()
        if fault.kind == "fail":
            raise fault.error or StoreUnavailable(f"{operation} was ordered to fail")
        if fault.kind == "delay":
            await asyncio.sleep(fault.seconds)
        elif fault.kind == "duplicate":
            await call()
        reply = await call()
        if fault.kind == "lose_reply":
            raise fault.error or StoreUnavailable(f"the reply to {operation} was ordered to be lost")
        return reply

    async def open(self) -> None:
        await self._call("open", self.store.open)

    async def close(self) -> None:
        await self._call("close", self.store.close)

    async def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        return await self._call("insert", lambda: self.store.insert(jobs))

    async def insert_graph(self, graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> GraphAnswer:
        return await self._call("insert_graph", lambda: self.store.insert_graph(graph, first, nodes, commit))

    async def beat(self, presence: Presence, acked_seq: int, held: Sequence[str]) -> BeatReply:
        return await self._call("beat", lambda: self.store.beat(presence, acked_seq, held))

    async def exchange(self, worker: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
        return await self._call("exchange", lambda: self.store.exchange(worker, seq, moves, want))

    async def leave(self, worker: str, crashed: bool = False) -> None:
        await self._call("leave", lambda: self.store.leave(worker, crashed))

    async def note(self, worker: str, notes: Sequence[Note]) -> list[str]:
        return await self._call("note", lambda: self.store.note(worker, notes))

    async def sweep(self, limit: int = MAX_BATCH) -> SweepReply:
        return await self._call("sweep", lambda: self.store.sweep(limit))

    async def change(
        self, change: Change, ids: Sequence[str] = (), query: Query | None = None, limit: int = MAX_BATCH
    ) -> ChangeReply:
        return await self._call("change", lambda: self.store.change(change, ids, query, limit))

    async def tune(self, tunings: Sequence[Tuning]) -> list[GateInfo]:
        return await self._call("tune", lambda: self.store.tune(tunings))

    async def gates(self, names: Sequence[str] = ()) -> list[GateInfo]:
        return await self._call("gates", lambda: self.store.gates(names))

    async def holds(self, ids: Sequence[str]) -> list[Hold | None]:
        return await self._call("holds", lambda: self.store.holds(ids))

    async def uniques(self, keys: Sequence[str]) -> list[UniqueInfo | None]:
        return await self._call("uniques", lambda: self.store.uniques(keys))

    async def moment(self) -> Moment:
        return await self._call("moment", self.store.moment)

    async def watch(self, client: str, ids: Sequence[str]) -> WatchReply:
        return await self._call("watch", lambda: self.store.watch(client, ids))

    async def unwatch(self, client: str, ids: Sequence[str] | None = None) -> None:
        await self._call("unwatch", lambda: self.store.unwatch(client, ids))

    async def listen(self, name: str, deliver: Deliver) -> None:
        await self._call("listen", lambda: self.store.listen(name, deliver))

    async def unlisten(self, name: str) -> None:
        await self._call("unlisten", lambda: self.store.unlisten(name))

    async def signal(self, names: Sequence[str]) -> None:
        await self._call("signal", lambda: self.store.signal(names))

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return await self._call("get", lambda: self.store.get(ids))

    async def find(self, query: Query) -> Page:
        return await self._call("find", lambda: self.store.find(query))

    async def inputs(self, ids: Sequence[str]) -> list[list[Input]]:
        return await self._call("inputs", lambda: self.store.inputs(ids))

    async def graphs(self, states: Sequence[State] = (), after: str = "", limit: int = 100) -> GraphPage:
        return await self._call("graphs", lambda: self.store.graphs(states, after, limit))

    async def graph(self, id: str) -> GraphInfo | None:
        return await self._call("graph", lambda: self.store.graph(id))

    async def members(self, graph: str, after: int = -1, limit: int = MAX_BATCH) -> list[Job]:
        return await self._call("members", lambda: self.store.members(graph, after, limit))

    async def lines(self, id: str, after: int = -1, limit: int = MAX_BATCH) -> list[LogLine]:
        return await self._call("lines", lambda: self.store.lines(id, after, limit))

    async def events(self, after: int, limit: int = 100, kinds: Sequence[str] = ()) -> list[Entry]:
        return await self._call("events", lambda: self.store.events(after, limit, kinds))

    async def totals(self) -> list[Total]:
        return await self._call("totals", self.store.totals)

    async def faults(self, limit: int = MAX_BATCH) -> list[Fault]:
        return await self._call("faults", lambda: self.store.faults(limit))

    async def commit(self, commits: Sequence[Commit]) -> list[Committed]:
        return await self._call("commit", lambda: self.store.commit(commits))

    async def items(self, shelf: str, keys: Sequence[str]) -> list[Item]:
        return await self._call("items", lambda: self.store.items(shelf, keys))

    async def records(
        self, log: str, after: int = 0, limit: int = MAX_BATCH, *, stream: str | None = None, since: int = 0
    ) -> list[Record]:
        return await self._call("records", lambda: self.store.records(log, after, limit, stream=stream, since=since))

    async def logs(self, names: Sequence[str] = ()) -> list[LogInfo]:
        return await self._call("logs", lambda: self.store.logs(names))

    async def retain(self, log: str, keep: LogKeep) -> None:
        await self._call("retain", lambda: self.store.retain(log, keep))

    async def shelf(
        self, name: str, after: str = "", until: str = "", limit: int = MAX_BATCH, newest_first: bool = False
    ) -> list[Item]:
        return await self._call("shelf", lambda: self.store.shelf(name, after, until, limit, newest_first))

    async def queues(self) -> list[QueueInfo]:
        return await self._call("queues", self.store.queues)

    async def workers(self) -> list[WorkerInfo]:
        return await self._call("workers", self.store.workers)

    async def info(self) -> StoreInfo:
        return await self._call("info", self.store.info)
