"""The working set of one step on graphs: nodes and graphs are read once, changed here, and written back together.

No rules: those are in ``spreading``. Only what was loaded is known, and most is written by ``flush``, so that a step
costs a few statements and not a few for each node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from windlass.core.event import Row as EventRow
from windlass.core.graph import because
from windlass.core.job import State
from windlass.core.lifecycle import EXPIRED
from windlass.core.links import In, Out
from windlass.store.machine.codes import FIRST_TERMINAL, READY, SCHEDULED, WAITING
from windlass.store.machine.graphs.handed import Fault, Handed, Value
from windlass.store.machine.graphs.nodes import DROPPED, Graph, Node, graphs_of, ins_of, nodes_of, outs_of
from windlass.store.machine.jobs.moves import finished, write
from windlass.store.machine.tx import Tx, encode, ids_json
from windlass.store.shared import STATES


class Move(NamedTuple):
    """Where a job goes. ``crashes`` is from before: who moves it may begin to count anew."""

    node: Node
    to: int
    due: int
    crashes: int
    reason: str | None = None
    fault: Fault = Fault()
    value: Value = Value()


class Join(NamedTuple):
    """How a join ended, or that it waits again."""

    node: Node
    state: int
    reason: str
    value: Value
    fault: Fault


class Web:
    """Nodes and graphs of one step."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.nodes: dict[str, Node] = {}
        self.graphs: dict[int, Graph] = {}
        self.released: Counter[str] = Counter()
        """Jobs made ready, by queue."""
        self.ended: list[Node] = []
        self.reopened: list[Node] = []
        self.stopped: list[Graph] = []
        self.doomed: list[int] = []
        """What was done here and means something for others, which is still to be put up as todos."""
        self.gone_jobs: dict[int, Node] = {}
        self.gone_nodes: dict[int, Node] = {}
        self.gone_graphs: list[int] = []
        """What is to be deleted: jobs with their nodes, nodes that are no jobs, and graphs."""
        self.resumed: list[tuple[int, int]] = []
        """Buckets from which a graph was taken, with its nodes, as it is under way again."""
        self.closing: dict[int, Graph] = {}
        """Graphs that are over, or that nobody awaits any more, and are to be kept for themselves."""
        self.hurried: list[Node] = []
        """Jobs that need not wait, and are to be opened before their turn: then nobody would know that any more."""
        self._numbers: dict[int, Node] = {}
        self._pages: set[tuple[int, int]] = set()
        self._outs: dict[int, list[Out]] = {}
        self.handed = Handed(tx)
        self._changed: dict[int, Node] = {}
        self._joins: dict[int, Join] = {}
        self._told: list[Join] = []
        self._graphs: dict[int, Graph] = {}
        self._moves: dict[int, Move] = {}
        self._again: dict[int, Node] = {}
        self._expiring: list[list[int]] = []
        self.due: list[tuple[int, str]] = []
        self._gathering: set[str] = set()
        self._filing: list[int] = []
        self._cancelling: list[tuple[int, str, int]] = []
        self._events: defaultdict[str, list[EventRow]] = defaultdict(list)

    # -- reading

    def load(self, ids: Iterable[str]) -> None:
        missing = [id for id in dict.fromkeys(ids) if id not in self.nodes]
        if missing:
            self._know(*self.tx.one(self.tx.sql.nodes.BY_ID, (ids_json(missing),)))

    def numbered(self, numbers: Sequence[int]) -> list[Node]:
        """Nodes by number, those that are there."""
        missing = [n for n in dict.fromkeys(numbers) if n not in self._numbers]
        if missing:
            self._know(*self.tx.one(self.tx.sql.nodes.BY_NUMBER, (ids_json(missing),)))
        return [self._numbers[n] for n in numbers if n in self._numbers]

    def page(self, after: int, last: int, limit: int) -> list[Node]:
        if (after, last) in self._pages and last - after <= limit:
            return [self._numbers[n] for n in range(after + 1, last + 1) if n in self._numbers]
        found = self._know(*self.tx.one(self.tx.sql.nodes.PAGE, (after, last, limit)))
        return [self._numbers[node.n] for node in found]

    def read_pages(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Nodes behind a number, up to another, so that ``page`` need not ask for them."""
        missing = [place for place in ranges if place not in self._pages]
        if missing:
            self._know(*self.tx.one(self.tx.sql.nodes.BY_RANGES, (encode(missing).decode(),)))
            self._pages.update(missing)

    def knows_page(self, graph: int, after: int) -> bool:
        return graph in self.graphs and (after, self.graphs[graph].last) in self._pages

    def _know(self, nodes: str, graphs: str = "[]") -> list[Node]:
        found = nodes_of(nodes)
        for node in found:
            if node.n not in self._numbers:
                self.nodes[node.id] = self._numbers[node.n] = node
        for graph in graphs_of(graphs):
            self.graphs.setdefault(graph.n, graph)
        return found

    def one(self, id: str) -> Node | None:
        self.load([id])
        return self.nodes.get(id)

    def graph(self, node: Node) -> Graph | None:
        return self.graphs.get(node.graph)

    def graph_named(self, id: str) -> Graph | None:
        end = self.nodes.get(id)
        graph = self.graph(end) if end is not None else None
        if graph is not None and graph.id == id:
            return graph
        return next(iter(self.graphs_named([id])), None)

    def graphs_named(self, ids: Sequence[str]) -> list[Graph]:
        """Those of these ids that are graphs, also staged ones."""
        found = graphs_of(self.tx.value(self.tx.sql.nodes.GRAPHS_BY_ID, (ids_json(ids),)))
        return [self.graphs.setdefault(graph.n, graph) for graph in found]

    def graph_numbered(self, n: int) -> Graph | None:
        self.load_graphs([n])
        return self.graphs.get(n)

    def load_graphs(self, numbers: Iterable[int]) -> None:
        missing = [n for n in dict.fromkeys(numbers) if n not in self.graphs]
        if missing:
            for graph in graphs_of(self.tx.value(self.tx.sql.nodes.GRAPHS_BY_NUMBER, (ids_json(missing),))):
                self.graphs[graph.n] = graph

    def forget(self, nodes: Iterable[int]) -> None:
        """Nodes that were changed by other means than these: read them again."""
        self.flush()
        self._pages.clear()
        for n in nodes:
            if n in self._numbers:
                del self.nodes[self._numbers.pop(n).id]

    def doom(self, graph: Graph) -> None:
        """It was taken out of sight, with all that was still to be written about it."""
        graph.id, graph.state, graph.bucket = None, DROPPED, 0
        self.graphs[graph.n] = graph
        self._graphs.pop(graph.n, None)
        self.doomed.append(graph.n)

    def outs(self, nodes: Iterable[Node]) -> None:
        """Read the edges from these nodes, and the nodes they lead to."""
        missing = [node.n for node in nodes if node.edges and node.n not in self._outs]
        if missing:
            outs, targets = self.tx.one(self.tx.sql.nodes.OUTS, (ids_json(missing),))
            self._outs.update(outs_of(outs))
            # Their graphs are known, but for those of jobs that await a graph.
            away = {node.n for node in self._know(targets) if node.graph and node.graph not in self.graphs}
            if away:
                self._know(*self.tx.one(self.tx.sql.nodes.BY_NUMBER, (ids_json(away),)))

    def knows_outs(self, n: int) -> bool:
        return n in self._outs or (n in self._numbers and not self._numbers[n].edges)

    def outs_of(self, node: Node) -> list[Out]:
        if node.n not in self._outs:
            self.outs([node])
        return self._outs.get(node.n, [])

    def ins_of(self, node: Node) -> list[In]:
        found = ins_of(self.tx.value(self.tx.sql.nodes.INS, (ids_json([node.n]),)))
        return found[0][1] if found else []

    # -- changing

    def change(self, node: Node) -> Node:
        self._changed[node.n] = node
        return node

    def change_graph(self, graph: Graph) -> Graph:
        """Something moved in it: an audit under way has to begin anew."""
        graph.looked = 0
        self._graphs[graph.n] = graph
        return graph

    def count(self, node: Node, change: int) -> None:
        """A job of the graph ended, or started again."""
        graph = self.graph(node)
        if graph is not None:
            self.change_graph(graph)
            if not node.aftermath:
                graph.counts[node.state - FIRST_TERMINAL] += change

    def stop(self, graph: Graph, how: str, reason: str, culprit: str = "") -> None:
        """Nothing of it starts from now on; what is there already is for the todo that goes over it."""
        if not graph.stopping:
            self.change_graph(graph)
            graph.stopping, graph.reason, graph.culprit = how, reason, culprit
            self.stopped.append(graph)

    def event(self, kind: str, row: EventRow, reason: str = "") -> None:
        self._events[kind].append([*row, {"reason": reason}] if reason else row)

    def move(self, node: Node, to: int, due: int = 0) -> None:
        """A job becomes waiting, scheduled or ready."""
        self._move(Move(node, to, due, node.crashes))
        node.state = to
        if to == READY:
            self.released[node.queue] += 1
        elif to == SCHEDULED:
            self.due.append((due, node.queue))

    def end(self, node: Node, state: int, reason: str, fault: Fault | None = None, value: Value | None = None) -> None:
        """A job ends without having run, or with the value of a graph."""
        if node.state == WAITING and node.awaits:
            self.abandon(node, reason)
        self._move(Move(node, state, 0, node.crashes, reason, fault or Fault(), value or Value()))
        if node.replaced:
            self._gathering.add(node.id)
        self.handed.becomes(node.id, value, fault)
        node.state, node.reason, node.cancel = state, reason, 0
        self.blame_itself(node)
        self.count(node, 1)
        self.ended.append(node)
        self.event(str(STATES[state]), [node.id, node.task, node.queue], reason)

    def blame_itself(self, node: Node) -> None:
        """It ended, and not because of another; whoever gives a node up says otherwise."""
        if node.culprit:
            self.change(node).culprit = ""

    def abandon(self, node: Node, reason: str) -> None:
        """A job that waited for a graph has ended: the graph goes with it."""
        graph = self.graph_named(node.awaits)
        if graph is not None and graph.under_way:
            if reason == EXPIRED:  # the job's time has passed, not that of the graph's jobs
                reason = because(node.task, node.id, State.CANCELLED, expired=True)
            self.stop(graph, "cancel", reason or "cancelled")

    def _move(self, move: Move) -> None:
        before = self._moves.pop(move.node.job, None)
        if before is not None and before.to != WAITING:
            self._moves[move.node.job] = before
            self.flush()
        self._moves[move.node.job] = move

    def cancel_running(self, node: Node, reason: str) -> None:
        """Ask its worker to stop it."""
        node.cancel = 1
        self._cancelling.append((node.job, reason, node.worker))

    def expire_at(self, node: Node, instant: int) -> None:
        self._expiring.append([node.job, instant])

    def again(self, node: Node) -> None:
        """A job begins a new run; where it goes must be said by ``move``."""
        if node.job in self._moves:
            self.flush()
        self._again[node.job] = node
        self.handed.becomes(node.id)
        node.reason, node.crashes = "", 0

    def join(self, node: Node, state: int, reason: str, value: Value | None = None, fault: Fault | None = None) -> None:
        """A join ends, or waits again."""
        node.state, node.reason = state, reason
        node.finished_at = self.tx.now if node.over else 0
        join = self._joins[node.n] = Join(node, state, reason, value or Value(), fault or Fault())
        self.handed.becomes(node.id, join.value, join.fault)
        if node.over:
            self.ended.append(node)
            if node.watched:
                self.change(node).watched = 0
                self._told.append(join)

    def file(self, node: Node) -> None:
        self._filing.append(node.job)

    # -- writing

    def _tell(self) -> None:
        """Tell those who watch joins how these ended."""
        told, self._told = {-join.node.n: join for join in self._told}, []
        numbers = ids_json(told)
        for job, name in self.tx.all(self.tx.sql.nodes.WATCHERS, (numbers,)):
            node, state, reason, value, fault = told[job]
            self.tx.tell(name, finished(node.id, state, value.text, fault.error, reason, gathers=True))
        self.tx.run(self.tx.sql.nodes.UNWATCH, (numbers,))

    def flush(self) -> None:
        """Write what has changed. Nodes stay known."""
        tx = self.tx
        if self._again:
            self._write_again()
        self.handed.read()
        if self._told:
            self._tell()
        if self._moves:
            rows, self._moves = [_move_row(move) for move in self._moves.values()], {}
            self.wake_for_due()
            _, in_lanes = write(tx, rows, self._gathering)
            self.released.subtract(in_lanes)
            self._gathering.clear()
        if self._expiring:
            tx.run(tx.sql.nodes.EXPIRE_AT, (ids_json(self._expiring),))
            self._expiring.clear()
        if self._changed or self._joins or self._graphs:
            self._save()
        if self._cancelling:
            self._cancel()
        if self._filing:
            ranks = tx.take_ranks(len(self._filing))
            values = (tx.now, ranks, tx.memo.done, tx.memo.failed, ids_json(self._filing))
            tx.run(tx.sql.nodes.FILE, values)
            self._filing.clear()
        # What was opened comes first: it may have ended in the same step.
        for kind, news in sorted(self._events.items(), key=lambda group: group[0] != "enqueued"):
            tx.record(kind, "", news)
        self._events.clear()

    def _save(self) -> None:
        nodes = [_counters(node) for node in self._changed.values()]
        joins = [_join_row(join) for join in self._joins.values()]
        graphs = [_graph_row(graph) for graph in self._graphs.values()]
        self.tx.run(self.tx.sql.nodes.WEAVE, [encode(rows).decode() for rows in (nodes, joins, graphs)])
        for changed in (self._changed, self._joins, self._graphs):
            changed.clear()

    def _cancel(self) -> None:
        rows, self._cancelling = self._cancelling, []
        self.tx.run(self.tx.sql.nodes.CANCEL, (encode(rows).decode(),))
        for (id,) in self.tx.all(self.tx.sql.nodes.ROUSE, (ids_json({worker for *_, worker in rows}),)):
            self.tx.tell(id)

    def _write_again(self) -> None:
        self._unfile(self._again.values())
        self.tx.run(self.tx.sql.nodes.AGAIN, (ids_json(self._again),))
        self._again.clear()

    def _unfile(self, nodes: Iterable[Node]) -> None:
        less = Counter(node.bucket for node in nodes if node.bucket)
        if less:
            self.tx.run(self.tx.sql.retention.TAKE_OUT, (encode(list(less.items())).decode(),))
        for node in nodes:
            node.bucket = 0

    def wake_for_due(self) -> None:
        """Idle workers sleep until the next due time: when that comes nearer, one must set its alarm anew. To be asked
        before what is due is written."""
        if self.due:
            due, queue = min(self.due)
            before = self.tx.value(self.tx.sql.nodes.NEXT_DUE)
            if before is None or due < before:
                self.tx.wake(queue, 1)
            self.due.clear()


def _counters(node: Node) -> list[Any]:
    return [
        node.n, node.open, node.broken, node.replaced, node.watched, node.edges, node.culprit, node.awaits,
    ]  # fmt: skip


def _join_row(join: Join) -> list[Any]:
    node = join.node
    return [node.n, node.state, node.run, node.finished_at, node.reason, join.value.text, join.fault.error]


def _move_row(move: Move) -> list[Any]:
    """As the statement ``shift`` takes it (moves.py)."""
    node, value, fault = move.node, move.value, move.fault
    return [
        node.job, move.to, move.due, 0, move.reason, fault.error, fault.fingerprint, move.crashes, node.max_crashes,
        value.text,
    ]  # fmt: skip


def _graph_row(graph: Graph) -> list[Any]:
    return [
        graph.n, graph.state, graph.opened, *graph.counts, graph.looked_at, graph.looked, graph.finished_at,
        graph.stopping, graph.reason, graph.culprit, graph.bucket, graph.place,
    ]  # fmt: skip
