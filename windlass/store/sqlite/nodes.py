"""The working set of one step on graphs: nodes and graphs are read once, changed here, and written back together.

No rules: those are in ``spreading``. Only what was loaded is known, and most is written by ``flush``, so that a step
costs a few statements and not a few for each node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from windlass.core.event import Row as EventRow
from windlass.core.graph import because
from windlass.core.job import State
from windlass.core.lifecycle import EXPIRED
from windlass.core.links import In, Out
from windlass.store.base import INLINE_MAX
from windlass.store.shared import STATES
from windlass.store.sqlite.codes import FIRST_TERMINAL, READY, SCHEDULED, SUCCEEDED, WAITING
from windlass.store.sqlite.moves import finished, write
from windlass.store.sqlite.tx import Tx, encode, ids_json

NONE_SUCH = -1
"""The state of a job that has no record: it is not accepted yet, or gone."""

STAGED, DROPPED = -1, -2
"""States of graphs that nobody sees."""


class Node(msgspec.Struct, array_like=True):
    """A job or join as its graph knows it; the order of the fields is the order of NODE."""

    n: int
    graph: int
    id: str
    shape: int
    spare: int
    aftermath: int
    open: int
    broken: int
    delay: int
    at: int
    expires_in: int
    replaced: int
    watched: int
    source: str
    edges: str
    culprit: str
    awaits: str
    run: int
    finished_at: int
    state: int
    reason: str
    job: int = 0
    task: str = ""
    queue: str = ""
    crashes: int = 0
    max_crashes: int = 0
    worker: int = 0
    cancel: int = 0
    bucket: int = 0
    result: str | None = None
    """Of a join, where it was set in this step."""
    error: str | None = None

    @property
    def over(self) -> bool:
        return self.state >= FIRST_TERMINAL

    @property
    def spread(self) -> bool:
        """Whether all edges from it are decided."""
        return "0" not in self.edges


NODE = f"""json_array(v.n, v.graph, v.id, v.shape, v.spare, v.aftermath, v.open, v.broken, v.delay, v.at, v.expires_in,
    v.replaced, v.watched, v.source, v.edges, v.culprit, v.awaits, v.run, v.finished_at,
    iif(v.shape, v.state, coalesce(j.state, {NONE_SUCH})), coalesce(j.reason, v.reason), coalesce(j.n, 0),
    coalesce(j.task, ''), coalesce(j.queue, ''), coalesce(j.crashes, 0), coalesce(j.max_crashes, 0),
    coalesce(j.worker, 0), coalesce(j.cancel, 0), coalesce(j.bucket, 0))"""
BY_ID = (
    f"SELECT json_group_array({NODE}) FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value "
    "LEFT JOIN jobs AS j ON j.id = v.id AND j.node = v.n"
)
BY_NUMBER = (
    f"SELECT json_group_array({NODE}) FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.n = w.value "
    "LEFT JOIN jobs AS j ON j.id = v.id AND j.node = v.n"
)
BY_RANGE = (
    f"SELECT json_group_array({NODE} ORDER BY v.n) "
    "FROM (SELECT * FROM nodes WHERE n > ? AND n <= ? ORDER BY n LIMIT ?) AS v "
    "LEFT JOIN jobs AS j ON j.id = v.id AND j.node = v.n"
)
SAVE_NODES = """
UPDATE nodes SET open = c.value ->> 1, broken = c.value ->> 2, replaced = c.value ->> 3, watched = c.value ->> 4,
    edges = c.value ->> 5, culprit = c.value ->> 6, awaits = c.value ->> 7
FROM jsonb_each(?) AS c WHERE nodes.n = c.value ->> 0
"""
SAVE_JOINS = """
UPDATE nodes SET state = c.value ->> 1, run = c.value ->> 2, finished_at = c.value ->> 3, reason = c.value ->> 4,
    result = c.value ->> 5, error = c.value ->> 6
