"""What a step has changed and not written yet. It is written together, so that a step costs a few statements and not a
few for each node."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple

from windlass.core.event import Row as EventRow
from windlass.store.machine.codes import WAITING
from windlass.store.machine.graphs.inherited import Inherited, InheritedError, InheritedValue
from windlass.store.machine.graphs.nodes import GraphRow, NodeRow
from windlass.store.machine.jobs.moves import finished, write
from windlass.store.machine.tx import Tx, encode, ids_json


class JobMove(NamedTuple):
    """Where a job goes. ``crashes`` is from before: who moves it may begin to count anew."""

    node: NodeRow
    to: int
    due: int
    crashes: int
    reason: str | None = None
    error: InheritedError = InheritedError()
    value: InheritedValue = InheritedValue()


class JoinMove(NamedTuple):
    """How a join ended, or that it waits again."""

    node: NodeRow
    state: int
    reason: str
    value: InheritedValue
    error: InheritedError


class Unsaved:
    """The changes of a step that are still to be written by ``flush``."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.nodes: dict[int, NodeRow] = {}
        self.graphs: dict[int, GraphRow] = {}
        self.inherited = Inherited(tx)
        self.released: Counter[str] = Counter()
        """Jobs made ready for which workers are to be woken, by queue."""
        self.due: list[tuple[int, str]] = []
        """When jobs were scheduled for, with their queues."""
        self.expiring: list[tuple[int, int]] = []
        """Jobs, and the instants at which they expire."""
        self.cancelling: list[tuple[int, str, int]] = []
        """Running jobs to be cancelled, with the reason and the worker."""
        self.filing: list[int] = []
        """Jobs that may be put into their buckets."""
        self._moves: dict[int, JobMove] = {}
        self._gathering: set[str] = set()
        self._again: dict[int, NodeRow] = {}
        self._joins: dict[int, JoinMove] = {}
        self._told: list[JoinMove] = []
        self._events: defaultdict[str, list[EventRow]] = defaultdict(list)

    # -- noting

    def event(self, kind: str, row: EventRow, reason: str = "") -> None:
        self._events[kind].append([*row, {"reason": reason}] if reason else row)

    def move(self, move: JobMove) -> None:
        """A job goes somewhere. Where it waited in between is not worth writing."""
        before = self._moves.pop(move.node.job, None)
        if before is not None and before.to != WAITING:
            self._moves[move.node.job] = before
            self.flush()
        self._moves[move.node.job] = move
        if move.reason is not None and move.node.replaced:
            self._gathering.add(move.node.id)

    def again(self, node: NodeRow) -> None:
        """A job begins a new run; where it goes must be said by ``move``."""
        if node.job in self._moves:
            self.flush()
        self._again[node.job] = node

    def join(self, join: JoinMove) -> None:
        self._joins[join.node.n] = join
        if join.node.over and join.node.watched:
            join.node.watched = 0
            self.nodes[join.node.n] = join.node
            self._told.append(join)

    # -- writing

    def flush(self) -> None:
        """Write all of it."""
        if self._again:
            self._write_again()
        self.inherited.read()
        if self._told:
            self._tell()
        if self._moves:
            self._write_moves()
        if self.expiring:
            self.tx.run(self.tx.sql.nodes.EXPIRE_AT, (ids_json(self.expiring),))
            self.expiring.clear()
        if self.nodes or self._joins or self.graphs:
            self._weave()
        if self.cancelling:
            self._cancel()
        if self.filing:
            self._file()
        # What was opened comes first: it may have ended in the same step.
        for kind, news in sorted(self._events.items(), key=lambda group: group[0] != "enqueued"):
            self.tx.record(kind, "", news)
        self._events.clear()

    def _write_again(self) -> None:
        nodes, self._again = self._again, {}
        less = Counter(node.bucket for node in nodes.values() if node.bucket)
        if less:
            self.tx.run(self.tx.sql.retention.TAKE_OUT, (ids_json(less.items()),))
        for node in nodes.values():
            node.bucket = 0
        self.tx.run(self.tx.sql.nodes.AGAIN, (ids_json(nodes),))

    def _tell(self) -> None:
        """Tell those who watch joins how these ended."""
        told, self._told = {-join.node.n: join for join in self._told}, []
        numbers = ids_json(told)
        for job, name in self.tx.all(self.tx.sql.nodes.WATCHERS, (numbers,)):
            node, state, reason, value, error = told[job]
            self.tx.tell(name, finished(node.id, state, value.text, error.text, reason, gathers=True))
        self.tx.run(self.tx.sql.nodes.UNWATCH, (numbers,))

    def _write_moves(self) -> None:
        rows, self._moves = [_move_row(move) for move in self._moves.values()], {}
        self.wake_for_due()
        _, in_lanes = write(self.tx, rows, self._gathering)
        self.released.subtract(in_lanes)
        self._gathering.clear()

    def wake_for_due(self) -> None:
        """Idle workers sleep until the next due time: when that comes nearer, one must set its alarm anew. To be asked
        before what is due is written."""
        if self.due:
            due, queue = min(self.due)
            before = self.tx.value(self.tx.sql.nodes.NEXT_DUE)
            if before is None or due < before:
                self.tx.wake(queue, 1)
            self.due.clear()

    def _weave(self) -> None:
        nodes = [_node_row(node) for node in self.nodes.values()]
        joins = [_join_row(join) for join in self._joins.values()]
        graphs = [_graph_row(graph) for graph in self.graphs.values()]
        self.tx.run(self.tx.sql.nodes.WEAVE, [ids_json(rows) for rows in (nodes, joins, graphs)])
        for saved in (self.nodes, self._joins, self.graphs):
            saved.clear()

    def _cancel(self) -> None:
        rows, self.cancelling = self.cancelling, []
        self.tx.run(self.tx.sql.nodes.CANCEL, (encode(rows).decode(),))
        for (id,) in self.tx.all(self.tx.sql.nodes.ROUSE, (ids_json({worker for *_, worker in rows}),)):
            self.tx.tell(id)

    def _file(self) -> None:
        tx, jobs, self.filing = self.tx, self.filing, []
        ranks = tx.take_ranks(len(jobs))
        tx.run(tx.sql.nodes.FILE, (tx.now, ranks, tx.memo.done, tx.memo.failed, ids_json(jobs)))


def _node_row(node: NodeRow) -> list[Any]:
    return [
        node.n, node.open, node.broken, node.replaced, node.watched, node.edges, node.culprit, node.awaits,
    ]  # fmt: skip


def _join_row(join: JoinMove) -> list[Any]:
    node = join.node
    return [node.n, node.state, node.run, node.finished_at, node.reason, join.value.text, join.error.text]


def _move_row(move: JobMove) -> list[Any]:
    """A row as ``jobs.moves.write`` takes it."""
    node, value, error = move.node, move.value, move.error
    return [
        node.job, move.to, move.due, 0, move.reason, error.text, error.fingerprint, move.crashes, node.max_crashes,
        value.text,
    ]  # fmt: skip


def _graph_row(graph: GraphRow) -> list[Any]:
    return [
        graph.n, graph.state, graph.opened, *graph.counts, graph.looked_at, graph.looked, graph.finished_at,
        graph.stopping, graph.reason, graph.culprit, graph.bucket, graph.place,
    ]  # fmt: skip