FROM jsonb_each(?) AS c WHERE nodes.n = c.value ->> 0
"""


class Graph(msgspec.Struct, array_like=True):
    """A graph as a step sees it; the order of the fields is the order of GRAPH."""

    n: int
    id: str | None
    state: int
    nodes: int
    opened: int
    counts: list[int]
    fail_fast: int
    looked_at: int
    looked: int
    finished_at: int
    bucket: int
    stopping: str
    reason: str
    culprit: str
    name: str
    parent: str
    keep_done: str
    keep_failed: str

    @property
    def under_way(self) -> bool:
        return self.state == WAITING

    @property
    def over(self) -> bool:
        return self.state >= FIRST_TERMINAL

    @property
    def last(self) -> int:
        """The number of its last node."""
        return self.n + self.nodes


GRAPH = (
    "json_array(g.n, g.id, g.state, g.nodes, g.opened, json_array(g.succeeded, g.failed, g.cancelled, g.skipped), "
    "g.fail_fast, g.looked_at, g.looked, g.finished_at, g.bucket, g.stopping, g.reason, g.culprit, g.name, g.parent, "
    "g.keep_done, g.keep_failed)"
)
GRAPHS_BY_NUMBER = f"SELECT json_group_array({GRAPH}) FROM json_each(?) AS w CROSS JOIN graphs AS g ON g.n = w.value"
GRAPHS_BY_ID = f"SELECT json_group_array({GRAPH}) FROM json_each(?) AS w CROSS JOIN graphs AS g ON g.id = w.value"
SAVE_GRAPHS = """
UPDATE graphs SET state = c.value ->> 1, opened = c.value ->> 2, succeeded = c.value ->> 3, failed = c.value ->> 4,
    cancelled = c.value ->> 5, skipped = c.value ->> 6, looked_at = c.value ->> 7, looked = c.value ->> 8,
    finished_at = c.value ->> 9, stopping = c.value ->> 10, reason = c.value ->> 11, culprit = c.value ->> 12
FROM jsonb_each(?) AS c WHERE graphs.n = c.value ->> 0
"""
LINKS = (
    "SELECT json_group_array(json_array(l.n, json(l.{side}))) FROM json_each(?) AS w "
    "CROSS JOIN links AS l ON l.n = w.value"
)
OUTS, INS = LINKS.format(side="outs"), LINKS.format(side="ins")
SIZE = "iif(substr({0}, 1, 1) = char(1), (length({0}) - 1) / 2, octet_length({0}))"
"""How many bytes a result has, whichever way it is written (codes.py)."""
AT_HAND = f"""
SELECT iif({SIZE.format("result")} <= {INLINE_MAX}, result, NULL) FROM (
    SELECT result, state FROM jobs WHERE id = ?1
    UNION ALL SELECT result, state FROM nodes WHERE id = ?1 AND shape > 0
) WHERE state = {SUCCEEDED}
"""
ERROR = (
    "SELECT error, fingerprint FROM jobs WHERE id = ?1 "
    "UNION ALL SELECT error, '' FROM nodes WHERE id = ?1 AND shape > 0"
)
AGAIN = (
    "UPDATE jobs SET run = run + 1, attempt = 0, crashes = 0, snoozes = 0, finished_at = 0, expires_at = 0, place = 0, "
    "bucket = 0, result = NULL, progress = NULL, reason = '', fingerprint = '' "
    "WHERE n IN (SELECT value FROM json_each(?))"
)

_nodes = msgspec.json.Decoder(list[Node]).decode
_graphs = msgspec.json.Decoder(list[Graph]).decode
_outs = msgspec.json.Decoder(list[tuple[int, list[Out]]]).decode
_ins = msgspec.json.Decoder(list[tuple[int, list[In]]]).decode


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
        self.hurried: list[Node] = []
        """Jobs that need not wait, and are to be opened before their turn: then nobody would know that any more."""
        self._numbers: dict[int, Node] = {}
        self._outs: dict[int, list[Out]] = {}
        self._errors: dict[str, tuple[str | None, str]] = {}
        self._changed: dict[int, Node] = {}
        self._joins: dict[int, Node] = {}
        self._graphs: dict[int, Graph] = {}
        self._moves: dict[int, list[Any]] = {}
        self._again: dict[int, Node] = {}
        self._expiring: list[list[int]] = []
        self.due: list[tuple[int, str]] = []
        self._gathering: set[str] = set()
        self._filing: list[int] = []
        self._events: defaultdict[str, list[EventRow]] = defaultdict(list)

    # -- reading

    def load(self, ids: Iterable[str]) -> None:
        missing = [id for id in dict.fromkeys(ids) if id not in self.nodes]
        if missing:
            self._know(_nodes(self.tx.value(BY_ID, (ids_json(missing),))))

    def numbered(self, numbers: Sequence[int]) -> list[Node]:
        """Nodes by number, those that are there."""
        missing = [n for n in dict.fromkeys(numbers) if n not in self._numbers]
        if missing:
            self._know(_nodes(self.tx.value(BY_NUMBER, (ids_json(missing),))))
        return [self._numbers[n] for n in numbers if n in self._numbers]

    def page(self, after: int, last: int, limit: int) -> list[Node]:
        found = _nodes(self.tx.value(BY_RANGE, (after, last, limit)))
        self._know(found)
        return [self._numbers[node.n] for node in found]

    def _know(self, found: list[Node]) -> None:
        for node in found:
            if node.n not in self._numbers:
                self.nodes[node.id] = self._numbers[node.n] = node
        missing = {node.graph for node in found} - self.graphs.keys() - {0}
        if missing:
            for graph in _graphs(self.tx.value(GRAPHS_BY_NUMBER, (ids_json(missing),))):
                self.graphs[graph.n] = graph

    def one(self, id: str) -> Node | None:
        self.load([id])
        return self.nodes.get(id)

    def graph(self, node: Node) -> Graph | None:
        return self.graphs.get(node.graph)

    def graph_named(self, id: str) -> Graph | None:
        return next(iter(self.graphs_named([id])), None)

    def graphs_named(self, ids: Sequence[str]) -> list[Graph]:
        """Those of these ids that are graphs, also staged ones."""
        found = _graphs(self.tx.value(GRAPHS_BY_ID, (ids_json(ids),)))
        return [self.graphs.setdefault(graph.n, graph) for graph in found]

    def graph_numbered(self, n: int) -> Graph | None:
        if n not in self.graphs:
            for graph in _graphs(self.tx.value(GRAPHS_BY_NUMBER, (ids_json([n]),))):
                self.graphs[n] = graph
        return self.graphs.get(n)

    def forget(self, nodes: Iterable[int]) -> None:
        """Nodes that were changed by other means than these: read them again."""
        self.flush()
        for n in nodes:
            if n in self._numbers:
                del self.nodes[self._numbers.pop(n).id]

    def doom(self, graph: int) -> None:
        """It was taken out of sight, with all that was still to be written about it."""
        self.graphs.pop(graph, None)
        self._graphs.pop(graph, None)
        self.doomed.append(graph)

    def outs(self, nodes: Iterable[Node]) -> None:
        """Read the edges from these nodes, and the nodes they lead to."""
        missing = [node.n for node in nodes if node.n not in self._outs]
        if missing:
            self._outs.update(_outs(self.tx.value(OUTS, (ids_json(missing),))))
            self.load(out.target for n in missing for out in self._outs.get(n, ()))

    def knows_outs(self, node: int) -> bool:
        return node in self._outs

    def outs_of(self, node: Node) -> list[Out]:
        if node.n not in self._outs:
            self.outs([node])
        return self._outs.get(node.n, [])

    def ins_of(self, node: Node) -> list[In]:
        found = _ins(self.tx.value(INS, (ids_json([node.n]),)))
        return found[0][1] if found else []

    def at_hand(self, id: str) -> str | None:
        """The value of a node that succeeded, if it has one of its own that is small enough to be handed on."""
        known = self.nodes.get(id)
        if known is not None and known.n in self._joins:
            return known.result if known.state == SUCCEEDED else None
        if known is not None and known.job in self._moves:
            self.flush()
        value: str | None = self.tx.value(AT_HAND, (id,))
        return value

    def error_of(self, id: str) -> tuple[str | None, str]:
        if id not in self._errors:
            known = self.nodes.get(id)
            if known is not None and known.job in self._moves:
                self.flush()
            self._errors[id] = self.tx.one(ERROR, (id,)) or (None, "")
        return self._errors[id]

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
        self._move(node, [node.job, to, due, 0, None, None, None, node.crashes, node.max_crashes])
        node.state = to
        if to == READY:
            self.released[node.queue] += 1
        elif to == SCHEDULED:
            self.due.append((due, node.queue))

    def end(
        self, node: Node, state: int, reason: str, error: tuple[str | None, str] = (None, ""), result: str | None = None
    ) -> None:
        """A job ends without having run, or with the value of a graph."""
        if node.state == WAITING and node.awaits:
            self.abandon(node, reason)
        self._move(node, [node.job, state, 0, 0, reason, error[0], error[1], node.crashes, node.max_crashes, result])
        if node.replaced and result is None:
            self._gathering.add(node.id)
        self._errors.pop(node.id, None)
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

    def _move(self, node: Node, row: list[Any]) -> None:
        if node.job in self._moves:
            self.flush()
        self._moves[node.job] = row

    def cancel_running(self, node: Node, reason: str) -> None:
        """Ask its worker to stop it."""
        tx, node.cancel = self.tx, 1
        tx.run("UPDATE jobs SET cancel = 1, reason = ? WHERE n = ?", (reason, node.job))
        tx.run("UPDATE workers SET idle = 0 WHERE n = ?", (node.worker,))
        tx.tell(tx.value("SELECT id FROM workers WHERE n = ?", (node.worker,)))

    def expire_at(self, node: Node, instant: int) -> None:
        self._expiring.append([node.job, instant])

    def again(self, node: Node) -> None:
        """A job begins a new run; where it goes must be said by ``move``."""
        if node.job in self._moves:
            self.flush()
        self._again[node.job] = node
        self._errors.pop(node.id, None)
        node.reason, node.crashes = "", 0

    def join(self, node: Node, state: int, reason: str, result: str | None = None, error: str | None = None) -> None:
        """A join ends, or waits again."""
        node.state, node.reason, node.result, node.error = state, reason, result, error
        node.finished_at = self.tx.now if node.over else 0
        self._errors.pop(node.id, None)
        self._joins[node.n] = node
        if node.over:
            self.ended.append(node)
            if node.watched:
                self._tell(node)

    def _tell(self, node: Node) -> None:
        news = finished(node.id, node.state, node.result, node.error, node.reason, gathers=True)
        for (name,) in self.tx.all("SELECT name FROM watches WHERE job = ?", (-node.n,)):
            self.tx.tell(name, news)
        self.tx.run("DELETE FROM watches WHERE job = ?", (-node.n,))
        self.change(node).watched = 0

    def file(self, node: Node) -> None:
        self._filing.append(node.job)

    # -- writing

    def flush(self) -> None:
        """Write what has changed. Nodes stay known."""
        tx = self.tx
        if self._again:
            self._write_again()
        if self._moves:
            rows, self._moves = list(self._moves.values()), {}
            self.wake_for_due()
            _, in_lanes = write(tx, rows, self._gathering)
            self.released.subtract(in_lanes)
            self._gathering.clear()
        if self._expiring:
            sql = "UPDATE jobs SET expires_at = e.value ->> 1 FROM json_each(?) AS e WHERE jobs.n = e.value ->> 0"
            tx.run(sql, (ids_json(self._expiring),))
            self._expiring.clear()
        if self._changed:
            tx.run(SAVE_NODES, (encode([_counters(node) for node in self._changed.values()]).decode(),))
            self._changed.clear()
        if self._joins:
            tx.run(SAVE_JOINS, (encode([_join_row(node) for node in self._joins.values()]).decode(),))
            self._joins.clear()
        if self._graphs:
            tx.run(SAVE_GRAPHS, (encode([_graph_row(graph) for graph in self._graphs.values()]).decode(),))
            self._graphs.clear()
        if self._filing:
            ranks = tx.take_ranks(len(self._filing))
            values = (tx.now, ranks, tx.memo.done, tx.memo.failed, ids_json(self._filing))
            tx.run("INSERT INTO file VALUES (?, ?, ?, ?, ?)", values)
            self._filing.clear()
        # What was opened comes first: it may have ended in the same step.
        for kind, news in sorted(self._events.items(), key=lambda group: group[0] != "enqueued"):
            tx.record(kind, "", news)
        self._events.clear()

    def _write_again(self) -> None:
        self._unfile(self._again.values())
        self.tx.run(AGAIN, (ids_json(self._again),))
        self._again.clear()

    def _unfile(self, nodes: Iterable[Node]) -> None:
        for bucket, count in Counter(node.bucket for node in nodes if node.bucket).items():
            self.tx.run("UPDATE buckets SET size = size - ? WHERE n = ?", (count, bucket))
        for node in nodes:
            node.bucket = 0

    def wake_for_due(self) -> None:
        """Idle workers sleep until the next due time: when that comes nearer, one must set its alarm anew. To be asked
        before what is due is written."""
        if self.due:
            due, queue = min(self.due)
            before = self.tx.value("SELECT min(due_at) FROM jobs WHERE state = 1")
            if before is None or due < before:
                self.tx.wake(queue, 1)
            self.due.clear()


def _counters(node: Node) -> list[Any]:
    return [
        node.n, node.open, node.broken, node.replaced, node.watched, node.edges, node.culprit, node.awaits,
    ]  # fmt: skip


def _join_row(node: Node) -> list[Any]:
    return [node.n, node.state, node.run, node.finished_at, node.reason, node.result, node.error]


def _graph_row(graph: Graph) -> list[Any]:
    return [
        graph.n, graph.state, graph.opened, *graph.counts, graph.looked_at, graph.looked, graph.finished_at,
        graph.stopping, graph.reason, graph.culprit,
    ]  # fmt: skip
